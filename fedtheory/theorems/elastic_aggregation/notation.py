"""What the statements about Elastic Aggregation share: their symbols, one short constructor, and what makes views from files."""

from __future__ import annotations

from fedtheory.verification.rational import Builders
from fedtheory.verification.statement import Form, Statement

__all__ = ["BUILDERS", "QUADRATICS", "SYMBOLS", "statement"]

BUILDERS = Builders()
SYMBOLS = {
    "theta, theta_k": "ElasticAggregationState.x, the local solver's result",
    "Omega, Omega'": "fedtheory.clients.sensitivity, its maximum within a layer",
    "zeta": "ElasticAggregation.zeta",
    "tau, mu, eta": "ElasticAggregation.tau, .mu, .server_lr",
    "w_k": "ElasticAggregation.aggregation",
    "B_k": "Problem.held_out",
}
QUADRATICS = ("quadratic clients, E gradient steps of length at most 1/L", "sensitivities |2 S_k theta| of linear models")


def statement(id: str, title: str, source: str, *forms: Form, assumptions: tuple[str, ...] = QUADRATICS) -> Statement:
    """A statement about Elastic Aggregation."""
    return Statement(f"elastic-aggregation/{id}", title, source, "elastic-aggregation", forms, assumptions, SYMBOLS)
