"""EFL's worked instances, and the comparison of a form's sides with their independent writing."""

from __future__ import annotations

import numpy as np
import worked_efl_claims
import worked_efl_elastic
import worked_efl_messages
import worked_efl_section_4 as section_4
import worked_efl_sections
import worked_efl_sentences
import worked_efl_sentences_4

SHEETS = (
    worked_efl_sections.WORKED, worked_efl_elastic.WORKED, worked_efl_messages.WORKED, worked_efl_sentences.WORKED,
    worked_efl_sentences_4.WORKED, worked_efl_claims.WORKED, section_4.FORMS,
)  # fmt: skip
# (statement, form, ...): the instance, and what gives both sides of it
WORKED = {(key[0].removeprefix("efl/"), *key[1:]): found for sheet in SHEETS for key, found in sheet.items()}


def compared(sides, lhs, rhs):
    """The library's sides are these; of an equality, the library keeps the difference."""
    found = [list(np.ravel(side)) for side in (sides.lhs, sides.rhs)]
    if sides.relation == "<=":
        assert found == [lhs, rhs]
    else:
        assert found[0] == [abs(a - b) for a, b in zip(lhs, rhs, strict=True)] and not any(found[1])
