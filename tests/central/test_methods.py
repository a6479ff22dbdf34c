"""MOPES and MOLES against their bounds and call counts, with mutants, and what they refuse."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from fedtheory.algorithms.fedmls import fewest_rounds
from fedtheory.central import (
    MOLES,
    MOPES,
    Ball,
    Box,
    Consensus,
    ConstraintSet,
    Function,
    L1Ball,
    NuclearBall,
    Simplex,
    frank_wolfe_projection,
)
from fedtheory.errors import InvalidInput, LocalSolveFailed, MissingCapability
from fedtheory.testing import assert_bound_holds, assert_rate


# --- functions with a known optimum ---------------------------------------------------------------
def distance_to(c):
    """||x - c||: G = 1, and over X its minimum is the distance from c to X, at the projection of c."""

    def subgradient(x):
        size = np.linalg.norm(x - c, axis=-1, keepdims=True)
        return (x - c) / np.where(size > 0, size, 1.0)

    return Function(len(c), lambda x: np.linalg.norm(x - c, axis=-1), subgradient, lipschitz=1.0)


def largest_entry(n):
    """max_i x_i with the first index: G = 1; over the simplex 1/n, at the centre, which no few vertices come near."""

    def subgradient(x):
        return np.eye(n)[np.argmax(x, axis=-1)]

    return Function(n, lambda x: x.max(axis=-1), subgradient, lipschitz=1.0)


C = np.array([1.0, -0.7, 0.4, 0.1, 2.0, -0.2])
INSTANCES = [(L1Ball(6, 1.3), distance_to(C)), (Simplex(6), distance_to(C)), (NuclearBall(2, 3, 1.3), distance_to(C)),
             (Ball(6, 1.3), distance_to(C)), (Box(6, -0.5, 0.8), distance_to(C)), (Simplex(12), largest_entry(12))]  # fmt: skip


instances = pytest.mark.parametrize(("constraint", "function"), INSTANCES, ids=lambda a: type(a).__name__)


def solved(constraint, function):
    """(x*, F*) in closed form."""
    star = np.full(12, 1 / 12) if function.dim == 12 else constraint.project(C)
    return star, float(function.objective(star))


def vertex(constraint):
    return constraint.linear_minimiser(np.eye(constraint.dim)[0])


def judge(algorithm, function, constraint, x0, **options):
    """Run; the bound must hold, and all the iterates be feasible."""
    star, least = solved(constraint, function)
    run = algorithm.run(function, constraint, x0, keep=True, **options)
    bound = algorithm.bound(float((x0 - star) @ (x0 - star)))
    assert max(constraint.distance(x) for x in run.iterates) <= 1e-9
    return run, assert_bound_holds(run.values[-1] - least, bound)


@instances
@pytest.mark.parametrize("method", ["MOPES", "MOLES"])
def test_the_bound_holds_and_the_calls_are_as_stated(constraint, function, method):
    x0 = vertex(constraint)
    star, _ = solved(constraint, function)
    distance_sq, epsilon = float((x0 - star) @ (x0 - star)), 0.6
    if method == "MOPES":
        algorithm = MOPES.for_accuracy(epsilon, 1, distance_sq)
    else:
        algorithm = MOLES.for_accuracy(epsilon, 1, distance_sq, constraint.diameter)
    run, check = judge(algorithm, function, constraint, x0)
    assert algorithm.bound(distance_sq) <= epsilon and 0 < check.tightness <= 1
    assert run.subgradient_calls[-1] == sum(algorithm.local_steps()[:-1])
    if method == "MOPES":
        assert (run.projections[-1], run.lmo_calls[-1]) == (algorithm.rounds, 0)
    else:
        assert run.projections[-1] == 0
        assert np.diff(run.lmo_calls).max() <= algorithm.lmo_limit(constraint.diameter)
        assert run.lmo_calls[-1] <= 16 * algorithm.rounds**2
        assert (run.gaps <= constraint.diameter**2 / (4 * algorithm.rounds) + 1e-15).all()


def test_moles_tends_to_mopes_as_its_projections_become_exact():
    constraint, function = INSTANCES[0]
    x0 = vertex(constraint)
    mopes = MOPES(lam=0.5, D=2.0, rounds=5, lipschitz=1.0).run(function, constraint, x0)
    away = [
        np.linalg.norm(MOLES(lam=0.5, D=2.0, rounds=5, lipschitz=1.0, C=c).run(function, constraint, x0).x - mopes.x)
        for c in (1.0, 1e-2, 1e-4)
    ]
    assert away[0] > 1e-3 and away[1] < 0.3 * away[0] and away[2] < 0.3 * away[1]


def test_stochastic_subgradients():
    constraint, function = INSTANCES[0]
    x0 = vertex(constraint)
    star, least = solved(constraint, function)
    distance_sq = float((x0 - star) @ (x0 - star))
    algorithm = MOPES.for_accuracy(1.0, 1, distance_sq, sigma=1.0, noise_std=1.0)
    gaps = [algorithm.run(function, constraint, x0, seed=s).values[-1] - least for s in range(6)]
    assert np.std(gaps) > 1e-4  # there was noise
    assert_bound_holds(np.array([gaps]), [algorithm.bound(distance_sq)], confidence=0.99)


# --- mutants --------------------------------------------------------------------------------------
class NoProjection(MOPES):
    """z_k is not projected: feasibility is lost."""

    def _step(self, constraint, z, target):
        return target, 0, 0.0


class WrongSign(MOPES):
    """The server moves away from the local iterate."""

    def _step(self, constraint, z, target):
        return constraint.project(2 * z - target), 0, 0.0


class OneCall(MOLES):
    """Frank-Wolfe stops after a single call, whatever its gap."""

    def _step(self, constraint, z, target):
        return frank_wolfe_projection(constraint, target, z, math.inf)


@pytest.mark.parametrize("mutant", [NoProjection, WrongSign])
def test_wrong_methods_are_rejected(mutant):
    constraint, function = INSTANCES[0]
    algorithm = mutant.for_accuracy(0.4, 1, 2.0)
    with pytest.raises(AssertionError):
        judge(algorithm, function, constraint, vertex(constraint))


def test_inexact_projections_without_a_gap_are_rejected():
    constraint, function = INSTANCES[0]
    with pytest.raises(AssertionError, match="violated"):
        judge(OneCall.for_accuracy(0.4, 1, 2.0, constraint.diameter), function, constraint, vertex(constraint))


@pytest.mark.parametrize(("lam", "without"), [(20.0, "penalty"), (0.1, "distance")])
def test_no_term_of_the_bound_can_be_left_out(lam, without):
    """x_1 = x_0, and F falls at rate G = 1 all the way from x_0 to x* = -x_0."""
    constraint, function = Ball(6, 1.0), distance_to(3 * C / np.linalg.norm(C))
    x0 = -C / np.linalg.norm(C)
    algorithm = MOPES(lam=lam, D=1e-6, rounds=1, lipschitz=1.0)
    gap = algorithm.run(function, constraint, x0).values[-1] - 2.0
    assert gap == pytest.approx(2.0)
    assert_bound_holds(gap, algorithm.bound(4.0))
    mutant = algorithm.bound(4.0) - lam / 2 if without == "penalty" else algorithm.bound(0.0)
    with pytest.raises(AssertionError, match="violated"):
        assert_bound_holds(gap, mutant)


# --- complexity -----------------------------------------------------------------------------------
def test_calls_against_epsilon():
    """Rounds ~ 1/epsilon, subgradients and the limit on linear minimisations ~ 1/epsilon^2; the known numbers at G = D = 1."""
    known = {"0.1": (60, 88_596), "0.03": (200, 967_292), "0.01": (600, 8_661_852)}
    for epsilon, (rounds, steps) in known.items():
        algorithm = MOPES.for_accuracy(Fraction(epsilon), 1, 1)
        assert fewest_rounds(epsilon, 1, 1) == rounds  # FedMLS's own count
        assert algorithm.rounds == rounds == MOPES.for_accuracy(float(epsilon), 1.0, 1.0).rounds
        assert sum(algorithm.local_steps()) == steps == sum(MOPES.for_accuracy(float(epsilon), 1, 1).local_steps())
    epsilons = np.geomspace(0.3, 0.01, 8)
    mopes = [MOPES.for_accuracy(e, 1, 1) for e in epsilons]
    moles = [MOLES.for_accuracy(e, 1, 1, 2.0) for e in epsilons]
    window = (0.01, 0.3)
    assert_rate([a.rounds for a in mopes], -1, x=epsilons, window=window, tolerance=0.05)
    assert_rate([sum(a.local_steps()) for a in mopes], -2, x=epsilons, window=window, tolerance=0.05)
    assert_rate([a.rounds * a.lmo_limit(2.0) for a in moles], -2, x=epsilons, window=window, tolerance=0.05)


def test_the_least_number_of_rounds_is_the_least():
    for epsilon, g, d in [(0.1, 1, 1), (0.37, 2.5, 0.3), (0.05, 0.7, 11)]:
        rounds = MOPES.rounds_for(epsilon, g, d)
        lam = epsilon / g**2
        assert MOPES(lam=lam, D=d, rounds=rounds, lipschitz=g).bound(d) <= epsilon * (1 + 1e-12)
        assert rounds == 1 or MOPES(lam=lam, D=d, rounds=rounds - 1, lipschitz=g).bound(d) > epsilon


def test_frank_wolfe_limit_is_within_a_constant_of_what_is_needed():
    """Towards the centre of a simplex, j calls reach points with at most j + 1 nonzeros: the gap is at least (1/(j+1) - 1/n)/2."""
    n = 400
    constraint = Simplex(n)
    for gap in (0.1, 0.03, 0.01):
        u, calls, reached = frank_wolfe_projection(constraint, np.zeros(n), np.eye(n)[0], gap)
        limit, need = max(3, math.ceil(4 * constraint.diameter**2 / gap)), 1 / (2 * gap + 1 / n) - 1
        assert reached <= gap and np.count_nonzero(u) <= calls
        assert need <= calls <= limit <= 21 * need
    with pytest.raises(LocalSolveFailed, match="after 5 calls"):
        frank_wolfe_projection(constraint, np.zeros(n), np.eye(n)[0], 1e-3, max_calls=5)


# --- bad input ------------------------------------------------------------------------------------
GOOD = {"lam": 0.1, "D": 1.0, "rounds": 5, "lipschitz": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lam": 0.0}, "lam is 0.0"),
        ({"lam": -1.0}, "lam"),
        ({"D": 0.0}, "D is 0.0"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 2.5}, "rounds"),
        ({"lipschitz": math.inf}, "lipschitz"),
        ({"sigma": -1.0}, "sigma"),
        ({"radius": 0.0}, "radius"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(InvalidInput, match=message):
        MOPES(**{**GOOD, **change})


def test_bad_runs():
    function, constraint = distance_to(C), L1Ball(6, 1.3)
    for epsilon in (0.0, -0.1, math.nan):
        with pytest.raises(InvalidInput, match="epsilon"):
            MOPES.for_accuracy(epsilon, 1, 1)
    with pytest.raises(InvalidInput, match="C is missing"):
        MOLES(**GOOD)
    with pytest.raises(InvalidInput, match="away from the set"):
        MOPES(**GOOD).run(function, constraint, 2 * C)
    with pytest.raises(InvalidInput, match=r"norms up to 1\.3"):
        MOPES(**GOOD, radius=1.0).run(function, constraint)
    with pytest.raises(InvalidInput, match=r"Joint\(problem\)"):
        MOPES(**GOOD).run(function, L1Ball(5))
    for epsilon in (1e-4, 1e-9):
        with pytest.raises(InvalidInput, match=r"hours here, and max_steps"):
            MOPES.for_accuracy(epsilon, 1, 1).run(function, constraint)
    with pytest.raises(MissingCapability, match="linear minimisation"):
        MOLES(**GOOD, C=1.0, radius=3.0).run(distance_to(C[:4]), Consensus(1, 4))
    with pytest.raises(MissingCapability, match="lipschitz="):
        Function(2, lambda x: x[:, 0], lambda x: x).lipschitz(1.0)


def test_a_set_with_an_oracle_only():
    class Edge(ConstraintSet):
        """The segment between two points."""

        dim, diameter, norm_bound = 2, math.sqrt(2), 1.0

        def linear_minimiser(self, gradient):
            return np.eye(2)[np.argmin(gradient)]

    function = distance_to(np.array([1.0, 1.0]))
    run = MOLES.for_accuracy(0.5, 1, 2, math.sqrt(2)).run(function, Edge())
    assert 0 <= run.values[-1] - math.sqrt(0.5) <= 0.5
    with pytest.raises(MissingCapability, match="MOLES"):
        MOPES.for_accuracy(0.3, 1, 2).run(function, Edge())
