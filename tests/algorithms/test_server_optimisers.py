"""Server optimisers: rounds worked out by hand, written out once more in NumPy, schedules, worst cases and refusals."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from differing_clients import START, heterogeneous
from general_round import averaged, compare, in_general_position, work
from one_round import close, server

from fedtheory import Full, algorithms, errors, simulate
from fedtheory.algorithms.server_optimisers import FedAvgMState, MomentsState
from fedtheory.local import GradientSteps
from fedtheory.randomness import Stream
from fedtheory.rational import in_fractions
from fedtheory.theory.rounds.losses import SeparableLosses
from fedtheory.theory.rounds.oracles import SeparableWorld
from fedtheory.theory.rounds.oracles import run as judged
from fedtheory.theory.rounds.rational_clients import NotInFractions, SlotClients, SlotWork
from fedtheory.worst_cases import worst_case
from fedtheory.worst_cases.runs import Run
from fedtheory.worst_cases.symbolic import SymbolicClients, symbols

ADAPTIVE = {"fedadagrad": algorithms.FedAdagrad, "fedadam": algorithms.FedAdam, "fedyogi": algorithms.FedYogi}
HALF = {"beta1": 0.5, "tau": 0.25}


# Gradients at 1 are -4 and 6, a step of 1/4 moves by 1 and -3/2: Delta = -1/4 and Delta^2 = 1/16.
# m = 2 becomes 2/2 - 1/4 of FedAvgM and 2/2 - 1/8 of the others; where v becomes 1/4 the step is 7/8/(1/2 + 1/4) eta.
@pytest.mark.parametrize(
    ("method", "v", "x", "m", "new_v"),
    [
        (algorithms.FedAvgM(0.5, server_lr=2.0), None, F(5, 2), F(3, 4), None),
        (algorithms.FedAdagrad(1.5, **HALF), F(3, 16), F(11, 4), F(7, 8), F(1, 4)),
        (algorithms.FedAdam(1.5, beta2=0.5, **HALF), F(7, 16), F(11, 4), F(7, 8), F(1, 4)),
        (algorithms.FedYogi(1.5, beta2=0.5, **HALF), F(9, 32), F(11, 4), F(7, 8), F(1, 4)),  # v > Delta^2 falls
        (algorithms.FedYogi(1.5, beta2=0.5, **HALF), F(1, 32), F(29, 8), F(7, 8), F(1, 16)),  # and rises below it
    ],
)
def test_a_round_by_hand(play, method, v, x, m, new_v):
    old = FedAvgMState(server(1), server(2)) if v is None else MomentsState(server(1), server(2), server(v))
    state, sent = play(method, old, [0, 1], GradientSteps(1, 0.25))
    close(sent[0], [1, -3 / 2])
    for found, by_hand in zip(state, (x, m, new_v), strict=False):
        assert found == float(by_hand)  # all are dyadic


def losses_at_hand():
    curvature, center, none = ([[F(v)] for v in values] for values in ((1, 3, 1), (5, -1, F(3, 2)), (0, 0, 0)))
    return SeparableLosses.of(curvature, center, none, none, [[None]] * 3, [F(1, 3)] * 3)


def test_a_round_in_fractions():
    """Everybody: moves 1, -3/2 and 1/8, whose mean is -1/8."""
    one, two = np.array([[F(1)]], dtype=object), np.array([[F(2)]], dtype=object)
    cohort, work = Full().sample(Stream(0), 1, range(1), 3), SlotWork(1, F(1, 4))
    method = in_fractions(algorithms.FedAvgM(0.1, lambda t: F(1, 3 * t)))
    new = method.round(FedAvgMState(one, two), SlotClients(losses_at_hand(), cohort, work, one))
    assert new.m[0, 0] == F(1, 5) - F(1, 8) and new.x[0, 0] == 1 + new.m[0, 0] / 3


def test_a_round_in_symbols():
    """x - x* and m before, and the mean gradient: x + eta (beta m - h g)."""
    (step, beta, eta, N), run = symbols("step beta eta N"), Run()
    clients = SymbolicClients(run, in_fractions(GradientSteps(1, 1.0), {"lr": step}), N)
    method = in_fractions(algorithms.FedAvgM(0.5), {"momentum": beta, "server_lr": eta})
    m = run.vector("m", everybody=True)
    new = clients.after(method, x=run.start, m=m)
    ((_, point),) = ((name, p) for name, p in run.points.items() if name.startswith("g"))
    assert new.m == beta * m - step * point.gradient.average
    assert new.x == run.start + eta * new.m


@pytest.mark.parametrize("name", ADAPTIVE)
@pytest.mark.parametrize("aggregation", ["cohort", "samples", "printed"])
def test_the_adaptive_ones_in_plain_numpy(layout, name, aggregation):
    eta, beta1, beta2, tau = 0.3, 0.7, 0.6, 0.2

    def reference(old, members):
        moves = [work(k, old["x"]) - old["x"] for k in members]
        delta, v = averaged(aggregation, members, moves), np.abs(old["v"])
        m = beta1 * old["m"] + (1 - beta1) * delta
        if name == "fedadagrad":
            v = v + delta**2
        elif name == "fedadam":
            v = beta2 * v + (1 - beta2) * delta**2
        else:
            v = np.array([a - (1 - beta2) * b if a > b else a + (1 - beta2) * b for a, b in zip(v, delta**2, strict=True)])
        return {"x": old["x"] + eta * m / (np.sqrt(v) + tau), "m": m, "v": v}, [[d] for d in moves], [128, 128], [128, 128]

    more = {} if name == "fedadagrad" else {"beta2": beta2}
    method = ADAPTIVE[name](eta, beta1, tau, aggregation, **more)
    state = in_general_position(method)
    compare(method, reference, layout, state=state._replace(v=np.abs(state.v)))


@pytest.mark.parametrize("aggregation", ["cohort", "samples", "printed"])
def test_fedavgm_in_plain_numpy(layout, aggregation):
    def reference(old, members):
        moves = [work(k, old["x"]) - old["x"] for k in members]
        m = 0.7 * old["m"] + averaged(aggregation, members, moves)
        return {"x": old["x"] + 0.3 * m, "m": m}, [[d] for d in moves], [128, 128], [128, 128]

    compare(algorithms.FedAvgM(0.7, 0.3, aggregation), reference, layout)


def test_the_second_moment_begins_at_tau_squared_and_steps_are_about_eta_at_most():
    for make in ADAPTIVE.values():
        state = make(tau=0.25).init(np.ones((2, 3)), 4)
        assert (state.v == 1 / 16).all() and not state.m.any()
    run = simulate(heterogeneous(), algorithms.FedAdagrad(0.1), 5, START, local_solver=GradientSteps(1, 0.1), keep_states=True)
    moves = np.abs(np.diff([s.x[0] for s in run.states], axis=0))
    assert 0.09 < moves[0].max() and (moves < 0.1).all()


# --- the server's step as a function of the round -------------------------------------------------
def test_a_step_of_the_server_for_each_round():
    """Three rounds with steps 1/2, 1/4, 1/8 are three of one round each; a schedule that gives no step is refused."""
    work, x = GradientSteps(2, 0.1), START
    whole = simulate(heterogeneous(), algorithms.FedAvgM(0.0, lambda t: 0.5**t), 3, x, local_solver=work)
    for t in (1, 2, 3):
        x = simulate(heterogeneous(), algorithms.FedAvgM(0.0, 0.5**t), 1, x, local_solver=work).x
    np.testing.assert_allclose(whole.x, x, rtol=1e-14)
    with pytest.raises(errors.InvalidInput, match=r"server_lr\(2\) is 0: it must be a finite number > 0; a schedule must"):
        simulate(heterogeneous(), algorithms.FedAdam(lambda t: 2 - t), 3, START, local_solver=work)


# --- worst cases, and what is refused -------------------------------------------------------------
def bound(method, **more):
    return worst_case(method, rounds=2, step=F(1, 2), **more).bound


def test_without_momentum_its_worst_case_is_fedavgs():
    assert bound("fedavgm", momentum=0, local_steps=2) == bound("fedavg", local_steps=2)
    assert bound("fedavgm", momentum=F(1, 4)) != bound("fedavg")
    assert bound("fedavgm", momentum=0, server_lr=F(1, 2)) > bound("fedavg")


def test_one_client_and_one_step_is_the_heavy_ball():
    """x+ = x - h f'(x) + beta (x - x-) on parabolas that go on as lines: none ends above the bound, and one a thousandth below."""
    h, beta, rounds = 0.5, 0.4, 3
    found = worst_case("fedavgm", momentum=F(2, 5), rounds=rounds, step=F(1, 2), clients=1)
    slope, curvature = np.meshgrid(np.linspace(0.01, 1, 400), np.linspace(0.1, 1, 50))
    before = x = np.ones_like(slope)
    for _ in range(rounds):
        before, x = x, x - h * np.clip(curvature * x, -slope, slope) + beta * (x - before)
    inside = curvature * np.abs(x) <= slope
    ends = np.where(inside, curvature * x**2 / 2, slope * np.abs(x) - slope**2 / (2 * curvature))
    assert 0.999 * float(found.bound) < ends.max() <= float(found.bound)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_square_roots_are_refused_where_nothing_is_a_float(name):
    with pytest.raises(errors.MissingCapability, match=r"server_optimisers\.py, line \d+, .*rounds that are linear in vectors"):
        worst_case(name, rounds=2, step=F(1, 4))
    world = SeparableWorld(losses_at_hand(), None)
    start, cohorts = np.array([[F(1)]], dtype=object), [Full().sample(Stream(0), 1, range(1), 3)]
    with pytest.raises(NotInFractions, match=f"{name} cannot be run in fractions .*sqrt.*; the verdicts in floats stand"):
        judged(world, in_fractions(ADAPTIVE[name]()), {"E": 1, "eta": F(1, 4)}, start, cohorts)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_moments_are_shares(name):
    for wrong in ({"beta1": 1.0}, {"beta1": -0.1}, {"beta2": 1.0}, {"tau": 0.0}, {"server_lr": 0.0}, {"aggregation": "mean"}):
        if name == "fedadagrad" and "beta2" in wrong:
            continue
        (field,) = wrong
        with pytest.raises(errors.InvalidInput, match=f"{field} = "):
            ADAPTIVE[name](**wrong)
