"""Bad implementations end in a named finding, or are refused before any work; nothing crashes."""

import random
import re
import sys
import time

import numpy as np
import pytest

from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.testing import audit_algorithm

SLOW = ("convergence",)  # many rounds, which show nothing more here


def averaging(state, clients, cohort, learning_rate, local_steps):
    """FedAvg. It is right."""
    models = []
    for k in cohort:
        y = np.array(state["x"], dtype=float)
        for _ in range(local_steps):
            y = y - learning_rate * clients[k].gradient(y)
        models.append(y)
    return {"x": np.average(models, axis=0, weights=[clients[k].num_examples for k in cohort])}


def rounds_of(change):
    """FedAvg, and what is done with each round's result: change(new, state, clients)."""

    def round(state, clients, cohort, learning_rate, local_steps):
        return change(averaging(state, clients, cohort, learning_rate, local_steps), state, clients)

    return round


def raises(error):
    def round(state, clients, cohort, learning_rate, local_steps):
        raise error

    return round


def exits(new, state, clients):
    sys.exit(3)


def asks_for_a_gpu(new, state, clients):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    return {"x": torch.as_tensor(new["x"]).cuda()}


def never_ends(new, state, clients):
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            pass


def without_a_return(new, state, clients):
    pass


@pytest.mark.parametrize(
    "change, what",
    [
        (exits, "raises: SystemExit: 3"),
        (lambda new, state, clients: new["y"], r"raises: KeyError: 'y' \(line \d+ of test_bad_adapters.py\)"),
        (lambda new, state, clients: np.mean([np.zeros(2), np.zeros(3)]), r"raises: ValueError: .*line \d+ of test_bad_adapters.py"),
        (lambda new, state, clients: {"x": new["x"] * np.nan}, "not finite: x after round 1 has NaN"),
        (lambda new, state, clients: {"x": new["x"][:2]}, r"wrong shape: .* has shape \(2,\), it must have \(4,\)"),
        (lambda new, state, clients: {"x": np.outer(new["x"], new["x"])}, r"wrong shape: .* has shape \(4, 4\)"),
        (lambda new, state, clients: {"x": new["x"] + 0j}, "wrong shape: .* no array of real numbers"),
        (lambda new, state, clients: {"x": ["a"] * 4}, "wrong shape: .* no array of numbers"),
        (lambda new, state, clients: {"x": {"weight": new["x"]}}, "wrong shape: x after round 1 is a dict"),
        (lambda new, state, clients: {"x": [np.zeros(2), [np.zeros(3), 4]]}, "wrong shape: x after round 1 is a list"),
        (without_a_return, "wrong state: round 1 gave None .a return is missing"),
        (lambda new, state, clients: {"w": new["x"]}, "wrong state: round 1 gave a dict of 'w'; .* the server's model as 'x'"),
        (lambda new, state, clients: new["x"], "wrong state: round 1 gave a ndarray"),
        (asks_for_a_gpu, "needs a GPU: .*; let it run on the CPU"),
    ],
)
def test_a_round_that_gives_no_model_is_told_by_its_name(change, what):
    report = audit_algorithm(rounds_of(change), "fedavg", skip=SLOW)
    first = report.failed[0]
    assert first.check == "one local step"
    assert re.search(what, first.got), first.got
    assert not report.explanations and not report.passed


@pytest.mark.parametrize(
    "error, what",
    [
        (AssertionError("Torch not compiled with CUDA enabled"), "needs a GPU"),
        (RuntimeError("Found no NVIDIA driver on your system."), "needs a GPU"),
        (RuntimeError("No HIP GPUs are available"), "needs a GPU"),
        (ValueError("the relationship of these shapes"), "raises"),
        (RecursionError("maximum recursion depth exceeded"), "raises"),
        (MemoryError(), "raises"),
    ],
)
def test_what_is_raised_for_want_of_a_gpu_is_told_apart(error, what):
    got = audit_algorithm(raises(error), "fedavg", skip=SLOW).failed[0].got
    assert got.startswith(f"{what}: {type(error).__name__}")


def test_what_never_ends_is_stopped_once_and_not_called_again():
    begun = time.perf_counter()
    report = audit_algorithm(rounds_of(never_ends), "fedavg", time_limit=0.2)
    assert 0.2 <= time.perf_counter() - begun < 5
    assert report.failed[0].got.startswith("too slow: it took more than 0.2 seconds; allow more with time_limit=")
    assert {f.verdict for f in report.findings[1:]} == {"not run"}
    assert "was stopped in the check 'one local step': too slow: it took more than 0.2 seconds" in report.sentence
    assert "is open: 21 further checks were not run" in report.sentence and "No known mistake" not in report.sentence


def test_what_only_raises_is_not_said_to_have_wrong_numbers():
    sentence = audit_algorithm(raises(ValueError("mine")), "fedavg", skip=SLOW).sentence
    assert "end without numbers that could be compared: raises: ValueError: mine" in sentence and "explains" not in sentence


def row_vector(state, clients, cohort, learning_rate, local_steps):
    return {"x": state["x"][None] - learning_rate * np.mean([clients[k].gradient(state["x"]) for k in cohort], axis=0)}


def test_a_gradient_at_a_wrong_shape_is_told_with_the_adapters_line():
    got = {f.check: f.got for f in audit_algorithm(row_vector, "fedavg", skip=SLOW).failed}["several rounds"]
    assert "gradient(x) was called with x of shape (1, 4): it must have (4,)" in got and "of test_bad_adapters.py)" in got


def test_an_interruption_is_no_finding():
    with pytest.raises(KeyboardInterrupt):
        audit_algorithm(raises(KeyboardInterrupt()), "fedavg")


def drops_h_k(state, clients, cohort, learning_rate, local_steps, alpha):
    return {"x": state["x"], "h": state["h"]}


def test_a_part_of_the_state_that_is_lost_is_named():
    got = audit_algorithm(drops_h_k, "feddyn", skip=SLOW).failed[0].got
    assert got == "wrong state: the state that round 1 gave has no 'h_k', which it was handed"


def verdict(report, check):
    return next(f for f in report.findings if f.check == check)


def overwrites_clients(new, state, clients):
    clients[0].labels[:] = 0
    return new


def overwrites_state(new, state, clients):
    state["x"][:] = 0
    return new


def empties_state(new, state, clients):
    state.clear()
    return new


def overwrites_start(start, clients, cohorts, learning_rate, local_steps):
    models = []
    for cohort in cohorts:
        start[:] = averaging({"x": start}, clients, cohort, learning_rate, local_steps)["x"]
        models.append(start.copy())
    return models


def test_what_writes_into_what_it_is_handed_is_told():
    assert verdict(audit_algorithm(rounds_of(overwrites_clients), "fedavg", skip=SLOW), "inputs").got == "clients changed"
    report = audit_algorithm(overwrites_start, "fedavg", skip=SLOW)
    assert [f.check for f in report.failed] == ["inputs"] and report.failed[0].got == "start changed"
    for change in (overwrites_state, empties_state):  # nothing of the result is wrong
        report = audit_algorithm(rounds_of(change), "fedavg", skip=SLOW)
        assert report.passed and verdict(report, "inputs").verdict == "note"


def test_one_array_for_the_models_of_all_rounds_is_told():
    def run(start, clients, cohorts, learning_rate, local_steps):
        x, models = start.copy(), []
        for cohort in cohorts:
            x[:] = averaging({"x": x}, clients, cohort, learning_rate, local_steps)["x"]
            models.append(x)
        return models

    assert "the same array, which holds the last one; append x.copy()" in audit_algorithm(run, "fedavg", skip=SLOW).failed[0].got


@pytest.mark.parametrize("source", ["random", "numpy", "torch"])
def test_global_randomness_is_found(source):
    if source == "torch":
        torch = pytest.importorskip("torch")
    draw = {
        "random": random.random,
        "numpy": lambda: np.random.random(),  # noqa: NPY002
        "torch": lambda: float(torch.rand(1)),
    }[source]
    report = audit_algorithm(rounds_of(lambda new, *_: {"x": new["x"] + 1e-12 * draw()}), "fedavg", skip=SLOW)
    assert [f.check for f in report.failed] == ["repeatable"]
    assert report.failed[0].got == "another global seed, another run"


def test_what_is_kept_between_calls_is_found():
    calls = []

    def remembers(new, state, clients):
        calls.append(1)
        return {"x": new["x"] * (1 + 1e-13 * len(calls))}

    report = audit_algorithm(rounds_of(remembers), "fedavg", skip=SLOW)
    assert [f.check for f in report.failed] == ["repeatable"] and report.failed[0].got == "two different runs"


def test_the_callers_own_generators_are_left_as_they_were():
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    audit_algorithm(rounds_of(lambda new, *_: {"x": new["x"] + random.random() + np.random.random()}), "fedavg", skip=SLOW)  # noqa: NPY002
    assert random.getstate() == before[0] and (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002


class Averaging:
    """States of its own, and neither of the audit's names for them."""

    def init(self, start, clients):
        return (start, 0)

    def round(self, state, clients, cohort, learning_rate, local_steps):
        return averaging({"x": state[0]}, clients, cohort, learning_rate, local_steps)["x"], state[1] + 1

    def model(self, state):
        return state[0]


class WithoutModel:
    """Its states are tuples, and nothing says where the model is in them."""

    init, round = Averaging.init, Averaging.round


def by_generator(start, clients, cohorts, learning_rate, local_steps):
    x = start
    for cohort in cohorts:
        x = averaging({"x": x}, clients, cohort, learning_rate, local_steps)["x"]
        yield x


def in_torch(state, clients, cohort, learning_rate, local_steps):
    import torch

    x = torch.as_tensor(state["x"]).detach().numpy()
    return {"x": torch.tensor(averaging({"x": x}, clients, cohort, learning_rate, local_steps)["x"], requires_grad=True)}


def test_other_ways_of_giving_models_are_taken():
    pytest.importorskip("torch")
    for adapter in (Averaging(), by_generator, in_torch, rounds_of(lambda new, *_: {"x": list(new["x"])})):
        report = audit_algorithm(adapter, "fedavg", skip=SLOW)
        assert report.passed, str(report)
    got = audit_algorithm(WithoutModel(), "fedavg", skip=SLOW).failed[0].got
    assert got == "wrong state: a state of type tuple has no model 'x'; give the adapter a method model(state)"


def test_single_precision_is_judged_as_such():
    report = audit_algorithm(rounds_of(lambda new, *_: {"x": new["x"].astype(np.float32)}), "fedavg")
    assert report.passed and report.rtol == 3e-4
    off = audit_algorithm(rounds_of(lambda new, *_: {"x": (new["x"] * 1.01).astype(np.float32)}), "fedavg", skip=SLOW)
    assert not off.passed


async def asynchronous(state, clients, cohort, learning_rate, local_steps):
    return state


def needs_more(state, clients, cohort, learning_rate, local_steps, epochs):
    return state


def needs_batches(state, clients, cohort, learning_rate, local_steps, batch_size):
    return state


def takes_less(state, clients, cohort, learning_rate):
    return state


@pytest.mark.parametrize(
    "adapter, told",
    [
        (needs_batches, "needs 'batch_size': give it the default None"),
        (3, "it cannot be called"),
        (None, "it cannot be called"),
        (Averaging, r"it is a class; give an object of it, Averaging\(\)"),
        (asynchronous, "is asynchronous"),
        (lambda state: state, r"first three parameters must be \(state, clients, cohort\)"),
        (lambda *args: args, "first three parameters must be"),
        (needs_more, "needs 'epochs', which fedavg does not have: give it a default"),
        (takes_less, "has no parameter 'local_steps', which fedavg needs"),
    ],
)
def test_what_is_no_adapter_is_refused_before_any_call(adapter, told):
    with pytest.raises(InvalidInput, match=told):
        audit_algorithm(adapter, "fedavg")


def built_in(mu=0.1):
    """FedProx with everything built in, and a plain mean."""

    def round(state, clients, cohort):
        models = []
        for k in cohort:
            y = state["x"].copy()
            for _ in range(5):
                y = y - 0.05 * (clients[k].gradient(y) + mu * (y - state["x"]))
            models.append(y)
        return {"x": np.mean(models, axis=0)}

    return round


def test_what_is_built_in_is_not_asked_for_otherwise():
    settings = {"learning_rate": 0.05, "local_steps": 5, "mu": 0.1}
    report = audit_algorithm(built_in(), "fedprox", settings=settings, weighting="uniform")
    assert report.passed, str(report)
    assert verdict(report, "one local step").verdict == verdict(report, "gradient descent").verdict == "does not apply"
    other = audit_algorithm(built_in(), "fedprox", settings=settings)
    assert [[m.name for m in found] for found in other.explanations] == [["other-weights"]]
    half = audit_algorithm(built_in(0.05), "fedprox", settings=settings, weighting="uniform")
    assert [[m.name for m in found] for found in half.explanations] == [["penalty-half"]]
    assert not audit_algorithm(built_in(0.3), "fedprox", settings=settings, weighting="uniform").passed


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"lr": 0.1}, "unknown setting 'lr'"),
        ({"local_steps": 0}, "local_steps is 0"),
        ({"learning_rate": -1}, "learning_rate is -1"),
        ({"mu": float("nan")}, "mu is nan"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_settings_that_cannot_be_built_in_are_refused(settings, told):
    with pytest.raises((InvalidInput, UnknownName), match=told):
        audit_algorithm(built_in(), "fedprox", settings=settings)


def test_a_seed_without_a_default_is_handed_over():
    def round(state, clients, cohort, learning_rate, local_steps, seed):
        assert isinstance(seed, int)
        return averaging(state, clients, cohort, learning_rate, local_steps)

    assert audit_algorithm(round, "fedavg", skip=SLOW).passed


def by_hand(half=0.5, mean=True, ridge=True, logistic=True, sign=-1):
    """FedAvg with gradients of the adapter's own making."""

    def round(state, clients, cohort, learning_rate, local_steps):
        models = []
        for k in cohort:
            y, a, b = state["x"].copy(), clients[k].features, clients[k].labels
            for _ in range(local_steps):
                smooth = logistic and clients[k].loss == "logistic"
                slope = -b / (1 + np.exp(b * (a @ y))) if smooth else 2 * half * (a @ y - b)
                gradient = a.T @ slope / (len(b) if mean else 1) + (clients[k].ridge * y if ridge else 0)
                y = y + sign * learning_rate * gradient
            models.append(y)
        return {"x": np.average(models, axis=0, weights=[clients[k].num_examples for k in cohort])}

    return round


@pytest.mark.parametrize(
    "change, names",
    [
        ({"half": 1}, ["squared-without-half"]),
        ({"mean": False}, ["examples-summed"]),
        ({"ridge": False}, ["ridge-none"]),
        ({"logistic": False}, ["squared-for-logistic"]),
        ({"sign": 1}, ["gradient-sign"]),
        ({"half": 1, "ridge": False}, ["squared-without-half", "ridge-none"]),
    ],
    ids=lambda v: "+".join(v),
)
def test_a_loss_that_is_worked_out_otherwise_is_named(change, names):
    assert audit_algorithm(by_hand(), "fedavg", skip=SLOW).passed
    report = audit_algorithm(by_hand(**change), "fedavg", skip=SLOW)
    assert [[m.name for m in found] for found in report.explanations] == [names]


def stochastic(generator):
    """FedAvg on batches; generator(seed, round, client) gives what they are drawn with."""

    def run(start, clients, cohorts, learning_rate, local_steps, batch_size=None, seed=0):
        x, models = start, []
        for number, cohort in enumerate(cohorts):
            local = []
            for k in cohort:
                y, rng = x.copy(), generator(seed, number, k)
                for _ in range(local_steps):
                    batch = slice(None) if batch_size is None else rng.integers(clients[k].num_examples, size=batch_size)
                    y = y - learning_rate * clients[k].gradient(y, batch)
                local.append(y)
            x = np.average(local, axis=0, weights=[clients[k].num_examples for k in cohort])
            models.append(x)
        return models

    return run


@pytest.mark.parametrize(
    "generator, told",
    [
        (lambda seed, number, k: np.random.default_rng((seed, number, k)), ""),
        (lambda seed, number, k: np.random.default_rng(10**6 * seed + 10**3 * number + k), ""),
        (lambda seed, number, k: np.random.default_rng((0, number, k)), "the seed has no effect"),
        (lambda seed, number, k: np.random.default_rng((seed, number)), "each client's generator begins with the same seed"),
        (lambda seed, number, k: np.random.default_rng((seed, k)), "the generator begins anew every round"),
        (lambda seed, number, k: np.random.default_rng((seed + number, k)), "seed, round or client are added"),
        (lambda seed, number, k: np.random.default_rng((seed + k, number)), "seed, round or client are added"),
        (lambda seed, number, k: np.random.default_rng((seed, number + k)), "seed, round or client are added"),
        (lambda seed, number, k: np.random.default_rng(seed + number + k), "seed, round or client are added"),
    ],
    ids=["tuple", "far apart", "no seed", "no client", "no round", "seed + round", "seed + client", "round + client", "all added"],
)
def test_streams(generator, told):
    found = verdict(audit_algorithm(stochastic(generator), "fedavg", skip=SLOW), "streams")
    assert (found.verdict, found.hint.startswith(told)) == ("fail" if told else "pass", True), found
    assert (found.hint == "") == (told == "")
