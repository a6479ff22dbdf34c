"""Claims of the poster in words that cannot be run: without similarity, and in time."""

from typing import Any

from fedtheory.theorems.fedmls.notation import ASSUMPTIONS
from fedtheory.theorems.fedmls.paper import paper

WORDS: dict[str, Any] = {
    "form": "as quoted", "wording": "in words", "scope": "claims", "assumptions": ASSUMPTIONS
}

paper.claim(
    "without-similarity", "neither strong convexity nor similar gradients",
    r"\text{Theorem 1 assumes neither}",
    source="poster, Motivation: 'without relying on strong convexity nor on gradient similarity "
    "assumptions'",
    note="true of the theorem as repaired: it asks for convex f_i with subgradients of at most G_i "
    "on the ball, and for nothing else; theorem-1 [repaired] is judged on losses without any "
    "strong convexity and on clients that pull apart. What unlike clients cost stands in G, the "
    "root mean square of the G_i, which is the longer the less their subgradients cancel",
    shown_by="fedtheory verify fedmls/theorem-1 --problem two-client-pull", **WORDS,
)
paper.claim(
    "communication-time", "a substantial reduction in communication time",
    r"\text{rounds of FedMLS}\ll\text{rounds of existing algorithms}",
    source="poster, Motivation: 'a substantial reduction in the communication time compared to "
    "existing algorithms'",
    note="an experiment, whose data, competitors and step sizes the poster does not say: it cannot "
    "be proved or refuted here. `fedtheory rates` measures rounds and local steps on five "
    "instances; there a tuned subgradient step, or a step that is held and then cut, needs fewer "
    "rounds than FedMLS on some (docs/fedmls_rates.md)",
    shown_by="fedtheory rates", **WORDS,
)
