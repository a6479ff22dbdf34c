"""What EFL's statements share: their symbols, one short constructor, and what makes views from the data of a file."""

from __future__ import annotations

from fedtheory.verification.rational import Builders
from fedtheory.verification.statement import Form, Statement

__all__ = ["BUILDERS", "SYMBOLS", "statement"]

BUILDERS = Builders()
SYMBOLS = {
    "N, p^k": "problem.num_clients, problem.weights",
    "E, s_tau^k": "cohort.max_steps, cohort.steps",
    "p_tau^k": "fedtheory.participation.coefficients",
    "eta_tau": "LocalSGD.lr",
    "ST": "fedtheory.messages.compressors.ST",
    "R^k, R^G": "EFLState.residuals, EFLState.server_residual",
    "u^k, v^k": "EFLState.u, EFLState.v",
}


def statement(
    id: str, title: str, source: str, *forms: Form, assumptions: tuple[str, ...] = (), kind: str = "statement", **symbols: str
) -> Statement:
    """A statement about EFL."""
    return Statement(f"efl/{id}", title, source, "efl", forms, assumptions, {**SYMBOLS, **symbols}, kind)
