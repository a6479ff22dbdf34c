"""Closed worlds of FedElasticNet's statements: what their instances have in common."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from fedtheory.randomness import Stream
from fedtheory.theory.world import Draws, World, WorldInstance

__all__ = ["Data", "ElasticWorld", "positive", "signed"]

Data = dict[str, Any]


class ElasticWorld(World):
    """An instance whose data the subclass draws by ``draw``.

    Attributes
    ----------
    size : random instances of a full campaign
    stream : what names their randomness, before the kind
    numbered : their labels, of the number ``n`` and the ``label`` that was drawn; '' of a world
        whose draws may be refused, so that a campaign draws them
    by_hand : instances where a bound is attained or a claim breaks: label -> data
    """

    size: ClassVar[int]
    stream: ClassVar[str] = "fedelasticnet "
    numbered: ClassVar[str] = "number {n}"
    by_hand: ClassVar[Mapping[str, Data]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        """Name its scope and its draws after its kind."""
        cls.scope = cls.kind
        if "draw" in vars(cls):
            drawn = cls.stream + cls.kind, cls.draw  # type: ignore[attr-defined]
            cls.draws = (Draws(*drawn, 0 if cls.numbered else cls.size),)
        super().__init_subclass__(**more)

    @classmethod
    def runs(cls, plan: Any) -> list[WorldInstance]:
        """Give the instances worked out by hand, and random ones."""
        known = list(cls.by_hand.items())
        rng = Stream(plan.seed).generator(cls.draws[0].stream)
        for n in range(max(cls.size // 3, round(cls.size * plan.scale))):
            label, data = cls.draws[0].draw(rng)
            known.append((cls.numbered.format(n=n, label=label), data))
        return [cls.instance(label, data, plan.seed) for label, data in known]


def signed(rng: Any, most: int = 12) -> Fraction:
    """Draw a fraction of either sign."""
    return Fraction(int(rng.integers(-most, most + 1)), int(rng.choice([1, 2, 4])))


def positive(rng: Any, most: int = 12) -> Fraction:
    """Draw a fraction above 0."""
    return Fraction(int(rng.integers(1, most + 1)), int(rng.choice([1, 2, 4])))
