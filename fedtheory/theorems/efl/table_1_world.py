"""The worlds of EFL's Table 1: the rows as functions, and the rounds that EFL needs.

The rows are orders: constants and logarithms are left out in print, so that only the printed
expressions are compared. The family of EFL's own row: one client, F(w) = sum_i h_i w_i^2/2, E = 1,
no noise, Theorem 1's steps, so that w* = 0 and every number is known. The loss in other units is
c F(s w): its curvatures are c s^2 h, its start is w_0/s, and the run is the same run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.cohorts import Uniform
from fedtheory.rational import simplest, text
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import constants_on, law_of, view_of
from fedtheory.theorems.efl.quantities.run import EFLRun
from fedtheory.theorems.efl.world import CONSTANTS, CONVEX, PLAIN, EFLWorld
from fedtheory.theory import Case, ClosedView, Fact, derived, flag, number
from fedtheory.theory.draws import part, size

STRONGLY_CONVEX = ("SCAFFOLD", "MIME", "EFL")
ROWS = (*STRONGLY_CONVEX, "VRL-SGD", "FedAMP")
LARGE_G = Fact("G >= L (1 - sqrt(epsilon))", lambda q: q.G >= q.L * (1 - q.root))
SMALL_G = Fact("G < L (1 - sqrt(epsilon))", lambda q: q.G < q.L * (1 - q.root))
LARGE_DELTA = Fact("delta >= L/sqrt(epsilon)", lambda q: q.root * q.delta >= q.L)
SMALL_DELTA = Fact("delta <= L and epsilon < 1", lambda q: q.delta <= q.L and q.root < 1)
FAMILY = Fact(
    "one client, a quadratic, E = 1, no noise, the steps of Theorem 1", lambda q: len(q.h) > 0
)
BY_DISTANCE = Fact("epsilon bounds E||w - w*||^2", lambda q: not q.loss)
BY_LOSS = Fact("epsilon bounds E F(w) - F*", lambda q: q.loss)
BELOW_VRL_SGD = Fact(
    "EFL's row at most VRL-SGD's for F", lambda q: q.row("EFL") <= q.row("VRL-SGD")
)
BELOW_FEDAMP = Fact("EFL's row at most FedAMP's for F", lambda q: q.row("EFL") <= q.row("FedAMP"))
BELOW = Fact("mu <= L", lambda q: q.mu <= q.L)
LONGEST = 3000


def rounds(
    row: str, G: Any, L: Any, mu: Any, S: Any, root: Any, delta: Any = None, sigma: Any = None, clients: Any = None
) -> Any:
    """Table 1's number of rounds; arrays broadcast.

    Parameters
    ----------
    G, L, mu, S : of the assumptions; S clients take part in a round
    root : sqrt(epsilon)
    delta : Hessian dissimilarity (MIME)
    sigma, clients : noise and N (VRL-SGD)
    """
    epsilon = root * root
    if row == "SCAFFOLD":
        return G**2 / (mu * S * epsilon) + G / (mu * root) + L / mu
    if row == "MIME":
        return G**2 / (mu * S * epsilon) + delta / mu
    if row == "EFL":
        return G**2 / (mu * S * epsilon) + L / (mu * root)
    if row == "VRL-SGD":
        return clients * sigma**2 / (S * epsilon**2) + clients / epsilon
    if row == "FedAMP":
        return G**2 / (L * S * epsilon) + G / (epsilon * root) + L**2 / root
    raise InvalidInput(f"row = {row!r}: use one of {', '.join(ROWS)}")


@dataclass
class Point(EFLWorld):
    """One point of the parameters; ``root`` is sqrt(epsilon), so that everything stays rational."""

    demands, example = (BELOW,), "--problem diabetes"

    G: Any = number(above=0)
    L: Any = number()
    mu: Any = number(above=0)
    S: Any = number(what="the clients in a round", above=0)
    root: Any = number(
        what="of epsilon", above=0, letter=lambda q: q.epsilon ** Fraction(1, 2)
    )

    epsilon = derived(lambda q: q.root**2, letter=r"\epsilon")


@dataclass
class RatesView(Point):
    """A point where rows of strongly convex methods are compared."""

    kind, about = "rates", "about the orders of Table 1"
    asks = (
        CONVEX, "G of Theorem 1's, or given", "Hessians that do not change, or delta given",
    )  # fmt: skip
    accepts = given.options(*CONSTANTS, "S", "epsilon", "delta")
    count, shows = 60, ("G", "L", "mu", "S", "delta", "epsilon")

    delta: Any = number(what="Hessian dissimilarity", above=0)

    def row(self, name: str, scale: Any = 1) -> Any:
        """The row for the loss times ``scale``: G, L, mu, delta and epsilon are multiplied (``scale`` a square)."""
        a = scale * scale
        return rounds(name, a * self.G, a * self.L, a * self.mu, self.S, scale * self.root, a * self.delta)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw the constants, delta at most L now and then."""
        mu, L = sorted([size(rng), size(rng)])
        data = {
            "G": size(rng, 2), "L": L, "mu": mu, "S": Fraction(int(rng.integers(1, 100))),
            "root": min(size(rng, 1.0) / 2, Fraction(4)),
            "delta": size(rng, 2) if rng.random() < 0.5 else L * Fraction(int(rng.integers(1, 9)), 8),
        }  # fmt: skip
        return "random", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> dict[str, Any]:
        """Give G, L and mu of Theorem 1, S participants, epsilon, and delta of quadratics.

        delta = max_k ||H_k - H|| for quadratics, of other losses it is given; epsilon is 1/100
        unless given. The rows are compared as they are printed.
        """
        constant, problem = given.constants_when_asked(case), case.problem

        def dissimilarity() -> float:
            if not problem.constant_hessian:
                raise MissingCapability(
                    f"{type(problem).__name__}: its Hessians depend on the model; give delta, "
                    "their dissimilarity"
                )
            H = given.quadratics_of(problem)[0]
            mean = np.einsum("n,nij->ij", problem.weights, H)
            return float(abs(np.linalg.eigvalsh(H - mean)).max())

        epsilon = given.given_number(case, "epsilon", Fraction(1, 100), above=0)
        parts = (float(v) ** 0.5 for v in (epsilon.numerator, epsilon.denominator))
        if "G" in case.given:
            constant(lambda c: c.G_sq)  # refused where it is seen to be no bound
        law = law_of(case) if not isinstance(case.sampling, Uniform) else None
        active = case.sampling.size if law is None else float((1 - law.law(1)[:, 0]).sum())
        L, mu = given.curvatures(problem, case.given)
        return {
            "G": given.given_number(case, "G", lambda: float(constant(lambda c: c.G_sq)) ** 0.5, above=0),
            "L": simplest(L), "mu": simplest(mu), "S": given.given_number(case, "S", active, above=0),
            "root": Fraction(*map(simplest, parts)),
            "delta": given.given_number(case, "delta", dissimilarity, above=0),
        }  # fmt: skip


@dataclass
class RowView(EFLWorld):
    """Rounds that a run needs, and the row."""

    kind, about = "row", "about EFL's row of Table 1"
    asks = (
        "strongly convex quadratic losses, independent clients",
        PLAIN + ", LocalSGD with Theorem 1's steps",
    )
    accepts = given.options(*CONSTANTS, "epsilon", "K")
    example, count, share = "--problem diabetes --rounds 400", 24, 0.1
    attained = (
        ("by the distance, in a large unit", {
            "h": ["1/10000000000000000"], "start": ["1000000000"], "root": "500000000",
            "K": "1000000", "loss": False,
        }),
        ("by the loss, curvatures far apart", {
            "h": ["100000000", "100000000000"], "start": ["1", "0"], "root": "5000", "K": "100",
            "loss": True,
        }),
    )  # fmt: skip

    shows: ClassVar = {
        **{name: name for name in ("L", "mu", "G_sq", "S", "needed")}, "epsilon": "epsilon",
        "row": "row", "factor": "K",
    }  # fmt: skip
    demands = (Fact("a start that is not within epsilon already", lambda q: q.needed > 0),)

    h: np.ndarray = number("d", "curvatures", above=0)
    start: np.ndarray = number("d", "w_0")
    root: Any = number(what="of epsilon", above=0)
    K: Any = number(what="the constant before the row", above=0)
    loss: bool = flag("epsilon bounds F - F*, else the squared distance")

    epsilon = derived(lambda q: q.root**2)
    row = derived(lambda q: sum(q.terms))
    L = derived(lambda q: q.h.max())
    mu = derived(lambda q: q.h.min())

    S = 1  # one client takes part

    gamma = derived(lambda q: 64 * q.L / q.mu)

    @property
    def G_sq(self) -> Any:
        """The squared gradients fall along the run, as every step is below 2/L: the first one is the largest."""
        return (self.h**2 * self.start**2).sum()

    def error(self, w: np.ndarray) -> Any:
        return (self.h * w * w).sum() / 2 if self.loss else (w * w).sum()

    @cached_property
    def path(self) -> np.ndarray:
        """w_0, w_1, ... up to the first within epsilon. Raises `InvalidInput` for long runs."""
        out, w = [self.start], self.start
        while self.error(w) > self.root**2:
            if len(out) > LONGEST:
                raise InvalidInput(f"epsilon = {text(self.root**2)} is not reached within {LONGEST} rounds: give a larger one")
            w = w * (1 - 16 * self.h / (self.mu * (len(out) + self.gamma)))
            out.append(w)
        return np.stack(out)

    needed = derived(
        lambda q: len(q.path) - 1, "The first round count whose model is within epsilon"
    )

    terms = derived(
        lambda q: (q.G_sq / (q.mu * q.S * q.root**2), q.L / (q.mu * q.root)),
        "G^2/(mu S epsilon) and L/(mu sqrt(epsilon))",
    )

    def in_units(self, c: Any, s: Any) -> RowView:
        """The same run for c^2 F(s w); epsilon is c^2 times as large where it bounds the loss, else divided by s^2."""
        return replace(self, h=c**2 * s**2 * self.h, start=self.start / s, root=c * self.root if self.loss else self.root / s)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a quadratic, and an accuracy below its first error."""
        d, loss = int(rng.integers(1, 3)), bool(rng.random() < 0.5)
        h, start = [part(rng) for _ in range(d)], [Fraction(int(rng.integers(1, 9))) for _ in range(d)]
        error = sum((x / 2 if loss else 1) * w**2 for x, w in zip(h, start, strict=True))
        root = Fraction(int(rng.integers(1, 5)), 8) * Fraction(round(float(error) ** 0.5 * 16) or 1, 16)
        data = {"h": h, "start": start, "root": root, "K": Fraction(10) ** int(rng.integers(0, 4)), "loss": loss}
        return f"d={d} " + ("loss" if loss else "distance"), data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> MeasuredRowView:
        """Make the user's run with Theorem 1's steps.

        epsilon is ||w_0 - w*||^2/2, and K 1, unless given.
        """
        view = view_of("run", case)
        if not isinstance(view, EFLRun) or not view.exact:
            raise InvalidInput(
                "the run is sampled here: the rounds it needs are counted for quadratic losses and "
                "independent clients"
            )
        c, path = view.constants, np.asarray(view.distance_sq, dtype=float)
        epsilon = float(given.given_number(case, "epsilon", float(path[0]) / 2, above=0))
        reached = np.flatnonzero(path <= epsilon)
        if not len(reached) or reached[0] == 0:
            what = "there at the start: give a smaller one"
            if not len(reached):
                what = "not reached: give a larger one, or more rounds"
            found = f"||w_0 - w*||^2 = {path[0]:.6g}, {path[-1]:.6g} after {len(path) - 1} rounds"
            raise InvalidInput(f"epsilon = {epsilon:.6g} is {what}; {found}")
        active = float((1 - law_of(case).law(1)[:, 0]).sum())
        terms = float(c.G_sq) / (float(c.mu) * active * epsilon), float(c.L) / (float(c.mu) * epsilon**0.5)
        K = float(given.given_number(case, "K", 1, above=0))
        return MeasuredRowView(int(reached[0]), terms, K, epsilon, active)


@dataclass
class MeasuredRowView(ClosedView):
    """The rounds that a run of the user's took until E||w_T - w*||^2 <= epsilon, in exact second moments, and the row.
    """

    shows: ClassVar = {"needed": "needed", "row": "row", "factor": "K", "epsilon": "epsilon", "S": "S"}
    row = RowView.row
    needed: int  # needed, terms: the number of rounds, and both terms of the row
    terms: tuple[float, float]
    K: float  # the constant before the row
    epsilon: float  # epsilon, S: the accuracy, and the clients that take part in a round on average
    S: float
    h, loss = (), False  # not of the family


@dataclass
class UnitsView(Point):
    """A point where epsilon is of the loss for EFL, and of the squared gradient for others."""

    kind, about = "units", "about the orders of Table 1"
    asks, accepts = (CONVEX, "G of Theorem 1's, or given"), given.options(*CONSTANTS, "S", "epsilon")

    shows, terms = ("G", "L", "mu", "S", "sigma", "clients", "epsilon"), RowView.terms

    sigma: Any = number(what="the noise", above=0)
    clients: Any = number(what="N", above=0)

    def row(self, name: str, scale: Any = 1) -> Any:
        """The row for the loss times a = scale^2: G, L, mu, sigma times a, the loss's epsilon times
        a, the squared gradient's a^2."""
        a = scale * scale
        root = (scale if name == "EFL" else a) * self.root
        return rounds(name, a * self.G, a * self.L, a * self.mu, self.S, root, sigma=a * self.sigma, clients=self.clients)

    G_sq = derived(lambda q: q.G**2)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw the constants."""
        mu, L = sorted([part(rng), part(rng, 64)])
        data = {
            "G": part(rng, 64), "L": L, "mu": mu, "S": Fraction(int(rng.integers(1, 50))),
            "sigma": part(rng, 64), "clients": Fraction(int(rng.integers(1, 100))),
            "root": part(rng, 16, 16),
        }
        return "random", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> dict[str, Any]:
        """Take what `RatesView` takes, the largest sigma_k, 1 where there is no noise, and N."""
        known = replace(case, given={"delta": 1, **case.given})
        data = RatesView.on_problem(statement, known)
        found = case.given.get("sigma_sq")
        if found is None:
            found = constants_on(case).sigma_sq
        most = float(np.max(np.asarray(found, dtype=float)))
        shared = {k: data[k] for k in ("G", "L", "mu", "S", "root")}
        sigma = simplest(most**0.5) if most > 0 else Fraction(1)
        return {**shared, "sigma": sigma, "clients": Fraction(case.problem.num_clients)}

