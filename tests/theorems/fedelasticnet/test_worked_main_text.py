"""FedElasticNet's main text as numbers: both sides of every form on small instances.

By the package, and by code that shares nothing with it (validation/references), which printed the
numbers once. A constant that is off by a tenth changes its number, though its bound may hold all
the same. Of a form that is an equation both sides stand here; the package gives how far they are
apart.
"""

from __future__ import annotations

import ast
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest
import worked_fedelasticnet_main_text as worked
import worked_fedelasticnet_one_round as rounds
import worked_fedelasticnet_signs as chance
from cases import each
from fedelasticnet_worlds import BUILDERS, MAIN_TEXT
from main_text_views import view_of
from mpmath import mp, mpf

from fedtheory import theorems
from fedtheory.theorems.fedelasticnet.statements.messages import PI_E, PI_E_ABOVE

KINDS = {"local-steps": rounds.Steps, "objective": rounds.Objective, "everybody": rounds.Round}
NUMBERS = {
    ("eq-1", "printed", "plain", "any"): ("277/56", "23/4"),
    ("eq-1", "printed", "twins", "any"): ("79/20 79/20", "176/9 176/9"),
    ("eq-1", "printed", "alike", "any"): ("7/4", "73/16"),
    ("eq-1", "growth", "plain", "any"): ("23/4", "23/4"),
    ("eq-1", "growth", "twins", "any"): ("176/9 176/9", "176/9 176/9"),
    ("eq-1", "growth", "orthonormal", "any"): ("221/20", "261/20"),
    ("eq-1", "does not care which", "twins", "any"): ("79/20 79/20", "79/20 79/20"),
    ("eq-1", "one of a group", "twins", "any"): ("31/20 31/20", "0 0"),
    ("eq-1", "some minimiser has one", "twins", "any"): ("0 0", "0 0"),
    ("eq-1", "one of two alike", "alike", "any"): ("0", "0"),
    ("eq-1", "one of two alike", "alike, both", "any"): ("1/2", "0"),
    ("eq-2", "printed", "plain", "any"): ("47/8", "7"),
    ("eq-2", "printed", "twins", "any"): ("183/22", "62/3"),
    ("eq-2", "printed", "alike", "any"): ("352/201", "1829/400"),
    ("eq-2", "growth", "plain", "any"): ("7", "7"),
    ("eq-2", "growth", "twins", "any"): ("62/3", "62/3"),
    ("eq-2", "growth", "alike", "any"): ("327829/80400", "1829/400"),
    ("eq-2", "growth", "orthonormal", "any"): ("261/20", "301/20"),
    ("eq-2", "identical features", "twins", "any"): ("31/22", "31/22"),
    ("eq-2", "in or out together", "alike", "any"): ("1", "0"),
    ("eq-2", "in or out together", "alike, both", "any"): ("1", "1"),
    ("eq-2", "orthonormal features", "orthonormal", "any"): ("17/5 16/5", "17/5 16/5"),
    ("grouping-effect", "Zou and Hastie", "units", "any"): ("14400/39601", "144/65"),
    ("grouping-effect", "Zou and Hastie", "orthonormal", "any"): ("1/100", "98"),
    ("grouping-effect", "repaired", "plain", "any"): ("1/4", "168"),
    ("grouping-effect", "repaired", "units", "any"): ("14400/39601", "16/13"),
    ("grouping-effect", "repaired", "twins", "any"): ("0", "0"),
    ("grouping-effect", "with the residual", "plain", "any"): ("1/4", "183/4"),
    ("grouping-effect", "with the residual", "units", "any"): ("14400/39601", "4708801744/8054883001"),
    ("grouping-effect", "with the residual", "twins", "any"): ("0", "0"),
    ("grouping-effect", "of one sign", "units", "any"): ("14400/39601", "301363311616/523567395065"),
    ("grouping-effect", "of one sign", "orthonormal", "any"): ("1/100", "281/20"),
    ("grouping-of-updates", "equal coefficients", "twins", "any"): ("51/28", "9/28"),
    ("grouping-of-updates", "repaired", "twins", "any"): ("23/28", "23/28"),
    ("grouping-of-updates", "nearly equal updates", "plain", "any"): ("441/841", "17/3"),
    ("grouping-of-updates", "nearly equal updates", "units", "any"): ("225/9604", "1/13"),
    ("grouping-of-updates", "nearly equal updates", "twins", "any"): ("0", "0"),
    ("eq-3", "a minimiser exists", "slope", "any"): ("0 1", "0 0"),
    ("eq-3", "Algorithm 1", "counts", "any"): ("-7/11 -14/11", "0 0"),
    ("eq-3", "equal counts", "equal", "any"): ("0 0", "0 0"),
    ("second-term", "a hundredth of the gap", "practice", "any"): ("19/33720000000", "23/880"),
    ("second-term", "repaired", "counts", "any"): ("2375/26976", "10925/49456"),
    ("second-term", "repaired", "practice", "any"): ("19/5395200000", "437/49456000000"),
    ("second-term", "units", "counts", "any"): ("665/13488", "665/13488"),
    ("eq-4", "printed", "first", "any"): ("-55/152", "35/8"),
    ("eq-4", "printed", "diagonal", "any"): ("-9/32", "47/8"),
    ("eq-4", "unique", "first", "any"): ("10187/2888", "35/8"),
    ("eq-4", "unique", "diagonal", "any"): ("519/128", "47/8"),
    ("eq-4", "any smooth loss", "unbounded", "any"): ("-1/2", "-27/4"),
    ("eq-4", "smooth, lambda_2 > beta", "downwards", "any"): ("-23/8", "-15/8"),
    ("eq-4", "soft threshold", "first", "any"): ("-21/38 24/19", "-21/38 24/19"),
    ("eq-4", "soft threshold", "later", "any"): ("3/19 27/38", "3/19 27/38"),
    ("eq-4", "soft threshold", "diagonal", "any"): ("0 9/8", "0 9/8"),
    ("eq-8", "printed", "dynamic", "any"): ("-353/152", "25/8"),
    ("eq-8", "unique", "dynamic", "any"): ("866/361", "25/8"),
    ("eq-9", "printed", "dynamic", "any"): ("0 0", "0 0"),
    ("eq-9", "consistent, in every round", "dynamic", "any"): ("43/38 13/38", "1 0"),
    ("eq-9", "consistent, when", "dynamic", "any"): ("0", "0"),
    ("eq-9", "consistent, when", "tiny", "any"): ("1", "1"),
    ("eq-9", "consistent, when", "first", "any"): ("0", "0"),
    ("sparsification", "never more", "mixed", "any"): ("2", "1"),
    ("sparsification", "never more", "first", "any"): ("2", "2"),
    ("sparsification", "never more", "diagonal", "any"): ("1", "2"),
    ("sparsification", "coordinates that do not mix", "diagonal", "any"): ("1", "2"),
    ("sparsification", "coordinates that do not mix", "tiny", "any"): ("0", "2"),
    ("sparsification", "count", "first", "any"): ("107/38", "107/38"),
    ("sparsification", "count", "later", "any"): ("71/38", "71/38"),
    ("sparsification", "count", "diagonal", "any"): ("21/8", "29/8"),
    ("sparsification", "count", "mixed", "any"): ("17/40", "17/40"),
    ("sparsification", "nothing moves", "tiny", "any"): ("1", "1"),
    ("sparsification", "nothing moves", "first", "any"): ("0", "0"),
    ("sparsification", "nothing moves", "later", "any"): ("0", "0"),
    ("impact-of-lambda-1", "a hundredth", "tiny", "any"): ("97/12960000", "97/129600000000"),
    ("impact-of-lambda-1", "repaired", "first", "any"): ("549/1444", "1/2"),
    ("impact-of-lambda-1", "repaired", "later", "any"): ("225/1444", "1/2"),
    ("impact-of-lambda-1", "repaired", "mixed", "any"): ("1/640", "1/50"),
    ("impact-of-lambda-1", "how far from (9)", "first", "any"): ("1/2 1/2", "1/2 1/2"),
    ("impact-of-lambda-1", "how far from (9)", "diagonal", "any"): ("1 3/2", "3/2 3/2"),
    ("impact-of-lambda-1", "units", "first", "any"): ("-7/38 8/19", "-7/38 8/19"),
    ("impact-of-lambda-1", "units", "later", "any"): ("1/19 9/38", "1/19 9/38"),
    ("eq-6", "mean of the gradients", "steps", "any"): ("15/16 -2 41/16 -1/16", "15/16 -2 41/16 -1/16"),
    ("eq-6", "mean of the gradients", "fresh", "any"): ("11/16 -33/16 11/4 -7/16", "11/16 -33/16 11/4 -7/16"),
    ("eq-7", "control variate", "penalised", "any"): ("25/48 -49/32 79/96 91/96", "23/24 -191/96 229/96 -1/32"),
    ("eq-7", "repaired", "penalised", "any"): ("25/48 -49/32 79/96 91/96", "25/48 -49/32 79/96 91/96"),
    ("eq-7", "the gradient of the l1 norm", "penalised", "any"): (
        "381/256 159/256 3/128 9/256",
        "381/256 159/256 3/128 9/256",
    ),
    ("eq-7", "the first step", "penalised", "any"): ("7/8 1/8 1/8 5/8", "7/8 1/8 1/8 5/8"),
    ("eq-7", "the first step", "one step", "any"): ("7/8 1/8 1/8 5/8", "7/8 1/8 1/8 5/8"),
    ("eq-7", "it sparsifies", "one step", "any"): ("1/8 1/8 7/8 5/8", "0 0 0 0"),
    ("eq-7", "it sparsifies", "penalised", "any"): ("1/64 3/128 0 0", "0 0 0 0"),
    ("local-direction", "an acute angle", "steps", "any"): ("0 0", "237/352 157/44"),
    ("local-direction", "an acute angle", "bends", "any"): ("0 0", "-463/338 4196/169"),
    ("local-direction", "fresh, an acute angle", "fresh", "any"): ("0 0", "419/176 727/352"),
    ("local-direction", "fresh, an acute angle", "bends", "any"): ("0 0", "-463/338 4196/169"),
    ("local-direction", "repaired", "fresh", "any"): ("-183/64 -157/64", "-25/16 -25/16"),
    ("local-direction", "repaired", "bends", "any"): ("-539801/114244 -1126/169", "-2929/676 -2929/676"),
    ("local-direction", "of the steps (7)", "fresh, penalised", "any"): ("321/64 347/64", "0 0"),
    ("local-direction", "at the optimum", "at rest", "any"): ("-8/11 13/11 -8/11 13/11", "-8/11 13/11 -8/11 13/11"),
    ("consistency", "stationary for R", "rest", "sign"): ("1/4 -1/8", "0 0"),
    ("consistency", "stationary for R", "rest, true", "true-gradient"): ("0 0", "0 0"),
    ("consistency", "FedDyn", "rest, FedDyn", "any"): ("0 0", "0 0"),
    ("consistency", "repaired", "rest", "sign"): ("1/4 1/8", "1/2 1/2"),
    ("consistency", "no drift at rest", "rest", "sign"): ("1 0 1 0", "1 0 1 0"),
    ("consistency", "no drift at rest", "rest, true", "true-gradient"): ("1 0 1 0", "1 0 1 0"),
    ("consistency", "no drift at rest", "rest, FedDyn", "any"): ("1 0 1 0", "1 0 1 0"),
    ("average-of-signs", "a tenth", "round", "sign"): ("1/2 1/2", "1/10 1/10"),
    ("average-of-signs", "a tenth", "round", "true-gradient"): ("1/2 1/2", "1/10 1/10"),
    ("average-of-signs", "repaired", "round", "sign"): ("-7/16 1/4", "-7/16 1/4"),
    ("average-of-signs", "repaired", "round", "true-gradient"): ("-7/16 1/4", "-7/16 1/4"),
    ("deviation", "at the optimum", "rest", "sign"): ("1 0", "35/44 5/44"),
    ("deviation", "at the optimum", "rest, true", "true-gradient"): ("1 0", "1 0"),
    ("deviation", "repaired", "rest", "sign"): ("53/968", "1/2"),
    ("limits-of-c-and-epsilon", "C_t, as stored", "round", "sign"): ("81893/7744", "264789/7744"),
    ("limits-of-c-and-epsilon", "C_t, as stored", "round", "true-gradient"): ("178075/15488", "264789/7744"),
    ("limits-of-c-and-epsilon", "C_t, as stored", "rest", "sign"): ("377/7744", "477/968"),
    ("limits-of-c-and-epsilon", "C_t, gradients of L_k", "round", "sign"): ("178075/15488", "264789/7744"),
    ("limits-of-c-and-epsilon", "C_t, gradients of L_k", "round", "true-gradient"): ("178075/15488", "264789/7744"),
    ("limits-of-c-and-epsilon", "C_t, gradients of L_k", "FedDyn", "any"): ("15646281/1397792", "41763681/1397792"),
    ("limits-of-c-and-epsilon", "C_t, repaired", "round", "sign"): ("81893/7744", "266725/3872"),
    ("limits-of-c-and-epsilon", "C_t, repaired", "rest", "sign"): ("377/7744", "961/484"),
    ("limits-of-c-and-epsilon", "epsilon_t", "round", "sign"): ("277/576", "737269/34848"),
    ("limits-of-c-and-epsilon", "epsilon_t", "round", "true-gradient"): ("277/576", "737269/34848"),
    ("limits-of-c-and-epsilon", "epsilon_t", "FedDyn", "any"): ("74693/103968", "127046321/6290064"),
    ("no-additional-costs", "from the updates alone", "round", "sign"): ("31/16 -21/16", "31/16 -21/16"),
    ("no-additional-costs", "from the updates alone", "round", "true-gradient"): ("17/8 -21/16", "31/16 -21/16"),
    ("l1-and-entropy", "never larger", "fine", "any"): ("1/108", "1/16"),
    ("l1-and-entropy", "never larger", "whole", "any"): ("1/108", "1/16"),
    ("l1-and-entropy", "never larger", "one model", "any"): ("1/256", "1"),
    ("l1-and-entropy", "always smaller", "fine", "any"): ("1000001/108000000", "1/16"),
    ("l1-and-entropy", "always smaller", "whole", "any"): ("1000001/108000000", "1/16"),
    ("l1-and-entropy", "always smaller", "one model", "any"): ("1000001/256000000", "1"),
    ("l1-and-entropy", "repaired", "whole", "any"): ("1/108", "1/16"),
    ("l1-and-entropy", "repaired", "one model", "any"): ("1/256", "1"),
    ("updates-for-models", "never more", "fine", "any"): ("1/16", "1/27"),
    ("updates-for-models", "never more", "whole", "any"): ("1/16", "1"),
    ("updates-for-models", "never more", "one model", "any"): ("1", "1/256"),
    ("updates-for-models", "repaired", "whole", "any"): ("16", "2916"),
    ("updates-for-models", "repaired", "one model", "any"): ("1", "256"),
    ("updates-for-models", "equally many nonzeros", "fine", "any"): ("6", "6"),
    ("updates-for-models", "equally many nonzeros", "whole", "any"): ("6", "5"),
    ("updates-for-models", "equally many nonzeros", "one model", "any"): ("0", "3"),
}
CHANCES = {  # P, factor, x
    ("concentration", "printed", "few coins"): ("0", "1", "1/4"),
    ("concentration", "printed, first equality", "few coins"): ("0", "1/4", "0"),
    ("concentration", "repaired", "coins"): ("3/16", "1", "2/5"),
    ("concentration", "repaired", "few coins"): ("1/4", "1", "1/4"),
    ("concentration", "Bern(1/2) with values 0 and 1", "coins"): ("1/2", "1", "2/5"),
    ("concentration", "Bern(1/2) with values 0 and 1", "few coins"): ("1/4", "1", "1/4"),
    ("concentration", "both sides", "coins"): ("3/8", "1", "2/5"),
    ("concentration", "both sides", "few coins"): ("1/2", "1", "1/4"),
    ("concentration", "both sides, twice", "coins"): ("3/8", "2", "2/5"),
    ("concentration", "both sides, twice", "few coins"): ("1/2", "2", "1/4"),
    ("concentration", "all coordinates", "coordinates"): ("175/256", "2", "3/8"),
    ("concentration", "all coordinates, d times", "coordinates"): ("175/256", "8", "3/8"),
    ("concentration", "identical clients", "alike"): ("1/4", "1", "1"),
    ("concentration", "groups", "alike"): ("1/4", "1", "1/4"),
    ("concentration", "groups", "coins"): ("3/16", "1", "2/5"),
    ("concentration", "with zeros", "zeros"): ("37/256", "1", "1/8"),
    ("concentration", "with zeros", "coins"): ("3/16", "1", "2/5"),
    ("concentration", "unfair signs", "unfair"): ("2725/4096", "1", "1/8"),
    ("concentration", "about its mean", "unfair"): ("625/4096", "1", "1/8"),
    ("concentration", "about its mean", "zeros"): ("37/256", "1", "1/8"),
    ("concentration", "over the model", "either side"): ("1901/4096", "1", "1/8"),
    ("concentration", "weights", "weights"): ("1/4", "1", "3/8"),
    ("concentration", "weights, repaired", "weights"): ("1/4", "1", "4/15"),
    ("concentration", "weights, repaired", "coins"): ("3/16", "1", "2/5"),
}
CELLS = {  # left, width, count; the Gaussian's variance where it is another one
    "binomial": ([(0, 1, 1), (1, 1, 4), (2, 1, 6), (3, 1, 4), (4, 1, 1)], None),
    "uneven": ([(0, 2, 3), (2, 1, 4), (5, 3, 2)], None),
    "wider": ([(0, 5, 1)], "1"),
}
DENSITIES = {  # e^(2 n h), n, the variance
    ("for a given variance", "binomial"): ("19342813113834066795298816/531441", "16", "13/12"),
    ("for a given variance", "uneven"): ("16677181699666569/16384", "9", "362/81"),
    ("hence", "wider"): ("25", "1", "1"),
}


# --- the instances ----------------------------------------------------------------------------
GIVEN = {"regression": worked.INSTANCES, "local": worked.INSTANCES, "signs": chance.LAWS, "message": chance.MESSAGES}


def given_of(kind: str, name: str):
    """Return what the second writing has of an instance."""
    return GIVEN.get(kind, rounds.ROUNDS)[name]


def second_writing(statement: str, form: str, name: str, rule: str) -> tuple[list[F], list[F]]:
    """Both sides without the package."""
    kind = theorems.get(f"fedelasticnet/{statement}").form(form).kind
    if kind == "message":
        return tuple([side] for side in chance.message(given_of(kind, name))[statement, form])
    instances, sides = worked.FORMS[statement, form]
    assert name in instances
    if kind in KINDS:
        made = KINDS[kind](given_of(kind, name), rule) if kind == "everybody" else KINDS[kind](given_of(kind, name))
    else:
        made = (worked.Samples if kind == "regression" else worked.Local)(given_of(kind, name))
    return sides(made)


def entries(side: str) -> list[F]:
    return [F(x) for x in side.split()]


ROWS = list(NUMBERS)
IDS = [" ".join(filter(None, key)) for key in ROWS]


@each("key", ROWS)
def test_the_package_gives_the_numbers(key):
    statement, name, instance, rule = key
    form = theorems.get(f"fedelasticnet/{statement}").form(name)
    view = view_of(form.kind, given_of(form.kind, instance), rule)
    assert view.rule == rule and view.applies(form) is None
    sides = form.sides(view)
    lhs, rhs = ([F(x) for x in np.asarray(side, dtype=object).reshape(-1)] for side in (sides.lhs, sides.rhs))
    left, right = (entries(side) for side in NUMBERS[key])
    if sides.relation == "==":
        assert lhs == [abs(a - b) for a, b in zip(left, right, strict=True)] and not any(rhs)
    else:
        assert [lhs, rhs] == [left, right]


@each("key", ROWS)
def test_the_second_writing_gives_the_numbers(key):
    assert [list(side) for side in second_writing(*key)] == [entries(side) for side in NUMBERS[key]]


def real(x: F) -> mpf:
    """A fraction to as many digits as mpmath has."""
    return mpf(x.numerator) / x.denominator


# --- chance -------------------------------------------------------------------------------------
@each("key", CHANCES)
def test_chances_are_these_numbers(key):
    """P exactly; factor e^-x between two fractions that are closer than 1e-25, on the side that makes the verdict safe."""
    statement, name, instance = key
    form = theorems.get(f"fedelasticnet/{statement}").form(name)
    view = view_of("signs", given_of("signs", instance))
    assert view.applies(form) is None
    sides, (p, factor, x) = form.sides(view), (F(v) for v in CHANCES[key])
    if sides.relation == "==":
        assert sides.lhs == abs(p - factor) and x == 0
        return
    mp.dps = 60
    lhs, rhs = (np.asarray(side, dtype=object).item() for side in (sides.lhs, sides.rhs))
    off = real(rhs) - real(factor) * mp.exp(-real(x))
    assert lhs == p and abs(off) < mpf(10) ** -25
    assert off <= 0 if form.established["any"] == "holds" else off >= 0


@each("key", CHANCES)
def test_the_second_writing_gives_the_chances(key):
    _, sides = chance.SIGNS[key[:2]]
    p, (factor, x) = sides(chance.Law(chance.LAWS[key[2]]))
    assert (p, F(factor), x) == tuple(F(v) for v in CHANCES[key])


@pytest.mark.parametrize("key", DENSITIES, ids=" ".join)
def test_densities_are_these_numbers(key):
    """e^(2 n (h - h of the Gaussian)), times (2 pi e variance)^n, is the density's e^(2 n h)."""
    form = theorems.get("fedelasticnet/gaussian-entropy").form(key[0])
    cells, given = CELLS[key[1]]
    data = {"cells": [[str(a), str(w), c] for a, w, c in cells]} | ({} if given is None else {"variance": given})
    sides = form.sides(BUILDERS["density"](data))
    power, n, variance = (F(v) for v in DENSITIES[key])
    pi_e = PI_E if key[0] != "hence" else PI_E_ABOVE
    assert sides.lhs * (2 * pi_e * variance) ** int(n) == power and sides.rhs == 1
    assert chance.density(cells, None if given is None else F(given)) == (power, n, variance)


def test_pi_e_is_enclosed():
    mp.dps = 40
    low, high = real(PI_E), real(PI_E_ABOVE)
    assert low < mp.pi * mp.e < high < low * (1 + mpf(10) ** -4)


# --- nothing is left out --------------------------------------------------------------------------
def test_every_form_has_its_numbers_under_every_rule():
    mine = [s for s in theorems.all_statements("fedelasticnet/") if s.scope in MAIN_TEXT]
    want = {(s.id.split("/")[1], f.name, rule) for s in mine for f in s.forms for rule in f.established}
    have = {(s, f, rule) for s, f, _, rule in NUMBERS} | {(s, f, "any") for s, f, _ in CHANCES}
    have |= {("gaussian-entropy", f, "any") for f, _ in DENSITIES}
    assert want - have == set()


@pytest.mark.parametrize("module", [worked, rounds, chance], ids=lambda m: m.__name__)
def test_what_is_compared_with_shares_nothing_with_the_library(module):
    tree = ast.parse(Path(module.__file__).read_text())
    names = {n for x in ast.walk(tree) if isinstance(x, ast.Import) for n in (a.name for a in x.names)}
    names |= {x.module for x in ast.walk(tree) if isinstance(x, ast.ImportFrom)}
    assert names <= {"__future__", "collections.abc", "fractions", "itertools", "typing", "worked_fedelasticnet_main_text"}


def test_two_entries_by_pencil():
    """(1) for twins: |y - X theta|^2 = (4 - 3.1)^2 + (6 - 6.2)^2 = 0.85, plus 3.1; the update of (4) from (1, -1/2):

    residuals 4 - 1/2 and 6 - 1, so X'r/2 = (3.5 + 10)/2 = 27/4 for both; (27/4 - 1) = (5/2 + 5/2 + 2) delta, delta = 23/28.
    """
    assert F(NUMBERS["eq-1", "does not care which", "twins", "any"][0].split()[0]) == F(85, 100) + F(31, 10)
    assert F(27, 4) - 1 == 7 * F(23, 28) and NUMBERS["grouping-of-updates", "repaired", "twins", "any"] == ("23/28", "23/28")
