"""Registered names beyond those that a test writes out, so that later ones are tested too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

from problem_makers import NONSMOOTH, SMOOTH

from fedtheory import algorithms, messages, problems

GIVEN: dict[Any, Any] = {float: 0.5, int: 2, bool: True}


def example(cls: type) -> Any:
    """An instance of a method or a compressor: its defaults, and 1/2 or 2 for a number that has none.

    Raises
    ------
    LookupError
        A hyperparameter without a default that is not a number: then the test has to write the case out.
    """
    kinds, given = get_type_hints(cls), {}
    for f in fields(cls):
        if not f.init or f.default is not MISSING or f.default_factory is not MISSING:
            continue
        kind = next((k for k in (kinds[f.name], *get_args(kinds[f.name])) if k in GIVEN), None)
        if kind is None:
            raise LookupError(f"{cls.__name__}.{f.name} has no default and is no number: write out a case with it")
        given[f.name] = GIVEN[kind]
    return cls(**given)


def methods_beyond(cases: Iterable[algorithms.Algorithm]) -> dict[str, algorithms.Algorithm]:
    """{name: instance} of every registered method of which there is no case."""
    known = {c.name for c in cases}
    return {name: example(algorithms.get(name)) for name in algorithms.names() if name not in known}


def compressors_beyond(cases: Iterable[messages.Compressor]) -> list[messages.Compressor]:
    """Every registered compressor of which there is no case."""
    known = {c.name for c in cases}
    return [example(messages.get(name)) for name in messages.names() if name not in known]


def problems_beyond(cases: Iterable[problems.Problem]) -> dict[str, problems.Problem]:
    """{name: instance}: one of `problem_makers` of every class of which there is no case."""
    known, out = {type(c) for c in cases}, {}
    for name, make in (SMOOTH | NONSMOOTH).items():
        problem = make()
        if type(problem) not in known:
            known.add(type(problem))
            out[name] = problem
    return out
