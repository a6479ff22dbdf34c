"""A whole paper in one file, as examples/small_room.py shows it: judged, searched, replayed, and refuted where a form is wrong."""

import json

import pytest
from command_line import call, refused
from repository import ROOT

from fedtheory.errors import InvalidInput
from fedtheory.verification import Plan, registry, replay
from fedtheory.verification.check import judge_view
from fedtheory.verification.witness import Witness

FILE = ROOT / "examples" / "small_room.py"


@pytest.fixture
def paper():
    (found,) = registry.load_file(FILE)
    yield found
    registry._forget(registry.paper("small-room"))


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
    witness = Witness("small-room/mean-of-minimisers", "printed", "any", "clients", {"h": ["1", "3"], "c": ["0", "1"], "x": ["0", "0"]})
    _, lhs, rhs, _ = paper.setting.exact_check(paper.statements[0], witness)
    assert (str(lhs), str(rhs)) == ("1/4", "0")
    for wrong in ({"h": ["1"]}, {"h": ["1", "0"]}):
        with pytest.raises(InvalidInput, match="give a curvature > 0 for each"):
            paper.setting.builders["clients"]({**witness.data, **wrong})


def test_every_mutant_is_rejected(paper):
    views = [i.view() for i in paper.setting.instances(Plan())]
    for statement in paper.statements:
        for form in statement.forms:
            for mutant in form.mutants:
                checks = [judge_view(statement, form, v, sides=mutant.sides) for v in views]
                assert "violated" in {c.verdict for c in checks}, mutant.name


def test_a_statement_with_a_view_of_its_own_is_not_for_problems(paper):
    assert "instances of its own" in refused("verify", f"{FILE}::mean-of-models", "--problem", "quadratic")
