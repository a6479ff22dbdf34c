"""The papers' experiments by name and by table, and their values. Imports no torch.

What a paper prints is taken from it; what it does not is `assumed`, listed by name in the setting
and said in every table. For FedElasticNet those are learning rates, epochs and weight decay: its
section 4 says batch sizes, and that learning rates were optimized for each data set, without the
values; Table 5 says lambda_1, lambda_2 and epsilon, Table 2 the rounds. They are filled in from the
example of FedDyn's public code, which its authors say serves all four image data sets
(github.com/alpemreacar/FedDyn, example_cifar_10.py: learning rate 0.1, 5 epochs, weight decay 1e-3,
no decay of the learning rate), as is who takes part: each client with probability 0.1, redrawn when
nobody does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedtheory.errors import InvalidInput, suggest

if TYPE_CHECKING:
    from fedtheory.algorithms.base import Algorithm
    from fedtheory.local.sgd import MiniBatchSolver
    from fedtheory.neural.data import Data
    from fedtheory.neural.problem import NeuralProblem
    from fedtheory.participation.cohorts import Sampling

__all__ = ["OPTIONS", "TABLE_5", "Preset", "expand", "get", "names", "of_table"]

OPTIONS = ("lr", "l1", "l2", "epsilon")  # that may be swept


@dataclass(frozen=True)
class Preset:
    """One run of a paper's table.

    Attributes
    ----------
    paper, dataset, split, participation, method : str
        What it is called after; `participation` as in '10%' or '10-of-500'.
    network, other_network : names of `fedtheory.neural.models`
        The other is what the text says, where the table was made with another.
    lr, decay, weight_decay : of local SGD; the learning rate is lr * decay**(round - 1)
    algorithm, hyperparameters : name and arguments of `fedtheory.algorithms`
    probability, cohort : float and int
        Each client's chance to take part; or, where > 0, how many are drawn. 1 and 0: all.
    partition : what `fedtheory.neural.data.federated` takes
    held_out : share of each client's samples kept back for Elastic Aggregation's sensitivities
    feddyn_cohorts : bool
        Those that take part with a probability are FedDyn's public code's own, round by round
        (`fedtheory.participation.cohorts.FedDynBernoulli`).
    clip : float or None
        Norm that local SGD's gradients are clipped at, in FedDyn and Algorithm 3 before alpha y is
        added, as FedDyn's public code does.
    augment : what `NeuralProblem` does to training images
    solver, solver_options : 'sgd', 'momentum' or 'adam', and arguments of
        `fedtheory.local.Momentum` or `Adam`: local work; every paper's is SGD.
    assumed : what the paper does not print
    seed : of partition, parameters, cohorts and local work
    others : {name: value} of what differs from the paper's setting, as `changed` has changed it
    more : metrics recorded beside the table's
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
    others: Mapping[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The place of the run: 'fedelasticnet/mnist/iid/10%/algorithm-1'. After it stands, with
        '@', all that is not the paper's."""
        said = {**self.others}
        for argument, given in sorted(said.pop("solver_options", {}).items()):
            said[argument] = "-".join(map(str, given)) if isinstance(given, tuple) else given
        if "feddyn_cohorts" in said:
            said["cohorts"] = "feddyn" if said.pop("feddyn_cohorts") else "drawn"
        said |= {"seed": self.seed} if self.seed else {}
        values = [*(f"{name}={value}" for name, value in said.items()), *(f"with={metric}" for metric in self.more)]
        return "/".join((self.paper, self.dataset, self.split, self.participation, "@".join([self.method, *values])))

    def changed(self, **values: Any) -> Preset:
        """The setting with other values of these fields, or of hyperparameters: 'l1', 'l2' and
        'epsilon' as FedElasticNet's Table 5 has them, others as the method calls them.

        None leaves one as it is, and what the method has not is left out; what differs is a part of
        the name.
        """
        known = {k: v for k, v in values.items() if k in _FIELDS or self._argument(k) in self.hyperparameters}
        differ = {k: v for k, v in known.items() if v is not None and v != self.value(k)}
        hyper = {self._argument(k): v for k, v in differ.items() if k not in _FIELDS}
        others = dict(sorted({**self.others, **differ}.items()))
        others.pop("seed", None)  # a part of the name by itself
        of_fields = {k: v for k, v in differ.items() if k in _FIELDS}
        return replace(self, **of_fields, hyperparameters={**self.hyperparameters, **hyper}, others=others)

    @property
    def own(self) -> dict[str, float]:
        """Those of `OPTIONS` whose value is not the paper's."""
        return {name: value for name, value in self.others.items() if name in OPTIONS}

    def _argument(self, option: str) -> str:
        """The hyperparameter that an option stands for: FedProx and FedDyn have names of their own for l2."""
        return {"fedprox": "mu", "feddyn": "alpha"}.get(self.algorithm, option) if option == "l2" else option

    def value(self, option: str) -> Any:
        """The value of a field or a hyperparameter, as `changed` takes them; None where the method has none."""
        return getattr(self, option) if option in _FIELDS else self.hyperparameters.get(self._argument(option))

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
        vocabulary = getattr(data, "vocabulary", ())
        if model.reads_text and not vocabulary:
            raise InvalidInput(f"{model.name} reads texts, and {data.name} has none: use another --network")
        made_for: dict[str, Any] = {"vocabulary": len(vocabulary)} if model.reads_text else {"input_shape": data.input_shape}
        module = model.build(num_classes=data.num_classes, seed=seed, **made_for)
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


_FIELDS = Preset.__dataclass_fields__


# --- the papers' ----------------------------------------------------------------------------------
# FedElasticNet, Table 5: dataset -> method -> (lambda_1, lambda_2, epsilon), '-' as None
TABLE_5: dict[str, dict[str, tuple[float | None, float, float | None]]] = {
    dataset: {
        "fedprox": (None, 1e-4, None), "algorithm-1": first, "algorithm-2": second,
        "feddyn": (None, third[1], None), "algorithm-3": third,
    }
    for dataset, first, second, third in (
        ("cifar10", (1e-6, 1e-4, 1e-3), (1e-4, 0.0, 1e-4), (1e-4, 1e-2, 5e-3)),
        ("cifar100", (1e-6, 1e-4, 1e-3), (1e-4, 0.0, 1e-4), (1e-4, 1e-2, 1e-3)),
        ("mnist", (1e-6, 1e-6, 1e-3), (1e-4, 0.0, 1e-4), (1e-4, 5e-2, 5e-3)),
        ("emnist-l", (1e-6, 1e-6, 1e-3), (1e-4, 0.0, 1e-4), (1e-4, 4e-2, 2e-3)),
        ("shakespeare", (1e-6, 1e-6, 9e-3), (1e-6, 0.0, 9e-4), (1e-6, 1e-2, 1e-2)),
    )
}  # FedProx's lambda_2 is the same everywhere, and FedDyn's is Algorithm 3's
_FEDELASTICNET = {  # dataset: network, the text's, rounds (Table 2), batch size (section 4)
    "mnist": ("mlp-200-200", "mlp-200-100", 100, 10),
    "emnist-l": ("mlp-100-100", "mlp-200-100", 200, 50),
    "cifar10": ("cnn-384-192", "cnn-394-192", 200, 50),
    "cifar100": ("cnn-384-192", "cnn-394-192", 500, 50),
    "shakespeare": ("char-lstm", None, 100, 20),
}
TUNED = "lr (the text: learning rates are optimized 'depending on the evaluated datasets')"
EQUAL_SIZES = "clients of equal size (the text says lognormal, without a variance)"
EQUAL_CLASSES = "on CIFAR-100, iid: everyone has 5 samples of each class (as FedDyn's public code deals them)"
_SPLITS: dict[str, dict[str, Any]] = {
    "dirichlet-0.3": {"partition": "dirichlet", "alpha": 0.3},
    "iid": {"partition": "iid"},
    "dirichlet-0.6": {"partition": "dirichlet", "alpha": 0.6},
    "non-iid": {"partition": "users"},
}


def _algorithm(dataset: str, method: str) -> tuple[str, dict[str, Any]]:
    """Name and hyperparameters of a column of FedElasticNet's tables."""
    if method == "scaffold":
        return "scaffold", {"option": "difference", "send": "model"}
    l1, l2, epsilon = TABLE_5[dataset][method]
    methods: dict[str, tuple[str, dict[str, Any]]] = {
        "fedprox": ("fedprox", {"mu": l2, "aggregation": "samples"}),
        "algorithm-1": ("fedelasticnet-prox", {"l1": l1, "l2": l2, "epsilon": epsilon, "aggregation": "samples"}),
        "algorithm-2": ("fedelasticnet-scaffold", {"l1": l1, "l2": l2, "epsilon": epsilon, "option": "difference"}),
        "feddyn": ("feddyn", {"alpha": l2}),
        "algorithm-3": ("fedelasticnet-dyn", {"l1": l1, "l2": l2, "epsilon": epsilon}),
    }
    return methods[method]


def _fedelasticnet() -> Iterator[Preset]:
    for dataset, (network, other, rounds, batch) in _FEDELASTICNET.items():
        text = dataset == "shakespeare"
        for split in ("iid", "non-iid") if text else ("dirichlet-0.3", "iid", "dirichlet-0.6"):
            for participation, probability in (("10%", 0.1), ("100%", 1.0)):
                for method in ("fedprox", "algorithm-1", "scaffold", "algorithm-2", "feddyn", "algorithm-3"):
                    name, hyper = _algorithm(dataset, method)
                    even = (dataset, split) == ("cifar100", "iid")
                    yield Preset(
                        "fedelasticnet", dataset, split, participation, method, network, rounds, batch, 5, 1.0 if text else 0.1,
                        name, hyper, weight_decay=1e-4 if text else 1e-3, probability=probability,
                        partition={"partition": "iid-balanced"} if even else _SPLITS[split], other_network=other,
                        assumed=(TUNED, "decay", "epochs", "weight_decay", EQUAL_SIZES, *([EQUAL_CLASSES] if even else [])),
                    )  # fmt: skip


def _efl() -> Iterator[Preset]:
    methods: dict[str, tuple[str, dict[str, Any]]] = {
        "fedavg": ("fedavg", {}),
        "fedgate": ("fedgate", {}),
        "vrl-sgd": ("vrl-sgd", {}),
        "apfl": ("apfl", {"alpha": 0.5}),
        # lambda / alpha is the curvature of the clients' penalty, which steps of 0.1 must fit;
        # alpha (m - 1)/sigma is at most 1
        "fedamp": ("fedamp", {"lam": 1.0, "alpha": 1e4, "sigma": 1e6}),
        # with scheme C as printed, ten clients of a hundred move the model by a tenth of their mean
        # update
        "efl": ("efl", {"lam": 0.1, "fisher": "empirical", "compressor": ("st", 0.1), "scheme": "C-corrected"}),
    }
    sets: dict[str, tuple[str, int, int, float, dict[str, Any]]] = {
        "mnist": ("mlp-200-200", 100, 10, 0.1, {"partition": "classes", "classes": 2}),
        "cifar100": ("vgg11s", 200, 50, 0.05, {"partition": "classes", "classes": 5}),
        "shakespeare": ("char-lstm", 100, 20, 1.0, {"partition": "users"}),
    }
    unknown = ("rounds", "batch", "lr", "epochs", "who takes part", "every method's hyperparameters")
    for dataset, (network, rounds, batch, lr, deal) in sets.items():
        for method, (name, hyper) in methods.items():
            dealt = ("classes a client",) if deal["partition"] == "classes" else ()
            network_said = ("network (the text: ResNet-50)",) if dataset == "mnist" else ()
            scheme = ("scheme (C over the chance to take part: what is printed moves the model by a tenth)",) if method == "efl" else ()
            full = name in ("fedgate", "vrl-sgd")  # their corrections are made for all clients
            yield Preset(
                "efl", dataset, "non-iid", "all" if full else "10-of-100", method, network, rounds,
                batch, 1, lr, name, hyper, cohort=0 if full else 10, partition=deal,
                other_network="resnet50" if dataset == "mnist" else None,
                assumed=(*unknown, *scheme, *dealt, *network_said),
            )


def _elastic() -> Iterator[Preset]:
    # the poster's table: dataset, split, network, rounds, clients, sampled, batch, rate
    sets = (
        ("mnist", "unbalanced", "logistic", 20, 1000, 100, 100, 0.1),
        ("cifar100", "balanced", "resnet20", 4000, 500, 10, 10, 0.05),
        ("cifar10", "unbalanced", "resnet20", 4000, 1000, 10, 10, 0.05),
    )
    for dataset, split, network, rounds, clients, sampled, batch, lr in sets:
        deal: dict[str, Any] = {"partition": "dirichlet", "alpha": 0.3, "sigma": 0.3 if split == "unbalanced" else 0.0}
        elastic = {"tau": 0.5, "mu": 0.95, "probe_batch": batch}
        methods: dict[str, tuple[str, dict[str, Any], float]] = {
            "naive": ("fedavg", {"aggregation": "samples"}, 0.0), "elastic": ("elastic-aggregation", elastic, 0.3),
        }  # fmt: skip
        for method, (name, hyper, held) in methods.items():
            assumed = ["epochs (1: as printed in sum)", "partition (Dirichlet 0.3)"]
            assumed += ["sizes (lognormal 0.3)"] if split == "unbalanced" else []
            assumed += ["normalisation of ResNet-20 (GroupNorm, 2 groups)"] if network == "resnet20" else []
            assumed += ["tau", "mu", "share held out"] if method == "elastic" else []
            yield Preset(
                "elastic", dataset, split, f"{sampled}-of-{clients}", method, network, rounds,
                batch, 1, lr, name, hyper, clients=clients, cohort=sampled, partition=deal,
                held_out=held, assumed=tuple(assumed),
            )  # fmt: skip


_PRESETS = {p.name: p for make in (_fedelasticnet, _efl, _elastic) for p in make()}
_OF_TABLE = {
    "fedelasticnet-table2": ("fedelasticnet", "10%"),
    "fedelasticnet-table3": ("fedelasticnet", "10%"),
    "fedelasticnet-table4": ("fedelasticnet", "100%"),
    "fedelasticnet-figure1": ("fedelasticnet", "10%"),
    "efl-table2": ("efl", None),
    "elastic-table": ("elastic", None),
}


def names() -> list[str]:
    """The names `get` knows, as in 'fedelasticnet/mnist/dirichlet-0.3/10%/algorithm-3'."""
    return list(_PRESETS)


def get(name: str) -> Preset:
    """The preset of that name.

    Raises
    ------
    UnknownName
        With the nearest names.
    """
    if name not in _PRESETS:
        raise suggest(name, _PRESETS, "preset")
    return _PRESETS[name]


def of_table(table: str, dataset: str | None = None, split: str | None = None, method: str | None = None) -> list[Preset]:
    """The runs of a table; of those of one dataset, split or method alone (several with commas).

    Raises
    ------
    InvalidInput
        No such table; a filter that the table has nothing for, with what it has.
    """
    if table not in _OF_TABLE:
        raise InvalidInput(f"no table {table!r}: use {', '.join(_OF_TABLE)}")
    paper, participation = _OF_TABLE[table]
    found = [p for p in _PRESETS.values() if p.paper == paper and participation in (None, p.participation)]
    if table == "fedelasticnet-figure1" and split is None:  # the paper's; others by name
        found = [p for p in found if p.split == "dirichlet-0.3"]
    for what, text in (("dataset", dataset), ("split", split), ("method", method)):
        if text is None:
            continue
        known = list(dict.fromkeys(getattr(p, what) for p in found))
        wanted = [t.strip().lower() for t in text.split(",") if t.strip()]
        for name in wanted:
            if name not in known:
                raise InvalidInput(f"{table} has no {what} {name!r} here: it has {', '.join(known)}")
        found = [p for p in found if getattr(p, what) in wanted]
    return found


def expand(presets: Sequence[Preset], values: Mapping[str, Sequence[float]], of_seeds: Sequence[int]) -> list[Preset]:
    """A run for every combination of the values and every seed; a method that has not an option is run once for it.

    Raises `InvalidInput` for an option that none of the methods has.
    """
    for option in values:
        if not any(p.value(option) is not None for p in presets):
            methods = ", ".join(dict.fromkeys(p.method for p in presets))
            raise InvalidInput(f"--{option}: none of these methods has it ({methods}); leave it out, or name others with --method")
    changes = [dict(zip(values, of, strict=True)) for of in product(*values.values())]
    runs = (replace(preset.changed(**change), seed=seed) for preset in presets for change in changes for seed in of_seeds)
    return list({run.name: run for run in runs}.values())
