"""The only round loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.arrays import Array, astype_like, is_numpy, namespace, on_host, to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.errors import FedTheoryError, InvalidInput, suggest
from fedtheory.inputs import real_array, whole_number
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalSolver
from fedtheory.parallel import Board, Progress, run_processes, stow
from fedtheory.participation.cohorts import Cohort, Full, Sampling
from fedtheory.problems.base import Problem
from fedtheory.provenance import provenance
from fedtheory.randomness import Stream
from fedtheory.simulation.arguments import (
    check_algorithm,
    check_like,
    check_local_solver,
    check_problem,
    check_sampling,
)
from fedtheory.simulation.metrics import EVALUATED, METRICS, RoundBins, check_metrics, entropies, measure, message_bins
from fedtheory.simulation.resume import Resume, check_past, cut
from fedtheory.simulation.states import check_finite_state, join, keep_idle, own, personal

__all__ = ["METRICS", "Resume", "Trajectory", "check_start", "simulate"]


@dataclass
class Trajectory:
    """What a run measured.

    Attributes
    ----------
    metrics : dict of (rounds + 1, S) arrays
        Entry 0 is the start; wire metrics are 0 there, and entropy is one number a round (all scenarios together).
    client_bits : dict of (S, N) int64 arrays, when asked for
        'up' and 'down': what every client sent and received over the whole run.
    final : the algorithm's last state
    states : list of states (round 0 first), when asked for
    """

    problem: Problem
    algorithm: Algorithm
    rounds: int
    metrics: dict[str, np.ndarray]
    final: Any
    states: list[Any] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    client_bits: dict[str, np.ndarray] | None = None

    @property
    def x(self) -> np.ndarray:
        """Last server models (S, d)."""
        return to_numpy(self.final.x)

    def server_models(self) -> np.ndarray:
        """Server models of all rounds (rounds + 1, S, d); needs ``keep_states``."""
        if self.states is None:
            raise InvalidInput("the states were not kept: call simulate(..., keep_states=True)")
        return np.stack([to_numpy(s.x) for s in self.states])


REUSED = 2**25  # bytes: what is larger, C libraries ask the system for anew each time, page by page


def _together(x: Array, num_clients: int, free: bool) -> int:
    """Scenarios in a chunk, an equal share of all; a few at least, so that the problem's own data are not gone through for each."""
    scenarios, dim = x.shape
    if not (free and is_numpy(x)):
        return scenarios
    most = max(16, REUSED // (num_clients * dim * x.itemsize))
    return -(-scenarios // -(-scenarios // most))


def check_start(problem: Problem, x0: Any, scenarios: int, like: Array | None = None) -> Array:
    """x0 as (S, d): None -> 0, (d,) -> the same for every scenario, (S, d) as given."""
    x0 = np.zeros(problem.dim) if x0 is None else x0
    host = real_array("x0", x0)
    if host.shape not in ((problem.dim,), (scenarios, problem.dim)):
        raise InvalidInput(f"x0 has shape {host.shape}: expected ({problem.dim},) or ({scenarios}, {problem.dim})")
    host = np.array(np.broadcast_to(host, (scenarios, problem.dim)))
    check_like(like)
    return host if like is None else astype_like(host, like)


def simulate(
    problem: Problem,
    algorithm: Algorithm,
    rounds: int,
    x0: Any = None,
    sampling: Sampling | None = None,
    scenarios: int = 1,
    seed: int = 0,
    local_solver: LocalSolver | None = None,
    record: Sequence[str] = ("objective",),
    keep_states: bool = False,
    dense: bool = False,
    like: Array | None = None,
    on_round: Callable[[int, Any, Any, Clients], None] | None = None,
    in_place: bool | None = None,
    chunk: int | None = None,
    workers: int = 1,
    progress: bool = False,
    client_bits: bool = False,
    resume: Trajectory | Resume | tuple[int, Any] | None = None,
    checkpoint: Callable[[Resume], None] | None = None,
    evaluate_every: int = 1,
    first_scenario: int = 0,
) -> Trajectory:
    """Run a federated method on a problem.

    Parameters
    ----------
    rounds : int >= 1
    x0 : (d,) or (S, d), default 0
    sampling : Sampling, default full participation
    scenarios : int >= 1
        Independent repetitions, run as one batch.
    local_solver : LocalSolver, default Exact()
    record : names from `METRICS`
    keep_states : bool
        Keep the state of every round.
    dense : bool
        Compute all clients and mask (default: gather the cohort where it has one size).
    like : array
        Run in this array's namespace, dtype and device (default NumPy float64).
    on_round : callable(round_index, old_state, new_state, clients)
        Called after each round of each chunk (``clients.scenarios`` says which); raise to stop.
    in_place : bool
        Let client memories be overwritten; default: yes unless states are kept or observed.
    chunk : int
        Scenarios run together; results do not depend on it beyond rounding. Default: all, or an equal share a worker, but with NumPy,
        unless states are kept or observed, no more (but 16) than let one memory of all clients (S, N, d) stay below 32 MiB.
    workers : int
        Processes, one BLAS thread each. What runs in them cannot call back: ``on_round`` needs workers=1.
    progress : bool
        Show a progress bar on the terminal for work that takes longer than two seconds.
    client_bits : bool
        Keep what every client sent and received (``Trajectory.client_bits``).
    resume : Trajectory, Resume or (round, state)
        Go on from there up to `rounds` rounds altogether, with the numbers of a run that was never cut. x0 is then not looked at.
        Metrics of earlier rounds are taken over, or NaN where none are given.
    checkpoint : callable(Resume)
        Called after every round with what ``resume`` takes; the next round may overwrite the arrays. Needs one chunk.
    evaluate_every : int
        Metrics of the model alone (objective, distance, test accuracy...) are measured in every so manieth round and the last
        one; NaN in the others.
    first_scenario : int
        The scenarios are those from this number on of a longer run, which takes the same x0 for all.

    Notes
    -----
    In a scenario in which nobody takes part in a round, the round changes nothing.

    Raises
    ------
    InvalidInput
        Before any work: an algorithm, sampling or local solver of another kind, P > m, rounds < 1,
        shapes that disagree, unknown metrics (`UnknownName`), a state of another run.
    MissingCapability
        A metric that the problem or the method cannot give.
    Diverged
        At the first non-finite number, with round and client; the earliest round over all chunks.
    """
    check_algorithm(algorithm), check_sampling(sampling), check_local_solver(local_solver)
    check_problem(problem)
    whole_number("rounds", rounds), whole_number("scenarios", scenarios), whole_number("workers", workers)
    whole_number("evaluate_every", evaluate_every)
    if chunk is not None:
        whole_number("chunk", chunk, remedy="None leaves it to the run")
    if isinstance(record, str) or not isinstance(record, Iterable):
        raise InvalidInput(f"record = {record!r}: give the names of metrics, for example ('objective',)")
    for name in record:
        if name not in METRICS:
            raise suggest(name, METRICS, "metric")
    if on_round is not None and not callable(on_round):
        raise InvalidInput(f"on_round = {on_round!r}: give a function of (round_index, old_state, new_state, clients)")
    if workers > 1 and on_round is not None:
        raise InvalidInput("on_round is called in this process, so it needs workers=1; chunk=... saves memory as well")
    if not isinstance(first_scenario, int | np.integer) or first_scenario < 0 or (first_scenario and resume is not None):
        raise InvalidInput(f"first_scenario = {first_scenario!r}: it must be an integer >= 0, and 0 with resume")
    check_metrics(tuple(record), problem)
    sampling, solver, stream = sampling or Full(), local_solver or Exact(), Stream(seed)
    sampling.check_run(problem.num_clients, rounds)
    solver.check(problem)
    algorithm.check(solver)
    algorithm.check_run(problem, rounds)
    algorithm.check_sampling(sampling, problem, rounds)
    x = check_start(problem, None if resume is not None else x0, scenarios, like)
    if workers > 1 and not on_host(x):
        raise InvalidInput(f"workers = {workers}: processes do not share {x.device}; with workers=1 all scenarios run there at once")
    past = None if resume is None else check_past(
        resume, algorithm.init(x, problem.num_clients), tuple(record), rounds, client_bits
    )
    in_place = in_place if in_place is not None else not keep_states and on_round is None
    if {"suboptimality", "distance"} & set(record):
        problem.optimum()  # once, before any process is started
    options = (keep_states, dense, in_place, client_bits, past, evaluate_every)
    job = _Job(problem, algorithm, rounds, sampling, solver, stream, tuple(record), *options)
    size = chunk or min(_together(x, problem.num_clients, on_round is None and not keep_states), -(-scenarios // workers))
    shift = int(first_scenario)
    pieces = [
        (range(shift + a, shift + min(a + size, scenarios)), x[a : a + size, ...]) for a in range(0, scenarios, size)
    ]
    if checkpoint is not None and (workers > 1 or len(pieces) > 1):
        raise InvalidInput(f"checkpoint is called with the state of all scenarios, here in {len(pieces)} chunks: use chunk={scenarios}")
    with Progress((rounds - job.done) * len(pieces), f"{algorithm.name}, {scenarios} scenarios", progress) as bar:
        if workers > 1 and len(pieces) > 1:
            merged = run_processes(job, pieces, min(workers, len(pieces)), bar, lambda parts: _merge(parts, job))
        else:
            board = Board(len(pieces))
            merged = _merge([job.run(i, piece, board, bar, on_round, checkpoint) for i, piece in enumerate(pieces)], job)
    meters, final, states, traffic = merged
    library = namespace(x).__name__.rpartition(".")[2]
    made_with = provenance(seed, str(getattr(x, "device", "cpu")), str(x.dtype).removeprefix("torch."), library)
    return Trajectory(problem, algorithm, rounds, meters, final, states, made_with, traffic)


def _merge(
    parts: list[_Part], job: _Job
) -> tuple[dict[str, np.ndarray], Any, list[Any] | None, dict[str, np.ndarray] | None]:
    """Metrics, last state, kept states and clients' bits of all chunks together; raises what went wrong first."""
    failed = [p.error for p in parts if p.error is not None]
    if failed:
        raise min(failed, key=lambda e: e[0])[1]
    meters = {name: np.concatenate([p.meters[name] for p in parts], axis=1) for name in job.record}
    for i in range(job.rounds - job.done) if len(parts) > 1 else ():
        for name, value in entropies(job.record, [p.bins[i] for p in parts]).items():
            meters[name][job.done + 1 + i] = value
    states = [join([p.states[i] for p in parts]) for i in range(job.rounds - job.done + 1)] if job.keep_states else None
    traffic = None
    if job.client_bits:
        traffic = {way: np.concatenate([p.traffic[i] for p in parts]) for i, way in enumerate(("up", "down"))}
    return meters, join([p.final for p in parts]), states, traffic


class _Part(NamedTuple):
    """What one chunk of scenarios gave."""

    meters: dict[str, np.ndarray]
    bins: list[RoundBins]  # of each round
    final: Any
    states: list[Any] | None
    error: tuple[int, Exception] | None
    traffic: np.ndarray | None = None  # (2, S, N) bits up and down, when asked for


@dataclass(frozen=True)
class _Job:
    """All rounds of one chunk; it is sent to processes, so it holds data only."""

    problem: Problem
    algorithm: Algorithm
    rounds: int
    sampling: Sampling
    solver: LocalSolver
    stream: Stream
    record: tuple[str, ...]
    keep_states: bool
    dense: bool
    in_place: bool
    client_bits: bool = False
    past: Resume | None = None
    evaluate_every: int = 1

    @property
    def done(self) -> int:
        """Rounds that the run begins after."""
        return 0 if self.past is None else self.past.round_index

    def _evaluates(self, t: int) -> bool:
        return t % self.evaluate_every == 0 or t == self.rounds

    def _begin(self, scenarios: range, x: Array, meters: dict[str, np.ndarray]) -> Any:
        """The state to begin with; fills the meters up to it."""
        if self.past is None:
            state = self.algorithm.init(x, self.problem.num_clients)
            measure(meters, self.problem, 0, state.x, personal=personal(state))
            return own(state) if self.in_place else state
        state = cut(self.past.state, scenarios, self.in_place)
        for name, values in (self.past.metrics or {}).items():
            if name in meters:
                meters[name][: self.done + 1] = values[: self.done + 1, scenarios.start : scenarios.stop]
        if self.past.metrics is None:
            for out in meters.values():
                out[: self.done + 1] = np.nan
            seen = {name: out for name, out in meters.items() if name in EVALUATED}
            measure(seen, self.problem, self.done, state.x, None, None, self._evaluates(self.done), personal(state))
        return state

    def __call__(self, index: int, piece: tuple[range, Array], folder: str, board: str, chunks: int) -> _Part:
        part = self.run(index, piece, Board(chunks, board))
        if part.error is not None:
            return part
        states = None if part.states is None else [stow(s, folder) for s in part.states]
        return part._replace(final=stow(part.final, folder), states=states)

    def run(
        self,
        index: int,
        piece: tuple[range, Array],
        board: Board,
        bar: Progress | None = None,
        on_round: Callable[[int, Any, Any, Clients], None] | None = None,
        checkpoint: Callable[[Resume], None] | None = None,
    ) -> _Part:
        scenarios, x = piece
        problem, clients_total = self.problem, self.problem.num_clients
        meters = {name: np.zeros((self.rounds + 1, len(scenarios))) for name in self.record}
        bins: list[Any] = []
        state = self._begin(scenarios, x, meters)
        states = [state] if self.keep_states else None
        traffic = np.zeros((2, len(scenarios), clients_total), dtype=np.int64) if self.client_bits else None
        for t in range(self.done + 1, self.rounds + 1):
            if t > board.limit:
                break
            try:
                cohort = self.sampling.sample(self.stream, t, scenarios, clients_total)
                cohort = cohort.dense() if self.dense else _gathered(cohort)
                clients = Clients(problem, cohort, self.solver, x, self.stream, t, scenarios, self.in_place)
                with np.errstate(over="ignore", invalid="ignore"):  # divergence is an error, not a warning
                    new = keep_idle(state, self.algorithm.round(state, clients), cohort)
                    check_finite_state(new, clients, t)
                    measure(meters, problem, t, new.x, clients, state.x, self._evaluates(t), personal(new))
                    bins.append(message_bins(self.record, clients, state.x))
            except (FedTheoryError, np.linalg.LinAlgError) as error:
                board.fail(index, t)
                return _Part(meters, bins, None, None, (t, error))
            if traffic is not None:
                traffic += clients.client_bits()
            for name, value in entropies(self.record, [bins[-1]]).items():
                meters[name][t] = value
            if on_round is not None:
                on_round(t, state, new, clients)
            state = new
            if states is not None:
                states.append(state)
            if checkpoint is not None:
                checkpoint(Resume(t, state, {name: out[: t + 1] for name, out in meters.items()}))
            board.tick(index, t - self.done)
            if bar is not None:
                bar.update(board.done)
        return _Part(meters, bins, state, states, None, traffic)


def _gathered(cohort: Cohort) -> Cohort:
    """A cohort of one scenario without slots for those who stay away; others as they are."""
    if cohort.mask is None or cohort.scenarios > 1 or cohort.steps is not None or cohort.mask.all():
        return cohort
    return cohort.gathered()
