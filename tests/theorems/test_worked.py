"""Forms of every paper on worked instances: the frozen pairs, and the second writings kept.

A bound that holds with room holds with a slightly wrong constant too, but does not give these
numbers: `validation/frozen/worked_pairs.py` says where they are from.
"""

from __future__ import annotations

import ast
from collections import defaultdict

import numpy as np
import pytest
import worked_fedmls_instances
import worked_pairs as kept

from fedtheory.theorems import all_statements

REFERENCES = sorted((kept.FOLDER.parent / "references").glob("worked_*.py"))
STANDARD = {
    "__future__", "collections.abc", "dataclasses", "fractions", "itertools", "math", "typing",
}  # fmt: skip
ROWS = kept.rows()
NAMES = [kept.name_of(row) for row in ROWS]
OF = defaultdict(list)  # statement -> [(row, form's key)]
for n, row in enumerate(ROWS):
    for key in row["forms"]:
        OF[f"{row['paper']}/{key.partition(' [')[0]}"].append((n, key))
SHEETS = {f"{sheet.paper}/{key}": (sheet, key) for sheet in kept.sheets() for key in sheet.forms}
# in floats, or whose runs no file has: test_worked.py and test_worked_mopes.py of FedMLS
RUNS = {f"fedmls/{s} [{f}]" for s, f in worked_fedmls_instances.SIDES}
MOLES = {
    "fedmls/moles-bound [with 2C]",
    "fedmls/moles-calls [calls in all]",
    "fedmls/moles-calls [calls a round]",
}

# an equality of roots, and one whose sides are 0
ELSEWHERE = {f"fedelasticnet/algorithm-1-fixed-point [{f}]" for f in (
    "repaired", "distance to stationarity", "half of beta",
)} | {"fedelasticnet/sag-identity [repaired]"}  # fmt: skip
# mutants of truth values, of what is 0 here or of the smaller of two terms: the battery rejects
# them
UNTOLD = {
    "efl/theorem-1": {("theorem-1 [2 max]", "0.49 of the first term")},
    "efl/elastic-stability": {("elastic-stability [when some lambda does]", "b at least 1")},
    "fedelasticnet/algorithm-2-stability": {
        ("algorithm-2-stability [two clients]", "a tenth less"),
        ("algorithm-2-stability [two clients]", "without the product"),
    },
    "fedelasticnet/threshold-on-the-wire": {
        ("threshold-on-the-wire [nothing is ever sent]", "nine tenths of it"),
    },
    "fedelasticnet/stalls": {
        (f"stalls [{f}]", "lambda_1 a tenth more") for f in ("any state", "own start")
    },
    "fedelasticnet/sparsification": {("sparsification [nothing moves]", "11/10 lambda_1")},
    "elastic-aggregation/zero-sensitivity": {("zero-sensitivity [repaired]", "only at 0")},
    "elastic-aggregation/sampled-attraction": {
        ("sampled-attraction [dominance]", "nineteen tenths for 2"),
        ("sampled-attraction [all take part]", "21/10 for 2"),
    },
}  # fmt: skip


def view_of(n):
    return kept.view_named(NAMES[n])


def asked(statement):
    for n, key in OF[statement]:
        yield ROWS[n], view_of(n), key, kept.form_of(ROWS[n]["paper"], key)


@pytest.mark.parametrize("statement", OF)
def test_the_sides_are_the_frozen_numbers(statement):
    for row, view, key, form in asked(statement):
        sides = form.sides(view)
        assert kept.same(kept.found(sides), row["forms"][key]), (key, row["data"])
        if sides.relation == "==" and len(sides.terms) == 2 and np.size(sides.lhs):
            off = abs(sides.terms[0] - sides.terms[1])
            assert np.max(sides.lhs) == np.max(off) and not np.any(sides.rhs)
        assert not sides.axes or len(sides.axes) == np.ndim(sides.lhs), key
        assert not np.any(sides.noise) or "arithmetic" in row["data"], (
            key
        )  # fractions are what they are


@pytest.mark.parametrize("statement", OF)
def test_what_is_on_record_as_holding_holds(statement):
    for row, view, key, form in asked(statement):
        if view.applies(form) is None and form.established.get(view.rule) == "holds":
            sides = form.sides(view)
            assert np.all(sides.lhs <= sides.rhs), (key, row["data"])


@pytest.mark.parametrize("statement", OF)
def test_a_mutant_is_another_claim_than_its_form(statement):
    alike: dict[tuple[str, str], bool] = {}
    for _, view, key, form in asked(statement):
        for mutant in form.mutants:
            if alike.setdefault((key, mutant.name), True):
                alike[key, mutant.name] = kept.found(mutant.sides(view)) == kept.found(
                    form.sides(view)
                )
    told = {name for name, same in alike.items() if not same}
    assert alike.keys() - told == UNTOLD.get(statement, set())


@pytest.mark.parametrize("paper", sorted({row["paper"] for row in ROWS}))
def test_instances_meet_the_conditions_that_they_met(paper):
    for n, row in enumerate(ROWS):
        if row["paper"] == paper:
            facts = kept.facts_of(row, view_of(n))
            assert {words: facts.get(words) for words in row["facts"]} == row["facts"], row["data"]


def test_every_condition_has_an_instance_that_meets_it_and_one_that_does_not():
    """Of Elastic Aggregation, whose kinds of instances are worked near the limits of each."""
    forms = [form for s in all_statements("elastic-aggregation/") for form in s.forms]
    asked = {str(need) for form in forms for need in form.needs}
    rows = [row for row in ROWS if row["paper"] == "elastic-aggregation"]
    seen = {(words, met) for row in rows for words, met in row["facts"].items()}
    missing = {(words, met) for words in asked for met in (True, False)} - seen
    assert not missing, f"write edges of these conditions, and freeze them: {sorted(missing)}"


def test_what_the_sides_are_made_of():
    values = [
        (n, name, was) for n, row in enumerate(ROWS) for name, was in row.get("values", {}).items()
    ]
    assert values
    for n, name, was in values:
        value = getattr(view_of(n), name)
        assert kept.numbers(value(view_of(n).theta) if callable(value) else value) == was, (
            name,
            ROWS[n]["data"],
        )


@pytest.mark.parametrize("form", SHEETS)
def test_both_writings_agree(form):
    pairs = list(kept.written(*SHEETS[form]))
    assert len(pairs) > 1, "write instances that it is about, one with numbers all different"
    for row, now, expected in pairs:
        assert kept.same(now, expected), row["data"]


@pytest.mark.parametrize("file", REFERENCES, ids=lambda file: file.stem)
def test_what_is_compared_with_shares_nothing_with_the_library(file):
    tree = ast.parse(file.read_text())
    plain = [x.names for x in ast.walk(tree) if isinstance(x, ast.Import)]
    names = {name.name for each in plain for name in each}
    names |= {x.module for x in ast.walk(tree) if isinstance(x, ast.ImportFrom)}
    own = {name for name in names if name == "second_writing" or name.startswith("worked_")}
    assert names - own <= STANDARD


def test_every_form_that_compares_has_numbers_under_every_rule():
    """On an instance that it is about."""
    forms = {
        f"{s.id} [{f.name}]": f for s in all_statements() for f in s.forms if f.sides is not None
    }
    numbers = {(form, rule) for form, f in forms.items() for rule in f.established}
    have = {
        (f"{row['paper']}/{key}", view_of(n).rule)
        for n, row in enumerate(ROWS) for key in row["forms"]
        if view_of(n).applies(kept.form_of(row["paper"], key)) is None
    }  # fmt: skip
    told = {form for form, _ in have} | RUNS | MOLES | ELSEWHERE
    one_is_enough = ("efl/theorem-1-step-", "fedmls/")  # of the schemes, and of noise or none
    missing = {(form, rule) for form, rule in numbers - have if form not in told}
    missing |= {
        key
        for key in numbers - have
        if key[0] not in RUNS | MOLES | ELSEWHERE and not key[0].startswith(one_is_enough)
    }
    assert not missing, (
        f"write both sides a second time (CONTRIBUTING.md, A theorem): {sorted(missing)}"
    )
    assert {f"{row['paper']}/{key}" for row in ROWS for key in row["forms"]} <= forms.keys()


def test_no_instance_is_kept_twice():
    assert len(set(NAMES)) == len(NAMES)
