"""True statements that were once refuted, false ones that once passed, and files that were once believed."""

from dataclasses import replace
from fractions import Fraction as Q

import numpy as np
import pytest
from statements_at_hand import descent, instance, sentence

from fedtheory.algorithms import FedProx, Scaffold
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.problems import Quadratic, random_quadratic
from fedtheory.theory import (
    Bernoulli,
    GradientSteps,
    Minimise,
    Quadratics,
    SmoothConvex,
    Uniform,
    eq,
    form,
    le,
    printed,
    repaired,
    replay,
    study,
    verify,
)
from fedtheory.theory.judge.check import Check
from fedtheory.theory.rounds.judging import check
from fedtheory.theory.rounds.losses import Unbounded
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.rational_clients import NotInFractions
from fedtheory.theory.rounds.vector_proofs import best_constant, proved
from fedtheory.theory.studies.counterexamples import instance_of, prove
from fedtheory.theory.studies.findings import StatementStudy
from fedtheory.theory.studies.necessity import assumption_need
from fedtheory.theory.studies.search import Search


def test_a_root_is_no_power_in_fractions():
    """gap^(1/2) is no gap^0."""

    def root(q):
        """A power."""
        yield printed(le(2 * q.power(q.gap_next, Q(1, 2)), 2 * q.power(q.gap, Q(1, 2))))

    view = MethodSetting.of(sentence(root)).view(instance([[1]], [[0]], [3]))
    with pytest.raises(NotInFractions, match="the power 1/2 is not whole"):
        sentence(root).on(view)
    assert list(view.power(np.array([Q(2), Q(3)], dtype=object), Q(2))) == [4, 9]


def test_rounding_below_a_root_refutes_nothing():
    """One step of 1/beta ends at the minimiser; of a gap below 0 by rounding there is no root."""

    def root(q):
        """Descent, under the root."""
        yield printed(le(q.sqrt(abs(q.gap_next)), q.sqrt(q.gap)))
        yield form("bare", le(q.sqrt(q.gap_next), q.sqrt(q.gap)))

    statement = sentence(root, problems=Quadratics(2, 1), local=GradientSteps(1, lambda c: 1 / c.beta), rounds=0)
    view = MethodSetting.of(statement).view(instance([["1/11"]] * 2, [["-31/14"], ["5/3"]], [0]), exact=False)
    found = check(statement, view)
    assert [c.verdict for c in found] == ["holds", "not applicable"] and "rounding decides" in found[1].reason


@pytest.mark.parametrize("lr", [0.1, lambda c: 0.1])
def test_a_tenth_is_a_tenth(lr):
    def step(q):
        """x - grad F/10."""
        yield printed(eq(q.x_next, q.x - q.gradient * q.constant("tenth", 0.1), vector=True))
        yield form("literal", eq(q.x_next, q.x - q.gradient / 10, vector=True))

    view = MethodSetting.of(sentence(step, local=GradientSteps(1, lr))).view(instance([[3]], [[0]], [1]))
    assert view.eta == Q(1, 10) and {r.verdict for r in check(sentence(step), view)} == {"holds"}
    about = sentence(lambda q: [printed(le(q.method.mu, q.constant("c", 0.1)))], about=FedProx(0.1), local=Minimise())
    assert MethodSetting.of(about).view(instance([[3]], [[0]], [1])).method.mu == Q(1, 10)


def test_a_step_size_that_was_rounded_proves_nothing():
    """2/beta in floats may be above 2/beta."""
    rounded = sentence(lambda q: [printed(le(q.F_next, q.F))], local=GradientSteps(1, lambda c: 2.0 / c.beta))
    with pytest.raises(NotInFractions, match="computed in floats"):
        MethodSetting.of(rounded).view(instance([[3]], [[0]], [1]))


def test_chances_are_what_they_print_as():
    statement = sentence(lambda q: [printed(le(q.F_next, q.F))], sampling=Bernoulli(0.1), problems=Quadratics(2, 1))
    view = MethodSetting.of(statement).view(instance([[1], [1]], [[0], [1]], [1]))
    assert sorted(view.probability) == [Q(1, 19), Q(9, 19), Q(9, 19)]


def test_means_are_over_cohorts_or_refused():
    """Of one round's models the second axis is no scenario."""

    def mean(q):
        """Means."""
        assert q.mean(q.gap[-1]) == q.mean(q.gap)[-1]
        yield printed(le(q.mean(q.gap[-1]) ** 2, q.mean(q.gap[-1] ** 2)))
        yield form("variance", le(q.sq(q.x[-1] - q.mean(q.x[-1])), 0 * q.gap[-1]))

    statement = sentence(mean, over="run", sampling=Uniform(1), problems=Quadratics(3, 1))
    with pytest.raises(InvalidInput, match=r"take q.x\[-1:\]"):
        statement.on(MethodSetting.of(statement).view(instance([[1]] * 3, [[0], [1], [2]], [5], rounds=1, cohort_size=1)))


def test_a_start_without_its_axis_is_refused():
    """Of q.F_next[0] no expectation could be taken."""
    one = sentence(lambda q: [printed(le(q.F_next[0], q.F[0]))], sampling=Uniform(1), problems=Quadratics(3, 1))
    view = MethodSetting.of(one).view(instance([[1]] * 3, [[0], [1], [2]], [5], cohort_size=1))
    with pytest.raises(InvalidInput, match=r"shape \(3,\), and must be .* the axes of q\.F_next: starts by cohorts, here \(1, 3\)"):
        one.on(view)
    with pytest.raises(InvalidInput, match=r"take q\.F_next, not"):
        view.mean(view.F_next[0])


def test_a_maximiser_is_no_minimiser():
    """-x^2/2 from 1 has no minimum, and where nothing depends on y the model stays."""
    statement = sentence(lambda q: [printed(le(q.F_next, q.F))], local=Minimise())
    variant = dict(MethodSetting.of(statement).variants())["convex losses"]
    with pytest.raises(Unbounded, match="falls for ever"):
        variant.view(instance([[-1]], [[0]], [1]))
    assert variant.view(instance([[1], [0]], [[0], [7]], [3])).client_models[0, 0].tolist() == [[0], [3]]


def test_only_states_that_the_law_reaches():
    """With one client a round, one control variate at most has moved after one."""

    def moved(q):
        """Control variates that are not 0."""
        yield printed(le((abs(q.state.c_k).sum(axis=-1) > 1e-12).sum(axis=-1) + 0 * q.F, 1 + 0 * q.F))

    statement = sentence(
        moved, about=Scaffold(), local=GradientSteps(1, lambda c: 1 / (4 * c.beta)), sampling=Uniform(1), rounds=1,
        problems=Quadratics((2, 3), 1),
    )  # fmt: skip
    assert verify(statement, random_quadratic(3, 2, seed=1))[0].verdict == "not applicable"  # two dimensions
    wide = replace(statement, problems=Quadratics((2, 3), (1, 2)))
    assert verify(wide, random_quadratic(3, 2, seed=1))[0].verdict == "holds"
    made = instance([[1], [1]], [[0], [1]], [1], cohort_size=1, rounds=1)
    setting = MethodSetting.of(statement)
    for before in ((), ((0, 1),), ((0,), (0,))):
        assert "not 1 cohorts of Uniform(size=1)" in setting.why_not(made.changed(before=before))
    assert setting.why_not(made.changed(before=((0,),))) is None


def test_a_statement_is_verified_under_its_own_law_and_class():
    step = sentence(lambda q: [printed(eq(q.x_next, q.x - q.eta * q.gradient, vector=True))], problems=Quadratics((1, 4), (1, 3)))
    problem = random_quadratic(3, 2, seed=1)
    assert verify(step, problem, sampling=Uniform(3))[0].verdict == "holds"
    assert "is about Full" in verify(step, problem, sampling=Uniform(1))[0].reason
    same = replace(step, problems=Quadratics((1, 4), (1, 3), identical=True))
    assert "property: identical" in verify(same, problem)[0].reason
    assert verify(same, random_quadratic(3, 2, heterogeneity=0, shared_hessian=True, seed=1))[0].verdict == "holds"
    assert "3 clients" in verify(replace(step, problems=Quadratics(1, (1, 3))), problem)[0].reason


def test_a_violation_that_breaks_no_assumption_is_one_of_the_statement():
    setting = MethodSetting.of(descent()["lemma"])
    for words, variant in setting.variants():
        [need] = assumption_need(Search(setting), words, variant, ["printed"], 30, 0)
        assert need.example is not None
        if setting.as_own(instance_of(need.example)) is not None and not need.needed:
            assert need.example.without == "" and "as it stands" in str(need)
    stands = [assumption_need(Search(setting), w, v, ["printed"], 30, 0)[0] for w, v in setting.variants()]
    assert any(not n.needed for n in stands)


def test_a_constant_has_a_direction_in_each_form():
    def both(q):
        """Descent, and no more than that."""
        a = q.constant("a", 1)
        yield printed(le(q.F_next, q.F, -a * q.gradient_sq / (2 * q.beta)))
        yield form("most", le(q.F, q.F_next, a * q.gradient_sq / q.beta))

    search = Search(MethodSetting.of(sentence(both, local=GradientSteps(1, lambda c: 1 / c.beta)))).run(40)
    assert search.directions == {("printed", "a"): 1, ("most", "a"): -1}


def test_what_stands_beside_the_data_is_judged_too():
    paper = descent()
    example = prove(MethodSetting.of(paper["lemma"]), "printed", instance([[1], [3]], [[0], [4]], [1]))
    wrong = {"kind": "other", "rule": "b", "constants": {"nonsense": "5"}, "lhs": "", "without": "convex losses"}
    for key, value in wrong.items():
        with pytest.raises(InvalidInput):
            replay(replace(example, **{key: value}), paper)
    for key, value in {"h": [[0.1]], "rounds": 0.5, "start": [1.0]}.items():
        with pytest.raises(InvalidInput):
            replay(replace(example, data={**example.data, key: value}), paper)


DROPS = {"a division by 0": lambda q: q.gradient_sq / (2 * q.mu), "a quotient of counts": lambda q: 1 / (q.N - 1) * q.gradient_sq,
         "no minimiser": lambda q: q.gap, "no Lipschitz constant": lambda q: q.G_sq, "a function": lambda q: np.exp(q.gradient_sq),
         "a root": lambda q: q.sqrt(2 + q.gradient_sq)}  # fmt: skip


@pytest.mark.parametrize("what", DROPS)
@pytest.mark.parametrize("before", [True, False])
def test_what_one_form_cannot_is_nothing_to_another(what, before):
    """One step of 1 on f = -x^2/2 from 1 doubles the gradient, and so it does without the other form."""

    def both(q):
        """The gradient does not grow."""
        first = printed(le(q.gradient_next_sq, q.gradient_sq), r"a \le b")
        if not before:
            yield first
        yield form("other", le(DROPS[what](q), 2 * DROPS[what](q)), r"c \le 2c")
        if before:
            yield first

    setting = MethodSetting.of(sentence(both, problems=SmoothConvex(1, 1), local=GradientSteps(1, lambda c: 1 / c.beta), rounds=0))
    assert list(setting.of_statement.forms) == (["other", "printed"] if before else ["printed", "other"])
    variant, made = dict(setting.variants())["convex losses"], instance([[-1]], [[0]], [1])
    exact = {c.form: c for c in check(setting.of_statement, variant.view(made))}
    floats = {c.form: c for c in check(setting.of_statement, variant.view(made, exact=False))}
    assert exact["printed"].verdict == floats["printed"].verdict == "violated" and exact["printed"].mode == "rational"
    assert prove(variant, "printed", made).sides == "lhs 4 > rhs 1"
    if what in ("a function", "a root"):
        assert "other" not in exact and floats["other"].verdict == "holds"
    else:
        assert {c["other"].verdict for c in (exact, floats)} == {"not applicable"} and exact["other"].reason


def test_a_branch_on_what_does_not_exist_ends_what_comes_later():
    """Forms from the branch on do not apply, and say why."""

    def branch(q):
        """A branch."""
        yield form("before", le(q.gradient_next_sq, q.gradient_sq))
        yield printed(le(q.gradient_sq, 2 * q.gradient_sq if q.gap.max() >= 0 else q.gradient_sq))
        yield form("after", le(q.gradient_next_sq, q.gradient_sq))

    setting = MethodSetting.of(sentence(branch, problems=SmoothConvex(1, 1), local=GradientSteps(1, lambda c: 1 / c.beta)))
    found = check(setting.of_statement, dict(setting.variants())["convex losses"].view(instance([[-1]], [[0]], [1])))
    assert [c.verdict for c in found] == ["violated", "not applicable", "not applicable"]
    assert all("not convex" in c.reason for c in found[1:])


def test_a_rate_is_refuted_whatever_stands_beside_it():
    """4 T + 2 is attained by Huber losses, on which mu = 0."""

    def rate(q):
        """A rate."""
        yield printed(le(q.gap[-1], q.beta * q.distance_sq[0] / (4 * q.T + Q(9, 4))))
        yield form("PL", le(q.gap, q.gradient_sq / (2 * q.mu)))

    statement = sentence(rate, over="run", rounds=1, problems=SmoothConvex(1, 1), local=GradientSteps(1, lambda c: 1 / c.beta))
    example = prove(MethodSetting.of(statement), "printed", instance([[1]], [[0]], [2], delta=[["2/3"]], rounds=1))
    assert example.sides == "lhs 2/3 > rhs 16/25"
    found = study(statement, budget=200, necessity=False)
    assert found.row("it", "printed").verdict == "violated" and found.counterexamples


def test_an_assumption_is_needed_whatever_stands_beside_the_form():
    def both(q):
        """The gradient does not grow, and the gap."""
        yield printed(le(q.gradient_next_sq, q.gradient_sq))
        yield form("gap", le(q.gap_next, q.gap))

    setting = MethodSetting.of(sentence(both, problems=SmoothConvex(1, 1), local=GradientSteps(1, lambda c: 1 / c.beta)))
    needs = assumption_need(Search(setting), "convex losses", dict(setting.variants())["convex losses"], ["printed", "gap"], 150, 0)
    assert needs[0].needed and not needs[1].needed and needs[1].tried > 0  # gaps of nonconvex losses that are bounded below


SUMS = {"round": lambda q: np.sum(q.gradient**2), "run": lambda q: np.sum(q.gradient[0] ** 2)}


@pytest.mark.parametrize("over", SUMS)
def test_a_sum_over_all_starts_is_refused(over):
    """Several starts are judged at once, and all sequences of cohorts: such a sum adds them up."""

    def squares(q):
        """Squares are not negative."""
        yield form("right", le(0 * q.gradient_sq, q.sq(q.gradient), q.dot(q.gradient, q.gradient)))
        yield printed(le(0 * q.gradient_sq, q.gradient_sq, SUMS[over](q)))

    how = {"over": over, "problems": SmoothConvex((2, 3), (1, 2))}
    with pytest.raises(InvalidInput, match=r"test_no_false_verdict.py, line \d+, .*form 'printed'.*axis=-1"):
        study(sentence(squares, sampling=Uniform(1), **how), budget=10)
    if over == "run":  # of one sequence of cohorts it is what it says
        assert sentence(squares, **how).forms
    else:
        with pytest.raises(InvalidInput, match="several starts are judged together"):
            verify(sentence(squares, **how), random_quadratic(3, 2, seed=1))


def undecided(found):
    """Forms that 'hold' although the search found them violated, or tighter than is possible."""
    found_against = {(s.statement, s.form) for s in found.searches if not s.empty}
    beyond = {t.form for t in found.tightness if t.ratio > 1 + 1e-7}
    return [r for r in found.rows if r.verdict == "holds" and ((r.statement, r.form) in found_against or r.form in beyond)]


def test_what_is_found_in_floats_is_violated_on_an_instance_that_is_named():
    """Roots are no fractions, and diagonal Hessians alone move every coordinate by itself."""

    def roots(q):
        """Half the root of the gap, and a root that holds."""
        yield printed(le(q.sqrt(2 * q.gradient_next_sq), q.sqrt(q.gradient_sq) / 2))
        yield form("true", le(q.sqrt(2 * q.gradient_next_sq), 2 * q.sqrt(q.gradient_sq)))

    def coordinates(q):
        """Every coordinate comes nearer."""
        yield printed(le((q.x_next - q.x_star) ** 2, (q.x - q.x_star) ** 2))

    for found in (
        study(sentence(roots, problems=Quadratics(1, (1, 2)), rounds=0), budget=80, necessity=False),
        study(sentence(coordinates, problems=Quadratics(1, 2)), budget=40, necessity=False),
    ):
        row = found.row("it", "printed")
        assert row.verdict == "violated" and not found.counterexamples and row.modes == ["exact"]
        assert row.worst and row.worst in row.note and "in floats" in row.note and row.note in " ".join(str(found).split())
        assert not undecided(found)


def test_no_form_holds_against_what_was_found():
    lemma = descent()["lemma"]
    setting = MethodSetting.of(lemma)
    holds = Check(lemma.id, "printed", "any", "holds", "exact", count=1)
    out = StatementStudy(lemma, Search(setting).run(60), 60, [holds])
    assert out._row("printed").verdict == "holds" and not out.search_result("printed").empty
    out.conclude()
    row = out._row("printed")
    assert row.verdict == "inconclusive" and str(out.search.best["printed", None][0].instance) in row.note
    out.settle("printed")
    assert out._row("printed").verdict == "violated" and out.counterexamples["printed"]
    assert not undecided(study(lemma, budget=60))


def test_what_says_nothing_is_said():
    """A form that was never judged is not as recorded, and 0 <= 0 is no theorem."""

    def nothing(q):
        """Slips."""
        yield printed(le(q.F_next, q.F - q.gradient_sq / (q.N - 1)), holds=True)
        yield repaired(le(0 * q.F, 0 * q.F), holds=True)
        yield form("equal", eq(0 * q.F, 0 * q.F), holds=True)
        yield form("true", le(q.gradient_sq, 2 * q.gradient_sq), holds=True)
        yield form("step", eq(q.x_next, q.x - q.eta * q.gradient, vector=True), holds=True)

    found = study(sentence(nothing, problems=Quadratics(1, 1)), budget=40, necessity=False)
    rows = {r.form: r for r in found.rows}
    assert rows["printed"].verdict == "not applicable" and not rows["printed"].ok and "divides by 0" in rows["printed"].note
    assert {rows[f].note for f in ("repaired", "equal")} == {"both sides are 0 wherever it was judged"}
    assert rows["repaired"].ok and rows["true"].note == rows["step"].note == "" and "says nothing" in str(found)


def test_draws_without_a_client_decide_nothing():
    """eta^2 max ||g_k||^2/N <= E ||x_1 - x_0||^2, an equality where one client of 2000 has a gradient."""

    def spread(q):
        """The second moment."""
        yield printed(le(q.eta**2 * q.sq(q.client_gradients[0]).max(axis=-1) / q.N, q.moved_sq[0]))

    rare = np.zeros((2000, 1))
    rare[7] = 1e4
    statement = sentence(
        spread, over="run", rounds=1, sampling=Uniform(1), problems=Quadratics((1, 5), 1), local=GradientSteps(1, 1)
    )
    [found] = verify(statement, Quadratic(np.ones((2000, 1, 1)), rare), x0=np.zeros(1))
    assert found.verdict == "inconclusive" and "took part in 0 of the 400 runs" in found.reason


def test_attained_is_neither_zero_below_zero_nor_the_start():
    """Entry by entry: 0 <= 0 where a coordinate rests, and a third of the bound where one moves. Of
    a run: an equality before the first round says nothing."""

    def third(q):
        """A third."""
        yield printed(le(abs(q.x_next - q.x), 3 * q.eta * abs(q.gradient)))

    def forgets_nothing(q):
        """(1 + t) times the first gap."""
        yield printed(le(q.gap, (1 + q.t) * q.gap[:1]))

    found = study(sentence(third, problems=Quadratics(1, 2)), budget=60, necessity=False)
    assert not any(t.attained for t in found.tightness)
    over = sentence(forgets_nothing, over="run", rounds=(1, 3), problems=Quadratics(1, 2))
    assert not any(t.attained for t in study(over, budget=60, necessity=False).tightness)


def test_rounding_of_two_losses_does_not_cancel():
    """Both gaps carry the rounding of a loss near 1, and are themselves far smaller."""

    def descent_of_gaps(q):
        """The descent lemma, as of gaps."""
        yield printed(le(q.gap_next, q.gap - q.gradient_sq / (2 * q.beta)))

    statement = sentence(descent_of_gaps, problems=Quadratics((1, 3), (1, 2)), local=GradientSteps(1, lambda c: 1 / c.beta), rounds=0)
    rng = np.random.default_rng(0)
    for seed in range(12):
        problem = random_quadratic(2, 2, seed=seed, heterogeneity=3.0)
        for size in (1e-9, 1e-8, 1e-7):
            [found] = verify(statement, problem, x0=problem.optimum().x + size * rng.standard_normal(2))
            assert found.verdict == "holds"


def test_two_functions_of_one_name_are_two():
    """Functions without a name in one statement, and one that reads a constant that is moved."""

    def falls(q):
        """Two lambdas are not one."""
        before, after = q.once(lambda q: q.F), q.once(lambda q: q.F_next)
        yield form("rises", le(before, after))
        gain = q.once(lambda q: q.constant("c", 0) * q.gradient_sq / q.beta)
        yield form("falls", le(after, before, -gain))

    statement = sentence(falls, local=GradientSteps(1, lambda c: 1 / c.beta))
    view = MethodSetting.of(statement).view(instance([[1]], [[0]], [1]))
    assert [c.verdict for c in check(statement, view)] == ["violated", "holds"]
    with pytest.raises(NotCertified):
        proved(statement, "rises")
    best = best_constant(statement, "falls", "c")
    assert (best.proved, best.exact) == (Q(1, 2), True)
    moved = [c.verdict for c in check(statement, view.other({"c": Q(2, 3)}))]
    assert moved == ["violated", "violated"]
