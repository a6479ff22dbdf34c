"""Cases that EFL makes of a command's words: problem, participation, method, work, headline."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from efl_on_a_problem import SETTING

from fedtheory import problems
from fedtheory.algorithms import EFL
from fedtheory.cli.request import CommandRequest
from fedtheory.errors import InvalidInput
from fedtheory.local import Constant, InverseTime, LocalSGD
from fedtheory.theorems import get
from fedtheory.theorems.efl.world import constants_told, number_told

CLIENTS = problems.Quadratic([np.diag([1.0, 2.0]), np.diag([2.0, 0.5]), np.diag([1.5, 1.0])], [[1.0, -1.0], [0.5, 2.0], [-2.0, 0.25]])
ROWS = problems.random_least_squares(3, 2, samples=4, ridge=0.5, seed=1)


def prepared(statement, made=CLIENTS, how=(), **options):
    """The case, with what every request says among its options."""
    request = CommandRequest({"given": None, **options}, made=made, **dict(how))
    found = SETTING.prepare(get(f"efl/{statement}"), request)
    return replace(found, options=request.how(found))


# --- statements that are judged without Monte Carlo -----------------------------------------------
def test_a_statement_about_a_limit():
    how = {"rounds": 7, "seed": 3}
    found = prepared("scheme-limit", how=how, scheme="B", inactive="0.25", local_steps=3, start="1,2", given={"y": 1})
    assert found.problem is CLIENTS and found.algorithm == EFL(scheme="B")
    law = found.options.pop("sampling")
    assert law.max_steps == 3 and law.law(1).tolist() == [[0.25, 0, 0, 0.75]] * 3
    assert found.options.pop("x0").tolist() == [1, 2]
    said = {"rounds": 7, "seed": 3, "given": {"y": 1}, "mode": "auto", "scenarios": 1000}
    assert found.options == {"local_solver": None, **said}
    assert found.head == ["quadratic: N = 3, inactive with probability 0.25, d = 2, scheme B, E = 3"]
    assert found.details == {"scheme": "B", "sampling": repr(law), "local_solver": "None", "rounds": 7}
    assert found.facts(()) == []


def test_where_nothing_is_said():
    """E = 5 or the kind's own, its own method, no rounds: the statement says how many it takes."""
    plain = prepared("scheme-limit")
    assert plain.options["sampling"].max_steps == 5 and plain.options["rounds"] is None and not plain.options["given"]
    assert plain.options["x0"].tolist() == [0, 0] and plain.head == ["quadratic: N = 3, P = 3, d = 2, scheme C, E = 5"]
    elastic = prepared("elastic-fixed-point")
    assert elastic.options["sampling"].max_steps == 1 and elastic.algorithm.lam == 0.1
    assert prepared("elastic-fixed-point", lam=0.3, local_steps=2).algorithm.lam == 0.3
    compressed = prepared("residual-invariant").algorithm
    assert (compressed.compressor.q, compressed.down_compressor.q) == (0.25, 0.25)
    assert SETTING.prepare(get("efl/scheme-limit"), CommandRequest({}, problem_name=None)).problem.name == "quadratic"


@pytest.mark.parametrize(
    ("options", "solver"),
    [
        ({"local_lr": 0.125}, LocalSGD(5, 0.125)), ({"batch_size": 3, "local_lr": 0.5}, LocalSGD(5, 0.5, 3)),
        ({"lr_schedule": "inverse", "local_lr": 0.5, "lr_delay": 4.0}, LocalSGD(5, InverseTime(0.5, 4.0))),
    ],
)  # fmt: skip
def test_local_work_that_is_asked_for(options, solver):
    found = prepared("scheme-limit", ROWS, **options)
    assert found.options["local_solver"] == solver and found.details["local_solver"] == repr(solver)


def test_any_word_about_local_work_asks_for_it():
    assert prepared("scheme-limit", ROWS, batch_size=3).options["local_solver"].batch_size == 3
    assert prepared("scheme-limit", noise=0.25).options["local_solver"].noise_std == 0.25
    assert callable(prepared("scheme-limit", lr_schedule="inverse").options["local_solver"].lr)
    with pytest.raises(InvalidInput, match="--lr-delay 4 is for --lr-schedule inverse"):
        prepared("scheme-limit", lr_delay=4.0)


def test_rounds_count_where_clients_come_and_go():
    """T = 50 where nothing is said."""
    assert "client 2 there from round 50" in prepared("departure-heterogeneity", arrival="2@50").head[0]
    with pytest.raises(InvalidInput, match="arrives in round 51 of a run of 50"):
        prepared("departure-heterogeneity", arrival="2@51")
    with pytest.raises(InvalidInput, match="arrives in round 9 of a run of 8"):
        prepared("departure-heterogeneity", arrival="2@9", how={"rounds": 8})
    steps = prepared("scheme-limit", lr_schedule="theorem", activity="0:away=1-60", how={"rounds": 61}).options["local_solver"].lr
    assert len(set(steps.S)) == 2


def test_statements_without_runs_refuse_a_mode():
    with pytest.raises(InvalidInput, match=r"--mode monte-carlo: efl/scheme-limit is judged without Monte Carlo; leave it out"):
        prepared("scheme-limit", how={"mode": "monte-carlo"})


# --- the client that Theorem 2 moves --------------------------------------------------------------
@pytest.mark.parametrize(
    ("event", "word", "client", "moves", "there"),
    [
        ("departure", None, 2, "leaves", [True, False]), ("arrival", None, 2, "joins the others", [False, True]),
        ("departure", "1", 1, "leaves", [True, False]), ("arrival", "0@9", 0, "joins the others", [False, True]),
    ],
)  # fmt: skip
def test_one_client_moves(event, word, client, moves, there):
    found = prepared(f"theorem-2-{event}", how={"seed": 3}, start="1,2", **({} if word is None else {event: word}))
    assert found.head == [f"quadratic: N = 3, d = 2, client {client} {moves}"]
    assert found.details == {"event": event, "client": client} and found.problem is CLIENTS and found.algorithm == EFL()
    law = found.options["sampling"]
    present = [np.ones(3, dtype=bool) if law.present_in(t) is None else law.present_in(t) for t in (1, 2)]
    assert law.max_steps == 1 and [bool(p[client]) for p in present] == there
    assert all(np.delete(p, client).all() for p in present) and (law.law(1) == [0, 1])[np.arange(3) != client].all()
    assert found.options["seed"] == 3 and found.options["x0"].tolist() == [1, 2]
    assert found.facts([SimpleNamespace(where={"n_a": 2})]) == [("n_a", "2")] and found.details["constants"] == {"n_a": 2}


@each(
    ("options", "how", "said"),
    [
        ({"lam": 0.5}, {}, "--lam 0.5: efl/theorem-2-departure is about two optima, whatever the algorithm; leave it out"),
        ({}, {"rounds": 4}, "--rounds 4: efl/theorem-2-departure is about two optima, not about a run; leave it out"),
        ({}, {"mode": "exact"}, "--mode exact: efl/theorem-2-departure is about two optima, not about a run"),
        ({"inactive": "0.3"}, {}, "--inactive 0.3: efl/theorem-2-departure is about two optima, not about a run"),
        ({"incomplete": "uniform"}, {}, "--incomplete uniform: "), ({"activity": "0:shrink=0.5"}, {}, "--activity 0:shrink=0.5: "),
        ({"arrival": "1@3"}, {}, "--arrival 1@3: "), ({"local_steps": 2}, {}, "--local-steps 2: "),
        ({"local_lr": 0.5}, {}, "--local-lr 0.5: "), ({"batch_size": 2}, {}, "--batch-size 2: "), ({"noise": 0.5}, {}, "--noise 0.5: "),
        ({"lr_schedule": "inverse"}, {}, "--lr-schedule inverse: "), ({"lr_delay": 3.0}, {}, "--lr-delay 3: "),
        ({}, {"participants": 2}, "--participants 2: efl/theorem-2-departure is about two optima, not about a run; leave it out"),
        ({"departure": "x@3"}, {}, "--departure x@3: give the client, as in --departure 2"),
    ],
)  # fmt: skip
def test_what_two_optima_do_not_depend_on_is_refused(options, how, said):
    with pytest.raises(InvalidInput) as caught:
        prepared("theorem-2-departure", how=how, **options)
    assert said in str(caught.value)


def test_the_other_event_of_an_arrival_is_a_departure():
    with pytest.raises(InvalidInput, match="--departure 1@3: efl/theorem-2-arrival is about two optima"):
        prepared("theorem-2-arrival", departure="1@3")


# --- runs of Theorem 1 ----------------------------------------------------------------------------
def test_a_run():
    how = {"rounds": 7, "seed": 3, "mode": "monte-carlo", "scenarios": 40}
    found = prepared("theorem-1", ROWS, how, scheme="A", incomplete="0,1/2,1/2", local_steps=2, start="1,2", batch_size=3)
    law, x0 = found.options.pop("sampling"), found.options.pop("x0")
    assert law.max_steps == 2 and law.law(1).tolist() == [[0, 0.5, 0.5]] * 3 and x0.tolist() == [1, 2]
    solver = LocalSGD(2, 1.0, 3)
    assert found.options == {"local_solver": solver, "given": None, **how}
    head = "least squares: N = 3, local steps 0,1/2,1/2, d = 2, scheme A, E = 2 local steps, mini-batches of 3, T = 7"
    assert found.head == [head] and found.problem is ROWS and found.algorithm == EFL(scheme="A")
    assert found.details == {"scheme": "A", "sampling": repr(law), "local_solver": repr(solver), "rounds": 7}


def test_a_run_of_which_nothing_is_said():
    found = prepared("theorem-1")
    assert found.head == ["quadratic: N = 3, P = 3, d = 2, scheme C, E = 5 local steps, T = 50"]
    assert found.options["rounds"] == 50 and found.options["local_solver"] == LocalSGD(5, 1.0) and found.options["mode"] == "auto"
    noisy = prepared("theorem-1", noise=0.25, lr_schedule="theorem")
    assert noisy.options["local_solver"] == LocalSGD(5, 1.0, noise_std=0.25) and "noise of norm 0.25, T = 50" in noisy.head[0]
    assert prepared("theorem-1-step-2").head == prepared("theorem-1-step-7").head == found.head
    check = SimpleNamespace(where={"constants": {"G_sq": 4.0}})
    assert found.facts([check]) == [("G^2", "4")] and found.details["constants"] == {"G_sq": 4.0} and not check.where
    with pytest.raises(InvalidInput, match="arrives in round 51 of a run of 50"):
        prepared("theorem-1", arrival="2@51")


def test_a_step_size_that_is_not_the_theorems_is_a_schedule():
    """It is compared with the theorem's step, so that a constant one is a function of the round, too."""
    constant = prepared("theorem-1", lr_schedule="constant", local_lr=0.125).options["local_solver"]
    assert constant == LocalSGD(5, Constant(0.125))
    inverse = prepared("theorem-1", lr_schedule="inverse", local_lr=0.5, lr_delay=4.0).options["local_solver"]
    assert inverse == LocalSGD(5, InverseTime(0.5, 4.0))
    own = prepared("theorem-1", lr_schedule="inverse", scheme="C-corrected", inactive="0.5").options["local_solver"].lr
    assert own.lr == pytest.approx(1 / (2 * 2)) and own.delay == pytest.approx(2 / (own.lr * 0.5 * 5))  # 1/P(s > 0) times L
    for schedule in ({}, {"lr_schedule": "theorem"}):
        with pytest.raises(InvalidInput, match=r"--local-lr 0\.125: Theorem 1 says what the step is; leave it out \(with --lr-sch"):
            prepared("theorem-1", local_lr=0.125, **schedule)


# --- the constants above the table ----------------------------------------------------------------
def test_constants_are_taken_out_of_the_checks():
    how = {"D": "certified"}
    constants = {"G_sq": 4.0, "N": 3, "rounds": 7, "B_max": None, "mu": 0.123456789, "how": how}
    first = {"constants": constants, "horizons": [1], "index": [2]}
    second = {"n": 3, "n_a": 1, "L": 2.5, "mu": 0.5, "D_new": 0.25, "D_old": 0.75, "other": 1}
    checks, details = [SimpleNamespace(where=first), SimpleNamespace(where=second), SimpleNamespace(where={})], {"scheme": "C"}
    rows = constants_told(details, checks)
    assert rows == [
        ("G^2", "4"), ("mu", "0.5"), ("n", "3"), ("n_a", "1"), ("L", "2.5"), ("D_a, new optimum", "0.25"), ("D_a, old optimum", "0.75"),
        ("how: D", "certified"),
    ]  # fmt: skip
    assert [c.where for c in checks] == [{"index": [2]}, {"other": 1}, {}]
    assert set(details) == {"scheme", "constants"} and details["constants"]["B_max"] is None and details["constants"]["how"] == how
    assert constants_told({}, [SimpleNamespace(where={"horizons": [1]})]) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1 / 3, "0.333333"), (7, "7"), ("exact", "exact"), ([0.5], "0.5"), ([0.5, 0.5], "0.5 (all clients)"), ([0.5, 1.0], "0.5, 1"),
        ({"min": 1 / 3, "max": [2.0, 3.0]}, "min 0.333333, max 2, 3"),
    ],
)  # fmt: skip
def test_numbers_of_the_constants(value, text):
    assert number_told(value) == text
