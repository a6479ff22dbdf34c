"""Final states of workers: one array, where they are large, that nobody puts together."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, problems, simulate
from fedtheory.parallel import fetch, stow


class State(NamedTuple):
    x: np.ndarray
    memory: np.ndarray


LARGE = 2**17 + 3  # numbers of a scenario, more than a mebibyte


def test_what_lies_in_one_file_is_one_array(tmp_path):
    whole = np.arange(3.0 * LARGE).reshape(3, LARGE)
    parts = [State(np.ones((n, 2)), whole[a : a + n]) for a, n in ((0, 1), (1, 2))]
    left = [stow(part, str(tmp_path), "final", first) for part, first in zip(parts, (0, 1), strict=True)]
    x, memory = map(fetch, zip(*left, strict=True))
    assert len(x) == 2 and x[0] is parts[0].x and [p.name for p in tmp_path.iterdir()] == ["final-1"]
    assert len(memory) == 1 and type(memory[0]) is np.ndarray and (memory[0] == whole).all()
    memory[0][0, 0] = 7.0  # in this process alone
    assert fetch([left[0].memory])[0][0, 0] == 0.0


@pytest.mark.parametrize("change", ["order", "gap", "shape", "dtype"])
def test_what_does_not_go_on_is_fetched_apart(tmp_path, change):
    a, b = np.ones((1, 1, LARGE)), np.full((1, 1, LARGE), 2.0)
    b = b.reshape(1, LARGE, 1) if change == "shape" else b.astype(np.int64) if change == "dtype" else b
    left = [stow(State(a, a), str(tmp_path), "f", 0), stow(State(b, b), str(tmp_path), "f", 2 if change == "gap" else 1)]
    order = [1, 0] if change == "order" else [0, 1]
    found = fetch([left[i].memory for i in order])
    for array, i in zip(found, order, strict=True):
        wanted = (a, b)[i]
        assert array.shape == wanted.shape and array.dtype == wanted.dtype and (array == wanted).all()


def test_workers_leave_the_state_of_one_process(monkeypatch, tmp_path):
    """Also from a later scenario on; what lay in the folder is still there when the folder is not."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.standard_normal((40, 6, 50)), rng.standard_normal((40, 6)))
    common = dict(sampling=Uniform(3), scenarios=150, seed=4, first_scenario=7, chunk=50)
    method = algorithms.FedElasticNetDyn(l1=0.1, l2=9.0)
    for kept in (False, True):
        one, two = (simulate(problem, method, 2, workers=n, keep_states=kept, **common) for n in (1, 2))
        assert not list(Path(tmp_path).glob("fedtheory-*"))
        for state, other in zip([one.final, *(one.states or [])], [two.final, *(two.states or [])], strict=True):
            for a, b in zip(state, other, strict=True):
                assert type(b) is np.ndarray and a.shape == b.shape and a.tobytes() == b.tobytes() and b.flags.writeable
    again = simulate(problem, method, 3, resume=(2, two.final), sampling=Uniform(3), scenarios=150, seed=4)
    assert np.isfinite(again.x).all()
