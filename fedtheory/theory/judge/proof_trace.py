"""Walking a proof: one run through its steps, round by round, and where the slack of the final
bound is lost.

    walk("paper/theorem", problem, algorithm, sampling=Uniform(2)).headline

The slack of the bound (right side less left side, at the horizon) is the sum over the steps of what
each loses: its weight times its slack, summed over the rounds. That is an identity, so the walk
checks it: `Walk.unexplained` is what the weights leave over, 0 in fractions. A step that fails on
the way has a negative slack: it gives the bound what it should not have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Unpack

import numpy as np

from fedtheory.errors import InvalidInput, suggest
from fedtheory.problems.base import Problem
from fedtheory.theory.judge.check import CONFIDENCE, Check, judge, judge_statistical
from fedtheory.theory.judge.proof import Course, Proof, Step
from fedtheory.theory.judge.proof_report import Place, Tally, Walk
from fedtheory.theory.judge.registry import about_of, all_statements, get, paper_of
from fedtheory.theory.judge.statement import Sides, eq
from fedtheory.theory.judge.substitution import Put
from fedtheory.theory.judge.verify import Options, case_of
from fedtheory.theory.judge.witness import Witness

__all__ = ["compared", "follow", "proofs_of", "sides_of", "walk", "walk_witness"]


def proofs_of(theorem: str = "", form: str = "") -> list[Proof]:
    """The proofs of a theorem, by its statement's id, or those of one of its forms; all that there
    are where none is named.

    Raises `UnknownName` for no such statement, or no such form with a proof, and `InvalidInput` for
    a statement without a proof in steps, with those that have one.
    """
    every = [
        p for paper in dict.fromkeys(paper_of(s) for s in all_statements()) for p in paper.proofs
    ]
    if not theorem:
        return every
    id = get(theorem).id
    found = [p for p in every if p.theorem == id]
    if not found:
        known = ", ".join(dict.fromkeys(p.theorem for p in every))
        asked = f"`fedtheory explain {id}` says what is known of it"
        remedy = f"those that have one are {known}; {asked}"
        if paper_of(id).file:
            remedy = "add paper.proof(THEOREM, steps=[step(...), ...]) to its file"
        raise InvalidInput(f"{id} has no proof in steps: {remedy}")
    forms = list(dict.fromkeys(p.form for p in found))
    if form and form not in forms:
        raise suggest(form, forms, f"form of {theorem} with a proof in steps")
    return [p for p in found if form in ("", p.form)]


def _chosen(theorem: str | Proof, form: str, rule: str) -> Proof:
    if isinstance(theorem, Proof):
        return theorem
    of_form = proofs_of(theorem, form)
    for proof in of_form:
        if rule in proof.rules or "any" in proof.rules:
            return proof
    rules = ", ".join(r for p in of_form for r in p.rules)
    raise InvalidInput(
        f"the proof of {theorem} [{form}] is not walked under the {rule} rule: it is about {rules}"
    )


def walk(
    theorem: str | Proof, problem: Problem, algorithm: Any = None, *, form: str = "repaired",
    **options: Unpack[Options]
) -> Walk:
    """A proof on a problem of yours.

    Parameters
    ----------
    theorem : id of a statement with a proof in steps (`proofs_of`), or a `Proof`
    algorithm : the method; None where the statement says which
    form : which form's proof
    options : of `fedtheory.theory.judge.verify.verify`: sampling, local_solver, x0, rounds, mode,
        scenarios, seed, confidence, given

    Raises
    ------
    InvalidInput
        No proof of that form; an assumption that fails; and as `verify` raises it.
    UnknownName
        No such statement, form or argument.
    NotCertified
        An optimum that cannot be certified.
    """
    id = theorem.theorem if isinstance(theorem, Proof) else proofs_of(theorem)[0].theorem
    case = case_of(id, problem, algorithm, **options)
    case.check_solver(about_of(get(id)).work)
    proof = _chosen(theorem, form, case.rule)
    if proof.course is None:
        raise InvalidInput(
            f"the proof of {proof.theorem} is walked on its witness only, not on a problem"
        )
    return follow(proof, proof.course(case, proof), case.confidence)


def walk_witness(
    theorem: str | Proof, witness: Any = None, *, form: str = "printed", rule: str = ""
) -> Walk:
    """A proof in fractions, along the run of a witness.

    Parameters
    ----------
    witness : a `Witness`, or the name of one that comes with the paper; default the proof's own
    rule : of the method, where neither the witness nor the proof says; default the first that the
        form has a proof for

    Raises
    ------
    InvalidInput
        As `walk` raises it; a witness that is no run, or of another rule.
    """
    id = theorem.theorem if isinstance(theorem, Proof) else proofs_of(theorem)[0].theorem
    witness = _shipped(id, witness) if isinstance(witness, str) else witness
    if isinstance(theorem, Proof):
        proof = theorem
    else:
        rules = [r for p in proofs_of(theorem) if p.form == form for r in p.rules]
        proof = _chosen(
            theorem, form, getattr(witness, "rule", "") or rule or next(iter(rules), "any")
        )
    if proof.replayed is None:
        raise InvalidInput(
            f"the proof of {id} is walked on a problem only: there is no run of it in fractions"
        )
    own = proof.witness if witness is None else witness
    own = own() if callable(own) else _shipped(id, own) if isinstance(own, str) else own
    return follow(proof, proof.replayed(own, proof))


def _shipped(theorem: str, name: str) -> Witness:
    """A witness that comes with the theorem's paper."""
    from fedtheory.theory.judge.replay import builtin_witnesses

    known = {w.name: w for w in builtin_witnesses(get(theorem).paper)}
    if name not in known:
        raise suggest(name, list(known), "witness")
    return known[name]


# what is found on a step on the way: its places, and of each the slack, (S,) of scenarios, and that
# of what was drawn
_Line = list[tuple[Place, Any, Any]]
CHANCE = Step(
    "chance", "what was drawn stands for all that could be: what is left is chance, 0 in the mean",
    formula=r"\textstyle\sum_t\mathbb E_{t-1}[\text{slack of round }t]=\sum_t\text{slack of round "
    r"}t\text{ as drawn}",
    over="end", only_drawn=True,
)  # fmt: skip


def follow(proof: Proof, course: Course, confidence: float = CONFIDENCE) -> Walk:
    """One run through the steps of a proof."""
    _check(proof)
    statement, steps = get(proof.theorem), proof.steps
    lines: list[_Line] = [[] for _ in steps]
    judged, apart = _Judge(course, confidence), False
    for t, (view, chance, drawn) in enumerate(course.rounds, 1):
        mean = judged.mean_by(chance)
        for step, line in zip(steps, lines, strict=True):
            if step.over == "round":
                place, slack = judged.place(step, sides_of(step, view), view, mean, t)
                came = slack if drawn is None or step.weight is None else drawn(step, slack)
                apart = apart or came is not slack
                line.append((place, slack, came))
    run, mean = course.end(), judged.mean_by(course.chance)
    for step, line in zip(steps, lines, strict=True):
        if step.over != "round":
            both = sides_of(step, run)
            parts: list[tuple[Any, Sides]] = (
                [(None, both)] if step.over == "end" else [*enumerate(both.rows, 1)]
            )
            for at, sides in parts:
                place, slack = judged.place(step, sides, run, mean, at)
                line.append((place, slack, slack))
    if not all(lines):
        raise InvalidInput(f"the run of {course.name} has no round: there is nothing to walk")
    whole = Step("the bound", "", proof.theorem, proof.form)
    bound, total = judged.place(
        whole, sides_of(whole, run).at_the_end(course.exact), run, mean, None
    )
    weights = [_weights(step, run, len(line)) for step, line in zip(steps, lines, strict=True)]
    tallies = [_tally(*found, course.exact) for found in zip(steps, weights, lines, strict=True)]
    if apart:
        shares = [
            (w, found) for each, line in zip(weights, lines, strict=True) if each
            for w, found in zip(each, line, strict=True)
        ]
        expected, seen = (sum(w * found[i] for w, found in shares) for i in (1, 2))
        place, slack = judged.place(CHANCE, eq(expected, seen), run, mean, None)
        tallies.append(_tally(CHANCE, [1.0], [(place, slack, slack)], course.exact))
    lost = [t.lost for t in tallies if t.lost is not None]
    unexplained = judged.expected(total) - sum(lost[1:], lost[0]) if lost else None
    return Walk(
        proof=proof, instance=course.name, rule=course.rule, horizon=course.horizon,
        exact=course.exact, check=bound.check, lhs=bound.lhs, rhs=bound.rhs,
        slack=judged.expected(total), tallies=tallies, unexplained=unexplained,
        formula=statement.form(proof.form).latex,
    )  # fmt: skip


def _check(proof: Proof) -> None:
    for step in proof.steps:
        where = f"step {step.label!r} of the proof of {proof.theorem}"
        if step.statement and step.form:
            get(step.statement).form(step.form)
        elif step.sides is None:
            raise InvalidInput(f"{where}: give a statement and a form, or its sides")
        if step.over not in ("round", "rounds", "end"):
            raise InvalidInput(f"{where}: over = {step.over!r}; use 'round', 'rounds' or 'end'")


def sides_of(step: Step, view: Any) -> Sides:
    """Both sides of a step on a view of a round, or of the whole run."""
    return step.sides(view) if step.sides else get(step.statement).form(step.form).sides_on(view)


def over_cohorts(values: Any, view: Any) -> Any:
    """The expectation over the cohorts of what has an entry for each of them, on a view that knows
    their chances."""
    array, expectation = np.asarray(values), getattr(type(view), "expectation", None)
    if array.ndim < 2 or expectation is None or view.sampled:
        return array
    return expectation(view, array)


def compared(sides: Sides, view: Any) -> tuple[Any, Any]:
    """Both sides as they enter a sum over the states, (S,)."""
    lhs, rhs = sides.compared
    return over_cohorts(lhs, view), over_cohorts(rhs, view)


def _weights(step: Step, run: Any, places: int) -> list[Any] | None:
    """What one unit of a step's slack adds to that of the bound, in each of its places; None
    without a weight."""
    weight = None if step.weight is None else step.weight(run)
    if weight is None:
        return None
    each = np.asarray(weight).ravel()
    if len(each) not in (1, places):
        told = f"step {step.label!r}: {len(each)} weights for {places} rounds"
        raise InvalidInput(f"{told}; give one number, or one for each")
    return list(np.broadcast_to(each, places))


def _tally(step: Step, weights: list[Any] | None, line: _Line, exact: bool) -> Tally:
    places = [place for place, *_ in line]
    if weights is None:
        return Tally(step, None, places)
    losses = [w * slack for w, (_, slack, _) in zip(weights, line, strict=True)]
    lost, error = sum(losses[1:], losses[0]), 0.0
    if not exact:
        error = float(np.std(lost, ddof=1) / np.sqrt(np.size(lost))) if np.size(lost) > 1 else 0.0
        lost = float(np.mean(lost))
    return Tally(step, weights, places, lost, error)


@dataclass(frozen=True)
class _Judge:
    course: Course
    confidence: float

    def mean_by(self, chance: Any) -> Any:
        """Expectation over the states of a round: (S,) -> number; of scenarios the values as they
        are, (S,)."""

        def mean(values: Any) -> Any:
            flat = np.asarray(values).ravel()
            if not self.course.exact:
                return flat
            rows = flat.reshape(1 if chance is None or len(flat) == 1 else len(chance), -1)
            many = Fraction(rows.shape[1]) if flat.dtype == object else rows.shape[1]
            return (rows.sum(axis=1) * (1 if len(rows) == 1 else chance)).sum() / many

        return mean

    def expected(self, values: Any) -> Any:
        """A number of what is one, or a mean over the scenarios."""
        flat = np.asarray(values).ravel()
        return flat[0] if len(flat) == 1 else float(flat.mean())

    def place(
        self, step: Step, sides: Sides, view: Any, mean: Any, t: int | None
    ) -> tuple[Place, Any]:
        """A step in one round: what is shown of it, and its slack (a number, or one for each
        scenario)."""
        lhs, rhs = compared(sides, view)
        judged, sums = sides, step.in_mean and self.course.exact
        if sums:  # claimed of the expectation over the states only
            left, right, scale = (np.asarray([mean(x)]) for x in (lhs, rhs, sides.scale))
            noise = 0 if scale.dtype == object else float(np.max(sides.noise))
            judged = Sides(left, right, scale, sides.relation, noise)
        check = self._verdict(step, judged, lhs, rhs, t)
        left, right = mean(lhs), mean(rhs)
        form = get(step.statement).form(step.form) if step.statement and step.form else None
        put = Put.of(
            step, sides, view, form, lambda values: self.expected(mean(over_cohorts(values, view)))
        )
        return Place(t, self.expected(left), self.expected(right), check, put), right - left

    def _verdict(self, step: Step, sides: Sides, lhs: Any, rhs: Any, t: int | None) -> Check:
        fields: dict[str, Any] = {
            "statement": step.statement or step.label, "form": step.form, "rule": self.course.rule
        }
        given_the_state = (
            self.course.conditional and t is not None and step.over == "round" and not step.in_mean
        )
        if self.course.exact or np.size(sides.lhs) == 1 or given_the_state:
            return judge(sides, **fields)
        looks = max(1, self.course.horizon)
        left, right, scale = (
            np.asarray(a, dtype=float).reshape(1, -1) for a in (lhs, rhs, sides.scale)
        )
        noise = float(np.max(sides.noise))
        if sides.relation == "<=":
            return judge_statistical(
                Sides(left, right, scale, "<=", noise), self.confidence, looks, **fields
            )
        if sides.compared[0] is sides.lhs:  # an equation of vectors, true in expectation only
            why = "it is an equation between expectations: scenarios show none"
            return Check(verdict="inconclusive", reason=why, mode="statistical", **fields)
        two_sided = (1 + self.confidence) / 2
        ways = (Sides(left, right, scale, "<=", noise), Sides(right, left, scale, "<=", noise))
        both = [judge_statistical(way, two_sided, looks, **fields) for way in ways]
        violated = next((c for c in both if c.verdict == "violated"), None)
        agree = "both sides agree within the error of the scenarios"
        found = violated or replace(both[0], verdict="inconclusive", reason=agree)
        # as of every equality: by how much the sides differ, against 0
        gap = abs(float(np.mean(left - right)))
        return replace(
            found, lhs=gap, rhs=0.0, slack=-abs(found.slack), tightness=float("nan"), relation="=="
        )
