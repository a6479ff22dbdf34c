"""The formula shown for a form of FedElasticNet is what runs: its letters are those its two sides depend on."""

from __future__ import annotations

import copy
import itertools
import re

import numpy as np
import pytest
from algorithm_3 import DiagonalInstance, DiagonalLosses, RationalState, exact_round
from cases import each
from closed_forms import agrees
from core_forms import closed

from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.participation.cohorts import Uniform
from fedtheory.problems import Quadratic
from fedtheory.report.formulas import to_text
from fedtheory.theorems import all_statements
from fedtheory.theorems.fedelasticnet.one_round import letters as letters_of
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import RoundLetters
from fedtheory.theory.judge.statement import le
from fedtheory.theory.rounds.forms import reduced
from tests.theorems.fedelasticnet.runs import tree

ALL = [
    (s, f)
    for s in all_statements("fedelasticnet/")
    if s.scope in ("round", "run")
    for f in s.forms
]
FORMS = [
    (s, f) for s, f in ALL if f.letters is None
]  # of the others the formula is made by the code
CLOSED = [(s, f) for s, f in ALL if f.letters is not None]
EVERY_ROUND = [(s, f) for s, f in ALL if s.scope == "round"]
ROUND = [(s, f) for s, f in FORMS if s.scope == "round"]


RUNS = ("theorem-3.1", "theorem-b1", "eq-42", "theorem-a", "theorem-b", "theorem-e")


def _instances(rule):
    rng = np.random.default_rng(1)
    losses = DiagonalLosses(rng.uniform(0.2, 1, (3, 2)), rng.standard_normal((3, 2)))
    x0 = losses.c.mean(axis=0) + rng.standard_normal((8, 2))
    return DiagonalInstance(losses, 0.8, 30.0, 2, rule, x0)


@pytest.fixture(scope="module")
def views():
    """For each scope and rule a view of random states or runs, every letter of it worked out."""
    out = {}
    for rule in ("sign", "true-gradient"):
        instance, rng = _instances(rule), np.random.default_rng(2)
        stored, local = rng.standard_normal((2, 8, 3, 2))
        h, c, x0 = instance.losses.h, instance.losses.c, instance.x0[0]
        problem = Quadratic([np.diag(row) for row in h], c)
        out["run", rule] = tree(problem, FedElasticNetDyn(0.8, 30.0, rule), Uniform(2), 4, x0)
        view = exact_round(instance, RationalState(instance.x0, stored.mean(axis=1), stored, local))
        for name in (*BY_VALUE, "gamma", "gamma_next", "grad_star", "grad_gamma", "grad_tilde", "delta"):
            getattr(letters_of(view), name)
        out["round", rule] = view
    return out


DEFINED = ("eq-19", "eq-20", "eq-21", "/gamma")
BY_VALUE = ("lambda1_s", "lambda1_sign", "zeros", "C", "C_next", "epsilon", "D", "A", "A_next", "move", "drift")
ROUND_LETTERS = {  # attribute of RoundLetters: how a formula writes it
    "lambda1_s": r"s_k\^t(?!o)",
    "lambda1_sign": r"\\mathrm\{sign\}|\\tilde g_k",
    "zeros": r"z_t",
    "C": r"C_\{t-1\}|\\\|g_k-\\nabla L_k\(\\theta_\*\)\\\|",
    "C_next": r"C_t(?![a-z])|\\\|g_k\^t-\\nabla",
    "epsilon": r"\\epsilon_t",
    "D": r"R\(\\gamma\^\{t-1\}\)|R\(x\)",
    "A": r"\\\|\\gamma\^\{t-1\}-\\theta_\*\\\|\^2",
    "A_next": r"\\\|\\gamma\^t-\\theta_\*\\\|\^2",
    "move": r"\\\|\\gamma\^t-\\gamma\^\{t-1\}\\\|\^2",
    "drift": r"\\mathbb E\[\\gamma\^t-\\gamma\^\{t-1\}\]",
    "h": r"h\^\{t-1\}",
    "d": r"\\lambda_1\^2d|\\tfrac\{5\\lambda_1\^2\}\{\\lambda_2\^2\}d",
}


def letters(latex: str) -> set[str]:
    return {name for name, pattern in ROUND_LETTERS.items() if re.search(pattern, latex)}


def changed(view, name: str):
    """The view with one letter changed and all others as they were."""
    out, v = view.other(), copy.copy(letters_of(view))
    value = np.asarray(getattr(v, name))
    more = 1 if name == "d" else np.random.default_rng(3).uniform(0.5, 2, value.shape)
    v.__dict__[name] = value + more
    out._once = view._once | {RoundLetters: v}
    return out


def sides(form, view):
    """Both sides, without what rounding does to them."""
    return reduced(view, FILE[form.kind].on(view)[form.name])


def same(a, b) -> bool:
    pairs = [(np.asarray(x, dtype=float), np.asarray(y, dtype=float)) for x, y in ((a.lhs, b.lhs), (a.rhs, b.rhs))]
    return all(x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in pairs)


def used(form, scope: str, views) -> set[str]:
    """The letters on which a side of the form depends under some rule."""
    out = set()
    for rule in form.established:
        view = views[scope, rule]
        base = sides(form, view)
        out |= {n for n in ROUND_LETTERS if not same(base, sides(form, changed(view, n)))}
    return out


@pytest.mark.parametrize(("statement", "form"), CLOSED, ids=lambda x: getattr(x, "id", None) or x.name)
def test_a_closed_formula_has_the_values_of_what_runs(statement, form, views):
    for rule in form.established:
        agrees(form, views[statement.scope, rule], f"{rule} rule")


@pytest.mark.parametrize(("statement", "form"), EVERY_ROUND, ids=lambda x: getattr(x, "id", None) or x.name)
def test_the_noise_of_float64_is_small_against_what_is_added_up(statement, form, views):
    for rule in form.established:
        found = form.sides(views["round", rule])
        noise = np.asarray(found.noise, dtype=float)
        assert np.broadcast_shapes(noise.shape, found.lhs.shape) == found.lhs.shape
        assert (noise >= 0).all() and (noise <= 1e-9 * found.scale.max()).all()


def test_the_letters_of_the_theorems_constants_and_products_are_written_as_they_are_defined():
    """Theorem A's kappa as in its definition beside the bound; kappa' as Theorem 3.1 prints it; the last term of Lemma B.4."""
    latex = {(s.id.partition("/")[2], f.name): f.latex for s in all_statements("fedelasticnet/") for f in s.forms}
    for of, name in (("A", "theorem-a"), ("B", "theorem-b")):
        for shown in (latex[name, "repaired"], latex[f"{name}-step", "repaired"]):
            bound, defined = shown.split(r",\quad\kappa^", maxsplit=1)
            assert defined.startswith(of + "=") and rf",\ \kappa_0^{of}=" in defined
            assert rf"\kappa^{of}" in bound and rf"\kappa_0^{of}" in bound
    assert r"\kappa'" in latex["theorem-3.1", "printed"]
    product = r"\langle\gamma^{t-1}-\theta_*,\tfrac1m\sum_k%s\rangle"
    assert product % "s_k^t" in latex["lemma-b4", "repaired"]
    assert product % r"\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})" in latex["lemma-b4", "printed"]


def replaced(sides, first):
    """A bound with another first term on the right."""
    lhs, _, *others = sides.terms
    return le(lhs, first, *others)


def test_the_formula_follows_the_code():
    """A constant changed in the code is changed in the formula."""
    printed = next(f for s, f in CLOSED if s.id == "fedelasticnet/lemma-b5")
    own = printed.letters["sign rule"]
    twelve = closed("printed", own, lambda v: replaced(printed.sides(v), 12 * v.C / (v.lambda2 * v.lambda2)), "holds")
    assert r"\frac{10 C_{t-1}}" in printed.latex and r"\frac{12 C_{t-1}}" in twelve.latex
    with pytest.raises(AttributeError, match="no letter for 'kapa': a formula has those of"):
        closed("wrong", own, lambda v: le(v.epsilon, v.kapa), "holds").latex  # noqa: B018


@pytest.mark.parametrize(("statement", "form"), ROUND, ids=lambda x: getattr(x, "id", None) or x.name)
def test_the_letters_of_a_round_formula_are_those_it_depends_on(statement, form, views):
    shown, runs = letters(form.latex), used(form, "round", views)
    assert runs <= shown
    rest = shown - runs
    if "lambda1_sign" in rest and r"\mathrm{sign}(\tilde" not in form.latex:
        rest -= {"lambda1_sign"}  # sign(theta_k^t - theta^{t-1}) of the cohorts' own models
    if sides(form, views["round", next(iter(form.established))]).relation == "==":
        left, right = re.split(r"(?<!:)=", form.latex, maxsplit=1)
        rest -= letters(left) & letters(right)  # the same on both sides of an equation
        rest -= {"C", "C_next", "epsilon", "h", "D"} if statement.id.endswith(DEFINED) else set()  # defined, not compared
    if statement.id.endswith(("eq-17", "lemma-diagonal", "sag-identity", "eq-29", "eq-12")):
        rest -= {"C", "epsilon", "lambda1_sign"}  # spelt out in the formula
    assert not rest


@pytest.mark.parametrize("statement", all_statements("fedelasticnet/"), ids=lambda s: s.id)
def test_forms_with_different_sides_show_different_formulas(statement, views):
    if statement.scope != "round" and statement.id.partition("/")[2] not in RUNS:
        return
    bare = {f.name: re.sub(r"\\quad\(\\text.*", "", f.latex) for f in statement.forms}  # without remarks in brackets
    for one, other in itertools.combinations(statement.forms, 2):
        rules = set(one.established) & set(other.established)
        differ = any(not same(*(sides(f, views[statement.scope, r]) for f in (one, other))) for r in rules)
        if differ:
            assert bare[one.name] != bare[other.name], (one.name, other.name)
        assert one.latex != other.latex


@each("statement", all_statements("fedelasticnet/"))
def test_formulas_are_whole_and_readable(statement):
    for form in statement.forms:
        assert "dots" not in form.latex and "the same" not in form.latex
        assert not re.search(r"\([0-9]{2}\)", form.latex), "a formula that is another one's number"
        assert "\\" not in to_text(form.latex), "a command the terminal cannot show"
