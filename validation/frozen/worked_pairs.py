"""Both sides of forms on worked instances, as numbers that a change of the code must reproduce.

    python validation/frozen/worked_pairs.py freeze worked_efl_theorem_2   pairs of second writings
    python validation/frozen/worked_pairs.py compare                       names what differs

A line of worked_pairs.json.gz is an instance: its paper, its kind, its data as a witness file has
them, the conditions of forms that it meets, and form by form both sides in fractions, which a
second writing gave as well. Of an equation both sides stand there as they were handed in; where
rounding is judged by more than |lhs| + |rhs|, that size stands behind them. "values" are what the
sides are made of. `tests/theorems/test_worked.py` compares.

`freeze` runs a file of validation/references on its instances, and refuses where it does not give
what the package gives. Numbers alone cannot say whether a new form is right: its second writing
can, and once it is frozen it may go.
"""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import typer

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "references")]
import second_writing  # noqa: E402
from sides import told  # noqa: E402

from fedtheory.rational import fraction, table, vector  # noqa: E402
from fedtheory.theorems import all_statements, get  # noqa: E402
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws  # noqa: E402
from fedtheory.theorems.fedelasticnet.paper import FILE as ELASTIC_NET  # noqa: E402
from fedtheory.theory.judge.registry import papers  # noqa: E402
from fedtheory.theory.judge.statement import Form, Sides  # noqa: E402
from fedtheory.theory.rounds.instances import Draw  # noqa: E402
from fedtheory.theory.rounds.irregular_run import exact_oracles, laws_of  # noqa: E402
from fedtheory.theory.rounds.method_setting import MethodSetting  # noqa: E402

FILE = FOLDER / "worked_pairs.json.gz"
Row = dict[str, Any]  # paper, kind, data, facts, forms; values: attributes of the view
app = typer.Typer(add_completion=False)


# --- views ----------------------------------------------------------------------------------------
def _algorithm_3(data: dict[str, Any]) -> Any:
    """Make the view of a run of Algorithm 3, or of the round after those with cohorts ``before``."""
    beta = max(Fraction(v) for row in data["h"] for v in row)
    drawn = {"method.l1": data["lambda1"], "method.l2": str(Fraction(data["lambda2"]) / beta)}
    given = {"weights": [f"1/{len(data['h'])}"] * len(data["h"]), "start": data["x0"]}
    given |= {name: data[name] for name in ("h", "c")}
    given |= {"cohort_size": data["P"], "drawn": drawn}
    if "before" in data:
        given |= {"rounds": len(data["before"]), "before": data["before"]}
        about = ELASTIC_NET["lemma-b5"]
    else:
        given["rounds"], about = data["rounds"], ELASTIC_NET["theorem-3.1"]
    return MethodSetting.of(about.variants[data["rule"]]).view(Draw.from_data(given))


def _frozen_anchors(data: dict[str, Any]) -> Any:
    """Make the view of a run of EFL whose elastic term has anchors that never move."""
    oracles, T = exact_oracles(data), data["T"]
    laws = round_laws(
        data["scheme"], laws_of(data["laws"], len(oracles.weights)), T, oracles.weights
    )
    elastic = fraction(data["lam"]), table(data["u"], "u"), table(data["anchors"], "anchors")
    return quadratic_run(oracles, laws, vector(data["w0"], "w0"), np.array([T - 1, T]), elastic)


OWN = {
    ("fedelasticnet", "round"): _algorithm_3,
    ("fedelasticnet", "run"): _algorithm_3,
    ("efl", "run, frozen anchors"): _frozen_anchors,
}


@cache
def _builders(paper: str) -> dict[str, Callable[[Any], Any]]:
    """kind -> what makes a view of an instance's data."""
    setting = next(p.setting for p in papers() if p.id == paper)
    parts = getattr(setting, "parts", (setting,))
    return {kind: part.builders[kind] for part in parts for kind in part.builders}


def view_of(row: Row) -> Any:
    """Make the package's view of an instance."""
    key = row["paper"], row["kind"]
    return (OWN[key] if key in OWN else _builders(key[0])[key[1]])(row["data"])


def form_of(paper: str, key: str) -> Form:
    """Look up a form by 'statement [form]'."""
    statement, _, form = key.removesuffix("]").partition(" [")
    return get(f"{paper}/{statement}").form(form)


# --- numbers --------------------------------------------------------------------------------------
def entries(side: Any) -> list[Any]:
    """Flatten a side into fractions; what is in floats stays so."""
    flat = np.asarray(side, dtype=object).ravel().tolist()
    return [v if isinstance(v, float) else Fraction(v) for v in flat]


def numbers(side: Any) -> str:
    return " ".join(repr(v) if isinstance(v, float) else told(v) for v in entries(side))


def found(sides: Sides) -> list[str]:
    """Tell both sides as they are kept, and the size of the terms where it is not theirs."""
    both = sides.terms if sides.relation == "==" and len(sides.terms) == 2 else ()
    pair = both or (sides.lhs, sides.rhs)
    a, b = (np.asarray(side, dtype=object) for side in np.broadcast_arrays(*pair))
    size, plain = numbers(sides.scale), numbers(abs(a) + abs(b))
    return [numbers(a), numbers(b), *([] if size == plain else [size])]


def same(now: list[str], was: list[str]) -> bool:
    """Compare two pairs: fractions exactly, floats but for their last digits."""
    if now == was:
        return True
    both = [[side.split() for side in pair] for pair in (now, was)]
    floats = all("." in v or "e" in v for pair in both for side in pair for v in side)
    if not floats or [len(side) for side in both[0]] != [len(side) for side in both[1]]:
        return False
    one, other = ([float(v) for side in pair for v in side] for pair in both)
    return bool(np.allclose(one, other, rtol=1e-12, atol=1e-14))


def facts_of(row: Row, view: Any) -> dict[str, bool]:
    """Tell of each condition of forms of this kind, by its words, if an instance meets it."""
    asked = {
        str(need): need
        for statement in all_statements(row["paper"] + "/")
        for form in statement.forms
        if form.kind == row["kind"]
        for need in form.needs
    }
    if not hasattr(view, "has"):
        return {}
    return {words: bool(view.has(need)) for words, need in sorted(asked.items())}


def _kinds_of(paper: str, key: str, form: Form) -> set[Any]:
    """Tell of what kinds the instances of a form are; rounds and runs of Algorithm 3 by these words."""
    own = {ELASTIC_NET[key.partition(" [")[0]].over} if paper == "fedelasticnet" else set()
    return {form.kind, *own}


def name_of(row: Row) -> str:
    """Name an instance by all that makes it."""
    return json.dumps([row["paper"], row["kind"], row["data"]], sort_keys=True)


@cache
def view_named(name: str) -> Any:
    """Make the view of an instance once for all of its forms, which must leave it as it is."""
    return view_of(dict(zip(("paper", "kind", "data"), json.loads(name), strict=True)))


def rows(paper: str = "") -> list[Row]:
    """Read the worked instances of a paper, or all."""
    every = (json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines())
    return [row for row in every if paper in ("", row["paper"])]


def write(kept: list[Row]) -> None:
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in kept) + "\n"
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


# --- second writings ------------------------------------------------------------------------------
def sheets(names: tuple[str, ...] = ()) -> Iterator[second_writing.Sheet]:
    """Import the second writings of these names, or all that have a sheet."""
    found_names = sorted(file.stem for file in (FOLDER.parent / "references").glob("worked_*.py"))
    for name in names or found_names:
        sheet = getattr(importlib.import_module(name), "SHEET", None)
        if sheet is not None:
            yield sheet
        elif names:
            raise SystemExit(f"{name}.py has no SHEET: see validation/references/second_writing.py")


@cache
def worked_out(sheet: second_writing.Sheet, name: str) -> Any:
    """Work an instance out once for all of its forms."""
    _, kind, data = json.loads(name)
    return sheet.kinds[kind](data)


def written(sheet: second_writing.Sheet, key: str) -> Iterator[tuple[Row, list[str], list[str]]]:
    """Yield the package's sides and the second writing's on all instances that a form is about.

    They are the sheet's own, and of the frozen ones of a kind that it works out those with pairs.
    """
    form = form_of(sheet.paper, key)
    names: dict[str, Row] = {}
    for kind, data in [
        *sheet.instances.values(),
        *((r["kind"], r["data"]) for r in rows(sheet.paper) if r["forms"]),
    ]:
        if kind in sheet.kinds and kind.partition(",")[0] in _kinds_of(sheet.paper, key, form):
            row = {"paper": sheet.paper, "kind": kind, "data": data}
            names.setdefault(name_of(row), row)
    for name, row in names.items():
        if (view := view_named(name)).applies(form) is None:
            lhs, rhs, *parts = map(entries, sheet.forms[key](worked_out(sheet, name)))
            now, plain = found(form.sides(view)), [abs(a) + abs(b) for a, b in zip(lhs, rhs)]
            more = now[2:]
            if parts:
                size = [a + b for a, b in zip(plain, parts[0], strict=True)]
                more = [] if size == plain else [numbers(size)]
            yield row, now, [numbers(lhs), numbers(rhs), *more]


@app.command()
def freeze(names: list[str]) -> None:
    """Keep the pairs of second writings, which must be what the package gives.

    Their instances are kept with the conditions that they meet, and of all of a kind that they work
    out the conditions that are new.
    """
    kept = rows()
    at = {name_of(row): row for row in kept}
    count = 0
    for sheet in sheets(tuple(names)):
        given = [*sheet.instances.values(), *((kind, data) for _, kind, data, _ in sheet.edges)]
        for kind, data in given:
            row = {"paper": sheet.paper, "kind": kind, "data": data, "facts": {}, "forms": {}}
            if name_of(row) not in at:
                at[name_of(row)] = row
                kept.append(row)
        for row in (
            row for row in kept if row["paper"] == sheet.paper and row["kind"] in sheet.kinds
        ):
            row["facts"] = facts_of(row, view_of(row)) | row["facts"]
        for words, kind, data, holds in sheet.edges:
            row = at[name_of({"paper": sheet.paper, "kind": kind, "data": data})]
            if row["facts"].get(words) != holds:
                raise SystemExit(f"{words!r} should be {holds} of {data}: {row['facts']}")
        for key in sheet.forms:
            for row, now, expected in written(sheet, key):
                if not same(now, expected):
                    wrong = f"{now}, by the second writing {expected}"
                    raise SystemExit(f"{key} on {row['data']}: {wrong}")
                at[name_of(row)]["forms"][key] = now
                count += 1
    write(kept)
    print(f"{count} pairs frozen, {sum(len(r['forms']) for r in kept):,} in all")


def differences(row: Row) -> Iterator[str]:
    """Name what the package gives differently on an instance now."""
    view = view_of(row)
    for key, was in row["forms"].items():
        now = found(form_of(row["paper"], key).sides(view))
        if not same(now, was):
            yield f"{row['paper']}/{key}: {now}, was {was}"
    for name, was in row.get("values", {}).items():
        value = getattr(view, name)
        now = numbers(value(view.theta) if callable(value) else value)
        if now != was:
            yield f"{name} is {now}, was {was}"
    facts = facts_of(row, view)
    for words, was in row["facts"].items():
        if facts.get(words) != was:
            yield f"{words!r} is {facts.get(words)}, was {was}"


@app.command()
def compare() -> None:
    """Print what differs from the frozen pairs, and end with 1 if anything does."""
    kept, wrong = rows(), 0
    for row in kept:
        for line in differences(row):
            wrong += 1
            print(f"{row['paper']}, {row['kind']}, {json.dumps(row['data'])}\n  {line:.300}")
    print(f"{sum(len(r['forms']) for r in kept):,} pairs on {len(kept)} instances, {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    app()
