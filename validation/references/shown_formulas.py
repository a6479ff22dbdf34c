"""The formulas of the papers as they are shown, written where `fedtheory explain` finds them.

    python validation/references/shown_formulas.py   # writes the two files

`fedtheory/theorems/formulas.json` has the LaTeX that SymPy makes of the code of closed forms,
`fedtheory/report/formulas.json` every formula as one line of text. Both take longer to make than
all else that the command does. A test fails where a file differs from what the code makes.
"""

from __future__ import annotations

import json
from pathlib import Path

from fedtheory import report, theorems
from fedtheory.report.formulas import converted

LATEX, TEXT = (Path(part.__file__).with_name("formulas.json") for part in (theorems, report))


def made() -> dict[Path, dict[str, str]]:
    """Contents of each file: 'statement [form]' -> LaTeX, of closed forms, and LaTeX -> text."""
    forms = {f"{s.id} [{f.name}]": f.formula for s in theorems.all_statements() for f in s.forms}
    closed = {name: formula() for name, formula in forms.items() if callable(formula)}
    every = filter(None, (forms | closed).values())
    return {LATEX: closed, TEXT: {latex: converted(latex) for latex in every}}


if __name__ == "__main__":
    for file, formulas in made().items():
        text = json.dumps(formulas, indent=1, sort_keys=True, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")
        print(f"{len(formulas)} formulas: {file}")
