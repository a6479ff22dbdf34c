"""The figure of where Elastic Aggregation ends: the zeros that it tells, and what it says."""

from __future__ import annotations

import numpy as np

from paper_figures.elastic_aggregation import sampled_fixed_point


def test_the_figure_tells_zeros_that_repel():
    """Two clients of curvature 1 and the second coordinate at rest: the witness of sampled-stability, with H for S where they enter."""
    h = np.array([[[1.0, 2.0], [1e-12, 1.0]]])
    m, c = np.ones((1, 2, 2)), np.array([[[-5.0, 1.0], [5.0, 1.0]]])
    assert abs(sampled_fixed_point.growth(h, m, c, 1, 0.5, np.array([[1.0, 1.0]])) - 0.25) < 1e-6
    assert sampled_fixed_point.growth(h, m, c, 1, 0.5, np.array([[2.5, 1.0]])) < -0.4


def test_what_the_figure_says():
    found = sampled_fixed_point.compute(instances=12)
    assert found["residual"] < 1e-9 and found["growth"] < -0.01
    for E, rows in found["by_size"].items():
        naive, elastic = (np.array([b[k].mean() for b in rows]) for k in ("FedAvg", "elastic"))
        np.testing.assert_allclose(naive, naive[0])  # cohorts of equal clients do not move FedAvg
        assert (np.diff(elastic) < 0).all() and (naive[0] < 1e-12) == (E == 1)
        np.testing.assert_allclose(elastic[-1], naive[-1], atol=1e-9)  # all take part
        assert max(found["nearer"][E]) < 0.25  # of the instances
        curvatures_alike = found["by_spread"][E][0]
        assert max(b.max() for b in (curvatures_alike["FedAvg"], curvatures_alike["elastic"])) < 1e-9
    paths = {k: v[-1] for k, v in found["paths"].items()}
    assert paths["sensitive where steep"] < paths["FedAvg"] < paths["sensitive where flat"]
    assert sampled_fixed_point.draw(found).axes
