"""Data as every loader returns them: training and test samples, the release's clients, inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedtheory.arrays import OwnArrays
from fedtheory.errors import InvalidInput
from fedtheory.problems.partitions import Partition, balanced_iid, classes_per_client, dirichlet, iid

__all__ = ["Corpus", "Data", "ImageData", "digits", "federated", "pixel_moments"]


@dataclass(frozen=True, eq=False)
class Data(OwnArrays):
    """Samples for a classifier, as small as the release stores them.

    The arrays are read-only. Those handed in are copied unless they are read-only already.
    `torch.tensor(data.train_y)` makes a tensor that may be written to.

    Attributes
    ----------
    name : str
    train_x, test_x : (n, ...), (m, ...)
    train_y, test_y : (n,), (m,) int64, labels 0..num_classes-1
    num_classes : int
    users : tuple of str
        The release's own clients; empty when it is not federated.
    train_users, test_users : (n,), (m,) int32
        Which of them each sample belongs to; empty when there are none.
    source : str
        What was read, and what was done to it.

    Raises
    ------
    InvalidInput
        Shapes that disagree, no training samples, a label out of range, samples of no user.
    """

    name: str
    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    num_classes: int
    users: tuple[str, ...] = ()
    train_users: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    test_users: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    source: str = ""

    def __post_init__(self) -> None:
        def refuse(said: str) -> None:
            raise InvalidInput(f"{self.name}: {said}")

        for part, x, y, u in (
            ("train", self.train_x, self.train_y, self.train_users),
            ("test", self.test_x, self.test_y, self.test_users),
        ):
            if x.ndim < 2 or y.shape != x.shape[:1] or x.shape[1:] != self.train_x.shape[1:]:
                refuse(f"{part}_x {x.shape} and {part}_y {y.shape}: expected (n, ...) and (n,)")
            if y.dtype != np.int64:
                refuse(f"{part}_y is of type {y.dtype}: labels must be int64")
            if len(wrong := y[(y < 0) | (y >= self.num_classes)]):
                refuse(f"a {part} label is {wrong[0]}: labels must be 0..{self.num_classes - 1}")
            if self.users and (u.shape != y.shape or ((u < 0) | (u >= len(self.users))).any()):
                refuse(f"{part}_users must name one of {len(self.users)} users for each sample")
        if not len(self.train_y):
            refuse("no training samples")
        super().__post_init__()

    @property
    def num_train(self) -> int:
        return len(self.train_y)

    @property
    def num_test(self) -> int:
        return len(self.test_y)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample, as the network takes it."""
        return tuple(self.train_x.shape[1:])

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Stored samples as the network takes them."""
        raise NotImplementedError

    def by_user(self) -> Partition:
        """The training samples dealt as the release deals them, one client a user, in the order of `users`.

        Raises
        ------
        InvalidInput
            When the release is not federated.
        """
        if not self.users:
            raise InvalidInput(f"{self.name} is not federated by its release: use 'iid', 'dirichlet' or 'classes'")
        order = np.argsort(self.train_users, kind="stable")
        ends = np.cumsum(np.bincount(self.train_users, minlength=len(self.users)))
        return Partition(tuple(np.split(order, ends[:-1])), "users", {"num_clients": len(self.users)})


@dataclass(frozen=True, eq=False)
class ImageData(Data):
    """Images (n, channels, height, width) of bytes.

    Attributes
    ----------
    scale : float
        The largest byte value of the release; a pixel is byte / scale.
    mean, std : (channels,) tuples of float
        Of the pixels in [0, 1]; what `inputs` subtracts and divides by.
    """

    scale: float = 255.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.train_x.ndim != 4 or self.train_x.dtype != np.uint8:
            raise InvalidInput(
                f"{self.name}: images are {self.train_x.shape} {self.train_x.dtype}: expected (n, c, h, w) uint8"
            )
        channels = self.train_x.shape[1]
        if len(self.mean) != channels or len(self.std) != channels or not min(self.std) > 0:
            raise InvalidInput(
                f"{self.name}: mean {self.mean} and std {self.std}: give one each of {channels} channels, std > 0"
            )

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """(k, c, h, w) uint8 -> float32: (byte / scale - mean) / std, channel by channel."""
        factor = np.array([1 / (self.scale * s) for s in self.std], np.float32)[:, None, None]
        shift = np.array([m / s for m, s in zip(self.mean, self.std)], np.float32)[:, None, None]
        out = x * factor
        out -= shift  # in place: on CIFAR a second array is 600 MB
        return out


@dataclass(frozen=True, eq=False)
class Corpus(Data):
    """Text cut into windows: train_x, test_x (n, length) uint8 numbers of characters; the label is the next character.

    Attributes
    ----------
    vocabulary : str
        Character number i is vocabulary[i].
    unknown : int
        How many characters of the text were not in the vocabulary (read as its last one).
    """

    vocabulary: str = ""
    unknown: int = 0

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """(k, length) uint8 -> int64, which is what embeddings take."""
        return x.astype(np.int64)

    def text(self, x: np.ndarray) -> str:
        """The characters of one window (length,)."""
        return "".join(self.vocabulary[int(i)] for i in np.atleast_1d(x))


def pixel_moments(images: np.ndarray, scale: float = 255.0) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of byte / scale in each channel of (n, c, h, w) uint8, from exact integer counts."""
    values = np.arange(256.0) / scale
    mean, std = [], []
    for c in range(images.shape[1]):
        share = np.zeros(256)
        for start in range(0, len(images), 4096):  # bincount makes an int64 copy
            share += np.bincount(images[start : start + 4096, c].ravel(), minlength=256)
        share /= share.sum()
        centre = float(share @ values)
        mean.append(centre)
        std.append(float(np.sqrt(share @ (values - centre) ** 2)))
    return tuple(mean), tuple(std)


def digits(test_fraction: float = 0.2, seed: int = 0) -> ImageData:
    """scikit-learn's digits, without a download: 1,797 images of 8 x 8 pixels 0..16, 10 classes.

    They come without a test set: one is drawn, stratified by label. Normalised by the mean and standard deviation of all
    training pixels.

    Raises
    ------
    InvalidInput
        test_fraction not between 0 and 1.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    if not 0 < test_fraction < 1:
        raise InvalidInput(f"test_fraction is {test_fraction!r}: it must be between 0 and 1")
    raw = load_digits()
    x = raw.images.astype(np.uint8)[:, None]
    y = raw.target.astype(np.int64)
    train_x, test_x, train_y, test_y = train_test_split(x, y, test_size=test_fraction, random_state=seed, stratify=y)
    mean, std = pixel_moments(train_x, 16.0)
    source = f"scikit-learn's digits; {test_fraction:g} of each class for testing (seed {seed})"
    return ImageData("digits", train_x, train_y, test_x, test_y, 10, source=source, scale=16.0, mean=mean, std=std)


def federated(
    data: Data, partition: str = "iid", num_clients: int = 100, seed: int = 0, *,
    alpha: float | None = None, sigma: float = 0.0, classes: int | None = None,
) -> Partition:
    """The training samples dealt to clients; `.indices` holds one index array into `train_x` a
    client.

    Parameters
    ----------
    partition : 'iid', 'iid-balanced', 'dirichlet', 'classes' or 'users'
        'iid-balanced' gives everyone as many samples of each class; 'dirichlet' needs `alpha` (the
        papers: 0.3 and 0.6); 'classes' needs `classes`, how many each client holds; 'users' is the
        release's own, with all its users (num_clients is not looked at).
    sigma : float
        Sizes: 0 equal, else lognormal ('iid' and 'dirichlet').

    Raises
    ------
    InvalidInput
        An unknown partition; a parameter that it needs and lacks, or does not take; whatever the
        partition refuses.
    """
    takes = {"iid": {"sigma"}, "iid-balanced": set(), "dirichlet": {"alpha", "sigma"}, "classes": {"classes"}, "users": set()}
    if partition not in takes:
        raise InvalidInput(f"partition is {partition!r}: use 'iid', 'iid-balanced', 'dirichlet', 'classes' or 'users'")
    given = {"alpha": alpha is not None, "classes": classes is not None, "sigma": sigma != 0}
    for name, present in given.items():
        if present and name not in takes[partition]:
            raise InvalidInput(f"{name} is given, but the partition {partition!r} does not take it: leave it out")
        if not present and name in takes[partition] - {"sigma"}:
            raise InvalidInput(f"the partition {partition!r} needs {name}: pass it")
    if partition == "users":
        return data.by_user()
    if partition == "iid":
        return iid(data.num_train, num_clients, sigma, seed)
    if partition == "iid-balanced":
        return balanced_iid(data.train_y, num_clients, seed)
    if alpha is not None:
        return dirichlet(data.train_y, num_clients, alpha, sigma, seed)
    return classes_per_client(data.train_y, num_clients, int(classes or 0), seed)
