"""Flower's FedProx with a client's code, held to the method: pip install 'fedtheory[flower]'

python examples/audit_flower.py
fedtheory audit examples/audit_flower.py:fedprox --as fedprox
"""

from flwr.client import NumPyClient
from flwr.server.strategy import FedProx

from fedtheory.integrations import flower_adapter
from fedtheory.testing import check_algorithm


def client(data, learning_rate, local_steps):
    class Client(NumPyClient):
        def fit(self, parameters, config):
            x, y = parameters[0], parameters[0].copy()
            for _ in range(local_steps):
                y = y - learning_rate * (data.gradient(y) + config["proximal_mu"] * (y - x))
            return [y], data.num_examples, {}

    return Client()


def strategy(mu):
    return FedProx(proximal_mu=mu)


fedprox = flower_adapter(strategy, client=client)

if __name__ == "__main__":
    print(check_algorithm(fedprox, "fedprox"))
