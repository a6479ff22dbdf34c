"""A run of anyone's code as it is handed in, and what a statement makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_array, shown
from fedtheory.theory.judge.statement import Sides

__all__ = ["UNKNOWN", "Missing", "NotRecorded", "OwnRun", "Record", "not_about_runs", "read_record"]

UNKNOWN = (
    "what the method keeps beside the model is not known of this run: hand the whole states over, "
    "run={'x': models, ...} with every memory under its name, as simulate(..., keep_states=True) has them"
)


class NotRecorded(InvalidInput):
    """A statement needs something of a run that was not handed over with it."""


class Missing:
    """A quantity that a run did not record: whatever is computed from it raises `NotRecorded`, with the remedy."""

    __array_ufunc__ = None  # NumPy leaves the arithmetic to this class

    def __init__(self, what: str) -> None:
        self.what = what

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise NotRecorded(self.what)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _raise
    __neg__ = __pos__ = __abs__ = __getitem__ = __len__ = __iter__ = __array__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = _raise

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._raise()


@dataclass(frozen=True)
class Record:
    """The record of a run of anyone's.

    Attributes
    ----------
    models : (rounds + 1, S, d), the server's models, round 0 first, one column a seed; None where only the bound is asked for
    rounds : int
    memories : dict name -> array (rounds + 1, ...) as it was handed in
    """

    models: np.ndarray | None
    rounds: int
    memories: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """The number of runs."""
        return 1 if self.models is None else self.models.shape[1]

    def start(self, case_x0: np.ndarray) -> np.ndarray:
        """x_0 (S, d)."""
        return case_x0[None] if self.models is None else self.models[0]

    def common_start(self, case_x0: np.ndarray) -> np.ndarray:
        """x_0 (d,), the same for all seeds. Raises `InvalidInput` where they start apart."""
        starts = self.start(case_x0)
        if np.abs(starts - starts[:1]).max() > 1e-12 * max(1.0, float(np.abs(starts).max())):
            raise InvalidInput("the seeds start at different points: the bound is about one x_0; hand over one start after another")
        return starts[0]

    def memory(self, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
        """A memory (rounds + 1, S, *shape) of that name; None where it was not handed over.

        Raises `InvalidInput` for another shape, or entries that are not finite.
        """
        if name not in self.memories:
            return None
        values = real_array(f"trajectory[{name!r}]", self.memories[name])
        if shape == (1,) and values.ndim == 1:
            values = values[:, None]
        whole = (self.rounds + 1, self.seeds, *shape)
        if self.seeds == 1 and values.shape == (self.rounds + 1, *shape):
            values = values[:, None]
        if values.shape != whole:
            raise InvalidInput(
                f"trajectory[{name!r}] has shape {values.shape}: {whole} is needed, (rounds + 1, seeds, ...) as of the server's models"
            )
        return values

    def until(self, rounds: int) -> Record:
        """The first rounds of it."""
        models = None if self.models is None else self.models[: rounds + 1]
        return Record(models, rounds, {k: v[: rounds + 1] for k, v in self.memories.items()})


@dataclass(frozen=True)
class OwnRun:
    """The two sides of a form on a recorded run.

    Attributes
    ----------
    sides : (K, S), rows are horizons, columns seeds; of a record without models the left side says nothing
    horizons : (K,)
    letter : of the horizon
    exact : whether nothing in the run is random, so that every seed is judged by itself; else the sides are claimed in the mean
    left : what the left side is, in words
    rule : the key of `Form.established`
    constants : what the statement's letters are here, by name
    where : what `Check.where` tells besides the entry
    """

    sides: Sides
    horizons: np.ndarray
    letter: str
    exact: bool
    left: str
    rule: str = "any"
    constants: Mapping[str, Any] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)


def _models(problem: Any, value: Any) -> np.ndarray:
    """(rounds + 1, S, d) from what was handed in."""
    found = real_array("trajectory", value, finite=False)
    d = problem.dim
    if d == 1 and found.ndim == 1:
        found = found[:, None]
    if found.ndim == 2 and found.shape[-1] == d:
        found = found[:, None]
    if found.ndim != 3 or found.shape[-1] != d:
        losses = found.ndim == 2 and found.shape[-1] == problem.num_clients
        told = "; are these losses, one a client?" if losses else ""
        raise InvalidInput(
            f"trajectory has shape {found.shape}, and must be the server's models, (rounds + 1[, seeds], d) with d = {d}{told}; "
            "gaps alone are compared by assert_bound_holds(gaps, statement.bound(...))"
        )
    if len(found) < 2 or found.shape[1] == 0:
        raise InvalidInput(f"trajectory has shape {found.shape}: the start and at least one round of one seed are needed")
    return found


def read_record(problem: Any, trajectory: Any) -> Record:
    """A run as it is handed in.

    Parameters
    ----------
    trajectory : models (rounds + 1, d) or (rounds + 1, seeds, d); a dict with these under 'x' and memories under their names; a list of
        states with the attribute ``x``; or a `fedtheory.Trajectory` whose states were kept

    Raises
    ------
    InvalidInput
        Another shape, a `Trajectory` without states.
    """
    states = getattr(trajectory, "states", None)
    if callable(getattr(trajectory, "server_models", None)):
        if states is None:
            raise InvalidInput("the trajectory has no states: run simulate(..., keep_states=True)")
        trajectory = states
    if isinstance(trajectory, list | tuple) and trajectory and all(hasattr(s, "x") for s in trajectory):
        first = trajectory[0]
        names = getattr(first, "_fields", None) or tuple(vars(first))
        trajectory = {
            n: np.stack([real_array(n, getattr(s, n), finite=False) for s in trajectory])
            for n in names if getattr(first, n) is not None
        }
    if isinstance(trajectory, Mapping):
        if "x" not in trajectory:
            raise InvalidInput(f"trajectory has the keys {shown(sorted(map(str, trajectory)))}: the server's models belong under 'x'")
        models = _models(problem, trajectory["x"])
        memories = {str(k): real_array(f"trajectory[{k!r}]", v, finite=False) for k, v in trajectory.items() if k != "x"}
        for name, values in memories.items():
            if values.ndim < 1 or len(values) != len(models):
                raise InvalidInput(f"trajectory[{name!r}] has shape {values.shape}: {len(models)} entries are needed, as of the models")
    else:
        models, memories = _models(problem, trajectory), {}
    return Record(models, len(models) - 1, memories)


def not_about_runs(what: str) -> str:
    """Why nobody's run can be held to a statement that is about something else."""
    return f"{what}: it bounds nothing along a run's models; `Statement.verify` judges it with the methods of this package"
