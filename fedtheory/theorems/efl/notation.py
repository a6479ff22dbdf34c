"""What EFL's statements share: short constructors, and the base of their closed-form views."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.verification.statement import Form, Mutant, Sides, Statement

__all__ = ["SYMBOLS", "ClosedView", "form", "objects", "statement", "text"]

SYMBOLS = {
    "N, p^k": "problem.num_clients, problem.weights",
    "E, s_tau^k": "cohort.max_steps, cohort.steps",
    "p_tau^k": "fedtheory.participation.coefficients",
    "eta_tau": "LocalSGD.lr",
    "ST": "fedtheory.messages.compressors.ST",
    "R^k, R^G": "EFLState.residuals, EFLState.server_residual",
    "u^k, v^k": "EFLState.u, EFLState.v",
}


class ClosedView:
    """A view whose numbers are exact (fractions) or deterministic (floats): everything is known in closed form.

    Attributes
    ----------
    facts : frozenset of str
        What holds of this instance. A form names what it needs after the kind of its view (`Form.requires[1:]`).
    rule : key of `Form.established`
    """

    exact = True
    rule = "any"
    facts: frozenset[str] = frozenset()

    def applies(self, form: Form) -> str | None:
        """The first thing the form needs that this instance has not, or None."""
        for need in form.requires[1:]:
            if need not in self.facts:
                return f"not an instance with {need}"
        return None

    def printed_constants(self) -> dict[str, Any]:
        """Constants that are shown with the verdict."""
        return {}


def text(value: Any) -> Any:
    """A constant for the reader: fractions as floats."""
    return float(value) if isinstance(value, Fraction | np.floating) else value


def objects(values: Any) -> np.ndarray:
    """A list (or list of lists) of fractions as an object array, so that arithmetic stays exact."""
    values = list(values)
    if values and isinstance(values[0], list | tuple | np.ndarray):
        return np.stack([objects(v) for v in values])
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def form(
    name: str,
    latex: str,
    sides: Callable[[Any], Sides] | None,
    established: Any,
    kind: str,
    *mutants: tuple[str, Callable[[Any], Sides]],
    needs: tuple[str, ...] = (),
    note: str = "",
    **more: Any,
) -> Form:
    """A form judged on views of one kind; ``established`` may be one verdict for all rules."""
    verdicts = {"any": established} if isinstance(established, str) else established
    wrong = tuple(Mutant(n, s) for n, s in mutants)
    return Form(name, latex, sides, verdicts, note=note, mutants=wrong, requires=(kind, *needs), **more)


def statement(
    id: str, title: str, source: str, *forms: Form, assumptions: tuple[str, ...] = (), kind: str = "statement", **symbols: str
) -> Statement:
    """A statement about EFL."""
    return Statement(f"efl/{id}", title, source, "efl", forms, assumptions, {**SYMBOLS, **symbols}, kind)
