"""Layers of several models at once, as one batched product each: what `torch.func.vmap` is given in
place of its own rules.

A patched layer computes as torch's does. Under vmap it is handed all models' tensors together, with
the models in front, and calls a rule below: the products of linear layers are put off to the update
(`Tape`), and recurrent layers have a rule at all. Everything else is vmap's own.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedtheory.neural.dropout import of_all
from fedtheory.neural.engines.chain import Chain, activated
from fedtheory.neural.engines.recurrent import recurrent

__all__ = ["Tape", "along_the_chain", "batched_layers", "put_off"]

_NOW = threading.local()


class Tape:
    """Products that a backward pass has put off: of each parameter, by name, (g (R, B, o), h (R, B,
    i)), its gradient being g^T h.

    A bias has h = None: its gradient is the sum of g over B. Made into a gradient of its own, a
    weight matrix is written and read once more than when the product is added to the weights.
    """

    def __init__(self) -> None:
        self.products: dict[str, list[tuple[Tensor, Tensor | None]]] = {}

    def add(self, name: str, g: Tensor, h: Tensor | None) -> None:
        self.products.setdefault(name, []).append((g, h))


@contextmanager
def put_off(tape: Tape | None) -> Iterator[None]:
    """Products of the graphs that this thread makes now go to the tape."""
    _NOW.tape = tape
    try:
        yield
    finally:
        _NOW.tape = None


def batched_layers(module: nn.Module, names: list[str]) -> nn.Module:
    """A copy of the module whose layers, where they are torch's own, compute by the rules here
    under vmap; `names` are those of the parameters that are trained."""
    module = copy.deepcopy(module)
    known: dict[int, str] = {}
    for name, parameter in module.named_parameters():  # a shared parameter goes by its first name
        if name in names:
            known.setdefault(id(parameter), name)
    for layer in module.modules():
        if "forward" in vars(layer):
            continue
        if (
            type(layer) in (nn.MultiheadAttention, nn.TransformerEncoderLayer)
            and not layer.training
        ):
            _without_fast_path(layer)
        if type(layer) is nn.Linear:
            own = known.get(id(layer.weight)), known.get(id(layer.bias))
            layer.forward = partial(_linear, own, layer)
        elif type(layer) is nn.Embedding and layer.padding_idx is not None:
            layer.forward = partial(_embedding, layer)
        elif type(layer) in (nn.LSTM, nn.GRU, nn.RNN) and not layer.proj_size:
            layer.forward = partial(_recurrent, layer)
    return module


def _without_fast_path(layer: nn.Module) -> None:
    """In eval mode torch takes kernels for inference, which have no derivative and no rule for
    vmap; train mode without dropout is the same function. An encoder layer's dropout is in layers
    of its own, which stay as they are."""
    layer.training = True
    if isinstance(layer, nn.MultiheadAttention):
        layer.dropout = 0.0


class _All(torch.autograd.Function):
    """rule(*tensors) of all models, which have the models in front, as one call within vmap; it
    returns a tuple, and records its own graph."""

    @staticmethod
    def forward(rule: Callable[..., Any], *tensors: Any) -> Any:
        return tuple(t[0] for t in rule(*(None if t is None else t[None] for t in tensors)))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, rule: Callable[..., Any], *tensors: Any) -> Any:
        out = rule(
            *(
                t if t is None else t.movedim(d, 0) if d is not None
                else t.expand(info.batch_size, *t.shape)
                for t, d in zip(tensors, in_dims[1:], strict=True)
            )
        )
        return out, (0,) * len(out)


# --- linear layers --------------------------------------------------------------------------------
def _linear(own: tuple[str | None, str | None], layer: nn.Linear, x: Tensor) -> Tensor:
    if torch.is_autocast_enabled(x.device.type):
        return functional.linear(x, layer.weight, layer.bias)
    return _All.apply(partial(_products, own), x, layer.weight, layer.bias)[0]


def _products(
    own: tuple[str | None, str | None], x: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor]:
    flat = x.reshape(len(x), -1, x.shape[-1])
    made = _Products.apply(flat, weight, bias, own, getattr(_NOW, "tape", None))
    return (made.reshape(*x.shape[:-1], weight.shape[1]),)


class _Products(torch.autograd.Function):
    """h (R, B, i), weight (R, o, i), bias (R, o) or None -> (R, B, o); named parameters' gradients
    go to the tape, if there is one."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor | None, own: tuple[Any, Any],
        tape: Tape | None,
    ) -> Tensor:
        ctx.save_for_backward(h, weight)
        ctx.own, ctx.tape = own, tape
        return (
            torch.bmm(h, weight.mT) if bias is None else torch.baddbmm(bias[:, None], h, weight.mT)
        )

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        h, weight = ctx.saved_tensors
        below, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        out: list[Any] = [torch.bmm(g, weight) if below else None, None, None, None, None]
        for place, (name, needed, with_h) in enumerate(
            zip(ctx.own, (needs_weight, needs_bias), (h, None), strict=True), 1
        ):
            if not needed:
                continue
            if ctx.tape is not None and name is not None:
                # with its graph, h would hold the tape, and the tape h
                ctx.tape.add(name, g, None if with_h is None else with_h.detach())
            else:
                out[place] = g.sum(dim=1) if with_h is None else torch.bmm(g.mT, with_h)
        return tuple(out)


def along_the_chain(
    chain: Chain, pieces: list[tuple[str, Tensor]], inputs: Tensor, keys: Tensor | None = None
) -> Tensor:
    """Run the chain on inputs (R, b, ...), without vmap, which has a millisecond a step of its own.

    pieces : weight (R, o, i) and bias (R, o) of each layer by name, in the order of the layers
    keys : what dropout's masks follow from (R,); None: nothing is dropped
    """
    h, tape = inputs.flatten(2), getattr(_NOW, "tape", None)
    for n in range(len(pieces) // 2):
        (name, weight), (other, bias) = pieces[2 * n : 2 * n + 2]
        h = activated(h, chain.activations[n - 1]) if n else h
        for occurrence, (place, share) in enumerate(chain.drops if keys is not None else ()):
            h = (
                h * of_all(keys, occurrence, tuple(h.shape[1:]), share, h.dtype) if place == n
                else h
            )
        h = _Products.apply(h, weight, bias, (name, other), tape)
    return h


def _embedding(layer: nn.Embedding, x: Tensor) -> Tensor:
    """vmap's own rule would train the row at padding_idx."""
    out = functional.embedding(x, layer.weight)
    return torch.where((x == layer.padding_idx)[..., None], out.detach(), out)


# --- recurrent layers -----------------------------------------------------------------------------
def _recurrent(layer: Any, x: Any, state: Any = None) -> Any:
    if not isinstance(x, torch.Tensor) or x.ndim != 3:
        raise RuntimeError(
            f"{type(layer).__name__} of several models at once takes tensors with a batch and a "
            "time axis"
        )
    several = isinstance(layer, nn.LSTM)
    if state is None:
        count = layer.num_layers * (2 if layer.bidirectional else 1)
        zero = x.new_zeros(count, x.shape[0 if layer.batch_first else 1], layer.hidden_size)
        state = (zero, zero) if several else zero
    weights = [getattr(layer, name) for name in layer._flat_weights_names]
    given = (*state, *weights) if several else (state, *weights)
    out, *last = _All.apply(partial(_recurrent_rule, layer), x, *given)
    return out, tuple(last) if several else last[0]


def _recurrent_rule(layer: Any, x: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    x = x.transpose(1, 2) if layer.batch_first else x  # (R, T, b, i)
    own = 2 if isinstance(layer, nn.LSTM) else 1
    out, *last = recurrent(layer, x, others[:own], others[own:])
    return (out.transpose(1, 2) if layer.batch_first else out, *last)
