"""Sections 4.1 and 4.2, Corollary 1 and Table 1 on a problem of a user's: Theorem 1's constants
there, or those that are given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Uniform
from fedtheory.participation.irregular import complete
from fedtheory.problems.base import Problem
from fedtheory.rational import simplest, simplest_each, to_file
from fedtheory.theorems.efl.cases.given import (
    Made,
    client_of,
    coordinates_of,
    distance_off,
    given_number,
    given_whole,
    law_in_fractions,
    quadratics_of,
    reweighted,
    weights_of,
)
from fedtheory.theorems.efl.cases.limits import uncompressed
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, assumption_failure, constants_on, law_of, local_sgd_of
from fedtheory.theorems.efl.notation import instance_of
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theorems.efl.quantities.run import EFLConstants, given_curvatures
from fedtheory.theorems.efl.statements.corollary_1_deadlines import RULE
from fedtheory.theory.judge.setting import Case, ClosedView
from fedtheory.theory.judge.statement import Form
from fedtheory.theory.rounds.second_moments import oracles_of, second_moments

__all__ = ["CertifiedAbandonView", "KeepOrAbandonView", "abandon", "epochs", "inactive", "incomplete", "keep", "rates"]

MAX_CASES = 20_000  # of (s_1..s_N) that are gone through one by one


def _scheme_c(case: Case) -> EFL:
    algorithm = uncompressed(case.algorithm)
    if algorithm.scheme != "C":
        raise InvalidInput(f"scheme = {algorithm.scheme}: the statement is about scheme C")
    return algorithm


def _idle(case: Case) -> np.ndarray:
    """y_t^k (T, N) in fractions, of clients that are complete when they are active."""
    law, T = law_of(case), case.rounds or ROUNDS
    law.check_run(case.problem.num_clients, T)
    rows = np.stack([law.law(t) for t in range(1, T + 1)])
    if law.max_steps > 1 and rows[:, :, 1:-1].max() > 0:
        t, k = (int(v) for v in np.argwhere(rows[:, :, 1:-1].max(axis=2) > 0)[0])
        raise InvalidInput(f"client {k} may be incomplete in round {t + 1}: section 4.1 is about clients that do all or nothing")
    if rows[:, :, 0].max() >= 1:
        t, k = (int(v) for v in np.argwhere(rows[:, :, 0] >= 1)[0])
        raise InvalidInput(f"client {k} is surely inactive in round {t + 1}: a probability below 1 is needed, or it has no say")
    return simplest_each(rows[:, :, 0])


def inactive(form: Form, case: Case) -> Any:
    """The data of kind 'inactive': the law of being inactive, and gamma, J and C of Theorem 1 on
    the problem, or as given.

    Corollary 1 assumes C_tau = tau C, so that C = C_T/T with Theorem 1's C_T as repaired. y is the
    probability of being inactive of the client that is named, else of the one that is inactive most
    often; tau_0 is 0 unless given.
    """
    _scheme_c(case)
    idle, T, E = _idle(case), case.rounds or ROUNDS, law_of(case).max_steps
    known: list[EFLConstants] = []

    def constant(of: Any) -> Any:
        if not known:
            known.append(constants_on(case))
        return simplest(float(of(known[0])))

    y = given_number(case, "y", lambda: idle[:, client_of(case)].max(), above=0)
    if not y < 1:
        raise InvalidInput(f"y = {float(y):.6g}: a probability of being inactive below 1 is needed")
    data = {
        "idle": idle, "E": E, "T": T,
        "gamma": given_number(case, "gamma", lambda: constant(lambda c: c.gamma), above=0),
        "J": given_number(case, "J", lambda: constant(lambda c: c.J), above=0),
        "C": given_number(
            case, "C",
            lambda: constant(lambda c: (c.gamma**2 * c.start_sq + c.noise_sum(c.B())[-1]) / c.T),
            above=0,
        ),
        "y": y, "tau_0": given_whole(case, "tau_0", 0, most=T - 1),
    }
    return instance_of("inactive", case.problem.name, to_file(data))


def epochs(form: Form, case: Case) -> Any:
    """The data of kind 'epochs': Theorem 1's constants for full participation, as its threshold has them, or as given."""
    _scheme_c(case)
    law = complete(case.problem.num_clients, law_of(case).max_steps)
    known: list[EFLConstants] = []

    def constant(of: Any) -> Any:
        if not known:
            known.append(constants_on(replace(case, sampling=law), law, "B"))
        return simplest(float(of(known[0])))

    def noise(c: EFLConstants) -> Any:
        return (c.weights**2 * c.sigma_sq).sum() + 6 * c.L * (c.weights * c.D).sum()

    G = given_number(case, "G", Fraction(0), least=0)
    data = {
        "noise": given_number(case, "noise", lambda: constant(noise), least=0),
        "G_sq": G**2 if "G" in case.given else constant(lambda c: c.G_sq),
        "kappa": max(Fraction(1), constant(lambda c: c.L / c.mu)), "E": law.max_steps,
        "T": case.rounds or ROUNDS,
    }
    return instance_of("epochs", case.problem.name, to_file(data))


def incomplete(form: Form, case: Case) -> Any:
    """The data of kind 'incomplete': the law of s^k > 0, and Theorem 1's constants there."""
    _scheme_c(case)
    law = law_in_fractions(case, "C")
    if any(law[:, 0]):
        k = int(np.flatnonzero(law[:, 0] != 0)[0])
        raise InvalidInput(f"client {k} is inactive with probability {float(law[k, 0]):.6g}, the limit is 0 (section 4.2)")
    cases = float(np.prod([float((row != 0).sum()) for row in law]))
    if cases > MAX_CASES:
        raise MissingCapability(f"{cases:.3g} cases of (s_1..s_N), at most {MAX_CASES} are gone through: take fewer clients")
    c = constants_on(case)
    data = {
        "weights": weights_of(case.problem), "law": law, "L": simplest(float(c.L)),
        "mu": simplest(float(c.mu)), "G_sq": simplest(float(c.G_sq)),
        "sigma_sq": simplest_each(c.sigma_sq), "D": simplest_each(c.D),
    }
    return instance_of("incomplete", case.problem.name, to_file(data))


# --- Corollary 1: keep the client, or abandon it --------------------------------------------------
def _who(case: Case) -> tuple[int, Fraction]:
    """Client a and y^a; all others are complete in every round."""
    a, law = client_of(case), law_in_fractions(case, "C")
    others = np.delete(law, a, axis=0)
    if (others[:, -1] != 1).any():
        k = int(np.delete(np.arange(len(law)), a)[np.flatnonzero(others[:, -1] != 1)[0]])
        raise InvalidInput(f"client {k} is not always complete: Corollary 1 is about client {a} alone (name another with client)")
    if law.shape[1] > 2 and any(law[a, 1:-1]):
        raise InvalidInput(f"client {a} may be incomplete: Corollary 1 is about a client that does all or nothing")
    y = given_number(case, "y", law[a, 0], above=0)
    if not y < 1:
        raise InvalidInput(f"y = {float(y):.6g}: a probability of being inactive below 1 is needed")
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
        self.rest, self.p_a = reweighted(self.problem, self.problem.weights * others), float(self.problem.weights[self.a])
        self.alone = reweighted(self.problem, (~others).astype(float))
        self.optima = {share: self._optimum(share) for share in (0.0, float(self.y), 1.0)}
        away = max(distance_off(self.problem, o) for o in self.optima.values())
        steepest = max(float(np.linalg.norm(self.problem.full_gradient(o.x))) for o in self.optima.values())
        below = max(float(np.linalg.norm(self.rest.full_gradient(o.x))) for o in self.optima.values())
        self.noise = 2 * away * (max(steepest, below) + self.L * away)
        steep = float(np.linalg.norm(self.alone.full_gradient(self.limit(self.y)))) + self.L * away
        of_bound = 2 * self.L * (float(self.y) * self.p_a / self.mu) ** 2 * steep * away
        self.noise_sq = 4 * away * (float(np.linalg.norm(self._between)) + away) + of_bound

    def _optimum(self, share: float) -> Any:
        weights = self.problem.weights.copy()
        weights[self.a] *= 1 - share
        return reweighted(self.problem, weights).optimum()

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


def abandon(form: Form, case: Case) -> Any:
    """The data of kind 'abandon' of quadratics whose coordinates do not mix; certified points of
    other strongly convex losses."""
    _scheme_c(case)
    a, y = _who(case)
    try:
        h, c = coordinates_of(case.problem)
    except MissingCapability:
        return Made(CertifiedAbandonView(case.problem, a, y))
    order = [*(k for k in range(len(h)) if k != a), a]
    data = {"weights": weights_of(case.problem)[order], "h": h[order], "c": c[order], "y": y}
    return instance_of("abandon", case.problem.name, to_file(data))


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
        self.facts = frozenset({RULE} if float(self.y) * self.J > self.f_1 else set())

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
        H = np.einsum("n,nij->ij", self.case.problem.weights, quadratics_of(self.case.problem)[0])
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


def keep(form: Form, case: Case) -> Any:
    """Both runs of a quadratic problem; exact moments of other losses follow no recursion."""
    algorithm, solver = _scheme_c(case), case.local_solver
    reason = assumption_failure(case.problem, algorithm, solver)
    if reason is not None:
        raise InvalidInput(reason)
    if isinstance(solver, LocalSGD) and callable(solver.lr):
        raise InvalidInput("with the client and without it the step is Theorem 1's, each run's own: give no schedule")
    a, y = _who(case)
    quadratics_of(case.problem)
    if isinstance(solver, LocalSGD) and solver.batch_size is not None and not solver.replacement:
        raise MissingCapability("second moments are exact where mini-batches are drawn with replacement: use replacement=True")
    local_sgd_of(case, law_of(case)).check(case.problem)
    return Made(KeepOrAbandonView(case, a, y))


# --- Table 1 --------------------------------------------------------------------------------------
def rates(form: Form, case: Case) -> Any:
    """The data of kind 'rates': G, L and mu of Theorem 1 on the problem, S participants, and delta
    of quadratics.

    delta = max_k ||H_k - H|| for quadratics, of other losses it is given; epsilon is 1/100 unless
    given. The rows are compared as they are printed.
    """
    known: list[EFLConstants] = []

    def constant(of: Any) -> Any:
        if not known:
            known.append(constants_on(case))
        return float(of(known[0]))

    def dissimilarity() -> Any:
        if not case.problem.constant_hessian:
            raise MissingCapability(f"{type(case.problem).__name__}: its Hessians depend on the model; give delta, their dissimilarity")
        H = quadratics_of(case.problem)[0]
        mean = np.einsum("n,nij->ij", case.problem.weights, H)
        return float(abs(np.linalg.eigvalsh(H - mean)).max())

    epsilon = given_number(case, "epsilon", Fraction(1, 100), above=0)
    root = Fraction(*(simplest(float(v) ** 0.5) for v in (epsilon.numerator, epsilon.denominator)))
    if "G" in case.given:
        constant(lambda c: c.G_sq)  # refused where it is seen to be no bound
    law = law_of(case) if not isinstance(case.sampling, Uniform) else None
    active = case.sampling.size if law is None else float((1 - law.law(1)[:, 0]).sum())
    if not case.problem.mu_k.min() > 0:
        raise InvalidInput(f"mu = {float(case.problem.mu_k.min()):.6g}, the limit is > 0: add a ridge")
    L, mu = given_curvatures(case.given, float(case.problem.beta_k.max()), float(case.problem.mu_k.min()))
    data = {
        "G": given_number(case, "G", lambda: constant(lambda c: c.G_sq) ** 0.5, above=0),
        "L": simplest(L), "mu": simplest(mu), "S": given_number(case, "S", active, above=0),
        "root": root, "delta": given_number(case, "delta", dissimilarity, above=0),
    }
    return instance_of("rates", case.problem.name, to_file(data))
