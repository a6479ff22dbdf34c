"""The choice of an engine for a model and a device."""

from __future__ import annotations

import re
import warnings
from typing import Any

import torch
from torch import nn

from fedtheory.errors import InvalidInput, MissingCapability, suggest
from fedtheory.neural.engines.base import Batch, Engine, Loop
from fedtheory.neural.engines.stacked import Stacked
from fedtheory.neural.flat import FlatModule
from fedtheory.neural.losses import Loss
from fedtheory.neural.parts import repeated

__all__ = ["ENGINES", "engine_for"]

ENGINES: dict[str, type[Engine]] = {"stacked": Stacked, "loop": Loop}
# Of a forward pass of one sample. Where a core has more to do, arithmetic is all that counts, and a
# loop does it in less memory, but for chains of linear layers, which gain at every size:
# validation/timings/which_engine.py.
LARGE = 500_000
# factors of the module's own parameters, at which both ways are compared: rounding may put a ReLU's
# input on the other side of 0, and so move the gradient of a deep network, but does not do it
# everywhere
TRIED = ((0.9, 1.1), (0.95, 1.05), (0.92, 1.08))


def engine_for(
    name: str, flat: FlatModule, loss: Loss, inputs: Any, targets: Any, autocast: str | None = None
) -> Engine:
    """The engine of that name for these samples; 'auto' takes 'stacked', but for large networks on
    a CPU, convolutions on a GPU, and for modules that cannot be stacked (with a warning that says
    why), 'loop'.

    Raises `UnknownName` or `InvalidInput` for another name, and `MissingCapability` where 'stacked'
    is asked for a module that vmap cannot take.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"engine = {name!r}: use 'auto', {', '.join(map(repr, ENGINES))}")
    if name not in (*ENGINES, "auto"):
        raise suggest(name, [*ENGINES, "auto"], "engine")
    stacked, reason, slow = _tried(flat, loss, inputs, targets)
    if (reason or slow) and any(isinstance(layer, nn.Conv2d) for layer in flat.module.modules()):
        again = _tried(flat, loss, inputs, targets, channels_first=True)
        stacked, reason, slow = again if not any(again[1:]) else (stacked, reason, slow)
    if name != "auto" or flat.initial().device.type != "cpu":  # on a GPU not measured
        slow = None
    engine: Engine = Loop(flat, loss)
    engine.samplewise = stacked if reason is None else None
    if name != "loop":
        if reason is None and slow is None and (name == "stacked" or not _better_in_a_loop(stacked, inputs)):
            engine = stacked if autocast is None else Stacked(flat, loss, stacked.channels_first)
            engine.samplewise = stacked
        elif reason is not None and name == "stacked":
            raise MissingCapability(
                f"engine='stacked' cannot take this module ({reason}): use engine='auto', which "
                "says what it does"
            )
        elif reason is not None or slow is not None:
            warnings.warn(
                f"the clients' models are trained one after another: {type(flat.module).__name__} cannot be computed for several at "
                f"once ({reason or slow}). The numbers are the same; it takes the time of a usual loop",
                UserWarning,
                stacklevel=3,  # NeuralProblem's caller
            )
    engine.autocast = autocast
    engine.settle(inputs)
    return engine


def _tried(
    flat: FlatModule, loss: Loss, inputs: Any, targets: Any, channels_first: bool = False
) -> tuple[Stacked, str | None, str | None]:
    """The engine, why it cannot take the module, and what of it is slow, each None where there is
    nothing."""
    engine = Stacked(flat, loss, channels_first)
    if flat.dim > flat.trained:
        return engine, "its running statistics change in place", None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        reason = _refusal(engine, inputs, targets)
    return engine, reason, _without_a_rule(said)


def _refusal(engine: Stacked, inputs: Any, targets: Any) -> str | None:
    """Why two models at once do not get the gradients of one after another, in a line; None where
    they do, or one fails as well."""
    point = engine.flat.initial()
    keys = torch.arange(2, device=point.device) if engine.flat.dropout else None
    both = Batch(repeated(inputs, 2), repeated(targets, 2), keys=keys)
    plain = Loop(engine.flat, engine.loss)
    plain.settle(inputs)
    with torch.random.fork_rng(devices=[point.device] if point.device.type == "cuda" else []):
        for least, most in TRIED:
            two = torch.stack([least * point, most * point])
            try:
                wanted = plain.gradient(two, both)
            except Exception:  # which `check_model` tells
                return None
            try:
                found = engine.gradient(two, both)
            except Exception as error:
                return _in_a_line(error)
            off, size = (found - wanted).norm(), wanted.norm()
            if not bool(torch.isfinite(size)) or bool(off <= 1e-3 * size + 1e-6):
                return None
    return "its gradient is another one then"


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split()).split(". ")[0][:160] or type(error).__name__


def _without_a_rule(said: list[warnings.WarningMessage]) -> str | None:
    """Name the operations that torch cannot compute for all models at once, as it warned. It
    computes them for one model after another in the middle of a graph of all."""
    found = [
        re.search(r"performance drop because .* batching rule for (\S+?)\.? ", str(w.message))
        for w in said
    ]
    names = dict.fromkeys(m[1] for m in found if m)
    return f"torch.func.vmap has no rule for {', '.join(names)}" if names else None


def _better_in_a_loop(engine: Stacked, inputs: Any) -> bool:
    """True if these models are faster one after another than stacked.

    On a GPU, convolutions are: a loop's are cuDNN's own, on streams beside one another.
    """
    point = engine.flat.initial()
    if point.device.type != "cpu":
        return any(isinstance(layer, nn.Conv2d) for layer in engine.flat.module.modules())
    engine.settle(inputs)
    return engine.chain is None and engine.work(inputs) > LARGE
