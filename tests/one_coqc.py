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
UNREAD = re.compile(r"[Ss]yntax error|not found|Can't find|already exists|not a declared|pending")


def run(file: Path, text: str) -> tuple[str, list[str]]:
    """Compile a text as a file: what it prints, and why each `Fail` in it has failed.

    A `Fail` that does not fail is an error, and so is one whose text Coq cannot read.
    """
    file.write_text(text)
    folders = [check.compiled()[0] / check.LIBRARY, file.parent]
    ended = subprocess.run(
        ["coqc", "-q", "-test-mode", *(x for f in folders for x in ("-Q", f, f.name)), file],
        cwd=file.parent, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    said = {int(line): " ".join(why.split()) for line, why in REFUSED.findall(ended.stdout)}
    assert len(said) == len(re.findall("^Fail ", text, re.MULTILINE))
    assert [why for why in said.values() if UNREAD.search(why)] == []
    return ended.stdout, [said[line] for line in sorted(said)]
