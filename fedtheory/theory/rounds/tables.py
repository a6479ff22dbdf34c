"""Losses by a table: points with the gradients and values that losses of a class have there.

Where positions, gradients and values meet the interpolation conditions of a class, a loss of the
class has them (Taylor, Hendrickx and Glineur 2017). A method that asks for nothing else runs on
that loss as it runs on the table, so that a table in fractions is an instance in fractions. Points
are looked up, and one that is not there is refused.

The conditions are asked for with room. Data that meet them so are data of a smaller class, too, and
bends that are added far from all points give losses whose constants are exactly those of the table,
and whose mean has no minimiser but x*.

Of losses that are not convex, x* is the minimiser where for every point i of each client

    f_i - f_* - <g_*, x_i - x*> > ||g_i - g_*||^2/(2 beta).

The largest loss with these data and curvatures from mu < 0 to beta is h - |mu|/2 ||y||^2, with h
the convex hull of all q_i + |mu|/2 ||y||^2 for q_i = f_i + <g_i, y - x_i> + beta/2 ||y - x_i||^2.
Where the hull is attained at the mean y of y_i with weights a_i, it is sum a_i q_i(y_i) + |mu|/2
sum a_i ||y_i - y||^2. So less the slope g_* it is nowhere below the least of f_i - <g_*, x_i> -
||g_i - g_*||^2/(2 beta), which is its value at x*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import brief, fraction, to_file
from fedtheory.theory.judge.statement import Undefined
from fedtheory.theory.rounds.losses import OfPieces, fractions

__all__ = ["Table", "TableLosses"]

MOST_POINTS, MOST_NUMBERS = 100, 50_000  # of a table from a file
CONSTANTS = ({"beta", "mu"}, {"G"})


@dataclass(frozen=True, eq=False)
class Table:
    """What the losses of N clients have at p points each.

    Attributes
    ----------
    at, gradients : (N, p, d) object arrays of fractions; of a point that is there twice, as losses
        with kinks may have it, the first gradient is what a method gets
    values : (N, p)
    constants : beta, and mu, the least curvature, which may be below 0; or G, of convex losses
        whose subgradients are bounded
    x_star : (d,) one of every client's points, where the mean of the losses is least, as the last
        gradients there add up to 0; None where that is not known
    """

    at: np.ndarray
    gradients: np.ndarray
    values: np.ndarray
    constants: Mapping[str, Fraction]
    x_star: np.ndarray | None = None

    def to_data(self) -> dict[str, Any]:
        """The table as strings and lists of them."""
        found = {
            "constants": dict(self.constants),
            "at": self.at,
            "gradients": self.gradients,
            "values": self.values,
        }
        return to_file(found | ({} if self.x_star is None else {"x_star": self.x_star}))

    @classmethod
    def from_data(cls, data: Any) -> Table:
        """The table a file holds.

        Raises `InvalidInput`: other fields, shapes that disagree, too many numbers.
        """
        fields = {"constants", "at", "gradients", "values"}
        if not isinstance(data, dict) or not fields <= set(data) <= fields | {"x_star"}:
            raise InvalidInput(
                f"a table has {', '.join(sorted(fields))}, and x_star where it is known"
            )
        if not isinstance(data["constants"], dict) or set(data["constants"]) not in CONSTANTS:
            raise InvalidInput("the constants of a table are beta and mu, or G")
        constants = {k: fraction(v, k) for k, v in data["constants"].items()}
        at, gradients, values = (fractions(data[k]) for k in ("at", "gradients", "values"))
        x_star = fractions(data["x_star"]) if "x_star" in data else None
        if (
            at.ndim != 3
            or gradients.shape != at.shape
            or values.shape != at.shape[:2]
            or 0 in at.shape
        ):
            raise InvalidInput(
                f"a table of shapes {at.shape}, {gradients.shape}, {values.shape}: expected "
                "(N, p, d) twice, (N, p)"
            )
        if x_star is not None and x_star.shape != at.shape[2:]:
            raise InvalidInput(f"x_star of shape {x_star.shape}: expected {at.shape[2:]}")
        if at.shape[1] > MOST_POINTS or at.size > MOST_NUMBERS:
            raise InvalidInput(
                f"a table of shape {at.shape}: at most {MOST_POINTS} points and {MOST_NUMBERS:,} "
                "coordinates are read"
            )
        known = [at, gradients, values] + ([] if x_star is None else [x_star])
        if any(v is None for v in np.concatenate([numbers.ravel() for numbers in known])):
            raise InvalidInput("a table with numbers that are missing")
        return cls(at, gradients, values, constants, x_star)

    @property
    def words(self) -> str:
        """The table in words."""
        n, p, d = self.at.shape
        known = ", ".join(f"{name} = {value}" for name, value in self.constants.items())
        losses = "one loss" if n == 1 else f"{n} losses"
        made = f"a table of {p} points of {losses} in dimension {d}, {known}"
        return f"a worst function of the class: {made}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Every point, for a reader who checks the table by hand."""
        told = [(f"{name}", str(value)) for name, value in self.constants.items()]
        told += [] if self.x_star is None else [("x*", _list(self.x_star))]
        for k, i in np.ndindex(self.values.shape):
            x, g = _list(self.at[k, i]), _list(self.gradients[k, i])
            told.append(
                (
                    f"client {k + 1}, point {i + 1}",
                    f"x = {x}, gradient {g}, value {self.values[k, i]}",
                )
            )
        return [*told, ("checked", f"{self.condition} for every two points of a client")]

    @property
    def condition(self) -> str:
        """What is asked of two points, so that a loss of the class has them (Taylor et al.
        2017)."""
        line = "f_i > f_j + <g_j, x_i - x_j>"
        if "G" in self.constants:
            return f"{line} and ||g_i|| < G"
        if self.constants["mu"] == 0:
            return f"{line} + ||g_i - g_j||^2/(2 beta)"
        more = "||g_i - g_j||^2/beta + mu ||x_i - x_j||^2 - 2 mu/beta <g_i - g_j, x_i - x_j>"
        return f"{line} + ({more})/(2 (1 - mu/beta))"

    @cached_property
    def rows(self) -> list[dict[tuple[Fraction, ...], int]]:
        """Of every client point -> where it stands first."""
        return [{tuple(x): i for i, x in reversed(list(enumerate(points)))} for points in self.at]

    def row(self, client: int, x: Any) -> int:
        """Where a client's point stands.

        Raises `Undefined`: it is not in the table.
        """
        found = self.rows[client].get(tuple(x))
        if found is None:
            told = ", ".join(f"{float(v):.6g}" for v in x[:6])
            told += ", ..." * (len(x) > 6)
            raise Undefined(f"the point ({told}) is not in the table of client {client + 1}")
        return found

    # --- the class --------------------------------------------------------------------------------
    def missed(self, weights: np.ndarray) -> str | None:
        """Name a condition that is missed, and by how much; None where losses have the table."""
        from fedtheory.worst_cases.classes import Losses, WeaklyConvex

        G, beta, mu = (self.constants.get(name) for name in ("G", "beta", "mu"))
        try:
            losses = (
                Losses(None, lipschitz=G) if beta is None or mu is None else WeaklyConvex(beta, mu)
            )
            tilted = Losses(beta)
        except InvalidInput as error:
            return str(error)
        longest = [max(sum(x * x for x in g) for g in of) for of in self.gradients]
        if G is not None and max(longest) >= G * G:
            return (
                f"a squared subgradient is {brief(max(longest))}, and must be below G^2 = {G * G}"
            )
        for k in range(len(self.at)):
            if reason := self._missed_pair(losses, k):
                return f"client {k + 1}: {reason}"
        if self.x_star is None:
            return None
        there = [np.flatnonzero((of == self.x_star).all(axis=1)) for of in self.at]
        if not all(map(len, there)):
            return "x_star is not in the table of every client"
        stars = [int(rows[-1]) for rows in there]
        slopes = [g[i] for g, i in zip(self.gradients, stars, strict=True)]
        if any(weights @ np.array(slopes)):
            return "the clients' gradients at x_star do not add up to 0"
        for k, star in enumerate(stars) if mu is not None and mu < 0 else ():
            if reason := self._missed_pair(tilted, k, star):
                return f"x_star may be no minimiser, client {k + 1}: {reason}"
        return None

    def _missed_pair(self, losses: Any, k: int, star: int | None = None) -> str | None:
        """As `missed`, of the pairs of a client's points; with ``star``, of those with it."""
        from fedtheory.worst_cases.classes import Point
        from fedtheory.worst_cases.gram import common

        condition = losses.condition(
            *(Point(name, common(f"x {name}"), common(f"g {name}")) for name in "ij")
        )
        rows = {"x": self.at[k], "g": self.gradients[k]}
        products = {a + b: rows[a] @ rows[b].T for a in "xg" for b in "xg"}
        p = self.at.shape[1]
        for i, j in np.ndindex(p, p):
            if i == j or star not in (None, j):
                continue
            at = {"i": i, "j": j}
            found = sum(c * self.values[k, at[name]] for name, c in condition.values.items())
            found += sum(
                c * products[a[0] + b[0]][at[a[2]], at[b[2]]]
                for (_, a, b), c in condition.gram.items()
            )
            same = tuple(self.at[k, i]) == tuple(self.at[k, j])
            if found < 0 or (found == 0 and not same):
                pair = f"its points {i + 1} and {j + 1}"
                return f"the condition between {pair} is {brief(found)}, and must be above 0"
            if same and losses.smoothness is not None:
                return f"its points {i + 1} and {j + 1} are one"
        return None


def _list(v: np.ndarray) -> str:
    return f"({', '.join(map(str, v))})"


@dataclass(frozen=True)
class Looked:
    """Rows of a table, a client's each, which are used as `Pieces` are.

    Attributes
    ----------
    owners : (...) whose loss each is
    """

    table: Table
    owners: np.ndarray

    def take(self, index: Any) -> Looked:
        """Those of other clients."""
        return Looked(self.table, self.owners[index])

    def _found(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """The clients and the rows of points (..., d)."""
        owners = np.broadcast_to(self.owners, np.broadcast_shapes(self.owners.shape, y.shape[:-1]))
        y = np.broadcast_to(y, (*owners.shape, y.shape[-1]))
        rows = np.empty(owners.shape, dtype=int)
        for at in np.ndindex(owners.shape):
            rows[at] = self.table.row(int(owners[at]), y[at])
        return owners, rows

    def value(self, y: Any) -> Any:
        """(..., d) -> (...)."""
        return self.table.values[self._found(y)]

    def gradient(self, y: Any) -> Any:
        """(..., d) -> (..., d)."""
        return self.table.gradients[self._found(y)]

    def minimise(
        self, linear: Any, curvature: Any, center: Any, l1: Any = 0, anchor: Any = None
    ) -> Any:
        """argmin f(y) - <linear, y> + curvature/2 ||y - center||^2 (..., d): the stationary point.

        Raises `Undefined`: none is, or it need not be the minimiser.
        """
        if np.any(l1):
            raise Undefined("of a table no local problems with an l1 term are solved")
        if np.ndim(curvature) or not curvature + self.table.constants.get("mu", 0) > 0:
            raise Undefined(
                "a local problem on a table has no curvature, so that a stationary point need not "
                "be its minimiser"
            )
        out = np.empty(
            np.broadcast_shapes(np.shape(center), np.shape(linear), (*self.owners.shape, 1)),
            dtype=object,
        )
        center, linear = np.broadcast_to(center, out.shape), np.broadcast_to(linear, out.shape)
        owners = np.broadcast_to(self.owners, out.shape[:-1])
        for at in np.ndindex(owners.shape):
            points, slopes = self.table.at[owners[at]], self.table.gradients[owners[at]]
            rest = slopes - linear[at] + curvature * (points - center[at])
            found = np.flatnonzero((rest == 0).all(axis=-1))
            if not len(found):
                why = f"is not in the table of client {owners[at] + 1}"
                raise Undefined(f"the solution of a local problem {why}")
            out[at] = points[found[0]]
        return out


class TableLosses(OfPieces):
    """N clients' losses by a table, and their weights (N,), used as `SeparableLosses` are."""

    exact: ClassVar[bool] = True
    unique: ClassVar[bool] = True

    def __init__(self, table: Table, weights: np.ndarray) -> None:
        self.table, self.weights = table, weights
        self.num_clients, self.dim = table.at.shape[0], table.at.shape[2]
        self.pieces = Looked(table, np.arange(self.num_clients))

    @property
    def constants(self) -> dict[str, Any]:
        """As `SeparableLosses.constants`; None is what a table does not say."""
        G, mu = self.table.constants.get("G"), self.table.constants.get("mu", Fraction(0))
        known = {
            "beta": self.table.constants.get("beta"),
            "mu": max(mu, Fraction(0)),
            "G_sq": None if G is None else G * G,
        }
        return {**known, "beta_F": None, "mu_F": None}

    def minimiser(self, near: Any) -> Any:
        """x*.

        Raises `Undefined`: the table does not say it.
        """
        if self.table.x_star is None:
            raise Undefined("the table does not say where F is least")
        return self.table.x_star
