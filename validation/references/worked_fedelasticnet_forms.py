"""The two sides of every form of FedElasticNet's (11) to (39) on the round of
`worked_fedelasticnet`.

Each is written from its formula. `FORMS` maps (statement, form) to a function of a `Round` that
returns the two sides as they stand there: a number, or a list with a client, a cohort, or a member
of a cohort an entry; a vector is a list with the vector for its one entry.
"""

from __future__ import annotations

from fractions import Fraction as F

from worked_fedelasticnet import PRINTED, Round, add, dot, mean, minus, sign, sq, times


# --- (11) to (17) ---------------------------------------------------------------------------------
def condition(r, s):
    """(11): grad L_k(theta_k) - g_k + L2 (theta_k - theta) + L1 s_k = 0, a client an entry."""
    left = [add(minus(r.grad_tilde[k], r.g[k]), times(r.l2, r.move[k]), times(r.l1, s[k])) for k in r.clients]
    return left, [[F(0)] * r.d for _ in r.clients]


def eq_12(r, everywhere=False):
    """(12): grad L_k - g_k + L2 (theta_k - theta) = -L1 sign, in the coordinates that move.

    ``everywhere``: in all coordinates of a client that moves, with the nearer of L1 and -L1.
    """
    left, right = [], []
    for k in r.clients:
        u = add(minus(r.grad_tilde[k], r.g[k]), times(r.l2, r.move[k]))
        on = [x != 0 or (everywhere and any(r.move[k])) for x in r.move[k]]
        near = [r.l1 if x >= 0 else -r.l1 for x in u] if everywhere else times(-r.l1, r.sign[k])
        left.append([x if i else F(0) for x, i in zip(u, on, strict=True)])
        right.append([x if i else F(0) for x, i in zip(near, on, strict=True)])
    return left, right


def eq_14(r):
    """||grad L_k(theta_tilde_k) - grad L_k(gamma)||^2 <= beta^2 ||theta_tilde_k - gamma||^2"""
    left = [sq(minus(r.grad_tilde[k], r.grad_gamma[k])) for k in r.clients]
    return left, [r.beta**2 * sq(minus(y, r.gamma)) for y in r.tilde]


def eq_15(r):
    """-<grad L_k(x), z - y> <= -L_k(z) + L_k(y) + beta/2 ||z - x||^2

    at x = theta_tilde_k, y = theta*, z = gamma.
    """
    left = [-dot(r.grad_tilde[k], r.away) for k in r.clients]
    return left, [r.loss(k, r.star) - r.loss(k, r.gamma) + r.beta / 2 * sq(minus(r.gamma, r.tilde[k])) for k in r.clients]


def eq_16(r):
    """1/(2 beta m) sum_k ||grad L_k(gamma) - grad L_k(theta*)||^2 <= R(gamma) - R*"""
    return sum(sq(minus(r.grad_gamma[k], r.grad_star[k])) for k in r.clients) / (2 * r.beta * r.m), r.gap


def eq_17(r):
    """||sum_j v_j||^2 <= 5 sum_j ||v_j||^2 with the five vectors of (37)"""
    left, right = [], []
    for k in r.clients:
        v = [minus(r.g[k], r.grad_star[k]), minus(r.grad_star[k], r.grad_gamma[k]), minus(r.grad_gamma[k], r.grad_tilde[k])]
        v += [times(-r.l1, r.s[k]), times(-1, r.h)]
        left.append(sq(add(*v)))
        right.append(5 * sum(map(sq, v)))
    return left, right


# --- (19) to (22) ---------------------------------------------------------------------------------
def members(r, index, other):
    """Return the members' entries in the state behind every cohort, and ``other[k]``, by cohort."""
    pairs = [(r.after[c][index][k], other[k]) for c in r.cohorts for k in c]
    return [a for a, _ in pairs], [b for _, b in pairs]


def took_part(r):
    """g_k^t = grad L_k(theta_k^t) of the clients that take part"""
    return members(r, 2, r.grad_tilde)


def gradients(r, c):
    """grad L_k(theta_k^t) of all clients: of those that stay away what is stored, as at the start,
    where both are 0"""
    return [r.grad(k, r.after[c][3][k]) if k in c else r.g[k] for k in r.clients]


def eq_20(r):
    """1/m sum_k E ||g_k^t - grad_k(theta*)||^2 = 1/m sum_k E ||grad_k(theta_k^t) -
    grad_k(theta*)||^2"""
    return r.C_next, r.E(lambda c: mean(sq(minus(u, star)) for u, star in zip(gradients(r, c), r.grad_star, strict=True)))


def eq_20_repaired(r):
    """C_t = (1 - P/m) C_{t-1} + P/m 1/m sum_k ||g_tilde_k - grad L_k(theta*)||^2"""
    share = F(r.part, r.m)
    return r.C_next, (1 - share) * r.C + share * mean(sq(minus(r.g_tilde[k], r.grad_star[k])) for k in r.clients)


def eq_21(r):
    """epsilon = 1/m sum_k ||theta_tilde_k - gamma||^2 = 1/m sum_k ||theta_tilde_k - theta -
    h/L2||^2"""
    return r.epsilon, mean(sq(minus(r.move[k], times(1 / r.l2, r.h))) for k in r.clients)


def gamma(r):
    """1/P sum_{P_t} theta_k^t = theta^t + h^t/L2, a cohort an entry"""
    return [r.gamma_next(c) for c in r.cohorts], [add(r.after[c][0], times(1 / r.l2, r.after[c][1])) for c in r.cohorts]


def lemma_b2(r):
    """h^t = 1/m sum_k g_k^t, a cohort an entry"""
    return [r.after[c][1] for c in r.cohorts], [mean(r.after[c][2]) for c in r.cohorts]


def lemma_b2_literal(r):
    """h^t = 1/m sum_k grad L_k(theta_k^t)"""
    return [r.after[c][1] for c in r.cohorts], [mean(gradients(r, c)) for c in r.cohorts]


# --- Lemma B.3, (23) to (29) ----------------------------------------------------------------------
def rhs_of_26(r, s):
    """-1/(L2 m) sum_k grad L_k(theta_tilde_k) - L1/(L2 m) sum_k s_k, also of Lemma B.3"""
    return [minus(times(-1 / (r.l2 * r.m), add(*r.grad_tilde)), times(r.l1 / (r.l2 * r.m), add(*s)))]


def over_cohort(r, gradient, s):
    """E[1/(L2 P) sum_{P_t} (g_k - gradient(c, k) - L1 s(c, k)) - h/L2]"""

    def one(c):
        parts = [minus(minus(r.g[k], gradient(c, k)), times(r.l1, s(c, k))) for k in c]
        return minus(times(1 / (r.l2 * r.part), add(*parts)), times(1 / r.l2, r.h))

    return [r.E(one)]


def with_theta_k(r):
    """The right side of (23): theta_k^t as it stands after the round."""
    return over_cohort(r, lambda c, k: r.grad(k, r.after[c][3][k]), lambda c, k: sign(minus(r.after[c][3][k], r.theta)))


def with_tilde(r):
    return over_cohort(r, lambda c, k: r.grad_tilde[k], lambda c, k: r.sign[k])


def eq_23_stored(r):
    return [r.gamma_move], over_cohort(r, lambda c, k: r.after[c][2][k], lambda c, k: sign(minus(r.after[c][3][k], r.theta)))


def eq_23_repaired(r):
    return [r.gamma_move], over_cohort(r, lambda c, k: r.grad_tilde[k], lambda c, k: r.s[k])


def over_all(r):
    """1/(L2 m) sum_k (g_k - grad L_k(theta_tilde_k) - L1 sign_k) - h/L2"""
    parts = [minus(minus(r.g[k], r.grad_tilde[k]), times(r.l1, r.sign[k])) for k in r.clients]
    return [minus(times(1 / (r.l2 * r.m), add(*parts)), times(1 / r.l2, r.h))]


def eq_27(r):
    """E ||h^t||^2 <= C_t"""
    return r.E(lambda c: sq(r.after[c][1])), r.C_next


def eq_28(r):
    """C_t <= (1 - P/m) C_{t-1} + 2 beta^2 P/m epsilon + 4 beta P/m gap"""
    share = F(r.part, r.m)
    return r.C_next, (1 - share) * r.C + 2 * r.beta**2 * share * r.epsilon + 4 * r.beta * share * r.gap


def eq_28_repaired(r):
    """C_t <= (1 - P/m) C_{t-1} + P/m [3 (2 beta^2 epsilon + 4 beta gap) + 3/2 L1^2 z]"""
    inner = 3 * (2 * r.beta**2 * r.epsilon + 4 * r.beta * r.gap) + F(3, 2) * r.l1**2 * r.zeros
    return r.C_next, (1 - F(r.part, r.m)) * r.C + F(r.part, r.m) * inner


# --- Lemma B.4, (32) to (35) ----------------------------------------------------------------------
def rhs_of_35(r, s):
    """A - 2/L2 gap + beta/L2 epsilon + E ||gamma^t - gamma||^2 - 2 L1/L2 <gamma - theta*, mean s>

    with A = ||gamma - theta*||^2; also of Lemma B.4.
    """
    return r.A - 2 / r.l2 * r.gap + r.beta / r.l2 * r.epsilon + r.step_sq - 2 * r.l1 / r.l2 * dot(r.away, mean(s))


def rhs_of_32(r, s):
    """A + E ||gamma^t - gamma||^2 + 2/(L2 m) sum_k <gamma - theta*, -grad L_k(theta_tilde_k) - L1
    s_k>"""
    inner = [dot(r.away, minus(times(-1, r.grad_tilde[k]), times(r.l1, s[k]))) for k in r.clients]
    return r.A + r.step_sq + 2 / (r.l2 * r.m) * sum(inner)


def sign_sum(r):
    """2/(L2 m) sum_k <gamma - theta*, -L1 sign_k>"""
    return 2 / (r.l2 * r.m) * sum(dot(r.away, times(-r.l1, e)) for e in r.sign)


def rhs_of_33(r):
    """A + E ||gamma^t - gamma||^2 + the sum of signs

    + 2/(L2 m) sum_k [L_k(theta*) - L_k(gamma) + beta/2 ||theta_tilde_k - gamma||^2]
    """
    each = [r.loss(k, r.star) - r.loss(k, r.gamma) + r.beta / 2 * sq(minus(r.tilde[k], r.gamma)) for k in r.clients]
    return r.A + r.step_sq + 2 / (r.l2 * r.m) * sum(each) + sign_sum(r)


def rhs_of_34(r):
    return r.A + r.step_sq - 2 / r.l2 * r.gap + r.beta / r.l2 * r.epsilon + sign_sum(r)


# --- Lemma B.5, (36) to (39), and without the floor -----------------------------------------------
def lemma_b5(r):
    """(1 - 5 beta^2/L2^2) epsilon <= 10/L2^2 C_{t-1} + 10 beta/L2^2 gap + 5 L1^2/L2^2 d"""
    right = 10 / r.l2**2 * r.C + 10 * r.beta / r.l2**2 * r.gap + 5 * r.l1**2 / r.l2**2 * r.d
    return (1 - 5 * r.beta**2 / r.l2**2) * r.epsilon, right


def no_l1_floor(r):
    """(1 - 3 beta^2/L2^2) epsilon <= 3/L2^2 C_{t-1} + 6 beta/L2^2 gap"""
    return (1 - 3 * r.beta**2 / r.l2**2) * r.epsilon, 3 / r.l2**2 * r.C + 6 * r.beta / r.l2**2 * r.gap


def rhs_of_36(r, s):
    """1/(L2^2 m) sum_k E ||g_k - grad L_k(theta_tilde_k) - L1 s(c, k) - h||^2"""

    def one(c):
        return sum(sq(minus(minus(minus(r.g[k], r.grad_tilde[k]), times(r.l1, s(c, k))), r.h)) for k in r.clients)

    return r.E(one) / (r.l2**2 * r.m)


def printed_sign(r):
    """sign(theta_k^t - theta^{t-1}): of a client that stays away, theta_k^t is theta_k^{t-1}."""
    return lambda c, k: sign(minus(r.after[c][3][k], r.theta))


def three_means(r):
    """The first three terms in the brackets of (37)."""
    first = mean(sq(minus(r.g[k], r.grad_star[k])) for k in r.clients)
    second = mean(sq(minus(r.grad_gamma[k], r.grad_star[k])) for k in r.clients)
    return first + second + mean(sq(minus(r.grad_tilde[k], r.grad_gamma[k])) for k in r.clients)


def rhs_of_37(r):
    signs = r.E(lambda c: mean(sq(times(r.l1, printed_sign(r)(c, k))) for k in r.clients))
    return 5 / r.l2**2 * (three_means(r) + signs + sq(r.h))


def rhs_of_38(r):
    return 5 / r.l2**2 * (three_means(r) + r.l1**2 * r.d + r.C)


def rhs_of_39(r):
    """5/L2^2 [C_{t-1} + 2 beta gap + beta^2 epsilon + L1^2 d + C_{t-1}]"""
    return 5 / r.l2**2 * (r.C + 2 * r.beta * r.gap + r.beta**2 * r.epsilon + r.l1**2 * r.d + r.C)


def lemma_diagonal(r):
    """1/m sum_k ||D_k c_k - h||^2 <= 1/m sum_k ||c_k||^2 with c_k = g_k - grad L_k(theta*)

    and the D_k of the soft threshold, L2 (theta_tilde_k - theta) = D_k (g_k - grad
    L_k(theta_tilde_k)).
    """
    c = [minus(r.g[k], r.grad_star[k]) for k in r.clients]
    v = [minus(r.g[k], r.grad_tilde[k]) for k in r.clients]
    shrunk = [[r.l2 * u / w * x for u, w, x in zip(r.move[k], v[k], c[k], strict=True)] for k in r.clients]
    return mean(sq(minus(u, r.h)) for u in shrunk), mean(map(sq, c))


FORMS = {
    ("eq-11", "printed"): lambda r: condition(r, r.sign),
    ("eq-11", "repaired"): lambda r: condition(r, r.s),
    ("eq-12", "printed"): eq_12,
    ("eq-12", "printed, as vectors"): lambda r: eq_12(r, everywhere=True),
    ("eq-14", "printed"): eq_14,
    ("eq-15", "printed"): eq_15,
    ("eq-16", "printed"): eq_16,
    ("eq-17", "printed"): eq_17,
    ("eq-19", "printed"): lambda r: members(r, 3, r.tilde),
    ("eq-19", "Theorem 3.1's anchor"): lambda r: members(r, 3, r.own),
    ("eq-20", "printed"): eq_20,
    ("eq-20", "clients that took part"): took_part,
    ("eq-20", "repaired"): eq_20_repaired,
    ("eq-21", "printed"): eq_21,
    ("gamma", "printed"): gamma,
    ("lemma-b2", "printed"): lemma_b2,
    ("lemma-b2", "literal"): lemma_b2_literal,
    ("lemma-b3", "printed"): lambda r: ([r.gamma_move], rhs_of_26(r, r.sign)),
    ("lemma-b3", "repaired"): lambda r: ([r.gamma_move], rhs_of_26(r, r.s)),
    ("eq-23", "printed"): lambda r: ([r.gamma_move], with_theta_k(r)),
    ("eq-23", "stored gradient"): eq_23_stored,
    ("eq-23", "repaired"): eq_23_repaired,
    ("eq-24", "printed"): lambda r: (with_theta_k(r), with_tilde(r)),
    ("eq-25", "printed"): lambda r: (with_tilde(r), over_all(r)),
    ("eq-26", "printed"): lambda r: (over_all(r), rhs_of_26(r, r.sign)),
    ("eq-27", "printed"): eq_27,
    ("eq-28", "printed"): eq_28,
    ("eq-28", "repaired"): eq_28_repaired,
    ("eq-29", "printed"): lambda r: (r.step_sq, r.epsilon),
    ("lemma-b4", "printed"): lambda r: (r.A_next, rhs_of_35(r, r.sign)),
    ("lemma-b4", "repaired"): lambda r: (r.A_next, rhs_of_35(r, r.s)),
    ("eq-32", "printed"): lambda r: (r.A_next, rhs_of_32(r, r.sign)),
    ("eq-32", "repaired"): lambda r: (r.A_next, rhs_of_32(r, r.s)),
    ("eq-33", "printed"): lambda r: (rhs_of_32(r, r.sign), rhs_of_33(r)),
    ("eq-34", "printed"): lambda r: (rhs_of_33(r), rhs_of_34(r)),
    ("eq-35", "printed"): lambda r: (rhs_of_34(r), rhs_of_35(r, r.sign)),
    ("lemma-b5", "printed"): lemma_b5,
    ("eq-36", "printed"): lambda r: (r.epsilon, rhs_of_36(r, printed_sign(r))),
    ("eq-36", "theta_tilde only"): lambda r: (r.epsilon, rhs_of_36(r, lambda c, k: r.sign[k])),
    ("eq-36", "repaired"): lambda r: (r.epsilon, rhs_of_36(r, lambda c, k: r.s[k])),
    ("eq-37", "printed"): lambda r: (rhs_of_36(r, printed_sign(r)), rhs_of_37(r)),
    ("eq-38", "printed"): lambda r: (rhs_of_37(r), rhs_of_38(r)),
    ("eq-39", "printed"): lambda r: (rhs_of_38(r), rhs_of_39(r)),
    ("lemma-diagonal", "repaired"): lemma_diagonal,
    ("lemma-no-l1-floor", "repaired"): no_l1_floor,
}


def worked(rule, numbers=PRINTED):
    """{(statement, form): (lhs, rhs)} of the round under a rule."""
    r = Round(rule, numbers)
    return {key: form(r) for key, form in FORMS.items()}
