"""Instances that decide rates: Nesterov's worst function, the two-client pull and the Arjevani-Shamir chain."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from fedtheory.arrays import Array, namespace, to_numpy
from fedtheory.errors import InvalidInput
from fedtheory.inputs import LARGEST, check_array_size, real_number, whole_number
from fedtheory.optimum.duality import NonsmoothStructure
from fedtheory.optimum.intervals import Enclosure
from fedtheory.problems.nonsmooth import _Nonsmooth

__all__ = ["ArjevaniShamir", "NesterovWorst", "TwoClientPull"]

TINY = 1e-100  # epsilons below count as this: the dimension is far beyond any memory either way


def _positive(**numbers: Any) -> None:
    for name, value in numbers.items():
        real_number(name, value, above=0)
        real_number(name, value, most=LARGEST)


def _count(least: int, **counts: Any) -> None:
    for name, value in counts.items():
        whole_number(name, value, least)


class TwoClientPull(_Nonsmooth):
    """f_1 = M x_1 + s|x_2 - c|, f_2 = -M x_1 + 2 s_1|x_1 - c_1| + s|x_2 - c|; d = 2, N = 2,
    sign(0) = 0.

    The linear pulls cancel in F = s_1|x_1 - c_1| + s|x_2 - c|, so F* = 0 at (c_1, c), while each
    client alone runs away along x_1.

    Parameters
    ----------
    epsilon : float > 0
        The accuracy the instance is made for.
    pull : float > 0                     M
    slope : float > 0                    s_1, 1/sqrt(2) when None
    first, second : float > 0            c_1, c
    shallow : float > 0                  s, 2 epsilon when None

    Raises
    ------
    InvalidInput
        A parameter that is not a finite number > 0.

    Notes
    -----
    G_1 = sqrt(M^2 + s^2), G_2 = sqrt((M + 2 s_1)^2 + s^2), exact on every ball about 0: points with
    x_1 < c_1, x_2 < c are in all.
    """

    name = "two-client pull"
    client_data: ClassVar[tuple[str, ...]] = ("pulls", "slopes")

    def __init__(
        self, epsilon: float, pull: float = 1.0, slope: float | None = None, first: float = 0.5,
        second: float = 1.0, shallow: float | None = None,
    ) -> None:
        _positive(epsilon=epsilon)
        self.epsilon = float(epsilon)
        slope = 1 / math.sqrt(2) if slope is None else slope
        shallow = 2 * self.epsilon if shallow is None else shallow
        _positive(pull=pull, slope=slope, first=first, second=second, shallow=shallow)
        self.pull, self.slope, self.shallow = float(pull), float(slope), float(shallow)
        self.first, self.second = float(first), float(second)
        self.pulls = np.array([self.pull, -self.pull])
        self.slopes = np.array([0.0, 2 * self.slope])
        self._one_loss_each(2, 2)

    @property
    def minimiser(self) -> np.ndarray:
        """(c_1, c), where F = 0 (when the ball holds it)."""
        return np.array([self.first, self.second])

    def client_value(self, y: Array) -> Array:
        xp = namespace(y)
        along, across = y[..., 0], y[..., 1]
        kink = self.slopes[:, None] * xp.abs(along - self.first)
        return self.pulls[:, None] * along + kink + self.shallow * xp.abs(across - self.second)

    def client_gradient(self, y: Array) -> Array:
        xp = namespace(y)
        along = self.pulls[:, None] + self.slopes[:, None] * xp.sign(y[..., 0] - self.first)
        return xp.stack([along, self.shallow * xp.sign(y[..., 1] - self.second)], axis=-1)

    def _client_lipschitz(self, client: int, radius: float) -> tuple[float, bool]:
        steepest = abs(float(self.pulls[client]) - float(self.slopes[client]))  # left of c_1, where the ball always is
        return math.hypot(steepest, self.shallow), True

    def nonsmooth_structure(self) -> NonsmoothStructure:
        w = self.weights
        weights = Enclosure.exact(np.append(w * self.slopes, w * self.shallow))  # halves, or one client's own: exact
        n = self.num_clients
        rows = np.array([[1.0, 0.0]] * n + [[0.0, 1.0]] * n)
        offsets = np.array([self.first] * n + [self.second] * n)
        alone = None if n == 2 else Enclosure.exact(np.array([float(w @ self.pulls), 0.0]))  # M x_1/2 - M x_1/2 = 0
        return NonsmoothStructure(2, rows=rows, offsets=offsets, low=-weights, high=weights, linear=alone)

    def cvxpy_objective(self, variable: Any) -> Any:
        import cvxpy as cp

        return self.slope * cp.abs(variable[0] - self.first) + self.shallow * cp.abs(variable[1] - self.second)


class NesterovWorst(_Nonsmooth):
    """F = max_j x_j + (mu/2)||x||^2 at every client, with the first index where the largest
    coordinate is not unique.

    From x_0 = 0 a method whose iterates stay in the span of the subgradients returned, one a round,
    finds a new coordinate only each round: before round n, max_j x_j >= 0 and F >= 0, while
    F* = -1/(2 mu n) (R >= 1/(mu sqrt(n))). Nesterov, "Introductory lectures on convex
    optimization", section 3.2.1.

    Parameters
    ----------
    n : int >= 1
        The dimension.
    mu : float >= 0
        1/sqrt(n) when None, so that ||x*|| = 1.
    num_clients : int >= 1

    Raises
    ------
    InvalidInput
        n or num_clients is not an integer >= 1, mu is negative.

    Notes
    -----
    G_k = 1 + mu R, attained at x = R e_1 (infinite on an infinite ball unless mu = 0).
    """

    name = "Nesterov's worst function"

    def __init__(self, n: int, mu: float | None = None, num_clients: int = 1) -> None:
        _count(1, n=n, num_clients=num_clients)
        mu = 1 / math.sqrt(n) if mu is None else mu
        real_number("mu", mu, least=0, most=LARGEST)
        check_array_size(f"n = {n}", int(n))
        self.mu = float(mu)
        self._one_loss_each(int(num_clients), int(n))

    @classmethod
    def for_epsilon(cls, epsilon: float, num_clients: int = 1) -> NesterovWorst:
        """n = ceil(1/(4 epsilon^2)) - 1, whose n rounds are not enough for F(x) - F* <= epsilon."""
        epsilon = real_number("epsilon", epsilon, above=0)
        n = math.ceil(1 / (4 * max(epsilon, TINY) ** 2)) - 1
        if n < 1:
            raise InvalidInput(f"epsilon is {epsilon!r}: the instance needs epsilon < 1/2, so that n >= 1")
        check_array_size(f"epsilon = {epsilon:g}", n, remedy="raise epsilon")
        return cls(n, num_clients=num_clients)

    def least_value(self, radius: float) -> float:
        """min F on the ball, in closed form: -r/sqrt(n) + mu r^2/2, r = min(R, 1/(mu sqrt(n)))."""
        root = math.sqrt(self.dim)
        r = min(radius, 1 / (self.mu * root)) if self.mu else radius
        return -r / root + self.mu * r * r / 2

    def client_value(self, y: Array) -> Array:
        xp = namespace(y)
        return xp.max(y, axis=-1) + self.mu / 2 * xp.sum(y * y, axis=-1)

    def client_gradient(self, y: Array) -> Array:
        xp = namespace(y)
        first = xp.argmax(y, axis=-1)
        every = xp.arange(self.dim, dtype=first.dtype, device=getattr(first, "device", None))
        return xp.astype(every == first[..., None], y.dtype) + self.mu * y

    def strong_convexity(self) -> np.ndarray:
        return np.full(self.num_clients, self.mu)

    def _client_lipschitz(self, client: int, radius: float) -> tuple[float, bool]:
        return 1.0 + (self.mu * radius if self.mu else 0.0), True

    def nonsmooth_structure(self) -> NonsmoothStructure:
        total = Enclosure.exact(self.weights).sum()
        return NonsmoothStructure(self.dim, top_weight=total, ridge=total * self.mu)

    def cvxpy_objective(self, variable: Any) -> Any:
        import cvxpy as cp

        return cp.max(variable) + self.mu / 2 * cp.sum_squares(variable)


class _Chained(_Nonsmooth):
    """Problems with the losses head_k |v_1 - target| + sum_j link_kj |v_j - v_{j+1}|, v a part of x."""

    heads: np.ndarray  # (N,)
    links: np.ndarray  # (N, d' - 1), for v (N, B, d')
    target: float

    def _chain_value(self, v: Array) -> Array:
        xp = namespace(v)
        steps = xp.abs(v[..., :-1] - v[..., 1:])
        head = self.heads[:, None] * xp.abs(v[..., 0] - self.target)
        return head + xp.sum(steps * self.links[:, None, :], axis=-1)

    def _chain_gradient(self, v: Array) -> Array:
        xp = namespace(v)
        pulls = xp.sign(v[..., :-1] - v[..., 1:]) * self.links[:, None, :]
        head = (self.heads[:, None] * xp.sign(v[..., 0] - self.target))[..., None]
        return xp.concat([head, -pulls], axis=-1) + xp.concat([pulls, xp.zeros_like(head)], axis=-1)

    def _chain_kinks(self) -> tuple[np.ndarray, np.ndarray, Enclosure]:
        """Rows (d', d') and offsets of F's kinks in v, and their weights."""
        length = self.links.shape[1] + 1
        rows = np.vstack([np.eye(length)[:1], np.eye(length)[:-1] - np.eye(length)[1:]])
        both = Enclosure.exact(np.column_stack([to_numpy(self.heads), to_numpy(self.links)]))
        offsets = np.append(self.target, np.zeros(length - 1))
        return rows, offsets, (both * self.weights[:, None]).sum()

    def _chain_expression(self, v: Any) -> Any:
        """Its part of `cvxpy_objective`."""
        import cvxpy as cp

        head, links = float(self.weights @ self.heads), self.weights @ self.links
        return head * cp.abs(v[0] - self.target) + links @ cp.abs(v[:-1] - v[1:])


class ArjevaniShamir(_Chained):
    """The chain that no method can solve in few rounds: d = k + 2, links |x_j - x_{j+1}| held
    alternately by two kinds of clients.

        f_odd  = (1/sqrt(2)) |b - x_1| + a (|x_2 - x_3| + |x_4 - x_5| + ... + |x_k - x_{k+1}|)
        f_even = a (|x_1 - x_2| + |x_3 - x_4| + ... + |x_{k+1} - x_{k+2}|),        a = 1/sqrt(2 (k + 2)),  b = 1/sqrt(k + 2)

    Clients 0, 2, ... hold f_odd, clients 1, 3, ... hold f_even; sign(0) = 0. F* = 0 at b (1, ...,
    1), of norm 1. From x_0 = 0 every round of communication makes at most one more coordinate
    non-zero, whatever the clients compute in between (iterates in the span of what was received and
    of own subgradients, also of exact local solutions). Arjevani and Shamir, "Communication
    complexity of distributed convex learning and optimization", NIPS 2015 (after their nonsmooth
    chain; the bound is derived in `least_after`).

    Parameters
    ----------
    links : int >= 2, even               k
    num_clients : int >= 2, even

    Raises
    ------
    InvalidInput
        links or num_clients is not such an integer.
    """

    name = "Arjevani-Shamir chain"
    client_data: ClassVar[tuple[str, ...]] = ("heads", "links")

    def __init__(self, links: int, num_clients: int = 2) -> None:
        _count(2, links=links, num_clients=num_clients)
        if links % 2 or num_clients % 2:
            raise InvalidInput(f"links is {links}, num_clients is {num_clients}: both must be even, so that links alternate")
        check_array_size(f"links = {links} with {num_clients} clients", int(num_clients), int(links) + 2)
        self.length = int(links)
        self._one_loss_each(int(num_clients), self.length + 2)
        self.target = 1 / math.sqrt(self.dim)
        odd = np.arange(num_clients) % 2 == 0
        link = 1 / math.sqrt(2 * self.dim)
        even_link = np.arange(self.dim - 1) % 2 == 0
        self.heads = np.where(odd, 1 / math.sqrt(2), 0.0)
        self.links = np.where(odd[:, None], np.where(even_link, 0.0, link), np.where(even_link, link, 0.0))

    @classmethod
    def for_epsilon(cls, epsilon: float, num_clients: int = 2) -> ArjevaniShamir:
        """The longest chain on which F(x) - F* <= epsilon needs all d coordinates: d = k + 2 < 1/(2 sqrt(2) epsilon)."""
        epsilon = real_number("epsilon", epsilon, above=0)
        dim = math.ceil(1 / (2 * math.sqrt(2) * max(epsilon, TINY))) - 1
        dim -= dim % 2
        if dim < 4:
            raise InvalidInput(f"epsilon is {epsilon!r}: the shortest chain, d = 4, needs epsilon < {1 / (8 * math.sqrt(2)):.6g}")
        check_array_size(f"epsilon = {epsilon:g}", whole_number("num_clients", num_clients), dim, remedy="raise epsilon")
        return cls(dim - 2, num_clients)

    def least_after(self, known: int) -> float:
        """min F(x) - F* over x with x_j = 0 for all j > known, 0 <= known < d: 1/(2 sqrt(2) d), and
        1/(2 sqrt(2 d)) for known = 0.

        F = (head |b - x_1| + link sum_j |x_j - x_{j+1}|)/2 >= (head |b - x_1| + link
        |x_1|)/2 >= link b/2, as link < head; met at x = b (1, ..., 1, 0, ..., 0). After T rounds
        from 0 the server knows at most T coordinates: d rounds are needed for less.
        """
        if not 0 <= known < self.dim:
            raise InvalidInput(f"known is {known!r}: it must lie in 0, ..., {self.dim - 1}")
        link, head = 1 / math.sqrt(2 * self.dim), 1 / math.sqrt(2)
        return min(head, link if known else head) * self.target / 2

    @property
    def minimiser(self) -> np.ndarray:
        """b (1, ..., 1), of norm 1, where F = 0."""
        return np.full(self.dim, self.target)

    def client_value(self, y: Array) -> Array:
        return self._chain_value(y)

    def client_gradient(self, y: Array) -> Array:
        return self._chain_gradient(y)

    def _client_lipschitz(self, client: int, radius: float) -> tuple[float, bool]:
        # disjoint links and a head that touches none of them: all can pull at once, at points as
        # near 0 as one likes
        links = to_numpy(self.links)[client]
        return math.sqrt(float(self.heads[client]) ** 2 + 2 * float((links**2).sum())), True

    def nonsmooth_structure(self) -> NonsmoothStructure:
        rows, offsets, weight = self._chain_kinks()
        return NonsmoothStructure(self.dim, rows=rows, offsets=offsets, low=-weight, high=weight)

    def cvxpy_objective(self, variable: Any) -> Any:
        return self._chain_expression(variable)
