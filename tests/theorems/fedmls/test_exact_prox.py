"""The recursion of rounds whose local problems are solved: proved for every loss and round, and with no smaller constant."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from fedtheory.theorems.fedmls.exact_prox_proof import exact_prox_recursion_is_proved


def test_it_is_proved_for_every_round():
    """4/(k (k + 1)) before the squared distances, and no less: from 0, max(-u, -M) has its optimum at M, lambda = 1."""
    assert exact_prox_recursion_is_proved()
    M = 10**6
    for k in (1, 2, 7):
        share = F(2, k + 1)
        z_own = F(k, 4)
        x_own = share * z_own
        after = -x_own + M + x_own**2 / 2  # Psi_k - F*: the server stays where it is
        least = (after - (1 - share) * M) / (M**2 - (M - z_own) ** 2)
        assert F(4, k * (k + 1)) * F(999999, 1000000) <= least <= F(4, k * (k + 1))


@pytest.mark.parametrize("four", [F(39, 10), F(41, 10)])
def test_it_is_not_proved_with_another_number(four):
    assert not exact_prox_recursion_is_proved(four)
