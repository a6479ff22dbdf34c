"""What a search reaches and what it says: problems in every unit, every form tried on what was found of the others."""

from fractions import Fraction as Q
from importlib import import_module

import numpy as np
import pytest
from statements_at_hand import instance, sentence

from fedtheory.algorithms import FedProx
from fedtheory.authoring import (
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
from fedtheory.authoring.judging import check
from fedtheory.authoring.problem_classes import rescaled
from fedtheory.authoring.search import Search
from fedtheory.authoring.setting import MethodSetting


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


@pytest.mark.parametrize("seed", range(2))
def test_a_constant_that_is_approached_by_large_curvatures_is_found(seed):
    """f_k = 50 (x -+ 1)^2 gives 0.990 > 9/10."""
    found = study(proximal(), budget=600, seed=seed)
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

    monkeypatch.setattr(import_module("fedtheory.authoring.study"), "_checks", on_small)
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
