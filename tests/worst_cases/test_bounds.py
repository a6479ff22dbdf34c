"""Worst values of federated methods: closed forms of the literature, PEPit on the same instances, and runs that stay below."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from pepit_at_hand import programme, same, solved, total

from fedtheory import problems, simulate
from fedtheory.algorithms import FedAvg, FedDyn, FedProx, Scaffold
from fedtheory.errors import InvalidInput, NotCertified, UnknownName
from fedtheory.local import GradientSteps
from fedtheory.worst_cases.bounds import worst_case
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import Quadratic, Vector, common, square, value
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import maximise


@pytest.mark.parametrize(("rounds", "smoothness"), [(1, F(1)), (3, F(1)), (2, F(7, 3))])
def test_gradient_descent(rounds, smoothness):
    """L R^2/(4T + 2) with the step 1/L (Drori and Teboulle 2014, Theorem 3.1)."""
    found = worst_case("fedavg", rounds=rounds, losses=Losses(smoothness))
    assert found.best == pytest.approx(float(smoothness / (4 * rounds + 2)), rel=1e-7)
    assert smoothness / (4 * rounds + 2) <= found.bound <= smoothness / (4 * rounds + 2) * (1 + F(1, 10**6))


@pytest.mark.parametrize(("mu", "rounds"), [(F(1), 1), (F(1, 3), 2), (F(5, 2), 3)])
def test_gradient_descent_of_strongly_convex_losses(mu, rounds):
    """(1 - mu/L)^(2T) R^2 with the step 1/L for the distance."""
    losses = Losses(F(4), mu)
    factor = (1 - mu / 4) ** (2 * rounds)
    found = worst_case("fedavg", rounds=rounds, criterion="distance", losses=losses)
    assert factor <= found.bound <= factor * (1 + F(1, 10**6))


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_proximal_point_method(rounds):
    """mu R^2/(4T) for one loss that need not be smooth (Taylor, Hendrickx and Glineur 2017): all vectors are common."""
    mu, x, points = F(3, 2), common("x0"), [Point("*", Vector(), Vector())]
    for t in range(rounds):
        x = x - (1 / mu) * common(f"g{t}")
        points.append(Point(f"x{t}", x, common(f"g{t}")))
    terms = {"-bound": Quadratic(constant=F(-1)), "start": square(common("x0")) - Quadratic(constant=F(1))}
    terms |= {name: -condition for name, condition in Losses(None).conditions(points).items()}
    found = maximise(Family(value("*") - value(points[-1].name), terms, frozenset({"-bound"})), "-bound")
    assert -found.numbers["-bound"] == pytest.approx(float(mu / (4 * rounds)), rel=1e-6)


def test_the_mean_of_exact_solves_has_no_worst_gap_where_losses_are_not_smooth():
    """Clients that solve apart may all be content while the mean of their models is on a slope of any size."""
    with pytest.raises(NotCertified, match="no multipliers"):
        worst_case("fedprox", losses=Losses(None))


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_the_subgradient_method(rounds):
    """G R/sqrt(T) for the best of T models, with the step R/(G sqrt(T))."""
    step = F(round(10**9 / rounds**0.5), 10**9)
    found = worst_case("subgradient", rounds=rounds, criterion="best-gap", step=step)
    assert float(found.bound) == pytest.approx(1 / rounds**0.5, rel=1e-6)


# --- PEPit ----------------------------------------------------------------------------------------
def pepit(method, clients, rounds, steps, criterion, strong=0, **options):
    """The same worst case with every client a function of its own."""
    from PEPit.primitive_steps import proximal_step

    pep, losses, mean, star, x = programme(clients, strong)
    stored = [0 * x] * clients
    for _ in range(rounds):
        ends, seen = [], []
        drift = total(stored) / clients
        for f, kept in zip(losses, stored, strict=True):
            y, sums = x, 0 * x
            if method == "fedprox":
                y, sums, _ = proximal_step(x, f, 1 / options["mu"])
            elif method == "feddyn":
                y, sums, _ = proximal_step(x + kept / options["alpha"], f, 1 / options["alpha"])
            for _ in range(steps if method in ("fedavg", "scaffold") else 0):
                g = f.gradient(y)
                y, sums = y - options["step"] * (g - kept + drift), sums + g / steps
            ends.append(y)
            seen.append(sums)
        stored = seen if method in ("scaffold", "feddyn") else stored
        x = total(ends) / clients
        if method == "feddyn":
            x = x - total(stored) / clients / options["alpha"]
    measured = {"gap": lambda: mean(x) - mean(star), "distance": lambda: (x - star) ** 2, "gradient": lambda: mean.gradient(x) ** 2}
    pep.set_performance_metric(measured[criterion]())
    return solved(pep)


SAME = [
    ("fedavg", 2, 1, 2, "gap", {"step": F(1, 2)}),
    ("fedavg", 3, 2, 1, "gap", {"step": F(3, 2)}),
    ("fedavg", 2, 2, 2, "distance", {"step": F(1, 2)}),
    ("fedavg", 2, 1, 3, "gradient", {"step": F(1, 4)}),
    ("fedprox", 2, 1, 1, "gap", {"mu": F(2)}),
    ("fedprox", 3, 2, 1, "gradient", {"mu": F(1, 2)}),
    ("feddyn", 2, 2, 1, "gap", {"alpha": F(1)}),
    ("feddyn", 3, 2, 1, "gradient", {"alpha": F(3)}),
    ("scaffold", 2, 2, 1, "gap", {"step": F(1, 2)}),
    ("scaffold", 2, 2, 2, "gap", {"step": F(1, 4)}),
    ("scaffold", 3, 1, 2, "distance", {"step": F(1, 3)}),
]


@pytest.mark.parametrize(("method", "clients", "rounds", "steps", "criterion", "options"), SAME)
def test_pepit_has_the_same_value(method, clients, rounds, steps, criterion, options):
    found = worst_case(method, rounds=rounds, local_steps=steps, criterion=criterion, **options)
    other = pepit(method, clients, rounds, steps, criterion, **{k: float(v) for k, v in options.items()})
    same(found, other)


def test_pepit_has_the_same_value_for_strongly_convex_losses():
    found = worst_case("fedavg", rounds=1, local_steps=2, criterion="distance", losses=Losses(F(1), F(1, 5)), step=F(1, 2))
    same(found, pepit("fedavg", 2, 1, 2, "distance", strong=0.2, step=0.5))


# --- runs -----------------------------------------------------------------------------------------
METHODS = {
    "fedavg": (FedAvg(), GradientSteps(3, 0.25), {"step": F(1, 4)}, 3),
    "scaffold": (Scaffold(), GradientSteps(3, 0.25), {"step": F(1, 4)}, 3),
    "fedprox": (FedProx(0.5), None, {"mu": F(1, 2)}, 1),
    "feddyn": (FedDyn(0.5), None, {"alpha": F(1, 2)}, 1),
}


@pytest.mark.parametrize("method", METHODS)
def test_no_run_is_above_the_bound(method):
    """Quadratics of four clients in three dimensions, from starts far and near: the bound with the run's own constants."""
    algorithm, local, options, steps = METHODS[method]
    found = worst_case(method, rounds=2, local_steps=steps, **options)
    start, own = (found.solution.numbers.get(name, F(0)) for name in ("start", "heterogeneity"))
    assert start + own == found.bound
    shares = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        turned = np.linalg.qr(rng.normal(size=(4, 3, 3)))[0]
        curvatures = rng.uniform(0, 1, size=(4, 3))
        curvatures[:, 0] = 1
        problem = problems.Quadratic(np.einsum("kij,kj,klj->kil", turned, curvatures, turned), rng.normal(size=(4, 3)))
        optimum = problem.optimum()
        x0 = optimum.x + rng.normal(size=3) * 10.0 ** rng.integers(-1, 2)
        run = simulate(problem, algorithm, rounds=2, local_solver=local, x0=x0)
        gap = float(problem.objective(run.x.reshape(3)) - problem.objective(optimum.x))
        square = (problem.client_gradient(np.broadcast_to(optimum.x, (4, 1, 3))) ** 2).sum(axis=-1).mean()
        said = float(start) * ((x0 - optimum.x) ** 2).sum() + float(own) * square
        shares.append(gap / said)
    assert max(shares) <= 1
    assert max(shares) > 0.01


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "fedsgd"}, "unknown method 'fedsgd': did you mean 'fedmls' or 'feddyn' or 'fedavg'"),
        ({"method": "fedavg", "criterion": "loss"}, "unknown criterion"),
        ({"method": "fedavg", "mu": 1}, "unknown option of fedavg 'mu': known: aggregation, send, step"),
        ({"method": "fedavg", "step": 0}, "step = 0: the size of local steps must be above 0"),
        ({"method": "fedavg", "rounds": 0}, "rounds"),
        ({"method": "fedavg", "rounds": 100}, "at most 4,000; take fewer rounds"),
    ],
)
def test_what_is_refused(given, says):
    with pytest.raises((InvalidInput, UnknownName), match=says):
        worst_case(**given)


def test_a_step_without_any_bound_is_told():
    """Nonsmooth losses without bounded subgradients: FedAvg has no worst value."""
    with pytest.raises(NotCertified, match="no multipliers"):
        worst_case("fedavg", losses=Losses(None), rounds=1)
