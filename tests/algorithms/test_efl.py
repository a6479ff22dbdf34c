"""EFL: what is added up is what clients computed, in every round; and a round by hand."""

from __future__ import annotations

import functools
from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory import Bernoulli, Full, Uniform, algorithms, messages, problems, simulate
from fedtheory.local import InverseTime, LocalSGD
from fedtheory.participation.coefficients import coefficients
from fedtheory.participation.irregular import complete, inactive, incomplete, windows

N, D, E, ROUNDS, SCENARIOS = 5, 6, 3, 7, 4
LAW = [0.3, 0.3, 0.2, 0.2]
SAMPLINGS = {
    "full": Full(),
    "uniform": Uniform(2),
    "bernoulli": Bernoulli((0.5, 0.9, 0.3, 1.0, 0.7)),
    "complete": complete(N, E),
    "inactive": inactive(N, E, (0.5, 0.1, 0.6, 0.0, 0.9)),
    "incomplete": incomplete(N, E, LAW),
    "windows": windows(incomplete(N, E, LAW), {1: (None, 4), 3: (3, None), 4: (2, 6)}),
}


@functools.cache
def regression(weights="samples"):
    rng = np.random.default_rng(5)
    sizes = (8, 3, 6, 5, 4)
    return problems.LeastSquares(
        [rng.normal(size=(n, D)) for n in sizes], [rng.normal(size=n) for n in sizes], ridge=0.2, weights=weights
    )


def compressor(name="st"):
    return {
        "st": lambda: messages.ST(0.34),
        "topk": lambda: messages.TopK(2),
        "randomk": lambda: messages.RandomK(2, scaled=False),
        "qsgd": lambda: messages.QSGD(4),
        "sign": messages.ScaledSign,
    }[name]()


def follow(algorithm, sampling, rounds=ROUNDS, problem=None, solver=None, **options):
    """A run, and in every round the state and sum_k p_t^k x_t^k (S, d), from what the local solver returned."""
    states, moved = [], []

    def look(t, old, new, clients):
        cohort = clients.cohort.dense()
        steps = cohort.mask.astype(int) * E if cohort.steps is None else cohort.steps
        p = coefficients(algorithm.scheme, steps, E, clients.problem.weights, cohort.active_probability, cohort.present)
        delta = np.zeros((len(steps), clients.num_clients, old.x.shape[1]))
        held = old.x if old.held is None else old.held
        y = clients.results[0].y - held[:, None, :]
        delta = clients.put(delta, y)
        moved.append(np.where(cohort.size()[:, None] > 0, np.einsum("sk,skd->sd", p, delta), 0))
        states.append((old, new, cohort))

    run = simulate(
        problem or regression(),
        algorithm,
        rounds,
        x0=np.random.default_rng(0).normal(size=D) if problem is None else None,
        sampling=sampling,
        scenarios=SCENARIOS,
        seed=3,
        local_solver=solver or LocalSGD(E, 0.05, batch_size=2),
        on_round=look,
        **options,
    )
    return run, states, moved


def held_back(state, weights):
    """R^G + sum_k p^k R^k, (S, d)."""
    total = 0.0 if state.server_residual is None else state.server_residual
    return total if state.residuals is None else total + np.einsum("k,skd->sd", weights, state.residuals)


@pytest.mark.parametrize("ways", ["both", "up", "down"])
@pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_nothing_is_lost_and_nothing_counted_twice(sampling, scheme, ways):
    """w + R^G + sum p^k R^k = w_0 + sum p_t x_t in every round, whoever comes and goes."""
    c = compressor()
    algorithm = algorithms.EFL(
        scheme=scheme, compressor=None if ways == "down" else c, down_compressor=None if ways == "up" else c
    )
    run, states, moved = follow(algorithm, SAMPLINGS[sampling])
    total = states[0][0].x.copy()
    for (_, new, _), step in zip(states, moved, strict=True):
        total += step
        np.testing.assert_allclose(new.x + held_back(new, regression().weights), total, rtol=0, atol=1e-13)
    assert np.abs(np.array(moved)).max() > 1e-2
    assert np.abs(held_back(run.final, regression().weights)).max() > 1e-3


@pytest.mark.parametrize("name", ["topk", "randomk", "qsgd", "sign"])
def test_the_invariant_does_not_depend_on_the_compressor(name):
    algorithm = algorithms.EFL(0.1, compressor=compressor(name), down_compressor=compressor(name))
    _, states, moved = follow(algorithm, SAMPLINGS["incomplete"])
    total = states[0][0].x + sum(moved)
    new = states[-1][1]
    np.testing.assert_allclose(new.x + held_back(new, regression().weights), total, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "change", [{"variant": "literal"}, {"variant": "text"}, {"variant": "text-received"}, {"scale": "after"}]
)
def test_what_is_printed_does_not_add_up(change):
    """The other readings break the invariant: by far more than rounding, and more with every round."""
    c = compressor()
    _, states, moved = follow(algorithms.EFL(compressor=c, down_compressor=c, **change), SAMPLINGS["incomplete"])
    gaps, total = [], states[0][0].x.copy()
    for (_, new, _), step in zip(states, moved, strict=True):
        total += step
        gaps.append(np.abs(new.x + held_back(new, regression().weights) - total).max())
    assert gaps[-1] > 1e-2


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_without_compression_all_variants_are_one(sampling):
    ends = [
        simulate(
            regression(),
            algorithms.EFL(0.2, "C", variant=v),
            ROUNDS,
            sampling=SAMPLINGS[sampling],
            scenarios=3,
            local_solver=LocalSGD(E, 0.05, batch_size=2),
        ).x
        for v in ("none", "consistent", "literal", "text", "text-received")
    ]
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=1e-13)


def test_complete_clients_without_elastic_term_are_fedavg():
    """lam = 0, everybody complete: EFL in schemes A, B and C is FedAvg with weights n_k/n."""
    solver = LocalSGD(E, 0.05, batch_size=2)
    expected = simulate(regression(), algorithms.FedAvg(), 5, scenarios=3, local_solver=solver).x
    for scheme in ("A", "B", "C", "C-corrected"):
        for sampling in (Full(), complete(N, E)):
            run = simulate(
                regression(), algorithms.EFL(scheme=scheme), 5, sampling=sampling, scenarios=3, local_solver=solver
            )
            np.testing.assert_allclose(run.x, expected, rtol=1e-12)


def test_two_rounds_by_hand():
    """Two clients, d = 2, E = 1, exact numbers: f_1 = (x_1^2 + 4 x_2^2)/2 around (4, 2), f_2 = ||x||^2/2 around (0, -2)."""
    problem = problems.Quadratic([[[1, 0], [0, 4]], [[1, 0], [0, 1]]], [[4, 2], [0, -2]])
    top = messages.TopK(1)
    algorithm = algorithms.EFL(compressor=top, down_compressor=top)
    seen = []
    simulate(
        problem,
        algorithm,
        2,
        sampling=complete(2, 1),
        local_solver=LocalSGD(1, 0.25),
        on_round=lambda t, old, new, clients: seen.append(new),
    )
    # round 1: x^1 = (4, 8)/4 = (1, 2), x^2 = (0, -2)/4 = (0, -1/2)
    # c^1 = (0, 2), R^1 = (1, 0); c^2 = (0, -1/2), R^2 = 0; sum = (0, 3/4); c^G = (0, 3/4), R^G = 0
    # round 2: gradients at (0, 3/4): (-4, -5) and (0, 11/4): x^1 = (1, 5/4), x^2 = (0, -11/16)
    # D^1 = (2, 5/4): c^1 = (2, 0), R^1 = (0, 5/4); c^2 = (0, -11/16), R^2 = 0; D^G = (1, -11/32): c^G = (1, 0)
    by_hand = [
        ([0, F(3, 4)], [0, 0], [[1, 0], [0, 0]]),
        ([1, F(3, 4)], [0, F(-11, 32)], [[0, F(5, 4)], [0, 0]]),
    ]
    for state, (x, server, clients) in zip(seen, by_hand, strict=True):
        assert [F(v) for v in state.x[0]] == x
        assert [F(v) for v in state.server_residual[0]] == server
        assert [[F(v) for v in row] for row in state.residuals[0]] == clients
    # w_0 + sum of all (x^1 + x^2)/2 = (1, 2 + 5/4 - 1/2 - 11/16)/2
    left = [F(v) for v in seen[1].x[0] + seen[1].server_residual[0] + seen[1].residuals[0].sum(axis=0) / 2]
    assert left == [1, (F(13, 4) - F(19, 16)) / 2]


def test_where_the_variants_end():
    """Steps that decay, incomplete clients, top-k both ways: the consistent form keeps the pace of no compression.

    The coefficient after the compressor, and both readings that use a residual at once and once more, stay far behind; where
    clients add what they receive and the server what it has not sent, the server's model goes astray altogether.
    """
    rng = np.random.default_rng(9)
    problem = problems.LeastSquares(rng.normal(size=(5, 12, 10)) / 2, rng.normal(size=(5, 12)), ridge=0.5)
    top, rounds = messages.TopK(k=2), 240

    def end(**change):
        how = {} if change.get("variant") == "none" else {"compressor": top, "down_compressor": top}
        run = simulate(
            problem,
            algorithms.EFL(**how, **change),
            rounds,
            scenarios=10,
            sampling=incomplete(5, 3, [0.2, 0.3, 0.3, 0.2]),
            local_solver=LocalSGD(3, InverseTime(0.2, 20)),
            record=("distance",),
        )
        return run.metrics["distance"].mean(axis=1)[[0, 80, rounds]]

    none, consistent = end(variant="none"), end()
    assert consistent[2] < 1.5 * none[2] and consistent[2] < 0.7 * consistent[1]
    for change in ({"scale": "after"}, {"variant": "text"}):
        assert end(**change)[2] > 2 * consistent[2]
    literal, received = end(variant="literal"), end(variant="text-received")
    assert literal[2] > 5 * consistent[2] and received[2] > received[0]


@pytest.mark.parametrize("scheme", ["C", "C-corrected"])
def test_only_the_correction_reaches_the_optimum_where_some_are_seldom_there(scheme):
    """E[p_tau^k s^k] = E p^k P(active) under C: the limit minimises another objective; divided by P(active) it is F's."""
    rng = np.random.default_rng(10)
    problem = problems.LeastSquares(rng.normal(size=(3, 8, 2)), 2 * rng.normal(size=(3, 8)), ridge=0.2)
    away = np.array([0.0, 0.3, 0.8])
    run = simulate(
        problem,
        algorithms.EFL(scheme=scheme),
        500,
        scenarios=40,
        sampling=inactive(3, 1, tuple(away)),
        local_solver=LocalSGD(1, InverseTime(0.2, 20)),
    )
    tilted = problems.LeastSquares(
        problem.features, problem.targets, ridge=0.2, weights=(1 - away) / (1 - away).sum()
    ).optimum()
    near, far = (problem.optimum().x, tilted.x) if scheme == "C-corrected" else (tilted.x, problem.optimum().x)
    mean, error = run.x.mean(axis=0), run.x.std(axis=0) / np.sqrt(40)
    gap = np.linalg.norm(near - far)
    assert gap > 0.1
    assert np.linalg.norm(mean - near) < 4 * np.linalg.norm(error) + 0.02 * gap < 0.2 * gap
    assert np.linalg.norm(mean - far) > 0.8 * gap
