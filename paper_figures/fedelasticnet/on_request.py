"""Experiments on what reviewers of FedElasticNet asked, its figures and tables of trained networks, and a figure for the
top of a page."""

from fedtheory.plotting.experiment import Experiment
from fedtheory.plotting.figure import Figure
from paper_figures.fedelasticnet import (
    accuracy,
    algorithm_1_bias,
    compression,
    heterogeneity,
    l1_and_entropy,
    lambda_1,
    table_1,
    table_5,
    theorem_3_1,
    theorem_3_1_dimension,
    tuning,
    updates,
    what_is_sent,
)

__all__ = ["ON_REQUEST"]

ON_REQUEST = (
    Experiment.of(
        theorem_3_1_dimension, "dimension",
        full={"dims": (2, 8, 32, 128, 512), "rounds": 2000, "scenarios": 16},
        question="How does the l1 term of Theorem 3.1 grow with the dimension d, and what happens to the method?",
    ),
    Experiment.of(
        algorithm_1_bias, "algorithm-1", full={"rounds": 400, "ratios": 25},
        question="How fast does Algorithm 1 (FedAvg + l1 + l2) converge, and how far from the optimum does it end?",
        seeded=False,
    ),
    Experiment.of(
        tuning, "tuning", full={"rounds": 200, "grid": 9, "scenarios": 3},
        question="What do lambda_1, lambda_2 and the threshold epsilon do, and how hard are they to choose?",
    ),
    Experiment.of(
        heterogeneity, "heterogeneity", full={"rounds": 200, "scenarios": 3, "grid": 4, "sets": 2},
        question="At which strengths of heterogeneity is SCAFFOLD ahead of FedElasticNet, and at which behind?",
    ),
    Experiment.of(
        compression, "compression", full={"rounds": 200, "scenarios": 5, "grid": 5},
        question="For the same bits, is l1 + l2 better than a compressor with error feedback on FedAvg, SCAFFOLD or FedDyn?",
    ),
    Experiment.of(
        l1_and_entropy, "zeros", quick={"rounds": 50, "scenarios": 3},
        full={"rounds": 300, "scenarios": 10},
        question="When do the entries of the messages become zero?",
    ),
    Figure(
        "bound_vs_empirical_summary", theorem_3_1.compute, theorem_3_1.draw_summary,
        caption=theorem_3_1.caption, quick={"rounds": 500, "ratios": (100.0,)},
        full={"rounds": 2000, "scenarios": 200, "ratios": (100.0,)},
        title="Theorem 3.1 of FedElasticNet: violated as printed, holds as repaired",
    ),
    table_1.FIGURE, *what_is_sent.FIGURES, table_5.FIGURE,
    *accuracy.FIGURES, updates.FIGURE, *lambda_1.FIGURES,
)  # fmt: skip
