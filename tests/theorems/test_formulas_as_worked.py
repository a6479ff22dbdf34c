"""The formula shown for a form that is not closed is the one that its worked number was computed from."""

from __future__ import annotations

import json

from formulas_as_worked import FILE, shown


def test_every_formula_is_the_one_that_was_worked():
    worked, now = json.loads(FILE.read_text(encoding="utf-8")), shown()
    other = sorted(name for name in worked.keys() | now.keys() if worked.get(name) != now.get(name))
    assert not other, f"{other[:5]}: work the instance again from the formula, then run validation/references/formulas_as_worked.py"
