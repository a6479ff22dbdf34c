"""A chunk of a run within a long command: its rounds are kept as they go, and it goes on from there (`fedtheory.steps`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.simulation.resume import misfit
from fedtheory.steps import running

__all__ = ["KeptRounds", "Observer"]


@dataclass(frozen=True)
class Observer:
    """An ``on_round`` whose run can be gone on with: its notes can be written and taken up again.

    Attributes
    ----------
    look : callable(round_index, old_state, new_state, clients)
    noted : callable() -> dict of what `fedtheory.steps.whole` may return; a list only ever grows
    recall : callable(noted)
    """

    look: Callable[[int, Any, Any, Any], None]
    noted: Callable[[], dict[str, Any]] = dict
    recall: Callable[[Mapping[str, Any]], None] = lambda noted: None

    def __call__(self, round_index: int, old: Any, new: Any, clients: Any) -> None:
        self.look(round_index, old, new, clients)


class KeptRounds:
    """The place where a chunk's rounds stand.

    Parameters
    ----------
    meters, bins, states, traffic : what the loop fills
    observer : its ``on_round``
    name : of the loop; None where it is not to be kept
    """

    def __init__(
        self, meters: dict[str, np.ndarray], bins: list[Any], states: list[Any] | None,
        traffic: np.ndarray | None, observer: Any, name: str | None,
    ) -> None:
        known = observer is None or isinstance(observer, Observer)
        self._loop = running(name) if name is not None and known else None
        self._meters, self._bins, self._states, self._traffic, self._observer = meters, bins, states, traffic, observer

    def found(self, state: Any, models: Any) -> tuple[int, Any, Any]:
        """(rounds done, the state, the clients' models) to go on from, ``state`` and ``models`` to begin with."""
        past = None if self._loop is None else self._loop.past()
        if self._loop is None or past is None:
            return 0, state, models
        told, grown = past
        try:
            t, fields, meters, traffic = told["t"], told["state"], told["meters"], told["traffic"]
            there = type(state)(**fields)
            if (what := misfit(there, state)) is not None:
                raise ValueError(f"the state's {what}")
            if set(meters) != set(self._meters) or any(np.shape(v) != self._meters[k][: t + 1].shape for k, v in meters.items()):
                raise ValueError("it measured something else")
            states = [type(state)(**values) for values in grown.get("states", ())]
            notes = {**told["noted"], **{k.removeprefix("noted "): v for k, v in grown.items() if k.startswith("noted ")}}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._loop.refuse(str(error))
            return 0, state, models
        for name, values in meters.items():
            self._meters[name][: t + 1] = values
        self._bins[:] = grown["bins"] or [{} for _ in range(t)]
        if self._states is not None:
            self._states[:] = states
            there = states[-1]
        if self._traffic is not None:
            self._traffic[...] = traffic
        if self._observer is not None:
            self._observer.recall(notes)
        return t, there, told["models"]

    def keep(self, t: int, state: Any, models: Any, last: bool) -> None:
        """Write where it stands after round t, where it is time."""
        if self._loop is None:
            return
        noted: Callable[[], dict[str, Any]] = dict if self._observer is None else self._observer.noted

        def now() -> dict[str, Any]:
            meters = {name: values[: t + 1] for name, values in self._meters.items()}
            notes = {k: v for k, v in noted().items() if type(v) is not list}
            return {
                "t": t, "state": state._asdict(), "meters": meters, "models": models,
                "traffic": self._traffic, "noted": notes,
            }

        def grown() -> dict[str, list[Any]]:
            lists = {f"noted {k}": v for k, v in noted().items() if type(v) is list}
            states = {} if self._states is None else {"states": [s._asdict() for s in self._states]}
            return {"bins": self._bins if any(self._bins[-1:]) else [], **states, **lists}

        self._loop.keep(now, grown, last)
