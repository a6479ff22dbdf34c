"""A stranger's file at the command line: words that are missing or broken cost no work, and every command says the same of it."""

import textwrap

import pytest
from command_line import call

from fedtheory.verification import registry

HEAD = """
from fractions import Fraction
import numpy as np
from fedtheory.algorithms import FedAvg
from fedtheory.authoring import *
ONE = GradientSteps(1, lr=lambda c: 1 / c.beta)
SMALL = SmoothConvex(clients=1, dimension=1)
paper = Paper("strange")
"""


@pytest.fixture
def written(tmp_path):
    """What writes a file of a statement called 'a' and gives its path."""

    def write(body, name="file.py", **declared):
        how = {"about": "FedAvg()", "local": "ONE", "problems": "SMALL", **declared}
        arguments = ", ".join(f"{k}={v}" for k, v in how.items())
        body = textwrap.indent(textwrap.dedent(body).strip(), "    ")
        file = tmp_path / name
        file.write_text(f'{HEAD}@paper.statement("a", {arguments})\ndef a(q):\n    """The loss goes down."""\n{body}\n')
        return file

    yield write
    for known in [p for p in registry.papers() if p.source.startswith(str(tmp_path))]:
        registry._forget(known)


def small_campaign(file, out):
    return call("verify", file, "--quick", "--budget", 40, "--workers", 1, "--out", out)


def test_a_form_without_latex_is_shown_by_its_statement(written, tmp_path):
    file = written("yield printed(le(q.F_next, q.F))")
    assert "(no formula was given) The loss goes down." in call("explain", file).stdout
    done = small_campaign(file, tmp_path / "out")
    assert "(no formula was given) The loss goes down." in (tmp_path / "out/report.html").read_text()
    assert "warning" not in done.stderr


@pytest.mark.parametrize("latex, why", [(r"r'\frac{1'", "no LaTeX that can be read"), (r"'\frac{1}{2}'", "control character")])
def test_broken_latex_is_shown_as_it_stands_with_a_warning(written, tmp_path, latex, why):
    file = written(f"yield printed(le(q.F_next, q.F), {latex})")
    told = call("explain", file)
    out = tmp_path / "out"
    done = small_campaign(file, out)
    for result in (told, done):
        [line] = [line for line in result.stderr.splitlines() if line.startswith("warning")]
        assert "file.py, strange/a [printed]" in line and why in line
    written_as = r"\frac{1" if why.startswith("no") else r"\x0crac{1}{2}"
    assert written_as in told.stdout and written_as in (out / "report.html").read_text()


def test_readable_latex_is_not_warned_of(written):
    told = call("explain", written(r"yield printed(le(q.F_next, q.F), r'F(x^+) \le F(x)')"))
    assert told.stderr == "" and "F(x⁺) ≤ F(x)" in told.stdout


def test_a_counterexample_without_a_formula_is_replayed(written, tmp_path):
    file = written("yield printed(le(q.F, q.F_next))")
    small_campaign(file, tmp_path / "out")
    [witness] = (tmp_path / "out/witnesses").iterdir()
    assert "violated" in call("replay", witness, "--paper", file).stdout
