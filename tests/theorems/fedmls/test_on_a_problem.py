"""FedMLS's statements on a user's problem: readings on runs of their own, what a user may give, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory import problems, theorems
from fedtheory.algorithms.fedmls import FedMLS, fedmls_parameters
from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.local import SubgradientSliding
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.theorems.fedmls.notation import is_reading
from fedtheory.theorems.fedmls.one_dimension import OneDimension
from fedtheory.theorems.fedmls.readings import reading_of
from fedtheory.theory.judge.registry import about_of, setting_of
from fedtheory.theory.judge.replay import builtin_witnesses

ONE, TWO = theorems.get("fedmls/theorem-1"), theorems.get("fedmls/theorem-2")
LIPSCHITZ = {"Lipschitz G"}  # its limit inside the sphere rounds G up, and T_k with it


def problem_of(witness):
    """The witness's losses, written out in floats, and its numbers."""
    run = OneDimension.of(witness.data)
    pieces = max(map(len, run.clients))
    lines = np.array([c + c[:1] * (pieces - len(c)) for c in run.clients], dtype=float).repeat(run.copies, axis=0)
    problem = problems.nonsmooth.MaxAffine(lines[:, :, :1], lines[:, :, 1])
    return problem, float(run.lam), float(run.d), float(run.radius), np.array([float(run.x0)]), run.rounds


@pytest.fixture(scope="module")
def lad():
    rng = np.random.default_rng(1)
    return problems.nonsmooth.LAD(rng.standard_normal((4, 6, 2)), rng.standard_normal((4, 6)))


def only(statement, form, *args, **more):
    (check,) = statement.verify(*args, forms=[form], **more)
    return check


# --- readings -------------------------------------------------------------------------------------
ONE_DIMENSION = ("prox without the square",)


def test_every_reading_runs_or_says_why_not():
    read = [f.name for statement in (ONE, TWO) for f in statement.forms if is_reading(f)]
    assert {name for name in read if reading_of(name).one_dimension} == {*ONE_DIMENSION}
    assert not any(reading_of(name).holds for name in read)


@pytest.mark.parametrize(
    "witness",
    [w for w in builtin_witnesses("fedmls") if w.kind == "lines" and w.form not in ("9.9 for 10", "consensus G", *ONE_DIMENSION)],
    ids=lambda w: w.name,
)  # fmt: skip
def test_a_reading_fails_on_the_problem_of_its_witness(witness):
    """The run in floats, as a user makes it, against the run in fractions."""
    problem, lam, d, radius, x0, rounds = problem_of(witness)
    statement = theorems.get(witness.statement)
    g = problem.lipschitz_rms(radius)
    if statement is TWO:  # lambda = epsilon/G^2 with the G that is needed; the reading makes its own
        lam = float(eval_fraction(witness.rhs)) / g**2
    check = only(statement, witness.form, problem, FedMLS(lam, d, rounds, radius, g), x0=x0)
    assert check.verdict == "violated" and check.where["K"] == rounds
    assert check.rhs == pytest.approx(eval_fraction(witness.rhs), rel=1e-7)
    near = 0.02 if witness.form in LIPSCHITZ or statement is TWO else 1e-9  # T_k is rounded up from floats
    assert check.lhs == pytest.approx(eval_fraction(witness.lhs), rel=near)
    if statement is ONE:  # what breaks it is the reading and nothing else
        assert only(ONE, "repaired", problem, FedMLS(lam, d, rounds, radius, g, allow_long=True), x0=x0).verdict == "holds"


def eval_fraction(text):
    top, _, under = text.partition("/")
    return int(top) / int(under or 1)


def test_the_reading_s_g_is_the_one_of_its_steps_and_of_its_bound(lad):
    algorithm = fedmls_parameters(lad, 0.15, 5.0, rounds="printed")
    g_i = lad.lipschitz(5.0)
    rms, steepest = float(np.sqrt(np.mean(g_i**2))), only(ONE, "printed", lad, algorithm).where["G"]
    assert steepest == pytest.approx(rms / 2)  # N = 4
    assert only(ONE, "consensus G", lad, algorithm).where["G"] == pytest.approx(g_i.mean())
    check = only(TWO, "printed, joint distance", lad, algorithm)  # lambda N times as large, K as before
    assert check.where["lambda"] == pytest.approx(4 * algorithm.lam) and check.where["K"] == algorithm.rounds
    assert check.rhs == pytest.approx(algorithm.lam * rms**2)
    assert only(TWO, "printed", lad, algorithm).where["K"] == -(-algorithm.rounds // 2)  # sqrt(N) times fewer
    plain = only(ONE, "repaired", lad, algorithm)
    tight = only(ONE, "9.9 for 10", lad, algorithm)
    assert plain.lhs == tight.lhs and plain.rhs > tight.rhs and "G" not in plain.where


def test_prox_without_the_square_says_why_it_has_no_run(lad):
    check = only(ONE, "prox without the square", lad, fedmls_parameters(lad, 0.15, 5.0))
    assert check.verdict == "not applicable" and "one dimension only" in check.reason and "witness" in check.reason


def test_from_the_minimiser_theorem_2_has_no_plan(lad):
    star = lad.optimum_on_ball(5.0).x
    check = only(TWO, "printed", lad, FedMLS(0.5, 1.0, 3, 5.0, lad.lipschitz_rms(5.0)), x0=star)
    assert check.verdict == "not applicable" and "x_0 is the minimiser" in check.reason


# --- what a user may give -------------------------------------------------------------------------
def test_a_smooth_problem_with_bounds_of_its_gradients():
    """On the ball of radius R a quadratic's gradients are at most ||grad f_i(0)|| + beta_i R."""
    problem = problems.random_quadratic(3, 2, seed=0)
    slopes = np.linalg.norm(problem.client_gradient(np.zeros((3, 1, 2)))[:, 0], axis=-1) + problem.beta_k * 5.0
    g = float(np.sqrt(np.mean(slopes**2)))
    algorithm = FedMLS(0.1, 2.0, 6, 5.0, g)
    refused = only(ONE, "repaired", problem, algorithm)
    assert refused.verdict == "not applicable" and "capability 'lipschitz'" in refused.reason and "or give G_i" in refused.reason
    check = only(ONE, "repaired", problem, algorithm, given={"G_i": slopes})
    distance_sq = float((problem.optimum().x ** 2).sum())
    assert check.verdict == "holds" and check.rhs == pytest.approx((10 * distance_sq + 16) / (0.1 * 42) + 0.05 * g**2)
    for statement in (s for s in theorems.all_statements("fedmls/") if s.scope in ("fedmls", "algebra")):
        checks = {c.form: c for c in statement.verify(problem, algorithm, given={"G_i": slopes})}
        assert checks["repaired" if statement is not TWO else "local steps"].verdict == "holds"
    small = only(ONE, "repaired", problem, algorithm, given={"G_i": slopes / 50})
    assert small.verdict == "not applicable" and "below a subgradient of its own" in small.reason


def test_given_bounds_stand_in_the_bound_and_must_be_bounds(lad):
    g = 2 * float(lad.lipschitz(5.0).max())
    algorithm = FedMLS(0.2, 1.0, 4, 5.0, g)
    plain, given = (only(ONE, "repaired", lad, algorithm, given=more) for more in ({}, {"G_i": g}))
    assert given.rhs - plain.rhs == pytest.approx(0.1 * (g**2 - lad.lipschitz_rms(5.0) ** 2))
    reason = only(ONE, "repaired", lad, algorithm, given={"G_i": [g, g, 0.1, g]}).reason
    assert "G_i = 0.1 of client 2 is below" in reason
    assert "below the root mean square" in only(ONE, "repaired", lad, replace(algorithm, lipschitz=g / 2), given={"G_i": g}).reason
    with pytest.raises(InvalidInput, match="one for each of the 4 clients"):
        ONE.verify(lad, algorithm, given={"G_i": [1.0, 2.0]})
    with pytest.raises(UnknownName, match="G_i"):
        ONE.verify(lad, algorithm, given={"G_j": 1.0})
    with pytest.raises(InvalidInput, match=r"G_i = -1.0: give one finite number >= 0"):
        theorems.get("fedmls/exact-prox").verify(lad, replace(algorithm, local_training="exact-prox"), given={"G_i": -1.0})


def test_the_optimum_may_be_given(lad):
    algorithm = fedmls_parameters(lad, 0.15, 5.0)
    best = lad.optimum_on_ball(5.0)
    plain = only(ONE, "repaired", lad, algorithm)
    lower = only(ONE, "repaired", lad, algorithm, given={"optimum": replace(best, lower_bound=best.lower_bound - 0.25)})
    assert lower.lhs == pytest.approx(plain.lhs + 0.25) and lower.rhs == plain.rhs
    with pytest.raises(InvalidInput, match="give an Optimum"):
        ONE.verify(lad, algorithm, given={"optimum": 1.0})


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (lambda o: {"x": o.x + 0.3}, "is not between its lower bound"), (lambda o: {"x": o.x + 9.0}, "outside the ball of radius 5"),
        (lambda o: {"value": o.value - 1, "lower_bound": o.lower_bound - 1}, "is not between its lower bound"),
        (lambda o: {"lower_bound": o.value + 0.01, "value": o.value + 0.02}, "is not between its lower bound"),
        (lambda o: {"x": o.x[:1]}, "has the shape"),
    ],
)  # fmt: skip
def test_a_given_optimum_is_a_point_of_the_ball_with_a_value_between_its_bounds(lad, change, missing):
    """Else a distance to another point stood in the bound, and another value in place of F*."""
    best = lad.optimum_on_ball(5.0)
    with pytest.raises(InvalidInput, match=missing):
        ONE.verify(lad, fedmls_parameters(lad, 0.15, 5.0), given={"optimum": replace(best, **change(best))})


def test_mini_batches_are_noise_of_a_known_size(lad):
    sigma = float(np.sqrt(np.mean(lad.batch_noise_sq(5.0, 2))))
    made = fedmls_parameters(lad, 0.15, 5.0, sigma=sigma)
    solver = SubgradientSliding(batch_size=2)
    check = only(ONE, "repaired", lad, made, local_solver=solver, scenarios=60)
    assert (check.verdict, check.rule, check.mode, check.scenarios) == ("holds", "stochastic", "statistical", 60)
    quiet = only(ONE, "repaired", lad, replace(made, sigma=sigma / 2), local_solver=solver)
    assert "is above the algorithm's sigma" in quiet.reason
    assert only(ONE, "a posteriori", lad, made, local_solver=solver).rhs > only(ONE, "a posteriori", lad, made).rhs
    assert "not claimed for stochastic" in only(ONE, "printed", lad, made, local_solver=solver).reason
    assert "not enumerated" in only(ONE, "repaired", lad, made, local_solver=solver, mode="exact").reason


def test_cohorts_and_other_numbers_of_rounds_are_refused(lad):
    algorithm = fedmls_parameters(lad, 0.15, 5.0)
    assert "needs every client" in only(ONE, "repaired", lad, algorithm, sampling=Uniform(2)).reason
    for everyone in (Full(), Uniform(4)):
        assert only(ONE, "repaired", lad, algorithm, sampling=everyone).verdict == "holds"
    assert "made for K = " in only(ONE, "repaired", lad, algorithm, rounds=algorithm.rounds + 1).reason


# --- what a user asks for in words ----------------------------------------------------------------
def asked(problem, participants=None, rounds=None, mode="auto", **options):
    """A stand-in for the command line."""

    def refuse(names, why):
        for name in names:
            if options.get(name) is not None:
                raise InvalidInput(f"{name} {options[name]} {why}")

    return SimpleNamespace(
        options=options, participants=participants, rounds=rounds, mode=mode, refuse=refuse,
        problem=lambda default: problem, start=lambda problem: np.zeros(problem.dim),
    )  # fmt: skip


def prepared(statement, *args, **more):
    return setting_of(statement).prepare(statement, asked(*args, **more))


def test_a_request_becomes_fedmls_with_theorem_2_s_parameters(lad):
    made = prepared(TWO, lad, epsilon=0.5, noise=0.5)
    g, a = lad.lipschitz_rms(made.algorithm.radius), made.algorithm
    assert a.noise_std == pytest.approx(g / 2) == pytest.approx(a.sigma)
    assert a.rounds == 17 and prepared(ONE, lad, epsilon=0.5).algorithm.rounds == 12  # 6 sqrt(2)/0.5, and K (K + 1) >= 36/0.25
    assert made.head == [f"{lad.name}: N = 4, d = 2, noisy subgradients"]
    rows = dict(made.facts([]))
    assert rows["rounds K"] == "17" and "noise added" in rows and rows["epsilon"].endswith("= 0.5 G ||x_0 - x*||")
    assert made.details["algorithm"]["rounds"] == 17
    assert TWO.verify(made.problem, a, **made.options, scenarios=50).verdict == "holds"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"l1": 1.0}, "fedmls has no hyperparameter l1=1.0: it takes lam, D"),
        ({"server_tau": 0.5}, "fedmls has no hyperparameter server_tau=0.5"),
        ({"participants": 2}, "participants = 2: FedMLS needs all N = 4 clients in every round; leave it out"),
        ({"mode": "exact"}, "mode = 'exact': a run of FedMLS is exact without noise"),
        ({"batch_size": 3}, "batch_size 3 does not apply to statements about FedMLS: leave it out"),
        ({"inactive": "0.3"}, "inactive 0.3 does not apply to statements about FedMLS"),
        ({"epsilon": 0.0}, "epsilon = 0: the accuracy, in units of G"),
        ({"noise": -1.0}, "noise = -1: the noise"),
        ({"noise": 1.0, "noise_std": 2.0}, "noise = 1, noise_std = 2: give one of them"),
        ({"epsilon": 1e-9}, "would take at least .* ask for a larger epsilon or fewer rounds, or pass allow_long=True to go on"),
    ],
)
def test_a_request_that_means_nothing_here_is_refused(lad, more, says):
    with pytest.raises(InvalidInput, match=says):
        prepared(ONE, lad, **more)


def test_an_identity_needs_no_parameters(lad):
    statement = theorems.get("fedmls/identities")
    made = prepared(statement, lad)
    assert "no data enter" in made.head[0] and statement.verify(made.problem, made.algorithm).verdict == "holds"
    assert about_of(statement).refusal is None is about_of(ONE).refusal
    assert about_of(statement).scope == "no data enter" and about_of(ONE).example == "--problem lad"


@pytest.mark.parametrize("change", [{"lipschitz": 2.0}, {"sigma": 1.0}, {"sigma": 1.0, "noise_std": 0.5}], ids=str)
def test_the_local_steps_are_counted_with_line_4s_own_constants(change):
    """A user's G or sigma above the problem's makes T_k larger; that was reported as a violation."""
    rng = np.random.default_rng(0)
    problem = problems.nonsmooth.LAD(rng.standard_normal((4, 6, 2)), rng.standard_normal((4, 6)))
    given = FedMLS(**{"lam": 0.5, "D": 1.0, "rounds": 6, "radius": 5.0, "lipschitz": problem.lipschitz_rms(5.0), **change})
    above, below = theorems.get("fedmls/theorem-2").verify(problem, given, forms=["local steps", "local steps, from below"])
    assert above.verdict == below.verdict == "holds"
    a = (4 * given.lipschitz**2 + given.sigma**2) * 0.5**2 * 6 / 2
    assert (below.lhs, below.rhs, above.rhs) == (pytest.approx(91 * a), given.total_steps(skip_last=False), pytest.approx(91 * a + 6))
