"""Rows taken from a memory and put into it, compiled and by NumPy: the same numbers to the last bit, and the same refusals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("numba")

from fedtheory import Uniform, algorithms, arrays, problems, simulate
from fedtheory.arrays import put_slots, take_slots
from fedtheory.clients import moves, pieces
from fedtheory.clients.clients import Clients
from fedtheory.clients.pieces import Moved
from fedtheory.local import Exact
from fedtheory.participation.cohorts import Cohort

SHAPES = [(1, 1, 1, 1), (3, 5, 2, 1), (4, 6, 3, 8), (7, 9, 4, 13), (5, 40, 11, 50)]  # S, N, P, d
ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e300]


@pytest.fixture
def compiled(monkeypatch):
    """Return a switch that compiles loops whatever the size, or never; it is on."""

    def use(yes):
        monkeypatch.setattr(moves, "FEW", 0)
        monkeypatch.setattr(moves, "worth", lambda numbers, least: yes)

    use(True)
    return use


def setting(shape, seed=0):
    scenarios, clients, slots, dim = shape
    rng = np.random.default_rng(seed)
    members = np.sort(np.argsort(rng.random((scenarios, clients)), axis=1)[:, :slots], axis=1)
    memory, values = rng.standard_normal((scenarios, clients, dim)), rng.standard_normal((scenarios, slots, dim))
    values.flat[: len(ODD)] = ODD[: values.size]
    return memory, members, values, rng


def bits(array):
    return array.dtype, array.shape, array.tobytes()


def forms(values):
    """The same numbers as they may lie: in order, by slot, with gaps, and one row for all slots."""
    gaps = np.zeros((*values.shape[:2], 2 * values.shape[2]))
    gaps[:, :, : values.shape[2]] = values
    yield from (values, np.array(values.swapaxes(0, 1)).swapaxes(0, 1), gaps[:, :, : values.shape[2]])
    yield np.broadcast_to(values[:, :1], values.shape)


def cohort_of(clients, members, memory):
    """The clients of a round of some problem of the memory's dimension."""
    problem = problems.LeastSquares(np.ones((clients, 2, memory.shape[2])), np.ones((clients, 2)))
    return Clients(problem, Cohort(clients, members=members), Exact(), memory[:, 0])


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_those_of_numpy(shape, compiled):
    memory, members, values, _ = setting(shape)
    for kept in forms(memory):
        assert bits(moves.take_rows(kept, members)) == bits(take_slots(kept, members))
    for put in forms(values):
        wanted = put_slots(memory, members, put)
        before = memory.copy()
        assert bits(moves.put_rows(memory, members, put, False)) == bits(wanted) and bits(memory) == bits(before)
        own = memory.copy()
        assert moves.put_rows(own, members, put, True) is own and bits(own) == bits(wanted)


@pytest.mark.parametrize("l1", [0.0, 0.3])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_dual_step_is_numpys(shape, l1, compiled):
    memory, members, y, rng = setting(shape)
    duals = take_slots(memory, members)
    start = np.broadcast_to(rng.standard_normal((shape[0], 1, shape[3])), y.shape)
    y[-1, -1] = start[-1, -1]  # where a model has not moved, sign(0) = 0
    clients = cohort_of(shape[1], members, memory)
    with np.errstate(invalid="ignore"):
        wanted = clients.dual_step(memory.copy(), duals, y - start, 1.7, l1)
    for moved in forms(y):
        if moved is not y and moved.strides[1] == 0 and shape[2] > 1:
            continue  # other numbers
        found = clients.dual_step(memory.copy(), duals, Moved(moved, start), 1.7, l1)
        assert bits(found[0]) == bits(wanted[0])
        np.testing.assert_array_equal(found[1], wanted[1])
    compiled(False)
    with np.errstate(invalid="ignore"):
        assert bits(clients.dual_step(memory.copy(), duals, Moved(y, start), 1.7, l1)[0]) == bits(wanted[0])


def test_a_dual_step_by_hand(compiled):
    """g = 3 of client 1, moved by 1/2, l2 = 2, l1 = 1/4: g becomes 3 - 1 - 1/4 = 7/4, which is -5/4 more; client 0 stays."""
    clients = cohort_of(2, np.array([[1]]), np.ones((1, 2, 1)))
    for one in (float, Fraction):
        memory = np.array([[[one(5)], [one(3)]]])
        duals, y, start = memory[:, 1:], np.array([[[one(3) / 2]]]), np.array([[[one(1)]]])
        new, change = clients.dual_step(memory.copy(), duals, Moved(y, start), one(2), one(1) / 4)
        assert new.ravel().tolist() == [5, one(7) / 4] and change.tolist() == [[-one(5) / 4]]


def test_what_has_no_such_rows_is_refused_as_by_numpy(compiled):
    memory, members, values, _ = setting((4, 6, 3, 8))
    with pytest.raises(IndexError):
        moves.take_rows(memory[:, :1], members)
    with pytest.raises(IndexError):
        moves.put_rows(memory[:, :1].copy(), members, values, True)
    with pytest.raises(ValueError, match="broadcast"):
        moves.put_rows(memory, members, values[:, :2], False)
    with pytest.raises((ValueError, IndexError)):
        moves.put_rows(memory, members[:2], values, False)
    frozen = memory.copy()
    frozen.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        moves.put_rows(frozen, members, values, True)
    assert moves.dual_step(frozen, members, values, Moved(values, values), 1.0, 0.0, True) is None
    assert moves.dual_step(memory, members, values, Moved(values[:, :1], values), 1.0, 0.0, True) is None
    for other in (memory.astype(np.float32), memory.astype(object), memory[:, :, ::2]):
        assert bits(moves.take_rows(other, members)) == bits(take_slots(other, members))


@pytest.mark.parametrize("many", [0, 1000])
def test_what_is_put_is_broadcast(many, monkeypatch):
    """One row for all slots of a scenario, however many rows are put."""
    monkeypatch.setattr(arrays, "MANY_ROWS", many)
    memory, members, values, _ = setting((4, 6, 3, 8))
    assert bits(put_slots(memory, members, values[:, :1])) == bits(put_slots(memory, members, np.repeat(values[:, :1], 3, axis=1)))


@pytest.mark.parametrize("epsilon", [0.0, 0.02])
@pytest.mark.parametrize("kept", [False, True])
def test_a_run_does_not_depend_on_it(epsilon, kept, compiled):
    rng = np.random.default_rng(1)
    problem = problems.LeastSquares(rng.standard_normal((9, 12, 5)), rng.standard_normal((9, 12)))
    method = algorithms.FedElasticNetDyn(l1=0.1, l2=8.0, epsilon=epsilon)
    record = ("objective", "nonzeros", "entropy", "drift", "bits_up")
    found = []
    for yes in (True, False):
        compiled(yes)
        run = simulate(problem, method, 4, sampling=Uniform(4), scenarios=6, seed=2, record=record, keep_states=kept)
        found.append([*run.final, *run.metrics.values(), *(a for state in run.states or () for a in state)])
    assert [bits(a) for a in found[0]] == [bits(a) for a in found[1]]


def test_what_was_sent_is_made_when_it_is_looked_at(compiled):
    memory, members, y, _ = setting((4, 6, 3, 8), seed=3)
    clients = cohort_of(6, members, memory)
    delta = clients.moved(y, clients.spread(memory[:, 0]))
    assert type(delta) is Moved
    assert clients.send(delta) is delta and (clients.bits_up == 8 * 64).all()
    assert bits(clients.sent[0]) == bits(y - memory[:, :1]) and clients.sent[0] is clients.sent[0]


def test_a_message_of_another_length_has_its_own_bits(compiled):
    """Three numbers beside models of eight; and of a difference, made or not, as many as it has."""
    memory, members, y, _ = setting((4, 6, 3, 8), seed=3)
    clients = cohort_of(6, members, memory)
    clients.send(y[:, :, :3])
    assert (clients.bits_up == 3 * 64).all()
    clients.send(Moved(y[:, :, :5], y[:, :, :5]))
    assert (clients.bits_up == 8 * 64).all()


def test_small_ones_are_left_to_numpy():
    few = np.ones((4, 3, 8))
    assert not pieces.worth(few.size, moves.FEW) and isinstance(moves.difference(few, few), np.ndarray)
