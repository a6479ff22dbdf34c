"""The runs of FedElasticNet's Figure 7: the next character of a text, IID and with a text per client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from paper_figures.fedelasticnet.families import METHODS
from paper_figures.networks.runs import Runs
from paper_figures.networks.topics import TOPICS, topics

__all__ = ["compute"]


def compute(
    splits: Sequence[str] = ("iid", "non-iid"), methods: Sequence[str] = METHODS, rounds: int = 60,
    seeds: int | Sequence[int] = 3, epochs: int = 5, clients: int = 10, **asked: Any,
) -> dict[str, Any]:
    """All methods on Shakespeare, or on Python's help texts with a small LSTM.

    What it takes and returns is that of `paper_figures.fedelasticnet.families.compute`.
    """
    from fedtheory.neural.benchmarks import presets

    runs = Runs(rounds, seeds, stand_in=partial(topics, clients), **asked)
    (name,) = runs.read(("shakespeare",))
    small: dict[str, Any] = {"dataset": TOPICS, "network": "char-lstm-32", "clients": clients, "epochs": epochs}
    texts = partial(replace, probability=0.3, participation="30%", **small)
    settings = {
        (name, split, m): runs.setting(presets.get(f"fedelasticnet/shakespeare/{split}/10%/{m}"), texts)
        for split, m in product(splits, methods)
    }
    return runs.panels(settings)
