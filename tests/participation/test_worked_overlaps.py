"""E[(X - 2)_+ Y] worked a second time: every case of few clients, on the documented grid."""

from __future__ import annotations

import math
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from cases import each

from fedtheory.errors import InvalidInput
from fedtheory.participation.positive_part import _unit, overlap_of_complete, overlap_of_sums

CELLS = 2**14
REST = 2 - math.sqrt(2)  # with the first client's first term it makes 2
TERMS = np.array([[math.sqrt(2), 0.9, 0.1], [math.sqrt(3), REST + 1e-4, 0.2], [0.7, REST, 9.0]])
TERMS[2, 1] += 7.5 * TERMS[[0, 1, 2], 0].sum() / CELLS  # beyond two cells a client, within three
CHANCE = np.array([[0.3, 0.2, 0.1], [0.25, 0.25, 0.3], [0.2, 0.4, 0.0]])
GAIN = np.array([1.5, 2.0, 0.75])


def on_the_grid(value, h):
    """The neighbours on the grid and their chances, which keep the mean."""
    low = math.floor(value / h)
    up = value / h - low
    return [(low * h, 1 - up), ((low + 1) * h, up)], up * (1 - up)


def test_sums_of_independent_terms_case_by_case():
    """From above on the grid; below by half a deviation within two cells a client of 2."""
    used = np.where(CHANCE > 0, TERMS, 0)
    h = used.max(axis=1).sum() / CELLS
    ways, variances = [], []
    for terms, chances, gain in zip(TERMS, CHANCE, GAIN, strict=True):
        options, spreads = [(0.0, 1 - chances.sum(), 0.0)], [0.0]
        for value, chance in zip(terms, chances, strict=True):
            places, spread = on_the_grid(value, h)
            options += [(at, chance * share, gain) for at, share in places]
            spreads.append(spread if chance > 0 else 0.0)
        ways.append(options), variances.append(max(spreads))
    upper = exact = near = 0.0
    for case in product(*ways):
        x, mass, y = sum(c[0] for c in case), math.prod(c[1] for c in case), sum(c[2] for c in case)
        upper += mass * max(x - 2, 0) * y
        near += mass * y if abs(x - 2) <= 2 * 3 * h else 0.0
    rows = [
        [
            (0.0, 1 - chances.sum(), 0.0),
            *((x, q, gain) for x, q in zip(terms, chances, strict=True)),
        ]
        for terms, chances, gain in zip(TERMS, CHANCE, GAIN, strict=True)
    ]
    for case in product(*rows):
        x, mass, y = (f(c[i] for c in case) for i, f in enumerate((sum, math.prod, sum)))
        exact += mass * max(x - 2, 0) * y
    assert near > 0
    found = overlap_of_sums(TERMS, CHANCE, GAIN, False)
    assert not found.exact and found.lower <= exact <= found.value
    assert found.value == pytest.approx(upper, rel=1e-10)
    assert found.value - found.lower == pytest.approx(
        h / 2 * math.sqrt(sum(variances)) * near, rel=1e-4
    )
    halved = found / 0.5
    assert (halved.value, halved.lower, halved.exact) == (
        found.value / 0.5,
        found.lower / 0.5,
        False,
    )


@each("size", [None, 1, 2])
@each("cells", [-2.6, -0.6, 0.6, 2.6, 700.0])
def test_complete_clients_case_by_case(size, cells):
    """X = n W/K, Y = E X; below by a variance and a deviation, of n h/(2 sqrt K).

    The first client alone makes X = 2 and so many cells a client; the second is well above 2.
    """
    n, E = 5, 7
    chance = np.array([0.5, 0.3, 0.8, 0.2, 0.6]) if size is None else np.full(n, 0.4)
    first = 2 / n + cells * math.sqrt(1.001) / CELLS
    weights = np.array([first, 0.45, 0.03, 0.07, 0.45 - first])
    h = weights.sum() / CELLS
    upper = gap = exact = total = 0.0
    for who in product((False, True), repeat=n):
        mass = math.prod(q if here else 1 - q for q, here in zip(chance, who, strict=True))
        K = sum(who)
        if not K or (size is not None and K != size):
            continue
        total += mass
        true = n * sum(w for w, here in zip(weights, who, strict=True) if here) / K
        exact += mass * max(true - 2, 0) * true
        grids = [on_the_grid(w, h)[0] for w, here in zip(weights, who, strict=True) if here]
        deviation = n * h / (2 * math.sqrt(K))
        for places in product(*grids):
            x, share = n * sum(p[0] for p in places) / K, mass * math.prod(p[1] for p in places)
            upper += share * max(x - 2, 0) * x
            gap += share * deviation**2 * (x > 2 - 2 * n * h)
            gap += share * deviation * (abs(x - 2) <= 2 * n * h)
    total = 1.0 if size is None else total
    found = overlap_of_complete(chance, weights, E, False, size)
    assert not found.exact and found.lower <= E * exact / total * (1 + 1e-12)
    assert E * exact / total <= found.value * (1 + 1e-12)
    assert found.value == pytest.approx(E * upper / total, rel=1e-10)
    assert found.value - found.lower == pytest.approx(E * gap / total, rel=1e-6)


def test_the_unit_of_numbers():
    """The largest h of which all are multiples; the largest number has at most so many of it."""
    numbers = np.array([1 / 4, 1 / 6])
    assert _unit(numbers, 3) == pytest.approx(1 / 12) and _unit(numbers, 2.9) is None
    assert _unit(np.array([0.5, 1.5]), 3) == 0.5 and _unit(np.array([6.0, 4.0]), 9) == 2
    assert _unit(np.array([1 / 999_983]), 2e6) == pytest.approx(1 / 999_983)
    assert (
        _unit(np.array([1 / 1_000_003]), 2e6) is None
        and _unit(np.array([math.sqrt(2)]), 1e12) is None
    )
    assert _unit(np.array([(1 + 0.95e-14) / 3]), 10) == pytest.approx(1 / 3)
    assert _unit(np.array([(1 + 1.05e-14) / 3]), 10) is None
    assert _unit(np.array([1 + 1.05e-14]) * 300, 1e9) is None


def test_what_stays_at_2_has_no_overlap():
    terms, gain = np.array([[1.0], [1.0]]), np.ones(2)
    assert overlap_of_sums(terms, np.full((2, 1), 0.5), gain, False).value == 0
    more = overlap_of_sums(terms * (1 + 2.0**-20), np.full((2, 1), 0.5), gain, False)
    assert more.value == pytest.approx(0.25 * 2 * 2 * 2.0**-20, rel=1e-9)
    assert overlap_of_complete(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 1, False).value == 0
    alone = overlap_of_complete(np.array([0.5, 0, 0.3]), np.array([0.8, 0.1, 0.1]), 1, False)
    assert alone.exact and alone.value == pytest.approx(0.5 * 0.7 * 0.4 * 2.4)
    assert overlap_of_complete(np.zeros(3), np.full(3, 1 / 3), 1, False).value == 0


@pytest.mark.parametrize("size", [None, 1, 2])
def test_fractions_are_summed_over_every_case(size):
    E = 4
    terms = np.array([[F(3, 2), F(1, 2)], [F(5, 4), F(1)], [F(1, 7), F(2)]])
    chance = np.array([[F(1, 4), F(1, 4)], [F(1, 8), F(7, 8)], [F(0), F(1, 3)]])
    gain = np.array([F(1), F(2), F(5)])
    rows = [
        [(F(0), 1 - sum(q), F(0)), *zip(x, q, [y, y], strict=True)]
        for x, q, y in zip(terms, chance, gain, strict=True)
    ]
    wanted = F(0)
    for case in product(*rows):
        x, mass, y = (f(c[i] for c in case) for i, f in enumerate((sum, math.prod, sum)))
        wanted += mass * max(x - 2, 0) * y
    found = overlap_of_sums(terms, chance, gain, True)
    assert found == (wanted, wanted, True) and wanted > 0
    weights = np.array([F(4, 5)] + [F(1, 20)] * 4)  # pairs with the first make 17/8 alike
    alone = np.array([F(1, 3), F(2, 3), F(1, 3), F(1, 5), F(1, 2)])
    if size is not None:
        alone = np.full(5, F(1, 3))
    wanted = total = F(0)
    for who in product((False, True), repeat=5):
        mass = math.prod(q if here else 1 - q for q, here in zip(alone, who, strict=True))
        K = sum(who)
        if size is None or K == size:
            total += mass
            x = 5 * sum(w for w, here in zip(weights, who, strict=True) if here) / F(max(K, 1))
            wanted += mass * max(x - 2, 0) * x * E
    found = overlap_of_complete(alone, weights, E, True, size)
    assert found == (wanted / total, wanted / total, True)


def test_which_sums_are_taken_exactly(monkeypatch):
    """Cells times twice the terms (of complete clients: times 2 n^2) up to a stated work."""
    terms, chance = np.array([[2.0, 0.25], [1.0, 0.5]]), np.array([[0.5, 0.25], [0.5, 0.0]])
    weights = np.array([1.5, 0.25, 0.25])
    for call, work in (
        (lambda: overlap_of_sums(terms, chance, np.ones(2), False), 2 * 3 * 3 / 0.25),
        (lambda: overlap_of_complete(np.full(3, 0.5), weights, 1, False), 2 * 3 * 3 * 2 / 0.25),
    ):
        for most, exact in ((work, True), (0.99 * work, False)):
            monkeypatch.setattr("fedtheory.participation.positive_part.MAX_WORK", most)
            assert call().exact is exact
    thirds = np.array([[F(3), F(0)], [F(1), F(2)]])  # sums 0, 1, 2, 3, 4, 5
    third = np.array([[F(1, 3), F(1, 3)], [F(1, 3), F(1, 3)]])
    halves, two = np.array([F(1, 2), F(1, 2)]), np.array([F(9, 8), F(-1, 8)])  # four pairs
    for call, states in (
        (lambda: overlap_of_sums(thirds, third, np.array([F(1), F(1)]), True), 6),
        (lambda: overlap_of_complete(halves, two, 1, True), 4),
    ):
        monkeypatch.setattr("fedtheory.participation.positive_part.MAX_STATES", states)
        call()
        monkeypatch.setattr("fedtheory.participation.positive_part.MAX_STATES", states - 1)
        with pytest.raises(InvalidInput, match=f"more than {states - 1} values"):
            call()


def test_cohorts_of_one_size_and_weight_are_one_case():
    """The first and last weigh what the second and third do, who come to be listed before."""
    weights = np.array([F(16, 10), F(12, 10), F(8, 10), F(4, 10)])
    chance = np.array([F(1, 2), F(1, 3), F(1, 4), F(1, 5)])
    wanted = F(0)
    for who in product((False, True), repeat=4):
        mass = math.prod(q if here else 1 - q for q, here in zip(chance, who, strict=True))
        if any(who):
            x = 4 * sum(w for w, here in zip(weights, who, strict=True) if here) / F(sum(who))
            wanted += mass * max(x - 2, F(0)) * x
    assert overlap_of_complete(chance, weights, 1, True).value == wanted


@pytest.mark.parametrize("exact", [True, False])
def test_what_stays_at_2_off_the_grid_has_no_overlap_either(exact):
    """On the grid it would have some: 2 is no multiple of a cell, nor are the terms."""
    root = F(math.sqrt(2)) if exact else math.sqrt(2)
    kind = F if exact else float
    half = np.array([[kind(0.5)], [kind(0.5)]])
    two = np.array([[root], [2 - root]])
    found = overlap_of_sums(two, half, np.array([kind(1), kind(1)]), exact)
    assert found == (0, 0, True) and type(found.value) is kind
    small = (root - 1) / 8
    for weights, chance in (
        ([kind(0.5), small, small, kind(0.5) - 2 * small], [0.5] * 4),  # 4/2
        ([kind(0.5) - small, 2 * small, kind(0.5) - small], [0.5] * 3),  # 3 (1/2 - small)
        ([kind(1) - 3 * small, small, small, small], [0, 0.5, 0.5, 0.5]),  # the first never comes
    ):
        chances = np.array([kind(c) for c in chance])
        found = overlap_of_complete(chances, np.array(weights), 3, exact)
        assert found == (0, 0, True) and type(found.value) is kind
