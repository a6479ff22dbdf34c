"""Classes of losses and chances of cohorts worked a second time, in fractions, with every edge from
both sides."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations

import pytest
from cases import each

from fedtheory.errors import InvalidInput
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import Quadratic, common
from fedtheory.worst_cases.numbers import exact
from fedtheory.worst_cases.runs import spread

TINY = F(1, 10**30)


def evaluated(form: Quadratic, vectors, values) -> F:
    """A form of common vectors on the line."""
    gram = sum(c * vectors[x] * vectors[y] for (_, x, y), c in form.gram.items())
    return form.constant + gram + sum(c * values[p] for p, c in form.values.items())


def on_parabola(losses, curvature, i, j):
    """The condition of two points on curvature x^2/2."""
    points = [Point(name, common(f"x{name}"), common(f"g{name}")) for name in "ij"]
    where = {"i": i, "j": j}
    vectors = {f"x{name}": x for name, x in where.items()}
    vectors |= {f"g{name}": curvature * x for name, x in where.items()}
    return evaluated(
        losses.condition(*points), vectors, {n: curvature / 2 * x * x for n, x in where.items()}
    )


@pytest.mark.parametrize(
    ("L", "mu"), [(F(3), F(0)), (F(3), F(1)), (F(2), F(2) - TINY), (F(1, 7), F(1, 9))]
)
def test_a_parabola_is_in_the_class_up_to_both_curvatures_and_not_beyond(L, mu):
    """(c - mu) (L - c)/(2 (L - mu)) of the squared distance of two points is left."""
    losses = Losses(L, mu)
    for c in (mu, L, (mu + L) / 2, mu + TINY / 9, mu - TINY, L + TINY):
        left = on_parabola(losses, c, F(5), F(-2))
        assert left == (c - mu) * (L - c) / (2 * (L - mu)) * 49
        assert (left >= 0) == (mu <= c <= L) and (left == 0) == (c in (mu, L))


@pytest.mark.parametrize("mu", [F(0), F(2, 3)])
def test_without_a_largest_curvature_the_least_one_is_left(mu):
    for c in (mu, mu + TINY, mu - TINY, F(10**9)):
        assert on_parabola(Losses(None, mu), c, F(5), F(-2)) == (c - mu) / 2 * 49


def test_bounded_gradients_up_to_their_bound():
    losses = Losses(None, lipschitz=F(3))
    points = [Point(name, common(f"x{name}"), common(f"g{name}")) for name in "ij"]
    found = losses.conditions(points)
    assert set(found) == {"i, j", "j, i", "|i|", "|j|"} and set(Losses().conditions(points)) == {
        "i, j",
        "j, i",
    }
    assert (
        evaluated(found["|j|"], {"gj": F(3), "gi": F(9)}, {}) == 0
        and evaluated(found["|i|"], {"gi": F(2)}, {}) == 5
    )


@each(
    ("numbers", "fine"),
    [
        ((1, 0), True), ((1, TINY), True), ((1, 1 - TINY), True), ((1, 1), False),
        ((1, 1 + TINY), False), ((1, -TINY), False),
        ((TINY, 0), True), ((0, 0), False), ((-1, -2), False), ((None, 0), True),
        ((None, 10**9), True), ((None, -TINY), False),
        ((1, 0, TINY), True), ((1, 0, 0), False), ((1, 0, -TINY), False), ((None, 0, 1), True),
        ((1, TINY, 1), False),
    ],
)  # fmt: skip
def test_which_classes_there_are(numbers, fine):
    if fine:
        losses = Losses(*numbers)
        assert (losses.smoothness, losses.strong_convexity, losses.lipschitz) == (*numbers, None)[
            :3
        ]
    else:
        with pytest.raises(InvalidInput):
            Losses(*numbers)


@each(("N", "P"), [(N, P) for N in range(1, 6) for P in range(1, N + 1)])
def test_what_of_the_variance_a_cohorts_mean_has(N, P):
    """Over all cohorts of some numbers: how far their means are from the mean of all."""
    numbers = [F(k * k - 3 * k + 1, k + 2) for k in range(N)]
    mean = sum(numbers) / N
    cohorts = list(combinations(numbers, P))
    of_cohorts = sum((sum(c) / P - mean) ** 2 for c in cohorts) / len(cohorts)
    assert of_cohorts == spread(N, P) * sum((x - mean) ** 2 for x in numbers) / N
    assert N > 1 or spread(N, P) == 0


def test_numbers_are_what_is_written():
    assert [exact("x", n) for n in (0.1, "1/3", 2, F(2, 7), "0.25")] == [
        F(1, 10),
        F(1, 3),
        2,
        F(2, 7),
        F(1, 4),
    ]
    for wrong in (float("nan"), float("inf"), True, None, "a", "1/0"):
        with pytest.raises(InvalidInput, match="x = "):
            exact("x", wrong)
