"""Audits of `real_packages`: federated methods of flwr, pfl and fedlab; this package's in Flower.

Nothing is taken over from these packages: their own classes are imported and run. The client's part
is written here where a package leaves it to its users.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from fedtheory.integrations import fedlab_adapter, flower_adapter, pfl_adapter

__all__ = ["NEEDS_TORCH", "PACKAGES", "Case", "has"]

ADAM = (
    "Reddi et al. print no correction of the first rounds; Kingma and Ba's has the exponent t in round t = 1, 2, "
    "... Here the step is as with the exponent t + 1. The factor tends to 1, so that late rounds differ little."
)
USED_UP = (
    "The example's `copy.deepcopy(net).parameters()` is a generator. The first step's sum uses it up, where the "
    "model is the server's and the penalty has no gradient; later sums are over nothing. With a list in its place "
    "see the row below."
)
NORM = (
    "The formula above the example has the norm squared, the example sums `norm(2)` itself: the pull is of one "
    "size however far the model is, instead of growing with the distance."
)
SIGN = (
    "A model's difference is taken as y - x there, and the control variate is made of it with a plus sign, where "
    "the paper has x - y. With c and c_k exchanged in the local step, and nothing else changed, all checks pass."
)
SHARED = (
    "Besides the sign: InMemoryUserStateStorage keeps what it is handed, not a copy, and option I hands it the "
    "arrays that the next model difference is written into. With a storage that copies, the sign alone gives all "
    "numbers."
)
PLAIN = "Asked for weighting = uniform, a plain mean of the cohort's models, all checks pass."
DYN = "Two lines differ. Neither of them alone gives these numbers; both together give all of them."


@dataclass
class Case:
    """One implementation, and what it is held to."""

    package: str
    what: str
    method: str
    adapter: Callable[..., Any]
    note: str = ""
    remark: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def gradient_client(data: Any, learning_rate: float, local_steps: int) -> Any:
    """The plainest Flower client: gradient steps, with the penalty that Flower's FedProx asks for
    by its mu."""
    from flwr.client import NumPyClient

    class Client(NumPyClient):
        def fit(self, parameters: Any, config: Any) -> Any:
            x, y, mu = parameters[0], parameters[0].copy(), config.get("proximal_mu", config.get("proximal-mu", 0.0))
            for _ in range(local_steps):
                y = y - learning_rate * (data.gradient(y) + mu * (y - x))
            return [y], data.num_examples, {}

    return Client()


def gradient_app(clients: Any, learning_rate: float, local_steps: Any) -> Any:
    """The same client for Flower's newer interface."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def train(message: Any, context: Any) -> Any:
        k = context.node_config["partition-id"]
        steps = local_steps[k] if isinstance(local_steps, list) else local_steps
        client = gradient_client(clients[k], learning_rate, steps)
        arrays, examples, _ = client.fit(message.content["arrays"].to_numpy_ndarrays(), dict(message.content["config"]))
        answer = RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": examples})})
        return Message(content=answer, reply_to=message)

    return app


def docstring_client(fixed: Callable[[Any], Any]) -> Callable[..., Any]:
    """A torch client whose loss is put together as the docstring of Flower's FedProx shows it:
    norms that are not squared.

    ``fixed`` gives what the docstring calls global_params, from the net before its training.
    """
    import torch
    from flwr.client import NumPyClient

    from fedtheory.integrations.torch_loops import clients_in_torch

    class Client(NumPyClient):
        def __init__(self, data: Any, learning_rate: float, local_steps: int) -> None:
            self.data, self.learning_rate, self.local_steps = data, learning_rate, local_steps

        def fit(self, parameters: Any, config: Any) -> Any:
            net = torch.nn.Linear(len(parameters[0]), 1, bias=False, dtype=torch.float64)
            net.weight.data[0] = torch.tensor(parameters[0])
            server = fixed(net)
            mine = clients_in_torch([self.data])[0]
            optimizer = torch.optim.SGD(net.parameters(), lr=self.learning_rate)
            for _ in range(self.local_steps):
                optimizer.zero_grad()
                norms = sum((local - fixed).norm(2) for local, fixed in zip(net.parameters(), server, strict=False))
                (mine.loss(net) + config["proximal_mu"] / 2 * norms).backward()
                optimizer.step()
            return [net.weight.detach().numpy()[0]], self.data.num_examples, {}

    def make(data: Any, learning_rate: float, local_steps: int) -> Any:
        return Client(data, learning_rate, local_steps)

    return make


def flower_cases() -> Iterator[Case]:
    import flwr.server.strategy as classic
    import flwr.serverapp.strategy as new

    rates = {"eta": "server_lr", "beta_1": "beta1", "beta_2": "beta2", "tau": "tau"}

    def adaptive(kind: Any, older: bool, keys: tuple[str, ...]) -> Any:
        def make(initial_parameters: Any, **settings: Any) -> Any:
            first = {"initial_parameters": initial_parameters} if older else {}
            return kind(**first, **{k: settings[rates[k]] for k in keys})

        return make

    def momentum(kind: Any, older: bool) -> Any:
        def make(initial_parameters: Any, server_lr: float, beta1: float) -> Any:
            first = {"initial_parameters": initial_parameters} if older else {}
            return kind(**first, server_learning_rate=server_lr, server_momentum=beta1)

        return make

    for older, place, code in ((False, new, {"app": gradient_app}), (True, classic, {"client": gradient_client})):
        api = "flwr.server.strategy" if older else "flwr.serverapp.strategy"
        yield Case("flwr", f"{api}.FedAvg", "fedavg", flower_adapter(lambda place=place: place.FedAvg(), **code))
        yield Case("flwr", f"{api}.FedProx", "fedprox", flower_adapter(lambda mu, place=place: place.FedProx(proximal_mu=mu), **code),
                   "the strategy sends mu; the client's penalty is written here, mu (y - x)")  # fmt: skip
        yield Case("flwr", f"{api}.FedAvgM", "fedavgm", flower_adapter(momentum(place.FedAvgM, older), **code))
        every = tuple(rates)
        for name, keys, built_in in (
            ("FedAdagrad", ("eta", "tau"), {"beta1": 0.0, "beta2": 0.0}),
            ("FedAdam", every, {}),
            ("FedYogi", every, {}),
        ):
            made = flower_adapter(_named(adaptive(getattr(place, name), older, keys), keys, rates), **code)
            note = "it takes no beta1: its momentum is 0" if built_in else ""
            yield Case("flwr", f"{api}.{name}", name.lower(), made, note, ADAM if name == "FedAdam" else "",
                       {"settings": built_in} if built_in else {})  # fmt: skip
    if has("torch"):
        what = "the client's loss in the docstring of flwr.server.strategy.FedProx"
        note = "documentation, no code of the package: its loss, put into a torch client here"
        shown = docstring_client(lambda net: copy.deepcopy(net).parameters())
        listed = docstring_client(lambda net: [p.detach().clone() for p in net.parameters()])
        yield Case(
            "flwr",
            what,
            "fedprox",
            flower_adapter(lambda mu: classic.FedProx(proximal_mu=mu), client=shown),
            note,
            USED_UP,
        )
        yield Case(
            "flwr", what, "fedprox", flower_adapter(lambda mu: classic.FedProx(proximal_mu=mu), client=listed),
            f"{note}, and global_params a list", NORM,
        )  # fmt: skip


def _named(make: Any, keys: tuple[str, ...], rates: dict[str, str]) -> Any:
    """The same function with a parameter for each setting, which is how an adapter says what it
    takes."""
    import inspect

    names = ["initial_parameters", *(rates[k] for k in keys)]
    make.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in names])
    return make


def our_cases() -> Iterator[Case]:
    from fedtheory.algorithms import (
        FedAvg,
        FedDyn,
        FedElasticNetDyn,
        FedElasticNetProx,
        FedElasticNetScaffold,
        FedProx,
        Scaffold,
    )
    from fedtheory.integrations.flower import client_app, local_work, strategy
    from fedtheory.local import GradientSteps
    from fedtheory.problems import LeastSquares, Logistic

    def app(clients: Any, learning_rate: float, local_steps: Any) -> Any:
        kind = LeastSquares if clients[0].loss == "squared" else Logistic
        problem = kind([c.features for c in clients], [c.labels for c in clients], ridge=clients[0].ridge)

        def work(context: Any) -> Any:
            k = context.node_config["partition-id"]
            steps = local_steps[k] if isinstance(local_steps, list) else local_steps
            return local_work(problem, k, GradientSteps(steps, learning_rate))

        return client_app(work)

    made: dict[str, Callable[..., Any]] = {
        "fedavg": lambda: strategy(FedAvg()),
        "fedprox": lambda mu: strategy(FedProx(mu, aggregation="samples")),
        "scaffold": lambda server_lr, num_clients: strategy(Scaffold(server_lr=server_lr), num_clients=num_clients),
        "feddyn": lambda alpha, num_clients: strategy(FedDyn(alpha), num_clients=num_clients),
        "fedelasticnet-prox": lambda mu, l1: strategy(FedElasticNetProx(l1, mu, aggregation="samples")),
        "fedelasticnet-scaffold": lambda mu, l1, server_lr, num_clients: strategy(
            FedElasticNetScaffold(l1, mu, server_lr=server_lr), num_clients=num_clients
        ),
        "fedelasticnet-dyn": lambda alpha, l1, num_clients: strategy(
            FedElasticNetDyn(l1, alpha), num_clients=num_clients
        ),
    }
    for method, make in made.items():
        yield Case(
            "flwr", f"fedtheory.integrations.flower: {method}", method, flower_adapter(make, app=app), "ours, in Flower"
        )


def pfl_cases() -> Iterator[Case]:
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.algorithm.fedprox import FedProx, FedProxParams
    from pfl.algorithm.scaffold import SCAFFOLD, SCAFFOLDParams
    from pfl.data.user_state import InMemoryUserStateStorage

    class Copying(InMemoryUserStateStorage):
        def save_state(self, state: Any, user_id: str, key: str | None = None) -> None:
            super().save_state(copy.deepcopy(state), user_id, key)

    def scaffold(option_one: bool, storage: Any) -> Any:
        def make(common: Any, num_clients: int) -> Any:
            return SCAFFOLD(), SCAFFOLDParams(
                population=num_clients,
                use_gradient_as_control_variate=option_one,
                user_state_storage=storage(),
                **common,
            )

        return make

    def averaging(common: Any) -> Any:
        return FederatedAveraging(), NNAlgorithmParams(**common)

    def prox(common: Any, mu: float) -> Any:
        return FedProx(), FedProxParams(mu=mu, **common)

    yield Case("pfl", "pfl.algorithm.federated_averaging.FederatedAveraging", "fedavg", pfl_adapter(averaging))
    yield Case("pfl", "pfl.algorithm.fedprox.FedProx", "fedprox", pfl_adapter(prox))
    place, first = "pfl.algorithm.scaffold.SCAFFOLD", {"option": "gradient"}
    yield Case(
        "pfl",
        f"{place}, option II",
        "scaffold",
        pfl_adapter(scaffold(False, InMemoryUserStateStorage), "uniform"),
        remark=SIGN,
    )
    yield Case("pfl", f"{place}, option I", "scaffold", pfl_adapter(scaffold(True, InMemoryUserStateStorage), "uniform"),
               remark=SHARED, options=first)  # fmt: skip
    yield Case("pfl", f"{place}, option I", "scaffold", pfl_adapter(scaffold(True, Copying), "uniform"),
               "with a storage, written here, that keeps copies", options=first)  # fmt: skip
    yield Case("pfl", f"{place}, option II", "scaffold", exchanged(pfl_adapter(scaffold(False, InMemoryUserStateStorage), "uniform")),
               "with c and c_k exchanged in its local step, a change made here")  # fmt: skip


def exchanged(adapter: Callable[..., Any]) -> Callable[..., Any]:
    """The adapter with c and c_k exchanged in pfl's local step of SCAFFOLD, while it runs."""
    from functools import wraps
    from unittest import mock

    from pfl.internal.bridge.pytorch.scaffold import PyTorchSCAFFOLDBridge

    original = PyTorchSCAFFOLDBridge.do_control_variate_sgd

    def turned(model: Any, data: Any, parameters: Any, local_c: Any, server_c: Any) -> None:
        original(model, data, parameters, local_c=server_c, server_c=local_c)

    @wraps(adapter)
    def run(*given: Any, **settings: Any) -> Any:
        with mock.patch.object(PyTorchSCAFFOLDBridge, "do_control_variate_sgd", staticmethod(turned)):
            return adapter(*given, **settings)

    run.__signature__ = adapter.__signature__  # type: ignore[attr-defined]
    return run


def fedlab_cases() -> Iterator[Case]:
    from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
    from fedlab.contrib.algorithm.fedavg import FedAvgServerHandler
    from fedlab.contrib.algorithm.feddyn import FedDynSerialClientTrainer, FedDynServerHandler
    from fedlab.contrib.algorithm.fedprox import FedProxSerialClientTrainer
    from fedlab.contrib.algorithm.scaffold import ScaffoldSerialClientTrainer, ScaffoldServerHandler

    def trainer(kind: Any, model: Any, num_clients: int, data: Any, *settings: Any) -> Any:
        made = kind(model, num_clients)
        made.setup_dataset(data)
        made.setup_optim(*settings)
        return made

    def server(kind: Any, model: Any, rounds: int, *settings: Any) -> Any:
        made = kind(model, rounds, 1.0)
        if settings:
            made.setup_optim(*settings)
        return made

    averaging = fedlab_adapter(
        lambda model, rounds: server(FedAvgServerHandler, model, rounds),
        lambda model, n, data, learning_rate, local_steps: trainer(
            SGDSerialClientTrainer, model, n, data, local_steps, None, learning_rate
        ),
    )
    prox = fedlab_adapter(
        lambda model, rounds: server(FedAvgServerHandler, model, rounds),
        lambda model, n, data, learning_rate, local_steps, mu: trainer(
            FedProxSerialClientTrainer, model, n, data, local_steps, None, learning_rate, mu
        ),
    )
    scaffold = fedlab_adapter(
        lambda model, rounds, server_lr: server(ScaffoldServerHandler, model, rounds, server_lr),
        lambda model, n, data, learning_rate, local_steps: trainer(
            ScaffoldSerialClientTrainer, model, n, data, local_steps, None, learning_rate
        ),
    )
    dyn = fedlab_adapter(
        lambda model, rounds, alpha: server(FedDynServerHandler, model, rounds, alpha),
        lambda model, n, data, learning_rate, local_steps, alpha: trainer(
            FedDynSerialClientTrainer, model, n, data, local_steps, None, learning_rate, alpha
        ),
    )
    place, plain = "fedlab.contrib.algorithm", {"weighting": "uniform"}
    yield Case("fedlab", f"{place}.fedavg: FedAvgServerHandler", "fedavg", averaging, remark=PLAIN)
    yield Case(
        "fedlab", f"{place}.fedavg: FedAvgServerHandler", "fedavg", averaging, "asked for a plain mean", options=plain
    )
    yield Case(
        "fedlab",
        f"{place}.fedprox: FedProxSerialClientTrainer",
        "fedprox",
        prox,
        "asked for a plain mean",
        options=plain,
    )
    yield Case("fedlab", f"{place}.scaffold: ScaffoldServerHandler and its trainer", "scaffold", scaffold)
    yield Case("fedlab", f"{place}.feddyn: FedDynServerHandler and its trainer", "feddyn", dyn, remark=DYN)


PACKAGES: dict[str, tuple[Callable[[], Iterator[Case]], ...]] = {
    "flwr": (flower_cases, our_cases),
    "pfl": (pfl_cases,),
    "fedlab": (fedlab_cases,),
}
NEEDS_TORCH = ("pfl", "fedlab")


def has(package: str) -> bool:
    """Return whether a package is installed."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
