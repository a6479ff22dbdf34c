"""Statements about Algorithm 2 and the threshold: verdicts, mutants, witnesses, a user's problem, and the runs that they speak of."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from fedelasticnet_worlds import ALGORITHM_2 as KINDS
from fedelasticnet_worlds import BUILDERS, battery, random_instance

from fedtheory import Uniform, algorithms, messages, problems, simulate, theorems
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps
from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import sums, trace
from fedtheory.theorems.fedelasticnet.algorithm_2.stability import FloatStabilityView, contractions
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.replay import builtin_witnesses, replay
from fedtheory.theory.judge.verify import verify

OURS = [s for s in theorems.all_statements("fedelasticnet/") if s.scope in KINDS]
SHIPPED = [w for w in builtin_witnesses("fedelasticnet") if w.kind in KINDS]
FORMS = [pytest.param(s, f, id=f"{s.id}-{f.name}") for s in OURS for f in s.forms]
MUTANTS = [pytest.param(s, f, m, id=f"{s.id}-{f.name}-{m.name}") for s in OURS for f in s.forms for m in f.mutants]


@pytest.fixture(scope="module")
def views():
    return [(i.kind, i.view()) for i in battery(KINDS, 7, 0.4)]


def of_form(views, form):
    return [v for kind, v in views if kind == form.kind and v.applies(form) is None]


@pytest.mark.parametrize(("statement", "form"), FORMS)
def test_what_is_established_is_found(statement, form, views):
    verdicts = {judge_view(statement, form, v).verdict for v in of_form(views, form)}
    assert "violated" in verdicts if form.established["any"] == "violated" else verdicts == {"holds"}


@pytest.mark.parametrize(("statement", "form", "mutant"), MUTANTS)
def test_every_mutant_is_rejected(statement, form, mutant, views):
    assert any(judge_view(statement, form, v, sides=mutant.sides).verdict == "violated" for v in of_form(views, form))


@pytest.mark.parametrize("kind", KINDS)
def test_random_instances_are_instances(kind):
    """Every draw can be built, and is exact."""
    for seed in range(12):
        view = random_instance(kind, np.random.default_rng(seed)).view()
        assert view.exact and view.rule == "any"


@pytest.mark.parametrize("witness", SHIPPED, ids=lambda w: w.name)
def test_shipped_witnesses_replay(witness):
    check = replay(witness)
    assert (check.verdict, check.mode) == ("violated", "rational")
    assert F(witness.lhs) > F(witness.rhs)


def test_every_form_on_record_as_violated_has_a_witness():
    have = {(w.statement, w.form) for w in SHIPPED}
    assert have == {(s.id, f.name) for s in OURS for f in s.forms if f.established["any"] == "violated"}


# --- malformed instances --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"B": 0}, "B = 0"),
        ({"lambda1": "-1"}, "must be >= 0"),
        ({"cohorts": [[0, 0]]}, "different clients"),
        ({"cohorts": []}, "different clients"),
        ({"theta": ["1", "2"]}, "theta .2,. does not fit h"),
        ({"h": [["0"]]}, "some > 0"),
    ],
)
def test_malformed_rounds_are_refused(change, says):
    data = {"h": [["1"]], "c": [["0"]], "theta": ["1"], "c_k": [["0"]], "lambda1": "1", "lambda2": "0", "eta": "1/2", "B": 2}
    with pytest.raises(InvalidInput, match=says):
        BUILDERS["algorithm-2"]({**data, "cohorts": [[0]], **change})


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        ("algorithm-2 at rest", {"eta": "1"}, "strictly between 0 and 1"),
        ("algorithm-2 at rest", {"sigma": [[2]]}, "every sigma -1, 0 or 1"),
        ("scaffold stability", {"H": [[["0"]]]}, "positive definite"),
        ("scaffold stability", {"H": [[["-1"]]]}, "positive semidefinite"),
        ("scaffold stability", {"H": [[["1"]]], "eta": "1"}, "must hold"),
        ("scaffold stability", {"H": [[["1", "2"], ["0", "1"]]]}, "symmetric"),
        ("threshold at rest", {"algorithm": 4}, "algorithm = 4"),
        ("threshold at rest", {"share": [["2"]]}, "share"),
        ("threshold at rest", {"algorithm": 3, "g": [["1"]]}, "must be 0 at rest"),
        ("threshold at rest", {"lambda2": "0"}, "it must be > 0"),
        ("threshold on the wire", {"epsilon": "0"}, "> 0"),
    ],
)
def test_malformed_instances_are_refused(kind, change, says):
    data = {
        "h": [["1"]], "c": [["0"]], "sigma": [[1]], "shift": ["0"], "shift_k": [["0"]], "algorithm": 1, "share": [["1"]],
        "theta": ["1"], "epsilon": "1/2", "lambda1": "1", "lambda2": "1/2", "eta": "1/2", "B": 2, "T": 2,
    }  # fmt: skip
    with pytest.raises(InvalidInput, match=says):
        BUILDERS[kind]({**data, **change})


# --- what the proofs say --------------------------------------------------------------------------
@pytest.mark.parametrize("B", [1, 2, 3, 4, 5, 6])
def test_no_client_comes_back_from_a_slope_beyond_rho(B):
    """On a grid of slopes r the update is 0 at single values only, at +-rho among them, and beyond it leads down the slope."""
    view = BUILDERS["algorithm-2 at rest"]({
        "h": [["1"]], "c": [["0"]], "sigma": [[0]], "lambda1": "1", "lambda2": "1/4", "eta": "1/5", "B": B, "shift": ["0"],
        "shift_k": [["0"]],
    })  # fmt: skip
    rho, q = view.rho[0, 0], view.q[0, 0]
    assert rho == (1 - q ** (B - 1)) / (1 - q**B)
    zeros = 0
    for r in [*(F(n, 120) for n in range(-180, 181)), rho, -rho]:
        _, _, move = trace(view.world, view.method, np.array([r]), np.array([[F(0)]]), np.array([F(0)]))
        moved = move[0, 0]
        zeros += moved == 0
        if abs(r) > rho:
            assert moved * r < 0
        if abs(r) == rho:
            assert moved == 0
    assert zeros <= 3 ** (B - 1) + (rho == 0) * 2  # 0 is on the grid, too, and is then counted with rho = 0


def test_algorithm_2_from_afar_ends_where_the_penalty_holds_it():
    """One client x^2/2 from x = 8, B = 2, eta_l = 1/4: the slope tends to rho = 4/7, and does not fall below it."""
    problem = problems.Quadratic(np.ones((1, 1, 1)), np.zeros((1, 1)))
    run = simulate(problem, algorithms.FedElasticNetScaffold(1, 0), 80, [8.0], local_solver=GradientSteps(2, 0.25), keep_states=True)
    x = run.server_models()[:, 0, 0]
    assert (np.diff(x) < 1e-12).all()
    np.testing.assert_allclose(x[-1], 4 / 7, rtol=1e-9)
    free = simulate(problem, algorithms.Scaffold(), 80, [8.0], local_solver=GradientSteps(2, 0.25))
    assert abs(free.final.x[0, 0]) < 1e-6


@pytest.mark.parametrize("start", [1e-9, -1e-9])
def test_from_next_to_the_optimum_it_ends_as_far_away(start):
    problem = problems.Quadratic(np.ones((1, 1, 1)), np.zeros((1, 1)))
    run = simulate(problem, algorithms.FedElasticNetScaffold(1, 0), 80, [start], local_solver=GradientSteps(2, 0.25))
    np.testing.assert_allclose(run.final.x[0, 0], np.sign(start) * 4 / 7, rtol=1e-9)


def test_contractions_by_hand():
    """Of 1/2 and 1/3: t^2 - 5/6 t + 1/6, and what is left of it, 35/36 t - 25/36. Of 1 and -1 the first number is 1, and the last."""
    matrix = lambda rows: np.array([[F(x) for x in row] for row in rows], dtype=object)  # noqa: E731
    assert contractions(matrix([["1/2", "0"], ["0", "1/3"]])) == [F(1, 6), F(5, 7)]
    assert contractions(matrix([["0", "1"], ["1", "0"]])) == [1]


@pytest.mark.parametrize("seed", range(6))
def test_contractions_tell_stable_from_unstable(seed):
    """Against the eigenvalues of the same matrix, of both kinds."""
    rng = np.random.default_rng(seed)
    for scale in (2, 3, 5):
        M = rng.integers(-9, 10, size=(3, 3)) + F(0)
        M = M / (scale * 3)
        radius = np.abs(np.linalg.eigvals(M.astype(float))).max()
        assert (max(contractions(M)) < 1) == (radius < 1), radius


@pytest.mark.parametrize("seed", range(5))
def test_the_matrix_from_the_formulas_is_that_of_the_method(seed):
    view = random_instance("scaffold stability", np.random.default_rng(seed)).view()
    in_floats = FloatStabilityView(view.H.astype(float), view.method._replace(
        lambda2=float(view.method.lambda2), eta=float(view.method.eta), eta_g=float(view.method.eta_g)
    ))  # fmt: skip
    np.testing.assert_allclose(in_floats.matrix(), view.matrix().astype(float), atol=1e-13)
    assert (in_floats.largest() < 1) == (view.largest() < 1)


def test_unequal_clients_do_not_make_scaffold_diverge():
    """Curvatures 1 to 10^4 and steps at the limit eta_l a = 1 of the steepest: with eta_g = 1 and B = 40 it converges."""
    h = np.array([1.0, 30.0, 1e4]).reshape(3, 1, 1)
    problem = problems.Quadratic(h, np.array([[5.0], [-3.0], [1.0]]))
    run = simulate(problem, algorithms.Scaffold(), 4000, [50.0], local_solver=GradientSteps(40, 0.999e-4), record=["distance"])
    assert run.metrics["distance"][-1, 0] < 1e-3 * run.metrics["distance"][0, 0]
    assert (sums(np.array([0.5]), 3) == 1.75).all()


@pytest.mark.parametrize(
    ("l1", "how", "ends"),
    [
        (3.0, {"feedback": False}, -171.0),  # 29 - 200: theta^t = 30 - t for ever
        (3.0, {"epsilon": 0.5}, None),
        (0.0, {"feedback": True}, None),  # with lambda_1 > 0 feedback does not help
        (3.0, {"feedback": False, "stored": "received"}, None),
    ],
    ids=["wire", "client", "feedback", "received"],
)
def test_the_wire_drifts_away_and_the_repairs_do_not(l1, how, ends):
    problem = problems.Quadratic(np.ones((1, 1, 1)), np.zeros((1, 1)))
    method = algorithms.FedElasticNetDyn(l1, 30.0, epsilon=how.get("epsilon", 0.0), stored=how.get("stored", "own"))
    if "feedback" in how:
        method = algorithms.Compressed(method, messages.Threshold(0.5), feedback=how["feedback"])
    run = simulate(problem, method, 201, [30.9])
    if ends is not None:
        np.testing.assert_allclose(run.final.x[0, 0], ends, rtol=1e-12)
    else:
        assert abs(run.final.x[0, 0]) <= l1 + 0.5 * 31 + 1e-9  # lambda_1 + epsilon (a + lambda_2), over a


# --- on a problem of the user's -------------------------------------------------------------------
def users():
    rng = np.random.default_rng(3)
    return problems.LeastSquares(rng.standard_normal((4, 12, 3)), rng.standard_normal((4, 12)))


def verdicts(id, algorithm, **options):
    return {c.form: c.verdict for c in verify(theorems.get(id), users(), algorithm, **options)}


def test_rounds_on_a_users_problem():
    solver, algorithm = GradientSteps(4, 0.1), algorithms.FedElasticNetScaffold(0.3, 0.2)
    options = {"local_solver": solver, "sampling": Uniform(2), "rounds": 6}
    found = verdicts("fedelasticnet/algorithm-2-variates", algorithm, **options)
    assert found == {"c is the mean": "holds", "what c_k holds": "holds", "its l1 part": "holds", "the server's step": "not applicable"}
    found = verdicts("fedelasticnet/second-message", algorithm, **options)
    assert found == {"twice": "violated", "recovered": "holds", "nonzeros of both": "holds"}
    found = verdicts("fedelasticnet/algorithm-2-sparsity", algorithm, **options)
    assert found["sparsifies"] == "violated" and found["to and fro"] == found["what epsilon has to be"] == "holds"
    everybody = verdicts("fedelasticnet/algorithm-2-variates", algorithm, local_solver=solver)
    assert everybody["the server's step"] == "holds"


def test_stability_on_a_users_problem():
    solver = GradientSteps(20, 0.9 / float(users().beta_k.max()))
    for server_lr in (1.0, 1.9):
        algorithm = algorithms.FedElasticNetScaffold(0, 0, server_lr=server_lr)
        found = verdicts("fedelasticnet/algorithm-2-stability", algorithm, local_solver=solver)
        assert found == {"every heterogeneity": "holds", "two clients": "not applicable"}
    steep = GradientSteps(20, 1.1 / float(users().beta_k.max()))
    found = verdicts("fedelasticnet/algorithm-2-stability", algorithms.FedElasticNetScaffold(0, 0), local_solver=steep)
    assert set(found.values()) == {"not applicable"}


def test_the_wire_on_a_users_problem():
    algorithm = algorithms.FedElasticNetDyn(0.1, 60.0, epsilon=0.02)
    found = verdicts("fedelasticnet/threshold-on-the-wire", algorithm, rounds=20)
    assert found["what the server misses"] == "holds" and found["with error feedback"] == "not applicable"
    fed = algorithms.Compressed(algorithms.FedElasticNetDyn(0.0, 60.0), messages.Threshold(0.02))
    assert verdicts("fedelasticnet/threshold-on-the-wire", fed, rounds=20)["with error feedback"] == "holds"


@pytest.mark.parametrize(
    ("id", "algorithm", "options", "says"),
    [
        ("algorithm-2-sparsity", algorithms.Scaffold(), {"local_solver": GradientSteps(2, 0.1)}, "not Scaffold"),
        ("algorithm-2-sparsity", algorithms.FedElasticNetScaffold(1, 0), {}, "GradientSteps"),
        (
            "algorithm-2-sparsity", algorithms.FedElasticNetScaffold(1, 0, epsilon=0.1), {"local_solver": GradientSteps(2, 0.1)},
            "without epsilon",
        ),
        ("algorithm-2-at-rest", algorithms.FedElasticNetScaffold(1, 0), {}, "separable quadratics"),
        ("threshold-on-the-wire", algorithms.FedElasticNetDyn(1, 9), {}, "give a threshold > 0"),
        ("threshold-on-the-wire", algorithms.FedElasticNetDyn(1, 9, "true-gradient", 0.1), {}, "sign rule"),
        ("threshold-on-the-wire", algorithms.FedElasticNetDyn(1, 9, epsilon=0.1), {"sampling": Uniform(2)}, "everyone takes part"),
    ],
)
def test_what_a_statement_is_not_about_is_said(id, algorithm, options, says):
    for check in verify(theorems.get(f"fedelasticnet/{id}"), users(), algorithm, **options):
        assert check.verdict == "not applicable" and says in check.reason


def test_the_recorded_wordings_are_of_claims_in_words():
    """No form here is called printed: the paper prints the algorithm and sentences about it, the formulas are ours."""
    for statement in OURS:
        assert statement.as_printed is not None and all(f.name != "printed" for f in statement.forms)
