"""Costs of a round beside its local work, with nothing and with everything measured.

There are ten clients, and ten thousand, in one scenario.

    python validation/timings/round_overhead.py [--against DIRECTORY] [--repeats 7] [--out FILE]

Overhead is a round's time less the time inside the local solver; times are those of the processor,
so that what else the machine does counts little. ``--against`` names another checkout of the
project: both run in processes of their own that take turns measurement by measurement, and the
table has the median of the ratios. Medians of times are given as well; on a shared machine only the
ratios mean something. Numba is loaded before, as it is in a run of so many rounds that a fraction
of a millisecond of each counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

CASES = {  # clients, samples a client, dimension, rounds of one measurement
    "ten": (10, 20, 5, 200),
    "ten thousand": (10_000, 10, 5, 20),
}
EVERYTHING = (
    "objective", "suboptimality", "gradient_norm", "distance", "drift", "participants", "nonzeros", "entropy", "entropy_1", "entropy_2",
    "entropy_pooled", "update_entropy", "bits_up", "bits_down", "bits",
)  # fmt: skip
RECORDS: dict[str, tuple[str, ...]] = {"nothing": (), "everything": EVERYTHING}


def _jobs() -> dict[str, tuple[Any, Any, Any]]:
    """Name -> (method, law of cohorts from the number of clients, local solver)."""
    from fedtheory import algorithms, local, messages
    from fedtheory.participation import Full, Uniform

    step, batches = local.GradientSteps(steps=1, lr=0.01), local.LocalSGD(steps=5, lr=0.01, batch_size=4)
    quantised = messages.QSGD(4)
    some = {"all": lambda n: Full(), "some": lambda n: Uniform(4 if n == 10 else 100)}
    made: dict[str, tuple[Any, Any, Any]] = {}
    for who, law in some.items():
        made[f"FedAvg, one gradient step, {who}"] = (algorithms.FedAvg(), law, step)
        made[f"FedAvg, five mini-batches, {who}"] = (algorithms.FedAvg(), law, batches)
        made[f"FedAvg, SGD of one epoch, {who}"] = (algorithms.FedAvg(), law, local.SGD(4, 0.01, epochs=1))
        made[f"FedProx, exact, {who}"] = (algorithms.FedProx(mu=1.0), law, local.Exact())
        made[f"SCAFFOLD, one gradient step, {who}"] = (algorithms.Scaffold(), law, step)
        made[f"FedDyn, exact, {who}"] = (algorithms.FedDyn(alpha=1.0), law, local.Exact())
        made[f"FedElasticNet (dyn), exact, {who}"] = (algorithms.FedElasticNetDyn(l1=0.01, l2=20.0), law, local.Exact())
        made[f"EFL, QSGD both ways, {who}"] = (algorithms.EFL(compressor=quantised, down_compressor=quantised), law, step)
    return made


def serve() -> None:
    """Measure what each line of the input asks for: case, job and record; answer with seconds a
    round, and of them local work."""
    import numba  # noqa: F401
    import numpy as np

    from fedtheory import simulate
    from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
    from fedtheory.problems import LeastSquares

    class Timed(LocalSolver):
        def __init__(self, inner: LocalSolver) -> None:
            self.inner, self.seconds = inner, 0.0
            self.honours_steps, self.reports_steps = inner.honours_steps, inner.reports_steps  # type: ignore[misc]

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def check(self, problem: Any, objective: LocalObjective | None = None) -> None:
            self.inner.check(problem, objective)

        def solve(self, problem: Any, objective: LocalObjective, start: Any, rows: Rows) -> LocalResult:
            begin = time.thread_time()
            result = self.inner.solve(problem, objective, start, rows)
            self.seconds += time.thread_time() - begin
            return result

    jobs, problems = _jobs(), {}
    for case, (clients, samples, dim, _) in CASES.items():
        rng = np.random.default_rng(1)
        problems[case] = LeastSquares(rng.standard_normal((clients, samples, dim)), rng.standard_normal((clients, samples)))
        problems[case].optimum(gap=1e-6)
    for line in sys.stdin:
        case, name, record = json.loads(line)
        method, law, solver = jobs[name]
        clients, _, _, rounds = CASES[case]
        timed = Timed(solver)
        begin = time.thread_time()
        simulate(problems[case], method, rounds, sampling=law(clients), local_solver=timed, record=RECORDS[record], seed=1)
        whole = time.thread_time() - begin
        print(json.dumps([whole / rounds, timed.seconds / rounds]), flush=True)


class Measured:
    """A process with one checkout of the project."""

    def __init__(self, checkout: Path) -> None:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        environment = {**os.environ, **threads, "PYTHONPATH": str(checkout)}
        command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def __call__(self, *what: str) -> tuple[float, float]:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(what), file=self.process.stdin, flush=True)
        whole, local = json.loads(self.process.stdout.readline())
        return whole, local


def main(
    against: Annotated[Path | None, typer.Option(help="Another checkout of the project, measured by turns.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Measurements of each; medians count.")] = 7,
    out: Annotated[Path | None, typer.Option(help="Write the table as JSON, too.")] = None,
    serve_: Annotated[bool, typer.Option("--serve", hidden=True)] = False,
) -> None:
    """Measure, and print a row for each case."""
    from statistics import median

    if serve_:
        serve()
        return
    here = Path(__file__).resolve().parents[2]
    own, other = Measured(here), None if against is None else Measured(against)
    rows = []
    print(f"{'clients':12s} {'job':38s} {'measured':10s} {'round':>8s} {'overhead':>8s} ms" + ("   before / now" if other else ""))
    for case in CASES:
        for name in _jobs():
            for record in RECORDS:
                pairs = []
                for turn in range(repeats + 1):
                    then = other(case, name, record) if other else None
                    now = own(case, name, record)
                    if turn:  # the first one warms up
                        pairs.append((now, then))
                whole, overhead = median(n[0] for n, _ in pairs), median(n[0] - n[1] for n, _ in pairs)
                row: dict[str, Any] = {"clients": case, "job": name, "measured": record}
                row |= {"round_ms": round(1e3 * whole, 4), "overhead_ms": round(1e3 * overhead, 4)}
                if other:
                    row["round_before_over_now"] = round(median(t[0] / n[0] for n, t in pairs if t), 2)
                    row["overhead_before_over_now"] = round(median((t[0] - t[1]) / (n[0] - n[1]) for n, t in pairs if t), 2)
                rows.append(row)
                ratios = f"   {row['round_before_over_now']:.2f}  {row['overhead_before_over_now']:.2f}" if other else ""
                print(f"{case:12s} {name:38s} {record:10s} {1e3 * whole:8.3f} {1e3 * overhead:8.3f}{ratios}", flush=True)
    if out is not None:
        out.write_text(json.dumps({"machine": "two shared cores, AMD EPYC; one BLAS thread", "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
