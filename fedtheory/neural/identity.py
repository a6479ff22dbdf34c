"""A run's identity: all its numbers depend on, lest a checkpoint be taken for another run's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.arrays import to_numpy

if TYPE_CHECKING:
    from fedtheory.algorithms.base import Algorithm
    from fedtheory.local.objective import LocalSolver
    from fedtheory.neural.problem import NeuralProblem
    from fedtheory.participation.cohorts import Sampling

__all__ = ["configuration"]

ROUNDS = 10_000  # of a schedule, by which two are compared
TRIED = 64  # samples of all clients, which hold most classes even where samples are sorted by them


def _digest(*arrays: Any) -> str:
    from fedtheory.neural.parts import OnHost, pieces

    out = hashlib.blake2b(digest_size=16)
    for array in arrays:
        host = array if isinstance(array, OnHost) else np.ascontiguousarray(to_numpy(array))
        out.update(f"{str(host.dtype).removeprefix('torch.')}{tuple(host.shape)}".encode())
        for _, part in pieces(host):
            whole = np.ascontiguousarray(to_numpy(part))
            out.update(whole.data.cast("B") if whole.size else b"")
    return out.hexdigest()


def _of_samples(inputs: Any, targets: Any) -> str:
    """The digest of samples; where they are several tensors each, of their names as well."""
    from fedtheory.neural.parts import Parts, tensors

    named = [sorted(s.given) for s in (inputs, targets) if isinstance(s, Parts) and isinstance(s.given, dict)]
    words = [np.frombuffer(repr(named).encode(), np.uint8)] if named else []
    return _digest(*tensors(inputs), *tensors(targets), *words)


def _plain(value: Any, name: str = "") -> Any:
    """A dataclass of settings as its name and fields, a schedule by its values, and all else as it is written in Python."""
    if is_dataclass(value):
        return {"": type(value).__name__, **{f.name: _plain(getattr(value, f.name), f.name) for f in fields(value)}}
    if callable(value) and name == "on_gradient":  # by its name: no call can tell two of them apart
        return getattr(value, "__qualname__", type(value).__name__)
    if callable(value):
        return f"schedule {_digest(_values(value))}"
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _values(schedule: Any) -> np.ndarray:
    """A schedule's values in the first rounds, as far as it has any."""
    found: list[float] = []
    try:
        for t in range(1, ROUNDS + 1):
            found.append(float(schedule(t)))
    except Exception:  # the end of a list, say: rounds that are asked for are told of where they are
        pass
    return np.array(found)


def configuration(
    problem: NeuralProblem, algorithm: Algorithm, sampling: Sampling, solver: LocalSolver,
    seed: int, record: Sequence[str], evaluate_every: int, x0: Any, metrics: Iterable[str] = (),
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
        **({"metrics": list(metrics)} if metrics else {}),
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
            "data": _of_samples(problem.inputs, problem.targets),
            "test": None if problem.test is None else _of_samples(*problem.test),
            "augment": problem.augment,
            "tested": _digest(*map(len, own), *own) if own is not None and "client_accuracy" in record else None,
            "start": _digest(x0),
            **({"dropout": list(problem.flat.dropout)} if problem.flat.dropout else {}),
            **({"precision": problem.precision} if problem.precision != "highest" else {}),
            **({"constants": _digest(*constants)} if constants else {}),
            "tried": _tried(problem),
        },
    }


def _tried(problem: NeuralProblem) -> float | None:
    """The loss on a few samples, at a point that every run has: modules and losses of one name may compute other things."""
    import torch

    part = torch.linspace(0, len(problem.inputs) - 1, min(TRIED, len(problem.inputs))).long().to(problem.device)
    draws = torch.randn(problem.dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    try:
        with torch.no_grad():
            outputs = problem.flat.call((0.1 * draws).to(problem.device, problem.dtype)[: problem.flat.trained], problem.inputs[part])
            found = float(problem.loss(outputs, problem.targets[part]))
    except Exception:  # a batch of one that has no statistics, say
        return None
    return found if np.isfinite(found) else None
