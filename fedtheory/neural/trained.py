"""The module that a user gave, kept as it came, and filled with trained parameters."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_array
from fedtheory.neural.device import as_device
from fedtheory.neural.flat import FlatModule

__all__ = ["GivenModule"]


class GivenModule:
    """A module as it was given, with its own device, dtypes and modes, of which copies with other parameters are made.

    Parameters
    ----------
    module : torch.nn.Module
        It is kept, not copied.
    flat : FlatModule
        Which of its parameters a point (d,) stands for.
    """

    def __init__(self, module: nn.Module, flat: FlatModule) -> None:
        self.module, self._type = module, type(module).__name__
        self._pieces = list(zip(flat.names, flat.shapes, flat.offsets[:-1], flat.offsets[1:], strict=True))
        self.dim = flat.dim

    def filled(self, x: Any, device: Any = None, dtype: Any = None) -> nn.Module:
        """A copy with the parameters x (d,) or (1, d), on another device or of another
        floating-point dtype where one is named.

        Raises
        ------
        InvalidInput
            x of another shape; no such device or dtype.
        """
        kind = _floating(dtype)
        where = None if device is None else as_device(device)
        point = x.detach() if isinstance(x, torch.Tensor) else torch.tensor(real_array("x", x, finite=False))
        if point.shape not in ((self.dim,), (1, self.dim)):
            raise InvalidInput(
                f"x has shape {tuple(point.shape)}: {self._type} is made of one point, "
                f"({self.dim},) or (1, {self.dim}); of several give one row"
            )
        made, point = copy.deepcopy(self.module), point.reshape(-1)
        own = dict(made.named_parameters())
        with torch.no_grad():
            for name, shape, first, last in self._pieces:
                own[name].copy_(point[first:last].reshape(shape))
        return made.to(device=where, dtype=kind)


def _floating(dtype: Any) -> torch.dtype | None:
    """A floating-point dtype, by itself or by name; None stays None."""
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is None or (isinstance(found, torch.dtype) and found.is_floating_point):
        return found
    raise InvalidInput(f"dtype = {dtype!r}: use a floating-point dtype of torch, such as 'float32', or None for the module's own")
