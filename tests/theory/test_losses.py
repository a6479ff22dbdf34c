"""Separable losses: values, slopes and minimisers worked out by hand, in fractions."""

from fractions import Fraction as Q

import numpy as np
import pytest
from statements_at_hand import instance

from fedtheory.errors import InvalidInput
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.losses import Pieces, SeparableLosses, Unbounded, fractions

N = None


def pieces(h=0, c=0, m=0, a=0, delta=N):
    row = [fractions([[v]]) for v in (h, c, m, a, 0 if delta is N else delta)]
    return Pieces(*row, np.array([[delta is not N]]))


def joint(*columns, **by_name):
    """The sum of losses of one number."""
    columns = [np.transpose(fractions([v])) for v in (*columns, *by_name.values())]
    [found] = SeparableLosses.of(*columns, np.full(len(columns[0]), Q(1))).joint
    return found


def at(value):
    return fractions([[value]])


def test_huber_is_quadratic_inside_and_linear_outside():
    f = pieces(h=2, c=1, delta="1/2")
    # inside |x - 1| <= 1/2: (x - 1)^2; outside: 2 (|r|/2 - 1/8) = |r| - 1/4
    assert f.value(at("5/4"))[0] == Q(1, 16) and f.gradient(at("5/4"))[0, 0] == Q(1, 2)
    assert f.value(at(4))[0] == Q(11, 4) and f.gradient(at(4))[0, 0] == 1
    assert f.gradient(at(-4))[0, 0] == -1


@pytest.mark.parametrize(
    "columns, expected",
    [
        (dict(h=[1, 3], c=[0, 4], m=[0, 0], a=[0, 0], delta=[N, N]), (Q(3), Q(3))),  # (0 + 12)/4
        (dict(h=[0, 0], c=[0, 4], m=[0, 0], a=[1, 1], delta=[N, N]), (Q(0), Q(4))),  # all between the two
        (dict(h=[0, 0], c=[0, 4], m=[0, 0], a=[1, 2], delta=[N, N]), (Q(4), Q(4))),  # the heavier one
        (dict(h=[1, 1], c=[0, 10], m=[0, 0], a=[0, 0], delta=[1, 1]), (Q(1), Q(9))),  # pulls of 1 that cancel
        (dict(h=[1, 1], c=[0, 10], m=[0, 0], a=[0, 0], delta=[1, N]), (Q(9), Q(9))),  # 1 = 10 - x
        (dict(h=[0], c=[5], m=[0], a=[0], delta=[N]), (None, None)),
    ],
)
def test_minimisers_of_a_sum(columns, expected):
    assert joint(**columns).least()[:2] == expected


def test_a_function_without_minimiser_is_refused():
    with pytest.raises(Unbounded, match="not convex"):
        joint([-1], [0], [0], [0], [None]).least()


@pytest.mark.parametrize("seed", range(8))
def test_local_minimisation_has_the_least_value(seed):
    """argmin of loss + linear + quadratic + l1 against a fine grid, and 0 in the
    subdifferential."""
    rng = np.random.default_rng(seed)
    h, c, m, a, delta, linear, center, anchor = (Q(int(v), 8) for v in rng.integers(-16, 17, 8))
    f = pieces(h=abs(h), c=c, m=abs(m), a=abs(a), delta=abs(delta) + Q(1, 8) if seed % 2 else None)
    l1 = abs(a) if seed % 3 else Q(0)
    curvature = Q(1, 3)
    y = f.minimise(at(linear), curvature, at(center), l1, at(anchor))[0, 0]

    def value(x):
        return f.value(at(x))[0] - linear * x + curvature * (x - center) ** 2 / 2 + l1 * abs(x - anchor)

    assert all(value(y) <= value(y + Q(i, 64)) for i in range(-200, 201))
    assert value(y) < value(y + Q(1, 10**6)) and value(y) < value(y - Q(1, 10**6))


@pytest.mark.parametrize("well", [False, True])
def test_the_side_of_a_small_kink_does_not_depend_on_rounding(well):
    """The l1 term is 1e-7 of the others, and values of 1e8 cannot tell its sides apart."""
    rng, judged = np.random.default_rng(3), 0
    for _ in range(200):
        h, m = (-30, 13) if well else (9, 13)
        c, center, linear, delta = rng.uniform(-2000, 2000), *(rng.uniform(1000, 2000, 3) * (1, 50, 1))
        numbers = [np.array([[float(v)]]) for v in (h, c, m, 0.0, delta)]
        floats = Pieces(*numbers, np.array([[True]]))
        exact = Pieces(*(fractions(v) for v in numbers), np.array([[True]]))
        penalty = (linear, 1350.0, center, 0.001)
        try:
            found = floats.minimise(*penalty)[0, 0]
        except Unbounded as error:
            assert well and "several" in str(error)  # as low as the other, up to rounding
            continue
        expected = exact.minimise(*map(Q, penalty))[0, 0]
        assert found == pytest.approx(float(expected), rel=1e-13)
        judged += 1
    assert judged > 150


def test_a_local_objective_without_minimiser_is_refused():
    with pytest.raises(Unbounded, match="add curvature"):
        pieces(h=1, delta=1).minimise(at(3), 0, at(0))


def test_the_minimiser_nearest_to_the_start_is_taken():
    data = {"h": [["1"], ["1"]], "c": [["0"], ["10"]], "delta": [["1"], ["1"]], "weights": ["1/2", "1/2"], "rounds": 0}
    for start, star in (("0", 1), ("5", 5), ("20", 9)):
        made = Draw.from_data({**data, "start": [start]})
        assert made.exact_losses.minimiser(made.start)[0] == star


def test_constants_by_hand():
    made = instance([[1, 4], [3, 2]], [[0, 0], [1, 1]], [0, 0])
    known = made.exact_losses.constants
    assert known == {"beta": 4, "mu": 1, "beta_F": 3, "mu_F": 2, "G_sq": None}


def test_data_come_back_as_they_went():
    data = {
        "h": [["1/3"]],
        "c": [["-2"]],
        "delta": [["1/7"]],
        "weights": ["1"],
        "start": ["5"],
        "rounds": 2,
        "drawn": {"lr": "1/2"},
    }
    assert Draw.from_data(data).to_data() == data


@pytest.mark.parametrize(
    "change, says",
    [
        ({"h": [["1.x"]]}, "fractions"),
        ({"weights": ["1/2"]}, "sum to 1"),
        ({"start": ["1", "2"]}, r"expected \(N, d\)"),
        ({"colour": "red"}, "unknown colour"),
        ({"before": [[3]]}, "clients are 0 to 0"),
    ],
)
def test_wrong_data_are_refused(change, says):
    data = {"h": [["1"]], "c": [["0"]], "weights": ["1"], "start": ["5"], "rounds": 0}
    with pytest.raises(InvalidInput, match=says):
        Draw.from_data({**data, **change})
