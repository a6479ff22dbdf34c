"""Memory freed by a round serves the next: a long run asks for no more pages than a short one."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

RUN = """
import resource, sys
import numpy as np
from fedtheory import Uniform, simulate
from fedtheory.algorithms import FedAvg
from fedtheory.local import GradientSteps
from fedtheory.problems import random_quadratic
from fedtheory.simulation import rounds

if sys.argv[1] == "without":
    rounds._hold_freed_memory = lambda: None
problem = random_quadratic(20, 50, seed=1)
def pages(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    how = dict(sampling=Uniform(10), scenarios=600, local_solver=GradientSteps(steps=1, lr=0.01), record=())
    simulate(problem, FedAvg(), count, **how)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
pages(2)
print((pages(22) - pages(2)) / 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have ways of their own")
def test_rounds_take_no_new_pages():
    # a Dask cluster leaves its own limit in the environment of the process that started it, which settles what glibc keeps
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}

    def pages_of_a_round(how):
        run = subprocess.run([sys.executable, "-c", RUN, how], capture_output=True, text=True, check=True, env=environment)
        return float(run.stdout)

    assert pages_of_a_round("with") < 50 < pages_of_a_round("without")
