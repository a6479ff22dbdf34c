"""Running a method on a problem: the arguments, the chunks of scenarios, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.arrays import Array, astype_like, namespace, on_host, to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import LARGEST, check_problem, flag, real_array, whole_number
from fedtheory.limits import must_end, must_fit
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalSolver
from fedtheory.local.sgd import MiniBatchSolver
from fedtheory.parallel import Board, Progress, run_processes
from fedtheory.participation.cohorts import Full, Sampling
from fedtheory.problems.base import Problem
from fedtheory.provenance import provenance
from fedtheory.randomness import Stream
from fedtheory.simulation.arguments import (
    check_algorithm,
    check_like,
    check_local_solver,
    check_past,
    check_sampling,
)
from fedtheory.simulation.metrics import METRICS, check_metrics
from fedtheory.simulation.rounds import Execution, Job, Kept, merge
from fedtheory.store.checkpoints import Resume

FASTEST_ROUND, FASTEST_STEP = 2e-5, 5e-8  # seconds that no round, and no local step, stays below

__all__ = ["METRICS", "Resume", "Trajectory", "check_parts", "check_size", "check_start", "simulate"]


@dataclass
class Trajectory:
    """The measurements of a run.

    Attributes
    ----------
    metrics : dict of (rounds + 1, S) arrays
        Entry 0 is the start; wire metrics are 0 there, and entropy is one number a round (all scenarios together).
    client_bits : dict of (S, N) int64 arrays, when asked for
        'up' and 'down': what every client sent and received over the whole run.
    final : the algorithm's last state
    states : list of states (round 0 first), when asked for
    sampling, local_solver : who took part, and the local work
    """

    problem: Problem
    algorithm: Algorithm
    rounds: int
    metrics: dict[str, np.ndarray]
    final: Any
    states: list[Any] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    client_bits: dict[str, np.ndarray] | None = None
    sampling: Sampling | None = None
    local_solver: LocalSolver | None = None

    @property
    def x(self) -> np.ndarray:
        """Last server models (S, d)."""
        return to_numpy(self.final.x)

    def server_models(self) -> np.ndarray:
        """Server models of all rounds (rounds + 1, S, d); needs ``keep_states``."""
        if self.states is None:
            raise InvalidInput("the states were not kept: call simulate(..., keep_states=True)")
        return np.stack([to_numpy(s.x) for s in self.states])


def check_start(problem: Problem, x0: Any, scenarios: int, like: Array | None = None) -> Array:
    """x0 as (S, d): None -> 0, (d,) -> the same for every scenario, (S, d) as given."""
    whole_number("scenarios", scenarios)
    x0 = np.zeros(problem.dim) if x0 is None else x0
    host = real_array("x0", x0)
    if host.shape not in ((problem.dim,), (scenarios, problem.dim)):
        raise InvalidInput(f"x0 has shape {host.shape}: expected ({problem.dim},) or ({scenarios}, {problem.dim})")
    if (size := float(np.abs(host).max(initial=0.0))) > LARGEST:
        raise InvalidInput(f"x0 has an entry of size {size:g}: entries must be at most {LARGEST:g}, or their squares overflow")
    must_fit(f"{scenarios:,} scenarios", 2.0 * scenarios * problem.dim, "ask for fewer scenarios")
    host = np.array(np.broadcast_to(host, (scenarios, problem.dim)))
    check_like(like)
    return host if like is None else astype_like(host, like)


def simulate(
    problem: Problem, algorithm: Algorithm, rounds: int, x0: Any = None,
    sampling: Sampling | None = None, scenarios: int = 1, seed: int = 0,
    local_solver: LocalSolver | None = None, record: Sequence[str] = ("objective",),
    keep_states: bool = False, dense: bool = False, like: Array | None = None,
    on_round: Callable[[int, Any, Any, Clients], None] | None = None, in_place: bool | None = None,
    chunk: int | None = None, workers: int = 1, progress: bool = False, client_bits: bool = False,
    resume: Trajectory | Resume | tuple[int, Any] | None = None,
    checkpoint: Callable[[Resume], None] | None = None, evaluate_every: int = 1,
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
        Scenarios run together; results do not depend on it beyond rounding. Default: all, or an
        equal share a worker, but with NumPy, unless states are kept or observed, no more (but 16)
        than let what a round makes, (S, P, d), stay below 32 MiB.
    workers : int
        Processes, one BLAS thread each. What runs in them cannot call back: ``on_round`` needs
        workers=1. Without ``chunk`` they share out the scenarios, and results depend on their
        number as on a chunk: by rounding. With the same ``chunk`` they are the same to the last
        bit, where this process has one BLAS thread, too.
    progress : bool
        Show a progress bar on the terminal for work that takes longer than two seconds.
    client_bits : bool
        Keep what every client sent and received (``Trajectory.client_bits``).
    resume : Trajectory, Resume or (round, state)
        Go on from there up to `rounds` rounds altogether, with the numbers of a run that was never
        cut. x0 is then not looked at. Metrics of earlier rounds are taken over, or NaN where none
        are given.
    checkpoint : callable(Resume)
        Called after every round with what ``resume`` takes; the next round may overwrite the
        arrays. Needs one chunk.
    evaluate_every : int
        Metrics of the model alone (objective, distance, test accuracy...) are measured in every so
        manieth round and the last one; NaN in the others.
    first_scenario : int
        The scenarios are those from this number on of a longer run, which takes the same x0 for
        all.

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
    names: Any = record  # as a tuple, once they are checked
    kept = Kept(names, keep_states, client_bits, evaluate_every)
    check_run(problem, algorithm, rounds, sampling, scenarios, local_solver, kept)
    observed = keep_states or on_round is not None
    how = Execution(dense, in_place if in_place is not None else not observed, chunk, workers)
    if on_round is not None and not callable(on_round):
        raise InvalidInput(f"on_round = {on_round!r}: give a function of (round_index, old_state, new_state, clients)")
    if checkpoint is not None and not callable(checkpoint):
        raise InvalidInput(f"checkpoint = {checkpoint!r}: give a function of one argument, the `Resume` that the run goes on from")
    flag("progress", progress)
    if workers > 1 and on_round is not None:
        raise InvalidInput("on_round is called in this process, so it needs workers=1; chunk=... saves memory as well")
    if not isinstance(first_scenario, int | np.integer) or first_scenario < 0 or (first_scenario and resume is not None):
        raise InvalidInput(f"first_scenario = {first_scenario!r}: it must be an integer >= 0, and 0 with resume")
    check_metrics(kept.record, problem)
    sampling, solver = sampling or Full(), local_solver or Exact()
    x = check_start(problem, None if resume is not None else x0, scenarios, like)
    if workers > 1 and not on_host(x):
        raise InvalidInput(f"workers = {workers}: processes do not share {x.device}; with workers=1 all scenarios run there at once")
    past = None
    if resume is not None:
        past = check_past(resume, algorithm.init(x, problem.num_clients), kept.record, rounds, client_bits, problem.num_clients)
    if {"suboptimality", "distance"} & set(kept.record):
        problem.optimum()  # once, before any process is started
    job = Job(problem, algorithm, rounds, sampling, solver, Stream(seed), kept, how, past, int(first_scenario))
    pieces = how.pieces(x, int(first_scenario), job.width, observed)
    if checkpoint is not None and (workers > 1 or len(pieces) > 1):
        raise InvalidInput(f"checkpoint is called with the state of all scenarios, here in {len(pieces)} chunks: use chunk={scenarios}")
    with Progress((rounds - job.done) * len(pieces), f"{algorithm.name}, {scenarios} scenarios", progress) as bar:
        if workers > 1 and len(pieces) > 1:
            merged = run_processes(job, pieces, min(workers, len(pieces)), bar, lambda parts: merge(parts, job))
        else:
            board = Board(len(pieces))
            merged = merge([job.run(i, piece, board, bar, on_round, checkpoint) for i, piece in enumerate(pieces)], job)
    meters, final, states, traffic = merged
    library = namespace(x).__name__.rpartition(".")[2]
    made_with = provenance(seed, str(getattr(x, "device", "cpu")), str(x.dtype).removeprefix("torch."), library)
    return Trajectory(problem, algorithm, rounds, meters, final, states, made_with, traffic, sampling, solver)


def check_run(
    problem: Problem, algorithm: Algorithm, rounds: int, sampling: Sampling | None, scenarios: int,
    local_solver: LocalSolver | None, kept: Kept,
) -> None:
    """Raise what `simulate` has against a run, before any work; but for whether it can be measured, and where it begins."""
    check_algorithm(algorithm)
    check_sampling(sampling)
    check_local_solver(local_solver)
    check_problem(problem)
    sampling, solver = sampling or Full(), local_solver or Exact()
    check_size(problem, solver, rounds, scenarios, len(kept.record) + kept.states * problem.dim)
    check_parts(problem, algorithm, sampling, solver, rounds)


def check_size(
    problem: Problem, solver: LocalSolver | None, rounds: int, scenarios: int, kept: int = 1, models: int = 2
) -> None:
    """Raise `InvalidInput` for a run that cannot fit or end here.

    ``kept``: numbers of a scenario that are kept of every round; ``models``: models of a scenario that are held at once.
    """
    whole_number("rounds", rounds), whole_number("scenarios", scenarios)
    what, steps = f"{rounds:,} rounds, each in {scenarios:,} scenarios,", getattr(solver, "steps", None)
    must_fit(what, scenarios * (float(models) * problem.dim + float(rounds) * kept), "ask for fewer rounds or fewer scenarios")
    steps = steps if isinstance(steps, int) else 0
    words = f"{rounds:,} rounds" + (f" of {steps:,} local steps" if steps > 1 else "")
    must_end(words, rounds * (FASTEST_ROUND + FASTEST_STEP * steps), "ask for fewer rounds")


def check_parts(problem: Problem, algorithm: Algorithm, sampling: Sampling, solver: LocalSolver, rounds: int) -> None:
    """Raise what each part of a run has against the others, before any work."""
    sampling.check_run(problem.num_clients, rounds)
    solver.check(problem)
    algorithm.check(solver)
    algorithm.check_run(problem, rounds)
    algorithm.check_sampling(sampling, problem, rounds)
    if getattr(problem, "statistics", 0):
        told = "running statistics (of BatchNorm) are averaged in rounds of {}, not of {}: freeze them (.eval() of their layers)"
        if not getattr(algorithm, "coordinatewise", True):
            known = "FedAvg, FedProx, Scaffold, FedDyn, FedBN and methods like them"
            raise MissingCapability(told.format(known, type(algorithm).__name__))
        if not isinstance(solver, MiniBatchSolver):
            raise MissingCapability(told.format("mini-batch steps, as of fedtheory.local.SGD", type(solver).__name__))
