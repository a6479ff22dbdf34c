"""A certificate of a statement: what is proved of it for all losses of its class, in a file.

The check writes the identities down anew from the statement's own file, and asks of the numbers
what every certificate is asked for. No solver is needed, and none is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.limits import ended_within
from fedtheory.provenance import provenance, write_json
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.vectors import Proved, about, cases, families, view_of
from fedtheory.worst_cases.certificates import (
    FORMAT,
    MOST_SECONDS,
    check_identity,
    read,
    read_proof,
    table_of,
    written_proof,
)
from fedtheory.worst_cases.gram import common
from fedtheory.worst_cases.identity import Factors
from fedtheory.worst_cases.readable import Readable, write_proof
from fedtheory.worst_cases.runs import X_STAR

__all__ = ["KIND", "StatementCertificate", "certificate", "load", "verify", "write", "write_proofs"]

KIND = "statement"
ASKED = ("kind", "statement", "form", "rule", "for", "source")


@dataclass(frozen=True)
class StatementCertificate:
    """A form of a statement, with the proof of every inequality that it consists of.

    Attributes
    ----------
    question : dict with 'kind' ('statement'), 'statement', 'form', 'for' (in words), and 'source'
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
    if question.get("kind") != KIND or not isinstance(parts, list) or not all(isinstance(p, dict) for p in parts):
        raise InvalidInput(f"{label}: a certificate of a statement has 'kind': 'statement' and a list of parts")
    if set(question) != set(ASKED) or not all(isinstance(value, str) for value in question.values()):
        raise InvalidInput(f"{label}: the question of a statement has {', '.join(ASKED)}, words each, and nothing else")
    return StatementCertificate(question, tuple(read_proof(part, label) for part in parts))


def verify(found: StatementCertificate, statement: Any) -> None:
    """Check it in fractions, in at most `MOST_SECONDS` of processor time.

    Raises
    ------
    InvalidInput, UnknownName
        Another statement, no such form.
    NotCertified
        What is wrong with the proof.
    """
    form, rule = (str(found.question.get(name)) for name in ("form", "rule"))
    if found.question.get("statement") != statement.id or rule not in statement.variants:
        raise InvalidInput(f"it is about {found.question.get('statement')}, {rule} rule, and not about {statement.id}")
    of = statement.variants[rule]
    of.form(form)
    setting = MethodSetting.of(of)
    with ended_within(MOST_SECONDS, "checking it in fractions", "take a certificate of fewer rounds"):
        if (words := about(of, form)) != found.question.get("for"):
            raise NotCertified(f"it says that it is for {found.question.get('for')}: it can be for {words}")
        every = [family for case in cases(setting) for family in families(of, view_of(setting, *case), form)]
        if len(every) != len(found.parts):
            raise InvalidInput(f"it has {len(found.parts)} parts: {statement.id} [{form}] consists of {len(every)} inequalities")
        for family, (multipliers, factors) in zip(every, found.parts, strict=True):
            check_identity(family, multipliers, factors)


def write_proofs(path: Path, found: StatementCertificate, statement: Any) -> list[Path]:
    """Write the proofs to be read, NAME.tex or NAME.py: one file for every inequality, NAME-1, NAME-2 where there are several.

    Raises
    ------
    InvalidInput
        Another ending.
    """
    form = str(found.question.get("form"))
    of = statement.variants[str(found.question.get("rule"))]
    setting, made = MethodSetting.of(of), list[tuple[Any, Any]]()
    for case in cases(setting):
        view = view_of(setting, *case)
        made += [(view.world, family) for family in families(of, view, form)]
    several, out = len(made) > 1, list[Path]()
    for i, ((world, family), (multipliers, factors)) in enumerate(zip(made, found.parts, strict=True), 1):
        title = f"{statement.id} [{form}]" + f", inequality {i} of {len(made)}" * several
        points, named = list(world.run.points.values()), {name for of in family.names.values() for name in of}
        if X_STAR not in named and all(p.at.mean.get(X_STAR) == 1 for p in points):  # nothing depends on where the origin is
            points = [replace(p, at=p.at - common(X_STAR)) for p in points]
        told, one = f"Proved for {found.question.get('for')}.", world.num_clients == 1
        proof = Readable(title, told, world.losses, points, family, multipliers, factors, one)
        out.append(write_proof(path.with_stem(f"{path.stem}-{i}") if several else path, proof))
    return out
