"""Theorem D, and cohorts of which nobody moves: runs, proofs, and where the condition ends."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from algorithm_3 import DiagonalInstance, PiecewiseLosses, RationalState, exact_array

from fedtheory import problems, theorems
from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.theorems.fedelasticnet.dynamics.descent import (
    cohorts_descend,
    true_gradient_calms,
    true_gradient_descends,
)
from fedtheory.theorems.fedelasticnet.dynamics.motions import Motion, data_of, drift_of_one
from fedtheory.theorems.fedelasticnet.dynamics.silent_cohorts import (
    after_a_round,
    potential,
    potential_is_exact,
    threshold,
    threshold_is_proved,
)
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.rounds.slopes import quadratic


@pytest.mark.parametrize("seed", range(6))
def test_the_true_gradient_rule_converges_with_everyone_in_every_round(seed):
    """lambda_2 = 0.55 beta, losses that are not separable: the potential falls, and grad R."""
    rng = np.random.default_rng(seed)
    problem = problems.random_huber(4, 3, [6] * 4, seed=seed, condition=5.0, ridge=0.0)
    beta = float(problem.beta_k.max())
    algorithm = FedElasticNetDyn(0.2 * beta, 0.55 * beta, "true-gradient")
    view = Motion.followed(problem, algorithm, 150, 3 * rng.standard_normal(3))
    statement = theorems.get("fedelasticnet/convergence")
    assert all(judge_view(statement, f, view).verdict == "holds" for f in statement.forms)
    potential = view.excess[:-1] + view.energy / (2 * view.lambda2 - view.beta)
    assert view.delta[0].any() and (np.diff(potential) <= 1e-12).all()
    assert (view.slope[-1] ** 2).sum() < (view.slope[0] ** 2).sum() / 100


def test_the_sums_of_squares_of_its_proof_and_not_of_a_tenth_less():
    assert true_gradient_descends() and not true_gradient_descends(two=F(19, 10))
    assert not true_gradient_descends(one=F(9, 10))
    assert true_gradient_calms() and not true_gradient_calms(half=3)


@pytest.mark.parametrize(
    ("l2", "shrinks"), [(F(2, 5), False), (F(1, 2), False), (F(51, 100), True)]
)
def test_half_of_beta_is_the_threshold(l2, shrinks):
    """One parabola with its slope stored: nobody moves, and grad R shrinks above beta/2 only."""
    view = Motion.from_data(
        data_of([[quadratic(1)]], 1, l2, "true-gradient", [F(1, 100)], 6, [[F(1, 100)]])
    )
    slopes = abs(view.slope[:, 0])
    assert not view.delta.any() and (slopes[-1] < slopes[0]) == shrinks
    statement = theorems.get("fedelasticnet/convergence")
    verdicts = {
        f.name: judge_view(statement, f, view).verdict
        for f in statement.forms
        if view.applies(f) is None
    }
    assert verdicts == dict.fromkeys(
        ["repaired", "rate", "moves"] if shrinks else ["moves"], "holds"
    )


def test_under_the_sign_rule_the_same_potential_does_not_fall():
    statement = theorems.get("fedelasticnet/convergence")
    view = Motion.from_data(
        drift_of_one(28, 3) | {"theta": ["-1/2"], "stored": [["14/29"]]}
    )
    assert judge_view(statement, statement.form("repaired"), view).verdict == "violated"


def moments_of(state: RationalState, star: F, slopes: list[F]) -> tuple[F, F, F, F]:
    """The means of x^2, x h, h^2 and the (g_k less its value at the optimum)^2; lambda_2 = 1."""
    x, h, kept = (
        state.theta[..., 0] - star,
        state.h[..., 0],
        state.stored[..., 0] - np.array(slopes, dtype=object),
    )
    each = (x * x, x * h, h * h, (kept * kept).sum(axis=-1) / F(kept.shape[-1]))
    return tuple(e.sum() / F(len(e)) for e in each)


@pytest.mark.parametrize(("m", "P"), [(2, 1), (3, 1), (3, 2), (4, 2), (3, 3)])
def test_second_moments_of_silent_cohorts_are_those_of_all_cohorts(m, P):
    """Three rounds of parabolas with different minimisers, from numbers that are no gradients."""
    a, centres = F(7, 3), [F(n * n, 3) - n for n in range(m)]
    losses = PiecewiseLosses([[quadratic(a, c)] for c in centres])
    instance = DiagonalInstance(losses, F(1000), F(1), P, "true-gradient", exact_array([[F(5, 2)]]))
    stored = exact_array([[[F(n, 2) - 1] for n in range(m)]])
    state = RationalState(
        instance.x0, losses.mean(stored[0])[None], stored, np.stack([instance.x0] * m, axis=1)
    )
    star, slopes = losses.theta_star[0], [a * (losses.theta_star[0] - c) for c in centres]
    moments = moments_of(state, star, slopes)
    for _ in range(3):
        state = RationalState(
            *(x.reshape(-1, *x.shape[2:]) for x in instance.step(state, instance.members))
        )
        before, moments = moments, after_a_round(F(m), F(P), a, moments)
        assert moments_of(state, star, slopes) == moments
        K, k = P * P - 3 * P + 2 * m, 2 * m - P - 1
        grown = potential(m, P, a, moments) - potential(m, P, a, before)
        assert grown == P * a * (K * a - 2 * P * k) * before[0]


def test_the_optimum_repels_silent_cohorts_below_the_threshold_and_not_above():
    """Eigenvalues of the second moments in floats, for every P of up to eight clients."""
    for m in range(2, 9):
        for P in range(1, m + 1):
            for off, repels in ((F(99, 100), True), (F(101, 100), False)):
                a = float(1 / (threshold(F(m), F(P)) * off))
                matrix = np.array([after_a_round(m, P, a, row) for row in np.eye(4)]).T
                assert (abs(np.linalg.eigvals(matrix)).max() > 1 + 1e-9) == repels
    at = {(m, P): threshold(F(m), F(P)) for m in range(2, 30) for P in range(1, m + 1)}
    assert all(x == F(1, 2) if P in (1, m) else x < F(1, 2) for (m, P), x in at.items())
    assert at[3, 2] == F(1, 3)


def test_the_threshold_is_proved_and_not_with_other_numbers():
    assert potential_is_exact() and not potential_is_exact(three=2)
    assert threshold_is_proved() and not threshold_is_proved(two=3)


# --- cohorts that move ----------------------------------------------------------------------------
def test_theorem_f_is_proved_and_not_with_less():
    assert cohorts_descend() and not cohorts_descend(four=3)


@pytest.mark.parametrize(("m", "P"), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)])
def test_theorem_f_on_all_cohorts(m, P):
    """Parabolas with gradients stored that were taken anywhere, lambda_2 = 4 beta m/P."""
    rng, falls = np.random.default_rng(10 * m + P), []
    for _ in range(30):
        curvature = [F(int(rng.integers(1, 5)), 4) for _ in range(m)]
        centres = [F(int(rng.integers(-8, 9))) for _ in range(m)]
        losses = PiecewiseLosses(
            [[quadratic(h, c)] for h, c in zip(curvature, centres, strict=True)]
        )
        beta, at = max(curvature), F(int(rng.integers(-8, 9)))
        taken_at = [F(int(rng.integers(-8, 9))) for _ in range(m)]  # the z_k

        def gradient(x, k, h=curvature, c=centres):
            return h[k] * (x - c[k])

        def potential_of(theta, z, g, h=curvature, c=centres, m=m):
            loss = [
                [h[k] * (x - c[k]) ** 2 / 2 for k, x in enumerate(xs)] for xs in ([theta] * m, z)
            ]
            apart = [a - b - v * (theta - x) for a, b, v, x in zip(*loss, g, z, strict=True)]
            return (sum(loss[0]) + sum(apart)) / m

        stored = [gradient(z, k) for k, z in enumerate(taken_at)]
        start = exact_array([[at]])
        instance = DiagonalInstance(
            losses, F(int(rng.integers(1, 9)), 4), 4 * beta * F(m, P), P, "true-gradient", start
        )
        kept = exact_array([[[g] for g in stored]])
        places = exact_array([[[z] for z in taken_at]])
        state = RationalState(start, losses.mean(kept[0])[None], kept, places)
        after = instance.step(state, instance.members)
        count = len(instance.members)
        mean = sum(
            potential_of(
                after.theta[0, i, 0], list(after.local[0, i, :, 0]), list(after.stored[0, i, :, 0])
            )
            for i in range(count)
        ) / F(count)
        slope = sum(gradient(at, k) for k in range(m)) / F(m)
        lost = potential_of(at, taken_at, stored) - mean
        assert lost >= slope**2 / (4 * instance.lambda2)
        falls.append(lost)
    assert max(falls) > 0
