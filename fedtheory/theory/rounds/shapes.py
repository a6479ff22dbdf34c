"""A view whose axes have several lengths, on which sides of unequal shapes do not fit by chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.randomness import Stream
from fedtheory.theory.rounds.forms import Undefined
from fedtheory.theory.rounds.losses import Unbounded
from fedtheory.theory.rounds.oracles import SeparableWorld

__all__ = ["wide_view"]

DRAWN = 12
STARTS = 5.0


def wide_view(setting: Any) -> Any:
    """A view of a `MethodSetting` in floats, with the most coordinates (at most three) of some instances and, of a round,
    five starts; None where that instance cannot be run."""
    rng = Stream(0).generator("authoring wide probe")
    try:
        instance = max((setting.random_instance(rng) for _ in range(DRAWN)), key=lambda i: (min(i.dim, 3), -i.num_clients))
        if setting.scope != "round":
            return setting.view(instance, exact=False)
        starts = instance.start.astype(float) + np.arange(STARTS)[:, None] / 8
        world = SeparableWorld(instance.losses(False), starts[0])
        return setting._round(world, starts, setting.law(instance), instance.rounds, instance.before, instance.drawn)
    except (Unbounded, Undefined):
        return None
