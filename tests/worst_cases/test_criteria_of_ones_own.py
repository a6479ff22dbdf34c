"""Criteria that anyone writes: with everybody and with cohorts, as PEPit has them, and what is refused with what there is."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations, pairwise

import numpy as np
import pytest
from pepit_at_hand import average, programme, same, solved

from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability, NotCertified
from fedtheory.worst_cases import certificate, verify, worst_case, worst_function


def weighted(q):
    """The gap at the average with weights t + 1."""
    weights = [t + 1 for t in range(len(q.x))]
    return q.gap(sum(w * x for w, x in zip(weights, q.x, strict=True)) / sum(weights))


def mean_gradient(q):
    return np.mean([q.gradient_sq(x) for x in q.x[:-1]], axis=0)


def less_distance(q):
    return q.gap(np.mean(q.x[1:], axis=0)) - F(1, 10) * q.distance_sq(q.x[-1])


def moves(q):
    return sum(q.sq(y - x) for x, y in zip(q.x[:-1], q.x[1:], strict=True))


OWN = {of.__name__: of for of in (weighted, mean_gradient, less_distance, moves)}
CROWDS = {"everybody": (2, 2), "one of two": (2, 1), "two of three": (3, 2)}


def by_pepit(name, clients, participants, rounds, h):
    """The expectation over every sequence of cohorts of one gradient step each."""
    pep, losses, F_, star, start = programme(clients)
    level = [[start]]
    for _ in range(rounds):
        cohorts = [*combinations(losses, participants)]
        level = [[*x, x[-1] - h * average([f.gradient(x[-1]) for f in c])] for x in level for c in cohorts]

    def of(x):
        if name == "weighted":
            return F_(average([y for t, y in enumerate(x) for _ in range(t + 1)]))
        if name == "mean_gradient":
            return average([F_.gradient(y) ** 2 for y in x[:-1]])
        if name == "less_distance":
            return F_(average(x[1:])) - (x[-1] - star) ** 2 / 10
        return average([(b - a) ** 2 for a, b in pairwise(x)]) * (len(x) - 1)

    least = F_(star) if name in ("weighted", "less_distance") else 0
    pep.set_performance_metric(average([of(x) for x in level]) - least)
    return solved(pep)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("crowd", CROWDS)
def test_pepit_has_the_value_of_an_own_criterion(name, crowd):
    clients, participants = CROWDS[crowd]
    of = {"clients": clients, "participants": participants, "rounds": 2, "step": F(1, 2)}
    found = worst_case("fedavg", criterion=OWN[name], **of)
    same(found, by_pepit(name, clients, participants, 2, 0.5))
    verify(certificate(found), criterion=OWN[name])
    assert worst_function(found).measured() == pytest.approx(found.best, rel=1e-4)
    other = OWN["moves" if name == "weighted" else "weighted"]
    with pytest.raises((NotCertified, InvalidInput)):
        verify(certificate(found), criterion=other)


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("fedavg", {"clients": 3, "participants": 1, "rounds": 2, "step": F(1, 2)}),
        ("fedprox", {"clients": 3, "participants": 2, "mu": 1}),
        ("scaffold", {"clients": 2, "participants": 1, "rounds": 2, "local_steps": 2, "step": F(1, 4)}),
    ],
)
def test_a_named_criterion_of_cohorts_is_the_same_in_one_s_own_words(method, given):
    own = {
        "gap": lambda q: q.gap(q.x[-1]), "gradient": lambda q: q.gradient_sq(q.x[-1]),
        "distance": lambda q: q.distance_sq(q.x[-1]),
    }  # fmt: skip
    for name, of in own.items():
        named, mine = (worst_case(method, criterion=c, **given) for c in (name, of))
        assert mine.best == pytest.approx(named.best, rel=1e-8)


class Counting:
    """Another criterion from call to call."""

    calls = 0

    def __call__(self, q):
        self.calls += 1
        return self.calls * q.gap(q.x[-1])


@pytest.mark.parametrize(
    ("criterion", "told"),
    [
        (lambda q: min(q.gap(x) for x in q.x), "of the least gap take --criterion best-gap"),
        (lambda q: q.gap(q.x[-1]) ** F(1, 2), "sums and multiples of"),
        (lambda q: abs(q.gap(q.x[-1])), "return such as"),
        (lambda q: q.drift[-1], "there is no q.drift.*in a theorem"),
        (lambda q: q.over_clients(q.sq(q.client_models[-1])), "there is no q.over_clients"),
        (lambda q: q.gap[-1], "not subscriptable"),
        (lambda q: q.x[9], "out of range"),
        (lambda q: q.sq(q.x[-1]), "take their differences"),
        (lambda q: 1, "return such as"),
    ],
)
def test_what_is_refused_is_told_with_what_there_is(criterion, told):
    for crowd in ({}, {"clients": 2, "participants": 1}):
        with pytest.raises((MissingCapability, InvalidInput), match=told) as error:
            worst_case("fedavg", rounds=2, step=F(1, 2), criterion=criterion, **crowd)
        assert isinstance(error.value, FedTheoryError) and "criterion" in str(error.value)


def test_a_criterion_that_differs_from_call_to_call_is_refused():
    with pytest.raises(MissingCapability, match="differs from call to call"):
        worst_case("fedavg", rounds=2, step=F(1, 2), criterion=Counting(), clients=2, participants=1)
