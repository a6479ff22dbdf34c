"""Formulas made by the code of a statement about rounds or runs."""

from fractions import Fraction as Q
from pathlib import Path

import numpy as np
import pytest
from statements_at_hand import descent, instance, sentence

from fedtheory.algorithms import FedProx
from fedtheory.participation import Uniform
from fedtheory.theory import (
    GradientSteps,
    Minimise,
    SmoothConvex,
    above,
    eq,
    form,
    le,
    load_file,
    method,
    printed,
    quantities,
    repaired,
    wrong,
)
from fedtheory.theory.judge.symbolic import expressions
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.notation import Notation, formula
from fedtheory.theory.rounds.quantities import ROUND, RUN
from fedtheory.theory.studies.declared import symbols

EXAMPLES = Path(__file__).parents[2] / "examples"
STEP = GradientSteps(1, lambda c: 1 / c.beta)


def latex(sides, over="run", **how):
    more = {"rounds": (1, 3)} if over == "run" else {}
    made = sentence(lambda q: [printed(sides(q), **how)], over=over, local=STEP, **more)
    return formula(made, "printed")


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("descent_lemma", r"F(x^+)\le F(x)- \frac{\|\nabla F(x)\|^2}{2 \beta}"),
        ("wrong_constant", r"F(x_T)-F^*\le \frac{\beta \|x_0-x^*\|^2}{4 T + 2}"),
        (
            "local_gd_fixed_point",
            r"\mu_F^{2} \|x^\infty-x^*\|^2\le \left(E - 1\right)^{2} \beta^{2} \eta^{2} "
            r"\bigl(\sum_k w_k\|\nabla f_k(x^*)\|^2\bigr)",
        ),
    ],
)
def test_the_formula_of_an_example_is_made_by_its_code(file, shown):
    [statement] = load_file(EXAMPLES / f"{file}.py").statements
    assert statement.form("repaired").latex == shown


def test_another_constant_is_another_formula():
    made = [latex(lambda q, c=c: le(q.F_next, q.F, -q.gradient_sq / (c * q.beta)), "round") for c in (2, 3)]
    assert made[0] != made[1] == r"F(x^+)\le F(x)- \frac{\|\nabla F(x)\|^2}{3 \beta}"


@pytest.mark.parametrize(
    ("sides", "shown"),
    [
        (lambda q: le(q.gap[1:], q.gap[:-1]), r"F(x_t)-F^*\le F(x_{t-1})-F^*"),
        (lambda q: le(q.gap, q.power(1 - q.mu, q.t) * q.gap[0]), r"F(x_t)-F^*\le \left(1 - \mu\right)^{t} \bigl(F(x_0)-F^*\bigr)"),
        (lambda q: le(q.moved_sq[0], q.moved_sq[-1]), r"\|x_1-x_0\|^2\le \|x_T-x_{T-1}\|^2"),
        (lambda q: le(q.average_gap[-1], 2 * q.best_gap[-2]), r"F(\bar x_T)-F^*\le 2 \bigl(\min_{s\le T-1}F(x_s)-F^*\bigr)"),
        (lambda q: eq(q.x[1:], q.x[:-1] - q.eta * q.gradient[:-1], vector=True), r"x_t=x_{t-1} - \eta \nabla F(x_{t-1})"),
        (lambda q: le(q.sq(q.x[-1] - q.x_star), q.dot(q.x[0], q.x_star)), r"\|x_T - x^*\|^2\le \langle x_0,x^*\rangle"),
    ],
)  # fmt: skip
def test_the_states_of_a_run_have_their_indices(sides, shown):
    assert latex(sides) == shown


def test_an_expectation_stands_where_the_claim_is_one():
    def both(q):
        """In expectation, along every path, and with the mean inside."""
        yield printed(le(q.F_next, q.F, q.moved_sq))
        yield form("every", le(q.F_next, q.F), pathwise=True)
        yield form("inside", le(q.mean(q.F_next), q.F))
        yield repaired(eq(q.x_next, q.x, vector=True))

    about = sentence(both, local=STEP, sampling=Uniform, problems=SmoothConvex((1, 3), 1))
    told = {name: formula(about, name) for name in about.forms}
    assert told == {
        "printed": r"\mathbb{E}\bigl[F(x^+)\bigr]\le F(x)+\mathbb{E}\bigl[\|x^+-x\|^2\bigr]",
        "every": r"F(x^+)\le F(x)",
        "inside": r"\mathbb{E}[F(x^+)]\le F(x)",
        "repaired": "x^+=x",
    }


def test_code_that_is_no_formula_has_none():
    assert latex(lambda q: le(np.exp(q.F), q.F), "round") == ""
    assert latex(lambda q: le(q.F[2:], q.F[0])) == ""
    assert latex(lambda q: le(q.gap if q.N > 1 else q.F, q.F)) == ""


def test_latex_may_be_left_out_before_mutants():
    made = printed(le(1, 2), wrong("no", le(2, 1)))
    assert made.latex == "" and [m.name for m in made.mutants] == ["no"]
    given = printed(le(1, 2), "1<2", wrong("no", le(2, 1)))
    assert given.latex == "1<2" and len(given.mutants) == 1


UNNAMED = {"method", "state", "state_next", "client_state", "horizons"}  # no numbers of a formula


@pytest.mark.parametrize("over", ["round", "run"])
def test_every_quantity_has_its_letter(over):
    q = Notation(over)
    named = [name for name in quantities(over) if "(" not in name and name not in UNNAMED]
    letters = {name: getattr(q, name) for name in named}
    assert set(RUN if over == "run" else ROUND) - UNNAMED <= set(letters)
    assert len({str(v) for v in letters.values()}) == len(letters) == len({v.latex for v in letters.values()})
    assert not any("<" in v.latex for v in letters.values())


def test_the_formula_gives_the_numbers_that_are_judged():
    """f_1 = x^2/2, f_2 = 3 (x - 4)^2/2 from 1: each letter is put to its number in fractions."""
    lemma = descent()["lemma"]
    view = MethodSetting.of(lemma).view(instance([[1], [3]], [[0], [4]], [1]))
    for name, claimed in lemma.on(view).items():
        made = {c.name: c for c in lemma.function(Notation("round"))}[name]
        lhs, _, terms = expressions(lambda _, made=made: made.sides, None)
        put = {s: Q(np.asarray(getattr(view, s.name.lstrip("~"))).ravel()[0]) for s in (lhs + sum(terms)).free_symbols}
        assert lhs.subs(put) == claimed.sides.lhs[0, 0] and sum(terms).subs(put) == claimed.sides.rhs[0, 0]


def of_prox(function):
    made = sentence(function, about=method(FedProx, mu=above(0)), local=Minimise())
    return made, formula(made, "printed")


def test_two_quantities_of_one_name_have_two_letters():
    def both(q):
        yield printed(le(q.distance_sq_next, q.distance_sq / (q.mu + q.method.mu)))

    def one(q):
        yield printed(le(q.distance_sq_next, q.distance_sq / q.method.mu))

    made, shown = of_prox(both)
    assert shown == r"\|x^+-x^*\|^2\le \frac{\|x-x^*\|^2}{\mu_{\min} + \mu}"
    assert {"mu", "method.mu"} <= set(symbols(made))
    made, shown = of_prox(one)
    assert shown.endswith(r"\frac{\|x-x^*\|^2}{\mu}") and "mu" not in symbols(made)


def test_a_form_without_letters_takes_no_other_formula_away():
    def two(q):
        yield printed(le(q.distance_sq_next, q.distance_sq))
        yield form("sum", le(q.gradient_sq, (q.weights * q.sq(q.client_gradients)).sum(axis=-1)))

    made, shown = of_prox(two)
    assert shown == r"\|x^+-x^*\|^2\le \|x-x^*\|^2"
    assert formula(made, "sum") == ""
