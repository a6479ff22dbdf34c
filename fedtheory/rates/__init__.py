"""Measured rates: slopes and contraction factors with intervals, a test between two exponents,
rounds to epsilon.

Works on plain arrays; nothing of the rest of the library is needed. See also `fedtheory.testing`,
and there what a rate cannot tell: a method whose control variates are never updated may fall like a
sound one until it is near the bias that it ends with.
"""

from fedtheory.rates.contractions import Contraction, fit_contraction
from fedtheory.rates.endings import how_it_ended
from fedtheory.rates.fits import Preference, Slope, fit_rate, fit_slope, precision_floor, prefer
from fedtheory.rates.rounds import RoundsToEpsilon, crossover, join, rounds_to_epsilon

__all__ = [
    "Contraction", "Preference", "RoundsToEpsilon", "Slope", "crossover", "fit_contraction",
    "fit_rate", "fit_slope", "how_it_ended", "join", "precision_floor", "prefer",
    "rounds_to_epsilon",
]
