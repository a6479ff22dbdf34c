"""Statements on Elastic Aggregation: verdicts, mutants, witnesses, and views against the method."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from cases import each

from fedtheory import Uniform, problems, simulate, theorems
from fedtheory.algorithms import ElasticAggregation, FedAvg
from fedtheory.clients.sensitivity import client_sensitivity
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps
from fedtheory.theorems.elastic_aggregation.clients import FIXED, ONE
from fedtheory.theorems.elastic_aggregation.cohorts import ALL, SMOOTH
from fedtheory.theory.judge.case import Plan
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.judge.replay import builtin_witnesses, replay
from fedtheory.theory.judge.search import Tape
from fedtheory.theory.rounds.linear_algebra import contracts, determinant, lyapunov, semidefinite
from paper_figures.elastic_aggregation import sampled_fixed_point

STATEMENTS = theorems.all_statements("elastic-aggregation/")
SETTING = setting_of("elastic-aggregation/sign")
BUILDERS = SETTING.builders
FORMS = [(s, f) for s in STATEMENTS if s.kind != "claim" for f in s.forms]
SHIPPED = builtin_witnesses("elastic-aggregation")


def name(pair):
    return f"{pair[0].id.split('/')[1]} {pair[1].name}"


@pytest.fixture(scope="module")
def views():
    return [(i, i.view()) for i in SETTING.instances(Plan(seed=11))]


# --- verdicts -------------------------------------------------------------------------------------
@pytest.mark.parametrize("pair", FORMS, ids=name)
def test_every_verdict_is_the_one_on_record(views, pair):
    """On enough instances; all of them in fractions, so that a violation is none of rounding."""
    s, f = pair
    checks = [judge_view(s, f, v, i.name) for i, v in views if i.kind == f.kind and v.applies(f) is None]
    assert len(checks) >= 10 and {c.mode for c in checks} == {"rational"}
    assert ("violated" if any(c.verdict == "violated" for c in checks) else "holds") == f.established["any"]


@pytest.mark.parametrize("pair", [p for p in FORMS if p[1].established["any"] == "holds"], ids=name)
def test_every_mutant_is_rejected(views, pair):
    s, f = pair
    assert f.mutants
    for mutant in f.mutants:
        checks = [
            judge_view(s, f, v, sides=mutant.sides) for i, v in views if i.kind == f.kind and v.applies(f) is None
        ]
        assert any(c.verdict == "violated" for c in checks), mutant.name


@pytest.mark.parametrize(
    ("statement", "form"),
    [
        ("sampled-fixed-point", "distance"),
        ("sign", "growth"),
        ("stability", "each coordinate"),
        ("moving-average", "distance"),
        ("sampled-attraction", "one parameter"),
    ],
)
def test_bounds_that_are_said_to_be_attained_are(views, statement, form):
    s = theorems.get(f"elastic-aggregation/{statement}")
    f = s.form(form)
    checks = [judge_view(s, f, v) for i, v in views if i.kind == f.kind and v.applies(f) is None]
    assert max(c.tightness for c in checks if np.isfinite(c.tightness)) == 1.0


def test_an_instance_is_judged_on_every_form_of_its_kind():
    instance = SETTING.random_instance("aggregation", np.random.default_rng(0))
    checks = SETTING.check(instance, STATEMENTS)
    assert {(c.statement, c.form) for c in checks} == {(s.id, f.name) for s, f in FORMS if f.kind == "aggregation"}
    with pytest.raises(InvalidInput, match="kind = 'aggregate'"):
        SETTING.random_instance("aggregate", np.random.default_rng(0))


# --- witnesses ------------------------------------------------------------------------------------
@each("witness", SHIPPED)
def test_shipped_witnesses_replay(witness):
    check = replay(witness)
    assert (check.verdict, check.mode) == ("violated", "rational")
    with pytest.raises(InvalidInput, match="changed after"):
        replay(replace(witness, lhs=str(Fraction(witness.lhs) + 1)))


def test_every_form_that_fails_has_a_witness():
    have = {(w.statement, w.form) for w in SHIPPED}
    assert have == {(s.id, f.name) for s, f in FORMS if f.established["any"] == "violated"}


@each("witness", SHIPPED)
def test_what_holds_holds_on_the_witnesses(witness):
    view = BUILDERS[witness.kind](witness.data)
    for s, f in FORMS:
        if f.kind == witness.kind and f.established["any"] == "holds" and view.applies(f) is None:
            assert judge_view(s, f, view).verdict == "holds", (s.id, f.name)


@pytest.mark.parametrize(("form", "found"), [("one local step", True), ("repaired", False)])
def test_the_search_finds_what_is_there_and_only_that(form, found):
    statement = theorems.get("elastic-aggregation/sampled-fixed-point")
    result = SETTING.search(statement, statement.form(form), "any", 120, 0)
    assert (result.witness is not None) == found
    if found:
        assert replay(result.witness).verdict == "violated"


@pytest.mark.parametrize("kind", SETTING.kinds)
def test_instances_can_be_drawn_from_a_tape(kind):
    first, again = (SETTING.random_instance(kind, Tape(np.random.default_rng(3).random(64), 3)) for _ in range(2))
    assert first.to_json() == again.to_json() and first.family.endswith(kind)


def test_data_that_are_not_an_instance_are_refused():
    good = next(w for w in SHIPPED if w.kind == "sampled").data
    for change, words in (
        ({"P": 3}, "P clients of N >= 2"),
        ({"tau": "0"}, "tau > 0"),
        ({"lr": "5"}, "no more than 1/L"),
        ({"H": [["1", "-1"], ["1", "1"]]}, "numbers >= 0"),
        ({"H": [[["1", "2"], ["2", "1"]]] * 2}, r"H\[0\] = .* is not positive semidefinite"),
        ({"S": [["1", "1"], [["1", "2"], ["2", "3"]]]}, r"S\[1\] = .* is not positive semidefinite"),
        ({"S": [["1", "1"], [["0", "1"], ["1", "3"]]]}, r"S\[1\] = .* is not positive semidefinite"),
        ({"H": [["0", "1"], ["0", "1"]]}, "singular"),
    ):
        with pytest.raises(InvalidInput, match=words):
            BUILDERS["sampled"]({**good, **change})
    with pytest.raises(InvalidInput, match=r"mu = 1.* must be < 1"):
        BUILDERS["average"]({"weights": ["1"], "batches": [[["1"]]], "mu": "1", "tau": "1"})


def test_the_gram_matrix_of_one_sample_is_an_instance():
    """a = (1, 2): S = a a', and a client that trains on a alone takes steps of up to 1/|a|^2 = 1/5."""
    sample = [["1", "2"], ["2", "4"]]
    alone = {"counts": ["1", "1"], "H": [["1", "1"], sample], "S": [sample, sample], "c": [["0", "0"], ["1", "1"]], "theta": ["1", "1"]}
    numbers = {"tau": "1/2", "eta": "1", "lr": "1/5", "E": 1}
    view = BUILDERS["aggregation"]({**alone, **numbers})
    assert list(view.omega(view.theta)) == [6, 12] and list(view.zeta(view.theta)) == [1, Fraction(1, 2)]
    with pytest.raises(InvalidInput, match=r"lr = 51/250: it must be no more than 1/L.* H\[1\]"):
        BUILDERS["aggregation"]({**alone, **numbers, "lr": "51/250"})


def test_singular_hessians_are_an_instance():
    """One sample a client, two parameters: what no client sees stays free, and V does not see it either."""
    sample = [["1", "2"], ["2", "4"]]
    data = {"counts": ["1", "2"], "H": [sample, sample], "S": [sample, ["1", "0"]], "c": [["1", "0"], ["0", "1"]], "theta": ["1", "1"]}
    view = BUILDERS["aggregation"]({**data, "tau": "1/2", "eta": "1", "lr": "1/5", "E": 2})
    free = np.array([Fraction(2), Fraction(-1)])  # H free = 0
    assert (view.delta(view.fedavg) == 0).all() and (view.delta(view.fedavg + free) == 0).all()
    assert view.V(view.theta) == view.V(view.theta + free) and not view.has(FIXED)
    with pytest.raises(InvalidInput, match=r"H\[1\] = .* is singular, .* put a client last"):
        BUILDERS["sampled"]({**data, "c": [["1", "0"]], "tau": "1/2", "lr": "1/5", "E": 2, "P": 1})


def test_the_battery_has_gram_matrices_of_every_kind(views):
    """Full ones, singular ones, Hessians that are singular for every client, several local steps and parameters."""
    seen = set()
    for i, v in views:
        if i.kind in ("aggregation", "sampled") and len(v.theta) > 1 and v.E > 1:
            full = any(S[0, 1] != 0 and 4 * S[0, 1] ** 2 > S[0, 0] ** 2 for S in v.S)  # not diagonally dominant
            seen |= {(i.kind, "full")} if full else set()
            seen |= {(i.kind, "singular S")} if any(determinant(S) == 0 and (S != 0).any() for S in v.S) else set()
            seen |= {(i.kind, "singular H")} if any(determinant(H) == 0 for H in v.H) else set()
            seen |= {(i.kind, "all singular")} if i.kind == "aggregation" and determinant(v.mean) == 0 else set()
    assert len(seen) == 7, seen


def test_spectral_radii_are_judged_as_eigenvalues_are():
    """Against floating point, for one map and for the mean of several; a rotation has radius 1, and no solution."""
    rng, seen = np.random.default_rng(2), set()
    for n in range(60):
        d, count = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        maps = [rng.integers(-4, 5, (d, d)) * Fraction(1, 5) for _ in range(count)]
        floats = [m.astype(float) for m in maps]
        radius = np.abs(np.linalg.eigvals(sum(np.kron(m, m) for m in floats) / count)).max()
        assert contracts(maps) == (radius < 1), n
        seen.add((count > 1, bool(radius < 1)))
    assert len(seen) == 4
    turn = np.array([[0, -1], [1, 0]]) * Fraction(1)
    assert not contracts([turn]) and lyapunov(lambda X: X - turn.T @ X @ turn, 2) is None


def test_semidefinite_matrices_are_told_from_the_others():
    """Against eigenvalues in floating point, where they are not near 0, and against factors of every rank."""
    rng, seen = np.random.default_rng(0), set()
    for n in range(300):
        d, rank = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        factor = rng.integers(-3, 4, (d, rank))
        gram = factor @ factor.T
        exact = gram * Fraction(1)
        assert semidefinite(exact)
        exact[-1, -1] -= Fraction(1, 7)
        lowest = np.linalg.eigvalsh(exact.astype(float))[0]
        if abs(lowest) > 1e-6:
            assert semidefinite(exact) == (lowest > 0), n
            seen.add(lowest > 0)
    assert seen == {True, False}


@pytest.mark.parametrize(("zero", "zeta"), [("one", 1), ("boost", 3)])
def test_the_rate_where_a_layer_is_dead(zero, zeta):
    """tau = 2, eta = 1/4, one client with m = 1 at distance 1, no output: V goes from 1/2 to (1 - zeta/4)^2/2."""
    witness = next(w for w in SHIPPED if w.form == "rate, always")
    s, view = theorems.get("elastic-aggregation/stability"), BUILDERS["aggregation"](witness.data)
    after = (1 - Fraction(zeta, 4)) ** 2 / 2
    line = problems.LeastSquares([np.array([[1.0]])], [np.array([1.0])])
    run = simulate(line, ElasticAggregation(2.0, server_lr=0.25, zero=zero), 1, np.zeros(1), local_solver=GradientSteps(1, 1.0))
    assert (1 - run.x[0, 0]) ** 2 / 2 == float(after)
    fails, holds = s.form("rate, always").sides(view), s.form("rate, dead layers too").sides(view)
    assert (fails.rhs, holds.rhs) == (Fraction(3, 16), Fraction(11, 32))
    assert (after <= fails.rhs) == (zero == "boost") and after <= holds.rhs
    if zero == "one":
        assert fails.lhs == holds.lhs == after


def test_both_coordinates_end_farther_where_clients_are_sensitive_where_they_are_steep():
    view = BUILDERS["sampled"](next(w for w in SHIPPED if w.form == "never farther").data)
    assert view.E > 1 and len(view.theta) == 2
    assert list(view.c[1]) == [Fraction(17, 9), Fraction(17, 8)]
    assert list(view.star) == [Fraction(17, 27), Fraction(17, 12)] and list(view.fedavg) == [Fraction(17, 21), Fraction(17, 14)]
    farther, biased = abs(view.theta - view.star), abs(view.fedavg - view.star)
    assert list(farther) == [Fraction(10, 27), Fraction(5, 12)] and (farther > biased).all() and (biased > 0).all()


def test_a_zero_of_the_mean_motion_can_repel():
    """The witness's first coordinate has the zeros 0 (the optimum), 1 and 5/2: the method's mean motion leaves 1 on either side."""
    witness = next(w for w in SHIPPED if w.form == "always")
    view = BUILDERS["sampled"](witness.data)
    assert list(view.star) == [0, 1] and list(view.c[1]) == [5, 1]
    assert view.J.tolist() == [[Fraction(1, 4), Fraction(-3, 2)], [0, Fraction(-1, 2)]]
    centres = np.array([[-5.0, 1.0], [5.0, 1.0]])
    clients, probe = (
        problems.LeastSquares(rows(grams), [f @ c for f, c in zip(rows(grams), centres, strict=True)])
        for grams in (np.ones((2, 2)), np.array([[1.0, 2.0], [0.0, 1.0]]))
    )
    clients.held_out = probe
    for start, end in ((0.99, 0.0), (1.01, 2.5), (1.0, 1.0)):
        x = np.array([start, 1.0])
        for _ in range(80 if start != 1 else 1):
            run = simulate(clients, ElasticAggregation(0.5), 1, x, Uniform(1), 16, 0, GradientSteps(1, 1.0))
            ends = np.unique(run.x.round(9), axis=0)
            assert len(ends) == 2  # one for each client
            x = ends.mean(axis=0)
        np.testing.assert_allclose(x, [end, 1.0], atol=1e-3)


# --- the views against the method -----------------------------------------------------------------
# Three clients on coordinate samples: Gram matrices H_k = diag(h)/n are those of the rows sqrt(n h_i) e_i.
H = np.array([[1.0, 0.25], [0.5, 1.0], [0.25, 0.5]])
C = np.array([[1.0, 2.0], [-1.0, 0.5], [2.0, -1.0]])
S = np.array([[1.0, 1.0], [0.25, 2.0], [0.5, 0.25]])


def rows(gram):
    return [np.diag(np.sqrt(2 * g)) for g in gram]


def problem():
    """Least squares with Hessians H and minimisers C, whose held-out samples have Gram matrices S."""
    out, probe = (problems.LeastSquares(rows(g), [f @ c for f, c in zip(rows(g), C, strict=True)]) for g in (H, S))
    out.held_out = probe
    return out


def data(**more):
    text = {k: [[str(Fraction(v)) for v in r] for r in a] for k, a in (("H", H), ("S", S), ("c", C))}
    return {
        **text,
        "counts": ["1"] * 3,
        "theta": ["3/2", "-2"],
        "tau": "1/2",
        "eta": "3/4",
        "lr": "1/2",
        "E": 3,
        **more,
    }


START = np.array([1.5, -2.0])
LOCAL = GradientSteps(3, 0.5)


def test_a_round_is_the_views():
    view = BUILDERS["aggregation"](data())
    for sign, word in ((1, "repaired"), (-1, "printed")):
        run = simulate(problem(), ElasticAggregation(0.5, server_lr=0.75, sign=word), 1, START, local_solver=LOCAL)
        np.testing.assert_allclose(run.x[0], view.step(view.theta, sign).astype(float), rtol=1e-13)
    omega = client_sensitivity(problem().held_out, np.broadcast_to(START, (3, 1, 2)))[:, 0]
    np.testing.assert_allclose(omega, view.sensitivities(view.theta).astype(float), rtol=1e-13)
    np.testing.assert_allclose(problem().optimum().x, view.star.astype(float), rtol=1e-9)


def test_the_run_ends_where_the_view_says_and_the_printed_sign_nowhere():
    view = BUILDERS["aggregation"](data())
    end = simulate(problem(), ElasticAggregation(0.5), 300, START, local_solver=LOCAL).x[0]
    naive = simulate(problem(), FedAvg(), 300, START, local_solver=LOCAL).x[0]
    np.testing.assert_allclose(end, view.fedavg.astype(float), rtol=1e-10)
    np.testing.assert_allclose(naive, end, rtol=1e-10)
    assert np.linalg.norm(end - problem().optimum().x) > 0.02
    away = simulate(problem(), ElasticAggregation(0.5, sign="printed"), 60, START, local_solver=LOCAL).x[0]
    assert np.linalg.norm(away) > 1e6


def test_the_rate_near_the_fixed_point_is_the_views_factor():
    view = BUILDERS["aggregation"](data(eta="1"))
    start = view.fedavg.astype(float) + 1e-3
    run = simulate(problem(), ElasticAggregation(0.5), 60, start, local_solver=LOCAL, keep_states=True)
    distance = np.abs(run.server_models()[:, 0] - view.fedavg.astype(float)).max(axis=1)
    factor = view.factor(view.zeta(view.fedavg))
    assert abs((distance[60] / distance[30]) ** (1 / 30) - float(factor)) < 1e-3


def mean_field(theta, P, centres=C, tau=0.5, gram=S):
    """E[zeta * Delta] at theta over all cohorts of P, by the definitions in floating point."""
    M = 1 - (1 - 0.5 * H) ** 3
    total, count = 0.0, 0
    for members in combinations(range(3), P):
        k = list(members)
        omega = np.abs(2 * gram[k] * theta).mean(axis=0)
        total = total + (1 + tau - omega / omega.max()) * (-M[k] * (theta - centres[k])).mean(axis=0)
        count += 1
    return total / count


def test_with_cohorts_the_run_ends_at_the_mean_fields_zero_not_at_fedavgs():
    """A small server step: the mean of many runs is within O(eta) and its standard error of the zero, and far from FedAvg's."""
    lr, scenarios, P = 0.02, 400, 2
    zero = START
    for _ in range(400):
        zero = zero + 0.5 * mean_field(zero, P)
    assert np.abs(mean_field(zero, P)).max() < 1e-12
    run = simulate(problem(), ElasticAggregation(0.5, server_lr=lr), 400, zero, Uniform(P), scenarios, 5, LOCAL)
    error = run.x.std(axis=0) / np.sqrt(scenarios)
    naive = BUILDERS["aggregation"](data()).fedavg.astype(float)
    assert (np.abs(run.x.mean(axis=0) - zero) < 4 * error + lr).all()
    assert np.abs(run.x.mean(axis=0) - naive).max() > 10 * error.max() + 4 * lr
    assert np.linalg.norm(zero - problem().optimum().x) > 3 * np.linalg.norm(
        naive - problem().optimum().x
    )  # farther here


def test_the_sampled_view_is_the_mean_field():
    """A client's minimiser is found so that theta is the zero; the drift there is the enumerated one."""
    for P in (1, 2):
        view = BUILDERS["sampled"](data(c=[[str(Fraction(v)) for v in r] for r in C[:2]], P=P))
        assert (view.drift == 0).all() and any(view.mean_update(view.theta) != 0)
        np.testing.assert_allclose(mean_field(START, P, view.c.astype(float)), 0, atol=1e-14)


@pytest.mark.parametrize("P", [1, 2, 3])
def test_the_derivative_of_the_mean_field_is_the_views(P):
    view = BUILDERS["sampled"](data(c=[[str(Fraction(v)) for v in r] for r in C[:2]], P=P))
    centres, by = view.c.astype(float), 1e-6
    slopes = [(mean_field(START + e, P, centres) - mean_field(START - e, P, centres)) / (2 * by) for e in by * np.eye(2)]
    np.testing.assert_allclose(np.stack(slopes, axis=1), view.J.astype(float), atol=1e-9)


def test_some_zeros_repel_and_most_do_not(views):
    smooth = [v for i, v in views if i.kind == "sampled" and v.has(SMOOTH)]
    repel = [v for v in smooth if determinant(-v.J) < 0]
    assert 0 < len(repel) < len(smooth) / 5
    for v in repel:
        assert np.linalg.eigvals(v.J.astype(float)).real.max() > 0
        assert not v.has(ONE) and not v.has(ALL)


# --- the figure -----------------------------------------------------------------------------------
@pytest.mark.parametrize("P", [1, 2])
def test_the_figures_zeros_are_the_sampled_views(P):
    view = BUILDERS["sampled"](data(c=[[str(Fraction(v)) for v in r] for r in C[:2]], P=P))
    h = H[None]
    m = 1 - (1 - 0.5 * h) ** 3
    drift = [sampled_fixed_point._factors(S[None], START[None], list(k), 0.5) for k in combinations(range(3), P)]
    np.testing.assert_allclose([z[0] for z in drift], view.cohort_zeta.astype(float), rtol=1e-13)
    same = BUILDERS["sampled"](data(c=[[str(Fraction(v)) for v in r] for r in C[:2]], P=P, S=data()["H"]))
    theta, residual = sampled_fixed_point.mean_field_zero(h, m, same.c.astype(float)[None], P, 0.5, 2000)
    assert residual < 1e-12
    np.testing.assert_allclose(mean_field(theta[0], P, same.c.astype(float), gram=H), 0, atol=1e-11)
