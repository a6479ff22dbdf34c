r"""FedElasticNet, Theorem C: a strongly convex R keeps Algorithm 3 from drifting away.

From the repaired Theorem 3.1, whatever the signs are: its last term is bounded by R's curvature.
With gamma^t = theta^t + h^t/lambda_2 and X the mean of gamma^0, ..., gamma^{T-1},

    mu E[R(X) - R*] <= (2/kappa_0) [mu (||gamma^0 - theta*||^2 + kappa C_0)/T + floor] + rest.
"""

from fractions import Fraction
from typing import Any

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.participation.cohorts import Uniform
from fedtheory.theorems.fedelasticnet import notation
from fedtheory.theorems.fedelasticnet.own_run import in_states_of_algorithm_3
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import Letters
from fedtheory.theory import above, form, le, method, repaired, wrong
from fedtheory.theory.rounds.problem_classes import StronglyConvexSum

LEAST, OF_R = Fraction(notation.THEOREM_C_THRESHOLD), Fraction(notation.REPAIRED_THRESHOLD)
UNIT = 30  # of the distances of lambda_2/beta from the least that are drawn
PROOF = "docs/fedelasticnet_dynamics.md#drifts-without-end-drift"
MEAN = r"\mathbb E[R(\tfrac1T\sum_{t<T}\gamma^t)-R(\theta_*)]"
START = r"\frac{\mathbb E\|\gamma^0-\theta_*\|^2+\kappa C_0}{T}"
CHANGED = "first term ten times smaller, no last one"


@FILE.statement(
    "theorem-c",
    about=method(
        FedElasticNetDyn,
        l1=above(0, usual=Fraction(1, 10)),
        l2=above(lambda c: LEAST * c.beta, unit=lambda c: UNIT * c.beta, usual=(30 - LEAST) / UNIT),
    ),
    rules={rule: {"rule": rule} for rule in ("sign", "true-gradient")}, sampling=Uniform,
    problems=StronglyConvexSum(clients=(1, 4), dimension=(1, 5)), over="run", rounds=(1, 50),
    starts=2, source="our repair: Theorem C, from the repaired Theorem 3.1",
    assumptions=(
        "every L_k is convex and beta-smooth, and R, their plain mean, is mu-strongly convex",
        "lambda_1 > 0 and lambda_2 > (25 + sqrt 825)/2 beta = 26.861 beta",
        "strongly convex clients: every L_k is mu_L-strongly convex; "
        "lambda_2 > (21 + sqrt 693)/2 beta = 23.662 beta",
        "P of the m clients are drawn uniformly, independently each round",
        "local problems solved exactly, no threshold epsilon, g_k^0 = 0, h^0 = 0",
    ),
    symbols=notation.SYMBOLS, measures="suboptimality of the mean iterate, times mu", ours=True,
    takes_run=in_states_of_algorithm_3,
)
def theorem_c(q: Any) -> Any:
    """a strongly convex R keeps Algorithm 3 from drifting away"""
    v, constants = q.once(Letters), q.once(Letters).constants
    l1, l2, d = v.l1, v.l2, v.d

    def of_R(first: Any = 1, last: Any = 1) -> Any:
        a, kappa, kappa_0 = constants.printed
        begun = 2 * (v.start + kappa * v.C_0) / (kappa_0 * v.T)
        floor = a * l1 * l1 * d / kappa_0
        stays = 8 * l1 * l1 * d / (l2 * l2 * kappa_0 * kappa_0)
        return le(q.mu_F * v.excess, first * q.mu_F * begun, q.mu_F * floor, last * stays)

    def of_clients(first: Any = 1, last: Any = 1) -> Any:
        a, kappa, kappa_0 = constants.theorem_c
        begun = (v.start + kappa * v.C_0) / (kappa_0 * v.T)
        floor = 3 * a / 2 * l1 * l1 * v.zeros / kappa_0
        stays = 2 * l1 * l1 * d / (l2 * kappa_0)
        return le(q.mu * v.excess, first * q.mu * begun, q.mu * floor, last * stays)

    yield repaired(
        of_R,
        rf"\mu {MEAN}\le\frac{{2\mu}}{{\kappa_0}}\Bigl({START}+\frac{{\kappa P}}{{2m}}"
        r"\lambda_1^2d\Bigr)+\frac{8\lambda_1^2d}{\lambda_2^2\kappa_0^2}",
        wrong(CHANGED, lambda: of_R(Fraction(1, 10), 0)),
        needs={f"{notation.RATIO} > {float(OF_R):.6g}": l2 > OF_R * q.beta},
        note="mu is the strong convexity of R alone. Nothing is asked of the signs; what stays is "
        "2 lambda_1^2 d/mu for large lambda_2, and a state that stalls shows that lambda_1^2 d/(2 "
        "mu) does stay", proof=PROOF, holds=True,
    )
    yield form(
        notation.STRONGLY_CONVEX_CLIENTS, of_clients,
        rf"\mu_L {MEAN}\le\frac{{\mu_L}}{{\kappa_0^C}}\Bigl({START.replace('kappa', 'kappa^C')}"
        r"+\frac32K\lambda_1^2\bar z\Bigr)+\frac{2\lambda_1^2d}{\kappa_0^C\lambda_2}"
        r",\quad\kappa^C=\frac mPK,\ \kappa_0^C=\frac2{\lambda_2}-14\beta K,\ "
        r"K=\frac{3(\lambda_2+2\beta)}{\lambda_2(\lambda_2^2-21\beta^2)}",
        wrong(CHANGED, lambda: of_clients(Fraction(1, 10), 0)),
        needs={notation.STRONGLY_CONVEX_CLIENTS: q.mu > 0},
        note="what stays is lambda_1^2 d/mu_L for large lambda_2, twice what a stall shows to stay",
        proof=PROOF, holds=True,
    )  # fmt: skip
