"""A run of EFL's local SGD that the objective moves in: Theorem 1's steps before and after,
exactly, on quadratics.

After tau_0 rounds client a leaves or joins, so that the optimum moves from omega* to hat omega*.
The run goes on with a fresh start of the steps, tau counted from 0 and gamma taken from the new
federation, or with the steps as they are, gamma the larger of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedtheory.rational import text
from fedtheory.theorems.efl.quantities.run import EFLConstants, gamma_of, step_sizes
from fedtheory.theorems.efl.statements.theorem_2 import ShiftView
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.second_moments import Path, QuadraticOracles, second_moments

__all__ = ["Leg", "ShiftedRunView", "shifted_run", "without"]

Side = tuple[QuadraticOracles, list[RoundLaw]]


@dataclass(frozen=True)
class Leg:
    """The rounds before the shift, or those after it.

    Attributes
    ----------
    constants : Theorem 1's, of these rounds
    y : (T + 1,) tau E + gamma as the steps of these rounds have it
    distance_sq : (T + 1,) exact E||w - optimum||^2, the optimum of these rounds
    """

    constants: EFLConstants
    y: np.ndarray
    distance_sq: np.ndarray

    def bound(self, start_sq: Any, start: Any = 1, rest: Any = 1) -> np.ndarray:
        """(y_0^2 start_sq + (16E/mu)^2 sum E[B_t]/S_t^2)/y^2 + H J/y, (T + 1,): Theorem 1 from y_0 on, repaired."""
        c = self.constants
        return (start * self.y[0] ** 2 * start_sq + rest * c.noise_sum(c.B())) / self.y**2 + c.H() * c.J / self.y


@dataclass
class ShiftedRunView(ClosedView):
    """Both ways to go on after a shift, and Theorem 2's bound of it.

    Attributes
    ----------
    before, before_kept : the rounds up to the shift, with the old federation's gamma and with the larger of both
    fresh, kept : the rounds after it, with a fresh start of the steps and without one
    shift : ||omega* - hat omega*||^2 and what Theorem 2 needs
    """

    before: Leg
    before_kept: Leg
    fresh: Leg
    kept: Leg
    shift: ShiftView
    noise: Any = 0

    def __post_init__(self) -> None:
        self.facts = self.shift.facts

    @property
    def tau_0(self) -> int:
        """The round of the shift."""
        return len(self.before.y) - 1

    def moved(self, factor: int = 2, printed: bool = False) -> Any:
        """Theorem 2's bound of ||omega* - hat omega*||^2: (10), (11) repaired, or as printed."""
        v = self.shift
        n = v.n + v.n_a if printed and v.event == "arrival" else v.n
        return factor * v.L * v.n_a**2 * v.D_new / (v.mu * n) ** 2

    def reached(self, kept: bool = False) -> Any:
        """Theorem 1's bound of E||w_{tau_0} - omega*||^2."""
        leg = self.before_kept if kept else self.before
        return leg.bound(leg.constants.start_sq)[-1]

    def printed_constants(self) -> dict[str, Any]:
        return {
            "event": self.shift.event, "tau_0": self.tau_0,
            "Theorem 1 at the shift": text(self.reached()), "Theorem 2": text(self.moved()),
            "gamma, before and after": [text(self.before.y[0]), text(self.fresh.y[0])],
        }


def _gamma(shift: ShiftView, laws: list[RoundLaw]) -> Any:
    rounds = [law.moments for law in laws]
    return gamma_of(laws[0].E, max(m.theta for m in rounds), shift.L, shift.mu, [m.sum_ps for m in rounds])


def _leg(
    shift: ShiftView, side: Side, w0: np.ndarray, gamma: Any, moment: np.ndarray | None = None, first: int = 0
) -> tuple[Leg, Path]:
    """Rounds with the steps 16E/(mu ((first + t + 1)E + gamma) S_t)."""
    oracles, laws = side
    E, rounds = laws[0].E, [law.moments for law in laws]
    y_0 = first * E + gamma
    path = second_moments(oracles, laws, step_sizes(E, shift.mu, y_0, [m.sum_ps for m in rounds]), w0, moment)
    constants = EFLConstants(
        E, shift.L, shift.mu, max(m.theta for m in rounds), path.G_sq, path.sigma_sq, oracles.D,
        oracles.weights, rounds, path.distance_sq[0],
    )
    return Leg(constants, np.arange(len(laws) + 1) * E + y_0, path.distance_sq), path


def _about(moment: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The second moment of (w - new, 1) from that of (w - old, 1)."""
    d = len(old)
    move = np.zeros((d + 1, d + 1), dtype=moment.dtype) + 0 * moment[0, 0]
    move[range(d + 1), range(d + 1)] = moment[d, d]
    move[:d, d] = old - new
    return np.asarray(move @ moment @ move.T)


def shifted_run(old: Side, new: Side, w0: np.ndarray, shift: ShiftView) -> ShiftedRunView:
    """The run of the old federation from w0, and both ways in which the new one goes on; L and mu are those of all clients.

    Parameters
    ----------
    old, new : the clients and a law for each round, before the shift and after it, at least one round each

    Raises
    ------
    InvalidInput
        A round with S_tau = 0.
    """
    gammas, legs = [_gamma(shift, laws) for _, laws in (old, new)], []
    before, path = _leg(shift, old, w0, gammas[0])
    for gamma, first in ((gammas[0], None), (max(gammas), len(old[1]))):
        if gamma != gammas[0]:
            before, path = _leg(shift, old, w0, gamma)
        moment = _about(path.second_moment, old[0].star, new[0].star)
        after, _ = _leg(shift, new, w0, gammas[1] if first is None else gamma, moment, first or 0)
        legs.append((before, after))
    return ShiftedRunView(legs[0][0], legs[1][0], legs[0][1], legs[1][1], shift)


def without(oracles: QuadraticOracles, client: int) -> QuadraticOracles:
    """The same clients but one, their weights divided by their sum."""
    rest = [k for k in range(len(oracles.weights)) if k != client]
    own = {name: getattr(oracles, name)[rest] for name in ("H", "b", "q", "noise_sq")}
    return replace(oracles, **own, weights=oracles.weights[rest] / oracles.weights[rest].sum())
