"""FedElasticNet's theory in pictures, which a campaign draws."""

from fedtheory.plotting.figure import Figure
from paper_figures.fedelasticnet import (
    consistency,
    drift,
    l1_and_entropy,
    theorem_3_1,
    theorem_e,
    tightness,
    worst_case,
)

__all__ = ["FIGURES"]

FIGURES = (
    Figure.of(
        theorem_3_1, "bound_vs_empirical", quick={"rounds": 500},
        full={"rounds": 10_000, "scenarios": 500},
        title="Theorem 3.1 against what is measured, where it holds and where it is crossed",
        takes=("problem",),
    ),
    Figure.of(
        tightness, "tightness", quick={"instances": 4, "ratios": 6},
        full={"instances": 36, "ratios": 25}, title="How tight each statement of FedElasticNet is",
        takes=("problem",),
    ),
    Figure.of(
        consistency, "sign_vs_true_gradient",
        quick={"grid": 13, "rounds": 200, "l1_values": 4, "ratios": 6},
        full={"grid": 31, "rounds": 1000, "l1_values": 12, "ratios": 25}, seeded=False,
        title="The sign rule and the true-gradient rule: where runs end",
    ),
    Figure.of(
        l1_and_entropy, "nonzeros_and_entropy", quick={"rounds": 40, "scenarios": 3},
        full={"rounds": 300, "scenarios": 20}, title="What FedElasticNet sends, and what that buys",
    ),
    Figure.of(
        drift, "drift_without_end", quick={"rounds": 100}, full={"rounds": 600}, seeded=False,
        title="One client that the sign rule drives away",
    ),
    Figure.of(
        theorem_e, "which_lambda_2", quick={"participants": (1, 20), "halvings": 4, "ratios": 8},
        full={"participants": (1, 2, 5, 10, 15, 20), "halvings": 10, "ratios": 30}, seeded=False,
        title="Which λ₂ is allowed, and what a threshold costs",
    ),
    Figure.of(
        worst_case, "worst_case_vs_bound", quick={"horizons": (1, 2, 6), "cohorts": (1, 2, 3)},
        full={"horizons": (1, 2, 3, 5, 7, 10, 14, 20), "cohorts": (1, 2, 3, 4)},
        title="FedDyn and FedElasticNet: bound, worst case over all losses, and one run",
    ),
)  # fmt: skip
