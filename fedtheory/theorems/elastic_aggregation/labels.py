"""What Elastic Aggregation's sensitivity is measured from: clients given by their samples, with labels, in fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.elastic_aggregation.notation import BUILDERS
from fedtheory.theorems.elastic_aggregation.quantities import ratios
from fedtheory.verification.rational import fraction, integer, table, text, vector
from fedtheory.verification.setting import ClosedView

__all__ = ["LabelsView", "labels_view"]


@dataclass
class LabelsView(ClosedView):
    """Linear models F(theta; a) = a' theta, trained by E gradient steps on the mean of (a' theta - y)^2/2.

    Attributes
    ----------
    held, held_labels : inputs (n_k, d) of B_k, and labels (n_k,), one of each a client
    train, labels, others : inputs (m_k, d) of D_k, its labels (m_k,), and other labels (m_k,)
    counts : (N,) samples that weigh the clients
    theta : (d,) the server's model
    tau, eta, lr, E : tau, the server's and the clients' step, local steps
    """

    held: list[np.ndarray]
    held_labels: list[np.ndarray]
    train: list[np.ndarray]
    labels: list[np.ndarray]
    others: list[np.ndarray]
    counts: np.ndarray
    theta: np.ndarray
    tau: Any
    eta: Any
    lr: Any
    E: int

    def __post_init__(self) -> None:
        self.facts = frozenset()

    @cached_property
    def w(self) -> np.ndarray:
        return self.counts / self.counts.sum()

    def sensitivities(self, x: np.ndarray) -> np.ndarray:
        """Omega_k = |mean over B_k of the gradient of F(x; a)^2| (N, d), sample by sample, as Algorithm 1 has it."""
        return np.stack([abs(sum(2 * (a @ x) * a for a in rows) / Fraction(len(rows))) for rows in self.held])

    @property
    def gram(self) -> np.ndarray:
        """S_k = mean of a a' over B_k (N, d, d)."""
        return np.stack([a.T @ a / Fraction(len(a)) for a in self.held])

    def loss_gradients(self, x: np.ndarray) -> np.ndarray:
        """Of the mean of (a' x - y)^2 over B_k, which has labels (N, d)."""
        return np.stack([2 * (a.T @ (a @ x - y)) / Fraction(len(a)) for a, y in zip(self.held, self.held_labels, strict=True)])

    def zeta(self, x: np.ndarray) -> np.ndarray:
        omega = (self.w[:, None] * self.sensitivities(x)).sum(axis=0)
        return 1 + self.tau - ratios(omega) if omega.max() > 0 else 0 * omega + 1

    def after(self, labels: list[np.ndarray]) -> np.ndarray:
        """The server's model (d,) after a round in which the clients train on these labels."""
        deltas = []
        for a, y in zip(self.train, labels, strict=True):
            x = self.theta
            for _ in range(self.E):
                x = x - self.lr * (a.T @ (a @ x - y)) / Fraction(len(a))
            deltas.append(x - self.theta)
        return self.theta + self.eta * self.zeta(self.theta) * (self.w[:, None] * np.stack(deltas)).sum(axis=0)

    def printed_constants(self) -> dict[str, Any]:
        return {"tau": text(self.tau), "theta": [text(v) for v in self.theta]}


@BUILDERS.add("labels")
def labels_view(data: dict[str, Any]) -> LabelsView:
    """From held, held_labels, train, labels, others (lists over the clients), counts, theta, tau, eta, lr, E."""
    theta, counts = vector(data["theta"], "theta"), vector(data["counts"], "counts")
    inputs = {n: [table(v, f"{n}[{k}]") for k, v in enumerate(data[n])] for n in ("held", "train")}
    labels = {n: [vector(v, f"{n}[{k}]") for k, v in enumerate(data[n])] for n in ("held_labels", "labels", "others")}
    if any(len(v) != len(counts) for v in [*inputs.values(), *labels.values()]) or counts.min() <= 0:
        raise InvalidInput("counts > 0, and held, held_labels, train, labels and others with one entry a client")
    for of, names in (("held", ("held_labels",)), ("train", ("labels", "others"))):
        for k, rows in enumerate(inputs[of]):
            if rows.shape[1] != len(theta) or any(len(labels[n][k]) != len(rows) for n in names):
                raise InvalidInput(f"{of}[{k}]: rows of {len(theta)} numbers as theta has, and as many labels, are needed")
    tau, eta, lr = (fraction(data[k], k) for k in ("tau", "eta", "lr"))
    if tau < 0 or eta <= 0 or lr <= 0:
        raise InvalidInput(f"tau = {tau}, eta = {eta}, lr = {lr}: tau must be >= 0, eta and lr > 0")
    return LabelsView(**inputs, **labels, counts=counts, theta=theta, tau=tau, eta=eta, lr=lr, E=integer(data["E"], "E", 1, 20))
