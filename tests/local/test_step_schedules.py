"""A step size for each round, of every local solver: what it makes of a run, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, problems, simulate
from fedtheory.errors import CheckpointError, InvalidInput
from fedtheory.local import SGD, Adam, GradientSteps, LocalSGD, Momentum
from fedtheory.worst_cases import worst_case

RNG = np.random.default_rng(3)
FEATURES, TARGETS = RNG.normal(size=(30, 4)), RNG.normal(size=30)
CLIENTS = np.split(np.arange(30), [7, 19])
START = RNG.normal(size=4)
MAKE = {
    "steps": lambda lr, **o: GradientSteps(3, lr, **o),
    "sgd": lambda lr, **o: SGD(4, lr, epochs=2, epoch_decay=0.8, **o),
    "momentum": lambda lr, **o: Momentum(4, lr, steps=3, **o),
    "adam": lambda lr, **o: Adam(4, lr, steps=3, eps=1e-3, decoupled_decay=0.1, **o),
    "local-sgd": lambda lr: LocalSGD(3, lr, batch_size=2),
}


def on_numpy():
    return problems.LeastSquares([FEATURES[c] for c in CLIENTS], [TARGETS[c] for c in CLIENTS], ridge=0.1)


def ended(problem, solver, x=START, rounds=3, **more):
    like = problem.like_array() if hasattr(problem, "like_array") else None
    run = simulate(problem, algorithms.FedAvg(), rounds, x, Uniform(2), local_solver=solver, like=like, **more)
    return np.asarray(run.final.x)[0]


def network(engine="auto"):
    torch = pytest.importorskip("torch")
    from fedtheory.neural import NeuralProblem

    module = torch.nn.Linear(4, 1, bias=False)
    return NeuralProblem(module, FEATURES, TARGETS[:, None], CLIENTS, "squared_error", 0.1, dtype="float64", engine=engine)


@pytest.mark.parametrize("kind", [k for k in MAKE if k != "local-sgd"])
def test_a_geometric_schedule_is_decay(kind):
    by_rounds, decays = MAKE[kind](lambda t: 0.1 * 0.7 ** (t - 1)), MAKE[kind](0.1, decay=0.7)
    assert not by_rounds.one_size and not decays.one_size and MAKE[kind](0.1).one_size
    expected = ended(on_numpy(), decays)
    np.testing.assert_allclose(ended(on_numpy(), by_rounds), expected, rtol=1e-14)
    assert np.abs(ended(on_numpy(), MAKE[kind](0.1)) - expected).max() > 1e-3
    for engine in ("loop", "stacked") if kind != "steps" else ():
        np.testing.assert_allclose(ended(network(engine), by_rounds), expected, rtol=1e-11)


@pytest.mark.parametrize("kind", MAKE)
def test_round_after_round_with_a_step_each(kind):
    """The last round's draws are those of its number, whatever the step sizes before."""
    sizes = [0.02, 0.11, 0.05]
    whole = ended(on_numpy(), MAKE[kind](lambda t: sizes[t - 1]))
    x = START
    for t in (1, 2, 3):
        one = MAKE[kind](lambda s, t=t: sizes[t - 1] if s == t else 1e-300)  # of the rounds before nothing is left
        x = ended(on_numpy(), one, x, t)
    if kind != "adam":  # whose decoupled decay moves also where the step is as good as 0
        np.testing.assert_allclose(x, whole, rtol=1e-12)
    assert np.abs(ended(on_numpy(), MAKE[kind](sizes[0])) - whole).max() > 1e-3


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), None, 1j])
def test_what_a_schedule_may_not_give(kind, wrong):
    with pytest.raises(InvalidInput, match=r"lr\(2\) is .*: it must be a finite number > 0; a schedule must give such numbers"):
        ended(on_numpy(), MAKE[kind](lambda t: 0.1 if t == 1 else wrong))


def test_adams_decay_is_looked_at_in_every_round():
    with pytest.raises(InvalidInput, match=r"decoupled_decay = 5.0.*with lr = 0.3"):
        Adam(4, 0.3, steps=1, decoupled_decay=5.0)
    with pytest.raises(InvalidInput, match=r"decoupled_decay = 5.0: with lr = 0.2 it must be below"):
        ended(on_numpy(), Adam(4, lambda t: 0.1 * t, steps=1, decoupled_decay=5.0))


def test_processes_take_schedules():
    runs = [ended(on_numpy(), GradientSteps(2, lambda t: 0.1 / t), scenarios=4, workers=w) for w in (1, 2)]
    np.testing.assert_array_equal(*runs)


def test_worst_cases_take_no_schedule():
    with pytest.raises(InvalidInput, match=r"step = .*: it must be a finite number"):
        worst_case("fedavg", rounds=2, step=lambda t: 1 / t)


def test_a_checkpoint_goes_on_with_the_same_schedule_alone(tmp_path):
    from fedtheory.neural import train

    problem, file = network(), tmp_path / "run.state"

    def run(lr, rounds, **more):
        more |= {"record": ["objective"], "progress": False}
        return train(problem, algorithms.FedAvg(), rounds, None, SGD(4, lr, epochs=1), **more)

    run(lambda t: 0.1 / t, 2, checkpoint=file)
    with pytest.raises(CheckpointError, match=r"solver\.lr"):
        run(lambda t: 0.1 / t if t < 50 else 0.01, 4, checkpoint=file)
    went_on = run(lambda s: 0.1 / s, 4, checkpoint=file)  # another function with the same values
    np.testing.assert_array_equal(went_on.x, run(lambda t: 0.1 / t, 4).x)
