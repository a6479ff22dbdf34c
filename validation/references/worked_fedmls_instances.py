"""Worked instances of every form of FedMLS's statements, in fractions: the standard library and
`worked_fedmls` alone.

`PLANE` has three clients, two coordinates and K = 3, and the ball cuts nothing: exact, with a given
noise, and with line 14 as printed. `plan` has the same losses with Theorem 2's parameters. `LINES`
has one dimension, and the ball cuts.

Other files `worked_fedmls_*.py`, which a test finds by their names, add to `SIDES` by `form`, and
to `EDGES` by `edge`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction as Q
from typing import Any

from worked_fedmls import (
    Client,
    Instance,
    Run,
    Vector,
    a_posteriori,
    add,
    inner_loop,
    kappa_last,
    large_k,
    over_rounds,
    penalty_gap,
    recursion,
    run,
    step_total,
    telescoped,
    theorem_1,
)  # fmt: skip


def _client(*pieces: tuple[tuple[int, ...], Q | int]) -> Client:
    return [(tuple(Q(a) for a in slope), Q(b)) for slope, b in pieces]


# G_i = 5, 25 and 35, so that G = 25. Pieces of the first client are of unlike lengths; its steepest
# is the largest at x_0.
CLIENTS = [
    _client(((3, 4), -1), ((-3, 0), 1), ((0, -4), -2)),
    _client(((7, 24), 1), ((-20, -15), 3), ((15, -20), -2)),
    _client(((21, 28), -5), ((-35, 0), 2), ((0, -35), 4)),
]
# x* is where the third client's pieces meet: there (-3, 0) + (7, 24) + (1/12)(21,
# 28) + (23/140)(-35, 0) + (79/105)(0, -35) = 0
STAR = (Q(9, 140), Q(17, 140))
STAR_MULTIPLIERS = [[0, 1, 0], [1, 0, 0], [Q(1, 12), Q(23, 140), Q(79, 105)]]
PLANE = Instance(
    CLIENTS, (Q(3, 4), Q(1)), STAR, Q(1, 16), Q(12), 3, Q(2), [Q(25), Q(625), Q(1225)], [Q(0)] * 3, ((Q(-1, 2), Q(1, 4)),)
)
X0_NORM = Q(5, 4)


def noisy(sign: int) -> Instance:
    """Noise of norm sigma_i = 14, 2, 10, whose sign alternates from step to step: sigma = 10."""
    sigma = (14, 2, 10)

    def noise(k: int, t: int, i: int) -> Vector:
        size = sign * (-1) ** (t + k + i) * sigma[i]
        return (Q(3 * size, 5), Q(4 * size, 5))

    return replace(PLANE, sigma_sq_i=[Q(s**2) for s in sigma], noise=noise)


def along_the_joint_gradient(p: Instance) -> Instance:
    """Line 22 with grad f_i/N: G and sigma of the joint gradient, ||grad F||^2 = (1/N^2) sum_i
    ||grad f_i||^2."""
    n = len(p.clients)
    return replace(p, share=n, G_sq_i=[g / n for g in p.G_sq_i], sigma_sq_i=[s / n for s in p.sigma_sq_i])


def least(need: Q, enough: Callable[[int], int]) -> int:
    """The least K >= 1 with enough(K) >= need."""
    K = 1
    while enough(K) < need:
        K += 1
    return K


ROUNDS = {  # of K, G^2 D/epsilon^2: K = ceil(6 G sqrt(2 D)/epsilon), K(K+1) >= 36 G^2 D/epsilon^2, K(K+1) >= 28 G^2 D/epsilon^2
    "printed": lambda q: least(72 * q, lambda K: K * K),
    "fewest": lambda q: least(36 * q, lambda K: K * (K + 1)),
    "sharpened": lambda q: least(28 * q, lambda K: K * (K + 1)),
}


def plan(rounds: str, epsilon: Q) -> Instance:
    """Theorem 2: lambda = epsilon/G^2, D = ||x_0 - x*||^2 and K, with x_0 = x* + (3/4, 1)."""
    D, g_sq = Q(25, 16), PLANE.G_sq
    start = add((1, STAR), (1, (Q(3, 4), Q(1))))
    return replace(PLANE, x0=start, lam=epsilon / g_sq, D=D, K=ROUNDS[rounds](g_sq * D / epsilon**2), R=Q(8))


def joint_plan(epsilon: Q) -> Instance:
    """The same with G^2 of the joint gradient, and D = ||x_0 - x*||^2 in R^{Nd}."""
    p = plan("printed", epsilon)
    n = len(p.clients)
    g_sq, D = p.G_sq / n, n * p.D
    return replace(p, lam=epsilon / g_sq, D=D, K=ROUNDS["printed"](g_sq * D / epsilon**2))


# --- in one dimension, in the readings that are on record as violated: the ball cuts z_k ----------
# One dimension, three clients, of which two are alike. On [-1, 1] the first's slopes are -1 inside
# and 5 at the right end.
LINES = Instance(
    [_client(((-1,), 0), ((5,), -6)), *[_client(((-3,), 2), ((2,), -2))] * 2],
    (Q(-4, 5),), (Q(4, 5),), Q(3, 2), Q(270), 5, Q(1), [Q(25), Q(9), Q(9)], [Q(0)] * 3,
)  # fmt: skip


def excess(p: Instance) -> Q:
    """F(x_K) - F*."""
    return p.F(run(p, last_training=False).x[-1]) - p.F(p.star)


def reading(name: str) -> tuple[Q, Q]:
    """F(x_K) - F* and Theorem 1's bound on `LINES`, with the reading's G in T_k and in the bound,
    or its algorithm."""
    n, g_sq = len(LINES.clients), LINES.G_sq
    changes = {
        "repaired": {},
        "printed": {"G_sq_i": [g_sq / n] * n},
        "printed, joint distance": {"G_sq_i": [g_sq / n] * n},
        "Lipschitz G": {"G_sq_i": [Q(1), Q(9), Q(9)]},
        "consensus G": {"G_sq_i": [Q(-1 - 3 - 3, 3) ** 2] * n},  # F'(x) = -7/3 left of 4/5, 1 right of it
        "no server projection": {"server_projection": False},
        "mixed norms": {"share": n},
        "prox without the square": {"flat_prox": True},
    }
    p = replace(LINES, **changes[name])
    return excess(p), theorem_1(p, start=10 * n if "joint distance" in name else 10)


def reading_of_theorem_2(name: str, lam: Q) -> tuple[Q, Q, Instance]:
    """The same for Theorem 2 with the joint gradient's G: F(x_K) - F* and epsilon = lambda G^2."""
    n = len(LINES.clients)
    p = replace(LINES, G_sq_i=[LINES.G_sq / n] * n, lam=lam, D=LINES.start_sq * (n if "joint distance" in name else 1))
    epsilon = lam * p.G_sq
    p = replace(p, K=ROUNDS["printed"](p.G_sq * p.D / epsilon**2))
    return excess(p), epsilon, p


SLOPE = Instance([_client(((-1,), 0))], (Q(0),), (Q(1),), Q(1, 5), Q(1), 3, Q(1), [Q(1)], [Q(0)])


def nine_point_nine() -> tuple[Q, Q]:
    """1 - lambda (K(K+1)/40 + (2K+1)/60), a lower bound of F(x_K) - F* for f = -u, and Theorem 1's
    bound with 9.9 for 10."""
    p = SLOPE
    return 1 - p.lam * (Q(p.K * (p.K + 1), 40) + Q(2 * p.K + 1, 60)), theorem_1(p, start=Q(99, 10))


# --- both sides of every form ---------------------------------------------------------------------
Rows = list[tuple[Q, Q | float]]
ON: dict[tuple[str, str], Instance] = {}  # the instance of a form, where `instance_of` has another
EDGES: list[tuple[str, Instance, bool]] = []  # a condition in words, an instance, and if it holds


def form(statement: str, name: str, on: Instance = PLANE) -> Callable[[Any], Any]:
    """Keep a function (instance, run) -> rows (lhs, rhs) as a form's sides."""

    def keep(function: Any) -> Any:
        SIDES[statement, name], ON[statement, name] = function, on
        return function

    return keep


def edge(words: str, instance: Instance, holds: bool) -> None:
    """Keep an instance on which a condition of a form holds or does not, near where it ends."""
    EDGES.append((words, instance, holds))


def _excess_below(bound: Callable[[Instance], Q | float]) -> Callable[[Instance, Run], Rows]:
    return lambda p, r: [(p.F(r.x[-1]) - p.F(p.star), bound(p))]


def _joint(p: Instance) -> Q:
    """The joint F on R^{Nd} has the gradients grad f_i/N: ||grad F||^2 = (1/N^2) sum_i ||grad
    f_i||^2."""
    return sum(p.G_sq_i, Q(0)) / len(p.clients) ** 2


def _steps_above(p: Instance, r: Run) -> Rows:
    total, without, ceilings = step_total(p)
    return [(Q(total), without + ceilings)]


def _steps_below(p: Instance, r: Run) -> Rows:
    total, without, _ = step_total(p)
    return [(without, Q(total))]


def _line_14(p: Instance) -> Q:
    T = p.T[-1]
    return theorem_1(p, slack=max(2 * kappa_last(T), 4 * kappa_last(T, noise=True)))


SIDES: dict[tuple[str, str], Callable[[Instance, Run], Rows]] = {
    ("inner-loop", "repaired"): lambda p, r: inner_loop(p, r),
    ("inner-loop", "Lan"): lambda p, r: inner_loop(p, r, "Lan"),
    ("recursion", "repaired"): recursion,
    ("telescoped", "repaired"): telescoped,
    ("penalty-gap", "repaired"): penalty_gap,
    ("theorem-1", "printed"): _excess_below(lambda p: theorem_1(p, G_sq=_joint(p))),
    ("theorem-1", "printed, joint distance"): _excess_below(lambda p: theorem_1(p, start=10 * len(p.clients), G_sq=_joint(p))),
    ("theorem-1", "line 22 with grad f_i/N"): _excess_below(lambda p: theorem_1(p, start=10 * len(p.clients))),
    ("theorem-1", "repaired"): _excess_below(theorem_1),
    ("theorem-1", "sharpened"): _excess_below(lambda p: theorem_1(p, slack=4)),
    ("theorem-1", "sharpened, without noise"): _excess_below(lambda p: theorem_1(p, slack=Q(20605, 10000))),
    ("theorem-1", "9.9 for 10"): _excess_below(lambda p: theorem_1(p, start=Q(99, 10))),
    ("theorem-1", "a posteriori"): _excess_below(a_posteriori),
    ("theorem-1", "large K"): _excess_below(lambda p: large_k(p, X0_NORM)),
    ("theorem-1", "line 14 as printed"): _excess_below(_line_14),
    ("theorem-1", "line 14 as printed, without noise"): _excess_below(lambda p: theorem_1(p, slack=2 * kappa_last(p.T[-1]))),
    ("theorem-1", "consensus G"): _excess_below(theorem_1),
    ("theorem-1", "Lipschitz G"): _excess_below(theorem_1),
    ("theorem-1", "no server projection"): _excess_below(theorem_1),
    ("theorem-1", "mixed norms"): _excess_below(theorem_1),
    ("theorem-1", "prox without the square"): _excess_below(theorem_1),
    ("theorem-2", "printed"): _excess_below(lambda p: p.lam * _joint(p)),
    ("theorem-2", "printed, joint distance"): _excess_below(lambda p: p.lam * _joint(p)),
    ("theorem-2", "line 22 with grad f_i/N"): _excess_below(lambda p: p.lam * p.G_sq),
    ("theorem-2", "repaired"): _excess_below(lambda p: p.lam * p.G_sq),
    ("theorem-2", "sharpened"): _excess_below(lambda p: Q(3, 4) * p.lam * p.G_sq),
    ("theorem-2", "fewer rounds"): _excess_below(lambda p: p.lam * p.G_sq),
    ("theorem-2", "fewer rounds, sharpened"): _excess_below(lambda p: p.lam * p.G_sq),
    ("theorem-2", "local steps"): _steps_above,
    ("theorem-2", "local steps, from below"): _steps_below,
}
PLANS = {"printed": Q(133), "fewest": Q(77), "sharpened": Q(68)}  # epsilon, each near the least for which K = 2
MEANS = {"inner-loop": 9, "recursion": 3}  # with noise: the mean over the K N (or K) first rows


def instance_of(statement: str, form: str) -> Instance:
    """The instance without noise on which a form is worked out."""
    if (statement, form) in ON:
        return ON[statement, form]
    if form.startswith("line 14"):
        return replace(PLANE, line_14="printed")
    if form.startswith("line 22"):
        return along_the_joint_gradient(PLANE if statement == "theorem-1" else joint_plan(PLANS["printed"]))
    if statement != "theorem-2" or form.startswith("local steps"):
        return PLANE
    kind = {"fewer rounds": "fewest", "fewer rounds, sharpened": "sharpened"}.get(form, "printed")
    return plan(kind, PLANS[kind])


def exact_sides(statement: str, form: str) -> Rows:
    p = instance_of(statement, form)
    return SIDES[statement, form](p, run(p, last_training=statement != "theorem-2"))


def noisy_sides(statement: str, form: str) -> list[Rows]:
    """Both sides in each of the two scenarios."""
    out = []
    for sign in (1, -1):
        p = replace(noisy(sign), line_14="printed" if form.startswith("line 14") else "averaged")
        p = along_the_joint_gradient(p) if form.startswith("line 22") else p
        rows = SIDES[statement, form](p, run(p))
        out.append(over_rounds(rows, MEANS[statement]) if statement in MEANS else rows)
    return out
