"""A study: all that follows from a statement: checks, counterexamples, needs, a figure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.inputs import flag, whole_number
from fedtheory.plotting.figure import Figure
from fedtheory.provenance import write_atomic
from fedtheory.randomness import Stream
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.mutants import MutantFate
from fedtheory.theory.judge.search import SearchResult
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.forms import Undefined
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import check
from fedtheory.theory.rounds.losses import Unbounded
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.proof_scopes import announce_proofs
from fedtheory.theory.rounds.quantities import CONSTANTS, FUNCTIONS, ROUND, RUN, told_quantities
from fedtheory.theory.studies.certificates import StatementCertificate, certificate
from fedtheory.theory.studies.counterexamples import in_fractions
from fedtheory.theory.studies.findings import Row, StatementStudy, Tightness
from fedtheory.theory.studies.necessity import (
    AssumptionNeed,
    ConstantNeed,
    assumption_need,
    constant_need,
    mutant_fates,
)
from fedtheory.theory.studies.search import Search
from fedtheory.theory.studies.words import findings, renderables, table

__all__ = ["Row", "StatementStudy", "Study", "Tightness", "quantities", "study"]

RATIONAL = 12  # instances judged in fractions
FLOATS = 24  # and in floats
PROBLEMS = 8  # problems of the package
OnProgress = Callable[[int, int, str], None]


@dataclass
class Study:
    """The result of `study`; prints as a table with what was found below it."""

    studies: list[StatementStudy]
    seed: int
    budget: int

    # to the command line: nothing of these statements need be printed beside it
    shows_forms: ClassVar[bool] = True

    @property
    def rows(self) -> list[Row]:
        """One row a form of each statement."""
        return [row for s in self.studies for row in s.rows]

    @property
    def checks(self) -> list[Check]:
        """Every check."""
        return [c for s in self.studies for c in s.checks]

    @property
    def counterexamples(self) -> list[Witness]:
        """Proved in fractions, one a form that fails."""
        return [c for s in self.studies for c in s.counterexamples.values()]

    @property
    def searches(self) -> list[SearchResult]:
        """The results of the search for counterexamples, form by form."""
        return [s.search_result(form) for s in self.studies for form in s.statement.forms]

    witnesses = counterexamples  # as the command line asks for them

    @property
    def tightness(self) -> list[Tightness]:
        """The instance of each form on which it is tightest."""
        return [t for s in self.studies for t in s.tightness]

    @property
    def necessity(self) -> list[ConstantNeed | AssumptionNeed]:
        """The needs of each form that was not refuted: its constants, then its assumptions."""
        return [need for s in self.studies for need in s.needs]

    @property
    def certificates(self) -> list[StatementCertificate]:
        """Of each form that is proved for all losses of its class, and of each best value of a
        constant."""
        best = [
            (s.statement, b.proof) for s in self.studies for _, b in s.best if b.proof is not None
        ]
        proofs = [(s.statement, found) for s in self.studies for found in s.proofs.values()]
        return [certificate(statement, found) for statement, found in [*proofs, *best]]

    @property
    def mutants(self) -> list[MutantFate]:
        """Deliberately wrong variants: the author's, and every constant a tenth tighter."""
        return [m for s in self.studies for m in s.mutants]

    @property
    def ok(self) -> bool:
        """True if every verdict is the one on record."""
        return all(row.ok for row in self.rows)

    def row(self, statement: str, form: str) -> Row:
        """The row of one form; the statement by its name or its whole id."""
        for row in self.rows:
            if form == row.form and statement in (row.statement, row.statement.partition("/")[2]):
                return row
        known = ", ".join(f"{r.statement} [{r.form}]" for r in self.rows)
        raise InvalidInput(f"no row of {statement} [{form}]: there are {known}")

    def to_json(self) -> dict[str, Any]:
        """Everything as plain data; None for a number that there is not."""

        def plain(value: Any) -> Any:
            if isinstance(value, Fraction):
                return str(value)
            if hasattr(value, "to_json"):
                return value.to_json()
            if is_dataclass(value):
                return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
            if isinstance(value, float) and not np.isfinite(value):
                return None
            if isinstance(value, dict):
                return {k: plain(v) for k, v in value.items()}
            return [plain(v) for v in value] if isinstance(value, list | tuple) else value

        return {
            "ok": self.ok, "seed": self.seed, "budget": self.budget,
            "rows": [plain(vars(r)) | {"ok": r.ok, "known": r.known} for r in self.rows],
            "counterexamples": plain(self.counterexamples), "tightness": plain(self.tightness),
            "constants": plain([c for s in self.studies for c in s.constants]),
            "assumptions": plain([a for s in self.studies for a in s.assumptions]),
            "mutants": plain(self.mutants),
            "proved": {
                f"{s.statement.id} [{form}]": found.told for s in self.studies
                for form, found in s.proofs.items()
            },
            "follows": {
                f"{s.statement.id} [{form}]": found.follows
                for s in self.studies for form, found in s.proofs.items() if found.follows
            },
            "unproved": {
                f"{s.statement.id} [{form}]": why for s in self.studies
                for form, why in s.unproved.items()
            },
            "best_constants": plain([
                {
                    "statement": s.statement.id, "form": f,
                    **{n: v for n, v in vars(b).items() if n != "proof"}
                }
                for s in self.studies for f, b in s.best
            ]),
        }  # fmt: skip

    def figure(self, path: str | Path, statement: str | None = None) -> list[Path]:
        """The bound against what was measured, as PNG and PDF, with the data of it as JSON:
        `fedtheory.theory.studies.figure.draw`."""
        from fedtheory.theory.studies.figure import draw

        known = {s.statement.id: s for s in self.studies}
        chosen = next((id for id in known if statement is None or id.endswith(statement)), None)
        if chosen is None:
            there = ", ".join(known)
            raise InvalidInput(f"no statement {statement!r} in this study: there are {there}")
        return draw(known[chosen], Path(path))

    def findings(self) -> list[tuple[str, str]]:
        """(label, words) of everything that was found, for reports; of a statement with rules the
        label names the rule."""
        rules = [
            "" if one.statement.rule == "any" else f", {one.statement.rule} rule"
            for one in self.studies
        ]
        pairs = zip(rules, self.studies, strict=True)
        return [(f"{label}{rule}", words) for rule, one in pairs for label, words in findings(one)]

    def figures(self) -> tuple[Figure, ...]:
        """One figure a statement: `fedtheory.theory.studies.figure.figure`."""
        from fedtheory.theory.studies.figure import figure

        return tuple(figure(one) for one in self.studies)

    def save(self, path: str | Path) -> Path:
        """`to_json` in a file."""
        return write_atomic(path, json.dumps(self.to_json(), indent=1))

    def __rich_console__(self, console: Any, options: Any) -> Any:
        yield from renderables(self)

    def __str__(self) -> str:
        return table(self)


def study(
    target: Any, budget: int = 1000, seed: int = 0, necessity: bool = True,
    on_progress: OnProgress | None = None, checks: Sequence[Check] = (),
    instances: Mapping[str, Draw] | None = None,
) -> Study:  # fmt: skip
    """Check statements, search for counterexamples, and find out what is tight and what is needed.

    Parameters
    ----------
    target : a `Paper`, a statement, or several; of a paper those over a `World` are left out
    budget : instances that the search looks at for each statement; of a constant, or an
        assumption that is dropped, a third
    seed : of everything that is drawn
    necessity : whether to ask what the constants and assumptions of standing forms are needed for
    on_progress : callable(done, total, words)
    checks : of a campaign; a statement that has some is not judged on random instances again
    instances : by the names that the checks have for them, those of a campaign that violate a form

    Raises
    ------
    InvalidInput, UnknownName, MissingCapability
        The statement cannot be judged; with file and line. One over a `World`, which
        ``fedtheory verify`` judges.
    """
    flag("necessity", necessity)
    whole_number("budget", budget, least=1), whole_number("seed", seed, least=0)
    if hasattr(target, "authored"):
        every = list(target.authored.values())
        statements = [s for s in every if not s.of_world] or every
    else:
        statements = list(target) if isinstance(target, list | tuple) else [target]
    if over := [s.id for s in statements if s.of_world]:
        raise MissingCapability(
            f"{over[0]}: a study moves the constants and assumptions of a statement about a "
            "method, and this one is over a World; `fedtheory verify FILE.py` judges it, and "
            "searches for counterexamples"
        )
    if not statements:
        raise InvalidInput(
            "there is no statement to study: decorate a function with @paper.statement(...)"
        )
    tell = on_progress or (lambda done, total, words: None)
    found = []
    for one in (variant for s in statements for variant in s.variants.values()):
        known = [c for c in checks if (c.statement, c.rule) == (one.id, one.rule)]
        found.append(_one(one, budget, seed, necessity, tell, known, instances or {}))
    return Study(found, seed, budget)


def quantities(over: str = "round") -> dict[str, str]:
    """The named quantities of a statement about a round (or a fixed point), or about a run: what
    they are, and their shapes.

    The axes of a round are S starts, then C cohorts, of a quantity from before the round 1. Those
    of a run are its T + 1 states, so that ``q.gap[0]`` is the gap at the start, then S scenarios
    (sequences of cohorts). N clients (or a cohort's P) and d coordinates stand behind.
    """
    table = RUN if over == "run" else ROUND
    words, numbers = told_quantities(over), dict.fromkeys((*CONSTANTS, "T"), "()")
    shaped = dict.fromkeys(words, "") | numbers | {name: one.shape for name, one in table.items()}
    found = {
        name: "a number" if shape == "()" else f"shape {shape}" for name, shape in shaped.items()
    }
    return {
        name: text if name in FUNCTIONS else f"{text.removesuffix('.')}; {found[name]}"
        for name, text in words.items()
    }


def _one(
    statement: Any, budget: int, seed: int, necessity: bool, on_progress: OnProgress,
    known: list[Check], instances: Mapping[str, Draw],
) -> StatementStudy:  # fmt: skip
    setting = MethodSetting.of(statement)
    rng = Stream(seed).generator(f"authoring study {statement.id}")
    search = Search(setting, seed)
    search.run(
        budget, on_progress=lambda done, total: on_progress(done, total, f"{statement.id}: search")
    )
    out = StatementStudy(statement, search, budget, list(known))
    if search.tried == search.skipped:
        raise InvalidInput(
            f"{statement.place}: nothing could be judged on {search.tried} instances: "
            f"{search.refused}"
        )
    out.in_floats_only = next(
        filter(
            None, (in_fractions(setting, e.instance) for es in search.best.values() for e in es[:2])
        ),
        ""
    )
    refuting = _checks(out, setting, search, rng, seed)
    for c in known:
        if c.verdict == "violated" and c.instance in instances:
            refuting.setdefault(c.form, []).append(instances[c.instance])
    out.decide(statement.forms, refuting)
    out.conclude()
    refuted = len(out.counterexamples)
    standing = [r.form for r in out.rows if r.verdict == "holds"]
    third = max(budget // 3, 20)
    for form in standing if necessity else ():
        out.decide([form])
        if form in out.counterexamples:
            continue
        for name, constant in [(n, c) for n, c in search.best if n == form and c is not None]:
            on_progress(0, third, f"{statement.id}: constant {constant}")
            least = constant_need(search, name, constant, third, seed)
            out.constants += [] if least is None else [least]
        out.mutants += mutant_fates(search, form, out.constants)
    out.decide(standing)  # by what was found for another form, or with a constant moved
    standing = [form for form in standing if form not in out.counterexamples]
    out.constants = [n for n in out.constants if n.form in standing]
    out.mutants = [m for m in out.mutants if m.form in standing]
    for words, variant in setting.variants() if necessity and standing else ():
        on_progress(0, third, f"{statement.id}: without {words}")
        out.assumptions += assumption_need(search, words, variant, standing, third, seed)
    # what a search without an assumption found against the form as it stands
    for need in out.assumptions:
        found = need.example
        if found is not None and not found.without and need.form not in out.counterexamples:
            out.refute(found)
    if out.constants or len(out.counterexamples) > refuted:
        out.conclude()
    on_progress(0, 1, f"{statement.id}: proof for all losses, or a worst function")
    refuted = len(out.counterexamples)
    announce_proofs(statement)
    out.prove()
    if len(out.counterexamples) > refuted:
        out.conclude()
    return out


def _checks(
    out: StatementStudy, setting: MethodSetting, search: Search, rng: np.random.Generator, seed: int
) -> dict[str, list[Draw]]:
    """Judge random instances, the search's best in fractions, and problems of the package.

    Returns the instances on which a form is violated.
    """
    statement, refuting = out.statement, dict[str, list[Draw]]()
    best = [e.instance for elites in search.best.values() for e in elites[:2]]
    drawn = [] if out.checks else [setting.random_instance(rng) for _ in range(FLOATS)]
    problems = [] if out.checks else setting.problems.problems(rng, PROBLEMS)
    for i, instance in enumerate(drawn + best):
        try:
            found = check(
                statement, setting.view(instance, exact=False), None, setting.words(instance)
            )
        except (Unbounded, Undefined):
            continue
        refuted = any(c.verdict == "violated" for c in found)
        if (i < RATIONAL or i >= len(drawn) or refuted) and not out.in_floats_only:
            try:
                exact = check(
                    statement, setting.view(instance, exact=True), None, setting.words(instance)
                )
            except (InvalidInput, MissingCapability):  # too many sequences of cohorts; roots
                exact = []
            decided = {c.form: c.verdict for c in exact}  # fractions have the last word
            found = [c for c in found if decided.get(c.form, c.verdict) == c.verdict] + exact
        for c in found:
            if c.verdict == "violated" and instance not in refuting.setdefault(c.form, []):
                refuting[c.form].append(instance)
        out.checks += found
    for name, problem in problems:
        try:
            view = setting.problem_views(problem, rng, seed=seed)
            out.checks += check(statement, view, None, name)
        except NotCertified as error:
            out.checks += statement.unjudged(statement.forms, error, name)
        except (InvalidInput, MissingCapability):
            continue
    return refuting
