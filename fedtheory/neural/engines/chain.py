"""True if a module, however its forward pass is written, is a chain of linear layers with
activations, and dropout, between them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from fedtheory.neural.flat import FlatModule

__all__ = ["ACTIVATIONS", "Activation", "Chain", "activated", "chain_of"]

MANY = 10**6  # samples, for a forward pass that asks how many there are


Activation = tuple[str, float]  # a name of `ACTIVATIONS`, and its parameter: 0 where it has none


class Chain(NamedTuple):
    """A chain of linear layers.

    Attributes
    ----------
    widths : the inputs' entries, and the units of each layer
    drops : (layer, share) of each dropout, in order
        Of what enters the layer of that number: 0, the inputs.
    activations : between the layers
    """

    widths: tuple[int, ...]
    drops: tuple[tuple[int, float], ...] = ()
    activations: tuple[Activation, ...] = ()


def activated(z: Tensor, activation: Activation) -> Tensor:
    """The activation of z, which ReLU overwrites."""
    name, parameter = activation
    return ACTIVATIONS[name](z, parameter)


# in the order in which `fedtheory.neural.engines.kernels.activate` numbers them
ACTIVATIONS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "relu": lambda z, _: z.relu_(), "tanh": lambda z, _: z.tanh(),
    "sigmoid": lambda z, _: z.sigmoid(), "gelu": lambda z, _: functional.gelu(z),
    "silu": lambda z, _: functional.silu(z), "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
}
# how torch's record of a forward pass calls them, and the option that it keeps
_RECORDED = {
    "Relu": ("relu", ""), "Tanh": ("tanh", ""), "Sigmoid": ("sigmoid", ""), "Gelu": ("gelu", ""),
    "Silu": ("silu", ""), "LeakyRelu": ("leaky_relu", "_saved_negative_slope"),
    "Elu": ("elu", "_saved_alpha"),
}
_SHAPES = ("View", "UnsafeView", "ReshapeAlias", "Squeeze")


def chain_of(flat: FlatModule, inputs: Any) -> Chain | None:
    """The chain, where the module is one on samples like these (n, ...), else None.

    Every layer must have a weight and a bias of its own, all trained, in the order of the layers:
    then a point holds them one after another. What autograd records of a forward pass is read, of
    few samples and of many.
    """
    if not isinstance(inputs, torch.Tensor) or not inputs.is_floating_point():
        return None
    if any(m._forward_hooks or m._forward_pre_hooks for m in flat.module.modules()):
        return None  # they would not be called
    found = _passed(flat, inputs, 2)
    return found if found is not None and found == _passed(flat, inputs, MANY) else None


class _InTheOpen(TorchFunctionMode):
    """While it is entered, what autograd does not record is refused: hooks of gradients, and work
    on values out of its sight."""

    HIDDEN = (
        Tensor.register_hook, Tensor.detach, Tensor.detach_, torch.detach, torch.detach_,
        Tensor.data.__get__, torch._C._set_grad_enabled,
    )  # fmt: skip

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function in self.HIDDEN:
            raise RuntimeError("the record would not show it")
        return function(*args, **(kwargs or {}))


def _passed(flat: FlatModule, like: Tensor, samples: int) -> Chain | None:
    """The chain that a forward pass of so many samples is, on a device that computes nothing; None
    where it is anything else."""
    x = like.new_empty((samples, *like.shape[1:]), device="meta").requires_grad_()
    shapes = zip(flat.names, flat.shapes, strict=True)
    leaves = {n: like.new_empty(s, device="meta").requires_grad_() for n, s in shapes}
    key = torch.zeros((), dtype=torch.int64, device="meta")
    try:
        with torch.enable_grad(), _InTheOpen():
            outputs = flat.run(leaves, x, key)
        passed, pieces = _record(outputs, x)
        chain = _chain(passed, [p.shape for p in pieces[::2]], flat.dropout)
    except Exception:  # a forward pass that fails, asks for values, or is no chain
        return None
    in_order = [id(p) for p in pieces] == [id(p) for p in leaves.values()]
    ends = prod(like.shape[1:]), (samples, chain.widths[-1])
    return chain if in_order and (chain.widths[0], outputs.shape) == ends else None


def _record(outputs: Tensor, x: Tensor) -> tuple[list[Activation], list[Tensor]]:
    """What leads from x to the outputs, and the weights and biases on the way; fails where it
    branches, or is not known."""
    node: Any = outputs.grad_fn
    passed: list[Activation] = []
    pieces: list[Tensor] = []
    while getattr(node, "variable", None) is not x:
        kind = node.name().rstrip("0123456789").removesuffix("Backward")
        before = [n for n, _ in node.next_functions]
        if kind == "Addmm":
            bias, node, turned = before
            if turned.name() != "TBackward0":
                raise ValueError
            pieces += [bias.variable, turned.next_functions[0][0].variable]
            passed.append(("linear", 0.0))
            continue
        if kind in _RECORDED:
            name, option = _RECORDED[kind]
            if getattr(node, "_saved_approximate", "none") != "none" or (
                name == "elu" and (node._saved_scale, node._saved_input_scale) != (1, 1)
            ):  # SELU is an ELU for torch
                raise ValueError
            passed.append((name, float(getattr(node, option)) if option else 0.0))
        elif kind == "Mul":
            passed.append(("dropout", 0.0))
        elif kind not in _SHAPES:
            raise ValueError
        (node,) = (n for n in before if n is not None)
    return passed[::-1], pieces[::-1]


def _chain(passed: list[Activation], shapes: list[Any], shares: tuple[float, ...]) -> Chain:
    """The chain of what was passed; fails where it is none. shapes : (outputs, inputs) of the layers"""
    left, layers = iter(shares), 0
    drops: list[tuple[int, float]] = []
    between: list[Activation] = []
    dropped = False  # since the last layer, and with no activation yet
    for name, parameter in passed:
        if name == "linear" and layers == len(between):
            layers, dropped = layers + 1, False
        elif name == "dropout":
            drops.append((layers, next(left)))
            dropped = layers > len(between)
        # the maximum with 0 of a multiple is a multiple of it
        elif layers == len(between) + 1 and (name == "relu" or not dropped):
            between.append((name, parameter))
        else:
            raise ValueError
    follow = all(before[0] == after[1] for before, after in pairwise(shapes))
    at_the_end = layers == len(between) or any(place == layers for place, _ in drops)
    if at_the_end or not follow or next(left, None) is not None:
        raise ValueError
    return Chain((shapes[0][1], *(o for o, _ in shapes)), tuple(drops), tuple(between))
