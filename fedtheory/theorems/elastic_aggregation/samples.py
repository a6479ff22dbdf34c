"""Clients given by their samples, with labels, in fractions: from which of them a sensitivity is measured."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedtheory.authoring import Draws
from fedtheory.authoring.slots import SlotWork
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.problems.linear import LeastSquares
from fedtheory.theorems.elastic_aggregation import drawn, of_a_problem
from fedtheory.theorems.elastic_aggregation.clients import ModelClients, QuadraticLosses, elastic
from fedtheory.verification.rational import fraction, integer, table, text, vector

__all__ = ["Labels"]


@dataclass
class Labels(of_a_problem.ModelWorld):
    """Linear models F(theta; a) = a' theta, trained by E gradient steps on the mean of (a' theta - y)^2/2.

    Attributes
    ----------
    held, held_labels : inputs (n_k, d) of B_k, and labels (n_k,), one of each a client
    train, labels, others : inputs (m_k, d) of D_k, its labels (m_k,), and other labels (m_k,)
    counts : (N,) samples that weigh the clients
    theta : (d,) the server's model
    tau, eta, lr, E : tau, the server's and the clients' step, local steps
    """

    kind = "labels"
    family = "elastic aggregation, labels"
    share = 0.3  # its forms need few instances
    about = "about what its sensitivities are measured from"
    asks = (
        of_a_problem.MODEL,
        "least squares without a ridge",
        "one batch of held-out samples a client",
    )
    example = "--problem least-squares --ridge 0 --dimension 3 --clients 3 --held-out 0.3 --start 1"
    takes = ("local_steps", "local_lr")

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

    @cached_property
    def w(self) -> np.ndarray:
        return self.counts / self.counts.sum()

    def sensitivities(self, x: np.ndarray) -> np.ndarray:
        """Omega_k = |mean over B_k of the gradient of F(x; a)^2| (N, d), sample by sample, as Algorithm 1 has it."""
        return np.stack(
            [abs(sum(2 * (a @ x) * a for a in rows) / Fraction(len(rows))) for rows in self.held]
        )

    @property
    def gram(self) -> np.ndarray:
        """S_k = mean of a a' over B_k (N, d, d)."""
        return np.stack([a.T @ a / Fraction(len(a)) for a in self.held])

    def loss_gradients(self, x: np.ndarray) -> np.ndarray:
        """Of the mean of (a' x - y)^2 over B_k, which has labels (N, d)."""
        return np.stack(
            [
                2 * (a.T @ (a @ x - y)) / Fraction(len(a))
                for a, y in zip(self.held, self.held_labels, strict=True)
            ]
        )

    def after(self, labels: list[np.ndarray]) -> np.ndarray:
        """The server's model (d,) after a round in which the clients train on these labels."""
        H = np.stack([a.T @ a / Fraction(len(a)) for a in self.train])
        b = np.stack([a.T @ y / Fraction(len(a)) for a, y in zip(self.train, labels, strict=True)])
        everyone, method = np.arange(len(self.counts))[None], elastic(self.tau, self.eta)
        clients = ModelClients(
            QuadraticLosses(H, b), self.gram, self.counts, everyone, SlotWork(self.E, self.lr)
        )
        return method.round(method.init(self.theta[None], len(self.counts)), clients).x[0]

    def printed_constants(self) -> dict[str, Any]:
        return {"tau": text(self.tau), "theta": [text(v) for v in self.theta]}

    # --- instances --------------------------------------------------------------------------------
    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """From held, held_labels, train, labels, others (lists over the clients), counts, theta, tau, eta, lr, E."""
        theta, counts = vector(data["theta"], "theta"), vector(data["counts"], "counts")
        inputs = {
            n: [table(v, f"{n}[{k}]") for k, v in enumerate(data[n])] for n in ("held", "train")
        }
        labels = {
            n: [vector(v, f"{n}[{k}]") for k, v in enumerate(data[n])]
            for n in ("held_labels", "labels", "others")
        }
        if (
            any(len(v) != len(counts) for v in [*inputs.values(), *labels.values()])
            or counts.min() <= 0
        ):
            raise InvalidInput(
                "counts > 0, and held, held_labels, train, labels and others with one entry a client"
            )
        for of, names in (("held", ("held_labels",)), ("train", ("labels", "others"))):
            for k, rows in enumerate(inputs[of]):
                if rows.shape[1] != len(theta) or any(
                    len(labels[n][k]) != len(rows) for n in names
                ):
                    raise InvalidInput(
                        f"{of}[{k}]: rows of {len(theta)} numbers as theta has, and as many labels, are needed"
                    )
        tau, eta, lr = (fraction(data[k], k) for k in ("tau", "eta", "lr"))
        if tau < 0 or eta <= 0 or lr <= 0:
            raise InvalidInput(
                f"tau = {tau}, eta = {eta}, lr = {lr}: tau must be >= 0, eta and lr > 0"
            )
        return cls(
            **inputs,
            **labels,
            counts=counts,
            theta=theta,
            tau=tau,
            eta=eta,
            lr=lr,
            E=integer(data["E"], "E", 1, 20),
        )

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> dict[str, Any]:
        """Inputs and labels of B_k and D_k; the other labels are D_k's own with the opposite sign."""
        of_a_problem.check_everyone(case)
        data, problem = of_a_problem.sensitive(case), case.problem
        source, samples = of_a_problem.samples_of(problem)
        if (
            not isinstance(problem, LeastSquares)
            or not isinstance(source, LeastSquares)
            or problem.ridge
        ):
            raise MissingCapability(
                "the statement is about least squares without a ridge: use problems.LeastSquares, ridge=0"
            )
        sizes = [int(n) for n in problem.sample_counts]
        train = [of_a_problem.exact(a[:n]) for a, n in zip(problem.features, sizes, strict=True)]
        own = [of_a_problem.exact(b[:n]) for b, n in zip(problem.targets, sizes, strict=True)]
        lr, E = of_a_problem.local_work(case, float(problem.beta_k.max()))
        return {
            "held": samples,
            "train": train,
            "held_labels": [
                of_a_problem.exact(b[: len(a)])
                for a, b in zip(samples, source.targets, strict=True)
            ],
            "labels": own,
            "others": [-b for b in own],
            "lr": lr,
            "E": E,
            "eta": Fraction(float(case.algorithm.server_lr)),
            "counts": data["counts"],
            "theta": data["theta"],
            "tau": data["tau"],
        }


def _labels(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(1, 4)), int(rng.integers(1, 4))

    def inputs() -> list[Any]:
        return [
            [[drawn.signed(rng) for _ in range(d)] for _ in range(int(rng.integers(1, 4)))]
            for _ in range(n)
        ]

    def targets(rows: list[Any]) -> list[Any]:
        return [[drawn.signed(rng) for _ in r] for r in rows]

    held, train = inputs(), inputs()
    steepest = max(sum(v * v for v in a) for rows in train for a in rows) or Fraction(1)
    data = {
        "held": held,
        "held_labels": targets(held),
        "train": train,
        "labels": targets(train),
        "others": targets(train),
        "counts": [Fraction(len(rows)) for rows in train],
        "theta": [drawn.signed(rng) for _ in range(d)],
        "tau": drawn.tau(rng),
        "eta": Fraction(1, int(rng.integers(1, 3))),
        "lr": Fraction(1, 2) / steepest,
        "E": int(rng.integers(1, 4)),
    }
    return f"N={n} d={d}", data


Labels.draws = (Draws("elastic aggregation battery labels", _labels, 20),)
