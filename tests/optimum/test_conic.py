"""cvxpy solves every built-in problem: the form it is given, the two values, and what the result says of it."""


import cvxpy as cp
import numpy as np
import pytest
from command_line import call, refused
from release_files import path_of, real

from fedtheory import optimum
from fedtheory.cli.problems import PROBLEMS, build
from fedtheory.optimum import conic
from fedtheory.problems import Huber, LeastSquares, Logistic, Softmax

# with all samples of ten classes cvxpy takes half a minute (digits-10) to two minutes: `test_with_all_samples`, on request
SMALLER = {"digits-10": {"held_out": 0.95}, "synthetic": {"held_out": 0.98}, "synthetic-iid": {"held_out": 0.98}}
SMOOTH = [n for n, p in PROBLEMS.items() if not p.nonsmooth and n not in ("saddle", "separable")]


def solved(problem, monkeypatch, **options):
    """The optimum, and what cvxpy gave on the way to it."""
    given, real = [], conic.solve
    monkeypatch.setattr(conic, "solve", lambda *a: given.append(real(*a)) or given[-1])
    return optimum.certify(problem, **options), given[0]


def agree(problem, best, found):
    """Clarabel stops when its primal and dual values differ by 1e-8 max(1, |F|) and its residuals are 1e-8:
    what it reports may be off by both. Its point says the same without its word: what is proven there and
    what is proven at x* must meet."""
    stops = 1e-8 * max(1.0, abs(best.value))
    assert best.lower_bound - 2 * stops <= best.solver_value <= best.value + 2 * stops
    there = optimum.assess(problem, found.x)
    assert there.lower_bound <= best.value and best.lower_bound <= there.value
    assert there.value - best.lower_bound <= 2 * stops


@pytest.mark.parametrize("name", SMOOTH)
def test_every_named_problem_is_solved_by_cvxpy_and_both_values_agree(name, monkeypatch):
    problem = build(name, SMALLER.get(name, {}), 1)
    best, found = solved(problem, monkeypatch)
    assert best.gap <= 1e-12 and best.solver == "cvxpy with Clarabel + Newton polish"
    assert best.details["conic"] == "status 'optimal'" and best.solver_value == found.value
    assert best.details["conic_form"] == found.form and best.details["conic_entries"] == found.entries > 0
    assert 0 < best.details["conic_seconds"] == found.seconds
    agree(problem, best, found)


@pytest.mark.parametrize("name", [n for n, p in PROBLEMS.items() if p.nonsmooth])
def test_every_named_nonsmooth_problem_is_solved_by_cvxpy(name):
    best = build(name, {}, 1).optimum_on_ball(1.0)
    assert best.details["conic"].startswith("status 'optimal")
    assert best.solver_value == best.details["conic_value"] == pytest.approx(best.value, abs=1e-8 * max(1.0, abs(best.value)))


@pytest.mark.data
@real
@pytest.mark.parametrize("name", SMALLER)
def test_with_all_samples(name, monkeypatch):
    best, found = solved(problem := build(name, {}, 1), monkeypatch)
    assert best.gap <= 1e-12 and best.solver == "cvxpy with Clarabel + Newton polish"
    agree(problem, best, found)


@pytest.mark.data
@real
@pytest.mark.parametrize(
    ("file", "loss"),
    [(f, "logistic") for f in ("a1a", "a5a", "a7a", "a9a", "mushrooms", "w8a")] + [("a9a", "least-squares"), ("a9a", "huber")],
)
def test_libsvm_files_are_solved_by_cvxpy(file, loss, monkeypatch):
    given = {"dimension": 123} if file[0] == "a" else {}
    problem = build(None, {"data": path_of(file, endings=("", ".bz2")), "loss": loss, "ridge": 0.01, "clients": 10, **given}, 0)
    best, found = solved(problem, monkeypatch)
    assert best.gap <= 1e-12 and best.solver == "cvxpy with Clarabel + Newton polish"
    agree(problem, best, found)


# --- the form -------------------------------------------------------------------------------------
def sparse_rows(rng, n, d):
    return rng.integers(1, 4, (n, d)) * (rng.random((n, d)) < 0.1)


@pytest.mark.parametrize("kind", [LeastSquares, Logistic, Huber, Softmax])
def test_copies_of_a_sample_become_one_with_all_their_weight(kind):
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((6, 2)), rng.choice([-1.0, 1.0], 6)
    labels = (labels > 0).astype(int) if kind is Softmax else labels
    draw = [rng.integers(0, 6, n) for n in (9, 30, 4)]  # clients of unequal size: copies of unequal weight
    args = ([rows[i] for i in draw], [labels[i] for i in draw], *((2,) if kind is Softmax else ()))
    problem = kind(*args, ridge=0.1, weights=[0.5, 0.2, 0.3])
    assert len({int(i) for d in draw for i in d}) == 6 and "6 distinct samples of 43" in problem.cvxpy_form()
    variable = cp.Variable(problem.dim)
    for x in rng.standard_normal((3, problem.dim)):
        variable.value = x
        assert problem.cvxpy_objective(variable).value == pytest.approx(float(problem.objective(x)), rel=1e-13)
    other = [labels[i] for i in draw]
    other[0] = 1 - other[0] if kind is Softmax else -other[0]  # the same features with another label are no copy
    assert "distinct samples of 43" in (form := kind(args[0], other, *args[2:]).cvxpy_form()) and "6 distinct" not in form


@pytest.mark.parametrize(("copies", "form"), [(1, "20 samples"), (2, "18 distinct samples of 20")])
def test_samples_stay_as_they_are_where_less_than_a_tenth_are_copies(copies, form):
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((20, 3))
    rows[:, 2], rows[:copies] = 0.0, rows[10 : 10 + copies]
    rows[:copies, 2] = -0.0  # is 0
    problem = Logistic([rows], [np.ones(20)], ridge=0.1)
    assert problem.cvxpy_form() == form
    variable = cp.Variable(3)
    variable.value = x = rng.standard_normal(3)
    assert problem.cvxpy_objective(variable).value == pytest.approx(
        float(problem.objective(x)), rel=1e-13
    )


def test_least_squares_are_given_as_an_orthogonal_factor_of_d_plus_one_rows():
    rng = np.random.default_rng(1)
    entries = set()
    for n in (50, 5000):
        problem = LeastSquares(rng.standard_normal((2, n, 5)), rng.standard_normal((2, n)), ridge=0.1)
        found = conic.solve(problem)
        entries.add(found.entries)
        assert found.form.startswith(f"orthogonal factor of {2 * n:,} samples: 6 equalities")
    assert len(entries) == 1
    wide = LeastSquares(rng.standard_normal((1, 3, 5)), rng.standard_normal((1, 3)), ridge=0.1)
    assert conic.solve(wide).form.startswith("3 samples: ")


def test_a_subclass_with_a_loss_of_its_own_is_not_given_the_factor():
    class Twice(LeastSquares):
        def phi(self, z, b):
            return 2 * super().phi(z, b)

        def cvxpy_loss(self, z, b):
            return 2 * super().cvxpy_loss(z, b)

    rng = np.random.default_rng(2)
    problem, variable = Twice(rng.standard_normal((1, 9, 2)), rng.standard_normal((1, 9))), cp.Variable(2)
    variable.value = np.array([1.0, -2.0])
    assert problem.cvxpy_objective(variable).value == pytest.approx(float(problem.objective(variable.value)), rel=1e-13)


def test_huber_s_split_is_least_where_it_is_the_objective():
    """u and v take what is beyond delta; any others are worse, as is a loss of a subclass's own, which is not split."""
    rng = np.random.default_rng(4)
    problem, variable = Huber(rng.standard_normal((2, 9, 3)), 2 * rng.standard_normal((2, 9)), delta=0.7, ridge=0.3), cp.Variable(3)
    variable.value = x = rng.standard_normal(3)
    split = problem.cvxpy_split(variable)
    up, down = (v for v in split.variables() if v is not variable)
    features, targets, _, _ = problem._distinct
    r = features @ x - targets[:, 0]
    up.value, down.value = np.maximum(r - 0.7, 0), np.maximum(-r - 0.7, 0)
    assert (up.value > 0).any() and (down.value > 0).any() and (up.attributes["nonneg"] and down.attributes["nonneg"])
    assert split.value == pytest.approx(float(problem.objective(x)), rel=1e-13)
    for moved in (up, down):
        for by in (-0.01, 0.01):
            kept, moved.value = moved.value, np.maximum(moved.value + by, 0)
            assert split.value > problem.objective(x)
            moved.value = kept

    class Twice(Huber):
        def cvxpy_loss(self, z, b):
            return 2 * super().cvxpy_loss(z, b)

    assert Twice(problem.features, problem.targets).cvxpy_split(variable).variables() == [variable]


def test_zeros_of_the_data_are_not_given_to_the_solver():
    rng = np.random.default_rng(3)
    rows, labels = sparse_rows(rng, 400, 100), rng.choice([-1.0, 1.0], 400)
    nonzeros = int((np.unique(np.column_stack([rows, labels]), axis=0)[:, :-1] != 0).sum())
    found = conic.solve(Logistic([rows], [labels], ridge=0.1))
    # two cones a sample with five entries besides the data, three in their sum, and the ridge's diagonal
    assert found.entries <= nonzeros + 8 * 400 + 100 < 400 * 100 / 3


# --- what is said ---------------------------------------------------------------------------------
def test_a_solve_is_announced_only_when_it_lasts(monkeypatch):
    problem, said = build("logistic", {}, 0), []
    with conic.announced(said.append):
        conic.solve(problem)
    assert said == [], "it takes milliseconds"
    real = cp.Problem.solve

    def slow(self, **options):
        import time

        time.sleep(0.2)
        return real(self, **options)

    monkeypatch.setattr(cp.Problem, "solve", slow)
    monkeypatch.setattr(conic, "PATIENCE", 0.1)
    with conic.announced(pytest.fail), conic.announced(said.append):
        form = conic.solve(problem).form
    assert said == [f"solving with cvxpy ({form}) ..."]
    conic.solve(problem)  # nobody listens
    assert len(said) == 1
    text = call("solve", "logistic")
    assert f"solving with cvxpy ({form}) ... (--max-conic-entries 0 goes without it)" in text.stderr
    assert "solving" not in text.stdout


def test_solve_shows_both_values_and_the_form(monkeypatch):
    import json

    text = " ".join(call("solve", "diabetes").stdout.split())
    found = json.loads(call("solve", "diabetes", "--json").stdout)["optimum"]
    assert f"value by cvxpy {found['solver_value']:.15g} (" in text and "status 'optimal'" in text
    assert "cone programme orthogonal factor of 442 samples: 11 equalities, a quadratic objective, 21 variables, 87 entries" in text
    assert abs(found["solver_value"] - found["value"]) <= 1e-8 and found["details"]["conic_entries"] == 87
    text = " ".join(call("solve", "diabetes", "--max-conic-entries", 5).stdout.split())
    assert "Newton polish only: cvxpy skipped, its cone programme of 87 entries exceeds max_conic_entries = 5" in text
    assert "value by cvxpy" not in text
    assert "--max-conic-entries -1: it must be an integer >= 0" in refused("solve", "diabetes", "--max-conic-entries=-1")
    assert "solved on a ball: leave it out" in refused("solve", "lad", "--max-conic-entries", 5)
