"""SIGTERM ends a command as Ctrl-C does, in a background job of a script too, where Ctrl-C is ignored."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

COMMAND = """
import sys
from fedtheory import cli, problems, simulate
from fedtheory.algorithms import FedAvg

class Telling(FedAvg):
    def round(self, state, clients):
        if clients.round_index == 5:
            print("running", flush=True)
        return super().round(state, clients)

def app(prog_name):
    try:
        simulate(problems.random_quadratic(2, 2), Telling(), 10**7, scenarios=2, workers=WORKERS, record=())
    except KeyboardInterrupt:
        print("what is finished is written", file=sys.stderr, flush=True)
        sys.exit(130)

cli.app = app
cli.main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("background", [False, True])
def test_sigterm_ends_a_command_with_what_is_finished_written(background: bool, workers: int) -> None:
    def as_a_shell_does() -> None:
        """Ignore SIGINT, as a shell without job control does before `COMMAND &`: POSIX, 2.11."""
        signal.signal(signal.SIGINT, signal.SIG_IGN if background else signal.SIG_DFL)

    with subprocess.Popen(
        [sys.executable, "-c", COMMAND.replace("WORKERS", str(workers))], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=as_a_shell_does,
    ) as process:  # fmt: skip
        try:
            assert process.stdout.readline().startswith(b"running")
            if background:
                process.send_signal(signal.SIGINT)  # Ctrl-C in the terminal is still not meant for it
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            _, told = process.communicate(timeout=30)  # returns once all who hold the pipe are gone
        finally:
            process.kill()
    assert process.returncode == 130 and b"what is finished is written" in told
