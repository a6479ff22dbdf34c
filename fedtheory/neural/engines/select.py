"""The choice of an engine for a model and a device."""

from __future__ import annotations

import re
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from fedtheory.errors import InvalidInput, MissingCapability, suggest
from fedtheory.neural.engines.base import Batch, Engine, Loop
from fedtheory.neural.engines.stacked import Stacked
from fedtheory.neural.flat import FlatModule
from fedtheory.neural.losses import Loss
from fedtheory.neural.parts import repeated

__all__ = ["ENGINES", "engine_for"]

ENGINES: dict[str, type[Engine]] = {"stacked": Stacked, "loop": Loop}
# Multiplications and additions of a forward pass of one sample, beyond which arithmetic is all that
# counts, and a loop does it in less memory: validation/timings/which_engine.py.
LARGE = 500_000
# factors of the module's own parameters, at which both ways are compared: rounding may put a ReLU's
# input on the other side of 0, and so move the gradient of a deep network, but does not do it
# everywhere
TRIED = ((0.9, 1.1), (0.95, 1.05), (0.92, 1.08))


def engine_for(
    name: str, flat: FlatModule, loss: Loss, inputs: Any, targets: Any, autocast: str | None = None
) -> Engine:
    """The engine of that name for these samples. 'auto' goes by what was measured:

    - chains of linear layers are stacked: on a CPU compiled steps walk along them, at every size;
    - on a CPU, networks of more than half a million multiplications and additions a sample go to
      the loop: most with convolutions, large recurrent ones and transformers;
    - on a GPU, networks with convolutions go to the loop;
    - everything else is stacked, but for modules that `torch.func.vmap` cannot take, or only
      operation by operation. They go to the loop, with a warning that names the operation.

    Raises `UnknownName` or `InvalidInput` for another name, and `MissingCapability` where 'stacked'
    is asked for a module that vmap cannot take.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"engine = {name!r}: use 'auto', {', '.join(map(repr, ENGINES))}")
    if name not in (*ENGINES, "auto"):
        raise suggest(name, [*ENGINES, "auto"], "engine")
    stacked, reason, slow = _tried(flat, loss, inputs, targets)
    if name == "stacked" and reason is not None:
        raise MissingCapability(
            f"engine='stacked' cannot take this module ({reason}): use engine='auto', which says "
            "what it does"
        )
    on_cpu = flat.initial().device.type == "cpu"
    in_a_loop = name == "loop"
    if name == "auto":
        images = any(isinstance(m, nn.modules.conv._ConvNd) for m in flat.module.modules())
        in_a_loop = images and not on_cpu
        why_not = reason or (slow if on_cpu else None)  # on a GPU not measured
        if why_not is not None and not in_a_loop:
            warnings.warn(
                "the clients' models are trained one after another: "
                f"{type(flat.module).__name__} cannot be computed for several at once ({why_not}). "
                "The numbers are the same; it takes the time of a usual loop",
                UserWarning,
                stacklevel=3,  # NeuralProblem's caller
            )
        in_a_loop |= why_not is not None or (
            on_cpu and stacked.chain is None and stacked.work(inputs) > LARGE
        )
    samplewise = stacked if reason is None else None
    engine: Engine = stacked
    if in_a_loop or autocast is not None:
        engine = (Loop if in_a_loop else Stacked)(flat, loss)
        engine.autocast = autocast
        engine.settle(inputs)
    engine.samplewise = samplewise
    return engine


def _tried(
    flat: FlatModule, loss: Loss, inputs: Any, targets: Any
) -> tuple[Stacked, str | None, str | None]:
    """The engine, why it cannot take the module, and what of it is slow, each None where there is
    nothing."""
    engine = Stacked(flat, loss)
    if flat.dim > flat.trained:
        return engine, "its running statistics change in place", None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        engine.settle(inputs)
        reason = _refusal(engine, inputs, targets)
        if reason is not None and engine.chain is not None:  # its gradient is not that of its layers
            engine.chain = None
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
                with _OwnPadding():
                    found = engine.gradient(two, both)
            except Exception as error:
                return _in_a_line(error)
            off, size = (found - wanted).norm(), wanted.norm()
            if not bool(torch.isfinite(size)) or bool(off <= 1e-3 * size + 1e-6):
                return None
    return "its gradient is another one then"


class _OwnPadding(TorchFunctionMode):
    """While it is entered, embeddings with a padding_idx are refused, of which vmap trains the row
    that is padding: a few samples may have none. `fedtheory.neural.engines.layers` has a rule for
    `torch.nn.Embedding` itself."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if function in (functional.embedding, torch.embedding):
            none = None if function is functional.embedding else -1
            if (args[2] if len(args) > 2 else given.get("padding_idx", none)) != none:
                raise MissingCapability("it has an embedding with padding_idx that is no nn.Embedding")
        return function(*args, **given)


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
