"""The table of a picture worked by hand: which rows, which forms, which words."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from core_forms import comparison, form

from fedtheory.errors import InvalidInput
from fedtheory.theory.judge.check import Check, judge, judge_statistical
from fedtheory.theory.judge.comparison import caption, horizons_up_to
from fedtheory.theory.judge.series import keeping
from fedtheory.theory.judge.statement import Statement, Worst, eq, le

FORMS = ("printed", "repaired", "sharpened", "mine", "other")


def statement(*names, **worst):
    forms = tuple(
        replace(form(n, f"formula of {n}", lambda v: le(1, 2), "open"), worst=worst.get(n))
        for n in names
    )
    return Statement("p/s", "A title", "s", "run", forms)


def check(name, lhs, *terms, at=None, letter="T", **more):
    """A check with its series, of sides that are given; at: the horizons of its entries."""
    told = {
        "form": name,
        "statement": "p/s",
        "rule": "any",
        "mode": "exact",
        "instance": "a problem",
    }
    with keeping():
        found = judge(le(np.array(lhs, float), *(np.array(t, float) for t in terms)), **told)
    found = replace(found, **more)
    if at is not None:
        found = replace(found, series=replace(found.series, horizon=letter, at=np.array(at)))
    return found


def test_horizons_of_a_longer_run_are_eleven_in_equal_ratios():
    assert horizons_up_to(12) == list(range(1, 12))
    for last in (13, 1000):
        wanted = {round(last ** (i / 11)) for i in range(11)}
        assert horizons_up_to(last) == sorted(wanted)


def test_a_row_has_both_sides_and_the_terms():
    told = comparison([check("printed", [2, 1], [1, 2], [0.5, 4], at=[3, 5])], statement("printed"))
    assert (told["kind"], told["horizon"], told["problem"]) == ("horizon", "T", "a problem")
    first, second = told["rows"]
    assert first == {
        "form": "printed", "at": 3, "where": "T = 3", "measured": 2, "bound": 1.5, "violated": True, "judged": True,
        "slack": pytest.approx(-0.5 / 3.5), "floor": 4 * 2.0**-52 * 3.5, "term_1": 1, "term_2": 0.5,
    }  # fmt: skip
    assert (second["at"], second["bound"], second["violated"]) == (5, 6, False)
    about = told["forms"]["printed"]
    assert about["largest_ratio"] == pytest.approx(4 / 3) and about["first_violated"] == 3
    assert (about["entries"], about["shown"], about["latex"]) == (2, True, "formula of printed")
    assert about["least_slack"] == pytest.approx(-0.5 / 3.5)
    assert "worst" not in about


def test_intervals_are_the_quantile_of_the_check_times_its_errors():
    lhs = np.array([[1.0, 3.0, 5.0], [2.0, 2.0, 2.0]])
    with keeping():
        found = judge_statistical(
            le(lhs, lhs * 0 + 6, 2 * lhs), 0.9, form="printed", statement="p/s", rule="any",
            mode="statistical",
        )  # fmt: skip
    (row, flat) = comparison([found], statement("printed"))["rows"]
    share = 1 - 2 * (0.1 / 2)  # of Student's t with two degrees of freedom, two horizons
    z = share * math.sqrt(2 / (1 - share**2))
    reach = z * 2 / math.sqrt(3)
    assert [row["measured_low"], row["measured_high"]] == pytest.approx([3 - reach, 3 + reach])
    assert [row["bound_low"], row["bound_high"]] == pytest.approx([12 - 2 * reach, 12 + 2 * reach])
    assert (flat["measured_low"], flat["measured_high"]) == (2, 2)


def test_a_ratio_is_told_of_inequalities_with_a_bound_above_zero_only():
    def largest(**how):
        lhs, rhs = how.pop("sides", ([3, 1, 1], [2, 0, -1]))
        return comparison([check("printed", lhs, rhs, **how)], statement("printed"))["forms"][
            "printed"
        ]["largest_ratio"]

    assert largest() == 1.5
    assert largest(relation="==") is None and largest(where={"no_ratio": "a reason"}) is None
    assert largest(sides=([1, 1], [0, -1])) is None and largest(sides=([0.1], [0.5])) == 0.2
    told = comparison([check("printed", [1], [2], slack=math.inf)], statement("printed"))
    assert told["forms"]["printed"]["least_slack"] is None


def test_which_forms_are_drawn_where_nobody_chose():
    def shown(*names, **how):
        found = comparison([check(n, [1], [2]) for n in names], statement(*names), **how)
        return [n for n, f in found["forms"].items() if f["shown"]], found

    assert shown(*FORMS[:4])[0] == list(FORMS[:4])
    drawn, told = shown(*FORMS)
    assert drawn == ["printed", "repaired"]
    assert told["caption"].endswith("Not drawn, but in the data: sharpened, mine, other.")
    assert shown("a", "b", "c", "d", "e")[0] == ["a", "b", "c", "d"]
    assert shown("a", "b", "c", "d", "repaired")[0] == ["repaired"]
    assert shown(*FORMS, forms=["mine"])[0] == ["mine"]
    assert "Not drawn" not in shown("printed")[1]["caption"]
    fails = check("repaired", [3, 3], [2, 2], at=[1, 2])
    made = [check("printed", [1, 1], [2, 2], at=[1, 2]), fails]
    told = comparison(made, statement("printed", "repaired"), forms=["printed"])
    assert "fails" not in told["caption"].replace(told["sentence"], "")


@pytest.mark.parametrize(
    ("horizons", "letter"),
    [
        ((("T", [1, 2]), ("T", [1, 2])), "T"), ((("T", [1]), ("T", [2])), "T"),
        ((("T", [3]), ("T", [3])), ""), ((("T", [1, 2]), ("K", [1, 2])), ""),
        ((("T", [1, 2]), None), ""), ((None, None), ""),
    ],
)  # fmt: skip
def test_rows_have_horizons_where_all_that_is_drawn_has_one_and_there_are_several(horizons, letter):
    made = []
    for name, given in zip(("printed", "repaired"), horizons, strict=True):
        size = len(given[1]) if given else 2
        at = {"letter": given[0], "at": given[1]} if given else {}
        made.append(check(name, [1] * size, [2] * size, **at))
    told = comparison(made, statement("printed", "repaired"))
    assert told["horizon"] == letter and told["kind"] == ("horizon" if letter else "points")
    assert all((r["at"] is not None) is bool(letter) for r in told["rows"])
    alone = comparison(made, statement("printed", "repaired"), forms=["printed"])
    several = horizons[0] is not None and len(horizons[0][1]) > 1
    assert bool(alone["horizon"]) is several


def run_of(rounds, **verdicts):
    """A run's end: the left side is 2 up to round 3 and then 1/2, the bound 1."""
    lhs = 2 if rounds <= 3 else 0.5
    return [
        check(n, [lhs], [1], at=[rounds], **how) for n, how in (verdicts or {"printed": {}}).items()
    ]


def test_a_runs_end_is_judged_again_at_every_shorter_horizon():
    asked, told_of = [], []

    def again(rounds):
        asked.append(rounds)
        if rounds == 2:
            raise InvalidInput("too short")
        extra = [check("unasked", [1], [2], at=[rounds])]
        return (
            run_of(
                rounds, printed={}, repaired={"verdict": "not applicable"} if rounds == 1 else {}
            )
            + extra
        )

    told = comparison(
        run_of(6, printed={}, repaired={}), statement("printed", "repaired"), again,
        on_progress=lambda: told_of.append(1),
    )  # fmt: skip
    assert asked == [1, 2, 3, 4, 5] and len(told_of) == 5
    rows = {n: [r for r in told["rows"] if r["form"] == n] for n in ("printed", "repaired")}
    assert [(r["at"], r["violated"]) for r in rows["printed"]] == [
        (1, True), (3, True), (4, False), (5, False), (6, False)
    ]  # fmt: skip
    assert [r["at"] for r in rows["repaired"]] == [3, 4, 5, 6]
    assert told["forms"]["printed"]["first_violated"] == 1
    assert told["forms"]["printed"]["verdict"] == "holds" and len(told["rows"]) == 9
    assert "it holds over the whole run and fails in shorter ones, at T = 1, 3." in told["caption"]
    assert set(told["forms"]) == {"printed", "repaired"}


def test_the_longest_run_and_the_first_problem_that_is_named_count():
    asked = []
    ends = [check("printed", [1], [2], at=[4], instance=""), check("repaired", [1], [2], at=[3])]
    told = comparison(ends, statement("printed", "repaired"), lambda t: asked.append(t) or [])
    assert asked == [1, 2, 3] and told["problem"] == "a problem"


def test_a_series_of_several_horizons_is_not_judged_again():
    for made in (
        [check("printed", [1, 1], [2, 2], at=[1, 4])],
        [check("printed", [1], [2], at=[4]), check("repaired", [1, 1], [2, 2], at=[1, 4])],
        [check("printed", [1], [2])],
    ):
        told = comparison(made, statement("printed", "repaired"), lambda rounds: 1 / 0)
        assert len(told["rows"]) == sum(c.count for c in made)


def test_scenarios_of_a_shorter_run_are_no_evidence_against_a_form_that_holds():
    def runs(rounds, value, verdict):
        told = {"form": "printed", "statement": "p/s", "rule": "any", "mode": "statistical"}
        with keeping():
            made = judge_statistical(
                le(np.array([[value, value + 0.1]]), np.ones((1, 2))), 0.9, **told
            )
        series = replace(made.series, horizon="T", at=np.array([rounds]))
        return [replace(made, verdict=verdict, series=series)]

    for verdict, marked in (
        ("holds", [False, False]),
        ("violated", [True, True]),
        ("inconclusive", [False] * 2),
    ):
        again = lambda rounds: runs(rounds, 5.0, "violated")  # noqa: E731
        told = comparison(runs(2, 5.0, verdict), statement("printed"), again)
        assert [r["violated"] for r in told["rows"]] == marked
    bands = "Bands: 90 % intervals of the means of 2 runs, for all horizons together."
    assert bands in told["caption"]


def test_the_worst_case_of_a_form_that_is_drawn_is_told_where_it_is_proved():
    def about(share, name="printed", verdict="open", **how):
        worst = Worst("T = 7", lambda: F(share))
        known = statement("printed", "repaired", **{name: worst})
        found = comparison([check(n, [1], [2]) for n in ("printed", "repaired")], known, **how)
        return found["forms"][name].get("worst"), found["caption"]

    found, words = about("3/4")
    assert found == {"share": 0.75, "at": "T = 7"}
    assert "the worst of all problems comes to 0.75 of the bound, at T = 7." in words
    assert about("5/4")[0] is None and about("3/4", worst=False)[0] is None
    assert about("3/4", "repaired", forms=["printed"])[0] is None


def test_what_was_not_compared_is_not_drawn():
    outside = Check("p/s", "printed", "any", "not applicable", "exact", reason="no smooth losses")
    proved = Check("p/s", "repaired", "any", "holds", "proved")
    with pytest.raises(
        InvalidInput, match=r"printed: no smooth losses; repaired: it is an identity"
    ):
        comparison([outside, proved], statement("printed", "repaired"))
    told = comparison([outside, check("repaired", [1], [2])], statement("printed", "repaired"))
    assert list(told["forms"]) == ["repaired"]
    hidden = replace(check("printed", [3], [2]), verdict="not applicable")
    told = comparison([hidden, check("repaired", [1], [2])], statement("printed", "repaired"))
    assert list(told["forms"]) == ["repaired"] and len(told["rows"]) == 1


def test_a_formula_that_cannot_be_made_is_left_out():
    broken = replace(statement("printed").forms[0], formula=lambda: 1 / 0)
    told = comparison([check("printed", [1], [2])], Statement("p/s", "t", "s", "run", (broken,)))
    assert told["forms"]["printed"]["latex"] == ""


def test_the_caption_says_over_what_and_where_it_fails():
    told = comparison([check("printed", [1, 3, 3], [2, 2, 2], at=[1, 2, 3])], statement("printed"))
    assert told["caption"].startswith(
        "p/s on a problem: both sides of the inequality over the horizon."
    )
    assert "As printed it fails from T = 2 on." in told["caption"]
    points = comparison([check("printed", [1, 3], [2, 2])], statement("printed"))
    assert (
        "the inequality entry by entry." in points["caption"]
        and "it fails from" not in points["caption"]
    )
    assert caption({**points, "problem": ""}).startswith("p/s on the problem: ")
    equal = {"form": "printed", "statement": "p/s", "rule": "any", "mode": "exact"}
    with keeping():
        found = judge(eq(np.array([1.0, 2.0]), np.array([1.0, 2.5])), **equal)
    rows = comparison([found], statement("printed"))["rows"]
    assert [r["violated"] for r in rows] == [False, True]
