"""Arrays of few rows stand for many clients in a proof, but where a method or a side counts the rows."""

from __future__ import annotations

from fractions import Fraction as F
from typing import ClassVar

import numpy as np
import pytest
from statements_at_hand import sentence

from fedtheory.algorithms import FedAvg, Scaffold
from fedtheory.errors import MissingCapability, NotCertified
from fedtheory.local import LocalObjective
from fedtheory.theory import GradientSteps, SmoothConvex, Uniform, form, le, potential
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.proof_scopes import scope_of, scopes
from fedtheory.theory.rounds.vector_forms import families, view_of
from fedtheory.theory.rounds.vector_proofs import best_constant, proved
from fedtheory.theory.rounds.vector_worlds import FEW

STEP = GradientSteps(1, lr=lambda c: F(1, 2) / c.beta)


class Rowwise(FedAvg):
    """The mean of the local models by a sum over the rows of an array."""

    name = "rowwise"
    rows = staticmethod(lambda y, clients: y.shape[1])

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        return state._replace(x=state.x + (y - x).sum(axis=1) / self.rows(y, clients))


class Divided(Rowwise):
    """The same, of so many clients as there are said to be."""

    rows = staticmethod(lambda y, clients: clients.size[0, 0])


class FewRows(Rowwise):
    """The same, right for `FEW` clients alone."""

    rows = staticmethod(lambda y, clients: FEW)


def stated(gap, N=12, P=None, about=None, **more):
    """0 <= gap of N clients, of which P are drawn."""
    sampling = {} if P is None else {"sampling": Uniform(P)}
    declared = {"about": about or FedAvg(), "local": STEP, "problems": SmoothConvex(N, (1, 2)), **sampling}
    return sentence(lambda q: iter([form("f", le(0, gap(q)))]), **declared | more)


def falls(q):
    return q.distance_sq + q.heterogeneity / q.beta**2 - q.distance_sq_next


def sums(v):
    return v.sum(axis=-2)


SIDES = {  # name -> (the right side, whether few rows are enough)
    "over_clients": (lambda q: q.over_clients(q.sq(q.client_gradients)) - q.gradient_sq, True),
    "mean": (lambda q: q.over_clients(q.sq(q.client_gradients)) - q.sq(q.client_gradients.mean(axis=-2)), True),
    "weights": (lambda q: (q.weights * q.sq(q.client_gradients)).sum(axis=-1) - q.gradient_sq, True),
    "N": (lambda q: q.N * q.beta * q.gap - 6 * q.gradient_sq, True),
    "values": (lambda q: q.over_clients(q.values(q.x) - q.values(q.x_star)), True),
    "sum/N": (lambda q: q.over_clients(q.sq(q.client_gradients)) - q.sq(sums(q.client_gradients)) / q.N**2, False),
    "weights N": (lambda q: q.gradient_sq - q.sq((q.N * q.weights[:, None] * q.client_gradients).mean(axis=-2)), False),
    "rows": (lambda q: q.client_gradients.shape[-2] * q.beta * q.gap - 6 * q.gradient_sq, False),
}


@pytest.mark.parametrize("P", [None, 1, 3, 11])
@pytest.mark.parametrize("name", SIDES)
def test_what_does_not_count_rows_is_proved_with_few(name, P):
    """Inequalities of few rows are those of all, and the others are proved with all rows."""
    gap, few = SIDES[name]
    statement = stated(gap, P=P)
    setting = MethodSetting.of(statement)
    short, full = (of[0] for of in scopes(setting)[:2])
    if P and name == "rows":  # of cohorts one stands for all, whatever its length
        with pytest.raises(MissingCapability, match="asks for the shape"):
            view_of(setting, *short)
        return
    views = [view_of(setting, *case) for case in (short, full)]
    assert [view.world.num_clients for view in views] == [FEW, 12]
    here, there = ([f.start for f in families(statement, view, "f")] for view in views)
    assert (here == there) is few
    if not few:
        with pytest.raises(MissingCapability, match="counts the rows"):
            scope_of(statement, "f", [short])
    found = proved(statement, "f")
    assert [family.start for family, _ in found.parts] == there
    assert f"{P or 12}{' of 12' if P else ''} clients" in found.words


@pytest.mark.parametrize("N", [12, 300])
@pytest.mark.parametrize(("P", "about"), [(None, Rowwise()), (None, Divided()), (3, Rowwise()), (3, Divided())])
def test_methods_that_sum_rows_are_proved_as_they_are(N, P, about):
    assert proved(stated(falls, N, P, about), "f")


@pytest.mark.parametrize("N", [12, 300])
@pytest.mark.parametrize(
    ("gap", "about"),
    [
        (lambda q: 2 * q.beta * q.gap - q.sq(sums(q.client_gradients)) / FEW**2, FedAvg()),
        (lambda q: 2 * q.beta * q.gap - q.sq(q.client_gradients[..., :FEW, :].sum(axis=-2)) / FEW**2, FedAvg()),
        (lambda q: (FEW + 1 - q.client_gradients.shape[-2]) * q.gap, FedAvg()),
        (lambda q: q.distance_sq - q.client_gradients.shape[-2] / F(FEW) * q.distance_sq_next, FedAvg()),
        (lambda q: -q.sq(q.x_next - q.x + q.gradient / (2 * q.beta)), FewRows()),
    ],
)  # fmt: skip
def test_what_is_true_of_few_rows_alone_is_not_proved(gap, about, N):
    """Each is proved of `FEW` clients."""
    assert proved(stated(gap, FEW, about=about), "f")
    with pytest.raises((MissingCapability, NotCertified)):
        proved(stated(gap, N, about=about), "f")


def test_a_state_that_is_right_in_few_rows_alone_is_not_followed():
    """h is the clients' sum over `FEW`, which of twelve clients is not what the method keeps."""
    states = {"c_k": "N d", "c": lambda s: sums(s["c_k"]) / FEW}

    def claimed(q):
        noise = 100 * (q.distance_sq + (q.over_clients(q.sq(q.state.c_k)) + q.heterogeneity) / q.beta**2)
        yield form("f", potential(q, lambda s: s.distance_sq, noise=noise))

    for N, follows in ((FEW, True), (12, False)):
        made = sentence(claimed, about=Scaffold(), local=STEP, problems=SmoothConvex(N, (1, 2)), states=states)
        assert proved(made, "f").follows.startswith("for every number of rounds") is follows


def test_a_constant_is_the_best_with_all_rows():
    """||sum g_k||^2 <= 2 c beta (F - F*) has c = N^2, however few rows would give another."""
    def gap(q):
        return 2 * q.constant("c", 300) * q.beta * q.gap - q.sq(sums(q.client_gradients))

    for best in (FEW, 12):
        assert best_constant(stated(gap, best), "f", "c").proved == best**2


class Told(FedAvg):
    """It tells how many rows it is given."""

    name = "told"
    rows: ClassVar[list[int]] = []

    def init(self, x, num_clients):
        self.rows.append(num_clients)
        return super().init(x, num_clients)


@pytest.mark.parametrize("P", [None, 7])
def test_the_time_does_not_grow_with_the_clients(P):
    Told.rows.clear()
    found = proved(stated(falls, 10**6, P, Told()), "f")
    assert f"{P or 10**6}{' of 1000000' if P else ''} clients" in found.words
    assert max(Told.rows) <= 101 and np.median(Told.rows) <= FEW
