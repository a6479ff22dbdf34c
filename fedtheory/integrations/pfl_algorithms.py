"""An algorithm of pfl-research (``pfl``) on torch, for `fedtheory.testing.check_algorithm`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.integrations.settings import equal_steps, needed_package, of_these, taking
from fedtheory.integrations.torch_loops import criterion_of, flat_parameters, linear_model, set_parameters

__all__ = ["pfl_adapter"]


def pfl_adapter(make: Callable[..., Any], weighting: str = "examples") -> Callable[..., Any]:
    """A federated algorithm of pfl-research as an adapter of the audit.

    It is run by pfl's own SimulatedBackend with a PyTorchModel; local_steps are pfl's local epochs
    on one batch of all examples, and server_lr is the learning rate of the central SGD. pfl takes
    the differences of models in single precision: the audit's tolerance is the one of single
    precision.

    Parameters
    ----------
    make : callable(common, **settings) -> (algorithm, its parameters)
        ``common`` holds the arguments that every NNAlgorithmParams takes, and with ``**common`` the
        parameters are made of it: ``lambda common, mu: (FedProx(), FedProxParams(mu=mu,
        **common))``. A parameter ``num_clients`` is handed the number of clients.
    weighting : 'examples' or 'uniform'
        pfl's postprocessor WeightByDatapoints or WeightByUser.

    Returns
    -------
    callable
        ``run(start, clients, cohorts, **settings)`` for `fedtheory.testing.check_algorithm`.

    Raises
    ------
    InvalidInput
        Another weighting.
    """
    if weighting not in ("examples", "uniform"):
        raise InvalidInput(f"weighting = {weighting!r}: use 'examples' or 'uniform'")

    def run(start: np.ndarray, clients: Sequence[Any], cohorts: list[list[int]],
            learning_rate: float, local_steps: Any, **settings: Any) -> np.ndarray:
        needed_package("torch", "torch")
        needed_package("pfl.algorithm.base", "pfl[pytorch]")
        if len({len(c) for c in cohorts}) > 1:
            raise InvalidInput("pfl's cohorts have one size in all rounds of a run")
        equal_steps(local_steps, "pfl")
        return _run(make, weighting, start, clients, cohorts, learning_rate, int(local_steps), settings)

    also = ("learning_rate", "local_steps", "server_lr")
    return taking(run, (make, 1, "make"), hidden=("num_clients",), also=also)


def _run(make: Callable[..., Any], weighting: str, start: np.ndarray, clients: Sequence[Any],
         cohorts: list[list[int]], rate: float, steps: int, settings: dict[str, Any]) -> np.ndarray:
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints, WeightByUser
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    model = linear_model(len(start)).float()
    set_parameters(model, start.astype(np.float32))
    criterion, ridge = criterion_of(clients[0].loss), clients[0].ridge

    def loss(features: Any, labels: Any, **_: Any) -> Any:
        return criterion(model(features), labels) + ridge / 2 * sum((p**2).sum() for p in model.parameters())

    model.loss, model.metrics = loss, lambda *_, **__: {}
    models: list[np.ndarray] = []

    class Record(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics: Any, model_: Any, *, central_iteration: int) -> Any:
            models.append(flat_parameters(model))
            return False, Metrics()

    def data_of(user: Any) -> Any:
        client = clients[int(user)]
        raw = [torch.tensor(client.features, dtype=torch.float32), torch.tensor(client.labels, dtype=torch.float32)]
        return Dataset(raw, user_id=str(user))

    asked = iter(
        [k for cohort in cohorts for k in cohort] + list(cohorts[-1])
    )  # pfl prepares one user more than it trains
    data = FederatedDataset(data_of, lambda: next(asked, cohorts[-1][0]))
    common = {"central_num_iterations": len(cohorts), "evaluation_frequency": 10**9,
              "train_cohort_size": len(cohorts[0]), "val_cohort_size": 0}
    algorithm, parameters = make(common, **of_these(make, {**settings, "num_clients": len(clients)}, 1, "make"))
    backend = SimulatedBackend(
        data, data, postprocessors=[WeightByDatapoints() if weighting == "examples" else WeightByUser()]
    )
    central = torch.optim.SGD(model.parameters(), lr=float(settings.get("server_lr") or 1.0))
    wrapped = PyTorchModel(model, lambda p, lr: torch.optim.SGD(p, lr=lr), central)
    training = NNTrainHyperParams(local_num_epochs=steps, local_learning_rate=rate, local_batch_size=None)
    algorithm.run(parameters, backend, wrapped, training, callbacks=[Record()], send_metrics_to_platform=False)
    return np.array(models[: len(cohorts)])
