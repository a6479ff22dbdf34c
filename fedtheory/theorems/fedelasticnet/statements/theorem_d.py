"""FedElasticNet, Theorems D and F: where gradients tend to 0 under the true-gradient rule.

D is about everyone in every round, F about cohorts. Proofs: docs/fedelasticnet_dynamics.md.
"""

from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.dynamics import facts
from fedtheory.theorems.fedelasticnet.dynamics.descent import (
    cohorts_descend,
    true_gradient_calms,
    true_gradient_descends,
)
from fedtheory.theorems.fedelasticnet.dynamics.motion_view import MotionView
from fedtheory.theorems.fedelasticnet.dynamics.silent_cohorts import (
    potential_is_exact,
    threshold_is_proved,
)
from fedtheory.theorems.fedelasticnet.notation import (
    ALGORITHM_3,
    MORE,
    ONE,
    STORED_GRADIENTS,
    TENTH,
    Share,
    part,
)
from fedtheory.theorems.fedelasticnet.quantities import norm_sq
from fedtheory.theorems.fedelasticnet.statements.dynamics import ASSUMED, THEOREM_D, TRUE, about
from fedtheory.theorems.fedelasticnet.statements.theorem_b6 import algebra
from fedtheory.theory import Sides, form, le, repaired, wrong


def _potential(v: MotionView, share: Share = ONE) -> Any:
    """R(theta^{t-1}) - R* + E_t/(2 lambda_2 - beta) of rounds 1..T."""
    return v.excess[:-1] + part(v.energy, share) / (2 * v.lambda2 - v.beta)


def _descends(v: MotionView, share: Share = ONE, of_energy: Share = ONE) -> Sides:
    """The potential of round t + 1 against that of round t, t = 1..T-1."""
    less = part(norm_sq(v.slope[:-2]), share) / (2 * v.lambda2)
    potential = _potential(v, of_energy)
    noise = 2 * v.noise + 2 * v.energy_noise / (2 * v.lambda2 - v.beta)
    return le(potential[1:], potential[:-1], -less, noise=noise, axes=("round",))


def _small_gradients(v: MotionView, excess: bool = True) -> Sides:
    """The mean of ||grad R(theta^{t-1})||^2 over rounds 1..T-1."""
    rounds = len(v.y) - 1
    first = _potential(v)[:1] if excess else _potential(v)[:1] - v.excess[:1]
    noise = 2 * v.lambda2 * (v.noise + v.energy_noise / (2 * v.lambda2 - v.beta))
    found = np.array([norm_sq(v.slope[:rounds]).sum()]) / rounds
    return le(found, 2 * v.lambda2 * first / rounds, noise=noise)


def _calms(v: MotionView, to_come: Share = ONE, made: Share = ONE, turned: Share = ONE) -> Sides:
    """beta E_{t+1} against beta E_t less the moves of both rounds and what h turns, t = 1..T-1."""
    beta, room = v.beta, 2 * v.lambda2 - v.beta
    less = (
        part(beta * v.lambda2 * v.lambda2 * v.spread[1:], to_come)
        + part(beta * v.lambda2 * room / 2 * v.spread[:-1], made)
        + part(room * norm_sq(v.h[2:] - v.h[1:-1]), turned)
    )
    noise = 4 * (beta + abs(room)) * v.energy_noise
    return le(beta * v.energy[1:], beta * v.energy[:-1], -less, noise=noise, axes=("round",))


OURS = "ours: Theorem D"
ABOVE_HALF = r"\lambda_2>\tfrac\beta2\ \Rightarrow\ "
ENERGY = r"\ E_t=\|h^t\|^2+\lambda_2^2D_t^2,\ D_t^2=\tfrac1m\sum_k\|\delta_k^t\|^2"
FALLS = r"\Phi_{t+1}\le\Phi_t-\tfrac1{2\lambda_2}\|\nabla R(\theta^{t-1})\|^2\ (t\ge1)"
PHI = r",\quad\Phi_t=R(\theta^{t-1})+\tfrac{E_t}{2\lambda_2-\beta}," + ENERGY
CALMS = (
    r"\beta E_{t+1}\le\beta E_t"
    r"-\beta\lambda_2^2\big(D_{t+1}^2+(1-\tfrac\beta{2\lambda_2})D_t^2\big)"
    r"-(2\lambda_2-\beta)\|h^{t+1}-h^t\|^2\ (t\ge1)," + ENERGY
)
FALLS_OF_COHORTS = (
    r"\lambda_2\ge\tfrac{4m}P\beta\ \Rightarrow\ "
    r"\mathbb EV_t\le V_{t-1}-\tfrac1{4\lambda_2}\|\nabla R(\theta^{t-1})\|^2,"
    r"\quad V=R(\theta)+\tfrac1m\sum_k\big(L_k(\theta)-L_k(z_k)-\langle g_k,\theta-z_k\rangle\big)"
)
POTENTIAL = (
    r"\mathbb EV_t=V_{t-1}+Pa(Ka-2Pk)\|\theta^{t-1}-\theta_*\|^2,"
    r"\quad V=P(2a(m-1)(m-P)+Pk)\|\theta-\theta_*\|^2"
    r"+\tfrac{2P(m-P)}{\lambda_2}(a(m-1)-k)\langle\theta-\theta_*,h\rangle"
    r"+\tfrac{(m-P)(2m-P)}{\lambda_2^2}\big((m-P-1)\|h\|^2+C\big),"
    r"\ a=\tfrac\beta{\lambda_2},\ k=2m-P-1,\ K=P^2-3P+2m"
)
THRESHOLD = (
    r"\tfrac{\lambda_2}\beta>\tfrac K{2Pk}\ \Rightarrow\ "
    r"\sum_t\mathbb E\|\theta^t-\theta_*\|^2\le\tfrac{V_0}{Pa(2Pk-Ka)},"
    r"\quad\tfrac{\lambda_2}\beta<\tfrac K{2Pk},\ g_k^0=0,\ \theta^0\ne\theta_*\ \Rightarrow\ "
    r"\sup_t\mathbb E\|\theta^t-\theta_*\|^2=\infty"
)

@about("convergence", source=OURS, ours=True)
def convergence(q):
    """gradients tend to 0 under the true-gradient rule with everyone in every round"""
    yield repaired(
        lambda: _descends(q), ABOVE_HALF + FALLS + PHI,
        wrong("a tenth more", lambda: _descends(q, MORE)),
        wrong("a tenth less of E in the potential", lambda: _descends(q, of_energy=TENTH)),
        rules=TRUE, holds=True, needs=(facts.CONVERGES, facts.TWO_ROUNDS), proof=THEOREM_D,
        note="so grad R(theta^t) tends to 0 from every start, and no orbit returns but at an "
        "optimum. R need not be strongly convex, and nothing is asked of the signs. R(theta^t) "
        "tends to R* where R has bounded level sets; of theta^t itself nothing is said. From "
        "lambda_2 = beta/2 downwards it is false (near-the-optimum). Attained in the limit of "
        "small beta. Proof: theorem-d-proof. Cohorts: theorem-f is about lambda_2 from 4 beta m/P "
        "on, and silent-cohorts about what is needed",
    )
    yield form(
        "rate", lambda: _small_gradients(q),
        ABOVE_HALF
        + r"\tfrac1T\sum_{t=1}^T\|\nabla R(\theta^{t-1})\|^2\le\tfrac{2\lambda_2}T(\Phi_1-R_*)",
        wrong("no R in the potential", lambda: _small_gradients(q, False)), rules=TRUE, holds=True,
        needs=(facts.CONVERGES, facts.TWO_ROUNDS), proof="note", note="the sum of the form before",
    )
    yield form(
        "moves", lambda: _calms(q), CALMS,
        wrong("a tenth more of the moves to come", lambda: _calms(q, to_come=MORE)),
        wrong("a tenth more of the moves made", lambda: _calms(q, made=MORE)),
        wrong("a tenth more of h", lambda: _calms(q, turned=MORE)), rules=TRUE, holds=True,
        needs=(facts.SMOOTH, facts.TWO_ROUNDS), proof=THEOREM_D,
        note="for lambda_2 >= beta/2 the squares of what the clients move in rounds 2, 3, ... add "
        "up to E_1/lambda_2^2 at most: the drift of the clients does vanish, wherever the model "
        "goes. All three terms are attained by parabolas",
    )


@algebra("theorem-d-proof", source=OURS, ours=True, assumptions=(*ASSUMED, STORED_GRADIENTS))
def theorem_d_proof(q):
    """the sums of squares behind Theorem D"""
    yield repaired(
        None, ABOVE_HALF + FALLS + PHI, holds=True, symbolic=true_gradient_descends, proves=True,
        note="six multipliers, rational functions of beta/lambda_2, leave two forms whose pivots "
        "are at least 0 on the whole range. Of the l1 norm only <s_k, delta_k> >= 0 is used",
    )
    yield form(
        "moves", None, CALMS, holds=True, symbolic=true_gradient_calms, proves=True,
        note="twice three inequalities leave two squares",
    )


@algebra(
    "theorem-f", ours=True, source="ours: Theorem F",
    assumptions=(
        "every L_k is convex and beta-smooth, and R, their plain mean, is bounded below",
        *ALGORITHM_3,
        "P of the m clients are drawn uniformly without replacement",
        "local problems solved exactly, no threshold epsilon",
        STORED_GRADIENTS,
        "every g_k is a gradient of L_k at some z_k, as once every client has taken part",
    ),
)
def theorem_f(q):
    """gradients tend to 0 under the true-gradient rule where some clients stay away"""
    yield repaired(
        None, FALLS_OF_COHORTS, holds=True, symbolic=cohorts_descend, proves=True,
        note="so the mean of E||grad R||^2 over T rounds is at most 4 lambda_2 (V_0 - R*)/T, and "
        "grad R tends to 0 with probability 1. Four multipliers, for all m and P at once. 4 m/P is "
        "not claimed to be the least. The z_k enter V alone: g_k = 0 at the start will do where "
        "each L_k is bounded below, with inf L_k in place of L_k(z_k)",
    )


@algebra(
    "silent-cohorts", ours=True, source="ours: Algorithm 3 on parabolas",
    assumptions=(
        "every L_k is a parabola with Hessian beta I and a minimiser of its own",
        *ALGORITHM_3,
        "P of the m >= 2 clients are drawn uniformly without replacement",
        "local problems solved exactly",
        STORED_GRADIENTS,
        "no client moves in the rounds that are looked at, as for large lambda_1",
    ),
)
def silent_cohorts(q):
    """rounds of P of m clients in which nobody moves, true-gradient rule"""
    yield form(
        "potential", None, POTENTIAL, holds=True, symbolic=potential_is_exact, proves=True,
        note="an equation, in the expectation over the cohort. C is the mean of "
        "||g_k - grad L_k(theta*)||^2",
    )
    yield form(
        "threshold", None, THRESHOLD, holds=True, symbolic=threshold_is_proved, proves=True,
        note="1/2 for P = 1 and for P = m, whatever m is, and less in between: 1/3 for two of "
        "three clients. V >= 0 up to the threshold, and V_0 > 0 from g = 0. Beyond it the matrix "
        "of the second moments has a real eigenvalue above 1",
    )
