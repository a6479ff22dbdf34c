"""The inner loop's worst error over all losses and closed convex sets, without noise, in fractions.

With beta = G = 1 and u_0 = 0 a local step solves s_{t-1} + g + u_t + (t/2)(u_t - u_{t-1}) + n_t =
0: s_{t-1} is a subgradient at u_{t-1}, g the linear term, and n_t a normal of the set at u_t.
"""

from fractions import Fraction
from functools import cache

from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import Quadratic, Vector, common, inner, square, value
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import check, maximise

MOST = 8  # local steps: seconds of the solver
MINUS_E = "minus E"


@cache
def _steps(steps: int, projected: bool) -> tuple[list[Vector], dict[str, Quadratic]]:
    """u_0..u_T, and what is at most 0 of any losses and set; the same for both models."""
    g, u, at, points = common("g"), common("u"), [Vector()], []
    normals: list[tuple[int, Vector]] = []
    for t in range(1, steps + 1):
        slope, pushed = common(f"s{t - 1}"), common(f"g + n{t}") if projected else g
        points.append(Point(f"u{t - 1}", at[-1], slope))
        if projected:
            normals.append((t, pushed - g))
        at.append(Fraction(2, t + 2) * (Fraction(t, 2) * at[-1] - slope - pushed))
    points += [Point(f"u{steps}", at[-1], common(f"s{steps}")), Point("u", u, common("at u"))]
    conditions = Losses(None, Fraction(0), Fraction(1)).conditions(points)
    inside = {f"u{t}": x for t, x in enumerate(at)} | {"u": u}
    for t, normal in normals:
        others = {name: x for name, x in inside.items() if name != f"u{t}"}
        conditions |= {f"n{t}, {name}": inner(normal, at[t] - x) for name, x in others.items()}
    return at, {name: -condition for name, condition in conditions.items()}


def identity(steps: int, last: bool = False, projected: bool = True) -> Family:
    """E - [Phi(model) - Phi(u) - ||u||^2/(T(T+3)) + c(T) ||u - u_T||^2/2], less what is at least 0.

    The model is the average of u_1..u_T with the weights of line 26, or u_T where ``last``. Without
    projections the set is all of space.
    """
    at, never_above_0 = _steps(steps, projected)
    g, u, half, total = common("g"), common("u"), Fraction(1, 2), steps * (steps + 3)

    def phi(name: str, x: Vector) -> Quadratic:
        return value(name) + inner(g, x) + half * square(x)

    weights = {t: Fraction(2 * (t + 1), total) for t in range(1, steps + 1)}
    if last:
        weights = {steps: Fraction(1)}
    reached = Quadratic.total(w * phi(f"u{t}", at[t]) for t, w in weights.items())
    near = Fraction(1, total) * square(u)
    far = Fraction((steps + 1) * (steps + 2), 2 * total) * square(u - at[-1])
    terms = {MINUS_E: Quadratic(constant=Fraction(-1)), **never_above_0}
    return Family(phi("u", u) + near - reached - far, terms, frozenset({MINUS_E}))


@cache
def error(steps: int, last: bool = False) -> Fraction:
    """beta E/G^2 that is proved in fractions, at most a part in ten million above the worst case.

    Raises
    ------
    NotCertified
        The solver's multipliers could not be rounded.
    """
    if steps == 1:  # <s_1 - s_0, u_1> - ||u_1||^2/4 <= ||s_1 - s_0||^2
        ones = dict.fromkeys(["u, u0", "u0, u1", "n1, u"], Fraction(1))
        twos = dict.fromkeys(["|u0|", "|u1|"], Fraction(2))
        check(identity(1, last), {MINUS_E: Fraction(-4), **ones, **twos})
        return Fraction(4)
    return -maximise(identity(steps, last), MINUS_E).numbers[MINUS_E]


def average_is_proved(four: Fraction = Fraction(4)) -> bool:
    """E <= 4 G^2/(beta T) for T = 1..`MOST`, by a certificate for each. ``four``: the 4."""
    return all(error(steps) * steps <= four for steps in range(1, MOST + 1))


def last_iterate_is_proved(four: Fraction = Fraction(4)) -> bool:
    """The same with u_T in place of the average."""
    return all(error(steps, True) * steps <= four for steps in range(1, MOST + 1))
