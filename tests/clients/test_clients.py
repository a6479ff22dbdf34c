"""An algorithm's view of a round: two layouts, moves between slots and rows, the kernels."""

from __future__ import annotations

from fractions import Fraction

import array_api_strict
import numpy as np
import pytest
import torch

from fedtheory import arrays, problems
from fedtheory.arrays import put_slots, soft_threshold, take_slots, to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.local import Exact, LocalObjective
from fedtheory.participation.cohorts import Cohort, Uniform
from fedtheory.randomness import Stream

CONVERT = {
    "numpy": np.asarray,
    "strict": array_api_strict.asarray,
    "torch": torch.asarray,
}


def setting(scenarios: int = 9, clients: int = 6, size: int = 2, dim: int = 3):
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(
        [rng.standard_normal((n, dim)) for n in range(2, 2 + clients)],
        [rng.standard_normal(n) for n in range(2, 2 + clients)],
        ridge=0.1,
    )
    cohort = Uniform(size).sample(Stream(1), 1, range(scenarios), clients)
    return problem, cohort, rng.standard_normal((scenarios, clients, dim)), rng.standard_normal((scenarios, dim))


@pytest.mark.parametrize("library", CONVERT)
def test_take_put_sum_and_mean_by_loops(library: str) -> None:
    problem, cohort, memory, x = setting()
    convert = CONVERT[library]
    values = np.random.default_rng(1).standard_normal((9, 2, 3))
    wanted = memory.copy()
    for s in range(9):
        for p, k in enumerate(cohort.members[s]):
            wanted[s, k] = values[s, p]
    clients = Clients(problem, cohort, Exact(), convert(x))
    np.testing.assert_array_equal(to_numpy(clients.put(convert(memory), convert(values))), wanted)
    np.testing.assert_array_equal(to_numpy(clients.take(convert(wanted))), values)
    np.testing.assert_allclose(to_numpy(clients.sum(convert(values))), values.sum(axis=1), rtol=1e-15)
    np.testing.assert_allclose(to_numpy(clients.mean(convert(values))), values.sum(axis=1) / 2, rtol=1e-15)
    dense = Clients(problem, cohort.dense(), Exact(), convert(x))
    np.testing.assert_array_equal(to_numpy(dense.put(convert(memory), convert(wanted))), wanted)
    np.testing.assert_allclose(to_numpy(dense.sum(convert(wanted))), values.sum(axis=1), atol=1e-15)
    np.testing.assert_allclose(to_numpy(dense.mean(convert(wanted))), values.sum(axis=1) / 2, atol=1e-15)


@pytest.mark.parametrize("library", CONVERT)
def test_gradients_of_slots_by_loops(library: str) -> None:
    problem, cohort, _, x = setting()
    y = np.random.default_rng(2).standard_normal((9, 2, 3))
    clients = Clients(problem, cohort, Exact(), CONVERT[library](x))
    found = to_numpy(clients.gradient(CONVERT[library](y)))
    for s in range(9):
        for p, k in enumerate(cohort.members[s]):
            rows = slice(0, problem.sample_counts[k])
            a, b = problem.features[k, rows], problem.targets[k, rows]
            wanted = a.T @ (a @ y[s, p] - b) / len(b) + 0.1 * y[s, p]
            np.testing.assert_allclose(found[s, p], wanted, atol=1e-13)


@pytest.mark.parametrize("library", CONVERT)
@pytest.mark.parametrize("scenarios", [1, 9, 200])
def test_minimise_solves_every_slot(library: str, scenarios: int) -> None:
    """Few scenarios leave clients out, many pad unevenly; each slot is checked against its own stationarity condition."""
    problem, cohort, memory, x = setting(scenarios)
    convert = CONVERT[library]
    clients = Clients(problem, cohort, Exact(), convert(x), round_index=3)
    center = clients.broadcast(convert(x))
    linear = clients.take(convert(memory))
    result = clients.minimise(LocalObjective(center, linear, 5.0, 0.4), center)
    y, residual = to_numpy(result.y), to_numpy(result.residual)
    assert y.shape == (scenarios, 2, 3) and residual.shape == (scenarios, 2)
    zeros = 0
    for s in range(scenarios):
        for p, k in enumerate(cohort.members[s]):
            rows = slice(0, problem.sample_counts[k])
            a, b = problem.features[k, rows], problem.targets[k, rows]
            g = a.T @ (a @ y[s, p] - b) / len(b) + 0.1 * y[s, p] - memory[s, k] + 5 * (y[s, p] - x[s])
            move = y[s, p] - x[s]
            zeros += (move == 0).sum()
            violation = np.where(move == 0, np.maximum(np.abs(g) - 0.4, 0), np.abs(g + 0.4 * np.sign(move)))
            assert violation.max() < 1e-12
    assert zeros > 0 or scenarios == 1
    assert residual.max() < 1e-12


def test_one_array_in_two_roles_is_moved_once() -> None:
    problem, cohort, _, x = setting()
    clients = Clients(problem, cohort, Exact(), x)
    moved = []
    plain = clients.layout.to_rows
    clients.layout.to_rows = lambda values: moved.append(values) or plain(values)
    center = clients.broadcast(x)
    clients.minimise(LocalObjective(center, None, 5.0, 0.4), center)
    assert len(moved) == 1


@pytest.mark.parametrize("scenarios", [1, 50])
def test_layout_is_a_bijection_between_slots_and_valid_rows(scenarios: int) -> None:
    problem, cohort, _, x = setting(scenarios)
    clients = Clients(problem, cohort, Exact(), x)
    rows = clients.rows
    members = cohort.members
    seen = []
    for n, client in enumerate(rows.clients):
        for b in np.nonzero(rows.valid[n])[0]:
            scenario = rows.scenarios[n, b]
            assert client in members[scenario]
            seen.append((scenario, client))
    assert sorted(seen) == sorted((s, k) for s in range(scenarios) for k in members[s])
    slots = np.random.default_rng(3).standard_normal((scenarios, 2, 3))
    found = clients.layout.to_rows(slots)
    np.testing.assert_array_equal(clients.layout.to_slots(found), slots)
    for n, client in enumerate(rows.clients):
        for b in np.nonzero(rows.valid[n])[0]:
            scenario = rows.scenarios[n, b]
            np.testing.assert_array_equal(found[n, b], slots[scenario, np.flatnonzero(members[scenario] == client)[0]])


def test_weights_and_sample_shares() -> None:
    problem, cohort, _, x = setting()
    share = np.arange(2, 8) / 27
    for layout in (cohort, cohort.dense()):
        clients = Clients(problem, layout, Exact(), x)
        total = clients.sum(clients.sample_shares())[:, 0]
        np.testing.assert_allclose(total, share[cohort.members].sum(axis=1), rtol=1e-14)
        np.testing.assert_allclose(clients.sum(clients.weights())[:, 0], 2 / 6, rtol=1e-14)


@pytest.mark.parametrize("library", CONVERT)
def test_slot_memory_and_soft_threshold(library: str) -> None:
    convert = CONVERT[library]
    memory = np.arange(24.0).reshape(2, 4, 3)
    members = np.array([[0, 3], [1, 2]])
    values = -np.ones((2, 2, 3))
    kept = convert(memory.copy())
    new = to_numpy(put_slots(kept, convert(members), convert(values)))
    assert (to_numpy(kept) == memory).all()  # not in place
    assert (new[0, [0, 3]] == -1).all() and (new[1, [1, 2]] == -1).all()
    assert (new[0, [1, 2]] == memory[0, [1, 2]]).all() and (new[1, [0, 3]] == memory[1, [0, 3]]).all()
    taken = to_numpy(take_slots(kept, convert(members)))
    assert (taken[1, 0] == memory[1, 1]).all()
    v = convert(np.array([-2.0, -0.5, 0.0, 0.3, 0.5, 1.75]))
    assert to_numpy(soft_threshold(v, 0.5)).tolist() == [-1.5, 0.0, 0.0, 0.0, 0.0, 1.25]


@pytest.mark.parametrize("memory", [np.arange(24.0).reshape(2, 4, 3), np.arange(24).reshape(2, 4, 3) * Fraction(1, 7), None])
@pytest.mark.parametrize("many", [0, 1000])
def test_slots_are_put_in_place(memory, many, monkeypatch) -> None:
    """Also into rows that do not lie side by side, rows of fractions, and as many as are moved whole."""
    monkeypatch.setattr(arrays, "MANY_ROWS", many)
    memory = np.arange(48.0).reshape(2, 4, 6)[:, :, ::2] if memory is None else memory
    before, members = memory.copy(), np.array([[0, 3], [1, 2]])
    values = np.arange(12).reshape(2, 3, 2).swapaxes(1, 2) * memory[0, 0, 1]
    assert put_slots(memory, members, values, in_place=True) is memory
    for s, k in np.ndindex(2, 4):
        wanted = values[s, members[s].tolist().index(k)] if k in members[s] else before[s, k]
        np.testing.assert_array_equal(memory[s, k], wanted)


def test_cohort_without_some_clients_uses_only_those_present() -> None:
    problem, _, _, x = setting(scenarios=1)
    cohort = Cohort(6, members=np.array([[1, 4]]))
    clients = Clients(problem, cohort, Exact(), x)
    assert clients.row_problem.num_clients == 2
    np.testing.assert_array_equal(clients.rows.clients, [1, 4])
