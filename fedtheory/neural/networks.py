"""The papers' networks as torch modules; `fedtheory.neural.models` lists them by name and builds them with a seed."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from fedtheory.errors import InvalidInput

__all__ = ["CharLstm", "cnn", "emnist_cnn", "logistic", "mlp", "resnet20", "resnet50", "vgg11s"]

Shape = tuple[int, ...]


def mlp(input_shape: Shape, num_classes: int, hidden: tuple[int, ...] = (200, 100)) -> nn.Sequential:
    """Fully connected layers with ReLU between them, (b, *input_shape) -> (b, num_classes)."""
    sizes = [prod(input_shape), *hidden, num_classes]
    layers: list[nn.Module] = [nn.Flatten()]
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def logistic(input_shape: Shape, num_classes: int) -> nn.Sequential:
    """Multinomial logistic regression, (b, *input_shape) -> (b, num_classes)."""
    return mlp(input_shape, num_classes, ())


def _image(input_shape: Shape, least: int, what: str) -> tuple[int, int, int]:
    if len(input_shape) != 3 or min(input_shape[1:]) < least:
        raise InvalidInput(
            f"{what} takes images (channels, height, width) of at least {least} x {least} pixels, not {input_shape}"
        )
    return input_shape[0], input_shape[1], input_shape[2]


def cnn(input_shape: Shape, num_classes: int, filters: int = 64, units: tuple[int, int] = (384, 192)) -> nn.Sequential:
    """Two 5x5 convolutions without padding, each with ReLU and 2x2 max pooling, then three linear layers."""
    channels, height, width = _image(input_shape, 16, "the CNN")
    height, width = ((size - 4) // 2 for size in (height, width))
    height, width = ((size - 4) // 2 for size in (height, width))
    return nn.Sequential(
        nn.Conv2d(channels, filters, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(filters, filters, 5),
        nn.ReLU(), nn.MaxPool2d(2), *mlp((filters, height, width), num_classes, units),
    )


def emnist_cnn(input_shape: Shape, num_classes: int, units: int = 512, filters: tuple[int, int] = (32, 64)) -> nn.Sequential:
    """Two padded 5x5 convolutions, each with ReLU and 2x2 max pooling, then two linear layers."""
    channels, height, width = _image(input_shape, 4, "the EMNIST net")
    return nn.Sequential(
        nn.Conv2d(channels, filters[0], 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(filters[0], filters[1], 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        *mlp((filters[1], height // 4, width // 4), num_classes, (units,)),
    )


def vgg11s(input_shape: Shape, num_classes: int) -> nn.Sequential:
    """VGG11 with fewer filters, no dropout and no normalisation; convolutions start with He's
    variance, or it does not train."""
    channels, height, width = _image(input_shape, 32, "VGG11")
    layers: list[nn.Module] = []
    for filters in (32, 0, 64, 0, 128, 128, 0, 128, 128, 0, 128, 128, 0):
        if filters == 0:
            layers.append(nn.MaxPool2d(2))
            continue
        convolution = nn.Conv2d(channels, filters, 3, padding=1)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(convolution.bias)
        layers += [convolution, nn.ReLU()]
        channels = filters
    return nn.Sequential(*layers, *mlp((128, height // 32, width // 32), num_classes, (128, 128)))


def _convolution(channels: int, filters: int, size: int, stride: int, groups: int) -> list[nn.Module]:
    """A convolution without bias, and its GroupNorm."""
    return [nn.Conv2d(channels, filters, size, stride, size // 2, bias=False), nn.GroupNorm(groups, filters)]


class _Subsampled(nn.Module):
    """Every `stride`-th pixel, with `pad` zero channels on both sides (He et al.'s shortcut A)."""

    def __init__(self, stride: int, pad: int) -> None:
        super().__init__()
        self.stride, self.pad = stride, pad

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.pad, self.pad))


class _Block(nn.Module):
    """ReLU of the sum of some layers and a shortcut."""

    def __init__(self, body: list[nn.Module], shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut = nn.Sequential(*body), shortcut

    def forward(self, x: Tensor) -> Tensor:
        return (self.body(x) + self.shortcut(x)).relu()


class _ResNet(nn.Module):
    """He et al.'s residual networks, (b, c, h, w) -> (b, num_classes); convolutions start with He's variance."""

    def __init__(self, stem: list[nn.Module], blocks: list[nn.Module], width: int, num_classes: int, mode: Any) -> None:
        super().__init__()
        self.stem, self.blocks = nn.Sequential(*stem), nn.Sequential(*blocks)
        self.head = nn.Linear(width, num_classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode=mode, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def _check_groups(groups: int, channels: int) -> None:
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        raise InvalidInput(f"groups is {groups!r}: it must divide {channels}, the fewest channels of a layer")


def resnet20(input_shape: Shape, num_classes: int, groups: int = 2) -> nn.Module:
    """ResNet-20 for small images, with GroupNorm; `groups` divides 16."""
    channels, _, _ = _image(input_shape, 4, "ResNet-20")
    _check_groups(groups, 16)
    blocks: list[nn.Module] = []
    for a, b in pairwise([16, *(w for w in (16, 32, 64) for _ in range(3))]):
        stride = 1 if a == b else 2
        body = [*_convolution(a, b, 3, stride, groups), nn.ReLU(), *_convolution(b, b, 3, 1, groups)]
        blocks.append(_Block(body, _Subsampled(stride, (b - a) // 2)))
    return _ResNet([*_convolution(channels, 16, 3, 1, groups), nn.ReLU()], blocks, 64, num_classes, "fan_in")


def resnet50(input_shape: Shape, num_classes: int, groups: int = 32) -> nn.Module:
    """ResNet-50 with GroupNorm in BatchNorm's place; `groups` divides 64. Wu and He (Group
    Normalization, ECCV 2018) take 32.

    The 3x3 convolution of a block takes the stride, as in torchvision's. A shortcut is projected
    where shapes differ (He et al.'s B).
    """
    channels, _, _ = _image(input_shape, 28, "ResNet-50")
    _check_groups(groups, 64)
    stem = [*_convolution(channels, 64, 7, 2, groups), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks: list[nn.Module] = []
    before = 64
    for width, times, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for stride in (first, *[1] * (times - 1)):
            body = [*_convolution(before, width, 1, 1, groups), nn.ReLU(), *_convolution(width, width, 3, stride, groups)]
            body += [nn.ReLU(), *_convolution(width, 4 * width, 1, 1, groups)]
            projection = nn.Sequential(*_convolution(before, 4 * width, 1, stride, groups))
            blocks.append(_Block(body, nn.Identity() if stride == 1 and before == 4 * width else projection))
            before = 4 * width
    return _ResNet(stem, blocks, before, num_classes, "fan_out")


class CharLstm(nn.Module):
    """Embedding, stacked LSTM, and a linear layer on its last output: (b, length) integers -> (b, num_classes).

    Parameters
    ----------
    vocabulary, embedding, hidden, layers : int
        How many characters there are, numbers each is embedded in, units a layer, layers.
    """

    def __init__(
        self, num_classes: int, vocabulary: int, embedding: int = 8, hidden: int = 100, layers: int = 2
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        outputs, _ = self.lstm(self.embedding(x.to(torch.int64)))
        return self.head(outputs[:, -1])
