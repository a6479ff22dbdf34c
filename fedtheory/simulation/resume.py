"""Going on with a run that was cut: where it stood, and whether that belongs to it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedtheory.arrays import namespace
from fedtheory.errors import InvalidInput
from fedtheory.inputs import shown

__all__ = ["Resume", "check_past", "cut", "misfit"]


class Resume(NamedTuple):
    """The place after a round where a run can go on: everything random is keyed by the round.

    Attributes
    ----------
    round_index : int
        Rounds done.
    state : the algorithm's state after it
    metrics : dict of (round_index + 1, S) arrays, or None
        What was measured so far.
    models : (S, N, d) or None
        All clients' last local models, where a metric needs them.
    """

    round_index: int
    state: Any
    metrics: dict[str, np.ndarray] | None = None
    models: Any = None


def cut(state: Any, scenarios: range, own: bool) -> Any:
    """A chunk's part of a state; in memory of its own when it may be overwritten."""
    fields = []
    for value in state:
        if getattr(value, "ndim", 0) >= 1:
            value = value[scenarios.start : scenarios.stop, ...]
            value = namespace(value).asarray(value, copy=True) if own else value
        fields.append(value)
    return type(state)(*fields)


def misfit(state: Any, fresh: Any) -> str | None:
    """Say what in a state is of another kind, dtype or shape than in one that a run begins with.
    None where all fits."""
    for name, value, expected in zip(fresh._fields, state, fresh, strict=True):
        found, wanted = ((getattr(v, "shape", None), str(getattr(v, "dtype", type(v).__name__))) for v in (value, expected))
        if found != wanted:
            return f"{name} is {found[1]} {found[0]}, this run's {wanted[1]} {wanted[0]}"
    return None


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
