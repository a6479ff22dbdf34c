"""Witness files: reading them with suspicion, writing them whole, and rerunning what they claim in
fractions."""

from __future__ import annotations

import re
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

from fedtheory.errors import DataFileError, FedTheoryError, InvalidInput, suggest
from fedtheory.inputs import file_path
from fedtheory.limits import ended_within
from fedtheory.provenance import write_json
from fedtheory.rational import brief, fraction
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.registry import RegisteredPaper, get, paper, papers, setting_of
from fedtheory.theory.judge.witness import FORMAT, Witness
from fedtheory.untrusted import parse_json, ratio, read_text

__all__ = ["builtin_witnesses", "exact_check", "load", "parse", "replay", "save"]

MAX_BYTES = 1_000_000
# of processor time, for one witness; those that come with the package take under one
MOST_SECONDS = 20
# of a side: Python writes 4,300 digits, as their difference may have
MOST_BITS, MOST_SIDE = 7_000, Fraction(10**300)
_LONG, _LIKE_A_NUMBER = (
    9000, re.compile(r"\s*[+-]?[\d._]+(?:[eE][+-]?[\d_]+)?(?:/[+-]?[\d._]+)?\s*")
)
_NEEDED = ("statement", "form", "rule", "kind", "data", "lhs", "rhs")
_OPTIONAL = ("verdict", "label", "without", "constants", "found_by", "provenance")


def save(witness: Witness, path: Path | str) -> Path:
    """Write a witness as JSON, whole or not at all."""
    return write_json(path, witness.to_json())


def load(path: Path | str) -> Witness:
    """Read a witness file. It is checked for form only; `replay` decides whether it is true.

    Raises `DataFileError` for one that is missing, truncated, of another format or other fields.
    """
    path = file_path("path", path, "a witness file")
    return parse(read_text(path, MAX_BYTES, "a witness file"), str(path))


def parse(text: str, label: str) -> Witness:
    """A witness from the text of its file.

    Raises `DataFileError` named by ``label``.
    """
    data = parse_json(text, label)
    version = data.pop("format", None) if isinstance(data, dict) else None
    if version != FORMAT:
        raise DataFileError(
            f'{label}: not a witness file: its "format" is {version!r:.80} and must be "{FORMAT}"; '
            "take a file that `fedtheory verify` wrote"
        )
    check_fields(data, _NEEDED, _OPTIONAL, label)
    for key in (*(k for k in _NEEDED if k != "data"), "verdict", "label", "without"):
        if not isinstance(data.get(key, ""), str):
            raise DataFileError(
                f"{label}: {key} is {data[key]!r}; write it as a string, for example \"1/2\""
            )
    if "::" in data["statement"]:  # it would be run
        raise DataFileError(
            f"{label}: statement {data['statement']!r:.80} names a file; "
            "write it as paper/name, and name the file yourself: --paper FILE.py"
        )
    for key in ("data", "constants", "found_by", "provenance"):
        if not isinstance(data.get(key, {}), dict):
            raise DataFileError(f"{label}: {key} is {data[key]!r}; write it as an object")
    _check_texts([data["data"], data.get("constants", {})], label)
    if data.get("verdict", "violated") not in ("violated", "holds"):
        raise DataFileError(f"{label}: verdict is {data['verdict']!r}; use 'violated' or 'holds'")
    return Witness(**data)


def _check_texts(value: Any, label: str) -> None:
    """Raise `DataFileError` for text that looks like a number but cannot be read as one soon."""
    if isinstance(value, dict | list):
        for inside in value.values() if isinstance(value, dict) else value:
            _check_texts(inside, label)
    elif isinstance(value, str) and (len(value) > _LONG or _LIKE_A_NUMBER.fullmatch(value)):
        try:
            ratio(value)
        except (ValueError, ZeroDivisionError):
            told = (
                repr(value) if len(value) <= 40 else f"{value[:40]!r}... ({len(value)} characters)"
            )
            raise DataFileError(
                f'{label}: {told} is not a fraction: write it like "-3/7"'
            ) from None


def check_fields(
    data: dict[str, Any], needed: tuple[str, ...], optional: tuple[str, ...], label: str
) -> None:
    """Raise `DataFileError` that names missing and unknown fields."""
    missing, unknown = (
        [k for k in needed if k not in data], sorted(set(data) - {*needed, *optional})
    )
    what = [
        f"{word}: {', '.join(names)}"
        for word, names in (("missing", missing), ("unknown", unknown)) if names
    ]
    if what:
        raise DataFileError(f"{label}: wrong fields ({'; '.join(what)})")


def exact_check(witness: Witness, of: Any = None) -> tuple[Check, Any, Any, Any]:
    """Run the form on the witness's data in fractions, whatever it claims: the check, then lhs,
    rhs, scale.

    ``of`` is as for `replay`. Raises `InvalidInput` for data that are no instance of their kind,
    and `UnknownName` as `registry.get`.
    """
    if of is None:
        statement = get(witness.statement)
        setting = setting_of(statement)
    else:
        known = of if isinstance(of, RegisteredPaper) else of.paper
        ids = {s.id: s for s in known.statements}
        if witness.statement not in ids:
            raise suggest(witness.statement, ids, "statement")
        statement, setting = ids[witness.statement], known.setting
    try:
        with ended_within(
            MOST_SECONDS, f"judging {witness.statement} in fractions",
            "take a witness with shorter numbers"
        ):
            return setting.exact_check(statement, witness)
    except FedTheoryError:
        raise
    except (
        ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError,
        MemoryError
    ) as error:
        told = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise InvalidInput(
            f"data of kind {witness.kind!r:.60}: they are no instance that can be judged ({told})"
        ) from error


def replay(witness: Witness | Path | str, of: Any = None) -> Check:
    """Recompute everything in rational arithmetic: the instance, the assumptions, both sides.

    Parameters
    ----------
    of : `fedtheory.theory.Paper` or one of its statements
        Where the witness is of a file; default a paper that is installed or was loaded.

    Returns
    -------
    Check
        With the claimed verdict and mode 'rational'.

    Raises
    ------
    InvalidInput
        The data do not give the claimed verdict, or the sides are not the claimed ones.
    DataFileError, UnknownName
        As `load` and `registry.get` raise them.
    """
    if not isinstance(witness, Witness):
        witness = load(witness)
    check, lhs, rhs, _ = exact_check(witness, of)
    for name, side in (("left", lhs), ("right", rhs)):
        bits = (
            max(abs(side.numerator), side.denominator).bit_length() if isinstance(side, Fraction)
            else 0
        )
        if bits > MOST_BITS or abs(side) > MOST_SIDE:
            raise InvalidInput(
                f"its {name} side is {brief(side)}: too long to be told; take a witness "
                "with shorter numbers"
            )
    if check.verdict != witness.verdict:
        sign = ">" if lhs > rhs else "<="
        what = "not a witness" if witness.verdict == "violated" else "not as claimed"
        verb = "holds" if check.verdict == "holds" else "is violated"
        raise InvalidInput(
            f"{what}: {witness.statement} [{witness.form}] {verb} here, {float(lhs):.6g} {sign} "
            f"{float(rhs):.6g}"
        )
    if (witness.lhs, witness.rhs) != ("", ""):
        claimed = fraction(witness.lhs, "lhs"), fraction(witness.rhs, "rhs")
        if claimed != (lhs, rhs):
            raise InvalidInput(
                f"the witness claims lhs = {float(claimed[0]):.12g}, rhs = "
                f"{float(claimed[1]):.12g}, but its data give {float(lhs):.12g} and "
                f"{float(rhs):.12g}: it was changed after it was found"
            )
    return check


def builtin_witnesses(id: str | None = None, statement: str = "") -> list[Witness]:
    """List the witnesses that come with a paper, by name, all or those of a statement.

    Those of a file lie in the folder ``witnesses`` beside it.

    Parameters
    ----------
    id : the paper's, default all papers

    Raises
    ------
    InvalidInput
        A form names a witness that is not there.
    """
    if id is None:
        return [w for p in papers() for w in builtin_witnesses(p.id)]
    known = paper(id)
    folder: Any = Path(known.file).parent / "witnesses"
    if known.witnesses:
        folder = resources.files(known.witnesses) / "witnesses"
    there = folder.iterdir() if known.witnesses or (known.file and folder.is_dir()) else ()
    files = sorted((f for f in there if f.name.endswith(".json")), key=lambda f: f.name)
    _check_named(known, folder, {f.name.removesuffix(".json") for f in files})
    texts = ((f.name, f.read_text(encoding="utf-8")) for f in files)
    found = [parse(text, name) for name, text in texts if statement in text]
    return [w for w in found if w.statement.startswith(f"{id}/") and statement in ("", w.statement)]


def _check_named(known: Any, folder: Any, names: set[str]) -> None:
    """Raise `InvalidInput` where a form of a paper names a witness that is none of these."""
    for made in getattr(known, "authored", {}).values():
        for form in made.forms.values():
            if form.witness and form.witness not in names:
                there = (
                    str(suggest(form.witness, sorted(names), "witness")) if names
                    else "none is there"
                )
                raise InvalidInput(
                    f"{made.id} [{form.name}] names witness={form.witness!r}, and there is no file "
                    f"{folder}/{form.witness}.json ({there}): put there what `fedtheory verify` "
                    "wrote under witnesses/, or leave witness= out"
                )
