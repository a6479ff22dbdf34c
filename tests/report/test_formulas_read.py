"""Every formula that this package brings can be read."""

from __future__ import annotations

from fedtheory.report.formulas import warnings_of
from fedtheory.theory.judge.registry import all_statements, is_ours, paper_of


def test_every_formula_of_ours_is_read():
    ours = [s for s in all_statements() if is_ours(paper_of(s))]
    assert len(ours) > 50
    assert [line for s in ours for line in warnings_of(s, "")] == []
