"""Clipping, mini-batches and views on small instances of which no two numbers are alike, against a second writing."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from active_rows import rows_of
from cases import each
from worked_steps import (
    ANCHOR,
    CENTER,
    CURVATURE,
    L1,
    LINEAR,
    LR,
    OBJECTIVES,
    PROBLEM,
    START,
    close,
    fractions,
    loss_gradient,
    made,
    parts,
    sign,
)

from fedtheory import problems
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD, GradientSteps, LocalObjective, LocalSGD, local_sgd
from fedtheory.local.clipping import clipped_direction, clipped_factor
from fedtheory.local.local_sgd import _distinct, _per_row
from fedtheory.local.objective import Rows
from fedtheory.local.sgd import sample_order
from fedtheory.local.shifted_gradients import (
    MixedView,
    OnView,
    SameBatchView,
    ScaledView,
    View,
    draws_batches,
    refuse_noise,
)
from fedtheory.randomness import BLOCK, Stream


# --- clipping -------------------------------------------------------------------------------------
@each("limit", [0.5, 1e3])
@each("spares", [None, "curvature"])
@each("prox", [False, True])
@each("ridge", [0.0, 0.3125])
@each("name", OBJECTIVES)
def test_what_of_a_step_is_clipped(name, ridge, prox, spares, limit):
    """min(1, limit/(norm + 1e-6)) of all but ridge y, and with spares all but curvature y, which are added afterwards."""
    gradient = PROBLEM.client_gradient(START) + ridge * START
    got = clipped_direction(made(name), START, gradient, ridge, prox, limit, spares)
    for k, b in np.ndindex(2, 2):
        y, (center, linear, q, l1, anchor) = fractions(START[k, b]), parts(name, k, b)
        own = loss_gradient(k, y)
        cut = [
            own[i] - linear[i] - q * center[i] + (0 if spares else q * y[i]) + (0 if prox else l1 * sign(y[i] - anchor[i]))
            for i in range(2)
        ]
        factor = min(1.0, limit / (math.hypot(*cut) + 1e-6))
        assert (factor < 1) == (limit < 1)
        needed = [factor * float(c) + (ridge + (float(q) if spares else 0)) * float(v) for c, v in zip(cut, y)]
        np.testing.assert_allclose(got[k, b], needed, rtol=1e-12)


def test_the_factor_of_each_row():
    got = clipped_factor(np.array([[3.0, -4.0], [0.3, 0.4], [0.0, 0.0], [np.nan, 1.0]]), 2.0)
    np.testing.assert_allclose(got[:, 0], [2 / (5 + 1e-6), 1.0, 1.0, np.nan], rtol=1e-15)


# --- mini-batches ---------------------------------------------------------------------------------
FEATURES = [np.array([[0.5, -1.5], [2.5, 0.75], [-0.25, 1.25], [1.75, -0.125], [0.875, 3.0]]), np.array([[1.5, 0.25], [-2.0, 0.625]])]
TARGETS = [np.array([0.375, -1.25, 2.0, 0.6875, -0.5]), np.array([1.0, -0.75])]
RIDGE = 0.28125
SAMPLES = problems.LeastSquares(FEATURES, TARGETS, RIDGE)


def batch_gradient(k, y, batch):
    """Mean over the batch of a (a'y - b), and the ridge."""
    out = [Fraction(RIDGE) * v for v in y]
    for j in batch:
        a = fractions(FEATURES[k][j])
        r = sum(u * v for u, v in zip(a, y)) - Fraction(float(TARGETS[k][j]))
        out = [o + r * u / len(batch) for o, u in zip(out, a)]
    return out


class Noted(problems.LeastSquares):
    """Notes the samples that it is asked for."""

    def client_batch_gradient(self, y, samples):
        Noted.seen.append((self.num_clients, np.array(samples)))
        return super().client_batch_gradient(y, samples)


def test_sgd_in_fractions_on_the_samples_it_drew():
    """Clients of 5 and 2 samples in batches of 2: three steps and one an epoch, of 3/32 (3/4)^2 (5/8)^epoch in round 3."""
    Noted.seen = []
    problem = Noted(FEATURES, TARGETS, RIDGE)
    got = SGD(2, LR, epochs=2, decay=0.75, epoch_decay=0.625).solve(problem, made("everything"), START, rows_of(2, 2, round_index=3))
    drawn = [s for _, s in Noted.seen]
    assert sorted(s.shape[-1] for s in drawn) == [1, 1, 2, 2, 2, 2, 2, 2]
    base = Fraction(LR) * Fraction(9, 16)
    walks = {1: [s for s in drawn[:2]], 0: [s for s in drawn[2:]]}  # the fewest samples first
    sums = {0: base * 3 * (1 + Fraction(5, 8)), 1: base * (1 + Fraction(5, 8))}
    for k, b in np.ndindex(2, 2):
        y, (center, linear, q, l1, anchor) = fractions(START[k, b]), parts("everything", k, b)
        per = 3 if k == 0 else 1
        for step, batch in enumerate(walks[k]):
            g = batch_gradient(k, y, batch[0, b])
            lr = base * Fraction(5, 8) ** (step // per)
            y = [
                v - lr * (u - w + q * (v - c) + l1 * sign(v - a)) for v, u, w, c, a in zip(y, g, linear, center, anchor)
            ]
        close(got.y[k, b], y)
        assert got.step_sum[k, b, 0] == pytest.approx(float(sums[k]), rel=1e-14)


def test_what_is_drawn_is_addressed_by_seed_round_step_scenario_and_client():
    """The first rows of a block of scenarios: the same whoever else takes part, and the same in every release."""
    clients, scenarios = np.array([5, 2]), np.array([[3, BLOCK + 5, 2 * BLOCK], [0, 1, BLOCK]])
    stream = Stream(11)
    rows = Rows(clients, scenarios, np.ones((2, 3), bool), stream, 4)
    for n, b in np.ndindex(2, 3):
        client, (block, inside) = int(clients[n]), divmod(int(scenarios[n, b]), BLOCK)
        keys = stream.generator("minibatch", 4, 7, (client << 32) | block).random((BLOCK, 9))[inside]
        assert sample_order(rows, n, b, 9, 7).tolist() == np.argsort(keys).tolist()
        drawn = stream.generator("local batch", 4, 7, block).random((6, BLOCK, 2))[client, inside]
        assert _per_row(rows, "local batch", 7, 2, np.random.Generator.random)[n, b].tolist() == drawn.tolist()


def test_the_first_places_of_a_shuffle():
    """u = (0, 1/2, 3/4) of 5: swap 0 with 0, 1 with 1 + 2 and 2 with 2 + 2; of 3 samples 1 with 2, and 2 with itself."""
    u = np.array([[[0.0, 0.5, 0.75]], [[0.0, 0.5, 0.75]]])
    assert _distinct(u, np.array([5, 3])[:, None, None])[:, 0].tolist() == [[0, 3, 4], [0, 2, 1]]


def test_clients_of_as_many_samples_have_one_step_sum():
    """A number; with unequal ones, one for each row, (N, B, 1). A problem that walks itself is left to it."""
    rng = np.random.default_rng(4)
    alike = problems.LeastSquares(rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 3)))
    assert SGD(2, LR, epochs=2).solve(alike, made("linear"), START, rows_of(2, 2)).step_sum == pytest.approx(4 * LR)
    assert SGD(2, LR, epochs=1).solve(SAMPLES, made("linear"), START, rows_of(2, 2)).step_sum.shape == (2, 2, 1)
    for l1 in ("subgradient", "prox"):  # whole batches are gradient steps, with either
        whole = SGD(3, LR, steps=2, l1=l1).solve(alike, made("everything"), START, rows_of(2, 2))
        steps = GradientSteps(2, LR, l1=l1).solve(alike, made("everything"), START, rows_of(2, 2))
        np.testing.assert_allclose(whole.y, steps.y, rtol=1e-12, atol=1e-14)
    alike.walk = lambda *given: given
    solver, objective, rows = SGD(2, LR, epochs=2), made("linear"), rows_of(2, 2)
    assert solver.solve(alike, objective, START, rows) == (solver, objective, START, rows)


@pytest.mark.parametrize("l1", ["subgradient", "prox"])
@pytest.mark.parametrize("spares", [None, "curvature"])
def test_clipped_sgd_steps(l1, spares):
    """Whole batches, clipped at 1/2: the step, and the prox after it."""
    got = SGD(5, LR, steps=2, l1=l1, clip=0.5, clip_spares=spares).solve(SAMPLES, made("everything"), START, rows_of(2, 2))
    y = START
    for _ in range(2):
        along = clipped_direction(made("everything"), y, SAMPLES.client_gradient(y), RIDGE, l1 == "prox", 0.5, spares)
        y = y - LR * along
        if l1 == "prox":
            y = ANCHOR + np.sign(y - ANCHOR) * np.maximum(np.abs(y - ANCHOR) - LR * L1, 0)
    np.testing.assert_allclose(got.y, y, rtol=1e-13)


def test_mini_batches_of_plain_local_steps():
    """With replacement any sample of the client, without it different ones; the noise has the mean square asked for."""
    for replacement in (True, False):
        Noted.seen = []
        problem = Noted(FEATURES, TARGETS, RIDGE)
        solver = LocalSGD(40, LR, 2, replacement=replacement)
        got = solver.solve(problem, made("linear"), START, rows_of(2, 2))
        drawn = [s for _, s in Noted.seen]
        assert len(drawn) == 40 and {s.shape for s in drawn} == {(2, 2, 2)}
        for k, n in enumerate((5, 2)):
            picks = np.stack([s[k] for s in drawn])
            assert set(picks.ravel().tolist()) == set(range(n))
            assert (picks[..., 0] == picks[..., 1]).any() == replacement
        y = fractions(START[0, 1])
        for s in drawn:
            y = [v - Fraction(LR) * (u - w) for v, u, w in zip(y, batch_gradient(0, y, s[0, 1]), fractions(LINEAR[0, 1]))]
            y = [Fraction(float(v)) for v in y]
        np.testing.assert_allclose(got.y[0, 1], [float(v) for v in y], rtol=1e-11)
    flat = problems.Quadratic(np.zeros((1, 4, 4)), np.zeros((1, 4)))
    noise = LocalSGD(1, 1.0, noise_std=0.75).solve(flat, LocalObjective(np.zeros(4)), np.zeros((1, 4000, 4)), rows_of(1, 4000)).y
    assert (noise**2).sum(axis=-1).mean() == pytest.approx(0.5625, rel=0.06) and abs(noise.mean()) < 0.02


def test_mini_batches_need_samples_and_without_replacement_enough_of_them():
    with pytest.raises(MissingCapability, match="Quadratic has no samples to draw mini-batches from"):
        LocalSGD(1, 1.0, 1).check(PROBLEM)
    with pytest.raises(MissingCapability, match="Quadratic has no samples to draw mini-batches from"):
        SGD(1, 1.0, epochs=1).check(PROBLEM)
    LocalSGD(1, 1.0, 2, replacement=False).check(SAMPLES)
    LocalSGD(1, 1.0, 3).check(SAMPLES)
    with pytest.raises(InvalidInput, match="batch_size = 3 without replacement, but a client has only 2 samples"):
        LocalSGD(1, 1.0, 3, replacement=False).check(SAMPLES)


# --- views ----------------------------------------------------------------------------------------
PICKS = np.array([[[0, 3], [2, 2]], [[1, 1], [0, 1]]])


def test_a_view_is_its_problem_seen_through():
    view = View(SAMPLES)
    assert view.ridge == RIDGE and view.dim == 2
    np.testing.assert_array_equal(view.client_gradient(START), SAMPLES.client_gradient(START))
    np.testing.assert_array_equal(view.client_batch_gradient(START, PICKS), SAMPLES.client_batch_gradient(START, PICKS))
    assert not hasattr(view, "walk") and not hasattr(View(SimpleNamespace(walk=1)), "walk")
    for name in ("__len__", "problem"):
        with pytest.raises(AttributeError, match=name):
            getattr(View.__new__(View) if name == "problem" else View(SimpleNamespace(__len__=1)), name)
    with pytest.raises(AttributeError, match="problem"):
        View.__new__(View).dim  # noqa: B018
    g = SAMPLES.client_gradient(START)
    np.testing.assert_array_equal(
        view.clipped_direction(made("everything"), START, g, True, 0.5, "curvature"),
        clipped_direction(made("everything"), START, g, RIDGE, True, 0.5, "curvature"),
    )


def test_a_scaled_view():
    """Clip the gradient before it is scaled, without the momentum, which is added again."""
    view, s = ScaledView(SAMPLES, 0.375), 0.375
    np.testing.assert_allclose(view.client_gradient(START), s * SAMPLES.client_gradient(START))
    np.testing.assert_allclose(view.client_batch_gradient(START, PICKS), s * SAMPLES.client_batch_gradient(START, PICKS))
    momentum = LINEAR[::-1] / 4
    for held in (None, momentum):
        linear = LINEAR if held is None else LINEAR - held  # linear holds -momentum
        objective = LocalObjective(CENTER, linear, CURVATURE, L1, momentum=held)
        got = view.clipped_direction(objective, START, view.client_gradient(START), False, 0.5, None)
        g = SAMPLES.client_gradient(START)
        own = g - RIDGE * START + (CURVATURE * (START - CENTER) - LINEAR + L1 * np.sign(START - CENTER)) / s
        factor = np.minimum(1, 0.5 / (np.linalg.norm(own, axis=-1, keepdims=True) + 1e-6))
        needed = s * (own * factor + RIDGE * START) + (0 if held is None else held)
        np.testing.assert_allclose(got, needed, rtol=1e-12)
    # with a prox for the l1 term and the curvature spared: neither is clipped
    objective, along = LocalObjective(CENTER, LINEAR, CURVATURE, L1), view.client_gradient(START)
    spared = view.clipped_direction(objective, START, along, True, 0.5, "curvature")
    own = SAMPLES.client_gradient(START) - RIDGE * START - (CURVATURE * CENTER + LINEAR) / s
    factor = np.minimum(1, 0.5 / (np.linalg.norm(own, axis=-1, keepdims=True) + 1e-6))
    np.testing.assert_allclose(spared, s * (own * factor + RIDGE * START) + CURVATURE * START, rtol=1e-12)
    bare = view.clipped_direction(LocalObjective(CENTER), START, view.client_gradient(START), True, 0.5, None)
    own = SAMPLES.client_gradient(START) - RIDGE * START
    factor = np.minimum(1, 0.5 / (np.linalg.norm(own, axis=-1, keepdims=True) + 1e-6))
    np.testing.assert_allclose(bare, s * (own * factor + RIDGE * START), rtol=1e-12)


def test_the_same_batch_at_the_anchor():
    """scale (grad(y; batch) - grad(anchor; batch) + grad(anchor)), and with some clients only theirs."""
    view = SameBatchView(SAMPLES, ANCHOR, 0.375)
    needed = np.empty_like(START)
    for k, b in np.ndindex(2, 2):
        here, there = (batch_gradient(k, fractions(p[k, b]), PICKS[k, b]) for p in (START, ANCHOR))
        full = batch_gradient(k, fractions(ANCHOR[k, b]), range(len(TARGETS[k])))
        needed[k, b] = [float(Fraction(0.375) * (u - v + w)) for u, v, w in zip(here, there, full)]
    np.testing.assert_allclose(view.client_batch_gradient(START, PICKS), needed, rtol=1e-12)
    np.testing.assert_allclose(view.client_gradient(START), 0.375 * SAMPLES.client_gradient(START))
    swapped = view.subset(np.array([1, 0]))
    np.testing.assert_allclose(swapped.client_batch_gradient(START[::-1], PICKS[::-1]), needed[::-1], rtol=1e-12)
    np.testing.assert_allclose(SameBatchView(SAMPLES, ANCHOR).client_gradient(START), SAMPLES.client_gradient(START))


@pytest.mark.parametrize("adaptive", [True, False])
def test_two_models_and_their_mixture(adaptive):
    """(grad f(w), a grad f(m), <v - w, grad f(m)>) at m = a v + (1 - a) w; where a has left [0, 1] its nearest end is used."""
    view, mix = MixedView(SAMPLES, adaptive), np.array([[0.375, -0.5], [1.25, 0.625]])
    y = np.concatenate([START, ANCHOR, mix[..., None]], axis=-1)
    for batches in (None, PICKS):
        got = view.client_gradient(y) if batches is None else view.client_batch_gradient(y, batches)
        for k, b in np.ndindex(2, 2):
            a = Fraction(min(max(mix[k, b], 0.0), 1.0))
            w, v = fractions(START[k, b]), fractions(ANCHOR[k, b])
            batch = range(len(TARGETS[k])) if batches is None else batches[k, b]
            at_w = batch_gradient(k, w, batch)
            at_m = batch_gradient(k, [a * p + (1 - a) * q for p, q in zip(v, w)], batch)
            slope = sum((p - q) * g for p, q, g in zip(v, w, at_m)) if adaptive else Fraction(0)
            close(got[k, b], [*at_w, *(a * g for g in at_m), slope])
    whole, a = view.client_gradient(y), np.clip(mix, 0, 1)[..., None]
    got = view.clipped_direction(LocalObjective(y), y, whole, False, 0.0625, None)
    for part, decay in ((slice(0, 2), RIDGE * START), (slice(2, 4), RIDGE * a * (a * ANCHOR + (1 - a) * START))):
        own = whole[..., part] - decay
        factor = np.minimum(1, 0.0625 / (np.linalg.norm(own, axis=-1, keepdims=True) + 1e-6))
        np.testing.assert_allclose(got[..., part], own * factor + decay, rtol=1e-12)
    np.testing.assert_array_equal(got[..., 4:], whole[..., 4:])


def test_a_solver_on_a_view_is_that_solver():
    solver = OnView(LocalSGD(3, LR), lambda problem, start: ScaledView(problem, 0.375))
    assert solver.honours_steps is True and solver.steps == 3 and OnView(SimpleNamespace(honours_steps=False), None).steps is None
    got = solver.solve(SAMPLES, LocalObjective(START), START, rows_of(2, 2)).y
    y = START
    for _ in range(3):
        y = y - LR * 0.375 * SAMPLES.client_gradient(y)
    np.testing.assert_allclose(got, y, rtol=1e-12)
    asked = []
    noting = SimpleNamespace(check=lambda *a: asked.append(a), solve=lambda *a: asked.append(a))
    OnView(noting, None).check(SAMPLES, "objective")
    OnView(noting, lambda *a: asked.append(a) or "view").solve(SAMPLES, "objective", "start", "rows")
    assert asked == [(SAMPLES, "objective"), (SAMPLES, "start"), ("view", "objective", "start", "rows")]
    with pytest.raises(MissingCapability, match="no samples"):
        OnView(LocalSGD(1, 1.0, 1), None).check(PROBLEM)
    assert draws_batches(LocalSGD(1, 1.0, 1)) and not draws_batches(LocalSGD(1, 1.0)) and not draws_batches(GradientSteps(1, 1.0))
    refuse_noise(LocalSGD(1, 1.0), "it")
    refuse_noise(GradientSteps(1, 1.0), "it")
    with pytest.raises(MissingCapability, match=r"noise_std = 0\.5 belongs to no sample, and it needs gradients"):
        refuse_noise(LocalSGD(1, 1.0, noise_std=0.5), "it")


def test_noise_is_added_to_the_gradient_as_drawn():
    flat, start = problems.Quadratic(np.zeros((2, 4, 4)), np.zeros((2, 4))), np.zeros((2, 3, 4))
    rows = rows_of(2, 3)
    got = LocalSGD(2, 0.5, noise_std=0.75).solve(flat, LocalObjective(start), start, rows).y
    drawn = sum(_per_row(rows, "local noise", step, 4, np.random.Generator.standard_normal) for step in range(2))
    np.testing.assert_allclose(got, -0.5 * 0.375 * drawn, rtol=1e-13)  # 3/4 over the root of 4


@pytest.mark.parametrize("size", [1, 2**20])
def test_plain_steps_are_the_same_in_blocks_of_any_size(size, monkeypatch):
    monkeypatch.setattr(local_sgd, "IN_CACHE", size)
    steps = np.array([[0, 3], [2, 1]])
    got = LocalSGD(3, LR).solve(SAMPLES, LocalObjective(START), START, rows_of(2, 2)._replace(steps=steps)).y
    for k, b in np.ndindex(2, 2):
        y = fractions(START[k, b])
        for _ in range(steps[k, b]):
            y = [v - Fraction(LR) * g for v, g in zip(y, batch_gradient(k, y, range(len(TARGETS[k]))))]
        np.testing.assert_allclose(got[k, b], [float(v) for v in y], rtol=1e-12)


SOLVERS = [LocalSGD(3, 0.0625), LocalSGD(3, 0.0625, 2), LocalSGD(3, 0.0625, noise_std=0.75), LocalSGD(3, 0.0625, 2, 0.75, False)]


@pytest.mark.parametrize("steps", [[[3, 1], [0, 2]], [[1, 0], [2, 1]]], ids=["of 3", "none makes 3"])
@pytest.mark.parametrize("solver", SOLVERS, ids=["plain", "batches", "noise", "both"])
def test_a_client_that_stops_early_made_the_same_steps_until_then(solver, steps):
    """Without a penalty and with one; the same with any array library's operations."""
    steps, rows = np.array(steps), rows_of(2, 2)
    for objective in (LocalObjective(START), LocalObjective(START, curvature=0.5)):
        paths = [START] + [replace(solver, steps=n).solve(SAMPLES, objective, START, rows).y for n in (1, 2, 3)]
        got = solver.solve(SAMPLES, objective, START, rows._replace(steps=steps))
        for k, b in np.ndindex(2, 2):
            np.testing.assert_allclose(got.y[k, b], paths[steps[k, b]][k, b], rtol=1e-14)
        assert got.step_sum[..., 0].tolist() == (0.0625 * steps).tolist()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local_sgd, "is_numpy", lambda a: False)
            np.testing.assert_allclose(solver.solve(SAMPLES, objective, START, rows._replace(steps=steps)).y, got.y, rtol=1e-14)


def test_a_mini_batch_is_drawn_from_its_own_stream():
    """floor(u n_k) of the uniforms of (seed, "local batch", round, step), block by block of scenarios."""
    rows, solver = rows_of(2, 2, round_index=4, seed=9), LocalSGD(3, 0.0625, 5)
    for step, (batch, noise) in enumerate(solver._draws(SAMPLES, START, rows)):
        u = rows.stream.generator("local batch", 4, step, 0).random((2, BLOCK, 5))[:, :2]
        assert noise is None and batch.tolist() == np.floor(u * np.array(SAMPLES.sample_counts)[:, None, None]).tolist()


def test_plain_steps_keep_the_precision_of_their_start():
    single = START.astype(np.float32)
    got = LocalSGD(2, LR).solve(SAMPLES.like(single), LocalObjective(single), single, rows_of(2, 2)._replace(steps=np.full((2, 2), 2)))
    assert got.y.dtype == np.float32


def test_a_schedule_gives_numbers_above_0():
    with pytest.raises(InvalidInput, match=r"lr\(3\) is -1.0: .*; a schedule must give such numbers"):
        LocalSGD(2, lambda t: 2.0 - t).step_size(3)
