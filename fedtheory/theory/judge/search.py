"""The search for counterexamples, over all shapes of the parameters of a kind of instance.

Instances are drawn from a tape of uniforms. Tapes at random come first and serve all forms of the
kind at once; then, more and more often, one that came near to a violation is changed in a few
places, and kept where that brings it nearer. A violation found on an instance in fractions is a
witness as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np
import scipy  # its special is loaded when first used

from fedtheory.errors import FedTheoryError
from fedtheory.theory.judge.check import RELATIVE_TOLERANCE
from fedtheory.theory.judge.shrink import Data, numbers, put
from fedtheory.theory.judge.statement import Form, Sides, Statement
from fedtheory.theory.judge.witness import Witness

__all__ = [
    "VISIBLE", "Elite", "Search", "SearchResult", "Tape", "Target", "explore", "moved", "scores"
]

# (lhs - rhs)/scale; the scale also counts what cancels, so the sides themselves differ by far more
VISIBLE = 0.002
WIDTH = 64  # uniforms that a tape starts with

Proved = Callable[["Target"], tuple[Witness | None, float | None]]
Draw = Callable[["Tape"], tuple[Any, Any]]


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes
    ----------
    best : largest (lhs - rhs)/scale; below `RELATIVE_TOLERANCE` it is rounding
    tightness : largest lhs/rhs over instances whose right side is positive (NaN for equalities)
    best_instance, tightest_instance : with the shape and the numbers
    evaluations : instances tried (a run counts once, whatever its horizon)
    witness : proved in exact arithmetic, or None
    exact_best : `best` in fractions, where it is above rounding: <= 0 if it was that
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
        rounding = (
            self.best <= RELATIVE_TOLERANCE
            or (self.exact_best is not None and self.exact_best <= 0)
        )
        return self.witness is None and rounding


class Tape:
    """A `numpy.random.Generator` whose uniforms are on a tape, so that a draw can be repeated with
    a few of them changed."""

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
            self.uniforms = np.concatenate([
                self.uniforms, self._more.random(self.at + count - len(self.uniforms))
            ])
        out = self.uniforms[self.at : self.at + count]
        self.at += count
        return float(out[0]) if size is None else out.reshape(size).copy()

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return low + (high - low) * self.random(size)

    def integers(
        self, low: int, high: int | None = None, size: Any = None, endpoint: bool = False
    ) -> Any:
        low, high = (0, low) if high is None else (low, high)
        out = np.floor(low + (high + endpoint - low) * np.asarray(self.random(size))).astype(
            np.int64
        )
        return int(out) if size is None else out

    def choice(self, a: Any, size: Any = None, p: Any = None) -> Any:
        options = np.arange(a) if isinstance(a, int | np.integer) else np.asarray(a)
        masses = (
            np.full(len(options), 1 / len(options)) if p is None else np.asarray(p, dtype=float)
        )
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
    """One form under one rule, and the instances on which it was nearest to a violation."""

    statement: Statement
    form: Form
    rule: str
    sides: Callable[[Any], Sides]
    margin: float = -np.inf
    ratio: float = -np.inf
    margin_at: Any = None
    ratio_at: Any = None
    evaluations: int = 0

    def judge(self, instance: Any, view: Any) -> tuple[float, float]:
        """Score one instance: its ratio, where it has one, and its margin."""
        with np.errstate(all="ignore"):
            margin, ratio = scores(self.sides(view))
        self.evaluations += 1
        if margin > self.margin:
            self.margin, self.margin_at = margin, instance
        if ratio > self.ratio:
            self.ratio, self.ratio_at = ratio, instance
        return ratio, margin


def scores(sides: Sides) -> tuple[float, float]:
    """Largest (lhs - rhs - noise)/scale, and largest lhs/rhs where rhs is not small (-inf where
    there is none)."""
    lhs, rhs, scale = (np.asarray(a).ravel() for a in (sides.lhs, sides.rhs, sides.scale))
    gap = (lhs - rhs).astype(float)  # fractions are subtracted before they are rounded
    lhs, rhs, scale = (a.astype(float) for a in (lhs, rhs, scale))
    noise = np.broadcast_to(np.asarray(sides.noise, dtype=float), np.shape(sides.lhs)).ravel()
    margins = (gap - noise) / np.maximum(scale + noise, 1e-290)
    margins = np.where(np.isfinite(margins), margins, -1.0)
    some = (rhs > 1e-6 * scale) & np.isfinite(lhs)
    ratio = (
        float((lhs[some] / rhs[some]).max()) if sides.relation == "<=" and some.any() else -np.inf
    )
    return float(margins.max()), ratio


# --- the search ----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Elite:
    """An instance, its score under one aim, and the uniforms it was drawn with, where it was."""

    score: Any
    instance: Any
    tape: np.ndarray | None = None


class Search:
    """A search for instances of large scores, under several aims at once.

    Attributes
    ----------
    best : dict aim -> elites, best first
    kept : so many of them
    """

    kept = 10

    def __init__(self, rng: np.random.Generator, seed: int = 0) -> None:
        self.rng, self.seed = rng, seed
        self.best: dict[Any, list[Elite]] = {}

    def draw(self, tape: Tape) -> Any:
        """Draw an instance, or None."""
        raise NotImplementedError

    def near(self, instance: Any) -> Any:
        """Change some numbers of an instance; None where that makes none."""
        return None

    def fits(self, instance: Any) -> bool:
        """True if this search is about the instance."""
        return True

    def look(self, instance: Any, tape: np.ndarray | None = None, aim: Any = None) -> Any:
        """Score an instance, and `keep` it; a search may look at the ``aim`` alone that it is a
        change for."""
        raise NotImplementedError

    def enters(self, aim: Hashable, score: Any) -> bool:
        """True if an instance of this score is among the best under an aim."""
        elites = self.best.get(aim, [])
        return len(elites) < self.kept or score > elites[-1].score

    def keep(self, aim: Hashable, elite: Elite) -> None:
        """Keep an instance where it is among the best under an aim."""
        if self.enters(aim, elite.score):
            elites = self.best.setdefault(aim, [])
            elites.append(elite)
            elites.sort(key=lambda e: e.score, reverse=True)
            del elites[self.kept :]

    def run(
        self, budget: int, aims: Container[Any] | None = None, starts: Sequence[Any] = (),
        enough: Callable[[Self], bool] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Self:  # fmt: skip
        """Look at `budget` instances: random ones, then more and more changes of the best.

        Parameters
        ----------
        aims : whose elites are changed (default: all)
        starts : instances that are looked at first, where this search is about them
        enough : stops early
        """
        for instance in filter(self.fits, starts):
            self.look(instance)
        for i in range(budget):
            known = [aim for aim in self.best if aims is None or aim in aims]
            uniforms = aim = made = used = None
            if known and self.rng.random() >= 1 - 0.9 * i / budget:
                aim = known[int(self.rng.integers(len(known)))]
                elite = self.best[aim][int(len(self.best[aim]) * self.rng.random() ** 2)]
                uniforms = None if elite.tape is None else changed(elite.tape, self.rng)
                if uniforms is None or self.rng.random() < 0.5:
                    made = self.near(elite.instance)
            if made is None:
                uniforms = self.rng.random(WIDTH) if uniforms is None else uniforms
                tape = Tape(uniforms, self.seed * 100_003 + i)
                made, used = self.draw(tape), tape.used.copy()
            if made is not None:
                self.look(made, used, aim)
            if i % 20 < 19:
                continue
            if on_progress is not None:
                on_progress(i + 1, budget)
            if enough is not None and enough(self):
                break
        return self


def changed(tape: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A few uniforms drawn anew, or moved a little."""
    out = tape.copy()
    where = rng.integers(len(out), size=int(rng.integers(1, 4)))
    if rng.random() < 0.5:
        out[where] = rng.random(len(where))
    else:
        out[where] = np.clip(out[where] + 0.1 * rng.standard_normal(len(where)), 0, 1 - 1e-12)
    return out


def moved(data: Data, rng: np.random.Generator) -> Data:
    """The data of an instance with one to three of its fractions changed."""
    found = {place: value for place, value in numbers(data) if isinstance(value, Fraction)}
    places = list(found)
    for _ in range(1 + int(rng.integers(3)) if places else 0):
        place = places[int(rng.integers(len(places)))]
        found[place] = _moved(found[place], rng)
        data = put(data, place, str(found[place]))
    return data


def _moved(value: Fraction, rng: np.random.Generator) -> Fraction:
    """A number near it, twice or half of it, or its negative."""
    kind = rng.random()
    if kind < 0.25:
        return value * (Fraction(1, 2), Fraction(2), Fraction(-1))[int(12 * kind)]
    step = float(10.0 ** rng.uniform(-3.5, 0.3)) * float(rng.normal())
    new = float(value) * (1 + step) if value and rng.random() < 0.7 else float(value) + step
    small = 0 < abs(new) < 0.1  # a small number stays one
    unit = Fraction(10) ** math.floor(math.log10(abs(new))) if small else Fraction(1)
    return unit * Fraction(new / float(unit)).limit_denominator(int(rng.choice([8, 64, 1024])))


class _OnTargets(Search):
    """A search over one kind of instances, for the forms that are judged on them."""

    kept = 1

    def __init__(
        self, make: Draw, targets: list[Target], rng: np.random.Generator, seed: int
    ) -> None:
        super().__init__(rng, seed)
        self.make, self.targets = make, targets

    def draw(self, tape: Tape) -> Any:
        """An instance and its view; None for data that the statements are not about."""
        try:
            return self.make(tape)
        except FedTheoryError:
            return None

    def look(self, drawn: Any, tape: np.ndarray | None = None, aim: Any = None) -> None:
        """Judge the forms that apply there; what came nearest is known by its tape."""
        instance, view = drawn
        for i in range(len(self.targets)) if aim is None else [aim]:
            target = self.targets[i]
            with suppress(FedTheoryError):  # a form that says nothing there
                if view.rule == target.rule and view.applies(target.form) is None:
                    self.keep(i, Elite(target.judge(instance, view), None, tape))


def explore(
    make: Draw, targets: list[Target], budget: int, rng: np.random.Generator, seed: int,
    proved: Proved = lambda target: (None, None),
) -> list[SearchResult]:  # fmt: skip
    """Search all targets over one kind of instances; for many of them longer.

    Parameters
    ----------
    make : callable(tape) -> (instance, view)
        Raises `FedTheoryError` for data that the statements are not about.
    proved : callable(target) -> (Witness or None, float or None)
        The violation as a witness, and (lhs - rhs)/scale in fractions, None where nothing says it;
        asked only where the form's own sides are violated.
    """
    _OnTargets(make, targets, rng, seed).run(2 * budget // 3 + max(4 * len(targets), budget // 3))
    out = []
    for t in targets:
        found = t.margin > RELATIVE_TOLERANCE and t.sides is t.form.sides
        worst, tightest = ({} if at is None else at.to_json() for at in (t.margin_at, t.ratio_at))
        ratio = t.ratio if np.isfinite(t.ratio) else float("nan")
        out.append(SearchResult(
            t.statement.id, t.form.name, t.rule, seed, budget, t.evaluations,
            max(t.margin, -1.0),  # -1: nothing it applies to was met
            ratio, worst, tightest, *(proved(t) if found else (None, None)),
        ))  # fmt: skip
    return out
