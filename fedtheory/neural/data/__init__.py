"""Data for networks, read from the public releases' own files in a folder that the user names; NumPy only."""

from fedtheory.neural.data.cifar import load_cifar10, load_cifar100
from fedtheory.neural.data.core import Corpus, Data, ImageData, digits, federated
from fedtheory.neural.data.idx import load_emnist_letters, load_mnist, read_idx
from fedtheory.neural.data.shakespeare import load_shakespeare

__all__ = [
    "Corpus", "Data", "ImageData", "digits", "federated", "load_cifar10", "load_cifar100",
    "load_emnist_letters", "load_mnist", "load_shakespeare", "read_idx",
]  # fmt: skip
