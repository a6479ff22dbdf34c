"""Mini-batches planned a round ahead, while a GPU works: the same numbers, and nothing that the round to come would not have asked."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from fedtheory import Full, Uniform, algorithms, messages, simulate
from fedtheory.errors import InvalidInput
from fedtheory.local import SGD, Adam
from fedtheory.participation.cohorts import Sampling

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedtheory.neural import plans  # noqa: E402
from fedtheory.neural.plans import Plans  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402
from fedtheory.simulation import rounds  # noqa: E402

CLIENTS = np.split(np.random.default_rng(0).permutation(40), [4, 11, 13, 30])
DATA = np.random.default_rng(1).normal(size=(40, 6)), np.random.default_rng(2).integers(0, 3, 40)
EFL = algorithms.EFL(0.1, fisher="empirical", compressor=messages.get("st")(0.3))


def problem(ahead: bool) -> NeuralProblem:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.3), nn.Linear(5, 3))
    p = NeuralProblem(module, *DATA, CLIENTS, test=DATA)
    p.batch_plans = Plans(ahead)
    return p


def run(p: NeuralProblem, algorithm=None, sampling=None, solver=None, **options):
    settings = {"seed": 3, "like": p.like_array(), "local_solver": solver or SGD(4, 0.1, epochs=2)} | options
    return simulate(p, algorithm or algorithms.FedAvg(), 4, p.initial(), sampling or Uniform(3), **settings)


@pytest.mark.parametrize("solver", [SGD(4, 0.1, epochs=2), Adam(4, 0.01, epochs=1)], ids=["sgd", "adam"])
@pytest.mark.parametrize("sampling", [Full(), Uniform(3)], ids=["full", "uniform"])
@pytest.mark.parametrize("algorithm", [algorithms.FedDyn(0.1), algorithms.Scaffold("difference"), EFL], ids=lambda a: a.name)
def test_the_numbers_are_those_of_plans_made_when_they_are_needed(algorithm, sampling, solver):
    if isinstance(solver, Adam) and not isinstance(algorithm, algorithms.FedDyn):
        pytest.skip("these methods need plain steps")
    asked = [run(problem(ahead), algorithm, sampling, solver, record=("test_loss", "entropy")) for ahead in (False, True)]
    np.testing.assert_array_equal(asked[0].x, asked[1].x)
    np.testing.assert_array_equal(asked[0].metrics["test_loss"], asked[1].metrics["test_loss"])


@pytest.mark.parametrize("ahead", [False, True])
def test_a_round_is_planned_before_what_the_last_one_gave_is_read(ahead, monkeypatch):
    told = []

    class Told(plans.Plan):
        def __init__(self, problem, solver, rows):
            told.append(f"plan {rows.round_index}")
            super().__init__(problem, solver, rows)

    read = rounds.check_finite_state
    monkeypatch.setattr(plans, "Plan", Told)
    monkeypatch.setattr(rounds, "check_finite_state", lambda new, clients, t: (told.append(f"read {t}"), read(new, clients, t)))
    run(problem(ahead))
    late = ["plan 1", "read 1", "plan 2", "read 2", "plan 3", "read 3", "plan 4", "read 4"]
    early = ["plan 1", "plan 2", "read 1", "plan 3", "read 2", "plan 4", "read 3", "read 4"]
    assert told == (early if ahead else late)


def test_only_a_gpu_plans_ahead():
    assert not NeuralProblem(nn.Linear(6, 3), *DATA, CLIENTS).batch_plans.ahead


class Counted(Sampling):
    """Uniform, which counts what it is asked, and refuses a round."""

    def __init__(self, refused: int | None = None) -> None:
        self.refused, self.asked = refused, []

    def sample(self, stream, round_index, scenarios, num_clients):
        self.asked.append(round_index)
        if round_index == self.refused:
            raise InvalidInput(f"nobody in round {round_index}")
        return Uniform(3).sample(stream, round_index, scenarios, num_clients)


def test_every_cohort_is_drawn_once_and_in_order():
    sampling = Counted()
    run(problem(True), sampling=sampling)
    assert sampling.asked == [1, 2, 3, 4]


def test_what_fails_in_a_round_to_come_is_told_in_that_round():
    seen = []
    with pytest.raises(InvalidInput, match="nobody in round 3"):
        run(problem(True), sampling=Counted(refused=3), checkpoint=lambda at: seen.append(at.round_index))
    assert seen == [1, 2]


def test_a_plan_is_taken_by_none_but_its_rows():
    p, solver = problem(True), SGD(4, 0.1, epochs=2)
    taken = []

    def look(at):
        taken.append(p.batch_plans._next)

    run(p, solver=solver, checkpoint=look)
    sub, _, rows, plan = taken[0]
    assert p.batch_plans.of(sub, solver, rows) is not plan  # that of another round has come
    p.batch_plans._next = taken[0]
    assert p.batch_plans.of(sub, SGD(4, 0.1, epochs=2), rows) is plan
    for other in [(p.subset(rows.clients), solver, rows), (sub, SGD(4, 0.1, epochs=1), rows), (sub, solver, rows._replace())]:
        assert p.batch_plans.of(*other) is not plan
    assert pickle.loads(pickle.dumps(p.batch_plans))._next is None and pickle.loads(pickle.dumps(p.batch_plans)).ahead
