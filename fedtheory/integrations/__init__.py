"""Other people's frameworks: their code as adapters of the audit, and this package's methods as
theirs.

    from fedtheory.integrations import flower_adapter, torch_loop
    from fedtheory.testing import check_algorithm

    check_algorithm(torch_loop(my_loop), "scaffold")
    check_algorithm(flower_adapter(MyStrategy, client=MyClient), "fedprox")

torch, Flower (``flwr``), pfl-research (``pfl``) and FedLab (``fedlab``) are imported when a run of
theirs is made, and none of them is needed by anything else.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedtheory.integrations.fedlab_handlers import fedlab_adapter
    from fedtheory.integrations.flower import flower_adapter
    from fedtheory.integrations.pfl_algorithms import pfl_adapter
    from fedtheory.integrations.torch_loops import TorchClient, torch_clients, torch_loop

__all__ = ["TorchClient", "fedlab_adapter", "flower_adapter", "pfl_adapter", "torch_clients", "torch_loop"]

_PLACES = {
    "TorchClient": "torch_loops",
    "torch_clients": "torch_loops",
    "torch_loop": "torch_loops",
    "fedlab_adapter": "fedlab_handlers",
    "flower_adapter": "flower",
    "pfl_adapter": "pfl_algorithms",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        import importlib

        return getattr(importlib.import_module(f"fedtheory.integrations.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
