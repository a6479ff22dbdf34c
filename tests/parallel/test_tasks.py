"""Tasks on several processes: all results, in any order, errors as they are, and a Ctrl-C that ends everything in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from repository import ROOT

from fedtheory.errors import InvalidInput
from fedtheory.parallel import as_finished, stop_workers


def square(n: int) -> int:
    return n * n


def refuse(n: int) -> int:
    if n == 2:
        raise InvalidInput("two")
    return n


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_is_done_once(workers: int) -> None:
    assert sorted(as_finished(square, range(30), workers)) == [(n, n * n) for n in range(30)]
    assert list(as_finished(square, [], workers)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_is_raised_here_and_the_next_pool_works(workers: int) -> None:
    with pytest.raises(InvalidInput, match="two"):
        list(as_finished(refuse, range(9), workers))
    assert sorted(as_finished(square, range(4), workers)) == [(0, 0), (1, 1), (2, 4), (3, 9)]
    stop_workers()


@pytest.mark.usefixtures("interruptible")
def test_the_handler_of_interrupts_is_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    finished = as_finished(square, range(30), 2)
    next(finished)
    held = signal.getsignal(signal.SIGINT)
    finished.close()
    assert held is not before and signal.getsignal(signal.SIGINT) is before


LONG = """
import os, sys, time
from fedtheory.parallel import as_finished

def work(n):
    if n == 0:
        return os.getpid()
    time.sleep(600)

seen = []
try:
    for i, result in as_finished(work, range(20), WORKERS):
        seen.append(i)
        print("running", result, flush=True)
except KeyboardInterrupt:
    print("kept", seen, flush=True)
    sys.exit(130)
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("everybody", [True, False], ids=["terminal", "main process"])
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_what_is_finished_and_prints_no_traceback(workers: int, everybody: bool) -> None:
    script = LONG.replace("WORKERS", str(workers))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, **pipes)
    try:
        said = process.stdout.readline().split()
        assert said[0] == "running"
        time.sleep(0.5)
        (os.killpg if everybody else os.kill)(process.pid, signal.SIGINT)  # a terminal's Ctrl-C goes to the workers, too
        rest, error = process.communicate(timeout=60)  # returns once all who hold the pipes are gone
    finally:
        process.kill()
    assert process.returncode == 130 and rest == "kept [0]\n"
    assert error == ""
    if workers > 1:
        with pytest.raises(ProcessLookupError):
            os.kill(int(said[1]), 0)


def in_the_background(*command: str) -> subprocess.Popen:
    """A process that inherits an ignored SIGINT, as a shell script's background jobs do."""
    ignoring = ["sh", "-c", 'trap "" INT; exec "$0" "$@"', sys.executable, *command]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}  # of the suite that runs this
    return subprocess.Popen(ignoring, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_background_job_is_not_interrupted(workers: int) -> None:
    script = LONG.replace("WORKERS", str(workers)).replace("range(20)", "range(3)").replace("sleep(600)", "sleep(1)")
    process = in_the_background("-c", script)
    try:
        assert process.stdout.readline().startswith("running")
        process.send_signal(signal.SIGINT)
        rest, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, error) == (0, "") and rest.count("running") == 2


def test_the_tests_of_interrupts_pass_in_a_background_job() -> None:
    """Their fixture gives SIGINT its handler back, whatever the suite inherits."""
    one = f"{ROOT}/tests/parallel/test_tasks.py::test_the_handler_of_interrupts_is_given_back"
    process = in_the_background("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", one)
    try:
        said, _ = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 0 and "1 passed" in said, said[-3000:]


def test_small_tasks_are_done_here_until_time_is_up() -> None:
    """(process, task) of every result: all here where they are quick, the rest elsewhere where they are not."""
    import os

    assert {pid for _, (pid, _) in as_finished(_whose, [0.0] * 20, 2, here=30)} == {os.getpid()}
    found = dict(as_finished(_whose, [0.05] * 8, 2, here=0.08))
    stop_workers()
    assert sorted(found) == list(range(8)) and found[0][0] == os.getpid() != found[7][0]


def _whose(seconds: float) -> tuple[int, float]:
    import os
    import time

    time.sleep(seconds)
    return os.getpid(), seconds
