"""torch Datasets as tensors: every item is asked for once, and lies in memory from then on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, Subset, TensorDataset, default_collate

from fedtheory.errors import InvalidInput
from fedtheory.inputs import flag
from fedtheory.neural import memory
from fedtheory.parallel import Progress

__all__ = ["samples_of", "samples_of_all"]

PIECE = 256  # items that are put together at a time


def samples_of(dataset: Any, target: Any = None, progress: bool = True, what: str = "dataset") -> tuple[Any, Any]:
    """The samples of a map-style Dataset, as `fedtheory.neural.NeuralProblem` takes them.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset, or anything with a length and items by number
        Items are tuples, whose last entry is the target and whose others are the inputs, or dicts.
        Entries are what torch's `default_collate` puts together: tensors, arrays, numbers, of one
        shape in all items. Transforms run once: what they draw at random is drawn once.
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
        No such dataset, or an empty one; items that differ in shape or structure, or hold something
        other than numbers; an item that cannot be read; dicts without `target`.
    OutOfMemory
        The samples do not fit.
    """
    flag("progress", progress)
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InvalidInput(
            f"{what} is a {type(dataset).__name__}: give a map-style Dataset, with a length and "
            "items by number (of an IterableDataset, list(dataset) in a Dataset of your own)"
        )
    count = len(dataset)
    if not count:
        raise InvalidInput(f"{what} is empty: give it at least one sample")
    chosen, whole = None, dataset
    while type(whole) is Subset:
        own = np.asarray(whole.indices)
        chosen, whole = own if chosen is None else own[chosen], whole.dataset
    if chosen is not None and chosen.dtype == bool:
        raise InvalidInput(f"{what} is a Subset by a mask: give it sample numbers, np.flatnonzero(mask)")
    if chosen is not None and len(chosen) and not -len(whole) <= chosen.min() <= chosen.max() < len(whole):
        wrong = int(chosen.max() if chosen.max() >= len(whole) else chosen.min())
        raise InvalidInput(f"{what} is a Subset with the number {wrong}, of a dataset of {len(whole)} samples: they count from 0")
    if type(whole) is TensorDataset:
        return _split(whole.tensors if chosen is None else tuple(t[torch.from_numpy(chosen)] for t in whole.tensors), target, what)
    pieces = []
    with (
        memory.explained(lambda: f"{what} has {count:,} samples: use fewer, or smaller ones", torch.device("cpu")),
        Progress(count, f"reading {what}", progress) as bar,
    ):
        for first in range(0, count, PIECE):
            last = min(first + PIECE, count)
            pieces.append(_split(_together(dataset, first, last, what), target, what))
            bar.update(last)
        return _joined([x for x, _ in pieces], what), _joined([t for _, t in pieces], what)


def samples_of_all(given: Any, target: Any = None, progress: bool = True) -> tuple[Any, Any, list[np.ndarray] | None]:
    """(inputs, targets, None) of a Dataset; of a list of one for each client, whose samples are whose in place of None."""
    if not isinstance(given, list | tuple):
        return *samples_of(given, target, progress), None
    datasets: Sequence[Any] = given
    if not datasets:
        raise InvalidInput("dataset is an empty list: give a Dataset for each client")
    found = [samples_of(d, target, progress, f"the dataset of client {k}") for k, d in enumerate(datasets)]
    for k, (inputs, _) in enumerate(found):
        _check_entries(found[0][0], inputs, "inputs of the dataset of client 0", f"inputs of the dataset of client {k}")
    ends = np.cumsum([0, *(len(d) for d in datasets)])
    inputs, targets = (_joined([pair[part] for pair in found], "the clients' datasets") for part in (0, 1))
    return inputs, targets, [np.arange(a, b) for a, b in pairwise(ends)]


def _together(dataset: Any, first: int, last: int, what: str) -> Any:
    """Items first..last-1 as torch puts them together."""
    items = []
    for i in range(first, last):
        try:
            items.append(_with_arrays(dataset[i]))
        except Exception as error:  # whatever a user's dataset does
            raise InvalidInput(f"{what}[{i}] cannot be read ({type(error).__name__}: {error}): mend its __getitem__") from error
        _check_entries(items[0], items[-1], f"{what}[{first}]", f"{what}[{i}]")
    try:
        return default_collate(items)
    except (RuntimeError, TypeError, KeyError, ValueError) as error:
        if isinstance(error, RuntimeError) and memory.is_memory_error(error):
            raise
        raise InvalidInput(
            f"items {first} to {last - 1} of {what} do not go together ({type(error).__name__}: {error}): give all of them the same "
            "entries of one shape, tensors, arrays, numbers; pad texts to one length with a mask as a further input, and make tensors "
            "of images by a transform"
        ) from error


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


def _check_entries(a: Any, b: Any, first: str, second: str) -> None:
    """Raise `InvalidInput` where two items, or samples made of them, differ in their entries."""
    if _entries(a) != _entries(b):
        raise InvalidInput(f"{first} has {_entries(a)}, {second} has {_entries(b)}: give all samples the same entries")


def _split(items: Any, target: Any, what: str) -> tuple[Any, Any]:
    """(inputs, targets) of items that are put together."""
    if isinstance(items, Mapping):
        if target not in items or len(items) < 2:
            named = ", ".join(map(repr, items))
            raise InvalidInput(
                f"{what} has the entries {named}, and target = {target!r}: name the one that is the target, the others being the inputs"
            )
        return {name: value for name, value in items.items() if name != target}, items[target]
    if target is not None:
        raise InvalidInput(f"target = {target!r}, and the items of {what} are no dicts: leave it out; their last entry is the target")
    if not isinstance(items, tuple | list) or len(items) < 2:
        raise InvalidInput(f"the items of {what} are no pairs (input, target): give these, longer tuples, or dicts with target=...")
    *inputs, last = items
    return (inputs[0] if len(inputs) == 1 else tuple(inputs)), last


def _joined(parts: list[Any], what: str, name: str = "") -> Any:
    """One after another."""
    if any(isinstance(p, tuple | list) and p and isinstance(p[0], str) for p in parts):
        raise InvalidInput(f"{what} has {name}texts: number their words, and pad them to one length")
    for other in parts:
        _check_entries(parts[0], other, f"a first part of {what}", f"a later one of {what}")
    if isinstance(parts[0], Mapping):
        return {entry: _joined([p[entry] for p in parts], what, f"{entry!r}: ") for entry in parts[0]}
    if isinstance(parts[0], tuple | list):
        return tuple(_joined([p[i] for p in parts], what, f"entry {i}: ") for i in range(len(parts[0])))
    shapes = {str(tuple(p.shape[1:])) for p in parts}
    if len(shapes) > 1:
        raise InvalidInput(f"{what} has {name}entries of shapes {', '.join(sorted(shapes))}: give numbers of one shape; pad them")
    return torch.cat(parts)
