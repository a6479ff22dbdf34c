r"""Monte Carlo that stops when it has decided, and pays for every look.

A verdict is looked for after n_1 < ... < n_K scenarios, each of which holds those before. Look k
may err with probability

    alpha (0.99 ((n_k / n_K)^3 - (n_{k-1} / n_K)^3) + 0.01 / K),

nearly the power family of Kim and DeMets (Design and analysis of group sequential tests based on
the type I error spending rate function, Biometrika 74, 1987, pages 149-154) of the error spending
functions of Lan and DeMets (Discrete sequential boundaries for clinical trials, Biometrika 70,
1983, pages 659-663). The sum over k is alpha. By the union bound the probability that any of the K
looks errs is then at most alpha, however they depend on each other and whenever one stops. So the
first decision of a form stands.

The cube leaves the first looks little: 32 scenarios of 1,000 decide what is clear by more than a
standard deviation, and nothing else. What is close waits for the last look, which has seven eighths
of alpha. The hundredth that all share lets a look decide what is clear also where it is followed by
many.

alpha is that of Student's t, which takes the mean of the scenarios for normal. An event of
probability p that none of n scenarios met is in none of their means: it is missed with probability
(1 - p)^n, and more often by a form that is decided early.

How often a verdict is wrong was simulated (``tests/theory/judge/test_sequential.py``; 3,000 runs of
480 scenarios, three horizons, the mean slack 0): at 98 % in 1.5 % of the runs where slacks are
normal, in 1.4 % where they are uniform, in 3.3 % where they are exponential with the long tail on
the unlucky side. Looks that nobody pays for err in 7.4 % of the runs, of a single horizon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise

from fedtheory.store.resumable import cached_step
from fedtheory.theory.judge.check import Check

__all__ = ["FIRST", "MET", "Judge", "fewest", "in_looks", "looks"]

FIRST = 30  # scenarios below which nothing is looked for, unless no more are asked for
MET = 10  # runs, on average, in which every client takes part before the first look
LEAST_ERROR = 1e-12  # below, a confidence is hardly told from 1 in floats
SHARED = 0.01  # of alpha, by all looks alike

Judge = Callable[[Sequence[str], int, float], Sequence[Check]]


def looks(scenarios: int, confidence: float, least: int = FIRST) -> list[tuple[int, float]]:
    """Scenarios and confidence of each look: of 1,000 scenarios 32, 63, 125, 250, 500 and 1,000, of
    fewer than twice ``least`` all at once. What the looks may err sums up to 1 - ``confidence``;
    one that could only err by `LEAST_ERROR` is left out.
    """
    sizes, alpha = [scenarios], 1 - confidence
    while sizes[0] >= 2 * least and alpha * SHARED / (len(sizes) + 1) >= LEAST_ERROR:
        sizes.insert(0, -(-sizes[0] // 2))
    cubes = pairwise((n / scenarios) ** 3 for n in (0, *sizes))
    shares = [(1 - SHARED) * (now - before) + SHARED / len(sizes) for before, now in cubes]
    return [(n, 1 - alpha * share) for n, share in zip(sizes, shares, strict=True)]


def fewest(participation: float, rounds: int) -> int:
    """Scenarios before the first look, where a client takes part in a round with that probability:
    at least `FIRST`, and so many that it takes part in `MET` of them on average."""
    met = 1 - (1 - min(participation, 1.0)) ** rounds
    return max(FIRST, math.ceil(MET / met - 1e-9)) if met > 0 else FIRST


def in_looks(
    judge: Judge,
    names: Sequence[str],
    scenarios: int,
    confidence: float,
    least: int = FIRST,
    after: Callable[[list[Check]], None] | None = None,
) -> list[Check]:
    """One check a form: the first that decides it, else the last.

    Parameters
    ----------
    judge : callable(names, n, confidence)
        The checks of the forms of these names on the first n scenarios, in that order.
    names : of the forms
    scenarios : the most
    confidence : of the verdict over all looks
    after : called after every look with the checks so far

    A statistical check that is 'inconclusive' is looked at again; no other is, as it does not
    depend on how many scenarios there are.
    """
    found: dict[str, Check] = {}
    for n, each in looks(scenarios, confidence, least):
        open_ = [name for name in names if name not in found or _waits(found[name])]
        made = cached_step(f"look of {n}", lambda: [*map(asdict, judge(open_, n, each))])  # noqa: B023
        for name, check in zip(open_, map(Check.unpacked, made), strict=True):
            found[name] = (
                check if check.confidence is None else replace(check, confidence=confidence)
            )
        if after is not None:
            after([found[name] for name in names])
        if not any(_waits(check) for check in found.values()):
            break
    return [found[name] for name in names]


def _waits(check: Check) -> bool:
    """True if more scenarios may decide it; where one diverged, they do not."""
    return (
        check.verdict == "inconclusive" and check.mode == "statistical"
        and check.scenarios is not None
    )
