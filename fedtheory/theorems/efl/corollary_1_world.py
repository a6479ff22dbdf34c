"""The worlds of EFL's Corollary 1: keep an inactive client, or abandon it at a deadline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.irregular import complete
from fedtheory.problems.base import Problem
from fedtheory.rational import fraction, integer, text, vector
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import (
    ROUNDS,
    assumption_failure,
    law_of,
    local_sgd_of,
)
from fedtheory.theorems.efl.draws import curvatures, rows, shares, signed, size
from fedtheory.theorems.efl.inactive_world import check_below_1, check_scheme_c
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theorems.efl.quantities.run import EFLConstants
from fedtheory.theorems.efl.world import (
    ALONE,
    CONSTANTS,
    CONVEX,
    OF_THEOREM_1,
    EFLWorld,
    clients_of,
)
from fedtheory.theory import Fact
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.symbolic import Letters
from fedtheory.theory.judge.view import ClosedView
from fedtheory.theory.rounds.second_moments import oracles_of, second_moments


def _few(q: EpochsView) -> bool:
    """True if the threshold of (9) falls from E on."""
    return bool(q.E * (q.E + 1) * q.growth <= q.noise)


def _few_8(q: EpochsView) -> bool:
    """True if that of (8) falls for long runs."""
    return bool(q.E * (q.E + 1) * (q.growth - 2 * q.G_sq) <= (2 * q.E + 1) * q.noise)


FEW = Fact("E (E + 1) (2 + 1/(4 kappa)) G^2 <= nu", _few)
MANY = Fact("E (E + 1) (2 + 1/(4 kappa)) G^2 > nu", lambda q: not _few(q))
FEW_8 = Fact("E (E + 1) G^2 <= 4 kappa nu (2E + 1)", _few_8)
MANY_8 = Fact("E (E + 1) G^2 > 4 kappa nu (2E + 1)", lambda q: not _few_8(q))


@dataclass
class EpochsView(EFLWorld):
    """The threshold for y^a as a function of E, with the constants of Theorem 1 for full
    participation after the removal (theta = 1).

    Attributes
    ----------
    noise : sum p^2 sigma^2 + 6 L sum p D
    G_sq, kappa : G^2 and L/mu
    E, T : int, the deadline T in rounds
    """

    kind, about = "epochs", "about keeping or abandoning an inactive client"
    asks, accepts = (CONVEX, OF_THEOREM_1), given.options(*CONSTANTS, "noise")
    example, shown = "--problem diabetes", ("noise", "G_sq", "kappa", "E", "T")
    attained = (
        ("many epochs", {"noise": "1/100", "G_sq": "8", "kappa": "1", "E": 6, "T": 50}),
    )

    noise: Any
    G_sq: Any
    kappa: Any
    E: int
    T: int

    @property
    def growth(self) -> Any:
        return (2 + 1 / (4 * self.kappa)) * self.G_sq

    def threshold(self, E: int) -> Any:
        """(C/J)/(TE), of (9), up to what does not depend on E: noise/E + 2 G^2 + (2 + mu/(4L))(E - 1) G^2."""
        return self.noise / E + 2 * self.G_sq + self.growth * (E - 1)

    def by_rule(self, E: int) -> Any:
        """f_1(T)/J, of (8), up to the same: T C/(TE + gamma)^2 over J, gamma = max{4E, 64 L/mu}."""
        return self.T * E * self.threshold(E) / (self.T * E + self.gamma(E)) ** 2

    def gamma(self, E: int) -> Any:
        """max{4E, 64 L/mu}."""
        return max(4 * E, 64 * self.kappa)

    def late(self, E: int) -> Any:
        """lim T f_1(T)/J up to the same: noise/E^2 + (2 + mu/(4L)) G^2 - mu/(4L) G^2/E."""
        return self.threshold(E) / E

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance of noise, G_sq, kappa, E and T."""
        noise, G_sq, kappa = (fraction(data[k], k) for k in ("noise", "G_sq", "kappa"))
        if noise < 0 or G_sq < 0 or kappa < 1:
            raise InvalidInput("noise and G_sq must be >= 0, kappa = L/mu at least 1")
        return cls(noise, G_sq, kappa, integer(data["E"], "E", 1), integer(data["T"], "T", 1))

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw the constants; kappa = 1 now and then."""
        kappa = 1 + (0 if rng.random() < 0.3 else size(rng))
        data = {
            "noise": size(rng, 2), "G_sq": size(rng), "kappa": kappa,
            "E": int(rng.integers(1, 12)), "T": int(rng.integers(1, 400)),
        }  # fmt: skip
        return f"E={data['E']} T={data['T']}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> dict[str, Any]:
        """Give Theorem 1's constants for full participation, or those that the user set."""
        check_scheme_c(case)
        law = complete(case.problem.num_clients, law_of(case).max_steps)
        constant = given.constants_when_asked(replace(case, sampling=law), law, "B")
        noise = lambda c: (c.weights**2 * c.sigma_sq).sum() + 6 * c.L * (c.weights * c.D).sum()  # noqa: E731
        G = given.given_number(case, "G", Fraction(0), least=0)
        return {
            "noise": given.given_number(case, "noise", lambda: constant(noise), least=0),
            "G_sq": G**2 if "G" in case.given else constant(lambda c: c.G_sq),
            "kappa": max(Fraction(1), constant(lambda c: c.L / c.mu)), "E": law.max_steps,
            "T": case.rounds or ROUNDS,
        }  # fmt: skip


class _Epochs(Letters):
    """The threshold as a function of E, which is the view's."""

    growth, threshold, by_rule, late = EpochsView.growth, EpochsView.threshold, EpochsView.by_rule, EpochsView.late

    def gamma(self, E: Any) -> Any:
        """SymPy's maximum."""
        import sympy as sp

        return sp.Max(4 * E, 64 * self.kappa)


EpochsView.letters = _Epochs(
    {"noise": r"\nu", "G_sq": "G^2", "kappa": r"\kappa", "E": "E", "T": "T"}, ("G_sq",)
)


@dataclass
class KeepView(EFLWorld):
    """Two clients (w - 1)^2/2 and (w + 1)^2/2 of weight 1/2, E = 1, scheme C; the second is
    inactive with probability y, or abandoned.

    Second moments of both runs around their own limits are exact, and so are the constants of (8):
    mu = L = 1. (8) is asked for with the larger f_1 and the smaller J of Theorem 1 as printed and
    as repaired: it then holds with either.

    Attributes
    ----------
    y : probability of being inactive
    sigma_sq : noise of every client's gradient
    x0 : the start
    rounds : T
    """

    kind, about = "keep", "about keeping or abandoning an inactive client"
    asks, accepts = ("strongly convex quadratic losses", ALONE), given.options("y", "client")
    example = "--problem diabetes --clients 3 --inactive 0,0,0.5"
    attained = (("noise only", {"y": "1/2", "sigma_sq": "1", "x0": "1", "rounds": 1}),)

    y: Any
    sigma_sq: Any
    x0: Any
    rounds: int

    @property
    def S(self) -> Any:
        """E[sum p s] when the client is kept."""
        return 1 - self.y / 2

    @property
    def limit(self) -> Any:
        """The limit of the kept run's mean: argmin sum E[p s] f_k."""
        return self.y / (2 - self.y)

    @property
    def J(self) -> Any:
        """32 E sum E[p s] D_k/(mu S) = 16, D_k = 1/2 at w* = 0. As printed, with D_k in the denominator, J is 64."""
        return 32 * ((1 + (1 - self.y)) / 2 * Fraction(1, 2)) / self.S

    @property
    def f_1(self) -> Any:
        """C/(T + gamma)^2 for client 1 alone, C the sum of both parts: at least what the printed maximum gives."""
        return sum(self.parts(self.G_sq))

    @property
    def f_1_sharp(self) -> Any:
        """The same with B of Theorem 1 as sharpened: no G for E = 1."""
        return sum(self.parts(0))

    def parts(self, G_sq: Any) -> tuple[Any, Any]:
        """C's parts over (T + gamma)^2: S = theta = 1, D = 0, gamma = 64, B = sigma^2 + 2 G^2."""
        below = (self.rounds + 64) ** 2
        return 64**2 * (self.x0 - 1) ** 2 / below, 256 * self.rounds * (self.sigma_sq + 2 * G_sq) / below

    @property
    def G_sq(self) -> Any:
        """The largest E||g||^2 of client 1 alone in rounds 0..T - 1."""
        return max(square for _, square in self._alone()[:-1]) + self.sigma_sq

    def kept(self, centre: Any) -> Any:
        """E(w_T - centre)^2 with the client, gamma = 64/S, step 16/((t + 1 + gamma) S)."""
        mean, square = self.x0, self.x0**2
        for t in range(self.rounds):
            eta = 16 / ((t + 1 + 64 / self.S) * self.S)
            active, alone = 1 - self.y, self.y
            # both: w - eta w; one: w - eta (w - 1)/2
            noise = eta**2 * self.sigma_sq / 4
            both = (1 - eta) ** 2 * square + 2 * noise
            a = 1 - eta / 2
            one = a * a * square + a * eta * mean + eta**2 / 4 + noise
            mean, square = active * (1 - eta) * mean + alone * (a * mean + eta / 2), active * both + alone * one
        return square - 2 * centre * mean + centre**2

    def _alone(self) -> list[tuple[Any, Any]]:
        """E(w_t - 1) and E(w_t - 1)^2 of client 1 alone, t = 0..T, gamma = 64, step 16/(t + 65)."""
        path = [(self.x0 - 1, (self.x0 - 1) ** 2)]
        for t in range(self.rounds):
            eta, (away, square) = Fraction(16, t + 65), path[-1]
            path.append(((1 - eta) * away, (1 - eta) ** 2 * square + eta**2 * self.sigma_sq))
        return path

    def alone(self, centre: Any) -> Any:
        """E(w_T - centre)^2 of client 1 alone."""
        away, square = self._alone()[-1]
        return square + 2 * (1 - centre) * away + (1 - centre) ** 2

    @staticmethod
    def loss(square: Any) -> Any:
        """E F(w), F = ((w - 1)^2 + (w + 1)^2)/4, from E w^2."""
        return (square + 1) / 2

    @property
    def loss_abandoned(self) -> Any:
        """E F(w_T) without the client."""
        return self.loss(self.alone(0 * self.y))

    @property
    def loss_kept(self) -> Any:
        """E F(w_T) with it."""
        return self.loss(self.kept(0 * self.y))

    @property
    def own_abandoned(self) -> Any:
        """E||w_T - w*||^2 without the client, w* the optimum of those that stay."""
        return self.alone(1)

    @property
    def own_kept(self) -> Any:
        """E||w_T - w*||^2 with it, w* the optimum of all."""
        return self.kept(0 * self.y)

    def printed_constants(self) -> dict[str, Any]:
        return {"J": text(self.J), "f_1(T)": text(self.f_1), "T": self.rounds}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance of y, sigma_sq, x0 and rounds."""
        y, sigma_sq, x0 = vector([data["y"], data["sigma_sq"], data["x0"]], "y, sigma_sq, x0")
        if not 0 < y < 1 or sigma_sq < 0:
            raise InvalidInput("0 < y < 1 and sigma_sq >= 0 are needed")
        return cls(y, sigma_sq, x0, integer(data["rounds"], "rounds", 1, 60))

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw noise, start and y; no noise now and then."""
        noise = Fraction(0) if rng.random() < 0.2 else size(rng)
        x0 = Fraction(int(rng.integers(-8, 9)), 4)
        y, rounds = Fraction(int(rng.integers(1, 20)), 20), int(rng.integers(1, 30))
        return f"T={rounds}", {"y": y, "sigma_sq": noise, "x0": x0, "rounds": rounds}

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> KeepOrAbandonView:
        """Give both runs of a quadratic problem; those of other losses follow no recursion."""
        check_scheme_c(case)
        solver = case.local_solver
        if reason := assumption_failure(case.problem, case.algorithm, solver):
            raise InvalidInput(reason)
        if isinstance(solver, LocalSGD) and callable(solver.lr):
            raise InvalidInput(
                "with the client and without it the step is Theorem 1's, each run's own: give no "
                "schedule"
            )
        a, y = who_is_away(case)
        given.quadratics_of(case.problem)
        batches = isinstance(solver, LocalSGD) and solver.batch_size is not None
        if batches and not solver.replacement:
            raise MissingCapability(
                "second moments are exact where mini-batches are drawn with replacement: use "
                "replacement=True"
            )
        local_sgd_of(case, law_of(case)).check(case.problem)
        return KeepOrAbandonView(case, a, y)


@dataclass
class AbandonView(EFLWorld):
    """Limits of scheme C on quadratics when client a (the last) is inactive with probability y, or is abandoned.

    Attributes
    ----------
    weights, h, c : (N,), (N, d), (N, d)
    y : P(s^a = 0); the others are always complete
    """

    kind, about = "abandon", "about keeping or abandoning an inactive client"
    asks, accepts = (CONVEX, ALONE), given.options("y", "client")
    example = "--problem diabetes --clients 3 --inactive 0,0,0.5"

    weights: np.ndarray
    h: np.ndarray
    c: np.ndarray
    y: Any
    noise = 0  # of values
    noise_sq = 0  # of the squared distance

    def limit(self, y: Any) -> np.ndarray:
        """argmin sum_k E[p s] f_k with a inactive with probability y (1: abandoned)."""
        w = self.weights.copy()
        w[-1] = w[-1] * (1 - y)
        w = w[:, None] * self.h
        return (w * self.c).sum(axis=0) / w.sum(axis=0)

    def loss(self, x: np.ndarray, without: bool = False) -> Any:
        """F(x), or the sum of the clients other than a."""
        each = self.weights * (self.h * (x - self.c) ** 2).sum(axis=1) / 2
        return each[:-1].sum() if without else each.sum()

    @cached_property
    def bias_sq(self) -> Any:
        return ((self.limit(self.y) - self.limit(0 * self.y)) ** 2).sum()

    def bound(self, sharp: bool, factor: int = 2) -> Any:
        """2 L (y p^a)^2 D_a/(mu^2 ...), D_a = F_a - F_a* at the limit: Theorem 2 for the fraction y of a's weight."""
        x, rho = self.limit(self.y), self.y * self.weights[-1]
        gap = (self.h[-1] * (x - self.c[-1]) ** 2).sum() / 2
        L, mu = self.h.max(), self.h.min()
        below = mu**2 * (1 - rho) ** 2 + mu * L * rho * (2 - rho) if sharp else mu**2
        return factor * L * rho**2 * gap / below

    def printed_constants(self) -> dict[str, Any]:
        return {"y": text(self.y), "p^a": text(self.weights[-1]), "L": text(self.h.max()), "mu": text(self.h.min())}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance of weights, h, c (client a last) and y in (0, 1)."""
        (weights, h, c), y = clients_of(data), fraction(data["y"], "y")
        if len(weights) < 2 or not 0 < y < 1:
            raise InvalidInput("give at least two clients, and 0 < y < 1")
        return cls(weights, h, c, y)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw quadratics and y."""
        n, d = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        data = {
            "weights": shares(rng, n), "h": curvatures(rng, n, d), "c": rows(rng, n, d, signed),
            "y": Fraction(int(rng.integers(1, 100)), 100),
        }  # fmt: skip
        return f"N={n} d={d}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> Any:
        """Give quadratics whose coordinates do not mix; certified points of other losses."""
        check_scheme_c(case)
        a, y = who_is_away(case)
        try:
            h, c = given.coordinates_of(case.problem)
        except MissingCapability:
            return CertifiedAbandonView(case.problem, a, y)
        order = [*(k for k in range(len(h)) if k != a), a]
        return {"weights": given.weights_of(case.problem)[order], "h": h[order], "c": c[order], "y": y}


def who_is_away(case: Case) -> tuple[int, Fraction]:
    """Client a and y^a; all others are complete in every round."""
    a, law = given.client_of(case), given.law_in_fractions(case, "C")
    others = np.delete(law, a, axis=0)
    if (others[:, -1] != 1).any():
        k = int(np.delete(np.arange(len(law)), a)[np.flatnonzero(others[:, -1] != 1)[0]])
        raise InvalidInput(f"client {k} is not always complete: Corollary 1 is about client {a} alone (name another with client)")
    if law.shape[1] > 2 and any(law[a, 1:-1]):
        raise InvalidInput(f"client {a} may be incomplete: Corollary 1 is about a client that does all or nothing")
    y = given.given_number(case, "y", law[a, 0], above=0)
    check_below_1(y)
    return a, y


@dataclass
class CertifiedAbandonView(ClosedView):
    """Limits of scheme C on any strongly convex problem, as certified points, with client a
    inactive, or abandoned.

    The limit with a inactive with probability y minimises F - y p^a F_a, so that F there grows with
    y, and Theorem 2 for the fraction y of a's weight bounds its distance from omega*. A point with
    gradient g is within ||g||/mu of its minimiser, and its value within ||g||^2/(2 mu).

    Attributes
    ----------
    problem, a, y : the clients, the one that is inactive, and how often
    """

    problem: Problem
    a: int
    y: Any

    def __post_init__(self) -> None:
        self.mu, self.L = float(self.problem.mu_k.min()), float(self.problem.beta_k.max())
        if not self.mu > 0:
            raise InvalidInput(f"mu_k = {self.mu:.6g}, the limit is > 0: the limits are not unique; add a ridge")
        others = np.arange(self.problem.num_clients) != self.a
        self.rest, self.p_a = given.reweighted(self.problem, self.problem.weights * others), float(self.problem.weights[self.a])
        self.alone = given.reweighted(self.problem, (~others).astype(float))
        self.optima = {share: self._optimum(share) for share in (0.0, float(self.y), 1.0)}
        away = max(given.distance_off(self.problem, o) for o in self.optima.values())
        steepest = max(float(np.linalg.norm(self.problem.full_gradient(o.x))) for o in self.optima.values())
        below = max(float(np.linalg.norm(self.rest.full_gradient(o.x))) for o in self.optima.values())
        self.noise = 2 * away * (max(steepest, below) + self.L * away)
        steep = float(np.linalg.norm(self.alone.full_gradient(self.limit(self.y)))) + self.L * away
        of_bound = 2 * self.L * (float(self.y) * self.p_a / self.mu) ** 2 * steep * away
        self.noise_sq = 4 * away * (float(np.linalg.norm(self._between)) + away) + of_bound

    def _optimum(self, share: float) -> Any:
        weights = self.problem.weights.copy()
        weights[self.a] *= 1 - share
        return given.reweighted(self.problem, weights).optimum()

    @property
    def _between(self) -> np.ndarray:
        return self.optima[float(self.y)].x - self.optima[0.0].x

    def limit(self, y: Any) -> np.ndarray:
        """argmin F - y p^a F_a."""
        return self.optima[float(y)].x

    def loss(self, x: np.ndarray, without: bool = False) -> Any:
        """F(x), or the sum of the clients other than a."""
        return np.asarray((1 - self.p_a) * float(self.rest.objective(x)) if without else float(self.problem.objective(x)))

    @property
    def bias_sq(self) -> Any:
        return np.asarray(float((self._between**2).sum()))

    def bound(self, sharp: bool, factor: int = 2) -> Any:
        """Theorem 2 for the fraction y of a's weight, with a lower bound of F_a*."""
        rho, x = float(self.y) * self.p_a, self.limit(self.y)
        gap = float(self.alone.objective(x)) - self.alone.optimum().lower_bound
        below = self.mu**2 * (1 - rho) ** 2 + self.mu * self.L * rho * (2 - rho) if sharp else self.mu**2
        return factor * self.L * rho**2 * gap / below

    def printed_constants(self) -> dict[str, Any]:
        return {"client": self.a, "y": float(self.y), "p^a": self.p_a, "L": self.L, "mu": self.mu}


@dataclass
class KeepOrAbandonView(ClosedView):
    """Both runs of Theorem 1 on a quadratic problem in exact second moments: with client a inactive
    at times, and without it.

    E F(w_T) - F* = tr(H E[(w_T - w*)(w_T - w*)'])/2 with H the Hessian of F. (8) is asked for with
    the larger f_1 (both parts of C added, B_t as repaired) and the smaller J of Theorem 1 as
    printed and as repaired, so that it then holds with either. The client is abandoned at once,
    tau_0 = 0.

    Attributes
    ----------
    case, a, y : the problem and the start, the client, and how often it is inactive
    """

    case: Case
    a: int
    y: Any

    def __post_init__(self) -> None:
        if self.kept[0].smallest_D > 0:
            self.J = min(float(self.kept[0].J), float(self.kept[0].J_printed))
        else:
            self.J = float(self.kept[0].J)

    def _run(self, problem: Problem, rows: np.ndarray) -> tuple[EFLConstants, Any, np.ndarray]:
        """Constants, the last second moment of (w_T - w*, 1), and w*."""
        solver, T = local_sgd_of(self.case, law_of(self.case)), self.case.rounds or ROUNDS
        oracles, laws = oracles_of(problem, solver.batch_size, solver.noise_std), round_laws("C", [rows], T, problem.weights)
        constants = quadratic_run(oracles, laws, self.case.x0).constants
        return constants, second_moments(oracles, laws, list(constants.eta), self.case.x0).second_moment, oracles.star

    @cached_property
    def kept(self) -> tuple[EFLConstants, Any, np.ndarray]:
        """The run with client a."""
        rows = complete(self.case.problem.num_clients, law_of(self.case).max_steps).law(1)
        rows[self.a, 0], rows[self.a, -1] = float(self.y), 1 - float(self.y)
        return self._run(self.case.problem, rows)

    @cached_property
    def abandoned(self) -> tuple[EFLConstants, Any, np.ndarray]:
        """The run without it."""
        rest = self.case.problem.subset(np.delete(np.arange(self.case.problem.num_clients), self.a))
        return self._run(rest, complete(rest.num_clients, law_of(self.case).max_steps).law(1))

    def _loss(self, moment: np.ndarray, about: np.ndarray) -> Any:
        d, away = len(about), about - self.kept[2]
        second = moment[:d, :d] + np.outer(moment[:d, d], away) + np.outer(away, moment[d, :d]) + np.outer(away, away)
        H = np.einsum("n,nij->ij", self.case.problem.weights, given.quadratics_of(self.case.problem)[0])
        return np.asarray((H * second).sum() / 2)

    @property
    def loss_kept(self) -> Any:
        return self._loss(self.kept[1], self.kept[2])

    @property
    def loss_abandoned(self) -> Any:
        return self._loss(self.abandoned[1], self.abandoned[2])

    @property
    def own_kept(self) -> Any:
        return np.asarray(np.trace(self.kept[1][:-1, :-1]))

    @property
    def own_abandoned(self) -> Any:
        return np.asarray(np.trace(self.abandoned[1][:-1, :-1]))

    def _over(self, B: np.ndarray) -> float:
        c = self.abandoned[0]
        return float((c.gamma**2 * c.start_sq + c.noise_sum(B)[-1]) / (c.T * c.E + c.gamma) ** 2)

    @property
    def f_1(self) -> float:
        return self._over(self.abandoned[0].B())

    @property
    def f_1_sharp(self) -> float:
        return self._over(self.abandoned[0].B_sharp)

    def printed_constants(self) -> dict[str, Any]:
        return {"client": self.a, "y": float(self.y), "J": self.J, "f_1(T)": self.f_1, "T": self.abandoned[0].T}
