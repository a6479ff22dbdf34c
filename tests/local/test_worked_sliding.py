"""The random numbers of subgradient sliding, drawn a second time row by row, and a walk with them in plain Python."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedtheory import problems
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalObjective, SubgradientSliding, sliding_draws
from fedtheory.local.objective import Rows
from fedtheory.local.sliding_draws import draws
from fedtheory.randomness import Stream

FEATURES = [[[1.5, -0.75], [0.25, 2.0], [-1.25, 0.5]], [[0.375, 1.75]]]
TARGETS = [[0.3, -1.1, 0.8], [-0.45]]
PROBLEM = problems.LAD([np.array(f) for f in FEATURES], [np.array(t) for t in TARGETS])  # clients of three samples and of one
STREAM, ROUND, CLIENTS, SCENARIOS = Stream(5), 3, [4, 2], [[7, 0], [1, 6]]
ROWS = Rows(np.array(CLIENTS), np.array(SCENARIOS), np.ones((2, 2), bool), STREAM, ROUND)
STEPS, STD, BATCH = 7, 0.6, 3


def normal(k, b):
    """(steps, d) of variance std^2/d."""
    generator = STREAM.generator("sliding noise", ROUND, CLIENTS[k], SCENARIOS[k][b])
    return generator.standard_normal((STEPS, 2)) * (STD / math.sqrt(2))


def picked(k, b):
    return STREAM.generator("sliding samples", ROUND, CLIENTS[k], SCENARIOS[k][b]).integers(0, len(TARGETS[k]), size=(STEPS, BATCH))


# a step of all four rows takes 4 (d + batch) random numbers, of which d are the noise's
@pytest.mark.parametrize(
    ("numbers", "noisy", "batch", "sizes"),
    [
        (60, True, BATCH, [3, 3, 1]), (79, True, BATCH, [3, 3, 1]), (80, True, BATCH, [4, 3]), (19, True, BATCH, [1] * 7),
        (1, True, BATCH, [1] * 7), (140, True, BATCH, [7]), (16, True, None, [2, 2, 2, 1]), (24, False, BATCH, [2, 2, 2, 1]),
        (47, False, BATCH, [3, 3, 1]),
    ],
)  # fmt: skip
def test_every_row_has_its_own_numbers_for_every_step_whatever_the_pieces(monkeypatch, numbers, noisy, batch, sizes):
    monkeypatch.setattr(sliding_draws, "CHUNK", numbers)
    solver = SubgradientSliding(STEPS, noise_std=STD if noisy else 0.0, batch_size=batch)
    pieces = list(draws(solver, PROBLEM, 2, ROWS))
    assert [size for size, *_ in pieces] == sizes
    for n, second in ((1, normal), (2, picked)):
        if not (noisy, batch is not None)[n - 1]:
            assert all(p[n] is None for p in pieces)
            continue
        whole = np.concatenate([p[n] for p in pieces], axis=2)
        assert whole.shape[:3] == (2, 2, STEPS)
        for k, b in np.ndindex(2, 2):
            np.testing.assert_allclose(whole[k, b], second(k, b), rtol=1e-15)
            assert n == 1 or whole[k, b].dtype.kind == "i"


def test_without_noise_and_batches_nothing_is_drawn():
    assert list(draws(SubgradientSliding(STEPS), PROBLEM, 2, ROWS)) == [(STEPS, None, None)]


CENTER = np.array([[[0.5, -1.5], [0.25, 2.5]], [[-0.75, 1.75], [3.5, -2.25]]])
LINEAR = np.array([[[0.125, -0.625], [1.125, 0.875]], [[-1.375, 0.3125], [0.4375, -0.1875]]])
START = np.array([[[0.625, -1.5], [-0.5, 1.0]], [[0.0, 2.0], [1.5, -0.125]]])
BETA, RADIUS = 0.8125, 1.75


@pytest.mark.parametrize("engine", ["numpy", "numba", "auto"])
@pytest.mark.parametrize(("std", "batch"), [(STD, None), (0.0, BATCH), (STD, BATCH)])
def test_the_walk_with_noise_and_batches(engine, std, batch):
    """g is the mean subgradient of the samples drawn, or of all, plus the noise; u_t and the average as in lines 22 to 24."""
    solver = SubgradientSliding(STEPS, RADIUS, std, batch, engine)
    got = solver.solve(PROBLEM, LocalObjective(CENTER, LINEAR, BETA), START, ROWS)
    for k, b in np.ndindex(2, 2):
        u, total, weights = START[k, b].tolist(), [0.0, 0.0], 0
        for t in range(1, STEPS + 1):
            samples = range(len(TARGETS[k])) if batch is None else picked(k, b)[t - 1]
            g = [0.0, 0.0]
            for s in samples:
                side = np.sign(sum(a * v for a, v in zip(FEATURES[k][s], u)) - TARGETS[k][s])
                g = [v + side * a / len(samples) for v, a in zip(g, FEATURES[k][s])]
            if std:
                g = [v + n for v, n in zip(g, normal(k, b)[t - 1])]
            pace = (1 + t / 2) * BETA
            u = [v - (s + BETA * (v - c) - w) / pace for v, s, c, w in zip(u, g, CENTER[k, b], LINEAR[k, b])]
            u = [v * min(1.0, RADIUS / math.hypot(*u)) for v in u]
            total, weights = [a + (t + 1) * v for a, v in zip(total, u)], weights + t + 1
        np.testing.assert_allclose(got.y[k, b], u, rtol=1e-12)
        np.testing.assert_allclose(got.average[k, b], [a / weights for a in total], rtol=1e-12)


COUNT = "is {!r}: it must be an integer >= 1; "
LIMITS = {
    "steps": (
        COUNT + "the number of local steps", [0, -1, 1.0, True, "1"], [1, np.int64(2)],
    ),
    "radius": (
        "is {!r}: the ball needs a number > 0", [0, -1e-9, math.nan, True, "1"],
        [1e-9, 1, math.inf],
    ),
    "noise_std": (
        "is {!r}: it must be a finite number >= 0; a root mean square norm",
        [-1e-9, math.inf, math.nan, True, "0"], [0, 1e-9, 1e9],
    ),
    "batch_size": (COUNT + "or None", [0, 1.0, True, "1"], [None, 1, np.int64(2)]),
    "engine": (
        "= {!r}: use one of auto, numpy, numba", ["", "NUMPY", None], ["auto", "numpy", "numba"],
    ),
    "threads": (COUNT + "or None", [0, 1.0, True], [None, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_from_both_sides(name):
    limit, refused, taken = LIMITS[name]
    for value in refused:
        with pytest.raises(InvalidInput) as said:
            SubgradientSliding(**{name: value})
        assert str(said.value) == f"{name} {limit.format(value)}"
    for value in taken:
        assert getattr(SubgradientSliding(**{name: value}), name) == value


def test_what_it_cannot_work_on_is_refused_with_the_remedy():
    solver, objective = SubgradientSliding(STEPS), LocalObjective(CENTER, LINEAR, BETA)
    for curvature in (0.0, -1.0, math.inf, math.nan, np.ones(2), "1"):
        with pytest.raises(InvalidInput, match=r"curvature = .*: subgradient sliding needs one finite number beta > 0"):
            solver.solve(PROBLEM, replace(objective, curvature=curvature), START, ROWS)
    assert solver.solve(PROBLEM, replace(objective, curvature=1), START, ROWS).y.shape == START.shape
    with pytest.raises(InvalidInput, match=r"l1 = 0\.5: subgradient sliding has no l1 penalty; put it into the problem's loss"):
        solver.solve(PROBLEM, replace(objective, l1=0.5), START, ROWS)
    smooth = problems.Quadratic(np.eye(2)[None], np.zeros((1, 2)))
    with pytest.raises(MissingCapability, match="Quadratic has no compiled form: use engine='auto' or 'numpy'"):
        SubgradientSliding(engine="numba").solve(smooth, objective, START, ROWS)
    with pytest.raises(MissingCapability, match="L1Distance has no samples to draw mini-batches from: use batch_size=None"):
        SubgradientSliding(batch_size=1).check(problems.L1Distance(np.zeros((1, 2))))
    SubgradientSliding().check(problems.L1Distance(np.zeros((1, 2))))
    SubgradientSliding(batch_size=1, engine="numba").check(PROBLEM)


def test_where_the_compiled_engine_is_taken():
    single = START.astype(np.float32)
    assert SubgradientSliding().use_compiled(PROBLEM, START) is True
    assert SubgradientSliding(engine="numba").use_compiled(PROBLEM, START) is True
    assert SubgradientSliding(engine="numpy").use_compiled(PROBLEM, START) is False
    assert SubgradientSliding().use_compiled(PROBLEM, single) is False
    assert SubgradientSliding().use_compiled(problems.Quadratic(np.eye(2)[None], np.zeros((1, 2))), START) is False
    said = "engine = 'numba' works on float64 arrays in main memory, not on float32 on cpu: use engine='auto'"
    with pytest.raises(InvalidInput, match=said):
        SubgradientSliding(engine="numba").use_compiled(PROBLEM, single)
