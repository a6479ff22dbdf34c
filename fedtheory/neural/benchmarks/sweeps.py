"""Other values than the paper's, and several seeds: which runs they make, and several seeds' rows
as one. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.neural.benchmarks.preset import Preset
from fedtheory.untrusted import decimal

__all__ = ["OPTIONS", "expand", "numbers", "over_seeds", "seeds"]

OPTIONS = ("lr", "l1", "l2", "epsilon")
_SAME = (  # what one row of several seeds agrees in
    "dataset", "split", "participation", "method", *OPTIONS, "network", "epochs", "clip", "augment", "cohorts", "solver",
)  # fmt: skip


def numbers(option: str, text: str) -> list[float]:
    """Values with commas, each once.

    Raises `InvalidInput` for what is no number, below 0 or infinite, and for a learning rate of 0.
    """
    out = []
    for part in text.split(","):
        try:
            value = decimal(part)
        except ValueError:
            wrong = f"--{option} {text}: {part.strip()!r} is no number"
            raise InvalidInput(f"{wrong}; give one or several with commas, as 1e-4,1e-2") from None
        if not math.isfinite(value) or value < 0 or (option == "lr" and value == 0):
            raise InvalidInput(f"--{option} {part.strip()}: use a finite number {'> 0' if option == 'lr' else '>= 0'}")
        out.append(value)
    return list(dict.fromkeys(out))


def seeds(text: str) -> list[int]:
    """Whole numbers with commas, each once.

    Raises `InvalidInput` for anything else, and below 0.
    """
    parts = [p.strip() for p in text.split(",")]
    if wrong := [p for p in parts if not (p.isascii() and p.isdecimal() and len(p) <= 300)]:
        raise InvalidInput(f"--seeds {text}: {wrong[0]!r} is no whole number >= 0; give them with commas, as 0,1,2")
    return list(dict.fromkeys(map(int, parts)))


def expand(presets: Sequence[Preset], values: Mapping[str, Sequence[float]], of_seeds: Sequence[int]) -> list[Preset]:
    """A run for every combination of the values and every seed; a method that has not an option is run once for it.

    Raises `InvalidInput` for an option that none of the methods has.
    """
    for option in values:
        if not any(p.value(option) is not None for p in presets):
            methods = ", ".join(dict.fromkeys(p.method for p in presets))
            raise InvalidInput(f"--{option}: none of these methods has it ({methods}); leave it out, or name others with --method")
    found: dict[str, Preset] = {}
    for preset in presets:
        has = [o for o in values if preset.value(o) is not None]
        for combination in product(*(values[o] for o in has)):
            changed = preset.with_values(dict(zip(has, combination, strict=True)))
            for seed in of_seeds:
                run = replace(changed, seed=seed)
                found.setdefault(run.name, run)
    return list(found.values())


def _mean(values: Sequence[Any]) -> Any:
    """Mean of numbers, or of tuples of them place by place; None where one is missing."""
    if any(v is None for v in values):
        return None
    if isinstance(values[0], list | tuple):
        return [_mean(place) for place in zip(*values, strict=True)]
    return float(np.mean(values))


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list | tuple) else value


def over_seeds(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for all seeds of a setting: means, with 'range' (lowest, highest) and
    'standard_error' of measured and accuracy.

    Of several seeds only those count that ended without an error and after the most rounds; 'seeds'
    lists them, and 'error' says what befell the others.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in _SAME), []).append(row)
    return [group[0] if len(group) == 1 else _joined(group) for group in groups.values()]


def _joined(group: list[dict[str, Any]]) -> dict[str, Any]:
    fine = [row for row in group if not row["error"]]
    most = max((row["rounds"] for row in fine), default=0)
    used = [row for row in fine if row["rounds"] == most]
    left = [f"seed {row['seed']}: " + (row["error"] or f"only {row['rounds']} rounds") for row in group if row not in used]
    joined = {**(used or group)[0], "seed": None, "seeds": [row["seed"] for row in used], "error": "; ".join(left) or None}
    joined["seconds"] = round(sum(row["seconds"] for row in group), 1)
    joined["range"], joined["standard_error"] = {}, {}
    for name in ("measured", "ratio", "test_accuracy", "best_accuracy"):
        joined[name] = _mean([row[name] for row in used]) if used else None
    if joined["entropies"] and used:
        joined["entropies"] = {k: _mean([row["entropies"][k] for row in used]) for k in joined["entropies"]}
    for name in ("measured", "test_accuracy"):
        values = [_first(row[name]) for row in used if row[name] is not None]
        if len(values) > 1:
            joined["range"][name] = [min(values), max(values)]
            joined["standard_error"][name] = float(np.std(values, ddof=1) / math.sqrt(len(values)))
    return joined
