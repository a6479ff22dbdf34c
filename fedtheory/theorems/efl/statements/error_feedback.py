"""EFL's error feedback: nothing is lost by it, whether a mean tends to the optimum, and the variants that lose something."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.messages import compressors
from fedtheory.rational import fraction, integer, table, vector
from fedtheory.theorems.efl.notation import BUILDERS, statement
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = [
    "AFTER", "CHEAP", "CONSISTENT", "COUNTED", "DENSE", "LITERAL", "LOOPS", "PLAIN", "REACHED",
    "SHORT", "STATEMENTS", "TEXT", "Costs", "FeedbackView", "ServerRound", "feedback_view",
]  # fmt: skip

CONSISTENT = (
    "the consistent form: clients and server send ST of what they hold, p_tau^k/p^k is applied before it"
)
AFTER = "the consistent form with p_tau^k/p^k applied after ST"
LITERAL = "the formulas of Algorithm 1 as printed"
TEXT = "the text of section 3.1: clients send ST(Delta), the server adds its delta uncompressed"
LOOPS = {"consistent": CONSISTENT, "literal": LITERAL, "text": TEXT, "after": AFTER}
PLAIN = "E = 1 and all clients are active"
SHORT = "eta <= 1/L"
DENSE = "ST leaves nothing out"
COUNTED = "ST both ways"
REACHED = (
    "the run without compression comes to 1/16 of the first ||omega - omega^*||^2 (take more "
    "rounds or a larger step)"
)
CHEAP = "k (1 + ceil(log2 n)) <= 32 (n - 1)"
FLOAT_BITS, ACCURACY = 32, 16  # ||w - w*||^2 is to become a sixteenth


@dataclass(frozen=True)
class Costs:
    """The costs of a run with ST both ways and of the same run without, until they are accurate.

    Attributes
    ----------
    n, k : entries of a message, and those that ST keeps
    steps : (T, N) local steps of every round
    distance_sq, dense_distance_sq : (T + 1,) ||w_t - w*||^2 with compression and without; (0,) where rounds are not counted
    sent : (T, N) who sends a message; None where all do that make steps. Under scheme A those do that are complete
    """

    n: int
    k: int
    steps: np.ndarray
    distance_sq: np.ndarray
    dense_distance_sq: np.ndarray
    sent: np.ndarray | None = None

    @property
    def dense(self) -> Fraction:
        """Bits of a dense message."""
        return Fraction(FLOAT_BITS * self.n)

    @property
    def message(self) -> Fraction:
        """Bits of one of ST's: positions, signs, one magnitude."""
        return Fraction(self.k * (1 + (self.n - 1).bit_length()) + FLOAT_BITS)

    def _until(self, distance_sq: np.ndarray, counts: np.ndarray) -> Fraction:
        """The sum of counts (T, N) until the accuracy is reached; where it is not, one more than in
        all T rounds, or more."""
        there = np.flatnonzero(ACCURACY * distance_sq <= distance_sq[0])
        return Fraction(int(counts[: there[0]].sum()) if len(there) else int(counts.sum()) + 1)

    @property
    def facts(self) -> set[str]:
        """The facts of the runs: the dense one reaches the accuracy, ST's messages are shorter."""
        there = len(self.dense_distance_sq) and (ACCURACY * self.dense_distance_sq <= self.dense_distance_sq[0]).any()
        return {COUNTED} | ({REACHED} if there else set()) | ({CHEAP} if self.message <= self.dense else set())

    def steps_to(self, distance_sq: np.ndarray) -> Fraction:
        """Local steps of all clients until then."""
        return self._until(distance_sq, self.steps)

    def messages_to(self, distance_sq: np.ndarray) -> Fraction:
        """Messages up and down in all rounds until then: every participant receives one, and those that send send one."""
        received = self.steps > 0
        return self._until(distance_sq, received) + self._until(distance_sq, received if self.sent is None else self.sent)


@dataclass(frozen=True)
class ServerRound:
    """The changes that one round of EFL with compression makes.

    Attributes
    ----------
    w, after : (d,) the server's model before and after
    R_G, R_G_after : (d,) its residual before and after
    R, R_after : (N, d) the clients'
    weights, p : (N,) p^k and p_tau^k, 0 for clients that are inactive
    x : (N, d) omega_s^k - omega_0^k, minus the steps of s gradients
    last : (N, d) eta times the gradient at omega_s^k, which no local step takes
    """

    w: np.ndarray
    after: np.ndarray
    R_G: np.ndarray
    R_G_after: np.ndarray
    R: np.ndarray
    R_after: np.ndarray
    weights: np.ndarray
    p: np.ndarray
    x: np.ndarray
    last: np.ndarray


@dataclass
class FeedbackView(ClosedView):
    """EFL's rounds on quadratics, ST with exactly k entries both ways, in fractions; a second
    implementation.

    Attributes
    ----------
    variant : 'consistent', 'literal' (the formulas as printed), 'text' (section 3.1) or 'after'
        (consistent, scaled after ST)
    weights, h, c : (N,), (N, d), (N, d)
    q, eta, x0, E : of ST, the step, the start, and the largest number of local steps
    schedule : (T, N) local steps s_t^k (repeated over the rounds)
    """

    variant: str
    weights: np.ndarray
    h: np.ndarray
    c: np.ndarray
    q: Fraction
    eta: Any
    x0: np.ndarray
    E: int
    schedule: np.ndarray
    rounds: int
    noise = 0  # of the models and residuals
    noise_of_slope = 0  # of the gradient at the mean, and of what bounds it

    def __post_init__(self) -> None:
        facts = {LOOPS[self.variant], SHORT}  # the builder sees to the step
        if self.E == 1 and (self.schedule == 1).all():
            facts.add(PLAIN)
        if len(self.x0) == 1:
            facts.add(DENSE)  # ST keeps one entry as it is
        self.facts = frozenset(facts | self.costs.facts)

    @cached_property
    def rounds_seen(self) -> list[ServerRound]:
        """Every round of the run."""
        eta, st = self.eta, compressors.ST(self.q)
        n = len(self.h)
        zero = self.x0 * 0
        w, R_G, R, out = self.x0, zero, np.stack([zero] * n), []
        for t in range(self.rounds):
            received, before = zero, (w, R_G, R.copy())
            p, moves, last = 0 * self.weights, R * 0, R * 0
            for k in range(n):
                s = int(self.schedule[t % len(self.schedule), k])
                if s == 0:
                    continue
                factor = Fraction(self.E, s)  # scheme C
                x = ((1 - eta * self.h[k]) ** s - 1) * (w - self.c[k])
                p[k], moves[k], last[k] = self.weights[k] * factor, x, eta * self.h[k] * (w + x - self.c[k])
                D = R[k] + (factor * x if self.variant == "consistent" else x)
                sent = st.compress(D)
                R[k] = D - sent
                share = self.weights[k] * (1 if self.variant == "consistent" else factor)
                received = received + share * (D if self.variant == "literal" else sent)
            D_G = R_G + received
            down = st.compress(D_G)
            R_G = D_G - down
            w = w + (down if self.variant in ("consistent", "after") else D_G)
            out.append(ServerRound(before[0], w, before[1], R_G, before[2], R.copy(), self.weights, p, moves, last))
        return out

    @cached_property
    def costs(self) -> Costs:
        """Of this run, and of the same one without compression; rounds are counted of the consistent form only."""
        k = compressors.ST(self.q).sizes(len(self.x0))[0]
        if self.variant != "consistent":
            return Costs(len(self.x0), k, self.schedule[:0], self.x0[:0], self.x0[:0])
        steps = np.stack([self.schedule[t % len(self.schedule)] for t in range(self.rounds)])
        w, dense = self.x0, [self.x0]
        for row in steps:
            p = np.array([w_k * Fraction(self.E, int(s)) if s else 0 * w_k for w_k, s in zip(self.weights, row, strict=True)])
            w = w + (p[:, None] * ((1 - self.eta * self.h) ** row[:, None] - 1) * (w - self.c)).sum(axis=0)
            dense.append(w)
        found = [((path - self.star) ** 2).sum(axis=1) for path in (self.run[0], np.stack(dense))]
        return Costs(len(self.x0), k, steps, *found)

    @cached_property
    def run(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Models w_0..w_T, the last R^G and R^k, and w_0 + sum_t sum_k p_t^k x_t^k."""
        seen = self.rounds_seen
        moved = self.x0 + sum((r.p[:, None] * r.x).sum(axis=0) for r in seen)
        return np.stack([self.x0, *(r.after for r in seen)]), seen[-1].R_G_after, seen[-1].R_after, moved

    @cached_property
    def curvature(self) -> np.ndarray:
        return (self.weights[:, None] * self.h).sum(axis=0)

    @cached_property
    def star(self) -> np.ndarray:
        """argmin sum_k p^k f_k."""
        return (self.weights[:, None] * self.h * self.c).sum(axis=0) / self.curvature

    def slope(self, x: np.ndarray) -> np.ndarray:
        """grad F(x)."""
        return self.curvature * (x - self.star)


@BUILDERS.add("feedback")
def feedback_view(data: dict[str, Any]) -> FeedbackView:
    """From variant, weights, h, c, q, eta, x0, E, schedule (rows of local steps) and rounds."""
    if data["variant"] not in ("consistent", "literal", "text", "after"):
        raise InvalidInput(f"variant = {data['variant']!r}: use 'consistent', 'literal', 'text' or 'after'")
    weights, h, c = vector(data["weights"], "weights"), table(data["h"], "h"), table(data["c"], "c")
    q, eta, x0 = fraction(data["q"], "q"), fraction(data["eta"], "eta"), vector(data["x0"], "x0")
    most, rounds = integer(data["E"], "E", 1), integer(data["rounds"], "rounds", 1, 100_000)
    schedule = np.array([[integer(s, "schedule", 0, most) for s in row] for row in data["schedule"]])
    if h.shape != c.shape or len(h) != len(weights) or x0.shape != h.shape[1:] or schedule.shape[1:] != weights.shape:
        raise InvalidInput("weights, h, c, x0 and the rows of schedule do not fit together")
    if weights.min() <= 0 or weights.sum() != 1 or h.min() <= 0 or not 0 < eta * h.max() <= 1:
        raise InvalidInput("weights must be > 0 and sum to 1, curvatures > 0, and eta at most 1/max h")
    return FeedbackView(data["variant"], weights, h, c, q, eta, x0, most, schedule, rounds)


def _invariant(v: FeedbackView, share: Any = 0) -> Sides:
    path, R_G, R, moved = v.run
    return eq(path[-1] + R_G + (v.weights[:, None] * R).sum(axis=0) + share * (v.x0 - v.star), moved, noise=v.noise)


def _mean_bias(v: FeedbackView, residuals: Any = 1, tenths: int = 10) -> Sides:
    """|grad F| = sum p h |mean of w_0..w_{T-1} - w*| <= (|w_T - w_0| + |R^G| + sum p^k |R^k|)/(eta
    T), coordinate by coordinate."""
    path, R_G, R, _ = v.run
    mean = path[:-1].sum(axis=0) / v.rounds
    left = abs(R_G) + (v.weights[:, None] * abs(R)).sum(axis=0)
    bound = tenths * (abs(path[-1] - path[0]) + residuals * left) / (10 * v.eta * v.rounds)
    return le(abs(v.slope(mean)), bound, noise=v.noise_of_slope)


def _mean_within(v: FeedbackView) -> Sides:
    """||mean of w_0..w_{T-1} - w*||^2 <= ||w_0 - w*||^2."""
    path = v.run[0]
    return le(((path[:-1].sum(axis=0) / v.rounds - v.star) ** 2).sum(), ((v.x0 - v.star) ** 2).sum())


INVARIANT = r"\textstyle\omega_\tau+R^G_\tau+\sum_kp^kR^k_\tau=\omega_0+\sum_{t,k}p_t^kx_t^k"
BIAS = (
    r"\textstyle\sum_kp^kh_k|\bar\omega_T-\omega^*|\le\frac1{\eta T}\big(|\omega_T-\omega_0|+|R^G_T|+\sum_kp^k|R^k_T|\big),\ "
    r"\bar\omega_T=\frac1T\sum_{t<T}\omega_t"
)

STATEMENTS = (
    statement(
        "residual-invariant",
        "nothing is lost by error feedback",
        "Algorithm 1 and (6)",
        form(
            "literal formulas",
            INVARIANT + r",\ \text{the formulas as printed}",
            _invariant, "violated", kind="feedback", needs=(LITERAL,), wording="algorithm",
            note="the server adds the uncompressed delta, and keeps its residual for the next round as well: "
            "residuals count twice",
        ),
        form(
            "repaired", INVARIANT,
            _invariant, "holds", ("off by a hundredth", lambda v: _invariant(v, Fraction(1, 100))),
            kind="feedback", needs=(CONSISTENT,),
            note="constant p^k; p_tau^k/p^k is applied before ST; an inactive client keeps its residual",
            proof="docs/efl_claims.md#the-consistent-form-converges, step 1, with p_tau^k/p^k "
            "times x in the place of x",
        ),
        form(
            "text of 3.1", INVARIANT + r",\ \text{clients send }ST(\Delta^k),\text{ the server adds }\Delta^G\text{ uncompressed}",
            _invariant, "violated", kind="feedback", needs=(TEXT,),
        ),
        form(
            "scaled after ST", INVARIANT + r",\ p_\tau^k/p^k\text{ applied after }ST",
            _invariant, "violated", kind="feedback", needs=(AFTER,),
            note="what ST left out of a message of s steps is then sent with another round's E/s",
        ),
        assumptions=("quadratics, scheme C, ST with exactly k entries both ways",),
    ),
    statement(
        "compression-bias",
        "whether the mean of the compressed run tends to the optimum",
        "Algorithm 1, section 3.1 and (6)",
        form(
            "literal formulas", BIAS + r",\ \text{the formulas as printed}", _mean_bias, "violated", kind="feedback",
            needs=(LITERAL, PLAIN), wording="algorithm",
            note="the mean of a long run is off the optimum already for two clients. A fixed point off it is one for every step, its "
            "residuals scaled: decaying steps do not cure it",
        ),
        form(
            "repaired", BIAS, _mean_bias, "holds", ("without the residuals", lambda v: _mean_bias(v, 0)),
            ("nine tenths of it", lambda v: _mean_bias(v, tenths=9)),
            kind="feedback",
            needs=(CONSISTENT, PLAIN),
            note="the invariant over eta T: where the residuals stay bounded, which takes a small step, the mean "
            "tends to the optimum",
            proof="note",
        ),
        form(
            "any step up to 1/L", r"\|\bar\omega_T-\omega^*\|^2\le\|\omega_0-\omega^*\|^2\text{ for }\eta\le1/L", _mean_within,
            "violated", kind="feedback", needs=(CONSISTENT, PLAIN, SHORT),
            note="true without compression; one client and ST both ways with one entry of four grow without bound at "
            "eta = 1/L",
        ),
        form(
            "text of 3.1", BIAS + r",\ \text{the server's delta uncompressed}", _mean_bias, "violated", kind="feedback",
            needs=(TEXT, PLAIN), note="the server's residual is added twice",
        ),
        assumptions=("quadratics, E = 1, all clients active, ST with exactly k entries both ways",),
    ),
)  # fmt: skip
