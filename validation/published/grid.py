"""FedElasticNet's Tables 2 and 3 over what the paper does not print: steps a round, learning rate,
clipping.

    python validation/published/grid.py DATA [--dataset mnist] [--seeds 0,1,2] [--minutes 60]

MNIST and EMNIST-L, Dirichlet (.3), 10 %, 5 epochs. The batch size sets the steps a round: the
paper prints 10 for MNIST and 50 for EMNIST-L. FedDyn's public code clips gradients at norm 10.
Every finished run is written at once to grid.json beside this file, and is not run again. The runs
that say most come first: seed 0 of every setting, then the other seeds.
"""

from __future__ import annotations

import json
import time
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks.run import cells, load_data, run_preset
from fedtheory.provenance import to_jsonable, write_atomic

HERE = Path(__file__).with_suffix(".json")
METHODS = ("feddyn", "algorithm-1", "algorithm-3", "algorithm-2", "fedprox", "scaffold")
BATCHES, RATES, CLIPS = (20, 10, 50), (0.1, 0.06, 0.2, 0.03), (10.0, None)


def _row(preset: Any, data: Any) -> dict[str, Any]:
    result = run_preset(preset, data, None, progress=False)
    (two,), (three,) = (cells(f"fedelasticnet-table{n}", [result]) for n in (2, 3))
    accuracy = result.series("test_accuracy")
    part = result.provenance["parts"][-1] if result.provenance else {}
    return {
        "dataset": preset.dataset, "method": preset.method, "batch_size": preset.batch_size,
        "lr": preset.lr, "clip": preset.clip, "seed": preset.seed, "rounds": result.rounds,
        "error": result.error, "nonzeros": two["measured"], "nonzeros_of_paper": two["paper"],
        "entropy": three["measured"], "entropy_of_paper": three["paper"],
        "accuracy_last_ten": None if result.error or not len(accuracy)
        else float(np.nanmean(accuracy[-10:])),
        "seconds": round(result.seconds, 1), "commit": part.get("commit"),
    }  # fmt: skip


def main(
    data: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Data sets' folder.")],
    dataset: Annotated[str, typer.Option(help="Data sets, with commas.")] = "mnist,emnist-l",
    seeds: Annotated[str, typer.Option(help="Seeds, with commas.")] = "0,1,2",
    minutes: Annotated[float, typer.Option(help="Begin no run after so many.")] = 600.0,
) -> None:
    """Run what is missing."""
    began = time.monotonic()
    names = dataset.split(",")
    samples = {name: load_data(name, data, 0) for name in names}
    settings = product(map(int, seeds.split(",")), CLIPS, RATES, BATCHES, names, METHODS)
    for seed, clip, lr, batch, name, method in settings:
        kept: dict[str, Any] = json.loads(HERE.read_text()) if HERE.exists() else {}
        key = f"{name}/{method}/batch={batch}/lr={lr}/clip={clip or 0:g}/seed={seed}"
        if key in kept or time.monotonic() - began > 60 * minutes:
            continue
        preset = presets.get(f"fedelasticnet/{name}/dirichlet-0.3/10%/{method}")
        run = preset.changed(batch_size=batch, lr=lr, clip=clip, seed=seed or None)
        kept[key] = _row(run, samples[name])
        text = json.dumps(to_jsonable(dict(sorted(kept.items()))), indent=1)
        write_atomic(HERE, text + "\n")
        print(key, f"{kept[key]['seconds']} s", flush=True)


if __name__ == "__main__":
    typer.run(main)
