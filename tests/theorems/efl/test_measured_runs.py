"""Theorem 1 on real runs, by hand: certified minima, the ball that no iterate leaves, constants, and what a run measures."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q
from types import SimpleNamespace

import numpy as np
import pytest
import worked_efl as worked
from cases import each

from fedtheory import problems
from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.local import LocalSGD, TheoremStep
from fedtheory.participation.irregular import Irregular, JointLaw, inactive, incomplete, windows
from fedtheory.participation.moments import round_moments
from fedtheory.rational import to_file
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems.efl.quantities import measured_run as measured

# --- minima of clients ----------------------------------------------------------------------------


def two_curvatures(h, c):
    """One client (h_1 (x_1 - c)^2 + h_2 (x_2 - c)^2)/2, whose minimum is 0."""
    return problems.Quadratic([np.diag(h)], [[c, c]])


@pytest.mark.parametrize(
    ("h", "c", "first", "limit"),
    [  # F(0) and ||grad F(0)||^2/(2 mu): 3/8 and 5/8; 8 and 20, so that 20 is counted in units of 8
        ([0.25, 0.5], 1.0, 0.375 - 0.625, 0.625),
        ([1.0, 3.0], 2.0, 8.0 - 20.0, 2.5),
    ],
)
def test_a_lower_bound_is_taken_as_soon_as_it_is_near_enough(h, c, first, limit):
    problem = two_curvatures(h, c)
    assert measured.client_minima(problem, gap=limit) == pytest.approx([first])
    assert measured.client_minima(problem, gap=0.999 * limit) == pytest.approx([0], abs=1e-15)


def test_newton_steps_that_overshoot_are_halved():
    """Huber losses of |w - b| beyond the bend at w = 0: the second derivative there is the ridge r alone, F^* = r b^2/(2(1 + r))."""
    problem = problems.Huber([[[1.0]], [[1.0]]], [[10.0], [-6.0]], delta=1.0, ridge=0.01)
    assert measured.client_minima(problem) == pytest.approx([50 / 101, 18 / 101], rel=1e-9)


def test_a_minimum_that_is_not_found_is_said_with_its_client():
    class Stiff(problems.Quadratic):
        """Its second derivatives are said to be a million times larger, so that Newton steps are tiny."""

        def client_hessian(self, y):
            return 1e6 * super().client_hessian(y)

    slow = Stiff([[[1.0]], [[2.0]], [[1.0]]], [[1.0], [3.0], [2.0]])  # what is left: h c^2/2 = 1/2, 9 and 2
    with pytest.raises(NotCertified, match=r"client 1 is known to 9 only, after 60 Newton steps"):
        measured.client_minima(slow)
    with pytest.raises(NotCertified, match=r"client 1 is not strongly convex.*add a ridge"):
        measured.client_minima(problems.Quadratic([[[1.0]], [[0.0]], [[2.0]]], [[0.0]] * 3))


# --- the ball -------------------------------------------------------------------------------------
ROWS = [[[0.3, 0.4], [0.6, 0.8]], [[0.5, 1.2], [0.8, 1.5], [0.15, 0.2]]]  # of norm 1/2 and 1; 13/10, 17/10 and 1/4
NORMS = [[Q(1, 2), Q(1)], [Q(13, 10), Q(17, 10), Q(1, 4)]]
WEIGHTS, RIDGE, ETAS = [Q(2, 5), Q(3, 5)], Q(1, 2), [Q(19, 10), Q(7, 5)]
LAW = [[Q(1, 4), Q(1, 4), Q(1, 2)], [0, Q(1, 3), Q(2, 3)]]  # E = 2, theta of the corrected scheme 2/(3/4)
LABELS = [[1.0, -1.0], [1.0, 1.0, -1.0]]


def linear(loss, **more):
    return loss([np.array(rows) for rows in ROWS], LABELS, ridge=float(RIDGE), weights=[float(p) for p in WEIGHTS], **more)


def law(rows):
    return Irregular(len(rows[0]) - 1, [[float(v) for v in row] for row in rows])


def ball(c, scheme, start, batch):
    """Radius, G^2 and sigma_k^2 in fractions, from the sentences of the module's docstring."""
    mean = [c * sum(row) / len(row) for row in NORMS]
    noise = [Q(0) if batch is None else c * c * sum(n * n for n in row) / len(row) / batch for row in NORMS]
    radius = max(start, max(mean if batch is None else [c * max(row) for row in NORMS]) / RIDGE)
    for eta in ETAS:
        pull = 1 - (1 - eta * RIDGE) ** 2
        P = {"A": 2 * max(WEIGHTS) * pull, "B": pull, "C": 2 * eta * RIDGE, "C-corrected": Q(8, 3) * eta * RIDGE}[scheme]
        radius *= max(1, 2 * P - 1)
    return radius, max((m + RIDGE * radius) ** 2 + v for m, v in zip(mean, noise)), noise


@each("scheme", ["A", "B", "C", "C-corrected"])
@each("start", [Q(1, 2), Q(25, 2)])
@each("batch", [None, 3])
def test_the_ball_and_the_largest_gradients(scheme, start, batch):
    x0 = np.array([[0.1, 0.1], [float(start) * 0.6, float(start) * 0.8]])
    rounds = measured.moments_of_rounds(scheme, law(LAW), 2, np.array([0.4, 0.6]))
    for problem, c in ((linear(problems.Logistic), Q(1)), (linear(problems.Huber, delta=0.75), Q(3, 4))):
        found = measured.gradient_bounds(problem, scheme, 2, [float(e) for e in ETAS], rounds, x0, batch)
        radius, G_sq, sigma_sq = ball(c, scheme, start, batch)
        assert (found.radius, found.G_sq) == pytest.approx((float(radius), float(G_sq)))
        assert found.sigma_sq == pytest.approx([float(v) for v in sigma_sq])


def test_the_ball_is_for_short_steps_and_bounded_slopes():
    rounds, x0 = measured.moments_of_rounds("B", law(LAW), 2, np.array([0.4, 0.6])), np.zeros((1, 2))
    assert measured.gradient_bounds(linear(problems.Logistic), "B", 2, [0.5, 2.0], rounds, x0).radius > 0
    with pytest.raises(InvalidInput, match=r"eta \* ridge = 1\.00\d > 1"):
        measured.gradient_bounds(linear(problems.Logistic), "B", 2, [0.5, 2.002], rounds, x0)
    with pytest.raises(MissingCapability, match="LeastSquares: G is not known: these cohorts"):
        measured.gradient_bounds(linear(problems.LeastSquares), "B", 2, [0.5, 0.5], rounds, x0)


# --- the laws of the rounds -----------------------------------------------------------------------
def test_rounds_of_one_law_share_their_moments_and_others_do_not():
    weights, even, odd = np.array([0.4, 0.6]), [[0.5, 0.5], [0.5, 0.5]], [[0.25, 0.75], [0.5, 0.5]]
    first, second, third = measured.moments_of_rounds("A", Irregular(1, [even, odd, even]), 3, weights)
    assert first is third and first is not second
    expected = [round_moments("A", Irregular(1, law), 1, weights).sum_ps for law in (even, odd)]
    assert [first.sum_ps, second.sum_ps] == pytest.approx(expected) and expected[0] != expected[1]
    steps = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    alike = [JointLaw(steps, p) for p in ([0.25] * 4, [0.5, 0, 0, 0.5], [0.25] * 4)]  # each client is active half of the time
    apart, together, again = measured.moments_of_rounds("A", Irregular(1, alike), 3, weights)
    assert apart is again and (apart.sum_ps, together.sum_ps) == pytest.approx((0.75, 0.5))


def test_a_client_that_is_not_there_is_named_with_its_round():
    for stay, said in (((None, 3), "client 1 is not there in round 3"), ((2, None), "client 1 is not there in round 1")):
        sampling = windows(inactive(2, 1, 0.25), {1: stay})
        with pytest.raises(InvalidInput, match=said):
            measured.moments_of_rounds("B", sampling, 3, np.array([0.4, 0.6]))
    assert len(measured.moments_of_rounds("B", windows(inactive(2, 1, 0.25), {1: (None, 4)}), 3, np.array([0.4, 0.6]))) == 3


# --- the constants --------------------------------------------------------------------------------
RUN = {
    "weights": [Q(1, 5), Q(3, 10), Q(1, 2)], "h": [[Q(3, 7), Q(5, 3)], [Q(5, 2), Q(6, 5)], [Q(4, 3), Q(7, 4)]],
    "c": [[Q(3, 2), Q(-2, 3)], [Q(-5, 4), Q(7, 3)], [Q(2, 5), Q(-3)]], "noise": [[0, 0]] * 3, "w0": [Q(7, 3), Q(-5, 2)], "T": 3,
    "laws": [[[Q(1, 7), 0, Q(6, 7)], [Q(2, 5), 0, Q(3, 5)], [Q(1, 4), 0, Q(3, 4)]],
             [[0, Q(1, 2), Q(1, 2)], [0, Q(1, 3), Q(2, 3)], [Q(1, 2), 0, Q(1, 2)]]],
}  # fmt: skip
CLIENTS = problems.Quadratic(
    [np.diag([float(v) for v in row]) for row in RUN["h"]], [[float(v) for v in row] for row in RUN["c"]],
    [float(p) for p in RUN["weights"]],
)  # fmt: skip
START = np.array([[float(v) for v in RUN["w0"]]])


def two_laws():
    """The first one in round 1, the second one in rounds 2 and 3."""
    first, second = ([[float(v) for v in row] for row in table] for table in RUN["laws"])
    return Irregular(2, [first, second, second])


@pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])
def test_the_constants_of_theorem_1(scheme):
    """On quadratics with G given, by the second writing: gamma takes the largest theta and the least S of all rounds."""
    run = worked.Run(scheme, to_file(RUN) | {"T": 3})
    given = {"G": 7, "sigma_sq": [0.25, 2, 0.5]}
    found, optimum = measured.constants_of(CLIENTS, scheme, two_laws(), 3, START, 2, given)
    assert (found.E, found.T, found.G_sq) == (2, 3, 49) and found.sigma_sq.tolist() == [0.25, 2, 0.5]
    assert (found.L, found.mu, found.theta) == pytest.approx((float(run.L), float(run.mu), float(run.theta)))
    assert found.gamma == pytest.approx(float(run.gamma)) and found.S == pytest.approx([float(S) for S in run.S])
    assert found.D == pytest.approx([float(D) for D in run.D]) and found.weights is CLIENTS.weights
    assert found.start_sq == pytest.approx(float(run.distance_sq[0])) and optimum.x == pytest.approx([float(x) for x in run.star])
    assert found.how["G_sq, sigma_sq"] == "given, taken on trust" and found.how["L, mu"] == "of the problem, exact"
    off = optimum.kkt_residual / float(run.mu)
    assert found.how["w*"] == f"certified to {off:.2g}"


def test_what_is_given_is_taken():
    for name, value in (("L", 5.0), ("mu", 0.125)):
        found, _ = measured.constants_of(CLIENTS, "C", two_laws(), 3, START, given={"G": 7, name: value})
        assert getattr(found, name) == value and found.how["L, mu"] == "given"
        assert found.sigma_sq.tolist() == [0, 0, 0]
    with pytest.raises(InvalidInput, match="G = 7 is given, but mini-batches of 2 have noise: give sigma_sq too"):
        measured.constants_of(CLIENTS, "C", two_laws(), 3, START, 2, {"G": 7})
    with pytest.raises(MissingCapability, match="Quadratic: G is not known"):
        measured.constants_of(CLIENTS, "C", two_laws(), 3, START)


def test_a_client_that_is_not_strongly_convex_is_refused():
    flat = problems.Quadratic([[[1.0]], [[0.0]]], [[0.0], [0.0]])
    with pytest.raises(InvalidInput, match=r"mu = min_k mu_k = 0: Theorem 1 needs mu > 0 .* add a ridge"):
        measured.constants_of(flat, "B", inactive(2, 1, 0.25), 2, np.zeros((1, 1)), given={"G": 1})


def test_the_excess_of_equal_clients_is_not_negative():
    """All minimise at the same point, which is known up to rounding: what is computed may be below 0."""
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(6, 3)), rng.normal(size=6)
    orders = [rng.permutation(6) for _ in range(12)]
    alike = problems.LeastSquares([rows[o] for o in orders], [targets[o] for o in orders])
    found, _ = measured.constants_of(alike, "B", inactive(12, 1, 0.25), 2, np.ones((1, 3)), given={"G": 100})
    assert (found.D >= 0).all() and found.D.max() < 1e-12


def test_the_ball_of_a_run_is_that_of_its_steps():
    """Twelve long steps under scheme A, whose coefficients may sum to 9/5: the ball grows."""
    problem = problems.Logistic([0.3 * np.array(rows) for rows in ROWS], LABELS, 2.0, [0.9, 0.1])
    sampling, start = incomplete(2, 12, [0.25, *[0] * 11, 0.75]), np.array([[6.0, 8.0]])
    found, _ = measured.constants_of(problem, "A", sampling, 3, start, 2)
    moments = measured.moments_of_rounds("A", sampling, 3, problem.weights)
    expected = measured.gradient_bounds(problem, "A", 12, list(found.eta), moments, start, 2)
    assert expected.radius > 11
    assert found.G_sq == pytest.approx(expected.G_sq) and found.sigma_sq == pytest.approx(expected.sigma_sq)
    assert found.how["G_sq, sigma_sq"] == f"suprema over a ball of radius {expected.radius:.4g} that no iterate leaves"
    assert found.how["D"].startswith("from above") and found.how["moments"].startswith("exact")


# --- the run --------------------------------------------------------------------------------------
@pytest.mark.parametrize("replacement", [True, False])
def test_what_is_measured_is_the_run(replacement):
    """The same scenarios, of the same seed, one by one; horizons are spread evenly."""
    problem = problems.random_logistic(3, 2, samples=5, ridge=0.5, seed=4, weights=[0.2, 0.3, 0.5])
    sampling, x0 = incomplete(3, 2, [0.25, 0.25, 0.5]), np.array([2.0, -3.0])
    view = measured.measured_run(problem, "B", sampling, 7, x0, 5, 11, 2, looks=4, replacement=replacement)
    c = view.constants
    solver = LocalSGD(2, TheoremStep(c.mu, 2, float(c.gamma), tuple(float(S) for S in c.S)), 2, replacement=replacement)
    run = simulate(problem, EFL(scheme="B", variant="none"), 7, x0, sampling, 5, 11, solver, keep_states=True)
    optimum = problem.optimum()
    expected = ((run.server_models() - optimum.x) ** 2).sum(axis=-1)
    assert view.distance_sq == pytest.approx(expected) and view.distance_sq.shape == (8, 5)
    assert view.horizons.tolist() == [0, 2, 4, 7] and (view.rule, view.exact) == ("B", False)
    assert c.start_sq == pytest.approx(((x0 - optimum.x) ** 2).sum(), rel=1e-12)
    own, _ = measured.constants_of(problem, "B", sampling, 7, x0[None], 2)
    assert c.G_sq == own.G_sq and c.sigma_sq.tolist() == own.sigma_sq.tolist() and c.sigma_sq.min() > 0


def test_an_optimum_that_is_not_known_well_is_noise_of_what_is_measured(monkeypatch):
    """A gradient of norm 3/10 at a point that is taken for w*, mu = 1/2: it is within 3/5 of w*, and squares are off accordingly."""
    problem = problems.random_logistic(3, 2, samples=5, ridge=0.5, seed=4)
    rough = replace(problem.optimum(), kkt_residual=0.3)
    monkeypatch.setattr(problem, "optimum", lambda: rough)
    view = measured.measured_run(problem, "C", inactive(3, 1, 0.25), 3, [2.0, -3.0], 5)
    assert view.noise == pytest.approx(0.6 * (2 * view.distance_sq.max() ** 0.5 + 0.6))


def test_where_nothing_is_said_of_a_run():
    problem = problems.random_logistic(3, 2, samples=5, ridge=0.5, seed=4)
    view = measured.measured_run(problem, "C", inactive(3, 1, 0.25), 3)
    assert view.distance_sq.shape == (4, 200) and view.horizons.tolist() == [0, 1, 2, 3]
    solver = LocalSGD(1, TheoremStep(view.constants.mu, 1, float(view.constants.gamma), float(view.constants.S[0])))
    run = simulate(problem, EFL(variant="none"), 3, None, inactive(3, 1, 0.25), 200, 0, solver, record=("distance",))
    assert view.distance_sq == pytest.approx(run.metrics["distance"] ** 2)


def gradients_of(*rows):
    """Two clients, the second one at its minimum: their gradients at the server's models, by scenario, and what a round hands over."""
    g = np.array([[row, [0.0, 0.0]] for row in rows])
    return SimpleNamespace(gradient=lambda x: g * (x == 3.0)), SimpleNamespace(x=np.array([3.0])), SimpleNamespace(x=np.array([8.0]))


@pytest.mark.parametrize(
    ("rows", "mean", "error"),
    [  # squares 25; 25 and 27; 25, 26, 25 and 28: errors are the root of (1 + 1)/1/2 and of (1 + 0 + 1 + 4)/3/4
        ([[3.0, 4.0]], 25, 0.0), ([[3.0, 4.0], [1.0, 26**0.5]], 26, 1.0),
        ([[3.0, 4.0], [1.0, 5.0], [4.0, 3.0], [28**0.5, 0.0]], 26, 0.5**0.5),
    ],
)  # fmt: skip
def test_a_given_G_is_refused_where_the_run_shows_that_it_is_none(rows, mean, error):
    """The mean less four standard errors, by hand; of one scenario ||g||^2 itself."""
    problem, old, new = gradients_of(*rows)
    limit = mean - 4 * error
    measured._met(problem, limit * (1 + 1e-9))(1, old, new, None)
    with pytest.raises(InvalidInput, match=rf"client 0 .* = {mean} at the model of round 7, the limit is G\^2 = {limit - 1e-3:.6g}"):
        measured._met(problem, limit - 1e-3)(7, old, new, None)


def test_the_client_that_is_furthest_above_a_given_G_is_named():
    g = np.array([[[1.0], [3.0], [2.0]]])
    problem = SimpleNamespace(gradient=lambda x: g)
    with pytest.raises(InvalidInput, match=r"client 1 has E\|\|grad F_k\|\|\^2 = 9 "):
        measured._met(problem, 2.0)(1, SimpleNamespace(x=0.0), None, None)
    with pytest.raises(InvalidInput, match="client 1"):
        measured._met(problem, 4.0)(1, SimpleNamespace(x=0.0), None, None)


def test_only_a_given_G_is_looked_at():
    problem, sampling = problems.random_logistic(3, 2, samples=5, ridge=0.5, seed=4), inactive(3, 1, 0.25)
    measured.measured_run(problem, "C", sampling, 3, [5.0, 5.0], 4, given={"L": 9.0})
    measured.measured_run(problem, "C", sampling, 3, [5.0, 5.0], 4, given={"G": 50.0})
    with pytest.raises(InvalidInput, match="is no bound"):
        measured.measured_run(problem, "C", sampling, 3, [5.0, 5.0], 4, given={"G": 0.5})
