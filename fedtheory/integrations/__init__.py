"""Other people's frameworks: their code as adapters of the audit, and this package's methods as
theirs.

    from fedtheory.integrations import flower_adapter, torch_loop
    from fedtheory.testing import check_algorithm

    check_algorithm(torch_loop(my_loop), "scaffold")
    check_algorithm(flower_adapter(MyStrategy, client=MyClient), "fedprox")

torch, Flower (``flwr``), pfl-research (``pfl``) and FedLab (``fedlab``) are imported when a run of
theirs is made, and none of them is needed by anything else.
"""

from typing import TYPE_CHECKING

from fedtheory.lazy import lazily

if TYPE_CHECKING:
    from fedtheory.integrations.fedlab_handlers import fedlab_adapter
    from fedtheory.integrations.flower import flower_adapter
    from fedtheory.integrations.pfl_algorithms import pfl_adapter
    from fedtheory.integrations.torch_loops import TorchClient, torch_clients, torch_loop

__all__ = ["TorchClient", "fedlab_adapter", "flower_adapter", "pfl_adapter", "torch_clients", "torch_loop"]

__getattr__, __dir__ = lazily(__name__)
