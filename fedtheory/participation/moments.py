"""Exact moments of the aggregation coefficients: what EFL's Theorem 1 takes expectations of.

Independent clients need no enumeration: schemes B and C are sums of one client's moments, scheme A needs the law of the number K of
complete clients (Poisson-binomial, by convolution), and E[(sum p - 2)_+ sum p s], the expectation of a product, needs the joint law of
the two sums (`fedtheory.participation.positive_part`). Correlated clients are given by a table (`JointLaw`, or an
enumerated `Cohort`) and summed over it.

Whether E[p_tau^k s^k] / p^k is the same for all k is decided from the law, never from samples, and the weights cancel in it: for
independent clients it is the same iff P(s^k = E) is (A), E[s^k] is (B), P(s^k > 0) is (C), always (corrected C). For A because
E[1_k / K] - E[1_j / K] = (c_k - c_j) E[1 / (1 + number of other complete clients)], with c_k = P(s^k = E).
Laws of Fractions are compared exactly (tables when exact=True).
A law of floats means its numbers up to rounding (1/3; or 0.1 here and 1 - 0.9 there): ratios
within 1e-12 of each other, relatively, count as equal. What that can hide is 1e-12 of Theorem 1's J term, less than a run resolves.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.coefficients import TOLERANCE, Scheme, check_scheme, check_weights, coefficients, theta
from fedtheory.participation.cohorts import Bernoulli, Cohort, Uniform, somebody
from fedtheory.participation.irregular import MAX_ENUMERATED, AsIrregular
from fedtheory.participation.laws import JointLaw, Participation, as_law, check_max_steps, fractions
from fedtheory.participation.positive_part import Overlap, overlap_of_complete, overlap_of_sums

__all__ = ["Moments", "moments", "round_moments"]

RATIO_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of (p_tau^k, s^k) in one round; floats, or Fractions when asked for exactly.

    Attributes
    ----------
    p, ps, p2s : (N,)
        E[p_tau^k], E[p_tau^k s^k], E[(p_tau^k)^2 s^k].
    sum_p, sum_ps : number
        E[sum_k p_tau^k], and S_tau = E[sum_k p_tau^k s^k].
    overlap : number
        E[(sum_k p_tau^k - 2)_+ sum_k p_tau^k s^k], or an upper bound of it (see `overlap_exact`).
    overlap_lower : number
        The same from below; equal to `overlap` where that is exact.
    overlap_exact : bool
        Whether `overlap` is the expectation (up to rounding, for floats) and not a certified upper bound.
    ratio : (N,)
        E[p_tau^k s^k] / p^k, 0 for absent clients.
    ratio_equal : bool
        Whether it is the same for all clients present (Theorem 1's r_tau is then 0).
    theta : number
        theta of Assumption 5 for the scheme.
    """

    scheme: Scheme
    p: np.ndarray
    ps: np.ndarray
    p2s: np.ndarray
    sum_p: Any
    sum_ps: Any
    overlap: Any
    overlap_lower: Any
    overlap_exact: bool
    ratio: np.ndarray
    ratio_equal: bool
    theta: Any


def _same(values: np.ndarray) -> bool:
    """True if all are equal: exactly for Fractions, within the tolerance for floats."""
    low, high = values.min(), values.max()
    return bool(low == high if values.dtype == object else high - low <= RATIO_TOLERANCE * high)


def _weights(weights: Any, present: np.ndarray, exact: bool) -> np.ndarray:
    """Weights in the arithmetic asked for."""
    w = check_weights(weights, present)
    if not exact:
        return w.astype(float)
    if w.dtype == object:
        return w
    everyone = abs(w.sum() - 1) <= TOLERANCE  # floats sum to 1 up to rounding
    w = fractions(w)
    return w / (w if everyone else w[present]).sum()


def moments(
    scheme: Scheme, law: Any, max_steps: int, weights: Any, present: Any = None,
    exact: bool = False,
) -> Moments:
    """Moments of one round's coefficients.

    Parameters
    ----------
    law : (N, E + 1), `JointLaw`, or Cohort from ``enumerate_round``
        Laws of s^k = 0..E of independent clients; or a table of cases.
    weights : (N,)
        p^k > 0, of sum 1 over all clients or over those present.
    present : (N,) of bools or None
        Who belongs to the federation (a cohort says so itself). Absent clients have coefficient 0 and no part in `ratio_equal`; to keep
        a client that has left in the objective, give it a law of s = 0 and leave it present.
    exact : bool
        Take and return Fractions (floats are converted exactly, and divided by their sum).

    Raises
    ------
    InvalidInput
        Laws or weights that are none, a client present but never active for 'C-corrected'; too many values of the sums for exact=True.
    MissingCapability
        A cohort of draws, without probabilities.
    """
    check_scheme(scheme)
    check_max_steps(max_steps)
    if isinstance(law, Cohort):
        if law.probability is None or law.steps is None:
            raise MissingCapability("moments need an enumerated cohort with steps: use enumerate_round, not sample")
        return _of_table(scheme, law.steps, law.probability, max_steps, weights, law.present, exact)
    law = as_law(law, max_steps, "given")
    if isinstance(law, JointLaw):
        return _of_table(scheme, law.steps, law.probability, max_steps, weights, present, exact)
    here = np.ones(len(law), dtype=bool) if present is None else np.asarray(present, dtype=bool)
    _check_sizes(len(law), weights, here)
    return _independent(scheme, law, max_steps, weights, here, exact)


def round_moments(
    scheme: Scheme, sampling: Participation, round_index: int, weights: Any, exact: bool = False
) -> Moments:
    """Moments under a sampling's law of that round; enumerates only where the clients are correlated.

    Raises
    ------
    InvalidInput
        As `moments`; correlated clients with too many cohorts.
    """
    n, big = len(weights), sampling.max_steps
    sampling.check(n)
    if isinstance(sampling, AsIrregular) and sampling.count(n) > (200 if exact else 2000):
        base = sampling.base
        if isinstance(base, Uniform):
            return _uniform(scheme, base.size, big, weights, exact)
        if isinstance(base, Bernoulli):
            p = np.broadcast_to(np.asarray(base.probability, dtype=object), (n,))
            p = fractions(p) if exact else p.astype(float)
            rows = np.zeros((n, big + 1), dtype=p.dtype)
            rows[:, 0], rows[:, -1] = 1 - p, p
            return _independent(scheme, rows, big, weights, np.ones(n, dtype=bool), exact, 1 - (1 - p).prod() if exact else somebody(p))
        if sampling.count(n) > MAX_ENUMERATED:
            raise InvalidInput(
                f"{sampling.count(n)} cohorts of {type(base).__name__}, more than {MAX_ENUMERATED}: use Monte Carlo"
            )
    law = sampling.round_law(round_index, exact)
    return moments(scheme, law, big, weights, sampling.present_in(round_index), exact)


def _check_sizes(num_clients: int, weights: Any, present: np.ndarray) -> None:
    if np.shape(weights) != (num_clients,) or present.shape != (num_clients,):
        raise InvalidInput(
            f"a law for {num_clients} clients, weights of shape {np.shape(weights)}, present of shape {present.shape}: one a client"
        )


def _finish(
    scheme: Scheme, p: np.ndarray, ps: np.ndarray, p2s: np.ndarray, overlap: Overlap,
    weights: np.ndarray, equal: bool, bound: Any,
) -> Moments:
    ratio = np.where(weights == 0, weights, ps / np.where(weights == 0, weights + 1, weights))
    return Moments(scheme, p, ps, p2s, p.sum(), ps.sum(), *overlap, ratio, equal, bound)


# --- independent clients --------------------------------------------------------------------------
def _independent(
    scheme: Scheme, law: np.ndarray, max_steps: int, weights: Any, here: np.ndarray, exact: bool, occupied: Any = 1
) -> Moments:
    """Independent clients; `occupied` < 1: given that somebody is active, an event of that probability.

    Except for B's, which do not vary, all coefficients are 0 where nobody is active: conditioning divides by its probability.
    """
    n, big = int(here.sum()), int(max_steps)
    equal = _ratio_equal(scheme, law[here])
    rows = fractions(law) if exact else law.astype(float)
    rows = rows / rows.sum(axis=1)[:, None]
    rows[~here, 1:] = 0 * rows[0, 0]
    w = _weights(weights, here, exact)
    w = np.where(here, w, w * 0)
    active, complete = rows[:, 1:].sum(axis=1), rows[:, -1]
    bound = theta(scheme, len(w), big, _probability(active / occupied), here)
    s = np.arange(1, big + 1)
    if scheme == "B":
        mean = (rows[:, 1:] * s).sum(axis=1) / occupied
        return _finish(scheme, w, w * mean, w**2 * mean, Overlap.none(exact), w, equal, bound)
    if scheme == "A":
        once, twice = _inverse_counts(complete, exact)
        p = n * w * complete * once / occupied
        p2s = big * n**2 * w**2 * complete * twice / occupied
        overlap = overlap_of_complete(complete[here], w[here], big, exact) / occupied
        return _finish(scheme, p, big * p, p2s, overlap, w, equal, bound)
    v = w * big
    if scheme == "C-corrected":
        v = v * occupied / np.where(here, active, active + 1)
    share = fractions(s) if exact else s.astype(float)
    inverse = (rows[:, 1:] / share).sum(axis=1) / occupied
    overlap = overlap_of_sums(v[here, None] / share, rows[here, 1:], v[here], exact) / occupied
    return _finish(scheme, v * inverse, v * active / occupied, v**2 * inverse, overlap, w, equal, bound)


def _probability(values: np.ndarray) -> np.ndarray:
    """Sums of probabilities, which rounding may have left just above 1."""
    return values if values.dtype == object else np.minimum(values, 1.0)


def _ratio_equal(scheme: Scheme, law: np.ndarray) -> bool:
    """The criterion of the module's docstring, in the arithmetic the law was given in."""
    if scheme == "C-corrected":
        return True
    if scheme == "A":
        return _same(law[:, -1])
    return _same((law * np.arange(law.shape[1])).sum(axis=1) if scheme == "B" else law[:, 1:].sum(axis=1))


def _inverse_counts(complete: np.ndarray, exact: bool) -> tuple[np.ndarray, np.ndarray]:
    """E[1/(1 + K')] and E[1/(1 + K')^2], (N,), K' the number of complete clients other than k.

    Poisson-binomial by convolution, everyone but one; clients with the same probability share their row.
    """
    values, first, which = np.unique(complete, return_index=True, return_inverse=True)
    n, zero = len(complete), complete[0] * 0
    pmf = np.full((len(values), n), zero)
    pmf[:, 0] = zero + 1
    for j in range(n):
        c = np.full((len(values), 1), complete[j])
        c[first == j] = zero
        pmf[:, 1:] = pmf[:, 1:] * (1 - c) + pmf[:, :-1] * c
        pmf[:, :1] = pmf[:, :1] * (1 - c)
    inverse = np.array([Fraction(1, k) for k in range(1, n + 1)], dtype=object)
    inverse = inverse if exact else inverse.astype(float)
    return (pmf * inverse).sum(axis=1)[which], (pmf * inverse**2).sum(axis=1)[which]


def _uniform(scheme: Scheme, size: int, max_steps: int, weights: Any, exact: bool) -> Moments:
    """A cohort of fixed size, drawn uniformly, everybody in it complete: closed forms, all coefficients being w_k times a number."""
    n, here = len(weights), np.ones(len(weights), dtype=bool)
    w: Any = _weights(weights, here, exact)
    share: Any = Fraction(size, n) if exact else size / n
    bound = theta(scheme, n, max_steps, np.full(n, share), here)
    if scheme == "B":
        return _finish(scheme, w, w * max_steps * share, w**2 * max_steps * share, Overlap.none(exact), w, True, bound)
    factor = 1 if scheme == "C" else 1 / share
    p = w * factor * share
    overlap = Overlap.none(exact)  # C: the coefficients sum to at most sum p^k = 1
    if scheme != "C":
        chance = np.full(n, share)
        overlap = overlap_of_complete(chance, w, max_steps, exact, size)
    return _finish(scheme, p, p * max_steps, w**2 * factor**2 * share * max_steps, overlap, w, True, bound)


# --- tables ---------------------------------------------------------------------------------------
def _of_table(
    scheme: Scheme, steps: np.ndarray, mass: np.ndarray, max_steps: int, weights: Any, present: Any, exact: bool
) -> Moments:
    """Sums over the cases of a table, (J, N) steps and (J,) probabilities."""
    here = np.ones(steps.shape[1], dtype=bool) if present is None else np.asarray(present, dtype=bool)
    _check_sizes(steps.shape[1], weights, here)
    w, steps, given = _weights(weights, here, exact), steps * here, mass.dtype == object
    mass = fractions(mass) if exact else mass.astype(float)
    mass = mass / mass.sum()
    active = _probability(((steps > 0) * mass[:, None]).sum(axis=0))
    p = coefficients(scheme, steps, max_steps, w, active, here)
    s = steps.astype(object) if exact else steps
    column = mass[:, None]
    total, work = p.sum(axis=1), (p * s).sum(axis=1)
    value = (np.maximum(total - 2, 0) * work * mass).sum()
    mean = (p * s * column).sum(axis=0)
    ratio = mean[here] / w[here]
    if exact and not given:  # a table of floats: its Fractions are equal up to the floats' rounding
        ratio = ratio.astype(float)
    return _finish(
        scheme, (p * column).sum(axis=0), mean, (p**2 * s * column).sum(axis=0),
        Overlap(value, value, True), np.where(here, w, w * 0),
        scheme == "C-corrected" or _same(ratio), theta(scheme, len(w), max_steps, active, here),
    )
