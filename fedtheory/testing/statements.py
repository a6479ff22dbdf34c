"""Asserting that a statement of a paper, or of an author's own, holds on a run of anyone's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.inputs import check_unit
from fedtheory.testing.failure import DIVERGED, fail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtheory.local.objective import LocalSolver
    from fedtheory.participation.cohorts import Sampling
    from fedtheory.theory import AuthoredStatement
    from fedtheory.theory.judge import Check, Checks, Statement

__all__ = ["assert_statement"]

MOST_ASSUMPTIONS = 6


def assert_statement(
    statement: Statement | AuthoredStatement | str, trajectory: Any, problem: Any, algorithm: Any = None, *,
    form: str | None = None, confidence: float = 0.999, x0: Any = None,
    sampling: Sampling | None = None, local_solver: LocalSolver | None = None,
    given: Mapping[str, Any] | None = None,
) -> Checks:
    """Assert that a statement holds on a run, whoever made it; passing means that it was compared
    and holds.

    Parameters
    ----------
    statement : its id, such as 'fedelasticnet/theorem-a', or 'my_paper.py::theorem-1' of a file of
        yours; or the statement itself, of a `Paper` or from `theorems.get`
    trajectory : what the run recorded
        The server's models (rounds + 1, d), round 0 first, or (rounds + 1, seeds, d); a dict with
        these under 'x' and the method's memories under their names here, such as FedDyn's 'h'
        (rounds + 1, d); or a `fedtheory.Trajectory` with its states kept.
    problem : `fedtheory.problems.Problem`, whose optimum is certified
    algorithm : the hyperparameters, as the method of this package has them; nothing of it is run.
        Default: that of a `Trajectory`; None also where the statement says itself which method it
        is about.
    form : which reading; default the repaired one, else what is printed
    confidence : of statements about a mean, which need several seeds
    x0 : (d,); default where the run begins
    sampling, local_solver : where clients do not all take part with exact local work (a
        `Trajectory` knows its own)
    given : as of `Statement.verify`

    Returns
    -------
    Checks
        With one check; printed it says how tight the bound is, and ``plot()`` draws it.

    Raises
    ------
    AssertionError
        'violated', with the worst horizon, both sides, and where it fails first; 'not applicable',
        with the assumption that fails and its limit; 'inconclusive': too few seeds, what was not
        recorded, a run that diverged, an optimum that cannot be certified.
    InvalidInput, UnknownName
        Arguments that are none, no such statement or form.

    Examples
    --------
    >>> import numpy as np
    >>> from fedtheory import problems
    >>> from fedtheory.algorithms import FedDyn
    >>> from fedtheory.testing import assert_statement
    >>> problem = problems.Quadratic(np.ones((2, 1, 1)), np.array([[0.0], [4.0]]))  # f_k(x) = (x - c_k)^2 / 2
    >>> alpha, x, h, g, run = 2.0, 0.0, 0.0, np.zeros(2), {"x": [0.0], "h": [0.0]}
    >>> for _ in range(20):  # somebody's FedDyn
    ...     local = (np.array([0.0, 4.0]) + g + alpha * x) / (1 + alpha)
    ...     g = g - alpha * (local - x)
    ...     h = h - alpha * (local - x).mean()
    ...     x = local.mean() - h / alpha
    ...     run["x"] += [x]
    ...     run["h"] += [h]
    >>> print(assert_statement("fedelasticnet/theorem-e", run, problem, FedDyn(alpha)).verdict)
    holds
    """
    __tracebackhide__ = True
    from fedtheory import theorems  # noqa: F401 - so that its papers are known
    from fedtheory.theory.judge.own_run import check_run
    from fedtheory.theory.judge.registry import get

    statement = get(statement)
    confidence = check_unit("confidence", confidence)
    if algorithm is None:
        algorithm = getattr(trajectory, "algorithm", None)
    forms = None if form is None else [form]
    checks = check_run(
        statement, problem, algorithm, trajectory, forms=forms, confidence=confidence, x0=x0,
        sampling=sampling, local_solver=local_solver, given=given,
    )
    check = checks[0]
    if check.verdict != "holds":
        _fails(statement, check, checks)
    return checks


def _fails(statement: Statement, check: Check, checks: Checks) -> None:
    """The failure of a check that does not hold."""
    __tracebackhide__ = True
    evidence = {"kind": "statement", "checks": checks}
    name = f"{statement.id} [{check.form}]"
    if check.verdict == "not applicable":
        fail(f"Statement not applicable: {name}.", [check.reason], (
            "meet that assumption, or take a statement, or a form, that is about this run: `fedtheory explain "
            f"{statement.id}` has all of them"), evidence)  # fmt: skip
    if check.verdict == "inconclusive":
        lines = [check.reason] + ([] if check.series is None else [_sides(check)])
        if "diverged" in check.reason:
            fail("Run diverged.", lines, DIVERGED, evidence)
        fail(f"Statement inconclusive: {name}.", lines, "give what is missing; nothing is shown as it stands", evidence)
    lines = [f"worst at {check.place}: {_sides(check)}"]
    series = check.series
    if series is not None and series.at is not None:
        bad, every = np.unique(series.at[series.violated]), np.unique(series.at)
        more = f"kept of {series.total:,} entries" if len(series.at) < series.total else "looked at"
        lines.append(f"it fails at {len(bad)} of {len(every)} horizons {more}, first at {series.horizon} = {bad[0]}")
    from fedtheory.theory.judge.check import FREE
    from fedtheory.theory.judge.statement import KNOWN

    form = statement.form(check.form)
    known = form.known(check.rule) if check.rule in form.established else "open"
    if not check.refutes:
        free = ", ".join(check.where[FREE])
        hint = f"the theorem claims that some number >= 0 will do as {free}: state another there"
    elif known in ("proved", "in words"):
        hint = (
            "the theorem is proved, so the run is none of this method with these hyperparameters, or an assumption fails that a run "
            "does not show; check one round by itself (`fedtheory audit`), and: "
            + "; ".join(statement.assumptions[:MOST_ASSUMPTIONS])
        )
    else:
        hint = f"this form is {KNOWN[known]}: a correct run may break it; assert form='repaired' where there is one"
    fail(f"Statement violated: {name}.", lines, hint, evidence)


def _sides(check: Check) -> str:
    about = "" if not check.scenarios else f" (means of {check.scenarios} seeds, confidence {check.confidence:.4g})"
    if check.relation == "==":
        return f"its two sides differ by {check.lhs:.6g}{about}"
    ratio = f", {check.lhs / check.rhs:.4g} times the bound" if check.rhs > 0 else ""
    return f"left side {check.lhs:.8g}, bound {check.rhs:.8g}{ratio}{about}"
