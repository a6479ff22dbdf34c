"""A whole paper in one file, as examples/own_world.py shows it: judged, searched, replayed, and refuted where a form is wrong."""

import json
import re
from fractions import Fraction as F
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from command_line import call, refused
from repository import ROOT

from fedtheory import problems, theory
from fedtheory.algorithms import FedAvg
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.theory import eq, le
from fedtheory.theory.judge import Plan, registry, replay
from fedtheory.theory.judge import own_run as theory_of_runs
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.witness import Witness

FILE = ROOT / "examples" / "own_world.py"


@pytest.fixture
def paper():
    (found,) = registry.load_file(FILE)
    return found


def test_it_is_short():
    assert len(FILE.read_text().splitlines()) <= 100


def test_it_is_verified_as_recorded_with_a_witness_that_replays(paper, tmp_path):
    result = json.loads(call("verify", FILE, "--workers", 1, "--budget", 100, "--out", tmp_path, "--json").stdout)
    verdicts = {(r["statement"].partition("/")[2], r["form"]): r["verdict"] for r in result["rows"]}
    assert verdicts.pop(("mean-of-minimisers", "printed")) == "violated"
    assert set(verdicts.values()) == {"holds"} and len(verdicts) == 2 and result["ok"]
    [file] = [f for f in result["files"] if "witnesses" in f]
    assert replay.replay(replay.load(file)).verdict == "violated"
    assert json.loads(call("replay", file, "--paper", FILE, "--json").stdout)["lhs"] != "0"
    assert set(replay.load(file).data["x"]) == {"0"}, "it is shrunk: the models do not matter there"


def test_the_mean_of_minimisers_by_hand(paper):
    """h = 1, 3 and c = 0, 1: x* = 3/4, their mean is 1/2."""
    witness = Witness("own-world/mean-of-minimisers", "printed", "any", "clients", {"h": ["1", "3"], "c": ["0", "1"], "x": ["0", "0"]})
    _, lhs, rhs, _ = paper.setting.exact_check(paper.statements[0], witness)
    assert (str(lhs), str(rhs)) == ("1/4", "0")
    for wrong, said in (({"h": ["1"]}, "c .* does not fit h"), ({"h": ["1", "0"]}, "h = 0 .*: it must be > 0")):
        with pytest.raises(InvalidInput, match=said):
            paper.setting.builders["clients"]({**witness.data, **wrong})


def test_every_mutant_is_rejected(paper):
    views = [i.view() for i in paper.setting.instances(Plan())]
    for statement in paper.statements:
        for form in statement.forms:
            for mutant in form.mutants:
                checks = [judge_view(statement, form, v, sides=mutant.sides) for v in views]
                assert "violated" in {c.verdict for c in checks}, mutant.name


def test_a_function_may_look_at_its_world_before_it_yields(tmp_path):
    """Lengths and whole numbers are no quantities whose absence could be carried on."""
    text = FILE.read_text().replace("def mean_of_models(q):", "def mean_of_models(q):\n    clients = Fraction(len(q.x), len(q.h))")
    (tmp_path / "own.py").write_text(text.replace("q.mean_x)", "q.mean_x * clients)").replace('"own-world"', '"own-looks"'))
    found = registry.load_file(tmp_path / "own.py")
    assert [f.name for s in found[0].statements for f in s.forms] == ["printed", "repaired", "printed"]


def test_a_statement_with_a_view_of_its_own_is_not_for_problems(paper):
    assert "instances of its own" in refused("verify", f"{FILE}::mean-of-models", "--problem", "quadratic")


# --- beside statements about a method, and on problems --------------------------------------------
MIXED = '''
from fractions import Fraction
from fedtheory.algorithms import FedAvg
from fedtheory.theory import *

paper = Paper("mixed", title="Both", symbols={"a": "Numbers.a"})

POSITIVE = Fact("a > 0", lambda q: q.a > 0)

class Numbers(World):
    kind, about = "numbers", "about a number"
    asks, takes = ("a start", ), ("local_steps",)
    example = "--problem quadratic"
    def __init__(self, a):
        self.a = a
    @classmethod
    def draw(cls, rng):
        return "a", {"a": Fraction(int(rng.integers(-9, 10)), 4)}
    @classmethod
    def from_data(cls, data):
        return cls(Fraction(data["a"]))
    @classmethod
    def on_problem(cls, statement, case):
        return {"a": Fraction(float(case.x0[0]))}

@paper.statement("square", over=Numbers, about=method(FedAvg, aggregation="samples"))
def square(q):
    yield printed(lambda: le(1 / q.a, q.a), "1/a<=a", needs=(POSITIVE,), fails=True)
    most = wrong("9/10", lambda: le(2 * q.a, q.a * q.a, Fraction(9, 10)))
    yield repaired(lambda: le(2 * q.a, q.a * q.a, Fraction(1)), "2a<=a^2+1", most, holds=True)

@paper.statement("descent", about=FedAvg(), local=GradientSteps(1, lr=lambda c: 1 / c.beta), problems=SmoothConvex(clients=(1, 2)))
def descent(q):
    yield printed(lambda: le(q.F_next, q.F), "F^+<=F", holds=True)

paper.claim("tables", "accuracy", r"\\text{better}", note="an experiment", shown_by="fedtheory list")
'''


def test_a_wrong_variant_may_be_a_share_of_the_right_side_or_the_other_way_round():
    """Of exact sides and of floats, now and when they are needed; an equality is not turned round."""
    exact, floats = (le(np.array([1, 2]) * one, np.array([4, 6]) * one, noise=7) for one in (F(1), 1.0))
    part, swapped = theory.wrong("half", share=F(1, 2)), theory.wrong("swapped")
    for made in (exact, floats):
        half, other = (w.sides for w in theory.form("a", made, part, swapped).mutants)
        assert half.lhs.tolist() == [1, 2] and half.rhs.tolist() == [2, 3] and half.noise == 7
        assert half.rhs.dtype == made.rhs.dtype and half.scale.tolist() == [3, 5]
        assert other.lhs.tolist() == [4, 6] and other.rhs.tolist() == [1, 2] and other.noise == 7
        later = theory.form("a", lambda made=made: made, part, swapped).mutants
        assert [w.sides().rhs.tolist() for w in later] == [[2, 3], [1, 2]] and later[0].name == "half"
    with pytest.raises(InvalidInput, match="an equality needs sides of its own"):
        theory.form("a", lambda: eq(1, 2), swapped).mutants[0].sides()
    off = theory.form("a", lambda: eq(F(3), F(3), 5, noise=1), part).mutants[0].sides()
    assert off.lhs.tolist() == F(3, 2) and off.rhs.tolist() == 0 and off.noise == 1


def test_a_wrong_variant_may_be_a_share_of_each_term():
    for one in (F(1), 1.0):
        made = le(np.array([1, 2]) * one, np.array([4, 6]) * one, 2 * one, noise=7)
        found = theory.form("a", made, theory.wrong("less", share=(F(1, 2), 0))).mutants[0].sides
        assert found.rhs.tolist() == [2, 3] and found.rhs.dtype == made.rhs.dtype and found.noise == 7
        assert found.scale.tolist() == [3, 5]
    with pytest.raises(InvalidInput, match="the right side has 2 terms; give a share of each"):
        theory.form("a", lambda: made, theory.wrong("less", share=(1, 0, 0))).mutants[0].sides()


@pytest.fixture
def mixed(tmp_path):
    (tmp_path / "mixed.py").write_text(MIXED)
    (found,) = registry.load_file(tmp_path / "mixed.py")
    return found


def test_a_paper_may_have_both_and_claims(mixed, tmp_path):
    result = json.loads(call("verify", tmp_path / "mixed.py", "--workers", 1, "--budget", 60, "--out", tmp_path, "--json").stdout)
    found = {(r["statement"].partition("/")[2], r["form"]): r["verdict"] for r in result["rows"]}
    assert found.pop(("tables", "printed")) == "not applicable"
    assert found == {("square", "printed"): "violated", ("square", "repaired"): "holds", ("descent", "printed"): "holds"}
    assert "cannot be proved or refuted here" in refused("verify", f"{tmp_path / 'mixed.py'}::tables", "--problem", "quadratic")
    assert mixed.statements[0].symbols == {"a": "Numbers.a"}


@pytest.mark.parametrize(("about", "says"), [("about numbers", "about numbers"), ("", "about instances of its own")])
def test_a_world_that_is_made_of_no_problem_says_what_it_is_about(mixed, monkeypatch, about, says):
    square, numbers = mixed.statements[0], mixed.authored["square"].over
    monkeypatch.setattr(numbers, "about", about)
    monkeypatch.delattr(numbers, "on_problem")
    assert mixed.setting.about(square).refusal == f"it is {says}, not about a problem's run"
    monkeypatch.setattr(numbers, "no_problem", "it is about no problem")
    assert mixed.setting.about(square).refusal == "it is about no problem"


def test_a_world_may_give_an_instance_with_its_own_name(mixed, monkeypatch):
    square, numbers = mixed.statements[0], mixed.authored["square"].over
    monkeypatch.setattr(numbers, "on_problem", classmethod(lambda cls, statement, case: cls.instance("mine", {"a": F(3)})))
    case = Case(problems.random_quadratic(2, 2, seed=0), FedAvg(aggregation="samples"))
    made = mixed.setting.instance(square, square.forms[0], case)
    assert (made.name, made.view().a) == ("numbers: mine seed=0", 3)


def test_a_world_may_be_made_for_each_form(mixed, monkeypatch):
    square, numbers = mixed.statements[0], mixed.authored["square"].over
    starts = {"printed": F(1, 2), "repaired": F(4)}
    monkeypatch.setattr(numbers, "apart", classmethod(lambda cls, form: form.name))
    monkeypatch.setattr(numbers, "on_problem", classmethod(lambda cls, statement, case: {"a": starts[case.form.name]}))
    checks = {c.form: c for c in square.verify(problems.random_quadratic(2, 2, seed=0), FedAvg(aggregation="samples"))}
    assert {name: c.verdict for name, c in checks.items()} == {"printed": "violated", "repaired": "holds"}
    assert (checks["printed"].lhs, checks["repaired"].lhs) == (2, 8)


def test_a_world_may_say_what_is_shown_of_a_witness(mixed, monkeypatch):
    numbers, witness = mixed.authored["square"].over, Witness("mixed/square", "printed", "any", "numbers", {"a": "1/2"})
    assert mixed.setting.summary(witness) == "mixed/square [printed]: a = 1/2"
    assert mixed.setting.facts(witness) == [("instance", "numbers"), ("a", "1/2")]
    monkeypatch.setattr(numbers, "summary", classmethod(lambda cls, witness: "a half"))
    monkeypatch.setattr(numbers, "told", classmethod(lambda cls, witness, rows: [("half", rows[1][1])]))
    assert (mixed.setting.summary(witness), mixed.setting.facts(witness)) == ("a half", [("half", "1/2")])


def test_a_claim_is_said_as_it_is_asked_for():
    paper = theory.Paper("said", symbols={"a": "somewhere"})
    paper.claim("plain", "of a table", "a")
    paper.claim("quoted", "of speed", "b", form="as quoted", wording="in words", scope="claims", assumptions=["c"])
    plain, quoted = paper.statements
    assert (plain.scope, plain.assumptions, plain.forms[0].name, plain.forms[0].wording) == ("said", (), "printed", "")
    assert (quoted.scope, quoted.assumptions, quoted.as_printed.name) == ("claims", ("c",), "as quoted")
    assert quoted.as_printed.wording == "in words" and quoted.symbols == plain.symbols == {"a": "somewhere"}
    assert {(s.kind, *s.forms[0].established.items()) for s in paper.statements} == {("claim", ("any", "open"))}


def test_a_study_is_of_what_is_about_a_method(tmp_path):
    (tmp_path / "mixed.py").write_text(MIXED.replace('"mixed"', '"studied"'))
    paper = theory.load_file(tmp_path / "mixed.py")
    found = theory.study(paper, budget=20, necessity=False)
    assert {row.statement for row in found.rows} == {"studied/descent"}
    with pytest.raises(MissingCapability, match=r"studied/square: a study moves .* over a World"):
        theory.study(paper["square"])


@pytest.mark.parametrize(("start", "verdicts"), [("2", "holds"), ("0.5", "violated"), ("-1", "not applicable")])
def test_a_world_is_made_of_a_users_problem(mixed, tmp_path, start, verdicts):
    result = json.loads(call("verify", f"{tmp_path / 'mixed.py'}::square", "--problem", "quadratic", "--start", start, "--json").stdout)
    assert [c["verdict"] for c in result["checks"]] == [verdicts, "holds"]


def test_what_means_nothing_to_a_world_is_refused(mixed, tmp_path):
    where = f"{tmp_path / 'mixed.py'}::square"
    for options, words in (
        (("--rounds", 3), "--rounds 3: mixed/square is about a number, and is judged without runs"),
        (("--participants", 2), "mixed/square is about all clients"),
        (("--local-lr", 0.1), "leave it out"),
    ):
        assert words in refused("verify", where, "--problem", "quadratic", *options), options
    other = call("verify", where, "--problem", "quadratic", "--aggregation", "cohort", "--json").stdout
    words = "--aggregation cohort: the statement is about another FedAvg; use --aggregation samples"
    assert {(c["verdict"], c["reason"]) for c in json.loads(other)["checks"]} == {("not applicable", words)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("over=Numbers, problems=SmoothConvex()", "problems: a statement over Numbers is about its instances; leave them out"),
        ("over=Numbers, about=FedAvg()", "Numbers is made of a user's method; give method(TheMethod)"),
        ("over=int", "over = int: use 'round', 'run', 'fixed-point', or a subclass of World with a kind"),
    ],
)
def test_what_a_statement_over_a_world_cannot_say(tmp_path, text, words):
    (tmp_path / "wrong.py").write_text(MIXED.replace('over=Numbers, about=method(FedAvg, aggregation="samples")', text))
    with pytest.raises(InvalidInput, match=words.replace("(", r"\(").replace(")", r"\)")):
        registry.load_file(tmp_path / "wrong.py")


@pytest.mark.parametrize(
    ("sides", "words"),
    [("lambda: 1", "has 1 for its two sides"), ("lambda: le(q.b, 1)", "line 28.*'Numbers' object has no attribute 'b'")],
)
def test_what_is_wrong_with_sides_is_told_with_the_line(tmp_path, sides, words):
    (tmp_path / "wrong.py").write_text(MIXED.replace("lambda: le(1 / q.a, q.a)", sides).replace('"mixed"', '"wrong-sides"'))
    (found,) = registry.load_file(tmp_path / "wrong.py")
    with pytest.raises(InvalidInput, match=words):
        found.statements[0].forms[0].sides_on(found.setting.parts[1].builders["numbers"]({"a": "2"}))


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ('"a > O"', r"line 28, misspelt/square: needs of form 'printed': .*did you mean 'a > 0'\?"),
        ('Fact("b > 0", lambda q: q.b > 0)', r"the test of the fact 'b > 0': .* no attribute 'b'"),
    ],
)
def test_a_fact_that_there_is_not_is_told(tmp_path, needs, words):
    text = MIXED.replace("needs=(POSITIVE,)", f"needs=({needs},)")
    (tmp_path / "misspelt.py").write_text(text.replace('"mixed"', '"misspelt"'))
    said = refused("verify", tmp_path / "misspelt.py", "--workers", 1, "--out", tmp_path)
    assert re.search(words, " ".join(said.split())), said


def test_why_an_instance_has_a_fact_not_is_told_with_its_numbers(tmp_path):
    told = 'Fact("a > 9", lambda q: q.a > 9, lambda q: f"a = {q.a + 1 / (q.a - 1)}")'
    text = MIXED.replace("needs=(POSITIVE,)", f"needs=({told},)")
    (tmp_path / "large.py").write_text(text.replace('"mixed"', '"large"'))
    (found,) = registry.load_file(tmp_path / "large.py")
    made, form = found.setting.parts[1].builders["numbers"], found.statements[0].forms[0]
    assert made({"a": "2"}).applies(form) == "not a > 9 (a = 3)"
    with pytest.raises(InvalidInput, match="the reason of the fact 'a > 9': ZeroDivisionError"):
        made({"a": "1"}).applies(form)


# --- mistakes of an author's ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Fraction(int(rng.integers(-9, 10)), 4)", "0.5", "100 draws of Numbers in a row were refused, the last: .*0.5"),
        ("def from_data(cls, data)", "def of_data(cls, data)", "the last: Numbers makes no instances from data"),
        ('fraction(data["a"])', 'fraction(data["b"])', "from_data of kind 'numbers', of .*: KeyError: 'b'"),
        ('return "a", {', "return {", "draw of Numbers: ValueError: .*returns .label, data."),
        ("    def draw(cls, rng)", "    def picture(cls, rng)", "Numbers has no draw: write draw"),
        ("lambda: le(1 / q.a, q.a)", "le(q.b, q.a)", r"line 29, mistaken-\w+/square: AttributeError: .* no attribute 'b'"),
    ],
)
def test_a_mistake_in_a_world_is_told_and_ends(tmp_path, old, new, words):
    name = "mistaken-" + "".join(c for c in new if c.isalnum())[:20].lower()
    text = MIXED.replace('"mixed"', f'"{name}"').replace("return cls(Fraction(", "return cls(fraction(").replace(old, new)
    (tmp_path / "mistaken.py").write_text("from fedtheory.rational import fraction\n" + text)
    said = refused("verify", tmp_path / "mistaken.py", "--workers", 1, "--out", tmp_path)
    assert re.search(words, said), said


def test_wrong_variants_are_tried_on_a_users_file(tmp_path):
    (tmp_path / "tried.py").write_text(MIXED.replace('"mixed"', '"tried"').replace("Fraction(9, 10)", "Fraction(2)"))
    said = call("verify", tmp_path / "tried.py", "--workers", 1, "--budget", 60, "--out", tmp_path).stdout
    assert "tried/square: 0 of 1 wrong variants rejected" in said
    assert "[repaired] 9/10: NOT rejected on" in said
    kept = json.loads((tmp_path / "campaign.json").read_text())["studies"]["tried/square"]["mutants"]
    assert kept[0]["rejected"] is False and kept[0]["by"] == "" and kept[0]["tried"] > 10


# --- a folder of files ----------------------------------------------------------------------------
def test_the_files_of_a_folder_are_found(tmp_path, monkeypatch):
    """In the order asked for, then by name, without pictures and folders."""
    room = tmp_path / "a_room"
    (room / "deeper").mkdir(parents=True)
    of_it = "from a_room.paper import paper\n"
    (room / "__init__.py").write_text(of_it + 'paper.read(__name__, first=("second",))\n')
    made_there = 'paper = Paper("a-room")\n'
    (room / "paper.py").write_text("from fedtheory.theory import Paper\n" + made_there)
    says = of_it + 'paper.claim("{0}", "{0}", "{0}")\n'
    for file in ("first", "second", "third", "figures_of_it", "deeper/__init__"):
        (room / f"{file}.py").write_text(says.format(Path(file).stem.strip("_")))
    monkeypatch.syspath_prepend(tmp_path)
    made = import_module("a_room").paper
    assert [claim.id.partition("/")[2] for claim in made.statements] == ["second", "first", "third"]


def test_a_form_is_about_a_world_of_its_own_and_has_a_verdict_under_each_rule():
    class Halves(theory.World):
        kind, rules = "halves", ("left", "right")

    class Wholes(theory.World):
        kind = "wholes"

    paper = theory.Paper("two-worlds")

    @paper.statement("both", over=Halves)
    def both(q):
        yield theory.repaired(lambda: theory.le(q.x, q.x), "x", holds=True)
        yield theory.form("apart", lambda: theory.le(q.x, 1), "y", rules={"left": "holds", "right": "violated"})
        yield theory.form("elsewhere", lambda: theory.le(q.x, q.y), "z", over=Wholes, fails=True)

    first, apart, elsewhere = both.statement.forms
    assert (first.kind, first.established) == ("halves", {"left": "holds", "right": "holds"})
    assert (apart.kind, apart.established) == ("halves", {"left": "holds", "right": "violated"})
    assert (elsewhere.kind, elsewhere.established) == ("wholes", {"any": "violated"})


# --- runs of a user's, form by form, and of anyone's ----------------------------------------------
RUNS = '''
from fractions import Fraction
import numpy as np
from fedtheory.theory import *
from fedtheory.theory.judge.record import OwnRun
from fedtheory.theory.judge.request import Tuned

def tuned(method, request, rounds, batch_size):
    return Tuned(method, None, 7) if method == "fedavg" else None

how = {"tuned": tuned, "computed": {"fedavg": {"--rounds": "7"}}}
paper = Paper("runs", title="Numbers of runs", **how)

class Ends(World):
    kind, about, example = "ends", "about where a run ends", "--problem quadratic"
    def __init__(self, a, facts=()):
        self.a, self.facts = a, frozenset(facts)
    @classmethod
    def draw(cls, rng):
        return "a", {"a": Fraction(int(rng.integers(1, 10)), 4)}
    @classmethod
    def from_data(cls, data):
        return cls(Fraction(data["a"]))
    @classmethod
    def on_problem(cls, statement, case):
        return Asked(float(case.x0[0]))
    @classmethod
    def own_run(cls, statement, form, case, record):
        sides = form.sides_on(cls(record.models[-1, :, 0]))
        return OwnRun(sides, np.array([record.rounds]), "T", True, "the end", "any", {"a": 1})

class Asked:
    def __init__(self, a):
        self.a, self.case_rule = a, "other"
    def for_form(self, form):
        if form.name == "twice":
            return Ends(2 * self.a)
        if form.name == "never":
            return "there is no such run"
        return Ends(self.a)

@paper.statement("ends", over=Ends)
def ends(q):
    for name in ("printed", "twice"):
        yield form(name, lambda: le(q.a, 3 + 0 * q.a), r"a\\le3")
    yield form("never", lambda: le(q.a, 3 + 0 * q.a), r"a\\le3", rules=("some", "other"))
'''


@pytest.fixture
def runs(tmp_path):
    (tmp_path / "runs.py").write_text(RUNS)
    (found,) = registry.load_file(tmp_path / "runs.py")
    return found


def test_each_form_is_judged_on_the_run_that_its_world_makes_for_it(runs):
    """The start is 2: it is below 3 as it is, and above it twice."""
    problem = problems.random_quadratic(2, 1, seed=0, condition=1.0)
    checks = {c.form: c for c in runs.statements[0].verify(problem, None, x0=[2.0])}
    assert {name: c.verdict for name, c in checks.items()} == {
        "printed": "holds", "twice": "violated", "never": "not applicable"
    }  # fmt: skip
    assert (checks["twice"].lhs, checks["never"].reason, checks["never"].rule) == (4.0, "there is no such run", "other")


def test_a_world_judges_a_run_of_anyones(runs):
    problem = problems.random_quadratic(2, 1, seed=0, condition=1.0)
    for end, verdict in ((2.0, "holds"), (5.0, "violated")):
        [check] = theory_of_runs.check_run("runs/ends", problem, FedAvg(), [[0.0], [end]], forms=["printed"])
        assert (check.verdict, check.lhs, check.where["T"]) == (verdict, end, 1)
    assert runs.setting.about(runs.statements[0]).own_method and runs.step_sizes is None


def test_a_paper_gives_a_method_its_parameters(runs):
    assert runs.tuned("fedavg", None, None, None).rounds == 7
    assert runs.tuned("fedprox", None, None, None) is None
    assert runs.computed == {"fedavg": {"--rounds": "7"}}


def test_a_world_without_runs_bounds_nothing_along_one(mixed):
    problem = problems.random_quadratic(2, 1, seed=0, condition=1.0)
    method = FedAvg(aggregation="samples")
    [check] = theory_of_runs.check_run("mixed/square", problem, method, [[0.0], [1.0]], forms=["repaired"])
    assert check.verdict == "not applicable" and "about a number: it bounds nothing along a run's models" in check.reason
