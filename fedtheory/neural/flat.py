"""A torch module as a function of one flat parameter vector, and as it was given."""

from __future__ import annotations

import copy
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability
from fedtheory.inputs import real_array
from fedtheory.neural.device import as_device
from fedtheory.neural.dropout import KeyedDropout
from fedtheory.neural.parts import Parts, mapped, unpacked

__all__ = [
    "FlatModule", "GivenModule", "arguments", "as_module_takes", "computed", "own_copy", "unmoved",
]

_THREAD = threading.local()
# normalisation layers; those of the first kind may have running statistics
NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
MANY = 8  # times the few samples that a module is tried on
BESIDE = 3  # points near the module's own that it is tried at
SAME = {torch.float64: 1e-9}  # relative to the largest output; rounding of products of other sizes is below; else 1e-4


def as_module_takes(inputs: Any) -> Any:
    """Inputs with integers, which are kept as small as they came, as int64."""
    return mapped(_whole_numbers, inputs)


def _whole_numbers(inputs: Tensor) -> Tensor:
    return inputs if inputs.is_floating_point() or inputs.dtype == torch.bool else inputs.to(torch.int64)


def arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a module's arguments: a tuple's tensors by position, a dict's by keyword."""
    inputs = unpacked(as_module_takes(Parts(inputs) if isinstance(inputs, dict | tuple) else inputs))
    if isinstance(inputs, dict):
        return (), inputs
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}


def computed(module: nn.Module, inputs: Any, key: Tensor | int | None = None) -> Any:
    """The module's output on these inputs; dropout follows from the key, and None drops nothing."""
    given, named = arguments(inputs)
    with KeyedDropout(key):
        return module(*given, **named)


def _differ(a: Tensor, b: Tensor) -> bool:
    """True if outputs of the same samples are others; of other shapes or without rows, they cannot be compared."""
    return a.shape == b.shape and len(a) > 0 and bool((a - b).abs().max() > SAME.get(a.dtype, 1e-4) * b.abs().max())


def _shares(module: nn.Module) -> list[float]:
    """p of the layers that may drop, though no forward pass has met them yet."""
    layers = [m for m in module.modules() if isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.training and m.p > 0]
    return [float(m.p) for m in layers]


def check_parameters(module: Any) -> None:
    """Raise `InvalidInput` or `MissingCapability` unless it is a module whose tensors have sizes and values and are real."""
    if not isinstance(module, torch.nn.Module):
        what = f"the class {module.__name__}" if isinstance(module, type) else f"a {type(module).__name__}"
        raise InvalidInput(f"module is {what}: give a torch.nn.Module, made, as in nn.Linear(3, 2)")
    if isinstance(module, torch.jit.ScriptModule):
        raise MissingCapability(f"{type(module).__name__} is compiled by torch.jit and takes no other parameters: give the module")
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
            what = f"{name or 'the module'} is a {type(part).__name__}"
            raise MissingCapability(f"{what}: models are trained side by side here; give what is in it, .module")
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if torch.nn.parameter.is_lazy(value):
            raise InvalidInput(
                f"{name} has no size yet (a lazy layer?): give the layer its sizes, or run one forward pass first, module(inputs[:2])"
            )
        if value.is_meta:
            raise InvalidInput(f"{name} is on the device 'meta' and has no values: make the module on the CPU")
        if value._backward_hooks or getattr(value, "_post_accumulate_grad_hooks", None):
            raise MissingCapability(
                f"{name} has a hook, which the clients' models would not have: multiply the parameter by a mask in the forward pass, "
                "or give its layer a register_full_backward_hook"
            )
        if value.is_complex():
            raise MissingCapability(
                f"{name} is {value.dtype}: a point is a vector of real numbers; keep real and imaginary part as parameters of their own"
            )
    for name, value in module.named_parameters():
        odd = value.isnan() if not value.requires_grad else ~value.isfinite()  # a frozen mask may be of infinities
        if bool(odd.any()):
            raise InvalidInput(
                f"parameter {name} is {float(value[odd][0].detach())} in {int(odd.sum())} of its {value.numel():,} entries, in "
                f"{str(value.dtype).removeprefix('torch.')}: a run starts from the module's own values; draw them anew "
                "(reset_parameters() of that layer), or load values that are finite"
            )


def _check_embedding(name: str, part: nn.Module) -> None:
    if not isinstance(part, torch.nn.Embedding | torch.nn.EmbeddingBag):
        return
    trained = part.weight.requires_grad
    for option, why in {
        "max_norm": "changes its parameters in the forward pass" if part.max_norm is not None else "",
        "scale_grad_by_freq": "has a gradient that is none of its loss" if trained and part.scale_grad_by_freq else "",
        "sparse": "has gradients that cannot be added to a vector of all parameters" if trained and part.sparse else "",
    }.items():
        if why:
            what = f"{name or 'the module'} is a {type(part).__name__}"
            raise MissingCapability(f"{what} with {option}, which {why}: leave {option} out")


def own_copy(module: Any) -> nn.Module:
    """A copy of a user's module.

    Raises `InvalidInput` or `MissingCapability` as `check_parameters` does, and where it cannot be
    copied.
    """
    check_parameters(module)
    try:
        return copy.deepcopy(module)
    except Exception as error:  # whatever a user's module holds
        raise InvalidInput(
            f"{type(module).__name__} cannot be copied, which every thread needs ({type(error).__name__}: {error}): keep nothing in it "
            "but parameters, buffers and modules"
        ) from error


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


def _places(module: nn.Module, names: list[str]) -> list[tuple[dict[str, Any], str, str]]:
    """Return where a module keeps the tensors of these names: layer's dict, key in it, name.

    A tensor that several layers share is in several places, a layer that is there twice has one.
    """
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    first = {id(tensors[name]): name for name in names}
    layers = [held for layer in module.modules() for held in (layer._parameters, layer._buffers)]
    return [(own, key, first[id(p)]) for own in layers for key, p in own.items() if id(p) in first]


@contextmanager
def _in_place(places: list[tuple[dict[str, Any], str, str]], pieces: dict[str, Tensor]) -> Iterator[None]:
    """The module computes with these pieces: what `torch.func.functional_call` does, which takes a
    tenth of a small network's step."""
    before = [own[key] for own, key, _ in places]
    try:
        for own, key, name in places:
            if name in pieces:
                own[key] = pieces[name]
        yield
    finally:
        for (own, key, _), value in zip(places, before, strict=True):
            own[key] = value


class FlatModule:
    """The parameters of a module that require a gradient, as consecutive pieces of a vector of R^d,
    and behind them its running statistics, where it has some that training changes: R^D.

    BatchNorm (or InstanceNorm) in train mode has two functions. A local step normalises with the
    statistics of its batch, and moves running_mean, running_var and num_batches_tracked towards
    them: `holding` with ``train=True`` does so, in place, in the statistics it is given. All that is
    measured, f_k and its gradient included, is the module in eval mode, with the running
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
        for name, part in module.named_modules():
            if getattr(part, "running_mean", None) is not None and part.training:
                if not isinstance(part, NORMS[0]):
                    raise MissingCapability(
                        f"{name or 'the module'} is a {type(part).__name__}: its running statistics are no parameters, and it is no "
                        "layer of torch, so that nobody knows them all: use torch.nn.BatchNorm, or freeze them (.eval() of that layer)"
                    )
                self._running.append(name)
                part.training = False
            _check_embedding(name, part)
        parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not parameters:
            raise InvalidInput(f"{type(module).__name__} has no parameters that require a gradient: there is nothing to train")
        self.module = module
        layers = dict(module.named_modules())
        changing = {id(b) for name in self._running for b in layers[name].buffers(recurse=False)}
        buffers = {name: b for name, b in module.named_buffers() if id(b) in changing}
        self.names, self._statistics = list(parameters), list(buffers)
        pieces = list((parameters | buffers).items())
        self.shapes = [tuple(p.shape) for p in parameters.values()]
        sizes = [p.numel() for _, p in pieces]
        cuts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        self.pieces = [(name, tuple(p.shape), a, b) for (name, p), a, b in zip(pieces, cuts[:-1], cuts[1:], strict=True)]
        self.offsets = cuts[: len(parameters) + 1]
        self.trained, self.dim = self.offsets[-1], cuts[-1]
        owners = [isinstance(layers[name.rpartition(".")[0]], NORMS) for name, _ in pieces]
        self.normalising = np.repeat(owners, sizes)
        self._mine = self._held_by(module)
        norms = [part for part in layers.values() if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)]
        self.depends_on_batch = any(part.running_mean is None for part in norms)
        self.dropout: tuple[float, ...] = ()
        self.has_rows = True

    def _held_by(self, module: nn.Module) -> tuple[nn.Module, list[tuple[dict[str, Any], str, str]], list[nn.Module]]:
        """A module, the places of its pieces, and its layers whose statistics change."""
        return module, _places(module, [*self.names, *self._statistics]), [module.get_submodule(n) for n in self._running]

    def settle(self, inputs: Any) -> None:
        """Find out, on a few samples (n, ...), what a forward pass drops, and whether an output
        depends on the rest of its batch.

        Batches of several sizes are tried, since a module may drop nothing in small ones.
        """
        met: list[float] = []
        differ = self._depends(inputs, met)
        self.depends_on_batch |= bool(differ) and self._depends_in_double(inputs)
        self.dropout = tuple(met or _shares(self.module))

    def _depends(self, inputs: Any, met: list[float]) -> bool | None:
        """True if any output of a batch is another alone or in a larger batch; None where the
        module fails on all of them."""
        several = mapped(lambda t: torch.cat([t] * MANY), inputs)
        alone = [inputs[i : i + 1] for i in range(len(inputs))] if len(inputs) > 1 else []
        differ: bool | None = None
        for point in (self.initial(), *map(self._beside, range(BESIDE))):
            whole, *others = [self._tried(point, x, met) for x in (inputs, *alone, several)]
            if whole is None:
                continue  # which `check_model` tells
            self.has_rows = len(whole) > 0
            differ = bool(differ) or (others[-1] is not None and _differ(others[-1][: len(whole)], whole))
            differ |= any(one is None or _differ(one, whole[i : i + 1]) for i, one in enumerate(others[:-1]))
        return differ

    def _depends_in_double(self, inputs: Any) -> bool:
        """True if outputs that differ do so in double precision too: a recurrent network multiplies rounding a thousandfold.

        A module that does not run in double precision is held to depend on its batch.
        """
        if self.initial().dtype == torch.float64:
            return True
        try:
            twin = FlatModule(copy.deepcopy(self.module).double())
            return twin._depends(mapped(lambda t: t.double() if t.is_floating_point() else t, inputs), []) is not False
        except Exception:
            return True

    def _beside(self, seed: int) -> Tensor:
        """A point (d,) near the module's own, whose last layer may be zero."""
        draws = torch.randn(self.dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return (self.initial() + (0.5 if seed else 0.05) * draws.to(self.initial()))[: self.trained]

    def _tried(self, point: Tensor, inputs: Any, met: list[float]) -> Tensor | None:
        """Outputs that have a row for each sample, empty where there are others, None where the
        module fails; longer `met` dropouts."""
        keyed = KeyedDropout()
        given, named = arguments(inputs)
        try:
            with torch.no_grad(), self.holding(self.pieces_of(point)), keyed:
                outputs = self._own_module()[0](*given, **named)
        except FedTheoryError:
            raise
        except Exception:
            return None
        if len(keyed.shares) > len(met):
            met[:] = keyed.shares
        as_rows = isinstance(outputs, torch.Tensor) and outputs.ndim > 0 and len(outputs) == len(inputs) and outputs.is_floating_point()
        return outputs if as_rows else self.initial()[:0]

    def initial(self) -> Tensor:
        """The module's own parameters, and statistics, as a vector (D,)."""
        own = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        first = own[self.names[0]]
        return torch.cat([own[name].detach().reshape(-1).to(first.dtype) for name, *_ in self.pieces])

    def constants(self) -> list[Tensor]:
        """List what the module computes with and does not train: frozen parameters and buffers."""
        return [p.detach() for p in self.module.parameters() if not p.requires_grad] + list(self.module.buffers())

    def check_width(self, flat: Tensor) -> None:
        """Raise `InvalidInput` unless it is (..., D), or (..., d)."""
        if flat.shape[-1] not in (self.dim, self.trained):
            raise InvalidInput(f"parameters of shape {tuple(flat.shape)}: {type(self.module).__name__} has d = {self.dim}")

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The parameters' pieces of (..., D) or (..., d) as (..., *shape), without a copy."""
        self.check_width(flat)
        lead = flat.shape[:-1]
        return {name: flat[..., a:b].view((*lead, *shape)) for name, shape, a, b in self.pieces[: len(self.names)]}

    def statistics(self, flat: Tensor) -> dict[str, Tensor]:
        """The running statistics' pieces of a point (D,), without a copy and out of autograd's
        sight; of (d,) there are none, and the module's own are taken."""
        if flat.shape[-1] == self.trained:
            return {}
        return {name: flat.data[a:b].view(shape) for name, shape, a, b in self.pieces[len(self.names) :]}

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
        module, places, _ = self._own_module()
        given, named = arguments(inputs)
        with _in_place(places, pieces), KeyedDropout(key) if self.dropout else nullcontext():
            return module(*given, **named)

    @contextmanager
    def holding(self, pieces: dict[str, Tensor], train: bool = False) -> Iterator[None]:
        """While it is entered, the module has these pieces: for backward passes that compute parts
        of the forward pass again.

        train : forward passes normalise with the statistics of the batch, and change the running
            ones, in place
        """
        _, places, running = self._own_module()
        with _in_place(places, pieces):
            try:
                for layer in running:
                    layer.training = train
                yield
            finally:
                for layer in running:
                    layer.training = False

    def _own_module(self) -> tuple[nn.Module, list[tuple[dict[str, Any], str, str]], list[nn.Module]]:
        """The module, or this thread's copy of it, with `_held_by`: for the time of a call, it holds
        what it is called with."""
        if threading.current_thread() is threading.main_thread():
            return self._mine
        if not hasattr(_THREAD, "copies"):
            _THREAD.copies = weakref.WeakKeyDictionary()
        if self.module not in _THREAD.copies:
            _THREAD.copies[self.module] = self._held_by(copy.deepcopy(self.module))
        return _THREAD.copies[self.module]


class GivenModule:
    """A module as it was given, with its own device, dtypes and modes, of which copies with other parameters are made.

    Parameters
    ----------
    module : torch.nn.Module
        It is kept, not copied.
    flat : FlatModule
        Which of its parameters a point (d,) stands for.
    """

    def __init__(self, module: nn.Module, flat: FlatModule) -> None:
        self.module, self._type = module, type(module).__name__
        self._pieces, self.dim = flat.pieces, flat.dim

    def filled(self, x: Any, device: Any = None, dtype: Any = None) -> nn.Module:
        """A copy with the parameters x (d,) or (1, d), on another device or of another
        floating-point dtype where one is named.

        Raises `InvalidInput` for x of another shape, and where there is no such device or dtype.
        """
        kind = _floating(dtype)
        where = None if device is None else as_device(device)
        point = x.detach() if isinstance(x, torch.Tensor) else torch.tensor(real_array("x", x, finite=False))
        if point.shape not in ((self.dim,), (1, self.dim)):
            raise InvalidInput(
                f"x has shape {tuple(point.shape)}: {self._type} is made of one point, "
                f"({self.dim},) or (1, {self.dim}); of several give one row"
            )
        made, point = copy.deepcopy(self.module), point.reshape(-1)
        own = dict(made.named_parameters()) | dict(made.named_buffers())
        with torch.no_grad():
            for name, shape, first, last in self._pieces:
                piece = point[first:last].reshape(shape)
                own[name].copy_(piece if own[name].is_floating_point() else piece.round())
        return made.to(device=where, dtype=kind)


def _floating(dtype: Any) -> torch.dtype | None:
    """A floating-point dtype, by itself or by name; None stays None."""
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is None or (isinstance(found, torch.dtype) and found.is_floating_point):
        return found
    raise InvalidInput(f"dtype = {dtype!r}: use a floating-point dtype of torch, such as 'float32', or None for the module's own")
