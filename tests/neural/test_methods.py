"""Every method on a network: training side by side is what its local solver does step by step, on the view that the method walks on."""

from __future__ import annotations

import numpy as np
import pytest
from registered import methods_beyond

from fedtheory import Full, Uniform, algorithms, messages, simulate
from fedtheory.errors import FedTheoryError
from fedtheory.local import SGD
from fedtheory.local.objective import LocalObjective, Rows
from fedtheory.randomness import Stream

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedtheory.neural.penalty import Penalty  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402

CLIENTS = np.split(np.random.default_rng(0).permutation(40), [4, 11, 13, 30])
EQUAL = np.split(np.random.default_rng(0).permutation(40), 5)  # the methods that take part with everybody ask for equal clients
DATA = np.random.default_rng(1).normal(size=(40, 6)), np.random.default_rng(2).integers(0, 3, 40)
TOP = messages.get("top-k")(q=0.3)
METHODS = {
    "fedavg": algorithms.FedAvg(),
    "fedprox": algorithms.FedProx(0.3),
    "scaffold": algorithms.Scaffold("difference"),
    "scaffold gradient": algorithms.Scaffold("gradient"),
    "feddyn": algorithms.FedDyn(0.1),
    "fedelasticnet-prox": algorithms.FedElasticNetProx(0.01, 0.1),
    "fedelasticnet-scaffold": algorithms.FedElasticNetScaffold(0.01, 0.1),
    "fedelasticnet-dyn": algorithms.FedElasticNetDyn(0.01, 0.1),
    "scaffold, compressed": algorithms.Compressed(algorithms.Scaffold(), up=TOP, down=TOP, control=TOP),
    "efl": algorithms.EFL(0.1, fisher="empirical", compressor=messages.get("st")(0.3)),
    "mime": algorithms.Mime(0.5),
    "mimelite": algorithms.Mime(0.5, lite=True),
    "vrl-sgd": algorithms.VRLSGD(),
    "fedgate": algorithms.FedGATE(),
    "scaffnew": algorithms.Scaffnew(0.7),
    "apfl": algorithms.APFL(0.5),
    "apfl adaptive": algorithms.APFL(0.5, adaptive=True),
    "fedamp": algorithms.FedAMP(1.0, 0.1, 1.0),
    "elastic-aggregation": algorithms.ElasticAggregation(probe_batch=2),
}
CONVEX = {"fedmls", "subgradient"}  # for nonsmooth problems: their local work is not SGD's


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


class StepByStep(NeuralProblem):
    """A network that leaves the walk to the local solver."""

    @property
    def walk(self):
        raise AttributeError("walk")


def trains_networks(method) -> bool:
    """Return whether a round of it runs; a method that is not for networks says so."""
    p = NeuralProblem(network(), *DATA, EQUAL, dtype="float64")
    try:
        simulate(p, method, 1, p.initial(), Full(), local_solver=SGD(4, 0.1, steps=3), like=p.like_array())
    except FedTheoryError:
        return False
    return True


METHODS |= {n: m for n, m in methods_beyond(METHODS.values()).items() if n not in CONVEX and trains_networks(m)}


def test_no_method_is_left_out():
    """The methods that are not compared below refuse networks."""
    assert CONVEX <= set(algorithms.names())
    left_out = {n: m for n, m in methods_beyond(METHODS.values()).items() if n not in CONVEX}
    assert not [n for n, m in left_out.items() if trains_networks(m)] and len(METHODS) >= 17


@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.parametrize("name", METHODS)
def test_side_by_side_is_step_by_step(name, engine):
    method = METHODS[name]
    everybody = isinstance(method, algorithms.VRLSGD | algorithms.FedGATE | algorithms.Scaffnew)
    ends = []
    for kind in (NeuralProblem, StepByStep):
        p = kind(network(), *DATA, EQUAL if everybody else CLIENTS, dtype="float64", engine=engine, test=DATA, ridge=0.01)
        sampling = Full() if everybody else Uniform(3)
        solver = SGD(4, 0.1, steps=3)
        run = simulate(p, method, 3, p.initial(), sampling, 1, 5, solver, ("objective",), like=p.like_array())
        ends.append([np.asarray(part) for part in run.final if isinstance(part, torch.Tensor)])
    assert len(ends[0]) == len(ends[1]) >= 1
    for ours, plain in zip(*ends, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-12, atol=1e-14)
    start = np.asarray(NeuralProblem(network(), *DATA, CLIENTS, dtype="float64").initial())
    assert abs(ends[0][0][0] - start).max() > 1e-3  # and it went somewhere


WAYS = ("compiled", "batched", "plain", "loop", "stacked")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lr, curvature", [(0.3, 1.0), (0.1, 0.3), (0.3, 0.1)])
@pytest.mark.parametrize("way", WAYS)
def test_what_has_no_gradient_stays_on_its_anchor(way, lr, curvature, dtype, monkeypatch):
    """Weights of inputs that are always 0: at the center the pull is 0, not a rounding error that the sign rule takes for a move."""
    x = DATA[0].copy()
    x[:, 2:] = 0.0
    p = NeuralProblem(network(), x, DATA[1], CLIENTS, dtype=dtype, engine=way if way in ("loop", "stacked") else "stacked")
    if way != "compiled":
        monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", False)
    if way in ("plain", "loop", "stacked"):
        plain = Penalty.__init__

        def uncompiled(self, *args):
            plain(self, *args)
            self.compiled = False

        monkeypatch.setattr(Penalty, "__init__", uncompiled)
    rows = Rows(np.arange(5), np.zeros((5, 1), int), np.ones((5, 1), bool), Stream(0), 1)
    start = p.like_array().new_tensor(np.random.default_rng(4).normal(size=(5, 1, p.dim)))
    objective = LocalObjective(center=start, curvature=curvature, l1=0.01)
    end = p.walk(SGD(4, lr, epochs=4), objective, start, rows).y
    weights = [a[:, 0, :30].reshape(5, 5, 6) for a in (start, end)]
    assert torch.equal(weights[0][:, :, 2:], weights[1][:, :, 2:])
    assert not torch.equal(weights[0][:, :, :2], weights[1][:, :, :2])


def test_the_walk_of_a_view_is_not_the_problems():
    from fedtheory.local.shifted_gradients import ScaledView

    p = NeuralProblem(network(), *DATA, CLIENTS, dtype="float64")
    assert hasattr(p, "walk") and not hasattr(ScaledView(p, 2.0), "walk")
