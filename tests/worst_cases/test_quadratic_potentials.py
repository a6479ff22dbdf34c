"""The best quadratic potentials: values of the literature, a lower bound, and real rounds on which they fall."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction as F
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from certificates_at_hand import from_file

from fedtheory import algorithms, problems
from fedtheory.algorithms import Algorithm
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified, UnknownName
from fedtheory.local import Exact, GradientSteps
from fedtheory.local.objective import LocalObjective
from fedtheory.participation.cohorts import Uniform
from fedtheory.worst_cases import Losses, certificate, quadratic_potential, verify
from fedtheory.worst_cases.programme import optimum
from fedtheory.worst_cases.quadratic_potentials import S, potential_question

MU = F(1, 10)
LOSSES = Losses(F(1), MU)


class State(NamedTuple):
    x: Any
    m: Any


@dataclass(frozen=True)
class Momentum(Algorithm):
    """FedAvg with momentum of the server."""

    name: ClassVar[str] = "momentum"
    beta: float = 0.5

    def init(self, x, num_clients):
        return State(x, 0 * x)

    def round(self, state, clients):
        w = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=w), start=w).y
        m = self.beta * state.m + clients.mean(y - w)
        return State(state.x + m, m)


KNOWN = [
    ("fedavg", 1, {"step": F(20, 11)}, (9 / 11) ** 2),  # gradient descent with 2/(L + mu)
    ("feddyn", 1, {"alpha": 1}, 1 / 1.1**2),  # Douglas-Rachford
    ("feddyn", 1, {"alpha": F("0.31623")}, 0.577218),
    ("scaffold", 1, {"step": F(1, 4)}, (1 - 0.25 * 0.1) ** 2),
    ("scaffold", 2, {"step": F(1, 4)}, (1 - 0.25 * 0.1) ** 4),
    ("scaffold", 3, {"step": F(1, 4)}, (1 - 0.25 * 0.1) ** 6),
    ("fedgate", 2, {"step": F(1, 4)}, (1 - 0.25 * 0.1) ** 4),
    ("vrl-sgd", 2, {"step": F(1, 4)}, (1 - 0.25 * 0.1) ** 4),
    ("mime", 2, {"step": F(1, 4)}, (1 - 0.25 * 0.1) ** 4),
    ("feddyn", 1, {"alpha": 1, "step": F(1, 4)}, 0.776601),  # with values of F; without them 0.961162
    ("feddyn", 4, {"alpha": 1, "step": F(1, 4)}, 0.819587),
]


@pytest.mark.parametrize(("method", "steps", "options", "rho"), KNOWN)
def test_known_rates(method, steps, options, rho):
    found = quadratic_potential(method, local_steps=steps, losses=LOSSES, **options)
    assert float(found.rho) == pytest.approx(rho, abs=3e-6)
    assert found.c == 0
    assert found.any_number
    assert found.rho >= found.best - 1e-9 >= found.below - 3e-6  # nothing is below the rate on equal parabolas


def test_a_rate_below_the_one_on_parabolas_has_no_potential():
    q = potential_question("scaffold", {"step": F(1, 4)}, 2, LOSSES)
    low = q.system().on_parabolas(LOSSES)
    assert optimum(q.family(F(round((low - 1e-3) * 10**6), 10**6), False), S) < 1e-6


def test_fedavg_and_fedprox_have_a_floor():
    """No fixed point is the optimum: c zeta^2 is added, and rho is that of the clients' steps."""
    found = quadratic_potential("fedavg", local_steps=2, losses=LOSSES, step=F(1, 4))
    assert float(found.rho) == pytest.approx((1 - 0.25 * 0.1) ** 4, abs=3e-6)
    assert found.c > 0
    assert quadratic_potential("fedprox", losses=LOSSES, mu=1).c > 0


@pytest.mark.parametrize("participants", [1, 5])
def test_cohorts(participants):
    found = quadratic_potential("feddyn", losses=LOSSES, alpha=1, clients=10, participants=participants)
    assert float(found.rho) == pytest.approx({1: 0.934011, 5: 0.826532}[participants], abs=3e-6)
    assert not found.any_number


# --- rounds of the real classes -------------------------------------------------------------------
def value(found, state, star):
    """V of a state, by its means and its deviations from the fixed point."""
    fields = {name: v for name, v in state._asdict().items() if v is not None}
    less = {name: v - star[name] for name, v in fields.items()}
    mean = {n: v if v.ndim == 2 else v.mean(axis=1) for n, v in less.items()}
    apart = {f"{n}'": v - v.mean(axis=1, keepdims=True) for n, v in less.items() if v.ndim == 3}
    total = 0.0
    for (f, g), c in found.matrices["mean"].items():
        total += float(c) * (mean[f] * mean[g]).sum(axis=-1)
    for (f, g), c in found.matrices["deviation"].items():
        total += float(c) * (apart[f] * apart[g]).sum(axis=-1).mean(axis=-1)
    return total


ROUNDS = [
    (algorithms.FedDyn(1.0), None, 1, {}), (algorithms.Scaffold(), GradientSteps(2, 0.25), 2, {"step": F(1, 4)}),
    (algorithms.FedGATE(), GradientSteps(2, 0.25), 2, {"step": F(1, 4)}),
    (Momentum(), GradientSteps(1, 0.25), 1, {"step": F(1, 4)}),
]  # fmt: skip


@pytest.mark.parametrize(("participants", "which"), [(4, 0), (4, 1), (4, 2), (4, 3), (2, 0), (2, 1)])
def test_it_falls_on_rounds_of_the_class(participants, which):
    """E V+ <= rho V from states along real runs on random quadratics, the cohorts enumerated."""
    method, solver, steps, options = ROUNDS[which]
    found = quadratic_potential(
        method, local_steps=steps, losses=LOSSES, clients=4, participants=participants, **options
    )
    assert not found.valued
    for seed in range(6):
        problem = problems.random_quadratic(num_clients=4, dim=3, heterogeneity=2.0, condition=9.99, seed=seed)
        x = problem.optimum().x
        slopes = problem.gradient(x)[None]
        star = {"x": x, "h": 0.0, "c": 0.0, "m": 0.0, "gradients": slopes, "c_k": slopes, "delta": slopes}
        rng = np.random.default_rng(seed)
        state = method.init(x + rng.standard_normal((1, 3)), 4)
        law = Uniform(participants).enumerate(4)
        for t in range(1, 6):
            before = value(found, state, star)
            many = type(state)(*(None if v is None else np.repeat(v, law.scenarios, axis=0) for v in state))
            after = method.round(many, Clients(problem, law, solver or Exact(), many.x, round_index=t))
            expected = (law.probability * value(found, after, star)).sum()
            assert expected <= float(found.rho) * before * (1 + 1e-9) + 1e-12
            assert before >= ((state.x - x) ** 2).sum() * (1 - 1e-9)
            pick = int(rng.integers(law.scenarios))
            state = type(after)(*(None if v is None else v[pick : pick + 1] for v in after))


# --- certificates, and what is refused ------------------------------------------------------------
def test_its_certificate(tmp_path):
    found = quadratic_potential("feddyn", losses=LOSSES, alpha=1, step=F(1, 4))
    again = from_file(found, tmp_path)
    assert again.claim == {"rho": found.rho, "c": F(0)}
    with pytest.raises(NotCertified):
        verify(replace(again, claim={"rho": found.rho - F(1, 1000), "c": F(0)}))
    with pytest.raises(NotCertified):
        verify(replace(again, claim={"rho": found.rho, "c": F(-1)}))
    some = next(iter(again.multipliers))
    with pytest.raises(NotCertified):
        verify(replace(again, multipliers={**again.multipliers, some: again.multipliers[some] + F(1, 10**6)}))


def test_a_method_of_ones_own_needs_its_class(tmp_path):
    found = quadratic_potential(Momentum, losses=LOSSES, step=F(1, 4))
    proof = certificate(found)
    verify(proof, Momentum)
    with pytest.raises(InvalidInput, match=r"test_quadratic_potentials\.py:Momentum"):
        verify(proof)
    with pytest.raises(UnknownName, match="beta"):
        verify(proof, algorithms.FedAvg)


class LateStep(algorithms.FedAvg):
    """FedAvg's step three rounds long, and ten times it from then on, with which models run away."""

    def round(self, state, clients):
        moved = super().round(state, clients).x - state.x
        return state._replace(x=state.x + (1 if clients.round_index <= 3 else 10) * moved)


@pytest.mark.parametrize("method", [LateStep(), "fedmls"])
def test_a_method_that_asks_which_round_it_is_has_no_potential_of_every_round(method):
    with pytest.raises(MissingCapability, match="asks which round it is"):
        quadratic_potential(method, losses=LOSSES, step=F(1, 2))


def test_what_is_refused():
    with pytest.raises(InvalidInput, match="strong_convexity = 0"):
        quadratic_potential("fedavg", losses=Losses())
    with pytest.raises(MissingCapability, match="l1 terms"):
        quadratic_potential("fedelasticnet-dyn", losses=LOSSES)
    with pytest.raises(NotCertified, match="smaller steps"):
        quadratic_potential("fedavg", losses=LOSSES, step=F(5, 2))
    with pytest.raises(InvalidInput, match="at most all"):
        quadratic_potential("fedavg", losses=LOSSES, clients=2, participants=3)
