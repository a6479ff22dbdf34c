"""Elastic Aggregation: rounds worked out by hand, the sensitivity by its definition, held-out samples, layers, backends, bad input."""

from __future__ import annotations

import json

import array_api_strict
import numpy as np
import pytest
from typer.testing import CliRunner

from fedtheory import Bernoulli, Full, Uniform, algorithms, errors, problems, simulate
from fedtheory.algorithms import ElasticAggregation, FedAvg
from fedtheory.arrays import to_numpy
from fedtheory.cli import app
from fedtheory.clients.sensitivity import client_sensitivity
from fedtheory.local import SGD, Exact, GradientSteps

torch = pytest.importorskip("torch")

# Two clients, two samples each, a = e_1 and e_2 up to size: Gram matrices diag(2, 1/2) and diag(8, 1/2); minimisers (1, 2) and (3, -2).
PAIR = problems.LeastSquares([[[2.0, 0], [0, 1]], [[4.0, 0], [0, 1]]], [[2.0, 2], [12.0, -2]])
STEP = GradientSteps(1, 0.1)
START = np.array([1.0, 2.0])
# From (1, 2) gradients are 0 and (-16, 2), so Delta = (0, 0) and (1.6, -0.2), their mean (0.8, -0.1).
# Omega_k = |2 G_k theta| = (4, 2) and (16, 2), their mean (10, 2), Omega' = 10: Omega/Omega' = (1, 1/5).


def one_round(algorithm, problem=PAIR, **more):
    return simulate(problem, algorithm, 1, START, local_solver=STEP, **more).x[0]


@pytest.mark.parametrize(
    ("options", "zeta"),
    [
        ({}, (0.5, 1.3)),
        ({"tau": 2.0}, (2.0, 2.8)),
        ({"server_lr": 0.5}, (0.25, 0.65)),
        ({"sign": "printed"}, (-0.5, -1.3)),
    ],
)
@pytest.mark.parametrize("dense", [False, True])
def test_a_round_by_hand(options, zeta, dense):
    expected = START + np.array(zeta) * np.array([0.8, -0.1])
    np.testing.assert_allclose(one_round(ElasticAggregation(**options), dense=dense), expected, rtol=1e-14)


def test_a_round_of_one_client_by_hand():
    """The cohort's own sensitivities, and its own weights: client 1 has Omega/Omega' = (1, 1/8), client 0 does not move."""
    sampling = Uniform(1)
    ends = {
        tuple(np.round(simulate(PAIR, ElasticAggregation(), 1, START, sampling, 1, s, STEP).x[0], 12)) for s in range(8)
    }
    assert ends == {(1.0, 2.0), (1.8, round(2 - 0.2 * (1.5 - 1 / 8), 12))}


def test_batches_by_hand():
    """Batches of one sample: |g| = (8, 0), then (0, 4) at client 0, and (32, 0), (0, 4) at client 1; the later counts more."""
    y = np.broadcast_to(START, (2, 1, 2))
    printed = client_sensitivity(PAIR, y, 1, 0.75, "printed")
    np.testing.assert_allclose(printed[:, 0], [[0.75 * 0.25 * 8, 0.25 * 4], [0.75 * 0.25 * 32, 0.25 * 4]], rtol=1e-14)
    corrected = client_sensitivity(PAIR, y, 1, 0.75, "corrected")
    np.testing.assert_allclose(corrected, printed / (1 - 0.75**2), rtol=1e-14)
    ratio = 2 / (0.75 * 40)  # of 4 + 4 to 0.75 (8 + 32), halved alike
    expected = START + np.array([0.5, 1.5 - 4 * ratio]) * np.array([0.8, -0.1])
    for ema in ("printed", "corrected"):  # as many batches everywhere: the factor cancels
        got = one_round(ElasticAggregation(mu=0.75, probe_batch=1, ema=ema))
        np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_unequal_numbers_of_batches_tell_the_averages_apart():
    """One client with the same sample twice has the same sensitivity; as printed, its factor is 1 - mu^2 against 1 - mu."""
    problem = problems.LeastSquares([[[2.0, 0]], [[0, 1.0], [0, 1.0]]], [[2.0], [0.0, 0.0]])
    y = np.broadcast_to(START, (2, 1, 2))
    np.testing.assert_allclose(client_sensitivity(problem, y, 1, 0.9, "corrected")[:, 0], [[8, 0], [0, 4]], rtol=1e-14)
    printed = client_sensitivity(problem, y, 1, 0.9, "printed")
    np.testing.assert_allclose(printed[:, 0], [[0.8, 0], [0, 0.76]], rtol=1e-14)


def softmax_problem():
    rng = np.random.default_rng(3)
    counts = (5, 2, 4)
    return problems.Softmax([rng.normal(size=(n, 3)) for n in counts], [rng.integers(0, 3, n) for n in counts], 3)


def as_network(problem):
    """The same softmax regression as a torch module, whose weight is the transposed matrix."""
    from fedtheory.neural import NeuralProblem

    module = torch.nn.Linear(3, 3, bias=False).double()
    ends = np.cumsum(problem.sample_counts)
    clients = [np.arange(b - n, b) for b, n in zip(ends, problem.sample_counts, strict=True)]
    x = np.concatenate([f[:n] for f, n in zip(problem.features, problem.sample_counts, strict=True)])
    return NeuralProblem(module, x, np.concatenate(problem.labels), clients, dtype="float64", weights="uniform")


@pytest.mark.parametrize("batch", [None, 1, 2, 3])
@pytest.mark.parametrize("ema", ["printed", "corrected"])
def test_sensitivity_by_definition(batch, ema):
    """Finite differences of the mean squared norm of the logits, batch after batch; the same from a network."""
    problem, mu = softmax_problem(), 0.6
    y = np.random.default_rng(4).normal(size=(3, 2, 9))
    got = client_sensitivity(problem, y, batch, mu, ema)
    for k, n in enumerate(problem.sample_counts):
        for b in range(2):
            omega, size = np.zeros(9), batch or n
            for first in range(0, n, size):
                rows = problem.features[k, first : min(first + size, n)]

                def norm_sq(v, rows=rows):
                    return ((rows @ v.reshape(3, 3)) ** 2).sum(axis=1).mean()

                e = 1e-5 * np.eye(9)
                g = np.array([(norm_sq(y[k, b] + s) - norm_sq(y[k, b] - s)) / 2e-5 for s in e])
                omega = mu * omega + (1 - mu) * abs(g)
            omega = omega if ema == "printed" else omega / (1 - mu ** -(-n // size))
            np.testing.assert_allclose(got[k, b], omega, rtol=1e-8, atol=1e-9)
    turned = torch.from_numpy(y.reshape(3, 2, 3, 3).swapaxes(2, 3).reshape(3, 2, 9).copy())
    network = client_sensitivity(as_network(problem), turned, batch, mu, ema).numpy()
    np.testing.assert_allclose(network.reshape(3, 2, 3, 3).swapaxes(2, 3).reshape(3, 2, 9), got, rtol=1e-12)


def test_labels_play_no_part():
    problem = problems.hold_out(softmax_problem(), 0.5, seed=1)
    other = problems.hold_out(softmax_problem(), 0.5, seed=1)
    other.held_out.onehot = np.roll(other.held_out.onehot, 1, axis=2)
    ends = [simulate(p, ElasticAggregation(), 3, np.ones(9), local_solver=STEP).x for p in (problem, other)]
    np.testing.assert_array_equal(*ends)


# --- held-out samples -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make",
    [
        lambda f, t, w: problems.LeastSquares(f, t, ridge=0.3, weights=w),
        lambda f, t, w: problems.Huber(f, t, delta=0.7, ridge=0.3, weights=w),
        lambda f, t, w: problems.Softmax(f, [(a > 0).astype(int) for a in t], 3, ridge=0.3, weights=w),
    ],
)
@pytest.mark.parametrize("weights", ["samples", [0.5, 0.2, 0.3]])
def test_what_is_held_out_is_not_trained_on(make, weights):
    """Both parts are the problems one would build of their samples alone; together they hold every sample once."""
    rng = np.random.default_rng(5)
    features, targets = ([rng.normal(size=(n, 2)[:k]) for n in (7, 2, 10)] for k in (2, 1))
    whole = make(features, targets, weights)
    split = problems.hold_out(whole, 0.3, seed=9)
    assert list(split.sample_counts) == [5, 1, 7] and list(split.held_out.sample_counts) == [2, 1, 3]
    for k, f in enumerate(features):
        parts = [p.features[k, : p.sample_counts[k]] for p in (split, split.held_out)]
        np.testing.assert_array_equal(np.sort(np.concatenate(parts), axis=0), np.sort(f, axis=0))
    y = rng.normal(size=(3, 4, whole.dim))
    for part in (split, split.held_out):
        picks = [
            [np.flatnonzero((f == row).all(axis=1))[0] for row in part.features[k, : part.sample_counts[k]]]
            for k, f in enumerate(features)
        ]
        again = make(
            [f[i] for f, i in zip(features, picks, strict=True)],
            [t[i] for t, i in zip(targets, picks, strict=True)],
            weights,
        )
        np.testing.assert_allclose(part.client_value(y), again.client_value(y), rtol=1e-12)
        np.testing.assert_allclose(part.client_gradient(y), again.client_gradient(y), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(part.weights, again.weights, rtol=1e-15)
        np.testing.assert_allclose(part.smoothness(), again.smoothness(), rtol=1e-12)
        assert abs(part.optimum().value - again.optimum().value) < 1e-10
    assert problems.hold_out(whole, 0.3, seed=9).features.tolist() == split.features.tolist()
    assert problems.hold_out(whole, 0.3, seed=8).features.tolist() != split.features.tolist()


def test_held_out_samples_follow_the_clients():
    """Subsets and other libraries carry them along; the sensitivity is measured on them and nowhere else."""
    problem = problems.hold_out(softmax_problem(), 0.5, seed=1)
    part = problem.subset(np.array([2, 0]))
    np.testing.assert_array_equal(part.held_out.features, problem.held_out.features[[2, 0]])
    assert torch.is_tensor(problem.like(torch.zeros(1, dtype=torch.float64)).held_out.features)
    probe = problem.held_out
    probe.features = 0 * probe.features
    with pytest.raises(errors.InvalidInput, match=r"round 1.*0/0"):
        simulate(problem, ElasticAggregation(zero="error"), 1, np.ones(9), local_solver=STEP)
    network = problems.hold_out(as_network(softmax_problem()), 0.5, seed=1)
    for k in range(3):  # the same split as that of the same data elsewhere
        held = network.inputs.numpy()[network.held_out._clients[k]]
        np.testing.assert_array_equal(
            held, problems.hold_out(softmax_problem(), 0.5, seed=1).held_out.features[k, : len(held)]
        )


# --- a layer without sensitivity, and layers ------------------------------------------------------
@pytest.mark.parametrize(("zero", "factor"), [("one", 1.0), ("boost", 1.5)])
def test_at_zero_nothing_is_sensitive(zero, factor):
    run = simulate(PAIR, ElasticAggregation(zero=zero), 1, local_solver=STEP)
    plain = simulate(PAIR, FedAvg(), 1, local_solver=STEP)
    np.testing.assert_allclose(run.x, factor * plain.x, rtol=1e-14)
    with pytest.raises(errors.InvalidInput, match="zero='one'"):
        simulate(PAIR, ElasticAggregation(zero="error"), 1, local_solver=STEP)


def test_an_empty_cohort_is_no_error():
    run = simulate(PAIR, ElasticAggregation(zero="error"), 6, START, Bernoulli(0.3), 4, local_solver=STEP)
    assert np.isfinite(run.x).all()


def test_layers_of_a_network():
    """Every layer has a parameter that is most sensitive, and there zeta is tau; the pieces cover all parameters."""
    from fedtheory.neural import NeuralProblem

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    rng = np.random.default_rng(6)
    x, t = rng.normal(size=(12, 3)), rng.integers(0, 2, 12)
    problem = NeuralProblem(module, x, t, [range(6), range(6, 12)], dtype="float64")
    assert problem.layers("module") == [slice(0, 16), slice(16, 26)]
    assert problem.layers("tensor") == [slice(0, 12), slice(12, 16), slice(16, 24), slice(24, 26)]
    assert problem.layers("model") == [slice(0, 26)]
    split = problems.hold_out(problem, 0.3)
    start, solver = to_numpy(problem.initial()), SGD(2, 0.1, epochs=1)
    for kind, count in (("module", 2), ("tensor", 4), ("model", 1)):
        runs = [
            simulate(split, m, 1, start, local_solver=solver, like=split.like_array(), seed=7).x[0] - start
            for m in (ElasticAggregation(tau=0.25, layers=kind), FedAvg())
        ]
        zeta = runs[0] / runs[1]
        assert zeta.min() >= 0.25 - 1e-6 and zeta.max() <= 1.25 + 1e-6
        assert [bool(np.isclose(zeta[s].min(), 0.25)) for s in problem.layers(kind)] == [True] * count
    ends = [
        simulate(
            split, ElasticAggregation(), 2, start, Uniform(1), 3, 4, solver, like=split.like_array(), dense=dense
        ).x
        for dense in (False, True)
    ]
    np.testing.assert_allclose(*ends, rtol=1e-11)  # one client's held-out samples, picked or masked
    with pytest.raises(errors.InvalidInput, match="layers = 'filter'"):
        problem.layers("filter")


# --- backends, and what is refused ----------------------------------------------------------------
@pytest.mark.parametrize("sampling", [Full(), Uniform(2), Bernoulli(0.5)], ids=["full", "uniform", "bernoulli"])
@pytest.mark.parametrize(
    "method",
    [ElasticAggregation(probe_batch=2, ema="printed"), ElasticAggregation(zero="boost", aggregation="cohort")],
    ids=["printed", "boost"],
)
def test_backends_and_layouts_agree(sampling, method):
    rng = np.random.default_rng(8)
    counts = (9, 4, 6, 5)
    least = problems.LeastSquares([rng.normal(size=(n, 3)) for n in counts], [rng.normal(size=n) for n in counts])
    soft = problems.Softmax([rng.normal(size=(n, 2)) for n in counts], [rng.integers(0, 3, n) for n in counts], 3)
    backends = [None, array_api_strict.zeros(1, dtype=array_api_strict.float64), torch.zeros(1, dtype=torch.float64)]
    for problem in (problems.hold_out(least, 0.4), problems.hold_out(soft, 0.4)):
        ends = [
            simulate(
                problem, method, 4, sampling=sampling, scenarios=3, seed=2, local_solver=SGD(2, 0.1, epochs=1), like=like, dense=dense,
                record=("objective", "bits_up", "nonzeros"),
            )
            for like in backends
            for dense in (False, True)
        ]  # fmt: skip
        assert np.ptp(ends[0].metrics["objective"], axis=0).max() > 1e-2
        for end in ends[1:]:
            np.testing.assert_allclose(end.x, ends[0].x, rtol=1e-10, atol=1e-12)
            for name, values in ends[0].metrics.items():
                np.testing.assert_allclose(end.metrics[name], values, rtol=1e-10, atol=1e-12)


def test_the_sensitivities_are_counted_as_sent():
    run = simulate(PAIR, ElasticAggregation(), 1, START, local_solver=Exact(), record=("bits_up", "bits_down"))
    assert run.metrics["bits_up"][1, 0] == 2 * 2 * 2 * 64 and run.metrics["bits_down"][1, 0] == 2 * 2 * 64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tau": -0.1}, "tau = -0.1.*>= 0"),
        ({"tau": float("nan")}, "tau = nan"),
        ({"mu": 1.0}, r"mu = 1.0.*\[0, 1\)"),
        ({"server_lr": 0.0}, "server_lr"),
        ({"sign": "minus"}, "'repaired' or 'printed'"),
        ({"zero": "two"}, "'one' or 'boost' or 'error'"),
        ({"ema": "adam"}, "'corrected' or 'printed'"),
        ({"layers": "filter"}, "'module' or 'tensor' or 'model'"),
        ({"probe_batch": 0}, "probe_batch = 0"),
        ({"probe_batch": 2.5}, "probe_batch = 2.5"),
    ],
)
def test_bad_hyperparameters(options, words):
    with pytest.raises(errors.InvalidInput, match=words):
        ElasticAggregation(**options)


def test_what_cannot_be_measured_is_refused_before_work_starts():
    quadratic = problems.Quadratic(np.ones((2, 1, 1)), np.zeros((2, 1)))
    with pytest.raises(errors.MissingCapability, match="Quadratic has no model output"):
        simulate(quadratic, ElasticAggregation(), 1)
    with pytest.raises(errors.MissingCapability, match="no samples to select"):
        problems.hold_out(quadratic)
    with pytest.raises(errors.InvalidInput, match="client 0 has 1 sample"):
        problems.hold_out(problems.LeastSquares([[[1.0]]], [[1.0]]))
    for share in (0, 1, 1.5, True, "half"):
        with pytest.raises(errors.InvalidInput, match="share is "):
            problems.hold_out(PAIR, share)


def test_command_line(tmp_path):
    args = [
        "run",
        "elastic-aggregation",
        "digits-10",
        "--rounds",
        "2",
        "--held-out",
        "0.3",
        "--server-tau",
        "0.75",
        "--probe-batch",
        "40",
        "--max-conic-entries",
        "0",
    ]
    more = ["--local-solver", "gradient", "--no-figures", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*args, *more])
    assert result.exit_code == 0, result.output
    (file,) = tmp_path.glob("*.json")
    saved = json.loads(file.read_text())["hyperparameters"]
    assert saved["tau"] == 0.75 and saved["probe_batch"] == 40
    assert algorithms.get("elastic_aggregation") is ElasticAggregation
