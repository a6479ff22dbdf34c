"""Accuracies of three models: the server's, and means of all clients' last ones, or the round's.

    python validation/published/feddyn_three_models.py DATA FOLDER   # MNIST, Dirichlet (.3), 10 %: FedDyn and Algorithm 3, three seeds

FedDyn's public code (github.com/alpemreacar/FedDyn) tests two models each round, 'sel', the mean of
the round's participants, and 'all', the mean of all clients' last models, and its example plots
'all'. The server's model, which the next round begins with, it does not test. All three are
measured here, in one run each. Runs are kept in FOLDER, so that an interrupted one goes on; the
figures are written into feddyn_three_models.json beside this file, accuracies in percent, of every
round and as the mean of the last ten.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks.run import load_data, run_preset
from fedtheory.provenance import write_json

HERE = Path(__file__).with_suffix(".json")
MODELS = {
    "test_accuracy": "the server's",
    "test_accuracy_all": "mean of all clients' last",
    "test_accuracy_cohort": "mean of the round's participants'",
}
SEEDS = (0, 1, 2)
LAST = 10


def percent(metrics: dict[str, list[float | None]], name: str) -> list[float]:
    """A metric of every round but the start, to two digits."""
    return [round(100 * float("nan" if v is None else v), 2) for v in metrics[name][1:]]


def main(
    data: Annotated[Path, typer.Argument(exists=True, file_okay=False)],
    folder: Annotated[Path, typer.Argument(file_okay=False)],
    method: Annotated[str, typer.Option(help="Methods, with commas.")] = "feddyn,algorithm-3",
    dataset: Annotated[str, typer.Option(help="One data set of FedElasticNet's.")] = "mnist",
) -> None:
    samples, out = load_data(dataset, data), []
    for name in method.split(","):
        base = presets.get(f"fedelasticnet/{dataset}/dirichlet-0.3/10%/{name}")
        for seed in SEEDS:
            found = run_preset(replace(base, seed=seed, clip=10.0, more=tuple(MODELS)[1:]), samples, folder)
            row: dict[str, Any] = {"dataset": dataset, "method": name, "seed": seed, "rounds": found.rounds, "error": found.error}
            row["curves"] = {m: percent(found.metrics, m) for m in MODELS}
            row["end"] = {m: round(float(np.mean(row["curves"][m][-LAST:])), 2) for m in MODELS}
            row["network"], row["clip"], row["commit"] = base.network, 10.0, found.provenance["parts"][-1]["commit"]
            out.append(row)
            print(name, seed, row["end"])
    write_json(HERE, {"models": MODELS, "mean_of_last_rounds": LAST, "runs": out})


if __name__ == "__main__":
    typer.run(main)
