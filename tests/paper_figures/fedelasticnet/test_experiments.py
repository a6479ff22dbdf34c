"""The experiments on what reviewers asked: small ones against what is known of them, and tables that say what was measured."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from fedtheory.errors import LocalSolveFailed
from fedtheory.plotting.experiment import Experiment
from fedtheory.plotting.figure import restored
from fedtheory.plotting.style import house_style
from fedtheory.provenance import to_jsonable
from paper_figures.fedelasticnet import (
    algorithm_1_bias,
    common,
    compression,
    heterogeneity,
    l1_and_entropy,
    theorem_3_1_dimension,
    tuning,
)
from paper_figures.fedelasticnet.on_request import ON_REQUEST

EXPERIMENTS = [e for e in ON_REQUEST if isinstance(e, Experiment)]
SMALL = {
    "dimension": {"dims": (2, 4), "rounds": 20, "scenarios": 2},
    "algorithm-1": {"rounds": 100, "ratios": 3},
    "tuning": {"rounds": 3, "grid": 2},
    "heterogeneity": {"rounds": 2, "grid": 1, "steps": (2,)},
    "compression": {"rounds": 2, "grid": 1},
    "zeros": {"rounds": 6, "scenarios": 1},
}


@pytest.fixture(scope="module")
def found():
    return {e.name: e.compute(**SMALL[e.name]) for e in EXPERIMENTS}


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
def test_every_experiment_has_a_table_a_finding_and_a_picture(found, experiment):
    data = found[experiment.name]
    table, finding = experiment.table(data), experiment.finding(data)
    assert table.rows and all(len(row) == len(table.headings) for row in table.rows)
    assert all(isinstance(cell, str) for row in table.rows for cell in row)
    assert finding and experiment.question.endswith("?") and experiment.full
    assert experiment.title == experiment.question and experiment.caption(data) == " ".join(finding)
    back = restored(json.loads(json.dumps(to_jsonable(data))))
    with house_style():
        assert experiment.draw(back).axes  # from the data alone


def test_the_l1_term_is_the_theorems(found):
    """kappa'/kappa_0 lambda_1^2 d from the printed definitions, with beta = 1 and lambda_2 = 30; runs stay below the bound."""
    x = Fraction(30)
    factor = 5 * (x + 1) / (x * (x**2 - 25)) / (2 * (x**2 - 25 * x - 50) / (x * (x**2 - 25)))
    for row in found["dimension"]["rows"]:
        problem, _, lambda1 = theorem_3_1_dimension.scaled_problem(row["d"], 0)
        assert problem.constants().beta == pytest.approx(1) and lambda1 == row["lambda1"]
        assert row["sign"]["floor"] == pytest.approx(float(factor) * lambda1**2 * row["d"])
        assert all(row[rule]["measured"] <= row[rule]["bound"] for rule in theorem_3_1_dimension.RULES)


def test_algorithm_1_ends_where_the_closed_form_says():
    """Against the mean move, which falls with theta: it is 0 at the end and negative to the right of it."""

    def move(theta, l1, l2):
        pull = algorithm_1_bias.H * (theta - algorithm_1_bias.C)
        return float(-(np.sign(pull) * np.maximum(np.abs(pull) - l1, 0) / (algorithm_1_bias.H + l2)).mean())

    for l1 in (0.0, 0.05, 0.3, 0.6, 0.75, 0.9, 2.0):
        for l2 in (0.1, 1.0, 7.0):
            end = algorithm_1_bias.end_from_the_right(l1, l2)
            assert abs(move(end, l1, l2)) < 1e-12 and move(end + 1e-3, l1, l2) < 0
    assert algorithm_1_bias.end_from_the_right(0.0, 2.0) == pytest.approx(algorithm_1_bias.linear_end(2.0))
    # |1 theta| <= 0.9 and |theta - 3|/4 <= 0.9: nobody moves
    assert algorithm_1_bias.end_from_the_right(0.9, 2.0) == pytest.approx(0.9)


def test_runs_of_algorithm_1_are_its_closed_forms(found):
    data = found["algorithm-1"]
    ends = {(e["l1"], e["l2"]): e for e in data["ends"]}
    for c in data["closed"]:
        assert ends[0.0, c["l2"]]["rate"] == pytest.approx(c["rate"], rel=1e-3)
        for l1, end in zip(algorithm_1_bias.L1, c["ends"], strict=True):
            assert ends[l1, c["l2"]]["end"] == pytest.approx(end, abs=1e-9)


def test_a_point_is_beaten_by_fewer_bits_and_a_lower_end_at_once():
    points = [
        {"method": m, "how": h, "bits": b, "suboptimality": s}
        for m, h, b, s in (("A", "a", 1, 4.0), ("A", "b", 3, 1.0), ("B", "c", 2, 2.0), ("B", "d", 3, 0.5), ("B", "e", 4, 0.6))
    ]
    assert [p["how"] for p in compression._front(points)] == ["a", "c", "d"]
    assert compression._without_better({"points": points}, "A", ("B",)) == ["a"]
    assert compression._without_better({"points": points}, "B", ("A",)) == ["c", "d", "e"]


def test_bits_are_of_what_is_sent(found):
    """FedAvg without a compressor sends 64 bits an entry, SCAFFOLD with recovered control variates no more; top-k sends k entries."""
    data = found["compression"]
    points = {(p["method"], p["how"]): p for p in data["points"]}
    dense = 64 * data["dim"] * common.COHORT * data["rounds"]
    assert points["FedAvg", "none"]["bits"] == dense
    assert points["SCAFFOLD", "none"]["bits"] == dense * (1 if points["SCAFFOLD", "none"]["choice"] == "recovered" else 2)
    assert points["FedAvg", "top 10%"]["nonzeros"] == 3
    assert points["Algorithm 1", "l1 = 0.03"]["nonzeros"] < points["Algorithm 1", "l1 = 0.001"]["nonzeros"] <= data["dim"]


def test_what_is_said_of_scaffold_follows_from_the_cells(found):
    data = found["heterogeneity"]
    (panel,) = data["panels"]
    said = heterogeneity.finding(data)[0]
    ends = {(c["method"], c["alpha"]): c["suboptimality"] for c in data["cells"]}
    for method in [m for m in heterogeneity.METHODS if m.startswith("Algorithm")]:
        assert (f"{method} at" in said) == any(ends["SCAFFOLD", a] < ends[method, a] for a in heterogeneity.ALPHAS)
    assert f"E = {panel[1]}" in said


def test_a_run_that_leaves_the_numbers_is_no_choice():
    def run(choice):
        if choice == 1:
            raise LocalSolveFailed("no unique minimiser")
        return {"suboptimality": 1.0 / choice}

    assert common.best_of(run, (1, 2, 4)) == {"suboptimality": 0.25, "choice": 4}


def test_a_threshold_of_0_changes_nothing(found):
    data = found["tuning"]
    first = data["by_epsilon"][0]
    assert first["epsilon"] == 0 and first["suboptimality"] == data["best"]["suboptimality"]
    assert first["nonzeros"] >= data["by_epsilon"][-1]["nonzeros"]
    assert tuning._grid(data, "sign", "suboptimality").min() == data["best"]["suboptimality"]


def test_from_which_round_on_messages_are_half_empty():
    first = {"4": (10, 4, 6, 5, 3), "never": (10, 10), "1": (1, 0)}  # above half in round 3, then 5 and 3 of 10
    for round_index, nonzeros in first.items():
        assert l1_and_entropy._halved(np.array([np.nan, *nonzeros]), 10) == round_index
