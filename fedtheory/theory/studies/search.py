"""The search of a study: for counterexamples, and for the instances on which a bound is tightest.

Instances have short fractions from the start and are looked at in floats, all forms of a
statement together. Each form has two kinds of score: how far it is from being violated, and, of
every constant its bound declares, by which share that constant could be tightened before it is.
The second does not take an instance on which nothing moves for a tight one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from fedtheory.errors import MissingCapability
from fedtheory.randomness import Stream
from fedtheory.theory.judge import search
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.search import Elite, Tape, moved
from fedtheory.theory.rounds.declare import Among
from fedtheory.theory.rounds.forms import Undefined, reduced
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import judged
from fedtheory.theory.rounds.losses import Unbounded
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.ratios import NO_RATIO, same_at_start

__all__ = ["Scores", "Search", "distinct", "moves", "scores"]

STEP = Fraction(1, 16)  # by which share a constant is moved to see what it does
VISIBLE = 1e-7  # relative: a violation in floats that is worth a proof


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
        Largest lhs/rhs where rhs > 0 and something moves; of a run whose sides begin as one number
        after its start.
    above_zero : forms whose lhs is positive where rhs is 0, or nearly, and something moves
    """

    excess: dict[str, float] = field(default_factory=dict)
    leeway: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    ratio: dict[str, float] = field(default_factory=dict)
    above_zero: set[str] = field(default_factory=set)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def scores(statement: Any, view: Any) -> Scores:
    """The scores of a view in floats; entries where a side is not finite have none."""
    out, forms = Scores(), statement.on(view)
    sides = {name: reduced(view, claimed) for name, claimed in forms.items()}
    moving = moves(view)
    sizes = {name: np.asarray(s.scale, dtype=float).ravel() for name, s in sides.items()}
    for constant, value in view.constants.items():
        if constant in view.left_free:
            continue  # of some number it is claimed that it will do
        stated = Fraction(view.overrides.get(constant, value))
        moved = view.other({**view.overrides, constant: stated + STEP * (abs(stated) or 1)})
        for name, claimed in statement.on(moved).items():
            if name not in sides:
                continue
            both = sides[name], reduced(moved, claimed)
            before, after = (np.asarray(s.rhs - s.lhs, dtype=float).ravel() for s in both)
            change = after - before
            sizes[name] = sizes[name] + np.abs(change) / float(STEP)  # of a term that may cancel
            found = _leeway(sides[name], change, sizes[name])
            if found is not None and moving:
                out.leeway[name, constant] = found
    for name, s in sides.items():
        lhs, rhs = (np.asarray(v, dtype=float).ravel() for v in (s.lhs, s.rhs))
        size, scale = np.abs(lhs) + np.abs(rhs), sizes[name]
        seen = (size > 1e-6 * scale) & np.isfinite(size)
        if lhs.size and same_at_start(s, view):  # where a violation can be no nearer, nor farther
            seen[: lhs.size // len(s.lhs)] = False
        if not seen.any():
            continue
        out.excess[name] = float(
            ((lhs - rhs)[seen] / np.maximum(size, scale if s.relation == "==" else 0)[seen]).max()
        )
        positive = seen & (rhs > 1e-6 * scale) if s.relation == "<=" and moving else seen & False
        if positive.any():
            out.ratio[name] = float((lhs[positive] / rhs[positive]).max())
        if (
            moving and s.relation == "<="
            and (seen & (np.abs(rhs) <= 1e-6 * scale) & (lhs > 1e-3 * scale)).any()
        ):
            out.above_zero.add(name)
    return out


def _leeway(before: Any, change: np.ndarray, size: np.ndarray) -> tuple[float, int] | None:
    """The share by which a constant could be moved, and where to, by what `STEP` changed."""
    slack = np.asarray(before.rhs - before.lhs, dtype=float).ravel()
    seen = (np.abs(change) > 1e-5 * np.maximum(size, 1e-300)) & np.isfinite(change + slack)
    if before.relation == "==" or not seen.any():
        return None
    shares = float(STEP) * slack[seen] / np.abs(change[seen])
    i = int(np.argmin(shares))
    return float(shares[i]), -1 if change[seen][i] > 0 else 1


def moves(view: Any) -> bool:
    """True if the model moves at all: on a fixed point everything is attained."""
    if view.fixed:  # nothing moves there, and that is what the statement is about
        return True
    x, y = view.path.states[0].x, view.path.states[-1].x
    return bool(np.any(np.abs(np.asarray(y - x, dtype=float)) > 1e-9))


class Search(search.Search):
    """One search over a setting.

    Attributes
    ----------
    best : dict (form, constant or None) -> elites, best first
        Of None the score is the excess; of a constant minus the leeway.
    tightest : dict form -> Elite with the largest lhs/rhs
    horizons : dict (form, T) -> the same of runs of T rounds, with an infinite ratio where the
        form is violated by a bound that is 0
    lengths : Counter T -> instances of T rounds
    chosen : dict (form, name, value) -> Elite with the largest excess among those that seem to
        violate the form, of each value of a drawn number
    directions : dict (form, constant) -> +1 where a larger one is a stronger claim, -1 where a
        smaller one is
    tried, skipped : int
        Instances; skipped ones are those on which the statement says nothing (no minimiser, a
        division by 0).
    largest : (int, int)
        Clients and dimensions, each the most of an instance that was judged.
    without : MethodSetting or None
        What an assumption is dropped from.
    finite : Counter form -> instances on which its sides were numbers, not both 0; of a search
        without an assumption only those that break it
    silent : dict form -> why it said nothing on the last instance where it did not
    """

    def __init__(
        self, setting: MethodSetting, seed: int = 0, without: MethodSetting | None = None,
        overrides: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        of = setting.of_statement.id
        super().__init__(Stream(seed).generator(f"authoring search {of}"), seed)
        self.setting, self.without, self.overrides = setting, without, overrides or {}
        self.tightest: dict[str, Elite] = {}
        self.chosen: dict[tuple[str, str, Fraction], Elite] = {}
        self.horizons: dict[tuple[str, int], Elite] = {}
        self.directions: dict[tuple[str, str], int] = {}
        self.tried, self.skipped, self.largest, self.refused = 0, 0, (0, 0), ""
        self.finite: Counter[str] = Counter()
        self.lengths: Counter[int] = Counter()
        self.silent: dict[str, str] = {}
        open_numbers = setting.open_numbers().items()
        self._among = [name for name, v in open_numbers if isinstance(v, Among)]

    def fits(self, instance: Draw) -> bool:
        """True if it is one of the setting's, whose cohorts are few."""
        return self.setting.why_not(instance) is None and self.setting.few(instance)

    def draw(self, tape: Tape) -> Draw:
        """One of the setting's instances; without an assumption one that breaks it, if some do."""
        for _ in range(4):
            made = self.setting.random_instance(tape)  # type: ignore[arg-type]
            if self._breaks(made):
                break
        return made

    def _breaks(self, instance: Draw) -> bool:
        """True if an instance breaks the assumption that is dropped, where one is."""
        return self.without is None or self.without.as_own(instance) is None

    def near(self, instance: Draw) -> Draw | None:
        """Change numbers of the losses, the start, the state, and what is drawn."""
        data = instance.to_data()
        weights = data.pop("weights")
        if self.setting.problems.weights != "equal" and self.rng.random() < 0.5:
            parts = [int(v) for v in self.rng.integers(1, 10, instance.num_clients)]
            weights = [str(Fraction(v, sum(parts))) for v in parts]
        made = Draw.from_data(moved(data, self.rng) | {"weights": weights})
        return made if self.fits(made) else None

    def look(
        self, instance: Draw, tape: np.ndarray | None = None, aim: Any = None, counted: bool = True
    ) -> Scores | None:
        """Score an instance, and keep it among the best; one of another search is not counted."""
        self.tried += counted
        self.lengths[instance.rounds] += counted
        try:
            view = self.setting.view(instance, exact=False)
            view = view.other(self.overrides) if self.overrides else view
            found = scores(self.setting.of_statement, view)
        except (Unbounded, Undefined, MissingCapability) as error:
            self.skipped += counted
            self.refused = str(error)
            self.silent.update(dict.fromkeys(self.setting.of_statement.forms, self.refused))
            return None
        said = self.setting.of_statement.on(view)
        self.silent.update({
            name: str(said.why(name)) for name in self.setting.of_statement.forms
            if name not in said
        })
        self.largest = (
            max(self.largest[0], instance.num_clients), max(self.largest[1], instance.dim)
        )
        breaks = self._breaks(instance)
        if breaks and counted:
            self.finite.update(found.excess.keys())
        @cache
        def again(name: str) -> Check:
            """The form judged, with all that rounding does inside the formulas."""
            return judged(self.setting.of_statement, view, name)

        def violated(name: str) -> bool:
            return again(name).verdict == "violated"

        def both_zero(name: str) -> bool:
            """True if both sides are 0 but for rounding: their ratio is anything."""
            check = again(name)
            return (
                check.verdict == "holds" and NO_RATIO not in check.where
                and np.isnan(check.tightness)
            )

        for name, score in found.excess.items():
            for drawn in self._among if score > VISIBLE else ():
                key = name, drawn, instance.drawn[drawn]
                if score > _score(self.chosen, key):
                    self.chosen[key] = Elite(score, instance)
            if not breaks and score <= VISIBLE:  # the others lead to what the assumption excludes
                continue
            if score <= VISIBLE or not self.enters((name, None), score) or violated(name):
                self.keep((name, None), Elite(score, instance, tape))
        for (name, constant), (leeway, direction) in found.leeway.items() if breaks else ():
            self.keep((name, constant), Elite(-leeway, instance, tape))
            self.directions.setdefault((name, constant), direction)
        for name, ratio in found.ratio.items():
            at, tables = (name, instance.rounds), (self.tightest, self.horizons)
            places: Any = zip(tables, (name, at), strict=True)
            larger = [(table, key) for table, key in places if ratio > _score(table, key)]
            if larger and (both_zero(name) or (ratio > 1 + VISIBLE and not violated(name))):
                continue
            for table, key in larger:
                table[key] = Elite(ratio, instance)
        for name in found.above_zero:
            at = name, instance.rounds
            if _score(self.horizons, at) < np.inf and violated(name):
                self.horizons[at] = Elite(np.inf, instance)
        return found

    def learn(self, other: Search) -> None:
        """Try the best of another search over the same setting on every form, as it stands; not
        what it found of forms that are violated already."""
        known = {id(e.instance) for elites in self.best.values() for e in elites}
        best = [e[0] for aim, e in other.best.items() if e and not self.violating(aim[0])]
        for instance in distinct(e.instance for e in best):
            if id(instance) not in known:
                self.look(instance, counted=False)

    def violating(self, form: str) -> list[Draw]:
        """Instances on which a form is violated in floats, the clearest first."""
        least = {aim: VISIBLE if aim[1] is None else 1e-6 for aim in self.best if aim[0] == form}
        own = [e for aim, score in least.items() for e in self.best[aim] if e.score > score]
        return distinct(e.instance for e in sorted(own, key=lambda e: -e.score))


def _score(table: Mapping[Any, Elite], key: Any) -> Any:
    """The score that is kept under a key, -inf where none is."""
    return table[key].score if key in table else -np.inf


def distinct(instances: Iterable[Draw]) -> list[Draw]:
    """Each of the instances once, in the order in which they come."""
    return list({id(instance): instance for instance in instances}.values())
