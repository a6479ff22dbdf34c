"""Instances in fractions: the losses, the start, who takes part, and the drawn hyperparameters;
as data, and as text in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.rational import fraction, integer, to_file
from fedtheory.theory.rounds.losses import SeparableLosses, fractions
from fedtheory.theory.rounds.tables import Table, TableLosses

__all__ = ["ARRAYS", "Draw"]

ARRAYS = ("h", "c", "m", "a", "delta")


@dataclass(frozen=True, eq=False)
class Draw:
    """One instance of a statement.

    Attributes
    ----------
    h, c, m, a, delta : (N, d) object arrays of fractions, as in `fedtheory.theory.rounds.losses`
    weights : (N,)
    start : (d,); of a run (n, d) for n equally likely ones
    rounds : int
        The horizon T of a run; of a statement about a round, how many rounds were made before it.
    before : tuple of tuples of client numbers
        The cohorts of those rounds; () where all clients take part.
    cohort_size : int or None
        P, where cohorts have one size.
    drawn : dict of fractions
        What varies in the hyperparameters, by name ('lr', 'steps', 'method.mu').
    state : dict of arrays of fractions
        What may be anything in the state before the round, by name; {} where it is a run's.
    table : what the losses have at finitely many points, in place of h, c, m, a and delta, which
        are 0 then; or None
    """

    h: np.ndarray
    c: np.ndarray
    m: np.ndarray
    a: np.ndarray
    delta: np.ndarray
    weights: np.ndarray
    start: np.ndarray
    rounds: int = 0
    before: tuple[tuple[int, ...], ...] = ()
    cohort_size: int | None = None
    drawn: dict[str, Fraction] = field(default_factory=dict)
    state: dict[str, np.ndarray] = field(default_factory=dict)
    table: Table | None = None

    @property
    def num_clients(self) -> int:
        return self.c.shape[0]

    @property
    def dim(self) -> int:
        return self.c.shape[1]

    @property
    def starts(self) -> np.ndarray:
        """The equally likely starts (n, d)."""
        return np.atleast_2d(self.start)

    @cached_property
    def exact_losses(self) -> Any:
        """The losses in fractions."""
        if self.table is not None:
            return TableLosses(self.table, self.weights)
        return SeparableLosses.of(self.h, self.c, self.m, self.a, self.delta, self.weights)

    @cached_property
    def _float_losses(self) -> SeparableLosses:
        return SeparableLosses.of(
            self.h, self.c, self.m, self.a, self.delta, self.weights, exact=False
        )

    def losses(self, exact: bool) -> Any:
        """In fractions, or in floats: each fraction rounded once.

        Raises `MissingCapability`: of a table in floats, in which points are not found again.
        """
        if self.table is not None and not exact:
            raise MissingCapability("losses by a table are judged in fractions alone")
        return self.exact_losses if exact else self._float_losses

    def to_data(self) -> dict[str, Any]:
        """Everything as strings, whole numbers and lists of them; what is 0 everywhere is left
        out."""
        data = {f.name: to_file(getattr(self, f.name)) for f in fields(self) if f.name != "table"}
        if self.table is not None:
            data = {k: v for k, v in data.items() if k not in ARRAYS}
            optional = ("before", "cohort_size", "drawn", "state")
            data |= {"table": self.table.to_data()}
            return {k: v for k, v in data.items() if v or k not in optional}
        data["delta"] = [["inf" if v is None else str(v) for v in row] for row in self.delta]
        plain = {name: not data[name] for name in ("before", "cohort_size", "drawn", "state")}
        plain |= {"m": not self.m.any(), "a": not self.a.any()}
        plain["delta"] = (self.delta == None).all()  # noqa: E711 - entry by entry
        return {name: value for name, value in data.items() if not plain.get(name)}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Draw:
        """The instance a file holds.

        Raises `InvalidInput`: fields are missing, unknown, or of the wrong shape; numbers that are
        no fractions.
        """
        known = [f.name for f in fields(cls)]
        wrong = [k for k in data if k not in known]
        losses = ("table",) if "table" in data else ("h", "c")
        wrong += [k for k in ARRAYS if k in data and "table" in data]
        missing = [k for k in (*losses, "weights", "start", "rounds") if k not in data]
        if wrong or missing:
            raise InvalidInput(
                f"data of an instance: unknown {', '.join(wrong) or 'none'}, missing "
                f"{', '.join(missing) or 'none'}"
            )
        if floats := [k for k in data if k not in ("rounds", "cohort_size") and _floats(data[k])]:
            raise InvalidInput(
                f'data of an instance: {", ".join(floats)}: write fractions as strings, for '
                'example "1/10" for 0.1'
            )
        said = data.get("before", [])
        if not isinstance(said, list) or not all(isinstance(cohort, list) for cohort in said):
            raise InvalidInput(f"before = {said!r}: expected a list of lists of client numbers")
        try:
            table = Table.from_data(data["table"]) if "table" in data else None
            none_of = None if table is None else [["0"] * table.at.shape[2]] * table.at.shape[0]
            h, c = fractions(data.get("h", none_of)), fractions(data.get("c", none_of))
            zero = [["0"] * c.shape[1]] * c.shape[0]
            m, a = fractions(data.get("m", zero)), fractions(data.get("a", zero))
            none = [[None] * c.shape[1]] * c.shape[0]
            delta = fractions([
                [None if v in ("inf", None) else v for v in row] for row in data.get("delta", none)
            ])
            weights, start = fractions(data["weights"]), fractions(data["start"])
            drawn = {k: fraction(v, k) for k, v in data.get("drawn", {}).items()}
            state = {k: fractions(v) for k, v in data.get("state", {}).items()}
            before = tuple(tuple(int(k) for k in cohort) for cohort in said)
        except (TypeError, ValueError, ZeroDivisionError, AttributeError, IndexError) as error:
            raise InvalidInput(
                f'data of an instance: {error}; numbers are written as fractions, '
                'for example "-3/7"'
            ) from error
        rounds, size = integer(data["rounds"], "rounds"), data.get("cohort_size")
        size = None if size is None else integer(size, "cohort_size", 1)
        made = cls(h, c, m, a, delta, weights, start, rounds, before, size, drawn, state, table)
        made.check_shapes()
        return made

    def check_shapes(self) -> None:
        """Raise `InvalidInput` where shapes disagree, or the weights are no weights."""
        n, d = self.h.shape if self.h.ndim == 2 else (0, 0)
        shapes = {f: getattr(self, f).shape for f in ARRAYS}
        good = set(shapes.values()) == {(n, d)} and n * d > 0
        if not good or self.weights.shape != (n,) or self.starts.shape[1:] != (d,):
            raise InvalidInput(
                f"shapes {shapes}, weights {self.weights.shape}, start {self.start.shape}: "
                "expected (N, d), (N,), (d,)"
            )
        if self.weights.sum() != 1 or (self.weights < 0).any():
            raise InvalidInput(f"weights {to_file(self.weights)}: they must be >= 0 and sum to 1")
        size = self.cohort_size
        if size is not None and not 1 <= size <= n:
            raise InvalidInput(f"cohort_size = {size} of {n} clients")
        if any(k < 0 or k >= n for cohort in self.before for k in cohort):
            raise InvalidInput(f"before = {self.before}: the clients are 0 to {n - 1}")

    def changed(self, **fields: Any) -> Draw:
        """A copy with some fields changed."""
        return replace(self, **fields)

    def __str__(self) -> str:
        return self.words({})

    def words(self, numbers: Mapping[str, str]) -> str:
        """The instance in words, with the numbers that what is drawn comes to.

        ``numbers`` : by name, as `MethodSetting.words` has them; of others the drawn number is told
            as such
        """
        parts = []
        for k in range(self.num_clients) if self.table is None else ():
            terms = []
            for i in range(self.dim):
                x = "x" if self.dim == 1 else f"x{i + 1}"
                terms += _term(x, *(getattr(self, name)[k, i] for name in ARRAYS))
            parts.append(f"f{k + 1} = {' + '.join(terms).replace('+ -', '- ') or '0'}")
        words = ["; ".join(parts)] if self.table is None else [self.table.words]
        if len(set(self.weights)) > 1:
            words.append(f"weights {_list(self.weights)}")
        likely = " or ".join(_list(x) for x in self.starts)
        words.append(f"start {likely}{', equally likely' * (len(self.starts) > 1)}")
        if self.rounds:
            words.append(f"{self.rounds} round{'s' if self.rounds > 1 else ''}")
        if self.state:
            words.append("from a state of its own")
        if self.cohort_size is not None:
            words.append(f"P = {self.cohort_size}")
        words += [
            f"{k} = {numbers[k]}" if k in numbers else f"{k} drawn as {v}"
            for k, v in self.drawn.items()
        ]
        return ", ".join(words)


def _floats(value: Any) -> bool:
    """True if there is a float in nested lists and dictionaries: it is not the number it prints
    as."""
    if isinstance(value, dict):
        return any(_floats(v) for v in value.values())
    return (
        any(_floats(v) for v in value) if isinstance(value, list | tuple)
        else isinstance(value, float)
    )


def _term(
    x: str, h: Fraction, c: Fraction, m: Fraction, a: Fraction, delta: Fraction | None
) -> list[str]:
    r = x if c == 0 else f"({x} {'-' if c > 0 else '+'} {abs(c)})"
    out = []
    if delta is None:
        h, m = Fraction(0), h + m
    if h:
        out.append(f"{'' if h == 1 else '-' if h == -1 else f'{h} '}huber_{delta}({r.strip('()')})")
    if m:
        out.append(_times(m / 2, f"{r}²"))
    if a:
        out.append(f"{'' if a == 1 else f'{a} '}|{r.strip('()')}|")
    return out


def _times(factor: Fraction, what: str) -> str:
    """'x²', '-3 x²', '3 x²/2'."""
    above, below = factor.numerator, factor.denominator
    sign = "" if above == 1 else "-" if above == -1 else f"{above} "
    return f"{sign}{what}{'' if below == 1 else f'/{below}'}"


def _list(values: np.ndarray) -> str:
    return str(values[0]) if len(values) == 1 else f"({', '.join(map(str, values))})"
