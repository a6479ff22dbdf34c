"""A run that leaves the finite numbers says in which round and at which client, and warns of nothing."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, errors, problems, simulate
from fedtheory.local import GradientSteps
from fedtheory.randomness import Stream


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("record", ["objective", "gradient_norm"])
def test_a_step_above_two_over_beta_diverges(dense, record):
    """f = 8 (x - 1)^2/2 at client 2 only: a step of 1 > 2/8 multiplies its error by -7 a step, so it overflows in the round in
    which it is drawn (7^400 > 1e308); the others, f = (x - 1)^2/2, sit at their minimiser after one step."""
    problem = problems.Quadratic(np.reshape([1.0, 1.0, 8.0, 1.0], (4, 1, 1)), np.ones((4, 1)))
    first = []

    def on_round(t, old, new, clients):
        first.append(t)

    with pytest.raises(errors.Diverged, match="lower the step size") as caught:
        simulate(
            problem,
            algorithms.FedAvg(),
            rounds=60,
            sampling=Uniform(1),
            scenarios=2,
            seed=4,
            local_solver=GradientSteps(400, 1.0),
            dense=dense,
            record=(record,),
            on_round=on_round,
        )
    members = drawn(problem, caught.value.round_index)
    assert caught.value.client == 2 and members[caught.value.scenario] == 2
    assert caught.value.round_index == len(first) + 1
    for t in range(1, caught.value.round_index):
        assert 2 not in drawn(problem, t)  # it was reported in the first round that could have


def drawn(problem, t):
    return Uniform(1).sample(Stream(4), t, range(2), problem.num_clients).members[:, 0]


@pytest.mark.filterwarnings("error")
def test_slow_divergence_is_reported_without_warnings():
    """Error times 1 - 2.5 a round: 1.5^t reaches 1e308 after ln(1e308)/ln(1.5) = 1749 rounds; F overflows half-way before it."""
    problem = problems.Quadratic(np.ones((2, 1, 1)), np.ones((2, 1)))
    with pytest.raises(errors.Diverged, match="diverged in round 17") as caught:
        simulate(problem, algorithms.FedAvg(), rounds=2000, local_solver=GradientSteps(1, 2.5), record=("objective",))
    assert abs(caught.value.round_index - 1750) <= 2


@pytest.mark.parametrize("lr", [1.9, 1.0])
def test_a_step_below_two_over_beta_does_not(lr):
    problem = problems.Quadratic(np.ones((2, 1, 1)), np.ones((2, 1)))
    run = simulate(problem, algorithms.FedAvg(), rounds=2000, local_solver=GradientSteps(1, lr))
    np.testing.assert_allclose(run.x, 1.0, rtol=0, atol=1e-11)
