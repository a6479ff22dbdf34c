"""Bounds of groups, attacked by runs of the methods in fractions: on losses of each group's class none is above its bound."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory.rational import in_fractions
from fedtheory.theory.rounds.losses import SeparableLosses
from fedtheory.theory.rounds.oracles import SeparableWorld, everyone, run
from fedtheory.worst_cases import Group, Losses, worst_case

SLOW, FAST, CONVEX = Losses(1, F(1, 10)), Losses(4, 1), Losses(2)
HALVES = [Group("1/2", SLOW), Group("1/2", FAST)]
WEIGHED = [Group("1/4", CONVEX, 1), Group("1/2", SLOW, 2), Group("1/4", FAST, 1)]
SINGLE = [Group("1/3", CONVEX, 1), Group("2/3", FAST, 1)]
SETTINGS = [  # method, groups, what is asked, and whether parabolas of the least or the largest curvatures are nearly worst
    ("fedavg", HALVES, {"rounds": 2, "step": F(1, 4), "criterion": "distance"}, True),
    ("fedavg", WEIGHED, {"rounds": 2, "local_steps": 2, "step": F(1, 4), "criterion": "gap"}, False),
    ("fedavg", SINGLE, {"rounds": 1, "local_steps": 3, "step": F(1, 4), "criterion": "distance", "heterogeneity": 0}, True),
    ("fedavg", HALVES, {"rounds": 3, "step": F(1, 8), "criterion": "best-gap"}, False),
    ("scaffold", HALVES, {"rounds": 2, "step": F(1, 8), "local_steps": 2, "criterion": "distance", "heterogeneity": 0}, True),
    ("scaffold", WEIGHED, {"rounds": 2, "step": F(1, 4), "local_steps": 2, "option": "gradient", "criterion": "gradient"}, False),
    ("scaffold", SINGLE, {"rounds": 2, "step": F(1, 4), "local_steps": 2, "initial": "gradient", "criterion": "gap"}, False),
    ("scaffold", HALVES, {"rounds": 2, "step": F(1, 8), "local_steps": 2, "initial": F(1, 2), "criterion": "gap"}, False),
    ("scaffold", WEIGHED, {"rounds": 1, "step": F(1, 4), "local_steps": 3, "initial": F(2), "criterion": "distance"}, False),
    ("fedprox", HALVES, {"rounds": 2, "mu": 2, "criterion": "distance", "heterogeneity": 0}, True),
    ("feddyn", WEIGHED, {"rounds": 2, "alpha": 2, "criterion": "gap"}, False),
    ("fedgate", HALVES, {"rounds": 2, "step": F(1, 4), "local_steps": 2, "criterion": "gap"}, False),
    ("vrl-sgd", SINGLE, {"rounds": 2, "step": F(1, 8), "criterion": "gradient"}, False),
]  # fmt: skip


def drawn(rng, kinds, d, together):
    """Pieces h phi(x - c) + m (x - c)^2/2 whose curvatures lie in each client's class, and a start; ``together``: of one c.
    The last number is by how much a control variate is off the gradient at x*."""
    pieces = []
    for kind in kinds:
        L, mu = kind.smoothness, kind.strong_convexity
        for _ in range(d):
            h, c = (L - mu) * rng.choice([0, F(1, 2), 1, 1]), F(0 if together else rng.randint(-20, 20), 10)
            pieces.append((h, c, mu, rng.choice([None, F(rng.randint(1, 20), 10)]), F(rng.randint(-20, 20), 10)))
    rows = np.array(pieces, dtype=object).reshape(len(kinds), d, 5)
    return rows, np.array([F(rng.randint(-30, 30), 10) for _ in range(d)], dtype=object)


def extremes(kinds):
    """Parabolas with one minimiser, of the least or the largest curvatures."""
    for share in (0, 1):
        made = [[[share * (kind.smoothness - kind.strong_convexity), F(0), kind.strong_convexity, None, F(0)]] for kind in kinds]
        yield np.array(made, dtype=object), np.array([F(1)], dtype=object)


def reached(q, rows, x):
    """The criterion after a run, in units in which the distance, the gradients at x* and what control variates are off are within
    their limits; 0 where the question allows no such losses. Squares of all grow alike where positions are multiplied, as
    curvatures stay."""
    h, c, m, delta, off = (rows[..., i] for i in range(5))
    weights = np.array([g.share / g.clients for g in q.losses.groups for _ in range(g.clients)], dtype=object)
    losses = SeparableLosses.of(h, c, m, 0 * m, delta, weights)
    star = losses.minimiser(x)
    apart, slopes = ((x - star) ** 2).sum(), (weights[:, None] * losses.gradients(star) ** 2).sum()
    unit, method, state = max(apart, slopes), in_fractions(q.subject.algorithm), None
    if isinstance(distance := getattr(method, "initial", ""), F):
        unit, c_k = max(unit, (weights[:, None] * off**2).sum() / distance**2), losses.gradients(star) + off
        method, state = in_fractions(replace(q.subject.made, initial="zero")), {"c_k": c_k[None], "c": c_k.sum(axis=0)[None] / len(c_k)}
    if (slopes and q.heterogeneity == 0) or not unit:
        return F(0)
    work = {} if q.subject.local_steps is None else {"E": q.subject.local_steps, "eta": q.subject.solver.lr}
    path = run(SeparableWorld(losses, x), method, work, x[None], [everyone(len(weights), 1)] * q.rounds, state=state)
    models = [state.x[0] for state in path.states]
    gaps = [losses.excess(y, star) for y in models]
    found = {
        "distance": ((models[-1] - star) ** 2).sum(), "gap": gaps[-1], "best-gap": min(gaps[:-1]),
        "gradient": ((weights[:, None] * losses.gradients(models[-1])).sum(axis=0) ** 2).sum(),
    }  # fmt: skip
    return found[q.criterion] / unit


@pytest.mark.parametrize(("method", "groups", "how", "sharp"), SETTINGS)
def test_no_run_is_above_the_bound(method, groups, how, sharp):
    """Neither on 80 drawn instances in one or two coordinates, with two clients or more in a group of several, nor on the
    extremes; and where these are nearly worst, a bound a tenth smaller is false."""
    found = worst_case(method, losses=groups, **how)
    q, rng = found.question, random.Random(method)
    kinds, together = q.losses.of_clients, how.get("heterogeneity") == 0
    instances = [*extremes(kinds), *(drawn(rng, kinds, rng.choice([1, 2]), together) for _ in range(80))]
    values = [reached(q, rows, x) for rows, x in instances]
    most = max(values)
    assert most <= found.bound and sum(v > 0 for v in values) > 60
    if sharp:
        assert most > F(9, 10) * found.bound
