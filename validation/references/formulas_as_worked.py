"""The formulas that the worked instances were written from, as they were shown then.

    python validation/references/formulas_as_worked.py   # writes formulas_as_worked.json

A form whose sides are closed expressions needs no entry: its formula is made by its code. Of every
other one the number of its worked instance was computed from the formula in this file. A test fails
where a form shows another formula: work its instance again from the new one, and then write the
file anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from fedtheory.theorems import all_statements

FILE = Path(__file__).with_suffix(".json")


def shown() -> dict[str, str]:
    """'statement [form]' -> LaTeX, of every form that compares two sides and is not closed."""
    forms = ((f"{s.id} [{f.name}]", f) for s in all_statements() for f in s.forms)
    return {name: f.latex for name, f in forms if f.sides is not None and f.letters is None}


if __name__ == "__main__":
    FILE.write_text(json.dumps(shown(), indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(shown())} formulas: {FILE}")
