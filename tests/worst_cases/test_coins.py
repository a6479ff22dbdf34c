"""Methods that flip coins: every way for them to fall, bounds and potentials of expectations, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction as F
from itertools import combinations, product
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from certificates_at_hand import from_file
from command_line import call, refused

from fedtheory import algorithms, problems
from fedtheory.algorithms import Algorithm
from fedtheory.algorithms.fedavg import FedAvgState
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.local import GradientSteps
from fedtheory.local.objective import LocalObjective
from fedtheory.participation.cohorts import Full
from fedtheory.worst_cases import Losses, certificate, quadratic_potential, verify, worst_case, worst_function
from fedtheory.worst_cases.bounds import asked, asked_points, branches
from fedtheory.worst_cases.coins import Coins, every_way
from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, entry
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import NoMultipliers, maximise, optimum
from fedtheory.worst_cases.quadratic_potentials import SIZE, S, potential_question
from fedtheory.worst_cases.readable import of_certificate, script
from fedtheory.worst_cases.runs import Run

MU = F(1, 10)
LOSSES = Losses(F(1), MU)
HALF = F(1, 2)


@dataclass(frozen=True)
class Lazy(algorithms.FedDyn):
    """FedDyn that stays where it is unless a coin says otherwise."""

    name: ClassVar[str] = "lazy"
    p: float = 0.5

    def round(self, state, clients):
        coin, after = clients.coin(self.p), super().round(state, clients)
        faces = (coin[..., None] if a.ndim == 3 else coin for a in state)
        return type(after)(*(clients.xp.where(c, b, a) for c, a, b in zip(faces, state, after, strict=True)))


@dataclass(frozen=True)
class LazyDescent(Algorithm):
    """Gradient descent, by a coin or two."""

    name: ClassVar[str] = "lazy-descent"
    p: float = 0.5
    again: bool = False
    by_number: bool = False

    def init(self, x, num_clients):
        return FedAvgState(x)

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        coin = clients.coin(F(1, clients.num_clients) if self.by_number else self.p)
        if self.again and not coin.all():
            coin = clients.coin(self.p)
        return FedAvgState(clients.xp.where(coin, clients.mean(y), state.x))


class DelayedState(NamedTuple):
    x: Any
    m: Any  # a gradient of the last round
    n: Any  # one of the round before
    a: Any  # the clients' corrections of the last round
    b: Any


@dataclass(frozen=True)
class Delayed(Algorithm):
    """Local work with corrections that are two rounds old, and a step along an old gradient; it stays where heads fall."""

    name: ClassVar[str] = "delayed"
    stay: float | None = None

    def init(self, x, num_clients):
        own = 0 * x[:, None, :] + np.zeros((1, num_clients, 1), dtype=int)
        return DelayedState(x, 0 * x, 0 * x, own, own)

    def round(self, state, clients):
        heads = None if self.stay is None else clients.coin(self.stay)
        center = clients.spread(state.x)
        result = clients.minimise(LocalObjective(center=center, linear=state.b), start=center)
        x = clients.mean(result.y)
        new = state.b + (clients.spread(x) - result.y) / result.step_sum
        after = DelayedState(x - state.n / 50, clients.mean(clients.gradient(center)), state.m, new, state.a)
        if heads is None:
            return after
        faces = (heads[..., None] if a.ndim == 3 else heads for a in state)
        return DelayedState(*(clients.xp.where(c, a, b) for c, a, b in zip(faces, state, after, strict=True)))


@dataclass(frozen=True)
class Elsewhere(LazyDescent):
    """A step, and another from where it led or from twice as far."""

    name: ClassVar[str] = "elsewhere"

    def round(self, state, clients):
        x = clients.spread(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        start = clients.xp.where(clients.coin(self.p)[..., None], y, 2 * y - x)
        return FedAvgState(clients.mean(clients.minimise(LocalObjective(center=x), start=start).y))


@dataclass(frozen=True)
class LazyUpdates(LazyDescent):
    """Updates are sent where heads fall."""

    name: ClassVar[str] = "lazy-updates"
    compresses: ClassVar[tuple[str, ...]] = ("up",)
    error_feedback: ClassVar[bool] = False

    def round(self, state, clients):
        x = clients.spread(state.x)
        update = clients.minimise(LocalObjective(center=x), start=x).y - x
        senders = np.repeat(clients.coin(self.p), update.shape[1], axis=1)
        return FedAvgState(state.x + clients.mean(clients.send(update, senders=senders)))


@dataclass(frozen=True)
class Adds(LazyDescent):
    """Clients add up their gradients where tails fall, for ever."""

    name: ClassVar[str] = "adds"

    def init(self, x, num_clients):
        return AddsState(x, 0 * x[:, None, :] + np.zeros((1, num_clients, 1), dtype=int))

    def round(self, state, clients):
        heads, gradients = clients.coin(self.p), clients.gradient(clients.spread(state.x))
        return AddsState(
            state.x - clients.mean(gradients),
            clients.xp.where(heads[..., None], state.sums, state.sums + gradients),
        )


class AddsState(NamedTuple):
    x: Any
    sums: Any


class Faced(Clients):
    """Two scenarios, in which the coin shows heads and tails."""

    def coin(self, p):
        return np.array([[True], [False]])


# --- the ways for coins to fall -----------------------------------------------------------------------------------------
def test_every_way():
    def two(coins):
        return coins.flip(F(1, 3)), coins.flip(F(1, 4))

    ways = {faces: coins.weight for coins, faces in every_way(two)}
    assert ways == {
        (True, True): F(1, 12), (True, False): F(1, 4), (False, True): F(1, 6), (False, False): HALF
    }  # fmt: skip
    until_tails = every_way(lambda coins: [coins.flip(HALF) and coins.flip(HALF), str(coins)][1])
    assert sorted((word, coins.weight) for coins, word in until_tails) == [("++", F(1, 4)), ("+-", F(1, 4)), ("-", HALF)]
    assert [(coins.weight, found) for coins, found in every_way(lambda coins: 7)] == [(1, 7)]


@pytest.mark.parametrize(("p", "face"), [(0, False), (1, True), (1.0, True)])
def test_a_coin_that_always_falls_alike_is_one_way(p, face):
    assert [(coins.weight, found) for coins, found in every_way(lambda coins: coins.flip(p))] == [(1, face)]


@pytest.mark.parametrize("p", [F(3, 2), -0.1])
def test_a_probability(p):
    with pytest.raises(InvalidInput, match=r"a probability lies in \[0, 1\]"):
        Coins().flip(p)


def test_the_branches_of_a_run_share_what_they_have_in_common():
    run, found = branches(asked("scaffnew", {"step": F(1), "p": F(1, 3)}, rounds=2))
    assert [(b.name, b.weight) for b in found] == [("+/+/", F(1, 9)), ("+/-/", F(2, 9)), ("-/+/", F(2, 9)), ("-/-/", F(4, 9))]
    assert list(run.points) == ["*", "g0.0", "g1+/.0", "g1-/.0"]  # all in the first round are at x_0
    start, heads, tails = (run.points[name].at for name in list(run.points)[1:])
    assert heads == start.average - run.points["g0.0"].gradient.average  # gamma = 1
    assert tails == start - run.points["g0.0"].gradient
    assert found[2].models[1] == found[0].models[0] != found[0].models[1]
    assert found[3].models[-1] == start  # the server has heard of nobody


def test_gradients_after_the_coin_have_names_of_their_own():
    run, _ = branches(asked(Elsewhere, {"step": F(1)}, rounds=1))
    at = {name: point.at - Run.start for name, point in run.points.items()}
    assert list(at) == ["*", "g0.0", "g0+.1", "g0-.1"] and at["g0-.1"] == 2 * at["g0+.1"] != 0 * at["g0+.1"]


@pytest.mark.parametrize("criterion", ["gap", "distance", "gradient", "best-gap"])
def test_no_loss_is_asked_twice_at_one_place(criterion):
    """Else the programme has no interior."""
    points = asked_points(asked("scaffnew", {"step": F(1)}, rounds=3, criterion=criterion))
    assert all(a.at != b.at for a, b in combinations(points, 2)) and len(points) > 7


# --- bounds -------------------------------------------------------------------------------------------------------------
CRITERIA = ["gap", "distance", "gradient", "best-gap"]


@pytest.mark.parametrize("criterion", CRITERIA)
def test_with_probability_one_it_is_gradient_descent(criterion):
    ours, known = (
        worst_case(method, rounds=2, criterion=criterion, step=F(1), **more)
        for method, more in (("scaffnew", {"p": 1}), ("fedavg", {}))
    )
    assert ours.best == pytest.approx(known.best, abs=1e-7) and not ours.flips


def test_with_probability_one_and_several_steps_it_is_vrl_sgd():
    ours, known = (
        worst_case(method, local_steps=2, rounds=2, step=F(1, 4), **more)
        for method, more in (("scaffnew", {"p": 1}), ("vrl-sgd", {}))
    )
    assert ours.best == pytest.approx(known.best, abs=1e-7)


@pytest.mark.parametrize("p", [F(1, 4), HALF, F(9, 10)])
def test_one_round_of_lazy_descent(p):
    """The parabola has (1 - p)/2, and Huber's loss of slope 1/(1 + 2 p) has half of that slope."""
    found = worst_case(LazyDescent, step=F(1), p=p)
    assert found.best == pytest.approx(float(max((1 - p) / 2, 1 / (2 + 4 * p))), abs=1e-6) and found.flips


def test_two_coins_are_one_of_another_probability():
    twice, once = worst_case(LazyDescent, rounds=2, p=HALF, again=True), worst_case(LazyDescent, rounds=2, p=F(3, 4))
    assert twice.best == pytest.approx(once.best, abs=1e-6)
    assert len(branches(twice.question)[1]) == 9 and len(branches(once.question)[1]) == 4


def test_a_function_of_the_models_is_asked_in_every_branch():
    named, own = (worst_case("scaffnew", rounds=2, step=F(1), criterion=c) for c in ("gap", lambda q: q.gap(q.x[-1])))
    assert own.best == pytest.approx(named.best, abs=1e-7)
    mixed = worst_case("scaffnew", rounds=2, step=F(1), criterion=lambda q: q.gap(q.x[1]) / 2 + q.gap(q.x[2]) / 2)
    first = worst_case("scaffnew", rounds=1, step=F(1))
    assert named.best < mixed.best <= (first.best + named.best) / 2 + 1e-7


def test_a_probability_that_depends_on_the_number_of_clients():
    few, more = (worst_case(LazyDescent, by_number=True, clients=n, step=F(1)) for n in (2, 4))
    assert few.best == pytest.approx(0.25, abs=1e-6) and more.best == pytest.approx(0.375, abs=1e-6)
    assert not few.any_number and worst_case(LazyDescent, step=F(1)).any_number
    assert not quadratic_potential(LazyDescent, by_number=True, losses=LOSSES, step=F(1)).any_number


@dataclass(frozen=True)
class Shares(LazyDescent):
    """Gradient descent whose server takes 1/N of the step, without a coin."""

    name: ClassVar[str] = "shares"

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        return FedAvgState(state.x + clients.mean(y - x) / clients.num_clients)


def test_a_last_step_that_depends_on_the_number_of_clients():
    few, more = (worst_case(Shares, criterion="distance", losses=LOSSES, clients=n, step=F(1)) for n in (2, 4))
    assert few.best == pytest.approx(0.95**2, abs=1e-6) and more.best == pytest.approx(0.975**2, abs=1e-6)
    assert not few.any_number and not more.any_number


@pytest.mark.parametrize("criterion", CRITERIA)
def test_real_runs_stay_below_their_bounds(criterion):
    """Expectations over all faces of the coins, on random quadratics with 0 <= mu, L <= 1."""
    rounds, p, gamma = 3, F(2, 5), F(3, 4)
    method = algorithms.Scaffnew(float(p))
    for seed in range(3):
        problem = problems.random_quadratic(num_clients=3, dim=2, heterogeneity=1.0, condition=9.0, seed=seed)
        star = problem.optimum().x
        rng = np.random.default_rng(seed)
        start = star + rng.standard_normal(2)
        zeta = np.sqrt((problem.gradient(star) ** 2).sum(axis=1).mean())
        distance = np.linalg.norm(start - star)
        found = worst_case(
            "scaffnew", rounds=rounds, criterion=criterion, step=gamma, p=p, heterogeneity=F(zeta * 1.001),
            distance=F(distance * 1.001),
        )  # fmt: skip
        law, runs, weights = Full().sample(None, 1, range(1), 3), [], []
        for faces in product([0, 1], repeat=rounds):
            state, models = method.init(start[None], 3), [start]
            for t, face in enumerate(faces, 1):

                class Given(Clients):
                    def coin(self, p, face=face):
                        return np.array([[bool(face)]])

                state = method.round(state, Given(problem, law, GradientSteps(1, float(gamma)), state.x, round_index=t))
                models.append(state.x[0])
            runs.append(models)
            weights.append(float(np.prod([float(p if face else 1 - p) for face in faces])))
        runs, weights = np.array(runs), np.array(weights)
        assert weights.sum() == pytest.approx(1)
        gaps = problem.objective(runs) - problem.objective(star)
        value = {
            "gap": weights @ gaps[:, -1], "best-gap": (weights @ gaps)[:-1].min(),
            "distance": weights @ ((runs[:, -1] - star) ** 2).sum(axis=1),
            "gradient": weights @ (problem.full_gradient(runs[:, -1]) ** 2).sum(axis=1),
        }[criterion]  # fmt: skip
        assert 0.01 * float(found.bound) < value <= float(found.bound)


def test_its_certificate(tmp_path):
    found = worst_case("scaffnew", rounds=2, step=F(1), p=F(1, 3))
    again = from_file(found, tmp_path)
    question = {**again.question, "options": {**again.question["options"], "p": "1/2"}}
    with pytest.raises((NotCertified, InvalidInput)):
        verify(type(again)(question, again.claim, again.multipliers, again.factors))


def test_what_is_refused():
    with pytest.raises(MissingCapability, match=r"scaffnew\.py, line \d+, `coin = clients\.coin\(self\.p\)`: flips a coin.*no cohorts"):
        worst_case("scaffnew", rounds=2, clients=3, participants=2)
    with pytest.raises(MissingCapability, match=r"flips a coin.*no cohorts"):
        worst_case("scaffnew", criterion="distance", clients=3, participants=2)
    with pytest.raises(MissingCapability, match=r"flips a coin.*no cohorts"):
        quadratic_potential("scaffnew", losses=LOSSES, clients=3, participants=2)
    with pytest.raises(InvalidInput, match="4,032 conditions on the losses: at most 4,000; take fewer rounds or local steps"):
        worst_case("scaffnew", rounds=7)
    with pytest.raises(InvalidInput, match="more than 256 ways for the coins to fall: take fewer rounds"):
        worst_case(Stays, rounds=9)
    with pytest.raises(InvalidInput, match="no worst function of scaffnew, whose rounds flip coins"):
        worst_function(worst_case("scaffnew"))
    whole = worst_case("scaffnew", rounds=2, p=1, step=F(1))
    assert worst_function(whole).measured() == pytest.approx(whole.best, rel=1e-4)


class Stays(LazyDescent):
    """Flips its coin for nothing."""

    name = "stays"

    def round(self, state, clients):
        return FedAvgState(clients.xp.where(clients.coin(HALF), state.x, state.x))


def test_a_proof_to_read_checks_itself(tmp_path):
    bound = worst_case("scaffnew", rounds=2, step=F(1), p=F(1, 3))
    potential = quadratic_potential("scaffnew", losses=LOSSES, step=F(20, 11), p=HALF)
    for i, found in enumerate((bound, potential)):
        file = tmp_path / f"{i}.py"
        file.write_text(script(of_certificate(certificate(found))))
        done = subprocess.run([sys.executable, "-I", file], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0 and "The identity holds" in done.stdout, done.stderr


def test_any_compressor_of_a_contraction_falls_with_the_coin():
    """Compressed after the coin, a message is another one for each face; of delta = 1 nothing is left out."""
    whole, sure = (worst_case(LazyUpdates, step=HALF, **more) for more in ({}, {"contraction": 1}))
    assert sure.best == pytest.approx(whole.best, abs=1e-7)
    half = worst_case(LazyUpdates, step=HALF, contraction=HALF)
    run, _ = branches(half.question)
    assert half.best > whole.best + 1e-3 and list(run.conditions) == ["c0+.1"]


def test_the_command_line(tmp_path):
    out = ("--out", tmp_path)
    text = call("worst-case", "scaffnew", "--rounds", 2, "--step", 1, "--given", "p=1/3", *out).stdout
    assert "p = 1/3" in text and "E F(x_T) - F*" in text and "any number of clients" in text
    assert "E F(x_t)" in call("worst-case", "scaffnew", "--criterion", "best-gap", "--step", 1, *out).stdout
    (file,) = tmp_path.glob("*p1_3*.json")
    assert "proved" in call("replay", file).stdout
    told = refused("worst-case", "scaffnew", "--step", 1, "--instance", tmp_path / "w.json", *out)
    assert "no worst function of scaffnew, whose rounds flip coins" in told and not (tmp_path / "w.json").exists()
    text = call("worst-case", "scaffnew", "--lyapunov", "--step", "20/11", *out).stdout
    assert "0.745431" in text


# --- potentials ---------------------------------------------------------------------------------------------------------
RATES = [  # by the sketch of potentials over mean ||x_k - x*||^2, which ask the same
    (F(1), F(1, 2), 0.81),
    (F(20, 11), F(1, 2), 0.745431),
    (F(1), F(1), 0.81),  # gradient descent
    (F(20, 11), F(1), (9 / 11) ** 2),
]


@pytest.mark.parametrize(("gamma", "p", "rho"), RATES)
def test_the_best_potential_of_scaffnew(gamma, p, rho):
    found = quadratic_potential("scaffnew", losses=LOSSES, step=gamma, p=p)
    assert float(found.rho) == pytest.approx(rho, abs=3e-6)
    assert found.c == 0 and found.any_number
    assert found.best >= found.below - 1e-6
    assert float(found.rho) < max(1 - float(gamma * MU), 1 - float(p) ** 2)


@pytest.mark.parametrize(("gamma", "p"), [(F(1), HALF), (F(20, 11), HALF), (F(1), F(1, 5))])
def test_the_printed_potential(gamma, p):
    """mean ||x_k - x*||^2 + (gamma/p)^2 mean ||h_k - grad f_k(x*)||^2 falls by max{(1 - gamma mu)^2, 1 - p^2}, and no faster.

    Theorem 3.6 has max{1 - gamma mu, 1 - p^2}, for gamma <= 1/L.
    """
    system = potential_question("scaffnew", {"step": gamma, "p": p}, 1, LOSSES).system()

    def printed(rho):
        terms = system.family(LOSSES, rho).terms
        weights = {"V mean local, local": 1, "V deviation local', local'": 1, "V deviation h', h'": (gamma / p) ** 2}
        given = Quadratic.total(F(c) * terms[name] for name, c in weights.items())
        places = ((MEAN, "local"), (DEVIATION, "local'"))
        size = Quadratic({entry(f"V {block}", f, f): F(-1) for block, f in places})
        kept = {name: term for name, term in terms.items() if not name.startswith("V ")}
        return Family(Quadratic({SIZE: F(1)}), {**kept, "V given": given, S: size}, frozenset({S, "V given"}))

    rho = max((1 - gamma * MU) ** 2, 1 - p**2)
    assert maximise(printed(rho + F(1, 10**5)), S).numbers[S] > 0
    try:
        found = optimum(printed(rho - F(1, 10**4)), S)
    except NoMultipliers:
        found = 0.0
    assert found < 1e-6


@pytest.mark.parametrize(("steps", "p"), [(2, F(1)), (2, HALF), (4, HALF)])
def test_several_local_steps_fall_as_gradient_steps_do(steps, p):
    found = quadratic_potential("scaffnew", local_steps=steps, losses=LOSSES, step=F(1, 4), p=p)
    assert float(found.rho) == pytest.approx((1 - 0.25 * 0.1) ** (2 * steps), abs=3e-6)


def test_nothing_is_below_the_rate_on_parabolas():
    system = potential_question("scaffnew", {"step": F(1), "p": HALF}, 1, LOSSES).system()
    low = system.on_parabolas(LOSSES)
    assert low == pytest.approx(0.81)
    assert optimum(system.family(LOSSES, F(round((low - 1e-3) * 10**6), 10**6), False), S) < 1e-6


def test_a_lazy_method_has_the_mean_of_its_rates():
    """E V+ = p V(after) + (1 - p) V: gradient descent, and FedDyn with values of F in V."""
    for p in (F(1, 4), HALF):
        found = quadratic_potential(LazyDescent, losses=LOSSES, step=F(20, 11), p=p)
        assert float(found.rho) == pytest.approx(1 - float(p) * (1 - (9 / 11) ** 2), abs=3e-6)
        found = quadratic_potential(Lazy, losses=LOSSES, alpha=1, p=p, step=F(1, 4))
        assert float(found.rho) == pytest.approx(1 - float(p) * (1 - 0.776601), abs=3e-6)
        assert found.valued


def test_what_is_reached_and_seen_by_tails_alone():
    """Heads leave everything as it is: the rate is p + (1 - p) times that without a coin."""
    options = {"losses": LOSSES, "local_steps": 2, "step": F(1, 4)}
    sure = quadratic_potential(Delayed, **options)
    found = quadratic_potential(Delayed, stay=F(1, 4), **options)
    systems = [q.question.system() for q in (sure, found)]
    assert [set(s.blocks["mean"]) for s in systems] == [{"x", "m", "n"}] * 2
    assert [set(s.blocks["deviation"]) for s in systems] == [{"a'", "b'"}] * 2
    assert 0.8 < sure.rho < 0.95 and sure.c == 0
    assert float(found.rho) == pytest.approx(0.25 + 0.75 * float(sure.rho), abs=5e-6)


def test_a_fixed_point_is_one_of_every_face():
    assert not potential_question(Adds, {}, 1, LOSSES).system().fixed


def test_it_falls_on_both_faces_of_real_rounds():
    """E V+ <= rho V from states along runs on random quadratics."""
    gamma, p = F(20, 11), HALF
    method, solver = algorithms.Scaffnew(0.5), GradientSteps(1, float(gamma))
    found = quadratic_potential("scaffnew", losses=LOSSES, step=gamma, p=p)
    least = 0.0

    def value(state, star, slopes):
        x, own, h = state.x - star, state.local - star, state.h - slopes
        mean = {"x": x, "local": own.mean(axis=1)}
        apart = {"local'": own - own.mean(axis=1, keepdims=True), "h'": h - h.mean(axis=1, keepdims=True)}
        total = 0.0
        for (f, g), c in found.matrices["mean"].items():
            total = total + float(c) * (mean[f] * mean[g]).sum(axis=-1)
        for (f, g), c in found.matrices["deviation"].items():
            total = total + float(c) * (apart[f] * apart[g]).sum(axis=-1).mean(axis=-1)
        return total

    law = Full().sample(None, 1, range(2), 4)
    for seed in range(6):
        problem = problems.random_quadratic(num_clients=4, dim=3, heterogeneity=2.0, condition=9.99, seed=seed)
        star = problem.optimum().x
        slopes, rng = problem.gradient(star), np.random.default_rng(seed)
        state = method.init(star + rng.standard_normal((1, 3)), 4)
        for t in range(1, 9):
            (before,) = value(state, star, slopes)
            both = type(state)(*(np.repeat(v, 2, axis=0) for v in state))
            after = method.round(both, Faced(problem, law, solver, both.x, round_index=t))
            heads, tails = value(after, star, slopes)
            expected = float(p) * heads + float(1 - p) * tails
            assert expected <= float(found.rho) * before * (1 + 1e-9) + 1e-12
            assert before >= ((state.x - star) ** 2).sum() * (1 - 1e-9)
            least = max(least, expected / before)
            pick = int(rng.integers(2))
            state = type(after)(*(v[pick : pick + 1] for v in after))
    assert least > 0.5  # rounds on which it falls by less than that are among them


def test_the_certificate_of_a_potential(tmp_path):
    found = quadratic_potential("scaffnew", losses=LOSSES, step=F(20, 11), p=HALF)
    again = from_file(found, tmp_path)
    with pytest.raises(NotCertified):
        verify(type(again)(again.question, {"rho": found.rho - F(1, 1000), "c": F(0)}, again.multipliers, again.factors))
    question = {**again.question, "options": {**again.question["options"], "p": "1/3"}}
    with pytest.raises((NotCertified, InvalidInput)):
        verify(type(again)(question, again.claim, again.multipliers, again.factors))


def test_the_run_of_a_method_without_coins_is_one_branch():
    run, found = branches(asked("scaffold", {"step": F(1, 4)}, local_steps=2, rounds=2))
    assert [(b.weight, b.name) for b in found] == [(1, "")]
    assert list(run.points) == ["*", "g0.0", "g0.1", "g1.0", "g1.1"] and isinstance(run, Run)
