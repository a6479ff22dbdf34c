"""Runs of FedElasticNet's tables with seed 0, from what `fedtheory bench` wrote; with other seeds:
seeds_table.py.

    python validation/published/bench_table.py collect FOLDER ...   # its tables into bench_fedelasticnet.json
    python validation/published/bench_table.py steps FOLDER ...     # runs of Table 3's settings with other steps
    python validation/published/bench_table.py show                 # the rows with other steps

The rows found are written over those that the file beside this one has; `steps` reads the folders'
runs/. A run that is not finished is left out. What is kept of a run: its settings, what it was made
with, and its metrics to five digits. A row says whether its run is from before the penalty's
correction.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedtheory.neural.benchmarks import printed_tables as papers
from fedtheory.neural.benchmarks.run import ENTROPIES, TWO_MESSAGES, each_message
from fedtheory.provenance import to_jsonable, write_atomic

HERE = Path(__file__).parent / "bench_fedelasticnet.json"
TABLES = ("table2", "table3", "table4")
KEPT = (
    "dataset", "split", "method", "rounds", "rounds_of_paper", "measured", "paper_text", "ratio", "entropies", "test_accuracy",
    "best_accuracy", "parameters", "seconds",
)  # fmt: skip
METRICS = (
    "test_accuracy", "test_loss", "drift", "participants", "nonzeros", "entropy", "entropy_1", "entropy_2", "entropy_pooled",
    "update_entropy",
)  # fmt: skip
BEFORE = ("f7986fa", "7b20bf3", "1a51d0c", "5e33055", "ddf5c0b")  # commits of runs from before the penalty's correction, 80baad7
NAMES = {"fedprox": "FedProx", "scaffold": "SCAFFOLD", "feddyn": "FedDyn", **{f"algorithm-{n}": f"Algorithm {n}" for n in (1, 2, 3)}}
DATA = {"mnist": "MNIST", "emnist-l": "EMNIST-L", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "shakespeare": "Shakespeare"}
SPLITS = {"dirichlet-0.3": ".3", "dirichlet-0.6": ".6", "iid": "iid", "non-iid": "non-iid"}
ORDER = [*SPLITS, *DATA, *papers.FEDELASTICNET_METHODS]
DENSE = {"algorithm-1": "fedprox", "algorithm-2": "scaffold", "algorithm-3": "feddyn"}  # what sends all of it

app = typer.Typer(add_completion=False, help=__doc__, rich_markup_mode=None)


def _rounded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    if isinstance(value, dict):
        return {name: _rounded(v) for name, v in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def before_correction(run: dict[str, Any]) -> bool:
    """Return whether part of a run is older than a correction.

    Since then a coordinate on its centre is pulled by exactly 0.
    """
    return any((part["commit"] or "").startswith(BEFORE) for part in run["parts"])


@app.command()
def collect(folders: Annotated[list[Path], typer.Argument(exists=True, file_okay=False, help="What --out named.")]) -> None:
    """Take the finished runs of these folders' tables over."""
    kept: dict[str, Any] = json.loads(HERE.read_text())
    for folder in folders:
        for path in sorted(folder.glob("fedelasticnet-table*.json")):
            name, content = path.stem.removeprefix("fedelasticnet-"), json.loads(path.read_text())
            done = [row for row in content["rows"] if row["rounds"] == row["rounds_of_paper"] and not row["error"]]
            if old := [row for row in done if "entropies" not in row]:
                raise typer.BadParameter(
                    f"{path} does not have each message's entropy ({len(old)} rows): write it again, fedtheory bench {path.stem} "
                    f"--report --out {folder}"
                )
            made = {tuple(run["preset"][k] for k in ("split", "dataset", "method")): run["provenance"] for run in content["runs"]}
            rows = {_key(row): row for row in kept.get(name, [])}
            for row in done:
                values = {k: row[k] if k == "measured" else _rounded(row[k]) for k in KEPT}
                rows[_key(row)] = values | {"before_penalty_correction": before_correction(made[_key(row)])}
            kept[name] = [rows[key] for key in sorted(rows, key=lambda key: [ORDER.index(part) for part in key])]
            runs = {run["preset"]: run for run in kept["runs"]}
            for run in content["runs"]:
                if run["rounds"] == run["preset"]["rounds"] and not run["error"]:
                    metrics = {m: _rounded(run["metrics"][m]) for m in METRICS if m in run["metrics"]}
                    runs[run["preset"]["name"]] = {"preset": run["preset"]["name"], **run["provenance"], "metrics": metrics}
            kept["runs"] = list(runs.values())
    write_atomic(HERE, json.dumps(to_jsonable(kept), separators=(",", ":"), allow_nan=False))  # in lines it would be 28,000


@app.command()
def steps(folders: Annotated[list[Path], typer.Argument(exists=True, file_okay=False, help="Above runs/.")]) -> None:
    """Take the finished runs with other steps over: what `bench.run_preset(replace(preset, lr=...),
    ...)` wrote."""
    kept: dict[str, Any] = json.loads(HERE.read_text())
    rows = {(*_key(row), row["lr"]): row for row in kept.get("other_steps", [])}
    for path in (p for folder in folders for p in sorted((folder / "runs").rglob("*.json"))):
        run = json.loads(path.read_text())
        preset, m = run["preset"], run["metrics"]
        if run["rounds"] != preset["rounds"] or run["error"]:
            continue
        sums = {name: float(sum(m[name][1:])) for name in ENTROPIES}
        uploads = sum(m["participants"][1:])
        sent = sum(a * b for a, b in zip(m["nonzeros"][1:], m["participants"][1:], strict=True))
        row = {k: preset[k] for k in ("dataset", "split", "method", "rounds", "lr", "clip")}
        row |= {"share": sent / (uploads * run["parameters"] * (2 if preset["method"] in TWO_MESSAGES else 1)), "entropies": sums}
        row |= {"test_accuracy": m["test_accuracy"][-1], "commit": run["provenance"]["parts"][-1]["commit"]}
        rows[(*_key(row), row["lr"])] = _rounded(row)
    kept["other_steps"] = [rows[key] for key in sorted(rows, key=lambda key: ([ORDER.index(part) for part in key[:3]], key[3]))]
    write_atomic(HERE, json.dumps(to_jsonable(kept), separators=(",", ":"), allow_nan=False))


def _key(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["split"], row["dataset"], row["method"]


def _cell(value: Any) -> str:
    return f"{value[0]:.4g} ({value[1]:.4g})" if isinstance(value, list) else f"{value:.4g}"


def _entropy(row: dict[str, Any]) -> list[str]:
    """Ours, the paper's and the ratio; of two messages their sum's, and at least the first's where
    only that was kept."""
    text, ratio = row["paper_text"], row["ratio"]
    printed = f"{text[0]} ({text[1]})" if isinstance(text, list) else text
    if row["method"] not in TWO_MESSAGES:
        return [_cell(row["measured"]), printed, f"{ratio[0]:.2f}" + (f" ({ratio[1]:.2f})" if len(ratio) > 1 else "")]
    first = row["entropies"]["entropy_1"]
    known = "?" if first is None else f"≥ {first / float(text):.2f}"
    return [each_message(row["entropies"]), printed, known if ratio is None else f"{ratio[0]:.2f}"]


def rows_of_other_steps(kept: dict[str, Any]) -> list[str]:
    """A line of Markdown a run with another step: share of the dense nonzeros and entropy, beside
    the printed ones."""
    counts, paper, out = papers.table("fedelasticnet-table2"), papers.table("fedelasticnet-table3"), []
    for row in kept["other_steps"]:
        split, dataset, method = _key(row)
        share = counts.value(split, dataset, method) / counts.value(split, dataset, DENSE.get(method, method))
        sums, text = row["entropies"], paper.printed(split, dataset, method)
        two = method == "feddyn"
        value = [sums["entropy"], sums["update_entropy"]] if two else sums["entropy"]
        ratio = [a / float(b) for a, b in zip(value, text, strict=True)] if two else [value / float(text)]
        entropy = _entropy({"method": method, "measured": value, "paper_text": list(text) if two else text, "ratio": ratio, **row})
        how = f"step {row['lr']:g}" + (", clipped" if row["clip"] else "")
        cells = [f"{DATA[dataset]}, {SPLITS[split]}, {how}", NAMES[method], f"{row['share']:.2f}", f"{share:.2f}"]
        out.append("| " + " | ".join([*cells, *entropy, f"{100 * row['test_accuracy']:.2f}"]) + " |")
    return out


@app.command()
def show() -> None:
    """Print the rows with other steps of docs/networks_tables.md."""
    print("\n".join(rows_of_other_steps(json.loads(HERE.read_text()))))


if __name__ == "__main__":
    app()
