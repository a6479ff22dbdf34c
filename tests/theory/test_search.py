"""Searches in problems of every unit: each form is tried on what was found of the others."""

from fractions import Fraction as Q
from importlib import import_module

import numpy as np
import pytest
from statements_at_hand import instance, sentence

from fedtheory.algorithms import FedProx
from fedtheory.theory import (
    GradientSteps,
    Minimise,
    SmoothConvex,
    StronglyConvex,
    Uniform,
    form,
    le,
    method,
    printed,
    repaired,
    study,
)
from fedtheory.theory.paper_adapter import AuthoredSetting
from fedtheory.theory.rounds.judging import check
from fedtheory.theory.rounds.method_setting import MANY, MethodSetting
from fedtheory.theory.rounds.units import rescaled
from fedtheory.theory.studies.search import Search
from fedtheory.theory.studies.words import scope


def proximal():
    """One round of FedProx with m = 1/2 of one client of two: from 0 with f_k = h (x -+ 1)^2/2 comes
    (h/(h + 1/2))^2, which tends to 1 with h."""

    def contraction(q):
        """A proximal step."""
        rho = q.method.mu / (q.method.mu + q.mu)
        noise = q.heterogeneity / q.mu**2
        yield printed(le(q.distance_sq[-1], rho * q.distance_sq[0], q.constant("c", 1) * noise), holds=True)
        yield repaired(le(q.distance_sq[-1], rho * q.distance_sq[0], Q(9, 10) * noise))

    problems = StronglyConvex(clients=(1, 2), dimension=1)
    return sentence(
        contraction, over="run", rounds=1, about=method(FedProx, mu=Q(1, 2)), local=Minimise(), sampling=Uniform, problems=problems
    )


def test_a_constant_that_is_approached_by_large_curvatures_is_found():
    """f_k = 50 (x -+ 1)^2 gives 0.990 > 9/10."""
    found = study(proximal(), budget=600)
    assert {r.form: r.verdict for r in found.rows} == {"printed": "holds", "repaired": "violated"}
    assert all(m.rejected for m in found.mutants) and {m.form for m in found.mutants} == {"printed"}
    [c] = found.studies[0].constants
    assert c.form == "printed" and c.holds_at > c.violated_at > Q(9, 10)


def test_what_violates_one_form_is_tried_on_the_others():
    """c = 0.958 is violated by f_k = 50 (x -+ 1)^2: so is the form with 9/10, in whichever search it was found."""
    setting = MethodSetting.of(proximal())
    search, other = Search(setting), Search(setting, overrides={"c": Q(479, 500)})
    large = instance([[100], [100]], [[-1], [1]], [0], rounds=1, cohort_size=1)
    assert other.look(large) is not None and other.violating("printed") == [large]
    assert not search.violating("repaired")
    search.learn(other)
    assert search.violating("repaired") == [large] and not search.violating("printed")


def test_a_form_that_a_constant_s_search_refutes_is_violated(monkeypatch):
    """The main search sees small curvatures only; the search for the best c has larger ones."""
    large = instance([[100], [100]], [[-1], [1]], [0], rounds=1, cohort_size=1)
    small = [instance([[h], [h]], [[-1], [1]], [0], rounds=1, cohort_size=1) for h in (1, 2, 3)]
    run = Search.run

    def seeing(self, budget, aims=None, *args, **options):
        known = [large] if aims is not None else small
        for made in known:
            self.look(made)
        return self if aims is None else run(self, 1, aims, *args, **options)

    monkeypatch.setattr(Search, "run", seeing)

    def on_small(out, setting, *args):
        out.checks.extend(c for made in small for c in check(out.statement, setting.view(made)))
        return {}

    monkeypatch.setattr(import_module("fedtheory.theory.studies.study"), "_checks", on_small)
    found = study(proximal(), budget=3)
    assert found.row("it", "repaired").verdict == "violated" and found.row("it", "printed").verdict == "holds"
    assert {n.form for n in found.studies[0].constants} == {m.form for m in found.mutants} == {"printed"}


def test_problems_are_drawn_in_many_units_and_stay_short():
    rng, cls = np.random.default_rng(0), SmoothConvex((1, 3), (1, 2))
    drawn = [cls.draw(rng) for _ in range(400)]
    largest = [max(v for v in made.h.ravel()) for made in drawn]
    assert sum(v >= 50 for v in largest) > 40 and sum(0 < v <= Q(1, 50) for v in largest) > 20
    assert sum(abs(made.start).max() >= 100 for made in drawn) > 20
    short = [len(str(v)) <= 6 for made in drawn for part in (made.h, made.c, made.start) for v in part.ravel()]
    assert np.mean(short) > 0.9 and all(cls.why_not(made) is None for made in drawn if (made.h != 0).any())


def test_other_units_change_units_only():
    """beta (x - x*) and F scale as they should: nothing but the units changes."""
    made = instance([[1], [3]], [[0], [4]], [1])
    large, far = rescaled(made, "curvature", Q(10)), rescaled(made, "position", Q(10))
    star = made.exact_losses.minimiser(made.start)
    assert large.exact_losses.constants["beta"] == 30 and large.exact_losses.minimiser(large.start) == star
    assert far.exact_losses.minimiser(far.start)[0] == 30 and far.start[0] == 10
    assert (far.exact_losses.values(far.start) == 100 * made.exact_losses.values(made.start)).all()
    assert rescaled(made, "start", Q(10) ** 9) is made, "not without end"


def test_a_constant_that_is_not_violated_is_not_said_to_be_free():
    def loose(q):
        """A bound twice as large as it need be."""
        yield form("loose", le(q.F_next, q.constant("much", 2) * q.F))

    text = " ".join(str(study(sentence(loose), budget=60)).split())
    assert "no violation found" in text and "room" not in text


def test_every_number_of_clients_and_dimensions_is_drawn():
    """Also large ones, which hardly any counterexample needs: N <= 5 and d <= 3 are refuted, in fractions."""

    def small(q):
        """False for N > 5 or d > 3."""
        yield printed(le(q.N * (1 + q.F), 5 * (1 + q.F)))
        yield repaired(le(q.d * (1 + q.F), 3 * (1 + q.F)))

    statement = sentence(small, problems=SmoothConvex((1, 30), (1, 20)))
    found = study(statement, budget=400, necessity=False)
    assert {c.form: (len(c.data["h"]), len(c.data["h"][0])) for c in found.counterexamples} == {"printed": (6, 1), "repaired": (1, 4)}
    rng = np.random.default_rng(0)
    sizes = [(made.num_clients, made.dim) for made in (statement.problems.draw(rng) for _ in range(600))]
    assert max(n for n, _ in sizes) > 25 and max(d for _, d in sizes) > 17
    assert np.mean([n <= 5 and d <= 3 for n, d in sizes]) > 0.8


def test_the_size_that_was_reached_is_said_where_it_is_less_than_declared():
    def descent(q):
        """Descent."""
        yield printed(le(q.F_next, q.F))

    wide = study(sentence(descent, problems=SmoothConvex((1, 500), 1)), budget=60, necessity=False)
    n, d = wide.studies[0].search.largest
    assert 5 < n <= 40 and d == 1 and f"in the search; up to N = {n}, d = 1" in " ".join(str(wide).split())
    narrow = study(sentence(descent, problems=SmoothConvex((1, 2), 1)), budget=60, necessity=False)
    assert narrow.studies[0].search.largest == (2, 1) and "searched up to" not in str(narrow)


def test_cohorts_that_are_too_many_to_enumerate_are_not_drawn():
    """Of 30 clients 15 make 155,117,520 cohorts."""
    statement = sentence(lambda q: [printed(le(q.F_next, q.F))], sampling=Uniform, problems=SmoothConvex((1, 30), 1))
    setting, rng = MethodSetting.of(statement), np.random.default_rng(0)
    drawn = [setting.random_instance(rng) for _ in range(300)]
    assert max(made.num_clients for made in drawn) > 20
    assert max(setting.law(made).count(made.num_clients) for made in drawn) <= MANY < 2**10


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (dict(over="run"), "a run of 1 to 4 rounds"),
        (dict(over="run", rounds=1), "a run of 1 round"),
        (dict(over="run", rounds=3, sampling=Uniform), "a run of 3 rounds, cohorts of every size, drawn uniformly"),
        (dict(sampling=Uniform(2), problems=SmoothConvex((2, 3), 1)), "one round after 0 to 2 rounds, cohorts by Uniform(size=2)"),
        (dict(rounds=0), "the first round"),
        (dict(over="fixed-point"), "a fixed point of the method"),
    ],
)
def test_the_horizon_and_the_law_are_named(how, says):
    over = how.get("over", "round")

    def it(q):
        """Something true."""
        yield printed(le(q.gap[-1:] if over == "run" else q.gap, 1 + 2 * (q.gap[-1:] if over == "run" else q.gap)))

    statement = sentence(it, **how)
    assert scope(statement) == says
    assert f"weights; {says}" in " ".join(str(study(statement, budget=20, necessity=False)).split())
    judge = AuthoredSetting(statement.paper)
    assert judge.about(statement.statement).scope == f"about {says}"


def test_changes_of_an_instance_keep_its_cohorts_few():
    """Four rounds of two of five clients have 10,000 sequences: a change of the horizon does not lead there."""
    statement = sentence(
        lambda q: [printed(le(q.gap[-1], q.gap[0]))], over="run", sampling=Uniform, problems=SmoothConvex((5, 5), 1)
    )
    setting = MethodSetting.of(statement)
    start = instance([[1]] * 5, [[v] for v in range(5)], [9], rounds=1, cohort_size=2)
    assert setting.few(start) and not setting.few(start.changed(rounds=4))
    search = Search(setting).run(150, starts=[start, start.changed(rounds=4)])
    assert search.tried - search.skipped > 100


def test_a_ratio_of_rounding_errors_is_no_tightness():
    """Quadratics of one curvature end at x*: both sides are 0 in fractions, and noise in floats."""

    def bias(q):
        """||grad F||^2 <= beta^2 ||x - x*||^2."""
        yield printed(le(q.gradient_sq, q.beta**2 * q.distance_sq))

    statement = sentence(bias, over="fixed-point", local=GradientSteps(3, lambda c: 1 / (3 * c.beta)))
    made = instance([["1/10"], ["1/10"]], [["-1/500"], ["-1/2000"]], ["-1/1000"])
    search = Search(MethodSetting.of(statement))
    assert search.look(made).ratio["printed"] > 1.1 and "printed" not in search.tightest
    assert search.look(instance([[1], [2]], [[0], [1]], [0])) is not None and 0 < search.tightest["printed"].score <= 1 + 1e-9
