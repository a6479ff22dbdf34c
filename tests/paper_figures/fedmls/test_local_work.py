"""Claims of the figure of local work are in its data."""

import numpy as np
import pytest

from paper_figures.fedmls import theorem_1_local_work as local_work


def test_the_bounds_are_attained_in_the_limit_and_never_passed():
    data = local_work.compute()
    for name in ("solved", "one step"):
        share = np.array(data[name])
        assert (share < 1).all() and (np.diff(share[-3:]) > 0).all(), name
    assert data["solved"][-1] > 0.98 > 0.5 > data["one step"][-1]
    K = np.array(data["rounds"][-4:], dtype=float)
    away = (1 - np.array(data["solved"][-4:])) * K  # 4/(3K) and what is of order 1/K^2
    assert away[-1] == pytest.approx(4 / 3, rel=0.05)
    figure = local_work.draw(data)
    assert {t.get_text()[:6] for t in figure.axes[0].get_legend().get_texts()} == {"solved", "one st", "worst "}
    assert len(local_work.compute(rounds=(2, 3))["solved"]) == 2


def test_no_loss_is_much_worse_than_the_slope():
    """The worst case of all losses lies between f = -u and the bound, and is f = -u for two and three rounds."""
    data = local_work.compute(rounds=(2, 3, 5), worst_up_to=5)
    for name, worst in data["worst"].items():
        share = np.array(worst) / np.array(data[name])
        np.testing.assert_allclose(share[:2], 1, rtol=1e-6)
        assert (share > 1 - 1e-12).all() and share[2] < 1.03 and max(worst) < 1
