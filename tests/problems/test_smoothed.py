"""Smoothed maxima of affine functions: by hand, beside a conic solver, bounds that rounding cannot spoil, and files."""

from __future__ import annotations

import json
from fractions import Fraction as F

import cvxpy as cp
import numpy as np
import pytest

from fedtheory.errors import DataFileError, InvalidInput, NotCertified
from fedtheory.optimum.certify import assess
from fedtheory.optimum.mixtures import best_mixture
from fedtheory.problems import LAD, MaxAffine, Quadratic, SmoothedMaxAffine, read_problem, write_problem

HUBER = ([[[0.0], [1 / 3]]], [[0.0, 0.0]])  # max(0, u/3), smoothed with L = 1: 0, x^2/2 up to 1/3, then x/3 - 1/18


def test_by_hand():
    problem = SmoothedMaxAffine(*HUBER)
    x = np.array([[-2.0], [0.0], [0.25], [1 / 3], [1.0], [5.0]])
    np.testing.assert_allclose(problem.client_losses(x)[:, 0], [0, 0, 1 / 32, 1 / 18, 5 / 18, 29 / 18], rtol=1e-15)
    np.testing.assert_allclose(problem.gradient(x)[:, 0, 0], [0, 0, 1 / 4, 1 / 3, 1 / 3, 1 / 3], rtol=1e-15)
    np.testing.assert_allclose(problem.client_hessian(x[None])[0, [0, 2, 5], 0, 0], [0, 1, 0])
    ridged = SmoothedMaxAffine(*HUBER, smoothness=1.5, strong_convexity=0.5)
    np.testing.assert_allclose(ridged.client_losses(x)[:, 0] - problem.client_losses(x)[:, 0], x[:, 0] ** 2 / 4, rtol=1e-14, atol=1e-16)
    assert problem.smoothness_exact() == [True]
    assert SmoothedMaxAffine([[[1.0], [1.0]]], [[0.0, 2.0]]).smoothness_exact() == [False], "it is affine"


@pytest.mark.parametrize("kind", ["generic", "slopes that depend on one another", "a piece twice", "all ties"])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_mixture_is_the_conic_solver_s(kind, seed):
    rng = np.random.default_rng(seed)
    a, c = rng.normal(size=(9, 3 if kind.startswith("slopes") else 12)), rng.normal(size=9)
    if kind == "a piece twice":
        a[4], c[4] = a[7], c[7]
    if kind == "all ties":
        a, c = np.sign(a), np.zeros(9)
    t = best_mixture(c, a @ a.T)
    assert t.min() >= 0 and t.sum() == pytest.approx(1, abs=1e-14)
    s = cp.Variable(9, nonneg=True)
    problem = cp.Problem(cp.Maximize(c @ s - cp.sum_squares(a.T @ s) / 2), [cp.sum(s) == 1])
    problem.solve(solver=cp.CLARABEL)
    assert c @ t - ((a.T @ t) ** 2).sum() / 2 == pytest.approx(problem.value, abs=1e-7)
    slope = c - a @ (a.T @ t)
    assert slope.max() - t @ slope <= 1e-13 * (1 + np.abs(c).max() + (a**2).sum(axis=1).max()), "optimality"


def test_what_is_proved_of_the_optimum():
    """Two losses that pull apart, alike but for the sign: F* is what the first piece says; slopes that do not cancel prove nothing."""
    slopes, offsets = [[[0.5], [1.0]], [[-0.5], [-1.0]]], [[1.125, 1.0], [1.125, 1.0]]
    best = SmoothedMaxAffine(slopes, offsets, minimiser=[0.0]).optimum()
    exact = F(9, 8) - F(1, 8)  # offset - slope^2/2
    assert F(best.lower_bound) <= exact <= F(best.value) and best.gap <= 1e-12
    assert best.solver == "a known minimiser" and SmoothedMaxAffine(slopes, offsets).optimum().gap <= 1e-12
    wrong = SmoothedMaxAffine(slopes, offsets, minimiser=[3.0])
    assert F(assess(wrong, [3.0]).lower_bound) <= exact and assess(wrong, [3.0]).gap > 0.1
    assert wrong.optimum().gap <= 1e-12, "what is no minimiser is not taken for one"
    with pytest.raises(NotCertified):
        SmoothedMaxAffine([[[0.5], [1.0]], [[-0.4], [-1.0]]], offsets).optimum()


CLASSES = {"smoothness": [2.0, 7.0, 3.0], "strong_convexity": [0.25, 1 / 3, 0.0]}


PIECES = [np.random.default_rng(0).normal(size=shape) for shape in ((3, 5, 3), (3, 5))]


def each_its_own():
    return SmoothedMaxAffine(*PIECES, **CLASSES, weights=(0.2, 0.3, 0.5))


def test_clients_of_several_classes():
    """Each client's loss is that of its numbers alone, also in parts of the problem and in torch."""
    problem, x = each_its_own(), np.random.default_rng(3).normal(size=(4, 3))
    for k, (L, mu) in enumerate(zip(*CLASSES.values(), strict=True)):
        alone = SmoothedMaxAffine(problem.slopes[[k]], problem.offsets[[k]], L, mu)
        for of in (alone, problem.subset(np.array([2, k]))):
            j = of.num_clients - 1
            np.testing.assert_array_equal(of.client_losses(x)[..., j], problem.client_losses(x)[..., k])
            np.testing.assert_array_equal(of.gradient(x)[:, j], problem.gradient(x)[:, k])
            curved, whole = (f.client_hessian(x[None].repeat(f.num_clients, 0)) for f in (of, problem))
            np.testing.assert_array_equal(curved[j], whole[k])
        assert (problem.smoothness()[k], problem.strong_convexity()[k]) == (L, mu)
    torch = pytest.importorskip("torch")
    moved = problem.like(torch.zeros(1, dtype=torch.float64)).gradient(torch.tensor(x))
    np.testing.assert_allclose(moved, problem.gradient(x), rtol=1e-15)


def test_the_optimum_of_clients_of_several_classes():
    """Huber losses of curvatures 1 and 4 that pull apart: exactly; and with ridges to what these allow."""
    slopes, offsets = [[[0.5], [1.0]], [[-0.5], [-1.0]]], [[1.125, 1.0], [1.125, 1.0]]
    exact = F(9, 8) - (F(1, 8) + F(1, 32)) / 2  # offset - the mean of slope^2/(2 L)
    best = SmoothedMaxAffine(slopes, offsets, [1.0, 4.0]).optimum()
    assert F(best.lower_bound) <= exact <= F(best.value) and best.gap <= 1e-12
    ridged = each_its_own().optimum(gap=1e-9)
    assert ridged.lower_bound <= each_its_own().objective(ridged.x) and ridged.gap <= 1e-9


@pytest.mark.parametrize("problem", [SmoothedMaxAffine(*PIECES, 2.0, 0.25), each_its_own()])
def test_bounds_enclose_the_loss_and_its_gradient(problem):
    rng = np.random.default_rng(0)
    for x in rng.normal(size=(5, 3)):
        value, gradient = problem.structure().evaluate(x)
        assert value.lower <= problem.objective(x) <= value.upper and value.upper - value.lower < 1e-13
        assert (np.abs(gradient.hi - problem.full_gradient(x)) <= gradient.rad).all()


@pytest.mark.parametrize(
    "problem",
    [SmoothedMaxAffine(*HUBER, 2.0, 0.5, minimiser=[0.0]), each_its_own(), MaxAffine(*HUBER), Quadratic([np.eye(2)], [[1.0, 0.1]])],
    ids=lambda p: type(p).__name__,
)
def test_a_problem_in_a_file(problem, tmp_path):
    path = write_problem(tmp_path / "mine.json", problem, {"about": "a test"})
    read = read_problem(path)
    x = np.random.default_rng(1).normal(size=(3, problem.dim))
    np.testing.assert_array_equal(read.client_losses(x), problem.client_losses(x))
    assert read.name == "mine" and json.loads(path.read_text())["about"] == "a test"


def test_what_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="must be below the smoothness 1"):
        SmoothedMaxAffine(*HUBER, 1.0, 1.0)
    with pytest.raises(InvalidInput, match="strong_convexity = 2: it must be below the smoothness 2"):
        SmoothedMaxAffine(np.ones((2, 1, 1)), np.ones((2, 1)), [3.0, 2.0], [0.0, 2.0])
    with pytest.raises(InvalidInput, match=r"smoothness \(3,\): one number is needed, or 1"):
        SmoothedMaxAffine(*HUBER, [1.0, 2.0, 3.0])
    with pytest.raises(InvalidInput, match=r"minimiser \(2,\)"):
        SmoothedMaxAffine(*HUBER, minimiser=[0.0, 1.0])
    with pytest.raises(InvalidInput, match=r"a LAD: a problem.s file holds one of Quadratic, MaxAffine, .*--data FILE"):
        write_problem(tmp_path / "lad.json", LAD([[[1.0]]], [[1.0]]))
    with pytest.raises(InvalidInput, match="takes the path first"):
        write_problem(Quadratic([np.eye(1)], [[1.0]]), tmp_path / "swapped.json")
    with pytest.raises(DataFileError, match="no such file"):
        read_problem(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text("{")
    with pytest.raises(DataFileError, match="not JSON, or truncated"):
        read_problem(tmp_path / "cut.json")
    head, kind = {"format": "fedtheory problem 1"}, {"kind": "max-affine"}
    for held, says in [
        ("[]", "its format must be"), (json.dumps({**head, "problem": 3}), "a table 'problem'"),
        (json.dumps({**head, "problem": {"kind": "cubic"}}), "kind 'cubic': there are quadratic"),
        (json.dumps({**head, "problem": {**kind, "slopes": []}}), "offsets: missing; max-affine takes slopes, offsets, weights"),
        (json.dumps({**head, "problem": {**kind, "slopes": [], "offsets": [], "ridge": 1}}), "ridge: unknown"),
        (json.dumps({**head, "problem": {**kind, "slopes": [[1, [2]]], "offsets": []}}), "inhomogeneous"),
        (json.dumps({**head, "problem": {**kind, "slopes": [[[1.0]]], "offsets": [[1.0, 2.0]]}}), "disagree"),
    ]:  # fmt: skip
        (tmp_path / "bad.json").write_text(held)
        with pytest.raises(InvalidInput, match=says):
            read_problem(tmp_path / "bad.json")
