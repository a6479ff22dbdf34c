"""Messages in pieces, with compiled loops and without: the same numbers to the last bit as all at once."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from fedtheory import Bernoulli, Full, Uniform, algorithms, messages, problems, simulate
from fedtheory.algorithms.feedback import upload
from fedtheory.arrays import memory_of
from fedtheory.clients import pieces
from fedtheory.clients.clients import Clients
from fedtheory.clients.pieces import Moved, weighted_sum
from fedtheory.errors import Diverged, InvalidInput
from fedtheory.local import LocalSGD, local_sgd
from fedtheory.participation.cohorts import Cohort
from fedtheory.participation.irregular import incomplete

N, S, D = 5, 4, 24
SIZES = {"whole": (2**30, 2**30), "pieces": (60, 2**30), "compiled": (60, 0)}  # numbers of a piece, and from which loops are compiled


@pytest.fixture
def cut(monkeypatch):
    def to(name):
        monkeypatch.setattr(pieces, "IN_CACHE", SIZES[name][0])
        for module in (pieces, local_sgd):
            monkeypatch.setattr(module, "COMPILED", SIZES[name][1])
        monkeypatch.setattr(local_sgd, "FEW", 0 if name == "compiled" else 2**30 if name == "whole" else 8)

    return to


def problem():
    rng = np.random.default_rng(2)
    return problems.LeastSquares(rng.standard_normal((N, 7, D)), rng.standard_normal((N, 7)))


def everything(run):
    arrays = [*run.metrics.values(), *run.client_bits.values(), *run.final, *(a for s in run.states or [] for a in s)]
    return [None if a is None else np.asarray(a) for a in arrays]


def assert_same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert (a is None and b is None) or (a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


COMPRESSORS = [
    messages.ST(0.1), messages.ST(0.1, "printed"), messages.ST(0.1, float_bits=32), messages.TopK(k=2), messages.QSGD(3),
    messages.RandomK(k=3), messages.Identity(), messages.Threshold(0.05),
]  # fmt: skip
LAWS = {"irregular": incomplete(N, 3, [0.25] * 4), "all": Full(), "two": Uniform(2), "some": Bernoulli(0.6)}
METHODS = {
    "consistent": lambda c: algorithms.EFL(compressor=c, down_compressor=c),
    "A": lambda c: algorithms.EFL(scheme="A", compressor=c),
    "no feedback": lambda c: algorithms.EFL(compressor=c, client_feedback=False),
    "after": lambda c: algorithms.EFL(compressor=c, scale="after"),
    "FedAvg": lambda c: algorithms.Compressed(algorithms.FedAvg("samples"), c),
    "Scaffold": lambda c: algorithms.Compressed(algorithms.Scaffold(), c),
}


OPTIONS = ({}, {"keep_states": True}, {"like": np.zeros(1, dtype=np.float32)})


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("method", METHODS)
def test_runs_are_the_same_in_pieces(method, law, cut):
    first = [*LAWS].index(law) + [*METHODS].index(method)
    for n, compressor in enumerate(COMPRESSORS, first):  # each with all options, over the laws and over the methods
        runs = {}
        for name in SIZES:
            cut(name)
            run = simulate(
                problem(), METHODS[method](compressor), 3, sampling=LAWS[law], local_solver=LocalSGD(3, 0.1), scenarios=S, seed=3,
                record=("bits_up", "bits_down", "nonzeros", "drift"), client_bits=True, **OPTIONS[n % 3],
            )  # fmt: skip
            runs[name] = everything(run)
        assert_same(runs["pieces"], runs["whole"])
        assert_same(runs["compiled"], runs["whole"])


def some_clients(in_place=False, mask=None):
    mask = np.ones((S, N), dtype=bool) if mask is None else mask
    return Clients(problem(), Cohort(N, mask=mask), LocalSGD(1, 0.1), np.zeros((S, D)), in_place=in_place)


@pytest.mark.parametrize("size", ["pieces", "compiled"])
def test_residuals_are_overwritten_only_where_they_may_be(size, cut):
    cut(size)
    rng = np.random.default_rng(0)
    kept, update = rng.standard_normal((S, N, D)), rng.standard_normal((S, N, D))
    for in_place in (False, True):
        memory = kept.copy()
        arrived, residuals = upload(some_clients(in_place), update, messages.TopK(k=2), memory)
        assert (residuals is memory) == in_place and (in_place or (memory == kept).all())
        assert (residuals == kept + update - arrived).all()


def test_a_large_update_is_not_made_as_a_whole(cut):
    made = []

    class Watched(np.ndarray):
        def __getitem__(self, at):
            made.append(at)
            return np.asarray(self)[at]

    cut("pieces")
    y = np.ones((S, N, D))
    upload(some_clients(), Moved(y.view(Watched), np.zeros((S, 1, D)).repeat(N, 1)), messages.TopK(k=2), 0 * y)
    assert len(made) == 10 and all(len(at[0]) == 2 for at in made)


@pytest.mark.parametrize("size", SIZES)
def test_what_cannot_be_sent_is_named_by_its_place(size, cut):
    cut(size)
    update, mask = np.ones((S, N, D)), np.ones((S, N), dtype=bool)
    mask[2, 1] = False
    update[2, 1, 0], update[2, 4, 5], update[3, 0, 0] = np.nan, np.inf, np.nan
    for clients in (some_clients(), some_clients(mask=mask)):
        with pytest.raises(Diverged, match="client 4" if clients.cohort.mask[2, 1] == 0 else "client 1"):
            upload(clients, update, messages.TopK(k=2), np.zeros((S, N, D)))
    update[2, 1, 0], update[2, 4, 5], update[3, 0, 0] = 1.0, 1e39, 1e39
    for compressor in (messages.TopK(k=2, float_bits=32), messages.ST(0.1, float_bits=32)):
        with pytest.raises(InvalidInput, match=r"entry \(2, 4, 5\) of the message is 1e\+39, above 3.403e\+38"):
            upload(some_clients(), update, compressor, np.zeros((S, N, D)))


def test_a_compressor_need_not_say_which_few_entries_it_sends(cut):
    class Own:
        randomised = False

        def compress(self, x, uniforms=None):
            return np.round(x)

        def bits(self, message):
            return np.full(message.shape[:-1], 7)

    cut("pieces")
    arrived = some_clients().send(np.full((S, N, D), 1.7), Own())
    assert (arrived == 2).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dim", [1, 2, 5, 33])
def test_sums_add_one_message_after_the_other(size, dim, cut):
    cut(size)
    rng = np.random.default_rng(dim)
    for shape in ((1, 40), (30, 40), (40, 1)):
        mask = rng.random(shape) < 0.8
        clients = Clients(problem(), Cohort(shape[1], mask=mask, steps=mask * 1, max_steps=1), LocalSGD(1, 0.1), np.zeros((1, dim)))
        values, weights = rng.standard_normal((*shape, dim)), rng.random((*shape, 1))
        values[rng.random(values.shape) < 0.3] = -0.0
        transposed = np.ascontiguousarray(values.swapaxes(0, 1)).swapaxes(0, 1)
        for given in (None, weights):
            product = values if given is None else given * values
            wanted = np.where(mask[:, :, None], product, 0.0).sum(axis=1)
            outside = np.where(mask[:, :, None], values, np.inf)
            assert clients.sum(outside, given).tobytes() == clients.sum(values, given).tobytes() == wanted.tobytes()
            if dim > 1:
                assert clients.sum(transposed, given).tobytes() == wanted.tobytes()
                assert weighted_sum(values, given, mask).tobytes() == wanted.tobytes()


def test_where_messages_lie():
    values = np.arange(24.0).reshape(2, 3, 4)
    for view in (values, values.swapaxes(0, 1), values[:, 1:], np.broadcast_to(values[:, :1], (2, 3, 4))):
        lie = memory_of(view)
        for s, k in np.ndindex(*view.shape[:2]):
            (begin,) = lie.begin(np.array([s]), np.array([k]))
            assert lie.numbers[begin : begin + 4].tolist() == view[s, k].tolist()
    single = np.broadcast_to(values[:, :, :1].copy(), (2, 3, 1))  # of which NumPy says that the next number is where this one is
    assert single.strides[2] == 0 and memory_of(single).numbers.tolist() == values[:, :, 0].ravel().tolist()
    for view in (values[::-1], values[..., ::2], values.astype(np.float32), values[:0], values[0]):
        assert memory_of(view) is None


def test_a_round_holds_residuals_local_models_and_messages():
    """No fourth array (S, N, d): what is made between them is made in pieces."""
    rng = np.random.default_rng(1)
    many = problems.LeastSquares(rng.standard_normal((40, 5, 1000)), rng.standard_normal((40, 5)))
    method, law = algorithms.EFL(compressor=messages.ST(0.01), down_compressor=messages.ST(0.01)), incomplete(40, 2, [0.2, 0.4, 0.4])
    run = dict(sampling=law, local_solver=LocalSGD(2, 0.1), scenarios=64, chunk=64, record=("bits",))
    simulate(many, method, 1, **run)  # whatever is loaded once
    tracemalloc.start()
    simulate(many, method, 2, **run)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 3.8 * 8 * 64 * 40 * 1000
