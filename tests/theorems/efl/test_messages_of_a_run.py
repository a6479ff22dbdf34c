"""EFL with compression on a real run, by hand: who sends what, residuals, local work, costs, and what a view knows of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q
from types import SimpleNamespace

import numpy as np
import pytest
from efl_on_a_problem import BOTH_WAYS, LOGISTIC, MAKE, case_of, view_of

from fedtheory import messages, problems
from fedtheory.algorithms import EFL, FedAvg, FedProx
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps, LocalSGD
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.participation.irregular import Irregular, complete, inactive, windows
from fedtheory.theorems import get
from fedtheory.theorems.efl import compression_world as cases
from fedtheory.theorems.efl.feedback_world import CONSISTENT, DENSE, PLAIN, SHORT, FeedbackView
from fedtheory.theory.judge.statement import eq, le

H = np.array([[0.5, 1.5, 1.0, 0.75], [1.25, 0.25, 0.5, 1.75], [1.0, 0.75, 2.0, 0.5]])
C = np.array([[1.5, -0.75, 2.0, 0.25], [-1.25, 2.5, -0.5, 1.0], [0.5, -3.0, 1.25, -2.0]])
WEIGHTS, START = np.array([0.2, 0.3, 0.5]), np.array([2.5, -1.5, 0.75, -0.25])
PROBLEM = problems.Quadratic([np.diag(row) for row in H], C, WEIGHTS)
SCHEDULE = np.array([[2, 0, 1], [1, 2, 2], [0, 1, 2], [2, 2, 0]])
SAMPLING = Irregular(2, np.eye(3)[SCHEDULE].tolist())  # who does how much is certain in every round
STEPS = LocalSGD(2, lambda t: 0.75 / t)
STAR = (WEIGHTS[:, None] * H * C).sum(axis=0) / (WEIGHTS[:, None] * H).sum(axis=0)
HOW = {"sampling": SAMPLING, "local_solver": STEPS, "rounds": 4, "x0": START}
FEEDBACK, LEMMA = get("efl/residual-invariant"), get("efl/st-lemma").form("repaired")


def kept(x):
    """Two of four entries, the larger ones, as their signs times the mean of their sizes."""
    large = np.argsort(-abs(x))[:2]
    out = np.zeros(4)
    out[large] = np.sign(x[large]) * abs(x[large]).mean()
    return out


def go(compress=kept, literal=False, scheme="C"):
    """EFL's rounds: round by round what changes, and every D^k that is compressed.

    Under scheme C p_t^k = 2 p^k/s; under A 3 p^k/K for the K clients that make both steps, and the others send nothing.
    """
    w, R, R_G, seen, sent = START.copy(), np.zeros((3, 4)), np.zeros(4), [], []
    for t, s in enumerate(SCHEDULE):
        before, eta = (w, R.copy(), R_G), 0.75 / (t + 1)
        p, x, last, total = np.zeros(3), np.zeros((3, 4)), np.zeros((3, 4)), np.zeros(4)
        for k in np.flatnonzero(s > 0 if scheme == "C" else s == 2):
            y = w
            for _ in range(s[k]):
                y = y - eta * H[k] * (y - C[k])
            p[k] = 2 * WEIGHTS[k] / s[k] if scheme == "C" else 3 * WEIGHTS[k] / (s == 2).sum()
            x[k], last[k] = y - w, eta * H[k] * (y - C[k])
            D = R[k] + x[k] * (1 if literal else p[k] / WEIGHTS[k])
            R[k] = D - compress(D)
            total = total + (p[k] * D if literal else WEIGHTS[k] * compress(D))
            sent.append(D)
        D = R_G + total
        R_G = np.zeros(4) if literal else D - compress(D)
        w = w + D - R_G
        seen.append((before[0], w, before[2], R_G, before[1], R.copy(), p, x, last))
    return seen, sent


def test_a_run_round_by_round():
    """Clients that are away or stop early, steps that decay, two of four entries both ways."""
    view, (seen, _) = view_of("residual-invariant", "repaired", PROBLEM, BOTH_WAYS, **HOW), go()
    for ours, theirs in zip(view.rounds_seen, seen, strict=True):
        for name, value in zip(("w", "after", "R_G", "R_G_after", "R", "R_after", "p", "x", "last"), theirs, strict=True):
            assert getattr(ours, name) == pytest.approx(value, abs=1e-13), name
        assert ours.weights.tolist() == WEIGHTS.tolist()
    path, R_G, R, moved = view.run
    assert path == pytest.approx(np.array([START, *(r[1] for r in seen)])) and view.eta is None and view.rounds == 4
    assert R_G == pytest.approx(seen[-1][3]) and R == pytest.approx(seen[-1][5])
    assert moved == pytest.approx(START + sum((r[6][:, None] * r[7]).sum(axis=0) for r in seen))
    assert view.star == pytest.approx(STAR) and view.weights.tolist() == WEIGHTS.tolist() and view.x0.tolist() == START.tolist()


def test_what_the_clients_compress():
    found = cases.sent_in(case_of(PROBLEM, BOTH_WAYS, **HOW))
    assert found.astype(float) == pytest.approx(np.array(go()[1])) and isinstance(found[0, 0], Q)
    literal = cases.sent_in(case_of(PROBLEM, EFL(compressor=messages.ST(0.5), variant="literal"), **HOW))
    assert literal.astype(float) == pytest.approx(np.array(go(literal=True)[1]))


@pytest.mark.parametrize("literal", [False, True])
def test_under_scheme_a_clients_that_stop_early_have_no_message(literal):
    """Of nine that take part six are complete."""
    algorithm = EFL(scheme="A", compressor=messages.ST(0.5), variant="literal") if literal else replace(BOTH_WAYS, scheme="A")
    case = case_of(PROBLEM, algorithm, given={}, **HOW)
    found, sent = cases.sent_in(case).astype(float), np.array(go(literal=literal, scheme="A")[1])
    assert found.shape == sent.shape == (6, 4) and found == pytest.approx(sent)
    assert MAKE["compression"](LEMMA, case).view().printed_constants()["messages"] == 6


def test_messages_are_spread_over_the_run(monkeypatch):
    case, every = case_of(PROBLEM, BOTH_WAYS, **HOW), np.array(go()[1])
    for most, numbers, chosen in ((64, 20_000, range(9)), (3, 20_000, (0, 4, 8)), (64, 35, range(8)), (64, 3, (0,))):
        monkeypatch.setattr(cases, "MESSAGES", most)
        monkeypatch.setattr(cases, "NUMBERS", numbers)
        assert cases.sent_in(case).astype(float) == pytest.approx(every[list(chosen)])


def test_a_run_in_which_nobody_sends_has_no_messages():
    away = Irregular(1, [[[1.0, 0.0]] * 3, [[0.0, 1.0]] * 3])
    with pytest.raises(InvalidInput, match="nobody sent anything in this run: take more rounds, or give a message"):
        cases.sent_in(case_of(PROBLEM, BOTH_WAYS, sampling=away, rounds=1))
    for algorithm in (EFL(compressor=messages.ST(0.5), client_feedback=False), FedAvg()):
        with pytest.raises(InvalidInput, match="keeps no residuals, so that its messages are not seen: give a message"):
            cases.sent_in(case_of(PROBLEM, algorithm, rounds=1))


# --- messages that are given ----------------------------------------------------------------------
def made(message, compressor=None):
    algorithm = EFL(compressor=compressor or messages.ST(0.5))
    return MAKE["compression"](LEMMA, case_of(PROBLEM, algorithm, given={"message": message}))


def test_one_message_is_data_in_fractions():
    one = made([0.1, 1 / 3, 2])
    assert one.data == {"compressor": {"name": "st", "q": "1/2", "rule": "exact"}, "x": ["1/10", "1/3", "2"]}
    assert one.kind == "compression" and one.label == "a message"
    assert made([[1.0, 2.0]], messages.ST(0.1)).data["compressor"]["q"] == "1/10"
    sent = MAKE["compression"](LEMMA, case_of(PROBLEM, BOTH_WAYS, sampling=SAMPLING, rounds=1, given={}))
    assert len(sent.view().each) == 2
    alone = problems.Quadratic([np.eye(2)], [[1.0, 2.0]])
    assert MAKE["compression"](LEMMA, case_of(alone, BOTH_WAYS, rounds=1)).label == "the messages of quadratic"


def test_the_shapes_of_messages_and_how_many_numbers(monkeypatch):
    for message in ([[[1.0]]], 1.0, [[], []]):
        with pytest.raises(InvalidInput, match=r"message has the shape \(.*give \(n,\) numbers, or \(M, n\) for M messages"):
            made(message)
    monkeypatch.setattr(cases, "NUMBERS", 6)
    assert len(made([[1.0, 2.0]] * 3).view().each) == 3 and len(made([[1.0]] * 2).view().each) == 2
    with pytest.raises(InvalidInput, match="7 numbers in all messages: at most 6 are judged in fractions; give fewer messages"):
        made([1.0] * 7)


def test_what_compresses_nothing_or_rounds_is_refused():
    with pytest.raises(InvalidInput, match=r"it rounds what it sends to 32 bits.* use float_bits=64"):
        made([1.0, 2.0], messages.TopK(k=1, float_bits=32))
    for algorithm in (EFL(), FedAvg(), FedProx(0.5)):
        with pytest.raises(InvalidInput, match=f"{algorithm.name} compresses nothing: give it a compressor"):
            MAKE["compression"](LEMMA, case_of(PROBLEM, algorithm, given={"message": [1.0]}))


def test_the_sides_of_several_messages():
    """Numbers, one a message, and vectors, one row a message."""
    view = made([[1.0, 2.0, 4.0], [3.0, 5.0, 7.0]]).view()
    one = view.sides_of(lambda v: le(v.x[0], 2 * v.x[1], v.x[2]))(view)
    assert (one.lhs.tolist(), one.rhs.tolist(), one.axes, one.relation) == ([1, 3], [8, 17], ("message",), "<=")
    assert one.scale.tolist() == [le(v.x[0], 2 * v.x[1], v.x[2]).scale for v in view.each]
    many = view.sides_of(lambda v: le(v.x, v.x * v.x))(view)
    assert many.lhs.tolist() == [[1, 2, 4], [3, 5, 7]] and many.axes == ("message", "entry")
    assert view.sides_of(lambda v: eq(v.x[0], v.x[1]))(view).relation == "=="
    assert view.sides_of(lambda v: le(v.x[:, None], v.x[:, None]))(view).axes == ()
    assert view.printed_constants()["messages"] == 2 and view.each[0].facts and all(view.has(f) for f in view.each[0].facts)


# --- what is known of a run -----------------------------------------------------------------------
L = 2.0
SQUARES = problems.random_least_squares(3, 4, samples=5, ridge=0.1, seed=1)


@pytest.mark.parametrize(
    ("problem", "how", "plain"),
    [
        (PROBLEM, {"local_solver": LocalSGD(1, 0.25)}, True), (PROBLEM, {"local_solver": LocalSGD(2, 0.25)}, False),
        (PROBLEM, {"sampling": complete(3, 1)}, True), (PROBLEM, {"sampling": inactive(3, 1, [0.0, 0.9, 0.9])}, False),
        (PROBLEM, {"sampling": Irregular(2, [[0, 1, 0]] * 3)}, False), (PROBLEM, {"sampling": Uniform(2)}, False),
        (PROBLEM, {"local_solver": LocalSGD(1, 0.25, noise_std=0.5)}, False), (LOGISTIC, {"local_solver": LocalSGD(1, 0.25)}, False),
        (PROBLEM, {"local_solver": LocalSGD(1, lambda t: 0.25)}, False), (SQUARES, {"local_solver": LocalSGD(1, 0.1)}, True),
        (SQUARES, {"local_solver": LocalSGD(1, 0.1, 2)}, False),
    ],
)  # fmt: skip
def test_when_a_round_is_one_full_gradient_of_everybody(problem, how, plain):
    found = MAKE["feedback"](FEEDBACK.form("repaired"), case_of(problem, BOTH_WAYS, rounds=3, **how)).view().facts
    assert (PLAIN in found) == plain and CONSISTENT in found


@pytest.mark.parametrize(
    ("algorithm", "lr", "facts"),
    [
        (BOTH_WAYS, 1 / L, {SHORT}), (BOTH_WAYS, 1.001 / L, set()), (BOTH_WAYS, lambda t: 0.1, set()), (EFL(), 0.1, {SHORT, DENSE}),
        (EFL(compressor=messages.ST(0.5)), 0.1, {SHORT}), (EFL(down_compressor=messages.ST(0.5)), 0.1, {SHORT}),
    ],
)  # fmt: skip
def test_short_steps_and_messages_that_leave_nothing_out(algorithm, lr, facts):
    found = MAKE["feedback"](FEEDBACK.form("repaired"), case_of(PROBLEM, algorithm, local_solver=LocalSGD(2, lr), rounds=2)).view()
    assert found.facts & {SHORT, DENSE} == facts and found.eta == (None if callable(lr) else lr)


def test_probabilities_of_being_active_count():
    """Scheme C, corrected: p_t^k = p^k/P(s^k > 0) of those that are active."""
    sampling = inactive(3, 1, [0.25, 0.5, 0.75])
    view = view_of("residual-invariant", "repaired", PROBLEM, EFL(scheme="C-corrected"), sampling=sampling, rounds=9, seed=1)
    p, moved = np.array([r.p for r in view.rounds_seen]), np.array([abs(r.x).max(axis=1) for r in view.rounds_seen]) > 0
    assert p == pytest.approx(np.where(moved, WEIGHTS / [0.75, 0.5, 0.25], 0)) and 0 < moved.mean() < 1
    fixed = view_of("residual-invariant", "repaired", PROBLEM, EFL(scheme="B"), sampling=sampling, rounds=9, seed=1)
    p, moved = np.array([r.p for r in fixed.rounds_seen]), np.array([abs(r.x).max(axis=1) for r in fixed.rounds_seen]) > 0
    assert p == pytest.approx(np.where(moved, WEIGHTS, 0)) and not moved.all()


def test_under_scheme_a_clients_that_stop_early_send_nothing():
    view = view_of("residual-invariant", "repaired", PROBLEM, EFL(scheme="A"), **HOW)
    for found, s in zip(view.rounds_seen, SCHEDULE, strict=True):
        complete = s == 2
        assert found.p == pytest.approx(np.where(complete, 3 * WEIGHTS / complete.sum(), 0))
        assert not found.x[~complete].any() and not found.last[~complete].any() and found.x[complete].all()


def test_the_step_where_none_is_given():
    """1/(2L), five local steps, or as many as the law says; twenty rounds."""
    view = view_of("residual-invariant", "repaired", PROBLEM, EFL())
    assert (view.eta, view.rounds, len(view.rounds_seen)) == (0.25, 20, 20)
    keep = (1 - 0.25 * H) ** 5
    assert view.rounds_seen[0].x == pytest.approx((keep - 1) * (0 - C))
    assert view.rounds_seen[0].p == pytest.approx(WEIGHTS)
    law = view_of("residual-invariant", "repaired", PROBLEM, EFL(), sampling=complete(3, 2), rounds=2)
    assert law.rounds_seen[0].x == pytest.approx(((1 - 0.25 * H) ** 2 - 1) * (0 - C))


def test_what_a_run_costs():
    view, (seen, _), (dense, _) = view_of("costs", "bits a round", PROBLEM, BOTH_WAYS, **HOW), go(), go(lambda x: x)
    costs = view.costs
    assert (costs.n, costs.k) == (4, 2) and costs.steps.tolist() == SCHEDULE.tolist()
    for found, run in ((costs.distance_sq, seen), (costs.dense_distance_sq, dense)):
        assert found == pytest.approx([((w - STAR) ** 2).sum() for w in (START, *(r[1] for r in run))])
    assert costs.facts <= view.facts and costs.facts and costs.sent.tolist() == (SCHEDULE > 0).tolist()
    complete = view_of("costs", "bits a round", PROBLEM, replace(BOTH_WAYS, scheme="A"), **HOW).costs
    assert complete.sent.tolist() == (SCHEDULE == 2).tolist() and complete.steps.tolist() == SCHEDULE.tolist()
    uneven = replace(BOTH_WAYS, down_compressor=messages.ST(0.75), scale="after")
    assert view_of("costs", "bits a round", PROBLEM, uneven, rounds=2).costs.k == 3
    for sampling, steps in ((Uniform(2), 6), (None, 9), (Full(), 9)):  # three local steps each, whoever says so
        how = {"sampling": sampling, "local_solver": LocalSGD(3, 0.25), "rounds": 3}
        assert view_of("costs", "bits a round", PROBLEM, BOTH_WAYS, **how).costs.steps.sum(axis=1).tolist() == [steps] * 3


@pytest.mark.parametrize(
    "algorithm",
    [
        EFL(compressor=messages.ST(0.5)), EFL(down_compressor=messages.ST(0.5)), replace(BOTH_WAYS, variant="literal"),
        replace(BOTH_WAYS, compressor=messages.ST(0.5, rule="printed")), replace(BOTH_WAYS, down_compressor=messages.TopK(k=1)),
    ],
)  # fmt: skip
def test_costs_are_those_of_st_both_ways(algorithm):
    view = MAKE["feedback"](FEEDBACK.form("repaired"), case_of(PROBLEM, algorithm, rounds=2)).view()
    assert view.costs is None and not any("accura" in fact for fact in view.facts)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"algorithm": FedAvg()}, "the statement is about EFL, not FedAvg"),
        ({"algorithm": EFL(variant="text-received")}, "variant = 'text-received': the statement is about consistent, literal, text"),
        ({"algorithm": replace(BOTH_WAYS, lam=0.5)}, r"lambda = 0\.5, the limit is 0: local work is then on another loss"),
        ({"algorithm": replace(BOTH_WAYS, server_feedback=False)}, "residuals are not kept: use client_feedback=True and server_"),
        ({"algorithm": replace(BOTH_WAYS, client_feedback=False)}, "residuals are not kept: use client_feedback=True and server_"),
        ({"sampling": windows(complete(3, 1), {1: (None, 3)})}, "client 1 is not there in round 3: the objective is fixed"),
        ({"sampling": windows(complete(3, 1), {2: (2, None)})}, "client 2 is not there in round 1: the objective is fixed"),
        ({"local_solver": GradientSteps(2, 0.1)}, "local work by GradientSteps: use LocalSGD, whose steps can be seen"),
    ],
)  # fmt: skip
def test_what_a_run_with_residuals_needs_is_named(how, said):
    how = {"algorithm": BOTH_WAYS, "rounds": 3, **how}
    with pytest.raises(InvalidInput, match=said):
        MAKE["feedback"](FEEDBACK.form("repaired"), case_of(PROBLEM, how.pop("algorithm"), **how))


def test_a_client_may_leave_after_the_run():
    sampling = windows(complete(3, 1), {1: (None, 4)})
    assert view_of("residual-invariant", "repaired", PROBLEM, BOTH_WAYS, sampling=sampling, rounds=3).rounds == 3


def test_what_rounding_leaves():
    """1e-15 (T + 10) times the sizes of w, R^G, sum p^k |R^k| and the sum; of slopes 1e-13 times what gradients are made of."""
    path, R = np.array([[3.0, -8.0], [1.0, 2.0], [0.0, 1.0]]), np.array([[2.0, -1.0], [0.5, 4.0]])
    problem = SimpleNamespace(gradient=lambda x: np.array([[-40.0, 1.0]]) + 2 * x, beta_k=np.array([3.0, 5.0]))
    run = path, np.array([0.5, -7.0]), R, np.array([-6.0, 2.0])
    view = FeedbackView(lambda: [None] * 2, 0.125, problem, None)
    view.run, view.weights, view.x0 = run, np.array([0.25, 0.75]), np.array([3.0, -8.0])
    assert view.noise == pytest.approx(1e-15 * 12 * (8 + 7 + 3.25 + 6), rel=1e-9, abs=0)
    assert view.noise_of_slope == pytest.approx(1e-13 * (40 + 5 * 8) + view.noise / 0.25, rel=1e-9, abs=0)
    ours, start = SimpleNamespace(gradient=lambda x: x, beta_k=np.array([1.0])), np.array([6.0, 0.0])
    at = FeedbackView(lambda: [None] * 2, 0.125, ours, None)
    at.run, at.weights, at.x0 = (path + start, *run[1:]), view.weights, start
    assert at.noise_of_slope == pytest.approx(1e-13 * (9 + 9) + at.noise / 0.25, rel=1e-9, abs=0)  # the gradient at w_0 is the largest
    assert view.printed_constants() == {"T": 2, "|R^G|": pytest.approx(49.25**0.5)}
