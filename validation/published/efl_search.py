"""EFL's lambda and sparsity on MNIST, which the paper's text does not say: a search, and FedAvg
beside it.

    python validation/published/efl_search.py DATA         # run what is missing
    python validation/published/efl_search.py DATA --rows  # the rows of docs/networks_tables.md

The setting is the preset's (classes dealt two a client, 10 of 100 clients, step 0.1, 100 rounds).
Seed 0 of all twenty combinations is run; the two with the highest accuracy over the last ten
rounds are then run with seeds 1 and 2, and FedAvg with all three. Every finished run is written at
once to efl_search.json beside this file, and is not run again.

Those that are kept were made with the Fisher diagonals of the network's linear layers in closed
form, squared errors times squared inputs, which differ from the package's by rounding (4e-7 of the
largest entry); a run takes a fifteenth of the time so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from seeds_table import over

from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks.run import cells, load_data, run_preset
from fedtheory.provenance import to_jsonable, write_atomic

HERE = Path(__file__).with_suffix(".json")
LAMBDAS, SPARSITIES, SEEDS = (0.01, 0.1, 1.0, 0.03, 0.3), (0.3, 0.1, 1.0, 0.03), (0, 1, 2)
SETTINGS = [(lam, sparsity) for sparsity, lam in product(SPARSITIES, LAMBDAS)]  # those that say most first
EFL, FEDAVG = "efl/mnist/non-iid/10-of-100/efl", "efl/mnist/non-iid/10-of-100/fedavg"
Setting = tuple[float, float] | None  # lambda and sparsity; None: FedAvg


def kept() -> dict[str, Any]:
    """The finished runs by key."""
    return json.loads(HERE.read_text()) if HERE.exists() else {}


def key(setting: Setting, seed: int) -> str:
    """The name of a run in the file."""
    said = "fedavg" if setting is None else "efl/lambda={}/sparsity={}".format(*setting)
    return f"{said}/seed={seed}"


def best(found: dict[str, Any], many: int = 2) -> list[Setting]:
    """The combinations with the highest accuracy of seed 0 over the last ten rounds."""

    def accuracy(setting: Setting) -> float:
        return found[key(setting, 0)]["accuracy_last_ten"] or -1.0

    return sorted(SETTINGS, key=accuracy, reverse=True)[:many]


def settings() -> Iterator[tuple[Setting, int]]:
    """What is to be run, in order; the best two are known once seed 0 of all is finished."""
    yield None, 0
    yield from ((setting, 0) for setting in SETTINGS)
    yield from product((None, *best(kept())), SEEDS[1:])


def rows() -> list[str]:
    """A line a setting that did not diverge, the highest accuracy first: the mean of the last ten rounds, and the table's
    figure, the best over the rounds of the clients' mean accuracy; in percent, means over seeds."""
    settings: dict[Setting, list[dict[str, Any]]] = {}
    for run in kept().values():
        setting = None if run["lambda"] is None else (run["lambda"], run["sparsity"])
        settings.setdefault(setting, []).append(run)
    lines = {}
    for setting, of in settings.items():
        runs = [run for run in of if not run["error"]]
        if not runs:
            continue
        last, best_round = ([100 * run[name] for run in runs] for name in ("accuracy_last_ten", "measured"))
        named = "FedAvg |" if setting is None else "EFL, λ {:g} | {:g}".format(*setting)
        told = [over(last, ".2f"), over(best_round, ".2f"), str(len(runs))]
        lines["| " + " | ".join([named, *told]) + " |"] = float(np.mean(last))
    return sorted(lines, key=lambda line: -lines[line])


def main(
    data: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Data sets' folder.")],
    show: Annotated[bool, typer.Option("--rows", help="Print what was measured, and run nothing.")] = False,
) -> None:
    """Run what is missing."""
    if show:
        print("\n".join(rows()))
        return
    samples = load_data("mnist", data, 0)
    for setting, seed in settings():
        found = kept()
        if key(setting, seed) in found:
            continue
        preset = presets.get(FEDAVG if setting is None else EFL).changed(seed=seed or None)
        if setting is not None:
            lam, sparsity = setting
            preset = preset.changed(lam=lam, compressor=("st", sparsity))
        result = run_preset(preset, samples, None, progress=False)
        (cell,) = cells("efl-table2", [result])
        accuracy = result.series("test_accuracy")[-10:]
        part = result.provenance["parts"][-1] if result.provenance else {}
        found[key(setting, seed)] = {
            "lambda": setting and setting[0], "sparsity": setting and setting[1], "seed": seed,
            "rounds": result.rounds, "error": result.error, "measured": cell["measured"],
            "accuracy_last_ten": None if result.error else float(np.nanmean(accuracy)),
            "seconds": round(result.seconds, 1), "commit": part.get("commit"),
        }  # fmt: skip
        write_atomic(HERE, json.dumps(to_jsonable(found), indent=1) + "\n")
        print(key(setting, seed), f"{found[key(setting, seed)]['seconds']} s", flush=True)


if __name__ == "__main__":
    typer.run(main)
