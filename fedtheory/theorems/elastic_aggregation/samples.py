"""Clients given by labelled samples, some of which measure the sensitivities, in fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.problems.linear import LeastSquares
from fedtheory.rational import fraction, integer, table, text, vector
from fedtheory.theorems.elastic_aggregation import clients, drawn, of_a_problem
from fedtheory.theory import Draws
from fedtheory.theory.rounds.rational_clients import SlotWork

__all__ = ["Labels"]


@dataclass
class Labels(of_a_problem.ModelWorld):
    """Linear models F(theta; a) = a' theta, trained by E gradient steps.

    A client's loss is the mean of (a' theta - y)^2/2 over D_k.

    Attributes
    ----------
    held, held_labels : inputs (n_k, d) of B_k, and labels (n_k,), one of each a client
    train, labels, others : inputs (m_k, d) of D_k, its labels (m_k,), and other labels (m_k,)
    counts : (N,) samples that weigh the clients
    theta : (d,) the server's model
    tau, eta, lr, E : tau, the server's and the clients' step, local steps
    """

    kind, family = "labels", "elastic aggregation, labels"
    share = 0.3  # its forms need few instances
    about = "about what its sensitivities are measured from"
    asks = (of_a_problem.MODEL, "least squares without a ridge", of_a_problem.ONE_BATCH)
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
        """n_k/n (N,)."""
        return self.counts / self.counts.sum()

    def sensitivities(self, x: np.ndarray) -> np.ndarray:
        """Omega_k = |mean over B_k of the gradient of F(x; a)^2| (N, d), as in Algorithm 1."""
        return np.stack(
            [abs(sum(2 * (a @ x) * a for a in rows) / Fraction(len(rows))) for rows in self.held]
        )

    @property
    def gram(self) -> np.ndarray:
        """S_k = mean of a a' over B_k (N, d, d)."""
        return np.stack([of_a_problem.gram(a) for a in self.held])

    def loss_gradients(self, x: np.ndarray) -> np.ndarray:
        """The gradients (N, d) of the mean of (a' x - y)^2 over B_k, which has labels."""
        labelled = zip(self.held, self.held_labels, strict=True)
        return np.stack([2 * (a.T @ (a @ x - y)) / Fraction(len(a)) for a, y in labelled])

    def after(self, labels: list[np.ndarray]) -> np.ndarray:
        """The server's model (d,) after a round in which the clients train on these labels."""
        H = np.stack([of_a_problem.gram(a) for a in self.train])
        b = np.stack([a.T @ y / Fraction(len(a)) for a, y in zip(self.train, labels, strict=True)])
        everyone, method = np.arange(len(self.counts))[None], clients.elastic(self.tau, self.eta)
        losses, work = clients.QuadraticLosses(H, b), SlotWork(self.E, self.lr)
        them = clients.ModelClients(losses, self.gram, self.counts, everyone, work)
        return method.round(method.init(self.theta[None], len(self.counts)), them).x[0]

    def printed_constants(self) -> dict[str, Any]:
        """The constants that a reader is shown."""
        return {"tau": text(self.tau), "theta": [text(v) for v in self.theta]}

    # --- instances --------------------------------------------------------------------------------
    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance of the fields, the first five of which are lists over the clients."""

        def each(name: str, read: Any) -> list[np.ndarray]:
            return [read(v, f"{name}[{k}]") for k, v in enumerate(data[name])]

        theta, counts = vector(data["theta"], "theta"), vector(data["counts"], "counts")
        lists: Any = {name: each(name, table) for name in ("held", "train")}
        lists |= {name: each(name, vector) for name in ("held_labels", "labels", "others")}
        if any(len(v) != len(counts) for v in lists.values()) or counts.min() <= 0:
            raise InvalidInput(
                "counts > 0, and held, held_labels, train, labels and others with one entry "
                "a client"
            )
        for of, names in (("held", ("held_labels",)), ("train", ("labels", "others"))):
            for k, rows in enumerate(lists[of]):
                sizes = {len(lists[name][k]) for name in names}
                if rows.shape[1] != len(theta) or sizes != {len(rows)}:
                    raise InvalidInput(
                        f"{of}[{k}]: rows of {len(theta)} numbers as theta has, "
                        "and as many labels, are needed"
                    )
        tau, eta, lr = (fraction(data[k], k) for k in ("tau", "eta", "lr"))
        clients.check_steps(tau, eta, lr)
        E = integer(data["E"], "E", 1, 20)
        return cls(**lists, counts=counts, theta=theta, tau=tau, eta=eta, lr=lr, E=E)

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> dict[str, Any]:
        """Give inputs and labels of B_k and D_k, and as others D_k's own with the other sign."""
        of_a_problem.check_everyone(case)
        data, problem = of_a_problem.sensitive(case), case.problem
        source, samples = of_a_problem.samples_of(problem)
        squares = isinstance(problem, LeastSquares) and isinstance(source, LeastSquares)
        if not squares or problem.ridge:
            raise MissingCapability(
                "the statement is about least squares without a ridge: "
                "use problems.LeastSquares, ridge=0"
            )
        own = of_a_problem.exact_of_each(problem.targets, problem.sample_counts)
        lr, E = of_a_problem.local_work(case, float(problem.beta_k.max()))
        return {
            "held": samples,
            "train": of_a_problem.exact_of_each(problem.features, problem.sample_counts),
            "held_labels": of_a_problem.exact_of_each(source.targets, source.sample_counts),
            "labels": own, "others": [-b for b in own],
            "lr": lr, "E": E, "eta": Fraction(float(case.algorithm.server_lr)),
            **{name: data[name] for name in ("counts", "theta", "tau")},
        }


def _labels(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(1, 4)), int(rng.integers(1, 4))

    def inputs() -> list[Any]:
        return [drawn.rows(rng, int(rng.integers(1, 4)), d) for _ in range(n)]

    def targets(tables: list[Any]) -> list[Any]:
        return [[drawn.signed(rng) for _ in rows] for rows in tables]

    held, train = inputs(), inputs()
    steepest = max(sum(v * v for v in a) for rows in train for a in rows) or Fraction(1)
    data = {
        "held": held, "held_labels": targets(held),
        "train": train, "labels": targets(train), "others": targets(train),
        "counts": [Fraction(len(rows)) for rows in train],
        "theta": [drawn.signed(rng) for _ in range(d)], "tau": drawn.tau(rng),
        "eta": Fraction(1, int(rng.integers(1, 3))), "lr": Fraction(1, 2) / steepest,
        "E": int(rng.integers(1, 4)),
    }
    return f"N={n} d={d}", data


Labels.draws = (Draws("elastic aggregation battery labels", _labels, 20),)
