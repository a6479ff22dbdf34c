"""A compressor of every kind, and exact numbers to compress."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from registered import compressors_beyond

from fedtheory import messages

COMPRESSORS = [
    messages.Identity(),
    messages.ST(0.3),
    messages.ST(0.3, "printed"),
    messages.ST(0.8, "printed"),
    messages.TopK(q=0.4),
    messages.RandomK(q=0.4),
    messages.RandomK(q=0.4, scaled=True),
    messages.RandomK(q=0.7, scaled=True),
    messages.Threshold(0.5),
    messages.ScaledSign(),
    messages.QSGD(1),
    messages.QSGD(2),
    messages.QSGD(5),
    messages.NaturalRounding(),
    messages.StochasticRounding(),
    messages.StochasticRounding(0.25),
]
COMPRESSORS += compressors_beyond(COMPRESSORS)
IDS = [str(c) for c in COMPRESSORS]


def fractions(values) -> np.ndarray:
    """An object array of Fractions."""
    values = np.asarray(values, dtype=object)
    out = np.empty(values.shape, dtype=object)
    for i in np.ndindex(values.shape):
        out[i] = Fraction(values[i])
    return out
