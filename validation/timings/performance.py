"""Speed of the core: ratios measured side by side in one run, on this machine, as one table.

    python validation/timings/performance.py [--rounds 100] [--repeats 3] [--no-networks] [--out results/performance.json]

Ours is measured beside the best that was written by hand (by_hand.py), in turns. One-core figures
pin BLAS to one thread. Two-core figures use two processes of one thread each, already started.
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from joblib import Parallel, delayed, parallel_config
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_info, threadpool_limits

from fedtheory import simulate
from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDynState
from fedtheory.local import Exact
from fedtheory.local.exact import _steps_needed
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.local.quadratic import curvature_bounds
from fedtheory.parallel import Progress
from fedtheory.participation.cohorts import Uniform
from fedtheory.problems import LeastSquares
from fedtheory.provenance import provenance, write_json

sys.path.insert(0, str(Path(__file__).parent))
import by_hand
import performance_efl
import performance_fedmls

CLIENTS, COHORT, DIM, SAMPLES, SCENARIOS, SEED = 100, 10, 50, 100, 1000, 1


@dataclass
class Timed(LocalSolver):
    """A local solver that notes the time spent in it."""

    inner: LocalSolver
    seconds: list[float] = field(default_factory=list)

    def solve(self, problem: Any, objective: LocalObjective, start: Any, rows: Rows) -> LocalResult:
        begin = time.perf_counter()
        result = self.inner.solve(problem, objective, start, rows)
        self.seconds.append(time.perf_counter() - begin)
        return result

    def solve_slots(self, problem: Any, objective: LocalObjective, start: Any, rows: Rows, slots: Any) -> LocalResult | None:
        begin = time.perf_counter()
        result = self.inner.solve_slots(problem, objective, start, rows, slots)
        if result is not None:
            self.seconds.append(time.perf_counter() - begin)
        return result


@dataclass
class Row:
    name: str
    value: float
    unit: str
    target: str = ""
    note: str = ""


def instance() -> tuple[LeastSquares, FedElasticNetDyn]:
    """m = 100 least-squares clients in d = 50, lambda_2 = 28 beta, lambda_1 that zeroes a third of
    the first updates."""
    rng = np.random.default_rng(SEED)
    features = rng.standard_normal((CLIENTS, SAMPLES, DIM))
    truth = rng.standard_normal((CLIENTS, DIM, 1))
    targets = (features @ truth)[..., 0] + 0.1 * rng.standard_normal((CLIENTS, SAMPLES))
    problem = LeastSquares(features, targets)
    return problem, FedElasticNetDyn(l1=0.5, l2=28 * float(problem.beta_k.max()))


def clock(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall seconds, CPU seconds of this process, and what the work gave."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def matrix_product_rate(size: int = 1000, repeats: int = 8) -> float:
    """Best measured float64 rate of one large matrix product, flop/s."""
    a = np.random.default_rng(0).random((size, size))
    out = np.empty_like(a)
    return 2.0 * size**3 / min(clock(lambda: np.matmul(a, a, out=out))[0] for _ in range(repeats))


def kernels() -> str:
    """Name the kernels that NumPy's BLAS runs here."""
    found = {f"{i['internal_api']}'s {i.get('architecture', 'own')} kernels" for i in threadpool_info() if i["user_api"] == "blas"}
    return ", ".join(sorted(found))


def shaped_rate(problem: LeastSquares, times: int = 10, repeats: int = 8, of: Callable[[list[float]], Any] = min) -> float:
    """The rate of a local solve's products alone, flop/s: each client's rows times its d x d
    matrix, several times as a solve does."""
    rows = np.random.default_rng(0).random((CLIENTS, SCENARIOS * COHORT // CLIENTS, DIM))
    out = np.empty_like(rows)

    def products() -> None:
        for z, m, o in zip(rows, problem.gram, out, strict=True):
            for _ in range(times):
                np.matmul(z, m, out=o)

    with threadpool_limits(1):
        return float(times * 2.0 * rows.size * DIM / of([clock(products)[0] for _ in range(repeats)]))


def products_on_two(problem: LeastSquares) -> float:
    """Measure two processes' independent products beside each other, in those of one."""
    usual = dict(repeats=200, of=np.median)
    with parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
        one, (a, b) = shaped_rate(problem, **usual), Parallel()(delayed(shaped_rate)(problem, **usual) for _ in range(2))
        return (a + b) / one


def half(index: int, problem: LeastSquares, algorithm: FedElasticNetDyn, rounds: int) -> float:
    """CPU seconds of one half of the scenarios, run in a worker."""
    size = SCENARIOS // 2
    begin = time.process_time()
    simulate(problem, algorithm, rounds, sampling=Uniform(COHORT), scenarios=size, seed=SEED + index, record=())
    return time.process_time() - begin


def busiest_worker(problem: LeastSquares, algorithm: FedElasticNetDyn, rounds: int) -> float:
    """Return the time of two cores of their own: of two halves side by side the larger CPU time."""
    with parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
        return max(Parallel(max_nbytes=None)(delayed(half)(i, problem, algorithm, rounds) for i in range(2)))


def further(index: int, problem: LeastSquares, algorithm: FedElasticNetDyn, rounds: int, size: int) -> float:
    """Seconds of so many rounds of ``size`` scenarios beyond the first few."""
    common = dict(sampling=Uniform(COHORT), scenarios=size, seed=SEED + index, record=())
    few, many = (clock(lambda r=r: simulate(problem, algorithm, r, **common))[0] for r in (rounds // 20 + 1, rounds + rounds // 20 + 1))
    return many - few


def throughput(problem: LeastSquares, algorithm: FedElasticNetDyn, rounds: int, repeats: int = 7) -> float:
    """Measure two workers' rate of scenarios in that of one, each with half of them.

    Medians count, taken in turns.
    """
    work = (problem, algorithm, rounds, SCENARIOS // 2)
    one, two = [], []
    with parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1), Parallel(max_nbytes=None) as workers:
        workers(delayed(further)(i, *work[:2], 1, work[3]) for i in range(2))
        for _ in range(repeats):
            one += workers([delayed(further)(0, *work)])
            two += workers(delayed(further)(i, *work) for i in range(2))
    return float(2 * np.median(one) / np.median(two))


def long_runs(problem: LeastSquares, algorithm: FedElasticNetDyn, rounds: int, repeats: int = 5) -> float:
    """Measure two workers' speed-up in what a long run takes beyond a short one.

    So start and end do not count.
    """

    def seconds(count: int, workers: int) -> float:
        common = dict(sampling=Uniform(COHORT), scenarios=SCENARIOS, seed=SEED, record=(), workers=workers)
        return clock(lambda: simulate(problem, algorithm, count, **common))[0]

    few = max(1, rounds // 20)
    cases = [(count, workers) for workers in (1, 2) for count in (few, rounds + few)]
    with threadpool_limits(1):
        few_one, one, few_two, two = np.min([[seconds(*case) for case in cases] for _ in range(repeats)], axis=0)
    return float((one - few_one) / (two - few_two))


def monte_carlo(rounds: int, repeats: int, tick: Callable[[], None]) -> list[Row]:
    problem, algorithm = instance()
    penalty = LocalObjective(np.zeros(1), curvature=algorithm.l2, l1=algorithm.l1)
    lower, upper = curvature_bounds(problem, penalty)
    count = int(_steps_needed(lower, upper))
    common = dict(sampling=Uniform(COHORT), seed=SEED, record=())
    hand = by_hand.elastic_by_hand(problem, algorithm, 2 / (lower + upper), count, SCENARIOS)
    difference = by_hand.apart(replace(hand, scenarios=20), problem, algorithm, Exact())
    theirs, one, two, two_cpu, rates, solve_rates = [], [], [], [], [], []
    warm = dict(scenarios=8, workers=2, **common)
    simulate(problem, algorithm, 1, **warm)
    for _ in range(repeats):  # interleaved, so that a busy machine slows all of them
        with threadpool_limits(1):
            theirs.append(by_hand.rounds_by_hand(hand, max(3, rounds // 5)))
            tick()
            solver = Timed(Exact())
            whole = dict(scenarios=SCENARIOS, chunk=SCENARIOS, local_solver=solver, **common)  # one solve a round
            seconds = clock(lambda w=whole: simulate(problem, algorithm, rounds, **w))
            one.append([s / (SCENARIOS * rounds) for s in seconds[:2]])
            flops = SCENARIOS * COHORT * count * 2.0 * DIM**2
            rates.append(matrix_product_rate())
            solve_rates.append(flops / float(np.median(solver.seconds)))
            tick()
        for _ in range(2):  # the first one has to ask for memory that the machine had given to others
            wall = clock(lambda: simulate(problem, algorithm, rounds, scenarios=SCENARIOS, workers=2, **common))[0]
            two.append(wall / (SCENARIOS * rounds))
        two_cpu.append(busiest_worker(problem, algorithm, rounds) / (SCENARIOS * rounds))
        tick()
    one_wall, one_cpu = np.min(one, axis=0)
    rate, hand_cpu = max(rates), min(theirs)
    shape = f"m={CLIENTS}, P={COHORT}, d={DIM}, {SCENARIOS:,} scenarios, {rounds} rounds"
    return [
        *(Row(*figure) for figure in by_hand.core_rows()),
        Row("FedElasticNet, by hand, a round", hand_cpu, "s", note=f"one core, CPU time, {count} proximal gradient steps"),
        Row("FedElasticNet, one core, a round", one_wall * SCENARIOS, "s", note=shape),
        Row("FedElasticNet, two cores, a round", min(two) * SCENARIOS, "s", note="two processes, with the results brought back"),
        Row("FedElasticNet, one core", hand_cpu / (one_cpu * SCENARIOS), "x by hand", ">= 0.9", "CPU time, with start and end"),
        Row("two cores against one core", throughput(problem, algorithm, rounds), "x", ">= 1.9", "500 scenarios on each core"),
        Row("two cores against one core", long_runs(problem, algorithm, rounds), "x", note="a further round, half of it on each"),
        Row("two cores against one core", one_wall / min(two), "x", "", "wall time of the runs above, with start and end"),
        Row("two cores against one core", one_cpu / min(two_cpu), "x", "", "CPU time of the busier of two workers"),
        Row("products alone, two cores against one", products_on_two(problem), "x", note="what the machine's cores leave each other"),
        Row("matrix product", rate / 1e9, "Gflop/s", note=f"1,000 x 1,000, float64, one thread, {kernels()}"),
        Row(
            "gradient phase / matrix product",
            100 * max(solve_rates) / rate,
            "%",
            ">= 65",
            f"whole local solve, {count} gradients each",
        ),
        Row(
            "its products alone / matrix product",
            100 * shaped_rate(problem) / rate,
            "%",
            note=f"{SCENARIOS * COHORT // CLIENTS} rows of a client times its {DIM} x {DIM}, nothing else",
        ),
        Row("by hand and batch differ by", difference, "", note="largest coordinate of the server models"),
    ]


def exact_check(states: int = 8) -> list[Row]:
    """One round of an instance with m = 6, P = 3, d = 10, from several states: all cohorts, all
    statements of one round."""
    from fedtheory.theorems import all_statements
    from fedtheory.theorems.fedelasticnet.paper import FILE
    from fedtheory.theory.judge.check import judge_view
    from fedtheory.theory.rounds.method_setting import MethodSetting

    rng = np.random.default_rng(SEED)
    problem = LeastSquares(rng.standard_normal((6, 20, 10)), rng.standard_normal((6, 20)))
    algorithm = FedElasticNetDyn(l1=0.1, l2=30 * float(problem.beta_k.max()), rule="true-gradient")
    sampling, star = Uniform(3), problem.optimum().x  # the certified optimum is found once, before the clock
    stored, local = rng.standard_normal((2, states, 6, 10))
    x = star + rng.standard_normal((states, 10))
    start = FedElasticNetDynState(x, stored, stored.mean(axis=1), local)
    forms = [(s, f) for s in all_statements("fedelasticnet/") if s.scope == "round" for f in s.forms if algorithm.rule in f.established]

    setting = replace(MethodSetting.of(FILE["lemma-b4"].variants[algorithm.rule]), method=algorithm)

    def check() -> int:
        view = setting.round_from(setting.world(problem), start._asdict(), sampling, {})
        return len([judge_view(s, f, view) for s, f in forms if f.symbolic is None])

    made = check()
    note = f"{made} checks, {sampling.count(6)} cohorts from each of {states} states; m = 6, d = 10"
    return [Row("exact one-round check", 1e3 * min(clock(check)[0] for _ in range(5)), "ms", "milliseconds", note)]


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each batched run.")] = 100,
    repeats: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; the best of each counts.")] = 3,
    networks: Annotated[bool, typer.Option(help="Measure networks, too.")] = True,
    out: Annotated[Path, typer.Option(help="Where the JSON goes.")] = Path("results/performance.json"),
) -> None:
    """Measure the core beside what is written by hand and print one table."""
    done = iter(range(1, 3 * repeats + 1))
    with Progress(3 * repeats, "measuring") as bar:
        rows = monte_carlo(rounds, repeats, lambda: bar.update(next(done)))
    with threadpool_limits(1):
        rows += exact_check()
        rows += [Row(*figure) for figure in performance_fedmls.fedmls_rows()]
        rows += [Row(*figure) for figure in performance_efl.efl_rows()]
    if importlib.util.find_spec("PEPit") is not None:  # of the tests
        from performance_worst_cases import worst_case_rows

        rows += [Row(*figure) for figure in worst_case_rows()]
    if networks and importlib.util.find_spec("torch") is not None:
        from performance_neural import neural_rows

        rows += [Row(*figure) for figure in neural_rows()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
    rows.append(Row("peak memory", peak, "MiB", note=f"this process; largest worker that ended: {workers:.0f} MiB"))
    table = Table(title="fedtheory: speed of the core")
    for column, justify in (("what", "left"), ("measured", "right"), ("target", "right"), ("how", "left")):
        table.add_column(column, justify=justify)
    for row in rows:
        table.add_row(row.name, f"{row.value:.3g} {row.unit}", row.target, row.note)
    Console().print(table)
    write_json(out, {"provenance": provenance(SEED), "rows": [vars(r) for r in rows]})


if __name__ == "__main__":
    try:
        typer.run(main)
    except KeyboardInterrupt:
        sys.exit(130)
