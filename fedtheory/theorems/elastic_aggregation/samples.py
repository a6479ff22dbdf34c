"""Clients given by labelled samples, some of which measure the sensitivities, in fractions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.problems.linear import LeastSquares
from fedtheory.rational import table, vector
from fedtheory.theorems.elastic_aggregation import clients, drawn, of_a_problem
from fedtheory.theory import Draws, derived
from fedtheory.theory.fields import Read
from fedtheory.theory.rounds.rational_clients import SlotWork


def of_each(what: str, inputs: str = "") -> dict[str, Read]:
    """Declare inputs (n_k, d) of every client, or labels (n_k,) of those inputs."""

    def take(name: str, values: Any, before: Mapping[str, Any]) -> list[np.ndarray]:
        if not isinstance(values, list) or len(values) != len(before["counts"]):
            raise InvalidInput(f"{name} ({what}): expected one entry a client, as counts has")
        found = [(vector if inputs else table)(v, f"{name}[{k}]") for k, v in enumerate(values)]
        for k, rows in enumerate(found):
            if inputs and len(rows) != len(before[inputs][k]):
                raise InvalidInput(f"{name}[{k}]: as many labels as {inputs}[{k}] has rows")
            if not inputs and rows.shape[1] != len(before["theta"]):
                raise InvalidInput(f"{name}[{k}]: rows as long as theta are needed")
        return found

    return {"read": Read(take, what)}


@dataclass(kw_only=True)
class Labels(clients.ElasticWorld):
    """Linear models F(theta; a) = a' theta, trained by E gradient steps.

    A client's loss is the mean of (a' theta - y)^2/2 over D_k.
    """

    kind, family = "labels", "elastic aggregation, labels"
    share = 0.3  # its forms need few instances
    about = "about what its sensitivities are measured from"
    asks = (of_a_problem.MODEL, "least squares without a ridge", of_a_problem.ONE_BATCH)
    example = "--problem least-squares --ridge 0 --dimension 3 --clients 3 --held-out 0.3 --start 1"
    shows: ClassVar = {"tau": "tau", "theta": "theta"}

    held: list[np.ndarray] = field(metadata=of_each("inputs of B_k"))
    held_labels: list[np.ndarray] = field(metadata=of_each("labels of B_k", "held"))
    train: list[np.ndarray] = field(metadata=of_each("inputs of D_k"))
    labels: list[np.ndarray] = field(metadata=of_each("labels of D_k", "train"))
    others: list[np.ndarray] = field(metadata=of_each("other labels of D_k", "train"))

    def sensitivities(self, x: np.ndarray) -> np.ndarray:
        """Omega_k = |mean over B_k of the gradient of F(x; a)^2| (N, d), as in Algorithm 1."""
        return np.stack(
            [abs(sum(2 * (a @ x) * a for a in rows) / Fraction(len(rows))) for rows in self.held]
        )

    gram = derived(
        lambda q: np.stack([of_a_problem.gram(a) for a in q.held]),
        "S_k = mean of a a' over B_k (N, d, d)",
    )

    def loss_gradients(self, x: np.ndarray) -> np.ndarray:
        """The gradients (N, d) of the mean of (a' x - y)^2 over B_k, which has labels."""
        labelled = zip(self.held, self.held_labels, strict=True)
        return np.stack([2 * (a.T @ (a @ x - y)) / Fraction(len(a)) for a, y in labelled])

    def after(self, labels: list[np.ndarray]) -> np.ndarray:
        """The server's model (d,) after a round in which the clients train on these labels."""
        H = np.stack([of_a_problem.gram(a) for a in self.train])
        b = np.stack([a.T @ y / Fraction(len(a)) for a, y in zip(self.train, labels, strict=True)])
        method = clients.elastic(self.tau, self.eta)
        losses, work = clients.QuadraticLosses(H, b), SlotWork(self.E, self.lr)
        them = clients.ModelClients(losses, self.gram, self.counts, self.everyone, work)
        return method.round(method.init(self.theta[None], len(self.counts)), them).x[0]

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
        return {
            "held": samples,
            "train": of_a_problem.exact_of_each(problem.features, problem.sample_counts),
            "held_labels": of_a_problem.exact_of_each(source.targets, source.sample_counts),
            "labels": own, "others": [-b for b in own],
            **of_a_problem.steps(case),
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
