"""The same numbers on every engine, and a worker that dies: on this machine's processes, a real Dask cluster, and a real Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.parallel import as_finished, backends, tasks, use_engine, worker

HERE = Path(__file__).parent


@cache
def on(engine: str) -> dict[str, Any]:
    """What `on_engine.py` finds there."""
    pytest.importorskip({"dask": "distributed", "ray": "ray"}.get(engine, "joblib"))
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [sys.executable, str(HERE / "on_engine.py"), engine]
    made = subprocess.run(command, capture_output=True, text=True, timeout=500, env=env)
    assert made.returncode == 0, made.stderr[-3000:]
    return json.loads(made.stdout.splitlines()[-1])


ENGINES = ("local", "dask", "ray")


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_numbers_of_one_process_to_the_last_bit(engine: str) -> None:
    there = on(engine)
    assert {k: there[k] for k in ("run", "judged")} == on("local")["alone"]
    assert [n for n, _ in there["where"]] == list(range(8))
    assert there["me"] not in {pid for _, pid in there["where"]}, "the work was done in this process"
    assert there["error"] == "three"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_tasks_of_a_worker_that_was_killed_are_done_again(engine: str) -> None:
    there = on(engine)
    before, results, died = there["death"]
    assert (before, died) == (False, True)
    assert results == [[n, n * n] for n in range(20)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_task_that_kills_every_worker_is_named_and_the_engine_still_works(engine: str) -> None:
    there = on(engine)
    assert "died, 3 times in a row" in there["poison"] and "fewer workers" in there["poison"]
    if engine == "local":
        assert "the worker of task 7 died" in there["poison"], "what it took with it is not to blame"
    assert there["afterwards"] == [0, 1, 2]


@pytest.mark.parametrize("backend", ["dask", "ray", "threading"])
def test_joblibs_active_backend_is_respected(backend: str) -> None:
    there = on(backend.replace("threading", "local"))
    where, run = there["joblib"]
    assert run == on("local")["alone"]["run"]
    assert {pid == there["me"] for _, pid in where} == {backend == "threading"}


def test_an_executor_of_ones_own() -> None:
    with ThreadPoolExecutor(2) as threads, use_engine(threads):
        assert sorted(as_finished(abs, [-1, 2, -3], 2)) == [(0, 1), (1, 2), (2, 3)]


def test_an_engine_that_there_is_not() -> None:
    for engine, address, said in (("slurm", None, "local, dask, ray"), ("local", "here:1", "this machine"), (7, None, "Executor")):
        with pytest.raises(InvalidInput, match=said), use_engine(engine, address):  # type: ignore[arg-type]
            pass


def test_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(backends, "WAIT", 1)
    with pytest.raises(InvalidInput, match=r"'tcp://127\.0\.0\.1:9': no Dask scheduler answered within 1 seconds"), use_engine(
        "dask", "tcp://127.0.0.1:9"
    ):
        pass


def test_a_cluster_of_ours_that_has_lost_all_workers_gets_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask's nannies give up a worker that dies while it starts, as the second does here; what is queued then waits for ever."""
    nanny = pytest.importorskip("distributed.nanny")
    monkeypatch.setattr(backends, "LOOK", 0.0)
    start, died = nanny.WorkerProcess.start, []

    async def dying(process: Any) -> Any:
        died.append(process)
        if len(died) == 2:
            raise OSError("killed while it started")
        return await start(process)

    monkeypatch.setattr(nanny.WorkerProcess, "start", dying)
    with use_engine("dask", None, 1) as engine:
        assert isinstance(engine, backends.Dask)
        engine._client.retire_workers(close_workers=True)
        assert not engine._client.nthreads()
        for _ in range(300):
            engine.look_after()
            if engine._client.nthreads():
                break
            time.sleep(0.1)
        assert engine._client.nthreads() and len(died) == 3
        assert dict(as_finished(abs, [-1, 2, -3], 1)) == {0: 1, 1: 2, 2: 3}


def test_a_worker_with_other_software_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "software", lambda: {**worker.software(), "numpy": "1.0"})
    refused = pytest.raises(FedTheoryError, match=r"a worker has .*numpy 1\.0.*: install")
    with ThreadPoolExecutor(2) as threads, use_engine(threads), refused:
        list(as_finished(abs, [-1, 2, -3], 2))


def test_tasks_that_were_sent_together_and_take_long_are_handed_over_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill loses is bounded where the cells of a sweep are short ones first and then long ones."""
    monkeypatch.setattr(worker, "LONG", 0.0)
    assert worker.work_through(None, abs, [-1, -2, -3]).results == [1]
    with ThreadPoolExecutor(2) as threads, use_engine(threads):
        assert sorted(as_finished(abs, range(-300, 0), 2)) == [(i, 300 - i) for i in range(300)]


def test_short_tasks_are_sent_together_and_long_ones_alone() -> None:
    parcels = tasks._Parcels()
    assert parcels.size(10_000, 2) == 1, "nothing is known of them yet"
    parcels.saw(worker.Done([None] * 4, None, 4e-3))
    assert parcels.size(10_000, 2) == 100
    assert parcels.size(80, 2) == 10, "each worker has several more to come"
    parcels.saw(worker.Done([None], None, 60.0))
    assert parcels.size(10_000, 2) == 1
