"""Fixtures of several test files."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterator

import one_round
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


@pytest.fixture(params=["gathered", "dense"])
def play(request: pytest.FixtureRequest) -> Callable:
    """One round of a method by hand, in both layouts of a cohort: ``one_round.after_one_round`` with that layout."""
    return functools.partial(one_round.after_one_round, request.param)


@pytest.fixture(params=["gathered", "dense"])
def layout(request: pytest.FixtureRequest) -> str:
    """Both layouts of a cohort."""
    return request.param
