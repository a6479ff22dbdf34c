"""Refute a form by a worst function of its class, as a table in fractions.

The programme that proves a form has another side: vectors and values that meet the conditions of
the class and make lhs - rhs as large as can be. Where that is above 0, vectors are rounded to
fractions: the start, what a state begins with, and the gradients, from which the method's own round
gives all positions. Among vectors that violate the form half as much those are taken that leave the
conditions most room, and then some of few dimensions that leave a tenth of it.

The solver is not believed: the table is an instance, on which the conditions of the class and both
sides are judged in fractions.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory._cvxpy import cvxpy
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.cohorts import Full
from fedtheory.rational import objects
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.proof_scopes import scopes
from fedtheory.theory.rounds.tables import Table
from fedtheory.theory.rounds.undefined import SILENT
from fedtheory.theory.rounds.vector_forms import families, names_minimiser, view_of
from fedtheory.theory.studies.counterexamples import excess
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, own
from fedtheory.worst_cases.identity import Family, matrices
from fedtheory.worst_cases.runs import OPTIMUM

__all__ = ["try_worst_table", "worst_table"]

MOST_SECONDS = 60.0  # of processor time, for one form
FOUND = 1e-7  # lhs - rhs of vectors whose squares add up to 1: less is the solver's error
SIZES = (1, 100, 10_000)  # of the sum of squares, where another unit is not the same
NOISE = 1e-7  # of the largest eigenvalue
UNITS = tuple(Fraction(1, 10**k) for k in (1, 2, 3, 4, 6, 8))  # of coordinates, the largest first
OF_VALUES = Fraction(1, 1000)  # the unit of values, of that
Case = tuple[dict[str, Fraction], int, tuple[int, int]]
Vectors = dict[str, np.ndarray]  # block -> its vectors, in the order of their names


def worst_table(
    setting: MethodSetting, form: str, constants: Mapping[str, Fraction] | None = None,
    without: str = "",
) -> Witness | None:  # fmt: skip
    """A table of losses of the class on which a form is violated, or None where none was found.

    constants : other values of some
    without : the assumption that the setting lacks

    Raises
    ------
    MissingCapability
        A side that is no form of vectors; a form that fails, but in more dimensions than the
        statement is about.
    """
    moved, larger = dict(constants or {}), ""
    if not setting.problems.interpolated:
        return None
    for made in _instances(setting, form, moved):
        size = setting.problems.why_not_size(made.num_clients, made.dim)
        fits = setting.problems if size is None else replace(setting.problems, dimension=made.dim)
        sides = excess(replace(setting, problems=fits), form, made, moved)
        if sides is not None and sides[0] > sides[1] and size is None:
            of, by = setting.of_statement, {"search": "worst function"}
            return Witness(
                of.id, form, of.rule, of.name, made.to_data(), str(sides[0]), str(sides[1]),
                without=without, constants={k: str(v) for k, v in moved.items()}, found_by=by,
            )  # fmt: skip
        if sides is not None and sides[0] > sides[1]:
            larger = larger or f"it fails on losses of the class that have {size}; there by {made}"
    if larger:
        raise MissingCapability(larger)
    return None


def try_worst_table(
    setting: MethodSetting, form: str, constants: Mapping[str, Fraction] | None = None,
    without: str = "",
) -> Witness | None:  # fmt: skip
    """As `worst_table`, and None where it can say nothing."""
    with suppress(*SILENT, InvalidInput):
        return worst_table(setting, form, constants, without)
    return None


def _instances(setting: MethodSetting, form: str, moved: dict[str, Any]) -> Iterator[Draw]:
    """Tables of every case in which the form is proved, of one client and of equal ones first."""
    identical, least = setting.problems.identical, 0 if setting._free else setting.usual_rounds[0]
    problems = replace(setting.problems, weights="equal", identical=False)  # as any may be
    setting, until = replace(setting, problems=problems), time.process_time() + MOST_SECONDS
    alike = next((found for found in scopes(setting) if not any(of.apart for of in found)), [])
    for numbers, given, crowd, *_ in alike:
        # before a model from anywhere a proof has no rounds
        rounds = max(given, least) if crowd[0] == crowd[1] else given
        alone = setting.problems.clients[0] == 1 < crowd[0] == crowd[1]
        for case in [(numbers, rounds, (1, 1))] * alone + [(numbers, rounds, crowd)]:
            view = view_of(setting, *case).other(moved)
            for family in families(setting.of_statement, view, form):
                equal = family.of_one_client()
                for of in [equal] + [family] * (family != equal and not identical):
                    if time.process_time() > until:
                        return
                    yield from _Tables(setting, view, case).of(of)


class _Tables:
    """The tables of one view's points.

    Parameters
    ----------
    case : the numbers that are left open, the rounds, and N and P
    """

    def __init__(self, setting: MethodSetting, view: Any, case: Case) -> None:
        self.setting, self.case, self.run = setting, case, view.world.run
        self.losses: Losses = view.world.losses
        self.points = list(self.run.points.values())
        N = case[2][0]
        if N % 2 == 0 or N == 1:  # turns of the deviation, which add up to 0 and have one square
            self.turns, self.square = [[(-1) ** k] for k in range(N)], 1
        else:
            pairs = [[(-1) ** k, -((-1) ** k), 0] for k in range(N - 3)]
            self.turns, self.square = [[1, -1, 0], [0, 1, -1], [-1, 0, 1], *pairs], 2

    def of(self, family: Family) -> Iterator[Draw]:
        """Tables that meet a family's conditions in floats, of few dimensions first, then of short
        fractions."""
        if self.run.conditions:  # which are no matter of losses
            return
        terms = {name: term for name, term in family.terms.items() if name != "1"}
        family = self._with_minimiser(replace(family, terms=terms))
        same = {f"{a.name}, {b.name}" for a in self.points for b in self.points if a.at == b.at}
        scaled = any(q.constant for q in (family.start, *family.terms.values()))
        names = [p.name for p in self.points]
        every = [_Programme(family, same, names, s) for s in (SIZES if scaled else SIZES[:1])]
        some = [p for p in every if p.worst > FOUND * p.size]
        for programme in sorted(some, key=lambda p: -p.worst / p.size):
            for floats, room in programme.vectors():
                for unit in UNITS:
                    vectors = {
                        MEAN: _rounded(floats[MEAN], unit),
                        DEVIATION: _rounded(floats[DEVIATION] / self.square**0.5, unit),
                    }
                    times = {MEAN: 1, DEVIATION: self.square}
                    gram = {b: (v @ v.T * times[b]).astype(float) for b, v in vectors.items()}
                    values = programme.values(gram, room)
                    if values is not None:
                        yield self._made(
                            programme.rows, vectors, _rounded(values, unit * OF_VALUES)
                        )

    def _with_minimiser(self, family: Family) -> Family:
        """The family in which x* is a minimiser of losses that are not convex; without x* where the
        form is not about it."""
        if self.losses.strong_convexity >= 0:
            return family
        star, q = self.run.points[OPTIMUM], family.start
        if not names_minimiser(q):
            self.points = [p for p in self.points if p is not star]
            pairs = {f"{a.name}, {b.name}" for a in self.points for b in self.points}
            return replace(family, terms={k: v for k, v in family.terms.items() if k in pairs})
        tilted, others = Losses(self.losses.smoothness), [p for p in self.points if p is not star]
        more = Family(q, {f"{p.name} above": -tilted.condition(p, star) for p in others})
        more = more if DEVIATION in family.names else more.of_one_client()
        return replace(family, terms={**family.terms, **more.terms})

    def _made(
        self, rows: Mapping[str, tuple[str, ...]], vectors: Vectors, values: np.ndarray
    ) -> Draw:
        """The instance that vectors and values are."""
        numbers, rounds, (clients, participants) = self.case
        split, least = vectors[MEAN].shape[1], self.setting.problems.dimension[0]
        wide = split + vectors[DEVIATION].shape[1] * len(self.turns[0])
        each = dict[tuple[str, str], np.ndarray]()  # every client's vectors (N, d)
        for block, names in rows.items():
            for name, v in zip(names, vectors[block], strict=True):
                out = each[block, name] = _zeros(clients, max(wide, least))
                if block == MEAN:
                    out[:, :split] = v
                else:
                    out[:, split:wide] = [np.kron(turn, v) for turn in self.turns]

        def of_each(v: Any) -> np.ndarray:
            terms = [((MEAN, x), c) for x, c in v.mean.items()]
            terms += [((DEVIATION, x), c) for x, c in v.deviation.items()]
            zero = _zeros(clients, max(wide, least))
            return sum((c * each[key] for key, c in terms if key in each), zero)

        # of points in one place the one whose gradient was asked for comes first
        order = sorted(
            range(len(self.points)), key=lambda i: self.points[i].name not in self.run._asked
        )
        points = [self.points[i] for i in order]
        G, beta, mu = self.losses.lipschitz, self.losses.smoothness, self.losses.strong_convexity
        at, gradients = ([of_each(getattr(p, of)) for p in points] for of in ("at", "gradient"))
        table = Table(
            np.stack(at, axis=1), np.stack(gradients, axis=1), np.stack([values[order]] * clients),
            {"G": G} if G is not None else {"beta": beta, "mu": mu},  # type: ignore[dict-item]
            next((x[0] for p, x in zip(points, at, strict=True) if p.name == OPTIMUM), None),
        )  # fmt: skip
        state = {name: of_each(own(f"state {name}")) for name in self.setting._free}
        for name, axes in self.setting._free.items():
            state[name] = state[name] if axes == "N d" else state[name][0]
        zero = _zeros(*at[0].shape)
        everybody = isinstance(self.setting.sampling, Full)
        return Draw(
            zero, zero, zero, zero, np.full(zero.shape, None),
            objects([Fraction(1, clients)] * clients), of_each(self.run.start)[0], rounds, (),
            None if everybody else participants, dict(numbers), state, table,
        )  # fmt: skip


def _zeros(*shape: int) -> np.ndarray:
    return np.full(shape, Fraction(0), dtype=object)


def _rounded(x: np.ndarray, unit: Fraction) -> np.ndarray:
    """Multiples of a unit near to floats."""
    out = _zeros(*x.shape)
    for at, v in np.ndenumerate(x):
        out[at] = round(float(v) / float(unit)) * unit
    return out


class _Programme:
    """Vectors and values for which a family's terms are at most 0, and its start is negative.

    Parameters
    ----------
    same : names of terms that have no room
    points : whose losses have values, the first one 0
    size : the most that the squares of the vectors add up to

    Attributes
    ----------
    rows : block -> names of its vectors
    worst : -start at most, by the solver
    """

    def __init__(self, family: Family, same: set[str], points: list[str], size: float) -> None:
        cp = cvxpy()
        self.rows, self.points, self.size = {MEAN: (), DEVIATION: (), **family.names}, points, size
        self.shares = np.array([0.0, *(name not in same for name in family.terms)])
        forms = [family.start, *family.terms.values()]
        self.of_gram = np.array([self._flat(q) for q in forms])
        self.of_values = np.array([[-float(q.values.get(p, 0)) for p in points] for q in forms])
        self.numbers = np.array([-float(q.constant) for q in forms])
        self.gram = {
            b: cp.Variable((len(of), len(of)), PSD=True) for b, of in self.rows.items() if of
        }
        flat = cp.hstack([cp.vec(g, order="C") for g in self.gram.values()])
        self.f, self.room = cp.Variable(len(points)), cp.Variable()
        self.sides = self.of_gram @ flat + self.of_values @ self.f + self.numbers
        self.total = sum(cp.trace(g) for g in self.gram.values())
        self.common = [self.total <= size, self.f[0] == 0, self.room <= size]
        self.worst = self._solved(cp.Maximize(self.sides[0]), self.sides[1:] >= 0)

    def _flat(self, q: Quadratic) -> np.ndarray:
        """The matrices of a form with the other sign, as one row."""
        blocks = matrices(q, self.rows)
        return -np.array([float(x) for of in blocks.values() for row in of for x in row])

    def _solved(self, goal: Any, *more: Any) -> float:
        """The optimum by the solver; -inf where it gives none."""
        import cvxpy as cp

        problem = cp.Problem(goal, [*self.common, *more])
        with warnings.catch_warnings(), suppress(cp.SolverError):
            warnings.simplefilter("ignore", UserWarning)  # nothing that a solver says is believed
            problem.solve(solver=cp.CLARABEL, chordal_decomposition_enable=False)
            if problem.status in ("optimal", "optimal_inaccurate"):
                return float(problem.value)
        return -np.inf

    def vectors(self) -> Iterator[tuple[Vectors, float]]:
        """Vectors that violate the form, of few dimensions first; the room that there can be."""
        import cvxpy as cp

        half, shares = self.sides[0] >= self.worst / 2, self.shares[1:]
        room = self._solved(cp.Maximize(self.room), half, self.sides[1:] >= self.room * shares)
        if room <= 0:
            return
        most = {block: g.value for block, g in self.gram.items()}
        part = half, self.sides[1:] >= room / 10 * shares
        if self._solved(cp.Minimize(self.total), *part) > 0:
            few = {block: g.value for block, g in self.gram.items()}
            yield from ((v, room) for v in self._factored(few))
        yield from ((v, room) for v in self._factored(most))

    def _factored(self, gram: Mapping[str, np.ndarray]) -> Iterator[Vectors]:
        """Vectors of these inner products, or of the largest directions of them, few first; the
        first vectors have few coordinates."""
        parts = {b: np.linalg.eigh((g + g.T) / 2) for b, g in gram.items()}
        sizes = np.sort(np.concatenate([size for size, _ in parts.values()]))[::-1]
        for least in sizes[sizes > NOISE * sizes[0]]:
            out = {block: np.zeros((len(names), 0)) for block, names in self.rows.items()}
            for block, (size, axes) in parts.items():
                kept = axes[:, size >= least] * size[size >= least] ** 0.5
                out[block] = np.linalg.qr(kept.T)[1].T
            if self.values({b: v @ v.T for b, v in out.items()}, 1.0) is not None:
                yield out

    def values(self, gram: Mapping[str, np.ndarray], room: float) -> np.ndarray | None:
        """The values for which the largest part of the violation and of the room is left; None
        where nothing is."""
        from scipy.optimize import linprog

        flat = np.concatenate([gram[block].ravel() for block in self.rows])
        shares = room * self.shares
        shares[0] = self.worst
        goal = np.array([*np.zeros(len(self.points)), -1.0])
        left = np.column_stack([-self.of_values, shares])
        bounds = [(0, 0), *[(None, None)] * (len(self.points) - 1), (0, 1)]
        made = linprog(goal, left, self.of_gram @ flat + self.numbers, bounds=bounds)
        return made.x[:-1] if made.success and made.x[-1] > FOUND / 100 else None
