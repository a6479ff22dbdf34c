"""Identities between the constants, proved symbolically with SymPy."""

from functools import cache

from fedtheory.theorems.fedelasticnet.notation import PRINTED_THRESHOLD

__all__ = ["chain_after_41", "constants_identities", "kappa_is_positive", "small_floor"]


@cache
def chain_after_41(lead: int = 10) -> bool:
    """Every '=' in the chain after (41), and kappa_0 = 2/lambda_2 - 5 beta kappa P/m; ``lead`` is the 10 of kappa."""
    import sympy as sp

    b, l2, m, P, C, D, l1, d = sp.symbols("beta lambda_2 m P C D lambda_1 d", positive=True)
    core = l2**2 - 25 * b**2
    kappa = lead * m / P / l2 * (l2 + b) / core
    first = kappa * 2 * b**2 * P / m + b / l2 + 1
    second = (20 * (l2 + b) * b**2 + b * core + l2 * core) / (l2 * core)
    factor = l2 * (l2 + b) / core
    third = factor * (1 - 5 * b**2 / l2**2)
    fourth = factor * (10 * C / l2**2 + 10 * b * D / l2**2 + 5 * l1**2 * d / l2**2)
    fifth = kappa * P / m * C + kappa * b * P / m * D + kappa * P / (2 * m) * l1**2 * d
    kappa_0 = 2 / l2 * (l2**2 - 25 * l2 * b - 50 * b**2) / core
    zero = (first - second, second - third, fourth - fifth, 2 / l2 - 5 * b * kappa * P / m - kappa_0)
    return all(sp.simplify(e) == 0 for e in zero)


@cache
def kappa_is_positive(threshold: int = int(PRINTED_THRESHOLD), exactly: int = 5) -> bool:
    """kappa > 0 for lambda_2 > threshold * beta, and exactly for lambda_2 > exactly * beta."""
    import sympy as sp

    x = sp.symbols("x", positive=True)  # lambda_2/beta; 10 m/P and beta are positive
    positive = sp.solve_univariate_inequality((x + 1) / (x * (x**2 - 25)) > 0, x, relational=False)
    positive = positive.intersect(sp.Interval.open(0, sp.oo))
    return positive == sp.Interval.open(exactly, sp.oo) and sp.Interval.open(threshold, sp.oo).is_subset(positive)


@cache
def constants_identities(threshold: int = 27) -> bool:
    """Positive kappa_0 at and beyond lambda_2 = threshold * beta; roots of the paper's and of Theorems A and B; their algebra."""
    import sympy as sp

    x, b, l2, tau = sp.symbols("x beta lambda_2 tau", positive=True)
    ok = max(sp.roots(x**2 - 25 * x - 50, x), key=lambda r: float(r)) == (25 + sp.sqrt(825)) / 2
    ok &= bool((25 + sp.sqrt(825)) / 2 < threshold) and bool((25 + sp.sqrt(825)) / 2 > threshold - 1)
    for lead, c in ((3, sp.Integer(9)), (3, 9 + 6 * tau)):
        core = l2**2 - c * b**2
        a = lead * (l2 + b) / (l2 * core)
        grow = (c - 3) / lead  # a's share of epsilon: 2 beta^2 (1 + tau), with tau = 0 in Theorem A
        drift = (a * grow * b**2 + b / l2 + 1) / (l2**2 - 3 * b**2)
        ok &= sp.simplify(3 * drift - a) == 0  # the C terms cancel
        kappa_0 = 2 / l2 - a * 2 * grow * b - 6 * b * drift
        ok &= sp.simplify(kappa_0 - 2 / l2 * (l2**2 - c * b * l2 - 2 * c * b**2) / core) == 0
    return bool(ok)


@cache
def small_floor(share: str = "3/25", tau: str = "6") -> bool:
    """True if the potential with share * kappa falls up to share (1 + 1/tau) kappa P/m lambda_1^2 z.

    With E = sqrt(epsilon), F = sqrt(2 beta D), G = sqrt(C) and (lambda_2 - beta) E <= G + F, for
    every lambda_2 > 26.861 beta: (1 + b) E^2 + K (1 + tau)(beta E + F)^2 <= K G^2
    + (2/lambda_2 - kappa_0) D, where K = share kappa P/m. Both sides are divided by kappa P/m (for
    beta = 1) and written in e = beta/(lambda_2 - beta); the difference is a quadratic form in (G, F).
    """
    import sympy as sp

    e, x = sp.symbols("e x", positive=True)
    mu, top = sp.Rational(share), sp.Rational(share) * (1 + sp.Rational(tau))
    a = 10 * (x + 1) / (x * (x**2 - 25))
    kappa_0 = 2 / x * (x**2 - 25 * x - 50) / (x**2 - 25)
    one = sp.cancel((1 + 1 / x) / (x - 1) ** 2 / a).subs(x, 1 + 1 / e)  # what (1 + b) E^2 weighs with E = e (G + F)
    slack = sp.cancel((1 / x - kappa_0 / 2) / a).subs(x, 1 + 1 / e)
    gg, ff = mu - one - top * e**2, slack - one - top * (1 + e) ** 2
    gf = one + top * e * (1 + e)
    end = sp.Rational(1, 25)  # e < 1/25.8
    for expression in (gg, ff, gg * ff - gf**2):
        polynomial = sp.Poly(sp.cancel(expression), e)
        if polynomial.eval(0) <= 0 or polynomial.count_roots(0, end) > 0:
            return False
    return True
