"""Flower's own simulation engine, on ray or with its workers in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from fedtheory.integrations.settings import needed_package

__all__ = ["in_engine"]

CONNECTS = 120.0  # seconds in which all clients of a simulation must be there
NUMBER = "query.fedtheory_number"


def in_engine(play: Callable[[Any, dict[int, int]], Any], app: Any, many: int, ray: bool) -> Any:
    """Return what ``play(grid, nodes)`` gives inside ``flwr.simulation.run_simulation``.

    nodes : a client's number -> its node's

    Raises
    ------
    MissingCapability
        ray is asked for and cannot be imported.
    """
    from flwr.app import Message, RecordDict
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    if ray:
        needed_package("ray", "flwr[simulation]")
    server, given, failed = ServerApp(), [], []

    @server.main()
    def main(grid: Any, context: Any) -> None:
        try:
            deadline = time.monotonic() + CONNECTS
            while len(list(grid.get_node_ids())) < many and time.monotonic() < deadline:
                time.sleep(0.05)
            asked = [
                Message(content=RecordDict(), message_type=NUMBER, dst_node_id=node) for node in grid.get_node_ids()
            ]
            nodes = {int(m.content["client"]["number"]): m.metadata.src_node_id for m in grid.send_and_receive(asked)}
            if sorted(nodes) != list(range(many)):
                raise RuntimeError(f"Flower's simulation has the clients {sorted(nodes)}, not 0 to {many - 1}")
            given.append(play(grid, nodes))
        except BaseException as error:  # it is raised again below, where the caller is
            failed.append(error)

    config: dict[str, Any] = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    name = "ray" if ray else "in-process"
    with ExitStack() as stack:
        if not ray:
            stack.enter_context(_without_ray())
        run_simulation(server, _numbered(app), num_supernodes=many, backend_name=name, backend_config=config)
    if failed:
        raise failed[0]
    return given[0]


def _numbered(app: Any) -> Any:
    """The app, which also says its client's number when asked."""
    from flwr.app import Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    class Numbered(ClientApp):
        def __call__(self, message: Any, context: Any) -> Any:
            if message.metadata.message_type != NUMBER:
                return app(message, context)
            number = MetricRecord({"number": int(context.node_config["partition-id"])})
            return Message(content=RecordDict({"client": number}), reply_to=message)

    return Numbered()


@contextmanager
def _without_ray() -> Iterator[None]:
    """Flower's engine with its workers in this process: it makes a RayBackend by that name, and is handed another class."""
    import sys
    import types
    from unittest import mock

    from flwr.server.superlink.fleet.vce import vce_api
    from flwr.server.superlink.fleet.vce.backend.backend import Backend

    class InProcess(Backend):
        num_workers = 1

        def build(self, app_fn: Any) -> None:
            self.app = app_fn()

        def is_worker_idle(self) -> bool:
            return True

        def terminate(self) -> None:
            pass

        def process_message(self, message: Any, context: Any) -> Any:
            return self.app(message, context), context

    known = getattr(vce_api, "supported_backends", None)
    if known is not None:  # versions that look the backend up by its name
        with mock.patch.dict(known, {"in-process": InProcess}):
            yield
        return
    name = "flwr.server.superlink.fleet.vce.backend.raybackend"
    stub = types.ModuleType(name)
    stub.RayBackend = InProcess  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, {name: stub}):
        yield
