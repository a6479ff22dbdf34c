"""Bound against measured as a file: a CSV with a row an entry, below comment lines that say what it
is and where it comes from.

The second comment line is JSON: the statement, its forms and their verdicts, the problem, the
command, versions and commit. Any reader of tables takes the rest (``pandas.read_csv(FILE,
comment="#")``). A file of someone else's is not trusted: everything that a picture is drawn from is
checked as it is read.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from fedtheory.errors import DataFileError
from fedtheory.plotting.bound_against_measured import draw
from fedtheory.plotting.style import house_style, save
from fedtheory.provenance import to_jsonable, write_atomic
from fedtheory.untrusted import decimal, parse_json, read_text

__all__ = ["FIRST_LINE", "SUFFIXES", "is_table", "read", "stem_of", "to_csv", "write"]

FIRST_LINE = "# fedtheory: bound against measured, version 1"
MAX_BYTES = 50_000_000
SUFFIXES = (".png", ".pdf", ".csv", ".json")
FLOATS = ("measured", "bound", "slack", "floor", "measured_low", "measured_high", "bound_low", "bound_high")
NEEDED = ("form", "at", "where", "measured", "bound", "slack", "violated")
_NUMBER = (int, float, type(None))
_TEXTS = ("statement", "title", "sentence", "problem", "setup", "horizon", "caption")
_OF_A_FORM: dict[str, tuple[type, ...]] = {
    "verdict": (str,), "rule": (str,), "mode": (str,), "relation": (str,), "reading": (str,),
    "shown": (bool,), "scenarios": _NUMBER, "confidence": _NUMBER, "largest_ratio": _NUMBER,
    "first_violated": _NUMBER,
}


def stem_of(path: Path | str) -> Path:
    """'plots/mine.png' -> plots/mine, to which the suffixes are added."""
    path = Path(path)
    return path.with_suffix("") if path.suffix.lower() in SUFFIXES else path


def to_csv(data: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """The table with its comment lines; ``about``: more facts, such as provenance and command."""
    head = {k: v for k, v in data.items() if k != "rows"}
    words = json.dumps(to_jsonable({**head, **about}), ensure_ascii=True, allow_nan=False)
    terms = sorted({k for row in data["rows"] for k in row if k.startswith("term_")}, key=lambda k: int(k.partition("_")[2]))
    intervals = [k for k in FLOATS[4:] if any(k in row for row in data["rows"])]
    columns = ["form", "at", "where", "measured", "bound", "slack", "violated", "judged", "floor", *intervals, *terms]
    out = StringIO()
    out.write(f"{FIRST_LINE}\n# {words}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in data["rows"]:
        writer.writerow([_cell(row.get(c)) for c in columns])
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return repr(float(value)) if isinstance(value, float) else str(value)


def write(
    data: Mapping[str, Any], path: Path | str, about: Mapping[str, Any], dpi: int = 130, size: str = "page", title: bool = True
) -> tuple[list[Path], Any]:
    """Write FILE.csv, FILE.png and FILE.pdf, each whole or not at all: their paths, and the matplotlib figure."""
    stem = stem_of(path)
    table = write_atomic(stem.with_name(f"{stem.name}.csv"), to_csv(data, about))
    with house_style(size):
        figure = draw(data, title)
        return [table, *save(figure, stem, dpi)], figure


def is_table(text: str) -> bool:
    """True if a text begins as such a CSV does."""
    return text.startswith(FIRST_LINE.partition(",")[0])


def read(path: Path | str) -> dict[str, Any]:
    """The data of a CSV that `write` wrote, everything checked; what else its comment holds is kept as it is.

    Raises
    ------
    DataFileError
        No such file, too large, not such a CSV, or a number, a verdict or a form in it that cannot be.
    """
    path = Path(path)
    text = read_text(path, MAX_BYTES, "such a table")
    lines = text.split("\n", 2)
    if len(lines) < 3 or lines[0].strip() != FIRST_LINE or not lines[1].startswith("# {"):
        raise DataFileError(
            f"{path}: not a table of bound against measured; its first line must be "
            f"{FIRST_LINE!r}, its second '# ' and JSON"
        )
    head = parse_json(lines[1][2:], f"{path}, line 2")
    _check_head(head, str(path))
    head = {"measures": "", "reruns": False, "beyond": None, **head}  # which older files do not have
    return {**head, "rows": _rows(lines[2], head, str(path))}


def _check_head(head: Any, label: str) -> None:
    for name in _TEXTS:
        if not isinstance(head.get(name), str):
            raise DataFileError(f"{label}: {name} is {head.get(name)!r}; it must be a string")
    if not isinstance(head.get("measures", ""), str):
        raise DataFileError(f"{label}: measures is {head['measures']!r}; it must be a string")
    _check_beyond(head.get("beyond"), label)
    if head.get("kind") not in ("horizon", "points"):
        raise DataFileError(f"{label}: kind is {head.get('kind')!r}; use 'horizon' or 'points'")
    forms = head.get("forms")
    if not isinstance(forms, dict) or not any(isinstance(f, dict) and f.get("shown") is True for f in forms.values()):
        raise DataFileError(f"{label}: forms must be an object with at least one form that is shown")
    for name, form in forms.items():
        for key, kinds in _OF_A_FORM.items():
            if not isinstance(form, dict) or key not in form or not isinstance(form[key], kinds):
                raise DataFileError(f"{label}: {key} of the form {name!r} is missing, or no {kinds[0].__name__}")
        worst = form.get("worst")
        if worst is not None and not (
            isinstance(worst, dict) and isinstance(worst.get("share"), int | float) and isinstance(worst.get("at"), str)
        ):
            raise DataFileError(f"{label}: worst of the form {name!r} must hold share, a number, and at, a string")


def _check_beyond(beyond: Any, label: str) -> None:
    if beyond is None:
        return
    known: dict[str, Any] = {"after": int, "to": int, "scenarios": (int, type(None)), "confidence": float}
    if not isinstance(beyond, dict) or not all(isinstance(beyond.get(k), kind) for k, kind in known.items()):
        told = "it must hold after, to and scenarios, whole numbers, and confidence"
        raise DataFileError(f"{label}: beyond is {str(beyond)[:60]}; {told}")


def _rows(text: str, head: Mapping[str, Any], label: str) -> list[dict[str, Any]]:
    reader = csv.DictReader(StringIO(text), strict=True)
    try:
        columns = list(reader.fieldnames or ())
        missing = [name for name in NEEDED if name not in columns]
        if missing:
            raise DataFileError(f"{label}: no column {', '.join(missing)}; its columns are {', '.join(columns) or 'none'}")
        rows = [_row(row, head, f"{label}, row {i}") for i, row in enumerate(reader, start=1)]
    except csv.Error as error:
        raise DataFileError(f"{label}: no CSV ({error})") from error
    told = {row["form"] for row in rows}
    for name, form in head["forms"].items():
        if form["shown"] and name not in told:
            raise DataFileError(f"{label}: no row of the form {name!r}, which is to be drawn")
    return rows


def _row(row: Mapping[str, Any], head: Mapping[str, Any], label: str) -> dict[str, Any]:
    if row["form"] not in head["forms"]:
        raise DataFileError(f"{label}: unknown form {row['form']!r}; known are {', '.join(head['forms'])}")
    out: dict[str, Any] = {"form": row["form"], "where": row["where"], "at": None}
    if row["at"]:
        at = _float(row, "at", label)
        if at != int(at):
            raise DataFileError(f"{label}: at is {row['at']!r}; it must be a whole number")
        out["at"] = int(at)
    for name, absent in (("violated", None), ("judged", "1")):  # older files have judged rows only
        value = row.get(name, absent)
        if value not in ("0", "1"):
            raise DataFileError(f"{label}: {name} is {value!r}; use 0 or 1")
        out[name] = value == "1"
    names = [n for n in row if n in FLOATS or (isinstance(n, str) and n.startswith("term_"))]
    return {**out, **{n: _float(row, n, label) for n in names if n in NEEDED or row[n] not in ("", None)}}


def _float(row: Mapping[str, Any], name: str, label: str) -> float:
    try:
        return decimal(row[name])
    except (TypeError, AttributeError, ValueError) as error:
        wanted = "finite" if "large" in str(error) or str(row[name]).strip("+-") in ("inf", "nan") else "a number"
        raise DataFileError(f"{label}: {name} is {str(row[name])[:40]!r}; it must be {wanted}") from None
