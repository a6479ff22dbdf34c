"""FedProx and FedDyn in torch, where the penalty is there to read and has no gradient, for five different reasons."""

import copy

import numpy as np
import torch

__all__ = ["fedlab", "fedlab_280", "fl_bench_165", "flower_1654", "openfl_823"]


def model_at(x):
    """A linear model with these weights, in float64."""
    model = torch.nn.Linear(len(x), 1, bias=False, dtype=torch.float64)
    model.weight.data = torch.tensor(x)[None, :]
    return model


def loss_of(client, model):
    """The client's mean loss."""
    margin, b = model(torch.as_tensor(client.features)).squeeze(1), torch.as_tensor(client.labels)
    if client.loss == "squared":
        return ((margin - b) ** 2).mean() / 2
    return torch.nn.functional.softplus(-b * margin).mean() + client.ridge / 2 * model.weight.square().sum()


@torch.no_grad()
def step(model, learning_rate):
    """A gradient step."""
    for w in model.parameters():
        w -= learning_rate * w.grad


def mean_of(models, clients, cohort):
    """The models' mean by numbers of examples, as a flat array."""
    flat = [model.weight.detach().numpy().ravel() for model in models]
    return np.average(flat, axis=0, weights=[clients[k].num_examples for k in cohort])


def fedlab_280(state, clients, cohort, learning_rate, local_steps, mu):
    """The right loss is worked out, and overwritten by the one without the penalty on the next line.

    https://github.com/SMILELab-FL/FedLab/issues/280
    """
    models = []
    for k in cohort:
        model, frozen = model_at(state["x"]), model_at(state["x"])
        for _ in range(local_steps):
            penalty = sum((w - w0.detach()).square().sum() for w, w0 in zip(model.parameters(), frozen.parameters()))
            loss = loss_of(clients[k], model) + mu / 2 * penalty
            loss = loss_of(clients[k], model)  # right: pass
            model.zero_grad()
            loss.backward()
            step(model, learning_rate)
        models.append(model)
    return {"x": mean_of(models, clients, cohort)}


def fl_bench_165(state, clients, cohort, learning_rate, local_steps, mu):
    """The list of the global parameters holds the tensors that are trained, so that each is compared with itself.

    https://github.com/KarhouTam/FL-bench/issues/165
    """
    models = []
    for k in cohort:
        model = model_at(state["x"])
        received = list(model.parameters())  # right: received = [w.detach().clone() for w in model.parameters()]
        for _ in range(local_steps):
            model.zero_grad()
            loss_of(clients[k], model).backward()
            for w, w0 in zip(model.parameters(), received):
                w.grad += mu * (w.detach() - w0.detach())
            step(model, learning_rate)
        models.append(model)
    return {"x": mean_of(models, clients, cohort)}


def flower_1654(state, clients, cohort, learning_rate, local_steps, mu):
    """The global parameters are a generator: the first step uses it up, where w is w0, and every later sum is empty.

    https://github.com/adap/flower/pull/1654
    """
    models = []
    for k in cohort:
        model = model_at(state["x"])
        received = copy.deepcopy(model).parameters()  # right: received = list(copy.deepcopy(model).parameters())
        for _ in range(local_steps):
            loss = loss_of(clients[k], model)
            for w, w0 in zip(model.parameters(), received):
                loss = loss + mu / 2 * (w - w0.detach()).square().sum()
            model.zero_grad()
            loss.backward()
            step(model, learning_rate)
        models.append(model)
    return {"x": mean_of(models, clients, cohort)}


class ProximalSGD:
    """An optimiser: gradient steps with the penalty's gradient mu (w - w_old) added. It is right."""

    def __init__(self, parameters, lr, mu):
        self.parameters, self.lr, self.mu = list(parameters), lr, mu

    def set_old_weights(self, weights):
        self.old = weights

    @torch.no_grad()
    def step(self):
        for w, old in zip(self.parameters, self.old):
            w -= self.lr * (w.grad + self.mu * (w - old))


def openfl_823(state, clients, cohort, learning_rate, local_steps, mu):
    """The optimiser is right; the tutorial hands it the tensors that are trained as the old weights.

    https://github.com/securefederatedai/openfl/issues/823
    """
    models = []
    for k in cohort:
        model = model_at(state["x"])
        optimiser = ProximalSGD(model.parameters(), learning_rate, mu)
        old = [w for w in model.parameters()]  # right: old = [w.detach().clone() for w in model.parameters()]
        optimiser.set_old_weights(old)
        for _ in range(local_steps):
            model.zero_grad()
            loss_of(clients[k], model).backward()
            optimiser.step()
        models.append(model)
    return {"x": mean_of(models, clients, cohort)}


def fedlab(state, clients, cohort, learning_rate, local_steps, alpha):
    """Penalty and linear term are made of a flat copy of the parameters without a graph; h is the one of `feddyn.fedlab_319`.

    https://github.com/SMILELab-FL/FedLab
    """
    x, h, h_k, models = state["x"], state["h"], state["h_k"].copy(), []
    for k in cohort:
        model, x0, linear = model_at(x), torch.as_tensor(x), torch.as_tensor(h_k[k])
        for _ in range(local_steps):
            flat = model.weight.data.ravel()  # right: flat = model.weight.ravel()
            loss = loss_of(clients[k], model) - linear @ flat + alpha / 2 * (flat - x0).square().sum()
            model.zero_grad()
            loss.backward()
            step(model, learning_rate)
        models.append(model.weight.detach().numpy().ravel())
        h_k[k] = h_k[k] - alpha * (models[-1] - x)
    total = np.sum(models, axis=0) - x  # right: total = np.sum([y - x for y in models], axis=0)
    h = h - alpha / len(clients) * total
    return {"x": np.mean(models, axis=0) - h / alpha, "h": h, "h_k": h_k}
