"""Second moments read off a method's own round, against the tree of all that may happen to it."""

from __future__ import annotations

from fractions import Fraction as Q
from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from fedtheory.algorithms import EFL, Compressed, FedAvg, FedDyn, FedProx
from fedtheory.errors import MissingCapability
from fedtheory.local.objective import LocalObjective, LocalResult
from fedtheory.messages import Threshold
from fedtheory.participation.cohorts import Cohort
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.rational_clients import SlotClients, SlotWork
from fedtheory.theory.rounds.second_moments import QuadraticOracles, second_moments

ETAS = [Q(1, 3), Q(1, 4)]


def fractions(rows):
    return np.vectorize(Q, otypes=[object])(np.array(rows, dtype=object))


H, C = (
    fractions([["3/7", "5/3"], ["5/2", "6/5"], ["1", "2/3"]]),
    fractions([["3/2", "-2/3"], ["-5/4", "7/3"], ["1/3", "2"]]),
)
NOISE = fractions([["1/2", "2/3"], ["3/5", "1/3"], ["1/4", "1"]])
W, X0 = fractions(["3/8", "1/8", "1/2"]), fractions(["1/9", "-1/7"])
LAWS = [
    fractions([["1/4", "1/4", "1/2"], ["0", "1/3", "2/3"], ["1/6", "1/2", "1/3"]]),
    fractions([["1/5", "0", "4/5"]] * 3),
]


def oracles(signs, common=False):
    """The quadratics, whose gradients are pushed by +-noise in each step."""
    b = np.stack([H * C + s * NOISE for s in signs], axis=1)
    Hs = np.zeros((3, len(signs), 2, 2), dtype=object) + Q(0)
    Hs[..., range(2), range(2)] = H[:, None]
    q = np.full((3, len(signs)), Q(1, len(signs)), dtype=object)
    return QuadraticOracles(Hs, b, q, W, np.full(3, Q(0), dtype=object), common=common)


class Pushed(SlotWork):
    """Gradient steps of which the first s_k count, each pushed by the signs of its path times the noise."""

    def __init__(self, eta, steps, signs):
        super().__init__(steps.shape[1], eta)
        self.__dict__.update(counted=steps, signs=signs)

    def run(self, pieces, objective, start):
        y = start
        for i in range(self.signs.shape[-1]):
            g = H * (y - C) - self.signs[:, :, i, None] * NOISE
            y = np.where((i < self.counted)[:, :, None], y - self.lr * g, y)
        return LocalResult(y)


def tree(method, signs, common=False, rounds=2):
    """E||x_t - x*||^2 of the method's own rounds, over all (s_1, s_2, s_3) and signs of steps."""
    star = (W[:, None] * H * C).sum(axis=0) / (W[:, None] * H).sum(axis=0)
    x, mass, out = X0[None], np.array([Q(1)], dtype=object), [((X0 - star) ** 2).sum()]
    paths = [np.reshape(p, (-1, 2)) for p in product(signs, repeat=2 if common else 6)]
    paths = np.array([np.repeat(p, 3, axis=0) if common else p for p in paths])
    for law, eta in zip(LAWS[:rounds], ETAS):
        cases = [
            s for s in product(range(3), repeat=3) if np.prod([law[k, v] for k, v in enumerate(s)])
        ]
        after = []
        for s in cases:
            steps = np.tile(s, (len(x) * len(paths), 1))
            cohort = Cohort(
                3, mask=steps > 0, steps=steps, max_steps=2, active_probability=1 - law[:, 0]
            )
            begun = np.repeat(x, len(paths), axis=0)
            work = Pushed(eta, steps, np.tile(paths, (len(x), 1, 1)))
            clients = SlotClients(SimpleNamespace(weights=W, pieces=None), cohort, work, begun)
            after.append(method.round(method.init(begun, 3), clients).x)
        chances = [np.prod([law[k, v] for k, v in enumerate(s)]) * Q(1, len(paths)) for s in cases]
        mass = np.concatenate([np.repeat(mass, len(paths)) * chance for chance in chances])
        x = np.concatenate(after)
        out.append((mass * ((x - star) ** 2).sum(axis=1)).sum())
        kept = {}
        for point, weight in zip(map(tuple, x), mass):
            kept[point] = kept.get(point, 0) + weight
        x, mass = np.array(list(kept), dtype=object), np.array(list(kept.values()), dtype=object)
    return out


METHODS = [EFL(scheme="A"), EFL(scheme="B"), EFL(scheme="C"), EFL(scheme="C-corrected")]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.scheme)
def test_the_recursion_is_the_tree_of_the_real_method(method):
    found = second_moments(oracles([0]), [RoundLaw(method, law, W) for law in LAWS], ETAS, X0)
    assert list(found.distance_sq) == tree(method, [0])


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.scheme)
def test_common_signs_push_all_clients_at_once(method):
    found = second_moments(
        oracles([1, -1], True), [RoundLaw(method, law, W) for law in LAWS], ETAS, X0
    )
    assert list(found.distance_sq) == tree(method, [1, -1], True)


def test_signs_of_their_own_push_each_client_by_itself():
    found = second_moments(oracles([1, -1]), [RoundLaw(METHODS[0], LAWS[0], W)], ETAS[:1], X0)
    assert found.distance_sq[1] == tree(METHODS[0], [1, -1], rounds=1)[1]


def test_a_mean_over_those_who_take_part():
    """FedAvg with two clients of which the second is there half of the time: p = (1/2, 1/2) or (1, 0)."""
    half = fractions(["1/2", "1/2"])
    law = RoundLaw(FedAvg(aggregation="cohort"), fractions([["0", "1"], ["1/2", "1/2"]]), half)
    first, second = law.single
    assert first.tolist() == [[0, Q(3, 4)], [0, Q(1, 4)]] and second.tolist() == [
        [0, Q(5, 8)],
        [0, Q(1, 8)],
    ]
    assert law.pairs[0, 1, 1, 1] == Q(1, 8) == law.joint[1, 1, 0, 1]


class State(NamedTuple):
    x: object


class Method:
    """The server of a test, made of clients' models y (S, N, d), those who take part (S, N, 1), and x (S, d)."""

    def __init__(self, server):
        self.server = server

    def init(self, x, num_clients):
        return State(x)

    def round(self, state, clients):
        start = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=start), start).y
        here = clients.cohort.mask[:, :, None].astype(int)
        return State(self.server(state.x, start + here * (y - start), here))


def last_wins(x, y, here):
    """The model of the last client that takes part."""
    at = here.shape[1] - 1 - np.argmax(here[:, ::-1, 0], axis=1)
    return np.where(here.any(axis=1), y[np.arange(len(y)), at], x)


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (FedProx(mu=1), "its clients work on more than their losses"),
        (FedDyn(alpha=1), "keeps more than the server's model"),
        (Method(lambda x, y, here: y.max(axis=1)), "does not add up local models"),
        (Method(lambda x, y, here: y.mean(axis=1) / 2), "does not add up local models"),
        (
            Method(lambda x, y, here: y.sum(axis=2, keepdims=True).mean(axis=1) + 0 * x),
            "does not add up local models",
        ),
        # what is tried passes a small threshold, as sums do
        (Compressed(FedAvg(), Threshold(Q(1, 99)), feedback=False), "its messages are compressed"),
        (EFL(compressor=Threshold(Q(1, 99)), client_feedback=False), "its messages are compressed"),
        (EFL(down_compressor=Threshold(Q(1, 99)), server_feedback=False), "its messages are compressed|keeps more"),
        (Method(last_wins), "who else takes part, not only on how many"),
    ],
)
def test_a_round_of_another_kind_is_refused(method, reason):
    with pytest.raises(MissingCapability, match=reason):
        _ = RoundLaw(method, LAWS[0], W).single
