"""Counterexamples: proved in fractions, shrunk to few clients, one number, a short horizon and
short fractions. A `Witness` is its data alone, from which it is rebuilt and judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.rational import fraction
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.declare import Among
from fedtheory.theory.rounds.forms import Claimed, reduced
from fedtheory.theory.rounds.instances import ARRAYS, Draw
from fedtheory.theory.rounds.judging import exact_sides
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.rational_clients import NotInFractions
from fedtheory.theory.rounds.undefined import SILENT
from fedtheory.theory.rounds.units import rescaled
from fedtheory.theory.studies.search import without_client, without_coordinate

__all__ = ["instance_of", "needless", "prove", "shrink", "smaller"]

Pick = Callable[[Claimed], Any] | None
CLEAR = Fraction(1, 1000)  # (lhs - rhs)/(|lhs| + |rhs|) that shrinking keeps, where it was there


def instance_of(witness: Witness) -> Draw:
    """Give the instance that a witness's data stand for."""
    return Draw.from_data(witness.data)


def excess(
    setting: MethodSetting, form: str, instance: Draw, overrides: dict[str, Any] | None = None, pick: Pick = None
) -> Any:
    """(lhs, rhs) in fractions, or None where the instance is none of the setting's or says
    nothing."""
    if setting.why_not(instance) is not None:
        return None
    try:
        view = setting.view(instance, exact=True)
        view = view.other(overrides) if overrides else view
        return exact_sides(setting.of_statement, view, form, pick)
    except NotInFractions:
        raise
    except SILENT:
        return None


def prove(
    setting: MethodSetting, form: str, instance: Draw, overrides: dict[str, Any] | None = None,
    without: str = "", pick: Pick = None,
    budget: int = 400,
) -> Witness | None:  # fmt: skip
    """The counterexample an instance is, shrunk; None where it is none in fractions.

    Raises
    ------
    NotInFractions
        The method or the claim has no counterpart in fractions.
    """
    try:
        sides = excess(setting, form, instance, overrides, pick)
    except InvalidInput:  # too many sequences of cohorts for fractions: fewer clients and rounds first
        fewer = _fewer(setting, form, instance, overrides, pick)
        if fewer is None:
            return None
        instance, sides = fewer, excess(setting, form, fewer, overrides, pick)
    if sides is None or not sides[0] > sides[1]:
        return None
    small = shrink(setting, form, instance, overrides, pick, budget)
    lhs, rhs = excess(setting, form, small, overrides, pick)
    moved = {k: str(Fraction(v)) for k, v in (overrides or {}).items()}
    statement, by = setting.of_statement, {"search": "study"}
    return Witness(
        statement.id, form, statement.rule, statement.name, small.to_data(), str(lhs), str(rhs),
        without=without, constants=moved, found_by=by,
    )  # fmt: skip


def _fewer(
    setting: MethodSetting, form: str, instance: Draw, overrides: dict[str, Any] | None, pick: Pick
) -> Draw | None:
    """An instance with few enough sequences of cohorts that is violated in floats."""
    for _ in range(20):
        for simpler in _structural(instance):
            if setting.why_not(simpler) is not None:
                continue
            try:
                view = setting.view(simpler, exact=False).other(overrides)
                claimed = setting.of_statement.on(view)[form]
                sides = reduced(view, claimed, None if pick is None else pick(claimed))
            except SILENT:
                continue
            if ((sides.lhs - sides.rhs) > 1e-6 * sides.scale).any():
                instance = simpler
                break
        else:
            return None
        try:
            excess(setting, form, instance, overrides, pick)
            return instance
        except InvalidInput:
            continue
    return None


def _clear(sides: Any) -> Fraction:
    size = abs(sides[0]) + abs(sides[1])
    return (sides[0] - sides[1]) / size if size else Fraction(0)


def shrink(
    setting: MethodSetting,
    form: str,
    instance: Draw,
    overrides: dict[str, Any] | None = None,
    pick: Pick = None,
    budget: int = 400,
) -> Draw:
    """A simpler instance that is violated too: fewer clients, coordinates and rounds, smaller
    numbers of those drawn `among` some, then shorter fractions.

    A violation that is clear stays so: a thousandth of the sides, or a tenth of what it was.
    """
    choices = {name: v.choices for name, v in setting.open_numbers().items() if isinstance(v, Among)}
    least = min(CLEAR, _clear(excess(setting, form, instance, overrides, pick)) / 10)
    tries, again = 0, True
    while again and tries < budget:
        again = False
        for simpler in _simpler(instance, choices):
            tries += 1
            if tries > budget:
                break
            try:
                sides = excess(setting, form, simpler, overrides, pick)
            except (InvalidInput, MissingCapability):
                continue
            if sides is not None and sides[0] > sides[1] and _clear(sides) >= least:
                instance, again = simpler, True
                break
    return instance


def _simpler(instance: Draw, choices: Mapping[str, tuple[Any, ...]]) -> Iterator[Draw]:
    """Simpler neighbours, the greatest simplifications first; choices: what a drawn number is one of, by name."""
    n, d = instance.num_clients, instance.dim
    yield from _structural(instance)
    for name, value in instance.drawn.items():
        for new in smaller(choices.get(name, ()), value):
            yield instance.changed(drawn={**instance.drawn, name: new})
    if len(set(instance.weights)) > 1:
        equal = instance.weights.copy()
        equal[:] = Fraction(1, n)
        yield instance.changed(weights=equal)
    yield from _plainer_losses(instance)
    for name, value in instance.drawn.items():
        for new in () if name in choices else _shorter(value):
            yield instance.changed(drawn={**instance.drawn, name: new})
    shift = instance.c[0].copy()
    if (shift != 0).any():  # everything measured from the first client's centre
        yield instance.changed(c=instance.c - shift, start=instance.start - shift)
    for name in ("h", "c", "m", "a", "delta"):
        for k, i in np.ndindex(n, d):
            value = getattr(instance, name)[k, i]
            for new in () if value is None else _shorter(value):
                yield _with(instance, name, k, i, new)
    for i in range(d):
        for new in _shorter(instance.start[i]):
            start = instance.start.copy()
            start[i] = new
            yield instance.changed(start=start)
    for what, values in (("curvature", (instance.h, instance.m, instance.a)), ("position", (instance.c, instance.start))):
        largest = max(abs(v) for part in values for v in part.ravel())
        if largest >= 10 or 0 < largest < Fraction(1, 10):  # in other units the numbers are shorter
            yield rescaled(instance, what, Fraction(10) if largest < 1 else Fraction(1, 10))


def _structural(instance: Draw) -> Iterator[Draw]:
    """Fewer clients, coordinates, rounds."""
    n, d = instance.num_clients, instance.dim
    if n > 1:
        yield from (without_client(instance, k) for k in range(n))
    if d > 1:
        yield from (without_coordinate(instance, i) for i in range(d))
    for rounds in range(instance.rounds):
        yield instance.changed(rounds=rounds, before=instance.before[:rounds])


def _plainer_losses(instance: Draw) -> Iterator[Draw]:
    """Quadratics instead of Huber losses, and all clients' losses of one curvature."""
    for k, i in np.ndindex(instance.num_clients, instance.dim):
        if instance.delta[k, i] is not None:
            yield _with(instance, "delta", k, i, None)
    for name in ARRAYS:
        values = getattr(instance, name)
        if instance.num_clients > 1 and name != "c" and any((row != values[0]).any() for row in values):
            yield instance.changed(**{name: np.repeat(values[:1], instance.num_clients, axis=0)})


def smaller(choices: Iterable[Any], value: Fraction) -> list[Fraction]:
    """The numbers of a few that are smaller than one of them, the smallest first."""
    return sorted({v for v in map(Fraction, choices) if abs(v) < abs(value)}, key=abs)


def _with(instance: Draw, name: str, k: int, i: int, value: Any) -> Draw:
    values = getattr(instance, name).copy()
    values[k, i] = value
    return instance.changed(**{name: values})


def cost(value: Fraction) -> int:
    """The length of a fraction as it is written; signs count."""
    return (
        len(str(value.numerator)) * 2
        + (len(str(value.denominator)) * 3 if value.denominator != 1 else 0)
        + abs(value.numerator).bit_length()
    )


def _shorter(value: Fraction) -> list[Fraction]:
    """Shorter fractions near it and the shortest of all, the shortest first."""
    near = [Fraction(0), Fraction(1), Fraction(-1), Fraction(round(value)), -value]
    near += [value.limit_denominator(q) for q in (2, 3, 4, 8, 16, 64)]
    digits = len(str(abs(int(value))))
    near += [Fraction(round(value / 10**k) * 10**k) for k in (digits - 1, digits - 2) if k > 0]
    return sorted({v for v in near if cost(v) < cost(value) and v != value}, key=cost)


def needless(setting: MethodSetting, witness: Witness) -> bool:
    """True if an instance without an assumption breaks none, and violates the form as it stands."""
    stands = setting.as_own(instance_of(witness))
    if stands is None:
        return False
    numbers = {k: fraction(v, k) for k, v in witness.constants.items()}
    sides = excess(setting, witness.form, stands, numbers)
    return bool(sides is not None and sides[0] > sides[1])


def in_fractions(setting: MethodSetting, instance: Draw) -> str | None:
    """Why no form of the statement can be judged in fractions, or None."""
    try:
        setting.of_statement.on(setting.view(instance, exact=True))
    except NotInFractions as error:
        return str(error)
    except (*SILENT, InvalidInput):  # too many sequences of cohorts
        return None
    return None
