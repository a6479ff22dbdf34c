"""Reading a saved campaign, with suspicion: a file that was changed, cut off or made by something
else is refused before it is used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedtheory.errors import DataFileError, UnknownName
from fedtheory.theory.judge.campaign import Row
from fedtheory.theory.judge.registry import get
from fedtheory.untrusted import read_json

__all__ = ["read_campaign"]

MAX_BYTES = 50_000_000
_VERDICTS = ("holds", "violated", "not applicable", "inconclusive")
_ESTABLISHED = ("holds", "violated", "open")
_NEEDED: Mapping[str, type | tuple[type, ...]] = {
    "rows": list, "complete": bool, "seconds": (int, float), "instances": int, "settings": dict,
    "searches": list, "checked": int, "comparisons": int, "witnesses": dict, "memory_mib": dict,
    "provenance": dict,
}
_INSIDE: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "settings": {"workers": int},
    "witnesses": {"replayed": int},
    "memory_mib": {"main": (int, float), "largest_worker": (int, float)},
    "provenance": {"device": str, "python": str, "platform": str, "versions": dict, "written": str},
}
_SETTINGS: Mapping[str, type | tuple[type, ...]] = {
    "seed": int, "scale": (int, float), "long_runs": bool, "search_budget": int, "papers": list,
}  # fmt: skip
_SEARCH: Mapping[str, type] = {"statement": str, "form": str, "rule": str, "evaluations": int, "found": bool}
_NUMBERS = ("tightness_worst", "tightness_median", "worst_slack", "worst_case")
_COUNTS = ("instances", "violations", "inconclusive", "not_applicable", "evaluations")


def read_campaign(path: Path | str) -> tuple[list[Row], dict[str, Any]]:
    """The rows and the record of a campaign that `fedtheory verify` wrote.

    Raises
    ------
    DataFileError
        Missing, not JSON, cut off, no campaign, or one with a field that is missing or of another kind.
    UnknownName
        It is about statements that are not known here, of a file or a package that is not there.
    """
    path = Path(path)
    record = _json(path)
    _has(record, _NEEDED, f"{path}")
    for key, wanted in _INSIDE.items():
        _has(record[key], wanted, f"{path}: {key}")
    given = {key: kind for key, kind in _SETTINGS.items() if key in record["settings"]}
    _has(record["settings"], given, f"{path}: settings")
    if "commit" not in record["provenance"] or "seed" not in record["provenance"]:
        raise DataFileError(f"{path}: provenance has no commit or no seed: write it again by `fedtheory verify`")
    _findings(record, path)
    for n, search in enumerate(record["searches"]):
        _has(search, _SEARCH, f"{path}: searches[{n}]")
    rows = [_row(entry, f"{path}: rows[{n}]") for n, entry in enumerate(record["rows"])]
    return rows, record


def _json(path: Path) -> Any:
    if not path.exists():
        raise DataFileError(f"{path}: no such file; `fedtheory verify` writes one; or name that of another folder")
    return read_json(path, MAX_BYTES, "a campaign")


def _has(value: Any, wanted: Mapping[str, type | tuple[type, ...]], label: str) -> None:
    if not isinstance(value, dict):
        raise DataFileError(f"{label}: {_brief(value)}; it must be an object: this is not a campaign.json of `fedtheory verify`")
    for key, kind in wanted.items():
        if key not in value:
            raise DataFileError(f"{label}: no {key!r}: this is not a campaign.json of `fedtheory verify`, or an old one; run it again")
        if not isinstance(value[key], kind) or (isinstance(value[key], bool) and kind is not bool):
            raise DataFileError(f"{label}: {key} is {_brief(value[key])}; it must be {_called(kind)}")


def _row(entry: Any, label: str) -> Row:
    """One row; numbers that are none are NaN."""
    _has(entry, {"statement": str, "form": str, "rule": str, "verdict": str, "established": str, "tightest": str, "worst": str,
                 "worst_where": dict, "modes": list, "worst_case_at": str, **dict.fromkeys(_COUNTS, int)}, label)  # fmt: skip
    if entry["verdict"] not in _VERDICTS:
        raise DataFileError(f"{label}: verdict is {_brief(entry['verdict'])}; use one of {', '.join(_VERDICTS)}")
    if entry["established"] not in _ESTABLISHED:
        raise DataFileError(f"{label}: established is {_brief(entry['established'])}; use one of {', '.join(_ESTABLISHED)}")
    if not all(isinstance(mode, str) for mode in entry["modes"]) or not isinstance(entry.get("witness"), str | None):
        raise DataFileError(f"{label}: modes must be words, and witness a name")
    numbers = {}
    for key in _NUMBERS:
        try:
            numbers[key] = math.nan if entry.get(key) is None else float(entry[key])
        except (TypeError, ValueError) as error:
            raise DataFileError(f"{label}: {key} is {_brief(entry[key])}; it must be a number") from error
    try:
        proof = get(entry["statement"]).form(entry["form"]).proof
    except UnknownName as error:
        raise UnknownName(f"{label}: {error}; where it is from a Python file, name that as well: --paper FILE.py") from error
    known = {f.name for f in fields(Row)}
    return Row(**{**{k: v for k, v in entry.items() if k in known}, **numbers, "proof": proof})


def _findings(record: dict[str, Any], path: Path) -> None:
    """Refuse findings that are no pairs of words."""
    found = record.get("findings", {})
    pairs = [pair for of in found.values() for pair in of] if isinstance(found, dict) else [None]
    if not all(isinstance(p, list) and len(p) == 2 and all(isinstance(w, str) for w in p) for p in pairs):
        raise DataFileError(f"{path}: findings must be pairs of words for each statement")


def _called(kind: type | tuple[type, ...]) -> str:
    names = {list: "a list", dict: "an object", bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    return names[kind[-1] if isinstance(kind, tuple) else kind]


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
