"""Running a Flower strategy round by round: in this process without an engine, or in Flower's own simulation."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_array
from fedtheory.integrations.flower.engine import in_engine
from fedtheory.integrations.settings import needed_package

__all__ = ["ENGINES", "Engine", "drive", "quiet"]

Engine = Literal["loop", "simulation", "simulation-in-process"]
ENGINES = ("loop", "simulation", "simulation-in-process")
WAITS = 4  # how often a strategy may look for clients in one round before it is said that it waits in vain


def drive(
    strategy: Any, app: Any, start: Any, cohorts: Sequence[Sequence[int]],
    num_clients: int | None = None, engine: Engine = "loop",
    arrays: Sequence[tuple[str, tuple[int, ...]]] | None = None,
    model: Callable[[list[np.ndarray]], Any] | None = None,
) -> list[np.ndarray]:
    """Run a strategy with the clients of an app, in each round with the cohort that is given.

    Parameters
    ----------
    strategy : a Strategy of ``flwr.serverapp.strategy`` (messages) or of ``flwr.server.strategy``
        (the older kind). Where it has the attributes fraction_train or fraction_fit, and minima of
        clients, they are set so that it takes all that it is offered; evaluation is switched off.
    app : flwr.clientapp.ClientApp
        It finds a client's number in ``context.node_config["partition-id"]``.
    start : (d,) the first server model
    cohorts : for each round the numbers of the clients that are offered
    num_clients : int; without it one more than the largest number in the cohorts
    engine : 'loop', 'simulation' or 'simulation-in-process'
        'loop' calls the app directly, in a fraction of a second. 'simulation' is Flower's own
        engine on ray (``pip install 'flwr[simulation]'``, some 15 seconds a run),
        'simulation-in-process' the same engine with its ray workers replaced by calls in this
        process, which needs no ray.
    arrays : name and shape of each array of the model, in the order in which ``start`` holds them;
        without it one array
    model : callable(list of the server's arrays) -> the model among them, for a strategy that sends
        something else along, such as a control variate; without it all of them

    Returns
    -------
    list of (d,) arrays, the server's model after each round

    Raises
    ------
    InvalidInput
        An unknown engine, a cohort without clients; a strategy that asks other clients than it is
        offered, or that waits for more.
    MissingCapability
        Flower, or ray for 'simulation', cannot be imported.
    """
    if engine not in ENGINES:
        raise InvalidInput(f"engine = {engine!r}: use one of {', '.join(repr(e) for e in ENGINES)}")
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    needed_package("flwr.serverapp.strategy", "fedtheory[flower]")
    rounds = [sorted({int(k) for k in cohort}) for cohort in cohorts]
    if not rounds or not all(rounds):
        raise InvalidInput(f"cohorts = {cohorts!r}: give at least one round, and at least one client in each")
    many = max(max(c) for c in rounds) + 1 if num_clients is None else num_clients
    if many <= max(max(c) for c in rounds) or min(min(c) for c in rounds) < 0:
        raise InvalidInput(f"cohorts = {cohorts!r}: clients are numbered from 0 to {many - 1}")
    parts = _parts(real_array("start", start), arrays)
    with quiet():
        if engine == "loop":
            with _identity():
                return _rounds(
                    strategy, _grid_class()(app, many), {k: k + 2 for k in range(many)}, parts, rounds, model
                )
        return in_engine(
            lambda grid, nodes: _rounds(strategy, grid, nodes, parts, rounds, model), app, many, engine == "simulation"
        )


def _parts(start: np.ndarray, arrays: Sequence[tuple[str, tuple[int, ...]]] | None) -> dict[str, np.ndarray]:
    shapes = [("0", start.shape)] if arrays is None else list(arrays)
    sizes = [int(np.prod(shape)) for _, shape in shapes]
    if start.ndim != 1 or sum(sizes) != len(start):
        raise InvalidInput(
            f"start has shape {start.shape}, and the arrays have {sum(sizes)} entries: it must be (d,) with as many"
        )
    ends = np.cumsum(sizes)
    return {
        name: start[end - size : end].reshape(shape)
        for (name, shape), size, end in zip(shapes, sizes, ends, strict=True)
    }


def _together(arrays: list[np.ndarray], model: Callable[[list[np.ndarray]], Any] | None) -> np.ndarray:
    """The model's arrays laid end to end."""
    found = arrays if model is None else model(arrays)
    return np.concatenate([np.ravel(a) for a in (found if isinstance(found, list | tuple) else [found])])


def _take_all(strategy: Any) -> None:
    """Make a strategy take all that it is offered, and evaluate nothing."""
    everyone = {
        "fraction_train": 1.0, "fraction_fit": 1.0, "fraction_evaluate": 0.0, "min_train_nodes": 1,
        "min_fit_clients": 1, "min_available_nodes": 1, "min_available_clients": 1,
        "min_evaluate_nodes": 0, "min_evaluate_clients": 0,
    }
    for name, value in everyone.items():
        if hasattr(strategy, name):
            setattr(strategy, name, value)


def _rounds(
    strategy: Any, grid: Any, nodes: dict[int, int], parts: dict[str, np.ndarray], cohorts: list[list[int]], model: Any
) -> list[np.ndarray]:
    """All rounds on a grid; ``nodes``: a client's number -> its node's."""
    from flwr.serverapp.strategy import Strategy

    _take_all(strategy)
    offered = _offering_class()(grid, [[nodes[k] for k in cohort] for cohort in cohorts])
    if not isinstance(strategy, Strategy):
        return _classic_rounds(strategy, offered, parts, model)
    from flwr.app import Array, ArrayRecord

    models: list[np.ndarray] = []

    def after(number: int, arrays: Any) -> None:
        if number:
            offered.check_asked()
            models.append(_together(arrays.to_numpy_ndarrays(), model))
        offered.now = number

    first = ArrayRecord({name: Array(np.array(value)) for name, value in parts.items()})
    strategy.start(offered, first, num_rounds=len(cohorts), evaluate_fn=after)
    return models


def _classic_rounds(strategy: Any, offered: Any, parts: dict[str, np.ndarray], model: Any) -> list[np.ndarray]:
    from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server.client_manager import SimpleClientManager
    from flwr.server.compat.grid_client_proxy import GridClientProxy
    from flwr.server.strategy import Strategy

    if not isinstance(strategy, Strategy):
        raise InvalidInput(
            f"strategy = {strategy!r}: it is none of Flower's, neither flwr.serverapp.strategy nor flwr.server.strategy"
        )

    class Offered(SimpleClientManager):
        def wait_for(self, num_clients: int, timeout: int = 86400) -> bool:
            if len(self) < num_clients:
                raise InvalidInput(_waits(len(self), num_clients))
            return True

    models: list[np.ndarray] = []
    parameters = ndarrays_to_parameters(list(parts.values()))
    for number, nodes in enumerate(offered.cohorts):
        offered.now, manager = number, Offered()
        for node in nodes:
            manager.register(GridClientProxy(node, offered, 1))
        if number == 0:
            own = strategy.initialize_parameters(manager)
            parameters = parameters if own is None else own
        asked = strategy.configure_fit(number + 1, parameters, manager)
        results = [(proxy, proxy.fit(order, None, number + 1)) for proxy, order in asked]
        offered.check_asked()
        parameters = strategy.aggregate_fit(number + 1, results, [])[0] or parameters
        models.append(_together(parameters_to_ndarrays(parameters), model))
    return models


def _waits(there: int, wanted: int | str) -> str:
    return f"the strategy waits for {wanted} clients, and {there} are offered: let it take as few as there are (min_available_nodes)"


@lru_cache(maxsize=1)
def _base_class() -> type:
    from flwr.serverapp import Grid

    class Base(Grid):
        """A grid with the methods that it must have, and nobody here calls."""

        run: Any = property(lambda self: None)

        def set_run(self, run: Any) -> None:
            pass

        def create_message(self, *args: Any, **options: Any) -> Any:
            raise InvalidInput("Grid.create_message is not there: make a flwr.app.Message")

        def push_messages(self, messages: Iterable[Any]) -> Any:
            raise InvalidInput("Grid.push_messages is not there: use send_and_receive")

        pull_messages = push_messages

    return Base


@lru_cache(maxsize=1)
def _grid_class() -> type:
    from flwr.app import Context, RecordDict

    class DirectGrid(_base_class()):  # type: ignore[misc]
        """Calls the app where it stands; keeps every client's state. The node of client k is k + 2 (1 is the server's)."""

        def __init__(self, app: Any, many: int) -> None:
            self.app, self._sent = app, 0
            self.contexts = {
                k + 2: Context(run_id=1, node_id=k + 2, node_config={"partition-id": k, "num-partitions": many}, state=RecordDict(),
                               run_config={})
                for k in range(many)
            }  # fmt: skip

        def get_node_ids(self) -> list[int]:
            return list(self.contexts)

        def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
            replies = []
            for message in messages:
                self._sent += 1
                message.metadata._message_id = str(self._sent)  # the link gives one, and a reply must name it
                replies.append(self.app(message, self.contexts[message.metadata.dst_node_id]))
            return replies

    return DirectGrid


@lru_cache(maxsize=1)
def _offering_class() -> type:
    class OfferingGrid(_base_class()):  # type: ignore[misc]
        """A grid on which only the round's cohort is there."""

        def __init__(self, grid: Any, cohorts: list[list[int]]) -> None:
            self.grid, self.cohorts, self.now = grid, cohorts, 0
            self._asked: list[int] = []
            self._looked = 0

        def get_node_ids(self) -> list[int]:
            self._looked += 1
            if self._looked > WAITS:
                raise InvalidInput(_waits(len(self.cohorts[self.now]), "more"))
            return list(self.cohorts[self.now]) if self.now < len(self.cohorts) else []

        def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
            mine = [m for m in messages if not m.metadata.message_type.startswith("evaluate")]
            self._asked += [m.metadata.dst_node_id for m in mine]
            self._looked = 0
            replies = list(self.grid.send_and_receive(mine, timeout=timeout)) if mine else []
            for reply in replies:
                if reply.has_error():
                    raise RuntimeError(f"a client failed: {reply.error.reason}")
            return replies

        def check_asked(self) -> None:
            asked, self._asked = self._asked, []
            if sorted(set(asked)) != sorted(self.cohorts[self.now]):
                raise InvalidInput(
                    f"in round {self.now + 1} the strategy asked {len(set(asked))} of the {len(self.cohorts[self.now])} clients "
                    "that it was offered: let it take all of them (fraction_train or fraction_fit = 1), the cohorts are given"
                )

    return OfferingGrid


@contextmanager
def quiet() -> Iterator[None]:
    """Flower's log without what is no error."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _identity() -> Iterator[None]:
    """Give the process the numbers of a run, a node and a task. Newer versions of Flower ask for
    them before they make a message."""
    from unittest import mock

    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        yield
        return
    with mock.patch.multiple(TaskIdentity, create=True, _run_id=1, _node_id=1, _task_id=1):
        yield
