"""Witnesses of this paper: an instance of diagonal quadratics in fractions, checked before anything is computed from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.rational import fraction
from fedtheory.theory import Witness, derived
from fedtheory.theory.judge.replay import check_fields

__all__ = ["MERGED", "DiagonalWitness", "as_draw", "read_version_1"]

MERGED = "identical clients"  # the kind of witnesses about many, of whom some stay away
_CLAIM = ("statement", "form", "rule", "lhs", "rhs", "found_by", "provenance")
_NEEDED = ("h", "c", "lambda1", "lambda2", "P", "x0")
_OPTIONAL = ("copies", "T", "cohorts", "state")


@dataclass(frozen=True)
class DiagonalWitness:
    """An instance of diagonal quadratics L_k(x) = sum_i h_ki (x_i - c_ki)^2/2 on which one form of a statement was judged.

    All numbers are fraction strings ('-3/7'), so that the file is the instance and not an approximation of it.

    Attributes
    ----------
    lambda1 : above 0, as Algorithm 3 asks
    h, c : m rows of d curvatures >= 0 and minimisers
    P : cohort size
    copies : how many identical clients each row of h and c stands for (default: one), for statements about runs
    x0 : d numbers, or n rows of d for n equally likely starts; the run starts there with g_k = 0
    T : horizon, for statements about runs
    cohorts : for statements about one round: the cohorts of the rounds before it (client numbers from 0); the state is the
        one they lead to, so it is reachable
    state : {'theta', 'stored', 'local'} instead of `cohorts`, where only an arbitrary state is known
    statement, form, rule, lhs, rhs, found_by, provenance : as in `Witness`
    """

    statement: str
    form: str
    rule: str
    h: list[list[str]]
    c: list[list[str]]
    lambda1: str
    lambda2: str
    P: int
    x0: list[Any]
    copies: list[int] | None = None
    T: int | None = None
    cohorts: list[list[int]] | None = None
    state: dict[str, Any] | None = None
    lhs: str = ""
    rhs: str = ""
    found_by: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_witness(cls, witness: Witness) -> DiagonalWitness:
        """From the data of a witness file, as `from_data`."""
        return cls.from_data(witness.data, witness.kind, **{k: getattr(witness, k) for k in _CLAIM})

    @classmethod
    def from_data(cls, data: dict[str, Any], kind: str, **claim: Any) -> DiagonalWitness:
        """From such data alone, and what is claimed of them, if anything.

        Raises
        ------
        InvalidInput
            Data with missing or unknown fields, numbers that are no strings, rows that are no lists.
        """
        try:
            check_fields(data, _NEEDED, _OPTIONAL, f"data of kind {kind!r}")
            _check_values(data, f"data of kind {kind!r}")
        except DataFileError as error:
            raise InvalidInput(str(error)) from error
        bare: dict[str, Any] = dict.fromkeys(_CLAIM[:3], "")
        return cls(**bare | claim, **data)

    def witness(self) -> Witness:
        """As the file of any paper's witness has it."""
        data = {k: getattr(self, k) for k in _NEEDED} | {k: v for k in _OPTIONAL if (v := getattr(self, k)) is not None}
        return Witness(kind="round" if self.T is None else "run", data=data, **{k: getattr(self, k) for k in _CLAIM})

    m = derived(lambda v: sum(v.copies or [1] * len(v.h)), "the number of clients")
    reachable = derived(
        lambda v: v.state is None, "true if the state is that of a real run started at g_k = 0"
    )
    starts = derived(
        lambda v: v.x0 if isinstance(v.x0[0], list) else [v.x0], "the equally likely starts"
    )

    @property
    def size(self) -> str:
        """The size of the instance, in words."""
        starts = f", {len(self.x0)} starts" if isinstance(self.x0[0], list) else ""
        when = f"T = {self.T}{starts}" if self.T is not None else "one round" + ("" if self.reachable else " from an arbitrary state")
        return f"m = {self.m}, P = {self.P}, d = {len(self.h[0])}, {when}"


def _check_values(data: dict[str, Any], label: str) -> None:
    """Raise `DataFileError` for fields of an instance that are of another type."""
    _check_texts(data, ("lambda1", "lambda2"), label)
    for key in ("h", "c", "x0"):
        rows = data[key]
        if not isinstance(rows, list) or not all(isinstance(r, list) for r in rows if key != "x0"):
            of = " of rows" * isinstance(rows, list)
            raise DataFileError(f"{label}: {key} is {rows!r}; expected a list{of}")
    copies, rows = data.get("copies"), len(data["h"])
    good = isinstance(copies, list) and all(type(n) is int and n >= 1 for n in copies)
    if copies is not None and (not good or len(copies) != rows):
        told = f"expected one integer >= 1 for each of the {rows} rows of h"
        raise DataFileError(f"{label}: copies = {copies!r}: {told}")


def _check_texts(fields: dict[str, Any], names: tuple[str, ...], label: str) -> None:
    for key in names:
        if not isinstance(fields[key], str):
            told = 'write it as a string, for example "1/2"'
            raise DataFileError(f"{label}: {key} is {fields[key]!r}; {told}")


def read_version_1(fields: dict[str, Any], label: str) -> Witness | None:
    """A witness from a file of version 1, where the instance's fields stand beside the claim's; None for another paper's.

    Raises
    ------
    DataFileError
        Missing or unknown fields, or fields of another type.
    """
    if not {"h", "c", "lambda1", "lambda2"} & fields.keys():
        return None
    check_fields(fields, (*_CLAIM[:5], *_NEEDED), (*_CLAIM[5:], *_OPTIONAL), label)
    _check_values(fields, label)
    _check_texts(fields, _CLAIM[:5], label)
    return DiagonalWitness(**fields).witness()


def as_draw(witness: Witness, over: str) -> Witness:
    """Give a witness the data of statements in the language of one file.

    Of a run of many identical clients, of which some stay away, they stay as they are.

    Parameters
    ----------
    over : 'run', of a statement about runs

    Raises
    ------
    InvalidInput
        Malformed data; of a round a horizon, merged clients, or not either cohorts or a state.
    """
    if witness.kind not in ("round", "run"):
        return witness
    w, kind = DiagonalWitness.from_witness(witness), witness.statement.partition("/")[2]
    if over != "run":
        if w.T is not None:
            raise InvalidInput(
                f"{w.statement} is about one round: T = {w.T} is the horizon of a run, leave it out"
            )
        if w.copies is not None:
            raise InvalidInput(f"copies = {w.copies}: merged clients are for runs; write the {w.m} clients out")
        if (w.cohorts is None) == (w.state is None):
            raise InvalidInput(
                "a witness about one round has either cohorts (of the rounds before it) or a state, not both"
            )
        fields = {"theta", "stored", "local"}
        if w.state is not None and (not isinstance(w.state, dict) or set(w.state) != fields):
            raise InvalidInput("state: expected the fields theta (d), stored (m, d) and local (m, d)")
    elif w.copies is not None and w.P < w.m:
        return replace(witness, kind=MERGED)
    many = w.copies or [1] * len(w.h)
    h, c = ([row for row, n in zip(rows, many, strict=True) for _ in range(n)] for rows in (w.h, w.c))
    beta = max(fraction(v, "h") for row in w.h for v in row)
    ratio = fraction(w.lambda2, "lambda2") / beta if beta else beta
    state = {} if w.state is None else {"state": {k: w.state[k] for k in ("stored", "local")}}
    data = {
        "h": h, "c": c, "weights": [f"1/{w.m}"] * w.m, "cohort_size": w.P,
        "start": w.x0 if w.state is None else w.state["theta"],
        "rounds": len(w.cohorts or ()) if w.T is None else w.T, "before": w.cohorts or [],
        "drawn": {"method.l1": w.lambda1, "method.l2": str(ratio)}, **state,
    }  # fmt: skip
    return replace(witness, kind=kind, data=data)
