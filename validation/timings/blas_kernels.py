"""CPU time of a round under each choice of SciPy's OpenBLAS's kernels, side by side.

    python validation/timings/blas_kernels.py [--kernels Haswell,] [--batches 10,50] [--repeats 5]

Compiled steps of small networks multiply with SciPy's OpenBLAS, batched products with torch's
library. OpenBLAS reads the variable OPENBLAS_CORETYPE when it is loaded, so that every figure is of
a process of its own; the choices alternate, and medians count. The empty choice is the library's
own, where the variable is not set.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from typing import Annotated

import numpy as np
import typer

ONE = """
import json, sys
import torch
from threadpoolctl import threadpool_info
from neural_rounds import a_round, instance
from fedtheory.neural.engines import compiled
torch.set_num_threads(1)
problem, _ = instance("mlp-200-100", 600)
found = {}
for batch in map(int, sys.argv[1].split(",")):
    for name in ("compiled", "batched"):
        compiled.TAKEN = name == "compiled"
        a_round(problem, batch, "FedDyn")
        found[f"{batch} {name}"] = min(a_round(problem, batch, "FedDyn")[1] for _ in range(3))
blas = sorted({v["architecture"] for v in threadpool_info() if v.get("internal_api") == "openblas"})
print(json.dumps([blas, found]))
"""


def measured(kernels: str, batches: str) -> tuple[list[str], dict[str, float]]:
    """The kernels that were taken, and CPU seconds of a round by batch and way."""
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    env |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} | ({"OPENBLAS_CORETYPE": kernels} if kernels else {})
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run([sys.executable, "-c", ONE, batches], env=env, cwd=here, capture_output=True, text=True)
    if done.returncode:
        raise typer.BadParameter(f"kernels {kernels!r}: {done.stderr.strip().splitlines()[-1]}")
    blas, found = json.loads(done.stdout.splitlines()[-1])
    return blas, found


def main(
    kernels: Annotated[str, typer.Option(help="Values of OPENBLAS_CORETYPE, with commas; an empty one is its own.")] = "Haswell,",
    batches: Annotated[str, typer.Option(help="Batch sizes, with commas.")] = "10,50",
    repeats: Annotated[int, typer.Option(help="Processes of each.", min=1)] = 5,
) -> None:
    """Measure, and print a row for each choice."""
    times: dict[str, dict[str, list[float]]] = {k: defaultdict(list) for k in dict.fromkeys(kernels.split(","))}
    taken: dict[str, list[str]] = {}
    for _ in range(repeats):
        for choice, found in times.items():
            taken[choice], seconds = measured(choice, batches)
            for name, value in seconds.items():
                found[name].append(value)
    print("ms of CPU a round of ten clients with 600 samples, mlp-200-100, FedDyn: medians")
    for choice, found in times.items():
        row = ", ".join(f"batch {name}: {1e3 * np.median(values):.0f}" for name, values in found.items())
        print(f"{choice or 'its own choice'} (taken: {', '.join(taken[choice])}): {row}", flush=True)


if __name__ == "__main__":
    typer.run(main)
