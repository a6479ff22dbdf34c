"""The page of a campaign: what stands on it, where it comes from, and that nothing of it is taken on trust."""

import json
import re
from copy import copy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from campaign_rows import record_of, recorded_rows

from fedtheory.errors import DataFileError, UnknownName
from fedtheory.provenance import write_json
from fedtheory.report import headlines, html, saved, statements, tables, typeset
from fedtheory.report.evidence import witnesses_of
from fedtheory.theorems import all_statements, get
from fedtheory.theory.judge.registry import by_paper, paper, papers, setting_of
from fedtheory.theory.judge.replay import builtin_witnesses

SOME = (
    "fedelasticnet/eq-28", "fedelasticnet/theorem-3.1", "fedelasticnet/theorem-a", "fedelasticnet/table-1", "fedmls/theorem-1",
    "efl/st-lemma", "efl/contraction-factors", "elastic-aggregation/sign",
)  # fmt: skip


@pytest.fixture
def rows():
    return recorded_rows(SOME)


class Parser(HTMLParser):
    """Collects text and links, and whether tags balance."""

    void = ("meta", "img", "br", "link", "input", "wbr", "mspace")

    def __init__(self, page):
        super().__init__()
        self.open, self.text, self.sources, self.ids = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.sources += [attrs[k] for k in ("src", "href") if k in attrs]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_whole_and_opens_offline(tmp_path, monkeypatch):
    """All statements of all papers, each with a part of its own that links lead to; formulas are typeset elsewhere."""
    monkeypatch.setattr(statements, "formula_html", lambda form, title: title)
    picture = tmp_path / "bound_vs_empirical.png"
    picture.write_bytes(b"\x89PNG not really")
    write_json(tmp_path / "bound_vs_empirical.json", {"title": "What <it> shows", "caption": "Seen in five seconds."})
    rows = recorded_rows()
    page = html.html_report(rows, record_of(rows), [picture, tmp_path / "left-out.pdf", tmp_path / "missing.png"])
    parser = Parser(page)
    assert parser.open == [] and len(set(parser.ids)) == len(parser.ids)
    assert all(s.startswith(("data:", "#")) for s in parser.sources)
    assert not re.search(r"@import|https?://(?!www\.w3\.org)", re.sub(r"data:[^\"]*", "", page).replace("openaccess", ""))
    assert {s[1:] for s in parser.sources if s.startswith("#")} <= set(parser.ids)
    text = " ".join(parser.text)
    assert "What <it> shows" in text and "Seen in five seconds." in text
    for statement in all_statements():
        assert statement.id.replace("/", "-") in parser.ids and tables.short(statement.id) in text
    for point in ("R1.1", "R2.2"):
        assert f"fedelasticnet-{point}" in parser.ids


def test_a_statement_shows_its_verdicts_its_witness_and_its_worst_instance(rows):
    page = html.html_report(rows, record_of(rows))
    part = page.split('id="fedelasticnet-eq-28"')[1].split("</article>")[0]
    witness = next(w for w in builtin_witnesses("fedelasticnet") if w.name == "fedelasticnet-eq-28-printed-sign")
    assert "as printed</span> ✗ violated" in part and "as repaired</span> ✓ holds" in part
    assert f">{witness.lhs}<" in part and f">{witness.rhs}<" in part
    assert "fedtheory replay fedelasticnet-eq-28-printed-sign" in part
    assert "fedtheory verify fedelasticnet/eq-28 --instance &#39;second|with &lt;mark&gt;&#39;" in part or (
        "fedtheory verify fedelasticnet/eq-28 --instance first" in part
    )
    assert "<mark>" not in page, "names are escaped"
    written = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.S)
    assert page.count("<math") > len(rows) / 2 and "\\" not in written, "no LaTeX is left as it was written"
    assert f"st-lemma{tables.WORDED}</a>" in page and "as the algorithm is printed" in page
    worst = page.split('id="fedelasticnet-theorem-a"')[1].split("</article>")[0]
    assert "worst case/bound 0.15 at everybody, <i>T</i> &lt; 8|9" in worst


def test_what_is_not_as_recorded_and_what_is_incomplete_are_said(rows):
    row = next(r for r in rows if (r.statement, r.form, r.rule) == ("fedelasticnet/eq-28", "repaired", "sign"))
    row.verdict = "violated"
    page = html.html_report(rows, record_of(rows))
    assert "1 of " in page and "fedelasticnet/eq-28 [repaired, sign rule]: violated, on record as holds" in page
    assert 'data-state="fails" data-ok="0"' in page
    record = {**record_of(rows), "complete": False}
    assert "Incomplete" in html.html_report(rows, record) and "Incomplete" in html.markdown_report(rows, record)


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ({"search_budget": 1000}, "fedtheory verify"),
        ({"seed": 3, "scale": 0.1, "long_runs": False}, "fedtheory verify --seed 3 --scale 0.1 --no-long-runs"),
        ({"papers": ["efl"], "search_budget": 100}, "fedtheory verify efl/ --budget 100"),
    ],
    ids=["whole", "small", "one-paper"],
)
def test_the_page_says_how_to_make_it_again(settings, command):
    record = record_of([])
    page = html.html_report([], {**record, "settings": {"workers": 1, **settings}})
    assert f"<code>{command}</code>" in page.split('id="provenance"')[1]


def test_no_statement_at_all():
    assert "no statement" in html.html_report([], record_of([])).lower()


# --- one sentence a paper -------------------------------------------------------------------------
def told(id, rows):
    """The sentence of a paper on these rows."""
    mine = [r for r in rows if r.statement.startswith(f"{id}/")]
    ((chosen, group),) = by_paper(tables.lines(mine), lambda line: line.statement)
    return headlines.sentence(chosen, group, mine, witnesses_of(mine))


def test_clauses_rest_on_what_is_on_record():
    for chosen in papers():
        shipped = {w.name: w for w in builtin_witnesses(chosen.id)}
        for clause in chosen.shown("headline"):
            assert clause.rests_on, clause.text
            for rest in clause.rests_on:
                assert rest.recorded(chosen.id) == rest.verdict, (clause.text, rest)
            if clause.witness:
                rested = {(f"{chosen.id}/{r.statement}", r.verdict) for r in clause.rests_on}
                assert (shipped[clause.witness].statement, shipped[clause.witness].verdict) in rested
            assert ("{sizes}" in clause.text or "{lhs}" in clause.text) == bool(clause.witness)


def test_a_sentence_tells_how_large_its_witness_is():
    told_of_g = "which bounds the joint gradient: 20 clients, one coordinate, one round; true with"
    assert told_of_g in told("fedmls", recorded_rows())
    every = [clause for paper in papers() for clause in paper.shown("headline") if "{sizes}" in clause.text]
    shipped = {w.name: w for w in builtin_witnesses()}
    assert every and all(headlines.sizes(shipped[clause.witness]) for clause in every)


def test_the_sentence_takes_its_numbers_from_witness_and_forms(rows):
    text = told("fedelasticnet", recorded_rows())
    assert "; Theorem 3.1 is false as printed: one client, one coordinate, T = 3; true after five repairs" in text
    printed = get("fedelasticnet/theorem-3.1").form("printed").limits["lambda_2/beta"]
    least = get("fedelasticnet/theorem-e").form("repaired").limits["lambda_2/beta"]
    assert f"lambda_2 > {printed:g} beta, which only its appendix form prints, is {printed / least:.1f} times as strong" in text


def test_a_clause_that_the_campaign_does_not_bear_out_says_so_or_is_left_out():
    rows = recorded_rows([s.id for s in all_statements("fedelasticnet/")])
    row = next(r for r in rows if (r.statement, r.form, r.rule) == ("fedelasticnet/theorem-3.1", "repaired", "sign"))
    row.verdict = "violated"
    text = told("fedelasticnet", rows)
    assert "true after" not in text and "otherwise than on record, theorem-3.1 [repaired, sign rule] is violated" in text
    row.verdict = "not applicable"
    assert "five repairs" not in told("fedelasticnet", rows) and "otherwise" not in told("fedelasticnet", rows)
    few = [r for r in rows if r.statement == "fedelasticnet/theorem-3.1"]
    assert "Theorem E" not in told("fedelasticnet", few)


def test_a_paper_without_clauses_gets_a_computed_sentence(rows, monkeypatch):
    mine = [replace(r) for r in rows if r.statement == "fedelasticnet/eq-28"]
    (line,) = tables.lines(mine)
    witnesses = witnesses_of(mine)
    silent = copy(paper("fedelasticnet"))
    silent.headline = ""
    text = headlines.sentence(silent, [line], mine, witnesses)
    assert re.fullmatch(r"Eq-28 is false as printed: two clients, one coordinate, .* > .*; every repair holds\.", text), text
    for row in mine:
        row.verdict = row.established = "holds"
    text = headlines.sentence(silent, tables.lines(mine), mine, witnesses)
    assert text == "Nothing that is printed was found to fail."


def test_a_statement_of_ones_own_file_stands_as_its_repair_does(monkeypatch):
    (line,) = tables.lines(recorded_rows(["elastic-aggregation/stability"]))
    assert headlines.state_of(line) == "readings"
    monkeypatch.setattr(headlines, "paper_of", lambda name: SimpleNamespace(file="mine.py"))
    assert headlines.state_of(line) == "ours"
    assert headlines.tiles([line])["ours"][0].verdict == line.repaired[0].verdict == "holds"


def test_states_and_counts(rows):
    lines = {line.statement: line for line in tables.lines(rows)}
    states = {s: headlines.state_of(line) for s, line in lines.items()}
    assert states["fedelasticnet/eq-28"] == "fails" and states["fedelasticnet/theorem-a"] == "ours"
    assert states["fedelasticnet/table-1"] == "unsettled", "what is open is not settled by meeting no violation"
    assert states["efl/contraction-factors"] == "readings"
    n = headlines.counts(list(lines.values()))
    assert n["printed"] + n["in words"] == sum(s in ("fails", "holds", "unsettled") for s in states.values())
    assert sum(map(len, headlines.tiles(lines.values()).values())) == len(lines)
    assert headlines.repairs_in_words(n) == "Every repair holds."
    table = {what: numbers for what, *numbers in headlines.counts_table(n)}
    assert table["printed statements"] == [n["fails"], n["holds"], n["unsettled"]] and sum(table["printed statements"]) == n["printed"]
    assert sum(table["sentences made precise"]) == n["in words"]
    shown = headlines.counts_markdown(n)
    assert shown[0] == "| | fail | hold | not settled |"
    assert shown[2] == f"| printed statements | {n['fails']} | {n['holds']} | {n['unsettled']} |"
    next(r for r in rows if (r.statement, r.form) == ("fedelasticnet/eq-28", "repaired")).verdict = "violated"
    assert headlines.repairs_in_words(headlines.counts(tables.lines(rows))).startswith("1 of ")
    assert headlines.counts_markdown(headlines.counts([])) == ["No statement is printed."]


# --- formulas and notes ---------------------------------------------------------------------------
def test_a_formula_breaks_before_relations_and_sums_and_keeps_all_its_signs():
    from fedtheory.report.formulas import to_mathml

    parts = typeset.formula_pieces(r"a_1+\frac{b}{c+d}\le(e-f)g,\quad x=y")
    assert [len(p) for p in parts] == [3, 2]
    for name in SOME:
        for form in get(name).forms:
            pieces = "".join(p for part in typeset.formula_pieces(form.latex) for p in part)
            shown, given = ("".join(Parser(t).text).replace("\xa0", "") for t in (pieces, to_mathml(form.latex)))
            assert shown.translate({ord("𝔼"): "E", ord("𝒫"): "P", ord("ℙ"): "P", ord("ℝ"): "R"}) == given


def test_double_struck_letters_are_letters():
    assert "𝔼" in typeset.formula_pieces(r"\mathbb E[x]")[0][0] and "ℝ" in typeset.formula_pieces(r"\mathbb R")[0][0]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("theta_tilde_k is anchored", "<i>θ̃</i><sub><i>k</i></sub> is anchored"),
        ("gamma^{t-1} - theta*", "<i>γ</i><sup><i>t</i>−1</sup> − <i>θ</i><sup>*</sup>"),
        ("beta-smooth, lambda_2 >= 27 beta", "<i>β</i>-smooth, <i>λ</i><sub>2</sub> ≥ 27 <i>β</i>"),
        ("||grad F(x)||^2", "‖∇<i>F</i>(<i>x</i>)‖<sup>2</sup>"),
        ("hat omega* and D-tilde", "<i>ω̂</i><sup>*</sup> and <i>D̃</i>"),
        ("sum_k p^k; sqrt 825; lambda1", "∑<sub><i>k</i></sub> <i>p</i><sup><i>k</i></sup>; √825; <i>λ</i><sub>1</sub>"),
        ("a client's loss, not I", "a client&#39;s loss, not I"),
        ("Theorem E and scheme C", "Theorem E and scheme C"),
        ("zero='one' in docs/efl.md, local_lr, l2-over-beta", "zero=&#39;one&#39; in docs/efl.md, local_lr, l2-over-beta"),
        ("`sum_k` <em>", "<code>sum_k</code> &lt;em&gt;"),
        ("see efl/theorem-1.", 'see <a href="#t">efl/theorem-1</a>.'),
    ],
)
def test_notes_have_their_symbols_typeset(text, shown):
    assert typeset.prose_html(text, {"efl/theorem-1": "#t"}) == shown


# --- a saved campaign -----------------------------------------------------------------------------
@pytest.fixture
def stored(rows, tmp_path):
    record = record_of(rows)
    record["searches"] = [{"statement": "fedelasticnet/eq-28", "form": "repaired", "rule": "sign", "evaluations": 5, "found": False}]
    return write_json(tmp_path / "campaign.json", record)


def test_a_saved_campaign_is_read_as_it_was(rows, stored):
    read, record = saved.read_campaign(stored)
    assert [(r.statement, r.form, r.rule, r.verdict, str(r.tightness_worst)) for r in read] == [
        (r.statement, r.form, r.rule, r.verdict, str(r.tightness_worst)) for r in rows
    ]
    assert record["provenance"]["commit"] == "abc"
    assert "5 instances searched, none violates it" in html.html_report(read, record)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: r.pop("rows"), "no 'rows'"),
        (lambda r: r.update(complete="yes"), "complete is 'yes'; it must be true or false"),
        (lambda r: r["settings"].pop("workers"), "settings: no 'workers'"),
        (lambda r: r["settings"].update(scale="large"), "settings: scale is 'large'; it must be a number"),
        (lambda r: r["provenance"].pop("commit"), "no commit"),
        (lambda r: r["rows"][0].update(verdict="<script>"), r"rows\[0\]: verdict is '<script>'; use one of holds"),
        (lambda r: r["rows"][0].update(instances="many"), "instances is 'many'; it must be a whole number"),
        (lambda r: r["rows"][0].update(tightness_worst="wide"), "tightness_worst is 'wide'; it must be a number"),
        (lambda r: r["rows"].append(3), "it must be an object"),
        (lambda r: r["searches"].append({}), r"searches\[1\]: no 'statement'"),
        (lambda r: r.update(findings={"x": ["y"]}), "findings must be pairs"),
    ],
    ids=["no-rows", "kind", "inside", "scale", "commit", "verdict", "count", "number", "row", "search", "findings"],
)
def test_a_file_that_is_no_campaign_is_refused(stored, change, told):
    record = json.loads(stored.read_text())
    change(record)
    stored.write_text(json.dumps(record))
    with pytest.raises(DataFileError, match=told):
        saved.read_campaign(stored)


def test_files_that_are_missing_cut_off_or_of_other_papers_are_refused(stored, tmp_path):
    with pytest.raises(DataFileError, match="no such file"):
        saved.read_campaign(tmp_path / "nowhere.json")
    whole = stored.read_text()
    stored.write_text(whole[: len(whole) // 2])
    with pytest.raises(DataFileError, match="not JSON, or truncated"):
        saved.read_campaign(stored)
    stored.write_text(whole.replace('"fedelasticnet/eq-28"', '"nobody/eq-28"'))
    with pytest.raises(UnknownName, match="--paper"):
        saved.read_campaign(stored)


def test_every_witness_is_found_again_by_its_summary():
    """A worst instance that is a witness is named by the command that reruns it."""
    named = {}
    for w in builtin_witnesses():
        named.setdefault(setting_of(w.statement).summary(w), []).append(w.name)
    assert len(named) > 100 and all(Path(name).name == name for names in named.values() for name in names)
