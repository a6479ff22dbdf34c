"""FedElasticNet, Theorem C: where R is strongly convex the last term of Theorem 3.1 is bounded, whatever the signs are."""

from __future__ import annotations

from typing import Any

from fedtheory.theorems.fedelasticnet.letters import RUN_BY_RULE, definition
from fedtheory.theorems.fedelasticnet.notation import (
    BOTH_HOLD,
    REPAIRED_THRESHOLD,
    STRONGLY_CONVEX,
    STRONGLY_CONVEX_CLIENTS,
    THEOREM_C_THRESHOLD,
    above,
    statement,
)
from fedtheory.theorems.fedelasticnet.quantities import RunView
from fedtheory.theory.judge.statement import Sides, le
from fedtheory.theory.judge.symbolic import closed

__all__ = ["STATEMENTS"]


def _bounded(r: RunView, first: Any = 1, last: Any = 1) -> Sides:
    """mu times the excess, so that mu = 0 needs no case of its own."""
    a, kappa, kappa_0 = r.constants.printed
    l1_sq, l2 = r.constants.lambda1 * r.constants.lambda1, r.constants.lambda2
    return le(
        r.mu * r.excess,
        first * 2 * r.mu * (r.start_sq + kappa * r.C0) / (kappa_0 * r.T),
        r.mu * a * l1_sq * r.d / kappa_0 + 0 * r.excess,
        last * 8 * l1_sq * r.d / (l2 * l2 * kappa_0 * kappa_0) + 0 * r.excess,
        noise=r.mu * r.noise,
    )


def _clients(r: RunView, first: Any = 1, last: Any = 1) -> Sides:
    """mu_L times the excess, mu_L being the strong convexity of every client."""
    a, kappa, kappa_0 = r.constants.theorem_c
    l1_sq = r.constants.lambda1 * r.constants.lambda1
    return le(
        r.mu_each * r.excess,
        first * r.mu_each * (r.start_sq + kappa * r.C0) / (kappa_0 * r.T),
        r.mu_each * 3 * a / 2 * l1_sq * r.zeros / kappa_0,
        last * 2 * l1_sq * r.d / (r.constants.lambda2 * kappa_0) + 0 * r.excess,
        noise=r.mu_each * r.noise,
    )


STATEMENTS = (
    statement(
        "theorem-c",
        "a strongly convex R keeps Algorithm 3 from drifting away",
        "our repair: Theorem C, from the repaired Theorem 3.1",
        closed(
            "repaired",
            RUN_BY_RULE,
            _bounded,
            BOTH_HOLD,
            ("first term ten times smaller, no last one", lambda r: _bounded(r, first=1 / 10, last=0)),
            limits=above(REPAIRED_THRESHOLD),
            needs=(STRONGLY_CONVEX,),
            note="mu is the strong convexity of R alone. Nothing is asked of the signs; what stays is "
            "2 lambda_1^2 d/mu for large lambda_2, and a state that stalls shows that lambda_1^2 d/(2 mu) does stay",
            proof="docs/fedelasticnet_dynamics.md#drifts-without-end-drift",
        ),
        closed(
            "strongly convex clients",
            RUN_BY_RULE,
            _clients,
            BOTH_HOLD,
            ("first term ten times smaller, no last one", lambda r: _clients(r, first=1 / 10, last=0)),
            after=lambda: definition("C"),
            limits=above(THEOREM_C_THRESHOLD),
            needs=(STRONGLY_CONVEX_CLIENTS,),
            note="what stays is lambda_1^2 d/mu_L for large lambda_2, twice what a stall shows to stay",
            proof="docs/fedelasticnet_dynamics.md#drifts-without-end-drift",
        ),
        scope="run",
        assumptions=(
            "every L_k is convex and beta-smooth, and R, their plain mean, is mu-strongly convex",
            "lambda_1 > 0 and lambda_2 > (25 + sqrt 825)/2 beta = 26.861 beta",
            "strongly convex clients: every L_k is mu_L-strongly convex; lambda_2 > (21 + sqrt 693)/2 beta = 23.662 beta",
            "P of the m clients are drawn uniformly, independently each round",
            "local problems solved exactly, no threshold epsilon, g_k^0 = 0, h^0 = 0",
        ),
        kind="sharpened",
        measures="suboptimality of the mean iterate, times mu",
    ),
)
