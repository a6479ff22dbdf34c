"""Federated problems: N losses f_k on R^d, their weights, and what is known exactly about them.

Kernels work in the *client-major* layout: ``y`` of shape (N, B, d) holds B points for each client, so that every kernel
is one batched matrix product. The public methods take points of any leading shape and broadcast.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from fedtheory._cvxpy import cvxpy
from fedtheory.arrays import Array, OwnArrays, astype_like, is_numpy, namespace, owned, sealed, to_numpy
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.inputs import check_finite, numbered, points, real_array, real_number
from fedtheory.optimum.certify import Optimum, certify
from fedtheory.optimum.duality import NonsmoothStructure, check_gap, check_radius
from fedtheory.optimum.lower_bounds import Structure
from fedtheory.optimum.on_ball import certify_on_ball
from fedtheory.problems.checks import LAYERS, check_layers, check_samples, check_weights, weights_after

__all__ = [
    "LAYERS", "Constants", "Problem", "check_finite", "check_layers", "check_samples",
    "check_weights", "prepared", "same_loss", "same_smoothness", "weights_after",
]


@dataclass(frozen=True)
class Constants(OwnArrays):
    """Exact constants of a problem; its arrays are read-only.

    Attributes
    ----------
    beta_k, mu_k : (N,)
        Smoothness and strong convexity of each f_k (where ``smoothness_exact`` is False, beta_k is an upper bound).
    beta : float
        max_k beta_k: the constant the theorems use.
    beta_joint, mu : float
        Smoothness and strong convexity of F = sum_k w_k f_k.
    dissimilarity_sq : float or None
        sum_k w_k ||grad f_k(x*)||^2 (None until an optimum is at hand).
    """

    beta_k: np.ndarray
    mu_k: np.ndarray
    beta: float
    beta_joint: float
    mu: float
    dissimilarity_sq: float | None = None


def same_loss(problem: Problem, kind: type[Problem]) -> bool:
    """True if the problem's loss is the one that `kind` defines: a subclass with a loss of its own is another function."""
    return all(getattr(type(problem), name, None) is getattr(kind, name, None) for name in ("client_value", "phi"))


def same_smoothness(problem: Problem, kind: type[Problem]) -> bool:
    """True if what is proved of `kind`'s beta_k is proved of the problem's: the loss, and what
    beta_k is made of, are `kind`'s."""
    names = ("smoothness", "curvature_max")
    return same_loss(problem, kind) and all(getattr(type(problem), n, None) is getattr(kind, n, None) for n in names)


OF_EACH = ("weights", "sample_counts")


def part_of(data: Array, clients: np.ndarray) -> Array:
    """Some clients' entries of an array of all, (N, ...) -> (P, ...), read-only under NumPy.

    Of neighbours it is a view.
    """
    first, last = int(clients[0]), int(clients[0]) + len(clients)
    if int(clients[-1]) == last - 1 and np.array_equal(clients, np.arange(first, last)):
        return data[first:last, ...]
    if not is_numpy(data):
        return namespace(data).take(data, astype_like(clients, data), axis=0)
    part = data.take(clients, axis=0)
    part.flags.writeable = False
    return part


def prepared(problem: Problem, what: str, make: Callable[[], Any]) -> Any:
    """Make something of a problem's data once, and keep it until an attribute is set anew."""
    kept = problem.__dict__.setdefault("_prepared", {})
    if what not in kept:
        kept[what] = make()
    return kept[what]


class Problem:
    """min_x F(x) = sum_k w_k f_k(x).

    A subclass sets ``num_clients, dim, weights, sample_counts``, names its per-client arrays in ``client_data`` and
    gives the kernels below. What it cannot do raises `MissingCapability` with the capability's name.

    A NumPy array that becomes an attribute is read-only, and a copy where anybody could write to it:
    optima and constants are computed once and kept. Another array or number in its place is a new
    problem, whose optimum and constants are computed anew.
    """

    name: str = "problem"
    convex: bool = True
    ridge: float = 0.0  # of ridge/2 ||x||^2, where every f_k has that term (weight decay, for `fedtheory.local.SGD`'s clipping)
    constant_hessian: bool = False  # client_hessian then gives (N, 1, d, d): f_k is quadratic
    few_samples: bool = False  # gradients that go through the samples are cheaper than products with Hessians
    statistics: int = 0  # coordinates at the end of a point that are a network's running statistics
    normalising: np.ndarray = np.zeros(0, dtype=bool)  # (d,), which coordinates are those of a network's normalisation layers
    num_clients: int
    dim: int
    weights: np.ndarray
    _whole: tuple[list[Any], Any]  # of one that was taken from another: that one, in a list, and its clients
    sample_counts: np.ndarray
    client_data: ClassVar[tuple[str, ...]] = ()
    max_conic_entries: int | None = None  # `optimum` leaves cvxpy out above so many entries; None: never
    partition: Mapping[str, Any] | None = None  # how data were dealt, where the command line did it
    held_out: Problem | None = None  # the clients' samples that are not trained on (`fedtheory.problems.hold_out`)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value = owned(value)
        if isinstance(value, np.ndarray | float | int) and name in self.__dict__:
            self._begin_anew()
        if name[0] != "_":
            self.__dict__.pop("_prepared", None)
        object.__setattr__(self, name, value)

    def _one_loss_each(self, num_clients: int, dim: int, weights: Any = "uniform") -> None:
        """Set what a problem needs whose clients count as one sample each."""
        self.num_clients, self.dim = num_clients, dim
        self.sample_counts = np.ones(num_clients)
        self.weights = check_weights(weights, self.sample_counts)

    def _begin_anew(self) -> None:
        """Forget what was worked out of an array or number that is about to be replaced.

        Parts that were taken before keep the problem as it was.
        """
        parts = self.__dict__.pop("_parts", None)
        if parts is not None:
            parts[0] = object.__new__(type(self))
            parts[0].__dict__.update(self.__dict__)
        of_class = [item for c in type(self).__mro__ for item in vars(c).items()]
        worked_out = [name for name, value in of_class if isinstance(value, cached_property)]
        for name in ("_optimum", "_optimum_on_ball", "_like", *worked_out):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> dict[str, Any]:  # what was `prepared` does not travel
        return {name: value for name, value in self.__dict__.items() if name not in ("_prepared", "_parts")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray | tuple):  # as arrays that become attributes, and not lists
                sealed(value)
        self.__dict__.update(state)

    # --- kernels, client-major: y (N, B, d) -------------------------------------------------------
    def client_value(self, y: Array) -> Array:
        """f_k(y_kb): (N, B, d) -> (N, B)."""
        raise MissingCapability(f"{type(self).__name__} has no value")

    def client_gradient(self, y: Array) -> Array:
        """grad f_k(y_kb): (N, B, d) -> (N, B, d)."""
        raise MissingCapability(f"{type(self).__name__} has no gradient")

    def client_hessian(self, y: Array) -> Array:
        """Hessians: (N, B, d) -> (N, B, d, d), or (N, 1, d, d) when they do not depend on y."""
        raise MissingCapability(f"{type(self).__name__} has no Hessian: choose a first-order local solver")

    def client_batch_gradient(self, y: Array, samples: Array) -> Array:
        """Mini-batch gradients: y (N, B, d), samples (N, B, b) indices below n_k -> (N, B, d); the mean over all
        samples of a client is ``client_gradient``."""
        raise MissingCapability(f"{type(self).__name__} has no mini-batch gradient: choose full gradient steps")

    def client_output_gradient(self, y: Array, first: int, last: int) -> Array:
        """Gradient of the mean of ||F(y; a)||_2^2 over a client's samples first..last - 1, F the
        model's output, no label used.

        (N, B, d) -> (N, B, d); a client with fewer samples takes those it has, and gives 0 where it
        has none.
        """
        raise MissingCapability(
            f"{type(self).__name__} has no model output (capability 'client_output_gradient'): use a linear model, softmax or a network"
        )

    def layers(self, kind: str = "module") -> list[slice]:
        """The layers' coordinates, consecutive pieces of 0..d; one layer where there is no network.

        kind: 'module' (what one module holds, weight and bias together), 'tensor' (each parameter
        by itself) or 'model' (all in one).
        """
        check_layers(kind)
        return [slice(0, self.dim)]

    def select(self, samples: Sequence[np.ndarray]) -> Self:
        """The problem on some of each client's samples only: N arrays of sample numbers below n_k, none of them empty.

        Weights n_k/n are taken anew; other weights are kept.
        """
        raise MissingCapability(f"{type(self).__name__} has no samples to select (capability 'select')")

    def smoothness(self) -> np.ndarray:
        """beta_k (N,)."""
        raise MissingCapability(f"{type(self).__name__} has no smoothness constant")

    def smoothness_exact(self) -> np.ndarray:
        """(N,) True where beta_k is proved to be the smallest smoothness constant; False where it may only bound it.

        Of a class that does not say it, nothing is proved: False.
        """
        return np.zeros(self.num_clients, dtype=bool)

    def strong_convexity(self) -> np.ndarray:
        """mu_k (N,); 0 where f_k is convex but not strongly."""
        return np.zeros(self.num_clients)

    def joint_smoothness(self) -> float:
        """Smoothness of F; sum_k w_k beta_k unless the subclass knows better."""
        return float(self.weights @ self.smoothness())

    def joint_strong_convexity(self) -> float:
        """Strong convexity of F; sum_k w_k mu_k unless the subclass knows better."""
        return float(self.weights @ self.strong_convexity())

    def lipschitz(self, radius: float) -> np.ndarray:
        """G_k (N,): the largest norm of a subgradient of f_k on the closed ball ||x|| <= radius (an upper bound where
        ``lipschitz_exact`` is False).

        Raises
        ------
        InvalidInput
            radius is not > 0.
        MissingCapability
            The class knows no Lipschitz constant.
        """
        raise MissingCapability(
            f"{type(self).__name__} has no Lipschitz constant on a ball (capability 'lipschitz'): "
            "take a problem with bounded subgradients, such as LAD, Quantile, Hinge or MaxAffine"
        )

    def lipschitz_exact(self, radius: float) -> np.ndarray:
        """(N,) True where ``lipschitz`` is proved to be the norm of a subgradient on the closed ball, to rounding.

        f_k's Lipschitz constant there is smaller only where a steeper piece touches the ball from outside.
        """
        self.lipschitz(radius)
        return np.zeros(self.num_clients, dtype=bool)

    def lipschitz_rms(self, radius: float) -> float:
        """G = sqrt((1/N) sum_k G_k^2): with weights other than 1/N, sqrt(sum_k w_k G_k^2)."""
        return float(np.sqrt(self.weights @ np.asarray(self.lipschitz(radius)) ** 2))

    def batch_noise_sq(self, radius: float, batch_size: int) -> np.ndarray:
        """(N,) upper bounds of E||g - E g||^2 for a mini-batch subgradient g on the ball, batches
        drawn with or without replacement."""
        raise MissingCapability(f"{type(self).__name__} has no samples to draw mini-batches from (capability 'batch_noise_sq')")

    def cvxpy_objective(self, variable: Any) -> Any:
        """F as a cvxpy expression of a (d,) variable."""
        raise MissingCapability(
            f"{type(self).__name__} has no cvxpy form (capability 'cvxpy_objective'): cvxpy cannot be asked for its optimum; "
            "give it one, or leave cvxpy out with optimum(max_conic_entries=0)"
        )

    def cvxpy_form(self) -> str:
        """Say in a few words what `cvxpy_objective` makes of the data."""
        return ""

    # --- public -----------------------------------------------------------------------------------
    def client_losses(self, x: Array) -> Array:
        """f_k(x) of every client: x (..., d) -> (..., N). The one number that is minimised is `objective`."""
        x = points("x", x)
        xp = namespace(x)
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged: it is inf
            values = xp.permute_dims(self.like(x).client_value(self._to_client_major(x)), (1, 0))
        return values if x.ndim == 2 else xp.reshape(values, (*x.shape[:-1], self.num_clients))

    def gradient(self, x: Array) -> Array:
        """Per-client gradients: x (..., d) -> (..., N, d)."""
        x = points("x", x)
        xp = namespace(x)
        grads = xp.permute_dims(self.like(x).client_gradient(self._to_client_major(x)), (1, 0, 2))
        return grads if x.ndim == 2 else xp.reshape(grads, (*x.shape[:-1], self.num_clients, self.dim))

    def gradient_each(self, y: Array) -> Array:
        """grad f_k at a point of its own for each client: y (..., N, d) -> (..., N, d)."""
        y = points("y", y)
        xp = namespace(y)
        if y.shape[-2:] != (self.num_clients, self.dim):
            raise InvalidInput(f"points of shape {tuple(y.shape)}: expected (..., {self.num_clients}, {self.dim})")
        flat = xp.permute_dims(xp.reshape(y, (-1, self.num_clients, self.dim)), (1, 0, 2))
        grads = self.like(y).client_gradient(flat)
        return xp.reshape(xp.permute_dims(grads, (1, 0, 2)), y.shape)

    def objective(self, x: Array) -> Array:
        """F = sum_k w_k f_k: x (..., d) -> (...), one number a point; gaps are ``objective(x) - optimum().lower_bound``."""
        x = points("x", x)
        xp = namespace(x)
        return xp.sum(self.client_losses(x) * astype_like(self.weights, x), axis=-1)

    def full_gradient(self, x: Array) -> Array:
        """grad F: x (..., d) -> (..., d)."""
        x = points("x", x)
        xp = namespace(x)
        return xp.sum(self.gradient(x) * astype_like(self.weights, x)[:, None], axis=-2)

    def full_hessian(self, x: np.ndarray) -> np.ndarray:
        """Hessian of F at one point: (d,) -> (d, d)."""
        x = real_array("x", x)
        if x.shape != (self.dim,):
            raise InvalidInput(f"x has shape {x.shape}: one point is needed, ({self.dim},)")
        y = np.broadcast_to(x, (self.num_clients, 1, self.dim))
        return np.einsum("n,nij->ij", self.weights, to_numpy(self.client_hessian(y))[:, 0])

    def optimum(self, gap: float = 1e-12, max_conic_entries: int | None = None) -> Optimum:
        """The certified minimiser of F, computed once and kept: by cvxpy, polished and certified.

        max_conic_entries: cvxpy is left out where its cone programme has more entries; None stands for
        the attribute of that name, which is no limit unless it was set.

        Raises
        ------
        NotCertified
            When no certificate of that gap exists (`Optimum.within`), of non-convex and unbounded problems among others.
        """
        gap = real_number("gap", gap, above=0)
        kept = self.__dict__.get("_optimum")
        if kept is None or not kept.within(gap):
            limit = self.max_conic_entries if max_conic_entries is None else max_conic_entries
            if limit != 0:
                cvxpy()
            kept = self.__dict__["_optimum"] = certify(self, gap, limit)
        return kept

    def optimum_on_ball(self, radius: float, gap: float = 1e-9) -> Optimum:
        """The certified minimiser of F over ||x|| <= radius, computed once for a radius and kept.

        Raises
        ------
        InvalidInput
            radius or gap is not a finite number > 0.
        MissingCapability
            The problem has no dual form (capability 'nonsmooth_structure').
        NotCertified
            No dual bound of that relative gap could be proven.
        """
        radius, gap = check_radius(radius), check_gap(gap)
        kept = self.__dict__.setdefault("_optimum_on_ball", {})
        if radius not in kept or not kept[radius].within(gap):
            cvxpy()
            kept[radius] = certify_on_ball(self, radius, gap)
        return kept[radius]

    def structure(self) -> Structure:
        """F in enclosures (`fedtheory.optimum.lower_bounds.Structure`), from which its optimum is certified.

        Raises
        ------
        NotCertified
            The problem is not convex; its loss is none of the built-in ones and declares nothing, or has no ridge.
        """
        if not self.convex:
            raise NotCertified(f"{self!r} is not convex: no global lower bound on F* can be proven; compare with a convex problem")
        raise NotCertified(
            f"{self!r}: rounding-proof bounds exist for Quadratic, LeastSquares, Logistic, Huber, Softmax, and for a subclass of "
            "LinearModel with ridge > 0 that sets `rounding`, the largest error of its phi and dphi in units of roundoff; write the "
            "problem as one of these, or give it a structure() of its own"
        )

    def nonsmooth_structure(self) -> NonsmoothStructure:
        """F as a `fedtheory.optimum.duality.NonsmoothStructure`, from which a dual bound over a ball is computed."""
        raise MissingCapability(
            f"{type(self).__name__} has no dual form over a ball (capability 'nonsmooth_structure'): F* on the ball "
            "cannot be certified; leave out the radius where the problem is smooth"
        )

    def constants(self) -> Constants:
        """All exact constants; the dissimilarity is filled in once an optimum has been computed."""
        kept = self.__dict__.get("_optimum")
        dissimilarity = None
        if kept is not None:
            grads = to_numpy(self.gradient(kept.x))
            dissimilarity = float(self.weights @ (grads**2).sum(axis=-1))
        beta_k, mu_k = self._beta_mu
        return Constants(
            beta_k, mu_k, float(beta_k.max()), self.joint_smoothness(), self.joint_strong_convexity(), dissimilarity
        )

    def subset(self, clients: np.ndarray) -> Problem:
        """The kernels of some of the clients only, in that order (weights are renormalised).

        Raises
        ------
        InvalidInput
            No clients, or a number that is no client's.
        """
        clients = numbered("clients", clients, self.num_clients, "client")
        other: Any = type(self).__new__(type(self))
        fields = other.__dict__  # written to at once: what is put in is read-only
        fields.update(prepared(self, "shared", self._shared))
        fields["_whole"] = (self.__dict__.setdefault("_parts", [self]), clients)
        if self.held_out is not None:
            fields["held_out"] = self.held_out.subset(clients)
        fields["num_clients"] = len(clients)
        return other

    def _shared(self) -> dict[str, Any]:
        """Give what a part has from its whole as it is, of no one client nor worked out; and the names of what it has of each."""
        of_each = frozenset((*OF_EACH, *self.client_data))
        return {"_of_each": of_each, **{k: v for k, v in self.__dict__.items() if k[0] != "_" and k not in of_each}}

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Take from the whole problem, for a part of it, what it has of each client."""
            if name not in self.__dict__.get("_of_each", ()):
                return object.__getattribute__(self, name)  # raises what the attribute, or its absence, raises
            (whole,), clients = self.__dict__["_whole"]
            part = part_of(getattr(whole, name), clients)
            if name == "weights":
                total = np.add.reduce(part)
                part = sealed(part / total if total > 0 else np.full(len(clients), 1.0 / len(clients)))
            self.__dict__[name] = part
            return part

    def like(self, x: Array) -> Problem:
        """This problem with its arrays in x's namespace, dtype and device; itself if they are.

        It is kept, as copies of this one's arrays. Tensors cannot be read-only: leave those of its attributes as they are.
        """
        if not self.client_data:
            return self
        first = getattr(self, self.client_data[0])
        if type(x) is np.ndarray and type(first) is np.ndarray and x.dtype == first.dtype:
            return self  # the usual case, at the cost of a comparison
        key = (namespace(x).__name__, str(x.dtype), str(getattr(x, "device", "cpu")))
        if (namespace(first).__name__, str(first.dtype), str(getattr(first, "device", "cpu"))) == key:
            return self
        cache = self.__dict__.setdefault("_like", {})
        if key not in cache:
            other = copy.copy(self)
            other.__dict__ = {k: v for k, v in self.__dict__.items() if not k.startswith("_")}
            for field in self.client_data:
                setattr(other, field, sealed(astype_like(to_numpy(getattr(self, field)), x)))
            if self.held_out is not None:
                other.held_out = self.held_out.like(x)
            other._whole = ([self], slice(None))
            cache[key] = other
        return cache[key]

    def in_double(self, x: Array) -> Array:
        """The point in the precision that F is judged in: double, in which a single-precision point
        is exact, where the problem can."""
        x = points("x", x)
        xp = namespace(x)
        return x if x.dtype == xp.float64 else xp.astype(x, xp.float64)

    @property
    def beta_k(self) -> np.ndarray:
        """Smoothness of each client's loss (N,), computed once."""
        return self._beta_mu[0]

    @property
    def mu_k(self) -> np.ndarray:
        """Strong convexity of each client's loss (N,), computed once."""
        return self._beta_mu[1]

    @cached_property
    def _beta_mu(self) -> tuple[np.ndarray, np.ndarray]:
        if "_whole" in self.__dict__:  # taken from a problem that may know them
            (whole,), clients = self._whole
            return sealed((whole._beta_mu[0][clients], whole._beta_mu[1][clients]))
        return owned(np.asarray(self.smoothness(), dtype=float)), owned(np.asarray(self.strong_convexity(), dtype=float))

    def _to_client_major(self, x: Array) -> Array:
        if not x.ndim or x.shape[-1] != self.dim:
            raise InvalidInput(f"points of shape {tuple(x.shape)}: the last axis must be the dimension d = {self.dim}")
        xp = namespace(x)
        flat = x[None, ...] if x.ndim == 2 else xp.reshape(x, (1, -1, self.dim))
        return xp.broadcast_to(flat, (self.num_clients, flat.shape[1], self.dim))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(clients={self.num_clients}, dim={self.dim})"
