"""Devices and dtypes by name, as `fedtheory.devices` has them, and how a GPU is to compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch

from fedtheory.devices import DTYPES, as_device, as_dtype

__all__ = ["DTYPES", "as_device", "as_dtype", "exact_kernels"]

# torch >= 2.9 has precisions by operation beside the flag; left alone, they would follow a global setting of the user's
_IEEE = {"fp32_precision": "ieee"} if "fp32_precision" in signature(torch.backends.cudnn.flags).parameters else {}


@contextmanager
def exact_kernels(device: torch.device) -> Iterator[None]:
    """On a GPU: single precision that is single, and kernels of cuDNN that give the same numbers every time.

    By torch's own settings cuDNN rounds the factors of float32 convolutions to the 11 binary digits of TF32, picks kernels that add
    in any order, and may be told to pick by stopwatch. Here it does none of that; what was set before is set again at the end.
    Products of matrices are torch's business (torch.backends.cuda.matmul, in single precision unless the user says otherwise).

    What may still differ from run to run in the last digits: modules with an operation that torch lists as nondeterministic
    (scatter_add, index_add, interpolate...; torch.use_deterministic_algorithms(True), which is the user's to set, refuses or replaces
    them), and recurrent layers on some versions of CUDA, unless CUBLAS_WORKSPACE_CONFIG=:4096:2 is set in the environment.

    Source: PyTorch's notes on reproducibility and on CUDA semantics, the references of torch.use_deterministic_algorithms and nn.LSTM.
    """
    if device.type != "cuda":
        yield
        return
    cudnn = torch.backends.cudnn
    try:
        settings = cudnn.flags(enabled=cudnn.enabled, benchmark=False, deterministic=True, allow_tf32=False, **_IEEE)
        settings.__enter__()
    except RuntimeError:  # the user has set precisions by operation, which the flag cannot be read beside
        with _by_operation():
            yield
        return
    try:
        yield
    finally:
        settings.__exit__(None, None, None)


@contextmanager
def _by_operation() -> Iterator[None]:
    cudnn = torch.backends.cudnn
    wanted: list[tuple[Any, str, bool | str]] = [(cudnn, "deterministic", True), (cudnn, "benchmark", False)]
    wanted += [(part, "fp32_precision", "ieee") for part in (cudnn.conv, cudnn.rnn)]
    before = [getattr(place, name) for place, name, _ in wanted]
    try:
        for place, name, value in wanted:
            setattr(place, name, value)
        yield
    finally:
        for (place, name, _), value in zip(wanted, before, strict=True):
            setattr(place, name, value)
