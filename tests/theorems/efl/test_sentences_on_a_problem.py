"""EFL's sentences on a problem of a user's: verdicts, the numbers of the fractions, and what is missing named."""

from __future__ import annotations

from fractions import Fraction as F

import efl_instances as worked
import numpy as np
import pytest
from efl_on_a_problem import BOTH_WAYS, BUILDERS, DIAGONAL, LAW, LOGISTIC, MIXED, ST, TWO, checks_of, view_of

from fedtheory import problems
from fedtheory.algorithms import EFL, FedAvg
from fedtheory.local import LocalSGD
from fedtheory.participation.activity import Away, varying
from fedtheory.participation.cohorts import Uniform
from fedtheory.participation.irregular import Irregular, complete, inactive, windows


def verdicts(statement, problem, algorithm=None, **how):
    return {name: check.verdict for name, check in checks_of(statement, problem, algorithm, **how).items()}


def test_the_elastic_term_of_a_real_run():
    found = verdicts("elastic-rearrangement", LOGISTIC, EFL(lam=0.3), sampling=inactive(3, 1, 0.4), rounds=6, seed=2)
    assert [found[name] for name in ("printed", "Z", "elastic gradient")] == ["holds"] * 3
    assert found["one Z for all rounds"] == "violated"
    for method, reason in ((EFL(), "lambda = 0"), (FedAvg(), "lambda = 0")):
        assert all(reason in c.reason for c in checks_of("elastic-rearrangement", LOGISTIC, method).values())
    assert "ask for more rounds" in checks_of("elastic-rearrangement", LOGISTIC, EFL(lam=0.3), rounds=1)["Z"].reason


@pytest.mark.parametrize(
    ("variant", "holding", "failing"),
    [
        ("literal", ("printed, second line", "repaired"), ("printed", "up to s-1", "with R^k")), ("text", (), ("text of 3.1",)),
        ("consistent", ("repaired, consistent form",), ()),
    ],
)  # fmt: skip
def test_the_servers_step_of_a_real_run(variant, holding, failing):
    """Mini-batches, clients that do part of the work, a step that decays: the residuals are the run's own."""
    problem = problems.random_least_squares(3, 4, samples=6, ridge=0.1, seed=1)
    law = Irregular(2, [[0.2, 0.4, 0.4]] * 3)
    solver = LocalSGD(2, lambda t: 0.1 / t, batch_size=2)
    method = EFL(compressor=ST, down_compressor=ST, variant=variant)
    found = verdicts("server-step", problem, method, sampling=law, local_solver=solver, rounds=8)
    assert all(found[name] == "holds" for name in holding) and all(found[name] == "violated" for name in failing)
    assert {v for name, v in found.items() if name not in (*holding, *failing)} == {"not applicable"}


def test_without_compression_the_third_line_lacks_one_thing_only():
    found = verdicts("server-step", DIAGONAL, EFL(variant="literal"), local_solver=LocalSGD(2, 0.1), rounds=4)
    assert found["up to s-1, nothing left out"] == found["up to s-1"] == "holds" and found["printed"] == "violated"


def test_costs_of_a_real_run_are_the_rounds_it_takes():
    """The dense run of both clients is at the optimum after one step of 1/L; ST with one of two entries needs more."""
    problem = problems.Quadratic([np.eye(2)] * 2, [[1.0, 1.0], [3.0, 1.0]], [0.5, 0.5])
    view = view_of("costs", "gradients to converge", problem, BOTH_WAYS, local_solver=LocalSGD(1, 1.0), rounds=12)
    assert view.costs.steps_to(view.costs.dense_distance_sq) == 2
    ours = checks_of("costs", problem, BOTH_WAYS, local_solver=LocalSGD(1, 1.0), rounds=12)
    assert ours["gradients to converge"].verdict == "violated" and ours["bits a round, at least"].verdict == "holds"
    assert "ST both ways" in checks_of("costs", problem, EFL())["bits a round"].reason


def test_runs_with_one_client_away_are_those_of_the_fractions():
    h, c = (np.array([[float(v) for v in row] for row in worked.AWAY[k]]) for k in ("h", "c"))
    weights = [1 / 2, 1 / 3, 1 / 6]
    problem = problems.Quadratic([np.diag(row) for row in h], c, weights)
    given = {"client": 2, "gamma": 50.0, "mu": 1.0}
    view = view_of("tolerance", "one absence", problem, EFL(), x0=[5.0, -4.0], rounds=3, given=given)
    exact = BUILDERS["away"](worked.AWAY)
    for name, arguments in (("absences", (view.x0,)), ("departures", (view.x0,)), ("waiting", (True,)), ("waiting", (False,))):
        theirs = getattr(exact, name)(*(exact.x0 if a is view.x0 else a for a in arguments))
        np.testing.assert_allclose(getattr(view, name)(*arguments), theirs.astype(float), rtol=1e-10, atol=1e-12)
    assert verdicts("staleness", problem, rounds=3)["all others"] == "holds"
    mixed = checks_of("departure-early-or-late", MIXED, sampling=inactive(2, 1, [0.0, 0.5]))
    assert mixed["from the optimum"].verdict == "not applicable" and "do not mix" in mixed["from the optimum"].reason
    assert mixed["through the bounds"].verdict == "holds"
    assert "no quadratic loss" in checks_of("staleness", LOGISTIC)["bound"].reason
    assert "at least two" in checks_of("staleness", TWO, rounds=1)["bound"].reason


def test_coefficients_of_a_client_that_stops_early():
    found = verdicts("coefficient-as-step", MIXED, sampling=complete(2, 4), given={"s": 2}, x0=[3.0, 0.0])
    assert [found[n] for n in ("further", "by how much", "at least compensates", "at most")] == ["holds"] * 4
    assert found["equivalent"] == found["compensates"] == "violated" and found["one local step"] == "not applicable"
    reason = checks_of("coefficient-as-step", TWO, sampling=complete(2, 4), local_solver=LocalSGD(4, 0.9))["further"].reason
    assert "the limit here is 0.25" in reason


def test_the_conclusion_of_theorem_2_on_a_problem():
    found = verdicts("theorem-2-conclusion", DIAGONAL)
    assert found["(11) repaired, fewer samples"] == found["(10), fewer samples"] == found["more alike"] == "holds"


@pytest.mark.parametrize("event", ["departure", "arrival"])
def test_a_run_across_a_shift_is_that_of_the_fractions(event):
    """The worked instance without noise, given as floats with a window."""
    data = {**worked.RESTART, "event": event, "noise": [["0"], ["0"], ["0"]]}
    exact = BUILDERS["restart"](data)
    problem = problems.Quadratic([[[1.0]], [[2.0]], [[3.0]]], [[1.0], [-1.0], [2.0]], [1 / 2, 1 / 3, 1 / 6])
    law = windows(Irregular(1, [[0.25, 0.75], [0.0, 1.0], [0.5, 0.5]]), {2: (None, 3) if event == "departure" else (3, None)})
    view = view_of("shift-bound", "fresh start", problem, EFL(scheme="B"), sampling=law, rounds=4, x0=[3.0])
    for leg in ("before", "before_kept", "fresh", "kept"):
        ours, theirs = getattr(view, leg), getattr(exact, leg)
        np.testing.assert_allclose(ours.distance_sq, theirs.distance_sq.astype(float), rtol=1e-10)
        np.testing.assert_allclose(sum(ours.terms(1.0)), sum(theirs.terms(1)).astype(float), rtol=1e-10)
    assert view.moved() == pytest.approx(float(exact.moved()), rel=1e-10)
    assert {c.verdict for c in checks_of("shift-bound", problem, EFL(scheme="B"), sampling=law, rounds=4).values()} == {"holds"}


@pytest.mark.parametrize(
    ("problem", "how", "missing"),
    [
        (DIAGONAL, {"sampling": Uniform(2)}, "clients that depend on each other"),
        (DIAGONAL, {"sampling": windows(complete(3, 1), {0: (None, 5), 1: (3, None)})}, "several clients come or go"),
        (DIAGONAL, {"sampling": windows(complete(3, 1), {0: (None, 5)}), "given": {"tau_0": 7}}, "client 0's window leaves 4 rounds"),
        (DIAGONAL, {"rounds": 1}, "a round before it and after it"),
        (LOGISTIC, {}, "exact moments need quadratic losses"),
    ],
)
def test_what_a_shift_needs_is_named(problem, how, missing):
    for check in checks_of("shift-bound", problem, **how).values():
        assert check.verdict == "not applicable" and missing in check.reason


def test_the_order_of_c_on_a_law_that_changes():
    found = verdicts("order-of-c", DIAGONAL, sampling=varying(LAW, {2: Away(4, 9)}), rounds=12)
    assert set(found.values()) == {"holds"}


def test_the_order_of_c_on_real_runs():
    """Runs in scenarios: both sides are numbers of Theorem 1's constants, the same in every scenario."""
    found = checks_of("order-of-c", LOGISTIC, sampling=LAW, rounds=5, scenarios=20)
    assert {c.verdict for c in found.values()} == {"holds"} and {c.mode for c in found.values()} == {"statistical"}


def test_clients_selected_with_probability_p_k_and_weighted_by_it_count_with_its_square():
    """Algorithm 1's header read literally, scheme B: p = (1/2, 1/3, 1/6), h = (1, 2, 3), minimisers 1, -1, 2."""
    data = {
        "scheme": "B", "weights": ["1/2", "1/3", "1/6"], "h": [["1"], ["2"], ["3"]], "c": [["1"], ["-1"], ["2"]], "eta": "1/10",
        "law": [["1/2", "1/2"], ["2/3", "1/3"], ["5/6", "1/6"]], "x0": ["0"], "step": "10", "offset": "100", "rounds": 1,
    }  # fmt: skip
    squares = [F(1, 4) * 1, F(1, 9) * 2, F(1, 36) * 3]
    view = BUILDERS["limit"](data)
    assert view.limit[0] == (squares[0] - squares[1] + 2 * squares[2]) / sum(squares) == F(7, 20) != view.star[0]
