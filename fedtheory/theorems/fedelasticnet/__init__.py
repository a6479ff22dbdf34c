"""FedElasticNet, Appendix B: every numbered statement, as printed and as repaired.

Reading adopted throughout: what Algorithm 3 stores and the paper writes grad L_k(theta_k^{t-1}) is g_k (line 5); gradients at
theta_k^t and theta_tilde_k^t in (11), (23)-(39) are gradients of L_k, since (15) and (16) are applied to them. "As printed" takes
sign(0) = 0, expectations over everything random, and (1/m) sum_k where an index k is left free.
"""

from fedtheory.theorems.fedelasticnet.paper import FILE

FILE.read(f"{__name__}.statements", first=(
    "equations", "lemmas", "theorem_b6",
    "theorem_3_1", "theorem_c", "theorem_e", "algorithm_1", "dynamics",
    "theorem_d", "algorithm_2", "algorithm_2_at_rest", "threshold", "regression", "objective",
    "local_problem", "scaffold_steps", "everybody", "concentration", "messages",
))

from fedtheory.theorems.fedelasticnet.proofs import PROOFS  # noqa: E402 - after the statements

FILE.proofs.extend(PROOFS)
PAPER = FILE

__all__ = ["PAPER"]
