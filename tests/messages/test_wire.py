"""The wire: every bit that is sent, both ways, by whom, and what it costs to have been away."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from cases import each

from fedtheory import Bernoulli, Full, Uniform, algorithms, messages, problems, simulate
from fedtheory.clients.clients import Clients
from fedtheory.errors import Diverged, InvalidInput
from fedtheory.local import GradientSteps, InverseTime, LocalSGD, Schedule, SubgradientSteps
from fedtheory.participation.cohorts import Cohort
from fedtheory.participation.irregular import inactive, incomplete

N, D, ROUNDS, SCENARIOS = 6, 40, 6, 3
WAYS = ("bits_up", "bits_down", "bits")


@functools.cache
def regression():
    rng = np.random.default_rng(8)
    return problems.LeastSquares(rng.normal(size=(N, 9, D)) / 3, rng.normal(size=(N, 9)), ridge=0.3)


def play(algorithm, sampling=None, solver=None, **options):
    options = {"rounds": ROUNDS, "scenarios": SCENARIOS, "seed": 5, "record": WAYS, "client_bits": True} | options
    return simulate(regression(), algorithm, sampling=sampling, local_solver=solver or GradientSteps(2, 0.1), **options)


@each(
    ("algorithm", "up", "down"),
    [
        (algorithms.FedAvg(), 1, 1),
        (algorithms.FedProx(0.5), 1, 1),
        (algorithms.FedDyn(2.0), 1, 1),
        (algorithms.FedElasticNetProx(0.1, 0.8, epsilon=0.01), 1, 1),
        (algorithms.FedElasticNetDyn(0.1, 4.0), 1, 1),
        (algorithms.Scaffold(), 2, 2),
        (algorithms.FedElasticNetScaffold(0.1, 0.8), 2, 2),
        (algorithms.Subgradient(0.1), 1, 1),
        (algorithms.EFL(), 1, 1),
    ],
)
@each("sampling", [Full(), Uniform(2), Bernoulli(0.5)])
@each("width", [64, 32])
def test_what_no_compressor_touched_is_dense_floats(algorithm, up, down, sampling, width):
    sizes = []
    like = None if width == 64 else np.zeros(1, dtype=np.float32)
    run = play(
        algorithm, sampling, like=like, on_round=lambda t, old, new, clients: sizes.append(clients.cohort.size())
    )
    sizes = np.array(sizes)
    np.testing.assert_array_equal(run.metrics["bits_up"][1:], sizes * up * D * width)
    np.testing.assert_array_equal(run.metrics["bits_down"][1:], sizes * down * D * width)
    assert (run.metrics["bits_up"][0] == 0).all() and run.client_bits["up"].dtype == np.int64


def test_totals_agree_however_the_run_is_cut():
    algorithm = algorithms.EFL(0.1, compressor=messages.QSGD(4), down_compressor=messages.TopK(k=3))
    sampling, solver = incomplete(N, 3, [0.4, 0.2, 0.2, 0.2]), LocalSGD(3, 0.05, batch_size=2)
    whole = play(algorithm, sampling, solver)
    for way in ("up", "down"):
        np.testing.assert_array_equal(whole.client_bits[way].sum(axis=1), whole.metrics[f"bits_{way}"].sum(axis=0))
    np.testing.assert_array_equal(
        whole.metrics["bits"], np.cumsum(whole.metrics["bits_up"] + whole.metrics["bits_down"], axis=0)
    )
    for cut in ({"chunk": 1}, {"chunk": 2}, {"workers": 2}):
        again = play(algorithm, sampling, solver, **cut)
        np.testing.assert_allclose(again.x, whole.x, rtol=1e-11)
        for way in ("up", "down"):
            np.testing.assert_array_equal(again.client_bits[way], whole.client_bits[way])
    assert play(algorithm, sampling, solver, client_bits=False).client_bits is None


@pytest.mark.parametrize("name", ["qsgd", "random-k"])
def test_a_randomised_compressor_draws_the_same_in_every_layout(name):
    compressor = {"qsgd": messages.QSGD(3), "random-k": messages.RandomK(k=5)}[name]
    algorithm = algorithms.Compressed(algorithms.FedAvg(), up=compressor, down=compressor)
    gathered, dense = (play(algorithm, Uniform(2), dense=dense) for dense in (False, True))
    np.testing.assert_allclose(dense.x, gathered.x, rtol=1e-12)
    np.testing.assert_array_equal(dense.client_bits["up"], gathered.client_bits["up"])
    other = play(algorithm, Uniform(2), seed=6)
    assert (other.x != gathered.x).any()


@pytest.mark.parametrize(
    "compressor",
    [messages.ST(0.1), messages.TopK(k=4), messages.QSGD(4), messages.ScaledSign(), messages.Identity()],
)
def test_counted_bits_are_the_length_of_the_encoding(compressor):
    """Every message of every round is encoded, and decodes to what arrived."""
    algorithm = algorithms.EFL(compressor=compressor, down_compressor=compressor)
    up, down, before = [], [], []

    def look(t, old, new, clients):
        arrived = clients.sent_numpy()[0]
        encoded = [compressor.encode(m) for m in arrived]
        for code, message in zip(encoded, arrived, strict=True):
            assert (compressor.decode(code, D) == message).all()
        up.append(sum(code.bits for code in encoded))
        before.append([compressor.encode(m).bits for m in new.x - old.x] if t == 1 else None)
        down.append(np.array(new.missed_bits))

    run = play(algorithm, Full(), on_round=look)
    np.testing.assert_array_equal(run.metrics["bits_up"][1:].sum(axis=1), up)
    np.testing.assert_array_equal(down[0], np.repeat(np.array(before[0])[:, None], N, axis=1))
    np.testing.assert_array_equal(run.metrics["bits_down"][1], N * D * 64)  # round 1: the first model, dense
    np.testing.assert_array_equal(run.metrics["bits_down"][2], N * down[0][:, 0])


@pytest.mark.parametrize("method", ["efl", "fedavg"])
@pytest.mark.parametrize("sampling", [Uniform(2), Bernoulli(0.4), inactive(N, 2, 0.6)])
def test_who_was_away_gets_what_it_missed_or_a_dense_model(method, sampling):
    compressor = messages.TopK(k=6)  # about 440 bits, and a dense model is 2560: shorter for up to five rounds
    algorithm = (
        algorithms.EFL(compressor=compressor, down_compressor=compressor)
        if method == "efl"
        else algorithms.Compressed(algorithms.FedAvg(), up=compressor, down=compressor)
    )
    missed = [
        [None] * N for _ in range(SCENARIOS)
    ]  # message lengths since the client was last there; None: never there
    expected = np.zeros((SCENARIOS, N), dtype=np.int64)
    kinds = set()

    def look(t, old, new, clients):
        mask = clients.cohort.dense().mask
        for s in range(SCENARIOS):
            if not mask[s].any():
                continue
            for k in np.nonzero(mask[s])[0]:
                cost = D * 64 if missed[s][k] is None else min(sum(missed[s][k]), D * 64)
                kinds.add("first" if missed[s][k] is None else "dense" if cost == D * 64 else "messages")
                expected[s, k] += cost
                missed[s][k] = []
            message = new.x[s] - old.x[s]
            exact = np.where(np.abs(message) > 0, message, 0.0)
            bits = int(compressor.bits(exact)) if np.count_nonzero(exact) else int(compressor.bits(0 * exact))
            for k in range(N):
                if missed[s][k] is not None:
                    missed[s][k].append(bits)

    run = play(algorithm, sampling, LocalSGD(2, 0.1), rounds=40, on_round=look)
    np.testing.assert_array_equal(run.client_bits["down"], expected)
    assert kinds == {"first", "dense", "messages"}


def test_efl_counts_its_pairs_and_scheme_a_its_factor():
    solver = LocalSGD(2, 0.05)
    sampling = incomplete(N, 2, [0.3, 0.3, 0.4])
    sizes, complete_ = [], []

    def look(t, old, new, clients):
        sizes.append(clients.cohort.size())
        complete_.append((clients.cohort.steps == 2).sum(axis=1))

    run = play(algorithms.EFL(0.1, "A"), sampling, solver, on_round=look)
    sizes, complete_ = np.array(sizes), np.array(complete_)
    np.testing.assert_array_equal(
        run.metrics["bits_up"][1:], complete_ * 3 * D * 64
    )  # x, u, v of the complete ones only
    rounds_with_pairs = np.arange(ROUNDS)[:, None] > 0
    np.testing.assert_array_equal(run.metrics["bits_down"][1:], sizes * D * 64 * (1 + 2 * rounds_with_pairs))
    top = messages.TopK(k=3)
    plain, scheme_a = (play(algorithms.EFL(0, s, top), sampling, solver).metrics["bits_down"] for s in ("B", "A"))
    np.testing.assert_array_equal(scheme_a[1:] - plain[1:], sizes * 64)


def test_a_round_without_anybody_changes_nothing_and_costs_nothing():
    sampling, solver = inactive(N, 2, 0.75), LocalSGD(2, 0.1, batch_size=2)
    top = messages.TopK(k=3)
    for algorithm in (
        algorithms.EFL(0.1, compressor=top, down_compressor=top),
        algorithms.FedAvg(),
        algorithms.FedDyn(2.0),
        algorithms.Scaffold(),
    ):
        empty = []
        run = play(
            algorithm,
            sampling,
            solver,
            rounds=12,
            record=(*WAYS, "nonzeros", "entropy"),
            keep_states=True,
            on_round=lambda t, old, new, clients, seen=empty: seen.append(clients.cohort.size() == 0),
        )
        empty = np.array(empty)
        assert empty.any() and not empty.all()
        for t, s in np.argwhere(empty):
            for before, after in zip(run.states[t], run.states[t + 1], strict=True):
                assert before is None or (before[s] == after[s]).all()
            for name in ("bits_up", "bits_down", "nonzeros"):
                assert run.metrics[name][t + 1, s] == 0
        assert np.isfinite(run.x).all() and np.isfinite(run.metrics["entropy"]).all()
        assert (run.metrics["bits_up"][1:][~empty] > 0).all()


def test_divergence_is_seen_before_a_compressor_is_asked():
    algorithm = algorithms.EFL(compressor=messages.ST(0.2), down_compressor=messages.ST(0.2))
    with pytest.raises(Diverged, match=r"client [0-5] .*scenario 0"):
        play(algorithm, solver=GradientSteps(400, 50.0), rounds=3)


def test_messages_of_some_senders_only():
    cohort = Cohort(3, mask=np.array([[True, True, False]]))
    clients = Clients(
        problems.Quadratic(np.eye(2)[None].repeat(3, 0), np.zeros((3, 2))), cohort, None, np.zeros((1, 2))
    )
    message = np.array([[[1.0, 2.0], [3.0, 4.0], [np.inf, np.nan]]])
    got = clients.send(message, messages.Identity(), np.array([[False, True, False]]))
    np.testing.assert_array_equal(got, [[[0, 0], [3, 4], [0, 0]]])
    np.testing.assert_array_equal(clients.sent_numpy()[0], [[3, 4]])
    np.testing.assert_array_equal(clients.bits_up, [[0, int(messages.Identity().bits(np.array([3.0, 4.0]))), 0]])
    clients.send(message)
    np.testing.assert_array_equal(clients.sent_numpy()[1], [[1, 2], [3, 4]])


# --- error feedback -------------------------------------------------------------------------------
def test_fedavg_with_feedback_loses_nothing():
    """w + R^G + mean R^k = w_0 + sum of the mean updates, all clients there."""
    top = messages.TopK(k=4)
    algorithm = algorithms.Compressed(algorithms.FedAvg("cohort"), top, top)
    total = np.zeros((SCENARIOS, D))

    def look(t, old, new, clients):
        total[...] += (clients.results[0].y - old.x[:, None, :]).mean(axis=1)
        kept = new.x + new.server_residual + new.residuals.mean(axis=1)
        np.testing.assert_allclose(kept, total, rtol=0, atol=1e-14)

    play(algorithm, on_round=look)


def test_feedback_on_either_side_removes_that_sides_bias():
    """With steps that decay, top-k reaches the optimum with feedback; without the clients' it stays biased for ever."""
    rng = np.random.default_rng(9)
    problem = problems.LeastSquares(rng.normal(size=(4, 12, 8)) / 2, rng.normal(size=(4, 12)), ridge=0.5)
    top, solver = messages.TopK(k=1), LocalSGD(1, InverseTime(0.5, 20))

    def distance(up, down, feedback=True):
        algorithm = algorithms.FedAvg("cohort", "update")
        if up or down:
            algorithm = algorithms.Compressed(algorithm, up, down, feedback=feedback)
        return simulate(problem, algorithm, 800, local_solver=solver, record=("distance",)).metrics["distance"][
            [0, 100, 800], 0
        ]

    assert distance(None, None)[2] < 1e-9
    for down in (None, top):
        kept, lost = distance(top, down), distance(top, down, "down" if down else False)
        assert kept[2] < kept[1] / 5  # it goes with the step, which falls by 41/6
        assert lost[2] > 0.99 * lost[1] and lost[2] > 30 * kept[2]
    assert distance(None, top)[2] < 1e-9  # the server's residual is of one direction only, and dies out
    assert distance(None, top, False)[2] > 1e-3
    assert distance(top, top, "up")[2] > 10 * distance(top, top)[2]


def test_models_can_be_sent_compressed_without_feedback():
    rounding = messages.StochasticRounding(0.01)
    run = play(algorithms.Compressed(algorithms.FedAvg("cohort"), rounding, feedback=False, of="model"), record=("distance", "bits_up"))
    exact = play(algorithms.FedAvg("cohort", "model"), record=("distance",))
    assert 0 < np.abs(run.x - exact.x).max() < 0.02 * ROUNDS
    with pytest.raises(InvalidInput, match="of='update'"):
        algorithms.Compressed(algorithms.FedAvg(), rounding, of="model")
    with pytest.raises(InvalidInput, match=r"fedtheory\.messages"):
        algorithms.Compressed(algorithms.FedAvg(), "top-k")
    with pytest.raises(InvalidInput):
        play(algorithms.Compressed(algorithms.FedAvg(), messages.TopK(k=D + 1)))


def test_solvers_by_schedule_have_steps_too():
    """A solver that walks, and knows nothing of E, takes part in plain samplings as complete."""
    solver = SubgradientSteps(2, Schedule("constant", 0.1))
    a, b = (
        play(algorithm, Uniform(2), solver).x for algorithm in (algorithms.EFL(scheme="A"), algorithms.FedAvg("cohort"))
    )
    np.testing.assert_allclose(a, b, rtol=1e-12)
