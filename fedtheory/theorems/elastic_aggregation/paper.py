"""The paper Elastic Aggregation (Chen et al., CVPR 2023), which states no theorem."""

from fedtheory.algorithms import ElasticAggregation
from fedtheory.theory import Paper, method

ELASTIC, REPAIRED = method(ElasticAggregation), method(ElasticAggregation, sign="repaired")
QUADRATICS = (
    "quadratic clients, E gradient steps of length at most 1/L",
    "sensitivities |2 S_k theta| of linear models",
)
Z = r"\mathbb E[\zeta_C\Delta_C](\theta_\infty)=0:\ "  # all that follows is at theta_infinity
SYMBOLS = {
    "theta, theta_k": "ElasticAggregationState.x, the local solver's result",
    "Omega, Omega'": "fedtheory.clients.sensitivity, its maximum within a layer",
    "zeta": "ElasticAggregation.zeta",
    "tau, mu, eta": "ElasticAggregation.tau, .mu, .server_lr",
    "w_k": "ElasticAggregation.aggregation",
    "B_k": "Problem.held_out",
}

paper = Paper(
    "elastic-aggregation", "Elastic Aggregation", symbols=SYMBOLS,
    about="what Elastic Aggregation does on convex problems (Algorithm 1; the paper states no "
    "theorem)", printed="as the paper's text claims or Algorithm 1 is printed",
    figures="paper_figures.elastic_aggregation", witnesses="fedtheory.theorems.elastic_aggregation",
)
