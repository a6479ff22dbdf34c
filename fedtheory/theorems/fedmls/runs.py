"""The world of FedMLS's statements about runs: where its runs come from, and what they are for."""

from collections.abc import Sequence
from typing import Any, cast

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.rational import to_file
from fedtheory.theorems.fedmls.instances import mls_battery
from fedtheory.theorems.fedmls.on_a_problem import UsersRuns
from fedtheory.theorems.fedmls.one_dimension import InFloats, OneDimension, draw
from fedtheory.theorems.fedmls.own_run import own_run
from fedtheory.theorems.fedmls.parameters import ACCURACY, make_fedmls
from fedtheory.theorems.fedmls.quantities import MLSView
from fedtheory.theorems.fedmls.requests import OfUsers, refuse_cohorts
from fedtheory.theory import Draws
from fedtheory.theory.judge.request import Tuned

COMPUTED = {  # what `tuned` finds itself
    "--lam": "from --epsilon", "--D": "from --epsilon", "--rounds": "from --epsilon",
    "--radius": "least power of 2", "--lipschitz": "the problem's", "--epsilon": f"{ACCURACY:g}",
    "--noise": "0.0",
}  # fmt: skip


def tuned(method: str, request: Any, rounds: Any, batch_size: int | None) -> Tuned | None:
    """Make FedMLS with Theorem 2's parameters for an accuracy, with the fewest rounds."""
    if method != FedMLS.name:
        return None
    problem = request.problem("lad")
    refuse_cohorts(request, problem)
    start, K = request.start(problem), cast(Any, rounds or "fewest")
    made = make_fedmls(problem, request.options, start, K, batch_size)
    a = made.algorithm
    told = made.rows(a.skip_last), made.to_json(a.skip_last)
    return Tuned(a, problem, int(a.rounds), made.radius, *told)


class FedMLSRuns(MLSView, OfUsers):
    """Runs of FedMLS, as its statements are judged on them.

    They are the battery's, in floats, a user's, and in fractions in one dimension.
    """

    draws = (Draws("fedmls lines", draw, 0),)

    @classmethod
    def runs(cls, plan: Any) -> Sequence[Any]:
        """Give the runs of the battery."""
        return mls_battery(plan.seed, plan.scale)

    # --- a problem of the user's ------------------------------------------------------------------
    @classmethod
    def on_problem(cls, statement: str, case: Any) -> Any:
        """Give what makes the run that a form is judged on."""
        return UsersRuns(case, statement)

    @classmethod
    def own_run(cls, statement: Any, form: Any, case: Any, record: Any) -> Any:
        """Give the sides of a form on a recorded run."""
        return own_run(statement, form, case, record)

    # --- one dimension ----------------------------------------------------------------------------
    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Any:
        """Make a run in fractions of variant, slopes, offsets, lam, D, radius, x0, and rounds.

        Losses may have ``copies``, numbers of clients that have them.
        """
        return OneDimension.of(data).in_fractions()

    @classmethod
    def search_instance(cls, rng: Any) -> InFloats:
        """Draw a run that is made in floats; the data of one that violates a form prove it."""
        label, data = draw(rng)
        return InFloats({cls.kind: cls.from_data}, cls.kind, label, to_file(data), of=cls.family)
