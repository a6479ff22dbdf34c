"""The worst run of EFL's local SGD where everybody completes all steps and gradients have no noise:
local gradient descent.

What is measured is Theorem 1's ||w_tau - w*||^2, with the theorem's own step sizes. What is known
of the losses is what its bound asks: L and mu, ||w_0 - w*||^2, the mean of D_k = F_k(w*) - F_k^*,
and G^2, which bounds every gradient that a client takes; each by itself, or the bound as a whole.
The value is the same for every N >= 2 with equal weights.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import whole_number
from fedtheory.participation.coefficients import Scheme
from fedtheory.participation.cohorts import Full
from fedtheory.theorems.efl.quantities.run import EFLConstants, EFLRun, step_sizes
from fedtheory.theory import Sides
from fedtheory.theory.judge.statement import Worst
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import Quadratic, Vector, own, square, value
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import maximise
from fedtheory.worst_cases.runs import OPTIMUM, Run

BOUND, G_SQ = "minus the bound", "G^2"
MOST_STEPS = 25  # gradients of a client: half a minute of the solver
SCHEME: Scheme = "C"

Limit = tuple[Any, Any, Any, Any]  # (a, b, c, d): a ||w_0 - w*||^2 + b mean D_k + c G^2 <= d


def constants_of(E: int, L: Any, mu: Any, rounds: int, start_sq: Any = 1, D: Any = 0, G_sq: Any = 0) -> EFLConstants:
    """Theorem 1's constants of two clients that complete every step, in fractions."""
    half = np.full(2, Fraction(1, 2), dtype=object)
    law = RoundLaw(EFL(scheme=SCHEME), np.array([[Fraction(int(s == E)) for s in range(E + 1)]] * 2, dtype=object), half)
    each = np.array([Fraction(D)] * 2, dtype=object)
    return EFLConstants(
        E, Fraction(L), Fraction(mu), law.moments.theta, Fraction(G_sq), 0 * each, each, half,
        [law.moments] * rounds, Fraction(start_sq),
    )


def rate_of(bound: Callable[[EFLRun], Sides], constants: EFLConstants) -> Fraction:
    """The right side of a form of Theorem 1 after the last round."""
    nothing = np.full(constants.T + 1, Fraction(0), dtype=object)
    return Fraction(np.asarray(bound(EFLRun(constants, nothing, SCHEME, np.array([constants.T]))).rhs).ravel()[-1])


def distance_family(constants: EFLConstants, limits: Iterable[Limit]) -> Family:
    """bound - ||w_tau - w*||^2 - sum of multiplier x condition, after all rounds of the constants."""
    E, rounds = whole_number("E", constants.E), constants.T
    if E * rounds > MOST_STEPS:
        raise InvalidInput(f"{rounds} rounds of {E} local steps: worst runs are computed of at most {MOST_STEPS} steps; take fewer")
    run, terms = Run(), {BOUND: Quadratic(constant=Fraction(-1))}
    x = run.start
    for t, eta in enumerate(step_sizes(E, constants.mu, constants.gamma, list(constants.S))):
        w = x
        for j in range(E):
            gradient = run.gradient(f"g{t}.{j}", w)
            terms[f"|g{t}.{j}|"] = square(gradient) - value(G_SQ)  # G^2 is a number: it must cancel as values do
            w = w - eta * gradient
        x = run.mean(w)
    run.points["least"] = Point("least", own("least"), Vector())  # where F_k is least
    known = (run.square(run.start), value(OPTIMUM) - value("least"), value(G_SQ))
    for i, (*shares, limit) in enumerate(limits):
        parts = (Fraction(share) * part for share, part in zip(shares, known, strict=True))
        terms[f"limit {i}"] = Quadratic.total(parts) - Quadratic(constant=Fraction(limit))
    losses = Losses(constants.L, constants.mu)
    terms |= {name: -condition for name, condition in run.of_losses(losses).items()}
    return Family(-run.square(x), terms, frozenset({BOUND}))


def worst_distance(constants: EFLConstants, limits: Sequence[Limit]) -> Fraction:
    """A bound on ||w_tau - w*||^2, proved in fractions, and at most a part in ten million above the worst run."""
    return -maximise(distance_family(constants, limits), BOUND).numbers.get(BOUND, Fraction(0))


def worst_at(bound: Callable[[EFLRun], Sides], E: int = 2, condition: int = 2, rounds: int = 3) -> Worst:
    """Worst case/bound of a form of Theorem 1, linear in ||w_0 - w*||^2, D and G^2."""

    @cache
    def share() -> Fraction:
        units = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
        start, of_d, of_g = (rate_of(bound, constants_of(E, condition, 1, rounds, *unit)) for unit in units)
        return worst_distance(constants_of(E, condition, 1, rounds), [(start, of_d, of_g, 1)])

    at = f"everybody completes E = {E} steps, no noise, L = {condition} mu, tau = {rounds}"
    return Worst(at, share, (SCHEME,), lambda case: _is_at(case, E, condition, rounds))


def _is_at(case: Any, E: int, condition: int, rounds: int) -> bool:
    """Return whether a user's clients fit: alike in weight, E exact steps, L = ``condition`` mu."""
    problem, law, solver = case.problem, case.sampling, case.local_solver
    steps = getattr(law, "max_steps", None) or getattr(solver, "steps", None)
    everybody = law is None or isinstance(law, Full) or all((law.law(t)[:, -1] == 1).all() for t in range(1, rounds + 1))
    noisy = getattr(solver, "batch_size", None) is not None or getattr(solver, "noise_std", 0) != 0
    try:
        found = float(problem.beta_k.max()) / float(problem.mu_k.min())
    except (MissingCapability, ZeroDivisionError):
        return False
    alike = problem.num_clients > 1 and np.ptp(problem.weights) <= 1e-12
    return bool(steps == E and everybody and not noisy and alike and math.isclose(found, condition, rel_tol=1e-9) and not case.given)
