"""The parts of one run of a paper's table. Importing this module does not import torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedtheory.errors import InvalidInput

if TYPE_CHECKING:
    from fedtheory.algorithms.base import Algorithm
    from fedtheory.local.sgd import MiniBatchSolver
    from fedtheory.neural.data import Data
    from fedtheory.neural.models import Model
    from fedtheory.neural.problem import NeuralProblem
    from fedtheory.participation.cohorts import Sampling

__all__ = ["Preset"]


@dataclass(frozen=True)
class Preset:
    """One run of a paper's table.

    Attributes
    ----------
    paper, dataset, split, participation, method : str
        What it is called after; `participation` as in '10%' or '10-of-500'.
    network : a name of `fedtheory.neural.models`
    other_network : str or None
        What the text says, where the table was made with another.
    clients, rounds, batch_size, epochs : int
    lr, decay, weight_decay : float
        Of local SGD; the learning rate is lr * decay**(round - 1).
    algorithm, hyperparameters : name and arguments
        Of `fedtheory.algorithms`.
    probability, cohort : float and int
        Each client's chance to take part; or, where > 0, how many are drawn. 1 and 0: all take
        part.
    partition : dict
        What `fedtheory.neural.data.federated` takes.
    feddyn_cohorts : bool
        Those that take part with a probability are FedDyn's public code's own, round by round
        (`fedtheory.participation.cohorts.FedDynBernoulli`).
    clip : float or None
        Norm that local SGD's gradients are clipped at, in FedDyn and Algorithm 3 before alpha y is
        added, as FedDyn's public code does.
    augment : str or None
        What `NeuralProblem` does to training images.
    held_out : float
        Share of each client's samples kept back for Elastic Aggregation's sensitivities.
    solver, solver_options : 'sgd', 'momentum' or 'adam', and arguments of
        `fedtheory.local.Momentum` or `Adam`: local work; every paper's is SGD.
    assumed : tuple of str
        What the paper does not print.
    seed : int
        Of partition, parameters, cohorts and local work.
    own : mapping of option to value
        What differs from the paper's setting, as `with_values` has changed it; it is a part of the
        run's name.
    others : mapping of field to value
        What else differs, as `changed` has changed it: epochs, network... A part of the run's name,
        too.
    more : tuple of str
        Metrics recorded beside the table's; a part of the run's name, too.
    """

    paper: str
    dataset: str
    split: str
    participation: str
    method: str
    network: str
    rounds: int
    batch_size: int
    epochs: int
    lr: float
    algorithm: str
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    clients: int = 100
    decay: float = 1.0
    weight_decay: float = 0.0
    probability: float = 1.0
    cohort: int = 0
    partition: Mapping[str, Any] = field(default_factory=lambda: {"partition": "iid"})
    held_out: float = 0.0
    other_network: str | None = None
    feddyn_cohorts: bool = False
    clip: float | None = None
    augment: str | None = None
    solver: str = "sgd"
    solver_options: Mapping[str, Any] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    seed: int = 0
    own: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The place of the run: 'fedelasticnet/mnist/iid/10%/algorithm-1'. After it stands, with
        '@', all that is not the paper's."""
        values = [f"{option}={value!r}" for option, value in self.own.items()]
        values += [f"{option}={value}" for option, value in self._said_of_others()]
        said = [*values, *([f"seed={self.seed}"] if self.seed else []), *(f"with={metric}" for metric in self.more)]
        return "/".join((self.paper, self.dataset, self.split, self.participation, "@".join([self.method, *said])))

    def _said_of_others(self) -> Iterator[tuple[str, str]]:
        """Name and value of what `changed` has changed, as a file may be called."""
        for option, value in self.others.items():
            if option == "solver_options":
                for argument, given in sorted(value.items()):
                    yield argument, "-".join(map(str, given)) if isinstance(given, tuple) else str(given)
            else:
                yield ("cohorts", "feddyn" if value else "drawn") if option == "feddyn_cohorts" else (option, str(value))

    def changed(self, **fields: Any) -> Preset:
        """The setting with other values of these fields, what differs being a part of its name; None leaves one as it is."""
        differ = {k: v for k, v in fields.items() if v is not None and v != getattr(self, k)}
        return replace(self, **differ, others=dict(sorted({**self.others, **differ}.items())))

    def _argument(self, option: str) -> str | None:
        """The hyperparameter that an option stands for, as FedElasticNet's Table 5 reads; None where the method has none."""
        named = {"fedprox": "mu", "feddyn": "alpha"} if option == "l2" else {}
        argument = named.get(self.algorithm, option)
        return argument if argument in self.hyperparameters and self.paper == "fedelasticnet" else None

    def value(self, option: str) -> float | None:
        """The value of 'lr', 'l1', 'l2' or 'epsilon'; None where the method has none."""
        if option == "lr":
            return self.lr
        argument = self._argument(option)
        return None if argument is None else float(self.hyperparameters[argument])

    def with_values(self, values: Mapping[str, float]) -> Preset:
        """The setting with other values of 'lr', 'l1', 'l2' or 'epsilon'; those that the method has not are left out."""
        changed = {k: float(v) for k, v in values.items() if self.value(k) not in (None, float(v))}
        hyper = {**self.hyperparameters, **{a: v for k, v in changed.items() if (a := self._argument(k)) is not None}}
        return replace(self, lr=changed.get("lr", self.lr), hyperparameters=hyper, own=dict(sorted({**self.own, **changed}.items())))

    def make_algorithm(self) -> Algorithm:
        from fedtheory import algorithms

        options = dict(self.hyperparameters)
        if "compressor" in options:  # kept by name, so that a preset is plain data
            from fedtheory import messages

            name, *arguments = options["compressor"]
            options["compressor"] = messages.get(name)(*arguments)
        return algorithms.get(self.algorithm)(**options)

    def make_sampling(self) -> Sampling:
        from fedtheory.participation.cohorts import Bernoulli, FedDynBernoulli, Full, Uniform

        if self.cohort:
            return Uniform(self.cohort)
        if self.probability == 1:
            return Full()
        return FedDynBernoulli(self.probability) if self.feddyn_cohorts else Bernoulli(self.probability)

    def make_solver(self, sample_counts: Sequence[int] | np.ndarray | None = None) -> MiniBatchSolver:
        """The local solver; `sample_counts` are the clients' numbers of training samples.

        FedGATE and VRL-SGD divide by the number of local steps, which must be everybody's. On
        clients of unequal size they make as many as a client of the mean size makes in its epochs.
        """
        from fedtheory import local

        made = {"sgd": local.SGD, "momentum": local.Momentum, "adam": local.Adam}[self.solver]
        dynamic = self.algorithm in ("feddyn", "fedelasticnet-dyn")
        spares: Literal["curvature"] | None = "curvature" if self.clip is not None and dynamic else None
        epochs: int | None = self.epochs
        steps: int | None = None
        if self.algorithm in ("fedgate", "vrl-sgd") and sample_counts is not None and np.ptp(sample_counts) > 0:
            epochs, steps = None, self.epochs * math.ceil(float(np.mean(sample_counts)) / self.batch_size)
        walk: dict[str, Any] = {"decay": self.decay, "clip": self.clip, "clip_spares": spares}
        return made(self.batch_size, self.lr, epochs, steps, **walk, **self.solver_options)

    def make_problem(
        self, data: Data, seed: int = 0, most: int | None = None, most_tested: int | None = None, **options: Any
    ) -> NeuralProblem:
        """The network on the data, dealt to the clients.

        Where the release deals ('users'), the clients are its first `clients` users, but those with
        a single training sample (of which none could be held out), and the test samples are these
        users', where they have some, each client's its own (`NeuralProblem.evaluate_clients`).

        Parameters
        ----------
        seed : of the partition and of the network's first parameters
        most, most_tested : int or None
            Samples a client, and test samples, that are used (None: all).
        options : as `NeuralProblem` takes them, for example device and dtype

        Raises
        ------
        InvalidInput
            The release has fewer users than the setting has clients; a network for texts, and data
            that are none.
        """
        from fedtheory.neural import models
        from fedtheory.neural.data import federated
        from fedtheory.neural.problem import NeuralProblem

        deal = dict(self.partition)
        deal_by_users = deal["partition"] == "users"
        part = federated(data, deal.pop("partition"), self.clients, seed, **deal)
        model = models.get(self.network)
        module = model.build(num_classes=data.num_classes, seed=seed, **self._made_for(model, data))
        clients: Sequence[np.ndarray] = part.indices
        tested = np.arange(data.num_test)[:most_tested]
        own: list[np.ndarray] | None = None
        if deal_by_users:
            clients, theirs = self._of_users(data, clients)
            if any(map(len, theirs)):
                turn = np.concatenate([np.arange(len(t)) for t in theirs])  # everyone's first before anyone's second
                taken = np.sort(np.argsort(turn, kind="stable")[:most_tested])
                of = np.repeat(np.arange(len(theirs)), [len(t) for t in theirs])[taken]
                tested, own = np.concatenate(theirs)[taken], [np.flatnonzero(of == k) for k in range(len(theirs))]
        test = (data.inputs(data.test_x[tested]), data.test_y[tested])
        problem = NeuralProblem(
            module, data.inputs(data.train_x), data.train_y, [k[:most] for k in clients],
            ridge=self.weight_decay, test=test, test_clients=own, augment=self.augment,
            name=f"{data.name}, {self.split}, {self.network}", **options,
        )
        if self.held_out and self.algorithm == "elastic-aggregation":
            from fedtheory.problems import hold_out

            problem = hold_out(problem, self.held_out, seed)
        return problem

    def _made_for(self, model: Model, data: Data) -> dict[str, Any]:
        """Return what the network takes from the data beside the number of classes."""
        if not model.reads_text:
            return {"input_shape": data.input_shape}
        if not (vocabulary := getattr(data, "vocabulary", ())):
            raise InvalidInput(f"{model.name} reads texts, and {data.name} has none: use another --network")
        return {"vocabulary": len(vocabulary)}

    def _of_users(self, data: Data, dealt: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The clients' sample numbers, and those of their test samples."""
        if len(data.users) < self.clients:
            raise InvalidInput(
                f"{self.name}: {data.source} has {len(data.users)} users, the setting "
                f"{self.clients} clients: make or fetch the whole release, or try --quick"
            )
        users = [u for u, held in enumerate(dealt) if len(held) > 1][: self.clients]
        return [dealt[u] for u in users], [np.flatnonzero(data.test_users == u) for u in users]

    def quick(self, digits: bool) -> Preset:
        """The same method on ten clients for three rounds of one epoch; on scikit-learn's digits with a small network."""
        chance: dict[str, Any] = {"probability": max(self.probability, 0.3), "cohort": min(self.cohort, 3), "clients": 10}
        small: dict[str, Any] = {"network": "mlp-100-100", "dataset": "digits", "other_network": None} if digits else {}
        deal = dict(self.partition)
        if digits and deal["partition"] == "users":
            deal = {"partition": "iid"}
        return replace(self, rounds=3, epochs=1, partition=deal, **chance, **small)
