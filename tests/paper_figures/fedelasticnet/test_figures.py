"""Claims of the figures are in their data, and every file is written."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.errors import FedTheoryError
from fedtheory.participation.cohorts import Uniform
from fedtheory.plotting.figure import restored
from fedtheory.plotting.style import house_style
from fedtheory.provenance import write_json
from fedtheory.report import figures_verdicts
from fedtheory.report.figures import Effort, draw_all
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import Letters
from fedtheory.theory.judge.campaign import Campaign, summarise
from fedtheory.theory.judge.case import Plan
from fedtheory.theory.judge.registry import paper
from paper_figures.fedelasticnet import (
    consistency,
    drift,
    figures,
    l1_and_entropy,
    theorem_3_1,
    theorem_e,
    tightness,
    worst_case,
)
from paper_figures.fedelasticnet.runs import right_side
from tests.theorems.fedelasticnet.runs import tree

TINY = Effort(
    given={
        "bound_vs_empirical": {"rounds": 20, "scenarios": 8, "ratios": (100.0,)},
        "tightness": {"instances": 1, "ratios": 2},
        "sign_vs_true_gradient": {"grid": 3, "rounds": 12, "l1_values": 2, "ratios": 1},
        "nonzeros_and_entropy": {"rounds": 3, "scenarios": 1},
        "drift_without_end": {"rounds": 6},
        "which_lambda_2": {"participants": (20,), "halvings": 0, "ratios": 1},
        "worst_case_vs_bound": {"horizons": (1, 2), "cohorts": (1, 2)},
    },
    dpi=50,
)


@pytest.fixture(scope="module")
def campaign():
    """Instances of the statements about a round and of Theorem 3.1, summarised as a campaign."""
    setting = paper("fedelasticnet").setting
    checks = []
    for kind in ("eq-11", "theorem-3.1"):
        of = setting.of_kind(kind)
        drawn = [i for i in of.instances(Plan(scale=0.2)) if i.kind == kind]
        checks += [c for i in drawn for c in of.check(i, paper("fedelasticnet").statements)]
    return Campaign(summarise(checks), 1.0, 1).to_json()


@pytest.fixture(scope="module")
def bounds():
    return theorem_3_1.compute(rounds=60, scenarios=40)


@pytest.fixture(scope="module")
def rules():
    return consistency.compute(grid=13, rounds=60, l1_values=1, ratios=1)


def test_every_file_is_written(tmp_path, campaign):
    before, seen = dict(mpl.rcParams), []
    write_json(tmp_path / "campaign.json", json.loads(json.dumps(campaign, default=str)))
    where = tmp_path / "new" / "figures"
    files = draw_all(where, tmp_path / "campaign.json", 3, seen.append, TINY, papers=["fedelasticnet"])
    assert dict(mpl.rcParams) == before
    names = [*(figure.name for figure in figures.FIGURES), "verdicts"]
    assert seen == names
    assert sorted(p.name for p in files) == sorted(f"{n}.{e}" for n in names for e in ("png", "pdf", "json"))
    assert sorted(files) == sorted(where.iterdir())  # nothing half-written is left
    starts = {".png": b"\x89PNG", ".pdf": b"%PDF"}
    for path in files:
        if path.suffix == ".json":
            content = json.loads(path.read_text())
            assert content["provenance"]["seed"] == 3 and content["data"]
            figure = next((f for f in figures.FIGURES if f.name == path.stem), figures_verdicts.FIGURE)
            data = restored(content["data"])
            assert content["title"] and len(content["caption"]) > 80 and figure.caption(data) == content["caption"]
            with house_style():
                assert figure.draw(data).axes  # from the data alone
        else:
            assert path.read_bytes().startswith(starts[path.suffix]) and path.stat().st_size > 3000


def test_the_chart_of_verdicts_has_as_many_columns_as_it_needs():
    for lines, columns in ((0, 1), (3, 1), (16, 1), (17, 2), (33, 3), (90, 3)):
        got, height = figures_verdicts._shape(lines, 3)
        assert got == columns and got * height >= lines > (got - 1) * height - (lines == 0)
    rows = [r for r in Campaign(summarise([])).to_json()["rows"] if r["statement"].startswith("fedmls/")]
    figure = figures_verdicts.draw({"rows": [{**r, "verdict": "holds"} for r in rows[:16]]})
    assert len(rows) >= 16 and len(figure.axes) == 1 and figure.get_figwidth() < 13


def test_without_a_campaign_there_is_no_chart_of_verdicts(tmp_path, monkeypatch):
    empty = tuple(replace(f, compute=lambda **_: {}, draw=lambda data: Figure(), caption=lambda data: "") for f in figures.FIGURES)
    monkeypatch.setattr(figures, "FIGURES", empty)
    assert len(draw_all(tmp_path, effort=TINY, papers=["fedelasticnet"])) == 3 * len(empty) > 0


def test_repaired_bounds_hold_at_every_plotted_horizon(bounds):
    for panel in [*bounds["ordinary"], *bounds["stalled"]]:
        for name in ("repaired", "sharpened", *(["theorem E"] if panel["rule"] == "true-gradient" else [])):
            assert (panel["measured"] + panel["band"] <= panel[name]).all(), (panel["ratio"], name)
        total = sum(panel["parts"].values())
        np.testing.assert_allclose(total, panel["repaired"], rtol=1e-12)  # the parts are the bound's own
        assert (panel["measured"] > 0).all()
    assert all((p["band"] > 0).any() and not p["exact"] for p in bounds["ordinary"])


def test_printed_bound_is_crossed_where_nobody_moves(bounds):
    for panel in bounds["stalled"]:
        assert panel["exact"] and not panel["band"].any()
        broken = panel["printed"] < panel["measured"]
        assert broken[-1] and not broken[0]
        assert panel["measured"][0] == panel["measured"][-1]


def test_stalled_run_is_what_the_tree_of_all_cohorts_gives():
    problem, x0, lambda1 = theorem_3_1.stalled_instance()
    algorithm = FedElasticNetDyn(lambda1, 100 * problem.constants().beta, "sign")
    exact = tree(problem, algorithm, Uniform(2), 4, x0)
    quick = theorem_3_1.stalled_run(problem, algorithm, 2, x0, np.arange(1, 5))
    for name, form in (("theorem-3.1", "repaired"), ("theorem-b1", "printed, whole expectation"), ("theorem-b", "repaired")):
        sides = [np.broadcast_to(right_side(q, name, form), (4, len(q.once(Letters).excess[0]))) for q in (quick, exact)]
        np.testing.assert_allclose(*(s.mean(axis=1) for s in sides), rtol=1e-12, err_msg=name)
    v = quick.once(Letters)
    assert (v.excess == exact.once(Letters).excess[:, :6]).all()
    assert (v.last("s") > 0).all()  # the last term of the repaired bound is at work


@pytest.mark.parametrize("rule, away", [("sign", 0.2), ("true-gradient", 0.0)])
def test_a_start_that_moves_is_refused(rule, away):
    problem, x0, lambda1 = theorem_3_1.stalled_instance()
    algorithm = FedElasticNetDyn(lambda1, 100 * problem.constants().beta, rule)
    with pytest.raises(FedTheoryError, match="moves it"):
        theorem_3_1.stalled_run(problem, algorithm, 2, x0 + away, np.arange(1, 4))


def test_stalled_starts_do_not_move_under_the_sign_rule(rules):
    problem = consistency.plane_problem()
    sign, true = rules["map"]["sign"], rules["map"]["true-gradient"]
    inside = consistency.start_set(problem, sign["starts"]) <= 1
    assert 3 <= inside.sum() < len(inside)
    np.testing.assert_array_equal(sign["moved"] == 0, inside)
    assert (true["moved"] > 1e-3).all()
    assert (consistency.rest_set(problem, sign["starts"][inside]) <= 1).all()  # dark lies in light
    star = problem.optimum().x
    far = np.linalg.norm(sign["starts"][inside] - star, axis=1)
    assert (np.linalg.norm(true["ends"][inside] - star, axis=1) < far).all()


def test_sign_rule_stays_off_the_optimum_in_proportion_to_l1():
    scan = consistency.against_l1(np.array([0.05, 0.5]), 300)
    assert (scan["sign"].max(axis=1) > 0.3 * scan["ceiling"]).all()
    assert (scan["true-gradient"].max(axis=1) < 1e-3 * scan["ceiling"]).all()


def test_tightness_is_at_most_one_and_missing_below_the_thresholds():
    data = tightness.compute(instances=2, ratios=2)
    least = {"Theorem 3.1 (repaired)": "3.1", "Theorem A (true gradient)": "A", "Theorem B (sign rule)": "B"}
    for title, rules_ in data["tightness"].items():
        limit = data["thresholds"].get(least.get(title, ""), 0.0)
        limit = data["thresholds"]["3.1"] if title.startswith("B.6") else limit
        for values in rules_.values():
            np.testing.assert_array_equal(np.isnan(values).all(axis=1), data["ratios"] <= limit, err_msg=title)
            assert np.nanmax(values) <= 1 + 1e-6, title


def test_messages_are_sparse_or_dense_as_drawn():
    data = l1_and_entropy.compute(rounds=6, scenarios=2)
    curves = data["curves"]
    sent = {name: curve["nonzeros"] for name, curve in curves.items()}
    for dense in (l1_and_entropy.TRUE, "FedDyn"):
        assert (sent[dense]["low"][1:] == data["dim"]).all() and (sent[dense]["high"][1:] == data["dim"]).all()
    assert sent[l1_and_entropy.SIGN]["middle"][-1] < data["dim"] / 2
    assert (sent["SCAFFOLD"]["low"][1:] == 2 * data["dim"]).all()
    for curve in curves.values():
        assert (np.diff(curve["cumulated"]) >= 0).all() and (curve["suboptimality"]["low"] > 0).all()
        assert (curve["entropy"]["low"][1:] <= curve["entropy"]["high"][1:]).all() and (curve["entropy"]["high"][1:] > 0).any()


def test_tiles_show_the_campaigns_verdicts(campaign):
    tiles = figures_verdicts.table(campaign)
    rows = {(r["statement"], r["form"], r["rule"]): r["verdict"] for r in campaign["rows"]}
    for statement, forms in tiles.items():
        for form, row in forms.items():
            verdicts = [v for (s, f, _), v in rows.items() if (s, f) == (statement, form)]
            assert form == "printed" or ("violated" in verdicts) == (row["verdict"] == "violated")
    assert tiles["fedelasticnet/eq-28"]["printed"]["rule"] == "sign"  # the printed algorithm
    assert tiles["fedelasticnet/eq-28"]["printed"]["verdict"] == "violated" != rows["fedelasticnet/eq-28", "printed", "true-gradient"]
    assert "printed" not in tiles["fedelasticnet/theorem-a-step"]
    shown = {text.get_text() for ax in figures_verdicts.draw(campaign).axes for text in ax.texts}
    assert any(t.startswith("✗") for t in shown) and any(t.startswith("✓") for t in shown)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.3712, "0.37"), (1.0, "1"), (0.9999, "1"), (1.4, "1.4"), (1.04, "1.04"), (1.00021, "1.0002"), (1 + 1e-9, ">1"), (56, "56")],
)
def test_a_violated_bound_never_shows_as_attained(value, text):
    verdict = "violated" if value > 1 else "holds"
    mark = figures_verdicts.MARKS[verdict]
    assert figures_verdicts._text({"verdict": verdict, "tightness_worst": value}) == f"{mark} {text}"
    attained = {"verdict": "holds", "tightness_worst": 1 + 1e-12}  # by rounding
    assert figures_verdicts._text(attained) == f"{figures_verdicts.MARKS['holds']} 1"


def test_the_drift_is_drawn_as_it_is():
    """From round 4 on 3/8 is stored: theta goes by 1/8 a round, and R grows by 1/16 beyond -1/2."""
    data = drift.compute(rounds=20)
    runs = data["runs"]
    assert data["kept"] == [1.5, 0.375]
    assert np.allclose(np.diff(runs["sign, 3"]["theta"][4:]), -1 / 8)
    assert np.allclose(np.diff(runs["sign, 3"]["excess"])[-3:], 1 / 16)
    assert (np.diff(runs["true-gradient, 3"]["excess"]) <= 0).all() and runs["true-gradient, 3"]["excess"][-1] < 0.01
    assert data["slope"][[0, -1]].tolist() == [-0.5, 1.5]


def test_the_least_lambda_2_lies_just_below_theorem_e():
    """From 3/2 on there is a potential, whoever takes part, and no theorem has a larger kappa_0 than the best one."""
    data = theorem_e.compute(participants=(1, 20), halvings=4, ratios=3)
    assert data["brackets"][1] == data["brackets"][20]
    low, high = data["brackets"][1]
    assert 1.47 < low < 1.5 < high < 1.51
    for values in data["best"].values():
        for ratio, best in zip(data["best_at"], values, strict=True):
            of = {name: theorem_e._kappa_0(name, ratio) for name in data["thresholds"]}
            assert best >= 0.999999 * max(k for k in of.values() if np.isfinite(k))
    for name, least in data["thresholds"].items():
        np.testing.assert_array_equal(np.isfinite(data["kappa_0"][name]), data["grid"] > least)


def test_the_worst_case_lies_between_the_bounds_and_the_run():
    data = worst_case.compute(horizons=(1, 3), cohorts=(1, 2), seed=2)
    names = [set(p["bounds"]) for p in data["panels"]]
    best = {worst_case.BEST}
    assert worst_case.bound_of((2, Fraction(1, 4)), 3, 1, Fraction(1, 2)) == Fraction(8, 3)
    assert names == [best, best, {"Theorem A", "Theorem E"}, {"Theorem 3.1", "Theorem A", "Theorem E"}]
    for p in data["panels"]:
        at = np.array(p["horizons"]) - 1
        assert (p["measured"][at] <= p["worst"]).all() and p["seconds"] > 0
        assert all((p["worst"] <= bound[at]).all() for bound in p["bounds"].values())
        assert p["worst"][0] == pytest.approx(0.5, rel=1e-6)  # R(gamma^0) - R* <= beta/2 ||gamma^0 - theta*||^2


def test_the_figure_of_the_theorem_calls_one_thing_by_one_name():
    figure = theorem_3_1.draw_summary(theorem_3_1.compute(rounds=20, scenarios=4, ratios=(100.0,)))
    labels = {text for ax in figure.axes for text in ax.get_legend_handles_labels()[1]}
    assert {"Theorem 3.1 as repaired", "Theorem 3.1 as printed, in full: Theorem B.1, (18)"} <= labels
    assert not any("bound (18)" in text or "(13)" in text for text in labels)
