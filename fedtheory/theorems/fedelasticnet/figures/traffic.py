"""What is sent: nonzeros, entropy, and suboptimality against cumulated nonzeros, on real data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory import algorithms
from fedtheory.local import Exact, GradientSteps
from fedtheory.participation.cohorts import Uniform
from fedtheory.plotting.style import headline, new_figure
from fedtheory.problems import datasets, partitions
from fedtheory.simulation.simulate import simulate

__all__ = ["METHODS", "compute", "draw"]

CLIENTS, COHORT = 20, 4
LAMBDA1, LAMBDA2 = 0.01, 0.1
_STEPS = 10
# Label -> (method, takes local gradient steps, colour, line style). An elastic net version shares its plain version's colour.
METHODS: dict[str, tuple[Callable[[], Any], bool, str, Any]] = {
    "FedProx": (lambda: algorithms.FedProx(LAMBDA2, send="update"), False, "#E69F00", ":"),
    "FedElasticNet (FedProx)": (lambda: algorithms.FedElasticNetProx(LAMBDA1, LAMBDA2, "cohort"), False, "#E69F00", "--"),
    "SCAFFOLD": (lambda: algorithms.Scaffold(), True, "#CC79A7", ":"),
    "FedElasticNet (SCAFFOLD)": (lambda: algorithms.FedElasticNetScaffold(LAMBDA1, LAMBDA2), True, "#CC79A7", "--"),
    "FedDyn": (lambda: algorithms.FedDyn(LAMBDA2, send="update"), False, "#0072B2", ":"),
    "FedElasticNet (FedDyn), sign rule": (lambda: algorithms.FedElasticNetDyn(LAMBDA1, LAMBDA2), False, "#0072B2", "--"),
    "FedElasticNet (FedDyn), true-gradient rule": (
        lambda: algorithms.FedElasticNetDyn(LAMBDA1, LAMBDA2, "true-gradient"),
        False,
        "#0072B2",
        "-",
    ),
}


def compute(rounds: int = 100, scenarios: int = 2, seed: int = 0) -> dict[str, Any]:
    """Runs of all methods on the same cohorts: breast cancer, logistic with ridge 0.01, Dirichlet(0.6) labels."""
    data = datasets.breast_cancer()
    deal = partitions.dirichlet(data.targets, CLIENTS, 0.6, seed=seed)
    problem = partitions.federate(data, deal, ridge=1e-2)
    steps = GradientSteps(_STEPS, 0.5 / problem.constants().beta, l1="prox")
    curves = {}
    for name, (make, walks, _, _) in METHODS.items():
        solver = steps if walks else Exact()
        record = ("suboptimality", "nonzeros", "entropy")
        run = simulate(problem, make(), rounds, None, Uniform(COHORT), scenarios, seed, solver, record)
        mean = {key: value.mean(axis=1) for key, value in run.metrics.items()}
        mean["cumulated"] = np.cumsum(mean["nonzeros"]) * COHORT
        curves[name] = mean
    return {
        "curves": curves,
        "rounds": rounds,
        "scenarios": scenarios,
        "dim": problem.dim,
        "partition_sha256": deal.sha256,
        "lambda1": LAMBDA1,
        "lambda2": LAMBDA2,
    }


def draw(data: dict[str, Any]) -> Figure:
    """Three panels: nonzeros and entropy against rounds, suboptimality against all nonzeros sent so far."""
    figure, axes = new_figure(13.5, 5.1, 1, 3)
    entries, bits, cost = axes[0]
    for name, curve in data["curves"].items():
        _, _, colour, style = METHODS[name]
        look = {"color": colour, "linestyle": style, "linewidth": 1.8, "label": name, "zorder": 3 if style == ":" else 2}
        rounds = np.arange(1, data["rounds"] + 1)
        entries.plot(rounds, curve["nonzeros"][1:], **look)
        bits.plot(rounds, curve["entropy"][1:], **look)
        cost.plot(np.maximum(curve["cumulated"], 1), np.maximum(curve["suboptimality"], 1e-16), **look)
        cost.plot(curve["cumulated"][-1], curve["suboptimality"][-1], "o", color=colour, markersize=5)
    entries.set(xlabel="rounds", ylabel="nonzeros a client and round", title=f"nonzeros sent (d = {data['dim']})")
    entries.set_ylim(bottom=0)
    dense = [name.rpartition(", ")[2] for name, curve in data["curves"].items() if (curve["nonzeros"][1:] == data["dim"]).all()]
    if len(dense) > 1:  # their lines lie on one another
        entries.text(data["rounds"], data["dim"] + 1, f"dense: {', '.join(dense)}", ha="right", va="bottom", fontsize=7.5)
    bits.set(xlabel="rounds", ylabel="entropy [bits an entry; two messages: the sum]", title="entropy of what is sent (bins of 0.01)")
    bits.set_ylim(bottom=0)
    cost.set(xscale="log", yscale="log", xlabel="nonzeros sent so far, all clients", ylabel=r"$F(\theta_t)-F_*$")
    cost.set_title("what the nonzeros buy (dot: the last round)")
    cost.minorticks_off()
    cost.set_xlim(left=50)
    handles, labels = entries.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    headline(
        figure,
        "The sign rule falls silent short of the optimum; the true-gradient rule goes on, with dense messages",
        f"breast cancer, logistic loss, m = {CLIENTS}, P = {COHORT}, λ₁ = {data['lambda1']:g}, λ₂ = {data['lambda2']:g}, "
        f"{'one run' if data['scenarios'] == 1 else 'mean of ' + str(data['scenarios']) + ' runs'}; "
        f"SCAFFOLD: {_STEPS} local gradient steps and control variates sent too; others: exact local solves",
    )
    return figure
