"""min F as a cone programme: modelled by cvxpy, solved by Clarabel, its size and time on record.

The problems give their form (`Problem.cvxpy_objective`): quadratics one joint quadratic form; least
squares an orthogonal factor of the data with d + 1 rows, however many samples there are; the others
a few cones for each sample, or each distinct one where many are copies, on sparse data.
`cvxpy_split`, where a problem has it, is the same as a minimum over further variables, where that
is solved sooner. Nothing that comes back is believed: `fedtheory.optimum` polishes the point and
certifies the result on the original problem.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.errors import MissingCapability
from fedtheory.inputs import whole_number
from fedtheory.optimum.interface import Certifiable

__all__ = ["ConicSolve", "announced", "solve"]

PATIENCE = 2.0  # seconds after which a solve is announced
MODERATE = 1000.0  # up to here, and down to 1 over it, F(0) is handed to the solver as it is
# A second thread only costs. On exponential cones, a primal-dual step of less than half its length
# is followed by the dual scaling; with Clarabel's own limit of a tenth it dawdles near the end.
SETTINGS = {"max_threads": 1, "min_switch_step_length": 0.5}
_listeners: list[Callable[[str], None]] = []


@dataclass(frozen=True)
class ConicSolve:
    """The answer of cvxpy.

    Attributes
    ----------
    x : (d,) or None
        The solver's point; None where there is none.
    value : float or None
        The optimal value as cvxpy reports it.
    form : str
        The cone programme in words; '' where none was made.
    entries : int
        Numbers that are not zero in its matrices.
    seconds : float
        For modelling and solving; cvxpy's import is not counted.
    said : str
        The solver's status, or why there is no point.
    """

    x: np.ndarray | None
    value: float | None
    form: str
    entries: int
    seconds: float
    said: str


@contextmanager
def announced(say: Callable[[str], None]) -> Iterator[None]:
    """Within it, a solve that lasts longer than two seconds is told to `say`, while it is running.

    Of several, the innermost is told.
    """
    _listeners.append(say)
    try:
        yield
    finally:
        _listeners.remove(say)


def solve(problem: Certifiable, max_entries: int | None = None) -> ConicSolve:
    """Solve min F by cvxpy.

    Parameters
    ----------
    max_entries : int or None
        A cone programme with more entries is not solved, and the result says so. None: there is no limit.

    Raises
    ------
    InvalidInput
        max_entries is not an integer >= 0.
    """
    if max_entries is not None:
        max_entries = whole_number("max_conic_entries", max_entries, least=0, remedy="None for no limit")
        if max_entries == 0:  # cvxpy takes a second to import
            return ConicSolve(None, None, "", 0, 0.0, "skipped, no cone programme has max_conic_entries = 0")
    import cvxpy as cp

    begin = time.perf_counter()
    told = {"form": "making the cone programme"}
    variable = cp.Variable(problem.dim)

    def result(said: str, x: Any = None, value: float | None = None, form: str = "", entries: int = 0) -> ConicSolve:
        return ConicSolve(x, value, form, entries, time.perf_counter() - begin, said)

    form, entries = "", 0
    with _patience(told), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # an inaccurate solution is a fine start
        try:
            objective = getattr(problem, "cvxpy_split", problem.cvxpy_objective)
            unit = _unit(float(problem.objective(np.zeros(problem.dim))))
            conic = cp.Problem(cp.Minimize(objective(variable) if unit == 1 else objective(variable) / unit))
        except MissingCapability as lacks:
            return result(f"skipped, {str(lacks).partition(': ')[0]}")
        try:
            form, entries = _size(problem, conic.get_problem_data(cp.CLARABEL)[0])
            if max_entries is not None and entries > max_entries:
                said = f"skipped, its cone programme of {entries:,} entries exceeds max_conic_entries = {max_entries:,}"
                return result(said, None, None, form, entries)
            told["form"] = form
            conic.solve(solver=cp.CLARABEL, **SETTINGS)
        except (cp.SolverError, cp.DCPError, ValueError, ArithmeticError) as failure:
            return result(f"failed: {type(failure).__name__}: {failure}", None, None, form, entries)
    x = variable.value
    if x is None or not np.isfinite(x).all():
        return result(f"no point, status {conic.status!r}", None, None, form, entries)
    value = None if conic.value is None or not np.isfinite(conic.value) else float(conic.value) * unit
    return result(f"status {conic.status!r}", np.asarray(x, dtype=float), value, form, entries)


def _unit(at_zero: float) -> float:
    """The unit that F is divided by: a power of two near F(0) where that is far from 1.

    The solver's tolerances are absolute, too.
    """
    size = abs(at_zero)
    return 1.0 if not np.isfinite(size) or MODERATE**-1 <= size <= MODERATE or size == 0 else 2.0 ** round(np.log2(size))


def _size(problem: Certifiable, data: dict[str, Any]) -> tuple[str, int]:
    """The cone programme in words, and its entries."""
    dims, quadratic = data["dims"], data.get("P")
    curved = 0 if quadratic is None else int(quadratic.nnz)
    entries = int(data["A"].nnz) + curved
    parts = [
        (dims.exp, "exponential cone"), (len(dims.soc), "second-order cone"),
        (dims.nonneg, "inequality"), (dims.zero, "equality"),
    ]  # fmt: skip
    words = [f"{n:,} {_plural(word, n)}" for n, word in parts if n]
    words += ["a quadratic objective"] if curved else []
    words += [f"{data['A'].shape[1]:,} variables", f"{entries:,} entries"]
    about = problem.cvxpy_form()
    return (f"{about}: " if about else "") + ", ".join(words), entries


def _plural(word: str, n: int) -> str:
    return word if n == 1 else f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


@contextmanager
def _patience(told: dict[str, str]) -> Iterator[None]:
    """Tells the innermost listener once what is being solved, unless it is over before."""
    if not _listeners:
        yield
        return
    say = _listeners[-1]
    timer = threading.Timer(PATIENCE, lambda: say(f"solving with cvxpy ({told['form']}) ..."))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
