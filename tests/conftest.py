"""Fixtures of several test files."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as at a terminal, here and in the processes that are started.

    A suite that runs in the background of a shell script inherits that SIGINT is ignored, and its children inherit it from there.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
