"""EFL, sections 1, 4.3 and 5.4: what one absence, an early or late departure, and a long wait do to
a run.

All of it is about gradient descent on quadratics with Theorem 1's steps, E = 1, in which one
client, a, is there or not. With P the product of the matrices I - eta_t H of the rounds that
follow, a change of the model by e in some round is P e at the end. Started at the optimum, one
round without a moves the model by eta_t p^a grad F_a(omega*), the same vector in every round but
for its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, integer, table, text, vector
from fedtheory.theorems.efl.notation import BUILDERS, statement
from fedtheory.theorems.efl.statements.sections_4_1_and_4_2 import LATE, RULE_8, SOME, InactiveView
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le
from fedtheory.theory.judge.symbolic import closed

__all__ = ["APART", "MIXED", "STATEMENTS", "AwayView", "QuadraticClients"]

APART, MIXED = "coordinates that do not mix", "coordinates that mix"


def solved(H: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The x with H x = b for a positive definite H, by elimination in fractions, or in floats."""
    if H.dtype != object:
        return np.linalg.solve(H, b)
    rows = np.concatenate([H, b[:, None]], axis=1)
    for i in range(len(b)):
        rows[i] = rows[i] / rows[i, i]
        for j in range(len(b)):
            if j != i:
                rows[j] = rows[j] - rows[j, i] * rows[i]
    return rows[:, -1]


def definite(H: np.ndarray) -> bool:
    """Return whether a symmetric matrix of fractions is positive semidefinite. No pivot is below 0,
    and nothing is left beside one that is 0."""
    H = H.copy()
    for i in range(len(H)):
        if H[i, i] < 0 or (H[i, i] == 0 and (H[i, i:] != 0).any()):
            return False
        if H[i, i] > 0:
            H[i:, i:] = H[i:, i:] - H[i:, i, None] * H[i, None, i:] / H[i, i]
    return True


@dataclass
class QuadraticClients:
    """Clients w' H_k w/2 - b_k' w.

    Attributes
    ----------
    H, b : (N, d, d), symmetric and positive definite, and (N, d)
    """

    H: np.ndarray
    b: np.ndarray

    @classmethod
    def diagonal(cls, h: np.ndarray, c: np.ndarray) -> QuadraticClients:
        """sum_i h_ki (w_i - c_ki)^2/2, from (N, d) each."""
        H = np.zeros((*h.shape, h.shape[1]), dtype=h.dtype) + 0 * h[0, 0]
        H[:, range(h.shape[1]), range(h.shape[1])] = h
        return cls(H, h * c)

    def slope(self, weights: np.ndarray, w: np.ndarray) -> np.ndarray:
        """sum_k weights_k grad f_k(w)."""
        return (weights[:, None, None] * self.H).sum(axis=0) @ w - weights @ self.b

    def argmin(self, weights: np.ndarray) -> np.ndarray:
        """argmin sum_k weights_k f_k."""
        return solved((weights[:, None, None] * self.H).sum(axis=0), weights @ self.b)

    def gap(self, k: int, w: np.ndarray) -> Any:
        """f_k(w) - f_k^*."""
        one = np.zeros(len(self.H), dtype=int)
        one[k] = 1
        away = w - self.argmin(one + 0 * self.b[:, 0])
        return away @ self.H[k] @ away / 2


@dataclass
class AwayView(ClosedView):
    """Runs of T rounds with Theorem 1's steps eta_t = 16/(mu (t + 1 + gamma)), client a (the last one) there or not.

    Attributes
    ----------
    clients : the losses
    weights : (N,) p^k
    mu, gamma : of the steps
    T : rounds
    x0 : (d,) a start other than the optimum
    noise : of a squared distance or a loss, 0 for fractions
    """

    clients: QuadraticClients
    weights: np.ndarray
    mu: Any
    gamma: Any
    T: int
    x0: np.ndarray
    noise: Any = 0

    def __post_init__(self) -> None:
        H = self.clients.H
        off = abs(H * (1 - np.eye(H.shape[1], dtype=int))).max()
        self.facts = frozenset({APART if off <= (0 if H.dtype == object else 1e-12 * abs(H).max()) else MIXED})

    @property
    def others(self) -> np.ndarray:
        """p^k of all but a, 0 for a, not divided by their sum."""
        w = self.weights.copy()
        w[-1] = w[-1] * 0
        return w

    @property
    def rest(self) -> np.ndarray:
        """The same, of sum 1."""
        return self.others / self.others.sum()

    @cached_property
    def star(self) -> np.ndarray:
        """omega*, the optimum with a."""
        return self.clients.argmin(self.weights)

    def run(self, start: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
        """Models (T + 1, d) of rounds with these coefficients."""
        path = [start]
        for t, p in enumerate(weights):
            eta = 16 / (self.mu * (t + 1 + self.gamma))
            path.append(path[-1] - eta * self.clients.slope(p, path[-1]))
        return np.stack(path)

    def absences(self, start: np.ndarray) -> np.ndarray:
        """||w_T - omega*||^2 of the runs in which a is inactive in round t alone, t = 0..T-1."""
        ends = [self.run(start, [self.others if t == out else self.weights for t in range(self.T)])[-1] for out in range(self.T)]
        return np.array([((w - self.star) ** 2).sum() for w in ends])

    def departures(self, start: np.ndarray) -> np.ndarray:
        """F_a(w_T) - F_a* of the runs in which a works in the first tau_0 rounds and then leaves, tau_0 = 0..T."""
        weights = [[self.weights if t < tau_0 else self.rest for t in range(self.T)] for tau_0 in range(self.T + 1)]
        return np.array([self.clients.gap(len(self.weights) - 1, self.run(start, p)[-1]) for p in weights])

    def waiting(self, in_turn: bool) -> np.ndarray:
        """grad F_a(w_m) - grad F_a(w_0) (T + 1, d) while a waits and the others work, all in every
        round or one after another."""
        n = len(self.weights) - 1
        turns = [np.eye(n + 1, dtype=int)[t % n] + 0 * self.weights for t in range(self.T)]
        path = self.run(self.x0, turns if in_turn else [self.rest] * self.T)
        return (path - path[0]) @ self.clients.H[-1]

    def printed_constants(self) -> dict[str, Any]:
        return {"T": self.T, "mu": text(self.mu), "gamma": text(self.gamma), "argmin": [text(x) for x in self.star]}


@BUILDERS.add("away")
def away_view(data: dict[str, Any]) -> AwayView:
    """From weights, h or H, c (client a last), mu, gamma, T and x0. h are curvatures (N, d), H symmetric matrices (N, d, d).

    Raises
    ------
    InvalidInput
        What does not fit together; a step above 1/L, or mu above a curvature.
    """
    weights, c = vector(data["weights"], "weights"), table(data["c"], "c")
    mu, gamma, x0 = fraction(data["mu"], "mu"), fraction(data["gamma"], "gamma"), vector(data["x0"], "x0")
    if "H" in data:
        H = np.stack([table(rows, "H") for rows in data["H"]])
        clients = QuadraticClients(H, (H * c[:, None, :]).sum(axis=-1)) if H.shape == (*c.shape, c.shape[1]) else None
    else:
        h = table(data["h"], "h")
        clients = QuadraticClients.diagonal(h, c) if h.shape == c.shape else None
    if clients is None or len(c) != len(weights) or len(c) < 2 or x0.shape != c.shape[1:] or mu <= 0:
        raise InvalidInput("weights, h or H, c and x0 do not fit together, or mu <= 0: at least two clients, a row of d numbers each")
    one = np.eye(c.shape[1], dtype=int)
    fits = all(definite(H - mu * one) and definite(mu * (1 + gamma) / 16 * one - H) and (H == H.T).all() for H in clients.H)
    if weights.min() <= 0 or weights.sum() != 1 or not fits:
        raise InvalidInput("weights must be > 0 and sum to 1, mu at most every curvature, and 16/(mu (1 + gamma)) at most 1/L")
    return AwayView(clients, weights, mu, gamma, integer(data["T"], "T", 2, 60), x0)


def _grows(values: np.ndarray, noise: Any, factor: Any = 1) -> Sides:
    """values[t] <= values[t + 1], times a factor."""
    return le(values[:-1], factor * values[1:], noise=noise)


def _falls(values: np.ndarray, noise: Any, factor: Any = 1) -> Sides:
    return le(values[1:], factor * values[:-1], noise=noise)


def _square(values: np.ndarray) -> np.ndarray:
    return (values**2).sum(axis=-1)


def _wait_bound(v: AwayView, share: Any = 1) -> Sides:
    """|grad F_a(w_m) - grad F_a(w_0)|_i <= h_ai sum_{t < m} |w_{t+1} - w_t|_i, coordinate by coordinate."""
    moved = abs(np.diff(v.waiting(True), axis=0))
    return le(abs(v.waiting(True)[1:]), share * np.cumsum(moved, axis=0), noise=v.noise)


def _tenths(v: Any, number: int) -> Any:
    return number * v.gamma / (10 * v.gamma)


# --- the bounds of 4.1 as T or tau_0 changes ------------------------------------------------------
def _threshold(v: InactiveView, T: int) -> Any:
    """f_1(T)/J with C_T = T C."""
    return T * v.C / (v.J * (v.E * (T - v.tau_0) + v.gamma) ** 2)


def _slope(v: InactiveView, factor: Any = 1) -> Sides:
    """f_1(T) - f_1(T+1), over J, against C(T(T+1)E^2 - (gamma - E tau_0)^2)/(J y^2 (y + E)^2), y = E(T - tau_0) + gamma."""
    y = v.E * (v.T - v.tau_0) + v.gamma
    fall = v.C * (v.T * (v.T + 1) * v.E**2 - factor * (v.gamma - v.E * v.tau_0) ** 2) / (v.J * y**2 * (y + v.E) ** 2)
    return eq(_threshold(v, v.T) - _threshold(v, v.T + 1), fall, _threshold(v, v.T) + _threshold(v, v.T + 1))


def _discard(v: InactiveView, sign: int = 1) -> Sides:
    """f_0 - f_1 falls in tau_0 = 0..T-1: f_0 = C_T/y^2 + (T - 1 - tau_0) J/y, y = TE + gamma;
    f_1 = C_T/(E(T - tau_0) + gamma)^2."""
    tau_0, y = np.array(range(v.T), dtype=object), v.T * v.E + v.gamma
    keep = v.T * v.C / y**2 + (v.T - 1 - tau_0) * v.J / y
    leave = v.T * v.C / (v.E * (v.T - tau_0) + v.gamma) ** 2
    return _falls(sign * (keep - leave), 0)


AT_T = r"\|\omega_T^{(%s)}-\omega^*\|^2"
GAP = r"F_a(\omega_T^{(%s)})-F_a^*"
WAIT = r"\|\nabla F_a(\omega_%s)-\nabla F_a(\omega_0)\|^2"
ABSENT = r"\text{client }a\text{ inactive in round }t\text{ alone}"
LEAVES = r"a\text{ works in the first }\tau_0\text{ rounds only}"

FALLS = r"\tfrac{f_1(T+1)}J\le\tfrac{f_1(T)}J:\ "

STATEMENTS = (
    statement(
        "tolerance",
        "whether the tolerance to inactive clients falls as the training goes on",
        "section 1, second contribution, with (8) and (9)",
        closed(
            "through (8)", RULE_8, lambda v: le(_threshold(v, v.T + 1), _threshold(v, v.T)), "violated", before=FALLS,
            kind="inactive", wording="in words",
            note="a client is kept while y^a is at most f_1(T)/J. That rises with T until T(T+1)E^2 reaches (gamma - E tau_0)^2",
        ),
        closed(
            "through (8), late", RULE_8, lambda v: le(_threshold(v, v.T + 1), _threshold(v, v.T)), "holds",
            ("99 hundredths of it", lambda v: le(_threshold(v, v.T + 1), 99 * _threshold(v, v.T) / 100)),
            before=FALLS, after=r"\text{ where }T(T+1)E^2\ge(\gamma-E\tau_0)^2", kind="inactive", needs=(LATE,),
            proof="the identity of `through (8), exactly`",
        ),
        closed(
            "through (8), exactly", RULE_8, _slope, "holds",
            ("nine tenths of the square", lambda v: _slope(v, _tenths(v, 9))), before=r"\tfrac{f_1(T)-f_1(T+1)}J:\ ", kind="inactive",
            note="so that the condition of the form before is necessary as well",
            proof="T (y + E)^2 - (T + 1) y^2 = T (T + 1) E^2 - (gamma - E tau_0)^2, multiplied out",
        ),
        closed(
            "through (9)", RULE_8,
            lambda v: le(v.C / (v.J * (v.T + 1) * v.E), v.C / (v.J * v.T * v.E)), "holds",
            ("like 1/T^2", lambda v: le((v.T + 1) * v.C / (v.J * v.E), v.T * v.C / (v.J * v.E))), kind="inactive",
            note="the same sentence through the order that (9) gives the threshold",
            proof="1/(T + 1) <= 1/T, and C, J, E > 0",
        ),
        form(
            "one absence", AT_T % "t" + r"\le" + AT_T % "t+1" + r",\ \omega_0=\omega^*,\ " + ABSENT + ",\\ E=1",
            lambda v: _grows(v.absences(v.star), v.noise), "holds",
            ("nine tenths of it", lambda v: _grows(v.absences(v.star), v.noise, _tenths(v, 9))),
            ("the other way round", lambda v: _falls(v.absences(v.star), v.noise)), kind="away",
            note="an absence leaves eta_t p^a grad F_a(omega*), which later rounds shrink by 1 - eta h, h >= mu: more than the step "
            "itself "
            "shrinks, since 16 h >= mu. The later the absence, the further from the optimum the run ends",
            proof="docs/efl_sentences.md#tolerance",
        ),
        form(
            "one absence, any start", AT_T % "t" + r"\le" + AT_T % "t+1" + r",\ " + ABSENT + ",\\ E=1",
            lambda v: _grows(v.absences(v.x0), v.noise), "violated", kind="away",
            note="on the way to the optimum a round without a may be the better one",
        ),
        assumptions=("(8) and (9) with C_tau = tau C, as Corollary 1 assumes", "runs: quadratics, full gradients, 16/(mu(1+gamma)) "
        "<= 1/L, the others keep p^k (schemes B and C)"),
    ),
    statement(
        "departure-early-or-late",
        "whether a client that leaves early should rather be discarded than one that leaves late",
        "section 4.3",
        form(
            "through the bounds", r"f_0-f_1\text{ falls as }\tau_0\text{ grows},\ f_0=\tfrac{C_T}{(TE+\gamma)^2}+"
            r"\tfrac{(T-1-\tau_0)J}{TE+\gamma},\ f_1=\tfrac{C_T}{(E(T-\tau_0)+\gamma)^2}", _discard, "holds",
            ("the other way round", lambda v: _discard(v, -1)), kind="inactive", needs=(SOME,), wording="in words",
            note="discarding at tau_0 has the smaller bound for all tau_0 below some number, or for none. f_0 bounds the distance "
            "from the "
            "old optimum, f_1 that from the new one",
            proof="f_0 falls with tau_0 as J > 0, and f_1 rises with it as its denominator falls",
        ),
        form(
            "from the optimum", GAP % r"\tau_0" + r"\ge " + GAP % r"\tau_0+1" + r",\ \omega_0=\omega^*,\ " + LEAVES + r",\ E=1",
            lambda v: _falls(v.departures(v.star), v.noise), "holds",
            ("nine tenths of it", lambda v: _falls(v.departures(v.star), v.noise, _tenths(v, 9))),
            ("the other way round", lambda v: _grows(v.departures(v.star), v.noise)), kind="away", needs=(APART,),
            note="the model goes from omega* towards hat omega*, away from a's minimiser in every coordinate: the earlier a leaves, "
            "the "
            "worse it is served",
            proof="docs/efl_sentences.md#early-and-late-departures",
        ),
        form(
            "from the optimum, coordinates that mix", GAP % r"\tau_0" + r"\ge " + GAP % r"\tau_0+1" + r",\ \omega_0=\omega^*,\ "
            + LEAVES + r",\ E=1", lambda v: _falls(v.departures(v.star), v.noise), "violated", kind="away", needs=(MIXED,),
            note="the others' directions are not a's: on its curved way a model that forgets a may pass nearer to a's minimiser",
        ),
        form(
            "any start", GAP % r"\tau_0" + r"\ge " + GAP % r"\tau_0+1" + r",\ " + LEAVES + r",\ E=1",
            lambda v: _falls(v.departures(v.x0), v.noise), "violated", kind="away", needs=(APART,),
            note="from beyond a's minimiser a model that forgets a comes nearer to it",
        ),
        assumptions=("C_tau = tau C and J the same whether the client is kept or not, as Corollary 1 assumes",
                     "runs: quadratics, full gradients, 16/(mu(1+gamma)) <= 1/L, coefficients of sum 1 after the departure"),
    ),
    statement(
        "staleness",
        "whether gradients get the staler, the longer a client waits",
        "section 5.4",
        form(
            "the others in turn", WAIT % "m" + r"\le" + WAIT % "{m+1}" + r",\ \text{one client after another}",
            lambda v: _grows(_square(v.waiting(True)), v.noise), "violated", kind="away", wording="in words",
            note="the model may come back towards where it was when the client's residual was made",
        ),
        form(
            "all others", WAIT % "m" + r"\le" + WAIT % "{m+1}" + r",\ \text{all others in every round},\ \eta_t\le1/L",
            lambda v: _grows(_square(v.waiting(False)), v.noise), "holds",
            ("nine tenths of it", lambda v: _grows(_square(v.waiting(False)), v.noise, _tenths(v, 9))), kind="away", needs=(APART,),
            note="gradient descent with steps up to 1/L moves every coordinate one way",
            proof=(
                "in each coordinate w_m - w_0 = (1 - prod (1 - eta_t h))(hat w - w_0), where 0 <= "
                "1 - eta_t h < 1: its size grows with m"
            ),
        ),
        form(
            "all others, coordinates that mix", WAIT % "m" + r"\le" + WAIT % "{m+1}" + r",\ \text{all others in every round}",
            lambda v: _grows(_square(v.waiting(False)), v.noise), "violated", kind="away", needs=(MIXED,),
            note="gradients of a along the others' directions may cancel what was there",
        ),
        form(
            "bound", r"|\nabla F_a(\omega_m)-\nabla F_a(\omega_0)|\le\textstyle\sum_{t<m}|\nabla F_a(\omega_{t+1})-\nabla "
            r"F_a(\omega_t)|",
            _wait_bound, "holds", ("nine tenths of it", lambda v: _wait_bound(v, _tenths(v, 9))), kind="away",
            note="coordinate by coordinate, whoever takes part: what does grow with the wait is this bound, at most L sum ||w_{t+1} "
            "- w_t||. "
            "The residual itself is not lost (efl/residual-invariant)",
            proof="the triangle inequality, coordinate by coordinate",
        ),
        assumptions=("quadratics, E = 1, full gradients, coefficients of sum 1 in every round, client a away from round 0 on",),
    ),
)  # fmt: skip
