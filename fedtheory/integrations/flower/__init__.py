"""Flower: this package's methods as strategies, and strategies with their client code as adapters of the audit.

    from fedtheory.algorithms import Scaffold
    from fedtheory.integrations.flower import client_app, local_work, strategy
    from fedtheory.local import GradientSteps

    server = strategy(Scaffold(), num_clients=10)                     # a flwr.serverapp.strategy.Strategy
    app = client_app(lambda context: local_work(problem, context.node_config["partition-id"], GradientSteps(5, 0.1)))
    models = drive(server, app, start, [range(10)] * 50)              # or flwr.simulation.run_simulation

``flwr`` is imported by the functions here, not by this module: ``pip install 'fedtheory[flower]'``.
"""

from fedtheory.integrations.flower.adapter import flower_adapter
from fedtheory.integrations.flower.driving import drive
from fedtheory.integrations.flower.methods import client_app, strategy
from fedtheory.integrations.flower.rules import LocalWork, local_work
from fedtheory.integrations.flower.torch_work import torch_work

__all__ = ["LocalWork", "client_app", "drive", "flower_adapter", "local_work", "strategy", "torch_work"]
