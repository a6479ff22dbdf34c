"""Numbers of instances in fractions: read from files, drawn, and held as sides."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.randomness import Stream
from fedtheory.theorems.fedmls import lines
from fedtheory.theory import Draws, World, anything, derived, number, whole
from fedtheory.theory.fields import read


# --- as sides -------------------------------------------------------------------------------------
def entry(value: Any) -> np.ndarray:
    """One number as a side (1, 1), fractions kept as they are."""
    out = np.empty((1, 1), dtype=object if isinstance(value, Fraction | int) else float)
    out[0, 0] = value
    return out


def column(values: Sequence[Any]) -> np.ndarray:
    """Numbers as a side (n, 1)."""
    return np.concatenate([entry(v) for v in values])


# --- from the data of a file ----------------------------------------------------------------------
def on_interval(most_rounds: int, D: bool = True) -> dict[str, Any]:
    """Declare losses on an interval, a row of slopes and of offsets a client, and its numbers."""
    of_a_client = "a row of pieces for every client"
    return {
        "slopes": anything(of_a_client), "offsets": anything(of_a_client), "lam": number(above=0),
        **({"D": number(above=0)} if D else {}), "radius": number(above=0), "x0": number(),
        "rounds": whole(1, most_rounds),
    }  # fmt: skip


def read_fields(declared: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Read declared fields of data of no world's own."""
    return read({name: one.metadata["read"] for name, one in declared.items()}, data)


def g_sq_of(clients: Sequence[lines.Lines], radius: Fraction) -> Fraction:
    """G^2, the mean of the squared lengths of the longest subgradients on the ball."""
    return lines.mean([lines.steepest(c, radius) ** 2 for c in clients])


def clients_on_ball(slopes: Any, offsets: Any, radius: Any, x0: Any) -> tuple[lines.Lines, ...]:
    """The losses of a run. Raises `InvalidInput` for a start outside the ball."""
    if abs(x0) > radius:
        raise InvalidInput(f"x_0 = {x0} is outside the ball of radius {radius}: start inside")
    return lines.read_losses(slopes, offsets)


# --- drawn ----------------------------------------------------------------------------------------
def quarter(rng: Any, most: int = 8) -> Fraction:
    """A multiple of 1/4 from -most/4 to most/4."""
    return Fraction(int(rng.integers(-most, most + 1)), 4)


def losses(rng: Any, clients: int) -> dict[str, Any]:
    """Slopes and offsets of one to three pieces for every client, the first slope not 0."""
    out: dict[str, Any] = {"slopes": [], "offsets": []}
    for _ in range(clients):
        pieces = int(rng.integers(1, 4))
        first, *others = (quarter(rng, 12) for _ in range(pieces))
        out["slopes"].append([first or Fraction(1), *others])
        out["offsets"].append([quarter(rng, 4) for _ in range(pieces)])
    return out


def lam(rng: Any) -> Fraction:
    """A lambda from 1/64 to 8."""
    return Fraction(int(rng.integers(1, 33)), int(rng.choice([4, 16, 64])))


# --- worlds ---------------------------------------------------------------------------------------
class InFractions(World):
    """Instances in fractions of one paper: how many are drawn for a campaign, and fixed ones.

    Attributes
    ----------
    count : how many a full campaign draws, each from a stream of its own
    fixed : (label, data) of others, so that every form has an instance
    """

    count: ClassVar[int] = 24
    fixed: ClassVar[tuple[tuple[str, dict[str, Any]], ...]] = ()

    def __init_subclass__(cls, **more: Any) -> None:
        """Name its stream of randomness."""
        super().__init_subclass__(**more)
        if "kind" in vars(cls):
            cls.draws = (Draws(f"fedmls {cls.kind}", cls.draw, 0),)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, dict[str, Any]]:
        """Draw the label and the data of an instance."""
        raise NotImplementedError

    @classmethod
    def in_floats(cls, seed: int) -> Sequence[Any]:
        """Give the runs in floats of a campaign."""
        return ()

    @classmethod
    def runs(cls, plan: Any) -> Sequence[Any]:
        """Give runs in floats, drawn instances, and the fixed ones."""
        drawn = []
        for n in range(max(6, round(cls.count * plan.scale))):
            rng = Stream(plan.seed).generator(f"fedmls {cls.kind} {n}")
            drawn.append(cls.instance(*cls.draw(rng), plan.seed * 1000 + n))
        return [*cls.in_floats(plan.seed), *drawn, *(cls.instance(*one) for one in cls.fixed)]


class OfRounds(World):
    """Runs of K rounds, whose forms tell exact subgradients from noisy ones."""

    horizon: ClassVar[str] = "K"
    searched = ("deterministic",)  # what is drawn is in fractions
    K: int
    exact: bool = True  # False with noise

    horizons = derived(lambda q: np.array([q.K]), "K (1,), which a bound on F(x_K) - F* is about")

    @property
    def rule(self) -> str:  # type: ignore[override]
        """The rule of a form's verdict about it."""
        return "deterministic" if self.exact else "stochastic"


class InFloats:
    """A run in floats, told by its parameters: those of a dataclass, with a name and a kind."""

    def to_json(self) -> dict[str, Any]:
        """All its parameters, and its name."""
        own: Any = self
        return {**asdict(own), "name": own.name}
