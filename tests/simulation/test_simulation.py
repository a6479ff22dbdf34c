"""The round loop: chunks and processes change nothing but the rounding, errors name round and client, memories are safe to overwrite."""

from __future__ import annotations

import io
import signal
import subprocess
import sys

import numpy as np
import pytest

from fedtheory import algorithms, parallel, plain_progress, problems, simulate, theorems
from fedtheory.errors import Diverged, InvalidInput, LocalSolveFailed, UnknownName
from fedtheory.local import SGD, GradientSteps
from fedtheory.messages.measures import bin_counts, entropy_bits
from fedtheory.participation.cohorts import Bernoulli, Uniform
from fedtheory.randomness import Stream

RECORD = ("objective", "suboptimality", "gradient_norm", "distance", "nonzeros", "entropy")


def problem_of(clients: int = 7, dim: int = 4) -> problems.LeastSquares:
    rng = np.random.default_rng(0)
    return problems.LeastSquares(
        rng.standard_normal((clients, 9, dim)), rng.standard_normal((clients, 9)), ridge=0.1
    )


def method(problem: problems.Problem) -> algorithms.FedElasticNetDyn:
    return algorithms.FedElasticNetDyn(l1=0.05, l2=30 * float(problem.beta_k.max()))


@pytest.mark.parametrize("sampling", [Uniform(3), Bernoulli(0.4)])
@pytest.mark.parametrize("chunk", [1, 33, 64, 150])
def test_chunks_change_nothing(sampling, chunk: int) -> None:
    problem = problem_of()
    scenarios = 5 if chunk == 1 else 150
    common = dict(rounds=4, sampling=sampling, scenarios=scenarios, seed=3, record=RECORD, keep_states=True)
    whole = simulate(problem, method(problem), **common)
    cut = simulate(problem, method(problem), chunk=chunk, **common)
    for name in RECORD:
        np.testing.assert_allclose(cut.metrics[name], whole.metrics[name], rtol=1e-10, atol=1e-13, err_msg=name)
    for a, b in zip(cut.states, whole.states, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-12)
    assert cut.metrics["nonzeros"][1:].std() > 0  # a number for each scenario, not one for all


def test_processes_change_nothing() -> None:
    problem = problem_of()
    common = dict(rounds=3, sampling=Uniform(3), scenarios=70, seed=3, record=RECORD)
    whole = simulate(problem, method(problem), local_solver=SGD(4, 0.01, epochs=1), **common)
    spread = simulate(problem, method(problem), local_solver=SGD(4, 0.01, epochs=1), workers=2, **common)
    for name in RECORD:
        np.testing.assert_allclose(spread.metrics[name], whole.metrics[name], rtol=1e-10, atol=1e-13, err_msg=name)
    for a, b in zip(spread.final, whole.final, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("scenarios", [1, 2, 5])
def test_a_given_chunk_makes_processes_change_nothing_at_all(scenarios: int) -> None:
    """Few scenarios: products of one, two and five of them are rounded in different orders, those of one chunk are not."""
    problem = problem_of()
    common = dict(rounds=3, sampling=Uniform(3), scenarios=scenarios, seed=3, record=RECORD, chunk=2)
    runs = [simulate(problem, method(problem), local_solver=SGD(4, 0.01, epochs=1), workers=w, **common) for w in (1, 2, 3)]
    for other in runs[1:]:
        for name in RECORD:
            np.testing.assert_array_equal(other.metrics[name], runs[0].metrics[name], err_msg=name)
        for a, b in zip(other.final, runs[0].final, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("how", [{}, {"chunk": 2}, {"workers": 2, "chunk": 5}])
def test_divergence_names_round_client_and_scenario_however_it_is_cut(how: dict) -> None:
    """Client 1 multiplies by 2^20 at each of two steps, the others stand still: the cohorts tell when each scenario overflows."""
    problem = problems.Quadratic(np.array([[[0.0]], [[1.0 + 2**20]], [[0.0]]]), np.zeros((3, 1)))
    log2_start = np.array([-300, -200, -400, -250, 0, -100])
    members = np.stack([Uniform(1).sample(Stream(0), t, range(6), 3).members[:, 0] for t in range(1, 201)])
    overflows = log2_start + 40 * np.cumsum(members == 1, axis=0) >= 1024  # (rounds, scenarios)
    first = np.argmax(overflows, axis=0) + 1
    scenario = int(np.argmin(first))
    assert overflows[-1].all() and (np.sort(first)[1:] > first[scenario]).all()
    with pytest.raises(Diverged) as caught:
        x0 = 2.0 ** log2_start[:, None]
        simulate(problem, algorithms.FedAvg(), 200, x0, Uniform(1), 6, 0, GradientSteps(2, 1.0), record=(), **how)
    error = caught.value
    assert (error.round_index, error.client, error.scenario) == (first[scenario], 1, scenario)
    assert f"round {error.round_index} at client 1 (scenario {scenario})" in str(error)


def test_large_states_come_back_from_processes_whole() -> None:
    """Arrays above 1 MiB travel in files: they must be equal, writable and outlive the files."""
    problem = problem_of(clients=60, dim=40)
    common = dict(rounds=2, sampling=Uniform(5), scenarios=128, seed=3, record=(), keep_states=True)
    whole = simulate(problem, method(problem), **common)
    spread = simulate(problem, method(problem), workers=2, **common)
    assert spread.final.stored.nbytes > 2 * 2**20
    for state, other in zip([spread.final, *spread.states], [whole.final, *whole.states], strict=True):
        for a, b in zip(state, other, strict=True):
            assert type(a) is np.ndarray and a.flags.writeable
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_failed_local_solves_name_round_and_client_in_processes_too() -> None:
    rng = np.random.default_rng(1)
    flat = problems.LeastSquares(rng.standard_normal((3, 2, 5)), rng.standard_normal((3, 2)))
    for how in ({}, {"workers": 2}):
        with pytest.raises(LocalSolveFailed, match=r"round 1, client"):
            simulate(flat, algorithms.FedAvg(), 3, scenarios=4, sampling=Uniform(1), record=(), **how)


def test_memories_overwritten_in_place_give_the_same_run() -> None:
    problem = problem_of()
    scaffold = algorithms.Scaffold("gradient")
    for algorithm, solver in ((method(problem), None), (scaffold, GradientSteps(3, 0.05))):
        common = dict(rounds=5, sampling=Uniform(3), scenarios=6, seed=2, local_solver=solver)
        kept = simulate(problem, algorithm, in_place=False, **common)
        reused = simulate(problem, algorithm, in_place=True, **common)
        for a, b in zip(kept.final, reused.final, strict=True):
            np.testing.assert_array_equal(a, b)


def test_kept_and_observed_states_are_not_overwritten() -> None:
    problem = problem_of()
    seen = []

    def observe(t, old, new, clients):
        seen.append((t, clients.scenarios, old.stored.copy(), new.stored.copy(), old, new))

    common = dict(rounds=4, sampling=Uniform(3), scenarios=6, seed=2, record=())
    run = simulate(problem, method(problem), keep_states=True, on_round=observe, chunk=3, **common)
    assert [(s[0], s[1]) for s in seen] == [(t, r) for r in (range(3), range(3, 6)) for t in (1, 2, 3, 4)]
    for _, _, old_copy, new_copy, old, new in seen:
        np.testing.assert_array_equal(old.stored, old_copy)
        np.testing.assert_array_equal(new.stored, new_copy)
    assert (run.states[0].stored == 0).all() and (run.states[1].stored != 0).any()


def test_entropy_of_chunks_is_that_of_all_messages() -> None:
    """One scenario a chunk: the merged counts give the entropy of the messages taken together."""
    problem = problem_of()
    messages: dict[int, list[np.ndarray]] = {}

    def observe(t, old, new, clients):
        messages.setdefault(t, []).append(clients.sent_numpy()[0])

    algorithm = algorithms.FedElasticNetDyn(l1=0.05, l2=2.0)
    run = simulate(problem, algorithm, 3, scenarios=5, record=("entropy",), sampling=Uniform(2), chunk=1, on_round=observe)
    for t, sent in messages.items():
        assert run.metrics["entropy"][t, 0] == pytest.approx(entropy_bits(np.concatenate(sent)), rel=1e-14)
        assert run.metrics["entropy"][t, 0] > 0.5
    bins, counts = bin_counts(np.array([0.004, 0.006, 0.0, -0.011]))
    assert bins.tolist() == [-1, 0, 1] and counts.tolist() == [1, 2, 1]


def test_bad_arguments_are_refused_before_any_work() -> None:
    problem = problem_of()
    algorithm = method(problem)
    for bad in (
        dict(rounds=0),
        dict(rounds=2.5),
        dict(rounds=1, scenarios=0),
        dict(rounds=1, chunk=0),
        dict(rounds=1, workers=0),
        dict(rounds=1, sampling=Uniform(8)),
        dict(rounds=1, x0=np.zeros(3)),
        dict(rounds=1, x0=np.full(4, np.nan)),
        dict(rounds=1, workers=2, on_round=print),
    ):
        with pytest.raises(InvalidInput):
            simulate(problem, algorithm, **bad)
    with pytest.raises(UnknownName, match="objective"):
        simulate(problem, algorithm, 1, record=("objectiv",))


def test_progress_appears_only_for_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(parallel.progress.time, "monotonic", lambda: now[0])
    with parallel.Progress(10, "short") as quick:
        quick.update(5)
        assert not quick.visible
    monkeypatch.setattr("sys.stderr", io.StringIO())
    monkeypatch.setattr(plain_progress, "FIRST", 2.0)
    with parallel.Progress(10, "long") as slow:
        now[0] = 3.0
        slow.update(5)
        assert slow.visible
    with parallel.Progress(10, "hidden", shown=False) as hidden:
        now[0] = 9.0
        hidden.update(5)
        assert not hidden.visible


LONG_RUN = """
import numpy as np
from fedtheory import algorithms, problems, simulate
rng = np.random.default_rng(0)
problem = problems.LeastSquares(rng.standard_normal((5, 9, 4)), rng.standard_normal((5, 9)))
class Telling(algorithms.FedAvg):
    def round(self, state, clients):
        if clients.round_index == 5:
            print("running", flush=True)
        return super().round(state, clients)
simulate(problem, Telling(), 10**7, scenarios=2, workers=WORKERS, record=())
"""


def test_a_board_stops_the_chunks_after_a_failure_and_when_nobody_waits(tmp_path, monkeypatch) -> None:
    mine = parallel.Board.on_disk(2, tmp_path / "board")
    child = parallel.Board(2, str(tmp_path / "board"))
    child.tick(1, 7)
    assert mine.done == 7 and child.limit > 10**9
    child.fail(1, 5)
    mine.fail(0, 9)
    assert mine.limit == child.limit == 5
    monkeypatch.setattr(parallel.board.os, "getpid", lambda: 10)
    monkeypatch.setattr(parallel.board.os, "getppid", lambda: 1)  # the owner was killed
    assert child.limit == 0
    assert parallel.Board(2).limit > 10**9  # in memory: nobody else's


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_ends_the_run_and_its_workers(workers: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_RUN.replace("WORKERS", str(workers))], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout.readline().startswith(b"running")
        process.send_signal(signal.SIGINT)  # to the main process only: the workers must be told
        _, error = process.communicate(timeout=30)  # returns once all who hold the pipes are gone
    finally:
        process.kill()
    assert process.returncode != 0
    # joblib's tracker, a process of its own, may find a semaphore gone that it has not been told of, and says so afterwards
    lines = error.strip().splitlines()
    mine = lines[: next((n for n, line in enumerate(lines) if b"resource_tracker" in line), None)]
    assert mine[-1].startswith(b"KeyboardInterrupt")


def test_arguments_of_another_kind_are_told_with_the_call_that_makes_one() -> None:
    problem = problem_of()
    for given, said in (
        ("fedavg", r"algorithm = 'fedavg' of type str: .*use algorithms.get\('fedavg'\)\(\)"),
        ("fedprox", r"use algorithms.get\('fedprox'\)\(mu=...\)"),
        (algorithms.FedProx, r"the class FedProx: .*use FedProx\(mu=...\)"),
        (3, r"algorithm = 3 of type int"),
    ):
        with pytest.raises(InvalidInput, match=said):
            simulate(problem, given, 3)
    with pytest.raises(UnknownName, match="did you mean 'fedavg'"):
        simulate(problem, "fedavgg", 3)
    for given, said in (
        ({"sampling": 2}, r"sampling = 2 of type int: .*Uniform\(2\)"),
        ({"sampling": Uniform}, "the class Uniform: a law of cohorts is needed"),
        ({"local_solver": "sgd"}, r"local_solver = 'sgd' of type str: .*local.Exact\(\)"),
        ({"local_solver": SGD}, "local_solver = the class SGD"),
    ):
        with pytest.raises(InvalidInput, match=said):
            simulate(problem, algorithms.FedAvg(), 3, **given)
    with pytest.raises(InvalidInput, match="an instance of a method"):
        theorems.get("fedelasticnet/theorem-3.1").verify(problem, "fedelasticnet-dyn")
