"""The law of the local steps s_k of one round: rows of probabilities, one a client, or a table of correlated cases.

Numbers may be floats or Fractions; Fractions stay exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.arrays import owned, sealed
from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_array, whole_number
from fedtheory.participation.cohorts import Cohort, Sampling

__all__ = [
    "JointLaw", "Law", "Participation", "as_law", "check_clients", "check_max_steps", "clients_of",
    "floats", "fractions", "numbers",
]

SUM_TOLERANCE = 1e-9  # on the sum of a row of floats; rows of Fractions must sum to 1 exactly


def numbers(values: Any, what: str) -> np.ndarray:
    """float64, or an object array of Fractions when any entry is one."""
    try:
        if type(values) is np.ndarray and values.dtype.kind == "f":
            return values.astype(float, copy=False)  # the usual case, without a look at each
        raw = np.asarray(values, dtype=object)
        if any(isinstance(v, Fraction) for v in raw.flat):
            return fractions(raw)
        return real_array(what, values, finite=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what}: expected an array of numbers, all rows of one length ({error})") from error


def floats(values: np.ndarray) -> np.ndarray:
    return values.astype(float)


def fractions(values: np.ndarray) -> np.ndarray:
    """The same numbers as Fractions (a float exactly, not what it may have been meant to be)."""
    out = np.empty(values.size, dtype=object)
    out[:] = [Fraction(v.item() if isinstance(v, np.generic) else v) for v in values.flat]  # NumPy ints overflow
    return out.reshape(values.shape)


def check_max_steps(max_steps: Any) -> None:
    whole_number("E", max_steps, remedy="it is the number of local steps")


def check_clients(num_clients: Any) -> None:
    whole_number("N", num_clients, remedy="it is the number of clients")


def _check_masses(rows: np.ndarray, name: Callable[[int], str]) -> np.ndarray:
    """Rows of probabilities (R, L), divided by their sums; `InvalidInput` names the row that is none."""
    if rows.dtype != object and not np.isfinite(rows).all():
        bad = int(np.argwhere(~np.isfinite(rows))[0][0])
        raise InvalidInput(f"{name(bad)} has a probability that is NaN or infinite: give finite numbers")
    negative = np.argwhere(rows < 0)
    if len(negative):
        row, level = (int(i) for i in negative[0])
        raise InvalidInput(f"{name(row)} gives s = {level} the probability {rows[row, level]}: it must be >= 0")
    total = rows.sum(axis=1)
    off = np.nonzero(total != 1 if rows.dtype == object else np.abs(total - 1) > SUM_TOLERANCE)[0]
    if len(off):
        raise InvalidInput(
            f"{name(int(off[0]))} sums to {total[off[0]]}: its probabilities must sum to 1, divide by the sum"
        )
    return sealed(rows / total[:, None])


@dataclass(frozen=True, eq=False)
class JointLaw:
    """Clients that depend on each other: a table of the rounds that can happen.

    Parameters
    ----------
    steps : (J, N) of ints
        s_k in each of the J cases.
    probability : (J,)
        Floats or Fractions, >= 0, of sum 1.
    """

    steps: Any
    probability: Any

    def __post_init__(self) -> None:
        steps = np.asarray(self.steps)
        if steps.ndim != 2 or not np.issubdtype(steps.dtype, np.integer):
            raise InvalidInput(
                f"the cases of a joint law are integers (J, N): got {steps.dtype} of shape {steps.shape}"
            )
        mass = numbers(self.probability, "the probabilities of a joint law")
        if mass.shape != (len(steps),):
            raise InvalidInput(f"{mass.shape} probabilities for {len(steps)} cases: give one a case")
        mass = _check_masses(mass[None], lambda _: "the joint law")[0]
        object.__setattr__(self, "steps", owned(steps))
        object.__setattr__(self, "probability", mass)

    def check(self, max_steps: int) -> None:
        """Raise `InvalidInput` when a case has s_k outside 0..E."""
        bad = np.argwhere((self.steps < 0) | (self.steps > max_steps))
        if len(bad):
            case, client = (int(i) for i in bad[0])
            raise InvalidInput(
                f"case {case} of the joint law: s = {self.steps[case, client]} at client {client}, "
                f"outside 0..E with E = {max_steps}: lower s or raise E"
            )

    def marginals(self, max_steps: int) -> np.ndarray:
        """(N, E + 1) laws of the single clients."""
        hit = self.steps.T[:, :, None] == np.arange(max_steps + 1)
        return (hit * self.probability[:, None]).sum(axis=1)


Law = np.ndarray | JointLaw


def as_law(law: Any, max_steps: int, when: str) -> Law:
    """A law that has been checked: rows (N, E + 1) or a `JointLaw`."""
    if isinstance(law, JointLaw):
        law.check(max_steps)
        return law
    rows = numbers(law, f"the law {when}")
    if rows.ndim != 2 or rows.shape[0] < 1:
        raise InvalidInput(f"the law {when} has shape {rows.shape}: give one row of probabilities of s = 0..E a client")
    if rows.shape[1] != max_steps + 1:
        worse = "s_k > E is impossible, raise max_steps" if rows.shape[1] > max_steps + 1 else "fill up with zeros"
        raise InvalidInput(
            f"the law {when} gives probabilities of s = 0..{rows.shape[1] - 1} while E = {max_steps}: {worse}"
        )
    return _check_masses(rows, lambda k: f"the law of client {k} {when}")


def clients_of(law: Law) -> int:
    return law.steps.shape[1] if isinstance(law, JointLaw) else law.shape[0]


class Participation(Sampling):
    """A law of cohorts that also says how many local steps each client completes."""

    max_steps: int

    def check_run(self, num_clients: int, rounds: int) -> None:
        """Raise `InvalidInput` when some round of a run of that length is not defined."""
        self.check(num_clients)

    def law(self, round_index: int, exact: bool = False) -> np.ndarray:
        """(N, E + 1) laws of the single clients in that round, floats or Fractions; absent clients have s = 0."""
        raise NotImplementedError

    def round_law(self, round_index: int, exact: bool = False) -> Law | Cohort:
        """The law of that round as `moments.moments` takes it: rows or a `JointLaw` as given, or an enumerated cohort."""
        raise NotImplementedError

    def present_in(self, round_index: int) -> np.ndarray | None:
        """(N,) clients that belong to the federation in that round; None: all."""
        return None

    def enumerate_round(self, round_index: int, num_clients: int, exact: bool = False) -> Cohort:
        """All cohorts of that round with their probabilities (Fractions when exact)."""
        raise NotImplementedError
