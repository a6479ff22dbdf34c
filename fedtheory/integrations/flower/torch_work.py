"""A torch network of one's own as the clients' work of our Flower strategies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_number, whole_number
from fedtheory.integrations.flower.rules import LocalWork
from fedtheory.integrations.settings import needed_package
from fedtheory.integrations.torch_loops import flat_parameters, set_parameters
from fedtheory.local.objective import LocalObjective

__all__ = ["torch_work"]


def torch_work(
    module: Any, loss: Callable[[Any], Any], num_examples: int, learning_rate: float, steps: int
) -> LocalWork:
    """Local gradient steps on a torch module's loss, with the penalties of the method added to
    every step.

    Parameters
    ----------
    module : torch.nn.Module
        Its parameters are what the server's arrays are, in the same order; their values are
        overwritten.
    loss : callable(module) -> scalar tensor
        Called once a step: draw a mini-batch in it, or take all examples.
    num_examples : int >= 1, n_k
    learning_rate : float > 0
    steps : int >= 1

    Returns
    -------
    LocalWork
        Its step is y <- y - learning_rate * (gradient of the loss + what the method adds), in the
        module's own precision. It has no full gradient: option='gradient' and rule='true-gradient'
        are not for it.

    Raises
    ------
    InvalidInput
        A number out of range; a loss that has no gradient.
    """
    needed_package("torch", "fedtheory[torch]")
    rate, many = real_number("learning_rate", learning_rate, above=0), whole_number("steps", steps, least=1)

    def minimise(objective: LocalObjective, start: np.ndarray, number: int) -> tuple[np.ndarray, float]:
        import torch

        set_parameters(module, start)
        parameters = list(module.parameters())
        sizes = [p.numel() for p in parameters]
        like = parameters[0]
        center, linear = (
            None if v is None else torch.as_tensor(v, dtype=like.dtype, device=like.device).split(sizes)
            for v in (objective.center, objective.linear)
        )
        assert center is not None
        for _ in range(many):
            value = loss(module)
            if not getattr(value, "requires_grad", False):
                raise InvalidInput("loss(module) has no gradient: was it detached, or turned into a number?")
            slopes = torch.autograd.grad(value, parameters)
            with torch.no_grad():
                for i, (p, slope) in enumerate(zip(parameters, slopes, strict=True)):
                    away = p - center[i].view_as(p)
                    pull = float(objective.curvature) * away + objective.l1 * torch.sign(away)
                    p -= rate * (slope + (pull if linear is None else pull - linear[i].view_as(p)))
        return flat_parameters(module).astype(float), many * rate

    return LocalWork(whole_number("num_examples", num_examples, least=1), minimise)
