"""The shape of every federated method: a frozen dataclass of hyperparameters with ``init`` and ``round``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from fedtheory.arrays import Array, namespace
from fedtheory.errors import InvalidInput

if TYPE_CHECKING:
    from fedtheory.clients import Clients

__all__ = ["Algorithm", "per_client", "require"]


def require(condition: bool, name: str, value: Any, limit: str) -> None:
    """Raise `InvalidInput` that names the hyperparameter, its value and its limit."""
    if not condition:
        raise InvalidInput(f"{name} = {value!r}: {limit}")


def finite(value: float) -> bool:
    """Whether a hyperparameter is a finite real number."""
    return isinstance(value, int | float) and math.isfinite(value)


def per_client(x: Array, num_clients: int) -> Array:
    """A zero memory for every client: x (S, d) -> (S, N, d)."""
    xp = namespace(x)
    return xp.zeros_like(xp.broadcast_to(x[:, None, :], (x.shape[0], num_clients, x.shape[1])))


class Algorithm:
    """A federated method. Its state is a NamedTuple of arrays with the server model ``x`` (S, d) first."""

    name: ClassVar[str]
    source: ClassVar[str]

    def init(self, x: Array, num_clients: int) -> Any:
        """State before round 1: x (S, d)."""
        raise NotImplementedError

    def round(self, state: Any, clients: Clients) -> Any:
        """State after one round."""
        raise NotImplementedError
