"""Metrics of a user's own: what a function makes of a model's outputs and the targets on the whole test set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as trees  # outputs of any structure, those that libraries have registered included

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.neural import memory
from fedtheory.neural.evaluation import on_test_set
from fedtheory.neural.parts import described, mapped, unpacked
from fedtheory.neural.problem import NeuralProblem
from fedtheory.simulation.metrics import METRICS

__all__ = ["Metric", "OwnMetrics", "check_own_metrics"]

Metric = Callable[[Any, Any], Any]
SHARED = ("test_accuracy", "test_loss")  # what the same pass over the test set gives


def check_own_metrics(metrics: Any, problem: NeuralProblem) -> dict[str, Metric]:
    """The functions by name; none for None.

    Raises
    ------
    InvalidInput
        No mapping of names to functions, or a name that is a metric's of the package.
    MissingCapability
        The problem has no test samples.
    """
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise InvalidInput(f"metrics is a {type(metrics).__name__}: give functions by name, as {{'f1': lambda outputs, targets: ...}}")
    for name, compute in metrics.items():
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"metrics has the name {name!r}: use a text")
        if name in METRICS:
            raise InvalidInput(f"metrics[{name!r}]: this is the name of a metric that `record` takes; use another name")
        if not callable(compute) or isinstance(compute, type):
            raise InvalidInput(f"metrics[{name!r}] = {compute!r}: give a function of (outputs, targets)")
    if metrics and problem.test is None:
        raise MissingCapability(f"metrics {sorted(metrics)} need test samples: give the problem test=(inputs, targets)")
    return dict(metrics)


class OwnMetrics:
    """A run's own metrics by round: arrays (rounds + 1, 1, ...), NaN where they were not evaluated.

    Parameters
    ----------
    metrics : dict of callable(outputs, targets) -> number or array
        They see all test samples at once, outputs as the module returns them, as tensors of their own on the CPU.
    record : names of metrics
        Test accuracy and test loss among them are measured here, in the same pass.
    rounds, evaluate_every : as of the run
    past : dict of (t + 1, 1, ...) arrays
        What was measured before a resumption.
    """

    def __init__(
        self, metrics: dict[str, Metric], record: tuple[str, ...], rounds: int, evaluate_every: int, past: Mapping[str, np.ndarray]
    ) -> None:
        self.metrics, self.rounds, self.evaluate_every = metrics, rounds, evaluate_every
        self.shared = tuple(name for name in record if name in SHARED and metrics)
        self.record = tuple(name for name in record if name not in self.shared)  # what is left to `simulate`
        self.names = (*record, *metrics)
        self.kept: dict[str, np.ndarray] = {}
        for name in (*self.shared, *metrics) if past else ():
            self._keep(name, past[name].shape[1:])[: len(past[name])] = past[name]

    def _keep(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        return self.kept.setdefault(name, np.full((self.rounds + 1, *shape), np.nan))

    def measure(self, problem: NeuralProblem, t: int, x: Tensor) -> None:
        """Evaluate the model x (1, d) after round t, where it is a round to be evaluated in."""
        if self.metrics and (t % self.evaluate_every == 0 or t == self.rounds):
            for name, value in self._measured(problem, x, t).items():
                self._keep(name, value.shape)[t] = value

    def joined(self, t: int, measured: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All metrics up to round t, in the order they were asked for."""
        every = {**measured, **{name: values[: t + 1] for name, values in self.kept.items()}}
        return {name: every[name] for name in self.names}

    def _measured(self, problem: NeuralProblem, x: Tensor, t: int) -> dict[str, np.ndarray]:
        (hits, losses), outputs = _tested(problem, x)
        shared = {"test_accuracy": hits, "test_loss": losses}
        found = {name: np.array([shared[name]]) for name in self.shared}
        for name, compute in self.metrics.items():
            value = _value(name, compute, outputs, mapped(torch.Tensor.cpu, problem.test[1][:]))[None]  # type: ignore[index]  # checked before work
            before = self.kept[name].shape[1:] if name in self.kept else value.shape
            if value.shape != before:
                raise InvalidInput(
                    f"metrics[{name!r}] returned an array of shape {value.shape[1:]} after round {t} and {before[1:]} before: it must "
                    "be the same after all rounds; name all classes, as with labels=range(classes)"
                )
            found[name] = value
        return found


@memory.computed_there
def _tested(problem: NeuralProblem, x: Tensor) -> tuple[np.ndarray, Any]:
    """Mean hit and loss (2,), and the outputs of all n test samples at x (1, d)."""
    on_host = partial(trees.tree_map_only, torch.Tensor, torch.Tensor.cpu)
    means, pieces = on_test_set(problem, x, on_host)
    count = len(problem.test[1])  # type: ignore[index]  # checked before work
    try:
        whole = _together(pieces)
        as_rows = any(isinstance(leaf, torch.Tensor) and leaf.shape[:1] == (count,) for leaf in trees.tree_leaves(whole))
    except RuntimeError:
        as_rows = False
    if not as_rows:
        raise InvalidInput(
            f"metrics of your own see the outputs of all {count} test samples, one row each, and none of what "
            f"{type(problem.flat.module).__name__} returns has the samples on its first axis: return (b, ...)"
        )
    return means[0], whole


def _together(pieces: list[Any]) -> Any:
    """Outputs of consecutive batches as one; what is no tensor is taken from the last."""
    leaves, structures = zip(*(trees.tree_flatten(piece) for piece in pieces), strict=True)
    whole = [
        torch.cat(parts) if isinstance(parts[-1], torch.Tensor) and parts[-1].ndim else parts[-1]
        for parts in zip(*leaves, strict=True)
    ]
    return trees.tree_unflatten(whole, structures[-1])


def _own(value: Any) -> Any:
    """Outputs in memory of their own, which may be written to."""
    return trees.tree_map_only(torch.Tensor, torch.Tensor.clone, value)


def _value(name: str, compute: Metric, outputs: Any, targets: Any) -> np.ndarray:
    """Return what the metric's function returns, as a float64 array. Raises `InvalidInput` where it
    fails, or returns no numbers."""
    try:
        found = compute(_own(outputs), _own(unpacked(targets)))
    except Exception as error:  # whatever a user's function does
        shape = f" {tuple(outputs.shape)}" if isinstance(outputs, torch.Tensor) else ""
        raise InvalidInput(
            f"metrics[{name!r}] fails on the test set ({type(error).__name__}: {error}): it is called with the module's outputs, "
            f"a {type(outputs).__name__}{shape}, and {described('the targets', targets)}, on the CPU"
        ) from error
    try:
        value = np.asarray(found.detach().cpu().to(torch.float64) if isinstance(found, torch.Tensor) else found)
    except (ValueError, TypeError, RuntimeError):  # ragged lists
        value = np.asarray(None)
    if value.dtype.kind not in "biuf":
        raise InvalidInput(f"metrics[{name!r}] returned a {type(found).__name__}: it must return a number or an array of numbers")
    return value.astype(float)
