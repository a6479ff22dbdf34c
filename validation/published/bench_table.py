"""Runs of FedElasticNet's tables with seed 0, from what `fedtheory bench` wrote; with other seeds:
seeds_table.py.

    python validation/published/bench_table.py FOLDER ...   # its tables into bench_fedelasticnet.json

The rows found are written over those that the file beside this one has. A run that is not finished
is left out. Kept of a run are its settings, the versions that made it, and its metrics to five
digits. A row says whether its run is from before the penalty's correction.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedtheory.neural.benchmarks import printed_tables as papers
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


def _key(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["split"], row["dataset"], row["method"]


if __name__ == "__main__":
    app()
