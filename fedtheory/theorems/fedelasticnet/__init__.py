"""FedElasticNet, Appendix B: every numbered statement, as printed and as repaired.

Reading adopted throughout: what Algorithm 3 stores and the paper writes grad L_k(theta_k^{t-1}) is g_k (line 5); gradients at
theta_k^t and theta_tilde_k^t in (11), (23)-(39) are gradients of L_k, since (15) and (16) are applied to them. "As printed" takes
sign(0) = 0, expectations over everything random, and (1/m) sum_k where an index k is left free.
"""

from __future__ import annotations

from fedtheory.verification.statement import register

__all__ = ["SYMBOLS", "load"]

SYMBOLS = {
    "m, P": "problem.num_clients, sampling.size",
    "beta": "problem.constants().beta = max_k beta_k",
    "lambda_1, lambda_2": "algorithm.l1, algorithm.l2",
    "theta^t": "state.x",
    "grad L_k(theta_k^t) as stored (g_k)": "state.stored[:, k]",
    "h^t": "state.h",
    "gamma^t": "state.x + state.h / algorithm.l2 (RoundView.gamma)",
    "theta_tilde_k^t": "RoundView.tilde[:, k]",
    "s_k^t": "RoundView.lambda1_s / lambda_1 (exact subgradient)",
    "C_t, epsilon_t": "RoundView.C, RoundView.epsilon",
    "R(gamma^{t-1}) - R(theta*)": "RoundView.D",
    "kappa, kappa_0": "ElasticConstants.printed",
}


def load() -> None:
    """Register all statements of the paper (once)."""
    from fedtheory.theorems.fedelasticnet.statements import algorithm_1 as fedelasticnet_algorithm1
    from fedtheory.theorems.fedelasticnet.statements import equations_11_to_17 as fedelasticnet_properties
    from fedtheory.theorems.fedelasticnet.statements import equations_19_to_22 as fedelasticnet_definitions
    from fedtheory.theorems.fedelasticnet.statements import lemma_b5 as fedelasticnet_drift
    from fedtheory.theorems.fedelasticnet.statements import lemmas_b3_b4 as fedelasticnet_descent
    from fedtheory.theorems.fedelasticnet.statements import theorem_3_1 as fedelasticnet_theorem
    from fedtheory.theorems.fedelasticnet.statements import theorem_b6 as fedelasticnet_potential

    register(
        *fedelasticnet_properties.STATEMENTS,
        *fedelasticnet_definitions.STATEMENTS,
        *fedelasticnet_descent.STATEMENTS,
        *fedelasticnet_drift.STATEMENTS,
        *fedelasticnet_potential.STATEMENTS,
        *fedelasticnet_theorem.STATEMENTS,
        *fedelasticnet_algorithm1.STATEMENTS,
        aliases={
            "fedelasticnet/eq-13": "fedelasticnet/theorem-3.1",
            "fedelasticnet/eq-18": "fedelasticnet/theorem-b1",
            "fedelasticnet/eq-30": "fedelasticnet/lemma-b4",
            "fedelasticnet/eq-31": "fedelasticnet/lemma-b4",
            "fedelasticnet/eq-22": "fedelasticnet/lemma-b2",
        },
    )
