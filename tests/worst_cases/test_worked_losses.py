"""Losses from Gram matrices, by hand: what a pair of points asks, values, rooms, and vectors."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from parabolas_at_hand import OfTree, loss, slope

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.local import GradientSteps
from fedtheory.randomness import Stream
from fedtheory.rational import in_fractions
from fedtheory.worst_cases import bounds, cohorts, exchangeable, interpolation
from fedtheory.worst_cases.bounds import BOUND, WorstCase, asked_points, grown
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.functions import worst_function
from fedtheory.worst_cases.gram import Quadratic, Vector
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.tree import Row, Tree, moved, written

# --- what points ask of one another ---------------------------------------------------------------
AT = np.array([[[0, 0], [1, 2], [-3, 1]], [[0, 0], [2, -1], [4, 3]]], dtype=float)
SLOPES = np.array([[[1, -2], [3, 1], [-1, 2]], [[-1, 2], [2, 5], [1, -3]]], dtype=float)


@pytest.mark.parametrize("numbers", [(F(1),), (F(3), F(1, 2)), (None,), (None, F(2)), (None, 0, 1)])
def test_the_least_differences_of_two_clients_are_the_class_s(numbers):
    """<g_j, d> + mu/2 |d|^2 + |g_i - g_j - mu d|^2/(2 (L - mu)) for d = x_i - x_j."""
    losses = Losses(*numbers)
    L, mu = losses.smoothness, losses.strong_convexity
    found = interpolation._least_differences((AT, SLOPES), losses)
    assert found.shape == (2, 3, 3)
    for k, i, j in product(range(2), range(3), range(3)):
        d = [F(a - b) for a, b in zip(AT[k, i], AT[k, j])]
        g, h = ([F(x) for x in SLOPES[k, p]] for p in (i, j))
        least = sum(b * a + mu / 2 * a * a for a, b in zip(d, h))
        if L is not None:
            rest = sum((a - b - mu * c) ** 2 for a, b, c in zip(g, h, d))
            least += rest / (2 * (L - mu))
        assert found[k, i, j] == pytest.approx(float(least), abs=1e-12)


def test_values_are_lengths_of_shortest_paths():
    """f_j <= f_i - c_ij: 0 to 2 to 1 to 3, each a room shorter, and none on a negative circle."""
    least = np.full((4, 4), -64.0)
    least[0, 2], least[2, 1], least[1, 3], least[3, 0] = -1, -2, -4, 6.5
    assert interpolation._values(least, 0.0).tolist() == [0, 3, 1, 7]
    assert interpolation._values(least, 0.125).tolist() == [0, 2.75, 0.875, 6.625]
    assert interpolation._values(least, 0.125 + 2.0**-40) is None, "around it 1/2 is left"
    assert interpolation._room(least) == pytest.approx(0.0625, rel=1e-8)
    apart = np.full((4, 4), -64.0)
    apart[1, 3], apart[3, 1] = -1, 2
    assert interpolation._values(apart, 0.0) is None, "a circle without the first point"
    least[0, 1] = -2.5
    assert interpolation._values(least, 0.0).tolist() == [0, 2.5, 1, 6.5]
    assert interpolation._room(np.array([[0.0, -3.0], [1.0, 0.0]])) == pytest.approx(0.5, rel=1e-8)


def test_vectors_of_a_gram_matrix_without_the_noise():
    """1 - c against 1 + c in units of lengths: from 1e-9 on a direction is kept."""
    sizes = np.array([1e3, 1e-3])
    for gap, rank in ((2.1e-9, 2), (1.9e-9, 1)):
        gram = np.outer(sizes, sizes) * np.array([[1, 1 - gap], [1 - gap, 1]])
        found = interpolation.factored(gram + np.array([[0, 1.0], [-1.0, 0]]))
        assert found.shape == (2, rank)
        np.testing.assert_allclose(found @ found.T, gram, rtol=3e-9)
    assert interpolation.factored(np.zeros((2, 2))).shape == (2, 0)
    assert interpolation.factored(np.zeros((0, 0))).shape == (0, 0)
    with_zero = interpolation.factored(np.diag([4.0, 0.0]))
    assert np.abs(with_zero).tolist() == [[2], [0]]


def test_gradients_at_the_optimum_add_up_to_nothing_exactly():
    """Whole multiples of 2^-48 for the largest of 2/3; all that is rounded is at the optimum."""
    own = np.array([[1 / 3, 0.1], [1 / 3, 0.2], [-2 / 3, -0.3]])
    given = np.stack([own, own / 7], axis=1)
    found = interpolation._balanced(given)
    first = [[F(round(F(x) * 2**48), 2**48) for x in row] for row in own[:2]]
    by_hand = [*first, [-a - b for a, b in zip(*first)]]
    assert [[F(x) for x in row] for row in found[:, 0]] == by_hand
    assert (found[:, 1] == given[:, 1]).all()
    assert (interpolation._balanced(0 * given) == 0).all()


@pytest.mark.parametrize("numbers", [(F(1),), (F(5), F(1, 2)), (None, 0, F(9))])
def test_the_least_losses_have_the_values_and_gradients(numbers):
    """Points of parabolas of curvatures 3/5 and 4/5 (every class has them) shifted by the start."""
    losses, curvatures = Losses(*numbers), np.array([0.6, 0.8])
    own = np.array([[1.0, -0.5], [-1.0, 0.5]])
    at = np.array([[[0, 0], [1, 2], [-0.5, 0.25]], [[0, 0], [0.5, -1], [2, 1]]], dtype=float)
    gradients = curvatures[:, None, None] * at + own[:, None]
    squares = (at * at).sum(axis=-1)
    values = curvatures[:, None] / 2 * squares + (own[:, None] * at).sum(axis=-1)
    shift = np.array([3.0, -1.0])
    made = interpolation.least_losses(losses, at - shift, gradients, values)
    for k in range(2):
        f, g = made.client_losses(at[k] - shift), made.gradient(at[k] - shift)
        np.testing.assert_allclose(f[..., k] if f.shape == (3, 2) else f[k], values[k], atol=1e-12)
        if losses.smoothness is not None:
            np.testing.assert_allclose(g[:, k], gradients[k], atol=1e-7)
    if losses.smoothness is not None:
        assert (made.largest == float(numbers[0])).all() and (made.least == float(losses.strong_convexity)).all()
        assert made.minimiser.tolist() == (-shift).tolist()


# --- a little of a run on parabolas ---------------------------------------------------------------
def on_a_line(slope, size=1.0):
    """An optimum and a point at a distance, of gradient slope times that: room if 0 < slope < 1."""
    return np.array([[[0.0], [size]]]), np.array([[[0.0], [slope * size]]])


def mixed_on_a_line(slope, between=lambda curvatures: curvatures[0], size=1.0):
    """Two coordinates: what Gram matrices add up to is in orthogonal spaces."""
    tried = []

    def mixed(share, run):
        tried.append(share)
        parts = [(1 - share) ** 0.5, share**0.5]
        rows = [on_a_line(slope), on_a_line(run, size)]
        return [np.concatenate([p * row[a] for p, row in zip(parts, rows)], axis=2) for a in (0, 1)]

    def run(within=lambda v, here: True):
        return interpolation.with_room(
            mixed, between,
            lambda v: [tuple(v) if isinstance(v, list) else on_a_line(v, size)], within, [Losses(F(1))],
        )  # fmt: skip

    return run, tried


def test_the_least_share_that_gives_every_condition_room():
    """g - g^2 is left around both points: (1 - s)(-e) + s a (1 - a) of two rooms s a (1 - a)/4."""
    a = interpolation.CURVATURES[0][0]
    assert 0.3 < a < 0.5
    for miss in (3e-8, 1e-6):
        run, tried = mixed_on_a_line(1 + miss)
        _, [here], [values], room = run()
        share = tried[-1]
        assert room == pytest.approx(share * a * (1 - a) / 4, rel=1e-8)
        least = 2 * miss / (a * (1 - a))  # miss = s a (1 - a)/2, up to miss squared
        assert least * (1 - 1e-4) <= share <= least * 10**0.25
        assert here[0].shape == (1, 2, 2) and values.shape == (1, 2) and values[0, 0] == 0
        f, c = values[0, 1], interpolation._least_differences(here, Losses(F(1)))[0]
        assert f - c[1, 0] >= room * (1 - 1e-6) and -f - c[0, 1] >= room * (1 - 1e-6)


def test_shares_from_a_billionth_to_a_ten_thousandth_of_three_runs():
    run, tried = mixed_on_a_line(0.5)
    with pytest.raises(NotCertified, match=r"by more than 0\.0001 of a strictly convex run mends"):
        run(lambda v, here: False)
    assert len(tried) == 63 and len(interpolation.CURVATURES) == 3
    shares = tried[::3]
    assert tried[1::3] == tried[2::3] == shares
    np.testing.assert_allclose(shares, np.geomspace(1e-9, 1e-4, 21), rtol=1e-12)
    run, tried = mixed_on_a_line(1.01)
    with pytest.raises(NotCertified):
        run()


def test_room_below_the_roundoff_of_the_values_is_none():
    """s a (1 - a)/4 size^2 against 1e-13 of the largest difference, 3/8 for the slope 1/2."""
    a, seen = interpolation.CURVATURES[0][0], []
    for factor in (1.04, 0.96):
        size = (factor * 1e-13 * 0.375 / (1e-9 * a * (1 - a) / 4)) ** 0.5
        run, tried = mixed_on_a_line(0.5, size=size)
        run()
        seen.append((len(tried), tried[-1]))
    assert seen[0] == (1, 1e-9) and seen[1][1] == pytest.approx(10**-8.75)


def test_every_client_has_room():
    """The room of two clients is the smaller one; where one has no values a larger share is tried.

    Of parabolas of curvatures a and 1/100 it is a hundredth less a ten-thousandth, by four.
    """
    a, tried = interpolation.CURVATURES[0][0], []

    def both(*lines):
        return tuple(np.concatenate([line[i] for line in lines]) for i in (0, 1))

    def mixed(share, run):
        tried.append(share)
        slopes = (0.5, 1 + 1e-8) if share < 1e-6 else (0.5, 0.5)
        return both(*map(on_a_line, slopes))

    def parabolas(curvatures):
        return both(on_a_line(curvatures[0]), on_a_line(0.01 * curvatures[0] / a))

    _, _, [values], room = interpolation.with_room(
        mixed, parabolas, lambda v: [v], lambda v, here: True, [Losses(F(1))]
    )
    assert tried[-1] == pytest.approx(1e-6) and values.shape == (2, 2)
    assert room == pytest.approx(1e-6 * (0.01 - 0.0001) / 4, rel=1e-8)


# --- exchangeable clients -------------------------------------------------------------------------
def asked(method="fedavg", losses=None, steps=1, zeta=F(1), R=F(1), criterion="gap", **options):
    given = options or {"step": F(1, 2)}
    kind = losses or Losses()
    q = bounds.asked(method, given, steps, 1, criterion, kind, zeta, R)
    return q if zeta is not None else replace(q, heterogeneity=None)


def test_vectors_that_are_others_or_nothing():
    same = exchangeable.Same({"x0": None, "g1": "g0", "g2": "*"})
    names = {name: [same.parts(b, name) for b in ("mean", "deviation")] for name in ("x0", "g1")}
    assert names == {"x0": [{}, {}], "g1": [{"g0": 1}, {"g0": 1}]}
    assert [same.parts(b, "g2") for b in ("mean", "deviation")] == [{}, {"g*": 1}]
    assert [same.parts(b, "g9") for b in ("mean", "deviation")] == [{"g9": 1}, {"g9": 1}]
    none = exchangeable.Same({"g2": "*", "g*": None})
    assert [none.parts(b, "g2") for b in ("mean", "deviation")] == [{}, {}]
    last = exchangeable.Same({"g2": "*(2)"}, {"*(2)": Vector({"g*(1)": F(-1, 2)}, {"g*(2)": F(1)})})
    assert [last.parts(b, "g2") for b in ("mean", "deviation")] == [{"g*(1)": F(-1, 2)}, {"g*(2)": 1}]
    assert last.of(Vector({"x0": F(1), "g2": F(4)})).mean == {"x0": 1, "g*(1)": -2}
    products = last.form(Quadratic({("mean", "g2", "x0"): F(3), ("mean", "g2", "g2"): F(8)}))
    assert products == Quadratic({("mean", "g*(1)", "x0"): F(-3, 2), ("mean", "g*(1)", "g*(1)"): 2})
    v = Vector({"x0": F(5), "g0": F(2), "g1": F(3), "g2": F(7)}, {"g0": F(1), "g1": F(-1), "g2": 4})
    assert (same.of(v).mean, same.of(v).deviation) == ({"g0": 5}, {"g*": 4})
    gram = {
        ("mean", "g0", "g1"): F(2), ("mean", "g0", "g0"): F(3), ("mean", "g0", "x0"): F(11),
        ("mean", "g0", "g2"): F(13), ("deviation", "g1", "g2"): F(17), ("mean", "a", "z"): F(1),
    }  # fmt: skip
    found = same.form(Quadratic(gram, {"g1": F(2), "g0": F(1), "g2": F(5), "*": F(1)}, F(19)))
    assert found == Quadratic(
        {("mean", "g0", "g0"): 5, ("deviation", "g*", "g0"): 17, ("mean", "a", "z"): 1},
        {"g0": 3, "*": 6}, 19,
    )  # fmt: skip


def test_a_programme_is_solved_again_without_the_vectors_that_are_nothing(monkeypatch):
    """Vectors that say nothing of the others are left out; where none is 0 the solution stays."""
    solved = []
    monkeypatch.setattr(exchangeable, "maximise", lambda *given: solved.append(given) or 7)
    kept, lost = ({("mean", x, x): F(3)} for x in ("g0", "x0"))
    terms = {"a": Quadratic(kept, {"p": F(1)}), "b": Quadratic(lost), "c": Quadratic({}, {}, F(2))}
    of = Family(Quadratic({**kept, **lost}, {}, F(1)), terms, frozenset({"a"}))
    found = SimpleNamespace(solution=5, family=of)
    assert exchangeable.Same({"g1": "g0"}).solution(found) == 5 and solved == []
    assert exchangeable.Same({"x0": None}).solution(found) == 7
    left = Family(Quadratic(kept, {}, F(1)), {x: terms[x] for x in "ac"}, frozenset({"a"}))
    assert solved == [(left, BOUND)]


def test_points_of_one_position_have_one_name():
    points, same = exchangeable.apart(asked(steps=2))
    assert [p.name for p in points] == [p.name for p in asked_points(asked(steps=2))]
    assert same.as_ == {}
    points, same = exchangeable.apart(asked(R=F(0)))
    assert same.as_ == {"x0": None, "g0.0": "*", "end": "*"} and len(points) == 1
    points, same = exchangeable.apart(asked(R=F(0), steps=2))
    assert same.as_ == {"x0": None, "g0.0": "*"}
    assert [p.name for p in points] == ["*", "g0.1", "end"]
    assert (points[1].at.mean, points[1].at.deviation) == ({}, {"g*": F(-1, 2)})
    assert points[2].at.mean == {"g0.1": F(-1, 2)}
    points, same = exchangeable.apart(asked(zeta=F(0)))
    assert same.as_ == {"g*": None} and len(points) == 3
    kinks = Losses(None, 0, 1)
    with pytest.raises(InvalidInput, match="take a distance above 0"):
        exchangeable.apart(asked("subgradient", kinks, R=F(0), criterion="best-gap"))
    assert exchangeable.apart(asked("subgradient", kinks, criterion="best-gap"))[1].as_ == {}


@pytest.mark.parametrize("clients", [2, 3, 4, 5])
def test_every_client_has_the_gram_matrix_of_means_plus_deviations(clients):
    """And the clients' mean is the mean; the first coordinates are the mean's."""
    given = np.array([[1, 2, 3, 4, 5], [-2, 1, 7, 0, 3], [4, 4, 1, -1, 2]], dtype=float)
    found = exchangeable._of_clients(given, 2, clients)
    turns = 1 if clients % 2 == 0 else 2
    assert found.shape == (clients, 3, 2 + 3 * turns)
    for of in found:
        assert (of[:, :2] == given[:, :2]).all()
        np.testing.assert_allclose(of @ of.T, given @ given.T, atol=1e-12)
    np.testing.assert_allclose(found.mean(axis=0)[:, 2:], 0, atol=1e-14)
    if turns == 1:
        assert (found[0] == given).all() and (found[1, :, 2:] == -given[:, 2:]).all()
    apart = [np.linalg.norm(a - b) for a, b in zip(found, [*found[1:], found[0]])]
    np.testing.assert_allclose(apart, apart[0])


def test_mixtures_of_gram_matrices():
    """0.64 of one and 0.36 of the other; a vector that one of them lacks is 0 there."""
    a = {"x": np.array([1.0, 2.0]), "y": np.array([3.0, 5.0])}
    b = {"x": np.array([7.0]), "z": np.array([2.0])}
    x, y, z = (interpolation.mixed(a, b, 0.36)[name] for name in "xyz")
    products = [x @ x, x @ y, y @ y, z @ z, x @ z, y @ z]
    by_hand = [0.64 * 5 + 0.36 * 49, 0.64 * 13, 0.64 * 34, 0.36 * 4, 0.36 * 14, 0]
    assert products == pytest.approx(by_hand)
    assert interpolation.mixed({}, b, 0.25)["z"].tolist() == [1]
    assert interpolation.mixed(a, {}, 0.75)["x"].tolist() == [0.5, 1]


LIMITS = [("start", 3.0), ("own", 2.0), ("gradient", 1.5)]


@pytest.mark.parametrize("part", [1.0, 0.5])
@pytest.mark.parametrize(("which", "limit"), LIMITS)
def test_limits_of_squares_are_reached_and_not_passed(which, limit, part):
    """||x_0 - x*|| <= 3, zeta = 2 and G = 3/2, of exchangeable clients and of a tree's."""
    q = asked("subgradient", Losses(None, 0, F(3, 2)), zeta=F(2), R=F(3), criterion="best-gap")
    tiny, half = 1e-9, {} if part == 1 else {"part": part}
    for sign in (-1, 1):
        size = limit * part**0.5 * (1 + sign * tiny)
        of = {name: (size if name == which else 0.25) for name in ("start", "own", "gradient")}
        vectors = {
            "mean": {"x0": np.array([0, of["start"]])}, "deviation": {"g*": np.array([of["own"]])},
        }  # fmt: skip
        placed = (np.zeros((1, 2, 1)), np.array([[[of["own"]], [of["gradient"]]]]))
        asked_of = asked(zeta=F(2), R=F(3)) if which == "own" else q
        assert (part**0.5 * exchangeable._times(vectors, [placed], asked_of) >= 1) == (sign < 0)
        slopes = np.array([[[of["own"]], [0.1]], [[-of["own"]], [of["gradient"]]]])
        if which == "own":
            found = cohorts._within({START: np.array([0.1])}, (0, slopes), asked_of, **half)
        else:
            slopes[:, 0] = 0.25
            found = cohorts._within({START: np.array([of["start"]])}, (0, slopes), q, **half)
        assert found == (sign < 0)
    free = asked(zeta=None)
    assert exchangeable._times({"mean": {}, "deviation": {"g*": np.ones(9)}}, [placed], free) == 1


START = cohorts.START


@pytest.mark.parametrize(
    "q",
    [
        asked(losses=Losses(F(4), F(1)), steps=2, step=F(1, 8), zeta=F(1, 3), R=F(5)),
        asked("fedprox", mu=F(2)), asked("feddyn", alpha=F(1, 3)),
        asked(losses=Losses(None, 0, F(2)), zeta=None, R=F(1, 2), steps=2, step=F(1, 16)),
        asked(losses=Losses(None), zeta=None, R=F(2), step=F(1, 16)), asked(R=F(0)),
    ],
    ids=["steps", "prox", "dyn", "bounded", "kinks", "at the optimum"],
)  # fmt: skip
def test_a_run_on_parabolas_has_every_condition_strictly(q):
    """Two clients' gradients are affine in the position, of curvatures between mu and L."""
    points = exchangeable.apart(q)[0]
    between = (0.8, 0.3)
    made = exchangeable._on_parabolas(points, q, between)
    at, gradients = exchangeable._placed(points, made)
    L = float(q.losses.smoothness or (q.losses.lipschitz or 1) / q.distance)
    mu = float(q.losses.strong_convexity)
    for sign, part in ((1, 1.0), (-1, 0.4)):
        c = mu + part * np.array(between) * (L - mu)
        for x, g in zip(at[0], gradients[0], strict=True):
            own = sign * made["deviation"]["g*"]
            x, g = x[:2] + sign * x[2:], g[:2] + sign * g[2:]
            np.testing.assert_allclose(g, c * x + own, atol=1e-13)
    assert exchangeable._times(made, [(at, gradients)], q) == pytest.approx(2**0.5)
    if q.distance:
        least = interpolation._least_differences((at, gradients), q.losses)[0]
        assert interpolation._room(least) > 1e-6 * np.abs(least).max()


# --- cohorts --------------------------------------------------------------------------------------
def test_scenarios_are_all_ways_to_draw_the_cohorts():
    """2 of 3 clients in three rounds: 27 scenarios, each another history."""
    sampling = cohorts.EveryCohort(2)
    rows = [sampling.sample(Stream(0), t, range(27), 3).members for t in (1, 2, 3)]
    histories = {tuple(map(tuple, (row[s] for row in rows))) for s in range(27)}
    assert len(histories) == 27
    assert rows[0][:4].tolist() == [[0, 1], [0, 2], [1, 2], [0, 1]]
    assert rows[1][[0, 2, 3, 8]].tolist() == [[0, 1], [0, 1], [0, 2], [1, 2]]
    drawn = sampling.sample(Stream(0), 1, range(2), 3)
    assert drawn.active_probability.tolist() == pytest.approx([2 / 3] * 3)


def test_the_combination_of_labels():
    of = {START: F(2), ("g", 0, ()): F(-3), ("g", 1, ()): F(5)}
    vectors = {START: np.array([1.0, 0]), ("g", 0, ()): np.array([0, 1.0])}
    vectors["g", 1, ()] = np.array([1.0, 1.0])
    assert cohorts._sum(Row(of), vectors).tolist() == [7, 2]
    assert cohorts._sum(Row(of), vectors, ("g", 1, ())).tolist() == [2, -3]
    assert cohorts._sum(Row({}), vectors).tolist() == [0, 0]
    points = [[Point(("p", k, ()), Row({START: F(k)}), Row(of))] for k in range(2)]
    at, gradients = cohorts._placed(points, vectors)
    assert at.tolist() == [[[0, 0]], [[1, 0]]] and gradients.tolist() == [[[7, 2]], [[7, 2]]]


def of_tree(method="fedavg", losses=None, **given):
    """One or two of three clients in two rounds."""
    options = given.pop("options", {"step": F(1, 4)})
    numbers = {"local_steps": 1, "rounds": 2, "criterion": "gap", "participants": 1, **given}
    numbers = {"heterogeneity": F(7), "distance": F(6), "clients": 3, **numbers}
    q = bounds.asked(method, options, losses=losses or Losses(), **numbers)
    return replace(q, heterogeneity=numbers["heterogeneity"])


def at_rest(**given):
    """A question of a method that stays where it is: FedAvg with steps of 0."""
    q = of_tree(rounds=1, **given)
    still = in_fractions(GradientSteps(1, 1.0), {"lr": F(0)})
    return replace(q, subject=replace(q.subject, solver=still))


def test_conditions_of_every_client_without_symmetry():
    """On three parabolas: start, heterogeneity and 14 points of each client, two by two."""
    q = of_tree(losses=Losses(None, 0, F(30)))
    whole = cohorts.whole_family(q)
    tree, start, _ = grown(q)
    first = {START: F(5)} | {("g*", k, ()): slope(k, F(0)) for k in range(3)}
    found = OfTree(tree, first)
    number = {written(label): x for label, x in found.numbers.items()}
    values = {written(p): x for p, x in found.values.items()}

    def told(form):
        total = sum(c * number[x] * number[y] for (_, x, y), c in form.gram.items())
        return form.constant + total + sum(c * values[p] for p, c in form.values.items())

    assert told(whole.start) == found.form(start)
    points = [p for of in tree.points.values() for p in of]
    where = {written(p.name): (k % 3, found.of(p.at)) for k, p in enumerate(points)}
    assert len(points) == 3 * (1 + 1 + 3 + 9)
    assert told(whole.terms["start"]) == 25 - 36
    own = sum(slope(k, F(0)) ** 2 for k in range(3)) / 3
    assert told(whole.terms["heterogeneity"]) == own - 49
    by_hand = [slope(k, x) ** 2 - 900 for k, x in where.values()]
    for (p, (k, x)), (other, (i, y)) in product(where.items(), repeat=2):
        if i == k and p != other:
            by_hand.append(loss(k, y) + slope(k, y) * (x - y) - loss(k, x))
    two = ("start", "heterogeneity")
    kept = [told(term) for name, term in whole.terms.items() if name not in two]
    assert sorted(kept) == sorted(by_hand)
    assert "heterogeneity" not in cohorts.whole_family(of_tree(heterogeneity=None)).terms
    assert whole.signed == frozenset() and len(kept) == 3 * (14 * 13 + 14)


def test_gram_matrices_of_labels_are_means_over_all_permutations():
    """M(x, y) = mean of sum Z_ij b_i(g x) b_j(g y), written out."""
    tree = Tree(3, 1)
    labels = [START, *(("a", k, ()) for k in range(3))]
    labels += [("b", k, ((j,),)) for k in range(3) for j in range(3)]
    bases, rng = tree.bases(labels), np.random.default_rng(0)
    rows = {}
    for block, name in bases:
        rows.setdefault(block, []).append(name)
    gram = {}
    for block, names in rows.items():
        z = rng.integers(-3, 4, size=(len(names),) * 2)
        gram[block] = (z + z.T).astype(float)
    found = cohorts._gram(tree, SimpleNamespace(rows=rows, gram=gram), labels)
    assert len(gram) == 3
    for x, y in product(range(len(labels)), repeat=2):
        total = 0
        for g in tree.group:
            to = [moved(labels[i], g) for i in (x, y)]
            for block, names in rows.items():
                left, right = ([bases[block, n].get(of, 0) for n in names] for of in to)
                total += np.array(left) @ gram[block] @ np.array(right)
        assert found[x, y] == pytest.approx(total / 6, abs=1e-12)


def test_every_client_s_points_of_one_position_have_one_name():
    """The method is asked at x_0 and at every x_1 only; after steps of 0 that is one position."""
    q = of_tree(criterion="best-gap")
    points, _ = cohorts._apart(grown(q)[0])
    assert [len(of) for of in points] == [5, 5, 5]
    assert [p.name for p in points[1]] == [
        ("*", 1, ()), ("g0.0", 1, ()), *(("g1.0", 1, ((k,),)) for k in range(3)),
    ]  # fmt: skip
    still = at_rest(criterion="gap")
    points, same = cohorts._apart(grown(still)[0])
    assert [len(of) for of in points] == [2, 2, 2]
    assert same == {
        ("end", k, ((j,),)): ("g0.0", k, ()) for k in range(3) for j in range(3)
    }


@pytest.mark.parametrize(
    "q",
    [
        of_tree(losses=Losses(F(4), F(1)), local_steps=2, options={"step": F(1, 8)}),
        of_tree("fedprox", options={"mu": F(2)}), of_tree("feddyn", options={"alpha": F(1, 3)}),
        of_tree("subgradient", Losses(None, 0, F(2)), heterogeneity=None, distance=F(1, 2),
                options={"step": F(1, 9)}, participants=2),
        of_tree(losses=Losses(None), heterogeneity=None, distance=F(2), options={"step": F(1, 9)}),
        of_tree(distance=F(0)),
    ],
    ids=["steps", "prox", "dyn", "bounded", "kinks", "at the optimum"],
)  # fmt: skip
def test_runs_of_a_tree_on_parabolas_have_every_condition_strictly(q):
    """Of three clients the curvatures lie 1, 0.7 and 0.4 of the way; their slopes at 0 sum to 0."""
    tree = grown(q)[0]
    points, _ = cohorts._apart(tree)
    between = (0.8, 0.3)
    made = cohorts._on_parabolas(tree, q, between)
    at, gradients = cohorts._placed(points, made)
    L = float(q.losses.smoothness or (q.losses.lipschitz or 1) / q.distance)
    mu = float(q.losses.strong_convexity)
    for k, part in enumerate((1, 0.7, 0.4)):
        c = mu + part * np.array(between) * (L - mu)
        own = gradients[k, 0]
        assert np.abs(own).min() > 1e-9 and (at[k, 0] == 0).all()
        np.testing.assert_allclose(gradients[k], c * at[k] + own, atol=1e-13)
    np.testing.assert_allclose(gradients[:, 0].sum(axis=0), 0, atol=1e-14)
    assert cohorts._within(made, (at, gradients), q, part=0.5)
    if q.distance:
        for least in interpolation._least_differences((at, gradients), q.losses):
            assert interpolation._room(least) > 1e-9 * np.abs(least).max()


# --- whole losses ---------------------------------------------------------------------------------
def nothing_found(q):
    """A worst case whose solver found 0: what is made of it is the run on parabolas alone."""
    nothing: Any = SimpleNamespace(rows={}, gram={})
    none: Any = None
    return WorstCase(F(0), 0.0, nothing, none, q, bounds.relaxed(q))


WHOLE = [
    asked(steps=2, step=F(1, 3)), asked("scaffold", steps=2, step=F(1, 3)), asked("fedprox", mu=1),
    asked("feddyn", Losses(F(3), F(1, 2)), alpha=F(1)),
    of_tree(participants=2, options={"step": F(1)}), of_tree("scaffold", clients=2),
    of_tree("feddyn", clients=2, options={"alpha": F(1)}),
]  # fmt: skip


@pytest.mark.parametrize("q", WHOLE)
def test_a_run_on_losses_goes_where_its_points_are(q):
    """The start, the gap at the end, and every loss 0 at the optimum, for two clients or three."""
    for clients in (q.clients,) if q.tree else (2, 3):
        made = worst_function(nothing_found(q), clients)
        models, best = made.models(), made.optimum
        assert made.problem.num_clients == clients and (models[:, 0] == 0).all()
        assert 0 < np.linalg.norm(best) < float(q.distance) and made.margin > 0
        losses = made.problem.client_losses(best[None])
        size = float(best @ best)
        np.testing.assert_allclose(losses, 0, atol=1e-12 * size)
        ends = [x for p, x in made.values.items() if p.startswith("end")]
        assert made.measured() == pytest.approx(np.mean(ends), rel=1e-6) and made.measured() > 0
        assert len(ends) == (clients * made.ways if q.tree else 1)


def test_what_stands_for_points_of_one_position():
    """After a step of 0 the end is where the method began, of every client and cohort."""
    q = at_rest()
    made = cohorts.of_cohorts(nothing_found(q), q)
    names = [f"end of {k} after {j}" for k in range(3) for j in range(3)]
    vectors = made.vectors["all"]
    for name in names:
        own = "g0.0 of " + name[7]
        assert (vectors[name] == vectors[own]).all() and made.named[name] == made.named[own] != 0
    before = {f"{p} of {k}" for p in ("g*", "g0.0") for k in range(3)}
    assert set(vectors) == {"x0", *names} | before
    assert (made.at[:, 1] == made.start).all() and made.at.shape[:2] == (3, 2)
    assert (made.start == vectors["x0"]).all() and (made.values[:, 0] == 0).all()


def test_runs_on_parabolas_are_made_smaller_until_they_are_within_the_limits():
    """L = 9 at a distance of 6 is 54, and gradients are to be at most 1: half of it is left for squares; of a tree by
    halves, as often as it takes and no further."""
    losses = Losses(F(9), 0, F(1))
    exact = asked(losses=losses, zeta=F(2), R=F(6), step=F(1, 90))
    points = exchangeable.apart(exact)[0]
    made = exchangeable._on_parabolas(points, exact, (0.8, 0.3))
    assert (exchangeable._placed(points, made)[1] ** 2).sum(axis=-1).max() == pytest.approx(1 / 2)
    tree = of_tree(losses=losses, heterogeneity=F(2), options={"step": F(1, 90)})
    of_clients = cohorts._on_parabolas(grown(tree)[0], tree, (0.8, 0.3))
    largest = (cohorts._placed(cohorts._apart(grown(tree)[0])[0], of_clients)[1] ** 2).sum(axis=-1).max()
    assert 1 / 8 < largest <= 1 / 2
    halvings = np.log2(0.25 * float(tree.distance) / of_clients[START][0])
    assert halvings == pytest.approx(round(halvings)) and halvings > 1


@pytest.mark.parametrize(
    ("q", "clients", "says"),
    [
        (asked(), 2, None), (asked(), 1, "clients is 1"), (asked(), None, None),
        (of_tree(), None, None), (of_tree(), 2, "cohorts of 1 of 3 clients were asked"),
        (asked("fedelasticnet-dyn", l2=F(1)), 2, "no worst function of fedelasticnet-dyn"),
        (asked("fedprox", Losses(None, F(1, 10**9)), mu=F(1)), 2, "leave one of the two out"),
        (asked("fedprox", Losses(None), mu=F(1)), 2, None),
        (asked("fedprox", Losses(F(1), F(1, 9)), mu=F(1)), 2, None),
    ],
)  # fmt: skip
def test_of_what_losses_are_made(q, clients, says):
    if says is None:
        made = worst_function(nothing_found(q), clients)
        assert made.problem.num_clients == (clients or q.clients)
    else:
        with pytest.raises(InvalidInput, match=says):
            worst_function(nothing_found(q), clients)
