"""Runs of FedMLS in one dimension for several test files: both sides of a reading, and witnesses of it."""

from __future__ import annotations

from fedtheory import theorems
from fedtheory.rational import to_file
from fedtheory.theorems.fedmls.one_dimension import OneDimension
from fedtheory.theorems.fedmls.readings import READINGS, TWO
from fedtheory.theory.judge.check import worst_sides
from fedtheory.theory.judge.witness import Witness


def statement_of(variant):
    return "fedmls/theorem-2" if variant.startswith(TWO) else "fedmls/theorem-1"


def form_of(variant):
    return READINGS[variant].form or variant


def in_one_dimension(clients, lam, d, radius, x0, rounds, variant="repaired", copies=None):
    counts = tuple(copies or [1] * len(clients))
    return OneDimension(variant, tuple(clients), counts, lam, d, radius, x0, rounds)


def both_sides(*numbers):
    """(lhs, rhs) of the form of a reading, in fractions, on such a run."""
    made = in_one_dimension(*numbers)
    form = theorems.get(statement_of(made.variant)).form(form_of(made.variant))
    return worst_sides(form.sides_on(made.in_fractions()))[:2]


def witness_of(variant, slopes, offsets, numbers, rounds, copies=(), **more):
    data = {"variant": variant, "slopes": slopes, "offsets": offsets, **numbers, "rounds": rounds, "copies": list(copies)}
    return Witness(statement_of(variant), form_of(variant), "deterministic", "lines", to_file(data), **more)
