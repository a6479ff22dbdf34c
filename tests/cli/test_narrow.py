"""Eighty columns: every table fits, nothing is cut, no word is broken, and no column has become one of letters."""

from __future__ import annotations

import io
import re

import pytest
from command_line import call, refused
from rich.cells import cell_len
from rich.console import Console

from fedtheory.cli import bench, rates
from fedtheory.report import stacked, tables
from fedtheory.theory.judge import registry
from fedtheory.theory.judge.replay import builtin_witnesses

WIDE = 80


def widest(text):
    """The most columns that a line takes."""
    return max(cell_len(line) for line in text.splitlines())


def letters(text):
    """Lines with no more than a letter or two: what is left of a column that was squeezed."""
    return [line for line in text.splitlines() if len(line.split()) == 1 and re.fullmatch(r"[A-Za-z]{1,2}", line.strip())]


@pytest.fixture(autouse=True)
def eighty(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDE))


@pytest.mark.parametrize(
    "command",
    [
        "list", "list papers", "list methods", "list compressors", "list problems",
        "list metrics", "list witnesses", "list efl/", "reviews", "experiment",
        "explain theorem-3.1", "explain efl/theorem-1", "replay theorem-3.1-printed-sign", "solve diabetes",
        "run efl diabetes --rounds 20 --no-figures", "run fedmls lad --epsilon 0.5 --no-figures",
        "verify theorem-3.1 --problem quadratic --rounds 5", "verify sampled-attraction",
    ],
)  # fmt: skip
def test_what_commands_print_fits(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = ["--out", "here"] if command.startswith("run") else []
    text = "\n".join(line for line in call(*command.split(), *out).stdout.splitlines() if not line.startswith("wrote "))
    names = {line.strip() for line in text.splitlines() if len(line.split()) == 1}  # of witnesses: one longer than a line is kept whole
    assert widest("\n".join(line for line in text.splitlines() if line.strip() not in names) or " ") <= WIDE
    assert all(cell_len(name) <= WIDE for name in names) and not letters(text) and "…" not in text.replace("⋯", "")


def test_names_and_options_are_whole():
    text = call("list", "methods").stdout
    for line in text.splitlines():
        assert line.count("[") == line.count("]"), line
    lines = set(map(str.strip, call("list", "witnesses").stdout.splitlines()))
    assert {w.name for w in builtin_witnesses()} <= lines
    lines = call("list").stdout.splitlines()
    titles = [" ".join(s.title.split()) for s in registry.all_statements() if len(s.title) < WIDE - 4 and not s.shown_by]
    assert len(titles) > 100 and set(titles) <= {line.strip() for line in lines}


def rows(verdict, established, instances):
    """A row of every form of every statement, as large as they get."""
    from fedtheory.theory.judge.campaign import summarise

    found = summarise([], [], registry.all_statements())
    for row in found:
        row.verdict, row.established, row.instances, row.violations = verdict, established, instances, instances
        row.tightness_worst, row.tightness_median = 0.000123456, 0.0000123456
        row.worst = "logistic m=4 P=3 d=5 l2/beta=1000 l1=1e-05 seed=27"
    return found


@pytest.mark.parametrize(("verdict", "established"), [("holds", "holds"), ("violated", "holds"), ("inconclusive", "violated")])
def test_the_tables_of_a_campaign_fit(verdict, established):
    found, console = rows(verdict, established, 12345), Console(width=WIDE, record=True, file=io.StringIO())
    assert len(found) > 300
    console.print(tables.statement_table(found, WIDE))
    console.print(tables.details_table(found, WIDE))
    text = console.export_text()
    assert widest(text) <= WIDE and "…" not in text and not letters(text)
    assert text.count(verdict) >= len(found) and ("(!)" in text) == (verdict != established)
    where = [line for line in text.splitlines() if line.startswith("  logistic m=4")]
    assert len(where) == len(found) and {w.strip() for w in where} == {found[0].worst}


def test_the_table_of_trained_networks_fits():
    row = {"rounds": 2500, "rounds_of_paper": 2000, "measured": 1.234e9, "error": "", "ratio": [0.87, 0.91], "test_accuracy": 0.8123,
           "entropies": [1.1, 2.2], "paper_text": "12.34", "dataset": "Shakespeare", "split": "Dirichlet (.3)"}  # fmt: skip
    found = [{**row, "method": m} for m in ("SCAFFOLD", "FedElasticNet with FedDyn")]
    console = Console(width=WIDE, record=True, file=io.StringIO())
    bench._show(console, "fedelasticnet-table3", "Entropy", found, [], [])
    text = console.export_text()
    assert widest(text) <= WIDE and "…" not in text
    assert text.count("Shakespeare, Dirichlet (.3)") == 1 and "FedElasticNet with FedDyn" in text
    assert text.count("0.87 (0.91)") == text.count("81.23") == text.count("12.34") == text.count("2500 (paper 2000)") == 2


def test_the_table_of_rates_fits():
    epsilons = [0.1, 0.05, 0.02, 0.01]
    fit = {"slope": -1.234, "low": -12.34, "high": -11.23, "verdict": "better than 1/eps"}
    found = [{"label": "subgradient, 1/sqrt(t)", "epsilons": epsilons, "rounds": [1e5, 2e6, 3e7, float("inf")], "fit": fit}]
    console = Console(width=WIDE, record=True, file=io.StringIO())
    console.print(rates._table({"epsilons": epsilons}, found, "rounds", WIDE))
    text = console.export_text()
    assert widest(text) <= WIDE and "…" not in text and "-1.23 [-12.34, -11.23]" in text and "better than 1/eps" in text


def test_a_long_first_cell_has_a_line_and_the_others_stay_in_theirs():
    table = stacked.Stacked(("name", "verdict"), right=(1,))
    table.add_row("a name without room beside", "violated", below=["what it says, which may take all of the width"])
    table.add_row("a short name", "holds")
    console = Console(width=30, record=True, file=io.StringIO())
    console.print(table)
    assert [line.rstrip() for line in console.export_text().splitlines()] == [
        "name" + " " * 19 + "verdict", "a name without room beside", " " * 22 + "violated",
        "  what it says, which may take", "  all of the width", "a short name             holds",
    ]  # fmt: skip
    assert stacked.items(["--a", "[--b one two]", "[--c three]"], 20) == "--a [--b one two]\n[--c three]"


def test_a_witness_is_rerun_by_its_statement():
    told = call("replay", "theorem-3.1")
    assert told.stdout == call("replay", "fedelasticnet-theorem-3.1-printed-sign").stdout
    assert told.stdout == call("replay", "theorem-3.1-printed-sign").stdout
    count = sum(w.statement == "fedelasticnet/theorem-3.1" for w in builtin_witnesses())
    said = " ".join(told.stderr.split())
    assert f"fedelasticnet-theorem-3.1-printed-sign, one of {count} witnesses of fedelasticnet/theorem-3.1" in said
    assert "a statement of 2 papers" in refused("replay", "theorem-1")
    assert "fedelasticnet/eq-14 has no witness" in refused("replay", "eq-14")
    assert call("replay", "efl/theorem-1").stdout.startswith("efl/theorem-1 [printed")
