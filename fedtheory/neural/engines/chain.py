"""Whether a module, however its forward pass is written, is a chain of linear layers with ReLUs, and dropout, between them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import fx, nn
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from fedtheory.neural.flat import FlatModule

__all__ = ["Chain", "chain_of"]

MANY = 10**6  # samples, for a forward pass that asks how many there are
_RELUS = (functional.relu, torch.relu, torch.relu_, nn.functional.relu_)
_SHAPES = (torch.flatten, torch.reshape, torch.squeeze)
_METHODS = ("flatten", "view", "reshape", "squeeze", "contiguous")


class Chain(NamedTuple):
    """A chain of linear layers.

    Attributes
    ----------
    widths : the inputs' entries, and the units of each layer
    drops : (layer, share) of each dropout, in order
        Of what enters the layer of that number: 0, the inputs.
    """

    widths: tuple[int, ...]
    drops: tuple[tuple[int, float], ...] = ()


def chain_of(flat: FlatModule, inputs: Any) -> Chain | None:
    """The chain, where the module is one on these samples (n, ...), else None.

    Every layer must have a weight and a bias of its own, all trained, in the order of the layers: then a point holds them one after
    another. The graph is read by `torch.fx`, for few samples and for many, and the chain is tried beside the module on the samples.
    """
    if not isinstance(inputs, torch.Tensor) or not inputs.is_floating_point():
        return None
    module = flat.module
    if any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in module.modules()):  # spectral_norm is one
        return None
    if any(not p.requires_grad for p in module.parameters()):
        return None
    found = [_passed(module, count) for count in (2, MANY)]
    if found[0] is None or found[0] != found[1]:
        return None
    layers, drops = found[0]
    if flat.names != [f"{name}.{kind}" if name else kind for name in layers for kind in ("weight", "bias")]:
        return None
    widths = (flat.shapes[0][1], *(shape[0] for shape in flat.shapes[::2]))
    if widths[0] != prod(inputs.shape[1:]) or tuple(share for _, share in drops) != flat.dropout:
        return None
    return Chain(widths, drops) if _is_the_chain(flat, inputs) else None


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


def _passed(module: nn.Module, samples: int) -> tuple[list[str], tuple[tuple[int, float], ...]] | None:
    """The names of the linear layers in the order in which they are passed, and the dropouts; None where anything else but ReLUs is."""
    if type(module) is nn.Linear:
        return [""], ()
    try:
        graph = _Tracer(samples).trace(module)
    except Exception:  # a forward pass that asks for values
        return None
    parts = dict(module.named_modules())
    layers: list[str] = []
    drops: list[tuple[int, float]] = []
    last, relu = None, True
    for node in graph.nodes:
        if node.op == "placeholder" and last is None:
            last = node
            continue
        if node.op == "output":
            whole = node.args[0] is last and not relu and all(place < len(layers) for place, _ in drops)
            return (layers, tuple(drops)) if whole else None
        kind = _kind(node, parts)
        if kind == "size":
            continue
        if kind is None or not node.args or node.args[0] is not last or (kind == "shape" and layers):
            return None
        if kind == "linear" and relu:
            layers, relu = [*layers, str(node.target)], False
        elif kind == "relu" and not relu and layers:
            relu = True
        elif kind == "dropout":
            share = _share(node, parts)
            if share is None:
                return None
            drops += [(len(layers), share)] if share > 0 else []
        elif kind != "shape":
            return None
        last = node
    return None


def _kind(node: fx.Node, parts: dict[str, nn.Module]) -> str | None:
    if node.op == "call_module":
        kinds = {nn.Linear: "linear", nn.ReLU: "relu", nn.Dropout: "dropout", nn.Flatten: "shape", nn.Identity: "shape"}
        return kinds.get(type(parts[str(node.target)]))
    if node.op == "call_method":
        if node.target in ("size", "dim"):
            return "size"
        return "relu" if node.target in ("relu", "relu_") else "shape" if node.target in _METHODS else None
    if node.op == "call_function":
        if getattr(node.target, "__name__", "") in ("getattr", "getitem", "mul"):
            return "size"
        if node.target is functional.dropout:
            return "dropout"
        return "relu" if node.target in _RELUS else "shape" if node.target in _SHAPES else None
    return None


def _share(node: fx.Node, parts: dict[str, nn.Module]) -> float | None:
    """What a dropout drops, 0 where it is turned off; None where it is no number yet."""
    if node.op == "call_module":
        part = parts[str(node.target)]
        return float(part.p) if part.training else 0.0
    given = {"p": 0.5, "training": True} | dict(zip(("p", "training"), node.args[1:], strict=False)) | node.kwargs
    p, training = given["p"], given["training"]
    if not isinstance(p, int | float) or not isinstance(training, bool):
        return None
    return float(p) if training else 0.0


def _is_the_chain(flat: FlatModule, inputs: Tensor) -> bool:
    point = flat.initial()
    pieces = list(flat.views(point).values())
    with torch.no_grad():
        try:
            wanted = flat.call(point, inputs)
        except Exception:  # which `check_model` tells
            return False
        h = inputs.reshape(len(inputs), -1)
        for n in range(0, len(pieces), 2):
            h = functional.linear(h.relu() if n else h, pieces[n], pieces[n + 1])
    return isinstance(wanted, torch.Tensor) and wanted.shape == h.shape and torch.allclose(wanted, h, rtol=1e-4, atol=1e-6)
