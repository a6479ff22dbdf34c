"""Walking a proof: one run through its steps, round by round, and where the slack of the final bound is lost.

    walk("paper/theorem", problem, algorithm, sampling=Uniform(2)).headline

The slack of the bound (right side less left side, at the horizon) is the sum over the steps of what each loses: its weight times its
slack, summed over the rounds. That is an identity, so the walk checks it: `Walk.unexplained` is what the weights leave over, 0 in
fractions. A step that fails on the way has a negative slack: it gives the bound what it should not have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Unpack

import numpy as np

from fedtheory.errors import InvalidInput, suggest
from fedtheory.problems.base import Problem
from fedtheory.theory.judge.check import CONFIDENCE, Check, judge, judge_statistical
from fedtheory.theory.judge.proof import Course, Ended, Proof, Step
from fedtheory.theory.judge.proof_report import Place, Tally, Walk
from fedtheory.theory.judge.registry import about_of, all_statements, get, paper_of
from fedtheory.theory.judge.statement import Sides
from fedtheory.theory.judge.substitution import Put
from fedtheory.theory.judge.verify import Options, case_of

__all__ = ["follow", "proofs_of", "walk", "walk_witness"]


def proofs_of(theorem: str = "", form: str = "") -> list[Proof]:
    """The proofs of a theorem, by its statement's id, or those of one of its forms; all that there are where none is named.

    Raises `UnknownName` for no such statement, or no such form with a proof, and `InvalidInput` for
    a statement without a proof in steps, with those that have one.
    """
    every = [p for paper in dict.fromkeys(paper_of(s) for s in all_statements()) for p in paper.proofs]
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
    raise InvalidInput(f"the proof of {theorem} [{form}] is not walked under the {rule} rule: it is about {rules}")


def walk(
    theorem: str | Proof, problem: Problem, algorithm: Any = None, *, form: str = "repaired", **options: Unpack[Options]
) -> Walk:
    """A proof on a problem of yours.

    Parameters
    ----------
    theorem : id of a statement with a proof in steps (`proofs_of`), or a `Proof`
    algorithm : the method; None where the statement says which
    form : which form's proof
    options : of `fedtheory.theory.judge.verify.verify`: sampling, local_solver, x0, rounds, mode, scenarios, seed, confidence, given

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
        raise InvalidInput(f"the proof of {proof.theorem} is walked on its witness only, not on a problem")
    return follow(proof, proof.course(case, proof), case.confidence)


def walk_witness(theorem: str | Proof, witness: Any = None, *, form: str = "printed", rule: str = "") -> Walk:
    """A proof in fractions, along the run of a witness.

    Parameters
    ----------
    witness : a `Witness`, or the name of one that comes with the paper; default the proof's own
    rule : of the method, where neither the witness nor the proof says; default the first that the form has a proof for

    Raises
    ------
    InvalidInput
        As `walk` raises it; a witness that is no run, or of another rule.
    """
    from fedtheory.theory.judge.replay import builtin_witnesses

    if not isinstance(theorem, Proof):
        rules = [r for p in proofs_of(theorem) if p.form == form for r in p.rules]
        theorem = _chosen(theorem, form, getattr(witness, "rule", "") or rule or next(iter(rules), "any"))
    proof = theorem
    if proof.replayed is None:
        remedy = "walked on a problem only: there is no run of it in fractions"
        raise InvalidInput(f"the proof of {proof.theorem} is {remedy}")
    witness = witness or (proof.witness() if callable(proof.witness) else proof.witness)
    if isinstance(witness, str):
        name = witness
        known = {w.name: w for w in builtin_witnesses(get(proof.theorem).paper)}
        if name not in known:
            raise suggest(name, list(known), "witness")
        witness = known[name]
    return follow(proof, proof.replayed(witness, proof))


# what is found on a step on the way: its places, and the slack of each, (S,) of scenarios
_Line = list[tuple[Place, Any]]


def follow(proof: Proof, course: Course, confidence: float = CONFIDENCE) -> Walk:
    """One run through the steps of a proof."""
    _check(proof)
    statement = get(proof.theorem)
    steps = [step for step in proof.steps if not (step.only_drawn and course.exact)]
    lines: list[_Line] = [[] for _ in steps]
    series: dict[str, list[Any]] = {name: [] for name in proof.sums}
    judged = _Judge(course, confidence)
    first = last = None
    for t, (view, weights) in enumerate(course.rounds, 1):
        first, last = first or view, view
        mean = judged.mean_by(weights)
        for name, part in proof.sums.items():
            series[name].append(mean(part(view)))
        for step, line in zip(steps, lines, strict=True):
            if step.over == "round":
                line.append(judged.place(step, _sides(step)(view), view, mean, t))
    if last is None:
        raise InvalidInput(f"the run of {course.name} has no round: there is nothing to walk")
    ended = Ended(course.end(), first, last, course.horizon, series, mean)
    as_they_are = judged.mean_by(None)
    for step, line in zip(steps, lines, strict=True):
        if step.over == "end":
            line.append(judged.place(step, _sides(step)(ended), ended, as_they_are, None))
    final = proof.bound(ended) if proof.bound else statement.form(proof.form).sides_on(ended.run)
    whole = Step("the bound", "", proof.theorem, proof.form)
    bound, total = judged.place(whole, final, ended.run, as_they_are, None)
    tallies = [_tally(step, line, ended, course) for step, line in zip(steps, lines, strict=True)]
    lost = [t.lost for t in tallies if t.lost is not None]
    unexplained = judged.expected(total) - sum(lost[1:], lost[0]) if lost else None
    return Walk(
        proof=proof, instance=course.name, rule=course.rule, horizon=course.horizon, exact=course.exact, check=bound.check,
        lhs=bound.lhs, rhs=bound.rhs, slack=judged.expected(total), tallies=tallies, unexplained=unexplained,
        formula=statement.form(proof.form).latex,
    )  # fmt: skip


def _check(proof: Proof) -> None:
    for step in proof.steps:
        where = f"step {step.label!r} of the proof of {proof.theorem}"
        if step.statement and step.form:
            get(step.statement).form(step.form)
        elif step.sides is None:
            raise InvalidInput(f"{where}: give a statement and a form, or its sides")
        if step.over not in ("round", "end"):
            raise InvalidInput(f"{where}: over = {step.over!r}; use 'round' or 'end'")


def _sides(step: Step) -> Any:
    return step.sides or get(step.statement).form(step.form).sides


def _tally(step: Step, line: _Line, ended: Ended, course: Course) -> Tally:
    places, rounds = [place for place, _ in line], len(line)
    weight = None if step.weight is None else step.weight(ended)
    if weight is None:
        return Tally(step, None, places)
    each = np.asarray(weight).ravel()
    if len(each) == 1:
        each = np.repeat(each, rounds)
    elif len(each) != rounds:
        told = f"step {step.label!r}: {len(each)} weights for {rounds} rounds"
        raise InvalidInput(f"{told}; give one number, or one for each")
    losses = [w * slack for w, (_, slack) in zip(each, line, strict=True)]
    lost, error = sum(losses[1:], losses[0]), 0.0
    if not course.exact:
        error = float(np.std(lost, ddof=1) / np.sqrt(np.size(lost))) if np.size(lost) > 1 else 0.0
        lost = float(np.mean(lost))
    return Tally(step, list(each), places, lost, error)


@dataclass(frozen=True)
class _Judge:
    course: Course
    confidence: float

    def mean_by(self, weights: Any) -> Any:
        """Expectation over the states of a round: (S,) -> number; of scenarios the values as they are, (S,)."""

        def mean(values: Any) -> Any:
            flat = np.asarray(values).ravel()
            if not self.course.exact:
                return flat
            if weights is not None:
                return (flat * weights).sum()
            return flat.sum() / (Fraction(len(flat)) if flat.dtype == object else len(flat))

        return mean

    def expected(self, values: Any) -> Any:
        """A number of what is one, or a mean over the scenarios."""
        flat = np.asarray(values).ravel()
        return flat[0] if len(flat) == 1 else float(flat.mean())

    def place(self, step: Step, sides: Sides, view: Any, mean: Any, t: int | None) -> tuple[Place, Any]:
        """A step in one round: what is shown of it, and its slack (a number, or one for each scenario)."""
        lhs, rhs = self._compared(sides)
        judged, sums = sides, step.in_mean and self.course.exact
        if sums:  # claimed of the expectation over the states only
            left, right, scale = (np.asarray([mean(x)]) for x in (lhs, rhs, sides.scale))
            noise = 0 if scale.dtype == object else float(np.max(sides.noise))
            judged = Sides(left, right, scale, sides.relation, noise)
        check = self._verdict(step, judged, lhs, rhs, t)
        left, right = mean(lhs), mean(rhs)
        form = get(step.statement).form(step.form) if step.statement and step.form else None
        put = Put.of(step, sides, view, form, lambda values: self.expected(mean(values)))
        return Place(t, self.expected(left), self.expected(right), check, put), right - left

    def _compared(self, sides: Sides) -> tuple[Any, Any]:
        """Both sides; of an equation of numbers what stands on each, and of vectors the largest difference against 0."""
        if sides.relation == "==" and len(sides.terms) == 2 and np.shape(sides.terms[0]) == np.shape(sides.lhs):
            return tuple(np.broadcast_to(np.asarray(term), np.shape(sides.lhs)) for term in sides.terms)  # type: ignore[return-value]
        return sides.lhs, sides.rhs

    def _verdict(self, step: Step, sides: Sides, lhs: Any, rhs: Any, t: int | None) -> Check:
        fields: dict[str, Any] = {"statement": step.statement or step.label, "form": step.form, "rule": self.course.rule}
        given_the_state = self.course.conditional and t is not None and not step.in_mean
        if self.course.exact or np.size(sides.lhs) == 1 or given_the_state:
            return judge(sides, **fields)
        looks = max(1, self.course.horizon)
        left, right, scale = (np.asarray(a, dtype=float).reshape(1, -1) for a in (lhs, rhs, sides.scale))
        noise = float(np.max(sides.noise))
        if sides.relation == "<=":
            return judge_statistical(Sides(left, right, scale, "<=", noise), self.confidence, looks, **fields)
        if lhs is sides.lhs:  # an equation of vectors, true in expectation only
            why = "it is an equation between expectations: scenarios show none"
            return Check(verdict="inconclusive", reason=why, mode="statistical", **fields)
        two_sided = (1 + self.confidence) / 2
        ways = (Sides(left, right, scale, "<=", noise), Sides(right, left, scale, "<=", noise))
        both = [judge_statistical(way, two_sided, looks, **fields) for way in ways]
        violated = next((c for c in both if c.verdict == "violated"), None)
        agree = "both sides agree within the error of the scenarios"
        found = violated or replace(both[0], verdict="inconclusive", reason=agree)
        gap = abs(float(np.mean(left - right)))  # as of every equality: by how much the sides differ, against 0
        return replace(found, lhs=gap, rhs=0.0, slack=-abs(found.slack), tightness=float("nan"), relation="==")
