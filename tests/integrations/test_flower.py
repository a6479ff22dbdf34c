"""Flower: our methods as strategies, in its engine and without; other people's strategies as adapters. Needs ``flwr``."""

import os

import numpy as np
import pytest
from four_clients import COHORTS, PROBLEM, SIZES, START, simulated
from repository import ROOT

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
pytest.importorskip("flwr.serverapp.strategy")

import flwr.server.strategy as classic
import flwr.serverapp.strategy as new
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

from fedtheory.algorithms import (
    FedAvg,
    FedDyn,
    FedElasticNetDyn,
    FedElasticNetProx,
    FedElasticNetScaffold,
    FedProx,
    Scaffold,
)
from fedtheory.errors import InvalidInput
from fedtheory.integrations import flower_adapter
from fedtheory.integrations.flower import client_app, drive, local_work, strategy
from fedtheory.local import GradientSteps
from fedtheory.testing import audit_algorithm

SOLVER = GradientSteps(3, 0.1)
METHODS = (
    FedAvg(),
    FedProx(0.7),
    Scaffold(server_lr=0.8),
    FedDyn(0.6),
    FedElasticNetProx(0.02, 0.5),
    FedElasticNetScaffold(0.02, 0.5),
    FedElasticNetDyn(0.02, 0.5),
)


def work(context):
    return local_work(PROBLEM, context.node_config["partition-id"], SOLVER)


def made(algorithm):
    return strategy(algorithm, num_clients=len(SIZES), total_examples=sum(SIZES))


@pytest.mark.parametrize("algorithm", METHODS, ids=lambda a: a.name)
def test_our_strategies_are_the_simulation(algorithm):
    models = drive(made(algorithm), client_app(work), START, COHORTS, len(SIZES))
    np.testing.assert_allclose(models, simulated(algorithm, SOLVER), rtol=0, atol=1e-12)


@pytest.mark.parametrize("algorithm", [FedElasticNetDyn(0.02, 0.5), Scaffold()], ids=lambda a: a.name)
def test_flowers_own_engine_gives_the_same(algorithm):
    models = drive(made(algorithm), client_app(work), START, COHORTS, len(SIZES), engine="simulation-in-process")
    np.testing.assert_allclose(models, simulated(algorithm, SOLVER), rtol=0, atol=1e-12)


def test_flowers_own_engine_on_ray_gives_the_same():
    pytest.importorskip("ray")
    models = drive(made(Scaffold()), client_app(work), START, COHORTS, len(SIZES), engine="simulation")
    np.testing.assert_allclose(models, simulated(Scaffold(), SOLVER), rtol=0, atol=1e-12)


def test_a_model_of_several_arrays_keeps_their_shapes_and_types():
    seen = []

    class Watched(type(made(Scaffold()))):
        def aggregate_train(self, server_round, replies):
            arrays, metrics = super().aggregate_train(server_round, replies)
            seen.append({k: (a.numpy().shape, a.numpy().dtype) for k, a in arrays.items()})
            return arrays, metrics

    server = made(Scaffold())
    server.__class__ = Watched
    models = drive(server, client_app(work), START, COHORTS, len(SIZES), arrays=[("w", (1, 2)), ("b", (1,))])
    np.testing.assert_allclose(models, simulated(Scaffold(), SOLVER), rtol=0, atol=1e-12)
    assert seen[0] == {"w": ((1, 2), np.dtype(float)), "b": ((1,), np.dtype(float))}
    single = ArrayRecord({"w": Array(np.ones(2, dtype=np.float32)), "steps": Array(np.arange(2))})
    with pytest.raises(InvalidInput, match="'steps' holds int64"):
        server.configure_train(1, single, {}, None)


# --- other people's strategies ---


def gradient_client(data, learning_rate, local_steps):
    class Client(NumPyClient):
        def fit(self, parameters, config):
            x, y, mu = parameters[0], parameters[0].copy(), config.get("proximal_mu", 0.0)
            for _ in range(local_steps):
                y = y - learning_rate * (data.gradient(y) + mu * (y - x))
            return [y], data.num_examples, {}

    return Client()


FEW = {"skip": ["convergence", "logistic loss", "settings"]}


def test_flowers_fedprox_with_a_client_is_fedprox():
    report = audit_algorithm(
        flower_adapter(lambda mu: classic.FedProx(proximal_mu=mu), client=gradient_client), "fedprox", **FEW
    )
    assert report.passed, report


def test_a_penalty_that_is_not_squared_is_named():
    def client(data, learning_rate, local_steps):
        class Client(NumPyClient):
            def fit(self, parameters, config):
                x, y = parameters[0], parameters[0].copy()
                for _ in range(local_steps):
                    far = np.linalg.norm(y - x)
                    pull = config["proximal_mu"] / 2 * (y - x) / far if far else 0
                    y = y - learning_rate * (data.gradient(y) + pull)
                return [y], data.num_examples, {}

        return Client()

    report = audit_algorithm(
        flower_adapter(lambda mu: classic.FedProx(proximal_mu=mu), client=client), "fedprox", **FEW
    )
    assert report.explanations[0][0].name == "penalty-norm", report


def test_a_strategy_of_messages_with_its_app_is_audited_and_so_are_its_mistakes():
    def app(clients, learning_rate, local_steps):
        made = ClientApp()

        @made.train()
        def train(message, context):
            k = context.node_config["partition-id"]
            steps = local_steps[k] if isinstance(local_steps, list) else local_steps
            y, n, _ = gradient_client(clients[k], learning_rate, steps).fit(
                message.content["arrays"].to_numpy_ndarrays(), {}
            )
            answer = RecordDict({"arrays": ArrayRecord(y), "metrics": MetricRecord({"num-examples": n})})
            return Message(content=answer, reply_to=message)

        return made

    assert audit_algorithm(flower_adapter(lambda: new.FedAvg(), app=app), "fedavg", **FEW).passed
    report = audit_algorithm(flower_adapter(lambda: new.FedAvg(weighted_by_key="one"), app=app), "fedavg", **FEW)
    assert not report.passed and "one" in report.failed[0].got

    class Unweighted(new.FedAvg):
        def aggregate_train(self, server_round, replies):
            models = [m.content["arrays"].to_numpy_ndarrays()[0] for m in replies]
            return ArrayRecord([np.mean(models, axis=0)]), None

    report = audit_algorithm(flower_adapter(lambda: Unweighted(), app=app), "fedavg", **FEW)
    assert report.diagnosis.startswith("client weights are ignored"), report


def test_what_a_client_keeps_belongs_into_flowers_context():
    def keeping(data, context, learning_rate, local_steps):
        class Client(NumPyClient):
            def fit(self, parameters, config):
                count = context.state["count"]["n"] if "count" in context.state else 0
                context.state["count"] = MetricRecord({"n": count + 1})
                counts.append(count)
                return parameters, 1, {}

        return Client()

    counts = []
    run = flower_adapter(lambda: classic.FedAvg(), client=keeping)
    clients = [type("Data", (), {"num_examples": 3})() for _ in range(2)]
    run(np.zeros(2), clients, [[0, 1], [1], [0, 1]], learning_rate=0.1, local_steps=1)
    assert sorted(counts) == [0, 0, 1, 1, 2]


def test_bad_input_is_named_and_nothing_hangs():
    with pytest.raises(InvalidInput, match="one of client= "):
        flower_adapter(lambda: classic.FedAvg())
    with pytest.raises(InvalidInput, match="engine"):
        drive(made(FedAvg()), client_app(work), START, COHORTS, engine="ray")
    with pytest.raises(InvalidInput, match="cohorts"):
        drive(made(FedAvg()), client_app(work), START, [[0], []])
    with pytest.raises(InvalidInput, match="numbered from 0 to 1"):
        drive(made(FedAvg()), client_app(work), START, [[0, 5]], num_clients=2)
    with pytest.raises(InvalidInput, match="none of Flower's"):
        drive(object(), client_app(work), START, [[0]])
    with pytest.raises(InvalidInput, match="work_of"):
        client_app(3)

    class Half(type(made(FedAvg()))):
        def configure_train(self, server_round, arrays, config, grid):
            return list(super().configure_train(server_round, arrays, config, grid))[:1]

    half = made(FedAvg())
    half.__class__ = Half
    with pytest.raises(InvalidInput, match="asked 1 of the 4 clients"):
        drive(half, client_app(work), START, [range(4)])

    class Waiting(classic.FedAvg):
        def num_fit_clients(self, available):
            return 10, 10

    with pytest.raises(InvalidInput, match="waits for 10 clients"):
        drive(Waiting(), client_app(work), START, [range(4)])
    found = audit_algorithm(flower_adapter(lambda: new.FedAvg(), client=gradient_client), "fedavg", **FEW)
    assert "a NumPyClient cannot read" in found.failed[0].got


def test_a_client_that_raises_is_a_finding_and_no_smaller_cohort():
    def client(data, learning_rate, local_steps):
        class Client(NumPyClient):
            def fit(self, parameters, config):
                if data.num_examples == 7:
                    raise ValueError("no data today")
                return gradient_client(data, learning_rate, local_steps).fit(parameters, config)

        return Client()

    report = audit_algorithm(flower_adapter(lambda: classic.FedAvg(), client=client), "fedavg", **FEW)
    assert "no data today" in report.failed[0].got


def test_the_example_is_fedprox(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import audit_flower

    assert audit_algorithm(audit_flower.fedprox, "fedprox", **FEW).passed


def test_the_example_of_a_network_learns_in_flower(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    torch = pytest.importorskip("torch")
    pytest.importorskip("flwr.simulation")
    import flower_scaffold as example

    first = np.concatenate([p.detach().numpy().ravel() for p in example.network().parameters()]).astype(float)
    models = drive(made(Scaffold()), example.clients, first, [range(4)] * 20)

    def loss(values):
        module, total = example.network(), 0.0
        torch.nn.utils.vector_to_parameters(torch.tensor(values, dtype=torch.float32), module.parameters())
        for k in range(4):
            features, labels = example.data_of(k)
            total += float(torch.nn.functional.mse_loss(module(features).squeeze(1), labels)) / 4
        return total

    assert loss(models[-1]) < 0.8 * loss(first)


def test_a_strategy_that_sends_its_control_variate_along_is_scaffold():
    from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays

    class Server(classic.FedAvg):
        def __init__(self, x, num_clients, server_lr):
            super().__init__(initial_parameters=ndarrays_to_parameters([x, np.zeros_like(x)]))
            self.x, self.c, self.num_clients, self.server_lr = x, np.zeros_like(x), num_clients, server_lr

        def aggregate_fit(self, server_round, results, failures):
            sent = [parameters_to_ndarrays(answer.parameters) for _, answer in results]
            self.x = self.x + self.server_lr * np.mean([moved for moved, _ in sent], axis=0)
            self.c = self.c + sum(change for _, change in sent) / self.num_clients
            return ndarrays_to_parameters([self.x, self.c]), {}

    def server(initial_parameters, num_clients, server_lr):
        return Server(parameters_to_ndarrays(initial_parameters)[0], num_clients, server_lr)

    def client(sign):
        def make(data, context, learning_rate, local_steps):
            class Client(NumPyClient):
                def fit(self, parameters, config):
                    (x, c), y = parameters, parameters[0].copy()
                    own = context.state["own"]["c"].numpy() if "own" in context.state else np.zeros_like(x)
                    for _ in range(local_steps):
                        y = y - learning_rate * (data.gradient(y) - own + c)
                    new = own - c + sign * (x - y) / (local_steps * learning_rate)
                    context.state["own"] = ArrayRecord({"c": Array(new)})
                    return [y - x, new - own], data.num_examples, {}

            return Client()

        return make

    report = audit_algorithm(
        flower_adapter(server, client=client(1), model=lambda arrays: arrays[0]), "scaffold", **FEW
    )
    assert report.passed, report
    turned = audit_algorithm(
        flower_adapter(server, client=client(-1), model=lambda arrays: arrays[0]), "scaffold", **FEW
    )
    assert "control-update-sign" in [m.name for e in turned.explanations for m in e], turned
    assert "shape (8,)" in audit_algorithm(flower_adapter(server, client=client(1)), "scaffold", **FEW).failed[0].got


def test_a_client_that_never_ends_is_stopped():
    def client(data, learning_rate, local_steps):
        class Client(NumPyClient):
            def fit(self, parameters, config):
                while True:
                    pass

        return Client()

    report = audit_algorithm(flower_adapter(lambda: classic.FedAvg(), client=client), "fedavg", time_limit=0.5)
    assert "too slow" in report.failed[0].got and {f.verdict for f in report.failed[1:]} <= {"fail", "not run"}
