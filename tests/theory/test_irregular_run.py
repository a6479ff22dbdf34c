"""Runs with irregular clients as a world of anyone's: judged, refuted, and on a user's problem."""

from __future__ import annotations

import json
from fractions import Fraction as Q

import numpy as np
import pytest
from command_line import call, refused
from damped import DAMPED
from repository import ROOT

from fedtheory.algorithms import FedAvg
from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Uniform
from fedtheory.participation.irregular import inactive
from fedtheory.problems import LeastSquares, random_logistic
from fedtheory.theory import IrregularRun
from fedtheory.theory.judge import registry
from fedtheory.theory.rounds.irregular_run import COMMON

FILE = ROOT / "examples" / "irregular_fedavg.py"
DATA = {
    "weights": ["1/2", "1/2"], "h": [["1"], ["3"]], "c": [["0"], ["1"]], "w0": ["2"], "T": 2,
    "laws": [[["0", "1"], ["1/2", "1/2"]]],
}  # fmt: skip


@pytest.fixture
def paper():
    (found,) = registry.load_file(FILE)
    return found


def test_it_is_verified_as_recorded(paper, tmp_path):
    how = ("--workers", 1, "--budget", 100, "--out", tmp_path, "--json")
    result = json.loads(call("verify", FILE, *how).stdout)
    assert {r["form"]: r["verdict"] for r in result["rows"]} == {
        "printed": "violated",
        "repaired": "holds",
    }
    assert result["ok"] and [f for f in result["files"] if "witnesses" in f]


def test_two_rounds_by_hand(paper):
    """eta = 1/6, x* = 3/4: to the mean of x - x/6 and x - (x - 1)/2, or to the first alone."""
    run = paper.setting.builders["constant-step"](DATA)
    points = {Q(2): Q(1)}
    for _ in range(2):
        after = {}
        for x, mass in points.items():
            for end in ((x - x / 6 + x - (x - 1) / 2) / 2, x - x / 6):
                after[end] = after.get(end, 0) + mass / 2
        points = after
    assert run.distance_sq[2] == sum(mass * (x - Q(3, 4)) ** 2 for x, mass in points.items())
    assert run.horizons.tolist() == [1, 2] and run.rule == "any"
    assert (run.E, run.L, run.mu, run.T, run.theta) == (1, 3, 1, 2, 2)
    assert run.D.tolist() == [Q(9, 32), Q(3, 32)] and run.S.tolist() == [1, 1]
    [m] = {id(m): m for m in run.rounds}.values()
    assert m.ps.tolist() == [Q(3, 4), Q(1, 4)] == m.p.tolist() and m.p2s.tolist() == [
        Q(5, 8),
        Q(1, 8),
    ]
    assert not m.ratio_equal and m.overlap is None


def test_what_of_data_makes_no_run(paper):
    build = paper.setting.builders["constant-step"]
    for wrong, said in (
        ({"w0": ["2", "1"]}, "w0 has 2 entries, expected 1"),
        ({"every": 3}, "every = 3 with 1 laws"),
        ({"laws": [[["0", "1"]]]}, r"a law of shape \(1, 2\): expected \(2, E \+ 1\)"),
        ({"common": 1}, "common = 1: write true"),
    ):
        with pytest.raises(InvalidInput, match=said):
            build({**DATA, **wrong})
    noisy = {**DATA, "noise": [["1"], ["1"]], "common": True}
    assert build(noisy).facts == {COMMON} and build(noisy).sigma_sq.tolist() == [1, 1]


def test_a_method_and_steps_must_be_said():
    class Nothing(IrregularRun):
        kind = "nothing"

    for call_of in (
        lambda: Nothing.method("any"),
        lambda: Nothing.steps(None),
        lambda: Nothing.from_data(DATA),
    ):
        with pytest.raises(InvalidInput, match="write its "):
            call_of()


def test_what_is_read_of_a_run_is_named(paper):
    run = paper.setting.builders["constant-step"](DATA)
    with pytest.raises(AttributeError, match="quantity of ConstantStep 'sigma': did you mean 'sigma_sq'"):
        run.sigma  # noqa: B018


def test_steps_that_are_no_row_are_told():
    class One(IrregularRun):
        kind = "one"
        method = classmethod(lambda cls, rule: FedAvg(aggregation="cohort"))
        steps = classmethod(lambda cls, constants: 1 / constants.L)

    class Early(One):
        kind = "early"
        steps = classmethod(lambda cls, constants: [1 / constants.G_sq] * constants.T)

    for cls in (One, Early):
        with pytest.raises(InvalidInput, match=f"steps of {cls.__name__}: .*gives the T step sizes"):
            cls.from_data(DATA)


def test_variants_of_a_method_have_their_rule():
    class Both(IrregularRun):
        kind, rules = "both", ("cohort", "samples")
        method = classmethod(lambda cls, rule: FedAvg(
            aggregation="cohort", send="model" if rule == "cohort" else "update"
        ))  # fmt: skip
        steps = classmethod(lambda cls, constants: [1 / constants.L] * constants.T)

    for rule in Both.rules:
        assert Both.from_data({**DATA, "scheme": rule}).rule == rule
    with pytest.raises(UnknownName, match="scheme of Both 'any'"):
        Both.from_data(DATA)


OWN = DAMPED + '''
from fedtheory.theory import IrregularRun, Paper, le, method, repaired


class Tenth(IrregularRun):
    kind = "tenth"
    method = classmethod(lambda cls, rule: Damped(alpha=ALPHA))
    steps = classmethod(lambda cls, constants: [1 / constants.L] * constants.T)


paper = Paper("kit-tenth")


@paper.statement("near", over=Tenth, about=method(Damped, alpha=ALPHA))
def near(q):
    yield repaired(lambda: le(q.lhs, q.lhs), "a")
'''


def test_a_method_of_a_file_with_a_float_is_judged_in_fractions_and_on_a_problem(tmp_path):
    """A float among its hyperparameters is the fraction that it prints as."""
    worlds = []
    for alpha in ("0.1", "__import__('fractions').Fraction(1, 10)"):
        file = tmp_path / "tenth.py"
        file.write_text(OWN.replace("ALPHA", alpha))
        (found,) = registry.load_file(file)
        worlds.append(found["near"].over.from_data(DATA).distance_sq.tolist())
    assert worlds[0] == worlds[1] and all(isinstance(v, Q) for v in worlds[0])
    file.write_text(OWN.replace("ALPHA", "0.1"))
    how = (f"{file}::near", "--problem", "quadratic", "--inactive", 0.3)
    checks = json.loads(call("verify", *how, "--json").stdout)["checks"]
    assert [c["verdict"] for c in checks] == ["holds"]
    assert "has a method of its file; leave it out" in refused("verify", *how, "--mu", 3)


def test_a_compressed_method_is_not_judged_as_the_plain_one(tmp_path):
    """Its messages do not add up, whatever a small threshold lets through."""
    text = OWN.replace("Damped(alpha=ALPHA)", "CUT").replace("method(Damped, alpha=ALPHA)", "CUT").replace("kit-tenth", "kit-cut")
    made = "from fedtheory.algorithms import Compressed, FedAvg\nfrom fedtheory.messages import Threshold\n"
    made += "CUT = Compressed(FedAvg('cohort'), Threshold(1e-9), feedback=False)\n"
    file = tmp_path / "cut.py"
    file.write_text(text.replace("paper = Paper", f"{made}paper = Paper"))
    (check,) = json.loads(call("verify", f"{file}::near", "--problem", "quadratic", "--inactive", 0.3, "--json").stdout)["checks"]
    assert (check["verdict"], check["reason"]) == (
        "not applicable", "its messages are compressed: it has no recursion of second moments"
    )


SQUARES = LeastSquares(
    list(np.random.default_rng(0).normal(size=(3, 4, 2))), list(np.ones((3, 4))), 0.5
)
MEAN = FedAvg(aggregation="cohort")


def checks_of(paper, problem, algorithm=MEAN, **how):
    how = {"sampling": inactive(3, 2, 0.4), "rounds": 6, "x0": np.ones(2), **how}
    return {c.form: c for c in paper.statements[0].verify(problem, algorithm, **how)}


def test_it_is_judged_on_a_problem_of_a_users(paper):
    for work in ({}, {"local_solver": LocalSGD(2, 1.0, 2, noise_std=0.5)}):
        check = checks_of(paper, SQUARES, **work)["repaired"]
        assert check.verdict == "holds" and check.mode == "exact" and check.count == 6
        assert check.place.startswith("T = ") and 1 <= check.where["T"] <= 6


@pytest.mark.parametrize(
    ("problem", "how", "said"),
    [
        (
            random_logistic(3, 2, ridge=0.5, seed=0),
            {},
            "exact second moments need quadratic losses",
        ),
        (SQUARES, {"sampling": Uniform(2)}, "and independent clients"),
        (SQUARES, {"local_solver": LocalSGD(2, 1.0, 2, replacement=False)}, "with replacement"),
        (SQUARES, {"algorithm": FedAvg()}, "use aggregation='cohort'"),
        (SQUARES, {"local_solver": LocalSGD(3, 1.0)}, "give both the same number"),
    ],
)
def test_what_has_no_exact_moments_is_named(paper, problem, how, said):
    check = checks_of(paper, problem, **how)["repaired"]
    assert check.verdict == "not applicable" and said in check.reason


def test_the_command_line_takes_a_law_of_participation(paper):
    how = ("--problem", "quadratic", "--inactive", 0.3, "--local-steps", 2, "--rounds", 8, "--json")
    told = call("explain", FILE).stdout
    assert "::drift --problem quadratic" in " ".join(told.split())
    rows = json.loads(call("verify", f"{FILE}::drift", *how).stdout)["checks"]
    assert {r["form"]: r["verdict"] for r in rows}["repaired"] == "holds"
    with_step = (*how[:2], "--rounds", 8, "--local-lr", 10)
    assert "--local-lr 10: the steps of" in refused("verify", f"{FILE}::drift", *with_step)
    apart = call("verify", f"{FILE}::drift", "--problem", "quadratic", "--participants", 2).stdout
    assert "exact second moments need" in apart
