"""FedElasticNet's threshold epsilon: where methods stop with it, and runs whose messages it changes."""

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.algorithm_2.wire import (
    FEEDBACK,
    FROZEN,
    NO_FEEDBACK,
    NO_L1,
    PLAIN_MEAN,
    QUADRATIC,
    STOPPED_1_3,
    STOPPED_2,
    StoppedView,
    WireView,
)
from fedtheory.theorems.fedelasticnet.notation import nine_tenths
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theory import Sides, eq, form, le, wrong

SAYS = (
    "section 3: we sent Delta_k(i) = 0 if |Delta_k(i)| <= epsilon; epsilon is chosen in a range that does not affect "
    "classification accuracy"
)
SYMBOLS = {
    "epsilon": "algorithm.epsilon at the client, messages.Threshold(epsilon) on the wire",
    "g_k, h": "state.stored[:, k], state.h",
    "theta^t, c_k^t, c^t": "state.x, state.c_k, state.c",
    "lambda_1, lambda_2": "algorithm.l1, algorithm.l2",
    "S_n, rho_k": "as in algorithm-2-at-rest",
}


@FILE.statement(
    "threshold-at-rest", over=StoppedView, source=SAYS,
    assumptions=(
        "L_k(x) = sum_i a_ki (x_i - c_ki)^2/2", "everybody takes part",
        "clients threshold; in Algorithms 1 and 3 they go by what they send, line 9 of Algorithm "
        "2 by the local model as it is",
    ),
    symbols=SYMBOLS, ours=True,
)
def threshold_at_rest(q):
    """where Algorithms 1, 2 and 3 stop with the threshold at the client"""

    def rests(without: bool = False) -> Sides:
        moved = abs(q.without - q.theta) if without else q.moved
        return eq(moved, 0 * moved)

    def bound(epsilon: bool = True) -> Sides:
        most = q.bound if epsilon else q.method.lambda1 + 0 * q.grad
        return le(abs(q.grad), most, axes=("coordinate",))

    yield form(
        "does not affect", lambda: le(abs(q.without - q.theta), 0 * q.theta, axes=("coordinate",)),
        r"\text{what rests with }\epsilon>0\text{ rests with }\epsilon=0", fails=True,
        wording="in words",
        note="for every epsilon > 0 and each of the three algorithms there are such states. A "
        "range in which the accuracy of one run stays as it is may exist all the same: that is an "
        "experiment",
    )
    yield form(
        "these states rest", rests,
        r"\text{the state of the instance is left as it is}",
        wrong("without the threshold", without=True), holds=True,
        proof="docs/fedelasticnet_algorithm_2.md#the-threshold",
        note="Algorithms 1 and 3: |g_k - grad L_k(theta)| <= lambda_1 + epsilon (a_k + lambda_2), "
        "g_k = 0 of Algorithm 1, mean g_k = h = 0. Algorithm 2: |c| <= epsilon/(B eta_l), an "
        "update that everybody makes and that is not sent",
    )
    yield form(
        "Algorithms 1 and 3", bound,
        r"|\partial_iR(\theta)|\le\lambda_1+\epsilon\big(\lambda_2+\tfrac1m\sum_ka_{ki}\big)",
        wrong("a tenth less", lambda: nine_tenths(bound())),
        wrong("epsilon dropped", epsilon=False), holds=True, needs=(STOPPED_1_3,),
        proof="docs/fedelasticnet_algorithm_2.md#the-threshold",
        note="nothing is sent, as every update is at most epsilon; of Algorithm 3 h = 0. Attained. "
        "With R mu-strongly convex theta is within this over mu of the optimum in each coordinate",
    )
    yield form(
        "Algorithm 2", bound,
        r"|\partial_iR(\theta)|\le\tfrac1m\sum_k\Big(\rho_{ki}+\tfrac{\epsilon}{\eta_lS_{B,ki}}"
        r"\Big)", wrong("a tenth less", lambda: nine_tenths(bound())),
        wrong("epsilon dropped", epsilon=False), holds=True, needs=(STOPPED_2,),
        proof="docs/fedelasticnet_algorithm_2.md#the-threshold",
        note="attained. epsilon counts 1/(eta_l S_B) times, about 1/(B eta_l): smaller local "
        "steps make the same epsilon worse",
    )


@FILE.statement(
    "threshold-on-the-wire", over=WireView,
    source=SAYS + ". Lines 11 and 12 go by what is sent, line 5 by the client's own update",
    assumptions=(
        "everybody takes part", "the sign rule, from g_k = 0",
        "L_k(x) = sum_i a_ki (x_i - c_ki)^2/2 where a_ki occurs",
    ),
    symbols=SYMBOLS | {"hat Delta_k": "WireView.arrived"}, ours=True,
)
def threshold_on_the_wire(q):
    """Algorithm 3 whose messages are thresholded, while clients keep what they computed"""
    of_runs: Any = {"axes": ("round", "coordinate")}
    one: Any = Fraction(1) if q.theta.dtype == object else 1.0

    def closer() -> Sides:
        return le(abs(q.theta[-1] - q.star).max(), abs(q.theta[0] - q.star).max())

    def drift(times: Any = 1) -> Sides:
        after = np.arange(1, len(q.theta) - 1)[:, None] * one
        expected = q.theta[1] - times * after * q.h[1] / q.lambda2
        return eq(q.frozen * q.theta[2:], q.frozen * expected, **of_runs)

    def silent(times: Any = 1) -> Sides:
        enough = q.epsilon >= times * abs(q.delta[0]).max()
        return eq(int(not np.any(q.arrived != 0)) * one, int(enough) * one)

    def parted(l1: int = 1) -> Sides:
        left = q.left_out
        if not l1:
            left = np.cumsum(q.lambda2 * (q.delta - q.arrived).sum(axis=1) / q.m, axis=0)
        sizes = abs(q.h[1:]) + abs(q.stored[1:]).sum(axis=1) / q.m  # what cancels in their difference
        return eq(q.parted, left, sizes, **of_runs)

    def fed_back(signs: int = 0) -> Sides:
        """With ``signs`` = 1 one sign is allowed for."""
        most = q.lambda2 * q.epsilon + signs * q.lambda1
        return le(abs(q.parted), most + 0 * q.parted, **of_runs)

    yield form(
        "does not affect", closer,
        r"\|\theta^T-\theta_*\|_\infty\le\|\theta^0-\theta_*\|_\infty", fails=True,
        needs=(NO_FEEDBACK, PLAIN_MEAN), wording="in words",
        note="it diverges, linearly and for ever, on one strongly convex client with lambda_2 = "
        "30 beta: L = x^2/2, theta^0 = 309/10, lambda_1 = 3, epsilon = 1/2 gives theta^1 = 29 and "
        "theta^t = 30 - t. The window of such epsilon grows with lambda_2",
    )
    yield form(
        "it drifts away", drift,
        r"h_i^1\ne0,\ |\Delta_{ki}^2|\le a_{ki}|h_i^1|/\lambda_2^2\le\epsilon\ \forall "
        r"k\ \Rightarrow\ \theta_i^t=\theta_i^1-(t-1)h_i^1/\lambda_2",
        wrong("a tenth slower", times=Fraction(9, 10)), holds=True,
        needs=(FROZEN,), proof="note",
        note="proof: while nothing arrives h stays and theta moves by -h/lambda_2. If |Delta_k| "
        "<= M_k = a_k |h|/lambda_2^2, the next one is minimised with a slope of at most lambda_1 "
        "+ a_k M_k + a_k |h|/lambda_2 (lambda_1 only where the client rested) and so at most M_k "
        "again. For one client it is enough that |Delta^1| > epsilon >= a |h^1|/lambda_2^2",
    )
    yield form(
        "nothing is ever sent", silent,
        r"\epsilon\ge\max_{k,i}|\Delta_{ki}^1|\iff\text{nothing arrives in any of }T\text{ rounds}",
        wrong("nine tenths of it", times=9 * one / 10),
        holds=True, needs=(NO_FEEDBACK, QUADRATIC),
        proof="docs/fedelasticnet_algorithm_2.md#the-threshold",
        note="the least epsilon at which the method does not leave its start. While theta stays a "
        "client that moved minimises with the slope a_k Delta_k next, and so moves by less; the "
        "same at the client (epsilon=...) and in Algorithm 1",
    )
    yield form(
        "what the server misses", parted,
        r"h^t-\tfrac1m\sum_kg_k^t=\tfrac1m\sum_{s\le "
        r"t}\sum_k\big[\lambda_2(\Delta_k^s-\hat\Delta_k^s)+\lambda_1(\mathrm{sign}\Delta_k^s-"
        r"\mathrm{sign}\hat\Delta_k^s)\big]", wrong("lambda_1 dropped", l1=0),
        holds=True, proof="lines 5 and 11, summed over the rounds from h = g_k = 0",
        note="hat: what arrives. Lemma B.2, h = mean g_k, fails by the sum of all that was left "
        "out so far",
    )
    yield form(
        "with error feedback", fed_back,
        r"\lambda_1=0:\quad\Big|h^t-\tfrac1m\sum_kg_k^t\Big|_i\le\lambda_2\epsilon",
        wrong("a tenth less", lambda: nine_tenths(fed_back())), holds=True,
        needs=(FEEDBACK, NO_L1), proof="note",
        note="FedDyn with the threshold and error feedback: the difference is lambda_2 times the "
        "mean residual, and a residual is at most epsilon. At rest then |grad R| <= lambda_2 "
        "epsilon. The other repair is a client that goes by what it sends (epsilon=...)",
    )
    yield form(
        "with error feedback, any lambda_1", lambda: fed_back(signs=1),
        r"\Big|h^t-\tfrac1m\sum_kg_k^t\Big|_i\le\lambda_2\epsilon+\lambda_1", fails=True,
        needs=(FEEDBACK,),
        note="a residual brings back what was moved, and one sign for many: each move that is not "
        "sent takes lambda_1 off g_k for good, and nothing off h",
    )
    yield form(
        "does not affect, with error feedback", closer,
        r"\|\theta^T-\theta_*\|_\infty\le\|\theta^0-\theta_*\|_\infty", fails=True,
        needs=(FEEDBACK, PLAIN_MEAN),
        note="L = x^2/2, lambda_2 = 30 beta, lambda_1 = 4, epsilon = 1/8: from 8 to beyond 44 in "
        "199 rounds. Whether such a run goes on for ever is not known",
    )
