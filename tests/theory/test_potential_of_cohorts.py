"""Potentials that are proved cohort by cohort: what follows for every T, and what must not be said."""

from __future__ import annotations

from fractions import Fraction as F
from typing import NamedTuple

import numpy as np
import pytest
from statements_at_hand import sentence

from fedtheory.algorithms import FedAvg, Scaffold
from fedtheory.algorithms.base import Algorithm, per_client
from fedtheory.errors import NotCertified
from fedtheory.local import LocalObjective
from fedtheory.theory import GradientSteps, SmoothConvex, StronglyConvex, Uniform, form, le, potential
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.vector_proofs import proved
from fedtheory.theory.studies import certificates

STRONG, CONVEX = StronglyConvex((2, 3), (1, 2), mu=F(1, 10)), SmoothConvex((2, 3), (1, 2))
SHORT = GradientSteps(1, lr=lambda c: F(1, 40) / c.beta)
TWO = GradientSteps(2, lr=lambda c: F(1, 162) / c.beta)
OF_SCAFFOLD = {"c_k": "N d", "c": lambda s: s["c_k"].mean(axis=-2)}
EVERY, ONE = "for every number of rounds T: ", "one round, and not every number of rounds: "
FALLS = EVERY + "E V_T is at most rho^T V_0 + noise (1 - rho^T)/(1 - rho)"


def stated(V, D=None, rho=1, noise=lambda q: 0, needs=None, **how):
    """E V+ <= rho V - D + noise of one client that is drawn; all are functions of the quantities, and of a state."""
    def claimed(q):
        factor = rho(q) if callable(rho) else rho
        gain = D and (lambda s: D(q, s))
        made = potential(q, lambda s: V(q, s), gain, rho=factor, noise=noise(q))
        yield form("f", made, needs=needs(q) if needs else ())

    return sentence(claimed, **{"sampling": Uniform(1), "problems": STRONG, "local": SHORT, **how})


def apart(q):
    """The clients' gradients at x*."""
    return q.heterogeneity / q.beta**2


def of_scaffold(q, s):
    kept = q.over_clients(q.sq(s.c_k - q.gradients(q.x_star)))
    return s.distance_sq + F(1, 100) * kept / q.beta**2


PROVED = {  # V of a state, and of the state t of a run; the factor, the noise, what else, what follows
    "gap": (lambda q, s: s.gap / q.beta, F(399, 400), F(1, 1000), {}, FALLS),
    "gap and distance": (lambda q, s: s.gap / q.beta + s.distance_sq, F(399, 400), F(1, 100), {}, FALLS),
    "gradient": (lambda q, s: s.gradient_sq / q.beta**2, F(5, 4), F(1), {}, FALLS),
    "SCAFFOLD": (
        lambda q, s: of_scaffold(q, s) + s.gap / (10 * q.beta), 1, 0,
        {"about": Scaffold(), "local": TWO, "states": OF_SCAFFOLD}, EVERY + "E V_T is at most V_0",
    ),
}  # fmt: skip


class Row:
    """The state t of a run, as a potential reads it."""

    def __init__(self, q, t):
        self.q, self.t = q, t

    def __getattr__(self, name):
        q, t = self.q, self.t
        return getattr(q, name)[t] if name in ("gap", "gradient_sq", "distance_sq") else getattr(q.state, name)[t]


@pytest.mark.parametrize("name", PROVED)
def test_what_is_proved_of_every_cohort_holds_in_runs(name):
    """E V_T over all sequences of cohorts, in fractions on instances; with a tenth of the factor some instance fails."""
    V, rho, noise, how, follows = PROVED[name]
    found = proved(stated(V, rho=rho, noise=lambda q: noise * apart(q), **how), "f")
    assert found.follows == follows and "1 of 2, 1 of 3 clients, every dimension" in found.words

    def of_runs(q):
        T = len(q.path.states) - 1
        for told, by in (("true", rho), ("false", F(rho) / 10)):
            more = noise * apart(q) * sum(by**t for t in range(T))
            yield form(told, le(V(q, Row(q, -1)), by**T * V(q, Row(q, 0)), more))

    own = {k: v for k, v in how.items() if k != "states"}
    made = sentence(of_runs, **{"over": "run", "rounds": (1, 3), "sampling": Uniform(1), "problems": STRONG, "local": SHORT, **own})
    setting, rng, failed = MethodSetting.of(made), np.random.default_rng(3), 0
    for _ in range(40):
        view = setting.view(setting.random_instance(rng))
        rooms = {}
        for told, claimed in made.on(view, mutants=False).items():
            rooms[told] = np.min(view.expectation(claimed.sides.rhs) - view.expectation(claimed.sides.lhs))
        assert rooms["true"] >= 0
        failed += rooms["false"] < 0
    assert failed


def test_the_same_is_said_as_without_cohorts_one_by_one():
    """0 F(x) asks for losses after each cohort, and changes nothing."""
    of = {"about": Scaffold(), "local": TWO, "states": OF_SCAFFOLD, "problems": STRONG}
    plain, each = (proved(stated(V, **of), "f") for V in (of_scaffold, lambda q, s: of_scaffold(q, s) + 0 * s.gap))
    assert plain.follows == each.follows == EVERY + "E V_T is at most V_0" and plain.words == each.words
    assert sum(len(f.terms) for f, _ in each.parts) > sum(len(f.terms) for f, _ in plain.parts)


def test_a_certificate_says_it_again(tmp_path):
    V, rho, noise, how, follows = PROVED["gap"]
    statement = stated(V, rho=rho, noise=lambda q: noise * apart(q), **how)
    found = proved(statement, "f")
    file = certificates.write(tmp_path / "f.json", certificates.certificate(statement, found))
    certificates.verify(certificates.load(file), statement)
    assert certificates.told_of(certificates.load(file), statement) == (found.told, follows)


# --- what must not be said ------------------------------------------------------------------------
OTHER, MEAN = "V of a state depends on more than the state", "it has the mean over the cohorts in it"
BEFORE, COHORT = "V of the state after it depends on the state before it, too", "rho depends on who takes part"
TRAPS = {  # V with 0 F(x), so that it is looked at cohort by cohort
    "the first cohort": (lambda q, s: s.distance_sq[:, :1], {}, OTHER),
    "the last cohort": (lambda q, s: s.distance_sq[:, -1:], {}, OTHER),
    "cohorts in another order": (lambda q, s: s.distance_sq[:, ::-1], {}, OTHER),
    "the mean of cohorts": (lambda q, s: q.sq(s.x.mean(axis=1, keepdims=True) - q.x_star), {}, OTHER),
    "the mean over cohorts": (lambda q, s: q.sq(q.mean(s.x) - q.x_star), {}, MEAN),
    "expected": (lambda q, s: q.mean(s.distance_sq), {}, MEAN),
    "how many cohorts": (lambda q, s: s.distance_sq / s.x.shape[1], {}, OTHER),
    "who takes part": (lambda q, s: (1 - q.members[..., 0]) * s.distance_sq, {}, OTHER),
    "its own round": (lambda q, s: s.distance_sq + q.distance_sq, {}, BEFORE),
    "a local model": (lambda q, s: s.distance_sq + q.over_clients(q.sq(q.local_models - q.x_star)), {}, BEFORE),
    "a model of the cohort": (lambda q, s: s.distance_sq + q.over_clients(q.sq(q.client_models - q.x_star)), {}, BEFORE),
    "losses between two states": (lambda q, s: s.distance_sq + q.gap_at((s.x + q.x) / 2) / q.beta, {}, BEFORE),
    "a gradient between two states": (
        lambda q, s: s.distance_sq + q.over_clients(q.sq(q.gradients((s.x + q.x) / 2))) / q.beta**2, {}, BEFORE,
    ),
    "another function after the round": (lambda q, s: s.distance_sq * (2 - s._after), {}, "no form of vectors"),
    "a factor of the cohort": (lambda q, s: s.distance_sq, {"rho": lambda q: 1 + q.members[..., 0]}, COHORT),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_a_potential_that_is_none_of_states_is_one_of_one_round(name):
    V, how, why = TRAPS[name]
    noise = lambda q: 50 * apart(q) + 20 * q.distance_sq + 20 * q.gap / q.beta  # noqa: E731
    found = proved(stated(lambda q, s: V(q, s) + 0 * s.gap, noise=noise, **how), "f")
    assert found.follows.startswith(ONE) and why in found.follows and "1 of 2, 1 of 3" in found.words


@pytest.mark.parametrize(
    ("V", "problems", "sampling", "why"),
    [
        (lambda q, s: q.sq(q.mean(s.x) - q.x_star), SmoothConvex(4, (1, 2)), Uniform(1), MEAN),
        (lambda q, s: s.distance_sq + q.gap_at((s.x + q.x) / 2) / q.beta, CONVEX, Uniform, BEFORE),
    ],
)  # fmt: skip
def test_where_one_client_stands_for_all_it_is_not_said_either(V, problems, sampling, why):
    noise = lambda q: 9 * apart(q) * (problems is CONVEX)  # noqa: E731
    found = proved(stated(V, noise=noise, problems=problems, sampling=sampling), "f")
    assert found.follows.startswith(ONE) and why in found.follows


def test_the_mean_over_cohorts_would_have_been_false():
    """||E x+ - x*||^2 <= ||x - x*||^2 in each round, and E||x_T - x*||^2 grows from 0 where clients differ."""
    made = sentence(
        lambda q: (yield form("f", le(q.distance_sq[-1], q.distance_sq[0]))),
        over="run", rounds=(1, 2), sampling=Uniform(1), problems=CONVEX, local=SHORT,
    )  # fmt: skip
    setting, rng = MethodSetting.of(made), np.random.default_rng(0)
    views = (setting.view(setting.random_instance(rng)) for _ in range(60))
    sides = ((view, made.on(view, mutants=False)["f"].sides) for view in views)
    assert any(np.any(view.expectation(of.lhs) > view.expectation(of.rhs)) for view, of in sides)


@pytest.mark.parametrize(
    ("noise", "says"),
    [
        (lambda q: 4 * apart(q), "V_0 + T noise"),
        (lambda q: 4 * q.over_clients(q.sq(q.gradients(q.x_star))) / q.beta**2, "V_0 + T noise"),
        (lambda q: 9 * q.members[..., 0] * apart(q), "V_0 + the expected sum of the noise"),
        (lambda q: 4 * apart(q) + q.distance_sq, "V_0 + the expected sum of the noise"),
        (lambda q: 4 * apart(q) + q.moved_sq, "V_0 + the expected sum of the noise"),
        (lambda q: 4 * apart(q) + q.gap_at(q.x + q.x_next - q.x) / q.beta, "V_0 + the expected sum of the noise"),
    ],
)
def test_noise_that_is_the_same_in_every_round(noise, says):
    found = proved(stated(lambda q, s: s.distance_sq + 0 * s.gap, noise=noise, problems=CONVEX), "f")
    assert found.follows == EVERY + "E V_T is at most " + says


def test_what_is_gained_may_depend_on_the_cohort():
    """D is the length of the step that this cohort makes, half of it with a minus."""
    gain = lambda q, s: q.moved_sq - q.mean(q.moved_sq) / 2  # noqa: E731
    found = proved(stated(lambda q, s: s.distance_sq + 0 * s.gap, gain, noise=lambda q: 4 * apart(q), problems=CONVEX), "f")
    assert found.follows == EVERY + "the sum of E D over T rounds is at most V_0 + T noise"


@pytest.mark.parametrize("V", [lambda q, s: s.gap / q.beta - 1, lambda q, s: s.gap / q.beta - apart(q)])
def test_v_is_at_least_0(V):
    with pytest.raises(NotCertified):
        proved(stated(V, rho=1, noise=lambda q: 9 * apart(q) + 1), "f")


def test_a_need_is_one_of_every_cohort():
    """After a step of any cohort the model is near: of the cohort that was not drawn it is used, too."""
    near = lambda q: {"||x+ - x*||^2 <= 1/100": le(q.distance_sq_next, F(1, 100))}  # noqa: E731
    here = lambda q: {"||x - x*||^2 <= 1/100": le(q.distance_sq, F(1, 100))}  # noqa: E731
    V, said = lambda q, s: s.distance_sq + 0 * s.gap, []
    for needs in (near, here):
        noise = lambda q: F(1, 100) + (0 if needs is near else 9 * apart(q))  # noqa: B023, E731
        said.append(proved(stated(V, rho=0, noise=noise, needs=needs), "f").follows.partition(", where in every round")[2])
    assert said == [", whoever is drawn, ||x+ - x*||^2 <= 1/100", " ||x - x*||^2 <= 1/100"]


class Last(NamedTuple):
    x: np.ndarray
    g_k: np.ndarray
    h: np.ndarray


class Remembers(Algorithm):
    """The newest gradients of all, and the mean of those of the last cohort, which stands for none but it."""

    name = "remembers"

    def init(self, x, num_clients):
        return Last(x, 0 * per_client(x, num_clients), 0 * x)

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        new = clients.gradient(x)
        return Last(state.x + clients.mean(y - x), clients.put(state.g_k, new), clients.mean(new))


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (lambda s: s["g_k"][..., 0, :], "h after a round is not what the statement says of it"),
        (lambda s: s["g_k"].mean(axis=-2), "h after a round is not what the statement says of it"),
        (lambda s: s["g_k"][..., 0, :] * 0 + s["g_k"][..., -1, :], "h after a round is not what the statement says of it"),
        ("d", ""),
        (None, "h before the round is as at the start"),
    ],
)  # fmt: skip
def test_a_rule_that_some_cohorts_keep(rule, why):
    """h = g_1 after a round of client 1, and after no round of another."""
    states = {"g_k": "N d"} | ({} if rule is None else {"h": rule})
    noise = lambda q: 9 * (apart(q) + q.over_clients(q.sq(q.state.g_k)) / q.beta**2) + q.sq(q.state.h)  # noqa: E731
    V = lambda q, s: s.distance_sq + 0 * s.gap + 0 * q.sq(s.h)  # noqa: E731
    found = proved(stated(V, noise=noise, about=Remembers(), states=states), "f")
    assert found.follows.startswith(ONE if why else EVERY) and why in found.follows


class Later(FedAvg):
    """Steps that grow from the fourth round on."""

    def round(self, state, clients):
        moved = super().round(state, clients).x - state.x
        return state._replace(x=state.x + (1 if clients.round_index <= 3 else 1000) * moved)


@pytest.mark.parametrize("rounds", [0, (0, 1)])
def test_a_method_that_asks_which_round_it_is(rounds):
    two = StronglyConvex(2, (1, 2), mu=F(1, 10))
    V, noise = lambda q, s: s.distance_sq + 0 * s.gap, lambda q: 9 * apart(q)
    found = proved(stated(V, noise=noise, about=Later(), rounds=rounds, problems=two), "f")
    assert found.follows.startswith(ONE + "the method asks which round it is")


def test_states_of_short_runs():
    found = proved(stated(PROVED["SCAFFOLD"][0], about=Scaffold(), local=TWO, rounds=(0, 1)), "f")
    assert found.follows == ONE + "the state before it is that of runs of up to 1 rounds"
