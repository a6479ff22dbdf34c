"""Moreau's envelope of two losses in the plane, each the larger of two lines: `worked_mopes.envelope` has the formulas."""

from __future__ import annotations

from fractions import Fraction as Q

from worked_mopes import envelope

PLANE = [[([s * Q(1, 2), Q(0)], Q(1, 4)), ([s * Q(40, 41), Q(9, 41)], Q(20, 41))] for s in (1, -1)]


def data(form: str) -> dict[str, object]:
    """The instance, as a witness file has it."""
    return {
        "lam": "1", "u": [["-1/2", "0"], ["1/2", "0"]], "drops": [["0", "0"], ["0", "0"]], "star": ["0", "-13/12"],
        "slopes": [[["1/2", "0"], ["40/41", "9/41"]], [["-1/2", "0"], ["-40/41", "9/41"]]], "multipliers": [["1", "0"], ["1", "0"]],
    }  # fmt: skip


def sides(form: str) -> list[tuple[Q, Q]]:
    """(lhs, rhs) of every row."""
    return [envelope(PLANE, Q(1), [[Q(-1, 2), Q(0)], [Q(1, 2), Q(0)]], [Q(0), Q(-13, 12)])[form]]
