"""FedMLS in exact rational arithmetic, in one dimension.

There every operation of Algorithm 1 is rational: the losses are maxima of affine functions, the ball is an interval, and the steps
1/((1 + t/2) beta) are fractions. It is a second implementation of the algorithm, and what proves a counterexample.

Clients with the same loss start alike and receive alike, so that their iterates are the same at all times: they are one client here,
with the number of its copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, isqrt, lcm
from typing import Any

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.rational import fraction, integer, to_file
from fedtheory.theory.judge.witness import Witness

__all__ = ["VARIANTS", "evaluate", "exact_run", "form_of", "make_witness", "minimum", "numbers_of", "read_version_1"]

# Readings of the poster's Theorem 1: what is printed, or left open, put back one at a time.
VARIANTS = {
    "repaired": "all repairs in place",
    "joint G": "G bounds the joint gradient on R^{Nd}, ||grad F||^2 = (1/N^2) sum_i ||grad f_i||^2, and ||x_0 - x*|| is in R^d",
    "joint G, joint distance": "G bounds the joint gradient on R^{Nd}, and ||x_0 - x*|| is in R^{Nd}, too: sqrt(N) times that in R^d",
    "Theorem 2, joint G": "lambda, T_k and K of Theorem 2 with the joint gradient's G, and D-tilde = ||x_0 - x*||^2 in R^d",
    "Theorem 2, joint G, joint distance": "the same, and D-tilde = ||x_0 - x*||^2 in R^{Nd}",
    "line 22 with grad f_i/N": "clients step with grad f_i/N, the gradient of F on R^{Nd}; G bounds it, and ||x_0 - x*|| is in R^{Nd}",
    "Theorem 2, line 22 with grad f_i/N": "the same, and D-tilde = ||x_0 - x*||^2 in R^{Nd}",
    "Lipschitz G": "G_i is f_i's Lipschitz constant on the ball: at its boundary a subgradient that is returned may be longer",
    "consensus G": "G bounds the subgradients of x -> F(x, ..., x) only",
    "line 14 as printed": "x'_k takes the last iterate z'_k of local training, not the average",
    "no server projection": "z_k is not projected onto the ball, on which alone the losses are Lipschitz",
    "mixed norms": "clients step with grad f_i/N, as in the plain product norm, but lambda, D-tilde, G and ||x_0 - x*|| are the mean's",
    "prox without the square": "argmin_u f_i(u) + (beta/2) |u - w| in place of local training, solved exactly",
    "9.9 for 10": "9.9 ||x_0 - x*||^2 in place of 10 ||x_0 - x*||^2; one client f = -u, every T_k = 1, and F(x_K) - F* from below",
}
_LIMIT = 10_000  # local steps, of clients that differ: the numbers grow with every one,
_ROUNDS = 500  # and with every round
_NUMBERS = ("lam", "D", "radius", "x0")
_PRINTED = {"joint G": "printed", "Theorem 2, joint G": "printed"}  # what the variants' forms are called
_PRINTED |= {"joint G, joint distance": "printed, joint distance", "Theorem 2, joint G, joint distance": "printed, joint distance"}
_PRINTED |= {"Theorem 2, line 22 with grad f_i/N": "line 22 with grad f_i/N"}


def _copies(clients: list[Any], copies: list[int] | None) -> list[int]:
    return list(copies) if copies else [1] * len(clients)


def _value(lines: list[tuple[Any, Any]], x: Any) -> Any:
    return max(p * x + q for p, q in lines)


def _subgradient(lines: list[tuple[Any, Any]], x: Any) -> Any:
    best = _value(lines, x)
    return next(p for p, q in lines if p * x + q == best)


def _clip(x: Any, radius: Any) -> Any:
    return min(max(x, -radius), radius)


def _mean(values: list[Any], copies: list[int] | None = None) -> Any:
    weights = _copies(values, copies)
    total = [c * v for c, v in zip(weights, values, strict=True)]
    return sum(total[1:], total[0]) / sum(weights)


def minimum(
    clients: list[list[tuple[Any, Any]]], radius: Any, near: Any = None, copies: list[int] | None = None
) -> tuple[Any, Any]:
    """(F*, x*) of F over the interval: at an end or where two pieces of one client cross; the minimiser nearest to `near`, if given."""
    points = [-radius, radius]
    for lines in clients:
        points += _kinks(lines)
    best = [(_mean([_value(c, x) for c in clients], copies), x) for x in points if -radius <= x <= radius]
    least, x = min(best)
    if near is None:
        return least, x
    flat = [y for value, y in best if value == least]  # the minimisers are the interval between the ends of these
    return least, min(max(near, min(flat)), max(flat))


def _on_ball(lines: list[tuple[Any, Any]], radius: Any, closed: bool = True) -> Any:
    """The longest subgradient of one client on the interval: slopes at its ends. Without the ends: the Lipschitz constant."""
    at_end = [p for p, q in lines if p * radius + q == _value(lines, radius)]
    at_start = [p for p, q in lines if -p * radius + q == _value(lines, -radius)]
    return max(abs(min(at_start)), abs(max(at_end))) if closed else max(abs(max(at_start)), abs(min(at_end)))


def train(
    lines: list[tuple[Any, Any]], u0: Any, g: Any, beta: Any, steps: int, radius: Any, share: int = 1
) -> tuple[Any, Any]:
    """Lines 18-27: (u_T, u~_T), step by step, in numbers of any type."""
    u = average = u0
    for t in range(1, steps + 1):
        u = _clip(u - (_subgradient(lines, u) / share + beta * (u - u0) + g) * 2 / ((2 + t) * beta), radius)
        theta = (u0 * 0 + 2 * (t + 1)) / (t * (t + 3))
        average = (1 - theta) * average + theta * u
    return u, average


def train_exactly(
    lines: list[tuple[Fraction, Fraction]], u0: Fraction, g: Fraction, beta: Fraction, steps: int, radius: Fraction, share: int = 1
) -> tuple[Fraction, Fraction]:
    """`train` for fractions, thousands of steps in a moment: with P_t = (t+1)(t+2) u_t the step with slope p is
    P_t = P_{t-1} + 2(t+1) (u_0 - g/beta - p/(share beta)), then cut at (t+1)(t+2) R, so that all P_t have one denominator; and
    u~_T = 2/(T(T+3)) sum_t P_t/(t+2)."""
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
        at = min(max(at + 2 * (t + 1) * moves_in_units[values.index(max(values))], -most), most)
        total += at * (under // (t + 2))
    return Fraction(at, (steps + 1) * (steps + 2) * unit), Fraction(2 * total, steps * (steps + 3) * under * unit)


def _flat_prox(lines: list[tuple[Any, Any]], u0: Any, g: Any, beta: Any, radius: Any) -> Any:
    """argmin_u f_i(u) + (beta/2) |u - w| over the interval, w = u_0 - g/beta."""
    w = u0 - g / beta
    points = [-radius, radius, _clip(w, radius), *(_clip(p, radius) for p in _kinks(lines))]
    return min(points, key=lambda p: _value(lines, p) + beta / 2 * abs(p - w))


def exact_run(
    clients: list[list[tuple[Any, Any]]],
    lam: Any,
    d: Any,
    radius: Any,
    x0: Any,
    rounds: int,
    g_sq: Any,
    variant: str = "repaired",
    copies: list[int] | None = None,
) -> tuple[list[Any], list[int]]:
    """x_0..x_K and T_1..T_{K-1} of Algorithm 1; numbers of one type (Fraction, or float to search with)."""
    if rounds > _ROUNDS:
        raise InvalidInput(f"K = {rounds} exact rounds, more than {_ROUNDS}: take fewer rounds")
    n = sum(_copies(clients, copies))
    x = z = x0
    local_x, local_z = [x0] * len(clients), [x0] * len(clients)
    out, steps = [x], []
    solve = train_exactly if isinstance(x0, Fraction) else train
    for k in range(1, rounds + 1):
        beta, gamma = 4 / (lam * k), 2 / (x0 * 0 + k + 1)
        y_local = [(1 - gamma) * a + gamma * b for a, b in zip(local_x, local_z, strict=True)]
        y = (1 - gamma) * x + gamma * z
        z = z - (y - _mean(y_local, copies)) * k / 4
        if variant != "no server projection":
            z = _clip(z, radius)
        x = (1 - gamma) * x + gamma * z
        out.append(x)
        if k == rounds:
            break
        steps.append(max(1, ceil(4 * g_sq * lam * lam * rounds * k * k / (2 * d))))
        if variant != "prox without the square" and sum(steps) * len(clients) > _LIMIT:
            raise InvalidInput(
                f"{sum(steps) * len(clients)} exact local steps, more than {_LIMIT}: take fewer rounds or a larger D"
            )
        for i, lines in enumerate(clients):
            g = (y_local[i] - y) / lam
            if variant == "prox without the square":
                u = average = _flat_prox(lines, local_z[i], g, beta, radius)
            else:
                share = n if variant == "mixed norms" or "line 22" in variant else 1
                u, average = solve(lines, local_z[i], g, beta, steps[-1], radius, share)
            local_z[i] = u
            local_x[i] = (1 - gamma) * local_x[i] + gamma * (u if variant == "line 14 as printed" else average)
    return out, steps


def constants(clients: list[list[tuple[Any, Any]]], radius: Any, variant: str, copies: list[int] | None = None) -> Any:
    """G^2 in the variant's reading."""
    mean_sq = _mean([_on_ball(lines, radius, variant != "Lipschitz G") ** 2 for lines in clients], copies)
    if "joint G" in variant or "line 22" in variant:
        return mean_sq / sum(_copies(clients, copies))
    if variant == "consensus G":
        points = sorted({-radius, radius, *(x for lines in clients for x in _kinks(lines) if -radius < x < radius)})
        middle = [(a + b) / 2 for a, b in pairwise(points)]
        return max(_mean([_subgradient(lines, x) for lines in clients], copies) ** 2 for x in middle)
    return mean_sq


def _kinks(lines: list[tuple[Any, Any]]) -> list[Any]:
    return [(s - q) / (p - r) for i, (p, q) in enumerate(lines) for r, s in lines[:i] if r != p]


def evaluate(
    clients: list[list[tuple[Any, Any]]],
    lam: Any,
    d: Any,
    radius: Any,
    x0: Any,
    rounds: int,
    variant: str,
    copies: list[int] | None = None,
) -> tuple[Any, Any]:
    """F(x_K) - F* and its bound in the variant's reading: Theorem 1's (10 ||x_0 - x*||^2 + 8 D)/(lam K(K+1)) + G^2 lam/2, or
    Theorem 2's epsilon = lam G^2."""
    g_sq = constants(clients, radius, variant, copies)
    if variant == "9.9 for 10":
        return _one_slope(clients, lam, d, radius, x0, rounds)
    best, _ = minimum(clients, radius, copies=copies)
    distance_sq = _distance_sq(clients, radius, x0, variant, copies)
    if variant.startswith("Theorem 2"):
        _check_theorem_2(lam, d, rounds, g_sq, distance_sq)
    path, _ = exact_run(clients, lam, d, radius, x0, rounds, g_sq, variant, copies)
    lhs = _mean([_value(lines, path[-1]) for lines in clients], copies) - best
    if variant.startswith("Theorem 2"):
        return lhs, lam * g_sq
    return lhs, (10 * distance_sq + 8 * d) / (lam * rounds * (rounds + 1)) + g_sq * lam / 2


def in_the_bound(witness: Witness) -> tuple[Any, Any]:
    """G^2 and ||x_0 - x*||^2, as the witness's bound has them."""
    clients, _, _, radius, x0, _, variant, copies = numbers_of(witness)
    return constants(clients, radius, variant, copies), _distance_sq(clients, radius, x0, variant, copies)


def _distance_sq(clients: list[list[tuple[Any, Any]]], radius: Any, x0: Any, variant: str, copies: list[int] | None) -> Any:
    _, star = minimum(clients, radius, copies=copies)
    joint = "joint distance" in variant or "line 22" in variant
    return (x0 - star) ** 2 * (sum(_copies(clients, copies)) if joint else 1)


def _check_theorem_2(lam: Any, d: Any, rounds: int, g_sq: Any, distance_sq: Any) -> None:
    """D-tilde = ||x_0 - x*||^2 and K = ceil(6 G sqrt(2 D-tilde)/epsilon) with epsilon = lam G^2."""
    need = 72 * distance_sq / (lam * lam * g_sq)  # 72 G^2 D/epsilon^2
    least = isqrt(ceil(need) - 1) + 1 if need > 0 else 1
    if d != distance_sq or rounds != least:
        raise InvalidInput(
            f"D = {d} and K = {rounds} are not Theorem 2's: with these data and lambda it has D = {distance_sq} and K = {least}"
        )


def _one_slope(clients: list[list[tuple[Any, Any]]], lam: Any, d: Any, radius: Any, x0: Any, rounds: int) -> tuple[Any, Any]:
    """The run of one client f = -u on [-1, 1] from 0 with every T_k = 1, in closed form (docs/fedmls.md, How tight):
    x_K <= M_K = lam (K(K+1)/40 + (2K+1)/60), so that F(x_K) - F* = 1 - x_K >= 1 - M_K; nothing is cut at the interval's ends."""
    k = rounds
    if (clients, radius, x0) != ([[(-1, 0)]], 1, 0):
        raise InvalidInput("this bound is refuted by one client f = -u with R = 1 and x_0 = 0")
    if k < 2 or 2 * lam * lam * k * (k - 1) ** 2 > d or lam * (Fraction(k * (k + 1), 20) + Fraction(8, 25)) > 1:
        raise InvalidInput(
            f"K = {k}, lambda = {lam}, D = {d}: the closed form needs K >= 2, every T_k = 1, 2 lambda^2 K (K - 1)^2 <= D, and "
            "iterates that stay inside, lambda (K(K + 1)/20 + 8/25) <= 1"
        )
    lhs = 1 - lam * (Fraction(k * (k + 1), 40) + Fraction(2 * k + 1, 60))
    return lhs, (Fraction(99, 10) + 8 * d) / (lam * k * (k + 1)) + lam / 2


# --- witnesses ------------------------------------------------------------------------------------------------------------
def make_witness(
    variant: str, slopes: Any, offsets: Any, numbers: dict[str, Any], rounds: int, *,
    copies: Sequence[int] = (), statement: str = "fedmls/theorem-1", **more: Any,
) -> Witness:  # fmt: skip
    """A witness of one reading, in one dimension.

    Parameters
    ----------
    variant : key of `VARIANTS`
    slopes, offsets : (N, p)
        f_i(x) = max_j slopes_ij x + offsets_ij; the first maximal j gives the subgradient.
    numbers : lam, D, radius and x0, which are lambda, D-tilde, R and the start
    rounds : K
    copies : (N,) how many clients have each loss; empty: one each
    more : lhs, rhs (the claimed F(x_K) - F* and its bound) and further fields of `Witness`
    """
    data = {"variant": variant, "slopes": to_file(slopes), "offsets": to_file(offsets), **to_file(numbers), "rounds": rounds}
    label = f"{statement}-{variant.removeprefix('Theorem 2, ')}"
    fields = {"rule": "deterministic", "label": label, **more}
    return Witness(statement, form_of(variant), kind="lines", data={**data, "copies": list(copies)}, **fields)


def form_of(variant: str) -> str:
    """The name of the form that a reading belongs to."""
    return _PRINTED.get(variant, variant)


def numbers_of(witness: Witness) -> tuple[Any, ...]:
    """(clients, lambda, D, R, x_0, K, variant, copies) of a witness: what `evaluate` takes.

    Raises
    ------
    InvalidInput
        Missing or malformed data, or data of no such run.
    """
    data = witness.data
    missing = [name for name in (*_NUMBERS, "variant", "slopes", "offsets", "rounds") if name not in data]
    unknown = sorted(set(data) - {*_NUMBERS, "variant", "slopes", "offsets", "rounds", "copies"})
    if missing or unknown:
        what = [f"{word}: {', '.join(names)}" for word, names in (("missing", missing), ("unknown", unknown)) if names]
        raise InvalidInput(f"data of kind 'lines': wrong fields ({'; '.join(what)})")
    clients = _lines(data["slopes"], data["offsets"])
    lam, d, radius, x0 = (fraction(data[name], name) for name in _NUMBERS)
    rounds = integer(data["rounds"], "rounds", least=1, most=10**9)
    if not (lam > 0 and d > 0 and radius > 0):
        raise InvalidInput(f"lambda = {lam}, D = {d}, radius = {radius}: they must be > 0")
    if abs(x0) > radius:
        raise InvalidInput(f"x_0 = {x0} is outside the ball of radius {radius}: the theorem asks for a start inside")
    variant, copies = data["variant"], data.get("copies", [])
    if not isinstance(variant, str) or variant not in VARIANTS:
        raise InvalidInput(f"variant = {variant!r}: use one of {', '.join(VARIANTS)}")
    if variant.startswith("Theorem 2") != (witness.statement == "fedmls/theorem-2"):
        raise InvalidInput(f"variant = {variant!r} is not about {witness.statement}")
    if form_of(variant) != witness.form:
        raise InvalidInput(f"variant = {variant!r} is form {form_of(variant)!r}, not {witness.form!r}")
    counted = isinstance(copies, list) and all(isinstance(c, int) and not isinstance(c, bool) and c >= 1 for c in copies)
    if not counted or len(copies) not in (0, len(clients)):
        raise InvalidInput(f"copies = {copies}: give {len(clients)} integers >= 1, one for each loss, or none")
    return clients, lam, d, radius, x0, rounds, variant, copies


def _lines(slopes: Any, offsets: Any) -> list[list[tuple[Fraction, Fraction]]]:
    """The pieces of every client."""
    rows = isinstance(slopes, list) and isinstance(offsets, list) and all(isinstance(row, list) for row in (*slopes, *offsets))
    if not rows or not slopes or [len(a) for a in slopes] != [len(b) for b in offsets] or not all(slopes):
        raise InvalidInput("slopes and offsets: expected one list of fractions for each client, as many offsets as slopes")
    named = [(f"slopes[{i}]", f"offsets[{i}]") for i in range(len(slopes))]
    return [
        [(fraction(p, name_p), fraction(q, name_q)) for p, q in zip(a, b, strict=True)]
        for a, b, (name_p, name_q) in zip(slopes, offsets, named, strict=True)
    ]


def read_version_1(fields: dict[str, Any], label: str) -> Witness:
    """A witness from the fields of a version-1 file. Raises `DataFileError` that names missing and unknown fields."""
    needed = ("variant", "slopes", "offsets", *_NUMBERS, "rounds", "lhs", "rhs")
    optional = ("statement", "rule", "copies", "found_by")
    missing, unknown = [k for k in needed if k not in fields], sorted(set(fields) - {*needed, *optional})
    if missing or unknown:
        raise DataFileError(f"{label}: wrong fields (missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'})")
    kinds = dict.fromkeys(("variant", "lhs", "rhs", "statement", "rule"), str) | dict.fromkeys(("slopes", "offsets", "copies"), list)
    for name, kind in kinds.items():
        if name in fields and not isinstance(fields[name], kind):
            raise DataFileError(f"{label}: {name} is {fields[name]!r}; write it as a {'string' if kind is str else 'list'}")
    given = dict(fields)
    numbers = {name: given.pop(name) for name in _NUMBERS}
    return make_witness(**given, numbers=numbers)
