"""A user's samples as tensors, and who holds which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from fedtheory.errors import InvalidInput
from fedtheory.problems.partitions import Partition

__all__ = ["as_samples", "sample_numbers"]

SMALL = (torch.uint8, torch.int8, torch.int16, torch.int32)


def as_samples(what: str, values: Any, device: torch.device, dtype: torch.dtype, small: bool = False) -> torch.Tensor:
    """Floats (n, ...) in the problem's dtype; whole numbers as int64, or, as texts are large, as small as they are.

    Raises
    ------
    InvalidInput
        Samples of unequal shapes; something other than real numbers; a single number.
    """
    if not isinstance(values, torch.Tensor):
        try:
            array = np.asarray(values, order="C")
        except ValueError as error:
            raise InvalidInput(f"{what} cannot be made an array ({error}): give samples of one shape, (n, ...)") from error
        kind = array.dtype
        if kind.kind not in "fiub":
            raise InvalidInput(f"{what} are of dtype {kind}: give real numbers, an array or a tensor (n, ...); number words or classes")
        kind = np.dtype(np.float64) if kind.kind == "f" and kind.itemsize > 8 else kind.newbyteorder("=")
        values = torch.from_numpy(array.astype(kind, copy=False))
    if values.is_complex():
        raise InvalidInput(f"{what} are of dtype {values.dtype}: give real numbers, as real and imaginary part in two channels")
    if values.ndim == 0:
        raise InvalidInput(f"{what} is the number {values.item()}: give one entry a sample, (n, ...)")
    if values.is_floating_point():
        return values.to(device, dtype)
    return values.to(device, values.dtype if small and values.dtype in SMALL else torch.int64)


def sample_numbers(what: str, clients: Iterable[Any] | Partition) -> list[np.ndarray]:
    """One int64 array (n_k,) a client; of a `fedtheory.problems.Partition`, its own.

    Raises
    ------
    InvalidInput
        No sequence of sequences; numbers that are not whole, or a mask.
    """
    try:
        clients = clients.indices if isinstance(clients, Partition) else clients
        held = [np.asarray(c).ravel() for c in clients]
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} cannot be read ({error}): give a sequence of sample numbers for each client") from error
    for k, numbers in enumerate(held):
        if numbers.size and numbers.dtype.kind not in "iu":
            raise InvalidInput(
                f"{what}: client {k}'s are of dtype {numbers.dtype}: give sample numbers, whole ones from 0 (np.flatnonzero of a mask)"
            )
    return [numbers.astype(np.int64, copy=False) for numbers in held]
