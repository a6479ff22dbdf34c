"""All cohorts that can be drawn in several rounds, classified by symmetry.

P of N clients are drawn in every round, so that a model belongs to a *history*: the cohorts so far.
Every client's loss is asked at the model of every history. A permutation of the clients turns one
instance into another with the same expectation, so that the mean over all permutations is a worst
case, too: the Gram matrix of all these vectors may be taken to commute with them. Such a matrix
falls into blocks, one for each irreducible representation of the symmetric group: on the vectors'
labels the image of a Young symmetriser has a basis in integers, and the matrix is positive
semidefinite if and only if its restriction to each of these images is (Gatermann and Parrilo,
"Symmetry groups, semidefinite programs, and sums of squares", 2004). Conditions that a permutation
turns into one another have the same multiplier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations, permutations
from math import comb, factorial
from typing import Any

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import Quadratic, entry, plus, without_zeros
from fedtheory.worst_cases.runs import NEAR, OPTIMUM

__all__ = ["MOST_CLIENTS", "Each", "Tree", "partitions"]

MOST_CLIENTS = 6
WHOLE = "all"
History = tuple[tuple[int, ...], ...]
Label = tuple[str, int, History]  # a vector: its name, the client (-1: the same for all), the history
COMMON = -1


@dataclass(frozen=True)
class Row:
    """One client's vector: coefficients of labels."""

    of: Mapping[Label, Fraction]

    def inner(self, other: Row) -> Quadratic:
        """<a, b>."""
        gram: dict[Any, Any] = {}
        for x, p in self.of.items():
            for y, q in other.of.items():
                key = (WHOLE, *((x, y) if x <= y else (y, x)))
                gram[key] = gram.get(key, 0) + p * q
        return Quadratic(without_zeros(gram))

    def plus(self, other: Row, times: Fraction) -> Row:
        """The sum of it and a multiple of another."""
        return Row(plus(self.of, other.of, times))

    def __sub__(self, other: Row) -> Row:
        return self.plus(other, Fraction(-1))


@dataclass(frozen=True)
class Each:
    """A vector of every client.

    Attributes
    ----------
    rows : by client
    cohorts : it depends on that many cohorts, from the first on
    """

    rows: tuple[Row, ...]
    cohorts: int = field(default=0, compare=False)

    def __add__(self, other: Each) -> Each:
        return self._plus(other, Fraction(1))

    def __sub__(self, other: Each) -> Each:
        return self._plus(other, Fraction(-1))

    def _plus(self, other: Each, times: Fraction) -> Each:
        rows = zip(self.rows, other.rows, strict=True)
        return Each(tuple(a.plus(b, times) for a, b in rows), max(self.cohorts, other.cohorts))

    def __rmul__(self, number: Any) -> Each:
        return Each(tuple(Row({}).plus(row, number) for row in self.rows), self.cohorts)

    @property
    def average(self) -> Each:
        """The clients' mean, for everybody."""
        return self.over(range(len(self.rows)), self.cohorts)

    def over(self, cohort: Any, cohorts: int) -> Each:
        """The mean over a cohort, for everybody."""
        total = Row({})
        for k in cohort:
            total = total.plus(self.rows[k], Fraction(1, len(cohort)))
        return Each((total,) * len(self.rows), cohorts)


@dataclass
class Tree:
    """A `Run` for exchangeable clients, history by history.

    Attributes
    ----------
    clients, participants : N and P
    history, cohort : where the method is now, and the cohort of this round
    points : dict (name, history) -> every client's `Point`; a point that depends on the cohort of
        its round has that in its history
    extra : dict name -> what is at least 0 for every client
    relaxed : what of the problem is left out, so that the value is an upper bound only
    assumed : dict name -> what is assumed of vectors that a method begins with, in words
    smooth : a loss has one gradient at a point
    """

    clients: int
    participants: int
    smooth: bool = True
    history: History = ()
    cohort: tuple[int, ...] = ()
    points: dict[tuple[str, History], tuple[Point[Row], ...]] = field(default_factory=dict)
    extra: dict[tuple[str, int, History], Quadratic] = field(default_factory=dict)
    relaxed: str = ""
    assumed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        N = self.clients
        if N > MOST_CLIENTS:
            raise InvalidInput(
                f"clients = {N}: a tree of cohorts is computed for at most {MOST_CLIENTS}; more "
                "fit where all take part, and in one round of the criterion distance"
            )
        self._asked: set[str] = set()
        self.zero = self.best = Each((Row({}),) * N)
        self.start = Each((Row({("x0", COMMON, ()): Fraction(1)}),) * N)
        raw = Each(tuple(Row({("g*", k, ()): Fraction(1)}) for k in range(N)))
        self.optimum = raw - raw.average
        self.points[OPTIMUM, ()] = self._points((OPTIMUM, ()), self.zero, self.optimum)

    # --- what a method writes ---------------------------------------------------------------------
    def gradient(self, name: str, at: Each) -> Each:
        """The clients' gradients at a point of this history."""
        self._asked.add(name)
        return self.solved(name, lambda _: at)

    def solved(self, name: str, where: Callable[[Each], Each]) -> Each:
        """The clients' gradients at the point that an optimality condition makes of them."""
        found = self.vector(name, beside=where(self.zero))
        history = self._seen(found)
        points = self._points((name, history), where(found), found)
        if self.points.setdefault((name, history), points) != points:
            raise MissingCapability(f"the point {name} is not the same for all cohorts after {history}")
        return found

    def known(self, at: Each) -> tuple[str, Each] | None:
        """The name of a point and the clients' gradients where they were asked before in this history; None elsewhere."""
        for (name, history), points in self.points.items():
            here = history in (self.history, self._seen(at)) and name != OPTIMUM
            if here and (self.smooth or name in self._asked) and tuple(p.at for p in points) == at.rows:
                return name, Each(tuple(p.gradient for p in points), len(history))
        return None

    def weights_of_start(self, v: Each) -> list[Any]:
        """By how much a vector moves, for each client, where the start is moved by 1."""
        return [row.of.get(("x0", COMMON, ()), 0) for row in v.rows]

    def vector(self, name: str, everybody: bool = False, beside: Each | None = None) -> Each:
        """A vector of every client, or one that is the same for all; of this round's cohort where
        the vector beside it is."""
        history = self._seen(self.zero if beside is None else beside)
        rows = (Row({(name, COMMON if everybody else k, history): Fraction(1)}) for k in range(self.clients))
        return Each(tuple(rows), len(history))

    def require(self, name: str, a: Each, b: Each) -> None:
        """<a_k, b_k> >= 0 for every client."""
        for k, (p, q) in enumerate(zip(a.rows, b.rows, strict=True)):
            self.extra[name, k, self._seen(a, b)] = p.inner(q)

    def near_the_optimum(self, name: str, distance: Fraction) -> Each:
        """Vectors v_k with (1/N) sum_k ||v_k - grad f_k(x*)||^2 <= distance^2."""
        self.assumed[name] = NEAR.format(name, distance)
        found = self.vector(name) if distance else self.optimum
        if distance:
            total = Quadratic.total(row.inner(row) for row in (found - self.optimum).rows)
            self.extra[name, COMMON, ()] = Quadratic(constant=distance**2) - Fraction(1, self.clients) * total
        return found

    def contract(self, name: str, wanted: Each, found: Each, delta: Any) -> None:
        """||found_k - wanted_k||^2 <= (1 - delta) ||wanted_k||^2 for every client."""
        for k, (p, q) in enumerate(zip(wanted.rows, found.rows, strict=True)):
            self.extra[name, k, self.history] = (1 - delta) * p.inner(p) - (q - p).inner(q - p)

    @property
    def drawn(self) -> bool:
        """True if some clients take part, and others do not."""
        return self.participants < self.clients

    def mean(self, v: Each) -> Each:
        """The mean over the cohort."""
        return v.over(self.cohort, len(self.history) + 1)

    def put(self, old: Each, new: Each) -> Each:
        """Return what the clients keep: those of the cohort the new, the others the old."""
        rows = (new.rows[k] if k in self.cohort else old.rows[k] for k in range(self.clients))
        return Each(tuple(rows), len(self.history) + 1)

    def _seen(self, *vectors: Each) -> History:
        """The cohorts that vectors of this round depend on: those before it, or its own as well."""
        own = max(v.cohorts for v in vectors) > len(self.history)
        return (*self.history, self.cohort) if own else self.history

    def walk(self, page: Callable[[Any, int, Any, Any], tuple[Any, Any]], rounds: int) -> list[dict[History, Each]]:
        """The models of every round, by history."""
        level: dict[History, tuple[Any, Any]] = {(): (self.start, None)}
        models: list[dict[History, Each]] = [{(): self.start}]
        for t in range(rounds):
            after = {}
            for history, (x, state) in level.items():
                self.history = history
                for cohort in combinations(range(self.clients), self.participants):
                    self.cohort = cohort
                    after[(*history, cohort)] = page(self, t, x, state)
            level = after
            models.append({history: x for history, (x, _) in level.items()})
        return models

    def _points(self, of: tuple[str, History], at: Each, gradient: Each) -> tuple[Point[Row], ...]:
        name, history = of
        rows = zip(at.rows, gradient.rows, strict=True)
        return tuple(Point((name, k, history), x, g) for k, (x, g) in enumerate(rows))

    # --- what is asked of it ----------------------------------------------------------------------
    def square(self, models: Mapping[History, Each]) -> Quadratic:
        """E ||x||^2."""
        return self._expected(models, lambda _, x: x.rows[0].inner(x.rows[0]))

    def gap(self, name: str, models: Mapping[History, Each]) -> Quadratic:
        """E F(x) - F*."""
        star = Quadratic(values={p.name: Fraction(1, self.clients) for p in self.points[OPTIMUM, ()]})

        def here(history: History, x: Each) -> Quadratic:
            self.history = history
            self.gradient(name, x)
            return Quadratic(values={p.name: Fraction(1, self.clients) for p in self.points[name, history]}) - star

        return self._expected(models, here)

    def squared_gradient(self, name: str, models: Mapping[History, Each]) -> Quadratic:
        """E ||grad F(x)||^2."""

        def here(history: History, x: Each) -> Quadratic:
            self.history = history
            mean = self.gradient(name, x).average.rows[0]
            return mean.inner(mean)

        return self._expected(models, here)

    def heterogeneity(self) -> Quadratic:
        """(1/N) sum_k ||grad f_k(x*)||^2."""
        return Fraction(1, self.clients) * Quadratic.total(row.inner(row) for row in self.optimum.rows)

    def of_losses(self, losses: Losses) -> Iterator[tuple[str, Quadratic]]:
        """One condition of each orbit, with its name."""
        seen: set[Any] = set()
        first = [points[0] for points in self.points.values()]
        for i, j in permutations(first, 2):
            key = self.canonical((i.name, j.name))
            if key not in seen:
                seen.add(key)
                yield f"{written(key[0])}, {written(key[1])}", losses.condition(i, j)
        for i in first if losses.lipschitz is not None else []:
            key = self.canonical((i.name,))
            if key not in seen:
                seen.add(key)
                yield f"|{written(key[0])}|", Quadratic(constant=losses.bound**2) - i.gradient.inner(i.gradient)
        for label, condition in self.extra.items():
            key = self.canonical((label,))
            if key not in seen:
                seen.add(key)
                yield f"<{written(key[0])}>", condition

    def size(self, rounds: int, asked: int, ends: int) -> int:
        """Return how many conditions there are at least. There are ``asked`` points for each
        history, and ``ends`` at the last."""
        each = comb(self.clients, self.participants)
        points = 1 + asked * sum(each**t for t in range(rounds)) + ends * each**rounds
        return points * (points - 1) // factorial(self.clients - 1)

    def _expected(self, models: Mapping[History, Each], what: Callable[[History, Each], Quadratic]) -> Quadratic:
        return Fraction(1, len(models)) * Quadratic.total(what(history, x) for history, x in models.items())

    # --- symmetry ---------------------------------------------------------------------------------
    @cached_property
    def group(self) -> tuple[tuple[int, ...], ...]:
        """All permutations of the clients."""
        return tuple(permutations(range(self.clients)))

    def canonical(self, labels: tuple[Label, ...]) -> tuple[Label, ...]:
        """The first of what permutations make of some labels."""
        return min(tuple(moved(label, g) for label in labels) for g in self.group)

    def symmetric(self, q: Quadratic) -> bool:
        """True if a form is the same for all orders of the clients."""
        swapped, turned = (1, 0, *range(2, self.clients)), (*range(1, self.clients), 0)
        return all(_moved_form(q, g) == q for g in (swapped, turned))

    def blocks(self, q: Quadratic) -> Quadratic:
        """The mean of a form over all permutations, block by block."""
        return self._reduction.of(q)

    def bases(self, labels: Iterable[Label]) -> dict[tuple[str, str], dict[Label, int]]:
        """(block, name) -> coefficients of the vector that stands for it, for labels' orbits."""
        orbits = {self._reduction.orbit(label) for label in labels}
        return {(block, name): of for orbit in orbits for block, name, of in self._reduction.bases[orbit]}

    @cached_property
    def _reduction(self) -> _Reduction:
        return _Reduction(self)


def moved(label: Label, g: tuple[int, ...]) -> Label:
    """The label that a permutation makes of it."""
    name, client, history = label
    return name, client if client == COMMON else g[client], tuple(tuple(sorted(g[k] for k in cohort)) for cohort in history)


def _moved_form(q: Quadratic, g: tuple[int, ...]) -> Quadratic:
    gram = {entry(block, moved(x, g), moved(y, g)): c for (block, x, y), c in q.gram.items()}
    return Quadratic(gram, {moved(p, g): c for p, c in q.values.items()}, q.constant)


def written(label: Label) -> str:
    """'g1.0 of 0 after 01' for the gradient of client 0 after the cohort of 0 and 1."""
    name, client, history = label
    after = " ".join("".join(map(str, cohort)) for cohort in history)
    return name + ("" if client == COMMON else f" of {client}") + (f" after {after}" if after else "")


class _Reduction:
    """The entries of the blocks that a form has."""

    def __init__(self, tree: Tree) -> None:
        self.group = tree.group
        self.tableaux = [(("+".join(map(str, shape))), _symmetriser(shape)) for shape in partitions(tree.clients)]
        self.bases: dict[Label, list[tuple[str, str, dict[Label, int]]]] = {}  # by the first label of an orbit
        self.first: dict[Label, Label] = {}
        self.pairs: dict[tuple[Label, Label], dict[Any, Fraction]] = {}

    def of(self, q: Quadratic) -> Quadratic:
        gram: dict[Any, Any] = {}
        for (_, x, y), number in q.gram.items():
            for key, share in self._pair(x, y).items():
                gram[key] = gram.get(key, 0) + number * share
        values: dict[Any, Any] = {}
        for label, number in q.values.items():
            name = label if isinstance(label, str) else written(self.orbit(label))
            values[name] = values.get(name, 0) + number
        return Quadratic(without_zeros(gram), without_zeros(values), q.constant)

    def orbit(self, label: Label) -> Label:
        """The first label of its orbit."""
        if label not in self.first:
            orbit = sorted({moved(label, g) for g in self.group})
            self.first |= dict.fromkeys(orbit, orbit[0])
            self.bases[orbit[0]] = list(self._basis(orbit))
        return self.first[label]

    def _basis(self, orbit: list[Label]) -> Iterator[tuple[str, str, dict[Label, int]]]:
        """Block, name and coefficients of the vectors that span the images of the symmetrisers."""
        for block, symmetriser in self.tableaux:
            echelon: list[dict[Label, Fraction]] = []
            for label in orbit:
                image: dict[Label, int] = {}
                for g, sign in symmetriser.items():
                    at = moved(label, g)
                    image[at] = image.get(at, 0) + sign
                row = {at: Fraction(x) for at, x in image.items() if x}
                for other in echelon:
                    pivot = next(iter(other))
                    if pivot in row:
                        share = row[pivot] / other[pivot]
                        row = {at: x for at in row | other if (x := row.get(at, 0) - share * other.get(at, 0))}
                if row:
                    echelon.append(row)
                    yield block, f"{written(orbit[0])} #{len(echelon)}", {at: x for at, x in image.items() if x}

    def _pair(self, x: Label, y: Label) -> dict[Any, Fraction]:
        """The entries of the mean over all permutations of <x, y>."""
        key = min((moved(x, g), moved(y, g)) for g in self.group) if (x, y) not in self.pairs else (x, y)
        if key not in self.pairs:
            self.pairs[key] = self._entries(*key)
        self.pairs[x, y] = self.pairs[key]
        return self.pairs[key]

    def _entries(self, x: Label, y: Label) -> dict[Any, Fraction]:
        out: dict[Any, Fraction] = {}
        turned = [(moved(x, g), moved(y, g)) for g in self.group]
        for block, i, left in self.bases[self.orbit(x)]:
            for other, j, right in self.bases[self.orbit(y)]:
                if block == other:
                    total = sum(left.get(a, 0) * right.get(b, 0) for a, b in turned)
                    if total:
                        key = entry(block, i, j)
                        out[key] = out.get(key, Fraction(0)) + Fraction(total, len(turned))
        return out


def partitions(n: int, most: int | None = None) -> Iterator[tuple[int, ...]]:
    """The partitions of n, the largest parts first."""
    if n == 0:
        yield ()
    for first in range(min(n, most or n), 0, -1):
        for rest in partitions(n - first, first):
            yield (first, *rest)


def _symmetriser(shape: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """sum over column permutations c and row permutations r of sign(c) c r, for the tableau that is filled row by row."""
    rows, at = [], 0
    for length in shape:
        rows.append(list(range(at, at + length)))
        at += length
    columns = [[row[j] for row in rows if j < len(row)] for j in range(shape[0])]
    out: dict[tuple[int, ...], int] = {}
    for c in _within(columns, at):
        for r in _within(rows, at):
            g = tuple(c[r[k]] for k in range(at))
            out[g] = out.get(g, 0) + _sign(c)
    return {g: sign for g, sign in out.items() if sign}


def _within(parts: list[list[int]], n: int) -> Iterator[tuple[int, ...]]:
    """The permutations of n that leave every part in its place."""
    if not parts:
        yield tuple(range(n))
        return
    for rest in _within(parts[1:], n):
        for image in permutations(parts[0]):
            g = list(rest)
            for k, to in zip(parts[0], image, strict=True):
                g[k] = to
            yield tuple(g)


def _sign(g: tuple[int, ...]) -> int:
    return (-1) ** sum(g[i] > g[j] for i in range(len(g)) for j in range(i + 1, len(g)))
