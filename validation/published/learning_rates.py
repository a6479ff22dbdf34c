"""A search over the learning rate, which FedElasticNet tuned and did not print: a grid fixed
beforehand, chosen by accuracy.

    python validation/published/learning_rates.py DATA [--dataset mnist] [--minutes 60]

MNIST and EMNIST-L, Dirichlet (.3), 10 %, all methods of Tables 2 and 3, gradients clipped at norm
10 as in FedDyn's public code, seed
0. The rate to compare with the paper is the one with the highest mean accuracy of the last ten
   rounds; the entropies have no part in
the choice. Every finished run is written at once to learning_rates.json beside this file.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks import printed_tables as papers
from fedtheory.neural.benchmarks.run import cells, load_data, run_preset
from fedtheory.provenance import to_jsonable, write_atomic

HERE = Path(__file__).with_suffix(".json")
GRID = (0.03, 0.06, 0.1, 0.2)
METHODS = papers.FEDELASTICNET_METHODS


def _row(preset: Any, data: Any) -> dict[str, Any]:
    result = run_preset(preset, data, None, progress=False)
    (two,), (three,) = (cells(f"fedelasticnet-table{n}", [result]) for n in (2, 3))
    accuracy = result.series("test_accuracy")
    part = result.provenance["parts"][-1] if result.provenance else {}
    return {
        "dataset": preset.dataset, "method": preset.method, "lr": preset.lr, "clip": preset.clip, "seed": preset.seed,
        "rounds": result.rounds, "error": result.error,
        "nonzeros": two["measured"], "nonzeros_of_paper": two["paper"],
        "entropy": three["measured"], "entropy_of_paper": three["paper"],
        "accuracy_last_ten": float(np.nanmean(accuracy[-10:])) if len(accuracy) and not result.error else None,
        "seconds": round(result.seconds, 1), "commit": part.get("commit"),
    }  # fmt: skip


def main(
    data: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder with the data sets' published files.")],
    dataset: Annotated[str, typer.Option(help="Data sets, with commas.")] = "mnist,emnist-l",
    minutes: Annotated[float, typer.Option(help="Begin no run after so many.")] = 600.0,
) -> None:
    """Run what is missing, and print the rate that each method's accuracy chooses."""
    began = time.monotonic()
    kept: dict[str, Any] = json.loads(HERE.read_text()) if HERE.exists() else {}
    for name in dataset.split(","):
        samples = load_data(name, data, 0)
        for method in METHODS:
            preset = presets.get(f"fedelasticnet/{name}/dirichlet-0.3/10%/{method}")
            for lr in GRID:
                key = f"{preset.name}@clip=10@lr={lr}"
                if key in kept or time.monotonic() - began > 60 * minutes:
                    continue
                kept[key] = _row(replace(preset, lr=lr, clip=10.0), samples)
                write_atomic(HERE, json.dumps(to_jsonable(dict(sorted(kept.items()))), indent=1) + "\n")
                print(key, f"{kept[key]['seconds']} s", flush=True)
    for name in dataset.split(","):
        for method in METHODS:
            rows = [r for r in kept.values() if (r["dataset"], r["method"]) == (name, method) and r["accuracy_last_ten"] is not None]
            if rows:
                best = max(rows, key=lambda r: r["accuracy_last_ten"])
                print(f"{name} {method}: {best['lr']} ({100 * best['accuracy_last_ten']:.2f} %)")


if __name__ == "__main__":
    typer.run(main)
