"""What the files of FedMLS's statements share: symbols, assumptions, and short constructors."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.theorems.fedmls.quantities import MLSView
from fedtheory.verification.statement import Form, Mutant, Statement

__all__ = ["ASSUMPTIONS", "BOTH", "EXACT", "LINE_14", "SYMBOLS", "WITNESS", "constant", "form", "statement"]

SYMBOLS = {
    "N, d": "problem.num_clients, problem.dim",
    "lambda, D-tilde, K": "algorithm.lam, algorithm.D, algorithm.rounds",
    "G_i, G": "problem.lipschitz(radius), problem.lipschitz_rms(radius)",
    "x_k, z_k": "state.x, state.z",
    "x'_{i,k}, z'_{i,k}": "state.x_local[:, i], state.z_local[:, i]",
    "tilde z'_{i,k}": "LocalResult.average",
    "T_k": "algorithm.steps(k)",
    "Psi(x, x')": "MLSView.psi",
    "||.||": "norm of the mean product (1/N) sum_i <u_i, v_i>",
}
ASSUMPTIONS = (
    "every f_i is convex, and no subgradient that is returned on the closed ball of radius R, its boundary included, is longer than "
    "G_i; G^2 = (1/N) sum_i G_i^2",
    "x_0 and a minimiser x* over the ball lie in the ball; F* is its minimum over the same ball",
    "subgradients are exact, or unbiased with variance sigma_i^2",
    "the server projects z_k onto the ball (or G_i bounds every subgradient of f_i on all of R^d)",
)
WITNESS, LINE_14 = "a witness", "line 14 as printed"  # what a form may ask of a run
BOTH = {"deterministic": "holds", "stochastic": "holds"}
EXACT = {"deterministic": "holds"}


def constant(view: MLSView, value: float) -> np.ndarray:
    """The same bound for every scenario: (1, S)."""
    return np.full((1, view.excess.shape[-1]), value)


def form(name: str, latex: str, sides: Any, established: Any, *mutants: tuple[str, Any], **more: Any) -> Form:
    """A `Form` with its mutants as (name, sides) pairs."""
    return Form(name, latex, sides, established, mutants=tuple(Mutant(n, s) for n, s in mutants), **more)


def statement(id: str, title: str, source: str, *forms: Form, scope: str = "fedmls", kind: str = "statement") -> Statement:
    """A `Statement` about runs of FedMLS."""
    return Statement(f"fedmls/{id}", title, source, scope, forms, ASSUMPTIONS, SYMBOLS, kind)  # type: ignore[arg-type]
