"""Questions of worst cases and potentials at their edges, and answers known in fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest
from cases import each

from fedtheory.errors import InvalidInput, NotCertified, UnknownName
from fedtheory.worst_cases import bounds, potentials
from fedtheory.worst_cases.bounds import worst_case
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.potentials import (
    BISECTIONS,
    LEAST_RHO_DIGITS,
    Potential,
    RoundQuestion,
    best_potential,
    chosen_question,
    feddyn_kappas,
    one_round,
    question,
)
from fedtheory.worst_cases.programme import NoMultipliers, Solution
from fedtheory.worst_cases.rounds import ROUNDS, chosen

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


@pytest.mark.parametrize(
    ("method", "given", "points"),
    [("fedavg", {}, 8), ("fedavg", {"B": F(2)}, 5), ("scaffold", {}, 5), ("efl", {}, 6)],
    ids=["fedavg", "bounded", "scaffold", "efl"],
)
def test_how_many_conditions_a_round_has_at_most(method, given, points, monkeypatch):
    """2 K points of every loss for K = 4, or fewer: 56 pairs of them are told."""
    monkeypatch.setattr(potentials, "LARGEST", 56)
    asked = question(method, local_steps=4, **given)
    assert len(ROUNDS[method].round(asked.asked).points) == points <= 8
    monkeypatch.setattr(potentials, "LARGEST", 55)
    with pytest.raises(InvalidInput, match="local_steps = 4: up to 56 conditions, at most 55; ta"):
        question(method, local_steps=4, **given)


def test_local_steps_that_are_too_many_are_refused_before_any_work():
    assert question("scaffold", local_steps=31).local_steps == 31
    with pytest.raises(InvalidInput, match="local_steps = 32: up to 4,032 conditions, at most 4,0"):
        question("scaffold", local_steps=32)
    with pytest.raises(InvalidInput, match="take fewer local steps"):
        question("fedavg", local_steps=10**9)


# --- what is refused of one round -----------------------------------------------------------------
@each(
    ("method", "given", "says"),
    [
        ("fedavg", {"clients": 4, "participants": 4, "local_steps": 2}, None),
        ("fedavg", {"clients": 4, "participants": 5, "local_steps": 2}, "at most all take part"),
        ("fedavg", {"clients": 1}, None), ("fedavg", {"clients": 0}, "clients"),
        ("fedavg", {"participants": 0}, "participants"), ("fedavg", {"local_steps": 0}, "local_s"),
        ("efl", {"clients": 3, "participants": 3}, None),
        ("efl", {"clients": 3, "participants": 2}, "everybody is active"),
        ("fedprox", {"local_steps": 1}, None), ("fedprox", {"local_steps": 2}, "exactly"),
        ("scaffold", {"local_steps": 2}, None), ("feddyn", {"ratio": 2, "smoothness": 1}, None),
        ("feddyn", {"ratio": 2, "smoothness": 1 + TINY}, "scale lambda_2"),
        ("feddyn", {"ratio": TINY}, None), ("feddyn", {"ratio": 0}, "above 0"),
        ("feddyn", {}, "lambda_2/beta is needed"), ("scaffold", {"rho": TINY}, None),
        ("scaffold", {"rho": 0}, "must be above 0"), ("scaffold", {"rho": 2}, None),
        ("fedprox", {"rho": 1}, None), ("fedprox", {"rho": 1 - TINY}, "F itself decreases"),
        ("fedavg", {"local_steps": 2, "c": 1}, None),
        ("fedavg", {"local_steps": 2, "c": 0, "kappa_0": 0}, "one of kappa_0 and c"),
        ("fedavg", {"local_steps": 1, "kappa_0": 0}, "has no c here"),
        ("fedavg", {"local_steps": 1, "participants": 9, "kappa_0": 0}, None),
        ("fedavg", {"B": TINY, "kappa_0": 0}, None), ("fedavg", {"B": 0}, "above 0"),
    ],
)  # fmt: skip
def test_what_is_asked_of_one_round(method, given, says):
    if says is None:
        question(method, **given)
    else:
        with pytest.raises(InvalidInput, match=says):
            question(method, **given)


def test_a_question_that_a_file_asks():
    """A number beside kappa_0 and c, and an inequality with noise without either."""
    plain = question("fedavg", local_steps=2, kappa_0=F(1, 9))
    numbers = dict(vars(plain))
    for fixed, says in (({"kappa": F(1)}, "one of kappa_0 and c"), ({}, "give kappa_0 or c")):
        with pytest.raises(InvalidInput, match=says):
            chosen_question(RoundQuestion(**{**numbers, "fixed": fixed}))
    for fixed, goal in (({"c": F(1)}, "kappa_0"), ({"kappa_0": F(1)}, "minus c")):
        assert chosen_question(RoundQuestion(**{**numbers, "fixed": fixed})).goal == goal


def test_what_a_question_says_of_itself():
    asked = question("scaffold", clients=5, participants=2, local_steps=3, step=F(1, 9), rho=F(2))
    numbers = asked.asked
    assert (numbers.local_steps, numbers.spread, numbers.share, numbers.alone) == (
        3, F(3, 8), F(2, 5), False,
    )  # fmt: skip
    assert asked.claim({"kappa_0": F(3), "kappa": F(4)}) == {
        "kappa_0": 3, "kappa": 4, "rho": 2, "c": 0,
    }  # fmt: skip
    assert asked.claim({}) == {"kappa_0": 0, "kappa": 0, "rho": 2, "c": 0}
    given = question("fedavg", local_steps=2, c=F(1, 7))
    assert given.claim({"kappa_0": F(3)}) == {"kappa_0": 3, "kappa": 0, "rho": 1, "c": F(1, 7)}
    given = question("fedavg", local_steps=2, kappa_0=F(1, 7))
    assert given.claim({"minus c": F(-3)})["c"] == 3
    assert set(asked.written) == {
        "method", "clients", "participants", "local steps", "options", "smoothness",
        "strong convexity", "rho", "fixed",
    }  # fmt: skip
    assert question("fedavg", local_steps=2).participants == question("fedavg").clients == 10
    ten = question("fedavg")
    assert (ten.smoothness, ten.strong_convexity, ten.local_steps, ten.rho) == (1, 0, 1, 1)


def test_options_of_one_round_are_above_nothing():
    losses = Losses()
    assert chosen("fedavg", {"step": TINY}, losses, 1, 2, 2) == {"step": TINY}
    for step in (F(0), -TINY):
        with pytest.raises(InvalidInput, match="above 0"):
            chosen("fedavg", {"step": step}, losses, 1, 2, 2)
    with pytest.raises(InvalidInput, match="no option"):
        chosen("fedavg", {"mu": F(1)}, losses, 1, 2, 2)


# --- answers that are known -----------------------------------------------------------------------
@pytest.mark.parametrize("step", [F(1, 2), F(1)])
def test_gradient_descent_by_hand(step):
    """2 step D at rho = 1: x^2 - x+^2 = 2 step g x - step^2 g^2, and g x >= D + g^2/2."""
    found = one_round("fedavg", step=step)
    assert 2 * step * (1 - F(1, 10**6)) <= found.kappa_0 <= 2 * step
    assert found.best == pytest.approx(float(2 * step), rel=1e-7)
    assert found.c == 0 and found.rho == 1


def test_noise_by_hand():
    """g^3/(2 - g^2) at kappa_0 = 2 g for two steps; nothing for one step of everybody."""
    found = one_round("fedavg", local_steps=2, step=F(1, 2), kappa_0=F(1))
    assert F(1, 14) <= found.c <= F(1, 14) * (1 + F(1, 10**6))
    assert found.best == pytest.approx(1 / 14, rel=1e-7) and found.kappa_0 == 1
    for step in (F(1, 8), F(1, 80)):
        found = one_round("efl", step=step)
        assert abs(found.c) <= step**2 * F(2, 10**8) and found.best == pytest.approx(0, abs=1e-9)
        assert found.kappa_0 == 0


def solved(number):
    return Solution({"kappa_0": number}, {}, float(number), {}, {})


@pytest.mark.parametrize(
    ("given", "scale"),
    [({"kappa_0": F(1, 2)}, 0.09), ({"c": F(1)}, 0.0), ({"clients": 1}, 0.0)],
)
def test_c_is_given_way_by_parts_of_the_square_of_all_steps(given, scale, monkeypatch):
    """(3/10)^2, which c has the size of; kappa_0 by parts of itself."""
    seen = []

    def solves(_, __, number):
        seen.append(number)
        return solved(F(1))

    monkeypatch.setattr(potentials, "maximise", solves)
    one_round("fedavg", local_steps=3, step=F(1, 10), **given)
    assert seen == [pytest.approx(scale, rel=1e-12, abs=0)]


@pytest.mark.parametrize("number", [F(0), -TINY, TINY])
def test_a_potential_has_a_kappa_0_above_nothing(number, monkeypatch):
    monkeypatch.setattr(potentials, "maximise", lambda *_: solved(number))
    if number > 0:
        assert one_round("feddyn", ratio=2).kappa_0 == number
    else:
        with pytest.raises(NoMultipliers, match="so that no potential of this kind exists"):
            one_round("feddyn", ratio=2)


@pytest.mark.parametrize(
    ("method", "most", "says"),
    [
        ("feddyn", 0.0, "kappa_0 above 0: up to the solver's accuracy the largest is 0, so that"),
        ("feddyn", 1e-7, "no kappa_0 above 0 could be proved: too near"),
        ("efl", 0.0, "kappa_0 = 0: no c could be proved: too near"),
    ],
)
def test_what_could_not_be_rounded(method, most, says, monkeypatch):
    def fails(*_):
        raise NotCertified("too near")

    monkeypatch.setattr(potentials, "maximise", fails)
    monkeypatch.setattr(potentials, "optimum", lambda *_: most)
    with pytest.raises(NotCertified, match=says):
        one_round(method, **({"ratio": 2} if method == "feddyn" else {}))


@pytest.mark.parametrize("given", [{"c": F(1)}, {"kappa_0": F(1)}, {}])
def test_a_least_factor_of_an_inequality_with_noise_is_none(given):
    with pytest.raises(InvalidInput, match=r"rho least: .* give rho as a number"):
        one_round("fedavg", rho="least", local_steps=2, **given)


def test_the_least_factor_by_hand():
    """(1 - mu step)^2 = 9/16: what is proved is at most some ten-millionths more."""
    told = []
    given = {"strong_convexity": F(1, 4), "step": F(1), "advance": told.append}
    found = one_round("fedavg", rho="least", **given)
    assert 0 <= found.rho - F(9, 16) <= F(1000, 10**7)
    assert found.best == pytest.approx(0.5625, abs=2e-7)
    assert set(told) == {1} and BISECTIONS - 1 <= len(told) <= BISECTIONS
    assert 2**BISECTIONS >= 10**LEAST_RHO_DIGITS > 2 ** (BISECTIONS - 1)
    with pytest.raises(InvalidInput, match="give rho as a number"):
        one_round("fedprox", rho="least")


@pytest.mark.parametrize("least", [1, 2, 5_000_003, 10**7 - 20, 10**7, 10**7 + 1])
def test_the_search_for_the_least_factor(least, monkeypatch):
    """Seven digits; where rounding fails, some ten-millionths more, and 1 in the end."""
    asked, told = [], []

    def lowers(question):
        return question.rho * 10**7 >= least

    def fails(question):
        asked.append(question.rho * 10**7)
        if len(asked) < 9:
            raise NotCertified("too near")
        return Potential(F(1), F(1), question.rho, F(0), 2.0, None, None, question)

    monkeypatch.setattr(potentials, "_lowers", lowers)
    monkeypatch.setattr(potentials, "answer", fails)
    found = one_round("scaffold", rho="least", advance=told.append)
    most = 10**7
    by_hand = [min(least + more, most) for more in (0, 1, 3, 10, 30, 100, 300, 1000)]
    assert asked == [*by_hand, most] and found.rho == 1 and found.best == 2.0
    assert set(told) == {1} and len(told) in (BISECTIONS - 1, BISECTIONS)
    asked[:] = [F(0)] * 8
    assert one_round("scaffold", rho="least").best == min(least, most) / most


@pytest.mark.parametrize(("most", "lowers"), [(0.0, True), (1e-300, True), (-1e-300, False)])
def test_a_potential_whose_kappa_0_is_at_least_nothing(most, lowers, monkeypatch):
    monkeypatch.setattr(potentials, "optimum", lambda *_: most)
    assert potentials._lowers(question("scaffold")) is lowers


def test_no_multipliers_are_no_potential(monkeypatch):
    def none(*_):
        raise NoMultipliers("none")

    monkeypatch.setattr(potentials, "optimum", none)
    assert potentials._lowers(question("scaffold")) is False


@pytest.mark.parametrize(
    ("ratio", "clients", "participants", "kappa_0"),
    [
        (1, 2, 2, min(2, ((1 + 8 * 4) ** 0.5 - 1) / 4)), (1, 5, 1, 4 / 9), (8, 5, 1, 1 / 4),
        (2, 3, 2, min(1, ((F(9, 16) * 16 + 8 * 2 * F(3, 4) * 9) ** 0.5 - 3) / 9)),
        (1, 1, 1, min(2, ((1 + 8 * 4) ** 0.5 - 1) / 4)), (1, 2, 1, F(4, 9)),
        (2, 8, 2, F(11, 14)), (2, 6, 2, F(4, 5)), (2, 5, 2, (96.25**0.5 - 2.5) / 9),
    ],
)  # fmt: skip
def test_feddyns_closed_form_by_hand(ratio, clients, participants, kappa_0):
    """s = 1, 0, 0, 3/4, 1, 0, 4/7, 3/5 and 5/8: up to 3/5 the first formula holds for 2."""
    assert feddyn_kappas(ratio, clients, participants) == pytest.approx(float(kappa_0), rel=1e-12)


def test_potentials_of_other_methods_are_asked_otherwise():
    with pytest.raises(InvalidInput, match="one_round has the others"):
        best_potential(2, method="fedavg")
    assert best_potential(2).question.participants == 1
    assert best_potential(2).question.clients == 10


def test_no_potential_is_told_with_its_largest_number():
    with pytest.raises(NotCertified, match=r"lambda_2/beta = 3/2, rho = 1: no kappa_0 above 0: "):
        best_potential(F(3, 2), 10, 1, "fedelasticnet-dyn")


@pytest.mark.parametrize(
    ("most", "shown"),
    [(1e-7, "1e-07"), (0.99e-7, "0"), (-0.99e-7, "0"), (-1e-7, "-1e-07"), (-2.5, "-2.5")],
)
def test_what_the_solver_cannot_tell_from_nothing(most, shown):
    told = str(potentials._no_potential(question("feddyn", ratio=2), most))
    assert f"the largest is {shown}, so that" in told


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


def test_which_rounds_take_local_steps():
    assert {name for name, kind in ROUNDS.items() if kind.local_steps} == {
        "fedavg", "scaffold", "efl",
    }  # fmt: skip


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
