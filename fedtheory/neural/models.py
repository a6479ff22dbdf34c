"""The papers' networks by name. Importing this module does not import torch; building one does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedtheory.errors import InvalidInput, MissingCapability, suggest

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Model", "get", "names"]


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
        """True if it takes numbers of characters, (b, length), of any length."""
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
        try:
            import torch

            from fedtheory.neural import networks
        except ModuleNotFoundError as error:
            told = "networks need torch, which is not installed: pip install 'fedtheory[torch]'"
            raise MissingCapability(told) from error

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
    Model("cnn-394-192", "cnn", {"filters": 64, "units": (394, 192)}, _IMAGE, citation="FedElasticNet, section 4, as printed"),
    Model("cnn-384-192", "cnn", {"filters": 64, "units": (384, 192)}, _IMAGE, citation=f"CIFAR: {_FEDDYN}"),
    Model(
        "char-lstm", "CharLstm", {**_CHARACTERS, "hidden": 100, "layers": 2}, (80,), 80,
        f"Shakespeare: {_MCMAHAN} (256 units); {_FEDDYN} (100 units)",
    ),
    Model(
        "char-lstm-32", "CharLstm", {**_CHARACTERS, "hidden": 32, "layers": 1}, (80,), 80,
        "No paper: one small enough for a CPU",
    ),
    Model("resnet20", "resnet20", {"groups": 2}, _IMAGE, citation=f"{_HE}; {_ELASTIC}"),
    Model(
        "resnet50", "resnet50", {"groups": 32},
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
