"""Assertions about how fast a gap falls: as a power of the round, or by a factor in every round."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_unit, real_array, real_number
from fedtheory.rates.contractions import Contraction, fit_contraction
from fedtheory.rates.fits import NOT_POSITIVE, Slope, check_window, fit_rate, fit_slope, prefer
from fedtheory.testing.diagnosis import SHORT, levels_off, precision, short_window
from fedtheory.testing.failure import check_diverged, fail, picturing

__all__ = ["assert_contraction", "assert_rate"]

OPTIONS = {"first_round", "floor", "floor_multiple", "max_points", "schedule", "seed"}
KINDS = {
    "equal": "equal to",
    "at least as fast": "at most (decaying at least as fast as)",
    "at least as slow": "at least (decaying no faster than)",
}
Kind = Literal["equal", "at least as fast", "at least as slow"]
NAME_THE_FLOOR = "end the window before the gaps reach the precision of F*, or name that precision: optimum=..., floor=..."
WELL = 0.04  # of the range of log gap: a law that leaves less fits
LEVEL_ALL = 0.05  # of log values: what changes by less over a whole window has not moved
BENDS = 2.0  # how much better the other law must fit for a failure to say that it is the other law


def assert_rate(
    values: Any, claimed: float, *, window: tuple[float, float] | None = None,
    confidence: float = 0.95, tolerance: float = 0.25, kind: Kind = "equal",
    against: float | None = None, x: Any = None, optimum: Any = None, **options: Any,
) -> Slope:
    """Assert that values decay like x**claimed on the window.

    An equivalence test: the whole confidence interval of the fitted exponent must lie within
    claimed +- tolerance (for the one-sided kinds: on the right side of claimed +- tolerance).

    Parameters
    ----------
    values : (n,) or (n, seeds)
        Gaps F(x_t) - F*, from ``problem.objective`` (``client_losses`` has one number a client, and
        no seeds); entry 0 belongs to round 0 (the start) unless `x` or ``first_round`` says
        otherwise.
    claimed : float
        The exponent: -1 for O(1/T), -0.5 for O(1/sqrt(T)).
    window : (low, high)
        Rounds (or values of x) the claim is about; it must be named.
    tolerance : float > 0
        What separates the claim from others; the default is a quarter of the way from 1/T to 1/T^2.
    kind : 'equal', 'at least as fast' (an upper bound's claim) or 'at least as slow' (a lower
        bound's)
    against : float
        A wrong exponent that must also be rejected by a one-sided t-test at level 1 - confidence.
    x : (n,)
        Abscissae other than the round, for example epsilons.
    optimum : with ``value`` and ``lower_bound``
        Sets the precision floor of the gaps.
    options : passed on to `fedtheory.rates.fit_slope` (schedule, floor, floor_multiple, max_points,
        seed)

    Raises
    ------
    AssertionError
        The rate is contradicted, the data cannot tell, or the run diverged: a value is NaN or
        infinite. With `x`, +inf stands for what is never reached, and is left out.
    InvalidInput
        Too few points, bad arguments.

    Notes
    -----
    A rate is a property of a curve, and many wrong methods have the right one. FedDyn whose control
    variates are never updated is FedProx: as long as its gap is above the bias that it ends with,
    it falls like a sound method, and a rate test of a window before that passes, as does a loose
    bound. Assert `assert_reaches` down to the certified optimum, the method's own theorem
    (`assert_statement`) over rounds enough for its bound to fall below such a bias, and one round
    by itself.

    Other laws are not rejected as such. Where the values fall by less than a factor of ten over the
    window, a geometric curve lies within the default tolerance of a power, and passes as one,
    however long the window; let them fall by a hundred, or see that `assert_contraction` fails.

    Examples
    --------
    >>> import numpy as np
    >>> from fedtheory.testing import assert_rate
    >>> gaps = 3 / np.arange(1, 1001)  # rounds 1 to 1000
    >>> print(assert_rate(gaps, -1, window=(10, 1000), first_round=1, against=-0.5))
    slope -1.000 in [-1.000, -1.000] (95%, t on residuals, 12 points, window 10 to 1000; schedule: not stated)
    >>> assert_rate(np.sqrt(gaps), -1, window=(10, 1000), first_round=1)
    Traceback (most recent call last):
    ...
    fedtheory.testing.ConvergenceFailure: Rate contradicted.
      claimed:  exponent equal to -1, tolerance 0.25: allowed [-1.25, -0.75]
      measured: slope -0.500 in [-0.500, -0.500] (95%, t on residuals, 12 points, window 10 to 1000; schedule: not stated)
      What to do: the values decay slower than claimed: check the claim, the step sizes (not stated) and that the window lies in the ...
    """
    __tracebackhide__ = True
    _check_kind(kind)
    window = _named(window, "window=(10, 1000)")
    claimed, tolerance = real_number("claimed", claimed), real_number("tolerance", tolerance, above=0)
    confidence = check_unit("confidence", confidence)
    against = None if against is None else real_number("against", against)
    _check_options(options)
    values = real_array("values", values, finite=False)
    first = options.get("first_round", 0)
    abscissae = np.arange(len(values)) + first if x is None and values.ndim else x
    evidence = _evidence("rate", abscissae, values, window, claimed)
    if values.ndim in (1, 2):
        axes = ("entry" if x is not None or first else "round", "seed")[: values.ndim]
        check_diverged("values", values, axes, f"claimed:  exponent {KINDS[kind]} {claimed:g}", x is not None, evidence)
    _check_covered(check_window(window), abscissae, True if x is not None else 0 < first)
    if x is not None and optimum is not None:
        raise InvalidInput("optimum sets the floor of gaps against rounds; with x, give floor=... in the unit of the values")
    with picturing(evidence):
        if x is None:
            found = fit_rate(values, window=window, optimum=optimum, confidence=confidence, **options)
        else:
            found = fit_slope(x, values, window=window, confidence=confidence, **options)
    _judge_rate(found, claimed, tolerance, kind, against, confidence, evidence | {"fit": (found.slope, found.intercept)})
    return found


def _check_kind(kind: Any) -> None:
    if kind not in KINDS:
        raise InvalidInput(f"kind = {kind!r}: use one of {', '.join(repr(k) for k in KINDS)}")


def _named(window: tuple[float, float] | None, example: str) -> tuple[float, float]:
    if window is None:
        raise InvalidInput(
            f"no window was given. Say which rounds the claim is about, as {example}: after the "
            "first rounds have died away, and before the gaps reach the precision of F*"
        )
    return window


def _check_options(options: dict[str, Any]) -> None:
    if unknown := set(options) - OPTIONS:
        raise InvalidInput(f"{sorted(unknown)[0]} is no option: known are {', '.join(sorted(OPTIONS))}")


def _evidence(kind: str, x: Any, values: np.ndarray, window: Any, claimed: float) -> dict[str, Any]:
    """Return what a figure of the failure is drawn from."""
    return {"kind": kind, "x": np.asarray(x), "values": values, "window": window, "claimed": claimed}


def _judge_rate(
    found: Slope, claimed: float, tolerance: float, kind: str, against: float | None, confidence: float, evidence: dict[str, Any]
) -> None:
    """Raise `AssertionError` unless the interval lies within what is claimed, and tells it apart from `against`."""
    __tracebackhide__ = True
    low = -np.inf if kind == "at least as fast" else claimed - tolerance
    high = np.inf if kind == "at least as slow" else claimed + tolerance
    lines = [
        f"claimed:  exponent {KINDS[kind]} {claimed:g}, tolerance {tolerance:g}: allowed [{low:g}, {high:g}]",
        f"measured: {found}",
    ]
    if kind != "at least as fast" and any(text.endswith(NOT_POSITIVE) for text in found.excluded):
        fail("Rate inconclusive: not all values of the window are positive.", lines, NAME_THE_FLOOR, evidence)
    if not (low <= found.low and found.high <= high):
        why = _why(found, claimed)
        lines += [f"why:      {text}" for text in why]
        if found.high < low or found.low > high:
            side = "decay slower than claimed" if found.low > high else "decay faster than claimed"
            if found.low > max(high, 0):
                side = "grow, where a decay is claimed" if claimed < 0 else "grow faster than claimed"
            hint = (
                f"the values {side}: check the claim, the step sizes ({found.schedule}) and that the window lies "
                "in the regime the claim is about (not in the first rounds, not at the precision floor)"
            )
            fail("Rate contradicted.", lines, hint, evidence)
        if short := short_window(float(found.x[0]), float(found.x[-1])):
            lines.append(f"why:      {short}")
        fail("Rate inconclusive: the interval does not lie within what is allowed, nor outside.", lines, _narrow(found), evidence)
    if against is not None:
        choice = prefer(found, claimed, against, level=1 - confidence)
        if choice.verdict != "claimed":
            lines.append(f"against:  exponent {against:g} has p = {choice.p_other:.3g}, needed at most {1 - confidence:.3g}")
            if short := short_window(float(found.x[0]), float(found.x[-1])):
                lines.append(f"why:      {short}")
            fail("Rate not told apart from the other exponent.", lines, _narrow(found), evidence)


def _why(found: Slope, claimed: float) -> list[str]:
    """Say why the curve is no such power: growth, a level, a geometric rate."""
    u, v = np.log(found.x), np.log(found.y)
    if found.low > 0 and v[-1] - v[0] > math.log(2):
        return [f"the values grow, by a factor of {math.exp(v[-1] - v[0]):.3g} over the window: the run diverges"]
    if claimed < 0 and np.ptp(v) < LEVEL_ALL and found.x[-1] >= SHORT * found.x[0]:
        level = float(np.exp(np.median(v)))
        return [f"the values are level at about {level:.3g} over the whole window: nothing moves there, or {precision(1.0, 1.0)}"]
    at = levels_off(u, v)
    if at is not None:
        level = float(np.exp(np.median(v[at:])))
        return [f"the values level off at about {level:.3g} from x = {found.x[at]:g} on: {precision(float(found.y[0]), level)}"]
    line = np.polyfit(found.x, v, 1)
    residual = float(np.sqrt(np.mean((v - np.polyval(line, found.x)) ** 2)))
    if line[0] < 0 and BENDS * residual < found.residual:
        return [f"the curve bends: a geometric rate of factor {math.exp(line[0]):.4g} fits it better; claim it by assert_contraction"]
    terms = np.column_stack([found.x**claimed, np.ones_like(found.x)]) / found.y[:, None]  # a power and a level, relative to the values
    (factor, level), *_ = np.linalg.lstsq(terms, np.ones_like(found.y), rcond=None)
    left = float(np.sqrt(np.mean((terms @ [factor, level] - 1) ** 2)))
    if claimed < 0 and factor > 0 and level > 0.1 * found.y[-1] and BENDS * left < found.residual:
        return [f"the curve bends towards a level of about {level:.3g}: {precision(float(found.y[0]), float(level))}"]
    return []


def _check_covered(window: tuple[float, float], x: Any, from_below: bool) -> None:
    """Raise where the data end before the window does, or begin after it does; a tenth is left for
    rounds that were not recorded."""
    low, high = window
    x = real_array("x", x)
    x = x[x > 0] if x.ndim == 1 else x
    if x.ndim != 1 or x.size == 0:
        return  # told by the fit
    if np.isfinite(high) and x.max() < 0.9 * high:
        raise InvalidInput(
            f"the window ends at {high:g}, the data at {x.max():g}: nothing is shown beyond; end the window there (math.inf: with the "
            "data), or run longer; where the data are longer, hand over rounds first: (n,) or (n, seeds)"
        )
    if from_below and x.min() > 1.1 * low:
        raise InvalidInput(f"the window begins at {low:g}, the data at {x.min():g}: begin the window there, or give earlier points")


def _narrow(found: Slope | Contraction) -> str:
    if found.residual > 0.1:
        return f"the points scatter by {found.residual:.0%} about the line: more seeds, or a window where the curve is straight"
    return "a longer window, more seeds, or an optimum certified to a smaller gap make the interval shorter"


def assert_contraction(
    values: Any, claimed: float, *, window: tuple[float, float] | None = None,
    confidence: float = 0.95, tolerance: float = 0.1, kind: Kind = "equal",
    against: float | None = None, optimum: Any = None, **options: Any,
) -> Contraction:
    """Assert a geometric rate: that values fall by the factor ``claimed`` in every round of the
    window.

    An equivalence test: the whole confidence interval of the fitted factor must lie between
    claimed**(1 + tolerance) and claimed**(1 - tolerance), so that tolerance is a share of the
    rounds that a digit costs. For 'equal' and 'at least as fast' a power law must be rejected on
    the same points, too, and both halves of the window must agree with the claim: a curve that
    bends is none. ("Contraction" and not "linear rate", as the number claimed is the factor, and
    1/T is linear to some.)

    A power law that scatters by a percent still passes about as often as 1 - confidence allows. Of
    one curve the interval takes what it scatters in one round as independent of the round before;
    several seeds need no such thing (`fedtheory.rates.fit_contraction`).

    Parameters
    ----------
    values : (rounds + 1,) or (rounds + 1, seeds)
        Gaps, or squared distances, as of `assert_rate`.
    claimed : float in (0, 1)
        The factor a round; 1 - 1/kappa for gradient descent on squared distances, say.
    window : (low, high)
        Rounds; low may be 0. It must be named.
    tolerance : float in (0, 1)
        Share of log(claimed).
    kind : 'equal', 'at least as fast' (an upper bound's claim) or 'at least as slow' (a lower
        bound's)
    against : float in (0, 1]
        A wrong factor that the interval must exclude; 1 for 'no progress at all'.
    optimum : with ``value`` and ``lower_bound``
        Sets the precision floor of the gaps.
    options : passed on to `fedtheory.rates.fit_contraction` (schedule, floor, floor_multiple,
        first_round, max_points, seed)

    Raises
    ------
    AssertionError
        'diverged', 'contradicted', 'no geometric rate' (a power law, a level, a bend), or
        'inconclusive'.
    InvalidInput
        Too few rounds in the window, bad arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from fedtheory.testing import assert_contraction
    >>> print(assert_contraction(np.power(0.9, np.arange(101)), 0.9, window=(0, 100)))
    factor 0.9 in [0.9, 0.9] (95%, t on residuals, 24 points, window 0 to 100; schedule: not stated)
    >>> assert_contraction(1 / np.arange(1, 101), 0.9, window=(10, 100), first_round=1)
    Traceback (most recent call last):
    ...
    fedtheory.testing.ConvergenceFailure: No geometric rate: the curve is a power law.
      ...
    """
    __tracebackhide__ = True
    _check_kind(kind)
    window = _named(window, "window=(0, 100)")
    claimed = real_number("claimed", claimed, above=0, below=1)
    tolerance, confidence = real_number("tolerance", tolerance, above=0, below=1), check_unit("confidence", confidence)
    against = None if against is None else real_number("against", against, above=0, most=1)
    _check_options(options)
    values = real_array("values", values, finite=False)
    first = options.get("first_round", 0)
    evidence = _evidence("contraction", np.arange(len(values) if values.ndim else 0) + first, values, window, claimed)
    if values.ndim in (1, 2):
        axes = ("entry" if first else "round", "seed")[: values.ndim]
        check_diverged("values", values, axes, f"claimed:  factor {KINDS[kind]} {claimed:g} a round", evidence=evidence)
        _check_covered(check_window(window, rounds=True), np.arange(len(values)) + first, 0 < first)
    with picturing(evidence):
        found = fit_contraction(values, window=window, optimum=optimum, confidence=confidence, **options)
    evidence |= {"fit": (found.rate, found.intercept)}
    _judge_contraction(found, claimed, tolerance, kind, confidence, evidence)
    if against is not None and found.low <= against <= found.high:
        lines = [f"measured: {found}", f"against:  factor {against:g} lies in the interval"]
        fail("Rate not told apart from the other factor.", lines, _narrow(found), evidence)
    return found


def _judge_contraction(
    found: Contraction, claimed: float, tolerance: float, kind: str, confidence: float, evidence: dict[str, Any]
) -> None:
    """Raise `AssertionError` unless the curve is geometric, and its factor what is claimed."""
    __tracebackhide__ = True
    low = 0.0 if kind == "at least as fast" else claimed ** (1 + tolerance)
    high = np.inf if kind == "at least as slow" else claimed ** (1 - tolerance)
    lines = [
        f"claimed:  factor {KINDS[kind]} {claimed:g} a round, tolerance {tolerance:g}: allowed [{low:.6g}, {high:.6g}]",
        f"measured: {found}",
        f"halves:   factor {found.halves[0]:.6g} in the first half of the window, {found.halves[1]:.6g} in the second",
    ]
    if any(text.endswith(NOT_POSITIVE) for text in found.excluded) and kind != "at least as fast":
        fail("Rate inconclusive: not all values of the window are positive.", lines, NAME_THE_FLOOR, evidence)
    if found.low > 1:
        grown = float(found.y[-1] / found.y[0])
        lines.append(f"why:      the values grow, by a factor of {grown:.3g} over the window: the run diverges")
        fail("Rate contradicted.", lines, f"lower the step size ({found.schedule}), and check signs in the update", evidence)
    if kind != "at least as slow":
        _check_straight(found, lines, confidence, claimed, tolerance, kind, evidence)
    if not (low <= found.low and found.high <= high):
        if found.high < low or found.low > high:
            side = "slower" if found.low > high else "faster"
            hint = (
                f"the values fall {side} than claimed: check the claim (of gaps or of squared distances? a round or a local step?), "
                f"the step sizes ({found.schedule}), and that the window lies behind the first rounds and before the precision floor"
            )
            fail("Rate contradicted.", lines, hint, evidence)
        fail("Rate inconclusive: the interval does not lie within what is allowed, nor outside.", lines, _narrow(found), evidence)


def _check_straight(
    found: Contraction, lines: list[str], confidence: float, claimed: float, tolerance: float, kind: str, evidence: dict[str, Any]
) -> None:
    """Raise `AssertionError` where log gap against the round is no straight line, or is not shown to be one."""
    __tracebackhide__ = True
    v = np.log(found.y)
    power = f"a power law x**{found.power:.3g} leaves {found.power_residual:.2g} of log gap, the factor {found.residual:.2g}"
    rejected = found.p_power <= 1 - confidence
    if not rejected and BENDS * found.power_residual < found.residual and found.power_residual < WELL * float(np.ptp(v)):
        hint = "claim the power by assert_rate; where a factor is proved, check the step sizes and the strong convexity it rests on"
        fail("No geometric rate: the curve is a power law.", [*lines, f"why:      {power}"], hint, evidence)
    at = levels_off(found.x, v)
    if at is not None:
        level = float(np.exp(np.median(v[at:])))
        text = f"the values level off at about {level:.3g} from round {found.x[at]:g} on"
        fail("No geometric rate: the curve levels off.", [*lines, f"why:      {text}"], precision(float(found.y[0]), level), evidence)
    first, second = (math.log(h) for h in found.halves)
    share = tolerance * abs(math.log(claimed))
    bends = second - first > 2 * share if kind == "at least as fast" else abs(second - first) > 2 * share
    if bends and (kind == "equal" or second > (1 - tolerance) * math.log(claimed)):
        if found.p_bend <= 1 - confidence:
            hint = "begin the window behind the first rounds and end it before the floor; what speeds up or slows down has no factor"
            fail("No geometric rate: the factor changes over the window.", lines, hint, evidence)
        fail("Rate inconclusive: the two halves differ, by no more than their scatter.", lines, _narrow(found), evidence)
    if not rejected:
        lines = [*lines, f"why:      {power}; on this window they are not told apart (p = {found.p_power:.3g})"]
        fallen = math.exp(float(v[0] - v[-1]))
        hint = f"the window is short: the values fall by a factor of {fallen:.3g} over it; a longer one, or more seeds, tells"
        fail("Rate inconclusive: a power law is not rejected.", lines, hint, evidence)
