"""A run that is cut and goes on ends with the numbers of one that was not; what training asks of the round loop."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import Bernoulli, algorithms, problems, simulate
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD, LocalSGD
from fedtheory.messages import TopK, measures
from fedtheory.messages.measures import bin_counts, entropy_bits
from fedtheory.participation.irregular import incomplete
from fedtheory.simulation.simulate import Resume

RECORD = ("objective", "drift", "participants", "nonzeros", "entropy", "update_entropy", "bits")
METHODS = [
    algorithms.FedAvg(),
    algorithms.Scaffold(),
    algorithms.FedElasticNetDyn(0.01, 0.5),
    algorithms.Mime(),
    algorithms.FedAMP(0.1, 0.1, 1.0),
    algorithms.Compressed(algorithms.FedAvg(), TopK(2), TopK(1)),
]


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(n, 3)) for n in (4, 7, 5, 4, 6)]
    return problems.LeastSquares(features, [rng.normal(size=len(a)) for a in features], ridge=0.1)


def run(problem, method, rounds, **options):
    settings = {"sampling": Bernoulli(0.5), "local_solver": SGD(2, 0.05, epochs=2), "seed": 3, "record": RECORD, **options}
    return simulate(problem, method, rounds, np.ones(3), **settings)


def same(a, b):
    for x, y in zip(a.final, b.final, strict=True):
        np.testing.assert_array_equal(x, y)
    assert set(a.metrics) == set(b.metrics)
    for name, values in a.metrics.items():
        np.testing.assert_array_equal(values, b.metrics[name], err_msg=name)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("scenarios", [1, 3])
def test_a_run_that_goes_on_ends_with_the_same_numbers(problem, method, scenarios):
    whole = run(problem, method, 7, scenarios=scenarios)
    part = run(problem, method, 3, scenarios=scenarios)
    kept = [np.array(v) for v in part.final if hasattr(v, "shape")]
    same(run(problem, method, 7, scenarios=scenarios, resume=part), whole)
    for before, after in zip(kept, [v for v in part.final if hasattr(v, "shape")], strict=True):
        np.testing.assert_array_equal(before, after)  # what was given is not overwritten


def test_residuals_and_stale_pairs_go_on(problem):
    """EFL's whole memory: residuals both ways, Fisher pairs, what the clients hold."""
    method = algorithms.EFL(lam=0.1, compressor=TopK(2))
    law = incomplete(5, 3, [0.3, 0.3, 0.2, 0.2])
    options = {"local_solver": LocalSGD(3, 0.05, 2), "sampling": law, "scenarios": 2}
    part = run(problem, method, 3, **options)
    assert part.final.residuals is not None and part.final.u is not None
    same(run(problem, method, 6, resume=part, **options), run(problem, method, 6, **options))


def test_chunks_and_processes_go_on_as_well(problem):
    whole = run(problem, algorithms.Scaffold(), 5, scenarios=5, chunk=2)
    part = run(problem, algorithms.Scaffold(), 2, scenarios=5, chunk=2)
    same(run(problem, algorithms.Scaffold(), 5, scenarios=5, chunk=2, resume=part), whole)


def test_every_checkpoint_is_a_place_to_go_on_from(problem):
    kept = []

    def keep(at):
        state = type(at.state)(*(np.array(v) for v in at.state))
        kept.append(Resume(at.round_index, state, {k: np.array(v) for k, v in at.metrics.items()}))

    whole = run(problem, algorithms.Scaffold(), 5, checkpoint=keep)
    assert [k.round_index for k in kept] == [1, 2, 3, 4, 5]
    for at in kept[:-1]:
        same(run(problem, algorithms.Scaffold(), 5, resume=at), whole)


def test_without_metrics_earlier_rounds_are_unknown(problem):
    whole, part = (run(problem, algorithms.FedAvg(), t, record=("objective", "drift")) for t in (5, 2))
    found = run(problem, algorithms.FedAvg(), 5, record=("objective", "drift"), resume=(2, part.final))
    assert np.isnan(found.metrics["objective"][:2]).all() and np.isnan(found.metrics["drift"][:3]).all()
    np.testing.assert_array_equal(found.metrics["objective"][2:], whole.metrics["objective"][2:])
    np.testing.assert_array_equal(found.metrics["drift"][3:], whole.metrics["drift"][3:])


def test_what_cannot_go_on_is_refused(problem):
    part = run(problem, algorithms.FedAvg(), 2)
    for message, options in (
        ("resume is at round 2 of 2", {"rounds": 2}),
        ("this method's state is a ScaffoldState", {"method": algorithms.Scaffold()}),
        (r"resume's x is float64 \(1, 3\), this run's float64 \(2, 3\)", {"scenarios": 2}),
        ("'bits' is a sum over all rounds", {"resume": (2, part.final)}),
        ("resume has no 'bits_up'", {"record": ("bits_up",)}),
        ("client_bits counts a whole run", {"client_bits": True}),
        ("evaluate_every is 0", {"evaluate_every": 0}),
    ):
        settings = {"method": algorithms.FedAvg(), "rounds": 5, "resume": part, **options}
        with pytest.raises(InvalidInput, match=message):
            run(problem, **settings)
    with pytest.raises(InvalidInput, match="here in 2 chunks"):
        run(problem, algorithms.FedAvg(), 2, scenarios=2, chunk=1, checkpoint=print)


def test_drift_and_participants_by_hand(problem):
    seen = []

    def look(t, old, new, clients):
        y, x = clients.results[-1].y, old.x
        seen.append(([np.linalg.norm(row - x[0]) for row in y[0]], entropy_bits(y[0] - x[0])))

    found = run(problem, algorithms.FedProx(0.1), 4, on_round=look).metrics
    for t, (lengths, entropy) in enumerate(seen, 1):
        assert found["participants"][t, 0] == len(lengths) < 5 or len(lengths) == 5
        assert found["drift"][t, 0] == pytest.approx(np.mean(lengths), rel=1e-12)
        assert found["update_entropy"][t, 0] == pytest.approx(entropy, rel=1e-12)
    dense = run(problem, algorithms.FedProx(0.1), 4, dense=True).metrics
    for name in RECORD:
        np.testing.assert_allclose(dense[name], found[name], rtol=1e-12, err_msg=name)


def test_evaluation_in_some_rounds(problem):
    every, some = (run(problem, algorithms.FedAvg(), 7, evaluate_every=k).metrics for k in (1, 3))
    at = np.array([True, False, False, True, False, False, True, True])
    np.testing.assert_array_equal(some["objective"][at], every["objective"][at])
    assert np.isnan(some["objective"][~at]).all()
    np.testing.assert_array_equal(some["bits"], every["bits"])


def test_metrics_that_cannot_be_had(problem):
    with pytest.raises(MissingCapability, match="LeastSquares has no test samples to measure 'test_loss' on"):
        run(problem, algorithms.FedAvg(), 2, record=("test_loss",))
    with pytest.raises(MissingCapability, match="no 'drift'"):
        simulate(problem, algorithms.Subgradient(0.1), 2, record=("drift",))


def test_counting_bins_is_sorting_them():
    rng = np.random.default_rng(0)
    many = rng.normal(scale=0.03, size=measures.COMPILED + 3)
    halves = np.tile((np.arange(-300, 300) + 0.5) * 0.01, 200)  # on, or a rounding off, the edge of two bins
    for message in (
        rng.normal(size=1000),
        rng.normal(size=1000) * 1e6,
        np.array([-0.0, 0.0, 0.01]),
        np.zeros(0),
        np.array([1.0, np.nan, np.inf, np.nan, -np.inf]),
        many,
        many[:-3].astype(np.float32).reshape(16, -1),
        np.concatenate([halves, np.nextafter(halves, 9), np.nextafter(halves, -9)]),
        halves.astype(np.float32),
        np.append(many, [np.nan, np.inf]),
        np.append(many, measures.FEW),  # too many bins for compiled counting
        np.append(many, 1e300),  # and for any
        np.full(measures.COMPILED, -0.0),
    ):
        expected = np.unique(np.round(message.astype(float) / 0.01), return_counts=True)
        for found, wanted in zip(bin_counts(message), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
