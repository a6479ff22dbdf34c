"""Rounds of federated methods as the points at which the clients' losses are asked, everybody taking part.

Positions are relative to the optimum. A gradient that a method takes is a vector of its own, so that a step that is implicit,
such as an exact local solve, is written as its optimality condition: the gradient at the solution comes first, the solution is
what the condition says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from fedtheory.errors import InvalidInput
from fedtheory.worst_cases.classes import Point
from fedtheory.worst_cases.gram import Vector, own

__all__ = ["METHODS", "Method", "Run"]

OPTIMUM = "*"


@dataclass
class Run:
    """The points of a run, in the order in which they are asked.

    Attributes
    ----------
    points : the optimum first
    own_gradients : the clients' gradients at the optimum, which add up to 0
    """

    points: list[Point] = field(default_factory=list)
    own_gradients: Vector = field(default_factory=lambda: own("g*", mean_zero=True))

    def __post_init__(self) -> None:
        self.points.append(Point(OPTIMUM, Vector(), self.own_gradients))

    def gradient(self, name: str, at: Vector) -> Vector:
        """The clients' gradients at a point."""
        return self.solved(name, lambda _: at)

    def solved(self, name: str, where: Callable[[Vector], Vector]) -> Vector:
        """The clients' gradients at the point that an optimality condition makes of them."""
        found = own(name)
        self.points.append(Point(name, where(found), found))
        return found


@dataclass(frozen=True)
class Method:
    """A method of which worst cases are computed.

    Attributes
    ----------
    about : what it is, in a line
    models : callable(run, start, rounds, local steps, options) -> the server's models, the start first
    options : dict name -> what it is
    defaults : dict name -> its value where the user gives none, for L = 1; times or over L as `units` says
    units : dict name -> the power of L by which a default is multiplied
    local_steps : whether the number of local steps means anything
    """

    about: str
    models: Callable[[Run, Vector, int, int, Mapping[str, Fraction]], list[Vector]]
    options: Mapping[str, str]
    defaults: Mapping[str, Fraction]
    units: Mapping[str, int]
    local_steps: bool = True

    def chosen(self, given: Mapping[str, Fraction], smoothness: Fraction | None) -> dict[str, Fraction]:
        """Every option, given or its default.

        Raises
        ------
        InvalidInput
            An option that the method has not, or that is not above 0.
        """
        other = sorted(set(given) - set(self.options))
        if other:
            raise InvalidInput(f"{', '.join(other)}: no option of this method, which has {', '.join(self.options) or 'none'}")
        scale = smoothness or Fraction(1)
        found = {name: given.get(name, self.defaults[name] * scale ** self.units[name]) for name in self.options}
        for name, number in found.items():
            if number <= 0:
                raise InvalidInput(f"{name} = {number}: it must be above 0")
        return found


def _local_gd(run: Run, x: Vector, rounds: int, steps: int, options: Mapping[str, Fraction]) -> list[Vector]:
    """FedAvg with full gradients: K steps of every client from the server's model, then the mean."""
    models = [x]
    for t in range(rounds):
        y = models[-1]
        for j in range(steps):
            y = y - options["step"] * run.gradient(f"g{t}.{j}", y)
        models.append(y.average)
    return models


def _fedprox(run: Run, x: Vector, rounds: int, steps: int, options: Mapping[str, Fraction]) -> list[Vector]:
    """y_k = argmin f_k + mu/2 ||y - x||^2, hence y_k = x - grad f_k(y_k)/mu; the server takes the mean."""
    models = [x]
    for t in range(rounds):
        gradient = run.solved(f"g{t}", lambda g, at=models[-1]: at - (1 / options["mu"]) * g)
        models.append((models[-1] - (1 / options["mu"]) * gradient).average)
    return models


def _feddyn(run: Run, x: Vector, rounds: int, steps: int, options: Mapping[str, Fraction]) -> list[Vector]:
    """y_k = argmin f_k - <g_k, y> + alpha/2 ||y - x||^2, g_k = grad f_k(y_k), h the mean of g, x = mean y - h/alpha; g = 0 at first."""
    models, stored, share = [x], Vector(), 1 / options["alpha"]
    for t in range(rounds):
        at = models[-1]
        gradient = run.solved(f"g{t}", lambda g, at=at, kept=stored: at + share * (kept - g))
        y = at + share * (stored - gradient)
        stored = gradient
        models.append(y.average - share * stored.average)
    return models


def _scaffold(run: Run, x: Vector, rounds: int, steps: int, options: Mapping[str, Fraction]) -> list[Vector]:
    """K steps along grad f_k - c_k + c; c_k becomes the mean of the client's gradients (option II); c_k = 0 at first."""
    models, variate = [x], Vector()
    for t in range(rounds):
        y, seen = models[-1], Vector()
        for j in range(steps):
            gradient = run.gradient(f"g{t}.{j}", y)
            y, seen = y - options["step"] * (gradient - variate + variate.average), seen + gradient
        variate = Fraction(1, steps) * seen
        models.append(y.average)
    return models


def _subgradient(run: Run, x: Vector, rounds: int, steps: int, options: Mapping[str, Fraction]) -> list[Vector]:
    """The server steps along the mean of the clients' subgradients."""
    models = [x]
    for t in range(rounds):
        models.append(models[-1] - options["step"] * run.gradient(f"g{t}", models[-1]).average)
    return models


_STEP = {"step": "the step size of local gradient steps"}

METHODS: dict[str, Method] = {
    "fedavg": Method("FedAvg, that is local gradient descent", _local_gd, _STEP, {"step": Fraction(1)}, {"step": -1}),
    "fedprox": Method(
        "FedProx with exact local solves", _fedprox, {"mu": "the factor of the proximal term"}, {"mu": Fraction(1)}, {"mu": 1}, False
    ),
    "scaffold": Method("SCAFFOLD with local gradient steps", _scaffold, _STEP, {"step": Fraction(1)}, {"step": -1}),
    "feddyn": Method(
        "FedDyn with exact local solves", _feddyn, {"alpha": "the factor of the proximal term"}, {"alpha": Fraction(1)}, {"alpha": 1},
        False,
    ),
    "subgradient": Method(
        "the distributed subgradient method", _subgradient, {"step": "the step size"}, {"step": Fraction(1)}, {"step": 0}, False
    ),
}  # fmt: skip
