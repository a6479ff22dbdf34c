"""Test accuracy of the mean of clients' last local models: against a mean kept by hand, and across a cut."""

from __future__ import annotations

import numpy as np
import pytest
from preset_runs import quick

from fedtheory.errors import InvalidInput, MissingCapability

torch = pytest.importorskip("torch")

from fedtheory import algorithms, simulate  # noqa: E402
from fedtheory.neural import data, train  # noqa: E402
from fedtheory.simulation import Resume  # noqa: E402

NAMES = ("test_accuracy", "test_accuracy_all", "test_accuracy_cohort")


def parts(method):
    preset = quick(method)
    problem = preset.make_problem(data.digits(), 0)
    return problem, preset.make_algorithm(), preset.make_sampling(), preset.make_solver()


@pytest.mark.parametrize("method", ["feddyn", "algorithm-2"])
def test_both_means_are_those_of_models_kept_by_hand(method):
    problem, algorithm, sampling, solver = parts(method)
    start = problem.initial()
    last = np.tile(start, (problem.num_clients, 1)).astype(float)
    wanted = []

    def by_hand(t, old, new, clients):
        local, cohort = clients.results[-1].y[0].numpy(), clients.cohort
        members = np.flatnonzero(cohort.taking_part()[0])
        rows = local if cohort.members is not None else local[members]
        last[members] = rows
        means = [new.x.numpy()[0], last.mean(axis=0), rows.mean(axis=0)]
        wanted.append([problem.evaluate(torch.tensor(m[None], dtype=problem.dtype))["test_accuracy"][0] for m in means])

    like = problem.like_array()
    run = simulate(problem, algorithm, 4, start, sampling, 1, 0, solver, NAMES, on_round=by_hand, like=like)
    found = np.stack([run.metrics[n][1:, 0] for n in NAMES], axis=1)
    assert np.allclose(found, wanted, atol=2 / problem.test[0].shape[0])  # a sample on the border may turn by rounding
    assert len({run.metrics[n][0, 0] for n in NAMES}) == 1  # all three begin at the start
    assert (found[:, 1] != found[:, 2]).any() and (found[:, 0] != found[:, 1]).any()


def test_a_cut_run_goes_on_with_the_clients_models(tmp_path):
    made = parts("feddyn")
    whole = train(made[0], made[1], 4, made[2], made[3], record=NAMES, progress=False)
    train(made[0], made[1], 2, made[2], made[3], record=NAMES, progress=False, checkpoint=tmp_path / "a")
    again = train(made[0], made[1], 4, made[2], made[3], record=NAMES, progress=False, checkpoint=tmp_path / "a")
    for name in NAMES:
        assert np.array_equal(whole.metrics[name], again.metrics[name])


def test_what_has_no_models_to_go_on_from_or_to_measure_is_told():
    problem, algorithm, sampling, solver = parts("feddyn")
    more = {"sampling": sampling, "local_solver": solver, "like": problem.like_array()}
    run = simulate(problem, algorithm, 1, problem.initial(), record=NAMES, **more)
    with pytest.raises(InvalidInput, match="needs the clients' last models"):
        simulate(problem, algorithm, 2, record=NAMES, resume=Resume(1, run.final, run.metrics), **more)
    subgradient = algorithms.get("subgradient")(step=0.1)
    with pytest.raises(MissingCapability, match="does not train local models"):
        simulate(problem, subgradient, 1, problem.initial(), record=("test_accuracy_cohort",), like=problem.like_array())
