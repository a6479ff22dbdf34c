"""What a start must not import: large packages are loaded when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = {
    "matplotlib", "cvxpy", "torch", "numba", "sympy", "pandas", "joblib", "scipy.stats", "scipy.optimize", "scipy.sparse",
    "scipy.special",
}  # fmt: skip
EXPLAIN = "import sys; sys.argv[1:] = ['explain', 'theorem-3.1']\nfrom fedtheory.cli import app\napp(standalone_mode=False)"
STARTS = {
    "the package": ("import fedtheory", ()),
    "what tests import": ("from fedtheory.testing import *", ()),
    "the command line": ("import fedtheory.cli", ()),
    # its formulas are made from the code of the check, by sympy
    "explain": (EXPLAIN, ("sympy",)),
}


@pytest.mark.parametrize("what", STARTS)
def test_a_start_loads_nothing_large(what):
    code, allowed = STARTS[what]
    told = "import sys; print('LOADED', *sys.modules)"
    out = subprocess.run([sys.executable, "-c", f"{code}\n{told}"], capture_output=True, text=True, check=True).stdout
    loaded = set(out.split("LOADED ")[-1].split())
    assert "fedtheory" in loaded
    assert not loaded & (SLOW - set(allowed))
