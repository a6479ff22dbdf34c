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

from collections.abc import Iterator
from typing import Any

from fedtheory.errors import InvalidInput, suggest
from fedtheory.neural.benchmarks.preset import Preset

__all__ = ["TABLE_5", "Preset", "get", "names", "of_table"]

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
