"""Devices and dtypes by name, as `fedtheory.devices` has them, and how a GPU is to compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from inspect import signature
from typing import Any

import torch

from fedtheory.devices import DTYPES, as_device, as_dtype
from fedtheory.errors import InvalidInput

__all__ = ["DTYPES", "PRECISIONS", "as_device", "as_dtype", "check_precision", "exact_kernels"]

PRECISIONS = ("highest", "tf32")


@cache
def _by_operation_too() -> bool:
    """True for torch >= 2.9, which has precisions by operation beside the flag.

    Left alone, they would follow a global setting of the user's.
    """
    return "fp32_precision" in signature(torch.backends.cudnn.flags).parameters


def check_precision(precision: Any, device: torch.device, dtype: torch.dtype) -> str:
    """Raise `InvalidInput` unless it is 'highest', or 'tf32' for float32 on a CUDA device."""
    if precision not in PRECISIONS:
        raise InvalidInput(f"precision = {precision!r}: use {' or '.join(map(repr, PRECISIONS))}")
    if precision == "tf32" and (device.type != "cuda" or dtype != torch.float32):
        kind = str(dtype).removeprefix("torch.")
        raise InvalidInput(
            f"precision = 'tf32' for {kind} on {device}: only GPUs of NVIDIA round the factors of "
            "float32 products so; leave it out, or use device='cuda' with dtype='float32'"
        )
    return precision


@contextmanager
def exact_kernels(device: torch.device, tf32: bool = False) -> Iterator[None]:
    """On a GPU: single precision that is single, unless tf32, and kernels of cuDNN that give the
    same numbers every time.

    By torch's own settings cuDNN rounds the factors of float32 convolutions to the 11 binary digits
    of TF32, picks kernels that add in any order, and may be told to pick by stopwatch. Here it does
    none of that; what was set before is set again at the end. Products of matrices are in single
    precision too, whatever was set; with tf32 both round their factors.

    What may still differ from run to run in the last digits: modules with an operation that torch
    lists as nondeterministic (scatter_add, index_add, interpolate...;
    torch.use_deterministic_algorithms(True), which is the user's to set, refuses or replaces them),
    and recurrent layers on some versions of CUDA, unless CUBLAS_WORKSPACE_CONFIG=:4096:2 is set in
    the environment.

    Source: PyTorch's notes on reproducibility and on CUDA semantics, the references of
    torch.use_deterministic_algorithms and nn.LSTM.
    """
    if device.type != "cuda":
        yield
        return
    cudnn, own = torch.backends.cudnn, {"fp32_precision": _name(tf32)} if _by_operation_too() else {}
    # streams and recordings are made on torch's current GPU, which need not be this one
    there = nullcontext() if device.index is None else torch.cuda.device(device)
    with there, _products(tf32):
        try:
            settings = cudnn.flags(enabled=cudnn.enabled, benchmark=False, deterministic=True, allow_tf32=tf32, **own)
            settings.__enter__()
        except RuntimeError:  # the user has set precisions by operation, which the flag cannot be read beside
            with _by_operation(tf32):
                yield
            return
        try:
            yield
        finally:
            settings.__exit__(None, None, None)


def _name(tf32: bool) -> str:
    return "tf32" if tf32 else "ieee"


@contextmanager
def _products(tf32: bool) -> Iterator[None]:
    """The precision of products of matrices in float32."""
    matmul = torch.backends.cuda.matmul
    attribute, wanted = ("fp32_precision", _name(tf32)) if _by_operation_too() else ("allow_tf32", tf32)
    before = getattr(matmul, attribute)
    setattr(matmul, attribute, wanted)
    try:
        yield
    finally:
        setattr(matmul, attribute, before)


@contextmanager
def _by_operation(tf32: bool) -> Iterator[None]:
    cudnn = torch.backends.cudnn
    wanted: list[tuple[Any, str, bool | str]] = [(cudnn, "deterministic", True), (cudnn, "benchmark", False)]
    wanted += [(part, "fp32_precision", _name(tf32)) for part in (cudnn.conv, cudnn.rnn)]
    before = [getattr(place, name) for place, name, _ in wanted]
    try:
        for place, name, value in wanted:
            setattr(place, name, value)
        yield
    finally:
        for (place, name, _), value in zip(wanted, before, strict=True):
            setattr(place, name, value)
