"""Studies: what is found, proved, shrunk and replayed, with instances worked out by hand."""

import json
import re
from dataclasses import replace
from fractions import Fraction as Q

import numpy as np
import pytest
from statements_at_hand import descent, instance, sentence

from fedtheory.algorithms import FedAvg, FedProx, Scaffold
from fedtheory.errors import InvalidInput
from fedtheory.problems import random_huber, random_lad, random_quadratic
from fedtheory.theory import (
    GradientSteps,
    Minimise,
    Paper,
    Quadratics,
    SmoothConvex,
    StronglyConvex,
    Uniform,
    above,
    among,
    eq,
    form,
    le,
    method,
    printed,
    quantities,
    repaired,
    replay,
    study,
    upto,
    verify,
    wrong,
)
from fedtheory.theory.judge.replay import parse
from fedtheory.theory.judge.search import Elite
from fedtheory.theory.rounds.judging import check
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.quantities import ROUND, RUN
from fedtheory.theory.studies.counterexamples import instance_of, prove, shrink
from fedtheory.theory.studies.necessity import ConstantNeed, assumption_need, constant_need, mutant_fates
from fedtheory.theory.studies.search import Search


def test_sides_by_hand():
    """f_1 = x^2/2, f_2 = 3 (x - 4)^2/2 from x = 1: beta = 3, F' = (1 - 9)/2 = -4, x+ = 1 + 4/3 =
    7/3."""
    paper = descent()
    made = instance([[1], [3]], [[0], [4]], [1])
    view = MethodSetting.of(paper["lemma"]).view(made)
    assert view.gradient_sq[0, 0] == 16 and view.x_next[0, 0, 0] == Q(7, 3)
    f = (1 + 27) / Q(4)
    f_next = (Q(49, 9) + 3 * Q(25, 9)) / 4
    assert view.F[0, 0] == f and view.F_next[0, 0] == f_next
    assert view.x_star[0] == 3 and view.heterogeneity == (9 + 9) / Q(2)
    sides = paper["lemma"].on(view)["printed"].sides
    assert (sides.lhs[0, 0], sides.rhs[0, 0]) == (f_next, f - Q(16, 3))


def test_a_wrong_constant_is_found_and_shrunk_to_one_number():
    paper = descent()
    found = study(paper, budget=150, necessity=False)
    assert found.row("lemma", "printed").verdict == "violated" and found.row("lemma", "repaired").verdict == "holds"
    [example] = found.counterexamples
    assert example.form == "printed" and len(example.data["h"]) == len(example.data["h"][0]) == 1
    assert example.data["rounds"] == 0 and all(len(v) <= 2 for v in (*example.data["h"][0], *example.data["start"]))
    assert Q(example.lhs) > Q(example.rhs)
    for row in found.rows:  # one number in the table and in a report: the largest of all that was tried
        tried = [t for t in found.tightness if t.form == row.form and np.isfinite(t.ratio)]
        most = max((t.ratio for t in tried), default=-np.inf)
        judged = max((c.tightness for c in found.checks if c.form == row.form), default=-np.inf)
        assert row.tightness_worst == max(most, judged) or np.isnan(row.tightness_worst)
        assert not tried or most <= judged or row.tightest in [t.instance for t in tried]
    replayed = replay(example, paper)
    assert replayed.verdict == "violated" and replayed.mode == "rational"
    assert replay(parse(json.dumps(example.to_json()), "it"), paper).verdict == "violated"


def test_a_counterexample_that_was_changed_is_refused():
    paper = descent()
    setting = MethodSetting.of(paper["lemma"])
    example = prove(setting, "printed", instance([[1], [3]], [[0], [4]], [1]))
    with pytest.raises(InvalidInput, match="it was changed"):
        replay(replace(example, lhs="7"), paper)
    with pytest.raises(InvalidInput, match="not a witness"):
        replay(replace(example, form="repaired"), paper)
    with pytest.raises(InvalidInput, match="not an instance of test-descent/lemma: some client's loss is not convex"):
        replay(replace(example, data={**example.data, "h": [["-1"]] * len(example.data["h"])}), paper)
    assert prove(setting, "repaired", instance([[1], [3]], [[0], [4]], [1])) is None


def test_shrinking_keeps_a_violation_clear():
    setting = MethodSetting.of(descent()["lemma"])
    small = shrink(setting, "printed", instance([["7/8", 2], ["1/3", 1]], [[0, "5/11"], [1, 3]], ["13/7", -2]))
    assert (small.num_clients, small.dim) == (1, 1) and small.h[0, 0] == 1 and small.c[0, 0] == 0


def test_a_number_drawn_among_some_is_shrunk_too():
    """Steps of size 1 on x^2/2 and (x - 1)^2/16 from 0, where F is 1/32: the first client stays at 0, the second goes to 1 - (7/8)^E,
    and half of that is the model. With E = 5 the loss grows, so the claim fails; and on some instance it fails for E = 2."""
    local = GradientSteps(among(1, 2, 3, 5), lambda c: 1 / c.beta)
    steep = sentence(lambda q: [printed(le(q.F_next, q.F))], local=local, problems=StronglyConvex((1, 3)))
    made = instance([["1/3"], ["1/60"]], [[0], [-4]], ["-1/3"]).changed(drawn={"steps": Q(5)})
    setting = MethodSetting.of(steep)
    assert prove(setting, "printed", made.changed(drawn={"steps": Q(1)})) is None
    assert shrink(setting, "printed", made).drawn == {"steps": Q(2)}
    found = study(steep, budget=150, necessity=False)
    assert instance_of(found.counterexamples[0]).drawn == {"steps": Q(2)}
    assert replay(found.counterexamples[0], steep).verdict == "violated"
    [told] = [words for label, words in found.findings() if label == "violations"]
    counts = {int(v): (int(bad), int(of)) for v, bad, of in re.findall(r"(\d): (\d+) of (\d+)", told)}
    assert told.startswith("printed: steps: 1: 0 of ") and list(counts) == [1, 2, 3, 5] and counts[1][1] > 0
    drawn = [c for c in found.checks if ", steps = " in c.instance]
    assert sum(bad for bad, _ in counts.values()) == sum(c.verdict == "violated" for c in drawn) > 0
    assert sum(of for _, of in counts.values()) == len(drawn)


def test_the_best_constant_and_the_assumptions_that_matter():
    found = study(descent(problems=SmoothConvex((1, 2), 1)), budget=300, seed=1)
    [half] = [n for n in found.studies[0].constants if n.constant == "half"]
    assert half.tight and half.violated_at > Q(1, 2) and half.holds_at == Q(1, 2) and half.example is not None
    assert replay(half.example, descent(problems=SmoothConvex((1, 2), 1))).verdict == "violated"
    needs = {a.assumption: a for a in found.studies[0].assumptions}
    assert needs["one local step"].needed and needs["full participation"].needed
    assert not needs["convex losses"].needed and not needs["equal weights"].needed
    one = needs["one local step"].example
    assert replay(one, descent(problems=SmoothConvex((1, 2), 1))).verdict == "violated"
    for example in (half.example, one):  # their files say what was changed
        read = parse(json.dumps(example.to_json()), "it")
        assert read == example and bool(read.without) != bool(read.constants)
        assert replay(read, descent(problems=SmoothConvex((1, 2), 1))).verdict == "violated"
    with pytest.raises(InvalidInput, match=r"not a witness|not an instance"):
        replay(replace(one, without=""), descent(problems=SmoothConvex((1, 2), 1)))
    assert all(m.rejected for m in found.mutants) and found.mutants


def test_of_a_loose_constant_no_violation_is_found():
    """(1 - eta h)^2 <= 1 - eta h for eta h in [0, 1], so 1 may become 2 where eta beta = 1/2
    only if h = beta: 3/2 is the best."""

    def contraction(q):
        """One step contracts towards the minimiser."""
        yield repaired(le(q.distance_sq_next, q.distance_sq * (1 - q.constant("rate", 1) * q.mu / (2 * q.beta))))

    loose = sentence(contraction, problems=StronglyConvex(1, 1), local=GradientSteps(1, lr=lambda c: 1 / (2 * c.beta)))
    found = study(loose, budget=240)
    [rate] = found.studies[0].constants
    # h = beta = mu: (1/2)^2 = 1 - rate/2 at rate = 3/2, and a smaller h leaves more room
    assert Q(7, 5) < rate.holds_at < Q(3, 2) < rate.violated_at < Q(8, 5)
    [mutant] = found.mutants
    assert not mutant.rejected and mutant.searched and "room" not in str(mutant)
    assert "rate = 11/10 instead of 1: no violation found at this value" in " ".join(str(found).split())


def test_expectations_are_over_all_cohorts():
    """One of two clients, x+ = x - f_k'(x): E x+ = x - F'(x), and no cohort does it alone."""

    def mean(q):
        """The mean of one round."""
        yield repaired(eq(q.mean(q.x_next), q.x - q.eta * q.gradient, vector=True))
        yield printed(eq(q.x_next, q.x - q.eta * q.gradient, vector=True), fails=True)
        yield form("pathwise", le(q.moved_sq, 100 * q.mean(q.moved_sq)), pathwise=True)
        yield form("variance", le(q.sq(q.mean(q.x_next) - q.x), q.moved_sq))

    sampled = sentence(mean, sampling=Uniform(1), problems=Quadratics((2, 3), 1))
    view = MethodSetting.of(sampled).view(instance([[1], [1]], [[0], [2]], [0], cohort_size=1))
    assert list(view.x_next[0, :, 0]) == [0, 1] and view.mean(view.x_next)[0, 0, 0] == Q(1, 2)
    found = study(sampled, budget=100, necessity=False)
    verdicts = {r.form: r.verdict for r in found.rows}
    assert verdicts == {"repaired": "holds", "printed": "violated", "pathwise": "holds", "variance": "holds"}


def test_runs_by_hand():
    """f = x^2/2, steps of 1/2 from 4: 4, 2, 1; the averages of x_1..x_t are 2 and 3/2."""

    def rate(q):
        """A run."""
        yield printed(le(q.gap[1:], q.gap[0] / 4**q.T))
        yield repaired(le(q.gap[-1], q.gap[0]))

    run = sentence(rate, over="run", rounds=(1, 3), problems=Quadratics(1, 1))
    view = MethodSetting.of(run).view(instance([[1]], [[0]], [4], rounds=2))
    assert list(view.x[:, 0, 0]) == [4, 2, 1] and list(view.average_x[:, 0, 0]) == [4, 2, Q(3, 2)]
    assert list(view.gap[:, 0]) == [8, 2, Q(1, 2)] and list(view.best_gap[:, 0]) == [8, 2, Q(1, 2)]
    assert (
        list(view.moved_sq[:, 0]) == [4, 1]
        and list(view.drift[:, 0]) == [4, 1]
        and view.T == 2
        and 1 / view.T == Q(1, 2)
    )
    assert list(view.average_gap[:, 0]) == [8, 2, Q(9, 8)] and list(view.total(view.gap)[:, 0]) == [8, 10, Q(21, 2)]


def test_powers_of_the_round_stay_fractions():
    """||x_t - x*||^2 <= (1 - eta mu)^t ||x_0 - x*||^2, an equality for eta h = 1/2 where mu is doubled: (1/2)^(2 t)."""

    def contraction(q):
        """Gradient descent contracts."""
        rate = 1 - q.eta * q.mu
        yield repaired(le(q.distance_sq[1:], q.power(rate, q.t[1:]) * q.distance_sq[0]))
        yield form("squared", le(q.distance_sq[1:], q.power(rate, 2 * q.t[1:]) * q.distance_sq[0]))

    run = sentence(contraction, over="run", rounds=(1, 4), problems=StronglyConvex(1, 1))
    view = MethodSetting.of(run).view(instance([[1]], [[0]], [4], rounds=2))
    sides = run.on(view)["squared"].sides
    assert list(sides.lhs[:, 0]) == list(sides.rhs[:, 0]) == [4, 1]
    found = study(run, budget=80, necessity=False)
    assert all(r.verdict == "holds" and "rational" in r.modes for r in found.rows)


def test_a_constant_with_no_room_is_found_where_everything_moves():
    """The proximal point method on one quadratic: (lambda/(lambda + mu))^2 is attained, and nothing tighter holds."""

    def contraction(q):
        """Proximal steps contract."""
        rate = q.method.mu / (q.method.mu + q.constant("c", 1) * q.mu)
        yield repaired(le(q.distance_sq_next, rate**2 * q.distance_sq))

    about = method(FedProx, mu=upto(lambda c: 3 * c.beta))
    step = sentence(contraction, about=about, local=Minimise(), problems=StronglyConvex(1, 1))
    found = study(step, budget=150)
    [c] = found.studies[0].constants
    assert c.tight and c.holds_at == 1 and c.example is not None and all(m.rejected for m in found.mutants)


def test_a_bound_that_is_infinite_without_an_assumption_is_not_said_to_hold_without_it():
    """2 mu (F - F*) <= ||grad F||^2, divided by mu: with mu = 0 the bound says nothing."""

    def gap_by_gradient(q):
        """The gap is bounded by the gradient."""
        yield printed(le(q.gap, q.gradient_sq / (2 * q.mu)), holds=True)

    found = study(sentence(gap_by_gradient, problems=StronglyConvex((1, 2), 1)), budget=90)
    [need] = [a for a in found.studies[0].assumptions if "mu = 0" in a.assumption]
    assert not need.needed and need.tried == 0 and "sides are infinite" in str(need)
    others = [a for a in found.studies[0].assumptions if a is not need]
    assert others and all("instances that break it" in str(a) for a in others)


def test_monte_carlo_decides_with_students_t():
    def noise(q):
        """Expected distances with one of five clients: no run stays where it starts."""
        yield printed(le(q.distance_sq[-1], q.distance_sq[0] / 10**6), fails=True)
        yield repaired(le(q.distance_sq[-1], 2 * q.distance_sq[0] + 100 * q.heterogeneity / q.beta**2))

    drawn = sentence(noise, over="run", rounds=6, sampling=Uniform(1), problems=Quadratics((1, 5), (1, 3)))
    problem = random_quadratic(5, 3, seed=3)
    checks = {c.form: c for c in verify(drawn, problem, x0=np.ones(3), seed=1)}
    assert checks["printed"].verdict == "violated" and checks["repaired"].verdict == "holds"
    assert {c.mode for c in checks.values()} == {"statistical"} and checks["printed"].standard_error > 0
    again = verify(drawn, problem, x0=np.ones(3), seed=1)[0]
    assert str(again) == str(checks["printed"]) and (again.lhs, again.slack) == (checks["printed"].lhs, checks["printed"].slack)


def to_a_neighbourhood():
    """E||x_t - x*||^2 <= r^t ||x_0 - x*||^2 + (1 - r^t) zeta^2/mu^2, r = (1 - eta mu)^E, as each client contracts to its minimiser."""

    def rate(q):
        """Local gradient descent converges to a neighbourhood."""
        r = q.power(1 - q.eta * q.mu, q.E * q.t)
        noise = (1 - r) * q.heterogeneity / q.mu**2
        yield repaired(le(q.distance_sq, r * q.distance_sq[0], noise), holds=True)

    steps = GradientSteps(among(1, 2, 3), lr=upto(lambda c: 1 / c.beta))
    problems = StronglyConvex((1, 3), (1, 2))
    return sentence(rate, over="run", rounds=(1, 4), sampling=Uniform, local=steps, problems=problems)


def test_what_is_one_number_at_the_start_is_left_out():
    for size, mode in ((2, "statistical"), (5, "exact")):
        law, problem = Uniform(size), random_quadratic(5, 3, seed=3)
        [check] = verify(to_a_neighbourhood(), problem, sampling=law, x0=np.ones(3), rounds=4)
        assert check.verdict == "holds" and check.mode == mode and check.count == 4
        assert 1 <= check.where["t"] <= 4 and check.slack > 1e-3 and check.place[:2] == "t "


def test_the_rounds_from_which_on_a_claim_fails_are_told():
    """On h x^2/2 a step of 1/(2h) halves x: 4^-T > 4^-(3T-2) from T = 2 on, and with T = 1 both are 1/4."""

    def late(q):
        """True for one round, false for more."""
        yield printed(le(q.distance_sq[-1], q.power(Q(1, 4), 3 * q.T - 2) * q.distance_sq[0]))

    halves = GradientSteps(1, lr=lambda c: 1 / (2 * c.beta))
    claim = sentence(late, over="run", rounds=(1, 3), local=halves, problems=Quadratics(1, 1))
    found = study(claim, budget=60, necessity=False)
    [told] = [words for label, words in found.findings() if label == "violations"]
    counts = {int(t): (int(bad), int(of)) for t, bad, of in re.findall(r"(\d): (\d+) of (\d+)", told)}
    assert told.startswith("printed: rounds: 1: ") and list(counts) == [1, 2, 3]
    assert counts[1][0] == 0 < counts[1][1] and counts[2][0] > 0 and counts[3][0] > 0


@pytest.mark.parametrize("seed", range(3))
def test_weights_that_break_the_assumption_are_found(seed):
    """x^2/2 and (x - 1)^2/2 with weights 2/3 and 1/3: one step of one of them from 0 has E = 5/18 > 2/9."""
    setting = MethodSetting.of(to_a_neighbourhood())
    variant = dict(setting.variants())["equal weights"]
    found = assumption_need(Search(setting), "equal weights", variant, ["repaired"], 333, seed)
    assert found[0].needed and len(set(instance_of(found[0].example).weights)) > 1


def test_a_need_that_is_never_met_keeps_no_other_statement_out():
    paper = Paper("needs")
    step = {"about": FedAvg(), "local": GradientSteps(1, lr=lambda c: 1 / c.beta)}

    @paper.statement("never", problems=StronglyConvex((1, 2), 1), **step)
    def never(q):
        """It asks for what there is not."""
        yield repaired(le(q.distance_sq_next, q.distance_sq), needs={"beta < mu": q.beta < q.mu})

    @paper.statement("always", problems=StronglyConvex(1, 1), **step)
    def always(q):
        """It asks for nothing."""
        yield repaired(le(q.distance_sq_next, q.distance_sq))

    found = study(paper, budget=60, necessity=False)
    never_judged, judged = found.row("never", "repaired"), found.row("always", "repaired")
    assert never_judged.verdict == "not applicable" and judged.verdict == "holds"
    assert "beta < mu is not met" in str(found)


def test_a_problem_outside_the_class_is_refused_with_the_property():
    statement = descent()["lemma"]
    assert {c.verdict for c in verify(statement, random_huber(3, 2, seed=0))} == {"violated", "holds"}
    [first, _] = verify(statement, random_lad(3, 2, seed=0))
    assert first.verdict == "not applicable" and "property: smoothness" in first.reason
    uneven = random_quadratic(2, 2, weights=[0.25, 0.75])
    assert "property: weights" in verify(statement, uneven)[0].reason


def test_a_fixed_point_by_hand():
    """Two steps of 1/2 on x^2/2 and of (x - 1)^2/4: 3/4 x + 7/16 (x - 1) = 0 at x = 7/19, the
    minimiser is 1/3."""

    def there(q):
        """The fixed point."""
        yield printed(eq(q.x, q.x_next, vector=True))

    fixed = sentence(there, over="fixed-point", local=GradientSteps(2, Q(1, 2)), problems=Quadratics((1, 3), (1, 2)))
    view = MethodSetting.of(fixed).view(instance([[1], ["1/2"]], [[0], [1]], [5]))
    assert view.x[0, 0, 0] == Q(7, 19) and view.x_star[0] == Q(1, 3)
    floats = MethodSetting.of(fixed).problem_views(random_quadratic(3, 2, seed=5), np.random.default_rng(0))
    assert np.abs(floats.x_next - floats.x).max() < 1e-12


def test_states_of_a_method_and_its_hyperparameters_are_there():
    def control(q):
        """SCAFFOLD's server control variate is the mean of the clients'."""
        yield repaired(eq(q.state_next.c, q.state_next.c_k.sum(axis=-2) / q.N, vector=True))
        yield printed(eq(q.state_next.c, q.method.server_lr * q.state.c, vector=True), fails=True)

    kept = sentence(control, about=Scaffold(), local=GradientSteps(2, lambda c: 1 / (4 * c.beta)), sampling=Uniform)
    found = study(kept, budget=80, necessity=False)
    assert {r.form: r.verdict for r in found.rows} == {"repaired": "holds", "printed": "violated"}
    assert found.counterexamples[0].form == "printed"


def test_what_varies_is_drawn_and_kept():
    def drawn(q):
        """The step size."""
        yield printed(le(q.eta * q.beta * q.E, q.constant("c", 1)))

    free = sentence(drawn, local=GradientSteps(among(1, 2), upto(lambda c: 1 / (c.beta * c.E))))
    setting, rng = MethodSetting.of(free), np.random.default_rng(0)
    made = [setting.random_instance(rng) for _ in range(20)]
    assert {int(i.drawn["steps"]) for i in made} == {1, 2} and all(
        0 < i.drawn["lr"] <= 1 for i in made
    )
    assert (
        setting.why_not(made[0].changed(drawn={"steps": Q(3), "lr": Q(1)}))
        == "steps: 3 is none of 1, 2"
    )
    needs = {a.assumption: a for a in study(free, budget=100).studies[0].assumptions}
    assert needs["the limit of the step size"].needed


def test_an_inexact_optimum_decides_nothing():
    """F(x) - F* of a start at the optimum is rounding: neither a true nor a false bound is
    decided by it."""

    def near(q):
        """At the optimum."""
        yield printed(le(q.gap_next, q.gap / 2))
        yield repaired(le(0 * q.gap, q.gap))

    statement = sentence(near, problems=Quadratics((1, 3), (1, 3)), rounds=0)
    problem = random_quadratic(3, 3, seed=2)
    checks = verify(statement, problem, x0=problem.optimum().x)
    assert [c.verdict for c in checks] == ["holds", "holds"]


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_what_cancels_inside_a_side_is_no_violation(shift):
    """The exact gain of one step written in one expression, on losses whose size dwarfs it."""

    def exact(q):
        """Equality for one quadratic client."""
        yield printed(le(q.F_next, q.F - q.gradient_sq / (2 * q.beta)), pathwise=True)

    statement = sentence(exact, problems=Quadratics(1, 1), local=GradientSteps(1, lr=lambda c: 1 / c.beta), rounds=0)
    view = MethodSetting.of(statement).view(instance([["1/3"]], [[0]], [1 + int(shift)]), exact=False)
    assert check(statement, view)[0].verdict == "holds"


def test_the_same_seed_gives_the_same_study():
    first, second = (study(descent(), budget=60, seed=4, necessity=False).to_json() for _ in range(2))
    assert first == second
    assert study(descent(), budget=60, seed=5, necessity=False).to_json() != first


def test_a_verdict_other_than_the_one_on_record_is_marked():
    def false(q):
        """Never."""
        yield printed(le(q.F_next, q.F - 1), holds=True)

    found = study(sentence(false), budget=40, necessity=False)
    assert not found.ok and "violated (!)" in str(found)


def test_mutants_of_the_author_are_rejected_or_reported():
    def claim(q):
        """Descent."""
        twice = wrong("twice the gain", le(q.F_next, q.F, -2 * q.gradient_sq / q.beta))
        yield repaired(le(q.F_next, q.F, -q.gradient_sq / (4 * q.beta)), "", twice, wrong("none", le(q.F_next, q.F)))

    found = study(sentence(claim), budget=100)
    assert {m.mutant: m.rejected for m in found.mutants} == {"twice the gain": True, "none": False}


def test_every_quantity_is_described_and_can_be_computed():
    for over, table in (("round", ROUND), ("run", RUN)):
        names = quantities(over)
        assert set(table) <= set(names) and all(names.values())
        statement = sentence(lambda q: [printed(le(q.F, q.F))], over=over, local=GradientSteps(2, Q(1, 8)))
        made = instance([[1], [2]], [[0], [1]], [3], rounds=2)
        for exact in (True, False):
            view = MethodSetting.of(statement).view(made, exact)
            for name in table:
                assert getattr(view, name) is not None


def test_local_minimisation_and_full_participation_are_the_defaults():
    paper = Paper("defaults")
    paper.statement("it", about=FedAvg(), problems=Quadratics())(lambda q: [printed(le(q.F, q.F))])
    assert paper["it"].local == Minimise() and paper["it"].rounds == (0, 2)


def test_what_refutes_a_constant_refutes_a_tighter_one():
    """Whatever else the search kept: a tenth more fails where 1 + 1/100 does."""

    def descent_of_f(q):
        """The descent lemma with a step 1/beta, twice."""
        yield repaired(le(2 * q.F_next, 2 * q.F, -q.constant("c", 1) * q.gradient_sq / q.beta))

    step = sentence(descent_of_f, problems=Quadratics(1, 1), local=GradientSteps(1, lambda c: 1 / c.beta))
    setting, half = MethodSetting.of(step), instance([[1]], [[0]], [1])
    proof = prove(setting, "repaired", half, {"c": Q(101, 100)})
    search = Search(setting)
    search.best["repaired", "c"], search.directions["repaired", "c"] = [], 1
    need = ConstantNeed("repaired", "c", Q(1), Q(101, 100), Q(1), proof)
    assert not mutant_fates(search, "repaired", [])[0].rejected
    assert mutant_fates(search, "repaired", [need])[0].rejected


def test_a_constant_is_not_called_loose_where_moves_are_small():
    """A round of FedProx moves by ||grad F||/mu, attained in the limit of large mu, where 0.1 % is less than rounding."""
    statement = sentence(
        lambda q: [repaired(le(q.sq(q.x_next - q.x), q.constant("one", 1) * (q.gradient_sq + q.dissimilarity) / q.method.mu**2))],
        about=method(FedProx, mu=above(lambda c: c.beta)), local=Minimise(),
        problems=SmoothConvex(clients=(1, 3), dimension=(1, 2)),
    )  # fmt: skip
    setting = MethodSetting.of(statement)
    assert statement.constants
    small = [instance([[1]], [[c]], [1000], drawn={"method.mu": "10000"}) for c in (998, 999)]
    found = Search(setting, 0).run(30)
    found.best, found.tightest = {("repaired", "one"): [Elite(-1.0, i) for i in small]}, {}
    need = constant_need(found, "repaired", "one", 1, 0)
    assert need.violated_at >= Q(9, 10) and need.holds_at <= 1 and need.example is not None


def test_a_constant_is_tried_at_every_horizon():
    """On x^2/2 d_T = d_0/4^T with steps 1/(2 beta), so that T 4^-T is left of c: most at T = 1, and 1/64 at T = 4."""
    statement = sentence(
        lambda q: [repaired(le(q.distance_sq[-1], q.constant("c", 1) * q.distance_sq[0] / q.T))],
        over="run", rounds=(1, 4), local=GradientSteps(1, lr=lambda c: 1 / (2 * c.beta)),
        problems=StronglyConvex(clients=1, dimension=1),
    )  # fmt: skip
    setting = MethodSetting.of(statement)
    assert statement.constants
    found = Search(setting, 0).run(30)
    of_four = instance([[1]], [[0]], [1], rounds=4)
    found.best = {("repaired", "c"): [Elite(-1.0, of_four)]}
    found.tightest.clear()
    need = constant_need(found, "repaired", "c", 1, 0)
    assert need.violated_at == pytest.approx(0.25, abs=0.01)
