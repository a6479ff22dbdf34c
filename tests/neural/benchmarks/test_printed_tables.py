"""The package's tables of the papers against the papers' texts, read a second time, cell by cell."""

from __future__ import annotations

import pytest
import tables_as_printed as text

from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks import printed_tables as papers


def cells(table):
    """(split, dataset, column) -> what the package says is printed."""
    return {(*row, c): table.printed(*row, c) for row in table.rows for c in table.columns}


def of_text(name):
    """The same from the paper's text."""
    if name.startswith("fedelasticnet"):
        return text.tables_2_to_4(int(name[-1]))[0]
    if name == "efl-table2":
        return {("non-iid", *key): value for key, value in text.accuracies().items()}
    return {(*row, c): values[c] for row, values in text.poster().items() for c in ("naive", "elastic")}


CELLS = {**{f"fedelasticnet-table{n}": 84 for n in (2, 3, 4)}, "efl-table2": 24, "elastic-table": 12}


@pytest.mark.parametrize(("name", "count"), CELLS.items())
def test_every_cell_is_the_papers(name, count):
    ours, theirs = cells(papers.TABLES[name]), of_text(name)
    assert len(theirs) == count
    assert {k: (v, theirs.get(k)) for k, v in ours.items() if v != theirs.get(k)} == {}
    assert ours.keys() == theirs.keys()


def test_every_table_is_compared():
    assert {*papers.TABLES, "fedelasticnet-table5"} == set(text.TEXT)


def test_what_is_lost_is_the_last_cell_of_the_shifted_rows():
    missing = {(n, k) for n in papers.TABLES for k, v in of_text(n).items() if v is None}
    assert missing == {(f"fedelasticnet-table{n}", ("non-iid", "shakespeare", "algorithm-3")) for n in (2, 3)}


def test_table_5_is_the_papers():
    ours = {(d, m): values for d, methods in presets.TABLE_5.items() for m, values in methods.items()}
    assert ours == text.hyperparameters() and len(ours) == 25


@pytest.mark.parametrize("number", [2, 3, 4])
def test_the_rounds_are_the_papers(number):
    rounds = text.tables_2_to_4(number)[1]
    found = presets.of_table(f"fedelasticnet-table{number}")
    assert {(p.split, p.dataset) for p in found} == set(rounds)
    for p in found:
        assert p.rounds == rounds[p.split, p.dataset], p.name


def test_the_posters_settings_are_the_presets():
    poster = text.poster()
    found = presets.of_table("elastic-table")
    assert {(p.split, p.dataset) for p in found} == {row for row in poster if row[1] in ("mnist", "cifar10", "cifar100")}
    for p in found:
        for name in ("rounds", "clients", "cohort", "batch_size", "lr"):
            assert getattr(p, name) == poster[p.split, p.dataset][name], (p.name, name)
