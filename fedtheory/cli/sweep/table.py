"""The rows of a sweep as a table, CSV or Parquet, and what it says of each method."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.cli.sweep.cell import COLUMNS, data_of
from fedtheory.cli.sweep.spec import Spec
from fedtheory.errors import MissingCapability
from fedtheory.provenance import write_atomic

__all__ = ["RULE", "Group", "best_of", "groups", "number", "write_csv", "write_parquet"]

RULE = {  # how the best setting is found, in words
    "run": "the least F(x) - F* after the last round, where those within what F* is known to count as equal; "
    "among equals the fewest bits to the target, then bits, then rounds",
    "network": "the highest test accuracy; among equals the fewest nonzeros",
}

_TEXTS = ("status", "error")


def _columns(spec: Spec) -> list[str]:
    return ["kind", *spec.keys, *COLUMNS]


def _records(spec: Spec, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for (kind, cell), row in zip(spec, rows):
        yield {"kind": kind, **cell, **row}


def write_csv(path: Path, spec: Spec, rows: Iterable[dict[str, Any]]) -> Path:
    """The table as CSV, in the order of the cells; an empty field is what a cell does not have."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _columns(spec), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_records(spec, rows))
    return write_atomic(path, text.getvalue())


def write_parquet(path: Path, spec: Spec, rows: Iterable[dict[str, Any]], about: dict[str, Any]) -> Path:
    """The table as Parquet, with where it comes from in the metadata of its schema ('fedtheory').
    """
    pa, pq = _pyarrow()
    records = list(_records(spec, rows))
    columns = {}
    for name in _columns(spec):
        values = [r.get(name) for r in records]
        found = {type(v) for v in values if v is not None}
        kind = pa.string() if name in _TEXTS or found - {int, float} else pa.int64() if found <= {int} and found else pa.float64()
        texts = [None if v is None else str(v) for v in values]
        columns[name] = pa.array(texts if kind == pa.string() else values, kind)
    table = pa.table(columns).replace_schema_metadata({"fedtheory": json.dumps(about)})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return write_atomic(path, sink.getbuffer())


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise MissingCapability("--format parquet needs pyarrow: pip install 'fedtheory[parquet]', or take --format csv") from error
    return pyarrow, parquet


@dataclass
class Group:
    """Cells that differ in their seeds only.

    Attributes
    ----------
    keys : what they have in common of what is varied
    values : column -> one number a finished cell
    diverged, failed : how many of them have no result
    """

    kind: str
    keys: dict[str, Any]
    values: dict[str, list[float]] = field(default_factory=dict)
    diverged: int = 0
    failed: int = 0

    def setting(self, others: Iterable[Group]) -> str:
        """Name what sets this group apart from others of its method: 'l1 = 0.01, alpha = 1'."""
        told = list(others)
        own = [k for k in self.keys if any(g.keys.get(k) != self.keys[k] for g in told)]
        short = {k: "P" if k == "participants" else k for k in own}
        return ", ".join(f"{short[k]} = {v:g}" if isinstance(v := self.keys[k], float) else f"{short[k]} = {v}" for k in own)

    def middle(self, column: str) -> float:
        """The median over the seeds; NaN where there is none, or where a cell of the group has no result."""
        values = self.values.get(column, [])
        return float(np.median(values)) if values and not (self.diverged or self.failed) else math.nan


def groups(spec: Spec, rows: Iterable[dict[str, Any]]) -> list[Group]:
    """The cells by what is varied beside the seed, in their order."""
    varied = [key for key in spec.varied if key != "seed"]
    found: dict[str, Group] = {}
    for (kind, cell), row in zip(spec, rows):
        keys: dict[str, Any] = {key: cell[key] for key in ("table", "problem", "data", "dataset", "method", *varied) if key in cell}
        if (name := json.dumps([kind, keys])) not in found:
            found[name] = Group(kind, keys | (data_of(cell) if kind == "network" else {}))
        group = found[name]
        if row["status"] != "ok":
            group.diverged += row["status"] == "diverged"
            group.failed += row["status"] == "failed"
            continue
        for name in COLUMNS:
            if isinstance(row.get(name), int | float):
                group.values.setdefault(name, []).append(float(row[name]))
    return list(found.values())


def number(value: float) -> str:
    """'1e-6', '0.5'."""
    return f"{value:g}".replace("e-0", "e-").replace("e+0", "e")


def best_of(some: Iterable[Group]) -> Group | None:
    """The best of some settings by `RULE`; None where no setting has a result for every seed."""
    some = list(some)
    up = "suboptimality" if some and some[0].kind == "run" else "test_accuracy"
    whole = [g for g in some if math.isfinite(g.middle(up))]
    certain = max((g.middle("certain_to") for g in whole if g.kind == "run"), default=0.0)

    def rank(group: Group) -> tuple[float, ...]:
        first = max(group.middle(up), certain) if group.kind == "run" else -group.middle(up)
        then = ("bits_to_target", "bits", "rounds_to_target", "rounds_done", "nonzeros")
        return first, *(math.inf if math.isnan(value := group.middle(name)) else value for name in then)

    return min(whole, key=rank, default=None)
