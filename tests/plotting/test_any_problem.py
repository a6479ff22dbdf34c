"""Figures of the papers on a problem of the user's, where they take one."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fedtheory import problems
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.plotting.figure import restored
from fedtheory.plotting.style import house_style
from fedtheory.provenance import to_jsonable
from paper_figures.command import app
from paper_figures.efl import theorem_1 as efl_theorem_1
from paper_figures.fedelasticnet import theorem_3_1, tightness
from paper_figures.fedmls import theorem_1 as fedmls_theorem_1

THREE = problems.Quadratic(np.array([1.0, 2.0, 4.0])[:, None, None], np.array([[-1.0], [0.0], [3.0]]))


def drawn_again(draw, data):
    """The picture of what JSON gives back."""
    with house_style():
        return draw(restored(json.loads(json.dumps(to_jsonable(data)))))


def test_fedelasticnets_bound_on_ones_own_problem():
    data = theorem_3_1.compute(rounds=20, scenarios=8, ratios=(30.0,), problem=THREE, cohort=2)
    [panel] = data["ordinary"]
    assert (panel["clients"], panel["cohort"], panel["dim"], data["problem"]) == (3, 2, 1, "quadratic")
    assert (np.asarray(panel["repaired"]) >= np.asarray(panel["measured"]) - np.asarray(panel["band"])).all()
    assert drawn_again(theorem_3_1.draw, data).axes
    everybody = theorem_3_1.compute(rounds=5, scenarios=4, ratios=(30.0,), problem=THREE, cohort=9)
    assert everybody["ordinary"][0]["cohort"] == 3


def test_tightness_on_ones_own_problem():
    data = tightness.compute(ratios=2, problem=THREE, cohort=2)
    assert data["instances"] == ["quadratic"]
    every = np.concatenate([v.ravel() for rules in data["tightness"].values() for v in rules.values()])
    assert np.isfinite(every).any() and np.nanmax(every) <= 1 + 1e-9  # they hold
    assert drawn_again(tightness.draw, data).axes
    many = problems.random_quadratic(30, 2, seed=0)
    with pytest.raises(InvalidInput, match="too many to enumerate"):
        tightness.compute(problem=many, cohort=15)


def test_efls_bound_on_ones_own_problem():
    data = efl_theorem_1.compute(rounds=20, departed_rounds=30, problem=THREE)
    assert (data["clients"], data["dim"]) == (3, 1)
    for p in (p for p in data["panels"] if "undefined" not in p):
        assert (np.asarray(p["repaired"]) >= np.asarray(p["measured"])).all()
    labels = [ax.get_ylabel() for ax in drawn_again(efl_theorem_1.draw, data).axes]
    assert "1 of 3 clients away\nhalf of the rounds" in labels
    with pytest.raises(InvalidInput, match="two or more"):
        efl_theorem_1.compute(rounds=5, problem=problems.Quadratic(np.ones((1, 1, 1)), np.ones((1, 1))))
    logistic = problems.random_logistic(2, 5, 2, seed=0)
    with pytest.raises(MissingCapability, match="quadratic losses"):
        efl_theorem_1.compute(rounds=5, problem=logistic)


def test_fedmls_bound_on_ones_own_problem():
    own = problems.LAD(np.ones((2, 1, 1)), np.array([[1.0], [2.0]]))
    data = fedmls_theorem_1.compute(rounds=(1, 2, 3), scenarios=3, problem=own)
    assert data["problem"] == own.name and data["radius"] >= 1
    for p in data["panels"].values():
        assert (np.asarray(p["bounds"]["repaired"]) >= np.asarray(p["mean"])).all()
    titles = [ax.get_title("left") for ax in drawn_again(fedmls_theorem_1.draw, data).axes]
    assert titles[0].startswith(f"{own.name}, ") and not any("LAD" in t for t in titles)
    assert own.name in fedmls_theorem_1.caption(data)


def test_the_command_takes_a_problem_for_figures_that_do(tmp_path):
    result = CliRunner().invoke(app, ["efl_table1", "--problem", "quadratic", "--out", str(tmp_path)])
    assert result.exit_code == 2 and "has problems of its own; these take one: bound_vs_empirical" in result.stderr
    assert not list(tmp_path.iterdir())
