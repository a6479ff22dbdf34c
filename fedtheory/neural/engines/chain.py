"""True if a module, however its forward pass is written, is a chain of linear layers with
activations, and dropout, between them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

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
_PARAMETERS = {"leaky_relu": ("negative_slope", 0.01), "elu": ("alpha", 1.0)}  # and by default
# how an activation is written: as a module, as a function, as a method
_ACTIVATIONS: dict[Any, str] = {
    nn.ReLU: "relu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid", nn.GELU: "gelu", nn.SiLU: "silu",
    nn.LeakyReLU: "leaky_relu", nn.ELU: "elu",
    **{getattr(functional, name): name for name in ACTIVATIONS},
    functional.relu_: "relu", torch.relu: "relu", torch.relu_: "relu", torch.tanh: "tanh",
    torch.sigmoid: "sigmoid", "relu": "relu", "relu_": "relu", "tanh": "tanh", "sigmoid": "sigmoid",
}
_KINDS: dict[Any, str] = {
    **dict.fromkeys(_ACTIVATIONS, "activation"),
    nn.Linear: "linear", nn.Dropout: "dropout", functional.dropout: "dropout",
    nn.Flatten: "shape", nn.Identity: "shape", torch.flatten: "shape", torch.reshape: "shape",
    torch.squeeze: "shape",
    **dict.fromkeys(("flatten", "view", "reshape", "squeeze", "contiguous"), "shape"),
    **dict.fromkeys(("size", "dim", getattr, operator.getitem, operator.mul), "size"),
}


def chain_of(flat: FlatModule, inputs: Any) -> Chain | None:
    """The chain, where the module is one on these samples (n, ...), else None.

    Every layer must have a weight and a bias of its own, all trained, in the order of the layers:
    then a point holds them one after another. The graph is read by `torch.fx`, for few samples and
    for many, and the chain is tried beside the module on the samples.
    """
    if not isinstance(inputs, torch.Tensor) or not inputs.is_floating_point():
        return None
    module = flat.module
    # spectral_norm is one
    if any(
        m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in module.modules()
    ):
        return None
    if any(not p.requires_grad for p in module.parameters()):
        return None
    found = [_passed(module, count) for count in (2, MANY)]
    if found[0] is None or found[0] != found[1]:
        return None
    layers, drops, activations = found[0]
    if flat.names != [
        f"{name}.{kind}" if name else kind for name in layers for kind in ("weight", "bias")
    ]:
        return None
    widths = (flat.shapes[0][1], *(shape[0] for shape in flat.shapes[::2]))
    if widths[0] != prod(inputs.shape[1:]) or tuple(share for _, share in drops) != flat.dropout:
        return None
    chain = Chain(widths, drops, activations)
    return chain if _is_the_chain(chain, flat, inputs) else None


class _Sized(fx.Proxy):
    """A value that says how many samples it has: x.view(len(x), -1)."""

    def __len__(self) -> int:
        return self.tracer.samples


class _Tracer(fx.Tracer):
    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = samples

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Sized(node, self)


class _Passed(NamedTuple):
    layers: list[str]
    drops: tuple[tuple[int, float], ...]
    activations: tuple[Activation, ...]


def _passed(module: nn.Module, samples: int) -> _Passed | None:
    """The names of the linear layers in the order in which they are passed, and what is between;
    None where it is anything else."""
    if type(module) is nn.Linear:
        return _Passed([""], (), ())
    try:
        graph = _Tracer(samples).trace(module)
    except Exception:  # a forward pass that asks for values
        return None
    parts = dict(module.named_modules())
    layers: list[str] = []
    drops: list[tuple[int, float]] = []
    between: list[Activation] = []
    last, dropped = None, False  # dropped: since the last layer, and with no activation yet
    for node in graph.nodes:
        if node.op == "placeholder" and last is None:
            last = node
            continue
        if node.op == "output":
            whole = (
                node.args[0] is last and len(layers) == len(between) + 1
                and all(place < len(layers) for place, _ in drops)
            )
            return _Passed(layers, tuple(drops), tuple(between)) if whole else None
        kind = _KINDS.get(_written(node, parts))
        if kind == "size":
            continue
        if (
            kind is None or not node.args or node.args[0] is not last
            or (kind == "shape" and layers)
        ):
            return None
        if kind == "linear" and len(layers) == len(between):
            layers, dropped = [*layers, str(node.target)], False
        elif kind == "dropout":
            share = _share(node, parts)
            if share is None:
                return None
            if share > 0:
                drops, dropped = [*drops, (len(layers), share)], len(layers) > len(between)
        elif kind == "activation" and len(layers) == len(between) + 1:
            activation = _activation(node, parts)
            # the maximum with 0 of a multiple is a multiple of it
            if activation is None or (dropped and activation[0] != "relu"):
                return None
            between.append(activation)
        elif kind != "shape":
            return None
        last = node
    return None


def _written(node: fx.Node, parts: dict[str, nn.Module]) -> Any:
    """How an operation is written: the class of its module, its function, or its method's name."""
    if node.op == "call_module":
        return type(parts[str(node.target)])
    return None if node.op == "get_attr" else node.target


def _given(node: fx.Node, options: dict[str, Any], others: tuple[str, ...] = ()) -> dict[str, Any]:
    """The options of a function's call, given by default in the order of its arguments."""
    return options | dict(zip((*options, *others), node.args[1:], strict=False)) | node.kwargs


def _activation(node: fx.Node, parts: dict[str, nn.Module]) -> Activation | None:
    """The activation with its parameter; None where it has options that are not known here."""
    name = _ACTIVATIONS[_written(node, parts)]
    option, default = _PARAMETERS.get(name, ("", 0.0))
    if node.op == "call_module":
        part = parts[str(node.target)]
        plain = getattr(part, "approximate", "none") == "none"
        return (name, float(getattr(part, option)) if option else 0.0) if plain else None
    if node.op == "call_method":
        return name, 0.0
    given = _given(node, {option: default}, ("inplace",))
    if set(given) - {option, "inplace", "input"} or not isinstance(given[option], int | float):
        return None
    return name, float(given[option]) if option else 0.0


def _share(node: fx.Node, parts: dict[str, nn.Module]) -> float | None:
    """Return the share that a dropout drops, 0 where it is off; None where it is no number yet."""
    if node.op == "call_module":
        part = parts[str(node.target)]
        return float(part.p) if part.training else 0.0
    p, training = map(_given(node, {"p": 0.5, "training": True}).get, ("p", "training"))
    if not isinstance(p, int | float) or not isinstance(training, bool):
        return None
    return float(p) if training else 0.0


def _is_the_chain(chain: Chain, flat: FlatModule, inputs: Tensor) -> bool:
    point = flat.initial()
    pieces = list(flat.views(point).values())
    with torch.no_grad():
        try:
            wanted = flat.call(point, inputs)
        except Exception:  # which `check_model` tells
            return False
        h = functional.linear(inputs.reshape(len(inputs), -1), pieces[0], pieces[1])
        for n, activation in enumerate(chain.activations, start=1):
            h = functional.linear(activated(h, activation), pieces[2 * n], pieces[2 * n + 1])
    return (
        isinstance(wanted, torch.Tensor) and wanted.shape == h.shape
        and torch.allclose(wanted, h, rtol=1e-4, atol=1e-6)
    )
