"""The small views on which the forms of a statement are read off, and whether its sums stay within one start."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Full
from fedtheory.randomness import Stream
from fedtheory.theory.rounds.forms import place, reduced
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import with_noise
from fedtheory.theory.rounds.losses import Unbounded
from fedtheory.theory.rounds.measured import Quantities
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.undefined import SILENT, Undefined

__all__ = ["check_sums", "probe", "wide_view"]

VIEWS = 50
PROBES = 10  # views looked at for one on which every form says something
INSTANCES = 3
DRAWN = 12  # instances, for one of many coordinates
STARTS = 5.0
VISIBLE = 1e-6  # of the sides' terms


def probe(setting: MethodSetting) -> Quantities:
    """A small view in floats, on which every form says something if there is such a view among the first."""
    rng, first, why = Stream(0).generator("authoring probe"), None, ""
    for i in range(VIEWS):
        if first is not None and i >= PROBES:
            break
        try:
            view = setting.view(setting.random_instance(rng), exact=False)
            first = first or view
            found = setting.of_statement.on(view)
            if not found.absent and found.ended is None:
                return view
        except SILENT as error:
            why = str(error)
    if first is None:
        raise InvalidInput(f"{setting.of_statement.place}: no instance of the class could be run: {why or 'is the step size right?'}")
    return first


def wide_view(setting: MethodSetting) -> Quantities | None:
    """A view in floats whose axes have several lengths, on which sides of unequal shapes do not fit by
    chance: with the most coordinates (at most three) of some instances and, of a round, five starts;
    None where that instance cannot be run."""
    rng = Stream(0).generator("authoring wide probe")
    try:
        drawn = (setting.random_instance(rng) for _ in range(DRAWN))
        instance = max(drawn, key=lambda i: (min(i.dim, 3), -i.num_clients))
        if setting.scope != "round":
            return setting.view(instance, exact=False)
        starts = instance.start.astype(float) + np.arange(STARTS)[:, None] / 8
        return setting.view(instance.changed(state={}), False, starts)
    except (Unbounded, Undefined):
        return None


def check_sums(setting: MethodSetting) -> None:
    """Raise `InvalidInput`, with file and line, where a form's sides depend on what is judged beside them.

    Rounds are judged from several starts at once, and runs under all sequences of cohorts: a sum over a whole
    array adds them up.
    """
    statement = setting.of_statement
    one = isinstance(setting.sampling, Full) and statement.starts == 1
    if setting.scope == "fixed-point" or (setting.scope == "run" and one):
        return  # one start, and one sequence of cohorts
    rng = Stream(0).generator(f"authoring sums {statement.id}")
    for _ in range(INSTANCES):
        instance = setting.random_instance(rng)
        try:
            together, alone = _views(setting, instance, rng)
            said = statement.on(together)
        except SILENT:
            continue
        for name in said:
            if any(_differ(statement, name, together, view, i, len(alone)) for i, view in enumerate(alone)):
                what = "starts" if setting.scope == "round" else "sequences of cohorts"
                raise InvalidInput(
                    f"{place(statement.function, None, statement.id, said.lines[name])}: form {name!r}: its sides change where "
                    f"several {what} are judged together: an index, a sum, a mean or a maximum takes others in; let it run over "
                    "the last axis only (axis=-1), or use q.sq(v), q.dot(v, w) and q.mean(v)"
                )


def _views(setting: MethodSetting, instance: Draw, rng: np.random.Generator) -> tuple[Quantities, list[Quantities]]:
    """Give what is judged together, and each by itself."""
    if setting.scope == "run":
        return setting.view(instance, False, times=2), [setting.view(instance, exact=False)]
    start = instance.start.astype(float)
    starts = start + np.array([[1.0], [-2.0]]) * (1 + np.abs(start)) * rng.uniform(0.5, 1, (2, len(start)))
    together = setting.view(instance, False, starts)
    return together, [setting.view(instance, False, x[None]) for x in starts]


def _differ(statement: Any, name: str, together: Quantities, alone: Quantities, i: int, count: int) -> bool:
    """True if the sides of one of several are others by themselves, beyond rounding."""

    def apart(noisy: bool) -> bool:
        many, one = (
            with_noise(statement, v, name) if noisy else reduced(v, statement.on(v)[name]) for v in (together, alone)
        )
        noise = np.max(many.noise) + np.max(one.noise) if noisy else 0.0
        allowed = VISIBLE * (np.max(many.scale) + np.max(one.scale)) + noise
        pairs = ((_own(a, b, i, count), np.asarray(b)) for a, b in ((many.lhs, one.lhs), (many.rhs, one.rhs)))
        return any(a.shape != b.shape or bool((np.abs(a - b) > allowed).any()) for a, b in pairs)

    try:
        with np.errstate(all="ignore"):
            return apart(False) and apart(True)
    except SILENT:
        return False


def _own(values: Any, like: Any, i: int, count: int) -> np.ndarray:
    """The entries of one of several starts along the first axis, or of every second sequence of cohorts along the last."""
    values, like = np.asarray(values), np.asarray(like)
    if values.shape == like.shape or not values.ndim:
        return values
    return values[..., ::2] if count == 1 else values[i : i + 1]
