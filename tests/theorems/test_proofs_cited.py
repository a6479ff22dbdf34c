"""Every form on record as holding cites its proof, or stands in the list of those that are only tested."""

import json
import re
from pathlib import Path

import pytest
from cases import each
from core_forms import form
from typer.testing import CliRunner

from fedtheory.cli import app
from fedtheory.cli.explain import _about
from fedtheory.theorems import all_statements

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("tested_only.json")  # paper -> [[statement, form]]
FORMS = {(s.id, f.name): f for s in all_statements() for f in s.forms}
PAGE = re.compile(r"(docs/[\w/]+\.md)(#[\w-]+)?")


def _tested_only():
    return {key for key, f in FORMS.items() if "tested" in map(f.known, f.established)}


def test_the_forms_that_are_only_tested_are_those_of_the_list():
    listed = {(s, f) for forms in json.loads(LIST.read_text()).values() for s, f in forms}
    found = _tested_only()
    assert found - listed == set(), "on record as holding, without a proof that is cited"
    assert listed - found == set(), "listed as only tested, and proved, refuted or gone"


def _anchors(page):
    text = page.read_text()
    made = {f"#{name}" for name in re.findall(r"^\(([\w-]+)\)=$", text, re.M)}
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).strip().replace(" ", "-")
        made.add(f"#{slug}")
    return made


CITED = sorted({(m[1], m[2]) for f in FORMS.values() for m in PAGE.finditer(f.proof)}, key=str)


@each("page, anchor", CITED or [("docs/open.md", "#efl")])
def test_a_page_that_is_cited_has_the_passage(page, anchor):
    assert anchor is not None, f"{page}: name the passage, not the page alone"
    assert anchor in _anchors(ROOT / page), f"{page} has no {anchor}"


def test_a_note_that_is_cited_is_there():
    assert [key for key, f in FORMS.items() if f.proof == "note" and not f.note] == []


def test_a_proof_is_cited_only_of_what_holds():
    assert [key for key, f in FORMS.items() if f.proof and not f.evidence] == []


@pytest.mark.parametrize("verdict, proof, says, known", [
    ("holds", "", "Only tested: no proof is cited", "tested"), ("holds", "Jensen", "Proof: Jensen", "in words"),
    ("holds", "note", "Proof: see the note", "in words"), ("violated", "", "", "refuted"), ("open", "", "", "open"),
])  # fmt: skip
def test_what_is_said_of_the_evidence(verdict, proof, says, known):
    made = form("a", "x", None, verdict, proof=proof, note="n")
    assert made.evidence == says and [made.known(rule) for rule in made.established] == [known]


def test_forms_with_other_verdicts_are_shown_with_other_conditions():
    """Two forms of one statement whose verdicts differ are shown differently."""
    alike = []
    for s in all_statements():
        seen = {}
        for f in s.forms:
            other = seen.setdefault((f.latex, f.conditions), f)
            if dict(other.established) != dict(f.established):
                alike.append((s.id, other.name, f.name))
    assert alike == []


def test_every_condition_is_explained():
    shown = {(s.id, form["name"]): form for s in all_statements() for form in _about(s)["forms"]}
    conditional = {key: f for key, f in FORMS.items() if f.needs or f.limits}
    assert all(set(f.needs) <= set(shown[key]["conditions"]) for key, f in conditional.items())
    told = CliRunner().invoke(app, ["explain", "efl/staleness"]).output
    assert "Only where: coordinates that mix" in told and "Only where: coordinates that do not mix" in told
