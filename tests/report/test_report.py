"""The output for readers: formulas, tables, two reports, and the code of the networks' page."""

import dataclasses
import io
import re
import textwrap
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from campaign_rows import check, record_of, recorded_rows
from matplotlib import pyplot
from matplotlib.text import Text
from repository import ROOT
from rich.console import Console

from fedtheory.plotting import curves
from fedtheory.plotting.style import house_style
from fedtheory.report import figures_verdicts, formulas, html, tables
from fedtheory.theorems import Check, all_statements, get
from fedtheory.theory.judge import campaign
from fedtheory.theory.judge.check import AT_A_POINT

PREFIXES = list(dict.fromkeys(s.id.split("/")[0] + "/" for s in all_statements()))
PAPERS = [tables.paper_of(prefix).title for prefix in PREFIXES]


@pytest.fixture
def rows():
    """Every form with its recorded verdict on two instances."""
    return recorded_rows()


@pytest.fixture
def record(rows):
    return record_of(rows)


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\tfrac1m\sum_k\|\theta_k^t\|^2", "(1/m)∑ₖ‖θₖᵗ‖²"),
        (r"\frac{a+b}{cd}", "((a + b)/(cd))"),
        (r"\binom E2\eta", "(E choose 2)η"),
        (r"\frac{\binom{E+1}{2}}{n}", "((E + 1 choose 2)/n)"),
        (r"f=\begin{cases}a&\text{if }x\le 0\\b+c&\text{else}\end{cases},", "f = {a\xa0if\xa0x\xa0≤\xa00; b\xa0+\xa0c\xa0else},"),
        (r"\gamma^{t-1}-\theta_*\le x", "γᵗ⁻¹ − θ_* ≤ x"),
        (r"-\nabla L_k(\tilde\theta)", "−∇Lₖ(θ̃)"),
        (r"\sum_{k\in\mathcal P_t}\mathbb E[v_k]", "∑_{k∈𝒫ₜ}𝔼[vₖ]"),
        (r"\sqrt{825}", "√825"),
        (r"\text{the same with }s_k^t", "the same with sₖᵗ"),
        (r"\Big\|x\Big\|^2", "‖x‖²"),
        (r"w\in\arg\min_w F(w)", "w ∈ arg min_w F(w)"),
        (r"\lim_t x_t = x^*", "limₜ xₜ = x^*"),
        (r"2\max_k\beta_k\log n", "2 maxₖ βₖ log n"),
        (r"\max\{a,b\}+\log(n)", "max{a, b} + log(n)"),
    ],
)
def test_formulas_as_unicode(latex, text):
    assert formulas.to_text(latex) == text


def test_every_formula_becomes_mathml_and_text():
    for statement in all_statements():
        for form in statement.forms:
            tree = ElementTree.fromstring(formulas.to_mathml(form.latex))
            assert tree.tag.endswith("math")
            assert "\\" not in "".join(tree.itertext()), (statement.id, form.name)
            assert "\\" not in formulas.to_text(form.latex)


@pytest.mark.parametrize("width", [80, 120, 132])
def test_the_table_fits_the_terminal(rows, width):
    console = Console(width=width, record=True, file=io.StringIO())
    widest = next(r for r in rows if r.statement == "efl/incomplete-rate" and r.form == "printed")
    widest.tightness_worst, widest.tightness_median = 0.9753, -0.0012345
    for row in rows:
        if row.statement.startswith("efl/claim"):
            row.verdict = row.established = "not applicable"
    for row in rows:
        if row.statement == "efl/learning-rate-after-shift":
            row.tightness_worst, row.tightness_median, row.instances = 0.000123456, 0.0000123456, 1234
    console.print(tables.statement_table(rows, width))
    text = console.export_text()
    assert ("0.975/<0" if width < 110 else "0.975 / <0") in text and ("· n/a" if width < 110 else "· not applicable") in text
    for statement in all_statements():
        assert re.search(rf"^{re.escape(tables.short(statement.id))}{tables.WORDED}?( |$)", text, re.M), statement.id
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    line = next(ln for ln in text.splitlines() if ln.startswith("eq-28 "))
    assert "✗ violated" in line and "✓ holds" in line and ("0.5/0.38" if width < 110 else "0.5 / 0.38") in line and "yes" in line


def test_the_worst_case_stands_beside_the_tightness(rows, record):
    """In the main tables as a number, in the table of every form with its point; it is no instance, and no tightness."""
    row = next(r for r in rows if r.statement == "fedelasticnet/theorem-a")
    assert (row.worst_case, row.instances, row.tightness_worst, row.evaluations) == (0.1524, 2, 0.5, 6)
    assert row.modes == ["exact", AT_A_POINT] and row.worst_case_at == "everybody, T < 8|9"
    console = Console(width=132, record=True, file=io.StringIO())
    console.print(tables.statement_table(rows, 132))
    printed = console.export_text()
    assert "worst case" in printed and "/bound" in printed
    assert next(ln for ln in printed.splitlines() if ln.startswith("theorem-a ")).split()[-1] == "0.15"
    assert tables.WORST_CASE_NOTE in tables.table_key(rows) and "They are" not in tables.table_key(rows)
    assert tables.WORST_CASE_NOTE + " They are: fedelasticnet/theorem-a 0.15." in tables.table_key(rows, 80)
    counts = "how many of a statement's own forms hold and fail"
    assert counts in tables.table_key(rows) and counts not in tables.table_key([row])
    text = html.markdown_report(rows, record)
    assert "| 0.5 / 0.38 | 0.15 |" in text and "| 0.15 (everybody, T < 8\\|9) |" in text and tables.WORST_CASE_NOTE in text
    mine = [r for r in rows if r.statement.startswith("fedelasticnet/")]
    assert "They are: theorem-a 0.15." in tables.table_key(mine, 80)
    others = [r for r in rows if r is not row]
    assert "worst case" not in tables.table_key(others) and "worst case/bound" not in str(tables.statement_table(others, 132).columns)


def test_papers_have_a_part_each(rows):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(tables.statement_table(rows, 80))
    text = [ln.strip() for ln in console.export_text().splitlines()]
    starts = [text.index(name) for name in PAPERS]
    assert starts == sorted(starts) and {"FedElasticNet", "FedMLS", "EFL"} <= set(PAPERS)
    for prefix, start, end in zip(PREFIXES, starts, [*starts[1:], len(text)], strict=True):
        names = [tables.short(s.id) for s in all_statements() if s.id.startswith(prefix)]
        shown = [ln.split(" ")[0].rstrip(tables.WORDED) for ln in text[start + 1 : end]]
        assert [name for name in shown if name in names] == names, "an id may be another paper's as well"
    assert [p.title for p, _ in tables.by_paper(rows, lambda r: r.statement)] == PAPERS


def test_a_case_distinction_is_kept_together_in_terminal_report_and_page(monkeypatch):
    """Theorem E's constants: no line ends within a case, and none of the three cuts a distinction in two."""
    from fedtheory.report import typeset

    monkeypatch.syspath_prepend(str(ROOT / "docs/_ext"))
    from formulas import broken

    latex = get("fedelasticnet/theorem-e").form("repaired").latex
    assert latex.count(r"\begin{cases}") == 2
    lines = textwrap.wrap(formulas.to_text(latex), 74)
    small, large = "(m(2β + 3λ₂)/(Pλ₂²(2β + λ₂))) for λ₂ ≤ (2 + 2√2)β;", "(m/(2Pβλ₂)) else}, κ₀^E = {"
    assert any(small in line.replace("\xa0", " ") for line in lines) and any(large in line.replace("\xa0", " ") for line in lines)
    pieces = [piece for part in typeset.formula_pieces(latex) for piece in part]
    assert [piece.count("<mtable") for piece in pieces if "<mtable" in piece] == [1, 1]
    assert all(piece.count("<mtr>") in (0, 2) for piece in pieces)
    rows = [row for row in re.split(r"\\\\ ", broken(latex)) if "cases" in row]
    assert len(rows) == 2 and all(r"\begin{cases}" in row and r"\end{cases}" in row for row in rows)


def test_as_printed_of_fedmls_is_with_exact_subgradients(rows):
    line = next(ln for ln in tables.lines(rows) if ln.statement == "fedmls/theorem-2")
    assert (line.printed.form, line.printed.rule) == ("printed", "deterministic")
    line = next(ln for ln in tables.lines(rows) if ln.statement == "fedmls/theorem-1")
    assert {r.rule for r in line.repaired} == {"deterministic", "stochastic"}
    wrong = next(r for r in rows if (r.statement, r.form, r.rule) == ("fedmls/theorem-1", "repaired", "stochastic"))
    wrong.verdict = "violated"
    (text,) = tables.disagreements(rows)
    assert "fedmls/theorem-1 [repaired, stochastic]: violated, on record as holds" in text


def test_reasons_of_checks_stand_below_the_table():
    one = check("fedmls/theorem-1", "repaired", "deterministic", "holds", 0.5)
    why = Check("fedmls/theorem-1", "printed", "deterministic", "not applicable", "exact", reason="a long reason " * 12)
    for width in (80, 120):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(tables.check_table([why, one, why], width))
        text = console.export_text()
        assert max(map(len, text.splitlines())) <= width and "…" not in text
        assert " ".join(text.split()).count("a long reason " * 11) == 1, "said once"
        assert len(re.findall(r"^printed .*\(1\)", text, re.M)) == 2
        console.print(tables.check_table([why, one, why], width, {why.reason}))
        assert "a long reason" not in console.export_text(), "the sentence above it has it"


def test_a_narrow_table_of_checks_says_how_and_where_below():
    of = ("fedmls/theorem-1", "repaired", "deterministic", "holds")
    one = Check(*of, "exact", 0.5, where={"T": 4})
    other = Check(of[0], "printed", *of[2:], "statistical", 0.5, where={"T": 7})

    def text(checks, width):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(tables.check_table(checks, width))
        found = console.export_text()
        assert max(map(len, found.splitlines())) <= width
        return " ".join(found.split())

    assert text([one], 80).endswith("how: exact worst at T = 4")
    assert text([one, other], 80).endswith(
        "how: exact (repaired) how: statistical (printed) worst at T = 4 (repaired) worst at T = 7 (printed)"
    )
    assert "how: statistical at 99.9 % worst" in text([replace(other, confidence=0.999)], 80)
    assert "how:" not in text([one, other], 120) and "T = 7" in text([one, other], 120)


def test_what_the_paper_does_not_print_is_marked(rows, record):
    """The column "as printed" shows a wording of our own with a mark, and no form is called printed for it."""
    by_id = {line.statement: line for line in tables.lines(rows)}
    worded = {"elastic-fixed-point": "unbiased", "scheme-limit": "unbiased", "st-lemma": "printed rule"}
    for name, form in {**worded, "residual-invariant": "literal formulas", "compression-bias": "literal formulas"}.items():
        line = by_id[f"efl/{name}"]
        assert (line.printed.form, line.mark) == (form, tables.WORDED)
        assert "printed" not in [f.name for f in get(line.statement).forms]
    assert by_id["efl/theorem-1"].mark == "" and by_id["efl/theorem-1"].printed.form == "printed"
    text = html.markdown_report(rows, record)
    assert f"\n| st-lemma{tables.WORDED} |" in text and tables.WORDED_NOTE in text
    console = Console(width=120, file=io.StringIO())
    console.print(tables.statement_table(rows, 120))
    assert f"\ncompression-bias{tables.WORDED} " in console.file.getvalue()
    tiles = figures_verdicts.table({"rows": [{**dataclasses.asdict(r), "ok": r.ok} for r in rows]})
    assert tiles["efl/scheme-limit"]["printed"]["form"] == "unbiased"
    assert figures_verdicts._name("efl/st-lemma", tiles["efl/st-lemma"]) == f"st-lemma{tables.WORDED}"


def test_as_printed_is_the_sign_rule(rows):
    line = next(ln for ln in tables.lines(rows) if ln.statement == "fedelasticnet/eq-28")
    assert (line.printed.form, line.printed.rule) == ("printed", "sign")
    assert {(r.form, r.rule) for r in line.repaired} == {("repaired", "sign"), ("repaired", "true-gradient")}
    assert line.witness == "fedelasticnet-eq-28-printed-sign"


def test_the_row_that_is_shown_is_under_the_rule_that_the_caption_names(rows):
    line = next(ln for ln in tables.lines(rows) if ln.statement == "efl/theorem-1")
    for r in line.repaired:
        r.tightness_worst = {"A": 0.794, "C": 0.174}.get(r.rule, 0.5)
        r.instances = {"A": 4, "C": 5}.get(r.rule, 3)
    assert line.repaired[0].rule == "A" and (line.shown.rule, line.instances) == ("C", 5)
    chart = figures_verdicts.table({"rows": [vars(r) for r in rows]})
    for ln in tables.lines(rows):
        for form, row in chart.get(ln.statement, {}).items():
            shown = ln.printed if form == "printed" else tables.shown_rule(ln.repaired)
            assert (row["rule"], row["tightness_worst"]) == (shown.rule, shown.tightness_worst), (ln.statement, form)
    worse = next(r for r in line.repaired if r.rule == "A")
    worse.verdict = "violated"
    tile = figures_verdicts.table({"rows": [vars(r) for r in rows]})["efl/theorem-1"]["repaired"]
    assert (tile["rule"], tile["verdict"]) == ("A", "violated"), "a violation is shown under whatever rule"


def test_ratios_without_a_meaning_have_no_digits(rows):
    row = rows[0]
    row.tightness_worst, row.tightness_median = -0.0, 0.0
    assert tables.tightness_text(row) == "0 / 0"
    row.tightness_worst, row.tightness_median = -0.00132, -0.76
    assert tables.tightness_text(row) == "<0 / <0"


def test_statements_whose_forms_have_names_of_their_own_show_instances_and_verdicts(rows):
    line = next(ln for ln in tables.lines(rows) if ln.statement == "efl/contraction-factors")
    assert not line.printed and not line.repaired and line.instances == 2
    forms = {r.form: r.verdict for r in line.others}
    held = sum(v == "holds" for v in forms.values())
    assert tables.other_forms(line) == f"forms: ✓ {held}, ✗ {len(forms) - held}" and len(forms) > held > 1
    assert f"forms: ✓ {held}, ✗" in html.markdown_report(rows, _any_record(rows))
    assert tables.other_forms(next(ln for ln in tables.lines(rows) if ln.statement == "efl/theorem-1")) == ""


def _any_record(rows):
    more = {"checked": 1, "comparisons": 1, "witnesses": {"replayed": 0}, "memory_mib": {"main": 1.0, "largest_worker": 1.0}}
    where = dict.fromkeys(("seed", "commit", "device", "python", "platform", "written"), "-") | {"versions": {}}
    return {**campaign.Campaign(rows, settings={"workers": 1}).to_json(), **more, "provenance": where}


def test_the_key_names_a_witness_that_can_be_replayed(rows):
    assert "`fedtheory replay STATEMENT` reruns it, as in `fedtheory replay fedelasticnet/eq-28`" in tables.table_key(rows)
    for row in rows:
        row.witness = None
    assert "as in" not in tables.table_key(rows) and "replay" not in tables.table_key(rows)
    rows[0].witness = "out/witnesses/mine.json"
    assert "`fedtheory replay FILE` reruns it, as in" in tables.table_key(rows) and "list witnesses" not in tables.table_key(rows)


def test_disagreements_are_named(rows):
    assert tables.disagreements(rows) == []
    rows[0].verdict = "inconclusive"
    (text,) = tables.disagreements(rows)
    assert rows[0].statement in text and "inconclusive" in text and f"on record as {rows[0].established}" in text
    assert "(!)" in tables.verdict_text([rows[0]])
    rows[0].established = "open"
    assert tables.disagreements(rows) == []


def test_the_markdown_report_has_one_row_a_statement(rows, record, tmp_path):
    (tmp_path / "figures").mkdir()
    text = html.markdown_report(rows, record, [tmp_path / "figures" / "a_b.png"], tmp_path)
    lines = text.splitlines()
    wide = [ln for ln in lines[: lines.index("## Every form")] if ln.startswith("| ") and ln.count("|") > 5]  # not the counts
    main = [ln for ln in wide if not ln.startswith("| statement ")]
    assert [ln.removeprefix("## ") for ln in lines if ln.removeprefix("## ") in PAPERS] == PAPERS
    assert len(main) == len(all_statements())
    assert len({len(re.findall(r"(?<!\\)\|", ln)) for ln in main}) == 1, "no cell breaks the table"
    assert "![a b](figures/a_b.png)" in text


def test_the_markdown_says_in_one_sentence_what_is_found(rows, record):
    text = html.markdown_report(rows, record)
    assert "Theorem 3.1 is false as printed: one client, one coordinate, T = 3; true after five repairs" in text


def test_curves_of_a_run_that_reaches_zero(tmp_path):
    from fedtheory import problems, simulate
    from fedtheory.algorithms import FedProx

    problem = problems.Quadratic(np.ones((2, 1, 1)), np.zeros((2, 1)))
    run = simulate(problem, FedProx(mu=1.0), 3, scenarios=2, record=["suboptimality", "nonzeros"])
    told = ("It ends where it began.", "Local work a round: local problems solved exactly")
    shown = [text.get_text() for text in curves.curves(run.metrics, "at the optimum from the start", *told).texts]
    assert f"{told[1]}. {told[0]} Mean of 2 runs, and where" in " ".join(shown).replace("\n", " ")
    files = curves.draw_curves(run, tmp_path / "run", "at the optimum from the start")
    assert [f.name for f in files] == ["run.png", "run.pdf"] and all(f.stat().st_size > 1000 for f in files)


@pytest.mark.filterwarnings("error")
def test_a_module_comes_back_as_the_page_of_networks_says(capsys):
    torch = pytest.importorskip("torch")
    from fedtheory import Uniform, algorithms, local, neural

    section = (ROOT / "docs/your/network.md").read_text().split("as here two numbers in a dict")[1]
    torch.manual_seed(0)
    names = {"np": np, "torch": torch, "neural": neural, "algorithms": algorithms, "local": local, "Uniform": Uniform}
    names["rng"] = np.random.default_rng(0)
    first, *others = re.findall(r"```python\n(.*?)```", section, re.S)
    for code in (first, next(code for code in others if "run.module()" in code)):
        exec(compile(code, "docs/your/network.md", "exec"), names)
    assert names["problem"].engine.name == "stacked"
    trained = names["trained"]
    np.testing.assert_array_equal(torch.nn.utils.parameters_to_vector(trained.parameters()).detach(), names["run"].x[0])
    outputs = trained(torch.tensor(names["inputs"], dtype=torch.float32))
    loss = names["loss"](outputs, torch.tensor(names["targets"], dtype=torch.float32))
    start, end = names["run"].metrics["objective"][[0, -1], 0]
    decay = 0.5e-4 * float(names["run"].x[0] @ names["run"].x[0])
    assert float(loss.detach()) == pytest.approx(end - decay, abs=1e-5) and end < start - 0.5


@pytest.mark.parametrize("printed, repaired, title", [
    (["holds"], [], "The printed statement holds"),
    (["violated"], [], "The printed statement fails"),
    (["violated", "holds"], [], "1 of 2 printed statements fails"),
    (["violated", "holds"], ["holds"], "1 of 2 printed statements fails; every repaired one holds"),
    (["violated", "holds"], ["violated"], "1 of 2 printed statements fails; 1 repair does not hold"),
])  # fmt: skip
def test_the_chart_speaks_of_repairs_only_where_there_are_some(printed, repaired, title):
    """And draws no empty column."""
    ids = [s.id for s in all_statements() if s.id.startswith("efl/")]
    row = {"rule": "any", "tightness_worst": 0.5}
    tiles = {ids[i]: {"printed": {"verdict": verdict, "form": "printed", **row}} for i, verdict in enumerate(printed)}
    for i, verdict in enumerate(repaired):
        tiles[ids[i]]["repaired"] = {"verdict": verdict, "form": "repaired", **row}
    with house_style():
        made = figures_verdicts.draw({"tiles": tiles, "instances": 3})
    words = [t.get_text() for t in made.findobj(Text)]
    assert title in words
    assert [t.get_text() for t in made.axes[0].get_xticklabels()] == ["as printed", "as repaired"][: 1 + bool(repaired)]
    pyplot.close(made)
