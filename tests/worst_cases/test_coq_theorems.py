"""Theorems written by hand: Coq accepts them, and refuses each with a constant a tenth better."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from repository import ROOT

pytestmark = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="Coq is not installed: no coqc on the PATH"
)

LIBRARY, THEOREMS = ROOT / "fedtheory" / "worst_cases" / "coq", ROOT / "validation" / "coq"
NEEDED = [  # of the library, each after those it needs
    "definitions", "facts", "methods_defined", "cohorts_defined", "cohorts", "psd", "checker",
    "bounds", "cohort_bounds", "adequacy",
]  # fmt: skip
WRITTEN = [
    "squares", "round", "feddyn", "fedelasticnet", "feddyn_rate", "scaffold_rate",
    "fedavg_cohorts", "fedavg_two_of_four", "fedavg_steps",
]  # fmt: skip
AXIOMS = {  # those that Coq's own real numbers rest on
    "ClassicalDedekindReals.sig_forall_dec", "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
}  # fmt: skip


def coqc(folder: Path, file: Path) -> subprocess.CompletedProcess[str]:
    of = [x for name in ("Fedtheory", "Theorems") for x in ("-Q", name, name)]
    return subprocess.run(
        ["coqc", "-q", *of, str(file)],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The folder where all files are compiled, and what Coq printed of each."""
    folder, printed = tmp_path_factory.mktemp("coq"), {}
    for name, source, stems in (("Fedtheory", LIBRARY, NEEDED), ("Theorems", THEOREMS, WRITTEN)):
        (folder / name).mkdir()
        for stem in stems:
            ended = coqc(folder, Path(shutil.copy(source / f"{stem}.v", folder / name)))
            assert ended.returncode == 0, ended.stderr
            printed[stem] = ended.stdout
    return folder, printed


def test_no_file_is_left_out():
    assert sorted(WRITTEN) == sorted(file.stem for file in THEOREMS.glob("*.v"))


def source(stem: str) -> str:
    """The text of a file, here or in the library; that of cohorts with its definitions in it."""
    text = (LIBRARY if stem in NEEDED else THEOREMS).joinpath(f"{stem}.v").read_text()
    if stem != "cohorts":
        return text
    definitions = source("cohorts_defined").partition("Open Scope R_scope.\n")[2]
    head, required, rest = text.partition("From Fedtheory Require Export cohorts_defined.\n")
    head += "From Fedtheory Require Export definitions.\n"
    assert required
    return head + rest.replace("Open Scope R_scope.\n", f"Open Scope R_scope.\n{definitions}", 1)


def test_theorems_rest_on_the_axioms_of_the_real_numbers_alone(compiled):
    _, printed = compiled
    for stem in ("cohorts", "adequacy", *WRITTEN):
        more = {"Classical_Prop.classic"} if stem == "adequacy" else set()
        text = source(stem)
        assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Conjecture)\b", text)
        asked = text.count("Print Assumptions")
        assert printed[stem].count("Axioms:") == asked and (asked or stem in ("squares", "round"))
        assert set(re.findall(r"^(\w+\.[\w.]+)", printed[stem], re.MULTILINE)) <= AXIOMS | more


@pytest.mark.parametrize(("stem", "true", "false"), [
    ("cohorts", ":= (INR N - INR P) / (INR P", ":= 9 / 10 * (INR N - INR P) / (INR P"),
    ("cohorts", "(drawn o) k) = INR P / INR N", "(drawn o) k) = 9 / 10 * (INR P / INR N)"),
    ("feddyn", "then 4 * lam / (2 + lam) ^ 2 else", "then 44 / 10 * lam / (2 + lam) ^ 2 else"),
    ("feddyn", "(2 + lam) ^ 2 else 2 / lam", "(2 + lam) ^ 2 else 11 / 10 * (2 / lam)"),
    ("feddyn", "then 4 * (lam + 2 * s)", "then 44 / 10 * (lam + 2 * s)"),
    ("feddyn", "+ 8 * lam * s * (1 + lam) ^ 2) - s", "+ 88 / 10 * lam * s * (1 + lam) ^ 2) - s"),
    ("fedelasticnet", "(1 + sqrt 13) / 3 <= lam", "9 / 10 * (1 + sqrt 13) / 3 <= lam"),
    ("fedelasticnet", "<= V x h - kappa_0 lam / L", "<= V x h - 11 / 10 * kappa_0 lam / L"),
    ("fedavg_cohorts", "2 * sampling_spread N P *", "18 / 10 * sampling_spread N P *"),
    ("fedavg_cohorts", "step * L < 2 ->", "step * L < 22 / 10 ->"),
    ("fedavg_two_of_four", "1360162803", "1224146522"),
    ("fedavg_two_of_four", "sampling_spread N P <= 1 / 3 ->", "sampling_spread N P <= 11 / 30 ->"),
    ("fedavg_steps", "step * L <= 1 ->", "step * L <= 11 / 10 ->"),
    ("fedavg_steps", "- 2 * step * sum K", "- 22 / 10 * step * sum K"),
    ("fedavg_steps", "step ^ 3 * L * (INR K", "9 / 10 * step ^ 3 * L * (INR K"),
    ("feddyn_rate", "Rmax (alpha / (alpha + mu))", "Rmax (9 / 10 * alpha / (alpha + mu))"),
    ("scaffold_rate", "INR K * step * L <= 3 / 10", "INR K * step * L <= 33 / 100"),
    ("scaffold_rate", "(((1 - mu * step) ^ 2) ^ K)", "((9 / 10 * (1 - mu * step) ^ 2) ^ K)"),
    ("scaffold_rate", "<= 4 / 7", "<= 22 / 35"),
    ("scaffold_rate", "^ 3 * L ^ 2 / (L - mu)", "^ 3 * L ^ 2 / (L - mu) / 11"),
    ("feddyn_rate", "(L / (L + alpha)).", "(9 / 10 * L / (L + alpha))."),
])  # fmt: skip
def test_a_constant_that_is_a_tenth_better_is_refused(compiled, tmp_path, stem, true, false):
    """The one change is in the statement: with it the theorem's own proof fails."""
    text = source(stem)
    assert true in text
    (changed := tmp_path / f"{stem}.v").write_text(text.replace(true, false))
    ended = coqc(compiled[0], changed)
    assert ended.returncode != 0 and "Error" in ended.stderr
