"""Nonconvex losses: wells worked out by hand, global minimisers against a grid, and theorems that hold and fail without
convexity."""

from fractions import Fraction as Q

import numpy as np
import pytest
from statements_at_hand import sentence

from fedtheory.theory import (
    GradientSteps,
    Minimise,
    Quadratics,
    Smooth,
    SmoothConvex,
    form,
    le,
    printed,
    replay,
    study,
)
from fedtheory.theory.rounds.forms import Undefined
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import check
from fedtheory.theory.rounds.losses import SeparableLosses, Unbounded, fractions
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.studies.counterexamples import instance_of

STEP = GradientSteps(1, lr=lambda c: 1 / c.beta)


def losses(start="0", rounds=1, **columns):
    """One-dimensional losses of some clients of equal weights, from columns of numbers."""
    n = len(columns["h"])
    data = {k: [[v if v is None else str(v)] for v in column] for k, column in columns.items()}
    return Draw.from_data({"c": [["0"]] * n, "weights": [str(Q(1, n))] * n, "start": [start], "rounds": rounds, **data})


WELL = dict(h=[-2], m=[1], delta=[1])  # -x^2/2 for |x| <= 1, x^2/2 - 2 |x| + 1 beyond: least at -2 and 2, where it is -1


def test_a_well_by_hand():
    well = losses(**WELL).exact_losses
    points = np.array([[Q(v)] for v in ("0", "1", "2", "3", "-2")], dtype=object)
    assert well.values(points)[:, 0].tolist() == [0, Q(-1, 2), -1, Q(-1, 2), -1]
    assert well.gradients(points)[:, 0, 0].tolist() == [0, -1, 0, 1, 0]
    assert {k: well.constants[k] for k in ("beta", "mu", "beta_F", "mu_F", "G_sq")} == {
        "beta": 1, "mu": 0, "beta_F": 1, "mu_F": 0, "G_sq": None,
    }  # fmt: skip
    assert losses(h=[-5], m=[1], delta=[1]).exact_losses.constants["beta"] == 4  # |-5 + 1|
    assert abs(well.minimiser([Q(0)])[0]) == 2 and not well.unique
    assert well.stationary() == [[-2, 0, 2]]
    assert str(losses(**WELL)) == "f1 = -2 huber_1(x) + x²/2, start 0, 1 round"


def test_the_lower_of_two_wells_is_the_minimiser():
    """A tilt of 1/4 to the right moves the minimisers to -2 - 1/4 (lower) and 2 - 1/4."""
    columns = [[-2, 1], [0, -10], [1, 0], [0, 0], [1, Q(1, 4)]]
    of_both = SeparableLosses.of(*(np.transpose(fractions([v])) for v in columns), fractions([1, 1]))
    assert [f.least() for f in of_both.joint] == [(Q(-9, 4), Q(-9, 4), True)]


@pytest.mark.parametrize("seed", range(12))
def test_global_minimisers_against_a_grid(seed):
    """Three wells and tilts: no point of a grid is lower, and none as low where the minimiser is said to be the only one."""
    rng = np.random.default_rng(seed)
    h, c, m, delta = (rng.integers(low, high, 3) for low, high in ((-6, 5), (-5, 6), (0, 4), (1, 4)))
    m[0] += 1
    made = losses(h=h, c=c, m=m, delta=delta)
    x = made.exact_losses.minimiser(made.start)
    grid = np.array([[Q(i, 8)] for i in range(-400, 401)], dtype=object)
    values, least = made.exact_losses.values(grid).sum(axis=-1), made.exact_losses.values(x).sum()
    assert (values >= least).all() and (made.exact_losses.gradients(x).sum(axis=0) == 0).all()
    convex = all(k >= 0 for k in np.diff((grid[:, 0] * 0 + values), 2))
    if not convex:
        assert (values == least).sum() <= (1 if made.exact_losses.unique else 801)
        assert made.exact_losses.unique or (values == least).sum() > 1


def test_f_that_is_not_bounded_below_is_no_smooth_problem():
    assert "falls for ever" in Smooth(1, 1).why_not(losses(h=[-1]))
    assert "falls for ever" in Smooth(1, 1).why_not(losses(h=[-1], delta=[1]))
    assert Smooth(1, 1).why_not(losses(**WELL)) is None
    assert Smooth(2, 1).why_not(losses(h=[-1, 1], delta=[1, 2])) is None, "the other client's slope is the larger one"
    with pytest.raises(Unbounded, match="not convex"):
        losses(h=[-1]).exact_losses.minimiser([Q(0)])


def test_a_loss_is_convex_where_its_pieces_are():
    """-huber + 2 x^2/2 has curvature 1 inside and 2 beyond."""
    bent = losses(h=[-1], m=[2], delta=[1])
    assert SmoothConvex(1, 1).why_not(bent) is None and bent.exact_losses.constants["mu"] == 1
    assert "not convex" in SmoothConvex(1, 1).why_not(losses(**WELL))


def test_without_one_minimiser_there_is_no_x_star_but_a_gap():
    def distance(q):
        """A distance."""
        yield printed(le(q.distance_sq_next, q.distance_sq))

    def gap(q):
        """A gap: at 0 the well is stationary, 1 above its least value."""
        yield printed(le(q.gap, 1 + 0 * q.gap))

    statement = sentence(distance, local=STEP, problems=Smooth((1, 2), 1), rounds=0)
    view = MethodSetting.of(statement).view(losses(rounds=0, **WELL))
    with pytest.raises(Undefined, match="several minimisers"):
        statement.on(view)
    assert check(statement, MethodSetting.of(statement).view(losses(rounds=0, **WELL)))[0].verdict == "not applicable"
    assert sentence(gap, local=STEP, problems=Smooth((1, 2), 1), rounds=0).on(view)["printed"].sides.lhs[0, 0] == 1


def test_local_objectives_with_several_minimisers_are_refused():
    """The well from its middle has two; with a pull to the right it has one."""
    [well] = [losses(**WELL).exact_losses.pieces]
    zero, one = np.array([[Q(0)]], dtype=object), np.array([[Q(1)]], dtype=object)
    with pytest.raises(Unbounded, match="several minimisers"):
        well.minimise(zero, Q(0), zero)
    assert well.minimise(one, Q(0), zero)[0, 0] == 3  # y - 2 = 1
    assert well.minimise(one.astype(float), 0.0, zero.astype(float)).shape == (1, 1)
    falling = losses(h=[-1], delta=[1]).exact_losses.pieces
    with pytest.raises(Unbounded, match="falls for ever"):
        falling.minimise(zero, Q(0), zero)  # its slope at 0 is 0, and that is where it is largest


def test_theorems_about_smooth_losses():
    """With steps of 1/beta, F(x+) <= F(x) - ||grad F(x)||^2/(2 beta), so the least squared gradient of T is at most
    2 beta (F(x_0) - F*)/T, whether F is convex or not; half of that is too little, attained by x^2/2 in one step."""

    def rate(q):
        """Gradient descent finds a stationary point."""
        least = q.gradient_sq[:-1].min(axis=0)
        yield printed(le(least, 2 * q.beta * q.gap[0] / q.T), holds=True)
        yield form("half", le(least, q.beta * q.gap[0] / q.T), fails=True)

    statement = sentence(rate, over="run", local=STEP, problems=Smooth((1, 3), (1, 2)))
    found = study(statement, budget=200, necessity=False)
    assert {r.form: r.verdict for r in found.rows} == {"printed": "holds", "half": "violated"}
    drawn = [statement.problems.draw(np.random.default_rng(k)) for k in range(100)]
    assert sum((made.h + made.m < 0).any() for made in drawn) > 40, "most of the losses are not convex"


def gap_falls(problems):
    def rate(q):
        """The rate of gradient descent on convex losses."""
        yield printed(le(q.gap[-1], q.beta * q.distance_sq[0] / (4 * q.T + 2)))

    return sentence(rate, over="run", rounds=(1, 3), local=STEP, problems=problems)


def test_gradient_descent_does_not_find_the_minimum_of_smooth_losses():
    statement = gap_falls(Smooth((1, 3), (1, 2)))
    found = study(statement, budget=300, necessity=False)
    [example] = found.counterexamples
    again = replay(example, statement)
    assert again.verdict == "violated" and again.mode == "rational"
    assert SmoothConvex((1, 3), (1, 2)).why_not(instance_of(example)) == "some client's loss is not convex"


def test_convexity_is_needed_where_it_is():
    statement = gap_falls(SmoothConvex((1, 3), (1, 2)))
    found = study(statement, budget=1000)
    needs = {a.assumption: a for a in found.studies[0].assumptions}
    assert found.row("it", "printed").verdict == "holds" and needs["convex losses"].needed
    example = needs["convex losses"].example
    assert (instance_of(example).h + instance_of(example).m < 0).any()
    assert replay(example, statement).verdict == "violated"


def test_of_quadratics_only_quadratics_are_left_without_convexity():
    setting = MethodSetting.of(sentence(lambda q: [printed(le(q.F_next, q.F))], local=Minimise(), problems=Quadratics(2, 1)))
    variant = dict(setting.variants())["convex losses"]
    rng = np.random.default_rng(0)
    assert all((made.delta == None).all() for made in (variant.problems.draw(rng) for _ in range(50)))  # noqa: E711
