"""Theorems written by hand for Coq: its kernel accepts them, and refuses each with a constant that is a tenth better."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from repository import ROOT

pytestmark = pytest.mark.skipif(shutil.which("coqc") is None, reason="Coq is not installed: no coqc on the PATH")

LIBRARY, THEOREMS = ROOT / "fedtheory" / "worst_cases" / "coq", ROOT / "validation" / "coq"
FILES = {"Fedtheory": ["definitions", "facts"], "Theorems": ["squares", "cohorts", "round", "feddyn", "fedelasticnet",
         "fedavg_cohorts", "feddyn_rate"]}  # each after those that it needs
AXIOMS = {  # those that Coq's own real numbers rest on
    "ClassicalDedekindReals.sig_forall_dec", "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
}  # fmt: skip


def coqc(folder: Path, file: Path) -> subprocess.CompletedProcess[str]:
    command = ["coqc", "-q", "-Q", str(folder / "Fedtheory"), "Fedtheory", "-Q", str(folder / "Theorems"), "Theorems", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The folder where all files are compiled, and what Coq printed of each."""
    folder, printed = tmp_path_factory.mktemp("coq"), {}
    for name, source in (("Fedtheory", LIBRARY), ("Theorems", THEOREMS)):
        (folder / name).mkdir()
        for stem in FILES[name]:
            file = shutil.copy(source / f"{stem}.v", folder / name)
            ended = coqc(folder, Path(file))
            assert ended.returncode == 0, ended.stderr
            printed[stem] = ended.stdout
    return folder, printed


def test_no_file_is_left_out():
    assert sorted(FILES["Theorems"]) == sorted(file.stem for file in THEOREMS.glob("*.v"))


def test_theorems_rest_on_the_axioms_of_the_real_numbers_alone(compiled):
    _, printed = compiled
    for stem in FILES["Theorems"]:
        text = (THEOREMS / f"{stem}.v").read_text()
        assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Conjecture)\b", text)
        asked = text.count("Print Assumptions")
        assert printed[stem].count("Axioms:") == asked and (asked or stem in ("squares", "round"))
        assert set(re.findall(r"^(\w+\.[\w.]+)", printed[stem], re.MULTILINE)) <= AXIOMS


@pytest.mark.parametrize(("stem", "true", "false"), [
    ("cohorts", "(INR N - INR P) / (INR P * (INR N - 1))", "9 / 10 * ((INR N - INR P) / (INR P * (INR N - 1)))"),
    ("cohorts", "(drawn o) k) = INR P / INR N", "(drawn o) k) = 9 / 10 * (INR P / INR N)"),
    ("feddyn", "then 4 * lam / (2 + lam) ^ 2 else 2 / lam", "then 11 / 10 * (4 * lam / (2 + lam) ^ 2) else 2 / lam"),
    ("feddyn", "(2 + lam) ^ 2 else 2 / lam", "(2 + lam) ^ 2 else 11 / 10 * (2 / lam)"),
    ("feddyn", "then 4 * (lam + 2 * s)", "then 44 / 10 * (lam + 2 * s)"),
    ("feddyn", "8 * lam * s * (1 + lam) ^ 2) - s * lam ^ 2)", "88 / 10 * lam * s * (1 + lam) ^ 2) - s * lam ^ 2)"),
    ("fedelasticnet", "(1 + sqrt 13) / 3 <= lam", "9 / 10 * (1 + sqrt 13) / 3 <= lam"),
    ("fedelasticnet", "<= V x h - kappa_0 lam / L", "<= V x h - 11 / 10 * kappa_0 lam / L"),
    ("fedavg_cohorts", "growth N P L step := 2 * spread", "growth N P L step := 9 / 10 * 2 * spread"),
    ("fedavg_cohorts", "step * L < 2 ->", "step * L < 22 / 10 ->"),
    ("feddyn_rate", "Rmax (alpha / (alpha + mu)) (L / (L + alpha))", "Rmax (9 / 10 * alpha / (alpha + mu)) (L / (L + alpha))"),
    ("feddyn_rate", "Rmax (alpha / (alpha + mu)) (L / (L + alpha))", "Rmax (alpha / (alpha + mu)) (9 / 10 * L / (L + alpha))"),
])  # fmt: skip
def test_a_constant_that_is_a_tenth_better_is_refused(compiled, tmp_path, stem, true, false):
    """The one change is in the statement: with it the theorem's own proof fails."""
    text = (THEOREMS / f"{stem}.v").read_text()
    assert true in text
    (changed := tmp_path / f"{stem}.v").write_text(text.replace(true, false))
    ended = coqc(compiled[0], changed)
    assert ended.returncode != 0 and "Error" in ended.stderr
