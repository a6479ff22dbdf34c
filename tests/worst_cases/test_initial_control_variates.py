"""Worst cases of SCAFFOLD from other control variates than 0: the gradients at x_0, and any that are near those at x*."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import pairwise

import pytest

from fedtheory.algorithms import FedElasticNetScaffold, Scaffold
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.worst_cases import (
    Group,
    Losses,
    certificate,
    load,
    quadratic_potential,
    verify,
    worst_case,
    worst_function,
    write,
)
from fedtheory.worst_cases.below import below, check
from fedtheory.worst_cases.readable import of_certificate, script

STEP = F(1, 4)


def value(initial, K=2, rounds=2, method="scaffold", **how):
    return worst_case(method, local_steps=K, rounds=rounds, step=STEP, initial=initial, **how)


# --- from the gradients at x_0 --------------------------------------------------------------------
@pytest.mark.parametrize(("K", "rounds"), [(2, 1), (1, 2), (2, 2), (3, 2)])
def test_from_the_gradients_nothing_is_lost_against_as_many_gradient_steps(K, rounds):
    """K T steps h of gradient descent end with 1/(4 K T h + 2) at worst. Losses that all clients share make SCAFFOLD do
    just these, and no others are worse; how much the clients differ does not matter."""
    exact = 1 / (4 * K * rounds * float(STEP) + 2)
    for zeta in (0, 1, 10):
        found = value("gradient", K, rounds, heterogeneity=zeta)
        assert found.best == pytest.approx(exact, rel=1e-6) and found.any_number
        assert exact <= found.bound <= exact * (1 + 1e-6)
    if K > 1:
        assert value("zero", K, rounds).best > 1.01 * exact


@pytest.mark.parametrize("method", ["scaffold", "fedelasticnet-scaffold"])
def test_strongly_convex_losses(method):
    """Two steps of round 1 are two of gradient descent."""
    losses, more = Losses(1, F(1, 10)), {} if method == "scaffold" else {"l1": 0, "l2": 0}
    found = value("gradient", 2, 1, method, losses=losses, criterion="distance", **more)
    assert found.best == pytest.approx((1 - F(1, 40)) ** 4, rel=1e-6)


@pytest.mark.parametrize(("K", "rounds"), [(1, 1), (1, 2), (2, 1)])
def test_of_cohorts(K, rounds):
    """One step of a cohort in round 1 is one of gradient descent; from 0 the cohort's noise is added."""
    found = value("gradient", K, rounds, clients=3, participants=1)
    zero = value("zero", K, rounds, clients=3, participants=1)
    assert found.best >= 1 / (4 * K * rounds * float(STEP) + 2) * (1 - 1e-6)
    if K == rounds == 1:
        assert found.best == pytest.approx(1 / 3, rel=1e-6)
    assert zero.best > 1.05 * found.best
    for of in (found, zero):
        verify(certificate(of))
        if rounds == 1:
            assert worst_function(of).measured() == pytest.approx(of.best, rel=1e-4)


# --- from any that are near those at x* -----------------------------------------------------------
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("how", [{}, {"criterion": "distance"}, {"clients": 2, "participants": 1, "rounds": 1}])
def test_a_start_within_a_distance_is_no_worse_than_any(K, how):
    """0 is at the distance zeta, the gradients at x_0 at L R at most, and those at x* at 0; more distance is worse."""
    any_ = {r: value(r, K, **how) for r in (0, F(1, 2), 1, 2)}
    bests = [of.best for of in any_.values()]
    assert all(a <= b * (1 + 1e-6) for a, b in pairwise(bests)) and bests[0] < bests[-1]
    for known in ("zero", "gradient"):
        assert value(known, K, **how).best <= any_[1].best * (1 + 1e-6)
    for found in any_.values():
        verify(certificate(found))
        assert found.best * (1 - 1e-8) <= found.bound <= found.best * (1 + 1e-4)


def test_they_need_not_be_those_of_clients_that_differ():
    """Where the clients' gradients at x* are 0, wrong control variates alone make them drift."""
    assert value("zero", heterogeneity=0).best == pytest.approx(1 / 6, rel=1e-6)
    assert value(1, heterogeneity=0).best > 0.168


def test_with_one_step_of_everybody_they_do_not_matter():
    for initial in ("zero", "gradient", 0, 5):
        assert value(initial, 1, 2).best == pytest.approx(1 / 4, rel=1e-6)


@pytest.mark.parametrize(("initial", "how"), [
    (F(1, 2), {}), (2, {"criterion": "distance", "option": "gradient"}), (0, {}), (1, {"heterogeneity": 0}),
    (1, {"losses": [Group("1/2", Losses(1, F(1, 10))), Group("1/2", Losses(2))], "criterion": "distance"}),
    (F(1, 2), {"losses": [Group("1/3", Losses(), 1), Group("2/3", Losses(2, F(1, 2)), 3)], "server_lr": F(1, 2)}),
])  # fmt: skip
def test_a_run_from_the_worst_of_them_ends_with_the_bound(initial, how):
    """They are handed over with the losses, and are as near to the clients' gradients at x* as is said."""
    found = value(initial, **how)
    for clients in (None,) if "losses" in how else (2, 3):
        made = worst_function(found, clients)
        assert made.measured() == pytest.approx(found.best, rel=1e-4)
        off = made.begun["c_k"] - made.problem.gradient(made.optimum[None])[0]
        size = made.problem.weights @ (off**2).sum(axis=1)
        assert size == pytest.approx(float(initial) ** 2, rel=1e-3, abs=1e-9)
    least = below(made)
    assert F(999, 1000) * found.bound < least.value <= found.bound
    check(found.asked | {"kind": "worst-case"}, least)


def test_no_losses_are_made_of_any_start_and_cohorts():
    with pytest.raises(InvalidInput, match="no worst function of scaffold: of any c_k and cohorts its bound alone is proved"):
        worst_function(value(0, clients=3, participants=1, rounds=1))


# --- the same in every question -------------------------------------------------------------------
@pytest.mark.parametrize("initial", ["gradient", F(1, 2)])
def test_groups(initial):
    """Of one class they have its value."""
    one = value(initial)
    two = value(initial, losses=[Group("1/3", Losses()), Group("2/3", Losses())])
    assert two.best == pytest.approx(one.best, rel=1e-6) and two.any_number
    verify(certificate(two))


@pytest.mark.parametrize("initial", ["gradient", "1/2", 0])
def test_a_file(initial, tmp_path):
    """It is read, checked and made a script that checks itself; with a smaller distance it is another."""
    found = certificate(value(initial))
    path = write(tmp_path / "c.json", found)
    again = load(path)
    verify(again)
    assert again.question["options"]["initial"] == str(initial)
    exec(script(of_certificate(again)), {})
    said = f"the mean of ||c_k - grad f_k(x*)||^2 is at most ({initial})^2"
    assert (said in of_certificate(again).claim) == (initial != "gradient")
    text = path.read_text()
    assert text.count(f'"initial": "{initial}"') == 1
    path.write_text(text.replace(f'"initial": "{initial}"', '"initial": "zero"'))
    with pytest.raises((InvalidInput, NotCertified)):
        verify(load(path))


def test_a_potential_is_of_any_start():
    plain, other = (quadratic_potential("scaffold", step=STEP, initial=i, local_steps=2) for i in ("zero", "gradient"))
    assert plain.rho == other.rho


@pytest.mark.parametrize("cls", [Scaffold, lambda **k: FedElasticNetScaffold(0, 0, **k)])
def test_a_method_that_is_made(cls):
    """A float is the decimal that it is written as, and without penalties both methods are one."""
    found = worst_case(cls(initial=0.3), local_steps=2)
    assert found.family == worst_case("scaffold", initial=F(3, 10), local_steps=2).family


@pytest.mark.parametrize(("initial", "why"), [("gradients", "initial"), (-1, "initial"), ("inf", "initial")])
def test_what_is_no_start(initial, why):
    with pytest.raises(InvalidInput, match=why):
        value(initial)
