"""The sums along a run of Algorithm 3, path by path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.theorems.fedelasticnet.exact import SPLIT
from fedtheory.theorems.fedelasticnet.pairs import crossed
from fedtheory.theorems.fedelasticnet.quantities import inner, sgn
from fedtheory.theorems.fedelasticnet.states import State

__all__ = ["Accumulator"]


class Accumulator:
    """Sums along the paths of a run that the theorem's sides need.

    Parameters
    ----------
    losses : FederatedLosses
    """

    def __init__(self, losses: Any, algorithm: FedElasticNetDyn, state: State, paired: bool = False) -> None:
        self.losses, self.algorithm = losses, algorithm
        paths, d = state.x.shape
        self.gamma_sum = np.zeros((paths, d))
        self.sums = {name: np.zeros(paths) for name in ("exact", "sign", "own_sign", "zeros")}
        self.split = dict.fromkeys(SPLIT, 0.0)
        self.products = {name: np.zeros(paths // 2) for name in SPLIT} if paired else {}

    def noted(self) -> dict[str, Any]:
        """All sums so far; `recall` takes them up again."""
        return {"gamma_sum": self.gamma_sum, "sums": self.sums, "split": self.split, "products": self.products}

    def recall(self, noted: Mapping[str, Any]) -> None:
        for name in self.noted():
            setattr(self, name, noted[name])

    def add(
        self,
        gamma: np.ndarray,
        theta: np.ndarray,
        stored: np.ndarray,
        y: np.ndarray,
        grad: np.ndarray,
        own: np.ndarray | None,
    ) -> None:
        """Add one round: gamma, theta (S, d); stored, y, grad (S, K, d) for the K clients averaged
        over; own, the minimiser anchored at theta_k."""
        self.gamma_sum = self.gamma_sum + gamma
        away = gamma - self.losses.theta_star
        delta, l1 = y - theta[:, None, :], self.algorithm.l1
        sign = l1 * sgn(delta)
        v = stored - grad
        exact = np.where(delta != 0, sign, np.clip(v, -l1, l1))
        self.sums["exact"] += inner(away, exact.mean(axis=1))
        self.sums["sign"] += inner(away, sign.mean(axis=1))
        self.sums["zeros"] += (delta == 0).sum(axis=-1).mean(axis=1)
        parts = [exact, sign]
        if own is not None:
            parts.append(l1 * sgn(own - theta[:, None, :]))
            self.sums["own_sign"] += inner(away, parts[-1].mean(axis=1))
        for name, part in zip(SPLIT, parts, strict=False):
            self.split[name] += float(inner(away.mean(axis=0), part.mean(axis=(0, 1))))
            if self.products:
                self.products[name] += crossed(away, part.mean(axis=1))

    def repeat(self, count: int) -> None:
        self.gamma_sum = np.repeat(self.gamma_sum, count, axis=0)
        self.sums = {k: np.repeat(v, count) for k, v in self.sums.items()}

    def excess(self, rounds: int) -> np.ndarray:
        return self.losses.excess(self.gamma_sum / rounds)
