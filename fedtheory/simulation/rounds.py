"""The only round loop: all rounds of a chunk of scenarios, and chunks put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.arrays import Array, is_numpy, namespace
from fedtheory.clients.clients import Clients
from fedtheory.errors import Diverged, FedTheoryError, InvalidInput, suggest
from fedtheory.inputs import check_flags, flag, whole_number
from fedtheory.local.objective import LocalSolver
from fedtheory.parallel import Board, Progress, stow
from fedtheory.participation.cohorts import Cohort, Full, Sampling
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.simulation.metrics import (
    BITS,
    EVALUATED,
    METRICS,
    OF_MEANS,
    RoundBins,
    entropies,
    measure,
    message_bins,
    remember,
    updates,
)
from fedtheory.simulation.states import (
    check_finite_state,
    cut,
    join,
    keep_idle,
    own,
    personal,
    with_statistics,
)
from fedtheory.store.checkpoints import Resume
from fedtheory.store.resumable import cached_step, step_key

__all__ = ["Execution", "Job", "Kept", "Part", "merge"]

REUSED = 2**25  # bytes: what is larger, C libraries ask the system for anew each time, page by page


@dataclass(frozen=True)
class Kept:
    """The parts of a run to keep: metrics, and their rounds, every state, every client's bits.

    Raises
    ------
    InvalidInput
        Metrics that are no sequence of names, or unknown (`UnknownName`); evaluate_every < 1; something else than True or False.
    """

    record: tuple[str, ...]
    states: bool = False
    client_bits: bool = False
    evaluate_every: int = 1

    def __post_init__(self) -> None:
        whole_number("evaluate_every", self.evaluate_every)
        flag("keep_states", self.states), flag("client_bits", self.client_bits)
        if isinstance(self.record, str) or not isinstance(self.record, Iterable):
            raise InvalidInput(f"record = {self.record!r}: give the names of metrics, for example ('objective',)")
        object.__setattr__(self, "record", tuple(self.record))
        for name in self.record:
            if name not in METRICS:
                raise suggest(name, METRICS, "metric")


@dataclass(frozen=True)
class Execution:
    """The way a run is computed, on which its numbers do not depend beyond rounding.

    Attributes
    ----------
    dense : bool
        All clients are computed, and masked.
    in_place : bool
        Clients' memories are overwritten.
    chunk : int or None
        Scenarios that are run together.
    workers : int
        Processes.

    Raises
    ------
    InvalidInput
        A chunk or workers < 1; something else than True or False.
    """

    dense: bool
    in_place: bool
    chunk: int | None
    workers: int

    def __post_init__(self) -> None:
        whole_number("workers", self.workers)
        check_flags(self)
        if self.chunk is not None:
            whole_number("chunk", self.chunk, remedy="None leaves it to the run")

    def pieces(self, x: Array, first: int, width: Callable[[], int], observed: bool) -> list[tuple[range, Array]]:
        """The scenarios of each chunk, numbered from `first` on, with their part of x (S, d).

        Where nothing says how many belong together, an equal share for all, a few at least, so that the problem's own data are not
        gone through for each. A round makes arrays of ``width()`` models a scenario.
        """
        scenarios, dim = x.shape
        most = scenarios
        if is_numpy(x) and not observed:
            most = max(16, REUSED // (width() * dim * x.itemsize))
        even = -(-scenarios // -(-scenarios // most))
        size = self.chunk or min(even, -(-scenarios // self.workers))
        starts = range(0, scenarios, size)
        return [(range(first + a, first + min(a + size, scenarios)), x[a : a + size, ...]) for a in starts]


class Part(NamedTuple):
    """The result of one chunk of scenarios."""

    meters: dict[str, np.ndarray]
    bins: list[RoundBins]  # of each round
    final: Any
    states: list[Any] | None
    error: tuple[int, Exception] | None
    traffic: np.ndarray | None = None  # (2, S, N) bits up and down, when asked for


@dataclass(frozen=True)
class Job:
    """All rounds of one chunk; it is sent to processes, so it holds data only."""

    problem: Problem
    algorithm: Algorithm
    rounds: int
    sampling: Sampling
    solver: LocalSolver
    stream: Stream
    kept: Kept
    how: Execution
    past: Resume | None = None
    first: int = 0  # scenario of all chunks

    @property
    def done(self) -> int:
        """Rounds that the run begins after."""
        return 0 if self.past is None else self.past.round_index

    def width(self) -> int:
        """Models of a scenario that a round makes anew: of its slots, or of all clients where their memories are not overwritten."""
        clients = self.problem.num_clients
        if self.how.dense or not self.how.in_place:
            return clients
        return self.sampling.sample(self.stream, 1, range(1), clients).slots

    def _evaluates(self, t: int) -> bool:
        return t % self.kept.evaluate_every == 0 or t == self.rounds

    def _models(self, scenarios: range, x: Array) -> Array | None:
        """All clients' last local models (S, N, d) to begin with, in memory of their own; None where no metric needs them."""
        if "test_accuracy_all" not in self.kept.record:
            return None
        xp = namespace(x)
        if self.past is not None:
            return xp.asarray(self.past.models[scenarios.start : scenarios.stop, ...], copy=True)
        shape = (x.shape[0], self.problem.num_clients, x.shape[1])
        return xp.asarray(xp.broadcast_to(x[:, None, :], shape), copy=True)

    def _clients(self, t: int, scenarios: range, x: Array) -> Clients:
        """The clients of round t."""
        cohort = self.sampling.sample(self.stream, t, scenarios, self.problem.num_clients)
        cohort = cohort.dense() if self.how.dense else _gathered(cohort)
        return Clients(self.problem, cohort, self.solver, x, self.stream, t, scenarios, self.how.in_place)

    def _measured(
        self, meters: dict[str, np.ndarray], t: int, old: Any, new: Any, clients: Clients, models: Array | None
    ) -> RoundBins:
        """Fill the meters of round t; its histograms."""
        moved = updates(self.kept.record, clients, old.x)
        measure(meters, self.problem, t, new.x, clients, moved, self._evaluates(t), personal(new), models)
        found = message_bins(self.kept.record, clients, moved)
        for name, value in entropies(self.kept.record, [found]).items():
            meters[name][t] = value
        return found

    def _prepared(self, plans: Any, t: int, scenarios: range, x: Array) -> Clients | None:
        """The clients of the next round, where a network's mini-batches are planned while a GPU is still at work on this one."""
        if t > self.rounds or not plans.ahead:
            return None
        try:
            clients = self._clients(t, scenarios, x)
            plans.prepare(clients.row_problem, self.solver, clients.rows)
        except FedTheoryError:  # round t will tell it
            return None
        return clients

    def _begin(self, scenarios: range, x: Array, meters: dict[str, np.ndarray], traffic: np.ndarray | None) -> Any:
        """The state to begin with; fills the meters, and the clients' traffic, up to it."""
        if self.past is None:
            N, asked = self.problem.num_clients, list[Clients]()

            def everybody() -> Clients:
                cohort = Full().sample(self.stream, 0, scenarios, N)
                asked.append(Clients(self.problem, cohort, self.solver, x, self.stream, 0, scenarios, self.how.in_place))
                return asked[-1]

            with np.errstate(over="ignore", invalid="ignore"):
                state = self.algorithm.begin(x, N, everybody)
                measure(meters, self.problem, 0, state.x, personal=personal(state))
            for clients in asked:
                measure({n: meters[n] for n in BITS if n in meters}, self.problem, 0, state.x, clients)
                if traffic is not None:
                    traffic += clients.client_bits()
            _check_start(meters, scenarios.start)
            return own(state) if self.how.in_place else state
        state = cut(self.past.state, scenarios, self.how.in_place)
        for name, values in (self.past.metrics or {}).items():
            if name in meters:
                meters[name][: self.done + 1] = values[: self.done + 1, scenarios.start : scenarios.stop]
        if self.past.metrics is None:
            for out in meters.values():
                out[: self.done + 1] = np.nan
            seen = {name: out for name, out in meters.items() if name in EVALUATED and name not in OF_MEANS}
            measure(seen, self.problem, self.done, state.x, None, None, self._evaluates(self.done), personal(state))
        return state

    def _step(self, scenarios: range, x: Array) -> str:
        """The name of this chunk's run among the steps of a command."""
        parts = (self.algorithm, self.rounds, self.sampling, self.solver, self.stream, self.kept, scenarios)
        at_start = np.asarray(self.problem.objective(x[:1])).tolist()
        return step_key("rounds", *parts, self.problem, x[0].tolist(), at_start)

    def __call__(self, index: int, piece: tuple[range, Array], folder: str | None, board: str | None, chunks: int) -> Part:
        part = self.run(index, piece, Board(chunks, board))
        if part.error is not None or folder is None:
            return part
        first = piece[0].start - self.first
        states = None if part.states is None else [stow(s, folder, str(i), first) for i, s in enumerate(part.states)]
        return part._replace(final=stow(part.final, folder, "final", first), states=states)

    def run(
        self, index: int, piece: tuple[range, Array], board: Board, bar: Progress | None = None,
        on_round: Callable[[int, Any, Any, Clients], None] | None = None,
        checkpoint: Callable[[Resume], None] | None = None,
    ) -> Part:
        """The run of a chunk, which a command that keeps its steps keeps where nothing looks on."""

        made: list[Part] = []

        def run() -> Any:
            made.append(part := self._run(index, piece, board, bar, on_round, checkpoint))
            if part.error is not None:
                return part  # no file holds it
            states = part.states and [tuple(s) for s in part.states]
            return part.meters, part.bins, tuple(part.final), states, part.traffic

        watched = on_round is not None or checkpoint is not None or self.past is not None
        if watched or not is_numpy(piece[1]):
            run()
            return made[0]
        found = cached_step(partial(self._step, *piece), run)
        if made:
            return made[0]
        meters, bins, final, states, traffic = found
        kind = type(self.algorithm.init(piece[1], self.problem.num_clients))
        board.tick(index, self.rounds)
        return Part(meters, bins, kind(*final), states and [kind(*s) for s in states], None, traffic)

    def _run(
        self, index: int, piece: tuple[range, Array], board: Board, bar: Progress | None,
        on_round: Callable[[int, Any, Any, Clients], None] | None,
        checkpoint: Callable[[Resume], None] | None,
    ) -> Part:
        scenarios, x = piece
        _hold_freed_memory()
        problem, clients_total = self.problem, self.problem.num_clients
        meters = {name: np.zeros((self.rounds + 1, len(scenarios))) for name in self.kept.record}
        bins: list[Any] = []
        traffic = np.zeros((2, len(scenarios), clients_total), dtype=np.int64) if self.kept.client_bits else None
        state = self._begin(scenarios, x, meters, traffic)
        models = self._models(scenarios, x)
        states = [state] if self.kept.states else None
        upcoming, plans = None, getattr(problem, "batch_plans", None)
        for t in range(self.done + 1, self.rounds + 1):
            if t > board.limit:
                break
            try:
                clients = upcoming or self._clients(t, scenarios, x)
                with np.errstate(over="ignore", invalid="ignore"):  # divergence is an error, not a warning
                    new = with_statistics(self.algorithm, state, self.algorithm.round(state, clients), clients)
                    new = keep_idle(state, new, clients.cohort)
                    upcoming = None if plans is None else self._prepared(plans, t + 1, scenarios, x)
                    check_finite_state(new, clients, t)
                    models = remember(models, clients)
                    bins.append(self._measured(meters, t, state, new, clients, models) if meters else {})
            except (FedTheoryError, np.linalg.LinAlgError) as error:
                board.fail(index, t)
                return Part(meters, bins, None, None, (t, error))
            if traffic is not None:
                traffic += clients.client_bits()
            if on_round is not None:
                on_round(t, state, new, clients)
            state = new
            if states is not None:
                states.append(state)
            if checkpoint is not None:
                checkpoint(Resume(t, state, {name: out[: t + 1] for name, out in meters.items()}, models))
            board.tick(index, t - self.done)
            if bar is not None and bar.shown:
                bar.update(board.done)
        return Part(meters, bins, state, states, None, traffic)


def _hold_freed_memory() -> None:
    """Let what a round frees serve the next: after a block of `REUSED` bytes was freed, glibc keeps as large ones, and twice as much.

    Without it the arrays of a round go back to the system and come again as new pages, which costs more than the arithmetic on them.
    """
    with suppress(MemoryError):  # a run of little memory needs none of this
        np.empty(REUSED - 8192, dtype=np.uint8)  # never touched; glibc counts its own words and whole pages, too


def _check_start(meters: dict[str, np.ndarray], first: int) -> None:
    """Raise `Diverged` for a start at which F or its gradient is beyond the largest float: no step is to blame for it."""
    for name in ("objective", "suboptimality", "gradient_norm", "distance"):
        if name in meters and not (ok := np.isfinite(meters[name][0])).all():
            worst = int(np.argmin(ok))
            told = f"round 0: {name} at x0 is {meters[name][0, worst]}: start nearer to 0, or rescale the data"
            raise Diverged(told, 0, None, first + worst)


def _gathered(cohort: Cohort) -> Cohort:
    """A cohort of one scenario without slots for those who stay away; others as they are."""
    if cohort.mask is None or cohort.scenarios > 1 or cohort.steps is not None or cohort.everyone:
        return cohort
    return cohort.gathered()


def merge(
    parts: list[Part], job: Job
) -> tuple[dict[str, np.ndarray], Any, list[Any] | None, dict[str, np.ndarray] | None]:
    """Metrics, last state, kept states and clients' bits of all chunks together; raises what went wrong first."""
    failed = [p.error for p in parts if p.error is not None]
    if failed:
        raise min(failed, key=lambda e: e[0])[1]
    meters = parts[0].meters
    if len(parts) > 1:  # a copy of one part would be as large as all that is kept
        meters = {name: np.concatenate([p.meters[name] for p in parts], axis=1) for name in job.kept.record}
    for i in range(job.rounds - job.done) if len(parts) > 1 else ():
        for name, value in entropies(job.kept.record, [p.bins[i] for p in parts]).items():
            meters[name][job.done + 1 + i] = value
    states = None
    if job.kept.states:
        kept = [p.states or [] for p in parts]
        states = [join([k[i] for k in kept]) for i in range(job.rounds - job.done + 1)]
    traffic = None
    if job.kept.client_bits:
        counted = [p.traffic for p in parts if p.traffic is not None]
        traffic = {way: np.concatenate([c[i] for c in counted]) for i, way in enumerate(("up", "down"))}
    return meters, join([p.final for p in parts]), states, traffic
