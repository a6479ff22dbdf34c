"""Theorem 1 on a user's case: each assumption by name and value, at its limit, and what the runs and rounds are made of."""

from __future__ import annotations

import numpy as np
import pytest
from efl_on_a_problem import DIAGONAL, LAW, LOGISTIC, TWO, case_of

from fedtheory import problems
from fedtheory.algorithms import EFL, FedAvg
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import GradientSteps, LocalSGD, TheoremStep
from fedtheory.messages import ST, TopK
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.participation.irregular import Irregular, JointLaw, complete, inactive, windows
from fedtheory.randomness import Stream
from fedtheory.theorems.efl.cases import theorem_1 as cases
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run
from fedtheory.theorems.efl.quantities.measured_run import constants_of, measured_run
from fedtheory.theorems.efl.quantities.run import FROZEN, step_sizes
from fedtheory.theorems.efl.quantities.step import reached
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.second_moments import oracles_of

SAMPLES = problems.random_least_squares(3, 2, samples=4, ridge=0.5, seed=1, weights=[0.2, 0.3, 0.5])
EVEN, ODD = [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.5, 0.25, 0.25]], [[0.0, 0.5, 0.5], [0.2, 0.2, 0.6], [0.0, 0.0, 1.0]]
TURNS = Irregular(2, [EVEN, ODD])  # in odd rounds the first law, in even ones the second


# --- assumptions ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("problem", "algorithm", "solver", "said"),
    [
        (DIAGONAL, FedAvg(), None, "the statement is about EFL, not FedAvg"),
        (DIAGONAL, EFL(lam=0.25), None, "lambda = 0.25, the limit is 0: while the anchors move"),
        (
            DIAGONAL,
            EFL(compressor=TopK(k=1)),
            None,
            "compressor = top-k: no theorem under compression is stated or proved; use None",
        ),
        (DIAGONAL, EFL(down_compressor=ST(0.5)), None, "down_compressor = st: no theorem under compression"),
        (
            DIAGONAL,
            EFL(),
            GradientSteps(2, 0.1),
            "local work by GradientSteps: gradients must be unbiased given the past, use LocalSGD",
        ),
        (problems.Quadratic([[[-1.0]]], [[0.0]]), EFL(), None, "some client's loss is not convex (Assumption 2)"),
        (
            problems.Quadratic([[[1.0]], [[0.0]]], [[0.0], [0.0]]),
            EFL(),
            None,
            "client 1 has mu_k = 0, the limit is > 0 (Assumption 2)",
        ),
        (
            problems.Quadratic([[[1.0]]] * 2, [[0.0]] * 2, [1.0, 0.0]),
            EFL(),
            None,
            "client 1 has p^k = 0, the limit is > 0: leave it out",
        ),
    ],
)
def test_the_first_assumption_that_fails_is_said(problem, algorithm, solver, said):
    reason = cases.assumption_failure(problem, algorithm, solver)
    assert reason.startswith(said)
    if algorithm != EFL():
        assert cases.assumption_failure(problem, EFL(), solver) is None


def test_what_meets_all_assumptions():
    for algorithm, solver, frozen in (
        (EFL(), None, False),
        (EFL(), LocalSGD(2, 1.0), False),
        (EFL(lam=0.25), None, True),
    ):
        assert cases.assumption_failure(DIAGONAL, algorithm, solver, frozen) is None
    assert cases.assumption_failure(problems.random_lad(2, 2, seed=0), EFL(), None).startswith(
        "LAD has no smoothness constant"
    )


# --- what can be enumerated -----------------------------------------------------------------------
def many(clients):
    return problems.Quadratic([[[1.0]]] * clients, [[float(k)] for k in range(clients)])


@pytest.mark.parametrize(
    ("problem", "sampling", "solver", "exact"),
    [
        (DIAGONAL, LAW, LocalSGD(2, 1.0), True),
        (SAMPLES, LAW, LocalSGD(2, 1.0), True),
        (LOGISTIC, LAW, LocalSGD(2, 1.0), False),
        (DIAGONAL, Uniform(2), LocalSGD(2, 1.0), False),
        (SAMPLES, LAW, LocalSGD(2, 1.0, 2), True),
        (SAMPLES, LAW, LocalSGD(2, 1.0, 2, replacement=False), False),
        (DIAGONAL, LAW, LocalSGD(2, 1.0, 2), False),
        (SAMPLES, LAW, LocalSGD(2, 1.0, replacement=False), True),
        (many(13), inactive(13, 1, 0.5), LocalSGD(1, 1.0), True),
    ],
)
def test_what_the_exact_recursion_is_for(problem, sampling, solver, exact):
    assert cases.enumerable(problem, sampling, solver, 3) is exact


def test_one_round_of_clients_that_depend_on_each_other_counts():
    half = np.array([[0.5, 0.5], [0.5, 0.5]])
    for number in range(3):
        laws = [half] * 3
        laws[number] = JointLaw(np.array([[1, 0], [0, 1]]), [0.5, 0.5])
        law = Irregular(1, laws)
        assert [cases.enumerable(TWO, law, LocalSGD(1, 1.0), T) for T in (1, 2, 3)] == [
            T <= number for T in (1, 2, 3)
        ]


def test_rounds_of_one_law_share_it():
    first, second, third, fourth = cases.laws_along("B", TURNS, 4, DIAGONAL.weights)
    assert first is third and second is fourth and first.method.scheme == "B" and first.weights is DIAGONAL.weights
    assert first.law.tolist() == EVEN and second.law.tolist() == ODD


# --- who takes part, and the local work -----------------------------------------------------------
def test_how_many_local_steps_there_are():
    """The law says the number of local steps, else the solver, else it is five."""
    for how, E in (
        ({}, 5),
        ({"local_solver": LocalSGD(3, 1.0)}, 3),
        ({"sampling": LAW}, 2),
        ({"sampling": LAW, "local_solver": LocalSGD(2, 1.0)}, 2),
        ({"sampling": Full()}, 5),
        ({"sampling": Full(), "local_solver": LocalSGD(3, 1.0)}, 3),
        ({"local_solver": GradientSteps(3, 0.1)}, 5),
        ({"sampling": LAW, "local_solver": GradientSteps(3, 0.1)}, 2),
        ({"sampling": Uniform(2), "local_solver": LocalSGD(3, 1.0)}, 3),
    ):
        case = case_of(DIAGONAL, EFL(), **how)
        law = cases.law_of(case)
        assert law.max_steps == E and law.law(1).shape == (3, E + 1)
        solver = how.get("local_solver")
        expected = solver if isinstance(solver, LocalSGD) else LocalSGD(E, 1.0)
        assert cases.local_sgd_of(case, law) == expected
    assert cases.law_of(case_of(DIAGONAL, EFL(), sampling=LAW)) is LAW
    full = cases.law_of(case_of(DIAGONAL, EFL(), sampling=Full())).law(1)
    assert full[:, -1].tolist() == [1, 1, 1]
    with pytest.raises(
        InvalidInput, match=r"has E = 2 local steps, but the local solver makes steps = 3: give both the same number"
    ):
        cases.law_of(case_of(DIAGONAL, EFL(), sampling=LAW, local_solver=LocalSGD(3, 1.0)))


def test_clients_that_are_not_there():
    base, there = inactive(3, 2, 0.25), {1: (None, 4)}
    cases.check_present(base, 9)
    cases.check_present(windows(base, there), 3)
    for stay, said in (
        (there, "client 1 is not there in round 4: "),
        ({2: (2, None)}, "client 2 is not there in round 1: "),
    ):
        with pytest.raises(InvalidInput, match=said + "the objective is fixed; let it be inactive instead"):
            cases.check_present(windows(base, stay), 4)


# --- anchors --------------------------------------------------------------------------------------
def test_anchors_are_v_over_u():
    u, v = np.array([[1.0, 0.0], [4.0, 0.5], [0.25, 8.0]]), np.array([[1.5, 0.0], [1.0, -2.0], [1.0, 4.0]])
    lam, found, at = cases.anchors_of(case_of(DIAGONAL, EFL(lam=0.75), given={"u_0": u, "v_0": v}))
    assert lam == 0.75 and found.tolist() == u.tolist() and at.tolist() == [[1.5, 0], [0.25, -4], [4, 0.5]]
    assert cases.anchors_of(case_of(DIAGONAL, EFL(lam=0.75), given={"G": 3})) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"u_0": np.ones((3, 2))}, "u_0 is given without v_0: frozen anchors need both"),
        ({"v_0": np.ones((3, 2))}, "v_0 is given without u_0: frozen anchors need both"),
        (
            {"u_0": np.ones((3, 1)), "v_0": np.ones((3, 2))},
            r"u_0 \(3, 1\) and v_0 \(3, 2\): give a row of d numbers .*, \(3, 2\)",
        ),
        (
            {"u_0": np.ones((3, 2)), "v_0": np.ones((2, 2))},
            r"u_0 \(3, 2\) and v_0 \(2, 2\): give a row of d numbers .*, \(3, 2\)",
        ),
        ({"u_0": [[1, 1], [1, -0.5], [1, 1]], "v_0": np.ones((3, 2))}, "u_0 must be >= 0, and v_0 = u_0 times a model"),
        (
            {"u_0": [[2, 2], [2, 0], [2, 2]], "v_0": np.ones((3, 2))},
            "u_0 must be >= 0, and v_0 = u_0 times a model: 0 where u_0 is 0",
        ),
    ],
)
def test_anchors_that_are_none(given, said):
    with pytest.raises(InvalidInput, match=said):
        cases.anchors_of(case_of(DIAGONAL, EFL(lam=0.75), given=given))


# --- step sizes -----------------------------------------------------------------------------------
@pytest.mark.parametrize("given", [{}, {"L": 9.0}, {"mu": 0.125}])
def test_a_schedule_must_be_the_theorems(given):
    """To one part in 10^9, in every round."""
    algorithm, rounds = EFL(scheme="C-corrected"), 5
    run = quadratic_run(
        oracles_of(DIAGONAL), cases.laws_along("C-corrected", TURNS, rounds, DIAGONAL.weights), np.zeros(2), given=given
    )
    c = run.constants
    right = TheoremStep(c.mu, 2, float(c.gamma), tuple(float(S) for S in c.S))
    eta = step_sizes(2, c.mu, c.gamma, list(c.S))

    def check(lr):
        cases.check_step_sizes(DIAGONAL, algorithm, TURNS, rounds, LocalSGD(2, lr), given)

    for lr in (right, 0.5, lambda t: eta[t - 1] * (1 + 0.9e-9), lambda t: eta[t - 1] * (1 - 0.9e-9)):
        check(lr)
    for bad, factor in ((1, 1 + 1.1e-9), (1, 1 - 1.1e-9), (5, 1.25)):
        with pytest.raises(InvalidInput) as caught:
            check(lambda t, bad=bad, factor=factor: eta[t - 1] * (factor if t == bad else 1))
        said = f"lr({bad}) = {eta[bad - 1] * factor:.6g}, but Theorem 1 takes eta_{bad - 1} = {eta[bad - 1]:.6g}: use TheoremStep"
        assert said == str(caught.value)


def test_the_schedule_of_a_case_is_looked_at():
    c = quadratic_run(
        oracles_of(DIAGONAL), cases.laws_along("C-corrected", TURNS, 5, DIAGONAL.weights), np.zeros(2), given={"L": 9.0}
    ).constants
    how = {"sampling": TURNS, "rounds": 5, "given": {"L": 9.0}}
    right = TheoremStep(c.mu, 2, float(c.gamma), tuple(float(S) for S in c.S))
    for kind in ("run", "step"):
        cases.view_of(kind, case_of(DIAGONAL, EFL(scheme="C-corrected"), **how, local_solver=LocalSGD(2, right)))
        late = LocalSGD(2, lambda t: right(t) * (1 + (t == 5)))
        with pytest.raises(InvalidInput, match=r"lr\(5\) = .*, but Theorem 1 takes eta_4 = "):
            cases.view_of(kind, case_of(DIAGONAL, EFL(scheme="C-corrected"), **how, local_solver=late))


def test_scheme_a_is_exact_with_thirteen_clients_of_unequal_laws():
    law = inactive(13, 1, [0.5, *[0.25] * 12])
    case = case_of(many(13), EFL(scheme="A"), sampling=law, rounds=1)
    assert cases.view_of("run", case).exact and cases.constants_on(case).theta == 13


def test_a_client_that_comes_after_the_run():
    late = windows(inactive(2, 1, 0.25), {1: (5, None)})
    for find in (cases.constants_on, lambda case: cases.view_of("run", case)):
        with pytest.raises(InvalidInput, match="client 1 arrives in round 5 of a run of 4: make the run longer"):
            find(case_of(TWO, EFL(), sampling=late, rounds=4))


# --- constants without a run ----------------------------------------------------------------------
def same(found, expected):
    for name in ("E", "L", "mu", "theta", "G_sq", "start_sq", "T"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name)), name
    for name in ("sigma_sq", "D", "S"):
        assert np.asarray(getattr(found, name), dtype=float) == pytest.approx(
            np.asarray(getattr(expected, name), dtype=float)
        ), name


def test_constants_of_quadratics_are_exact():
    for scheme, solver in (("A", LocalSGD(2, 1.0, 3)), ("B", LocalSGD(2, 1.0, 3, noise_std=0.5))):
        case = case_of(
            SAMPLES,
            EFL(scheme=scheme),
            sampling=TURNS,
            local_solver=solver,
            rounds=4,
            x0=[3.0, -2.0],
            given={"L": 50.0},
        )
        laws = cases.laws_along(scheme, TURNS, 4, SAMPLES.weights)
        same(
            cases.constants_on(case),
            quadratic_run(oracles_of(SAMPLES, 3, solver.noise_std), laws, case.x0, given={"L": 50.0}).constants,
        )
        other = complete(3, 2)
        laws = cases.laws_along("C", other, 4, SAMPLES.weights)
        same(
            cases.constants_on(case, other, "C"),
            quadratic_run(oracles_of(SAMPLES, 3, solver.noise_std), laws, case.x0, given={"L": 50.0}).constants,
        )
    plain = cases.constants_on(case_of(DIAGONAL, EFL()))
    assert (plain.T, plain.E, plain.theta) == (50, 5, 5)
    assert cases.constants_on(case_of(DIAGONAL, FedAvg())).theta == 5  # of a method without a scheme: C


def test_constants_of_other_losses_are_bounds():
    case = case_of(
        LOGISTIC,
        EFL(scheme="A"),
        sampling=LAW,
        local_solver=LocalSGD(2, 1.0, 2),
        rounds=4,
        x0=[3.0, -2.0],
        given={"L": 50.0},
    )
    same(cases.constants_on(case), constants_of(LOGISTIC, "A", LAW, 4, case.x0[None], 2, {"L": 50.0})[0])
    noisy = case_of(LOGISTIC, EFL(), sampling=LAW, local_solver=LocalSGD(2, 1.0, noise_std=0.25))
    for find in (cases.constants_on, lambda case: cases.view_of("run", case)):
        with pytest.raises(
            MissingCapability, match=r"noise_std = 0\.25 is unbounded noise: G is then proved for quadratics only"
        ):
            find(noisy)
    for bad, said in (
        ({"problem": problems.random_logistic(3, 2, ridge=0.0, seed=1)}, "mu_k = 0"),
        ({"local_solver": GradientSteps(2, 0.1)}, "use LocalSGD"),
        ({"problem": DIAGONAL, "local_solver": LocalSGD(2, 1.0, 3)}, "no samples"),
        ({"sampling": inactive(2, 2, 0.25)}, "2"),
    ):
        how = {"problem": SAMPLES, "sampling": LAW, **bad}
        case = case_of(how.pop("problem"), EFL(), **how)
        with pytest.raises((InvalidInput, MissingCapability), match=said):
            cases.constants_on(case)
        with pytest.raises((InvalidInput, MissingCapability), match=said):
            cases.view_of("run", case)


# --- the run, and its rounds ----------------------------------------------------------------------
def test_an_exact_run():
    solver = LocalSGD(2, 1.0, 3, noise_std=0.5)
    case = case_of(
        SAMPLES, EFL(scheme="A"), sampling=TURNS, local_solver=solver, rounds=4, x0=[3.0, -2.0], given={"L": 50.0}
    )
    expected = quadratic_run(
        oracles_of(SAMPLES, 3, 0.5), cases.laws_along("A", TURNS, 4, SAMPLES.weights), case.x0, given={"L": 50.0}
    )
    for mode in ("auto", "exact"):
        found = cases.view_of(
            "run",
            case_of(
                SAMPLES,
                EFL(scheme="A"),
                sampling=TURNS,
                local_solver=solver,
                rounds=4,
                x0=[3.0, -2.0],
                given={"L": 50.0},
                mode=mode,
            ),
        )
        assert found.exact and found.rule == "A" and found.distance_sq == pytest.approx(expected.distance_sq)
        same(found.constants, expected.constants)
    assert cases.view_of("run", case_of(DIAGONAL, EFL())).constants.T == 50


def test_a_run_with_anchors_that_never_move():
    u, v = np.array([[2.0, 0.0], [4.0, 0.5], [0.25, 8.0]]), np.array([[3.0, 0.0], [1.0, -2.0], [1.0, 4.0]])
    how = {"sampling": LAW, "rounds": 4, "x0": [3.0, -2.0], "given": {"u_0": u, "v_0": v}}
    case = case_of(DIAGONAL, EFL(lam=0.75), **how)
    laws = cases.laws_along("C", LAW, 4, DIAGONAL.weights)
    expected = quadratic_run(oracles_of(DIAGONAL), laws, case.x0, anchors=cases.anchors_of(case))
    found = cases.view_of("run", case)
    assert found.distance_sq == pytest.approx(expected.distance_sq) and found.facts == {FROZEN}
    free = cases.view_of("run", case_of(DIAGONAL, EFL(), **how))
    assert (
        free.distance_sq == pytest.approx(quadratic_run(oracles_of(DIAGONAL), laws, case.x0).distance_sq)
        and not free.facts
    )
    for more, error, said in (
        (
            {"local_solver": LocalSGD(2, lambda t: 0.1)},
            InvalidInput,
            "with frozen anchors the step size is Theorem 1's .*: give no schedule",
        ),
        (
            {"mode": "monte-carlo"},
            MissingCapability,
            "frozen anchors need exact second moments: quadratic losses, independent clients, no",
        ),
    ):
        with pytest.raises(error, match=said):
            cases.view_of("run", case_of(DIAGONAL, EFL(lam=0.75), **{**how, **more}))
    with pytest.raises(MissingCapability, match=r"one round is enumerated .* lambda = 0, no additive noise"):
        cases.view_of("step", case)


def test_a_real_run():
    how = {
        "sampling": LAW,
        "rounds": 4,
        "x0": [3.0, -2.0],
        "scenarios": 6,
        "seed": 5,
        "local_solver": LocalSGD(2, 1.0, 3, replacement=False),
    }
    expected = measured_run(
        SAMPLES, "B", LAW, 4, [3.0, -2.0], 6, 5, 3, replacement=False, given={"G": 90.0, "sigma_sq": 90.0}
    )
    found = cases.view_of("run", case_of(SAMPLES, EFL(scheme="B"), **how, given={"G": 90.0, "sigma_sq": 90.0}))
    assert not found.exact and found.rule == "B" and found.distance_sq == pytest.approx(expected.distance_sq)
    forced = cases.view_of("run", case_of(LOGISTIC, EFL(), sampling=LAW, rounds=3, scenarios=4, mode="monte-carlo"))
    assert not forced.exact and forced.distance_sq.shape == (4, 4)
    with pytest.raises(
        MissingCapability,
        match="exact expectations need quadratic losses and independent clients: use mode='monte-carlo'",
    ):
        cases.view_of("run", case_of(LOGISTIC, EFL(), sampling=LAW, rounds=3, mode="exact"))


@pytest.mark.parametrize(("rounds", "states"), [(2, 2), (6, 6), (9, 6)])
def test_the_first_rounds_one_by_one(rounds, states):
    """From the start, along one path of the run's own stream."""
    law = Irregular(1, [[[0.25, 0.75], [0.0, 1.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5], [0.25, 0.75]]])
    how = {"sampling": law, "local_solver": LocalSGD(1, 1.0, 1), "x0": [3.0, -2.0], "seed": 5}
    found = cases.view_of("step", case_of(SAMPLES, EFL(scheme="B"), rounds=rounds, **how))
    laws = [RoundLaw(EFL(scheme="B"), law.law(t), SAMPLES.weights) for t in range(1, states + 1)]
    expected = reached(oracles_of(SAMPLES, 1), laws, np.array([3.0, -2.0]), Stream(5).generator("efl path"))
    assert found.taus == list(range(states)) and found.rule == "B"
    for ours, theirs in zip(found.states, expected.states, strict=True):
        assert (
            ours.w0 == pytest.approx(theirs.w0)
            and ours.eta == pytest.approx(theirs.eta)
            and ours.law.law.tolist() == theirs.law.law.tolist()
        )


@pytest.mark.parametrize(
    ("problem", "how"),
    [
        (LOGISTIC, {}),
        (DIAGONAL, {"local_solver": LocalSGD(2, 1.0, noise_std=0.25)}),
        (DIAGONAL, {"sampling": Uniform(2)}),
    ],
)
def test_rounds_that_are_not_enumerated(problem, how):
    with pytest.raises(
        MissingCapability,
        match="one round is enumerated for quadratic losses, independent clients, lambda = 0, no additive",
    ):
        cases.view_of("step", case_of(problem, EFL(), **{"sampling": LAW, "rounds": 2, **how}))
