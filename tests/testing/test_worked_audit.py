"""Limits of the audit's checks from both sides."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory.testing.audit import METHODS, AuditReport, Finding, convergence, streams, theory
from fedtheory.testing.audit.adapters import Adapter, AdapterError, Outcome
from fedtheory.testing.audit.battery import clients_of, start_of
from fedtheory.testing.audit.clients import Client, Task
from fedtheory.testing.audit.comparisons import _simpler, _stretched, against_reference
from fedtheory.testing.audit.convergence import contraction
from fedtheory.testing.audit.mistakes import MISTAKES
from fedtheory.testing.audit.session import Comparison, Session
from fedtheory.testing.audit.streams import _drawn, _in_order, _shared

LESS, MORE = 0.999, 1.001


# --- where a long run goes ------------------------------------------------------------------------
def settled(monkeypatch, away, factor=0.5, error=0.0, rtol=1e-9, **method):
    """The finding of a run that is away(t) of the first distance, 5, off, and its rounds."""
    x, along, asked = np.array([1.0, -1.0]), np.array([0.6, 0.8]), []
    exact, taken = method.pop("exact", False), method.pop("takes", True)

    def optimum(clients, weighting):
        assert weighting == ("uniform" if told["aim"] else "as asked")
        return x, error

    monkeypatch.setattr(convergence, "optimum", optimum)
    monkeypatch.setattr(convergence, "contraction", lambda name, task: factor)

    def call(task):
        rounds = len(task.cohorts)
        asked.append(rounds)
        assert task.settings.get("local_steps") == (None if told["aim"] else 1)
        found = away(rounds) if callable(away) else away
        if isinstance(found, Exception):
            raise found
        return SimpleNamespace(models={t: x + 5 * a * along for t, a in found.items()})

    told = {"name": "scaffold", "aim": "optimum", **method}
    session = SimpleNamespace(
        method=SimpleNamespace(**told), exact=exact, can=lambda s: taken, seed=0, rtol=rtol,
        call=call,
        task=lambda clients, cohorts, **over: SimpleNamespace(
            start=x + 5 * along, cohorts=cohorts, settings={"weighting": "as asked", **over}
        ),
    )  # fmt: skip
    finding = convergence.CONVERGES.look(session, "convergence")
    return finding, asked


@pytest.mark.parametrize(
    ("factor", "rounds"),
    [
        (1e-12, 40), (0.5, 40), (0.6, 41), (0.9, 197), (0.98, 1026), (0.985, 1372), (0.99, 1400),
        (0.9901, None),
    ],
)  # fmt: skip
def test_rounds_until_a_billionth_of_the_distance_is_left(factor, rounds, monkeypatch):
    found, asked = settled(monkeypatch, lambda last: {last: 0.0}, factor)
    assert asked == ([] if rounds is None else [rounds])
    assert found.verdict == ("pass" if rounds else "does not apply")


@pytest.mark.parametrize(
    ("allowed", "how"),
    [
        (1e-6, {}), (1e-3, {"rtol": 1e-4}), (1e-3, {"error": 5e-4}),
        (100 * 0.99**1400, {"factor": 0.99}),
    ],
)  # fmt: skip
def test_how_near_the_optimum_a_run_must_end(allowed, how, monkeypatch):
    for share, verdict in ((LESS, "pass"), (MORE, "fail"), (math.nan, "fail")):
        found, _ = settled(monkeypatch, lambda last, a=share * allowed: {1: 1.0, last: a}, **how)
        assert found.verdict == verdict
    assert f"at most {allowed:.1e} of the first distance" in found.expected


def test_how_fast_a_run_must_go_there(monkeypatch):
    """A tenth of the way from the factor of the method to 1 is left to it."""
    for factor in (0.5, 0.8):
        limit = factor + 0.1 * (1 - factor)
        for share, verdict in ((LESS, "pass"), (MORE, "fail")):
            run = lambda last, g=share * limit: {t: g**t for t in range(1, last + 1)}  # noqa: E731
            found, _ = settled(monkeypatch, run, factor)
            assert found.verdict == verdict
            assert float(found.got.split("by ")[1].split()[0]) == pytest.approx(
                share * limit, abs=1e-4
            )


@pytest.mark.parametrize(
    ("first", "at", "low", "how", "seen"),
    [
        (4, 0.05, 0.05, {}, True), (3, 0.05, 0.05, {}, False), (4, 0.0999, 0.05, {}, True),
        (4, 0.1001, 0.05, {}, False), (4, 0.05, 2.01e-8, {}, True), (4, 0.05, 1.99e-8, {}, False),
        (4, 0.05, 2.01e-4, {"rtol": 1e-5}, True), (4, 0.05, 1.99e-4, {"rtol": 1e-5}, False),
        (4, 0.05, 2.01e-4, {"error": 5e-5}, True), (4, 0.05, 1.99e-4, {"error": 5e-5}, False),
        (4, 0.05, 2.01e-12, {"rtol": 1e-15}, True), (4, 0.05, 1.99e-12, {"rtol": 1e-15}, False),
    ],
)  # fmt: skip
def test_from_which_models_the_speed_is_read(first, at, low, how, seen, monkeypatch):
    """Ten of them after round 3, between a tenth and 20 times what is not told from 0.

    They do not shrink at all, so that whoever reads a speed finds it too slow.
    """
    models = {first: at, **{first + i: 0.05 for i in range(1, 9)}, first + 9: low, 40: 0.0}
    if low < 0.05:  # rises again: slower still
        models = {first: low, **{first + i: 0.05 for i in range(1, 10)}, 40: 0.0}
    found, _ = settled(monkeypatch, models, **how)
    assert found.verdict == ("fail" if seen else "pass")
    assert ("cannot be seen" in found.hint) is not seen


def test_whose_runs_are_held_to_the_optimum(monkeypatch):
    gone = {40: 0.0}
    assert settled(monkeypatch, gone, name="fedavg", aim="")[0].verdict == "pass"
    assert settled(monkeypatch, gone, name="fedavgm", aim="")[0].verdict == "pass"
    assert settled(monkeypatch, gone, name="fedprox", aim="")[0].verdict == "does not apply"
    for how in ({"exact": True}, {"takes": False}):
        assert settled(monkeypatch, gone, **how)[0].verdict == "pass"
        found = settled(monkeypatch, gone, name="fedavg", aim="", **how)[0]
        assert found.verdict == "does not apply" and "several local steps" in found.hint
    failed = settled(monkeypatch, AdapterError("not finite", "NaN after round 3"))[0]
    assert failed.got == "diverged: NaN after round 3" and not failed.unfinished
    raised = settled(monkeypatch, AdapterError("raises", "ValueError"))[0]
    assert raised.got == "raises: ValueError" and raised.unfinished


def test_the_contraction_of_methods_with_a_memory_by_their_eigenvalues():
    """One local step with everybody, on the eigenvectors of the mean Hessian with eigenvalue h.

    SCAFFOLD: x -> (1 - s eta h) x - s eta e, where e = c - mean c_k stays and c_k -> grad f_k(x).
    FedAvgM: (x, m) -> (x + s m+, m+), m+ = beta m - eta h x.
    """
    eta, s, clients = 0.15, 0.9, clients_of("squared", 0)
    rows = [c.features.T @ c.features / len(c.labels) for c in clients]
    everyone = ((0, 1, 2, 3, 4),)

    def found(name):
        session = Session(Adapter(constant(lambda *_: START)), METHODS[name], {}, None, 5.0, 0)
        return contraction(name, session.task(clients, everyone, server_lr=s, local_steps=1))

    low = np.linalg.eigvalsh(np.mean(rows, axis=0))
    assert found("scaffold") == pytest.approx(max(abs(1 - s * eta * low)), rel=1e-9)
    beta, sizes = 0.7, np.array([5, 11, 7, 14, 8])
    pairs = []
    for h in np.linalg.eigvalsh(np.average(rows, axis=0, weights=sizes)):
        trace = 1 - s * eta * h + beta  # and the determinant is beta
        root = np.sqrt(complex(trace**2 - 4 * beta))
        pairs += [abs(trace + root) / 2, abs(trace - root) / 2]
    assert found("fedavgm") == pytest.approx(max(pairs), rel=1e-9)


@pytest.mark.parametrize(("off", "factor"), [(0.95e-7, 0.5), (1.05e-7, 1 - 1.05e-7)])
def test_what_no_round_changes_has_an_eigenvalue_within_a_ten_millionth_of_1(
    off, factor, monkeypatch
):
    def turned(asked):
        return {"x": np.diag([1 - off, 0.5, -0.3, 0.2]) @ asked.x + 1}

    monkeypatch.setitem(convergence.reference.REFERENCES, "fedavg", turned)
    task = Task(clients_of("squared", 0), np.ones(4), ((0, 1),), {})
    assert contraction("fedavg", task) == pytest.approx(factor, rel=1e-9)


# --- what agrees with the reference ---------------------------------------------------------------
def test_numbers_agree_relative_to_the_largest_on_the_way():
    """1, the start, or any state of that name up to the round."""
    task = Task((), np.array([-3.0, 1.0]), ((0,), (0,)), {})
    at = lambda x, c: {"x": np.array([x, 0.0]), "c": np.array([0.0, c])}  # noqa: E731
    for states, scale in (
        ([at(0, 0), at(1, 0), at(-2, 0)], 3), ([at(0, 0), at(-7, 0), at(1, 0)], 7),
        ([at(0, 0), at(1, 9), at(5, 9)], 5),
    ):  # fmt: skip
        for share, same in ((LESS, True), (MORE, False)):
            models = {1: states[1]["x"], 2: states[2]["x"] + [0.0, -share * scale * 1e-3]}
            made = Comparison("a", task, states, Outcome(models), None, 1e-3)
            assert made.agrees is same
            first = next(made.differences(states), None)
            assert first is None if same else (first[0], first[1]) == (2, "x")
    small = Task((), np.array([0.5, 0.1]), ((0,),), {})
    for share, same in ((LESS, True), (MORE, False)):
        found = {"x": np.zeros(2), "c": np.array([0.0, share * 1e-3])}
        made = Outcome({1: np.zeros(2)}, [found])
        assert Comparison("a", small, [at(0, 0)] * 2, made, None, 1e-3).agrees is same
    nan = [at(0, 0), at(math.nan, 0)]
    assert not Comparison("a", small, nan, Outcome({1: np.zeros(2)}), None, 1e9).agrees


def test_a_model_that_went_so_many_times_as_far_is_told_so():
    right, across = np.array([1.2, 1.6]), np.array([1.6, -1.2])
    start = np.array([2.0, -1.0])

    def told(move, rounds=1, what="x", wanted=right):
        c = SimpleNamespace(task=SimpleNamespace(rounds=rounds, start=start))
        return _stretched(c, start + move, start + wanted, what)

    assert "moves 1.5 times as far" in told(1.5 * right + LESS * 1e-6 * across)
    assert told(1.5 * right + MORE * 1e-6 * across) == ""
    for share, says in ((0.99, "no more than single precision"), (1.01, "times as far")):
        assert says in told(right * (1 + share * 1e-5)) and says in told(right * (1 - share * 1e-5))
    assert "does not move at all" in told(0.95e-9 * right) and "1.05e-09" in told(1.05e-9 * right)
    assert "-1 times" in told(-right)
    assert told(right, rounds=2) == told(right, what="c") == told(right, wanted=0 * right) == ""


def test_the_worst_entry_of_the_first_difference_is_shown():
    task = Task((), np.zeros(2), ((0,), (1,)), {})
    rows = np.array([[9.0, 0.0], [0.0, 5.0]])
    states = [{"x": np.zeros(2), "c_k": rows}] * 3
    off = rows + np.array([[0.0, 0.1], [0.3, -0.2]])
    got = Outcome({1: np.zeros(2), 2: np.zeros(2)}, [{"c_k": rows}, {"c_k": off}])
    session = SimpleNamespace(compared={}, rtol=1e-3)
    made = Comparison("a", task, states, got, None, 1e-3)
    found = against_reference(session, "a check", [made], "look here")
    assert (found.expected, found.got) == ("c_k[1, 0] after round 2 = 0", "0.3")
    assert found.hint == "look here"
    right = Comparison("a", task, states, Outcome({1: np.zeros(2), 2: np.zeros(2)}), None, 1e-3)
    passed = against_reference(session, "a check", [right, right], "")
    assert passed.got == "4 of 4 models agree to 1e-03"
    early = Outcome({1: np.array([0.0, 1.0]), 2: np.zeros(2)})
    found = against_reference(session, "a", [Comparison("a", task, states, early, None, 1e-3)], "")
    assert "first round differs already" in found.hint


def test_tolerances_and_settings_of_a_session():
    def of(adapter, method="fedavg", rtol=None, **given):
        return Session(Adapter(adapter), METHODS[method], given, rtol, 5.0, 0)

    plain = of(averaging)
    assert plain.rtol == 1e-9 and of(averaging, local="exact").rtol == 1e-6
    assert of(averaging, rtol=0.25, local="exact").rtol == 0.25
    for session in (plain, of(averaging, local="exact")):
        session.single = True
        assert session.rtol == 3e-4
    assert {"learning_rate": 0.15, "local_steps": 3}.items() <= plain.settings().items()
    assert plain.settings(local_steps=1)["local_steps"] == 1
    assert of(averaging, local_steps=7).settings()["local_steps"] == 7
    takes = of(averaging, "scaffold")
    assert takes.settings()["server_lr"] == 0.9 and takes.can("server_lr")
    none = of(lambda start, clients, cohorts: None, "scaffold")
    assert none.settings()["server_lr"] == 1.0 and not none.can("server_lr")
    assert not of(averaging, local_steps=7).can("local_steps")
    assert "server_lr" not in plain.settings() and "server" not in plain.settings()
    assert of(averaging, "fedadam").settings()["server"] == "fedadam"


def test_single_precision_and_what_was_written_into_are_kept_in_mind():
    handed = []

    def run(start, clients, cohorts, **settings):
        handed.append(settings)
        if len(handed) == 1:
            start[:] = 0
        return start.astype(np.float32 if len(handed) == 1 else float)

    session = Session(Adapter(run), METHODS["fedavg"], {}, None, 5.0, 0)
    task = session.task(CLIENTS, ((0,),))
    assert not session.single
    for _ in range(2):
        session.call(task)
        assert session.single and session.changed == {"start"}
    assert set(handed[0]) == {"learning_rate", "local_steps", "seed"}


# --- what theory says by itself -------------------------------------------------------------------
def looked(name, adapter, method="fedavg", rtol=1e-3, seed=0, **given):
    session = Session(Adapter(adapter), METHODS[method], given, rtol, 5.0, seed)
    check = next(c for c in theory.SAID if c.name == name)
    return check.look(session, name)


def both_sides(limit, finding):
    """Passes below the limit and fails above, in either direction."""
    for share in (LESS, -LESS):
        assert finding(share * limit).verdict == "pass"
    for share in (MORE, -MORE):
        assert finding(share * limit).verdict == "fail"


CLIENTS, START = clients_of("squared", 0), start_of(0)
SIZES = np.array([5, 11, 7, 14, 8])
ALONG = np.eye(4)[2]


def constant(model):
    """An implementation that gives this model after every round, whatever it is asked for."""

    def run(start, clients, cohorts, **settings):
        return [np.array(model(start, cohorts)) for _ in cohorts]

    return run


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_the_first_step_is_a_gradient_step_up_to_the_tolerance(weighting):
    share = SIZES / SIZES.sum() if weighting == "examples" else np.full(5, 0.2)
    gradient = sum(
        s * c.features.T @ (c.features @ START - c.labels) / len(c.labels)
        for s, c in zip(share, CLIENTS, strict=True)
    )
    for rate, rtol in ((0.15, 1e-3), (40.0, 1e-6)):
        step = START - rate * gradient
        given = {"weighting": weighting, "learning_rate": rate}
        largest = max(1.0, float(np.abs(step).max()))
        assert rate == 0.15 or largest > 2
        both_sides(
            rtol * largest,
            lambda by, s=step, r=rtol, g=given: looked(
                "gradient descent", constant(lambda *_: s + by * ALONG), rtol=r, **g
            ),
        )


@pytest.mark.parametrize(
    ("method", "given"), [("fedprox", {"local": "exact"}), ("feddyn", {}), ("mime", {})]
)
def test_not_every_first_step_is_a_gradient_step(method, given):
    found = looked("gradient descent", constant(lambda *_: START), method, **given)
    assert found.verdict == "does not apply"


def test_order_and_numbers_of_clients_change_nothing_beyond_the_tolerance():
    for size, rtol, limit in ((0.5, 1e-3, 1e-3), (4.0, 1e-3, 4e-3), (4.0, 1e-15, 4e-9)):
        for cohort, hint in (([3, 1], "share a model"), ([4, 0], "place in the cohort")):

            def model(start, cohorts, by, size=size, cohort=cohort):
                return np.array([size, 0, by if cohorts[0] == cohort else 0, 0])

            def finding(by, rtol=rtol, model=model):
                return looked("order", constant(lambda s, c: model(s, c, by)), rtol=rtol)

            both_sides(limit, finding)
            assert hint in finding(2 * limit).hint


def test_a_common_minimiser_stays_up_to_the_tolerance():
    """In every round: the last one counts as the first."""
    sizes = [float(np.abs(start_of(seed)).max()) for seed in range(6)]
    for seed in (int(np.argmin(sizes)), int(np.argmax(sizes))):
        largest = max(1.0, sizes[seed])
        for at in (0, 2):

            def run(start, clients, cohorts, by=0.0, at=at, **settings):
                return [start + by * (t == at) * ALONG for t in range(len(cohorts))]

            def finding(by, rtol=1e-3, run=run, seed=seed):
                moved = partial(run, by=by)
                return looked("shared optimum", moved, "fedavg", rtol, seed)

            both_sides(1e-3 * largest, finding)
            both_sides(1e-10 * largest, lambda by, finding=finding: finding(by, 1e-15))
    assert min(sizes) < 1 < 1.2 < max(sizes)


def kept(change):
    """A SCAFFOLD of which only what change(state) gives differs from what it was handed."""

    def round(state, clients, cohort, learning_rate, local_steps, server_lr):
        return {**state, **change(state)}

    return round


def test_the_certified_optimum_stays_up_to_what_is_known_of_it(monkeypatch):
    for x, error, limit in (
        (np.array([0.5, 0, 0, 0]), 0.0, 1e-3), (np.array([-4.0, 0, 0, 0]), 0.0, 4e-3),
        (np.array([0.5, 0, 0, 0]), 1e-3, 0.1),
    ):  # fmt: skip
        monkeypatch.setattr(theory, "optimum", lambda clients, weighting, x=x, e=error: (x, e))
        both_sides(
            limit,
            lambda by: looked(
                "certified optimum", kept(lambda s: {"x": s["x"] + by * ALONG}), "scaffold"
            ),
        )


def test_the_servers_memory_is_the_mean_of_the_clients_up_to_the_tolerance():
    for size, limit in ((0.5, 1e-3), (4.0, 4e-3)):
        rows = np.zeros((5, 4))
        rows[0], rows[1] = size, -size / 2

        def finding(by, rows=rows):
            change = lambda s: {"c": rows.sum(axis=0) / 5 + by * ALONG, "c_k": rows}  # noqa: E731
            return looked("mean of what is kept", kept(change), "scaffold")

        both_sides(limit, finding)
        assert finding(2 * limit).got.endswith("after round 1")


def test_the_slope_of_the_penalty_up_to_ten_times_the_tolerance_over_the_step():
    """One more unit of mu changes the slope by the length of the first step; the longest counts."""

    def prox(state, clients, cohort, learning_rate, local_steps, mu, off=0.0):
        (k,) = cohort
        y = state["x"].copy()
        for _ in range(local_steps):
            y = y - learning_rate * (clients[k].gradient(y) + (mu + off) * (y - state["x"]))
        return {"x": y}

    for rate, rtol in ((0.15, 1e-3), (3.0, 1e-3), (0.15, 1e-12)):
        moves = [rate * np.linalg.norm(CLIENTS[k].gradient(START)) for k in (2, 0, 4)]
        limit = 10 * max(rtol / rate, 1e-8) * max(1.0, *moves) / max(moves)
        assert rate == 0.15 or max(moves) > 1

        def finding(off, rate=rate, rtol=rtol):
            def round(state, clients, cohort, local_steps, mu):
                return prox(state, clients, cohort, rate, local_steps, mu, off)

            given = {"learning_rate": rate}
            return looked("penalty's slope", round, "fedprox", rtol, **given)

        both_sides(limit, finding)
        assert finding(0.0).got == "0.7 (y - x)" and "mu = 0.7" in finding(0.0).expected


def averaging(state, clients, cohort, learning_rate, local_steps, server_lr=1.0, l1=None):
    """FedAvg's round, with a plain mean."""
    assert not l1
    models = []
    for k in cohort:
        y = state["x"]
        for _ in range(local_steps):
            y = y - learning_rate * clients[k].gradient(y)
        models.append(y)
    return {**state, "x": state["x"] + server_lr * (np.mean(models, axis=0) - state["x"])}


def test_checks_by_themselves_apply_where_they_say():
    found = looked("gradient descent", averaging, rtol=1e-12, weighting="uniform")
    assert found.verdict == "pass"
    found = looked("gradient descent", averaging, "scaffold", 1e-12)  # its server_lr is 0.9
    assert found.verdict == "pass"

    def of_one_step(state, clients, cohort, learning_rate):
        return averaging(state, clients, cohort, learning_rate, 1)

    for steps, verdict in ((1, "pass"), (2, "does not apply")):
        given = {"local_steps": steps, "weighting": "uniform"}
        assert looked("gradient descent", of_one_step, **given).verdict == verdict
        assert looked("penalty's slope", of_one_step, **given).verdict == "does not apply"
    never = (("fedavg", {}), ("fedprox", {"local": "exact"}), ("fedprox", {"mu": 0.0}))
    for method, given in (*never, ("fedprox", {"local_steps": 3})):
        found = looked("penalty's slope", averaging, method, **given)
        assert found.verdict == "does not apply"
    plain = looked("penalty's slope", averaging, "fedprox")
    assert (plain.verdict, plain.expected) == ("fail", "mu (y - x) with mu = 0.7")
    assert abs(float(plain.got.split(": ")[1].split(" (")[0])) < 1e-9
    still = looked("penalty's slope", constant(lambda start, cohorts: start), "fedprox")
    assert still.got == "no first step"
    for name, method in (
        ("mean of what is kept", "fedavg"), ("mean of what is kept", "scaffold"),
        ("certified optimum", "feddyn"),
    ):  # fmt: skip
        found = looked(name, constant(lambda start, cohorts: start), method)
        assert found.verdict == "does not apply"
    assert looked("certified optimum", averaging, "fedgate").verdict == "does not apply"
    assert looked("shared optimum", averaging, "fedelasticnet-scaffold").verdict == "does not apply"
    assert looked("shared optimum", averaging, "fedelasticnet-scaffold", l1=0.0).verdict == "pass"


def test_two_equal_calls_and_another_global_seed():
    """The two calls differ in the last round only."""
    calls = []

    def found(last, takes_seed=True):
        calls.clear()

        def run(start, clients, cohorts, seed=0):
            calls.append(seed)
            return [start] * (len(cohorts) - 1) + [start + last()]

        plain = lambda start, clients, cohorts: run(start, clients, cohorts)  # noqa: E731
        return looked("repeatable", run if takes_seed else plain)

    assert found(lambda: 0.0).verdict == "pass" and calls == [5, 5, 5]
    assert found(lambda: 0.0, False).verdict == "pass" and calls == [0, 0, 0]
    drawn = found(lambda: np.random.random())  # noqa: NPY002
    assert drawn.got == "another global seed, another run"
    assert found(lambda: float(len(calls))).got == "two different runs"
    assert found(lambda: float(len(calls) > 1)).got == "two different runs"


@pytest.mark.parametrize("built_in", [None, 0.05])
def test_the_penalty_of_an_elastic_net_over_all_examples(built_in):
    """The server's move is n_k/n of the client's; an l1 that is not built in is switched off."""

    def net(state, clients, cohort, learning_rate, local_steps, mu, l1=built_in):
        (k,) = cohort
        x = y = state["x"]
        assert l1 == (built_in or 0.0)
        for _ in range(local_steps):
            slope = clients[k].gradient(y) + mu * (y - x) + l1 * np.sign(y - x)
            y = y - learning_rate * slope
        return {"x": x + SIZES[k] / SIZES.sum() * (y - x)}

    given = {"weighting": "all-examples"} | ({"l1": built_in} if built_in else {})
    found = looked("penalty's slope", net, "fedelasticnet-prox", 1e-9, **given)
    assert (found.verdict, found.got) == ("pass", "0.7 (y - x)")


@pytest.mark.parametrize("check", theory.SAID, ids=lambda c: c.name)
def test_what_raises_fails_every_check_that_applies(check):
    def raises(state, clients, cohort, learning_rate, local_steps, mu=0.7, server_lr=1.0):
        if local_steps == 2 or len(cohort) > 1:
            raise ValueError("mine")
        return averaging(state, clients, cohort, learning_rate, local_steps)

    method = "fedprox" if check.name == "penalty's slope" else "scaffold"
    found = looked(check.name, raises, method)
    assert (found.verdict, found.unfinished) == (
        ("fail", True) if check.name != "inputs" else ("pass", False)
    )


# --- streams --------------------------------------------------------------------------------------
def drawing(pairs, off=0.0):
    """FedAvg or SCAFFOLD's first rounds on given examples, one a client and round."""

    def run(start, clients, cohorts, learning_rate, local_steps, batch_size, seed, server_lr=1.0):
        assert (local_steps, batch_size, start.tolist()) == (1, 1, [0]) and cohorts == [[0, 1]] * 16
        x, models = start.copy(), []
        for one, two in pairs:
            y = [x - learning_rate * (x - clients[k].labels[j]) for k, j in enumerate((one, two))]
            x = x + server_lr * (np.mean(y, axis=0) - x)
            models.append(x + off * (len(models) == 5))
        return models

    return run


PAIRS = [(t % 16, (7 * t + 3) % 16) for t in range(16)]


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_what_is_drawn_is_read_off_the_models(method):
    """2/rate times a model's error is that of j_0 + 1000 j_1, of which a hundredth is allowed."""
    rate = 0.5 * (1.0 if method == "fedavg" else 0.9)
    for off, fine in ((0.0, True), (0.99e-2 * rate / 2, True), (1.01e-2 * rate / 2, False)):
        session = Session(Adapter(drawing(PAIRS, off)), METHODS[method], {}, None, 5.0, 0)
        assert _drawn(session, 0) == (PAIRS if fine else None)
    for wrong in ((16, 0), (0, 16), (-1, 0), (0, -1)):

        def run(start, clients, cohorts, learning_rate, local_steps, batch_size, seed, wrong=wrong):
            x, models = start, []
            for one, two in [*PAIRS[:5], wrong, *PAIRS[6:]]:
                x = x / 2 + (one + 1000 * two) / 4
                models.append(x)
            return models

        assert _drawn(Session(Adapter(run), METHODS["fedavg"], {}, None, 5.0, 0), 0) is None


def test_streams_that_are_shifted_by_up_to_three_rounds_are_shared():
    g = np.random.default_rng(5)
    a, b, c, d, e = (g.integers(16, size=16).tolist() for _ in range(5))

    def told(other):
        streams = [list(zip(a, b, strict=True)), list(zip(c, other, strict=True))]
        return _shared([*streams, list(zip(d, e, strict=True))])

    assert told(g.integers(16, size=16).tolist()) == ""
    for lag, when in ((0, "in the same round"), (1, "a round later"), (2, "2 rounds later"),
                      (3, "3 rounds later"), (4, "")):  # fmt: skip
        shifted = g.integers(16, size=lag).tolist() + a[: 16 - lag]
        words = f"what client 0 draws with seed 0, client 1 draws with seed 1 {when}"
        assert told(shifted) == (words if when else "")
    off = [*a[:9], (a[9] + 1) % 16, *a[10:]]
    assert told(off) == ""
    same = [list(zip(a, a, strict=True)), list(zip(b, c, strict=True))]
    assert _shared(same) == (
        "what client 0 draws with seed 0, client 1 draws with the same seed in the same round"
    )
    turns = [(t % 16, (t + 5) % 16) for t in range(16)]
    assert _in_order(turns) and not _in_order([*turns[:15], (14, 4)])
    assert not _in_order([(0, t % 16) for t in range(16)])


# --- what is said ---------------------------------------------------------------------------------
def said(*verdicts, explanations=(), got="off by 1"):
    findings = [Finding(f"c{i}", v, got=got if v == "fail" else "") for i, v in enumerate(verdicts)]
    return AuditReport("mine", "fedavg", "", tuple(findings), tuple(explanations), 1e-9)


def test_the_sentence_of_a_report_counts_its_checks():
    report = said("pass", "note", "does not apply", "pass")
    assert report.passed and report.sentence == "mine is fedavg in all 3 checks that apply to it."
    report = said("pass", "fail", "does not apply", "fail", "note")
    assert report.sentence.startswith("mine is not fedavg: 2 of 4 checks fail (c1, c3). No known")
    report = said("fail", "not run", "not run", got="too slow: it took more")
    assert "Whether it is fedavg is open: 2 further checks were not run." in report.sentence
    report = said("fail", "not run")
    assert "1 of 1 checks fail (c0). 1 further checks were not run" in report.sentence
    one, two = MISTAKES[:2]
    alone = said("fail", explanations=[(one,)]).sentence
    assert f"Likely mistake: {one.words}. The right line is: {one.line}." in alone
    assert alone.endswith("In the reference, this mistake alone gives all your numbers.")
    both = said("fail", explanations=[(one, two)]).sentence
    assert f"Likely mistakes: {one.words} and {two.words}." in both
    assert both.endswith("In the reference, these two mistakes together give all your numbers.")
    several = said("fail", explanations=[(one,), (two,)]).sentence
    assert "Likely mistake" not in several and "Likely one of 2 mistakes" in several
    assert f": either {one.words}; or {two.words}." in several
    assert several.endswith("In the reference, each of them alone gives all your numbers.")
    many = [(one, m) for m in MISTAKES[1:6]]
    pairs = said("fail", explanations=many).sentence
    assert "Likely one of 5 pairs of mistakes" in pairs and "; or one of 2 more." in pairs
    assert MISTAKES[3].words in pairs and MISTAKES[4].words not in pairs
    assert pairs.endswith("In the reference, each of these pairs gives all your numbers.")
    numbered = [(replace(one, line=line),) for line in ("line 3: a", "lines 4 and 5: b", "c", "d")]
    told = said("fail", explanations=numbered[:2]).diagnosis
    assert " The printed line 3 is: a. The printed lines 4 and 5 are: b." in told
    assert " The right lines are: c; and d." in said("fail", explanations=numbered[2:]).diagnosis


def report_of(*findings, explanations=()):
    return AuditReport("mine", "fedavg", "", findings, tuple(explanations), 1e-9)


def test_what_stopped_a_call_and_the_order_of_a_cohort_are_told():
    stopped, wrong = "raises: ValueError", "off by 1"
    order = "The order of a cohort matters"
    for checks, says in (
        ((("order", wrong),), True), ((("order", stopped),), False), ((("mean", wrong),), False),
        ((("order", stopped), ("mean", wrong)), False),
        ((("mean", stopped), ("order", wrong)), True),
    ):  # fmt: skip
        report = report_of(*(Finding(name, "fail", got=got) for name, got in checks))
        assert (order in report.sentence) is says and report.sentence.startswith("mine is not")
        only = all(got == stopped for _, got in checks)
        assert ("end without numbers that could be compared" in report.sentence) is only
    both = report_of(
        Finding("a", "fail", got=stopped), Finding("b", "fail", got=wrong), Finding("c", "not run")
    )
    assert "is open" not in both.sentence and "1 further checks were not run" in both.sentence


def test_a_convention_is_offered_where_an_explanation_has_one():
    convention = next(m for m in MISTAKES if m.convention)
    plain = next(m for m in MISTAKES if not m.convention)
    fails, quoted = Finding("a", "fail"), f'"{convention.words}"'
    for found, meant in (
        ([(convention,)], "that"), ([(plain, convention)], quoted), ([(plain,)], None),
        ([(plain,), (convention,)], quoted),
    ):  # fmt: skip
        diagnosis = report_of(fails, explanations=found).diagnosis
        offer = f"If {meant} is meant, ask for the other convention: {convention.convention}."
        assert (offer in diagnosis) is (meant is not None)
        assert ("other convention" in diagnosis) is (meant is not None)
        assert diagnosis.startswith(f"either {found[0][0].words}") is (len(found) > 1)


def test_a_printed_report_line_by_line():
    findings = (
        Finding("a", "pass", "e", "g", "h"), Finding("longer", "fail", "1", "2", "look"),
        Finding("n", "note", "", "it", "hint"), Finding("x", "does not apply", hint="why"),
        Finding("y", "not run"), Finding("z", "fail"),
    )  # fmt: skip
    text = str(report_of(*findings)).splitlines()
    assert text[2:] == [
        "a       pass", "longer  FAIL: expected 1; got 2; look", "n       note: got it; hint",
        "x       -  why", "y       not run", "z       FAIL: ",
    ]  # fmt: skip
    explained = str(report_of(*findings, explanations=[(MISTAKES[0],)])).splitlines()
    assert explained[3:5] == ["longer  FAIL: expected 1; got 2", "n       note: got it; hint"]


def test_a_logistic_client_far_out_has_the_gradient_of_its_limit():
    """-b/(1 + exp(b m)) is -b for b m far below 0 and 0 far above, and nothing overflows."""
    one = Client(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, -1.0]), "logistic", 0.25)
    with np.errstate(over="raise"):
        gradient = one.gradient(np.array([-1e4, -1e4]))
    assert gradient.tolist() == [-0.5 - 2500, -2500]
    x = np.array([math.log(3), 0.0])
    assert one.gradient(x) == pytest.approx([-1 / 8 + x[0] / 4, 0.5])
    assert Client(one.features, one.labels).ridge == 0


def test_what_streams_are_called(monkeypatch):
    g = np.random.default_rng(8)
    a, b, c = ([tuple(map(int, p)) for p in g.integers(16, size=(16, 2))] for _ in range(3))
    order = [(t % 16, (t + 5) % 16) for t in range(16)]
    alike, once = [(x, x) for x, _ in a], [a[0]] * 16

    def found(drawn, adapter=None, method="fedavg", **given):
        monkeypatch.setattr(streams, "_drawn", lambda session, seed: drawn[seed])
        session = Session(Adapter(adapter or drawing(PAIRS)), METHODS[method], given, None, 5.0, 0)
        return streams.STREAMS.look(session, "streams")

    for drawn, verdict, says in (
        ([a, b, c], "pass", ""), ([a, a, a], "fail", "the seed has no effect"),
        ([order] * 3, "note", "the seed has no effect"), ([order, order, a], "fail", "seed, round"),
        ([a, b, b], "fail", "seed, round or client are added"),
        ([alike, [(x, x) for x, _ in b], c], "fail", "each client's generator begins"),
        ([alike, b, c], "fail", "seed, round or client"),
        ([once, b, c], "fail", "the generator begins anew every round"),
        ([a, b, None], "does not apply", "with batch_size = 1"),
    ):  # fmt: skip
        said = found(drawn)
        assert said.verdict == verdict and said.hint.startswith(says)
    assert found([a, b, c]).got == "48 rounds read off"
    whole = found([a, b, c], averaging)
    assert (whole.verdict, whole.hint) == ("does not apply", "the adapter takes no seed")
    for method, given in (("feddyn", {}), ("fedprox", {"local": "exact"})):
        said = found([a, b, c], drawing(PAIRS), method, **given)
        assert said.verdict == "does not apply" and "cannot be read off" in said.hint
    assert found([a, b, c], drawing(PAIRS), seed=3).hint == "the adapter takes no seed"


def test_a_simpler_check_that_differs_is_the_place_to_begin():
    def made(label, got=True, agrees=False):
        return SimpleNamespace(label=label, check=label.partition(" (")[0], got=got or None, agrees=agrees)

    this = made("several rounds")

    def told(*before, after=()):
        listed = [*before, this, *after]
        return _simpler(SimpleNamespace(compared={c.label: c for c in listed}), [this])

    part = made("part of the clients (3, 0)")
    assert told(made("mean", agrees=True), part) == (
        "the check 'part of the clients' differs already, and is simpler: begin there"
    )
    for other in (made("a", got=False), made("a", agrees=True)):
        assert told(other) == ""
    assert told(after=[part]) == ""
