"""The numbers that problems are drawn with, and problems in other units: curvatures, positions and
starts some orders of magnitude larger or smaller.

What a theorem says does not depend on units, but where a method brings a length or a curvature of
its own (a step size, a proximal weight) the worst problem may be a large or a small one.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fedtheory.theory.rounds.instances import Draw

__all__ = [
    "CURVATURES", "DEPTHS", "POSITIONS", "POWERS", "WIDTHS", "in_other_units", "rescaled", "simple"
]

CURVATURES = [
    Fraction(v) for v in ("1", "1", "1", "1/2", "2", "1/4", "1/10", "0", "1/100", "3", "1/1000")
]
POSITIONS = [
    Fraction(v)
    for v in ("0", "0", "1", "-1", "2", "-2", "1/2", "-1/2", "3", "-3", "10", "-10", "1/10")
]
WIDTHS = [Fraction(v) for v in ("1", "1/2", "1/4", "1/3", "1/10", "1/7", "2", "1/20")]
# of a well: how much curvature is taken away inside
DEPTHS = [Fraction(v) for v in ("2", "2", "3/2", "3", "5/4", "5")]
# of ten: short numbers stay short
POWERS = [Fraction(10) ** k for k in (-3, -2, -1, 1, 1, 2, 2, 3, 4)]
# no number is made larger than that, or smaller than its inverse, by rescaling
EXTREME = Fraction(10) ** 6


def simple(
    rng: np.random.Generator, special: list[Fraction], spread: float = 2.0, positive: bool = False
) -> Fraction:
    """A special number, or any with a small denominator."""
    if rng.random() < 0.6:
        return special[int(rng.integers(len(special)))]
    value = Fraction(float(rng.normal(0, spread))).limit_denominator(16)
    return abs(value) if positive else value


def rescaled(instance: Draw, what: str, factor: Fraction) -> Draw:
    """The same problem in other units: every curvature and slope times a factor, every position
    (the start among them), or the start alone.

    what : 'curvature', 'position' or 'start'; factor > 0
    """
    names = {
        "curvature": ("h", "m", "a"), "position": ("c", "delta", "start"), "start": ("start",)
    }[what]
    times = np.frompyfunc(lambda v: None if v is None else v * factor, 1, 1)
    scaled = {name: times(getattr(instance, name)) for name in names}
    sizes = [abs(v) for values in scaled.values() for v in values.ravel() if v]
    far = bool(sizes) and (max(sizes) > EXTREME or min(sizes) * EXTREME < 1)
    return instance if far else instance.changed(**scaled)


def in_other_units(instance: Draw, rng: np.random.Generator) -> Draw:
    """A problem of short numbers, often with its curvatures, its positions or its start some orders
    of magnitude larger or smaller."""
    for what, share in (("curvature", 0.35), ("position", 0.2), ("start", 0.1)):
        if rng.random() < share:
            instance = rescaled(instance, what, POWERS[int(rng.integers(len(POWERS)))])
    return instance
