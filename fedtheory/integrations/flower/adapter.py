"""A Flower strategy with its client code, as `fedtheory.testing.check_algorithm` takes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.integrations.flower.driving import ENGINES, Engine, drive, quiet
from fedtheory.integrations.flower.methods import EXTRA
from fedtheory.integrations.settings import needed_package, of_these, taking

__all__ = ["flower_adapter"]


def flower_adapter(strategy: Callable[..., Any], *, client: Callable[..., Any] | None = None,
                   app: Callable[..., Any] | None = None, engine: Engine = "loop",
                   model: Callable[[list[np.ndarray]], Any] | None = None) -> Callable[..., Any]:
    """A Flower strategy and its clients as an adapter of the audit.

    Parameters
    ----------
    strategy : callable(**settings) -> Strategy
        Makes the strategy, of either of Flower's kinds, from the settings that it has parameters
        for: mu, server_lr, beta1, ...; and ``initial_parameters``, ``num_clients`` and
        ``num_examples`` (a list, one a client) where it has parameters of these names.
    client : callable(data, **settings) -> flwr.client.NumPyClient or Client
        One client's code, for a strategy of ``flwr.server.strategy``; ``data`` has features,
        labels, num_examples and gradient(x), as in the audit. As Flower does, it is made anew for
        every round: what it keeps belongs into Flower's ``context``, which it is handed where it
        has a parameter of that name. Or else
    app : callable(clients, **settings) -> flwr.clientapp.ClientApp
        All clients' code; ``context.node_config["partition-id"]`` is a client's number.
    engine, model : as `drive` takes them

    Returns
    -------
    callable
        ``run(start, clients, cohorts, **settings)`` for `fedtheory.testing.check_algorithm`, with
        the settings that the two take. The model is one array; a local_steps that is a list is
        handed to ``client`` as that client's number.

    Raises
    ------
    InvalidInput
        Not exactly one of client and app; an unknown engine.
    """
    if (client is None) == (app is None):
        raise InvalidInput("give one of client= (a function of one client's data) and app= (a function of all clients)")
    if engine not in ENGINES:
        raise InvalidInput(f"engine = {engine!r}: use one of {', '.join(repr(e) for e in ENGINES)}")
    code, what = (client, "client") if client is not None else (app, "app")
    assert code is not None

    def run(start: np.ndarray, clients: Sequence[Any], cohorts: list[list[int]], **settings: Any) -> list[np.ndarray]:
        needed_package("flwr", EXTRA)
        from flwr.common import ndarrays_to_parameters

        mine = {**settings, "initial_parameters": ndarrays_to_parameters([start.copy()]),
                "num_clients": len(clients), "num_examples": [c.num_examples for c in clients]}
        with quiet():
            made = strategy(**of_these(strategy, mine, 0, "strategy"))
        _check_kinds(made, client is not None)
        if app is not None:
            clients_app = app(clients, **of_these(app, settings, 1, "app"))
        else:
            clients_app = _app_of(code, clients, of_these(code, settings, 1, "client"))
        return drive(made, clients_app, start, cohorts, len(clients), engine, model=model)

    known = ("initial_parameters", "num_clients", "num_examples", "context")
    return taking(run, (strategy, 0, "strategy"), (code, 1, what), hidden=known)


def _check_kinds(strategy: Any, numpy_clients: bool) -> None:
    """Raise `InvalidInput` where a strategy that sends messages meets clients that know the older interface only."""
    from flwr.serverapp.strategy import Strategy

    if isinstance(strategy, Strategy) and numpy_clients:
        raise InvalidInput(
            f"{type(strategy).__name__} is of flwr.serverapp.strategy, and sends messages that a NumPyClient cannot read: give app=, a "
            "function that makes a ClientApp with @app.train(), or take the strategy of flwr.server.strategy"
        )


def _app_of(make: Callable[..., Any], clients: Sequence[Any], settings: dict[str, Any]) -> Any:
    from flwr.clientapp import ClientApp

    def client_fn(context: Any) -> Any:
        k, steps = int(context.node_config["partition-id"]), settings.get("local_steps")
        own = {**settings, "local_steps": steps[k]} if isinstance(steps, list | tuple) else settings
        found = make(clients[k], **of_these(make, {**own, "context": context}, 1, "client"))
        return found.to_client() if hasattr(found, "to_client") else found

    return ClientApp(client_fn=client_fn)
