"""The pytest plugin: the fixture `federated_problem`, and `--rate-plots FOLDER`.

pytest loads this file in every run of an environment that has fedtheory. It imports nothing but
pytest until one of the two is used. ``pytest -p no:fedtheory`` leaves it out.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

FIXTURE = MARKER = "federated_problem"
KINDS = {
    "quadratic": "four clients with quadratic losses of different curvature and minimisers",
    "identical": "three clients with the same quadratic loss: nothing is lost by averaging",
    "unequal": "four clients with least squares on 5, 10, 20 and 40 samples, weighted by them",
    "logistic": "four clients with ridge-regularised logistic losses",
    "steep-and-flat": "two steep clients and one flat one, in two coordinates: whoever does not correct drift ends far from x*",
}
LONGEST = 100  # characters of a figure's name
FOLDER = pytest.StashKey[Path | None]()
_made: dict[str, Any] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--rate-plots FOLDER``."""
    parser.getgroup("fedtheory").addoption(
        "--rate-plots", metavar="FOLDER", default=None,
        help="leave the figure (PNG) and the data (CSV, JSON) of every failed assertion of "
        "fedtheory.testing in this folder, but of check_algorithm, which tells in words",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker that chooses kinds of problems, and the folder of the figures."""
    folder = config.getoption("--rate-plots", default=None)
    config.stash[FOLDER] = None if folder is None else Path(folder).absolute()
    config.addinivalue_line(
        "markers", f"{MARKER}(*kinds): which kinds the fixture {FIXTURE} runs through: {', '.join(KINDS)} (default: all)"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for the fixture runs once for each kind, unless it parametrises the fixture itself."""
    if FIXTURE not in metafunc.fixturenames:
        return
    definitions = getattr(metafunc, "_arg2fixturedefs", {}).get(FIXTURE, ())
    if definitions and getattr(definitions[-1].func, "__module__", "") != __name__:
        return  # a fixture of the same name in the user's conftest
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        if FIXTURE in (re.split(r"[,\s]+", names) if isinstance(names, str) else names):
            return
    marker = metafunc.definition.get_closest_marker(MARKER)
    kinds = marker.args if marker is not None and marker.args else tuple(KINDS)
    for kind in kinds:
        _check_kind(kind)
    metafunc.parametrize(FIXTURE, kinds, indirect=True)


def _check_kind(kind: Any) -> None:
    if kind not in KINDS:
        raise pytest.UsageError(f"federated_problem: {kind!r} is no kind; use one of {', '.join(KINDS)}")


def _make(kind: str) -> Any:
    """The problem of a kind, the same in every run."""
    import numpy as np

    from fedtheory import problems

    if kind == "quadratic":
        return problems.random_quadratic(4, 3, seed=1)
    if kind == "identical":
        one = problems.random_quadratic(1, 3, heterogeneity=0, seed=2)
        return problems.Quadratic(np.repeat(one.hessians, 3, axis=0), np.repeat(one.minimisers, 3, axis=0))
    if kind == "unequal":
        rng = np.random.default_rng(3)
        features = [rng.standard_normal((n, 3)) for n in (5, 10, 20, 40)]
        targets = [a @ rng.standard_normal(3) + 0.1 * rng.standard_normal(len(a)) for a in features]
        return problems.LeastSquares(features, targets, weights="samples")
    if kind == "logistic":
        return problems.random_logistic(4, 3, seed=4)
    curvatures = [(1.0, 0.03), (0.03, 1.0), (0.03, 0.03)]
    return problems.Quadratic(np.array([np.diag(c) for c in curvatures]), np.array([[0.0, 3.0], [3.0, 0.0], [3.0, 3.0]]))


@pytest.fixture
def federated_problem(request: pytest.FixtureRequest) -> Any:
    """A small federated problem with a certified optimum, `fedtheory.problems.Problem`; a test runs
    once for each kind.

    ``@pytest.mark.federated_problem("quadratic", "logistic")`` chooses kinds, as does
    ``@pytest.mark.parametrize("federated_problem", ["quadratic"], indirect=True)``.
    ``problem.optimum()`` is the optimum, ``problem.objective(x)`` F, ``problem.gradient(x)`` (N,
    d).
    """
    kind = getattr(request, "param", "quadratic")
    _check_kind(kind)
    if kind not in _made:
        made = _made[kind] = _make(kind)
        made.optimum()
        made.name = kind
    return copy.copy(_made[kind])  # what a test changes of it is gone after the test


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    """With ``--rate-plots`` the figure of a failure that has something to draw, and its place below the failure's words."""
    outcome = yield
    folder = item.config.stash.get(FOLDER, None)
    error = call.excinfo.value if call.excinfo is not None else None
    if folder is None or not hasattr(error, "evidence") or not callable(getattr(error, "plot", None)):
        return
    stem = folder / _stem(item.nodeid)
    try:
        error.plot(stem)  # type: ignore[union-attr]
        told = f"{stem}.png, with its data in {stem.name}.csv and .json"
    except Exception as trouble:  # a figure must not hide the failure that it is about
        told = f"no figure: {type(trouble).__name__}: {trouble}"
    outcome.get_result().sections.append(("fedtheory: figure", told))


def _stem(nodeid: str) -> str:
    """A file's name for a test: readable, and another one for every test."""
    plain = re.sub(r"[^\w.-]+", "-", nodeid.replace(".py::", "-")).strip("-.")
    if plain == nodeid or len(plain) > LONGEST or plain != nodeid.replace(".py::", "-").replace("/", "-"):
        return f"{plain[:LONGEST]}-{hashlib.sha256(nodeid.encode()).hexdigest()[:6]}"
    return plain
