"""Classes of problems that a statement is about: they draw instances in fractions, say who
belongs, and what may be dropped.

A class also gives problems of the package with certified optima, on which statements are checked
in floats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedtheory.authoring.instances import Instance
from fedtheory.errors import InvalidInput

__all__ = ["Lipschitz", "ProblemClass", "Quadratics", "SmoothConvex", "StronglyConvex", "simple"]

CURVATURES = [Fraction(v) for v in ("1", "1", "1", "1/2", "2", "1/4", "1/10", "0", "1/100", "3", "1/1000")]
POSITIONS = [Fraction(v) for v in ("0", "0", "1", "-1", "2", "-2", "1/2", "-1/2", "3", "-3", "10", "-10", "1/10")]
WIDTHS = [Fraction(v) for v in ("1", "1/2", "1/4", "1/3", "1/10", "1/7", "2", "1/20")]


def simple(rng: np.random.Generator, special: list[Fraction], spread: float = 2.0, positive: bool = False) -> Fraction:
    """A special number, or any with a small denominator."""
    if rng.random() < 0.6:
        return special[int(rng.integers(len(special)))]
    value = Fraction(float(rng.normal(0, spread))).limit_denominator(16)
    return abs(value) if positive else value


def _range(name: str, value: Any) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if (
        len(pair) != 2
        or not all(isinstance(v, int) and not isinstance(v, bool) for v in pair)
        or not 1 <= pair[0] <= pair[1]
    ):
        raise InvalidInput(f"{name} = {value!r}: give a whole number >= 1, or (least, most)")
    return pair  # type: ignore[return-value]


@dataclass(frozen=True)
class ProblemClass:
    """min F = sum_k w_k f_k with clients' losses of one kind.

    Parameters
    ----------
    clients, dimension : int or (least, most)
        N and d. The exact engine looks at few of both: a counterexample rarely needs more.
    weights : 'equal' or 'any'
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "clients", _range("clients", self.clients))
        object.__setattr__(self, "dimension", _range("dimension", self.dimension))
        if self.weights not in ("equal", "any"):
            raise InvalidInput(f"weights = {self.weights!r}: use 'equal' (w_k = 1/N) or 'any'")

    # --- instances in fractions -------------------------------------------------------------------------------------------
    def draw(self, rng: np.random.Generator) -> Instance:
        """A random instance: losses, weights and a start."""
        n = int(rng.integers(self.clients[0], min(self.clients[1], 4 + self.clients[0]) + 1))
        d = int(rng.integers(self.dimension[0], min(self.dimension[1], 2 + self.dimension[0]) + 1))
        parts: dict[str, np.ndarray] = {f: np.empty((n, d), dtype=object) for f in ("h", "c", "m", "a", "delta")}
        family = self.families[int(rng.integers(len(self.families)))]
        for index in np.ndindex(n, d):
            drawn = self.entry(rng, family)
            for f, v in drawn.items():
                parts[f][index] = v
        if self.identical:
            parts = {f: np.repeat(v[:1], n, axis=0) for f, v in parts.items()}
        weights = np.empty(n, dtype=object)
        weights[:] = Fraction(1, n)
        if self.weights == "any" and n > 1 and rng.random() < 0.7:
            raw = [Fraction(int(rng.integers(1, 10))) for _ in range(n)]
            weights[:] = [v / sum(raw) for v in raw]
        start = np.empty(d, dtype=object)
        start[:] = [simple(rng, POSITIONS, 3.0) for _ in range(d)]
        return Instance(*parts.values(), weights, start)

    def entry(self, rng: np.random.Generator, family: str) -> dict[str, Any]:
        """h, c, m, a, delta of one client's loss in one coordinate."""
        zero = Fraction(0)
        out = {
            "h": simple(rng, CURVATURES, 1.0, True),
            "c": simple(rng, POSITIONS),
            "m": zero,
            "a": zero,
            "delta": None,
        }
        if family == "huber" and rng.random() < 0.8:
            out["delta"] = simple(rng, WIDTHS, 1.0, True) or Fraction(1)
        return out

    def why_not(self, instance: Instance) -> str | None:
        """Why an instance does not belong to the class, or None."""
        n, d = instance.num_clients, instance.dim
        if not self.clients[0] <= n <= self.clients[1] or not self.dimension[0] <= d <= self.dimension[1]:
            return f"N = {n}, d = {d}: outside {self.clients} and {self.dimension}"
        if self.weights == "equal" and len(set(instance.weights)) > 1:
            return "the weights are not equal"
        if self.identical and any(
            (getattr(instance, f) != getattr(instance, f)[:1]).any() for f in ("h", "c", "m", "a", "delta")
        ):
            return "the clients' losses are not identical"
        if (
            any(v is not None and v <= 0 for v in instance.delta.ravel())
            or (instance.a < 0).any()
            or (instance.m < 0).any()
        ):
            return "delta must be > 0, a and m >= 0"
        return self.why_not_losses(instance)

    def why_not_losses(self, instance: Instance) -> str | None:
        """The same for the losses alone: convex and smooth."""
        if self.convex and (instance.h < 0).any():
            return "some client's loss is not convex"
        if (instance.a != 0).any():
            return "some client's loss is not smooth"
        return None if (abs(instance.h) + instance.m > 0).any() else "all losses are constant (beta = 0)"

    # --- what may be dropped ----------------------------------------------------------------------------------------------
    def variants(self) -> Iterator[tuple[str, ProblemClass]]:
        """(assumption in words, the class without it)."""
        if self.weights == "equal" and self.clients[1] > 1:
            yield "equal weights", replace(self, weights="any")
        if self.identical and self.clients[1] > 1:
            yield "identical clients", replace(self, identical=False)

    # --- problems of the package --------------------------------------------------------------------------------------------
    def problems(self, rng: np.random.Generator, count: int, first: int = 0) -> Iterator[tuple[str, Any]]:
        """(name, `fedtheory.problems.Problem`) with certified optima."""
        return iter(())

    def why_not_problem(self, problem: Any) -> str | None:
        """Why a problem of the package does not belong to the class, or None: it names the
        missing property."""
        for what, value, (least, most) in (
            ("clients", problem.num_clients, self.clients), ("dimensions", problem.dim, self.dimension)
        ):  # fmt: skip
            if value < least or (least == most and value > most):
                return f"{value} {what}: the statement is about {least if least == most else f'at least {least}'}"
        if self.identical and not _identical(problem):
            return "the clients' losses are not identical (property: identical)"
        if self.convex and not problem.convex:
            return "some client's loss is not convex (property: convex)"
        if self.weights == "equal" and float(np.abs(problem.weights * problem.num_clients - 1).max()) > 1e-12:
            return "the weights are not equal (property: weights)"
        if float(np.abs(problem.sample_counts / problem.sample_counts.sum() - problem.weights).max()) > 1e-12:
            return _not_shares(problem)
        try:
            beta = float(problem.beta_k.max())
        except TypeError as error:
            return f"{error} (property: smoothness)"
        return None if beta > 0 else "all losses are constant (property: smoothness)"

    def __str__(self) -> str:
        def span(pair: tuple[int, int]) -> str:
            return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]} to {pair[1]}"

        same = "identical " if self.identical else ""
        who = f"{same}client{'s' * (self.clients[1] > 1)}"
        return f"{self.words}, {span(self.clients)} {who}, dimension {span(self.dimension)}, {self.weights} weights"


def _not_shares(problem: Any) -> str:
    """That a server which averages by samples does not weigh the clients as F does, and which numbers of clients would do."""
    counts, weights = problem.sample_counts, problem.weights
    total, equal = int(counts.sum()), float(np.ptp(weights)) < 1e-12
    has = f"{int(counts.min())} to {int(counts.max())} samples each" + (f", and weights 1/{len(weights)}" if equal else "")
    fits = [str(n) for n in range(2, min(total, 200)) if total % n == 0][:4]
    deal = f"take a number of clients that divides the {total} samples, as {' or '.join(fits)} (--clients), " if fits else ""
    return (
        f"the clients have {has}: the weights are not the clients' shares of the samples, as a file's statements have them (property: "
        f"sample_counts); {deal}{'or ' * bool(fits)}in Python a problem with weights='samples', for a statement with weights='any'"
    )


def _identical(problem: Any) -> bool:
    """Whether all clients' losses have one gradient, up to rounding, at three points."""
    x = np.random.default_rng(3).standard_normal((3, problem.dim)) * np.array([[0.1], [1.0], [10.0]])
    gradients = problem.gradient(x)
    return bool(np.abs(gradients - gradients[:, :1]).max() <= 1e-9 * np.abs(gradients).max())


def _shape(rng: np.random.Generator, cls: ProblemClass) -> dict[str, int]:
    n = int(rng.integers(cls.clients[0], cls.clients[1] + 1))
    return {"num_clients": n, "dim": int(rng.integers(cls.dimension[0], cls.dimension[1] + 1))}


@dataclass(frozen=True)
class SmoothConvex(ProblemClass):
    """Convex losses with Lipschitz gradients: beta = max_k beta_k.

    In fractions: quadratics and Huber losses. In floats: random quadratics, least squares, Huber
    and logistic regression.
    """

    words: ClassVar[str] = "smooth convex losses"
    families: ClassVar[tuple[str, ...]] = ("quadratic", "huber")

    def variants(self) -> Iterator[tuple[str, ProblemClass]]:
        """Convexity, and what all classes have."""
        yield "convex losses", NonconvexQuadratics(self.clients, self.dimension, self.weights, self.identical)
        yield from super().variants()

    def problems(self, rng: np.random.Generator, count: int, first: int = 0) -> Iterator[tuple[str, Any]]:
        """Random quadratics, least squares, Huber, logistic."""
        yield from _float_problems(
            self, rng, range(first, first + count), ("quadratic", "least squares", "huber", "logistic")
        )


@dataclass(frozen=True)
class Quadratics(ProblemClass):
    """Convex quadratic losses. In fractions: diagonal ones. In floats: any Hessians, and least
    squares."""

    words: ClassVar[str] = "convex quadratic losses"
    families: ClassVar[tuple[str, ...]] = ("quadratic",)

    def why_not_losses(self, instance: Instance) -> str | None:
        """Also: no Huber losses."""
        if any(v is not None for v in instance.delta.ravel()):
            return "some client's loss is not quadratic"
        return super().why_not_losses(instance)

    def variants(self) -> Iterator[tuple[str, ProblemClass]]:
        """Quadratic, convex, and what all classes have."""
        yield (
            "quadratic losses (smooth convex ones instead)",
            SmoothConvex(self.clients, self.dimension, self.weights, self.identical),
        )
        yield "convex losses", NonconvexQuadratics(self.clients, self.dimension, self.weights, self.identical)
        yield from super().variants()

    def problems(self, rng: np.random.Generator, count: int, first: int = 0) -> Iterator[tuple[str, Any]]:
        """Random quadratics and least squares."""
        yield from _float_problems(self, rng, range(first, first + count), ("quadratic", "least squares"))

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

    def variants(self) -> Iterator[tuple[str, ProblemClass]]:
        """None."""
        return iter(())


@dataclass(frozen=True)
class StronglyConvex(ProblemClass):
    """Losses with Lipschitz gradients, each mu-strongly convex: mu = min_k mu_k > 0.

    In fractions: quadratics, and Huber losses plus a quadratic. In floats: random quadratics,
    least squares and logistic regression with a ridge.
    """

    words: ClassVar[str] = "smooth, strongly convex losses"
    families: ClassVar[tuple[str, ...]] = ("quadratic", "huber")

    def entry(self, rng: np.random.Generator, family: str) -> dict[str, Any]:
        """Curvature everywhere."""
        out = super().entry(rng, family)
        if out["delta"] is not None or out["h"] == 0:
            out["m"] = simple(rng, CURVATURES, 1.0, True) or Fraction(1, 10)
        return out

    def why_not_losses(self, instance: Instance) -> str | None:
        """Also: strongly convex."""
        if not instance.exact_losses.constants["mu"] > 0:
            return "some client's loss is not strongly convex (mu = 0)"
        return super().why_not_losses(instance)

    def variants(self) -> Iterator[tuple[str, ProblemClass]]:
        """Strong convexity of every client, and what all classes have."""
        yield (
            "strong convexity (mu = 0 instead)",
            SmoothConvex(self.clients, self.dimension, self.weights, self.identical),
        )
        yield from super().variants()

    def problems(self, rng: np.random.Generator, count: int, first: int = 0) -> Iterator[tuple[str, Any]]:
        """Random quadratics; least squares and logistic regression with a ridge."""
        yield from _float_problems(
            self, rng, range(first, first + count), ("quadratic", "least squares", "logistic"), ridge=0.05
        )

    def why_not_problem(self, problem: Any) -> str | None:
        """Also: every client strongly convex."""
        if not float(problem.mu_k.min()) > 0:
            return "some client's loss is not strongly convex (property: strong_convexity)"
        return super().why_not_problem(problem)


@dataclass(frozen=True)
class Lipschitz(ProblemClass):
    """Convex losses with bounded subgradients, not smooth: weighted l1 distances. G_sq = max_k
    sup ||g_k||^2."""

    words: ClassVar[str] = "convex losses with bounded subgradients"
    families: ClassVar[tuple[str, ...]] = ("l1",)

    def entry(self, rng: np.random.Generator, family: str) -> dict[str, Any]:
        """a |x - c|."""
        zero = Fraction(0)
        slope = simple(rng, CURVATURES, 1.0, True)
        return {"h": zero, "c": simple(rng, POSITIONS), "m": zero, "a": slope, "delta": None}

    def why_not_losses(self, instance: Instance) -> str | None:
        """l1 parts only."""
        if (instance.h != 0).any() or (instance.m != 0).any():
            return "some client's subgradients are not bounded"
        return None if (instance.a != 0).any() else "all losses are constant (G = 0)"

    def why_not_problem(self, problem: Any) -> str | None:
        """No problem of the package is judged under this class yet."""
        return "statements about Lipschitz losses are checked on l1 distances in fractions and floats only"


def _float_problems(
    cls: ProblemClass, rng: np.random.Generator, numbers: range, kinds: tuple[str, ...], ridge: float = 0.0
) -> Iterator[tuple[str, Any]]:
    from fedtheory import problems

    for i in numbers:
        kind, shape, seed = kinds[i % len(kinds)], _shape(rng, cls), int(rng.integers(2**31))
        n, d = shape["num_clients"], shape["dim"]
        spread = float(rng.choice([0.3, 1.0, 3.0])) if n > 1 and not cls.identical else 0.0
        raw = rng.integers(1, 9, n)
        how: dict[str, Any] = {
            "heterogeneity": spread,
            "seed": seed,
            "condition": 1.0 if d == 1 else float(rng.choice([3.0, 30.0])),
        }
        samples: Any = [int(v) + d + 4 for v in raw] if cls.weights == "any" else d + 8
        how["weights"] = (
            "samples" if cls.weights == "any" else "uniform"
        )  # a client's weight is its share of the samples
        if cls.identical and n > 1 and kind != "quadratic":
            kind = "quadratic"
        if kind == "quadratic":
            counts = raw.astype(float) if cls.weights == "any" else np.ones(n)
            made: Any = problems.random_quadratic(
                **shape, **how | {"weights": counts / counts.sum()}, shared_hessian=cls.identical
            )
            made.sample_counts = counts
        elif kind == "least squares":
            made = problems.random_least_squares(**shape, **how, samples=samples, ridge=ridge)
        elif kind == "huber":
            made = problems.random_huber(**shape, **how, samples=samples, delta=0.5)
        else:
            made = problems.random_logistic(**shape, **how, samples=samples, ridge=ridge or 0.05)
        yield f"{kind} N={n} d={d} spread={spread:g} seed={seed}", made
