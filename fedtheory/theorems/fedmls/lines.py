"""Runs in one dimension in fractions: MOPES on an interval, FedMLS with exact local work, and MOPES on the product space.

Every loss is a maximum of affine functions, f(u) = max_j p_j u + q_j, written as a list of (p_j, q_j).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedmls.exact import _clip, _kinks, _mean, _subgradient, _value, train_exactly

__all__ = ["LOCAL", "History", "Run", "history", "least_on", "product_mopes", "prox", "slopes_at", "steepest"]

LOCAL = ("sliding", "exact", "flat")  # local training; 'flat' is the prox that is printed without its square
MOST_STEPS, MOST_ROUNDS = 4_000, 200
Lines = Sequence[tuple[Fraction, Fraction]]


@dataclass(frozen=True)
class Run:
    """What a run is made of.

    Attributes
    ----------
    clients : the losses; MOPES has one
    low, high : X = [low, high]
    radius : X' = [-radius, radius]
    g_sq : G^2 of T_k
    local : of `LOCAL`
    last : line 14 with the last iterate z' as printed, in place of the average
    """

    clients: tuple[Lines, ...]
    lam: Fraction
    d: Fraction
    low: Fraction
    high: Fraction
    radius: Fraction
    x0: Fraction
    rounds: int
    g_sq: Fraction
    local: str = "sliding"
    last: bool = False

    @property
    def steps(self) -> list[int]:
        """T_1..T_K; 0 where there are no steps, as the local problem is solved exactly."""
        if self.local != "sliding":
            return [0] * self.rounds
        return [max(1, ceil(4 * self.g_sq * self.lam**2 * self.rounds * k * k / (2 * self.d))) for k in range(1, self.rounds + 1)]


@dataclass(frozen=True)
class History:
    """Rounds 0..K: x_k, z_k, and of every client x'_k and z'_k; round K's local training is left out, where x_K does not need it."""

    x: list[Fraction]
    z: list[Fraction]
    x_client: list[list[Fraction]]
    z_client: list[list[Fraction]]


def prox(lines: Lines, centre: Fraction, beta: Fraction, radius: Fraction) -> Fraction:
    """argmin f(u) + (beta/2)(u - centre)^2 over [-radius, radius]: the stationary point of a piece, a kink or an end."""
    points = [radius, -radius, *(_clip(centre - p / beta, radius) for p, _ in lines)]
    points += [_clip(c, radius) for c in _kinks(list(lines))]
    return min(points, key=lambda u: _value(list(lines), u) + beta / 2 * (u - centre) ** 2)


def _flat(lines: Lines, centre: Fraction, beta: Fraction, radius: Fraction) -> Fraction:
    """argmin f(u) + (beta/2) |u - centre| over [-radius, radius]; of several minimisers the one that is listed first."""
    points = [radius, -radius, _clip(centre, radius), *(_clip(c, radius) for c in _kinks(list(lines)))]
    return min(points, key=lambda u: _value(list(lines), u) + beta / 2 * abs(u - centre))


def _trainer(run: Run) -> Callable[[Lines, Fraction, Fraction, Fraction, int], tuple[Fraction, Fraction]]:
    """(loss, u_0, g, beta, T) -> (z', what x' takes)."""

    def train(lines: Lines, u0: Fraction, g: Fraction, beta: Fraction, steps: int) -> tuple[Fraction, Fraction]:
        if run.local == "sliding":
            last, average = train_exactly(list(lines), u0, g, beta, steps, run.radius)
            return last, last if run.last else average
        u = (prox if run.local == "exact" else _flat)(lines, u0 - g / beta, beta, run.radius)
        return u, u

    return train


def history(run: Run) -> History:
    """Algorithm 1, or MOPES's update where there is one client, in fractions.

    Raises
    ------
    InvalidInput
        More rounds or local steps than fractions can carry.
    """
    steps = run.steps[:-1]
    if run.rounds > MOST_ROUNDS or sum(steps) * len(run.clients) > MOST_STEPS:
        raise InvalidInput(
            f"{run.rounds} exact rounds with {sum(steps)} local steps a client: at most {MOST_ROUNDS} rounds and {MOST_STEPS} steps "
            "of all clients can be run in fractions; take fewer rounds or a larger D"
        )
    train, n = _trainer(run), len(run.clients)
    out = History([run.x0], [run.x0], [[run.x0] * n], [[run.x0] * n])
    for k in range(1, run.rounds + 1):
        beta, gamma = 4 / (run.lam * k), Fraction(2, k + 1)
        y_client = [(1 - gamma) * a + gamma * b for a, b in zip(out.x_client[-1], out.z_client[-1], strict=True)]
        y = (1 - gamma) * out.x[-1] + gamma * out.z[-1]
        z = min(max(out.z[-1] - (y - _mean(y_client)) * k / 4, run.low), run.high)
        out.x.append((1 - gamma) * out.x[-1] + gamma * z)
        out.z.append(z)
        if k == run.rounds:
            break
        trained = [
            train(lines, u0, (v - y) / run.lam, beta, steps[k - 1])
            for lines, u0, v in zip(run.clients, out.z_client[-1], y_client, strict=True)
        ]
        out.x_client.append([(1 - gamma) * a + gamma * t[1] for a, t in zip(out.x_client[-1], trained, strict=True)])
        out.z_client.append([t[0] for t in trained])
    return out


def product_mopes(
    clients: Sequence[Lines], lam: Fraction, d: Fraction, radius: Fraction, x0: Fraction, rounds: int, g_sq: Fraction, share: int
) -> list[list[Fraction]]:
    """x_0..x_K of MOPES on R^N, one coordinate a client, with the consensus set in the ball for X: vectors, not a server and clients.

    The projection onto the consensus is the mean in every coordinate. ``share`` is what divides the clients' subgradients: 1 in the
    mean product, where the gradient of (1/N) sum f_i(u_i) is (f_1', ..., f_N'), and N in the plain one.
    """
    n = len(clients)
    steps = [max(1, ceil(4 * g_sq * lam**2 * rounds * k * k / (2 * d))) for k in range(1, rounds)]
    if rounds > MOST_ROUNDS or sum(steps) * n > MOST_STEPS:
        raise InvalidInput(f"{rounds} rounds with {sum(steps)} local steps a client are too many for fractions: take fewer rounds")

    def project(v: list[Fraction]) -> list[Fraction]:
        return [_clip(sum(v, Fraction(0)) / n, radius)] * n

    def mix(weight: Fraction, a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
        return [(1 - weight) * s + weight * t for s, t in zip(a, b, strict=True)]

    x = z = x_local = z_local = [x0] * n
    out = [x]
    for k in range(1, rounds + 1):
        beta, gamma = 4 / (lam * k), Fraction(2, k + 1)
        y, y_local = mix(gamma, x, z), mix(gamma, x_local, z_local)
        pull = [(a - b) / lam for a, b in zip(y_local, y, strict=True)]
        z = project([a + p / beta for a, p in zip(z, pull, strict=True)])
        x = mix(gamma, x, z)
        out.append(x)
        if k == rounds:
            break
        u, average = z_local, z_local
        for t in range(1, steps[k - 1] + 1):
            slope = [_subgradient(list(lines), v) / share for lines, v in zip(clients, u, strict=True)]
            moved = [s + p + beta * (v - w) for s, p, v, w in zip(slope, pull, u, z_local, strict=True)]
            u = [_clip(v - m / ((1 + Fraction(t, 2)) * beta), radius) for v, m in zip(u, moved, strict=True)]
            average = mix(Fraction(2 * (t + 1), t * (t + 3)), average, u)
        z_local, x_local = u, mix(gamma, x_local, average)
    return out


# --- a loss on an interval --------------------------------------------------------------------------------------------------
def least_on(clients: Sequence[Lines], low: Fraction, high: Fraction, near: Fraction) -> tuple[Fraction, Fraction]:
    """(F*, the minimiser nearest to ``near``) of the mean loss F over [low, high]."""
    inner = [c for lines in clients for c in _kinks(list(lines)) if low < c < high]
    values = [(_mean([_value(list(lines), u) for lines in clients]), u) for u in (low, high, *inner)]
    least = min(values)[0]
    flat = [u for value, u in values if value == least]
    return least, min(max(near, min(flat)), max(flat))


def slopes_at(lines: Lines, u: Fraction) -> tuple[Fraction, Fraction]:
    """The least and the greatest subgradient of a loss at u."""
    best = _value(list(lines), u)
    met = [p for p, q in lines if p * u + q == best]
    return min(met), max(met)


def steepest(lines: Lines, radius: Fraction) -> Fraction:
    """The longest subgradient on the closed interval [-radius, radius]: slopes grow, so that it stands at an end."""
    return max(abs(v) for end in (-radius, radius) for v in slopes_at(lines, end))


def excess(clients: Sequence[Lines], at: Fraction, least: Fraction) -> Fraction:
    """F(at) - F*."""
    return _mean([_value(list(lines), at) for lines in clients]) - least
