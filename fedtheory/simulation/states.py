"""An algorithm's states between two rounds: kept, owned, put together and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.algorithms.base import aggregate
from fedtheory.arrays import Array, all_finite, astype_like, is_numpy, namespace, to_numpy
from fedtheory.errors import diverged
from fedtheory.parallel import fetch
from fedtheory.participation.cohorts import Cohort

if TYPE_CHECKING:
    from fedtheory.clients.clients import Clients

__all__ = [
    "check_finite_state", "cut", "join", "keep_idle", "own", "personal", "with_statistics",
]


def keep_idle(old: Any, new: Any, cohort: Cohort) -> Any:
    """The new state, with the old one in the scenarios in which nobody took part."""
    if cohort.steps is None or (idle := cohort.size() == 0).sum() == 0:
        return new
    fields = []
    for before, after in zip(old, new, strict=True):
        if getattr(after, "ndim", 0) >= 1 and before is not after:
            where = astype_like(idle.reshape(-1, *[1] * (after.ndim - 1)), after)
            after = namespace(after).where(where, before, after)
        fields.append(after)
    return type(new)(*fields)


def with_statistics(algorithm: Any, old: Any, new: Any, clients: Clients) -> Any:
    """The new state, in whose model the running statistics (BatchNorm) are the mean of the cohort's.

    Statistics are no parameters: they are averaged as the method averages models (its
    ``aggregation``, else the plain mean over the cohort), whatever it does with the parameters.
    FedDyn's step beyond the mean would make a variance negative. A convex combination does not.
    """
    if not (count := getattr(clients.problem, "statistics", 0)):
        return new
    mean = x = old.x[:, -count:]
    for result in clients.results[-1:]:  # of the round's last local work
        mean = x + aggregate(clients, result.y[:, :, -count:] - x[:, None, :], getattr(algorithm, "aggregation", "cohort"))
    return new._replace(x=namespace(new.x).concat([new.x[:, :-count], mean], axis=1))


def own(state: Any) -> Any:
    """The state with every memory in a buffer of its own, so that one may be overwritten without touching another."""
    seen: set[int] = set()
    fields = []
    for value in state:
        if is_numpy(value):
            root = value if value.base is None else value.base
            fresh = value.flags.writeable and value.flags.c_contiguous and id(root) not in seen
            value = value if fresh else np.array(value, order="C")
            seen.add(id(value if value.base is None else value.base))
        elif id(value) in seen and hasattr(value, "ndim"):
            value = namespace(value).asarray(value, copy=True)
        seen.add(id(value))
        fields.append(value)
    return type(state)(*fields)


def cut(state: Any, scenarios: range, own: bool) -> Any:
    """A chunk's part of a state; in memory of its own when it may be overwritten."""
    fields = []
    for value in state:
        if getattr(value, "ndim", 0) >= 1:
            value = value[scenarios.start : scenarios.stop, ...]
            value = namespace(value).asarray(value, copy=True) if own else value
        fields.append(value)
    return type(state)(*fields)


def join(parts: list[Any]) -> Any:
    """States of chunks, put together along the scenario axis."""
    if len(parts) == 1:
        return parts[0]
    fields = []
    for values in map(fetch, zip(*parts, strict=True)):
        arrays = len(values) > 1 and all(getattr(v, "ndim", 0) >= 1 for v in values)
        fields.append(namespace(*values).concat(values, axis=0) if arrays else values[0])
    return type(parts[0])(*fields)


def personal(state: Any) -> Array | None:
    """The clients' own models (S, N, d), where the method makes some."""
    return getattr(state, "personal", None)


def check_finite_state(state: Any, clients: Clients, round_index: int) -> None:
    """Raise `Diverged` with round, client and scenario when the round left the finite numbers."""
    if all_finite(state.x):
        return
    bad_x = np.argwhere(~np.isfinite(to_numpy(state.x)))[0]
    scenario, client = int(bad_x[0]), None
    for result in clients.results:
        bad = ~np.isfinite(to_numpy(result.y)).all(axis=-1)
        bad = np.argwhere(bad if clients.cohort.mask is None else bad & clients.cohort.mask)
        if len(bad):
            scenario, slot = (int(i) for i in bad[0])
            client = int(clients.cohort.members[scenario, slot]) if clients.cohort.members is not None else slot
            break
    scenario = clients.scenarios[scenario]  # its number in the whole run
    raise diverged(round_index, client, scenario)
