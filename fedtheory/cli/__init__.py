"""The command line.

An option, a name or a file that is refused is a `fedtheory.errors.FedTheoryError` in every function
here; a command tells it in one line and ends with exit code 2.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from typing import Any

# A command imports over a thousand modules, of which nothing is ever garbage: cycles are not looked
# for meanwhile, nor among what was imported later on, and seldom in what follows. After every 700
# new objects, as Python does, it is a fifth of a start.
_collects = gc.isenabled()
gc.disable()
gc.set_threshold(20_000, 10, 10)

# The order of these modules is the order of the help.
from fedtheory.cli import commands_audit, commands_problems, commands_proofs, commands_studies  # noqa: E402, F401
from fedtheory.cli.app import app  # noqa: E402

gc.freeze()
if _collects:
    gc.enable()

__all__ = ["app", "main"]


def main() -> None:
    """Entry point; SIGTERM ends a command as Ctrl-C does, with what is finished written."""
    signal.signal(signal.SIGTERM, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what the encoding lacks, as cp1252 a tick, is a question mark
    try:
        try:
            app(prog_name="fedtheory")
        finally:
            if sys.stdout is not None:  # here, where a full disk can be told, and not when Python ends
                sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) went away
        _say_no_more()
        sys.exit(141)
    except OSError as error:
        _say_no_more()
        where = f"{str(error.filename)[:200]}: it" if error.filename else "the output"
        why = f"cannot be written or read ({error.strerror or error})"
        print(f"error: {where} {why}: make room, or name another place", file=sys.stderr)
        sys.exit(2)


def _interrupt(number: int, frame: Any) -> None:
    """Do what Ctrl-C does now, or would do where it is ignored, as it is in what a script starts with `&`."""
    now = signal.getsignal(signal.SIGINT)
    (now if callable(now) else signal.default_int_handler)(signal.SIGINT, frame)


def _say_no_more() -> None:
    """Send what is still to be written nowhere, so that Python does not try again when it ends."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
