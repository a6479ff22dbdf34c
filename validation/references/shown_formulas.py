"""The formulas of the papers as they are shown, written where they are looked up: `make formulas`.

`fedtheory/theorems/formulas.json` has the LaTeX that SymPy makes of the code of closed forms,
`fedtheory/report/formulas.json` every formula as one line of text: both take longer to make than
all else that `fedtheory explain` does. `validation/frozen/formulas_as_worked.json` has the LaTeX of
every other form that compares two sides, from which its second writing was made. A test fails where
a file differs from what there is now: where a formula that is not made by code has changed, work
its sides again from the new one first.
"""

from __future__ import annotations

import json
from pathlib import Path

from fedtheory import report, theorems
from fedtheory.report.formulas import converted

LATEX, TEXT = (Path(part.__file__).with_name("formulas.json") for part in (theorems, report))
WORKED = Path(__file__).parents[1] / "frozen/formulas_as_worked.json"


def made() -> dict[Path, dict[str, str]]:
    """Contents of each file: 'statement [form]' -> LaTeX, and LaTeX -> text."""
    forms = {f"{s.id} [{f.name}]": f for s in theorems.all_statements() for f in s.forms}
    closed = {name: f.formula() for name, f in forms.items() if callable(f.formula)}
    written = {name: f for name, f in forms.items() if f.sides is not None and f.letters is None}
    every = {**{name: f.formula for name, f in forms.items()}, **closed}
    return {
        LATEX: closed,
        TEXT: {latex: converted(latex) for latex in every.values() if latex},
        WORKED: {name: f.latex for name, f in written.items()},
    }


if __name__ == "__main__":
    for file, formulas in made().items():
        text = json.dumps(formulas, indent=1, sort_keys=True, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")
        print(f"{len(formulas)} formulas: {file}")
