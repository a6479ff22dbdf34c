"""Data for networks, read from the public releases' own files in a folder that the user names; NumPy only."""

from fedtheory.neural.data.cifar import load_cifar10, load_cifar100
from fedtheory.neural.data.cinic import load_cinic10
from fedtheory.neural.data.core import Corpus, Data, FeatureData, ImageData, Sentences, digits, federated
from fedtheory.neural.data.femnist import load_femnist
from fedtheory.neural.data.idx import load_emnist_letters, load_mnist, read_idx
from fedtheory.neural.data.leaf import load_leaf
from fedtheory.neural.data.sentiment import load_sentiment140
from fedtheory.neural.data.shakespeare import load_shakespeare

__all__ = [
    "Corpus", "Data", "FeatureData", "ImageData", "Sentences", "digits", "federated",
    "load_cifar10", "load_cifar100", "load_cinic10", "load_emnist_letters", "load_femnist",
    "load_leaf", "load_mnist", "load_sentiment140", "load_shakespeare", "read_idx",
]
