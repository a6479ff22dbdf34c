"""FedElasticNet's dynamics where no number is 0 or 1 and no two are equal: the package and the second writing agree exactly.

The runs of test_worked_dynamics have short numbers, which other formulas may have, too. Every form is judged here on each run
that it is about, of three clients in the plane, most of them.
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
import worked_fedelasticnet_dynamics as worked
from fedelasticnet_worlds import BUILDERS
from worked_fedelasticnet_dynamics import Run, parabola
from worked_fedelasticnet_standstills import FORMS as AT_REST
from worked_fedelasticnet_standstills import Standstill

from fedtheory import theorems
from fedtheory.theorems.fedelasticnet.dynamics.motion_view import (
    CONVERGES,
    FROZEN,
    HALF,
    OWN,
    RESTS,
    SILENT,
    STRONG,
    TWO_ROUNDS,
    WIDE,
)
from fedtheory.theorems.fedelasticnet.dynamics.motions import data_of
from fedtheory.theorems.fedelasticnet.exact_pieces import Piece

RULES = SIGN, TRUE = ("sign", "true-gradient")
THETA = [F(7, 3), F(-5, 4)]
BENT = (F(-3, 7), F(2, 5), F(1, 3), ((F(1, 2), F(7, 3), F(5, 4)),))
BENT_TWICE = (F(-5, 6), F(1, 9), F(-2, 3), ((F(-9, 4), F(-1, 5), F(3, 8)), (F(-3, 2), F(4, 3), F(7, 6))))
MIXED = [[parabola(F(3, 7), F(3, 2)), BENT], [BENT_TWICE, parabola(F(5, 2), F(-7, 3))], [parabola(F(7, 4), F(4, 5)), BENT]]
BOWLS = [
    [parabola(F(3, 7), F(3, 2)), parabola(F(5, 2), F(-7, 3))],
    [parabola(F(4, 3), F(-5, 2)), parabola(F(12, 5), F(2, 3))],
    [parabola(F(7, 4), F(4, 5)), parabola(F(11, 6), F(-9, 4))],
]
KEPT = [[F(2, 3), F(-3, 5)], [F(-5, 2), F(7, 4)], [F(9, 5), F(-4, 3)]]
BALANCED = [[F(2, 3), F(-3, 5)], [F(-5, 2), F(7, 4)], [F(11, 6), F(-23, 20)]]  # of mean 0


def own_slopes(losses, theta):
    return [[worked.slope(p, x) for p, x in zip(row, theta, strict=True)] for row in losses]


def optimum():
    return [sum(h * c for _, h, c, _ in column) / sum(h for _, h, _, _ in column) for column in zip(*BOWLS, strict=True)]


def drifting(rule):
    """One coordinate as the drift of three, slopes and lambda_1 times 3/7, bends from 2/3 to 5/2; the other one rests."""
    up = ((F(2, 3), F(5, 2), F(3, 7)),)
    first = [(F(-9, 14), F(0), F(0), up), (F(0), F(0), F(0), up), (F(0), F(0), F(0), up)]
    second = [parabola(F(2, 5), F(-5, 3)), parabola(F(3, 8), F(-1)), parabola(F(1, 6), F(-3, 2))]
    return Run([list(row) for row in zip(first, second, strict=True)], F(3, 7), F(12, 5), rule, [F(0), F(-5, 4)], 6)


def cycle(rule):
    """The short cycle with curvature 7/5, lambda_1 = 3/7 and the optimum at 2/3, beside a coordinate that rests."""
    g, l2 = F(3, 7) * F(2, 3), F(3, 4) * F(7, 5)
    theta, rest = [F(2, 3) + g / F(7, 5) - g / l2, F(5, 4)], [parabola(F(1, 3), F(3, 2)), parabola(F(1, 5), F(2))]
    return Run([[parabola(F(7, 5), F(2, 3)), p] for p in rest], F(3, 7), l2, rule, theta, 5, [[g, F(1, 9)], [g, F(-1, 9)]])


def swing(rule):
    """The cycle of two rounds with curvature 7/5, lambda_1 = 3/7 and lambda_2 two fifths of the curvature."""
    l2 = F(7, 5) * F(2, 5)
    gamma = F(3, 7) / (2 * l2 / F(7, 5) + 1)
    return Run([[parabola(F(7, 5), F(2, 3))]], F(3, 7), l2, rule, [F(2, 3) + gamma / F(7, 5) - gamma / l2], 5, [[gamma]])


RUNS = {
    "moving": lambda rule: Run(MIXED, F(2, 7), F(23, 3), rule, THETA, 4),
    "moving, any state": lambda rule: Run(BOWLS, F(2, 7), F(11, 3), rule, THETA, 3, KEPT),
    "silent": lambda rule: Run(MIXED, F(37, 3), F(23, 3), rule, THETA, 4),
    "quiet, any state": lambda rule: Run(MIXED, F(37, 3), F(11, 4), rule, THETA, 4, KEPT),
    "quiet bowls": lambda rule: Run(BOWLS, F(37, 3), F(8, 3), rule, THETA, 3, own_slopes(BOWLS, THETA)),
    "below half": lambda rule: Run(BOWLS, F(37, 3), F(6, 7), rule, THETA, 2, own_slopes(BOWLS, THETA)),
    "at rest": lambda rule: Run(BOWLS, F(28, 3), F(205, 3), rule, THETA, 2, BALANCED),
    "at the optimum": lambda rule: Run(BOWLS, F(2, 7), F(205, 3), rule, optimum(), 3, own_slopes(BOWLS, optimum())),
    "at the limit": lambda rule: Run([[parabola(F(7, 5), F(2, 3))]], F(3, 5), F(7, 2), rule, [F(2, 3) + F(3, 7)], 3),
    "one round": lambda rule: Run(BOWLS, F(2, 7), F(11, 3), rule, THETA, 1, KEPT),
    "drifting": drifting,
    "cycle": cycle,
    "swing": swing,
}
AXES = {
    "round", "client", "coordinate", "end", "round without moves", "pair of rounds without moves", "state of the orbit",
}  # fmt: skip
FORMS = [
    pytest.param(s.id.split("/")[1], f, rule, id=f"{s.id}-{f.name}-{rule}")
    for s in theorems.all_statements("fedelasticnet/") if s.scope == "motion" for f in s.forms for rule in f.established
]  # fmt: skip


def view_of(run, rule):
    pieces = [[Piece(*p) for p in row] for row in run.losses]
    return BUILDERS["motion"](data_of(pieces, run.l1, run.l2, rule, run.thetas[0], len(run.ys), run.gs[0]))


def entries(side):
    return [F(x) for x in np.ravel(side)]


class Followed(dict):
    """(name, rule) -> a run as the second writing and as the package follows it, made where it is asked for."""

    def __missing__(self, key):
        run = RUNS[key[0]](key[1])
        self[key] = run, view_of(run, key[1])
        return self[key]


@pytest.fixture(scope="module")
def runs():
    return Followed()


@pytest.mark.parametrize(("statement", "form", "rule"), FORMS)
def test_both_writings_of_a_form_agree(statement, form, rule, runs):
    """Also where the form is not about a run: where both sides are 0, or all states are one, formulas are not told apart."""
    compared = 0
    for name in RUNS:
        run, view = runs[name, rule]
        compared += (about := view.applies(form) is None)
        if about or (statement not in ("returns", "convergence") and form.name not in ("excess", "repels")):  # these need it
            sides = form.sides(view)
            left, right = worked.FORMS[statement, form.name, rule][1](run)
            assert [entries(sides.lhs), entries(sides.rhs)] == [left, right], name
            assert np.size(sides.lhs) < 2 or len(sides.axes) == np.ndim(sides.lhs)
            assert set(sides.axes) <= AXES and not np.any(sides.noise)
    assert compared


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", RUNS)
def test_both_writings_of_a_run_agree(name, rule, runs):
    """Models, stored gradients, local models, the optimum, R - R*, and the constants, whatever forms the run is for."""
    run, view = runs[name, rule]
    for found, said in ((view.theta, run.thetas), (view.stored, run.gs), (view.y, run.ys), (view.theta_star, run.star)):
        assert (found == np.array(said, dtype=object)).all()
    assert list(view.excess) == [run.excess(x) for x in run.thetas]
    assert list(view.excess_gamma) == [run.excess(run.gamma(t)) for t in range(len(run.thetas))]
    assert (view.beta, view.mu, view.beta_joint) == (run.beta, run.mu, run.beta_r)
    assert [t for t in range(1, len(run.thetas)) if view.still[t - 1]] == run.still()


# --- Algorithm 1 --------------------------------------------------------------------------------------------------------------
COUNTS, OWN_SLOPES = [3, 2, 5], [F(2, 9), F(-5, 8), F(4, 3)]
STANDSTILLS = {  # lambda_1, lambda_2, losses a coordinate
    "apart": (F(3, 7), F(5, 2), [*zip(*BOWLS, strict=True)]),
    "with slopes": (F(3, 7), F(5, 2), [[(own, h, c, ()) for own, (_, h, c, _) in zip(OWN_SLOPES, column, strict=True)]
                                       for column in zip(*BOWLS, strict=True)]),
    "close": (F(3, 7), F(2, 9), [[parabola(F(3, 7), F(3, 2)), parabola(F(4, 3), F(7, 4)), parabola(F(7, 4), F(9, 5))]] * 2),
}
BIAS = theorems.get("fedelasticnet/algorithm-1-bias").forms


def standstill(losses, l1, l2, theta, rounds):
    """The package's view of rows of losses, a client each."""
    rows = data_of(losses, l1, l2, SIGN, theta, rounds)
    data = {k: rows[k] for k in ("losses", "lambda1", "lambda2", "theta", "rounds")}
    return BUILDERS["standstill"](data | {"counts": [str(n) for n in COUNTS]})


@pytest.mark.parametrize("form", BIAS, ids=lambda f: f.name)
def test_both_writings_of_a_standstill_agree(form):
    compared = 0
    for l1, l2, columns in STANDSTILLS.values():
        each = [Standstill(column, COUNTS, l1, l2, x, 3) for column, x in zip(columns, THETA, strict=True)]
        for one in each:
            one.beta = max(h for column in columns for _, h, _, _ in column)
        view = standstill([[Piece(*p) for p in row] for row in zip(*columns, strict=True)], l1, l2, THETA, 3)
        if view.applies(form) is not None:
            continue
        sides = form.sides(view)
        both = [[*zip(*pair, strict=True)] for pair in zip(*(AT_REST[form.name][1](one) for one in each), strict=True)]
        join = (lambda side: [sum(x) for x in side]) if form.name == "in words" else (lambda side: [y for x in side for y in x])
        found = sides.terms if sides.relation == "==" else (sides.lhs, sides.rhs)
        assert [entries(s) for s in found] == [join(side) for side in both]
        assert len(sides.axes) == np.ndim(sides.lhs) and set(sides.axes) <= AXES
        compared += 1
    assert compared


@pytest.mark.parametrize("l1", [F(3, 7), F(5, 3), F(1, 6)])
def test_the_ends_of_bent_losses_are_where_the_method_begins_to_move(l1):
    """The mean move is nonincreasing in the model: it is 0 at both ends and not a little beyond them."""
    columns, l2, tiny = [*zip(*MIXED, strict=True)], F(5, 2), F(1, 10**9)
    view = standstill([[Piece(*p) for p in row] for row in MIXED], l1, l2, THETA, 2)
    for i, column in enumerate(columns):

        def move(x, column=column):
            return sum(n * (worked.local(p, x, F(0), l1, l2) - x) for n, p in zip(COUNTS, column, strict=True))

        low, high = view.ends[0][i], view.ends[1][i]
        assert move(low) == move(high) == 0 and move(low - tiny) > 0 > move(high + tiny)


# --- what an instance is told to be, at the limit and a little off ---------------------------------------------------------------
BOWL, TINY = [[parabola(F(7, 5), F(2, 3))]], F(1, 10**9)
BOWL_4 = [[parabola(F(7, 5), F(2, 3))] * 4]
AT = F(2, 3) + F(3, 7)  # where the slope is 3/5


@pytest.mark.parametrize(
    ("fact", "losses", "l1", "l2", "rounds", "true"),
    [
        (HALF, BOWL, F(3, 5), F(7, 10), 2, True),
        (HALF, BOWL, F(3, 5), F(7, 10) - TINY, 2, False),
        (WIDE, BOWL, F(3, 5), 27 * F(7, 5), 2, False),
        (WIDE, BOWL, F(3, 5), 27 * F(7, 5) + TINY, 2, True),
        (CONVERGES, BOWL, F(3, 5), F(7, 10) + TINY, 2, True),
        (CONVERGES, BOWL, F(3, 5), F(7, 10), 2, False),
        (TWO_ROUNDS, BOWL, F(3, 5), F(7, 5), 2, True),
        (TWO_ROUNDS, BOWL, F(3, 5), F(7, 5), 1, False),
        (SILENT, BOWL, F(3, 5), F(7, 5), 2, True),
        (SILENT, BOWL, F(3, 5) - TINY, F(7, 5), 2, False),
        (SILENT, BOWL, F(3, 5), F(7, 5) - TINY, 2, False),
        (SILENT, BOWL_4, F(3, 5), F(14, 5), 2, True),
        (SILENT, BOWL_4, F(3, 5), F(14, 5) - TINY, 2, False),
    ],
    ids=str,
)
def test_facts_at_their_limits(fact, losses, l1, l2, rounds, true):
    view = view_of(Run(losses, l1, l2, TRUE, [AT] * len(losses[0]), rounds), TRUE)
    assert view.has(fact) == true


def test_stored_gradients_are_no_silent_start_and_a_flat_loss_is_not_strongly_convex():
    kept = view_of(Run(BOWL, F(3, 5), F(7, 5), TRUE, [AT], 2, [[F(1, 9)]]), TRUE)
    assert not kept.has(SILENT) and not kept.has(OWN) and kept.has(STRONG)
    flat = view_of(Run([[(F(-1, 2), F(0), F(0), ((F(1, 3), F(5, 3), F(6, 5)),))]], F(3, 5), F(7, 5), TRUE, [AT], 2), TRUE)
    assert not flat.has(STRONG) and flat.mu == 0


@pytest.mark.parametrize("rule", RULES)
def test_what_no_client_will_ever_leave_is_frozen(rule):
    """Pulls of lambda_1 sharp: under the sign rule the bowl rests there, a little beyond it moves."""
    for l1, rests in ((F(3, 5), True), (F(3, 5) - TINY, False)):
        view = view_of(Run(BOWL, l1, F(7, 2), rule, [AT], 1), rule)
        assert view.has(FROZEN) == (rests and rule == SIGN)


# --- what is uncertain in floats ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("statement", "form", "rule"), [p for p in FORMS if p.values[0] != "stalls"])
def test_what_is_uncertain_is_in_the_noise(statement, form, rule):
    """The noise of gradients, or of each R - R* that a form has, as a form in floats is judged with it."""
    name = next(n for n in RUNS if view_of(RUNS[n](rule), rule).applies(form) is None)
    view = view_of(RUNS[name](rule), rule)
    view.__dict__ |= {"gradient_noise": F(3), "noise": F(1, 7)}
    room = 2 * view.lambda2 - view.beta
    moved = view.lambda2 * abs(view.delta).sum(axis=-1).sum(axis=-1) / view.delta.shape[1]
    energy = 6 * ((abs(view.h[1:]).sum(axis=-1) + moved).max() + 3 * view.d)  # gradient_noise = 3
    expected = {
        ("at-rest", "excess"): F(1, 7), ("returns", "in words"): F(1, 7), ("returns", "in words, lambda_2 > 27 beta"): F(1, 7),
        ("drift", "growth"): F(2, 7), ("descent", "rate"): F(1, 7),
        ("convergence", "repaired"): F(2, 7) + 2 * energy / room,
        ("convergence", "rate"): 2 * view.lambda2 * (F(1, 7) + energy / room),
        ("convergence", "moves"): 4 * (view.beta + abs(room)) * energy,
    }.get((statement, form.name), F(3))  # fmt: skip
    assert form.sides(view).noise == expected


@pytest.mark.parametrize(("off", "noise"), [(0, 1), (F(1, 10**10), 1), (F(-1, 10**10), 1), (F(1, 100), 0), (F(-1, 100), 0)])
@pytest.mark.parametrize("size", [F(3, 5), F(600)])
def test_whether_a_state_stalls_is_not_decided_within_rounding_of_the_limit(size, off, noise):
    losses = [[parabola(F(7, 5), F(2, 3))]]
    view = view_of(Run(losses, size * (1 + off), F(7, 2), SIGN, [F(2, 3) + size / F(7, 5)], 2), SIGN)
    sides = theorems.get("fedelasticnet/stalls").form("own start").sides
    assert sides(view).noise == 0
    view.rounding = 1e-12
    assert sides(view).noise == noise


def test_why_a_form_is_not_about_a_run_is_said_with_its_numbers(runs):
    run, view = runs["moving, any state", TRUE]
    largest = {
        RESTS: max(abs(a - b) for a, b in zip(run.thetas[3], run.thetas[2], strict=True)),
        FROZEN: max(abs(x) for row in run.delta(3) for x in row),
        OWN: max(abs(x) for row in run.gs[0] for x in row),
        STRONG: run.mu,
    }  # fmt: skip
    for fact, number in largest.items():
        assert f" {float(number):.3g}" in view._why_not(fact), fact
    steepest = max(abs(x) for row in run.grads(run.thetas[0]) for x in row)
    assert all(f"{float(x):.6g}" in view._why_not(SILENT) for x in (steepest, run.l1, run.l2))
    assert f"lambda_2 is {float(run.l2 / run.beta_r):.6g} of it" in view._why_not(HALF)
    for fact in (WIDE, CONVERGES):
        assert f"lambda_2 = {float(run.l2):.6g}, beta = {float(run.beta):.6g}" in view._why_not(fact)
