"""A user's samples as tensors, and who holds which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fedtheory.errors import InvalidInput
from fedtheory.neural.flat import FlatModule
from fedtheory.neural.losses import Loss
from fedtheory.neural.parts import has_labels, named
from fedtheory.problems.partitions import Partition

__all__ = ["as_samples", "check_finite", "check_held", "check_targets", "own_tests", "sample_numbers"]

SMALL = (torch.uint8, torch.int8, torch.int16, torch.int32)


def as_samples(
    what: str, values: Any, device: torch.device, dtype: torch.dtype, small: bool = False, mask: bool = False
) -> torch.Tensor:
    """Floats (n, ...) in the problem's dtype; whole numbers as int64, or, as texts are large, as small as they are.

    With `mask`, truth values stay what they are.

    Raises `InvalidInput` for samples of unequal shapes, a single number, and what is no real
    number.
    """
    if isinstance(values, torch.utils.data.Dataset):
        raise InvalidInput(f"{what} is the Dataset {type(values).__name__}: use NeuralProblem.from_dataset(module, dataset, clients)")
    if isinstance(values, torch.utils.data.DataLoader):
        raise InvalidInput(
            f"{what} is a DataLoader: use NeuralProblem.from_dataset(module, loader.dataset, "
            "clients); batches are drawn by the local solver, local.SGD(batch_size, lr, epochs=...)"
        )
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        masked = int(np.ma.count_masked(values))
        raise InvalidInput(f"{what} is a masked array, and {masked} of its entries are masked: fill them, {what}.filled(0)")
    if isinstance(values, torch.Tensor):
        odd = {"without values (meta)": values.is_meta, "nested": values.is_nested, "quantized": values.is_quantized}
        layout = next((name for name, is_so in odd.items() if is_so), str(values.layout))
        if layout != "torch.strided":
            raise InvalidInput(
                f"{what} is a tensor that is {layout}: give a dense one with its values, "
                f"{what}.to_dense() of a sparse one, {what}.dequantize() of a quantized one"
            )
    if not isinstance(values, torch.Tensor):
        try:
            array = np.asarray(values, order="C")
        except ValueError as error:
            raise InvalidInput(f"{what} cannot be made an array ({error}): give samples of one shape, (n, ...)") from error
        kind = array.dtype
        if kind.kind not in "fiub":
            columns = dict(values.dtypes) if hasattr(values, "columns") else {}
            others = [f"{c} ({t})" for c, t in columns.items() if not str(t).startswith(("float", "int", "uint"))]
            told = f" (columns {', '.join(others[:3])}; try {what}.to_numpy('float64'))" if others else ""
            raise InvalidInput(
                f"{what} are of dtype {kind}{told}: give real numbers, an array or a tensor (n, ...); number words or classes"
            )
        kind = np.dtype(np.float64) if kind.kind == "f" and kind.itemsize > 8 else kind.newbyteorder("=")
        values = torch.from_numpy(array.astype(kind, copy=not array.flags.writeable))  # torch warns of what is read-only
    if values.is_complex():
        raise InvalidInput(f"{what} are of dtype {values.dtype}: give real numbers, as real and imaginary part in two channels")
    if values.ndim == 0:
        raise InvalidInput(f"{what} is the number {values.item()}: give one entry a sample, (n, ...)")
    values = values.detach()
    if values.is_floating_point():
        return values.to(device, dtype)
    kept = (small and values.dtype in SMALL) or (mask and values.dtype == torch.bool)
    return values.to(device, values.dtype if kept else torch.int64)


def sample_numbers(what: str, clients: Iterable[Any] | Partition) -> list[np.ndarray]:
    """One int64 array (n_k,) a client, a copy of what was given, a `Partition` among it.

    Raises `InvalidInput` for no sequence of sequences, a dict, a mask, and numbers that are not
    whole.
    """
    if isinstance(clients, Mapping):
        raise InvalidInput(f"{what} is a {type(clients).__name__}, whose keys would be read: give list({what}.values())")
    try:
        clients = clients.indices if isinstance(clients, Partition) else clients
        held = [np.asarray(c) for c in clients]
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} cannot be read ({error}): give a sequence of sample numbers for each client") from error
    for k, numbers in enumerate(held):
        if numbers.size and numbers.dtype.kind not in "iu":
            raise InvalidInput(
                f"{what}: client {k}'s are of dtype {numbers.dtype}: give sample numbers, whole ones from 0 (np.flatnonzero of a mask)"
            )
        if not numbers.ndim:
            raise InvalidInput(
                f"{what}: client {k}'s are the number {numbers}: give a sequence of sample numbers for each client (of an array that "
                "says whose each sample is, [np.flatnonzero(owner == k) for k in range(N)])"
            )
    return [np.array(numbers, dtype=np.int64).ravel() for numbers in held]  # torch takes none that are read-only


def check_finite(what: str, values: Any) -> None:
    """Raise `InvalidInput` that names the first NaN or infinity, in the dtype that the network computes in."""
    for name, tensor in named(what, values):
        _check_finite(name, tensor)


def _check_finite(what: str, values: torch.Tensor) -> None:
    if not values.is_floating_point() or not values.numel():
        return
    if all(bool(torch.isfinite(end)) for end in torch.aminmax(values)):  # which a NaN is passed on by, and takes no memory
        return
    where = torch.nonzero(~torch.isfinite(values))[0].tolist()
    kind = str(values.dtype).removeprefix("torch.")
    raise InvalidInput(
        f"{what}{where} is {values[tuple(where)].item()} in {kind}: samples must be finite; clean or drop that entry, or rescale them"
    )


def check_held(clients: Sequence[np.ndarray], inputs: int, targets: int, a_tuple: bool = False) -> None:
    """Raise `InvalidInput` unless there are as many inputs as targets, and every client holds some of them."""
    if inputs != targets:
        told = " (inputs are a tuple, and so the module's arguments; samples one by one make a list)" if a_tuple else ""
        raise InvalidInput(f"{inputs} inputs and {targets} targets: give one target a sample{told}")
    if not clients:
        raise InvalidInput("clients is empty: give the sample numbers of at least one client")
    for k, c in enumerate(clients):
        if len(c) == 0:
            raise InvalidInput(f"client {k} has no samples: leave it out, or deal samples to it")
        if c.min() < 0 or c.max() >= inputs:
            wrong = int(c.min() if c.min() < 0 else c.max())
            raise InvalidInput(f"client {k} names sample {wrong} of {inputs}: samples count from 0")
        found, counts = np.unique(c, return_counts=True)
        if len(found) < len(c):
            told = f"names sample {found[counts.argmax()]} {counts.max()} times"
            raise InvalidInput(f"client {k} {told}: name each once; to count one more than once, repeat its row")


def own_tests(test_clients: Iterable[Any], num_clients: int, samples: int) -> list[np.ndarray]:
    """Each client's test sample numbers, of so many samples: one int64 array (t_k,) a client, not all of them empty.

    Raises `InvalidInput` for another number of clients, no samples at all, and numbers out of
    range.
    """
    own = sample_numbers("test_clients", test_clients)
    if len(own) != num_clients or not any(map(len, own)):
        given = f"{len(own)} entries, {sum(map(len, own))} samples in all"
        raise InvalidInput(f"test_clients has {given}: give {num_clients}, not all of them empty")
    for k, c in enumerate(own):
        if len(c) and not 0 <= c.min() <= c.max() < samples:
            wrong = int(c.min() if c.min() < 0 else c.max())
            raise InvalidInput(f"test_clients: client {k} names test sample {wrong} of {samples}: samples count from 0")
    return own


def check_targets(flat: FlatModule, loss: Loss, inputs: Any, sets: Mapping[str, Any], clients: Sequence[np.ndarray]) -> None:
    """Raise `InvalidInput` unless all labels are the number of a class, or ignored, and every client has one that counts.

    Parameters
    ----------
    inputs : a few samples
    sets : the targets of each set of samples; those of the clients' are the first
    """
    if loss.labels is None:
        return
    axis, ignored = loss.labels
    with torch.no_grad():
        try:
            classes = flat.call(flat.initial(), inputs).shape[axis]
        except Exception:  # which `check_model` tells
            return
    for where, given in sets.items():
        if not has_labels(given):  # probabilities
            continue
        labels = given if ignored is None else given[given != ignored]
        least, most = (int(labels.min()), int(labels.max())) if len(labels) else (0, 0)
        if least < 0 or most >= classes:
            wrong = least if least < 0 else most
            at = int(torch.nonzero(given == wrong)[0, 0])
            raise InvalidInput(
                f"{where}: a label is {wrong}, and the module has {classes} outputs: use 0 to {classes - 1}; it is that of sample {at}"
            )
    targets = next(iter(sets.values()))
    mass = loss.mass(targets) if has_labels(targets) else None
    if mass is None:
        return
    for k, held in enumerate(clients):
        if not bool((mass[torch.from_numpy(held).to(mass.device)] > 0).any()):
            raise InvalidInput(
                f"client {k}: all its labels are ignored (ignore_index = {ignored}), or have "
                "weight 0: leave it out, or deal it samples that count"
            )
