"""Training loops in torch as adapters of the audit: right ones, and lines that public ports have wrong."""

import copy

import numpy as np
import pytest
from repository import ROOT

from fedtheory.errors import InvalidInput
from fedtheory.integrations import torch_clients, torch_loop
from fedtheory.integrations.torch_loops import linear_model
from fedtheory.testing import audit_algorithm

torch = pytest.importorskip("torch")
FEW = {"skip": ["convergence", "logistic loss", "settings", "clients come and go"]}


def mean(states, num_examples):
    total = sum(num_examples)
    return {name: sum(n * s[name] for n, s in zip(num_examples, states, strict=True)) / total for name in states[0]}


def prox(penalty):
    """A client of FedProx whose penalty is ``penalty(model, server's parameters)``."""

    def train(model, client, learning_rate, local_steps, mu):
        server = penalty.server(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
        for _ in range(local_steps):
            optimizer.zero_grad()
            (client.loss(model) + penalty(model, server, mu)).backward()
            optimizer.step()

    return train


def _penalty(server):
    def wrap(function):
        function.server = server
        return function

    return wrap


def fixed(model):
    return [p.detach().clone() for p in model.parameters()]


@_penalty(fixed)
def right(model, server, mu):
    return mu / 2 * sum(((p - q) ** 2).sum() for p, q in zip(model.parameters(), server, strict=True))


@_penalty(fixed)
def unsquared(model, server, mu):
    return mu / 2 * sum((p - q).norm(2) for p, q in zip(model.parameters(), server, strict=True))


@_penalty(lambda model: list(model.parameters()))
def aliased(model, server, mu):
    return mu / 2 * sum(((p - q) ** 2).sum() for p, q in zip(model.parameters(), server, strict=True))


@_penalty(lambda model: copy.deepcopy(model).parameters())
def used_up(model, server, mu):
    return mu / 2 * sum(((p - q) ** 2).sum() for p, q in zip(model.parameters(), server, strict=False))


@_penalty(fixed)
def detached(model, server, mu):
    return mu / 2 * sum(((p.detach() - q) ** 2).sum() for p, q in zip(model.parameters(), server, strict=True))


def test_a_client_and_a_mean_are_fedprox():
    report = audit_algorithm(torch_clients(prox(right), mean), "fedprox")
    assert report.passed, report


@pytest.mark.parametrize(
    "penalty, mistake",
    [
        (unsquared, "penalty-norm-by-array"),
        (aliased, "penalty-none"),
        (used_up, "penalty-none"),
        (detached, "penalty-none"),
    ],
    ids=["unsquared", "aliased", "used up", "detached"],
)
def test_a_wrong_penalty_is_named(penalty, mistake):
    report = audit_algorithm(torch_clients(prox(penalty), mean), "fedprox", **FEW)
    assert report.explanations and report.explanations[0][0].name == mistake, report


def test_a_mean_of_the_first_array_only_is_seen():
    def careless(states, num_examples):
        return {**states[-1], "head": mean(states, num_examples)["head"]}

    report = audit_algorithm(torch_clients(prox(right), careless), "fedprox", **FEW)
    assert "mean" in [f.check for f in report.failed]


def scaffold(model, clients, cohorts, learning_rate, local_steps, server_lr, sign=1.0):
    params = list(model.parameters())
    zero = [torch.zeros_like(p) for p in params]
    c = [z.clone() for z in zero]
    for cohort in cohorts:
        moves, changes = [], []
        for k in cohort:
            steps = local_steps[k] if isinstance(local_steps, list) else local_steps
            own = clients[k].kept.setdefault("c", zero)
            local = copy.deepcopy(model)
            for _ in range(steps):
                gradients = torch.autograd.grad(clients[k].loss(local), list(local.parameters()))
                with torch.no_grad():
                    for p, g, a, b in zip(local.parameters(), gradients, own, c, strict=True):
                        p -= learning_rate * (g - a + b)
            after = [a - b + sign * (x - y).detach() / (steps * learning_rate)
                     for a, b, x, y in zip(own, c, params, local.parameters(), strict=True)]  # fmt: skip
            moves.append([(y - x).detach() for x, y in zip(params, local.parameters(), strict=True)])
            changes.append([n - a for n, a in zip(after, own, strict=True)])
            clients[k].kept["c"] = after
        with torch.no_grad():
            for i, p in enumerate(params):
                p += server_lr * sum(m[i] for m in moves) / len(cohort)
                c[i] = c[i] + sum(d[i] for d in changes) / len(clients)
        yield


def test_a_whole_loop_is_scaffold_and_its_sign_is_seen():
    assert audit_algorithm(torch_loop(scaffold), "scaffold", skip=["convergence"]).passed

    def turned(model, clients, cohorts, learning_rate, local_steps, server_lr):
        yield from scaffold(model, clients, cohorts, learning_rate, local_steps, server_lr, sign=-1.0)

    report = audit_algorithm(torch_loop(turned), "scaffold", **FEW)
    assert "control-update-sign" in [m.name for e in report.explanations for m in e], report


def test_a_loop_that_says_nothing_between_rounds_is_judged_by_its_last_model():
    def averaging(model, clients, cohorts, learning_rate, local_steps):
        for cohort in cohorts:
            states = []
            for k in cohort:
                local = copy.deepcopy(model)
                optimizer = torch.optim.SGD(local.parameters(), lr=learning_rate)
                for _ in range(local_steps):
                    optimizer.zero_grad()
                    clients[k].loss(local).backward()
                    optimizer.step()
                states.append(local.state_dict())
            model.load_state_dict(mean(states, [clients[k].num_examples for k in cohort]))

    report = audit_algorithm(torch_loop(averaging), "fedavg", skip=["convergence"])
    assert report.passed, report


def test_one_of_ones_own_models_in_single_precision():
    def linear(dim):
        return torch.nn.Linear(dim, 1, bias=False)

    def train(model, client, learning_rate, local_steps):
        optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, weight_decay=client.ridge)
        for _ in range(local_steps):
            optimizer.zero_grad()
            client.criterion(model(client.features.float()).reshape(-1), client.labels.float()).backward()
            optimizer.step()

    report = audit_algorithm(torch_clients(train, mean, linear), "fedavg", skip=["convergence"])
    assert report.passed and report.rtol > 1e-5, report


def got(adapter, method="fedavg"):
    return audit_algorithm(adapter, method, **FEW).failed[0].got


def test_what_is_no_such_model_or_loop_is_named():
    def train(model, client, learning_rate, local_steps):
        return None

    def loop(model, clients, cohorts, learning_rate, local_steps):
        yield from range(len(cohorts) + 1)

    with pytest.raises(InvalidInput, match="aggregate"):
        torch_clients(train, None)
    with pytest.raises(InvalidInput, match="it needs 3 parameters"):
        torch_loop(lambda model: None)
    with pytest.raises(InvalidInput, match="it cannot be called"):
        torch_loop("loop")
    assert "no bias" in got(torch_clients(train, mean, lambda dim: torch.nn.Linear(dim, 1)))
    assert "a return is missing" in got(torch_clients(train, lambda states, n: None))
    assert "yielded 2 times in 1 rounds" in got(torch_loop(loop))

    class Squared(torch.nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(dim, dtype=torch.float64))

        def forward(self, features):
            return features @ self.w**2

    assert "not the linear predictor" in got(torch_clients(train, mean, Squared))


def test_the_default_model_is_linear_in_two_arrays():
    model = linear_model(5)
    assert [tuple(p.shape) for p in model.parameters()] == [(3,), (2,)]
    assert linear_model(1)(torch.ones(2, 1, dtype=torch.float64)).shape == (2,)
    assert np.isfinite(model(torch.ones(4, 5, dtype=torch.float64)).detach().numpy()).all()


def test_the_example_is_fedprox(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import audit_torch

    assert audit_algorithm(audit_torch.fedprox, "fedprox", skip=["convergence"]).passed


def test_torch_clients_of_our_strategies_take_the_steps_of_the_library():
    from fedtheory.integrations.flower import local_work, torch_work
    from fedtheory.local import GradientSteps
    from fedtheory.local.objective import LocalObjective
    from fedtheory.problems import LeastSquares

    g = np.random.default_rng(0)
    features, targets, start = g.normal(size=(1, 9, 5)), g.normal(size=(1, 9)), g.normal(size=5)
    objective = LocalObjective(center=start, linear=g.normal(size=5), curvature=0.3, l1=0.05)
    ours = local_work(LeastSquares(features, targets), 0, GradientSteps(4, 0.1))
    a, b = torch.tensor(features[0]), torch.tensor(targets[0])
    theirs = torch_work(linear_model(5), lambda module: 0.5 * ((module(a) - b) ** 2).mean(), 9, 0.1, 4)
    for one, two in zip(ours.minimise(objective, start, 1), theirs.minimise(objective, start, 1), strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-13)
    assert ours.num_examples == theirs.num_examples == 9
    with pytest.raises(InvalidInput, match="no gradient"):
        torch_work(linear_model(5), lambda module: 0.0, 9, 0.1, 4).minimise(objective, start, 1)
    with pytest.raises(InvalidInput, match="steps"):
        torch_work(linear_model(5), lambda module: 0.0, 9, 0.1, 0)
