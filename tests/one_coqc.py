"""Many texts in one run of coqc, which takes longer to begin than to check one of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from fedtheory.worst_cases.coq import check

REFUSED = re.compile(
    r'^File "[^"]*", line (\d+), characters [^\n]*\n'
    r"The command has indeed failed with message:\n(.*?)(?=^File |\Z)",
    re.DOTALL | re.MULTILINE,
)
HEAD = """From Coq Require Import Reals List QArith ZArith Lra Lia.
From Fedtheory Require Import potentials cohort_bounds.
Open Scope R_scope.
"""
UNREAD = re.compile(r"[Ss]yntax error|not found|Can't find|already exists|not a declared|pending")


def bare(text: str) -> str:
    """The text of a theorem without what it requires, which `HEAD` has, and without its question."""
    return re.sub("^From .*\n", "", text, flags=re.MULTILINE).partition("Print Assumptions")[0]


def run(file: Path, text: str) -> tuple[str, list[str]]:
    """Compile a text as a file: what it prints, and why each `Fail` in it has failed.

    A `Fail` that does not fail is an error, and so is one whose text Coq cannot read.
    """
    file.write_text(text)
    of = check.LIBRARY
    ended = subprocess.run(
        ["coqc", "-q", "-test-mode", "-Q", check.compiled()[0] / of, of, file],
        cwd=file.parent, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    said = {int(line): " ".join(why.split()) for line, why in REFUSED.findall(ended.stdout)}
    assert len(said) == len(re.findall("^Fail ", text, re.MULTILINE))
    assert [why for why in said.values() if UNREAD.search(why)] == []
    return ended.stdout, [said[line] for line in sorted(said)]
