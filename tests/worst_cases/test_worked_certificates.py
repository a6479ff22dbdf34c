"""Proofs small enough to be written by hand: what is accepted of them, of files, and of forms."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory.errors import DataFileError, InvalidInput, NotCertified
from fedtheory.worst_cases import below as from_below
from fedtheory.worst_cases import bounds
from fedtheory.worst_cases import certificates as files
from fedtheory.worst_cases.below import Below, at_least, below, check, read
from fedtheory.worst_cases.bounds import BOUND, WorstCase, family, worst_case
from fedtheory.worst_cases.functions import WorstFunction
from fedtheory.worst_cases.gram import Quadratic, Vector, common, inner, own, square, value
from fedtheory.worst_cases.identity import Factors, Family, factors, left_over, matrices
from fedtheory.worst_cases.numbers import Units, exact

TINY = F(1, 10**30)


def descent(step=F(1), R=F(3), **changed):
    """|x|^2 - |x - s g|^2 = 2 s (<g, x> - |g|^2) + s (2 - s) |g|^2, and <g, x> >= |g|^2."""
    asked = {
        "kind": "worst-case", "method": "fedavg", "local steps": 1, "rounds": 1,
        "criterion": "distance", "options": {"step": step}, "smoothness": F(1),
        "strong convexity": F(0), "lipschitz": None, "heterogeneity": F(1), "distance": R,
        "clients": 1, "participants": 1,
    }  # fmt: skip
    numbers = {BOUND: -R * R, "start": F(1), "*, g0.0": 2 * step, "g0.0, *": 2 * step}
    left = step * (2 - step)
    of = {"mean": Factors(("g0.0",), ((F(1),),), (left,))} if left else {}
    return files.Certificate({**asked, **changed}, {"bound": R * R}, numbers, of)


@pytest.mark.parametrize("step", [F(1), F(1, 3), F(2), F(2) - TINY, TINY])
def test_a_proof_by_hand(step, tmp_path):
    """A step of 2 leaves nothing, and then there is nothing to be factored."""
    proof = descent(step)
    files.verify(proof)
    assert files.load(files.write(tmp_path / "mine.json", proof)).multipliers == proof.multipliers
    files.verify(replace(proof, multipliers={**proof.multipliers, "heterogeneity": F(0)}))
    more = Factors(("x0", "g0.0"), ((F(1), F(0)), (F(5), F(1))), (F(0), step * (2 - step)))
    files.verify(replace(proof, factors={"mean": more, "deviation": Factors((), (), ())}))
    at_optimum = descent(step, F(0))
    without = {name: x for name, x in at_optimum.multipliers.items() if name != BOUND}
    files.verify(replace(at_optimum, multipliers=without))


def refused(proof, says, kind=NotCertified):
    with pytest.raises(kind, match=says):
        files.verify(proof)


def test_the_certificate_of_what_was_computed():
    """A bound, with its question and its kind."""
    proof = descent()
    asked = {name: x for name, x in proof.question.items() if name != "kind"}
    solution = SimpleNamespace(numbers=proof.multipliers, factors=proof.factors)
    q = SimpleNamespace(asked=asked)
    assert files.certificate(WorstCase(F(9), 9.0, solution, None, q, "")) == proof
    for other in (proof, None, "mine.json"):
        with pytest.raises(InvalidInput, match="use what worst_case"):
            files.certificate(other)
    for call in (files.verify, lambda x: files.write("mine.json", x)):
        with pytest.raises(InvalidInput, match="use a Certificate"):
            call(solution)


def test_what_is_no_proof():
    proof = descent()
    numbers, of = proof.multipliers, proof.factors["mean"]
    refused(replace(proof, claim={"bound": F(9) - TINY}), "the file claims bound = ")
    refused(replace(proof, claim={"bound": F(9), "more": F(0)}), "the file claims")
    refused(replace(proof, claim={}), "the file claims")
    lower = {**numbers, BOUND: -F(9) + TINY}
    refused(replace(proof, multipliers=lower, claim={"bound": F(9) - TINY}), "of the number")
    without = {name: x for name, x in numbers.items() if name != BOUND}
    refused(replace(proof, multipliers=without, claim={"bound": F(0)}), "-9 of the number")
    uneven = {**numbers, "*, g0.0": F(2) + TINY}
    refused(replace(proof, multipliers=uneven), "values of losses are left over, which must cancel")
    for name in ("start", "*, g0.0", "g0.0, *", "heterogeneity"):
        said = f"the multiplier of {re.escape(name)} is -1/1"
        refused(replace(proof, multipliers={**numbers, name: -TINY}), said)
    refused(replace(proof, multipliers={**numbers, "a": F(0)}), "multipliers of a:", InvalidInput)
    refused(replace(proof, factors={}), "<g0.0, g0.0> of the block 'mean' is left over")
    other = replace(of, names=("x0",))
    refused(replace(proof, factors={"mean": other}), "<g0.0, g0.0> of the block 'mean' is left ov")
    for diagonal in (F(1) + TINY, F(1) - TINY):
        short = replace(of, diagonal=(diagonal,))
        refused(replace(proof, factors={"mean": short}), "block 'mean' is not the matrix of the id")
    longer = Factors(("g0.0", "x0"), ((F(1), F(0)), (F(0), F(1))), (F(1), TINY))
    refused(replace(proof, factors={"mean": longer}), "is not the matrix")
    idle = Factors(("g*",), ((F(1),),), (TINY,))
    refused(replace(proof, factors={**proof.factors, "deviation": idle}), "'deviation' is not the")
    long_step = descent(F(2) + TINY)
    refused(long_step, "a diagonal entry of the block 'mean' is .* < 0")
    negative = Factors(("x0", "g0.0"), ((F(1), F(0)), (F(0), F(1))), (-TINY, F(1)))
    refused(replace(proof, factors={"mean": negative}), "a diagonal entry of the block 'mean'")


def test_what_the_question_of_a_proof_may_be():
    """A smaller class and a nearer start are other identities; the numbers of files have limits."""
    refused(descent(smoothness=F(1) + TINY), "block 'mean'")
    refused(descent(**{"strong convexity": TINY}), "> of the block .mean. is left over")
    refused(descent(distance=F(3) + TINY), "of the number")
    refused(descent(criterion="gap"), "values of losses are left over")
    for name in ("method", "criterion", "options", "local steps", "rounds", "distance", "clients"):
        asked = {k: v for k, v in descent().question.items() if k != name}
        refused(replace(descent(), question=asked), name.split()[0], InvalidInput)
    for name in ("smoothness", "strong convexity", "lipschitz", "heterogeneity"):
        asked = {k: v for k, v in descent().question.items() if k != name}
        found = files.asked_question(asked)
        given = (found.losses.smoothness, found.losses.strong_convexity, found.losses.lipschitz)
        by_hand = {"smoothness": (None, 0, None)}.get(name, (1, 0, None))
        assert given == by_hand
        assert found.heterogeneity == (None if name == "heterogeneity" else 1)
    bounded = files.asked_question(descent(lipschitz="7/2").question)
    assert bounded.losses.lipschitz == F(7, 2)
    refused(descent(kind="potentials"), "kind 'potentials'", InvalidInput)
    refused(descent(kind="potential"), "are forms of `one-round` now", InvalidInput)
    refused(descent(theorem="all"), "question: theorem: no part of it", InvalidInput)
    refused(descent(options=[]), "options: a table", InvalidInput)
    for name in ("local steps", "rounds", "clients", "participants"):
        for number, fine in ((1, True), (10_000, True), (0, False), (10_001, False), (True, False)):
            asked = descent(**{name: number}).question
            if fine:
                assert files.asked_question(asked).asked[name] == number
            else:
                with pytest.raises(InvalidInput, match=f"{name} = "):
                    files.asked_question(asked)


def test_a_check_has_a_minute(monkeypatch):
    seen = []

    @contextmanager
    def counted(seconds, *_):
        seen.append(seconds)
        yield

    monkeypatch.setattr(files, "ended_within", counted)
    files.verify(descent())
    assert seen == [60]


# --- files ----------------------------------------------------------------------------------------
PLAIN = {"format": files.FORMAT, "question": {}, "claim": {}, "multipliers": {}, "factors": {}}


def of_text(path, held):
    path.write_text(held if isinstance(held, str) else json.dumps(held), encoding="utf-8")
    return path


def with_factors(names, lower, diagonal):
    block = {"names": names, "lower": lower, "diagonal": diagonal}
    return {**PLAIN, "factors": {"mean": block}}


def test_factors_as_a_file_has_them(tmp_path):
    """Below the diagonal only: ones on it and nothing above are no part of a file."""
    path = tmp_path / "mine.json"
    held = with_factors(["a", "b", "c"], [[], ["1/2"], [3, "-1"]], ["4", 5, "0"])
    found = files.load(of_text(path, held))
    lower = ((F(1), F(0), F(0)), (F(1, 2), F(1), F(0)), (F(3), F(-1), F(1)))
    assert found.factors == {"mean": Factors(("a", "b", "c"), lower, (F(4), F(5), F(0)))}
    files.write(path, found)
    assert json.loads(path.read_text())["factors"] == {
        "mean": {"names": ["a", "b", "c"], "lower": [[], ["1/2"], ["3", "-1"]],
                 "diagonal": ["4", "5", "0"]},
    }  # fmt: skip
    assert "provenance" in json.loads(path.read_text())
    for names, lower, diagonal, says in [
        (["a", "a"], [[], ["1"]], ["1", "1"], "no name twice"),
        (["a", "b"], [[]], ["1", "1"], "one row and one diagonal entry"),
        (["a"], [[], ["1"]], ["1"], "one row and one diagonal entry"),
        (["a"], [[]], ["1", "1"], "one row and one diagonal entry"),
        (["a"], [[]], [], "one row and one diagonal entry"),
        (["a", "b"], [["1"], ["1"]], ["1", "1"], "row 0 has the 0 entries"),
        (["a", "b"], [[], []], ["1", "1"], "row 1 has the 1 entries"),
        (["a", "b"], [[], ["1", "1"]], ["1", "1"], "row 1 has the 1 entries"),
        (["a", "b"], [[], "1"], ["1", "1"], "row 1 has the 1 entries"),
        ("a", [[]], ["1"], "lists each"), (["a"], "1", ["1"], "lists each"),
        (["a"], [[]], "1", "lists each"), (["a"], [[]], [0.5], "diagonal = 0.5"),
        (["a", "b"], [[], [0.5]], ["1", "1"], "lower = 0.5"),
    ]:  # fmt: skip
        with pytest.raises(InvalidInput, match=says):
            files.load(of_text(path, with_factors(names, lower, diagonal)))
    with pytest.raises(InvalidInput, match="lists each"):
        files.load(of_text(path, {**PLAIN, "factors": {"mean": []}}))


def test_how_large_a_file_may_be(tmp_path):
    """Two million bytes, and ten thousand entries of a table."""
    path, short = tmp_path / "mine.json", json.dumps(PLAIN)
    files.load(of_text(path, short + " " * (2_000_000 - len(short))))
    with pytest.raises(DataFileError):
        files.load(of_text(path, short + " " * (2_000_001 - len(short))))
    for name in ("claim", "multipliers"):
        for many in (10_000, 10_001):
            of_text(path, {**PLAIN, name: dict.fromkeys(map(str, range(many)), 1)})
            if many == 10_000:
                assert len(getattr(files.load(path), name)) == many
                continue
            with pytest.raises(InvalidInput, match=f"{name} must be a table of at most 10000"):
                files.load(path)
    for name in ("question", "claim", "multipliers", "factors"):
        for held in ({**PLAIN, name: []}, {k: v for k, v in PLAIN.items() if k != name}):
            with pytest.raises(InvalidInput, match=f"{name} must be a table"):
                files.load(of_text(path, held))
    for wrong in ([], {**PLAIN, "format": "fedtheory certificate 2"}, {"format": None}):
        with pytest.raises(InvalidInput, match="this version of fedtheory reads 'fedtheory certif"):
            files.load(of_text(path, wrong))


def test_a_file_that_says_that_it_is_one(tmp_path):
    """In its first 400 bytes, of whichever version; of a folder or of nothing it is not asked."""
    path, head = tmp_path / "mine.json", '{"format": "fedtheory certificate 7"'
    said = "fedtheory certificate"
    end = head.index(said) + len(said)
    for blanks, told in ((400 - end, True), (401 - end, False)):
        assert files.is_certificate(of_text(path, " " * blanks + head)) is told
    assert not files.is_certificate(of_text(path, '{"format": "fedtheory report"'))
    assert not files.is_certificate(tmp_path) and not files.is_certificate(tmp_path / "none")
    shut = SimpleNamespace(is_file=lambda: True, open=lambda _: open(tmp_path / "none", "rb"))
    assert files.is_certificate(shut) is False
    assert files.text({"a": F(1, 3), "b": {"c": F(2)}, "d": None, "e": 4}) == {
        "a": "1/3", "b": {"c": "2"}, "d": None, "e": 4,
    }  # fmt: skip


# --- forms and their factors ----------------------------------------------------------------------
def test_what_multipliers_leave():
    """<a, b> - f less nothing; values alone, or a number alone, are no form."""
    form = Quadratic({("mean", "a", "b"): F(1)}, {"p": F(-1)}, F(2))
    terms = {"p": Quadratic({("mean", "b", "b"): F(3)}, {"p": F(1)}), "n": Quadratic(constant=F(1))}
    of = Family(form, terms, frozenset({"n"}))
    left = left_over(of, {"p": F(1), "n": F(-2)})
    assert left == Quadratic({("mean", "a", "b"): 1, ("mean", "b", "b"): 3})
    for numbers, says in [
        ({"p": F(1), "n": F(-2) + TINY}, "of the number"), ({"n": F(-2)}, "-1 of p, 0 of the"),
        ({"p": F(1) - TINY, "n": F(-2)}, "of p"), ({"p": -TINY, "n": F(-2)}, "multiplier of p is"),
        ({"p": F(1)}, "2 of the number"),
    ]:  # fmt: skip
        with pytest.raises(NotCertified, match=says):
            left_over(of, numbers)
    many = Family(Quadratic(values=dict.fromkeys("abcdefgh", F(1))), {})
    with pytest.raises(NotCertified) as error:
        left_over(many, {})
    assert str(error.value).endswith("must cancel: " + ", ".join(f"1 of {x}" for x in "abcdef"))
    idle = Family(Quadratic(), {"q": Quadratic({("mean", "a", "a"): F(1)})})
    assert left_over(idle, {"q": F(0)}) == Quadratic()
    assert left_over(idle, {"q": TINY}).gram == {("mean", "a", "a"): TINY}
    both = Quadratic({("deviation", "b", "c"): F(1), ("mean", "a", "b"): F(5)}, {"p": F(1)}, F(3))
    alone = Family(both, {"q": both}, frozenset({"q"})).of_one_client()
    of_one = Quadratic({("mean", "a", "b"): F(5)}, {"p": F(1)}, F(3))
    assert alone == Family(of_one, {"q": of_one}, frozenset({"q"}))
    assert Family(both, terms).names == {"deviation": ("b", "c"), "mean": ("a", "b")}


def test_matrices_and_factors_in_the_order_of_elimination():
    """5 first, then 14/5 before 1/5: rows b, c, a, and what was below the diagonal moves along."""
    form = {("m", "a", "a"): F(1), ("m", "a", "b"): F(4), ("m", "b", "b"): F(5)}
    form |= {("m", "b", "c"): F(2), ("m", "c", "c"): F(3)}
    matrix = matrices(Quadratic(form), {"m": "abc", "none": ()})
    assert matrix == {"m": [[1, 2, 0], [2, 5, 1], [0, 1, 3]], "none": []}
    found = factors(matrix["m"], "abc")
    lower = ((1, 0, 0), (F(1, 5), 1, 0), (F(2, 5), F(-1, 7), 1))
    assert found == Factors(("b", "c", "a"), lower, (F(5), F(14, 5), F(1, 7)))
    assert found.product() == [[5, 1, 2], [1, 3, 0], [2, 0, 1]]
    assert factors([[F(0)] * 2] * 2, "ab") == Factors(("a", "b"), ((1, 0), (0, 1)), (0, 0))
    once = [[F(1), F(1), F(2)], [F(1), F(1), F(2)], [F(2), F(2), F(4)]]
    assert factors(once, "abc").diagonal == (4, 0, 0)
    assert factors([], "") == Factors((), (), ()) and Factors((), (), ()).product() == []
    for entries in ([[-TINY]], [[0, TINY], [TINY, 0]], [[0, 0], [0, -TINY]],
                    [[1, 1, 0], [1, 1, TINY], [0, TINY, 1]], [[1, 1], [1, 1 - TINY]],
                    [[0, 0, 0], [0, 0, TINY], [0, TINY, 0]]):  # fmt: skip
        with pytest.raises(InvalidInput, match="is not positive semidefinite"):
            factors([[F(x) for x in row] for row in entries], "abc"[: len(entries)])


def test_vectors_and_forms_by_hand():
    """Coefficients that cancel leave no name; drawn parts are carried along."""
    a = Vector({"x": F(2), "y": F(1)}, {"y": F(3)}, {"z": F(5)})
    b = Vector({"x": F(-1)}, {"w": F(7)})
    assert a + 2 * b == Vector({"y": 1}, {"y": 3, "w": 14}, {"z": 5})
    assert a - b == Vector({"x": 3, "y": 1}, {"y": 3, "w": -7}, {"z": 5})
    assert -a == Vector({"x": -2, "y": -1}, {"y": -3}, {"z": -5}) and a - a == Vector()
    assert a.average == Vector({"x": 2, "y": 1}, {}, {"z": 5})
    assert a.own_part == Vector({}, {"y": 3})
    assert 0 * a == Vector() and own("u") == Vector({"u": 1}, {"u": 1})
    assert own("u", mean_zero=True) == Vector({}, {"u": 1}) and common("u") == Vector({"u": 1})
    assert inner(a, b).gram == {
        ("mean", "x", "x"): -2, ("mean", "x", "y"): -1, ("deviation", "w", "y"): 21,
    }  # fmt: skip
    assert inner(a, b) == inner(b, a)
    turned = Vector({"x": F(1), "y": F(-2)})
    assert inner(turned, Vector({"x": F(2), "y": F(1)})).gram == {
        ("mean", "x", "x"): 2, ("mean", "x", "y"): -3, ("mean", "y", "y"): -2,
    }  # fmt: skip
    assert inner(turned, Vector({"x": F(2), "y": F(4)})).gram == {
        ("mean", "x", "x"): 2, ("mean", "y", "y"): -8,
    }  # fmt: skip
    p = Quadratic({("mean", "x", "x"): F(1)}, {"p": F(2)}, F(3))
    assert p + square(common("x")) == Quadratic({("mean", "x", "x"): 2}, {"p": 2}, 3)
    assert p - 2 * value("p") == Quadratic({("mean", "x", "x"): 1}, {}, 3)
    assert p - p == Quadratic() and -p == Quadratic({("mean", "x", "x"): -1}, {"p": -2}, -3)
    assert Quadratic.total([p, F(1, 2) * p]) == F(3, 2) * p
    assert Quadratic.total([p, -p]) == Quadratic() == Quadratic.total([])


def test_units_are_put_back_exactly():
    """Positions x0, n1 in units of 2, gradients in units of 3, values in units of 6."""
    units = Units(F(2), F(3))
    sizes = {"x0": 2, "n1": 2, "n12": 2, "g0": 3, "x": 3, "x00": 3, "n": 3, "n1x": 3, "1n1": 3}
    assert {name: units.of(name) for name in sizes} == sizes
    one = Quadratic({("mean", "g0", "x0"): F(5), ("mean", "g0", "g0"): F(-7)}, {"p": F(-1, 4)})
    two = Quadratic({("mean", "x0", "x0"): F(1), ("mean", "g0", "x0"): F(-3)})
    three = Quadratic(constant=F(-11))
    changed, by, terms = units.changed(Family(one, {"two": two, "three": three}, frozenset({"a"})))
    assert by == F(6, 4) and terms == {"two": 18, "three": 11} and changed.signed == {"a"}
    gram = {("mean", "g0", "x0"): 20, ("mean", "g0", "g0"): -42}
    assert changed.start == Quadratic(gram, {"p": -1})
    assert changed.terms == {
        "two": Quadratic({("mean", "x0", "x0"): F(4, 18), ("mean", "g0", "x0"): -1}),
        "three": Quadratic(constant=F(-1)),
    }
    back = units.back({"two": F(7), "three": F(2)}, by, terms)
    assert back == {"two": F(7) * F(3, 2) / 18, "three": F(2) * F(3, 2) / 11}


def test_one_client_without_heterogeneity_in_other_units():
    """Conditions that say 0 <= 0 are left alone; gradient descent's L R^2/(4 s L + 2) is 4/3."""
    units = Units(F(2), F(3))
    assert units.changed(Family(Quadratic(), {}, frozenset()))[:2] == (Family(Quadratic(), {}), 1)
    found = worst_case("fedavg", clients=1, heterogeneity=0, distance=2, step=F(1, 4))
    assert F(4, 3) <= found.bound <= F(4, 3) * (1 + F(1, 10**6))


@pytest.mark.parametrize("number", [1e-300, 123456789.125, -0.1, 5, "1e-3", " 2/6 ", F(7, 3)])
def test_numbers_are_taken_as_they_are_written(number):
    written = number.strip() if isinstance(number, str) else str(number)
    by_hand = F(1, 3) if written == "2/6" else F(written)
    assert exact("x", number) == by_hand
    for wrong in (False, [], "1/", 1j, float("-inf")):
        with pytest.raises(InvalidInput, match=r"x = .*: it must be a finite number, such as 2"):
            exact("x", wrong)


# --- from below -----------------------------------------------------------------------------------
def reached(slope=F(1), R=F(2), step=F(1), at=None):
    """Both clients' loss is slope |x|^2/2: fedavg's gap after a step, slope (1 - s slope)^2 R^2/2.

    The end is at (1 - s slope) R, and the clients' gradients at the optimum are 0.
    """
    end = (1 - step * slope) * R
    vectors = {
        "mean": {"x0": (R,), "g0.0": (slope * R,), "end": (slope * end,)},
        "deviation": dict.fromkeys(("g*", "g0.0", "end"), (F(0),)),
    }  # fmt: skip
    values = {"*": F(0), "g0.0": slope / 2 * R * R, "end": slope / 2 * end * end}
    asked = descent(step, R, criterion="gap", clients=2, participants=2).question
    return asked, Below(values["end"] if at is None else at, vectors, values)


@pytest.mark.parametrize("slope", [F(1), F(1, 3), F(0), TINY])
def test_a_parabola_from_below(slope):
    asked, found = reached(slope, step=F(1, 2))
    check(asked, found)
    check(asked, replace(found, value=found.value - TINY))
    with pytest.raises(NotCertified, match="the file claims"):
        check(asked, replace(found, value=found.value + TINY))


def test_conditions_that_a_parabola_misses():
    """Curvatures from 0 to 1, a start at most 2 away, zeta at most 1: reached, and not passed."""
    for slope in (F(1) + TINY, -TINY):
        asked, found = reached(slope, step=F(1, 2))
        with pytest.raises(NotCertified, match=r"the condition .*, .* is missed by"):
            check(asked, found)
    asked, found = reached(step=F(1, 2))
    with pytest.raises(NotCertified, match="the condition start is missed"):
        check({**asked, "distance": F(2) - TINY}, found)
    for size, fine in ((F(1), True), (F(1) + TINY, False)):
        apart = {**found.vectors, "deviation": dict.fromkeys(("g*", "g0.0", "end"), (size,))}
        if fine:
            check(asked, replace(found, vectors=apart))
        else:
            with pytest.raises(NotCertified, match="the condition heterogeneity is missed"):
                check(asked, replace(found, vectors=apart))
    of_mopes = {"method": "mopes", "options": {"lam": "1"}, "smoothness": None, "lipschitz": 1}
    for changed in (
        {"clients": 1, "participants": 1}, {"method": "fedelasticnet-dyn", "options": {"l2": "1"}},
        {**of_mopes, "heterogeneity": None},
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="clients: no losses are made of it"):
            check({**asked, **changed}, found)
    mean = found.vectors["mean"]
    for block, says in [
        ({"x0": mean["x0"]}, "block 'mean': end, g0.0"), ({**mean, "x0": (F(2), F(0))}, "differ"),
        ({**mean, "end": ()}, "lengths that differ"),
    ]:  # fmt: skip
        with pytest.raises(InvalidInput, match=says):
            check(asked, replace(found, vectors={**found.vectors, "mean": block}))
    with pytest.raises(InvalidInput, match=r"values: \* missing"):
        check(asked, replace(found, values={k: x for k, x in found.values.items() if k != "*"}))
    with pytest.raises(InvalidInput, match="participants = 3 > clients = 2"):
        check({**asked, "participants": 3}, found)


def as_made(asked, mean, values):
    """Vectors and values of a worst function in floats, of clients that are all alike."""
    vectors = {"mean": {name: np.array([x]) for name, x in mean.items()}}
    vectors["deviation"] = {name: np.array([0.0]) for name in (*mean, "g*") if name != "x0"}
    return WorstFunction(SimpleNamespace(question=files.asked_question(asked)), None, None, 0.0, vectors, values)


def test_what_is_claimed_of_a_worst_function():
    """Twelve digits, rounded down, of (2/3)^2 2^2/6 = 8/27: curvature 1/3, and a step of 1.

    Vectors and values have sixteen.
    """
    asked = descent(F(1), F(2), criterion="gap", clients=2, participants=2).question
    mean = {"x0": 2.0, "g0.0": 2 / 3, "end": 4 / 9}
    found = below(as_made(asked, mean, {"*": 0.0, "g0.0": 2 / 3, "end": 8 / 27}))
    assert found.value == F(296296296296, 10**12)
    assert found.values["end"] == F(2962962962962963, 10**16)
    assert found.vectors["mean"]["g0.0"] == (F(6666666666666666, 10**16),)
    check(asked, found)


def test_the_least_of_several_gaps():
    """At the start 4/6, after a step of 1 (2/3)^2 of that: no loss is asked at the end of two."""
    asked = descent(F(1), F(2), criterion="best-gap", clients=2, participants=2, rounds=2).question
    mean = {"x0": 2.0, "g0.0": 2 / 3, "g1.0": 4 / 9}
    found = below(as_made(asked, mean, {"*": 0.0, "g0.0": 2 / 3, "g1.0": 8 / 27}))
    assert found.value == F(296296296296, 10**12)
    assert found.values["weights"] == found.values["g1.0"]
    check(asked, found)
    for more, says in ((TINY, "the condition weight 1 is missed"), (-TINY, None)):
        values = {**found.values, "weights": found.values["weights"] + more}
        if says is None:
            check(asked, replace(found, values=values))
        else:
            with pytest.raises(NotCertified, match=says):
                check(asked, replace(found, values=values))


def test_vectors_that_are_nothing_in_a_worst_function():
    """Without heterogeneity the gradients at the optimum are 0, and from the optimum x_0 is."""
    asked = descent(F(1), F(2), criterion="gap", heterogeneity=F(0), clients=2, participants=2)
    mean = {"x0": 2.0, "g0.0": 2 / 3, "end": 4 / 9}
    made = as_made(asked.question, mean, {"*": 0.0, "g0.0": 2 / 3, "end": 8 / 27})
    made.vectors["deviation"] = {"g0.0": np.array([0.4]), "end": np.array([4 / 15])}
    assert below(made).vectors["deviation"] == {
        "g*": (0,), "g0.0": (F(2, 5),), "end": (F(2666666666666666, 10**16),),
    }  # fmt: skip
    at_rest = descent(F(1), F(0), criterion="gap", heterogeneity=F(1, 2), clients=2, participants=2)
    made = as_made(at_rest.question, {}, {"*": 0.0})
    made.vectors["deviation"]["g*"] = np.array([0.5])
    found = below(made)
    assert found.value == 0 and found.vectors["deviation"]["g0.0"] == (F(1, 2),)
    assert found.values == {"*": 0, "g0.0": 0, "end": 0}


def test_the_criterion_is_told_once_every_condition_holds():
    """minus the bound is no condition; a term of 0 is none that is missed."""
    of = Family(
        Quadratic({("mean", "a", "b"): F(-2)}, {"p": F(3)}, F(1)),
        {BOUND: Quadratic(constant=F(5)), "a": square(common("a")) - Quadratic(constant=F(4))},
    )  # fmt: skip
    for size in (F(2), F(-2)):
        vectors = {"mean": {"a": (size, F(0)), "b": (F(3), F(5))}}
        assert at_least(of, vectors, {"p": F(7)}) == 6 * size - 22
    vectors = {"mean": {"a": (F(2), TINY), "b": (F(3), F(5))}}
    with pytest.raises(NotCertified, match="the condition a is missed by 1e-60"):
        at_least(of, vectors, {"p": F(7)})
    with pytest.raises(ValueError):
        at_least(of, {"mean": {"a": (F(1), F(1)), "b": (F(1),)}}, {"p": F(7)})


def test_numbers_from_below_in_a_file(tmp_path, monkeypatch):
    """Sixteen digits, ten thousand entries of a table, fifty million bytes."""
    _, found = reached(F(1, 4), F(2), F(1, 2))
    held = found.written()
    assert held["unit"] == "1/10000000000000000" and held["at least"] == str(found.value)
    assert held["vectors"]["mean"]["x0"] == [2 * 10**16]
    assert held["values"]["g0.0"] == 5 * 10**15
    path = of_text(tmp_path / "mine.json", {"question": {"a": 1}, "in fractions": held})
    assert read(path) == ({"a": 1}, found)
    for many in (10_000, 10_001):
        table = {str(i): 0 for i in range(many)}
        for changed in ({"values": table}, {"vectors": {"mean": {k: [] for k in table}}}):
            of_text(path, {"question": {}, "in fractions": {**held, **changed}})
            if many == 10_000:
                assert read(path) is not None
            else:
                with pytest.raises(InvalidInput, match="at most 10000 entries each"):
                    read(path)
    for changed, says in [
        ({"values": []}, "tables of"), ({"vectors": {"mean": {"a": [], "b": {}}}}, "lists of"),
        ({"vectors": {"mean": {"a": [1.0]}}}, "whole multiples"), ({"unit": 0.1}, "unit = 0.1"),
        ({"values": {"*": "1"}}, "whole multiples"), ({"at least": None}, "at least = None"),
    ]:  # fmt: skip
        of_text(path, {"question": {}, "in fractions": {**held, **changed}})
        with pytest.raises(InvalidInput, match=says):
            read(path)
    for none in ({"question": []}, {"in fractions": []}):
        assert read(of_text(path, {"question": {}, "in fractions": held, **none})) is None
    seen = []
    monkeypatch.setattr(from_below, "read_json", lambda *given: seen.append(given))
    assert read(path) is None and seen == [(path, 50_000_000)]


def test_a_question_is_of_one_client_or_of_many():
    q = bounds.asked("fedavg", {}, clients=1)
    assert set(family(q).names) == {"mean"}
    assert set(family(replace(q, clients=2, participants=2)).names) == {"mean", "deviation"}
