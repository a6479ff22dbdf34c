"""A FedLab handler with its serial trainer, as `fedtheory.testing.check_algorithm` takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedtheory.integrations.settings import equal_steps, needed_package, of_these, taking
from fedtheory.integrations.torch_loops import criterion_of, flat_parameters, linear_model, set_parameters

__all__ = ["fedlab_adapter"]


def fedlab_adapter(server: Callable[..., Any], trainer: Callable[..., Any]) -> Callable[..., Any]:
    """A FedLab server handler and a serial client trainer as an adapter of the audit.

    They are run in one process, as FedLab's standalone pipeline does, in float64. A client's data
    loader has one batch of all its examples, so that a local epoch is one local step. The handler's
    own sampling is replaced by the cohorts that the audit asks for.

    Parameters
    ----------
    server : callable(model, rounds, **settings) -> SyncServerHandler
        Set up to the end: ``setup_optim`` is called in it.
    trainer : callable(model, num_clients, dataset, **settings) -> SGDSerialClientTrainer
        Likewise; ``dataset`` is what ``setup_dataset`` takes. Its criterion is replaced by the
        audit's loss afterwards.

    Returns
    -------
    callable
        ``run(start, clients, cohorts, **settings)`` for `fedtheory.testing.check_algorithm`.

    Examples
    --------
    A server and a trainer of FedLab's FedAvg::

        def server(model, rounds):
            return FedAvgServerHandler(model, rounds, 1.0)

        def trainer(model, num_clients, dataset, learning_rate, local_steps):
            made = SGDSerialClientTrainer(model, num_clients)
            made.setup_dataset(dataset)
            made.setup_optim(local_steps, None, learning_rate)
            return made

        check_algorithm(fedlab_adapter(server, trainer), "fedavg")
    """

    def run(start: np.ndarray, clients: Sequence[Any], cohorts: list[list[int]], **settings: Any) -> np.ndarray:
        needed_package("torch", "torch")
        needed_package("fedlab.contrib.algorithm.basic_server", "fedlab")
        equal_steps(settings.get("local_steps"), "FedLab")
        with _float64():
            return _run(server, trainer, start, clients, cohorts, settings)

    return taking(run, (server, 2, "server"), (trainer, 3, "trainer"))


class _Data:
    """A dataset with what a FedLab trainer asks of it."""

    def __init__(self, clients: Sequence[Any]) -> None:
        import torch

        self.batches = [[(torch.tensor(c.features), torch.tensor(c.labels))] for c in clients]

    def get_dataloader(self, id: int, batch_size: int | None = None) -> Any:
        return self.batches[id]


@contextmanager
def _float64() -> Iterator[None]:
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _run(server: Callable[..., Any], trainer: Callable[..., Any], start: np.ndarray,
         clients: Sequence[Any], cohorts: list[list[int]], settings: dict[str, Any]) -> np.ndarray:
    models = []
    for_server, for_trainer = linear_model(len(start)), linear_model(len(start))
    set_parameters(for_server, start)
    handler = server(for_server, len(cohorts), **of_these(server, settings, 2, "server"))
    handler.num_clients = len(clients)
    local = trainer(for_trainer, len(clients), _Data(clients), **of_these(trainer, settings, 3, "trainer"))
    criterion, ridge = criterion_of(clients[0].loss), clients[0].ridge
    local.criterion = lambda said, labels: (
        criterion(said, labels) + ridge / 2 * sum((p**2).sum() for p in local._model.parameters())
    )
    for cohort in cohorts:
        handler.sample_ratio = (len(cohort) + 0.5) / len(clients)  # so that its own rounding gives the cohort's size
        local.local_process(handler.downlink_package, list(cohort))
        for upload in local.uplink_package:
            handler.load(upload)
        models.append(flat_parameters(handler._model))
    return np.array(models)
