"""EFL on the command line: participation, local SGD, its statements on a user's problem, and what is refused."""

import json
from fractions import Fraction

import numpy as np
import pytest
from cases import each
from command_line import call, refused

from fedtheory import local, simulate, theorems
from fedtheory.algorithms import EFL
from fedtheory.cli import participation as irregular
from fedtheory.cli.common import find_statement, shipped_witnesses
from fedtheory.cli.problems import build
from fedtheory.clients import fisher
from fedtheory.errors import MissingCapability, UnknownName
from fedtheory.messages import ST
from fedtheory.participation.irregular import incomplete, windows
from fedtheory.problems import Huber, LeastSquares, Logistic, Quadratic, Softmax
from fedtheory.theorems.efl.shift_world import shift_on
from fedtheory.theory.judge.registry import about_of


def run_json(tmp_path, *args):
    return json.loads(call("run", *args, "--no-figures", "--json", "--out", tmp_path).stdout)


# --- run ------------------------------------------------------------------------------------------
def test_a_run_is_that_of_the_library(tmp_path):
    options = ("--inactive", "1/4", "--incomplete", "1/3,1/3,1/3", "--departure", "1@4", "--arrival", "2@3", "--local-steps", 3)
    more = ("--scheme", "B", "--noise", 0.2, "--local-lr", 0.1, "--rounds", 6, "--seed", 3, "--scenarios", 2)
    compress = ("--compressor", "st:q=0.5", "--down-compressor", "st:q=0.5")
    found = run_json(tmp_path, "efl", "quadratic", *options, *more, *compress)
    problem = build("quadratic", {}, 3)
    law = windows(incomplete(5, 3, [1 / 4, 1 / 4, 1 / 4, 1 / 4]), {1: (None, 4), 2: (3, None)})
    solver = local.LocalSGD(3, 0.1, noise_std=0.2)
    method = EFL(scheme="B", compressor=ST(q=0.5), down_compressor=ST(q=0.5))
    mine = simulate(problem, method, 6, None, law, 2, 3, solver, ("distance", "bits"))
    assert np.array_equal(found["final_x"], mine.x)
    assert np.array_equal(found["metrics"]["bits"], mine.metrics["bits"])


@pytest.mark.parametrize("kind", ["constant", "inverse", "theorem"])
def test_schedules(tmp_path, kind):
    found = run_json(tmp_path, "efl", "quadratic", "--lr-schedule", kind, "--inactive", "0.3", "--rounds", 3)["local_solver"]
    assert {"constant": "lr=0.99", "inverse": "InverseTime(lr=0.99", "theorem": "TheoremStep("}[kind] in found
    if kind == "theorem":  # N = 5 equal clients, S = 0.7 E, theta = E: gamma = 32 E (1 + E) kappa/S
        gamma = float(found.split("gamma=")[1].split(",")[0])
        assert gamma == pytest.approx(32 * 5 * 6 * 10 / 3.5)


def test_the_default_step_counts_the_elastic_term_and_the_coefficients():
    problem = build("diabetes", {}, 0)
    beta = float(problem.beta_k.max())
    diagonal = (problem.features**2 * problem.sample_weights[:, :, None]).sum(axis=(0, 1))  # sum_k diag(A'A/n)_k
    plain, elastic = EFL(), EFL(lam=0.5)
    assert irregular.step_size(plain, problem) == pytest.approx(1 / beta)
    assert irregular.step_size(elastic, problem) == pytest.approx(1 / (beta + 0.5 * diagonal.max()))
    law = irregular.participation_of(problem, {"inactive": "0.5", "incomplete": "uniform"}, None, 4, 10)
    for scheme, scale in (("A", 5), ("B", 1), ("C", 4), ("C-corrected", 8)):
        assert irregular.step_size(EFL(scheme=scheme), problem, 0.0, law, 10) == pytest.approx(1 / (scale * beta)), scheme


def test_runs_with_a_large_penalty_stay_finite(tmp_path):
    for lam in (1.0, 100.0):
        found = run_json(tmp_path, "efl", "diabetes", "--lam", lam, "--rounds", 60)
        gaps = np.asarray(found["metrics"]["suboptimality"])[:, 0]
        assert gaps[-1] < gaps[0]


@pytest.mark.parametrize("kind", ["model", "empirical", "gram"])
def test_the_fisher_bound_is_above_every_point(kind):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2, 30, 3))
    labels = np.where(rng.random((2, 30)) < 0.5, -1.0, 1.0)
    classes = rng.integers(0, 4, (2, 30))
    problems = [Logistic(features, labels), LeastSquares(features, labels), Softmax(features, classes, num_classes=4)]
    for problem in problems:
        try:
            bound = fisher.fisher_bound(problem, kind)
        except MissingCapability:
            assert (type(problem).__name__, kind) in {("Logistic", "gram"), ("Softmax", "gram"), ("LeastSquares", "empirical")}
            continue
        points = rng.standard_normal((2, 200, problem.dim)) * 10 ** rng.uniform(-2, 2, (2, 200, 1))
        there = fisher.client_fisher(problem, points, kind).max(axis=1)
        assert (there <= bound * (1 + 1e-12)).all(), type(problem)
        assert (bound <= 40 * there).all(), "far from every point that was looked at"
    with pytest.raises(MissingCapability, match="no bound"):
        fisher.fisher_bound(Huber(features, labels), "empirical")


@each(
    ("args", "says"),
    [
        ("efl quadratic --compressor st:q=0", "q is 0"),
        ("efl quadratic --compressor st:q=1.5", "must lie in (0, 1]"),
        ("efl quadratic --incomplete 0.1,0.1,0.1,0.1,0.1,0.2,0.3", "s_k = 6 > E"),
        ("efl quadratic --incomplete 0.1,0.1,0.1,0.1,0.1", "sum to 0.5"),
        ("efl quadratic --incomplete 1,0", "some are missing"),
        ("efl quadratic --incomplete even", "write probabilities"),
        ("efl quadratic --inactive 1", "client 0 is never active (P(s = 0) = 1): the objective is undefined"),
        ("efl quadratic --inactive 0,0,0,0,1", "client 4 is never active"),
        ("efl quadratic --inactive 1.2", "it must lie in [0, 1]"),
        ("efl quadratic --inactive 0.1,0.2", "2 numbers for N = 5 clients"),
        ("efl quadratic --arrival 2@200", "arrives in round 200 of a run of 100"),
        ("efl quadratic --departure 2@200", "is gone from round 200 of a run of 100"),
        ("efl quadratic --departure 2@5 --arrival 2@9", "departure must come after arrival"),
        ("efl quadratic --departure 9@50", "there is no client 9"),
        ("efl quadratic --departure 2-50", "is not client@round"),
        ("efl quadratic --departure 2@5,2@7", "appears twice"),
        ("efl quadratic --departure 0@5,1@5,2@5,3@5,4@5", "every client is gone in round"),
        ("efl quadratic --activity 0:foo=1", "'foo' is no shape of activity: use shrink, grow, fade"),
        ("efl quadratic --activity 9:shrink=0.5", "there is no client '9', clients are numbered 0..4, or all"),
        ("efl quadratic --activity 0:shrink=2", "it must lie strictly between 0 and 1"),
        ("efl quadratic --activity 0:away=5", "write it as in away=5-8"),
        ("efl quadratic --activity 0:away=7-5", "the last one must not come before the first one"),
        ("efl quadratic --activity 0:cycle=4/3", "4 of them active"),
        ("efl quadratic --activity 0shrink", "is not client:shape=value"),
        ("efl quadratic --activity 0:only=200-300", "client 0 is never active in 100 rounds"),
        ("efl quadratic --participants 2 --activity 0:shrink=0.5", "two laws"),
        ("efl quadratic --participants 2 --inactive 0.3", "two laws"),
        ("efl quadratic --participants 9", "9"),
        ("efl quadratic --local-steps 0", "at least 1"),
        ("efl quadratic --local-lr=-1", "must be > 0"),
        ("efl quadratic --lr-schedule theorem --local-lr 0.1", "leave one of them out"),
        ("efl quadratic --lr-schedule theorem --lam 1", "lambda = 0"),
        ("efl quadratic --lr-delay 3", "--lr-schedule inverse"),
        ("efl quadratic --lr-schedule theorem --departure 2@9", "objective is fixed"),
        ("efl quadratic --batch-size 3", "no samples"),
        ("efl quadratic --epochs 3", "does not apply to --local-solver local-sgd"),
        ("efl lad", "--local-lr"),
        ("efl diabetes --lam 1 --fisher empirical", "give a step size with --local-lr"),
        ("efl huber --lam 1", "has no model Fisher"),
        ("efl quadratic --alpha 1", "efl has no hyperparameter --alpha"),
        ("feddyn quadratic --alpha 1 --scheme B", "feddyn has no hyperparameter --scheme"),
        ("fedavg quadratic --inactive 0.3", "need --local-solver local-sgd"),
        ("fedavg quadratic --lr-schedule inverse", "need --local-solver local-sgd"),
        ("fedavg quadratic --local-solver local-sgd --lr-schedule theorem", "are for efl"),
        ("fedmls lad --inactive 0.3", "does not apply to fedmls"),
        ("fedavg quadratic --noise 0.1", "--local-solver local-sgd"),
    ],
)
def test_run_refuses(args, says):
    assert says in refused("run", *args.split(), "--no-figures")


def test_other_methods_take_part_of_the_work_too(tmp_path):
    args = "quadratic --inactive 0.3 --incomplete uniform --local-solver local-sgd --local-lr 0.3 --rounds 40".split()
    for method in ("fedavg", "scaffold"):
        gaps = np.asarray(run_json(tmp_path, method, *args)["metrics"]["suboptimality"])[:, 0]
        assert gaps[-1] < 0.5 * gaps[0]


# --- verify ---------------------------------------------------------------------------------------
def verify_json(*args):
    return json.loads(call("verify", *args, "--json").stdout)


def test_theorem_1_on_a_problem_prints_its_constants():
    args = ("efl/theorem-1", "--problem", "diabetes", "--clients", 3, "--inactive", "0,0,0.5", "--local-steps", 2, "-T", 20)
    found = verify_json(*args)
    verdicts = {c["form"]: c["verdict"] for c in found["checks"]}
    assert verdicts["repaired"] == verdicts["sharpened"] == "holds" and verdicts["frozen anchors"] == "not applicable"
    c, problem = found["constants"], build("diabetes", {"clients": 3}, 0)
    assert c["L"] == pytest.approx(problem.beta_k.max()) and c["mu"] == pytest.approx(problem.mu_k.min())
    S = 2 * (problem.weights * [1, 1, 0.5]).sum()
    assert c["theta"] == 2 and c["S_min"] == pytest.approx(S) and c["H_T"] == 20
    assert c["gamma"] == pytest.approx(max(32 / S, 32 * 2 * 3 * c["L"] / (c["mu"] * S)))
    text = call("verify", *args).stdout
    for name in ("G^2", "sigma_k^2", "D_k", "min S_tau", "gamma", "J", "theta", "how: G_sq"):
        assert f"\n{name} " in text or f"\n{name}" in text, name


def test_real_data_from_a_file(tmp_path):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((24, 3))
    lines = (f"{1 if r.sum() > 0 else -1} " + " ".join(f"{i + 1}:{v:.4f}" for i, v in enumerate(r)) for r in rows)
    data = tmp_path / "small.svmlight"
    data.write_text("\n".join(lines) + "\n")
    args = ("--data", data, "--dimension", 3, "--loss", "logistic", "--ridge", 0.1, "--clients", 3, "-T", 5, "--local-steps", 2)
    found = verify_json("efl/theorem-1", *args, "--scenarios", 200, "--batch-size", 2)
    (repaired,) = (c for c in found["checks"] if c["form"] == "repaired")
    assert repaired["verdict"] == "holds" and repaired["mode"] == "statistical"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ("--lam 1", "lambda = 1, the limit is 0"),
        ("--compressor top-k:q=0.5", "compressor = top-k"),
        ("--problem lad", "smoothness"),
        ("--problem saddle", "not convex"),
        ("--departure 2@20", "client 2 is not there in round 20"),
        ("--batch-size 3", "no samples"),
        ("--lr-schedule constant --local-lr 0.1", "lr(1) = 0.1"),
    ],
)
def test_the_assumption_that_fails_is_named(args, why):
    checks = verify_json("efl/theorem-1", *args.split())["checks"]
    assert {c["verdict"] for c in checks} == {"not applicable"}
    assert why in checks[0]["reason"]


@pytest.mark.parametrize("event", ["departure", "arrival"])
def test_theorem_2_on_a_problem(event):
    found = verify_json(f"efl/theorem-2-{event}", "--problem", "quadratic", "--clients", 3, f"--{event}", "1")
    assert found["event"] == event and found["client"] == 1 and found["verdict"] == "holds"
    problem = build("quadratic", {"clients": 3}, 0)
    h, c = problem.hessians, problem.minimisers
    joint = np.linalg.solve(h.sum(axis=0), sum(a @ b for a, b in zip(h, c, strict=True)))
    others = np.linalg.solve(h[0] + h[2], h[0] @ c[0] + h[2] @ c[2])
    new, old = (others, joint) if event == "departure" else (joint, others)
    excess = [(x - c[1]) @ h[1] @ (x - c[1]) / 2 for x in (new, old)]
    k = found["constants"]
    assert [k["D_new"], k["D_old"]] == pytest.approx(excess)
    assert k["n_a"] / k["n"] == pytest.approx(1 / 3 if event == "departure" else 1 / 2)
    view = shift_on(problem, event, 1)
    assert view.distance_sq == pytest.approx(((joint - others) ** 2).sum())


def test_theorem_2_from_python_goes_by_the_window():
    law = windows(incomplete(2, 1, [0, 1]), {0: (None, 3)})
    problem = Quadratic(np.ones((2, 1, 1)), [[0.0], [3.0]])
    (check, *_) = theorems.get("efl/theorem-2-departure").verify(problem, EFL(), sampling=law, forms=["sharpened"])
    assert check.lhs == pytest.approx(1.5**2) and check.verdict == "holds"


@each(
    ("args", "says"),
    [
        ("theorem-1", "write fedmls/theorem-1 or efl/theorem-1"),
        ("efl/claim-accuracy --problem diabetes", "cannot be proved or refuted here"),
        ("efl/scheme-limit --mode exact", "is judged without Monte Carlo"),
        ("elastic-aggregation/sign --participants 2", "is about all clients"),
        ("elastic-aggregation/sign --rounds 2", "is judged without runs"),
        ("efl/claim-accuracy", "explain efl/claim-accuracy"),
        ("efl/theorem-1 --local-lr 0.1", "Theorem 1 says what the step is"),
        ("efl/theorem-1 --inactive 1", "objective is undefined"),
        ("efl/theorem-1 --l1 3", "efl has no hyperparameter --l1"),
        ("efl/theorem-2-departure --lam 1", "whatever the algorithm"),
        ("efl/theorem-2-departure --inactive 0.3", "two optima"),
        ("efl/theorem-2-departure --participants 2", "two optima"),
        ("efl/theorem-2-departure --rounds 5", "two optima"),
        ("efl/theorem-2-departure --departure x", "give the client"),
        ("efl/theorem-2-departure --departure 7", "clients are numbered 0..4"),
        ("theorem-3.1 --inactive 0.3", "fedelasticnet/theorem-3.1 says itself which method it is about"),
        ("theorem-3.1 --scheme A", "has no hyperparameter --scheme"),
        ("fedmls/theorem-1 --batch-size 3", "does not apply to statements about FedMLS"),
        ("--inactive 0.4", "only with a statement"),
    ],
)
def test_verify_refuses(args, says):
    assert says in refused("verify", *args.split())


# --- list, explain, replay ------------------------------------------------------------------------
def test_an_id_that_several_papers_have_is_asked_back():
    with pytest.raises(UnknownName, match="fedmls/theorem-1 or efl/theorem-1"):
        find_statement("theorem-1")
    assert find_statement("scheme-limit").id == "efl/scheme-limit"
    assert find_statement("eq-13").id == "fedelasticnet/theorem-3.1", "an alias"
    with pytest.raises(UnknownName):
        find_statement("efl/eq-28")


def test_claims_are_listed_as_such():
    text = call("list").stdout
    claims = [s for s in theorems.all_statements() if s.kind == "claim"]
    assert claims and text.count("claim, not") == len(claims)


@pytest.mark.parametrize("statement", [s.id for s in theorems.all_statements("efl/")])
def test_explain_says_what_to_try(statement):
    text = " ".join(call("explain", statement).stdout.split())
    if theorems.get(statement).kind == "claim":
        assert "Nothing to run" in text and "claim, not provable here" in text and "Try: " not in text
        return
    tried = text.split("Try: ")[1]
    if about_of(theorems.get(statement)).refusal is None:
        assert f"fedtheory verify {statement} --problem" in tried
    else:
        name = tried.split("fedtheory replay ")[1].split()[0] if "replay" in tried else None
        assert name is None or name in {w.name for w in shipped_witnesses()}
        has_one = any(w.statement == statement for w in shipped_witnesses())
        assert has_one == (name is not None)


def test_what_explain_says_to_try_for_a_step_works():
    found = verify_json(*"efl/theorem-1-step-2 --problem diabetes --clients 3 --inactive 0.3 --local-steps 2".split())
    assert found["verdict"] == "holds" and {c["verdict"] for c in found["checks"]} == {"holds"}


def test_replay_prints_both_sides():
    found = json.loads(call("replay", "efl-theorem-2-arrival-printed", "--json").stdout)
    assert Fraction(found["lhs"]) - Fraction(found["rhs"]) == Fraction(found["excess"]) > 0
    text = call("replay", "efl-theorem-2-arrival-printed").stdout
    for part in (found["lhs"], found["rhs"], "left side", "right side", "violated, in exact rational arithmetic"):
        assert part in text


@pytest.mark.parametrize("width", [80, 140])
def test_pages_fit_the_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    told = (("list",), ("explain", "efl/theorem-1"), ("verify", "efl/theorem-2-arrival"))
    for args in (*told, ("run", "--help-all"), ("verify", "--help-all")):
        text = call(*args).stdout
        assert max(map(len, text.splitlines())) <= width, args
    assert "--inactive" in text and "--arrival" in text


def test_only_penalties_shorten_the_default_step(tmp_path):
    step = f"lr={1 / float(build('least-squares', {}, 0).beta_k.max())}"
    for method in ("fedavg", "elastic-aggregation"):
        assert step in run_json(tmp_path, method, "least-squares", "--local-solver", "local-sgd", "--rounds", 1)["local_solver"]
