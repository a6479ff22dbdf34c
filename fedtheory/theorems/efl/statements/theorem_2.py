"""EFL, Theorem 2 and sections 4.3 and 4.4: a client leaves or joins, and the objective moves with
it.

With F_o the objective of the other clients (n_o samples) and a the client that leaves or joins (n_a
samples), one of the two optima minimises F_o, the other n_o F_o + n_a F_a. Where the larger
objective is stationary, n_o grad F_o = -n_a grad F_a; strong convexity of either objective and
||grad F_a||^2 <= 2L (F_a - F_a*) give everything below.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, integer, table, text, vector
from fedtheory.theorems.efl.notation import BUILDERS, statement
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, form, le
from fedtheory.theory.judge.symbolic import Letters, closed

__all__ = ["STATEMENTS", "AfterShiftView", "DepartedView", "ShiftView", "rounds_that_halve"]

DEPARTURE, ARRIVAL, FEW = "a departure", "an arrival", "n_a <= n"
NOISELESS = "gradients without noise"
APART = "optima that can be told apart, or are known exactly"


@dataclass
class ShiftView(ClosedView):
    """One shift of the objective.

    Attributes
    ----------
    event : 'departure' or 'arrival'
    n : samples before the shift (of a departure they include those of the client that leaves)
    n_a : samples of client a
    L, mu : smoothness and strong convexity of all clients
    distance_sq : ||omega* - hat omega*||^2, the optima before and after
    D_new, D_old : F_a - F_a* at the optimum after and before the shift
    noise : uncertainty of what was computed numerically (0 for fractions)
    """

    event: str
    n: Any
    n_a: Any
    L: Any
    mu: Any
    distance_sq: Any
    D_new: Any
    D_old: Any
    noise: Any = 0

    def __post_init__(self) -> None:
        facts = {DEPARTURE if self.event == "departure" else ARRIVAL}
        if self.n_a <= self.n:
            facts.add(FEW)
        if self.noise == 0 or self.distance_sq > self.noise:
            facts.add(APART)
        self.facts = frozenset(facts)

    def printed_constants(self) -> dict[str, Any]:
        names = ("n", "n_a", "L", "mu", "D_new", "D_old")
        return {k: text(getattr(self, k)) for k in names}


def _bound(v: ShiftView, factor: Any, n: Any, at: str = "D_new") -> Sides:
    """||omega* - hat omega*||^2 <= factor L n_a^2 D_a/(mu^2 n^2)."""
    return le(v.distance_sq, factor * v.L * v.n_a**2 * getattr(v, at) / (v.mu**2 * n**2), noise=v.noise)


def _sharp(v: ShiftView, n: Any, at: str, factor: Fraction | int = 2) -> Sides:
    """2 L n_a^2 D_a/(mu^2 n_o^2 + mu L n_a (n + n_o)), n_o = n - n_a samples of the others."""
    others = n - v.n_a
    below = v.mu**2 * others**2 + v.mu * v.L * v.n_a * (n + others)
    return le(v.distance_sq, factor * v.L * v.n_a**2 * getattr(v, at) / below, noise=v.noise)


def _others(v: ShiftView, factor: Any) -> Sides:
    """||omega* - hat omega*||^2 <= factor L n_a^2 D_a/(mu^2 (n - n_a)^2), with a's gap at the old optimum."""
    return _bound(v, factor, v.n - v.n_a, "D_old")


def _after(v: ShiftView) -> Any:
    return v.n + v.n_a


@dataclass
class Client:
    """sum_i h_i (x_i - c_i)^2/2; in one dimension the curvature may be ``below`` left of ``bend`` (a point left of c)."""

    h: np.ndarray
    c: np.ndarray
    bend: Any = None
    below: Any = None

    def excess(self, x: np.ndarray) -> Any:
        """F_a(x) - F_a*."""
        if self.bend is None or x[0] >= self.bend:
            return (self.h * (x - self.c) ** 2).sum() / 2
        h, c, b = self.h[0], self.c[0], self.bend
        return h * (b - c) ** 2 / 2 + h * (b - c) * (x[0] - b) + self.below * (x[0] - b) ** 2 / 2

    def joint(self, weight: Any, h: np.ndarray, c: np.ndarray, other: Any) -> np.ndarray:
        """argmin other * (sum h (x - c)^2/2) + weight * F_a."""
        x = (other * h * c + weight * self.h * self.c) / (other * h + weight * self.h)
        if self.bend is None or x[0] >= self.bend:
            return x
        slope = self.h[0] * (self.bend - self.c[0]) - self.below * self.bend  # F_a' = slope + below x, left of the bend
        return (other * h * c - weight * slope) / (other * h + weight * self.below)


@BUILDERS.add("shift")
def shift_view(data: dict[str, Any]) -> ShiftView:
    """From event, samples (of every client, a last), h and c (rows, a last); optional bend and below of client a (d = 1).

    Raises
    ------
    InvalidInput
        Fewer than two clients (nobody stays), numbers that are not > 0, or a bend right of a's minimiser.
    """
    event = data["event"]
    if event not in ("departure", "arrival"):
        raise InvalidInput(f"event = {event!r}: use 'departure' or 'arrival'")
    samples, h, c = vector(data["samples"], "samples"), table(data["h"], "h"), table(data["c"], "c")
    if len(samples) < 2 or h.shape != c.shape or len(h) != len(samples):
        raise InvalidInput(f"samples ({len(samples)}), h {h.shape} and c {c.shape}: give at least two clients and a row for each")
    if min(samples) <= 0 or h.min() <= 0:
        raise InvalidInput("samples and curvatures must be > 0: without strong convexity the optima are not unique")
    bend = None if "bend" not in data else fraction(data["bend"], "bend")
    below = None if bend is None else fraction(data["below"], "below")
    if bend is not None and (h.shape[1] != 1 or bend > c[-1, 0] or below is None or below <= 0):
        raise InvalidInput("a bend needs d = 1, below > 0, and to lie left of client a's minimiser")
    client, n_a, n_o = Client(h[-1], c[-1], bend, below), samples[-1], samples[:-1].sum()
    weights = samples[:-1, None] / n_o
    curvature = (weights * h[:-1]).sum(axis=0)
    centre = (weights * h[:-1] * c[:-1]).sum(axis=0) / curvature
    both = client.joint(n_a, curvature, centre, n_o)
    old, new = (both, centre) if event == "departure" else (centre, both)
    known = [*h.ravel(), *([] if below is None else [below])]
    return ShiftView(
        event, n_o + (n_a if event == "departure" else 0), n_a, max(known), min(known),
        ((old - new) ** 2).sum(), client.excess(new), client.excess(old),
    )  # fmt: skip


# --- 4.3: H_T after a departure -------------------------------------------------------------------
@dataclass
class DepartedView(ClosedView):
    """r_t of T rounds in which client a does nothing after round tau_0 (rounds from 0).

    Attributes
    ----------
    ratios : (T, N) E[p_t^k s_t^k]/p^k, exact
    tau_0 : the last round in which a may work
    """

    ratios: np.ndarray
    tau_0: int

    @property
    def r(self) -> list[int]:
        """r_t = 1 where the ratio is not the same for all clients."""
        return [int(any(x != row[0] for x in row)) for row in self.ratios]

    def printed_constants(self) -> dict[str, Any]:
        return {"T": len(self.ratios), "tau_0": self.tau_0, "H_T": sum(self.r)}


@BUILDERS.add("departed")
def departed_view(data: dict[str, Any]) -> DepartedView:
    """From E, T, tau_0 and mean_work: E[p^k s^k]/p^k of the rounds before (N numbers, or T rows), a last."""
    rounds = integer(data["T"], "T", 1)
    tau_0 = integer(data["tau_0"], "tau_0", 0, rounds - 1)
    work = data["mean_work"]
    rows = table(work, "mean_work") if isinstance(work[0], list) else np.stack([vector(work, "mean_work")] * rounds)
    if rows.shape[0] != rounds or rows.shape[1] < 2 or rows.min() < 0 or rows[:, :-1].max(axis=1).min() <= 0:
        raise InvalidInput("mean_work: a row a round, at least two clients, numbers >= 0, and in every round a client that stays works")
    rows = rows.copy()
    rows[tau_0 + 1 :, -1] = Fraction(0)
    return DepartedView(rows, tau_0)


def _h_at_least(v: DepartedView, rounds: int) -> Sides:
    return le(Fraction(rounds), Fraction(sum(v.r)))


# --- 4.3, 4.4: after the shift, with the step that has decayed and with a fresh start -------------
@dataclass
class AfterShiftView(ClosedView):
    """Second moments of w - hat omega* after a shift at tau_0: one quadratic objective, E = 1,
    noise of variance sigma^2 a step.

    Attributes
    ----------
    curvature : (d,) of the new objective
    start : (d,) omega* - hat omega*
    mu, gamma : of the step eta_tau = 16/(mu (tau + 1 + gamma))
    tau_0, rounds : the shift, and the rounds after it
    sigma_sq : noise per coordinate
    """

    curvature: np.ndarray
    start: np.ndarray
    mu: Any
    gamma: Any
    tau_0: int
    rounds: int
    sigma_sq: Any

    def __post_init__(self) -> None:
        self.facts = frozenset({NOISELESS} if self.sigma_sq == 0 else set())

    def errors(self, age: int) -> np.ndarray:
        """E||w - hat omega*||^2 after 0..rounds more rounds, the first of which takes the step of round ``age``."""
        moment, out = self.start**2, []
        for t in range(self.rounds + 1):
            out.append(moment.sum())
            eta = 16 / (self.mu * (age + t + 1 + self.gamma))
            moment = (1 - eta * self.curvature) ** 2 * moment + eta**2 * self.sigma_sq
        return np.array(out, dtype=object)

    def pace(self, power: int = 32) -> np.ndarray:
        """((tau_0 + gamma)/(tau + gamma))^power ||omega* - hat omega*||^2."""
        ratio = [(self.tau_0 + self.gamma) / (self.tau_0 + t + self.gamma) for t in range(self.rounds + 1)]
        return np.array([r**power * (self.start**2).sum() for r in ratio], dtype=object)

    def printed_constants(self) -> dict[str, Any]:
        return {"tau_0": self.tau_0, "gamma": text(self.gamma), "mu": text(self.mu), "sigma_sq": text(self.sigma_sq)}


@BUILDERS.add("after-shift")
def after_shift_view(data: dict[str, Any]) -> AfterShiftView:
    """From curvature, start, mu, gamma, tau_0, rounds, sigma_sq. Raises `InvalidInput` where a step
    exceeds 1/L, or mu a curvature."""
    h, start = vector(data["curvature"], "curvature"), vector(data["start"], "start")
    mu, gamma, sigma_sq = (fraction(data[k], k) for k in ("mu", "gamma", "sigma_sq"))
    if len(h) != len(start) or not 0 < mu <= h.min():
        raise InvalidInput("curvature and start need one number a coordinate, and mu must be > 0 and at most every curvature")
    if sigma_sq < 0 or 16 * h.max() > mu * (1 + gamma):
        raise InvalidInput("sigma_sq must be >= 0, and gamma so large that the first step 16/(mu (1 + gamma)) is at most 1/L")
    tau_0, rounds = integer(data["tau_0"], "tau_0"), integer(data["rounds"], "rounds", 1, 400)
    return AfterShiftView(h, start, mu, gamma, tau_0, rounds, sigma_sq)


def rounds_that_halve(tau_0: int, gamma: float) -> float:
    """Rounds after which the decayed step has surely halved ||w - hat omega*||:
    (2^{1/16} - 1)(tau_0 + gamma), by the pace above."""
    return (2 ** (1 / 16) - 1) * (tau_0 + gamma)


_OF_SHIFT = {
    "n": "n", "n_a": "n_a", "L": "L", "mu": r"\mu", "distance_sq": r"\|\omega^*-\hat\omega^*\|^2",
    "D_new": r"\hat D_a", "D_old": "D_a",
}
SHIFT = Letters(_OF_SHIFT, ("distance_sq", "D_new", "D_old"), zero=("noise",))
OLD_GAP = r",\quad D_a=F_a(\omega^*)-F_a^*"
SHIFTED = (
    r",\ \tau>\tau_0,\ \omega_{\tau_0}=\omega^*,\ \eta_\tau=\tfrac{16}{\mu(\tau+1+\gamma)},\ "
    r"\eta^{\text{fresh}}_\tau=\tfrac{16}{\mu(\tau-\tau_0+1+\gamma)}"
)
SMOOTH = (
    "every F_k and F is L-smooth and mu-strongly convex",
    "F_k^* is the infimum over R^d; every F_k is the same function before and after",
)

STATEMENTS = (
    statement(
        "theorem-2-departure",
        "how far the optimum moves when a client leaves",
        "Theorem 2, (10)",
        closed(
            "printed", SHIFT, lambda v: _bound(v, 8, v.n), "holds",
            ("1.9 for 8", lambda v: _bound(v, Fraction(19, 10), v.n)), kind="shift", needs=(DEPARTURE,),
            note="n counts the samples before the shift, those of a included; a quarter of it is enough",
            proof="four times the bound of `sharpened`",
        ),
        closed(
            "sharpened", SHIFT, lambda v: _bound(v, 2, v.n), "holds",
            ("1.9 for 2", lambda v: _bound(v, Fraction(19, 10), v.n)), kind="shift", needs=(DEPARTURE,),
            note="mu ||omega* - hat omega*|| <= ||grad F(hat omega*)|| = (n_a/n) ||grad F_a(hat omega*)||; attained where L = mu",
            proof="docs/efl.md#theorem-2-the-optimum-moves",
        ),
        closed(
            "sharp", SHIFT, lambda v: _sharp(v, v.n, "D_new"),
            "holds",
            ("1.9 for 2", lambda v: _sharp(v, v.n, "D_new", Fraction(19, 10))), kind="shift", needs=(DEPARTURE,),
            note="with both functions' strong convexity; attained for all n, n_a, L, mu in one dimension, where F_a has curvature mu "
            "between the two optima and L beyond",
            proof="docs/efl.md#theorem-2-the-optimum-moves",
        ),
        assumptions=SMOOTH,
        measures="squared distance that the optimum moves",
    ),
    statement(
        "theorem-2-arrival",
        "how far the optimum moves when a client joins",
        "Theorem 2, (11)",
        closed(
            "printed", SHIFT, lambda v: _bound(v, 8, _after(v)), "violated",
            kind="shift",
            needs=(ARRIVAL,),
            note="false as soon as n_a > n, for quadratics with any L and mu: hat D_a is measured where a already pulls",
        ),
        closed(
            "repaired", SHIFT, lambda v: _bound(v, 2, v.n), "holds",
            ("1.9 for 2", lambda v: _bound(v, Fraction(19, 10), v.n)), kind="shift", needs=(ARRIVAL,),
            note="mu ||omega* - hat omega*|| <= ||grad F(hat omega*)|| = (n_a/n) ||grad F_a(hat omega*)||; "
            "attained for all n, n_a, L, mu",
            proof="docs/efl.md#theorem-2-the-optimum-moves",
        ),
        closed(
            "printed, few", SHIFT, lambda v: _bound(v, 8, _after(v)),
            "holds", ("7.9 for 8", lambda v: _bound(v, Fraction(79, 10), _after(v))),
            after=r"\text{ if }n_a\le n", kind="shift", needs=(ARRIVAL, FEW),
            note="what is printed holds exactly where it is not stronger than the repaired bound; 8 is attained at n_a = n",
            proof="(n + n_a)^2 <= 4 n^2, so that it is at least the bound of `repaired`",
        ),
        closed(
            "old optimum", SHIFT, lambda v: _sharp(v, _after(v), "D_old"), "holds",
            ("1.9 for 2", lambda v: _sharp(v, _after(v), "D_old", Fraction(19, 10))), after=OLD_GAP, kind="shift", needs=(ARRIVAL,),
            note="an arrival is a departure read backwards: with a's gap at the old optimum, known before a works, the printed bound "
            "holds with 2 for 8",
            proof="docs/efl.md#theorem-2-the-optimum-moves",
        ),
        assumptions=SMOOTH,
        measures="squared distance that the optimum moves",
    ),
    statement(
        "departure-heterogeneity",
        "after a departure the rounds count as heterogeneous",
        "section 4.3",
        form(
            "printed", r"s^a_\tau=0\ (\tau>\tau_0)\Rightarrow H_T\ge T-\tau_0", lambda v: _h_at_least(v, len(v.ratios) - v.tau_0),
            "violated", kind="departed",
            note="rounds count from 0 and H_T runs to T - 1, so the rounds after tau_0 are T - 1 - tau_0",
        ),
        form(
            "repaired", r"s^a_\tau=0\ (\tau>\tau_0)\Rightarrow H_T\ge T-1-\tau_0",
            lambda v: _h_at_least(v, len(v.ratios) - 1 - v.tau_0), "holds",
            ("r_t = 1 where all ratios agree", lambda v: le(Fraction(len(v.ratios) - 1 - v.tau_0), Fraction(len(v.r) - sum(v.r)))),
            kind="departed",
            note="with r_t = 1 where the ratio is not the same for all k; read literally (1 where it is the same) H_T would be 0",
            proof=(
                "in each of the rounds tau_0 + 1 to T - 1 the ratio of a is 0 and that of a client"
                " that works is not"
            ),
        ),
        assumptions=(
            "in every round some client that stays works: E[p^k s^k] > 0",
        ),
    ),
    statement(
        "departure-no-convergence",
        "whether the run can still reach the old optimum",
        "section 4.3",
        form(
            "the optimum moves", r"s^a_\tau=0\ (\tau>\tau_0)\Rightarrow\hat\omega^*\ne\omega^*",
            lambda v: le(Fraction(1), Fraction(int(v.distance_sq > 0))),
            "violated", kind="shift", needs=(DEPARTURE, APART), wording="in words",
            note="'cannot converge to the global optimal': only the bound cannot vanish. Where grad F_a(omega*) = 0 the optimum does "
            "not move and the run converges to it",
        ),
        closed(
            "repaired", SHIFT, lambda v: _others(v, 2), "holds", ("1.9 for 2", lambda v: _others(v, Fraction(19, 10))),
            after=OLD_GAP, kind="shift",
            needs=(DEPARTURE,), note="||grad F_a(omega*)||^2 n_a^2/(mu^2 (n - n_a)^2) lies between the two sides: the run goes to "
            "hat omega*, which is omega* if a's gradient vanishes there",
            proof="docs/efl.md#theorem-2-the-optimum-moves",
        ),
        assumptions=SMOOTH,
    ),
    statement(
        "learning-rate-after-shift",
        "whether the step must grow again after the objective moved",
        "sections 4.3 and 4.4",
        form(
            "fresh start",
            r"\mathbb E\|\omega^{\text{fresh}}_\tau-\hat\omega^*\|^2\le\mathbb E\|\omega_\tau-\hat\omega^*\|^2" + SHIFTED,
            lambda v: le(v.errors(0)[1:], v.errors(v.tau_0)[1:]), "violated", kind="after-shift", wording="in words",
            note="a fresh start also brings back the noise of large steps: where the shift is small against it, keep the step",
        ),
        form(
            "repaired",
            r"\|\omega^{\text{fresh}}_\tau-\hat\omega^*\|^2\le\|\omega_\tau-\hat\omega^*\|^2\text{ without noise}" + SHIFTED,
            lambda v: le(v.errors(0)[1:], v.errors(v.tau_0)[1:]), "holds",
            ("the other way round", lambda v: le(v.errors(v.tau_0)[1:], v.errors(0)[1:])),
            kind="after-shift", needs=(NOISELESS,),
            note="E = 1, every step at most 1/L",
            proof=(
                "in every coordinate 0 <= 1 - eta h < 1 falls as eta grows, and the fresh steps "
                "are the longer ones"
            ),
        ),
        form(
            "kept step",
            r"\|\omega_\tau-\hat\omega^*\|^2\le\big(\tfrac{\tau_0+\gamma}{\tau+\gamma}\big)^{32}\|\omega^*-\hat\omega^*\|^2"
            r",\ \tau>\tau_0,\ \omega_{\tau_0}=\omega^*,\ \eta_\tau=\tfrac{16}{\mu(\tau+1+\gamma)}",
            lambda v: le(v.errors(v.tau_0)[1:], v.pace()[1:]), "holds",
            ("the power 34", lambda v: le(v.errors(v.tau_0)[1:], v.pace(34)[1:])),
            kind="after-shift", needs=(NOISELESS,),
            note="the decayed step is not inapplicable: it converges too, halving the distance in at most "
            "(2^{1/16} - 1)(tau_0 + gamma) rounds, the longer the later the shift",
            proof=(
                "1 - eta h <= 1 - 16/(t + 1 + gamma) <= ((t + gamma)/(t + 1 + gamma))^16 by "
                "Bernoulli, and the product telescopes"
            ),
        ),
        assumptions=("quadratics, E = 1, S_tau = 1: the steps are 16/(mu (tau + 1 + gamma)), at most 1/L",),
    ),
)  # fmt: skip
