"""Instances in fractions of the statements about MOPES, the exact prox, Moreau's envelope and the orders: from files, and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import fewest_rounds, local_steps, printed_rounds
from fedtheory.errors import InvalidInput
from fedtheory.randomness import Stream
from fedtheory.theorems.fedmls import lines
from fedtheory.theorems.fedmls.conventional import conventional_of
from fedtheory.theorems.fedmls.exact import _lines, _mean, _value
from fedtheory.theorems.fedmls.views import (
    EnvelopeView,
    MopesView,
    OrdersView,
    ProxView,
    SameView,
    mopes_view,
    prox_view,
)
from fedtheory.verification.rational import Builders, fraction, integer, table, to_file
from fedtheory.verification.setting import DataInstance

__all__ = ["BUILDERS", "KINDS", "battery", "random_instance"]

BUILDERS = Builders()
KINDS = ("prox", "mopes", "same", "envelope", "orders", "conventional")
COUNTS = {"prox": 24, "mopes": 40, "same": 10, "envelope": 30, "orders": 16, "conventional": 24}
MOST_ORDER_ROUNDS = 3_000


class FractionInstance(DataInstance):
    """An instance given by the data of its kind's builder."""

    @property
    def family(self) -> str:
        return {
            "prox": "FedMLS with the local problem solved exactly", "mopes": "MOPES on an interval",
            "same": "FedMLS and MOPES on the consensus set", "envelope": "Moreau's envelope", "orders": "Theorem 2's counts",
            "conventional": "other methods",
        }[self.kind]  # fmt: skip


# --- views from the data of a file --------------------------------------------------------------------------------------------
def _numbers(data: dict[str, Any], *names: str, positive: Sequence[str] = ()) -> list[Fraction]:
    out = [fraction(data[name], name) for name in names]
    for name, value in zip(names, out, strict=True):
        if name in positive and value <= 0:
            raise InvalidInput(f"{name} = {value}: it must be > 0")
    return out


def _clients(data: dict[str, Any]) -> tuple[lines.Lines, ...]:
    return tuple(_lines(data["slopes"], data["offsets"]))


def _g_sq(clients: Sequence[lines.Lines], radius: Fraction) -> Fraction:
    return _mean([lines.steepest(c, radius) ** 2 for c in clients])


def _start_inside(x0: Fraction, radius: Fraction) -> None:
    if abs(x0) > radius:
        raise InvalidInput(f"x_0 = {x0} is outside the ball of radius {radius}: start inside")


@BUILDERS.add("prox")
def prox_of(data: dict[str, Any]) -> ProxView:
    """From slopes, offsets (a row of pieces for every client), lam, radius, x0, rounds."""
    lam, radius, x0 = _numbers(data, "lam", "radius", "x0", positive=("lam", "radius"))
    _start_inside(x0, radius)
    clients, rounds = _clients(data), integer(data["rounds"], "rounds", 1, lines.MOST_ROUNDS)
    run = lines.Run(clients, lam, Fraction(1), -radius, radius, radius, x0, rounds, _g_sq(clients, radius), "exact")
    return prox_view(run)


@BUILDERS.add("mopes")
def mopes_of(data: dict[str, Any]) -> MopesView:
    """From slopes, offsets (of one loss), lam, D, low, high, radius, x0, rounds, and local: 'sliding', 'exact' or 'flat'."""
    lam, d, low, high, radius, x0 = _numbers(data, "lam", "D", "low", "high", "radius", "x0", positive=("lam", "D", "radius"))
    if not -radius <= low <= high <= radius:
        raise InvalidInput(f"low = {low}, high = {high}, radius = {radius}: X = [low, high] must lie in X' = [-radius, radius]")
    local, clients = data.get("local", "sliding"), _clients(data)
    if local not in lines.LOCAL or len(clients) != 1:
        raise InvalidInput(f"local = {local!r}, {len(clients)} losses: one loss, and local is one of {', '.join(lines.LOCAL)}")
    rounds = integer(data["rounds"], "rounds", 1, lines.MOST_ROUNDS)
    g_sq = _g_sq(clients, radius)
    if not g_sq:
        raise InvalidInput("the loss is constant on X': G must be > 0")
    return mopes_view(lines.Run(clients, lam, d, low, high, radius, x0, rounds, g_sq, local))


@BUILDERS.add("same")
def same_of(data: dict[str, Any]) -> SameView:
    """From slopes, offsets (a row of pieces for every client), lam, D, radius, x0, rounds."""
    lam, d, radius, x0 = _numbers(data, "lam", "D", "radius", "x0", positive=("lam", "D", "radius"))
    _start_inside(x0, radius)
    clients, rounds = _clients(data), integer(data["rounds"], "rounds", 1, 30)
    return SameView(lines.Run(clients, lam, d, -radius, radius, radius, x0, rounds, max(_g_sq(clients, radius), Fraction(1, 64))))


@BUILDERS.add("envelope")
def envelope_of(data: dict[str, Any]) -> EnvelopeView:
    """From lam, and of every client the prox u_i (a row of d), slopes whose first is v_i = -u_i/lam, and drops s_ij >= 0, s_i1 = 0.

    The losses are f_i(u) = max_j <slopes_ij, u - u_i> - drops_ij. As v_i is a subgradient at u_i, the x-part 0 and the u_i minimise
    Psi: over x in R^d where mean_i u_i = 0, and in one dimension else over the half-line X that begins at 0 and that the mean of the
    v_i points into. In more dimensions F* is certified by a minimiser "star" and multipliers of the pieces that are largest there.
    """
    (lam,) = _numbers(data, "lam", positive=("lam",))
    u, drops = table(data["u"], "u"), [list(map(fraction, row)) for row in data["drops"]]
    slopes = [table(rows, f"slopes[{i}]") for i, rows in enumerate(data["slopes"])]
    alike = len(u) == len(slopes) == len(drops)
    if not alike or any(len(a) != len(s) or a.shape[1] != u.shape[1] for a, s in zip(slopes, drops, strict=True)):
        raise InvalidInput("u, slopes and drops must name the same clients, with as many drops as slopes, all of one dimension")
    for i, (point, a, s) in enumerate(zip(u, slopes, drops, strict=True)):
        if min(s) < 0 or s[0] != 0 or (a[0] * lam != -point).any():
            raise InvalidInput(f"client {i}: the first slope must be -u_i/lam with drop 0, and no drop may be below 0")
    lean = -u.sum(axis=0)  # N lam times the mean of the v_i
    if u.shape[1] > 1 and lean.any():
        raise InvalidInput("the u_i must add up to 0 in more than one dimension, where X is all of R^d")

    def mean_loss(x: np.ndarray) -> Fraction:
        values = [(a @ (x - p) - np.array(s, dtype=object)).max() for p, a, s in zip(u, slopes, drops, strict=True)]
        return sum(values, Fraction(0)) / len(u)

    zero = u[0] * 0
    psi = (u * u).sum() / (2 * lam * len(u))
    g_sq = sum(((a * a).sum(axis=1).max() for a in slopes), Fraction(0)) / len(u)
    least = _least_in_line(u, slopes, drops, lean[0]) if u.shape[1] == 1 else _certified(data, u, slopes, drops, mean_loss)
    return EnvelopeView(lam, g_sq, psi, least, mean_loss(zero))


def _least_in_line(u: np.ndarray, slopes: list[np.ndarray], drops: list[list[Fraction]], lean: Fraction) -> Fraction:
    """F* over R, or over the half-line from 0 that ``lean`` points into: there F has a slope that is not below 0 at its far end."""
    pieces = [
        [(p[0], -p[0] * point[0] - s) for p, s in zip(a, row, strict=True)] for point, a, row in zip(u, slopes, drops, strict=True)
    ]
    inner = [c for piece in pieces for c in lines._kinks(piece) if not lean or c * lean > 0]
    return min(_mean([_value(piece, c) for piece in pieces]) for c in [Fraction(0), *inner])


def _certified(data: dict[str, Any], u: np.ndarray, slopes: list[np.ndarray], drops: list[list[Fraction]], mean_loss: Any) -> Fraction:
    """F(star), where the multipliers of the pieces that are largest there add up to 0."""
    star, multipliers = table([data["star"]], "star")[0], [list(map(fraction, row)) for row in data["multipliers"]]
    total = star * 0
    for point, a, s, m in zip(u, slopes, drops, multipliers, strict=True):
        values = a @ (star - point) - np.array(s, dtype=object)
        shares = len(m) == len(values) and min(m) >= 0 and sum(m) == 1
        if not shares or any(v < values.max() for v, w in zip(values, m, strict=True) if w):
            raise InvalidInput("multipliers: of every client numbers >= 0 that add up to 1, on pieces that are largest at star")
        total = total + sum((w * row for w, row in zip(m, a, strict=True)), star * 0)
    if total.any():
        raise InvalidInput(f"the multipliers' slopes add up to {list(map(str, total))}, not to 0: star is not shown to be a minimiser")
    return mean_loss(star)


@BUILDERS.add("orders")
def orders_of(data: dict[str, Any]) -> OrdersView:
    """From reach = G ||x_0 - x*||/epsilon, sigma = sigma/G, and rounds: 'printed' or 'fewest'."""
    (reach,), (sigma,) = _numbers(data, "reach", positive=("reach",)), _numbers(data, "sigma")
    if sigma < 0 or data["rounds"] not in ("printed", "fewest"):
        raise InvalidInput(f"sigma = {sigma}, rounds = {data['rounds']!r}: sigma must be >= 0, rounds 'printed' or 'fewest'")
    if 9 * reach > MOST_ORDER_ROUNDS:
        raise InvalidInput(f"reach = {reach}: at most {MOST_ORDER_ROUNDS // 9}, so that the rounds can be counted one by one")
    K = (printed_rounds if data["rounds"] == "printed" else fewest_rounds)(1, 1, reach)
    if K < 2:
        raise InvalidInput(f"reach = {reach}: Theorem 2 has K = {K} rounds there; the orders are about K >= 2, ask for a larger reach")
    total = sum(local_steps(k, 1, reach**2, K, 1, sigma) for k in range(1, K + 1))
    return OrdersView(reach**2, sigma**2, data["rounds"], K, total)


BUILDERS.add("conventional")(conventional_of)


# --- drawn -------------------------------------------------------------------------------------------------------------------
def _quarter(rng: Any, most: int = 8) -> Fraction:
    return Fraction(int(rng.integers(-most, most + 1)), 4)


def _loss(rng: Any, pieces: int) -> tuple[list[Fraction], list[Fraction]]:
    slopes = [_quarter(rng, 12) for _ in range(pieces)]
    slopes[0] = slopes[0] or Fraction(1)
    return slopes, [_quarter(rng, 4) for _ in range(pieces)]


def _losses(rng: Any, clients: int) -> dict[str, Any]:
    drawn = [_loss(rng, int(rng.integers(1, 4))) for _ in range(clients)]
    return {"slopes": [a for a, _ in drawn], "offsets": [b for _, b in drawn]}


def _lam(rng: Any) -> Fraction:
    return Fraction(int(rng.integers(1, 33)), int(rng.choice([4, 16, 64])))


def _prox(rng: Any) -> tuple[str, dict[str, Any]]:
    n, rounds = int(rng.integers(1, 5)), int(rng.integers(1, 11))
    data = {**_losses(rng, n), "lam": _lam(rng), "radius": Fraction(2), "x0": _quarter(rng), "rounds": rounds}
    if rng.random() < 0.3:  # one slope all the way, where the 8 is nearly attained
        rounds = int(rng.integers(8, 25))
        data |= {"slopes": [[Fraction(-1)]], "offsets": [[Fraction(0)]], "x0": Fraction(0), "radius": Fraction(1)}
        data |= {"rounds": rounds, "lam": Fraction(16, rounds * (rounds + 1) + int(rng.integers(0, 20)))}
    return f"N={len(data['slopes'])} K={rounds}", data


def _mopes(rng: Any) -> tuple[str, dict[str, Any]]:
    ends = sorted(_quarter(rng) for _ in range(2))
    local, rounds = str(rng.choice(["sliding", "sliding", "sliding", "exact"])), int(rng.integers(1, 7))
    share = Fraction(int(rng.integers(0, 9)), 8)
    x0 = ends[0] + share * (ends[1] - ends[0]) if rng.random() < 0.6 else _quarter(rng)
    data = {
        **_losses(rng, 1), "lam": _lam(rng), "D": Fraction(int(rng.integers(1, 33)), 4), "low": ends[0], "high": ends[1],
        "radius": Fraction(2), "x0": x0, "rounds": rounds, "local": local,
    }  # fmt: skip
    if local == "sliding":  # few enough steps for fractions: a K^3/3 is about their number
        g_sq = max(abs(p) for p in data["slopes"][0]) ** 2
        data["D"] = max(data["D"], g_sq * data["lam"] ** 2 * rounds**4 / 60)
    return f"K={rounds} {local}", data


def _same(rng: Any) -> tuple[str, dict[str, Any]]:
    n, rounds = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    data = {**_losses(rng, n), "lam": _lam(rng), "radius": Fraction(2), "x0": _quarter(rng), "rounds": rounds}
    g_sq = max(abs(p) for row in data["slopes"] for p in row) ** 2
    return f"N={n} K={rounds}", data | {"D": max(Fraction(1, 4), g_sq * data["lam"] ** 2 * rounds**4 / 30)}


def _envelope(rng: Any) -> tuple[str, dict[str, Any]]:
    n, lam = int(rng.integers(1, 5)), _lam(rng)
    u = [_quarter(rng) for _ in range(n)]
    if n > 1 and rng.random() < 0.7:  # X is the whole line
        u[-1] = -sum(u[:-1], Fraction(0))
    slopes, drops = [], []
    for point in u:
        more = int(rng.integers(0, 3))
        slopes.append([[-point / lam], *([_quarter(rng, 12)] for _ in range(more))])
        drops.append([Fraction(0), *(abs(_quarter(rng, 6)) for _ in range(more))])
    steep = 1 + sum((abs(p[0]) for rows in slopes for p in rows), Fraction(0))
    slopes[0] += [[steep], [-steep]]  # far out, so that F has a minimum
    drops[0] += [Fraction(int(rng.integers(0, 200)))] * 2
    if rng.random() < 0.2:  # one loss, straight where it matters: X begins at 0, and F rises there
        g = Fraction(int(rng.integers(1, 9)), 2)
        u, slopes, drops = [-g * lam], [[[g]]], [[Fraction(0)]]
    return f"N={len(u)}", {"lam": lam, "u": [[v] for v in u], "slopes": slopes, "drops": drops}


def _orders(rng: Any) -> tuple[str, dict[str, Any]]:
    reach = Fraction(int(rng.integers(1, 120)), int(rng.choice([1, 2, 3])))
    sigma, rounds = Fraction(int(rng.integers(0, 9)), 4), str(rng.choice(["printed", "fewest"]))
    return f"reach={reach}", {"reach": reach, "sigma": sigma, "rounds": rounds}


def _conventional(rng: Any) -> tuple[str, dict[str, Any]]:
    step, rounds = Fraction(int(rng.integers(1, 33)), 16), int(rng.integers(1, 30))
    method = str(rng.choice(["subgradient", "subgradient", "fedprox", "fedprox", "local-steps"]))
    data: dict[str, Any]
    if method == "fedprox":
        data = {
            "shallow": Fraction(int(rng.integers(1, 9)), 16), "slope": Fraction(int(rng.integers(9, 25)), 16),
            "second": Fraction(int(rng.integers(1, 17)), 8), "first": Fraction(int(rng.integers(1, 17)), 8),
        }  # fmt: skip
        return f"fedprox h={step} K={rounds}", data | {"method": method, "step": step, "rounds": rounds}
    n, mu = int(rng.integers(1, 16)), Fraction(1, int(rng.integers(1, 9)))
    data = {"method": method, "n": n, "mu": mu, "step": step, "rounds": min(n, rounds, 12 if method == "subgradient" else 3)}
    return f"{method} n={n}", data | ({"local": int(rng.integers(2, 9))} if method == "local-steps" else {})


_DRAW = {"prox": _prox, "conventional": _conventional, "mopes": _mopes, "same": _same, "envelope": _envelope, "orders": _orders}


def random_instance(kind: str, rng: Any, seed: int = 0) -> FractionInstance:
    """One instance of a kind, from a `numpy.random.Generator` or a `Tape`."""
    if kind not in _DRAW:
        raise InvalidInput(f"kind = {kind!r}: use one of {', '.join(_DRAW)}")
    label, data = _DRAW[kind](rng)
    return FractionInstance(BUILDERS, kind, label, to_file(data), seed)


def battery(seed: int = 0, scale: float = 1.0) -> list[FractionInstance]:
    """Every kind, as a campaign runs it; each kind has a stream of its own."""
    out = []
    for kind, count in COUNTS.items():
        for n in range(max(6, round(count * scale))):
            rng = Stream(seed).generator(f"fedmls {kind} {n}")
            out.append(random_instance(kind, rng, seed * 1000 + n))
    plane = to_file(_in_the_plane(Fraction(40, 41), Fraction(9, 41)))
    out += [FractionInstance(BUILDERS, kind, label, given) for kind, label, given in _ONE_OF_EACH]
    return [*out, FractionInstance(BUILDERS, "envelope", "two clients in the plane", plane)]


_KINK = {"slopes": [["-1", "2"]], "offsets": [["0", "-3/2"]], "low": "-1/2", "high": "1", "radius": "2", "D": "3", "rounds": 3}
_PULL = {"shallow": "1/5", "slope": "3/4", "second": "1", "first": "1/2"}
_ONE_OF_EACH: list[tuple[str, str, dict[str, Any]]] = [  # whatever is drawn, every form has an instance
    ("mopes", "x_0 in X", {**_KINK, "lam": "1/2", "x0": "0", "local": "sliding"}),
    ("mopes", "x_0 outside X", {**_KINK, "lam": "1/2", "x0": "3/2", "local": "sliding"}),
    ("mopes", "solved", {**_KINK, "lam": "1/2", "x0": "0", "local": "exact"}),
    ("orders", "the printed K", {"reach": "40", "sigma": "1", "rounds": "printed"}),
    ("orders", "K_min", {"reach": "40", "sigma": "1", "rounds": "fewest"}),
    ("conventional", "FedProx on the pull", {"method": "fedprox", **_PULL, "step": "1/3", "rounds": 8}),
    ("conventional", "one subgradient a round", {"method": "subgradient", "n": 6, "mu": "1/2", "step": "1/4", "rounds": 6}),
    ("prox", "one slope", {"slopes": [["-1"]], "offsets": [["0"]], "lam": "1/30", "radius": "1", "x0": "0", "rounds": 20}),
    ("prox", "enough rounds", {"slopes": [["-1", "1"]], "offsets": [["0", "0"]], "lam": "2", "radius": "1", "x0": "1", "rounds": 4}),
]


def _in_the_plane(b: Fraction, t: Fraction) -> dict[str, Any]:
    """max((1 + 2 u_1)/4, b (u_1 + 1/2) + t u_2) and its mirror image in u_1, b^2 + t^2 = 1 = lambda: F at Psi's minimiser 0 is
    (b - 1/2)/2 above F*, which tends to lambda G^2/4 as b tends to 1."""
    half = Fraction(1, 2)
    return {
        "lam": Fraction(1), "u": [[-half, Fraction(0)], [half, Fraction(0)]], "drops": [[Fraction(0)] * 2] * 2,
        "slopes": [[[half, Fraction(0)], [b, t]], [[-half, Fraction(0)], [-b, t]]],
        "star": [Fraction(0), (Fraction(1, 4) - b / 2) / t], "multipliers": [[Fraction(1), Fraction(0)]] * 2,
    }  # fmt: skip
