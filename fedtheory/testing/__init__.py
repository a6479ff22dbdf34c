"""For other people's code: assertions about convergence, in the manner of ``numpy.testing``.

from fedtheory.testing import assert_bound_holds, assert_rate, assert_reaches

assert_rate(gaps, -1, window=(10, 1000))
assert_bound_holds(gaps, bound, confidence=0.99)
assert_reaches(gaps, 1e-3, within=500)
"""

from typing import TYPE_CHECKING, Any

from fedtheory.testing.assertions import BoundCheck, assert_bound_holds, assert_rate, assert_reaches

if TYPE_CHECKING:
    from fedtheory.testing.audit import audit_algorithm, check_algorithm

__all__ = ["BoundCheck", "assert_bound_holds", "assert_rate", "assert_reaches", "audit_algorithm", "check_algorithm"]


def __getattr__(name: str) -> Any:  # what is heavy is imported when it is asked for
    if name in ("audit_algorithm", "check_algorithm"):
        import importlib

        return getattr(importlib.import_module("fedtheory.testing.audit"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
