"""Classes on vectors against PEPit, where every client has a loss of its own and the method is written out by hand."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from fractions import Fraction as F
from itertools import combinations, product
from typing import ClassVar

import pytest
from pepit_at_hand import average, programme, same, solved, total
from server_momentum import Heavy

from fedtheory.local import ExactProx
from fedtheory.local.objective import LocalObjective
from fedtheory.worst_cases import worst_case, worst_function


def walk(losses, x, K, h, along):
    """K steps of each client from x; ``along``: the client and its gradient -> the direction."""
    ends = []
    for k, f in enumerate(losses):
        y = x
        for _ in range(K):
            y = y - h * along(k, f.gradient(y))
        ends.append(y)
    return ends


class ByHand:
    """The rounds of methods: losses, x, K and h -> the next x. What is kept stays here."""

    def __init__(self, clients, x, **options):
        self.o, self.kept, self.m = options, [0 * x] * clients, 0 * x

    def fedavgm(self, losses, x, K, h):
        self.m = self.o["momentum"] * self.m + average(walk(losses, x, K, h, lambda k, g: g)) - x
        return x + self.o.get("server_lr", 1) * self.m

    def efl(self, losses, x, K, h):
        return average(walk(losses, x, K, h, lambda k, g: g))

    def fedgate(self, losses, x, K, h):
        ends = walk(losses, x, K, h, lambda k, g: g - self.kept[k])
        sent = [(x - y) / (K * h) for y in ends]
        self.kept = [c + s - average(sent) for c, s in zip(self.kept, sent, strict=True)]
        return x - self.o.get("server_lr", 1) * K * h * average(sent)

    def vrl_sgd(self, losses, x, K, h):
        ends = walk(losses, x, K, h, lambda k, g: g - self.kept[k])
        self.kept = [c + (average(ends) - y) / (K * h) for c, y in zip(self.kept, ends, strict=True)]
        return average(ends)

    def mime(self, losses, x, K, h):
        beta, first = self.o.get("momentum", 0), [f.gradient(x) for f in losses]
        shift = [0 * x if self.o.get("lite") else average(first) - g for g in first]
        ends = walk(losses, x, K, h, lambda k, g: (1 - beta) * (g + shift[k]) + beta * self.m)
        self.m = (1 - beta) * average(first) + beta * self.m
        return average(ends)

    def scaffold(self, losses, x, K, h):
        c, option = average(self.kept), self.o.get("option", "difference")
        first = [f.gradient(x) for f in losses] if option == "gradient" else []
        ends = walk(losses, x, K, h, lambda k, g: g - self.kept[k] + c)
        self.kept = first or [d - c + (x - y) / (K * h) for d, y in zip(self.kept, ends, strict=True)]
        return x + self.o.get("server_lr", 1) * (average(ends) - x)


def by_pepit(method, clients, K, rounds, criterion, h, options):
    """PEPit's value."""
    pep, losses, mean, star, x = programme(clients)
    rule, models = ByHand(clients, x, **options), [x]
    if (initial := options.get("initial")) is not None:
        rule.kept = [f.gradient(x) if initial == "gradient" else type(x)() for f in losses]
    if isinstance(initial, float):
        off = average([(c - f.gradient(star)) ** 2 for c, f in zip(rule.kept, losses, strict=True)])
        pep.add_constraint(off <= initial**2)
    for _ in range(rounds):
        models.append(getattr(rule, method.replace("-", "_"))(losses, models[-1], K, h))
    measured = {
        "gap": lambda: [mean(models[-1]) - mean(star)], "distance": lambda: [(models[-1] - star) ** 2],
        "gradient": lambda: [mean.gradient(models[-1]) ** 2],
        "best-gap": lambda: [mean(y) - mean(star) for y in models[:-1]],
    }  # fmt: skip
    for number in measured[criterion]():
        pep.set_performance_metric(number)
    return solved(pep)


CASES = [  # method, options, N, K, T, criterion
    ("fedavgm", {"momentum": F(1, 2)}, 2, 2, 3, "gap"),
    ("fedavgm", {"momentum": F(1, 2), "server_lr": F(2, 3)}, 3, 1, 2, "gap"),
    ("fedavgm", {"momentum": F(1, 4)}, 2, 2, 2, "distance"),
    ("fedgate", {}, 2, 2, 2, "gap"), ("fedgate", {"server_lr": F(1, 2)}, 2, 1, 2, "distance"),
    ("fedgate", {"server_lr": F(3, 2)}, 3, 1, 2, "gradient"), ("fedgate", {}, 2, 3, 1, "gap"),
    ("vrl-sgd", {}, 2, 2, 2, "gap"), ("vrl-sgd", {}, 2, 1, 2, "best-gap"), ("vrl-sgd", {}, 3, 2, 1, "gradient"),
    ("mime", {}, 2, 2, 2, "gap"), ("mime", {}, 3, 2, 1, "gradient"), ("mime", {}, 2, 3, 1, "distance"),
    ("mime", {"lite": True}, 2, 2, 2, "gap"), ("mime", {"lite": True}, 3, 2, 1, "gradient"),
    ("mime", {"momentum": F(1, 2)}, 2, 2, 2, "gap"), ("mime", {"momentum": F(1, 4)}, 2, 1, 2, "distance"),
    ("mime", {"momentum": F(1, 2), "lite": True}, 2, 2, 2, "gap"),
    ("efl", {}, 2, 2, 2, "gap"), ("efl", {}, 3, 2, 1, "best-gap"), ("efl", {}, 2, 3, 1, "distance"),
    ("scaffold", {"option": "gradient"}, 2, 2, 2, "gap"), ("scaffold", {"option": "gradient"}, 3, 1, 2, "gradient"),
    ("scaffold", {"server_lr": F(1, 2)}, 2, 2, 2, "gap"), ("scaffold", {"control": "recovered"}, 2, 2, 2, "gap"),
    ("scaffold", {"server_lr": F(3, 2), "control": "recovered"}, 2, 1, 2, "distance"),
    ("scaffold", {"initial": "gradient"}, 2, 2, 2, "gap"),
    ("scaffold", {"initial": "gradient", "server_lr": F(3, 2), "option": "gradient"}, 3, 2, 2, "gradient"),
    ("scaffold", {"initial": F(1, 2)}, 2, 2, 2, "gap"), ("scaffold", {"initial": F(2), "server_lr": F(1, 2)}, 3, 2, 1, "distance"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "options", "clients", "K", "rounds", "criterion"), CASES)
def test_pepit_has_the_value_of_a_class(method, options, clients, K, rounds, criterion):
    """A run on its worst losses ends with it."""
    step = F(1, 4)
    found = worst_case(
        method, rounds=rounds, local_steps=K, criterion=criterion, clients=clients,
        step=step, **options,
    )  # fmt: skip
    floats = {name: float(x) if isinstance(x, F) else x for name, x in options.items()}
    value = by_pepit(method, clients, K, rounds, criterion, float(step), floats)
    same(found, value)
    assert worst_function(found).measured() == pytest.approx(found.best, rel=1e-5)


def test_server_momentum_s_value():
    """Two local steps of 1/4 and half of the last move again, three rounds: the same for any number of clients."""
    found = worst_case("fedavgm", momentum=F(1, 2), local_steps=2, rounds=3, step=F(1, 4))
    assert float(found.bound) == pytest.approx(0.101206427, abs=2e-9) and found.any_number
    assert found.best == pytest.approx(float(found.bound), rel=1e-6)


def expected_by_pepit(method, clients, participants, K, rounds, criterion, h, options):
    """The expectation over every cohort in every round."""
    pep, losses, mean, star, x = programme(clients)
    level = [(ByHand(participants, x, **options), x)]
    for _ in range(rounds):
        after = []
        for (rule, at), cohort in product(level, combinations(losses, participants)):
            own = copy(rule)
            after.append((own, getattr(own, method)(list(cohort), at, K, h)))
        level = after
    of = {
        "gap": lambda at: mean(at) - mean(star), "distance": lambda at: (at - star) ** 2,
        "gradient": lambda at: mean.gradient(at) ** 2,
    }  # fmt: skip
    pep.set_performance_metric(average([of[criterion](at) for _, at in level]))
    return solved(pep)


@pytest.mark.parametrize(
    ("method", "options", "clients", "participants", "K", "rounds", "criterion"),
    [
        ("fedavgm", {"momentum": F(1, 2)}, 3, 2, 2, 1, "gap"), ("fedavgm", {"momentum": F(1, 2)}, 3, 2, 1, 2, "distance"),
        ("fedavgm", {"momentum": F(1, 2)}, 2, 1, 1, 2, "gap"), ("fedavgm", {"momentum": F(1, 4)}, 3, 2, 2, 1, "distance"),
        ("mime", {}, 3, 2, 2, 1, "gap"), ("mime", {}, 3, 2, 2, 1, "distance"), ("mime", {}, 2, 1, 2, 1, "gradient"),
        ("mime", {"momentum": F(1, 2)}, 2, 1, 2, 2, "distance"),
    ],
)  # fmt: skip
def test_pepit_has_the_expectation_over_cohorts(method, options, clients, participants, K, rounds, criterion):
    """Mime's local steps follow the mean of the cohort that was drawn, so that their points are others for each."""
    found = worst_case(
        method, rounds=rounds, local_steps=K, criterion=criterion, clients=clients,
        participants=participants, step=F(1, 4), **options,
    )  # fmt: skip
    floats = {name: float(x) for name, x in options.items()}
    value = expected_by_pepit(method, clients, participants, K, rounds, criterion, 0.25, floats)
    same(found, value)
    assert worst_function(found).measured() == pytest.approx(found.best, rel=1e-5)


@pytest.mark.parametrize(
    ("clients", "rounds", "p", "h", "criterion"),
    [
        (2, 1, F(1, 2), F(1), "gap"), (2, 2, F(1, 2), F(1), "gap"),
        (3, 2, F(1, 3), F(1, 2), "distance"), (2, 3, F(1, 4), F(1), "gradient"),
    ],
)  # fmt: skip
def test_pepit_has_the_expectation_over_coins(clients, rounds, p, h, criterion):
    """Scaffnew's 2^T ways: a loss has the same gradient at a point whatever the coins to come are."""
    pep, losses, mean, star, x = programme(clients)
    level = [(1.0, x, [x] * clients, [0 * x] * clients)]
    for _ in range(rounds):
        after = []
        for chance, at, local, kept in level:
            ends = [y - float(h) * (f.gradient(y) - c) for f, y, c in zip(losses, local, kept, strict=True)]
            met = average([y - float(h / p) * c for y, c in zip(ends, kept, strict=True)])
            shifted = [c + float(p / h) * (met - y) for y, c in zip(ends, kept, strict=True)]
            after += [(chance * float(p), met, [met] * clients, shifted), (chance * (1 - float(p)), at, ends, kept)]
        level = after
    of = {
        "gap": lambda at: mean(at) - mean(star), "distance": lambda at: (at - star) ** 2,
        "gradient": lambda at: mean.gradient(at) ** 2,
    }  # fmt: skip
    pep.set_performance_metric(total([chance * of[criterion](at) for chance, at, *_ in level]))
    same(worst_case("scaffnew", clients=clients, rounds=rounds, p=p, step=h, criterion=criterion), solved(pep))


@dataclass(frozen=True)
class ThereAgain(Heavy):
    """Local problems of curvature 1 are solved, and the server steps along the subgradients where they end."""

    nonsmooth: ClassVar[bool] = True

    def round(self, state, clients):
        w = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=w, curvature=1.0), start=w, solver=ExactProx()).y
        return state._replace(x=state.x - self.beta * clients.mean(clients.gradient(y)))


@pytest.mark.parametrize("criterion", ["gap", "distance"])
def test_a_subgradient_where_a_local_problem_ends_is_any(criterion):
    """It need not be the one of the local problem's optimality condition: a loss may have its kink there."""
    from PEPit import PEP
    from PEPit.functions import ConvexLipschitzFunction
    from PEPit.primitive_steps import proximal_step

    pep = PEP()
    losses = [pep.declare_function(ConvexLipschitzFunction, M=1) for _ in range(2)]
    mean = average(losses)
    star, x = mean.stationary_point(), pep.set_initial_point()
    pep.set_initial_condition((x - star) ** 2 <= 1)
    end = x - average([f.subgradient(proximal_step(x, f, 1)[0]) for f in losses]) / 2
    pep.set_performance_metric((end - star) ** 2 if criterion == "distance" else mean(end) - mean(star))
    same(worst_case(ThereAgain, criterion=criterion), solved(pep))
