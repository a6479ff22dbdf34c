"""lhs/rhs is shown only where it says how tight a bound is."""

import math
from fractions import Fraction as Q

import pytest
from statements_at_hand import descent, instance, sentence

from fedtheory.algorithms import FedAvg
from fedtheory.report.tables import below_one
from fedtheory.theory import GradientSteps, Paper, Quadratics, SmoothConvex, StronglyConvex, form, le, printed, study
from fedtheory.theory.judge import campaign, registry
from fedtheory.theory.judge.check import SAME_AT_START, Check
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.setting import Plan
from fedtheory.theory.judge.summary import ratio_text
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import check
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.ratios import NEGATIVE, NO_RATIO, OFFSET, moves_with_offset
from fedtheory.theory.studies.findings import Tightness
from fedtheory.theory.studies.search import Search, scores


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
    paper = descent()
    registry.papers()
    registry.register(paper)
    [statement] = paper.statements
    checks = [c for i in paper.setting.instances(Plan(scale=0.2)) for c in paper.setting.check(i, [statement])]
    assert checks and all(NO_RATIO in c.where for c in checks if c.verdict in ("holds", "violated"))
    assert all(math.isnan(row.tightness_worst) for row in campaign.summarise(checks, statements=[statement]))


def test_rows_of_other_papers_keep_their_ratio():
    statement = registry.all_statements()[0]
    made = statement.forms[0]
    rule = next(iter(made.established))
    plain = [Check(statement.id, made.name, rule, "holds", "exact", tightness=t, slack=0.1, lhs=-1.0, rhs=1.0) for t in (0.25, 0.75)]
    [row] = [r for r in campaign.summarise(plain, statements=[statement]) if (r.form, r.rule) == (made.name, rule)]
    assert (row.tightness_worst, row.tightness_median) == (0.75, 0.5)


@pytest.mark.parametrize("value, text", [
    (0.99999983, "<1 (0.9999998)"), (1.0, "1"), (1 - 1e-13, "1"), (0.5, "0.5"), (0.99949, "0.9995"), (1.0000123, ">1 (1.00001)"),
    (float("inf"), "inf"), (0.0, "0"),
])  # fmt: skip
def test_what_is_not_attained_is_not_shown_as_one(value, text):
    assert ratio_text(value, 4) == text


def test_a_table_says_that_a_ratio_is_below_one():
    assert [below_one(v) for v in (0.99991, 1.0, 0.42)] == ["<1", "1", "0.42"]


def test_one_alone_is_attained():
    assert Tightness("printed", 1.0, "f", True).up_to == "lhs/rhs up to 1"
    assert Tightness("printed", 1.0, "f").up_to == "lhs/rhs up to 1 but for rounding"
    assert Tightness("printed", 0.9999999, "f").up_to == "lhs/rhs up to <1 (0.9999999)"


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("offset, same, ratio", [(0, True, Q(1, 2)), (1, False, Q(18, 37))])
def test_a_runs_ratio_is_that_after_a_start_at_which_both_sides_are_one_number(exact, offset, same, ratio):
    """f = x^2 with steps of 1/(2 beta): d_t = 9/4^t, against 9/2^t the ratio is (1/2)^t, 1 at t = 0 and 1/2 at most afterwards.

    Against 9/2^t + 1/4 it is 36/37 at t = 0, which counts.
    """

    def claim(q):
        """d_t <= d_0/2^t."""
        yield printed(le(q.distance_sq, q.power(Q(1, 2), q.t) * q.distance_sq[0] + Q(offset, 4)))

    paper = Paper("start")
    about = {"about": FedAvg(), "local": GradientSteps(1, lr=lambda c: 1 / (2 * c.beta)), "problems": StronglyConvex((1, 2))}
    statement = paper.statement("start", over="run", **about)(claim)
    data = {"h": [["2"]], "c": [["0"]], "weights": ["1"], "start": ["3"], "rounds": 2}
    view = MethodSetting.of(statement).view(Draw.from_data(data), exact)
    [found] = check(statement, view)
    assert (SAME_AT_START in found.where) is same
    assert found.tightness == pytest.approx(0.5 if same else 36 / 37)
    words = "with measured/bound at most 0.5 after t = 0, where both sides are one number"
    assert (words in Checks([found], statement.statement).sentence) is same
    if not exact:
        assert scores(statement, view).ratio["printed"] == pytest.approx(found.tightness)


def test_sides_that_are_zero_but_for_rounding_have_no_ratio():
    """||grad F(x*)||^2 is 0, and 1e-32 in floats: half of it is no tightness; a side that is not 0 has one."""
    def body(q):
        zero = q.sq(q.gradients(q.x_star).mean(axis=-2))
        yield printed(le(zero, 2 * zero))
        yield form("more", le(zero + q.gradient_sq, 2 * zero + 2 * q.gradient_sq))

    of = sentence(body, problems=SmoothConvex((1, 3), (1, 2)))
    setting = MethodSetting.of(of)
    drawn = instance([[3], [7], [Q(5, 11)]], [[Q(1, 7)], [Q(5, 3)], [Q(-2, 7)]], [2])
    looked = Search(setting, 0)
    assert scores(of, setting.view(drawn, exact=False)).ratio["printed"] == 0.5, "the floats have one"
    looked.look(drawn)
    assert "printed" not in looked.tightest and looked.tightest["more"].score == pytest.approx(0.5)
    assert [t.form for t in study(of, budget=40, necessity=False).tightness] == ["more"]
