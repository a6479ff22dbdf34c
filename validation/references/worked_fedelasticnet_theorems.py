"""FedElasticNet from (40) to Theorem B, worked out again in fractions, without the library.

A small instance of Algorithm 3, three clients of whom two are drawn and two coordinates, is run
from the paper's pseudocode; both sides of every form are then computed from its formula. The
expectation is the mean over all cohorts. A client's stored gradient is called g, the server's
model theta, the mean model of the last cohort gamma.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction as F
from itertools import combinations

Vector = list[F]
Numbers = tuple[F, F]

# L_k(x) = 1/2 sum_i h_ki (x_i - c_ki)^2. The gradients at the optimum are (-9, 12), (3, -4) and
# (6, -8), of norms 15, 5 and 10: they add up to 0.
NUMBERS = {
    "H": [[F(2), F(1, 2)], [F(1, 2), F(2)], [F(1, 2), F(1, 2)]],
    "STAR": [F(1), F(-2)],
    "GRADIENTS_AT_STAR": [[F(-9), F(12)], [F(3), F(-4)], [F(6), F(-8)]],
    "NORMS_AT_STAR": [F(15), F(5), F(10)],
    "STARTS": [[F(3), F(-1)], [F(0), F(2)]],  # equally likely
    "P": 2,
    "T": 2,
    "LAMBDA_1": F(5),
    "LAMBDA_2": F(60),
    "COHORT_BEFORE": (0, 1),  # the round looked at is the second: this cohort was drawn in the first
}
NUMBERS |= globals().get("OTHER_NUMBERS", {})  # runpy.run_path hands some in, to have this file on another instance
H, STAR, GRADIENTS_AT_STAR, NORMS_AT_STAR, STARTS, P, T, LAMBDA_1, LAMBDA_2, COHORT_BEFORE = NUMBERS.values()
C = [[s - g / h for s, g, h in zip(STAR, row, hs, strict=True)] for row, hs in zip(GRADIENTS_AT_STAR, H, strict=True)]
M, D, BETA = len(H), len(STAR), max(map(max, H))


# --- vectors ----------------------------------------------------------------------------
def dot(a: Vector, b: Vector) -> F:
    return sum((x * y for x, y in zip(a, b, strict=True)), F(0))


def minus(a: Vector, b: Vector) -> Vector:
    return [x - y for x, y in zip(a, b, strict=True)]


def sq(a: Vector) -> F:
    return dot(a, a)


def mean(values: Iterable[F]) -> F:
    values = list(values)
    return sum(values, F(0)) / len(values)


def mean_vector(vectors: list[Vector]) -> Vector:
    return [mean(column) for column in zip(*vectors, strict=True)]


def sign(x: F) -> F:
    return F((x > 0) - (x < 0))


# --- the losses -------------------------------------------------------------------------
def gradient(k: int, x: Vector) -> Vector:
    return [h * (a - c) for h, a, c in zip(H[k], x, C[k], strict=True)]


def risk(x: Vector) -> F:
    """R(x), the mean of the clients' losses."""
    return mean(sum((h * (a - c) ** 2 / 2 for h, a, c in zip(H[k], x, C[k], strict=True)), F(0)) for k in range(M))


def excess(x: Vector) -> F:
    return risk(x) - risk(STAR)


# --- Algorithm 3 ------------------------------------------------------------------------
class State:
    """theta, h, what each client stores, where each is, and gamma, the last cohort's mean model."""

    def __init__(self, theta: Vector, h: Vector, stored: list[Vector], local: list[Vector], gamma: Vector) -> None:
        self.theta, self.h, self.stored, self.local, self.gamma = theta, h, stored, local, gamma


def start(x0: Vector) -> State:
    zero = [F(0)] * D
    return State(x0, zero, [zero] * M, [x0] * M, x0)


def minimiser(k: int, stored: Vector, anchor: Vector, l1: F = LAMBDA_1) -> Vector:
    """argmin L_k(y) - <g_k, y> + l2/2 ||y - a||^2 + l1 ||y - a||_1, coordinate by coordinate.

    A move u from a has h (a + u - c) - g + l2 u + l1 sign(u) = 0; where no u has, y stays at a.
    """
    out = []
    for i in range(D):
        slope = gradient(k, anchor)[i] - stored[i]
        moves = [-(slope + l1 * direction) / (H[k][i] + LAMBDA_2) for direction in (1, -1)]
        fits = [u for u, direction in zip(moves, (1, -1), strict=True) if u * direction > 0]
        out.append(anchor[i] + (fits[0] if fits else F(0)))
    return out


def advance(state: State, cohort: tuple[int, ...], rule: str, l1: F = LAMBDA_1) -> State:
    """Lines 3 to 12. 'sign' stores what line 5 says, 'true-gradient' what it is meant to be."""
    stored, local, h = list(state.stored), list(state.local), state.h
    for k in cohort:
        y = minimiser(k, state.stored[k], state.theta, l1)
        u = minus(y, state.theta)
        if rule == "sign":
            stored[k] = [g - LAMBDA_2 * a - l1 * sign(a) for g, a in zip(state.stored[k], u, strict=True)]
        else:
            stored[k] = gradient(k, y)
        local[k] = y
        h = [a + (new - old) / M for a, new, old in zip(h, stored[k], state.stored[k], strict=True)]
    gamma = mean_vector([local[k] for k in cohort])
    return State([a - b / LAMBDA_2 for a, b in zip(gamma, h, strict=True)], h, stored, local, gamma)


COHORTS = list(combinations(range(M), P))


# --- constants --------------------------------------------------------------------------
def constants(c: int, numerator: int, l2: F = LAMBDA_2) -> tuple[F, F]:
    """kappa = (n m/P) (l2 + b)/(l2 (l2^2 - c b^2)), and
    kappa_0 = (2/l2) (l2^2 - c b l2 - 2 c b^2)/(l2^2 - c b^2)."""
    below = l2**2 - c * BETA**2
    kappa = F(numerator * M, P) * (l2 + BETA) / (l2 * below)
    return kappa, 2 / l2 * (l2**2 - c * BETA * l2 - 2 * c * BETA**2) / below


def constants_of_e(l2: F = LAMBDA_2) -> tuple[F, F]:
    """kappa and kappa_0 for beta = 1 and lambda = l2/b, then in the units of b: kappa is one over
    b^2, kappa_0 one over b."""
    x = l2 / BETA
    if (x - 2) ** 2 <= 8:
        kappa, kappa_0 = (2 + 3 * x) / (x**2 * (2 + x)), 4 * x / (2 + x) ** 2
    else:
        kappa, kappa_0 = 1 / (2 * x), 2 / x
    return F(M, P) * kappa / BETA**2, kappa_0 / BETA


PRINTED, THEOREM_A, THEOREM_B = constants(25, 10), constants(9, 3), constants(21, 3)
THEOREM_E = constants_of_e()
KAPPA, KAPPA_0 = PRINTED
KAPPA_PRIME = 5 / LAMBDA_2 * (LAMBDA_2 + BETA) / (LAMBDA_2**2 - 25 * BETA**2)


# --- one round --------------------------------------------------------------------------
class Round:
    """The second round from the first start, of which (40), (41) and Theorem B.6 speak."""

    def __init__(self, rule: str) -> None:
        state = advance(start(STARTS[0]), COHORT_BEFORE, rule)
        after = [advance(state, cohort, rule) for cohort in COHORTS]
        tilde = [minimiser(k, state.stored[k], state.theta) for k in range(M)]
        moves = [minus(y, state.theta) for y in tilde]
        away = minus(state.gamma, STAR)
        self.rule = rule
        self.A, self.A_next = sq(away), mean(sq(minus(s.gamma, STAR)) for s in after)
        self.C, self.C_next = spread(state), mean(spread(s) for s in after)
        self.epsilon = mean(sq(minus(y, state.gamma)) for y in tilde)
        self.move = mean(sq(minus(s.gamma, state.gamma)) for s in after)
        self.gap = excess(state.gamma)
        self.zeros = mean(F(sum(u == 0 for u in row)) for row in moves)
        self.sign_term = -2 / LAMBDA_2 * dot(away, mean_sign(moves))
        self.s_term = -2 / LAMBDA_2 * dot(away, mean_subgradient(state, tilde))


def spread(state: State) -> F:
    """C of (20): the mean of ||g_k - grad L_k(theta*)||^2, with what is stored."""
    return mean(sq(minus(g, star)) for g, star in zip(state.stored, GRADIENTS_AT_STAR, strict=True))


def mean_sign(moves: list[Vector]) -> Vector:
    """lambda_1 times the clients' mean of sign(theta_tilde_k - theta)."""
    return mean_vector([[LAMBDA_1 * sign(u) for u in row] for row in moves])


def mean_subgradient(state: State, tilde: list[Vector]) -> Vector:
    """The clients' mean of l1 s_k = g_k - grad L_k(y_k) - l2 (y_k - theta)."""
    rows = []
    for k, y in enumerate(tilde):
        move, slope = minus(y, state.theta), minus(state.stored[k], gradient(k, y))
        rows.append([a - LAMBDA_2 * b for a, b in zip(slope, move, strict=True)])
    return mean_vector(rows)


def eq_40(r: Round, last: F, recursion: F) -> Numbers:
    """E A_t + kappa E C_t <=
    A + kappa C - kappa P/m C + recursion - (2/l2) D + (b/l2) eps + E ||move||^2 + last."""
    share, b, l2 = F(P, M), BETA, LAMBDA_2
    rhs = r.A + KAPPA * r.C - KAPPA * share * r.C + recursion - 2 / l2 * r.gap + b / l2 * r.epsilon + r.move + last
    return r.A_next + KAPPA * r.C_next, rhs


def eq_40_as_printed(r: Round, last: F) -> Numbers:
    """recursion = kappa (2 b^2 P/m) eps + kappa (4 b P/m) D."""
    return eq_40(r, last, KAPPA * F(2 * P, M) * BETA**2 * r.epsilon + KAPPA * F(4 * P, M) * BETA * r.gap)


def eq_40_repaired(r: Round) -> Numbers:
    """Sign rule: recursion = kappa (P/m) (3 (2 b^2 eps + 4 b D) + (3/2) l1^2 z); else as printed,
    with the exact s."""
    if r.rule == "true-gradient":
        return eq_40_as_printed(r, r.s_term)
    bracket = 3 * (2 * BETA**2 * r.epsilon + 4 * BETA * r.gap) + F(3, 2) * LAMBDA_1**2 * r.zeros
    return eq_40(r, r.s_term, KAPPA * F(P, M) * bracket)


def eq_41(r: Round) -> Numbers:
    """kappa (2 b^2 P/m) eps + (b/l2) eps + E ||move||^2 <= (kappa 2 b^2 P/m + b/l2 + 1) eps."""
    factor = KAPPA * F(2 * P, M) * BETA**2 + BETA / LAMBDA_2
    return factor * r.epsilon + r.move, (factor + 1) * r.epsilon


def potential(r: Round, last: F, floor: F, family: tuple[F, F] = PRINTED) -> Numbers:
    """kappa_0 D <= (A + kappa C) - (E A_t + kappa E C_t) + floor + last."""
    kappa, kappa_0 = family
    return kappa_0 * r.gap, (r.A + kappa * r.C) - (r.A_next + kappa * r.C_next) + floor + last


FLOOR = KAPPA * F(P, 2 * M) * LAMBDA_1**2  # kappa P/(2m) lambda_1^2

ROUND_FORMS: dict[tuple[str, str], Callable[[Round], Numbers]] = {
    ("eq-40", "printed"): lambda r: eq_40_as_printed(r, r.sign_term),
    ("eq-40", "repaired"): eq_40_repaired,
    ("eq-41", "printed"): eq_41,
    ("theorem-b6", "printed"): lambda r: potential(r, r.sign_term, FLOOR),
    ("theorem-b6", "repaired"): lambda r: potential(r, r.s_term, FLOOR * D),
    ("theorem-b6", "d missing"): lambda r: potential(r, r.s_term, FLOOR),
    ("theorem-b6", "no floor"): lambda r: potential(r, r.s_term, F(0)),
    ("theorem-b6", "sharpened"): lambda r: potential(r, r.s_term, F("0.825") * FLOOR * r.zeros),
    ("theorem-b6", "small floor"): lambda r: potential(r, r.s_term, F("0.22") * FLOOR * r.zeros),
    ("theorem-a-step", "repaired"): lambda r: potential(r, r.s_term, F(0), THEOREM_A),
    ("theorem-e-step", "repaired"): lambda r: potential(r, r.s_term, F(0), THEOREM_E),
    ("theorem-b-step", "repaired"): lambda r: potential(
        r, r.s_term, F(3, 2) * THEOREM_B[0] * F(P, M) * LAMBDA_1**2 * r.zeros, THEOREM_B
    ),
}


# --- a run ------------------------------------------------------------------------------
class Run:
    """Theorem 3.1's run: two rounds from two equally likely starts, over all cohorts."""

    def __init__(self, rule: str, rounds: int = T) -> None:
        self.rule = rule
        levels = [[([], start(x)) for x in STARTS]]  # (the gammas before, the state)
        for _ in range(rounds - 1):
            levels.append([([*g, s.gamma], advance(s, cohort, rule)) for g, s in levels[-1] for cohort in COHORTS])
        self.excess = mean(excess(mean_vector([*gammas, s.gamma])) for gammas, s in levels[-1])
        rounds = [[self.at(s) for _, s in level] for level in levels]
        self.zeros = mean(mean(r["zeros"] for r in level) for level in rounds)
        names = ("sign", "s", "own sign")
        self.whole = {n: sum((mean(dot(r["away"], r[n]) for r in level) for level in rounds), F(0)) for n in names}
        self.split = {
            n: sum((dot(*(mean_vector([r[part] for r in level]) for part in ("away", n))) for level in rounds), F(0))
            for n in names
        }
        self.A0 = mean(sq(minus(x, STAR)) for x in STARTS)
        self.C0 = mean(n**2 for n in NORMS_AT_STAR)  # g_k^0 = 0
        self.C0_norms = mean(NORMS_AT_STAR)
        self.C0_true = mean(sq(minus(gradient(k, x), GRADIENTS_AT_STAR[k])) for x in STARTS for k in range(M))

    @staticmethod
    def at(state: State) -> dict:
        """gamma - theta*; l1 times the mean sign, subgradient, and sign anchored at theta_k;
        zeros."""
        tilde = [minimiser(k, state.stored[k], state.theta) for k in range(M)]
        own = [minimiser(k, state.stored[k], state.local[k]) for k in range(M)]
        moves = [minus(y, state.theta) for y in tilde]
        return {
            "away": minus(state.gamma, STAR),
            "sign": mean_sign(moves),
            "s": mean_subgradient(state, tilde),
            "own sign": mean_sign([minus(y, state.theta) for y in own]),
            "zeros": mean(F(sum(u == 0 for u in row)) for row in moves),
        }


def printed_bound(r: Run, inner: F, c0: F) -> Numbers:
    """(A0 + kappa C_0)/(T kappa_0) + (kappa'/kappa_0) l1^2 d - (2 l1/(T l2)) sum_t <., .>."""
    first, floor = (r.A0 + KAPPA * c0) / (T * KAPPA_0), KAPPA_PRIME / KAPPA_0 * LAMBDA_1**2 * D
    return r.excess, first + floor - 2 / (T * LAMBDA_2) * inner


def bound(r: Run, inner: F, first: F, floor: F, kappa_0: F = KAPPA_0) -> Numbers:
    """(1/kappa_0) [first/T + floor - (2 l1/(T l2)) sum_t <., .>]."""
    return r.excess, (first / T + floor - 2 / (T * LAMBDA_2) * inner) / kappa_0


def full_floor(part: F = F(1)) -> F:
    """part kappa' l1^2 d."""
    return part * KAPPA_PRIME * LAMBDA_1**2 * D


def zero_floor(r: Run, part: str, rule: str = "sign") -> F:
    """part kappa' l1^2 z; nothing under the other rule."""
    return F(part) * KAPPA_PRIME * LAMBDA_1**2 * r.zeros if r.rule == rule else F(0)


def repaired(r: Run) -> Numbers:
    return bound(r, r.whole["s"], r.A0 + KAPPA * r.C0, full_floor())


def one_over_kappa_0_missing(r: Run) -> Numbers:
    """(1/kappa_0) [(A0 + kappa C_0)/T + kappa' l1^2 d] - (2 l1/(T l2)) sum_t E <., s>."""
    return r.excess, bound(r, F(0), r.A0 + KAPPA * r.C0, full_floor())[1] - 2 / (T * LAMBDA_2) * r.whole["s"]


def theorem_a(r: Run) -> Numbers:
    kappa, kappa_0 = THEOREM_A
    return bound(r, r.whole["s"], r.A0 + kappa * r.C0, F(0), kappa_0)


def theorem_e(r: Run) -> Numbers:
    kappa, kappa_0 = THEOREM_E
    return bound(r, r.whole["s"], r.A0 + kappa * r.C0, F(0), kappa_0)


def theorem_b(r: Run) -> Numbers:
    """Its floor is (3/2) a l1^2 z, a = 3 (l2 + b)/(l2 (l2^2 - 21 b^2))."""
    kappa, kappa_0 = THEOREM_B
    a = 3 * (LAMBDA_2 + BETA) / (LAMBDA_2 * (LAMBDA_2**2 - 21 * BETA**2))
    return bound(r, r.whole["s"], r.A0 + kappa * r.C0, F(3, 2) * a * LAMBDA_1**2 * r.zeros, kappa_0)


def with_first(c0: str, inner: str = "s", split: bool = False) -> Callable[[Run], Numbers]:
    """As repaired, with another C_0, another last term, or its expectation of s only."""
    return lambda r: bound(
        r, (r.split if split else r.whole)[inner], r.A0 + KAPPA * getattr(r, c0), full_floor()
    )


def theorem_c(r: Run) -> Numbers:
    """mu E[R - R*] <= (2/kappa_0) [mu ((A0 + kappa C_0)/T + kappa' l1^2 d) + 4 l1^2 d/(l2^2
    kappa_0)]: R's curvature is 1 twice."""
    mu = min(sum(column, F(0)) / M for column in zip(*H, strict=True))
    stays = 4 * LAMBDA_1**2 * D / (LAMBDA_2**2 * KAPPA_0)
    return mu * r.excess, 2 / KAPPA_0 * (mu * ((r.A0 + KAPPA * r.C0) / T + full_floor()) + stays)


def theorem_c_of_clients(r: Run) -> Numbers:
    """K = 3 (l2 + 2 b)/(l2 (l2^2 - 21 b^2)), kappa_0 = 2/l2 - 14 b K, curvatures at least 1/2:
    mu E[R - R*] <= (1/kappa_0) [mu ((A0 + m/P K C_0)/T + 3/2 K l1^2 z) + 2 l1^2 d/l2]."""
    mu, share = min(min(row) for row in H), 3 * (LAMBDA_2 + 2 * BETA) / (LAMBDA_2 * (LAMBDA_2**2 - 21 * BETA**2))
    kappa_0 = 2 / LAMBDA_2 - 14 * BETA * share
    first, zeros = (r.A0 + F(M, P) * share * r.C0) / T, F(3, 2) * share * LAMBDA_1**2 * r.zeros
    return mu * r.excess, (mu * (first + zeros) + 2 * LAMBDA_1**2 * D / LAMBDA_2) / kappa_0


RUN_FORMS: dict[tuple[str, str], Callable[[Run], Numbers]] = {
    ("theorem-3.1", "printed"): lambda r: printed_bound(r, r.split["own sign"], r.C0_norms),
    ("theorem-3.1", "printed, whole expectation"): lambda r: printed_bound(r, r.whole["own sign"], r.C0_norms),
    ("theorem-3.1", "repaired"): repaired,
    ("theorem-c", "repaired"): theorem_c,
    ("theorem-c", "strongly convex clients"): theorem_c_of_clients,
    ("theorem-3.1", "sharpened"): lambda r: bound(
        r, r.whole["s"], r.A0 + F("0.3") * KAPPA * r.C0, zero_floor(r, "0.825")
    ),
    ("theorem-3.1", "small floor"): lambda r: bound(r, r.whole["s"], r.A0 + KAPPA * r.C0, zero_floor(r, "0.22")),
    ("theorem-3.1", "floor 0.28"): lambda r: bound(
        r, r.whole["s"], r.A0 + F("0.12") * KAPPA * r.C0, zero_floor(r, "0.28")
    ),
    ("theorem-3.1", "floor 0.1"): lambda r: bound(r, r.whole["s"], r.A0 + KAPPA * r.C0, full_floor(F("0.1"))),
    ("theorem-3.1", "no floor"): lambda r: bound(r, r.whole["s"], r.A0 + KAPPA * r.C0, F(0)),
    ("theorem-3.1", "without lambda_2 > 27 beta"): repaired,
    ("theorem-3.1", "sign(0) = 0"): with_first("C0", "sign"),
    ("theorem-3.1", "1/kappa_0 missing"): one_over_kappa_0_missing,
    ("theorem-3.1", "C_0 not squared"): with_first("C0_norms"),
    ("theorem-3.1", "C_0 from the true gradients"): with_first("C0_true"),
    ("theorem-3.1", "expectation of the sign only"): with_first("C0", split=True),
    ("theorem-3.1", "anchor theta_k"): with_first("C0", "own sign"),
    ("theorem-b1", "printed"): lambda r: printed_bound(r, r.split["sign"], r.C0_norms),
    ("theorem-b1", "printed, whole expectation"): lambda r: printed_bound(r, r.whole["sign"], r.C0_norms),
    ("theorem-b1", "repaired"): repaired,
    ("eq-42", "printed"): lambda r: printed_bound(r, r.split["sign"], r.C0),
    ("eq-42", "printed, whole expectation"): lambda r: printed_bound(r, r.whole["sign"], r.C0),
    ("eq-42", "repaired"): repaired,
    ("theorem-a", "repaired"): theorem_a,
    ("theorem-e", "repaired"): theorem_e,
    ("theorem-b", "repaired"): theorem_b,
}
