"""Functions that the array API standard lacks, for NumPy, array_api_strict and torch.

Everything above this floor obtains its namespace with ``xp = namespace(x)`` and stays within the standard.
"""

from __future__ import annotations

import math
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

__all__ = [
    "Array",
    "Memory",
    "OwnArrays",
    "ReadOnlyDict",
    "all_finite",
    "all_true",
    "astype_like",
    "broadcast_to",
    "epsilon",
    "is_array",
    "is_numpy",
    "memory_of",
    "namespace",
    "on_host",
    "owned",
    "put_slots",
    "read_only",
    "rows_of",
    "sealed",
    "soft_threshold",
    "take_slots",
    "to_numpy",
    "top_k_mask",
    "unshared",
    "width",
]

Array = Any  # an array of any namespace; shapes are given in the docstrings


def _lean() -> Any:
    """NumPy as a namespace of the standard, without what its functions spend on dispatch: of a small array that is most of a call.

    NumPy itself is of the standard, and a call of it costs a microsecond less than a wrapper; 2.0 lacks the running sum. Reductions
    are those of the ufuncs, which NumPy's functions call in the end.
    """
    lean: Any = ModuleType("numpy")
    lean.__dict__.update(vars(np))
    if not hasattr(np, "cumulative_sum"):
        import array_api_compat.numpy

        lean.__dict__.update({name: value for name, value in vars(array_api_compat.numpy).items() if not name.startswith("__")})
    lean.sum, lean.max, lean.min = (_reduction(f, u.reduce) for f, u in ((np.sum, np.add), (np.max, np.maximum), (np.min, np.minimum)))
    lean.all, lean.any = (_reduction(f, u.reduce, bool) for f, u in ((np.all, np.logical_and), (np.any, np.logical_or)))
    lean.reshape, lean.permute_dims, lean.broadcast_to = _method(np.reshape), _method(np.transpose), broadcast_to
    return lean


def _reduction(usual: Any, reduce: Any, dtype: Any = None) -> Any:
    def reduced(x: Any, /, *, axis: Any = None, keepdims: bool = False, **more: Any) -> Any:
        if more or type(x) is not np.ndarray:
            return usual(x, axis=axis, keepdims=keepdims, **more)
        return reduce(x, axis, dtype, None, keepdims)

    return reduced


def all_finite(x: Array) -> bool:
    """True if no entry is NaN or infinite."""
    return all_true(namespace(x).isfinite(x))


def all_true(x: Array) -> bool:
    """True if no entry is 0 or False; counting them takes NumPy less than `numpy.all`."""
    return bool(np.count_nonzero(x) == x.size if is_numpy(x) else namespace(x).all(x))


def epsilon(x: Array) -> float:
    """The distance from 1 to the next float of x's dtype."""
    return _floats(namespace(x), x.dtype)[0]


def width(x: Array) -> int:
    """Bits of a float of x's dtype."""
    return _floats(namespace(x), x.dtype)[1]


@cache
def _floats(xp: Any, dtype: Any) -> tuple[float, int]:
    info = xp.finfo(dtype)
    return float(info.eps), int(info.bits)


def _method(usual: Any) -> Any:
    method = getattr(np.ndarray, usual.__name__)

    def called(x: Any, /, shape: Any, **more: Any) -> Any:
        return usual(x, shape, **more) if more or type(x) is not np.ndarray else method(x, shape)

    return called


def broadcast_to(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """`numpy.broadcast_to`, a view that is not written to, made at once where x is contiguous and has as many axes."""
    if type(x) is np.ndarray and x.ndim == len(shape) and x.flags.c_contiguous and x.size and not x.dtype.hasobject:
        strides = [step if own == size else 0 if own == 1 else -1 for own, size, step in zip(x.shape, shape, x.strides)]
        if -1 not in strides:
            view: np.ndarray = np.ndarray(shape, x.dtype, x, 0, strides)
            view.setflags(write=False)
            return view
    return np.broadcast_to(x, shape)


_NUMPY: Any = _lean()


def namespace(*arrays: Array) -> Any:
    """The array API namespace the given arrays share."""
    for a in arrays:
        if type(a) is not np.ndarray and a is not None:
            return array_api_compat.array_namespace(*[a for a in arrays if a is not None])
    return _NUMPY  # the usual case, without the dispatch


def is_array(x: Any) -> bool:
    """True if x is an array of NumPy, torch or another namespace of the array API."""
    return bool(array_api_compat.is_array_api_obj(x))


def is_numpy(x: Array) -> bool:
    """True if x is a NumPy array (fast paths may then use NumPy itself)."""
    return isinstance(x, np.ndarray)


def on_host(x: Array) -> bool:
    """True if x lies in main memory (all but torch tensors on a device do)."""
    return isinstance(x, np.ndarray) or not array_api_compat.is_torch_array(x) or x.device.type == "cpu"


def to_numpy(x: Array) -> np.ndarray:
    """A NumPy copy or view of x, brought to the host when it lives on a device."""
    if isinstance(x, np.ndarray):
        return x
    if array_api_compat.is_torch_array(x):
        return x.detach().cpu().numpy()
    return np.asarray(x)


def sealed(value: Any) -> Any:
    """The same NumPy array, read-only from now on; of a tuple, list or dict those in it. For what was made here, a view's base too."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
        if isinstance(value.base, np.ndarray):
            sealed(value.base)
    elif isinstance(value, tuple | list):
        for part in value:
            sealed(part)
    elif isinstance(value, dict):
        sealed(list(value.values()))
    return value


def read_only(value: Any) -> Any:
    """A view of a NumPy array that cannot be written into; anything else as it is."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.setflags(write=False)
    return value


def owned(array: np.ndarray) -> np.ndarray:
    """A read-only array of the same numbers that nobody writes to: itself where it is one, else a copy.

    For what a caller hands in. A read-only view of memory that may be written to is copied, too.
    """
    root: Any = array
    while isinstance(root, np.ndarray):
        if root.flags.writeable:
            copied: np.ndarray = np.array(array, order="K")
            copied.setflags(write=False)
            return copied
        root = root.base
    return array


def unshared(array: Array) -> Array:
    """The array itself where it is read-only, else a copy, as of tensors: to be handed out."""
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        return array
    return namespace(array).asarray(array, copy=True)


class ReadOnlyDict(dict[str, Any]):
    """A dict that refuses to be changed, whose arrays and dicts are read-only as well."""

    def __init__(self, *values: Any, **more: Any) -> None:
        found = {k: _read_only(v) for k, v in dict(*values, **more).items()}
        super().__init__(found)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this dict is read-only: change a copy, dict(...)")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return type(self), (dict(self),)


def _read_only(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return owned(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(_read_only, value))
    return ReadOnlyDict(value) if isinstance(value, dict) else value


class OwnArrays:
    """Base of dataclasses whose arrays are read-only, in tuples too, and copies of those that may be written to elsewhere."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray | tuple):
                object.__setattr__(self, name, _read_only(value))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: sealed(value) for name, value in state.items()})  # a pickle does not keep what is read-only


def astype_like(values: Any, like: Array) -> Array:
    """NumPy data as an array of like's namespace, dtype and device; floats stay as they are where like holds integers."""
    values = np.asarray(values)
    if is_numpy(like):
        cast = values.dtype.kind == "f" and like.dtype.kind not in "biu"
        return values.astype(like.dtype, copy=False) if cast else values
    xp = namespace(like)
    cast = values.dtype.kind == "f" and not xp.isdtype(like.dtype, ("bool", "integral"))
    dtype = like.dtype if cast else None
    return xp.asarray(np.array(values), dtype=dtype, device=array_api_compat.device(like))


def soft_threshold(v: Array, t: float) -> Array:
    """prox of t*||.||_1: v - clip(v, -t, t), which is exactly 0 wherever |v| <= t."""
    if t == 0.0:
        return v
    return v - namespace(v).clip(v, -t, t)


def take_slots(memory: Array, members: Array) -> Array:
    """Rows of a per-client memory: (S, N, ...) and members (S, P) -> (S, P, ...)."""
    if is_numpy(memory) and memory.shape[0] == 1:
        return memory.take(members[0], axis=1)
    if is_numpy(memory) and not memory.flags.c_contiguous:
        return memory[np.arange(memory.shape[0])[:, None], members]
    xp = namespace(memory)
    scenarios, clients = memory.shape[0], memory.shape[1]
    offset = xp.arange(scenarios, dtype=members.dtype, device=array_api_compat.device(members)) * clients
    flat = xp.reshape(members + offset[:, None], (-1,))
    rows = xp.take(xp.reshape(memory, (scenarios * clients, *memory.shape[2:])), flat, axis=0)
    return xp.reshape(rows, (*members.shape, *memory.shape[2:]))


MANY_ROWS = 256  # that are worth the calls which move them faster


def put_slots(memory: Array, members: Array, values: Array, in_place: bool = False) -> Array:
    """Memory (S, N, d) with the rows of members (S, P) replaced by values (S, P, d).

    in_place reuses memory's buffer where the namespace allows it (NumPy, torch); the caller gives it up.
    """
    if is_numpy(memory):
        out = memory if in_place else memory.copy()
        many = members.size >= MANY_ROWS and out.ndim == 3
        whole = many and np.shape(values) == (*members.shape, out.shape[2])
        if whole and out.flags.c_contiguous and not out.dtype.hasobject:
            rows = np.dtype((np.void, out.itemsize * out.shape[2]))  # each moved as one item, which takes NumPy half the time
            flat = members + np.arange(0, out.shape[0] * out.shape[1], out.shape[1])[:, None]
            np.put(out.view(rows), flat, np.ascontiguousarray(values, out.dtype).view(rows))
        elif len(out) == 1:
            out[0, members[0]] = values[0]
        else:
            out[np.arange(memory.shape[0])[:, None], members] = values
        return out
    xp = namespace(memory)
    if array_api_compat.is_torch_array(memory):
        out = memory if in_place else xp.asarray(memory, copy=True)
        rows = xp.arange(memory.shape[0], device=memory.device)[:, None]
        out[rows, members] = values
        return out
    # The standard has no scatter: invert the index instead.
    host = to_numpy(members)
    scenarios, clients = memory.shape[0], memory.shape[1]
    slot = np.full((scenarios, clients), -1, dtype=np.int64)
    slot[np.arange(scenarios)[:, None], host] = np.arange(host.shape[1])
    picked = take_slots(values, xp.asarray(np.where(slot < 0, 0, slot)))
    return xp.where(xp.asarray(slot >= 0)[:, :, None], picked, memory)


def rows_of(values: Array, who: np.ndarray | None) -> Array:
    """The rows (..., d) -> (R, d) where who (...) is True, all where it is None: NumPy's, or on the device where they lie."""
    if on_host(values):
        values = to_numpy(values)
        return values.reshape(-1, values.shape[-1]) if who is None or all_true(who) else values[who]
    flat = values.reshape(-1, values.shape[-1])
    if who is None:
        return flat
    return namespace(values).take(flat, astype_like(np.flatnonzero(who), values), axis=0)


IN_CACHE = 2**17  # numbers that are partitioned at a time


def _kth_largest(values: Array, k: int) -> Array:
    """The k-th largest entry along the last axis, (..., d) -> (..., 1), by partial selection."""
    if is_numpy(values):
        rows = values.reshape(-1, values.shape[-1])
        out, size = np.empty((len(rows), 1), dtype=values.dtype), max(1, IN_CACHE // max(1, rows.shape[1]))
        for first in range(0, len(rows), size):  # copies that stay in the cache
            out[first : first + size, 0] = np.partition(rows[first : first + size], -k, axis=-1)[:, -k]
        return out.reshape(*values.shape[:-1], 1)
    if array_api_compat.is_torch_array(values):
        d = values.shape[-1]
        if 2 * k <= d:
            return values.topk(k, dim=-1, sorted=False).values.amin(dim=-1, keepdim=True)
        return values.topk(d - k + 1, dim=-1, largest=False, sorted=False).values.amax(dim=-1, keepdim=True)
    return astype_like(_kth_largest(to_numpy(values), k), values)  # the standard has no partial selection


def _count(mask: Array) -> Array:
    """Count the entries that are true along the last axis: (..., d) -> (..., 1)."""
    if is_numpy(mask):
        return np.count_nonzero(mask, axis=-1, keepdims=True)
    xp = namespace(mask)
    return xp.sum(xp.astype(mask, xp.int64), axis=-1, keepdims=True)


def top_k_mask(values: Array, k: int, ties: bool = False) -> Array:
    """Return where the k largest entries along the last axis are, without a full sort.

    (..., d) -> bools (..., d).

    ties=False: exactly k of them, the lower index first among equals. ties=True: everything that equals the k-th as well.
    1 <= k <= d. Object arrays of fractions are fine; a NaN must have been refused before.
    """
    xp = namespace(values)
    last = _kth_largest(values, k)
    mask = values >= last
    if ties:
        return mask
    if np.count_nonzero(mask) == k * math.prod(mask.shape[:-1]) if is_numpy(mask) else bool(xp.all(_count(mask) == k)):
        return mask  # no row has fewer
    above = values > last
    wanted = k - _count(above)
    equal = values == last
    return above | (equal & (xp.cumulative_sum(xp.astype(equal, xp.int64), axis=-1) <= wanted))


class Memory(NamedTuple):
    """The numbers of a view (S, P, d) as they lie, with the steps from a scenario and from a slot to the next."""

    numbers: np.ndarray
    scenario: int
    slot: int

    def begin(self, scenarios: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Return where some messages begin (R,)."""
        return scenarios * self.scenario + slots * self.slot


def memory_of(view: Any) -> Memory | None:
    """The memory of a view of float64 whose messages lie in one piece each; None where it is no such view."""
    if type(view) is not np.ndarray or view.dtype != np.float64 or view.ndim != 3 or not view.size:
        return None
    (scenarios, slots, dim), (first, second, third) = view.shape, view.strides
    if (dim > 1 and third != 8) or first < 0 or second < 0 or first % 8 or second % 8:
        return None
    first, second = first // 8, second // 8
    if view.flags.c_contiguous:
        numbers = view.reshape(-1)
        numbers.setflags(write=False)
    else:
        extent = (scenarios - 1) * first + (slots - 1) * second + dim
        numbers = np.lib.stride_tricks.as_strided(view, (extent,), (8,), writeable=False)
    return Memory(numbers, first, second)
