"""Run as a programme, with an engine's name: what it computes there, as JSON. Functions of a programme reach every engine's workers."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from contextvars import Context
from pathlib import Path
from typing import Any

import numpy as np
from joblib import parallel_config

from fedtheory import algorithms, problems, simulate
from fedtheory.errors import FedTheoryError
from fedtheory.parallel import as_finished, stop_workers, use_engine
from fedtheory.participation import Uniform


def pid(n: int) -> tuple[int, int]:
    time.sleep(0.02)
    return n, os.getpid()


def refuse(n: int) -> int:
    if n == 3:
        raise FedTheoryError("three")
    return n


class DieOnce:
    """n * n, but the first process that meets 5 is killed."""

    def __init__(self, folder: str) -> None:
        self.flag = Path(folder) / "died"

    def __call__(self, n: int) -> int:
        if n == 5:
            try:
                self.flag.touch(exist_ok=False)
            except FileExistsError:
                return 25
            os.kill(os.getpid(), signal.SIGKILL)
        return n * n


def die(n: int) -> int:
    if n == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def digest(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def run(workers: int) -> str:
    """A run of 24 scenarios, to the last bit."""
    problem = problems.random_quadratic(6, 5, seed=1)
    record = ("objective", "distance", "entropy", "bits", "nonzeros")
    how = {"sampling": Uniform(3), "scenarios": 24, "chunk": 8, "seed": 4, "workers": workers, "record": record}
    made = simulate(problem, algorithms.FedDyn(0.5), 9, **how)
    return digest(made.x, *(made.metrics[name] for name in record))


def judged(workers: int) -> str:
    """Checks of instances of all papers, and a search of each."""
    from fedtheory.theory.judge import campaign

    tasks = campaign.plan(0, 0.02, long=False)[22::30]  # none of these takes a second
    jobs = [j for j in campaign.search_plan(2) if j.job[0] in ("local", "prox", "elastic", "sampled")]
    checked = dict(as_finished(campaign.checks_told, tasks, workers))
    searched = dict(as_finished(campaign.search_told, jobs, workers))
    return hashlib.sha256(json.dumps([sorted(checked.items()), sorted(searched.items())]).encode()).hexdigest()


def where(workers: int) -> list[tuple[int, int]]:
    """(task, process) of eight tasks."""
    return sorted(dict(as_finished(pid, range(8), workers)).values())


def under_joblib(backend: str, workers: int, **options: Any) -> tuple[list[tuple[int, int]], str]:
    """The same with joblib's backend of that name."""
    with parallel_config(backend, n_jobs=workers, **options):
        return where(workers), run(workers)


def main(name: str, workers: int = 2) -> None:
    found: dict[str, Any] = {"me": os.getpid()}
    if name == "local":
        found["alone"] = {"run": run(1), "judged": judged(1)}
    with use_engine(name, workers=workers) as engine:
        found["where"], found["run"], found["judged"] = where(workers), run(workers), judged(workers)
        if name == "ray":
            from ray.util.joblib import register_ray

            register_ray()
        client = {"client": engine._client} if name == "dask" else {}
        # in a context of its own, where no engine is in use
        found["joblib"] = Context().run(under_joblib, name.replace("local", "threading"), workers, **client)
        try:
            list(as_finished(refuse, range(9), workers))
        except FedTheoryError as error:
            found["error"] = str(error)
        with tempfile.TemporaryDirectory() as folder:
            work = DieOnce(folder)
            found["death"] = [work.flag.exists(), sorted(dict(as_finished(work, range(20), workers)).items()), work.flag.exists()]
        try:
            list(as_finished(die, range(12), workers))
        except FedTheoryError as error:
            found["poison"] = str(error)
        found["afterwards"] = sorted(dict(as_finished(refuse, [0, 1, 2], workers)).values())
    stop_workers()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
