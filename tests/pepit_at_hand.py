"""PEPit's value of a programme, and how near ours must be to it."""

from __future__ import annotations

NEAR = 1e-6  # of the value
TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)


def solved(pep):
    """The worst value, by a solver of which as much is asked as of ours."""
    return pep.solve(verbose=0, solver="CLARABEL", **TIGHT)


def same(found, value):
    """Check that the solver's value is PEPit's, and that the proved bound is no further above it."""
    assert abs(found.best - value) <= NEAR * value
    assert abs(found.bound - value) <= NEAR * value and found.bound > found.best
