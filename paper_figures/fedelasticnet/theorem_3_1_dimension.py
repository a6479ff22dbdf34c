"""The l1 term of Theorem 3.1 against the dimension: what the theory says, and what runs measure."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.participation.cohorts import Uniform
from fedtheory.plotting.experiment import Table, number
from fedtheory.plotting.style import COLOURS, headline, page_figure
from fedtheory.problems import Quadratic
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.notation import Rule
from paper_figures.fedelasticnet.runs import runs
from paper_figures.fedelasticnet.theorem_3_1 import panel

__all__ = ["compute", "draw", "finding", "table"]

CLIENTS, COHORT, RATIO, SHARE = 10, 5, 30.0, 0.3
RULES: dict[Rule, str] = {"sign": "sign rule", "true-gradient": "true-gradient rule"}


def scaled_problem(dim: int, seed: int) -> tuple[Quadratic, np.ndarray, float]:
    """(problem, start, lambda_1): every coordinate is drawn by the same law, so that R(theta^0) - R* grows like d."""
    rng = Stream(seed).generator(f"experiment dimension {dim}")
    h = rng.uniform(0.1, 1.0, (CLIENTS, dim))
    h[0, 0] = 1.0  # beta = 1 whatever d is
    problem = Quadratic(np.stack([np.diag(row) for row in h]), rng.standard_normal((CLIENTS, dim)))
    star = problem.optimum().x
    lambda1 = SHARE * float(np.sqrt((problem.gradient(star) ** 2).mean()))
    return problem, star + rng.standard_normal(dim), lambda1


def compute(dims: tuple[int, ...] = (2, 8, 32, 128), rounds: int = 300, scenarios: int = 4, seed: int = 0) -> dict[str, Any]:
    """For every d: R(theta^0) - R*, the bound's parts after T rounds, and what is measured of the mean iterate, under both rules."""
    rows = []
    for dim in dims:
        problem, start, lambda1 = scaled_problem(dim, seed)
        gap = float(problem.client_losses(start).mean() - problem.optimum().value)
        row: dict[str, Any] = {"d": dim, "lambda1": lambda1, "start": gap}
        for rule in RULES:
            algorithm = FedElasticNetDyn(lambda1, RATIO * problem.constants().beta, rule)
            drawn = runs(problem, algorithm, Uniform(COHORT), rounds, start, scenarios, seed, "monte-carlo")
            found = panel(drawn, RATIO)
            row[rule] = {
                "measured": float(found["measured"][-1]), "bound": float(found["repaired"][-1]),
                "sharpened": float(found["sharpened"][-1]), **{k: float(v[-1]) for k, v in found["parts"].items()},
            }  # fmt: skip
        rows.append(row)
    return {"rows": rows, "rounds": rounds, "scenarios": scenarios, "clients": CLIENTS, "cohort": COHORT, "ratio": RATIO}


def table(data: dict[str, Any]) -> Table:
    headings = ("d", "R(start) - R*", "l1 term", "whole bound", "l1 term/bound", "measured, sign rule", "true gradient", "Theorem A")
    rows = []
    for r in data["rows"]:
        sign, true = r["sign"], r["true-gradient"]
        cells = [r["start"], sign["floor"], sign["bound"], sign["floor"] / sign["bound"]]
        cells += [sign["measured"], true["measured"], true["sharpened"]]
        rows.append((str(r["d"]), *map(number, cells)))
    return Table(headings, rows, f"T = {data['rounds']}, m = {CLIENTS}, P = {COHORT}, lambda_2 = {RATIO:g} beta, quadratic losses")


def _slope(data: dict[str, Any], values: list[float]) -> float:
    """d log/d log d, by least squares."""
    return float(np.polyfit(np.log([r["d"] for r in data["rows"]]), np.log(values), 1)[0])


def finding(data: dict[str, Any]) -> list[str]:
    last = data["rows"][-1]
    sign, true = last["sign"], last["true-gradient"]
    start, term = [r["start"] for r in data["rows"]], [r["sign"]["floor"] for r in data["rows"]]
    share = [t / s for t, s in zip(term, start, strict=True)]
    return [
        f"The l1 term is (kappa'/kappa_0) lambda_1^2 d. It grows like d^{_slope(data, term):.2f} here, and R(start) - R* like "
        f"d^{_slope(data, start):.2f}: it stays {min(share):.0%} to {max(share):.0%} of that.",
        f"T does not lessen it, while the first term falls like 1/T: at d = {last['d']} it is {sign['floor'] / sign['bound']:.0%} of "
        f"the bound after {data['rounds']} rounds.",
        f"Measured, the mean iterate ends at {number(sign['measured'])} (sign rule) and {number(true['measured'])} (true-gradient "
        f"rule) against a term of {number(sign['floor'])}. Under the true-gradient rule, which sends a "
        "dense vector, the term is not needed (Theorem A).",
    ]


def draw(data: dict[str, Any]) -> Figure:
    """Left: everything against d. Right: the same for each coordinate."""
    figure, axes = page_figure(1, 2, ratio=0.8, more=0.3)
    d = np.array([r["d"] for r in data["rows"]])
    lines = (
        ("start", r"$R(\theta^0)-R_*$", "first", ":", lambda r: r["start"]),
        ("bound", "the bound, all terms", "repaired", "-", lambda r: r["sign"]["bound"]),
        ("floor", r"its $\ell_1$ term $\propto\lambda_1^2d$", "floor", "-", lambda r: r["sign"]["floor"]),
        ("sign", "measured, sign rule", "theorem B", "--", lambda r: r["sign"]["measured"]),
        ("true", "measured, true-gradient rule", "theorem A", "--", lambda r: r["true-gradient"]["measured"]),
    )
    for axis, by in ((axes[0, 0], np.ones(len(d))), (axes[0, 1], d)):
        for _, label, colour, style, of in lines:
            y = np.array([of(r) for r in data["rows"]]) / by
            axis.plot(d, y, style, color=COLOURS[colour], label=label, marker="o", markersize=3.5)
        axis.set(xscale="log", yscale="log", xlabel="dimension $d$")
        axis.set_xticks(d, [str(v) for v in d])
        axis.minorticks_off()
    axes[0, 0].set_title(f"suboptimality of the mean iterate, T = {data['rounds']}")
    axes[0, 1].set_title("the same, divided by $d$")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    below = all(r[rule]["measured"] < r[rule]["floor"] for r in data["rows"] for rule in RULES)
    headline(
        figure, "Theorem 3.1's l1 term grows like d, as the problem does" + ("; runs end below it" if below else ""),
        f"quadratics whose coordinates follow one law, m = {CLIENTS}, P = {COHORT}, λ₂/β = {RATIO:g}, "
        f"λ₁ = {SHARE:g} × the gradients at the optimum, {data['scenarios']} runs",
    )
    return figure
