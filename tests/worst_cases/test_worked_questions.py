"""Questions of worst cases at their edges, and answers known in fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest

from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.worst_cases import bounds
from fedtheory.worst_cases.bounds import worst_case
from fedtheory.worst_cases.classes import Losses

TINY = F(1, 10**30)


# --- sizes and time -------------------------------------------------------------------------------
def test_up_to_four_thousand_conditions():
    bounds._not_too_many(4000)
    with pytest.raises(InvalidInput, match="4,001 conditions on the losses: at most 4,000; take f"):
        bounds._not_too_many(4001)


@pytest.mark.parametrize(
    ("conditions", "permutations", "seconds"),
    [(1000, 0, "15"), (1000, 24, "27"), (365, 0, None), (366, 0, "2"), (160, 20, None),
     (200, 20, "3")],
)  # fmt: skip
def test_the_seconds_that_are_announced(conditions, permutations, seconds):
    """15 for a million pairs of conditions, 1 for 2000 turned ones; what takes 2 is not told."""
    told = []
    bounds._tell(told.append, conditions, permutations)
    bounds._tell(None, conditions, permutations)
    line = f"{conditions:,} conditions on the losses: about {seconds} s"
    assert told == ([] if seconds is None else [line])


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({"clients": 3, "participants": 1, "rounds": 2}, [((1 + 4 + 9) * 13 // 2, 6)]),
        ({"clients": 3, "participants": 1, "rounds": 2, "criterion": "distance"}, [(10, 6)]),
        ({"clients": 3, "participants": 1, "rounds": 2, "criterion": "best-gap"}, [(10, 6)]),
        ({"clients": 3, "participants": 2, "rounds": 2, "criterion": "distance",
          "local_steps": 2}, [(9 * 8 // 2, 6)]),
        ({"clients": 2, "participants": 1, "criterion": "gradient"}, [(4 * 3, 2)]),
        ({"clients": 3, "participants": 1, "rounds": 2, "criterion": "distance",
          "method": "fedprox", "options": {"mu": F(1)}}, [(10, 6)]),
        ({"local_steps": 3, "rounds": 2, "criterion": "distance"}, [(42, 0)]),
        ({"local_steps": 3, "rounds": 2}, [(56, 0)]),
        ({"clients": 2, "participants": 1, "criterion": "distance"}, [(2, 0)]),
    ],
)  # fmt: skip
def test_the_size_of_a_question(given, sizes, monkeypatch):
    """Points: the optimum, one a local step and history, one at the end where a loss is asked."""
    found = []
    monkeypatch.setattr(bounds, "_tell", lambda _, *numbers: found.append(numbers))
    plain = {"local_steps": 1, "rounds": 1, "criterion": "gap", "clients": 2, "participants": 2}
    numbers = {"method": "fedavg", "options": {"step": F(1)}, **plain, **given}
    if "participants" not in given:
        numbers["participants"] = numbers["clients"]
    q = bounds.asked(**numbers)
    made = bounds.family(q)
    assert found == sizes
    losses = [name for name in made.terms if ", " in name]
    assert q.tree or len(losses) == sizes[0][0]


# --- worst cases ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ({}, F(1, 6)), ({"rounds": 2}, F(1, 10)), ({"distance": 3}, F(9, 6)),
        ({"distance": 0}, 0), ({"losses": Losses(F(4))}, F(4, 6)),
        ({"losses": Losses(F(10**6)), "distance": F(1, 1000)}, F(1, 6)),
        ({"step": F(1, 2)}, F(1, 4)), ({"criterion": "best-gap"}, F(1, 2)),
        ({"criterion": "gradient"}, F(1, 4)), ({"clients": 1, "local_steps": 2}, F(1, 10)),
        ({"criterion": "distance", "clients": 1}, 1),
    ],
    ids=str,
)  # fmt: skip
def test_gradient_descents_worst_case_by_hand(given, bound):
    """L R^2/(4 T + 2) for the step 1/L, L R^2/(4 L step T + 2), L R^2/2 before, (L R/(T + 1))^2."""
    found = worst_case("fedavg", **given)
    assert bound <= found.bound <= bound * (1 + F(1, 10**6)) + (bound == 0) * F(1, 10**6)
    assert found.best == pytest.approx(float(bound), rel=1e-6, abs=1e-7)


def test_the_vectors_of_a_worst_case_in_their_own_units():
    """Huber's loss: x_0 at distance R = 3, gradients of L R/(2 T + 1) = 4 at x_0 and x_1."""
    found = worst_case("fedavg", losses=Losses(F(4)), distance=3, heterogeneity=2)
    rows, gram = found.solution.rows["mean"], found.solution.gram["mean"]
    of = {name: gram[i, i] for i, name in enumerate(rows)}
    assert of == pytest.approx({"x0": 9, "g0.0": 16, "end": 16}, rel=1e-3)


def test_what_a_worst_case_was_asked():
    found = worst_case("fedprox", criterion="distance", clients=4, participants=2)
    assert dict(found.asked) == {
        "method": "fedprox", "local steps": 1, "rounds": 1, "criterion": "distance",
        "options": {"mu": 1}, "smoothness": 1, "strong convexity": 0, "lipschitz": None,
        "heterogeneity": 1, "distance": 1, "clients": 4, "participants": 2,
    }  # fmt: skip
    kinks = worst_case("subgradient", criterion="best-gap")
    assert kinks.asked["heterogeneity"] is None and kinks.asked["lipschitz"] == 1
    assert kinks.asked["smoothness"] is None and kinks.bound == pytest.approx(1, rel=1e-6)
    assert (kinks.asked["clients"], kinks.asked["participants"]) == (2, 2)
    steep = worst_case("fedprox", losses=Losses(None), criterion="distance", heterogeneity=1)
    assert dict(steep.asked["options"]) == {"mu": 1}
    assert worst_case("fedavg", heterogeneity=0, local_steps=2).asked["heterogeneity"] == 0


@pytest.mark.parametrize("method", ["fedmls", "mopes"])
def test_methods_that_ask_everybody_by_hand(method):
    """Their first round leaves the model where it is: G R, for any number of clients."""
    for clients, G, R in ((1, 1, 1), (5, 3, 2)):
        losses = Losses(None, lipschitz=F(G))
        found = worst_case(method, losses=losses, distance=R, clients=clients)
        assert G * R <= found.bound <= G * R * (1 + F(1, 10**6))


@pytest.mark.parametrize(
    ("losses", "zeta", "R", "units"),
    [
        (Losses(F(5)), None, F(0), (F(1, 5), 1)), (Losses(F(5)), F(0), F(0), (F(1, 5), 1)),
        (Losses(None), F(2), F(0), (1, 1)), (Losses(None), F(2), F(3), (3, 1)),
        (Losses(None, lipschitz=F(4)), None, F(0), (1, 4)),
    ],
)  # fmt: skip
def test_units_where_a_number_is_nothing_or_not_there(losses, zeta, R, units):
    q = replace(bounds.asked("fedavg", {}, losses=losses, distance=R), heterogeneity=zeta)
    assert (q.units.position, q.units.gradient) == units


@pytest.mark.parametrize("method", ["fedprox", "fedelasticnet-dyn"])
def test_local_steps_of_exact_solves(method):
    told = f"local_steps = 2: {method} .* exactly; leave local steps out, or give a step"
    with pytest.raises(InvalidInput, match=told):
        worst_case(method, local_steps=2)


@pytest.mark.parametrize(
    ("criterion", "rounds", "bound"), [("distance", 2, F(5, 2)), ("gap", 1, F(1, 2))]
)
def test_one_of_two_clients_from_the_optimum_by_hand(criterion, rounds, bound):
    """Slopes 1 and -1 at x* = 0 and steps of 1/L: -1 and 1 after a round, where F is 1/2 at most.

    Then the same client leads to -2 where its loss is a line there, and the other one to 1 where it
    has the curvature 1: (4 + 1)/2.
    """
    given = {"clients": 2, "participants": 1, "distance": 0, "heterogeneity": 2}
    found = worst_case("fedavg", criterion=criterion, rounds=rounds, **given)
    # without room for the start its multiplier has no largest value, and the solver is less exact
    assert 4 * bound <= found.bound <= 4 * bound * (1 + F(1, 1000))


def test_the_best_of_two_models_by_hand():
    """G R/sqrt(T) for the step R/(G sqrt(T))."""
    losses = Losses(None, lipschitz=F(3))
    found = worst_case("subgradient", rounds=2, criterion="best-gap", losses=losses, distance=2)
    assert float(found.bound) == pytest.approx(6 / 2**0.5, rel=1e-6)


def test_the_heterogeneity_is_a_bound_of_its_own():
    """From x* on the bound grows with its square, and only with it."""
    one, two = (
        worst_case("fedavg", local_steps=2, distance=0, heterogeneity=z, step=F(1, 4)).bound
        for z in (1, 2)
    )
    assert 4 * one == pytest.approx(two, rel=1e-6) and one > 0


@pytest.mark.parametrize(
    ("method", "given", "steps"),
    [
        ("fedavg", {}, True), ("scaffold", {}, True), ("fedprox", {}, False),
        ("fedprox", {"step": F(1)}, True), ("feddyn", {}, False), ("feddyn", {"step": 1}, True),
        ("fedelasticnet-dyn", {}, False), ("subgradient", {}, False), ("fedmls", {}, False),
        ("mopes", {}, False), ("mime", {}, True), ("fedgate", {}, True), ("efl", {}, True),
    ],
)  # fmt: skip
def test_which_methods_take_local_steps(method, given, steps):
    """Local problems without a curvature of their own are walked along; others where a step is given."""
    q = bounds.asked(method, given)
    assert (q.subject.local_steps == 1) is steps and (q.subject.local_steps is None) is not steps
    assert q.subject.one_loss is (method == "mopes")
    assert (q.losses.smoothness is None) is (method in ("fedmls", "mopes", "subgradient"))
    assert bool(bounds.relaxed(q)) is (method == "fedelasticnet-dyn")
    assert ("step" in q.subject.options) is (steps or method == "subgradient")


def test_options_that_are_missing_or_none():
    losses = Losses(F(3))
    for given, options in (
        ({"mu": F(2)}, {"mu": 2}), ({"step": TINY}, {"mu": 3, "step": TINY}),
        ({"mu": 0.1}, {"mu": F(1, 10)}), ({"send": "update"}, {"mu": 3, "send": "update"}),
    ):  # fmt: skip
        assert dict(bounds.asked("fedprox", given, losses=losses).subject.options) == options
    for method, given, says in (
        ("fedelasticnet-prox", {}, "prox needs l1, l2: give a number, on the command line by --given l1=..., --given l2=..."),
        ("fedprox", {"mu": -TINY}, "mu must be a finite number >= 0"),
        ("fedprox", {"l2": F(1)}, "unknown option of fedprox 'l2': known: aggregation, mu, send"),
        ("fedprox", {"step": -TINY}, "step = .*: the size of local steps must be above 0"),
        ("fedprox", {"step": 0}, "above 0"), ("fedprox", {"send": "nothing"}, "use 'model' or 'update'"),
    ):  # fmt: skip
        with pytest.raises((InvalidInput, UnknownName), match=says):
            bounds.asked(method, given)
