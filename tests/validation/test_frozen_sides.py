"""Differences that the comparison with the frozen sides of all forms reports."""

from __future__ import annotations

import gzip
import importlib.util
import json
from fractions import Fraction
from pathlib import Path

import numpy as np

from fedtheory.theory.judge.registry import all_statements
from fedtheory.theory.judge.statement import le

FOLDER = Path(__file__).parents[2] / "validation/frozen"
_spec = importlib.util.spec_from_file_location("frozen_sides", FOLDER / "sides.py")
sides = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sides)


def test_fractions_must_be_the_same_and_floats_within_rounding():
    exact = {"verdict": "holds", "lhs": "1/3", "rhs": "2/3", "count": 1}
    assert not list(sides.differences(exact, dict(exact)))
    assert list(sides.differences(exact, {**exact, "rhs": "2000001/3000001"}))
    assert list(sides.differences(exact, {**exact, "verdict": "violated"}))
    floats = {"verdict": "holds", "lhs": 1.0, "rhs": 2.0, "scale": 3.0, "gap": 1 / 3, "count": 4}
    assert not list(sides.differences(floats, {**floats, "lhs": 1.0 + 1e-9}))
    for change in ({"rhs": 2.2}, {"lhs": 1.1}, {"gap": 0.3}):
        assert list(sides.differences(floats, {**floats, **change}))


def test_a_long_fraction_is_told_by_its_nearest_float_and_a_hash():
    long = Fraction(3**900, 2**1400)
    assert sides.told(Fraction(-3, 7)) == "-3/7" and sides.number("-3/7") == -3 / 7
    assert sides.number(sides.told(long)) == float(long)
    assert sides.told(long) != sides.told(long + Fraction(1, 2**1500))


def test_what_is_kept_of_sides():
    rational = le(np.array([Fraction(1), Fraction(2)]), np.array([Fraction(3), Fraction(3)]))
    assert sides._least(rational) == {"lhs": "2", "rhs": "3", "count": 2}
    found = sides._least(le(np.array([1.0, 2.0]), np.array([3.0, 3.0])))
    assert found == {"lhs": 1.5, "rhs": 3.0, "scale": 4.5, "gap": 0.2, "count": 2}


def test_the_frozen_forms_are_those_there_are():
    known = {(s.id, f.name, rule) for s in all_statements() for f in s.forms for rule in f.established}
    kept = {tuple(line[:3]) for line in json.loads(gzip.decompress((FOLDER / "sides.json.gz").read_bytes()))}
    assert kept <= known and len(kept) >= 0.95 * len(known)
