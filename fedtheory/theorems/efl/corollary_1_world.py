"""The worlds of EFL's Corollary 1: keep an inactive client, or abandon it at a deadline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.irregular import complete
from fedtheory.problems.base import Problem
from fedtheory.rational import objects
from fedtheory.theorems.efl import world as efl
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases import theorem_1 as cases
from fedtheory.theorems.efl.inactive_world import check_below_1, check_scheme_c
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theorems.efl.quantities.run import EFLConstants
from fedtheory.theory import Case, ClosedView, Fact, derived, maximum, number, whole
from fedtheory.theory.draws import curvatures, rows, shares, signed, size
from fedtheory.theory.rounds.irregular_run import exact_oracles
from fedtheory.theory.rounds.second_moments import QuadraticOracles, oracles_of

FEW = Fact(
    "E (E + 1) (2 + 1/(4 kappa)) G^2 <= nu", lambda q: q.E * (q.E + 1) * q.growth <= q.noise
)
MANY = Fact("E (E + 1) (2 + 1/(4 kappa)) G^2 > nu", lambda q: not q.has(FEW))
FEW_8 = Fact(  # the threshold of (8) then falls for long runs
    "E (E + 1) G^2 <= 4 kappa nu (2E + 1)",
    lambda q: q.E * (q.E + 1) * (q.growth - 2 * q.G_sq) <= (2 * q.E + 1) * q.noise,
)
MANY_8 = Fact("E (E + 1) G^2 > 4 kappa nu (2E + 1)", lambda q: not q.has(FEW_8))


@dataclass
class EpochsView(efl.EFLWorld):
    """The threshold for y^a as a function of E, with the constants of Theorem 1 for full
    participation after the removal (theta = 1)."""

    kind, about = "epochs", "about keeping or abandoning an inactive client"
    asks, accepts = (efl.CONVEX, efl.OF_THEOREM_1), given.options(*efl.CONSTANTS, "noise")
    example, shows = "--problem diabetes", ("noise", "G_sq", "kappa", "E", "T")
    attained = (
        ("many epochs", {"noise": "1/100", "G_sq": "8", "kappa": "1", "E": 6, "T": 50}),
    )

    noise: Any = number(what="sum p^2 sigma^2 + 6 L sum p D", least=0, letter=r"\nu")
    G_sq: Any = number(what="G^2", least=0, letter="G^2")
    kappa: Any = number(what="L/mu", least=1)
    E: int = whole(1)
    T: int = whole(1, what="the deadline in rounds")

    growth = derived(lambda q: (2 + 1 / (4 * q.kappa)) * q.G_sq)

    def threshold(self, E: int) -> Any:
        """(C/J)/(TE), of (9), up to what does not depend on E: noise/E + 2 G^2 + (2 + mu/(4L))(E - 1) G^2."""
        return self.noise / E + 2 * self.G_sq + self.growth * (E - 1)

    def by_rule(self, E: int) -> Any:
        """f_1(T)/J, of (8), up to the same: T C/(TE + gamma)^2 over J, gamma = max{4E, 64 L/mu}."""
        return self.T * E * self.threshold(E) / (self.T * E + self.gamma(E)) ** 2

    def gamma(self, E: int) -> Any:
        """max{4E, 64 L/mu}."""
        return maximum(4 * E, 64 * self.kappa)

    def late(self, E: int) -> Any:
        """lim T f_1(T)/J up to the same: noise/E^2 + (2 + mu/(4L)) G^2 - mu/(4L) G^2/E."""
        return self.threshold(E) / E

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
        law = complete(case.problem.num_clients, cases.law_of(case).max_steps)
        constant = given.constants_when_asked(replace(case, sampling=law), law, "B")
        noise = lambda c: (c.weights**2 * c.sigma_sq).sum() + 6 * c.L * (c.weights * c.D).sum()  # noqa: E731
        G = given.given_number(case, "G", Fraction(0), least=0)
        return {
            "noise": given.given_number(case, "noise", lambda: constant(noise), least=0),
            "G_sq": G**2 if "G" in case.given else constant(lambda c: c.G_sq),
            "kappa": max(Fraction(1), constant(lambda c: c.L / c.mu)), "E": law.max_steps,
            "T": case.rounds or cases.ROUNDS,
        }  # fmt: skip

@dataclass
class KeepView(efl.EFLWorld):
    """Both runs of Theorem 1 on quadratics in exact second moments, under scheme C: with client a
    inactive at times, and without it, as it is abandoned at once, tau_0 = 0.

    (8) is asked for with the larger f_1 (both parts of C added, B_t as repaired) and the smaller J
    of Theorem 1 as printed and as repaired: it then holds with either. The instances of a campaign
    are two clients (w - 1)^2/2 and (w + 1)^2/2 of weight 1/2, E = 1, of which a is the second."""

    kind, about = "keep", "about keeping or abandoning an inactive client"
    asks = ("strongly convex quadratic losses", efl.ALONE)
    accepts = given.options("y", "client")
    example = "--problem diabetes --clients 3 --inactive 0,0,0.5"
    shows: ClassVar = {"client": "a", "y": "y", "J": "J", "f_1(T)": "f_1", "T": "rounds"}
    attained = (("noise only", {"y": "1/2", "sigma_sq": "1", "x0": "1", "rounds": 1}),)
    reads: ClassVar = {
        "y": number(above=0, below=1), "sigma_sq": number(what="of every client's noise", least=0),
        "x0": number(), "rounds": whole(1, 60),
    }  # fmt: skip

    oracles: QuadraticOracles  # oracles, law: all clients, and their laws (N, E + 1)
    law: np.ndarray
    a: int  # a, y: the client, and its probability of being inactive
    y: Any
    x0: np.ndarray  # x0, rounds: the start (d,), and T
    rounds: int
    least: Any = 0  # what is added to F - F*

    def _run(self, oracles: QuadraticOracles, law: np.ndarray) -> tuple[EFLConstants, Any, Any]:
        """Constants, the last second moment of (w_T - w*, 1), and w*."""
        laws = round_laws("C", [law], self.rounds, oracles.weights)
        run = quadratic_run(oracles, laws, self.x0)
        return run.constants, run.second_moment, oracles.star

    kept = derived(lambda q: q._run(q.oracles, q.law), "The run with client a")
    abandoned = derived(
        lambda q: q._run(q.oracles.without(q.a), np.delete(q.law, q.a, axis=0)),
        "The run without it",
    )

    @cached_property
    def J(self) -> Any:
        """The smaller one of J as repaired, and as printed where it is defined."""
        c = self.kept[0]
        return min(c.J, c.J_printed) if c.smallest_D > 0 else c.J

    def parts(self, sharp: bool = False) -> tuple[Any, Any]:
        """C's parts over (TE + gamma)^2, of the run without a."""
        c = self.abandoned[0]
        below = (c.T * c.E + c.gamma) ** 2
        noise = c.noise_sum(c.B_sharp if sharp else c.B())[-1]
        return c.gamma**2 * c.start_sq / below, noise / below

    f_1 = derived(
        lambda q: sum(q.parts()),
        "C/(TE + gamma)^2, C the sum of both parts: at least what the printed maximum gives",
    )
    f_1_sharp = derived(
        lambda q: sum(q.parts(sharp=True)),
        "The same with B of Theorem 1 as sharpened: no G for E = 1",
    )

    def moment(self, run: tuple[EFLConstants, Any, Any], centre: np.ndarray) -> np.ndarray:
        """E[(w_T - centre)(w_T - centre)'] of a run."""
        _, moment, star = run
        away, mean = star - centre, moment[:-1, -1]
        moved = np.outer(mean, away)
        return np.asarray(moment[:-1, :-1] + moved + moved.T + np.outer(away, away))

    def loss(self, run: tuple[EFLConstants, Any, Any]) -> Any:
        """E F(w_T) - F* = tr(H E[(w_T - w*)(w_T - w*)'])/2, H the Hessian of F."""
        H = (self.oracles.weights[:, None, None] * self.oracles.mean_H).sum(axis=0)
        return np.asarray((H * self.moment(run, self.kept[2])).sum() / 2 + self.least)[()]

    loss_abandoned = derived(lambda q: q.loss(q.abandoned))
    loss_kept = derived(lambda q: q.loss(q.kept))
    own_abandoned = derived(
        lambda q: np.trace(q.abandoned[1][:-1, :-1]),
        "E||w_T - w*||^2 without the client, w* the optimum of those that stay",
    )
    own_kept = derived(
        lambda q: np.trace(q.kept[1][:-1, :-1]), "E||w_T - w*||^2 with it, w* the optimum of all"
    )

    @classmethod
    def made(cls, y: Any, sigma_sq: Any, x0: Any, rounds: int) -> Self:
        """Make the two clients with their noise."""
        two = exact_oracles({"h": [["1"]] * 2, "c": [["1"], ["-1"]], "weights": ["1/2"] * 2})
        law = objects([[Fraction(0), Fraction(1)], [y, 1 - y]])
        noisy = replace(two, noise_sq=objects([sigma_sq] * 2))
        return cls(noisy, law, 1, y, objects([x0]), rounds, least=Fraction(1, 2))

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw noise, start and y; no noise now and then."""
        noise = Fraction(0) if rng.random() < 0.2 else size(rng)
        x0 = Fraction(int(rng.integers(-8, 9)), 4)
        y, rounds = Fraction(int(rng.integers(1, 20)), 20), int(rng.integers(1, 30))
        return f"T={rounds}", {"y": y, "sigma_sq": noise, "x0": x0, "rounds": rounds}

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> KeepView:
        """Give both runs of a quadratic problem; those of other losses follow no recursion."""
        check_scheme_c(case)
        problem, solver = case.problem, case.local_solver
        if reason := cases.assumption_failure(problem, case.algorithm, solver):
            raise InvalidInput(reason)
        if isinstance(solver, LocalSGD) and callable(solver.lr):
            raise InvalidInput(
                "with the client and without it the step is Theorem 1's, each run's own: give no "
                "schedule"
            )
        a, y = who_is_away(case)
        given.quadratics_of(problem)
        if isinstance(solver, LocalSGD) and solver.batch_size is not None and not solver.replacement:
            raise MissingCapability(
                "second moments are exact where mini-batches are drawn with replacement: use "
                "replacement=True"
            )
        law = cases.law_of(case)
        local = cases.local_sgd_of(case, law)
        local.check(problem)
        there = complete(problem.num_clients, law.max_steps).law(1)
        there[a, 0], there[a, -1] = float(y), 1 - float(y)
        oracles = oracles_of(problem, local.batch_size, local.noise_std)
        return cls(oracles, there, a, float(y), case.x0, case.rounds or cases.ROUNDS)


@dataclass
class AbandonView(efl.Clients):
    """Limits of scheme C on quadratics when client a (the last) is inactive with probability y, or
    is abandoned; the others are always complete."""

    kind, about = "abandon", "about keeping or abandoning an inactive client"
    asks, accepts = (efl.CONVEX, efl.ALONE), given.options("y", "client")
    example = "--problem diabetes --clients 3 --inactive 0,0,0.5"
    shows: ClassVar = {"y": "y", "p^a": "p_a", "L": "L", "mu": "mu"}
    demands = (Fact("at least two clients", lambda q: len(q.h) > 1),)

    y: Any = number(what="P(s^a = 0)", above=0, below=1)
    noise = 0  # of values
    noise_sq = 0  # of the squared distance

    def __post_init__(self) -> None:
        self.p_a, self.L, self.mu = self.weights[-1], self.h.max(), self.h.min()

    def limit(self, y: Any) -> np.ndarray:
        """argmin sum_k E[p s] f_k with a inactive with probability y (1: abandoned)."""
        return self.centre(np.append(self.weights[:-1], self.p_a * (1 - y)))

    def loss(self, x: np.ndarray, without: bool = False) -> Any:
        """F(x), or the sum of the clients other than a."""
        each = self.weights * (self.h * (x - self.c) ** 2).sum(axis=1) / 2
        return each[:-1].sum() if without else each.sum()

    bias_sq = derived(lambda q: ((q.limit(q.y) - q.star) ** 2).sum())
    gap = derived(
        lambda q: (q.h[-1] * (q.limit(q.y) - q.c[-1]) ** 2).sum() / 2,
        "D_a = F_a - F_a* at the limit",
    )

    def bound(self, sharp: bool, factor: int = 2) -> Any:
        """2 L (y p^a)^2 D_a/(mu^2 ...): Theorem 2 for the fraction y of a's weight."""
        L, mu, rho = self.L, self.mu, self.y * self.p_a
        below = mu**2 * (1 - rho) ** 2 + mu * L * rho * (2 - rho) if sharp else mu**2
        return factor * L * rho**2 * self.gap / below

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
    gradient g is within ||g||/mu of its minimiser, and its value within ||g||^2/(2 mu)."""

    shows: ClassVar = {"client": "a", **AbandonView.shows}
    bound = AbandonView.bound
    problem: Problem  # problem, a, y: the clients, the one that is inactive, and how often
    a: int
    y: Any

    def __post_init__(self) -> None:
        self.y = float(self.y)
        self.L, self.mu = given.curvatures(self.problem)
        others = np.arange(self.problem.num_clients) != self.a
        self.rest, self.p_a = given.reweighted(self.problem, self.problem.weights * others), float(self.problem.weights[self.a])
        self.alone = given.reweighted(self.problem, (~others).astype(float))
        self.optima = {share: self._optimum(share) for share in (0.0, self.y, 1.0)}
        away = max(given.distance_off(self.problem, o) for o in self.optima.values())
        steepest = max(float(np.linalg.norm(self.problem.full_gradient(o.x))) for o in self.optima.values())
        below = max(float(np.linalg.norm(self.rest.full_gradient(o.x))) for o in self.optima.values())
        self.noise = 2 * away * (max(steepest, below) + self.L * away)
        steep = float(np.linalg.norm(self.alone.full_gradient(self.limit(self.y)))) + self.L * away
        of_bound = 2 * self.L * (self.y * self.p_a / self.mu) ** 2 * steep * away
        self.noise_sq = 4 * away * (float(np.linalg.norm(self._between)) + away) + of_bound

    def _optimum(self, share: float) -> Any:
        weights = self.problem.weights.copy()
        weights[self.a] *= 1 - share
        return given.reweighted(self.problem, weights).optimum()

    _between = derived(lambda q: q.optima[q.y].x - q.optima[0.0].x)

    def limit(self, y: Any) -> np.ndarray:
        """argmin F - y p^a F_a."""
        return self.optima[float(y)].x

    def loss(self, x: np.ndarray, without: bool = False) -> Any:
        """F(x), or the sum of the clients other than a."""
        return np.asarray((1 - self.p_a) * float(self.rest.objective(x)) if without else float(self.problem.objective(x)))

    bias_sq = derived(lambda q: np.asarray(float((q._between**2).sum())))
    gap = derived(
        lambda q: float(q.alone.objective(q.limit(q.y))) - q.alone.optimum().lower_bound,
        "D_a at the limit, with a lower bound of F_a*",
    )
