"""At which horizons a bound fails, in words, from the rows of a drawn comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["fails_at"]

FEW = 3  # horizons that are named one by one


def fails_at(rows: Iterable[Mapping[str, Any]], form: str, letter: str) -> str:
    """'from T = 2 on' where it fails at every horizon from there, 'at T = 2, 5', 'at 7 of 20 values of T, first at T = 2'.

    Parameters
    ----------
    rows : dicts with 'form', 'at' (the horizon, or None) and 'violated'
    letter : of the horizon

    Returns
    -------
    str
        '' where it fails at none, or the entries have no horizon.
    """
    own = [r for r in rows if r["form"] == form and r["at"] is not None]
    every, bad = sorted({r["at"] for r in own}), sorted({r["at"] for r in own if r["violated"]})
    if not bad:
        return ""
    if bad == [at for at in every if at >= bad[0]] and (len(bad) > 1 or len(every) == 1):
        return f"from {letter} = {bad[0]} on"
    if len(bad) <= FEW:
        return f"at {letter} = {', '.join(map(str, bad))}"
    return f"at {len(bad)} of {len(every)} values of {letter}, first at {letter} = {bad[0]}"
