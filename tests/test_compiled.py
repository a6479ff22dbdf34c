"""Compiled functions run without Numba as well, with the same results, and say so once."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import without_numba

from fedtheory import compiled, errors
from fedtheory.local import LocalObjective, SubgradientSliding

PATH = os.pathsep.join([str(Path(compiled.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
BLOCKED = f"""
import json, sys, warnings
sys.modules["numba"] = None
sys.path.insert(0, {str(Path(__file__).parent)!r})
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import without_numba
    found = without_numba.results()
import fedtheory.cli
print(json.dumps([found, [str(w.message) for w in told]]))
"""


@pytest.fixture(scope="module")
def without():
    """(results, warnings) of a Python that has no Numba."""
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_same_results_without_numba(without):
    here = without_numba.results()
    assert here.keys() == without[0].keys()
    for name, arrays in here.items():
        for one, other in zip(arrays, without[0][name], strict=True):
            assert np.ptp(one) > 0
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-12, err_msg=name)


def test_numba_is_loaded_once_it_is_worth_it(monkeypatch):
    """After so many calls, and at once where it is there already."""
    monkeypatch.setattr(compiled, "available", lambda: True)
    monkeypatch.setitem(sys.modules, "numba", compiled)
    assert compiled.Worth(calls=2)()
    monkeypatch.delitem(sys.modules, "numba")
    worth = compiled.Worth(calls=2)
    assert [worth(), worth(), worth(), worth()] == [False, False, True, True]


def test_what_is_kept_on_the_disk_goes_by_all_that_it_was_compiled_from(tmp_path, monkeypatch):
    """A loop of one file is compiled anew where a constant or a function of another one has changed, and only there.

    The first one is compiled in another process, so that what is kept is found by nothing that each process has of its own.
    """
    pytest.importorskip("numba")
    kept = "from fedtheory.compiled import njit\n\n\n@njit(cache=True)\ndef {}\n"
    (tmp_path / "upper.py").write_text("from lower import SIZE, half\n" + kept.format("whole(x):\n    return SIZE * half(x)"))
    # Python's own bytecode goes by whole seconds and the size of a file, so it is not kept
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    told = []
    for size, part in ((4, 2), (6, 2), (6, 3)):
        (tmp_path / "lower.py").write_text(f"SIZE = {size}\n" + kept.format(f"half(x):\n    return x / {part}"))
        if not told:
            env = {**os.environ, "PYTHONPATH": PATH, "PYTHONDONTWRITEBYTECODE": "1"}
            subprocess.run([sys.executable, "-c", "import upper; upper.whole(3.0)"], check=True, cwd=tmp_path, env=env)
        importlib.invalidate_caches()
        compiled._digest.cache_clear()  # a process reads a file once
        whole = importlib.import_module("upper").whole
        told.append((whole(3.0), sum(whole.stats.cache_hits.values())))
        del sys.modules["upper"], sys.modules["lower"]
    assert told == [(6.0, 1), (9.0, 0), (6.0, 0)]


@pytest.mark.parametrize("module", ["local.quadratic_kernels", "clients.kernels", "messages.selection_kernels"])
def test_no_loop_is_compiled_within_another_function(module):
    """Numba never finds such a one on the disk again, as what it closes over is another object in every process."""
    pytest.importorskip("numba")
    found = vars(importlib.import_module(f"fedtheory.{module}")).values()
    compiled_here = [f for f in found if hasattr(f, "py_func")]
    assert compiled_here and not any(f.py_func.__closure__ for f in compiled_here)


def test_one_notice_says_why(without):
    [told] = without[1]
    assert told.startswith("no compiled loops (import of numba halted; None in sys.modules): ")


@pytest.fixture
def absent(monkeypatch):
    """Numba cannot be imported from here on."""
    for kept in (compiled._why_not, compiled.tell_once):
        kept.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    yield
    monkeypatch.undo()
    for kept in (compiled._why_not, compiled.tell_once):
        kept.cache_clear()


def test_the_compiled_engine_asked_for_is_refused(absent):
    with (
        pytest.warns(UserWarning, match="no compiled loops"),
        pytest.raises(errors.MissingCapability, match="Numba cannot be imported: use engine='auto' or 'numpy'"),
    ):
        SubgradientSliding(engine="numba").check(without_numba.problem())


@pytest.fixture
def networks():
    """The modules of networks, imported while Numba is at hand, so that what they compile stays compiled for other tests."""
    pytest.importorskip("torch")
    from fedtheory.neural import penalty
    from fedtheory.neural.engines import compiled as walks

    return penalty, walks


def test_networks_take_the_engines_of_torch(networks, absent):
    import torch

    penalty, walks = networks
    y = torch.zeros((1, 3))
    with pytest.warns(UserWarning, match="no compiled loops"):
        assert not penalty.Penalty(LocalObjective(y, curvature=1.0), 0.0, False, y).compiled
    assert not walks.fits(None, "cpu", 0.0)
