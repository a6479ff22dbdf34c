"""FedMLS: local steps, rounds and Theorem 2's parameters in fractions worked out by hand, and what is refused, at its limit."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as Q
from types import SimpleNamespace

import numpy as np
import pytest
from general_round import agree, in_general_position

from fedtheory import problems
from fedtheory.algorithms import fedmls
from fedtheory.algorithms.fedmls import (
    FedMLS,
    duration,
    exact_number,
    fedmls_parameters,
    fewest_rounds,
    local_steps,
    printed_rounds,
)
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.local import SubgradientSliding
from fedtheory.local.exact_prox import ExactProx
from fedtheory.participation.cohorts import Cohort

# (4 G^2 + sigma^2) lambda^2/(2 D~) = (37/4)(4/9)(7/10) = 259/90; with K = 4 and k = 3: 36 * 259/90 = 103.6; with K = 3: 8.63 k^2
LAM, D, G, SIGMA = Q(2, 3), Q(5, 7), Q(3, 2), Q(1, 2)
METHOD = FedMLS(LAM, D, 3, 2.0, G, SIGMA)


def test_local_steps_by_hand():
    assert local_steps(3, LAM, D, 4, G, SIGMA) == 104
    assert [METHOD.steps(k) for k in (1, 2, 3)] == [9, 35, 78]
    assert METHOD.total_steps() == 44 == METHOD.total_steps(skip_last=True)
    assert METHOD.total_steps(skip_last=False) == 122 == replace(METHOD, skip_last=False).total_steps()
    assert local_steps(3, LAM, D, 4, G) == 101  # 9 * (4/9) * 36 * (7/10) = 100.8
    solved = replace(METHOD, local_training="exact-prox")
    assert (solved.steps(3), solved.total_steps(), solved.total_steps(False), solved.solved, METHOD.solved) == (1, 2, 3, True, False)


def test_steps_of_very_many_rounds():
    """Beyond a million rounds: the sum before it is rounded up, or a step a round."""
    K = 10**6 + 2
    many = replace(METHOD, rounds=K)
    squares = [int((np.arange(1, last + 1, dtype=np.int64) ** 2).sum()) for last in (K, K - 1)]
    for skip, total in zip((False, True), squares):
        assert many.total_steps(skip_last=skip) == int(Q(259, 90) * K * total)
        assert replace(many, lam=1e-12).total_steps(skip_last=skip) == K - skip


def test_numbers_are_read_as_they_are_written():
    assert exact_number(0.1) == Q(1, 10) == exact_number(Q(1, 10)) and exact_number(np.int64(3)) == 3
    assert exact_number(Q(0.1)) == Q(0.1) != Q(1, 10)


def test_rounds_by_hand():
    """(G r/epsilon)^2 = (45/28)^2: 36 times that is 92.98, 28 times 72.3, 16 times 41.3, and 72 times 185.97, whose root is 13.64."""
    e, g, r = Q(2, 3), Q(5, 2), Q(3, 7)
    assert [fewest_rounds(e, g, r), fewest_rounds(e, g, r, 28), fewest_rounds(e, g, r, 16)] == [10, 9, 6]
    assert printed_rounds(e, g, r) == 14
    assert [fedmls._ceil_sqrt(Q(v)) for v in (0, 1, 2, 4, Q(17, 4), Q(9, 4), 9, Q(901, 100))] == [0, 1, 2, 2, 3, 2, 3, 4]
    assert [fewest_rounds(1, 1, 0), printed_rounds(1, 1, 0)] == [1, 1]


def at_hand(optimum=2.0, value=1.0, wider=1.0):
    """A problem on the line with G = 5/2 R on a ball, and its optimum on a ball."""

    def optimum_on_ball(radius):
        asked.append(radius)
        reached = value if radius <= 4 else wider
        return SimpleNamespace(x=np.array([min(optimum, radius)]), value=reached, lower_bound=reached)

    asked = []
    a_problem = {"dim": 1, "objective": None, "structure": None}
    return SimpleNamespace(
        **a_problem, lipschitz_rms=lambda radius: 2.5 * radius, optimum_on_ball=optimum_on_ball, asked=asked
    )


def test_theorem_2s_parameters():
    """lambda = epsilon/G^2 = (2/3)/(25/4), D~ = (3/7)^2, as fractions, or as floats where one of the three is."""
    given = {"lipschitz": Q(5, 2), "sigma": Q(1, 3)}
    one = fedmls_parameters(at_hand(), Q(2, 3), 2.0, Q(3, 7), **given)
    assert one == FedMLS(Q(8, 75), Q(9, 49), 10, 2.0, Q(5, 2), Q(1, 3)) and isinstance(one.lam, Q)
    assert fedmls_parameters(at_hand(), Q(2, 3), 2.0, Q(3, 7), rounds="printed", **given).rounds == 14
    assert fedmls_parameters(at_hand(), Q(2, 3), 2.0, Q(3, 7), rounds=7, **given).rounds == 7
    solved = fedmls_parameters(at_hand(), Q(2, 3), 2.0, Q(3, 7), local_training="exact-prox", **given)
    assert (solved.rounds, solved.local_training) == (6, "exact-prox")
    still = fedmls_parameters(at_hand(), Q(2, 3), 2.0, 0, **given)  # distance epsilon/G, for which K(K + 1) >= 36
    assert (still.D, still.rounds) == (Q(16, 225), 6)
    for floats in ((0.5, 2.5, Q(3, 7)), (Q(1, 2), 2.5, Q(3, 7)), (Q(1, 2), Q(5, 2), 0.375)):
        found = fedmls_parameters(at_hand(), floats[0], 2.0, floats[2], lipschitz=floats[1])
        assert type(found.lam) is float and found.lam == 0.08 and type(found.D) is float
    measured = fedmls_parameters(at_hand(), 0.5, 0.5, 0.25)  # G = 5/4
    assert (measured.lipschitz, measured.lam, measured.D, measured.radius, measured.sigma) == (1.25, 0.32, 0.0625, 0.5, 0)


def test_the_distance_comes_from_the_optimum():
    problem = at_hand()
    assert fedmls_parameters(problem, 0.5, 4.0).D == 4.0 and problem.asked == [4.0, 8.0]
    assert fedmls_parameters(at_hand(), 0.5, 4.0, x0=[-1.0]).D == 9.0
    assert fedmls_parameters(at_hand(), 0.5, 4.0, x0=[-4.0]).D == 36.0  # on the rim
    assert fedmls_parameters(at_hand(), 0.5, math.inf, lipschitz=1.0).D == 4.0
    with pytest.raises(InvalidInput, match=r"x0 has shape \(2,\): expected \(1,\)"):
        fedmls_parameters(at_hand(), 0.5, 4.0, x0=[1.0, 2.0])
    with pytest.raises(InvalidInput, match=r"\|\|x_0\|\| = 4.5 is outside .* R = 4: enlarge"):
        fedmls_parameters(at_hand(), 0.5, 4.0, x0=[-4.5])
    # lower on a ball of twice the radius by more than 1e-9 of the value, or of 1
    assert fedmls_parameters(at_hand(value=5.0, wider=5.0 - 4e-9), 0.5, 4.0).D == 4.0
    for value, wider in ((5.0, 5.0 - 6e-9), (0.5, 0.5 - 1.1e-9)):
        says = r"^radius = 4: the ball holds no minimiser: F reaches .* at \|\|x\|\| = 2, .*: enlarge the radius"
        with pytest.raises(InvalidInput, match=says):
            fedmls_parameters(at_hand(value=value, wider=wider), 0.5, 4.0)
    assert fedmls_parameters(at_hand(value=0.5, wider=0.5 - 0.9e-9), 0.5, 4.0).D == 4.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"epsilon": 0}, "^epsilon = 0: .*> 0"),
        ({"radius": 0}, "^radius = 0: the ball's radius R must be > 0$"),
        ({"radius": -1}, "^radius = -1: the ball's radius R must be > 0$"),
        ({"radius": math.nan}, "^radius = nan: the ball's radius R must be > 0$"),
        ({"distance": None, "x0": "left"}, "^x0 "),
        ({"distance": -1}, r"^distance = -1: \|\|x_0 - x\*\|\| must be a finite number >= 0"),
        ({"distance": math.inf}, "^distance = inf: "),
    ],
)
def test_parameters_that_are_refused(change, says):
    with pytest.raises(InvalidInput, match=says):
        fedmls_parameters(at_hand(), **{"epsilon": 0.5, "radius": 2.0, "distance": 1.0, "lipschitz": 1.0} | change)


def test_hyperparameters_at_their_limits():
    tiny = 5e-324
    for name in ("lam", "D", "lipschitz"):
        assert getattr(replace(METHOD, **{name: tiny}), name) == tiny
        for value in (0, -1.0, math.inf, "1"):
            with pytest.raises(InvalidInput, match=f"^{name} = {value!r}: .* must be a finite number > 0"):
                replace(METHOD, **{name: value})
    for value in (-tiny, math.inf):
        with pytest.raises(InvalidInput, match=f"^sigma = {value!r}: the noise sigma must be a finite number >= 0"):
            replace(METHOD, sigma=value)
    for value in (0, 1.0, True):
        with pytest.raises(InvalidInput, match=f"^rounds = {value!r}: the number of rounds K must be an integer >= 1"):
            replace(METHOD, rounds=value)
    assert replace(METHOD, rounds=np.int64(1), sigma=0, radius=math.inf).rounds == 1
    for value in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidInput, match=rf"^radius = {value!r}: the ball's radius R must be > 0 \(math.inf for no ball\)"):
            replace(METHOD, radius=value)
    with pytest.raises(InvalidInput, match=r"^noise_std = 0.1: local_training = 'exact-prox' asks for no subgradients"):
        replace(METHOD, local_training="exact-prox", noise_std=0.1)


def test_runs_that_are_refused():
    def problem(*weights):
        return SimpleNamespace(weights=np.array(weights), num_clients=len(weights))

    METHOD.check_run(problem(0.5 + 4e-10, 0.5 - 4e-10), 3)
    with pytest.raises(InvalidInput, match=r"weights lie between 0.4 and 0.6.*weights='uniform'"):
        METHOD.check_run(problem(0.4, 0.6), 3)
    with pytest.raises(InvalidInput, match="weights lie between"):
        METHOD.check_run(problem(0.5 + 6e-10, 0.5 - 6e-10), 3)
    for rounds in (2, 4):
        with pytest.raises(InvalidInput, match=rf"^rounds = {rounds}, .* K = 3, .*: run 3 rounds, or make it with rounds={rounds}"):
            METHOD.check_run(problem(0.5, 0.5), rounds)
    rim = np.array([[0.0, 2.0 * (1 + 1e-13)]])
    assert METHOD.init(rim, 3).z_local.shape == (1, 3, 2)
    with pytest.raises(InvalidInput, match=r"\|\|x_0\|\| = 2.1 is outside the ball of radius R = 2: enlarge"):
        METHOD.init(np.array([[0.0, 1.0], [0.0, 2.1]]), 3)


PROBLEM = problems.L1Distance(np.random.default_rng(8).normal(size=(3, 2)))


def clients(k, solver=None, state=None):
    everybody = Cohort(3, members=np.array([[0, 1, 2]] * 2))
    return Clients(PROBLEM, everybody, solver or SubgradientSliding(engine="numpy"), state.x, round_index=k)


def test_the_last_round_may_leave_out_its_local_work():
    """gamma = 1/2 and k/4 = 3/4 in round 3 of 3."""
    old = in_general_position(METHOD)
    view = clients(3, state=old)
    new = METHOD.round(old, view)
    assert not view.results and new.x_local is old.x_local and new.z_local is old.z_local
    y = (old.x + old.z) / 2
    z = old.z - 3 / 4 * (y - (old.x_local + old.z_local).mean(axis=1) / 2)
    z = z * np.minimum(1, 2 / np.linalg.norm(z, axis=-1, keepdims=True))
    agree(new.z, z)
    agree(new.x, (old.x + z) / 2)
    full = clients(3, state=old)
    agree(replace(METHOD, skip_last=False).round(old, full).x, new.x)
    assert len(full.results) == 1
    with pytest.raises(InvalidInput, match=r"^round 4, .* K = 3 rounds: make it with rounds >= 4"):
        METHOD.round(old, clients(4, state=old))


def test_whose_noise_and_engine():
    """The run's local solver hands over batches, engine and noise, and T_k steps; the method's own noise goes first; an exact one
    takes none."""
    state, T = in_general_position(METHOD), METHOD.steps(2)
    given = SubgradientSliding(noise_std=0.3, engine="numpy")
    assert T > 1 and METHOD._solver(clients(2, given, state)) == replace(given, steps=T, radius=2.0)
    assert replace(METHOD, noise_std=0.7)._solver(clients(2, given, state)) == replace(given, steps=T, radius=2.0, noise_std=0.7)
    assert METHOD._solver(clients(2, ExactProx(2.0), state)) == SubgradientSliding(steps=T, radius=2.0)
    solved, exact = replace(METHOD, local_training="exact-prox"), ExactProx(2.0)
    assert solved._solver(clients(2, exact, state)) is exact
    assert solved._solver(clients(2, SubgradientSliding(), state)) == ExactProx(2.0)
    for noisy in (given, SubgradientSliding(batch_size=2)):
        with pytest.raises(InvalidInput, match=r"^local solver SubgradientSliding.*leave it out"):
            solved._solver(clients(2, noisy, state))


def test_long_runs_are_announced(monkeypatch):
    """44 steps a client of 81.8 seconds, with 1e-4 seconds a round, are a little less than an hour; of 81.9 seconds more."""
    view = SimpleNamespace(num_clients=3, scenarios=range(2))
    seconds = [1e9]
    monkeypatch.setattr(FedMLS, "_seconds_per_step", lambda *_: seconds[0])
    METHOD._check_duration(view, None, None)  # 264 steps in all are not worth a measurement
    monkeypatch.setattr(fedmls, "ALWAYS_SHORT", 264)
    for refused in (METHOD, replace(METHOD, local_training="exact-prox")):
        with pytest.raises(InvalidInput, match="would take"):
            refused._check_duration(view, None, None)
        replace(refused, allow_long=True)._check_duration(view, None, None)
    seconds[0] = 81.8
    METHOD._check_duration(view, None, None)
    seconds[0] = 81.9
    says = r"^K = 3 rounds with 44 local steps a client \(T_K = 78\) would take about 60 minutes here: .*allow_long=True"
    with pytest.raises(InvalidInput, match=says):
        METHOD._check_duration(view, None, None)
    seconds[0] = 4000.0
    with pytest.raises(InvalidInput, match=r"^K = 3 rounds with 2 local problems a client would take about 2.2 hours here: "):
        replace(METHOD, local_training="exact-prox")._check_duration(view, None, None)
    seconds[0] = 0.0  # a tenth of a millisecond a round is left
    replace(METHOD, lam=1e-9, rounds=36_000_000)._check_duration(view, None, None)
    with pytest.raises(InvalidInput, match="36,000,001 rounds"):
        replace(METHOD, lam=1e-9, rounds=36_000_001)._check_duration(view, None, None)


def test_durations():
    hour, day, year = 3600, 86400, 365.25 * 86400
    said = [(40, "40 seconds"), (119.4, "119 seconds"), (120, "2 minutes"), (5400, "90 minutes"), (2 * hour - 1, "120 minutes")]
    said += [(2 * hour, "2.0 hours"), (3.2 * hour, "3.2 hours"), (2 * day - 1, "48.0 hours"), (2 * day, "2.0 days")]
    said += [(2 * year - 1, "730.5 days"), (2 * year, "2.0 years"), (12 * year, "12.0 years"), (9999.9 * year, "9,999.9 years")]
    said += [(1e4 * year, "1e+04 years"), (2.5e6 * year, "2.5e+06 years")]
    assert [duration(seconds) for seconds, _ in said] == [words for _, words in said]


def test_how_long_a_step_takes(monkeypatch):
    """Ten microseconds each, after one of any T_1: more and more steps until they take a hundredth of a second together; or one
    local problem."""
    clock, cost, work, made = [0.0], [0.0], [], []

    class Probe:
        def __init__(self, *given):
            made.append(given)
            self.solver = given[2]

        def minimise(self, objective, start, solver=None):
            solver = solver or self.solver
            work.append((objective, start, getattr(solver, "steps", None)))
            clock[0] += cost[0] * (1 if isinstance(solver, ExactProx) else solver.steps)

    monkeypatch.setattr(fedmls, "Clients", Probe)
    monkeypatch.setattr(fedmls, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    view = SimpleNamespace(broadcast=lambda x: 2 * x, problem="f", cohort="all", stream="draws", scenarios="both")
    for each, solver, steps, seconds in (
        (1e-5, SubgradientSliding(steps=5), [1, 16, 64, 256, 1024], 1e-5),
        (0.0, SubgradientSliding(steps=5), [1, *(4**i for i in range(2, 12))], 0.0),  # up to the first above 2^20
        (7.0, ExactProx(2.0), [None, None], 7.0),
    ):
        clock[0], cost[0] = 3.0, each
        assert METHOD._seconds_per_step(view, solver, 4.0) == pytest.approx(seconds, rel=1e-9)
        first = solver if isinstance(solver, ExactProx) else replace(solver, steps=1)
        assert [done[2] for done in work] == steps and made == [("f", "all", first, 4.0, "draws", 1, "both")]
        assert all((o.center, o.curvature, o.l1, start) == (8.0, 1.0, 0.0, 8.0) for o, start, _ in work)
        work.clear(), made.clear()


def test_which_runs_are_measured(monkeypatch):
    """A hundred thousand rounds, however little is done in each; an exact one is checked against its problem."""
    view = SimpleNamespace(num_clients=3, scenarios=range(2))
    monkeypatch.setattr(FedMLS, "_seconds_per_step", lambda *_: 1e9)
    monkeypatch.setattr(FedMLS, "total_steps", lambda self: 1)
    replace(METHOD, rounds=10**5 - 1)._check_duration(view, None, None)
    with pytest.raises(InvalidInput, match="would take"):
        replace(METHOD, rounds=10**5)._check_duration(view, None, None)
    asked = []
    monkeypatch.setattr(fedmls, "ExactProx", lambda radius: SimpleNamespace(check=lambda problem: asked.append((radius, problem))))
    problem = SimpleNamespace(weights=np.array([0.5, 0.5]), num_clients=2)
    METHOD.check_run(problem, 3)
    assert not asked
    replace(METHOD, local_training="exact-prox").check_run(problem, 3)
    assert asked == [(2.0, problem)]


def test_a_round_with_local_problems_solved():
    """On |u - c_i| a client's minimiser is the soft step from z' - g/beta to c_i; gamma = 2/3 and beta = 4/(2 lambda) in round 2."""
    line = problems.L1Distance(np.array([[3.0], [2.0], [-1.0]]))
    x, z, x_local, z_local = (np.array(v)[None] for v in ([0.5], [-0.25], [[0.3], [0.7], [-0.6]], [[1.1], [-0.4], [0.2]]))
    method = replace(METHOD, local_training="exact-prox", radius=4.0)
    view = Clients(line, Cohort(3, members=np.array([[0, 1, 2]])), ExactProx(4.0), x, round_index=2)
    new = method.round(fedmls.FedMLSState(x, z, x_local, z_local), view)
    beta, y = 4 / (2 / 3 * 2), x / 3 + 2 * z / 3
    g = (x_local / 3 + 2 * z_local / 3 - y[:, None]) * 3 / 2
    free, centers = z_local - g / beta, np.array([[[3.0], [2.0], [-1.0]]])
    wanted = centers + np.sign(free - centers) * np.maximum(np.abs(free - centers) - 1 / beta, 0)
    np.testing.assert_allclose(new.z_local, wanted, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(new.x_local, x_local / 3 + 2 * new.z_local / 3, rtol=1e-12)
