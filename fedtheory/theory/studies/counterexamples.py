"""Counterexamples: proved in fractions, shrunk to few clients and rounds and short fractions.

A `Witness` is its data alone, from which it is rebuilt and judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.rational import fraction, objects
from fedtheory.theory.judge.check import apart_sides
from fedtheory.theory.judge.shrink import simpler
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.judge.witness import told_sides as witness_sides
from fedtheory.theory.rounds.declare import Among
from fedtheory.theory.rounds.forms import Claimed, reduced
from fedtheory.theory.rounds.instances import ARRAYS, Draw
from fedtheory.theory.rounds.judging import exact_sides
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.rational_clients import NotInFractions
from fedtheory.theory.rounds.undefined import SILENT
from fedtheory.theory.rounds.units import rescaled

__all__ = ["instance_of", "needless", "prove", "shrink", "sides_told", "smaller", "told"]

Pick = Callable[[Claimed], Any] | None
CLEAR = Fraction(1, 1000)  # (lhs - rhs)/(|lhs| + |rhs|) that shrinking keeps, where it was there


def instance_of(witness: Witness) -> Draw:
    """Give the instance that a witness's data stand for."""
    return Draw.from_data(witness.data)


def told(setting: MethodSetting, witness: Witness) -> str:
    """The instance of a witness in words: without an assumption with the numbers that it has
    without it, and with the values of constants that are free, as it refutes the form with
    these."""
    words = dict(setting.variants()).get(witness.without, setting).words(instance_of(witness))
    free = setting.of_statement.free_constants(witness.form)
    at = [f"{name} = {witness.constants.get(name, value)}" for name, value in free.items()]
    return words + f", with {', '.join(at)}, where some number >= 0 may do" * bool(at)


def sides_told(setting: MethodSetting, witness: Witness) -> str:
    """'lhs 0 > rhs -1/2' of a counterexample; of an equation 'lhs 1/4 ≠ rhs 1/2'."""
    claimed = setting.of_statement.on(setting.view(instance_of(witness), exact=True))[witness.form]
    both = apart_sides(claimed.sides)
    return witness.sides if both is None else witness_sides(str(both[0]), str(both[1]), "≠")


def excess(
    setting: MethodSetting, form: str, instance: Draw, overrides: dict[str, Any] | None = None,
    pick: Pick = None
) -> Any:
    """(lhs, rhs) in fractions; None where the instance is none of the setting's or says nothing."""
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
    without: str = "", pick: Pick = None, budget: int = 400,
) -> Witness | None:  # fmt: skip
    """The counterexample an instance is, shrunk; None where it is none in fractions.

    Raises `NotInFractions` where the method or the claim has no counterpart in fractions.
    """
    sides = _sides(setting, form, instance, overrides, pick)
    if sides is None or not sides[0] > sides[1]:
        return None
    small = shrink(setting, form, instance, overrides, pick, budget)
    try:
        sides = excess(setting, form, small, overrides, pick)
    except InvalidInput:  # still too many sequences of cohorts for fractions
        return None
    if sides is None or not sides[0] > sides[1]:
        return None
    moved = {k: str(Fraction(v)) for k, v in (overrides or {}).items()}
    statement, by = setting.of_statement, {"search": "study"}
    return Witness(
        statement.id, form, statement.rule, statement.name, small.to_data(), str(sides[0]),
        str(sides[1]), without=without, constants=moved, found_by=by,
    )  # fmt: skip


def _sides(
    setting: MethodSetting, form: str, instance: Draw, overrides: dict[str, Any] | None, pick: Pick
) -> Any:
    """As `excess`; in floats, where they are violated, of too many sequences of cohorts."""
    try:
        return excess(setting, form, instance, overrides, pick)
    except InvalidInput:
        pass
    try:
        view = setting.view(instance, exact=False).other(overrides)
        claimed = setting.of_statement.on(view)[form]
        sides = reduced(view, claimed, None if pick is None else pick(claimed))
    except SILENT:
        return None
    beyond = (sides.lhs - sides.rhs) > 1e-6 * sides.scale
    found = zip(sides.lhs[beyond], sides.rhs[beyond], strict=True)
    return min(found, key=lambda pair: pair[1] - pair[0], default=None)


def _clear(sides: Any) -> Any:
    size = abs(sides[0]) + abs(sides[1])
    return (sides[0] - sides[1]) / size if size else Fraction(0)


def shrink(
    setting: MethodSetting, form: str, instance: Draw, overrides: dict[str, Any] | None = None,
    pick: Pick = None, budget: int = 400,
) -> Draw:  # fmt: skip
    """A simpler instance that is violated too: fewer clients and rounds, shorter fractions.

    A violation that is clear stays so: a thousandth of the sides, or a tenth of what it was.
    """
    choices = {k: v.choices for k, v in setting.open_numbers().items() if isinstance(v, Among)}
    least = min(CLEAR, _clear(_sides(setting, form, instance, overrides, pick)) / 10)

    def keeps(data: dict[str, Any]) -> bool:
        try:
            sides = _sides(setting, form, Draw.from_data(data), overrides, pick)
        except (InvalidInput, MissingCapability):
            return False
        return sides is not None and sides[0] > sides[1] and _clear(sides) >= least

    def shorter(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
        return (made.to_data() for made in _plainer(Draw.from_data(data), choices))

    return Draw.from_data(simpler(instance.to_data(), keeps, budget, shorter))


def _plainer(instance: Draw, choices: Mapping[str, tuple[Any, ...]]) -> Iterator[Draw]:
    """Fewer clients, coordinates and rounds, and plainer losses, the greatest simplifications
    first.

    ``choices`` : what a drawn number is one of, by name
    """
    n, d = instance.num_clients, instance.dim
    yield from (_without_client(instance, k) for k in range(n) if instance.weights[k] < 1)
    for i in range(d) if d > 1 else ():
        keep = np.arange(d) != i
        fewer = {f: getattr(instance, f)[:, keep] for f in ARRAYS}
        yield instance.changed(**fewer, start=instance.start[..., keep])
    for rounds in range(instance.rounds):
        yield instance.changed(rounds=rounds, before=instance.before[:rounds])
    for i in range(starts) if (starts := len(instance.starts)) > 1 else ():
        others = np.delete(instance.starts, i, axis=0)
        yield instance.changed(start=others if starts > 2 else others[0])
    for name, value in instance.drawn.items():
        for new in smaller(choices.get(name, ()), value):
            yield instance.changed(drawn={**instance.drawn, name: new})
    if len(set(instance.weights)) > 1:
        yield instance.changed(weights=objects([Fraction(1, n)] * n))
    for k, i in np.ndindex(n, d):  # quadratics instead of Huber losses
        if instance.delta[k, i] is not None:
            delta = instance.delta.copy()
            delta[k, i] = None
            yield instance.changed(delta=delta)
    for name in ARRAYS:  # all clients' losses of one curvature
        values = getattr(instance, name)
        if name != "c" and any((row != values[0]).any() for row in values):
            yield instance.changed(**{name: np.repeat(values[:1], n, axis=0)})
    shift = instance.c[0]
    if (shift != 0).any():  # everything measured from the first client's centre
        yield instance.changed(c=instance.c - shift, start=instance.start - shift)
    units = (
        ("curvature", (instance.h, instance.m, instance.a)),
        ("position", (instance.c, instance.start))
    )
    for what, values in units:
        largest = max(abs(v) for part in values for v in part.ravel())
        if largest >= 10 or 0 < largest < Fraction(1, 10):  # in other units the numbers are shorter
            yield rescaled(instance, what, Fraction(10) if largest < 1 else Fraction(1, 10))


def _without_client(instance: Draw, k: int) -> Draw:
    """The instance without one client; the others' weights grow in proportion."""
    keep = np.arange(instance.num_clients) != k
    fewer = {f: getattr(instance, f)[keep] for f in ARRAYS}
    weights = instance.weights[keep] / instance.weights[keep].sum()
    size = instance.cohort_size and min(instance.cohort_size, len(weights))
    before = tuple(tuple(j - (j > k) for j in cohort if j != k) for cohort in instance.before)
    if any(len(c) != size for c in before):
        before = tuple(tuple(range(size or 0)) for _ in before)
    return instance.changed(**fewer, weights=weights, cohort_size=size, before=before)


def smaller(choices: Iterable[Any], value: Fraction) -> list[Fraction]:
    """The numbers of a few that are smaller than one of them, the smallest first."""
    return sorted({v for v in map(Fraction, choices) if abs(v) < abs(value)}, key=abs)


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
