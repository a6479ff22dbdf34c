"""FedElasticNet's Tables 2 to 4 and EFL's Table 2 over seeds: docs/networks_tables.md, and the
pictures of docs/networks.md.

    python validation/published/seeds_table.py write   # the rows into the document
    python validation/published/seeds_table.py draw    # networks_rows, networks_table4, networks_grid

Everything comes from bench_fedelasticnet.json (seed 0 of Tables 2 and 3) and seeds_of_*.json beside
this file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import typer
from bench_table import DATA, DENSE, NAMES, ORDER, SPLITS
from grid import BATCHES, RATES

from fedtheory.neural.benchmarks import printed_tables as papers
from fedtheory.provenance import write_atomic

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
COLOURS = {"dirichlet-0.3": "#1b6ca8", "dirichlet-0.6": "#d1782a", "iid": "#4c8c4a"}
SETS = ("mnist", "emnist-l")
MARKED = [*papers.FEDELASTICNET_METHODS, "updates"]  # what the picture has a line of
PICTURE, PICTURE_4, DOCUMENT = DOCS / "networks_rows.png", DOCS / "networks_table4.png", DOCS / "networks_tables.md"
PICTURE_GRID = DOCS / "networks_grid.png"
EFL = {"fedavg": "FedAvg", "fedgate": "FedGATE", "vrl-sgd": "VRL-SGD", "apfl": "APFL", "fedamp": "FedAMP", "efl": "EFL"}

app = typer.Typer(add_completion=False, help=__doc__, rich_markup_mode=None)


@dataclass
class Row:
    """One cell of the papers' tables over the seeds that were run, as lists in the seeds' order."""

    dataset: str
    split: str
    method: str
    seeds: list[int]
    accuracy: list[float]  # mean of the last ten rounds
    entropy: list[float]
    update: list[float]  # FedDyn's second figure, of the updates
    nonzeros: list[float]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.split, self.dataset, self.method


def _file(table: str) -> dict[str, Any]:
    path = HERE / f"seeds_of_{table}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _how(name: str) -> tuple[str, ...]:
    """Return what a run's name says beyond the paper's, but no seed: ('clip=10', 'lr=0.06')."""
    return tuple(sorted(part for part in name.split("@")[1:] if not part.startswith("seed=")))


def _by_row(
    found: dict[str, Any], how: tuple[str, ...] = (), failed: bool = False
) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The runs of each (split, dataset, method), by seed: those that were finished, or those that
    diverged."""
    out: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for name, run in found.items():
        _, dataset, split, _, method = name.partition("@")[0].split("/")
        if bool(run["error"]) == failed and _how(name) == how:
            out.setdefault((split, dataset, method), []).append(run)
    return {key: sorted(runs, key=lambda run: run["seed"]) for key, runs in out.items()}


def _row(key: tuple[str, str, str], runs: Sequence[dict[str, Any]]) -> Row:
    split, dataset, method = key
    return Row(
        dataset, split, method, [r["seed"] for r in runs], [r["accuracy_last_ten"] for r in runs],
        [r["entropies"]["entropy"] for r in runs], [r["entropies"]["update_entropy"] for r in runs],
        [r.get("nonzeros", math.nan) for r in runs],
    )  # fmt: skip


def rows_of_tables_2_and_3() -> list[Row]:
    """10 % participation, the 36 rows on MNIST and EMNIST-L."""
    first = json.loads((HERE / "bench_fedelasticnet.json").read_text())
    runs = {run["preset"]: run["metrics"] for run in first["runs"]}
    more, out = _by_row(_file("fedelasticnet_table2")), []
    entropies = {(r["split"], r["dataset"], r["method"]): r["entropies"] for r in first["table3"]}
    for cell in first["table2"]:
        key = (cell["split"], cell["dataset"], cell["method"])
        accuracy = runs[f"fedelasticnet/{key[1]}/{key[0]}/10%/{key[2]}"]["test_accuracy"]
        zero = {
            "seed": 0, "accuracy_last_ten": float(np.mean(accuracy[-10:])), "entropies": entropies[key], "nonzeros": cell["measured"],
        }  # fmt: skip
        out.append(_row(key, [zero, *more.get(key, [])]))
    return _in_order(out)


def rows_of_table_4(how: tuple[str, ...] = ()) -> list[Row]:
    """100 % participation: the rows that were run to their end, as assumed, or with gradients
    clipped or at another step."""
    return _in_order([_row(key, runs) for key, runs in _by_row(_file("fedelasticnet_table4"), how).items()])


def _place(key: tuple[str, str, str]) -> list[int]:
    """Return where a (split, dataset, method) stands in a table."""
    split, dataset, method = key
    return [ORDER.index(part) for part in (dataset, split, method)]


def _in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: _place(row.key))


def over(values: Sequence[float], digits: str) -> str:
    """Mean and, of several, [least, most]."""
    mean = format(float(np.mean(values)), digits)
    return mean if len(values) == 1 else f"{mean} [{min(values):{digits}}, {max(values):{digits}}]"


def printed(row: Row, table: str) -> tuple[float, ...]:
    found = papers.table(table).value(row.split, row.dataset, row.method)
    return found if isinstance(found, tuple) else (float(found),)  # type: ignore[arg-type]  # every row of ours has one


def ratios(row: Row, table: str) -> list[list[float]]:
    """Ours over the paper's by seed: of the entropy (of FedDyn, of the models and of the updates),
    or of the nonzeros."""
    ours = [row.nonzeros] if table == "fedelasticnet-table2" else [row.entropy, row.update]
    return [[value / theirs for value in mine] for mine, theirs in zip(ours, printed(row, table), strict=False)]


def lines_of_tables_2_and_3() -> list[str]:
    """A line of Markdown a row."""
    rows = rows_of_tables_2_and_3()
    dense = {row.key: row for row in rows}
    unit, out = papers.table("fedelasticnet-table2").unit, []
    for row in rows:
        whole = dense[row.split, row.dataset, DENSE.get(row.method, row.method)]
        share = np.array(row.nonzeros) / np.array(whole.nonzeros[: len(row.nonzeros)])
        theirs = printed(row, "fedelasticnet-table2")[0] / printed(whole, "fedelasticnet-table2")[0]
        (counts,), entropies = ratios(row, "fedelasticnet-table2"), ratios(row, "fedelasticnet-table3")
        cells = [
            f"{DATA[row.dataset]}, {SPLITS[row.split]}", NAMES[row.method], over([n / unit for n in row.nonzeros], ".4g"),
            format(printed(row, "fedelasticnet-table2")[0] / unit, "g"), format(np.mean(counts), ".2f"),
            *(["1", "1"] if row is whole else [over(list(share), ".3f"), format(theirs, ".3f")]),
            *_entropy(row, "fedelasticnet-table3", entropies),
            over([100 * a for a in row.accuracy], ".2f"), str(len(row.seeds)),
        ]  # fmt: skip
        out.append("| " + " | ".join(cells) + " |")
    return out


def _entropy(row: Row, table: str, found: list[list[float]]) -> list[str]:
    ours = [over(values, ".4g") for values in (row.entropy, row.update)[: len(found)]]
    theirs, ratio = [f"{v:g}" for v in printed(row, table)], [f"{np.mean(r):.2f}" for r in found]
    return [f"{a[0]} (updates {a[1]})" if len(a) > 1 else a[0] for a in (ours, theirs, ratio)]


def lines_of_table_4() -> list[str]:
    """A line a row and way of running it; of runs that diverged, in which rounds."""
    lines: dict[tuple[Any, ...], str] = {}
    found = _file("fedelasticnet_table4")
    for how in sorted({_how(name) for name in found}):
        words = "".join({"clip": ", clipped", "lr": f", step {v}"}[k] for k, _, v in (part.partition("=") for part in how))
        for row in rows_of_table_4(how):
            cells = [f"{DATA[row.dataset]}, {SPLITS[row.split]}", NAMES[row.method] + words]
            cells += _entropy(row, "fedelasticnet-table4", ratios(row, "fedelasticnet-table4"))
            cells += [over([100 * a for a in row.accuracy], ".2f"), str(len(row.seeds))]
            lines[*_place(row.key), how, 0] = "| " + " | ".join(cells) + " |"
        for key, runs in _by_row(found, how, failed=True).items():
            row = _row(key, runs)
            rounds = ", ".join(str(run["rounds"] + 1) for run in runs)
            theirs = _entropy(row, "fedelasticnet-table4", ratios(row, "fedelasticnet-table4"))[1]
            told = f"diverged in round{'s' if len(runs) > 1 else ''} {rounds}"
            cells = [f"{DATA[row.dataset]}, {SPLITS[row.split]}", NAMES[row.method] + words, told, theirs, "", "", str(len(runs))]
            lines[*_place(key), how, 1] = "| " + " | ".join(cells) + " |"
    return [line for _, line in sorted(lines.items())]


def lines_of_efl() -> list[str]:
    """EFL's Table 2, MNIST: the share that each method's table counts, in percent; other steps than
    the assumed one are named."""
    table, found = papers.table("efl-table2"), _file("efl_table2")
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name, run in found.items():
        path, *said = name.split("@")
        words = {"lr": ", step {}", "scheme": ", scheme {} as printed"}
        step = "".join(words[key].format(value) for key, _, value in (part.partition("=") for part in said) if key in words)
        runs.setdefault((path.rpartition("/")[2], step), []).append(run)
    out = []
    for (method, step), of in sorted(runs.items(), key=lambda item: ([*EFL].index(item[0][0]), item[0][1])):
        theirs = f"{100 * float(table.value('non-iid', 'mnist', method)):.2f}"  # type: ignore[arg-type]
        done = [100 * r["measured"] for r in of if not r["error"]]
        stopped = [str(r["rounds"] + 1) for r in of if r["error"]]
        cells = [over(done, ".2f")] if done else []
        cells += [f"diverged in round{'s' if len(stopped) > 1 else ''} {', '.join(stopped)}"] if stopped else []
        out.append(f"| {EFL[method]}{step} | {'; '.join(cells)} | {theirs} | {len(of)} |")
    return out


@dataclass
class Cell:
    """One setting of the grid: means over the seeds that ended, as ratios of ours to the paper's."""

    entropy: float  # of FedDyn that of its updates
    nonzeros: float
    accuracy: float  # percent, mean of the last ten rounds
    seeds: int
    diverged: int


Setting = tuple[str, str, int, float, float]  # data set, method, batch size, step, clip or 0


def grid() -> dict[Setting, Cell]:
    """The settings of grid.json that were run, by seed 0 at least."""
    found: dict[Setting, list[dict[str, Any]]] = {}
    for run in json.loads((HERE / "grid.json").read_text()).values():
        clip = run["clip"] or 0.0
        key = (run["dataset"], run["method"], run["batch_size"], run["lr"], clip)
        found.setdefault(key, []).append(run)
    return {key: _cell(runs) for key, runs in found.items()}


def _cell(runs: list[dict[str, Any]]) -> Cell:
    ended = [run for run in runs if not run["error"]]

    def mean(values: list[float]) -> float:
        return float(np.mean(values)) if values else math.nan

    def last(value: Any) -> float:
        return float(value[-1] if isinstance(value, list) else value)

    return Cell(
        mean([last(r["entropy"]) / last(r["entropy_of_paper"]) for r in ended]),
        mean([r["nonzeros"] / r["nonzeros_of_paper"] for r in ended]),
        mean([100 * r["accuracy_last_ten"] for r in ended]), len(ended), len(runs) - len(ended),
    )  # fmt: skip


def lines_of_grid() -> list[str]:
    """A line a data set, method, batch size and way of clipping, a column a step."""
    cells = grid()
    out = []
    rows = {key[:3] + key[4:] for key in cells}
    for row in sorted(rows, key=lambda r: (ORDER.index(r[0]), ORDER.index(r[1]), r[2], -r[3])):
        dataset, method, batch, clip = row
        told = [_told(cells.get((dataset, method, batch, lr, clip))) for lr in sorted(RATES)]
        named = [DATA[dataset], NAMES[method], str(batch), f"{clip:g}" if clip else "no"]
        out.append("| " + " | ".join([*named, *told]) + " |")
    return out


def _told(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if not cell.seeds:
        return "diverged"
    count = f", {cell.seeds} seeds" if cell.seeds > 1 else ""
    lost = f", {cell.diverged} diverged" if cell.diverged else ""
    return f"{cell.entropy:.2f} / {cell.nonzeros:.2f} ({cell.accuracy:.2f}{count}{lost})"


def tables() -> dict[str, list[str]]:
    """The rows of each table of docs/networks_tables.md, by the heading above it."""
    return {
        "Tables 2 and 3": lines_of_tables_2_and_3(),
        "Table 4": lines_of_table_4(),
        "EFL's Table 2, MNIST": lines_of_efl(),
        "Batch size, step and clipping": lines_of_grid(),
    }


def filled(text: str) -> str:
    """The document with these rows in place of what stands below the line of dashes of each first
    table under its heading."""
    for heading, rows in tables().items():
        before, found, after = text.partition(f"## {heading}\n")
        if not found:
            raise typer.BadParameter(f"{DOCUMENT.name} has no heading {heading!r}")
        head, dashes, rest = after.partition("| --- |")
        ruler, _, below = rest.partition("\n")
        kept = below.split("\n")
        while kept and kept[0].startswith("|"):
            del kept[0]
        text = before + found + head + dashes + ruler + "\n" + "\n".join([*rows, *kept])
    return text


@app.command()
def show() -> None:
    """Print the rows."""
    for heading, rows in tables().items():
        print("\n".join([heading, *rows, ""]))


@app.command()
def write() -> None:
    """Write the rows into docs/networks_tables.md."""
    write_atomic(DOCUMENT, filled(DOCUMENT.read_text()))


@app.command()
def draw() -> None:
    """Draw ours over the paper's, every split a mark, its bar the range over seeds: the 36 rows of
    Tables 2 and 3, and Table 4."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    few, many = rows_of_tables_2_and_3(), rows_of_table_4()
    sparse, wide = ([2 / 3, 1, 1.5], ["2/3", "1", "3/2"]), ([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
    columns = (("fedelasticnet-table2", "nonzeros sent", sparse), ("fedelasticnet-table3", "entropy of what is sent", wide))
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.2), sharex="col", sharey=True, layout="constrained")
    for i, dataset in enumerate(SETS):
        for ax, (table, what, ticks) in zip(axes[i], columns, strict=True):
            _panel(ax, [r for r in few if r.dataset == dataset], table, f"{DATA[dataset]}: {what}", ticks)
    _finish(figure, axes, headline(few), PICTURE)
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), sharex=True, sharey=True, layout="constrained")
    for ax, dataset in zip(axes, SETS, strict=True):
        _panel(ax, [r for r in many if r.dataset == dataset], "fedelasticnet-table4", DATA[dataset], wide)
        for row in (r for r in _clipped_in_their_place() if r.dataset == dataset):
            _marks(ax, row, "fedelasticnet-table4", markerfacecolor="white")
    axes[1].plot([], [], "o", color="0.3", markerfacecolor="white", label="clipped: diverged as it is")
    axes[1].legend(loc="lower right", fontsize=8)
    _finish(figure, axes[None], headline(many, "fedelasticnet-table4"), PICTURE_4)
    _draw_grid()


SPARSE = ("algorithm-1", "algorithm-2", "feddyn", "algorithm-3")  # FedDyn's updates


def _draw_grid() -> None:
    """Entropy over the paper's against step / batch size: a colour a batch size."""
    import matplotlib.pyplot as plt

    cells, tones = grid(), dict(zip(sorted(BATCHES), ("#d1782a", "#1b6ca8", "#4c8c4a"), strict=True))
    figure, axes = plt.subplots(
        2, 4, figsize=(11, 5.6), sharex=True, sharey=True, layout="constrained"
    )
    for line, dataset in zip(axes, SETS, strict=True):
        for ax, method in zip(line, SPARSE, strict=True):
            ax.axhspan(1 / 1.25, 1.25, color="0.92", zorder=0)
            ax.axhline(1.0, color="0.3", linewidth=1)
            if (fits := agreeing(cells, dataset, method)) is not None:
                ax.axvline(fits, color="0.3", linewidth=1, linestyle=":")
            for key, cell in cells.items():
                if key[:2] == (dataset, method):
                    *_, batch, lr, clip = key
                    ax.plot(lr / batch, cell.entropy, "o" if clip else "x", color=tones[batch])
            name = "FedDyn's updates" if method == "feddyn" else NAMES[method]
            ax.set_title(f"{DATA[dataset]}: {name}" + (f" ({fits:.4f})" if fits else ""), fontsize=10)
            ax.set(xscale="log", yscale="log")
            ax.set_xticks([0.001, 0.003, 0.01], ["0.001", "0.003", "0.01"])
            ax.set_yticks([0.125, 0.25, 0.5, 1, 2, 4], ["1/8", "1/4", "1/2", "1", "2", "4"])
            ax.minorticks_off()
            ax.grid(color="0.9")
        line[0].set_ylabel("entropy, ours / paper")
    for ax in axes[1]:
        ax.set_xlabel("step / batch size")
    for batch, tone in tones.items():
        axes[0][0].plot([], [], "o", color=tone, label=f"batch {batch}")
    axes[0][0].plot([], [], "x", color="0.3", label="not clipped")
    handles = axes[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(
        "Entropy follows the step over the batch size, whichever of the two is changed;\n"
        "the printed figures (line at 1) ask for another ratio from each method (dotted)",
        fontsize=11, fontweight="bold",
    )  # fmt: skip
    figure.savefig(PICTURE_GRID, dpi=110)


def agreeing(cells: dict[Setting, Cell], dataset: str, method: str) -> float | None:
    """The step over the batch size at which the entropy, clipped, crosses the printed one: linear
    in logarithms between the two settings next to it. None where none is above, or none below."""
    points = sorted(
        (lr / batch, cell.entropy)
        for (name, of, batch, lr, clip), cell in cells.items()
        if (name, of) == (dataset, method) and clip and cell.seeds
    )
    for (x, low), (right, high) in pairwise(points):
        if low <= 1 <= high:
            share = math.log(1 / low) / math.log(high / low) if high > low else 0.0
            return float(x * (right / x) ** share)
    return None


def _panel(ax: Any, rows: list[Row], table: str, title: str, ticks: tuple[list[float], list[str]]) -> None:
    ax.axvspan(1 / 1.25, 1.25, color="0.93", zorder=0)
    ax.axvline(1.0, color="0.3", linewidth=1)
    for row in rows:
        _marks(ax, row, table)
    ax.set_xscale("log")
    ax.set_xticks(*ticks)
    ax.minorticks_off()
    ax.set_yticks(range(len(MARKED)), [NAMES.get(m, "FedDyn's updates") for m in MARKED])
    ax.set_title(f"{title}, ours / paper", fontsize=10)
    ax.grid(axis="x", color="0.9")


def _finish(figure: Any, axes: Any, title: str, path: Path) -> None:
    axes[0][0].invert_yaxis()
    for split, colour in COLOURS.items():
        axes[0][0].plot([], [], "o", color=colour, label=f"Dirichlet ({SPLITS[split]})" if split != "iid" else "iid")
    axes[0][0].legend(loc="lower right" if len(axes) > 1 else "lower left", fontsize=8)
    figure.suptitle(title, fontsize=11, fontweight="bold")
    figure.savefig(path, dpi=110)


def _clipped_in_their_place() -> list[Row]:
    """The clipped rows of Table 4 none of whose runs without clipping came to its end."""
    finished = {row.key for row in rows_of_table_4()}
    return [row for row in rows_of_table_4(("clip=10",)) if row.key not in finished]


def _marks(ax: Any, row: Row, table: str, **style: Any) -> None:
    """A mark of the mean over seeds, on a bar from the least to the most; of FedDyn's entropy one
    more of its updates."""
    for n, values in enumerate(ratios(row, table)):
        place = MARKED.index("updates" if n else row.method) + 0.2 * ([*COLOURS].index(row.split) - 1)
        ax.plot([min(values), max(values)], [place, place], color=COLOURS[row.split], linewidth=3, alpha=0.5)
        ax.plot(float(np.mean(values)), place, "o", color=COLOURS[row.split], markersize=5, **style)


def headline(rows: list[Row], table: str = "fedelasticnet-table3") -> str:
    """Say how many entropies lie within a quarter of the printed ones.

    They are of messages that are whole models, and of the elastic nets'.
    """
    counts = {False: [0, 0], True: [0, 0]}
    for row in rows:
        for n, values in enumerate(ratios(row, table)):
            elastic = row.method.startswith("algorithm") or n == 1
            counts[elastic][0] += 1 / 1.25 <= float(np.mean(values)) <= 1.25
            counts[elastic][1] += 1
    plain, sparse = counts[False], counts[True]
    return (
        f"Entropies within a quarter of the printed ones (grey): {plain[0]} of {plain[1]} of what the baselines send,\n"
        f"{sparse[0]} of {sparse[1]} of the elastic nets' updates and of FedDyn's"
    )


if __name__ == "__main__":
    app()
