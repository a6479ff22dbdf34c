"""The shape of every federated method: a frozen dataclass of hyperparameters with ``init`` and ``round``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import array_api_compat

from fedtheory.arrays import Array, namespace
from fedtheory.errors import MissingCapability
from fedtheory.inputs import finite, require

if TYPE_CHECKING:
    from fedtheory.clients.clients import Clients
    from fedtheory.local.objective import LocalSolver
    from fedtheory.participation.cohorts import Sampling
    from fedtheory.problems.base import Problem

__all__ = [
    "OPTION_2",
    "Aggregation",
    "Algorithm",
    "Sent",
    "aggregate",
    "begun",
    "check_choice",
    "check_number",
    "finite",
    "no_step_size",
    "per_client",
    "require",
    "step_sum",
    "threshold",
]

Aggregation = Literal["cohort", "samples", "printed"]
Sent = Literal["model", "update"]
OPTION_2 = "option='difference' (option II)", "option='gradient' (option I) or "  # of SCAFFOLD, for `step_sum` and `no_step_size`


def check_number(algorithm: Algorithm, name: str, what: str, positive: bool = False, why: str = "") -> None:
    """Keep a hyperparameter as a Python float; raise `InvalidInput` unless it is finite and >= 0 (> 0 if positive)."""
    value = getattr(algorithm, name)
    limit = f"{what} must be a finite number {'> 0' if positive else '>= 0'}{why and ': ' + why}"
    require(finite(value) and (value > 0 if positive else value >= 0), name, value, limit)
    object.__setattr__(algorithm, name, float(value))


def check_choice(algorithm: Algorithm, name: str, choices: tuple[str, ...]) -> None:
    """Raise `InvalidInput` unless the hyperparameter is one of the choices."""
    value = getattr(algorithm, name)
    require(isinstance(value, str) and value in choices, name, value, "use " + " or ".join(repr(c) for c in choices))


def per_client(x: Array, num_clients: int) -> Array:
    """A zero memory for every client: x (S, d) -> (S, N, d)."""
    shape = (x.shape[0], num_clients, x.shape[1])
    return namespace(x).zeros(shape, dtype=x.dtype, device=array_api_compat.device(x))


def threshold(delta: Array, epsilon: float) -> Array:
    """Entries with |delta| <= epsilon set to 0 (section 3 of the FedElasticNet paper)."""
    if epsilon == 0.0:
        return delta
    xp = namespace(delta)
    return xp.where(xp.abs(delta) <= epsilon, xp.zeros_like(delta), delta)


def aggregate(clients: Clients, update: Array, aggregation: Aggregation) -> Array:
    """The server's combination of the cohort's updates: (S, P, d) -> (S, d).

    'cohort': sum_{k in P_t} update_k / |P_t|. 'samples': sum n_k update_k / sum n_k, both over the cohort. 'printed':
    sum_{k in P_t} (n_k/n) update_k, whose weights sum to less than 1 unless every client takes part.
    """
    if aggregation == "cohort":
        return clients.mean(update)
    shares = clients.sample_shares()  # n_k/n
    total = clients.sum(update, shares)
    if aggregation == "printed":
        return total
    there = clients.sum(shares)
    return total / clients.xp.where(there > 0, there, clients.xp.ones_like(there))  # an empty cohort's mean is 0


def no_step_size(solver: LocalSolver, what: str = "this method", instead: str = "") -> MissingCapability:
    """The error of a method that divides by the local step size, with a local solver whose steps are no step size times a gradient.

    Parameters
    ----------
    what : the method, or the option of it that divides
    instead : what else can be done, before "a gradient local solver"
    """
    name, memory = type(solver).__name__, not solver.reports_steps
    has = f"{name} steps along what it remembers, not along gradients" if memory else f"{name} takes no gradient steps"
    plain = "a local solver without a memory, such as SGD or GradientSteps" if memory else "a gradient local solver"
    return MissingCapability(f"{has}, and {what} divides by the local step size: use {instead}{plain}")


def step_sum(
    clients: Clients, taken: float | Array | None, what: str = "this method", instead: str = ""
) -> float | Array:
    """The sum of the step sizes of a client's local steps, as the local solver reports it, for a method that divides by it
    (SCAFFOLD's option II, normalised averaging): one number, B * eta_l, or (S, P, 1) when clients make unequal steps.

    what, instead : for the error, as `no_step_size` takes them

    Raises
    ------
    MissingCapability
        When the solver takes no gradient steps; a method says it before work starts, by `no_step_size` in its ``check``.
    """
    if taken is None:
        raise no_step_size(clients.solver, what, instead)
    return taken


class Algorithm:
    """A federated method. Its state is a NamedTuple of arrays with the server model ``x`` (S, d) first.

    Attributes
    ----------
    name, source : its name at the command line, and where it is from
    local_work : what clients of `fedtheory run` do where nothing else is asked for. 'gradient': a few gradient steps.
        'local-sgd': `LocalSGD`. 'sliding' and 'none': the method has local steps of its own, or none. '': they solve their
        local problems exactly, where method and problem allow it.
    local_steps : how many gradient steps they make there
    parameters_from : id of the paper whose theorems give parameters or step sizes to its runs; '' for none
    nonsmooth : its losses are convex with bounded subgradients, and need not be smooth
    one_loss : it has no clients, but one loss
    plain_mean : it is made for clients of the same weight, and refuses others
    exact_numbers : hyperparameters that may be fractions, and stay so
    compresses : which of its messages `Compressed` may compress. 'up': the first that a client sends in a round, an update.
        'model': the same where it is a model. 'control': the second. 'down': the server's step. A method that names one
        goes on with what `Clients.send`, or `Clients.send_down`, gives back, which is what arrives.
    coordinatewise : it treats every coordinate of its models by itself, and the local solver's last work in a round makes the
        clients' models, so that some coordinates may be a network's running statistics (`fedtheory.neural.flat.FlatModule`)
    error_feedback : `Compressed` adds what was left out of a message to the next one, where nothing else is asked for
    """

    name: ClassVar[str]
    source: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]  # every method is a dataclass of its hyperparameters
    local_work: ClassVar[str] = ""
    local_steps: ClassVar[int] = 5
    parameters_from: ClassVar[str] = ""
    nonsmooth: ClassVar[bool] = False
    one_loss: ClassVar[bool] = False
    plain_mean: ClassVar[bool] = False
    exact_numbers: ClassVar[tuple[str, ...]] = ()
    compresses: ClassVar[tuple[str, ...]] = ()
    coordinatewise: ClassVar[bool] = True
    error_feedback: ClassVar[bool] = True

    @classmethod
    def usual_parameters(cls, scale: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Hyperparameters that a worst case names, as it has them where a user gives none.

        Those without a default are among them, and numbers that bounds depend on.

        scale : `fedtheory.worst_cases.methods.Scale`, its L, G, R and T
        given : hyperparameters that the user gives
        """
        return {}

    def check(self, solver: LocalSolver) -> None:
        """Raise `MissingCapability` before work starts when the local solver lacks what the method needs."""

    def check_run(self, problem: Problem, rounds: int) -> None:
        """Raise `InvalidInput` before work starts when the method is not made for this problem or number of rounds."""

    def check_sampling(self, sampling: Sampling, problem: Problem, rounds: int) -> None:
        """Raise before work starts when the method cannot be run on cohorts of this law."""

    def check_compressed(self, message: str) -> None:
        """Raise `InvalidInput` where a message of ``compresses`` cannot be compressed under these hyperparameters."""
        known = ", ".join(repr(m) for m in self.compresses) or "none"
        shipped = type(self).__module__.startswith("fedtheory.")
        how = " (its class names those that can, once it goes by what arrives: compresses = ('up',))"
        how = "" if self.compresses or shipped else how
        require(message in self.compresses, "message", message, f"of the messages of {self.name}, {known} can be compressed{how}")

    def init(self, x: Array, num_clients: int) -> Any:
        """State before round 1: x (S, d)."""
        raise NotImplementedError

    def begin(self, x: Array, num_clients: int, everybody: Callable[[], Clients]) -> Any:
        """State before round 1 of a method that asks all clients for something at its start.

        everybody : makes them, and is called by such a method alone
        """
        return self.init(x, num_clients)

    def round(self, state: Any, clients: Clients) -> Any:
        """State after one round."""
        raise NotImplementedError


def begun(method: Any, x: Array, num_clients: int, everybody: Callable[[], Clients]) -> Any:
    """State before round 1 of a method of anyone's, which need not have `Algorithm.begin`."""
    if hasattr(method, "begin"):
        return method.begin(x, num_clients, everybody)
    return method.init(x, num_clients)
