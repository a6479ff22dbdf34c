"""Messages over the wire: how they are compressed and encoded, and how much there is of them."""

from fedtheory.messages.base import Compressor
from fedtheory.messages.compressors import (
    QSGD,
    ST,
    Identity,
    NaturalRounding,
    RandomK,
    ScaledSign,
    StochasticRounding,
    Threshold,
    TopK,
    get,
    names,
)
from fedtheory.messages.encoders import Encoded
from fedtheory.messages.measures import entropy_bits, nonzeros

__all__ = [
    "QSGD",
    "ST",
    "Compressor",
    "Encoded",
    "Identity",
    "NaturalRounding",
    "RandomK",
    "ScaledSign",
    "StochasticRounding",
    "Threshold",
    "TopK",
    "entropy_bits",
    "get",
    "names",
    "nonzeros",
]
