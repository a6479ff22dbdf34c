"""Dropout whose masks follow from a key: the same for whoever computes them, in whatever order, on
whatever device.

torch's dropout takes numbers from a stream, so that a mask depends on all that was drawn before.
Here entry i of the mask of the n-th dropout of a forward pass is a hash of (key, n, i), and the key
is a client's at a local step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from fedtheory.compiled import available, njit
from fedtheory.errors import InvalidInput, MissingCapability

__all__ = [
    "KeyedDropout", "drawing_nothing", "factors", "least_of", "mixed", "number", "of_all", "step_of",
]

# Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: splitmix64,
# as 64-bit integers with a sign
GOLDEN, FIRST, SECOND = (c - 2**64 for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
BITS = 24  # of a uniform number, which decides about one entry
COMPILED = True  # on a CPU, with Numba: the same bits in one pass


def _mixed(z: Tensor) -> Tensor:
    """splitmix64's output function, entry by entry, of int64."""
    z = (z ^ _shifted(z, 30)) * FIRST
    z = (z ^ _shifted(z, 27)) * SECOND
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """z >> by with zeros coming in, as of numbers without a sign."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def factors(
    key: Tensor | int, occurrence: int, shape: tuple[int, ...], p: float, dtype: torch.dtype
) -> Tensor:
    """Draw the entries' factors: 1/(1 - p) where they are kept, which each is with probability
    1 - p (to 2^-24), else 0.

    Parameters
    ----------
    key : int64 () of one model, or, under vmap, of each; or `number` of it
    occurrence : the number of the dropout in the forward pass
    """
    if isinstance(key, int):  # which `number` makes of a key where Numba is, on a CPU
        return _filled(np.array([key % 2**64], dtype=np.uint64), occurrence, shape, p, dtype)[0]
    return _Factors.apply(key, occurrence, shape, p, dtype)


def number(key: Tensor) -> Tensor | int:
    """A key as a number where masks are compiled: its dropouts then need no operation of torch."""
    return int(key) if _is_compiled(key) else key


class _Factors(torch.autograd.Function):
    """Under vmap, those of all models at once."""

    @staticmethod
    def forward(key: Tensor, occurrence: int, shape: tuple[int, ...], p: float, dtype: torch.dtype) -> Tensor:
        return of_all(key[None], occurrence, shape, p, dtype)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(info: Any, in_dims: Any, key: Tensor, occurrence: int, shape: tuple[int, ...], p: float, dtype: torch.dtype) -> Any:
        return of_all(key, occurrence, shape, p, dtype), 0


def of_all(keys: Tensor, occurrence: int, shape: tuple[int, ...], p: float, dtype: torch.dtype) -> Tensor:
    """`factors` of keys (R,): (R, *shape)."""
    if _is_compiled(keys):
        return _filled(keys.numpy().view(np.uint64), occurrence, shape, p, dtype)
    streams = _mixed(keys + (step_of(occurrence) + 2**63) % 2**64 - 2**63)
    index = torch.arange(1, math.prod(shape) + 1, device=keys.device)
    upper = _shifted(_mixed(streams[:, None] + index * GOLDEN), 64 - BITS)
    mask = (upper >= least_of(p)).to(dtype).reshape(len(keys), *shape)
    return mask / (1 - p) if p < 1 else mask


def _filled(
    keys: np.ndarray, occurrence: int, shape: tuple[int, ...], p: float, dtype: torch.dtype
) -> Tensor:
    """`of_all` of keys (R,) by compiled code."""
    out = torch.empty((len(keys), *shape), dtype=dtype if dtype == torch.float64 else torch.float32)
    entries = out.view(len(keys), math.prod(shape)).numpy()
    kind = entries.dtype.type
    scale = kind(1) / kind(1 - p) if p < 1 else kind(1)
    _fill(keys, np.uint64(step_of(occurrence)), np.uint64(least_of(p)), scale, entries)
    return out.to(dtype)


def step_of(occurrence: int) -> int:
    """Return what is added to a key for the n-th dropout of a forward pass, of 64 bits."""
    return (occurrence + 1) * GOLDEN % 2**64


def least_of(p: float) -> int:
    """The upper bits of what is kept are no less."""
    return round(p * 2**BITS)


def _is_compiled(keys: Tensor) -> bool:
    return COMPILED and keys.device.type == "cpu" and available()


@njit(cache=True, nogil=True, inline="always")
def mixed(state: np.uint64) -> np.uint64:
    """splitmix64's output for a state."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def _fill(keys: np.ndarray, step: np.uint64, least: np.uint64, scale: float, out: np.ndarray) -> None:
    """out (R, n): the scale where the upper 24 bits of splitmix64's outputs 1 to n of each row's
    stream are >= least, else 0."""
    zero = out.dtype.type(0)
    for r in range(out.shape[0]):
        row, state = out[r], mixed(keys[r] + step)
        for i in range(out.shape[1]):
            state += np.uint64(0x9E3779B97F4A7C15)
            row[i] = scale if (mixed(state) >> np.uint64(40)) >= least else zero


class KeyedDropout(TorchFunctionMode):
    """While it is entered, dropout follows the key, wherever a module calls it: nn.Dropout, functional.dropout, attention's.

    Parameters
    ----------
    key : int64 (), `number` of it, or None
        None: nothing is dropped.

    Attributes
    ----------
    shares : list of float
        p of every dropout that was met, in order.

    Other random numbers, those of alpha dropout and of recurrent layers among them, are left to
    `drawing_nothing`.
    """

    def __init__(self, key: Tensor | int | None = None) -> None:
        super().__init__()
        self._key = key
        self.shares: list[float] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        mine = _HANDLED.get(function)
        if mine is not None:
            return mine(self, *args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))

    def _entries(self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, axes: int | None = None) -> Tensor:
        """x with entries set to zero, or, with `axes`, whole slices behind the first `axes`, and
        the others divided by 1 - p."""
        if not training or p == 0:
            return x
        if not 0 < p <= 1:
            raise InvalidInput(f"dropout with p = {p!r}: it is a probability, in [0, 1]")
        occurrence = len(self.shares)
        self.shares.append(float(p))
        if self._key is None:
            return x
        shape = tuple(x.shape) if axes is None else (*x.shape[:axes], *(1,) * (x.ndim - axes))
        factor = factors(self._key, occurrence, shape, p, x.dtype)
        return x.mul_(factor) if inplace else x * factor

    def _slices(self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, batched: int) -> Tensor:
        """Whole channels of (b, c, ...), or of (c, ...) where there is no batch."""
        return self._entries(x, p, training, inplace, 2 if x.ndim >= batched else 1)

    def _attention(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if dropout_p == 0 or enable_gqa:
            given = (query, key, value, attn_mask, dropout_p, is_causal)
            return functional.scaled_dot_product_attention(*given, scale=scale, enable_gqa=enable_gqa)
        score = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(score.shape[-2:], dtype=torch.bool, device=score.device).tril()
        if attn_mask is not None:
            score = score.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else score + attn_mask
        return self._entries(score.softmax(dim=-1), dropout_p) @ value

    def _heads(self, *args: Any, **kwargs: Any) -> Any:
        """torch's function, its calls of dropout and of attention being those of here."""
        own = {
            "has_torch_function": lambda _: False,
            "dropout": self._entries,
            "scaled_dot_product_attention": self._attention,
        }
        whole = functional.multi_head_attention_forward
        inner = FunctionType(whole.__code__, whole.__globals__ | own, whole.__name__, whole.__defaults__, whole.__closure__)
        inner.__kwdefaults__ = whole.__kwdefaults__
        return inner(*args, **kwargs)


_HANDLED: dict[Any, Callable[..., Any]] = {
    functional.dropout: KeyedDropout._entries,
    functional.dropout1d: lambda self, *args, **kwargs: self._slices(*args, **kwargs, batched=3),
    functional.dropout2d: lambda self, *args, **kwargs: self._slices(*args, **kwargs, batched=3),  # (b, c, length) is taken as well
    functional.dropout3d: lambda self, *args, **kwargs: self._slices(*args, **kwargs, batched=5),
    functional.scaled_dot_product_attention: KeyedDropout._attention,
    functional.multi_head_attention_forward: KeyedDropout._heads,
}


@contextmanager
def drawing_nothing(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Raise `MissingCapability` where what is done inside takes numbers from torch's generator of this device."""

    def state() -> Tensor:
        return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()

    before = state()
    yield
    if not torch.equal(before, state()):
        raise MissingCapability(
            f"a forward pass of {type(module).__name__} draws at random, so that its loss is no "
            "function of the parameters and a run could not be repeated: leave that out (dropout= of "
            "a recurrent layer, alpha dropout...), turn it off with .eval(), or use nn.Dropout, whose "
            "masks follow from keys"
        )
