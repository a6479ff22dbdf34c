"""EFL's statements other than Theorem 1: verdicts as recorded, mutants rejected, sharp constants attained, and the recursions behind
the views compared with the library's own algorithm."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction as F

import numpy as np
import pytest
from cases import each
from efl_on_a_problem import BUILDERS, KINDS, battery

from fedtheory import theorems
from fedtheory.algorithms.efl import EFL
from fedtheory.local.local_sgd import LocalSGD
from fedtheory.messages.compressors import ST
from fedtheory.participation.irregular import Irregular
from fedtheory.participation.moments import moments
from fedtheory.problems.quadratic import Quadratic
from fedtheory.report.formulas import to_text
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems.efl.after_shift_world import AfterShiftView
from fedtheory.theorems.efl.elastic_world import ElasticView
from fedtheory.theorems.efl.feedback_world import FeedbackView
from fedtheory.theorems.efl.limit_world import LimitView
from fedtheory.theorems.efl.quantities.exact_run import run_of
from fedtheory.theorems.efl.shift_world import DataShift, ShiftView
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.rounds.coefficients import RoundLaw

STATEMENTS = [s for s in theorems.all_statements("efl/") if any(f.kind in KINDS for f in s.forms)]
CASES = [(s, f) for s in STATEMENTS for f in s.forms if f.kind in KINDS]  # of runs: `test_theorem_1`
CLAIMS = [s for s in theorems.all_statements("efl/") if s.kind == "claim"]


def _name(x):
    return getattr(x, "id", getattr(x, "name", ""))


@pytest.fixture(scope="module")
def views():
    out = [i for i in battery(0, 0.9) if not isinstance(i, DataShift)]
    out += [DataShift("logistic", "departure", 4, 1), DataShift("least squares", "arrival", 3, 2)]
    out += [DataShift("breast cancer", "arrival", 4, 3)]
    found = {kind: [] for kind in KINDS}
    for instance in out:
        found[instance.kind].append((instance, instance.view()))
    return found


@pytest.mark.parametrize(("statement", "form"), CASES, ids=_name)
def test_verdicts_are_the_recorded_ones_and_mutants_are_rejected(statement, form, views):
    judged, rejected = dict.fromkeys(form.established, 0), {m.name: False for m in form.mutants}
    for instance, view in views[form.kind]:
        if view.rule not in form.established or view.applies(form) is not None:
            continue
        check = judge_view(statement, form, view, instance.name)
        assert check.verdict == "holds" or form.established[view.rule] == "violated", f"{check} {instance.name}"
        judged[view.rule] += 1
        for mutant in form.mutants:
            rejected[mutant.name] |= judge_view(statement, form, view, sides=mutant.sides).verdict == "violated"
    assert all(judged.values()), judged
    assert all(rejected.values()), rejected
    if "holds" in form.established.values():
        assert form.mutants


@pytest.mark.parametrize("seed", [2, 3, 4, 11])
def test_every_instance_of_a_battery_has_a_view(seed):
    """Laws that all clients share were put in after somebody was made complete under scheme A."""
    for instance in battery(seed):
        assert instance.kind != "limit" or instance.view().drift.any()


def test_views_of_data_are_certified(views):
    numeric = [v for i, v in views["shift"] if isinstance(i, DataShift)]
    assert len(numeric) == 3
    for view in numeric:
        assert 0 < view.mu < view.L and 0 < view.noise < 1e-6 * view.distance_sq


# --- Theorem 2 ------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_a", [F(1, 50), F(1), F(3), F(200)])
@pytest.mark.parametrize("L", [F(1), F(4), F(1000)])
def test_sharp_constants_are_attained_for_every_shape(n_a, L):
    """With equality, in fractions."""
    arrival = ShiftView.from_data({"event": "arrival", "samples": ["3", str(n_a)], "h": [["1"], [str(L)]], "c": [["0"], ["7"]]})
    assert arrival.distance_sq == 2 * L * n_a**2 * arrival.D_new / F(3) ** 2
    slope = 3 / n_a  # of -F_a at the joint optimum 1
    data = {"samples": ["3", str(n_a)], "h": [["1"], [str(L)]], "c": [["0"], [str(1 + slope / L)]], "bend": "1", "below": "1"}
    departure = ShiftView.from_data({"event": "departure", **data})
    n = 3 + n_a
    assert departure.distance_sq == 1 and departure.n == n
    assert 2 * L * n_a**2 * departure.D_new == (n - n_a) ** 2 + L * n_a * (2 * n - n_a)
    again = ShiftView.from_data({"event": "arrival", **data})  # the same pair of optima, read backwards
    assert (again.D_old, again.D_new, again.n) == (departure.D_new, departure.D_old, 3)


@pytest.mark.parametrize("n_a", [F(1), F(29, 10), F(3), F(31, 10), F(60)])
def test_the_printed_arrival_fails_exactly_where_more_samples_come_than_there_are(n_a):
    view = ShiftView.from_data({"event": "arrival", "samples": ["3", str(n_a)], "h": [["1"], ["5"]], "c": [["0"], ["1"]]})
    sides = theorems.get("efl/theorem-2-arrival").form("printed").sides(view)
    assert (sides.lhs > sides.rhs) == (n_a > 3)


def test_the_kept_step_halves_the_distance_in_rounds_proportional_to_its_age():
    for tau_0 in (0, 100):
        rounds = int(np.ceil((2 ** (1 / 16) - 1) * (tau_0 + 31)))
        data = {"curvature": ["1"], "start": ["1"], "mu": "1", "gamma": "31", "tau_0": tau_0, "rounds": rounds, "sigma_sq": "0"}
        assert float(AfterShiftView.from_data(data).errors(tau_0)[-1]) <= 0.25


# --- the recursions against the library -----------------------------------------------------------
def _diagonal(h, c, weights):
    return Quadratic(np.stack([np.diag(row) for row in np.asarray(h, float)]), np.asarray(c, float), np.asarray(weights, float))


def _always(E, schedule):
    """A law for each round (period = rows): client k does schedule[t][k] steps."""
    return Irregular(max_steps=E, laws=[np.eye(E + 1)[list(row)] for row in schedule])


@pytest.mark.parametrize("variant", ["consistent", "literal", "text", "after"])
def test_error_feedback_in_fractions_is_the_librarys(variant):
    schedule = [[2, 1], [0, 2], [1, 2]]
    data = {
        "variant": variant, "weights": ["1/4", "3/4"], "h": [["1", "1/2", "1"], ["1/2", "1", "3/4"]], "q": "1/3", "eta": "1/4", "E": 2,
        "c": [["1", "-2", "3"], ["-1", "2", "1/2"]], "x0": ["0", "1", "0"], "schedule": schedule, "rounds": 9,
    }  # fmt: skip
    exact = FeedbackView.from_data(data)
    problem = _diagonal(exact.losses.h, exact.losses.c, exact.weights)
    more = {"variant": "consistent", "scale": "after"} if variant == "after" else {"variant": variant}
    algorithm = EFL(scheme="C", compressor=ST(1 / 3), down_compressor=ST(1 / 3), **more)
    law, start, solver = _always(2, schedule), np.array([0.0, 1.0, 0.0]), LocalSGD(steps=2, lr=0.25)
    run = simulate(problem, algorithm, 9, start, law, local_solver=solver, keep_states=True, record=())
    ours = np.stack([np.asarray(s.x[0]) for s in run.states])
    assert np.abs(ours - exact.run[0].astype(float)).max() < 1e-12


def test_feedback_both_ways_can_diverge_at_a_step_of_1_over_L_and_not_at_a_small_one():
    """One client, one entry of four: why the mean tends to the optimum for small steps only."""
    problem, start = Quadratic(np.eye(4)[None], np.ones((1, 4))), np.zeros(4)
    algorithm = EFL(compressor=ST(0.25), down_compressor=ST(0.25))
    end = {}
    for lr in (1.0, 0.1):
        run = simulate(problem, algorithm, 60, start, _always(1, [[1]]), local_solver=LocalSGD(1, lr), keep_states=True, record=())
        end[lr] = np.abs(np.asarray(run.states[-1].x[0]) - 1).max()
    assert end[1.0] > 1e4 and end[0.1] < 1.0


def test_constants_of_the_claim_on_epochs_are_a_run_s():
    """Two clients that start at their optimum: E[B]/E^2 is the threshold with the constants of its witness."""
    at = BUILDERS["epochs"]({"noise": "3", "G_sq": "1", "kappa": "1", "E": 1, "T": 30})
    for E in (1, 2):
        law = [["0"] * E + ["1"]] * 2
        shape = {"h": [["1"], ["1"]], "c": [["1"], ["-1"]], "weights": ["1/2", "1/2"], "scheme": "B", "laws": [law]}
        constants = run_of({**shape, "w0": ["0"], "T": 30}).constants
        assert constants.start_sq == 0 and constants.G_sq == 1
        assert (constants.B() == at.threshold(E) * E**2).all()
        assert constants.gamma == max(4 * E, 64)
        C, J = (16 * E) ** 2 * constants.B()[0] / constants.S[0] ** 2, constants.J  # C_T = T C from w*, mu = 1
        assert 30 * C / (30 * E + constants.gamma) ** 2 / J == 16 * at.by_rule(E)  # (8), tau_0 = 0: f_1(T)/J
        assert C / (J * 30 * E) == F(16, 30) * at.threshold(E)  # (9)


def test_the_elastic_recursion_is_the_librarys():
    data = {
        "weights": ["1/4", "3/4"], "h": [["1", "1/2"], ["1/2", "1"]], "c": [["1", "-2"], ["-1", "2"]],
        "u": [["1", "1/2"], ["1/2", "1"]], "lam": "1/5", "eta": "1/2", "rounds": 0,
    }  # fmt: skip
    exact = ElasticView.from_data(data)
    problem = _diagonal(exact.h, exact.c, exact.weights)
    algorithm = EFL(lam=0.2, scheme="C", variant="none", fisher="gram")
    run = simulate(problem, algorithm, 60, np.array([3.0, -1.0]), local_solver=LocalSGD(steps=1, lr=0.5), keep_states=True, record=())
    state = run.states[1]  # from here on every client has reported its pair
    w, V = np.asarray(state.x[0]), np.asarray(state.v[0]).sum(axis=0)
    floats = ElasticView.from_data({**data, "arithmetic": "float"})
    for state in run.states[2:]:
        w, V = floats.round(w, V, 0.5)
        assert np.abs(np.asarray(state.x[0]) - w).max() < 1e-12
    assert np.abs(w - floats.fixed(0.5)).max() < 1e-6 < 0.1 < np.abs(w - floats.star).max()


@pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])
def test_moments_of_the_views_are_the_librarys(scheme):
    law = np.array([[F(1, 4), F(1, 4), F(1, 2)], [F(0), F(1, 3), F(2, 3)], [F(1, 2), F(0), F(1, 2)]], dtype=object)
    weights = np.array([F(1, 2), F(1, 3), F(1, 6)], dtype=object)
    first, second = RoundLaw(EFL(scheme=scheme), law, weights).single
    library = moments(scheme, law, 2, weights, exact=True)
    steps = np.arange(3)
    assert ((first * steps).sum(axis=1) == library.ps).all() and ((second * steps).sum(axis=1) == library.p2s).all()
    text = {"scheme": scheme, "weights": ["1/2", "1/3", "1/6"], "law": [[str(v) for v in row] for row in law]}
    rest = {"h": [["1"]] * 3, "c": [["0"], ["1"], ["2"]], "eta": "1", "x0": ["0"], "step": "2", "offset": "20", "rounds": 1}
    view = LimitView.from_data({**text, **rest})
    assert (view.limit == view.star).all() == library.ratio_equal


@dataclass(frozen=True)
class _Decaying:
    def __call__(self, round_index):
        return 4 / (round_index - 1 + 8)


def test_the_mean_of_many_runs_goes_where_the_limit_says():
    """Scheme B on two clients, one of them active half of the time: 400 scenarios against the exact mean."""
    data = {
        "scheme": "B", "weights": ["1/2", "1/2"], "h": [["1"], ["1/2"]], "c": [["0"], ["4"]],
        "law": [["0", "0", "1"], ["1/2", "0", "1/2"]], "eta": "1/2", "x0": ["1"], "step": "4", "offset": "8", "rounds": 30,
        "arithmetic": "float",
    }  # fmt: skip
    view = LimitView.from_data(data)
    problem = _diagonal(view.h, view.c, view.weights)
    law = Irregular(max_steps=2, laws=view.law)
    method, solver = EFL(scheme="B", variant="none"), LocalSGD(steps=2, lr=_Decaying())
    run = simulate(problem, method, 30, np.array([1.0]), law, 400, 7, local_solver=solver, keep_states=True, record=())
    last = np.asarray(run.states[-1].x)[:, 0]
    assert abs(last.mean() - view.run[-1, 0]) < 4 * last.std() / 20
    assert abs(view.limit[0] - view.star[0]) > 8 * last.std() / 20


# --- Table 1 and the claims -----------------------------------------------------------------------
def test_claims_that_cannot_be_proved_are_listed_as_such(capsys):
    from fedtheory.cli.explain import explain
    from fedtheory.cli.list import list_things

    assert {s.id for s in CLAIMS} == {"efl/claim-accuracy"}
    list_things("statements", True, None)
    listed = {s["id"]: s for s in json.loads(capsys.readouterr().out)}
    for claim in CLAIMS:
        assert listed[claim.id]["kind"] == "claim"
        assert [f["established"] for f in listed[claim.id]["forms"]] == [{"any": "open"}]
        assert not listed[claim.id]["runs_on_a_problem"] and "claim" in listed[claim.id]["why_not"]
        explain(claim.id, False, None)
        shown = " ".join(capsys.readouterr().out.split())
        assert "open" in shown and all(text and text in shown for text in (claim.title, claim.source, claim.shown_by))
        (only,) = claim.forms
        assert only.name == "printed" and only.sides is None and only.note and only.note in shown


@each(("statement", "form"), [(s, f) for s in [*STATEMENTS, *CLAIMS] for f in s.forms])
def test_formulas_are_readable_in_a_terminal(statement, form):
    assert "\\" not in to_text(form.latex) and len(to_text(form.latex)) > 5
