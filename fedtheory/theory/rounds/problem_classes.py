"""Classes of problems that a statement is about: they draw instances in fractions, say who
belongs, and what may be dropped.

A class also gives problems of the package with certified optima, on which statements are checked
in floats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_flags
from fedtheory.rational import number
from fedtheory.theory.rounds.declare import Keywords, least_and_most
from fedtheory.theory.rounds.instances import ARRAYS, Draw
from fedtheory.theory.rounds.losses import Unbounded
from fedtheory.theory.rounds.tables import Table
from fedtheory.theory.rounds.units import (
    CURVATURES,
    DEPTHS,
    POSITIONS,
    WIDTHS,
    in_other_units,
    simple,
)

__all__ = [
    "Lipschitz", "ProblemClass", "Quadratics", "Smooth", "SmoothConvex", "StronglyConvex",
    "not_shares"
]

WEIGHTS = {"equal": "equal weights", "any": "any weights", "samples": "weights by sample counts"}
LARGE = 0.1  # of the problems have more clients or dimensions than a counterexample mostly needs
TRIES = 20  # of problems that are drawn until one has the curvature
MOST = 40  # clients or dimensions of a problem that is drawn


@dataclass(frozen=True)
class ProblemClass(Keywords):
    """min F = sum_k w_k f_k with clients' losses of one kind.

    Parameters
    ----------
    clients, dimension : int or (least, most)
        N and d. Most instances have few of both, as a counterexample rarely needs more; some have
        many of one, up to 40.
    weights : 'equal', 'any' or 'samples'
        The last are any in fractions too, and on a problem the clients' shares of the samples,
        whatever weights its F has.
    identical : bool
        All f_k are the same function.
    """

    clients: Any = (1, 4)
    dimension: Any = (1, 3)
    weights: str = "equal"
    identical: bool = False

    convex: ClassVar[bool] = True
    words: ClassVar[str] = "problems"
    families: ClassVar[tuple[str, ...]] = ()
    # of the package's problems; none: it has none of the class
    kinds: ClassVar[tuple[str, ...]] = ()
    ridge: ClassVar[float] = 0.0  # of those
    weaker: ClassVar[dict[str, str]] = {}  # assumption in words -> the class without it
    # where interpolation conditions are all there is of it, the constants with which a table is of
    # it
    of_tables: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_flags(self)
        for name in ("clients", "dimension"):
            value = getattr(self, name)
            if (pair := least_and_most(value, 1)) is None:
                raise InvalidInput(
                    f"{name} = {value!r}: give a whole number >= 1, or (least, most)"
                )
            object.__setattr__(self, name, pair)
        if self.weights not in ("equal", "any", "samples"):
            raise InvalidInput(
                f"weights = {self.weights!r}: use 'equal' (w_k = 1/N), 'any' or 'samples'"
            )

    # --- instances in fractions -------------------------------------------------------------------
    def draw(self, rng: np.random.Generator) -> Draw:
        """A random instance: losses, weights and a start."""
        n, d = self._size(rng)
        parts: dict[str, Any] = {f: np.empty((n, d), dtype=object) for f in ARRAYS}
        family = self.families[int(rng.integers(len(self.families)))]
        for index in np.ndindex(n, d):
            drawn = self.entry(rng, family)
            for f, v in drawn.items():
                parts[f][index] = v
        if self.identical:
            parts = {f: np.repeat(v[:1], n, axis=0) for f, v in parts.items()}
        weights = np.empty(n, dtype=object)
        weights[:] = Fraction(1, n)
        if self.weights != "equal" and n > 1 and rng.random() < 0.7:
            raw = [Fraction(int(rng.integers(1, 10))) for _ in range(n)]
            weights[:] = [v / sum(raw) for v in raw]
        start = np.empty(d, dtype=object)
        start[:] = [simple(rng, POSITIONS, 3.0) for _ in range(d)]
        return in_other_units(Draw(**parts, weights=weights, start=start), rng)

    def _size(self, rng: np.random.Generator) -> tuple[int, int]:
        """N and d: mostly a few more than the least, now and then any number up to the largest (or
        `MOST`) of one of the two."""
        ranges = (*self.clients, 4), (*self.dimension, 2)
        few = [
            int(rng.integers(least, min(most, least + more) + 1)) for least, most, more in ranges
        ]
        wide = [i for i, (least, most, more) in enumerate(ranges) if most > least + more]
        if wide and rng.random() < LARGE:
            i = wide[int(rng.integers(len(wide)))]
            least, most, more = ranges[i]
            few[i] = int(rng.integers(least + more + 1, max(least + more + 1, min(most, MOST)) + 1))
            few[1 - i] = ranges[1 - i][0]
        return few[0], few[1]

    def entry(self, rng: np.random.Generator, family: str) -> dict[str, Any]:
        """h, c, m, a, delta of one client's loss in one coordinate."""
        out: dict[str, Any] = {"h": simple(rng, CURVATURES, 1.0, True), "c": simple(rng, POSITIONS)}
        out |= {"m": Fraction(0), "a": Fraction(0), "delta": None}
        if family == "huber" and rng.random() < 0.8:
            out["delta"] = simple(rng, WIDTHS, 1.0, True) or Fraction(1)
        return out

    @property
    def interpolated(self) -> str:
        """The class's `of_tables`; '' of one that is made of it, which may be about fewer
        losses."""
        return vars(type(self)).get("of_tables", "")

    def why_not(self, instance: Draw) -> str | None:
        """Why an instance does not belong to the class, or None."""
        n, d = instance.num_clients, instance.dim
        if instance.table is not None:
            return self.why_not_size(n, d) or self._why_not_table(instance.table, instance.weights)
        if (
            not self.clients[0] <= n <= self.clients[1]
            or not self.dimension[0] <= d <= self.dimension[1]
        ):
            return f"N = {n}, d = {d}: outside {self.clients} and {self.dimension}"
        if self.weights == "equal" and len(set(instance.weights)) > 1:
            return "the weights are not equal"
        if (
            self.identical
            and any((v != v[:1]).any() for v in (getattr(instance, f) for f in ARRAYS))
        ):
            return "the clients' losses are not identical"
        if (
            any(v is not None and v <= 0 for v in instance.delta.ravel())
            or (instance.a < 0).any()
            or (instance.m < 0).any()
        ):
            return "delta must be > 0, a and m >= 0"
        return self.why_not_losses(instance)

    def _why_not_table(self, table: Table, weights: np.ndarray) -> str | None:
        """The same of losses by a table."""
        if self.weights == "equal" and len(set(weights)) > 1:
            return "the weights are not equal"
        if (
            self.identical
            and any((of != of[:1]).any() for of in (table.at, table.gradients, table.values))
        ):
            return "the clients' losses are not identical"
        mu = table.constants.get("mu")
        fits = {
            "": False, "G": "G" in table.constants, "beta": mu is not None,
            "mu >= 0": mu is not None and mu >= 0, "mu > 0": mu is not None and mu > 0,
        }  # fmt: skip
        if not fits[self.interpolated]:
            known = ", ".join(f"{name} = {value}" for name, value in table.constants.items())
            return f"a table of losses with {known} is not one of {self.words}"
        return table.missed(weights)

    def why_not_losses(self, instance: Draw) -> str | None:
        """The same for the losses alone: convex and smooth."""
        if self.convex and (instance.h + instance.m < 0).any():
            return "some client's loss is not convex"
        if (instance.a != 0).any():
            return "some client's loss is not smooth"
        return (
            None if (abs(instance.h) + instance.m > 0).any()
            else "all losses are constant (beta = 0)"
        )

    # --- what may be dropped ----------------------------------------------------------------------
    def variants(self) -> Iterator[tuple[str, ProblemClass]]:
        """(assumption in words, the class without it)."""
        for words, kind in self.weaker.items():
            yield words, globals()[kind](*(getattr(self, f.name) for f in fields(ProblemClass)))
        if self.weights == "equal" and self.clients[1] > 1:
            yield "equal weights", replace(self, weights="any")
        if self.identical and self.clients[1] > 1:
            yield "identical clients", replace(self, identical=False)

    # --- problems of the package ------------------------------------------------------------------
    def problems(
        self, rng: np.random.Generator, count: int, first: int = 0
    ) -> Iterator[tuple[str, Any]]:
        """(name, `fedtheory.problems.Problem`) with certified optima, of the kinds in turn."""
        from fedtheory import problems

        equal = self.weights == "equal"  # else a client's weight is its share of the samples
        for i in range(first, first + count if self.kinds else first):
            kind, sizes = self.kinds[i % len(self.kinds)], (self.clients, self.dimension)
            n, d = (int(rng.integers(least, most + 1)) for least, most in sizes)
            seed = int(rng.integers(2**31))
            alike = self.identical or n == 1
            spread = 0.0 if alike else float(rng.choice([0.3, 1.0, 3.0]))
            raw = rng.integers(1, 9, n)
            condition = 1.0 if d == 1 else float(rng.choice([3.0, 30.0]))
            how: dict[str, Any] = {"num_clients": n, "dim": d, "heterogeneity": spread}
            how |= {"seed": seed, "condition": condition}
            data: dict[str, Any] = {"weights": "uniform" if equal else "samples"}
            data["samples"] = d + 8 if equal else [int(v) + d + 4 for v in raw]
            kind = "quadratic" if self.identical and n > 1 else kind
            made: Any
            if kind == "quadratic":
                counts = np.ones(n) if equal else raw.astype(float)
                shared, weights = self.identical, counts / counts.sum()
                made = problems.random_quadratic(**how, weights=weights, shared_hessian=shared)
                made.sample_counts = counts
            elif kind == "least squares":
                made = problems.random_least_squares(**how, **data, ridge=self.ridge)
            elif kind == "huber":
                made = problems.random_huber(**how, **data, delta=0.5)
            else:
                made = problems.random_logistic(**how, **data, ridge=self.ridge or 0.05)
            yield f"{kind} N={n} d={d} spread={spread:g} seed={seed}", made

    def why_not_problem(self, problem: Any) -> str | None:
        """Why a problem of the package does not belong to the class, or None: it names the
        missing property."""
        if reason := self.why_not_size(problem.num_clients, problem.dim):
            return reason
        if self.identical and not identical(problem):
            return "the clients' losses are not identical (property: identical)"
        if self.convex and not problem.convex:
            return "some client's loss is not convex (property: convex)"
        if (
            self.weights == "equal"
            and float(np.abs(problem.weights * problem.num_clients - 1).max()) > 1e-12
        ):
            return "the weights are not equal (property: weights)"
        try:
            beta = float(problem.beta_k.max())
        except TypeError as error:
            return f"{error} (property: smoothness)"
        return None if beta > 0 else "all losses are constant (property: smoothness)"

    def why_not_size(self, clients: int, dimensions: int) -> str | None:
        """Why the statement is not about so many clients and dimensions.

        Ranges say what is drawn, and their ends may be exceeded.
        """
        given = ("clients", clients, self.clients), ("dimensions", dimensions, self.dimension)
        for what, value, (least, most) in given:
            if value < least or (least == most and value > most):
                about = least if least == most else f"at least {least}"
                return f"{value} {what}: the statement is about {about}"
        return None

    def beyond(self, problem: Any) -> str:
        """'5 clients (instances have 1 to 3)' of a problem that is larger than instances are drawn;
        '' of any other."""
        sizes = (
            ("clients", problem.num_clients, self.clients),
            ("dimensions", problem.dim, self.dimension)
        )
        larger = [
            f"{value} {what} (instances have {span(of)})" for what, value, of in sizes
            if value > of[1]
        ]
        return ", ".join(larger)

    def __str__(self) -> str:
        same = "identical " if self.identical else ""
        who = f"{same}client{'s' * (self.clients[1] > 1)}"
        size = f"{span(self.clients)} {who}, dimension {span(self.dimension)}"
        return f"{self.words}, {size}, {WEIGHTS[self.weights]}"


def identical(problem: Any) -> bool:
    """True if all clients' losses have one gradient, up to rounding, at three points."""
    x = np.random.default_rng(3).standard_normal((3, problem.dim)) * np.array([
        [0.1], [1.0], [10.0]
    ])
    gradients = problem.gradient(x)
    return bool(np.abs(gradients - gradients[:, :1]).max() <= 1e-9 * np.abs(gradients).max())


def span(pair: tuple[int, int]) -> str:
    """'3', or '1 to 3'."""
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]} to {pair[1]}"


def not_shares(problem: Any) -> str | None:
    """That a server which averages by samples does not weigh the clients as F does, and which
    numbers of clients would do, or None."""
    counts, weights = problem.sample_counts, problem.weights
    if float(np.abs(counts / counts.sum() - weights).max()) <= 1e-12:
        return None
    total, equal = int(counts.sum()), float(np.ptp(weights)) < 1e-12
    has = (
        f"{int(counts.min())} to "
        f"{int(counts.max())} samples each" + (f", and weights 1/{len(weights)}" if equal else "")
    )
    fits = [str(n) for n in range(2, min(total, 200)) if total % n == 0][:4]
    deal = (
        f"take a number of clients that divides the {total} samples, as "
        f"{' or '.join(fits)} (--clients), " if fits else ""
    )
    return (
        f"the clients have {has}: the weights are not the clients' shares of the samples, as a "
        f"file's statements have them (property: sample_counts); {deal}{'or ' * bool(fits)}in "
        "Python a problem with weights='samples', for a statement with weights='any'"
    )


@dataclass(frozen=True)
class SmoothConvex(ProblemClass):
    """Convex losses with Lipschitz gradients: beta = max_k beta_k.

    In fractions: quadratics and Huber losses. In floats: random quadratics, least squares, Huber
    and logistic regression.
    """

    words: ClassVar[str] = "smooth convex losses"
    of_tables: ClassVar[str] = "mu >= 0"
    families: ClassVar[tuple[str, ...]] = ("quadratic", "huber")
    kinds: ClassVar[tuple[str, ...]] = ("quadratic", "least squares", "huber", "logistic")
    weaker: ClassVar[dict[str, str]] = {"convex losses": "Nonconvex"}


@dataclass(frozen=True)
class Smooth(ProblemClass):
    """Losses with Lipschitz gradients, convex or not, whose F is bounded below.

    In fractions: quadratics and Huber losses of curvatures of either sign, and double wells, which
    are concave between two convex pieces. beta bounds the absolute curvature. F* is the least
    value, found piece by piece; x* is the global minimiser, and a statement that names it says
    nothing where there are several. In floats: random quadratics, least squares, Huber and logistic
    regression, all of them convex.
    """

    convex: ClassVar[bool] = False
    bounded: ClassVar[bool] = True
    words: ClassVar[str] = "smooth losses, convex or not, F bounded below"
    of_tables: ClassVar[str] = "beta"
    families: ClassVar[tuple[str, ...]] = ("quadratic", "huber", "well", "well", "well", "well")
    kinds: ClassVar[tuple[str, ...]] = SmoothConvex.kinds

    def _size(self, rng: np.random.Generator) -> tuple[int, int]:
        """More often two clients than one: a well alone has two minimisers, and no x*."""
        n, d = super()._size(rng)
        return (2 if n == 1 < self.clients[1] and rng.random() < 0.6 else n), d

    def draw(self, rng: np.random.Generator) -> Draw:
        """As of every class; often with all clients but the last alike, so that their wells add up
        and the last one tilts them, and often started where F is stationary."""
        made = super().draw(rng)
        if made.num_clients > 1 and not self.identical and rng.random() < 0.5:
            rows = [0] * (made.num_clients - 1) + [made.num_clients - 1]
            made = made.changed(**{f: getattr(made, f)[rows] for f in ARRAYS})
        if rng.random() < 0.35:
            start = made.start.copy()
            for i, points in enumerate(made.exact_losses.stationary()):
                start[i] = points[int(rng.integers(len(points)))] if points else start[i]
            made = made.changed(start=start)
        return made

    def entry(self, rng: np.random.Generator, family: str) -> dict[str, Any]:
        """A well between two convex pieces, or a loss as of `SmoothConvex` with either sign."""
        kind = rng.random()
        if family == "well" and kind < 0.6:
            out = super().entry(rng, "quadratic")
            out["m"] = simple(rng, CURVATURES, 1.0, True) or Fraction(1, 2)
            depth = DEPTHS[int(rng.integers(len(DEPTHS)))]
            return (
                out
                | {"h": -depth * out["m"], "delta": simple(rng, WIDTHS, 1.0, True) or Fraction(1)}
            )
        out = super().entry(rng, "huber" if family == "well" else family)
        return out | {"h": -out["h"] if kind > 0.9 and family != "well" else out["h"]}

    def why_not_losses(self, instance: Draw) -> str | None:
        """Also: F is bounded below."""
        reason = super().why_not_losses(instance)
        if reason is None and self.bounded:
            try:
                instance.exact_losses.minimiser(instance.starts[0])
            except Unbounded as error:
                return str(error)
        return reason


@dataclass(frozen=True)
class Nonconvex(Smooth):
    """Smooth losses, `SmoothConvex` without convexity: F may have no least value."""

    bounded: ClassVar[bool] = False
    words: ClassVar[str] = "smooth losses, convex or not"
    of_tables: ClassVar[str] = "beta"


@dataclass(frozen=True)
class Quadratics(ProblemClass):
    """Convex quadratic losses. In fractions: diagonal ones. In floats: any Hessians, and least
    squares."""

    words: ClassVar[str] = "convex quadratic losses"
    families: ClassVar[tuple[str, ...]] = ("quadratic",)
    kinds: ClassVar[tuple[str, ...]] = ("quadratic", "least squares")
    weaker: ClassVar[dict[str, str]] = {
        "quadratic losses (smooth convex ones instead)": "SmoothConvex",
        "convex losses": "NonconvexQuadratics",
    }

    def why_not_losses(self, instance: Draw) -> str | None:
        """Also: no Huber losses."""
        if any(v is not None for v in instance.delta.ravel()):
            return "some client's loss is not quadratic"
        return super().why_not_losses(instance)

    def why_not_problem(self, problem: Any) -> str | None:
        """Also: no other losses."""
        if not problem.constant_hessian:
            return "some client's loss is not quadratic (property: constant_hessian)"
        return super().why_not_problem(problem)


@dataclass(frozen=True)
class NonconvexQuadratics(Quadratics):
    """Quadratics that may curve downwards; beta bounds the absolute curvature. F may have no
    minimiser."""

    convex: ClassVar[bool] = False
    words: ClassVar[str] = "quadratic losses, convex or not"

    def entry(self, rng: np.random.Generator, family: str) -> dict[str, Any]:
        """Some curvatures are negative."""
        out = super().entry(rng, family)
        return out | {"h": -out["h"] if rng.random() < 0.4 else out["h"]}


@dataclass(frozen=True)
class StronglyConvex(ProblemClass):
    """Losses with Lipschitz gradients, each mu-strongly convex: mu = min_k mu_k > 0.

    In fractions: quadratics, and Huber losses plus a quadratic. In floats: random quadratics,
    least squares and logistic regression with a ridge.

    Parameters
    ----------
    mu : what mu/beta is at least, a number in (0, 1); None for any mu > 0
    """

    mu: Any = None

    words: ClassVar[str] = "smooth, strongly convex losses"
    of_tables: ClassVar[str] = "mu > 0"
    families: ClassVar[tuple[str, ...]] = ("quadratic", "huber")
    kinds: ClassVar[tuple[str, ...]] = ("quadratic", "least squares", "logistic")
    ridge: ClassVar[float] = 0.05
    weaker: ClassVar[dict[str, str]] = {"strong convexity (mu = 0 instead)": "SmoothConvex"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mu is not None:
            object.__setattr__(self, "mu", number(self.mu, True))
            if not 0 < self.mu < 1:
                raise InvalidInput(
                    f"mu = {self.mu}: the share of beta that mu is at least must lie in (0, 1)"
                )

    def draw(self, rng: np.random.Generator) -> Draw:
        """As of every class, with as much curvature everywhere as lacks."""
        made = super().draw(rng)
        known = made.exact_losses.constants
        lacks = 0 if self.mu is None else (self.mu * known["beta"] - known["mu"]) / (1 - self.mu)
        return made.changed(m=made.m + lacks) if lacks > 0 else made

    def problems(
        self, rng: np.random.Generator, count: int, first: int = 0
    ) -> Iterator[tuple[str, Any]]:
        """As of every class, those with as large a mu/beta; where some kind has none of several,
        quadratics without spread."""
        plain = super().problems
        for i in range(first, first + count):
            found = (
                one for _ in range(1 if self.mu is None else TRIES) for one in plain(rng, 1, i)
            )
            kept = (one for one in found if self.mu is None or self.why_not_problem(one[1]) is None)
            yield (
                next(kept, None)
                or next(replace(self, mu=None, identical=True, dimension=1).problems(rng, 1))
            )

    def entry(self, rng: np.random.Generator, family: str) -> dict[str, Any]:
        """Curvature everywhere."""
        out = super().entry(rng, family)
        if out["delta"] is not None or out["h"] == 0:
            out["m"] = simple(rng, CURVATURES, 1.0, True) or Fraction(1, 10)
        return out

    def why_not_losses(self, instance: Draw) -> str | None:
        """Also: strongly convex."""
        known = instance.exact_losses.constants
        if not known["mu"] > 0:
            return "some client's loss is not strongly convex (mu = 0)"
        if known["mu"] < (self.mu or 0) * known["beta"]:
            return f"mu/beta = {known['mu'] / known['beta']} < {self.mu}"
        return super().why_not_losses(instance)

    def why_not_problem(self, problem: Any) -> str | None:
        """Also: every client strongly convex."""
        if not float(problem.mu_k.min()) > 0:
            return "some client's loss is not strongly convex (property: strong_convexity)"
        if float(problem.mu_k.min()) < float(self.mu or 0) * float(problem.beta_k.max()):
            return f"mu/beta is less than {self.mu} (property: strong_convexity)"
        return super().why_not_problem(problem)

    def __str__(self) -> str:
        return super().__str__() + ("" if self.mu is None else f", mu >= {self.mu} beta")


@dataclass(frozen=True)
class StronglyConvexSum(StronglyConvex):
    """Convex losses with Lipschitz gradients whose F is mu_F-strongly convex: of a client mu may be
    0."""

    words: ClassVar[str] = "smooth convex losses whose F is strongly convex"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mu is not None:
            raise InvalidInput(
                f"mu = {self.mu}: of a client mu may be 0 here; leave it out, or "
                "take StronglyConvex"
            )

    def entry(self, rng: np.random.Generator, family: str) -> dict[str, Any]:
        """Curvature everywhere, or nearly."""
        return (ProblemClass if rng.random() < 0.1 else StronglyConvex).entry(self, rng, family)

    def why_not_losses(self, instance: Draw) -> str | None:
        """Also: F strongly convex."""
        curved = instance.exact_losses.constants["mu_F"] > 0
        return (
            ProblemClass.why_not_losses(self, instance) if curved
            else "F is not strongly convex (mu_F = 0)"
        )

    def why_not_problem(self, problem: Any) -> str | None:
        """Also: F strongly convex."""
        reason = ProblemClass.why_not_problem(self, problem)
        flat = reason is None and not problem.joint_strong_convexity() > 0
        return "F is not strongly convex (property: strong_convexity)" if flat else reason


@dataclass(frozen=True)
class Lipschitz(ProblemClass):
    """Convex losses with bounded subgradients, not smooth: weighted l1 distances. G_sq = max_k
    sup ||g_k||^2."""

    words: ClassVar[str] = "convex losses with bounded subgradients"
    of_tables: ClassVar[str] = "G"
    families: ClassVar[tuple[str, ...]] = ("l1",)

    def entry(self, rng: np.random.Generator, family: str) -> dict[str, Any]:
        """a |x - c|."""
        out = super().entry(rng, family)
        return out | {"h": Fraction(0), "a": out["h"]}

    def why_not_losses(self, instance: Draw) -> str | None:
        """l1 parts only."""
        if (instance.h != 0).any() or (instance.m != 0).any():
            return "some client's subgradients are not bounded"
        return None if (instance.a != 0).any() else "all losses are constant (G = 0)"

    def why_not_problem(self, problem: Any) -> str | None:
        """No problem of the package is judged under this class yet."""
        return (
            "statements about Lipschitz losses are checked on l1 distances in "
            "fractions and floats only"
        )
