"""Stability of a run with the elastic term, and its effect on a client, on a user's problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Full
from fedtheory.rational import simplest, simplest_each, to_file
from fedtheory.theorems.efl.cases.given import Made, coordinates_of, quadratics_of, weights_of
from fedtheory.theorems.efl.cases.limits import constant_step, diagonals_of, uncompressed
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, law_of
from fedtheory.theorems.efl.notation import instance_of
from fedtheory.theorems.efl.statements.elastic_stability import MORE, ONE_STEP, UNSTABLE, WITHOUT
from fedtheory.theory.judge.setting import Case, ClosedView
from fedtheory.theory.judge.statement import Form

__all__ = ["MixingView", "stability"]

ROUNDING = 1e-9  # of a spectral radius, of a matrix whose entries are near 1


@dataclass
class MixingView(ClosedView):
    """Quadratics whose coordinates mix, in floats: one matrix takes (w, V) on, and settles iff its
    spectral radius is below 1.

    Attributes
    ----------
    weights, H, c, u : (N,), (N, d, d), (N, d), (N, d)
    lam, eta, E : lambda, the constant step, and the local steps of a round
    start, anchors : the server's model (d,) and the clients' last models (N, d)
    """

    weights: np.ndarray
    H: np.ndarray
    c: np.ndarray
    u: np.ndarray
    lam: float
    eta: float
    E: int
    start: np.ndarray
    anchors: np.ndarray

    def __post_init__(self) -> None:
        self.noise = ROUNDING
        self.facts = frozenset({ONE_STEP if self.E == 1 else MORE, WITHOUT if self.margin(0).min() > ROUNDING else UNSTABLE})

    @property
    def V(self) -> np.ndarray:
        return (self.u * self.anchors).sum(axis=0)

    def margin(self, lam: Any) -> np.ndarray:
        """1 - the spectral radius, (1,)."""
        U, eye = self.u.sum(axis=0), np.eye(len(self.c[0]))
        step = eye - self.eta * (self.H + lam * np.diag(U))
        kept, sums = np.linalg.matrix_power(step, self.E), self.eta * sum(np.linalg.matrix_power(step, j) for j in range(self.E))
        rows = [
            [np.einsum("n,nij->ij", self.weights, kept), lam * np.einsum("n,nij->ij", self.weights, sums)],
            [np.einsum("ni,nij->ij", self.u, kept), lam * np.einsum("ni,nij->ij", self.u, sums)],
        ]
        if lam == 0:  # V plays no part
            return 1 - abs(np.linalg.eigvals(rows[0][0])).max(keepdims=True)
        scale = np.where(U > 0, U, 1)  # of V, so that both halves are of one size
        rows[0][1], rows[1] = rows[0][1] * scale, [m / scale[:, None] for m in (rows[1][0], rows[1][1] * scale)]
        return 1 - abs(np.linalg.eigvals(np.block(rows))).max(keepdims=True)

    def round(self, w: np.ndarray, V: np.ndarray, lam: Any) -> tuple[np.ndarray, np.ndarray]:
        """The clients' models after E steps from w (N, d), and the next V."""
        y, U = w + 0 * self.c, self.u.sum(axis=0)
        for _ in range(self.E):
            y = y - self.eta * (np.einsum("nij,nj->ni", self.H, y - self.c) + lam * (U * y - V))
        return y, (self.u * y).sum(axis=0)

    def printed_constants(self) -> dict[str, Any]:
        found = {"rho, lambda = 0": self.margin(0), "rho": self.margin(self.lam)}
        return {"lambda": self.lam, "eta": self.eta, "E": self.E, **{k: float(1 - m[0]) for k, m in found.items()}}


def stability(form: Form, case: Case) -> Any:
    """The data of kind 'stability': quadratics, lambda > 0, all active, a constant step; in floats where coordinates mix.

    Where no step is given eta = 3/(4 L). The forms about one round start at the user's x0, and the anchors are the clients'
    minimisers, to which they tend between rounds.

    Raises
    ------
    InvalidInput, MissingCapability
        What is missing: another method, other losses, clients that are away or incomplete, diagonals that change.
    """
    algorithm = uncompressed(case.algorithm, elastic=True)
    law = law_of(case)
    full = case.sampling is None or isinstance(case.sampling, Full)
    if not full and any((law.law(t)[:, -1] < 1).any() for t in range(1, (case.rounds or ROUNDS) + 1)):
        raise InvalidInput("a client is inactive or incomplete: the statement is about all clients complete; leave that out")
    E = 1 if full and not isinstance(case.local_solver, LocalSGD) else law.max_steps
    H, b = quadratics_of(case.problem)
    if not case.problem.mu_k.min() > 0:
        k = int(np.argmin(case.problem.mu_k))
        raise InvalidInput(f"client {k} has mu_k = {float(case.problem.mu_k[k]):.6g}, the limit is > 0: add a ridge")
    eta, u = constant_step(case, 0.75 / float(case.problem.beta_k.max())), diagonals_of(case, algorithm)
    try:
        (h, c), weights = coordinates_of(case.problem), weights_of(case.problem)
    except MissingCapability:
        c = np.linalg.solve(H, b[..., None])[..., 0]
        floats = (np.asarray(case.problem.weights), H, c, u.astype(float), float(algorithm.lam), float(eta), E, case.x0, c)
        return Made(MixingView(*floats))
    data = {
        "weights": weights, "h": h, "c": c, "u": u, "lam": simplest(algorithm.lam), "eta": eta,
        "E": E, "start": simplest_each(case.x0), "anchors": c,
    }
    return instance_of("stability", case.problem.name, to_file(data))
