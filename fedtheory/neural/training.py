"""Training that survives: the round loop with checkpoints, progress and TensorBoard."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.errors import CheckpointError, Diverged, InvalidInput, MissingCapability
from fedtheory.inputs import flag, whole_number
from fedtheory.neural.identity import configuration
from fedtheory.neural.training_run import Log, TrainingRun, board_in, patient
from fedtheory.parallel import Progress
from fedtheory.participation.cohorts import Full, Sampling
from fedtheory.rates import how_it_ended
from fedtheory.simulation.arguments import check_algorithm, check_local_solver, check_sampling
from fedtheory.simulation.metrics import TESTED
from fedtheory.simulation.rounds import Kept
from fedtheory.simulation.simulate import Resume, check_start, simulate
from fedtheory.store import checkpoints

if TYPE_CHECKING:
    from fedtheory.algorithms.base import Algorithm
    from fedtheory.local.objective import LocalSolver
    from fedtheory.neural.own_metrics import Metric
    from fedtheory.neural.problem import NeuralProblem

__all__ = ["RECORD", "TrainingRun", "configuration", "train"]

RECORD = (
    "test_accuracy", "test_loss", "drift", "participants", "nonzeros", "entropy", "entropy_1",
    "entropy_2", "entropy_pooled", "update_entropy", "bits_up", "bits_down", "bits",
)


def _check(problem: Any, rounds: Any, every: Any, checkpoint: Any) -> None:
    from fedtheory.neural.problem import NeuralProblem

    if not isinstance(problem, NeuralProblem):
        raise InvalidInput(f"{type(problem).__name__} is no NeuralProblem: use fedtheory.simulate, whose runs can be resumed as well")
    whole_number("rounds", rounds)
    if checkpoint is not None and not isinstance(checkpoint, str | Path):
        raise InvalidInput(f"checkpoint = {checkpoint!r}: use a path, as text or a Path, or None")
    if every is not None and (not isinstance(every, int | np.integer) or every < 1):
        raise InvalidInput(f"every = {every!r}: rounds between two checkpoints, an integer >= 1, or None for one a minute")
    if checkpoint is not None and Path(checkpoint).is_dir():
        raise CheckpointError(f"checkpoint = {str(checkpoint)!r} is a folder: name a file in it")


NO_LABELS = (
    "test_accuracy is the share of labels that outputs (b, ..., classes) are largest for, and the test targets are no labels of such "
    "outputs: leave it out of record, and measure your own with metrics={name: callable(outputs, targets)}"
)


def _recorded(record: Sequence[str] | None, problem: NeuralProblem, own: bool) -> tuple[str, ...]:
    """The names of the metrics to record; where none are given, those of `RECORD` that the problem has the samples for.

    That the accuracy of what looks like classes is left out is told, unless there are metrics of the user's `own`.
    """
    from fedtheory.neural.evaluation import classifies_unseen, has_accuracy

    classified = has_accuracy(problem)
    if record is None:
        record = RECORD if problem.test is not None else tuple(name for name in RECORD if name not in TESTED)
        record = record if classified else tuple(name for name in record if name != "test_accuracy")
        if problem.test is None:
            warnings.warn(
                "this problem has no test set, so that test accuracy and loss are not measured: give it test=(inputs, targets), or say "
                "what to record, for example record=['objective', 'drift']",
                UserWarning,
                stacklevel=3,  # train's caller
            )
        elif not classified and not own and classifies_unseen(problem):
            warnings.warn(f"test accuracy is not measured: {NO_LABELS}", UserWarning, stacklevel=3)
    names = Kept(record).record  # type: ignore[arg-type]  # which checks the names
    if "test_accuracy" in names and problem.test is not None and not classified:
        raise MissingCapability(NO_LABELS)
    return names


def _where_it_stands(done: int, checkpoint: Path | str | None) -> str:
    if checkpoint is None:
        return f"stopped after round {done}, and nothing was kept: with train(..., checkpoint='run.state') the same call goes on"
    return f"stopped after round {done}: the same call goes on from {checkpoint}"


def train(
    problem: NeuralProblem, algorithm: Algorithm, rounds: int, sampling: Sampling | None = None,
    solver: LocalSolver | None = None, seed: int = 0, record: Sequence[str] | None = None,
    x0: Any = None, checkpoint: Path | str | None = None, every: int | None = None,
    resume: bool = True, evaluate_every: int = 1, tensorboard: Path | str | None = None,
    progress: bool = True, label: str | None = None,
    on_round: Callable[[Resume], None] | None = None, metrics: Mapping[str, Metric] | None = None,
) -> TrainingRun:
    """Train a network with a federated method.

    A run that is killed and called again ends with the numbers of one that was not, bit for bit on
    the same machine with the same number of threads; on a GPU as far as
    `fedtheory.neural.device.exact_kernels` says. Ctrl-C lets the round end, writes the checkpoint
    and raises KeyboardInterrupt; a second one does not wait.

    Parameters
    ----------
    rounds : int >= 1
        Altogether, those before a resumption included.
    sampling : Sampling, default full participation
    solver : LocalSolver, default SGD(10, 0.1, epochs=1)
    record : names from `fedtheory.simulation.METRICS`, default `RECORD`
        Without a test set the default leaves out the test's accuracy and loss, with a warning.
    x0 : (d,), default the module's own parameters
    checkpoint : path or None
        Where the whole state is kept.
    every : int or None
        Rounds between two checkpoints; None: one a minute. There is one after the last round.
    resume : bool
        Go on from the checkpoint where there is one; False: remove it and start again.
    evaluate_every : int
        Test metrics are measured in every so manieth round and in the last.
    tensorboard : folder or None
        Write every metric of every round for TensorBoard.
    progress : bool
        Show a bar with the remaining time on the terminal.
    on_round : callable(Resume)
        Called after every round; its arrays may be overwritten by the next.
    metrics : dict of callable(outputs, targets) -> a number or an array, or None
        Metrics of one's own, measured where the test metrics are: on all outputs of the test set,
        as the module returns them, and all targets, as tensors on the CPU. An array must keep its
        shape; TensorBoard is told of numbers.

    Raises
    ------
    CheckpointError
        A checkpoint of another run (what differs is named) or beyond `rounds`; a folder in its
        place.
    InvalidInput
        Whatever `simulate` refuses; metrics of one's own that fail, return no numbers, or have a
        name that is taken.
    DataFileError
        A checkpoint that is damaged, of another version, or cannot be written, which is told before
        any work.
    MissingCapability
        TensorBoard asked for and not installed; test metrics asked for without a test set; an exact
        local solver.
    OutOfMemory
        What the method keeps of all clients does not fit the memory, or not even one model's step;
        says how much it takes.
    Diverged
        At the first non-finite number, with round and client, and with the sample where the loss
        was not finite at the start already; the last checkpoint stays, and `measured` are the
        rounds before.

    Notes
    -----
    A warning says so where the objective, or without it the test loss, ends above its start.
    """
    from fedtheory.local import SGD, Exact
    from fedtheory.neural import culprits, memory
    from fedtheory.neural.own_metrics import OwnMetrics, check_own_metrics

    check_algorithm(algorithm)
    check_sampling(sampling)
    check_local_solver(solver)
    _check(problem, rounds, every, checkpoint)
    flag("resume", resume), flag("progress", progress)
    sampling, solver = sampling or Full(), solver or SGD(10, 0.1, epochs=1)
    if isinstance(solver, Exact):
        problem.smoothness()  # which a network does not have
    start = problem.initial() if x0 is None else x0
    own_metrics = check_own_metrics(metrics, problem)
    record = _recorded(record, problem, bool(own_metrics))
    config = configuration(problem, algorithm, sampling, solver, seed, record, evaluate_every, start, own_metrics)
    log = Log(rounds, seed, config, checkpoint, every)
    if checkpoint is not None and not resume:
        Path(checkpoint).unlink(missing_ok=True)  # else a kill before the first one would bring the old run back
    if checkpoint is not None and Path(checkpoint).exists():
        log.go_on(checkpoint, algorithm, problem, own_start=x0 is None)
    if log.past is not None and log.done == rounds:
        return log.run(rounds, log.measured, log.past.state, problem.given)
    own = OwnMetrics(own_metrics, tuple(record), rounds, evaluate_every, log.measured)
    if checkpoint is not None:
        checkpoints.check_writable(checkpoint)
    log.begin(problem)
    problem.compiling.shown = progress
    with (
        board_in(tensorboard, log.done) as board,
        patient() as interrupted,
        Progress(rounds - log.done, label or f"{algorithm.name}, {problem.name}", progress) as bar,
    ):

        def after(at: Resume) -> None:
            waited = problem.compiling.taken()
            log.round_began += waited
            bar.wait(waited)
            own.measure(problem, at.round_index, at.state.x)
            at = at._replace(metrics=own.joined(at.round_index, at.metrics or {}))
            stop = log.note(at, interrupted, board)
            if on_round is not None:
                on_round(at)
            bar.update(at.round_index - log.done)
            if stop and at.round_index < rounds:
                raise KeyboardInterrupt(_where_it_stands(at.round_index, checkpoint))
            log.round_began = time.perf_counter()

        try:
            with memory.explained(partial(memory.of_state, algorithm, problem), problem.device):
                if log.past is None:
                    own.measure(problem, 0, check_start(problem, start, 1, problem.like_array()))
                run = simulate(
                    problem, algorithm, rounds, start, sampling, seed=seed, local_solver=solver,
                    record=own.record, like=problem.like_array(), resume=log.past, checkpoint=after,
                    evaluate_every=evaluate_every,
                )
        except Diverged as error:
            error.measured = log.run(log.last, dict(log.measured), None, problem.given)
            if (told := culprits.not_finite(problem, start, error.client)) is None:
                raise
            where = f"diverged in round {error.round_index}" + ("" if error.client is None else f" at client {error.client}")
            from_start = Diverged(f"{where}: {told}", error.round_index, error.client, error.scenario)
            from_start.measured = error.measured
            raise from_start from error
    _warn_of_the_end(algorithm.name, log.measured)
    return log.run(rounds, log.measured, run.final, problem.given)


def _warn_of_the_end(method: str, measured: Mapping[str, np.ndarray]) -> None:
    """Warn where the objective, or without it the test loss, ends above its start."""
    name = next((n for n in ("objective", "test_loss") if n in measured), None)
    if name is None:
        return
    values = measured[name][:, 0]
    at = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(values)), 0))  # the last round that was measured
    if values[at[-1]] > values[0]:
        remedy = "lower the step size, or raise the weight of the penalty where the method has one"
        warnings.warn(f"{method}: {how_it_ended(values[at], what=name)} If it was to fall, {remedy}", UserWarning, stacklevel=3)
