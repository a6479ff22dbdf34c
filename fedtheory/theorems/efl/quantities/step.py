"""One round of Theorem 1's proof from a given state: everything the law of (p, s) and the
mini-batches make possible, enumerated.

Axes: O cases of (p_tau, s_tau), P joint mini-batch paths of all clients, N clients, E steps, d
coordinates. Clients' trajectories are virtual: each makes all its E steps; ``alpha`` says which of
them count. Numbers are floats or Fractions.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput
from fedtheory.participation.coefficients import SCHEMES, coefficients
from fedtheory.rational import integer, vector
from fedtheory.theorems.efl.quantities.run import EFLConstants, gamma_of, unmet
from fedtheory.theory import Fact, Form, Sides, World, derived
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.irregular_run import COMMON, exact_oracles, laws_of
from fedtheory.theory.rounds.second_moments import QuadraticOracles

COMPLETE = Fact("all clients do all E steps along full gradients, t < 4/3 and eta mu < 1")
EQUAL = Fact("E[p^k s^k]/p^k the same for all clients")

MAX_ENTRIES = 2_000_000


def sq(a: np.ndarray) -> np.ndarray:
    """Squared norm along the last axis."""
    return (a * a).sum(axis=-1)


@dataclass(eq=False)
class StepState:
    """A state w_0 and all that may happen in the round from it.

    Attributes
    ----------
    oracles, law, eta, w0 : the clients, the law of (p, s), the step size, the state (d,)
    """

    oracles: QuadraticOracles
    law: RoundLaw
    eta: Any
    w0: np.ndarray
    L: Any  # L, mu, theta: constants of the run
    mu: Any
    theta: Any

    def __post_init__(self) -> None:
        n, j, d = self.oracles.shape
        paths = j ** (self.law.E if self.oracles.common else n * self.law.E)
        count = paths * int(np.prod((self.law.law > 0).sum(axis=1), dtype=float)) * n * (self.law.E + 1) * d
        if count > MAX_ENTRIES:
            raise InvalidInput(f"one round has {count:.3g} numbers to enumerate, at most {MAX_ENTRIES} fit: take fewer clients")

    # --- what may happen --------------------------------------------------------------------------
    s = derived(
        lambda q: np.array(list(itertools.product(*(np.nonzero(row > 0)[0] for row in q.law.law)))),
        "(O, N) local steps",
    )
    mass = derived(
        lambda q: q.law.law[np.arange(q.s.shape[1]), q.s].prod(axis=1), "(O,) their probabilities"
    )

    @cached_property
    def p(self) -> np.ndarray:
        """(O, N) coefficients."""
        law = self.law
        return coefficients(law.method.scheme, self.s, law.E, law.weights, 1 - law.law[:, 0])

    alpha = derived(
        lambda q: (np.arange(q.law.E) < q.s[:, :, None]).astype(int), "(O, N, E) 1 where i < s_k"
    )

    @cached_property
    def _client_paths(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Each client alone: probabilities (N, Q), points (N, Q, E + 1, d), gradients and mean gradients (N, Q, E, d)."""
        o, n, E = self.oracles, self.oracles.shape[0], self.law.E
        picks = np.array(list(itertools.product(range(o.shape[1]), repeat=E)))  # (Q, E)
        y = np.broadcast_to(self.w0, (n, len(picks), len(self.w0)))
        points, stochastic, mean = [y], [], []
        for i in range(E):
            H, b = o.H[:, picks[:, i]], o.b[:, picks[:, i]]
            g = (H * y[..., None, :]).sum(axis=-1) - b
            mean.append((o.mean_H[:, None] * y[..., None, :]).sum(axis=-1) - o.mean_b[:, None])
            stochastic.append(g)
            y = y - self.eta * g
            points.append(y)
        mass = np.stack([o.q[:, picks[:, i]] for i in range(E)]).prod(axis=0)
        return mass, np.stack(points, axis=2), np.stack(stochastic, axis=2), np.stack(mean, axis=2)

    @cached_property
    def _joint(self) -> np.ndarray:
        """(P, N) which path each client takes; of common mini-batches all take the same one."""
        mass = self._client_paths[0]
        if self.oracles.common:
            return np.repeat(np.arange(mass.shape[1])[:, None], mass.shape[0], axis=1)
        return np.array(list(itertools.product(range(mass.shape[1]), repeat=mass.shape[0])))

    def _each(self, values: np.ndarray) -> np.ndarray:
        """(N, Q, ...) -> (P, N, ...)."""
        return values[np.arange(values.shape[0]), self._joint]

    @cached_property
    def batch_mass(self) -> np.ndarray:
        """(P,) probabilities of the mini-batch paths."""
        each = self._each(self._client_paths[0])
        return each[:, 0] if self.oracles.common else each.prod(axis=1)

    w = derived(lambda q: q._each(q._client_paths[1]), "(P, N, E + 1, d) virtual iterates w_i^k")
    g_mean = derived(lambda q: q._each(q._client_paths[3]), "(P, N, E, d) grad F_k(w_i^k)")

    @cached_property
    def stopped(self) -> np.ndarray:
        """(O, P, N, E + 1, d) w_{min(i, s_k)}^k."""
        at = np.minimum(np.arange(self.law.E + 1), self.s[:, :, None])  # (O, N, E + 1)
        moved = np.moveaxis(self.w, 0, 2)[np.arange(self.s.shape[1])[:, None], at]  # (O, N, E + 1, P, d)
        return np.moveaxis(moved, 3, 1)

    wbar = derived(
        lambda q: q.w0 + (q.p[:, None, :, None, None] * (q.stopped - q.w0)).sum(axis=2),
        "(O, P, E + 1, d) w_0 + sum_k p_k (w_{min(i, s_k)}^k - w_0)",
    )

    # --- sums -------------------------------------------------------------------------------------
    def active(self, values: np.ndarray) -> np.ndarray:
        """sum_k p_k alpha_i^k x_i^k: (P, N, E) or (O, P, N, E) -> (O, P, E)."""
        return (self.p[:, None, :, None] * self.alpha[:, None] * values).sum(axis=2)

    def over_batches(self, values: np.ndarray) -> np.ndarray:
        """Expectation over the mini-batches: (O, P, ...) -> (O, ...)."""
        return (values * self.batch_mass.reshape(1, -1, *[1] * (values.ndim - 2))).sum(axis=1)

    def over_all(self, values: np.ndarray) -> Any:
        """Expectation over (p, s) and the mini-batches: (O, P, ...) -> (...)."""
        inner = self.over_batches(values)
        return (inner * self.mass.reshape(-1, *[1] * (inner.ndim - 1))).sum(axis=0)

    def after(self, rng: np.random.Generator) -> np.ndarray:
        """A state that the round may lead to, drawn (d,)."""
        case = rng.choice(len(self.mass), p=self.mass / self.mass.sum())
        path = rng.choice(len(self.batch_mass), p=self.batch_mass / self.batch_mass.sum())
        return np.asarray(self.wbar[case, path, -1])

    # --- constants at this state ------------------------------------------------------------------
    @cached_property
    def sigma_sq(self) -> np.ndarray:
        """(N,) largest E||g_i^k - grad F_k(w_i^k)||^2 over i."""
        mass, _, g, mean = self._client_paths
        return (mass[..., None] * sq(g - mean)).sum(axis=1).max(axis=1)

    @cached_property
    def G_sq(self) -> Any:
        """Largest E||g_i^k||^2 over k and i."""
        mass, _, g, _ = self._client_paths
        return (mass[..., None] * sq(g)).sum(axis=1).max()

    @cached_property
    def drift_sq(self) -> np.ndarray:
        """E||w_i^k - w_0||^2, (N, E + 1)."""
        mass, y, _, _ = self._client_paths
        return (mass[..., None] * sq(y - self.w0)).sum(axis=1)

    gap = derived(
        lambda q: q._gap_of(np.moveaxis(q.g_mean, 1, -2)).swapaxes(-1, -2),
        "(P, N, E) F_k(w_i^k) - F_k^*",
    )

    def _gap_of(self, gradients: np.ndarray) -> np.ndarray:
        """F_k - F_k^* from grad F_k: (..., N, d) -> (..., N), exact for quadratics."""
        solved = self.oracles._solve(np.broadcast_to(self.oracles.mean_H, (*gradients.shape, gradients.shape[-1])), gradients)
        return (gradients * solved).sum(axis=-1) / 2

    def gap_at(self, points: np.ndarray) -> np.ndarray:
        """F_k(x) - F_k^* for all k: (..., d) -> (..., N)."""
        n = self.oracles.shape[0]
        each = np.broadcast_to(points[..., None, :], (*points.shape[:-1], n, points.shape[-1]))
        return self._gap_of(self.oracles.gradient(each))

    D = derived(lambda q: q.oracles.D)

    @cached_property
    def heterogeneity(self) -> Any:
        """zeta^2 = sum_k p^k ||grad F_k(w*)||^2."""
        o = self.oracles
        return (o.weights * sq(o.gradient(np.broadcast_to(o.star, (o.shape[0], o.shape[2]))))).sum()

    turn = derived(
        lambda q: q.eta * (q.L - q.mu) * q.law.E / (1 - q.eta * q.mu) ** q.law.E,
        "t = eta (L - mu) E/(1 - eta mu)^E, where all clients do all E steps",
    )
    complete = derived(
        lambda q: bool((q.s == q.law.E).all()) and not (q.sigma_sq > 0).any(),
        "True if all clients do all E steps, along full gradients",
    )
    gamma_prime = derived(
        lambda q: 2 * q.eta * (1 - q.L * (1 + q.theta) * q.eta),
        "gamma' = 2 eta (1 - L (1 + theta) eta), between eta and 2 eta",
    )
    start_sq = derived(lambda q: sq(q.w0 - q.oracles.star))

    @cached_property
    def rounding(self) -> Any:
        """The rounding of squared distances and of eta times function gaps; 0 in fractions."""
        if self.w0.dtype == object:
            return 0
        eps, g = np.finfo(float).eps, self.g_mean
        size = eps * float(np.abs(self.w).max() + np.abs(self.oracles.star).max())
        moved = float(np.sqrt(((self.w - self.w0) ** 2).sum(axis=-1).max()))  # far above start_sq where w_0 is near the optimum
        slope = self.L * size  # of gradients H y - b; ||grad||^2/(2 curvature) is off by slope (||grad|| + slope)/mu
        gaps = self.eta * slope * (float(np.sqrt(sq(g).max())) + slope) / self.mu
        return 4 * (size * (float(np.sqrt(self.start_sq)) + moved + size) + gaps)

    def constants(self) -> EFLConstants:
        """Theorem 1's constants with G and sigma_k of this round."""
        return EFLConstants(
            self.law.E, self.L, self.mu, self.theta, self.G_sq, self.sigma_sq, self.D, self.oracles.weights, [self.law.moments],
            self.start_sq, {"G_sq, sigma_sq": "largest expectation over the round's virtual steps, given the state"},
        )  # fmt: skip


@dataclass
class StepsView(World):
    """Several states of one run; a form is judged at all of them.

    Attributes
    ----------
    rule : scheme
    """

    states: list[StepState]  # list of StepState
    taus: list[int]  # list of ints, their rounds
    rule: str = field()  # no default, as a world has
    kind, rules = "step", SCHEMES

    def applies(self, form: Form) -> str | None:
        if EQUAL in form.needs and not self.states[0].law.moments.ratio_equal:
            return "E[p s]/p^k differs between clients"
        if COMPLETE in form.needs and not all(state.complete for state in self.states):
            return "some client may do fewer than E steps, or steps along mini-batches: all must do E along full gradients"
        if COMPLETE in form.needs and not max(state.turn for state in self.states) < Fraction(4, 3):
            return f"t = {float(max(state.turn for state in self.states)):.6g} is not below 4/3: take fewer local steps"
        return unmet(frozenset({COMMON} if self.states[0].oracles.common else ()), form)

    def printed_constants(self) -> dict[str, Any]:
        return {"constants": self.states[0].constants().summary(), "taus": self.taus}

    def each(self, sides: Callable[[StepState], Sides]) -> Sides:
        """The sides of all states, one after the other, where float64 resolves them (Fractions: everywhere)."""
        parts = [sides(state) for state in self.states]

        def joined(each: Iterable[Any]) -> np.ndarray:
            return np.concatenate([np.ravel(a) for a in each])

        def shaped(each: Iterable[Any]) -> Iterator[np.ndarray]:
            for a, p in zip(each, parts, strict=True):
                yield a if np.shape(a) == p.lhs.shape else np.broadcast_to(a, p.lhs.shape)

        lhs, rhs, scale = (joined(getattr(p, name) for p in parts) for name in ("lhs", "rhs", "scale"))
        relation, first = parts[0].relation, parts[0].terms if parts[0].relation == "<=" else ()
        terms = [joined(shaped(p.terms[i] for p in parts)) for i in range(1, len(first))]
        noise = joined(np.full(p.lhs.size, state.rounding) for p, state in zip(parts, self.states, strict=True))
        resolved = scale > 10_000 * noise  # below, two rounding errors would be compared
        if resolved.any() and not resolved.all():
            lhs, rhs, scale, noise, *terms = (a[resolved] for a in (lhs, rhs, scale, noise, *terms))
        return Sides(lhs, rhs, scale, relation, noise, (), (lhs, *terms) if terms else ())


def state_of(oracles: QuadraticOracles, law: RoundLaw, w0: np.ndarray, tau: int, gamma: Any, theta: Any) -> StepState:
    """The state w0 of round tau, with Theorem 1's step size."""
    E, S = law.E, law.moments.sum_ps
    eta = 16 * E / (oracles.mu * ((tau + 1) * E + gamma) * S)
    return StepState(oracles, law, eta, w0, oracles.L, oracles.mu, theta)


def steps_of(data: dict[str, Any]) -> StepsView:
    """The view of {'h', 'c', 'weights', 'noise', 'scheme', 'law', 'w0', 'tau'}: one round from w0, in fractions."""
    oracles, tau = exact_oracles(data), integer(data["tau"], "tau")
    law = RoundLaw(EFL(scheme=data["scheme"]), laws_of([data["law"]], oracles.shape[0])[0], oracles.weights)
    theta = law.moments.theta
    gamma = gamma_of(law.E, theta, oracles.L, oracles.mu, [law.moments.sum_ps])
    return StepsView([state_of(oracles, law, vector(data["w0"], "w0"), tau, gamma, theta)], [tau], law.method.scheme)


def reached(oracles: QuadraticOracles, laws: list[RoundLaw], w0: np.ndarray, rng: np.random.Generator) -> StepsView:
    """States of one sampled run: its start, and where it got in each of its rounds."""
    rounds = [law.moments for law in laws]
    theta = max(m.theta for m in rounds)
    gamma = gamma_of(laws[0].E, theta, oracles.L, oracles.mu, [m.sum_ps for m in rounds])
    states = []
    for tau, law in enumerate(laws):
        state = state_of(oracles, law, w0, tau, gamma, theta)
        states.append(state)
        w0 = state.after(rng)
    return StepsView(states, list(range(len(laws))), laws[0].method.scheme)
