"""Layers of several models at once, as one batched product each: what `torch.func.vmap` is given in
place of its own rules.

A patched layer computes as torch's does. Under vmap it is handed all models' tensors together, with
the models in front, and calls a rule below: the products of linear layers are put off to the update
(`Tape`), convolutions run as the device does them best, and recurrent layers, for which vmap has no
rule, take one product a layer for the inputs and one a time step.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import MethodType
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


def batched_layers(module: nn.Module, names: list[str], channels_first: bool = False) -> nn.Module:
    """A copy of the module whose layers, where they are torch's own, compute by the rules here
    under vmap.

    Parameters
    ----------
    names : of the parameters that are trained
    channels_first : whether what convolutions give is copied to torch's usual layout, for functions
        that vmap takes in no other
    """
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
            layer.forward = MethodType(partial(_linear, own), layer)
        elif type(layer) is nn.Conv2d and layer.padding_mode == "zeros":
            layer.forward = MethodType(partial(_convolution, channels_first), layer)
        elif (
            type(layer) is nn.Embedding and layer.padding_idx is not None
            and not (layer.max_norm or layer.scale_grad_by_freq)
        ):
            layer.forward = MethodType(_embedding, layer)
        elif type(layer) is nn.GroupNorm:
            layer.forward = MethodType(_group_norm, layer)
        elif type(layer) is nn.AdaptiveAvgPool2d and layer.output_size in (1, (1, 1)):
            layer.forward = MethodType(_mean_of_images, layer)
        elif (
            type(layer) in (nn.LSTM, nn.GRU, nn.RNN) and not layer.proj_size
            and not (layer.dropout and layer.training)
        ):
            layer.forward = MethodType(_recurrent, layer)
    return module


def _without_fast_path(layer: nn.Module) -> None:
    """In eval mode torch takes kernels for inference, which have no derivative and no rule for
    vmap; train mode without dropout is the same function. An encoder layer's dropout is in layers
    of its own, which stay as they are."""
    layer.training = True
    if isinstance(layer, nn.MultiheadAttention):
        layer.dropout = 0.0


class _All(torch.autograd.Function):
    """plain(*tensors) of one model; under vmap rule(R, batched, *tensors) of all, which says what
    has the models in front."""

    @staticmethod
    def forward(plain: Callable[..., Any], rule: Callable[..., Any], *tensors: Any) -> Any:
        return plain(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing: the rule records its own graph."""

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, plain: Callable[..., Any], rule: Callable[..., Any], *tensors: Any
    ) -> Any:
        dims = in_dims[2:]
        moved = [t if d is None else t.movedim(d, 0) for t, d in zip(tensors, dims, strict=True)]
        out = rule(info.batch_size, [d is not None for d in dims], *moved)
        return out, (0,) * len(out) if isinstance(out, tuple) else 0


# --- linear layers --------------------------------------------------------------------------------
def _linear(own: tuple[str | None, str | None], layer: nn.Linear, x: Tensor) -> Tensor:
    rule = partial(_linear_rule, own)
    return _All.apply(functional.linear, rule, x, layer.weight, layer.bias)


def _of_every(count: int, batched: list[bool], *tensors: Any) -> list[Any]:
    """The tensors of every model, without a copy where all share one."""
    return [
        t if t is None or inside else t.expand(count, *t.shape)
        for t, inside in zip(tensors, batched, strict=True)
    ]


def _cast(x: Tensor, *others: Any) -> list[Any]:
    """The tensors in the precision that autocast asks for, where it is on."""
    if not torch.is_autocast_enabled(x.device.type):
        return [x, *others]
    kind = torch.get_autocast_dtype(x.device.type)
    return [None if t is None else t.to(kind) for t in (x, *others)]


def _linear_rule(
    own: tuple[str | None, str | None], count: int, batched: list[bool], x: Tensor, weight: Tensor,
    bias: Tensor | None,
) -> Tensor:
    if not any(batched[1:]):
        return functional.linear(x, weight, bias)
    tape = None if torch.is_autocast_enabled(x.device.type) else getattr(_NOW, "tape", None)
    x, weight, bias = _cast(*_of_every(count, batched, x, weight, bias))
    flat = x.reshape(count, -1, x.shape[-1])
    return _Products.apply(flat, weight, bias, own, tape).reshape(*x.shape[:-1], weight.shape[1])


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


def _mean_of_images(layer: nn.AdaptiveAvgPool2d, x: Tensor) -> Tensor:
    """torch's own takes a view for which vmap has no rule."""
    return x.mean(dim=(-2, -1), keepdim=True)


def _embedding(layer: nn.Embedding, x: Tensor) -> Tensor:
    """vmap's own rule would train the row at padding_idx."""
    out = functional.embedding(x, layer.weight)
    return torch.where((x == layer.padding_idx)[..., None], out.detach(), out)


# --- convolutions ---------------------------------------------------------------------------------
def _convolution(channels_first: bool, layer: nn.Conv2d, x: Tensor) -> Tensor:
    plain, rule = partial(_convolve, layer), partial(_convolution_rule, layer)
    out = _All.apply(plain, rule, x, layer.weight, layer.bias)
    return out.contiguous() if channels_first else out


def _convolve(layer: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    how = layer.stride, layer.padding, layer.dilation, layer.groups
    return functional.conv2d(x, weight, bias, *how)


def _convolution_rule(
    layer: nn.Conv2d, count: int, batched: list[bool], x: Tensor, weight: Tensor,
    bias: Tensor | None,
) -> Tensor:
    shared = (weight, bias)
    x, weight, bias = _of_every(count, batched, x, weight, bias)
    lead = x.shape[1:-3]  # no batch of samples, or one
    if not any(batched[1:]):
        out = _convolve(layer, x.reshape(-1, *x.shape[-3:]), *shared)
        return out.reshape(count, *lead, *out.shape[1:])
    x = x.reshape(count, -1, *x.shape[-3:])
    if isinstance(layer.padding, str):
        total = [
            d * (k - 1) if layer.padding == "same" else 0
            for d, k in zip(layer.dilation, layer.kernel_size, strict=True)
        ]
        x = functional.pad(
            x, [total[1] // 2, total[1] - total[1] // 2, total[0] // 2, total[0] - total[0] // 2]
        )
        padding: tuple[int, ...] = (0, 0)
    else:
        padding = layer.padding
    x, weight, bias = _cast(x, weight, bias)
    if x.device.type == "cpu" or layer.groups > 1:
        out = _OneByOne.apply(x, weight, bias, layer.stride, padding, layer.dilation, layer.groups)
    else:
        out = _unfolded(x, weight, bias, layer.stride, padding, layer.dilation)
    return out.reshape(count, *lead, *out.shape[2:])


class _OneByOne(torch.autograd.Function):
    """Convolutions model after model, channels last: on a CPU they are bound by arithmetic, and
    grouped ones take twice as long."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
        dilation: Any, groups: int,
    ) -> Tensor:
        last = torch.channels_last
        ctx.save_for_backward(x, weight)
        ctx.how, ctx.biased = (stride, padding, dilation, groups), bias is not None
        biases = [None] * len(x) if bias is None else bias
        rows = [
            functional.conv2d(
                a.contiguous(memory_format=last), w.contiguous(memory_format=last), b, *ctx.how
            )
            for a, w, b in zip(x, weight, biases, strict=True)
        ]
        return torch.stack(rows)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.how
        wanted = [
            ctx.needs_input_grad[0], ctx.needs_input_grad[1],
            ctx.biased and ctx.needs_input_grad[2],
        ]
        rows = [
            torch.ops.aten.convolution_backward(
                g[r], x[r], weight[r], [weight.shape[1]], stride, padding, dilation, False, [0, 0],
                groups, wanted,
            )
            for r in range(len(x))
        ]
        found = [torch.stack([row[n] for row in rows]) if wanted[n] else None for n in range(3)]
        return (*found, None, None, None, None)


def _unfolded(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any
) -> Tensor:
    """x (R, b, c, h, w), weight (R, o, c, kh, kw) -> (R, b, o, h', w'), by one batched product of
    the images' patches."""
    count, b = x.shape[:2]
    out, _, kh, kw = weight.shape[1:]
    # (R b, c kh kw, h' w')
    patches = functional.unfold(x.flatten(0, 1), (kh, kw), dilation, padding, stride)
    height = (x.shape[-2] + 2 * padding[0] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    patches = patches.reshape(count, b, *patches.shape[1:]).transpose(2, 3).reshape(
        count, -1, patches.shape[1]
    )
    made = _Products.apply(patches, weight.flatten(2), bias, (None, None), None)
    return made.reshape(count, b, height, -1, out).movedim(-1, 2)


def _group_norm(layer: nn.GroupNorm, x: Tensor) -> Tensor:
    """vmap has no rule for images whose channels may come last."""

    def plain(a: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.group_norm(a, layer.num_groups, weight, bias, layer.eps)

    return _All.apply(plain, partial(_group_norm_rule, layer), x, layer.weight, layer.bias)


def _group_norm_rule(
    layer: nn.GroupNorm, count: int, batched: list[bool], x: Tensor, *affine: Tensor | None
) -> Tensor:
    x = x if batched[0] else x.expand(count, *x.shape)
    out = functional.group_norm(x.flatten(0, 1), layer.num_groups, eps=layer.eps).reshape(x.shape)
    around = (1,) * (x.ndim - 3)
    for what, inside, own in zip((torch.mul, torch.add), batched[1:], affine, strict=True):
        if own is not None:
            out = what(out, own.reshape(count if inside else 1, 1, -1, *around))
    return out


# --- recurrent layers -----------------------------------------------------------------------------
def _recurrent(layer: Any, x: Any, state: Any = None) -> Any:
    if not isinstance(x, torch.Tensor) or x.ndim != 3:
        raise RuntimeError(
            f"{type(layer).__name__} of several models at once takes tensors with a batch and a "
            "time axis"
        )
    lstm = isinstance(layer, nn.LSTM)
    states = (None, None) if state is None else tuple(state) if lstm else (state, None)
    weights = [getattr(layer, name) for name in layer._flat_weights_names]
    out, *last = _All.apply(
        partial(_one_model, layer), partial(_recurrent_rule, layer), x, *states, *weights
    )
    return out, tuple(last) if lstm else last[0]


def _one_model(layer: Any, *tensors: Any) -> Any:
    found = _recurrent_rule(
        layer, 1, [True] * len(tensors), *(None if t is None else t[None] for t in tensors)
    )
    return tuple(t[0] for t in found)


def _recurrent_rule(layer: Any, count: int, batched: list[bool], *tensors: Any) -> tuple[
    Tensor, ...
]:
    x, h, c, *weights = _of_every(count, batched, *tensors)
    x = x.transpose(1, 2) if layer.batch_first else x  # (R, T, b, i)
    directions = 2 if layer.bidirectional else 1
    out, *last = recurrent(layer.mode, x, h, c, weights, layer.num_layers, directions, layer.bias)
    return (out.transpose(1, 2) if layer.batch_first else out, *last)
