"""For other people's code: assertions about convergence, in the manner of ``numpy.testing``.

    from fedtheory.testing import assert_bound_holds, assert_rate, assert_reaches

    assert_rate(gaps, -1, window=(10, 1000))
    assert_bound_holds(gaps, bound, confidence=0.99)
    assert_reaches(gaps, 1e-3, within=500)
"""

from fedtheory.testing.assertions import BoundCheck, assert_bound_holds, assert_rate, assert_reaches

__all__ = ["BoundCheck", "assert_bound_holds", "assert_rate", "assert_reaches"]
