"""The inner loop without noise: certificates for few steps, and all of space for every T."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory.errors import NotCertified
from fedtheory.theorems.fedmls.inner_loop import (
    MINUS_E,
    average_is_proved,
    error,
    identity,
    last_iterate_is_proved,
)
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import check, maximise, optimum


def test_few_steps_are_proved_and_not_with_a_tenth_less():
    assert average_is_proved() and not average_is_proved(F(39, 10))
    assert last_iterate_is_proved() and not last_iterate_is_proved(F(39, 10))


def test_one_step_attains_it():
    """f = |x| with slope 1 at 0, g = 5: u_1 = -4, and u = 0. So no certificate has less than 4."""
    u1, phi = F(-4), lambda x: abs(x) + 5 * x + x * x / 2
    assert F(3, 2) * u1 == -1 - 5
    assert phi(u1) - phi(F(0)) + F(6, 8) * u1**2 == 4 == error(1) == error(1, True)
    assert -optimum(identity(1), MINUS_E) == pytest.approx(4, rel=1e-6)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("steps", [2, 5])
def test_runs_stay_below_it(steps, last):
    """Maxima of affine functions of slope at most 1 on a ball: a tenth of the error is reached."""
    rng, found = np.random.default_rng(steps), []
    for _ in range(400):
        slopes = rng.normal(size=(4, 2))
        slopes /= np.linalg.norm(slopes, axis=1, keepdims=True)
        heights, radius = rng.normal(size=4) / 3, rng.choice([0.5, 3.0])
        g, start = rng.normal(size=2) * 2, np.zeros(2)

        def into(x, radius=radius):
            return x * min(1.0, radius / max(np.linalg.norm(x), 1e-300))

        def phi(x, slopes=slopes, heights=heights, g=g):
            return (slopes @ x + heights).max() + g @ x + x @ x / 2

        x, average = start, np.zeros(2)
        for t in range(1, steps + 1):
            slope = slopes[np.argmax(slopes @ x + heights)]
            x = into((t / 2 * x - slope - g) / (1 + t / 2))
            average = average + 2 * (t + 1) / (steps * (steps + 3)) * x
        c = (steps + 1) * (steps + 2) / (steps * (steps + 3))
        for u in (into(rng.normal(size=2)), into(-g), start):
            near, far = u @ u / (steps * (steps + 3)), c / 2 * (u - x) @ (u - x)
            found.append(phi(x if last else average) - phi(u) - near + far)
    assert float(error(steps, last)) / 10 < max(found) <= float(error(steps, last))


# --- all of space, every T ------------------------------------------------------------------------
def harmonic(T):
    return sum(F(1, t) for t in range(1, T + 1))


def multipliers(T, beta):
    """Those of docs/worst_cases.md, times T (T + 3)/2; the squares of the s_t add up to E."""
    beta = [F(0), F(2), *beta]
    d = [1 + beta[t] * (t + 2) - beta[t + 1] * (t + 1) for t in range(1, T)]
    squares = {f"|s{t - 1}|": 1 + F(1, t) + beta[t] for t in range(1, T + 1)}
    squares[f"|s{T}|"] = sum(beta) + sum(F(t, 4 * (t + 1)) * x * x for t, x in enumerate(d, 1))
    edges = {f"u, u{t - 1}": F(t + 1) for t in range(1, T + 1)}
    edges |= {f"u{t}, u{T}": F(1 + (t == 0)) for t in range(T)}
    return edges | {name.replace("s", "u"): x for name, x in squares.items()}, sum(squares.values())


def quartic(T):
    """beta_2..beta_T, the last one (T + 1)/(T + 2)."""
    return [F(T + 1, T + 2) * F(t, T) ** 4 for t in range(2, T + 1)]


@pytest.mark.parametrize("T", [2, 5, 9])
def test_the_multipliers_of_the_proof(T):
    """The rest is L D L' with D >= 0, in fractions; and not with a tenth less."""
    numbers, total = multipliers(T, quartic(T))
    W, family = F(T * (T + 3), 2), identity(T, projected=False)
    claim = {name: x / W for name, x in numbers.items()}
    check(family, claim | {MINUS_E: -total / W})
    with pytest.raises(NotCertified):
        less = {name: x * (F(9, 10) if "|" in name else 1) for name, x in claim.items()}
        check(family, less | {MINUS_E: -F(9, 10) * total / W})


def test_many_steps_on_all_of_space():
    """B <= 2 T + 6, so that E <= 4/T, from T = 20 on: with quartic weights, and then in general."""
    for T in range(20, 30):
        assert multipliers(T, quartic(T))[1] <= 2 * T + 6
    for T in range(24, 80, 5):
        cubes = T * (T + 1) * (T + 2)
        beta = [F(T + 1, T + 2) * F(t * (t + 1) * (t + 2), cubes) for t in range(2, T + 1)]
        exact, said = multipliers(T, beta)[1], F(23, 14) * T + harmonic(T) + F(1078, 100)
        assert exact <= said <= 2 * T + 6
    assert F(5, 14) > F(1, 25) and F(23, 14) * 24 + harmonic(24) + F(1078, 100) <= 2 * 24 + 6


@pytest.mark.parametrize("T", range(2, 20))
def test_few_steps_on_all_of_space(T):
    """A certificate for each with the losses at up to three points in a row."""
    full = identity(T, projected=False)

    def near(name):
        i, _, j = name.partition(", ")
        return not j or i == "u" or (j != "u" and 0 < int(j[1:]) - int(i[1:]) <= 3)

    kept = Family(full.start, {n: q for n, q in full.terms.items() if near(n)}, full.signed)
    assert -maximise(kept, MINUS_E).numbers[MINUS_E] * T < 4
