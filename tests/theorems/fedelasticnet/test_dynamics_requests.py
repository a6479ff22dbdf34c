"""FedElasticNet's dynamics on a user's problem: what a request becomes, what is refused at its limit, and what a witness shows."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from fedelasticnet_worlds import SETTING, battery, random_instance

from fedtheory import problems, theorems
from fedtheory.algorithms import FedElasticNetDyn, FedElasticNetProx
from fedtheory.cli.request import CommandRequest
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.participation.cohorts import Bernoulli, Full, Uniform
from fedtheory.theorems.fedelasticnet.dynamics import motions, standstills
from fedtheory.theorems.fedelasticnet.dynamics.motions import Motion
from fedtheory.theorems.fedelasticnet.dynamics.standstills import Standstill
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.witness import Witness

PLANE = problems.Quadratic([np.diag([1.0, 0.5]), np.diag([2.0, 0.25])], [[0.0, 1.0], [1.0, 2.0]])
TILTED = problems.Quadratic([[[1.0, 0.25], [0.25, 0.5]]] * 2, [[0.0, 0.0], [1.0, 2.0]])
LINE = problems.LAD([[[1.0], [2.0]], [[0.5], [1.0]]], [[1.0, -1.0], [2.0, 0.5]])
LAD_PLANE = problems.LAD(np.ones((2, 3, 2)), np.ones((2, 3)))
DYN, PROX = FedElasticNetDyn(0.125, 8.0), FedElasticNetProx(0.125, 2.0)


def get(name):
    return theorems.get(f"fedelasticnet/{name}")


def prepared(name, problem=PLANE, how=None, **options):
    return SETTING.prepare(get(name), CommandRequest(options, made=problem, **(how or {})))


# --- what a request becomes -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "problem", "options", "expected", "head"),
    [
        ("moves", PLANE, {}, ("sign", 0.1, 60.0), "lambda_1 = 0.1, lambda_2 = 60 = 30 beta, sign rule, 50 rounds"),
        ("moves", PLANE, {"l2": 5.0, "l1": 0.25}, ("sign", 0.25, 5.0), "lambda_2 = 5 = 2.5 beta, sign rule, 50 rounds"),
        ("moves", PLANE, {"l2_over_beta": 3.0}, ("sign", 0.1, 6.0), "lambda_2 = 6 = 3 beta, sign rule, 50 rounds"),
        ("moves", LINE, {}, ("sign", 0.1, 30.0), "lambda_1 = 0.1, lambda_2 = 30, sign rule, 50 rounds"),
        ("convergence", PLANE, {}, ("true-gradient", 0.1, 60.0), "true-gradient rule, 50 rounds"),
        ("convergence", PLANE, {"rule": "sign"}, ("sign", 0.1, 60.0), "sign rule, 50 rounds"),
        ("returns", PLANE, {"rule": "true-gradient"}, ("true-gradient", 0.1, 60.0), "true-gradient rule, 50 rounds"),
        ("moves", TILTED, {}, None, "sign rule, 50 rounds"),
    ],
)
def test_algorithm_3_where_little_is_given(name, problem, options, expected, head):
    """lambda_1 = 1/10, lambda_2 = 30 beta or 30, and the rule that the statement is about."""
    found = prepared(name, problem, **options)
    made = found.algorithm
    if expected is not None:
        assert made.rule == expected[0] and (made.l1, made.l2) == pytest.approx(expected[1:], rel=1e-12)
    assert found.head[0].startswith(f"{problem.name}: m = 2, all take part, d = {problem.dim}, lambda_1 = ")
    assert len(found.head) == 1 and found.head[0].endswith(head) and found.problem is problem
    assert found.options == {"rounds": 50}
    assert found.details["rounds"] == 50 and found.details["algorithm"]["name"] == "fedelasticnet-dyn"
    assert found.details["algorithm"]["l2"] == made.l2


@pytest.mark.parametrize(
    ("problem", "options", "l1", "l2"),
    [
        (PLANE, {}, 0.1, 2.0), (PLANE, {"l2": 5.0}, 0.1, 5.0), (PLANE, {"l1": 0.25, "l2_over_beta": 3.0}, 0.25, 6.0),
        (LINE, {}, 0.1, 1.0),
    ],
)
def test_algorithm_1_where_little_is_given(problem, options, l1, l2):
    """lambda_2 = beta, or 1 where there is none."""
    found = prepared("algorithm-1-bias", problem, **options, start="0.5" if problem.dim == 1 else "0.5,-1")
    assert type(found.algorithm) is FedElasticNetProx and (found.algorithm.l1, found.algorithm.l2) == pytest.approx((l1, l2), rel=1e-12)
    assert found.head == [
        f"{problem.name}: m = 2, all take part, d = {problem.dim}, lambda_1 = {l1:g}, lambda_2 = {l2:.6g}, Algorithm 1, 20 rounds"
    ]
    assert found.options == {"rounds": 20}
    assert found.details["rounds"] == 20 and found.details["algorithm"]["name"] == found.algorithm.name
    assert found.details["algorithm"]["l1"] == l1 and found.problem is problem


@pytest.mark.parametrize("name", ["moves", "algorithm-1-bias"])
def test_rounds_that_are_given_and_problems_that_are_not(name):
    found = prepared(name, how={"rounds": 7})
    assert found.options["rounds"] == found.details["rounds"] == 7 and found.head[0].endswith("7 rounds")
    assert SETTING.prepare(get(name), CommandRequest({"dimension": 1})).problem.name == "quadratic"


@pytest.mark.parametrize(
    ("how", "options", "words"),
    [
        ({"participants": 1}, {}, "--participants 1: fedelasticnet/moves is about rounds in which all m clients take part"),
        ({"mode": "exact"}, {}, "--mode exact: fedelasticnet/moves is judged without Monte Carlo"),
        ({}, {"batch_size": 2}, "--batch-size 2 does not apply to statements about FedElasticNet: leave it out"),
        ({}, {"local_lr": 0.5}, "--local-lr 0.5 does not apply to statements about FedElasticNet"),
    ],
)
def test_options_that_mean_nothing(how, options, words):
    with pytest.raises(InvalidInput, match=words):
        prepared("moves", how=how, **options)


def test_what_cannot_be_certified_is_told_before_any_work(monkeypatch):
    """The run is followed in floats; in fractions nothing is certified."""

    def refuse(self):
        raise NotCertified("no optimum")

    monkeypatch.setattr(problems.Quadratic, "optimum", refuse)
    assert prepared("moves").algorithm.l1 == 0.1
    with pytest.raises(NotCertified, match="no optimum"):
        prepared("moves", TILTED)


def test_words_about_a_statement_and_its_instances():
    assert SETTING.about(get("moves")).scope == "about a run of T rounds of Algorithm 3 in which everyone takes part"
    assert SETTING.about(get("algorithm-1-bias")).scope == "about the fixed points of Algorithm 1 when everyone takes part"
    assert [SETTING.about(get(n)).example for n in ("moves", "at-rest", "descent", "algorithm-1-bias")] == [
        "--problem diabetes", "--problem quadratic --l1 100", "--problem quadratic --l1 100 --rule true-gradient",
        "--problem quadratic --dimension 1",
    ]  # fmt: skip
    for kind in ("motion", "standstill"):
        few, more = (battery((kind,), 3, scale) for scale in (0.1, 1.0))
        assert 10 <= sum("#" in i.name for i in few) and len(few) < len(more)
        assert random_instance(kind, np.random.default_rng(2)).kind == kind


# --- Algorithm 3 on a problem ---------------------------------------------------------------------
def motion(problem=PLANE, algorithm=DYN, **how):
    made = Motion.on_problem("", Case(problem, algorithm, **how))
    return Motion.instance(problem.name, made) if isinstance(made, dict) else made


def test_a_users_run_in_fractions():
    found = motion(algorithm=FedElasticNetDyn(0.125, 1 / 3, "true-gradient"), x0=[0.75, -1.0], rounds=4)
    assert found.kind == "motion" and found.label == PLANE.name
    numbers = {k: found.data[k] for k in ("lambda1", "lambda2", "rule", "theta", "rounds")}
    assert numbers == {"lambda1": "1/8", "lambda2": "1/3", "rule": "true-gradient", "theta": ["3/4", "-1"], "rounds": 4}
    assert found.data["losses"][1] == [{"curvature": "2", "centre": "1"}, {"curvature": "1/4", "centre": "2"}]
    plain = motion()
    assert (plain.data["theta"], plain.data["rounds"]) == (["0", "0"], 50)


def test_a_users_run_in_floats():
    found = motion(TILTED, x0=[0.75, -1.0], rounds=4)
    assert isinstance(found, Motion) and (len(found.y), found.theta[0].tolist()) == (4, [0.75, -1.0])
    assert (found.lambda1, found.lambda2, found.rule, found.rounding) == (DYN.l1, DYN.l2, DYN.rule, 1e-12)
    plain = motion(TILTED)
    assert (len(plain.y), plain.theta[0].tolist()) == (50, [0.0, 0.0])


def test_as_many_numbers_as_are_followed_in_fractions(monkeypatch):
    """Rounds times clients times coordinates: 3 * 2 * 2."""
    monkeypatch.setattr(motions, "MOST_EXACT", 12)
    assert not isinstance(motion(rounds=3), Motion) and isinstance(motion(rounds=4), Motion)
    assert motion(LINE, rounds=6).data["rounds"] == 6
    for problem, rounds, why in ((LINE, 7, "14 numbers, at most 12"), (LAD_PLANE, 2, "its losses are not")):
        with pytest.raises(MissingCapability, match=rf"{problem.name}: a nonsmooth loss is followed in fractions.* \({why}\): take"):
            motion(problem, rounds=rounds)


NOT_CONVEX = problems.Quadratic([[[1.0]], [[-0.25]]], [[0.0], [1.0]])


def weighted(first):
    return problems.Quadratic([[[1.0]], [[1.0]]], [[0.0], [1.0]], weights=[first, 1 - first])


@pytest.mark.parametrize(
    ("problem", "how", "says"),
    [
        (PLANE, {"algorithm": PROX}, r"Algorithm 3 \(FedElasticNetDyn\), not FedElasticNetProx"),
        (PLANE, {"algorithm": FedElasticNetDyn(0.0, 8.0)}, "lambda_1 = 0 is not above 0"),
        (PLANE, {"algorithm": FedElasticNetDyn(0.1, 8.0, epsilon=0.25)}, "threshold epsilon = 0.25; the statement has none"),
        (PLANE, {"sampling": Uniform(1)}, "in which everyone takes part"),
        (PLANE, {"sampling": Bernoulli(1.0)}, "in which everyone takes part"),
        (NOT_CONVEX, {}, "some client's loss is not convex"),
        (weighted(0.5 + 2e-12), {}, r"the plain mean of the losses, but the weights differ from 1/m by up to 4e-12/m"),
        (weighted(0.5 - 2e-12), {}, r"the plain mean of the losses, but the weights differ from 1/m by up to 4e-12/m"),
    ],
)
def test_what_algorithm_3_is_not_about(problem, how, says):
    with pytest.raises(InvalidInput, match=says):
        motion(problem, **how)


@pytest.mark.parametrize("how", [{"sampling": Uniform(2)}, {"sampling": Full()}, {}])
def test_everyone_may_be_drawn(how):
    assert motion(**how).data["rounds"] == 50
    assert motion(weighted(0.5 + 2e-13), **how).kind == "motion"


# --- Algorithm 1 on a problem ---------------------------------------------------------------------
def standstill(problem=PLANE, algorithm=PROX, **how):
    return Standstill.instance(problem.name, Standstill.on_problem("", Case(problem, algorithm, **how)))


SAMPLES = problems.LeastSquares([np.ones((3, 1)), np.ones((1, 1))], [np.ones(3), np.ones(1)])


def test_fixed_points_of_a_users_problem():
    found = standstill(algorithm=FedElasticNetProx(0.1, 1 / 3), x0=[0.75, 0.1], rounds=4)
    assert (found.kind, found.label) == ("standstill", PLANE.name)
    assert {k: found.data[k] for k in ("lambda1", "lambda2", "rounds", "counts")} == {
        "lambda1": "1/10", "lambda2": "1/3", "rounds": 4, "counts": ["1", "1"],
    }  # fmt: skip
    assert [F(x) for x in found.data["theta"]] == [F(3, 4), F(0.1)], "models are as they are, to the last bit"
    assert found.data["losses"][0][1] == {"curvature": "1/2", "centre": "1"}
    plain = standstill(sampling=Full())
    assert (plain.data["theta"], plain.data["rounds"]) == (["0", "0"], 20)
    counts = [standstill(SAMPLES, FedElasticNetProx(0.1, 1.0, aggregation=a)).data["counts"] for a in ("cohort", "samples", "printed")]
    assert counts == [["1", "1"], ["3", "1"], ["3", "1"]]


@pytest.mark.parametrize(
    ("problem", "how", "says"),
    [
        (PLANE, {"algorithm": DYN}, r"Algorithm 1 \(FedElasticNetProx\), not FedElasticNetDyn"),
        (PLANE, {"sampling": Uniform(1)}, r"Uniform.*: the statement is about rounds in which everyone takes part"),
        (PLANE, {"algorithm": FedElasticNetProx(0.0, 2.0)}, "lambda_1 = 0, lambda_2 = 2, threshold epsilon = 0: Algorithm 1 asks"),
        (PLANE, {"algorithm": FedElasticNetProx(0.5, 2.0, epsilon=0.25)}, "lambda_1 = 0.5, lambda_2 = 2, threshold epsilon = 0.25"),
        (PLANE, {"algorithm": FedElasticNetProx(0.5, 0.0)}, "lambda_1 = 0.5, lambda_2 = 0, threshold epsilon = 0"),
        (TILTED, {}, "its losses are not separable.* take --dimension 1, or fedelasticnet/algorithm-1-fixed-point"),
    ],
)
def test_what_fixed_points_are_not_known_of(problem, how, says):
    with pytest.raises((InvalidInput, MissingCapability), match=says):
        standstill(problem, **how)


def test_a_feature_that_no_sample_has_is_told():
    """The losses do not depend on its weight: every value of it is a fixed point."""
    unused = problems.LeastSquares([[[1.0, 0.0]], [[2.0, 0.0]]], [[1.0], [0.5]])
    checks = get("algorithm-1-bias").verify(unused, PROX, rounds=2)
    assert checks and all(c.verdict == "not applicable" for c in checks)
    assert all("fixed points of coordinate 1: the interval has no end; take losses" in c.reason for c in checks)


def test_as_many_numbers_of_algorithm_1_as_are_followed(monkeypatch):
    monkeypatch.setattr(standstills, "MOST", 12)
    assert standstill(rounds=3).data["rounds"] == 3
    with pytest.raises(InvalidInput, match="16 numbers of clients x coordinates x rounds, at most 12: take fewer clients"):
        standstill(rounds=4)


# --- what a witness shows -------------------------------------------------------------------------
LOSSES = [
    [{"slope": "-3/2", "ramps": [["1", "2", "1"], ["0", "0", "5"]]}, {}],
    [{"curvature": "2", "centre": "1/3"}, {"curvature": "1", "slope": "-1"}],
]
DATA = {"losses": LOSSES, "lambda1": "1/2", "lambda2": "28", "theta": ["1", "-2"], "rounds": 3}


def witness(**data):
    claim = {"statement": "fedelasticnet/drift", "form": "in words", "rule": "sign", "lhs": "1", "rhs": "0"}
    return Witness(kind="motion", data={**DATA, **data}, **claim)


def test_a_run_in_words():
    assert SETTING.summary(witness()) == "fedelasticnet/drift [in words, sign rule]: m = 2, d = 2, T = 3"
    assert SETTING.summary(witness(stored=[["1", "0"], ["2", "0"]])).endswith("T = 3, from a state with stored gradients")
    assert SETTING.facts(witness()) == [
        ("losses", "the slope L_k', a coordinate after the other"),
        ("client 0", "-3/2 + a rise of 1 from 1 to 2 + a jump of 5 at 0; 0"),
        ("client 1", "2 (x - 1/3); -1 + 1 (x - 0)"),
        ("lambda_1, lambda_2", "1/2, 28"),
        ("start theta", "1, -2"),
        ("rounds", 3),
    ]
    more = SETTING.facts(witness(stored=[["1", "0"], ["2", "1/2"]], counts=["3", "5"]))
    assert more[3:7] == [("n_k", "3, 5"), ("lambda_1, lambda_2", "1/2, 28"), ("start theta", "1, -2"), ("start g_k", "1, 0; 2, 1/2")]
    line = SETTING.facts(witness(theta=["1"], losses=[[LOSSES[0][0]]]))
    assert line[0] == ("losses", "the slope L_k'")
