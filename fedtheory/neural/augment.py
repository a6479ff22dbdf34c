"""Training images mirrored and cropped at random, as FedDyn's public code does it on CIFAR
(utils_dataset.py, class Dataset)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtheory.errors import InvalidInput
from fedtheory.local.objective import Rows
from fedtheory.neural.parts import Parts, described
from fedtheory.randomness import BLOCK

__all__ = ["PAD", "augmented", "check_augment", "draws", "of_row"]

PAD = 4  # zeros on every side, of the normalised image


def check_augment(augment: Any, inputs: Any) -> None:
    """Raise `InvalidInput` unless it is None, or 'flip-crop' on images (n, channels, height, width) of floats."""
    if augment not in (None, "flip-crop"):
        raise InvalidInput(f"augment = {augment!r}: use 'flip-crop', or None for the images as they are")
    if augment is not None and (isinstance(inputs, Parts) or inputs.ndim != 4 or not inputs.is_floating_point()):
        raise InvalidInput(f"augment = {augment!r} with {described('inputs', inputs)}: images are (n, channels, height, width)")


def draws(rows: Rows, n: int, b: int, samples: int, epoch: int) -> np.ndarray:
    """Draw how the samples of one row are augmented: (samples, 3), mirrored or not, offsets 0 to 8.

    The samples are in the epoch's order; the offsets say how many rows and columns are cut off.

    Half of the images are mirrored; half (drawn apart) are padded by `PAD` and cut back at a random
    place, the others in the middle. A function of (seed, round, epoch, scenario, client) alone.
    """
    u = of_row(rows, "augment", n, b, epoch, lambda g, count: g.random((count, samples, 4)))
    places = (u[:, 2:] * (2 * PAD + 1)).astype(np.int64)
    return np.concatenate([u[:, :1] > 0.5, np.where(u[:, 1:2] > 0.5, places, PAD)], axis=1).astype(np.int64)


def of_row(
    rows: Rows, purpose: str, n: int, b: int, epoch: int,
    draw: Callable[[np.random.Generator, int], np.ndarray],
) -> np.ndarray:
    """The last of draw(generator, count), whose rows are those of a block of scenarios; a function
    of (seed, purpose, round, epoch, scenario, client) alone."""
    block, inside = divmod(int(rows.scenarios[n, b]), BLOCK)
    key = (int(rows.clients[n]) << 32) | block
    return draw(rows.stream.generator(purpose, rows.round_index, epoch, key), inside + 1)[-1]


def augmented(x: Tensor, how: Tensor) -> Tensor:
    """Images (n, c, h, w) as `how` (n, 3) says, from `draws`."""
    mirrored, down, right = how.unbind(dim=1)
    height, width = x.shape[-2:]
    x = torch.where(mirrored[:, None, None, None] > 0, x.flip(-1), x)
    padded = torch.nn.functional.pad(x, (PAD, PAD, PAD, PAD)).permute(0, 2, 3, 1)
    image = torch.arange(len(x), device=x.device)[:, None, None]
    i = down[:, None, None] + torch.arange(height, device=x.device)[:, None]
    j = right[:, None, None] + torch.arange(width, device=x.device)
    return padded[image, i, j].permute(0, 3, 1, 2)
