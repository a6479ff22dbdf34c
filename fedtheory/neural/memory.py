"""Limits of how much is computed at once, and the errors where that does not fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import torch

from fedtheory.algorithms.base import Algorithm
from fedtheory.errors import FedTheoryError
from fedtheory.limits import in_bytes
from fedtheory.neural.device import exact_kernels
from fedtheory.neural.flat import as_module_takes
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.trials import failed_in_a_round, failed_where_measured

__all__ = ["OutOfMemory", "computed_there", "explained", "in_chunks", "is_memory_error", "of_samples", "of_state", "rows_at_once"]


class OutOfMemory(FedTheoryError, MemoryError):
    """Memory falls short of a run's needs: one model's step, or what is kept of all clients."""


def rows_at_once(problem: NetworkOnSamples, rows: int, batch: int = 0) -> int:
    """Models trained side by side on batches of so many samples: the problem's own number, or as many as take at most an eighth of a
    GPU's whole memory.

    Not of what is free of it, which depends on what torch's allocator happens to keep: other sizes may round otherwise.
    """
    if problem.rows_at_once is not None:
        return max(1, min(rows, problem.rows_at_once))
    bytes_each = 8 * problem.dim * problem.dtype.itemsize  # parameters, gradients, penalties...
    share = 2**30
    if problem.device.type == "cuda":
        share = torch.cuda.get_device_properties(problem.device).total_memory // 8
        if batch:  # and on the way back their gradients
            bytes_each += 2 * batch * _kept_of_a_sample(problem)
    return max(1, min(rows, share // bytes_each))


_KEPT: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # by the network


def _kept_of_a_sample(problem: NetworkOnSamples) -> int:
    """Bytes that a forward pass keeps of a sample for the way back, measured once on two."""
    flat, kept = problem.flat, dict[int, int]()
    if flat not in _KEPT:
        point, few = flat.initial().requires_grad_(), problem.inputs[:2]

        def pack(a: Any) -> Any:
            storage = a.untyped_storage()
            if storage.data_ptr() != point.untyped_storage().data_ptr():
                kept[storage.data_ptr()] = min(storage.nbytes(), a.numel() * a.element_size())
            return a

        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda a: a):
            held = flat.call(point, as_module_takes(few))  # else what it keeps is freed, and its place taken by others
        _KEPT[flat] = sum(kept.values()) // len(few)
        del held
    return _KEPT[flat]


def is_memory_error(error: BaseException) -> bool:
    words = ("can't allocate memory", "not enough memory", "ALLOC_FAILED")  # the CPU's allocator, and cuBLAS and cuDNN
    return isinstance(error, torch.cuda.OutOfMemoryError | MemoryError) or any(w in str(error) for w in words)


def in_chunks(
    problem: NetworkOnSamples, total: int, size: int | None, work: Callable[[slice], Any], kind: str
) -> list[Any]:
    """work(slice) over range(total) in pieces of `size`, of models as many as `rows_at_once` where
    it is None; one that does not fit is halved, and later calls of the kind begin with the half.

    Raises `OutOfMemory` where a piece of one does not fit.
    """
    device, known = problem.device, problem.fitting
    size = rows_at_once(problem, total) if size is None else size
    size = min(size, known.get(kind, size))
    out, a = [], 0
    while a < total:
        try:
            out.append(work(slice(a, min(a + size, total))))
            a += size
            continue
        except (RuntimeError, MemoryError) as error:
            if not is_memory_error(error):
                raise
            if min(size, total - a) == 1:
                raise OutOfMemory(
                    f"one model does not fit the memory of {device}: use a smaller batch or network, dtype='float32', or another device"
                ) from error
        size = -(-min(size, total - a) // 2)
        known[kind] = size
        if device.type == "cuda":  # after the error is gone, whose traceback holds what filled the memory
            torch.cuda.empty_cache()
    return out


@contextmanager
def explained(needed: Callable[[], str], device: torch.device) -> Iterator[None]:
    """Raise `OutOfMemory`, with what was `needed`, where an allocator fails."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, FedTheoryError) or not is_memory_error(error):
            raise
        raise OutOfMemory(f"out of memory on {device}: {needed()}") from error


def of_samples(what: str, values: Any, dtype: torch.dtype) -> str:
    """Say how much memory samples take, for `explained`."""
    shape = tuple(getattr(values, "shape", (len(values),)))
    return (
        f"{what} {shape} take up to {in_bytes(math.prod(shape) * dtype.itemsize)} as {str(dtype).removeprefix('torch.')}: "
        "use fewer samples, dtype='float32', or a device with more memory"
    )


def of_state(algorithm: Algorithm, problem: NetworkOnSamples) -> str:
    """Say how much memory a method's state of all clients takes, for `explained`."""
    point = torch.empty(1, problem.dim, dtype=problem.dtype, device="meta")  # shapes without memory
    fields = [f for f in algorithm.init(point, problem.num_clients) if hasattr(f, "ndim")]
    kept = sum(f.ndim == 3 and f.shape[2] == problem.dim for f in fields)
    width = problem.dtype.itemsize
    told = f"{kept} x {problem.num_clients:,} clients x {problem.dim:,} parameters x {width} bytes" if kept else "nothing of a client"
    whole = in_bytes(sum(f.numel() for f in fields) * width)
    return (
        f"{algorithm.name} keeps {told}, its whole state takes {whole}, and a round's models come on top: use fewer "
        "clients, in all and a round, a smaller network, a method that keeps nothing of a client (FedAvg, FedProx), or another device"
    )


def computed_there(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `NeuralProblem` with the kernels of `exact_kernels`, whose memory errors say how
    much it took.

    What a user's module or loss raises in it becomes an `InvalidInput` that names the sample, and
    of `walk` round and client.
    """

    @wraps(method)
    def inside(problem: NetworkOnSamples, *args: Any, **options: Any) -> Any:
        def needed() -> str:
            models = max((a.numel() // problem.dim for a in args if isinstance(a, torch.Tensor)), default=1)
            width = problem.dtype.itemsize
            return (
                f"each copy of {models:,} models x {problem.dim:,} parameters x {width} bytes "
                f"takes {in_bytes(models * problem.dim * width)}: use fewer clients a round, a "
                "smaller network, dtype='float32', or another device"
            )

        tf32 = method.__name__ == "walk" and problem.precision == "tf32"  # what is measured stays in single precision
        with exact_kernels(problem.device, tf32), explained(needed, problem.device):
            try:
                return method(problem, *args, **options)
            except Exception as error:  # whatever a user's module or loss raises
                if isinstance(error, FedTheoryError) or is_memory_error(error):
                    raise
                if method.__name__ == "walk":
                    told = failed_in_a_round(problem, error, args[2], args[3])
                else:
                    told = failed_where_measured(problem, error, "evaluate" in method.__name__ or method.__name__ == "_tested")
                if told is error:
                    raise
                raise told from error

    return inside
