"""Worst cases under any compressor of a given contraction: PEPit on the same instances, and what is refused."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from certificates_at_hand import from_file
from pepit_at_hand import programme, same, solved

from fedtheory.algorithms import Compressed, FedAvg, Scaffold
from fedtheory.cli.worst_case import method_of
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import GradientSteps
from fedtheory.messages import TopK
from fedtheory.problems import random_quadratic
from fedtheory.simulation.simulate import simulate
from fedtheory.worst_cases import Contraction, Losses, quadratic_potential, worst_case, worst_function
from fedtheory.worst_cases.bounds import answer, asked
from fedtheory.worst_cases.gram import Vector, common
from fedtheory.worst_cases.runs import NeedsTree, Run, spread

EF21 = method_of(f"{Path(__file__).parents[2] / 'examples/ef21.py'}:EF21")


def pepit(clients, rounds, step, delta, feedback, down=None):
    """Gradient descent whose messages arrive as any vectors that are near enough."""
    from PEPit import Point

    pep, losses, mean, star, x = programme(clients)

    def sent(message, delta):
        if delta is None:
            return message
        found = Point()
        pep.add_constraint((found - message) ** 2 <= (1 - delta) * message**2)
        return found

    residuals, left = [0 * x] * clients, 0 * x
    for _ in range(rounds):
        total, new = 0 * x, []
        for f, residual in zip(losses, residuals, strict=True):
            message = residual - step * f.gradient(x)
            arrived = sent(message, delta)
            total, new = total + arrived / clients, [*new, message - arrived if feedback else 0 * x]
        wanted = left + total
        arrived = sent(wanted, down)
        x, residuals, left = x + arrived, new, wanted - arrived if feedback else 0 * x
    pep.set_performance_metric(mean(x) - mean(star))
    return solved(pep)


@pytest.mark.parametrize(
    ("clients", "rounds", "delta", "feedback", "down"),
    [
        (2, 1, F(1, 2), True, None), (2, 2, F(1, 2), True, None), (2, 2, F(1, 2), False, None),
        (3, 2, F(3, 4), True, None), (2, 2, F(1, 2), True, F(1, 2)), (2, 2, None, True, F(1, 4)), (2, 2, F(9, 10), True, None),
    ],
)  # fmt: skip
def test_pepit_has_the_same_value(clients, rounds, delta, feedback, down):
    sides = {"contraction": delta, "contraction_down": down}
    given = {name: value for name, value in sides.items() if value is not None}
    found = worst_case("fedavg", rounds=rounds, step=F(1, 4), feedback=feedback, **given)
    up, back = (None if v is None else float(v) for v in (delta, down))
    same(found, pepit(clients, rounds, 0.25, up, feedback, back))
    assert found.any_number


def pepit_ef21(clients, rounds, gamma, delta):
    """EF21 whose messages arrive as any vectors that are near enough."""
    from PEPit import Point

    pep, losses, mean, star, x = programme(clients)
    known = [0 * x] * clients
    for _ in range(rounds):
        x = x - gamma / clients * sum(known[1:], known[0])
        wanted, arrived = [f.gradient(x) - g for f, g in zip(losses, known, strict=True)], [Point() for _ in losses]
        for m, c in zip(wanted, arrived, strict=True):
            pep.add_constraint((c - m) ** 2 <= (1 - delta) * m**2)
        known = [g + c for g, c in zip(known, arrived, strict=True)]
    pep.set_performance_metric(mean(x) - mean(star))
    return solved(pep)


@pytest.mark.parametrize(("clients", "rounds", "gamma", "delta"), [(2, 2, F(1, 2), F(1, 2)), (3, 3, F(1, 4), F(3, 4))])
def test_ef21_of_a_file_has_pepits_value(clients, rounds, gamma, delta, tmp_path):
    found = worst_case(EF21(gamma=gamma), rounds=rounds, contraction=delta)
    same(found, pepit_ef21(clients, rounds, float(gamma), float(delta)))
    assert found.any_number
    from_file(found, tmp_path, EF21)


@pytest.mark.parametrize("clients", [1, 2])
def test_the_best_potentials_of_error_feedback_are_the_published_ones(clients, tmp_path):
    """With delta = 3/4 and the step (2/(L + mu)) delta/(1 + sqrt(1 - delta))^2, the best: EF and EF21 have one rate, for any
    number of clients, and no parabolas less. V is (x, e)' [[1, 1], [1, 3]] (x, e), and (g, g(x))' [[3/2, -1], [-1, 1]] (.) up
    to a factor (Berg Thomsen, Taylor and Dieuleveut, "Tight analyses of first-order methods with error feedback", 2025)."""
    of, step = {"contraction": F(3, 4), "losses": Losses(F(1), F(1, 10)), "clients": clients}, F(20, 33)
    plain, new = quadratic_potential("fedavg", step=step, feedback=True, **of), quadratic_potential(EF21, gamma=step, **of)
    for found, given in ((plain, None), (new, EF21)):
        assert found.below == pytest.approx(0.8848083, abs=1e-6) and found.below <= float(found.rho) < found.below + 3e-5
        from_file(found, tmp_path, given)
    assert bool(plain.c) == (clients > 1) and not new.c  # only EF21 goes to the optimum of clients that differ
    v = plain.matrices["mean"]
    assert [float(v[x] / v["x", "x"]) for x in (("x", "residuals"), ("residuals", "residuals"))] == pytest.approx([2, 3], rel=5e-3)
    w = new.matrices["mean"]
    sizes = [float(w[x] / w["g_k", "g_k"]) for x in (("g_k", "at x"), ("at x", "at x"))]
    assert sizes == pytest.approx([-2, 3 / 2], rel=2e-2)
    for other in (F(9, 10), F(21, 20)):
        assert quadratic_potential("fedavg", step=step * other, feedback=True, **of).rho > plain.rho + F(1, 100)


def test_a_method_of_a_file_runs_compressed():
    """EF21 goes to the optimum with TopK, where plain compressed gradients stop at a distance; its class names no source."""
    problem = random_quadratic(4, 6, seed=1)
    step = 1 / (4 * problem.constants().beta)
    ran = simulate(problem, Compressed(EF21(gamma=step), up=TopK(k=3)), rounds=3000)
    plain = simulate(problem, Compressed(FedAvg(), up=TopK(k=3), feedback=False), rounds=3000, local_solver=GradientSteps(1, step))
    best = problem.optimum().x
    left, kept = (float(np.linalg.norm(r.x[0] - best)) for r in (ran, plain))
    assert left < 1e-6 < 1e-3 < kept


def test_delta_1_compresses_nothing_and_less_is_worse():
    plain = worst_case("fedavg", rounds=2, step=F(1, 4)).best
    values = [worst_case("fedavg", rounds=2, step=F(1, 4), contraction=delta).best for delta in (1, F(3, 4), F(1, 2))]
    assert values[0] == pytest.approx(plain, rel=1e-6)
    assert values[0] < values[1] < values[2]


def test_a_compressed_method_is_the_same_and_its_certificate_is_checked(tmp_path):
    found = worst_case(Compressed(FedAvg(), up=Contraction(F(1, 2))), rounds=2, step=F(1, 4))
    assert found.best == pytest.approx(worst_case("fedavg", rounds=2, step=F(1, 4), contraction=F(1, 2)).best, rel=1e-6)
    from_file(found, tmp_path)
    cohorts = worst_case("fedavg", rounds=2, step=F(1, 4), contraction=F(1, 2), clients=3, participants=2)
    from_file(cohorts, tmp_path)
    assert cohorts.best > found.best


def test_one_round_of_a_cohort_has_the_value_of_the_tree_of_cohorts():
    options = {"step": F(1, 4), "contraction": F(3, 4)}
    with_blocks, with_tree = (asked("fedavg", options, criterion="distance", clients=3, participants=2) for _ in range(2))
    with_tree.__dict__["tree"] = True
    assert not with_blocks.tree and answer(with_blocks).best == pytest.approx(answer(with_tree).best, rel=1e-7)


def test_what_depends_on_who_takes_part_is_not_compressed_without_a_tree():
    drawn = Vector({"x0": F(1)}, {}, {"g0": F(1)})
    with pytest.raises(NeedsTree):
        Run(F(2, 3), spread(3, 2)).contract("c", drawn, common("c"), F(1, 2))


def test_what_is_refused():
    with pytest.raises(InvalidInput, match="no message is compressed"):
        worst_case("fedavg", step=F(1, 4), feedback=True)
    with pytest.raises(InvalidInput, match=r"contraction = 2: delta must lie in \(0, 1\]"):
        worst_case("fedavg", step=F(1, 4), contraction=2)
    with pytest.raises(MissingCapability, match="by top-k"):
        worst_case(Compressed(FedAvg(), up=TopK(k=1)), step=F(1, 4))
    with pytest.raises(MissingCapability, match="second message"):
        worst_case(Compressed(Scaffold(), control=Contraction(F(1, 2))), step=F(1, 4))
    with pytest.raises(InvalidInput, match="compressed already"):
        worst_case(Compressed(FedAvg(), up=Contraction(F(1, 2))), step=F(1, 4), contraction=F(1, 2))
    with pytest.raises(InvalidInput, match="no worst function"):
        worst_function(worst_case("fedavg", step=F(1, 4), contraction=F(1, 2)))
    with pytest.raises(MissingCapability, match="stands for every compressor"):
        Contraction(F(1, 2)).compress(np.ones(2))


class Sharp(FedAvg):
    nonsmooth: ClassVar[bool] = True


def test_a_compressed_method_keeps_the_class_of_its_losses():
    method = Compressed(Sharp(), up=Contraction(F(1, 2)))
    found = worst_case(method, step=F(1, 4))
    assert found.question.losses == Losses(None, lipschitz=1)
    assert found.bound == worst_case(Sharp, contraction=F(1, 2), step=F(1, 4)).bound
    with pytest.raises(InvalidInput, match="give lipschitz"):
        worst_case(method, step=F(1, 4), losses=Losses())
