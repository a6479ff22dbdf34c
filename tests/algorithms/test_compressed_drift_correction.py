"""SCAFFOLD, FedDyn and FedElasticNet with compressors: rounds, residuals and bits worked out by hand, and what stays a mean.

Two clients f_k(x) = ||x - t_k||^2/2 with t_1 = (4, 2), t_2 = (-2, 4), from x = 0. Top-1 of two entries sends the larger one: 64 bits
of it, 2 bits of the count (0 to 2), and its place, as 0 in one bit or as 1 in two: 67 bits of client 1, 68 of client 2.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from fedtheory import Full, Uniform, algorithms, messages, problems, simulate
from fedtheory.algorithms.compressed import check_goes_by_what_arrives
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.local import Exact, GradientSteps, LocalObjective
from fedtheory.participation.cohorts import Cohort

TOP, SPARSE = messages.TopK(k=1), messages.Threshold(0.0)
PROBLEM = problems.Quadratic(np.stack([np.eye(2)] * 2), np.array([[4.0, 2.0], [-2.0, 4.0]]))
STEP = GradientSteps(1, 0.5)


def rounds(algorithm, count, solver=STEP):
    """The states of so many rounds of both clients, and the clients of the last one."""
    states, clients = [algorithm.init(np.zeros((1, 2)), 2)], None
    for t in range(count):
        clients = Clients(PROBLEM, Cohort(2, members=np.array([[0, 1]])), solver, states[-1].x, round_index=t + 1)
        states.append(algorithm.round(states[-1], clients))
    return states, clients


def close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual)[0], expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("make", [algorithms.Scaffold, lambda: algorithms.FedElasticNetScaffold(3.0, 2.0)])
def test_scaffold_both_messages(make):
    # y = t/2; sent (2, 0) and (0, 2). c_k = -t, of which (-4, 0) and (0, -4) are sent, and kept. One local step knows no penalty.
    states, clients = rounds(algorithms.Compressed(make(), TOP, control=TOP), 1)
    close(states[1].x, [1, 1])
    close(states[1].residuals, [[0, 1], [-1, 0]])
    close(states[1].c_k, [[-4, 0], [0, -4]])
    close(states[1].c, [-2, -2])
    assert clients.bits_up.tolist() == [[2 * 67, 2 * 68]]
    assert clients.bits_down.tolist() == [[4 * 64] * 2]
    # Slopes (-3, -1) + (4, 0) - (2, 2) = (-1, -3) and (3, -3) + (0, 4) - (2, 2) = (1, -1); half of them backwards plus the residual:
    # (1/2, 5/2) and (-3/2, 1/2), of which 5/2 and -3/2 are sent.
    states, _ = rounds(algorithms.Compressed(make(), TOP, control=TOP), 2)
    close(states[2].x, [1 / 4, 9 / 4])
    close(states[2].residuals, [[1 / 2, 0], [0, 1 / 2]])
    states, _ = rounds(algorithms.Compressed(make(), TOP, control=TOP, feedback=False), 2)
    close(states[2].x, [1 - 1 / 4, 1 + 3 / 4])
    assert states[2].residuals is None


def test_scaffold_one_message_of_the_two():
    states, clients = rounds(algorithms.Compressed(algorithms.Scaffold(), TOP), 1)
    close(states[1].c_k, [[-4, -2], [2, -4]])
    assert clients.bits_up.tolist() == [[67 + 128, 68 + 128]]
    states, clients = rounds(algorithms.Compressed(algorithms.Scaffold(), control=TOP), 1)
    close(states[1].x, [1 / 2, 3 / 2])
    close(states[1].c_k, [[-4, 0], [0, -4]])
    assert clients.bits_up.tolist() == [[67 + 128, 68 + 128]]


def test_the_second_message_is_recovered():
    # -c - (2, 0)/(1/2) = (-4, 0): from what arrives, on both sides.
    states, clients = rounds(algorithms.Compressed(algorithms.Scaffold(control="recovered"), TOP), 1)
    close(states[1].c_k, [[-4, 0], [0, -4]])
    close(states[1].c, [-2, -2])
    assert clients.bits_up.tolist() == [[67, 68]]


@pytest.mark.parametrize("make", [algorithms.Scaffold, lambda **k: algorithms.FedElasticNetScaffold(0.1, 0.3, **k)])
@pytest.mark.parametrize("sampling", [Full(), Uniform(1)])
def test_a_recovered_message_changes_nothing_but_the_bits(make, sampling):
    runs = [
        simulate(PROBLEM, make(**how), 12, sampling=sampling, scenarios=3, local_solver=GradientSteps(4, 0.2), record=["bits_up"])
        for how in ({}, {"control": "recovered"})
    ]
    np.testing.assert_allclose(runs[1].final.x, runs[0].final.x, rtol=1e-13)
    np.testing.assert_allclose(runs[1].final.c_k, runs[0].final.c_k, atol=1e-13)
    np.testing.assert_array_equal(2 * runs[1].metrics["bits_up"], runs[0].metrics["bits_up"])


@pytest.mark.parametrize(("stored", "kept"), [("own", [[-2, -1], [1, -2]]), ("received", [[-2, 0], [0, -2]])])
def test_feddyn(stored, kept):
    # alpha = 1: theta_k = t/2; sent (2, 0), (0, 2). h = -(2, 2)/2; theta = (1, 1) + (1, 1).
    # h - mean g = alpha times the mean residual ((0, 1) + (-1, 0))/2 where g is the client's own, and 0 where it is what arrived.
    algorithm = algorithms.Compressed(algorithms.FedDyn(1, stored=stored), TOP)
    states, clients = rounds(algorithm, 1, Exact())
    close(states[1].x, [2, 2])
    close(states[1].h, [-1, -1])
    close(states[1].gradients, kept)
    close(states[1].residuals, [[0, 1], [-1, 0]])
    off = states[1].h[0] - states[1].gradients[0].mean(axis=0)
    np.testing.assert_allclose(off, [-1 / 2, 1 / 2] if stored == "own" else [0, 0])
    assert clients.bits_up.tolist() == [[67, 68]]
    assert clients.bits_down.tolist() == [[128, 128]]


@pytest.mark.parametrize(("stored", "kept"), [("own", [[-5 / 2, -3 / 2], [3 / 2, -5 / 2]]), ("received", [[-5 / 2, 0], [0, -5 / 2]])])
def test_algorithm_3_with_the_threshold_on_the_wire(stored, kept):
    # lambda_1 = lambda_2 = 1: deltas soft(t, 1)/2 = (3/2, 1/2), (-1/2, 3/2), of which 3/2 is above 1.
    # h = -((3/2, 3/2) + (1, 1))/2 = -(5/4, 5/4); theta = (3/4, 3/4) + (5/4, 5/4).  g_k = -delta - sign(delta).
    algorithm = algorithms.Compressed(algorithms.FedElasticNetDyn(1, 1, stored=stored), messages.Threshold(1.0), feedback=False)
    states, clients = rounds(algorithm, 1, Exact())
    close(states[1].x, [2, 2])
    close(states[1].h, [-5 / 4, -5 / 4])
    close(states[1].stored, kept)
    assert states[1].residuals is None
    assert clients.bits_up.tolist() == [[67, 68]]


def test_algorithm_1_counts_what_is_not_zero():
    # lambda_1 = 2, lambda_2 = 1: soft((4, 2), 2)/2 = (1, 0), soft((-2, 4), 2)/2 = (0, 1).
    algorithm = algorithms.Compressed(algorithms.FedElasticNetProx(2, 1, "cohort"), SPARSE)
    states, clients = rounds(algorithm, 1, Exact())
    close(states[1].x, [1 / 2, 1 / 2])
    close(states[1].residuals, [[0, 0], [0, 0]])
    assert clients.bits_up.tolist() == [[67, 68]]


@pytest.mark.parametrize(
    "algorithm",
    [
        algorithms.FedAvg(),
        algorithms.FedProx(0.5),
        algorithms.Scaffold(),
        algorithms.FedElasticNetScaffold(0.1, 0.3),
        algorithms.FedDyn(2.0, send="update"),
        algorithms.FedElasticNetDyn(0.1, 2.0),
        algorithms.FedElasticNetProx(0.1, 2.0),
        algorithms.FedGATE(),
    ],
    ids=lambda a: a.name,
)
def test_a_lossless_compressor_changes_nothing_but_the_bits(algorithm):
    sides = {side: SPARSE for side in ("up", "down", "control") if side in algorithm.compresses}
    solver = Exact() if {"mu", "alpha", "l2"} & {*vars(algorithm)} and "control" not in sides else GradientSteps(3, 0.2)
    run, dense = (
        simulate(PROBLEM, a, 10, sampling=Uniform(1), scenarios=2, local_solver=solver, record=[])
        for a in (algorithms.Compressed(algorithm, **sides), algorithm)
    )
    for name in type(dense.final)._fields:
        np.testing.assert_allclose(getattr(run.final, name), getattr(dense.final, name), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("compressor", [TOP, messages.QSGD(4), messages.ScaledSign(), messages.RandomK(k=1)], ids=lambda c: c.name)
@pytest.mark.parametrize("control", ["sent", "recovered"])
def test_c_stays_the_mean(compressor, control):
    second = compressor if control == "sent" else None
    algorithm = algorithms.Compressed(algorithms.Scaffold(control=control), compressor, control=second)
    run = simulate(PROBLEM, algorithm, 9, sampling=Uniform(1), scenarios=4, local_solver=GradientSteps(3, 0.2), record=[])
    np.testing.assert_allclose(run.final.c, run.final.c_k.mean(axis=1), atol=1e-12)
    assert np.abs(run.final.c).max() > 1e-3


LOSSY = [TOP, messages.ScaledSign(), messages.RandomK(k=1), messages.Threshold(0.3)]


@pytest.mark.parametrize("compressor", LOSSY, ids=lambda c: c.name)
def test_h_is_off_by_the_mean_residual(compressor):
    algorithm = algorithms.Compressed(algorithms.FedDyn(2.0), compressor)
    run = simulate(PROBLEM, algorithm, 9, sampling=Uniform(1), scenarios=4, record=[])
    off = run.final.h - run.final.gradients.mean(axis=1)
    np.testing.assert_allclose(off, 2.0 * run.final.residuals.mean(axis=1), atol=1e-12)
    assert np.abs(off).max() > 1e-3
    keeps = algorithms.Compressed(algorithms.FedDyn(2.0, stored="received"), compressor)
    received = simulate(PROBLEM, keeps, 9, sampling=Uniform(1), record=[])
    np.testing.assert_allclose(received.final.h, received.final.gradients.mean(axis=1), atol=1e-12)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: algorithms.Compressed(algorithms.FedDyn(1), TOP, of="model"), "of the messages of feddyn, 'up' can be compressed"),
        (lambda: algorithms.Compressed(algorithms.FedDyn(1), TOP, TOP), "message = 'down': of the messages of feddyn, 'up' can"),
        (lambda: algorithms.Compressed(algorithms.Mime(), TOP), "of the messages of mime, none can be compressed"),
        (lambda: algorithms.Compressed(algorithms.FedAvg()), "nothing is compressed"),
        (lambda: algorithms.Compressed(algorithms.FedAvg(), TOP, feedback="down"), "there is no compressor on that side"),
        (lambda: algorithms.Compressed(algorithms.EFL(), TOP), "EFL compresses its own messages"),
        (lambda: algorithms.Compressed("fedavg", TOP), "method = 'fedavg': give a method"),
        (lambda: algorithms.Compressed(algorithms.Compressed(algorithms.FedAvg(), TOP), TOP), "give a method"),
        (lambda: algorithms.Compressed(algorithms.FedAvg(), TOP, feedback="client"), "feedback = 'client': use True, False, 'up'"),
        (lambda: algorithms.Scaffold(send="model", control="recovered"), "use send='update'"),
        (lambda: algorithms.Compressed(algorithms.Scaffold(control="recovered"), control=TOP), "no second message is sent"),
        (lambda: algorithms.Scaffold("gradient", control="recovered"), "option='gradient'"),
        (lambda: algorithms.Compressed(algorithms.Scaffold(), "top-k"), "up = 'top-k'"),
        (lambda: algorithms.Compressed(algorithms.FedElasticNetDyn(1, 1, "true-gradient"), TOP), "use rule='sign'"),
        (lambda: algorithms.FedElasticNetScaffold(1, 1, control="kept"), "control = 'kept'"),
        (lambda: algorithms.FedDyn(1, stored="mine"), "stored = 'mine'"),
        (lambda: algorithms.Compressed(algorithms.Scaffold(), control=messages.TopK(k=9)).check_run(PROBLEM, 1), "k = 9"),
        (lambda: simulate(PROBLEM, algorithms.Compressed(algorithms.FedDyn(1), messages.TopK(k=9)), 1), "k = 9"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(make, says):
    with pytest.raises(InvalidInput, match=says.replace("(", r"\(")):
        make()


class Averaged(NamedTuple):
    x: np.ndarray


@dataclass(frozen=True)
class Mine(algorithms.Algorithm):
    """A method of somebody's own; ``sends`` and ``serves`` are left out by mistake."""

    sends: bool = True
    serves: bool = True
    name = "mine"
    source = "a test"
    compresses = ("up", "down")

    def init(self, x, num_clients):
        return Averaged(x)

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        update = clients.minimise(LocalObjective(center=x), start=x).y - x
        update = clients.send(update) if self.sends else update
        step = clients.mean(update)
        return Averaged(state.x + (clients.send_down(step) if self.serves else step))


def test_a_method_of_ones_own_is_compressed_as_fedavg_is():
    runs = [
        simulate(PROBLEM, algorithms.Compressed(m, TOP, TOP), 9, sampling=Uniform(1), scenarios=3, local_solver=STEP, record=["bits"])
        for m in (Mine(), algorithms.FedAvg("cohort"))
    ]
    for a, b in zip(runs[0].final, runs[1].final, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(runs[0].metrics["bits"], runs[1].metrics["bits"])
    again = pickle.loads(pickle.dumps(runs[0].final))
    assert type(again) is type(runs[0].final) and (again.residuals == runs[0].final.residuals).all()


def test_a_method_of_ones_own_that_goes_on_with_what_it_sends_is_refused():
    class Deaf(Mine):
        def round(self, state, clients):
            x = clients.broadcast(state.x)
            update = clients.minimise(LocalObjective(center=x), start=x).y - x
            clients.send(update)
            return Averaged(state.x + clients.send_down(clients.mean(update)))

    for method in (Mine(sends=False), Deaf()):
        with pytest.raises(InvalidInput, match=r"up = TopK.*mine goes on with what it sends, not with what clients.send gives back"):
            algorithms.Compressed(method, TOP)
        algorithms.Compressed(method, down=TOP)
    with pytest.raises(InvalidInput, match=r"down = TopK.*not with what clients.send_down gives back"):
        algorithms.Compressed(Mine(serves=False), down=TOP)


@pytest.mark.parametrize(
    "method", [algorithms.get(name) for name in algorithms.names() if algorithms.get(name).compresses], ids=lambda c: c.name
)
def test_methods_of_the_package_go_by_what_arrives(method):
    made = {"alpha": 1.0, "l1": 0.1, "l2": 2.0, "mu": 1.0}
    plain = method(**{f.name: made[f.name] for f in fields(method) if f.name in made})
    sides = {side: TOP for side in ("up", "down", "control") if side in method.compresses}
    check_goes_by_what_arrives(algorithms.Compressed(plain, **sides))


def test_a_method_that_says_it_sends_and_does_not_is_told_in_its_round():
    late = algorithms.Compressed(Mine(), TOP, TOP)
    object.__setattr__(late.method, "sends", False)
    with pytest.raises(InvalidInput, match=r"up = TopK.*mine calls clients.send 0 times in a round"):
        simulate(PROBLEM, late, 1, local_solver=STEP)
    object.__setattr__(late.method, "sends", True)
    object.__setattr__(late.method, "serves", False)
    with pytest.raises(InvalidInput, match=r"down = TopK.*mine does not call clients.send_down"):
        simulate(PROBLEM, late, 1, local_solver=STEP)

    class Plain(Mine):
        def init(self, x, num_clients):
            return SimpleNamespace(x=x)

    with pytest.raises(InvalidInput, match=r"its state must be a NamedTuple with the model x"):
        simulate(PROBLEM, algorithms.Compressed(Plain(), TOP), 1, local_solver=STEP)
