"""pfl-research and FedLab as adapters of the audit. Needs ``pfl[pytorch]``, and ``fedlab``."""

import numpy as np
import pytest

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.integrations import fedlab_adapter, pfl_adapter
from fedtheory.integrations import settings as integrations_settings
from fedtheory.testing import audit_algorithm

FEW = {"skip": ["convergence", "logistic loss", "settings", "streams"], "time_limit": 120}


def names(report):
    return [m.name for m in report.explanations[0]]


def test_pfl_averaging_and_prox_are_the_methods_and_their_mistakes_are_seen():
    pytest.importorskip("torch")
    pytest.importorskip("pfl.model.pytorch")
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.algorithm.fedprox import FedProx, FedProxParams

    def averaging(common):
        return FederatedAveraging(), NNAlgorithmParams(**common)

    def prox(common, mu):
        return FedProx(), FedProxParams(mu=mu, **common)

    def doubled(common, mu):
        return FedProx(), FedProxParams(mu=2 * mu, **common)

    assert audit_algorithm(pfl_adapter(averaging), "fedavg", **FEW).passed
    assert names(audit_algorithm(pfl_adapter(averaging, "uniform"), "fedavg", **FEW)) == ["other-weights"]
    assert audit_algorithm(pfl_adapter(prox), "fedprox", **FEW).passed
    assert names(audit_algorithm(pfl_adapter(doubled), "fedprox", **FEW)) == ["penalty-double"]


def test_fedlab_averaging_takes_a_plain_mean_and_its_scaffold_is_scaffold():
    pytest.importorskip("torch")
    pytest.importorskip("fedlab.contrib.algorithm.basic_server")
    from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
    from fedlab.contrib.algorithm.basic_server import SyncServerHandler
    from fedlab.contrib.algorithm.scaffold import ScaffoldSerialClientTrainer, ScaffoldServerHandler

    def trainer(kind):
        def make(model, num_clients, data, learning_rate, local_steps):
            made = kind(model, num_clients)
            made.setup_dataset(data)
            made.setup_optim(local_steps, None, learning_rate)
            return made

        return make

    def scaffold(model, rounds, server_lr):
        made = ScaffoldServerHandler(model, rounds, 1.0)
        made.setup_optim(server_lr)
        return made

    def plain(model, rounds):
        return SyncServerHandler(model, rounds, 1.0)

    assert audit_algorithm(fedlab_adapter(scaffold, trainer(ScaffoldSerialClientTrainer)), "scaffold", **FEW).passed
    adapter = fedlab_adapter(plain, trainer(SGDSerialClientTrainer))
    assert audit_algorithm(adapter, "fedavg", weighting="uniform", **FEW).passed
    assert names(audit_algorithm(adapter, "fedavg", **FEW)) == ["other-weights"]


def test_a_package_that_is_not_there_is_named_with_what_to_install(monkeypatch):
    def absent(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(integrations_settings.importlib, "import_module", absent)
    start = np.zeros(2)
    for run in (
        pfl_adapter(lambda common: None),
        fedlab_adapter(lambda model, rounds: None, lambda model, n, data: None),
    ):
        with pytest.raises(MissingCapability, match="pip install"):
            run(start, [], [[0]], learning_rate=0.1, local_steps=1)


def test_what_cannot_be_run_is_refused():
    with pytest.raises(InvalidInput, match="weighting"):
        pfl_adapter(lambda common: None, "samples")
    with pytest.raises(InvalidInput, match="it cannot be called"):
        fedlab_adapter(None, lambda model, n, data: None)
    with pytest.raises(InvalidInput, match="it needs 2 parameters"):
        fedlab_adapter(lambda model: None, lambda model, n, data: None)
