"""FedElasticNet's six methods on several data sets and splits: what its Figures 1 and 6 to 9 and
its Tables 2 to 4 are drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtheory.report.networks.runs import (
    AS_SET,
    DIGITS,
    WHOLE,
    Change,
    Published,
    Told,
    found_sets,
    measured,
    need_torch,
    on_digits,
    quietly,
    seeds_from,
)

if TYPE_CHECKING:
    from fedtheory.neural.benchmarks.preset import Preset

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
    seeds: int | Sequence[int] = 5, published: Published = WHOLE, change: Change = AS_SET,
    seed: int = 0, data: Path | str | None = None, keep: Path | str | None = None,
    progress: Told | None = None,
) -> dict[str, Any]:
    """Runs of all methods, with the same clients and cohorts for each.

    Parameters
    ----------
    participation : '10%' or '100%'
    splits, datasets, methods : names of `fedtheory.neural.benchmarks`; data sets are those read
        from ``data``
    networks, rounds, seeds : of the runs on scikit-learn's digits, when ``data`` is None
    published : how much is run on ``data``
    change : what differs in all runs
    data : folder with published data sets
    keep : folder for finished runs

    Returns
    -------
    dict
        'panels', each with its data set, split, network, clients and 'methods' {name: what
        `measured` returns}; 'seeds', 'notes', 'published'.
    """
    from fedtheory.neural.benchmarks import presets
    from fedtheory.neural.data import digits

    need_torch()
    notes: list[str] = []
    presets_of: dict[tuple[str, str, str], Preset] = {}
    if data is None:
        sets: dict[str, Any] = {DIGITS: digits()}
        for network in networks:
            like = "cifar10" if network.startswith("cnn") else "mnist"
            for split in splits:
                for m in methods:
                    preset = digits_of(presets.get(f"fedelasticnet/{like}/{split}/{participation}/{m}"), network)
                    presets_of[network, split, m] = change(replace(preset, rounds=rounds))
    else:
        sets, notes = found_sets(datasets, data, seed, progress or quietly)
        for name in sets:
            for split in splits:
                for m in methods:
                    preset = presets.get(f"fedelasticnet/{name}/{split}/{participation}/{m}")
                    last = preset.rounds if published.rounds is None else min(preset.rounds, published.rounds)
                    presets_of[name, split, m] = change(replace(preset, rounds=last))
    used = seeds_from(seed, seeds if data is None else published.seeds)
    options = {**({} if data is None else published.options), **change.options}
    found = measured(presets_of, sets, used, keep, progress, **options)
    panels = []
    for name, split in dict.fromkeys((n, s) for n, s, _ in presets_of):
        first = presets_of[name, split, methods[0]]
        panels.append(
            {
                "dataset": first.dataset, "network": first.network, "split": split,
                "participation": participation, "clients": first.clients, "rounds": first.rounds,
                "methods": {m: found[name, split, m] for m in methods},
            }
        )
    return {
        "panels": panels, "seeds": used, "notes": [*notes, *change.notes()],
        "published": data is not None, "most": options.get("most"),
    }
