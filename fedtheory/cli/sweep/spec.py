"""The specification of a sweep, a TOML file, as a sequence of cells: every combination of what it varies."""

from __future__ import annotations

import math
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from fedtheory.cli.sweep.options import taken
from fedtheory.errors import DataFileError, InvalidInput, suggest
from fedtheory.inputs import shown
from fedtheory.untrusted import opened

__all__ = ["EXAMPLE", "KINDS", "Grid", "Spec", "read"]

_BEGIN = "`fedtheory sweep --example` prints one to begin with"
LARGEST = 2**20  # bytes of a specification
MOST, LONGEST_TITLE = 10**8, 300  # cells; characters
_DOTTED = re.compile(rb"""(?:\.[ \t]*(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){50}""")
KINDS = {"run": "run", "network": "bench"}  # name of the table -> command whose options it sets
_TOP = ("title", "target", "all", *KINDS)
_OUTER = ("problem", "data", "partition", "clients", "seed", "table", "dataset", "split")  # cells beside each other share them
_NEVER = {  # what a cell has no say in
    "run": ("figures", "json", "out", "device"),
    "network": ("json", "out", "device", "tensorboard", "report", "workers", "engine", "address", "resume", "seeds"),
}

EXAMPLE = """\
# A sweep: `fedtheory sweep sweep.toml`. What is written as a list is varied, and all combinations are run.
title = "Which lambda_1 is worth its bits?"
target = 1e-6                       # F(x) - F* whose first round, and the bits until then, are in the table

# What holds for every [[run]] below. The keys are the options of `fedtheory run`, without the dashes.
[all]
problem = ["diabetes", "quadratic"]  # `fedtheory list problems`, or a file NAME.json of your own
participants = [2, 5]                # clients that take part in a round
rounds = 200
seed = [0, 1, 2]

# One [[run]] for methods that share hyperparameters; `fedtheory list methods` has them.
[[run]]
method = "fedelasticnet-dyn"
l1 = [0.0, 0.01, 0.1]
l2_over_beta = [10, 30]

[[run]]
method = "feddyn"
alpha = [0.1, 1.0, 10.0]

[[run]]
method = "scaffold"
local_solver = "gradient"
local_steps = [1, 5]

# Networks: the keys are the options of `fedtheory bench`. They need torch, and `data`, a folder, for other sets than the digits.
# [[network]]
# table = "fedelasticnet-table2"
# quick = true
# split = "iid"
# method = ["feddyn", "fedprox"]
# seed = [0, 1]
"""


class Grid(Sequence[dict[str, Any]]):
    """All combinations of the values of some keys, made one by one; the first keys vary slowest."""

    def __init__(self, axes: dict[str, list[Any]]) -> None:
        self.axes = axes

    @property
    def size(self) -> int:
        """The number of cells, also where it is more than `len` can say."""
        return math.prod(len(values) for values in self.axes.values())

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        cell = {}
        for key, values in reversed(self.axes.items()):
            index, digit = divmod(index, len(values))
            cell[key] = values[digit]
        return {key: cell[key] for key in self.axes}

    def one_of_each(self) -> Iterator[dict[str, Any]]:
        """Cells in which every value of every key is met at least once."""
        first = {key: values[0] for key, values in self.axes.items()}
        yield first
        for key, values in self.axes.items():
            yield from ({**first, key: value} for value in values[1:])


@dataclass(frozen=True)
class Spec(Sequence[tuple[str, dict[str, Any]]]):
    """A sweep: its cells are (kind, options), kind 'run' or 'network'.

    Attributes
    ----------
    title : as the figure has it
    target : F(x) - F* to be reached, or None
    grids : (kind, Grid) of each table, in the order of the file
    """

    title: str
    target: float | None
    grids: tuple[tuple[str, Grid], ...]

    def __len__(self) -> int:
        return sum(len(grid) for _, grid in self.grids)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        for kind, grid in self.grids:
            if index < len(grid):
                return kind, grid[index]
            index -= len(grid)
        raise IndexError(index)

    @property
    def keys(self) -> list[str]:
        """All keys that a cell has, in the order of the file."""
        return list(dict.fromkeys(key for _, grid in self.grids for key in grid.axes))

    @property
    def seeds(self) -> int:
        """The most seeds that a setting has."""
        return max(len(grid.axes.get("seed", [0])) for _, grid in self.grids)

    @property
    def varied(self) -> list[str]:
        """Those of them that differ between cells."""
        values: dict[str, set[Any]] = {}
        for _, grid in self.grids:
            for key in self.keys:
                values.setdefault(key, set()).update(map(repr, grid.axes.get(key, [None])))
        return [key for key in self.keys if len(values[key]) > 1]


def read(path: Path) -> Spec:
    """The sweep that a TOML file describes."""
    try:
        with opened(path, LARGEST) as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise DataFileError(f"{path}: cannot be read ({error.strerror}); {_BEGIN}") from error
    if len(text) > LARGEST:
        raise DataFileError(f"{path}: it has more than {LARGEST:,} bytes, which no specification needs; name the TOML file of a sweep")
    if _DOTTED.search(text):  # each part is looked up from the first one on
        raise DataFileError(f"{path}: no TOML (a key of 50 parts); {_BEGIN}")
    try:
        told = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        why = str(error).splitlines()[0] or type(error).__name__
        raise DataFileError(f"{path}: no TOML ({why:.100}); {_BEGIN}") from None
    return _spec(told, str(path))


def _spec(told: dict[str, Any], where: str) -> Spec:
    for key in told:
        if key not in _TOP:
            raise suggest(key, _TOP, f"key of {where}", "options of all runs belong below [all], those of some below [[run]]")
    title, target, shared = told.get("title", ""), told.get("target"), told.get("all", {})
    if not isinstance(title, str) or len(title) > LONGEST_TITLE or not title.isprintable():
        raise InvalidInput(f"{where}: title = {title!r:.80}: it must be one line of text, of at most {LONGEST_TITLE} characters")
    if target is not None and (isinstance(target, bool) or not isinstance(target, int | float) or not 0 < target <= sys.float_info.max):
        raise InvalidInput(f"{where}: target = {shown(target)}: it must be a number > 0, the F(x) - F* to be reached")
    if not isinstance(shared, dict):
        raise InvalidInput(f"{where}: all = {shared!r:.60}: write it as a table, [all]")
    grids = []
    for kind in KINDS:
        tables = told.get(kind, [])
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            raise InvalidInput(f"{where}: {kind}: write it as tables, each below a line [[{kind}]]")
        for number, table in enumerate(tables, 1):
            both = {**(shared if kind == "run" else {}), **table}
            grids.append((kind, _grid(kind, both, f"{where}, [[{kind}]] {number}")))
    if not grids:
        raise InvalidInput(f"{where}: nothing to run: add a table [[run]] with a method, as `fedtheory sweep --example` shows")
    if (cells := sum(grid.size for _, grid in grids)) > MOST:
        raise InvalidInput(f"{where}: {cells:,} cells: at most {MOST:,} are taken; vary less, or split the sweep")
    return Spec(title, None if target is None else float(target), tuple(grids))


def _grid(kind: str, table: dict[str, Any], where: str) -> Grid:
    axes: dict[str, list[Any]] = {}
    for name, value in table.items():
        values = value if isinstance(value, list) else [value]
        key = name.replace("-", "_")
        if not values:
            raise InvalidInput(f"{where}: {name} = []: give it at least one value, or leave it out")
        if key in _NEVER[kind]:
            remedy = "they are options of the sweep itself" if key in ("workers", "engine", "address") else "leave it out"
            raise InvalidInput(f"{where}: {name}: no cell sets it; {remedy}")
        axes[key] = [taken(KINDS[kind], name, v, where) for v in values]
        if len(set(map(repr, axes[key]))) < len(values):
            raise InvalidInput(f"{where}: {name} = {values!r:.80}: a value is there twice; leave one out")
    needed = "method" if kind == "run" else "table"
    if needed not in axes:
        where = "list methods" if kind == "run" else "bench --help-all"
        known = f"`fedtheory {where}` has them"
        raise InvalidInput(f"{where}: no {needed}: add {needed} = ...; {known}")
    outer = {key: axes[key] for key in (needed,) if kind == "network"} | {key: axes[key] for key in _OUTER if key in axes}
    return Grid({**outer, **{k: v for k, v in axes.items() if k not in outer}})
