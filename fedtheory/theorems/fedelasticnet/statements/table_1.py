"""FedElasticNet, Table 1 and the choice of epsilon: claims by which nothing can be judged."""

from fedtheory.theorems.fedelasticnet.paper import FILE

FILE.claim(
    "table-1", "how the methods compare in communication and in heterogeneity",
    r"\text{communication: FedAvg, FedProx, FedDyn }\triangle,\ \text{SCAFFOLD }\times,\ "
    r"\text{FedElasticNet }\circ;\quad\text{heterogeneity: FedAvg }\times,\ "
    r"\text{FedProx }\triangle,\ \text{SCAFFOLD, FedDyn, FedElasticNet }\circ",
    source="section 1, Table 1", scope="claim",
    note="the symbols are not explained, and no number stands behind them. What bears on the cells: "
    "sparsification, l1-and-entropy and no-additional-costs (communication of FedElasticNet), eq-6 "
    "(SCAFFOLD's second vector), algorithm-1-fixed-point (FedProx), local-direction (SCAFFOLD), "
    "consistency and deviation (FedDyn and FedElasticNet)",
    shown_by="fedtheory experiment compression; fedtheory experiment heterogeneity",
)
FILE.claim(
    "accuracy-unaffected",
    "epsilon is chosen in a range that does not affect classification accuracy",
    r"\Delta_k^t(i)=0\text{ if }|\Delta_k^t(i)|\le\epsilon\text{ does not affect classification "
    r"accuracy}",
    source="section 3, before Algorithm 1", scope="claim",
    note="it is about the paper's networks and data, and no epsilon is given. The command runs what "
    "epsilon does to F - F* and to the zeros of the messages on a problem whose optimum is known",
    shown_by="fedtheory experiment tuning",
)
