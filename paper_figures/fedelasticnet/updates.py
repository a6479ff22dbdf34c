"""FedElasticNet's Figure 2: how the local updates are distributed, beside the Gaussian and the Laplace law of the same variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import METHOD_COLOURS, METHOD_NAMES, headline, legend_below, new_figure
from paper_figures.fedelasticnet.families import digits_of
from paper_figures.networks.runs import Published, Runs, about_of, check_local_work
from paper_figures.networks.words import joined, percent, short, where

__all__ = ["FIGURE"]

METHODS = ("feddyn", "algorithm-2", "algorithm-3")
BIN = 0.01  # of the paper's entropies
SIDE = 40  # drawn bins on either side of 0
NAMES = {"gaussian": "Gaussian", "laplace": "Laplace"}


def compute(
    rounds: int = 100, seeds: int | Sequence[int] = 5, datasets: Sequence[str] = ("cifar10", "mnist"),
    first_found: bool = False, **asked: Any,
) -> dict[str, Any]:
    """Compute what the last round's participants send, Dirichlet (.3), a tenth of the clients.

    Parameters
    ----------
    As `paper_figures.fedelasticnet.lambda_1.compute` takes them.

    Returns
    -------
    dict
        'panels': data set, network, ... and 'methods' {name: a row a seed of what `_described` returns}; FedDyn's are y_k - x, which it
        does not send but the paper compares, the others' the messages Delta_k.
    """
    from fedtheory.neural.benchmarks import presets

    runs = Runs(rounds, seeds, **asked)
    names = runs.read(datasets, first_found)
    settings = {
        (name, m): runs.setting(
            presets.get(f"fedelasticnet/{'mnist' if runs.small else name}/dirichlet-0.3/10%/{m}"),
            partial(digits_of, network="mlp-100-100"),
        )
        for name in names for m in METHODS
    }
    check_local_work(settings.values())
    options = {**({} if runs.small else {"most_tested": 10}), **runs.options}
    panels: dict[str, dict[str, Any]] = {}
    for (name, m), preset in settings.items():

        def make(folder: Path | None, preset: Any, samples: Any = runs.sets[name]) -> dict[str, Any]:
            return _described(_sent(preset, samples, options))

        seeded = [replace(preset, seed=s) for s in runs.used]
        rows = [runs.kept_or(p, {"updates": "of the last round", "side": SIDE, **options}, partial(make, preset=p)) for p in seeded]
        runs.told(f"{preset.name}: {100 * np.mean([r['zero'] for r in rows]):.0f} % of the numbers are 0")
        panel = panels.setdefault(name, about_of(preset) | {"methods": {}})
        panel["methods"][m] = {key: np.array([r[key] for r in rows]) for key in rows[0]}
    return runs.shown(list(panels.values()))


def _sent(preset: Any, samples: Any, options: dict[str, Any]) -> np.ndarray:
    """The updates of all participants of the last round (participants * parameters,)."""
    from fedtheory import simulate
    from fedtheory.arrays import rows_of, to_numpy

    problem = preset.make_problem(samples, preset.seed, **options)
    found: list[np.ndarray] = []

    def look(t: int, before: Any, after: Any, clients: Any) -> None:
        if t < preset.rounds:
            return
        if preset.method == "feddyn":
            rows = rows_of(clients.results[-1].y - before.x[:, None, :], clients.cohort.mask)
        else:
            rows = clients.sent_rows()[0]
        found.append(to_numpy(rows).astype(float).ravel())

    simulate(
        problem, preset.make_algorithm(), preset.rounds, problem.initial(), preset.make_sampling(), seed=preset.seed,
        local_solver=preset.make_solver(), record=(), like=problem.like_array(), on_round=look,
    )  # fmt: skip
    return np.concatenate(found)


def _laws(deviation: float, edges: np.ndarray) -> dict[str, np.ndarray]:
    """Probabilities between the edges of the Gaussian and the Laplace law with mean 0 and this standard deviation."""
    from scipy import stats  # takes long to import, and is for this figure alone

    of = {"gaussian": stats.norm(scale=deviation), "laplace": stats.laplace(scale=deviation / np.sqrt(2))}
    return {name: np.diff(law.cdf(edges)) for name, law in of.items()}


def _entropy(shares: np.ndarray) -> float:
    kept = shares[shares > 0]
    return float(-(kept * np.log2(kept)).sum())


def _described(values: np.ndarray) -> dict[str, Any]:
    """Moments, the share of zeros, entropies at the paper's bins, and a histogram of bins a quarter of the deviation of what is not 0.

    'gaussian' and 'laplace' are the total variation distances to these laws, over the histogram's bins.
    """
    deviation = float(values.std())
    if deviation == 0:
        raise ValueError("every update is 0")
    wide = int(np.ceil(np.abs(values).max() / BIN)) + 2
    edges = BIN * (np.arange(-wide, wide + 2) - 0.5)
    counts = np.histogram(values, edges)[0] / len(values)
    far = BIN * (np.arange(-4 * wide, 4 * wide + 2) - 0.5)
    fine = deviation / 4 * (np.arange(-SIDE, SIDE + 2) - 0.5)
    shown = np.histogram(values, fine)[0] / len(values)
    laws = _laws(deviation, fine)
    return {
        "deviation": deviation,
        "kurtosis": float(((values - values.mean()) ** 4).mean() / deviation**4 - 3),
        "zero": float((values == 0).mean()),
        "entropy": _entropy(counts),
        "entropy_gaussian": _entropy(_laws(deviation, far)["gaussian"]),
        "shares": shown,
        **{name: float(0.5 * (np.abs(shown - p).sum() + max(0.0, 1 - shown.sum()))) for name, p in laws.items()},
    }


def draw(data: dict[str, Any]) -> Any:
    """A row a data set, a panel a method: shares in bins of a quarter of a standard deviation, and the two laws."""
    panels = data["panels"]
    figure, axes = new_figure(10.4, 3.3 * len(panels) + 1.1, len(panels), len(METHODS), sharex=True, sharey=True)
    x = np.arange(-SIDE, SIDE + 1) / 4
    laws = _laws(1.0, (np.arange(-SIDE, SIDE + 2) - 0.5) / 4)
    for row, panel in zip(axes, panels, strict=True):
        for axis, (method, found) in zip(row, panel["methods"].items(), strict=True):
            shares = np.asarray(found["shares"], dtype=float)
            for name, style in (("gaussian", "--"), ("laplace", ":")):
                label = f"{NAMES[name]} law of the same variance"
                axis.plot(x, laws[name], style, color="#000000", linewidth=1.1, label=label)
            mean, low = (np.where((shares > 0).all(axis=0), v, np.nan) for v in (shares.mean(axis=0), shares.min(axis=0)))
            colour = METHOD_COLOURS[method]  # bins without any update break the line
            axis.fill_between(x, low, shares.max(axis=0), color=colour, alpha=0.2)
            axis.plot(x, mean, "-o", color=colour, linewidth=1.6, markersize=2.4)
            zero, kurtosis, entropy = (float(np.mean(found[k])) for k in ("zero", "kurtosis", "entropy"))
            axis.annotate(
                f"exactly 0: {percent(zero)}\nexcess kurtosis {kurtosis:.0f}\n{entropy:.2f} bits a number",
                (0.02, 0.97), xycoords="axes fraction", va="top", fontsize=8,
            )  # fmt: skip
            axis.set(title=f"{METHOD_NAMES[method]}, {short(panel)}", yscale="log", ylim=(1e-6, 30))
            axis.set_xlabel("update / its standard deviation")
        row[0].set_ylabel("share of all updates,\nbins of a quarter deviation")
    legend_below(figure, axes[:, 0], 2)
    detail = f"local updates of the last round's participants, {len(data['seeds'])} seeds (band: all of them)"
    headline(figure, _finding(data), detail)
    return figure


def _finding(data: dict[str, Any]) -> str:
    kurtosis = [float(np.mean(p["methods"]["feddyn"]["kurtosis"])) for p in data["panels"]]
    if min(kurtosis) > 3:
        return "FedDyn's updates are no Gaussian: their tails are heavier than Laplace's, as those of both elastic nets"
    return f"FedDyn's updates {'lie between Gaussian and Laplace' if min(kurtosis) > 0.5 else 'are close to Gaussian'}"


def caption(data: dict[str, Any]) -> str:
    """Zeros, kurtosis, distances and entropies in words, against section 4 on the figure."""
    parts = [where(data)]
    for panel in data["panels"]:
        said = []
        for method, found in panel["methods"].items():
            mean = {k: float(np.mean(values)) for k, values in found.items() if k != "shares"}
            nearer, other = sorted(NAMES, key=lambda law: mean[law])
            said.append(
                f"{METHOD_NAMES[method]} {percent(mean['zero'])} exact zeros, excess kurtosis {mean['kurtosis']:.1f} (Gaussian 0, "
                f"Laplace 3), nearer to the {NAMES[nearer]} law (total variation {mean[nearer]:.2f} against {mean[other]:.2f}), "
                f"{mean['entropy']:.2f} bits a number where a Gaussian of its variance has {mean['entropy_gaussian']:.2f}"
            )
        parts.append("; ".join(said) + ".")
        zeros = {m: np.asarray(found["zero"]) for m, found in panel["methods"].items()}
        sparser = (zeros["algorithm-3"] > zeros["feddyn"]).all() and (zeros["algorithm-3"] > zeros["algorithm-2"]).all()
        plain = panel["methods"]["feddyn"]
        gaussian = (np.asarray(plain["gaussian"]) < np.asarray(plain["laplace"])).all()
        law = "is not seen: the Laplace law is nearer to them, without any l1 term"
        entropy, plain_entropy = (np.asarray(panel["methods"][m]["entropy"]) for m in ("algorithm-3", "feddyn"))
        below, above = (entropy < plain_entropy).all(), (entropy > plain_entropy).all()
        lower = "lower in every seed" if below else "higher in every seed" if above else "not settled"
        claims = [
            "that Algorithm 3's updates are sparser than FedDyn's and Algorithm 2's is "
            f"{'seen in every seed' if sparser else 'not seen in every seed'}",
            f"that FedDyn's 'can be modeled by the Gaussian distribution' {'agrees with the nearer law' if gaussian else law}",
            f"that the elastic net lowers the entropy of FedDyn's updates: it is {(entropy / plain_entropy).mean():.2f} of theirs "
            f"in this round, {lower}",
        ]
        parts.append(f"Of what the paper says, {joined(claims)}.")
    return " ".join([*parts, *data["notes"]])


_QUICK = {"rounds": 30, "seeds": 3, "datasets": ("mnist", "cifar10"), "first_found": True, "published": Published(15, 2, 60)}
FIGURE = Figure(
    "fedelasticnet_figure2", compute, draw, _QUICK, title="How local updates are distributed: FedDyn, Algorithm 2 and Algorithm 3",
    number="Figure 2", caption=caption, takes=("data", "keep", "progress", "change"),
)  # fmt: skip
