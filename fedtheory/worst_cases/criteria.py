"""Criteria of a worst case: a named one, or anyone's function of the server's models.

A function is given a `Models`, and is written once: it makes a form of vectors for the bound, and a
number for a run on the worst losses.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability
from fedtheory.worst_cases.entries import NotLinear, Square, Trace
from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.tree import Each, History, Tree

__all__ = ["CRITERIA", "Criterion", "Leaf", "Measured", "Models", "form_of", "name_of", "source_of"]

Criterion = str | Callable[[Any], Any]
CRITERIA = {
    "distance": "||x_T - x*||^2",
    "gap": "F(x_T) - F*",
    "gradient": "||grad F(x_T)||^2",
    "best-gap": "min over t < T of F(x_t) - F*",
}


INSTEAD = (
    "sums and multiples of q.gap(x), q.distance_sq(x), q.gradient_sq(x), q.sq(v) and q.dot(u, v) "
    "are asked for"
)
LEAST = f"{INSTEAD}; of the least gap take --criterion best-gap"
OF_THEOREMS = "what clients do is asked for in a theorem, over='run', with a constant"


class Models:
    """The server's models of a run on all losses of a class.

    Attributes
    ----------
    x : list of x_0, ..., x_T: arrays (1, d) of which sums, differences and multiples are points, too
    """

    def __init__(self, run: Any, models: list[Any], clients: int) -> None:
        self._run, self._trace = run, Trace(run, clients)
        self.x = [self._trace.of_server(v) for v in models]

    def gap(self, x: Any) -> Any:
        """F(x) - F* at a point."""
        return self._number(self._run.gap(self._name(), self._trace.point(x)))

    def distance_sq(self, x: Any) -> Any:
        """||x - x*||^2."""
        at = self._trace.point(x)
        return self._number(self._run.product(at, at))

    def gradient_sq(self, x: Any) -> Any:
        """||grad F(x)||^2 at a point."""
        return self._number(self._run.squared_gradient(self._name(), self._trace.point(x)))

    def sq(self, v: Any) -> Any:
        """||v||^2 of a difference of points."""
        return self.dot(v, v)

    def dot(self, v: Any, w: Any) -> Any:
        """<v, w> of differences of points."""
        a, b = self._difference(v), self._difference(w)
        return self._number(self._run.product(a, b))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        told = f"of the models q.x[0], ..., q.x[T] {INSTEAD}; {OF_THEOREMS}"
        raise MissingCapability(f"there is no q.{name}: {told}")

    def _difference(self, v: Any) -> Any:
        found = self._trace.vector(v)
        if any(weight != 0 for weight in self._run.weights_of_start(found)):
            raise NotLinear("asks for a product of points, which depends on where the origin is: take their differences")
        return found

    def _name(self) -> str:
        return f"end {len(self._run.points)}"

    def _number(self, form: Quadratic) -> Square:
        return Square(self._trace, {None: form}, frozenset(range(2)))


class Leaf:
    """The end of one history of cohorts, which is asked as a `Run` is.

    A point depends on the cohorts that it is made of, and has one name after whichever others.
    """

    cohort = history = ()

    def __init__(self, tree: Tree, history: History) -> None:
        self._tree, self._history = tree, history
        self.zero, self.best, self.weights_of_start = tree.zero, tree.best, tree.weights_of_start
        self.points: list[Each] = []  # that were asked for

    def product(self, a: Each, b: Each) -> Quadratic:
        """<a, b> of vectors that are the same for all."""
        return a.rows[0].inner(b.rows[0])

    def gap(self, name: str, at: Each) -> Quadratic:
        """F(at) - F*."""
        return self._tree.gap(*self._asked(name, at))

    def squared_gradient(self, name: str, at: Each) -> Quadratic:
        """||grad F(at)||^2."""
        return self._tree.squared_gradient(*self._asked(name, at))

    def _asked(self, name: str, at: Each) -> tuple[str, dict[History, Each]]:
        tree = self._tree
        tree.history = self._history[: at.cohorts]
        self.points.append(at)
        known = tree.known(at)
        return name if known is None else known[0], {tree.history: at}


class Measured:
    """The same of a run on losses that are known.

    Parameters
    ----------
    models : (ways, T + 1, d), of every way to draw the cohorts
    """

    def __init__(self, problem: Any, optimum: np.ndarray, models: np.ndarray) -> None:
        self._problem, self._optimum = problem, optimum
        self.x = [models[:, t] for t in range(models.shape[1])]

    def gap(self, x: Any) -> Any:
        """F(x) - F*, of every way."""
        return self._problem.objective(x) - self._problem.objective(self._optimum)

    def distance_sq(self, x: Any) -> Any:
        """||x - x*||^2, of every way."""
        return ((x - self._optimum) ** 2).sum(axis=-1)

    def gradient_sq(self, x: Any) -> Any:
        """||grad F(x)||^2, of every way."""
        return (self._problem.full_gradient(x) ** 2).sum(axis=-1)

    def sq(self, v: Any) -> Any:
        """||v||^2, of every way."""
        return (v * v).sum(axis=-1)

    def dot(self, v: Any, w: Any) -> Any:
        """<v, w>, of every way."""
        return (v * w).sum(axis=-1)


def form_of(criterion: Callable[[Any], Any], run: Any, models: list[Any], clients: int) -> Quadratic:
    """The form that a function makes of the models.

    Raises
    ------
    MissingCapability
        What is not quadratic in the vectors.
    InvalidInput
        A function that gives something else.
    """
    name = name_of(criterion)
    try:
        found = criterion(Models(run, models, clients))
    except NotLinear as error:
        more = LEAST if str(error).startswith("compares") else INSTEAD
        raise MissingCapability(f"criterion {name}: {error}; {more}") from error
    except FedTheoryError as error:
        raise type(error)(f"criterion {name}: {error}") from error
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise InvalidInput(f"criterion {name}: {told}; {INSTEAD}") from error
    if not isinstance(found, Square):
        raise InvalidInput(f"criterion {name} gives {type(found).__name__}: return such as q.gap(q.x[-1])")
    return found.value


def name_of(criterion: Criterion) -> str:
    """The name of a criterion, or of a function."""
    return criterion if isinstance(criterion, str) else str(getattr(criterion, "__name__", "criterion"))


def source_of(criterion: Criterion) -> str:
    """'NAME.py:FUNCTION' and a hash of the file that a function is from; '' of a named criterion."""
    if isinstance(criterion, str):
        return ""
    try:
        file = Path(inspect.getfile(criterion))
        return f"{file.name}:{name_of(criterion)}, sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}"
    except (OSError, TypeError):  # typed at a prompt
        return f"{name_of(criterion)}, without a file"
