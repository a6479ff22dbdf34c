"""Methods that ask clients for something at their start, or have a round 1 of its own."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction as F
from typing import Any, NamedTuple

import numpy as np
import pytest

from fedtheory.algorithms.base import Algorithm, per_client
from fedtheory.errors import MissingCapability, NotCertified
from fedtheory.local import GradientSteps as OwnSteps
from fedtheory.local.objective import LocalObjective
from fedtheory.theory import (
    Full,
    GradientSteps,
    Paper,
    SmoothConvex,
    StronglyConvex,
    form,
    le,
    potential,
)
from fedtheory.theory.rounds.vector_proofs import proved
from fedtheory.worst_cases import quadratic_potential, worst_case


class State(NamedTuple):
    x: Any
    kept: Any = None


class Controls(NamedTuple):
    x: Any
    c_k: Any
    c: Any


@dataclass(frozen=True)
class Ahead(Algorithm):
    """The gradient at x_0 is asked for at the start, and in round 1 another comes first."""

    name = "ahead"
    again: bool = False

    def init(self, x, num_clients):
        return State(x, 0 * x)

    def begin(self, x, num_clients, everybody):
        first = everybody()
        g = first.mean(first.gradient(first.broadcast(x)))
        if self.again:
            second = everybody()
            g = second.mean(second.gradient(second.broadcast(x - F(3, 2) * g)))
        return State(x, g)

    def round(self, state, clients):
        at = state.x - F(3, 2) * state.kept
        g = clients.mean(clients.gradient(clients.broadcast(at)))
        return State(state.x - F(3, 2) * g, g)


@dataclass(frozen=True)
class Apart(Algorithm):
    """c stays as far from the mean of c_k as its start is."""

    name = "apart"

    def init(self, x, num_clients):
        return Controls(x, per_client(x, num_clients), 0 * x)

    def begin(self, x, num_clients, everybody):
        clients = everybody()
        g = clients.gradient(clients.broadcast(x))
        return Controls(x, 0 * g, clients.mean(g))

    def round(self, state, clients):
        g = clients.gradient(clients.broadcast(state.x))
        turn = clients.mean(g - state.c_k)
        return Controls(state.x - F(1, 2) * (turn + state.c), g, state.c + turn)


@dataclass(frozen=True)
class Turns(Algorithm):
    """It climbs from round 2 on."""

    name = "turns"
    counts: bool = False

    def init(self, x, num_clients):
        return State(x, np.zeros((1, 1)) if self.counts else None)

    def round(self, state, clients):
        g = clients.mean(clients.gradient(clients.broadcast(state.x)))
        first = state.kept[0, 0] == 0 if self.counts else state.kept is None
        kept = state.kept + 1 if self.counts else state.x
        return State(state.x - F(1 if first else -1, 2) * g, kept)


@dataclass(frozen=True)
class Many(Algorithm):
    """c is the mean of c_k at the start for two clients, or in two dimensions, alone."""

    name = "many"
    of: str = "N"

    def init(self, x, num_clients):
        return Controls(x, per_client(x, num_clients), 0 * x)

    def begin(self, x, num_clients, everybody):
        clients = everybody()
        g = clients.gradient(clients.broadcast(x))
        count = {"N": num_clients - 1, "d": x.shape[-1] - 1, "": 1}[self.of]
        return Controls(x, g, clients.mean(g) * count)

    def round(self, state, clients):
        g = clients.gradient(clients.broadcast(state.x))
        turn = clients.mean(g - state.c_k)
        return Controls(state.x - F(1, 10) * (turn + state.c), g, state.c + turn)


@dataclass(frozen=True)
class Decays(Algorithm):
    """Its steps are smaller in every round."""

    name = "decays"
    decay: float = 1.0

    def init(self, x, num_clients):
        return State(x)

    def round(self, state, clients):
        x, steps = clients.broadcast(state.x), OwnSteps(1, 0.5, decay=self.decay)
        return State(clients.mean(clients.minimise(LocalObjective(center=x), x, steps).y))


@dataclass(frozen=True)
class Crowds(Algorithm):
    """Its steps are too large for more than 30 clients."""

    name = "crowds"
    of: str = "rows"

    def init(self, x, num_clients):
        return State(x)

    def round(self, state, clients):
        g = clients.gradient(clients.broadcast(state.x))
        n = g.shape[1] if self.of == "rows" else clients.cohort.num_clients
        return State(state.x - F(1, 2) * max(1, n - 30) * clients.mean(g))


@dataclass(frozen=True)
class Difference(Algorithm):
    """Any two vectors of each client are not equal because they have one name."""

    name = "difference"

    def init(self, x, num_clients):
        return State(x, 0 * x)

    def begin(self, x, num_clients, everybody):
        clients = everybody()
        c, other = (clients.any_near_the_optimum("c", 1) for _ in range(2))
        return State(x, clients.mean(c - other))

    def round(self, state, clients):
        return State(state.x - state.kept, state.kept)


@pytest.mark.parametrize("again", [False, True])
def test_gradients_at_the_start_are_others_than_those_of_round_1(again):
    """From x = 1 on x^2/2 it ends at 1 - 3/2 (1 - 3/2 g), g being what is kept."""
    kept = -F(1, 2) if again else 1
    end = 1 - F(3, 2) * (1 - F(3, 2) * kept)
    found = worst_case(Ahead, rounds=1, again=again, heterogeneity=0, criterion="distance")
    assert found.bound >= end**2


def test_a_potential_is_one_of_the_states_that_the_start_leads_to():
    with pytest.raises(NotCertified):
        quadratic_potential(Apart)


@pytest.mark.parametrize("counts", [False, True])
def test_a_potential_of_round_1_is_none_of_other_rounds(counts):
    with pytest.raises(MissingCapability, match="a round changes kept"):
        quadratic_potential(Turns, counts=counts)


def test_bits_that_are_counted_move_nothing():
    assert quadratic_potential("fedavg", contraction_down=F(1, 2), step=F(1, 4)).rho < 1


def test_what_is_none_at_the_start_may_be_kept_afterwards():
    paper = Paper("turns", title="Turns", source="Of the tests")

    @paper.statement(
        "falls", about=Turns(), local=GradientSteps(1, lr=lambda c: 1 / c.beta), sampling=Full(),
        problems=SmoothConvex(clients=(1, 3), dimension=(1, 2)), over="round",
    )  # fmt: skip
    def falls(q):
        """It is false of the second round."""
        yield form("one", le(q.distance_sq_next, q.distance_sq))
        yield form("every", potential(q, lambda s: s.distance_sq, D=lambda s: 0 * s.gap))

    for name in ("one", "every"):
        with pytest.raises(NotCertified):
            proved(falls, name)


def test_a_local_solver_whose_steps_decay_asks_which_round_it_is():
    assert quadratic_potential(Decays, decay=1).rho < 1
    with pytest.raises(MissingCapability, match="asks which round it is"):
        quadratic_potential(Decays, decay=0.25)
    paper = Paper("decays", title="Decays", source="Of the tests")

    @paper.statement(
        "falls", about=Decays(0.25), sampling=Full(),
        local=GradientSteps(1, lr=lambda c: 1 / c.beta),
        problems=StronglyConvex(clients=2, dimension=(1, 2), mu=F(1, 2)), over="round",
    )  # fmt: skip
    def falls(q):
        """It is true of round 1."""
        noise = q.over_clients(q.sq(q.gradients(q.x_star)))
        yield form("V", potential(q, lambda s: s.distance_sq, rho=F(9, 10), noise=noise))

    with pytest.raises(NotCertified):
        proved(falls, "V")


@pytest.mark.parametrize(("of", "most"), [("rows", 40), ("cohort", 4)])
def test_what_is_false_of_many_clients_is_not_claimed_of_any_number(of, most):
    paper = Paper("crowds", title="Crowds", source="Of the tests")

    @paper.statement(
        "falls", about=Crowds(of), local=GradientSteps(1, lr=lambda c: 1 / c.beta), sampling=Full(),
        problems=SmoothConvex(clients=(2, most), dimension=(1, 2)), over="round",
    )  # fmt: skip
    def falls(q):
        """It is true of few clients."""
        yield form("one", le(q.distance_sq_next, q.distance_sq))

    assert "2, 3 or 5 clients" in proved(falls, "one").words


@pytest.mark.parametrize("of", ["N", "d", ""])
def test_a_potential_is_followed_where_every_number_of_clients_starts_so(of):
    paper = Paper("many", title="Many", source="Of the tests")

    @paper.statement(
        "lowers", about=Many(of), local=GradientSteps(1, lr=lambda c: 1 / c.beta), sampling=Full(),
        problems=SmoothConvex(clients=(2, 4), dimension=(1, 2)), over="round",
        states={"c_k": "N d", "c": lambda s: s["c_k"].mean(axis=-2)},
    )  # fmt: skip
    def lowers(q):
        """It is true of the round."""
        yield form("V", potential(q, lambda s: s.distance_sq, D=lambda s: s.gap / 50))

    found = proved(lowers, "V")
    assert "any number of clients" in found.words
    why = "one round, and not every number of rounds: "
    why += "c at the start is not what the statement says of it"
    assert (found.follows == why) == bool(of)
    assert found.follows.startswith("for every number of rounds T") != bool(of)


def test_vectors_of_one_name_are_asked_for_once():
    with pytest.raises(MissingCapability, match="those of one name are the same vectors"):
        worst_case(Difference, rounds=1)
