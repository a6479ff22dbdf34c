"""Aggregation coefficients p_tau^k of clients that complete s^k of E local steps: schemes A, B, C and the corrected C.

EFL (Ma et al. 2021), section 3.2, after Ruan, Zhang, Liang and Joe-Wong (AISTATS 2021), with p^k the objective weights:

    A            N p^k / K of the K complete clients, 0 elsewhere (0 for all when K = 0)
    B            p^k, whatever s^k is
    C            E p^k / s^k, 0 where s^k = 0
    C-corrected  E p^k / (s^k P(s^k > 0)), 0 where s^k = 0: E[p_tau^k s^k] = E p^k, whoever is active how often

A client that has left, or has not come yet, has p_tau^k = 0 and does not count in A's N. Weights may be floats or Fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from fedtheory.arrays import all_true
from fedtheory.errors import InvalidInput, suggest
from fedtheory.participation.cohorts import Cohort
from fedtheory.participation.laws import check_max_steps, fractions, numbers

__all__ = ["SCHEMES", "Scheme", "check_scheme", "check_weights", "coefficients", "theta", "when_complete"]

Scheme = Literal["A", "B", "C", "C-corrected"]
SCHEMES: tuple[str, ...] = get_args(Scheme)
TOLERANCE = 1e-9  # on sums of floats, relative; sums of Fractions must be exact


def check_scheme(scheme: str) -> None:
    """Raise `UnknownName` unless the scheme is one of `SCHEMES`."""
    if not isinstance(scheme, str) or scheme not in SCHEMES:
        raise suggest(str(scheme), SCHEMES, "aggregation scheme")


def check_weights(weights: Any, present: np.ndarray | None = None) -> np.ndarray:
    """The objective weights (N,), float64 or Fractions.

    Raises
    ------
    InvalidInput
        A weight of a present client that is not > 0, any that is < 0, or weights whose sum is not 1, neither over all clients nor over
        those present.
    """
    w = numbers(weights, "the weights")
    if w.ndim != 1 or not len(w):
        raise InvalidInput(f"weights of shape {w.shape}: give one p^k a client")
    here = None if present is None else np.asarray(present, dtype=bool)
    if here is not None and here.shape != w.shape:
        raise InvalidInput(f"present has shape {here.shape} and there are {len(w)} weights: they must agree")
    right = w > 0 if here is None else (w > 0) | (~here & (w == 0))
    if not all_true(right):
        k = int(np.argmin(right))
        raise InvalidInput(f"client {k} has weight p^k = {w[k]}: it must be > 0 (leave out clients that do not count)")
    slack = 0 if w.dtype == object else TOLERANCE
    if not (abs(np.add.reduce(w) - 1) <= slack or (here is not None and abs(w[here].sum() - 1) <= slack)):
        raise InvalidInput(f"the weights p^k sum to {w.sum()}: they must sum to 1, divide them by their sum")
    return w


def _prepare(
    steps: Any, max_steps: int, weights: Any, active_probability: Any, present: Any, corrected: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Steps (S, N), weights (N,), present (N,) (None: all), P(active) (N,) in the weights' arithmetic: all checked."""
    check_max_steps(max_steps)
    s = np.asarray(steps)
    w = check_weights(weights, present)
    here = None if present is None else np.asarray(present, dtype=bool)
    if s.ndim != 2 or s.shape[1] != len(w) or s.dtype.kind not in "iu":
        raise InvalidInput(f"local steps {s.dtype} of shape {s.shape} for {len(w)} weights: give integers (S, N)")
    if s.size and not 0 <= s.item(s.argmin()) <= s.item(s.argmax()) <= max_steps:
        i, k = (int(v) for v in np.argwhere((s < 0) | (s > max_steps))[0])
        raise InvalidInput(
            f"s = {s[i, k]} local steps at client {k}, outside 0..E with E = {max_steps}: lower s or raise E"
        )
    if here is not None and (gone := (s > 0).any(axis=0) & ~here).any():
        raise InvalidInput(
            f"client {int(np.argmax(gone))} is not present and completes local steps: it must have s = 0"
        )
    return s, w, here, _active(active_probability, here, len(w)) if corrected else None


def _active(active_probability: Any, here: np.ndarray | None, num_clients: int) -> np.ndarray:
    """P(s > 0) of the present clients, 1 for the others (who get nothing anyway)."""
    if active_probability is None:
        raise InvalidInput(
            "scheme 'C-corrected' divides by P(s^k > 0): give active_probability (N,), or in a run sample with "
            "fedtheory.participation (as_irregular turns other samplings into one that knows it)"
        )
    a = numbers(active_probability, "the probabilities of being active")
    a = np.broadcast_to(a, (num_clients,)) if a.ndim == 0 else a
    if a.shape != (num_clients,):
        raise InvalidInput(f"{a.shape} probabilities of being active for {num_clients} clients: give one a client")
    here = np.ones(num_clients, dtype=bool) if here is None else here
    never = here & (a == 0)
    if never.any():
        raise InvalidInput(
            f"client {int(np.argmax(never))} is never active (P(s > 0) = 0): the objective of scheme 'C-corrected' is undefined, "
            "its f_k cannot be reweighted into existence; leave the client out, or use scheme 'C' and its biased limit"
        )
    wrong = np.nonzero(here & ~((a > 0) & (a <= 1)))[0]
    if len(wrong):
        raise InvalidInput(f"client {wrong[0]} is active with probability {a[wrong[0]]}: it must lie in (0, 1]")
    return np.where(here, a, np.asarray(a.dtype.type(1) if a.dtype != object else Fraction(1)))


def _divide(numerator: np.ndarray, count: np.ndarray) -> np.ndarray:
    """numerator / count, 0 where the integer count is 0; exact for Fractions."""
    safe = np.maximum(count, 1)
    safe = safe.astype(object) if numerator.dtype == object else safe
    return np.where(count > 0, numerator / safe, numerator * 0)


def coefficients(
    scheme: Scheme, steps: Any, max_steps: int, weights: Any, active_probability: Any = None,
    present: Any = None,
) -> np.ndarray:
    """The coefficients p_tau^k of a scheme: (S, N), Fractions where the weights are.

    Parameters
    ----------
    steps : (S, N) of ints
        s^k, 0..E.
    max_steps : int
        E.
    weights : (N,)
        p^k > 0, of sum 1 over all clients or over those present.
    active_probability : (N,) or None
        P(s^k > 0) in that round, for 'C-corrected'.
    present : (N,) of bools or None
        Who belongs to the federation; None: all.

    Raises
    ------
    InvalidInput
        s^k > E, weights that are none, an absent client with s^k > 0; for 'C-corrected' a client that is never active.
    """
    check_scheme(scheme)
    s, w, here, active = _prepare(steps, max_steps, weights, active_probability, present, scheme == "C-corrected")
    if active is not None and active.dtype != w.dtype:
        active = fractions(active) if w.dtype == object else active.astype(float)
    w = w if here is None else np.where(here, w, w * 0)
    if scheme == "A":
        done = s == max_steps
        count = done.sum(axis=1, keepdims=True)
        present_clients = len(w) if here is None else int(here.sum())
        return _divide(np.where(done, w * present_clients, w * 0), count)
    if scheme == "B":
        return np.broadcast_to(w, s.shape).copy()
    if active is not None:
        w = w / active
    return _divide(np.broadcast_to(w * int(max_steps), s.shape), s)


def when_complete(scheme: Scheme, cohort: Cohort, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """The `coefficients`, and the weights, of all slots (S, P) of a cohort whose clients all take part, and complete E = 1 step."""
    w = cohort.of_each(check_weights(weights))
    if scheme == "A":
        return w * cohort.num_clients / cohort.size()[:, None], w
    if scheme == "C-corrected":
        return w / cohort.of_each(_active(cohort.active_probability, None, cohort.num_clients)), w
    return w, w


def theta(
    scheme: Scheme, num_clients: int, max_steps: int, active_probability: Any = None,
    present: Any = None,
) -> Any:
    """theta of Assumption 5, p_tau^k <= theta p^k whatever happens: A: N; B: 1; C: E; corrected: E / min_k P(s^k > 0).

    N counts those present, and the minimum runs over them. Each is attained when somebody is the only complete client (A), or is active
    with a single step (C, corrected).
    """
    check_scheme(scheme)
    check_max_steps(max_steps)
    here = np.ones(num_clients, dtype=bool) if present is None else np.asarray(present, dtype=bool)
    if scheme == "A":
        return int(here.sum())
    if scheme == "B":
        return 1
    if scheme == "C":
        return int(max_steps)
    return max_steps / _active(active_probability, here, num_clients).min()
