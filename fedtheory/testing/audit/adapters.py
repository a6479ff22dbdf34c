"""Someone's implementation as the audit calls it, and the errors of a call, by name."""

from __future__ import annotations

import inspect
import random
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.testing.audit.clients import Task

__all__ = ["Adapter", "AdapterError", "Outcome", "global_seeds", "limited"]


GPU = re.compile(r"cuda|nvidia|\bgpus?\b|\bmps\b|\bhip\b", re.IGNORECASE)  # in what is raised where there is none


class AdapterError(Exception):
    """A call of an implementation that gave no run: ``what`` names it, the message says how."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what


class _TimeUp(BaseException):  # no Exception, so that an adapter's own handlers let it pass
    pass


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Stop what takes longer, with `AdapterError`; where the system has no timer, or in another
    thread, nothing is stopped."""
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not usable or signal.getitimer(signal.ITIMER_REAL)[0] > 0:
        yield
        return

    def stop(*_: Any) -> None:
        raise _TimeUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _TimeUp:
        raise AdapterError("too slow", f"it took more than {seconds:g} seconds; allow more with time_limit=") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def global_seeds(seed: int) -> Iterator[None]:
    """The global generators of Python, NumPy and (where it is imported) torch seeded so; afterwards
    they are as they were."""
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002  what other code draws from
    torch = sys.modules.get("torch")
    tensor = torch.get_rng_state() if torch is not None else None
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    if torch is not None:
        torch.default_generator.manual_seed(seed)  # torch.manual_seed asks every kind of device, which takes longer than a run
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        if torch is not None and tensor is not None:
            torch.set_rng_state(tensor)


@dataclass
class Outcome:
    """The answer of an implementation to a task.

    Attributes
    ----------
    models : round -> server model (d,) float64, of the rounds that it gave
    states : the states that it gave back, one a round, where it makes single rounds
    float32 : whether a part of a state or a model came in single precision or less, or a model in
        float64 with numbers of single precision
    changed : what it wrote into of what it was handed: 'start', 'clients', 'state'
    """

    models: dict[int, np.ndarray]
    states: list[dict[str, np.ndarray]] = field(default_factory=list)
    float32: bool = False
    changed: tuple[str, ...] = ()


class _Settings(NamedTuple):
    """The names that a function has parameters for, or everything; and those without a default."""

    everything: bool
    named: frozenset[str]
    needed: frozenset[str]

    def takes(self, setting: str) -> bool:
        return self.everything or setting in self.named


def _settings_of(call: Callable[..., Any], first: int) -> _Settings:
    parameters = list(inspect.signature(call).parameters.values())
    rest = [p for p in parameters[first:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    needed = frozenset(p.name for p in rest if p.default is p.empty)
    return _Settings(any(p.kind is p.VAR_KEYWORD for p in parameters), frozenset(p.name for p in rest), needed)


class Adapter:
    """Someone's implementation.

    Parameters
    ----------
    given : callable or object
        - ``round(state, clients, cohort, **settings) -> state``, a function whose first parameter
          is called ``state``. A state is a dict with the server's model ``x`` and what the method
          keeps, under the names of `fedtheory.testing.METHODS`.
        - an object with such a method ``round``. With ``init(start, clients, **settings)`` and
          ``model(state)`` its states may be anything.
        - ``run(start, clients, cohorts, **settings)``, any other function: it gives the server's
          model after every round, or only the last one.

    Raises
    ------
    InvalidInput
        Nothing of these.
    """

    def __init__(self, given: Any) -> None:
        self.given = given
        self.name = getattr(given, "__name__", type(given).__name__)
        if inspect.isclass(given):
            raise InvalidInput(f"adapter = {self.name}: it is a class; give an object of it, {self.name}()")
        call = given.round if hasattr(given, "round") else given
        if not callable(call):
            raise InvalidInput(
                f"adapter = {given!r}: it cannot be called; give a function round(state, clients, cohort, ...) or "
                "run(start, clients, cohorts, ...), or an object with a method round"
            )
        self.call: Callable[..., Any] = call
        if inspect.iscoroutinefunction(call):
            raise InvalidInput(f"{self.name} is asynchronous; give a function that waits for it: asyncio.run({self.name}(...))")
        try:
            parameters = list(inspect.signature(call).parameters.values())
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"adapter = {given!r} has no signature to read ({error}); wrap it in a Python function"
            ) from error
        named = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if len(named) < 3:
            raise InvalidInput(
                f"{self.name}{inspect.signature(call)}: its first three parameters must be (state, clients, cohort) for one round, or "
                "(start, clients, cohorts) for a whole run; settings such as learning_rate follow"
            )
        self.steps = hasattr(given, "round") or named[0].name == "state"
        self.accepted = {"round": _settings_of(call, 3)}
        if hasattr(given, "init"):
            self.accepted["init"] = _settings_of(given.init, 2)
        self.needed = set().union(*(taken.needed for taken in self.accepted.values()))
        self.open_states = self.steps and not hasattr(given, "init")

    def takes(self, setting: str) -> bool:
        return any(taken.takes(setting) for taken in self.accepted.values())

    def _for(self, part: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Keep the settings that this function of the adapter has parameters for."""
        return {name: value for name, value in settings.items() if self.accepted[part].takes(name)}

    def run(self, task: Task, state: dict[str, np.ndarray], seed: int = 0) -> Outcome:
        """The implementation's run of a task.

        Parameters
        ----------
        state : the method's first state, for a function that makes one round
        seed : of the global generators

        Raises
        ------
        AdapterError
            It raised, gave what is no model, or gave numbers that are not finite.
        """
        settings = {name: _copied(value) for name, value in task.settings.items() if self.takes(name)}
        start, clients = task.start.copy(), tuple(c.copy() for c in task.clients)
        with global_seeds(seed):
            try:
                if self.steps:
                    outcome = self._rounds(task, start, clients, settings, state)
                else:
                    outcome = self._whole(task, start, clients, settings)
            except AdapterError:
                raise
            except (Exception, SystemExit) as error:  # anything may come out of someone else's code
                raise _raised(error) from error
        changed = list(outcome.changed)
        if not np.array_equal(start, task.start):
            changed.append("start")
        for mine, theirs in zip(task.clients, clients, strict=True):
            if not (np.array_equal(mine.features, theirs.features) and np.array_equal(mine.labels, theirs.labels)):
                changed.append("clients")
                break
        outcome.changed = tuple(dict.fromkeys(changed))
        return outcome

    def _rounds(
        self, task: Task, start: np.ndarray, clients: Any, settings: dict[str, Any], first: dict[str, np.ndarray]
    ) -> Outcome:
        now: Any = {name: value.copy() for name, value in first.items()}
        if not self.open_states:
            now = self.given.init(start, clients, **self._for("init", settings))
        outcome, settings, kept = Outcome({}), self._for("round", settings), first
        for number, cohort in enumerate(task.cohorts, start=1):
            after = self.call(now, clients, list(cohort), **settings)
            if self.open_states:
                if after is not now and not _still(now, kept):
                    outcome.changed = ("state",)
                after = self._state(after, first, number)
                parts = {n: part(after[n], n, number, first[n].shape) for n in first}
                kept = {name: value for name, (value, _) in parts.items()}
                outcome.states.append(kept)
                outcome.float32 |= any(single for _, single in parts.values())
            model = self.given.model(after) if hasattr(self.given, "model") else _model_of(after)
            outcome.models[number], single = vector(model, len(start), number)
            outcome.float32 |= single
            now = after
        return outcome

    def _state(self, after: Any, first: dict[str, np.ndarray], number: int) -> dict[str, Any]:
        if not isinstance(after, dict) or "x" not in after:
            said = "None (a return is missing)" if after is None else f"a {type(after).__name__}"
            said += f" of {', '.join(map(repr, after)) or 'nothing'}" if isinstance(after, dict) else ""
            raise AdapterError(
                "wrong state",
                f"round {number} gave {said}; it must give a dict of arrays with the server's model as 'x'",
            )
        missing = sorted(set(first) - set(after))
        if missing:
            raise AdapterError(
                "wrong state", f"the state that round {number} gave has no {missing[0]!r}, which it was handed"
            )
        return after

    def _whole(self, task: Task, start: np.ndarray, clients: Any, settings: dict[str, Any]) -> Outcome:
        given = self.call(start, clients, [list(c) for c in task.cohorts], **settings)
        if inspect.isgenerator(given):
            given = list(given)
        dim, rounds = len(start), task.rounds
        models = list(given)[-rounds:] if _several(given, dim, rounds) else [given]
        if len(models) < rounds:
            last, single = vector(given, dim, rounds)
            return Outcome({rounds: last}, float32=single)
        if rounds > 1 and all(model is models[0] for model in models):
            raise AdapterError("wrong state", "the models of all rounds are the same array, which holds the last one; append x.copy()")
        found = [vector(model, dim, number) for number, model in enumerate(models, start=1)]
        return Outcome({i: v for i, (v, _) in enumerate(found, start=1)}, float32=any(single for _, single in found))


def _copied(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value


def _model_of(state: Any) -> Any:
    if isinstance(state, dict) and "x" in state:
        return state["x"]
    if hasattr(state, "x"):
        return state.x
    raise AdapterError(
        "wrong state",
        f"a state of type {type(state).__name__} has no model 'x'; give the adapter a method model(state)",
    )


def _were_single(found: np.ndarray) -> bool:
    """True if float64 numbers are all of single precision, which numbers that came about in float64 never are by chance."""
    with np.errstate(over="ignore"):
        return found.size > 1 and bool((found == found.astype(np.float32)).all() and (found % 1 != 0).all())


def _raised(error: BaseException) -> AdapterError:
    text = str(error).strip().splitlines()
    frames = traceback.extract_tb(error.__traceback__)
    here = str(Path(__file__).parent)
    own = [f for f in frames if not f.filename.startswith(here) and "site-packages" not in f.filename] or frames
    where = f" (line {own[-1].lineno} of {Path(own[-1].filename).name})" if own else ""
    said = f"{type(error).__name__}{': ' + text[0][:200] if text else ''}{where}"
    lost = GPU.search(f"{type(error).__name__} {error}") is not None
    return AdapterError("needs a GPU", f"{said}; let it run on the CPU") if lost else AdapterError("raises", said)


def _several(given: Any, dim: int, rounds: int) -> bool:
    """True if this is one model a round, perhaps the first too, and no model in many parts."""
    parts = isinstance(given, list | tuple) or getattr(given, "ndim", 0) == 2
    return parts and len(given) in (rounds, rounds + 1) and _size(_plain(given)) != dim


def _size(value: Any) -> int:
    return sum(map(_size, value)) if isinstance(value, list) else int(np.size(value))


def _still(now: Any, kept: dict[str, np.ndarray]) -> bool:
    """True if an old state holds what it held."""
    try:
        return all(np.array_equal(part(now[n], n, 0, v.shape)[0], v) for n, v in kept.items())
    except (KeyError, AdapterError):
        return False


def part(value: Any, name: str, number: int, shape: tuple[int, ...]) -> tuple[np.ndarray, bool]:
    """A part of a state as float64 in this shape, (d,) or (N, d), and whether it came with less.

    (N, d) also from a list, a tuple or a dict with the clients' own.
    """
    single = False
    if len(shape) == 2:
        if isinstance(value, Mapping) and set(value) == set(range(shape[0])):
            value = [value[k] for k in range(shape[0])]
        value = _plain(value)
        if isinstance(value, list) and len(value) == shape[0]:
            rows = [array(row, name, number) for row in value]
            value, single = [row.ravel() for row, _ in rows], any(less for _, less in rows)
    found, less = array(value, name, number)
    by_rows = found.ndim < 2 or found.shape[: len(shape) - 1] == shape[:-1] or 1 in found.shape
    if found.size != np.prod(shape) or not by_rows:
        said = f"{name} after round {number} has shape {found.shape}, it must have {shape}"
        raise AdapterError("wrong shape", said)
    return found.reshape(shape), single or less


def array(value: Any, name: str, number: int) -> tuple[np.ndarray, bool]:
    """A value as float64, and whether it was less precise; a list of arrays is laid end to end."""
    what = f"{name} after round {number} is a {type(value).__name__}, no array of"
    try:
        found = _laid_out(_plain(value))
        if found.dtype.kind == "c":
            raise AdapterError("wrong shape", f"{what} real numbers ({found.dtype})")
        single = found.dtype.kind == "f" and found.dtype.itemsize < 8
        found = found.astype(float)
    except (TypeError, ValueError) as error:
        raise AdapterError("wrong shape", f"{what} numbers ({error})") from error
    if not np.isfinite(found).all():
        raise AdapterError("not finite", f"{name} after round {number} has NaN or infinite entries")
    return found, single


def _laid_out(value: Any) -> np.ndarray:
    parts = isinstance(value, list) and len(value) > 0
    if parts and all(isinstance(v, list) or np.ndim(v) > 0 for v in value):
        return np.concatenate([_laid_out(v).ravel() for v in value])
    return np.asarray(value)


def _plain(value: Any) -> Any:
    """The same in arrays and lists; tensors become arrays, also those in a list or a tuple."""
    if hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    of_objects = isinstance(value, np.ndarray) and value.dtype == object and value.ndim > 0
    if isinstance(value, list | tuple) or of_objects:
        return [_plain(v) for v in value]
    return value


def vector(value: Any, dim: int, number: int) -> tuple[np.ndarray, bool]:
    """A server model (d,), and whether it came with less precision than float64."""
    found, single = array(value, "the server's model", number)
    if found.size == dim and found.shape in ((dim,), (1, dim), (dim, 1)):
        return found.reshape(dim), single or _were_single(found)
    raise AdapterError(
        "wrong shape", f"the server's model after round {number} has shape {found.shape}, it must have ({dim},)"
    )
