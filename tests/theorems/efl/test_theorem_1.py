"""EFL's Theorem 1 and the steps of its proof: exact moments, verdicts, mutants, witnesses, and what is refused."""

from __future__ import annotations

import functools
from fractions import Fraction
from importlib import resources

import numpy as np
import pytest

from fedtheory.algorithms import EFL
from fedtheory.local import LocalSGD, TheoremStep
from fedtheory.messages.compressors import TopK
from fedtheory.participation.cohorts import Uniform
from fedtheory.participation.irregular import Irregular, JointLaw, inactive, incomplete, windows
from fedtheory.problems.generators import random_least_squares, random_logistic, random_quadratic
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems import all_statements, get
from fedtheory.theorems.efl import runs_world as efl_run_battery
from fedtheory.theorems.efl import theorem_1 as efl_theorem
from fedtheory.theorems.efl.cases import theorem_1 as efl_verify
from fedtheory.theorems.efl.quantities import exact_run as efl_runs
from fedtheory.theorems.efl.quantities import measured_run as efl_measured
from fedtheory.theorems.efl.quantities.step import StepState
from fedtheory.theorems.efl.run_instances import RealInstance
from fedtheory.theory import le
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.replay import load, replay
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.irregular_run import exact_oracles
from fedtheory.theory.rounds.second_moments import QuadraticOracles, oracles_of, second_moments

STATEMENTS = [s for s in all_statements("efl/theorem-1") if s.id == "efl/theorem-1" or "step" in s.id] + [get("efl/order-of-c")]
FORMS = [(s, f) for s in all_statements("efl/") for f in s.forms if f.kind in ("run", "step") and f.symbolic is None]
THEOREM = get("efl/theorem-1")


def _label(value):
    return getattr(value, "id", None) or value.name


@functools.cache
def views() -> list[tuple[str, object]]:
    """The exact part of the battery."""
    return [(i.name, i.view()) for i in efl_run_battery.battery(0) if not isinstance(i, RealInstance)]


def judged(statement, form, sides=None):
    kind = form.kind
    for name, view in views():
        if view.kind == kind and view.applies(form) is None and view.rule in form.established:
            yield form.established[view.rule], judge_view(statement, form, view, name, sides=sides)


@pytest.mark.parametrize(("statement", "form"), FORMS, ids=_label)
def test_what_is_said_to_hold_holds(statement, form):
    checks = list(judged(statement, form))
    assert len(checks) >= 8
    for established, check in checks:
        assert check.verdict == "holds" or established == "violated", str(check)


@pytest.mark.parametrize(
    ("statement", "form", "mutant"),
    [(s, f, m) for s, f in FORMS for m in f.mutants],
    ids=_label,
)
def test_every_mutant_is_rejected(statement, form, mutant):
    assert any(check.verdict == "violated" for _, check in judged(statement, form, mutant.sides))


def test_every_form_has_a_mutant_or_a_witness():
    folder = resources.files("fedtheory.theorems.efl") / "witnesses"
    found = {(w.statement, w.form, w.rule) for w in (load(f) for f in folder.iterdir() if f.name.startswith("efl-theorem-1"))}
    for s in STATEMENTS:
        for f in s.forms:
            for rule, verdict in f.established.items():
                assert verdict != "violated" or (s.id, f.name, rule) in found
            assert f.mutants or set(f.established.values()) == {"violated"}


def test_the_max_witness_by_hand():
    """One client, F = (w_1^2 + 10 w_2^2)/2, noise +-1 on axis 1, w_0 = (3/40, 0): gamma = 640, eta_0 = 16/641."""
    check = replay(resources.files("fedtheory.theorems.efl") / "witnesses" / "efl-theorem-1-max-b.json")
    lhs = Fraction(625, 641) ** 2 * Fraction(3, 40) ** 2 + Fraction(16, 641) ** 2
    assert check.where["exact"] == [str(lhs), str(Fraction(48, 641) ** 2)]
    assert check.where["constants"]["G_sq"] == pytest.approx(1 + 9 / 1600)


# --- the exact moments ----------------------------------------------------------------------------
def _oracles(rng, n, j, d):
    root = rng.standard_normal((n, j, d, d))
    H = root @ np.swapaxes(root, -1, -2) / 4 + np.eye(d)
    w = rng.dirichlet(np.ones(n))
    return QuadraticOracles(H, rng.standard_normal((n, j, d)), np.full((n, j), 1 / j), w, np.zeros(n))


@pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])
def test_the_recursion_is_the_enumeration(scheme):
    """One round, every (p, s) and every mini-batch path summed over one by one."""
    rng = np.random.default_rng(3)
    oracles = _oracles(rng, 2, 2, 2)
    law = RoundLaw(EFL(scheme=scheme), rng.dirichlet(np.ones(3), 2), oracles.weights)
    w0, eta = rng.standard_normal(2), 0.1
    path = second_moments(oracles, [law], [eta], w0)
    state = StepState(oracles, law, eta, w0, oracles.L, oracles.mu, law.moments.theta)
    far = ((state.wbar[:, :, -1] - oracles.star) ** 2).sum(axis=-1)
    assert path.distance_sq[1] == pytest.approx(state.over_all(far), rel=1e-12)
    assert path.G_sq == pytest.approx(state.G_sq, rel=1e-12)
    assert path.sigma_sq == pytest.approx(state.sigma_sq, rel=1e-12)


def test_the_recursion_is_the_same_in_fractions():
    data = {
        "h": [["1", "3"], ["2", "1"]], "c": [["1", "0"], ["-1", "2"]], "noise": [["1", "0"], ["0", "1/2"]], "weights": ["1/3", "2/3"],
        "scheme": "C", "laws": [[["1/4", "1/4", "1/2"], ["1/2", "0", "1/2"]]], "w0": ["1", "1"], "T": 3,
    }  # fmt: skip
    exact = efl_runs.run_of(data)
    oracles = exact_oracles(data)
    floats = QuadraticOracles(*(getattr(oracles, f).astype(float) for f in ("H", "b", "q", "weights", "noise_sq")))
    law = np.array([[0.25, 0.25, 0.5], [0.5, 0, 0.5]])
    view = efl_runs.quadratic_run(floats, efl_runs.round_laws("C", [law], 3, floats.weights), np.ones(2))
    assert view.distance_sq == pytest.approx(exact.distance_sq.astype(float), rel=1e-12)
    for name in ("gamma", "G_sq", "J", "theta"):
        assert getattr(view.constants, name) == pytest.approx(float(getattr(exact.constants, name)), rel=1e-12)
    assert view.constants.B() == pytest.approx(exact.constants.B().astype(float), rel=1e-12)


@pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])
def test_the_real_algorithm_has_these_moments(scheme):
    """EFL with LocalSGD, mini-batches, incomplete clients: 1500 runs against the recursion."""
    problem = random_least_squares(4, 2, samples=[3, 5, 4, 6], ridge=0.3, noise=1.0, seed=1, weights="samples")
    law = np.random.default_rng(0).dirichlet(np.ones(4), 4)
    oracles = oracles_of(problem, batch_size=2, noise_std=0.3)
    view = efl_runs.quadratic_run(oracles, efl_runs.round_laws(scheme, [law], 12, problem.weights), np.ones(2))
    c = view.constants
    solver = LocalSGD(3, TheoremStep(float(c.mu), 3, float(c.gamma), float(c.S[0])), 2, noise_std=0.3)
    run = simulate(
        problem, EFL(scheme=scheme, variant="none"), 12, np.ones(2), incomplete(4, 3, law), 1500, 5, solver, record=("distance",)
    )
    measured = run.metrics["distance"] ** 2
    error = 5 * measured.std(axis=1) / np.sqrt(1500) + 1e-12
    assert (np.abs(measured.mean(axis=1) - view.distance_sq) < error).all()


# --- bounds of real runs --------------------------------------------------------------------------
def test_no_iterate_leaves_the_ball_and_no_gradient_exceeds_G():
    problem = random_logistic(4, 3, samples=6, ridge=0.2, seed=2)
    sampling = incomplete(4, 4, [0.3, 0.2, 0.1, 0.2, 0.2])
    x0 = np.full(3, 4.0)
    view = efl_measured.measured_run(problem, "C", sampling, 15, x0, 200, 1, batch_size=1)
    c = view.constants
    solver = LocalSGD(4, TheoremStep(c.mu, 4, c.gamma, float(c.S[0])), 1)
    run = simulate(problem, EFL(variant="none"), 15, x0, sampling, 50, 3, solver, keep_states=True)
    x = run.server_models()
    bounds = efl_measured.gradient_bounds(problem, "C", 4, list(c.eta), c.rounds, x0[None], 1)
    assert np.linalg.norm(x, axis=-1).max() <= bounds.radius
    picks = np.random.default_rng(0).integers(0, 6, (4, 800, 1))
    y = np.broadcast_to(x.reshape(-1, 3)[:800], (4, 800, 3))
    g = problem.client_batch_gradient(y, picks)
    assert (g**2).sum(axis=-1).max() <= 4 * bounds.G_sq  # single draws; G bounds their mean square
    assert ((problem.client_gradient(y)) ** 2).sum(axis=-1).max() <= bounds.G_sq


def smaller_bound(view, share):
    made = efl_theorem.bound(view)
    return le(made.lhs, share * made.rhs, noise=made.noise)


@pytest.mark.parametrize("number", [0, 3, 4])
def test_real_runs_of_the_battery(number):
    real = [i for i in efl_run_battery.battery(0) if isinstance(i, RealInstance)]
    assert {i.E for i in real} == {1, 5, 10} and {i.clients for i in real} == {3, 10, 30, 100}
    view = real[number].view()
    assert view.distance_sq.shape[1] >= 200
    checks = {f.name: judge_view(THEOREM, f, view) for f in THEOREM.forms if view.applies(f) is None}
    assert {checks[n].verdict for n in ("repaired", "2 max", "sharpened")} == {"holds"}
    share = checks["repaired"].tightness / 2  # a bound that is twice too small is rejected by these very runs
    smaller = functools.partial(smaller_bound, share=share)
    assert judge_view(THEOREM, THEOREM.form("repaired"), view, sides=smaller).verdict == "violated"


def test_client_minima_are_certified_lower_bounds():
    problem = random_logistic(5, 4, samples=8, ridge=0.1, seed=3)
    lower = efl_measured.client_minima(problem)
    for k in range(5):
        best = problem.subset(np.array([k])).optimum()
        assert lower[k] <= best.value and lower[k] == pytest.approx(best.lower_bound, abs=1e-8)


# --- a problem of one's own -----------------------------------------------------------------------
def _verdicts(statement, problem, algorithm, **how):
    return {c.form: c for c in get(statement).verify(problem, algorithm, **how)}


def test_verify_on_quadratics_is_exact_and_prints_the_constants():
    problem = random_quadratic(3, 2, seed=1)
    checks = _verdicts("efl/theorem-1", problem, EFL(scheme="B", variant="none"), sampling=inactive(3, 4, 0.3), rounds=30)
    assert checks["repaired"].verdict == "holds" and checks["repaired"].mode == "exact"
    constants = checks["repaired"].where["constants"]
    assert constants["theta"] == 1 and constants["mu"] == pytest.approx(problem.mu_k.min()) and constants["E"] == 4
    assert checks["frozen anchors"].verdict == "not applicable"
    steps = _verdicts("efl/theorem-1-step-3", problem, EFL(scheme="B", variant="none"), sampling=inactive(3, 4, 0.3), rounds=3)
    assert steps["repaired"].verdict == "holds"


def test_verify_on_logistic_regression_is_statistical():
    problem = random_logistic(5, 3, ridge=0.5, seed=1)
    how = {"sampling": inactive(5, 3, 0.4), "rounds": 10, "local_solver": LocalSGD(3, 1.0, 2)}
    checks = _verdicts("efl/theorem-1", problem, EFL(scheme="C", variant="none"), **how)
    assert checks["repaired"].verdict == "holds" and checks["repaired"].mode == "statistical"
    assert "ball of radius" in checks["repaired"].where["constants"]["how"]["G_sq, sigma_sq"]


LOGISTIC = random_logistic(4, 3, ridge=0.5, seed=1)


@pytest.mark.parametrize(
    ("problem", "algorithm", "how", "reason"),
    [
        (LOGISTIC, EFL(lam=0.1), {}, "lambda = 0.1, the limit is 0"),
        (LOGISTIC, EFL(compressor=TopK(k=1)), {}, "no theorem under compression"),
        (random_logistic(4, 3, ridge=0.0, seed=1), EFL(variant="none"), {}, "mu_k = 0, the limit is > 0"),
        (random_logistic(2, 3, weights=[1.0, 0.0], seed=1), EFL(variant="none"), {}, "client 1 has p^k = 0"),
        (LOGISTIC, EFL(variant="none"), {"local_solver": LocalSGD(5, 1.0, noise_std=1.0)}, "unbounded noise"),
        (LOGISTIC, EFL(variant="none"), {"local_solver": LocalSGD(5, lambda t: 1.0)}, "Theorem 1 takes eta_0"),
        (LOGISTIC, EFL(variant="none"), {"mode": "exact"}, "exact expectations need quadratic losses"),
        (LOGISTIC, EFL(variant="none"), {"sampling": windows(inactive(4, 2, 0.1), {1: (None, 5)})}, "client 1 is not there in round 5"),
    ],
)
def test_the_assumption_that_fails_is_named(problem, algorithm, how, reason):
    checks = get("efl/theorem-1").verify(problem, algorithm, **how)
    assert {c.verdict for c in checks} == {"not applicable"}
    assert all(reason in c.reason for c in checks), checks[0].reason


def test_correlated_cohorts_are_measured():
    checks = _verdicts("efl/theorem-1", LOGISTIC, EFL(scheme="A", variant="none"), sampling=Uniform(2), rounds=8)
    assert checks["repaired"].verdict == "holds" and checks["repaired"].where["constants"]["theta"] == 4


def test_a_correlated_round_is_not_taken_for_an_independent_one():
    """Single laws are the same in all rounds, joint ones are not: in round 3 exactly one of two clients is active."""
    half = np.array([[0.5, 0.5], [0.5, 0.5]])
    law = Irregular(1, [half, half, JointLaw(np.array([[1, 0], [0, 1]]), [0.5, 0.5])])
    each = efl_measured.moments_of_rounds("A", law, 6, np.array([0.5, 0.5]))
    assert [m.sum_ps for m in each] == pytest.approx([0.75, 0.75, 1.0] * 2)
    problem, solver = random_quadratic(2, 2, seed=0), LocalSGD(1, 1.0)
    assert efl_verify.enumerable(problem, law, solver, 2) and not efl_verify.enumerable(problem, law, solver, 3)
    checks = get("efl/theorem-1").verify(problem, EFL(scheme="A"), sampling=law, local_solver=solver, rounds=6)
    assert {c.verdict for c in checks} == {"not applicable"}  # not judged on moments of independent clients


def test_the_search_draws_all_shapes():
    rng = np.random.default_rng(0)
    for kind in ("run", "step"):
        seen = [efl_run_battery.random_instance(kind, rng) for _ in range(60)]
        assert {i.scheme for i in seen} == {"A", "B", "C", "C-corrected"} and {i.clients for i in seen} >= {1, 2, 3}
        assert {i.participation for i in seen} >= {"rare", "full", "departure"} and {i.condition for i in seen} >= {1.0, 1e4}
        seen[0].view()
    assert efl_verify.STEPS == 5


@pytest.mark.parametrize("step", [3, 5])
def test_rounding_at_the_optimum_is_not_a_violation(step):
    """L/mu = 10^4 and a start at w*: function gaps are then rounding errors of gradients, divided by mu."""
    shape = {"clients": 3, "dim": 2, "E": 4, "rounds": 6, "scheme": "A", "participation": "departure", "kind": "step"}
    exact = {"condition": 1e4, "spread": 0.0, "noise": 0.0, "skew": 0.0, "start": 0.0}
    view = efl_run_battery.QuadraticInstance(299454382, **shape, **exact).view()
    statement = get(f"efl/theorem-1-step-{step}")
    assert judge_view(statement, statement.form("repaired"), view).verdict == "holds"
