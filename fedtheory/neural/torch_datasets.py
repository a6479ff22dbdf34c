"""torch Datasets as tensors: every item is asked for once, and lies in memory from then on."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, TensorDataset, default_collate

from fedtheory.errors import InvalidInput
from fedtheory.inputs import flag, require
from fedtheory.neural import memory
from fedtheory.parallel import Progress

__all__ = ["samples_of", "samples_of_all"]


def samples_of(dataset: Any, target: Any = None, progress: bool = True) -> tuple[Any, Any]:
    """The samples of a map-style Dataset, as `fedtheory.neural.NeuralProblem` takes them.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset, or anything with a length and items by number
        Items are tuples, whose last entry is the target and whose others are the inputs, or dicts.
        Entries are what torch's `default_collate` puts together: tensors, arrays, numbers, of one
        shape in all items; lists of numbers are arrays. Transforms run once: what they draw at
        random is drawn once.
    target : str or None
        Of items that are dicts, the entry that is the target; the others are the inputs.
    progress : bool
        A bar where reading takes more than two seconds.

    Returns
    -------
    inputs, targets : tensors (n, ...), or dicts or tuples of them

    Raises
    ------
    InvalidInput
        Items that are no pairs, or no dicts with `target`, or differ in their entries. What torch
        cannot put together, it refuses.
    OutOfMemory
        The samples do not fit.
    """
    flag("progress", progress)
    if type(dataset) is TensorDataset:
        return _split(dataset.tensors, target)
    count, items = len(dataset), []
    told = f"{count:,} samples are read: use fewer, or smaller ones"
    require(count > 0, "dataset", dataset, "it has no items; give at least one")
    with (
        memory.explained(lambda: told, torch.device("cpu")),
        Progress(count, "reading the dataset", progress) as bar,
    ):
        for i in range(count):
            items.append(_with_arrays(dataset[i]))
            bar.update(i + 1)
        entries = {_entries(item) for item in items}
        if len(entries) > 1:  # torch would leave out what the first item lacks
            found = " or ".join(sorted(entries))
            raise InvalidInput(f"items have {found}: give all the same entries")
        return _split(default_collate(items), target)


def samples_of_all(given: Any, target: Any = None, progress: bool = True) -> tuple[Any, Any, list[np.ndarray] | None]:
    """(inputs, targets, None) of a Dataset; of a list of one for each client, whose samples are whose in place of None."""
    if not isinstance(given, list | tuple):
        return *samples_of(given, target, progress), None
    ends = np.cumsum([0, *map(len, given)])
    inputs, targets = samples_of(ConcatDataset(given), target, progress)
    return inputs, targets, [np.arange(a, b) for a, b in pairwise(ends)]


def _with_arrays(item: Any) -> Any:
    """An item with its lists of numbers as arrays, as tokenizers return them; torch would put a
    list's entries together one by one."""
    if isinstance(item, Mapping):
        return {name: np.asarray(v) if isinstance(v, list) else v for name, v in item.items()}
    return tuple(np.asarray(v) if isinstance(v, list) else v for v in item) if isinstance(item, tuple | list) else item


def _entries(item: Any) -> str:
    if isinstance(item, Mapping):
        return f"the entries {', '.join(map(repr, sorted(item, key=str)))}"
    return f"{len(item)} entries" if isinstance(item, tuple | list) else "one entry"


def _split(items: Any, target: Any) -> tuple[Any, Any]:
    """(inputs, targets) of items that are put together."""
    if isinstance(items, Mapping) and target in items:
        return {name: value for name, value in items.items() if name != target}, items[target]
    if target is not None or not isinstance(items, tuple | list) or len(items) < 2:
        raise InvalidInput(
            f"items have {_entries(items)}, and target = {target!r}: give pairs (input, target), "
            "longer tuples, or dicts, whose entry that is the target is named; the others are the "
            "inputs"
        )
    *inputs, last = items
    return (inputs[0] if len(inputs) == 1 else tuple(inputs)), last
