"""Piecewise quadratic losses of one number: each part of `Piece` against what defines it, at points that tell all branches apart."""

import itertools
from fractions import Fraction as F

import numpy as np
import pytest
from algorithm_3 import PiecewiseLosses

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.exact_pieces import Piece, absolute, huber, piece_of, quadratic, ramp

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
            y = piece.minimise(anchor, g, l1, l2)
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
    for piece in PIECES:
        assert piece_of(piece.to_file(), "piece") == piece
    assert Piece().to_file() == {}


def test_a_linear_loss_has_its_slope_everywhere_or_nowhere():
    assert Piece(F(2)).where(F(2)) == (None, None) and Piece(F(2)).where(F(1)) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], r"f = \[\]: expected some of the fields slope, curvature, centre, ramps"),
        ({"slopes": "1"}, r"f = \{'slopes': '1'\}: expected some of the fields"),
        ({"slope": 0.5}, r"f\.slope"),
        ({"curvature": "-1/2"}, r"f\.curvature = -1/2: it must be >= 0"),
        ({"ramps": {}}, r"f\.ramps = \{\}: expected rows of three fractions"),
        ({"ramps": [["1", "2"]]}, r"f\.ramps = .*expected rows of three fractions"),
        ({"ramps": [("1", "2", "3")]}, r"f\.ramps = .*expected rows of three fractions"),
        ({"ramps": [["1", "2", 0.5]]}, r"f\.ramps\[0\]"),
        ({"ramps": [["2", "1", "1"]]}, r"f\.ramps: \[2, 1, 1\]: expected p <= q and G > 0"),
        ({"ramps": [["1", "2", "0"]]}, r"f\.ramps: \[1, 2, 0\]: expected p <= q and G > 0"),
    ],
)
def test_a_bad_loss_in_a_file_is_refused(data, message):
    with pytest.raises(InvalidInput, match=message):
        piece_of(data, "f")


def test_the_limits_of_what_a_file_may_say():
    assert piece_of({"curvature": "0", "ramps": [["1", "1", "1/9"]]}, "f") == Piece(ramps=((F(1), F(1), F(1, 9)),))


def test_without_a_minimiser():
    """Slopes 1/2 and 1 far left, and 1 and 4/3 far right: their means are 3/4 and 7/6."""
    losses = PiecewiseLosses([[ramp(F(1, 2), 1, 0, 1)], [ramp(1, F(4, 3), 0, 1)]])
    with pytest.raises(InvalidInput, match="R has no minimiser: in coordinate 0 its slope runs from 3/4 to 7/6"):
        losses.theta_star  # noqa: B018


def test_what_the_clients_make_of_it():
    """Values, subgradients of least size and those nearest to g, client by client; R's gap against its own values."""
    losses = PiecewiseLosses([[PIECES[0], PIECES[2]], [PIECES[3], quadratic(F(3, 5), 4)], [huber(2, 1), absolute(F(1, 4), F(3, 2))]])
    assert losses.shape == (3, 2) and losses.m == 3 and losses.is_exact
    x = np.array([F(1, 4), F(1, 4)], dtype=object)
    rows = [[p.slopes(v) for p, v in zip(row, x, strict=True)] for row in losses.pieces]
    assert losses.gradients(x).tolist() == [[a if a > 0 else b if b < 0 else 0 for a, b in row] for row in rows]
    wanted = np.array([[F(-9), F(9)], [F(1, 5), F(-1, 3)], [F(2), F(1, 7)]], dtype=object)
    nearest = [[sorted((a, g, b))[1] for (a, b), g in zip(row, gs, strict=True)] for row, gs in zip(rows, wanted, strict=True)]
    assert losses.nearest_gradients(np.stack([x] * 3), wanted).tolist() == nearest
    values = [sum(p.value(v) for p, v in zip(row, x, strict=True)) for row in losses.pieces]
    assert losses.values(x).tolist() == values
    star = losses.theta_star
    assert losses.excess(x) == (sum(values) - losses.values(star).sum()) / 3 > 0
    assert (losses.grad_star.sum(axis=0) == 0).all()
    ends = [[p.slopes(v) for p, v in zip(row, star, strict=True)] for row in losses.pieces]
    assert all(a <= g <= b for row, gs in zip(ends, losses.grad_star, strict=True) for (a, b), g in zip(row, gs, strict=True))
    assert losses.mu == min((F(2, 7) + F(7, 5)) / 3, (F(5, 3) + F(3, 5)) / 3) and losses.beta is None


def test_of_several_minimisers_the_nearest_one():
    """|x - 1| + |x - 3| is least on [1, 3]."""
    for near, star in ((None, 1), ([F(0)], 1), ([F(2)], 2), ([F(7, 2)], 3)):
        losses = PiecewiseLosses([[absolute(1)], [absolute(3)]], near)
        assert losses.theta_star.tolist() == [star] and losses.minimisers == [(1, 3)]
        assert losses.excess(losses.theta_star + F(5)) == abs(star + 4) / F(2) + abs(star + 2) / F(2) - 1
