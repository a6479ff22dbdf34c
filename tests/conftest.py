"""Fixtures of several test files."""

from __future__ import annotations

import functools
import gc
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator

import one_round
import pytest

from fedtheory import plain_progress


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """No search for garbage among test files and what they import, which live as long as the process, nor after every 700 objects,
    nor often among all that modules and caches keep."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 10, 50)
        gc.enable()


@pytest.fixture(autouse=True, scope="session")
def no_progress_lines() -> Iterator[None]:
    """Silence progress lines, so that output does not depend on how long a command takes here.

    The tests of progress set their own clock.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_progress, "FIRST", math.inf)
        yield


@pytest.fixture(autouse=True, scope="session")
def one_command_line() -> Iterator[None]:
    """The command line is put together once, not for every command that is called: it is the same each time."""
    import typer.main
    import typer.testing

    made = functools.lru_cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", made)
        patch.setattr(typer.testing, "_get_command", made)
        yield


def _papers_are_forgotten() -> Iterator[None]:
    """Forget the papers that are registered meanwhile, but for those that the package brings."""
    name = "fedtheory.theory.judge.registry"
    before = {*sys.modules[name]._PAPERS} if name in sys.modules else set()
    yield
    if (registry := sys.modules.get(name)) is not None:
        for paper in [p for id, p in registry._PAPERS.items() if id not in before]:
            if paper.file or not registry.is_ours(paper):
                registry._forget(paper)


@pytest.fixture(autouse=True, scope="module")
def no_papers_of_a_module_left() -> Iterator[None]:
    """Papers that the tests of a module register are not known to those of another one."""
    yield from _papers_are_forgotten()


@pytest.fixture(autouse=True)
def no_papers_of_a_test_left() -> Iterator[None]:
    """Nor those of one test to another one; what its module has read before stays."""
    yield from _papers_are_forgotten()


@pytest.fixture(scope="module")
def coqs_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Coq's library is compiled once for all processes of the tests, and not in the user's cache."""
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder))
        yield


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
