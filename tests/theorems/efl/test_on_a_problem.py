"""EFL's statements on a problem of a user's: instances worked out by hand, mutants, what is missing, and cases that are kept."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory import messages, problems
from fedtheory.algorithms import EFL, FedAvg
from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.local import GradientSteps, LocalSGD
from fedtheory.participation.cohorts import Uniform
from fedtheory.participation.irregular import Irregular, complete, inactive, windows
from fedtheory.theorems import all_statements, get
from fedtheory.theorems.efl.cases.kinds import CASES
from fedtheory.theorems.efl.notation import BUILDERS
from fedtheory.theorems.efl.statements.error_feedback import FeedbackView
from fedtheory.verification.check import judge_view
from fedtheory.verification.registry import setting_of
from fedtheory.verification.replay import load, replay, save
from fedtheory.verification.setting import Case
from fedtheory.verification.verify import keep

SETTING = setting_of("efl/theorem-1")
TWO = problems.Quadratic([[[1.0]], [[1.0]]], [[0.0], [1.0]])  # (w - 0)^2/2 and (w - 1)^2/2, of weight 1/2
MIXED = problems.Quadratic([[[2.0, 1.0], [1.0, 2.0]]] * 2, [[0.0, 0.0], [1.0, 1.0]])  # the same with coordinates that mix
SIGNS = problems.Quadratic([[[1.0]], [[1.0]]], [[1.0], [-1.0]])
HALF_IDLE = Irregular(1, [[0.0, 1.0], [0.5, 0.5]])  # the second client is away every other round
LAW = Irregular(2, [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.5, 0.25, 0.25]])
DIAGONAL = problems.Quadratic(
    [np.diag([1.0, 2.0]), np.diag([2.0, 0.5]), np.diag([1.5, 1.0])], [[1.0, -1.0], [0.5, 2.0], [-2.0, 0.25]], [0.2, 0.3, 0.5]
)
LOGISTIC = problems.random_logistic(3, 2, ridge=0.5, seed=0)
ST = messages.ST(0.5)
BOTH_WAYS = EFL(compressor=ST, down_compressor=ST)


def case_of(problem, algorithm, **how):
    x0 = np.asarray(how.pop("x0", np.zeros(problem.dim)), dtype=float)
    return Case(problem, algorithm, x0=x0, **how)


def view_of(statement, form, problem, algorithm, **how):
    s = get(f"efl/{statement}")
    return SETTING.instance(s, s.form(form), case_of(problem, algorithm, **how)).view()


def checks_of(statement, problem, algorithm=None, **how):
    return {c.form: c for c in get(f"efl/{statement}").verify(problem, algorithm or EFL(), **how)}


def sides_of(check):
    return [F(v) for v in (check.lhs, check.rhs)]


# --- where runs end ---------------------------------------------------------------------------------------------------------
def test_the_limit_of_two_clients_by_hand():
    """E[p s] = (1/2, 1/4): the limit is 1/3, omega* = 1/2."""
    view = view_of("scheme-limit", "unbiased", TWO, EFL(), sampling=HALF_IDLE)
    assert (view.limit[0], view.star[0]) == (F(1, 3), F(1, 2))
    checks = checks_of("scheme-limit", TWO, sampling=HALF_IDLE)
    assert (checks["unbiased"].verdict, checks["unbiased"].mode) == ("violated", "rational")
    assert checks["unbiased"].lhs == pytest.approx(1 / 6)
    assert {checks[f].verdict for f in ("repaired", "constant step", "fixed point")} == {"holds"}


def test_the_limit_of_other_losses_is_certified():
    view = view_of("scheme-limit", "unbiased", MIXED, EFL(), sampling=HALF_IDLE)
    assert view.limit == pytest.approx([1 / 3] * 2) and view.star == pytest.approx([1 / 2] * 2)
    checks = checks_of("scheme-limit", MIXED, sampling=HALF_IDLE)
    assert checks["unbiased"].verdict == "violated" and checks["unbiased"].mode == "exact"
    assert checks["fixed point"].verdict == "not applicable" and "(0, 1), the limit is 0" in checks["fixed point"].reason
    equal = checks_of("scheme-limit", LOGISTIC, EFL(scheme="C-corrected"), sampling=LAW)
    assert equal["unbiased"].verdict == "holds"


def test_the_elastic_fixed_point_by_hand():
    """h = u = (1, 3), c = (0, 1), lambda eta = 1/8: weights (3/8, 5/8), so that omega_eta = 5/6; omega* = 3/4."""
    problem, how = problems.Quadratic([[[1.0]], [[3.0]]], [[0.0], [1.0]]), {"local_solver": LocalSGD(1, 0.25)}
    view = view_of("elastic-fixed-point", "unbiased", problem, EFL(lam=0.5), **how)
    assert (view.fixed(view.eta)[0], view.star[0]) == (F(5, 6), F(3, 4))
    checks = checks_of("elastic-fixed-point", problem, EFL(lam=0.5), **how)
    assert checks["unbiased"].lhs == pytest.approx(1 / 12) and checks["unbiased"].verdict == "violated"
    assert {checks[f].verdict for f in ("repaired", "when unbiased", "distance", "run")} == {"holds"}


def test_the_elastic_fixed_point_where_coordinates_mix():
    """The same with h_k R in place of h_k and u the same in both coordinates: 5/6 and 3/4 in each."""
    R = np.array([[2.0, 1.0], [1.0, 2.0]])
    problem = problems.Quadratic([R, 3 * R], [[0.0, 0.0], [1.0, 1.0]])
    how = {"local_solver": LocalSGD(1, 0.1), "given": {"u_0": [[1.0, 1.0], [3.0, 3.0]]}}
    view = view_of("elastic-fixed-point", "unbiased", problem, EFL(lam=1.25), **how)
    assert view.fixed(view.eta) == pytest.approx([5 / 6] * 2) and view.star == pytest.approx([3 / 4] * 2)
    checks = checks_of("elastic-fixed-point", problem, EFL(lam=1.25), **how)
    assert {checks[f].verdict for f in ("repaired", "when unbiased", "distance", "run")} == {"holds"}
    w, V = np.ones(2), np.full(2, 4.0)  # the solver's own recursion ends there too
    for _ in range(2000):
        g = np.stack([H @ (w - c) for H, c in zip(problem.hessians, problem.minimisers, strict=True)])
        y = w - 0.1 * (g + 1.25 * (4 * w - V))
        w, V = y.mean(axis=0), y[0] + 3 * y[1]
    assert w == pytest.approx([5 / 6] * 2)


def test_a_run_that_is_too_short_to_settle_is_not_called_a_violation():
    """Curvatures 10^-4 and 1: 2,000 rounds with steps below 1 do not reach the fixed point, coordinates mixed or not."""
    spread, turn = np.diag([1.0, 1e-4]), np.array([[0.8, -0.6], [0.6, 0.8]])
    for H in (spread, turn @ spread @ turn.T):
        problem = problems.Quadratic([H, 0.5 * H], [[0.0, 0.0], [1.0, 1.0]])
        checks = checks_of("elastic-fixed-point", problem, EFL(lam=0.5), given={"u_0": [[1.0, 1.0], [2.0, 1.0]]})
        assert (checks["run"].verdict, checks["repaired"].verdict) == ("not applicable", "holds")
        limit = checks_of("elastic-limit", problem, EFL(lam=0.5), given={"u_0": [[1.0, 1.0], [2.0, 1.0]]})
        assert limit["repaired"].verdict == "not applicable"


def test_a_weak_elastic_term_is_judged_beyond_rounding():
    """lambda = 10^-9: the fixed point is so near the optimum that the gradients' sums cancel."""
    for problem in (problems.random_quadratic(3, 4, seed=5), MIXED):
        checks = checks_of("elastic-fixed-point", problem, EFL(lam=1e-9))
        assert {checks[f].verdict for f in ("repaired", "when unbiased", "distance")} == {"holds"}


def test_a_client_that_has_left_pulls_towards_its_last_model():
    """u_a = 1, lambda = 1: halfway between the other's minimiser 0 and its last model 5."""
    view = view_of("stale-anchor", "kept", TWO, EFL(lam=1.0), given={"client": 1, "anchor": [5.0]})
    assert view.stale_limit(False)[0] == F(5, 2) and view.stale_limit(True)[0] == 0
    mixed = view_of("stale-anchor", "kept", MIXED, EFL(lam=1.0), given={"client": 1, "anchor": [5.0, 5.0], "u_0": [[0, 0], [3, 3]]})
    assert mixed.stale_limit(False) == pytest.approx([5 / 2] * 2)  # R (1, 1) = 3 (1, 1)


# --- compression ------------------------------------------------------------------------------------------------------------
def test_the_lemma_on_a_message_of_ones_own():
    """x = (3, 1), one entry kept: the error is 1, and 1/2 of 10 is at most 10 - 1."""
    check = checks_of("st-lemma", TWO, EFL(compressor=ST), given={"message": [3, 1]})["repaired"]
    assert (check.verdict, check.mode, check.lhs, check.rhs) == ("holds", "rational", 5, 9)
    both = checks_of("st-lemma", TWO, EFL(compressor=ST), given={"message": [[3, 1], [1, 1]]})["repaired"]
    assert both.where["index"] == [1] and both.tightness == 1 and "message 1" in both.place  # equal entries attain it
    assert checks_of("variance-factors", TWO, EFL(compressor=messages.QSGD(2)), given={"message": [3, 1, 2]})["QSGD"].verdict == "holds"


def test_the_messages_of_a_run_are_those_that_are_compressed():
    """One client (w - 4)^2/2 ..., E = 1, step 1/2: D_1 = x = (-2, -1/2), what is left is (0, -1/2), D_2 = that and the next x."""
    problem = problems.Quadratic([np.eye(2)], [[0.0, 0.0]])
    how = {"x0": [4.0, 1.0], "local_solver": LocalSGD(1, 0.5), "rounds": 2}
    view = view_of("st-lemma", "repaired", problem, BOTH_WAYS, **how)
    assert [list(v.x) for v in view.each] == [[-2, F(-1, 2)], [-1, -1]]


def test_the_residuals_of_a_real_run_by_hand():
    """After one round from (4, 1) the model is (2, 1) and R^k = (0, -1/2): together (2, 1/2), as without compression."""
    problem = problems.Quadratic([np.eye(2)], [[0.0, 0.0]])
    how = {"x0": [4.0, 1.0], "local_solver": LocalSGD(1, 0.5), "rounds": 1}
    path, R_G, R, moved = view_of("residual-invariant", "repaired", problem, BOTH_WAYS, **how).run
    assert path.tolist() == [[4, 1], [2, 1]] and R_G.tolist() == [0, 0] and R.tolist() == [[0, -0.5]] and moved.tolist() == [2, 0.5]
    assert checks_of("residual-invariant", problem, BOTH_WAYS, **how)["repaired"].verdict == "holds"
    bias = checks_of("compression-bias", problem, BOTH_WAYS, **how)["repaired"]  # |grad F(4, 1)| = (4, 1) = ((2, 0) + (0, 1/2))/(1/2)
    assert (bias.verdict, bias.tightness) == ("holds", 1)


@pytest.mark.parametrize(
    ("algorithm", "form", "variant"),
    [
        (BOTH_WAYS, "repaired", "consistent"),
        (EFL(compressor=ST, down_compressor=ST, variant="literal"), "literal formulas", "literal"),
        (EFL(compressor=ST, down_compressor=ST, variant="text"), "text of 3.1", "text"),
        (EFL(compressor=ST, down_compressor=ST, scale="after"), "scaled after ST", "after"),
    ],
)
def test_a_real_run_agrees_with_the_second_implementation(algorithm, form, variant):
    rng, schedule = np.random.default_rng(0), np.array([[2, 1, 2]])
    h, c, w = rng.integers(2, 9, (3, 2)) / 8, rng.integers(-4, 5, (3, 2)) / 2, [0.5, 0.25, 0.25]
    problem = problems.Quadratic([np.diag(row) for row in h], c, w)
    law = Irregular(2, [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    how = {"x0": [1.0, -2.0], "local_solver": LocalSGD(2, 0.5), "rounds": 7, "sampling": law}
    found = view_of("residual-invariant", form, problem, algorithm, **how)
    own = FeedbackView(variant, np.array(w), h, c, F(1, 2), 0.5, np.array([1.0, -2.0]), 2, schedule, 7)
    for a, b in zip(found.run, own.run, strict=True):
        assert a == pytest.approx(b, abs=1e-12)
    assert variant in found.facts


# --- Corollary 1, sections 4.1 to 4.4, Table 1 --------------------------------------------------------------------------------
def test_keeping_and_abandoning_in_the_limit_by_hand():
    """y = 1/2: limits 1/3 and 0, F = 5/36 and 9/36; the bias 1/36 is what Theorem 2 gives it, L = mu = 1."""
    checks = checks_of("corollary-1", TWO, sampling=HALF_IDLE)
    assert (checks["repaired"].lhs, checks["repaired"].rhs) == (pytest.approx(5 / 36), pytest.approx(9 / 36))
    assert checks["printed, T to infinity"].verdict == "violated"
    assert checks["bias"].lhs == pytest.approx(1 / 36) and checks["bias"].tightness == 1
    mixed = checks_of("corollary-1", MIXED, sampling=HALF_IDLE)  # 6 for 1 in every loss, (1, 1) for 1
    assert (mixed["repaired"].lhs, mixed["repaired"].rhs) == (pytest.approx(30 / 36), pytest.approx(54 / 36))
    assert mixed["bias"].lhs == pytest.approx(2 / 36) and mixed["bias"].rhs == pytest.approx(2 * 3 / 16 * 4 / 3)
    assert {c.verdict for f, c in mixed.items() if f in ("repaired", "without a", "bias", "sharp bias")} == {"holds"}


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_both_runs_agree_with_the_closed_form_of_two_clients(noise):
    law, how = Irregular(1, [[0.0, 1.0], [0.25, 0.75]]), {"x0": [1.5], "rounds": 6, "local_solver": LocalSGD(1, 1.0, noise_std=noise)}
    found = view_of("corollary-1-own-optimum", "bound", SIGNS, EFL(), sampling=law, **how)
    own = BUILDERS["keep"]({"y": "1/4", "sigma_sq": str(F(noise) ** 2), "x0": "3/2", "rounds": 6})
    for name in ("own_abandoned", "own_kept", "f_1", "f_1_sharp", "J"):
        assert float(getattr(found, name)) == pytest.approx(float(getattr(own, name))), name
    for name in ("loss_abandoned", "loss_kept"):  # F* = 1/2
        assert float(getattr(found, name)) + 0.5 == pytest.approx(float(getattr(own, name))), name
    assert found.facts == own.facts


def test_given_constants_take_the_place_of_the_problems():
    """E = 1, T = 4, gamma = 4, J = C = 1: f_1 = 4/(4 + 4)^2, (C/J)/(TE) = 1/4; J/E = 1 against y J = 1/2."""
    given = {"gamma": 4, "J": 1, "C": 1}
    check = checks_of("corollary-1-threshold", TWO, sampling=HALF_IDLE, rounds=4, given=given)["repaired"]
    assert (check.verdict, check.lhs, check.rhs) == ("holds", 1 / 16, 1 / 4)
    assert checks_of("inactive-rate", TWO, sampling=HALF_IDLE, rounds=4, given=given)["f_0"].lhs == 1 / 2
    own = view_of("corollary-1-threshold", "repaired", TWO, EFL(), sampling=HALF_IDLE, rounds=4)
    c = view_of("theorem-1", "repaired", TWO, EFL(), sampling=HALF_IDLE, rounds=4).constants
    assert (float(own.gamma), float(own.J), float(own.C)) == pytest.approx(
        (c.gamma, c.J, (c.gamma**2 * c.start_sq + c.noise_sum(c.B())[-1]) / 4)
    )
    with pytest.raises(UnknownName, match="delta"):
        get("efl/corollary-1-threshold").verify(TWO, EFL(), sampling=HALF_IDLE, given={"delta": 1})


def test_the_constants_of_incomplete_clients_are_theorem_1s():
    law = Irregular(2, [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.2, 0.8]])
    view = view_of("incomplete-rate", "printed", DIAGONAL, EFL(), sampling=law)
    c = view_of("theorem-1", "repaired", DIAGONAL, EFL(), sampling=law).constants
    assert float(view.B) == pytest.approx(float(c.B()[0])) and [float(p) for p in view.drift] == pytest.approx(list(c.rounds[0].ps))


def test_the_step_after_a_shift_by_hand():
    """Client 1 leaves: the optimum moves from 1/2 to 0; L = mu = 1, gamma = 64, and the first fresh step is 16/65."""
    w = keep("efl/learning-rate-after-shift", TWO, EFL(), given={"client": 1, "tau_0": 1}, rounds=1)
    assert F(w.lhs) == (1 - F(16, 65)) ** 2 / 4 and F(w.rhs) == (1 - F(16, 66)) ** 2 / 4 and w.verdict == "holds"
    turned = view_of("learning-rate-after-shift", "repaired", MIXED, EFL(), given={"client": 1})  # along (1, 1) alone
    assert sorted(float(v**2) for v in turned.start) == pytest.approx([0, 1 / 2])
    how = {"local_solver": LocalSGD(1, 1.0, noise_std=3.0), "given": {"client": 1}}
    noisy = view_of("learning-rate-after-shift", "printed", TWO, EFL(), **how)
    assert noisy.sigma_sq == 9 and not noisy.facts


def test_rounds_after_a_departure_by_hand():
    """Gone from round 5, which is tau = 4: of T = 10 rounds 6 count, where the paper says at least 7."""
    law = windows(complete(2, 1), {1: (None, 5)})
    checks = checks_of("departure-heterogeneity", TWO, sampling=law, rounds=10)
    assert (checks["printed"].verdict, checks["printed"].lhs, checks["printed"].rhs) == ("violated", 7, 6)
    assert (checks["repaired"].verdict, checks["repaired"].tightness) == ("holds", 1)
    named = checks_of("departure-heterogeneity", TWO, rounds=10, given={"client": 0, "tau_0": 3})
    assert (named["repaired"].lhs, named["repaired"].rhs) == (6, 6)


def test_table_1_by_hand():
    """G = 1, L = 2, mu = 1, S = 2, epsilon = 1/4: 2 + 4 against 2 + 2 + 2 (SCAFFOLD) and 2 + delta (MIME)."""
    problem = problems.Quadratic([np.diag([1.0, 2.0]), np.diag([2.0, 1.0])], [[0.0, 0.0], [0.0, 0.0]])
    given = {"G": 1, "epsilon": 0.25}
    assert checks_of("table-1-scaffold", problem, given=given)["repaired"].lhs == 6
    assert sides_of(checks_of("table-1-mime", problem, given=given)["printed"]) == [6, F(5, 2)]  # delta = 1/2
    assert sides_of(checks_of("table-1-mime", LOGISTIC, given={**given, "delta": 1, "L": 2, "mu": 0.5, "S": 2})["printed"])[0] == 12


# --- Theorem 1: what is given -----------------------------------------------------------------------------------------------
def test_a_given_bound_of_gradients_is_used_where_it_is_one():
    own = checks_of("theorem-1", TWO, x0=[3.0])["repaired"]
    wider = checks_of("theorem-1", TWO, x0=[3.0], given={"G": 10})["repaired"]
    assert wider.verdict == "holds" and wider.where["constants"]["G_sq"] == 100 > own.where["constants"]["G_sq"]
    small = checks_of("theorem-1", TWO, x0=[3.0], given={"G": 1})["repaired"]
    assert small.verdict == "not applicable" and "E||g||^2 is 9.0, the limit is G^2 = 1" in small.reason
    curved = checks_of("theorem-1", TWO, x0=[3.0], given={"L": 2, "mu": 0.5})["repaired"]
    assert curved.verdict == "holds" and curved.where["constants"]["gamma"] > own.where["constants"]["gamma"]
    assert "below a client's smoothness 1.0" in checks_of("theorem-1", TWO, given={"L": 0.5})["repaired"].reason


def test_a_given_bound_on_a_real_run_is_looked_at():
    how = {"sampling": LAW, "rounds": 5, "scenarios": 20}
    assert checks_of("theorem-1", LOGISTIC, given={"G": 5}, **how)["repaired"].verdict == "holds"
    refused = checks_of("theorem-1", LOGISTIC, given={"G": 1e-3}, **how)["repaired"]
    assert refused.verdict == "not applicable" and "is no bound (Assumption 4)" in refused.reason


def test_frozen_anchors_can_be_given():
    """f = (w - c)^2/2, u = 1 each, lambda = 1/2: F~_k = f_k + (w^2 - 2 V w)/2 with V = 6, so that w~* = (1/2 + 3)/2."""
    how = {"x0": [1.0], "given": {"u_0": [[1.0], [1.0]], "v_0": [[2.0], [4.0]]}}
    checks = checks_of("theorem-1", TWO, EFL(lam=0.5), **how)
    assert checks["frozen anchors"].verdict == "holds" and "frozen anchors" in checks["repaired"].reason
    constants = checks["frozen anchors"].where["constants"]
    assert (constants["L"], constants["mu"], constants["start_sq"]) == (2, 2, pytest.approx((1 - 7 / 4) ** 2))
    assert "give u_0 and v_0" in checks_of("theorem-1", TWO, EFL(lam=0.5))["frozen anchors"].reason
    assert "without u_0" in checks_of("theorem-1", TWO, EFL(lam=0.5), given={"v_0": [[0.0], [0.0]]})["repaired"].reason


# --- every statement ----------------------------------------------------------------------------------------------------------
HOW = {
    "run": {"sampling": LAW, "x0": [3.0, 3.0]}, "step": {"sampling": LAW, "x0": [3.0, 3.0]}, "shift": {},
    "departed": {"sampling": windows(inactive(3, 2, [0.1, 0.2, 0.3]), {2: (None, 10)})}, "after-shift": {"given": {"tau_0": 40}},
    "inactive": {"sampling": inactive(3, 2, [0.1, 0.2, 0.3])}, "abandon": {"sampling": inactive(3, 2, [0, 0, 0.5])},
    "keep": {"sampling": inactive(3, 1, [0, 0, 0.5]), "rounds": 30}, "epochs": {"given": {"noise": 100}},
    "incomplete": {"sampling": Irregular(2, [[0, 0.5, 0.5], [0, 1, 0], [0, 0.2, 0.8]])}, "limit": {"sampling": LAW},
    "elastic": {}, "compression": {"given": {"message": [[4, 1, 1, 1], [1, 1, 1, 1], [8, 4, 2, 1]]}},
    "feedback": {"local_solver": LocalSGD(1, 0.1)}, "rates": {"given": {"delta": 1}},
}  # fmt: skip
METHODS = {"elastic": EFL(lam=0.2), "compression": EFL(compressor=ST), "feedback": BOTH_WAYS}
NEAR = problems.Quadratic([np.diag([1.0, 0.5]), np.diag([0.75, 1.0])], [[1.0, -1.0], [0.5, 2.0]])
COMPRESSORS = {
    "efl/contraction-factors": (messages.TopK(k=2), messages.RandomK(k=2), messages.ScaledSign(), messages.Threshold(F(3, 2))),
    "efl/variance-factors": (
        messages.RandomK(k=2, scaled=True), messages.QSGD(1), messages.NaturalRounding(), messages.StochasticRounding(),
        messages.StochasticRounding(F(2)),
    ),
}  # fmt: skip


SQUARES = problems.LeastSquares([[[1.0], [2.0]], [[1.5], [0.5]]], [[1.0, -1.0], [2.0, 0.0]])
ATTAINED = {  # where a bound has no room
    "efl/theorem-1": (TWO, {"x0": [0.5], "local_solver": LocalSGD(1, 1.0, noise_std=1.0)}),
    "efl/theorem-1-step-1": (SQUARES, {"local_solver": LocalSGD(1, 1.0, 1)}),
    "efl/theorem-1-step-5": (TWO, {"x0": [0.5], "sampling": HALF_IDLE}),
    "efl/inactive-rate": (TWO, {"sampling": inactive(2, 1, 0.5)}),
    "efl/corollary-1-threshold": (TWO, {"sampling": HALF_IDLE, "rounds": 400, "given": {"gamma": 4, "J": 1, "C": 1}}),
    "efl/corollary-1-own-optimum": (SIGNS, {"sampling": HALF_IDLE, "rounds": 2, "x0": [5.0]}),
    "efl/elastic-limit": (NEAR, {}), "efl/theorem-2-departure": (TWO, {}), "efl/theorem-2-arrival": (TWO, {}),
    "efl/departure-no-convergence": (TWO, {}),
}  # fmt: skip


def cases_of(statement):
    """Cases that all forms of a statement's kinds can be judged on."""
    if statement.id in ATTAINED:
        problem, how = ATTAINED[statement.id]
        for kind in dict.fromkeys(f.kind for f in statement.forms):
            yield kind, case_of(problem, METHODS.get(kind, EFL()), **how)
    for kind in dict.fromkeys(f.kind for f in statement.forms):
        methods = [EFL(compressor=c) for c in COMPRESSORS.get(statement.id, ())] or [METHODS.get(kind, EFL())]
        for method in methods:
            how = dict(HOW[kind])
            if statement.id == "efl/stale-anchor":
                how["given"] = {"client": 1}
            yield kind, case_of(DIAGONAL, method, **how)


@pytest.mark.parametrize("statement", [s for s in all_statements("efl/") if s.kind != "claim"], ids=lambda s: s.id)
def test_what_is_said_to_hold_holds_and_a_mutant_is_rejected(statement):
    judged, rejected, planted = 0, 0, 0
    for kind, case in cases_of(statement):
        for form in (f for f in statement.forms if f.kind == kind):
            try:
                view = SETTING.instance(statement, form, case).view()
            except InvalidInput:  # this one is about other cases
                continue
            if view.applies(form) is not None or view.rule not in form.established:
                continue
            check = SETTING.judge(statement, form, view, case)
            judged += 1
            assert check.verdict == "holds" or form.established[view.rule] == "violated", str(check)
            wrap = getattr(view, "sides_of", lambda sides: sides)
            found = [judge_view(statement, form, view, sides=wrap(m.sides)).verdict for m in form.mutants]
            planted, rejected = planted + len(found), rejected + found.count("violated")
    assert judged and planted
    assert rejected


def test_claims_alone_are_refused_and_every_kind_says_what_it_needs():
    refused = {s.id for s in all_statements("efl/") if SETTING.refusal(s) is not None}
    assert refused == {s.id for s in all_statements("efl/") if s.kind == "claim"} and refused
    assert set(CASES) == set(SETTING.kinds) and all(kind.needs and kind.example for kind in CASES.values())
    assert {name for kind in CASES.values() for name in kind.given} == set(SETTING.accepts)
    for s in all_statements("efl/"):
        assert bool(SETTING.asks(s)) == (s.kind != "claim")


@pytest.mark.parametrize(
    ("statement", "problem", "algorithm", "how", "missing"),
    [
        ("scheme-limit", TWO, FedAvg(), {}, "about EFL, not FedAvg"),
        ("scheme-limit", TWO, EFL(lam=0.1), {}, "lambda = 0.1: the statement is about lambda = 0"),
        ("scheme-limit", TWO, EFL(), {"local_solver": LocalSGD(1, 2.0)}, "lr = 2: the limit is 1/L = 1"),
        ("scheme-limit", TWO, EFL(), {"sampling": Irregular(1, [[[0, 1], [0.5, 0.5]], [[0, 1], [0, 1]]])}, "another one in round 2"),
        ("elastic-fixed-point", TWO, EFL(), {}, "lambda = 0: the statement is about lambda > 0"),
        ("elastic-fixed-point", LOGISTIC, EFL(lam=0.1), {}, "Logistic is no quadratic loss"),
        ("elastic-fixed-point", TWO, EFL(lam=1.0), {"local_solver": LocalSGD(1, 0.5)}, "lambda eta max U = 1, the limit is < 1"),
        ("elastic-fixed-point", TWO, EFL(lam=0.1), {"local_solver": LocalSGD(2, 0.1)}, "E = 2"),
        ("st-lemma", TWO, EFL(), {}, "compresses nothing"),
        ("st-lemma", TWO, EFL(compressor=messages.ST(0.5, float_bits=32)), {"given": {"message": [1.0]}}, "use float_bits=64"),
        ("residual-invariant", TWO, EFL(compressor=ST, client_feedback=False), {}, "residuals are not kept"),
        ("residual-invariant", TWO, EFL(variant="none"), {}, "variant = 'none'"),
        ("corollary-1", DIAGONAL, EFL(), {"sampling": LAW}, "is not always complete"),
        ("corollary-1", DIAGONAL, EFL(scheme="B"), {}, "scheme = B: the statement is about scheme C"),
        ("corollary-1-own-optimum", LOGISTIC, EFL(), {"sampling": inactive(3, 1, [0, 0, 0.5])}, "no quadratic loss"),
        ("incomplete-rate", DIAGONAL, EFL(), {"sampling": LAW}, "client 0 is inactive with probability 0.1"),
        ("inactive-rate", DIAGONAL, EFL(), {"sampling": LAW}, "may be incomplete in round 1"),
        ("table-1-mime", LOGISTIC, EFL(), {}, "give delta"),
        ("learning-rate-after-shift", LOGISTIC, EFL(), {}, "no quadratic loss"),
        ("departure-heterogeneity", TWO, EFL(scheme="C-corrected"), {}, "no corrected coefficient"),
    ],
)
def test_what_is_missing_is_named(statement, problem, algorithm, how, missing):
    checks = get(f"efl/{statement}").verify(problem, algorithm, **how)
    assert {c.verdict for c in checks} == {"not applicable"} and any(missing in c.reason for c in checks), [c.reason for c in checks]


# --- cases that are kept ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("form", "verdict"), [("unbiased", "violated"), ("fixed point", "holds")])
def test_a_case_is_kept_whether_it_holds_or_fails(form, verdict, tmp_path):
    kept = keep("efl/scheme-limit", TWO, EFL(), form, sampling=HALF_IDLE)
    path = save(kept, tmp_path / "case.json")
    assert load(path) == kept and kept.verdict == verdict
    assert (replay(path).verdict, replay(path).mode) == (verdict, "rational")
    path.write_text(path.read_text().replace(f'"{verdict}"', '"holds"' if verdict == "violated" else '"violated"'))
    with pytest.raises(InvalidInput, match=r"not a witness|not as claimed"):
        replay(path)


def test_what_is_not_in_fractions_cannot_be_kept():
    with pytest.raises(InvalidInput, match="nothing to keep"):
        keep("efl/scheme-limit", LOGISTIC, EFL(), "unbiased", sampling=LAW)


# --- what a referee found -----------------------------------------------------------------------------------------------------
SAME = problems.Quadratic(
    [[[2.0, 1.0], [1.0, 2.0]], [[3.0, -1.0], [-1.0, 2.0]], [[1.0, 0.5], [0.5, 4.0]]], [[0.3, -0.7]] * 3, [0.2, 0.3, 0.5]
)
THREE_IDLE = Irregular(1, [[0.0, 1.0], [0.3, 0.7], [0.5, 0.5]])
ONES = {"u_0": np.ones((3, 2))}


@pytest.mark.parametrize(
    ("statement", "how"),
    [
        ("elastic-fixed-point", {"given": {**ONES, "client": 0}}),
        ("stale-anchor", {"given": {**ONES, "client": 0}}),
        ("learning-rate-after-shift", {}),
    ],
)
@pytest.mark.parametrize(
    ("sampling", "missing"),
    [
        (THREE_IDLE, "client 1 is inactive with probability 0.3 in round 1, the limit is 0"),
        (Uniform(2), "client 0 is inactive with probability 0.333333 in round 1, the limit is 0"),
        (complete(3, 5), "E = 5: the statement is about one local step a round, the limit is 1"),
        (windows(complete(3, 1), {2: (3, None), 1: (2, None)}), "is not there in round 1"),
    ],
)
def test_statements_about_all_clients_active_ask_for_them_whoever_leaves(statement, how, sampling, missing):
    algorithm = EFL() if statement == "learning-rate-after-shift" else EFL(lam=0.1)
    for check in get(f"efl/{statement}").verify(DIAGONAL, algorithm, sampling=sampling, **how):
        assert check.verdict == "not applicable" and missing in check.reason, check


def test_a_client_that_leaves_or_joins_for_good_may_do_so():
    leaves, joins = (windows(complete(3, 1), {1: window}) for window in ((None, 5), (5, None)))
    for sampling in (leaves, joins):
        assert checks_of("learning-rate-after-shift", DIAGONAL, sampling=sampling)["repaired"].verdict == "holds"
    assert checks_of("stale-anchor", DIAGONAL, EFL(lam=0.1), sampling=leaves)["repaired"].verdict == "holds"
    for statement in ("stale-anchor", "elastic-fixed-point"):
        assert {c.verdict for c in checks_of(statement, DIAGONAL, EFL(lam=0.1), sampling=joins).values()} == {"not applicable"}


@pytest.mark.parametrize(
    ("statement", "law"),
    [
        ("theorem-1", LAW), ("scheme-limit", LAW), ("inactive-rate", inactive(3, 2, [0, 0, 0.5])),
        ("corollary-1-epochs", complete(3, 2)), ("corollary-1-own-optimum", inactive(3, 2, [0, 0, 0.5])),
        ("incomplete-rate", Irregular(2, [[0, 0.5, 0.5]] * 3)),
    ],
)  # fmt: skip
def test_a_law_and_a_solver_with_other_numbers_of_steps_are_refused(statement, law):
    for check in checks_of(statement, DIAGONAL, sampling=law, local_solver=LocalSGD(7, 0.1)).values():
        assert check.verdict == "not applicable" and "E = 2 local steps, but the local solver makes steps = 7" in check.reason


@pytest.mark.parametrize(
    ("solver", "missing"),
    [
        (LocalSGD(2, lambda t: 0.1), "give no schedule"), (LocalSGD(2, 1.0, 1, replacement=False), "replacement=True"),
        (GradientSteps(2, 0.1), "use LocalSGD"),
    ],
)  # fmt: skip
def test_both_runs_of_corollary_1_are_theorem_1s(solver, missing):
    problem = problems.random_least_squares(3, 2, ridge=0.1, seed=0)
    for check in checks_of("corollary-1-own-optimum", problem, sampling=inactive(3, 2, [0, 0, 0.5]), local_solver=solver).values():
        assert check.verdict == "not applicable" and missing in check.reason


def test_where_all_is_rounding_nothing_is_called_a_violation():
    """Equal minimisers, a start at the optimum, coordinates whose parts cancel: both sides are 0 but for rounding."""
    half = EFL(compressor=messages.ST(0.5), down_compressor=messages.ST(0.5))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        star, weights = rng.normal(size=3), np.array([0.2, 0.3, 0.5])
        rows = [rng.normal(size=(6, 3)) for _ in weights]
        alike = problems.LeastSquares(rows, [a @ star for a in rows], 0.0, weights)
        at = checks_of("compression-bias", alike, half, x0=star, local_solver=LocalSGD(1, 0.3 / alike.beta_k.max()))
        assert at["repaired"].verdict == "holds"
        c = rng.normal(size=(3, 3))
        c[2] = -(weights[0] * c[0] + weights[1] * c[1]) / weights[2]
        cancels = problems.Quadratic([np.eye(3)] * 3, c, weights)
        assert checks_of("residual-invariant", cancels, half, rounds=1)["repaired"].verdict == "holds"
        mixed = [a.T @ a + 1e-3 * np.eye(3) for a in rows]
        c[2] = -np.linalg.solve(weights[2] * mixed[2], weights[0] * mixed[0] @ c[0] + weights[1] * mixed[1] @ c[1])
        law = Irregular(2, [[0, 0.1, 0.9], [0, 0.3, 0.7], [0, 0.5, 0.5]])
        limit = checks_of("scheme-limit", problems.Quadratic(mixed, c, weights), sampling=law)
        assert limit["C without idle clients"].verdict == "holds"
    rng = np.random.default_rng(4)
    curvatures, centre = rng.uniform(0.5, 1, (3, 4)), rng.normal(size=4)
    one_alike = problems.Quadratic([np.diag(h) for h in curvatures], [centre] * 3, [0.2, 0.3, 0.5])
    u = {"u_0": rng.uniform(0, 1, (3, 4))}
    assert checks_of("elastic-limit", one_alike, EFL(lam=0.1), given=u)["repaired"].verdict == "holds"
    for statement, more in (("elastic-fixed-point", {}), ("stale-anchor", {"client": 1})):
        for check in checks_of(statement, SAME, EFL(lam=0.1), given={**ONES, **more}).values():
            assert check.verdict in ("holds", "not applicable"), check


def test_optima_that_rounding_alone_tells_apart_are_not_said_to_differ():
    check = checks_of("departure-no-convergence", SAME)["printed"]
    assert check.verdict == "not applicable" and "told apart" in check.reason
    assert checks_of("departure-no-convergence", TWO)["printed"].verdict == "holds"


@pytest.mark.parametrize(
    ("statement", "given", "missing"),
    [
        ("theorem-1", {"G": -1e3}, "G is -1000.0"), ("theorem-1", {"G": "x"}, "G is 'x'"),
        ("theorem-1", {"sigma_sq": -1.0}, "sigma_sq = -1.0"), ("theorem-1", {"L": "x"}, "L is 'x'"),
        ("table-1-mime", {"G": 1e-9}, "G = 1e-09 is no bound"),
        ("theorem-1", {"u_0": "a", "v_0": np.ones((3, 2))}, "u_0"),
        ("theorem-1", {"u_0": np.full((3, 2), np.inf), "v_0": np.ones((3, 2))}, "inf"),
    ],
)  # fmt: skip
def test_what_is_given_must_be_what_it_is_said_to_be(statement, given, missing):
    for check in checks_of(statement, DIAGONAL, given=given, rounds=3).values():
        assert check.verdict == "not applicable" and missing in check.reason, check


def test_a_given_noise_must_bound_the_noise_and_is_then_used():
    """Quadratics with additive noise of norm 2, so that sigma_k^2 = 4."""
    how = {"local_solver": LocalSGD(1, 1.0, noise_std=2.0), "rounds": 3}
    low = checks_of("theorem-1", DIAGONAL, given={"sigma_sq": 3.9}, **how)["repaired"]
    assert low.verdict == "not applicable" and "sigma_sq = 3.9 of client 0 is no bound (Assumption 3)" in low.reason
    own, larger = (checks_of("theorem-1", DIAGONAL, given=g, **how)["repaired"] for g in ({}, {"sigma_sq": 40.0}))
    assert own.verdict == larger.verdict == "holds" and larger.rhs > own.rhs


@pytest.mark.parametrize(
    ("given", "missing"),
    [({"u_0": -np.ones((3, 2))}, "u_0 goes down to -1"), ({**ONES, "client": 1, "anchor": [1.0]}, "anchor (1,)")],
)
def test_diagonals_and_anchors_are_looked_at_where_coordinates_mix(given, missing):
    for check in checks_of("stale-anchor", SAME, EFL(lam=0.1), given={"client": 1, **given}).values():
        assert check.verdict == "not applicable" and missing in check.reason
