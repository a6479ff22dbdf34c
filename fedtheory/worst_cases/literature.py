"""One-round inequalities that are printed, or proved in general, to be put beside the best ones:
full gradients, server step 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any

from fedtheory.worst_cases.potentials import RoundQuestion
from fedtheory.worst_cases.rounds import KAPPA, KAPPA_0, C
from fedtheory.worst_cases.runs import spread

__all__ = ["Printed", "printed"]


@dataclass(frozen=True)
class Printed:
    """Constants that somebody printed.

    Attributes
    ----------
    source : who, and where
    numbers : dict of rho, kappa_0, kappa and c, those that the inequality has
    outside : why they are not claimed for the round, or None
    """

    source: str
    numbers: Mapping[str, Any]
    outside: str | None = None


def printed(asked: RoundQuestion) -> list[Printed]:
    """List what the literature says of this round; FedDyn's papers have statements of their own."""
    found = _OF.get(asked.method)
    if found is None:
        return []
    ours = None if "B" in asked.options else _ANY_K.get(asked.method)
    return [found(asked)] if ours is None else [found(asked), ours(asked)]


def _first(*reasons: tuple[bool, str]) -> str | None:
    return next((reason for holds, reason in reasons if not holds), None)


def _fedavg(q: RoundQuestion) -> Printed:
    h, L, mu, P, N = q.options["step"] * q.local_steps, q.smoothness, q.strong_convexity, q.participants, q.clients
    if "B" not in q.options:
        return Printed(
            "Khaled, Mishchenko, Richtarik 2019, Theorem 1",
            {"rho": Fraction(1), KAPPA_0: h / 2, C: 12 * L * h**3},
            _first((P == N, "everybody takes part"), (h <= 1 / (4 * L), f"step <= 1/(4 L K) = {1 / (4 * L * q.local_steps)}")),
        )
    B, away = q.options["B"], 1 - Fraction(P, N)
    most = 1 / (8 * (1 + B**2) * L)
    return Printed(
        "Karimireddy et al. 2020, Lemmas 7 and 8",
        {"rho": 1 - mu * h / 2, KAPPA_0: h / 3, C: 4 * away * h**2 + 18 * L * h**3},
        _first(
            (P in (1, N), "one takes part, or everybody (other cohorts are not read here)"),
            (h <= most, f"step <= 1/(8 (1 + B^2) L K) = {most / q.local_steps}"),
        ),
    )


def _fedavg_any_k(q: RoundQuestion) -> Printed:
    """The bound that docs/worst_cases.md proves for every K."""
    step, K, L = q.options["step"], q.local_steps, q.smoothness
    s = (step * L) ** 2 * K * (K - 1)
    outside = _first(
        (q.participants == q.clients, "everybody takes part"),
        (step * L <= 1, f"step <= 1/L = {1 / L}"),
        (s < 2, f"(step L)^2 K (K - 1) < 2, and it is {float(s):.4g}"),
    )
    numbers = {"rho": Fraction(1), KAPPA_0: 2 * step * K}
    if outside is None:
        numbers[C] = step**3 * L * K * (K - 1) * (2 * K - 1) / (3 * (2 - s))
    return Printed("ours, proved for every K", numbers, outside)


def _scaffold(q: RoundQuestion) -> Printed:
    h, L, mu, P, N = q.options["step"] * q.local_steps, q.smoothness, q.strong_convexity, q.participants, q.clients
    return Printed(
        "Karimireddy et al. 2020, Lemma 13",
        {"rho": 1 - mu * h / 2, KAPPA_0: h, KAPPA: 9 * N * h**2 / P},
        _first(
            (h <= 1 / (81 * L), f"step <= 1/(81 L K) = {1 / (81 * L * q.local_steps)}"),
            (15 * mu * N * h <= P, f"step <= P/(15 mu N K) = {P / (15 * mu * N * q.local_steps) if mu else None}"),
        ),
    )


def _scaffold_any_k(q: RoundQuestion) -> Printed:
    """The bound that docs/worst_cases.md proves for every K, N and P."""
    h, L, N, P = q.options["step"] * q.local_steps, q.smoothness, q.clients, q.participants
    sigma = spread(N, P)
    most = Fraction(3, 5) / ((1 + 2 * sigma) * L)
    return Printed(
        "ours, proved for every K",
        {
            "rho": Fraction(1),
            KAPPA_0: 2 * h,
            KAPPA: Fraction(N, P) * (2 * sigma * h**2 + 2 * L * h**3 / 3),
        },
        _first((h <= most, f"step <= 3/(5 (1 + 2 sigma) L K) = {most / q.local_steps}")),
    )


def _fedprox(q: RoundQuestion) -> Printed:
    """rho of Theorem 4 with exact local solves; for convex losses its limit as the negative curvature goes to 0."""
    mu, B, L, K = (float(x) for x in (q.options["mu"], q.options["B"], q.smoothness, q.participants))
    near = mu + min(0.0, float(q.strong_convexity))
    rho = -1.0
    if near > 0:
        rho = 1 / mu - B * sqrt(2 / K) / near - L * B / (near * mu) - L * B**2 / (2 * near**2)
        rho -= L * B**2 / (near**2 * K) * (2 * sqrt(2 * K) + 2)
    outside = None if rho > 0 else "a larger mu, or more clients"
    return Printed("Li et al. 2020 (FedProx), Theorem 4", {"rho": Fraction(1), KAPPA_0: rho}, outside)


def _efl(q: RoundQuestion) -> Printed:
    step, L, mu, E = q.options["step"], q.smoothness, q.strong_convexity, q.local_steps
    return Printed(
        "EFL, the round behind Theorem 1",
        {"rho": 1 - step * mu * E / 4, KAPPA_0: Fraction(0), C: Fraction(1)},
        _first((mu > 0, "mu > 0"), (4 * L * step <= 1, f"step <= 1/(4 L) = {1 / (4 * L)}"),
               (step * mu * E <= 4, "step mu E <= 4")),
    )  # fmt: skip


_ANY_K = {"fedavg": _fedavg_any_k, "scaffold": _scaffold_any_k}
_OF = {"fedavg": _fedavg, "scaffold": _scaffold, "fedprox": _fedprox, "efl": _efl}
