"""Closed worlds of FedElasticNet's statements: what their instances have in common."""

from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.randomness import Stream
from fedtheory.theory import Draws, Prepared, World
from fedtheory.theory.world import WorldInstance

__all__ = ["Data", "ElasticWorld", "check_everybody", "positive", "signed", "start_of"]

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
    def case_of(
        cls, problem: Any, algorithm: Any, told: str, details: Data, **options: Any
    ) -> Prepared:
        """Make a case of a user's options, with what stands above its table."""
        shown = {"name": algorithm.name, **asdict(algorithm)}
        head, details = [f"{problem.name}: {told}"], {"algorithm": shown, **details}
        return Prepared(problem, algorithm, options, head, details)

    @classmethod
    def runs(cls, plan: Any) -> list[WorldInstance]:
        """Give the instances worked out by hand, and random ones."""
        known = list(cls.by_hand.items())
        rng = Stream(plan.seed).generator(cls.draws[0].stream)
        for n in range(max(cls.size // 3, round(cls.size * plan.scale))):
            label, data = cls.draws[0].draw(rng)
            known.append((cls.numbered.format(n=n, label=label), data))
        return [cls.instance(label, data, plan.seed) for label, data in known]


def start_of(case: Any) -> np.ndarray:
    """Give theta^0 of a user's case."""
    return np.zeros(case.problem.dim) + (0.0 if case.x0 is None else np.asarray(case.x0, float))


def check_everybody(case: Any, plain: bool = True) -> None:
    """Raise `InvalidInput` unless all clients take part; in a ``plain`` mean with equal weights."""
    law, m = case.sampling or Full(), case.problem.num_clients
    if not isinstance(law, Full) and not (isinstance(law, Uniform) and law.size == m):
        raise InvalidInput(
            f"{law!r}: the statement is about rounds in which everyone takes part (Full)"
        )
    off = float(np.abs(case.problem.weights * m - 1).max())
    if plain and off > 1e-12:
        raise InvalidInput(
            f"R must be the plain mean of the losses, but the weights differ from 1/m by up to "
            f"{off:.3g}/m: use weights='uniform'"
        )


def signed(rng: Any, most: int = 12) -> Fraction:
    """Draw a fraction of either sign."""
    return Fraction(int(rng.integers(-most, most + 1)), int(rng.choice([1, 2, 4])))


def positive(rng: Any, most: int = 12) -> Fraction:
    """Draw a fraction above 0."""
    return Fraction(int(rng.integers(1, most + 1)), int(rng.choice([1, 2, 4])))
