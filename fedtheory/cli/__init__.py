"""The command line."""

from __future__ import annotations

import gc
import signal
import sys

# A command imports over a thousand modules, and looking for cycles after every 700 new objects is a tenth of its start.
gc.set_threshold(20_000, 10, 10)

# The order of these modules is the order of the help.
from fedtheory.cli import commands_audit, commands_problems, commands_proofs, commands_studies  # noqa: E402, F401
from fedtheory.cli.app import app  # noqa: E402

__all__ = ["app", "main"]


def main() -> None:
    """Entry point; SIGTERM ends a command as Ctrl-C does, with what is finished written."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        app(prog_name="fedtheory")
    except BrokenPipeError:  # the reader (head, less) went away
        sys.stderr.close()
        sys.exit(141)
