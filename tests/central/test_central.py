"""Constraint sets against cvxpy, MOPES and MOLES against their bounds and call counts, and FedMLS as MOPES on the consensus set."""

from __future__ import annotations

import math
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest

from fedtheory import simulate
from fedtheory.algorithms.fedmls import FedMLS, fewest_rounds
from fedtheory.central import (
    MOLES,
    MOPES,
    Ball,
    Box,
    Consensus,
    ConstraintSet,
    Function,
    Joint,
    L1Ball,
    NuclearBall,
    Simplex,
    frank_wolfe_projection,
)
from fedtheory.errors import InvalidInput, LocalSolveFailed, MissingCapability
from fedtheory.problems.nonsmooth import LAD, EuclideanDistance, MaxAffine
from fedtheory.testing import assert_bound_holds, assert_rate

SETS = [
    Ball(6, 1.3),
    Ball(6, 1.3, (0.5, -1.0, 0, 0, 2.0, 0)),
    Box(6, -0.5, 0.8),
    Box(6, (0, -1, -2, 0.3, -1, 0), (0, 1, 2, 0.4, 0, 0.1)),
    Simplex(6, 1.5),
    L1Ball(6, 1.3),
    NuclearBall(2, 3, 1.3),
    NuclearBall(3, 2, 0.7),
]
ids = [f"{type(s).__name__}-{i}" for i, s in enumerate(SETS)]
every_set = pytest.mark.parametrize("constraint", SETS, ids=ids)


def points(count=8):
    """Inside, outside, far outside, and with ties."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 6)) * np.array([0.05, 0.3, 1, 1, 3, 30, 1, 1])[:count, None]
    x[-1] = 1.0
    x[-2, :3] = x[-2, 3]
    return x


@every_set
def test_projection_against_cvxpy(constraint):
    variable, target = cp.Variable(6), cp.Parameter(6)
    solve = cp.Problem(cp.Minimize(cp.sum_squares(variable - target)), constraint.constraints(variable))
    projected = constraint.project(points())
    for x, p in zip(points(), projected):
        target.value = x
        solve.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        assert np.linalg.norm(p - variable.value) <= 1e-5 * max(1, np.linalg.norm(x))


@every_set
def test_projection_and_oracle_certify_each_other(constraint):
    """p = P(x) exactly when <x - p, s - p> <= 0 for every s of the set: its maximum is found by the oracle."""
    for x in points():
        p = constraint.project(x)
        farthest = constraint.linear_minimiser(p - x)
        assert (x - p) @ (farthest - p) <= 1e-12 * max(1.0, float(x @ x))
        assert constraint.distance(p) <= 1e-12 and constraint.distance(farthest) <= 1e-12
    assert np.allclose(constraint.project(points()), [constraint.project(x) for x in points()], atol=0)


@every_set
def test_oracle_against_cvxpy_and_diameter_by_ascent(constraint):
    variable, slope = cp.Variable(6), cp.Parameter(6)
    solve = cp.Problem(cp.Minimize(slope @ variable), constraint.constraints(variable))
    for x in points(6):
        slope.value = x
        assert x @ constraint.linear_minimiser(x) == pytest.approx(solve.solve(solver="CLARABEL"), rel=1e-6, abs=1e-6)
    # alternating oracle calls climb ||s - t||: a lower bound on the diameter, and in these sets from some start the diameter
    best, largest = 0.0, 0.0
    starts = [*np.random.default_rng(1).normal(size=(40, 6)), *np.eye(6), *-np.eye(6)]
    for g in starts:
        s, t = constraint.linear_minimiser(g), constraint.linear_minimiser(-g)
        for _ in range(5):
            s = constraint.linear_minimiser(-(s - t))
            t = constraint.linear_minimiser(s - t)
            best = max(best, float(np.linalg.norm(s - t)))
            largest = max(largest, float(np.linalg.norm(s)), float(np.linalg.norm(t)))
    assert best == pytest.approx(constraint.diameter, rel=1e-6)
    assert largest <= constraint.norm_bound * (1 + 1e-12) and largest >= 0.6 * constraint.norm_bound


def test_large_nuclear_oracle_agrees_with_the_full_decomposition():
    matrix = np.random.default_rng(0).normal(size=(230, 210))
    s = NuclearBall(230, 210, 2.0).linear_minimiser(matrix.ravel())
    assert matrix.ravel() @ s == pytest.approx(-2 * np.linalg.norm(matrix, 2), rel=1e-9)
    assert not NuclearBall(230, 210).linear_minimiser(np.zeros(230 * 210)).any()


def test_consensus():
    x = np.arange(12.0)
    assert Consensus(3, 4).project(x).tolist() == [4, 5, 6, 7] * 3
    short = Consensus(3, 4, radius=1.0)
    p = short.project(x)
    variable = cp.Variable(4)
    cp.Problem(cp.Minimize(cp.sum_squares(cp.hstack([variable] * 3) - x)), [cp.norm(variable) <= 1]).solve()
    assert np.allclose(p, np.tile(variable.value, 3), atol=1e-5)
    with pytest.raises(MissingCapability, match="MOPES"):
        Consensus(3, 4).linear_minimiser(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L1Ball(0), "dim"),
        (lambda: L1Ball(3, 0.0), "radius"),
        (lambda: Ball(2, 1.0, (1.0,)), "center"),
        (lambda: Box(2, 1.0, 0.0), "empty"),
        (lambda: Box(2, (0, 0, 0), 1.0), "lower"),
        (lambda: Simplex(3, math.inf), "total"),
        (lambda: NuclearBall(0, 2), "rows"),
        (lambda: Consensus(2, 2, -1.0), "radius"),
    ],
)
def test_bad_sets(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


# --- functions with a known optimum -----------------------------------------------------------------------------------
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


# --- mutants ----------------------------------------------------------------------------------------------------------
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


# --- complexity -------------------------------------------------------------------------------------------------------
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


# --- FedMLS is MOPES on the consensus set ------------------------------------------------------------------------------
def federated():
    rng = np.random.default_rng(3)
    return [
        LAD(rng.normal(size=(4, 7, 3)), rng.normal(size=(4, 7))),
        MaxAffine(rng.normal(size=(3, 5, 3)), rng.normal(size=(3, 5))),
        EuclideanDistance(rng.normal(size=(5, 3))),
    ]


CONSTANTS = {"lam": 0.3, "D": 2.0, "rounds": 9, "lipschitz": 2.0, "sigma": 0.5}
X0 = np.array([0.5, -0.8, 0.3])


def both(problem, server_projection=True, noise_std=0.0, radius=1.1, **fedmls):
    """Server models and local models of FedMLS and of MOPES, (K + 1, d) and (K + 1, N, d)."""
    method = FedMLS(**{**CONSTANTS, **fedmls}, radius=radius, server_projection=server_projection, noise_std=noise_std)
    run = simulate(problem, method, CONSTANTS["rounds"], x0=X0, keep_states=True, seed=5)
    consensus = Consensus(problem.num_clients, problem.dim, radius if server_projection else None)
    central = MOPES(**CONSTANTS, radius=radius, noise_std=noise_std).run(
        problem, consensus, np.tile(X0, problem.num_clients), seed=5, keep=True
    )
    federated = np.stack([s.x[0] for s in run.states]), np.stack([s.x_local[0] for s in run.states])
    shape = (-1, problem.num_clients, problem.dim)
    return federated, (central.iterates.reshape(shape), central.local_iterates.reshape(shape)), central


@pytest.mark.parametrize("noise_std", [0.0, 0.5])
@pytest.mark.parametrize("server_projection", [True, False])
@pytest.mark.parametrize("problem", federated(), ids=lambda p: type(p).__name__)
def test_fedmls_is_mopes_on_the_consensus_set(problem, server_projection, noise_std):
    (x, x_local), (u, u_local), central = both(problem, server_projection, noise_std)
    assert (u == u[:, :1]).all()  # consensus
    np.testing.assert_allclose(u[:, 0], x, rtol=0, atol=1e-11)
    np.testing.assert_allclose(u_local, x_local, rtol=0, atol=1e-11)
    assert np.abs(x[-1] - x[0]).max() > 0.05 and central.projections[-1] == 9  # one projection is one exchange


def test_fedmls_in_the_product_norm_is_the_same_mopes():
    problem = federated()[0]
    scale = 4.0
    product = {"lam": 0.3 * scale, "D": 2.0 * scale, "lipschitz": 2.0 / math.sqrt(scale), "sigma": 0.5 / math.sqrt(scale)}
    (x, _), (u, _), _ = both(problem, norm="product", **product)
    np.testing.assert_allclose(u[:, 0], x, rtol=0, atol=1e-11)


def test_fedmls_as_printed_and_mixed_norms_are_not_mopes():
    problem = federated()[0]
    for wrong in ({"average": "printed"}, {"norm": "product"}):
        (x, _), (u, _), _ = both(problem, **wrong)
        assert np.abs(u[:, 0] - x).max() > 1e-5  # a million times what the equal ones differ by at most


def test_joint_problem_over_a_set():
    """All data in one place: LAD over the l1 ball, against cvxpy on the same set."""
    problem = federated()[0]
    joint, constraint = Joint(problem), L1Ball(3, 0.4)
    variable = cp.Variable(3)
    solve = cp.Problem(cp.Minimize(problem.cvxpy_objective(variable)), constraint.constraints(variable))
    least = solve.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    g = float(joint.lipschitz(0.4)[0])
    assert g == pytest.approx(float(problem.weights @ problem.lipschitz(0.4)))
    x = np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_allclose(joint.objective(x), problem.objective(x), rtol=1e-12)
    np.testing.assert_allclose(joint.full_gradient(x), problem.full_gradient(x), rtol=1e-12)
    distance_sq = float(variable.value @ variable.value)
    for algorithm in (MOPES.for_accuracy(0.3, g, distance_sq), MOLES.for_accuracy(0.5, g, distance_sq, constraint.diameter)):
        run = algorithm.run(joint, constraint, np.zeros(3))
        assert_bound_holds(run.values[-1] - least, algorithm.bound(distance_sq), noise=1e-8)
        assert constraint.distance(run.x) <= 1e-12 and run.values[-1] >= least - 1e-8
    with pytest.raises(InvalidInput, match=r"Joint\(problem\)"):
        algorithm.run(problem, constraint)


# --- bad input --------------------------------------------------------------------------------------------------------
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
