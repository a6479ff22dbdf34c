"""EFL's statements on a problem of a user's: instances worked out by hand, mutants, what is missing, and cases that are kept."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from cases import each
from efl_on_a_problem import (
    BOTH_WAYS,
    BUILDERS,
    DIAGONAL,
    HALF_IDLE,
    LAW,
    LOGISTIC,
    MIXED,
    SETTING,
    SIGNS,
    ST,
    TWO,
    case_of,
    checks_of,
    sides_of,
    view_of,
)

from fedtheory import messages, problems
from fedtheory.algorithms import EFL, FedAvg
from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.local import LocalSGD
from fedtheory.participation.irregular import Irregular, complete, inactive, windows
from fedtheory.theorems import all_statements, get
from fedtheory.theorems.efl.after_shift_world import NOISELESS
from fedtheory.theorems.efl.cases.given import ACCEPTS
from fedtheory.theorems.efl.feedback_world import LOOPS, FeedbackView
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.replay import load, replay, save
from fedtheory.theory.judge.verify import keep


# --- where runs end -------------------------------------------------------------------------------
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


def test_informative_clients_that_are_curved_refute_the_factor_5():
    """eta a = 0.25 and eta^2 lambda b = 0.75: a step that the constant was on record for; eta h goes from 0.13 to 1.32."""
    problem = problems.Quadratic([[[1.0]], [[10.0]], [[1.0]]], [[0.0], [0.8], [-1.0]], [0.1, 0.1, 0.8])
    how = {"local_solver": LocalSGD(1, 0.132), "given": {"u_0": [[0.0], [1.0], [0.0]]}, "rounds": 1000}
    checks = checks_of("elastic-limit", problem, EFL(lam=5.3), **how)
    assert checks["factor 5"].lhs == pytest.approx(0.0440076, abs=1e-6) and checks["factor 5"].rhs == pytest.approx(0.0366166, abs=1e-6)
    assert (checks["factor 5"].verdict, checks["repaired"].verdict) == ("violated", "holds")


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


# --- compression ----------------------------------------------------------------------------------
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
    own = FeedbackView.made(np.array(w), h, c, variant, F(1, 2), 0.5, np.array([1.0, -2.0]), 2, schedule.tolist(), 7)
    for a, b in zip(found.run, own.run, strict=True):
        assert a == pytest.approx(b, abs=1e-12)
    assert LOOPS[variant] in found.facts & own.facts


# --- Corollary 1, sections 4.1 to 4.4, Table 1 ----------------------------------------------------
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
    noisy = view_of("learning-rate-after-shift", "fresh start", TWO, EFL(), **how)
    assert noisy.sigma_sq == 9 and not noisy.has(NOISELESS)


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


# --- every statement ------------------------------------------------------------------------------
HOW = {
    "run": {"sampling": LAW, "x0": [3.0, 3.0]}, "step": {"sampling": LAW, "x0": [3.0, 3.0]}, "shift": {},
    "departed": {"sampling": windows(inactive(3, 2, [0.1, 0.2, 0.3]), {2: (None, 10)})}, "after-shift": {"given": {"tau_0": 40}},
    "inactive": {"sampling": inactive(3, 2, [0.1, 0.2, 0.3])}, "abandon": {"sampling": inactive(3, 2, [0, 0, 0.5])},
    "keep": {"sampling": inactive(3, 1, [0, 0, 0.5]), "rounds": 30}, "epochs": {"given": {"noise": 100}},
    "incomplete": {"sampling": Irregular(2, [[0, 0.5, 0.5], [0, 1, 0], [0, 0.2, 0.8]])}, "limit": {"sampling": LAW},
    "elastic": {}, "compression": {"given": {"message": [[4, 1, 1, 1], [1, 1, 1, 1], [8, 4, 2, 1]]}},
    "feedback": {"local_solver": LocalSGD(1, 0.1)}, "rates": {"given": {"delta": 1}},
    "stability": {"local_solver": LocalSGD(2, 0.1)}, "frozen": {}, "compressed": {"rounds": 10},
    "compressed-partial": {"sampling": LAW}, "row": {"rounds": 60}, "units": {},
    "term": {"rounds": 3}, "away": {"x0": [3.0, 3.0]}, "coefficient": {"sampling": complete(3, 4), "given": {"s": 2}}, "samples": {},
    "restart": {"sampling": windows(inactive(3, 2, [0.1, 0.2, 0.3]), {2: (None, 10)}), "x0": [3.0, 3.0]},
}  # fmt: skip
METHODS = {
    "elastic": EFL(lam=0.2), "term": EFL(lam=0.2), "stability": EFL(lam=0.2), "compression": EFL(compressor=ST), "feedback": BOTH_WAYS,
    "compressed": BOTH_WAYS, "compressed-partial": BOTH_WAYS,
}  # fmt: skip
NEAR = problems.Quadratic([np.diag([1.0, 0.5]), np.diag([0.75, 1.0])], [[1.0, -1.0], [0.5, 2.0]])
COMPRESSORS = {
    "efl/contraction-factors": (messages.TopK(k=2), messages.RandomK(k=2), messages.ScaledSign(), messages.Threshold(F(3, 2))),
    "efl/variance-factors": (
        messages.RandomK(k=2, scaled=True), messages.QSGD(1), messages.NaturalRounding(), messages.StochasticRounding(),
        messages.StochasticRounding(F(2)),
    ),
}  # fmt: skip


SQUARES = problems.LeastSquares([[[1.0], [2.0]], [[1.5], [0.5]]], [[1.0, -1.0], [2.0, 0.0]])
FAR = problems.Quadratic([[[1.0]], [[1000.0]]], [[0.0], [101.0]], [0.99999, 0.00001])
ATTAINED = {  # where a bound has no room
    "efl/shift-bound": (FAR, {"x0": [101.0], "sampling": windows(complete(2, 1), {1: (None, 2)}), "rounds": 2}),
    "efl/theorem-1": (TWO, {"x0": [0.5], "local_solver": LocalSGD(1, 1.0, noise_std=1.0)}),
    "efl/theorem-1-step-1": (SQUARES, {"local_solver": LocalSGD(1, 1.0, 1)}),
    "efl/theorem-1-step-3": (TWO, {"x0": [5.0], "local_solver": LocalSGD(1, 0.01)}),  # L = mu: room of order eta^2
    "efl/theorem-1-step-5": (TWO, {"x0": [0.5], "sampling": HALF_IDLE}),
    "efl/complete-round": (TWO, {"x0": [5.0], "local_solver": LocalSGD(2, 0.01)}),
    "efl/inactive-rate": (TWO, {"sampling": inactive(2, 1, 0.5)}),
    "efl/corollary-1-threshold": (TWO, {"sampling": HALF_IDLE, "rounds": 400, "given": {"gamma": 4, "J": 1, "C": 1}}),
    "efl/corollary-1-own-optimum": (SIGNS, {"sampling": HALF_IDLE, "rounds": 2, "x0": [5.0]}),
    "efl/elastic-limit": (NEAR, {}), "efl/theorem-2-departure": (TWO, {}), "efl/theorem-2-arrival": (TWO, {}),
    "efl/departure-no-convergence": (TWO, {}), "efl/elastic-stability": (TWO, {"local_solver": LocalSGD(1, 2.1)}),
    "efl/compressed-convergence": (DIAGONAL, {"x0": DIAGONAL.optimum().x, "rounds": 5}),
    "efl/table-1-row": (TWO, {"x0": [0.5], "local_solver": LocalSGD(1, 1.0, noise_std=1.0)}),
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
    refused = {s.id for s in all_statements("efl/") if SETTING.about(s).refusal is not None}
    assert refused == {s.id for s in all_statements("efl/") if s.kind == "claim"} and refused
    worlds = SETTING.worlds
    assert set(worlds) == set(SETTING.kinds) - {""} and all(w.asks and w.example for w in worlds.values())
    assert {name for world in worlds.values() for name in world.accepts} == set(ACCEPTS)
    for s in all_statements("efl/"):
        assert bool(SETTING.about(s).asks) == (s.kind != "claim")


@each(
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
        ("elastic-stability", TWO, EFL(), {}, "lambda = 0: the statement is about lambda > 0"),
        ("elastic-stability", LOGISTIC, EFL(lam=0.1), {}, "Logistic is no quadratic loss"),
        ("elastic-drift", TWO, EFL(lam=0.1), {"sampling": HALF_IDLE}, "about all clients complete"),
        ("compressed-convergence", TWO, EFL(lam=0.1), {}, "lambda = 0.1, the limit is 0"),
        ("compressed-convergence", TWO, EFL(compressor=ST, variant="literal"), {}, "the theorem is about 'consistent'"),
        ("compressed-convergence", TWO, EFL(compressor=ST, client_feedback=False), {}, "residuals are not kept"),
        ("compressed-convergence", DIAGONAL, EFL(compressor=messages.ST(0.5, rule="printed")), {}, "use ST by the exact rule"),
        ("compressed-proof", DIAGONAL, EFL(compressor=messages.QSGD(2)), {}, "use ST by the exact rule"),
        ("compressed-proof", TWO, BOTH_WAYS, {"sampling": HALF_IDLE}, "client 1 may be inactive or incomplete in round 1"),
        ("compressed-proof", TWO, BOTH_WAYS, {"local_solver": LocalSGD(1, 1.0, noise_std=1.0)}, "mini-batches or noise"),
        ("compressed-participation", TWO, EFL(scheme="A"), {"sampling": Irregular(2, [[0, 0, 1], [0, 1, 0]])}, "client 1 never sends"),
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


# --- cases that are kept --------------------------------------------------------------------------
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
