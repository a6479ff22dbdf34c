"""Measurable quantities of a run of EFL's local SGD, in the symbols of Theorem 1.

There is no compression, and lambda = 0 or the anchors are frozen.

How the constants are known:

* L, mu: largest and least curvature of all clients. theta: A: N; B: 1; C: E; corrected C: E/min_k
  P(s^k > 0).
* D_k = F_k(w*) - F_k^*: in closed form for quadratics; else from above, with a certified lower
  bound of every F_k^*.
* G^2 (Assumption 4) must bound E||g||^2 wherever the proof evaluates a gradient: at all E steps of
  the virtual trajectories that all clients would make from w_tau, whoever is active. For quadratics
  it is the largest of these expectations, computed exactly by the second-moment recursion. For
  ridge-regularised linear models with bounded slopes it is a supremum over a ball that the iterates
  provably never leave. The largest gradient that one run happens to meet bounds neither, and is
  never used.
* sigma_k^2 (Assumption 3): likewise.
* moments of (p_tau, s_tau): exact (`fedtheory.participation.moments`), never sampled; r_tau is
  decided from the law.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_array, real_number
from fedtheory.participation.coefficients import SCHEMES
from fedtheory.participation.moments import Moments
from fedtheory.rational import text
from fedtheory.theory import Fact, Form, derived
from fedtheory.theory.rounds.irregular_run import COMMON, IrregularRun, RunConstants

EVERY_D = Fact("every D_k > 0")
UNCORRELATED = Fact("mini-batches of different clients uncorrelated within a step")
FROZEN = Fact("frozen anchors: lambda > 0, and they never move")
MOVING = Fact("moving anchors: lambda > 0, and they are where the clients ended the round before")


def gamma_of(E: int, theta: Any, L: Any, mu: Any, S: list[Any]) -> Any:
    """gamma = max{4E^2 theta/min S, 32E(1+theta)L/(mu min S)}. Raises `InvalidInput` when some S_tau is 0."""
    least = min(S)
    if not least > 0:
        raise InvalidInput(f"S_{S.index(least)} = E[sum p s] = {text(least)}: Theorem 1 divides by it, somebody must be active")
    return max(4 * E * E * theta / least, 32 * E * (1 + theta) * L / (mu * least))


def step_sizes(E: int, mu: Any, gamma: Any, S: list[Any]) -> list[Any]:
    """eta_tau = 16E/(mu ((tau + 1)E + gamma) S_tau), one for each S_tau."""
    return [16 * E / (mu * ((tau + 1) * E + gamma) * s) for tau, s in enumerate(S)]


def given_curvatures(given: Mapping[str, Any], L: Any, mu: Any) -> tuple[Any, Any]:
    """L and mu as given, where they bound those of the clients."""
    found = real_number("L", given["L"]) if "L" in given else L, real_number("mu", given["mu"]) if "mu" in given else mu
    if not found[0] >= L * (1 - 1e-12):
        raise InvalidInput(f"L = {text(found[0])} is below a client's smoothness {text(L)} (Assumption 1): give at least that")
    if not 0 < found[1] <= mu * (1 + 1e-12):
        raise InvalidInput(f"mu = {text(found[1])} is not in (0, {text(mu)}], the least strong convexity of a client (Assumption 2)")
    return found


def given_bounds(given: Mapping[str, Any], clients: int) -> tuple[Any, Any]:
    """G and sigma_k^2 (N,) as given, None where they are not."""
    G = real_number("G", given["G"], least=0) if "G" in given else None
    if "sigma_sq" not in given:
        return G, None
    found = real_array("sigma_sq", given["sigma_sq"])
    if found.shape not in ((), (1,), (clients,)) or not (found >= 0).all():
        raise InvalidInput(f"sigma_sq = {given['sigma_sq']!r}: give one finite number >= 0, or one for each of the {clients} clients")
    return G, np.broadcast_to(found, (clients,)).astype(float)


class EFLConstants(RunConstants):
    """The constants of Theorem 1, and the terms of its bound; p^k are the ``weights``."""

    @cached_property
    def smallest_D(self) -> Any:
        """min_k D_k, 0 where rounding decides."""
        least = self.D.min()
        return least * 0 if least <= 1e-12 * (self.D.max() + self.L * self.start_sq) else least

    gamma = derived(lambda q: gamma_of(q.E, q.theta, q.L, q.mu, list(q.S)))
    y = derived(lambda q: np.arange(q.T + 1) * q.E + q.gamma, "tau E + gamma, tau = 0..T: (T + 1,)")
    eta = derived(lambda q: 16 * q.E / (q.mu * q.y[1:] * q.S))
    r = derived(
        lambda q: q.each(lambda m: q._zero + (0 if m.ratio_equal else 1)),
        "r_tau (T,): 1 where the ratio E[p s]/p^k is NOT the same for all k",
    )

    # --- the terms of B_t -------------------------------------------------------------------------
    noise_term = derived(lambda q: q.each(lambda m: (m.p2s * q.sigma_sq).sum()))
    gap_term = derived(
        lambda q: q.each(lambda m: 2 * (2 + q.theta) * q.L * (m.ps * q.D).sum()),
        "2 (2 + theta) L sum E[p s] D_k",
    )

    def bracket(self, reading: str) -> np.ndarray:
        """The last bracket of B_t in expectation: as repaired, or 'added' as printed."""
        if reading != "added":
            return self.each(lambda m: m.sum_ps + self.theta * m.overlap)
        return self.each(lambda m: 2 * m.sum_ps + self.theta * (m.sum_p - 2))

    fourth = derived(lambda q: q.each(lambda m: (m.p2s / q.weights).sum()), "sum E[p^2 s]/p^k")

    def B(self, reading: str = "positive part") -> np.ndarray:
        """E[B_t] (T,) with the printed constants and this last bracket; 'no last term': without 2EG^2 sum p^2 s/p^k."""
        n, g = self.E * (self.E - 1), self.G_sq
        third = (2 + self.mu / (2 * (1 + self.theta) * self.L)) * n * g * self.bracket(reading)
        last = 0 if reading == "no last term" else 2 * self.E * g * self.fourth
        return self.noise_term + self.gap_term + third + last

    @cached_property
    def _drift_sharp(self) -> np.ndarray:
        """The drift's terms: [((1 + eta mu)/2)(1 + theta (sum p - 2)_+) + 1/3] and E - 1. There is
        no G when E = 1."""
        n, g, c = self.E * (self.E - 1), self.G_sq, 1 + self.mu / (2 * (1 + self.theta) * self.L)
        return n * g * (c * self.bracket("positive part") / 2 + self.S / 3) + (self.E - 1) * g * self.fourth

    B_sharp = derived(
        lambda q: q.noise_term + q.gap_term + q._drift_sharp,
        "E[B_t] with what the proof needs, for uncorrelated mini-batches",
    )

    @cached_property
    def correlated_term(self) -> np.ndarray:
        """sum E[p^2 s] min(sigma^2, G^2)/p^k: the noise of mini-batches correlated in any way, by Cauchy-Schwarz."""
        noise = np.minimum(self.sigma_sq, self.G_sq)
        return self.each(lambda m: (m.p2s / self.weights * noise).sum())

    @cached_property
    def B_any(self) -> np.ndarray:
        """E[B_t] with what the proof needs, however the clients' mini-batches are correlated within a step."""
        return self.correlated_term + self.gap_term + self._drift_sharp

    # --- J ----------------------------------------------------------------------------------------
    J_t = derived(
        lambda q: q.each(lambda m: 32 * q.E * (m.ps * q.D).sum() / (q.mu * m.sum_ps)),
        "32E sum E[p s] D_k/(mu S_t), (T,)",
    )
    J = derived(lambda q: q.J_t.max())

    @cached_property
    def J_sharp(self) -> np.ndarray:
        """J_t with E[p s] - c_t p^k in place of E[p s], c_t = min_k E[p s]/p^k: 0 where all ratios
        are equal, so no r_t is needed."""

        def one(m: Moments) -> Any:
            if m.ratio_equal:
                return self._zero
            ratio = m.ps / self.weights
            return 32 * self.E * ((m.ps - ratio.min() * self.weights) * self.D).sum() / (self.mu * m.sum_ps)

        return self.each(one)

    J_printed = derived(
        lambda q: q.each(lambda m: 32 * q.E * q.mu * (m.ps / q.D).sum() / m.sum_ps).max(),
        "max 32E sum_k E[p s]/((D_k/mu) E[sum p s]): D_k in the denominator",
    )

    # --- the bound --------------------------------------------------------------------------------
    def b(self, B: np.ndarray) -> np.ndarray:
        """(16E/mu)^2 E[B_t]/S_t^2 (T,)."""
        return (16 * self.E / self.mu) ** 2 * (B / self.S**2)

    def noise_sum(self, B: np.ndarray) -> np.ndarray:
        """(16E/mu)^2 sum_{t < tau} E[B_t]/S_t^2: (T + 1,)."""
        return (16 * self.E / self.mu) ** 2 * self.before(B / self.S**2)

    def H(self, flipped: bool = False) -> np.ndarray:
        return self.before(1 - self.r if flipped else self.r)

    def summary(self) -> dict[str, Any]:
        """The constants, for the reader."""
        names = ("E", "L", "mu", "theta", "G_sq", "gamma", "start_sq", "J")
        out = {k: text(getattr(self, k)) for k in names}
        out |= {
            "N": len(self.weights), "rounds": self.T, "sigma_sq": _brief(self.sigma_sq),
            "D": _brief(self.D), "S_min": text(self.S.min()), "eta_0": text(self.eta[0]),
            "B_max": text(self.B().max()), "r_mean": float(self.r.mean()),
            "C_T": text(self.gamma**2 * self.start_sq + self.noise_sum(self.B())[-1]),
            "H_T": text(self.H()[-1]), "how": self.how,
        }
        return out


def _brief(values: np.ndarray) -> Any:
    """All of a few numbers; least, mean and largest of many."""
    v = values.astype(float)
    return [float(x) for x in v] if len(v) <= 8 else {"min": float(v.min()), "mean": float(v.mean()), "max": float(v.max())}


def unmet(facts: frozenset[str], form: Form) -> str | None:
    """Why a form that says how the clients' mini-batches are drawn is not about this run or round, or None."""
    if UNCORRELATED in form.needs and COMMON in facts:
        return "all clients draw the same mini-batch in a step: they must be uncorrelated"
    if COMMON in form.needs and COMMON not in facts:
        return "the clients' mini-batches are independent: the form is about common ones"
    return None


class EFLRun(IrregularRun):
    """A run of EFL's local SGD with Theorem 1's steps.

    Its facts: `FROZEN` where lambda > 0 and the anchors never move, `MOVING` where they follow the
    clients: the losses are then F~_k, with L~ and mu~. `COMMON` where all clients draw the same
    mini-batch in a step.
    """

    kind, rules, known, horizon = "run", SCHEMES, EFLConstants, "tau"

    @classmethod
    def method(cls, rule: str) -> EFL:
        """Give EFL with a scheme of coefficients."""
        return EFL(scheme=rule)  # type: ignore[arg-type]

    @classmethod
    def steps(cls, constants: EFLConstants) -> Any:
        """Give Theorem 1's."""
        return constants.eta

    def applies(self, form: Form) -> str | None:
        """The first thing the form needs that this run has not, or None."""
        if EVERY_D in form.needs and self.constants.smallest_D == 0:
            return "some D_k = 0, by which J divides"
        if (reason := unmet(self.facts, form)) is not None:
            return reason
        here, asked = self.facts & {FROZEN, MOVING}, {FROZEN, MOVING} & set(form.needs)
        if here == asked:
            return None
        return f"lambda > 0: the form with {', '.join(here)}" if here else "lambda = 0: there are no anchors"

    def printed_constants(self) -> dict[str, Any]:
        """The constants of Theorem 1, shown with the verdict."""
        return {"constants": self.constants.summary(), "horizons": [int(t) for t in self.horizons[:: max(1, len(self.horizons) // 5)]]}
