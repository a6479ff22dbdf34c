"""The finding on Elastic Aggregation, in one sentence."""

from __future__ import annotations

from fedtheory.theory.judge.reviews import Clause, Rests

__all__ = ["HEADLINE"]

HEADLINE = (
    Clause(
        "with all clients, and a plus for the printed minus, it ends where FedAvg ends, which need not be the optimum: {sizes}",
        (
            Rests("full-participation", "repaired", "any", "holds"),
            Rests("full-participation", "no other", "any", "holds"),
            Rests("full-participation", "the optimum", "any", "violated"),
        ),
        "elastic-aggregation-full-participation-the-optimum",
    ),
    Clause(
        "with the sign that Algorithm 1 prints a step leads away from where the clients' changes cancel: {lhs} > {rhs} after one",
        (Rests("sign", "printed", "any", "violated"),),
        "elastic-aggregation-sign-printed",
    ),
    Clause(
        "with the other it converges where its steps are short enough",
        (Rests("sign", "repaired", "any", "holds"), Rests("stability", "repaired", "any", "holds")),
    ),
)
