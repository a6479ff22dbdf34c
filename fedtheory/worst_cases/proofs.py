"""Closed forms that are proved for all numbers of clients and ranges of lambda_2: SymPy checks the
sums of squares.

The family of a potential is written with symbols, the multipliers are put in, and what is left must
be, entry by entry, a sum of squares. The factors of the squares are then at least 0 on the range
that is claimed: rational functions of lambda = lambda_2/beta whose signs are decided by their
zeros.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise
from typing import Any

from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import (
    DEVIATION,
    MEAN,
    Quadratic,
    Vector,
    common,
    entry,
    inner,
    own,
    square,
    value,
)
from fedtheory.worst_cases.potentials import family_of
from fedtheory.worst_cases.rounds import KAPPA, KAPPA_0, MINUS_C, ROUNDS, Asked

__all__ = [
    "cohorts_descend", "feddyn_is_proved", "fedelasticnet_is_proved", "fedmls_is_proved",
    "local_steps_are_proved", "true_gradient_calms", "true_gradient_descends",
    "two_local_steps_are_proved",
]


def _vectors(lam: Any, l1: bool) -> tuple[Vector, ...]:
    """u, v, w, sigma, and lambda times a client's move."""
    u, v, w = own("g"), own("g+"), own("grad f(gamma)")
    sigma = own("s") if l1 else Vector()
    return u, v, w, sigma, u - v - sigma


def _multipliers(lam: Any, kappa_0: Any) -> dict[str, Any]:
    return {"*, local": 2 / lam, "local, *": 2 / lam - kappa_0, "local, gamma": kappa_0}


def _same(a: Quadratic, b: Quadratic) -> bool:
    """True if two are the same expressions of the symbols."""
    import sympy as sp

    difference = a - b
    left = difference.gram.values()
    return _is_form(difference) and all(sp.cancel(sp.together(sp.sympify(x))) == 0 for x in left)


def _is_form(q: Quadratic) -> bool:
    """True if values of losses and the number cancel."""
    import sympy as sp

    return all(sp.cancel(sp.together(sp.sympify(x))) == 0 for x in (*q.values.values(), q.constant))


def _at_least_0(expressions: list[Any], lam: Any, low: Any, high: Any) -> bool:
    """True if rational functions of lambda are at least 0 between two numbers, or from one on."""
    import sympy as sp

    for expression in expressions:
        numerator, denominator = sp.fraction(sp.cancel(sp.together(expression)))
        ends = [low, *([] if high is None else [high])]
        roots = {root for part in (numerator, denominator) for root in sp.Poly(part, lam).real_roots()}
        inside = sorted((root for root in roots if root > low and (high is None or root < high)), key=float)
        marks = [low, *inside, high if high is not None else (inside[-1] if inside else low) + 2]
        tried = [(a + b) / 2 for a, b in pairwise(marks)]
        values = [sp.cancel(expression).subs(lam, x) for x in (*tried, *ends)]
        if any(sp.N(x, 40) < -sp.Float(10) ** -30 for x in values):
            return False
    return True


def _pivots(matrix: list[list[Any]]) -> list[Any]:
    """Those of Gauss's elimination in order; the last one may be 0, and no other is on the open
    range where they are at least 0."""
    import sympy as sp

    left, found = matrix, []
    while left:
        pivot = left[0][0]
        found.append(pivot)
        left = [[sp.cancel(x - row[0] * y / pivot) for x, y in zip(row[1:], left[0][1:], strict=True)] for row in left[1:]]
    return found


@cache
def feddyn_is_proved(doubled: int = 2, eight: int = 8) -> bool:
    """FedDyn, any N, P and lambda: the form is a sum of squares with the factors A, C, C - s and q
    of docs/worst_cases.md.

    That leaves A >= 0, C >= s and A C >= B^2, B = q (1 + lambda) - s. With the first closed form
    A = B = C, and B - s has the sign of the condition of its range; with the second C = s > 0 and A
    s = B^2. Where 2/lambda is the smaller one, q lies between 0, where A = C = s + lambda will do,
    and that q: what is asked of (q, K) is convex.
    ``doubled``, ``eight``: the numbers of kappa_0, (lambda + 2 s) and 8 lambda s.
    """
    import sympy as sp

    lam, K, q, s, share = sp.symbols("lambda K q s share", positive=True)
    u, v, w, _, move = _vectors(lam, False)
    family = family_of(lam, 1 - s, share, False)
    left = family.at({KAPPA_0: 2 * q, KAPPA: K / (lam**2 * share), **_multipliers(lam, 2 * q)})
    A, C, B = K - (1 - s) - q, 1 + s + 2 * lam - K - q * (1 + lam) ** 2, q * (1 + lam) - s
    means = K * square(u.average) + (C - s) * square(v.average) + q * square((lam * w - (1 + lam) * v).average)
    both = u + v
    apart = (
        A * square(u.own_part) + C * square(v.own_part)
        + B * (square(both.own_part) - square(u.own_part) - square(v.own_part))
        + q * square((lam * w + move - lam * v).own_part)
    )
    if not _same(left, (1 / lam**2) * (means + apart)):
        return False
    first = 2 * (doubled * s + lam) / (2 + lam) ** 2  # C = A = B
    K_first = sp.solve(sp.Eq(A.subs(q, first), C.subs(q, first)), K)[0]
    ok = all(sp.simplify((x - B).subs(K, K_first).subs(q, first)) == 0 for x in (A, C))
    room = lam * (1 + lam) - s * (2 + 2 * lam + lam**2)  # at least 0 on the first range
    ok &= sp.simplify((B - s).subs(q, first) * (2 + lam) ** 2 - 2 * room) == 0
    ok &= all(sp.expand(x.subs({q: 0, K: 1 + lam})) == s + lam for x in (A, C)) and B.subs(q, 0) == -s
    second = (sp.sqrt(s**2 * lam**4 + eight * lam * s * (1 + lam) ** 2) - s * lam**2) / (2 * (1 + lam) ** 2)  # C = s, A s = B^2
    K_second = sp.solve(sp.Eq(C, s), K)[0]
    rest = sp.expand((A * s - B**2).subs(K, K_second))
    quadratic = sp.Poly(rest, q)
    ok &= quadratic.degree() == 2 and sp.simplify(rest.subs(q, second)) == 0
    return bool(ok and sp.simplify(quadratic.coeff_monomial(q**2) + (1 + lam) ** 2) == 0)


@cache
def fedelasticnet_is_proved(radicand: int = 13) -> bool:
    """The true-gradient rule, any N and P, from lambda = (1 + sqrt 13)/3 on: FedDyn's constants for one participant hold.

    ``radicand``: the 13.
    """
    import sympy as sp

    lam, rho, share = sp.symbols("lambda rho share", positive=True)
    u, v, w, sigma, move = _vectors(lam, True)
    turn, family = 2 + 2 * sp.sqrt(2), family_of(lam, rho, share, True)

    def left(q: Any, K: Any) -> Quadratic:
        return family.at({KAPPA_0: 2 * q, KAPPA: K / (lam**2 * share), "s": K / lam, **_multipliers(lam, 2 * q)})

    def with_both(q: Any, K: Any) -> Quadratic:
        """The squares of both ranges: the gradient at gamma, the cohort's spread, the stored gradient's mean."""
        return (
            q * square((lam * w - sigma - (1 + lam) * v).average)
            + K * square((u - sp.Rational(1, 2) * sigma).average)
            + (1 - rho) * square(move.own_part) + q * square((lam * w + move - lam * v).own_part)
        )

    q, K = 2 * lam / (2 + lam) ** 2, (2 + 3 * lam) / (2 + lam)
    a = q * (1 + lam)
    up_to = (
        with_both(q, K) + a * square((v + ((K / 2 - a) / a) * sigma).average)
        + (K / (4 * a) * (3 * a - K)) * square(sigma.average)
        + a * square((move + 2 * v + (K / (2 * a)) * sigma).own_part)
        + (K - K**2 / (4 * a)) * square(sigma.own_part)
    )
    ok = _same(left(q, K), (1 / lam**2) * up_to)
    low = (1 + sp.sqrt(radicand)) / 3
    ok = ok and _at_least_0([a, 3 * a - K, K - K**2 / (4 * a), 2 / lam - 2 * q], lam, low, turn)
    q, K, e = 1 / lam, lam / 2, 1 + 1 / lam
    first, last = lam / 2 - e, 3 * lam / 8 - e - (lam / 4 - e) ** 2 / (lam / 2 - e)
    beyond = (
        with_both(q, K) + first * square((v + ((lam / 4 - e) / first) * sigma).average)
        + last * square(sigma.average)
        + lam * square((v + sp.Rational(1, 2) * move + sp.Rational(1, 2) * sigma).own_part)
        + (lam / 4 - e) * square(move.own_part) + (lam / 4) * square(sigma.own_part)
    )
    return ok and _same(left(q, K), (1 / lam**2) * beyond) and _at_least_0([first, last, lam / 4 - e], lam, turn, None)


def _semidefinite(
    form: Quadratic, block: str, order: tuple[str, ...], symbol: Any, low: Any, high: Any
) -> bool:
    """True for a block of these rows only, with pivots at least 0 between two numbers."""
    import sympy as sp

    if not {x for of, *pair in form.gram if of == block for x in pair} <= set(order):
        return False
    entries = [[form.gram.get(entry(block, x, y), 0) for y in order] for x in order]
    matrix = [
        [sp.cancel(sp.sympify(n) / (1 if i == j else 2)) for j, n in enumerate(row)]
        for i, row in enumerate(entries)
    ]
    return _at_least_0(_pivots(matrix), symbol, low, high)


class _TwoRounds:
    """A round of the true-gradient rule with everybody, and the next, lambda_2 = 1, beta = b.

    d and d2 are the clients' moves. g and g2 are the gradients at the local models y and y2, which
    are what is stored, so that h is the mean of g. G0 and G1 are the gradients at the models x0 and
    x1 before the rounds. sigma is lambda_1 s of the second round.
    """

    def __init__(self, b: Any) -> None:
        names = ("d", "g", "g2", "G0", "G1", "sigma")
        self.d, self.g, self.g2, at_x0, at_x1, sigma = (own(name) for name in names)
        self.d2 = self.g - self.g2 - sigma
        x0, x1 = Vector(), (self.d - self.g).average
        points = [
            Point("x0", x0, at_x0), Point("y", self.d, self.g), Point("x1", x1, at_x1),
            Point("y2", x1 + self.d2, self.g2),
        ]
        self.slope, moved = square(at_x0.average), square(self.d) - square(self.d2)
        self.energy_lost = square(self.g.average) - square(self.g2.average) + moved
        self.known = dict(Losses(b).conditions(points)) | {"s": inner(sigma, self.d2)}

    def left(self, claim: Quadratic, multipliers: dict[str, Any]) -> Quadratic:
        """The claim less multiples of what is at least 0."""
        taken = Quadratic.total(number * self.known[name] for name, number in multipliers.items())
        return claim - taken


@cache
def true_gradient_calms(half: int = 2) -> bool:
    """E = ||h||^2 + D^2 falls by D_2^2 + (1 - b/2) D^2 + (2/b - 1) ||h_2 - h||^2 for every b.

    The proof is in docs/fedelasticnet_dynamics.md. ``half``: the 2 of b/2.
    """
    import sympy as sp

    b = sp.symbols("b", positive=True)
    rounds = _TwoRounds(b)
    d, d2, w = rounds.d, rounds.d2, rounds.g - rounds.g2
    said = square(d2) + (1 - b / half) * square(d) + (2 / b - 1) * square(w.average)
    two = sp.Integer(2)
    squares = b / 2 * square(d.average) + 2 / b * square((w - b / 2 * d).own_part)
    claim = rounds.energy_lost - said
    return _same(rounds.left(claim, {"y, y2": two, "y2, y": two, "s": two}), squares)


@cache
def true_gradient_descends(two: Any = 2, one: Any = 1) -> bool:
    """R(x0) + E/(2 - b) falls by ||grad R(x0)||^2/2 for every b < 2.

    Six multipliers, and pivots that are at least 0. ``two``: that of ||grad R||^2/2; ``one``: the
    factor of E.
    """
    import sympy as sp

    b = sp.symbols("b", positive=True)
    rounds, room = _TwoRounds(b), 2 - b
    falls = room * (value("x0") - value("x1")) + one * rounds.energy_lost
    multipliers = {
        "x0, y2": room * (5 - b) / (3 - b),
        "y, x0": 2 * room / (3 - b),
        "y, y2": 2 / (3 - b),
        "y2, y": sp.Integer(2),
        "y2, x1": room,
        "s": sp.Integer(2),
    }
    left = rounds.left(falls - room / two * rounds.slope, multipliers)
    if not _is_form(left):
        return False
    order, cleared = ("G1", "sigma", "G0", "d", "g2", "g"), b * (3 - b) * left
    ends = sp.Integer(0), sp.Integer(2)
    return all(_semidefinite(cleared, block, order, b, *ends) for block in (MEAN, DEVIATION))


def _round_of_a_cohort(p: Any, spread: Any, b: Any) -> tuple[Quadratic, Quadratic, dict[str, Any]]:
    """A cohort's round of the true-gradient rule, lambda_2 = 1, beta = b: V - E V+, ||grad R||^2.

    Third comes what is at least 0. V = 2 R(x0) - mean (f(z) + <g, x0 - z>), and g is the gradient
    that is stored, taken at z. y is what every client would move to, c the expectation of the next
    model, of which E R is bounded by smoothness. Gradients are written as the one at x0 and what
    they have more.
    """
    z, at_x0, sigma = own("z"), own("G"), own("sigma")
    g, at_y, at_c = (own(name) + at_x0 for name in ("g", "gy", "Gc"))
    d, turned = g - at_y - sigma, at_y - g

    def drawn(v: Vector) -> Vector:
        return Vector(v.mean, {}, v.deviation)

    def expected(v: Vector, w: Vector) -> Quadratic:
        apart = inner(Vector({}, v.drawn), Vector({}, w.drawn))
        return inner(Vector(v.mean), Vector(w.mean)) + spread * apart

    move = d - p * turned
    after, h_after = drawn(move) - g.average, g.average + p * drawn(turned)
    at_after = value("c") + b / 2 * spread * square(move.own_part)
    kept = p * inner(d, at_y) + (1 - p) * inner(z, g) - expected(after, h_after)
    before = 2 * value("x0") - value("z") + inner(z, g)
    lost = before - (2 * at_after - p * value("y") - (1 - p) * value("z") + kept)
    points = [
        Point("x0", Vector(), at_x0), Point("z", z, g), Point("y", d, at_y),
        Point("c", Vector(after.mean), at_c),
    ]
    return lost, square(at_x0.average), dict(Losses(b).conditions(points)) | {"s": inner(sigma, d)}


@cache
def cohorts_descend(four: Any = 4) -> bool:
    """V = R + mean (f(x) - f(z) - <g, x - z>) falls by ||grad R||^2/4 in expectation, lambda_2 = 1.

    Of all cohorts of the share p = P/m, beta <= p/4. What four multipliers leave is linear in the
    spread, which is at most 1, and at most ((1 - p)/p)^2 where p >= 1/2. ``four``: that of p/4.
    """
    import sympy as sp

    p, half = sp.symbols("p", positive=True), sp.Rational(1, 2)
    zero, one = sp.Integer(0), sp.Integer(1)
    ends = ((zero, zero, one), (one, zero, half), ((1 - p) ** 2 / p**2, half, one))
    for spread, low, high in ends:
        lost, slope, known = _round_of_a_cohort(p, spread, p / four)
        numbers = {"x0, z": p, "y, c": p, "x0, c": 2 - p, "s": sp.Rational(3, 4)}
        taken = Quadratic.total(number * known[name] for name, number in numbers.items())
        left = lost - sp.Rational(1, 4) * slope - taken
        if not _is_form(left):
            return False
        rows = ("Gc", "gy", "g", "sigma")
        for block, order in ((MEAN, (*rows, "G")), (DEVIATION, rows)):
            if not _semidefinite(p**2 * left, block, order, p, low, high):
                return False
    return True


@cache
def local_steps_are_proved(six: int = 6) -> bool:
    """A round of E local gradient steps of everybody, any E and weights: docs/worst_cases.md has
    both proofs and their letters.

    Of each the parts are identities in symbols: one local step is a sum of squares; so is Young's
    inequality; sums of powers; and what they leave of the constant.
    ``six``: the number of the sum of the squares of 0..E - 1.
    """
    import sympy as sp

    q, eta, L, rest = sp.symbols("q eta L rest", positive=True)  # q = 1 - eta mu; L is L - mu, of the losses less mu/2 ||w - w*||^2
    t = 2 - rest
    x, apart, star = common("x"), own("d", mean_zero=True), own("g*", mean_zero=True)
    at_y, at_x, losses = own("g"), own("h"), Losses(L)
    points = {"*": Point("*", Vector(), star), "y": Point("y", x + apart, at_y), "x": Point("x", x, at_x)}
    turned, after = (at_y - star).own_part, square((q * x - eta * at_y).average)

    def pair(i: str, j: str) -> Quadratic:
        return losses.condition(points[i], points[j])

    distance = (
        q**2 * square(x) + eta * q * (L / rest * square(apart) - (t / L) * square(turned)) - after
        - 2 * eta * q * (pair("*", "y") + pair("y", "*"))
    )  # fmt: skip
    of_distance = (
        eta * (2 * q / L - eta) * square(at_y.average)
        + eta * q
        * (L / rest * square(apart) - 2 * inner(turned, apart) + (rest / L) * square(turned))
    )
    gap = (
        q**2 * square(x) - 2 * eta * q * (value("x") - value("*"))
        + eta * q * (L * square(apart) - (1 / L) * square(turned)) - after
        - 2 * eta * q * (pair("*", "y") + pair("y", "x"))
    )
    of_gap = eta * (q / L - eta) * square(at_y.average) + eta * q * L * square(apart - (1 / L) * (at_y - at_x))
    a, u, v, i, E, s = sp.symbols("a u v i E s", positive=True)
    room = t * rest  # (1 + a) s <= room, so that what the drift takes is there
    zeros = (
        L / rest * u**2 - 2 * u * v + rest / L * v**2 - (sp.sqrt(L / rest) * u - sp.sqrt(rest / L) * v) ** 2,
        (1 + 1 / a) * u**2 + (1 + a) * v**2 - (u + v) ** 2 - (u / sp.sqrt(a) - sp.sqrt(a) * v) ** 2,
        sp.summation(i**2, (i, 0, E - 1)) - E * (E - 1) * (2 * E - 1) / six,
        sp.summation(i, (i, 1, E - 1)) - E * (E - 1) / 2,
        (1 + 1 / a).subs(a, room / s - 1) / rest - t / (room - s),
        (t / (room - s)).subs(s, t**2 / 2) - 6 / (12 - 9 * t),
        (1 + 1 / a).subs(a, 1 / s - 1) - 1 / (1 - s),
    )
    return _same(distance, of_distance) and _same(gap, of_gap) and all(sp.simplify(x) == 0 for x in zeros)


@cache
def two_local_steps_are_proved(two: int = 2, three: int = 3) -> bool:
    """FedAvg with K = 2, L = 1 and everybody: c = g^3/(2 - g^2) at kappa_0 = 2 g up to g = 1.4, and
    2 g^3/((3 + g)(1 - g)) at 4 g while g^3 - g^2 - 4 g + 3 >= 0 (g = 0.713): four multipliers each,
    and the pivots of what they leave are at least 0.

    ``two``, ``three``: the numbers of the denominators.
    """
    import sympy as sp

    g, unit = sp.symbols("g", positive=True), Losses()
    given = Asked(2, {"step": g}, sp.Integer(0), sp.Integer(1), unit, False)
    cases = (
        (2, g**3 / (two - g**2), {"*, y0": 2 * g, "*, y1": 2 * g, "y1, *": 2 * g, "y0, mean 1": g}, sp.Rational(7, 5)),
        (4, 2 * g**3 / ((three + g) * (1 - g)), {"*, y0": 2 * g, "*, y1": 2 * g, "y1, y0": 2 * g, "y0, mean 1": 2 * g},
         sp.Rational(713, 1000)),
    )  # fmt: skip
    for times, c, numbers, most in cases:
        family = ROUNDS["fedavg"].round(given).family(unit, 1, {KAPPA_0: times * g})
        left = family.at({**numbers, MINUS_C: -c})
        if not _is_form(left):
            return False
        for block, rows in family.names.items():
            if not _semidefinite(1 / g * left, block, rows[::-1], g, sp.Integer(0), most):
                return False
    return True


@cache
def fedmls_is_proved(four: int = 4) -> bool:
    """FedMLS's outer recursion with exact local solves, every round k and lambda = 1: what three
    inequalities leave is a form in x - mean x', z - mean z', the new subgradients and the
    deviations of x' and z', whose minors are at least 0 for k >= 1.

    ``four``: the number of 4/(k (k + 1)), which multiplies the squared distances.
    """
    import sympy as sp

    k = sp.symbols("k", positive=True)
    share, quarter, half = 2 / (k + 1), k / 4, sp.Rational(1, 2)
    x, z, x_own, z_own, slope = common("x"), common("z"), own("x'"), own("z'"), own("g")
    y, y_own = (1 - share) * x + share * z, (1 - share) * x_own + share * z_own
    z_next, z_own_next = z - quarter * (y - y_own.average), z_own - quarter * (slope + y_own - y)
    x_next, x_own_next = (1 - share) * x + share * z_next, (1 - share) * x_own + share * z_own_next
    at = {
        "*": Point("*", Vector(), own("g*", mean_zero=True)),
        "x'": Point("x'", x_own, own("at x'")), "z'": Point("z'", z_own_next, slope),
        "x'+": Point("x'+", x_own_next, own("at x'+")),
    }
    psi, after = (value(name) + half * square(v) for name, v in (("x'", x - x_own), ("x'+", x_next - x_own_next)))
    moved = square(z) - square(z_next) + square(z_own) - square(z_own_next)
    left = (
        (1 - share) * (psi - value("*")) - (after - value("*")) + four / (k * (k + 1)) * moved
        - Quadratic.total(number * Losses(None).condition(at[i], at[j]) for number, i, j in
                          ((share, "*", "z'"), (1 - share, "x'", "x'+"), (share, "z'", "x'+")))
    )  # fmt: skip
    if not _is_form(left):
        return False
    entries = {key: sp.cancel(8 * (k + 1) ** 4 * c) for key, c in left.gram.items()}  # polynomials

    def entry(block: str, a: str, b: str) -> Any:
        return entries.get((block, *sorted((a, b))), 0) / (1 if a == b else 2)

    means, rows = ("x", "x'", "z", "z'", "g"), ("x'", "z'", "g")
    ok = all(sp.cancel(entry("mean", a, c) + entry("mean", b, c)) == 0 for a, b in (("x", "x'"), ("z", "z'")) for c in means)
    for block in ("mean", "deviation"):  # of the means x - x', z - z' and g are left
        matrix = sp.Matrix(3, 3, lambda i, j, block=block: entry(block, rows[i], rows[j]))
        minors = [matrix.extract(list(c), list(c)).det(method="berkowitz") for n in (1, 2, 3) for c in combinations(range(3), n)]
        ok = ok and _at_least_0(minors, k, sp.Integer(1), None)
    return bool(ok)
