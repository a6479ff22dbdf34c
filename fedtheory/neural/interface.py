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
    """A network as a function of its flat parameters (d,), and the samples that N clients hold.

    Attributes
    ----------
    flat : FlatModule
        The network.
    loss : Loss
    engine : Engine
        How losses and gradients of several models are computed.
    ridge : float
        The weight decay that belongs to the loss.
    inputs, targets : (n, ...) tensors, or `Parts`
        All clients' samples.
    client_samples : N int64 arrays (n_k,)
        The numbers of the samples that each client holds.
    sample_counts : (N,)
        n_k.
    most_samples : int
        Of a client, also of those that a subset has left out.
    test : (inputs, targets) or None
        Test samples.
    tested : N int64 arrays, or None
        The numbers of the test samples that are each client's own.
    precision : 'highest' or 'tf32'
        Of the products of training steps.
    augment : str or None
        What is done to images before they are trained on.
    rows_at_once : int or None
        Models that are trained side by side; None: as many as fit the memory.
    walks : captured.Walks
        Recorded steps, on a GPU.
    batch_plans : plans.Plans
        The plan of the next round's mini-batches, where it was made ahead.
    compiling : engines.compiled.Compiling
        The wait for compiled steps.
    fitting : dict
        By kind of work, how much of it fitted the memory where it was short; written to as that is found out.
    """

    num_clients: int
    dim: int
    device: torch.device
    dtype: torch.dtype
    flat: FlatModule
    loss: Loss
    engine: Engine
    ridge: float
    inputs: Any
    targets: Any
    sample_counts: np.ndarray
    most_samples: int
    test: tuple[Any, Any] | None
    precision: str
    augment: str | None
    rows_at_once: int | None
    walks: Any
    batch_plans: Any
    compiling: Any
    fitting: dict[str, int]

    @property
    def client_samples(self) -> list[np.ndarray]: ...

    @property
    def tested(self) -> list[np.ndarray] | None: ...
