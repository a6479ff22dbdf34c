"""The interface of a network that training, evaluation and Fisher diagonals are written against.

The modules that do the work (`sgd`, `threads`, `memory`, `fisher`) are written against
`NetworkOnSamples`, and `NeuralProblem`, which calls them, provides it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import torch

    from fedtheory.neural.engines.base import Engine
    from fedtheory.neural.flat import FlatModule
    from fedtheory.neural.losses import Loss

__all__ = ["NetworkOnSamples"]


class NetworkOnSamples(Protocol):
    """A network as a function of its flat parameters (d,), and the samples that N clients hold."""

    num_clients: int
    dim: int
    device: torch.device
    dtype: torch.dtype
    flat: FlatModule  # the network
    loss: Loss
    engine: Engine  # how losses and gradients of several models are computed
    ridge: float  # the weight decay that belongs to the loss
    inputs: Any  # all clients' samples: (n, ...) tensors, or `Parts`
    targets: Any
    on_host: bool  # whether samples stay in main memory, and batches come to the device
    sample_counts: np.ndarray  # (N,), of each client
    most_samples: int  # of a client, also of those that a subset has left out
    test: tuple[Any, Any] | None  # test inputs and targets
    precision: str  # 'highest' or 'tf32', of the products of training steps
    augment: str | None  # what is done to images before they are trained on
    rows_at_once: int | None  # models trained side by side; None: as many as fit the memory
    walks: Any  # `captured.Walks`: recorded steps, on a GPU
    batch_plans: Any  # `plans.Plans`: the next round's mini-batches, where they were made ahead
    compiling: Any  # `engines.compiled.Compiling`: the wait for compiled steps
    fitting: dict[str, int]  # of each kind of work that memory was short for, how much fitted it

    def subset(self, clients: np.ndarray) -> Any:
        """The problem of these clients alone."""

    @property
    def client_samples(self) -> list[np.ndarray]:
        """The numbers of the samples that each client holds: N int64 arrays (n_k,)."""

    @property
    def tested(self) -> list[np.ndarray] | None:
        """The numbers of the test samples that are each client's own, or None."""
