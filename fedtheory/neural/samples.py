"""A user's samples as tensors, where they lie, and who holds which."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtheory.errors import InvalidInput
from fedtheory.neural.losses import Loss
from fedtheory.neural.parts import OnHost, has_labels, named, pieces
from fedtheory.problems.partitions import Partition

__all__ = [
    "as_samples", "check_counted", "check_finite", "check_held", "own_tests", "sample_numbers",
]

SMALL = (torch.uint8, torch.int8, torch.int16, torch.int32)


def as_samples(
    what: str, values: Any, device: torch.device, dtype: torch.dtype, small: bool = False,
    mask: bool = False, on_host: bool = False,
) -> Tensor | OnHost:
    """Floats (n, ...) in the problem's dtype; whole numbers as int64, or, as texts are large, as
    small as they are.

    With `mask`, truth values stay what they are. With `on_host`, samples stay in main memory as
    they are, and what is asked for has the dtype.

    Raises `InvalidInput` for samples of unequal shapes, masked entries, and no real numbers.
    """
    if isinstance(values, torch.utils.data.Dataset | torch.utils.data.DataLoader):
        raise InvalidInput(
            f"{what} is the {type(values).__name__}: use NeuralProblem.from_dataset(module, "
            "dataset, clients), with loader.dataset of a DataLoader, as local.SGD draws batches"
        )
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidInput(f"{what} is a masked array: fill what is masked, {what}.filled(0)")
    try:
        found = values.detach() if isinstance(values, Tensor) else _of_array(values, on_host)
        len(found)
        if found.is_complex():
            raise TypeError("they are complex")
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{what} cannot be taken ({error}): give real numbers, an array or a tensor (n, ...)"
        ) from error
    kept = (small and found.dtype in SMALL) or (mask and found.dtype == torch.bool)
    kind = dtype if found.is_floating_point() else found.dtype if kept else torch.int64
    return OnHost(found, device, kind) if on_host else found.to(device, kind)


def _of_array(values: Any, read_only: bool) -> Tensor:
    """A tensor in the array's own memory, but where torch lacks its dtype or may not write."""
    array = np.asarray(values)
    kind = array.dtype.newbyteorder("=")
    kind = np.dtype(np.float64) if kind.kind == "f" and kind.itemsize > 8 else kind
    copied = not array.flags.writeable and not read_only
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array.astype(kind, order="C", copy=copied))


def sample_numbers(what: str, clients: Iterable[Any] | Partition) -> list[np.ndarray]:
    """One int64 array (n_k,) a client, a copy of what was given, a `Partition` among it.

    Raises `InvalidInput` for masks, numbers that are not whole, and what is no sequence of
    sequences.
    """
    held = [np.asarray(c) for c in (clients.indices if isinstance(clients, Partition) else clients)]
    for k, numbers in enumerate(held):
        if not numbers.ndim or (numbers.size and numbers.dtype.kind not in "iu"):
            given = f"of dtype {numbers.dtype}" if numbers.ndim else f"the one entry {numbers}"
            raise InvalidInput(
                f"{what}: client {k}'s are {given}: give each client a sequence of sample numbers, "
                "np.flatnonzero of a mask; [np.flatnonzero(owner == k) for k in range(N)] of an "
                "array that says whose each sample is; list(clients.values()) of a dict"
            )
    return [np.array(numbers, dtype=np.int64).ravel() for numbers in held]  # torch takes none that are read-only


def check_finite(what: str, values: Any) -> None:
    """Raise `InvalidInput` that names the first NaN or infinity, in the dtype that the network
    computes in."""
    for name, tensor in named(what, values):
        for first, part in pieces(tensor) if tensor.is_floating_point() else ():
            if not part.numel() or all(bool(torch.isfinite(end)) for end in torch.aminmax(part)):
                continue  # a NaN is passed on by both ends, which take no memory
            place = torch.nonzero(~torch.isfinite(part))[0].tolist()
            where, kind = [place[0] + first, *place[1:]], str(part.dtype).removeprefix("torch.")
            raise InvalidInput(
                f"{name}{where} is {part[tuple(place)].item()} in {kind}: samples must be finite; "
                "clean or drop that entry, or rescale them"
            )


def check_held(clients: Sequence[np.ndarray], inputs: int, targets: int) -> None:
    """Raise `InvalidInput` unless there are as many inputs as targets, and every client holds some
    of them, each once."""
    if inputs != targets:
        raise InvalidInput(
            f"{inputs} inputs and {targets} targets: give one target a sample (inputs in a tuple "
            "are the module's arguments; samples one by one make a list)"
        )
    if not clients or not all(map(len, clients)):
        who = next((f"client {k}" for k, c in enumerate(clients) if not len(c)), "clients")
        raise InvalidInput(f"{who} has no samples: leave it out, or deal samples to it")
    _check_range(clients, inputs)
    for k, c in enumerate(clients):
        found, counts = np.unique(c, return_counts=True)
        if len(found) < len(c):
            told = f"client {k} names sample {found[counts.argmax()]} {counts.max()} times"
            raise InvalidInput(f"{told}: name each once; repeat a row that is to count twice")


def _check_range(clients: Sequence[np.ndarray], samples: int, kind: str = "sample") -> None:
    for k, c in enumerate(clients):
        wrong = c[(c < 0) | (c >= samples)]
        if len(wrong):
            told = f"client {k} names {kind} {wrong[0]} of {samples}"
            raise InvalidInput(f"{told}: samples count from 0")


def own_tests(test_clients: Iterable[Any], num_clients: int, samples: int) -> list[np.ndarray]:
    """Each client's test sample numbers, of so many samples: one int64 array (t_k,) a client.

    Raises `InvalidInput` for another number of clients, no samples at all, and numbers out of
    range.
    """
    own = sample_numbers("test_clients", test_clients)
    if len(own) != num_clients or not any(map(len, own)):
        given = f"{len(own)} entries, {sum(map(len, own))} samples in all"
        raise InvalidInput(f"test_clients has {given}: give {num_clients}, not all of them empty")
    _check_range(own, samples, "test sample")
    return own


def check_counted(loss: Loss, targets: Any, clients: Sequence[np.ndarray]) -> None:
    """Raise `InvalidInput` where a client has no label that counts in the loss."""
    mass = loss.mass(targets[:]) if has_labels(targets) else None
    if mass is None:
        return
    for k, held in enumerate(clients):
        if not bool((mass[torch.from_numpy(held).to(mass.device)] > 0).any()):
            raise InvalidInput(
                f"client {k}: all its labels are ignored (ignore_index), or have weight 0: leave "
                "it out, or deal it samples that count"
            )
