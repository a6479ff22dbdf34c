"""A FedProx in torch, a client's training and the server's mean, held to the method.

python examples/audit_torch.py
fedtheory audit examples/audit_torch.py:fedprox --as fedprox
"""

import torch

from fedtheory.integrations import torch_clients
from fedtheory.testing import check_algorithm


def train_client(model, client, learning_rate, local_steps, mu):
    server = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    for _ in range(local_steps):
        optimizer.zero_grad()
        loss = client.loss(model)
        for w, w0 in zip(model.parameters(), server):
            loss = loss + mu / 2 * ((w - w0) ** 2).sum()
        loss.backward()
        optimizer.step()


def aggregate(states, num_examples):
    total = sum(num_examples)
    return {
        name: sum(n / total * s[name] for n, s in zip(num_examples, states)) for name in states[0]
    }


fedprox = torch_clients(train_client, aggregate)

if __name__ == "__main__":
    print(check_algorithm(fedprox, "fedprox"))
