"""Recurrent layers of several models at once, for which `torch.func.vmap` has no rule: one batched
product a layer for the inputs, and one a time step for the state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["recurrent"]

FUSED = ("cuda",)  # devices on which torch has one kernel for an LSTM's cell, and one for its gradient
_FUSED_CELL = torch.ops.aten._thnn_fused_lstm_cell


def recurrent(
    layer: Any, x: Tensor, states: tuple[Tensor, ...], weights: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Run `torch.nn.LSTM`, `GRU` or `RNN` on x (R, T, b, i), with the weights of R models.

    Returns outputs (R, T, b, H'), the last h (R, L', b, H), and the last c of an LSTM.

    Parameters
    ----------
    states : first h and, of an LSTM, c (R, L', b, H)
        L' = layers times directions.
    weights : of each layer and direction w_ih (R, G, i), w_hh (R, G, H) and, where the layer has
        biases, b_ih and b_hh (R, G), as torch has them
    """
    directions, per, last = 2 if layer.bidirectional else 1, 4 if layer.bias else 2, []
    for first in range(0, layer.num_layers * directions, directions):
        found = []
        for at in range(first, first + directions):
            turned = at > first
            h = tuple(s[:, at] for s in states)
            own = weights[per * at : per * (at + 1)]
            out, h = _one_layer(layer.mode, x.flip(1) if turned else x, h, *own)
            found.append(out.flip(1) if turned else out)
            last.append(h)
        x = torch.cat(found, dim=-1)
    return (x, *(torch.stack(ends, dim=1) for ends in zip(*last, strict=True)))


def _one_layer(
    mode: str, x: Tensor, state: tuple[Tensor, ...], w_x: Tensor, w_h: Tensor,
    b_x: Tensor | None = None, b_h: Tensor | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    # a GRU's new gate takes its own bias within the product
    bias = b_x if mode == "GRU" or b_x is None or b_h is None else b_x + b_h
    gates = _product(x.flatten(1, 2), w_x, bias).unflatten(1, x.shape[1:3])
    outputs = []
    for z in gates.unbind(dim=1):
        if mode == "LSTM":
            state = _lstm(z, w_h, *state)
        elif mode == "GRU":
            state = (_gru(z, _product(state[0], w_h, b_h), *state),)
        else:
            z = torch.baddbmm(z, state[0], w_h.mT)
            state = (torch.tanh(z) if mode == "RNN_TANH" else torch.relu(z),)
        outputs.append(state[0])
    return torch.stack(outputs, dim=1), state


def _product(x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    return torch.bmm(x, w.mT) if bias is None else torch.baddbmm(bias[:, None], x, w.mT)


def _lstm(z: Tensor, w_h: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """i, f, g, o as torch orders them: c <- f c + i g, h <- o tanh(c)."""
    if z.device.type in FUSED:
        flat = (part.flatten(0, 1) for part in (z, torch.bmm(h, w_h.mT), c))
        h, cell, _ = _FUSED_CELL(*flat)
        return h.view_as(c), cell.view_as(c)
    z = torch.baddbmm(z, h, w_h.mT)
    g = torch.tanh(z.chunk(4, dim=-1)[2])
    i, f, _, o = torch.sigmoid(z).chunk(4, dim=-1)  # in one pass, of which a quarter is not used
    c = torch.addcmul(f * c, i, g)
    return o * torch.tanh(c), c


def _gru(z: Tensor, own: Tensor, h: Tensor) -> Tensor:
    (r_x, z_x, n_x), (r_h, z_h, n_h) = z.chunk(3, dim=-1), own.chunk(3, dim=-1)
    r, update = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    n = torch.tanh(n_x + r * n_h)
    return n + update * (h - n)
