"""FedMLS's theory in pictures, which a campaign draws."""

from fedtheory.plotting.figure import Figure
from paper_figures.fedmls import theorem_1, theorem_1_local_work

__all__ = ["FIGURES"]

FIGURES = (
    Figure.of(
        theorem_1, "fedmls_bound_over_k", quick={"rounds": (1, 2, 4, 8, 16), "scenarios": 5},
        full={"rounds": (1, 2, 4, 8, 16, 32, 64, 128), "scenarios": 100}, takes=("problem",),
        title="FedMLS's Theorem 1 against the gap over K",
    ),
    Figure.of(
        theorem_1_local_work, "fedmls_local_work",
        quick={"rounds": theorem_1_local_work.ROUNDS[:6], "worst_up_to": 5},
        full={"worst_up_to": 12}, seeded=False,
        title="What local work is worth in Theorem 1's bound",
    ),
)  # fmt: skip
