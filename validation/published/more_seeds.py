"""FedElasticNet's Tables 2 and 3 with other seeds: one row after another, what is there already left out.

    python validation/published/more_seeds.py DATA [--dataset mnist] [--seeds 1,2] [--minutes 60]

Every finished run is written at once to more_seeds.json beside this file: our figures in the tables' units, the mean accuracy of the
last ten rounds, and what the run was made with. Seed 0 is in bench_fedelasticnet.json.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks.run import cells, load_data, run_preset
from fedtheory.provenance import to_jsonable, write_atomic

HERE = Path(__file__).parent / "more_seeds.json"


def _row(preset: Any, seed: int, data: Any) -> dict[str, Any]:
    result = run_preset(preset, data, None, seed=seed, progress=False)
    (two,), (three,) = (cells(f"fedelasticnet-table{n}", [result]) for n in (2, 3))
    accuracy = result.series("test_accuracy")
    part = result.provenance["parts"][-1] if result.provenance else {}
    return {
        "seed": seed, "rounds": result.rounds, "error": result.error, "nonzeros": two["measured"], "entropy": three["measured"],
        "entropies": three["entropies"],
        "accuracy_last_ten": float(np.nanmean(accuracy[-10:])) if len(accuracy) else None, "parameters": result.parameters,
        "seconds": round(result.seconds, 1), "commit": part.get("commit"), "engine": part.get("engine"),
    }  # fmt: skip


def main(
    data: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder with the data sets' published files.")],
    dataset: Annotated[str, typer.Option(help="Data sets, with commas.")] = "mnist,emnist-l",
    seeds: Annotated[str, typer.Option(help="Seeds, with commas.")] = "1,2",
    minutes: Annotated[float, typer.Option(help="Begin no run after so many.")] = 600.0,
) -> None:
    """Run what is missing."""
    began = time.monotonic()
    kept: dict[str, Any] = json.loads(HERE.read_text()) if HERE.exists() else {}
    for name in dataset.split(","):
        samples = load_data(name, data, 0, progress=False)
        for seed in map(int, seeds.split(",")):
            for preset in presets.of_table("fedelasticnet-table2", name):
                key = f"{preset.name}@seed={seed}"
                if key in kept or time.monotonic() - began > 60 * minutes:
                    continue
                kept[key] = _row(preset, seed, samples)
                write_atomic(HERE, json.dumps(to_jsonable(dict(sorted(kept.items()))), indent=1) + "\n")
                print(key, f"{kept[key]['seconds']} s", flush=True)


if __name__ == "__main__":
    typer.run(main)
