"""The statements on FedElasticNet's dynamics: on the battery, on problems of a user's, and what their instances are made of."""

from __future__ import annotations

from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest
from algorithm_3 import DiagonalInstance, PiecewiseLosses, RationalState, exact_array
from fedelasticnet_worlds import BUILDERS, battery

from fedtheory import problems, theorems
from fedtheory.algorithms import FedElasticNetDyn, FedElasticNetProx
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Uniform
from fedtheory.theorems.fedelasticnet.dynamics.facts import FROZEN, RETURNS, SILENT
from fedtheory.theorems.fedelasticnet.dynamics.motions import Motion, data_of, drift_of_one
from fedtheory.theorems.fedelasticnet.dynamics.separable import pieces_of
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import Letters
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.rounds.slopes import Piece, absolute, huber, quadratic, ramp

MINE = [s for s in theorems.all_statements("fedelasticnet/") if s.scope in ("motion", "standstill")]
CASES = [pytest.param(s, f, id=f"{s.id}-{f.name}") for s in MINE for f in s.forms]
MUTANTS = [pytest.param(s, f, m, id=f"{s.id}-{f.name}-{m.name}") for s in MINE for f in s.forms for m in f.mutants]
ATTAINED = [
    ("at-rest", "repaired"), ("at-rest", "excess"), ("moves", "at most"), ("moves", "at least"), ("returns", "mean gradient"),
    ("drift", "bias"), ("drift", "growth"), ("descent", "rate"), ("descent", "silence"), ("near-the-optimum", "repaired"),
    ("near-the-optimum", "factor"), ("algorithm-1-bias", "distance"),
]  # fmt: skip


@pytest.fixture(scope="module")
def views():
    """kind -> the views of its battery."""
    return {kind: [i.view() for i in battery((kind,), 0, 1.0)] for kind in ("motion", "standstill")}


def on(views, statement, form, rule, sides=None):
    those = [v for v in views[statement.scope] if v.rule == rule and v.applies(form) is None]
    return [judge_view(statement, form, v, sides=sides) for v in those]


# --- the battery ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("statement", "form"), CASES)
def test_what_is_on_record_is_found(statement, form, views):
    for rule, established in form.established.items():
        checks = on(views, statement, form, rule)
        assert len(checks) >= 2 and {c.mode for c in checks} == {"rational"}
        found = {c.verdict for c in checks}
        assert found == {"holds"} if established == "holds" else "violated" in found, rule


@pytest.mark.parametrize(("statement", "form", "mutant"), MUTANTS)
def test_every_mutant_is_rejected(statement, form, mutant, views):
    checks = [c for rule in form.established for c in on(views, statement, form, rule, mutant.sides)]
    assert any(c.verdict == "violated" for c in checks)


@pytest.mark.parametrize(("statement", "form"), ATTAINED)
def test_these_bounds_are_attained(statement, form, views):
    """By some instance, exactly: so none of their constants can be smaller."""
    one = theorems.get(f"fedelasticnet/{statement}")
    form = one.form(form)
    sides = [form.sides(v) for v in views[one.scope] if v.rule in form.established and v.applies(form) is None]
    assert any(x == y > 0 for s in sides for x, y in zip(s.lhs.ravel(), s.rhs.ravel(), strict=True))


# --- divergence -----------------------------------------------------------------------------------
@pytest.mark.parametrize("lambda2", [2, F(9, 4), F(7, 3), 3, F(22, 3), 28, 100])
def test_one_smooth_client_drifts_away_for_ever(lambda2):
    """It stores 3/2, and 1/2 - lambda_2 u/(lambda_2 + 1) from the first theta = 1/2 - u < 1/2 on; beyond -1/2 R' = -1/2."""
    l2 = F(lambda2)
    falling = (l2 - F(4, 3)).__floor__() + 2  # the first t with theta^t = 2 - 2/l2 - (t - 1) 3/(2 l2) below 1/2
    u = 2 / l2 + (falling - 1) * 3 / (2 * l2) - F(3, 2)
    g = F(1, 2) - l2 * u / (l2 + 1)
    assert 0 < u <= 3 / (2 * l2) and max(F(0), (l2 - 2) / (2 * (l2 + 1))) <= g < F(1, 2) and g > 0
    view = BUILDERS["motion"](drift_of_one(l2, falling + 1))
    assert [t for t, moves in enumerate(view.delta[:, 0, 0], 1) if moves] == [1, falling + 1]
    assert list(view.h[:, 0]) == [0, *[F(3, 2)] * falling, g] and view.has(FROZEN)
    assert view.theta_star[0] == 0 and view.beta == 1
    far = drift_of_one(l2, 2) | {"theta": ["-1/2"], "stored": [[str(g)]]}
    later = BUILDERS["motion"](far)
    assert list(later.excess[1:] - later.excess[:-1]) == [g / (2 * l2)] * 2 and later.has(FROZEN)
    assert (1 - 3 / (l2 + 1)) / (4 * l2) <= g / (2 * l2) < 1 / (4 * l2)


def test_below_two_beta_the_same_start_may_end_at_the_optimum():
    view = BUILDERS["motion"](drift_of_one(F(3, 2), 4))
    assert not view.theta[-1].any() and not view.stored[-1].any()


@pytest.mark.parametrize("cohorts", [[0], [1, 2, 0, 1, 0], [2, 0, 0]])
def test_three_unlike_clients_drift_away_with_cohorts(cohorts):
    """Slopes that rise by 1 between 1 and 2, from -3/2, 0 and 0, one client a round: from when client 0 is drawn h = -1/2."""
    pieces = [[ramp(F(-3, 2), F(-1, 2), 1, 2)], [ramp(0, 1, 1, 2)], [ramp(0, 1, 1, 2)]]
    instance = DiagonalInstance(PiecewiseLosses(pieces, near=[F(0)]), F(1), F(28), 1, "sign", exact_array([[0]]))
    state = instance.after([[k] for k in cohorts])
    first = cohorts.index(0)
    assert state.theta[0, 0] == (2 + len(cohorts) - 1 - first) * F(1, 56) and state.h[0, 0] == F(-1, 2)
    far = BUILDERS["motion"](data_of(pieces, 1, 28, "sign", [3], 2, [[F(-3, 2)], [0], [0]]))
    assert list(far.excess[1:] - far.excess[:-1]) == [F(1, 112)] * 2 and far.has(FROZEN)  # nobody moves, whoever is drawn


def test_a_slope_of_lambda_1_at_infinity_ends_the_drift():
    """The client moves again where the slope falls to -1, however far away that begins."""
    loss = ramp(F(-1, 2), F(3, 2), F(-1, 2), F(3, 2)) + ramp(F(-1, 2), 0, -21, -20)
    view = BUILDERS["motion"](data_of([[loss]], 1, 2, "sign", [2], 8))
    assert not view.has(FROZEN) and not view.delta[3:].any()
    later = BUILDERS["motion"](data_of([[loss]], 1, 2, "sign", [2], 150))
    assert later.delta[100:].any()


def test_strong_convexity_excludes_a_drift_without_end():
    """A ridge as small as one likes: the slope leaves the band of lambda_1 in the end."""
    loss = ramp(F(-1, 2), F(3, 2), F(-1, 2), F(3, 2)) + quadratic(F(1, 1000))
    view = BUILDERS["motion"](data_of([[loss]], 1, 28, "sign", [2], 40))
    assert not view.has(FROZEN) and view.h[-1, 0] > F(2, 5) and not view.delta[-9:].any() and view.mu == F(1, 1000)


def test_the_theorems_hold_along_the_drift():
    """The repaired Theorem 3.1 by its last term, which grows as fast as R; as printed, where sign(0) = 0, it fails."""
    losses = PiecewiseLosses([[ramp(F(-1, 2), F(3, 2), F(-1, 2), F(3, 2))]], near=[F(2)])
    one, T = DiagonalInstance(losses, F(1), F(60), 1, "sign", exact_array([[2]])), 600
    states, models, own = [one.start()], [], []
    for _ in range(T):
        models.append(one.virtual(states[-1]))
        own.append(one.minimise(states[-1].local, states[-1].stored))
        after = one.step(states[-1], one.members)
        states.append(RationalState(*(a.reshape(-1, *a.shape[2:]) for a in after)))
    x, h, stored = (np.stack([getattr(s, n) for s in states]) for n in ("theta", "h", "stored"))
    models = np.stack(models)
    view = SimpleNamespace(
        rule="sign", rational=True, N=F(1), P=F(1), beta=F(1), d=1, x=x, x_star=losses.theta_star,
        method=SimpleNamespace(l1=F(1), l2=F(60)), state=SimpleNamespace(h=h, stored=stored),
        t=np.array([F(i) for i in range(T + 1)], dtype=object)[:, None], horizons=np.arange(1, T + 1),
        sq=lambda v: (v * v).sum(axis=-1), dot=lambda v, w: (v * w).sum(axis=-1), dot_of_means=lambda v, w: (v * w).sum(axis=-1),
        over_clients=lambda v: v.sum(axis=-1), gap_at=losses.excess, gradients=losses.gradients, client_models=models,
        client_state=SimpleNamespace(stored=stored[:-1], local=None), client_slopes=losses.gradients_each(models),
        minimised=lambda *_: np.stack(own),
    )  # fmt: skip
    letters = Letters(view)
    view.once = lambda of: letters
    verdicts = {}
    for claimed in FILE["theorem-3.1"].function(view):
        sides = claimed.sides()
        verdicts[claimed.name] = "holds" if (sides.lhs <= sides.rhs).all() else "violated"
    assert {verdicts[name] for name in ("repaired", "sharpened", "small floor", "floor 0.28")} == {"holds"}
    assert {verdicts[name] for name in ("printed", "printed, whole expectation", "sign(0) = 0")} == {"violated"}
    last = letters.last("s")[:, 0]
    assert last[599] > last[449] > last[299] > 0


def test_cycles_of_the_true_gradient_rule_need_a_small_lambda_2(views):
    cycling = [v for v in views["motion"] if v.rule == "true-gradient" and v.has(RETURNS) and v.excess_gamma[-v.period :].any()]
    assert cycling and all(2 * v.lambda2 <= v.beta for v in cycling)


# --- on a problem of a user's ---------------------------------------------------------------------
def checks_of(name: str, problem, algorithm, **options):
    return {c.form: c for c in theorems.get(f"fedelasticnet/{name}").verify(problem, algorithm, **options)}


def test_separable_problems_are_followed_in_fractions_and_others_in_floats():
    plane = problems.Quadratic([np.diag([1.0, 0.5])] * 2, [[0.0, 0.0], [1.0, 2.0]])
    tilted = problems.Quadratic([[[1.0, 0.25], [0.25, 0.5]]] * 2, [[0.0, 0.0], [1.0, 2.0]])
    for problem, mode in ((plane, "rational"), (tilted, "exact")):
        found = checks_of("moves", problem, FedElasticNetDyn(0.125, 30.0), rounds=10)
        assert {c.mode for c in found.values()} == {mode} and {c.verdict for c in found.values()} == {"holds"}


@pytest.mark.parametrize("rule", ["sign", "true-gradient"])
def test_fractions_and_floats_follow_the_same_run(rule):
    problem = problems.random_huber(3, 1, [4, 5, 6], seed=3, condition=1.0, ridge=0.0)
    algorithm = FedElasticNetDyn(0.125, 4.0, rule)
    exact = BUILDERS["motion"](data_of(pieces_of(problem), F(1, 8), 4, rule, [2], 12))
    floats = Motion.followed(problem, algorithm, 12, [2.0])
    for name in ("theta", "h", "stored", "y", "grad", "excess", "excess_gamma"):
        assert np.allclose(getattr(exact, name).astype(float), getattr(floats, name), rtol=1e-9, atol=1e-9), name
    assert (exact.still == floats.still).all() and abs(float(exact.beta) - floats.beta) < 1e-12


@pytest.mark.parametrize("loss", ["Huber", "LAD", "Quantile"])
def test_losses_of_one_feature_become_pieces(loss):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((3, 5, 1)), rng.standard_normal((3, 5))
    problem = problems.Quantile(a, b, 0.3) if loss == "Quantile" else getattr(problems, loss)(a, b)
    pieces = pieces_of(problem)
    for k, (piece,) in enumerate(pieces):
        for x in rng.standard_normal(20):
            low, high = piece.slopes(F(float(x)))
            assert float(low) - 1e-12 <= problem.gradient(np.array([x]))[k, 0] <= float(high) + 1e-12
        values = [float(piece.value(F(float(x))) - piece.value(F(0))) for x in (-2.0, 0.5, 3.0)]
        at = [problem.client_losses(np.array([x]))[k] for x in (-2.0, 0.5, 3.0, 0.0)]
        assert np.allclose(values, np.array(at[:3]) - at[3])


def test_a_model_that_hardly_moves_is_not_called_a_cycle_that_fails():
    """Curvature 1e-11 along one direction: a round moves the model by 3e-13, and R is 5e-12 above its minimum."""
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    slow = turn @ np.diag([1.0, 1e-11]) @ turn.T
    view = Motion.followed(problems.Quadratic([slow], [[0.0, 0.0]]), FedElasticNetDyn(0.1, 30.0, "true-gradient"), 3, turn[:, 1])
    statement = theorems.get("fedelasticnet/returns")
    check = judge_view(statement, statement.form("in words, lambda_2 > 27 beta"), view)
    assert view.has(RETURNS) and view.excess_gamma[-1] > 1e-12 and check.verdict == "holds"


def test_absolute_losses_are_judged_in_one_dimension_and_refused_in_more():
    rng = np.random.default_rng(0)
    line = problems.LAD(rng.standard_normal((2, 3, 1)), rng.standard_normal((2, 3)))
    found = checks_of("drift", line, FedElasticNetDyn(0.25, 5.0), rounds=10)
    assert found["bias"].verdict == "holds" and found["bias"].mode == "rational"
    plane = problems.LAD(rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 3)))
    found = checks_of("drift", plane, FedElasticNetDyn(0.25, 5.0), rounds=10)
    assert all(c.verdict == "not applicable" and "followed in fractions only" in c.reason for c in found.values())


def test_huber_without_a_ridge_runs_and_a_flat_optimum_is_one_of_many():
    """R is flat on [-2.5, 2.5]: theta* is the point of it that is nearest to the start."""
    problem = problems.Huber([[[1.0]], [[1.0]]], [[-3.0], [3.0]], delta=0.5)
    found = checks_of("theorem-3.1", problem, FedElasticNetDyn(0.25, 30.0), rounds=6)
    assert found["repaired"].verdict == "holds"
    at = problem.gradient(np.array([[-2.5], [0.0], [2.0]]))
    assert (at == at[0]).all() and at[0].any()  # so C_t is the same for all minimisers
    for start, star, excess in ((1, 1, 0), (4, F(5, 2), F(1, 2)), (-7, F(-5, 2), 2)):
        view = BUILDERS["motion"](data_of(pieces_of(problem), F(1, 4), 30, "sign", [start], 2))
        assert view.theta_star[0] == star and view.excess[0] == excess


@pytest.mark.parametrize(
    ("algorithm", "options", "reason"),
    [
        (FedElasticNetDyn(0.0, 30.0), {}, "lambda_1 = 0 is not above 0"),
        (FedElasticNetDyn(0.1, 30.0, epsilon=0.5), {}, "threshold epsilon = 0.5"),
        (FedElasticNetDyn(0.1, 30.0), {"sampling": Uniform(1)}, "everyone takes part"),
        (FedElasticNetProx(0.1, 1.0), {}, "Algorithm 3 .FedElasticNetDyn., not FedElasticNetProx"),
    ],
)
def test_what_algorithm_3_is_not_about_is_said(algorithm, options, reason):
    problem = problems.Quadratic([[[1.0]], [[1.0]]], [[-1.0], [1.0]])
    found = checks_of("drift", problem, algorithm, rounds=3, **options)
    assert all(c.verdict == "not applicable" for c in found.values())
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found["bias"].reason)


def test_the_reasons_have_values():
    problem = problems.Quadratic([[[1.0]], [[1.0]]], [[-1.0], [1.0]])
    moving = checks_of("at-rest", problem, FedElasticNetDyn(0.125, 30.0), rounds=3, x0=[2.0])
    assert "round 3 moves the model by" in moving["repaired"].reason
    loud = checks_of("descent", problem, FedElasticNetDyn(0.125, 30.0), rounds=3, x0=[2.0])
    assert "the largest slope of a client at the start is 3 and lambda_1 is 0.125" in loud["rate"].reason
    low = checks_of("convergence", problem, FedElasticNetDyn(0.125, 0.5, "true-gradient"), rounds=3)
    assert "lambda_2 = 0.5, beta = 1" in low["repaired"].reason
    above = FedElasticNetDyn(0.125, 2.0, "true-gradient")
    short = checks_of("convergence", problem, above, rounds=1)
    assert "take more rounds" in short["moves"].reason


def test_algorithm_1_on_a_users_line_and_in_the_plane():
    line = problems.Quadratic([[[1.0]], [[3.0]]], [[0.0], [1.0]])
    found = checks_of("algorithm-1-bias", line, FedElasticNetProx(0.1, 1.0), rounds=5)
    assert {n: c.verdict for n, c in found.items()} == {
        "in words": "violated", "in words, the optimum stays": "violated", "limit": "holds", "closed form": "holds",
        "interval": "not applicable", "distance": "holds",
    }  # fmt: skip
    tilted = problems.Quadratic([[[1.0, 0.25], [0.25, 0.5]]] * 2, [[0.0, 0.0], [1.0, 2.0]])
    found = checks_of("algorithm-1-bias", tilted, FedElasticNetProx(0.1, 1.0))
    assert all("algorithm-1-fixed-point" in c.reason for c in found.values())


def test_the_fixed_points_are_where_runs_of_the_library_end():
    from fedtheory import simulate

    problem = problems.random_huber(3, 1, [4, 5, 6], seed=2, condition=1.0, ridge=0.1)
    algorithm = FedElasticNetProx(0.05, 1.0, aggregation="cohort")
    case = data_of(pieces_of(problem), F(0.05), 1, "sign", [3], 5)
    data = {k: case[k] for k in ("losses", "lambda1", "lambda2", "theta", "rounds")} | {"counts": ["1"] * 3}
    view = BUILDERS["standstill"](data)
    run = simulate(problem, algorithm, 400, x0=[3.0])
    assert float(view.limit[0]) == pytest.approx(float(run.x[0, 0]), abs=1e-9)
    assert np.allclose(view.path.astype(float)[:, 0], [float(x) for x in _path(problem, algorithm)], atol=1e-9)


def _path(problem, algorithm):
    from fedtheory import simulate

    run = simulate(problem, algorithm, 5, x0=[3.0], keep_states=True)
    return [s.x[0, 0] for s in run.states]


# --- pieces ---------------------------------------------------------------------------------------
def random_piece(rng) -> Piece:
    def number():
        return F(int(rng.integers(-8, 9)), int(rng.choice([1, 2, 3])))

    ramps = []
    for _ in range(int(rng.integers(0, 4))):
        p = number()
        ramps.append((p, p + abs(number()) * int(rng.integers(0, 2)), abs(number()) + F(1, 2)))
    return Piece(number(), abs(number()) * int(rng.integers(0, 2)), number(), tuple(ramps))


def test_local_problems_of_pieces_are_solved_exactly():
    """At the minimiser 0 is a subgradient; and the slope is the slope of the value."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        p = random_piece(rng)
        anchor, g = (F(int(rng.integers(-8, 9)), 2) for _ in range(2))
        l1, l2 = (F(int(rng.integers(1, 9)), 4) for _ in range(2))
        y = p.minimise(g, l2, anchor, l1)
        low, high = p.slopes(y)
        ends = (-l1, l1) if y == anchor else (l1, l1) if y > anchor else (-l1, -l1)
        assert low + ends[0] <= g - l2 * (y - anchor) <= high + ends[1]
        step = F(1, 10**6)
        assert abs((p.value(y + step) - p.value(y)) / step - high) < F(1, 10**4)
        assert abs((p.value(y) - p.value(y - step)) / step - low) < F(1, 10**4)


def test_the_points_of_a_slope_are_an_interval():
    rng = np.random.default_rng(1)
    grid = [F(n, 4) for n in range(-60, 61)]
    for _ in range(200):
        p, level = random_piece(rng), F(int(rng.integers(-6, 7)), 2)
        found = p.where(level)
        for x in grid:
            inside = found is not None and (found[0] is None or found[0] <= x) and (found[1] is None or x <= found[1])
            assert inside == (p.slopes(x)[0] <= level <= p.slopes(x)[1])


def test_huber_and_absolute_by_hand():
    h = huber(1, 2, 3)  # 3 (x - 1)^2/2 within 2 of 1, slope 6 beyond
    assert [h.slopes(F(x)) for x in (-5, 0, 1, 3, 9)] == [(-6, -6), (-3, -3), (0, 0), (6, 6), (6, 6)]
    assert h.value(F(9)) - h.value(F(1)) == 6 + 36 and h.beta == 3 and h.limits == (-6, 6)
    a = absolute(2, 5)
    assert a.slopes(F(2)) == (-5, 5) and a.beta is None and a.where(F(0)) == (2, 2) and a.where(F(6)) is None
    assert a.value(F(4)) - a.value(F(2)) == 10 == a.value(F(0)) - a.value(F(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"losses": []}, "expected a row a client"),
        ({"losses": [[{"curvature": "-1"}]]}, "curvature = -1: it must be >= 0"),
        ({"losses": [[{"ramps": [["1", "0", "1"]]}]]}, "expected p <= q and G > 0"),
        ({"losses": [[{"hight": "1"}]]}, "expected some of the fields"),
        ({"losses": [[{"slope": "1"}]]}, "its slope runs from 1 to 1: it has no minimiser"),
        ({"lambda1": "0"}, "lambda1 = 0: it must be > 0"),
        ({"rule": "both"}, "use sign, true-gradient"),
        ({"theta": ["0", "0"]}, "theta .2,. does not fit"),
        ({"rounds": 0}, "rounds = 0"),
        ({"speed": "1"}, "unknown fields speed"),
    ],
)
def test_bad_data_are_refused(change, message):
    good = data_of([[quadratic(1)]], 1, 28, "sign", [1], 2)
    with pytest.raises(InvalidInput, match=message):
        BUILDERS["motion"](good | change)


def test_a_silent_start_is_told_apart():
    loud = BUILDERS["motion"](data_of([[quadratic(1)]], 1, 28, "true-gradient", [2], 2))
    silent = BUILDERS["motion"](data_of([[quadratic(1)]], 2, 28, "true-gradient", [2], 2))
    assert silent.has(SILENT) and not loud.has(SILENT)
