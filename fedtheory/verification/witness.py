"""Witnesses: small files that hold an instance on which a statement fails, replayed in exact rational arithmetic."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.provenance import write_json
from fedtheory.theorems.fedelasticnet.exact import Instance, RationalState, exact_array
from fedtheory.theorems.fedmls import exact as fedmls_rational
from fedtheory.theorems.fedmls.exact import MLSWitness
from fedtheory.verification import rational as efl_rational
from fedtheory.verification.rational import EFLWitness
from fedtheory.verification.statement import Check, Form, Sides, Statement, get
from fedtheory.verification.verify import check_view

__all__ = ["Witness", "builtin_witnesses", "exact_check", "load", "replay", "save"]

FORMAT = "fedtheory witness, version 1"
MAX_BYTES = 1_000_000
MAX_ROUNDS = 2000


@dataclass(frozen=True)
class Witness:
    """An instance of diagonal quadratics L_k(x) = sum_i h_ki (x_i - c_ki)^2/2 on which one form of a statement fails.

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
    lhs, rhs : the claimed sides where the violation is worst (for equalities the largest difference, and 0)
    found_by, provenance : how it was found; not part of the claim
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

    @property
    def reachable(self) -> bool:
        """Whether the state is that of a real run started at g_k = 0."""
        return self.state is None

    @property
    def name(self) -> str:
        """File name without extension."""
        paper, statement = self.statement.split("/")
        text = f"{paper}-{statement}-{self.form}-{self.rule}".lower().replace("=", "is")
        return re.sub(r"[^a-z0-9.]+", "-", text).strip("-")

    def __str__(self) -> str:
        m, d = sum(self.copies or [1] * len(self.h)), len(self.h[0])
        starts = f", {len(self.x0)} starts" if isinstance(self.x0[0], list) else ""
        when = f"T = {self.T}{starts}" if self.T is not None else "one round" + ("" if self.reachable else " from an arbitrary state")
        return f"{self.statement} [{self.form}, {self.rule} rule]: m = {m}, P = {self.P}, d = {d}, {when}"


_REQUIRED = ("statement", "form", "rule", "h", "c", "lambda1", "lambda2", "P", "x0", "lhs", "rhs")


def save(witness: Witness | MLSWitness | EFLWitness, path: Path | str) -> Path:
    """Write a witness as JSON, whole or not at all."""
    if isinstance(witness, EFLWitness):
        return write_json(path, {"format": FORMAT, **witness.to_json()})
    content = {k: v for k, v in asdict(witness).items() if v is not None}
    return write_json(path, {"format": FORMAT, **content})


def load(path: Path | str) -> Witness | MLSWitness | EFLWitness:
    """Read a witness file. It is checked for form only; `replay` decides whether it is true.

    Raises
    ------
    DataFileError
        Missing, not JSON, truncated, of another format, with missing or unknown fields.
    """
    if not isinstance(path, str | Path):
        raise InvalidInput(f"path = {path!r}: give the name of a witness file")
    path = Path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataFileError(f"{path}: {path.stat().st_size} bytes; a witness file has at most {MAX_BYTES}")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataFileError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{path}: cannot be read as text ({error})") from error
    return _parse(text, str(path))


def _parse(text: str, label: str) -> Witness | MLSWitness | EFLWitness:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataFileError(f"{label}: not JSON, or truncated (line {error.lineno}: {error.msg})") from error
    if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
        raise DataFileError(f'{label}: not a witness file; its "format" must be "{FORMAT}"')
    if "efl" in data:
        return efl_rational.parse(data, label)
    if "variant" in data:
        return fedmls_rational.parse(data, label)
    missing = [k for k in _REQUIRED if k not in data]
    unknown = sorted(set(data) - set(Witness.__dataclass_fields__))
    if missing or unknown:
        what = [f"{word}: {', '.join(names)}" for word, names in (("missing", missing), ("unknown", unknown)) if names]
        raise DataFileError(f"{label}: wrong fields ({'; '.join(what)})")
    for key in ("statement", "form", "rule", "lambda1", "lambda2", "lhs", "rhs"):
        if not isinstance(data[key], str):
            raise DataFileError(f"{label}: {key} is {data[key]!r}; write it as a string, for example \"1/2\"")
    for key in ("h", "c", "x0"):
        if not isinstance(data[key], list):
            raise DataFileError(f"{label}: {key} is {data[key]!r}; expected a list")
    return Witness(**data)


def instance_of(witness: Witness) -> Instance:
    """The exact instance. Raises `InvalidInput` as `Instance.exact` does."""
    w = witness
    return Instance.exact(w.h, w.c, w.lambda1, w.lambda2, w.P, w.rule, w.x0, w.copies)


def _state_of(witness: Witness, instance: Instance) -> RationalState:
    if (witness.cohorts is None) == (witness.state is None):
        raise InvalidInput("a witness about one round has either cohorts (of the rounds before it) or a state, not both")
    if witness.cohorts is not None:
        if not isinstance(witness.cohorts, list) or not all(isinstance(c, list) for c in witness.cohorts):
            raise InvalidInput(f"cohorts = {witness.cohorts!r}: expected a list of lists of client numbers")
        return instance.after(witness.cohorts)
    if not isinstance(witness.state, dict) or set(witness.state) != {"theta", "stored", "local"}:
        raise InvalidInput("state: expected the fields theta (d), stored (m, d) and local (m, d)")
    theta, stored, local = (exact_array(witness.state[k]) for k in ("theta", "stored", "local"))
    m, d = instance.m, instance.d
    if theta.shape != (d,) or stored.shape != (m, d) or local.shape != (m, d):
        raise InvalidInput(
            f"state: theta {theta.shape}, stored {stored.shape}, local {local.shape}; expected ({d},), ({m}, {d}), ({m}, {d})"
        )
    return RationalState(theta[None], stored.sum(axis=0)[None] / Fraction(m), stored[None], local[None])


def _assumptions(statement: Statement, form: Form, witness: Witness, instance: Instance) -> None:
    if form.sides is None:
        raise InvalidInput(f"{statement.id} [{form.name}] is an identity without data: it cannot have a witness")
    if witness.rule not in form.established:
        raise InvalidInput(f"{statement.id} [{form.name}] is not claimed for the {witness.rule} rule")
    if not instance.lambda1 > 0:
        raise InvalidInput(f"lambda_1 = {instance.lambda1} is not above 0, as Algorithm 3 asks: the assumptions of {statement.id} fail")
    ratio = instance.lambda2 / instance.losses.beta
    least = max(form.threshold or 0, statement.witness_threshold)
    if not ratio > Fraction(least):
        raise InvalidInput(f"lambda_2/beta = {ratio} is not above {least:.6g}: the assumptions of {statement.id} fail")


def worst_sides(sides: Sides) -> tuple[Fraction, Fraction, Fraction]:
    """(lhs, rhs, scale) where rhs - lhs is least, exactly."""
    entries = list(zip(*(np.asarray(a).ravel() for a in (sides.lhs, sides.rhs, sides.scale)), strict=True))
    lhs, rhs, scale = min(entries, key=lambda e: e[1] - e[0])
    return Fraction(lhs), Fraction(rhs), Fraction(scale)


def _uses_own_anchor(sides: Any, view: Any) -> bool:
    """Whether a form needs what a view of merged clients leaves out."""
    try:
        sides(view)
    except TypeError:  # arithmetic with None
        return True
    return False


def exact_check(witness: Witness) -> tuple[Check, Fraction, Fraction, Fraction]:
    """Run the form on the witness's instance in exact arithmetic, whatever it claims: the check, then lhs, rhs, scale.

    Raises
    ------
    UnknownName
        The statement or form does not exist.
    InvalidInput
        The instance is malformed or outside the assumptions of the form.
    """
    statement = get(witness.statement)
    form = statement.form(witness.form)
    instance = instance_of(witness)
    _assumptions(statement, form, witness, instance)
    if statement.scope == "run":
        if not isinstance(witness.T, int) or isinstance(witness.T, bool) or not 1 <= witness.T <= MAX_ROUNDS:
            raise InvalidInput(f"horizon T = {witness.T!r}: expected an integer between 1 and {MAX_ROUNDS}")
        view: Any = instance.run_view(witness.T)
        form_sides = form.sides
        if view.inner_own is None and _uses_own_anchor(form_sides, view):
            what = f"{statement.id} [{form.name}] is about models anchored at theta_k"
            raise InvalidInput(f"{what}: write the merged clients out")

        def last(run: Any) -> Sides:
            whole = form_sides(run)  # type: ignore[misc]
            return Sides(*(np.asarray(a)[-1:] for a in (whole.lhs, whole.rhs, whole.scale)), whole.relation)

        check = check_view(statement, form, view, witness.rule, str(witness), sides=last)
        check.where["T"] = witness.T
        return check, *worst_sides(last(view))
    view = instance.round_view(_state_of(witness, instance))
    check = check_view(statement, form, view, witness.rule, str(witness))
    return check, *worst_sides(form.sides(view))  # type: ignore[misc]


def replay(witness: Witness | Path | str) -> Check:
    """Recompute everything in rational arithmetic: the run, the assumptions, both sides.

    Returns
    -------
    Check
        With verdict 'violated' and mode 'rational'.

    Raises
    ------
    InvalidInput
        The data do not violate the statement, or the sides are not the claimed ones.
    DataFileError, UnknownName
        As `load` and `theorems.get` raise them.
    """
    if not isinstance(witness, Witness | MLSWitness | EFLWitness):
        witness = load(witness)
    if isinstance(witness, EFLWitness):
        return efl_rational.replay(witness)
    if isinstance(witness, MLSWitness):
        return fedmls_rational.replay(witness)
    check, lhs, rhs, _ = exact_check(witness)
    if check.verdict != "violated":
        raise InvalidInput(f"not a witness: {witness.statement} [{witness.form}] holds here, {float(lhs):.6g} <= {float(rhs):.6g}")
    claimed = exact_array([witness.lhs, witness.rhs])
    if (lhs, rhs) != tuple(claimed):
        raise InvalidInput(
            f"the witness claims lhs = {float(claimed[0]):.12g}, rhs = {float(claimed[1]):.12g}, but its data give "
            f"{float(lhs):.12g} and {float(rhs):.12g}: it was changed after it was found"
        )
    return check


def builtin_witnesses(paper: str = "fedelasticnet") -> list[Any]:
    """All witnesses that come with the package, by name, about one paper: the name of a folder of `fedtheory.theorems`."""
    folder = resources.files(f"fedtheory.theorems.{paper}") / "witnesses"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".json")), key=lambda f: f.name)
    return [_parse(f.read_text(encoding="utf-8"), f.name) for f in files]
