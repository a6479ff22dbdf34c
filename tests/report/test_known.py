"""How a verdict is known: the word, the column, the sentence, the JSON and the page."""

import json
import re
from dataclasses import replace

import pytest
from campaign_rows import record_of, recorded_rows
from repository import ROOT
from rich.console import Console

from fedtheory.errors import UnknownName
from fedtheory.provenance import write_json
from fedtheory.report import html, saved, tables
from fedtheory.theorems import all_statements, get
from fedtheory.theory.judge import campaign
from fedtheory.theory.judge.statement import KNOWN, known

SOME = ("fedelasticnet/eq-28", "fedelasticnet/theorem-e-proof", "fedmls/moreau-envelope")


@pytest.fixture
def rows():
    """Of three statements; one form was an identity that was checked, and one loses its proof."""
    found = recorded_rows(SOME)
    at = next(i for i, r in enumerate(found) if r.statement == "fedelasticnet/theorem-e-proof")
    found[at] = replace(found[at], modes=["proved"])
    at = next(i for i, r in enumerate(found) if (r.statement, r.verdict) == ("fedmls/moreau-envelope", "holds"))
    found[at] = replace(found[at], proof="")
    return found


@pytest.mark.parametrize("verdict, modes, proof, refuted, word", [
    ("holds", ["exact", "proved"], "", False, "proved"), ("holds", ["symbolic"], "Jensen", False, "proved"),
    ("holds", ["exact", "rational"], "Jensen", False, "in words"), ("holds", ["exact", "rational"], "", False, "tested"),
    ("holds", ["proved at a point"], "", False, "tested"), ("violated", ["proved", "exact"], "Jensen", False, "tested"),
    ("violated", ["rational"], "", True, "refuted"), ("inconclusive", ["proved"], "Jensen", False, "open"),
    ("not applicable", [], "Jensen", False, "open"), ("open", [], "", True, "open"),
])  # fmt: skip
def test_the_word(verdict, modes, proof, refuted, word):
    assert known(verdict, modes, proof, refuted) == word and word in KNOWN


def test_a_proof_that_the_record_contradicts_is_none():
    """A form on record as violated whose witness was not met is tested, whatever proof another of its rules has."""
    row = replace(recorded_rows(["fedelasticnet/eq-28"])[0], verdict="holds", proof="Jensen", witness=None)
    assert (replace(row, established="violated").known, replace(row, established="open").known) == ("tested", "in words")


def test_every_form_of_the_papers_is_proved_refuted_or_open():
    counted = dict.fromkeys(KNOWN, 0)
    for form in (f for s in all_statements() for f in s.forms):
        for rule, verdict in form.established.items():
            counted[form.known(rule)] += 1
            assert (verdict == "holds") == (form.known(rule) in ("proved", "in words"))
            assert (form.known(rule) == "proved") == (form.symbolic is not None and verdict == "holds")
    assert all(counted[name] > 0 for name in ("proved", "in words", "refuted", "open")) and counted["tested"] == 0


def test_a_form_that_coq_accepts_names_its_theorem():
    marked = [(s, f) for s in all_statements() for f in s.forms if f.coq]
    assert {s.id for s, _ in marked} == {"fedelasticnet/theorem-e-proof", "fedelasticnet/feddyn-every-lambda"}
    for _, form in marked:
        file, name = form.coq.split(": ")
        text = (ROOT / file).read_text()
        assert re.search(rf"^Theorem {name}\b", text, re.MULTILINE) and f"Print Assumptions {name}." in text
        assert form.evidence.endswith(f"Coq accepts it too, {form.coq}")
    [row] = [r for r in recorded_rows(["fedelasticnet/theorem-e-proof"])]
    [line] = tables.lines([replace(row, modes=["proved"])])
    assert tables.known_text(line) == "proved (Coq)"
    [line] = tables.lines([replace(row, modes=[], proof="Jensen")])
    assert tables.known_text(line) == "in words"


@pytest.mark.parametrize("width", [80, 100, 132])
def test_the_column_and_the_sentence(rows, width):
    console = Console(width=width, record=True)
    console.print(tables.statement_table(rows, width))
    lines = {ln.split()[0]: ln.split() for ln in console.export_text().splitlines() if ln.strip()}
    words = "in words" if width == 132 else "words"
    assert words in " ".join(lines["eq-28"]) and "proved" in lines["theorem-e-proof"] and "tested" in lines["moreau-envelope"]
    assert tables.NO_FORM in tables.known_text(next(ln for ln in tables.lines([r for r in rows if r.verdict == "violated"])))
    holding = [r for r in rows if r.verdict == "holds"]
    told = f"{len(holding)} verdicts “holds”: 1 proved by machine, {len(holding) - 2} in words (cited), 1 only tested"
    assert tables.known_key(rows) == told and tables.known_key([r for r in rows if r not in holding]) == ""


def test_the_same_in_both_reports_and_in_json(rows, tmp_path):
    record = record_of(rows)
    assert record["known"] == campaign.counts_known(rows) and sum(record["known"].values()) == len(rows)
    assert [r["known"] for r in record["rows"]] == [r.known for r in rows]
    page, text = html.html_report(rows, record), html.markdown_report(rows, record)
    assert tables.known_key(rows) in page and tables.known_key(rows) in text
    part = page.split('id="fedmls-moreau-envelope"')[1].split("</article>")[0]
    assert "<span>only tested</span>" in part and 'data-label="known">tested<' in part and 'data-label="known">in words<' in part


def test_a_saved_campaign_says_the_same_and_takes_proofs_from_the_papers_alone(rows, tmp_path):
    path = write_json(tmp_path / "campaign.json", record_of(rows))
    held = json.loads(path.read_text())
    for entry in held["rows"]:
        entry.update(proof="believe me", known="proved")
    path.write_text(json.dumps(held))
    again, _ = saved.read_campaign(path)
    assert [r.proof for r in again] == [get(r.statement).form(r.form).proof for r in rows]
    assert [r.known for r in again[:4]] == ["refuted", "in words", "in words", "in words"]
    for entry in held["rows"]:  # as written before there were such words
        del entry["proof"], entry["known"]
    path.write_text(json.dumps(held))
    assert [r.known for r in saved.read_campaign(path)[0]] == [r.known for r in again]
    held["rows"][0]["form"] = "no such form"
    path.write_text(json.dumps(held))
    with pytest.raises(UnknownName):
        saved.read_campaign(path)
