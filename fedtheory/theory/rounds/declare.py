"""Declarations of a statement's author: the method and its hyperparameters, the local work, and
what may vary in them.

A hyperparameter is a number, a function of the constants (``lambda c: 1 / c.beta``), or a family
of numbers: `upto` a limit, or `among` a few. Families are drawn with each instance, so that the
statement is checked for all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.compressed import Compressed
from fedtheory.errors import InvalidInput, UnknownName, suggest
from fedtheory.inputs import flag
from fedtheory.rational import Whole, in_fractions, number
from fedtheory.theory.rounds.rational_clients import NotInFractions

__all__ = [
    "Above", "Among", "Facts", "Family", "GradientSteps", "Keywords", "Method",
    "Minimise", "Upto", "Watched", "Words", "above", "alias",
    "among", "hyperparameters", "least_and_most", "method", "only_keywords", "upto",
]  # fmt: skip

SHARES = [Fraction(v) for v in ("1", "1/2", "3/4", "1/4", "1/8", "7/8", "1/3", "1/50")]
EXCESSES = [Fraction(v) for v in ("1/1000", "1/30", "1/4", "1", "1", "4", "30", "1000")]

DIGITS = 14  # a float of a longer mantissa, sign and point included, was rounded


ALIASES = {  # what papers call a quantity -> (its name here, what it is)
    "L": ("beta", "the smoothness"), "smoothness": ("beta", "the smoothness"),
    "strong_convexity": ("mu", "the strong convexity"), "K": ("E", "the number of local steps"),
    "tau": ("E", "the number of local steps"), "steps": ("E", "the number of local steps"),
    "local_steps": ("E", "the number of local steps"), "gamma": ("eta", "the local step size"),
    "lr": ("eta", "the local step size"), "local_lr": ("eta", "the local step size"),
    "step_size": ("eta", "the local step size"), "n": ("N", "the number of clients"),
    "m": ("N", "the number of clients"), "M": ("N", "the number of clients"),
    "num_clients": ("N", "the number of clients"), "clients": ("N", "the number of clients"),
    "S": ("P", "the size of a cohort"), "R": ("T", "the number of rounds"),
    "rounds": ("T", "the number of rounds"),
    "G": ("G_sq", "the square of the bound on subgradients"), "f": ("F", "the objective"),
    "dim": ("d", "the dimension"), "f_star": ("F_star", "the least value of F"),
    "grad": ("gradient", "the gradient of F"),
    "zeta": ("dissimilarity", "how far the clients' gradients are apart, squared,"),
    "zeta_sq": ("dissimilarity", "how far the clients' gradients are apart, squared,"),
}  # fmt: skip
NOISE = (
    "gradients are exact here, so there is no variance of noise; how far the clients' gradients "
    "are apart is 'dissimilarity'"
)


def alias(name: str, known: Iterable[str], kind: str, before: str = "") -> str:
    """Give the name here of a quantity that papers call otherwise; '' for a name that is none of
    those."""
    here, what = ALIASES.get(name, ("", ""))
    if here in {*known}:
        return f"unknown {kind} {name!r}: {what} is {before}{here}"
    return (
        f"unknown {kind} {name!r}: {NOISE}" if name.lower() in ("sigma", "sigma_sq", "variance")
        else ""
    )


def only_keywords(given: Mapping[str, Any], known: Iterable[str], of: str) -> None:
    """Raise `UnknownName` for a keyword that is none of those, with the nearest ones."""
    known = [*known]
    for name in given:
        if name not in known:
            raise suggest(name, known, f"keyword of {of}")


def least_and_most(value: Any, least: int) -> tuple[int, int] | None:
    """Whole numbers (least, most) from one of them or a pair; None where they are others, or too
    small."""
    pair = (value, value) if isinstance(value, int) else tuple(value)
    whole = len(pair) == 2 and all(isinstance(v, int) and not isinstance(v, bool) for v in pair)
    return pair if whole and least <= pair[0] <= pair[1] else None


class Keywords:
    """A dataclass whose unknown keywords are refused with the nearest ones."""

    def __new__(cls, *args: Any, **given: Any) -> Any:
        known = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
        only_keywords(given, known, cls.__name__)
        return super().__new__(cls)


@dataclass(frozen=True)
class Watched:
    """A constant that is worked out, or refused, when it is asked for."""

    read: Callable[[], Any]


class Facts(dict[str, Any]):
    """Constants by name, as attributes: what a hyperparameter's function is given.

    Raises `UnknownName`: from an attribute that is not there, with the nearest names.
    """

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        return value.read() if isinstance(value, Watched) else value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self:
            if told := alias(name, self, "constant"):
                raise UnknownName(told)
            raise suggest(name, self, "constant")
        return self[name]


@dataclass(frozen=True)
class Upto:
    """All numbers in (0, limit], as shares of the limit; the assumption can be dropped: shares
    up to ``beyond`` then."""

    limit: Any
    beyond: Fraction = Fraction(1)
    first = Fraction(1)  # the share that is taken where nobody says one

    def draw(self, rng: np.random.Generator) -> Fraction:
        """A share in (0, beyond]."""
        share = (
            SHARES[int(rng.integers(len(SHARES)))] if rng.random() < 0.5
            else Fraction(int(rng.integers(1, 65)), 64)
        )
        return share * self.beyond

    def value(self, drawn: Fraction, facts: Facts, exact: bool) -> Any:
        """The number: its share of the limit."""
        return number(drawn, exact) * resolve(self.limit, facts, exact)

    def why_not(self, drawn: Fraction) -> str | None:
        """The reason for which a share is none, or None."""
        return (
            None if 0 < drawn <= self.beyond else f"the share {drawn} is not in (0, {self.beyond}]"
        )


@dataclass(frozen=True)
class Above:
    """All numbers above a limit: limit + t unit for every t > 0, of which the instance says t.

    With ``closed`` the limit is among them. Of the t in ``near`` some are drawn just above.
    """

    limit: Any
    unit: Any = 1
    usual: Fraction = Fraction(1)
    closed: bool = False
    near: tuple[Fraction, ...] = ()

    @property
    def first(self) -> Fraction:
        """The t that is taken where nobody says one."""
        return self.usual

    def draw(self, rng: np.random.Generator) -> Fraction:
        """A distance, often a short one, for which a bound is the least."""
        away = EXCESSES[int(rng.integers(len(EXCESSES)))] * Fraction(int(rng.integers(1, 17)), 8)
        return away + self.near[int(rng.integers(len(self.near)))] if self.near else away

    def value(self, drawn: Fraction, facts: Facts, exact: bool) -> Any:
        """The number: so many units above the limit."""
        limit, unit = (resolve(v, facts, exact) for v in (self.limit, self.unit))
        return limit + number(drawn, exact) * unit

    def why_not(self, drawn: Fraction) -> str | None:
        """The reason for which a distance is none, or None."""
        good = drawn > 0 or (self.closed and drawn == 0)
        return None if good else f"the distance {drawn} from the limit is not above 0"


@dataclass(frozen=True)
class Among:
    """One of a few numbers."""

    choices: tuple[Any, ...]

    @property
    def first(self) -> Fraction:
        """The one that is taken where nobody says one."""
        return Fraction(self.choices[0])

    def draw(self, rng: np.random.Generator) -> Fraction:
        """One of them."""
        return Fraction(self.choices[int(rng.integers(len(self.choices)))])

    def value(self, drawn: Fraction, facts: Facts, exact: bool) -> Any:
        """The number drawn."""
        return number(drawn, exact)

    def why_not(self, drawn: Fraction) -> str | None:
        """The reason for which a number is none of them, or None."""
        known = drawn in [Fraction(v) for v in self.choices]
        return None if known else f"{drawn} is none of {', '.join(map(str, self.choices))}"


class Words(tuple[str, ...]):
    """Words of a hyperparameter, of which the first is taken where nobody says one."""


Family = Upto | Above | Among


def upto(limit: Any) -> Upto:
    """Every number in (0, limit]; the limit is a number or a function of the constants."""
    return Upto(limit)


def above(
    limit: Any, unit: Any = 1, usual: Any = 1, closed: bool = False, near: Iterable[Any] = ()
) -> Above:
    """Every number above the limit; limit and unit are numbers or functions of the constants.

    Instances are drawn at distances of the order of the unit, from the limit or from one of the
    numbers limit + t * unit, t in ``near``; of these one given twice is taken twice as often. Where
    nobody says a number, limit + usual * unit is taken. With ``closed`` a user's number may be the
    limit itself.
    """
    found = tuple(Fraction(t) for t in near)
    return Above(limit, unit, Fraction(usual), flag("closed", closed), found)


def among(*choices: Any) -> Any:
    """Every one of the given numbers; of words, such as names of a variant, the user's choice."""
    if not choices:
        raise InvalidInput("among(): give at least one number")
    words = all(isinstance(v, str) and v[:1].isalpha() for v in choices)
    return Words(choices) if words else Among(choices)


def resolve(
    value: Any, facts: Facts, exact: bool, drawn: Fraction | None = None,
    what: str = "a hyperparameter"
) -> Any:
    """A declared hyperparameter as a number. Raises `InvalidInput` where it is none."""
    if isinstance(value, Family):
        if drawn is None:
            raise InvalidInput(f"{what} varies, and the instance says no value of it")
        if (reason := value.why_not(drawn)) is not None:
            raise InvalidInput(reason)
        return value.value(drawn, facts, exact)
    if callable(value):
        # what is not finite is refused, or none of the class's problems has it
        with np.errstate(all="ignore"):
            value = value(facts)
        if (
            exact and isinstance(value, float)
            and len(f"{Decimal(repr(float(value))):e}".split("e")[0]) > DIGITS
        ):
            raise NotInFractions(
                f"{what} = {value!r} is computed in floats, and rounded: write Fraction(1, 10) for "
                "0.1, and no roots; the verdicts in floats stand"
            )
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | Fraction | np.integer | np.floating)
    ):
        raise InvalidInput(
            f"{what} = {value!r}: give a number, a function of the constants, upto(limit) "
            "or among(numbers)"
        )
    if exact and isinstance(value, float) and not np.isfinite(value):
        raise InvalidInput(f"{what} = {value!r} is not finite")
    return number(value, exact)


@dataclass(frozen=True)
class Method:
    """A method whose hyperparameters may be functions of the constants: see `method`."""

    cls: type
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    wrapped: Mapping[str, Any] | None = None  # as `Compressed` takes it

    def compressed(self, **how: Any) -> Method:
        """The method with compressed messages:
        ``method(FedDyn, alpha=among(1, 2)).compressed(up=TopK(k=1))``."""
        return replace(self, wrapped=how)

    @property
    def name(self) -> str:
        """As the method calls itself."""
        return getattr(self.cls, "name", self.cls.__name__)

    def changed(self, hyperparameters: Mapping[str, Any]) -> Method:
        """The method with other values of some hyperparameters."""
        return replace(self, hyperparameters={**self.hyperparameters, **hyperparameters})

    def build(self, facts: Facts, drawn: dict[str, Fraction], exact: bool) -> Any:
        """The algorithm with its numbers; in fractions where ``exact``.

        A class may turn its hyperparameters into floats when it is made; the fractions are put
        back.
        """
        numbers = self.numbers(facts, drawn, exact)
        made: Any = self.cls(
            **{
                k: float(v) if isinstance(v, Fraction) and not isinstance(v, Whole) else v
                for k, v in numbers.items()
            }
        )
        if self.wrapped is None:
            return in_fractions(made, numbers) if exact else made
        whole = Compressed(made, **self.wrapped)
        if exact:
            object.__setattr__(whole, "method", in_fractions(whole.method, numbers))
        return whole

    def numbers(self, facts: Facts, drawn: dict[str, Fraction], exact: bool) -> dict[str, Any]:
        """Its hyperparameters, by name."""
        out = {}
        for key, value in self.hyperparameters.items():
            value = value[0] if isinstance(value, Words) else value
            plain = isinstance(value, str | bool) or value is None
            out[key] = (
                value if plain else resolve(
                    value, facts, exact, drawn.get(f"method.{key}"), f"{self.name}'s {key}"
                )
            )
        return out


def method(cls: type, **hyperparameters: Any) -> Method:
    """A method and its hyperparameters: ``method(FedProx, mu=lambda c: 2 * c.beta)``."""
    if not isinstance(cls, type):
        raise InvalidInput(
            f"method({cls!r}): give the class and its hyperparameters, for example "
            "method(FedProx, mu=1)"
        )
    return Method(cls, hyperparameters)


def hyperparameters(about: Any) -> list[str]:
    """List the names of a method's hyperparameters, of the declared ones and of its class's."""
    declared = about.hyperparameters if isinstance(about, Method) else ()
    cls = about.cls if isinstance(about, Method) else type(about)
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return list(dict.fromkeys([*declared, *(f.name for f in fields if f.init)]))


@dataclass(frozen=True)
class GradientSteps(Keywords):
    """The local work: ``steps`` full gradient steps of size ``lr`` on the local objective.

    Parameters
    ----------
    steps : int, or among(...)
        E.
    lr : number, function of the constants, upto(...) or among(...)
        eta. The constants know E: ``lambda c: 1 / (c.beta * c.E)``.
    """

    steps: Any
    lr: Any

    def parameters(self) -> dict[str, Any]:
        """The numbers that vary, by name."""
        return {"steps": self.steps, "lr": self.lr}

    def resolve(self, facts: Facts, drawn: dict[str, Fraction], exact: bool) -> dict[str, Any]:
        """E and eta as numbers."""
        steps = resolve(self.steps, facts, True, drawn.get("steps"), "steps")
        if steps.denominator != 1 or steps < 1:
            raise InvalidInput(
                f"steps = {steps}: the number E of local steps must be a whole number >= 1"
            )
        known = Facts({**facts, "E": Whole(steps) if exact else int(steps)})
        lr = resolve(self.lr, known, exact, drawn.get("lr"), "lr")
        if not 0 < lr < np.inf:
            raise InvalidInput(f"lr = {lr}: the local step size must be a finite number > 0")
        return {"E": known["E"], "eta": lr}

    def __str__(self) -> str:
        return f"{_words(self.steps)} local gradient step{'' if self.steps == 1 else 's'}"


@dataclass(frozen=True)
class Minimise:
    """The local work: the local objective is minimised exactly."""

    def parameters(self) -> dict[str, Any]:
        """Nothing varies."""
        return {}

    def resolve(self, facts: Facts, drawn: dict[str, Fraction], exact: bool) -> dict[str, Any]:
        """No numbers."""
        return {}

    def __str__(self) -> str:
        return "exact local minimisation"


def _words(value: Any) -> str:
    return " or ".join(map(str, value.choices)) if isinstance(value, Among) else str(value)


Hyperparameter = int | float | Fraction | Callable[[Facts], Any] | Family
