"""Neural networks and their data: the same algorithms on torch modules.

Importing this package does not import torch: reading data and listing models need NumPy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtheory.lazy import lazily

if TYPE_CHECKING:
    from fedtheory.neural.problem import NeuralProblem
    from fedtheory.neural.training import TrainingRun, train

__all__ = ["NeuralProblem", "TrainingRun", "train"]

__getattr__, __dir__ = lazily(__name__)
