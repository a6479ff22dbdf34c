"""FedMLS in exact rational arithmetic, in one dimension.

There every operation of Algorithm 1 is rational: the losses are maxima of affine functions, the ball is an interval, and the steps
1/((1 + t/2) beta) are fractions. It is a second implementation of the algorithm, and what proves a counterexample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.theorems.core import Check

__all__ = ["VARIANTS", "MLSWitness", "evaluate", "exact_run", "minimum", "parse", "replay"]

# Readings of the poster's Theorem 1: what is printed, or left open, put back one at a time.
VARIANTS = {
    "repaired": "all repairs in place",
    "joint G": "G bounds the joint gradient on R^{Nd}, ||grad F||^2 = (1/N^2) sum_i ||grad f_i||^2, and ||x_0 - x*|| is in R^d",
    "consensus G": "G bounds the subgradients of x -> F(x, ..., x) only",
    "line 14 as printed": "x'_k takes the last iterate z'_k of local training, not the average",
    "no server projection": "z_k is not projected onto the ball, on which alone the losses are Lipschitz",
    "mixed norms": "clients step with grad f_i/N, as in the plain product norm, but lambda, D-tilde, G and ||x_0 - x*|| are the mean's",
    "prox without the square": "argmin_u f_i(u) + (beta/2) |u - w| in place of local training, solved exactly",
}
_LIMIT = 4000  # local steps: fractions grow with every one


@dataclass(frozen=True)
class MLSWitness:
    """One run of FedMLS in one dimension.

    Attributes
    ----------
    slopes, offsets : (N, p)
        f_i(x) = max_j slopes_ij x + offsets_ij; the first maximal j gives the subgradient.
    lam, D, radius, x0 : lambda, D-tilde, R and the start
    rounds : K
    variant : key of `VARIANTS`
    lhs, rhs : the claimed F(x_K) - F* and its bound
    """

    variant: str
    slopes: list[list[str]]
    offsets: list[list[str]]
    lam: str
    D: str
    radius: str
    x0: str
    rounds: int
    lhs: str = ""
    rhs: str = ""
    statement: str = "fedmls/theorem-1"
    rule: str = "deterministic"
    found_by: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"fedmls-theorem-1-{self.variant.replace(' ', '-').lower()}"

    @property
    def form(self) -> str:
        return "printed" if self.variant == "joint G" else self.variant

    def __str__(self) -> str:
        return f"{self.statement} [{self.variant}]: N = {len(self.slopes)}, d = 1, K = {self.rounds}"


def _value(lines: list[tuple[Any, Any]], x: Any) -> Any:
    return max(p * x + q for p, q in lines)


def _subgradient(lines: list[tuple[Any, Any]], x: Any) -> Any:
    best = _value(lines, x)
    return next(p for p, q in lines if p * x + q == best)


def _clip(x: Any, radius: Any) -> Any:
    return min(max(x, -radius), radius)


def _mean(values: list[Any]) -> Any:
    return sum(values[1:], values[0]) / len(values)


def minimum(clients: list[list[tuple[Any, Any]]], radius: Any, near: Any = None) -> tuple[Any, Any]:
    """(F*, x*) of F over the interval: at an end or where two pieces of one client cross; the minimiser nearest to `near`, if given."""
    points = [-radius, radius]
    for lines in clients:
        for i, (p, q) in enumerate(lines):
            points += [(s - q) / (p - r) for r, s in lines[:i] if r != p]
    best = [(_mean([_value(c, x) for c in clients]), x) for x in points if -radius <= x <= radius]
    least, x = min(best)
    if near is None:
        return least, x
    flat = [y for value, y in best if value == least]  # the minimisers are the interval between the ends of these
    return least, min(max(near, min(flat)), max(flat))


def _on_ball(lines: list[tuple[Any, Any]], radius: Any) -> Any:
    """The Lipschitz constant of one client on the interval: its slopes at the two ends."""
    at_end = [p for p, q in lines if p * radius + q == _value(lines, radius)]
    at_start = [p for p, q in lines if -p * radius + q == _value(lines, -radius)]
    return max(abs(min(at_start)), abs(max(at_end)), abs(max(at_start)), abs(min(at_end)))


def exact_run(
    clients: list[list[tuple[Any, Any]]], lam: Any, d: Any, radius: Any, x0: Any, rounds: int, g_sq: Any, variant: str = "repaired"
) -> tuple[list[Any], list[int]]:
    """x_0..x_K and T_1..T_{K-1} of Algorithm 1; numbers of one type (Fraction, or float to search with)."""
    n = len(clients)
    x = z = x0
    local_x, local_z = [x0] * n, [x0] * n
    out, steps = [x], []
    for k in range(1, rounds + 1):
        beta, gamma = 4 / (lam * k), 2 / (x0 * 0 + k + 1)
        y_local = [(1 - gamma) * a + gamma * b for a, b in zip(local_x, local_z, strict=True)]
        y = (1 - gamma) * x + gamma * z
        z = z - (y - _mean(y_local)) * k / 4
        if variant != "no server projection":
            z = _clip(z, radius)
        x = (1 - gamma) * x + gamma * z
        out.append(x)
        if k == rounds:
            break
        t_k = max(1, ceil(4 * g_sq * lam * lam * rounds * k * k / (2 * d)))
        steps.append(t_k)
        if variant != "prox without the square" and sum(steps) * n > _LIMIT:
            raise InvalidInput(f"{sum(steps) * n} exact local steps, more than {_LIMIT}: take fewer rounds or a larger D")
        for i, lines in enumerate(clients):
            g, u0 = (y_local[i] - y) / lam, local_z[i]
            u = average = u0
            share = n if variant == "mixed norms" else 1
            if variant == "prox without the square":
                w = u0 - g / beta
                points = [-radius, radius, _clip(w, radius), *(_clip(p, radius) for p in _kinks(lines))]
                u = average = min(points, key=lambda p: _value(lines, p) + beta / 2 * abs(p - w))
                t_k = 0
            for t in range(1, t_k + 1):
                u = _clip(u - (_subgradient(lines, u) / share + beta * (u - u0) + g) * 2 / ((2 + t) * beta), radius)
                theta = (x0 * 0 + 2 * (t + 1)) / (t * (t + 3))
                average = (1 - theta) * average + theta * u
            local_z[i] = u
            local_x[i] = (1 - gamma) * local_x[i] + gamma * (u if variant == "line 14 as printed" else average)
    return out, steps


def constants(clients: list[list[tuple[Any, Any]]], radius: Any, variant: str) -> Any:
    """G^2 in the variant's reading."""
    n = len(clients)
    mean_sq = _mean([_on_ball(lines, radius) ** 2 for lines in clients])
    if variant == "joint G":
        return mean_sq / n
    if variant == "consensus G":
        points = sorted({-radius, radius, *(x for lines in clients for x in _kinks(lines) if -radius < x < radius)})
        middle = [(a + b) / 2 for a, b in pairwise(points)]
        return max(_mean([_subgradient(lines, x) for lines in clients]) ** 2 for x in middle)
    return mean_sq


def _kinks(lines: list[tuple[Any, Any]]) -> list[Any]:
    return [(s - q) / (p - r) for i, (p, q) in enumerate(lines) for r, s in lines[:i] if r != p]


def evaluate(
    clients: list[list[tuple[Any, Any]]], lam: Any, d: Any, radius: Any, x0: Any, rounds: int, variant: str
) -> tuple[Any, Any]:
    """F(x_K) - F* and the bound (10 ||x_0 - x*||^2 + 8 D)/(lam K(K+1)) + G^2 lam/2 in the variant's reading."""
    g_sq = constants(clients, radius, variant)
    path, _ = exact_run(clients, lam, d, radius, x0, rounds, g_sq, variant)
    best, star = minimum(clients, radius)
    lhs = _mean([_value(lines, path[-1]) for lines in clients]) - best
    return lhs, (10 * (x0 - star) ** 2 + 8 * d) / (lam * rounds * (rounds + 1)) + g_sq * lam / 2


def _numbers(witness: MLSWitness) -> tuple[Any, ...]:
    clients = [
        [(Fraction(p), Fraction(q)) for p, q in zip(a, b, strict=True)] for a, b in zip(witness.slopes, witness.offsets, strict=True)
    ]
    lam, d, radius, x0 = (Fraction(v) for v in (witness.lam, witness.D, witness.radius, witness.x0))
    if not (lam > 0 and d > 0 and radius > 0 and witness.rounds >= 1):
        raise InvalidInput("lambda, D and the radius must be > 0, and K >= 1")
    if abs(x0) > radius:
        raise InvalidInput(f"x_0 = {x0} is outside the ball of radius {radius}: the theorem asks for a start inside")
    if witness.variant not in VARIANTS:
        raise InvalidInput(f"variant = {witness.variant!r}: use one of {', '.join(VARIANTS)}")
    return clients, lam, d, radius, x0


def parse(data: dict[str, Any], label: str) -> MLSWitness:
    """A witness from the fields of its JSON file. Raises `DataFileError` that names missing and unknown fields."""
    known = MLSWitness.__dataclass_fields__
    needed = ("variant", "slopes", "offsets", "lam", "D", "radius", "x0", "rounds", "lhs", "rhs")
    missing, unknown = [k for k in needed if k not in data], sorted(set(data) - set(known))
    if missing or unknown:
        raise DataFileError(f"{label}: wrong fields (missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'})")
    return MLSWitness(**data)


def replay(witness: MLSWitness) -> Check:
    """Rerun a witness exactly.

    Raises
    ------
    InvalidInput
        When the data do not violate the claim, or the recorded sides are not what comes out.
    """
    lhs, rhs = evaluate(*_numbers(witness), witness.rounds, witness.variant)
    if not lhs > rhs:
        raise InvalidInput(f"not a witness: Theorem 1 ({witness.variant}) holds here, {float(lhs):.6g} <= {float(rhs):.6g}")
    if (witness.lhs, witness.rhs) != ("", "") and (Fraction(witness.lhs), Fraction(witness.rhs)) != (lhs, rhs):
        raise InvalidInput(
            f"the file claims {witness.lhs} > {witness.rhs}, but {lhs} > {rhs} comes out: it was changed after it was found"
        )
    return Check(
        witness.statement, witness.form, witness.rule, "violated", "rational",
        slack=float((rhs - lhs) / (abs(lhs) + abs(rhs))), tightness=float(lhs / rhs), lhs=float(lhs), rhs=float(rhs),
        where={"K": witness.rounds, "exact": [str(lhs), str(rhs)]}, count=1,
    )  # fmt: skip
