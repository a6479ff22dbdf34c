"""For other people's code: assertions about convergence, in the manner of ``numpy.testing``, and an
audit of implementations.

    assert_rate(gaps, -1, window=(10, 1000))
    assert_contraction(gaps, 0.9, window=(0, 100))
    assert_bound_holds(gaps, bound, confidence=0.99)
    assert_reaches(gaps, 1e-3, within=500)
    assert_statement("fedelasticnet/theorem-e", {"x": models, "h": h}, problem, FedDyn(alpha))
    check_algorithm(my_round, "scaffold")  # is it that method, and if not, which line is wrong?

Each takes plain arrays, returns what it found (so that a test can print it), and raises
AssertionError with a message that says which entry failed, what was measured, what was allowed, and
what to do. Passing means *shown*: an interval too wide to tell fails as "inconclusive", it does not
pass. A run that left the finite numbers fails as "diverged", at its first such entry, whatever is
claimed.

pytest finds the fixture ``federated_problem`` and the option ``--rate-plots FOLDER`` by itself
(`fedtheory.pytest_plugin`).
"""

from typing import TYPE_CHECKING

from fedtheory.lazy import lazily
from fedtheory.testing.bounds import BoundCheck, assert_bound_holds
from fedtheory.testing.failure import ConvergenceFailure
from fedtheory.testing.rates import assert_contraction, assert_rate
from fedtheory.testing.reaching import assert_reaches
from fedtheory.testing.statements import assert_statement

if TYPE_CHECKING:
    from fedtheory.testing.audit import audit_algorithm, check_algorithm

__all__ = [
    "BoundCheck", "ConvergenceFailure", "assert_bound_holds", "assert_contraction", "assert_rate",
    "assert_reaches", "assert_statement", "audit_algorithm", "check_algorithm",
]

__getattr__, __dir__ = lazily(__name__)  # what is heavy is imported when it is asked for
