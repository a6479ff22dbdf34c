"""The papers' networks as torch modules; `fedtheory.neural.models` lists them by name and builds them with a seed."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

from fedtheory.errors import InvalidInput

__all__ = ["CharLstm", "ResNet20", "ResNet50", "WordLstm", "cnn", "emnist_cnn", "logistic", "mlp", "vgg11s"]

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


class _Block(nn.Module):
    """Two 3x3 convolutions with GroupNorm, and a shortcut that subsamples and pads with zero channels (He et al.'s A)."""

    def __init__(self, channels: int, filters: int, stride: int, groups: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.first_norm = nn.GroupNorm(groups, filters)
        self.second = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.second_norm = nn.GroupNorm(groups, filters)
        self.stride, self.pad = stride, filters - channels

    def forward(self, x: Tensor) -> Tensor:
        y = self.first_norm(self.first(x)).relu()
        y = self.second_norm(self.second(y))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.pad:
            shortcut = nn.functional.pad(shortcut, (0, 0, 0, 0, self.pad // 2, self.pad - self.pad // 2))
        return (y + shortcut).relu()


class ResNet20(nn.Module):
    """He et al.'s ResNet-20 for small images with GroupNorm, (b, c, h, w) -> (b, num_classes).

    Parameters
    ----------
    groups : int
        Of each GroupNorm; a divisor of 16.
    """

    def __init__(self, input_shape: Shape, num_classes: int, groups: int = 2) -> None:
        super().__init__()
        channels, _, _ = _image(input_shape, 4, "ResNet-20")
        if not isinstance(groups, int) or groups < 1 or 16 % groups:
            raise InvalidInput(f"groups is {groups!r}: it must divide 16, the fewest channels of a layer")
        self.stem = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.stem_norm = nn.GroupNorm(groups, 16)
        widths = [16, *(w for w in (16, 32, 64) for _ in range(3))]
        self.blocks = nn.Sequential(*(_Block(a, b, 1 if a == b else 2, groups) for a, b in pairwise(widths)))
        self.head = nn.Linear(64, num_classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem_norm(self.stem(x)).relu())
        return self.head(x.mean(dim=(2, 3)))


class _Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with GroupNorm, and a shortcut that is projected where shapes differ (He et al.'s B)."""

    def __init__(self, channels: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.GroupNorm(groups, width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.GroupNorm(groups, width),
            nn.ReLU(), nn.Conv2d(width, out, 1, bias=False), nn.GroupNorm(groups, out),
        )
        same = stride == 1 and channels == out
        projection = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.GroupNorm(groups, out))
        self.shortcut: nn.Module = nn.Identity() if same else projection

    def forward(self, x: Tensor) -> Tensor:
        return (self.body(x) + self.shortcut(x)).relu()


class ResNet50(nn.Module):
    """He et al.'s ResNet-50 with GroupNorm in BatchNorm's place, (b, c, h, w) -> (b, num_classes).

    The 3x3 convolution of a block takes the stride, as in torchvision's.

    Parameters
    ----------
    groups : int
        Of each GroupNorm; a divisor of 64. Wu and He (Group Normalization, ECCV 2018) take 32.
    """

    def __init__(self, input_shape: Shape, num_classes: int, groups: int = 32) -> None:
        super().__init__()
        channels, _, _ = _image(input_shape, 28, "ResNet-50")
        if not isinstance(groups, int) or groups < 1 or 64 % groups:
            raise InvalidInput(f"groups is {groups!r}: it must divide 64, the fewest channels of a layer")
        self.stem = nn.Sequential(
            nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.GroupNorm(groups, 64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, before = [], 64
        for width, times, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(times):
                blocks.append(_Bottleneck(before, width, stride if i == 0 else 1, groups))
                before = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, num_classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


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


class WordLstm(CharLstm):
    """The same for texts of unequal length: 0 pads them on the right, and the linear layer reads
    the output after the last word.

    What follows the last word changes nothing: neither outputs nor gradients, and the embedding of
    0 has none.
    """

    def forward(self, x: Tensor) -> Tensor:
        outputs, _ = self.lstm(self.embedding(x.to(torch.int64)))
        last = (x != 0).sum(dim=1).clamp(min=1) - 1
        return self.head(outputs.take_along_dim(last[:, None, None], dim=1)[:, 0])
