"""`fedtheory verify --figure` and `fedtheory draw`: a picture of one's own, and any saved result drawn again."""

import hashlib
import json
from pathlib import Path
from typing import get_args

import pytest
from command_line import call, refused
from PIL import Image

from fedtheory.cli.app import FigureSize
from fedtheory.plotting import saved
from fedtheory.plotting.style import SIZES
from fedtheory.report.redraw import KINDS, known_figures, opened

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ("--problem", "quadratic", "-P", 2, "--clients", 3, "--dimension", 2)


def sums(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


# --- verify --figure ------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figure")
    call("verify", "theorem-c", *SMALL, "--rounds", 4, "--figure", folder / "mine.png", "--out", folder / "out")
    return folder


def test_verify_draws_bound_against_measured_with_its_data(figure):
    assert {p.name for p in figure.iterdir()} == {"mine.png", "mine.pdf", "mine.csv", "out"}
    data = saved.read(figure / "mine.csv")
    assert data["statement"] == "fedelasticnet/theorem-c" and data["horizon"] == "T"
    assert data["command"].startswith("fedtheory verify theorem-c --problem quadratic -P 2") and "--figure" in data["command"]
    assert data["setup"].startswith("Quadratic(clients=3, dim=2)") and data["provenance"]["commit"] is not False
    told = json.loads((figure / "out" / "verify-theorem-c-quadratic.json").read_text())
    assert [Path(f).name for f in told["files"]] == ["mine.csv", "mine.png", "mine.pdf"]
    assert all("series" not in c or c["series"] is None for c in told["checks"])
    checked = {c["form"]: c for c in told["checks"]}
    for name, form in data["forms"].items():
        assert form["verdict"] == checked[name]["verdict"]


def test_without_a_file_the_picture_is_named_after_statement_and_problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("verify", "eq-29", *SMALL, "--figure", "--seed", 1)
    assert "results/verify-eq-29-quadratic.csv" in result.stdout and (tmp_path / "results/verify-eq-29-quadratic.png").exists()
    written = call("verify", "eq-29", *SMALL, "--figure", "--out", "o", "--json").stdout
    assert json.loads(written)["files"][-1] == "o/verify-eq-29-quadratic.pdf"


def test_a_statement_of_ones_own_is_drawn_over_its_horizon(tmp_path):
    name = f"{EXAMPLES / 'wrong_constant.py'}::rate"
    result = json.loads(call("verify", name, "--problem", "quadratic", "--rounds", 3, "--figure", tmp_path / "own", "--json").stdout)
    data = saved.read(tmp_path / "own.csv")
    assert [r["at"] for r in data["rows"] if r["form"] == "repaired"] == [1, 2, 3]
    assert data["sentence"] == result["sentence"]


def inches(path, dpi=130):
    with Image.open(path) as picture:
        return picture.width / dpi, picture.height / dpi


def test_a_figure_for_a_paper_has_its_width_and_no_title(figure, tmp_path):
    assert set(get_args(FigureSize)) == set(SIZES)
    call("verify", "eq-29", *SMALL, "--figure", tmp_path / "icml", "--size", "icml", "--no-title")
    call("draw", figure / "mine.csv", "--out", tmp_path, "--size", "slide")
    assert inches(tmp_path / "icml.png")[0] == pytest.approx(3.25, abs=0.01)
    assert inches(tmp_path / "mine.png") == pytest.approx((10, 5.6), abs=0.01)
    titled = inches(tmp_path / "icml.png")[1]
    call("draw", tmp_path / "icml.csv", "--size", "icml")
    assert inches(tmp_path / "icml.png")[1] > titled + 0.3 and inches(figure / "mine.png")[0] == pytest.approx(6.75, abs=0.01)


def test_the_look_of_a_figure_that_is_not_drawn_is_refused(tmp_path):
    assert "--size and --no-title: only with --figure" in refused("verify", "eq-29", *SMALL, "--size", "ieee", "--no-title")
    call("solve", "quadratic", "--clients", 2, "--dimension", 2, "--out", tmp_path)
    told = refused("draw", tmp_path / "solve-quadratic.json", "--size", "ieee")
    assert "has one look; --size and --no-title are for a CSV of `verify --figure`" in told


def test_without_rounds_a_picture_has_hundreds_and_an_interrupt_leaves_what_was_judged(tmp_path, monkeypatch):
    call("verify", "theorem-c", *SMALL, "--figure", tmp_path / "long")
    data = saved.read(tmp_path / "long.csv")
    assert data["beyond"]["to"] == 300 and {r["at"] for r in data["rows"] if r["judged"]} == set(range(1, data["beyond"]["after"] + 1))

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedtheory.theory.judge.comparison.beyond", stopped)
    call("verify", "theorem-c", *SMALL, "--figure", tmp_path / "short")
    assert saved.read(tmp_path / "short.csv")["beyond"] is None


def test_a_table_of_before_this_column_is_drawn(figure, tmp_path):
    first, head, *rows = (figure / "mine.csv").read_text().splitlines()
    at = rows[0].split(",").index("judged")
    old = [",".join(v for i, v in enumerate(row.split(",")) if i != at) for row in rows]
    told = {k: v for k, v in json.loads(head[2:]).items() if k not in ("measures", "beyond", "reruns")}
    (tmp_path / "old.csv").write_text("\n".join([first, f"# {json.dumps(told)}", *old]) + "\n")
    assert all(r["judged"] for r in saved.read(tmp_path / "old.csv")["rows"])
    call("draw", tmp_path / "old.csv")


def test_what_cannot_be_drawn_is_told_after_the_verdicts(tmp_path):
    result = call("verify", "fedelasticnet/constants", "--figure", tmp_path / "x", code=2)
    assert "holds" in result.stdout and "identity between symbols" in result.stderr and not list(tmp_path.iterdir())


def test_a_figure_needs_a_statement_and_a_place(tmp_path):
    assert "--figure: only with a statement" in refused("verify", "--figure")
    (tmp_path / "file").write_text("")
    assert "cannot be written to" in refused("verify", "eq-28", *SMALL, "--figure", tmp_path / "file" / "x")
    told = refused("verify", "eq-28", *SMALL, "--figure", tmp_path / "file" / "x")
    assert "--figure" in told and "--out" not in told
    told = refused("verify", "eq-28", *SMALL, "--figure", tmp_path / "x.svg")
    assert "a PNG, a PDF and a CSV are written; name it" in told and "x.png" in told


def test_a_file_that_holds_no_problem_is_told_apart_from_a_wrong_name(tmp_path):
    assert "a problem's file is called NAME.json, data go by --data" in refused("solve", tmp_path)
    assert "did you mean 'quadratic'" in refused("solve", "quadratics")


# --- draw -----------------------------------------------------------------------------------------
def test_draw_says_in_its_help_what_it_takes():
    told = call("draw", "--help").stdout
    assert "FILE..." in told and "from their data alone" in told and "--dpi" in told


def test_draw_makes_the_same_picture_from_the_table_alone(figure, tmp_path):
    before = sums(figure / "out")
    result = call("draw", figure / "mine.csv", "--out", tmp_path)
    assert "bound against measured" in result.stdout
    assert (tmp_path / "mine.png").read_bytes() == (figure / "mine.png").read_bytes()
    assert sums(figure / "out") == before


def test_draw_takes_results_of_run_and_solve(tmp_path):
    small = ("quadratic", "--clients", 3, "--dimension", 2, "--max-conic-entries", 0, "--out", tmp_path)
    call("run", "fedavg", *small, "--rounds", 3, "--scenarios", 2, "--no-figures")
    call("solve", *small)
    files = [tmp_path / "run-fedavg-quadratic.json", tmp_path / "solve-quadratic.json"]
    told = json.loads(call("draw", *files, "--json", "--dpi", 50).stdout)
    assert [t["kind"] for t in told] == ["the curves of a run", "a certified optimum"]
    for file in files:
        assert file.with_suffix(".png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and file.with_suffix(".pdf").exists()


@pytest.fixture(scope="module")
def contest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contest")
    small = ("quadratic", "--clients", 3, "--dimension", 2, "--no-figures")
    call("run", "fedavg", *small, "--out", folder / "a")
    call("run", "scaffold", *small, "--out", folder / "b")
    call("run", "fedavg", *small, "--out", folder / "c", "--local-steps", 2)
    call("run", "scaffold", *small, "--out", folder / "other", "--seed", 1, "--rounds", 3)
    return folder


def pictures(monkeypatch, *args):
    """Run `fedtheory draw`; return its output and the figures that it saves."""
    from fedtheory.report import redraw

    figures = []
    monkeypatch.setattr(redraw, "save", lambda figure, stem, dpi: figures.append((figure, stem.name)) or [stem])
    return json.loads(call("draw", *args, "--json").stdout), figures


def test_a_run_without_progress_is_told_by_what_it_swings_between_and_with_its_cohorts(tmp_path, monkeypatch):
    small = ("quadratic", "--clients", 3, "--dimension", 2, "--no-figures", "--rounds", 30)
    call("run", "fedavg", *small, "-P", 1, "--out", tmp_path / "a")
    call("run", "scaffold", *small, "--out", tmp_path / "b")
    files = [tmp_path / "a/run-fedavg-quadratic.json", tmp_path / "b/run-scaffold-quadratic.json"]
    gaps = [value for (value,) in json.loads(files[0].read_text())["metrics"]["suboptimality"]][16:]
    [(figure, _)] = pictures(monkeypatch, *files)[1]
    said = " ".join(text.get_text() for text in figure.texts).replace("\n", " ")
    assert f"fedavg makes no more progress, between {min(gaps):.2g} and {max(gaps):.2g}" in said
    assert max(gaps) > 2 * min(gaps) and "Taking part: fedavg: 1 of 3 clients; scaffold: all clients" in said
    [(alone, _)] = pictures(monkeypatch, files[0])[1]
    assert f"no more progress, F(x) − F* between {min(gaps):.4g} and {max(gaps):.4g}" in alone.texts[0].get_text().replace("\n", " ")


def test_runs_on_one_problem_are_one_picture_with_a_curve_a_method(contest, monkeypatch):
    files = [contest / "a/run-fedavg-quadratic.json", contest / "b/run-scaffold-quadratic.json"]
    [told], [(figure, name)] = pictures(monkeypatch, *files)
    assert told["kind"] == "2 runs together" and name == "runs-quadratic-suboptimality"
    [ax] = figure.axes
    assert (ax.get_yscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "rounds", "F(x) − F*")
    assert [line.get_label() for line in ax.get_lines()] == ["fedavg", "scaffold"]
    gaps = [value for (value,) in json.loads(files[0].read_text())["metrics"]["suboptimality"]]
    assert list(ax.get_lines()[0].get_ydata()) == gaps
    title = figure.texts[0].get_text().replace("\n", " ")
    assert title == f"scaffold reaches the optimum, fedavg stops at {gaps[-1]:.2g}"


def test_a_method_that_ran_twice_is_told_by_its_folder_and_other_problems_have_other_pictures(contest, monkeypatch):
    runs = [contest / f"{folder}/run-fedavg-quadratic.json" for folder in "ac"]
    alone = contest / "other/run-scaffold-quadratic.json"
    told, figures = pictures(monkeypatch, runs[0], alone, runs[1], "--metric", "distance")
    assert [t["kind"] for t in told] == ["2 runs together", "distance of a run"]
    assert [line.get_label() for line in figures[0][0].axes[0].get_lines()] == ["fedavg (a)", "fedavg (c)"]
    assert "‖x − x*‖ at the end: fedavg (a)" in figures[0][0].texts[0].get_text()
    told, _ = pictures(monkeypatch, runs[0], alone)
    assert [t["kind"] for t in told] == ["the curves of a run"] * 2


def test_a_metric_is_of_runs_only(figure, contest):
    run = contest / "a/run-fedavg-quadratic.json"
    assert "holds no run" in refused("draw", run, figure / "mine.csv", "--metric", "bits")


def test_the_picture_of_a_run_has_three_panels_and_says_how_it_ended(contest, monkeypatch, tmp_path):
    _, [(plain, _)] = pictures(monkeypatch, contest / "a/run-fedavg-quadratic.json")
    assert [ax.get_title("left") for ax in plain.axes if ax.get_visible()] == ["F(x) − F*", "‖∇F(x)‖", "‖x − x*‖"]
    assert plain.texts[0].get_text().startswith("fedavg on quadratic stops at F(x) − F* = ")
    for ax in plain.axes:
        low, high = ax.get_ylim()
        assert sum(low <= tick <= high for tick in ax.get_yticks()) >= 2
    net = ("fedelasticnet-dyn", "quadratic", "--clients", 3, "--dimension", 2, "--l1", 0.1, "--l2", 1, "--rounds", 3)
    call("run", *net, "--no-figures", "--out", tmp_path)
    _, [(sparse, _)] = pictures(monkeypatch, tmp_path / "run-fedelasticnet-dyn-quadratic-l1-0.1-l2-1.json")
    assert len(sparse.axes) == 6


def test_draw_takes_the_json_beside_a_figure(tmp_path):
    from fedtheory.report.figures import QUICK, draw_one

    figure = known_figures()["fedmls_local_work"]
    draw_one(figure, tmp_path)
    first = (tmp_path / "fedmls_local_work.png").read_bytes()
    call("draw", tmp_path / "fedmls_local_work.json", "--out", tmp_path / "again", "--dpi", QUICK.dpi)
    assert (tmp_path / "again" / "fedmls_local_work.png").read_bytes() == first


def test_every_kind_says_which_command_makes_it():
    assert all("`" in file and what for file, what in KINDS)


BAD = {
    "text": ("nothing of ours", "neither JSON nor a table of ours"),
    "deep": ("[" * 100_000, "neither JSON"),
    "a list": ("[1, 2]", "not a result that can be drawn"),
    "verdicts": ('{"statement": "s", "checks": []}', "run `fedtheory verify` again with --figure"),
    "unknown figure": ('{"figure": "rate", "data": {}}', "unknown figure 'rate': did you mean 'rates'"),
    "wrong data": ('{"figure": "rates", "data": {"series": 3}}', "cannot be drawn from its data"),
    "a run without rounds": ('{"method": "m", "metrics": {}, "problem": {"name": "p"}}', "lists of one length"),
    "a run of words": ('{"method": "m", "metrics": {"objective": ["a"]}, "problem": {"name": "p"}}', "cannot be drawn from its data"),
    "ragged": ('{"method": "m", "metrics": {"a": [1, 2], "b": [1]}, "problem": {"name": "p"}}', "lists of one length"),
    "an optimum of words": ('{"problem": {}, "optimum": {"x": "y"}, "constants": {}}', "cannot be drawn from its data"),
    "a campaign cut off": ('{"rows": [1], "instances": 2}', "no 'complete': this is not a campaign.json"),
    "a table": (f"{saved.FIRST_LINE}\n# {{}}\n", "statement is None"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_draw_refuses_what_it_cannot_draw_in_one_line(name, tmp_path):
    content, words = BAD[name]
    path = tmp_path / "file.json"
    path.write_text(content)
    assert words in refused("draw", path)
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]


def test_draw_refuses_what_it_cannot_read(tmp_path):
    assert "no such file" in refused("draw", tmp_path / "none.csv")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read as text" in refused("draw", tmp_path / "binary")
    assert "cannot be read as text" in refused("draw", tmp_path)
    assert "Missing argument" in call("draw", code=2).stderr


def test_known_figures_are_found_by_name_and_draw():
    for name in ("verdicts", "rates", "bound_vs_empirical", "fedmls_local_work"):
        assert known_figures()[name].name == name


def test_a_file_is_read_and_nothing_is_drawn_yet(figure):
    found = opened(figure / "mine.csv")
    assert (found.kind, found.name) == ("bound against measured", "mine")
