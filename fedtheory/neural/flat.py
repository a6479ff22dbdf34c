"""A torch module as a function of one flat parameter vector, and as it was given."""

from __future__ import annotations

import copy
import itertools
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability
from fedtheory.inputs import real_array, require
from fedtheory.neural.device import as_device
from fedtheory.neural.dropout import KeyedDropout
from fedtheory.neural.parts import Parts, mapped, unpacked

__all__ = [
    "FlatModule", "GivenModule", "arguments", "as_module_takes", "check_parameters", "computed",
    "unmoved",
]

_THREAD = threading.local()
# normalisation layers; those of the first kind may have running statistics
NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
MANY = 8  # times the few samples that a module is tried on
NOISE = (0.0, 0.05, 0.5)  # of the points that it is tried at, as its own last layer may be zero


def as_module_takes(inputs: Any) -> Any:
    """Inputs with integers, which are kept as small as they came, as int64."""
    return mapped(_whole_numbers, inputs)


def _whole_numbers(inputs: Tensor) -> Tensor:
    kept = inputs.is_floating_point() or inputs.dtype == torch.bool
    return inputs if kept else inputs.to(torch.int64)


def arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a module's arguments: a tuple's tensors by position, a dict's by keyword."""
    several = isinstance(inputs, dict | tuple)
    inputs = unpacked(as_module_takes(Parts(inputs) if several else inputs))
    if isinstance(inputs, dict):
        return (), inputs
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}


def computed(module: nn.Module, inputs: Any, key: Tensor | int | None = None) -> Any:
    """The module's output on these inputs; dropout follows from the key, and None drops nothing."""
    given, named = arguments(inputs)
    with KeyedDropout(key):
        return module(*given, **named)


def _differ(a: Tensor, b: Tensor, share: float) -> bool:
    """True if outputs of the same samples differ by more than this share of the largest; of other
    shapes, or without rows, they cannot be compared."""
    alike = a.shape == b.shape and len(a) > 0
    return alike and bool((a - b).abs().max() > share * b.abs().max())


def check_parameters(module: Any) -> None:
    """Raise `InvalidInput` or `MissingCapability` unless it is a module whose tensors have sizes
    and values and are real."""
    if not isinstance(module, torch.nn.Module):
        one = isinstance(module, type)
        what = f"the class {module.__name__}" if one else f"a {type(module).__name__}"
        told = "give a torch.nn.Module, made, as in nn.Linear(3, 2)"
        raise InvalidInput(f"module is {what}: {told}")
    if isinstance(module, torch.jit.ScriptModule):
        told = "is compiled by torch.jit and takes no other parameters: give the module"
        raise MissingCapability(f"{type(module).__name__} {told}")
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if torch.nn.parameter.is_lazy(value):
            told = "give the layer its sizes, or run one forward pass first, module(inputs[:2])"
            raise InvalidInput(f"{name} has no size yet: {told}")
        if value._backward_hooks or getattr(value, "_post_accumulate_grad_hooks", None):
            raise MissingCapability(
                f"{name} has a hook, which the clients' models would not have: multiply the "
                "parameter by a mask in the forward pass, or give its layer a "
                "register_full_backward_hook"
            )
        if value.is_complex():
            told = "a point is a vector of real numbers: keep real and imaginary part apart"
            raise MissingCapability(f"{name} is {value.dtype}, and {told}")
        if value.requires_grad and not bool(value.isfinite().all()):
            told = "a run starts from it; draw it anew (reset_parameters() of its layer)"
            raise InvalidInput(f"parameter {name} is not finite in {value.dtype}: {told}")


def _check_layer(name: str, part: nn.Module) -> None:
    """Raise `MissingCapability` for layers whose steps would be others than torch's, or that share
    what changes."""
    what = f"{name or 'the module'} is a {type(part).__name__}"
    if isinstance(part, torch.nn.Embedding | torch.nn.EmbeddingBag):
        options = {"max_norm": part.max_norm is not None}
        if part.weight.requires_grad:
            options |= {"scale_grad_by_freq": part.scale_grad_by_freq, "sparse": part.sparse}
        for option in (o for o, given in options.items() if given):
            told = "which no client's model has by itself: leave it out"
            raise MissingCapability(f"{what} with {option}, {told}")
    if _averages(part) and not isinstance(part, NORMS[0]):
        told = "its running statistics would be shared or lost; freeze them with .eval()"
        raise MissingCapability(f"{what}, no torch.nn.BatchNorm: {told}")


def _averages(part: nn.Module) -> bool:
    """True if a forward pass of this layer changes its running statistics."""
    return part.training and getattr(part, "running_mean", None) is not None


def unmoved(module: nn.Module) -> nn.Module:
    """Keep the recurrent layers of a module from moving the parameters they are given.

    On a GPU torch calls `flatten_parameters` once a layer has other parameters than before. It
    points them at memory of cuDNN's own, so that views of a vector of all parameters would be
    views of it no more, and a step on them would leave the vector as it was.
    """
    for part in module.modules():
        if isinstance(part, torch.nn.RNNBase):
            part.flatten_parameters = _leave_in_place
            # torch advises to call what is switched off here
            warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous")
    return module


def _leave_in_place() -> None:
    """Do nothing."""


class _Held(NamedTuple):
    """A module, where it keeps the pieces of a point, and its layers whose statistics change."""

    module: nn.Module
    places: list[tuple[dict[str, Any], str, str]]  # a layer's dict, the key in it, the piece's name
    running: list[nn.Module]


@contextmanager
def _in_place(held: _Held, pieces: dict[str, Tensor], train: bool = False) -> Iterator[None]:
    """The module computes with these pieces: what `torch.func.functional_call` does, which takes a
    tenth of a small network's step."""
    before = [own[key] for own, key, _ in held.places]
    modes = [layer.training for layer in held.running]
    try:
        for own, key, name in held.places:
            if name in pieces:
                own[key] = pieces[name]
        for layer in held.running:
            layer.training |= train
        yield
    finally:
        for (own, key, _), value in zip(held.places, before, strict=True):
            own[key] = value
        for layer, mode in zip(held.running, modes, strict=True):
            layer.training = mode


class FlatModule:
    """The parameters of a module that require a gradient, as consecutive pieces of a vector of R^d,
    and behind them its running statistics, where it has some that training changes: R^D.

    BatchNorm (or InstanceNorm) in train mode has two functions. A local step normalises with the
    statistics of its batch, and moves running_mean, running_var and num_batches_tracked towards
    them: `holding` with ``train=True`` does so, in place, in the statistics it is given. All that
    is measured, f_k and its gradient included, is the module in eval mode, with the running
    statistics as constants. A point therefore has them as its last D - d coordinates. They have no
    gradient, no penalty, no weight decay and no control variate, as `fedtheory.neural.sgd` walks
    with the first d alone. After a round the server's are the mean of the cohort's, whatever the
    method does with the parameters (`fedtheory.simulation.states.with_statistics`).

    Parameters
    ----------
    module : torch.nn.Module
        It is used as a function: its own parameters are only the starting point, and are not
        changed. Layers with running statistics are put in eval mode.

    Attributes
    ----------
    names, shapes, offsets : of the pieces, in the order of ``module.named_parameters()``; what
        requires no gradient is left out
    trained, dim : d and D; where no running statistics change, they are the same
    normalising : bool (D,), the parameters and statistics of normalisation layers
    depends_on_batch : whether a sample's output depends on what else is in its batch, as with batch
        statistics: none may be padded
    has_rows : whether what it returns is one tensor with a row for each sample
    dropout : the share dropped by each dropout of a forward pass, in order, once `settle` has seen
        one

    Raises
    ------
    MissingCapability
        Running statistics of a layer that is none of torch's. Complex parameters or buffers, hooks
        on parameters. Embeddings with max_norm, scale_grad_by_freq or sparse.
    InvalidInput
        No torch module; no parameters that require a gradient; parameters that have no sizes yet.
    """

    def __init__(self, module: nn.Module) -> None:
        check_parameters(module)
        self._running: list[str] = []  # the layers whose statistics change
        layers = dict(module.named_modules())
        for name, part in layers.items():
            _check_layer(name, part)
            if _averages(part):
                self._running.append(name)
        parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not parameters:
            told = "has no parameters that require a gradient: there is nothing to train"
            raise InvalidInput(f"{type(module).__name__} {told}")
        changing = {id(b) for name in self._running for b in layers[name].buffers(recurse=False)}
        buffers = {name: b for name, b in module.named_buffers() if id(b) in changing}
        tensors = parameters | buffers
        sizes = [t.numel() for t in tensors.values()]
        cuts = [0, *itertools.accumulate(sizes)]
        self.pieces = [
            (name, tuple(t.shape), a, a + t.numel())
            for (name, t), a in zip(tensors.items(), cuts[:-1], strict=True)
        ]
        self.module, self.names = module, list(parameters)
        self.shapes = [shape for _, shape, *_ in self.pieces[: len(parameters)]]
        self.offsets = cuts[: len(parameters) + 1]
        self.trained, self.dim = self.offsets[-1], cuts[-1]
        owners = [isinstance(layers[name.rpartition(".")[0]], NORMS) for name in tensors]
        self.normalising = np.repeat(owners, sizes)
        self._mine = self._held_by(module)
        kind = nn.modules.batchnorm._BatchNorm
        norms = [part for part in layers.values() if isinstance(part, kind)]
        self.depends_on_batch = any(part.running_mean is None for part in norms)
        self.dropout: tuple[float, ...] = ()
        self.has_rows = True

    def _held_by(self, module: nn.Module) -> _Held:
        """Find the pieces in a module: one that several layers share is in several places."""
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        first = {id(own[name]): name for name, *_ in self.pieces}
        kept = [held for part in module.modules() for held in (part._parameters, part._buffers)]
        places = [(d, key, first[id(t)]) for d in kept for key, t in d.items() if id(t) in first]
        running = [module.get_submodule(name) for name in self._running]
        for layer in running:
            layer.training = False
        return _Held(module, places, running)

    def settle(self, inputs: Any) -> None:
        """Find out, on a few samples (n, ...), what a forward pass drops, and whether an output
        depends on the rest of its batch.

        In a batch of the same size, copies of a sample in the places of the others must leave its
        output as it is, to rounding of single operations. Batches of another size are computed
        otherwise, and networks may multiply that rounding: only an output of another size is told
        from it. They are tried as a module may drop nothing in small batches.
        """
        n, met = len(inputs), list[float]()
        many = mapped(lambda t: torch.cat([t] * MANY), inputs)
        batches = inputs, many, *(inputs[[i] * n] for i in range(n))
        own, generator = self.initial(), torch.Generator().manual_seed(0)
        draws = torch.randn(self.trained, generator=generator, dtype=torch.float64).to(own)
        for share in NOISE:
            point = torch.cat([own[: self.trained] + share * draws, own[self.trained :]])
            few, more, *alone = (self._tried(point, x, met) for x in batches)
            if few is None:
                continue  # which `check_model` tells
            self.has_rows, eps = len(few) > 0, torch.finfo(few.dtype).eps
            self.depends_on_batch |= more is None or _differ(more[:n], few, 0.2)
            for i, one in enumerate(alone):
                at = slice(i, i + 1)
                self.depends_on_batch |= one is None or _differ(one[at], few[at], 16 * eps)
        kind = torch.nn.modules.dropout._DropoutNd
        drops = [m for m in self.module.modules() if isinstance(m, kind) and m.training and m.p > 0]
        self.dropout = tuple(met or (float(m.p) for m in drops))

    def _tried(self, point: Tensor, inputs: Any, met: list[float]) -> Tensor | None:
        """Outputs that have a row for each sample, empty where there are others, None where the
        module fails; longer `met` dropouts."""
        try:
            with torch.no_grad(), KeyedDropout() as keyed:
                outputs = self.call(point, inputs)
        except FedTheoryError:
            raise
        except Exception:
            return None
        if len(keyed.shares) > len(met):
            met[:] = keyed.shares
        rows = isinstance(outputs, torch.Tensor) and outputs.ndim > 0 and len(outputs) == len(inputs)
        return outputs if rows and outputs.is_floating_point() else self.initial()[:0]

    def initial(self) -> Tensor:
        """The module's own parameters, and statistics, as a vector (D,)."""
        own = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        first = own[self.names[0]]
        return torch.cat([own[name].detach().reshape(-1).to(first.dtype) for name, *_ in self.pieces])

    def constants(self) -> list[Tensor]:
        """List what the module computes with and does not train: frozen parameters and buffers."""
        frozen = [p.detach() for p in self.module.parameters() if not p.requires_grad]
        return frozen + list(self.module.buffers())

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The parameters' pieces of (..., D) or (..., d) as (..., *shape), without a copy."""
        if flat.shape[-1] not in (self.dim, self.trained):
            told = f"{type(self.module).__name__} has d = {self.dim}"
            raise InvalidInput(f"parameters of shape {tuple(flat.shape)}: {told}")
        lead, trained = flat.shape[:-1], self.pieces[: len(self.names)]
        return {name: flat[..., a:b].view((*lead, *shape)) for name, shape, a, b in trained}

    def statistics(self, flat: Tensor) -> dict[str, Tensor]:
        """The running statistics' pieces of a point (D,), without a copy and out of autograd's
        sight; of (d,) there are none, and the module's own are taken."""
        if flat.shape[-1] == self.trained:
            return {}
        behind = self.pieces[len(self.names) :]
        return {name: flat.data[a:b].view(shape) for name, shape, a, b in behind}

    def pieces_of(self, flat: Tensor) -> dict[str, Tensor]:
        """Parameters and statistics of a point (D,)."""
        return self.views(flat) | self.statistics(flat)

    def call(self, flat: Tensor, inputs: Any) -> Any:
        """The module's output with the parameters, and statistics, flat (D,)."""
        return self.run(self.pieces_of(flat), inputs)

    def run(self, pieces: dict[str, Tensor], inputs: Any, key: Tensor | int | None = None) -> Any:
        """The module's output with these parameters, and statistics, by name, on what `arguments`
        makes of inputs.

        Parameters
        ----------
        key : int64 (), `dropout.number` of it, or None
            What dropout follows from; None: nothing is dropped.
        """
        held = self._own_module()
        given, named = arguments(inputs)
        with _in_place(held, pieces), KeyedDropout(key) if self.dropout else nullcontext():
            return held.module(*given, **named)

    def holding(
        self, pieces: dict[str, Tensor], train: bool = False
    ) -> AbstractContextManager[None]:
        """While it is entered, the module has these pieces: for backward passes that compute parts
        of the forward pass again.

        Parameters
        ----------
        train : bool
            Forward passes normalise with the statistics of the batch, and change the running ones,
            in place.
        """
        return _in_place(self._own_module(), pieces, train)

    def _own_module(self) -> _Held:
        """The module, or this thread's copy of it: for the time of a call, it holds what it is
        called with."""
        if threading.current_thread() is threading.main_thread():
            return self._mine
        if not hasattr(_THREAD, "copies"):
            _THREAD.copies = weakref.WeakKeyDictionary()
        if self.module not in _THREAD.copies:
            _THREAD.copies[self.module] = self._held_by(copy.deepcopy(self.module))
        return _THREAD.copies[self.module]


class GivenModule:
    """A module as it was given, with its own device, dtypes and modes, of which copies with other
    parameters are made.

    Parameters
    ----------
    module : torch.nn.Module
        It is kept, not copied.
    flat : FlatModule
        Which of its parameters, and statistics, a point (D,) stands for.
    """

    def __init__(self, module: nn.Module, flat: FlatModule) -> None:
        self.module, self._pieces, self.dim = module, flat.pieces, flat.dim

    def filled(self, x: Any, device: Any = None, dtype: Any = None) -> nn.Module:
        """A copy with the parameters x (d,) or (1, d), on another device or of another
        floating-point dtype where one is named.

        Raises `InvalidInput` for x of another shape, and where there is no such device or dtype.
        """
        kind = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
        floats = dtype is None or (isinstance(kind, torch.dtype) and kind.is_floating_point)
        told = "use a floating-point dtype of torch, such as 'float32', or None for the module's own"
        require(floats, "dtype", dtype, told)
        where = None if device is None else as_device(device)
        is_tensor = isinstance(x, torch.Tensor)
        point = x.detach() if is_tensor else torch.tensor(real_array("x", x, finite=False))
        fits = point.shape in ((self.dim,), (1, self.dim))
        require(fits, "x", tuple(point.shape), f"give one point, ({self.dim},) or (1, {self.dim})")
        made, point = copy.deepcopy(self.module), point.reshape(-1)
        own = dict(made.named_parameters()) | dict(made.named_buffers())
        with torch.no_grad():
            for name, shape, first, last in self._pieces:
                piece = point[first:last].reshape(shape)
                own[name].copy_(piece if own[name].is_floating_point() else piece.round())
        return made.to(device=where, dtype=kind)
