"""`fedtheory verify FILE.py::NAME --given NAME=VALUE`: proofs of a statement with other numbers."""

from __future__ import annotations

import json
from fractions import Fraction as F

import numpy as np
import pytest
from cases import each
from command_line import call, refused

from fedtheory.cli.common import SHIPPED
from fedtheory.theorems.fedelasticnet.potential import feddyn_kappas
from fedtheory.theorems.one_round import PAPER
from fedtheory.theory.judge.witness import FORMAT
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.studies.counterexamples import prove

FILE = f"fedtheory/{SHIPPED['one-round']}"


def given(**numbers):
    return [word for name, x in numbers.items() for word in ("--given", f"{name}={x}")]


def test_the_constants_of_a_potential(tmp_path):
    words = ("verify", "one-round::feddyn-cohorts", *given(clients=12, participants=3, alpha=2))
    told = json.loads(call(*words, "--json", "--out", tmp_path).stdout)
    best = next(form for form in told["forms"] if form["form"] == "best")
    [kappa_0] = best["best_constants"]
    assert kappa_0["best"] == pytest.approx(feddyn_kappas(2.0, 12, 3), rel=1e-6)
    assert (
        F(kappa_0["proved"]) <= kappa_0["best"] * (1 + 1e-9) and F(kappa_0["free"][0]["kappa"]) > 0
    )
    assert best["follows"].startswith("for every number of rounds T") and best["why_not"] == ""
    assert len(told["files"]) == 3
    for file in told["files"]:
        shown = " ".join(call("replay", file, "--paper", FILE).stdout.split())
        assert "proved for smooth convex losses, 3 of 12 clients" in shown
        assert ", with clients = 12, participants = 3, alpha = 2" in shown
        assert "So for every number of rounds T" in shown and "none negative" in shown
        assert " ".join(call("replay", file).stdout.split()) == shown  # the file comes along
    shown = " ".join(call(*words, "--out", tmp_path).stdout.split())
    assert "with clients = 12, participants = 3, alpha = 2" in shown and "by the solver" in shown


def test_what_is_not_proved_is_told_with_the_reason(tmp_path):
    words = ("verify", "one-round::fedavg", *given(lr="1/3", kappa_0=9))
    shown = " ".join(call(*words, "--out", tmp_path).stdout.split())
    assert "not proved printed constants: " in shown and "h <= 1/(4 L) is not met" in shown
    assert "not proved best: no multipliers found" in shown
    assert [file.name for file in tmp_path.glob("*")] != []  # for every K is proved
    words = ("verify", "one-round::feddyn", *given(kappa=-1), "--out", tmp_path / "none")
    assert " ".join(call(*words).stdout.split()).count("any number >= 0") == 2


def test_a_changed_certificate_is_refused(tmp_path):
    words = ("verify", "one-round::gradient-descent", *given(clients=3), "--out", tmp_path)
    file = json.loads(call(*words, "--json").stdout)["files"][0]
    held = json.loads(open(file).read())
    held["question"]["given"] = {"clients": "4"}
    open(file, "w").write(json.dumps(held))
    assert "it can be for smooth convex losses, 4 clients" in " ".join(
        refused("replay", file, "--paper", FILE).split()
    )


def test_a_witness_and_a_report_of_ours_need_no_file(tmp_path):
    """Four times step (F - F*) is more than a step of 1/(4 beta) gains on x^2/2."""
    setting, rng = MethodSetting.of(PAPER.authored["gradient-descent"]), np.random.default_rng(0)
    found = (prove(setting, "best", setting.random_instance(rng), {"kappa_0": 4}) for _ in range(50))
    witness = next(w for w in found if w is not None)
    file = tmp_path / "witness.json"
    file.write_text(json.dumps(witness.to_json()))
    shown = " ".join(call("replay", file).stdout.split())
    assert "one-round/gradient-descent [best]" in shown and "violated, in exact" in shown
    assert shown == " ".join(call("replay", file, "--paper", FILE).stdout.split())
    call("verify", "one-round::gradient-descent", "--budget", "5", "--out", tmp_path)
    told = json.loads(call("report", tmp_path / "campaign.json", "--json").stdout)
    assert told["rows"] == 1


def test_no_file_is_run_that_a_witness_names(tmp_path):
    (tmp_path / "other.py").write_text("raise SystemExit('run')")
    file = tmp_path / "witness.json"
    held = {"format": FORMAT, "form": "x", "rule": "any", "kind": "x", "data": {}, "lhs": "1", "rhs": "0"}
    file.write_text(json.dumps({**held, "statement": f"{tmp_path}/other.py::x"}))
    assert "names a file; write it as paper/name" in refused("replay", file)


def test_no_file_is_run_that_a_certificate_names(tmp_path):
    words = ("verify", "one-round::gradient-descent", *given(clients=3), "--out", tmp_path)
    file = json.loads(call(*words, "--json").stdout)["files"][0]
    (tmp_path / "other.py").write_text("raise SystemExit('run')")
    held = json.loads(open(file).read())
    held["question"]["statement"] = f"{tmp_path}/other.py::x"
    open(file, "w").write(json.dumps(held))
    assert "run" not in refused("replay", file).split()


@each(
    ("words", "says"),
    [
        (["one-round::feddyn", *given(beta=1)], "unknown number of one-round/feddyn 'beta'"),
        (["one-round::feddyn", *given(clients="few")], "clients"),
        (["one-round::feddyn", *given(clients="1,2")], "clients"),
        (["one-round::fedprox", *given(B="large")], "finite number"),
        (["one-round::nothing", *given(clients=2)], "nothing"),
        (["one-round", *given(clients=2)], "only with a statement"),
        (["one-round::feddyn", *given(clients=2), "--participants", "1"], "only with a problem"),
    ],
)
def test_what_is_refused(words, says, tmp_path):
    assert says in " ".join(refused("verify", *words, "--out", tmp_path).split())
