"""Arguments of another kind than asked for, told in words before work starts."""

from __future__ import annotations

import textwrap
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from fedtheory.arrays import namespace
from fedtheory.errors import InvalidInput
from fedtheory.inputs import shown
from fedtheory.local.objective import LocalSolver
from fedtheory.participation.cohorts import Sampling
from fedtheory.store.checkpoints import Resume, misfit

__all__ = ["check_algorithm", "check_like", "check_local_solver", "check_past", "check_sampling"]


def _is(value: Any) -> str:
    """'the class FedAvg', or the value with its type."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"{textwrap.shorten(repr(value), 60, placeholder=' ...')} of type {type(value).__name__}"


def _call(cls: type) -> str:
    """'(mu=...)': what an instance of a dataclass needs."""
    needed = [f.name for f in fields(cls) if f.init and f.default is MISSING and f.default_factory is MISSING]
    return f"({', '.join(f'{name}=...' for name in needed)})"


def check_like(value: Any) -> None:
    """Raise `InvalidInput` unless it is None or an array of floating-point numbers."""
    if value is None:
        return
    if not is_array_api_obj(value):
        raise InvalidInput(f"like = {_is(value)}: give an array of the library, dtype and device to run in, or None for NumPy")
    xp = namespace(value)
    if value.dtype not in (xp.float64, xp.float32):  # optima, local solves and certificates are of these
        raise InvalidInput(f"like has dtype {value.dtype}: a run needs floating-point numbers of float64 or float32")


def check_algorithm(value: Any) -> None:
    """Raise `InvalidInput` unless it is an instance of a method.

    Raises
    ------
    InvalidInput
        With the call that makes one, where the method can be told from what was given.
    UnknownName
        The name of no method.
    """
    from fedtheory import algorithms

    if isinstance(value, algorithms.Algorithm):
        return
    remedy = "make one, as algorithms.get('fedavg')()"
    if isinstance(value, str):
        cls = algorithms.get(value)
        remedy = f"use algorithms.get({cls.name!r}){_call(cls)}"
    elif isinstance(value, type) and issubclass(value, algorithms.Algorithm):
        remedy = f"use {value.__name__}{_call(value)}"
    raise InvalidInput(f"algorithm = {_is(value)}: an instance of a method is needed; {remedy}")


def check_sampling(value: Any) -> None:
    """Raise `InvalidInput` unless it is None or a law of cohorts."""
    if value is not None and not isinstance(value, Sampling):
        number = isinstance(value, int) and not isinstance(value, bool)
        remedy = f"for cohorts of {value} clients use Uniform({value})" if number else "use Full(), Uniform(P) or Bernoulli(p)"
        raise InvalidInput(f"sampling = {_is(value)}: a law of cohorts is needed; {remedy}")


def check_local_solver(value: Any) -> None:
    """Raise `InvalidInput` unless it is None or a local solver."""
    if value is not None and not isinstance(value, LocalSolver):
        raise InvalidInput(
            f"local_solver = {_is(value)}: an instance of a local solver is needed; use local.Exact(), "
            "local.GradientSteps(steps=..., lr=...), for a network local.SGD(batch_size, lr, epochs=...) or local.Adam(...), or "
            "another of fedtheory.local"
        )


def check_past(resume: Any, fresh: Any, record: tuple[str, ...], rounds: int, client_bits: bool, num_clients: int) -> Resume:
    """Check what to go on from against a state that the run would begin with, and return it."""
    if not hasattr(resume, "final") and not (isinstance(resume, tuple | list) and 2 <= len(resume) <= len(Resume._fields)):
        raise InvalidInput(f"resume is {shown(resume)}: give a Trajectory, a Resume or (round, state)")
    past = Resume(resume.rounds, resume.final, resume.metrics) if hasattr(resume, "final") else Resume(*resume)
    if not isinstance(past.round_index, int | np.integer) or not 0 <= past.round_index < rounds:
        raise InvalidInput(f"resume is at round {past.round_index!r} of {rounds}: it must be an integer from 0 to {rounds - 1}")
    if client_bits:
        raise InvalidInput("client_bits counts a whole run, which a resumed one is not: leave it out")
    if type(past.state) is not type(fresh):
        raise InvalidInput(f"resume holds a {type(past.state).__name__}, this method's state is a {type(fresh).__name__}: use its own")
    if (what := misfit(past.state, fresh)) is not None:
        raise InvalidInput(f"resume's {what}: it is of another run")
    shape = (past.round_index + 1, fresh.x.shape[0])
    metrics = past.metrics
    for name in record:
        if metrics is None:
            break
        if name not in metrics or np.shape(metrics[name])[1:] != shape[1:] or len(metrics[name]) < shape[0]:
            raise InvalidInput(f"resume has no {name!r} of shape {shape}: record what the first part recorded")
    if "test_accuracy_all" in record:
        wanted = (*fresh.x.shape[:1], num_clients, fresh.x.shape[1])
        if tuple(getattr(past.models, "shape", ())) != wanted:
            raise InvalidInput(
                f"'test_accuracy_all' needs the clients' last models {wanted} to go on: resume from the Resume that checkpoint got"
            )
    if past.metrics is None and "bits" in record:
        raise InvalidInput("'bits' is a sum over all rounds: resume from a Trajectory, or give the metrics so far")
    return past
