"""Devices and precisions by name. torch is imported only when a device is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.arrays import Array
from fedtheory.errors import InvalidInput, MissingCapability, suggest

if TYPE_CHECKING:
    import torch

__all__ = ["DTYPES", "array_like", "as_device", "as_dtype"]

DTYPES = ("float32", "float64")


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingCapability(
            "a device is torch's, which is not installed: pip install 'fedtheory[torch]', or leave the device out to run on NumPy"
        ) from error
    return torch


def _dtype_name(dtype: Any) -> str:
    name = dtype if isinstance(dtype, str) else str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise suggest(name, DTYPES, "dtype")
    return name


def as_dtype(name: str | torch.dtype) -> torch.dtype:
    """'float32' or 'float64' as a torch dtype. Raises `UnknownName` for others."""
    return getattr(_torch(), _dtype_name(name))


def as_device(name: str | torch.device) -> torch.device:
    """A device that is there.

    Raises
    ------
    MissingCapability
        torch is not installed.
    InvalidInput
        Not a device's name; CUDA where there is none, or a number beyond the last GPU.
    """
    torch = _torch()
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise InvalidInput(f"device = {name!r}: use 'cpu', 'cuda' or 'cuda:0'") from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise InvalidInput(
                f"device = {name!r}: this torch ({torch.__version__}) finds no CUDA GPU; use 'cpu', or install a CUDA build and driver"
            )
        if device.index is not None and device.index >= torch.cuda.device_count():
            raise InvalidInput(f"device = {name!r}: there are {torch.cuda.device_count()} GPUs, numbered from 0")
    elif device.type not in ("cpu", "mps") or (device.type == "mps" and not torch.backends.mps.is_available()):
        raise InvalidInput(f"device = {name!r}: use 'cpu' or 'cuda'")
    return device


def array_like(device: str | None = None, dtype: str = "float64") -> Array:
    """Return ``like`` for ``simulate(..., like=...)`` to run there.

    It is a NumPy array without a device, else a torch tensor on it.

    Raises
    ------
    InvalidInput, MissingCapability, UnknownName
        As `as_device` and `as_dtype`, before any work.
    """
    if device is None:
        return np.empty(0, dtype=_dtype_name(dtype))
    place = as_device(device)
    if place.type == "mps":
        raise InvalidInput(f"device = {device!r} has no double precision, in which uniforms are compared and F is judged: use 'cpu'")
    return _torch().empty(0, dtype=as_dtype(dtype), device=place)
