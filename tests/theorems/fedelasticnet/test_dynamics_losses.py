"""Losses in witness files: what they may say, and what is refused."""

from fractions import Fraction as F

import pytest

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.dynamics.losses import in_file, piece_of
from fedtheory.theory.rounds.slopes import Piece, absolute, huber, quadratic


@pytest.mark.parametrize(
    "piece", [Piece(), Piece(F(2)), quadratic(F(3, 2), 2), huber(2, F(1, 3), F(5, 2)) + absolute(F(1, 4)) + quadratic(1, 1)]
)
def test_a_loss_comes_back_as_it_went(piece):
    assert piece_of(in_file(piece), "piece") == piece


def test_what_is_0_is_left_out():
    assert in_file(Piece()) == {} and in_file(quadratic(F(1, 2))) == {"curvature": "1/2"}


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
