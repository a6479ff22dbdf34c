"""FedElasticNet, Theorem 3.1 as printed in (13), (18) and (42), repaired, with each repair undone, and Theorems A and B.

(18) is Theorem B.1, the full statement of Theorem 3.1, and (42) the end of its proof. As printed the three differ (in the anchor of
theta_tilde and in C_0); repaired they are one bound, which is called the repaired Theorem 3.1 everywhere.
"""

from __future__ import annotations

from typing import Any

from fedtheory.theorems.fedelasticnet.letters import RUN, RUN_BY_RULE, definition
from fedtheory.theorems.fedelasticnet.notation import (
    BOTH_FAIL,
    BOTH_HOLD,
    PRINTED_THRESHOLD,
    PROOF_OF_A,
    PROOF_OF_B,
    PROOF_OF_B6,
    REPAIRED_THRESHOLD,
    START_NOTE,
    THEOREM_A_THRESHOLD,
    THEOREM_B_THRESHOLD,
    above,
    statement,
)
from fedtheory.theorems.fedelasticnet.quantities import RunView
from fedtheory.theorems.fedelasticnet.worst_runs import worst_at
from fedtheory.theory.judge.statement import Form, Sides, le
from fedtheory.theory.judge.symbolic import closed

__all__ = ["STATEMENTS", "bound"]



def _assumptions(on_lambda_2: str) -> tuple[str, ...]:
    return (
        "every L_k is convex and beta-smooth, R is their plain mean and has a minimiser",
        "lambda_1 > 0 and lambda_2 > 0, as Algorithm 3 asks",
        "P of the m clients are drawn uniformly, independently each round",
        on_lambda_2,
        "local problems solved exactly, no threshold epsilon, g_k^0 = 0, h^0 = 0",
    )


ASSUMPTIONS = _assumptions("lambda_2 > 27 beta (repaired: lambda_2 > (25 + sqrt 825)/2 beta = 26.861 beta)")


def bound(
    r: RunView,
    kappas: tuple[Any, Any],
    c0: Any,
    floor: Any,
    inner: Any,
    last_over_kappa_0: bool = True,
    first: Any = 1,
) -> Sides:
    """R(mean gamma) - R* <= (||gamma^0 - theta*||^2 + kappa C_0)/(kappa_0 T) + floor/kappa_0 - 2 inner/(lambda_2 T [kappa_0])."""
    kappa, kappa_0 = kappas
    last = -2 * inner / (r.constants.lambda2 * r.T)
    return le(
        r.excess,
        first * (r.start_sq + kappa * c0) / (kappa_0 * r.T),
        floor / kappa_0 + 0 * r.excess,
        last / kappa_0 if last_over_kappa_0 else last,
        noise=r.noise,
    )


def _floor(r: RunView) -> Any:
    return r.constants.printed[0] / 2 * r.constants.lambda1 * r.constants.lambda1 * r.d


def _printed(r: RunView, c0: Any, inner: Any) -> Sides:
    return bound(r, r.constants.printed[1:], c0, _floor(r), inner, last_over_kappa_0=False)


def _repaired(r: RunView, **change: Any) -> Sides:
    """The repaired Theorem 3.1, with one thing changed."""
    options = {"kappas": r.constants.printed[1:], "c0": r.C0, "floor": _floor(r), "inner": r.inner_exact}
    return bound(r, **{**options, **change})


def _sharpened(r: RunView, first: Any = 1) -> Sides:
    """kappa_0 as printed, 0.3 kappa, and a floor for the zeros of the sign rule only (Theorem B with tau = 8/3)."""
    a, kappa, kappa_0 = r.constants.printed
    floor = 33 * a / 80 * r.constants.lambda1 * r.constants.lambda1 * r.zeros if r.rule == "sign" else 0
    return bound(r, (3 * kappa / 10, kappa_0), r.C0, floor, r.inner_exact, first=first)


def _small_floor(r: RunView, first: Any = 1, floor_scale: Any = 1) -> Sides:
    """The sum of Theorem B.6 with its small floor."""
    floor = floor_scale * 11 * r.constants.printed[0] / 100 * r.constants.lambda1 * r.constants.lambda1 * r.zeros
    return _repaired(r, floor=floor, first=first)


def _sharp_floor(r: RunView, first: Any = 1) -> Sides:
    """kappa_0 as printed, 0.12 kappa, and 0.28 kappa' for the zeros of the sign rule."""
    a, kappa, kappa_0 = r.constants.printed
    floor = 7 * a / 50 * r.constants.lambda1 * r.constants.lambda1 * r.zeros if r.rule == "sign" else 0
    return bound(r, (3 * kappa / 25, kappa_0), r.C0, floor, r.inner_exact, first=first)


def _theorem_a(r: RunView, **change: Any) -> Sides:
    options = {"kappas": r.constants.theorem_a[1:], "c0": r.C0, "floor": 0, "inner": r.inner_exact}
    return bound(r, **{**options, **change})


def _theorem_b(r: RunView, floor_scale: Any = 1, **change: Any) -> Sides:
    a, kappa, kappa_0 = r.constants.theorem_b(2)
    floor = floor_scale * a * 3 / 2 * r.constants.lambda1 * r.constants.lambda1 * r.zeros
    options = {"kappas": (kappa, kappa_0), "c0": r.C0, "floor": floor, "inner": r.inner_exact}
    return bound(r, **{**options, **change})


SQUARED = r"\|g_k^0-\nabla L_k(\theta_*)\|^2"
UNSQUARED = r"\|g_k^0-\nabla L_k(\theta_*)\|"
TRUE_GRADIENTS = r"\|\nabla L_k(\theta^0)-\nabla L_k(\theta_*)\|^2"
OWN_ANCHOR = r",\quad\tilde\theta_k^t\text{ anchored at }\theta_k^{t-1}"


def c_0(square: str = SQUARED) -> str:
    return r",\quad C_0=\tfrac1m\sum_k\mathbb E" + square


MEAN_NOTE = (
    "as it stands, with the expectation around the sign; gamma^{t-1} is random where P < m, and the line is judged with its "
    "mean: a line that held for every gamma^{t-1} would hold for the mean"
)
WHOLE_NOTE = (
    "the expectation read as Theorem B.6 says, given round t-1, and the line then averaged: the expectation of the whole "
    "inner product; where nothing is random the two readings are one"
)

_REPAIRED_MUTANTS = (
    ("sign of the last term, no floor", lambda r: _repaired(r, inner=-r.inner_exact, floor=0)),
    ("kappa ten times smaller and no floor", lambda r: _repaired(r, c0=r.C0 / 10, floor=0, first=1 / 10)),
    ("first term ten times smaller", lambda r: _repaired(r, first=1 / 10, floor=0)),
)


def _repaired_form() -> Form:
    return closed(
        "repaired",
        RUN,
        _repaired,
        BOTH_HOLD,
        *_REPAIRED_MUTANTS,
        note="five repairs: exact s; 1/kappa_0 on the last term; C_0 squared (from what is stored, 0); the expectation over the "
        "whole inner product; theta_tilde anchored at theta^{t-1}",
        worst=worst_at(lambda c: c.printed[1:]),
        after=c_0(),
        limits=above(REPAIRED_THRESHOLD),
        proof=f"the sum over the rounds of {PROOF_OF_B6}, and Jensen's inequality",
    )


def _printed_forms(square: str, inner: tuple[str, str], note: str, more: str = "") -> tuple[Form, Form]:
    """The printed line in its two readings. ``square``: C_0's summand; ``inner``: the last term's sum in each reading."""

    def sides(name: str) -> Any:
        return lambda r: _printed(r, r.C0 if square == SQUARED else r.C0_printed, getattr(r, name))

    def one(name: str, inner: str, reading: str, exact_only: bool) -> Form:
        about, after = f"{note}; {reading}", c_0(square) + more
        limits = above(PRINTED_THRESHOLD)
        return closed(name, RUN, sides(inner), BOTH_FAIL, note=about, after=after, exact_only=exact_only, limits=limits)

    return (
        one("printed", inner[0], MEAN_NOTE, True),
        one("printed, whole expectation", inner[1], WHOLE_NOTE, inner[1] == "inner_own_sign"),
    )


def _undone(name: str, sides: Any, established: dict[str, Any], note: str, after: str = c_0(), **more: Any) -> Form:
    return closed(name, RUN, sides, established, note=note, after=after, limits=above(PRINTED_THRESHOLD), **more)


STATEMENTS = (
    statement(
        "theorem-3.1",
        "convergence of Algorithm 3",
        "Theorem 3.1, (13)",
        *_printed_forms(
            UNSQUARED,
            ("inner_split_own_sign", "inner_own_sign"),
            "sign(0) = 0, 1/kappa_0 missing on the last term, C_0 not squared, theta_tilde anchored at theta_k^{t-1}. "
            f"{START_NOTE}. The witness breaks the line in both readings",
            OWN_ANCHOR,
        ),
        _repaired_form(),
        closed(
            "sharpened",
            RUN_BY_RULE,
            _sharpened,
            BOTH_HOLD,
            ("first term ten times smaller", lambda r: _sharpened(r, 1 / 10)),
            note="z is the mean number of zero coordinates of theta_tilde_k - theta; Theorem B with tau = 8/3 has the paper's "
            "own kappa_0",
            worst=worst_at(lambda c: (3 * c.printed[1] / 10, c.printed[2])),
            after=c_0(),
            limits=above(REPAIRED_THRESHOLD),
            proof=f"{PROOF_OF_B}; under the true-gradient rule {PROOF_OF_A}, with 0.3 of the paper's kappa",
        ),
        closed(
            "small floor",
            RUN,
            _small_floor,
            {"sign": "holds"},
            ("first term ten times smaller", lambda r: _small_floor(r, 1 / 10)),
            note="the sum of fedelasticnet/theorem-b6 [small floor]; z as in the sharpened form, kappa as printed; between 0.2, "
            "which instances approach, and 0.22 the least constant is open",
            after=c_0(),
            limits=above(REPAIRED_THRESHOLD),
            proof="the sum over the rounds of "
            "docs/fedelasticnet.md#a-smaller-floor-and-the-factor-d, and Jensen's inequality",
        ),
        closed(
            "floor 0.28",
            RUN_BY_RULE,
            _sharp_floor,
            BOTH_HOLD,
            ("first term ten times smaller", lambda r: _sharp_floor(r, 1 / 10)),
            note="root mean squares are added by the triangle inequality instead of (17): a larger floor than the small one, with "
            "0.12 kappa for kappa",
            after=c_0(),
            limits=above(REPAIRED_THRESHOLD),
            proof="docs/fedelasticnet.md#how-large-the-floor-of-the-sign-rule-must-be-between-02-and-022",
        ),
        closed(
            "floor 0.1",
            RUN,
            lambda r: _repaired(r, floor=_floor(r) / 10),
            {"sign": "violated"},
            after=c_0(),
            note="one steep client among 7 nearly linear ones and a long run; with m and T large such instances come near 0.2",
            limits=above(REPAIRED_THRESHOLD),
        ),
        closed(
            "no floor",
            RUN,
            lambda r: _repaired(r, floor=0),
            {"sign": "violated", "true-gradient": "holds"},
            ("first term ten times smaller", lambda r: _repaired(r, first=1 / 10, floor=0)),
            after=c_0(),
            note="proved for the true-gradient rule; under the sign rule opposed slopes on both sides of lambda_1 keep h at "
            "a constant, and with nearly linear losses the squares of gamma's moves, T h^2/lambda_2^2 in all, outgrow "
            "kappa C_0. It was on record as open: the search had no nearly linear losses",
            limits=above(REPAIRED_THRESHOLD),
            proof=PROOF_OF_A,
        ),
        closed(
            "without lambda_2 > 27 beta",
            RUN,
            _repaired,
            BOTH_FAIL,
            after=c_0() + r"\quad(\text{every }\lambda_2)",
            note="Theorem 3.1 omits the condition that Theorem B.1 states: below it kappa_0 may be negative",
        ),
        _undone(
            "sign(0) = 0",
            lambda r: _repaired(r, inner=r.inner_sign),
            BOTH_FAIL,
            "repair 1 undone: a run that never moves has no last term left (sign rule), and breaks it after 121 rounds or more. "
            "Under the true-gradient rule one of many identical clients a round hardly moves it either (on record as open "
            "until clients were merged)",
        ),
        _undone(
            "1/kappa_0 missing",
            lambda r: _repaired(r, last_over_kappa_0=False),
            BOTH_FAIL,
            "repair 2 undone: every other term scales with L, this one must too",
        ),
        _undone(
            "C_0 not squared",
            lambda r: _repaired(r, c0=r.C0_printed),
            BOTH_FAIL,
            "repair 3 undone: gradients large at the optimum break it",
            c_0(UNSQUARED),
        ),
        _undone(
            "C_0 from the true gradients",
            lambda r: _repaired(r, c0=r.C0_true),
            BOTH_FAIL,
            "repair 3 undone in part: by the printed input grad L_k(theta_k^0) is 0, which is what is stored; with "
            "grad L_k(theta^0), another reading, C_0 is too small",
            c_0(TRUE_GRADIENTS),
        ),
        _undone(
            "expectation of the sign only",
            lambda r: _repaired(r, inner=r.inner_split),
            BOTH_FAIL,
            "repair 4 undone: with a random start, which (13) admits by E ||gamma^0 - theta*||^2, the mean of "
            "gamma - theta* says nothing of its size. From a fixed start, which is what Algorithm 3 takes, the sign rule "
            "breaks it too (docs/fedelasticnet.md); whether the true-gradient rule does is open",
            exact_only=True,
        ),
        _undone(
            "anchor theta_k",
            lambda r: _repaired(r, inner=r.inner_own_sign),
            BOTH_FAIL,
            "repair 5 undone: sign(theta_tilde - theta^{t-1}) with theta_tilde anchored at theta_k^{t-1}, as (13) prints it; "
            "broken with theta_k^0 = theta^0 and with theta_k^0 a minimiser of L_k",
            c_0() + OWN_ANCHOR,
            exact_only=True,
        ),
        scope="run",
        assumptions=ASSUMPTIONS,
        measures="suboptimality of the mean iterate",
    ),
    statement(
        "theorem-b1",
        "full statement of Theorem 3.1",
        "Theorem B.1, (18)",
        *_printed_forms(
            UNSQUARED,
            ("inner_split_sign", "inner_sign"),
            "sign(0) = 0, 1/kappa_0 missing on the last term, C_0 not squared; theta_tilde is anchored as in (19)",
        ),
        _repaired_form(),
        scope="run",
        assumptions=ASSUMPTIONS,
        measures="suboptimality of the mean iterate",
    ),
    statement(
        "eq-42",
        "the telescoped sum, divided by T",
        "end of the proof, (42)",
        *_printed_forms(
            SQUARED,
            ("inner_split_sign", "inner_sign"),
            "sign(0) = 0, and dividing by kappa_0 T misses the last term; C_0 is that of (20)",
        ),
        _repaired_form(),
        scope="run",
        assumptions=ASSUMPTIONS,
        measures="suboptimality of the mean iterate",
    ),
    statement(
        "theorem-a",
        "no l1 floor under the true-gradient rule",
        "our repair: Theorem A (lambda_2 > 10.685 beta)",
        closed(
            "repaired",
            RUN,
            _theorem_a,
            {"true-gradient": "holds"},
            ("C_0 dropped", lambda r: _theorem_a(r, c0=0)),
            ("first term ten times smaller", lambda r: _theorem_a(r, first=1 / 10)),
            note="the last sum is not shown to vanish: a bound, not convergence; where everyone takes part the gradient of R does "
            "(fedelasticnet/convergence). The rule sends a dense vector",
            worst=worst_at(lambda c: c.theorem_a[1:]),
            after=lambda: c_0() + definition("A"),
            limits=above(THEOREM_A_THRESHOLD),
            proof=PROOF_OF_A,
        ),
        scope="run",
        assumptions=_assumptions("lambda_2 > (9 + sqrt 153)/2 beta = 10.685 beta"),
        kind="sharpened",
        measures="suboptimality of the mean iterate",
    ),
    statement(
        "theorem-b",
        "the sign rule, with a floor that counts the zeros",
        "our repair: Theorem B, tau = 2 (lambda_2 > 22.839 beta)",
        closed(
            "repaired",
            RUN,
            _theorem_b,
            {"sign": "holds"},
            ("last term and floor dropped", lambda r: _theorem_b(r, 0, inner=0 * r.inner_exact)),
            ("first term ten times smaller", lambda r: _theorem_b(r, first=1 / 10)),
            note="z is the mean number of zero coordinates of theta_tilde_k - theta over clients, cohorts and rounds",
            worst=worst_at(lambda c: c.theorem_b()[1:]),
            after=lambda: c_0() + definition("B"),
            limits=above(THEOREM_B_THRESHOLD),
            proof=PROOF_OF_B,
        ),
        scope="run",
        assumptions=_assumptions("lambda_2 > (21 + sqrt 609)/2 beta = 22.839 beta"),
        kind="sharpened",
        measures="suboptimality of the mean iterate",
    ),
)
