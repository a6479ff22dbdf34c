"""Worst cases from below: what worst functions reach, checked in fractions, and by a run of the method in fractions."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction as F

import pytest

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.worst_cases.below import Below, below, check, read
from fedtheory.worst_cases.bounds import asked, worst_case
from fedtheory.worst_cases.certificates import certificate
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.cohorts import whole_family
from fedtheory.worst_cases.functions import worst_function


def told(method, **given):
    found = worst_case(method, **given)
    return found, certificate(found).question, below(worst_function(found))


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("fedavg", {"local_steps": 2, "rounds": 2, "criterion": "best-gap", "step": F(1, 2), "heterogeneity": 0}),
        ("scaffold", {"rounds": 2, "criterion": "distance", "losses": Losses(F(2), F(1, 3)), "step": F(1, 3)}),
        ("feddyn", {"rounds": 2, "criterion": "gradient", "alpha": F(1, 3)}),
        ("subgradient", {"rounds": 3, "criterion": "best-gap"}),
    ],
)
def test_the_worst_case_lies_between_two_fractions(method, given):
    found, question, least = told(method, **given)
    check(question, least)
    assert 0 <= float(found.bound - least.value) <= 2e-6 * float(found.bound)


def test_fedavg_in_fractions():
    """Local gradient descent with these gradients, written out: the gap of the last model, and every condition of the class."""
    _, _, least = told("fedavg", local_steps=2, rounds=1, step=F(1, 2))
    mean, deviation, f = least.vectors["mean"], least.vectors["deviation"], least.values
    names = ["*", "g0.0", "g0.1", "end"]

    def client(sign, name):  # the means' space beside the deviations'
        m = mean.get(name, [F(0)] * len(mean["x0"]))
        return [*m, *(sign * x for x in deviation["g*" if name == "*" else name])]

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    ends, start = [], [*mean["x0"], *[F(0)] * len(deviation["g*"])]
    assert dot(start, start) <= 1 and dot(deviation["g*"], deviation["g*"]) <= 1
    for sign in (1, -1):
        y = [x - g / 2 for x, g in zip(start, client(sign, "g0.0"), strict=True)]
        ends.append([x - g / 2 for x, g in zip(y, client(sign, "g0.1"), strict=True)])
    end = [(a + b) / 2 for a, b in zip(*ends, strict=True)]
    for sign in (1, -1):
        y = [x - g / 2 for x, g in zip(start, client(sign, "g0.0"), strict=True)]
        at = {"*": [F(0)] * len(start), "g0.0": start, "g0.1": y, "end": end}
        for i in names:
            for j in names:
                g, h = client(sign, i), client(sign, j)
                apart = [a - b for a, b in zip(at[i], at[j], strict=True)]
                turned = [a - b for a, b in zip(g, h, strict=True)]
                assert f[i] - f[j] - dot(h, apart) - dot(turned, turned) / 2 >= 0
    assert f["end"] - f["*"] >= least.value > F(1, 10**12)


def test_what_does_not_reach_its_value():
    _, question, least = told("fedprox", mu=F(1, 2))
    with pytest.raises(NotCertified, match="the file claims"):
        check(question, replace(least, value=least.value + F(1, 10**9)))
    with pytest.raises(NotCertified, match=r"the condition (end, |g0, |\*, )"):
        check(question, replace(least, values={**least.values, "end": least.values["end"] + F(1, 10**6)}))
    far = {**least.vectors["mean"], "x0": tuple(x * F(1001, 1000) for x in least.vectors["mean"]["x0"])}
    with pytest.raises(NotCertified, match="the condition"):
        check(question, replace(least, vectors={**least.vectors, "mean": far}))
    with pytest.raises(NotCertified, match="the condition"):
        check({**question, "distance": F(1, 2)}, least)
    short = {**far, "x0": (F(1),)}
    for vectors, says in [({"mean": {}}, "block 'deviation'"), ({**least.vectors, "mean": short}, "lengths that differ")]:
        with pytest.raises(InvalidInput, match=says):
            check(question, replace(least, vectors=vectors))
    with pytest.raises(InvalidInput, match=r"values: .* missing"):
        check(question, replace(least, values={}))
    with pytest.raises(InvalidInput, match="no losses are made of it"):
        check({**question, "clients": 1, "participants": 1}, least)


def test_files_that_hold_none(tmp_path):
    path = tmp_path / "mine.json"
    assert read(path) is None
    for held in ("{", "[]", '{"in fractions": 1}'):
        path.write_text(held)
        assert read(path) is None
    head = {"question": {}}
    for numbers, says in [
        ({"vectors": [], "values": {}}, "tables of vectors"), ({"vectors": {"mean": []}, "values": {}}, "tables of vectors"),
        ({"vectors": {"mean": {"x0": 1}}, "values": {}}, "lists of coordinates"),
        ({"unit": "1/2", "vectors": {"mean": {"x0": [0.5]}}, "values": {}}, "whole multiples"),
        ({"unit": "1/2", "vectors": {}, "values": {}, "at least": "many"}, "at least"),
    ]:  # fmt: skip
        path.write_text(json.dumps({**head, "in fractions": numbers}))
        with pytest.raises(InvalidInput, match=says):
            read(path)
    path.write_text(json.dumps({**head, "in fractions": Below(F(1, 3), {"mean": {"x0": (F(1, 4),)}}, {"*": F(0)}).written()}))
    assert read(path) == ({}, Below(F(1, 3), {"mean": {"x0": (F(1, 4),)}}, {"*": F(0)}))


def test_what_a_method_adds_is_a_condition_under_cohorts_too():
    """Of each client's message a contraction holds, and of all together that control variates are near."""
    for method, options, added in [
        ("fedavg", {"contraction": F(1, 2)}, {f"<c0.1 of {k}>" for k in range(3)}), ("scaffold", {"initial": F(1, 2)}, {"<c_k>"}),
    ]:  # fmt: skip
        terms = whole_family(asked(method, {"step": F(1, 4), **options}, clients=3, participants=1)).terms
        assert added <= {name for name in terms if name.startswith("<")}
