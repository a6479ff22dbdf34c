"""The command line: every command, its JSON, its exit codes and what it refuses."""

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import fields, replace

import pytest
import typer.main
from cases import each
from command_line import call, refused

from fedtheory import algorithms
from fedtheory.cli import app, options
from fedtheory.cli import time_limit as lasting
from fedtheory.cli.problems import build
from fedtheory.cli.run_made import run_name
from fedtheory.errors import InvalidInput
from fedtheory.theorems import all_statements, get
from fedtheory.theory.judge import campaign, registry


# --- list, explain --------------------------------------------------------------------------------
@pytest.mark.parametrize("what", ["statements", "papers", "methods", "problems", "metrics", "witnesses"])
def test_list(what):
    found = json.loads(call("list", what, "--json").stdout)
    text = call("list", what).stdout
    for row in found[:50]:
        name = row.get("name") or row["id"].split("/")[-1]
        assert name[:10] in text


def test_list_says_what_is_on_record():
    rows = {r["id"]: r for r in json.loads(call("list", "--json").stdout)}
    assert set(rows) == {s.id for s in all_statements()}
    forms = {f["name"]: f["established"] for f in rows["fedelasticnet/eq-28"]["forms"]}
    assert forms["printed"] == get("fedelasticnet/eq-28").form("printed").established


@pytest.mark.parametrize("paper", registry.papers(), ids=lambda p: p.id)
def test_explain_every_statement(paper):
    """All of a paper by one command: starting it takes longer than what it says of one statement."""
    found = json.loads(call("explain", f"{paper.id}/", "--json").stdout)
    assert [about["id"] for about in found] == [s.id for s in paper.statements]
    for about in found:
        assert [f["name"] for f in about["forms"]] == [f.name for f in get(about["id"]).forms]
        for form in about["forms"]:
            assert form["text"] and "\\" not in form["text"], f"LaTeX left in {form['text']}"


def test_explain_shows_formula_notes_mutants_and_symbols():
    text = call("explain", "eq-28").stdout
    for part in ("Cₜ ≤ (1 − (P/m))Cₜ₋₁", "Wrong variants, which must be rejected:", "Assumptions", "state.h", "violated (sign rule)"):
        assert part in text


def test_unknown_statement_suggests_the_nearest():
    assert "fedelasticnet/theorem-3.1" in refused("explain", "theorem-31")


def test_list_and_explain_say_where_a_worst_case_is_computed():
    at = get("fedelasticnet/theorem-a").form("repaired").worst.at
    row = next(r for r in json.loads(call("list", "statements", "--json").stdout) if r["id"] == "fedelasticnet/theorem-a")
    assert [f["worst_case_at"] for f in row["forms"]] == [at]
    text = " ".join(call("explain", "theorem-a").stdout.split())
    assert f"Worst case/bound: of all problems at {at}; fedtheory verify fedelasticnet/ has the number" in text
    assert "Worst case" not in call("explain", "eq-28").stdout
    assert "fedelasticnet/theorem-3.1" in refused("verify", "theorem-31")


# --- solve ----------------------------------------------------------------------------------------
def test_solve_prints_a_certified_optimum(tmp_path):
    result = json.loads(call("solve", "least-squares", "--clients", 3, "--ridge", 0.5, "--json", "--out", tmp_path).stdout)
    optimum = result["optimum"]
    problem = build("least-squares", {"clients": 3, "ridge": 0.5}, 0)
    assert optimum["lower_bound"] <= optimum["value"] and optimum["gap"] <= 1e-12
    assert optimum["value"] == problem.optimum().value
    assert result["constants"]["beta"] == problem.constants().beta
    assert json.loads((tmp_path / "solve-least-squares.json").read_text())["optimum"] == optimum
    assert "proven lower bound" in call("solve", "least-squares").stdout


def test_solve_a_file(tmp_path):
    data = tmp_path / "small.svmlight"
    data.write_text("".join(f"{1 if i % 2 else 2} 1:{i / 10} 3:{(i % 3) - 1}\n" for i in range(12)))
    common = ("solve", "--data", data, "--dimension", 4, "--clients", 3, "--ridge", 0.1, "--json")
    for loss, d in (("logistic", 4), ("least-squares", 4), ("huber", 4), ("softmax", 8)):
        result = json.loads(call(*common, "--loss", loss).stdout)
        assert result["problem"]["dimension"] == d and result["problem"]["clients"] == 3
    dealt = json.loads(call(*common, "--loss", "logistic", "--partition", "classes", "--classes", 1).stdout)
    assert dealt["problem"]["partition"]["name"] != "iid"
    data.write_bytes(data.read_bytes()[:-4])
    assert "truncated" in refused(*common, "--loss", "logistic")


def test_solve_refuses_what_has_no_certified_optimum():
    assert "not convex" in refused("solve", "saddle")
    assert "no minimiser" in refused("solve", "separable")


@each(
    ("args", "says"),
    [
        (("solve",), "name one problem"),
        (("solve", "quadratik"), "'quadratic'"),
        (("solve", "quadratic", "--ridge", "1"), "--ridge does not apply"),
        (("solve", "quadratic", "--clients", "0"), "at least 1"),
        (("solve", "diabetes", "--clients", "2", "--partition", "dirichlet"), "real targets"),
        (("solve", "diabetes", "--alpha-dirichlet", "1"), "belongs to --partition dirichlet"),
        (("solve", "--data", "nowhere.svm", "--loss", "logistic"), "no such file"),
        (("solve", "--data", "nowhere.svm"), "--loss"),
        (("solve", "digits", "--partition", "dirichlet", "--alpha-dirichlet", "0"), "--alpha-dirichlet 0.0: it must"),
        (("solve", "digits", "--partition", "classes", "--classes", "0"), "--classes 0"),
        (("solve", "diabetes", "--radius", "3"), "leave out --radius"),
        (("solve", "nesterov-worst", "--for-epsilon", "1e-9"), "the limit is 16 GiB"),
        (("run", "fedprx", "quadratic"), "'fedprox'"),
        (("run", "fedprox", "quadratic"), "needs --mu"),
        (("run", "feddyn", "quadratic", "--mu", "1"), "no hyperparameter --mu"),
        (("run", "feddyn", "quadratic", "--alpha", "1", "-P", "6"), "--participants 6 with m = 5"),
        (("run", "fedelasticnet-dyn", "quadratic", "--l1", "1", "--l2", "-3"), "-3.0"),
        (("run", "fedelasticnet-dyn", "quadratic", "--l1", "1", "--l2", "0"), "> 0"),
        (("run", "fedelasticnet-dyn", "quadratic", "--l1", "1", "--l2", "3", "--l2-over-beta", "3"), "one of them"),
        (("run", "feddyn", "quadratic", "--alpha", "1", "--local-steps", "3"), "--local-steps does not apply"),
        (("run", "fedavg", "quadratic", "--rounds", "0"), "--rounds 0"),
        (("verify", "--l1", "3"), "only with a statement"),
        (("verify", "eq-28", "--quick", "--budget", "0"), "--quick, --budget: only without a statement"),
        (("verify", "eq-28", "-P", "6"), "--participants 6 with m = 5"),
        (("verify", "eq-28", "--l2", "-1"), "-1.0"),
        (("verify", "theorem-3.1", "--rounds", "0"), "--rounds 0"),
        (("verify", "theorem-3.1", "--scenarios", "-2"), "--scenarios -2"),
        (("replay", "nowhere.json"), "no such file"),
        (("replay", "zzz"), "list witnesses"),
    ],
)
def test_bad_input_is_one_line(args, says):
    assert says in refused(*args)


def test_an_output_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused("solve", "quadratic", "--out", tmp_path / "file" / "below")


@pytest.mark.parametrize("command", [("verify",), ("run", "fedavg", "quadratic"), ("rates",), ("bench", "fedelasticnet-table2")])
def test_an_output_folder_is_tried_before_work_starts(tmp_path, monkeypatch, command):
    from fedtheory.cli import rates as rating
    from fedtheory.cli import run as working

    def worked(*args, **options):
        pytest.fail("work started before the folder was tried")

    monkeypatch.setattr(campaign, "plan", worked)
    monkeypatch.setattr(working, "run", worked)
    monkeypatch.setattr(rating, "rates", worked)
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(*command, "--out", tmp_path / "file" / "below")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("scale", ["-1", "inf", "nan"])
def test_a_battery_without_a_size_is_refused(scale):
    result = call("verify", "--scale", scale, code=2)
    assert "--scale" in result.stderr and "Traceback" not in result.stderr


# --- run ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method, options, name", [
    ("fedavg", {}, "run-fedavg-digits"), ("fedavg", {"aggregation": "samples"}, "run-fedavg-digits"),
    ("fedavg", {"aggregation": "cohort"}, "run-fedavg-digits-aggregation-cohort"),
    ("feddyn", {"alpha": 1.0}, "run-feddyn-digits-alpha-1"), ("feddyn", {"alpha": 0.25}, "run-feddyn-digits-alpha-0.25"),
    ("fedavg", {"compressor": "top-k:k=2", "client_feedback": False}, "run-fedavg-digits-compressor-top-k-k-2-no-client-feedback"),
    ("fedelasticnet-dyn", {"l1": 0.1, "l2_over_beta": 2.0}, "run-fedelasticnet-dyn-digits-l1-0.1-l2-over-beta-2"),
    ("mopes", {"set": "simplex", "epsilon": 0.4}, "run-mopes-digits-epsilon-0.4-set-simplex"),
])  # fmt: skip
def test_a_run_is_named_by_the_hyperparameters_that_are_not_the_usual_ones(method, options, name):
    assert run_name(method, "digits", options) == name


def test_a_long_name_of_a_run_is_shortened_and_still_its_own():
    long = [run_name("fedavg", "digits", {"compressor": f"st:q=0.1,rule={'a' * 60}{n}"}) for n in range(2)]
    assert len(set(long)) == 2 and all(re.fullmatch(r"run-fedavg-digits-[0-9a-f]{8}", name) for name in long)


def test_runs_with_other_hyperparameters_and_compressed_ones_do_not_overwrite_each_other(tmp_path):
    for more in ([], ["--aggregation", "cohort"], ["--compressor", "top-k:k=1"]):
        call("run", "fedavg", "quadratic", "--rounds", 2, "--no-figures", "--out", tmp_path, *more)
    assert len(list(tmp_path.glob("run-fedavg-quadratic*.json"))) == 3


def test_run_writes_curves_and_numbers(tmp_path):
    args = ("run", "fedelasticnet-dyn", "quadratic", "--l1", 0.1, "--l2-over-beta", 2, "--rounds", 6, "-P", 2, "-S", 3)
    result = json.loads(call(*args, "--seed", 5, "--out", tmp_path, "--json").stdout)
    stem = "run-fedelasticnet-dyn-quadratic-l1-0.1-l2-over-beta-2"
    assert (tmp_path / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / f"{stem}.pdf").read_bytes().startswith(b"%PDF")
    from fedtheory import Uniform, simulate

    problem = build("quadratic", {}, 5)
    algorithm = algorithms.FedElasticNetDyn(0.1, 2 * problem.constants().beta)
    direct = simulate(problem, algorithm, 6, sampling=Uniform(2), scenarios=3, seed=5, record=["distance"])
    assert result["metrics"]["distance"] == direct.metrics["distance"].tolist()
    assert result["provenance"]["seed"] == 5


@pytest.mark.parametrize("solver", [("gradient", "--local-steps", "2"), ("sgd", "--epochs", "1", "--batch-size", "4")])
def test_run_with_local_steps(tmp_path, solver):
    args = ("run", "scaffold", "least-squares", "--rounds", 3, "--out", tmp_path, "--no-figures", "--local-solver", *solver)
    assert "F(x) - F*" in call(*args).stdout
    assert not list(tmp_path.glob("*.png"))


def test_a_run_that_diverges_says_where(tmp_path):
    args = ("run", "fedavg", "quadratic", "--local-solver", "gradient", "--local-lr", 1e6, "--out", tmp_path)
    assert "diverged in round" in refused(*args)
    args = (*args[:3], "--local-lr", 100, "--rounds", 20, *args[-2:])  # whose model is finite to the end
    assert "diverged in round 17 at the server" in refused(*args) and "F(x) - F*" in refused(*args)


def test_a_problem_in_place_of_the_method_is_told(tmp_path):
    assert "`fedtheory run fedavg quadratic`" in refused("run", "quadratic", "fedavg", "--out", tmp_path)


@pytest.mark.parametrize("problem", ["quadratic", "l1-distance"])
def test_an_interrupted_run_keeps_the_rounds_that_were_finished(tmp_path, monkeypatch, problem):
    from fedtheory import simulate
    from fedtheory.cli import run as working
    from fedtheory.local import GradientSteps

    @contextmanager
    def interrupted(what, total=None):
        seen = []

        def advance(steps=1):
            seen.append(1)
            if len(seen) == 4:  # in round 4, after the method has overwritten its state
                raise KeyboardInterrupt

        yield advance

    monkeypatch.setattr(working, "progress", interrupted)
    args = ("--local-solver", "gradient", "--local-lr", 0.05, "--rounds", 1000, "--out", tmp_path, "--json")
    result = call("run", "scaffold", problem, *args, code=130)
    assert "interrupted after round 3 of 1000" in result.stderr
    stored = json.loads((tmp_path / f"run-scaffold-{problem}.json").read_text())
    assert stored["rounds"] == 3 and stored["complete"] is False
    whole = simulate(build(problem, {}, 0), algorithms.Scaffold(), 3, local_solver=GradientSteps(5, 0.05), record=["bits"])
    assert stored["metrics"]["bits"] == whole.metrics["bits"].tolist() and stored["final_x"] == whole.x.tolist()
    assert {len(values) for values in stored["metrics"].values()} == {4}


def test_an_interrupt_while_drawing_keeps_numbers_and_table(tmp_path, monkeypatch):
    from fedtheory.plotting import curves

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(curves, "draw_curves", interrupted)
    result = call("run", "fedavg", "quadratic", "--rounds", 3, "--out", tmp_path, code=130)
    assert "the picture is left out" in result.stderr and "F(x) - F*" in result.stdout
    assert "run-fedavg-quadratic.json" in result.stdout.replace("\n", "")
    assert json.loads((tmp_path / "run-fedavg-quadratic.json").read_text())["complete"] is True


@pytest.mark.parametrize(
    "args",
    [
        "fedavg quadratic --local-solver gradient --local-steps 1000000000",
        "fedavg digits --local-solver sgd --epochs 1000000000 --local-lr 0.01",
        "efl quadratic --local-steps 1000000000",
        "fedavg lad --local-lr 0.01 --local-steps 1000000000 --scenarios 3 --participants 2",
        "fedavg quadratic --rounds 100000000 --local-steps 500",
    ],
)
def test_a_run_that_would_take_hours_is_refused_with_an_estimate(args, tmp_path):
    text = " ".join(refused("run", *args.split(), "--out", tmp_path).split())
    assert re.search(r"would take about [\d.,e+]+ (hours|days|years) here.*--local-steps.*--allow-long to go on", text)
    assert not list(tmp_path.iterdir())


def test_runs_that_are_short_or_allowed_are_started(tmp_path, monkeypatch):
    monkeypatch.setattr(lasting, "_seconds_per_step", lambda *a: 1.0)  # as on a machine this slow
    args = ("run", "fedavg", "quadratic", "--local-solver", "gradient", "--rounds", 2, "--no-figures", "--out", tmp_path)
    call(*args, "--local-steps", 3)  # too few to be measured at all
    monkeypatch.setattr(lasting, "ALWAYS_SHORT", 1)
    assert "2 rounds of 1,800 local steps" not in call(*args, "--local-steps", 1800).stderr
    assert "2 rounds of 1,801 local steps would take about 60 minutes" in refused(*args, "--local-steps", 1801)
    call(*args, "--local-steps", 1801, "--allow-long")


def test_the_first_rounds_are_what_a_run_is_judged_by(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(lasting.time, "perf_counter", lambda: now[0])

    def clock(rounds, ends, allow_long=False):
        now[0] = 0.0
        judge = lasting.RoundClock(rounds, allow_long)
        for t, end in enumerate(ends, 1):
            now[0] = end
            judge(t)

    clock(3600, [50.0, 50.9, 51.8, 52.7])  # round 1 warmed up; 0.9 s each is less than an hour
    with pytest.raises(InvalidInput, match=r"4,100 rounds would take about 62 minutes here \(0.9 s each, over the first 4\)"):
        clock(4100, [50.0, 50.9, 51.8, 52.7])
    clock(4100, [50.0, 50.9, 51.8, 52.7], allow_long=True)
    with pytest.raises(InvalidInput, match="over the first 1"):
        clock(50, [80.0])


def test_every_hyperparameter_of_every_method_is_an_option():
    names = {p.name for p in options.hyperparameter_options()}
    for method in algorithms.names():
        assert {options.RENAMED.get(f.name, f.name) for f in fields(algorithms.get(method))} <= names


def test_the_options_that_a_method_takes_are_told_in_the_command_lines_words():
    for args, taken in (("fedmls lad --l2 1", "--epsilon --noise"), ("fedelasticnet-dyn quadratic --mu 1", "--l2-over-beta")):
        text = refused("run", *args.split())
        assert set(taken.split()) <= set(re.findall(r"--[\w-]+", text.split("it takes")[1])), text


def test_help_has_words_for_every_hyperparameter_and_each_methods_default():
    known = {n: h for n, h in options.hyperparameters().items() if n not in ("rounds", "radius")}
    assert [n for n, h in known.items() if not (options._WORDS.get(n) or options._described(h))] == []
    mu = options._described(known["mu"])  # what one gets whose words are not written out above: its docstring's
    assert mu == "float >= 0. " and "cohort" in options._described(known["aggregation"])
    shown = {p.name: p.default.help for p in options.hyperparameter_options()}
    for h in (h for n, h in known.items() if n not in ("allow_long", "epsilon")):
        alike = len(set(h.defaults)) == 1
        of = [f"{m} (default {d})" if d and not alike else m for m, d in zip(h.methods, h.defaults, strict=True)]
        default = f" (default {h.defaults[0]})" if alike and h.defaults[0] else ""
        assert shown[h.name].endswith(", ".join(of) + default), "every method that has it, and its default"
    assert "fedprox (default cohort)" in shown["aggregation"] and "fedelasticnet-prox (default printed)" in shown["aggregation"]
    assert "scaffold (default update)" in shown["send"]


# --- replay ---------------------------------------------------------------------------------------
def test_replay_prints_both_sides_as_fractions(tmp_path):
    from fedtheory.theory.judge.replay import builtin_witnesses, save

    witness = next(w for w in builtin_witnesses("fedelasticnet") if w.statement == "fedelasticnet/theorem-3.1" and w.form == "printed")
    path = save(witness, tmp_path / "mine.json")
    result = json.loads(call("replay", path, "--json").stdout)
    assert (result["lhs"], result["rhs"]) == (witness.lhs, witness.rhs) and result["verdict"] == "violated"
    text = call("replay", witness.name).stdout
    assert witness.lhs in text and witness.rhs in text and "rational" in text
    save(replace(witness, lhs="1/3"), path)
    assert "changed" in refused("replay", path)
    path.write_text("{")
    assert "not JSON" in refused("replay", path)


def test_replay_shows_several_starts_and_merged_clients():
    text = call("replay", "fedelasticnet-theorem-3.1-expectation-of-the-sign-only-true-gradient").stdout
    assert "1; -1" in text and "client 0 (1000 identical)" in text and "violated" in text
    assert "a fraction of" in text and max(map(len, text.split())) < 100
    assert "0; -21/10" in call("replay", "fedelasticnet-theorem-3.1-expectation-of-the-sign-only-sign").stdout


# --- the program ----------------------------------------------------------------------------------
@pytest.mark.parametrize("command", ["verify", "list", "explain", "proof", "replay", "report", "audit"])
def test_the_help_of_what_runs_a_file_says_so(command):
    told = " ".join(call(command, "--help").stdout.replace("│", " ").split())
    assert "FILE.py is run as Python" in told or "is run" in told.partition("FILE.py")[2]


def test_help_of_every_command_has_examples():
    for command in ("list", "explain", "solve", "run", "verify", "replay"):
        text = call(command, "--help").stdout
        assert "Examples" in text and f"fedtheory {command}" in text


def test_the_examples_in_the_help_are_valid():
    from typer.main import get_command

    seen = 0
    for name, command in get_command(app).commands.items():
        for line in re.findall(r"`fedtheory (.*?)`", command.epilog or ""):
            found, *args = shlex.split(line)
            if found == name:
                assert command.make_context(name, args[: args.index(">")] if ">" in args else args).params is not None
                seen += 1
    assert seen >= 15


def test_import_is_light():
    code = "import sys, fedtheory; print([m for m in ('torch', 'cvxpy', 'scipy', 'sklearn', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_that_is_named_is_made_alone(monkeypatch, capsys):
    made, make = [], typer.main.get_command_from_info
    monkeypatch.setattr(typer.main, "get_command_from_info", lambda **of: made.append(of["command_info"].name) or make(**of))
    with pytest.raises(SystemExit) as ended:
        app(["list", "papers"])
    assert made == ["list"] and ended.value.code == 0 and "FedMLS" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        app(["lsit"])
    assert made[1:] == [c.name for c in app.registered_commands] and "Did you mean 'list'" in capsys.readouterr().err


def test_the_program_runs_as_a_module_and_tells_its_version():
    run = [sys.executable, "-m", "fedtheory"]
    env = {**os.environ, "NO_COLOR": "1"}
    from fedtheory import __version__

    assert subprocess.run([*run, "--version"], capture_output=True, text=True, env=env).stdout.split() == ["fedtheory", __version__]
    done = subprocess.run([*run, "explain", "nosuchthing"], capture_output=True, text=True, env=env)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stdout == ""


def test_in_a_narrow_terminal_witnesses_take_few_lines(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("list", "witnesses").stdout.splitlines()
    found = json.loads(call("list", "witnesses", "--json").stdout)
    assert [row["name"] for row in found] == [line for line in lines if line and not line.startswith(" ")]
    assert len(lines) < 3 * len(found) and max(map(len, lines)) <= 80
    assert " ".join(found[0]["about"].split()) in " ".join(" ".join(lines).split())
