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
    Figure(
        "bound_vs_empirical", theorem_3_1.compute, theorem_3_1.draw,
        quick={"rounds": 500}, full={"rounds": 10_000, "scenarios": 500},
        title="Theorem 3.1 against what is measured, where it holds and where it is crossed",
        caption=theorem_3_1.caption,
        takes=("problem",),
    ),
    Figure(
        "tightness", tightness.compute, tightness.draw,
        quick={"instances": 4, "ratios": 6}, full={"instances": 36, "ratios": 25},
        title="How tight each statement of FedElasticNet is", caption=tightness.caption,
        takes=("problem",),
    ),
    Figure(
        "sign_vs_true_gradient", consistency.compute, consistency.draw,
        quick={"grid": 13, "rounds": 200, "l1_values": 4, "ratios": 6},
        full={"grid": 31, "rounds": 1000, "l1_values": 12, "ratios": 25},
        seeded=False, title="The sign rule and the true-gradient rule: where runs end",
        caption=consistency.caption,
    ),
    Figure(
        "nonzeros_and_entropy", l1_and_entropy.compute, l1_and_entropy.draw,
        quick={"rounds": 40, "scenarios": 3}, full={"rounds": 300, "scenarios": 20},
        title="What FedElasticNet sends, and what that buys", caption=l1_and_entropy.caption,
    ),
    Figure(
        "drift_without_end", drift.compute, drift.draw, quick={"rounds": 100},
        full={"rounds": 600}, seeded=False,
        title="One client that the sign rule drives away", caption=drift.caption,
    ),
    Figure(
        "which_lambda_2", theorem_e.compute, theorem_e.draw,
        quick={"participants": (1, 20), "halvings": 4, "ratios": 8},
        full={"participants": (1, 2, 5, 10, 15, 20), "halvings": 10, "ratios": 30},
        seeded=False, title="Which λ₂ is allowed, and what a threshold costs",
        caption=theorem_e.caption,
    ),
    Figure(
        "worst_case_vs_bound", worst_case.compute, worst_case.draw,
        quick={"horizons": (1, 2, 6), "cohorts": (1, 2, 3)},
        full={"horizons": (1, 2, 3, 5, 7, 10, 14, 20), "cohorts": (1, 2, 3, 4)},
        title="FedDyn and FedElasticNet: bound, worst case over all losses, and one run",
        caption=worst_case.caption,
    ),
)  # fmt: skip
