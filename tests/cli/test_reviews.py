"""`fedtheory reviews` and `fedtheory experiment`: every answer's verdicts are those on record, and every command is one."""

from __future__ import annotations

import json
import shlex
import string
from dataclasses import replace
from types import SimpleNamespace

import pytest
import typer
from cases import each
from command_line import call, refused
from repository import ROOT

from fedtheory.cli import app
from fedtheory.cli.bench import TABLES
from fedtheory.cli.common import find_statement, shipped_witnesses
from fedtheory.cli.experiments import all_experiments
from fedtheory.cli.problems import PROBLEMS
from fedtheory.errors import UnknownName
from fedtheory.report.figures import Effort
from fedtheory.report.reviews import page
from fedtheory.theory.judge.registry import all_statements, paper, papers
from fedtheory.theory.judge.reviews import Point, Rests, told

ALL = [(p, point) for p in papers() for point in p.shown("reviews")]
COMMANDS = sorted({c for _, point in ALL for c in point.commands})
FEN = paper("fedelasticnet")
CLAIMS = [s for s in all_statements() if s.kind == "claim"]
SHOWN = {command for claim in CLAIMS for command in claim.shown_by.split("; ")}


@each(("whose", "point"), ALL)
def test_an_answer_says_what_is_on_record(whose, point):
    for rests in point.rests_on:
        assert rests.recorded(whose.id) == rests.verdict, rests
    fields = {f for text in (point.answer, point.more) for _, f, _, _ in string.Formatter().parse(text) if f is not None}
    assert fields <= {str(n) for n in range(len(point.rests_on))}
    assert point.kind == "opinion" or point.commands
    assert len({p.id for p in whose.shown("reviews")}) == len(whose.shown("reviews"))


def test_the_points_are_those_of_four_reviewers():
    ids = [p.id for p in FEN.shown("reviews")]
    counts = {r: sum(i.startswith(f"R{r}.") for i in ids) for r in (1, 2, 3, 4)}
    assert counts == {1: 16, 2: 9, 3: 3, 4: 3} and len(ids) == 31
    assert ids == [f"R{r}.{n}" for r, count in counts.items() for n in range(1, count + 1)]


@each("command", sorted({*COMMANDS, *SHOWN}))
def test_every_command_is_one(command):
    program, name, *words = shlex.split(command)
    assert program == "fedtheory"
    found = typer.main.get_command(app).commands[name].make_context(name, list(words)).params
    if name in ("explain", "verify"):
        find_statement(found["statement"])
    elif name == "replay":
        assert found["file"] in {w.name for w in shipped_witnesses()}
    elif name == "experiment":
        assert found["name"] in all_experiments()
    elif name == "run":
        assert found["problem"] in PROBLEMS
    elif name == "bench":
        assert found["table"] in TABLES
    else:
        assert name in ("list", "rates")


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.split()[1] in ("explain", "replay", "list")])
def test_what_is_only_looked_up_is_there(command):
    assert call(*shlex.split(command)[1:]).stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("verify theorem-3.1 --problem quadratic --l1 0 --l2-over-beta 30", "is about l1 above 0"),
        ("verify theorem-3.1 --problem quadratic --l1 0.5 --l2-over-beta 3", "is not met: it is 3"),
    ],
)
def test_what_is_outside_the_assumptions_is_told(command, said):
    assert f"fedtheory {command}" in COMMANDS
    assert said in " ".join(call(*command.split()).stdout.split())


def test_a_claim_says_what_measures_it():
    assert CLAIMS and {s.kind for s in CLAIMS} == {"claim"}
    for claim in CLAIMS:
        assert claim.shown_by in " ".join(call("explain", claim.id).stdout.split())
        assert claim.shown_by in " ".join(refused("verify", claim.id, "--problem", "diabetes").split())
    listed = {r["id"]: r["shown_by"] for r in json.loads(call("list", "--json").stdout)}
    assert all(listed[s.id] == s.shown_by for s in CLAIMS)


def test_run_runs_the_first_command(monkeypatch):
    ran = []
    ended = SimpleNamespace(returncode=7)
    monkeypatch.setattr("fedtheory.cli.reviews.subprocess.run", lambda args, check: ran.append(args) or ended)
    text = call("reviews", "fedelasticnet", "R1.13", "--run", code=7).stdout
    (args,) = ran
    assert args[1:] == ["-m", "fedtheory", "explain", "theorem-3.1"] and "$ fedtheory explain theorem-3.1" in text


def test_one_in_full_and_all_as_json(tmp_path):
    text = call("reviews", "fedelasticnet", "r2.2").stdout
    assert "On record" in text and "fedtheory experiment dimension" in text and "R2.3" not in text
    rows = json.loads(call("reviews", "fedelasticnet", "R2", "--json").stdout)
    assert [r["id"] for r in rows] == [f"R2.{n}" for n in range(1, 10)] and all(r["answer"] for r in rows)
    assert [r["name"] for r in json.loads(call("reviews", "--json").stdout)] == [p.id for p in papers() if p.shown("reviews")]
    call("reviews", "fedelasticnet", "--out", tmp_path)
    assert json.loads((tmp_path / "fedelasticnet_reviews.json").read_text())
    assert (tmp_path / "fedelasticnet_reviews.md").read_text() == page(FEN)


def test_the_page_in_docs_is_the_one_that_is_written():
    there = (ROOT / "docs/fedelasticnet_reviews.md").read_text()
    assert there == page(FEN), "`fedtheory reviews fedelasticnet --out docs` writes it anew"


def test_a_verdict_that_has_changed_is_told(monkeypatch):
    """The text takes the record's word, and one point in full says that it was written for another."""
    point = Point("R1.1", "?", "statement", "It is {0}.", commands=(), rests_on=(Rests("eq-11", "printed", "sign", "holds"),))
    assert told(point, FEN.id)["answer"] == "It is violated."
    monkeypatch.setattr("paper_figures.fedelasticnet.reviews.REVIEWS", (point,))
    assert "the answer was written for 'holds'" in " ".join(call("reviews", "fedelasticnet", "R1.1").stdout.split())
    with pytest.raises(UnknownName, match="rule of fedelasticnet/eq-11"):
        told(replace(point, rests_on=(Rests("eq-11", "printed", "signs", "holds"),)), FEN.id)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("reviews", "fedelasticnt"), "did you mean 'fedelasticnet'"),
        (("reviews", "efl"), "efl has no reviews here"),
        (("reviews", "fedelasticnet", "R9"), "unknown point of fedelasticnet's reviews 'R9'"),
        (("reviews", "--run"), "say which point"),
        (("reviews", "fedelasticnet", "R2", "--run"), "one point's command at a time"),
        (("reviews", "fedelasticnet", "R1.1", "--run"), "R1.1 has no command: it is opinion"),
        (("experiment", "dimensoin"), "did you mean 'dimension'"),
    ],
)
def test_what_is_not_there_is_named(args, said):
    assert said in refused(*args)


def test_an_experiment_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setattr("fedtheory.report.figures.QUICK", Effort(given={"algorithm-1": {"rounds": 60, "ratios": 1}}, dpi=50))
    text = call("experiment", "algorithm-1", "--out", tmp_path).stdout
    assert "closed form" in text and {p.name for p in tmp_path.iterdir()} == {f"algorithm-1.{s}" for s in ("json", "png", "pdf")}
    written = json.loads((tmp_path / "algorithm-1.json").read_text())
    assert written["finding"] and written["provenance"]["seed"] == 0 and len(written["rows"][0]) == len(written["headings"])
    listed = json.loads(call("experiment", "--json").stdout)
    assert [e["name"] for e in listed] == list(all_experiments()) and all(e["question"].endswith("?") for e in listed)
