"""PEPit's programmes and values, and how near ours must be to them."""

from __future__ import annotations

NEAR = 1e-6  # of the value
TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)


def total(rows):
    return sum(rows[1:], rows[0])


def average(rows):
    return total(rows) / len(rows)


def programme(clients, strong=0):
    """Losses of smoothness 1, ||x_0 - x*|| <= 1, and gradients at x* of mean square 1: the programme, the losses,
    their mean, x* and x_0."""
    from PEPit import PEP
    from PEPit.functions import SmoothStronglyConvexFunction

    pep = PEP()
    losses = [pep.declare_function(SmoothStronglyConvexFunction, L=1, mu=strong) for _ in range(clients)]
    mean = average(losses)
    star, x = mean.stationary_point(), pep.set_initial_point()
    pep.set_initial_condition((x - star) ** 2 <= 1)
    pep.add_constraint(average([f.gradient(star) ** 2 for f in losses]) <= 1)
    return pep, losses, mean, star, x


def solved(pep):
    """The worst value, by a solver of which as much is asked as of ours."""
    return pep.solve(verbose=0, solver="CLARABEL", **TIGHT)


def same(found, value):
    """Check that the solver's value is PEPit's, and that the proved bound is no further above it."""
    assert abs(found.best - value) <= NEAR * value
    assert abs(found.bound - value) <= NEAR * value and found.bound > found.best
