"""Bound against measured on a problem of the user's, as a table of plain values that a picture is
drawn from.

The table comes from the series that checks keep (`fedtheory.theory.judge.series`). Where a
statement about runs compares one pair of numbers, at its last round, it is judged again at shorter
horizons. Beyond the rounds that were judged a picture goes on exactly, where that is affordable,
else by the mean of seeded runs: the verdicts do not depend on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.plain_progress import duration
from fedtheory.plotting.failures import fails_at
from fedtheory.store.resumable import cached_step
from fedtheory.theory.judge.check import Check, judge_worst
from fedtheory.theory.judge.series import Series
from fedtheory.theory.judge.statement import Form, Statement
from fedtheory.theory.judge.summary import number, reading, upper

__all__ = [
    "BAND", "FIGURE", "MOST_SHOWN", "ROUNDS", "SCENARIOS", "SECONDS", "caption", "comparison",
    "horizons_up_to",
]  # fmt: skip

FIGURE = "bound-against-measured"
Again = Callable[..., Iterable[Check]]
JUDGED = ("holds", "violated", "inconclusive")
MOST_SHOWN = 4  # forms that are drawn where nobody chose
LOOKS = 12  # horizons at which a statement about a run's end is judged
ROUNDS = 300  # of a picture, where nobody chose a horizon
SECONDS = 10.0  # that they may take, where fewer rounds were judged
# runs that are timed, and then drawn as their mean: as many as there is time for
SCENARIOS = (2, 50, 200)
FEWEST = 50  # of a mean that is drawn
# seconds that the next timing may take, if every scenario takes as long as those before
LONGEST = 40.0
BAND = 0.95  # two-sided confidence of the mean at each horizon by itself
PILOT = 10  # rounds that are timed
HORIZONS = 8  # of runs that are made again for each
TOLD = 2.0  # seconds from which on a picture is announced


def comparison(
    checks: Any,
    *,
    forms: Iterable[str] | None = None,
    worst: bool | None = None,
    setup: str | None = None,
    on_progress: Callable[[], None] | None = None,
    rounds: int | Literal["auto"] | None = "auto",
    tell: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    """Give the data of what `Checks.plot` draws: strings, numbers, lists and dicts only.

    Parameters
    ----------
    checks : with their series, as `Statement.verify` makes them
    forms : names of the forms to draw; default the printed and the repaired one, or all where they
        are few
    worst : whether the worst case of all problems is computed, where there is a programme for it,
        in a second or two; default where it has the same parameters
    setup : what was run, in words; default as `Statement.verify` says it
    on_progress : callable, after every shorter run
    rounds : up to which a picture over a horizon goes on beyond what was judged; None nowhere,
        "auto" `ROUNDS` where nobody chose a horizon
    tell : callable(text), with how long that takes, where it takes seconds

    Returns
    -------
    dict
        'figure', 'statement', 'title', 'sentence', 'problem', 'setup', 'kind' ('horizon' or
        'points'), 'horizon' (its letter), 'forms' (name -> verdict, how, rule, reading, formula,
        ...), 'rows' (dicts with the keys of `columns`), 'caption', 'measures' (the left side in
        words), 'reruns' (whether every horizon is a run of its own), 'beyond' (how far the picture
        goes beyond what was judged).

    Raises
    ------
    InvalidInput
        Checks that `Statement.verify` did not make; or nothing was compared, with the reasons.
    """
    statement: Statement | None = checks.statement
    again, case = checks.again, checks.case
    if statement is None:
        why = "these checks do not know their statement, so there is nothing to draw"
        raise InvalidInput(f"{why}: make them by Statement.verify")
    if rounds == "auto":
        chosen_by_user = case is None or case.rounds is not None or case.of_rounds
        rounds = None if chosen_by_user else ROUNDS
    kept = {c.form: [c.series] for c in checks if c.series is not None and c.verdict in JUDGED}
    if not kept:
        symbols = (
            "it is an identity between symbols, or proved for every instance: no "
            "numbers are compared"
        )
        reasons = "; ".join(dict.fromkeys(f"{c.form}: {c.reason or symbols}" for c in checks))
        raise InvalidInput(
            f"{statement.id}: no form was compared on this problem, so there is nothing to "
            f"draw ({reasons})"
        )
    judged = [c for c in checks if c.form in kept]
    chosen = (
        _shown(judged, statement, kept) if forms is None
        else [statement.form(f).name for f in forms]
    )
    reruns = again is not None and all(c.series.total == 1 and c.series.end for c in judged)
    last = max(c.series.end for c in judged)
    if reruns:
        _lengthen(kept, last, again, on_progress)
    longer: list[Check] = []
    letters = {s.horizon for n in chosen for s in kept.get(n, [])}
    if (
        again is not None and rounds is not None and last and len(letters) == 1
        and "" not in letters
    ):
        longer = beyond(again, last, rounds, [n for n in chosen if n in kept], reruns, tell)
    after = {n: [c.series for c in longer if c.form == n and c.series is not None] for n in kept}
    horizon = _horizon({n: kept[n] + after[n] for n in kept}, chosen)
    data: dict[str, Any] = {
        "figure": FIGURE, "statement": statement.id, "title": statement.title,
        "sentence": checks.sentence,
        "problem": next((c.instance for c in checks if c.instance), ""),
        "setup": checks.setup if setup is None else setup,
        "kind": "horizon" if horizon else "points", "horizon": horizon, "forms": {}, "rows": [],
        "measures": statement.measures, "reruns": reruns, "beyond": _beyond(last, longer, reruns),
    }  # fmt: skip
    for check in judged:
        form = statement.form(check.form)
        rows = [row for series in kept[check.form] for row in _rows(check, series, horizon)]
        data["forms"][check.form] = about = _about(check, form, rows)
        about |= {"shown": check.form in chosen, "reading": reading(check, statement)}
        belongs = case is not None and form.worst is not None and form.worst.belongs(case)
        if about["shown"] and (belongs if worst is None else worst):
            for c in judge_worst(statement, form):
                if c.rule == check.rule and c.verdict == "holds":
                    about["worst"] = {"share": c.tightness, "at": c.where["point"]}
        mine = [c for c in longer if c.form == check.form]
        more = [row for c in mine for row in _longer_rows(c, horizon, reruns)]
        end = max((r["at"] for r in rows if r["at"] is not None), default=0)
        data["rows"] += rows + [r for r in more if check.scenarios or r["at"] > end]  # of means all
    data["caption"] = caption(data)
    return data


def horizons_up_to(last: int) -> list[int]:
    """The horizons below ``last``; of more than `LOOKS` so many, evenly on a logarithmic axis."""
    if last <= LOOKS:
        return list(range(1, last))
    return [
        int(t) for t in np.unique(np.round(np.geomspace(1, last, LOOKS)).astype(int)) if t < last
    ]


def _lengthen(kept: dict[str, list[Series]], last: int, again: Again, tell: Any) -> None:
    """The series of shorter runs before that of the whole one; a form that is not judged there has
    none."""
    before: dict[str, list[Series]] = {name: [] for name in kept}
    for rounds in horizons_up_to(last):
        try:
            found = [check for check in again(rounds) if check.series is not None]
        except FedTheoryError:
            found = []
        if any(check.series.end > rounds for check in found):  # type: ignore[union-attr]
            break  # the statement has the length of its run from elsewhere
        for check in found:
            if check.form in before and check.verdict in JUDGED:
                before[check.form].append(check.series)  # type: ignore[arg-type]
        if tell is not None:
            tell()
    for name, series in before.items():
        kept[name] = series + kept[name]


def _shown(
    checks: Sequence[Check], statement: Statement, kept: Mapping[str, list[Series]]
) -> list[str]:
    """All forms where they are few, else the one as printed (or in its place) and the repaired one;
    over a horizon only those that bound the same, up to a constant."""
    names = list(dict.fromkeys(c.form for c in checks))
    first = kept["repaired" if "repaired" in names else names[0]][-1]
    names = [n for n in names if _bounds_the_same(kept[n][-1], first)]
    if len(names) <= MOST_SHOWN:
        return names
    printed = statement.as_printed
    main = [
        n for n in names
        if (printed is not None and n == printed.name) or n in ("printed", "repaired")
    ]
    return main or names[:MOST_SHOWN]


def _bounds_the_same(one: Series, main: Series) -> bool:
    """True if the left sides of two forms over one horizon are one, up to a constant; entries that
    have none are not compared."""
    if main.at is None or one.at is None or len(main.at) != len(one.at):
        return True
    seen = (np.abs(main.lhs) > main.floor) & (np.abs(one.lhs) > one.floor)
    ratios = one.lhs[seen] / main.lhs[seen]
    return bool(not len(ratios) or np.ptp(ratios) <= 1e-6 * abs(ratios[0]))


def _horizon(kept: Mapping[str, list[Series]], chosen: Sequence[str]) -> str:
    """The letter of the horizon where all entries that are drawn have one, and there are several;
    else ''."""
    drawn = [s for name in chosen for s in kept.get(name, [])]
    letters = {s.horizon for s in drawn}
    several = len({int(t) for s in drawn if s.at is not None for t in s.at}) > 1
    return letters.pop() if len(letters) == 1 and several else ""


def _rows(check: Check, series: Series, horizon: str, reach: float | None = None) -> list[Any]:
    """One dict an entry; ``reach``: of the intervals, in standard errors, default the check's own.

    A form that holds may fail in a shorter run, of which single runs are no evidence.
    """
    told = check.verdict == "violated" or (check.verdict == "holds" and series.slack_error is None)
    out = []
    for i in range(len(series.lhs)):
        row: dict[str, Any] = {
            "form": check.form, "where": series.where(i),
            "at": int(series.at[i]) if horizon and series.at is not None else None,
            "measured": float(series.lhs[i]), "bound": float(series.rhs[i]),
            "slack": float(series.slack[i]), "floor": float(series.floor[i]),
            "violated": told and bool(series.violated[i]), "judged": True,
        }  # fmt: skip
        for name, error in (("measured", series.lhs_error), ("bound", series.rhs_error)):
            if error is not None:
                half = (series.quantile if reach is None else reach) * float(error[i])
                row[f"{name}_low"], row[f"{name}_high"] = row[name] - half, row[name] + half
        if series.terms is not None:
            row |= {f"term_{n}": float(t[i]) for n, t in enumerate(series.terms, start=1)}
        out.append(row)
    return out


def _longer_rows(check: Check, horizon: str, reruns: bool) -> list[dict[str, Any]]:
    """Rows of a longer run, marked as not judged.

    Of scenarios with the interval of a mean at `BAND`, but where a horizon is a run of its own.
    """
    from scipy.special import stdtrit

    if check.series is None:
        return []
    reach = None
    if check.scenarios is not None and not reruns:
        reach = float(stdtrit(check.scenarios - 1, (1 + BAND) / 2))
    return [row | {"judged": False} for row in _rows(check, check.series, horizon, reach)]


def _beyond(last: int, longer: Sequence[Check], reruns: bool) -> dict[str, Any] | None:
    """The way that the picture goes beyond what was judged, with its scenarios; None for no way."""
    if not (end := max((c.series.end for c in longer if c.series is not None), default=0)):
        return None
    own = next((c.confidence for c in longer if c.confidence is not None), BAND)
    runs = max((c.scenarios or 0 for c in longer), default=0) or None
    return {"after": last, "to": end, "scenarios": runs, "confidence": own if reruns else BAND}


def _about(check: Check, form: Form, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ratio = check.relation == "<=" and "no_ratio" not in check.where
    ratios = [r["measured"] / r["bound"] for r in rows if r["bound"] > 0] if ratio else []
    first = [r["at"] for r in rows if r["violated"] and r["at"] is not None]
    return {
        "verdict": check.verdict, "rule": check.rule, "mode": check.mode,
        "relation": check.relation, "latex": _latex(form), "entries": check.count,
        "scenarios": check.scenarios, "confidence": check.confidence,
        "largest_ratio": max(ratios, default=None), "first_violated": min(first, default=None),
        "axes": list(check.where.get("axes", [])),
        "least_slack": check.slack if math.isfinite(check.slack) else None,
    }  # fmt: skip


def _latex(form: Form) -> str:
    try:
        return form.latex
    except (FedTheoryError, ArithmeticError, ValueError, TypeError):
        return ""


def beyond(
    again: Again, last: int, rounds: int, forms: Sequence[str], each: bool,
    tell: Callable[[str], Any] | None = None
) -> list[Check]:
    """The checks of forms on longer runs, with their series; none where nothing longer can be run,
    or it takes more than `SECONDS`.

    Parameters
    ----------
    again : callable(rounds, forms=, scenarios=) -> the checks of a run of so many rounds
    last : the longest horizon that was judged
    rounds : the longest that is wanted
    each : whether every horizon takes a run of its own
    tell : callable(text), with how long it will take, where that is more than `TOLD`
    """
    if rounds <= last:
        return []
    try:
        if each:
            return _runs(again, last, rounds, forms, tell)
        most, scenarios = cached_step(
            "rounds of the picture", lambda: _affordable(again, last, rounds, forms, tell)
        )
        return _drawable(again(most, forms=forms, scenarios=scenarios), most) if most > last else []
    except FedTheoryError:
        return []


def _affordable(
    again: Again, last: int, rounds: int, forms: Sequence[str], tell: Any
) -> tuple[int, int]:
    """The rounds and scenarios that there is time for, from the time of a few; 0 where that is
    long."""
    pilot = min(last + PILOT, rounds)
    most, took = (0, 0), 0.0
    for before, scenarios in pairwise((1, *SCENARIOS)):
        # at most that long, where nothing is shared by the scenarios
        if took * scenarios / before > LONGEST:
            break
        made, took = _timed(again, pilot, forms, scenarios)
        enough = min(rounds, int(SECONDS / took * pilot))
        exact = bool(made) and all(c.scenarios is None for c in made)
        if exact or (scenarios >= FEWEST and (enough == rounds or not most[0])):
            most, seconds = (enough, scenarios), took / pilot * enough
        if exact:
            break
    if most[0] > last and seconds >= TOLD and tell is not None:
        tell(f"{most[0]:,} rounds for the picture take about {duration(seconds)} here")
    return most


def _timed(again: Again, rounds: int, forms: Any, scenarios: int) -> tuple[list[Check], float]:
    """The checks of a run, and how many seconds it took."""
    begin = time.perf_counter()
    made = list(again(rounds, forms=forms, scenarios=scenarios))
    return made, time.perf_counter() - begin


def _runs(again: Again, last: int, rounds: int, forms: Sequence[str], tell: Any) -> list[Check]:
    """A run for each of some horizons, as long as there is time for the next."""
    out: list[Check] = []
    took: dict[int, float] = {}
    horizons = np.round(np.geomspace(last, rounds, HORIZONS + 1)).astype(int)
    for horizon in map(int, np.unique(horizons)):
        expected = _expected(took, horizon)
        if sum(took.values()) + expected > SECONDS:
            break
        if expected >= TOLD and tell is not None:
            tell(
                f"a run of {horizon:,} rounds for the picture takes about {duration(expected)} here"
            )
        found, took[horizon] = _timed(again, horizon, forms, SCENARIOS[-1])
        made = _drawable(found, horizon)
        if horizon > last:  # that was judged, and is only timed
            if not made:
                break
            out += made
    return out


def _expected(took: Mapping[int, float], rounds: int) -> float:
    """Seconds of so many rounds: a power of them, from 1 to 4, by the last two runs; 0 before."""
    if not took:
        return 0.0
    *before, (last, seconds) = took.items()
    power = 1.0
    if before:
        longer, slower = last / before[-1][0], seconds / max(before[-1][1], 1e-9)
        power = min(4.0, max(1.0, math.log(max(slower, 1e-9)) / math.log(longer)))
    return seconds * (rounds / last) ** power


def _drawable(checks: Iterable[Check], rounds: int) -> list[Check]:
    """Those that compared something as far as there; of others the statement has the length of its
    run from elsewhere."""
    judged = [c for c in checks if c.verdict in JUDGED and c.series is not None]
    return [c for c in judged if c.series.end == rounds]  # type: ignore[union-attr]


def caption(data: Mapping[str, Any]) -> str:
    """Say in whole sentences what to see in the picture, with the numbers of the data."""
    shown = {n: f for n, f in data["forms"].items() if f["shown"]}
    how = "over the horizon" if data["kind"] == "horizon" else "entry by entry"
    told = [
        f"{data['statement']} on {data['problem'] or 'the problem'}: both sides of the "
        f"inequality {how}.",
        data["sentence"]
    ]
    for name, form in shown.items():
        where = fails_at(data["rows"], name, data["horizon"])
        if where:
            whole = (
                "holds over the whole run and fails in shorter ones," if form["verdict"] == "holds"
                else "fails"
            )
            told.append(f"{upper(form['reading'])} it {whole} {where}.")
        if "worst" in form:
            share, at = number(form["worst"]["share"]), form["worst"]["at"]
            told.append(
                f"{upper(form['reading'])} the worst of all problems comes to {share} of "
                f"the bound, at {at}."
            )
    runs = {(f["scenarios"], f["confidence"]) for f in shown.values() if f["scenarios"]}
    if (beyond := data.get("beyond")) is not None:
        how = "exact"
        if beyond["scenarios"]:
            how = (
                f"the means of {beyond['scenarios']:,} runs with their "
                f"{100 * beyond['confidence']:g} % intervals"
            )
        told.append(
            f"Beyond {data['horizon']} = {beyond['after']} both sides are {how}: no verdict is "
            "taken from there."
        )
    for count, confidence in () if beyond is not None and beyond["scenarios"] else sorted(runs):
        told.append(
            f"Bands: {100 * confidence:g} % intervals of the means of {count:,} runs, for all "
            "horizons together."
        )
    hidden = [n for n, f in data["forms"].items() if not f["shown"]]
    if hidden:
        told.append(f"Not drawn, but in the data: {', '.join(hidden)}.")
    return " ".join(told)
