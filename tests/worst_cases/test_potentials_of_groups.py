"""The best quadratic potentials of groups of clients: one class, parabolas, PEPit, and rounds of the real classes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction as F
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from fedtheory import algorithms, problems
from fedtheory.algorithms import Algorithm
from fedtheory.algorithms.base import per_client
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.local import Exact, GradientSteps
from fedtheory.participation.cohorts import Full
from fedtheory.worst_cases import Group, Losses, certificate, load, quadratic_potential, verify, write
from fedtheory.worst_cases.programme import NoMultipliers, optimum
from fedtheory.worst_cases.quadratic_potentials import S

SLOW, FAST = Losses(1, F(1, 10)), Losses(4, F(2, 5))
PAIR = [Group("3/4", SLOW), Group("1/4", FAST)]
SINGLE = [Group("1/2", SLOW, 1), Group("1/2", FAST, 1)]
UNEVEN = [Group("2/3", SLOW, 2), Group("1/3", FAST, 2)]
METHODS = {
    "scaffold": (algorithms.Scaffold(), GradientSteps(2, 0.0625), {"local_steps": 2, "step": F(1, 16)}),
    "feddyn": (algorithms.FedDyn(1.0), None, {"alpha": 1}),
    "fedgate": (algorithms.FedGATE(), GradientSteps(2, 0.0625), {"local_steps": 2, "step": F(1, 16)}),
    "fedavg": (algorithms.FedAvg(), GradientSteps(1, 0.25), {"step": F(1, 4)}),
    "feddyn, a step": (algorithms.FedDyn(4.0), GradientSteps(1, 0.0625), {"alpha": 4, "step": F(1, 16)}),
    "fedavg, messages": (None, None, {"step": F(1, 4), "contraction": F(3, 4), "feedback": True}),
    "scaffnew": (None, None, {"step": F(1, 4), "p": F(1, 2)}),
}  # fmt: skip


def of(name, losses, **more):
    return quadratic_potential(name.partition(",")[0], losses=losses, **METHODS[name][2], **more)


@pytest.mark.parametrize("name", METHODS)
def test_groups_of_one_class_have_its_rate(name):
    one, two = of(name, SLOW), of(name, [Group("1/3", SLOW), Group("2/3", SLOW)])
    assert abs(one.rho - two.rho) <= F(2, 10**6) and (one.c > 0, one.valued) == (two.c > 0, two.valued) and two.any_number
    assert one.below == pytest.approx(two.below, abs=1e-12)


@pytest.mark.parametrize("step", [F(1, 4), F(1, 2), F(19, 20)])
def test_gradient_descent_has_the_rate_of_the_mean(step):
    """F is strongly convex and smooth with the weighted means of mu and L."""
    for groups in (PAIR, UNEVEN):
        mu, L = (sum(g.share * getattr(g.losses, name) for g in groups) for name in ("strong_convexity", "smoothness"))
        found = quadratic_potential("fedavg", losses=groups, step=step)
        assert float(found.rho) == pytest.approx(float(max(1 - step * mu, step * L - 1) ** 2), abs=3e-6)
        assert found.below == pytest.approx(float(found.rho), abs=3e-6) and found.c == 0


# --- rounds of the real classes -------------------------------------------------------------------
def parabolas(curvatures, centres, weights="uniform"):
    """Clients with a/2 ||x - c||^2."""
    return problems.Quadratic(np.array([a * np.eye(1) for a in curvatures]), centres, weights)


@pytest.mark.parametrize("name", ["scaffold", "feddyn", "fedgate", "fedavg"])
@pytest.mark.parametrize("groups", [PAIR, SINGLE])
def test_a_run_on_parabolas_is_as_fast_as_the_lower_bound_says(name, groups):
    """||x_T - x*||^2 along runs of the class: at ends of the curvatures one falls as the bound, and none is slower."""
    found = of(name, groups)
    method, solver, _ = METHODS[name]
    sized = found.question.losses.groups
    owner = [g for g in sized for _ in range(g.clients)]
    rng, rates = np.random.default_rng(0), []
    for ends in np.ndindex(2, 2):
        curvature = {g.losses: float((g.losses.strong_convexity, g.losses.smoothness)[e]) for g, e in zip(sized, ends, strict=True)}
        problem = parabolas([curvature[g.losses] for g in owner], rng.standard_normal((len(owner), 1)))
        x, state = problem.optimum().x, method.init(rng.standard_normal((1, 1)), len(owner))
        law, far = Full().enumerate(len(owner)), []
        for t in range(1, 61):
            state = method.round(state, Clients(problem, law, solver or Exact(), state.x, round_index=t))
            far.append(max(float(((state.x - x) ** 2).sum()), 1e-200))
        rates.append((max(far[50:]) / max(far[20:30])) ** (1 / 30))
    assert max(rates) <= float(found.rho) * (1 + 0.02) and found.below <= float(found.rho) + 1e-9
    assert max(rates) >= found.below * 0.97
    low = F(round((found.below - 1e-3) * 10**6), 10**6)
    assert best_s(found, low) < 1e-6 < best_s(found, found.rho + F(1, 10**4))


def best_s(found, rho):
    try:
        return optimum(found.question.family(rho, found.valued), S)
    except NoMultipliers:
        return 0.0


def value(found, state, star):
    """V of a state of clients in groups, by the means and the deviations from the fixed point."""
    counts = np.cumsum([0, *(g.clients for g in found.question.losses.groups)])
    total, at = 0.0, {}
    for name, v in state._asdict().items():
        if v is not None:
            less = (v - star[name])[0]
            if less.ndim == 1:
                at["mean", name] = less
                continue
            for g, (a, b) in enumerate(pairwise(counts), 1):
                at["mean", f"{name}({g})"] = less[a:b].mean(axis=0)
                at[f"deviation {g}", f"{name}({g})'"] = less[a:b] - less[a:b].mean(axis=0)
    stands = found.question.system().stands
    for (block, f), v in list(at.items()):
        at[block, f] = sum(float(c) * at[block, m] for m, c in stands[f].items()) if f in stands else v
    for block, entries in found.matrices.items():
        for (f, g), c in entries.items():
            product = (at[block, f] * at[block, g]).sum(axis=-1)
            total += float(c) * (product if block == "mean" else product.mean())
    return total


def hessians(rng, losses, dim):
    """A random quadratic of the class."""
    turn, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    return turn @ np.diag(rng.uniform(float(losses.strong_convexity), float(losses.smoothness), dim)) @ turn.T


@pytest.mark.parametrize("name", ["scaffold", "feddyn", "fedgate", "fedavg"])
@pytest.mark.parametrize("groups", [PAIR, SINGLE])
def test_it_falls_on_rounds_of_the_class(name, groups):
    found, (method, solver, _) = of(name, groups), METHODS[name]
    assert not found.valued and found.c == 0
    owner = [g.losses for g in found.question.losses.groups for _ in range(g.clients)]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        problem = problems.Quadratic(np.array([hessians(rng, of, 3) for of in owner]), rng.standard_normal((len(owner), 3)))
        x = problem.optimum().x
        slopes = problem.gradient(x)[None]
        star = {"x": x, "h": 0.0, "c": 0.0, "gradients": slopes, "c_k": slopes, "delta": slopes}
        state = method.init(x + rng.standard_normal((1, 3)), len(owner))
        for t in range(1, 8):
            before = value(found, state, star)
            state = method.round(state, Clients(problem, Full().enumerate(len(owner)), solver or Exact(), state.x, round_index=t))
            assert value(found, state, star) <= float(found.rho) * before * (1 + 1e-9) + 1e-12
            assert before >= ((state.x * 0 + x - x) ** 2).sum()


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_a_plain_mean_of_clients_with_weights_has_a_floor(name):
    """The method rests where the plain mean of the losses is least, which is not x*: c zeta^2 stays, and x goes there."""
    found, (method, solver, _) = of(name, UNEVEN), METHODS[name]
    assert found.c > 0 and not found.question.system().fixed
    problem = parabolas([1, 1, 4, 4], np.array([[1.0], [0.5], [-1.0], [-2.0]]), np.array([2, 2, 1, 1]) / 6)
    x, state = problem.optimum().x, method.init(np.zeros((1, 1)), 4)
    zeta = float((problem.weights * (problem.gradient(x) ** 2).sum(axis=1)).sum())
    for t in range(1, 400):
        state = method.round(state, Clients(problem, Full().enumerate(4), solver or Exact(), state.x, round_index=t))
    apart = float(((state.x - x) ** 2).sum())
    assert 1e-3 < apart <= float(found.c) * zeta / (1 - float(found.rho))


class Kept(NamedTuple):
    x: Any
    g_k: Any
    h_k: Any


@dataclass(frozen=True)
class Twice(Algorithm):
    """Clients keep their gradients in two copies, and ask at a point that is moved by one of them."""

    name: ClassVar[str] = "twice"

    def init(self, x, num_clients):
        return Kept(x, 0 * per_client(x, num_clients), 0 * per_client(x, num_clients))

    def round(self, state, clients):
        x = clients.broadcast(state.x) - (state.h_k - clients.broadcast(clients.mean(state.h_k))) / 5
        new = clients.gradient(x)
        turn = (new - state.g_k) / 2
        return Kept(state.x - clients.mean(new) / 2, state.g_k + turn, state.h_k + turn)


@pytest.mark.parametrize("losses", [SLOW, PAIR])
def test_a_fixed_point_is_one_that_is_reached(losses):
    """h_k = g_k in every run, so that none rests where h_k = 0 and g_k is the gradient at x*."""
    found = quadratic_potential(Twice, losses=losses)
    assert not found.question.system().fixed and found.c > 0
    problem = parabolas([0.1, 1.0], np.array([[1.0], [0.0]]))
    x, state = problem.optimum().x, Twice().init(np.zeros((1, 1)), 2)
    zeta = float((problem.gradient(x) ** 2).mean())
    for t in range(1, 400):
        state = Twice().round(state, Clients(problem, Full().enumerate(2), Exact(), state.x, round_index=t))
    assert 1e-4 < float(((state.x - x) ** 2).sum()) <= float(found.c) * zeta / (1 - float(found.rho))


# --- PEPit, with a loss for each client -----------------------------------------------------------
@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_pepit_finds_no_state_from_which_it_falls_less(name):
    """max V+ - rho V over all losses and states with V <= 1 is 0, and more for a smaller rho."""
    from PEPit import PEP
    from PEPit.functions import SmoothStronglyConvexFunction
    from PEPit.primitive_steps import proximal_step

    found = of(name, SINGLE)

    def largest(rho):
        pep = PEP()
        losses = [
            pep.declare_function(SmoothStronglyConvexFunction, L=float(g.losses.smoothness), mu=float(g.losses.strong_convexity))
            for g in SINGLE
        ]
        mean = (losses[0] + losses[1]) / 2
        star, x = mean.stationary_point(), pep.set_initial_point()
        field = {"scaffold": "c_k", "feddyn": "gradients"}[name]
        slopes, size = [f.gradient(star) for f in losses], max(float(c) for (f, _), c in found.matrices["mean"].items() if f != "x")
        kept = [slope + pep.set_initial_point() / size**0.5 for slope in slopes]  # in units in which V is round

        def V(x, kept):
            at = {"x": x - star, **{f"{field}({g})": k - s for g, (k, s) in enumerate(zip(kept, slopes, strict=True), 1)}}
            stands = found.question.system().stands
            at |= {n: sum((float(c) * at[m] for m, c in row.items()), 0 * x) for n, row in stands.items()}
            return sum(float(c) * (at[f] * at[g]) for (f, g), c in found.matrices["mean"].items())

        if name == "feddyn":
            h = (kept[0] + kept[1]) / 2
            ends = [proximal_step(x + k, f, 1)[0] for f, k in zip(losses, kept, strict=True)]
            new = [k - (y - x) for y, k in zip(ends, kept, strict=True)]
            moved = h - ((ends[0] + ends[1]) / 2 - x)
            after = (ends[0] + ends[1]) / 2 - moved
        else:
            c, ends = (kept[0] + kept[1]) / 2, []
            for f, k in zip(losses, kept, strict=True):
                y = x
                for _ in range(2):
                    y = y - (f.gradient(y) - k + c) / 16
                ends.append(y)
            new = [k - c + 8 * (x - y) for y, k in zip(ends, kept, strict=True)]
            after = (ends[0] + ends[1]) / 2
        pep.set_initial_condition(V(x, kept) <= 1)
        pep.set_performance_metric(V(after, new) - rho * V(x, kept))
        return pep.solve(verbose=0, solver="CLARABEL")

    assert largest(float(found.rho)) <= 1e-5
    assert largest(float(found.rho) - 0.01) >= 1e-3


# --- certificates ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["scaffold", "feddyn, a step"])
def test_its_certificate(name, tmp_path):
    found = of(name, PAIR)
    path = write(tmp_path / "v.json", certificate(found))
    verify(load(path))
    held = json.loads(path.read_text())
    for change in (
        lambda q: q["groups"]["2"].update(smoothness="5"), lambda q: q["groups"]["1"].update({"strong convexity": "1/20"}),
        lambda q: q["groups"]["1"].update(share="1/2") or q["groups"]["2"].update(share="1/2"),
        lambda q: q.update(smoothness="1"), lambda q: q.update(participants=q["clients"] - 1),
    ):  # fmt: skip
        other = json.loads(json.dumps(held))
        change(other["question"])
        path.write_text(json.dumps(other))
        with pytest.raises((InvalidInput, NotCertified)):
            verify(load(path))
    held["claim"]["rho"] = str(F(held["claim"]["rho"]) - F(1, 10**3))
    path.write_text(json.dumps(held))
    with pytest.raises(NotCertified):
        verify(load(path))


def test_what_a_coordinate_stands_for_is_told():
    """SCAFFOLD's round sees how far control variates are apart, and not their mean."""
    V, vectors = of("scaffold", PAIR).written
    assert "<x, c_k(1)>" in V and vectors.endswith("; c_k(1) stands for c_k(1) - c_k(2)")


def test_it_is_one_for_every_number_with_these_shares():
    found = of("feddyn", PAIR)
    assert found.question.clients == 8 and found.any_number
    many = of("feddyn", PAIR, clients=400)
    assert many.rho == found.rho and many.solution.numbers == found.solution.numbers
