"""Clients that are inactive, do part of their local steps, leave and arrive: the laws of s_k, sampled and enumerated.

EFL (Ma et al. 2021), section 4, after Ruan, Zhang, Liang and Joe-Wong (AISTATS 2021): in each round client k completes s_k of at
most E local steps. s_k = 0 is inactive, 0 < s_k < E incomplete, s_k = E complete. Rounds are counted from 1, as in `simulate`;
the paper's tau is round_index - 1.

A law of one round is either (N, E + 1) rows of probabilities of s_k = 0..E, the clients independent of each other, or a `JointLaw`.
Numbers may be floats or Fractions; Fractions stay exact in `law`, `enumerate_round` and the moments.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np

from fedtheory.arrays import is_array, owned, sealed, to_numpy
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import shown
from fedtheory.participation.cohort_laws import AsIrregular, as_irregular
from fedtheory.participation.cohorts import Cohort
from fedtheory.participation.laws import (
    JointLaw,
    Law,
    Participation,
    as_law,
    check_clients,
    check_max_steps,
    clients_of,
    floats,
    fractions,
    numbers,
)
from fedtheory.randomness import Stream

__all__ = [
    "AsIrregular", "Irregular", "JointLaw", "Participation", "as_irregular", "complete", "inactive", "incomplete", "joint_law",
    "windows",
]  # fmt: skip

MAX_ENUMERATED = 300_000


@dataclass(frozen=True, eq=False)
class Irregular(Participation):
    """Each client completes s_k of at most E local steps, drawn anew each round.

    Parameters
    ----------
    max_steps : int >= 1
        E.
    laws : (N, E + 1) array, `JointLaw`, list of these, or callable(round_index) -> one of these
        Probabilities of s_k = 0..E. A list is gone through round by round and then repeated. A callable must give the same law
        whenever it is asked for the same round, and be a module's function if a run uses several processes.
    present : N pairs (arrival, departure), or None
        First round in which a client is there, and first round in which it is gone; None for "from the start" and "never".

    Notes
    -----
    s_k >= e exactly where the client's uniform number is below P(s_k >= e). The numbers are those that `Bernoulli` uses, so that laws
    are paired with each other too: whoever is active under a law is active under each law that makes it more probable.

    Raises
    ------
    InvalidInput
        Rows that are no probabilities, s_k > E, laws of different N, a client that is never active while it is there, windows that
        are empty or leave a round without any client.
    """

    max_steps: int
    laws: Any
    present: Sequence[tuple[int | None, int | None]] | None = None

    def __post_init__(self) -> None:
        check_max_steps(self.max_steps)
        if not callable(self.laws):
            object.__setattr__(self, "laws", _as_given(self.laws))
            sizes = {clients_of(law) for law in self._period}
            if len(sizes) != 1:
                raise InvalidInput(f"laws for {sorted(sizes)} clients in one list: all rounds need the same N")
        if self.present is not None:
            self._check_windows()
            object.__setattr__(self, "present", tuple(tuple(window) for window in self.present))
        if not callable(self.laws):
            self._check_active()

    @cached_property
    def _period(self) -> list[Law]:
        laws = self.laws
        joint = isinstance(laws, list | tuple) and any(isinstance(law, JointLaw) for law in laws)
        if joint or _depth(laws) == 3:
            return [as_law(law, self.max_steps, f"of round {t}") for t, law in enumerate(laws, start=1)]
        return [as_law(laws, self.max_steps, "of every round")]

    @cached_property
    def _windows(self) -> tuple[np.ndarray, np.ndarray]:
        """(N,) first round there and first round gone (infinite: never)."""
        windows = cast(Sequence[tuple[int | None, int | None]], self.present)
        first = np.array([1.0 if a is None else float(a) for a, _ in windows])
        gone = np.array([math.inf if d is None else float(d) for _, d in windows])
        return sealed((first, gone))

    def _check_windows(self) -> None:
        if not isinstance(self.present, Sequence | np.ndarray):
            raise InvalidInput(f"present is {shown(self.present)}: give a window (arrival, departure) for each client, or None")
        for k, window in enumerate(self.present):
            pair = isinstance(window, tuple | list | np.ndarray) and len(window) == 2
            if not pair or any(v is not None and not isinstance(v, int | np.integer) for v in window):
                raise InvalidInput(f"window {window!r} of client {k}: give (arrival, departure), rounds or None")
        clients = None if callable(self.laws) else clients_of(self._period[0])
        if clients is not None and len(self.present) != clients:
            raise InvalidInput(f"{len(self.present)} windows and laws for {clients} clients: give one a client")
        first, gone = self._windows
        for k in map(int, np.nonzero(first < 1)[0]):
            raise InvalidInput(f"client {k} arrives in round {int(first[k])}: rounds are counted from 1")
        for k in map(int, np.nonzero(gone <= first)[0]):
            raise InvalidInput(
                f"client {k} arrives in round {int(first[k])} and is gone from round {int(gone[k])}: departure must come after arrival"
            )
        for t in sorted({1, *gone[np.isfinite(gone)]}):  # the only rounds in which somebody may be the last to be missed
            if not ((first <= t) & (t < gone)).any() and (first > t).any():
                raise InvalidInput(f"no client is there in round {int(t)}: move a window so that somebody is")

    def _check_active(self) -> None:
        """Nobody may be inactive for sure in every round it is there."""
        active = np.array([self._marginals(law)[:, 0] != 1 for law in self._period])  # (T, N)
        first, gone = (np.ones(active.shape[1]), np.inf) if self.present is None else self._windows
        round_of = first + np.arange(len(active))[:, None]  # one period from its arrival
        there = round_of < gone
        slot = (round_of.astype(int) - 1) % len(active)
        never = ~(np.take_along_axis(active, slot, axis=0) & there).any(axis=0)
        for k in np.nonzero(never)[0]:
            raise InvalidInput(
                f"client {k} is never active (P(s = 0) = 1 in every round it is there): its f_k would be in the objective and never "
                "be seen; leave it out, or give it a positive probability"
            )

    # --- what holds in a round --------------------------------------------------------------------
    def _raw(self, round_index: int) -> Law:
        """The law of a round, before windows."""
        if round_index < 1:
            raise InvalidInput(f"round {round_index}: rounds are counted from 1")
        if not callable(self.laws):
            return self._period[(round_index - 1) % len(self._period)]
        return as_law(self.laws(round_index), self.max_steps, f"of round {round_index}")

    def _marginals(self, law: Law) -> np.ndarray:
        return law.marginals(self.max_steps) if isinstance(law, JointLaw) else law

    def _round(self, round_index: int) -> tuple[Law, np.ndarray | None]:
        """The law of a round, absent clients at s = 0, and who is present."""
        law, present = self._raw(round_index), self.present_in(round_index)
        if present is None:
            return law, None
        if len(present) != clients_of(law):
            raise InvalidInput(f"{len(present)} windows and a law for {clients_of(law)} clients in round {round_index}")
        if isinstance(law, JointLaw):
            return JointLaw(law.steps * present, law.probability), present
        absent = numbers([Fraction(1)] + [Fraction(0)] * self.max_steps, "absence")
        return np.where(present[:, None], law, absent.astype(law.dtype)), present

    def present_in(self, round_index: int) -> np.ndarray | None:
        if self.present is None:
            return None
        first, gone = self._windows
        present = (first <= round_index) & (round_index < gone)
        if not present.any():
            raise InvalidInput(f"every client is gone in round {round_index}: end the run before, or move a departure")
        return present

    def law(self, round_index: int, exact: bool = False) -> np.ndarray:
        rows = self._marginals(self._round(round_index)[0])
        if not exact:
            return floats(rows)
        rows = fractions(rows)
        return rows / rows.sum(axis=1)[:, None]  # floats of sum 1 + rounding

    def round_law(self, round_index: int, exact: bool = False) -> Law:
        return self._round(round_index)[0]

    @property
    def stationary(self) -> bool:
        """True if all rounds are known to have one law."""
        return self.present is None and not callable(self.laws) and len(self._period) == 1

    # --- sampling ---------------------------------------------------------------------------------
    def check(self, num_clients: int) -> None:
        check_clients(num_clients)
        law = self._raw(1)
        if clients_of(law) != num_clients:
            raise InvalidInput(f"a law for {clients_of(law)} clients and a problem with N = {num_clients}: give one row a client")
        if self.present is not None and len(self.present) != num_clients:
            raise InvalidInput(f"{len(self.present)} windows for N = {num_clients} clients: give one a client")

    def check_run(self, num_clients: int, rounds: int) -> None:
        """Also: windows outside the run, rounds in which nobody is there, every law of a callable."""
        self.check(num_clients)
        if self.present is not None:
            first, gone = self._windows
            for k in np.nonzero(first > rounds)[0]:
                raise InvalidInput(f"client {k} arrives in round {int(first[k])} of a run of {rounds}: make the run longer")
            for k in np.nonzero(np.isfinite(gone) & (gone > rounds + 1))[0]:
                raise InvalidInput(
                    f"client {k} is gone from round {int(gone[k])} of a run of {rounds}: make the run longer, or use None (never)"
                )
            self.present_in(rounds)  # gaps before the last departure were refused already
        if callable(self.laws):
            for t in range(1, rounds + 1):
                if clients_of(self._raw(t)) != num_clients:
                    raise InvalidInput(
                        f"the law of round {t} is for {clients_of(self._raw(t))} clients, not N = {num_clients}"
                    )

    def sample(self, stream: Stream, round_index: int, scenarios: range, num_clients: int) -> Cohort:
        """Draw each client's s_k once a scenario."""
        law, present = self._round(round_index)
        if clients_of(law) != num_clients:
            self.check(num_clients)
        rows = floats(self._marginals(law))
        if isinstance(law, JointLaw):
            u = stream.per_scenario(lambda g, s: g.random(s), "joint-cohort", scenarios, round_index)
            mass = floats(law.probability)
            cdf = np.cumsum(mass)
            cdf[np.nonzero(mass)[0][-1] :] = np.inf  # rounding must not leave u above the last case
            steps = law.steps[np.searchsorted(cdf, u, side="right")]
        else:
            u = stream.per_scenario(lambda g, s: g.random((s, num_clients)), "cohort", scenarios, round_index)
            steps = _inverse(u, rows)
        return Cohort(
            num_clients, mask=steps > 0, steps=steps, max_steps=self.max_steps,
            active_probability=1 - rows[:, 0], present=present,
        )

    # --- enumeration ------------------------------------------------------------------------------
    def count(self, num_clients: int, round_index: int = 1) -> int:
        self.check(num_clients)
        law, _ = self._round(round_index)
        if isinstance(law, JointLaw):
            return int(np.count_nonzero(law.probability))
        return math.prod(int(c) for c in (law > 0).sum(axis=1))

    def enumerate(self, num_clients: int) -> Cohort:
        if not self.stationary:
            raise MissingCapability("the law changes from round to round: use enumerate_round(round_index, num_clients)")
        return self.enumerate_round(1, num_clients)

    def enumerate_round(self, round_index: int, num_clients: int, exact: bool = False) -> Cohort:
        count = self.count(num_clients, round_index)
        if count > MAX_ENUMERATED:
            raise InvalidInput(
                f"round {round_index} has {count} possible cohorts, more than {MAX_ENUMERATED}: use Monte Carlo, "
                "or fedtheory.participation.moments, which need no enumeration"
            )
        law, present = self._round(round_index)
        rows = self.law(round_index, exact)
        if isinstance(law, JointLaw):
            mass = fractions(law.probability) if exact else floats(law.probability)
            keep = mass > 0
            steps, mass = law.steps[keep], mass[keep] / mass.sum()
        else:
            levels = [np.nonzero(row > 0)[0] for row in rows]
            steps = np.array(list(itertools.product(*levels)))
            mass = rows[np.arange(num_clients), steps].prod(axis=1)
        return Cohort(
            num_clients, mask=steps > 0, probability=mass, steps=steps, max_steps=self.max_steps,
            active_probability=1 - rows[:, 0], present=present,
        )


def _as_given(laws: Any) -> Any:
    """The laws as they are now: read-only arrays, in tuples where they came in lists."""
    if isinstance(laws, list | tuple):
        return tuple(map(_as_given, laws))
    return owned(to_numpy(laws)) if is_array(laws) else laws


def _depth(values: Any) -> int:
    """Number of axes, of ragged lists too, which NumPy refuses to count."""
    return np.ndim(values) if not isinstance(values, list | tuple) else 1 + (_depth(values[0]) if len(values) else 0)


def _inverse(u: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """s_k = #{e >= 1 : u < P(s_k >= e)}: (S, N) uniforms, (N, E + 1) laws."""
    tail = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1]
    tail[np.cumsum(rows, axis=1) - rows == 0] = np.inf  # nothing below e: certain, whatever rounding made of the sum
    steps = np.zeros(u.shape, dtype=np.int64)
    e, last = 1, rows.shape[1] - 1
    while e <= last:  # levels no client ever stops at are taken at once
        upto = e
        while upto < last and not rows[:, upto].any():
            upto += 1
        steps += np.where(u < tail[:, e], upto - e + 1, 0)
        e = upto + 1
    return steps


def joint_law(sampling: Participation, round_index: int) -> JointLaw | None:
    """The table of a round whose clients depend on each other, of an `Irregular`; None elsewhere."""
    law = sampling.round_law(round_index) if isinstance(sampling, Irregular) else None
    return law if isinstance(law, JointLaw) else None


# --- the regimes by name --------------------------------------------------------------------------
def complete(num_clients: int, max_steps: int) -> Irregular:
    """Everybody completes E local steps in every round."""
    return incomplete(
        num_clients, max_steps, [0] * max_steps + [1] if isinstance(max_steps, int) and max_steps > 0 else [1]
    )


def incomplete(num_clients: int, max_steps: int, law: Any) -> Irregular:
    """Any law of s on 0..E: one row (E + 1,) for all clients, or (N, E + 1).

    Raises
    ------
    InvalidInput
        Another shape; entries that are no probabilities, or rows that do not sum to 1.
    """
    check_clients(num_clients)
    check_max_steps(max_steps)
    rows = numbers(law, "the law")
    rows = np.tile(rows, (num_clients, 1)) if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[0] != num_clients:
        raise InvalidInput(f"a law of shape {rows.shape} for N = {num_clients} clients: give (E + 1,) or (N, E + 1)")
    return Irregular(max_steps, rows)


@dataclass(frozen=True)
class _Inactive:
    """Laws of clients that are inactive with a probability that changes; a class, so that it can be sent to processes."""

    num_clients: int
    max_steps: int
    probability: Callable[[int], Any]

    def __call__(self, round_index: int) -> np.ndarray:
        return _inactive_rows(self.num_clients, self.max_steps, self.probability(round_index))


def _inactive_rows(num_clients: int, max_steps: int, probability: Any) -> np.ndarray:
    y = numbers(probability, "the probabilities of being inactive")
    if y.shape not in ((), (num_clients,)):
        raise InvalidInput(f"{y.shape} probabilities for N = {num_clients} clients: give one number, or one a client")
    y = np.broadcast_to(y, (num_clients,))
    bad = np.nonzero(~((y >= 0) & (y <= 1)))[0]
    if len(bad):
        raise InvalidInput(f"client {bad[0]} is inactive with probability {y[bad[0]]}: it must lie in [0, 1]")
    rows = np.zeros((num_clients, max_steps + 1), dtype=y.dtype)
    rows[:, 0], rows[:, max_steps] = y, 1 - y
    return rows


def inactive(num_clients: int, max_steps: int, probability: Any) -> Irregular:
    """Each client is inactive with its own probability y_k, independently; otherwise it completes E steps.

    Parameters
    ----------
    probability : number, (N,), (T, N), or callable(round_index) -> number or (N,)
        y_k; (T, N) is gone through round by round and then repeated.
    """
    check_clients(num_clients)
    check_max_steps(max_steps)
    if callable(probability):
        return Irregular(max_steps, _Inactive(num_clients, max_steps, probability))
    if np.ndim(probability) == 2:
        return Irregular(max_steps, [_inactive_rows(num_clients, max_steps, y) for y in probability])
    return Irregular(max_steps, _inactive_rows(num_clients, max_steps, probability))


def windows(base: Irregular, stay: Mapping[int, tuple[int | None, int | None]]) -> Irregular:
    """The same law, with clients that arrive or leave mid-run.

    Parameters
    ----------
    stay : {client: (arrival, departure)}
        First round in which it is there, first round in which it is gone, None for "from the start" and "never".

    Raises
    ------
    InvalidInput
        A law of another kind than `Irregular`, or no mapping of windows; a client that the law has not; a departure that does not come
        after the arrival; a round in which nobody is there.
    """
    if not isinstance(base, Irregular):
        raise InvalidInput(f"windows go with a law of the local steps, not with {shown(base)}: give an Irregular, as complete(N, E)")
    if not isinstance(stay, Mapping):
        raise InvalidInput(f"windows are {shown(stay)}: give a mapping {{client: (arrival, departure)}}, None for never")
    clients = clients_of(base._raw(1))
    for k in stay:
        if not isinstance(k, int | np.integer) or not 0 <= k < clients:
            raise InvalidInput(f"a window for client {k!r}: clients are numbered 0..{clients - 1}")
    return replace(base, present=tuple(stay.get(k, (None, None)) for k in range(clients)))
