"""The search for counterexamples to EFL's statements, over all shapes of the parameters.

Every kind of instance has a generator that draws from a stream of uniforms. Random streams come first and serve all forms of the kind
at once; then, form by form, the stream that came nearest to a violation is changed in a few places at a time, and kept where that
brings it nearer. A violation found on an instance in fractions is a witness as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.theorems.fedelasticnet.search import SearchResult
from fedtheory.verification import setting as efl_battery
from fedtheory.verification.rational import BUILDERS, EFLWitness, exact_sides, worst
from fedtheory.verification.setting import kind_of
from fedtheory.verification.statement import RELATIVE_TOLERANCE, Form, Sides, Statement, all_statements, get

__all__ = ["SHARE", "Tape", "Target", "changed", "kinds", "search", "search_kind"]

LEAST = 120  # instances of those kinds, when they serve all forms and rules at once
SHARE = {"run": 0.05, "step": 0.1}  # of the budget: instances of these kinds take longer than all others


class Tape:
    """A `numpy.random.Generator` whose uniforms are on a tape, so that a draw can be repeated with a few of them changed."""

    def __init__(self, uniforms: np.ndarray, seed: int = 0) -> None:
        self.uniforms, self.at = np.asarray(uniforms, dtype=float), 0
        self._more = np.random.default_rng([seed, 1])

    @property
    def used(self) -> np.ndarray:
        """The uniforms drawn so far."""
        return self.uniforms[: self.at]

    def random(self, size: Any = None) -> Any:
        count = 1 if size is None else int(np.prod(size))
        if self.at + count > len(self.uniforms):
            self.uniforms = np.concatenate([self.uniforms, self._more.random(self.at + count - len(self.uniforms))])
        out = self.uniforms[self.at : self.at + count]
        self.at += count
        return float(out[0]) if size is None else out.reshape(size).copy()

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return low + (high - low) * self.random(size)

    def integers(self, low: int, high: int | None = None, size: Any = None, endpoint: bool = False) -> Any:
        low, high = (0, low) if high is None else (low, high)
        out = np.floor(low + (high + endpoint - low) * np.asarray(self.random(size))).astype(np.int64)
        return int(out) if size is None else out

    def choice(self, a: Any, size: Any = None, p: Any = None) -> Any:
        options = np.arange(a) if isinstance(a, int | np.integer) else np.asarray(a)
        masses = np.full(len(options), 1 / len(options)) if p is None else np.asarray(p, dtype=float)
        where = np.searchsorted(np.cumsum(masses)[:-1], self.random(size), side="right")
        return options[where]

    def standard_normal(self, size: Any = None) -> Any:
        return special.ndtri(np.clip(self.random(size), 1e-12, 1 - 1e-12))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return loc + scale * self.standard_normal(size)

    def dirichlet(self, alpha: Any, size: int | None = None) -> np.ndarray:
        alpha = np.asarray(alpha, dtype=float)
        rows = np.asarray(self.random((1 if size is None else size, len(alpha))))
        gammas = special.gammaincinv(alpha, np.clip(rows, 1e-12, 1 - 1e-12)) + 1e-300
        out = gammas / gammas.sum(axis=1, keepdims=True)
        return out[0] if size is None else out

    def permutation(self, n: int) -> np.ndarray:
        return np.argsort(self.random(n))


@dataclass
class Target:
    """One form under one rule, and the nearest to a violation so far."""

    statement: Statement
    form: Form
    rule: str
    sides: Callable[[Any], Sides]
    margin: float = -np.inf
    ratio: float = -np.inf
    margin_tape: np.ndarray | None = None
    ratio_tape: np.ndarray | None = None
    margin_at: Any = None
    ratio_at: Any = None
    evaluations: int = 0

    def see(self, instance: Any, view: Any, tape: np.ndarray) -> bool:
        """Judge one instance, where the form applies to it; whether it came nearer than any before."""
        return view.rule == self.rule and view.applies(self.form) is None and self.judge(instance, view, tape)

    def judge(self, instance: Any, view: Any, tape: np.ndarray) -> bool:
        """Whether the instance came nearer than any before."""
        with np.errstate(all="ignore"):
            sides = self.sides(view)
            margin, ratio = _scores(sides)
        self.evaluations += 1
        nearer = ratio > self.ratio or (margin > self.margin and not np.isfinite(self.ratio))
        if margin > self.margin:
            self.margin, self.margin_tape, self.margin_at = margin, tape, instance
        if ratio > self.ratio:
            self.ratio, self.ratio_tape, self.ratio_at = ratio, tape, instance
        return nearer


def _scores(sides: Sides) -> tuple[float, float]:
    """Largest (lhs - rhs - noise)/scale, and largest lhs/rhs where rhs is not small (-inf where there is none)."""
    lhs, rhs, scale = (np.asarray(a).ravel() for a in (sides.lhs, sides.rhs, sides.scale))
    gap = (lhs - rhs).astype(float)  # fractions are subtracted before they are rounded
    lhs, rhs, scale = (a.astype(float) for a in (lhs, rhs, scale))
    noise = np.broadcast_to(np.asarray(sides.noise, dtype=float), np.shape(sides.lhs)).ravel()
    margins = (gap - noise) / np.maximum(scale + noise, 1e-290)
    margins = np.where(np.isfinite(margins), margins, -1.0)
    some = (rhs > 1e-6 * scale) & np.isfinite(lhs)
    ratio = float((lhs[some] / rhs[some]).max()) if sides.relation == "<=" and some.any() else -np.inf
    return float(margins.max()), ratio


def _statements() -> list[Statement]:
    return [s for s in all_statements() if s.scope == "efl"]


def kinds() -> list[str]:
    """The kinds of instances some form is judged on."""
    known = {kind_of(f) for s in _statements() for f in s.forms if f.sides is not None}
    from fedtheory.theorems.efl.instances import in_fractions as efl_other_battery
    from fedtheory.theorems.efl.instances import runs as efl_run_battery
    from fedtheory.theorems.elastic_aggregation import instances as elastic_battery

    return [k for k in (*efl_run_battery.KINDS, *efl_other_battery.KINDS, *elastic_battery.KINDS) if k in known]


def _targets(kind: str, violated: bool) -> list[Target]:
    return [
        Target(s, f, rule, f.sides)
        for s in _statements()
        for f in s.forms
        if f.sides is not None and kind_of(f) == kind
        for rule, verdict in f.established.items()
        if violated or verdict != "violated"
    ]


def _draw(kind: str, tape: Tape, targets: Sequence[Target]) -> bool:
    """One instance, seen by all targets; whether one of them came nearer."""
    try:
        instance = efl_battery.random_instance(kind, tape)  # type: ignore[arg-type]
        view = instance.view()
    except FedTheoryError:  # data that the statement is not about
        return False
    used = tape.used.copy()
    return any([t.see(instance, view, used) for t in targets])


def changed(tape: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A few uniforms drawn anew, or moved a little."""
    out = tape.copy()
    where = rng.integers(len(out), size=int(rng.integers(1, 4)))
    if rng.random() < 0.5:
        out[where] = rng.random(len(where))
    else:
        out[where] = np.clip(out[where] + 0.1 * rng.standard_normal(len(where)), 0, 1 - 1e-12)
    return out


def _run(kind: str, targets: list[Target], budget: int, seed: int) -> list[SearchResult]:
    """Two thirds of the budget at random, for all; the rest shared evenly by the targets."""
    least = LEAST if kind in SHARE and len(targets) > 1 else 24
    budget = max(least, round(budget * SHARE.get(kind, 1.0)))
    rng = np.random.default_rng([seed, len(kind), *kind.encode()])
    for i in range(2 * budget // 3):
        _draw(kind, Tape(rng.random(64), seed * 100_003 + i), targets)
    for target in targets:
        for _ in range(max(4, budget // (3 * len(targets)))):
            start = target.ratio_tape if target.ratio_tape is not None else target.margin_tape
            if start is None:
                break
            _draw(kind, Tape(changed(start, rng), seed), [target])
    return [_result(t, budget, seed) for t in targets]


def _result(t: Target, budget: int, seed: int) -> SearchResult:
    witness, best = None, max(t.margin, -1.0)  # -1: nothing it applies to was met
    if t.margin > RELATIVE_TOLERANCE and t.sides is t.form.sides:
        witness = _witness(t)
    return SearchResult(
        t.statement.id, t.form.name, t.rule, seed, budget, t.evaluations, best, t.ratio if np.isfinite(t.ratio) else float("nan"),
        _described(t.margin_at), _described(t.ratio_at), witness,  # type: ignore[arg-type]
    )  # fmt: skip


def _described(instance: Any) -> dict[str, Any]:
    return {} if instance is None else instance.to_json()


def _witness(t: Target) -> EFLWitness | None:
    """The violation as a witness, where its numbers are fractions."""
    data = getattr(t.margin_at, "data", None)
    if data is None or t.margin_at.kind not in BUILDERS:
        return None
    witness = EFLWitness(t.statement.id, t.form.name, t.rule, t.margin_at.kind, data)
    try:
        lhs, rhs = worst(exact_sides(witness)[1])
    except FedTheoryError:
        return None
    if not lhs > rhs:
        return None
    return EFLWitness(t.statement.id, t.form.name, t.rule, t.margin_at.kind, data, str(lhs), str(rhs), {"search": "random and local"})


def search_kind(kind: str, budget: int = 1000, seed: int = 0, violated: bool = False) -> list[SearchResult]:
    """All forms judged on one kind of instance that are not on record as violated (``violated``: those too).

    Raises
    ------
    InvalidInput
        No such kind, or a budget below 1.
    """
    if kind not in kinds():
        raise InvalidInput(f"kind = {kind!r}: use one of {', '.join(kinds())}")
    _check(budget)
    return _run(kind, _targets(kind, violated), budget, seed)


def search(
    statement: str | Statement,
    form: str | Form = "repaired",
    rule: str = "any",
    budget: int = 1000,
    seed: int = 0,
    sides: Callable[[Any], Sides] | None = None,
) -> SearchResult:
    """Look for an instance on which one form fails.

    Parameters
    ----------
    budget : instances to try, of the kinds 'run' and 'step' the part in `SHARE`
    seed : the same seed gives the same result
    sides : run this instead of the form's own sides (for mutants)

    Raises
    ------
    UnknownName, InvalidInput
        No such statement or form; a form without sides, or not claimed for the rule.
    """
    statement = get(statement) if isinstance(statement, str) else statement
    form = statement.form(form) if isinstance(form, str) else form
    if form.sides is None:
        raise InvalidInput(f"{statement.id} [{form.name}] has no sides to compare: there is nothing to search")
    if rule not in form.established:
        raise InvalidInput(f"{statement.id} [{form.name}] is not claimed for the {rule} rule")
    _check(budget)
    kind = kind_of(form)
    return _run(kind, [Target(statement, form, rule, sides or form.sides)], budget, seed)[0]  # type: ignore[arg-type]


def _check(budget: int) -> None:
    if budget < 1:
        raise InvalidInput(f"budget = {budget}: try at least 1 instance")
