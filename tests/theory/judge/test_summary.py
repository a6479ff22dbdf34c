"""Checks in a sentence, as rows and as HTML; and the example of three numbers."""

import math
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from core_forms import form

from fedtheory import Uniform, problems, theorems
from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.theory.judge.check import Check, judge, judge_statistical
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.statement import Statement, eq, le

EXAMPLE = Path(__file__).parents[3] / "examples" / "three_numbers.py"
HELD = Check("p/s", "repaired", "any", "holds", "exact", tightness=0.8125, lhs=0.5, rhs=1.0, slack=0.5, count=1)
FAILED = Check("p/s", "printed", "any", "violated", "exact", lhs=0.53, rhs=0.12, tightness=4.4, slack=-0.6, where={"T": 43}, count=9)


def on(numbers):
    problem = problems.Quadratic(np.ones((3, 1, 1)), np.asarray(numbers, float)[:, None])
    return theorems.get("fedelasticnet/theorem-3.1").verify(
        problem, FedElasticNetDyn(l1=0.1, l2=30.0), sampling=Uniform(1), x0=[np.mean(numbers)], forms=["printed", "repaired"]
    )


def test_the_example_prints_its_finding_first(capsys):
    checks = runpy.run_path(str(EXAMPLE))["checks"]
    told = capsys.readouterr().out
    assert told == f"{checks}\n" and told.startswith(checks.sentence)
    printed, repaired = checks
    assert (printed.verdict, repaired.verdict, printed.mode) == ("violated", "holds", "exact")
    assert f"at T = {printed.where['T']} the left side is 799,000, the bound 23,800" in checks.sentence
    assert printed.lhs == pytest.approx(799_000, rel=1e-3) and printed.rhs == pytest.approx(23_800, rel=5e-3)


@pytest.mark.parametrize("between", [0.0, 0.3, 0.5, 0.9])
def test_the_example_is_about_any_three_numbers_that_far_apart(between):
    """As its comment says; the repaired form holds, in whatever unit."""
    for low, spread, verdict in ((-70_000.0, 3_000.0, "violated"), (5.0, 10_000.0, "violated"), (-3.0, 200.0, "holds")):
        checks = on([low, low + between * spread, low + spread])
        assert [c.verdict for c in checks] == [verdict, "holds"]


def test_a_sentence_has_the_numbers_of_the_checks():
    told = Checks([FAILED, HELD]).sentence
    assert told == (
        "As printed it is false here: at T = 43 the left side is 0.53, the bound 0.12. "
        "As repaired it holds here, with measured/bound at most 0.812."
    )
    assert Checks([replace(HELD, form="printed"), HELD]).sentence == (
        "As printed and as repaired it holds here, with measured/bound at most 0.812."
    )
    assert Checks([replace(HELD, form="printed", tightness=0.5), HELD]).sentence.endswith("at most 0.5 and 0.812.")
    assert Checks([replace(FAILED, mode="statistical", scenarios=1000)]).sentence == (
        "As printed it is false here: at T = 43 the left side is 0.53 in the mean of 1,000 runs, the bound 0.12."
    )
    assert Checks([replace(FAILED, form="mine"), replace(HELD, form="other")]).sentence.startswith("In the form 'mine' it is false")
    assert Checks().sentence == "Nothing was checked."


def test_a_sentence_of_what_was_not_decided_gives_the_reason_once():
    outside = replace(HELD, verdict="not applicable", reason="lambda_1 = 0 is not above 0.")
    assert Checks([replace(outside, form="printed"), outside]).sentence == "It does not apply here: lambda_1 = 0 is not above 0."
    several = [replace(outside, form=name) for name in ("printed", "repaired", "sharpened")]
    another = [replace(outside, form=name, reason="lambda_1 = 0") for name in ("floor", "no floor")]
    text = str(Checks([*several, *another]))
    assert text.count("lambda_1 = 0 is not above 0") == 1 and text.count("(as above)") == 4 and text.count("(lambda_1 = 0)") == 1
    assert Checks(several)._repr_html_().count("is not above 0") == 1
    open_ = replace(HELD, form="printed", verdict="inconclusive", reason="raise scenarios")
    assert Checks([open_, HELD]).sentence.startswith("As printed it is not decided here: raise scenarios. As repaired it holds here")


def test_a_sentence_of_an_equality_says_by_how_much_its_sides_differ():
    check = judge(eq(np.array([1.0, 4.0]), np.array([1.0, 2.0])), statement="p/s", form="printed", rule="any", mode="exact")
    assert check.relation == "==" and math.isnan(check.tightness)
    assert Checks([check]).sentence == (
        "As printed it is false here: at entry 1 (counted from 0) of the 2 compared its two sides differ by 2, 0.333 of their size."
    )


def test_a_form_in_place_of_a_printed_one_is_not_called_printed():
    worded = form("in words", "a", lambda v: le(1, 2), "open", wording="in words")
    statement = Statement("p/s", "t", "s", "round", (worded,))
    assert Checks([replace(FAILED, form="in words")], statement).sentence.startswith("As the paper says it in words it is false here")


def test_rows_make_a_data_frame():
    pandas = pytest.importorskip("pandas")
    checks = Checks([FAILED, HELD])
    frame = pandas.DataFrame(checks.rows())
    assert list(frame.verdict) == ["violated", "holds"] and list(frame.bound) == [0.12, 1.0]
    assert list(frame.place) == ["T = 43", ""] and frame.measured_over_bound.max() == 4.4


def test_html_is_escaped_and_has_a_row_a_form():
    bad = replace(HELD, form="<script>alert(1)</script>", reason="a & b", verdict="not applicable")
    shown = Checks([FAILED, bad])._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "a &amp; b" in shown
    assert shown.count("<tr>") == 3 and "0.53" in shown and "T = 43" in shown and "nan" not in shown


def test_a_sentence_tells_two_numbers_apart_that_three_digits_do_not():
    near = replace(FAILED, lhs=1.00041, rhs=1.00012, where={})
    assert "the left side is 1.0004, the bound 1.0001" in Checks([near]).sentence
    thousands = replace(near, lhs=912_345.4, rhs=912_345.2)
    assert "the left side is 912,345.4, the bound 912,345.2" in Checks([thousands]).sentence


def test_a_sentence_tells_the_ratio_only_of_bounds_that_have_one():
    mixed = judge(le(np.array([-2.0, 1.0]), np.array([-1.0, 4.0])), statement="p/s", form="repaired", rule="any", mode="exact")
    assert (mixed.verdict, mixed.tightness) == ("holds", 0.25)  # and -2 over -1 is 2
    assert Checks([mixed]).sentence == "As repaired it holds here, with measured/bound at most 0.25 where the bound is positive."
    assert "at most" not in Checks([replace(HELD, tightness=-2.0, lhs=-2.0)]).sentence
    both = Checks([replace(mixed, form="printed"), HELD]).sentence
    assert both.count("where the bound is positive") == 1 and both.endswith("at most 0.812.")


def test_a_sentence_says_where_runs_decided_that_it_holds():
    runs = replace(HELD, scenarios=200, mode="statistical")
    told = "it holds here in the mean of 200 runs, with"
    assert Checks([runs]).sentence.startswith(f"As repaired {told}")
    assert Checks([replace(runs, form="printed"), runs]).sentence.startswith(f"As printed and as repaired {told}")


def test_an_overflowing_scale_decides_nothing():
    """Terms that cancel may be larger than any float, and rounding is then of unknown size."""
    told = {"statement": "p/s", "form": "printed", "rule": "any"}
    huge = np.array([1.7e308, 1.0])
    for lhs in (2.0, 0.0):  # 2 <= 1 and 0 <= 1
        sides = le(np.array([lhs, 0.0]), np.array([1.0, 1.0]))
        for scale in (np.array([np.inf, 1.0]), np.array([np.nan, 1.0])):
            found = judge(replace(sides, scale=scale), mode="exact", **told)
            assert found.verdict == "inconclusive" and "entry 0" in found.reason
        found = judge(replace(sides, noise=np.inf), mode="exact", **told)
        assert found.verdict == "inconclusive"
    with np.errstate(over="ignore"):
        assert judge(eq(huge, huge, huge), mode="exact", **told).verdict == "inconclusive"
    runs = np.tile([[2.0], [0.0]], (1, 8)) + np.linspace(0, 1e-3, 8)
    sides = le(runs, np.ones_like(runs))
    assert judge_statistical(sides, 0.99, mode="statistical", **told).verdict == "violated"
    wide = replace(sides, scale=np.full_like(runs, 1.7e308))
    assert judge_statistical(wide, 0.99, mode="statistical", **told).verdict == "inconclusive"
