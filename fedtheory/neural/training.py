"""Training that survives: the round loop with checkpoints and progress."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedtheory.algorithms.base import Algorithm
from fedtheory.errors import CheckpointError, Diverged, InvalidInput, MissingCapability
from fedtheory.inputs import file_path, flag, whole_number
from fedtheory.local import SGD
from fedtheory.local.objective import LocalSolver
from fedtheory.neural import memory, trials
from fedtheory.neural.evaluation import has_accuracy
from fedtheory.neural.identity import configuration
from fedtheory.neural.own_metrics import Metric, OwnMetrics, check_own_metrics
from fedtheory.neural.parts import has_labels
from fedtheory.neural.problem import NeuralProblem
from fedtheory.neural.training_run import TrainingRun
from fedtheory.parallel import Progress, held_back
from fedtheory.participation.cohorts import Full, Sampling
from fedtheory.provenance import provenance
from fedtheory.rates import how_it_ended
from fedtheory.simulation.metrics import OF_UPDATES, TESTED
from fedtheory.simulation.rounds import Kept
from fedtheory.simulation.simulate import Resume, check_run, check_start, simulate
from fedtheory.store import checkpoints

__all__ = ["RECORD", "TrainingRun", "configuration", "train"]

RECORD = (
    "test_accuracy", "test_loss", "drift", "participants", "nonzeros", "entropy", "entropy_1",
    "entropy_2", "entropy_pooled", "update_entropy", "bits_up", "bits_down", "bits",
)
SECONDS = 60.0  # between two checkpoints, unless told otherwise
NO_LABELS = (
    "test_accuracy is the share of labels that outputs (b, ..., classes) are largest for, and the test targets are no labels of such "
    "outputs: leave it out of record, and measure your own with metrics={name: callable(outputs, targets)}"
)


def _recorded(record: Sequence[str] | None, problem: NeuralProblem, algorithm: Algorithm, own: bool) -> tuple[str, ...]:
    """The names of the metrics to record; where none are given, those of `RECORD` that the problem has the samples for, and the
    method the local models.

    That the accuracy of labels is left out, as outputs have several parts, is told, unless there are metrics of the user's `own`.
    """
    classified, told = has_accuracy(problem), ""
    if record is None:
        local = getattr(algorithm, "local_work", "") not in ("sliding", "none")
        left_out = {*(() if local else OF_UPDATES), *(() if classified else ("test_accuracy",))}
        if problem.test is None:
            left_out |= {*TESTED}
            told = (
                "this problem has no test set, so that test accuracy and loss are not measured: give it test=(inputs, targets), or say "
                "what to record, for example record=['objective', 'drift']"
            )
        elif not classified and not own and has_labels(problem.test[1]) and not problem.flat.has_rows:
            told = f"test accuracy is not measured: {NO_LABELS}"
        if told:
            warnings.warn(told, UserWarning, stacklevel=3)  # train's caller
        record = [name for name in RECORD if name not in left_out]
    names = Kept(record).record  # type: ignore[arg-type]  # which checks the names
    if "test_accuracy" in names and problem.test is not None and not classified:
        raise MissingCapability(NO_LABELS)
    return names


def train(
    problem: NeuralProblem, algorithm: Algorithm, rounds: int, sampling: Sampling | None = None,
    solver: LocalSolver | None = None, seed: int = 0, record: Sequence[str] | None = None,
    x0: Any = None, checkpoint: Path | str | None = None, every: int | None = None,
    resume: bool = True, evaluate_every: int = 1, progress: bool = True, label: str | None = None,
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
        Without a test set the default leaves out the test's accuracy and loss, with a warning, and
        of methods that train no local models what local models do.
    x0 : (d,), default the module's own parameters
    checkpoint : path or None
        Where the whole state is kept.
    every : int or None
        Rounds between two checkpoints; None: one a minute. There is one after the last round.
    resume : bool
        Go on from the checkpoint where there is one; False: remove it and start again.
    evaluate_every : int
        Test metrics are measured in every so manieth round and in the last.
    progress : bool
        Show a bar with the remaining time on the terminal.
    on_round : callable(Resume)
        Called after every round; its arrays may be overwritten by the next.
    metrics : dict of callable(outputs, targets) -> a number or an array, or None
        Metrics of one's own, measured where the test metrics are: on all outputs of the test set,
        as the module returns them, and all targets, as tensors on the CPU. An array must keep its
        shape.

    Raises
    ------
    CheckpointError
        A checkpoint of another run (what differs is named) or beyond `rounds`.
    InvalidInput
        Whatever `simulate` refuses; metrics of one's own that fail, return no numbers, or have a
        name that is taken.
    DataFileError
        A checkpoint that is damaged, of another version, or cannot be written, which is told before
        any work.
    MissingCapability
        Test metrics asked for without a test set; an exact local solver.
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
    if not isinstance(problem, NeuralProblem):
        raise InvalidInput(f"{type(problem).__name__} is no NeuralProblem: use fedtheory.simulate, whose runs can be resumed as well")
    flag("resume", resume), flag("progress", progress)
    every is None or whole_number("every", every, remedy="rounds between two checkpoints, or None for one a minute")
    path = None if checkpoint is None else file_path("checkpoint", checkpoint, "a file")
    sampling, solver = Full() if sampling is None else sampling, SGD(10, 0.1, epochs=1) if solver is None else solver
    own_metrics = check_own_metrics(metrics, problem)
    record = _recorded(record, problem, algorithm, bool(own_metrics))
    check_run(problem, algorithm, rounds, sampling, 1, solver, Kept(record, evaluate_every=evaluate_every))
    start = problem.initial() if x0 is None else x0
    config = configuration(problem, algorithm, sampling, solver, seed, record, evaluate_every, start, own_metrics)
    run = TrainingRun(0, {}, None, [], {"seed": seed, "parts": [], "configuration": config}, problem.given)
    if path is not None and not resume:
        path.unlink(missing_ok=True)  # else a kill before the first one would bring the old run back
    past = run._go_on(path, algorithm, problem, x0 is None) if path is not None and path.exists() else None
    done = run.rounds
    if done > rounds:
        raise CheckpointError(f"{path} is at round {done}, beyond rounds = {rounds}: ask for as many, or name another file")
    if past is not None and done == rounds:
        run.final = past.state
        return run
    own = OwnMetrics(own_metrics, record, rounds, evaluate_every, run.metrics)
    if path is not None:
        checkpoints.check_writable(path)
    made_with = provenance(seed, str(problem.device), str(problem.dtype).removeprefix("torch."), "torch")
    machine = {"engine": type(problem.engine).__name__, "threads": torch.get_num_threads(), **made_with}
    part = {"first_round": done + 1, "last_round": done, **machine}
    run.provenance["parts"].append(part)
    problem.compiling.shown = progress
    saved = began = time.perf_counter()
    with held_back() as interrupted, Progress(rounds - done, label or f"{algorithm.name}, {problem.name}", progress) as bar:

        def after(at: Resume) -> None:
            nonlocal saved, began
            waited = problem.compiling.taken()
            bar.wait(waited)
            t = at.round_index
            own.measure(problem, t, at.state.x)
            at = at._replace(metrics=own.joined(t, at.metrics or {}))
            now, stop = time.perf_counter(), interrupted()
            run.rounds = part["last_round"] = t
            run.metrics = at.metrics or {}
            run.seconds.append(now - began - waited)
            due = now - saved >= SECONDS if every is None else t % every == 0
            if path is not None and (due or stop or t == rounds):
                run._save(path, at)
                saved = time.perf_counter()
            if on_round is not None:
                on_round(at)
            bar.update(t - done)
            if stop and t < rounds:
                nothing = ", and nothing was kept: with train(..., checkpoint='run.state') the same call goes on"
                raise KeyboardInterrupt(f"stopped after round {t}{nothing if path is None else f': the same call goes on from {path}'}")
            began = time.perf_counter()

        try:
            with memory.explained(partial(memory.of_state, algorithm, problem), problem.device):
                if past is None:
                    own.measure(problem, 0, check_start(problem, start, 1, problem.like_array()))
                run.final = simulate(
                    problem, algorithm, rounds, start, sampling, seed=seed, local_solver=solver,
                    record=own.record, like=problem.like_array(), resume=past, checkpoint=after,
                    evaluate_every=evaluate_every,
                ).final
        except Diverged as error:
            error.measured = run
            if (told := trials.not_finite(problem, start, error.client)) is None:
                raise
            where = f"diverged in round {error.round_index}" + ("" if error.client is None else f" at client {error.client}")
            from_start = Diverged(f"{where}: {told}", error.round_index, error.client, error.scenario)
            from_start.measured = run
            raise from_start from error
    _warn_of_the_end(algorithm.name, run.metrics)
    return run


def _warn_of_the_end(method: str, measured: Mapping[str, np.ndarray]) -> None:
    """Warn where the objective, or without it the test loss, ends above its start."""
    name = next((n for n in ("objective", "test_loss") if n in measured), None)
    values = np.zeros(1) if name is None else measured[name][:, 0]
    last = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(values)), 0))  # that was measured, of every round
    if values[last[-1]] > values[0]:
        remedy = "lower the step size, or raise the weight of the penalty where the method has one"
        warnings.warn(f"{method}: {how_it_ended(values[last], what=str(name))} If it was to fall, {remedy}", UserWarning, stacklevel=3)
