"""Neural networks and their data: the same algorithms on torch modules.

Importing this package does not import torch: reading data and listing models need NumPy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedtheory.errors import no_attribute

if TYPE_CHECKING:
    from fedtheory.neural.problem import NeuralProblem
    from fedtheory.neural.training import TrainingRun, train

__all__ = ["NeuralProblem", "TrainingRun", "train"]


def __getattr__(name: str) -> Any:
    if name == "NeuralProblem":
        from fedtheory.neural.problem import NeuralProblem

        return NeuralProblem
    if name in ("TrainingRun", "train"):
        from fedtheory.neural import training

        return getattr(training, name)
    raise no_attribute(__name__, name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
