"""The sums along a run of Algorithm 3, path by path, in floats or in fractions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.pairs import crossed
from fedtheory.theorems.fedelasticnet.quantities import inner, sgn

__all__ = ["SPLIT", "Accumulator", "over_paths"]

SPLIT = ("split", "split_sign", "split_own_sign")  # of `RunView`: the expectation taken of the sign only
NAMES = ("exact", "sign", "own_sign")


def over_paths(values: Any) -> Any:
    """The mean over equally likely paths: the first axis."""
    return values.sum(axis=0) / (Fraction(len(values)) if values.dtype == object else len(values))


class Accumulator:
    """Sums along the paths of a run that the theorem's sides need.

    Parameters
    ----------
    losses : the `Losses` of a view
    theta : (S, d), the models of the S paths at the start
    mean : callable((S, K, d)) -> (S, d), over the clients that `add` is given; default all alike
    paired : whether the scenarios are paired, two by two
    """

    def __init__(
        self,
        losses: Any,
        l1: Any,
        theta: Any,
        mean: Callable[[Any], Any] = lambda values: values.mean(axis=1),
        paired: bool = False,
    ) -> None:
        self.losses, self.l1, self.mean = losses, l1, mean
        self.gamma_sum = 0 * theta
        self.sums = {name: 0 * theta[:, 0] for name in (*NAMES, "zeros")}
        self.split: dict[str, Any] = dict.fromkeys(SPLIT, 0.0 if theta.dtype == float else Fraction(0))
        self.products = {name: np.zeros(len(theta) // 2) for name in SPLIT} if paired else {}

    def noted(self) -> dict[str, Any]:
        """All sums so far; `recall` takes them up again."""
        names = ("gamma_sum", "sums", "split", "products")
        return {name: getattr(self, name) for name in names}

    def recall(self, noted: Mapping[str, Any]) -> None:
        for name in self.noted():
            setattr(self, name, noted[name])

    def add(self, gamma: Any, theta: Any, stored: Any, y: Any, grad: Any, own: Any = None) -> None:
        """Add one round: gamma, theta (S, d); stored, y, grad (S, K, d) for the K clients averaged
        over; own, the minimiser anchored at theta_k."""
        delta, v = y - theta[:, None, :], stored - grad
        sign = self.l1 * sgn(delta)
        exact = np.where(delta != 0, sign, np.minimum(np.maximum(v, -self.l1), self.l1))
        parts = [exact, sign] + ([] if own is None else [self.l1 * sgn(own - theta[:, None, :])])
        zeros = self.mean(np.asarray(delta == 0).astype(int)).sum(axis=-1)
        self.add_means(gamma, [self.mean(part) for part in parts], zeros)

    def add_means(self, gamma: Any, parts: Sequence[Any], zeros: Any) -> None:
        """Add one round by what is summed of it, in the order of `NAMES`, and its zeros."""
        self.gamma_sum = self.gamma_sum + gamma
        self.sums["zeros"] = self.sums["zeros"] + zeros
        away = gamma - self.losses.theta_star
        for name, split, part in zip(NAMES, SPLIT, parts, strict=False):
            self.sums[name] = self.sums[name] + inner(away, part)
            value = inner(over_paths(away), over_paths(part))
            self.split[split] += value if isinstance(value, Fraction) else float(value)
            if self.products:
                self.products[split] += crossed(away, part)

    def repeat(self, count: int) -> None:
        """Let every path go on as so many."""
        self.gamma_sum = np.repeat(self.gamma_sum, count, axis=0)
        self.sums = {k: np.repeat(v, count) for k, v in self.sums.items()}

    def excess(self, rounds: Any) -> Any:
        """R at the mean of gamma, less its least value, of every path."""
        return self.losses.excess(self.gamma_sum / rounds)

    def row(self, rounds: Any, expect: Callable[[Any], Any] = over_paths) -> dict[str, Any]:
        """The fields of a `RunView` that are known after so many rounds, each of its horizon."""
        return {
            "excess": expect(self.excess(rounds)),
            **{f"inner_{name}": expect(self.sums[name]) for name in NAMES},
            **{f"inner_{name}": value for name, value in self.split.items()},
            "zeros": expect(self.sums["zeros"]) / rounds,
        }
