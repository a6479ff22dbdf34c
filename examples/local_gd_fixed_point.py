"""Local gradient descent does not converge to the minimiser: its fixed point, and the O(eta (E -
1)) bias.

Quadratic clients f_k(x) = (x - c_k)' H_k (x - c_k)/2, E steps of size eta, all clients averaged
with their weights w_k. Client k sends x - P_k (x - c_k) with P_k = I - (I - eta H_k)^E, so the
fixed point x solves sum_k w_k P_k (x - c_k) = 0, while the minimiser solves sum_k w_k H_k (x* -
c_k) = 0. Taking the second, times eta E, from the first,

    sum_k w_k P_k (x - x*) = sum_k w_k (eta E H_k - P_k) (x* - c_k).

For 0 <= z <= 1/E the scalar p(z) = 1 - (1 - z)^E lies between E z - E(E-1)/2 z^2 and E z
(Bonferroni), hence p(z) >= E z/2. So with eta <= 1/(E beta) the left matrix is at least eta E
mu/2, mu > 0 the strong convexity of F, and each summand on the right is at most eta^2 E(E-1)/2 *
beta * ||H_k (x* - c_k)||, where H_k (x* - c_k) = grad f_k(x*). Jensen's inequality gives

    mu^2 ||x - x*||^2 <= (eta (E - 1) beta)^2 sum_k w_k ||grad f_k(x*)||^2.

One step (E = 1), or clients with one common minimiser, have no bias.
"""

from fedtheory.algorithms import FedAvg
from fedtheory.theory import GradientSteps, Paper, Quadratics, among, eq, le, printed, repaired, upto

paper = Paper(
    "local-gd", title="The fixed point of local gradient descent", source="An example of fedtheory"
)


@paper.statement(
    "bias", about=FedAvg(),
    local=GradientSteps(steps=among(1, 2, 3, 5), lr=upto(lambda c: 1 / (c.beta * c.E))),
    problems=Quadratics(clients=(1, 4), dimension=(1, 4), weights="any"), over="fixed-point",
    assumptions=(
        "every f_k is a convex quadratic, beta-smooth", "F is strongly convex", "eta <= 1/(E beta)"
    ),
)
def bias(q):
    """The fixed point is within O(eta (E - 1)) of the minimiser."""
    yield printed(eq(q.x, q.x_star, q.x_star, vector=True), fails=True)
    reach = q.eta * (q.E - 1) * q.beta * q.constant("reach", 1)
    yield repaired(le(q.mu_F**2 * q.distance_sq, reach**2 * q.heterogeneity), holds=True)
