"""The finding on EFL, in one sentence."""

from __future__ import annotations

from typing import Any

from fedtheory.theory.judge.reviews import Clause, Rests

__all__ = ["HEADLINE"]

SCHEMES = ("A", "B", "C", "C-corrected")
UNDONE = ("max", "r_t flipped", "bracket", "J")


def _repairs() -> dict[str, Any]:
    return {"repairs": len(UNDONE)}


HEADLINE = (
    Clause(
        "with the compression as printed there are clients whose optimum no run comes to, in a consistent form every run does "
        "in mean square, where the ratios E[p s]/p^k are equal, as of complete clients, and the steps are those of its theorem; "
        "with a step of 1/L it can diverge",
        (
            Rests("compressed-convergence", "literal formulas", "any", "violated"),
            Rests("compressed-convergence", "repaired", "any", "holds"),
            Rests("compressed-participation", "repaired", "any", "holds"),
            Rests("compression-bias", "any step up to 1/L", "any", "violated"),
        ),
    ),
    Clause(
        "Theorem 1 is false as printed: {sizes}",
        (Rests("theorem-1", "printed", "C", "violated"),),
        "efl-theorem-1-printed-c",
    ),
    Clause(
        "true after {repairs} repairs, each of them needed under scheme C, where nothing is compressed and lambda = 0 or the "
        "anchors never move",
        (
            *(Rests("theorem-1", form, scheme, "holds") for form in ("repaired", "frozen anchors") for scheme in SCHEMES),
            *(Rests("theorem-1", form, "C", "violated") for form in (*UNDONE, "moving anchors")),
        ),
        numbers=_repairs,
    ),
    Clause(
        "Corollary 1 can tell to abandon a client without whom the loss of all is larger: {lhs} > {rhs}",
        (Rests("corollary-1", "printed", "any", "violated"),),
        "efl-corollary-1-printed",
    ),
    Clause(
        "Theorem 2 is true of a client that leaves and false of one that joins: {lhs} > {rhs}",
        (Rests("theorem-2-departure", "printed", "any", "holds"), Rests("theorem-2-arrival", "printed", "any", "violated")),
        "efl-theorem-2-arrival-printed",
    ),
)
