"""The picture of one's own problem: what it is drawn from, what it shows, the file beside it, and what is refused."""

import csv
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from matplotlib.colors import to_hex

from fedtheory import Uniform, problems, theorems
from fedtheory.algorithms import FedElasticNetDyn, FedMLS
from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.plotting import saved
from fedtheory.plotting.bound_against_measured import draw, finding
from fedtheory.plotting.failures import fails_at
from fedtheory.plotting.style import COLOURS, house_style
from fedtheory.verification.check import judge, judge_statistical
from fedtheory.verification.checks import Checks
from fedtheory.verification.comparison import comparison, horizons_up_to
from fedtheory.verification.series import MOST, keeping
from fedtheory.verification.statement import Statement, Worst, form, le

NUMBERS = np.array([31_000.0, 48_000.0, 120_000.0])
FIELDS = {"statement": "p/s", "rule": "any", "mode": "exact"}


def three_numbers(rounds=4, forms=("printed", "repaired"), **how):
    problem = problems.Quadratic(np.ones((3, 1, 1)), NUMBERS[:, None])
    return theorems.get("fedelasticnet/theorem-3.1").verify(
        problem, FedElasticNetDyn(l1=0.1, l2=30.0), sampling=Uniform(1), x0=[NUMBERS.mean()], rounds=rounds, forms=forms, **how
    )


@pytest.fixture(scope="module")
def checks():
    return three_numbers()


@pytest.fixture(scope="module")
def data(checks):
    return checks.compared()


def drawn(data):
    with house_style():
        return draw(data)


def labels(figure):
    return [t.get_text() for ax in figure.axes if ax.get_legend() for t in ax.get_legend().get_texts()]


def test_the_series_is_both_sides_at_every_horizon(checks, data):
    for check in checks:
        rows = [r for r in data["rows"] if r["form"] == check.form]
        assert [r["at"] for r in rows] == [1, 2, 3, 4] and data["horizon"] == "T"
        worst = rows[check.where["T"] - 1]
        assert (worst["measured"], worst["bound"]) == (check.lhs, check.rhs)
        for row in rows:
            assert sum(v for k, v in row.items() if k.startswith("term_")) == pytest.approx(row["bound"], rel=1e-9)
    # f_k = (x - c_k)^2/2 from the mean: (1/T) sum gamma has moved by one client's pull / l2 in round 1, in the mean over clients
    pull = np.mean((NUMBERS - NUMBERS.mean()) ** 2)
    assert next(r for r in data["rows"] if r["at"] == 2)["measured"] == pytest.approx(pull * 1.1e-4, rel=0.2)


def test_the_first_violated_horizon_is_where_the_sides_cross(data):
    printed = [r for r in data["rows"] if r["form"] == "printed"]
    crossed = [r["at"] for r in printed if r["measured"] > r["bound"]]
    assert data["forms"]["printed"]["first_violated"] == crossed[0] == 2
    assert data["forms"]["repaired"]["first_violated"] is None
    assert not any(r["violated"] for r in data["rows"] if r["form"] == "repaired")
    assert finding(data) == "As printed it fails from T = 2 on; as repaired it holds"


def test_the_picture_shows_both_sides_the_first_failure_and_the_worst_of_all_problems(data):
    figure = drawn(data)
    top, below = figure.axes
    words = " | ".join(labels(figure))
    for part in ("measured", "bound as printed", "bound as repaired", "first horizon", "the bound fails", "worst of all problems"):
        assert part in words.replace("\n", " ")
    lines = {line.get_label(): line for line in top.lines}
    assert to_hex(lines["bound as printed"].get_color()) == COLOURS["printed"].lower()
    drawn_bound = np.asarray(lines["bound as printed"].get_ydata(), float)
    assert drawn_bound == pytest.approx([r["bound"] for r in data["rows"] if r["form"] == "printed"])
    assert list(lines["first horizon at which\nthe bound fails"].get_xdata()) == [2]
    assert (top.get_yscale(), below.get_yscale()) == ("log", "log")
    share = data["forms"]["repaired"]["worst"]["share"]
    assert any(list(line.get_ydata()) == [share] and list(line.get_xdata()) == [8] for line in below.lines)  # at T = 8, as it says


def test_what_is_0_up_to_rounding_is_not_drawn_as_a_number(data):
    """At T = 1 nothing has moved: R(theta^0) = R*, which floats miss by 1e-7 of 1e9."""
    first = next(r for r in data["rows"] if r["at"] == 1)
    assert abs(first["measured"]) <= first["floor"] < 1e-3 * first["bound"]
    line = next(li for li in drawn(data).axes[0].lines if li.get_label().startswith("measured"))
    assert np.isnan(np.asarray(line.get_ydata(), float)[0]) and "0 up to rounding" in line.get_label()


def test_lines_that_are_one_to_the_eye_are_named_together(data):
    twin = {**data, "forms": {**data["forms"], "twin": {**data["forms"]["repaired"], "reading": "in the form 'twin'"}}}
    twin["rows"] = [*data["rows"], *({**r, "form": "twin"} for r in data["rows"] if r["form"] == "repaired")]
    words = " ".join(labels(drawn(twin))).replace("\n", " ")
    assert "bound as repaired, 'twin' (within 1 % of one another)" in words
    moved = [{**r, "bound": r["bound"] * (2 if r["form"] == "twin" else 1)} for r in twin["rows"]]
    assert "within" not in " ".join(labels(drawn({**twin, "rows": moved})))


def test_scenarios_have_bands_of_the_confidence_of_the_check():
    rng = np.random.default_rng(3)
    lhs = rng.normal(1.0, 0.1, size=(3, 50))
    bound = form("printed", "a", lambda v: le(1, 2), "open")
    statement = Statement("p/s", "t", "s", "run", (bound,))
    with keeping():
        check = judge_statistical(le(lhs, 2 + 0 * lhs), 0.99, form="printed", **{**FIELDS, "mode": "statistical"})
    series = replace(check.series, horizon="T", at=np.array([1, 2, 4]))
    data = comparison([replace(check, series=series)], statement)
    row = data["rows"][1]
    from scipy import stats

    reach = stats.t.ppf(1 - 0.01 / 3, df=49) * lhs[1].std(ddof=1) / np.sqrt(50)
    assert (row["measured_low"], row["measured_high"]) == pytest.approx((lhs[1].mean() - reach, lhs[1].mean() + reach))
    assert "99 % intervals of the means of 50 runs" in data["caption"]
    [band] = [c for c in drawn(data).axes[0].collections if len(c.get_paths()) and c.get_alpha() == 0.25]
    assert band.get_paths()[0].vertices[:, 1].min() == pytest.approx(min(r["measured_low"] for r in data["rows"]))


def test_nothing_is_kept_outside_a_users_problem():
    assert judge(le(np.ones(3), 2 * np.ones(3)), form="printed", **FIELDS).series is None
    with keeping():
        assert judge(le(np.ones(3), 2 * np.ones(3)), form="printed", **FIELDS).series is not None


def test_of_very_many_entries_the_tightest_are_kept():
    lhs = np.linspace(0, 1, 5 * MOST)
    with keeping():
        series = judge(le(lhs, 0 * lhs + 2), form="printed", **FIELDS).series
    assert series.total == 5 * MOST and len(series.lhs) <= MOST
    assert set(series.index[:, 0]) >= set(range(5 * MOST - MOST // 2, 5 * MOST)) and series.index[0, 0] < MOST


def test_of_very_many_entries_where_it_fails_first_and_last_holds_are_kept():
    """Of 7, 9 and all after 11 the least violated are not among the tightest half."""
    lhs = 1 + 0.001 * np.arange(5.0 * MOST)
    lhs[:7], lhs[[8, 10]] = 0.5, 0.999
    with keeping():
        series = judge(le(lhs, 0 * lhs + 1 - 1e-6), form="printed", **FIELDS).series
    at = series.index[:, 0]
    assert at[series.violated][0] == 7 and at[~series.violated][-1] == 10
    assert len(at) <= MOST + 2


def test_an_entry_is_marked_where_it_alone_would_be_judged_violated():
    """Beyond rounding, and beyond the noise of what was measured; a fraction by however little."""
    statement = Statement("p/s", "t", "s", "run", (form("printed", "a", lambda v: le(1, 2), "open"),))
    lhs = [2, 1 + 1e-3, 1 + 3e-9, 1 + 1e-9, 0.5]
    with keeping():
        plain = judge(le(np.array(lhs), np.ones(5)), form="printed", **FIELDS)
        noisy = judge(le(np.array(lhs), np.ones(5), noise=0.01), form="printed", **FIELDS)
        each = [1.01, 0, 0, 0, 0]
        some = judge(le(np.array(lhs), np.ones(5), noise=np.array(each)), form="printed", **FIELDS)
        tiny = np.array([Fraction(1) + Fraction(1, 10**30), Fraction(1)])
        exact = judge(le(tiny, 0 * tiny + 1), form="printed", **FIELDS | {"mode": "rational"})
        runs = np.array([[1 + 5e-10, 1 + 1.5e-9, 5.0, 1.1]]).T * np.ones(3)
        scenarios = le(runs, 0 * runs + 1)
        found = judge_statistical(scenarios, 0.9, form="printed", **FIELDS | {"mode": "statistical"})
    marks = [
        (plain, [1, 1, 1, 0, 0]), (noisy, [1, 0, 0, 0, 0]), (some, [0, 1, 1, 0, 0]), (exact, [1, 0]),
        (found, [0, 0, 1, 1]),
    ]  # fmt: skip
    for check, wanted in marks:
        assert check.verdict == "violated"
        assert [r["violated"] for r in comparison([check], statement)["rows"]] == wanted
    undecided = replace(plain, verdict="inconclusive")
    assert not any(r["violated"] for r in comparison([undecided], statement)["rows"])


def test_entries_that_are_no_horizons_are_points_beside_the_diagonal():
    checks = theorems.get("fedelasticnet/eq-28").verify(
        problems.Quadratic(np.ones((3, 1, 1)), np.array([[-1.0], [0.0], [2.0]])), FedElasticNetDyn(l1=1.0, l2=100.0),
        sampling=Uniform(2), states=8,
    )  # fmt: skip
    data = checks.compared()
    assert data["kind"] == "points" and {r["at"] for r in data["rows"]} == {None}
    assert len(data["rows"]) == sum(c.count for c in checks)
    figure = drawn(data)
    assert len(figure.axes) == 2 and all(ax.get_ylabel() for ax in figure.axes)
    red = sum(to_hex(c) == COLOURS["violated"].lower() for c in figure.axes[0].collections[-1].get_facecolors())
    assert red == sum(r["violated"] for r in data["rows"] if r["form"] == "printed") > 0


def test_a_bound_on_the_last_round_is_judged_again_at_shorter_horizons():
    problem = problems.LAD(np.eye(2)[:, None, :], np.ones((2, 1)))
    algorithm = FedMLS(lam=0.5, D=2.0, rounds=5, radius=2.0, lipschitz=1.0)
    checks = theorems.get("fedmls/theorem-1").verify(problem, algorithm, forms=["printed", "repaired"])
    assert all(c.count == 1 for c in checks)
    data = checks.compared(worst=False)
    judged = {c.form for c in checks if c.series is not None}
    for name in judged:
        rows = [r for r in data["rows"] if r["form"] == name]
        assert [r["at"] for r in rows] == [1, 2, 3, 4, 5] and data["horizon"] == "K"
        assert rows[-1]["bound"] == next(c.rhs for c in checks if c.form == name)
        alone = theorems.get("fedmls/theorem-1").verify(problem, replace(algorithm, rounds=2), forms=[name])[0]
        assert (rows[1]["measured"], rows[1]["bound"]) == (alone.lhs, alone.rhs)


def test_horizons_are_spread_over_a_logarithmic_axis():
    assert horizons_up_to(1) == [] and horizons_up_to(5) == [1, 2, 3, 4]
    many = horizons_up_to(1000)
    assert many[0] == 1 and many[-1] < 1000 and len(many) <= 11 and many == sorted(set(many))


def test_the_worst_case_is_drawn_only_where_it_is_asked_for(checks):
    assert "worst" not in checks.compared(worst=False)["forms"]["repaired"]
    asked = []
    statement, worst = checks.statement, Worst("T = 3", lambda: asked.append(1) or 0)
    spied = [replace(f, worst=worst) for f in statement.forms if f.name in ("printed", "repaired")]
    comparison(checks, replace(statement, forms=tuple(spied)), forms=["printed"])
    assert asked == [1]  # of the form that is drawn


def test_forms_are_chosen_or_the_main_ones(checks):
    every = three_numbers(rounds=2, forms=None)
    shown = {n for n, f in every.compared(worst=False)["forms"].items() if f["shown"]}
    assert shown == {"printed", "repaired"} and len(every) > 10
    chosen = every.compared(worst=False, forms=["sharpened", "repaired"])
    assert {n for n, f in chosen["forms"].items() if f["shown"]} == {"sharpened", "repaired"}
    assert "Not drawn, but in the data: printed" in chosen["caption"]


def test_there_is_nothing_to_draw_of_an_identity_or_of_what_does_not_apply():
    problem = problems.Quadratic(np.ones((3, 1, 1)), NUMBERS[:, None])
    identity = theorems.get("fedelasticnet/constants").verify(problem, FedElasticNetDyn(l1=0.1, l2=30.0))
    with pytest.raises(InvalidInput, match="identity between symbols"):
        identity.plot()
    outside = theorems.get("fedelasticnet/theorem-a").verify(problem, FedElasticNetDyn(l1=0.1, l2=30.0))
    with pytest.raises(InvalidInput, match="sign rule"):
        outside.plot()
    with pytest.raises(InvalidInput, match=r"Statement\.verify"):
        Checks(identity).plot()


# --- the file ---------------------------------------------------------------------------------------------------------------
def test_a_plot_is_written_with_its_data_and_drawn_again_from_them_alone(checks, tmp_path):
    figure = checks.plot(tmp_path / "mine.png")
    assert {p.name for p in tmp_path.iterdir()} == {"mine.png", "mine.pdf", "mine.csv"}
    back = saved.read(tmp_path / "mine.csv")
    again = drawn(back)
    assert labels(again) == labels(figure)
    for one, other in zip(figure.axes, again.axes, strict=True):
        for a, b in zip(one.lines, other.lines, strict=True):
            assert np.array_equal(np.asarray(a.get_xydata(), float), np.asarray(b.get_xydata(), float), equal_nan=True)
    assert back["setup"].startswith("quadratic, N = 3, d = 1; FedElasticNetDyn(l1=0.1, l2=30)")
    assert back["provenance"]["versions"]["fedtheory"]
    assert back["rows"] == checks.compared()["rows"]


def test_readers_of_tables_read_it(data, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(saved.to_csv(data, {}))
    with path.open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert [float(r["bound"]) for r in rows] == [r["bound"] for r in data["rows"]]
    pandas = pytest.importorskip("pandas")
    assert len(pandas.read_csv(path, comment="#")) == len(data["rows"])


def _head(change):
    def edit(text):
        first, second, rest = text.split("\n", 2)
        head = json.loads(second[2:])
        change(head)
        return f"{first}\n# {json.dumps(head)}\n{rest}"

    return edit


def _cell(column, value):
    def edit(text):
        lines = text.split("\n")
        at = lines[2].split(",").index(column)
        cells = lines[3].split(",")
        cells[at] = value
        return "\n".join([*lines[:3], ",".join(cells), *lines[4:]])

    return edit


BAD = {
    "empty": (lambda t: "", "first line"),
    "another file": (lambda t: "a,b\n1,2\n3,4\n", "first line"),
    "cut": (lambda t: t[:200], "first line|second line"),
    "no JSON": (lambda t: t.replace('# {"figure"', "# {figure", 1), "line 2: not JSON"),
    "no title": (_head(lambda h: h.pop("title")), "title is None"),
    "title a list": (_head(lambda h: h.update(title=[1])), r"title is \[1\]"),
    "kind": (_head(lambda h: h.update(kind="x")), "kind is 'x'"),
    "no forms": (_head(lambda h: h.update(forms={})), "at least one form"),
    "forms a list": (_head(lambda h: h.update(forms=[])), "at least one form"),
    "a form's verdict": (_head(lambda h: h["forms"]["printed"].update(verdict=3)), "verdict of the form 'printed'"),
    "worst": (_head(lambda h: h["forms"]["repaired"].update(worst={"share": "1"})), "worst of the form 'repaired'"),
    "no column": (lambda t: t.replace("form,at,where,measured", "form,at,where,mesured", 1), "no column measured"),
    "unknown form": (_cell("form", "mine"), "unknown form 'mine'"),
    "no number": (_cell("bound", "big"), "bound is 'big'"),
    "infinite": (_cell("measured", "inf"), "must be finite"),
    "half a round": (_cell("at", "1.5"), "whole number"),
    "violated": (_cell("violated", "maybe"), "use 0 or 1"),
    "no rows": (lambda t: "\n".join(t.split("\n")[:3]) + "\n", "no row of the form"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_a_file_that_cannot_be_is_refused_with_what_is_wrong(name, data, tmp_path):
    change, words = BAD[name]
    path = tmp_path / "bad.csv"
    path.write_text(change(saved.to_csv(data, {})))
    with pytest.raises(DataFileError, match=words):
        saved.read(path)


def test_a_form_is_missing_a_number_only_where_there_is_none(data, tmp_path):
    """A missing interval is no error, a missing side is one."""
    path = tmp_path / "t.csv"
    path.write_text(_cell("bound", "")(saved.to_csv(data, {})))
    with pytest.raises(DataFileError, match="bound"):
        saved.read(path)


@pytest.mark.parametrize(
    ("violated", "words"),
    [
        ((0, 1, 1, 1), "from T = 2 on"), ((1, 0, 0, 1), "at T = 1, 4"), ((0, 0, 0, 1), "at T = 4"), ((0, 0, 0, 0), ""),
        ((1, 1, 0, 1, 0, 1), "at 4 of 6 values of T, first at T = 1"),
    ],
)  # fmt: skip
def test_a_bound_that_holds_again_later_is_not_said_to_fail_from_then_on(violated, words):
    rows = [{"form": "printed", "at": t, "violated": bool(v)} for t, v in enumerate(violated, 1)]
    assert fails_at(rows, "printed", "T") == words and fails_at(rows, "repaired", "T") == ""


def test_a_bound_that_fails_in_shorter_runs_only_is_not_said_to_hold(data):
    rows = [{**r, "violated": r["at"] == 2} if r["form"] == "printed" else r for r in data["rows"]]
    forms = {**data["forms"], "printed": {**data["forms"]["printed"], "verdict": "holds"}}
    assert finding({**data, "rows": rows, "forms": forms}).startswith("As printed it holds at the end and fails at T = 2")
