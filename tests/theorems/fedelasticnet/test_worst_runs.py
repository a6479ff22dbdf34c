"""The worst run of Algorithm 3 without its l1 term: closed forms, and runs that stay below."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Uniform
from fedtheory.problems import Quadratic
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
from fedtheory.theorems.fedelasticnet.worst_runs import worst_excess, worst_share
from tests.theorems.fedelasticnet.runs import letters, tree


@pytest.mark.parametrize("ratio", [F(1, 2), F(3), F(40)])
def test_before_the_first_round_it_is_smoothness_alone(ratio):
    """R(gamma^0) - R* <= beta/2 ||gamma^0 - theta*||^2, whatever C_0."""
    bound, _ = worst_excess(ratio, 1, [(1, 0, 4), (0, 1, 7)])
    assert F(2) <= bound <= F(2) * (1 + F(1, 10**6))


@pytest.mark.parametrize(
    ("ratio", "rounds", "clients", "participants"), [(F(2), 2, 4, 4), (F(1, 2), 4, 4, 4), (F(1), 3, 2, 1), (F(3), 2, 3, 2)], ids=str
)
def test_no_run_is_above_it(ratio, rounds, clients, participants):
    """Quadratics with the run's own distance and C_0, all cohorts enumerated; one-dimensional ones come close."""
    shares = []
    for seed in range(1, 4):
        rng = np.random.default_rng(seed)
        curvature, centre = rng.uniform(0.01, 1, size=(clients, 1, 1)) ** (seed % 4), rng.normal(size=(clients, 1)) * (seed % 3)
        algorithm = FedElasticNetDyn(float(np.nextafter(0, 1)), float(ratio), "true-gradient")
        view = letters(tree(Quadratic(curvature, centre), algorithm, Uniform(participants), rounds, np.array([2.0])))
        known = [(1, 0, F(view.start_sq)), (0, 1, F(view.C0))]
        limits = [(a, b, c.limit_denominator(10**8) + F(1, 10**8)) for a, b, c in known]
        bound, _ = worst_excess(ratio, rounds, limits, clients, participants)
        shares.append(float(view.excess[-1]) / float(bound))
    assert max(shares) <= 1
    assert max(shares) > 0.4


def test_the_share_of_theorem_e_grows_with_the_rounds():
    """With kappa_0 = 2/lambda about T/(T + lambda - 1) of the bound is attained: it is not too large by a factor for ever."""
    constants = ElasticConstants(F(1), F(1), F(1), F(0), F(28))
    printed, a, e = (worst_share(of[1:], F(28), 4) for of in (constants.printed, constants.theorem_a, constants.theorem_e))
    assert printed < a / 10 < e / 10
    kappas = ElasticConstants(F(1), F(1), F(1), F(0), F(12)).theorem_e[1:]
    shares = [float(worst_share(kappas, F(12), T)) for T in (1, 3, 9)]
    np.testing.assert_allclose(shares, [T / (T + 11) for T in (1, 3, 9)], rtol=3e-3)
    assert shares[0] < shares[1] < shares[2] < 1


def test_v_0_and_its_parts():
    """The worst case with V_0 <= 1 is the largest of those with a distance and a C_0 that make V_0 = 1."""
    together, _ = worst_excess(F(3), 3, [(1, 2, 1)])
    apart = [worst_excess(F(3), 3, [(1, 0, 1 - share), (0, 2, share)])[0] for share in (F(0), F(1, 10), F(1, 2), F(1))]
    assert max(apart) <= together * (1 + F(1, 10**6))
    assert together <= max(apart) * F(11, 10)


@pytest.mark.parametrize(("ratio", "rounds", "says"), [(F(0), 2, "must be above 0"), (F(1), 100, "at most 40"), (F(1), 0, "rounds")])
def test_what_is_refused(ratio, rounds, says):
    with pytest.raises(InvalidInput, match=says):
        worst_excess(ratio, rounds, [(1, 0, 1)])
