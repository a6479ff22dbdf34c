"""Someone's torch module and loop, as `fedtheory.testing.check_algorithm` takes them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.integrations.settings import needed_package, of_these, taking

__all__ = ["EXTRA", "TorchClient", "linear_model", "torch_clients", "torch_loop"]

EXTRA = "fedtheory[torch]"


@dataclass
class TorchClient:
    """One client's data as torch tensors, and its loss.

    Attributes
    ----------
    number : which client it is, from 0
    features, labels : (n, d) and (n,) float64 tensors
    criterion : callable(predictions, labels) -> scalar tensor
        Half a mean squared error, or the mean logistic loss of labels -1 and 1; without the ridge.
    ridge : the loss has ridge/2 ||w||^2 besides: an optimizer's weight_decay
    kept : dict that this client, and no other, has in all rounds of a run; empty before the first
    """

    number: int
    features: Any
    labels: Any
    criterion: Callable[[Any, Any], Any]
    ridge: float
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def num_examples(self) -> int:
        """n, which is the client's weight where examples count."""
        return len(self.labels)

    def loss(self, model: Any, rows: Any = slice(None)) -> Any:
        """The client's whole loss of a module, with the ridge: a scalar tensor for ``backward``.

        ``rows``: the examples it is taken over, by their numbers; without it all.
        """
        predictions = model(self.features[rows]).reshape(-1)
        loss = self.criterion(predictions, self.labels[rows])
        if self.ridge:
            loss = loss + self.ridge / 2 * sum((p**2).sum() for p in model.parameters())
        return loss


def criterion_of(loss: str) -> Callable[[Any, Any], Any]:
    """'squared' or 'logistic' as a function of predictions and labels."""
    from torch.nn.functional import softplus

    if loss == "squared":
        return lambda predictions, labels: 0.5 * ((predictions - labels) ** 2).mean()
    return lambda predictions, labels: softplus(-labels * predictions).mean()


def linear_model(dim: int) -> Any:
    """A linear predictor of ``dim`` features whose coefficients are two parameters, so that what is
    done layer by layer shows."""
    import torch

    class Linear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Parameter(torch.zeros((dim + 1) // 2, dtype=torch.float64))
            self.tail = torch.nn.Parameter(torch.zeros(dim // 2, dtype=torch.float64))

        def forward(self, features: Any) -> Any:
            return features @ torch.cat([self.head, self.tail])

    return Linear()


def flat_parameters(model: Any) -> np.ndarray:
    """A module's parameters laid end to end: (d,), in the type they have."""
    return np.concatenate([p.detach().cpu().numpy().ravel() for p in model.parameters()])


def set_parameters(model: Any, values: np.ndarray) -> None:
    """Write (d,) into a module's parameters, one after another."""
    import torch

    at = 0
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.as_tensor(values[at : at + p.numel()].reshape(tuple(p.shape))))
            at += p.numel()


def clients_in_torch(clients: Sequence[Any], dtype: Any = None) -> list[TorchClient]:
    """The audit's clients with tensors of their own."""
    import torch

    return [
        TorchClient(
            k, torch.tensor(c.features, dtype=dtype), torch.tensor(c.labels, dtype=dtype), criterion_of(c.loss), c.ridge
        )
        for k, c in enumerate(clients)
    ]


def _begun(model: Callable[[int], Any], start: np.ndarray, clients: Sequence[TorchClient]) -> Any:
    """A module at the first server model; `InvalidInput` where it is no linear predictor with these coefficients."""
    import torch

    made = model(len(start))
    count = sum(p.numel() for p in made.parameters())
    if count != len(start):
        raise InvalidInput(
            f"model({len(start)}) has {count} parameters: it must have one coefficient a feature, and no bias"
        )
    set_parameters(made, start)
    if len(start):
        features = clients[0].features.to(next(made.parameters()).dtype)
        with torch.no_grad():
            said = made(features).reshape(-1).double().cpu().numpy()
        off = float(np.abs(said - clients[0].features.numpy() @ start).max())
        if not off <= 1e-4 * (1 + float(np.abs(said).max())):
            raise InvalidInput(
                f"model({len(start)}) is not the linear predictor of its parameters laid end to "
                f"end (off by {off:.3g}): the audit's optima are those of linear models"
            )
    return made


def torch_loop(loop: Callable[..., Any], model: Callable[[int], Any] = linear_model) -> Callable[..., Any]:
    """A whole federated training loop in torch as an adapter of the audit.

    Parameters
    ----------
    loop : callable(model, clients, cohorts, **settings)
        Trains ``model`` in place, and says after every round that it is done: it is a generator
        that yields (anything) once a round. Or it yields nothing and returns; then only the last
        model is looked at, and less is found. ``clients`` is a list of `TorchClient`, ``cohorts``
        has for each round the numbers of the clients that take part. It is handed those settings
        that it has parameters for: learning_rate, local_steps, mu, alpha, server_lr, ...
    model : callable(dim) -> torch.nn.Module
        A linear predictor without bias, with ``dim`` coefficients; the one given by default has two
        parameters, in float64.

    Returns
    -------
    callable
        ``run(start, clients, cohorts, **settings)`` for `fedtheory.testing.check_algorithm`.

    Examples
    --------
    >>> def averaging(model, clients, cohorts, learning_rate, local_steps):
    ...     import copy, torch
    ...     for cohort in cohorts:
    ...         total = sum(clients[k].num_examples for k in cohort)
    ...         mean = [torch.zeros_like(p) for p in model.parameters()]
    ...         for k in cohort:
    ...             mine = copy.deepcopy(model)
    ...             optimizer = torch.optim.SGD(mine.parameters(), lr=learning_rate)
    ...             for _ in range(local_steps):
    ...                 optimizer.zero_grad()
    ...                 clients[k].loss(mine).backward()
    ...                 optimizer.step()
    ...             for m, p in zip(mean, mine.parameters()):
    ...                 m += clients[k].num_examples / total * p.detach()
    ...         for p, m in zip(model.parameters(), mean):
    ...             p.data.copy_(m)
    ...         yield
    >>> from fedtheory.testing import check_algorithm
    >>> check_algorithm(torch_loop(averaging), "fedavg").passed
    True
    """

    def run(start: np.ndarray, clients: Sequence[Any], cohorts: list[list[int]], **settings: Any) -> Any:
        needed_package("torch", EXTRA)
        mine = clients_in_torch(clients)
        made = _begun(model, start, mine)
        after = loop(made, mine, cohorts, **of_these(loop, settings, 3, "loop"))
        if not hasattr(after, "__next__"):
            return flat_parameters(made)
        models = [flat_parameters(made) for _ in after]
        if len(models) != len(cohorts):
            raise InvalidInput(
                f"the loop yielded {len(models)} times in {len(cohorts)} rounds: once at the end of every round, please"
            )
        return np.array(models)

    return taking(run, (loop, 3, "loop"))


def torch_clients(
    train_client: Callable[..., Any], aggregate: Callable[[list[Any], list[int]], Any],
    model: Callable[[int], Any] = linear_model,
) -> Callable[..., Any]:
    """A client's training and the server's mean, two functions in torch, as an adapter of the
    audit.

    Parameters
    ----------
    train_client : callable(model, client, **settings)
        Trains the module that it is handed, a copy of the server's, on one `TorchClient`. It gives
        a state_dict, or nothing: then it is the module's.
    aggregate : callable(states, num_examples)
        The server's new state_dict from the cohort's, and the numbers of examples of each.
    model : as in `torch_loop`

    Returns
    -------
    callable
        ``run(start, clients, cohorts, **settings)`` for `fedtheory.testing.check_algorithm`. A
        local_steps that is a list is handed to ``train_client`` as that client's number.

    Examples
    --------
    >>> def train(model, client, learning_rate, local_steps, mu):
    ...     import copy, torch
    ...     server = copy.deepcopy(model)
    ...     optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    ...     for _ in range(local_steps):
    ...         optimizer.zero_grad()
    ...         loss = client.loss(model)
    ...         for w, w0 in zip(model.parameters(), server.parameters()):
    ...             loss = loss + mu / 2 * ((w - w0.detach()) ** 2).sum()
    ...         loss.backward()
    ...         optimizer.step()
    >>> def mean(states, num_examples):
    ...     return {name: sum(n * s[name] for n, s in zip(num_examples, states)) / sum(num_examples) for name in states[0]}
    >>> from fedtheory.testing import check_algorithm
    >>> check_algorithm(torch_clients(train, mean), "fedprox").passed
    True
    """

    def run(start: np.ndarray, clients: Sequence[Any], cohorts: list[list[int]], **settings: Any) -> Any:
        needed_package("torch", EXTRA)
        mine, models = clients_in_torch(clients), []
        server = _begun(model, start, mine)
        given = of_these(train_client, settings, 2, "train_client")
        steps = given.get("local_steps")
        for cohort in cohorts:
            states = []
            for k in cohort:
                local = copy.deepcopy(server)
                own = {**given, "local_steps": steps[k]} if isinstance(steps, list | tuple) else given
                state = train_client(local, mine[k], **own)
                states.append(copy.deepcopy(_state(state, local)))
            _load(server, aggregate(states, [mine[k].num_examples for k in cohort]))
            models.append(flat_parameters(server))
        return np.array(models)

    if not callable(aggregate):
        raise InvalidInput(
            f"aggregate = {aggregate!r}: give a function of the clients' state_dicts and their numbers of examples"
        )
    return taking(run, (train_client, 2, "train_client"))


def _state(state: Any, module: Any) -> Any:
    if state is None:
        return module.state_dict()
    return state.state_dict() if hasattr(state, "state_dict") else state


def _load(server: Any, state: Any) -> None:
    if not isinstance(state, dict):
        said = "None (a return is missing)" if state is None else f"a {type(state).__name__}"
        raise InvalidInput(f"aggregate gave {said}: it must give the server's new state_dict")
    server.load_state_dict(state)
