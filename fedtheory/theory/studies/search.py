"""The search for a counterexample, and for the instances on which a bound is tightest: random
instances first, then changes of the best.

Instances have short fractions from the start and are looked at in floats, all forms of a
statement together. Each form has two kinds of score: how far it is from being violated, and, of
every constant its bound declares, by which share that constant could be tightened before it is.
The second does not take an instance on which nothing moves for a tight one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability
from fedtheory.randomness import Stream
from fedtheory.theory.rounds.declare import Among
from fedtheory.theory.rounds.forms import Undefined, reduced
from fedtheory.theory.rounds.instances import ARRAYS, Draw
from fedtheory.theory.rounds.judging import judged
from fedtheory.theory.rounds.losses import Unbounded
from fedtheory.theory.rounds.method_setting import MethodSetting, at_minimiser
from fedtheory.theory.rounds.ratios import same_at_start
from fedtheory.theory.rounds.units import CURVATURES, POSITIONS, POWERS, WIDTHS, rescaled

__all__ = ["Elite", "Scores", "Search", "moves", "mutate", "scores"]

STEP = Fraction(1, 16)  # by which share a constant is moved to see what it does
KEPT = 10
VISIBLE = 1e-7  # relative: a violation in floats that is worth a proof


@dataclass(frozen=True, eq=False)
class Elite:
    """An instance and its score under one aim."""

    score: float
    instance: Draw


@dataclass
class Scores:
    """The scores of one instance for each form.

    Attributes
    ----------
    excess : dict form -> float
        Largest (lhs - rhs)/(|lhs| + |rhs|).
    leeway : dict (form, constant) -> (float, direction)
        By which share the constant could be moved in the direction (+1, -1) that tightens the
        bound before it is violated.
    ratio : dict form -> float
        Largest lhs/rhs where rhs > 0 and something moves; of a run whose sides begin as one number after
        its start.
    """

    excess: dict[str, float] = field(default_factory=dict)
    leeway: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    ratio: dict[str, float] = field(default_factory=dict)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def scores(statement: Any, view: Any) -> Scores:
    """The scores of a view in floats; entries where a side is not finite have none."""
    out, forms = Scores(), statement.on(view)
    sides = {name: reduced(view, claimed) for name, claimed in forms.items()}
    moving = moves(view)
    sizes = {name: np.asarray(s.scale, dtype=float).ravel() for name, s in sides.items()}
    for constant, value in view.constants.items():
        stated = Fraction(view.overrides.get(constant, value))
        moved = view.other({**view.overrides, constant: stated + STEP * (abs(stated) or 1)})
        for name, claimed in statement.on(moved).items():
            if name not in sides:
                continue
            change = _change_of_slack(sides[name], reduced(moved, claimed))
            sizes[name] = sizes[name] + np.abs(change) / float(
                STEP
            )  # the size of a term, which may cancel inside a side
            found = _leeway(sides[name], change, sizes[name])
            if found is not None and moving:
                out.leeway[name, constant] = found
    for name, s in sides.items():
        lhs, rhs = (np.asarray(v, dtype=float).ravel() for v in (s.lhs, s.rhs))
        size, scale = np.abs(lhs) + np.abs(rhs), sizes[name]
        seen = (size > 1e-6 * scale) & np.isfinite(size)
        if not seen.any():
            continue
        out.excess[name] = float(((lhs - rhs)[seen] / np.maximum(size, scale if s.relation == "==" else 0)[seen]).max())
        positive = seen & (rhs > 1e-6 * scale) if s.relation == "<=" and moving else seen & False
        positive[: lhs.size // len(s.lhs) if same_at_start(s, view) else 0] = False
        if positive.any():
            out.ratio[name] = float((lhs[positive] / rhs[positive]).max())
    return out


def _change_of_slack(before: Any, after: Any) -> np.ndarray:
    slack, moved = (np.asarray(s.rhs - s.lhs, dtype=float).ravel() for s in (before, after))
    return moved - slack


def _leeway(before: Any, change: np.ndarray, size: np.ndarray) -> tuple[float, int] | None:
    """The share by which a constant could be moved, and where to, from the change of the slack
    when it grew by `STEP`."""
    slack = np.asarray(before.rhs - before.lhs, dtype=float).ravel()
    seen = (np.abs(change) > 1e-5 * np.maximum(size, 1e-300)) & np.isfinite(change)
    if before.relation == "==" or not seen.any():
        return None
    shares = float(STEP) * slack[seen] / np.abs(change[seen])
    i = int(np.argmin(shares))
    return float(shares[i]), -1 if change[seen][i] > 0 else 1


def moves(view: Any) -> bool:
    """True if the model moves at all: on a fixed point everything is attained, and it says
    nothing."""
    if view.fixed:  # nothing moves there, and that is what the statement is about
        return True
    x, y = view.path.states[0].x, view.path.states[-1].x
    return bool(np.any(np.abs(np.asarray(y - x, dtype=float)) > 1e-9))


Aim = tuple[str, str | None]


@dataclass(eq=False)
class Search:
    """One search over a setting.

    Attributes
    ----------
    best : dict (form, constant or None) -> elites, best first
        Of None the score is the excess; of a constant minus the leeway.
    tightest : dict form -> Elite with the largest lhs/rhs
    chosen : dict (form, name, value) -> Elite with the largest excess among those that seem to
        violate the form, of each value of a drawn number
    directions : dict (form, constant) -> +1 where a larger one is a stronger claim, -1 where a smaller
    one is
    tried, skipped : int
        Instances; skipped ones are those on which the statement says nothing (no minimiser, a
        division by 0).
    largest : (int, int)
        Clients and dimensions, each the most of an instance that was judged.
    without : MethodSetting or None
        What an assumption is dropped from.
    finite : Counter form -> instances on which its sides were numbers, not both 0; of a search
        without an assumption only those that break it
    """

    setting: MethodSetting
    seed: int = 0
    best: dict[Aim, list[Elite]] = field(default_factory=dict)
    tightest: dict[str, Elite] = field(default_factory=dict)
    chosen: dict[tuple[str, str, Fraction], Elite] = field(default_factory=dict)
    horizons: dict[tuple[str, int], Elite] = field(default_factory=dict)
    directions: dict[tuple[str, str], int] = field(default_factory=dict)
    tried: int = 0
    skipped: int = 0
    largest: tuple[int, int] = (0, 0)
    without: MethodSetting | None = None
    finite: Counter[str] = field(default_factory=Counter)
    overrides: dict[str, Any] = field(default_factory=dict)
    refused: str = ""
    silent: dict[str, str] = field(default_factory=dict)  # form -> why it said nothing on the last instance where it did not

    def __post_init__(self) -> None:
        self.rng = Stream(self.seed).generator(f"authoring search {self.setting.of_statement.id}")
        self._among = [name for name, v in self.setting.open_numbers().items() if isinstance(v, Among)]

    def run(
        self, budget: int, aims: Sequence[Aim] | None = None, starts: Sequence[Draw] = (),
        enough: Callable[[Search], bool] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Search:  # fmt: skip
        """Look at `budget` instances: those given, then random ones, then more and more changes
        of the best.

        aims : which elites are worked on (default: all). enough : stops early.
        """
        for instance in starts:
            if self.setting.why_not(instance) is None and self.setting.few(instance):
                self.look(instance)
        for i in range(budget):
            keys, known = [k for k in self.best if aims is None or k in aims], True
            if not keys or self.rng.random() < 0.8 - 0.7 * i / budget:
                instance = self.setting.random_instance(self.rng)  # one of the setting's
            else:
                elites = self.best[keys[int(self.rng.integers(len(keys)))]]
                instance = mutate(elites[int(len(elites) * self.rng.random() ** 2)].instance, self.rng, self.setting)
                known = self.setting.why_not(instance) is None and self.setting.few(instance)
            if known:
                self.look(instance)
            if on_progress is not None and i % 20 == 19:
                on_progress(i + 1, budget)
            if enough is not None and i % 20 == 19 and enough(self):
                break
        return self

    def look(self, instance: Draw, counted: bool = True) -> Scores | None:
        """Score one instance of the setting's, and keep it where it is among the best. Not counted is one that another
        search found."""
        self.tried += counted
        try:
            view = self.setting.view(instance, exact=False)
            view = view.other(self.overrides) if self.overrides else view
            found = scores(self.setting.of_statement, view)
        except (Unbounded, Undefined, MissingCapability) as error:
            self.skipped += counted
            self.refused = str(error)
            return None
        said = self.setting.of_statement.on(view)
        self.silent.update({name: str(said.why(name)) for name in self.setting.of_statement.forms if name not in said})
        self.largest = max(self.largest[0], instance.num_clients), max(self.largest[1], instance.dim)
        if self.without is None or self.without.as_own(instance) is None:
            self.finite.update(found.excess.keys())
        beyond: dict[str, bool] = {}  # whether a form is violated beyond rounding, where that was asked

        def violated(name: str) -> bool:
            if name not in beyond:
                beyond[name] = self._violated(view, name)
            return beyond[name]

        for name, score in found.excess.items():
            for drawn in self._among if score > VISIBLE else ():
                key = name, drawn, instance.drawn[drawn]
                if key not in self.chosen or self.chosen[key].score < score:
                    self.chosen[key] = Elite(score, instance)
            if score <= VISIBLE or not self._enters((name, None), score) or violated(name):
                self._keep((name, None), score, instance)
        for (name, constant), (leeway, direction) in found.leeway.items():
            self._keep((name, constant), -leeway, instance)
            self.directions.setdefault((name, constant), direction)
        for name, ratio in found.ratio.items():
            at = name, instance.rounds
            best = self.tightest[name].score if name in self.tightest else -np.inf
            here = self.horizons[at].score if at in self.horizons else -np.inf
            if ratio <= min(best, here) or (ratio > 1 + VISIBLE and not violated(name)):
                continue  # of sides that are 0 but for rounding the ratio is anything
            if ratio > best:
                self.tightest[name] = Elite(ratio, instance)
            if ratio > here:
                self.horizons[at] = Elite(ratio, instance)
        return found

    def learn(self, other: Search) -> None:
        """Try the best of another search over the same setting on every form, as it stands; not what it found of forms that
        are violated already."""
        known = {id(e.instance) for elites in self.best.values() for e in elites}
        best = [e[0] for aim, e in other.best.items() if e and not self.violating(aim[0])]
        for instance in {id(e.instance): e.instance for e in best}.values():
            if id(instance) not in known:
                self.look(instance, counted=False)

    def _violated(self, view: Any, form: str) -> bool:
        """True if a violation is one beyond rounding, whatever cancels inside the formulas."""
        return judged(self.setting.of_statement, view, form).verdict == "violated"

    def _enters(self, aim: Aim, score: float) -> bool:
        elites = self.best.get(aim, [])
        return bool(np.isfinite(score)) and (len(elites) < KEPT or score > elites[-1].score)

    def _keep(self, aim: Aim, score: float, instance: Draw) -> None:
        if self._enters(aim, score):
            elites = self.best.setdefault(aim, [])
            elites.append(Elite(score, instance))
            elites.sort(key=lambda e: -e.score)
            del elites[KEPT:]

    def violating(self, form: str) -> list[Draw]:
        """Instances on which a form is violated in floats, the clearest first."""
        own = [
            e
            for aim, elites in self.best.items()
            if aim[0] == form
            for e in elites
            if e.score > (VISIBLE if aim[1] is None else 1e-6)
        ]
        ordered = [e.instance for e in sorted(own, key=lambda e: -e.score)]
        return list({id(instance): instance for instance in ordered}.values())


# --- changes ------------------------------------------------------------------------------------------------------------------
def mutate(instance: Draw, rng: np.random.Generator, setting: MethodSetting) -> Draw:
    """A neighbour: one to three changes of numbers, of clients, or of the horizon."""
    for _ in range(1 + int(rng.integers(3))):
        try:
            instance = _change(instance, rng, setting)
        except (InvalidInput, IndexError):
            continue
    return instance


def _change(instance: Draw, rng: np.random.Generator, setting: MethodSetting) -> Draw:
    what = rng.random()
    n, d = instance.num_clients, instance.dim
    if what < 0.08 and instance.drawn:
        name = list(instance.drawn)[int(rng.integers(len(instance.drawn)))]
        return instance.changed(drawn={**instance.drawn, name: setting.redraw(name, rng)})
    if what < 0.14:
        least, most = setting.of_statement.rounds
        rounds = int(rng.integers(least, most + 1))
        return instance.changed(rounds=rounds, before=_cohorts(instance, rounds, rng))
    if what < 0.20 and n > 1:
        return without_client(instance, int(rng.integers(n)))
    if what < 0.24 and d > 1:
        return without_coordinate(instance, int(rng.integers(d)))
    if what < 0.28 and n > 1 and setting.problems.weights == "any":
        raw = [Fraction(int(rng.integers(1, 30))) for _ in range(n)]
        return instance.changed(weights=_vector([v / sum(raw) for v in raw]))
    if what < 0.30:
        return at_minimiser(instance)
    if what < 0.36:
        factors = [Fraction(1, 2), Fraction(2), *POWERS]
        part = ("curvature", "position", "start")[int(rng.integers(3))]
        return rescaled(instance, part, factors[int(rng.integers(len(factors)))])
    if what < 0.48:
        start = instance.start.copy()
        i = int(rng.integers(d))
        start[i] = _moved(start[i], rng, POSITIONS)
        return instance.changed(start=start)
    there = {f: any(v is not None and v != 0 for v in getattr(instance, f).ravel()) for f in ARRAYS}
    names = [f for f in ARRAYS if f in ("h", "c") or there[f]]
    name = names[int(rng.integers(len(names)))]
    values = getattr(instance, name).copy()
    k, i = int(rng.integers(n)), int(rng.integers(d))
    rows = slice(None) if setting.problems.identical else k
    if values[k, i] is None:
        return instance
    special = {"c": POSITIONS, "delta": WIDTHS}.get(name, CURVATURES)
    values[rows, i] = _moved(values[k, i], rng, special)
    return instance.changed(**{name: values})


def _moved(value: Fraction, rng: np.random.Generator, special: Sequence[Fraction]) -> Fraction:
    """A number near it, a multiple of it, or a special one."""
    kind = rng.random()
    if kind < 0.2:
        return special[int(rng.integers(len(special)))]
    if kind < 0.35:
        return value * (Fraction(1, 2) if rng.random() < 0.5 else 2)
    if kind < 0.4:
        return -value
    step = float(10.0 ** rng.uniform(-3.5, 0.3)) * float(rng.normal())
    new = float(value) * (1 + step) if value and rng.random() < 0.7 else float(value) + step
    unit = Fraction(10) ** math.floor(math.log10(abs(new))) if 0 < abs(new) < 0.1 else 1  # a small number stays one
    return unit * Fraction(new / float(unit)).limit_denominator(int(rng.choice([8, 64, 1024])))


def _vector(values: Sequence[Fraction]) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out


def _cohorts(instance: Draw, rounds: int, rng: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    size, n = instance.cohort_size, instance.num_clients
    if size is None or size == n:
        return ()
    return tuple(tuple(sorted(int(k) for k in rng.permutation(n)[:size])) for _ in range(rounds))


def without_client(instance: Draw, k: int) -> Draw:
    """The instance without one client; the others' weights grow in proportion."""
    keep = [i for i in range(instance.num_clients) if i != k]
    total = instance.weights[keep].sum()
    if not keep or total == 0:
        raise InvalidInput("no client would be left")
    size, fields = instance.cohort_size, {f: getattr(instance, f)[keep] for f in ARRAYS}
    size = None if size is None else min(size, len(keep))
    before = tuple(tuple(j - (j > k) for j in cohort if j != k) for cohort in instance.before)
    if any(len(c) != size for c in before):
        before = tuple(tuple(range(size or 0)) for _ in before)
    return instance.changed(
        **fields, weights=_vector(list(instance.weights[keep] / total)), cohort_size=size, before=before
    )


def without_coordinate(instance: Draw, i: int) -> Draw:
    """The instance without one coordinate."""
    keep = [j for j in range(instance.dim) if j != i]
    if not keep:
        raise InvalidInput("no coordinate would be left")
    return instance.changed(**{f: getattr(instance, f)[:, keep] for f in ARRAYS}, start=instance.start[keep])


def failed(error: FedTheoryError) -> str:
    """Say what went wrong, in one line."""
    return str(error).splitlines()[0]
