"""A theorem of anyone's in one Python file: list, explain, verify and replay take it; what is wrong with a file is told."""

import json
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from command_line import call, refused
from repository import ROOT

from fedtheory import theorems
from fedtheory.errors import InvalidInput
from fedtheory.report.figures import Effort, draw_all
from fedtheory.theory.judge import campaign, registry

MINE = """
from fractions import Fraction

import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.theory import Paper
from fedtheory.theory.judge import ClosedView, DataInstance, Form, Setting, Statement, le
from fedtheory.rational import Builders, fraction

BUILDERS = Builders()


class Pair(ClosedView):
    def __init__(self, a, b):
        self.a, self.b = a, b


@BUILDERS.add("pair")
def pair(data):
    return Pair(fraction(data["a"], "a"), fraction(data["b"], "b"))


class OfThisFile(DataInstance):
    pass


def at(a, b):
    return OfThisFile(BUILDERS, "pair", f"a={a} b={b}", {"a": str(a), "b": str(b)})


class Study:
    witnesses = ()

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return "one quarter is too little"

    def to_json(self):
        return {"enough": "1/2"}

    def figures(self):
        return (Figure("share of " + self.name, lambda: {"x": [1, 2]}, draw, seeded=False),)


class Pairs(Setting):
    kinds, builders = ("pair",), BUILDERS

    def instances(self, plan):
        return [at(Fraction(k, 3), Fraction(1, k)) for k in (1, 2, 4)]

    def random_instance(self, kind, rng):
        return at(Fraction(int(rng.integers(-8, 9)), 4), Fraction(int(rng.integers(-8, 9)), 4))

    def study(self, statement, budget, seed, on_progress=None, checks=()):
        return Study(statement.id.partition("/")[2])


def share(divisor):
    def sides(v):
        return le(np.array([v.a * v.b], dtype=object), np.array([(v.a**2 + v.b**2) / divisor], dtype=object))

    return sides


YOUNG = Statement("mine/young", "Young's inequality", "folklore", "pair", (
    Form("printed", r"ab\\le\\tfrac14(a^2+b^2)", share(4), {"any": "violated"}, kind="pair"),
    Form("repaired", r"ab\\le\\tfrac12(a^2+b^2)", share(2), {"any": "holds"}, kind="pair"),
))
TWICE = Statement("mine/twice", "the same, twice", "folklore", "pair", (
    Form("printed", r"ab\\le a^2+b^2", share(1), {"any": "holds"}, kind="pair"),
))


def draw(data):
    from matplotlib.figure import Figure as Picture

    picture = Picture()
    picture.subplots().plot(data["x"])
    return picture


FIGURES = (Figure("parabola", lambda seed: {"x": [1, 4, seed]}, draw),)
PAPER = Paper("mine", "Mine", about="two inequalities", figures=__name__)
PAPER.judged_by(Pairs(), (YOUNG, TWICE))
"""


@pytest.fixture
def mine(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return file


def test_list_and_explain_take_a_file(mine):
    found = json.loads(call("list", mine, "--json").stdout)
    assert [s["id"] for s in found] == ["mine/young", "mine/twice"]
    assert {(s["paper"], s["runs_on_a_problem"]) for s in found} == {("Mine", False)}
    assert "instances of its own" in found[0]["why_not"]
    assert "mine" in [p["name"] for p in json.loads(call("list", "papers", "--json").stdout)]
    text = call("explain", f"{mine}::young").stdout
    assert "ab ≤ (1/4)(a² + b²)" in text and "mine.py::young" in "".join(text.split("Try:")[1].split())
    assert [a["id"] for a in json.loads(call("explain", mine, "--json").stdout)] == ["mine/young", "mine/twice"]


def test_a_file_s_campaign_finds_a_counterexample_that_can_be_replayed(mine, tmp_path):
    out = tmp_path / "out"
    result = json.loads(call("verify", mine, "--workers", 2, "--budget", 120, "--out", out, "--json").stdout)
    rows = {(r["statement"], r["form"]): r for r in result["rows"]}
    assert len(rows) == 3 and result["settings"]["papers"] == ["mine"] and result["exit_code"] == 0
    assert rows["mine/young", "printed"]["verdict"] == "violated" and rows["mine/young", "repaired"]["verdict"] == "holds"
    assert result["studies"]["mine/young"] == {"enough": "1/2"}
    witness = rows["mine/young", "printed"]["witness"]
    assert witness == str(out / "witnesses" / "mine-young-printed.json")
    again = json.loads(call("replay", witness, "--paper", mine, "--json").stdout)
    assert again["verdict"] == "violated" and again["excess"][0] != "-"
    names = ("parabola", "share of twice", "share of young", "verdicts")
    assert {p.name for p in (out / "figures").iterdir()} == {f"{name}.{end}" for name in names for end in ("png", "pdf", "json")}
    assert (out / "report.html").read_text().count("<img ") == 3, "the page draws the verdicts itself"
    assert [ln for ln in (out / "report.md").read_text().splitlines() if ln.startswith("![share of young](")]
    text = call("verify", mine, "--workers", 1, "--budget", 120, "--out", out).stdout
    assert "refuted mine/young [printed]" in text and "one quarter is too little" in text


def test_one_statement_of_a_file(mine, tmp_path):
    result = json.loads(call("verify", f"{mine}::twice", "--workers", 1, "--budget", 30, "--out", tmp_path / "out", "--json").stdout)
    assert [r["statement"] for r in result["rows"]] == ["mine/twice"] and {s["statement"] for s in result["searches"]} == {"mine/twice"}
    assert "did you mean 'twice'" in refused("verify", f"{mine}::twce")
    assert "mine.py::young or" in refused("verify", mine, "--problem", "quadratic")
    assert "instances of its own" in refused("verify", f"{mine}::young", "--problem", "quadratic")
    assert "only with a statement" in refused("verify", mine, "--l1", 3)
    said = refused("verify", f"{mine}::twice", "--figure", "x.png")
    assert "--figure: only with a problem, as in" in said and "::twice --problem quadratic --figure" in said


def test_a_witness_whose_case_holds_replays_as_such(mine, tmp_path):
    fields = {"format": "fedtheory witness, version 2", "statement": "mine/twice", "form": "printed", "rule": "any", "kind": "pair"}
    file = tmp_path / "holds.json"
    file.write_text(json.dumps({**fields, "data": {"a": "1/2", "b": "1"}, "lhs": "1/2", "rhs": "5/4", "verdict": "holds"}))
    text = call("replay", file, "--paper", mine).stdout
    assert "-3/4   = -0.75 < 0" in text and "holds, in exact rational arithmetic" in text
    file.write_text(json.dumps({**fields, "data": {"a": "1/2", "b": "1"}, "lhs": "1/2", "rhs": "5/4"}))
    assert "holds here" in refused("replay", file, "--paper", mine)


def test_a_witness_of_an_unknown_paper_asks_for_its_file(tmp_path):
    fields = {"format": "fedtheory witness, version 2", "statement": "nobody/young", "form": "printed", "rule": "any", "kind": "pair"}
    file = tmp_path / "other.json"
    file.write_text(json.dumps({**fields, "data": {}, "lhs": "1", "rhs": "0"}))
    assert "--paper FILE.py" in refused("replay", file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\nimport nothing_of_that_name\n", "broken.py, line 2: it cannot be imported, ModuleNotFoundError"),
        ("x = 1\n\nPAPER = = 3\n", "broken.py, line 3: it cannot be imported, SyntaxError"),
        ("x = 1\n", "no paper in it"),
        ("import sys\n\nsys.exit(3)\n", "broken.py, line 3: it cannot be imported, SystemExit"),
        (MINE.replace("(YOUNG, TWICE)", "()"), "has no statements"),
        (MINE.replace("(YOUNG, TWICE)", "(YOUNG, YOUNG)"), "registered twice"),
        (MINE.replace('"mine/young"', '"other/young"'), "is not of paper 'mine'"),
        (MINE.replace('Paper("mine"', 'Paper("efl"').replace('"mine/', '"efl/'), "two papers are called 'efl'"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path, text, says):
    file = tmp_path / "broken.py"
    file.write_text(text)
    for command in ("list", "explain", "verify"):
        assert says in refused(command, file)
    assert "mine" not in [p.id for p in registry.papers()]


def test_a_mistake_inside_a_method_is_not_told_as_one_of_the_import(tmp_path):
    """The file runs by itself: the line fails when the method makes a round."""
    file = tmp_path / "broken.py"
    file.write_text(text := (ROOT / "examples/own_method.py").read_text().replace("clients.mean(", "clients.men("))
    line = 1 + text[: text.index("clients.men(")].count("\n")
    for command in ("list", "explain", "verify"):
        told = " ".join(refused(command, file).split())
        assert f"broken.py, line {line}: AttributeError: " in told and "has no attribute 'men'" in told
        assert "where a statement is tried on a small instance" in told and "import" not in told


def test_a_file_that_is_not_there():
    for command in ("list", "explain", "verify"):
        assert "nowhere.py: no such file" in refused(command, "nowhere.py")


def test_a_file_that_is_named_almost_is_told(mine, monkeypatch):
    monkeypatch.chdir(mine.parent)
    assert "of a file write mine.py::young" in refused("explain", "mine.py:young")
    assert "of a file write mine.py" in refused("explain", "mine")
    (mine.parent / "theorem-3.1.py").write_text(MINE)
    assert "fedelasticnet/theorem-3.1" in call("explain", "theorem-3.1").stdout


def test_a_file_that_is_read_again_replaces_what_it_had(mine):
    (first,) = registry.load_file(mine)
    mine.write_text(MINE.replace("Young's inequality", "Young's"))
    (second,) = registry.load_file(mine)
    assert registry.get("mine/young").title == "Young's" and registry.paper("mine") is second is not first
    other = mine.with_name("other.py")
    other.write_text(MINE)
    with pytest.raises(InvalidInput, match="two papers are called 'mine'"):
        registry.load_file(other)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Two packages that bring a paper each by an entry point, found in the opposite order of their names."""
    for name in ("zeta", "alpha"):
        text = MINE.replace('"mine"', f'"of-{name}"').replace('"mine/', f'"of-{name}/').replace('"Mine"', f'"{name.title()}"')
        (tmp_path / f"paper_of_{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    own = [p for p in metadata.entry_points(group=registry.ENTRY_POINTS) if p.name == "fedtheory"]
    made = [metadata.EntryPoint(n, f"paper_of_{n}:PAPER", registry.ENTRY_POINTS) for n in ("zeta", "alpha")]
    monkeypatch.setattr(registry, "entry_points", lambda group: [*made, *own])
    for name in ("_PAPERS", "_STATEMENTS", "_ALIASES"):
        monkeypatch.setattr(registry, name, {})
    monkeypatch.setattr(registry, "_LOADED", [])
    yield tmp_path
    for name in ("zeta", "alpha"):
        sys.modules.pop(f"paper_of_{name}", None)


def test_papers_stand_in_the_same_order_wherever_their_packages_are_found(installed):
    ids = [p.id for p in registry.papers()]
    assert ids == [*(p.id for p in theorems.PAPERS), "of-alpha", "of-zeta"]


def test_a_paper_by_itself(installed):
    found = json.loads(call("list", "of-zeta/", "--json").stdout)
    assert [s["id"] for s in found] == ["of-zeta/young", "of-zeta/twice"]
    assert [a["id"] for a in json.loads(call("explain", "of-zeta/", "--json").stdout)] == ["of-zeta/young", "of-zeta/twice"]
    args = ("verify", "of-zeta/", "--workers", 1, "--budget", 60, "--out", installed / "out")
    result = json.loads(call(*args, "--json").stdout)
    assert {r["statement"] for r in result["rows"]} == {s["id"] for s in found} and result["settings"]["papers"] == ["of-zeta"]
    assert len(result["searches"]) == 3 and result["witnesses"]["replayed"] == 1, "a paper without witnesses is searched for all"
    assert (installed / "out" / "report.html").exists()
    for command in ("list", "explain", "verify"):
        assert "did you mean 'of-zeta'" in refused(command, "of-zet/")
    assert "as in `fedtheory verify of-zeta/NAME --problem" in refused("verify", "of-zeta/", "--problem", "quadratic")


def test_the_file_of_an_installed_paper_is_that_paper(installed):
    paper = registry.paper("of-zeta")
    assert registry.load_file(installed / "paper_of_zeta.py") == [paper] and registry.paper("of-zeta") is paper
    other = installed / "other.py"
    other.write_text((installed / "paper_of_zeta.py").read_text())
    with pytest.raises(InvalidInput, match="two papers are called 'of-zeta'"):
        registry.load_file(other)


def test_a_paper_with_witnesses_is_judged_as_in_the_whole_campaign(tmp_path):
    args = ("verify", "elastic-aggregation/", "--quick", "--workers", 1, "--budget", 4, "--out", tmp_path, "--json")
    result = json.loads(call(*args).stdout)
    statements = registry.paper("elastic-aggregation").statements
    record = {(s.id, f.name, r): v for s in statements for f in s.forms for r, v in f.established.items()}
    assert {r["statement"] for r in result["rows"]} <= {key[0] for key in record} and result["witnesses"]["replayed"] > 1
    searched = {record[s["statement"], s["form"], s["rule"]] for s in result["searches"]}
    assert searched and "violated" not in searched


def test_a_counterexample_to_what_is_on_record_as_holding_is_one_line(mine, tmp_path):
    mine.write_text(MINE.replace('share(4), {"any": "violated"}', 'share(4), {"any": "holds"}'))
    result = call("verify", mine, "--workers", 1, "--budget", 60, "--out", tmp_path / "out", code=1)
    [line] = [ln for ln in result.stderr.splitlines() if "counterexample to" in ln]
    assert re.fullmatch(r"error: counterexample to mine/young \[printed, any rule\]: a = \S+, b = \S+", line), line


def test_what_is_said_of_witnesses_is_true_of_a_file(mine, tmp_path):
    text = " ".join(call("verify", mine, "--workers", 1, "--budget", 60, "--out", tmp_path / "out").stdout.split())
    assert "1 witness replayed" in text and "`fedtheory replay FILE` reruns it" in text and "list witnesses" not in text


def test_an_error_names_the_file_once(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text("from fedtheory.errors import InvalidInput\n\nraise InvalidInput('bad.py, line 7: no such thing')\n")
    text = refused("list", file)
    assert text.count("bad.py") == 1 and f"{file}, line 7: no such thing" in text


def test_tasks_of_a_file_s_paper_are_done_in_other_processes(mine):
    (paper,) = registry.load_file(mine)
    here, there = (campaign.run(campaign.plan(only=[paper]), workers)[0] for workers in (1, 2))

    def key(c):
        return c.statement, c.form, c.instance, c.verdict, c.lhs

    assert sorted(map(key, here)) == sorted(map(key, there)) and len(here) == 9


def test_figures_of_a_file_s_paper_are_drawn_in_other_processes(mine, tmp_path):
    registry.load_file(mine)
    rows = {"rows": [], "instances": 0}
    files = draw_all(tmp_path / "figures", rows, effort=Effort(dpi=20), papers=["mine"], workers=2)
    assert sorted(f.name for f in files if f.suffix == ".png") == ["parabola.png", "verdicts.png"]


DESCENT = Path(__file__).parents[2] / "examples" / "descent_lemma.py"


def test_a_statement_whose_study_says_it_all_is_told_once(tmp_path):
    text = call("verify", DESCENT, "--quick", "--budget", 60, "--workers", 1, "--out", tmp_path).stdout
    assert text.startswith("lemma-1: One local gradient step of everybody decreases F.")
    whole = " ".join(text.split())
    assert whole.count("printed: f1 = x²/2, start 1: lhs 0 > rhs -1/2") == 1 and "as printed" not in text
    assert f"fedtheory replay {tmp_path}/witnesses/descent-lemma-lemma-1-printed.json --paper " in text
    assert {f.name for f in (tmp_path / "figures").iterdir()} == {f"bound_lemma-1.{end}" for end in ("png", "pdf", "json")}
    assert "bound_lemma-1.png" in (tmp_path / "report.md").read_text()


def test_a_study_is_given_the_campaign_s_checks_and_searches_once(tmp_path):
    result = json.loads(call("verify", DESCENT, "--quick", "--budget", 60, "--out", tmp_path, "--json").stdout)
    found = {s["form"]: s for s in result["searches"]}
    assert {form: s["found"] for form, s in found.items()} == {"printed": True, "repaired": False}
    assert found["printed"]["witness"]["data"]["h"] == [["1"]] and found["printed"]["evaluations"] <= 60
    rows = {r["form"]: r for r in result["studies"]["descent-lemma/lemma-1"]["rows"]}
    again = {r["form"]: r for r in result["rows"]}
    assert rows["repaired"]["instances"] >= again["repaired"]["instances"] == result["instances"]
    assert rows["repaired"]["instances"] - again["repaired"]["instances"] < 24, "the random instances were not drawn again"


def test_a_form_that_was_never_judged_is_not_as_recorded(tmp_path):
    file = tmp_path / "never.py"
    never = "le(q.F_next, q.F, -q.gradient_sq / (q.N - q.N))"
    file.write_text(re.sub(r"le\(q.F_next, q.F, [^\n]*\)(?=,)", never, DESCENT.read_text(), count=1).replace("descent-lemma", "never"))
    result = call("verify", file, "--quick", "--budget", 20, "--out", tmp_path / "out", code=1)
    assert "not applicable, on record as violated" in result.stderr and "divides by 0" in " ".join(result.stdout.split())
    rows = {r["form"]: r for r in json.loads((tmp_path / "out" / "campaign.json").read_text())["rows"]}
    assert not rows["printed"]["ok"] and "divides by 0" in rows["printed"]["note"] and rows["repaired"]["ok"]


def test_few_small_tasks_start_no_other_process(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr("fedtheory.parallel.local.Local._executor", started.append)
    call("verify", DESCENT, "--quick", "--budget", 20, "--workers", 2, "--out", tmp_path)
    assert json.loads((tmp_path / "campaign.json").read_text())["complete"] and not started


def test_an_interrupted_study_keeps_what_was_finished(monkeypatch, tmp_path):
    def study(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedtheory.theory.studies.study.study", study)
    result = call("verify", DESCENT, "--quick", "--out", tmp_path, code=130)
    stored = json.loads((tmp_path / "campaign.json").read_text())
    assert not stored["complete"] and stored["checked"] == stored["instances"] > 0 and "studies" not in stored
    assert "incomplete: interrupted before all searches were finished" in " ".join(result.stderr.split())
    assert "as printed" in result.stdout and not (tmp_path / "figures").exists()
    monkeypatch.undo()
    call("verify", DESCENT, "--quick", "--workers", 1, "--out", tmp_path)  # the same folder again
    assert json.loads((tmp_path / "campaign.json").read_text())["complete"]


def test_an_interrupt_behind_an_import_is_no_error_of_the_file(tmp_path):
    """A compiled module that is interrupted while it is imported says 'initialization failed'."""
    file = tmp_path / "slow.py"
    file.write_text("raise ImportError('initialization failed') from KeyboardInterrupt()\n")
    with pytest.raises(KeyboardInterrupt):
        registry.load_file(file)
    file.write_text("raise ImportError('initialization failed')\n")
    with pytest.raises(InvalidInput, match="initialization failed"):
        registry.load_file(file)


@pytest.mark.parametrize("more", [(), ("--problem", "quadratic")], ids=["in fractions", "a problem of the package"])
def test_a_theorem_about_a_method_that_flips_a_coin_is_refused(tmp_path, more):
    file = tmp_path / "coined.py"
    file.write_text(
        "from fedtheory.algorithms import Scaffnew\n"
        "from fedtheory.theory import GradientSteps, Paper, SmoothConvex, Full, le, printed, upto\n"
        "paper = Paper('coined', title='t', source='s')\n"
        "@paper.statement('one', about=Scaffnew(0.5), local=GradientSteps(1, lr=upto(lambda c: 1 / c.beta)),\n"
        "                 sampling=Full(), problems=SmoothConvex(clients=(2, 4), dimension=(1, 3)))\n"
        "def one(q):\n"
        "    yield printed(le(q.F_next, q.F), fails=True)\n"
    )
    assert "the method flips a coin in its rounds" in refused("verify", file, *more)


def test_a_file_may_import_from_beside_it_and_a_compressed_method_is_told(tmp_path):
    """As `python FILE.py` may; the folder is on the path no longer than that."""
    (tmp_path / "method_beside.py").write_text("from fedtheory.algorithms import FedAvg\n")
    (tmp_path / "theorem.py").write_text(
        "from method_beside import FedAvg\n"
        "from fedtheory.algorithms import Compressed\n"
        "from fedtheory.messages import QSGD\n"
        "from fedtheory.theory import GradientSteps, Paper, SmoothConvex, Uniform, le, printed, upto\n"
        "paper = Paper('beside', title='t', source='s')\n"
        "@paper.statement('one', about=Compressed(FedAvg(), up=QSGD(4)), local=GradientSteps(1, lr=upto(lambda c: 1 / c.beta)),\n"
        "                 sampling=Uniform, problems=SmoothConvex(clients=(2, 4), dimension=(1, 3)))\n"
        "def one(q):\n"
        "    yield printed(le(q.F_next, q.F), fails=True)\n"
    )
    told = call("verify", tmp_path / "theorem.py", code=2).stderr
    assert "no instance of the class could be run: messages are compressed by qsgd, which draws at random" in " ".join(told.split())
    assert str(tmp_path) not in sys.path
