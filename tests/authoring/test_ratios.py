"""lhs/rhs is shown only where it says how tight a bound is."""

import math

import pytest
from statements_at_hand import descent, sentence

from fedtheory.authoring import Quadratics, form, le, printed, study
from fedtheory.authoring.ratios import NEGATIVE, NO_RATIO, OFFSET, moves_with_offset
from fedtheory.verification import campaign, registry
from fedtheory.verification.check import Check
from fedtheory.verification.setting import Plan


@pytest.mark.parametrize("over, sides, moves", [
    ("round", lambda q: le(q.F_next, q.F), True),
    ("round", lambda q: le(q.F_next - q.F, q.gradient_sq / q.beta), False),
    ("round", lambda q: le(q.gap_next, q.gap), False),
    ("round", lambda q: le(q.value(q.x_next), q.F), True),
    ("run", lambda q: le(q.gap[-1], q.gap[0]), False),
    ("run", lambda q: le(q.F[-1], q.F[0]), True),
    ("run", lambda q: le(q.gap_at(q.average_x), q.beta * q.distance_sq[:1]), False),
    ("run", lambda q: le(q.distance_sq[-1], q.distance_sq[0]), False),
])  # fmt: skip
def test_forms_that_move_with_a_constant_added_to_F_are_known(over, sides, moves):
    statement = sentence(lambda q: [printed(sides(q))], over=over)
    assert statement.moving == (frozenset({"printed"}) if moves else frozenset())
    assert moves_with_offset(statement, statement.probe) == statement.moving


def test_no_ratio_is_shown_of_sides_that_are_negative_or_move_with_F():
    statement = sentence(
        lambda q: [
            form("moves", le(q.F_next, q.F)),
            form("negative", le(-q.gap_next, q.gap)),
            form("means something", le(q.distance_sq_next, q.distance_sq)),
        ],
        problems=Quadratics(clients=1, dimension=1),
    )
    found = study(statement, budget=60, necessity=False)
    rows = {row.form: row for row in found.rows}
    assert all(row.verdict == "holds" for row in rows.values())
    assert math.isnan(rows["moves"].tightness_worst) and math.isnan(rows["negative"].tightness_worst)
    assert 0 < rows["means something"].tightness_worst <= 1 + 1e-9
    [one] = found.studies
    assert (one.no_ratio("moves"), one.no_ratio("negative"), one.no_ratio("means something")) == (OFFSET, NEGATIVE, "")
    told = str(found)
    assert f"moves: no lhs/rhs is shown: {OFFSET}" in told and f"negative: no lhs/rhs is shown: {NEGATIVE}" in told
    assert "moves: lhs/rhs up to" not in told


def test_a_campaigns_row_has_no_ratio_where_one_instance_has_none():
    paper = descent().as_paper()
    registry.papers()
    registry.register(paper)
    try:
        [statement] = paper.statements
        checks = [c for i in paper.setting.instances(Plan(scale=0.2)) for c in paper.setting.check(i, [statement])]
        assert checks and all(NO_RATIO in c.where for c in checks if c.verdict in ("holds", "violated"))
        assert all(math.isnan(row.tightness_worst) for row in campaign.summarise(checks, statements=[statement]))
    finally:
        registry._forget(paper)


def test_rows_of_other_papers_keep_their_ratio():
    statement = registry.all_statements()[0]
    made = statement.forms[0]
    rule = next(iter(made.established))
    plain = [Check(statement.id, made.name, rule, "holds", "exact", tightness=t, slack=0.1, lhs=-1.0, rhs=1.0) for t in (0.25, 0.75)]
    [row] = [r for r in campaign.summarise(plain, statements=[statement]) if (r.form, r.rule) == (made.name, rule)]
    assert (row.tightness_worst, row.tightness_median) == (0.75, 0.5)
