"""fedtheory: run the convergence theorems of federated optimisation, and prove or refute them."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public names and where they live; imported when first used, so that `import fedtheory` stays fast.
_LAZY = {
    "simulate": "fedtheory.simulation",
    "Trajectory": "fedtheory.simulation",
    "Full": "fedtheory.participation",
    "Uniform": "fedtheory.participation",
    "Bernoulli": "fedtheory.participation",
    "worst_case": "fedtheory.worst_cases",
}
_MODULES = (
    "algorithms", "central", "errors", "local", "messages", "optimum", "participation", "problems",
    "rates", "testing", "theorems", "theory", "worst_cases",
)  # fmt: skip

__all__ = ["__version__", *_LAZY, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name in _MODULES:
        return import_module(f"fedtheory.{name}")
    raise AttributeError(f"module 'fedtheory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
