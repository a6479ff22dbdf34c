"""Symbols, a short constructor, builders of views from a file's data, and instances of EFL."""

from __future__ import annotations

from typing import Any

from fedtheory.participation.coefficients import SCHEMES
from fedtheory.rational import Builders
from fedtheory.theory.judge.setting import DataInstance
from fedtheory.theory.judge.statement import Form, Statement

__all__ = ["BUILDERS", "HOLDS", "SYMBOLS", "FractionsInstance", "instance_of", "statement"]

BUILDERS = Builders()
HOLDS = dict.fromkeys(SCHEMES, "holds")  # under every scheme
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
    id: str, title: str, source: str, *forms: Form, assumptions: tuple[str, ...] = (),
    kind: str = "statement", measures: str = "", **symbols: str,
) -> Statement:
    """A statement about EFL."""
    return Statement(f"efl/{id}", title, source, "efl", forms, assumptions, {**SYMBOLS, **symbols}, kind, measures=measures)


class FractionsInstance(DataInstance):
    """An instance given by the data of its kind's builder."""

    @property
    def family(self) -> str:
        return f"efl {self.kind}"


def instance_of(kind: str, label: str, data: dict[str, Any], seed: int = 0) -> FractionsInstance:
    """One instance of EFL's kinds."""
    return FractionsInstance(BUILDERS, kind, label, data, seed)
