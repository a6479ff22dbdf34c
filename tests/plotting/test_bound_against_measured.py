"""The picture of one's own problem: what it is drawn from, what it shows, the file beside it, and what is refused."""

import csv
import json
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from core_forms import comparison, form
from matplotlib.colors import to_hex

from fedtheory import Uniform, problems, theorems
from fedtheory.algorithms import EFL, FedElasticNetDyn, FedMLS
from fedtheory.errors import DataFileError, InvalidInput, UnknownName
from fedtheory.local import LocalSGD
from fedtheory.messages import TopK
from fedtheory.plotting import saved
from fedtheory.plotting.bound_against_measured import _entries, draw, finding
from fedtheory.plotting.failures import fails_at
from fedtheory.plotting.formulas import left_side
from fedtheory.plotting.style import COLOURS, SIZES, house_style, times
from fedtheory.theory.judge import comparison as longer_rounds
from fedtheory.theory.judge.check import judge, judge_statistical
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.comparison import horizons_up_to
from fedtheory.theory.judge.series import MOST, keeping
from fedtheory.theory.judge.statement import Statement, Worst, eq, le

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
    return [t.get_text() for legend in figure.legends for t in legend.get_texts()]


def line_of(figure, label):
    return next(line for line in figure.axes[0].lines if line.get_label().replace("\n", " ").startswith(label))


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
    worst = next(r for r in printed if r["at"] == 4)
    repaired = next(r for r in data["rows"] if r["form"] == "repaired" and r["at"] == 4)
    factor, room = worst["measured"] / worst["bound"], repaired["bound"] / repaired["measured"]
    assert finding(data) == (
        f"As printed it is violated at T = 4 by a factor {factor:.3g}; as repaired it holds, {times(room)} times too large at T = 4"
    )
    assert times(room) == "3,300" and f"{factor:.3g}" == "12.8"


def test_the_picture_shows_both_sides_and_the_first_failure_with_words_on_its_axes(data):
    figure = drawn(data)
    [top] = figure.axes
    assert labels(figure) == ["measured", "bound as printed", "first T at which a bound fails", "bound as repaired"]
    bound = line_of(figure, "bound as printed")
    assert to_hex(bound.get_color()) == COLOURS["printed"].lower()
    drawn_bound = np.asarray(bound.get_ydata(), float)
    assert drawn_bound == pytest.approx([r["bound"] for r in data["rows"] if r["form"] == "printed"])
    assert list(line_of(figure, "first T").get_xdata()) == [2]
    assert top.get_yscale() == "log" and top.get_xlabel() == "communication round T"
    assert top.get_ylabel().startswith("suboptimality of the mean iterate,\n$\\mathbb{E}[R(")


def test_of_left_sides_that_the_words_are_not_about_the_formula_stands_on_the_axis(data):
    about = {n: {**f, "latex": f["latex"].replace("R(", "2R(")} for n, f in data["forms"].items() if n == "printed"}
    assert "suboptimality" not in drawn({**data, "forms": {**data["forms"], **about}}).axes[0].get_ylabel()
    assert drawn({**data, "measures": ""}).axes[0].get_ylabel().startswith("$\\mathbb{E}[R(")
    silent = {n: {**f, "latex": "no formula"} for n, f in data["forms"].items()}
    assert drawn({**data, "measures": "", "forms": silent}).axes[0].get_ylabel() == "the two sides"


def overlaps(figure):
    """Return whether a legend lies over a panel, where the curves are."""
    figure.canvas.draw()
    boxes = [ax.get_window_extent() for ax in figure.axes]
    return any(legend.get_window_extent().overlaps(box) for legend in figure.legends for box in boxes)


@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("title", [True, False])
def test_a_figure_has_the_size_of_its_venue_and_its_legend_is_beside_the_curves(size, title, data):
    with house_style(size):
        figure = draw(data, title)
        width, height, letters, _ = SIZES[size]
        assert figure.get_figwidth() == width and (size != "slide" or figure.get_figheight() == height)
        assert figure.axes[0].yaxis.label.get_fontsize() == letters
        assert not overlaps(figure) and len(figure.legends) == 1
        whole, legend = figure.bbox, figure.legends[0].get_window_extent()
        assert legend.x0 >= whole.x0 and legend.x1 <= whole.x1 and legend.y0 >= whole.y0
        assert bool(figure.texts) == title
        panel = figure.axes[0].get_window_extent()
        assert panel.height > 0.25 * whole.height and all(t.get_window_extent().y0 > panel.y1 for t in figure.texts)


def test_a_size_that_is_none_is_refused_before_anything_is_computed(checks, monkeypatch):
    monkeypatch.setattr(Checks, "compared", lambda *a, **b: pytest.fail("computed"))
    with pytest.raises(UnknownName, match="neurips"):
        checks.plot(size="neurip")


def test_what_is_0_up_to_rounding_is_not_drawn_as_a_number(data):
    """At T = 1 nothing has moved: R(theta^0) = R*, which floats miss by 1e-7 of 1e9."""
    first = next(r for r in data["rows"] if r["at"] == 1)
    assert abs(first["measured"]) <= first["floor"] < 1e-3 * first["bound"]
    figure = drawn(data)
    assert np.isnan(np.asarray(line_of(figure, "measured").get_ydata(), float)[0])
    assert any("Where no point is, what is measured is 0 up to rounding." in t.get_text().replace("\n", " ") for t in figure.texts)


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


def test_entries_that_are_no_horizons_are_shares_of_their_bounds():
    checks = theorems.get("fedelasticnet/eq-28").verify(
        problems.Quadratic(np.ones((3, 1, 1)), np.array([[-1.0], [0.0], [2.0]])), FedElasticNetDyn(l1=1.0, l2=100.0),
        sampling=Uniform(2),
    )  # fmt: skip
    data = checks.compared()
    assert data["kind"] == "points" and {r["at"] for r in data["rows"]} == {None}
    assert len(data["rows"]) == sum(c.count for c in checks)
    figure = drawn(data)
    [ax] = figure.axes
    rows = [r for r in data["rows"] if r["form"] == "printed"]
    bad = sum(r["violated"] for r in rows)
    shares = sorted((r["measured"] / r["bound"] for r in rows), reverse=True)
    line = line_of(figure, "as printed")
    assert np.asarray(line.get_ydata(), float) == pytest.approx(shares, rel=1e-6) and bad > 0
    assert f"above 1 in {bad} of {len(rows)}, at most {shares[0]:.3g}" in line.get_label().replace("\n", " ")
    assert ax.get_xlabel() == f"{len(rows)} states, the nearest to its bound first"
    assert ax.get_ylabel().replace("\n", " ") == "measured/bound of mean squared error of the stored gradients after a round"
    assert finding(data).startswith(f"As printed it is violated in {bad} of {len(rows)} cases by a factor of up to {shares[0]:.3g}")
    assert any(list(li.get_ydata()) == [1, 1] for li in ax.lines) and not overlaps(figure)
    fewer = drawn({**data, "rows": [r for r in data["rows"] if r not in rows[1:]]})
    most = max(len([r for r in data["rows"] if r["form"] == c.form]) for c in checks[1:])
    assert fewer.axes[0].get_xlabel() == f"{most} states, the nearest to its bound first" and most > 1


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


def test_the_worst_case_is_drawn_only_where_it_has_the_same_parameters_or_is_asked_for(checks):
    assert "worst" not in checks.compared()["forms"]["repaired"]  # its lambda_1 is 0, this one's is not
    problem = problems.Quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[1.0], [-1.0]]))
    theorem = theorems.get("efl/theorem-1")

    def found(E, problem=problem):
        made = theorem.verify(problem, EFL(), local_solver=LocalSGD(E, 1.0), rounds=4, forms=["repaired"])
        return made.compared()["forms"]["repaired"].get("worst")

    assert found(2)["at"].startswith("everybody completes E = 2 steps, no noise, L = 2 mu, tau = 3")
    assert found(3) is None and found(2, problems.Quadratic(np.array([[[1.0]], [[3.0]]]), np.zeros((2, 1)))) is None
    data = theorem.verify(problem, EFL(), local_solver=LocalSGD(2, 1.0), rounds=4, forms=["repaired"]).compared()
    at, value = line_of(drawn(data), "worst of all problems").get_data()
    bound = next(r["bound"] for r in data["rows"] if r["at"] == 3)
    assert (list(at), list(value)) == ([3], [pytest.approx(found(2)["share"] * bound)])
    asked = []
    statement, worst = checks.statement, Worst("T = 3", lambda: asked.append(1) or 0)
    spied = [replace(f, worst=worst) for f in statement.forms if f.name in ("printed", "repaired")]
    comparison(checks, replace(statement, forms=tuple(spied)), forms=["printed"], worst=True)
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


# --- the file -------------------------------------------------------------------------------------
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
    "judged": (_cell("judged", "maybe"), "judged is 'maybe'"),
    "words": (_head(lambda h: h.update(measures=3)), "measures is 3"),
    "beyond": (_head(lambda h: h.update(beyond={"after": 3, "to": "x"})), "beyond is"),
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


# --- beyond what was judged -----------------------------------------------------------------------
@pytest.fixture(scope="module")
def longer():
    """Nobody chose a horizon: all cohorts as far as that is affordable, then runs."""
    problem = problems.Quadratic(np.ones((3, 1, 1)), NUMBERS[:, None])
    return theorems.get("fedelasticnet/theorem-3.1").verify(
        problem, FedElasticNetDyn(l1=0.1, l2=30.0), sampling=Uniform(1), x0=[NUMBERS.mean()], forms=["printed", "repaired"],
    )  # fmt: skip


def test_a_picture_goes_on_for_hundreds_of_rounds_beyond_what_was_judged(longer):
    before = [(c.verdict, c.lhs, c.rhs, c.count) for c in longer]
    data = longer.compared()
    assert [(c.verdict, c.lhs, c.rhs, c.count) for c in longer] == before and {c.count for c in longer} == {7}
    rows = [r for r in data["rows"] if r["form"] == "printed"]
    assert [r["at"] for r in rows if r["judged"]] == [*range(1, 8)] and rows[-1]["at"] == 300
    assert data["beyond"] == {"after": 7, "to": 300, "scenarios": 200, "confidence": 0.95}
    figure = drawn(data)
    line = line_of(figure, "measured: exact up to T = 7, then the mean of 200 runs")
    assert list(line.get_xdata()) == [r["at"] for r in rows] and len(rows) > 20
    assert "95 % interval of that mean" in labels(figure) and figure.axes[0].get_xscale() == "log"
    assert "Beyond T = 7 both sides are the means of 200 runs with their 95 % intervals" in data["caption"]
    judged = max((r["measured"] / r["bound"], r["at"]) for r in rows if r["judged"])
    assert f"violated at T = {judged[1]} by a factor {judged[0]:.3g};" in finding(data)  # of what was judged
    repaired = [r for r in data["rows"] if r["form"] == "repaired"][-1]
    assert f"{times(repaired['bound'] / repaired['measured'])} times too large in the mean at T = 300" in finding(data)


def test_the_band_is_the_interval_of_the_mean_at_each_round(longer):
    from scipy import stats

    rounds, runs = 8, 200
    row = next(r for r in longer.compared(rounds=rounds)["rows"] if r["at"] == rounds)
    again = longer.again(rounds, forms=["printed"], scenarios=runs)[0]
    assert again.scenarios == runs and row["measured"] == again.series.lhs[-1]
    reach = stats.t.ppf(0.975, runs - 1) * again.series.lhs_error[-1]
    assert (row["measured_low"], row["measured_high"]) == pytest.approx((row["measured"] - reach, row["measured"] + reach))


def test_a_horizon_that_somebody_chose_is_the_pictures(data):
    assert data["beyond"] is None and all(r["judged"] for r in data["rows"])


def test_a_longer_run_is_exact_where_that_is_affordable():
    problem = problems.Quadratic(np.ones((3, 1, 1)), NUMBERS[:, None])
    checks = theorems.get("fedelasticnet/theorem-3.1").verify(problem, FedElasticNetDyn(l1=0.1, l2=30.0), forms=["repaired"])
    data = checks.compared(rounds=60)
    assert data["beyond"]["scenarios"] is None and data["rows"][-1]["at"] == 60 and "measured_low" not in data["rows"][-1]
    assert "both sides are exact: no verdict" in data["caption"]


def test_where_scenarios_were_judged_the_longer_run_is_the_line():
    problem = problems.random_quadratic(12, 2, seed=1)
    method = FedElasticNetDyn(l1=0.1, l2=30 * float(problem.beta_k.max()))
    theorem = theorems.get("fedelasticnet/theorem-3.1")
    checks = theorem.verify(problem, method, sampling=Uniform(4), forms=["repaired"], mode="monte-carlo")
    [check] = checks
    data = checks.compared(rounds=70)
    line = line_of(drawn(data), "measured: mean of 200 runs")
    at = list(line.get_xdata())
    assert check.scenarios < 200 and at[0] == 1 and at[-1] == 70 and at == sorted(set(at))
    assert {r["at"] for r in data["rows"] if r["judged"]} == set(checks[0].series.at)


def test_runs_of_their_own_for_each_horizon_go_on_as_long_as_there_is_time(monkeypatch):
    problem = problems.LAD(np.eye(2)[:, None, :], np.ones((2, 1)))
    algorithm = FedMLS(lam=0.5, D=2.0, rounds=3, radius=2.0, lipschitz=1.0)
    checks = theorems.get("fedmls/theorem-1").verify(problem, algorithm, forms=["repaired"])
    assert checks.compared()["beyond"] is None  # the method is made for K = 3
    data = checks.compared(rounds=12)
    assert data["reruns"] and [r["at"] for r in data["rows"] if r["judged"]] == [1, 2, 3]
    assert data["rows"][-1]["at"] == 12 and data["beyond"]["scenarios"] is None
    assert drawn(data).axes[0].get_xlabel() == "communication rounds K (a run of its own for each)"
    monkeypatch.setattr(longer_rounds, "SECONDS", 0.0)
    assert checks.compared(rounds=12)["beyond"] is None


def test_what_takes_long_is_announced_and_too_long_is_left_out(monkeypatch):
    clock, told = [0.0], []
    monkeypatch.setattr(longer_rounds.time, "perf_counter", lambda: clock[0])

    def again(each):
        def run(rounds, forms, scenarios):
            clock[0] += each * rounds * scenarios
            return []

        return run

    assert longer_rounds._affordable(again(1e-4), 10, 300, ["a"], told.append) == (300, 200)
    assert told == ["300 rounds for the picture take about 6 seconds here"]
    assert longer_rounds._affordable(again(5e-4), 10, 300, ["a"], None) == (300, 50)
    assert longer_rounds._affordable(again(2e-3), 10, 300, ["a"], None) == (100, 50)
    assert longer_rounds._affordable(again(1.0), 10, 300, ["a"], None)[0] == 0
    exact = SimpleNamespace(scenarios=None)
    slow = lambda rounds, forms, scenarios: clock.__setitem__(0, clock[0] + rounds / 10) or [exact]  # noqa: E731
    assert longer_rounds._affordable(slow, 10, 300, ["a"], None)[0] == 100  # however few scenarios


def test_a_violated_bound_without_a_ratio_is_told_by_its_horizons_or_by_the_difference(data):
    rows = [{**r, "bound": -1.0} if r["form"] == "printed" else r for r in data["rows"]]
    assert finding({**data, "rows": rows}).startswith("As printed it is violated from T = 2 on;")
    forms = {n: {**f, "largest_ratio": None} for n, f in data["forms"].items()}
    points = [{**r, "at": None, "violated": r["at"] == 4} for r in data["rows"] if r["form"] == "printed"]
    told = finding({**data, "kind": "points", "rows": points, "forms": {"printed": forms["printed"]}})
    assert told == f"As printed it is violated in 1 of 4 cases by up to {points[3]['measured'] - points[3]['bound']:.3g}"


def test_forms_that_bound_something_else_have_no_second_curve():
    problem = problems.Quadratic(np.array([np.diag([1.0, 2.0]), np.diag([2.0, 1.0])]), np.array([[1.0, 3.0], [-1.0, 0.5]]))
    method = EFL(compressor=TopK(k=1))
    checks = theorems.get("efl/compressed-convergence").verify(problem, method, local_solver=LocalSGD(2, 1.0), rounds=6)
    data = checks.compared()
    shown = {n for n, f in data["forms"].items() if f["shown"]}
    assert data["horizon"] == "t" and "repaired" in shown and not {n for n in shown if "virtual" in n}
    assert sum(label.startswith("measured") for label in labels(drawn(data))) == 1


def test_of_one_left_side_the_mean_of_the_most_runs_is_drawn(data):
    """Forms that were decided by fewer runs have a mean of their own, of the same quantity."""
    changed = {"printed": {"scenarios": 50, "confidence": 0.99}, "repaired": {"scenarios": 100, "confidence": 0.99}}
    forms = {n: {**f, **changed[n]} for n, f in data["forms"].items()}
    noise = {"printed": 1.3, "repaired": 1.0}
    rows = [{**r, "measured": r["measured"] * noise[r["form"]] ** r["at"]} for r in data["rows"]]
    figure = drawn({**data, "forms": forms, "rows": rows})
    assert [label for label in labels(figure) if label.startswith("measured")] == ["measured: mean of 100 runs"]
    wanted = [r["measured"] for r in rows if r["form"] == "repaired"]
    np.testing.assert_allclose(line_of(figure, "measured").get_ydata()[1:], wanted[1:])
    assert figure.axes[0].get_ylabel().startswith("suboptimality of the mean iterate")
    assert any("Means of 100 runs" in t.get_text() and "50 decide" in t.get_text() for t in figure.texts)
    other = {**forms, "printed": {**forms["printed"], "latex": forms["printed"]["latex"].replace("R(", "2R(")}}
    apart = labels(drawn({**data, "forms": other, "rows": rows}))
    assert {"measured: mean of 100 runs", "measured of printed: mean of 50 runs"} <= {label.replace("\n", " ") for label in apart}


def test_left_sides_that_differ_by_a_constant_are_one_curve():
    problem = problems.Quadratic(np.array([[[1.0]], [[3.0]]]), np.array([[1.0], [-1.0]]))
    checks = theorems.get("fedelasticnet/theorem-c").verify(problem, FedElasticNetDyn(l1=0.1, l2=90.0), rounds=4)
    data = checks.compared()
    sides = {n: [r for r in data["rows"] if r["form"] == n] for n in ("repaired", "strongly convex clients")}
    share = sides["strongly convex clients"][0]["measured"] / sides["repaired"][0]["measured"]
    assert share == pytest.approx(1 / 2)  # the least curvature of a client, 1, over that of the mean, 2
    figure = drawn(data)
    assert sum(label.startswith("measured") for label in labels(figure)) == 1
    line = line_of(figure, "bound 'strongly convex clients', both its sides times a constant")
    assert np.asarray(line.get_ydata(), float) == pytest.approx([r["bound"] / share for r in sides["strongly convex clients"]])


def test_of_one_pair_both_sides_and_the_factor_are_drawn():
    forms = tuple(form(n, r"x \le y", lambda v: le(1, 2), "open") for n in ("printed", "repaired"))
    statement = Statement("p/s", "t", "s", "run", forms)
    with keeping():
        made = [judge(le(np.array([2.0]), np.array([b])), form=n, **FIELDS) for n, b in (("printed", 1.0), ("repaired", 9.0))]
    data = comparison(made, statement)
    figure = drawn(data)
    assert finding(data) == "As printed it is violated by a factor 2; as repaired it holds, 4.5 times too large"
    assert [t.get_text() for t in figure.axes[0].texts] == ["is violated by a factor 2", "holds, 4.5 times too large"]
    assert labels(figure) == ["measured", "bound, which fails", "bound, which holds"] and figure.axes[0].get_xlabel() == "$x$"


def test_of_an_equality_of_one_pair_the_picture_says_what_becomes_of_it():
    statement = Statement("p/s", "t", "s", "run", tuple(form(n, r"x = y", lambda v: eq(1, 2), "open") for n in ("printed", "repaired")))
    with keeping():
        made = [judge(eq(np.array([2.0]), np.array([b])), form=n, **FIELDS) for n, b in (("printed", 1.5), ("repaired", 2.0))]
    told = [t.get_text() for t in drawn(comparison(made, statement)).axes[0].texts]
    assert told == ["an equality, which is violated: its sides differ by 0.5", "an equality, which holds"]


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        (["state"], "7 states"), (["state", "client"], "7 pairs of state and client"), ([], "7 cases"),
        (["round without moves"], "7 cases of round without moves"),
    ],
)  # fmt: skip
def test_what_the_entries_are_is_said(axes, said):
    assert _entries({"axes": axes}, 7) == said and _entries({"axes": ["state"]}, 1) == "1 state"


def test_a_bound_that_is_nearly_attained_is_not_said_to_be_one_time_too_large(data):
    near = [{**r, "bound": 1.02 * r["measured"]} if r["form"] == "repaired" and r["at"] == 4 else r for r in data["rows"]]
    assert finding({**data, "rows": near}).endswith("as repaired it holds, 1.02 times too large at T = 4")
    same = [{**r, "bound": 1.001 * r["measured"]} if r["form"] == "repaired" and r["at"] == 4 else r for r in data["rows"]]
    assert finding({**data, "rows": same}).endswith("as repaired it holds and is attained at T = 4")


@pytest.mark.parametrize(
    ("latex", "left"),
    [
        (r"F(x) \le G", "$F(x)$"), (r"a>0\Rightarrow\tfrac1m\sum_{k=1}^mx_k<y", r"$\frac{1}{m}\sum_{k=1}^mx_k$"),
        (r"\text{sign rule: }C_t\le D", "$C_t$"), ("no relation", ""), (r"\unknown{x} \le y", ""),
    ],
)  # fmt: skip
def test_the_left_side_of_a_formula_stands_on_an_axis(latex, left):
    assert left_side(latex) == left
