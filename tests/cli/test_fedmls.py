"""The command line on nonsmooth problems: optima on a ball, FedMLS, its theorems, and refusals."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from command_line import call, instead, refused

from fedtheory import algorithms
from fedtheory.cli.problems import PROBLEMS, build
from fedtheory.theorems import get

# --- nonsmooth problems and FedMLS ----------------------------------------------------------------
NONSMOOTH = [n for n, p in PROBLEMS.items() if p.nonsmooth]


def test_every_nonsmooth_problem_is_solved_on_a_ball_that_holds_a_minimiser():
    assert len(NONSMOOTH) >= 9
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
    stands = ("repaired", "sharpened", "large K") if statement == "theorem-1" else ("repaired", "sharpened", "fewer rounds")
    assert {verdicts[name] for name in stands} == {"holds"} and result["as_recorded"]
    assert result["problem"]["name"] == "lad" and {c["rule"] for c in result["checks"]} == {"stochastic" if noise else "deterministic"}
    about = result["algorithm"]
    assert about["noise_std"] == pytest.approx(noise * about["lipschitz"]) and about["sigma"] == about["noise_std"]
    if statement == "theorem-2":  # the printed K: 6 sqrt(2) G sqrt(D)/epsilon, epsilon = G ||x_0 - x*||
        assert about["rounds"] == 9 and verdicts["printed"] == ("not applicable" if noise else "holds")


@pytest.mark.parametrize("width", [80, 120])
def test_verify_fedmls_prints_its_parameters(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = call("verify", "fedmls/theorem-1", "--epsilon", 1, "--rounds", 4).stdout
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    for part in ("N = 5, d = 3, exact subgradients", "radius", "||x_0 - x*||", "lambda", "rounds K      4", "local steps", "✓ holds"):
        assert part in text
    assert "witness" in text, "why the prox without the square is not judged here"


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
    instead(monkeypatch, replace(statement, forms=(tiny,)))
    result = call("verify", "fedmls/theorem-1", "--lam", 0.07, "--rounds", 1, code=1)
    assert "on record as holding" in result.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--start", "4", "--radius", "3"), "outside the ball of radius 3: enlarge --radius, or start inside it (--start)"),
        (("--radius", "0.2"), "the ball holds no minimiser"),
        (("--radius", "-1"), "needs a finite number > 0"),
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
