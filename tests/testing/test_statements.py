"""A theorem's bound for a run of anyone's is the one of our own runs, and a run that is none of the method's breaks it."""

from __future__ import annotations

import doctest
import re
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from damped import DAMPED

from fedtheory import problems, simulate, theorems
from fedtheory.algorithms import EFL, FedAvg, FedDyn, FedElasticNetDyn, FedMLS
from fedtheory.errors import InvalidInput, MissingCapability, UnknownName
from fedtheory.local import LocalSGD
from fedtheory.participation import Uniform, complete, inactive
from fedtheory.testing import ConvergenceFailure, assert_bound_holds, assert_statement
from fedtheory.theory import GradientSteps, Paper, Quadratics, le, repaired
from fedtheory.theory.judge import check_run, register
from fedtheory.theory.judge.registry import paper_of

THEOREM_E = "fedelasticnet/theorem-e"
PROBLEM = problems.Quadratic(np.array([np.diag(h) for h in ([1, 0.03], [0.03, 1], [0.03, 0.03])]), np.array([[0, 3], [3, 0], [3, 3.0]]))
STAR = PROBLEM.optimum().x


def feddyn(alpha, rounds=60, start=STAR, cohorts=None, stale=False):
    """Somebody's FedDyn on `PROBLEM`, whose local problems are linear equations."""
    n, d = PROBLEM.num_clients, PROBLEM.dim
    x, h, g = np.array(start), np.zeros(d), np.zeros((n, d))
    run = {"x": [x], "h": [h], "stored": [g]}
    for t in range(rounds):
        cohort = np.arange(n) if cohorts is None else cohorts[t]
        sides = np.einsum("nij,nj->ni", PROBLEM.hessians, PROBLEM.minimisers) + g + alpha * x
        moved = np.linalg.solve(PROBLEM.hessians + alpha * np.eye(d), sides[..., None])[cohort, :, 0] - x
        if not stale:
            g = g.copy()
            g[cohort] -= alpha * moved
            h = h - alpha * moved.sum(axis=0) / n
        x = x + moved.mean(axis=0) - h / alpha
        for name, value in (("x", x), ("h", h), ("stored", g)):
            run[name].append(value)
    return {name: np.array(values) for name, values in run.items()}


def failure(*arguments, **options) -> ConvergenceFailure:
    with pytest.raises(ConvergenceFailure) as caught:
        assert_statement(*arguments, **options)
    return caught.value


# --- FedDyn and Algorithm 3 -----------------------------------------------------------------------
def test_somebodys_feddyn_keeps_the_theorem_and_a_stale_control_variate_breaks_it():
    checks = assert_statement(THEOREM_E, feddyn(2.0), PROBLEM, FedDyn(2.0))
    assert checks.verdict == "holds" and checks[0].count == 60 and 0 < checks[0].tightness < 0.1
    found = failure(THEOREM_E, feddyn(2.0, stale=True), PROBLEM, FedDyn(2.0))
    text = str(found)
    assert text.startswith("Statement violated: fedelasticnet/theorem-e [repaired].")
    worst, left, bound, times = map(
        float, re.search(r"worst at T = (\d+): left side ([\d.]+), bound ([\d.]+), ([\d.]+) times the bound", text).groups()
    )
    count, first = map(int, re.search(r"fails at (\d+) of 60 horizons looked at, first at T = (\d+)", text).groups())
    assert 20 < first < worst <= 60 and count == 61 - first
    assert left / bound == pytest.approx(times, abs=1e-3) and times > 1.5
    assert "the theorem is proved" in text and "convex and beta-smooth" in text and found.evidence["kind"] == "statement"


def test_the_bound_is_the_theorems_formula():
    """(||x_0 - x*||^2 + kappa C_0)/(kappa_0 T), with Theorem E's constants for lambda_2 = 2 beta and m = P, written a second time."""
    b, l2, start = Fraction(1), Fraction(2), np.array([1.0, -1.0])
    a, kappa_0 = (2 * b + 3 * l2) / (l2 * l2 * (2 * b + l2)), 4 * l2 / (2 * b + l2) ** 2
    C_0 = (PROBLEM.gradient(STAR) ** 2).sum(axis=-1).mean()
    expected = (((start - STAR) ** 2).sum() + float(a) * C_0) / (float(kappa_0) * np.arange(1, 41))
    bound = theorems.get(THEOREM_E).bound(PROBLEM, FedDyn(2.0), 40, x0=start)
    np.testing.assert_allclose(bound, expected, rtol=1e-12)
    assert len(bound) == 40 and list(bound.horizons) == list(range(1, 41)) and bound.letter == "T"
    assert not bound.in_expectation and bound.established == "holds" and "lambda_2" in " ".join(bound.assumptions)
    assert bound.left in str(bound) and r"\gamma^t)-R(\theta_*)]" in bound.left and "proved" in str(bound)
    some = theorems.get(THEOREM_E).bound(PROBLEM, FedDyn(2.0), 40, x0=start, sampling=Uniform(1))
    assert some.in_expectation and (np.asarray(some) > np.asarray(bound)).all()  # kappa = a m/P


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("rule", "ratio", "name"), [("true-gradient", 30.0, "theorem-e"), ("sign", 30.0, "theorem-3.1")])
def test_it_says_of_our_runs_what_verify_says(rule, ratio, name, size):
    statement, algorithm = theorems.get(f"fedelasticnet/{name}"), FedElasticNetDyn(0.1, ratio, rule)
    seeds = 30 if size < 3 else 1
    run = simulate(PROBLEM, algorithm, 8, x0=[1, -1], sampling=Uniform(size), scenarios=seeds, keep_states=True)
    forms = [f.name for f in statement.forms if size == 3 or not f.exact_only]
    ours = check_run(statement, PROBLEM, algorithm, run, forms=forms)  # the run knows who took part
    if size == 3:
        reference = statement.verify(PROBLEM, algorithm, sampling=Uniform(size), x0=[1, -1], rounds=8, forms=forms)
        for mine, other in zip(ours, reference, strict=True):
            assert (mine.form, mine.verdict, mine.count) == (other.form, other.verdict, other.count)
            ours, theirs = mine.series, other.series
            np.testing.assert_allclose([ours.lhs, ours.rhs], [theirs.lhs, theirs.rhs], rtol=1e-9, atol=1e-12)
    else:
        assert {c.mode for c in ours} == {"statistical"} and {c.verdict for c in ours} <= {"holds", "inconclusive"}
        assert next(c for c in ours if c.form == "repaired").verdict == "holds"


def test_the_left_side_is_what_the_formula_has():
    statement, run = theorems.get("fedelasticnet/theorem-c"), simulate(PROBLEM, FedElasticNetDyn(0.1, 30.0), 6, keep_states=True)
    bound = statement.bound(PROBLEM, FedElasticNetDyn(0.1, 30.0), 6)
    assert bound.left.startswith(r"\mu \mathbb E[R(\tfrac1T\sum_{t<T}\gamma^t)")
    gamma = np.stack([s.x[0] + s.h[0] / 30 for s in run.states[:-1]])
    gap = PROBLEM.objective(gamma.mean(axis=0)) - PROBLEM.optimum().value
    check = check_run(statement, PROBLEM, FedElasticNetDyn(0.1, 30.0), run)[0]
    assert check.series.lhs[-1] == pytest.approx(PROBLEM.constants().mu * gap, rel=1e-6)


def test_what_is_missing_is_named_with_how_to_give_it():
    run, algorithm = feddyn(30.0, rounds=5), FedElasticNetDyn(0.1, 30.0, "true-gradient")
    lacking = "hand the whole states over"
    assert lacking in str(failure(THEOREM_E, run["x"], PROBLEM, FedDyn(30.0)))
    with pytest.raises(InvalidInput, match=r"hand the (whole states|run) over"):
        theorems.get(THEOREM_E).bound(PROBLEM, algorithm, 5)
    text = str(failure(THEOREM_E, {"x": run["x"], "h": run["h"]}, PROBLEM, algorithm))
    assert "Statement inconclusive" in text and lacking in text
    own = failure("fedelasticnet/theorem-3.1", run, PROBLEM, FedElasticNetDyn(0.1, 30.0, "sign"), form="anchor theta_k")
    assert "Statement inconclusive" in str(own) and lacking in str(own)
    gamma = run["x"] + run["h"] / 30
    given = assert_statement(THEOREM_E, {"x": run["x"], "gamma": gamma}, PROBLEM, FedDyn(30.0))
    assert given[0].lhs == pytest.approx(assert_statement(THEOREM_E, run, PROBLEM, FedDyn(30.0))[0].lhs)


def test_runs_from_different_starts_are_judged_each_by_its_own():
    starts = [STAR, STAR + 1, STAR - 4]
    runs = [feddyn(2.0, 10, start) for start in starts]
    together = {name: np.stack([r[name] for r in runs], axis=1) for name in ("x", "h")}
    check = assert_statement(THEOREM_E, together, PROBLEM, FedDyn(2.0))[0]
    each = [assert_statement(THEOREM_E, run, PROBLEM, FedDyn(2.0))[0] for run in runs]
    assert check.count == 30 and check.tightness == pytest.approx(max(c.tightness for c in each), rel=1e-12)
    bound = theorems.get(THEOREM_E).bound(PROBLEM, FedDyn(2.0), run=together)
    assert bound.values.shape == (10, 3)
    for k, start in enumerate(starts):
        np.testing.assert_allclose(bound.values[:, k], theorems.get(THEOREM_E).bound(PROBLEM, FedDyn(2.0), 10, x0=start), rtol=1e-12)
    with pytest.raises(InvalidInput, match="each seed has a bound of its own: assert_statement"):
        assert_bound_holds(np.zeros((10, 3)), bound, confidence=0.9)
    assert_bound_holds(np.zeros((10, 3)), bound)
    problem = problems.random_quadratic(3, 2, seed=0)
    text = str(failure("efl/theorem-1", together["x"], problem, EFL(), sampling=complete(3, 2)))
    assert "the seeds start at different points: the bound is about one x_0" in text


def test_an_expectation_needs_seeds_that_differ():
    rng = np.random.default_rng(0)
    runs = [feddyn(2.0, 20, cohorts=[rng.choice(3, 2, replace=False) for _ in range(20)]) for _ in range(30)]
    together = {name: np.stack([r[name] for r in runs], axis=1) for name in ("x", "h")}
    law = {"sampling": Uniform(2)}
    assert assert_statement(THEOREM_E, together, PROBLEM, FedDyn(2.0), **law)[0].scenarios == 30
    text = str(failure(THEOREM_E, runs[0], PROBLEM, FedDyn(2.0), **law))
    assert "inconclusive" in text and "there is one seed" in text
    copies = {name: np.repeat(values[:, :1], 5, axis=1) for name, values in together.items()}
    assert "all 5 seeds are the same run, number for number" in str(failure(THEOREM_E, copies, PROBLEM, FedDyn(2.0), **law))
    text = str(failure(THEOREM_E, together, PROBLEM, FedDyn(2.0)))
    assert "the 30 seeds start alike and differ" in text and "say who took part" in text
    few = {name: values[:, :2] for name, values in together.items()}
    assert "the confidence interval of the slack contains 0" in str(failure(THEOREM_E, few, PROBLEM, FedDyn(2.0), **law))


@pytest.mark.parametrize(
    ("algorithm", "options", "text"),
    [
        (FedDyn(1.5), {}, "lambda_2/beta > 1.53518 is not met: it is 1.5"),
        (FedElasticNetDyn(0.1, 2.0, "sign"), {}, "not claimed for the sign rule"),
        (EFL(), {}, "is about FedElasticNetDyn, not EFL"),
        (FedElasticNetDyn(0.1, 2.0, "true-gradient", epsilon=0.1), {}, "with epsilon = 0.1"),
    ],
)
def test_an_assumption_that_fails_is_told_with_its_limit(algorithm, options, text):
    found = failure(THEOREM_E, feddyn(2.0, 5), PROBLEM, algorithm, **options)
    assert str(found).startswith("Statement not applicable")
    assert re.search(text, str(found))
    with pytest.raises(InvalidInput, match=text):
        theorems.get(THEOREM_E).bound(PROBLEM, algorithm, 5, **options)


def test_a_form_on_record_as_false_says_so_when_it_fails():
    x = np.array([31.0, 48.0, 120.0])
    problem = problems.Quadratic(np.ones((3, 1, 1)), x[:, None])
    run = simulate(problem, FedElasticNetDyn(0.1, 30.0), 10, x0=[x.mean() + 50], keep_states=True)
    name = "fedelasticnet/theorem-3.1"
    assert_statement(name, run, problem)
    checks = check_run(name, problem, FedElasticNetDyn(0.1, 30.0), run, forms=["no floor", "C_0 not squared"])
    bad = [c.form for c in checks if c.verdict == "violated"]
    for form in bad:
        assert "this form is refuted: a correct run may break it" in str(failure(name, run, problem, form=form))
    stored = theorems.get(name).bound(problem, FedElasticNetDyn(0.1, 30.0), run=run, form="printed")
    assert stored.established == "violated" and ", refuted] bounds" in str(stored)


# --- the other papers -----------------------------------------------------------------------------
def test_efl_needs_the_servers_models_only():
    problem, statement = problems.random_quadratic(4, 3, seed=0), theorems.get("efl/theorem-1")
    law = inactive(4, 3, np.array([0.3, 0.2, 0.1, 0.4]))
    solver = LocalSGD(3, paper_of(statement).step_sizes(EFL(), problem, law, 20))
    run = simulate(problem, EFL(), 20, sampling=law, local_solver=solver, scenarios=40, keep_states=True)
    options = {"sampling": law, "local_solver": solver}
    forms = ["printed", "repaired", "sharpened", "2 max"]
    mine = check_run(statement, problem, EFL(), run.server_models(), forms=forms, **options)
    reference = statement.verify(problem, EFL(), rounds=20, forms=forms, **options)
    for ours, exact in zip(mine, reference, strict=True):
        assert ours.verdict == "holds" and ours.rhs == pytest.approx(exact.rhs, rel=1e-9)
    bound = statement.bound(problem, EFL(), 20, **options)
    assert len(bound) == 20 and bound.in_expectation and bound.letter == "tau"
    distances = ((run.server_models() - problem.optimum().x) ** 2).sum(axis=-1)
    assert_bound_holds(distances[1:], bound, confidence=0.99)
    with pytest.raises(InvalidInput, match="leave out round 0"):
        assert_bound_holds(distances, bound, confidence=0.99)
    with pytest.raises(InvalidInput, match="bounds a mean over cohorts"):
        assert_bound_holds(distances[1:, 0], bound)
    everybody = complete(4, 3)
    assert not statement.bound(problem, EFL(), 5, sampling=everybody).in_expectation
    with pytest.raises(InvalidInput, match="Theorem 1 takes"):
        statement.bound(problem, EFL(), 5, sampling=everybody, local_solver=LocalSGD(3, lambda t: 1e-3))
    with pytest.raises(InvalidInput, match=r"lambda = 0.1"):
        statement.bound(problem, EFL(lam=0.1), 5)
    with pytest.raises(InvalidInput, match="local steps E of the run are not said"):
        statement.bound(problem, EFL(), 5)


def test_a_bound_has_the_step_sizes_that_its_theorem_asks_for():
    problem, law, statement = problems.random_quadratic(3, 2, seed=1), complete(3, 4), theorems.get("efl/theorem-1")
    bound, x = statement.bound(problem, EFL(), 30, sampling=law), [np.zeros(2)]
    for eta in bound.constants["eta"]:  # somebody's local gradient descent
        y = np.tile(x[-1], (3, 1))
        for _ in range(4):
            y = y - eta * problem.gradient_each(y)
        x.append(y.mean(axis=0))
    steps = paper_of(statement).step_sizes(EFL(), problem, law, 30)
    run = simulate(problem, EFL(), 30, sampling=law, local_solver=LocalSGD(4, steps), keep_states=True)
    np.testing.assert_allclose(x, run.server_models()[:, 0], rtol=1e-9, atol=1e-12)
    assert_statement(statement, np.array(x), problem, EFL(), sampling=law)
    assert bound.constants["E"] == 4 and bound.constants["mu"] == pytest.approx(problem.mu_k.min())


def test_fedmls_is_bounded_at_the_rounds_it_was_made_for():
    problem, statement = problems.random_lad(4, 3, seed=1), theorems.get("fedmls/theorem-1")
    algorithm = FedMLS(lam=0.3, D=1.2, rounds=12, radius=2.0, lipschitz=problem.lipschitz_rms(2.0), sigma=0.0)
    run = simulate(problem, algorithm, 12, keep_states=True)
    mine = assert_statement(statement, run.server_models()[:, 0], problem, algorithm)[0]
    reference = statement.verify(problem, algorithm, forms=["repaired"])[0]
    assert (mine.lhs, mine.rhs) == pytest.approx((reference.lhs, reference.rhs)) and mine.where == {"K": 12}
    bound = statement.bound(problem, algorithm)
    assert list(bound.horizons) == [12] and float(np.asarray(bound)[0]) == pytest.approx(reference.rhs)
    with pytest.raises(InvalidInput, match="K = 12, on which"):
        statement.bound(problem, algorithm, 5)
    assert "the server does not project" in str(failure(statement, run.server_models()[:, 0] * 20, problem, algorithm))
    with pytest.raises(InvalidInput, match="its witness refutes"):
        statement.bound(problem, algorithm, form="mixed norms")
    with pytest.raises(InvalidInput, match="the clients' iterates"):
        theorems.get("fedmls/recursion").bound(problem, algorithm)


@pytest.fixture
def authored() -> None:
    """A paper of four statements about gradient descent, known while a test runs."""
    paper = Paper("kit-rates", title="Rates", source="tests")
    local = GradientSteps(1, lr=lambda c: 1 / c.beta)
    made = {"local": local, "problems": Quadratics(clients=(1, 2), dimension=(1, 2)), "over": "run", "rounds": (1, 4)}
    @paper.statement("last", about=FedAvg(), **made)
    def last(q):
        """The end of the run."""
        yield repaired(le(q.gap[-1], q.beta * q.distance_sq[0] / (2 * q.T)), r"F(x_T) - F^* \le b", holds=True)

    @paper.statement("each", about=FedAvg(), **made)
    def each(q):
        """Every round of it."""
        yield repaired(le(q.gap[1:], q.beta * q.distance_sq[:1] / (2 * q.t[1:])), r"F(x_t) - F^* \le b_t", holds=True)

    @paper.statement("on-the-way", about=FedAvg(), **made)
    def way(q):
        """From one round to the next."""
        yield repaired(le(q.distance_sq[1:], q.distance_sq[:-1]), r"\|x_{t+1} - x^*\|^2 \le \|x_t - x^*\|^2", holds=True)

    @paper.statement("drifts", about=FedAvg(), **made)
    def drifts(q):
        """About the clients."""
        yield repaired(le(q.drift, q.gap[:-1] + 1e9), "d", holds=True)

    register(paper)


@pytest.mark.usefixtures("authored")
def test_statements_of_an_authors_own_are_judged_on_models_alone():
    beta, x = PROBLEM.beta_k.max(), [np.array([1.0, -1.0])]
    for _ in range(30):
        x.append(x[-1] - PROBLEM.full_gradient(x[-1]) / beta)
    x = np.array(x)
    gaps = PROBLEM.objective(x) - PROBLEM.optimum().lower_bound
    expected = beta * ((x[0] - STAR) ** 2).sum() / (2 * np.arange(1, 31))
    for name, letter in (("last", "T"), ("each", "round")):
        bound = theorems.get(f"kit-rates/{name}").bound(PROBLEM, None, 30, x0=x[0])
        np.testing.assert_allclose(bound, expected, rtol=1e-12)
        assert bound.letter == letter and list(bound.horizons) == list(range(1, 31)) and bound.left.startswith("F(x_")
        check = assert_statement(f"kit-rates/{name}", x, PROBLEM)[0]
        assert check.tightness == pytest.approx((gaps[1:] / expected)[[0, *range(1, 30)]].max(), rel=1e-9)
        slow = x[0] + (x - x[0]) * 0.01
        assert "violated" in str(failure(f"kit-rates/{name}", slow, PROBLEM))
    assert_statement("kit-rates/on-the-way", x, PROBLEM)
    assert "violated" in str(failure("kit-rates/on-the-way", x[::-1], PROBLEM))
    with pytest.raises(InvalidInput, match="hand the run over"):
        theorems.get("kit-rates/on-the-way").bound(PROBLEM, None, 30)
    assert len(theorems.get("kit-rates/on-the-way").bound(PROBLEM, None, run=x)) == 30
    assert "what the clients of a round did is not known of a run of one's own" in str(failure("kit-rates/drifts", x, PROBLEM))
    with pytest.raises(MissingCapability, match="not known of a run of one's own"):
        theorems.get("kit-rates/drifts").bound(PROBLEM, None, 3)
    seeds = np.stack([x, x], axis=1)
    assert assert_statement("kit-rates/each", seeds, PROBLEM)[0].count == 60


HALVED = DAMPED + """
from fedtheory.theory import *

paper = Paper("kit-damped")


@paper.statement("nearer", about=method(Damped, alpha=among(1, "1/2")), over="run",
                 local=GradientSteps(1, lr=lambda c: 1 / c.beta), problems=Quadratics())
def nearer(q):
    yield printed(le(q.distance_sq[-1], (1 - q.method.alpha * q.eta * q.mu) ** q.T * q.distance_sq[0]))
"""


def test_a_method_of_ones_own_is_known_however_its_file_was_read(tmp_path, monkeypatch):
    """The class of an import and that of the file named by its path are one."""
    (tmp_path / "kit_damped.py").write_text(HALVED)
    (tmp_path / "kit_other.py").write_text(HALVED)
    monkeypatch.chdir(tmp_path), monkeypatch.syspath_prepend(tmp_path)
    mine, other = import_module("kit_damped").Damped, import_module("kit_other").Damped
    problem = problems.Quadratic(np.ones((1, 1, 1)), np.zeros((1, 1)))
    run, name = 0.5 ** np.arange(5)[:, None], "kit_damped.py::nearer"
    assert assert_statement(name, run, problem, mine(0.5))[0].tightness == pytest.approx(0.5)
    assert "violated" in str(failure(name, run, problem, mine(1.0)))
    assert "alpha = 0.7: kit-damped/nearer is about" in str(failure(name, run, problem, mine(0.7)))
    assert "not Damped(alpha=0.5, sign=-1)" in str(failure(name, run, problem, mine(0.5, -1)))
    assert "not applicable" in str(failure(name, run, problem, other(0.5)))
    assert "with its alpha, Damped(alpha=...)" in str(failure(name, run, problem))


# --- what is handed in ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("run", "text"),
    [
        (np.zeros((5, 3)), r"shape \(5, 3\).*d = 2; are these losses, one a client"),
        (np.zeros(5), r"shape \(5,\).*must be the server's models"),
        (np.zeros((1, 2)), "the start and at least one round"),
        ({"h": np.zeros((5, 2))}, "belong under 'x'"),
        ({"x": np.zeros((5, 2)), "h": np.zeros((4, 2))}, r"trajectory\['h'\] has shape \(4, 2\): 5 entries"),
        ("models", "text"),
        ([[1.0, 2.0], [3.0]], "ragged"),
    ],
)
def test_runs_of_other_shapes_are_refused(run, text):
    with pytest.raises(InvalidInput, match=text):
        assert_statement(THEOREM_E, run, PROBLEM, FedDyn(2.0))


def test_memories_of_other_shapes_and_runs_that_diverge_are_failures():
    run = feddyn(2.0, 4)
    assert "(5, 1, 2) is needed" in str(failure(THEOREM_E, {**run, "h": np.zeros((5, 3))}, PROBLEM, FedDyn(2.0)))
    run["x"][3:] = np.nan
    text = str(failure(THEOREM_E, run, PROBLEM, FedDyn(2.0)))
    assert text.startswith("Run diverged.") and "the model of round 3 is not finite" in text
    assert "What to do: lower the step size" in text


def test_statements_that_are_about_something_else_are_refused():
    for name, text in (("fedelasticnet/lemma-b5", "about a round: it bounds nothing"),
                       ("fedelasticnet/drift", "bounds nothing along a run"), ("efl/st-lemma", "bounds nothing along a run"),
                       ("elastic-aggregation/factors", "bounds nothing along a run"),
                       ("fedelasticnet/constants", "compares nothing on a run")):  # fmt: skip
        with pytest.raises(InvalidInput, match=text):
            theorems.get(name).bound(PROBLEM, FedDyn(2.0), 5)
    with pytest.raises(UnknownName, match="form of"):
        theorems.get(THEOREM_E).bound(PROBLEM, FedDyn(2.0), 5, form="repared")
    with pytest.raises(InvalidInput, match="rounds"):
        theorems.get(THEOREM_E).bound(PROBLEM, FedDyn(2.0))
    with pytest.raises(InvalidInput, match="leave one of them out"):
        theorems.get(THEOREM_E).bound(PROBLEM, FedDyn(2.0), 5, run=feddyn(2.0, 4))


def test_the_examples_of_the_docstrings_run():
    for name in ("rates", "bounds", "reaching", "statements"):
        module = import_module(f"fedtheory.testing.{name}")
        found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
        assert found.failed == 0 and found.attempted > 0, name
