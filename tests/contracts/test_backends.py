"""Every method gives the same run under NumPy, array_api_strict and torch, with dense and gathered cohorts."""

from __future__ import annotations

import functools

import array_api_strict
import numpy as np
import pytest

from fedtheory import Bernoulli, Full, Uniform, algorithms, messages, problems, simulate
from fedtheory.arrays import namespace, to_numpy
from fedtheory.local import SGD, Exact, GradientSteps, LocalSGD
from fedtheory.participation import irregular as participation

torch = pytest.importorskip("torch")

BACKENDS = {
    "numpy": np.zeros(1),
    "strict": array_api_strict.zeros(1, dtype=array_api_strict.float64),
    "torch": torch.zeros(1, dtype=torch.float64),
}
ALGORITHMS = {
    "fedavg": algorithms.FedAvg(),
    "fedprox": algorithms.FedProx(0.8, "samples"),
    "scaffold": algorithms.Scaffold("gradient"),
    "scaffold-II": algorithms.Scaffold("difference", server_lr=0.7),
    "feddyn": algorithms.FedDyn(4.0),
    "fedelasticnet-prox": algorithms.FedElasticNetProx(0.1, 0.8, epsilon=0.01),
    "fedelasticnet-scaffold": algorithms.FedElasticNetScaffold(0.1, 0.8, "gradient"),
    "fedelasticnet-scaffold-II": algorithms.FedElasticNetScaffold(0.1, 0.8, epsilon=0.01),
    "fedelasticnet-dyn": algorithms.FedElasticNetDyn(0.1, 4.0, epsilon=0.01),
    "fedelasticnet-dyn-true": algorithms.FedElasticNetDyn(0.1, 4.0, "true-gradient"),
    "efl": algorithms.EFL(0.3, "A", messages.ST(0.4), messages.QSGD(3)),
    "efl-corrected": algorithms.EFL(
        0.3, "C-corrected", messages.RandomK(k=2, scaled=False), variant="text-received", fisher="empirical"
    ),
    # not ST: where clients end at the same point in every round, its equal magnitudes make ties that rounding decides
    "fedavg-feedback": algorithms.Compressed(algorithms.FedAvg("cohort"), messages.TopK(k=1), messages.RandomK(k=2, scaled=False)),
}
SOLVERS = {
    "exact": Exact(),
    "steps": GradientSteps(3, 0.3),
    "sgd": SGD(steps=3, lr=0.1, batch_size=2),
    "local-sgd": LocalSGD(3, 0.2, batch_size=2, noise_std=0.1),
    "epochs": SGD(epochs=1, lr=0.1, batch_size=2, l1="prox"),  # clients of unequal size make 2 or 3 steps
}
SAMPLINGS = {"full": Full(), "uniform": Uniform(2), "bernoulli": Bernoulli(0.5)}
ROUNDS, SCENARIOS = 3, 2
METRICS = ("objective", "nonzeros", "entropy", "bits_up", "bits_down")


@functools.cache
def instance():
    """Four clients of unequal size in dimension 3."""
    rng = np.random.default_rng(21)
    counts = (6, 3, 5, 4)
    features = [rng.normal(size=(n, 3)) / 2 for n in counts]
    return problems.LeastSquares(features, [rng.normal(size=n) for n in counts], ridge=0.5)


def play(algorithm, solver, sampling, backend, dense):
    """Leaves of all states, (rounds + 1, ...) each, then the wire metrics."""
    like = None if backend == "numpy" else BACKENDS[backend]
    run = simulate(
        instance(),
        ALGORITHMS[algorithm],
        ROUNDS,
        x0=np.random.default_rng(1).normal(size=(SCENARIOS, 3)),
        sampling=SAMPLINGS[sampling],
        scenarios=SCENARIOS,
        seed=2,
        local_solver=SOLVERS[solver],
        record=METRICS,
        keep_states=True,
        dense=dense,
        like=like,
    )
    assert namespace(run.final.x).__name__ == namespace(BACKENDS[backend]).__name__  # no leaf fell back to NumPy
    assert all(leaf is None or type(leaf) is type(BACKENDS[backend]) for leaf in run.final)
    kept = [i for i, leaf in enumerate(run.final) if leaf is not None]
    leaves = [np.stack([to_numpy(s[i]) for s in run.states]) for i in kept]
    return leaves + [run.metrics[name] for name in METRICS]


@functools.cache
def reference(algorithm, solver, sampling):
    return play(algorithm, solver, sampling, "numpy", dense=False)


CASES = [  # all pairs; option II divides by a step size
    (algorithm, solver, list(SAMPLINGS)[(i + j) % 3])
    for i, algorithm in enumerate(ALGORITHMS) for j, solver in enumerate(SOLVERS)
    if solver != "exact" or not algorithm.endswith("-II")
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "solver", "sampling"), CASES)
def test_backends_and_layouts_agree(algorithm, solver, sampling):
    expected = reference(algorithm, solver, sampling)
    assert np.abs(np.diff(expected[0], axis=0)).max() > 1e-2
    for backend in BACKENDS:
        for dense in (False, True):
            if (sampling != "uniform" and dense) or (backend == "numpy" and not dense):
                continue  # full and Bernoulli cohorts are dense to begin with
            for a, b in zip(play(algorithm, solver, sampling, backend, dense), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=f"{backend}, dense={dense}")


@pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])
def test_clients_that_stop_early_agree(scheme):
    """Incomplete, departing and arriving clients, both ways compressed, under every namespace."""
    sampling = participation.windows(participation.incomplete(4, 3, [0.3, 0.3, 0.2, 0.2]), {1: (None, 4), 2: (3, None)})
    # not ST both ways: its equal magnitudes make ties, which another order of summation breaks otherwise
    algorithm = algorithms.EFL(0.3, scheme, messages.TopK(k=2), messages.RandomK(k=2, scaled=False))
    ends = []
    for backend in BACKENDS.values():
        run = simulate(
            instance(),
            algorithm,
            6,
            sampling=sampling,
            scenarios=5,
            seed=4,
            local_solver=SOLVERS["local-sgd"],
            record=METRICS,
            like=None if type(backend) is np.ndarray else backend,
        )
        assert type(run.final.residuals) is type(backend)
        ends.append([to_numpy(leaf) for leaf in run.final if leaf is not None] + list(run.metrics.values()))
    for end in ends[1:]:
        for a, b in zip(end, ends[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sampling", ["uniform", "bernoulli"])
def test_cohorts_are_the_same_for_every_method_and_solver(sampling):
    """Compare which memories moved: the same, in the same rounds, for two unlike methods."""

    def moved(algorithm, solver, leaf):
        memory = reference(algorithm, solver, sampling)[leaf]
        return (memory[1:] != memory[:-1]).any(axis=-1)

    expected = moved("feddyn", "exact", 1)
    assert expected.any() and not expected.all()
    for solver in SOLVERS:
        for algorithm in ("feddyn", "fedelasticnet-dyn-true"):
            assert (moved(algorithm, solver, 1) == expected).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_memories_may_be_overwritten(backend):
    """simulate overwrites client memories when nobody looks at old states; the end is the same."""
    for algorithm in ("scaffold", "feddyn", "fedelasticnet-dyn"):
        run = simulate(
            instance(),
            ALGORITHMS[algorithm],
            ROUNDS,
            x0=np.random.default_rng(1).normal(size=(SCENARIOS, 3)),
            sampling=SAMPLINGS["uniform"],
            scenarios=SCENARIOS,
            seed=2,
            like=None if backend == "numpy" else BACKENDS[backend],
            in_place=True,
        )
        for leaf, expected in zip(run.final, reference(algorithm, "exact", "uniform")):
            np.testing.assert_allclose(to_numpy(leaf), expected[-1], rtol=1e-10, atol=1e-12)


def test_the_comparison_sees_a_small_change():
    """A step size off by 1e-8 is rejected at the tolerance used above."""
    moved = simulate(
        instance(),
        ALGORITHMS["feddyn"],
        ROUNDS,
        x0=np.random.default_rng(1).normal(size=(SCENARIOS, 3)),
        sampling=SAMPLINGS["uniform"],
        scenarios=SCENARIOS,
        seed=2,
        local_solver=GradientSteps(3, 0.3 + 1e-8),
    )
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(moved.x, reference("feddyn", "steps", "uniform")[0][-1], rtol=1e-10, atol=1e-12)
