"""Parts of the statements about Algorithm 2 and the threshold: matrices by hand, what is accepted at its limit, a user's request."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from fedelasticnet_worlds import ALGORITHM_2 as KINDS
from fedelasticnet_worlds import BUILDERS, SETTING, battery, random_instance

from fedtheory import Uniform, problems, simulate, theorems
from fedtheory.algorithms import Compressed, FedElasticNetDyn, FedElasticNetScaffold
from fedtheory.cli.request import CommandRequest
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps
from fedtheory.messages import Threshold
from fedtheory.participation.cohorts import Bernoulli
from fedtheory.theorems.fedelasticnet.algorithm_2 import stability as matrices
from fedtheory.theorems.fedelasticnet.algorithm_2 import wire
from fedtheory.theorems.fedelasticnet.algorithm_2.stability import (
    SERVER,
    TWO_CLIENTS,
    FloatStabilityView,
)
from fedtheory.theorems.fedelasticnet.algorithm_2.wire import FEEDBACK, FROZEN, NO_FEEDBACK, PLAIN_MEAN
from fedtheory.theory.judge.setting import Case

TINY = F(1, 10**9)


def get(name):
    return theorems.get(f"fedelasticnet/{name}")


# --- matrices -------------------------------------------------------------------------------------
def stability(*H, **numbers):
    return BUILDERS["scaffold stability"]({
        "H": [[[str(x) for x in row] for row in h] for h in H], "lambda2": "0", "eta": "1/20", "B": 2, "eta_g": "3/2",
        **{k: str(v) for k, v in numbers.items()},
    })  # fmt: skip


def three(a):
    """1 on the diagonal and -a beside it: eigenvalues 1 - 2 a, 1 + a and 1 + a."""
    return [[1, -a, -a], [-a, 1, -a], [-a, -a, 1]]


ONE = [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("fine", "beyond"),
    [
        ([[1, 2], [2, 4]], [[1, 2], [2, 4 - TINY]]),
        ([[4, -2], [-2, 1]], [[4, -2 - TINY], [-2 - TINY, 1]]),
        ([[0, 0], [0, 0]], [[0, 0], [0, -TINY]]),
    ],
)
def test_hessians_may_be_singular_and_not_indefinite(fine, beyond):
    assert stability(fine, ONE).m == 2
    with pytest.raises(InvalidInput, match=r"H\[1\] = .* a convex loss has a positive semidefinite Hessian"):
        stability(ONE, beyond)


def test_where_the_determinant_alone_decides():
    """One client, as eight numbers hold two coordinates of three: its own Hessian is the mean."""
    assert stability(three(F(1, 2) - TINY)).d == 3
    for a, says in ((F(1, 2), "the mean of the Hessians must be positive definite"), (F(1, 2) + TINY, "positive semidefinite Hessian")):
        with pytest.raises(InvalidInput, match=says):
            stability(three(a))


def test_the_step_must_be_below_the_limit_along_every_direction():
    """Of [[2, 1], [1, 2]] the eigenvalues are 1 and 3: with lambda_2 = 1/2 the step must be below 2/7, not 2/5."""
    H = [[2, 1], [1, 2]]
    assert stability(H, lambda2=F(1, 2), eta=F(2, 7) - TINY).d == 2
    for eta in (F(2, 7), F(2, 7) + TINY, F(2)):  # at 2 both eigenvalues are beyond, and their product is above 0
        with pytest.raises(InvalidInput, match=r"H\[0\]: eta_l"):
            stability(H, lambda2=F(1, 2), eta=eta)


def test_the_mean_must_be_definite():
    parallel, across = [[1, 2], [2, 4]], [[4, -2], [-2, 1]]
    assert stability(parallel, across).m == 2
    with pytest.raises(InvalidInput, match="the mean of the Hessians must be positive definite"):
        stability(parallel, parallel)
    with pytest.raises(InvalidInput, match="at most 8 numbers"):
        stability(ONE, ONE, ONE, ONE)
    assert stability(ONE, ONE, ONE).m == 3


def test_a_step_of_2_is_not_below_2():
    assert stability(ONE, eta_g=2 - TINY).has(SERVER)
    assert not any(stability(ONE, eta_g=step).has(SERVER) for step in (2, F(5, 2)))
    assert stability([[1]], [[2]]).has(TWO_CLIENTS)
    assert not any(made.has(TWO_CLIENTS) for made in (stability([[1]]), stability(ONE, ONE)))


def test_the_spectral_radius_of_one_number():
    """SCAFFOLD of one client x^2/2: theta goes on by 1 - eta_g (1 - q^B), q = 1 - eta; with eta_g as it is where none is named."""
    exact = stability([[1]])
    floats = FloatStabilityView(np.ones((1, 1, 1)), exact.method._replace(lambda2=0.0, eta=0.05, eta_g=1.5))
    for factor in (1, 2):
        left = abs(1 - 1.5 * factor * (1 - 0.95**2))
        assert max(abs(np.linalg.eigvals(floats.matrix(factor)))) == pytest.approx(left, rel=1e-12)
    assert floats.largest() == floats.largest(1) != floats.largest(2)
    assert (exact.matrix() == exact.matrix(1)).all() and exact.largest() == exact.largest(1) != exact.largest(2)


# --- states at which the threshold stops ----------------------------------------------------------
STILL = {
    "h": [["3/7", "5/2"], ["4/3", "2/5"]], "theta": ["7/3", "-5/4"], "share": [["2/3", "-3/5"], ["-1", "1/4"]], "epsilon": "3/7",
    "lambda1": "5/3", "lambda2": "5/11", "eta": "2/9", "B": 3, "eta_g": "7/5",
}  # fmt: skip


def stopped(number, **change):
    return BUILDERS["threshold at rest"]({**STILL, "algorithm": number, **change})


@pytest.mark.parametrize("number", [1, 3])
def test_the_slopes_of_a_stopped_state(number):
    """grad L_k(theta) = g_k - share (lambda_1 + epsilon (a + lambda_2)), whose mean is grad R; g of mean 0."""
    g = [[F(2, 3), F(-3, 5)], [F(-2, 3), F(3, 5)]] if number == 3 else [[F(0)] * 2] * 2
    view = stopped(number, **({"g": [[str(x) for x in row] for row in g]} if number == 3 else {}))
    limits = [[F(5, 3) + F(3, 7) * (F(a) + F(5, 11)) for a in row] for row in STILL["h"]]
    slopes = [[g[k][i] - F(STILL["share"][k][i]) * limits[k][i] for i in range(2)] for k in range(2)]
    assert list(view.grad) == [(slopes[0][i] + slopes[1][i]) / 2 for i in range(2)]
    assert list(view.bound) == [(limits[0][i] + limits[1][i]) / 2 for i in range(2)]
    assert len(view.moved) == (3 if number == 3 else 1)


def test_flat_losses_have_no_slope():
    """A client with curvature 0 in a coordinate may be there where its slope is 0, which is what share = 0 asks."""
    flat = {"h": [["3/7", "0"], ["4/3", "2/5"]]}
    view = stopped(1, **flat, share=[["2/3", "0"], ["-1", "1/4"]])
    assert not view.moved.any() and view.grad[1] == F(-1, 8) * (F(5, 3) + F(3, 7) * (F(2, 5) + F(5, 11)))
    with pytest.raises(InvalidInput, match="h = 0 where a slope is asked for: take curvatures > 0"):
        stopped(1, **flat)


def test_algorithm_2_stops_at_an_optimum_that_nobody_leaves():
    """share = 0 of the first client is c = 0, and r_k = 0 for all."""
    view = stopped(2, share=[["0", "-3/5"], ["-1", "1/4"]])
    assert view.grad[0] == 0 != view.grad[1] and not view.moved.any() and view.state.c_k[0, :, 0].tolist() == [0, 0]


WIRE = {"h": [["3/7"], ["4/3"]], "c": [["3/2"], ["-7/2"]], "theta": ["37/3"], "lambda1": "5/3", "lambda2": "17/3", "epsilon": "4/7"}


@pytest.mark.parametrize(
    ("change", "frozen"),
    [
        ({"lambda1": "0", "lambda2": "40", "h": [["1"], ["1"]], "c": [["0"], ["0"]], "theta": ["41"], "epsilon": "1/2"}, True),
        ({"epsilon": "1/100"}, False),
        ({"T": 1}, False),
    ],
)
@pytest.mark.parametrize("feedback", [0, 1])
def test_whether_h_is_ever_moved_again(change, frozen, feedback):
    view = BUILDERS["threshold on the wire"]({**WIRE, "T": 3, **change, "feedback": feedback})
    assert view.has(FROZEN) == (frozen and not feedback)
    assert view.has(FEEDBACK) == bool(feedback) == (not view.has(NO_FEEDBACK))


# --- a problem of the user's ----------------------------------------------------------------------
SQUARES = problems.LeastSquares([[[1.0, 0.5], [0.25, 2.0]], [[0.5, -1.0], [1.5, 0.25]]], [[1.0, -0.5], [2.0, 0.75]])
BETA = float(SQUARES.beta_k.max())
ON_PROBLEMS = ("algorithm-2-sparsity", "algorithm-2-stability", "threshold-on-the-wire")


def prepared(name, how=None, **options):
    return SETTING.prepare(get(name), CommandRequest(options, made=SQUARES, seed=5, **(how or {})))


@pytest.mark.parametrize(
    ("name", "how", "options", "expected"),
    [
        ("algorithm-2-sparsity", {}, {}, (0.1, 0.0, 4, 1 / (2 * BETA))),
        ("algorithm-2-sparsity", {"participants": 1, "rounds": 7}, {"l1": 0.5, "l2": 3.0}, (0.5, 3.0, 4, 1 / (2 * (BETA + 3)))),
        ("algorithm-2-sparsity", {}, {"l2_over_beta": 2.0}, (0.1, 2 * BETA, 4, 1 / (6 * BETA))),
        ("algorithm-2-stability", {}, {}, (0.0, 0.0, 4, 1 / (2 * BETA))),
        ("algorithm-2-stability", {}, {"local_steps": 7, "local_lr": 0.0625}, (0.0, 0.0, 7, 0.0625)),
    ],
)
def test_algorithm_2_where_little_is_given(name, how, options, expected):
    """lambda_1 = 1/10, or 0 of the stability; lambda_2 = 0; B = 4 and eta_l half of what is stable."""
    found = prepared(name, how, **options)
    l1, l2, steps, lr = expected
    assert type(found.algorithm) is FedElasticNetScaffold and (found.algorithm.l1, found.algorithm.l2) == (l1, l2)
    solver, sampling = (found.options.pop(k) for k in ("local_solver", "sampling"))
    assert (solver.steps, solver.lr) == (steps, pytest.approx(lr, rel=1e-12))
    assert not found.options and found.problem is SQUARES
    P = how.get("participants", 2)
    assert found.head == [
        f"least squares: m = 2, P = {P}, d = 2, lambda_1 = {l1:g}, lambda_2 = {l2:.6g} = {l2 / BETA:.6g} beta, "
        f"Algorithm 2, B = {steps}, eta_l = {lr:.6g}"
    ]
    assert getattr(sampling, "size", 2) == P and found.details["sampling"] == repr(sampling)
    assert found.details["algorithm"]["name"] == "fedelasticnet-scaffold" and found.details["algorithm"]["l1"] == l1


@pytest.mark.parametrize(
    ("options", "l1", "l2", "epsilon"), [({}, 0.1, 30 * BETA, 0.01), ({"l1": 0.5, "l2": 3.0, "epsilon": 0.25}, 0.5, 3.0, 0.25)]
)
def test_the_threshold_where_little_is_given(options, l1, l2, epsilon):
    found = prepared("threshold-on-the-wire", **options)
    made = found.algorithm
    assert (type(made), made.l1, made.l2, made.epsilon) == (FedElasticNetDyn, l1, pytest.approx(l2, rel=1e-12), epsilon)
    assert found.head[0].endswith(
        f"lambda_2 = {l2:.6g} = {l2 / BETA:.6g} beta, Algorithm 3 (sign rule), epsilon = {epsilon:g} on the messages"
    )
    assert "local_solver" not in found.options


@pytest.mark.parametrize(
    ("name", "how", "options", "words"),
    [
        ("algorithm-2-at-rest", {}, {}, "fedelasticnet/algorithm-2-at-rest: it is about separable quadratics in fractions"),
        ("algorithm-2-sparsity", {}, {"batch_size": 2}, "--batch-size 2: fedelasticnet/algorithm-2-sparsity is about full gradients"),
        ("threshold-on-the-wire", {}, {"local_steps": 2}, r"--local-steps 2: .* is about exact local minimisers; leave it out"),
        ("threshold-on-the-wire", {}, {"local_lr": 0.5}, r"--local-lr 0.5: .* is about exact local minimisers; leave it out"),
        ("threshold-on-the-wire", {"participants": 1}, {}, r"--participants 1: .* is about all clients; leave it out"),
    ],
)
def test_what_a_request_may_not_ask(name, how, options, words):
    with pytest.raises(InvalidInput, match=words):
        prepared(name, how, **options)


def test_examples_can_be_prepared_and_battery_and_draws_are_as_asked():
    for name in ON_PROBLEMS:
        words = SETTING.about(get(name)).example.split()
        options = {k.removeprefix("--").replace("-", "_"): v for k, v in zip(words[::2], words[1::2], strict=True)}
        how = {"participants": int(options.pop("participants"))} if "participants" in options else {}
        assert options.pop("problem") in ("diabetes", "ill-conditioned", "quadratic")
        numbers = {k: int(v) if k == "local_steps" else float(v) for k, v in options.items()}
        made = prepared(name, how, **numbers)
        found = {"l1": made.algorithm.l1, "l2": made.algorithm.l2, "l2_over_beta": made.algorithm.l2 / BETA,
                 "epsilon": made.algorithm.epsilon, "server_lr": getattr(made.algorithm, "server_lr", None),
                 "local_steps": getattr(made.options.get("local_solver"), "steps", None)}  # fmt: skip
        assert {k: pytest.approx(v) for k, v in numbers.items()} == {k: found[k] for k in numbers} and numbers
        assert ("epsilon" in numbers, "server_lr" in numbers) == (name == "threshold-on-the-wire", name == "algorithm-2-stability")
    assert SETTING.about(get("algorithm-2-at-rest")).example is None
    assert SETTING.prepare(get("algorithm-2-stability"), CommandRequest({})).problem.name == "quadratic"
    few, more = (battery(KINDS, 3, scale) for scale in (0.1, 0.5))
    assert len(few) < len(more) and {i.seed for i in few} == {3}
    for kind in KINDS:
        assert random_instance(kind, np.random.default_rng(2)).kind == kind


def view_of(name, algorithm, problem=SQUARES, **how):
    statement = get(name)
    return SETTING.instance(statement, statement.forms[0], Case(problem, algorithm, **how)).view()


STEPS, SCAFFOLD = GradientSteps(3, 0.125), FedElasticNetScaffold(0.5, 0.25, server_lr=1.5)


@pytest.mark.parametrize("how", [{}, {"sampling": Uniform(1), "seed": 7, "rounds": 8, "x0": [0.75, -1.25]}])
def test_rounds_are_those_of_the_library(how):
    """The same cohorts, and so the same models; five rounds where none are named, from 0 where no start is."""
    view = view_of("algorithm-2-sparsity", SCAFFOLD, local_solver=STEPS, **how)
    more = {k: v for k, v in how.items() if k != "x0"} | {"rounds": how.get("rounds", 5)}
    run = simulate(SQUARES, SCAFFOLD, x0=how.get("x0", [0.0, 0.0]), local_solver=STEPS, keep_states=True, **more)
    np.testing.assert_allclose(view.theta, run.server_models()[:, 0], rtol=1e-12, atol=1e-14)
    assert len(view.theta) == 1 + how.get("rounds", 5) and view.here.sum(axis=1).tolist() == [1 if how else 2] * len(view.here)


@pytest.mark.parametrize("solver", [GradientSteps(3, 0.125, decay=0.5), GradientSteps(3, 0.125, l1="prox")])
def test_local_steps_are_as_printed(solver):
    with pytest.raises(InvalidInput, match=r"local solver GradientSteps.*takes B steps of one size"):
        view_of("algorithm-2-sparsity", SCAFFOLD, local_solver=solver)


def test_cohorts_of_another_law_are_refused():
    with pytest.raises(InvalidInput, match=r"cohorts are drawn by Bernoulli: use Full\(\) or Uniform\(P\)"):
        view_of("algorithm-2-sparsity", SCAFFOLD, local_solver=STEPS, sampling=Bernoulli(0.5))


def curved(*hessians):
    return problems.Quadratic(np.array(hessians, dtype=float), np.zeros((len(hessians), len(hessians[0]))))


def matrix(problem, l1=0.0, l2=0.0, lr=0.25, **how):
    return view_of("algorithm-2-stability", FedElasticNetScaffold(l1, l2), problem, local_solver=GradientSteps(2, lr), **how)


def test_the_matrix_is_of_the_clients_hessians():
    plane = curved([[2, 0.5], [0.5, 1]], ONE)
    for how in ({}, {"sampling": Uniform(2)}):
        assert matrix(plane, **how).H.tolist() == [[[2, 0.5], [0.5, 1]], ONE]
    assert matrix(SQUARES).H[0].tolist() == [[(1 + 0.25**2) / 2, 0.5], [0.5, (0.25 + 4) / 2]]


@pytest.mark.parametrize(
    ("problem", "how", "says"),
    [
        (curved([[1]]), {"l1": 0.5}, "lambda_1 = 0.5: the statement is about SCAFFOLD"),
        (problems.Logistic([[[1.0], [-1.0]]], [[1.0, 1.0]]), {}, r"logistic.* is not quadratic: the statement is about SCAFFOLD"),
        (curved([[1]], [[2]]), {"sampling": Uniform(1)}, r"Uniform.*1.*in which everyone takes part"),
        (curved([[1]]), {"l2": 1.0, "lr": 0.5}, r"eta_l \(beta \+ lambda_2\) = 1: it must be below 1"),
        (curved([[1]]), {"l2": 2.0, "lr": 0.5}, r"eta_l \(beta \+ lambda_2\) = 1.5: it must be below 1"),
        (curved([[2, 0], [0, -0.5]]), {}, "every L_k convex"),
        (curved([[2, 0], [0, -1e-11]]), {}, "every L_k convex"),
    ],
)
def test_what_the_matrix_is_not_about(problem, how, says):
    with pytest.raises(InvalidInput, match=says):
        matrix(problem, **how)


def test_the_matrix_at_its_limits(monkeypatch):
    """0.999 of the largest step; an eigenvalue below 0 by rounding, which is a share of the largest; as many numbers as allowed."""
    assert matrix(curved([[1]]), l2=1.0, lr=0.4995).m == 1
    assert matrix(curved([[2e6, 0], [0, -1e-6]]), lr=1e-7).d == 2
    monkeypatch.setattr(matrices, "MOST_NUMBERS", 6)
    assert matrix(curved(ONE, ONE)).d == 2
    with pytest.raises(InvalidInput, match="8 numbers in theta and the c_k: more than 6, take fewer clients"):
        matrix(curved(ONE, ONE, ONE))


def test_thresholded_runs_of_a_users_problem(monkeypatch):
    """Feedback is the compressor's; all clients may be drawn; as many rounds as are named, else as many as there are by default."""
    monkeypatch.setattr(wire, "WIRE_ROUNDS", 6)
    for made, feedback in (
        (FedElasticNetDyn(0.1, 60.0, epsilon=0.02), False),
        (Compressed(FedElasticNetDyn(0.1, 60.0), Threshold(0.02)), True),
        (Compressed(FedElasticNetDyn(0.1, 60.0), Threshold(0.02), feedback=False), False),
    ):
        view = view_of("threshold-on-the-wire", made, sampling=Uniform(2), x0=[0.75, -1.25])
        assert view.has(FEEDBACK) == feedback and view.epsilon == 0.02
        assert view.theta.shape == (7, 2) and view.theta[0].tolist() == [0.75, -1.25]
        np.testing.assert_allclose(SQUARES.weights @ SQUARES.gradient(view.star), 0, atol=1e-12)
    assert len(view_of("threshold-on-the-wire", made, rounds=3).theta) == 4


def test_rounding_is_no_message_that_was_missed():
    """A threshold that takes nothing: h and the mean of what is stored differ by rounding errors, and nothing was left out."""
    made = FedElasticNetDyn(0.001, 30.0, epsilon=1e-6)
    view = view_of("threshold-on-the-wire", made, rounds=4, x0=[0.75, -1.25])
    assert view.parted.any() and not view.left_out.any() and abs(view.parted).max() < 1e-12
    checks = {c.form: c for c in get("threshold-on-the-wire").verify(SQUARES, made, rounds=4, x0=[0.75, -1.25])}
    assert checks["what the server misses"].verdict == checks["does not affect"].verdict == "holds"


def test_another_mean_of_the_losses_is_not_what_algorithm_3_is_about():
    """With 9 samples and 1 the optimum of R is 1, where the run starts; the clients' plain mean has its optimum at 5."""
    data = [np.ones((9, 1)), np.ones((1, 1))], [np.zeros(9), np.ones(1) * 10]
    made = FedElasticNetDyn(0.001, 30.0, epsilon=1e-6)
    for weights, verdict in (("samples", "not applicable"), ("uniform", "holds")):
        problem = problems.LeastSquares(*data, weights=weights)
        checks = {c.form: c for c in get("threshold-on-the-wire").verify(problem, made, rounds=300, x0=[1.0])}
        assert checks["does not affect"].verdict == verdict and checks["what the server misses"].verdict == "holds"
        assert verdict == "holds" or PLAIN_MEAN in checks["does not affect"].reason
