"""Runs in one dimension in fractions: FedMLS in every reading of it, and MOPES on an interval.

Every loss is a maximum of affine functions, f(u) = max_j p_j u + q_j, written as a list of
(p_j, q_j). Clients with the same loss start alike and receive alike, so that their iterates are the
same at all times: they are one client here, with the number of its copies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, lcm
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, objects

LOCAL = ("sliding", "exact", "flat")  # local training; 'flat' is the prox without its square
MOST_STEPS, MOST_ROUNDS = 10_000, 500  # the numbers grow with every step, and with every round
Lines = Sequence[tuple[Fraction, Fraction]]


# --- losses ---------------------------------------------------------------------------------------
def read_losses(slopes: Any, offsets: Any) -> tuple[Lines, ...]:
    """The pieces of every client from the lists of a file.

    Raises
    ------
    InvalidInput
        Lists of other shapes, or entries that are no fractions.
    """
    both = isinstance(slopes, list) and isinstance(offsets, list)
    rows = both and all(isinstance(row, list) for row in (*slopes, *offsets))
    if not rows or not slopes or not all(slopes) or [*map(len, slopes)] != [*map(len, offsets)]:
        raise InvalidInput(
            "slopes and offsets: expected one list of fractions for each client, as many offsets "
            "as slopes"
        )
    return tuple(
        [(fraction(p, f"slopes[{i}]"), fraction(q, f"offsets[{i}]")) for p, q in zip(a, b)]
        for i, (a, b) in enumerate(zip(slopes, offsets, strict=True))
    )


def value(lines: Lines, u: Fraction) -> Fraction:
    """f(u)."""
    return max(p * u + q for p, q in lines)


def slopes_at(lines: Lines, u: Fraction) -> list[Fraction]:
    """The slopes of the pieces that are largest at u; the first one is the subgradient there."""
    best = value(lines, u)
    return [p for p, q in lines if p * u + q == best]


def kinks(lines: Lines) -> list[Fraction]:
    """The points where two pieces cross."""
    return [(s - q) / (p - r) for i, (p, q) in enumerate(lines) for r, s in lines[:i] if r != p]


def steepest(lines: Lines, radius: Fraction, closed: bool = True) -> Fraction:
    """The longest subgradient on [-radius, radius]; without the ends the Lipschitz constant."""
    start, end = slopes_at(lines, -radius), slopes_at(lines, radius)
    ends = (min(start), max(end)) if closed else (max(start), min(end))
    return max(abs(p) for p in ends)


def clip(u: Fraction, radius: Fraction) -> Fraction:
    """The point of [-radius, radius] that is nearest to u."""
    return min(max(u, -radius), radius)


def mean(values: Sequence[Fraction] | np.ndarray, copies: Sequence[int] = ()) -> Fraction:
    """The mean over the clients."""
    if not copies:
        return sum(values, Fraction(0)) / len(values)
    return sum((c * v for c, v in zip(copies, values, strict=True)), Fraction(0)) / sum(copies)


def least_on(
    clients: Sequence[Lines], low: Fraction, high: Fraction, near: Fraction,
    copies: Sequence[int] = (),
) -> tuple[Fraction, Fraction]:
    """F* over [low, high], and the minimiser that is nearest to ``near``."""
    points = [low, high, *(c for lines in clients for c in kinks(lines) if low < c < high)]
    values = [(mean([value(lines, u) for lines in clients], copies), u) for u in points]
    least = min(values)[0]
    flat = [u for v, u in values if v == least]  # minimisers are what lies between these
    return least, min(max(near, min(flat)), max(flat))


def excess(
    clients: Sequence[Lines], at: Fraction, least: Fraction, copies: Sequence[int] = ()
) -> Fraction:
    """F(at) - F*."""
    return mean([value(lines, at) for lines in clients], copies) - least


def consensus_slope(
    clients: Sequence[Lines], radius: Fraction, copies: Sequence[int] = ()
) -> Fraction:
    """The longest subgradient of x -> F(x, ..., x) inside the interval."""
    inner = {x for lines in clients for x in kinks(lines) if -radius < x < radius}
    middle = [(a + b) / 2 for a, b in pairwise(sorted({-radius, radius, *inner}))]
    return max(abs(mean([slopes_at(lines, x)[0] for lines in clients], copies)) for x in middle)


# --- local training -------------------------------------------------------------------------------
def train(
    lines: Lines, u0: Fraction, g: Fraction, beta: Fraction, steps: int, radius: Fraction,
    share: int = 1,
) -> tuple[Fraction, Fraction]:
    """Lines 18-27: (u_T, u~_T), thousands of steps in a moment.

    With P_t = (t+1)(t+2) u_t the step with slope p is P_t = P_{t-1} + 2(t+1) (u_0 - g/beta -
    p/(share beta)), then cut at (t+1)(t+2) R, so that all P_t have one denominator; and u~_T =
    2/(T(T+3)) sum_t P_t/(t+2).
    """
    moves = [u0 - g / beta - p / (share * beta) for p, _ in lines]
    unit = lcm(*(v.denominator for v in (u0, radius, *moves)))
    whole = lcm(*(v.denominator for line in lines for v in line))
    end, moves_in_units = int(radius * unit), [int(m * unit) for m in moves]
    pieces = [(int(p * whole), int(q * whole) * unit) for p, q in lines]
    under = lcm(*range(3, steps + 3))
    at, total = 2 * int(u0 * unit), 0
    for t in range(1, steps + 1):
        values = [p * at + q * (t * (t + 1)) for p, q in pieces]
        most = (t + 1) * (t + 2) * end
        at += 2 * (t + 1) * moves_in_units[values.index(max(values))]
        at = min(max(at, -most), most)
        total += at * (under // (t + 2))
    last = Fraction(at, (steps + 1) * (steps + 2) * unit)
    return last, Fraction(2 * total, steps * (steps + 3) * under * unit)


def prox(
    lines: Lines, centre: Fraction, beta: Fraction, radius: Fraction, power: int = 2
) -> Fraction:
    """argmin f(u) + (beta/2)|u - centre|^power over [-radius, radius], for a power of 1 or 2.

    It is R, -R, a stationary point of a piece (with the power 1 the centre) or a kink, and the
    first of several in this order.
    """
    points = [centre] if power == 1 else [centre - p / beta for p, _ in lines]
    points = [radius, -radius, *(clip(u, radius) for u in (*points, *kinks(lines)))]
    return min(points, key=lambda u: value(lines, u) + beta / 2 * abs(u - centre) ** power)


# --- runs -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Run:
    """Everything that a run is made of.

    Attributes
    ----------
    clients, copies : the losses, and how many clients have each of them, default one; MOPES has one
    low, high : X = [low, high]; infinite where nothing is projected
    radius : X' = [-radius, radius]
    g_sq : G^2 of T_k
    local : of `LOCAL`
    last : line 14 with the last iterate z' as printed, in place of the average
    share : what the clients' subgradients are divided by in line 22
    """

    clients: tuple[Lines, ...]
    lam: Fraction
    d: Fraction
    low: Any
    high: Any
    radius: Fraction
    x0: Fraction
    rounds: int
    g_sq: Fraction
    local: str = "sliding"
    last: bool = False
    share: int = 1
    copies: tuple[int, ...] = ()

    @property
    def steps(self) -> list[int]:
        """T_1..T_K; 0 where there are no steps, as the local problem is solved exactly."""
        if self.local != "sliding":
            return [0] * self.rounds
        unit = 4 * self.g_sq * self.lam**2 * self.rounds / (2 * self.d)
        return [max(1, ceil(unit * k * k)) for k in range(1, self.rounds + 1)]

    def train(
        self, lines: Lines, u0: Fraction, g: Fraction, beta: Fraction, steps: int
    ) -> tuple[Fraction, Fraction]:
        """Local training of one client: the last iterate and the average."""
        if self.local == "sliding":
            return train(lines, u0, g, beta, steps, self.radius, self.share)
        power = 2 if self.local == "exact" else 1
        return (prox(lines, u0 - g / beta, beta, self.radius, power),) * 2

    def checked_steps(self, last: bool) -> list[int]:
        """T_1..T_K. Raises `InvalidInput` for more of them than fractions can carry."""
        if self.rounds > MOST_ROUNDS:
            raise InvalidInput(
                f"K = {self.rounds} exact rounds, more than {MOST_ROUNDS}: take fewer rounds"
            )
        total = sum(self.steps if last else self.steps[:-1]) * len(self.clients)
        if total > MOST_STEPS:
            raise InvalidInput(
                f"{total} exact local steps, more than {MOST_STEPS}: take fewer rounds or a larger "
                "D"
            )
        return self.steps


@dataclass(frozen=True)
class Trained:
    """Rounds 0..K of a run, x_k and z_k, and of clients x'_k, z'_k, the average, line 13's g.

    Round K's local training is left out, where x_K alone is asked for.
    """

    x: list[Fraction]
    z: list[Fraction]
    x_client: list[np.ndarray]
    z_client: list[np.ndarray]
    z_average: list[np.ndarray]
    gradient: list[np.ndarray]


def history(run: Run, last: bool = False) -> Trained:
    """Algorithm 1, or MOPES's update where there is one client, in fractions.

    Parameters
    ----------
    last : with round K's local training

    Raises
    ------
    InvalidInput
        More rounds or local steps than fractions can carry.
    """
    steps, starts = run.checked_steps(last), objects([run.x0] * len(run.clients))
    out = Trained([run.x0], [run.x0], [starts], [starts], [0 * starts], [0 * starts])
    for k in range(1, run.rounds + 1):
        beta, gamma = 4 / (run.lam * k), Fraction(2, k + 1)
        x_client, z_client = out.x_client[-1], out.z_client[-1]
        own = (1 - gamma) * x_client + gamma * z_client
        y = (1 - gamma) * out.x[-1] + gamma * out.z[-1]
        z = min(max(out.z[-1] - (y - mean(own, run.copies)) * k / 4, run.low), run.high)
        out.x.append((1 - gamma) * out.x[-1] + gamma * z)
        out.z.append(z)
        if k == run.rounds and not last:
            break
        pull = (own - y) / run.lam
        trained = [
            run.train(lines, u0, g, beta, steps[k - 1])
            for lines, u0, g in zip(run.clients, z_client, pull, strict=True)
        ]
        ends, averages = (objects(u) for u in zip(*trained, strict=True))
        out.x_client.append((1 - gamma) * x_client + gamma * (ends if run.last else averages))
        out.z_client.append(ends)
        out.z_average.append(averages)
        out.gradient.append(pull)
    return out


def product_mopes(run: Run) -> list[np.ndarray]:
    """x_0..x_K of MOPES on R^N, one coordinate a client, with the consensus set in the ball for X.

    There are vectors, not a server and clients, and the projection onto the consensus is the mean
    in every coordinate. The run's ``share`` divides the clients' subgradients: 1 in the mean
    product, where the gradient of (1/N) sum f_i(u_i) is (f_1', ..., f_N'), and N in the plain one.
    """
    n, radius, steps = len(run.clients), run.radius, run.checked_steps(last=False)

    def project(v: np.ndarray) -> np.ndarray:
        return objects([clip(mean(v), radius)] * n)

    x = z = x_local = z_local = objects([run.x0] * n)
    out = [x]
    for k in range(1, run.rounds + 1):
        beta, gamma = 4 / (run.lam * k), Fraction(2, k + 1)
        y, y_local = (1 - gamma) * x + gamma * z, (1 - gamma) * x_local + gamma * z_local
        pull = (y_local - y) / run.lam
        z = project(z + pull / beta)
        x = (1 - gamma) * x + gamma * z
        out.append(x)
        if k == run.rounds:
            break
        u = average = z_local
        for t in range(1, steps[k - 1] + 1):
            slopes = (slopes_at(lines, v)[0] for lines, v in zip(run.clients, u, strict=True))
            moved = objects(slopes) / run.share + pull + beta * (u - z_local)
            u = objects(clip(v, radius) for v in u - moved / ((1 + Fraction(t, 2)) * beta))
            theta = Fraction(2 * (t + 1), t * (t + 3))
            average = (1 - theta) * average + theta * u
        z_local, x_local = u, (1 - gamma) * x_local + gamma * average
    return out
