"""The worst run of EFL's local SGD where everybody completes every step: closed forms, runs below it, and what is refused."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory.errors import InvalidInput
from fedtheory.problems import Quadratic
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theorems.efl.theorem_1 import bound
from fedtheory.theorems.efl.worst_runs import constants_of, rate_of, worst_at, worst_distance
from fedtheory.theory.rounds.second_moments import oracles_of


@pytest.mark.parametrize(("condition", "rounds"), [(F(2), 1), (F(5), 3)])
def test_one_local_step_is_gradient_descent(condition, rounds):
    """prod (1 - eta_t mu)^2 ||w_0 - w*||^2, as every step size is below 2/(L + mu); D and G need not be known."""
    constants = constants_of(1, condition, 1, rounds)
    assert max(constants.eta) < 2 / (condition + 1)
    factor = np.prod([(1 - eta) ** 2 for eta in constants.eta])
    found = worst_distance(constants, [(1, 0, 0, 3)])
    assert 3 * factor <= found <= 3 * factor * (1 + F(1, 10**6))


@pytest.mark.parametrize(("E", "rounds"), [(1, 2), (2, 2), (3, 1)])
def test_no_run_is_above_it(E, rounds):
    """Quadratics of three clients with curvatures from 1/2 to 1, with the run's own distance, D and G."""
    shares = []
    for seed in range(1, 4):
        rng = np.random.default_rng(seed)
        curvature = rng.uniform(0.5, 1, size=(3, 1))
        curvature[0], curvature[1] = 0.5, 1
        oracles = oracles_of(Quadratic(curvature[:, :, None], rng.normal(size=(3, 1)) * (seed % 3)))
        law = np.zeros((3, E + 1))
        law[:, E] = 1
        view = quadratic_run(oracles, round_laws("C", [law], rounds, oracles.weights), oracles.star + 2.0)
        c = view.constants
        known = [F(float(x)).limit_denominator(10**8) + F(1, 10**8) for x in (c.start_sq, c.D.mean(), c.G_sq)]
        limits = [(1, 0, 0, known[0]), (0, 1, 0, known[1]), (0, 0, 1, known[2])]
        worst = worst_distance(constants_of(E, 1, F(1, 2), rounds), limits)
        shares.append(view.lhs[-1] / float(worst))
        said = rate_of(bound, constants_of(E, 1, F(1, 2), rounds, *known))
        assert float(said) == pytest.approx(float(bound(view).rhs[-1]), rel=1e-5) and worst < said
    assert max(shares) <= 1
    assert max(shares) > 0.6


def test_too_many_steps_are_refused():
    with pytest.raises(InvalidInput, match="5 rounds of 6 local steps"):
        worst_distance(constants_of(6, 2, 1, 5), [(1, 0, 0, 1)])


def test_a_sharper_form_is_nearer():
    plain, sharp = (worst_at(sides).share() for sides in (bound, lambda v: bound(v, sharp="uncorrelated")))
    assert 0 < plain < sharp < 1
