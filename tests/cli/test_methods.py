"""The methods EFL is compared with from the command line, and compressors given as text."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from command_line import call
from typer.testing import CliRunner

from fedtheory import algorithms, errors, local, messages
from fedtheory.cli import app
from fedtheory.cli.local_solvers import work_in_words
from fedtheory.cli.options import compressor_of


@pytest.mark.parametrize(
    ("text", "compressor"),
    [
        ("identity", messages.Identity()),
        ("top-k:k=3", messages.TopK(k=3)),
        ("TOP_K:q=0.25,float_bits=32", messages.TopK(q=0.25, float_bits=32)),
        ("st:q=0.5,rule=printed", messages.ST(0.5, "printed")),
        ("random-k:k=2,scaled=true", messages.RandomK(k=2, scaled=True)),
        ("qsgd:levels=4", messages.QSGD(4)),
    ],
)
def test_compressors_as_text(text, compressor):
    assert compressor_of(text) == compressor


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("topk", errors.UnknownName, "unknown compressor 'topk': did you mean.*'top-k'"),
        ("top-k:p=3", errors.InvalidInput, "top-k has no parameter 'p', it takes .*k.*q"),
        ("top-k:q=half", errors.InvalidInput, "'half' is not a number"),
        ("top-k:q=", errors.InvalidInput, "'' is not a number"),
        ("qsgd", errors.InvalidInput, "qsgd takes .*levels"),
        ("top-k:q=7.0", errors.InvalidInput, "7"),
    ],
)
def test_compressors_that_are_refused(text, error, words):
    with pytest.raises(error, match=words):
        compressor_of(text)


@pytest.mark.parametrize(
    "args",
    [
        ("mime",),
        ("mime", "--momentum", 0.5, "--lite"),
        ("vrl-sgd",),
        ("fedgate", "--server-lr", 0.8),
        ("fedgate", "--compressor", "qsgd:levels=4"),
        ("scaffnew", "--p", 1),
        ("apfl", "--alpha", 0.5, "--adaptive"),
        ("fedamp", "--lam", 1, "--alpha", 0.2, "--sigma", 1),
        ("fedavg",),
        ("fedprox", "--mu", 1),
        ("elastic-aggregation",),
    ],
    ids=lambda a: "-".join(map(str, a)),
)
def test_every_method_runs(tmp_path, args):
    method, *more = args
    result = call("run", method, "least-squares", "--rounds", 3, *more, "--no-figures", "--out", tmp_path)
    flat = re.sub(r"\s+", " ", result.stdout)
    assert ("local solver Exact" in flat) == (method == "fedamp") == ("local solver GradientSteps" not in flat)
    (file,) = tmp_path.glob("*.json")
    saved = json.loads(file.read_text())
    assert saved["method"] == method and len(saved["metrics"]["suboptimality"]) == 4
    assert saved["metrics"]["bits"][0] == [0.0] and saved["metrics"]["bits"][3] > saved["metrics"]["bits"][2]
    assert saved["hyperparameters"].get("compressor", None) == (repr(messages.QSGD(4)) if "--compressor" in more else None)


def test_fedavg_takes_a_few_gradient_steps_unless_asked_to_solve_exactly(tmp_path):
    """By exact solves FedAvg is where it ends after its first round, so that its picture is flat."""
    args = ("run", "fedavg", "least-squares", "--rounds", 5, "--no-figures", "--json", "--out", tmp_path)
    stepped, solved = (json.loads(call(*args, *more).stdout) for more in ((), ("--local-solver", "exact")))
    gaps = [gap for (gap,) in stepped["metrics"]["suboptimality"]]
    assert gaps == sorted(gaps, reverse=True) and gaps[5] < gaps[1] / 2
    flat = [gap for (gap,) in solved["metrics"]["suboptimality"]]
    assert flat[5] == pytest.approx(flat[1], rel=1e-9)
    assert stepped["local_work"].startswith("Local work a round: 5 gradient steps, step size ")
    assert solved["local_work"] == "Local work a round: local problems solved exactly"


def test_scaffnew_takes_one_gradient_step_and_communicates_where_its_coin_says_so(tmp_path):
    args = ("run", "scaffnew", "least-squares", "--p", 0.5, "--rounds", 12, "--no-figures", "--json", "--out", tmp_path)
    saved = json.loads(call(*args).stdout)
    assert saved["local_work"].startswith("Local work a round: 1 gradient step, step size ")
    sent = [after - before for (before,), (after,) in itertools.pairwise(saved["metrics"]["bits"])]
    assert len({*sent}) == 2 and min(sent) == 0


@pytest.mark.parametrize(
    ("solver", "says"),
    [
        (local.Exact(), "local problems solved exactly"),
        (local.GradientSteps(1, 0.5), "1 gradient step, step size 0.5"),
        (local.SGD(10, 0.25, epochs=2, decay=0.9), "2 epochs of SGD, batches of 10, step size 0.25, times 0.9 after every round"),
        (local.Adam(8, 0.001, steps=1500), "1,500 Adam steps, batches of 8, step size 0.001"),
        (local.LocalSGD(3, local.InverseTime(1.0, 2.0)), "3 SGD steps, decreasing step size"),
    ],
)
def test_the_picture_says_what_the_local_work_is(solver, says):
    assert work_in_words(algorithms.FedAvg(), solver) == f"Local work a round: {says}"
    assert work_in_words(algorithms.Subgradient(1.0), solver) == ""


def test_fedamps_penalty_shortens_the_default_step(tmp_path):
    options = ("--rounds", 40, "--local-solver", "gradient", "--no-figures", "--out", tmp_path)
    call("run", "fedamp", "least-squares", "--lam", 1000, "--alpha", 0.01, "--sigma", 1, *options)  # curvature 1e5


def test_the_exact_solver_can_still_be_asked_for_and_is_then_refused(tmp_path):
    result = CliRunner().invoke(app, ["run", "vrl-sgd", "least-squares", "--local-solver", "exact", "--out", str(tmp_path)])
    assert result.exit_code != 0 and "takes no gradient steps" in re.sub(r"\s+", " ", result.output)


def test_all_are_listed():
    rows = {row["name"]: row for row in json.loads(call("list", "methods", "--json").stdout)}
    assert {"mime", "vrl-sgd", "fedgate", "apfl", "fedamp"} <= set(rows)
    assert rows["apfl"]["options"]["--alpha"] == "needed"
