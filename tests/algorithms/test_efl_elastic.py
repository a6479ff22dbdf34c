"""EFL's elastic term: the Fisher diagonals, the gradient by hand, where it leads, and clients that have left."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from fedtheory import Full, algorithms, messages, problems, simulate
from fedtheory.clients.fisher import client_fisher
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import Exact, GradientSteps, InverseTime, LocalSGD
from fedtheory.participation.irregular import Irregular, complete, inactive, incomplete, windows


# --- Fisher diagonals -----------------------------------------------------------------------------
def models():
    """Problems with a likelihood, and for a sample a, b and the parameters: the scores and probabilities of every label."""
    rng = np.random.default_rng(11)
    features = [rng.normal(size=(n, 3)) for n in (5, 2, 4)]

    def logistic(a, w):
        return [(1 / (1 + np.exp(-b * (a @ w))), -b * a / (1 + np.exp(b * (a @ w))), b) for b in (-1.0, 1.0)]

    def softmax(a, w):
        z = a @ w.reshape(3, 4)
        p = np.exp(z) / np.exp(z).sum()
        return [(p[b], np.outer(a, p - np.eye(4)[b]).ravel(), b) for b in range(4)]

    signs = [rng.choice([-1.0, 1.0], size=len(f)) for f in features]
    classes = [rng.integers(0, 4, len(f)) for f in features]
    return [
        (problems.Logistic(features, signs, ridge=0.7), logistic, features, signs),
        (problems.Softmax(features, classes, 4, ridge=0.7), softmax, features, classes),
    ]


@pytest.mark.parametrize("which", [0, 1])
def test_fisher_diagonals_are_squared_scores_by_definition(which):
    """Every label's squared score, weighted with its probability, or with 1 for the observed one; one sample after the other."""
    problem, labels, features, observed = models()[which]
    y = np.random.default_rng(12).normal(size=(3, 2, problem.dim))
    for kind in ("model", "empirical"):
        got = client_fisher(problem, y, kind)
        for k in range(3):
            for b in range(2):
                total = np.zeros(problem.dim)
                for a, seen in zip(features[k], observed[k], strict=True):
                    for p, score, label in labels(a, y[k, b]):
                        total += (p if kind == "model" else float(label == seen)) * score**2
                np.testing.assert_allclose(got[k, b], total / len(features[k]), rtol=1e-12)


def test_fisher_of_least_squares():
    rng = np.random.default_rng(13)
    features, targets = [rng.normal(size=(n, 3)) for n in (5, 2)], [rng.normal(size=n) for n in (5, 2)]
    problem, y = problems.LeastSquares(features, targets, ridge=0.4), rng.normal(size=(2, 3, 3))
    gram = np.array([(f**2).mean(axis=0) for f in features])
    for kind in ("gram", "model"):  # b ~ N(a'w, 1): the expected squared residual is 1
        np.testing.assert_allclose(client_fisher(problem, y, kind), np.broadcast_to(gram[:, None], y.shape), rtol=1e-13)
    residual = features[1] @ y[1, 2] - targets[1]
    expected = ((residual[:, None] * features[1]) ** 2).mean(axis=0)
    np.testing.assert_allclose(client_fisher(problem, y, "empirical")[1, 2], expected, rtol=1e-12)
    huber = problems.Huber(features, targets, delta=0.3)
    clipped = np.clip(features[1] @ y[1, 2] - targets[1], -0.3, 0.3)
    expected = ((clipped[:, None] * features[1]) ** 2).mean(axis=0)
    np.testing.assert_allclose(client_fisher(huber, y, "empirical")[1, 2], expected, rtol=1e-12)


def test_fisher_that_does_not_exist():
    rng = np.random.default_rng(14)
    logistic, huber = models()[0][0], problems.Huber(rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3)))
    quadratic = problems.Quadratic(np.diag([1.0, 2.0])[None], np.zeros((1, 2)))
    np.testing.assert_array_equal(client_fisher(quadratic, np.zeros((1, 2, 2)), "gram"), [[[1, 2], [1, 2]]])
    saddle = problems.Quadratic(np.diag([1.0, -2.0])[None], np.zeros((1, 2)))
    for problem, kind in ((logistic, "gram"), (huber, "model"), (quadratic, "model")):
        with pytest.raises(MissingCapability, match=f"no {kind} Fisher"):
            simulate(problem, algorithms.EFL(0.1, fisher=kind), 1, local_solver=LocalSGD(1, 0.1))
    with pytest.raises(InvalidInput, match="negative Hessian entry"):
        client_fisher(saddle, np.zeros((1, 1, 2)), "gram")
    with pytest.raises(InvalidInput, match="fisher = 'hessian'"):
        algorithms.EFL(0.1, fisher="hessian")


# --- the elastic term -----------------------------------------------------------------------------
PAIR = problems.Quadratic(
    np.array([np.diag([1.0, 3.0]), np.diag([2.0, 0.5])]), np.array([[1.0, -1.0], [-2.0, 3.0]]), weights=[0.25, 0.75]
)


def test_two_steps_of_two_rounds_by_hand():
    """lam (U*w - V), with u and v of the last end-of-round local models, at every local step of the second round."""
    lr, lam, h, c = 0.125, 0.5, np.array([[1, 3], [2, 0.5]]), PAIR.minimisers
    run = simulate(
        PAIR,
        algorithms.EFL(lam),
        2,
        x0=[0.5, 1.0],
        local_solver=LocalSGD(2, lr),
        keep_states=True,
        sampling=complete(2, 2),
    )
    w, u, v = np.array([0.5, 1.0]), np.zeros((2, 2)), np.zeros((2, 2))
    for state in run.states[1:]:
        ends = []
        for k in range(2):
            y = w.copy()
            for _ in range(2):
                y = y - lr * (h[k] * (y - c[k]) + lam * (u.sum(axis=0) * y - v.sum(axis=0)))
            ends.append(y)
        u, v = h.copy(), h * np.array(ends)
        w = 0.25 * ends[0] + 0.75 * ends[1]
        np.testing.assert_allclose(state.x[0], w, rtol=1e-14)
        np.testing.assert_allclose(state.u[0], u, rtol=1e-14)
        np.testing.assert_allclose(state.v[0], v, rtol=1e-14)


def test_the_fixed_point_of_a_constant_step():
    """E = 1: sum_k [p_k (1 - lam eta U) + lam eta u_k] * grad f_k = 0, coordinate by coordinate; not the optimum of F."""
    lr, lam = 0.1, 0.8
    x = simulate(PAIR, algorithms.EFL(lam), 500, local_solver=LocalSGD(1, lr)).x[0]
    u = np.array([[1, 3], [2, 0.5]])
    gradients = u * (x - PAIR.minimisers)
    weights = PAIR.weights[:, None] * (1 - lam * lr * u.sum(axis=0)) + lam * lr * u
    np.testing.assert_allclose((weights * gradients).sum(axis=0), 0, atol=1e-12)
    assert np.linalg.norm(x - PAIR.optimum().x) > 0.05
    plain = simulate(PAIR, algorithms.EFL(), 500, local_solver=LocalSGD(1, lr)).x[0]
    np.testing.assert_allclose(plain, PAIR.optimum().x, atol=1e-12)


@pytest.mark.parametrize("kind", ["gram", "model", "empirical"])
def test_with_decaying_steps_the_elastic_term_dies_out(kind):
    rng = np.random.default_rng(15)
    problem = problems.LeastSquares(rng.normal(size=(3, 6, 2)), rng.normal(size=(3, 6)), ridge=0.2)
    run = simulate(
        problem,
        algorithms.EFL(0.3, fisher=kind),
        900,
        local_solver=LocalSGD(2, InverseTime(0.2, 20)),
        record=("distance",),
        keep_states=False,
    )
    distance = run.metrics["distance"][:, 0]
    assert distance[900] < 0.02 * distance[0] and distance[900] < 0.5 * distance[300]


def test_a_departed_clients_stale_pair_biases_the_limit():
    rng = np.random.default_rng(16)
    problem = problems.LeastSquares(rng.normal(size=(3, 6, 2)), 3 * rng.normal(size=(3, 6)), ridge=0.2)
    rest = problems.LeastSquares(problem.features[:2], problem.targets[:2], ridge=0.2)
    sampling = windows(complete(3, 1), {2: (None, 10)})

    def end(departed):
        run = simulate(
            problem,
            algorithms.EFL(0.3, departed=departed),
            900,
            sampling=sampling,
            local_solver=LocalSGD(1, InverseTime(0.3, 20)),
        )
        assert (run.final.u[0, 2] == 0).all() == (departed == "remove")
        return run.x[0]

    removed, stale = (np.linalg.norm(end(d) - rest.optimum().x) for d in ("remove", "stale"))
    assert removed < 0.02 and stale > 10 * removed


def test_a_client_that_has_not_been_active_yet_pulls_nobody():
    """Until its first round its pair is 0, afterwards its last one, however long ago."""
    law = np.array(
        [[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]
    )  # client 1 in round 2 only
    run = simulate(
        PAIR, algorithms.EFL(0.5), 3, sampling=Irregular(1, list(law)), local_solver=LocalSGD(1, 0.1), keep_states=True
    )
    one = [s.u[0, 1] for s in run.states]
    assert (one[1] == 0).all() and (one[2] == [2.0, 0.5]).all() and (one[3] == one[2]).all()
    np.testing.assert_array_equal(run.states[3].v[0, 1], run.states[2].v[0, 1])
    assert (run.states[3].v[0, 0] != run.states[2].v[0, 0]).any()


def test_the_elastic_objective_suits_every_solver():
    """An exact local solve of round 2 is where the local gradient plus the elastic one vanishes."""
    run = simulate(PAIR, algorithms.EFL(0.5, scheme="B"), 2, local_solver=Exact(), keep_states=True)
    _, first, second = run.states
    for k in range(2):
        y = second.v[0, k] / second.u[0, k]  # the local model of round 2
        gradient = np.diag(PAIR.hessians[k]) * (y - PAIR.minimisers[k])
        elastic = 0.5 * (first.u[0].sum(axis=0) * y - first.v[0].sum(axis=0))
        np.testing.assert_allclose(gradient + elastic, 0, atol=1e-10)


# --- the state and bad input ----------------------------------------------------------------------
def test_what_is_not_used_is_not_kept():
    x, top = np.zeros((2, 5)), messages.TopK(k=1)
    used = {
        algorithms.EFL(): set(),
        algorithms.EFL(0.1): {"u", "v"},
        algorithms.EFL(compressor=top): {"residuals"},
        algorithms.EFL(down_compressor=top): {"server_residual", "missed_bits"},
        algorithms.EFL(compressor=top, down_compressor=top, client_feedback=False, server_feedback=False): {
            "missed_bits"
        },
        algorithms.EFL(down_compressor=top, variant="text-received"): {"server_residual", "missed_bits", "held"},
        algorithms.EFL(down_compressor=top, variant="text"): {"server_residual"},
    }
    for algorithm, fields in used.items():
        state = algorithm.init(x, 3)
        assert {f for f, value in zip(state._fields[1:], state[1:], strict=True) if value is not None} == fields


@functools.cache
def small():
    rng = np.random.default_rng(17)
    return problems.LeastSquares(rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4)), ridge=0.2)


def test_memories_may_be_overwritten():
    top = messages.TopK(k=2)
    algorithm = algorithms.EFL(0.1, compressor=top, down_compressor=top)
    options = {"scenarios": 3, "sampling": incomplete(3, 2, [0.3, 0.3, 0.4]), "local_solver": LocalSGD(2, 0.05)}
    ends = [simulate(small(), algorithm, 6, in_place=in_place, **options).final for in_place in (True, False)]
    for a, b in zip(*ends, strict=True):
        assert (a is None and b is None) or (np.asarray(a) == np.asarray(b)).all()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"lam": -0.1}, "lam = -0.1"),
        ({"lam": float("nan")}, "lam = nan"),
        ({"scheme": "D"}, "scheme = 'D'"),
        ({"variant": "printed"}, "variant = 'printed'"),
        ({"scale": "twice"}, "scale = 'twice'"),
        ({"departed": "forget"}, "departed = 'forget'"),
        ({"compressor": "st"}, "compressor = 'st'"),
        ({"variant": "none", "compressor": messages.TopK(k=1)}, "variant='none' compresses nothing"),
        ({"variant": "none", "down_compressor": messages.TopK(k=1)}, "variant='none' compresses nothing"),
    ],
)
def test_bad_hyperparameters(bad, message):
    with pytest.raises(InvalidInput, match=message):
        algorithms.EFL(**bad)


def test_bad_runs():
    solver = LocalSGD(1, 0.1)
    with pytest.raises(InvalidInput):
        simulate(small(), algorithms.EFL(compressor=messages.TopK(k=9)), 1, local_solver=solver)

    def never(t):
        return np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])

    with pytest.raises(InvalidInput, match="client 1 is never active"):
        simulate(small(), algorithms.EFL(scheme="C-corrected"), 5, sampling=Irregular(1, never), local_solver=solver)
    with pytest.raises(InvalidInput, match="client 1 is never active"):
        simulate(small(), algorithms.EFL(), 5, sampling=inactive(3, 1, (0.5, 1.0, 0.0)), local_solver=solver)
    weighted = problems.LeastSquares(small().features, small().targets, weights=[0.5, 0.5, 0.0])
    with pytest.raises(InvalidInput, match="weight"):
        simulate(weighted, algorithms.EFL(), 1, sampling=Full(), local_solver=GradientSteps(1, 0.1))
