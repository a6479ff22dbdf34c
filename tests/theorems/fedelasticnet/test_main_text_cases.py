"""Data that the main text's statements take of a user's problem, to the last bit, by hand.

Three clients with 3, 2 and 1 samples of two features, the ridge 1/8; all numbers are fractions with a
power of two below, so that floats hold them exactly.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from cases import each

from fedtheory import problems, theorems
from fedtheory.algorithms import FedElasticNetDyn, FedElasticNetProx, FedElasticNetScaffold, Scaffold
from fedtheory.cli.request import CommandRequest
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation import Full, Uniform
from fedtheory.theorems.fedelasticnet.main_text.world import steps_of
from fedtheory.theorems.fedelasticnet.statements.concentration import COUNTS
from fedtheory.theorems.fedelasticnet.statements.local_problem import CONVEX
from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.judge.setting import Case

SETTING = setting_of("fedelasticnet/eq-4")
A = [[[1, 2], [0.5, -1], [2, 0]], [[3, 0.25], [-1, 1]], [[0.5, 4]]]
B = [[1, -0.5, 3], [2, 5], [-1.5]]
SQUARES = problems.LeastSquares([np.array(a, dtype=float) for a in A], [np.array(b, dtype=float) for b in B], ridge=0.125)
START = np.array([0.75, -1.25])
PROX, SCAFFOLD, DYN = FedElasticNetProx(0.3, 0.7), FedElasticNetScaffold(0.3, 0.7), FedElasticNetDyn(0.3, 50.0)


def hessian(k: int) -> list[list[F]]:
    """A'A/n + 1/8."""
    rows = [[F(v) for v in row] for row in A[k]]
    return [[sum(r[i] * r[j] for r in rows) / len(rows) + F(i == j) / 8 for j in range(2)] for i in range(2)]


def linear(k: int) -> list[F]:
    """A'b/n."""
    return [sum(F(r[i]) * F(b) for r, b in zip(A[k], B[k], strict=True)) / len(B[k]) for i in range(2)]


def texts(values):
    return [texts(v) for v in values] if isinstance(values, list) else str(values)


HESSIANS, LINEAR = texts([hessian(k) for k in range(3)]), texts([linear(k) for k in range(3)])


def instance(statement, algorithm=PROX, problem=SQUARES, form=0, **how):
    s = theorems.get(f"fedelasticnet/{statement}")
    return SETTING.instance(s, s.forms[form], Case(problem, algorithm, x0=np.resize(START, problem.dim), **how))


def test_one_clients_samples():
    found = instance("eq-2", given={"client": 1, "trial": [0.1, F(1, 3)]})
    assert found.label == "client 1 of least squares" and found.kind == "regression"
    assert found.data == {
        "X": [["3", "1/4"], ["-1", "1"]], "y": ["2", "5"], "start": ["3/4", "-5/4"], "trial": ["1/10", "1/3"], "lambda1": "3/10",
        "lambda2": "7/10",
    }  # fmt: skip
    plain = instance("eq-2").data
    assert (plain["y"], plain["trial"]) == (["1", "-1/2", "3"], ["7/4", "-1/4"])


def test_every_local_problem():
    views = instance("eq-4").view().each
    for k, v in enumerate(views):
        assert (v.H.tolist(), v.q.tolist(), v.g.tolist()) == (hessian(k), linear(k), [0, 0])
        assert (v.theta.tolist(), v.trial.tolist()) == ([F(3, 4), F(-5, 4)], [F(7, 4), F(-1, 4)])
        assert (v.lambda1, v.lambda2) == (F(3, 10), F(7, 10))
    assert len(views) == 3


def test_quadratics_have_their_minimisers():
    quadratic = problems.Quadratic(np.array([[[2.0, 0.5], [0.5, 1.0]]] * 2), np.array([[1.0, -3.0], [0.25, 4.0]]))
    first, second = instance("eq-4", problem=quadratic).view().each
    assert first.H.tolist() == [[2, F(1, 2)], [F(1, 2), 1]] and first.q.tolist() == [F(1, 2), F(-5, 2)]
    assert second.q.tolist() == [F(5, 2), F(33, 8)]


def test_all_views_must_have_a_fact_and_sides_are_those_of_all():
    joined = instance("eq-4").view()
    assert joined.has(CONVEX) and all(v.has(CONVEX) for v in joined.each)
    joined.each[1] = replace(joined.each[1], H=-joined.each[1].H)
    assert not joined.has(CONVEX) and joined.each[0].has(CONVEX)
    joined = instance("eq-4").view()
    form = theorems.get("fedelasticnet/impact-of-lambda-1").form("how far from (9)")
    sides = joined.sides_of(form.sides)(joined)
    each = [form.sides(v) for v in joined.each]
    assert sides.lhs.tolist() == [s.lhs.tolist() for s in each] and sides.rhs.tolist() == [s.rhs.tolist() for s in each]
    assert sides.scale.tolist() == [s.scale.tolist() for s in each]
    assert (sides.relation, sides.axes) == ("<=", ("client", "entry"))
    single = joined.sides_of(theorems.get("fedelasticnet/eq-4").form("printed").sides)(joined)
    assert single.lhs.shape == (3,) and single.axes == ("client",)


def test_local_steps():
    assert instance("eq-7", SCAFFOLD, local_solver=LocalSGD(8, 0.3), given={"controls": "fresh"}).data == {
        "H": HESSIANS, "q": LINEAR, "theta": ["3/4", "-5/4"], "lr": "3/10", "B": 8, "lambda1": "3/10", "lambda2": "7/10",
        "controls": "fresh",
    }  # fmt: skip
    plain = instance("eq-7", SCAFFOLD).data
    assert "controls" not in plain and plain["B"] == 2
    assert instance("eq-7", SCAFFOLD).name == "local-steps: least squares seed=0"
    assert F(plain["lr"]) == F(f"{1 / (2 * SQUARES.beta_k.max()):.2g}")
    assert instance("eq-7", SCAFFOLD, given={"controls": "zero"}).data == plain
    assert steps_of(SQUARES, 5, 0.125) == LocalSGD(5, 0.125) and steps_of(SQUARES, 5).steps == 5


def test_objectives():
    assert instance("second-term", DYN).name == "objective: least squares seed=0"
    found = instance("second-term", DYN).data
    beta = F(found.pop("beta"))
    assert found == {
        "H": HESSIANS, "q": LINEAR, "theta": ["3/4", "-5/4"], "counts": ["3", "2", "1"], "lambda1": "3/10", "lambda2": "50",
    }  # fmt: skip
    assert 1 < beta / F(float(SQUARES.beta_k.max())) < 1 + F(2, 10**12)


def eigenvalues(H):
    """Of a symmetric matrix of two rows, in floats."""
    (a, b), (_, c) = H
    middle, half = (a + c) / 2, ((a - c) ** 2 / 4 + b * b) ** 0.5
    return middle - half, middle + half


@pytest.mark.parametrize("rule", ["sign", "true-gradient"])
def test_rounds_of_all_clients(rule):
    found = instance("consistency", FedElasticNetDyn(0.3, 50.0, rule), sampling=Full()).data
    beta, mu = F(found.pop("beta")), F(found.pop("mu"))
    assert found == {
        "H": HESSIANS, "q": LINEAR, "theta": ["3/4", "-5/4"], "rule": rule, "lambda1": "3/10", "lambda2": "50",
    }  # fmt: skip
    mean = [[float(sum(hessian(k)[i][j] for k in range(3)) / 3) for j in range(2)] for i in range(2)]
    low, _ = eigenvalues(mean)
    assert low * (1 - 1e-10) < mu < low and 1 < beta / F(float(SQUARES.beta_k.max())) < 1 + F(2, 10**12)
    assert instance("consistency", FedElasticNetDyn(0.0, 50.0, rule)).data["rule"] == "any"
    assert instance("consistency", PROX).data["rule"] == "sign"
    assert instance("consistency", DYN).name == "everybody: least squares seed=0"
    flat = problems.Quadratic(np.array([[[2.0, 0.0], [0.0, 0.0]]] * 2), np.zeros((2, 2)))
    assert instance("consistency", DYN, flat).data["mu"] == "0"


def test_coins():
    coin = [["1", [["1", "1/2"], ["-1", "1/2"]]]]
    assert instance("concentration").name == "signs: fair coins for least squares seed=0"
    assert instance("concentration").data == {"groups": 3, "d": 2, "delta": "1/10", "laws": coin}
    forms = [f.name for f in theorems.get("fedelasticnet/concentration").forms]
    six, four = np.ones((6, 2)), np.ones((4, 2))
    found = instance(
        "concentration", problem=problems.LeastSquares([six, four], [np.ones(6), np.ones(4)]), form=forms.index("weights"),
        given={"delta": 0.3},
    )  # fmt: skip
    assert found.data == {"groups": 2, "d": 2, "delta": "3/10", "laws": coin, "weights": ["3", "2"]}


def test_messages():
    beta = [F(float(b)).limit_denominator(10**9) for b in SQUARES.beta_k]
    given = {"message": [[F(1, 3), 0.1], [2, F(-1, 7)]], "threshold": F(1, 9), "bin": 0.2}
    first, second = instance("l1-and-entropy", given=given).view().each
    assert (first.x.tolist(), second.x.tolist()) == ([F(1, 3), F(1, 10)], [2, F(-1, 7)])
    assert (first.theta.tolist(), first.threshold, first.bin) == ([0, 0], F(1, 9), F(1, 5))
    (plain,) = instance("l1-and-entropy", given={"message": [0.1, 0.2, 0.7]}).view().each
    largest = float(F(3, 10) / (min(beta) + F(7, 10)))
    assert float(plain.threshold) == pytest.approx(largest, rel=1e-8) and plain.bin == F(1, 100)
    assert plain.theta.tolist() == [0, 0, 0]
    views = instance("l1-and-entropy").view().each
    for k, v in enumerate(views):  # (H + lambda_2) x = q - H theta, without l1
        H, theta = hessian(k), [F(3, 4), F(-5, 4)]
        for i in range(2):
            pull = linear(k)[i] - sum(H[i][j] * theta[j] for j in range(2))
            assert sum((H[i][j] + F(i == j) * F(7, 10)) * v.x[j] for j in range(2)) == pull
        assert v.theta.tolist() == theta
        assert float(v.threshold) == pytest.approx(float(F(3, 10) / (beta[k] + F(7, 10))), rel=1e-8)


# --- what is refused, at the limit ----------------------------------------------------------------
def wide(d: int, n: int = 1):
    return problems.LeastSquares([np.ones((n, d))] * 2, [np.ones(n)] * 2)


@each(
    ("statement", "how", "words"),
    [
        ("eq-2", {"problem": wide(13)}, "d = 13 features, at most 12"),
        ("eq-4", {"problem": wide(13)}, "d = 13 coordinates, at most 12"),
        ("eq-2", {"problem": wide(1, 1001)}, "client 0 has 1001 samples, at most 1000"),
        ("eq-2", {"given": {"client": 3}}, "client = 3: there are 3, counted from 0"),
        ("eq-2", {"given": {"client": -1}}, "client"),
        ("eq-2", {"given": {"trial": [1, 2, 3]}}, r"trial has the shape \(3,\): give 2 numbers"),
        ("eq-2", {"problem": problems.random_quadratic(2, 2, seed=0)}, "Quadratic has no least squares"),
        ("eq-2", {"algorithm": Scaffold()}, "Scaffold has not"),
        ("eq-4", {"problem": problems.random_logistic(2, 2, [5, 5], ridge=0.1, seed=0)}, "Logistic is no quadratic loss"),
        ("eq-7", {"algorithm": SCAFFOLD, "local_solver": LocalSGD(9, 0.1)}, "B = 9 local steps, at most 8"),
        ("eq-7", {"algorithm": SCAFFOLD, "local_solver": LocalSGD(2, 0.1, batch_size=1)}, "full gradient steps"),
        ("eq-7", {"algorithm": SCAFFOLD, "local_solver": LocalSGD(2, lambda t: 0.1)}, "full gradient steps"),
        ("eq-7", {"algorithm": SCAFFOLD, "given": {"controls": "old"}}, "controls = 'old': use zero or fresh"),
        ("eq-7", {"algorithm": SCAFFOLD, "sampling": Uniform(2)}, "in which everyone takes part"),
        ("consistency", {"algorithm": DYN, "sampling": Uniform(2)}, "in which everyone takes part"),
        ("concentration", {"given": {"delta": [1, 2]}}, r"delta = \[1, 2\]: give one number"),
    ],
)
def test_what_is_missing_is_said_with_its_limit(statement, how, words):
    with pytest.raises((InvalidInput, MissingCapability), match=words):
        instance(statement, **how)


def test_what_is_just_within_the_limits_is_taken():
    assert len(instance("eq-2", problem=wide(1, 1000)).data["y"]) == 1000
    assert len(instance("eq-2", problem=wide(12)).data["start"]) == 12
    assert instance("eq-4", problem=wide(12)).view().each[0].d == 12


def test_weights_must_be_equal():
    for weights, fine in (([0.5, 0.25, 0.25], False), ([1 / 3] * 3, True)):
        of = problems.LeastSquares([np.array(a, dtype=float) for a in A], [np.array(b, dtype=float) for b in B], 0.125, weights)
        if fine:
            assert instance("consistency", DYN, of).data["H"] == HESSIANS
        else:
            with pytest.raises(InvalidInput, match=r"plain mean of the losses.*: use weights=.uniform."):
                instance("consistency", DYN, of)


def test_sums_of_unequal_weights_are_limited():
    """Two clients with n_1 + n_2 samples without a common divisor: 2 (n_1 + n_2) at most 40,000."""
    forms = [f.name for f in theorems.get("fedelasticnet/concentration").forms]

    def case(first: int):
        of = problems.LeastSquares([np.ones((first, 1)), np.ones((1, 1))], [np.ones(first), np.ones(1)])
        return instance("concentration", problem=of, form=forms.index("weights"))

    assert case(19_999).data["weights"] == ["19999", "1"]
    many = problems.LeastSquares([np.ones((1, 1))] * 201, [np.ones(1)] * 201)  # equal ones may be more
    assert instance("concentration", problem=many, form=forms.index("weights")).data["groups"] == 201
    with pytest.raises(MissingCapability, match="2 clients with 20001 samples: m n is at most 40000"):
        case(20_000)


# --- what the command line's request becomes ------------------------------------------------------
BETA = float(SQUARES.beta_k.max())


def prepared(statement, how=None, **options):
    request = CommandRequest(options, made=SQUARES, seed=5, **(how or {}))
    return SETTING.prepare(theorems.get(f"fedelasticnet/{statement}"), request)


@pytest.mark.parametrize(
    ("statement", "options", "method", "l1", "l2", "about"),
    [
        ("eq-4", {}, FedElasticNetProx, 0.1, BETA, "each client's local problem"),
        ("eq-4", {"l1": 0.25, "l2": 5.0}, FedElasticNetProx, 0.25, 5.0, "each client's local problem"),
        ("eq-6", {}, FedElasticNetScaffold, 0.0, 0.0, "the local steps of one round"),
        ("eq-7", {}, FedElasticNetScaffold, 0.1, BETA, "the local steps of one round"),
        ("eq-8", {}, FedElasticNetProx, 0.0, BETA, "each client's local problem"),
        ("eq-9", {"l2": 3.0}, FedElasticNetProx, 0.0, 3.0, "each client's local problem"),
        ("consistency", {}, FedElasticNetDyn, 0.1, 30 * BETA, "the first round of Algorithm 3"),
    ],
)
def test_hyperparameters_that_are_not_given(statement, options, method, l1, l2, about):
    """lambda_1 = 1/10, or 0 of FedDyn's and Scaffold's equations; lambda_2 = beta, 30 beta of Algorithm 3, or 0 of Scaffold's."""
    found = prepared(statement, **options)
    assert type(found.algorithm) is method and (found.algorithm.l1, found.algorithm.l2) == (l1, pytest.approx(l2, rel=1e-12))
    assert found.head == [f"least squares: m = 3, d = 2, lambda_1 = {l1:g}, lambda_2 = {l2:.6g}; about {about}"]
    assert found.problem is SQUARES and found.options == {"local_solver": None}
    assert found.details["algorithm"]["name"] == method.name and found.details["algorithm"]["l2"] == found.algorithm.l2


def test_local_work_is_handed_on():
    found = prepared("eq-7", local_steps=3, local_lr=0.0625)
    assert (found.options["local_solver"].steps, found.options["local_solver"].lr) == (3, 0.0625)
    assert prepared("eq-7", local_lr=0.0625).options["local_solver"].lr == 0.0625


@pytest.mark.parametrize(
    ("statement", "how", "options", "words"),
    [
        ("eq-4", {"rounds": 5}, {}, "--rounds 5: fedelasticnet/eq-4 is judged in fractions, without runs; leave it out"),
        ("eq-4", {"mode": "exact"}, {}, "--mode exact: fedelasticnet/eq-4 is judged in fractions, without runs"),
        ("eq-4", {"participants": 2}, {}, "--participants 2: fedelasticnet/eq-4 is about each client's local problem; leave"),
        ("eq-4", {}, {"local_lr": 0.1}, "--local-lr 0.1: fedelasticnet/eq-4 is judged in fractions, without runs"),
        ("eq-4", {}, {"local_steps": 2}, "--local-steps 2: fedelasticnet/eq-4 is judged in fractions"),
        ("eq-7", {}, {"batch_size": 2}, "--batch-size 2: fedelasticnet/eq-7 is judged in fractions"),
        ("gaussian-entropy", {}, {}, "fedelasticnet/gaussian-entropy: it is about densities, not about a problem's run"),
        ("table-1", {}, {}, "fedelasticnet/table-1: it is a claim that cannot be proved or refuted here"),
    ],
)
def test_options_that_mean_nothing_are_named(statement, how, options, words):
    with pytest.raises(InvalidInput, match=words):
        prepared(statement, how, **options)


def test_what_a_statement_says_of_a_users_problem():
    at_rest, claim, density = (theorems.get(f"fedelasticnet/{n}") for n in ("consistency", "table-1", "gaussian-entropy"))
    signs = theorems.get("fedelasticnet/concentration")
    assert SETTING.about(at_rest).example == "--problem diabetes --clients 3 --l1 1000"
    assert SETTING.about(signs).example == "--problem diabetes --clients 10 --given delta=1/2" and SETTING.about(claim).example is None
    assert [SETTING.about(s).scope for s in (at_rest, claim, density)] == [
        "about the first round of Algorithm 3", "not provable here", "about densities",
    ]  # fmt: skip
    assert list(SETTING.about(signs).takes) == ["delta"] and SETTING.about(claim).takes == {} == SETTING.about(density).takes
    assert len(SETTING.about(at_rest).asks) == 2 and SETTING.about(claim).asks == ()
    part = SETTING.part(signs)
    assert {part.shares_view(f) for f in at_rest.forms} == {("everybody", None)}
    assert {part.shares_view(f) for f in signs.forms} == {("signs", COUNTS in f.needs) for f in signs.forms} and len(signs.forms) > 2
    with pytest.raises(InvalidInput, match="it is about densities"):
        SETTING.instance(density, density.forms[0], Case(SQUARES, PROX, x0=START))


@pytest.mark.parametrize(("l1", "rule"), [(0.0, "any"), (0.3, "true-gradient")])
def test_what_does_not_apply_is_told_under_the_rule_that_the_round_has(l1, rule):
    """FedDyn, lambda_1 = 0, has one rule only; the round does not begin at rest."""
    checks = theorems.get("fedelasticnet/consistency").verify(SQUARES, FedElasticNetDyn(l1, 50.0, "true-gradient"), x0=START)
    [check] = [c for c in checks if c.form == "no drift at rest"]
    assert (check.verdict, check.rule) == ("not applicable", rule)
