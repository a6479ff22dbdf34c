"""A loss of a user's own: certified by what its class declares, and refused where that can be disproved."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from fedtheory import Uniform, theorems
from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.errors import NotCertified
from fedtheory.optimum.loss_enclosures import QuadraticForm
from fedtheory.problems import LeastSquares, LinearModel, Problem, Quadratic

LONG = np.finfo(np.longdouble).eps < 2.0**-59
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(4, 12, 3))
TARGETS = FEATURES @ [1.0, -2.0, 0.5] + RNG.normal(size=(4, 12))


class LogCosh(LinearModel):
    curvature_max = 1.0
    rounding = 16

    def phi(self, z, b):
        return np.log1p(2 * np.sinh(abs(z - b) / 2) ** 2)

    def dphi(self, z, b):
        return np.tanh(z - b)

    def d2phi(self, z, b):
        return 1 - np.tanh(z - b) ** 2


def exact_optimum(problem: LinearModel, start: np.ndarray) -> tuple[mpmath.mpf, list]:
    """F* and x* in 50 digits: Newton on the data as stored, from a point near it."""
    with mpmath.workdps(50):
        keep = problem.sample_weights > 0
        mpf = mpmath.mpf
        rows = [
            (mpf(float(problem.sample_weights[k, j])) * mpf(float(problem.weights[k])), [mpf(float(v)) for v in problem.features[k, j]],
             mpf(float(problem.targets[k, j])))
            for k, j in zip(*np.nonzero(keep), strict=True)
        ]  # fmt: skip
        ridge, d = mpmath.mpf(problem.ridge), problem.dim
        x = mpmath.matrix([mpf(float(v)) for v in start])
        for _ in range(8):
            z = [sum(a[i] * x[i] for i in range(d)) - b for _, a, b in rows]
            slope = [(q * mpmath.tanh(t), a) for (q, a, _), t in zip(rows, z, strict=True)]
            g = mpmath.matrix([sum(s * a[i] for s, a in slope) + ridge * x[i] for i in range(d)])
            h = mpmath.matrix(d, d)
            for (q, a, _), t in zip(rows, z, strict=True):
                for i in range(d):
                    for m in range(d):
                        h[i, m] += q * a[i] * a[m] * mpmath.sech(t) ** 2
            x -= mpmath.lu_solve(h + ridge * mpmath.eye(d), g)
        z = [sum(a[i] * x[i] for i in range(d)) - b for _, a, b in rows]
        value = sum(q * mpmath.log(mpmath.cosh(t)) for (q, _, _), t in zip(rows, z, strict=True)) + ridge / 2 * sum(v**2 for v in x)
        return value, list(x)


@pytest.mark.parametrize("ridge", [0.1, 1e-3, 10.0])
def test_the_certificate_encloses_the_true_optimum(ridge):
    problem = LogCosh(FEATURES, TARGETS, ridge=ridge)
    found = problem.optimum()
    value, x = exact_optimum(problem, found.x)
    assert found.lower_bound <= value <= found.value
    assert found.gap <= 1e-12 and "16 units of roundoff as declared" in found.certificate
    np.testing.assert_allclose(found.x, [float(v) for v in x], rtol=1e-7)


def test_a_theorem_is_judged_on_it():
    problem = LogCosh(FEATURES, TARGETS, ridge=0.1)
    algorithm = FedElasticNetDyn(l1=0.05, l2=30 * problem.constants().beta)
    checks = theorems.get("fedelasticnet/theorem-3.1").verify(problem, algorithm, sampling=Uniform(2))
    verdicts = {check.verdict for check in checks}
    assert verdicts == {"holds"}


def test_what_is_declared_enters_the_bounds():
    """A hundred times the error declared: a wider enclosure, never a narrower one."""

    class Careful(LogCosh):
        rounding = 1600

    narrow, wide = (kind(FEATURES, TARGETS, ridge=0.1).optimum() for kind in (LogCosh, Careful))
    assert wide.value > narrow.value and wide.lower_bound < narrow.lower_bound
    assert (wide.value - wide.lower_bound) > 10 * (narrow.value - narrow.lower_bound)


class Undeclared(LogCosh):
    rounding = None


class Cancelling(LogCosh):
    """log cosh r = r + log((1 + exp(-2r))/2): for small r two numbers that almost cancel."""

    def phi(self, z, b):
        r = abs(z - b)
        return r + np.log1p(np.expm1(-2 * r) / 2)


class TooFlat(LogCosh):
    curvature_max = 0.9


class Concave(LogCosh):
    def d2phi(self, z, b):
        return -super().d2phi(z, b)


class OtherSlope(LogCosh):
    def dphi(self, z, b):
        return 1.001 * np.tanh(z - b)


class Nonsense(LogCosh):
    rounding = -1


REFUSED = {
    Undeclared: "sets `rounding`",
    TooFlat: "curvature_max",
    Concave: "must be convex",
    OtherSlope: "dphi must be the derivative of phi",
    Nonsense: "rounding = -1",
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda k: k.__name__)
def test_what_can_be_disproved_is_refused(kind):
    with pytest.raises(NotCertified, match=REFUSED[kind]):
        kind(FEATURES, TARGETS, ridge=0.1).optimum()


@pytest.mark.skipif(not LONG, reason="NumPy has no longer float here to tell rounding errors with")
def test_cancellation_is_seen():
    with pytest.raises(NotCertified, match=r"phi is off by .* units of roundoff, 16 are declared"):
        Cancelling(FEATURES, TARGETS, ridge=0.1).optimum()


def test_without_a_ridge_there_is_no_bound():
    with pytest.raises(NotCertified, match="set ridge > 0"):
        LogCosh(FEATURES, TARGETS).optimum()


class Springs(Problem):
    """f_k(x) = ||x - c_k||^2 / 2: a problem that derives from no built-in one and hands over its own structure."""

    def __init__(self, centers):
        self.centers = np.asarray(centers, dtype=float)
        self.num_clients, self.dim = self.centers.shape
        self.sample_counts, self.weights = np.ones(self.num_clients), np.full(self.num_clients, 1 / self.num_clients)

    def client_value(self, y):
        return ((y - self.centers[:, None]) ** 2).sum(axis=-1) / 2

    def client_gradient(self, y):
        return y - self.centers[:, None]

    def cvxpy_objective(self, variable):
        import cvxpy as cp

        return sum(cp.sum_squares(variable - c) for c in self.centers) / (2 * self.num_clients)


class CertifiedSprings(Springs):
    def structure(self):
        return QuadraticForm(np.broadcast_to(np.eye(self.dim), (self.num_clients, self.dim, self.dim)), self.centers, self.weights)


def test_a_problem_of_ones_own_hands_over_its_structure():
    centers = [[1.0, 2.0], [3.0, -2.0]]
    found, same = CertifiedSprings(centers).optimum(), Quadratic([np.eye(2)] * 2, centers).optimum()
    assert found.lower_bound <= 2.5 <= found.value and found.gap <= 1e-12
    np.testing.assert_array_equal(found.x, same.x)
    with pytest.raises(NotCertified, match=r"structure\(\) of its own"):
        Springs(centers).optimum()


def test_a_subclass_with_another_loss_is_not_certified_as_its_parent():
    """A class inherits the certificate of the loss that it inherits, and of no other one."""

    class Renamed(LeastSquares):
        name = "mine"

    class Doubled(LeastSquares):
        def phi(self, z, b):
            return (z - b) ** 2

    assert type(Renamed(FEATURES, TARGETS).structure()) is type(LeastSquares(FEATURES, TARGETS).structure())
    with pytest.raises(NotCertified, match="sets `rounding`"):
        Doubled(FEATURES, TARGETS).structure()


def test_an_optimum_is_certified_without_a_cvxpy_form_and_says_which_is_missing():
    class Plain(Quadratic):
        cvxpy_objective = Problem.cvxpy_objective

    for problem, lacks in (
        (LogCosh(FEATURES, TARGETS, ridge=0.1), "LogCosh has no cvxpy form of its loss (capability 'cvxpy_loss')"),
        (Plain([np.eye(2)], [[1.0, 2.0]]), "Plain has no cvxpy form (capability 'cvxpy_objective')"),
    ):
        best = problem.optimum()
        assert best.gap <= 1e-12 and best.solver == f"Newton polish only: cvxpy skipped, {lacks}"
