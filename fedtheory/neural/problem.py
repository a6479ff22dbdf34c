"""A neural network as a federated problem: the point is the flat parameter vector, a client's loss
the mean over its samples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from fedtheory.arrays import to_numpy
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import real_number, require, whole_number
from fedtheory.local.objective import LocalObjective, LocalResult, Rows
from fedtheory.local.sgd import MiniBatchSolver
from fedtheory.neural import evaluation, fisher, memory
from fedtheory.neural.augment import check_augment
from fedtheory.neural.captured import Walks
from fedtheory.neural.device import as_device, as_dtype, check_precision, exact_kernels
from fedtheory.neural.engines.base import Batch
from fedtheory.neural.engines.compiled import Compiling
from fedtheory.neural.engines.select import engine_for
from fedtheory.neural.flat import FlatModule, GivenModule, as_module_takes, check_parameters, unmoved
from fedtheory.neural.losses import Loss
from fedtheory.neural.parts import made, repeated
from fedtheory.neural.plans import Plans
from fedtheory.neural.samples import (
    as_samples,
    check_counted,
    check_finite,
    check_held,
    own_tests,
    sample_numbers,
)
from fedtheory.neural.sgd import walk
from fedtheory.neural.torch_datasets import samples_of_all
from fedtheory.neural.torch_losses import known_loss
from fedtheory.neural.trials import check_ends, check_model
from fedtheory.problems.base import Problem, check_layers, check_weights, weights_after
from fedtheory.problems.checks import check_samples as check_selected

__all__ = ["NeuralProblem"]

TRIED = 4  # samples that the module and the loss are tried on


class NeuralProblem(Problem):
    """min over R^d of sum_k w_k f_k, f_k(y) = (1/n_k) sum_i loss(module_y(input_ki),
    target_ki) + ridge/2 ||y||^2.

    Parameters
    ----------
    module : torch.nn.Module
        Used as a function of its parameters, but those with requires_grad=False, which stay as they
        are. Running statistics of BatchNorm in train mode are the last ``statistics`` coordinates of
        a point: local steps change them, rounds average them, and what is measured takes them as
        constants (`fedtheory.neural.flat.FlatModule`). Dropout is drawn in
        the local steps of `fedtheory.local.SGD` and its kin, and off in all that is measured. A
        module whose output for a sample depends on the rest of its batch, as with batch statistics,
        is found out on a few samples: its loss is that of each batch as a whole, and no batch is
        padded.
    inputs, targets : arrays or tensors (n, ...), or dicts or tuples of them
        All clients' samples. The module is called with a dict's entries as keyword arguments, with
        a tuple's as positional ones. Targets of several parts go with a loss of one's own, which is
        given them as they came. Those of the type and on the device that are needed are not copied,
        as data sets are large. Write into neither them nor the problem's `inputs`, `targets` and
        `test`: torch has no tensors that are read-only.
    samples_on : None or 'cpu'
        Where samples lie: on the device, or, where they do not fit it, in main memory, test samples
        too, and memory-mapped arrays in their files. Each batch is then brought to the device;
        steps are neither compiled nor recorded.
    clients : N sequences of sample numbers, each once, or a `fedtheory.problems.Partition`
        Clients may share samples: those that hold the same ones are alike.
    loss : 'cross_entropy', 'squared_error', 'mean_squared_error', or callable(outputs,
        targets) -> scalar, the mean over the batch; torch's own, as modules or functions, are known
        with their options (`neural.torch_losses`).
    ridge : float >= 0
        The weight decay of the papers' experiments.
    weights : 'samples', 'uniform' or N numbers
        w_k of the objective.
    test : (inputs, targets) or None
    test_clients : N sequences of test sample numbers, or None
        The test samples that are each client's own; a client may have none.
    device : 'cpu', 'cuda', 'cuda:0'...
    dtype : 'float32' or 'float64'
    engine : 'auto', 'stacked' or 'loop'
        How the clients' gradients are computed; the numbers are the same to rounding.
    autocast : None or 'bfloat16'
        Mixed precision of the training's forward and backward passes, for dtype='float32'; losses,
        parameters and updates stay in single precision, and what is measured is computed in it.
    precision : 'highest' or 'tf32'
        Of the products and convolutions of training steps in float32 on a GPU: 'tf32' rounds their
        factors to 11 binary digits.
    augment : None or 'flip-crop'
        Images (n, channels, height, width) are mirrored and cropped at random, anew each time that
        `fedtheory.local.SGD` takes them, as in FedDyn's public code (`fedtheory.neural.augment`);
        what is measured is measured on the images as they are.
    rows_at_once : int or None
        Models that are trained side by side (default: as many as fit the memory).

    Raises
    ------
    InvalidInput
        Samples that are no real numbers, or not finite (targets of a loss of one's own may be
        anything); no clients or empty ones, sample numbers out of range or named twice by a client;
        no module, one without sizes (lazy layers), or what torch says of module and loss on a few
        samples; options of other names, or that need a GPU, single precision or images.
    MissingCapability
        Random numbers but for dropout, complex parameters, running statistics of no torch layer; an
        engine that cannot do this module.
    """

    convex = False

    def __init__(
        self, module: nn.Module, inputs: Any, targets: Any, clients: Sequence[Any],
        loss: str | Callable[[Any, Any], Any] = "cross_entropy", ridge: float = 0.0,
        weights: Any = "samples", test: tuple[Any, Any] | None = None,
        test_clients: Sequence[Any] | None = None, device: str = "cpu", dtype: str = "float32",
        engine: str = "auto", autocast: str | None = None, augment: str | None = None,
        rows_at_once: int | None = None, name: str = "neural network", precision: str = "highest",
        samples_on: str | None = None,
    ) -> None:
        self.name, self.device, self.dtype = name, as_device(device), as_dtype(dtype)
        where = "use 'cpu', or None for the device"
        require(samples_on in (None, "cpu"), "samples_on", samples_on, where)
        self.on_host = samples_on is not None
        self.precision = check_precision(precision, self.device, self.dtype)
        check_parameters(module)
        given = copy.deepcopy(module)
        self.flat = FlatModule(unmoved(copy.deepcopy(given).to(self.device, self.dtype)))
        self.given = GivenModule(given, self.flat)
        Loss(loss)  # refuses what is none
        if isinstance(loss, torch.nn.Module):  # class weights lie where the module does
            loss = copy.deepcopy(loss).to(self.device, self.dtype)
        self.ridge = real_number("ridge", ridge, least=0)
        at_once = rows_at_once
        self.rows_at_once = None if at_once is None else whole_number("rows_at_once", at_once)
        self.walks, self.batch_plans = Walks(), Plans(ahead=self.device.type == "cuda")
        self.compiling = Compiling()
        self.fitting: dict[str, int] = {}  # where memory was short: how much of which work fitted it, for subsets too
        self._clients = sample_numbers("clients", clients)
        self.sample_counts = np.array([len(c) for c in self._clients])
        self.most_samples = max(map(len, self._clients), default=0)  # of a client, also for subsets
        self.inputs, self.targets = self._samples("inputs", inputs, small=True), self._samples("targets", targets)
        check_held(self._clients, len(self.inputs), len(self.targets))
        self.num_clients, self.dim, self.statistics = len(self._clients), self.flat.dim, self.flat.dim - self.flat.trained
        self.normalising = self.flat.normalising
        self.weights = check_weights(weights, self.sample_counts)
        check_augment(augment, self.inputs)
        self.augment = augment
        self.test: tuple[Any, Any] | None = None
        if test is not None:
            x, t = test
            t = self._samples("test targets", t)
            self.test = self._samples("test inputs", x, small=True), t
            counts, how = [*map(len, self.test)], "give one target a sample, at least one"
            require(counts[0] == counts[1] > 0, "test", counts, how)
        tests = 0 if self.test is None else len(self.test[1])
        self._tested = None if test_clients is None else own_tests(test_clients, self.num_clients, tests)
        if autocast is not None and (autocast != "bfloat16" or self.dtype != torch.float32):
            raise InvalidInput(f"autocast = {autocast!r} with dtype = {dtype!r}: use 'bfloat16' with float32, or None")
        largest = max(self._clients, key=len)
        first = torch.from_numpy(largest[np.linspace(0, len(largest) - 1, min(TRIED, len(largest))).astype(int)]).to(self.device)
        few = as_module_takes(self.inputs[first]), self.targets[first]
        sets = {"": (self.inputs, self.targets)}
        sets |= {} if self.test is None else {"test ": self.test}
        with exact_kernels(self.device):
            self.flat.settle(few[0])
            self.loss = known_loss(loss, [t for _, t in sets.values()], self.flat, *few)
            for what, (x, t) in sets.items():
                check_finite(f"{what}inputs", x)
                if self.loss.weighted:  # a loss of the user's own may understand others
                    check_finite(f"{what}targets", t)
            own = copy.deepcopy(self.flat.module)  # which is changed; weight_norm keeps its weight
            check_model(own, loss, few)
            check_ends(self.flat.module, loss, sets, np.unique(np.concatenate(self._clients)))
            check_counted(self.loss, self.targets, self._clients)
            self.engine = engine_for(engine, self.flat, self.loss, *few, autocast)

    @classmethod
    def from_dataset(
        cls, module: nn.Module, dataset: Any, clients: Sequence[Any] | None = None,
        loss: str | Callable[[Any, Any], Any] = "cross_entropy", *, target: str | None = None,
        test: Any = None, progress: bool = True, **options: Any,
    ) -> Self:
        """The problem on the samples of a torch Dataset, or of a list of them, one for each client.

        Parameters
        ----------
        dataset, target, progress : as `fedtheory.neural.torch_datasets.samples_of` takes them
        clients : N sequences of sample numbers, or a `Partition`; None with a list of Datasets
        test : a Dataset, or a list of one for each client, whose own test samples they are; or None
        options : what else `NeuralProblem` takes
        """
        require(
            isinstance(dataset, list | tuple) == (clients is None), "clients", clients,
            "give one Dataset with clients=[sample numbers of each], or a list of Datasets without",
        )
        inputs, targets, dealt = samples_of_all(dataset, target, progress)
        if test is not None:
            tested = samples_of_all(test, target, progress)
            options |= {"test": tested[:2], "test_clients": tested[2]}
        return cls(module, inputs, targets, clients if dealt is None else dealt, loss, **options)  # type: ignore[arg-type]  # one is given

    def _samples(self, what: str, values: Any, small: bool = False) -> Any:
        def one(name: str, values: Any) -> Any:
            with memory.explained(lambda: memory.of_samples(name, values, self.dtype), self.device):
                mask = name != what
                return as_samples(name, values, self.device, self.dtype, small, mask, self.on_host)

        return made(what, values, one)

    @property
    def client_samples(self) -> list[np.ndarray]:
        """The numbers of the samples that each client holds: N int64 arrays (n_k,), copies."""
        return [held.copy() for held in self._clients]

    @property
    def tested(self) -> list[np.ndarray] | None:
        """The numbers of the test samples that are each client's own: N int64 arrays, copies; None
        without `test_clients`."""
        return None if self._tested is None else [own.copy() for own in self._tested]

    # --- the point --------------------------------------------------------------------------------
    def initial(self) -> Tensor:
        """The module's own parameters (d,), where a run usually starts."""
        return self.flat.initial()

    def module(self, x: Any, device: Any = None, dtype: Any = None) -> nn.Module:
        """The module as it was given with the parameters x (d,) or (1, d), as of a run:
        `fedtheory.neural.TrainingRun.module`."""
        return self.given.filled(x, device, dtype)

    def like_array(self) -> Tensor:
        """The array for ``simulate(..., like=...)``: a run stays on this device and dtype."""
        return torch.empty(0, device=self.device, dtype=self.dtype)

    def like(self, x: Any) -> NeuralProblem:
        if not isinstance(x, torch.Tensor) or x.dtype != self.dtype or x.device.type != self.device.type:
            kind = f"{x.dtype} on {x.device}" if isinstance(x, torch.Tensor) else type(x).__name__
            raise MissingCapability(
                f"a point of {kind} for a network of {self.dtype} on {self.device}: call simulate(..., like=problem.like_array())"
            )
        return self

    def in_double(self, x: Tensor) -> Tensor:
        """A network is judged as it is used: in its own precision."""
        return x

    def subset(self, clients: np.ndarray) -> NeuralProblem:
        other = copy.copy(self)
        other._clients = [self._clients[int(k)] for k in clients]
        other.num_clients, other.sample_counts = len(clients), self.sample_counts[clients]
        if self.held_out is not None:
            other.held_out = self.held_out.subset(clients)
        if self._tested is not None:
            other._tested = [self._tested[int(k)] for k in clients]
        w = self.weights[clients]
        other.weights = w / w.sum() if w.sum() > 0 else np.full(len(clients), 1.0 / len(clients))
        return other

    # --- kernels ----------------------------------------------------------------------------------
    @memory.computed_there
    def client_batch_gradient(self, y: Tensor, samples: Any) -> Tensor:
        if self.augment is not None:
            raise MissingCapability(f"augment = {self.augment!r} goes with fedtheory.local.SGD only: use it, or leave augment out")
        if self.flat.dropout or self.statistics:
            what = "dropout is drawn" if self.flat.dropout else "running statistics change"
            raise MissingCapability(f"{what} in the steps of local.SGD and its kin, not in gradients at samples: .eval()")
        samples = to_numpy(samples)
        n, b, d = y.shape
        index = np.stack([self._clients[k][samples[k]] for k in range(n)]).reshape(n * b, -1)
        where = torch.from_numpy(index).to(self.device)
        flat = y.reshape(-1, d)

        def piece(part: slice) -> Tensor:
            return self.engine.gradient(flat[part], Batch(self.inputs[where[part]], self.targets[where[part]]))

        out = torch.cat(memory.in_chunks(self, n * b, None, piece, "batches"))
        return (out + self.ridge * flat).reshape(n, b, d)

    @memory.computed_there
    def client_gradient(self, y: Tensor) -> Tensor:
        out = torch.stack([self._full(self._clients[k], at, "gradients") for k, at in enumerate(y)])
        out[..., : self.flat.trained] += self.ridge * y[..., : self.flat.trained]
        return out

    @memory.computed_there
    def client_value(self, y: Tensor) -> Tensor:
        values = torch.stack([self._full(self._clients[k], at, "values") for k, at in enumerate(y)])
        return values + self.ridge / 2 * y[..., : self.flat.trained].square().sum(dim=-1)

    def smoothness(self) -> np.ndarray:
        raise MissingCapability(
            "a network has no exact local solver, and no smoothness constant: use local.SGD(batch_size, lr, epochs=...)"
        )

    def check_output(self) -> None:
        fisher.check_output(self)

    @memory.computed_there
    def client_output_gradient(self, y: Tensor, first: int, last: int) -> Tensor:
        return fisher.output_gradient(self, y, first, last)

    def layers(self, kind: str = "module") -> list[slice]:
        check_layers(kind)
        names, cuts = self.flat.names, [*self.flat.offsets[:-1], self.dim]
        if kind == "model":
            return [slice(0, self.dim)]
        if kind == "module":
            owners = [name.rpartition(".")[0] for name in names]
            cuts = [a for a, owner, before in zip(cuts[:-1], owners, [None, *owners[:-1]], strict=True) if owner != before] + [self.dim]
        return [slice(a, b) for a, b in pairwise(cuts)]

    def select(self, samples: Sequence[np.ndarray]) -> Self:
        taken = check_selected(self, samples)
        other = copy.copy(self)
        other._clients = [held[s] for held, s in zip(self._clients, taken, strict=True)]
        other.sample_counts = np.array([len(c) for c in other._clients])
        check_held(other._clients, len(self.inputs), len(self.targets))
        other.weights = weights_after(self, other.sample_counts)
        return other

    def _full(self, samples: np.ndarray, y: Tensor, kind: str) -> Tensor:
        """Mean loss (B,) or its gradient (B, d) over all samples of one client at B points."""
        total, mass = torch.zeros((), device=self.device), evaluation.counts(self, samples)
        compute = self.engine.gradient if kind == "gradients" else self.engine.value
        piece = evaluation.alike(len(samples))
        for a in range(0, len(samples), piece):
            part = torch.from_numpy(samples[a : a + piece]).to(self.device)
            x, t = self.inputs[part], self.targets[part]

            def some(points: slice, x: Any = x, t: Any = t) -> Tensor:
                z = y[points]
                return compute(z, Batch(repeated(x, len(z)), repeated(t, len(z))))

            found = torch.cat(memory.in_chunks(self, len(y), None, some, kind))
            total = total + float(mass[a : a + piece].sum() / mass.sum()) * found
        return total

    @memory.computed_there
    def objective(self, x: Tensor) -> Tensor:
        """F at (..., d), from one pass over all samples."""
        self.like(x)
        if not self.loss.weighted or self.flat.depends_on_batch:  # a mean over samples of several clients would be another one
            return super().objective(x)
        return evaluation.objective(self, self.weights, x)

    @memory.computed_there
    def evaluate(self, x: Tensor) -> dict[str, np.ndarray]:
        """Test accuracy (a share) and mean test loss of server models (S, d): {'test_accuracy':
        (S,), 'test_loss': (S,)}."""
        self.like(x)
        means, _ = evaluation.on_test_set(self, x.reshape(-1, self.dim))
        return {"test_accuracy": means[:, 0], "test_loss": means[:, 1]}

    @memory.computed_there
    def evaluate_clients(self, x: Tensor, personal: Tensor | None = None) -> np.ndarray:
        """Accuracy on each client's own test samples, mean over the clients that have some: server
        models (S, d) -> (S,).

        Without `test_clients`, each client's test set is the common one, weighted so that its
        labels are as frequent as among the client's own samples. `personal` (S, N, d) are the
        clients' own models, where they have some.
        """
        return evaluation.accuracy_of_clients(self, x, personal)

    @memory.computed_there
    def fisher_diagonal(self, y: Tensor, kind: str) -> Tensor:
        """Compute the Fisher diagonals (N, B, d) -> (N, B, d) for `fedtheory.clients.fisher`."""
        return fisher.fisher_diagonal(self, y, kind)

    def check_fisher(self, kind: str) -> None:
        fisher.check_fisher(self, kind)

    # --- local training ---------------------------------------------------------------------------
    @memory.computed_there
    def walk(self, solver: MiniBatchSolver, objective: LocalObjective, start: Tensor, rows: Rows) -> LocalResult:
        """Mini-batch steps of all rows side by side: what `fedtheory.local.SGD` asks of problems
        that bring their own loop."""
        return walk(self, solver, objective, start, rows)
