"""Which engine a model and a device get."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from torch import Tensor, nn

from fedtheory.errors import InvalidInput, MissingCapability, suggest
from fedtheory.neural.engines.base import Engine, Loop, Vmap
from fedtheory.neural.engines.dense import Dense
from fedtheory.neural.losses import LOSSES, Loss

if TYPE_CHECKING:
    from fedtheory.neural.flat import FlatModule

__all__ = ["ENGINES", "engine_for"]

ENGINES: dict[str, type[Engine]] = {"dense": Dense, "vmap": Vmap, "loop": Loop}


def engine_for(
    name: str, flat: FlatModule, loss: Loss, inputs: Tensor, targets: Tensor, autocast: str | None = None
) -> Engine:
    """The engine of that name for these samples; 'auto' takes 'dense' where it fits, 'loop' for other networks on a CPU, for LSTMs
    and for users' losses (with a warning, where a named loss would have another), else 'vmap'.

    Raises
    ------
    UnknownName
        No engine of that name.
    InvalidInput
        No name.
    MissingCapability
        'dense' for a module or loss it was not written for, or with autocast.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"engine = {name!r}: use 'auto', {', '.join(map(repr, ENGINES))}")
    if name == "auto":
        name = _best(flat, loss, inputs, targets, autocast is not None)
        if not loss.weighted:
            _tell(loss, name, _best(flat, Loss("cross_entropy"), inputs, targets, autocast is not None))
    if name not in ENGINES:
        raise suggest(name, [*ENGINES, "auto"], "engine")
    if name == "dense" and not Dense.fits(flat, loss, inputs, targets):
        raise MissingCapability(
            "engine='dense' does nn.Sequential of Flatten, Linear and ReLU, all trained, without hooks, each layer with parameters of "
            "its own, with the cross entropy of one label a sample only: use engine='auto'"
        )
    if name == "dense" and autocast is not None:
        raise MissingCapability("engine='dense' works in one precision: leave autocast out, or use engine='auto'")
    engine = ENGINES[name](flat, loss)
    engine.autocast = autocast
    engine.settle(inputs[:2])
    return engine


def _tell(loss: Loss, taken: str, better: str) -> None:
    """Warn of a callable on a network that would be trained much faster with a loss that has a name."""
    if better == taken:
        return
    options = ", ".join(f"{k}={'...' if isinstance(v, Tensor) else repr(v)}" for k, v in loss.options.items())
    warnings.warn(
        f"the loss {loss.name}({options}) is none of {', '.join(map(repr, LOSSES))}, so that the clients' models are trained one after "
        f"another (engine '{taken}'). With loss='cross_entropy' this network gets the engine '{better}', several times as fast with "
        "small batches: use it if the plain mean cross entropy is meant; for anything else there is no faster way",
        UserWarning,
        stacklevel=4,  # NeuralProblem's caller
    )


def _best(flat: FlatModule, loss: Loss, inputs: Tensor, targets: Tensor, mixed: bool) -> str:
    if Dense.fits(flat, loss, inputs, targets) and not mixed:
        return "dense"
    recurrent = any(isinstance(m, nn.RNNBase) for m in flat.module.modules())
    # On a CPU a loop is measured to be faster (validation/timings/performance.py). On a GPU nothing is measured: vmap is
    # expected to be, for a cohort's small kernels become few large ones;
    # `python validation/timings/performance_neural.py --device cuda` compares the two.
    on_cpu = inputs.device.type == "cpu"
    if recurrent or not loss.weighted or on_cpu:  # cuDNN's LSTM has no batching rule
        return "loop"
    return "vmap"
