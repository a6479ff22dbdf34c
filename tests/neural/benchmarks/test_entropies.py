"""Entropies of what is sent: each message has its own, their sum is what a round costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedtheory import algorithms, problems, simulate
from fedtheory.errors import CheckpointError
from fedtheory.local import GradientSteps
from fedtheory.neural.benchmarks import presets

torch = pytest.importorskip("torch")
from fedtheory.neural import data, training  # noqa: E402
from fedtheory.neural.benchmarks import run as bench  # noqa: E402
from fedtheory.store import checkpoints  # noqa: E402

METHODS = ("fedprox", "algorithm-1", "scaffold", "algorithm-2", "feddyn", "algorithm-3")


def quick(method):
    (preset,) = presets.of_table("fedelasticnet-table3", "mnist", "dirichlet-0.3", method)
    return replace(preset.quick(digits=True), rounds=4)


def test_each_messages_entropy_by_hand():
    """SCAFFOLD, two clients, one round, one step 1/8 from x = (0, 8): the updates are -g/8, the control variates' changes g."""
    g = np.array([[0.08, 0.16], [0.08, -0.32]])  # gradients at x: f_k = ||x - b_k||^2/2 with b_k = x - g_k
    p = problems.LeastSquares([np.sqrt(2) * np.eye(2)] * 2, [np.sqrt(2) * (np.array([0.0, 8.0]) - row) for row in g])
    names = ("entropy", "entropy_1", "entropy_2", "entropy_pooled", "update_entropy")
    for chunk in (2, 1):  # two scenarios that are alike, in one chunk and in two
        options = {"scenarios": 2, "local_solver": GradientSteps(1, 0.125), "record": names, "chunk": chunk}
        found = simulate(p, algorithms.Scaffold(), 1, np.array([0.0, 8.0]), **options).metrics
        # updates: bins -1, -2, -1, 4; changes: bins 8, 16, 8, -32; pooled: all six of them, two of them twice as often
        for name, bits in zip(names, (3.0, 1.5, 1.5, 2.5, 1.5), strict=True):
            np.testing.assert_allclose(found[name][1], bits, rtol=1e-12, err_msg=f"{name}, chunks of {chunk}")
    one = simulate(p, algorithms.FedAvg(), 1, np.array([0.0, 8.0]), local_solver=GradientSteps(1, 0.125), record=names).metrics
    assert one["entropy"][1, 0] == one["entropy_1"][1, 0] == one["entropy_pooled"][1, 0] > one["entropy_2"][1, 0] == 0


def test_a_row_shows_each_message_and_their_sum():
    made = bench.run_preset(quick("scaffold"), data.digits(), None, progress=False)
    (row,) = bench.cells("fedelasticnet-table3", [replace(made, preset=replace(made.preset, dataset="mnist"))])
    first, second, pooled = (made.series(name).sum() for name in ("entropy_1", "entropy_2", "entropy_pooled"))
    assert row["measured"] == pytest.approx(first + second) and row["ratio"] == pytest.approx([(first + second) / 291.88])
    assert row["entropies"]["entropy_pooled"] == pooled < first  # control variates in the bin of 0 pull one histogram of both down
    row["entropies"] = {"entropy": 326.085, "entropy_1": 326.079, "entropy_2": 0.00609}
    assert bench.texts("fedelasticnet-table3", row)[4] == "326.1 = 326.1 + 0.0061"
    older = {name: v for name, v in made.metrics.items() if name not in ("entropy_1", "entropy_2", "entropy_pooled")}
    for method in ("scaffold", "feddyn"):  # its entropy was that of one histogram
        run = replace(made, metrics=older, preset=replace(made.preset, dataset="mnist", method=method))
        (row,) = bench.cells("fedelasticnet-table3", [run])
        assert row["measured"] is row["ratio"] is None and set(row["entropies"].values()) == {None}


def test_a_recorded_entropy_is_not_gone_on_with_in_another_meaning(tmp_path):
    problem = quick("scaffold").make_problem(data.digits())
    options = {"record": ["entropy"], "checkpoint": tmp_path / "a.ckpt", "progress": False}
    training.train(problem, quick("scaffold").make_algorithm(), 1, **options)
    kept = checkpoints.load(tmp_path / "a.ckpt")
    once = {k: v for k, v in kept.configuration.items() if k != "entropy"}
    checkpoints.save(tmp_path / "a.ckpt", replace(kept, configuration=once))
    with pytest.raises(CheckpointError, match="entropy is None there and sum over messages here"):
        training.train(problem, quick("scaffold").make_algorithm(), 2, **options)
