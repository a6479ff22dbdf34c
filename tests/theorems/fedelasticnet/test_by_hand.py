"""FedElasticNet's statements against instances worked out by hand: readings, fixed points, stalls, the smallest floor."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest
import worked_pairs as kept
from algorithm_3 import DiagonalInstance, exact_round
from cases import each

from fedtheory import problems, theorems
from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.one_round import letters as round_letters
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import bound
from fedtheory.theory.judge.check import judge
from fedtheory.theory.judge.replay import builtin_witnesses, exact_check, replay
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.method_setting import MethodSetting
from tests.theorems.fedelasticnet.runs import SHIPPED, changed, in_fractions, letters, tree, witness_of

RULES = ("sign", "true-gradient")
THEOREM, B6 = (theorems.get(f"fedelasticnet/{name}") for name in ("theorem-3.1", "theorem-b6"))


# --- lambda_1 > 0, as Algorithm 3 asks ------------------------------------------------------------
KINDS = ("motion", "standstill")  # other kinds have files of their own
WITHIN = [*SHIPPED, *(w for w in builtin_witnesses("fedelasticnet") if w.kind in KINDS)]


@each("witness", WITHIN)
def test_every_shipped_witness_is_within_algorithm_3(witness):
    if "drawn" in witness.data:
        assert all(F(witness.data["drawn"][f"method.{name}"]) > 0 for name in ("l1", "l2"))
        without = changed(witness, l1="0")
    else:
        assert F(witness.data["lambda1"]) > 0 and F(witness.data["lambda2"]) > 0
        without = replace(witness, data={**witness.data, "lambda1": "0"})
    with pytest.raises(
        InvalidInput,
        match=r"lambda1 = 0: it must be > 0|lambda_1 = 0 is not above 0|method.l1: the distance 0 from the limit is not above",
    ):
        replay(without)


def test_without_the_penalty_no_statement_on_algorithm_3_applies():
    problem = problems.Quadratic([[[1.0]], [[1.0]]], [[-1.0], [1.0]])
    for statement in theorems.all_statements("fedelasticnet/"):
        if statement.scope in ("round", "run"):
            checks = statement.verify(problem, FedElasticNetDyn(0.0, 30.0), rounds=2)
            assert {c.verdict for c in checks} == {"not applicable"}
            about = f"l1 = 0.0: {statement.id} is about l1 above 0"
            assert all(about in c.reason or c.reason == "not claimed for the sign rule" for c in checks)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["eq-11", "theorem-3.1"])
def test_what_is_drawn_stays_within_algorithm_3(name, rule):
    setting, rng = MethodSetting.of(FILE[name].variants[rule]), np.random.default_rng(0)
    for _ in range(50):
        method = setting.view(setting.random_instance(rng), exact=False).method
        assert method.l1 > 0 and method.l2 > 0 and method.rule == rule


# --- readings -------------------------------------------------------------------------------------
@pytest.mark.parametrize("rule", RULES)
def test_eq_12_holds_coordinate_by_coordinate_and_not_as_an_equation_of_vectors(rule):
    # L = ||x||^2/2 from (2, 1/2), lambda_1 = 1, lambda_2 = 30: v = (-2, -1/2), so delta = (-1/31, 0), and
    # grad L + lambda_2 delta = (2 - 1/31 - 30/31, 1/2) = (1, 1/2).
    view = DiagonalInstance.exact([[1, 1]], [[0, 0]], 1, 30, 1, rule, [2, "1/2"])
    view = exact_round(view, view.start())
    v = round_letters(view)
    assert list(v.delta[0, 0, 0]) == [F(-1, 31), 0]
    assert list((v.grad_tilde - v.stored + v.lambda2 * v.delta)[0, 0, 0]) == [1, F(1, 2)]
    statement = theorems.get("fedelasticnet/eq-12")
    by_coordinate, as_vectors = statement.form("printed").sides(view), statement.form("printed, as vectors").sides(view)
    assert by_coordinate.lhs[0, 0, 0] == 0 and as_vectors.lhs[0, 0, 0] == F(1, 2)


def test_eq_20_and_b2_are_true_under_the_true_gradient_rule_where_clients_start_as_printed():
    # L_k = x^2/2 for both, P = 1, from x = 1 with lambda_1 = 1/2, lambda_2 = 30: delta = -(1/2)/31, y = 61/62. The client
    # sampled stores y under both rules, the other 0, which the input says its gradient is: C_1 = y^2/2, h = y/2.
    forms = [theorems.get("fedelasticnet/eq-20").form("printed"), theorems.get("fedelasticnet/lemma-b2").form("literal")]
    took_part = theorems.get("fedelasticnet/eq-20").form("clients that took part")
    for rule in RULES:
        instance = DiagonalInstance.exact([[1], [1]], [[0], [0]], "1/2", 30, 1, rule, [1])
        view = exact_round(instance, instance.start())
        assert round_letters(view).C_next[0, 0] == F(61, 62) ** 2 / 2
        assert all((form.sides(view).lhs == 0).all() for form in (*forms, took_part))
    # Where nothing moves, the sign rule stores 0 for the client that took part, and the true-gradient rule 1.
    for rule, off in (("sign", 1), ("true-gradient", 0)):
        still = DiagonalInstance.exact([[1]], [[0]], 1, 30, 1, rule, [1])
        still = exact_round(still, still.start())
        assert all((form.sides(still).lhs == off).all() for form in (*forms, took_part))


def test_the_two_readings_of_the_printed_expectation():
    """P = 1 of two clients, L_k = (x -+ 1)^2/2, from 0 with lambda_1 = 1/2, lambda_2 = 30, two rounds.

    Round 1: gamma = 0. The client sampled moves to +-(1/2)/31 = +-1/62 and stores y -+ 1 = -+61/62, so h = -+61/124 and
    gamma^1 = theta^1 + h/lambda_2 = y = +-1/62. Round 2, first client sampled: theta = 1/62 + 61/3720 = 121/3720. Its v is
    -61/62 - (121/3720 - 1) = -1/60, so it stays; the other has v = -1 - 121/3720, moves down, and its sign is -1.
    """
    view = in_fractions([[1], [1]], [[1], [-1]], "1/2", 30, 1, "sign", [0], 2)
    run = letters(view)
    assert run.inner_sign[1] == F(1, 62) * F(1, 2) * F(-1, 2)  # E<gamma, mean sign>: both paths give the same
    assert run.inner_split_sign[1] == 0  # E gamma = 0
    for name in ("theorem-b1", "eq-42"):
        forms = [theorems.get(f"fedelasticnet/{name}").form(f) for f in ("printed", "printed, whole expectation")]
        first, second = (f.sides(view).rhs[1] for f in forms)
        assert second - first == -2 * run.inner_sign[1] / (30 * 2)  # the last term, without 1/kappa_0
    first, second = (THEOREM.form(f).sides(view).rhs[1] for f in ("printed", "printed, whole expectation"))
    assert second - first == -2 * (run.inner_own_sign - run.inner_split_own_sign)[1] / (30 * 2)
    assert (second - first) != 0


def test_the_readings_agree_with_the_float_code():
    from fedtheory.participation.cohorts import Uniform

    problem = problems.Quadratic([[[1.0]], [[1.0]]], [[1.0], [-1.0]])
    rounded = letters(tree(problem, FedElasticNetDyn(0.5, 30.0), Uniform(1), 4, np.zeros(1)))
    exact = letters(in_fractions([[1], [1]], [[1], [-1]], "1/2", 30, 1, "sign", [0], 4))
    for name in ("inner_split", "inner_split_sign", "inner_split_own_sign", "inner_own_sign"):
        assert np.allclose(getattr(rounded, name), getattr(exact, name).astype(float), rtol=0, atol=1e-15), name


# --- runs that never move -------------------------------------------------------------------------
def _least_horizon(x: F) -> F:
    """min over the stalled instances of the T beyond which sign(0) = 0 breaks the bound; x = lambda_2/beta."""
    q = x * x - 25 * x - 50
    return x * (x * x - 25) * (x * x - 20 * x - 45) / (q * q)


def test_no_stalled_convex_smooth_run_breaks_the_bound_within_120_rounds():
    """For every lambda_2 > 26.861 beta the least horizon is above 120.2, by Sturm's theorem; at 60 beta it is 120.20167."""
    import sympy as sp

    x = sp.symbols("x")
    q = x**2 - 25 * x - 50
    over = sp.Poly(x * (x**2 - 25) * (x**2 - 20 * x - 45) - sp.Rational(1202, 10) * q**2, x)
    assert over.count_roots(sp.Rational(2686, 100), None) == 0 and over.eval(60) > 0
    assert F("120.2016") < _least_horizon(F(60)) < F("120.2017")
    assert sp.Poly(over + sp.Rational(-1, 100) * q**2, x).count_roots(50, 70) == 2  # it falls below 120.21


@pytest.mark.parametrize(("rounds", "verdict"), [(120, "holds"), (121, "violated")])
def test_a_huber_loss_attains_that_horizon(rounds, verdict):
    """L = h(x) with slope 1 = lambda_1 beyond 1, from u = 1 + 2 kappa'/kappa_0 = 471/410 with lambda_2 = 60."""
    problem = problems.Huber([[[1.0]]], [[0.0]], delta=1.0)
    for statement, form in (("theorem-3.1", "sign(0) = 0"), ("theorem-3.1", "printed"), ("theorem-b1", "printed")):
        statement = theorems.get(f"fedelasticnet/{statement}")
        checks = statement.verify(problem, FedElasticNetDyn(1.0, 60.0), x0=[471 / 410], rounds=rounds, forms=[form], mode="exact")
        assert checks[0].verdict == verdict


def test_the_bound_of_a_stalled_run_by_hand():
    """D = u - 1/2, A = u^2, C_0 = 0 and no last term: violated if and only if T > u^2/(kappa_0 D - kappa')."""
    l2, u = F(60), F(471, 410)
    a, _, kappa_0 = ElasticConstants(F(1), F(1), F(1), F(1), l2).printed
    assert u == 1 + a / kappa_0  # 2 kappa'/kappa_0, kappa' = a/2
    assert u * u / (kappa_0 * (u - F(1, 2)) - a / 2) == _least_horizon(l2)
    for other in (u - F(1, 50), u + F(1, 50)):  # any other start needs longer
        assert other * other / (kappa_0 * (other - F(1, 2)) - a / 2) > _least_horizon(l2)


def test_a_stalled_quadratic_needs_123_rounds():
    """x^2/2 from 1: T = 1/(kappa_0/2 - kappa') > 122.7 for lambda_2 >= 36.7 beta; flatter ones below that need longer still."""

    def horizon(x):
        return x * (x * x - 25) / (x * x - 30 * x - 55)

    ratios = [F(n, 4) for n in range(147, 4000)]
    assert 122 < F("122.7") < min(horizon(x) for x in ratios) < 123


# --- the floor of one round under the sign rule ---------------------------------------------------
def stalled_drift(l2: int, d: int, form: str = "d missing") -> Witness:
    """d copies of L = x^2/2 that move once, to g = l2/(l2 - 1), and then drift by -g/l2 a round without moving, up to the edge."""
    g = F(l2, l2 - 1)
    start = ((l2 + 1) * g - 1) / l2
    return witness_of(B6.id, form, "sign", [[1] * d], [[0] * d], 1, l2, 1, [start] * d, l2 - 1)


def test_the_missing_factor_d_needs_five_coordinates():
    """Five break the printed floor on a real run; with four or fewer the small floor proves it."""
    five, four = (exact_check(stalled_drift(250, d)) for d in (5, 4))
    assert five[0].verdict == "violated" and four[0].verdict == "holds"
    assert 4 * F(11, 100) < F(1, 2) < 5 * F(11, 100)  # times a lambda_1^2: the small floor of z <= d zeros, and kappa P/(2m)


@pytest.mark.parametrize(("scale", "verdict"), [(1, "holds"), (F(9, 10), "violated")])
def test_the_small_floor_is_nearly_needed(scale, verdict):
    """On the drift the floor of one round is 0.2003 kappa' lambda_1^2: 0.22 is enough, a tenth less is not."""
    small, none = (exact_check(stalled_drift(250, 1, name)) for name in ("small floor", "no floor"))
    a = F(10 * 251, 250 * (250**2 - 25))
    floor = small[2] - none[2]
    assert floor == F(11, 100) * a and small[1] == none[1]
    assert ("holds" if none[1] <= none[2] + scale * floor else "violated") == verdict


def test_the_constants_of_the_small_floors_proof():
    """docs/fedelasticnet.md, conditions (i) to (iv), for every lambda_2 > 26.86 beta."""
    p, e, r, tau, f = F(7, 5), F(1, 125), F(4, 5), F(66, 5), F(11, 100)
    share = F(1, 10) + 1 / F("26.86") ** 2  # w/a = 1/10 + b^2 with p = 7/5, largest at the threshold
    q = F(5, 2) * p / (1 + p)  # q/a
    assert F("26.86") ** 2 - 25 * F("26.86") - 50 < 0  # below the threshold of kappa_0 > 0
    top = F(31, 5)  # max over u in [0, 1] of (1 + e)(u + u^2)/(e + u^2): the discriminant of top (e + u^2) - (1 + e)(u + u^2)
    assert (1 + e) ** 2 - 4 * (top - 1 - e) * top * e < 0
    assert share * (1 + e) * (1 + 1 / tau) <= f
    assert share * (1 + e) * (1 + tau) <= q
    assert share * (top + 2 * (1 + r)) <= 1
    assert 1 + 2 * share * (1 + 1 / r) <= q


def test_the_inequality_of_one_coordinate_behind_the_small_floor():
    """w mean(delta - h)^2 + a mean_M(x^2 - c^2) <= q mean x^2 + 0.11 a lambda_1^2 zeta on random clients, and its mutant fails."""
    rng = np.random.default_rng(0)
    b = 1 / 26.8615
    a = 10 * (1 + b) / (1 - 25 * b * b)
    w, q = 1 + b + 3.5 * a * b * b, 35 / 24 * a
    worst = {0.11: -np.inf, 0.099: -np.inf}
    for m in (1, 2, 3, 5, 20):
        x = rng.standard_normal((20_000, m)) * 10.0 ** rng.uniform(-2, 1, (20_000, 1))
        v = rng.uniform(-1, 1, (20_000, m)) * np.where(rng.random((20_000, 1)) < 0.5, 1.0, 10.0 ** rng.uniform(-1, 1, (20_000, m)))
        same = rng.random(20_000) < 0.3
        x[same], v[same] = np.abs(x[same, :1]) / 10, rng.uniform(0.9, 1, (same.sum(), 1))
        delta = np.sign(v) * np.maximum(np.abs(v) - 1, 0)
        c, stalled = v + x, delta == 0
        h = c.mean(axis=1, keepdims=True)
        left = w * ((delta - h) ** 2).mean(axis=1) + a * np.where(stalled, 0, x**2 - c**2).mean(axis=1)
        for f in worst:
            worst[f] = max(worst[f], float((left - q * (x**2).mean(axis=1) - f * a * stalled.mean(axis=1)).max()))
    assert worst[0.11] <= 1e-9 < worst[0.099]


def flat_drift(m: int, horizon: int) -> SimpleNamespace:
    """One steep client, L_1 = -(m - 1) x, and m - 1 with L_k = x: R = 0. lambda_1 = lambda_2 = 1, everyone takes part, from 0.

    Round 1: client 1 has v = m - 1 and moves by m - 2, the others have v = -1 and stay; client 1 stores its gradient, so that
    h = -(m - 1)/m =: -e for ever. From then on nobody moves (v is 0 and -1) and gamma grows by e a round. gamma^0 = 0 and
    gamma^1 = (m - 2)/m. theta* may be any point, since R is flat: gamma^T. The losses are smooth with any beta; here 10^-9.
    """
    e, T = F(m - 1, m), horizon
    gamma = [F(0), F(m - 2, m)]
    star = gamma[1] + (T - 1) * e
    # mean of s: round 1 has s_1 = 1, s_k = -1; later mean of v = -e
    inner = -star * (F(1, m) - e)
    inner += -e * ((T - 1) * (gamma[1] - star) + e * F((T - 1) * (T - 2), 2))
    c0 = (F(m - 1) ** 2 + (m - 1)) / m
    zeros = (F(m - 1, m) + (T - 1)) / T

    def column(value):
        return np.array([[value]], dtype=object)

    return SimpleNamespace(
        constants=ElasticConstants(F(m), F(m), F(1, 10**9), F(1), F(1)), l1=F(1), l2=F(1), d=1,
        T=column(F(T)), excess=column(F(0)), start=star * star, C_0=c0, zeros=column(zeros),
        last=lambda name: {"s": column(-2 * inner / T)}[name],
    )  # fmt: skip


@pytest.mark.parametrize(("scale", "verdict"), [(1, "holds"), (F(9, 10), "violated")])
def test_the_small_floor_of_a_run_is_nearly_needed(scale, verdict):
    """With 300 clients and 10^7 rounds the telescoped floor is within 1 % of 0.2 kappa' lambda_1^2."""
    sides = bound(flat_drift(300, 10**7), floor=(scale * F(11, 100), "zeros"))
    assert judge(sides, statement="", form="", rule="sign", mode="rational").verdict == verdict


def test_the_flat_drift_is_what_a_round_does():
    """The first rounds of `flat_drift` on nearly linear losses, run by the exact engine."""
    tiny, m = F(1, 10**12), 4
    slopes = [-F(m - 1)] + [F(1)] * (m - 1)
    instance = DiagonalInstance.exact([[tiny]] * m, [[-s / tiny] for s in slopes], 1 + F(1, 10**9), 1, m, "sign", [0])
    gammas = [instance.after([tuple(range(m))] * t) for t in range(5)]
    gammas = [(s.theta + s.h)[0, 0] for s in gammas]
    expected = [F(0)] + [F(m - 2, m) + t * F(m - 1, m) for t in range(4)]
    assert all(abs(g - x) < F(1, 10**6) for g, x in zip(gammas, expected, strict=True))


def test_the_repaired_bound_may_fall_as_lambda_1_grows():
    """L = x^2/2, lambda_2 = 30, from 10, 20 rounds, sign rule: 100/(20 kappa_0) = 656.25 as lambda_1 goes to 0, and 568.27 at 5."""
    form, ends = theorems.get("fedelasticnet/theorem-3.1").form("repaired"), []
    for lambda1 in ("1/1000000000", 5):
        sides = form.sides(in_fractions([[1]], [[0]], lambda1, 30, 1, "sign", [10], 20))
        ends.append(np.ravel(sides.rhs)[-1])
        assert np.ravel(sides.lhs)[-1] <= ends[-1]
    assert [round(float(x), 2) for x in ends] == [656.25, 568.27]


# --- a round of (11) to (39) whose numbers are frozen ---------------------------------------------
PRINTED = next(row for row in kept.rows() if row["kind"] == "round" and "lemma-b5 [printed]" in row["forms"])


def _rows(text: str) -> list[list[F]]:
    """'1,2 3,4' as vectors."""
    return [[F(x) for x in entry.split(",")] for entry in text.split()]


def test_lemma_b5_by_hand():
    """The sign rule. Round 1 from (-3, -4), with v = -grad L_k and delta = (v -+ 1/2)/(H + 15/2):

    client 0: v = (1/2, -3/4), delta = (0, -1/36); client 1: v = (45/4, 12), delta = (43/40, 23/18);
    client 2: v = (2, 1/2), delta = (3/16, 0). They store -15/2 delta - sign/2. The curvatures of a
    coordinate add up to 4, so that R - R* = ||gamma - theta*||^2/2.
    """
    stored = _rows("0,17/24 -137/16,-121/12 -61/32,0 0,0")
    at_star = _rows("51/32,93/16 -25/32,-111/16 3/32,19/16 -29/32,-1/16")  # at theta* = (19/16, -5/8); they add up to 0
    c = sum((x - y) ** 2 for u, v in zip(stored, at_star, strict=True) for x, y in zip(u, v, strict=True)) / 4
    gamma = F(-619, 240), F(-43, 12)  # the mean of the three models
    gap = ((gamma[0] - F(19, 16)) ** 2 + (gamma[1] + F(5, 8)) ** 2) / 2
    right = F(PRINTED["forms"]["lemma-b5 [printed]"][1])
    # lambda_2^2 = 225/4, beta = 5/2, lambda_1 = 1/2, d = 2: 10/lambda_2^2, 10 beta/lambda_2^2, 5 lambda_1^2 d/lambda_2^2
    assert right == F(8, 45) * c + F(4, 9) * gap + F(2, 45)


@pytest.mark.parametrize("rule", RULES)
def test_what_cancels_in_25_is_pinned_by_its_mutant(rule):
    """Both sides of (25) share their summands; divided by m for P they differ by 1 - P/m of the mean, without h."""
    view = kept.view_of({**PRINTED, "data": {**PRINTED["data"], "rule": rule}})
    (mutant,) = theorems.get("fedelasticnet/eq-25").form("printed").mutants
    side = theorems.get("fedelasticnet/eq-26").form("printed").sides(view).terms[0].reshape(-1)
    mean = [x + h / F(PRINTED["data"]["lambda2"]) for x, h in zip(side, view.state.h[0, 0], strict=True)]
    assert mutant.sides(view).lhs[0, 0] == (1 - view.P / view.N) * max(map(abs, mean))


def test_the_axes_are_named_by_what_the_entries_are():
    """Four clients, six cohorts, one state; entries of one axis are states."""
    rounds = [row for row in kept.rows("fedelasticnet") if row["kind"] == "round"]
    row = next(row for row in rounds if (len(row["data"]["h"]), row["data"]["P"]) == (4, 2))
    view, sizes = kept.view_of(row), {"state": 1, "": 1, "cohort": 6, "client": 4}
    for key in row["forms"]:
        sides = kept.form_of("fedelasticnet", key).sides(view)
        unnamed = ["state", ""] if sides.relation == "==" else ["state"]
        assert np.shape(sides.lhs) == tuple(sizes[a] for a in sides.axes or unnamed), key
