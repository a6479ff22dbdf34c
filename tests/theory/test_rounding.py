"""How far rounding reaches is found by moving numbers, as often as the verdict may hang on it."""

import numpy as np
import pytest
from statements_at_hand import instance, sentence

from fedtheory import theorems
from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.problems import random_huber, random_quadratic
from fedtheory.theory import Quadratics, Uniform, form, le, printed, verify, wrong
from fedtheory.theory.rounds.judging import check, with_noise
from fedtheory.theory.rounds.measured import NUDGE, Quantities
from fedtheory.theory.rounds.method_setting import MethodSetting


@pytest.fixture
def moves(monkeypatch):
    """The numbers of the moves made, as they are."""
    made, nudged = [], Quantities.nudged

    def noted(self, again=0):
        made.append(again)
        return nudged(self, again)

    monkeypatch.setattr(Quantities, "nudged", noted)
    return made


def floats(statement):
    return MethodSetting.of(statement).view(instance([["1/3"], [2]], [[0], ["7/5"]], [3]), exact=False)


@pytest.mark.parametrize(
    ("share", "verdict", "count"), [(1.001, "holds", 1), (1 + 1e-13, "holds", 1), (0.999, "violated", 2)]
)
def test_more_moves_are_made_where_a_verdict_may_hang_on_them(share, verdict, count, moves):
    """F <= share F: where it holds after a move, or fails by far after its opposite, no further one decides."""
    statement = sentence(lambda q: [printed(le(q.F, share * q.F)), form("same", le(share * q.F, share * q.F))])
    found = check(statement, floats(statement))
    assert [c.verdict for c in found] == [verdict, "holds"] and moves == list(range(count))


def test_moves_come_with_their_opposite():
    """To first order F moves as far up as down, and gradients, states and constants do, too."""
    view = floats(sentence(lambda q: [printed(le(q.F, q.F))]))
    for again in (0, 2, 4):
        there, back = view.nudged(again), view.nudged(again + 1)
        for name in ("F", "gradient", "x_next", "beta"):
            here = getattr(view, name)
            up, down = (np.asarray(getattr(v, name) - here) for v in (there, back))
            assert (abs(up + down) <= 1e-4 * NUDGE * (1 + abs(here))).all()
            assert (abs(up) > 1e-4 * NUDGE * abs(here)).all() and not np.array_equal(up, 0 * up)


def test_what_cancels_inside_a_side_is_felt():
    """Losses are taken from each other before a side is made, of which its one term shows nothing."""
    statement = sentence(lambda q: [printed(le(abs(q.F_next - q.value(q.x_next) + 1e-16 * q.F), 0 * q.F))])
    view = floats(statement)
    sides = with_noise(statement, view, "printed")
    assert (sides.lhs > 0).all() and (sides.noise > 1e-16 * view.F_next).all() and (sides.scale > 0.01).all()
    assert check(statement, view)[0].verdict == "holds"


def test_wrong_variants_are_made_where_they_are_asked_for():
    """A check of the forms makes none that is a function."""
    made = []

    def lazy(q):
        """A wrong variant that notes that it is made."""
        yield printed(le(q.F, 2 * q.F), "a", wrong("half", lambda: made.append(q) or le(q.F, q.F / 2)))

    statement = sentence(lazy)
    check(statement, floats(statement))
    assert made  # it was looked over
    made.clear()
    assert check(statement, floats(statement))[0].verdict == "holds" and not made
    sides = with_noise(statement, floats(statement), "printed", lambda claimed: claimed.mutants[0].sides)
    assert made and (sides.lhs > sides.rhs).all()


def test_no_view_is_made_anew_for_another_form(moves):
    statement = sentence(lambda q: [form(str(i), le(q.F, (2 + i) * q.F)) for i in range(5)])
    assert {c.verdict for c in check(statement, floats(statement))} == {"holds"} and moves == [0]


@pytest.mark.parametrize(("share", "verdict", "count"), [(2, "holds", 1), (0.01, "violated", 2)])
def test_of_draws_the_mean_counts(share, verdict, count, moves):
    """That the slack of a few runs is negative is no doubt."""
    least = []

    def later(q):
        """The gap of later."""
        least.extend([(share * q.gap[1] - q.gap[-1]).min()] if q.sampled else [])
        yield printed(le(q.gap[-1], share * q.gap[1]))

    how = {"sampling": Uniform(1), "rounds": 9, "problems": Quadratics((1, 9), (1, 2))}
    problem = random_quadratic(3, 2, seed=1, heterogeneity=3.0)
    [found] = verify(sentence(later, over="run", **how), problem, scenarios=200, x0=problem.optimum().x + 1)
    assert (found.mode, found.verdict) == ("statistical", verdict) and min(least) < 0
    assert set(moves) == set(range(count))


@pytest.mark.parametrize("times", [1, 3, 100])
def test_a_far_start_with_a_steep_penalty_refutes_no_equality(times):
    """gamma = theta + h/lambda_2 is rounded to the size of theta, and theta_tilde is theta: their
    difference is off by more than any term of (36) is long."""
    start = times * np.array([435.4938155117184, -300.5303847273501, 102.93681493237617])
    method = FedElasticNetDyn(1.7178885634152139e-06, 1e5, "true-gradient")
    told = {"sampling": Uniform(4), "x0": start, "forms": ["repaired"], "seed": 679620}
    (found,) = theorems.get("fedelasticnet/eq-36").verify(random_huber(4, 3, seed=679620), method, **told)
    assert found.verdict == "holds"
