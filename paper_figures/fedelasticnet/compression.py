"""l1 + l2 against compressors with error feedback, on FedAvg and on methods that correct drift: F - F* for the bits sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory import algorithms
from fedtheory.messages import QSGD, ScaledSign, Threshold, TopK
from fedtheory.plotting.experiment import Table, number
from fedtheory.plotting.style import METHOD_COLOURS, headline, page_figure
from paper_figures.fedelasticnet.common import (
    CLIENTS,
    COHORT,
    STEPS,
    best_of,
    grid_of,
    measured,
    problem_of,
)

__all__ = ["compute", "draw", "finding", "table"]

DATA, ALPHA = "breast cancer", 0.3
SHARES = (0.05, 0.1, 0.3)
L1 = (1e-3, 1e-2, 3e-2)
RIVALS = {"Algorithm 1": ("FedAvg",), "Algorithm 2": ("SCAFFOLD",), "Algorithm 3, sign rule": ("FedDyn", "SCAFFOLD")}
COLOURS = {
    name: METHOD_COLOURS[name.lower().partition(",")[0].replace(" ", "-")]
    for name in ("FedAvg", "SCAFFOLD", "FedDyn", "Algorithm 1", "Algorithm 2", "Algorithm 3, sign rule")
}


def _compressors() -> dict[str, Any]:
    """Name -> compressor; None sends all entries as they are."""
    top = {f"top {q:.0%}": TopK(q=q) for q in SHARES}
    return {"none": None, **top, "sign": ScaledSign(), "QSGD, 4 levels": QSGD(4)}


def _plain(method: str, compressor: Any, choice: Any) -> Any:
    """A method without l1, what it sends compressed with error feedback; FedDyn's choice is alpha, SCAFFOLD's its second message."""
    if method == "FedAvg":
        plain: Any = algorithms.FedAvg("cohort", send="update")
    elif method == "FedDyn":
        plain = algorithms.FedDyn(choice, send="update")
    else:
        plain = algorithms.Scaffold(control="recovered" if choice == "recovered" else "sent")
    if compressor is None:
        return plain
    both = method == "SCAFFOLD" and choice != "recovered"
    return algorithms.Compressed(plain, up=compressor, control=compressor if both else None)


def _elastic(method: str, l1: float, l2: float) -> Any:
    """An elastic net version; its nonzeros are sent with their places, and nothing is left out."""
    made = {
        "Algorithm 1": lambda: algorithms.FedElasticNetProx(l1, l2, "cohort"),
        "Algorithm 2": lambda: algorithms.FedElasticNetScaffold(l1, l2, control="recovered"),
        "Algorithm 3, sign rule": lambda: algorithms.FedElasticNetDyn(l1, l2),
    }[method]()
    return algorithms.Compressed(made, up=Threshold(0.0))


def compute(rounds: int = 50, scenarios: int = 1, grid: int = 3, seed: int = 0) -> dict[str, Any]:
    """For every method and strength of compression: F - F* after the last round and all bits sent up, lambda_2 the best of a grid."""
    problem, values = problem_of(DATA, ALPHA, seed), grid_of(0.01, 1.0, grid)
    points = []
    for method in ("FedAvg", "SCAFFOLD", "FedDyn"):
        for how, compressor in _compressors().items():
            choices = {"FedAvg": ["-"], "SCAFFOLD": ["recovered", "sent"], "FedDyn": values}[method]

            def plain(v: Any, m: str = method, c: Any = compressor) -> dict[str, float]:
                return measured(problem, _plain(m, c, v), rounds, scenarios, seed)

            found = best_of(plain, choices)
            points.append({"method": method, "how": how, "family": how.split()[0], **found})
    for method in ("Algorithm 1", "Algorithm 2", "Algorithm 3, sign rule"):
        for l1 in L1:

            def elastic(v: Any, m: str = method, a: float = l1) -> dict[str, float]:
                return measured(problem, _elastic(m, a, v), rounds, scenarios, seed)

            found = best_of(elastic, values)
            points.append({"method": method, "how": f"l1 = {l1:g}", "family": "l1", **found})
    return {"points": points, "rounds": rounds, "scenarios": scenarios, "dim": problem.dim, "values": values}


def table(data: dict[str, Any]) -> Table:
    rows = [
        (p["method"], p["how"], number(p["suboptimality"]), f"{p['bits'] / 1e3:.0f}", f"{p['nonzeros']:.1f}", _word(p["choice"]))
        for p in data["points"]
    ]
    headings = ("method", "compression", "F - F*", "kbit sent", "nonzeros a message", "the best choice")
    what = f"{DATA}, d = {data['dim']}, T = {data['rounds']}; compressors with error feedback. "
    chosen = f"Chosen is lambda_2 of {data['values']} (alpha of FedDyn); of SCAFFOLD, whether control variates are sent, compressed, "
    return Table(headings, rows, what + chosen + "or recovered from the updates")


def _word(choice: Any) -> str:
    return choice if isinstance(choice, str) else number(choice)


def _front(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points that no other beats in both F - F* and bits, by bits."""
    out, best = [], np.inf
    for p in sorted(points, key=lambda p: (p["bits"], p["suboptimality"])):
        if p["suboptimality"] < best:
            out.append(p)
            best = p["suboptimality"]
    return out


def _without_better(data: dict[str, Any], method: str, rivals: tuple[str, ...]) -> list[str]:
    """Of the method's points those that no rival's point beats in bits and F - F* alike."""
    others = [p for p in data["points"] if p["method"] in rivals]
    own = [p for p in data["points"] if p["method"] == method]
    beaten = [any(o["bits"] <= p["bits"] and o["suboptimality"] <= p["suboptimality"] for o in others) for p in own]
    return [p["how"] for p, b in zip(own, beaten, strict=True) if not b]


def finding(data: dict[str, Any]) -> list[str]:
    front = "; ".join(f"{p['method']} ({p['how']})" for p in _front(data["points"]))
    out = [f"No other has fewer bits and a lower F - F* than, from few bits to many: {front}."]
    for method, rivals in RIVALS.items():
        left = _without_better(data, method, rivals)
        words = f"not beaten at {', '.join(left)}" if left else "beaten at every lambda_1"
        out.append(f"{method} against {' and '.join(rivals)} with a compressor: {words}, in bits and F - F* at once.")
    return out


def draw(data: dict[str, Any]) -> Figure:
    """F - F* against bits, a line a method through its strengths of compression."""
    figure, axes = page_figure(1, 1, ratio=0.5, more=0.4)
    axis = axes[0, 0]
    marks = {"none": "o", "top": "v", "sign": "P", "QSGD,": "X", "l1": "D"}
    for method, colour in COLOURS.items():
        own = sorted((p for p in data["points"] if p["method"] == method), key=lambda p: p["bits"])
        line = [p for p in own if p["family"] in ("top", "l1", "none")]
        style = "-" if method.startswith("Algorithm") else "--"  # an elastic net has the colour of its plain method
        x, y = [p["bits"] / 1e3 for p in line], [p["suboptimality"] for p in line]
        axis.plot(x, y, style, color=colour, linewidth=1.2, label=method)
        for p in own:
            axis.plot(p["bits"] / 1e3, p["suboptimality"], marks[p["family"]], color=colour, markersize=5.5)
    names = {"no compression": "o", "top-k": "v", "sign": "P", "QSGD": "X", "l1 + l2, nonzeros sent": "D"}
    for name, mark in names.items():
        axis.plot([], [], mark, color="#555555", label=name)
    axis.set(xscale="log", yscale="log", xlabel="kbit sent by all clients", ylabel=r"$F(\theta_T)-F_*$")
    axis.set_xticks(ticks := [20, 50, 100, 200, 500], [str(t) for t in ticks])
    axis.minorticks_off()
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    beaten = [m.split(",")[0] for m, rivals in RIVALS.items() if not _without_better(data, m, rivals)]
    others = [m.split(",")[0] for m in RIVALS if m.split(",")[0] not in beaten]
    said = f"Compressors with error feedback beat {' and '.join(beaten) or 'none'} at every λ₁"
    headline(
        figure, said + (f", not {' or '.join(others)}" if beaten and others else ""),
        f"{DATA}, d = {data['dim']}, Dirichlet({ALPHA:g}), m = {CLIENTS}, P = {COHORT}, {STEPS} local gradient steps, "
        f"T = {data['rounds']}. Beaten: more bits and a higher F − F* at once, than its method without l1",
    )
    return figure
