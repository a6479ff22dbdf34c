"""The papers' networks by name. Importing this module does not import torch; building one does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability, suggest

if TYPE_CHECKING:
    from torch import nn

    from fedtheory.neural.flat import FlatModule
    from fedtheory.neural.losses import Loss

__all__ = ["Model", "check_model", "get", "names"]


@dataclass(frozen=True)
class Model:
    """A network that can be built.

    Attributes
    ----------
    name : str
    builder : str
        The function or class of `fedtheory.neural.networks`.
    options : mapping
        What it is built with; `build` may override them.
    input_shape : tuple of int
        Of the paper's data; `build` may override it.
    num_classes : int
    citation : str
    """

    name: str
    builder: str
    options: Mapping[str, Any] = field(default_factory=dict)
    input_shape: tuple[int, ...] = (1, 28, 28)
    num_classes: int = 10
    citation: str = ""

    @property
    def reads_text(self) -> bool:
        """True if it takes numbers of characters or words, (b, length), of any length."""
        return "vocabulary" in self.options

    def build(
        self, input_shape: tuple[int, ...] | None = None, num_classes: int | None = None, seed: int = 0, **options: Any
    ) -> nn.Module:
        """A new module, its parameters drawn on the CPU from this seed; torch's global generator is left as it was.

        Raises
        ------
        MissingCapability
            torch is not installed.
        InvalidInput
            An input shape that the network cannot take, numbers out of range, an option that it does not have.
        """
        torch = _torch()
        from fedtheory.neural import networks

        shape = self.input_shape if input_shape is None else tuple(input_shape)
        classes = self.num_classes if num_classes is None else num_classes
        if not all(isinstance(n, int) and n >= 1 for n in (*shape, classes)):
            raise InvalidInput(f"input_shape {shape} and num_classes {classes!r}: they must be integers >= 1")
        if not isinstance(seed, int) or seed < 0:
            raise InvalidInput(f"seed is {seed!r}: it must be an integer >= 0")
        if unknown := set(options) - set(self.options):
            raise InvalidInput(
                f"{self.name} has no option {sorted(unknown)[0]!r}; it has: {', '.join(self.options) or 'none'}"
            )
        make: Callable[..., nn.Module] = getattr(networks, self.builder)
        lead = () if self.reads_text else (shape,)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return make(*lead, num_classes=classes, **{**self.options, **options})


_FEDDYN = "Acar et al. (FedDyn), ICLR 2021, and its public code, which FedElasticNet's Table 2 was made with"
_MCMAHAN, _HE = "McMahan et al., AISTATS 2017", "He et al., CVPR 2016"
_ELASTIC = "Elastic Aggregation's table"
_IMAGE, _CHARACTERS = (3, 32, 32), {"vocabulary": 80, "embedding": 8}
_MODELS = (
    Model("logistic", "logistic", citation=f"{_ELASTIC} (MNIST)"),
    # FedElasticNet's text reads FedDyn's '200 and 100 neurons' as two widths of one network; they
    # are the widths of two.
    Model("mlp-200-100", "mlp", {"hidden": (200, 100)}, citation="FedElasticNet, section 4, as its text has it"),
    Model("mlp-200-200", "mlp", {"hidden": (200, 200)}, citation=f"MNIST: {_MCMAHAN}; {_FEDDYN}"),
    Model("mlp-100-100", "mlp", {"hidden": (100, 100)}, citation=f"EMNIST-L: {_FEDDYN}"),
    Model(
        "cnn-394-192", "cnn", {"filters": 64, "units": (394, 192)}, _IMAGE,
        citation="FedElasticNet, section 4, as printed",
    ),
    Model(
        "cnn-384-192", "cnn", {"filters": 64, "units": (384, 192)}, _IMAGE,
        citation=f"CIFAR: {_FEDDYN}",
    ),
    Model(
        "char-lstm", "CharLstm", {**_CHARACTERS, "hidden": 100, "layers": 2}, (80,), 80,
        f"Shakespeare: {_MCMAHAN} (256 units); {_FEDDYN} (100 units)",
    ),
    Model(
        "char-lstm-32", "CharLstm", {**_CHARACTERS, "hidden": 32, "layers": 1}, (80,), 80,
        "No paper: one small enough for a CPU",
    ),
    Model(
        "word-lstm", "WordLstm",
        {"vocabulary": 5000, "embedding": 100, "hidden": 100, "layers": 2}, (25,), 2,
        "Sentiment140: Caldas et al. (LEAF), 2018, and its public code, whose two linear layers without a nonlinearity between are one",
    ),
    Model("resnet20", "ResNet20", {"groups": 2}, _IMAGE, citation=f"{_HE}; {_ELASTIC}"),
    Model(
        "resnet50", "ResNet50", {"groups": 32},
        citation=f"{_HE}, with Wu and He's GroupNorm (ECCV 2018); EFL, section 5 (MNIST)",
    ),
    Model(
        "vgg11s", "vgg11s", {}, _IMAGE, 100,
        "VGG11* of Sattler et al. (STC), TNNLS 2020; EFL, section 5",
    ),
    Model(
        "emnist-cnn", "emnist_cnn", {"units": 512}, num_classes=62,
        citation=f"{_MCMAHAN}; {_ELASTIC}",
    ),
    Model("cnn-8-16", "emnist_cnn", {"units": 32, "filters": (8, 16)}, (1, 8, 8), citation="No paper: one small enough for a CPU"),
)  # fmt: skip
_BY_NAME = {m.name: m for m in _MODELS}


def names() -> list[str]:
    """The names `get` knows."""
    return list(_BY_NAME)


def get(name: str) -> Model:
    """The network of that name; ``get(name).build(...)`` makes a module.

    Raises
    ------
    UnknownName
        With the nearest names.
    """
    if name not in _BY_NAME:
        raise suggest(name, _BY_NAME, "model")
    return _BY_NAME[name]


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingCapability(
            "networks need torch, which is not installed: pip install 'fedtheory[torch]'"
        ) from error
    return torch


def check_model(
    module: nn.Module, loss: Any = "cross_entropy", sample: tuple[Any, Any] | None = None, whole: tuple[Any, Any] | None = None
) -> None:
    """Refuse what cannot be trained here, before anything is.

    Parameters
    ----------
    loss : name or callable, as `NeuralProblem` takes it
    sample : (inputs, targets), as `NeuralProblem` has them, or None
        A small batch, on which the loss is evaluated once.
    whole : (inputs, targets) or None
        All samples, whose shapes an error tells; None: those of the batch.

    Raises
    ------
    MissingCapability
        A layer whose running statistics change (BatchNorm), or with another buffer that changes; a
        forward pass that draws at random but for dropout; complex parameters.
    InvalidInput
        No torch module; no parameters, or some without a size yet (lazy layers); a module that
        cannot take the inputs, or a loss that fails on its outputs, is not a scalar, or not
        differentiable.
    UnknownName
        No loss of that name.
    """
    torch = _torch()
    from fedtheory.neural.dropout import KeyedDropout, drawing_nothing
    from fedtheory.neural.flat import FlatModule, arguments
    from fedtheory.neural.losses import Loss
    from fedtheory.neural.parts import described, mapped, tensors
    from fedtheory.neural.trials import remedy

    flat = FlatModule(module)
    measure = Loss(loss)
    if sample is None:
        return
    given_samples = sample
    inputs, targets = sample = tuple(mapped(lambda t: t.clone(), part) for part in sample)
    versions = [t._version for part in sample for t in tensors(part)]
    kept = {name: value.clone() for name, value in module.named_buffers()}
    device = tensors(inputs)[0].device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        outputs = None
        try:
            given, named = arguments(inputs)
            with KeyedDropout() as dropout, drawing_nothing(module, device):  # dropout's masks follow from keys
                outputs = module(*given, **named)
                if outputs is None:
                    raise InvalidInput(f"{type(module).__name__} returns None: let forward return what the loss takes")
                value = measure(outputs, targets)
        except FedTheoryError:
            raise
        except Exception as error:  # whatever a user's module or loss raises
            shapes = " and ".join(described(what, part) for what, part in zip(("inputs", "targets"), whole or sample, strict=True))
            raise InvalidInput(
                f"{type(module).__name__} with the loss {measure.name} fails on {shapes}: {type(error).__name__}: {error}"
                f"{remedy(module, loss, *given_samples, outputs, error)}"
            ) from error
        if versions != [t._version for part in sample for t in tensors(part)]:
            raise MissingCapability(
                f"{type(module).__name__} or its loss changes the samples it is given in place, which every client would then see: "
                "give its first layer inplace=False, and write x = x / 2 for x /= 2"
            )
        _check_repeats(module, sample, outputs)
        try:
            if dropout.shares and value.requires_grad:
                _check_backward(module, measure, sample)
            if value.requires_grad:
                _check_gradient(flat, measure, sample)
        except FedTheoryError:
            raise
        except RuntimeError as error:  # of torch
            said = str(error).split(". Hint")[0]
            if "modified by an inplace operation" in said:
                said += "; give nn.Dropout, and activations, inplace=False"
            raise InvalidInput(f"the backward pass of {type(module).__name__} with the loss {measure.name} fails: {said}") from error
    for name, held in kept.items():
        if not torch.equal(module.get_buffer(name), held):
            raise MissingCapability(
                f"a forward pass changes the buffer {name!r} of {type(module).__name__}, which is no parameter: clients' models would "
                "share it or lose it; use a module without such state"
            )
    if not value.requires_grad:
        raise InvalidInput(
            f"the loss {measure.name} does not depend on the parameters through torch operations: it has no gradient"
        )


def _check_repeats(module: nn.Module, sample: tuple[Any, Any], outputs: Any) -> None:
    """Raise `MissingCapability` where a second pass on the same samples has other outputs."""
    import torch
    from torch.utils._pytree import tree_leaves

    from fedtheory.neural.flat import computed

    with torch.no_grad():
        again = computed(module, sample[0])
    pairs = zip(tree_leaves(outputs), tree_leaves(again), strict=True)
    tensors = [(a.detach(), b) for a, b in pairs if isinstance(a, torch.Tensor) and a.is_floating_point() and a.shape == b.shape]
    if any(bool((a - b).abs().max() > 1e-5 * a.abs().max()) for a, b in tensors if a.numel()):
        raise MissingCapability(
            f"{type(module).__name__} computes something else in every forward pass, though parameters and samples are the same: keep "
            "no count in it, and put what changes with each pass (spectral_norm, say) into eval mode"
        )


def _check_backward(module: nn.Module, measure: Loss, sample: tuple[Any, Any]) -> None:
    """Raise `MissingCapability` where a backward pass computes dropout again, without the key that the forward pass had."""
    import torch

    from fedtheory.neural.flat import computed
    from fedtheory.neural.parts import mapped

    parameters, found = [p for p in module.parameters() if p.requires_grad], []
    for seed in (0, 1, 2):  # of torch's own numbers, which checkpoints keep and draw from
        torch.manual_seed(seed)
        key = torch.zeros((), dtype=torch.int64, device=parameters[0].device)
        outputs = computed(module, mapped(torch.clone, sample[0]), key)  # dropout may be in place
        found.append(torch.autograd.grad(measure(outputs, sample[1]), parameters, allow_unused=True))
    if not all(a is b or torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True)):
        raise MissingCapability(
            f"a backward pass of {type(module).__name__} computes dropout again (torch.utils.checkpoint?), with other masks than the "
            "forward pass had: put dropout outside of what is computed again, or turn it off with .eval()"
        )


def _check_gradient(flat: FlatModule, measure: Loss, sample: tuple[Any, Any]) -> None:
    """Raise `MissingCapability` where a module has another gradient once its parameters come from
    outside, as clients' models do."""
    import torch

    from fedtheory.neural.dropout import KeyedDropout
    from fedtheory.neural.flat import computed

    inputs, targets = sample
    pieces = {name: p.detach().requires_grad_() for name, p in flat.views(0.9 * flat.initial()).items()}  # not the module's own point
    own = dict(flat.module.named_parameters())
    mine, before = [own[name] for name in pieces], [(own[name].detach().clone(), own[name].grad) for name in pieces]
    with KeyedDropout(), torch.enable_grad():
        try:
            for p, piece in zip(mine, pieces.values(), strict=True):
                p.data.copy_(piece.detach())
                p.grad = None
            measure(computed(flat.module, inputs), targets).backward()
            wanted = [p.grad for p in mine]
        finally:
            for p, (value, gradient) in zip(mine, before, strict=True):
                p.data.copy_(value)
                p.grad = gradient
        with flat.holding(pieces):
            found = torch.autograd.grad(measure(flat.run(pieces, inputs), targets), list(pieces.values()), allow_unused=True)
    pairs = [(a, b) for a, b in zip(wanted, found, strict=True) if a is not None]
    off = math.sqrt(sum(float((a if b is None else a - b).square().sum()) for a, b in pairs))
    size = math.sqrt(sum(float(a.square().sum()) for a, _ in pairs))
    if math.isfinite(size) and not off <= 1e-3 * size + 1e-6:
        raise MissingCapability(
            f"{type(flat.module).__name__} has another gradient once its parameters are given from outside, as clients' models are: "
            "leave out what computes with parameters it has kept, and give torch.utils.checkpoint use_reentrant=False"
        )
