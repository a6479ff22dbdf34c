"""A stranger's file at the command line: words that are missing or broken cost no work, and every command says the same of it."""

import html
import json
import re
import shlex
import subprocess
import sys
import textwrap
from fractions import Fraction
from pathlib import Path

import pytest
from command_line import call, refused
from core_forms import form
from damped import DAMPED
from markupsafe import escape

from fedtheory.plotting.style import house_style
from fedtheory.report import figures_verdicts
from fedtheory.theory import Paper, Uniform, load_file
from fedtheory.theory.judge import Setting, Statement, le, registry
from fedtheory.theory.studies import figure

ROOT = Path(__file__).parents[2]
HEAD = """
from fractions import Fraction
import numpy as np
from fedtheory.algorithms import FedAvg, FedProx
from fedtheory.theory import *
ONE = GradientSteps(1, lr=lambda c: 1 / c.beta)
SMALL = SmoothConvex(clients=1, dimension=1)
paper = Paper("strange")
"""


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a file of a statement called 'a' and gives its path."""

    def write(body, name="file.py", **declared):
        how = {"about": "FedAvg()", "local": "ONE", "problems": "SMALL", **declared}
        arguments = ", ".join(f"{k}={v}" for k, v in how.items())
        body = textwrap.indent(textwrap.dedent(body).strip(), "    ")
        file = tmp_path / name
        file.write_text(f'{HEAD}@paper.statement("a", {arguments})\ndef a(q):\n    """The loss goes down."""\n{body}\n')
        return file

    return write


def small_campaign(file, out):
    return call("verify", file, "--quick", "--budget", 40, "--workers", 1, "--out", out)


def test_a_form_without_latex_is_shown_as_its_code_says(written):
    told = call("explain", written("yield printed(le(q.F_next, q.F))")).stdout
    assert "F(x⁺) ≤ F(x)" in told and "no formula" not in told


def test_a_form_without_a_formula_is_shown_by_its_statement(written, tmp_path):
    file = written("yield printed(le(q.F_next if q.N > 0 else q.F, q.F))")  # no closed expression
    assert "(no LaTeX is given, and none follows from the code) The loss goes down." in call("explain", file).stdout
    done = small_campaign(file, tmp_path / "out")
    assert "(no LaTeX is given, and none follows from the code) The loss goes down." in (tmp_path / "out/report.html").read_text()
    assert "warning" not in done.stderr


@pytest.mark.parametrize("latex, why", [(r"r'\frac 1'", "no LaTeX that can be read"), (r"'\frac{1}{2}'", "control character")])
def test_broken_latex_is_shown_as_it_stands_with_a_warning(written, tmp_path, latex, why):
    file = written(f"yield printed(le(q.F_next, q.F), {latex})")
    told = call("explain", file)
    out = tmp_path / "out"
    done = small_campaign(file, out)
    for result in (told, done):
        [line] = [line for line in result.stderr.splitlines() if line.startswith("warning")]
        assert "file.py, strange/a [printed]" in line and why in line
    written_as = r"\frac 1" if why.startswith("no") else r"\x0crac{1}{2}"
    assert written_as in told.stdout and written_as in (out / "report.html").read_text()


@pytest.mark.parametrize("command", ["explain", "verify"])
def test_latex_that_is_not_closed_is_refused_with_its_place(written, tmp_path, command):
    file = written(r"yield printed(le(q.F_next, q.F), r'F(x^+) \le \frac{1}{2')")
    told = " ".join(refused(command, file, *(("--out", tmp_path / "out") if command == "verify" else ())).split())
    line = next(n for n, text in enumerate(Path(file).read_text().splitlines(), 1) if "yield printed" in text)
    assert f"file.py, line {line}, strange/a: form 'printed': '{{' at character 20 of its formula is not closed" in told
    assert "Close it, or the formula would be shown wrong." in told


def test_readable_latex_is_not_warned_of(written):
    told = call("explain", written(r"yield printed(le(q.F_next, q.F), r'F(x^+) \le F(x)')"))
    assert told.stderr == "" and "F(x⁺) ≤ F(x)" in told.stdout


def test_a_counterexample_without_a_formula_is_replayed(written, tmp_path):
    file = written("yield printed(le(q.F, q.F_next))")
    small_campaign(file, tmp_path / "out")
    [witness] = (tmp_path / "out/witnesses").iterdir()
    assert "violated" in call("replay", witness, "--paper", file).stdout


SHAPES = "yield printed(le(q.x_next, q.F, -q.gradient_sq / q.beta), r'F \\le G')"
RUN = {"over": '"run"', "rounds": "(1, 30)"}


@pytest.mark.parametrize("body, declared, says", [
    (SHAPES, {"problems": "SmoothConvex(clients=(1, 4), dimension=(1, 4))"}, "form 'printed': a side has shape"),
    ("yield printed(le(q.F_next[-1], q.F[0]))", {"over": '"run"'}, "'F_next' is a quantity of a round; a run has q.F[t] for t = 0..T"),
    ("yield printed(le(q.average_gap, q.F))", {}, "'average_gap' is a quantity of a run; a round has"),
    ("yield printed(le(q.F_next, q.F))", {"sampling": "Uniform(9)", "problems": "SmoothConvex(clients=(1, 4), dimension=1)"},
     "cohorts need at least 9 clients, and the problems have at most 4: declare clients=(9, 10)"),
    ("yield printed(le(q.F[-1], q.F[0]))",
     {"over": '"run"', "rounds": "9", "sampling": "Uniform(3)", "problems": "SmoothConvex(clients=(5, 6), dimension=1)"},
     "sequences of cohorts, more than 4096: declare smaller numbers of clients or of rounds"),
])  # fmt: skip
def test_every_command_refuses_a_file_with_the_same_message(written, tmp_path, body, declared, says):
    file = written(body, **declared)
    told = {refused("list", file), refused("explain", file), refused("verify", file, "--out", tmp_path / "out")}
    assert len(told) == 1 and says in (line := told.pop()) and "file.py, line" in line and "strange/a" in line


def test_a_long_run_of_many_clients_is_searched_where_it_can_be(written, tmp_path):
    sizes = "SmoothConvex(clients=(1, 30), dimension=(1, 3))"
    file = written("yield printed(le(q.T * (1 + q.F[0]), 30 * (1 + q.F[0])))", problems=sizes, sampling="Uniform", **RUN)
    out = tmp_path / "out"
    call("verify", file, "--quick", "--budget", 60, "--workers", 1, "--out", out)
    told = json.loads((out / "campaign.json").read_text())
    [row], [search] = told["rows"], told["searches"]
    assert told["ok"] and row["verdict"] == "holds" and row["instances"] > 0
    assert search["evaluations"] == 60 and search["best"] == 0.0  # as in a run of all 30 rounds
    assert search["best_instance"]["data"]["rounds"] == 30


def test_an_entry_point_that_gives_no_paper_is_told_with_what_it_gave(monkeypatch):
    statement = registry.all_statements()[0]

    class Point:
        name, value = "theirs", "theirs:LEMMA"

        def load(self):
            return statement

    monkeypatch.setattr(registry, "entry_points", lambda group: [Point()])
    for known in ("_PAPERS", "_STATEMENTS", "_ALIASES"):
        monkeypatch.setattr(registry, known, {})
    monkeypatch.setattr(registry, "_LOADED", [])
    with pytest.warns(UserWarning, match=r"the papers of theirs \(theirs:LEMMA\) are left out: .*\(Statement\), and must give a"):
        registry._load()


def test_where_a_statement_is_not_judged_on_a_problem_its_paper_is_named():
    class Own(Setting):
        kinds = ("own",)

    only = Statement("one-shot/loss", "a loss", "", "own", (form("printed", "a", lambda v: le(v.a, v.a), "holds", kind="own"),))
    registry.papers()
    registry.register(Paper("one-shot", "One shot").judged_by(Own(), (only,)))
    assert "`fedtheory verify one-shot/`" in refused("verify", "one-shot/loss", "--problem", "quadratic")
    assert "fedtheory verify one-shot/" in call("explain", "one-shot/loss").stdout.split("Try:")[1]


def test_the_sites_lemma_is_judged_on_its_problem():
    page = (ROOT / "docs/your/theorem.md").read_text()
    [options] = re.findall(r"`verify\s+descent_lemma\.py::lemma-1 ([^`]*)`", page)
    found = json.loads(call("verify", ROOT / "examples/descent_lemma.py::lemma-1", *options.split(), "--json").stdout)
    assert {c["form"]: c["verdict"] for c in found["checks"]} == {"printed": "violated", "repaired": "holds"}


def test_unequal_numbers_of_samples_are_judged_as_those_of_a_papers_statements_are():
    """442 samples on 5 clients: F has weights 1/5, and so has the server."""
    lemma = ROOT / "examples/descent_lemma.py::lemma-1"
    for clients in (5, 13):
        judged = json.loads(call("verify", lemma, "--problem", "diabetes", "--clients", clients, "--json").stdout)
        assert judged["verdict"] == "holds" and not any(check["reason"] for check in judged["checks"])


def test_help_on_a_statement_of_a_file_has_its_options():
    lemma = f"{ROOT / 'examples/descent_lemma.py'}::lemma-1"
    text = call("verify", lemma, "--help").stdout
    shown = {*re.findall(r"--[a-z][a-z-]+", text)}
    assert "Verify descent-lemma/lemma-1: One local gradient step of everybody decreases F." in " ".join(text.split())
    assert {"--problem", "--clients", "--figure", "--help-all"} <= shown and not {"--participants", "--budget", "--local-lr"} & shown
    own = call("verify", f"{ROOT / 'examples/own_method.py'}::{own_statement()}", "--help").stdout
    assert "--participants" in own


def own_statement():
    """A statement about cohorts of every size."""
    paper = load_file(ROOT / "examples/own_method.py")
    return next(s.name for s in paper.authored.values() if s.sampling is Uniform)


def test_explain_says_what_a_file_declares(written):
    file = written(
        "yield printed(le(q.F_next, q.F, q.dissimilarity / q.beta))",
        about="method(FedProx, mu=lambda c: 2 * c.beta)", local="GradientSteps(among(1, 2), lr=upto(lambda k: 1 / k.beta))",
        sampling="Uniform", problems="SmoothConvex(clients=(1, 3), dimension=2, weights='any')",
    )  # fmt: skip
    about = json.loads(call("explain", file, "--json").stdout)
    assert about["declares"] == {
        "method": "FedProx(mu = 2 * beta)",
        "local work": "1 or 2 local gradient steps, lr = every number in (0, 1 / beta]",
        "sampling": "uniform cohorts of every size P",
        "problems": "smooth convex losses, 1 to 3 clients, dimension 2, any weights",
        "round": "after 0 to 2 others",
    }
    assert {"F", "F_next", "dissimilarity", "beta"} == {*about["symbols"]}
    text = " ".join(call("explain", file).stdout.split())
    assert all(f"{what}: {words}" in text for what, words in about["declares"].items())
    assert "dissimilarity: sum_k w_k ||grad f_k(x) - grad F(x)||^2" in text


def test_the_reports_have_what_the_study_found(tmp_path):
    lemma, out = ROOT / "examples/descent_lemma.py", tmp_path / "out"
    shown = " ".join(call("verify", lemma, "--quick", "--budget", 90, "--workers", 1, "--out", out).stdout.split())
    record = json.loads((out / "campaign.json").read_text())
    assert {row["form"]: row["known"] for row in record["rows"]} == {"printed": "refuted", "repaired": "proved"}
    assert record["known"] == {"proved": 1, "in words": 0, "tested": 0, "refuted": 1, "open": 0}
    assert "1 verdict “holds”: 1 proved by machine, 0 in words (cited), 0 only tested" in shown
    found = record["findings"]["descent-lemma/lemma-1"]
    labels = {label for label, _ in found}
    assert {"searched", "refuted", "constant", "needed", "undecided", "rejected", "tightness"} <= labels
    page, text = ((out / name).read_text() for name in ("report.html", "report.md"))
    for label, words in found:
        assert f"- **{label}**: {words}" in text and f"<dt>{label}</dt>" in page and escape(words) in page
        assert words.split(": ")[0] in shown
    assert "violated at half = 1001/2000" in text
    assert f"fedtheory verify {lemma} --scale 0.1" in page  # to make it again: of the file, not of the four papers


def test_without_matplotlib_there_are_no_figures_and_it_is_told(tmp_path):
    code = "import sys; sys.modules['matplotlib'] = None; from fedtheory.cli import main; main()"
    words = ("verify", str(ROOT / "examples/wrong_constant.py"), "--quick", "--budget", "20", "--workers", "1", "--out", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert "no figures: matplotlib is not installed" in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "report.html").exists() and not list(tmp_path.rglob("*.png"))


def test_verdicts_that_nobody_recorded_are_not_called_the_recorded_ones(written, tmp_path):
    small_campaign(written("yield printed(le(q.F_next, q.F))"), tmp_path / "out")
    page = (tmp_path / "out/report.html").read_text()
    assert "Nothing is on record for this statement." in page and "are the recorded ones" not in page


def test_a_theorem_of_a_file_without_steps_is_told_where_they_go(written):
    assert "add paper.proof(THEOREM, steps=" in refused("proof", f"{written('yield printed(le(q.F_next, q.F))')}::a")


def test_a_study_without_words_for_reports_leaves_them_as_they_were(tmp_path, written):
    from fedtheory.report.html import html_report, markdown_report
    from fedtheory.theory.judge.campaign import summarise

    small_campaign(written("yield printed(le(q.F_next, q.F))"), tmp_path / "out")
    record = json.loads((tmp_path / "out/campaign.json").read_text())
    rows = summarise([], statements=[registry.get("strange/a")])
    assert "What was found" in html_report(rows, record) and "What was found" in markdown_report(rows, record)
    del record["findings"]
    assert "What was found" not in html_report(rows, record) + markdown_report(rows, record)


def test_many_files_are_counted_and_no_empty_chart_is_drawn(written, tmp_path):
    """Five forms with a name each: none is printed, so that a chart of the printed ones has nothing to show."""
    five = "for n in range(5):\n        yield form(f'f {n}', le(q.F_next, q.F, -Fraction(1, 2 + n) * q.gradient_sq / q.beta))"
    file = written(five)
    text = file.read_text()
    file.write_text(text + text[text.index("@paper"):].replace('"a"', '"b"').replace("def a(", "def b("))
    out = tmp_path / "out"
    said = call("verify", file, "--out", out, "--budget", 20)
    [line] = [line for line in said.stdout.splitlines() if line.startswith("wrote ")]
    assert len(list((out / "proofs").iterdir())) == 10 and f"10 files in {out / 'proofs'}" in line
    assert str(out / "campaign.json") in line and "strange-a" not in line and "UserWarning" not in said.stderr
    assert {p.stem for p in (out / "figures").iterdir()} == {"bound_a", "bound_b"}
    assert f"6 files of figures in {out / 'figures'}" in line


def test_a_dollar_in_a_title_costs_no_figure(written, tmp_path):
    file = written("yield printed(le(q.F_next, q.F), note=r'at $1')")
    twice = file.read_text().replace('Paper("strange")', 'Paper("strange", title=r"Costs $1, \\frac{ $")')
    file.write_text(twice + '\n\n@paper.statement("b", about=FedAvg(), local=ONE, problems=SMALL)\ndef b(q):\n    """For $2 $."""\n'
                    "    yield printed(le(q.gap_next, q.gap))\n")  # fmt: skip
    small_campaign(file, tmp_path / "out")
    assert {"bound_a.png", "bound_b.png", "verdicts.png"} <= {p.name for p in (tmp_path / "out/figures").iterdir()}


def test_a_report_of_one_statement_says_what_it_can(tmp_path):
    """Two statements in a file, one of them judged: nothing is on record, nothing stopped halfway, no repaired form is spoken of."""
    file = tmp_path / "two.py"
    one = '@paper.statement("{0}", about=FedAvg(), local=ONE, problems=SMALL)\n'
    one += 'def {0}(q):\n    """Down."""\n    yield printed(le(q.F_next, q.F))\n'
    file.write_text(HEAD + one.format("a") + one.format("b"))
    done = small_campaign(f"{file}::a", tmp_path / "out")
    text, report = " ".join(done.stdout.split()), (tmp_path / "out/report.md").read_text()
    [(judged, planned)] = re.findall(r"(\d+) of (\d+) instances of the campaign judged", text)
    assert judged == planned != "0"
    assert "nothing is on record for this statement" in text and "| printed statements | 0 | 1 | 0 |" in report
    assert "1 verdicts" not in report
    assert "proved printed: for smooth convex losses, 1 client, every dimension " in text and "no proof" not in text


def test_a_form_that_is_proved_in_part_says_what_was_seen_beyond(written, tmp_path):
    file = written("yield printed(le(q.F_next, q.F))", local="GradientSteps(1, lr=upto(lambda c: 1 / c.beta))")
    text = " ".join(small_campaign(file, tmp_path / "out").stdout.split())
    assert "every dimension, lr at its limit" in text
    assert re.search(r"printed: beyond what is proved no violation was found on \d+ instances judged", text)


def test_a_form_that_is_not_proved_says_why(written, tmp_path):
    text = " ".join(small_campaign(written("yield printed(le(q.F_next, abs(q.F)))"), tmp_path / "out").stdout.split())
    assert re.search(r"holds printed: no violation was found on \d+ instances judged, which is no proof", text)
    assert "Not proved for all losses: " in text and "the size of a number made of vectors" in text


def test_a_proof_is_written_and_replayed(written, tmp_path):
    file, out = written("yield printed(le(q.F_next, q.F))"), tmp_path / "out"
    small_campaign(file, out)
    [proof] = (out / "proofs").glob("*.json")
    text = " ".join(call("replay", proof, "--paper", file).stdout.split())
    assert "strange/a [printed]: proved for smooth convex losses, 1 client, every dimension" in text
    told = json.loads(call("replay", proof, "--paper", file, "--json").stdout)
    assert told["verdict"] == told["mode"] == "proved"
    call("replay", proof, "--paper", file, "--proof", tmp_path / "p.py")
    checked = subprocess.run([sys.executable, tmp_path / "p.py"], capture_output=True, text=True, check=True).stdout
    assert checked.startswith("The identity holds")
    whole, held = proof.read_text(), json.loads(proof.read_text())
    for spoilt in (
        whole[:-9], whole.replace("1 client", "2 clients"), json.dumps(held | {"question": [1]}),
        json.dumps({k: v for k, v in held.items() if k != "question"}), json.dumps(held | {"parts": [{}]}),
    ):  # fmt: skip
        proof.write_text(spoilt)
        assert len(refused("replay", proof, "--paper", file)) > 20
    proof.write_text(whole)
    file.write_text(file.read_text().replace("q.F)", "q.F - q.gradient_sq / q.beta)"))
    assert "not proved" in refused("replay", proof, "--paper", file)


def test_a_worst_function_is_written_as_a_witness_and_replayed(written, tmp_path):
    """Of losses that are sums over coordinates, all that are drawn in fractions, no gradient turns."""
    file = written(
        "yield printed(le(q.sq(q.gradient[-1:]), q.dot(q.gradient[-1:], q.gradient[:1])))",
        over="'run'", rounds=2, problems="SmoothConvex(1, (1, 2))",
    )  # fmt: skip
    out = tmp_path / "out"
    told = " ".join(small_campaign(file, out).stdout.split())
    assert "printed violated open – 1 /" in told
    words = "a worst function of the class: a table of 4 points of one loss in dimension 2, beta = 1"
    assert words in told and words in " ".join((out / "report.md").read_text().split())
    [witness] = (out / "witnesses").iterdir()
    replayed = " ".join(call("replay", witness, "--paper", file).stdout.split())
    assert "client 1, point 4 x = (0, 0), gradient (0, 0), value 0" in replayed
    assert "violated, in exact rational arithmetic" in replayed
    held = json.loads(witness.read_text())
    held["data"]["table"]["gradients"][0][0][0] = "1"
    witness.write_text(json.dumps(held))
    assert "the condition between its points" in refused("replay", witness, "--paper", file)


def test_a_proof_that_is_cited_is_named(written, tmp_path):
    file = written('yield printed(le(q.F_next, abs(q.F)), holds=True, proof="Lemma 1 of the book")')
    text = " ".join(small_campaign(file, tmp_path / "out").stdout.split())
    assert "instances judged; cited as its proof: Lemma 1 of the book" in text and "no proof" not in text


RULES = {"about": "method(Damped, alpha=1)", "rules": "{'printed': {'sign': -1}, 'repaired': {'sign': 1}}"}
GAIN = "yield printed(le(q.F_next, q.F, -Fraction(1, 2) * q.gradient_sq / q.beta))"


@pytest.fixture
def damped(written):
    """As ``written``, about a method that the file has itself."""

    def write(body, **declared):
        file = written(body, **declared)
        file.write_text(DAMPED + file.read_text())
        return file

    return write


def test_a_rule_has_its_figure_its_findings_and_its_column(damped, tmp_path):
    file, out = damped(GAIN, **RULES), tmp_path / "out"
    small_campaign(file, out)
    assert {p.name for p in (out / "figures").glob("bound_*.png")} == {"bound_a_printed.png", "bound_a_repaired.png"}
    for rule, verdict in (("printed", "violated"), ("repaired", "holds")):
        content = json.loads((out / f"figures/bound_a_{rule}.json").read_text())
        assert content["data"]["forms"]["printed"]["verdict"] == verdict
        with house_style():
            heading = figure.picture(content["data"]).texts[0].get_text().replace("\n", " ")
        assert heading.startswith(f"a, {rule} rule: printed {'fails' if rule == 'printed' else 'holds'}")
    report = (out / "report.md").read_text()
    assert "**refuted, printed rule**: printed: " in report and "**proved, repaired rule**: printed: " in report
    assert "| a | The loss goes down. | ✗ violated | ✓ holds |" in report and report.count("](figures/bound_a_") == 2
    tiles = figures_verdicts.table(json.loads((out / "campaign.json").read_text()))["strange/a"]
    assert {role: row["verdict"] for role, row in tiles.items()} == {"printed": "violated", "repaired": "holds"}


def test_a_counterexample_shows_the_numbers_that_were_drawn_and_not_their_shares(written, tmp_path):
    file = written(
        'yield printed(le(q.sq(q.x_next - q.x), q.gradient_sq / q.method.mu**2))',
        about="method(FedProx, mu=above(lambda c: 3 * c.beta))", local="GradientSteps(1, lr=upto(lambda c: 5 / c.beta))",
    )  # fmt: skip
    out = tmp_path / "out"
    told = " ".join(small_campaign(file, out).stdout.split())
    [witness] = (out / "witnesses").iterdir()
    data = json.loads(witness.read_text())["data"]
    beta, share, units = (Fraction(v) for v in (data["h"][0][0], data["drawn"]["lr"], data["drawn"]["method.mu"]))
    words = f"lr = {share * 5 / beta} (at most {5 / beta}), method.mu = {3 * beta + units} (above {3 * beta})"
    replayed = " ".join(call("replay", witness, "--paper", file).stdout.split())
    for text in (told, replayed, (out / "report.md").read_text(), (out / "report.html").read_text()):
        assert words in text
    drawn = json.loads((out / "figures/bound_a.json").read_text())["data"]["forms"]["printed"]["worst"]
    assert words in drawn and "drawn" not in replayed


def test_a_number_of_a_method_of_the_file_is_given_and_else_each_is_judged(damped):
    body = "yield printed(le(q.F_next, q.F, -q.method.alpha / 2 * q.gradient_sq / q.beta))"
    file = damped(body, about="method(Damped, alpha=among(1, 3))", problems="SmoothConvex(clients=(1, 3), dimension=(1, 2))")
    on = ("verify", f"{file}::a", "--problem", "quadratic", "--clients", 2, "--dimension", 2)
    told = " ".join(call(*on).stdout.split())
    assert "alpha is one of 1, 3: each is judged, --given alpha=... takes one" in told and "alpha = 3" in told
    for alpha, verdict in ((1, "holds"), (3, "violated")):
        found = json.loads(call(*on, "--given", f"alpha={alpha}", "--json").stdout)
        assert [c["verdict"] for c in found["checks"]] == [verdict]
        assert f"alpha = {alpha}" in (said := " ".join(call(*on, "--given", f"alpha={alpha}").stdout.split())) and "each" not in said
    own = (*on[:2], "--problem", "diabetes", "--clients", 2)  # a problem that has an option --alpha-dirichlet
    for there in (on, own):
        said = " ".join(call(*there, "--given", "alpha=2").stdout.split())
        assert "--given alpha=2: strange/a is about alpha 1 or 3" in said
    assert "alpha = big: strange/a takes a number" in " ".join(call(*on, "--given", "alpha=big").stdout.split())
    half = damped(body, about="method(Damped, alpha=among('1/2', 1))", problems="SmoothConvex(clients=(1, 3), dimension=(1, 2))")
    on = ("verify", f"{half}::a", *on[2:])
    assert "alpha = 0.5" in call(*on, "--given", "alpha=1/2").stdout
    assert "unknown given name 'beta': known: alpha" in refused(*on, "--given", "beta=1")


def test_the_rule_is_named_and_another_may_be_given(damped):
    file = damped(GAIN, **RULES, problems="SmoothConvex(clients=(1, 2), dimension=1)")
    on = ("verify", f"{file}::a", "--problem", "quadratic", "--clients", 2, "--dimension", 1)
    told = " ".join(call(*on).stdout.split())
    assert "judged under the printed rule: --given sign=1 takes the repaired rule" in told and "violated" in told
    told = " ".join(call(*on, "--given", "sign=1").stdout.split())
    assert "judged under the repaired rule: --given sign=-1 takes the printed rule" in told and "✓ holds" in told
    assert "sign: -1 (printed rule), 1 (repaired rule)" in call("explain", f"{file}::a").stdout


def test_the_size_of_a_cohort_that_the_statement_has_itself_may_be_said(written):
    file = written("yield printed(le(q.mean(q.F_next), q.F))", sampling="Uniform(1)", problems="SmoothConvex(clients=(2, 3))")
    on = ("verify", f"{file}::a", "--problem", "quadratic", "--clients", 2, "--json", "--participants")
    plain = json.loads(call(*on[:-1]).stdout)["checks"]
    assert json.loads(call(*on, 1).stdout)["checks"] == plain and plain[0]["verdict"] in ("holds", "violated")
    assert "--participants 2: strange/a is about Uniform(size=1); leave it out" in refused(*on, 2)


def test_a_problem_that_is_larger_than_drawn_instances_is_judged_with_a_word(written):
    file = written("yield printed(le(q.F_next, q.F))", problems="SmoothConvex(clients=(1, 3), dimension=(1, 2))")
    told = " ".join(call("verify", f"{file}::a", "--problem", "quadratic", "--clients", 5, "--dimension", 2).stdout.split())
    assert "judged all the same: 5 clients (instances have 1 to 3)" in told and "✓ holds" in told and "dimensions" not in told
    assert "the same" not in call("verify", f"{file}::a", "--problem", "quadratic", "--clients", 3, "--dimension", 2).stdout
    helped = " ".join(call("verify", f"{file}::a", "--help").stdout.split())
    assert "--clients" in helped and "the most that" not in helped


def test_all_clients_take_part_where_nobody_says_how_many(written):
    file = written("yield printed(le(q.mean(q.F_next), q.F))", sampling="Uniform", problems="SmoothConvex(clients=(2, 5))")
    on = ("verify", f"{file}::a", "--problem", "quadratic", "--clients", 5)
    assert "all 5 clients take part: --participants P takes cohorts of P" in " ".join(call(*on).stdout.split())
    checks = [json.loads(call(*on, *more, "--json").stdout)["checks"] for more in ((), ("-P", 5), ("-P", 2))]
    assert checks[0] == checks[1] != checks[2]
    assert "(default: all)" in " ".join(call(*on[:2], "--help").stdout.replace("│", " ").split())


@pytest.mark.parametrize("starts", [1, 2])
def test_a_problem_has_one_start_and_that_is_said_where_a_statement_has_random_ones(written, starts):
    file = written("yield printed(le(q.gap[-1], q.gap[0]))", over='"run"', rounds="(1, 2)", starts=str(starts))
    on = ("verify", f"{file}::a", "--problem", "quadratic", "--clients", 2)
    file.write_text(file.read_text().replace("clients=1, dimension=1", "clients=(1, 2), dimension=(1, 4)"))
    told = " ".join(call(*on).stdout.split())
    assert ("judged from one start (--start): random starts" in told) == (starts > 1) and "✓ holds" in told


@pytest.mark.parametrize("recorded, says", [
    (0, "Nothing is on record for these statements"), (1, "The one verdict on record came out; 2 more are not on record."),
    (2, "All 2 verdicts are the recorded ones; 1 more is not on record."), (3, "All 3 verdicts are the recorded ones."),
])  # fmt: skip
def test_only_verdicts_on_record_are_counted(written, tmp_path, recorded, says):
    names = ["printed(", "repaired(", 'form("third", ']
    body = "\n".join(f"yield {n}le(q.F_next, q.F){', holds=True' * (i < recorded)})" for i, n in enumerate(names))
    call("verify", written(body), "--quick", "--budget", 0, "--workers", 1, "--out", tmp_path)
    assert says in (tmp_path / "report.md").read_text()


def test_every_command_of_the_report_reruns_what_it_stands_at(written, tmp_path):
    body = "yield printed(le(q.F_next, q.F, -q.gradient_sq / q.beta))\nyield repaired(le(q.F_next, q.F))"
    file = written(body, local="GradientSteps(1, lr=upto(lambda c: 1 / c.beta))", problems="SmoothConvex((1, 3), (1, 2))")
    small_campaign(file, tmp_path / "out")
    page = html.unescape((tmp_path / "out/report.html").read_text())
    commands = {c for c in re.findall(r"fedtheory (?:verify|replay) [^<]*", page) if "--instance" in c or "replay" in c}
    assert any("replay" in c for c in commands) and any("--instance" in c for c in commands)
    for command in commands:
        call(*shlex.split(command)[1:])


def test_a_counterexample_to_an_equation_shows_its_two_sides(written, tmp_path):
    file, out = written("yield printed(eq(q.sq(q.x_next - q.x), 2 * q.eta**2 * q.gradient_sq))"), tmp_path / "out"
    done = " ".join(small_campaign(file, out).stdout.split())
    [witness] = (out / "witnesses").iterdir()
    told = json.loads(call("replay", witness, "--paper", file, "--json").stdout)
    left, right = map(Fraction, told["sides"])
    assert right == 2 * left > 0 and (told["lhs"], told["rhs"]) == (str(left), "0")
    assert f"lhs {left} ≠ rhs {right}" in done
    replayed = " ".join(call("replay", witness, "--paper", file).stdout.split())
    assert f"left side {left} " in replayed and f"right side {right} " in replayed and f"|left - right| {left} " in replayed
    assert f"{left} ≠ {right}" in (out / "report.md").read_text()
    assert re.search(rf"left side</dt><dd class=\"number\">{left}<.*right side</dt><dd class=\"number\">{right}<",
                     (out / "report.html").read_text(), re.DOTALL)  # fmt: skip
