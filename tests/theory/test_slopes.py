"""Piecewise quadratic functions of one number: each part of `Piece` against what defines it, at points that tell all branches apart."""

import itertools
from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory.errors import InvalidInput
from fedtheory.theory.rounds.losses import PieceTable, SeparableLosses, fractions
from fedtheory.theory.rounds.slopes import Piece, absolute, huber, quadratic, ramp

# (p, q, G): two ramps that overlap, a jump inside one of them, and one that stands alone
RAMPS = ((F(-2), F(1, 3), F(3, 2)), (F(-1), F(5, 2), F(2, 5)), (F(1, 4), F(1, 4), F(5, 7)), (F(4), F(9, 2), F(7, 3)))
PIECES = [
    Piece(F(-3, 2), F(2, 7), F(5, 3), RAMPS),
    Piece(F(-5, 2), F(0), F(0), RAMPS),
    Piece(F(-3, 4), F(5, 3), F(-7, 2), RAMPS[:2]),
    Piece(F(2, 3), F(7, 5), F(9, 4)),
]
GRID = [F(n, 8) for n in range(-40, 61)] + [F(1, 3), F(5, 3), F(9, 4)]


def slopes(piece: Piece, x: F) -> tuple[F, F]:
    """As the formula of the module has it; at a jump its two ends."""
    base = piece.slope + piece.curvature * (x - piece.centre)
    smooth = sum((g * min(max((x - p) / (q - p), F(0)), F(1)) for p, q, g in piece.ramps if p < q), F(0))
    passed = sum((g for p, q, g in piece.ramps if p == q < x), F(0))
    here = sum((g for p, q, g in piece.ramps if p == q == x), F(0))
    return base + smooth + passed, base + smooth + passed + here


@pytest.mark.parametrize("piece", PIECES)
def test_the_slopes_are_those_of_the_formula(piece):
    for x in GRID:
        assert piece.slopes(x) == slopes(piece, x)
    bends = sorted({x for p, q, _ in piece.ramps for x in (p, q)})
    assert piece.breakpoints == bends
    far = [slopes(piece, x)[0] for x in (F(-100), F(100))]
    assert piece.limits == ((None, None) if piece.curvature else tuple(far))


@pytest.mark.parametrize("piece", PIECES)
def test_the_value_is_the_integral_of_the_slope(piece):
    """The slope is linear between breakpoints, so that the trapezoid is exact there."""
    points = sorted({*GRID, *piece.breakpoints})
    left = points[0]
    assert piece.value(left) == piece.slope * left + piece.curvature * (left - piece.centre) ** 2 / 2
    for a, b in itertools.pairwise(points):
        assert piece.value(b) - piece.value(a) == (b - a) * (slopes(piece, a)[1] + slopes(piece, b)[0]) / 2


@pytest.mark.parametrize("piece", PIECES)
def test_where_a_level_is_a_subgradient(piece):
    for level in [*(F(n, 8) for n in range(-40, 41)), *(s for x in piece.breakpoints for s in slopes(piece, x))]:
        found = piece.where(level)
        if found is None:
            low, high = (slopes(piece, x)[0] for x in (F(-100), F(100)))
            assert not low <= level <= high and not piece.curvature
            continue
        for end, side in zip(found, (-1, 1), strict=True):
            if end is None:
                assert slopes(piece, F(100 * side))[0] == level and not piece.curvature
                continue
            assert slopes(piece, end)[0] <= level <= slopes(piece, end)[1]
            beyond = slopes(piece, end + side * F(1, 1000))
            assert (beyond[1] < level) if side < 0 else (beyond[0] > level)


@pytest.mark.parametrize("piece", PIECES)
def test_the_local_model_is_optimal(piece):
    """0 is in L'(y) - g + l2 (y - a) + l1 sign(y - a); the problem is strongly convex, so that there is one such y."""
    l1, l2, sides = F(2, 5), F(7, 3), set()
    for anchor in (F(-3), F(-1), F(1, 4), F(1), F(17, 4), F(6)):
        low, high = slopes(piece, anchor)
        edges = [low - l1, high + l1]
        for g in (*edges, *(e + s * F(1, 9) for e in edges for s in (-1, 1)), low - 5, high + 5, F(1, 7)):
            y = piece.minimise(g, l2, anchor, l1)
            at = [s - g + l2 * (y - anchor) for s in slopes(piece, y)]
            pull = (-l1, l1) if y == anchor else (l1, l1) if y > anchor else (-l1, -l1)
            assert at[0] + pull[0] <= 0 <= at[1] + pull[1]
            sides.add((y > anchor) - (y < anchor))
    assert sides == {-1, 0, 1}


def test_sums_multiples_and_curvatures():
    one, other = PIECES[0], PIECES[2]
    both, thrice = one + other, other * F(3, 2)
    for x in GRID:
        assert both.slopes(x) == tuple(a + b for a, b in zip(one.slopes(x), other.slopes(x), strict=True))
        assert thrice.slopes(x) == tuple(F(3, 2) * a for a in other.slopes(x))
    assert one.beta is None and PIECES[3].beta == F(7, 5)
    # on (-1, 1/3) both ramps rise: 3/2 over 7/3, and 2/5 over 7/2
    assert other.beta == F(5, 3) + F(9, 14) + F(4, 35)
    assert [p.curvature for p in PIECES] == [F(2, 7), 0, F(5, 3), F(7, 5)]


def test_the_named_losses():
    """(3/2)(x - 2)^2/2; a slope from -1/2 to 5/3; 5/2 times a Huber loss of width 1/3; (4/3)|x - 2|."""
    assert [quadratic(F(3, 2), 2).slopes(x)[0] for x in (F(2), F(4))] == [0, 3] and quadratic(1).centre == 0
    assert ramp(F(-1, 2), F(5, 3), 1, 4) == Piece(F(-1, 2), ramps=((F(1), F(4), F(13, 6)),)) and ramp(2, 2, 0, 1) == Piece(F(2))
    assert huber(2, F(1, 3), F(5, 2)) == Piece(F(-5, 6), ramps=((F(5, 3), F(7, 3), F(5, 3)),)) and huber(0, 2) == huber(0, 2, 1)
    assert absolute(2, F(4, 3)) == Piece(F(-4, 3), ramps=((F(2), F(2), F(8, 3)),)) and absolute(0) == absolute(0, 1)


def test_a_linear_loss_has_its_slope_everywhere_or_nowhere():
    assert Piece(F(2)).where(F(2)) == (None, None) and Piece(F(2)).where(F(1)) is None


def losses(rows) -> SeparableLosses:
    """In a plain mean."""
    return SeparableLosses(PieceTable(rows), np.full(len(rows), F(1, len(rows))))


def test_without_a_minimiser():
    """Slopes 1/2 and 1 far left, and 1 and 4/3 far right: their means are 3/4 and 7/6."""
    of = losses([[ramp(F(1, 2), 1, 0, 1)], [ramp(1, F(4, 3), 0, 1)]])
    told = "its slope runs from 3/4 to 7/6: it has no minimiser; take losses whose mean slope changes sign"
    with pytest.raises(InvalidInput, match=told):
        of.minimiser([F(0)])


def test_what_the_clients_make_of_it():
    """Values, subgradients of least size and those nearest to g, client by client; F's gap against its own values."""
    pieces = [[PIECES[0], PIECES[2]], [PIECES[3], quadratic(F(3, 5), 4)], [huber(2, 1), absolute(F(1, 4), F(3, 2))]]
    of = losses(pieces)
    assert (of.num_clients, of.dim) == (3, 2) and of.exact
    x = np.array([F(1, 4), F(1, 4)], dtype=object)
    rows = [[p.slopes(v) for p, v in zip(row, x, strict=True)] for row in pieces]
    assert of.gradients(x).tolist() == [[a if a > 0 else b if b < 0 else 0 for a, b in row] for row in rows]
    wanted = np.array([[F(-9), F(9)], [F(1, 5), F(-1, 3)], [F(2), F(1, 7)]], dtype=object)
    nearest = [[sorted((a, g, b))[1] for (a, b), g in zip(row, gs, strict=True)] for row, gs in zip(rows, wanted, strict=True)]
    assert of.pieces.nearest(np.stack([x] * 3), wanted).tolist() == nearest
    assert of.pieces.take([2, 0]).nearest(np.stack([x] * 2), wanted[[2, 0]]).tolist() == [nearest[2], nearest[0]]
    values = [sum(p.value(v) for p, v in zip(row, x, strict=True)) for row in pieces]
    assert of.values(x).tolist() == values
    star = of.minimiser([F(0), F(0)])
    assert of.excess(x, star) == (sum(values) - of.values(star).sum()) / 3 > 0
    known = of.constants
    assert known["mu_F"] == min((F(2, 7) + F(7, 5)) / 3, (F(5, 3) + F(3, 5)) / 3)
    assert known["mu"] == 0 and known["beta"] is known["beta_F"] is known["G_sq"] is None


def test_of_several_minimisers_the_nearest_one():
    """|x - 1| + |x - 3| is least on [1, 3]."""
    of = losses([[absolute(1)], [absolute(3)]])
    assert of.joint[0].least() == (1, 3, True) and of.constants["G_sq"] == 1
    for near, star in ((F(0), 1), (F(2), 2), (F(7, 2), 3)):
        assert of.minimiser([near]).tolist() == [star]
        assert of.excess(np.array([star + F(5)]), np.array([F(star)])) == abs(star + 4) / F(2) + abs(star + 2) / F(2) - 1


@pytest.mark.parametrize("seed", range(6))
def test_a_table_is_what_rows_of_parameters_are(seed):
    """Convex Huber losses, quadratics and kinks in both writings: values, local models, F, and its constants."""
    rng = np.random.default_rng(seed)

    def numbers(least, *shape):
        return fractions([[F(int(v), 4) for v in row] for row in rng.integers(least, 9, shape)])

    h, m, a, c = numbers(0, 3, 2), numbers(0, 3, 2), numbers(0, 3, 2) * (seed % 2), numbers(-8, 3, 2)
    bent = rng.random((3, 2)) < 0.5
    delta = np.where(bent, numbers(1, 3, 2), None)
    h[0] += 1  # so that F has a minimiser
    weights = fractions(["1/2", "1/3", "1/6"])
    rows = SeparableLosses.of(h, c, m, a, delta, weights)
    own = [
        [quadratic(m[k, i], c[k, i]) + absolute(c[k, i], a[k, i])
         + (quadratic(h[k, i], c[k, i]) if delta[k, i] is None else huber(c[k, i], delta[k, i], h[k, i])) for i in range(2)]
        for k in range(3)
    ]  # fmt: skip
    table = SeparableLosses(PieceTable(own), weights)
    x, y = numbers(-8, 1, 2)[0], numbers(-8, 3, 2)
    gaps = [of.values(x) - of.values(x + 1) for of in (rows, table)]
    assert gaps[0].tolist() == gaps[1].tolist()
    star = rows.minimiser(x)
    assert star.tolist() == table.minimiser(x).tolist()
    assert rows.excess(y, star).tolist() == table.excess(y, star).tolist()
    local = numbers(-8, 3, 2), F(3, 4), y, F(1, 2), y + 1
    assert rows.pieces.minimise(*local).tolist() == table.pieces.minimise(*local).tolist()
    one, other = rows.constants, table.constants
    assert all(one[k] == other[k] for k in ("mu", "mu_F", "G_sq"))
    if not a.any():
        assert rows.gradients(x).tolist() == table.gradients(x).tolist()
        assert one["beta"] == other["beta"] and one["beta_F"] >= other["beta_F"]
