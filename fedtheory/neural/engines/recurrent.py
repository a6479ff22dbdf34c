"""Recurrent layers of several models at once: one batched product a layer for the inputs, and one a
time step for the state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedtheory.neural.fused import fused

__all__ = ["recurrent"]


def recurrent(
    mode: str, x: Tensor, h: Tensor | None, c: Tensor | None, weights: list[Tensor], layers: int,
    directions: int, biased: bool,
) -> tuple[Tensor, ...]:
    """Run `torch.nn.LSTM`, `GRU` or `RNN` on x (R, T, b, i), with the weights of R models.

    Returns outputs (R, T, b, H'), the last h (R, L', b, H), and the last c of an LSTM.

    Parameters
    ----------
    mode : 'LSTM', 'GRU', 'RNN_TANH' or 'RNN_RELU'
    h, c : (R, L', b, H) or None
        First states, None for zeros; L' = layers times directions.
    weights : of each layer and direction w_ih (R, G, i), w_hh (R, G, H) and, where biased, b_ih and
        b_hh (R, G), as torch has them
    """
    per = 4 if biased else 2
    last: tuple[list[Tensor], list[Tensor]] = ([], [])
    for layer in range(layers):
        found = []
        for way in range(directions):
            at = layer * directions + way
            own = weights[per * at : per * (at + 1)]
            start = tuple(None if s is None else s[:, at] for s in (h, c))
            out, *ends = _one_layer(mode, x.flip(1) if way else x, start, *own)
            found.append(out.flip(1) if way else out)
            for kept, end in zip(last, ends, strict=False):
                kept.append(end)
        x = found[0] if directions == 1 else torch.cat(found, dim=-1)
    return (x, *(torch.stack(kept, dim=1) for kept in last if kept))


def _one_layer(
    mode: str, x: Tensor, start: tuple[Any, ...], w_x: Tensor, w_h: Tensor,
    b_x: Tensor | None = None, b_h: Tensor | None = None,
) -> tuple[Tensor, ...]:
    count, times, b, width = x.shape
    h = x.new_zeros(count, b, w_h.shape[-1]) if start[0] is None else start[0]
    gru = mode == "GRU"
    # a GRU's new gate takes its own within the product
    bias = b_x if gru or b_x is None or b_h is None else b_x + b_h
    flat = x.reshape(count, times * b, width)
    gates = torch.bmm(flat, w_x.mT) if bias is None else torch.baddbmm(bias[:, None], flat, w_x.mT)
    gates = gates.reshape(count, times, b, -1)
    if mode == "LSTM":
        c = torch.zeros_like(h) if start[1] is None else start[1]
        return _Lstm.apply(gates, w_h, h, c)
    outputs = []
    for t in range(times):
        h = _gru(gates[:, t], h, w_h, b_h) if gru else _plain(gates[:, t], h, w_h, mode)
        outputs.append(h)
    return torch.stack(outputs, dim=1), h


def _gru(gates: Tensor, h: Tensor, w_h: Tensor, b_h: Tensor | None) -> Tensor:
    own = torch.bmm(h, w_h.mT) if b_h is None else torch.baddbmm(b_h[:, None], h, w_h.mT)
    r_x, z_x, n_x = gates.chunk(3, dim=-1)
    r_h, z_h, n_h = own.chunk(3, dim=-1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    n = torch.tanh(n_x + r * n_h)
    return n + z * (h - n)


def _plain(gates: Tensor, h: Tensor, w_h: Tensor, mode: str) -> Tensor:
    z = torch.baddbmm(gates, h, w_h.mT)
    return torch.tanh(z) if mode == "RNN_TANH" else torch.relu(z)


@fused
def _cell(z: Tensor, before: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """From z (R, b, 4H) and the cell before: gates i, f, g, o together, cell, its tanh, and
    state."""
    width = z.shape[-1] // 4
    made = torch.sigmoid(z)
    made[..., 2 * width : 3 * width] = torch.tanh(z[..., 2 * width : 3 * width])
    i, f, g, o = made.split(width, dim=-1)
    cell = torch.addcmul(f * before, i, g)
    squashed = torch.tanh(cell)
    return made, cell, squashed, o * squashed


@fused
def _cell_back(made: Tensor, squashed: Tensor, before: Tensor, g_h: Tensor, g_c: Tensor) -> tuple[
    Tensor, Tensor
]:
    """From the gradients in the state and in the cell: that in z, and that in the cell before."""
    i, f, g, o = made.split(g_h.shape[-1], dim=-1)
    g_c = torch.addcmul(g_c, g_h * o, 1 - squashed * squashed)
    inner = torch.cat([g_c * g, g_c * before, g_c * i, g_h * squashed], dim=-1)
    slope = made * (1 - made)
    slope[..., 2 * g_h.shape[-1] : 3 * g_h.shape[-1]] = 1 - g * g
    return inner * slope, g_c * f


class _Lstm(torch.autograd.Function):
    """Gates before their nonlinearities from the inputs (R, T, b, 4H), w_h (R, 4H, H), h and c (R,
    b, H) -> all h, the last h and c.

    i, f, g, o as torch orders them: c <- f c + i g, h <- o tanh(c).
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, w_h: Tensor, h: Tensor, c: Tensor) -> tuple[
        Tensor, Tensor, Tensor
    ]:
        turned, state, cell = w_h.mT, h, c
        steps = []
        for z in gates.unbind(dim=1):
            made, cell, squashed, state = _cell(torch.baddbmm(z, state, turned), cell)
            steps.append((made, state, cell, squashed))
        kept = [tensor for part in zip(*steps, strict=True) for tensor in part]
        states = kept[len(steps) : 2 * len(steps)]
        ctx.save_for_backward(w_h, h, c, *kept)
        return torch.stack(states, dim=1), state.clone(), cell.clone()

    @staticmethod
    def backward(ctx: Any, g_all: Tensor, g_h: Tensor, g_c: Tensor) -> tuple[
        Tensor, Tensor, Tensor, Tensor
    ]:
        w_h, h, c, *kept = ctx.saved_tensors
        times = len(kept) // 4
        made, states, cells, squashed = (kept[n * times : (n + 1) * times] for n in range(4))
        back = []
        for t in range(times - 1, -1, -1):
            now, g_c = _cell_back(
                made[t], squashed[t], cells[t - 1] if t else c, g_h + g_all[:, t], g_c
            )
            g_h = torch.bmm(now, w_h)
            back.append(now)
        slopes = torch.stack(back[::-1], dim=1)
        earlier = torch.stack([h, *states[:-1]], dim=1).flatten(1, 2)
        return slopes, torch.bmm(slopes.flatten(1, 2).mT, earlier), g_h, g_c
