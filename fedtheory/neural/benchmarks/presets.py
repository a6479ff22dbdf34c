"""The papers' experiments by name and by table; their values are in
`fedtheory.neural.benchmarks.hyperparameters`. Imports no torch."""

from __future__ import annotations

from fedtheory.errors import InvalidInput, suggest
from fedtheory.neural.benchmarks.hyperparameters import TABLE_5, all_presets
from fedtheory.neural.benchmarks.preset import Preset

__all__ = ["TABLE_5", "Preset", "get", "names", "of_table"]

_PRESETS = {p.name: p for p in all_presets()}
_OF_TABLE = {
    "fedelasticnet-table2": ("fedelasticnet", "10%"),
    "fedelasticnet-table3": ("fedelasticnet", "10%"),
    "fedelasticnet-table4": ("fedelasticnet", "100%"),
    "fedelasticnet-figure1": ("fedelasticnet", "10%"),
    "efl-table2": ("efl", None),
    "elastic-table": ("elastic", None),
}


def names() -> list[str]:
    """The names `get` knows, as in 'fedelasticnet/mnist/dirichlet-0.3/10%/algorithm-3'."""
    return list(_PRESETS)


def get(name: str) -> Preset:
    """The preset of that name.

    Raises
    ------
    UnknownName
        With the nearest names.
    """
    if name not in _PRESETS:
        raise suggest(name, _PRESETS, "preset")
    return _PRESETS[name]


def of_table(table: str, dataset: str | None = None, split: str | None = None, method: str | None = None) -> list[Preset]:
    """The runs of a table; of those of one dataset, split or method alone (several with commas).

    Raises
    ------
    InvalidInput
        No such table; a filter that the table has nothing for, with what it has.
    """
    if table not in _OF_TABLE:
        raise InvalidInput(f"no table {table!r}: use {', '.join(_OF_TABLE)}")
    paper, participation = _OF_TABLE[table]
    found = [p for p in _PRESETS.values() if p.paper == paper and participation in (None, p.participation)]
    if table == "fedelasticnet-figure1" and split is None:  # the paper's; others by name
        found = [p for p in found if p.split == "dirichlet-0.3"]
    for what, text in (("dataset", dataset), ("split", split), ("method", method)):
        if text is None:
            continue
        known = list(dict.fromkeys(getattr(p, what) for p in found))
        wanted = [t.strip().lower() for t in text.split(",") if t.strip()]
        for name in wanted:
            if name not in known:
                raise InvalidInput(f"{table} has no {what} {name!r} here: it has {', '.join(known)}")
        found = [p for p in found if getattr(p, what) in wanted]
    return found
