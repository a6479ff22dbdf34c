"""One round of a plain reference: local work, the server's mean, and the clients' memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.testing.audit.clients import Client

__all__ = ["Round", "State"]

State = dict[str, np.ndarray]
NEWTON, PROXIMAL = 60, 3000  # steps at most of an exact local minimisation
# What the gradient of mu/2 ||y - x||^2 becomes by a mistake, of itself, y - x, y and x.
Penalty = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]
PENALTIES: dict[str, Penalty] = {
    "penalty-half": lambda slope, move, y, x, mu: slope / 2,
    "penalty-double": lambda slope, move, y, x, mu: slope * 2,
    "penalty-sign": lambda slope, move, y, x, mu: -slope,
    "penalty-norm": lambda slope, move, y, x, mu: mu / 2 * move / (np.linalg.norm(move) or 1.0),
    "penalty-norm-by-array": lambda slope, move, y, x, mu: np.concatenate(
        [mu / 2 * h / (np.linalg.norm(h) or 1.0) for h in np.split(move, [(len(move) + 1) // 2])]
    ),
    "penalty-of-model": lambda slope, move, y, x, mu: mu * y,
    "penalty-overwritten": lambda slope, move, y, x, mu: -mu * x,
}


@dataclass
class Round:
    """A round that is asked of a reference, and the parts that methods make of it.

    Attributes
    ----------
    state : the arrays before the round; ``x`` is another one once clients work on the server's own
    cohort : the numbers of the clients that take part
    wrong : callable(name), whether the mistake of that name is to be made
    """

    state: State
    clients: Sequence[Client]
    cohort: Sequence[int]
    settings: Mapping[str, Any]
    wrong: Callable[[str], bool]

    @property
    def x(self) -> np.ndarray:
        """The server's model (d,)."""
        return self.state["x"]

    def own(self, name: str) -> np.ndarray:
        """What the cohort's clients keep under a name (P, d)."""
        return self.state[name][list(self.cohort)]

    def put(self, name: str, rows: np.ndarray) -> np.ndarray:
        """What all clients keep (N, d), with the cohort's new rows."""
        new = self.state[name].copy()
        new[list(self.cohort)] = rows
        return new

    def sizes(self) -> np.ndarray:
        """The numbers of examples of all clients (N,)."""
        return np.array([c.num_examples for c in self.clients], dtype=float)

    def steps_of(self, k: int) -> int:
        """The local steps of a client."""
        steps = self.settings["local_steps"]
        return int(steps) if np.ndim(steps) == 0 else int(steps[k])

    # --- the clients ------------------------------------------------------------------------------
    def work(self, linear: Any = 0.0, **settings: Any) -> np.ndarray:
        """The cohort's local models (P, d) for f_k(y) + <linear, y> + penalty, linear (P, d)."""
        here = {**self.settings, **settings}
        linear = np.broadcast_to(linear, (len(self.cohort), len(self.x)))
        models: list[np.ndarray] = []
        for k, own in zip(self.cohort, linear, strict=True):
            models.append(self._local(k, own, here, models[-1] if models else None))
        if self.wrong("model-shared"):
            self.state["x"] = models[-1]
            return np.array(models[-1:] * len(models))
        return np.array(models)

    def _local(
        self, k: int, linear: np.ndarray, settings: Mapping[str, Any], chained: np.ndarray | None
    ) -> np.ndarray:
        """The local model of client k; ``chained``: where the client before it stopped."""
        wrong, client = self.wrong, self.clients[k]
        center = self.state["y"][k] if wrong("penalty-own-center") else self.x
        y = self.state["y"][k] if wrong("start-stale") else self.x
        if (wrong("clients-chained") or wrong("model-shared")) and chained is not None:
            y = chained
        if settings.get("local", "steps") == "exact":
            return self._minimise(client, center, linear, settings)
        steps = self.steps_of(k) + wrong("steps-one-more") - wrong("steps-one-less")
        steps = 1 if wrong("steps-one") else 0 if wrong("steps-none") else steps
        first, last = client.gradient(y), y
        for step in range(steps):
            slope = first if wrong("gradient-stale") else client.gradient(y)
            penalty = self._penalty(last if wrong("penalty-late") else y, center, settings)
            if wrong("penalty-last-only") and step < steps - 1:
                penalty = 0 * penalty
            slope = (0 * slope if wrong("loss-lost") else slope) * settings.get("of_gradient", 1.0)
            last, y = y, y - settings["learning_rate"] * (slope + penalty + linear)
        return y

    def _penalty(
        self, y: np.ndarray, center: np.ndarray, settings: Mapping[str, Any]
    ) -> np.ndarray:
        """Gradient at y of mu/2 ||y - center||^2 + l1 ||y - center||_1, sign(0) = 0."""
        mu, l1, wrong = settings.get("mu", 0.0), settings.get("l1", 0.0), self.wrong
        # where the model is shared, y is x itself, and y - x is 0
        none = wrong("penalty-none") or wrong("local-plain") or wrong("model-shared")
        if none or not (mu or l1):
            return np.zeros_like(y)
        move = y - center
        slope = mu * move / (settings["learning_rate"] if wrong("penalty-without-rate") else 1.0)
        for name, made in PENALTIES.items():
            slope = made(slope, move, y, center, mu) if wrong(name) else slope
        if wrong("l1-none"):
            return slope
        sign = np.sign(y if wrong("l1-of-model") else move)
        return slope + (-l1 if wrong("l1-sign") else l1) * sign

    def _minimise(
        self, client: Client, center: np.ndarray, linear: np.ndarray, settings: Mapping[str, Any]
    ) -> np.ndarray:
        """The minimiser of the local objective, from the centre."""
        wrong = self.wrong
        plain = wrong("penalty-none") or wrong("local-plain")
        mu = 0.0 if plain else settings.get("mu", 0.0)
        mu *= 0.5 if wrong("penalty-half") else 2.0 if wrong("penalty-double") else 1.0
        l1 = 0.0 if plain or wrong("l1-none") else settings.get("l1", 0.0)
        y, anchor = center.copy(), 0 * center if wrong("penalty-of-model") else center

        def slope(y: np.ndarray) -> np.ndarray:
            return client.gradient(y) + mu * (y - anchor) + linear

        if l1:
            kink = 0 * center if wrong("l1-of-model") else center
            return _proximal_steps(client, slope, y, l1, mu, kink)
        for _ in range(NEWTON):
            hessian = client.curvature(y) + mu * np.eye(len(y))
            step = np.linalg.lstsq(hessian, slope(y), rcond=None)[0]
            y = y - step
            if np.abs(step).max() <= 1e-14 * (1 + np.abs(y).max()):
                break
        return y

    # --- the server -------------------------------------------------------------------------------
    def mean(self, values: np.ndarray, weighting: str = "uniform") -> np.ndarray:
        """The server's mean of what the cohort sends: (P, d) -> (d,).

        'all-examples' is n_k/n with the n of all clients.
        """
        weighting, wrong = self.settings.get("weighting", weighting), self.wrong
        if wrong("other-weights"):
            weighting = "examples" if weighting == "uniform" else "uniform"
        if wrong("last-client") or wrong("first-client"):
            return values[-1 if wrong("last-client") else 0]
        every = np.ones(len(self.clients)) if weighting == "uniform" else self.sizes()
        sizes = every[list(self.cohort)]
        total = (every if weighting == "all-examples" or wrong("divide-by-all") else sizes).sum()
        if wrong("sum-not-mean"):
            total, sizes = 1.0, np.ones(len(self.cohort))
        return (sizes[:, None] * values).sum(axis=0) / total

    def update(self, moves: np.ndarray, weighting: str = "uniform") -> np.ndarray:
        """The mean of the moves (P, d), as the server's step goes along it: (d,)."""
        step = self.mean(moves, weighting)
        step = step + self.x if self.wrong("model-added") else step
        return -step if self.wrong("server-sign") else step

    @property
    def server_lr(self) -> float:
        """The server's step size."""
        rate = 1.0 if self.wrong("server-lr-ignored") else self.settings.get("server_lr", 1.0)
        return rate**2 if self.wrong("server-lr-squared") else rate


def _proximal_steps(
    client: Client, slope: Callable[[np.ndarray], np.ndarray], y: np.ndarray, l1: float, mu: float,
    anchor: np.ndarray,
) -> np.ndarray:
    """Proximal gradient steps to the end.

    Coordinates that stay at the anchor are exactly there.
    """
    gram = client.features.T @ client.features / client.num_examples
    smooth = np.linalg.eigvalsh(gram)[-1] + client.ridge + mu
    for _ in range(PROXIMAL):
        moved = y - slope(y) / smooth - anchor
        new = anchor + np.sign(moved) * np.maximum(np.abs(moved) - l1 / smooth, 0)
        far = np.abs(new - y).max()
        y = new
        if far <= 1e-15 * (1 + np.abs(y).max()):
            break
    return y
