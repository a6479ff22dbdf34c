"""Limits of EFL on a user's problem: under its law of participation, and with the elastic term."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.clients.fisher import client_fisher
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.moments import round_moments
from fedtheory.rational import simplest, simplest_each, to_file
from fedtheory.theorems.efl.cases.given import (
    Made,
    check_all_active,
    client_of,
    coordinates_of,
    distance_off,
    law_in_fractions,
    quadratics_of,
    reweighted,
    weights_of,
)
from fedtheory.theorems.efl.cases.theorem_1 import law_of
from fedtheory.theorems.efl.notation import instance_of
from fedtheory.theorems.efl.statements.elastic_term import (
    DECAYS,
    LEAVER,
    LONG_RUN,
    RUN,
    ElasticView,
)
from fedtheory.theorems.efl.statements.limit_points import COORDINATES, FRACTIONS, LEMMA, facts_of
from fedtheory.theory.judge.setting import Case, ClosedView
from fedtheory.theory.judge.statement import Form
from fedtheory.theory.rounds.coefficients import RoundLaw

__all__ = ["CertifiedLimitView", "constant_step", "diagonals_of", "elastic", "limit", "uncompressed"]

IN_FRACTIONS = 30  # rounds of a run in fractions, at most
LONG = 2000  # rounds of a run in floats, at least 1000


def uncompressed(algorithm: Any, elastic: bool = False) -> EFL:
    """The algorithm, if it is EFL without compression, and without the elastic term unless it is about that.

    Raises
    ------
    InvalidInput
        Another method, a compressor, or lambda that is 0 where it must not be, or is not 0 where it must.
    """
    if not isinstance(algorithm, EFL):
        raise InvalidInput(f"the statement is about EFL, not {type(algorithm).__name__}")
    for name in ("compressor", "down_compressor"):
        if getattr(algorithm, name) is not None:
            raise InvalidInput(f"{name} = {getattr(algorithm, name).name}: the statement is about EFL without compression; use None")
    if elastic != (algorithm.lam > 0):
        raise InvalidInput(f"lambda = {algorithm.lam:g}: the statement is about {'lambda > 0' if elastic else 'lambda = 0'}")
    return algorithm


def constant_step(case: Case, default: Any) -> Fraction:
    """The constant local step that the user set, else the default.

    Raises
    ------
    InvalidInput
        Local work that is not plain SGD with full gradients, or whose step changes with the rounds.
    """
    solver = case.local_solver
    if solver is None:
        return simplest(float(default))
    if not isinstance(solver, LocalSGD) or solver.batch_size is not None or solver.noise_std:
        raise InvalidInput("the statement is about full gradients: use LocalSGD(E, lr) without mini-batches and noise")
    if callable(solver.lr):
        raise InvalidInput("the statement is about a constant step: give lr as a number")
    return simplest(solver.lr)


# --- schemes --------------------------------------------------------------------------------------
@dataclass
class CertifiedLimitView(ClosedView):
    """The limit and the optimum of any strongly convex problem, as certified points.

    The mean move of a round is -eta sum_k E[p s] grad f_k(w) + O(eta^2), so that steps which tend to 0 and sum to infinity
    lead to the one zero of the sum, argmin sum_k E[p s] f_k. A point with gradient g is within ||g||/mu of its minimiser,
    which is the noise of an equality between the two.

    Attributes
    ----------
    scheme, weights : (N,) p^k
    limit, star : (d,)
    noise : of their difference
    why : what a form in fractions lacks here
    """

    scheme: str
    weights: np.ndarray
    limit: np.ndarray
    star: np.ndarray
    noise: float
    why: str
    facts: frozenset[str]

    @property
    def rule(self) -> str:  # type: ignore[override]
        return self.scheme

    def applies(self, form: Form) -> str | None:
        return self.why if {FRACTIONS, COORDINATES, LEMMA} & set(form.needs) else super().applies(form)

    def printed_constants(self) -> dict[str, Any]:
        return {"omega*": [float(x) for x in self.star], "limit": [float(x) for x in self.limit]}


def _certified(case: Case, scheme: str, law: np.ndarray, why: str) -> Made:
    problem = case.problem
    if not problem.mu_k.min() > 0:
        k = int(np.argmin(problem.mu_k))
        raise InvalidInput(f"client {k} has mu_k = {float(problem.mu_k[k]):.6g}, the limit is > 0: add a ridge")
    m = round_moments(scheme, law_of(case), 1, problem.weights)  # type: ignore[arg-type]
    drift = np.asarray(m.ps, dtype=float)
    if not drift.sum() > 0:
        raise InvalidInput("nobody ever takes part: the limit is not defined")
    at, star = reweighted(problem, drift).optimum(), problem.optimum()
    noise = distance_off(problem, at) + distance_off(problem, star)
    facts = frozenset(facts_of(law))
    return Made(CertifiedLimitView(scheme, problem.weights, at.x, star.x, noise, why, facts))


def limit(form: Form, case: Case) -> Any:
    """The data of kind 'limit' of quadratics whose coordinates do not mix; of other strongly convex losses the two points.

    Where no step is given eta = 1/(2L). The steps a/(tau + b) of the decaying run have a = 2/min_i M_i and
    b = a max{max_i M_i, L}, with M = sum_k E[p s] h_k, so that 1 < a M <= b.
    """
    scheme = uncompressed(case.algorithm).scheme
    constant_step(case, 1)  # mini-batches, noise and schedules are refused for any losses
    law = law_in_fractions(case, scheme)
    try:
        h, c = coordinates_of(case.problem)
    except MissingCapability as error:
        return _certified(case, scheme, law, str(error))
    weights = weights_of(case.problem)
    drift = (RoundLaw(EFL(scheme=scheme), law, weights).single[0] * np.arange(law.shape[1])).sum(axis=1)
    M = (drift[:, None] * h).sum(axis=0)
    if not M.min() > 0:
        raise InvalidInput("nobody ever takes part: the limit is not defined")
    eta = constant_step(case, 1 / (2 * h.max()))
    if eta * h.max() > 1:
        raise InvalidInput(f"lr = {float(eta):.6g}: the limit is 1/L = {float(1 / h.max()):.6g}")
    step = 2 / M.min()
    rounds = case.rounds or 10
    data = {
        "scheme": scheme, "weights": weights, "h": h, "c": c, "law": law, "eta": eta,
        "x0": simplest_each(case.x0), "step": step, "offset": step * max(M.max(), h.max()),
        "rounds": min(rounds, 10_000),
    }
    data = to_file(data)
    if rounds > IN_FRACTIONS:
        if LEMMA in form.needs:
            data["arithmetic"] = "float"
        else:
            data["rounds"] = 1  # of a run that the form does not look at
    return instance_of("limit", case.problem.name, data)


# --- the elastic term -----------------------------------------------------------------------------
def looks_at_run(form: Form) -> bool:
    """True if the form looks at a run, not at a round only."""
    return bool({RUN, LONG_RUN, DECAYS} & set(form.needs))


def diagonals_of(case: Case, algorithm: EFL) -> np.ndarray:
    """u_0 (N, d) as given, else the Fisher diagonals, which for these losses do not depend on the model."""
    problem, shape = case.problem, (case.problem.num_clients, case.problem.dim)
    if "u_0" in case.given:
        u = simplest_each(case.given["u_0"])
        if u.shape != shape:
            raise InvalidInput(f"u_0 {u.shape}: give a row of d numbers for every client, {shape}")
        if u.min() < 0:
            raise InvalidInput(f"u_0 goes down to {float(u.min()):.6g}: Fisher diagonals are >= 0")
        return u
    kind = algorithm.fisher_kind(problem)
    at = np.zeros((problem.num_clients, 1, problem.dim))
    u, elsewhere = (np.asarray(client_fisher(problem, y, kind))[:, 0] for y in (at, at + 1))
    if not np.array_equal(u, elsewhere):
        raise InvalidInput(f"the {kind} Fisher diagonals depend on the model: the statement is about fixed u^k; give u_0")
    return simplest_each(u)


@dataclass
class ElasticMixingView(ElasticView):
    """The elastic term on quadratics whose coordinates mix, in floats.

    At a fixed point of a round sum_k p^k g_k + lambda (U w - V) = 0 and U w - V = eta sum_k u_k
    g_k + lambda eta U (U w - V), so that sum_k [p^k (1 - lambda eta U) + lambda eta u_k] g_k = 0 in
    every coordinate, whatever the gradients g_k at w; of quadratics this is one linear system. The
    recursion of (w, V) is linear too, and contracts where its spectral radius is below 1.

    Attributes
    ----------
    H : (N, d, d); h is their diagonal, which plays no part
    """

    H: np.ndarray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.facts = self.facts - {RUN, DECAYS}  # their bounds are for coordinates that do not mix

    @property
    def noise(self) -> np.ndarray:  # type: ignore[override]
        """Sums of gradients that cancel are known up to rounding of what they are made of, whatever
        the condition of the systems."""
        points = (self.fixed(self.eta), self.star)
        return 1e-12 * sum(self.size(w) + np.einsum("nij,j->i", abs(self.H), abs(w)) for w in points)

    @property
    def noise_of_round(self) -> np.ndarray:  # type: ignore[override]
        """V at the fixed point divides such a sum by lambda."""
        return np.stack([self.noise, self.noise / self.lam])

    def noise_of_stale(self, w: np.ndarray) -> np.ndarray:
        pull = 0 if self.leaver is None else self.lam * self.u[self.leaver] * (abs(w) + abs(np.asarray(self.anchor)))
        return 1e-12 * self.eta * (self.size(w) + np.einsum("nij,j->i", abs(self.H), abs(w)) + pull)

    @property
    def contracts(self) -> bool:
        """True if the power of the recursion contracts enough for the run. It is multiplied with
        the distance of (c_1, U c_1) from the fixed point."""
        *away, first = self.away()
        left = np.linalg.matrix_power(self.recursion, self.rounds)
        most = np.linalg.norm(left, 2) * np.linalg.norm(np.concatenate(away))
        return bool(most <= 1e-7 * first.min())

    def gradients(self, w: np.ndarray) -> np.ndarray:
        return np.einsum("nij,nj->ni", self.H, w - self.c)

    def times(self, weights: np.ndarray, x: np.ndarray) -> np.ndarray:
        return (weights * (self.H @ x)).sum(axis=0)

    def size(self, w: np.ndarray, factor: Any = 1) -> np.ndarray:
        return factor * np.einsum("nij,nj->i", abs(self.H), abs(w - self.c))

    def _centre(self, weights: np.ndarray) -> np.ndarray:
        W = weights[:, :, None] * self.H
        try:
            return np.linalg.solve(W.sum(axis=0), np.einsum("nij,nj->i", W, self.c))
        except np.linalg.LinAlgError as error:
            raise InvalidInput("the fixed point is not the only one: its linear system is singular; take a smaller step") from error

    @property
    def recursion(self) -> np.ndarray:
        """Of (w, V) around its fixed point, (2d, 2d)."""
        d, mean = len(self.U), np.einsum("n,nij->ij", self.weights, self.H)
        unit, U, e = np.eye(d), np.diag(self.U), self.eta
        rows = [
            [unit - e * (mean + self.lam * U), e * self.lam * unit],
            [U - e * np.einsum("ni,nij->ij", self.u, self.H) - e * self.lam * U @ U, e * self.lam * U],
        ]
        return np.block(rows)

    @property
    def stable(self) -> bool:
        return bool(abs(np.linalg.eigvals(self.recursion)).max() < 1)

    def stale_limit(self, removed: bool) -> np.ndarray:
        if removed:
            return self.rest_star
        mean, pull = np.einsum("n,nij->ij", self.rest, self.H), self.lam * self.u[self.leaver]
        return np.linalg.solve(mean + np.diag(pull), mean @ self.rest_star + pull * self.anchor)


def _mixing(form: Form, case: Case, algorithm: EFL, leaver: int | None) -> Made:
    problem, u = case.problem, diagonals_of(case, algorithm).astype(float)
    H, b = quadratics_of(problem)
    if not problem.mu_k.min() > 0:
        k = int(np.argmin(problem.mu_k))
        raise InvalidInput(f"client {k} has mu_k = {float(problem.mu_k[k]):.6g}, the limit is > 0: add a ridge")
    L, largest, lam = float(problem.beta_k.max()), float(u.sum(axis=0).max()), float(algorithm.lam)
    default = 0.75 / L if largest == 0 else min(0.75 / L, 1 / (2 * lam * largest))
    eta = float(constant_step(case, default))
    if lam * eta * largest >= 1:
        raise InvalidInput(f"lambda eta max U = {lam * eta * largest:.6g}, the limit is < 1: the fixed point need not be the only one")
    c = np.linalg.solve(H, b[..., None])[..., 0]
    star = np.linalg.solve(np.einsum("n,nij->ij", problem.weights, H), problem.weights @ b)
    anchor = None if leaver is None else simplest_each(case.given.get("anchor", star)).astype(float)
    if anchor is not None and anchor.shape != star.shape:
        raise InvalidInput(f"anchor {anchor.shape}: it needs one number a coordinate, {star.shape}")
    h = np.diagonal(H, axis1=1, axis2=2)
    rounds = max(case.rounds or LONG, 1000) if looks_at_run(form) else 0
    return Made(ElasticMixingView(np.asarray(problem.weights), h, c, u, lam, eta, leaver, anchor, rounds, H=H))


def elastic(form: Form, case: Case) -> Any:
    """The data of kind 'elastic': quadratics, lambda > 0, all active, E = 1; in floats where their coordinates mix.

    Where no step is given eta = min{3/(4L), 1/(2 lambda max U)}. A client that has left is the one that is named or has a
    window; its last model is given, else omega*, where decaying steps have taken everybody before it leaves.
    """
    algorithm = uncompressed(case.algorithm, elastic=True)
    if isinstance(case.local_solver, LocalSGD) and case.local_solver.steps != 1:
        raise InvalidInput(f"E = {case.local_solver.steps}: the statement is about one local step a round, the limit is 1")
    leaves = [window[1] for window in getattr(case.sampling, "present", None) or () if window[1] is not None]
    leaving = bool(leaves) or "client" in case.given
    check_all_active(case, client_of(case) if leaving and LEAVER in form.needs else None)
    quadratics_of(case.problem)
    try:
        (h, c), weights, u = coordinates_of(case.problem), weights_of(case.problem), diagonals_of(case, algorithm)
    except MissingCapability:
        return _mixing(form, case, algorithm, client_of(case) if leaving else None)
    lam, U = simplest(algorithm.lam), u.sum(axis=0)
    default = Fraction(3, 4) / h.max() if U.max() == 0 else min(Fraction(3, 4) / h.max(), 1 / (2 * lam * U.max()))
    eta = constant_step(case, default) if case.local_solver is not None else default
    if lam * eta * U.max() >= 1:
        found = float(lam * eta * U.max())
        raise InvalidInput(f"lambda eta max U = {found:.6g}, the limit is < 1: the fixed point need not be the only one")
    long = looks_at_run(form)
    data = {"weights": weights, "h": h, "c": c, "u": u, "lam": lam, "eta": eta, "rounds": max(case.rounds or LONG, 1000) if long else 0}
    if leaving:
        star = (weights[:, None] * h * c).sum(axis=0) / (weights[:, None] * h).sum(axis=0)
        data["leaver"], data["anchor"] = client_of(case), simplest_each(case.given["anchor"]) if "anchor" in case.given else star
    data = to_file(data)
    if long:
        data["arithmetic"] = "float"
    return instance_of("elastic", case.problem.name, data)
