"""The two halves of a round, a client's and the server's, against the simulation; no Flower is needed for it."""

import numpy as np
import pytest
from four_clients import COHORTS, PROBLEM, SIZES, START, simulated

from fedtheory.algorithms import (
    Compressed,
    FedAvg,
    FedDyn,
    FedElasticNetDyn,
    FedElasticNetProx,
    FedElasticNetScaffold,
    FedProx,
    Mime,
    Scaffold,
)
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.integrations.flower.rules import (
    LocalWork,
    check_method,
    client_round,
    local_work,
    sent_settings,
    server_round,
)
from fedtheory.local import SGD, Exact, GradientSteps
from fedtheory.messages import TopK

STEPS, BATCHES = GradientSteps(3, 0.1), SGD(batch_size=2, lr=0.05, epochs=2)
METHODS = {
    "FedAvg": (FedAvg(), STEPS),
    "FedAvg, plain mean, batches": (FedAvg(aggregation="cohort"), BATCHES),
    "FedAvg, printed": (FedAvg(aggregation="printed"), STEPS),
    "FedProx": (FedProx(0.7), STEPS),
    "FedProx, to the end": (FedProx(0.7, aggregation="samples"), Exact()),
    "SCAFFOLD": (Scaffold(server_lr=0.8), STEPS),
    "SCAFFOLD, option I, batches": (Scaffold(option="gradient"), BATCHES),
    "FedDyn": (FedDyn(0.6), STEPS),
    "FedDyn, to the end": (FedDyn(0.6), Exact()),
    "FedElasticNet 1": (FedElasticNetProx(0.02, 0.5, aggregation="printed"), STEPS),
    "FedElasticNet 1, threshold": (FedElasticNetProx(0.02, 0.5, aggregation="cohort", epsilon=0.05), STEPS),
    "FedElasticNet 2": (FedElasticNetScaffold(0.02, 0.5, server_lr=0.9, epsilon=0.02), STEPS),
    "FedElasticNet 3": (FedElasticNetDyn(0.02, 0.5), Exact()),
    "FedElasticNet 3, threshold": (FedElasticNetDyn(0.02, 0.5, epsilon=0.05), STEPS),
    "FedElasticNet 3, true gradient": (FedElasticNetDyn(0.02, 0.5, rule="true-gradient"), Exact()),
}


def in_halves(algorithm, solver, seed=0):
    x, at_server, at_clients, models = START, None, {}, []
    for number, cohort in enumerate(COHORTS, start=1):
        replies = []
        for k in cohort:
            control = np.zeros_like(x) if at_server is None else at_server
            work = local_work(PROBLEM, k, solver, seed)
            sent, at_clients[k] = client_round(sent_settings(algorithm), x, control, at_clients.get(k), work, number)
            replies.append((work.num_examples, sent))
        x, at_server = server_round(algorithm, x, at_server, replies, len(SIZES), sum(SIZES))
        models.append(x)
    return np.array(models)


@pytest.mark.parametrize("name", METHODS)
def test_the_two_halves_are_a_round_of_the_simulation(name):
    algorithm, solver = METHODS[name]
    np.testing.assert_allclose(in_halves(algorithm, solver, seed=4), simulated(algorithm, solver, seed=4), rtol=0, atol=1e-12)


def test_what_is_not_made_here_is_refused_before_any_work():
    for algorithm, words in (
        (Mime(), "strategies are made of"),
        (Compressed(FedAvg(), TopK(1)), "sent whole here"),
        (Scaffold(control="recovered"), "control"),
        (Scaffold(), "num_clients is missing"),
        (FedElasticNetProx(0.1, 0.1), "total_examples is missing"),
    ):
        with pytest.raises(InvalidInput, match=words):
            check_method(algorithm, None, None)
    with pytest.raises(InvalidInput, match="num_clients"):
        check_method(FedDyn(1.0), 0, None)
    with pytest.raises(InvalidInput, match="local"):
        local_work(PROBLEM, 0, "sgd")


def test_a_client_says_what_its_work_lacks():
    told, x = sent_settings(Scaffold(option="gradient")), np.zeros(3)
    without = LocalWork(5, lambda objective, start, number: (start, None))
    with pytest.raises(MissingCapability, match="full gradient"):
        client_round(told, x, x, None, without, 1)
    with pytest.raises(MissingCapability, match="local step sizes"):
        client_round(sent_settings(Scaffold()), x, x, None, without, 1)
    with pytest.raises(InvalidInput, match="control variate"):
        client_round(told, x, None, None, without, 1)
    with pytest.raises(InvalidInput, match="shape"):
        client_round(sent_settings(FedAvg()), x, None, None, LocalWork(5, lambda *_: (np.zeros(2), None)), 1)
    with pytest.raises(InvalidInput, match="the client knows"):
        client_round({"method": "fedmls"}, x, None, None, without, 1)
    with pytest.raises(InvalidInput, match="0 examples"):
        server_round(FedAvg(), x, None, [(0, {"model": x})], None, None)
