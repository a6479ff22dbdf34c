"""`python -m paper_figures`: its help, its list, one figure, its errors; and every figure draws again from its data."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from fedtheory.errors import InvalidInput
from fedtheory.plotting.figure import restored
from fedtheory.plotting.style import house_style
from fedtheory.provenance import to_jsonable
from fedtheory.report.figures import Effort, computed
from fedtheory.theory.judge.registry import papers
from paper_figures import command, pictures
from paper_figures.known import known
from paper_figures.map import MAP

CHEAPEST = "efl_theorem2"
# Of a fraction of a second each. FedElasticNet's and EFL's others are drawn again from JSON where they are computed: in
# folders beside; what is trained has tests of its own.
TINY = {
    "fedmls_bound_over_k": {"rounds": (1, 2), "scenarios": 2},
    "fedmls_local_work": {"rounds": (2, 3), "worst_up_to": 2},
    "efl_theorem2": {"points": 5},
    "elastic_aggregation": {"instances": 2},
}
runner = CliRunner()


def call(*args, code=0):
    result = runner.invoke(command.app, [str(a) for a in args])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def test_help_has_every_option():
    told = call("--help").output
    assert all(option in told for option in ("--list", "--quick", "--data", "--out", "--seed", "--redraw", "--docs", "--campaign"))


def test_the_map_names_figures_that_there_are():
    told = json.loads(call("--list", "--json").stdout)
    names = {row["name"] for row in told["figures"]}
    assert names == set(known()) and len(told["map"]) == len(MAP)
    for entry in MAP:
        assert set(entry.names) <= names, entry
        assert entry.names or entry.command or entry.why_not, entry
    papers = {(e.paper, e.number) for e in MAP}
    assert {("fedelasticnet", f"Figure {n}") for n in range(1, 10)} | {("fedelasticnet", f"Table {n}") for n in range(1, 6)} <= papers
    assert {("efl", n) for n in ("Figure 1", "Figure 2", "Figure 3", "Table 1", "Table 2")} <= papers
    assert {e.paper for e in MAP} >= {"fedmls", "elastic-aggregation"}
    assert {p.figure for p in pictures.PICTURES} <= names


def test_no_two_figures_have_one_name():
    kinds = ("figures", "on_request")
    names = [f.name for paper in papers() for what in kinds for f in paper.shown(what)]
    assert len(set(names)) == len(names) == len(known()) - 1  # the chart of verdicts


def test_one_figure_with_its_words_and_again_from_its_data(tmp_path):
    call(CHEAPEST, "--quick", "--out", tmp_path)
    beside = json.loads((tmp_path / f"{CHEAPEST}.json").read_text())
    assert beside["figure"] == CHEAPEST and beside["paper"] == "efl" and beside["title"]
    most = max(t / p for t, p in zip(beside["data"]["arrival"]["true"], beside["data"]["arrival"]["printed"], strict=True))
    assert f"{float(f'{most:.2g}'):,.0f} times" in beside["caption"]  # its numbers are the data's
    first = {kind: (tmp_path / f"{CHEAPEST}.{kind}").read_bytes() for kind in ("png", "pdf")}
    assert first["png"].startswith(b"\x89PNG") and first["pdf"].startswith(b"%PDF")
    (tmp_path / f"{CHEAPEST}.png").unlink()
    told = json.loads(call("--redraw", "--out", tmp_path, "--json").stdout)
    assert set(told["written"]) == {CHEAPEST} and not told["failed"]
    assert (tmp_path / f"{CHEAPEST}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("efl_teorem2",), "did you mean 'efl_theorem2'"),
        (("--docs", "--quick"), "--docs"),
        (("--redraw",), "no JSON of a figure"),
        (("verdicts", "--campaign", "none.json"), "is not the JSON of a campaign"),
    ],
    ids=("unknown", "docs", "nothing to redraw", "no campaign"),
)
def test_errors_are_one_line(tmp_path, args, said):
    result = call(*args, "--out", tmp_path, code=2)
    assert said in result.stderr and result.stderr.strip().splitlines()[-1].startswith("error: ") and not result.stdout


def test_a_figure_that_fails_leaves_the_others(tmp_path, monkeypatch):
    def refuse(**options):
        raise InvalidInput("x = 1: it must be 2")

    every = {CHEAPEST: known()[CHEAPEST], "bad": replace(known()[CHEAPEST], name="bad", compute=refuse)}
    monkeypatch.setattr("paper_figures.known.known", lambda: every)
    told = call("bad", CHEAPEST, "--quick", "--out", tmp_path, "--json", code=1)
    assert "x = 1" in json.loads(told.stdout)["failed"]["bad"] and (tmp_path / f"{CHEAPEST}.png").exists()


def test_an_interrupt_leaves_what_is_finished(tmp_path, monkeypatch):
    def interrupt(**options):
        raise KeyboardInterrupt

    every = {CHEAPEST: known()[CHEAPEST], "late": replace(known()[CHEAPEST], name="late", compute=interrupt)}
    monkeypatch.setattr("paper_figures.known.known", lambda: every)
    call(CHEAPEST, "late", "--quick", "--out", tmp_path, code=130)
    assert (tmp_path / f"{CHEAPEST}.json").exists() and not (tmp_path / "late.json").exists()


@pytest.mark.parametrize("name", sorted(TINY))
def test_every_figure_has_words_and_draws_again_from_its_json(name):
    figure = known()[name]
    data = computed(figure, 0, Effort(given={name: TINY[name]}))
    back = restored(json.loads(json.dumps(to_jsonable(data))))
    assert figure.title and figure.paper and len(figure.caption(data)) > 80 and figure.caption(back) == figure.caption(data)
    with house_style():
        first, again = figure.draw(data), figure.draw(back)
    for one, other in zip(first.axes, again.axes, strict=True):
        assert [text.get_text() for text in one.texts] == [text.get_text() for text in other.texts]
        assert len(one.lines) == len(other.lines) and one.get_title("left") == other.get_title("left")
