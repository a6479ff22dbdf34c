"""FedElasticNet, Table 1: three symbols that the paper does not explain, so that nothing can be judged."""

from fedtheory.theorems.fedelasticnet.main_text.notation import claim

__all__ = ["STATEMENTS"]

STATEMENTS = (
    claim(
        "table-1", "how the methods compare in communication and in heterogeneity", "section 1, Table 1",
        r"\text{communication: FedAvg, FedProx, FedDyn }\triangle,\ \text{SCAFFOLD }\times,\ \text{FedElasticNet }\circ;"
        r"\quad\text{heterogeneity: FedAvg }\times,\ \text{FedProx }\triangle,\ \text{SCAFFOLD, FedDyn, FedElasticNet }\circ",
        "the symbols are not explained, and no number stands behind them. What bears on the cells: sparsification, "
        "l1-and-entropy and no-additional-costs (communication of FedElasticNet), eq-6 (SCAFFOLD's second vector), "
        "algorithm-1-fixed-point (FedProx), local-direction (SCAFFOLD), consistency and deviation (FedDyn and "
        "FedElasticNet)",
        "fedtheory experiment compression; fedtheory experiment heterogeneity",
    ),
    claim(
        "accuracy-unaffected", "epsilon is chosen in a range that does not affect classification accuracy",
        "section 3, before Algorithm 1",
        r"\Delta_k^t(i)=0\text{ if }|\Delta_k^t(i)|\le\epsilon\text{ does not affect classification accuracy}",
        "it is about the paper's networks and data, and no epsilon is given. The command runs what epsilon does to F - F* and to the "
        "zeros of the messages on a problem whose optimum is known",
        "fedtheory experiment tuning",
    ),
)  # fmt: skip
