"""An instance that needs several clients and many subgradients: a maximum split over clients beside
an Arjevani-Shamir chain."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from fedtheory.arrays import Array, namespace, to_numpy
from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_array_size, real_number
from fedtheory.optimum.duality import NonsmoothStructure
from fedtheory.optimum.intervals import Enclosure
from fedtheory.problems.nonsmooth_instances import TINY, ArjevaniShamir, _Chained, _count

__all__ = ["MaximumAndChain"]

HALF = 1 / math.sqrt(2)  # of each part, so that the squares add up to 1


class MaximumAndChain(_Chained):
    """f_i(y, v) = p max(max_{j in S_i} y_j, -c) + p chain_i(v), p = 1/sqrt(2), c = 1/sqrt(n):
    x = (y, v), d = n + k + 2.

    S_1, ..., S_N are the shares of the n = N m coordinates of y, one after the other; chain_i is
    the client's loss in `ArjevaniShamir` with k links; the first index at a tie, coordinates before
    the constant, sign(0) = 0. F* = -p/sqrt(n), at y = -c (1, ..., 1), of norm 1, and the chain's
    minimiser, of norm 1.

    Parameters
    ----------
    share : int >= 1                     m
    links : int >= 2, even               k
    num_clients : int >= 2, even         N

    Raises
    ------
    InvalidInput
        Numbers that are no such integers.

    Notes
    -----
    What is not done in few rounds from x_0 = 0, the iterates in the span of x_0, of what was
    received and of own subgradients:

    - By one subgradient of each client a round, whatever the steps: m rounds. A subgradient of
      client i moves one new coordinate of S_i, and none of another share. Before round m every
      share has a zero, so that F >= 0 and F - F* >= p/sqrt(n).
    - By one client alone, with any number of local steps: F - F* >= (1 - 1/N) p/sqrt(n), as the
      other shares stay 0.
    - By any local work, exact local solutions too: `ArjevaniShamir.least_after` times p, in
      d' = k + 2 rounds.

    G_i = sqrt(p^2 + p^2 G^2) with the chain's G, exact on every ball about 0.
    """

    name = "maximum and chain"
    client_data: ClassVar[tuple[str, ...]] = ("shares", "heads", "links")

    def __init__(self, share: int, links: int, num_clients: int = 2) -> None:
        _count(1, share=share)
        chain = ArjevaniShamir(links, num_clients)
        self.share, self.length = int(share), chain.length
        self.count = chain.num_clients * self.share
        self._one_loss_each(chain.num_clients, self.count + chain.dim)
        check_array_size(f"share = {share} of {num_clients} clients", self.num_clients, self.dim)
        self.floor, self.target = 1 / math.sqrt(self.count), chain.target
        self.shares = np.repeat(np.eye(self.num_clients, dtype=bool), self.share, axis=1)
        self.heads, self.links = HALF * chain.heads, HALF * chain.links

    @classmethod
    def for_epsilon(cls, epsilon: float, num_clients: int = 2) -> MaximumAndChain:
        """The largest share with p/sqrt(N m) > epsilon, and the longest chain with p/(2 sqrt(2) (k + 2)) > epsilon.

        m is about 1/(2 N epsilon^2) and k + 2 about 1/(4 epsilon).
        """
        epsilon, N = real_number("epsilon", epsilon, above=0), num_clients
        _count(2, num_clients=N)
        small = max(epsilon, TINY)
        share, length = (math.ceil(v) - 1 for v in (1 / (2 * N * small**2), 1 / (4 * small)))
        length -= length % 2
        if share < 1 or length < 4:
            raise InvalidInput(f"epsilon is {epsilon!r}: with {N} clients it must lie below {min(1 / 16, 1 / math.sqrt(2 * N)):.6g}")
        check_array_size(f"epsilon = {epsilon:g}", N, N * share + length, remedy="raise epsilon")
        return cls(share, length - 2, N)

    @property
    def least_value(self) -> float:
        """F* = -p/sqrt(n)."""
        return -HALF * self.floor

    @property
    def minimiser(self) -> np.ndarray:
        """The one nearest 0, of norm sqrt(2)."""
        return np.append(np.full(self.count, -self.floor), np.full(self.dim - self.count, self.target))

    def _top(self, y: Array) -> Array:
        """(N, B, n) y on the client's own share, minus infinity elsewhere."""
        xp = namespace(y)
        own = xp.broadcast_to(self.shares[:, None, :], y[..., : self.count].shape)
        return xp.where(own, y[..., : self.count], xp.full_like(y[..., : self.count], -math.inf))

    def client_value(self, y: Array) -> Array:
        xp = namespace(y)
        top = xp.max(self._top(y), axis=-1)
        peak = HALF * xp.where(top > -self.floor, top, xp.full_like(top, -self.floor))
        return peak + self._chain_value(y[..., self.count :])

    def client_gradient(self, y: Array) -> Array:
        xp = namespace(y)
        top = self._top(y)
        first = xp.argmax(top, axis=-1)
        every = xp.arange(self.count, dtype=first.dtype, device=getattr(first, "device", None))
        above = xp.max(top, axis=-1, keepdims=True) >= -self.floor
        largest = HALF * xp.astype((every == first[..., None]) & above, y.dtype)
        return xp.concat([largest, self._chain_gradient(y[..., self.count :])], axis=-1)

    def _client_lipschitz(self, client: int, radius: float) -> tuple[float, bool]:
        # near 0 all links and the head can pull at once, and the largest coordinate is above -c
        heads, links = to_numpy(self.heads)[client], to_numpy(self.links)[client]
        return math.sqrt(HALF**2 + float(heads) ** 2 + 2 * float((links**2).sum())), True

    def nonsmooth_structure(self) -> NonsmoothStructure:
        shares, (along, offsets, weight) = to_numpy(self.shares), self._chain_kinks()
        rows = np.pad(along, ((0, 0), (self.count, 0)))
        slopes = np.zeros((len(shares), self.share + 1, self.dim))
        for group, own in zip(slopes, shares, strict=True):
            group[np.arange(self.share), np.flatnonzero(own)] = 1.0
        intercepts = np.zeros((len(shares), self.share + 1))
        intercepts[:, -1] = -self.floor
        return NonsmoothStructure(
            self.dim, rows=rows, offsets=offsets, low=-weight, high=weight, slopes=slopes,
            intercepts=intercepts, group_weights=Enclosure.exact(self.weights) * HALF,
        )

    def cvxpy_objective(self, variable: Any) -> Any:
        import cvxpy as cp

        tops = [cp.maximum(cp.max(variable[np.flatnonzero(own)]), -self.floor) for own in to_numpy(self.shares)]
        peaks = sum(HALF * w * t for w, t in zip(self.weights, tops, strict=True))
        return self._chain_expression(variable[self.count :]) + peaks
