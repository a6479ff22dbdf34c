"""A certificate of a statement: what is proved of it for all losses of its class, in a file.

The check writes the identities down anew from the statement's own file, and asks of the numbers
what every certificate is asked for. No solver is needed, and none is loaded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.limits import ended_within
from fedtheory.provenance import provenance, write_json
from fedtheory.rational import brief, fraction
from fedtheory.theory.rounds.followed_potentials import followed
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.proof_scopes import Case, cases_of, scopes
from fedtheory.theory.rounds.vector_forms import families, view_of
from fedtheory.theory.rounds.vector_proofs import Proved
from fedtheory.theory.rounds.vector_worlds import CohortWorld
from fedtheory.worst_cases.certificates import (
    FORMAT,
    MOST_SECONDS,
    check_identity,
    read,
    read_proof,
    table_of,
    text,
    written_proof,
)
from fedtheory.worst_cases.gram import common
from fedtheory.worst_cases.identity import Factors, Family
from fedtheory.worst_cases.readable import Readable, write_proof
from fedtheory.worst_cases.runs import X_STAR

__all__ = [
    "KIND", "StatementCertificate", "certificate", "load", "told_of", "verify", "write",
    "write_proofs"
]

KIND = "statement"
STATEMENT = re.compile(r"[a-z0-9.-]+/[a-z0-9.-]+")
ASKED = ("kind", "statement", "form", "rule", "for", "source")
# numbers that the statement does not state, where there are some
MORE = ("given", "constants", "free")


@dataclass(frozen=True)
class StatementCertificate:
    """A form of a statement, with the proof of every inequality that it consists of.

    Attributes
    ----------
    question : dict with 'kind' ('statement'), 'statement', 'form', 'for' (in words), and 'source';
        'given', as `AuthoredStatement.at` takes it; 'constants', those with other values than the
        stated ones; and 'free', of each case the values of those that are free
    parts : multipliers and L D L' of each
    """

    question: Mapping[str, Any]
    parts: tuple[tuple[Mapping[str, Fraction], Mapping[str, Factors]], ...]


def certificate(statement: Any, found: Proved) -> StatementCertificate:
    """The certificate of what was proved."""
    question = {
        "kind": KIND, "statement": statement.id, "form": found.form, "rule": statement.rule,
        "for": found.words, "source": source_of(statement),
    }  # fmt: skip
    numbers: dict[str, Any] = {"given": dict(statement.given), "constants": dict(found.constants)}
    numbers["free"] = [dict(one) for one in found.chosen] if any(found.chosen) else []
    question |= {name: text(value) for name, value in numbers.items() if value}
    return StatementCertificate(question, tuple((s.numbers, s.factors) for _, s in found.parts))


def source_of(statement: Any) -> str:
    """The name of a statement's file, and a hash of it."""
    file = Path(statement.function.__code__.co_filename)
    try:
        return f"{file.name}, sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}"
    except OSError:  # typed at a prompt
        return "without a file"


def write(path: Path, found: StatementCertificate) -> Path:
    """Write a certificate file, atomically, with where it comes from."""
    parts = [written_proof(*part) for part in found.parts]
    held = {"format": FORMAT, "question": dict(found.question), "parts": parts}
    return write_json(path, {**held, "provenance": provenance()})


def load(path: Path | str) -> StatementCertificate:
    """Read a certificate file, which may come from anyone.

    Raises
    ------
    DataFileError
        A file that is not there, too large, or no JSON.
    InvalidInput
        No certificate of a statement.
    """
    held, label = read(path), str(path)
    question, parts = table_of(held, "question", label), held.get("parts")
    if (
        question.get("kind") != KIND or not isinstance(parts, list)
        or not all(isinstance(p, dict) for p in parts)
    ):
        raise InvalidInput(
            f"{label}: a certificate of a statement has 'kind': 'statement' and a list of parts"
        )
    words, numbers = (
        {n: v for n, v in question.items() if (n in MORE) is more} for more in (False, True)
    )
    if set(words) != set(ASKED) or not all(isinstance(value, str) for value in words.values()):
        raise InvalidInput(
            f"{label}: the question of a statement has {', '.join(ASKED)}, words each, and "
            f"{', '.join(MORE)}"
        )
    if not STATEMENT.fullmatch(words["statement"]):  # the name of a file would be run
        raise InvalidInput(
            f"{label}: statement {words['statement'][:60]!r}: a paper and a statement are named, "
            "as paper/lemma-4"
        )
    tables = {n: v if n == "free" and isinstance(v, list) else [v] for n, v in numbers.items()}
    if (
        isinstance(numbers.get("free"), dict)
        or not all(isinstance(t, dict) for v in tables.values() for t in v)
    ):
        raise InvalidInput(
            f"{label}: {', '.join(MORE)}: tables of numbers by their names, of free "
            "ones a list of such"
        )
    return StatementCertificate(question, tuple(read_proof(part, label) for part in parts))


def asked_of(
    found: StatementCertificate, statement: Any
) -> tuple[Any, list[Case], list[dict[str, Fraction]]]:
    """The statement under the certificate's rule, with the numbers given, its cases, and the
    constants of each.

    Raises
    ------
    InvalidInput, UnknownName
        Another statement, no such form; numbers that it does not leave open.
    NotCertified
        A free constant that is negative; it cannot be for what it says.
    """
    q = found.question
    form, rule = (str(q.get(name)) for name in ("form", "rule"))
    if q.get("statement") != statement.id or rule not in statement.variants:
        raise InvalidInput(
            f"it is about {q.get('statement')}, {rule} rule, and not about {statement.id}"
        )
    statement.variants[rule].form(form)
    of = statement.variants[rule].at(**q.get("given", {}))
    setting = MethodSetting.of(of)
    known = {n: fraction(v, n) for n, v in q.get("constants", {}).items()}
    free = [{n: fraction(v, n) for n, v in one.items()} for one in q.get("free", [])]
    every = scopes(setting)
    view = view_of(setting, *every[-1][0])
    families(of, view, form)  # which declares them
    counts = sorted({len(one) for one in every})
    if (
        (free and len(free) not in counts) or set(known) - set(view.constants)
        or set().union(*free) - view.left_free
    ):
        has = f"{' or '.join(map(str, counts))} cases"
        raise InvalidInput(
            f"{statement.id} [{form}] has {has}, and the constants "
            f"{', '.join(view.constants) or 'none'}"
        )
    cases = cases_of(of, form, str(q.get("for")), known, free)
    constants = [{**known, **one} for one in free or [{}] * len(cases)]
    if negative := next(
        (
            f"{n} = {brief(v)}" for one in constants for n, v in one.items()
            if n in view.left_free and v < 0
        ),
        ""
    ):
        raise NotCertified(f"{negative} < 0: a free constant is a number >= 0")
    return of, cases, constants


def told_of(found: StatementCertificate, statement: Any) -> tuple[str, str]:
    """(for what it is proved, with the numbers given and the constants; what a potential says of
    runs, or '')."""
    of, cases, constants = asked_of(found, statement)
    form = str(found.question["form"])
    with_these = [[*of.given.items(), *one.items()] for one in constants]
    every = [", ".join(f"{n} = {brief(v)}" for n, v in one) for one in with_these if one]
    words = str(found.question["for"]) + f", with {' or '.join(dict.fromkeys(every))}" * bool(every)
    return words, followed(of, form, cases, constants)


def verify(found: StatementCertificate, statement: Any) -> None:
    """Check it in fractions, in at most `MOST_SECONDS` of processor time.

    Raises
    ------
    InvalidInput, UnknownName
        Another statement, no such form.
    NotCertified
        What is wrong with the proof.
    """
    with ended_within(
        MOST_SECONDS, "checking it in fractions", "take a certificate of fewer rounds"
    ):
        of, cases, constants = asked_of(found, statement)
        form = str(found.question["form"])
        every = [family for family, _ in _families(of, form, cases, constants)]
        if len(every) != len(found.parts):
            raise InvalidInput(
                f"it has {len(found.parts)} parts: {statement.id} [{form}] consists of "
                f"{len(every)} inequalities"
            )
        for family, (multipliers, factors) in zip(every, found.parts, strict=True):
            check_identity(family, multipliers, factors)


def _families(
    of: Any, form: str, cases: list[Case], constants: list[dict[str, Fraction]]
) -> list[tuple[Family, Any]]:
    """Every inequality of a form, and the world that it is about."""
    setting = MethodSetting.of(of)
    views = [
        view_of(setting, *case).other(values) for case, values in zip(cases, constants, strict=True)
    ]
    return [(family, view.world) for view in views for family in families(of, view, form)]


def write_proofs(path: Path, found: StatementCertificate, statement: Any) -> list[Path]:
    """Write the proofs to be read, NAME.tex or NAME.py: one file for every inequality, NAME-1,
    NAME-2 where there are several.

    Raises
    ------
    InvalidInput
        Another ending.
    """
    form = str(found.question.get("form"))
    of, cases, constants = asked_of(found, statement)
    made = _families(of, form, cases, constants)
    several, out = len(made) > 1, list[Path]()
    for i, ((family, world), (multipliers, factors)) in enumerate(
        zip(made, found.parts, strict=True), 1
    ):
        title = f"{statement.id} [{form}]" + f", inequality {i} of {len(made)}" * several
        points = list(world.run.points.values())
        named = {name for of in family.names.values() for name in of}
        if X_STAR not in named and all(p.at.mean.get(X_STAR) == 1 for p in points):
            # wherever the origin is
            points = [replace(p, at=p.at - common(X_STAR)) for p in points]
        proved, each = f"Proved for {told_of(found, statement)[0]}.", isinstance(world, CohortWorld)
        proved += " The last number of q1.0 and the like is the client's." * each
        one = each or world.num_clients == 1
        proof = Readable(title, proved, world.losses, points, family, multipliers, factors, one)
        out.append(write_proof(path.with_stem(f"{path.stem}-{i}") if several else path, proof))
    return out
