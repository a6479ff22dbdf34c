"""The loops of the measured rates against the library's own methods, with independent local solutions."""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import cvxpy as cp
import numpy as np
import pytest

from fedtheory.algorithms import FedAvg, FedDyn, FedProx
from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps, LocalResult, LocalSolver
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.local.subgradient import CUT
from fedtheory.problems import ArjevaniShamir, MaximumAndChain, NesterovWorst, TwoClientPull
from fedtheory.simulation.simulate import simulate
from paper_figures.fedmls.rates import instances, loops
from paper_figures.fedmls.rates.competitors import Schedule, Trials, fedmls_last, losses, tune
from paper_figures.fedmls.rates.experiments import STEPS
from paper_figures.fedmls.rates.proximal import proximal_point

KINDS = ["constant", "inverse-sqrt", "hold-and-cut"]
PROBLEMS = {
    "pull": TwoClientPull(0.1),
    "chain": ArjevaniShamir(4),
    "four on a chain": ArjevaniShamir(4, 4),
    "split": MaximumAndChain(3, 4),
    "split over four": MaximumAndChain(2, 4, 4),
    "lad": instances.lad_instance(1, clients=3, samples=5, dim=2),
}


@dataclass(frozen=True)
class Walk(LocalSolver):
    """The schedule's steps by the library's gradient steps; a round's steps share its length."""

    schedule: Schedule
    steps: int

    def solve(self, problem, objective, start, rows):
        return GradientSteps(self.steps, self.schedule.at(rows.round_index) / self.steps).solve(problem, objective, start, rows)


@cache
def local_problem(problem, i):
    """The variable of client i's local problem, root = sqrt(curvature), root * center, the linear term, and the problem in cvxpy's."""
    x, root = cp.Variable(problem.dim), cp.Parameter(nonneg=True)
    rooted, linear = cp.Parameter(problem.dim), cp.Parameter(problem.dim)
    if isinstance(problem, TwoClientPull):
        kinks = cp.multiply([problem.slopes[i], problem.shallow], cp.abs(x - problem.minimiser))
        loss = problem.pulls[i] * x[0] + cp.sum(kinks)
    else:
        loss = problem.subset(np.array([i])).cvxpy_objective(x)
    return x, root, rooted, linear, cp.Problem(cp.Minimize(loss + cp.sum_squares(root * x - rooted) / 2 - linear @ x))


@dataclass(frozen=True)
class Solved(LocalSolver):
    """argmin f_i - <linear, y> + curvature/2 ||y - center||^2 by a conic solver, client by client; 1/curvature as the schedule says."""

    schedule: Schedule | None = None

    def solve(self, problem, objective, start, rows):
        curvature = objective.curvature if self.schedule is None else 1 / self.schedule.at(rows.round_index)
        center = np.broadcast_to(objective.center, start.shape)
        linear = np.broadcast_to(0.0 if objective.linear is None else objective.linear, start.shape)
        y = np.array(start)
        for i in range(problem.num_clients):
            x, root, rooted, along, local = local_problem(problem, i)
            root.value, along.value = math.sqrt(curvature), linear[i, 0]
            rooted.value = root.value * center[i, 0]
            local.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
            y[i, 0] = x.value
        return LocalResult(y, average=y)


@dataclass(frozen=True)
class FedMLSSolved(FedMLS):
    """FedMLS whose local problems are solved by what stands in their place; `SubgradientSliding` otherwise."""

    def _solver(self, clients):
        return SolvedInPlace()


@dataclass(frozen=True)
class SolvedInPlace(Solved):
    steps: int = 1


def hits(found, objective, slack):
    """A loop's first rounds are those of a run with these objectives: found(limit, target) at every new least value."""
    least, seen = math.inf, 0
    for t, value in enumerate(objective, 1):
        if value < least - 10 * slack:
            assert found(len(objective), value + slack) == t
            least, seen = value, seen + 1
    assert seen >= 2
    assert found(len(objective), least - 10 * slack) == math.inf


def trial(problem, radius=50.0):
    def at(method, schedule, *more):
        def found(limit, target):
            return method(Trials(problem, target - 1e-3, 1e-3, radius), schedule, limit, *more)

        return found

    return at


# a constant step walks on a grid, on which links have length 0 over and over: rounding decides their signs in the library's floats
WALKS = [(n, k) for n in PROBLEMS for k in KINDS if "four" not in n and (n in ("pull", "lad") or k == "inverse-sqrt")]


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(("name", "kind"), WALKS)
def test_the_loop_is_fedavg(name, kind, steps):
    problem = PROBLEMS[name]
    for length in (0.13, 0.6):
        schedule = Schedule(kind, length, 6)
        run = simulate(problem, FedAvg(), 40, local_solver=Walk(schedule, steps))
        hits(trial(problem)(Trials.fedavg, schedule, steps), run.metrics["objective"][1:, 0], 1e-12)


def exact_walk(problem, schedule, steps, rounds):
    """F(x_t) of FedAvg on a chain of two clients from 0, no sign decided by rounding.

    A coordinate p + q sqrt(d), p and q fractions, counts first steps along a link: a first step of the head is sqrt(d) of them.
    """
    d, unit = problem.dim, schedule.step / steps * problem.links.max()
    zero, factor, values = Fraction(0), Fraction(1), []
    x = [(zero, zero)] * d

    def sign(p, q):
        return np.sign(p or q) if p * q >= 0 else np.sign(p) * np.sign(p * p - q * q * d)

    def size(p, q):
        return unit * (float(p) + float(q) * math.sqrt(d))

    for t in range(1, rounds + 1):
        if schedule.kind == "hold-and-cut" and t > schedule.hold:
            factor *= Fraction(CUT).limit_denominator(10)
        ends = []
        for i in range(2):
            u = list(x)
            for _ in range(steps):
                moves = [[zero, zero] for _ in u]
                if problem.heads[i]:
                    away = size(*u[0]) - problem.target
                    assert abs(away) > 1e-9 * unit
                    moves[0][1] -= int(np.sign(away))
                for j in np.flatnonzero(problem.links[i]):
                    s = int(sign(u[j][0] - u[j + 1][0], u[j][1] - u[j + 1][1]))
                    moves[j][0] -= s
                    moves[j + 1][0] += s
                u = [(p + factor * a, q + factor * b) for (p, q), (a, b) in zip(u, moves, strict=True)]
            ends.append(u)
        x = [((p + r) / 2, (q + s) / 2) for (p, q), (r, s) in zip(*ends, strict=True)]
        links = problem.links.max() * sum(abs(size(p - r, q - s)) for (p, q), (r, s) in itertools.pairwise(x))
        values.append((problem.heads.max() * abs(size(*x[0]) - problem.target) + links) / 2)
    return values


@pytest.mark.parametrize("kind", ["constant", "hold-and-cut"])
@pytest.mark.parametrize(("links", "steps"), [(4, 1), (4, 4), (14, 1), (14, 4), (32, 1)])
def test_no_sign_on_a_chain_is_decided_by_rounding(kind, links, steps):
    problem = ArjevaniShamir(links)
    for length in (0.13, 0.0562341):
        schedule = Schedule(kind, length, 60)
        hits(trial(problem)(Trials.fedavg, schedule, steps), exact_walk(problem, schedule, steps, 100), 1e-12)


def test_the_best_constant_step_of_the_chain_is_that_of_exact_signs():
    """645 rounds at epsilon = 0.01; with signs that rounding decides 703 were counted."""
    case, schedule = instances.chain_case(0.01), Schedule("constant", 0.0562341)
    values = exact_walk(case.problem, schedule, 1, 645)
    assert values[-1] <= 0.01 < min(values[:-1])
    rounds, best = tune(lambda s, most: case.trials(0.01).fedavg(s, most, 1), "constant", STEPS, 0.1, 20_000)
    assert (rounds, best) == (645, schedule)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_loop_is_fedprox_with_exact_local_solutions(name, kind):
    problem, schedule = PROBLEMS[name], Schedule(kind, 0.7, 2)
    run = simulate(problem, FedProx(1.0), 5, local_solver=Solved(schedule))
    hits(trial(problem)(Trials.fedprox, schedule), run.metrics["objective"][1:, 0], 1e-7)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_loop_is_feddyn_with_exact_local_solutions(name):
    problem = PROBLEMS[name]
    run = simulate(problem, FedDyn(1 / 0.7), 6, local_solver=Solved())
    hits(trial(problem)(Trials.feddyn, Schedule("constant", 0.7)), run.metrics["objective"][1:, 0], 1e-7)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_loop_is_fedmls_with_exact_local_solutions(name):
    problem = PROBLEMS[name]
    run = simulate(problem, FedMLSSolved(0.7, 1.0, 7, 50.0, 1.0), 7)
    found = trial(problem)(Trials.fedmls_exact, Schedule("constant", 0.7))
    hits(found, run.metrics["objective"][1:, 0], 1e-7)
    assert trial(problem, 1e-3)(Trials.fedmls_exact, Schedule("constant", 0.7))(7, 1e9) == 1  # x_1 = x_0
    assert trial(problem, 1e-3)(Trials.fedmls_exact, Schedule("constant", 0.7))(7, -1e9) == math.inf  # and then it leaves the ball


@pytest.mark.parametrize("radius", [4.0, 1.15])  # the second one bends the paths
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_loop_is_fedmls(name, radius):
    problem = PROBLEMS[name]
    for rounds, lam in ((1, 0.1), (2, 0.1), (12, 0.3), (40, 0.03)):
        algorithm = FedMLS(lam, 1.0, rounds, radius, 1.0)
        run, x = simulate(problem, algorithm, rounds, local_solver=SubgradientSliding(engine="numpy")), fedmls_last(problem, algorithm)
        if np.isnan(x).any():  # left the ball, with shares
            assert "split" in name and radius < 4
        else:
            np.testing.assert_allclose(x, run.x[0], rtol=1e-9, atol=1e-12)
    with pytest.raises(InvalidInput, match="use simulate"):
        fedmls_last(problem, FedMLS(0.1, 1.0, 3, radius, 1.0, average="printed"))


def test_a_loop_knows_its_instances_only():
    with pytest.raises(InvalidInput, match="the loops know LAD"):
        losses(NesterovWorst(4), True)
    assert loops.CUT == CUT


def test_proximal_points_of_absolute_deviations_are_certified():
    problem, rng = instances.lad_instance(0), np.random.default_rng(0)
    f = losses(problem, True)
    for h in 10.0 ** np.arange(-4, 4.1):
        for _ in range(60):
            i, w, u = int(rng.integers(5)), 3 * rng.standard_normal(5), 3 * rng.standard_normal(5)
            assert proximal_point(f, i, w, h, u) <= 1e-11
    for i, h in ((0, 0.3), (3, 20.0)):
        w, u, x = rng.standard_normal(5), np.zeros(5), cp.Variable(5)
        proximal_point(f, i, w, h, u)
        loss = cp.norm1(problem.features[i] @ x - problem.targets[i]) / 20 + cp.sum_squares(x - w) / (2 * h)
        cp.Problem(cp.Minimize(loss)).solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
        np.testing.assert_allclose(u, x.value, atol=1e-6)
