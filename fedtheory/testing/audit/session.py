"""One audit under way: runs of the implementation beside the reference's, and which known mistake explains them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.testing.audit import reference
from fedtheory.testing.audit.adapters import Adapter, AdapterError, Outcome
from fedtheory.testing.audit.battery import start_of
from fedtheory.testing.audit.clients import Client, Task
from fedtheory.testing.audit.methods import Method
from fedtheory.testing.audit.mistakes import Mistake, mistakes_of

__all__ = ["Comparison", "Session"]

SINGLE = 3e-4  # tolerance of numbers that came in float32
DOUBLE = 1e-9
CONTROLS_BEGIN = Mistake(
    "controls-begin-elsewhere", "the control variates do not start at 0",
    "c = 0 and c_k = 0 before the first round; the paper leaves them open, and its theorem wants c "
    "to be the mean of the c_k",
    ("scaffold", "fedelasticnet-scaffold"),
)
SOLVED = 1e-6  # where clients minimise to the end, each to a tolerance of its own


@dataclass
class Comparison:
    """One run, by the implementation and by the reference.

    Attributes
    ----------
    got : None where the call failed, with ``error``
    """

    label: str
    task: Task
    expected: list[reference.State]
    got: Outcome | None
    error: AdapterError | None
    rtol: float
    check: str = ""

    @property
    def agrees(self) -> bool:
        return self.got is not None and self.matches(self.expected)

    def matches(self, states: Iterable[reference.State]) -> bool:
        """True if the implementation gave these states, so far as it shows them.

        After the first that differs none is worked out.
        """
        return self.got is not None and next(self.differences(states), None) is None

    def differences(
        self, states: Iterable[reference.State]
    ) -> Iterator[tuple[int, str, np.ndarray, np.ndarray]]:
        """(round, name, got, expected) of what differs, in order of the rounds."""
        assert self.got is not None  # nobody asks of a call that failed
        at_least = float(max(1.0, np.abs(self.task.start).max()))
        names = ("x", *(n for n in (self.got.states[0] if self.got.states else {}) if n != "x"))
        # how large numbers get on the way, which is what rounding is relative to
        largest = dict.fromkeys(names, at_least)
        for number, state in enumerate(states):
            for name in names:
                largest[name] = max(largest[name], float(np.abs(state[name]).max(initial=0.0)))
            if number in self.got.models:
                kept = self.got.states[number - 1] if self.got.states else {}
                for name, value in {**kept, "x": self.got.models[number]}.items():
                    if not _close(value, state[name], largest[name], self.rtol):
                        yield number, name, value, state[name]


def _close(a: np.ndarray, b: np.ndarray, scale: float, rtol: float) -> bool:
    return bool(np.isfinite(b).all()) and bool((np.abs(a - b) <= rtol * scale).all())


def _apart(task: Task) -> bool:
    """True if the cohorts of the first two rounds have no client in common."""
    return task.rounds > 1 and not set(task.cohorts[0]) & set(task.cohorts[1])


class Session:
    """One implementation, the method it is held to, and what was run so far.

    Parameters
    ----------
    given : settings in place of the audit's, which the adapter has built in; weighting, option and local among them
    """

    def __init__(
        self, adapter: Adapter, method: Method, given: dict[str, Any], rtol: float | None, limit: float, seed: int
    ) -> None:
        self.adapter, self.method, self.given = adapter, method, given
        self.limit, self.seed, self.asked_rtol = limit, seed, rtol
        self.compared: dict[str, Comparison] = {}
        self.single = False
        self.changed: set[str] = set()
        self.stopped: AdapterError | None = None
        self.answered = False

    @property
    def exact(self) -> bool:
        return self.given.get("local", "steps") == "exact"

    @property
    def rtol(self) -> float:
        if self.asked_rtol is not None:
            return self.asked_rtol
        return SINGLE if self.single else SOLVED if self.exact else DOUBLE

    def settings(self, **over: Any) -> dict[str, Any]:
        """Settings of a run: the method's, then those that the adapter has built in, then these."""
        base: dict[str, Any] = {
            "learning_rate": 0.15,
            "local_steps": 3,
            "seed": 0,
            **self.method.settings,
            "weighting": self.method.weighting,
        }
        if self.method.name in ("fedavgm", "fedadagrad", "fedadam", "fedyogi"):
            base["server"] = self.method.name
        if "server_lr" in base and not self.adapter.takes("server_lr"):
            base["server_lr"] = 1.0
        return {**base, **self.given, **over}

    def can(self, setting: str) -> bool:
        """True if a run may choose this setting."""
        return self.adapter.takes(setting) and setting not in self.given

    def task(self, clients: tuple[Client, ...], cohorts: tuple[tuple[int, ...], ...],
             start: np.ndarray | None = None, state: dict[str, np.ndarray] | None = None,
             **over: Any) -> Task:
        return Task(clients, start_of(self.seed) if start is None else start, cohorts, self.settings(**over), state)

    def call(self, task: Task, seed: int = 0) -> Outcome:
        """The implementation's run. Raises `AdapterError`."""
        first = reference.init(self.method.name, task)
        known = {name: value for name, value in first.items() if name in self.method.state}
        shown = Task(task.clients, task.start, task.cohorts, self._public(task.settings), task.state)
        try:
            outcome = self.adapter.run(shown, known, seed)
        except AdapterError as error:
            if error.what in ("wrong state", "wrong shape") and not self.answered:
                self.stopped = error  # it would be the same in every call
            raise
        self.answered = True
        self.single |= outcome.float32
        self.changed |= set(outcome.changed)
        return outcome

    def _public(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the settings to hand over: all but those that only the reference reads."""
        return {k: v for k, v in settings.items() if k not in ("weighting", "option", "local", "server")}

    def compare(self, check: str, task: Task, which: str = "") -> Comparison:
        """Run a task by both; the comparison, ``which`` of its check, is kept for the diagnosis."""
        label = check + which
        if label not in self.compared:
            got, error = None, None
            try:
                got = self.call(task)
            except AdapterError as failed:
                error = failed
            expected = reference.run(self.method.name, task)
            self.compared[label] = Comparison(label, task, expected, got, error, self.rtol, check)
        return self.compared[label]

    def explanations(self) -> list[tuple[Mistake, ...]]:
        """The known mistakes, or else the pairs of them, with which the reference gives what the
        implementation gave in every run."""
        seen = [c for c in self.compared.values() if c.got is not None]
        if not seen or all(c.agrees for c in seen):
            return []
        for c in seen:
            c.rtol = self.rtol
        # what begins with every part of the state away from 0 rules out most, then what differs;
        # short runs come first
        seen.sort(
            key=lambda c: (c.task.state is None, c.agrees, c.task.rounds, len(c.task.cohorts[0]))
        )
        asked = self.settings()
        known = mistakes_of(
            self.method.name, self.exact, asked["weighting"], asked.get("option", "")
        )
        singles: list[tuple[Mistake, ...]] = [(m,) for m in known if self._explains((m,), seen)]
        if singles:
            return singles
        if (begun := self._first_controls(seen)) is not None:
            return [begun]
        pairs = (p for p in itertools.combinations(known, 2) if p[0].name != p[1].name)
        return [p for p in pairs if self._explains(p, seen)]

    def _explains(self, mistakes: tuple[Mistake, ...], seen: list[Comparison]) -> bool:
        wrong = frozenset(m.name for m in mistakes)
        for i, c in enumerate(seen):
            if not c.matches(reference.states_of(self.method.name, c.task, wrong)):
                seen.insert(0, seen.pop(i))  # what ruled one out is likely to rule out the next
                return False
        return True

    def _first_controls(self, seen: list[Comparison]) -> tuple[Mistake, ...] | None:
        """True if all control variates that start at one vector other than 0 explain the runs; the
        vector is worked out.

        Where the cohorts of the first two rounds have no client in common, the model after the
        second is affine in that vector.
        """
        told = next((c for c in seen if c.task.clients[0].loss == "squared" and _apart(c.task)), None)
        if "c_k" not in self.method.state or told is None or told.got is None or 2 not in told.got.models:
            return None

        def begun(task: Task, v: np.ndarray) -> list[reference.State]:
            controls = {"c": v, "c_k": np.tile(v, (len(task.clients), 1))}
            state = controls if task.state is None else task.state
            return reference.run(self.method.name, Task(task.clients, task.start, task.cohorts, task.settings, state))

        zero = np.zeros_like(told.task.start)
        at_zero = begun(told.task, zero)[2]["x"]
        slopes = np.array([begun(told.task, e)[2]["x"] - at_zero for e in np.eye(len(zero))]).T
        v = np.linalg.lstsq(slopes, told.got.models[2] - at_zero, rcond=None)[0]
        if not v.any() or not all(c.matches(begun(c.task, v)) for c in seen):
            return None
        return (CONTROLS_BEGIN,)
