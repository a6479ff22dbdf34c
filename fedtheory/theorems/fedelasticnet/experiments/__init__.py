"""Experiments on what the reviewers of FedElasticNet asked, quick by default; no campaign runs them."""

from fedtheory.plotting.experiment import Experiment
from fedtheory.theorems.fedelasticnet.experiments import bias, compression, dimension, heterogeneity, tuning, zeros

__all__ = ["EXPERIMENTS"]

EXPERIMENTS = (
    Experiment(
        "dimension", dimension.compute, dimension.draw, full={"dims": (2, 8, 32, 128, 512), "rounds": 2000, "scenarios": 16},
        question="How does the l1 term of Theorem 3.1 grow with the dimension d, and what happens to the method?",
        table=dimension.table, finding=dimension.finding,
    ),
    Experiment(
        "algorithm-1", bias.compute, bias.draw, full={"rounds": 400, "ratios": 25},
        question="How fast does Algorithm 1 (FedAvg + l1 + l2) converge, and how far from the optimum does it end?",
        table=bias.table, finding=bias.finding, seeded=False,
    ),
    Experiment(
        "tuning", tuning.compute, tuning.draw, full={"rounds": 200, "grid": 9, "scenarios": 3},
        question="What do lambda_1, lambda_2 and the threshold epsilon do, and how hard are they to choose?",
        table=tuning.table, finding=tuning.finding,
    ),
    Experiment(
        "heterogeneity", heterogeneity.compute, heterogeneity.draw,
        full={"rounds": 200, "scenarios": 3, "grid": 4, "sets": 2},
        question="At which strengths of heterogeneity is SCAFFOLD ahead of FedElasticNet, and at which behind?",
        table=heterogeneity.table, finding=heterogeneity.finding,
    ),
    Experiment(
        "compression", compression.compute, compression.draw, full={"rounds": 200, "scenarios": 5, "grid": 5},
        question="For the same bits, is l1 + l2 better than a compressor with error feedback on FedAvg, SCAFFOLD or FedDyn?",
        table=compression.table, finding=compression.finding,
    ),
    Experiment(
        "zeros", zeros.compute, zeros.draw, quick={"rounds": 50, "scenarios": 3}, full={"rounds": 300, "scenarios": 10},
        question="When do the entries of the messages become zero?", table=zeros.table, finding=zeros.finding,
    ),
)  # fmt: skip
