"""The points of a run as equations of a theorem, and as places of Coq's checker.

Everything is in units: positions of R, gradients of L R, or of G where losses are not smooth. A
vector of client k is an earlier point, or the mean of one, plus multiples of gradients. It is
written twice alike: in the words of a theorem, and as a term of the checker's type `vec`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedtheory.errors import MissingCapability
from fedtheory.worst_cases.classes import Point
from fedtheory.worst_cases.gram import Vector, own, plus
from fedtheory.worst_cases.runs import OPTIMUM

__all__ = ["Place", "places", "rational", "real"]


def real(number: Fraction) -> str:
    """A number of Coq's R."""
    return str(number).replace("/", " / ")


def rational(number: Fraction) -> str:
    """A number of Coq's Q."""
    return f"({number.numerator} # {number.denominator})"


@dataclass(frozen=True)
class Place:
    """A point of a run.

    Attributes
    ----------
    name : its variable in a theorem; 'x0' and 'xs' are the start and the optimum
    each : True if each client has its own
    told : what it is, in the words of a theorem, of client k
    vec : the same as a term of the checker's type `vec`
    """

    name: str
    each: bool
    told: str
    vec: str

    @property
    def here(self) -> str:
        """The point, of client k."""
        return f"{self.name} k" if self.each else self.name

    @property
    def inside(self) -> str:
        """The same as an argument of a function."""
        return f"({self.here})" if self.each else self.name

    @property
    def known(self) -> bool:
        """True of the start and the optimum, which need no equation."""
        return self.name in ("x0", "xs")

    @property
    def equation(self) -> str:
        """Its equation as a hypothesis of a theorem."""
        return (
            f"(forall k, (k < N)%nat -> {self.here} = {self.told})"
            if self.each
            else f"{self.name} = {self.told}"
        )


def places(points: Sequence[Point[Vector]], unit: Fraction, smooth: bool = True) -> list[Place]:
    """The places of a run's points in turn, of which the optimum is the first.

    unit : of gradients, over that of positions

    Raises
    ------
    MissingCapability
        A point that is no start plus gradients.
    """
    found = [Place("xs", False, "", "Opt")]
    numbers = {_gradient(p): i for i, p in enumerate(points)}
    for i, p in enumerate(points[1:], 1):
        at = _in_units(p.at, unit)
        if at.mean.get("x0") != 1 or not {*at.mean, *at.deviation} <= {"x0", *numbers} or at.drawn:
            raise MissingCapability(
                f"the point {p.name} is no start plus gradients: Coq's checker has no other places"
            )
        if at == Vector({"x0": Fraction(1)}):
            found.append(Place("x0", False, "x0", "Start"))
            continue
        name, of_client = f"{'y' if at.deviation else 'x'}{i}", bool(at.deviation)
        found.append(
            Place(name, of_client, "", "")
        )  # which an implicit step names in its own equation
        ways = _ways(at, points[:i], found, unit)
        inside, (told, vec), rest = min(ways, key=lambda way: len(_parts(way[2])))
        for gradient, number, mean in _parts(rest):
            words, place = _words(
                found[numbers[gradient]], numbers[gradient], mean and not inside, smooth
            )
            sign, size = ("-", "Minus") if number < 0 else ("+", "Plus"), abs(number)
            told += f" {sign[0]} {real(size)} {'/ L' if smooth else '* radius / G'} * {words}"
            vec = f"({sign[1]} {vec} (Step {rational(size)} {place}))"
        if inside:
            told = (
                f"vmean N (fun k => {told})"
                if _parts(rest)
                else f"vmean N {told.removesuffix(' k')}"
            )
            vec = f"(Mean {vec})"
        found[-1] = Place(name, of_client, f"({told})%vec", vec)
    return found


def _gradient(point: Point[Vector]) -> str:
    """The name of a point's gradient, which is a vector of its own."""
    name = "g*" if point.name == OPTIMUM else str(point.name)
    if point.gradient != own(name, mean_zero=point.name == OPTIMUM):
        raise MissingCapability(
            f"the gradient at {point.name} is made of others: Coq's checker has one for each point"
        )
    return name


def _in_units(v: Vector, unit: Fraction) -> Vector:
    """The vector with gradients in their units over those of positions."""
    mean, deviation = (
        {n: c if n == "x0" else c * unit for n, c in of.items()} for of in (v.mean, v.deviation)
    )
    return Vector(mean, deviation, v.drawn)


def _ways(
    at: Vector, before: Sequence[Point[Vector]], found: Sequence[Place], unit: Fraction
) -> Iterator[tuple[bool, tuple[str, str], Vector]]:
    """The places from which a point may be written: words and place of an earlier point, and the rest.

    True comes with those of which the clients' mean is the point.
    """
    for i in range(len(before) - 1, 0, -1):
        there, place = _in_units(before[i].at, unit), found[i]
        base = place.here, "Start" if place.known else f"(At {i})"
        if place.each and not at.deviation:
            yield True, base, at - there.average
        elif place.each:
            yield False, (f"vmean N {place.name}", f"(Mean (At {i}))"), at - there.average
        if not place.each or at.deviation:
            yield False, base, at - there
    yield False, ("x0", "Start"), at - Vector({"x0": Fraction(1)})


def _parts(rest: Vector) -> list[tuple[str, Fraction, bool]]:
    """Gradients with their numbers: of the client's own, and of the clients' mean (True)."""
    means = plus(rest.mean, rest.deviation, -1)
    return [(n, c, False) for n, c in rest.deviation.items()] + [
        (n, c, True) for n, c in means.items()
    ]


def _words(place: Place, number: int, mean: bool, smooth: bool) -> tuple[str, str]:
    """A gradient at a point, or its mean, in the words of a theorem and as a place."""
    one, of_all = f"g k {place.inside}" if smooth else f"s{number} k", f"vmean N s{number}"
    of_all = f"vmean N (fun k => {one})" if smooth else of_all
    return (of_all, f"(Mean (Own {number}))") if mean else (one, f"(Own {number})")
