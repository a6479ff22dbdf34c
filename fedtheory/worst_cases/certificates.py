"""A certificate file: what was asked, the multipliers, and L D L' of every block, all in fractions.

The check reads the question from the file, writes the identity down anew from the method, and asks
three things of the numbers: no multiplier is negative, values of losses and constants cancel, and L
D L' with D >= 0 is the matrix that is left. No solver is needed, and none is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

from fedtheory.algorithms.base import Algorithm
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.inputs import file_path, require
from fedtheory.limits import announce, ended_within
from fedtheory.provenance import provenance, write_json
from fedtheory.rational import brief, fraction, integer
from fedtheory.untrusted import read_json
from fedtheory.worst_cases.bounds import BOUND, Question, WorstCase, asked, family
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.groups import Group
from fedtheory.worst_cases.identity import Factors, Family, left_over, matrices
from fedtheory.worst_cases.quadratic_potentials import PotentialQuestion, QuadraticPotential, potential_question

__all__ = ["FORMAT", "Certificate", "asked_question", "certificate", "in_words", "is_certificate", "load", "text", "verify", "write"]

FORMAT = "fedtheory certificate 1"
ASKED = frozenset(
    {
        "kind", "method", "source", "local steps", "rounds", "criterion", "criterion source", "options", "heterogeneity",
        "distance", "clients", "participants",
    }
)
OF_LOSSES = frozenset({"smoothness", "strong convexity", "lipschitz"})
OF_A_GROUP = OF_LOSSES | {"share", "clients"}
ASKED_OF_A_QUADRATIC = frozenset({
    "kind", "method", "source", "local steps", "options", "clients", "participants", "values",
})  # fmt: skip
QUADRATIC = "quadratic potential"
MOST_BYTES, MOST_SECONDS = 2_000_000, 60
CHECKED = 1.4e-4  # seconds: times the power 3/2 of the multipliers (measured, one core)
_A_CERTIFICATE = "use a Certificate, what certificate(...) or load(...) returned"
MOST = 10_000  # multipliers, rounds or clients of a file


@dataclass(frozen=True)
class Certificate:
    """A bound with its proof.

    Attributes
    ----------
    question : dict with 'kind' ('worst-case' or 'quadratic potential') and what was asked
    claim : dict of the numbers that are proved: 'bound', or 'rho' and 'c'
    multipliers : dict name -> number
    factors : dict block -> `Factors`
    """

    question: Mapping[str, Any]
    claim: Mapping[str, Fraction]
    multipliers: Mapping[str, Fraction]
    factors: Mapping[str, Factors]


def certificate(found: WorstCase | QuadraticPotential) -> Certificate:
    """The certificate of what was computed.

    Raises
    ------
    InvalidInput
        Neither a `WorstCase` nor a `QuadraticPotential`.
    """
    made = "use what worst_case(...) or quadratic_potential(...) returned"
    require(isinstance(found, WorstCase | QuadraticPotential), "found", found, made)
    numbers = found.solution.numbers
    if isinstance(found, QuadraticPotential):
        question = {"kind": QUADRATIC, **found.question.asked, "values": found.valued}
        claim = {"rho": found.rho, "c": found.c}
        return Certificate(question, claim, numbers, found.solution.factors)
    return Certificate({"kind": "worst-case", **found.asked}, {"bound": found.bound}, numbers, found.solution.factors)


def verify(
    found: Certificate, method: type[Algorithm] | None = None, criterion: Any = None
) -> None:
    """Check it in fractions, in at most `MOST_SECONDS` of processor time.

    method, criterion : the class and the function, where they are none of the package's

    Raises
    ------
    InvalidInput
        No `Certificate`; a question that is none.
    NotCertified
        What is wrong with the proof.
    """
    require(isinstance(found, Certificate), "found", found, _A_CERTIFICATE)
    count = len(found.multipliers)
    announce(f"{count:,} multipliers to check in fractions", CHECKED * count**1.5)
    with ended_within(MOST_SECONDS, "checking it in fractions", "take a certificate with fewer or shorter numbers"):
        _verify(found, method, criterion)


def _verify(found: Certificate, method: type[Algorithm] | None, criterion: Any) -> None:
    if found.question.get("kind") == QUADRATIC:
        _verify_quadratic(found, method)
        return
    check_identity(family(asked_question(found.question, method, criterion)), found.multipliers, found.factors)
    claimed = {"bound": -found.multipliers.get(BOUND, Fraction(0))}
    if dict(found.claim) != claimed:
        raise NotCertified(f"the file claims {_written(found.claim)}, its multipliers say {_written(claimed)}")


def _verify_quadratic(found: Certificate, method: type[Algorithm] | None) -> None:
    _only(found.question, ASKED_OF_A_QUADRATIC | _names_of_losses(found.question))
    question, rho, valued = found.question, found.claim.get("rho"), found.question.get("values")
    if rho is None or set(found.claim) != {"rho", "c"} or not isinstance(valued, bool):
        raise InvalidInput("a quadratic potential claims rho and c, and says whether it has values of F")
    q = quadratic_question(question, method)
    s = found.multipliers.get("s", Fraction(0))
    if s <= 0 or found.claim["c"] != found.multipliers.get("c", Fraction(0)) / s:
        raise NotCertified("V is at least s ||x - x*||^2 for no s > 0, or c is another one")
    check_identity(q.family(rho, valued), found.multipliers, found.factors)


def quadratic_question(
    question: Mapping[str, Any], method: type[Algorithm] | None = None
) -> PotentialQuestion:
    """Read the question of a quadratic potential from a file.

    Raises
    ------
    InvalidInput
        A question that is none.
    """
    counts = {name: integer(question.get(name), name, 1, MOST) for name in ("local steps", "clients", "participants")}
    return potential_question(
        _method(question, method), _options(question), losses=_losses(question),
        **{name.replace(" ", "_"): count for name, count in counts.items()},
    )  # fmt: skip


def check_identity(
    identity: Family, multipliers: Mapping[str, Fraction], factors: Mapping[str, Factors]
) -> None:
    """Check in fractions that the multipliers leave a sum of squares.

    Raises
    ------
    InvalidInput, NotCertified
        A multiplier of no condition, a negative one, what has not cancelled, another matrix.
    """
    unknown = sorted(set(multipliers) - set(identity.terms))
    if unknown:
        raise InvalidInput(f"multipliers of {', '.join(unknown[:3])}: the identity has no such condition")
    left = left_over(identity, multipliers)
    for block, x, y in left.gram:
        if block not in factors or not {x, y} <= set(factors[block].names):
            raise NotCertified(f"<{x}, {y}> of the block {block!r} is left over")
    wanted = matrices(left, {block: of.names for block, of in factors.items()})
    for block, of in factors.items():
        if min(of.diagonal, default=Fraction(0)) < 0:
            raise NotCertified(f"a diagonal entry of the block {block!r} is {brief(min(of.diagonal))} < 0")
        if of.product() != wanted[block]:
            raise NotCertified(f"L D L' of the block {block!r} is not the matrix of the identity")


def _written(numbers: Mapping[str, Fraction]) -> str:
    return ", ".join(f"{name} = {brief(number)}" for name, number in numbers.items())


def asked_question(
    question: Mapping[str, Any], method: type[Algorithm] | None = None, criterion: Any = None
) -> Question:
    """Read the question of a file.

    method, criterion : the class and the function, where they are none of the package's

    Raises
    ------
    InvalidInput
        A question that is none.
    """
    if question.get("kind") != "worst-case":
        old = " (constants of one round are forms of `one-round` now)" if question.get("kind") == "potential" else ""
        raise InvalidInput(f"kind {question.get('kind')!r}: it must be 'worst-case' or '{QUADRATIC}'{old}")
    _only(question, ASKED | _names_of_losses(question))
    options = _options(question)
    counts = {name: integer(question.get(name), name, 1, MOST) for name in ("local steps", "rounds", "clients", "participants")}
    zeta = question.get("heterogeneity")
    found = asked(
        _method(question, method), options, losses=_losses(question), criterion=_criterion(question, criterion),
        distance=fraction(question.get("distance"), "distance"),
        **{name.replace(" ", "_"): count for name, count in counts.items()},
    )
    return replace(found, heterogeneity=None if zeta is None else fraction(zeta, "heterogeneity"))


def _names_of_losses(question: Mapping[str, Any]) -> frozenset[str]:
    """The names by which a question may describe its losses."""
    return frozenset({"groups"}) if "groups" in question else OF_LOSSES


def _losses(question: Mapping[str, Any]) -> Losses | list[Group]:
    """The class, or the groups of clients, that a question is about."""
    return _groups(question) if "groups" in question else _class(question)


def _class(of: Mapping[str, Any]) -> Losses:
    """The class that a question, or a group in it, is about."""
    smoothness, lipschitz = (of.get(name) for name in ("smoothness", "lipschitz"))
    return Losses(
        None if smoothness is None else fraction(smoothness, "smoothness"),
        fraction(of.get("strong convexity", "0"), "strong convexity"),
        None if lipschitz is None else fraction(lipschitz, "lipschitz"),
    )


def _groups(question: Mapping[str, Any]) -> list[Group]:
    """The groups of clients that a question is about."""
    table = table_of(question, "groups", "question")
    if not all(isinstance(of, dict) for of in table.values()):
        raise InvalidInput("groups: a table of names and numbers is needed for each")
    for of in table.values():
        _only(of, OF_A_GROUP)
    return [
        Group(fraction(of.get("share"), "share"), _class(of), integer(of.get("clients"), "clients", 1, MOST))
        for of in table.values()
    ]


def _method(question: Mapping[str, Any], method: type[Algorithm] | None) -> Any:
    """The class that is given, or the name of one of the package."""
    if method is None and question.get("source"):
        raise InvalidInput(f"it is about {question['source']}: give the method's class, or --method FILE.py:CLASS")
    if method is None and not isinstance(question.get("method"), str):
        raise InvalidInput(f"method {question.get('method')!r}: the name of a method is needed")
    return method or question["method"]


def _criterion(question: Mapping[str, Any], criterion: Any) -> Any:
    """The function that is given, or the name of a criterion."""
    if criterion is None and question.get("criterion source"):
        raise InvalidInput(f"it is about {question['criterion source']}: give the function, or --criterion FILE.py:FUNCTION")
    return criterion or str(question.get("criterion"))


def _options(question: Mapping[str, Any]) -> dict[str, Any]:
    options = question.get("options")
    if not isinstance(options, dict):
        raise InvalidInput("options: a table of names and numbers is needed")
    return {str(name): _option(str(name), value) for name, value in options.items()}


def _option(name: str, value: Any) -> Any:
    """A hyperparameter of a file: a number is written as a fraction."""
    if isinstance(value, str) and any(c.isdigit() for c in value):
        return fraction(value, name)
    return inf if value == "inf" else value


def _only(question: Mapping[str, Any], names: frozenset[str]) -> None:
    """Refuse what a question has besides: it would be told with the proof, and is not proved."""
    other = sorted(set(question) - names)
    if other:
        raise InvalidInput(f"question: {', '.join(map(str, other[:3]))}: no part of it; there are {', '.join(sorted(names))}")


# --- files ----------------------------------------------------------------------------------------
def write(path: Path | str, found: Certificate) -> Path:
    """Write a certificate file, atomically, with where it comes from.

    Raises
    ------
    InvalidInput
        No path; no `Certificate`.
    """
    path = file_path("path", path, "the certificate file to write")
    require(isinstance(found, Certificate), "found", found, _A_CERTIFICATE)
    return write_json(
        path,
        {
            "format": FORMAT, "question": {k: text(v) for k, v in found.question.items()},
            "claim": {k: str(v) for k, v in found.claim.items()},
            **written_proof(found.multipliers, found.factors), "provenance": provenance(),
        },
    )  # fmt: skip


def written_proof(
    multipliers: Mapping[str, Fraction], factors: Mapping[str, Factors]
) -> dict[str, Any]:
    """Multipliers and L D L' as a file has them."""
    return {
        "multipliers": {k: str(v) for k, v in multipliers.items()},
        "factors": {
            block: {
                "names": list(of.names),
                "lower": [[str(x) for x in row[:i]] for i, row in enumerate(of.lower)],
                "diagonal": [str(x) for x in of.diagonal],
            } for block, of in factors.items()
        },
    }  # fmt: skip


def read_proof(held: Mapping[str, Any], label: str) -> tuple[dict[str, Fraction], dict[str, Factors]]:
    """Multipliers and L D L' of a file, which may come from anyone.

    Raises
    ------
    InvalidInput
        Tables that are none.
    """
    multipliers, factors = (table_of(held, name, label) for name in ("multipliers", "factors"))
    blocks = {str(block): _factors(block, of) for block, of in factors.items()}
    return {str(k): fraction(v, str(k)) for k, v in multipliers.items()}, blocks


def table_of(held: Mapping[str, Any], name: str, label: str) -> dict[Any, Any]:
    """A table of a file by its name."""
    table = held.get(name)
    if not isinstance(table, dict) or len(table) > MOST:
        raise InvalidInput(f"{label}: {name} must be a table of at most {MOST} entries")
    return table


def read(path: Path | str) -> dict[str, Any]:
    """The fields of a certificate file.

    Raises
    ------
    DataFileError
        A file that is not there, too large, or no JSON.
    InvalidInput
        No certificate.
    """
    path = file_path("path", path, "a certificate file")
    held = read_json(path, MOST_BYTES, "a certificate")
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        said = held.get("format") if isinstance(held, dict) else None
        raise InvalidInput(f"{path}: its format is {str(said)[:40]!r}, this version of fedtheory reads {FORMAT!r}")
    return held


def text(value: Any) -> Any:
    """Return a value as JSON holds it: fractions as text."""
    if isinstance(value, Mapping):
        return {name: text(x) for name, x in value.items()}
    if isinstance(value, list):
        return [text(x) for x in value]
    return str(value) if isinstance(value, Fraction) or value == inf else value


def in_words(question: Mapping[str, Any]) -> str:
    """A question in one line."""
    told = {name: value for name, value in question.items() if name not in ("groups", "options") and value is not None}
    told |= {} if "source" not in told else {"source": str(told["source"]).partition(", sha256")[0]}
    told |= question.get("options") or {}
    for i, of in question.get("groups", {}).items():
        told[f"group {i}"] = " ".join(f"{name} {value}" for name, value in of.items() if value is not None)
    return ", ".join(f"{name}: {value}" for name, value in told.items())


def is_certificate(path: Path) -> bool:
    """True if a file says that it is one."""
    if not path.is_file():  # a pipe can be read once only
        return False
    try:
        with path.open("rb") as file:
            return FORMAT.rpartition(" ")[0].encode() in file.read(400)
    except OSError:
        return False


def load(path: Path | str) -> Certificate:
    """Read a certificate file, which may come from anyone.

    Raises
    ------
    DataFileError
        A file that is not there, too large, or no JSON.
    InvalidInput
        No certificate.
    """
    held, label = read(path), str(path)
    claim = {str(k): fraction(v, str(k)) for k, v in table_of(held, "claim", label).items()}
    return Certificate(table_of(held, "question", label), claim, *read_proof(held, label))


def _factors(block: Any, of: Any) -> Factors:
    if not isinstance(of, dict) or not all(isinstance(of.get(name), list) for name in ("names", "lower", "diagonal")):
        raise InvalidInput(f"factors of {block!r}: names, lower and diagonal are needed, lists each")
    n, names = len(of["names"]), tuple(map(str, of["names"]))
    if len(set(names)) != n or len(of["lower"]) != n or len(of["diagonal"]) != n:
        raise InvalidInput(f"factors of {block!r}: one row and one diagonal entry for every name, no name twice")
    rows = []
    for i, row in enumerate(of["lower"]):
        if not isinstance(row, list) or len(row) != i:
            raise InvalidInput(f"factors of {block!r}: row {i} has the {i} entries left of the diagonal")
        rows.append(tuple([*(fraction(x, "lower") for x in row), Fraction(1), *[Fraction(0)] * (n - i - 1)]))
    return Factors(names, tuple(rows), tuple(fraction(x, "diagonal") for x in of["diagonal"]))
