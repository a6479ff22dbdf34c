"""The problems on which a method runs: separable losses (in fractions or floats), or any other;
and what is known of the optimum.

An optimum carries its uncertainty: F* lies in [F_low, F_high], and x_star is within `radius` of
a minimiser. In fractions both are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedtheory.algorithms.base import begun
from fedtheory.arrays import Array, read_only
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver
from fedtheory.participation.cohorts import Cohort, Sampling
from fedtheory.randomness import Stream
from fedtheory.rational import Whole, number
from fedtheory.theory.rounds.losses import SeparableLosses
from fedtheory.theory.rounds.rational_clients import (
    NO_COIN,
    NotInFractions,
    SlotClients,
    SlotWork,
    check_fractions,
    check_state,
)

__all__ = [
    "MAX_NUMBERS", "MAX_PATHS", "Best", "Path", "ProblemWorld", "SeparableWorld", "enumerable",
    "everyone", "run", "sequences",
]  # fmt: skip

EPS = float(np.finfo(float).eps)
MAX_PATHS = 4096  # sequences of cohorts that are enumerated
MAX_NUMBERS = 2**21  # of the models of all clients in all of them


@dataclass(frozen=True)
class Best:
    """A minimiser of F: x (d,), F_low <= F* <= F_high, how far x may be from a minimiser (radius),
    and whether x* is well defined (unique): of a nonconvex F with several it is not."""

    x: Any
    F_low: Any
    F_high: Any
    radius: Any
    unique: bool = True


class SeparableWorld:
    """Separable losses, and the start whose nearest minimiser is x_star."""

    def __init__(self, losses: SeparableLosses, start: Any) -> None:
        self.losses, self.start, self.exact = losses, start, losses.exact
        self.num_clients, self.dim, self.weights = losses.num_clients, losses.dim, losses.weights
        self.constants, self.values = losses.constants, losses.values
        self.gradients, self.gradients_each = losses.gradients, losses.gradients_each

    @cached_property
    def best(self) -> Best:
        """In fractions exact; in floats rounded once, which is its uncertainty."""
        x = self.losses.minimiser(self.start)
        value = (self.weights * self.losses.values(x)).sum()
        if self.exact:
            return Best(x, value, value, Fraction(0), self.losses.unique)
        return Best(x, value, value, 4 * EPS * float(np.abs(x).max(initial=0.0)), self.losses.unique)

    @cached_property
    def minima(self) -> Any:
        """min f_k of every client (N,)."""
        ones = np.eye(self.num_clients, dtype=int).astype(self.weights.dtype)
        alone = [replace(self.losses, weights=one) for one in ones]
        return np.array([f.values(f.minimiser(self.start))[k] for k, f in enumerate(alone)], dtype=self.weights.dtype)

    def clients(self, cohort: Cohort, work: dict[str, Any], like: Any, stream: Stream, t: int) -> Clients:
        """One round's clients."""
        steps = int(work["E"]) if "E" in work else None
        return SlotClients(self.losses, cohort, SlotWork(steps, work.get("eta")), like, t)


class ProblemWorld:
    """A problem of the package, with its certified optimum, the real clients and local solvers.

    ``by_samples``: its weights are the clients' shares of the samples, and not those of its F.
    """

    exact = False

    def __init__(self, problem: Any, by_samples: bool = False) -> None:
        self.problem, self.start, self.by_samples = problem, np.zeros(problem.dim), by_samples
        self.num_clients, self.dim, self.values = problem.num_clients, problem.dim, problem.client_losses
        self.gradients, self.gradients_each = problem.gradient, problem.gradient_each
        weights = np.asarray(problem.sample_counts if by_samples else problem.weights, dtype=float)
        self.weights = weights / weights.sum() if by_samples else weights

    @property
    def minima(self) -> Any:
        """min f_k of every client, which is not certified."""
        raise MissingCapability("client_minima: of a problem only the least value of F is certified")

    @cached_property
    def constants(self) -> dict[str, Any]:
        """As `SeparableLosses.constants`."""
        p = self.problem
        each = {"beta": float(p.beta_k.max()), "mu": float(p.mu_k.min()), "G_sq": None}
        if self.by_samples:
            return each | {"beta_F": None, "mu_F": None}
        return each | {"beta_F": p.joint_smoothness(), "mu_F": p.joint_strong_convexity()}

    @cached_property
    def _newton(self) -> Any:
        """The optimum by Newton's method alone, or None where that gives no certificate: cvxpy is slow to start."""
        try:
            with np.errstate(all="ignore"):  # a step that overflows is no certificate
                return self.problem.optimum(max_conic_entries=0)
        except NotCertified:
            return None

    @property
    def centre(self) -> Any:
        """A point (d,) to draw starts around: the optimum where it is known without cvxpy, else 0."""
        return np.zeros(self.dim) if self._newton is None else self._newton.x

    @cached_property
    def best(self) -> Best:
        """The certified optimum; x is within ||grad F(x)||/mu_F of the minimiser where F is
        strongly convex."""
        if self.by_samples:
            raise MissingCapability(
                "the optimum is known of F with its own weights, and not by sample counts"
            )
        o = self._newton or self.problem.optimum()
        mu = self.constants["mu_F"]
        size = 4 * EPS * float(np.abs(o.x).max(initial=0.0))
        radius = size + (min(o.kkt_residual / mu, np.sqrt(2 * max(o.value - o.lower_bound, 0) / mu)) if mu > 0 else 0.0)
        return Best(o.x, o.lower_bound, o.value, radius)

    def clients(self, cohort: Cohort, work: dict[str, Any], like: Any, stream: Stream, t: int) -> Clients:
        """One round's clients."""
        from fedtheory.local import Exact, GradientSteps

        solver = GradientSteps(int(work["E"]), float(work["eta"])) if "E" in work else Exact()
        kind = KeptClients if self.by_samples else WeighedClients
        return kind(self.problem, cohort, solver, like, stream, t)


class KeptClients(Clients):
    """Clients whose local models, which quantities are made of, cannot be written into."""

    def coin(self, p: Any) -> Any:
        """Refuse a coin, as in fractions."""
        raise MissingCapability(NO_COIN)

    def minimise(
        self, objective: LocalObjective, start: Array, solver: LocalSolver | None = None
    ) -> LocalResult:
        """As of any clients."""
        found = super().minimise(objective, start, solver)
        self.results[-1] = found = found._replace(y=read_only(found.y))
        return found


class WeighedClients(KeptClients):
    """Clients whose shares of the samples are their weights in F, as in fractions, whatever numbers of samples they have."""

    def sample_shares(self) -> Array:
        return self.weights()


class Path(NamedTuple):
    """A run in S scenarios: the states before every round and after the last, and each round's
    clients; of every state how many scenarios in a row have the same, which are one to clients."""

    states: list[Any]
    clients: list[Clients]
    alike: Sequence[int] = ()


def run(
    world: Any, algorithm: Any, work: dict[str, Any], x: Any, cohorts: Sequence[Cohort],
    seed: int = 0, state: dict[str, Any] | None = None, first: int = 0,
    on_round: Callable[[int, int], None] | None = None,
) -> Path:  # fmt: skip
    """The method from x (S, d), one cohort of S scenarios a round; of fewer where as many in a row
    are alike up to that round, which is made once for them.

    ``state`` : fields of the state that it begins in, in place of its own
    ``first`` : the number of the first scenario, of those that are drawn
    ``on_round`` : called with the number of each round that was made, and how many scenarios

    Raises
    ------
    NotInFractions
        Of a run in fractions: the method makes other numbers.
    InvalidInput
        The method writes into what it is given, which is kept.
    """
    name = getattr(algorithm, "name", type(algorithm).__name__)
    stream = Stream(seed)
    try:
        N = world.num_clients
        at_start = begun(
            algorithm, read_only(x), N,
            lambda: world.clients(everyone(N, len(x)), work, x, stream, 1),
        )  # fmt: skip
        at_start = check_state(at_start, name)
        states, kept = [at_start._replace(**state) if state else at_start], list[Any]()
        alike = [len(x) // cohort.scenarios for cohort in cohorts]
        for t, (cohort, n) in enumerate(zip(cohorts, alike, strict=True), 1):
            clients = world.clients(cohort, work, x[::n], stream, t)
            clients.scenarios = range(first, first + cohort.scenarios)
            before = each(states[-1], lambda v: read_only(v if n == 1 else v[::n]))  # noqa: B023
            states.append(repeated(check_state(algorithm.round(before, clients), name), n))
            kept.append(clients)
            if on_round is not None:
                on_round(t, len(x))
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise InvalidInput(
            f"{name} writes into the state or the local models that it is given ({error}): make new "
            "arrays, as in state.x + step in place of state.x += step"
        ) from error
    except (TypeError, AttributeError) as error:
        if not world.exact or getattr(world, "vectors", False) or isinstance(error, NotInFractions):
            raise
        raise NotInFractions(f"{name} cannot be run in fractions ({error}); the verdicts in floats stand") from error
    if world.exact and not getattr(world, "vectors", False):
        for state in states:
            check_fractions(state, name)
    return Path(states, kept, [*alike[:1], *alike])


def each(state: Any, change: Callable[[Any], Any]) -> Any:
    """The state with every field changed."""
    return type(state)(*(None if v is None else change(v) for v in state))


def at_once(change: Callable[[Any], Any], states: Sequence[Any], alike: Sequence[int]) -> list[Any]:
    """States as changed all together, of those in a row that are alike only one."""
    alike = [n for n, _ in zip(alike or [1] * len(states), states, strict=False)]
    few = [each(s, lambda v: v[::n]) for s, n in zip(states, alike, strict=True)]  # noqa: B023
    joined = (None if v[0] is None else np.concatenate(v) for v in zip(*few, strict=True))
    ends = np.cumsum([len(s.x) for s in few])[:-1]
    changed = each(change(type(few[0])(*joined)), lambda v: np.split(v, ends))
    rows = zip(*(v or [None] * len(few) for v in changed), strict=True)
    return [repeated(type(few[0])(*row), n) for row, n in zip(rows, alike, strict=True)]


def repeated(state: Any, n: int) -> Any:
    """The state with every scenario n times in a row."""
    return state if n == 1 else each(state, lambda v: np.repeat(v, n, axis=0))


def sequences(
    starts: Any, sampling: Sampling, num_clients: int, rounds: int, exact: bool,
    most: int = MAX_PATHS, times: int = 1,
) -> tuple[Any, list[Cohort], Any]:  # fmt: skip
    """Every sequence of cohorts from each of the starts (n, d), which are equally likely: models
    (S, d), the cohorts of every round, and probabilities (S,).

    A round's cohorts are those of the sequences up to it: of S scenarios as many in a row have one.

    Parameters
    ----------
    times : so many scenarios of each sequence, which share its probability

    Raises `InvalidInput`: there are more than `most` sequences.
    """
    law, n = sampling.enumerate(num_clients), len(starts)
    count = law.scenarios
    if (total := count**rounds) > most:
        made = f"{rounds} rounds of {count} cohorts make {total} sequences"
        raise InvalidInput(f"{made}, more than {most}: take fewer rounds or clients")
    chance = probabilities(sampling, law, exact)
    cohorts, weight = [], np.full(1, Fraction(1) if exact else 1.0)
    for t in range(rounds):
        drawn = np.tile(np.arange(count), count**t)
        if times > 1:
            drawn = drawn[np.repeat(np.arange(total), times) * len(drawn) // total]
        cohorts.append(rows(law, np.tile(drawn, n)))
        weight = (weight[:, None] * chance).ravel()
    x = np.repeat(starts, times * total, axis=0)
    return x, cohorts, np.tile(np.repeat(weight, times), n) / (times * n)


def enumerable(count: int, rounds: int, numbers: int) -> bool:
    """True if all sequences of ``count`` cohorts are few, and so are the ``numbers`` that each has of a round."""
    paths = count**rounds
    return paths <= MAX_PATHS and paths * numbers <= MAX_NUMBERS


def everyone(count: int, scenarios: int) -> Cohort:
    """All clients, in every scenario."""
    return Cohort(count, mask=np.ones((scenarios, count), dtype=bool))


def rows(law: Cohort, index: np.ndarray) -> Cohort:
    """Some of a law's cohorts, as scenarios."""
    parts: dict[str, Any] = {k: None if getattr(law, k) is None else getattr(law, k)[index] for k in ("members", "mask")}
    return replace(law, **parts, probability=None)


def probabilities(sampling: Sampling, law: Cohort, exact: bool) -> Any:
    """The probabilities (C,) of a law's cohorts; as fractions where asked for."""
    from fedtheory.participation.cohorts import Bernoulli, Full, Uniform

    if not exact:
        return law.probability
    out = np.empty(law.scenarios, dtype=object)
    if isinstance(sampling, Full | Uniform):
        out[:] = Fraction(1, law.scenarios)
        return out
    if isinstance(sampling, Bernoulli):
        p = [number(v, True) for v in np.broadcast_to(np.asarray(sampling.probability, dtype=object), (law.num_clients,))]
        for i, mask in enumerate(law.dense().dense_mask):
            value = Fraction(1)
            for there, q in zip(mask, p, strict=True):
                value *= q if there else 1 - q
            out[i] = value
        return out / sum(out)
    raise NotInFractions(f"the probabilities of {type(sampling).__name__} cohorts are not known as fractions")


def whole(value: int, exact: bool) -> Any:
    """A count, whose quotients stay fractions where ``exact``."""
    return Whole(value) if exact else int(value)
