"""Training that survives: the round loop with checkpoints, progress and TensorBoard."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.arrays import astype_like, to_numpy
from fedtheory.errors import CheckpointError, Diverged, InvalidInput, MissingCapability
from fedtheory.neural import checkpoints
from fedtheory.parallel import Progress
from fedtheory.participation.cohorts import Full, Sampling
from fedtheory.provenance import provenance
from fedtheory.simulation.arguments import check_algorithm, check_local_solver, check_sampling
from fedtheory.simulation.simulate import Resume, simulate

if TYPE_CHECKING:
    from fedtheory.algorithms.base import Algorithm
    from fedtheory.local.objective import LocalSolver
    from fedtheory.neural.problem import NeuralProblem

__all__ = ["RECORD", "TrainingRun", "configuration", "train"]

RECORD = (
    "test_accuracy", "test_loss", "drift", "participants", "nonzeros", "entropy", "entropy_1", "entropy_2", "entropy_pooled",
    "update_entropy", "bits_up", "bits_down", "bits",
)  # fmt: skip
_MODELS = "clients' last models"  # beside the state's fields in a checkpoint
SECONDS = 60.0  # between two checkpoints, unless told otherwise


@dataclass
class TrainingRun:
    """What a training run measured.

    Attributes
    ----------
    rounds : int
        Rounds done.
    metrics : dict of (rounds + 1, 1) arrays
        Entry 0 is the start.
    final : the algorithm's last state; None where the run diverged
    seconds : list of float
        Wall-clock seconds of each round, evaluation included.
    provenance : dict
        Seed, and for every part of the run its rounds, versions, device and time.
    """

    rounds: int
    metrics: dict[str, np.ndarray]
    final: Any
    seconds: list[float] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def x(self) -> np.ndarray:
        """The server's last model (1, d)."""
        return to_numpy(self.final.x)


def _digest(*arrays: Any) -> str:
    out = hashlib.blake2b(digest_size=16)
    for array in arrays:
        host = np.ascontiguousarray(to_numpy(array))
        out.update(f"{host.dtype}{host.shape}".encode())
        out.update(host.data.cast("B") if host.size else b"")
    return out.hexdigest()


def _plain(value: Any) -> Any:
    """A dataclass of settings as its name and fields; everything else as it is written in Python."""
    if is_dataclass(value):
        return {"": type(value).__name__, **{f.name: _plain(getattr(value, f.name)) for f in fields(value)}}
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def configuration(
    problem: NeuralProblem,
    algorithm: Algorithm,
    sampling: Sampling,
    solver: LocalSolver,
    seed: int,
    record: Sequence[str],
    evaluate_every: int,
    x0: Any,
) -> dict[str, Any]:
    """Everything a run's numbers depend on but the number of rounds, as JSON values; data and partition by their hashes."""
    clients = [problem.sample_counts, *problem.client_samples]
    kept_back = list(problem.held_out.client_samples) if isinstance(problem.held_out, type(problem)) else []
    constants, own = problem.flat.constants(), problem.tested
    return {
        "algorithm": _plain(algorithm),
        "sampling": _plain(sampling),
        "solver": _plain(solver),
        "seed": int(seed),
        "record": list(record),
        "entropy": "sum over messages" if "entropy" in record else None,  # None in older files: all messages in one histogram
        "evaluate_every": int(evaluate_every),
        "problem": {
            "name": problem.name,
            "module": _digest(np.frombuffer(str(problem.flat.module).encode(), np.uint8)),
            "parameters": problem.dim,
            "loss": problem.loss.name,
            "ridge": problem.ridge,
            "dtype": str(problem.dtype),
            "autocast": getattr(problem.engine, "autocast", None),
            "weights": _digest(problem.weights),
            "clients": _digest(*clients),
            "held_out": _digest(*kept_back),
            "data": _digest(problem.inputs, problem.targets),
            "test": None if problem.test is None else _digest(*problem.test),
            "augment": problem.augment,
            "tested": _digest(*map(len, own), *own) if own is not None and "client_accuracy" in record else None,
            "start": _digest(x0),
            **({"constants": _digest(*constants)} if constants else {}),
        },
    }


def summary_writer() -> Any:
    """TensorBoard's writer. Raises `MissingCapability` where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingCapability(
            f"scalars for TensorBoard need tensorboard, which cannot be imported ({error}): pip install 'fedtheory[tensorboard]'"
        ) from error
    return SummaryWriter


@contextmanager
def _board(folder: Path | str | None, past: int) -> Iterator[Any]:
    """TensorBoard's writer, or None."""
    if folder is None:
        yield None
        return
    with summary_writer()(str(folder), purge_step=past + 1 if past else None) as writer:
        yield writer


@contextmanager
def _patient() -> Iterator[Callable[[], bool]]:
    """Lets a round end after Ctrl-C: yields whether one came. A second one interrupts at once; where it is ignored, it stays so."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.getsignal(signal.SIGINT)
    if before in (None, signal.SIG_IGN):  # not Python's, or a background job's, which nobody means to interrupt: leave it
        yield asked.is_set
        return

    def ask(number: int, frame: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before if callable(before) else signal.default_int_handler)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _check(problem: Any, rounds: Any, every: Any, checkpoint: Any) -> None:
    from fedtheory.neural.problem import NeuralProblem

    if not isinstance(problem, NeuralProblem):
        raise InvalidInput(f"{type(problem).__name__} is no NeuralProblem: use fedtheory.simulate, whose runs can be resumed as well")
    if not isinstance(rounds, int | np.integer) or rounds < 1:
        raise InvalidInput(f"rounds = {rounds!r}: it must be an integer >= 1")
    if checkpoint is not None and not isinstance(checkpoint, str | Path):
        raise InvalidInput(f"checkpoint = {checkpoint!r}: use a path, as text or a Path, or None")
    if every is not None and (not isinstance(every, int | np.integer) or every < 1):
        raise InvalidInput(f"every = {every!r}: rounds between two checkpoints, an integer >= 1, or None for one a minute")
    if checkpoint is not None and Path(checkpoint).is_dir():
        raise CheckpointError(f"checkpoint = {str(checkpoint)!r} is a folder: name a file in it")


class _Log:
    """What a run has done, and what is kept of it after every round."""

    def __init__(self, rounds: int, seed: int, configuration: dict[str, Any], checkpoint: Path | str | None, every: int | None) -> None:
        self.rounds, self.seed, self.configuration = rounds, seed, configuration
        self.checkpoint, self.every = checkpoint, every
        self.past: Resume | None = None
        self.parts: list[dict[str, Any]] = []
        self.seconds: list[float] = []
        self.measured: dict[str, np.ndarray] = {}
        self.saved = self.round_began = 0.0
        self._before = 0  # seconds that are those of earlier parts

    @property
    def done(self) -> int:
        """Rounds of earlier parts."""
        return 0 if self.past is None else self.past.round_index

    @property
    def last(self) -> int:
        """Rounds done by now."""
        return self.done + len(self.seconds) - self._before

    def go_on(self, checkpoint: Path | str, algorithm: Algorithm, problem: NeuralProblem) -> None:
        """Begin where the checkpoint stands. Raises `CheckpointError` where it is another run's, or beyond the rounds asked for."""
        import torch

        from fedtheory.neural import memory

        found = checkpoints.load(checkpoint)
        checkpoints.compare(checkpoint, found.configuration, self.configuration)
        with memory.explained(partial(memory.of_state, algorithm, problem), problem.device):
            shapes = algorithm.init(torch.empty(1, problem.dim, dtype=problem.dtype, device="meta"), problem.num_clients)
            models = found.fields.get(_MODELS)
            held = replace(found, fields={k: v for k, v in found.fields.items() if k != _MODELS})
            state = held.state(problem.like_array(), shapes)
            last = None if models is None else astype_like(models, problem.like_array())
            self.past = Resume(found.round_index, state, measured := dict(found.metrics), last)
        self.parts, self.seconds = list(found.about["parts"]), list(found.about["seconds"])
        self.measured = measured
        if self.done > self.rounds:
            raise CheckpointError(
                f"{checkpoint} is at round {self.done}, beyond rounds = {self.rounds}: ask for as many, or name another file"
            )

    def begin(self, problem: NeuralProblem) -> None:
        """A new part of the run, on this machine, and its clocks."""
        import torch

        made_with = provenance(self.seed, str(problem.device), str(problem.dtype).removeprefix("torch."), "torch")
        machine = {"engine": type(problem.engine).__name__, "threads": torch.get_num_threads(), **made_with}
        self.parts.append({"first_round": self.done + 1, "last_round": self.done, **machine})
        self._before = len(self.seconds)
        self.saved = self.round_began = time.perf_counter()

    def note(self, at: Resume, interrupted: Callable[[], bool], board: Any) -> bool:
        """Take what a round measured, write it for TensorBoard, and the checkpoint where it is due; whether the run is to end here."""
        now, t, stop = time.perf_counter(), at.round_index, interrupted()
        self.measured = {} if at.metrics is None else at.metrics
        self.seconds.append(now - self.round_began)
        for name, values in self.measured.items() if board is not None else ():
            if np.isfinite(values[t, 0]):
                board.add_scalar(name, float(values[t, 0]), t)
        due = now - self.saved >= SECONDS if self.every is None else t % self.every == 0
        if self.checkpoint is not None and (due or stop or t == self.rounds):
            self._save(self.checkpoint, at)
        return stop

    def _save(self, checkpoint: Path | str, at: Resume) -> None:
        self.parts[-1]["last_round"] = at.round_index
        about = {"parts": self.parts, "seconds": self.seconds}
        state = dict(zip(at.state._fields, at.state, strict=True)) | ({} if at.models is None else {_MODELS: at.models})
        checkpoints.save(checkpoint, checkpoints.Checkpoint(at.round_index, self.configuration, self.measured, state, about))
        self.saved = time.perf_counter()

    def run(self, rounds: int, metrics: dict[str, np.ndarray], final: Any) -> TrainingRun:
        """What is handed to the user, after so many rounds."""
        self.parts[-1]["last_round"] = rounds
        made_with = {"seed": self.seed, "parts": self.parts, "configuration": self.configuration}
        return TrainingRun(rounds, metrics, final, self.seconds, made_with)


def train(
    problem: NeuralProblem,
    algorithm: Algorithm,
    rounds: int,
    sampling: Sampling | None = None,
    solver: LocalSolver | None = None,
    seed: int = 0,
    record: Sequence[str] = RECORD,
    x0: Any = None,
    checkpoint: Path | str | None = None,
    every: int | None = None,
    resume: bool = True,
    evaluate_every: int = 1,
    tensorboard: Path | str | None = None,
    progress: bool = True,
    label: str | None = None,
    on_round: Callable[[Resume], None] | None = None,
) -> TrainingRun:
    """Train a network with a federated method.

    A run that is killed and called again ends with the numbers of one that was not, bit for bit on the same machine with the same
    number of threads; on a GPU as far as `fedtheory.neural.device.exact_kernels` says. Ctrl-C lets the round end, writes the
    checkpoint and raises KeyboardInterrupt; a second one does not wait.

    Parameters
    ----------
    rounds : int >= 1
        Altogether, those before a resumption included.
    sampling : Sampling, default full participation
    solver : LocalSolver, default SGD(10, 0.1, epochs=1)
    record : names from `fedtheory.simulation.METRICS`
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

    Raises
    ------
    CheckpointError
        A checkpoint of another run (what differs is named) or beyond `rounds`; a folder in its place.
    InvalidInput
        Whatever `simulate` refuses.
    DataFileError
        A checkpoint that is damaged, of another version, or cannot be written, which is told before any work.
    MissingCapability
        TensorBoard asked for and not installed.
    OutOfMemory
        What the method keeps of all clients does not fit the memory, or not even one model's step; says how much it takes.
    Diverged
        At the first non-finite number, with round and client; the last checkpoint stays, and `measured` are the rounds before.
    """
    from fedtheory.local import SGD
    from fedtheory.neural import memory

    check_algorithm(algorithm)
    check_sampling(sampling)
    check_local_solver(solver)
    _check(problem, rounds, every, checkpoint)
    sampling, solver = sampling or Full(), solver or SGD(10, 0.1, epochs=1)
    start = problem.initial() if x0 is None else x0
    config = configuration(problem, algorithm, sampling, solver, seed, record, evaluate_every, start)
    log = _Log(rounds, seed, config, checkpoint, every)
    if checkpoint is not None and not resume:
        Path(checkpoint).unlink(missing_ok=True)  # else a kill before the first one would bring the old run back
    if checkpoint is not None and Path(checkpoint).exists():
        log.go_on(checkpoint, algorithm, problem)
    if log.past is not None and log.done == rounds:
        return log.run(rounds, log.measured, log.past.state)
    if checkpoint is not None:
        checkpoints.check_writable(checkpoint)
    log.begin(problem)
    with (
        _board(tensorboard, log.done) as board,
        _patient() as interrupted,
        Progress(rounds - log.done, label or f"{algorithm.name}, {problem.name}", progress) as bar,
    ):

        def after(at: Resume) -> None:
            stop = log.note(at, interrupted, board)
            if on_round is not None:
                on_round(at)
            bar.update(at.round_index - log.done)
            if stop and at.round_index < rounds:
                raise KeyboardInterrupt
            log.round_began = time.perf_counter()

        try:
            with memory.explained(partial(memory.of_state, algorithm, problem), problem.device):
                run = simulate(
                    problem,
                    algorithm,
                    rounds,
                    start,
                    sampling,
                    seed=seed,
                    local_solver=solver,
                    record=tuple(record),
                    like=problem.like_array(),
                    resume=log.past,
                    checkpoint=after,
                    evaluate_every=evaluate_every,
                )
        except Diverged as error:
            error.measured = log.run(log.last, dict(log.measured), None)
            raise
    return log.run(rounds, run.metrics, run.final)
