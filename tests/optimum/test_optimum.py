"""Certified optima: every built-in problem reaches 1e-12, and every bound is compared with 60-digit arithmetic."""

import subprocess
import sys
from fractions import Fraction
from importlib import import_module

import mpmath as mp
import numpy as np
import pytest

from fedtheory import optimum
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.optimum import lower_bounds as certificates
from fedtheory.optimum.intervals import Enclosure, dot
from fedtheory.optimum.loss_enclosures import LogisticRows, RowLoss, SoftmaxRows, SquareRows
from fedtheory.optimum.lower_bounds import lower_bounds
from fedtheory.problems import Huber, LeastSquares, Logistic, Quadratic, Softmax

LIMIT = 1e-12
pytestmark = pytest.mark.usefixtures("sixty_digits")


# --- F in 60 digits, written from the formulas and not from the library ---------------------------
def exact(x):
    return mp.mpf(float(x))


def mp_terms(problem):
    """Weight, feature vector and target of every sample."""
    for k in range(problem.num_clients):
        for j in range(int(problem.sample_counts[k])):
            weight = exact(problem.weights[k]) * exact(problem.sample_weights[k, j])
            yield weight, [exact(v) for v in problem.features[k, j]], (k, j)


def mp_value_gradient(problem, x):
    """F(x) and grad F(x), a list."""
    d = problem.dim
    if isinstance(problem, Quadratic):
        value, grad = mp.mpf(0), [mp.mpf(0)] * d
        for k in range(problem.num_clients):
            r = [x[i] - exact(problem.minimisers[k, i]) for i in range(d)]
            hr = [mp.fsum(exact(problem.hessians[k, i, j]) * r[j] for j in range(d)) for i in range(d)]
            w = exact(problem.weights[k])
            value += w * mp.fsum(a * b for a, b in zip(r, hr)) / 2
            grad = [g + w * h for g, h in zip(grad, hr)]
        return value, grad
    ridge = exact(problem.ridge)
    value, grad = ridge / 2 * mp.fsum(v * v for v in x), [ridge * v for v in x]
    for weight, a, (k, j) in mp_terms(problem):
        if isinstance(problem, Softmax):
            c = problem.num_classes
            z = [mp.fsum(a[i] * x[i * c + m] for i in range(len(a))) for m in range(c)]
            label = int(np.argmax(problem.onehot[k, j]))
            e = [mp.e**v for v in z]
            value += weight * (mp.log(mp.fsum(e)) - z[label])
            for m in range(c):
                slope = weight * (e[m] / mp.fsum(e) - (m == label))
                for i in range(len(a)):
                    grad[i * c + m] += slope * a[i]
            continue
        z, b = mp.fsum(u * v for u, v in zip(a, x)), exact(problem.targets[k, j])
        if isinstance(problem, Logistic):
            loss, slope = mp.log(1 + mp.e ** (-b * z)), -b / (1 + mp.e ** (b * z))
        elif isinstance(problem, Huber):
            r, delta = z - b, exact(problem.delta)
            inside = abs(r) <= delta
            loss, slope = (r * r / 2, r) if inside else (delta * (abs(r) - delta / 2), delta * mp.sign(r))
        else:
            loss, slope = (z - b) ** 2 / 2, z - b
        value += weight * loss
        grad = [g + weight * slope * u for g, u in zip(grad, a)]
    return value, grad


def mp_minimum(problem, x):
    """F* by fixed-Hessian Newton steps in 60 digits from a point next to it."""
    h = problem.full_hessian(x)
    h = h + 1e-14 * np.trace(h) * np.eye(len(h)) if np.linalg.cond(h) > 1e13 else h
    inverse = np.linalg.pinv(h, rcond=1e-13)
    point = [exact(v) for v in x]
    for _ in range(30):
        value, grad = mp_value_gradient(problem, point)
        size = max(abs(g) for g in grad)
        if size < mp.mpf(10) ** -35:
            return value
        unit = [float(g / size) for g in grad]
        point = [p - size * exact(s) for p, s in zip(point, inverse @ unit)]
    raise AssertionError(f"the reference minimisation stopped at a gradient of {mp.nstr(size, 3)}")


def spd(rng, d, condition):
    q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    h = (q * np.geomspace(1, 1 / condition, d)) @ q.T
    return (h + h.T) / 2


def make(kind, variety, ridge, seed=0):
    """A small problem of 3 clients, 4 features (2 for softmax) and unequal sample counts."""
    rng = np.random.default_rng([seed, 17])
    d = 2 if kind == "softmax" else 4
    if kind == "quadratic":
        weights = np.array([0.5, 0.3, 0.2]) if variety == "weights" else "uniform"
        h = [spd(rng, d, 1e4 if variety == "ill conditioned" else 5) for _ in range(3)]
        c = rng.standard_normal((3, d))
        if variety == "identical":
            h, c = [h[0]] * 3, [c[0]] * 3
        if variety == "ill conditioned":
            h = [h[0]] * 3
        if variety == "rank deficient":
            h = np.array([np.diag([1.0, 0, 2, 0]) + 0.5 * np.pad(np.ones((1, 1)), ((0, 3), (0, 3))) for _ in range(3)])
        return Quadratic(h, c, weights)
    counts = (9, 7, 11)
    blocks = [rng.standard_normal((n, d)) for n in counts]
    targets = [rng.standard_normal(n) for n in counts]
    if variety == "ill conditioned":
        blocks = [a * np.geomspace(1, 1e-2, d) for a in blocks]
    if variety == "rank deficient":
        blocks = [np.column_stack([a[:, :-1], a[:, 0]]) if d > 2 else a[:, [0, 0]] for a in blocks]
    if variety == "identical":
        blocks, targets = [blocks[0]] * 3, [targets[0]] * 3
    weights = {"weights": [0.2, 0.5, 0.3], "identical": "samples"}.get(variety, "uniform")
    if kind == "softmax":
        rng = np.random.default_rng([seed, 18])
        draws = [rng.integers(0, 3, len(t)) for t in targets]
        return Softmax(blocks, draws, 3, ridge, weights)
    if kind == "logistic":
        return Logistic(blocks, [np.where(t > 0, 1.0, -1.0) for t in targets], ridge, weights)
    if kind == "huber":
        return Huber(blocks, targets, 0.6, ridge, weights)
    return LeastSquares(blocks, targets, ridge, weights)


VARIETIES = ("plain", "ill conditioned", "rank deficient", "identical", "weights")
CASES = [("quadratic", v, 0.0) for v in VARIETIES] + [
    (kind, v, ridge) for kind in ("least squares", "logistic", "huber", "softmax") for v in VARIETIES for ridge in (0.0, 1e-3)
]


@pytest.mark.parametrize(("kind", "variety", "ridge"), CASES)
def test_every_kind_is_certified_and_the_bound_is_true(kind, variety, ridge):
    problem = make(kind, variety, ridge)
    best = problem.optimum()
    assert best.gap <= LIMIT
    assert best.kkt_residual < 1e-12
    f_star = mp_minimum(problem, best.x)
    f_x, grad = mp_value_gradient(problem, [exact(v) for v in best.x])
    assert exact(best.lower_bound) <= f_star <= f_x <= exact(best.value)
    assert mp.sqrt(mp.fsum(g * g for g in grad)) <= exact(best.kkt_residual)
    # every bound that was proven, not only the best
    assert all(exact(b) <= f_star for b in best.details["bounds"].values())
    # the conic solver is an independent witness of the value
    assert best.details["conic_value"] == pytest.approx(best.value, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize(
    ("kind", "ridge"),
    [("quadratic", 0.0)] + [(k, r) for k in ("least squares", "logistic", "huber", "softmax") for r in (0.0, 1e-2)],
)
def test_a_perturbed_point_is_not_certified_and_its_bounds_stay_true(kind, ridge):
    problem = make(kind, "plain", ridge, seed=3)
    best = problem.optimum()
    f_star = mp_minimum(problem, best.x)
    rng = np.random.default_rng(5)
    for size in (1e-5, 1e-3, 1e-2, 1.0):
        moved = optimum.assess(problem, best.x + size * rng.standard_normal(problem.dim))
        assert moved.gap > LIMIT
        assert moved.lower_bound <= f_star <= moved.value
        assert moved.gap < 1e3 * size or size >= 1e-2  # a usable bound nearby, not minus infinity


@pytest.mark.parametrize("seed", range(4))
def test_random_enclosures_contain_the_true_value_and_gradient(seed):
    rng = np.random.default_rng(seed)
    for kind in ("quadratic", "least squares", "logistic", "huber", "softmax"):
        problem = make(kind, "ill conditioned", 1e-3, seed)
        for scale in (1e-8, 1.0, 1e4):  # large points: saturated exponentials and heavy cancellation
            x = scale * rng.standard_normal(problem.dim)
            value, grad = problem.structure().evaluate(x)
            f, g = mp_value_gradient(problem, [exact(v) for v in x])
            assert exact(value.lower) <= f <= exact(value.upper)
            assert value.upper - value.lower <= 1e-13 * abs(float(f))
            for i in range(problem.dim):
                assert abs(g[i] - exact(grad.hi[i]) - exact(grad.lo[i])) <= exact(grad.rad[i])


def test_the_strong_convexity_bound_is_fenchel_duality():
    problem = make("logistic", "plain", 1e-2)
    x = problem.optimum().x + 0.1
    ridge, moment, conjugate = exact(problem.ridge), [mp.mpf(0)] * problem.dim, mp.mpf(0)
    for weight, a, (k, j) in mp_terms(problem):
        b = exact(problem.targets[k, j])
        s = 1 / (1 + mp.e ** (b * mp.fsum(u * exact(v) for u, v in zip(a, x))))  # dual point -b s, 0 < s < 1
        conjugate += weight * (s * mp.log(s) + (1 - s) * mp.log(1 - s))
        moment = [m - weight * b * s * u for m, u in zip(moment, a)]
    dual = -conjugate - mp.fsum(m * m for m in moment) / (2 * ridge)
    value, gradient = problem.structure().evaluate(x)
    bound = {b.name: b.value for b in lower_bounds(problem.structure(), x, value, gradient)}["strong convexity, mu = ridge = 0.01"]
    assert exact(bound) <= dual <= exact(bound) + mp.mpf(10) ** -12


# --- mutants: these checks can fail ---------------------------------------------------------------
def test_a_curvature_ten_times_too_large_gives_a_false_bound(monkeypatch):
    problem = make("least squares", "plain", 0.0)
    best = problem.optimum()
    f_star = mp_minimum(problem, best.x)
    away = best.x + 0.01
    assert optimum.assess(problem, away).lower_bound <= f_star
    monkeypatch.setattr(SquareRows, "local_curvature", lambda self, x, j, metric, r: 10 * (1 - metric.delta))
    assert optimum.assess(problem, away).lower_bound > f_star


def test_a_ball_that_ignores_how_the_curvature_changes_gives_a_false_bound(monkeypatch):
    problem = make("logistic", "plain", 0.0, seed=1)
    best = problem.optimum()
    f_star = mp_minimum(problem, best.x)
    far = best.x * 30  # curvature there is far below that at the minimiser or on the way to it
    assert optimum.assess(problem, far).lower_bound <= f_star
    lies = []
    monkeypatch.setattr(LogisticRows, "local_curvature", lambda self, x, j, metric, r: 1e3 * (1 - metric.delta))
    for factor in (1.5, 3, 10, 30):
        lies.append(optimum.assess(problem, best.x * factor).lower_bound > f_star)
    assert any(lies)


def test_a_dropped_radius_is_noticed():
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((200, 30)), rng.standard_normal((1, 30))
    product = dot(a, x)
    exact_products = [sum(Fraction(float(u)) * Fraction(float(v)) for u, v in zip(row, x[0])) for row in a]
    errors = [abs(e - Fraction(float(h)) - Fraction(float(lo))) for e, h, lo in zip(exact_products, product.hi[:, 0], product.lo[:, 0])]
    assert all(e <= Fraction(float(r)) for e, r in zip(errors, product.rad[:, 0]))
    assert max(errors) > 0  # without a radius the enclosure would be wrong


def test_balls_contain_exact_sums_and_products():
    rng = np.random.default_rng(1)

    def draw():
        hi = rng.standard_normal(50) * 10.0 ** rng.integers(-8, 8, 50)
        return Enclosure(hi, hi * 2.0**-54 * rng.uniform(-1, 1, 50), np.abs(hi) * 2.0**-100)

    def members(ball, i):
        mid, rad = Fraction(float(ball.hi[i])) + Fraction(float(ball.lo[i])), Fraction(float(ball.rad[i]))
        return mid - rad, mid, mid + rad

    for _ in range(5):
        a, b = draw(), draw()
        b = Enclosure(np.where(rng.random(50) < 0.3, -a.hi, b.hi), b.lo, b.rad)  # cancellation
        for result, exactly in ((a + b, lambda u, v: u + v), (a - b, lambda u, v: u - v), (a * b, lambda u, v: u * v)):
            for i in range(50):
                low, _, high = members(result, i)
                corners = [exactly(u, v) for u in members(a, i) for v in members(b, i)]
                assert low <= min(corners) and max(corners) <= high
                assert Fraction(float(result.lower[i])) <= low and high <= Fraction(float(result.upper[i]))
        total = (a * b).sum()
        mid = sum(members(a, i)[1] * members(b, i)[1] for i in range(50))
        assert abs(mid - Fraction(float(total.hi)) - Fraction(float(total.lo))) <= Fraction(float(total.rad))
        clipped = a.clip(-1.0, 1.0)
        for i in range(50):
            low, _, high = members(clipped, i)
            for u in members(a, i):
                assert low <= max(Fraction(-1), min(Fraction(1), u)) <= high
    zero = Enclosure.exact(np.zeros(3)) * Enclosure.exact(np.ones(3))
    assert not zero.rad.any() and not zero.upper.any()


def test_losses_far_out_stay_enclosed():
    z = np.array([-745.0, -700.0, -40.0, -1e-9, 0.0, 1e-9, 40.0, 700.0, 745.0])
    rows = object.__new__(LogisticRows)
    rows.b = np.ones(len(z))
    loss, slope = rows.losses(Enclosure.exact(z[:, None]))
    for i, m in enumerate(z):
        true = mp.log(1 + mp.e ** (-exact(m)))
        assert exact(loss.lower[i]) <= true <= exact(loss.upper[i])
        assert exact(slope.lower[i, 0]) <= -1 / (1 + mp.e ** exact(m)) <= exact(slope.upper[i, 0])
        assert loss.upper[i] - loss.lower[i] <= 1e-14 * float(true) + 1e-290
    rows = object.__new__(SoftmaxRows)
    rng = np.random.default_rng(2)
    z = rng.standard_normal((40, 4)) * 10.0 ** rng.integers(-3, 3, (40, 1))
    rows.b = rng.integers(0, 4, 40)
    loss, slope = rows.losses(Enclosure.exact(z))
    for i in range(40):
        e = [mp.e ** exact(v) for v in z[i]]
        assert exact(loss.lower[i]) <= mp.log(mp.fsum(e)) - exact(z[i, rows.b[i]]) <= exact(loss.upper[i])
        for c in range(4):
            true = e[c] / mp.fsum(e) - (c == rows.b[i])
            assert exact(slope.lower[i, c]) <= true <= exact(slope.upper[i, c])


def test_a_matrix_that_is_not_safely_positive_definite_has_no_metric():
    rng = np.random.default_rng(0)
    h = spd(rng, 6, 1e8)
    metric = certificates.newton_metric(h, lambda s: 0.0)
    assert metric is not None and metric.delta < 1e-3
    assert certificates.newton_metric(h, lambda s: 1e-7) is None  # an error larger than the smallest eigenvalue
    assert certificates.newton_metric(np.diag([1.0, -1e-3]), lambda s: 0.0) is None


def test_unknown_losses_and_bad_arguments_are_refused():
    class Other(LeastSquares):
        def phi(self, z, b):
            return 2 * super().phi(z, b)

    with pytest.raises(NotCertified, match="rounding-proof bounds exist for"):
        Other(np.ones((1, 2, 1)), np.ones((1, 2))).optimum()
    problem = make("least squares", "plain", 0.0)
    with pytest.raises(InvalidInput, match="gap is -1"):
        optimum.certify(problem, gap=-1)
    with pytest.raises(InvalidInput, match=r"expected \(4,\)"):
        optimum.assess(problem, np.zeros(3))
    with pytest.raises(NotCertified, match=r"the limit 1e-30 .*cvxpy: status 'optimal'"):
        optimum.certify(problem, gap=1e-30)


# --- the solver is not believed -------------------------------------------------------------------
def test_a_failing_or_lying_solver_changes_nothing(monkeypatch):
    import cvxpy as cp

    problem = make("logistic", "plain", 0.0)
    true = optimum.certify(problem)

    def fails(self, **_):
        raise cp.SolverError("out of order")

    def lies(self, **_):
        self.variables()[0].value = np.array([0.1, -0.2, 0.1, 0.0])
        self._status = "optimal"

    def nothing(self, **_):
        return None

    for solve, said in ((fails, "failed: SolverError"), (lies, "status 'optimal'"), (nothing, "no point")):
        monkeypatch.setattr(cp.Problem, "solve", solve)
        best = optimum.certify(problem)
        assert best.gap <= LIMIT and said in best.details["conic"]
        assert (said in best.solver and "Newton polish only" in best.solver) or solve is lies
        np.testing.assert_allclose(best.x, true.x, rtol=1e-12)


def test_only_a_limit_that_is_asked_for_leaves_cvxpy_out_and_the_result_names_it():
    problem = make("huber", "plain", 1e-3)
    best = optimum.certify(problem, max_conic_entries=10)
    entries = best.details["conic_entries"]
    assert best.gap <= LIMIT and best.solver_value is None and entries > 27 * 4
    assert best.solver == f"Newton polish only: cvxpy skipped, its cone programme of {entries} entries exceeds max_conic_entries = 10"
    assert optimum.certify(problem, max_conic_entries=entries).solver == "cvxpy with Clarabel + Newton polish"
    problem.max_conic_entries = 10
    assert problem.optimum().solver == best.solver
    for wrong in (-1, 1.5, True):
        with pytest.raises(InvalidInput, match=f"max_conic_entries is {wrong}: it must be an integer >= 0"):
            optimum.certify(problem, max_conic_entries=wrong)


@pytest.mark.parametrize("make", [Logistic, LeastSquares, Huber])
def test_two_points_are_enclosed_and_the_value_is_known_to_its_last_bits(make, monkeypatch):
    """The two are where Newton's steps end, and where the exact gradient there leads."""
    asked = []
    monkeypatch.setattr(
        RowLoss, "evaluate", lambda *a, true=RowLoss.evaluate: asked.append(a) or true(*a)
    )
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, 40, 5))
    found = make(rows, np.sign(rows[..., 0] + rng.standard_normal((2, 40))), ridge=0.1).optimum()
    assert len(asked) == 2 and found.gap <= 1e-14 and found.kkt_residual <= 1e-14


def test_l_bfgs_takes_over_in_high_dimension(monkeypatch):
    monkeypatch.setattr(import_module("fedtheory.optimum.certify"), "NEWTON_DIM", 2)
    assert optimum.certify(make("softmax", "plain", 1e-1), max_conic_entries=0).gap <= LIMIT


def test_excess_brackets_the_true_excess_and_the_problem_keeps_its_optimum():
    problem = make("least squares", "plain", 1e-3)
    best = problem.optimum()
    assert problem.optimum() is best
    f_star = mp_minimum(problem, best.x)
    at_most, at_least = best.excess(1.0)
    assert exact(at_least) <= 1 - f_star <= exact(at_most)
    assert problem.constants().dissimilarity_sq > 0


def test_cvxpy_is_imported_only_when_needed():
    code = "import sys, fedtheory, fedtheory.optimum; print('cvxpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"
