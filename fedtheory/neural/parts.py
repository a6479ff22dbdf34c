"""Samples that are several tensors each: a text's word numbers and its mask, say, as a dict or a tuple of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from fedtheory.errors import InvalidInput

__all__ = [
    "OnHost", "Parts", "described", "gathered", "has_labels", "is_several", "made", "mapped",
    "named", "pieces", "repeated", "tensors", "unpacked",
]


AT_ONCE = 2**24  # numbers of a piece


class Parts:
    """Tensors (n, ...) by name or by position, indexed and counted as one tensor of samples is.

    Parameters
    ----------
    given : dict or tuple of tensors that have the samples on their first axis
    """

    def __init__(self, given: dict[str, Tensor] | tuple[Tensor, ...]) -> None:
        self.given = given

    def items(self) -> list[tuple[Any, Tensor]]:
        """Names or positions, and the tensors."""
        return [*(self.given.items() if isinstance(self.given, dict) else enumerate(self.given))]

    def map(self, change: Callable[[Tensor], Tensor]) -> Parts:
        changed = {key: change(t) for key, t in self.items()}
        return Parts(changed if isinstance(self.given, dict) else tuple(changed.values()))

    def __getitem__(self, index: Any) -> Parts:
        return self.map(lambda t: t[index])

    def __len__(self) -> int:
        return len(tensors(self)[0])


class OnHost:
    """Samples (n, ...) in main memory, memory-mapped perhaps; those asked for come to the device.

    Parameters
    ----------
    held : Tensor (n, ...)
    device, dtype : of what comes
    """

    def __init__(self, held: Tensor, device: torch.device, dtype: torch.dtype) -> None:
        self.held, self.device, self.dtype = held.cpu(), device, dtype
        self.shape, self.ndim = held.shape, held.ndim

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, index: Any) -> Tensor:
        found = self.held[index.cpu() if isinstance(index, Tensor) else index]
        if self.device.type == "cuda":  # a copy from pinned memory does not wait
            found = found.pin_memory()
        return found.to(self.device, non_blocking=True).to(self.dtype)

    def index_select(self, axis: int, index: Tensor) -> Tensor:
        return self[index]


def is_several(values: Any) -> bool:
    """True if samples are several tensors: a dict or its kin, or a tuple of arrays or tensors."""
    return isinstance(values, Mapping) or (isinstance(values, tuple) and bool(values) and all(hasattr(v, "ndim") for v in values))


def made(what: str, values: Any, one: Callable[[str, Any], Any]) -> Any:
    """one(name, values) of a tensor, or of every part, which must have as many samples."""
    if not is_several(values):
        return one(what, values)
    by_name = isinstance(values, Mapping)
    entries = values.items() if by_name else enumerate(values)
    parts: dict[Any, Any] = {key: one(f"{what}[{key!r}]", v) for key, v in entries}
    samples = Parts(parts if by_name else tuple(parts.values()))
    counts = {name: len(t) for name, t in named(what, samples)}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InvalidInput(f"{told} samples: give all of {what} one entry a sample, (n, ...)")
    return samples


def named(what: str, samples: Any) -> list[tuple[str, Tensor]]:
    """The tensors with their names in an error."""
    if not isinstance(samples, Parts):
        return [(what, samples)]
    return [(f"{what}[{key!r}]", t) for key, t in samples.items()]


def pieces(samples: Any) -> Iterator[tuple[int, Any]]:
    """A tensor's samples in pieces of some millions of numbers, and the number of their first."""
    rows = max(1, AT_ONCE // max(1, math.prod(samples.shape[1:])))
    for first in range(0, len(samples), rows):
        yield first, samples[first : first + rows]


def tensors(samples: Any) -> list[Tensor]:
    """The tensor, or all of them, those of a dict in the order of their names."""
    return [t for _, t in sorted(samples.items())] if isinstance(samples, Parts) else [samples]


def mapped(change: Callable[[Tensor], Tensor], samples: Any) -> Any:
    return samples.map(change) if isinstance(samples, Parts) else change(samples)


def gathered(samples: Any, numbers: Tensor) -> Any:
    """The samples of these numbers (...), as (..., *shape)."""
    flat = numbers.reshape(-1)
    return mapped(lambda t: t.index_select(0, flat).reshape(*numbers.shape, *t.shape[1:]), samples)


def repeated(samples: Any, times: int) -> Any:
    """(b, ...) -> (times, b, ...), without a copy."""
    return mapped(lambda t: t.expand(times, *t.shape), samples)


def unpacked(samples: Any) -> Any:
    """As a module or a loss takes them: the tensor, or the dict or tuple of tensors."""
    return samples.given if isinstance(samples, Parts) else samples


def has_labels(targets: Any) -> bool:
    """True if targets are one tensor of whole numbers."""
    return isinstance(targets, Tensor | OnHost) and not targets.is_floating_point()


def described(what: str, samples: Any) -> str:
    """Names, shapes and dtypes, for errors."""
    return ", ".join(f"{name} {tuple(t.shape)} {t.dtype}" for name, t in named(what, samples))
