"""The quantities that a statement is given: the named quantities of a round or a run as attributes, a few
functions, and its rounding errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from fedtheory.algorithms.compressed import Compressed
from fedtheory.errors import InvalidInput, MissingCapability, UnknownName, suggest
from fedtheory.inputs import flag
from fedtheory.local.objective import LocalObjective
from fedtheory.theory.judge.record import UNKNOWN
from fedtheory.theory.judge.statement import Undefined
from fedtheory.theory.rounds.declare import Facts, alias, number
from fedtheory.theory.rounds.oracles import at_once, each
from fedtheory.theory.rounds.quantities import (
    FUNCTIONS,
    ROUND,
    RUN,
    Fields,
    Quantity,
    clients_of,
    of_the_other,
    sq,
)
from fedtheory.theory.rounds.rational_clients import NotInFractions

__all__ = ["NUDGE", "ROUNDING", "Quantities", "RoundQuantities", "RunQuantities"]

NUDGE = 2.0**-36
SHARES = 9973  # of a nudge that are drawn: a prime number, after which they come again
ROUNDING = 64 * 2.0**-52  # relative errors that are allowed for: of losses, gradients, models and constants


class UnknownQuantity(UnknownName, AttributeError):
    """No quantity of that name."""


class Nudged:
    """A world whose losses and gradients are moved a little."""

    def __init__(self, world: Any, move: Callable[[Any], Any], share: Callable[..., Any]) -> None:
        self._world, self._move, self.share = world, move, share

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._world, name)
        if name not in ("values", "gradients", "gradients_each"):
            return own
        return lambda x: self._move(own(x))


class Quantities:
    """The quantities that a statement is given, as attributes, and a few functions.

    Attributes
    ----------
    rule : str
        Of the statement's rules the one that the method runs under.
    rational : bool
        Whether all numbers are fractions.
    exact : bool
        Whether nothing is estimated: all cohorts are enumerated.
    sampled : bool
        Whether the scenarios are draws (Monte Carlo) and no enumeration.
    constants : dict
        The constants that the bound declared by `constant`, with the values stated.
    left_free : set
        Those of them that are free.
    """

    table: ClassVar[Mapping[str, Quantity]] = {}
    axis = "entry"
    fixed = False  # whether the round starts at a fixed point of the method
    seldom = False  # whether most forms of a statement are not asked for here
    judged = True  # whether anybody asks how far rounding errors reach

    def __init__(
        self, world: Any, facts: Facts, path: Any, probability: Any, algorithm: Any, sampled: bool = False,
        overrides: dict[str, Any] | None = None, corner: tuple[int, int] = (0, 0), fixed: bool = False,
    ) -> None:  # fmt: skip
        self.fixed = fixed
        self.world, self.facts, self.path, self.probability = world, facts, path, probability
        self.method = algorithm.method if isinstance(algorithm, Compressed) else algorithm
        self.values, self.gradients = world.values, world.gradients
        self.gradients_each = world.gradients_each
        self.rational, self.sampled, self.exact = world.exact, sampled, not sampled
        self.vectors = getattr(world, "vectors", False)
        self.overrides, self.corner = overrides or {}, corner
        self.constants: dict[str, Fraction] = {}
        self.left_free: set[str] = set()
        self.uses_optimum = self.uses_distance = False
        self._kept: dict[Any, Any] = {}
        self._solved: dict[str, Any] = {}  # by the clients, once for all views of one run

    @property
    def moved(self) -> bool:
        """True of what `nudged` gives."""
        return isinstance(self.world, Nudged)

    def like(self, **other: Any) -> Any:
        """The same quantities, but for these arguments."""
        names = "world facts path probability sampled overrides corner fixed".split()
        own = {name: getattr(self, name) for name in names} | {"algorithm": self.method}
        return type(self)(**own | other)

    def other(self, overrides: dict[str, Any] | None = None, corner: tuple[int, int] = (0, 0)) -> Any:
        """The same run with constants of the bound changed, or the optimum at the edge of what
        is known of it."""
        out = self.like(overrides=overrides, corner=corner)
        if corner == self.corner:
            out._kept, out.uses_optimum, out.uses_distance = self._kept, self.uses_optimum, self.uses_distance
        out._solved = self._solved
        return out

    def applies(self, form: Any) -> str | None:
        """Nothing but the class of problems is needed, and instances are of it."""
        return None

    def printed_constants(self) -> dict[str, Any]:
        """None are shown with a verdict."""
        return {}

    def locate(self, where: dict[str, Any]) -> None:
        """Say what the entries compared are: starts of a round, rounds of a run."""
        if len(where["index"]) == 1:
            where["axes"] = [self.axis]

    def few(self, count: int) -> Any:
        """The first so many draws of the same run."""
        path = self.path._replace(states=[each(s, lambda v: v[:count]) for s in self.path.states])
        out = self.like(path=path, probability=self.probability[:count])
        out._solved = {k: v[:, :count] for k, v in self._solved.items() if isinstance(v, np.ndarray)}
        return out

    def nudged(self, again: int = 0) -> Any:
        """The same run with losses, gradients, states and constants each moved by a share of up
        to `NUDGE`, to see how far rounding errors reach.

        again : an even number has a move of its own, as those of one may cancel; the next one has
            its opposite
        """
        rng, size = np.random.default_rng(7 + again // 2), NUDGE * (-1) ** again

        def move(v: Any) -> Any:
            floats = isinstance(v, float) or getattr(getattr(v, "dtype", None), "kind", "") == "f"
            return v * (1 + size * rng.uniform(-1, 1, np.shape(v))) if floats else v

        facts = Facts({k: float(move(v)) if isinstance(v, float) else v for k, v in self.facts.items()})
        world = Nudged(self.world, move, lambda shape: size * rng.uniform(-1, 1, shape))
        out = self.like(world=world, facts=facts, path=self._moved_path(size, rng))
        out._solved = {k: move(v) for k, v in self._solved.items() if k != "value"}
        return out

    def _moved_path(self, size: float, rng: np.random.Generator) -> Any:
        """The run with every number of a state moved by the share ``size`` of the largest there was:
        errors of early rounds stay in later ones."""
        def moved(state: Any) -> Any:
            sizes = iter(self._sizes)

            def shifted(v: Any) -> Any:
                share = np.resize(size * rng.uniform(-1, 1, SHARES), v.shape)
                return v + (next(sizes) + np.abs(v)) * share

            return each(state, shifted)

        return self.path._replace(states=at_once(moved, self.path.states, self.path.alike))

    @cached_property
    def _sizes(self) -> list[float]:
        """The largest entry of every field of the states."""
        fields = [v for v in zip(*self.path.states, strict=True) if v[0] is not None]
        each_field = [max(float(np.abs(v).max(initial=0.0)) for v in field) for field in fields]
        return [self._size, *each_field[1:]]

    @property
    def _size(self) -> float:
        """The largest entry of a model that took part in the run."""
        states = [float(np.abs(s.x).max(initial=0.0)) for s in self.path.states]
        return max(*states, float(np.abs(np.asarray(self.world.start, dtype=float)).max(initial=0.0)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_kept" not in self.__dict__:
            raise AttributeError(name)
        if name in self._kept:
            return self._kept[name]
        if name in self.facts:
            value = self.facts[name]
            if value is None:
                raise MissingCapability(f"{name} does not exist here: the losses have no such constant")
            return value
        if elsewhere := of_the_other(name, self.table is RUN):
            raise UnknownQuantity(elsewhere)
        if name not in self.table:
            if told := alias(name, [*self.table, *self.facts], "quantity", "q."):
                raise UnknownQuantity(told)
            known = [*self.table, *self.facts, *(f.partition("(")[0] for f in FUNCTIONS)]
            raise UnknownQuantity(str(suggest(name, known, "quantity")))
        self._kept[name] = self.table[name].of(self)
        return self._kept[name]

    # --- functions --------------------------------------------------------------------------------------------------------
    def once(self, of: Callable[[Any], Any]) -> Any:
        """A function of these quantities, which is worked out once for all statements about them."""
        name = f"{of.__module__}.{of.__qualname__}"
        if name not in self._kept:
            self._kept[name] = of(self)
        return self._kept[name]

    def constant(self, name: str, value: Any, free: bool = False) -> Any:
        """A constant of the bound, declared so that it can be asked how small or large it may
        become.

        Of a ``free`` one the form claims that some number >= 0 will do: on an instance it is
        judged with this value, and a proof takes one of its own.
        """
        stated = Fraction(str(value) if isinstance(value, float) else value)  # 0.5 is meant as one half, 0.1 as a tenth
        if self.constants.setdefault(name, stated) != stated:
            raise Undefined(
                f"constant {name!r} is declared twice, as {self.constants[name]} and {stated}: use another name"
            )
        chosen = self.overrides.get(name, stated)
        if flag("free", free):
            self.left_free.add(name)
            if stated < 0 or chosen < 0:
                raise InvalidInput(f"constant {name!r} = {min(stated, chosen)}: one that is free is any number >= 0")
        return number(chosen, self.rational)

    @staticmethod
    def sq(v: Any) -> Any:
        """||v||^2 along the last axis."""
        return sq(v)

    @staticmethod
    def dot(v: Any, w: Any) -> Any:
        """<v, w> along the last axis."""
        return (v * w).sum(axis=-1)

    def sqrt(self, value: Any) -> Any:
        """The square root; of fractions only where it is one."""
        if not self.rational:
            return np.sqrt(value)

        def root(of: Any) -> Fraction:
            v = Fraction(of)
            found = Fraction(math.isqrt(max(v.numerator, 0)), math.isqrt(v.denominator))
            if found * found != v:
                raise NotInFractions(
                    f"the square root of {v} is no fraction: state the square of it where you can"
                )
            return found

        return np.frompyfunc(root, 1, 1)(np.asarray(value, dtype=object))

    @staticmethod
    def power(base: Any, exponent: Any) -> Any:
        """base ** exponent for whole exponents, entry by entry: a fraction to the power of an array would become floats."""
        base, exponent = np.asarray(base), np.asarray(exponent)
        if base.dtype != object:
            return base ** exponent.astype(float)

        def power(b: Any, e: Any) -> Fraction:
            if e != int(e):
                raise NotInFractions(
                    f"the power {e} is not whole: state a power of both sides that is, where you can"
                )
            return Fraction(b) ** int(e)

        return np.frompyfunc(power, 2, 1)(base, exponent.astype(object))

    def value(self, x: Any) -> Any:
        """F at any points: (..., d) -> (...); at those in a row that are one, and at those of the
        last time, found once, but each time moved by itself where F is moved."""
        if self.vectors:
            return (self.world.weights * self.world.values(x)).sum(axis=-1)
        at, found = self._solved.get("value", (None, None))
        if self.moved or not np.array_equal(at, x):
            points = np.reshape(x, (-1, np.shape(x)[-1]))
            new = np.ones(len(points), dtype=bool)
            new[1:] = (points[1:] != points[:-1]).any(axis=-1)
            found = (self.world.weights * self.world.values(points[new])).sum(axis=-1)
            found = found[np.cumsum(new) - 1].reshape(np.shape(x)[:-1])
            self._solved["value"] = np.array(x), found
        return found

    def over_clients(self, v: Any) -> Any:
        """The mean over the clients: (..., K) -> (...)."""
        if self.vectors:
            return self.world.over_clients(v)
        return v.sum(axis=-1) / number(v.shape[-1], self.rational)

    def rounding(self, v: Any) -> Any:
        """By how much floats may miss numbers of the size of v; 0 of fractions."""
        return 0 * v if self.rational else ROUNDING * abs(v)

    def gap_at(self, x: Any) -> Any:
        """F - F* at any points."""
        found = self.value(x)
        return found - self._least(found)

    def _least(self, among: Any) -> Any:
        """F*, moved by what is not known of it, and of numbers of F of the size of these."""
        best, side = self._best, self.corner[0]
        if self.rational or not side:
            return best.F_low
        size = float(np.abs(among).max()) + abs(best.F_high)
        rounding = 64 * float(np.finfo(float).eps) * size
        return best.F_high + rounding if side > 0 else best.F_low - rounding

    def _distance_sq(self, x: Any) -> Any:
        """||x - x_star||^2, moved by what is not known of x_star."""
        self.uses_distance = True
        out, side = sq(x - self.x_star), self.corner[1]
        if not side or self.rational:
            return out
        radius = self._best.radius + ROUNDING * (self._size + float(np.abs(self._best.x).max(initial=0.0)))
        return np.maximum(np.sqrt(out) + side * radius, 0.0) ** 2

    @property
    def _best(self) -> Any:
        self.uses_optimum = True
        return self.world.best


class RoundQuantities(Quantities):
    """The quantities of one round: before it (S, 1), after it (S, C) for all C cohorts, vectors
    with d behind."""

    table, axis = ROUND, "state"

    @property
    def _cohorts(self) -> int:
        return len(self.probability)

    @property
    def _before_each(self) -> Any:
        return self.path.states[-2]

    @property
    def _before(self) -> Any:
        state, count = self._before_each, self._cohorts
        if isinstance(state, Fields):
            return Fields(lambda name: getattr(state, name)[::count])
        return each(state, lambda v: v[::count])

    def _moved_path(self, size: float, rng: np.random.Generator) -> Any:
        """The last round with each field of its two states moved where it is asked for, by the
        share of the largest that it had in that scenario; one state for all cohorts as one."""
        seed = int(rng.integers(2**32))

        def moved(at: int, name: str) -> Any:
            count = self._cohorts if at == -2 else 1
            v = getattr(self.path.states[at], name)[::count]
            own = np.random.default_rng([seed, -at, *name.encode()])
            share = np.resize(size * own.uniform(-1, 1, min(SHARES, v.size)), v.shape)
            largest = self._largest(name)[::count].reshape(-1, *[1] * (v.ndim - 1))
            made = v + (largest + abs(v)) * share
            return made if count == 1 else np.repeat(made, count, axis=0)

        return self.path._replace(states=[Fields(partial(moved, at)) for at in (-2, -1)])

    def _largest(self, name: str) -> Any:
        """The largest entry that a field of the states had in each scenario: (S C,)."""
        if (kept := f"largest {name}") not in self._kept:
            each_state = [getattr(s, name).reshape(len(s.x), -1) for s in self.path.states]
            self._kept[kept] = np.max([abs(v).max(axis=1, initial=0.0) for v in each_state], axis=0)
        return self._kept[kept]

    @property
    def _after(self) -> Any:
        return self.path.states[-1]

    @property
    def _clients(self) -> Any:
        return self.path.clients[-1]

    def _fold(self, v: Any) -> Any:
        return v.reshape(-1, self._cohorts, *v.shape[1:])

    def placed(self, where: dict[str, Any], relation: str, count: int) -> dict[str, Any]:
        """Give the axes of the worst of so many entries, where known, and the cohort's clients."""
        index, axes = where.get("index", []), where.get("axes", [])
        if not axes and len(index) <= 1 + (relation == "=="):
            many = count == len(self.path.states[-1].x)  # one for every cohort
            axes = [self.axis, "cohort" if many else ""][: len(index)]
        if len(axes) != len(index):
            return where
        found = {axis: i for axis, i in zip(axes, index, strict=True) if axis}
        where = where | {"index": [*found.values()], "axes": [*found]}
        if "cohort" in found:
            at = index[0] * self._cohorts + found["cohort"]
            where["cohort"] = np.flatnonzero(self._clients.cohort.taking_part()[at]).tolist()
        return where

    def misshapen(self, shape: tuple[int, ...]) -> str | None:
        """Say what is wrong with the shape of a side, or give None."""
        scenarios = len(self.path.states[-1].x) // self._cohorts
        if shape in ((), (1,)) or (
            len(shape) > 1 and shape[0] in (1, scenarios) and shape[1] in (1, self._cohorts)
        ):
            return None
        some = " or with a 1 for either" * (max(scenarios, self._cohorts) > 1)
        want = f"starts by cohorts, here ({scenarios}, {self._cohorts}){some}"
        return f"a side has shape {shape}, and must be a number, or have the axes of q.F_next: {want}. Do not index or sum these axes"

    def minimised(self, name: str, center: Any, linear: Any, curvature: Any, l1: Any) -> Any:
        """argmin f_k(y) - <linear, y> + curvature/2 ||y - center||^2 + l1 ||y - center||_1 of every
        client from the state before the round: (S, 1, N, d); found once under its name."""
        if name not in self._solved:
            x, kept = self._before.x, center[:, 0]
            whole = LocalObjective(center=kept, linear=linear[:, 0], curvature=curvature, l1=l1)
            self._solved[name] = clients_of(self, x).minimise(whole, kept).y - x[:, None]
        return self.near(self.x[:, :, None], self._solved[name][:, None])

    def near(self, x: Any, moves: Any) -> Any:
        """x + moves; of a moved view off by a share of x where it moves, as floats round there."""
        if not self.moved:
            return x + moves
        return x + moves + np.where(moves != 0, self.world.share(moves.shape) * abs(x), 0)

    def mean(self, v: Any) -> Any:
        """The expectation over the cohorts: (S, C, ...) -> (S, 1, ...)."""
        v = np.asarray(v)
        wrong = self.misshapen(v.shape)
        if wrong is not None:
            raise InvalidInput(f"q.mean: {wrong.replace('a side has', 'an array of')}; take q.F_next, not q.F_next[0]")
        if self.vectors:
            return self.world.expected(v)
        if v.ndim < 2 or v.shape[1] == 1:
            return v
        return (v * self.probability.reshape(-1, *(1,) * (v.ndim - 2))).sum(axis=1, keepdims=True)

    def expectation(self, v: Any) -> Any:
        """Take the expectation of a side: (S, C, ...) -> (S, ...)."""
        v = np.asarray(v)
        return v.reshape(()) if v.ndim == 0 else v if v.ndim == 1 else self.mean(v)[:, 0]


class RunQuantities(Quantities):
    """The quantities of a run: (T + 1, S) for rounds 0..T and S scenarios, vectors with d
    behind."""

    table, axis = RUN, "round"

    def misshapen(self, shape: tuple[int, ...]) -> str | None:
        """Say what is wrong with the shape of a side, or give None."""
        scenarios = len(self.path.states[-1].x)
        if not shape or (shape[-1] in (1, scenarios) and not self._scenarios_first(shape)):
            return None
        last = f"its last axis must be the {scenarios} scenarios, or 1" if scenarios > 1 else "its last axis must be the one scenario"
        return f"a side has shape {shape}, and {last}, as in q.gap[-1] or q.gap[1:]. Do not index or sum that axis"

    def mean(self, v: Any) -> Any:
        """The expectation over the scenarios, the second axis (the only one of a single round's numbers,
        q.gap[-1]), which stays with length 1."""
        if self.sampled:
            raise MissingCapability("q.mean needs enumerated cohorts: a mean of draws is no expectation")
        v, scenarios = np.asarray(v), len(self.path.states[-1].x)
        if v.ndim == 0 or scenarios == 1 or v.shape == (1,):
            return v
        if v.shape == (scenarios,):
            return (v * self.probability).sum(keepdims=True)
        if v.ndim == 1 or v.shape[1] not in (1, scenarios) or self._scenarios_first(v.shape):
            raise InvalidInput(
                f"q.mean of an array of shape {v.shape}: of a run its axes are rounds, then scenarios (1 or {scenarios}); "
                "of one round's models take q.x[-1:], not q.x[-1]"
            )
        if v.shape[1] == 1:
            return v
        return (v * self.probability.reshape(-1, *(1,) * (v.ndim - 2))).sum(axis=1, keepdims=True)

    def looked(self, count: int) -> tuple[str, Any]:
        """The rounds that so many entries are about, and their letter: the horizons, if they were
        read, or the last so many."""
        last, read = len(self.path.states) - 1, self._kept.get("horizons", ())
        if len(read) == count:
            return "T", read
        return "t", np.arange(last + 1 - count, last + 1)

    def _scenarios_first(self, shape: tuple[int, ...]) -> bool:
        """True if the first axis is longer than the run and counts the scenarios, as that of q.x[-1]."""
        return len(shape) > 1 and shape[0] == len(self.path.states[-1].x) > len(self.path.states)

    def expectation(self, v: Any) -> Any:
        """Take the expectation of a side: (..., S) -> (...)."""
        v = np.asarray(v)
        if v.ndim == 0 or v.shape[-1] == 1:
            return v if v.ndim == 0 else v[..., 0]
        return (v * self.probability).sum(axis=-1)

    def dot_of_means(self, v: Any, w: Any) -> Any:
        """<E v, E w>: (T, S, d) -> (T, 1); of draws <v, w'> with those of another one, two by two,
        which has that expectation."""
        if self.path.alike and self.sampled:
            count = v.shape[1]
            w = w[:, np.minimum(np.arange(count) ^ 1, count - 1)]
        elif self.path.alike:
            v, w = self.mean(v), self.mean(w)
        return self.dot(v, w)

    def minimised(self, name: str, center: Any, linear: Any, curvature: Any, l1: Any) -> Any:
        """argmin f_k(y) - <linear, y> + curvature/2 ||y - center||^2 + l1 ||y - center||_1 of the
        clients of client_models, in rounds 1..T: (T, S, P, d); found once under its name."""
        if not self.path.alike and any(np.isnan(v).any() for v in (center, linear)):
            raise MissingCapability(f"{name}: {UNKNOWN}")
        if name not in self._solved:
            found = []
            for t, n in enumerate(self.path.alike[1:] or [1] * len(center)):
                x, kept, slope = (v[t, ::n] for v in (self.x, center, linear))
                cohort = self.path.clients[t].cohort if self.path.alike else None
                clients = clients_of(self, x, cohort, t + 1)
                whole = LocalObjective(center=kept, linear=slope, curvature=curvature, l1=l1)
                found.append(np.repeat(clients.minimise(whole, kept).y - x[:, None], n, axis=0))
            self._solved[name] = np.stack(found)
        return self.x[:-1, :, None] + self._solved[name]

    def total(self, v: Any) -> Any:
        """Running sums over rounds, from the first entry on."""
        return np.cumsum(v, axis=0)
