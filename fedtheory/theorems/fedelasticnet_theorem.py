"""FedElasticNet, Theorem 3.1 = (13), Theorem B.1 = (18), (42), each repair undone, and Theorems A and B."""

from __future__ import annotations

from typing import Any

from fedtheory.theorems.core import Form, Mutant, Sides, Statement, le
from fedtheory.theorems.fedelasticnet import SYMBOLS
from fedtheory.theorems.fedelasticnet_common import (
    BOTH_FAIL,
    BOTH_HOLD,
    PRINTED_THRESHOLD,
    REPAIRED_THRESHOLD,
    THEOREM_A_THRESHOLD,
    THEOREM_B_THRESHOLD,
)
from fedtheory.theorems.views import RunView

__all__ = ["STATEMENTS", "bound"]

ASSUMPTIONS = (
    "every L_k is convex and beta-smooth, R is their plain mean and has a minimiser",
    "P of the m clients are drawn uniformly, independently each round",
    "lambda_2 > 27 beta (repaired: lambda_2 > (25 + sqrt 825)/2 beta = 26.861 beta)",
    "local problems solved exactly, no threshold epsilon, g_k^0 = 0, h^0 = 0",
)


def bound(
    r: RunView,
    family: tuple[Any, Any, Any],
    c0: Any,
    floor: Any,
    inner: Any,
    last_over_kappa_0: bool = True,
    first: Any = 1,
) -> Sides:
    """R(mean gamma) - R* <= (||gamma^0 - theta*||^2 + kappa C_0)/(kappa_0 T) + floor/kappa_0 - 2 inner/(lambda_2 T [kappa_0])."""
    _, kappa, kappa_0 = family
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
    return bound(r, r.constants.printed, c0, _floor(r), inner, last_over_kappa_0=False)


def _repaired(r: RunView, **change: Any) -> Sides:
    """The repaired (13), with one thing changed."""
    options: dict[str, Any] = {
        "family": r.constants.printed,
        "c0": r.C0,
        "floor": _floor(r),
        "inner": r.inner_exact,
        "last_over_kappa_0": True,
    }
    return bound(r, **{**options, **change})


def _sharpened(r: RunView, first: Any = 1, inner: Any = None) -> Sides:
    """kappa_0 as printed, 0.3 kappa, and a floor for the zeros of the sign rule only (Theorem B with tau = 8/3)."""
    a, kappa, kappa_0 = r.constants.printed
    floor = 33 * a / 80 * r.constants.lambda1 * r.constants.lambda1 * r.zeros if r.rule == "sign" else 0
    inner = r.inner_exact if inner is None else inner
    return bound(r, (3 * a / 10, 3 * kappa / 10, kappa_0), r.C0, floor, inner, first=first)


def _sharp_floor(r: RunView, scale: Any = 1, first: Any = 1) -> Sides:
    """kappa_0 as printed, 0.12 kappa, and 0.28 kappa' for the zeros of the sign rule."""
    a, kappa, kappa_0 = r.constants.printed
    floor = 7 * a / 50 * r.constants.lambda1 * r.constants.lambda1 * r.zeros * scale if r.rule == "sign" else 0
    return bound(r, (3 * a / 25, 3 * kappa / 25, kappa_0), r.C0, floor, r.inner_exact, first=first)


def _theorem_a(r: RunView, **change: Any) -> Sides:
    options = {"family": r.constants.theorem_a, "c0": r.C0, "floor": 0, "inner": r.inner_exact}
    return bound(r, **{**options, **change})


def _theorem_b(r: RunView, floor_scale: Any = 1, **change: Any) -> Sides:
    family = r.constants.theorem_b(2)
    floor = floor_scale * family[0] * 3 / 2 * r.constants.lambda1 * r.constants.lambda1 * r.zeros
    options = {"family": family, "c0": r.C0, "floor": floor, "inner": r.inner_exact}
    return bound(r, **{**options, **change})


PRINTED = (
    r"\mathbb E[R(\tfrac1T\sum_{t<T}\gamma^t)-R(\theta_*)]\le\tfrac1{T\kappa_0}(\|\gamma^0-\theta_*\|^2+\kappa C_0)"
    r"+\tfrac{\kappa'}{\kappa_0}\lambda_1^2d-\tfrac{2\lambda_1}{T\lambda_2}\sum_{t=1}^T\langle\gamma^{t-1}-\theta_*,"
    r"\tfrac1m\sum_k\mathbb E[\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})]\rangle"
)
REPAIRED = (
    r"\mathbb E[R(\tfrac1T\sum_{t<T}\gamma^t)-R(\theta_*)]\le\tfrac1{\kappa_0}\Big[\tfrac1T(\|\gamma^0-\theta_*\|^2+\kappa C_0)"
    r"+\kappa'\lambda_1^2d-\tfrac{2\lambda_1}{T\lambda_2}\sum_{t=1}^T\mathbb E\langle\gamma^{t-1}-\theta_*,"
    r"\tfrac1m\sum_ks_k^t\rangle\Big],\quad C_0=\tfrac1m\sum_k\|g_k^0-\nabla L_k(\theta_*)\|^2"
)

_REPAIRED_MUTANTS = (
    Mutant("sign of the last term, no floor", lambda r: _repaired(r, inner=-r.inner_exact, floor=0)),
    Mutant("kappa ten times smaller and no floor", lambda r: _repaired(r, c0=r.C0 / 10, floor=0, first=1 / 10)),
    Mutant("first term ten times smaller", lambda r: _repaired(r, first=1 / 10, floor=0)),
)


def _repaired_form() -> Form:
    return Form(
        "repaired",
        REPAIRED,
        _repaired,
        BOTH_HOLD,
        REPAIRED_THRESHOLD,
        "five repairs: exact s; 1/kappa_0 on the last term; C_0 squared, from the stored gradients; the expectation over the "
        "whole inner product; theta_tilde anchored at theta^{t-1}",
        _REPAIRED_MUTANTS,
    )


def _undone(name: str, sides: Any, established: dict[str, Any], note: str, **more: Any) -> Form:
    return Form(name, REPAIRED + r"\ \text{(" + name + ")}", sides, established, PRINTED_THRESHOLD, note, **more)


STATEMENTS = (
    Statement(
        "fedelasticnet/theorem-3.1",
        "convergence of Algorithm 3",
        "Theorem 3.1, (13)",
        "run",
        (
            Form(
                "printed",
                PRINTED + r",\quad C_0=\tfrac1m\sum_k\|g_k^0-\nabla L_k(\theta_*)\|,\ \tilde\theta_k^t\text{ anchored at }"
                r"\theta_k^{t-1}",
                lambda r: _printed(r, r.C0_printed, r.inner_own_sign),
                BOTH_FAIL,
                PRINTED_THRESHOLD,
                "sign(0) = 0, 1/kappa_0 missing on the last term, C_0 not squared, theta_tilde anchored at theta_k^{t-1}",
                exact_only=True,
            ),
            _repaired_form(),
            Form(
                "sharpened",
                REPAIRED + r"\ \text{ with }0.3\kappa\text{ and }0.825\kappa'\lambda_1^2\bar z\text{ for }"
                r"\kappa'\lambda_1^2d\text{ (sign rule), no floor (true-gradient rule)}",
                _sharpened,
                BOTH_HOLD,
                REPAIRED_THRESHOLD,
                "z is the mean number of zero coordinates of theta_tilde_k - theta; Theorem B with tau = 8/3 has the paper's "
                "own kappa_0",
                (Mutant("first term ten times smaller", lambda r: _sharpened(r, 1 / 10)),),
            ),
            Form(
                "floor 0.28",
                REPAIRED + r"\ \text{ with }0.12\kappa\text{ and }0.28\kappa'\lambda_1^2\bar z\text{ for }"
                r"\kappa'\lambda_1^2d\text{ (sign rule), no floor (true-gradient rule)}",
                _sharp_floor,
                BOTH_HOLD,
                REPAIRED_THRESHOLD,
                "root mean squares are added by the triangle inequality instead of (17); between 0.2, which instances "
                "approach, and 0.28 the least constant is open",
                (Mutant("first term ten times smaller", lambda r: _sharp_floor(r, first=1 / 10)),),
            ),
            Form(
                "floor 0.1",
                REPAIRED + r"\ \text{ with }0.1\kappa'\lambda_1^2d\text{ for }\kappa'\lambda_1^2d",
                lambda r: _repaired(r, floor=_floor(r) / 10),
                {"sign": "violated"},
                REPAIRED_THRESHOLD,
                "one steep client among 7 nearly linear ones and a long run; with m and T large such instances come near 0.2",
            ),
            Form(
                "no floor",
                REPAIRED + r"\ \text{ without }\kappa'\lambda_1^2d",
                lambda r: _repaired(r, floor=0),
                {"sign": "violated", "true-gradient": "holds"},
                REPAIRED_THRESHOLD,
                "proved for the true-gradient rule; under the sign rule opposed slopes on both sides of lambda_1 keep h at "
                "a constant, and with nearly linear losses the squares of gamma's moves, T h^2/lambda_2^2 in all, outgrow "
                "kappa C_0. It was on record as open: the search had no nearly linear losses",
                (Mutant("first term ten times smaller", lambda r: _repaired(r, first=1 / 10, floor=0)),),
            ),
            Form(
                "without lambda_2 > 27 beta",
                REPAIRED + r"\ \text{ for every }\lambda_2",
                _repaired,
                BOTH_FAIL,
                None,
                "Theorem 3.1 omits the condition that Theorem B.1 states: below it kappa_0 may be negative",
            ),
            _undone(
                "sign(0) = 0",
                lambda r: _repaired(r, inner=r.inner_sign),
                BOTH_FAIL,
                "repair 1 undone: a run that never moves has no last term left. Under the true-gradient rule one of many "
                "identical clients a round hardly moves it either (on record as open until clients were merged)",
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
            ),
            _undone(
                "C_0 from the true gradients",
                lambda r: _repaired(r, c0=r.C0_true),
                BOTH_FAIL,
                "repair 3 undone in part: C_0 must be built from what is stored (0), not from grad L_k(theta^0)",
            ),
            _undone(
                "expectation of the sign only",
                lambda r: _repaired(r, inner=r.inner_split),
                BOTH_FAIL,
                "repair 4 undone: with a random start, which (13) admits by E ||gamma^0 - theta*||^2, the mean of "
                "gamma - theta* says nothing of its size. From a fixed start the sign rule breaks it too "
                "(docs/fedelasticnet.md); whether the true-gradient rule does is open",
                exact_only=True,
            ),
            _undone(
                "anchor theta_k",
                lambda r: _repaired(r, inner=r.inner_own_sign),
                BOTH_FAIL,
                "repair 5 undone: sign(theta_tilde - theta^{t-1}) with theta_tilde anchored at theta_k^{t-1}, as (13) prints it",
                exact_only=True,
            ),
        ),
        ASSUMPTIONS,
        SYMBOLS,
    ),
    Statement(
        "fedelasticnet/theorem-b1",
        "full statement of Theorem 3.1",
        "Theorem B.1, (18)",
        "run",
        (
            Form(
                "printed",
                PRINTED + r",\quad C_0=\tfrac1m\sum_k\|g_k^0-\nabla L_k(\theta_*)\|",
                lambda r: _printed(r, r.C0_printed, r.inner_sign),
                BOTH_FAIL,
                PRINTED_THRESHOLD,
                "as (13), with theta_tilde anchored as in (19)",
            ),
            _repaired_form(),
        ),
        ASSUMPTIONS,
        SYMBOLS,
    ),
    Statement(
        "fedelasticnet/eq-42",
        "the telescoped sum, divided by T",
        "end of the proof, (42)",
        "run",
        (
            Form(
                "printed",
                PRINTED + r",\quad C_0\text{ as in (20)}",
                lambda r: _printed(r, r.C0, r.inner_sign),
                BOTH_FAIL,
                PRINTED_THRESHOLD,
                "dividing by kappa_0 T misses the last term",
            ),
            _repaired_form(),
        ),
        ASSUMPTIONS,
        SYMBOLS,
    ),
    Statement(
        "fedelasticnet/theorem-a",
        "no l1 floor under the true-gradient rule",
        "our repair: Theorem A (lambda_2 > 10.685 beta)",
        "run",
        (
            Form(
                "repaired",
                r"\mathbb E[R(\bar\gamma)-R_*]\le\tfrac1{\kappa_0}\big[\tfrac1T(\|\gamma^0-\theta_*\|^2+\kappa C_0)+S_T\big],"
                r"\ \kappa=\tfrac{3m}P\tfrac{\lambda_2+\beta}{\lambda_2(\lambda_2^2-9\beta^2)},"
                r"\ \kappa_0=\tfrac2{\lambda_2}\tfrac{\lambda_2^2-9\beta\lambda_2-18\beta^2}{\lambda_2^2-9\beta^2}",
                _theorem_a,
                {"true-gradient": "holds"},
                THEOREM_A_THRESHOLD,
                "S_T is not shown to vanish: a bound, not convergence",
                (
                    Mutant("C_0 dropped", lambda r: _theorem_a(r, c0=0)),
                    Mutant("first term ten times smaller", lambda r: _theorem_a(r, first=1 / 10)),
                ),
            ),
        ),
        ASSUMPTIONS,
        SYMBOLS,
        "sharpened",
    ),
    Statement(
        "fedelasticnet/theorem-b",
        "the sign rule, with a floor that counts the zeros",
        "our repair: Theorem B, tau = 2 (lambda_2 > 22.839 beta)",
        "run",
        (
            Form(
                "repaired",
                r"\mathbb E[R(\bar\gamma)-R_*]\le\tfrac1{\kappa_0}\big[\tfrac1T(\|\gamma^0-\theta_*\|^2+\kappa C_0)"
                r"+\tfrac32a\lambda_1^2\bar z+S_T\big],\ a=\tfrac{3(\lambda_2+\beta)}{\lambda_2(\lambda_2^2-21\beta^2)}",
                _theorem_b,
                {"sign": "holds"},
                THEOREM_B_THRESHOLD,
                "z is the mean number of zero coordinates of theta_tilde_k - theta over clients, cohorts and rounds",
                (
                    Mutant("last term and floor dropped", lambda r: _theorem_b(r, 0, inner=0 * r.inner_exact)),
                    Mutant("first term ten times smaller", lambda r: _theorem_b(r, first=1 / 10)),
                ),
            ),
        ),
        ASSUMPTIONS,
        SYMBOLS,
        "sharpened",
    ),
)
