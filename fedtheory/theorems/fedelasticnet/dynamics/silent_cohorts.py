"""Rounds of P of m clients in which nobody moves, under the true-gradient rule: second moments.

All clients have one curvature beta along a direction, a = beta/lambda_2, and lambda_2 = 1. With x =
theta - theta* and g_k less grad L_k(theta*), a silent round makes a x of the g_k of the cohort, and
x - h of x. Followed are the means of x^2, x h, h^2, and the g_k^2 averaged over the clients.
"""

from functools import cache
from typing import Any

__all__ = ["after_a_round", "potential", "potential_is_exact", "threshold", "threshold_is_proved"]


def after_a_round(m: Any, P: Any, a: Any, moments: Any) -> tuple[Any, Any, Any, Any]:
    """E x^2, E x h, E h^2 and E mean g_k^2 after a round, from before: numbers, arrays, or symbols."""
    xx, xh, hh, gg = moments
    share, spread = P / m, (m - P) / (P * (m - 1))
    each = a * a * xx - 2 * a * xh + gg  # the squares of a x - g_k
    joint = a * a * xx - 2 * a * xh + hh  # that of their mean
    x_next = xh + share * (a * xx - xh)  # E x h'
    h_next = hh + 2 * share * (a * xh - hh) + share * share * (spread * each + (1 - spread) * joint)
    return xx - 2 * x_next + h_next, x_next - h_next, h_next, gg + share * (a * a * xx - gg)


def potential(m: Any, P: Any, a: Any, moments: Any) -> Any:
    """V, which every silent round changes by P a (K a - 2 P k) x^2, with K and k of `threshold`."""
    xx, xh, hh, gg = moments
    k = 2 * m - P - 1
    stored = (m - P) * (2 * m - P) * ((m - P - 1) * hh + gg)
    mixed = 2 * P * (m - P) * (a * (m - 1) - k) * xh
    return P * (2 * a * (m - 1) * (m - P) + P * k) * xx + mixed + stored


def threshold(m: Any, P: Any) -> Any:
    """lambda_2/beta below which the optimum repels in the mean square.

    It is K/(2 P k) with K = P^2 - 3 P + 2 m and k = 2 m - P - 1.
    """
    return (P * P - 3 * P + 2 * m) / (2 * P * (2 * m - P - 1))


def _symbols() -> tuple[Any, ...]:
    import sympy as sp

    return sp.symbols("m P a", positive=True)


@cache
def potential_is_exact(three: int = 3) -> bool:
    """E V' - V = P a (K a - 2 P k) x^2, in symbols. ``three``: that of K."""
    import sympy as sp

    m, P, a = _symbols()
    moments = sp.symbols("xx xh hh gg")
    change = potential(m, P, a, after_a_round(m, P, a, moments)) - potential(m, P, a, moments)
    K = P * P - three * P + 2 * m
    return bool(sp.cancel(change - P * a * (K * a - 2 * P * (2 * m - P - 1)) * moments[0]) == 0)


@cache
def threshold_is_proved(two: int = 2) -> bool:
    """V is at least 0 up to a = 2 P k/K, and beyond it the second moments have a factor above 1.

    For 1 <= P <= m, m >= 2. As h^2 is at most the mean of the g_k^2, V is at least 0 where f(u) =
    (k + 1)(2 u (m - P) + P k) - P (u - k)^2 is, u = a (m - 1). f is concave with f(0) = P k, and at
    the threshold it is P (2 m - P)^2 k^3/K^2. The characteristic polynomial of the moments' matrix
    at 1 has the sign of 2 P k - K a. ``two``: that of 2 P k.
    """
    import sympy as sp

    m, P, a = _symbols()
    moments, u = sp.symbols("xx xh hh gg"), a * (m - 1)
    k, K = 2 * m - P - 1, P * P - 3 * P + 2 * m
    matrix = sp.Matrix(after_a_round(m, P, a, moments)).jacobian(moments)
    at_one = sp.factor((sp.eye(4) - matrix).det())
    f = (k + 1) * (2 * u * (m - P) + P * k) - P * (u - k) ** 2
    h = sp.symbols("h")  # of one state whose g_k are equal, and whose x is 1
    form = sp.Poly(potential(m, P, a, (1, h, h * h, h * h)), h)
    squares = form.coeff_monomial(1) * form.coeff_monomial(h**2) - form.coeff_monomial(h) ** 2 / 4
    zeros = (
        at_one - P**2 * a * (two * P * k - K * a) / (m**3 * (m - 1)),
        squares - P * (m - P) ** 2 * f,
        f.subs(a, 0) - P * k,
        f.subs(a, 2 * P * k / K) - P * (2 * m - P) ** 2 * k**3 / K**2,
        threshold(m, P) - K / (2 * P * k),
    )
    return all(sp.cancel(zero) == 0 for zero in zeros)
