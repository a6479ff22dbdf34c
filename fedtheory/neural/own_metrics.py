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
from fedtheory.inputs import require
from fedtheory.neural import memory
from fedtheory.neural.evaluation import on_test_set
from fedtheory.neural.parts import described, mapped, unpacked
from fedtheory.neural.problem import NeuralProblem
from fedtheory.neural.trials import failing_is_told
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
    found: dict[str, Metric] = {} if metrics is None else metrics
    named = isinstance(found, Mapping) and all(isinstance(n, str) for n in found)
    how = "give functions by name, as {'f1': lambda outputs, targets: ...}"
    require(named and all(map(callable, found.values())), "metrics", metrics, how)
    for name in found:
        taken = "a metric that `record` takes has this name; use another"
        require(name not in METRICS, "metrics", name, taken)
    if found and problem.test is None:
        raise MissingCapability(
            f"metrics {sorted(found)} need test samples: give the problem test=(inputs, targets)"
        )
    return dict(found)


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
        kept = self.kept.setdefault(name, np.full((self.rounds + 1, *shape), np.nan))
        alike = "it must be the same after all rounds; name all classes, labels=range(classes)"
        said = f"metrics[{name!r}] of shape {shape[1:]}, before"
        require(kept.shape[1:] == shape, said, kept.shape[2:], alike)
        return kept

    def measure(self, problem: NeuralProblem, t: int, x: Tensor) -> None:
        """Evaluate the model x (1, d) after round t, where it is a round to be evaluated in."""
        if not self.metrics or (t % self.evaluate_every and t != self.rounds):
            return
        (hits, losses), outputs = _tested(problem, x)
        found = {"test_accuracy": hits, "test_loss": losses}
        assert problem.test is not None  # which is checked before work
        targets = mapped(torch.Tensor.cpu, problem.test[1][:])
        for name, compute in self.metrics.items():
            found[name] = _value(name, compute, outputs, targets)
        for name in (*self.shared, *self.metrics):
            value = np.array(found[name])
            self._keep(name, (1, *value.shape))[t] = value

    def joined(self, t: int, measured: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All metrics up to round t, in the order they were asked for."""
        every = {**measured, **{name: values[: t + 1] for name, values in self.kept.items()}}
        return {name: every[name] for name in self.names}


@memory.computed_there
def _tested(problem: NeuralProblem, x: Tensor) -> tuple[np.ndarray, Any]:
    """Mean hit and loss (2,), and the outputs of all n test samples at x (1, d)."""
    on_host = partial(trees.tree_map_only, torch.Tensor, torch.Tensor.cpu)
    means, pieces = on_test_set(problem, x, on_host)
    leaves, structures = zip(*(trees.tree_flatten(piece) for piece in pieces), strict=True)
    count = len(problem.test[1])  # type: ignore[index]  # checked before work
    whole = [
        torch.cat(parts) if isinstance(parts[-1], torch.Tensor) and parts[-1].ndim else parts[-1]
        for parts in zip(*leaves, strict=True)
    ]
    if not any(isinstance(leaf, torch.Tensor) and leaf.shape[:1] == (count,) for leaf in whole):
        raise InvalidInput(
            f"metrics of your own see the outputs of all {count} test samples, one row each, and "
            f"none of what {type(problem.flat.module).__name__} returns has the samples on its "
            "first axis: return (b, ...)"
        )
    return means[0], trees.tree_unflatten(whole, structures[-1])


def _value(name: str, compute: Metric, outputs: Any, targets: Any) -> np.ndarray:
    """Return what the metric's function returns, as a float64 array. Raises `InvalidInput` where it
    fails, or returns no numbers."""
    copied = partial(trees.tree_map_only, torch.Tensor, torch.Tensor.clone)  # it may write there
    shape = f" {tuple(outputs.shape)}" if isinstance(outputs, torch.Tensor) else ""
    what = f"the outputs, a {type(outputs).__name__}{shape}"
    given = f"{what}, and {described('the targets', targets)}"
    with failing_is_told(f"metrics[{name!r}] fails on the test set, on {given}, on the CPU"):
        found = compute(copied(outputs), copied(unpacked(targets)))
        is_one = isinstance(found, torch.Tensor)
        value = np.asarray(found.detach().cpu().to(torch.float64) if is_one else found)
        if value.dtype.kind not in "biuf":
            what = f"it returns a {type(found).__name__}"
            raise TypeError(f"{what}, and must return a number or an array of numbers")
    return value.astype(float)
