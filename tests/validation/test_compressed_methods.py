"""The script of the table of compressed methods: its rows are those of the document, and its numbers are those of a run."""

from __future__ import annotations

import numpy as np
import pytest
from repository import ROOT

from fedtheory import algorithms, problems
from fedtheory.local import GradientSteps
from fedtheory.messages import Threshold

DOCUMENT = (ROOT / "docs" / "fedelasticnet_algorithm_2.md").read_text(encoding="utf-8")


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "validation" / "published"))
    import compressed_methods

    return compressed_methods


def test_the_document_has_the_rows(script):
    shown = [line.split(" | ")[:2] for line in DOCUMENT.splitlines() if line.startswith("| ") and line.count("|") == 7]
    rows = [[f"| {row.method}", row.compressor] for row in script.rows(1.0)]
    assert shown[1:] == rows and shown[0] == ["| method", "compressor"]


def test_every_row_makes_a_round(script):
    problem = problems.LeastSquares(np.random.default_rng(0).standard_normal((2, 8, 6)), np.ones((2, 8)), ridge=0.1)
    told = script.table(problem, script.rows(float(problem.beta_k.max())), 2)
    assert len(told.splitlines()) == 2 + len(script.rows(1.0))


def test_the_numbers_of_a_row(script):
    """f = ||x - 1||^2/2 in two coordinates, one client, steps of 1/2: F - F* falls by 4 a round; 128 bits a round."""
    problem = problems.Quadratic(np.eye(2)[None], np.ones((1, 2)))
    row = script.Row("FedAvg", "none", algorithms.FedAvg("cohort"), GradientSteps(1, 0.5))
    bits, end = script.measured(row, problem, 8)
    assert bits == pytest.approx([2 * 0.128, 4 * 0.128, 7 * 0.128])  # 4^-2 <= 1/10, 4^-4 <= 1/100, 4^-7 <= 1/10000
    assert end == pytest.approx(4.0**-8)
    far = script.Row("FedAvg", "none", algorithms.FedAvg("cohort"), GradientSteps(1, 1e9))
    assert script.measured(far, problem, 60)[0] == [None] * 3
    method = algorithms.Compressed(algorithms.FedElasticNetProx(0.0, 1.0, "cohort"), Threshold(0.0))
    sparse = script.Row("1", "", method, GradientSteps(1, 0.5))
    first, _ = script.measured(sparse, problem, 8)
    assert first[0] == pytest.approx(2 * (2 * 64 + 2 + 2) / 1000)  # two numbers, their count in 2 bits, both gaps 0 in a bit each
