"""FedElasticNet's Figure 7: the next character of a text, IID and with a text per client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedtheory.plotting.figure import Figure
from fedtheory.report.networks.families import METHODS
from fedtheory.report.networks.fedelasticnet_accuracy import caption, draw
from fedtheory.report.networks.runs import AS_SET, Change, Published

__all__ = ["FIGURE"]

TWICE = Published(seeds=2)
BOTH = ("iid", "non-iid")


def compute(
    splits: Sequence[str] = BOTH,
    methods: Sequence[str] = METHODS,
    rounds: int = 60,
    seeds: int | Sequence[int] = 3,
    epochs: int = 5,
    clients: int = 10,
    published: Published = TWICE,
    change: Change = AS_SET,
    seed: int = 0,
    data: Path | str | None = None,
    keep: Path | str | None = None,
    progress: Any = None,
) -> dict[str, Any]:
    """All methods on Shakespeare, or on Python's help texts with a small LSTM.

    What it takes and returns is that of `fedtheory.report.networks.families.compute`.
    """
    from fedtheory.neural.benchmarks import presets
    from fedtheory.report.networks.runs import found_sets, measured, need_torch, quietly, seeds_from
    from fedtheory.report.networks.topics import TOPICS, topics

    need_torch()
    notes: list[str] = []
    settings = {(s, m): presets.get(f"fedelasticnet/shakespeare/{s}/10%/{m}") for s in splits for m in methods}
    if data is None:
        sets = {TOPICS: topics(clients)}
        small: dict[str, Any] = {"dataset": TOPICS, "network": "char-lstm-32", "clients": clients, "rounds": rounds, "epochs": epochs}
        settings = {key: replace(p, probability=0.3, participation="30%", **small) for key, p in settings.items()}
    else:
        sets, notes = found_sets(("shakespeare",), data, seed, progress or quietly)
        if published.rounds is not None:
            settings = {key: replace(p, rounds=min(p.rounds, published.rounds)) for key, p in settings.items()}
    settings = {key: change(p) for key, p in settings.items()}
    used = seeds_from(seed, seeds if data is None else published.seeds)
    options = {**({} if data is None else published.options), **change.options}
    found = measured(settings, sets, used, keep, progress, **options)
    panels = []
    for split in splits:
        first = settings[split, methods[0]]
        about = {k: getattr(first, k) for k in ("dataset", "network", "clients", "rounds", "participation")}
        panels.append(about | {"split": split, "methods": {m: found[split, m] for m in methods}})
    return {
        "panels": panels,
        "seeds": used,
        "notes": [*notes, *change.notes()],
        "published": data is not None,
        "most": options.get("most"),
    }


FIGURE = Figure(
    "fedelasticnet_figure7",
    compute,
    draw,
    {"rounds": 8, "seeds": 2, "epochs": 2, "published": Published(4, 2, 60)},
    {},
    title="Test accuracy against rounds, the next character of a text",
    paper="fedelasticnet",
    number="Figure 7",
    caption=caption,
    takes=("data", "keep", "progress"),
)
