"""`fedtheory run mopes` and `moles`, their statements on a problem, and FedMLS with its local problems solved."""

import json

import numpy as np
import pytest
from cases import each
from command_line import call, refused

from fedtheory.central import Simplex, plan
from fedtheory.cli import central as running
from fedtheory.cli.problems import build
from fedtheory.theorems import get


def test_run_mopes_is_the_library_s_run(tmp_path):
    result = json.loads(call("run", "mopes", "lad", "--set", "simplex", "--epsilon", 0.4, "--out", tmp_path, "--json").stdout)
    made = plan(build("lad", {}, 0), Simplex(3), epsilon=0.4)
    run = made.method.run(made.problem, made.constraint, made.x0)
    assert result["complete"] and result["rounds"] == made.method.rounds == result["mopes"]["rounds"]
    np.testing.assert_array_equal(result["final_x"], run.x)
    np.testing.assert_array_equal(result["metrics"]["objective"], run.values)
    assert result["metrics"]["suboptimality"][-1] <= result["mopes"]["bound"] <= result["mopes"]["epsilon"]
    assert result["metrics"]["projections"][-1] == result["rounds"] and result["metrics"]["linear_minimisations"][-1] == 0
    files = {f"run-mopes-lad-epsilon-0.4-set-simplex.{suffix}" for suffix in ("json", "png", "pdf")}
    assert {p.name for p in tmp_path.iterdir()} == files
    assert {"commit", "seed"} <= set(result["provenance"])


@pytest.mark.parametrize(
    ("method", "more", "says"),
    [
        ("moles", ("--set", "l1-ball", "--set-size", 0.5), ("L1Ball(dim=3, radius=0.5)", "Wolfe gap", "linear minimisations")),
        ("moles", ("--set", "box", "--allowance", 2), ("C = 2",)),
        ("mopes", ("--local-training", "exact-prox"), ("Ball(dim=3, radius=1.0", "each inner problem is solved")),
        ("mopes", ("--set", "consensus", "--local-training", "exact-prox"), ("Consensus(blocks=5",)),
        ("mopes", ("--noise", 0.5, "--seed", 3), ("noise added", "in expectation at most")),
        ("mopes", ("--set", "simplex", "--start", "1,0,0", "--rounds", 5), ("rounds K              5",)),
        ("mopes", ("--set", "nuclear-ball", "--set-shape", "1x3", "--device", "cpu"), ("NuclearBall(rows=1, columns=3",)),
    ],
    ids=str,
)
def test_sets_and_parameters(method, more, says, tmp_path):
    text = call("run", method, "lad", "--epsilon", 0.8, *more, "--no-figures", "--out", tmp_path).stdout
    for part in (*says, "bound of F(x_K) - F*", "F(x) - F*", "by the bound"):
        assert part in text, text


@each(
    ("args", "says"),
    [
        (("run", "mopes", "lad", "--set", "nuclear-ball"), "--set-shape 2x3"),
        (("run", "mopes", "lad", "--set-shape", "3x1"), "rows and columns belong to 'nuclear-ball'"),
        (("run", "mopes", "lad", "--alpha", 3), "mopes has no hyperparameter --alpha: it takes --lam"),
        (("run", "mopes", "lad", "--participants", 2), "--participants "
        "2"), (("run", "mopes", "lad", "--scenarios", 2), "--scenarios 2"),
        (("run", "mopes", "lad", "--local-solver", "sgd"), "--local-solver sgd: mopes has local steps of its own"),
        (("run", "moles", "lad", "--local-steps", 3), "--local-steps 3"), (("run", "mopes", "lad", "--inactive", 0.3), "--inactive"),
        (("run", "mopes", "lad", "--allowance", 1), "moles' allowance"), (("run", "mopes", "lad", "--epsilon", 0), "epsilon"),
        (("run", "mopes", "lad", "--epsilon", 1e-4), "--allow-long"), (("run", "mopes", "quadratic"), "Lipschitz constant"),
        (("run", "mopes", "lad", "--set", "simplex", "--start", "1,1,1"), "away from the set"),
        (("run", "mopes", "lad", "--set-size", 0), "--set-size 0.0: it must be a finite number > 0"),
        (("run", "mopes", "lad", "--local-training", "exact-prox", "--batch-size", 2), "asks for no subgradients"),
        (("run", "fedavg", "lad", "--set", "box"), "--set box: it is for mopes and moles, not for fedavg"),
        (("run", "fedmls", "lad", "--set-size", 2), "--set-size 2.0: it is for mopes and moles"),
        (("run", "fedmls", "lad", "--local-training", "exact-prox", "--noise", 0.5), "asks for no subgradients"),
        (("run", "fedmls", "lad", "--local-training", "exact-prox", "--batch-size", 2), "asks for no subgradients"),
        (("verify", "fedmls/theorem-1", "--problem", "lad", "--set", "box"), "not for fedmls/theorem-1"),
        (("verify", "fedmls/moreau-envelope", "--problem", "lad"), "instances of its own"),
        (("verify", "fedmls/mopes-is-fedmls", "--problem", "lad"), "instances of its own"),
        (("verify", "fedmls/exact-prox", "--problem", "lad", "--local-training", "sliding"), "'exact-prox'; leave it out"),
        (("verify", "fedmls/mopes-bound", "--problem", "lad", "--participants", 2), "needs all N = 5 clients"),
        (("verify", "fedmls/mopes-bound", "--problem", "lad", "--l1", 1), "no hyperparameter"),
    ],
)
def test_what_means_nothing_is_refused_before_any_work(args, says):
    assert says in refused(*args)


def test_an_interrupt_keeps_what_is_finished(tmp_path, monkeypatch):
    made = []

    class Stopped(Exception):
        pass

    original = running.planned

    def planned(*args, **more):
        found = original(*args, **more)
        method = type(found.method)

        def run(self, *a, on_round, **kw):
            def stop(k, value):
                on_round(k, value)
                if k == 3:
                    raise KeyboardInterrupt

            return method.run(self, *a, on_round=stop, **kw)

        made.append(type("Interrupted", (method,), {"run": run}))
        object.__setattr__(found, "method", made[-1](**{f: getattr(found.method, f) for f in found.method.__dataclass_fields__}))
        return found

    monkeypatch.setattr(running, "planned", planned)
    result = call("run", "mopes", "lad", "--epsilon", 0.4, "--out", tmp_path, "--no-figures", "--json", code=130)
    data = json.loads(result.stdout)
    assert not data["complete"] and data["rounds"] == 3 and len(data["metrics"]["objective"]) == 4 and data["final_x"] is None
    assert "interrupted after round 3" in result.stderr


# --- their statements -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("statement", "more", "judged"),
    [
        ("mopes-bound", ("--set", "simplex"), ["10 and 8", "10 and 4"]),
        ("mopes-bound", ("--local-training", "exact-prox"), ["local problem solved"]),
        ("moles-bound", ("--set", "l1-ball"), ["with 2C"]), ("moles-calls", ("--set", "box"), ["calls in all", "calls a round"]),
        ("moles-calls", ("--given", "C=0.5"), ["calls a round"]),
        ("exact-prox", (), ["repaired", "7.9 for 8", "rounds to epsilon"]),
        ("exact-prox-recursion", (), ["repaired", "for every loss"]),
        ("theorem-2-orders", ("--rounds", 9), [f.name for f in get("fedmls/theorem-2-orders").forms]),
        ("mopes-calls", (), [f.name for f in get("fedmls/mopes-calls").forms]),
    ],
    ids=str,
)
def test_a_statement_on_a_problem(statement, more, judged):
    result = json.loads(call("verify", f"fedmls/{statement}", "--problem", "lad", "--epsilon", 0.8, *more, "--json").stdout)
    verdicts = {c["form"]: c["verdict"] for c in result["checks"]}
    assert {form for form, verdict in verdicts.items() if verdict == "holds"} == set(judged)
    assert result["as_recorded"] and all(v in ("holds", "not applicable") for v in verdicts.values())


def test_noisy_subgradients_are_judged_over_runs():
    args = ("verify", "fedmls/mopes-bound", "--problem", "l1-distance", "--clients", 2, "--dimension", 1)
    result = json.loads(call(*args, "--noise", 0.5, "--epsilon", 3, "--json").stdout)
    checks = {c["form"]: c for c in result["checks"]}
    assert checks["10 and 8"]["rule"] == "stochastic" and checks["10 and 8"]["scenarios"] >= 50
    assert checks["10 and 8"]["verdict"] == "holds" and checks["local problem solved"]["verdict"] == "not applicable"


def test_the_lists_and_the_pages_know_them():
    rows = {row["name"]: row for row in json.loads(call("list", "methods", "--json").stdout)}
    assert rows["moles"]["class"] == "fedtheory.central.MOLES" and "--allowance" in rows["moles"]["options"]
    assert "--allowance" not in rows["mopes"]["options"] and "--set" in rows["mopes"]["options"]
    text = call("explain", "fedmls/exact-prox").stdout
    assert "7.9 for 8" in text and "sharp" in text
    listed = {row["id"]: row for row in json.loads(call("list", "fedmls/", "--json").stdout)}
    assert listed["fedmls/mopes-bound"]["runs_on_a_problem"] and not listed["fedmls/moreau-envelope"]["runs_on_a_problem"]
    assert "7.9 for 8" in call("replay", "fedmls-exact-prox-7.9-for-8-deterministic").stdout
