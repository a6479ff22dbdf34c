"""The worst functions: a run on them ends with the semidefinite programme's value, and they are in the class."""

from __future__ import annotations

from fractions import Fraction as F
from functools import cache
from itertools import permutations
from math import comb

import numpy as np
import pytest

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.worst_cases.below import below, check
from fedtheory.worst_cases.bounds import worst_case
from fedtheory.worst_cases.certificates import certificate
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.functions import worst_function

NONSMOOTH = Losses(None, lipschitz=F(1))
CASES = {
    "gradient descent": ("fedavg", {"criterion": "gap", "heterogeneity": 0}),
    "local steps": ("fedavg", {"local_steps": 3, "rounds": 2, "step": F(1, 2)}),
    "local steps, gradient": ("fedavg", {"local_steps": 2, "criterion": "gradient", "step": F(3, 4)}),
    "local steps, strongly convex": (
        "fedavg", {"local_steps": 2, "rounds": 2, "criterion": "distance", "losses": Losses(F(2), F(1, 5)), "step": F(1, 4)},
    ),
    "local steps, the best round": ("fedavg", {"local_steps": 2, "rounds": 2, "criterion": "best-gap", "step": F(1, 2)}),
    "local steps with kinks": ("fedavg", {"local_steps": 2, "rounds": 2, "losses": NONSMOOTH, "heterogeneity": None, "step": F(1, 2)}),
    "from the optimum": ("fedavg", {"local_steps": 2, "step": F(1, 2), "distance": 0}),
    "large numbers": (
        "fedavg", {"local_steps": 2, "rounds": 1, "losses": Losses(F(7)), "step": F(1, 10), "heterogeneity": 5, "distance": 10},
    ),
    "SCAFFOLD": ("scaffold", {"local_steps": 2, "rounds": 3, "step": F(1, 3)}),
    "SCAFFOLD, distance": ("scaffold", {"rounds": 2, "criterion": "distance", "step": F(1, 2)}),
    "FedProx": ("fedprox", {"rounds": 2, "mu": F(1, 2)}),
    "FedProx, gradient": ("fedprox", {"criterion": "gradient", "mu": 2}),
    "FedProx by steps": ("fedprox", {"local_steps": 2, "rounds": 2, "mu": 1, "step": F(1, 2)}),
    "FedProx with kinks": ("fedprox", {"rounds": 2, "criterion": "distance", "losses": Losses(None), "mu": 1}),
    "FedDyn": ("feddyn", {"rounds": 3, "alpha": F(1, 2)}),
    "FedDyn, distance": ("feddyn", {"rounds": 2, "criterion": "distance", "alpha": F(1, 5)}),
    "FedDyn with little weight": ("feddyn", {"alpha": F(1, 50)}),
    "FedDyn by steps": ("feddyn", {"local_steps": 2, "rounds": 2, "alpha": F(1, 2), "step": F(1, 4)}),
    "subgradients": ("subgradient", {"rounds": 4, "criterion": "best-gap"}),
    "subgradients, last": ("subgradient", {"rounds": 3}),
    "FedMLS": ("fedmls", {"rounds": 3}),
    "FedMLS, steps": ("fedmls", {"rounds": 2, "D": 16}),
}  # fmt: skip


@cache
def found(case):
    method, given = CASES[case]
    return worst_case(method, **given)


@pytest.mark.parametrize("case", CASES)
def test_a_run_ends_with_the_worst_value(case):
    rel = 1e-3 if case == "from the optimum" else 1e-5  # the programme of the former has no interior
    for clients in (2, 3, 4) if case in ("local steps", "subgradients") else (3,):
        made = worst_function(found(case), clients)
        assert made.problem.num_clients == clients and made.margin > 0
        assert made.measured() == pytest.approx(found(case).best, rel=rel)


@pytest.mark.parametrize(
    ("method", "clients", "participants", "rounds", "criterion", "given"),
    [
        ("fedavg", 3, 1, 1, "gap", {"step": F(1, 2)}),
        ("fedavg", 2, 1, 2, "best-gap", {"step": F(1, 2)}),
        ("fedavg", 5, 2, 1, "distance", {"local_steps": 2, "step": F(1, 4)}),
        ("scaffold", 3, 2, 2, "distance", {"step": F(1, 2)}),
        ("feddyn", 2, 1, 2, "distance", {"alpha": 1}),
        ("fedprox", 3, 1, 1, "gap", {"mu": 1}),
        ("subgradient", 3, 2, 2, "best-gap", {}),
    ],
)
def test_runs_over_all_cohorts_have_the_worst_expectation(method, clients, participants, rounds, criterion, given):
    """And it is reached in fractions, by conditions of every client in which no symmetry is used."""
    asked = worst_case(method, clients=clients, participants=participants, rounds=rounds, criterion=criterion, **given)
    made = worst_function(asked)
    assert made.ways == comb(clients, participants) ** rounds and made.models().shape == (made.ways, rounds + 1, made.problem.dim)
    assert made.measured() == pytest.approx(asked.best, rel=1e-5)
    least = below(made)
    check(certificate(asked).question, least)
    assert 0 <= float(asked.bound - least.value) <= 1e-5 * float(asked.bound)
    with pytest.raises(NotCertified, match="the condition"):
        check({**certificate(asked).question, "distance": F(1, 2)}, least)


def test_cohorts_that_are_too_many_to_run():
    made = worst_function(worst_case("fedavg", criterion="distance", clients=40, participants=20, step=F(1, 2)))
    with pytest.raises(InvalidInput, match="137,846,528,820 ways to draw the cohorts: at most 20,000"):
        made.measured()
    assert 0 <= float(made.found.bound - below(made).value) <= 1e-6


@pytest.mark.parametrize("case", ["local steps, strongly convex", "SCAFFOLD", "FedDyn", "subgradients", "FedProx with kinks"])
def test_the_losses_are_in_the_class_and_within_the_limits(case):
    """The inequalities of the class between any points, written out; x* is a minimiser; start and gradients at x* as asked."""
    asked, made = found(case).asked, worst_function(found(case), 3)
    problem, rng = made.problem, np.random.default_rng(0)
    x = np.concatenate([made.models()[0], made.optimum[None], rng.normal(size=(4, problem.dim))])
    f, g = problem.client_losses(x), problem.gradient(x)
    L, mu, G = (None if asked[name] is None else float(asked[name]) for name in ("smoothness", "strong convexity", "lipschitz"))
    for i, j in permutations(range(len(x)), 2):
        apart, turned = x[i] - x[j], g[i] - g[j]
        least = mu / 2 * (apart @ apart)
        if L is not None:
            rest = turned - mu * apart
            least = least + (rest * rest).sum(axis=-1) / (2 * (L - mu))
        assert (f[i] - f[j] - g[j] @ apart - least >= -1e-12).all()
    if G is not None:
        assert ((g * g).sum(axis=-1) <= G**2).all()
    assert np.linalg.norm(made.optimum) <= float(asked["distance"])
    at = problem.gradient(made.optimum)
    assert np.abs(at.sum(axis=0)).max() <= 1e-15
    if asked["heterogeneity"] is not None:
        assert (at * at).sum(axis=-1).mean() <= float(asked["heterogeneity"]) ** 2


@pytest.mark.parametrize("clients", [2, 5])
def test_the_problem_is_certified(clients):
    made = worst_function(found("local steps"), clients)
    best = made.problem.optimum()
    np.testing.assert_array_equal(best.x, made.optimum)
    assert best.gap <= 1e-12 and -1e-15 <= best.lower_bound <= best.value <= 1e-15
    assert made.problem.smoothness_exact().all()


def test_gradient_descent_s_worst_function_is_a_huber_loss():
    """Without heterogeneity all clients have the same: value 1/6 after a step 1/L from 1, gradient 1/3 (Drori and Teboulle 2014)."""
    made = worst_function(found("gradient descent"))
    start, end = made.models()[0]
    gradients = made.problem.full_gradient(np.stack([start, end]))
    np.testing.assert_allclose(np.linalg.norm(gradients, axis=1), 1 / 3, atol=1e-3)
    assert made.measured() == pytest.approx(1 / 6, rel=1e-6)


@pytest.mark.parametrize("method", ["fedelasticnet-dyn", "mopes"])
def test_what_is_an_upper_bound_or_of_one_loss_has_no_worst_function(method):
    with pytest.raises(InvalidInput, match=f"no worst function of {method}, whose value is"):
        worst_function(worst_case(method))


@pytest.mark.parametrize(
    ("method", "given", "clients", "says"),
    [
        ("fedavg", {}, 1, "clients is 1.*one client is a mean, too: take 2"),
        ("fedavg", {"criterion": "distance", "clients": 4, "participants": 2}, 3, "cohorts of 2 of 4 clients were asked"),
        ("subgradient", {"distance": 0, "step": 1}, 2, "take a distance above 0"),
        ("fedprox", {"criterion": "distance", "losses": Losses(None, F(1, 2))}, 2, "leave one of the two out"),
    ],
)
def test_what_is_refused(method, given, clients, says):
    with pytest.raises(InvalidInput, match=says):
        worst_function(worst_case(method, **given), clients)
