"""Hold what somebody says of a run of theirs against what a statement declares.

A statement may leave numbers open, as `upto` and `among` do. A run is made with certain ones, and a
side of the statement may be made from them; so they are said with the run, or nothing is judged
that depends on them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from os.path import realpath
from typing import Any

import numpy as np

from fedtheory.algorithms.compressed import Compressed
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps as Steps
from fedtheory.local.exact import Exact
from fedtheory.rational import made_with
from fedtheory.theory.judge.case import named
from fedtheory.theory.rounds.declare import (
    Above,
    Among,
    Facts,
    Family,
    GradientSteps,
    Method,
    Upto,
    Words,
    resolve,
)

__all__ = ["as_said", "depends_on_the_horizon", "others"]
CLOSE = 1e-9  # of numbers that are the same but for rounding


def as_said(
    setting: Any, facts: Facts, algorithm: Any, solver: Any, given: Mapping[str, Any] | None = None
) -> Any:
    """The setting with the numbers of the algorithm and of the local solver in place of what it
    leaves open.

    Parameters
    ----------
    algorithm, solver : as somebody gave them; None where nothing was said
    given : hyperparameters of the method, by name

    Raises `InvalidInput`: a method, local work or a number that the statement is not about, with
    what it is about.
    """
    where = setting.of_statement.id
    local = setting.local if solver is None else _local(where, setting.local, facts, solver)
    method, declared = setting.method, setting.method.hyperparameters if given else {}
    numbers = {
        name: _hyperparameter(where, name, said, declared[name], facts)
        for name, said in (given or {}).items()
    }
    method = method.changed(numbers) if numbers else method
    if algorithm is not None:
        method = _method(where, method, facts, algorithm)
    return replace(setting, local=local, method=method)


def _method(where: str, about: Any, facts: Facts, algorithm: Any) -> Any:
    """The method with the algorithm's hyperparameters."""
    if not isinstance(about, Method):
        if not _same(algorithm, about):
            raise _another(where, named(about), algorithm)
        return about
    inner = algorithm.method if isinstance(algorithm, Compressed) else algorithm
    if (inner is algorithm) != (about.wrapped is None):
        how = (
            "whose messages are sent whole" if about.wrapped is None else "with compressed messages"
        )
        raise _another(where, f"{about.cls.__name__}, {how}", algorithm)
    if not _one_class(type(inner), about.cls):
        raise _another(where, about.cls.__name__, algorithm)
    numbers = dict(about.hyperparameters)
    for name, declared in about.hyperparameters.items():
        plain = isinstance(declared, Words | Family | int | float | Fraction) or callable(declared)
        if plain and not isinstance(declared, bool) and hasattr(inner, name):
            numbers[name] = _hyperparameter(where, name, getattr(inner, name), declared, facts)
    said = about.changed(numbers)
    still = {f"method.{k}": v for k, v in numbers.items() if isinstance(v, Family)}
    first = {k: v.first for k, v in still.items()}
    if not _same(algorithm, made := said.build(facts, first, exact=False)):
        name = next(
            n for n in made_with(made) if not _alike(getattr(algorithm, n), getattr(made, n))
        )
        given = getattr(getattr(algorithm, name), "name", getattr(algorithm, name))
        raise _another(where, named(made), algorithm, f", with {name} = {given}")
    return said


def _another(where: str, about: str, algorithm: Any, how: str = "") -> InvalidInput:
    """Say that a statement is about another method."""
    told = f"{where} is about {about}, not {named(algorithm)}{how}"
    return InvalidInput(f"{told}; leave the algorithm out")


def _hyperparameter(where: str, name: str, said: Any, declared: Any, facts: Facts) -> Any:
    """Give what was said of a hyperparameter, where it is one of what was declared."""
    if isinstance(declared, Words):
        return said if said in declared else _refuse(where, name, said, " or ".join(declared))
    if not isinstance(said, int | float | Fraction | np.number):
        raise InvalidInput(f"{name} = {said}: {where} takes a number")
    return _number(where, name, said, declared, facts)


def _local(where: str, about: Any, facts: Facts, solver: Any) -> Any:
    """The local work with the solver's numbers."""
    if isinstance(solver, Exact) and not isinstance(about, GradientSteps):
        return about
    if not isinstance(about, GradientSteps) or not isinstance(solver, Steps) or not solver.one_size:
        remedy = ": GradientSteps(steps, lr)" if isinstance(about, GradientSteps) else ""
        raise InvalidInput(f"local work by {named(solver)}: {where} is about {about}{remedy}")
    steps = _number(where, "steps", solver.steps, about.steps, facts)
    return replace(
        about, steps=int(steps),
        lr=_number(where, "lr", solver.lr, about.lr, Facts({**facts, "E": int(steps)}))
    )


def _number(where: str, name: str, said: Any, declared: Any, facts: Facts) -> Any:
    """Give the number that was said, where it is one of those that were declared."""
    if isinstance(declared, Upto):
        limit = float(resolve(declared.limit, facts, False, None, name)) * float(declared.beyond)
        good, about = 0 < said <= limit * (1 + CLOSE), f"up to {limit:.6g}"
        return said if good else _refuse(where, name, said, about)
    if isinstance(declared, Above):
        limit = float(resolve(declared.limit, facts, False, None, name))
        good = said > limit or (declared.closed and said == limit)
        return said if good else _refuse(where, name, said, f"above {limit:.6g}")
    if isinstance(declared, Among):
        near = [v for v in declared.choices if _close(said, float(Fraction(v)))]
        return (
            Fraction(near[0]) if near
            else _refuse(where, name, said, " or ".join(map(str, declared.choices)))
        )
    value = float(resolve(declared, facts, False, None, name))
    return declared if _close(said, value) else _refuse(where, name, said, f"= {value:.6g}")


def _refuse(where: str, name: str, said: Any, about: str) -> Any:
    raise InvalidInput(f"{name} = {said}: {where} is about {name} {about}")


def _close(a: Any, b: Any) -> bool:
    return bool(np.isclose(float(a), float(b), rtol=CLOSE, atol=0))


def _same(a: Any, b: Any) -> bool:
    """True if two methods are of one class, with the same numbers but for rounding."""
    if a is b or not _one_class(type(a), type(b)):
        return a is b
    names = {*made_with(a), *made_with(b)}
    return all(_alike(getattr(a, name, None), getattr(b, name, None)) for name in names)


def _one_class(a: type, b: type) -> bool:
    """True of one class, also where its file was read twice: imported, and named as FILE.py."""
    names = [cls.__module__ for cls in (a, b)]
    files = {realpath(getattr(sys.modules.get(n), "__file__", None) or n) for n in names}
    return a is b or (a.__qualname__ == b.__qualname__ and len(files) == 1)


def _alike(v: Any, w: Any) -> bool:
    if v is w:
        return True
    numbers = int | float | Fraction | np.number | np.ndarray
    if (
        isinstance(v, numbers) and isinstance(w, numbers) and not isinstance(v, bool)
        and not isinstance(w, bool)
    ):
        v, w = np.asarray(v, dtype=float), np.asarray(w, dtype=float)
        return v.shape == w.shape and bool(np.isclose(v, w, rtol=CLOSE, atol=0).all())
    return bool(np.all(v == w))


def others(setting: Any) -> Iterator[tuple[str, dict[str, Fraction]]]:
    """Of everything that is still open, by name, other choices than
    `MethodSetting.first_choice`."""
    first = setting.first_choice
    for name, family in setting.open_numbers().items():
        choices = (
            family.choices[1:] if isinstance(family, Among) else (Fraction(1, 2), Fraction(1, 7))
        )
        yield from ((name, {**first, name: Fraction(value)}) for value in choices)


def depends_on_the_horizon(setting: Any, world: Any, sampling: Any, rounds: int) -> bool:
    """True if a run of fewer rounds would be made with other numbers, as with a step size of
    1/sqrt(T)."""
    first, *rest = (
        setting.resolved(world, sampling, setting.first_choice, t)[1:]
        for t in {1, max(1, rounds - 1), rounds}
    )
    return not all(
        all(_alike(work[name], first[0][name]) for name in work) and _same(method, first[1])
        for work, method in rest
    )
