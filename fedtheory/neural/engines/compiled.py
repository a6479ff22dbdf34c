"""Whole walks of small fully connected networks on a CPU, compiled: one model after the other,
which stays in its core's cache.

On batches of ten or so a step costs what it takes to move the weights, several times over when
products, penalty and update are passes of their own. Here the product that is the gradient is added
to the weights as it is made. `Stacked` makes the same steps by batched products; the two agree to
rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from ctypes import CDLL, c_char_p
from functools import cache
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from fedtheory.compiled import available, njit
from fedtheory.neural.dropout import least_of, mixed, step_of
from fedtheory.neural.engines.base import Engine
from fedtheory.neural.engines.chain import ACTIVATIONS, Chain
from fedtheory.neural.engines.kernels import (
    LossTerms,
    activate,
    loss_terms,
    move_clipped,
    pulled,
    shrink,
    slope_of_classes,
    slope_of_values,
)
from fedtheory.neural.losses import Slope
from fedtheory.plain_progress import Lines

if available():
    from fedtheory.neural.engines import products
    from fedtheory.neural.engines.products import Tiles, add_turned, along, back_through

__all__ = ["TAKEN", "Compiling", "PenaltyTerms", "fits", "one_blas_thread", "tiles", "walk_rows"]

TAKEN = True  # whether steps are compiled where they can be
AT_ONCE = 4096  # samples between two looks at whether to stop
# OpenBLAS's kernels with products that copy nothing; the last two have those of the first
_AVX512 = ("SkylakeX", "Cooperlake", "SapphireRapids")
_FAST = {"nsz"}  # nothing fused: see `fedtheory.neural.engines.kernels`


class PenaltyTerms(NamedTuple):
    """The terms that the penalty adds to every step, in the model's dtype.

    The arrays are those of R rows, or of one, without R.

    Attributes
    ----------
    pull, anchor : (R, d), or (R, 0) where there is none
        The constant part of minus the gradient, and the centre of the l1 norm.
    slopes : (2,)
        The curvature that is clipped with the gradient, and that which is not.
    l1 : the l1 norm's factor
    prox : bool
        Whether its proximal map is taken after a step, not its subgradient with it.
    clip : the limit of a gradient's norm, 0 where there is none
    """

    pull: np.ndarray
    anchor: np.ndarray
    slopes: np.ndarray
    l1: float
    prox: bool
    clip: float


def fits(engine: Engine, device: str, curvature: Any) -> bool:
    """True if a walk on samples as they are is compiled here: where Numba is, on a CPU, of a chain
    of linear layers with a loss whose derivative is written below, one slope for all."""
    return (
        TAKEN and available() and device == "cpu" and getattr(engine, "chain", None) is not None
        and engine.loss.slope is not None and isinstance(curvature, float | int)
    )


@cache
def _controller() -> Any:
    from scipy.linalg import cython_blas  # noqa: F401  numba's products are this library's: it must be there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _kernels() -> str:
    """The kernels that SciPy's OpenBLAS runs here, with which Numba's products are linked; '' where
    it is another library. NumPy has an OpenBLAS of its own, and so have solvers (SCS)."""
    from scipy.linalg import cython_blas

    linked = CDLL(cython_blas.__file__)
    for name in ("scipy_openblas_get_corename", "openblas_get_corename"):
        if hasattr(linked, name):
            asked = linked[name]
            asked.restype = c_char_p
            return asked().decode()
    return ""


@cache
def tiles() -> Tiles:
    """Return the largest products for the kernels that SciPy's OpenBLAS runs here."""
    return products.UNCOPIED if _kernels() in _AVX512 else products.WHOLE


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Products of this size are slower in several threads, and the cores have models of their own
    to work on."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


class Compiling:
    """The wait for Numba, which compiles a walk at the first call of its kind in a process, or
    reads it from its cache.

    Attributes
    ----------
    shown : bool
        Whether lines on the error stream tell of a wait of more than two seconds.
    """

    def __init__(self) -> None:
        self.shown, self._seconds = False, 0.0

    def first(self, kind: Any, call: Callable[[], None]) -> None:
        """Make the call, which compiles what there is of the kind, unless one was made in this
        process."""
        if kind in _COMPILED:
            return
        began = time.perf_counter()
        with Lines("compiling the steps of small networks, once") if self.shown else nullcontext():
            call()
        _COMPILED.add(kind)
        self._seconds += time.perf_counter() - began

    def taken(self) -> float:
        """Seconds waited since this was last asked."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


_COMPILED: set[Any] = set()  # dtypes whose walk this process has


class _Samples(NamedTuple):
    """All samples; of the targets one kind is empty.

    Attributes
    ----------
    inputs : (n, entries)
    labels : (n,), of a cross entropy
    values : (n, outputs), of any other loss
    """

    inputs: np.ndarray
    labels: np.ndarray
    values: np.ndarray


class _Layers(NamedTuple):
    """`fedtheory.neural.engines.chain.Chain`, as the compiled steps take it.

    Attributes
    ----------
    widths : the inputs' entries, and the units of each layer
    kinds, parameters : of the activation of what enters each layer; those of the inputs are not
        read
    places, steps, least, scales : of each dropout the layer that is entered, what is added to the
        key, the least of the upper bits of what is kept, and what that is multiplied with
    """

    widths: np.ndarray
    kinds: np.ndarray
    parameters: np.ndarray
    places: np.ndarray
    steps: np.ndarray
    least: np.ndarray
    scales: np.ndarray


def _layers(chain: Chain, kind: type, dropping: bool) -> _Layers:
    drops, names = chain.drops if dropping else (), [*ACTIVATIONS]
    scales = [1 / kind(1 - p) if p < 1 else 1.0 for _, p in drops]
    return _Layers(
        np.array(chain.widths, np.int64),
        np.array([0, *(names.index(name) for name, _ in chain.activations)], np.int64),
        np.array([0.0, *(value for _, value in chain.activations)], kind),
        np.array([place for place, _ in drops], np.int64),
        np.array([step_of(n) for n in range(len(drops))], np.uint64),
        np.array([least_of(p) for _, p in drops], np.uint64), np.array(scales, kind),
    )


def walk_rows(
    chain: Chain, slope: Slope, inputs: Tensor, targets: Tensor, penalty: PenaltyTerms,
    y: np.ndarray, samples: np.ndarray, weights: np.ndarray, lrs: np.ndarray, lengths: np.ndarray,
    keys: np.ndarray | None, stop: Event,
) -> None:
    """All steps of the rows y (R, d), in place, until told to stop: samples, weights (R, T, b),
    lrs, keys (R, T), lengths (R,)."""
    widths = chain.widths
    kind = y.dtype.type
    labels, values = np.empty(0, np.int64), np.empty((0, widths[-1]), kind)
    if slope.kind == 0:
        labels = targets.numpy()
    else:
        values = targets.numpy().reshape(len(targets), -1)
    data = _Samples(inputs.numpy().reshape(len(inputs), -1), labels, values)
    layers = _layers(chain, kind, keys is not None)
    loss = loss_terms(slope, widths[-1], kind)
    drawn = np.zeros(lrs.shape, np.uint64) if keys is None else keys.view(np.uint64)
    at_once = max(1, AT_ONCE // samples.shape[2])
    for r in range(len(y)):
        own = penalty._replace(pull=penalty.pull[r], anchor=penalty.anchor[r])
        for first in range(0, int(lengths[r]), at_once):
            if stop.is_set():
                return
            now = slice(first, min(first + at_once, int(lengths[r])))
            steps = (
                samples[r, now], weights[r, now].astype(kind), lrs[r, now].astype(kind),
                drawn[r, now],
            )
            _walk(y[r], *steps, data, layers, loss, own, tiles())


@njit(fastmath=_FAST, cache=True, nogil=True)
def _drop(h: np.ndarray, slope: np.ndarray, place: int, key: np.uint64, layers: _Layers) -> None:
    """The entries h (n,) of what enters a layer, in place: dropped, or scaled; so are their slopes
    (n,), where they are kept."""
    for m in range(len(layers.places)):
        if layers.places[m] == place:
            state, least, scale = mixed(key + layers.steps[m]), layers.least[m], layers.scales[m]
            zero = h.dtype.type(0)
            for i in range(len(h)):
                state += np.uint64(0x9E3779B97F4A7C15)
                factor = scale if (mixed(state) >> np.uint64(40)) >= least else zero
                h[i] *= factor  # a NaN stays one
                if len(slope):
                    slope[i] *= factor


@njit(fastmath=_FAST, cache=True, nogil=True)
def _forward(
    y: np.ndarray, hidden: np.ndarray, bends: np.ndarray, layers: _Layers, b: int, key: np.uint64,
    sizes: Tiles,
) -> int:
    """Compute what enters each layer, hidden[1:], from hidden[0], where b inputs are.

    Returns how many of the parameters y (d,) were used: all. bends[1:] are the activations'
    derivatives, times what dropout multiplies with.
    """
    widths = layers.widths
    start, last = 0, len(widths) - 1
    _drop(hidden[0, : b * widths[0]], bends[0, :0], 0, key, layers)
    for n in range(last):
        i, o = widths[n], widths[n + 1]
        w, bias = y[start : start + i * o].reshape(o, i), y[start + i * o : start + i * o + o]
        start += i * o + o
        h, z = hidden[n, : b * i].reshape(b, i), hidden[n + 1, : b * o].reshape(b, o)
        along(h, w, z, sizes)
        for k in range(b):
            row = z[k]
            for c in range(o):
                row[c] += bias[c]
        if n + 1 < last:
            entries, slope = hidden[n + 1, : b * o], bends[n + 1, : b * o]
            activate(entries, slope, layers.kinds[n + 1], layers.parameters[n + 1])
            _drop(entries, slope, n + 1, key, layers)
    return start


@njit(fastmath=_FAST, cache=True, nogil=True)
def _take(
    data: _Samples, row: np.ndarray, x: np.ndarray, labels: np.ndarray, values: np.ndarray
) -> None:
    """x (b, entries), and labels (b,) or values (b, outputs): those of the samples `row` (b,)."""
    # entry by entry: Numba compiles the assignment of whole rows for seconds
    for k in range(len(row)):
        found, into = data.inputs[row[k]], x[k]
        for c in range(len(into)):
            into[c] = found[c]
        if len(data.labels):
            labels[k] = data.labels[row[k]]
        else:
            for c in range(values.shape[1]):
                values[k, c] = data.values[row[k], c]


@njit(fastmath=_FAST, cache=True, nogil=True)
def _walk(
    y: np.ndarray, samples: np.ndarray, weights: np.ndarray, lrs: np.ndarray, keys: np.ndarray,
    data: _Samples, layers: _Layers, loss: LossTerms, penalty: PenaltyTerms, sizes: Tiles,
) -> None:
    """y (d,), in place, by the steps of samples and weights (T, b), lrs and keys (T,).

    y holds weights (outputs, inputs) and bias of each layer, first layer first; the penalty's pull
    and anchor are (d,), or (0,) where there is none.
    """
    pull, anchor, slopes, l1, prox, clip = penalty
    widths, (steps, b) = layers.widths, samples.shape
    last, zero, one = len(widths) - 1, y.dtype.type(0), y.dtype.type(1)
    room = b * widths.max()
    hidden = np.empty((last + 1, room), y.dtype)  # what enters each layer, then the outputs
    bends = np.empty((last + 1, room), y.dtype)
    g, before, sums = (
        np.empty(room, y.dtype), np.empty(room, y.dtype), np.empty(widths.max(), y.dtype)
    )
    # a clipped gradient must be known whole before it moves anything
    gradients = np.empty(len(y) if clip else 0, y.dtype)
    own_labels, own_values = np.empty(b, np.int64), np.empty((b, widths[last]), y.dtype)
    toward = anchor[:0] if prox else anchor
    plain = len(pull) == 0 and len(toward) == 0  # the weights are scaled as the product is added
    for j in range(steps):
        lr = lrs[j]
        x = hidden[0, : b * widths[0]].reshape(b, widths[0])
        _take(data, samples[j], x, own_labels, own_values)
        start = _forward(y, hidden, bends, layers, b, keys[j], sizes)
        outputs = g[: b * widths[last]].reshape(b, widths[last])
        for k in range(b * widths[last]):
            g[k] = hidden[last, k]
        factors = weights[j] if clip else lr * weights[j]
        if loss.kind == 0:
            slope_of_classes(outputs, own_labels, factors, loss)
        else:
            slope_of_values(outputs, own_values, factors, loss)
        scale = one - lr * slopes[1] if plain else one
        for n in range(last - 1, -1, -1):
            i, o = widths[n], widths[n + 1]
            end, start = start, start - i * o - o
            w, h, gradient = (
                y[start : end - o].reshape(o, i), hidden[n, : b * i].reshape(b, i),
                g[: b * o].reshape(b, o),
            )
            if n > 0:  # through the layer, by the weights as they were
                back_through(gradient, w, before[: b * i].reshape(b, i), sizes)
                for k in range(b * i):
                    before[k] *= bends[n, k]
            total = gradients[end - o : end] if clip else sums[:o]
            total[:] = 0
            for k in range(b):
                for c in range(o):
                    total[c] += gradient[k, c]
            if clip:
                add_turned(gradient, h, gradients[start : end - o].reshape(o, i), one, zero, sizes)
            else:
                if not plain:
                    pulled(y[start:end], lr, slopes[1], pull[start:end], toward[start:end], l1)
                add_turned(gradient, h, w, -one, scale, sizes)
                for c in range(o):
                    y[end - o + c] = scale * y[end - o + c] - total[c]
            g, before = before, g
        if clip:
            move_clipped(y, gradients, lr, slopes, pull, toward, l1, clip)
        if prox and len(anchor):
            shrink(y.reshape(1, -1), lrs[j : j + 1], anchor.reshape(1, -1), l1)
