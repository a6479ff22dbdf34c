"""The command line: every command, its JSON, its exit codes and what it refuses."""

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from fedtheory import algorithms, campaign
from fedtheory.battery import Instance
from fedtheory.cli import app, lasting, options, verifying
from fedtheory.cli.named import PROBLEMS, build
from fedtheory.errors import InvalidInput
from fedtheory.theorems import core, get

runner = CliRunner()
TASKS = [campaign.Task("exact", Instance("quadratic", 2, 1, 1, 100.0, 1.0, seed), states=4, max_leaves=8) for seed in (1, 2)]
ONLY = ("fedelasticnet/eq-17", "fedelasticnet/eq-28", "fedelasticnet/lemma-b2", "fedelasticnet/eq-41-chain")


def call(*args, code=0):
    result = runner.invoke(app, [str(a) for a in args])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def refused(*args):
    """stderr of a command that must end with exit code 2, one line, and nothing on stdout."""
    result = call(*args, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture
def small(monkeypatch):
    """A campaign of two instances, four statements and no figures, in this process."""
    monkeypatch.setattr(campaign, "plan", lambda *a, **k: TASKS)
    monkeypatch.setattr(core, "_REGISTRY", {k: core._REGISTRY[k] for k in ONLY})
    monkeypatch.setattr(verifying, "shipped_witnesses", list)
    monkeypatch.setitem(sys.modules, "fedtheory.report.figures", None)


# --- list, explain --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("what", ["statements", "methods", "problems", "metrics", "witnesses"])
def test_list(what):
    found = json.loads(call("list", what, "--json").stdout)
    text = call("list", what).stdout
    for row in found[:50]:
        name = row.get("name") or row["id"].split("/")[-1]
        assert name[:10] in text


def test_list_says_what_is_on_record():
    rows = {r["id"]: r for r in json.loads(call("list", "--json").stdout)}
    assert set(rows) == {s.id for s in core.all_statements()}
    forms = {f["name"]: f["established"] for f in rows["fedelasticnet/eq-28"]["forms"]}
    assert forms["printed"] == get("fedelasticnet/eq-28").form("printed").established


@pytest.mark.parametrize("statement", [s.id for s in core.all_statements()])
def test_explain_every_statement(statement):
    about = json.loads(call("explain", statement, "--json").stdout)
    assert [f["name"] for f in about["forms"]] == [f.name for f in get(statement).forms]
    for form in about["forms"]:
        assert form["text"] and "\\" not in form["text"], f"LaTeX left in {form['text']}"


def test_explain_shows_formula_notes_mutants_and_symbols():
    text = call("explain", "eq-28").stdout
    for part in ("Cₜ ≤ (1 − (P/m))Cₜ₋₁", "Rejects:", "Assumptions", "state.h", "violated (sign rule)"):
        assert part in text


def test_unknown_statement_suggests_the_nearest():
    assert "fedelasticnet/theorem-3.1" in refused("explain", "theorem-31")
    assert "fedelasticnet/theorem-3.1" in refused("verify", "theorem-31")


# --- solve ----------------------------------------------------------------------------------------------------------------
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


@pytest.mark.parametrize(
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
        (("solve", "digits", "--partition", "dirichlet", "--alpha-dirichlet", "0"), "alpha is 0"),
        (("solve", "digits", "--partition", "classes", "--classes", "0"), "classes is 0"),
        (("solve", "diabetes", "--radius", "3"), "leave out the radius"),
        (("solve", "nesterov-worst", "--for-epsilon", "1e-9"), "not enough memory"),
        (("run", "fedprx", "quadratic"), "'fedprox'"),
        (("run", "fedprox", "quadratic"), "needs --mu"),
        (("run", "feddyn", "quadratic", "--mu", "1"), "no hyperparameter --mu"),
        (("run", "feddyn", "quadratic", "--alpha", "1", "-P", "6"), "P = 6 with m = 5"),
        (("run", "fedelasticnet-dyn", "quadratic", "--l1", "1", "--l2", "-3"), "-3.0"),
        (("run", "fedelasticnet-dyn", "quadratic", "--l1", "1", "--l2", "0"), "> 0"),
        (("run", "fedelasticnet-dyn", "quadratic", "--l1", "1", "--l2", "3", "--l2-over-beta", "3"), "one of them"),
        (("run", "fedavg", "quadratic", "--local-steps", "3"), "--local-steps does not apply"),
        (("run", "fedavg", "quadratic", "--rounds", "0"), "rounds = 0"),
        (("verify", "--l1", "3"), "only with a statement"),
        (("verify", "eq-28", "--quick", "--budget", "0"), "--quick, --budget: only without a statement"),
        (("verify", "eq-28", "-P", "6"), "P = 6 with m = 5"),
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
    from fedtheory.cli import rating, working

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


# --- run ------------------------------------------------------------------------------------------------------------------
def test_run_writes_curves_and_numbers(tmp_path):
    args = ("run", "fedelasticnet-dyn", "quadratic", "--l1", 0.1, "--l2-over-beta", 2, "--rounds", 6, "-P", 2, "-S", 3)
    result = json.loads(call(*args, "--seed", 5, "--out", tmp_path, "--json").stdout)
    stem = tmp_path / "run-fedelasticnet-dyn-quadratic"
    assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert stem.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
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


@pytest.mark.parametrize("problem", ["quadratic", "l1-distance"])
def test_an_interrupted_run_keeps_the_rounds_that_were_finished(tmp_path, monkeypatch, problem):
    from fedtheory import simulate
    from fedtheory.cli import working
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


@pytest.mark.parametrize(
    "args",
    [
        "fedavg quadratic --local-solver gradient --local-steps 1000000000",
        "fedavg digits --local-solver sgd --epochs 1000000000 --local-lr 0.01",
        "efl quadratic --local-steps 1000000000",
        "fedavg lad --local-lr 0.01 --local-steps 1000000000 --scenarios 3 --participants 2",
        "fedavg quadratic --rounds 100000000",
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
    assert [n for n in options.hyperparameters() if n not in options._WORDS and n not in ("rounds", "radius")] == []
    shown = {p.name: p.default.help for p in options.hyperparameter_options()}
    assert "fedprox (default cohort)" in shown["aggregation"] and "fedelasticnet-prox (default printed)" in shown["aggregation"]
    assert "scaffold (default update)" in shown["send"] and shown["server_lr"].endswith("elastic-aggregation (default 1.0)")


SLOW_OR_REFUSED = ("saddle", "separable", "digits-10", "synthetic", "synthetic-iid")


@pytest.mark.parametrize("name", [n for n, p in PROBLEMS.items() if not p.nonsmooth and n not in SLOW_OR_REFUSED])
def test_named_problems_are_certified(name):
    assert build(name, {"clients": 3}, 1).optimum().gap <= 1e-12


# --- nonsmooth problems and FedMLS -----------------------------------------------------------------------------------------
NONSMOOTH = [n for n, p in PROBLEMS.items() if p.nonsmooth]


def test_every_nonsmooth_problem_is_solved_on_a_ball_that_holds_a_minimiser():
    assert len(NONSMOOTH) == 9
    for name in NONSMOOTH:
        result = json.loads(call("solve", name, "--json").stdout)
        optimum, radius = result["optimum"], result["radius"]
        assert optimum["gap"] <= 1e-9 and optimum["details"]["constraint"] == "inactive" and "chosen" in result["radius_from"]
        wider = build(name, {}, 0).optimum_on_ball(2 * radius)
        assert wider.value >= optimum["lower_bound"] - 1e-9 * optimum["details"]["scale"], name


def test_solve_on_a_ball_tells_constraint_and_lipschitz_constants():
    result = json.loads(call("solve", "lad", "--radius", 3, "--seed", 2, "--json").stdout)
    problem = build("lad", {}, 2)
    assert result["constants"]["lipschitz"] == problem.lipschitz(3.0).tolist()
    assert result["constants"]["lipschitz_rms"] == pytest.approx(np.sqrt(np.mean(problem.lipschitz(3.0) ** 2)))
    text = call("solve", "lad", "--radius", 3).stdout
    for part in ("proven lower bound", "Fenchel dual", "3 (given)", "not active", "Lipschitz constants G_i", "root mean square"):
        assert part in text
    small = call("solve", "lad", "--radius", 0.2).stdout
    assert "  active: F is lower outside" in small
    assert float(re.search(r"\|\|x\*\|\| +(\S+)", small)[1]) == pytest.approx(0.2)
    assert "chosen: the least power of 2" in call("solve", "lad").stdout


def test_nonsmooth_losses_of_a_file(tmp_path):
    data = tmp_path / "small.svmlight"
    data.write_text("".join(f"{1 if i % 3 else 2} 1:{i / 10} 3:{(i % 4) - 1}\n" for i in range(12)))
    common = ("solve", "--data", data, "--dimension", 3, "--clients", 3, "--json")
    for loss, more in (("lad", ()), ("quantile", ("--tau", 0.8)), ("hinge", ("--ridge", 0.1))):
        result = json.loads(call(*common, "--loss", loss, *more).stdout)
        assert result["optimum"]["gap"] <= 1e-9 and result["problem"]["clients"] == 3
    assert "belongs to hinge" in refused(*common, "--loss", "lad", "--ridge", 1)
    assert "belongs to quantile" in refused(*common, "--loss", "hinge", "--tau", 0.5)
    assert "two classes" in refused("solve", "diabetes", "--loss", "hinge")
    assert json.loads(call("solve", "diabetes", "--loss", "lad", "--json").stdout)["problem"]["class"] == "LAD"


def test_run_fedmls_is_the_library_s_run(tmp_path):
    args = ("run", "fedmls", "two-client-pull", "--epsilon", 0.3, "--radius", 4, "--out", tmp_path, "--no-figures")
    result = json.loads(call(*args, "--json").stdout)
    from fedtheory import simulate

    problem = build("two-client-pull", {}, 0)
    g, optimum = problem.lipschitz_rms(4.0), problem.optimum_on_ball(4.0)
    epsilon = 0.3 * g * float(np.linalg.norm(optimum.x))
    algorithm = algorithms.fedmls_parameters(problem, epsilon, 4.0)
    direct = simulate(problem, algorithm, algorithm.rounds, record=["objective"])
    assert result["rounds"] == algorithm.rounds and result["hyperparameters"]["lam"] == pytest.approx(epsilon / g**2)
    assert result["metrics"]["suboptimality"] == (direct.metrics["objective"] - optimum.value).tolist()
    assert result["metrics"]["distance"][-1] == pytest.approx(np.linalg.norm(direct.x - optimum.x, axis=-1).tolist())
    assert result["metrics"]["suboptimality"][-1][0] <= epsilon
    text = call(*args).stdout
    for part in ("N = 2, d = 2", "4 (given)", "||x_0 - x*||", "lambda", "rounds K", "local steps", "F(x) - F*"):
        assert part in text
    assert f"{algorithm.total_steps():,} a client" in text
    same = json.loads(call(*args, "--norm", "product", "--json").stdout)["metrics"]["suboptimality"]
    assert np.allclose(same, result["metrics"]["suboptimality"], rtol=1e-9, atol=1e-12), "the product norm with scaled parameters"


@pytest.mark.parametrize(
    "method",
    [("subgradient",), ("subgradient", "--step", 0.05, "--output", "last"), ("fedavg", "--local-lr", 0.02)],
)
def test_other_methods_on_a_nonsmooth_problem(tmp_path, method):
    name, *more = method
    args = ("run", name, "lad", "--rounds", 30, "--no-figures", "--out", tmp_path, *more)
    measured = [row[0] for row in json.loads(call(*args, "--json").stdout)["metrics"]["suboptimality"]]
    assert -1e-12 <= measured[-1] < 0.5 * measured[0]
    assert "ball of radius 1 (chosen" in " ".join(call(*args).stdout.split())


def test_the_subgradient_method_s_default_step_is_the_theory_s(tmp_path):
    args = ("run", "subgradient", "lad", "--radius", 2, "--rounds", 25, "--no-figures", "--out", tmp_path, "--json")
    chosen = json.loads(call(*args).stdout)["hyperparameters"]
    problem = build("lad", {}, 0)
    distance, g = float(np.linalg.norm(problem.optimum_on_ball(2.0).x)), float(problem.lipschitz(2.0).mean())
    assert chosen["step"] == pytest.approx(distance / (g * 5)) and chosen["output"] == "average" and chosen["radius"] == 2


@pytest.mark.parametrize("statement", ["theorem-1", "theorem-2"])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_verify_fedmls(tmp_path, statement, noise):
    args = ("verify", f"fedmls/{statement}", "--epsilon", 1, "--clients", 3, "--noise", noise, "-S", 50)
    result = json.loads(call(*args, "--json").stdout)
    verdicts = {c["form"]: c["verdict"] for c in result["checks"]}
    stands = "repaired" if statement == "theorem-1" else "fewest rounds"
    assert verdicts[stands] == verdicts["sharpened"] == "holds" and result["as_recorded"]
    assert result["problem"]["name"] == "lad" and {c["rule"] for c in result["checks"]} == {"stochastic" if noise else "deterministic"}
    about = result["algorithm"]
    assert about["noise_std"] == pytest.approx(noise * about["lipschitz"]) and about["sigma"] == about["noise_std"]
    if statement == "theorem-2":  # the printed K: 6 sqrt(2) G sqrt(D)/epsilon, epsilon = G ||x_0 - x*||
        assert about["rounds"] == 9 and verdicts["printed"] == "holds"


@pytest.mark.parametrize("width", [80, 120])
def test_verify_fedmls_prints_its_parameters(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = call("verify", "fedmls/theorem-1", "--epsilon", 1, "--rounds", 4).stdout
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    for part in ("N = 5, d = 3, exact subgradients", "radius", "||x_0 - x*||", "lambda", "rounds K      4", "local steps", "✓ holds"):
        assert part in text
    assert "witness" in text, "why the printed form is not judged here"


def test_switches_of_fedmls_reach_it():
    args = ("verify", "fedmls/theorem-1", "--problem", "two-client-pull", "--epsilon", 1, "--json")
    off = json.loads(call(*args, "--no-server-projection").stdout)
    assert off["algorithm"]["server_projection"] is False and json.loads(call(*args).stdout)["algorithm"]["server_projection"] is True
    (why,) = (c["reason"] for c in off["checks"] if c["form"] == "repaired")
    assert "the server does not project" in why
    assert json.loads(call(*args, "--allow-long").stdout)["algorithm"]["allow_long"] is True
    lam = json.loads(call(*args, "--lam", 0.5, "--D", 2, "--lipschitz", 9).stdout)["algorithm"]
    assert (lam["lam"], lam["D"], lam["lipschitz"]) == (0.5, 2, 9)


def test_verify_fedmls_from_another_start():
    args = ("verify", "fedmls/theorem-1", "--epsilon", 1, "--problem", "l1-distance", "--json")
    here, there = (json.loads(call(*args, *more).stdout)["algorithm"] for more in ((), ("--start=1,0,-2",)))
    assert np.sqrt(5) <= there["radius"] and "x_0" in there["radius_from"]
    optimum = build("l1-distance", {}, 0).optimum_on_ball(there["radius"])
    assert there["distance"] == pytest.approx(np.linalg.norm([1, 0, -2] - optimum.x)) != here["distance"]


def test_verify_fedmls_with_a_mutated_record_fails(monkeypatch):
    statement = get("fedmls/theorem-1")
    form = statement.form("repaired")
    tiny = replace(form, sides=dict((m.name, m.sides) for m in form.mutants)["a thousand times smaller first term"])
    monkeypatch.setitem(core._REGISTRY, statement.id, replace(statement, forms=(tiny,)))
    result = call("verify", "fedmls/theorem-1", "--lam", 0.07, "--rounds", 1, code=1)
    assert "on record as holding" in result.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--start", "4", "--radius", "3"), "outside the ball: enlarge --radius"),
        (("--radius", "0.2"), "the ball holds no minimiser"),
        (("--radius", "-1"), "must be a finite number > 0"),
        (("--epsilon", "0"), "--epsilon 0: the accuracy"),
        (("--epsilon", "-0.1"), "> 0"),
        (("--lam", "0"), "lambda must be a finite number > 0"),
        (("--lam", "-1"), "lambda must be a finite number > 0"),
        (("--noise", "-1"), "--noise -1"),
        (("--start", "1,2"), "d = 3 of them"),
        (("--start", "here"), "write numbers with commas"),
        (("--rounds", "0"), "must be an integer >= 1"),
        (("--problem", "quadratic"), "capability 'lipschitz'"),
        (("--epsilon", "1e-5"), "would take about"),
        (("--epsilon", "1e-9"), "would take at least"),
        (("--l1", "1"), "no hyperparameter --l1"),
        (("-P", "2"), "needs all N = 5 clients"),
        (("--mode", "exact"), "leave it out"),
        (("--problem", "two-client-pull", "--for-epsilon", "0"), "> 0"),
        (("--problem", "arjevani-shamir", "--clients", "3"), "must be even"),
    ],
)
def test_bad_input_to_fedmls_is_one_line(args, says):
    assert says in refused("verify", "fedmls/theorem-1", *args)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("fedmls", "quadratic"), "capability 'lipschitz'"),
        (("fedmls", "lad", "--rounds", "3000000", "--epsilon", "1e-3"), "pass --allow-long to go on"),
        (("fedmls", "lad", "--local-lr", "1"), "does not apply to fedmls"),
        (("fedmls", "lad", "--local-solver", "sgd"), "local steps of its own"),
        (("fedmls", "l1-distance", "--batch-size", "2"), "no samples"),
        (("fedprox", "lad", "--mu", "1"), "--local-lr"),
        (("fedprox", "lad"), "needs --mu"),
        (("fedprox", "lad", "--mu", "1", "--noise", "1"), "--noise is for fedmls"),
        (("subgradient", "quadratic"), "needs --step"),
    ],
)
def test_bad_input_to_runs_on_a_ball_is_one_line(args, says):
    assert says in refused("run", *args)


def test_how_long_it_would_take_is_said_in_hours_or_more():
    text = refused("verify", "fedmls/theorem-1", "--epsilon", "1e-5")
    assert re.search(r"K = 600,000 rounds with [\d,]+ local steps .* would take about [\d.,e+]+ (hours|days|years)", text)
    assert "--epsilon" in text and "--allow-long" in text


# --- verify ---------------------------------------------------------------------------------------------------------------
def test_verify_one_statement(tmp_path):
    args = ("verify", "eq-28", "--problem", "quadratic", "-P", 2, "--l1", 1, "--l2-over-beta", 100, "--out", tmp_path)
    result = json.loads(call(*args, "--json").stdout)
    verdicts = {c["form"]: c["verdict"] for c in result["checks"]}
    assert verdicts == {"printed": "violated", "repaired": "holds"}
    assert result["as_recorded"]
    assert json.loads((tmp_path / "verify-eq-28-quadratic.json").read_text())["verdict"] == "holds"
    assert "violated" in call(*args).stdout


def test_verify_one_statement_against_the_record(monkeypatch):
    statement = get("fedelasticnet/eq-28")
    wrong = replace(statement, forms=tuple(replace(f, established={"sign": "holds"}) for f in statement.forms))
    monkeypatch.setitem(core._REGISTRY, statement.id, wrong)
    result = call("verify", "eq-28", "-P", 2, "--l1", 1, "--l2-over-beta", 100, code=1)
    assert "on record as holding" in result.stdout


def test_campaign_writes_everything_and_succeeds(small, tmp_path):
    result = json.loads(call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, "--json").stdout)
    stored = json.loads((tmp_path / "campaign.json").read_text())
    assert stored["checked"] == stored["instances"] == len(TASKS)
    assert stored["ok"] and stored["complete"] and result["exit_code"] == 0
    assert {r["statement"] for r in stored["rows"]} == set(ONLY)
    assert stored["provenance"]["versions"]["numpy"] and stored["memory_mib"]["main"] > 0
    assert all(r["instances"] for r in stored["rows"])
    assert "</html>" in (tmp_path / "report.html").read_text()
    assert "eq-28" in (tmp_path / "report.md").read_text()
    assert not list(tmp_path.glob(".*")), "temporary files left behind"


@pytest.mark.parametrize("details", [(), ("--details",)])
def test_campaign_prints_one_table(small, tmp_path, details):
    text = " ".join(call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, *details).stdout.split())
    assert "✗ violated" in text and "verdicts are the recorded ones" in text and "peak memory" in text
    assert ("true-gr." in text) == bool(details)


def test_campaign_fails_on_a_verdict_that_is_not_the_recorded_one(small, monkeypatch, tmp_path):
    statement = core._REGISTRY["fedelasticnet/eq-28"]
    forms = tuple(replace(f, established={**f.established, "sign": "holds"}) for f in statement.forms)
    monkeypatch.setitem(core._REGISTRY, statement.id, replace(statement, forms=forms))
    result = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, code=1)
    assert "(!)" in result.stdout
    assert "fedelasticnet/eq-28 [printed, sign rule]: violated, on record as holds" in result.stderr
    assert not json.loads((tmp_path / "campaign.json").read_text())["ok"]
    assert "not the recorded ones" in (tmp_path / "report.html").read_text()


def test_what_is_open_does_not_fail(small, monkeypatch, tmp_path):
    statement = core._REGISTRY["fedelasticnet/eq-28"]
    forms = tuple(replace(f, established=dict.fromkeys(f.established, "open")) for f in statement.forms)
    monkeypatch.setitem(core._REGISTRY, statement.id, replace(statement, forms=forms))
    call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0)


def test_a_form_without_an_instance_fails_a_whole_campaign_and_is_left_out_of_a_small_one(small, monkeypatch, tmp_path):
    statement = core._REGISTRY["fedelasticnet/eq-28"]
    forms = tuple(replace(f, established={**f.established, "elsewhere": "holds"}) for f in statement.forms)
    monkeypatch.setitem(core._REGISTRY, statement.id, replace(statement, forms=forms))
    whole = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, code=1)
    assert "not applicable, on record as holds" in whole.stderr
    few = " ".join(call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, "--scale", 0.5).stdout.split())
    assert f"{len(forms)} forms met no instance that they are about in so small a campaign" in few


def test_an_interrupted_campaign_keeps_what_it_has(small, monkeypatch, tmp_path):
    @contextmanager
    def interrupted(what, total=None):
        def advance(steps=1):
            if what == "instances":
                raise KeyboardInterrupt

        yield advance

    monkeypatch.setattr(verifying, "progress", interrupted)
    result = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, code=130)
    stored = json.loads((tmp_path / "campaign.json").read_text())
    assert stored["complete"] is False and stored["ok"] is False
    assert stored["checked"] == 1, "the first instance was checked before the interrupt"
    assert "interrupted" in result.stderr and "incomplete" in result.stderr
    assert "Incomplete" in (tmp_path / "report.html").read_text()


def test_an_interrupted_search_keeps_the_searches_that_were_finished(small, monkeypatch, tmp_path):
    of = {"statement": "fedelasticnet/eq-28", "form": "repaired", "rule": "sign", "best_instance": {"m": 2}, "evaluations": 5}
    seen = []

    def search(task):
        seen.append(task)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return [{**of, "found": len(seen) == 2}]

    monkeypatch.setattr(verifying, "_search_one", search)
    result = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 5, code=130)
    stored = json.loads((tmp_path / "campaign.json").read_text())
    assert [s["found"] for s in stored["searches"]] == [False, True] and not stored["complete"]
    assert "counterexample to fedelasticnet/eq-28 [repaired, sign rule]" in result.stderr
    assert "before all searches were finished" in result.stderr
    assert stored["checked"] == stored["instances"], "the instances were through"


def test_interrupting_the_figures_keeps_the_verdicts(small, monkeypatch, tmp_path):
    def draw_all(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "fedtheory.report.figures", SimpleNamespace(draw_all=draw_all))
    call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, code=130)
    assert json.loads((tmp_path / "campaign.json").read_text())["complete"] is True
    assert (tmp_path / "report.html").exists()


def test_a_shipped_witness_that_does_not_replay_fails_the_campaign(small, monkeypatch, tmp_path):
    from fedtheory.witness import builtin_witnesses

    good = next(w for w in builtin_witnesses() if w.statement == "fedelasticnet/eq-28")
    monkeypatch.setattr(verifying, "shipped_witnesses", lambda: [good])
    args = ("verify", "--out", tmp_path, "--workers", 1, "--budget", 0)
    assert "file" in call(*args).stdout
    monkeypatch.setattr(verifying, "shipped_witnesses", lambda: [replace(good, rhs="0")])
    assert f"the witness {good.name} does not replay" in call(*args, code=1).stderr


def test_a_counterexample_to_a_repair_fails_the_campaign(small, monkeypatch, tmp_path):
    of = {"statement": "fedelasticnet/eq-28", "form": "repaired", "rule": "sign"}
    found = [{**of, "found": True, "best_instance": {"m": 2}, "evaluations": 5}]
    monkeypatch.setattr(verifying, "_search", lambda *a: (found, True))
    result = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 5, code=1)
    assert "counterexample to fedelasticnet/eq-28 [repaired, sign rule]" in result.stderr


# --- replay ---------------------------------------------------------------------------------------------------------------
def test_replay_prints_both_sides_as_fractions(tmp_path):
    from fedtheory.witness import builtin_witnesses, save

    witness = next(w for w in builtin_witnesses() if w.statement == "fedelasticnet/theorem-3.1" and w.form == "printed")
    path = save(witness, tmp_path / "mine.json")
    result = json.loads(call("replay", path, "--json").stdout)
    assert (result["lhs"], result["rhs"]) == (witness.lhs, witness.rhs) and result["verdict"] == "violated"
    text = call("replay", witness.name).stdout
    assert witness.lhs in text and witness.rhs in text and "rational" in text
    save(replace(witness, lhs="1/3"), path)
    assert "changed" in refused("replay", path)
    path.write_text("{")
    assert "not JSON" in refused("replay", path)


# --- the program ----------------------------------------------------------------------------------------------------------
def test_help_of_every_command_has_examples():
    for command in ("list", "explain", "solve", "run", "verify", "replay"):
        text = call(command, "--help").stdout
        assert "Examples" in text and f"fedtheory {command}" in text


def test_the_examples_in_the_help_are_valid():
    from typer.main import get_command

    seen = 0
    for name, command in get_command(app).commands.items():
        for line in re.findall(r"`fedtheory (.*?)`", command.epilog):
            found, *args = shlex.split(line)
            if found == name:
                assert command.make_context(name, args).params is not None
                seen += 1
    assert seen >= 15


def test_import_is_light():
    code = "import sys, fedtheory; print([m for m in ('torch', 'cvxpy', 'scipy', 'sklearn', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_starts_without_heavy_packages():
    code = (
        "import sys; from fedtheory.cli import app; from typer.testing import CliRunner; "
        "r = CliRunner().invoke(app, ['list', '--json']); assert r.exit_code == 0; "
        "print([m for m in ('torch', 'cvxpy', 'sklearn', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_program_runs_as_a_module_and_tells_its_version():
    run = [sys.executable, "-m", "fedtheory"]
    env = {**os.environ, "NO_COLOR": "1"}
    from fedtheory import __version__

    assert subprocess.run([*run, "--version"], capture_output=True, text=True, env=env).stdout.split() == ["fedtheory", __version__]
    done = subprocess.run([*run, "explain", "nosuchthing"], capture_output=True, text=True, env=env)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stdout == ""
