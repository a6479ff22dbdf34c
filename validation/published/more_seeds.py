"""The rows of a paper's table on MNIST and EMNIST-L with several seeds: one run after another, what
is there already left out.

    python validation/published/more_seeds.py DATA fedelasticnet-table2 --dataset mnist --seeds 1,2
    python validation/published/more_seeds.py DATA fedelasticnet-table4 --dataset emnist-l --split dirichlet-0.3
    python validation/published/more_seeds.py DATA fedelasticnet-table4 --dataset mnist --method scaffold --clip 10
    python validation/published/more_seeds.py DATA efl-table2 --dataset mnist
    python validation/published/more_seeds.py DATA efl-table2 --dataset mnist --method fedgate,vrl-sgd --lr 0.03

Every finished run is written at once to seeds_of_TABLE.json beside this file: what was measured, in
the table's units (Table 2's runs give Table 3's as well), the mean accuracy of the last ten rounds,
and what the run was made with. Seed 0 of Tables 2 and 3 is in bench_fedelasticnet.json.
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
from fedtheory.neural.benchmarks.run import cells, load_data, run_preset
from fedtheory.provenance import to_jsonable, write_atomic

HERE = Path(__file__).parent


def _row(table: str, preset: Any, data: Any) -> dict[str, Any]:
    result = run_preset(preset, data, None, progress=False)
    (cell,) = cells(table, [result])
    tested = [name for name in ("test_accuracy", "client_accuracy") if name in result.metrics]  # the latter of personal models
    accuracy = result.series(tested[0]) if tested else np.zeros(0)
    part = result.provenance["parts"][-1] if result.provenance else {}
    out: dict[str, Any] = {"seed": preset.seed, "rounds": result.rounds, "error": result.error}
    if table == "fedelasticnet-table2":
        (entropy,) = cells("fedelasticnet-table3", [result])
        out |= {"nonzeros": cell["measured"], "entropy": entropy["measured"], "entropies": entropy["entropies"]}
    elif table == "fedelasticnet-table4":
        out |= {"entropy": cell["measured"], "entropies": cell["entropies"]}
    else:
        out |= {"measured": cell["measured"]}
    return out | {
        "accuracy_last_ten": float(np.nanmean(accuracy[-10:])) if len(accuracy) else None,
        "parameters": result.parameters,
        "seconds": round(result.seconds, 1),
        "commit": part.get("commit"),
        "engine": part.get("engine"),
    }


def main(
    data: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="Folder with the data sets' published files.")
    ],
    table: Annotated[str, typer.Argument(help="fedelasticnet-table2 (and 3), fedelasticnet-table4 or efl-table2.")],
    dataset: Annotated[str, typer.Option(help="Data sets, with commas.")] = "mnist,emnist-l",
    split: Annotated[str, typer.Option(help="Splits, with commas; all by default.")] = "",
    method: Annotated[str, typer.Option(help="Methods, with commas; all by default.")] = "",
    lr: Annotated[float | None, typer.Option(help="Another step size than the preset's; it is part of the run's name.")] = None,
    clip: Annotated[float | None, typer.Option(help="Clip gradients at this norm, as FedDyn's public code at 10; so too.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, with commas.")] = "0,1,2",
    minutes: Annotated[float, typer.Option(help="Begin no run after so many.")] = 600.0,
) -> None:
    """Run what is missing."""
    began, path = time.monotonic(), HERE / f"seeds_of_{table.replace('-', '_')}.json"
    for name in dataset.split(","):
        samples = load_data(name, data, 0)
        wanted = [p for p in presets.of_table(table, name) if not split or p.split in split.split(",")]
        wanted = [p for p in wanted if not method or p.method in method.split(",")]
        wanted = wanted if lr is None else [p.changed(lr=lr) for p in wanted]
        wanted = wanted if clip is None else [replace(p, clip=clip) for p in wanted]
        for seed in map(int, seeds.split(",")):
            for preset in (replace(p, seed=seed) for p in wanted):
                key = preset.name + ("" if clip is None else f"@clip={clip:g}")
                kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
                if key in kept or time.monotonic() - began > 60 * minutes:
                    continue
                kept[key] = _row(table, preset, samples)
                write_atomic(path, json.dumps(to_jsonable(dict(sorted(kept.items()))), indent=1) + "\n")
                print(key, f"{kept[key]['seconds']} s", flush=True)


if __name__ == "__main__":
    typer.run(main)
