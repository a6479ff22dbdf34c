"""The traffic: nonzeros, entropy, and suboptimality against cumulated nonzeros, on real data; and
when the entries of the messages become zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory import algorithms
from fedtheory.arrays import to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.local import Exact, GradientSteps
from fedtheory.messages.measures import entropy_bits
from fedtheory.participation.cohorts import Uniform
from fedtheory.plotting.experiment import Table, number
from fedtheory.plotting.style import METHOD_COLOURS, band, headline, middle, page_figure
from fedtheory.problems import datasets, partitions
from fedtheory.simulation.simulate import simulate
from paper_figures.fedelasticnet.common import RULE_COLOURS

__all__ = ["METHODS", "caption", "compute", "draw", "finding", "table"]

CLIENTS, COHORT = 20, 4
LAMBDA1, LAMBDA2 = 0.01, 0.1
_STEPS = 10
PLAIN = (0, (3, 1.5))
SIGN, TRUE = "Algorithm 3, sign rule", "Algorithm 3, true-gradient rule"
# Column -> label -> (method, takes local gradient steps, colour, line style): each plain method beside its elastic net
METHODS: dict[str, dict[str, tuple[Callable[[], Any], bool, str, Any]]] = {
    "FedProx": {
        "FedProx": (lambda: algorithms.FedProx(LAMBDA2, send="update"), False, METHOD_COLOURS["fedprox"], PLAIN),
        "Algorithm 1": (lambda: algorithms.FedElasticNetProx(LAMBDA1, LAMBDA2, "cohort"), False, METHOD_COLOURS["algorithm-1"], "-"),
    },
    "SCAFFOLD": {
        "SCAFFOLD": (lambda: algorithms.Scaffold(), True, METHOD_COLOURS["scaffold"], PLAIN),
        "Algorithm 2": (lambda: algorithms.FedElasticNetScaffold(LAMBDA1, LAMBDA2), True, METHOD_COLOURS["algorithm-2"], "-"),
    },
    "FedDyn": {
        "FedDyn": (lambda: algorithms.FedDyn(LAMBDA2, send="update"), False, METHOD_COLOURS["feddyn"], PLAIN),
        SIGN: (lambda: algorithms.FedElasticNetDyn(LAMBDA1, LAMBDA2), False, RULE_COLOURS["sign"], "-"),
        TRUE: (
            lambda: algorithms.FedElasticNetDyn(LAMBDA1, LAMBDA2, "true-gradient"), False, RULE_COLOURS["true-gradient"], "-",
        ),
    },
}  # fmt: skip


def _entropies(clients: Clients) -> np.ndarray:
    """Bits an entry of what was sent in a round, of each scenario by itself (S,); of two messages the sum."""
    sent = [to_numpy(message) for message in clients.sent]
    return np.array([sum(entropy_bits(message[s]) for message in sent) for s in range(len(sent[0]))])


def compute(rounds: int = 100, scenarios: int = 8, seed: int = 0) -> dict[str, Any]:
    """Runs of all methods on the same cohorts: breast cancer, logistic with ridge 0.01, Dirichlet(0.6) labels."""
    data = datasets.breast_cancer()
    deal = partitions.dirichlet(data.targets, CLIENTS, 0.6, seed=seed)
    problem = partitions.federate(data, deal, ridge=1e-2)
    steps = GradientSteps(_STEPS, 0.5 / problem.constants().beta, l1="prox")
    curves = {}
    for name, (make, walks, _, _) in ((n, m) for column in METHODS.values() for n, m in column.items()):
        solver = steps if walks else Exact()
        entropy = [np.zeros(scenarios)]
        run = simulate(
            problem, make(), rounds, None, Uniform(COHORT), scenarios, seed, solver, ("suboptimality", "nonzeros"),
            on_round=lambda t, old, new, clients: entropy.append(_entropies(clients)),  # noqa: B023
        )  # fmt: skip
        seen: dict[str, Any] = {key: middle(value) for key, value in run.metrics.items()}
        seen["entropy"] = middle(np.stack(entropy))
        seen["cumulated"] = np.median(np.cumsum(run.metrics["nonzeros"], axis=0) * COHORT, axis=1)
        curves[name] = seen
    return {
        "curves": curves,
        "rounds": rounds,
        "scenarios": scenarios,
        "dim": problem.dim,
        "partition_sha256": deal.sha256,
        "lambda1": LAMBDA1,
        "lambda2": LAMBDA2,
    }


def _late(data: dict[str, Any], name: str, metric: str) -> float:
    """Median over the last fifth of the rounds."""
    values = np.asarray(data["curves"][name][metric]["middle"])
    return float(np.median(values[-max(1, data["rounds"] // 5) :]))


def caption(data: dict[str, Any]) -> str:
    """Say what the l1 term saves, and what it costs."""
    saved = [
        f"{name} {_late(data, name, 'nonzeros'):.0f} ({plain}: {_late(data, plain, 'nonzeros'):.0f})"
        for name, plain in (("Algorithm 1", "FedProx"), ("Algorithm 2", "SCAFFOLD"), (SIGN, "FedDyn"), (TRUE, "FedDyn"))
    ]
    ends = [f"{_late(data, name, 'suboptimality'):.1g} ({name})" for name in ("FedDyn", SIGN, TRUE)]
    return (
        f"Nonzeros that a client sends in a round, of d = {data['dim']} entries (SCAFFOLD and Algorithm 2: two messages), over the "
        f"last fifth of the rounds: {', '.join(saved)}. There F − F⋆ is {', '.join(ends)}. Median and middle 80 % of "
        f"{data['scenarios']} runs, which differ in their cohorts and are the same for all methods."
    )


def draw(data: dict[str, Any]) -> Figure:
    """A column a plain method with its elastic nets: nonzeros and entropy against rounds, suboptimality against all nonzeros so far."""
    figure, axes = page_figure(3, len(METHODS), ratio=0.72, more=0.3, sharey="row")
    t = np.arange(1, data["rounds"] + 1)
    for column, (title, methods) in enumerate(METHODS.items()):
        entries, bits, cost = axes[:, column]
        for name, (_, _, colour, style) in methods.items():
            curve = data["curves"][name]
            look = {"color": colour, "linestyle": style, "label": name, "zorder": 4 if style == PLAIN else 3}
            seen = {metric: {end: np.asarray(v)[1:] for end, v in curve[metric].items()} for metric in ("nonzeros", "entropy")}
            band(entries, t, seen["nonzeros"], **look)
            band(bits, t, seen["entropy"], **look)
            band(cost, np.maximum(curve["cumulated"], 1), curve["suboptimality"], floor=1e-16, **look)
        full = [n for n in methods if (np.asarray(data["curves"][n]["nonzeros"]["low"])[1:] == data["dim"]).all()]
        if len(full) > 1:  # their lines lie on one another
            short = " and ".join(name.removeprefix("Algorithm 3, ") for name in full)
            entries.text(data["rounds"], data["dim"] + 1, f"dense: {short}", ha="right", va="bottom", fontsize=6)
        entries.set_title(title)
        entries.legend(loc="upper right", bbox_to_anchor=(1, 1.05), fontsize=6.5)
        entries.set_xlabel("rounds")
        bits.set_xlabel("rounds")
        cost.set(xscale="log", yscale="log", xlabel="nonzeros sent so far, all clients", xlim=(50, None))
        cost.minorticks_off()
    axes[0, 0].set(ylabel="nonzeros a client and round", ylim=(0, 3.4 * data["dim"]))
    axes[1, 0].set(ylabel="entropy, bits an entry", ylim=(0, None))
    axes[2, 0].set_ylabel("F − F⋆")
    stalled, goes_on = (_late(data, name, "suboptimality") for name in (SIGN, TRUE))
    headline(
        figure,
        f"Algorithm 3 saves messages but stalls: F − F⋆ stays at {stalled:.1g}; with exact subgradients it falls to {goes_on:.1g}, "
        "with dense messages",
        f"breast cancer, logistic loss, m = {CLIENTS}, P = {COHORT}, λ₁ = {data['lambda1']:g}, λ₂ = {data['lambda2']:g}; median and "
        f"middle 80 % of {data['scenarios']} runs; dashed: without ℓ₁; entropy in bins of 0.01, of two messages the sum. SCAFFOLD: "
        f"{_STEPS} local gradient steps, control variates sent too; others: exact local solves",
    )
    return figure


# --- the experiment `zeros` -----------------------------------------------------------------------
def _halved(nonzeros: np.ndarray, size: int) -> str:
    """The first round in which a message has at most half its entries, for good."""
    above = np.nonzero(nonzeros[1:] > size / 2)[0]
    if len(above) == 0:
        return "1"
    return "never" if above[-1] + 2 >= len(nonzeros) else str(above[-1] + 2)


def _sizes(data: dict[str, Any], name: str) -> int:
    """Entries of what a client sends: SCAFFOLD and its elastic net version send two messages."""
    return data["dim"] * (2 if name in METHODS["SCAFFOLD"] else 1)


def table(data: dict[str, Any]) -> Table:
    rounds = [t for t in (1, 2, 5, 10, 20, 50, 100, 300) if t <= data["rounds"]]
    rows = []
    for name, curve in data["curves"].items():
        nonzeros = np.asarray(curve["nonzeros"]["middle"])
        counts = [number(nonzeros[t]) for t in rounds]
        rows.append((name, str(_sizes(data, name)), *counts, _halved(nonzeros, _sizes(data, name))))
    headings = ("method", "entries", *(f"round {t}" for t in rounds), "at most half from round")
    return Table(headings, rows, f"nonzeros a client and round, cohort's mean, median of the runs; lambda_1 = {data['lambda1']:g}")


def finding(data: dict[str, Any]) -> list[str]:
    sign, true = ({k: np.asarray(data["curves"][name][k]["middle"]) for k in ("nonzeros", "suboptimality")}
                  for name in (SIGN, TRUE))  # fmt: skip
    silent = np.nonzero(sign["nonzeros"][1:] < 1)[0]
    when = f"below one entry a message from round {silent[0] + 1}" if len(silent) else "never below one entry a message"
    return [
        f"Under the sign rule the messages thin out as gradients fall below lambda_1: {when}. The run ends at "
        f"F - F* = {number(sign['suboptimality'][-1])}.",
        f"Under the true-gradient rule it ends at {number(true['suboptimality'][-1])}, with {number(true['nonzeros'][-1])} of "
        f"{data['dim']} entries in the last round.",
    ]
