"""Imports that a start must not make: large packages are loaded when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedtheory.theorems import PAPERS

SLOW = {
    "matplotlib", "cvxpy", "torch", "numba", "sympy", "pandas", "joblib", "scipy.stats", "scipy.optimize", "scipy.sparse",
    "scipy.special", "sklearn", "latex2mathml",
}  # fmt: skip
OPTIMUM = {"cvxpy", "scipy.optimize", "scipy.sparse", "scipy.special"}
SHOWING = ["list", *(f"explain {paper.id}/" for paper in PAPERS)]
JUDGING = [f"verify theorem-3.1 --problem diabetes{how}" for how in ("", " --participants 2 --rounds 2 --mode monte-carlo")]


@pytest.mark.parametrize(("commands", "allowed"), [(SHOWING, set()), (JUDGING, OPTIMUM)], ids=["showing", "judging"])
def test_a_start_loads_nothing_large(commands, allowed):
    """Neither what tests import, nor the command line, nor any of its commands, one after another in one process."""
    code = f"""
import sys
from fedtheory.testing import *
from fedtheory.cli import app
for command in {commands}:
    app(command.split(), standalone_mode=False)
print("LOADED", *sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(out.split("LOADED ")[-1].split())
    assert "fedtheory.theorems" in loaded
    assert not loaded & (SLOW - allowed)
    assert commands is JUDGING or "fedtheory.theory.studies.search" not in loaded  # nor what searches with it


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_cycles_are_not_looked_for_among_what_the_command_line_imports(before):
    """Not while it is imported, and not later: it is frozen. Whether they are looked for at all is left as it was."""
    code = f"""
import gc
looked = []
gc.callbacks.append(lambda phase, info: looked.append(phase))
gc.{before}()
import numpy  # before: not of the command line
looked.clear()
import fedtheory.cli
print(len(looked), gc.isenabled(), gc.get_freeze_count() > 10_000, gc.get_threshold()[0])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    # a generation or two before the package's own first line, where Python's threshold still holds
    assert int(out[0]) < 20 and out[1:] == [str(before == "enable"), "True", "20000"]
