"""FedElasticNet's six methods on several data sets and splits: what its Figures 1 and 6 to 9 and
its Tables 2 to 4 are drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from paper_figures.networks.runs import Runs, on_digits

if TYPE_CHECKING:
    from fedtheory.neural.benchmarks.presets import Preset

__all__ = ["METHODS", "PAIRS", "SPLITS", "SPLIT_WORDS", "compute", "digits_of", "place"]

METHODS = ("fedprox", "algorithm-1", "scaffold", "algorithm-2", "feddyn", "algorithm-3")
PAIRS = (("fedprox", "algorithm-1"), ("scaffold", "algorithm-2"), ("feddyn", "algorithm-3"))
SPLITS = ("dirichlet-0.3", "dirichlet-0.6", "iid")
SPLIT_WORDS = {"dirichlet-0.3": "Dirichlet (.3)", "dirichlet-0.6": "Dirichlet (.6)", "iid": "IID", "non-iid": "non-IID"}
IMAGES = ("mnist", "emnist-l", "cifar10", "cifar100")
_CNN = {"clients": 10, "epochs": 2, "batch_size": 20}  # convolutions are slow on a CPU


def place(panel: Mapping[str, Any]) -> str:
    """A panel's split, and the values that were tried there: 'IID, l1 0.01'."""
    return ", ".join([SPLIT_WORDS[panel["split"]], *(f"{name} {value:g}" for name, value in panel.get("own", {}).items())])


def digits_of(preset: Preset, network: str) -> Preset:
    """The setting on scikit-learn's digits with a network that a CPU trains in seconds."""
    return on_digits(preset, network, **(_CNN if network.startswith("cnn") else {}))


def compute(
    participation: str = "10%", splits: Sequence[str] = SPLITS, datasets: Sequence[str] = IMAGES,
    networks: Sequence[str] = ("mlp-100-100",), methods: Sequence[str] = METHODS, rounds: int = 100,
    seeds: int | Sequence[int] = 5, **asked: Any,
) -> dict[str, Any]:
    """Runs of all methods, with the same clients and cohorts for each.

    Parameters
    ----------
    participation : '10%' or '100%'
    splits, datasets, methods : names of `fedtheory.neural.benchmarks`; data sets are those read
        from ``data``
    networks, rounds, seeds : of the runs on scikit-learn's digits, when ``data`` is None
    asked : as `Runs` takes them

    Returns
    -------
    dict
        'panels', each with its data set, split, network, clients and 'methods' {name: what
        `Runs.measured` returns}; 'seeds', 'notes', 'published'.
    """
    from fedtheory.neural.benchmarks import presets

    runs = Runs(rounds, seeds, **asked)
    names = runs.read(datasets)
    settings = {}
    for name, split, m in product(networks if runs.small else names, splits, methods):
        like = name if not runs.small else "cifar10" if name.startswith("cnn") else "mnist"
        preset = presets.get(f"fedelasticnet/{like}/{split}/{participation}/{m}")
        settings[name, split, m] = runs.setting(preset, partial(digits_of, network=name))
    return runs.panels(settings)
