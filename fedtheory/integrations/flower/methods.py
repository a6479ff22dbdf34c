"""A method of this package as a Flower strategy, and the client app that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.errors import Diverged, InvalidInput
from fedtheory.integrations.flower.rules import (
    CONTROLLED,
    LocalWork,
    check_method,
    client_round,
    sent_settings,
)
from fedtheory.integrations.flower.rules import server_round as server_half
from fedtheory.integrations.settings import needed_package

__all__ = ["EXTRA", "MODEL", "client_app", "strategy"]

EXTRA = "fedtheory[flower]"
MODEL, UPDATE, CONTROL, TOLD, CONFIG, METRICS = "arrays", "update", "control", "fedtheory", "config", "metrics"
Layout = list[tuple[str, tuple[int, ...], Any]]  # name, shape and dtype of each array of a model


def flat(record: Any, what: str) -> tuple[np.ndarray, Layout]:
    """A record's arrays laid end to end as float64 (d,), and what is needed to undo it."""
    layout: Layout = []
    parts = []
    for name, array in record.items():
        values = array.numpy()
        if values.dtype.kind != "f":
            raise InvalidInput(f"{what}: the array {name!r} holds {values.dtype}: send parameters, no counters")
        layout.append((name, values.shape, values.dtype))
        parts.append(values.ravel().astype(float))
    if not parts:
        raise InvalidInput(f"{what}: there is no array in it")
    return np.concatenate(parts), layout


def record_of(values: np.ndarray, layout: Layout) -> Any:
    """The vector (d,) as a record of arrays of these names, shapes and types."""
    from flwr.app import Array, ArrayRecord

    arrays, at = {}, 0
    for name, shape, dtype in layout:
        size = int(np.prod(shape))
        arrays[name] = Array(np.asarray(values[at : at + size].reshape(shape).astype(dtype)))
        at += size
    return ArrayRecord(arrays)


def strategy(
    algorithm: Algorithm, *, num_clients: int | None = None, total_examples: int | None = None, **options: Any
) -> Any:
    """A method as a ``flwr.serverapp.strategy.Strategy``, for clients whose app is `client_app`.

    Parameters
    ----------
    algorithm : FedAvg, FedProx, Scaffold, FedDyn, FedElasticNetProx, FedElasticNetScaffold or
        FedElasticNetDyn, with its hyperparameters, which the strategy tells the clients; without
        compressors.
    num_clients : int >= 1
        N, those included that no round may ever hear: c and h of SCAFFOLD's and FedDyn's kind are
        sums divided by it.
    total_examples : int >= 1
        n, for aggregation='printed' alone.
    options : as ``flwr.serverapp.strategy.FedAvg`` takes them
        Such as fraction_train and min_train_nodes. ``fraction_evaluate`` is 0 unless given. Flower
        decides how many clients a round asks from those that are there *before* it waits for
        min_available_nodes: set min_train_nodes too, or the first round is short.

    Returns
    -------
    flwr.serverapp.strategy.Strategy
        Its models come out in the types that they came in; in between it computes in float64. What
        it keeps (c or h) lies in its attribute ``kept`` (d,), the model's arrays laid end to end.

    Raises
    ------
    InvalidInput
        Another method, a compressor, num_clients or total_examples missing.
    MissingCapability
        ``flwr`` cannot be imported.
    """
    check_method(algorithm, num_clients, total_examples)
    needed_package("flwr.serverapp.strategy", EXTRA)
    return _strategy_class()(algorithm, num_clients, total_examples, options)


@lru_cache(maxsize=1)
def _strategy_class() -> type:
    from flwr.app import ConfigRecord
    from flwr.serverapp.strategy import FedAvg

    class MethodStrategy(FedAvg):
        """A method of fedtheory: its server's half of a round."""

        def __init__(
            self, algorithm: Algorithm, num_clients: int | None, total_examples: int | None, options: dict[str, Any]
        ) -> None:
            super().__init__(**options)
            if "fraction_evaluate" not in options:  # afterwards, for Flower warns of an argument 0
                self.fraction_evaluate, self.min_evaluate_nodes = 0.0, 0
            self.algorithm, self.num_clients, self.total_examples = algorithm, num_clients, total_examples
            self.kept: np.ndarray | None = None
            self._now: tuple[np.ndarray, Layout] | None = None

        def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Iterable[Any]:
            self._now = flat(arrays, "the server's model")
            messages = list(super().configure_train(server_round, arrays, config, grid))
            x, layout = self._now
            told = ConfigRecord(
                {**sent_settings(self.algorithm), "round": server_round, "model-key": self.arrayrecord_key}
            )
            for message in messages:
                message.content[TOLD] = told
                if isinstance(self.algorithm, CONTROLLED):
                    message.content[CONTROL] = record_of(np.zeros_like(x) if self.kept is None else self.kept, layout)
            return messages

        def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
            valid, _ = self._check_and_log_replies(list(replies), is_train=True, validate=False)
            if not valid:
                return None, None
            if self._now is None:
                raise InvalidInput("aggregate_train was called before configure_train: the server has no model yet")
            x, layout = self._now
            valid.sort(key=lambda message: message.metadata.src_node_id)  # the sum in one order, whoever answers first
            heard = [_heard(message, self.weighted_by_key, len(x), server_round) for message in valid]
            new, self.kept = server_half(self.algorithm, x, self.kept, heard, self.num_clients, self.total_examples)
            metrics = self.train_metrics_aggr_fn([message.content for message in valid], self.weighted_by_key)
            return record_of(new, layout), metrics

        def summary(self) -> None:
            from flwr.common.logger import log

            log(20, "\t├──> %s (%s): %s", self.algorithm.name, self.algorithm.source, self.algorithm)
            super().summary()

    return MethodStrategy


def _heard(message: Any, key: str, dim: int, number: int) -> tuple[int, dict[str, np.ndarray]]:
    """n_k, and what a client sent, by name."""
    who = f"round {number}, node {message.metadata.src_node_id}"
    counts = [record[key] for record in message.content.metric_records.values() if key in record]
    if len(counts) != 1 or not counts[0] >= 0:
        raise InvalidInput(
            f"{who}: {key} = {counts}; a reply says once how many examples it stands for (client_app does)"
        )
    sent = {}
    for name, record in message.content.array_records.items():
        values, _ = flat(record, f"{who}, {name}")
        if values.shape != (dim,):
            raise InvalidInput(f"{who}, {name}: {len(values)} numbers came back, the model has {dim}")
        if not np.isfinite(values).all():
            raise Diverged(
                f"{who}, {name}: NaN or infinite numbers came back; a smaller learning rate may help", number, None, 0
            )
        sent["model" if name not in (UPDATE, CONTROL) else name] = values
    return int(counts[0]), sent


def client_app(work_of: Callable[[Any], LocalWork], mods: list[Any] | None = None) -> Any:
    """The clients of a `strategy`: a ``flwr.clientapp.ClientApp``.

    Parameters
    ----------
    work_of : callable(context) -> LocalWork
        The data and the local solver of the client whose Flower context this is; in a simulation
        ``context.node_config["partition-id"]`` is its number. It is called once a round, so keep what takes long to make.
    mods : Flower's mods, as ``ClientApp`` takes them

    Returns
    -------
    flwr.clientapp.ClientApp
        It keeps a client's c_k or h_k in Flower's own state of that client (``context.state``).

    Raises
    ------
    InvalidInput
        ``work_of`` is no function.
    MissingCapability
        ``flwr`` cannot be imported.
    """
    if not callable(work_of):
        raise InvalidInput(f"work_of = {work_of!r}: give a function of the client's context that returns a LocalWork")
    needed_package("flwr.clientapp", EXTRA)
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Any, context: Any) -> Any:
        content = message.content
        if TOLD not in content:
            raise InvalidInput(
                "the message does not say which method it is of: use it with fedtheory.integrations.flower.strategy"
            )
        told = content[TOLD]
        key = told["model-key"]
        x, layout = flat(content[key], "the server's model")
        control = flat(content[CONTROL], "c")[0] if CONTROL in content else None
        place = f"fedtheory-{told['method']}"
        kept = context.state[place]["kept"].numpy() if place in context.state else None
        work = work_of(context)
        if not isinstance(work, LocalWork):
            raise InvalidInput(f"work_of(context) gave {type(work).__name__}: it must give a LocalWork")
        sent, after = client_round(told, x, control, kept, work, int(told["round"]))
        if after is not None:
            context.state[place] = ArrayRecord({"kept": Array(after)})
        answer = RecordDict({METRICS: MetricRecord({"num-examples": work.num_examples})})
        for name, values in sent.items():
            answer[key if name == "model" else name] = record_of(values, layout)
        return Message(content=answer, reply_to=message)

    return app
