"""Clients for an implementation that is audited: data, losses and gradients, in plain NumPy."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

__all__ = ["LOSSES", "Client", "Task", "mistaken"]

LOSSES = (
    "squared-without-half", "examples-summed", "ridge-none", "squared-for-logistic",
    "gradient-sign",
)  # mistakes of an adapter that works losses out for itself

Loss = Literal["squared", "logistic"]


@dataclass(frozen=True, eq=False)  # equal is the same one: arrays have no hash
class Client:
    """One client of a small federated problem.

    With rows a_j and entries b_j its loss f_k(x) is

    - 'squared': 1/(2 n) sum_j (a_j'x - b_j)^2, which is half of a mean squared error;
    - 'logistic': 1/n sum_j log(1 + exp(-b_j a_j'x)) with labels b_j = -1 or 1,

    plus ridge/2 ||x||^2.

    Attributes
    ----------
    features : (n, d) float64
    labels : (n,) float64
    ridge : float >= 0
    """

    features: np.ndarray
    labels: np.ndarray
    loss: Loss = "squared"
    ridge: float = 0.0

    @property
    def num_examples(self) -> int:
        """n, which is the client's weight where examples count."""
        return len(self.labels)

    def gradient(self, x: Any, rows: Any = slice(None)) -> np.ndarray:
        """Gradient of the loss at x (d,): (d,). ``rows``: the examples it is taken over, by their
        numbers; without it all."""
        x, a, b = np.asarray(x, dtype=float), self.features[rows], self.labels[rows]
        if x.shape != (dim := self.features.shape[1],):
            raise ValueError(f"gradient(x) was called with x of shape {x.shape}: it must have ({dim},), as the server's model")
        margin = a @ x
        slope = margin - b if self.loss == "squared" else -b / (1 + np.exp(np.clip(b * margin, -700, 700)))
        return a.T @ slope / len(b) + self.ridge * x

    def value(self, x: Any) -> float:
        """The loss at x (d,)."""
        x = np.asarray(x, dtype=float)
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged: the loss is inf
            margin = self.features @ x
            if self.loss == "squared":
                each = (margin - self.labels) ** 2 / 2
            else:
                each = np.logaddexp(0, -self.labels * margin)
            return float(each.mean() + self.ridge / 2 * x @ x)

    def curvature(self, x: np.ndarray) -> np.ndarray:
        """Hessian of the loss at x (d,): (d, d)."""
        weight = np.ones(self.num_examples)
        if self.loss == "logistic":
            share = 1 / (1 + np.exp(-self.features @ x))
            weight = share * (1 - share)
        gram = (self.features.T * weight) @ self.features / self.num_examples
        return gram + self.ridge * np.eye(len(gram))

    def copy(self) -> Client:
        """The same client with arrays of its own."""
        return Client(self.features.copy(), self.labels.copy(), self.loss, self.ridge)


@dataclass(frozen=True, eq=False)
class _Mistaken(Client):
    """A client whose gradient is that of another loss; ``how``: names of `LOSSES`."""

    how: frozenset[str] = frozenset()

    def gradient(self, x: Any, rows: Any = slice(None)) -> np.ndarray:
        x = np.asarray(x, dtype=float)
        squared = self.loss == "squared" or "squared-for-logistic" in self.how
        loss: Loss = "squared" if squared else "logistic"
        found = Client(self.features, self.labels, loss).gradient(x, rows)
        if squared and "squared-without-half" in self.how:
            found = 2 * found
        if "examples-summed" in self.how:
            found = len(self.labels[rows]) * found
        if "ridge-none" not in self.how:
            found = found + self.ridge * x
        return -found if "gradient-sign" in self.how else found


def mistaken(clients: tuple[Client, ...], wrong: Collection[str]) -> tuple[Client, ...]:
    """The clients as they are, or with the losses that these mistakes make of theirs."""
    how = frozenset(wrong) & frozenset(LOSSES)
    if not how:
        return clients
    return tuple(_Mistaken(c.features, c.labels, c.loss, c.ridge, how) for c in clients)


@dataclass(frozen=True)
class Task:
    """One run that is asked for.

    Attributes
    ----------
    clients : the N clients
    start : (d,) the first server model
    cohorts : for each round the numbers of the clients that take part, in the order in which they are handed over
    settings : name -> value, such as learning_rate, local_steps, mu
    state : name -> array, in place of the method's first state; for an adapter that makes a single round
    """

    clients: tuple[Client, ...]
    start: np.ndarray
    cohorts: tuple[tuple[int, ...], ...]
    settings: dict[str, Any]
    state: dict[str, np.ndarray] | None = None

    @property
    def rounds(self) -> int:
        return len(self.cohorts)

    def with_(self, **settings: Any) -> Task:
        """The same run with other settings."""
        return replace(self, settings={**self.settings, **settings})

    def permuted(self, order: Sequence[int]) -> Task:
        """The same run with clients numbered anew: new client i is old client order[i]."""
        new = {old: i for i, old in enumerate(order)}
        cohorts = tuple(tuple(new[k] for k in cohort) for cohort in self.cohorts)
        return replace(self, clients=tuple(self.clients[k] for k in order), cohorts=cohorts)
