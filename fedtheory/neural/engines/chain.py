"""Whether a module, however its forward pass is written, is a chain of linear layers with ReLUs between them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from fedtheory.neural.flat import FlatModule

__all__ = ["chain_widths"]

_RELUS = (functional.relu, torch.relu, torch.relu_, nn.functional.relu_)
_SHAPES = (torch.flatten, torch.reshape, torch.squeeze)
_METHODS = ("flatten", "view", "reshape", "squeeze", "contiguous")


def chain_widths(flat: FlatModule, inputs: Any) -> tuple[int, ...] | None:
    """(inputs, units of each layer...) where the module is such a chain on these samples (n, ...), else None.

    Every layer must have a weight and a bias of its own, all trained, in the order of the layers: then a point holds them one after
    another. The graph is read by `torch.fx`, and the chain is tried beside the module on the samples.
    """
    if not isinstance(inputs, torch.Tensor) or not inputs.is_floating_point():
        return None
    module = flat.module
    if any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in module.modules()):  # spectral_norm is one
        return None
    if any(not p.requires_grad for p in module.parameters()):
        return None
    layers = _linear_layers(module)
    if not layers or flat.names != [f"{name}.{kind}" if name else kind for name in layers for kind in ("weight", "bias")]:
        return None
    widths = (flat.shapes[0][1], *(shape[0] for shape in flat.shapes[::2]))
    if widths[0] != prod(inputs.shape[1:]):
        return None
    return widths if _is_the_chain(flat, inputs) else None


def _linear_layers(module: nn.Module) -> list[str] | None:
    """The names of the linear layers in the order in which they are passed, where nothing but ReLUs comes between."""
    try:
        graph = fx.symbolic_trace(module).graph if type(module) is not nn.Linear else None
    except Exception:  # a forward pass that asks for values
        return None
    if graph is None:
        return [""]
    parts = dict(module.named_modules())
    layers: list[str] = []
    last, relu = None, True
    for node in graph.nodes:
        if node.op == "placeholder" and last is None:
            last = node
            continue
        if node.op == "output":
            return layers if node.args[0] is last and not relu else None
        kind = _kind(node, parts)
        if kind == "size":
            continue
        if kind is None or not node.args or node.args[0] is not last or (kind == "shape" and layers):
            return None
        if kind == "linear" and relu:
            layers, relu = [*layers, str(node.target)], False
        elif kind == "relu" and not relu and layers:
            relu = True
        elif kind != "shape":
            return None
        last = node
    return None


def _kind(node: fx.Node, parts: dict[str, nn.Module]) -> str | None:
    if node.op == "call_module":
        part = parts[str(node.target)]
        if type(part) is nn.Linear:
            return "linear"
        return "relu" if type(part) is nn.ReLU else "shape" if type(part) in (nn.Flatten, nn.Identity) else None
    if node.op == "call_method":
        if node.target in ("size", "dim"):
            return "size"
        return "relu" if node.target in ("relu", "relu_") else "shape" if node.target in _METHODS else None
    if node.op == "call_function":
        if getattr(node.target, "__name__", "") in ("getattr", "getitem", "mul"):
            return "size"
        return "relu" if node.target in _RELUS else "shape" if node.target in _SHAPES else None
    return None


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
