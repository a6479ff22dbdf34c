"""Networks of linear layers and ReLUs by hand: one batched matrix product a layer for all models, updated in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from fedtheory.neural.engines.base import Engine, shares
from fedtheory.neural.flat import FlatModule
from fedtheory.neural.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Dense"]


class Dense(Engine):
    """`nn.Sequential` of Flatten, Linear and ReLU (between the linear layers), with the cross entropy.

    A step makes three batched products a layer and no copy of a gradient: the product of the backward pass is added to the weights.
    """

    name = "dense"

    def __init__(self, flat: FlatModule, loss: Loss) -> None:
        super().__init__(flat, loss)
        self._layers = _pieces(flat)
        self.widths = (self._layers[0][-1], *(outputs for *_, outputs, _ in self._layers))
        self._minus: Tensor | None = None

    @staticmethod
    def fits(flat: FlatModule, loss: Loss, inputs: Tensor, targets: Tensor) -> bool:
        """Whether the module and the loss are of this kind, and the samples flat, of one label each, once they are in.

        Only the modules' forward passes as torch has them, and each layer's own weights and bias: not what is shared between layers.
        """
        module = flat.module
        if any(not p.requires_grad for p in module.parameters()) or targets.ndim != 1 or targets.is_floating_point():
            return False
        if not inputs.is_floating_point():
            return False
        if loss.name != "cross_entropy" or not loss.weighted or not isinstance(module, nn.Sequential):
            return False
        if getattr(module.forward, "__func__", None) is not nn.Sequential.forward:
            return False
        if any(m._forward_hooks or m._forward_pre_hooks for m in module.modules()):  # old-style spectral_norm is one
            return False
        parts = [p for p in module if not isinstance(p, nn.Flatten)]
        own = [f"{n}.{kind}" for n, m in module._modules.items() if isinstance(m, nn.Linear) for kind in ("weight", "bias")]
        kinds = [nn.Linear if n % 2 == 0 else nn.ReLU for n in range(len(parts))]
        return (
            len(parts) % 2 == 1
            and all(type(p) is k for p, k in zip(parts, kinds, strict=True))
            and flat.names == own
            and all(n == 0 and (m.start_dim, m.end_dim) == (1, -1) for n, m in enumerate(module) if isinstance(m, nn.Flatten))
            and (inputs.ndim == 2 or isinstance(module[0], nn.Flatten))
        )

    def bind(self, params: Tensor) -> list[_Layer]:
        self.flat.check_width(params)
        out = []
        for a, b, c, outputs, inputs in self._layers:
            w = params[:, a:b].view(-1, outputs, inputs)
            out.append(_Layer(w, w.mT, params[:, None, b:c]))
        return out

    def _forward(self, layers: list[_Layer], inputs: Tensor) -> list[Tensor]:
        """What enters each layer, then the outputs."""
        h = inputs.reshape(*inputs.shape[:2], -1)
        kept = [h]
        for n, (_, transposed, b) in enumerate(layers):
            h = torch.baddbmm(b, h, transposed)
            if n + 1 < len(layers):
                h = h.relu_()
            kept.append(h)
        return kept

    def value(self, params: Tensor, inputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        logits = self._forward(self.bind(params), inputs)[-1]
        each = -torch.log_softmax(logits, dim=-1).gather(-1, targets[..., None])[..., 0]
        return each.mean(dim=1) if weights is None else (each * weights).sum(dim=1)

    def _backward(
        self, layers: list[_Layer], inputs: Tensor, targets: Tensor, weights: Tensor | None
    ) -> tuple[list[tuple[Tensor, Tensor]], float]:
        """(factor * d loss/d output of the layer, input of the layer), first layer first; and the factor."""
        *kept, logits = self._forward(layers, inputs)
        g = torch.softmax(logits, dim=-1)
        g.scatter_add_(-1, targets[..., None], self._minus_one(g).expand(*targets.shape, 1))
        factor = float(targets.shape[1])
        if weights is not None:
            g, factor = g.mul_(weights[..., None]), 1.0
        return self._back(layers, kept, g), factor

    def _back(self, layers: list[_Layer], kept: list[Tensor], g: Tensor) -> list[tuple[Tensor, Tensor]]:
        """(d value/d output of the layer, input of the layer), first layer first; g is that of the last one."""
        out = [(g, kept[-1])]
        for n in range(len(layers) - 1, 0, -1):
            g = torch.ops.aten.threshold_backward(torch.bmm(g, layers[n].weights), kept[n], 0.0)
            out.append((g, kept[n - 1]))
        return out[::-1]

    def _minus_one(self, like: Tensor) -> Tensor:
        if self._minus is None or self._minus.dtype != like.dtype:
            self._minus = like.new_full((1, 1, 1), -1.0)
        return self._minus

    def gradient(self, params: Tensor, inputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        pieces, factor = self._backward(self.bind(params), inputs, targets, weights)
        out = self._collect(pieces, params)
        return out.div_(factor) if factor != 1.0 else out

    def _collect(self, pieces: list[tuple[Tensor, Tensor]], params: Tensor) -> Tensor:
        """Gradients (R, d) from what `_back` returns."""
        out = torch.empty_like(params)
        for layer, (g, h) in zip(self.bind(out), pieces, strict=True):
            torch.bmm(g.mT, h, out=layer.weights)
            torch.sum(g, dim=1, keepdim=True, out=layer.bias)
        return out

    def output_gradient(self, params: Tensor, inputs: Tensor, counts: Tensor) -> Tensor:
        layers = self.bind(params)
        *kept, outputs = self._forward(layers, inputs)
        g = outputs.mul_(2 * shares(counts, inputs.shape[1], params)[..., None])
        return self._collect(self._back(layers, kept, g), params)

    def step(
        self,
        params: Tensor,
        inputs: Tensor,
        targets: Tensor,
        weights: Tensor | None,
        lr: float | Tensor,
        penalise: Callable[[], float],
        bound: list[_Layer] | None = None,
    ) -> None:
        layers = self.bind(params) if bound is None else bound
        pieces, factor = self._backward(layers, inputs, targets, weights)
        beta = penalise()
        if not isinstance(lr, float):
            pieces, lr = [(g * lr[..., None], h) for g, h in pieces], 1.0
        one = (-self._minus_one(params)).expand(len(params), 1, inputs.shape[1])
        for layer, (g, h) in zip(layers, pieces, strict=True):
            layer.weights.baddbmm_(g.mT, h, beta=beta, alpha=-lr / factor)
            layer.bias.baddbmm_(one, g, beta=beta, alpha=-lr / factor)


class _Layer(NamedTuple):
    """One layer of all models: weights (R, o, i), transposed (R, i, o), bias (R, 1, o), all views of the parameters."""

    weights: Tensor
    transposed: Tensor
    bias: Tensor


def _pieces(flat: FlatModule) -> list[tuple[int, int, int, int, int]]:
    """(start of the weights, start of the bias, end, outputs, inputs) of each linear layer."""
    out = []
    for n in range(0, len(flat.names), 2):
        o, i = flat.shapes[n]
        out.append((flat.offsets[n], flat.offsets[n + 1], flat.offsets[n + 2], o, i))
    return out
