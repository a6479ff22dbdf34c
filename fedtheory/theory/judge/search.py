"""The search for counterexamples, over all shapes of the parameters of a kind of instance.

Every kind of instance has a generator that draws from a stream of uniforms. Random streams come first and serve all forms of the kind
at once; then, form by form, the stream that came nearest to a violation is changed in a few places at a time, and kept where that
brings it nearer. A violation found on an instance in fractions is a witness as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy  # its special is loaded when first used

from fedtheory.errors import FedTheoryError
from fedtheory.theory.judge.check import RELATIVE_TOLERANCE
from fedtheory.theory.judge.statement import Form, Sides, Statement
from fedtheory.theory.judge.witness import Witness

__all__ = ["VISIBLE", "SearchResult", "Tape", "Target", "changed", "explore", "scores"]

VISIBLE = 0.002  # (lhs - rhs)/scale; the scale also counts what cancels, so the sides themselves differ by far more

Proved = Callable[["Target"], tuple[Witness | None, float | None]]
Draw = Callable[["Tape", Sequence["Target"]], tuple[Any, Any] | None]


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes
    ----------
    best : float
        Largest (lhs - rhs)/scale. Below `RELATIVE_TOLERANCE` it is rounding.
    tightness : float
        Largest lhs/rhs over instances whose right side is positive (NaN for equalities).
    best_instance, tightest_instance : dict
        With the shape and the numbers.
    evaluations : int
        Instances tried (a run counts once, whatever its horizon).
    witness : `Witness` or None
        Proved in exact arithmetic.
    exact_best : float or None
        `best` recomputed exactly at its own point, when it is above rounding: a value <= 0 says it was rounding after all.
    """

    statement: str
    form: str
    rule: str
    seed: int
    budget: int
    evaluations: int
    best: float
    tightness: float
    best_instance: dict[str, Any] = field(default_factory=dict)
    tightest_instance: dict[str, Any] = field(default_factory=dict)
    witness: Witness | None = None
    exact_best: float | None = None

    @property
    def empty(self) -> bool:
        """True if nothing was found beyond rounding."""
        rounding = self.best <= RELATIVE_TOLERANCE or (self.exact_best is not None and self.exact_best <= 0)
        return self.witness is None and rounding


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
        return scipy.special.ndtri(np.clip(self.random(size), 1e-12, 1 - 1e-12))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return loc + scale * self.standard_normal(size)

    def dirichlet(self, alpha: Any, size: int | None = None) -> np.ndarray:
        alpha = np.asarray(alpha, dtype=float)
        rows = np.asarray(self.random((1 if size is None else size, len(alpha))))
        gammas = scipy.special.gammaincinv(alpha, np.clip(rows, 1e-12, 1 - 1e-12)) + 1e-300
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
        """True if the instance came nearer than any before."""
        with np.errstate(all="ignore"):
            sides = self.sides(view)
            margin, ratio = scores(sides)
        self.evaluations += 1
        nearer = ratio > self.ratio or (margin > self.margin and not np.isfinite(self.ratio))
        if margin > self.margin:
            self.margin, self.margin_tape, self.margin_at = margin, tape, instance
        if ratio > self.ratio:
            self.ratio, self.ratio_tape, self.ratio_at = ratio, tape, instance
        return nearer


def scores(sides: Sides) -> tuple[float, float]:
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


def changed(tape: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A few uniforms drawn anew, or moved a little."""
    out = tape.copy()
    where = rng.integers(len(out), size=int(rng.integers(1, 4)))
    if rng.random() < 0.5:
        out[where] = rng.random(len(where))
    else:
        out[where] = np.clip(out[where] + 0.1 * rng.standard_normal(len(where)), 0, 1 - 1e-12)
    return out


def _see(draw: Draw, tape: Tape, targets: Sequence[Target]) -> None:
    """One instance, seen by all targets."""
    try:
        drawn = draw(tape, targets)
    except FedTheoryError:  # data that the statement is not about
        return
    if drawn is not None:
        used = tape.used.copy()
        for target in targets:
            with suppress(FedTheoryError):  # a form that says nothing there
                target.see(*drawn, used)


def explore(
    draw: Draw,
    targets: list[Target],
    at_random: int,
    nearby: int,
    rng: np.random.Generator,
    seed: int,
    *,
    budget: int,
    width: int = 64,
    proved: Proved = lambda target: (None, None),
) -> list[SearchResult]:
    """Instances at random for all targets, then small changes of the nearest one for each.

    Parameters
    ----------
    draw : callable(tape, targets) -> (instance, view), or None
        Raises `FedTheoryError` for data that the statements are not about.
    at_random, nearby : how many instances for all, and how many for each target
    budget : what was asked for, for the record
    width : uniforms that a tape starts with
    proved : callable(target) -> (Witness or None, float or None)
        The violation as a witness, and (lhs - rhs)/scale in fractions, None where nothing says it;
        asked only where the form's own sides are violated.
    """
    for i in range(at_random):
        _see(draw, Tape(rng.random(width), seed * 100_003 + i), targets)
    for target in targets:
        for _ in range(nearby):
            start = target.ratio_tape if target.ratio_tape is not None else target.margin_tape
            if start is None:
                break
            _see(draw, Tape(changed(start, rng), seed), [target])
    return [_result(t, budget, seed, proved) for t in targets]


def _result(t: Target, budget: int, seed: int, proved: Proved) -> SearchResult:
    found = t.margin > RELATIVE_TOLERANCE and t.sides is t.form.sides
    witness, exact = proved(t) if found else (None, None)
    worst, tightest = ({} if at is None else at.to_json() for at in (t.margin_at, t.ratio_at))
    return SearchResult(
        t.statement.id, t.form.name, t.rule, seed, budget, t.evaluations,
        max(t.margin, -1.0),  # -1: nothing it applies to was met
        t.ratio if np.isfinite(t.ratio) else float("nan"), worst, tightest, witness, exact,
    )  # fmt: skip
