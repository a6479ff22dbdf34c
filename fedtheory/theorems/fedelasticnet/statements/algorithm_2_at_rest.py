"""FedElasticNet, Algorithm 2: where it rests, what it does close by, and when SCAFFOLD is stable."""

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms import FedElasticNetScaffold
from fedtheory.theorems.fedelasticnet.algorithm_2.rest import AT_OPTIMUM, AWAY, STEADY, RestView
from fedtheory.theorems.fedelasticnet.algorithm_2.stability import SERVER, TWO_CLIENTS, StabilityView
from fedtheory.theorems.fedelasticnet.notation import nine_tenths
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.algorithm_2 import NUMBERS
from fedtheory.theory import Sides, eq, form, le, method, repaired, wrong

SEPARABLE = ("L_k(x) = sum_i a_ki (x_i - c_ki)^2/2", "everybody takes part", "full local gradients in line 6")
SLOW = "0 < eta_l (a_ki + lambda_2) < 1, with q = 1 - eta_l (a_ki + lambda_2) and S_n = 1 + q + ... + q^(n-1)"


def _near(v: RestView, odd: int = -1, jump: int = 1) -> Sides:
    J, method = jump * v.jump(odd), v.method
    theta = v.linear.x + method.eta_g * J.sum(axis=0) / v.m
    c_k = v.linear.c_k[0] - J / (method.B * method.eta)
    moved = np.concatenate([v.near.x - v.theta, v.near.c_k[0] - v.c_k])
    return eq(moved, np.concatenate([theta, c_k]), axes=("state", "coordinate"))


@FILE.statement(
    "algorithm-2-at-rest", over=RestView,
    source="section 3.2: the control variate already addresses the client drift problem; the paper "
    "states no theorem for Algorithm 2", assumptions=(*SEPARABLE, SLOW), symbols=NUMBERS, ours=True,
)
def algorithm_2_at_rest(q):
    """where Algorithm 2 rests, and how far from stationary that is"""

    def within() -> Sides:
        return le(abs(q.grad), q.rho.sum(axis=0) / q.m, axes=("coordinate",))

    def rests() -> Sides:
        after, before = np.concatenate([q.after.x, q.after.c_k[0]]), [q.theta[None], q.c_k]
        return eq(after, np.concatenate(before), axes=("state", "coordinate"))

    def optimum_rests(sign: int = 0) -> Sides:
        moves = q.at_zero(sign)
        return eq(moves + q.after.x[0] - q.theta, 0 * moves, axes=("client", "coordinate"))

    yield form(
        "the drift is addressed", lambda: le(abs(q.grad), 0 * q.grad, axes=("coordinate",)),
        r"\text{a round leaves }(\theta,c_k)\text{ as it is}\ \Rightarrow\ \nabla R(\theta)=0",
        fails=True, wording="in words",
        note="r_k = rho_k for everybody: the first local step goes down, the others are pushed "
        "back to theta. It happens for every lambda_1 > 0 and B >= 2, and rho does not vanish "
        "with eta_l",
    )
    yield repaired(
        within,
        r"|\partial_iR(\theta)|\le\tfrac1m\sum_k\rho_{ki},\quad\rho_{ki}=\lambda_1S_{B-1}/S_B",
        wrong("a tenth less", lambda: nine_tenths(within())), holds=True,
        proof="docs/fedelasticnet_algorithm_2.md#where-algorithm-2-rests",
        note="at rest c = 0 and every client comes back to theta, which needs |r_k| <= rho_k, and "
        "grad R is the mean of the r_k; attained. lambda_1 (B-1)/B <= rho < lambda_1; 0 for B = 1",
    )
    yield form(
        "these points rest", rests,
        r"r_{ki}\in\{0,\pm\rho_{ki}\},\ c=0\ \Rightarrow\ \text{a round leaves "
        r"}(\theta,c_k)\text{ as it is}",
        wrong("the optimum alone", lambda: eq(q.grad, 0 * q.grad)), holds=True,
        proof="docs/fedelasticnet_algorithm_2.md#where-algorithm-2-rests",
    )
    yield form(
        "the optimum rests", optimum_rests,
        r"\nabla R(\theta)=0,\ c_k=\nabla L_k(\theta)\ \Rightarrow\ \text{a round leaves "
        r"}(\theta,c_k)\text{ as it is}", wrong("sign(0) = 1", sign=1),
        holds=True, needs=(AT_OPTIMUM,),
        proof="r_k = 0, as c = grad R(theta) = 0, and sign(0) = 0: no local step moves",
        note="with sign(0) = 0; for every lambda_1, lambda_2, eta_l and B",
    )


@FILE.statement(
    "algorithm-2-near-rest", over=RestView,
    title="what Algorithm 2 does near its points of rest: the optimum does not attract, the "
    "others do as SCAFFOLD's",
    source="section 3.2: effectively resolves the client drift problem; the paper states no "
    "theorem for Algorithm 2",
    assumptions=(
        *SEPARABLE, SLOW,
        "signs of the local moves are those at the point of rest (near it they are)",
    ),
    symbols=NUMBERS, ours=True,
)
def algorithm_2_near_rest(q):
    """A round from close to a point of rest."""
    yield form(
        "the optimum attracts", lambda: le(abs(q.near.x[0] - q.theta).max(), abs(q.shift).max()),
        r"\|\theta^{t-1}-\theta_*\|_\infty\text{ "
        r"small}\ \Rightarrow\ \|\theta^t-\theta_*\|_\infty\le\|\theta^{t-1}-\theta_*\|_\infty",
        fails=True, needs=(AT_OPTIMUM, AWAY), wording="in words",
        note="for every lambda_1 > 0 and B >= 2, however small eta_l is and however close one "
        "begins",
    )
    yield repaired(
        lambda: _near(q),
        r"z^+-z_\circ=M(z-z_\circ)+J,\quad J_k=(-1)^B\eta_l\lambda_1\tfrac{1-(-q)^{B-1}}{1+q}"
        r"\mathrm{sign}(r_k)\text{ where }r_k\text{ rests at }0,\ 0\text{ where it rests at "
        r"}\pm\rho_k", wrong("no jump", lambda: _near(q, jump=0)),
        wrong("the same sign for every B", lambda: _near(q, odd=1)), holds=True, needs=(STEADY,),
        proof="docs/fedelasticnet_algorithm_2.md#where-algorithm-2-rests",
        note="z = (theta, c_1, ..., c_m), z_o the point of rest, M one round of SCAFFOLD with "
        "lambda_2 and without lambda_1; J moves theta by eta_g mean_k J_k and c_k by -J_k/(B "
        "eta_l). For even B the jump leads away from the optimum, for odd B across it, by less: "
        "eta_l lambda_1 (1 - q^(B-1))/(1 + q). The other points of rest attract where "
        "`algorithm-2-stability` says so",
    )


@FILE.statement(
    "algorithm-2-stability", about=method(FedElasticNetScaffold), over=StabilityView,
    title="where SCAFFOLD, and Algorithm 2 with lambda_1 = 0, converges on quadratics whatever "
    "the clients",
    source="section 3.2: which effectively resolves the client drift problem; our statement on "
    "SCAFFOLD with everybody taking part",
    assumptions=(
        "L_k is quadratic with Hessian H_k (a_k in one coordinate), of positive definite mean",
        *SEPARABLE[1:],
    ),
    symbols=NUMBERS | {"S_k": "S_B of client k: the sum of (1 - eta_l (a_k + lambda_2))^j, j < B"},
    ours=True,
)
def algorithm_2_stability(q):
    """The spectral radius of a round of SCAFFOLD."""

    def stable(eta_g: Any = 1) -> Sides:
        largest = q.largest(eta_g)
        return le(largest, Fraction(1) if isinstance(largest, Fraction) else 1.0)

    def two_clients(more: Any = 0, cross: Any = 1) -> Sides:
        room = q.room(cross) + more > 0
        return eq(Fraction(int(q.largest() < 1)), Fraction(int(room)))

    yield form(
        "every heterogeneity", stable,
        r"0\preceq\eta_l(H_k+\lambda_2)\prec1,\ \eta_g<2\ \Rightarrow\ \text{spectral radius of a "
        "round}<1", wrong("eta_g a tenth larger", eta_g=Fraction(11, 10)),
        holds=True, needs=(SERVER,), wording="in words",
        proof="docs/fedelasticnet_algorithm_2.md#scaffold-is-stable-whatever-the-clients",
        note="for every m, B and all Hessians, which need not commute, as long as their mean is "
        "positive definite. Proof in `fedtheory.theorems.fedelasticnet.algorithm_2.stability`. "
        "Judged in fractions: the largest number in the reduction of Schur and Cohn is at most 1; "
        "on a problem in floats: the spectral radius itself",
    )
    yield form(
        "two clients", two_clients,
        r"m=2:\ \text{spectral radius}<1\iff\eta_g\eta_l\Big(S_1a_1+S_2a_2-"
        r"\tfrac{S_1S_2(a_1+a_2)}{2B}\Big)<4-\tfrac{S_1+S_2}B",
        wrong("a tenth less", more=Fraction(-1, 10)),
        wrong("without the product", cross=0), holds=True,
        needs=(TWO_CLIENTS,),
        proof="docs/fedelasticnet_algorithm_2.md#scaffold-is-stable-whatever-the-clients",
        note="the conditions of Jury on the 2 by 2 matrix of (theta, c_1 - c); the other two "
        "always hold",
    )
