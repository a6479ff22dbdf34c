"""FedElasticNet's dynamics on runs where no number is 0 or 1: what an instance is told to be, at each limit, and what is uncertain."""

from __future__ import annotations

from fractions import Fraction as F

import pytest
from fedelasticnet_worlds import BUILDERS

from fedtheory import theorems
from fedtheory.theorems.fedelasticnet.dynamics.facts import (
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
from fedtheory.theory.rounds.slopes import Piece


def parabola(h, c):
    return (F(0), F(h), F(c), ())


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


def slopes(row, theta):
    return [Piece(*p).slopes(x)[0] for p, x in zip(row, theta, strict=True)]


def own_slopes(losses, theta):
    return [slopes(row, theta) for row in losses]


def run_of(losses, l1, l2, rule, theta, rounds, stored=None):
    """The package's view of a run."""
    stored = stored or [[F(0)] * len(theta) for _ in losses]
    pieces = [[Piece(*p) for p in row] for row in losses]
    return BUILDERS["motion"](data_of(pieces, F(l1), F(l2), rule, theta, rounds, stored))


def optimum():
    return [sum(h * c for _, h, c, _ in column) / sum(h for _, h, _, _ in column) for column in zip(*BOWLS, strict=True)]


def drifting(rule):
    """One coordinate as the drift of three, slopes and lambda_1 times 3/7, bends from 2/3 to 5/2; the other one rests."""
    up = ((F(2, 3), F(5, 2), F(3, 7)),)
    first = [(F(-9, 14), F(0), F(0), up), (F(0), F(0), F(0), up), (F(0), F(0), F(0), up)]
    second = [parabola(F(2, 5), F(-5, 3)), parabola(F(3, 8), F(-1)), parabola(F(1, 6), F(-3, 2))]
    return run_of([list(row) for row in zip(first, second, strict=True)], F(3, 7), F(12, 5), rule, [F(0), F(-5, 4)], 6)


def cycle(rule):
    """The short cycle with curvature 7/5, lambda_1 = 3/7 and the optimum at 2/3, beside a coordinate that rests."""
    g, l2 = F(3, 7) * F(2, 3), F(3, 4) * F(7, 5)
    theta, rest = [F(2, 3) + g / F(7, 5) - g / l2, F(5, 4)], [parabola(F(1, 3), F(3, 2)), parabola(F(1, 5), F(2))]
    return run_of([[parabola(F(7, 5), F(2, 3)), p] for p in rest], F(3, 7), l2, rule, theta, 5, [[g, F(1, 9)], [g, F(-1, 9)]])


def swing(rule):
    """The cycle of two rounds with curvature 7/5, lambda_1 = 3/7 and lambda_2 two fifths of the curvature."""
    l2 = F(7, 5) * F(2, 5)
    gamma = F(3, 7) / (2 * l2 / F(7, 5) + 1)
    return run_of([[parabola(F(7, 5), F(2, 3))]], F(3, 7), l2, rule, [F(2, 3) + gamma / F(7, 5) - gamma / l2], 5, [[gamma]])


RUNS = {
    "moving": lambda rule: run_of(MIXED, F(2, 7), F(23, 3), rule, THETA, 4),
    "moving, any state": lambda rule: run_of(BOWLS, F(2, 7), F(11, 3), rule, THETA, 3, KEPT),
    "silent": lambda rule: run_of(MIXED, F(37, 3), F(23, 3), rule, THETA, 4),
    "quiet, any state": lambda rule: run_of(MIXED, F(37, 3), F(11, 4), rule, THETA, 4, KEPT),
    "quiet bowls": lambda rule: run_of(BOWLS, F(37, 3), F(8, 3), rule, THETA, 3, own_slopes(BOWLS, THETA)),
    "below half": lambda rule: run_of(BOWLS, F(37, 3), F(6, 7), rule, THETA, 2, own_slopes(BOWLS, THETA)),
    "at rest": lambda rule: run_of(BOWLS, F(28, 3), F(205, 3), rule, THETA, 2, BALANCED),
    "at the optimum": lambda rule: run_of(BOWLS, F(2, 7), F(205, 3), rule, optimum(), 3, own_slopes(BOWLS, optimum())),
    "at the limit": lambda rule: run_of([[parabola(F(7, 5), F(2, 3))]], F(3, 5), F(7, 2), rule, [F(2, 3) + F(3, 7)], 3),
    "one round": lambda rule: run_of(BOWLS, F(2, 7), F(11, 3), rule, THETA, 1, KEPT),
    "drifting": drifting,
    "cycle": cycle,
    "swing": swing,
}
FORMS = [
    pytest.param(s.id.split("/")[1], f, rule, id=f"{s.id}-{f.name}-{rule}")
    for s in theorems.all_statements("fedelasticnet/") if s.scope == "motion" for f in s.forms for rule in f.established
]  # fmt: skip


# --- Algorithm 1 ----------------------------------------------------------------------------------
COUNTS = [3, 2, 5]


def standstill(losses, l1, l2, theta, rounds):
    """The package's view of rows of losses, a client each."""
    rows = data_of(losses, l1, l2, SIGN, theta, rounds)
    data = {k: rows[k] for k in ("losses", "lambda1", "lambda2", "theta", "rounds")}
    return BUILDERS["standstill"](data | {"counts": [str(n) for n in COUNTS]})


@pytest.mark.parametrize("l1", [F(3, 7), F(5, 3), F(1, 6)])
def test_the_ends_of_bent_losses_are_where_the_method_begins_to_move(l1):
    """The mean move is nonincreasing in the model: it is 0 at both ends and not a little beyond them."""
    columns, l2, tiny = [*zip(*MIXED, strict=True)], F(5, 2), F(1, 10**9)
    view = standstill([[Piece(*p) for p in row] for row in MIXED], l1, l2, THETA, 2)
    for i, column in enumerate(columns):

        def move(x, column=column):
            return sum(n * (Piece(*p).minimise(F(0), l2, x, l1) - x) for n, p in zip(COUNTS, column, strict=True))

        low, high = view.ends[0][i], view.ends[1][i]
        assert move(low) == move(high) == 0 and move(low - tiny) > 0 > move(high + tiny)


# --- what an instance is told to be, at the limit and a little off --------------------------------
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
    view = run_of(losses, l1, l2, TRUE, [AT] * len(losses[0]), rounds)
    assert view.has(fact) == true


def test_stored_gradients_are_no_silent_start_and_a_flat_loss_is_not_strongly_convex():
    kept = run_of(BOWL, F(3, 5), F(7, 5), TRUE, [AT], 2, [[F(1, 9)]])
    assert not kept.has(SILENT) and not kept.has(OWN) and kept.has(STRONG)
    flat = run_of([[(F(-1, 2), F(0), F(0), ((F(1, 3), F(5, 3), F(6, 5)),))]], F(3, 5), F(7, 5), TRUE, [AT], 2)
    assert not flat.has(STRONG) and flat.mu == 0


@pytest.mark.parametrize("rule", RULES)
def test_what_no_client_will_ever_leave_is_frozen(rule):
    """Pulls of lambda_1 sharp: under the sign rule the bowl rests there, a little beyond it moves."""
    for l1, rests in ((F(3, 5), True), (F(3, 5) - TINY, False)):
        view = run_of(BOWL, l1, F(7, 2), rule, [AT], 1)
        assert view.has(FROZEN) == (rests and rule == SIGN)


# --- what is uncertain in floats ------------------------------------------------------------------
@pytest.mark.parametrize(("statement", "form", "rule"), [p for p in FORMS if p.values[0] != "stalls"])
def test_what_is_uncertain_is_in_the_noise(statement, form, rule):
    """The noise of gradients, or of each R - R* that a form has, as a form in floats is judged with it."""
    view = next(v for v in (made(rule) for made in RUNS.values()) if v.applies(form) is None)
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
    view = run_of(losses, size * (1 + off), F(7, 2), SIGN, [F(2, 3) + size / F(7, 5)], 2)
    sides = theorems.get("fedelasticnet/stalls").form("own start").sides
    assert sides(view).noise == 0
    view.rounding = 1e-12
    assert sides(view).noise == noise


def test_why_a_form_is_not_about_a_run_is_said_with_its_numbers():
    view = RUNS["moving, any state"](TRUE)
    largest = {
        RESTS: abs(view.theta[3] - view.theta[2]).max(), FROZEN: abs(view.delta[2]).max(),
        OWN: abs(view.stored[0]).max(), STRONG: view.mu,
    }  # fmt: skip
    for fact, number in largest.items():
        assert f" {float(number):.3g}" in fact.unmet(view), fact
    steepest = max(abs(x) for row in own_slopes(BOWLS, THETA) for x in row)
    assert all(f"{float(x):.6g}" in SILENT.unmet(view) for x in (steepest, view.lambda1, view.lambda2))
    assert f"lambda_2 is {float(view.lambda2 / view.beta_joint):.6g} of it" in HALF.unmet(view)
    for fact in (WIDE, CONVERGES):
        told = f"lambda_2 = {float(view.lambda2):.6g}, beta = {float(view.beta):.6g}"
        assert told in fact.unmet(view)


def test_two_entries_by_pencil():
    """Client 1 moves by 1/2 and stores -3/2, so that h = -1/2 and theta^1 = 1/6 + 1/2, theta^t = 1/6 + t/2."""
    ramp = ((F(1), F(2), F(1)),)
    first, other = (F(-3, 2), F(0), F(0), ramp), (F(0), F(0), F(0), ramp)
    view = run_of([[first], [other], [other]], 1, 1, SIGN, [F(0)], 4)
    assert [str(x) for x in view.theta[:, 0]] == ["0", "2/3", "7/6", "5/3", "13/6"]
    assert [str(x) for x in view.h[:, 0]] == ["0", "-1/2", "-1/2", "-1/2", "-1/2"]
