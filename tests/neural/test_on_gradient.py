"""A function of the user's that changes the gradients of local steps, and what it is told."""

from __future__ import annotations

import io
import runpy
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, problems, simulate
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD, Adam, Momentum

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from fedtheory.neural import NeuralProblem  # noqa: E402
from fedtheory.neural.identity import _plain  # noqa: E402

RNG = np.random.default_rng(0)
X, T = RNG.normal(size=(40, 6)), RNG.integers(0, 3, 40)
CLIENTS = np.split(RNG.permutation(40), [5, 15, 26])
METHOD = algorithms.FedElasticNetDyn(0.01, 0.5)


def problem(engine="stacked", clients=CLIENTS, **options) -> NeuralProblem:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    return NeuralProblem(net, X, T, clients, engine=engine, **{"ridge": 0.01, "dtype": "float64", **options})


def run(p, solver, method=METHOD, rounds=2, sampling=None, scenarios=2) -> np.ndarray:
    how = dict(seed=1, local_solver=solver, like=p.like_array(), record=(), scenarios=scenarios)
    return simulate(p, method, rounds, p.initial(), sampling or Uniform(3), **how).x


KINDS = [(SGD, {}), (SGD, {"l1": "prox"}), (SGD, {"clip": 0.1}), (Momentum, {}), (Adam, {"l1": "prox"})]


@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_gradients_that_are_returned_as_they_came_change_nothing(kind, options, engine):
    told = []

    def same(gradients, step):
        told.append((step.clients, step.scenarios, step.round, step.number, gradients.shape, step.points.shape))
        return gradients

    found = [run(problem(engine), kind(4, 0.05, epochs=2, on_gradient=hook, **options)) for hook in (None, same)]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11, atol=1e-13)
    assert {r for _, _, r, *_ in told} == {1, 2} and {n for *_, n, _, _ in told} >= set(range(6))
    for clients, scenarios, _, _, shape, points in told:
        assert len(clients) == len(scenarios) == shape[0] and shape == points and shape[1] == problem().dim
        assert set(clients) <= set(range(4)) and set(scenarios) <= {0, 1}


def test_gradients_that_are_returned_are_used():
    def half(gradients, step):
        return gradients / 2

    p, plain = problem(ridge=0.0), problem(ridge=0.0)
    method = algorithms.FedAvg()
    halved, slower = run(p, SGD(4, 0.1, epochs=1, on_gradient=half), method), run(plain, SGD(4, 0.05, epochs=1), method)
    np.testing.assert_allclose(halved, slower, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("engine", ["stacked", "loop"])
def test_gradients_of_samples_are_those_of_autograd(engine):
    seen = []

    def look(gradients, step):
        seen.append((gradients.clone(), step.points.clone(), *step.per_sample(), step._batch))
        return gradients

    p = problem(engine)
    run(p, SGD(4, 0.1, epochs=1, on_gradient=look), rounds=1)
    shorts = 0
    for gradients, points, each, real, batch in seen:
        mean = (each * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True)
        torch.testing.assert_close(mean, gradients, rtol=1e-12, atol=1e-14)
        shorts += int((~real).any())
        for r in range(len(points)):
            for i in range(int(real[r].sum())):
                leaf = points[r].clone().requires_grad_()
                value = functional.cross_entropy(p.flat.call(leaf, batch.inputs[r, i][None]), batch.targets[r, i][None])
                torch.testing.assert_close(each[r, i], torch.autograd.grad(value, leaf)[0], rtol=1e-12, atol=1e-14)
    assert shorts  # clients of unequal sizes have such batches


def noisy(gradients, step):
    return gradients + 0.1 * step.normal()


def test_noise_follows_from_seed_round_step_scenario_and_client_alone():
    solver, drawn = SGD(4, 0.1, epochs=1, on_gradient=noisy), []
    found = [run(problem(rows_at_once=rows), solver) for rows in (None, 1)]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12, atol=1e-14)

    def look(gradients, step):
        drawn.extend(zip(step.clients, step.scenarios, step.normal(), strict=True))
        assert torch.equal(step.normal(), step.normal())
        return gradients

    run(problem(), SGD(4, 0.1, epochs=1, on_gradient=look))
    numbers = torch.stack([noise for *_, noise in drawn])
    assert len(torch.unique(numbers)) == numbers.numel() > 1000
    assert abs(float(numbers.mean())) < 5 / numbers.numel() ** 0.5 and 0.9 < float(numbers.std()) < 1.1
    alone = [run(problem(), solver, scenarios=s, sampling=Uniform(3))[0] for s in (1, 2)]  # scenario 0 is what it was
    np.testing.assert_allclose(alone[1], alone[0], rtol=1e-12, atol=1e-14)


def test_a_private_step_is_that_of_opacus():
    """Abadi et al. 2016, Algorithm 1, sample after sample in plain torch."""
    names = _example()[0]
    clip, batch, lr = names["CLIP"], names["BATCH"], 0.3
    clients, noises = [np.arange(batch)], []
    hook = names["private"](2.0)

    def kept(gradients, step):
        noises.append(step.normal()[0])
        return hook(100 * gradients, step)

    def loss(outputs, targets):  # of one's own, with some gradients above the norm that is allowed and some below
        return 0.8 * functional.cross_entropy(outputs, targets)

    p = problem(clients=clients, loss=loss, ridge=0.0)
    found = run(p, SGD(batch, lr, steps=1, on_gradient=kept), algorithms.FedAvg(), rounds=1, sampling=Uniform(1), scenarios=1)
    total, cut = torch.zeros(p.dim, dtype=torch.float64), 0
    for i in range(batch):
        leaf = p.initial().requires_grad_()
        (own,) = torch.autograd.grad(loss(p.flat.call(leaf, p.inputs[i][None]), p.targets[i][None]), leaf)
        cut += int(own.norm() > clip)
        total += own * min(1.0, clip / (float(own.norm()) + 1e-6))
    expected = p.initial() - lr * (total + 2.0 * clip * noises[0]) / batch
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-14)
    assert 0 < cut < batch


def _example():
    with redirect_stdout(io.StringIO()) as printed:
        names = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "dp_sgd.py"))
    return names, printed.getvalue().splitlines()


def test_the_example_is_short_and_noise_costs_accuracy():
    names, lines = _example()
    assert len((Path(__file__).parents[2] / "examples" / "dp_sgd.py").read_text().splitlines()) < 60
    found = names["found"]
    assert len(lines) == 4 and found["plain"] > 0.8 and found["noise 0"] > found["noise 4"] + 0.05
    assert found == _example()[0]["found"]


def test_what_cannot_be_used_is_refused():
    with pytest.raises(InvalidInput, match=r"on_gradient = 3.*function\(gradients, step\)"):
        SGD(4, 0.1, epochs=1, on_gradient=3)
    for wrong, told in ((lambda g, s: g[:, 1:], r"returned \(6, 52\).*\(6, 53\)"), (lambda g, s: None, "returned NoneType")):
        with pytest.raises(InvalidInput, match=told):
            run(problem(), SGD(4, 0.1, epochs=1, on_gradient=wrong))
    plain = problems.LeastSquares(RNG.normal(size=(4, 10, 3)), RNG.normal(size=(4, 10)))
    solver = SGD(2, 0.1, epochs=1, on_gradient=noisy)
    with pytest.raises(MissingCapability, match=r"on_gradient goes with networks.*LeastSquares"):
        simulate(plain, algorithms.FedAvg(), 1, np.zeros(3), local_solver=solver)
    with pytest.raises(MissingCapability, match="on_gradient goes with"):  # whose local steps go along something else
        run(problem(), solver, algorithms.Mime())


def test_a_run_that_goes_on_knows_the_function_by_its_name():
    assert _plain(SGD(4, 0.1, epochs=1, on_gradient=noisy))["on_gradient"] == "noisy"
    assert _plain(SGD(4, 0.1, epochs=1))["on_gradient"] is None
