"""SCAFFOLD in Flower: its strategy and its clients, on a torch network, in Flower's own simulation.

pip install 'fedtheory[flower,torch]' 'flwr[simulation]'
python examples/flower_scaffold.py
"""

import numpy as np
import torch
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from fedtheory.algorithms import Scaffold
from fedtheory.integrations.flower import client_app, strategy, torch_work

CLIENTS, ROUNDS = 4, 5


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def data_of(number):
    generator = torch.Generator().manual_seed(number)
    features = torch.randn(20 + 5 * number, 3, generator=generator)
    return features, torch.sin(features.sum(dim=1) + number)


def work(context):
    features, labels = data_of(context.node_config["partition-id"])

    def loss(module):
        return torch.nn.functional.mse_loss(module(features).squeeze(1), labels)

    return torch_work(network(), loss, len(labels), learning_rate=0.1, steps=5)


server = ServerApp()
clients = client_app(work)


@server.main()
def main(grid, context):
    method = strategy(
        Scaffold(), num_clients=CLIENTS, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS
    )
    result = method.start(grid, ArrayRecord(network().state_dict()), num_rounds=ROUNDS)
    print(sum(np.sum(a**2) for a in result.arrays.to_numpy_ndarrays()) ** 0.5)


if __name__ == "__main__":
    run_simulation(
        server, clients, num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1}},
    )
