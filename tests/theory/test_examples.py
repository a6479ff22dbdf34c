"""The files in examples/: short, and each says what it claims to say."""

import io
import json
from fractions import Fraction as Q
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from fedtheory.theory import load_file, replay, study
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import exact_sides
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.studies import figure
from fedtheory.theory.studies.counterexamples import sides_told, told

FOLDER = Path(__file__).parents[2] / "examples"
WORLDS = ("own_world", "irregular_fedavg")  # which `verify` judges, and no study
FILES = sorted(
    f for f in FOLDER.glob("*.py") if "fedtheory.theory" in f.read_text() and f.stem not in WORLDS
)


@cache
def studied(name):
    """A study of an example, made once for all that is asked of it."""
    return study(load_file(FOLDER / f"{name}.py"), budget=60)


def test_there_are_examples():
    assert len(FILES) >= 4


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_an_example_says_what_is_on_record(file):
    assert len(file.read_text().splitlines()) < 100
    paper, found = load_file(file), studied(file.stem)
    assert found.ok, str(found)
    refuted = {c.form for c in found.counterexamples}
    assert refuted and refuted >= {r.form for r in found.rows if r.established == "violated"}
    assert not refuted & {r.form for r in found.rows if r.established == "holds"}
    assert all(replay(c, paper).verdict == "violated" for c in found.counterexamples)
    assert all("rational" in row.modes for row in found.rows)


def test_the_textbook_constant_is_the_best_one():
    """4 T + 2 is attained by a Huber function: with any more it is violated."""
    paper = load_file(FOLDER / "wrong_constant.py")
    found = study(paper, budget=300, seed=2)
    [offset] = found.studies[0].constants
    assert offset.stated == 2 and offset.tight and Q(2) < offset.violated_at <= Q(41, 20)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_the_worst_function_of_gradient_descent_attains_the_bound(rounds):
    """f = Huber of width R/(2 T + 1) from R: f(x_T) - f* = R^2/(4 T + 2) exactly."""
    statement = load_file(FOLDER / "wrong_constant.py")["rate"]
    data = {
        "h": [["1"]],
        "c": [["0"]],
        "delta": [[f"1/{2 * rounds + 1}"]],
        "weights": ["1"],
        "start": ["1"],
        "rounds": rounds,
    }
    view = MethodSetting.of(statement).view(Draw.from_data(data))
    assert exact_sides(statement, view, "repaired") == (Q(1, 4 * rounds + 2), Q(1, 4 * rounds + 2))


def test_a_figure_and_its_data(tmp_path):
    for name, key in (("descent_lemma", "points"), ("wrong_constant", "rounds")):
        found = studied(name)
        paths = found.figure(tmp_path / name)
        assert [p.suffix for p in paths] == [".png", ".pdf", ".json"] and all(p.stat().st_size > 500 for p in paths)
        data = json.loads(paths[-1].read_text())
        assert set(data[key]) == set(found.studies[0].statement.forms)
        assert data["forms"]["printed"]["verdict"] == "violated" and not data["forms"]["printed"]["attained"]


def test_what_the_figure_says_of_each_form():
    """The worst of every horizon: above 1 where a form was refuted, never above it where it holds."""
    one = studied("wrong_constant").studies[0]
    shown = figure.data(one)
    assert [r["T"] for r in shown["rounds"]["repaired"]] == [1, 2, 3, 4, 5]
    assert max(r["ratio"] for r in shown["rounds"]["printed"]) > 1 + 1e-6
    assert all(r["ratio"] <= 1 + 1e-9 for form in ("repaired", "lecture notes") for r in shown["rounds"][form])
    assert figure.finding(shown).startswith("Printed fails; repaired and lecture notes hold")
    points = shown["points"]["printed"]
    assert {p["verdict"] for p in points if p["measured"] > p["bound"] + 1e-9} == {"violated"}
    [made] = studied("descent_lemma").figures()
    forms = made.compute()["forms"]
    assert made.name == "bound_lemma-1" and forms["repaired"]["attained"] and forms["printed"]["worst"].startswith("lhs 0 > rhs ")


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_study_prints_without_a_broken_word(file):
    """No word is cut at a cell's end, nothing is told twice, and what is refuted stands first."""
    found = studied(file.stem)
    for width in (80, 100):
        buffer = io.StringIO()
        Console(file=buffer, width=width, color_system=None).print(found)
        text = buffer.getvalue()
        assert max(map(len, text.splitlines())) <= width
        assert set(text.split()) <= {*str(found).split()}
        whole = " ".join(text.split())
        for one in found.studies:
            setting = MethodSetting.of(one.statement)
            for example in one.counterexamples.values():
                assert whole.count(f"{told(setting, example)}: {sides_told(setting, example)}") == 1
        labels = [line.split()[0] for line in text.splitlines() if line[:1].isalpha()]
        of_standing = [labels.index(word) for word in ("needed", "undecided") if word in labels]  # of what stands
        assert labels.index("refuted") < labels.index("tightness") < min(of_standing, default=len(labels))
