"""The finding on FedMLS, in one sentence."""

from __future__ import annotations

from fedtheory.theory.judge.reviews import Clause, Rests

__all__ = ["HEADLINE"]

THEOREMS, RULES = ("theorem-1", "theorem-2"), ("deterministic", "stochastic")

HEADLINE = (
    Clause(
        "Theorems 1 and 2 are false with the G that they name, which bounds the joint gradient: {sizes}",
        tuple(Rests(theorem, "printed", "deterministic", "violated") for theorem in THEOREMS),
        "fedmls-theorem-1-joint-g",
    ),
    Clause(
        "true with the root mean square of the clients' G_i",
        tuple(Rests(theorem, "repaired", rule, "holds") for theorem in THEOREMS for rule in RULES),
    ),
    Clause(
        "or with that G and distances in R^(Nd), where line 22 steps along grad f_i/N",
        tuple(Rests(theorem, "line 22 with grad f_i/N", rule, "holds") for theorem in THEOREMS for rule in RULES),
    ),
    Clause(
        "of Theorem 1's constants 10 cannot be lowered to 9.9, and 8 can be lowered to 4",
        (
            Rests("theorem-1", "9.9 for 10", "deterministic", "violated"),
            *(Rests("theorem-1", "sharpened", rule, "holds") for rule in RULES),
        ),
    ),
)
