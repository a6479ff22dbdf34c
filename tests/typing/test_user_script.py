"""Answers of mypy on a user's script agree with what happens."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_script_that_the_type_checker_reads_runs():
    runpy.run_path(str(Path(__file__).with_name("user.py")), run_name="__main__")
