"""The exact engine against the package's own clients and solvers: the same method on the same
data, in fractions and in floats."""

from dataclasses import dataclass
from fractions import Fraction as Q
from typing import NamedTuple

import numpy as np
import pytest
from statements_at_hand import instance

from fedtheory.algorithms import FedAvg, FedAvgM, FedDyn, FedElasticNetProx, FedProx, Scaffold
from fedtheory.algorithms.base import Algorithm
from fedtheory.local import LocalObjective
from fedtheory.participation.cohorts import Bernoulli, Full
from fedtheory.problems import Quadratic
from fedtheory.theory import GradientSteps, Minimise, Paper, Quadratics, Uniform, eq, method, printed
from fedtheory.theory.rounds.declare import Method
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import ProblemWorld, SeparableWorld, run, sequences
from fedtheory.theory.rounds.rational_clients import NotInFractions

H, C = [[1, "1/2"], ["1/4", 2], [3, 1]], [[0, 1], [2, -1], ["-1/2", 3]]
START = [3, "-5/2"]


class MomentumState(NamedTuple):
    x: np.ndarray
    v: np.ndarray


@dataclass(frozen=True)
class HeavyBall(Algorithm):
    """x+ = x + v+, v+ = momentum v + mean of the updates: a method that no file of the package
    has."""

    momentum: float
    name = "heavy-ball"

    def init(self, x, num_clients):
        return MomentumState(x, 0 * x)

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        v = self.momentum * state.v + clients.mean(clients.send(y - x))
        return MomentumState(state.x + v, v)


STEPS = {"E": 3, "eta": Q(1, 7)}
CASES = [
    (method(FedAvg), STEPS), (method(FedAvg), {}), (method(FedAvg, aggregation="printed"), STEPS),
    (method(FedProx, mu=Q(1, 3)), STEPS), (method(FedProx, mu=Q(1, 3)), {}),
    (method(Scaffold), STEPS), (method(Scaffold, option="gradient", server_lr=Q(2, 3)), STEPS),
    (method(FedDyn, alpha=Q(2, 3)), {}), (method(FedDyn, alpha=Q(2, 3)), STEPS),
    (method(FedElasticNetProx, l1=Q(1, 5), l2=Q(2, 3)), {}), (method(HeavyBall, momentum=Q(1, 3)), STEPS),
    (method(FedAvgM, momentum=Q(1, 3), server_lr=Q(2, 3)), STEPS),
]  # fmt: skip


@pytest.mark.parametrize("sampling", [Full(), Uniform(2), Bernoulli(0.5)], ids=["full", "uniform", "bernoulli"])
@pytest.mark.parametrize("declared, work", CASES, ids=[f"{m.name}-{i}" for i, (m, _) in enumerate(CASES)])
def test_fractions_and_floats_agree(declared: Method, work, sampling):
    made = instance(H, C, START)
    problem = Quadratic(
        np.array([np.diag(np.array(row, dtype=object).astype(float)) for row in made.h]), made.c.astype(float)
    )
    rounds = 2 if isinstance(sampling, Bernoulli) else 3
    runs = []
    for exact, world in ((True, SeparableWorld(made.exact_losses, made.start)), (False, ProblemWorld(problem))):
        _, cohorts, chance = sequences(np.zeros((1, 1)), sampling, 3, rounds, exact)
        x = np.repeat((made.start if exact else made.start.astype(float))[None], len(chance), axis=0)
        algorithm = declared.build(world.constants, {}, exact)
        runs.append((run(world, algorithm, work, x, cohorts), chance))
    (exact, chance), (floats, weight) = runs
    assert sum(chance) == 1 and np.allclose(chance.astype(float), weight)
    for a, b in zip(exact.states, floats.states, strict=True):
        for u, v in zip(a, b, strict=True):
            assert all(isinstance(n, Q | int) for n in u.ravel())
            np.testing.assert_allclose(np.asarray(u, dtype=float), v, rtol=1e-9, atol=1e-9)
    assert np.abs(floats.states[-1].x - floats.states[0].x).max() > 0.1  # something happened


def test_hyperparameters_stay_fractions():
    third = method(FedProx, mu=lambda c: c["beta"] / 3)
    assert third.build({"beta": Q(1)}, {}, True).mu == Q(1, 3)
    assert third.build({"beta": 1.0}, {}, False).mu == 1 / 3


def test_floats_made_by_a_method_are_refused_in_words():
    class Rooted(HeavyBall):
        def round(self, state, clients):
            return MomentumState(state.x * 0.5, state.v)

    paper = Paper("test-floats")

    @paper.statement("it", about=method(Rooted, momentum=1), local=Minimise(), problems=Quadratics())
    def it(q):
        """Floats."""
        yield printed(eq(q.x_next, q.x / 2, vector=True))

    setting = MethodSetting.of(it)
    with pytest.raises(NotInFractions, match=r"heavy-ball makes float numbers in its x .*use 0 \* x in place of np.zeros"):
        setting.view(instance([[1]], [[0]], [4]))
    floats = setting.view(instance([[1]], [[0]], [4]), exact=False)
    assert it.on(floats)["printed"].sides.lhs.max() == 0


def test_local_steps_by_hand():
    """f = x^2/2 from 4 with two steps of 1/2: 4 -> 2 -> 1; f = 2 (x - 1)^2/2: 4 -> 1 -> 1; the
    mean is 1."""
    made = instance([[1], [2]], [[0], [1]], [4])
    world = SeparableWorld(made.exact_losses, made.start)
    _, cohorts, _ = sequences(np.zeros((1, 1)), Full(), 2, 1, True)
    path = run(world, FedAvg(), {"E": 2, "eta": Q(1, 2)}, made.start[None], cohorts)
    assert path.states[-1].x[0, 0] == 1 and list(path.clients[0].results[0].y[0, :, 0]) == [1, 1]


def test_gradient_steps_may_depend_on_the_number_of_steps():
    steps = GradientSteps(2, lr=lambda c: 1 / (c.beta * c.E))
    from fedtheory.theory.rounds.declare import Facts

    assert steps.resolve(Facts({"beta": Q(3)}), {}, True) == {"E": 2, "eta": Q(1, 6)}
