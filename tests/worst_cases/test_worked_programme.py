"""Programmes whose answers are known, and every step from them to fractions, by hand."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory.errors import NotCertified
from fedtheory.worst_cases import programme
from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import NoMultipliers, check, maximise, optimum

NONE = frozenset()


def form(constant=0, values=(), **entries):
    """x_y=2 is 2 <x, y> of the block mean, X_Y=2 of the other one."""
    gram = {}
    for name, number in entries.items():
        x, y = name.lower().split("_")
        gram["mean" if name.islower() else "deviation", x, y] = F(number)
    return Quadratic(gram, {p: F(c) for p, c in dict(values).items()}, F(constant))


def rounded(floats, *equations, signed=()):
    exact = [({n: F(c) for n, c in row.items()}, F(right)) for row, right in equations]
    return programme._rounded(floats, exact, frozenset(signed))


# --- rounding -------------------------------------------------------------------------------------
def test_numbers_are_rounded_to_ten_digits():
    assert rounded({"a": 1 / 3, "b": 2.0}) == {"a": F(3333333333, 10**10), "b": 2}
    assert rounded({"a": -1e-11, "b": -0.5, "c": 1e-11}, signed=["b"]) == {"b": F(-1, 2)}
    assert rounded({"a": -0.5, "b": 0.25}) == {"b": F(1, 4)}, "one that is negative is 0"


def test_equations_hold_exactly_after_rounding():
    """The largest number of each equation is what the others leave."""
    floats = {"a": 1 / 3, "b": 2 / 3 + 1e-9, "c": 1 / 7, "d": 5 / 7, "e": 11 / 9}
    equations = [
        ({"a": 1, "b": 1}, 1), ({"b": 2, "c": -3, "d": 5}, F(100, 21) - F(1, 3)),
        ({"a": 3, "b": -1, "e": 2, "d": F(1, 2)}, 3),
    ]  # fmt: skip
    found = rounded(floats, *equations)
    for row, right in equations:
        assert sum(c * found[name] for name, c in row.items()) == right
    assert found["a"] == F(3333333333, 10**10) and found["c"] == F(1428571429, 10**10)
    assert found["b"] == 1 - found["a"]
    assert found["d"] == (right_of(equations[1]) - 2 * found["b"] + 3 * found["c"]) / 5
    assert all(abs(found[n] - F(x)) < F(1, 10) for n, x in floats.items())


def test_what_an_equation_says_of_is_put_into_those_before_it():
    """a = (13 - 3 b - c)/2, then b = (19/2 - 3 c - 5 d)/2."""
    floats = {"a": 3.0, "b": 2.0, "c": 1.0 + 1e-9, "d": 0.5 + 1e-9}
    found = rounded(floats, ({"a": 2, "b": 3, "c": 1}, 13), ({"b": 2, "c": 3, "d": 5}, F(19, 2)))
    c, d = 1 + F(1, 10**9), F(1, 2) + F(1, 10**9)
    b = (F(19, 2) - 3 * c - 5 * d) / 2
    assert found == {"a": (13 - 3 * b - c) / 2, "b": b, "c": c, "d": d}


def right_of(equation):
    return F(equation[1])


def test_an_equation_that_follows_from_others_changes_nothing():
    two = rounded({"a": 0.5, "b": 0.25}, ({"a": 1, "b": 2}, 1), ({"a": 2, "b": 4}, 2))
    assert two == {"a": F(1, 2), "b": F(1, 4)}


def test_a_number_that_an_equation_makes_negative_is_no_multiplier():
    """a = 1 - b; at b = 1 it is 0, which is none that is written, beyond it negative."""
    for b, found in ((1.0, {"b": 1}), (1.0 + 1e-9, None)):
        assert rounded({"a": 2.0, "b": b}, ({"a": 1, "b": 1}, 1)) == found
        signed = rounded({"a": 2.0, "b": b}, ({"a": 1, "b": 1}, 1), signed=["a"])
        assert signed == {n: x for n, x in {"a": 1 - F(str(b)), "b": F(str(b))}.items() if x}


# --- reductions -----------------------------------------------------------------------------------
def test_values_constants_and_rows_without_a_square_give_equations():
    """2 <a, b> + <b, c> without <b, b>: b must vanish from the matrix, a and c stay."""
    start = form(3, {"p": 2}, a_a=1, a_b=2, C_C=1)
    terms = {"m": form(-1, {"p": -1, "q": 5}, b_c=3, c_c=1), "n": form(0, {"q": F(1, 2)}, a_b=-4)}
    rows, equations = programme._faces(Family(start, terms, NONE))
    assert rows == {"mean": ("a", "c"), "deviation": ("c",)}
    assert sorted(equations, key=str) == sorted(
        [
            ({"m": -1}, -2), ({"m": 5, "n": F(1, 2)}, 0), ({"m": -1}, -3), ({"n": -4}, -2),
            ({"m": 3}, 0),
        ], key=str,
    )  # fmt: skip


def zeros(*equations, signed=()):
    names = {name for row, _ in equations for name in row}
    family = Family(Quadratic(), dict.fromkeys(names, Quadratic()), frozenset(signed))
    exact = [({n: F(c) for n, c in row.items()}, F(right)) for row, right in equations]
    return programme._zeros(family, exact)


def test_numbers_that_add_up_to_nothing_are_none():
    """a + b = 0, so that c alone is 0 as well; d - e = 0 says nothing, nor does f + g = 1."""
    left, zero = zeros(
        ({"a": 1, "b": 2}, 0), ({"a": 5, "c": -1}, 0), ({"d": 1, "e": -1}, 0), ({"f": 1, "g": 1}, 1)
    )
    assert zero == {"a", "b", "c"}
    assert left == [({"d": 1, "e": -1}, 0), ({"f": 1, "g": 1}, 1)]
    assert zeros(({"a": 1, "b": 2}, 0), signed=["b"]) == ([({"a": 1, "b": 2}, 0)], set())
    assert zeros(({"a": -1, "b": -2}, 0))[1] == {"a", "b"}
    assert zeros(({"a": F(1, 2), "b": F(-1, 2)}, 0))[1] == set()
    assert zeros(({"a": 1, "b": 1}, 0), ({"c": 2, "d": 1}, 0))[1] == {"a", "b", "c", "d"}


def test_equations_that_cannot_hold():
    with pytest.raises(NoMultipliers, match="cannot hold"):
        zeros(({"a": 1}, 0), ({"a": 2}, 1))
    with pytest.raises(NoMultipliers, match="contradict"):
        zeros(({"a": 1, "b": -1}, 1), ({"a": 2, "b": -2}, 3))
    assert zeros(({"a": 1}, 0), ({"a": 2}, 0)) == ([], {"a"})


def test_equations_that_follow_from_others_are_left_out():
    one, two = ({"a": F(1), "b": F(2)}, F(3)), ({"b": F(1), "c": F(-1)}, F(1))
    both = ({"a": F(2), "b": F(7), "c": F(-3)}, F(9))  # 2 one + 3 two
    other = ({"a": F(2), "b": F(7), "c": F(-2)}, F(9))
    assert programme._independent([one, two, both]) == [one, two]
    apart = ({"a": F(1), "c": F(2)}, F(1))  # one - 2 two
    assert programme._independent([one, two, apart]) == [one, two]
    assert programme._independent([apart, two, one]) == [apart, two]
    assert programme._independent([both, one, two]) == [both, one]
    assert programme._independent([one, two, other]) == [one, two, other]
    with pytest.raises(NoMultipliers, match="contradict"):
        programme._independent([one, two, (both[0], F(10))])


def test_a_matrix_of_a_block():
    q = form(0, {"p": 1}, a_a=5, a_b=3, B_B=7, b_c=11)
    assert programme._dense(q, "mean", ("a", "b")).tolist() == [[5, 1.5], [1.5, 0]]
    assert programme._dense(q, "mean", ("b", "a")).tolist() == [[0, 1.5], [1.5, 5]]
    assert programme._dense(q, "deviation", ("b",)).tolist() == [[7]]


# --- whole programmes -----------------------------------------------------------------------------
def matrix_family(a, b, c):
    """a x^2 + 2 b x y + (c - n) y^2."""
    return Family(form(x_x=a, x_y=2 * b, y_y=c), {"n": form(y_y=-1)}, frozenset({"n"}))


@pytest.mark.parametrize(("a", "b", "c"), [(2, 3, 7), (1, F(1, 2), -4), (F(1, 3), 0, 5)])
def test_the_largest_number_that_leaves_a_matrix_definite(a, b, c):
    """c - b^2/a, to a part in ten million; what is proved is no larger."""
    family, most = matrix_family(a, b, c), F(c) - F(b) ** 2 / F(a)
    found = maximise(family, "n")
    assert found.best == pytest.approx(float(most), rel=1e-8)
    assert 0 <= most - found.numbers["n"] <= abs(most) * F(2, 10**7)
    assert optimum(family, "n") == found.best
    names, gram = found.rows["mean"], found.gram["mean"]
    worst = np.array([-F(b) / F(a), 1], dtype=float)[[("x", "y").index(n) for n in names]]
    np.testing.assert_allclose(gram, np.outer(worst, worst), rtol=1e-3, atol=1e-3)
    check(family, {"n": most})
    with pytest.raises(NotCertified):
        check(family, {"n": most + F(1, 10**30)})


def test_a_number_whose_best_is_nothing_is_found_to_a_part_of_the_scale():
    """n <= 0: with a scale of 1 a ten-millionth below, and with none nothing can be given way."""
    family = matrix_family(1, 0, 0)
    found = maximise(family, "n", 1.0)
    assert F(-2, 10**7) <= found.numbers.get("n", F(0)) <= 0


@pytest.mark.parametrize(
    ("best", "scale", "size"),
    [(2.0, 0.0, 2), (-3.0, 1.0, 3), (0.5, 4.0, 4), (0.01, None, 0.01)],
)
def test_how_much_is_given_way_to_rounding(best, scale, size, monkeypatch):
    """A part in 10^8 of the larger one, ten times more, up to 10^-4; then it is not certified."""
    levels, guesses = [], []

    def none(_, level):
        levels.append(level)

    monkeypatch.setattr(programme._Numeric, "best", lambda _: (best, {}, {"n": 7.0}))
    monkeypatch.setattr(programme._Numeric, "inside", none)
    monkeypatch.setattr(programme, "_rounded", lambda floats, *_: guesses.append(floats))
    with pytest.raises(NotCertified, match="could not be rounded"):
        maximise(matrix_family(1, 0, 0), "n", *([] if scale is None else [scale]))
    by_hand = [best - size * room for room in (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)]
    assert levels == pytest.approx(by_hand, rel=1e-12) and guesses == [{"n": 7.0}] * 5


@pytest.mark.parametrize(("a", "slack"), [(3, 1), (F(1, 2), F(1, 2)), (-2, -2)])
def test_matrices_far_from_singular(a, slack):
    """The least of a, 5 - n = 4 and 1 is taken from both diagonal entries."""
    family = matrix_family(a, 0, 5)
    numeric = programme._reduced(family, "n")[0]
    assert numeric.inside(1.0) == pytest.approx({"n": 1.0}, abs=1e-7)
    assert float(numeric.slack.value) == pytest.approx(float(slack), abs=1e-6)
    fixed = Family(form(1, x_x=a, y_y=5), {**family.terms, "m": form(-1)}, frozenset({"n"}))
    assert programme._reduced(fixed, "m")[0].inside(2.0) is None, "m can only be 1"


def test_what_is_inside_is_tried_first(monkeypatch):
    """Of two guesses the first that is proved is taken, not the best: its matrix is singular."""
    tried = []

    def rounds(floats, *_):
        tried.append(floats)
        return {"n": F(floats["n"])}

    monkeypatch.setattr(programme._Numeric, "best", lambda _: (2.0, {}, {"n": 2.0}))
    monkeypatch.setattr(programme._Numeric, "inside", lambda *_: {"n": 1.0})
    monkeypatch.setattr(programme, "_rounded", rounds)
    assert maximise(matrix_family(1, 0, 2), "n").numbers == {"n": 1} and tried == [{"n": 1.0}]


def test_what_has_no_multipliers():
    """-y^2 - m y^2 is never at least 0, and n <= m is without a largest n."""
    with pytest.raises(NoMultipliers, match="solver says infeasible"):
        maximise(Family(form(y_y=-1), {"n": form(y_y=-1)}, NONE), "n")
    free = Family(form(y_y=1), {"n": form(y_y=-1), "m": form(y_y=1)}, NONE)
    with pytest.raises(NoMultipliers, match="unbounded"):
        maximise(free, "n")


def test_multipliers_that_are_not_signed_are_at_least_nothing():
    """n + m = 1 with m >= 0: n is at most 1, and less where m must be a half."""
    plain = {"n": form(-1), "m": form(-1, y_y=1)}
    family = Family(form(1, x_x=1), plain, frozenset({"n"}))
    assert 1 - F(2, 10**8) <= maximise(family, "n").numbers["n"] <= 1
    half = Family(form(1, y_y=F(-1, 2)), plain, frozenset({"n"}))
    assert float(maximise(half, "n").numbers["n"]) == pytest.approx(0.5, abs=1e-6)


def test_vectors_that_are_left_out_must_not_appear():
    family = Family(form(x_x=1, y_y=1, x_y=1), {"n": form(x_y=-1)}, NONE)
    check(family, {"n": F(1)}, {"mean": ("x", "y")})
    for numbers in ({"n": F(1)}, {}):
        with pytest.raises(NotCertified, match="left over"):
            check(family, numbers, {"mean": ("x",)})
    with pytest.raises(NotCertified, match="left over"):
        check(family, {"n": F(1)}, {})
    for left, block in ((form(x_x=1, x_y=1), "mean"), (form(X_X=1, X_Y=1), "deviation")):
        for kept in ("x", "y"):
            with pytest.raises(NotCertified, match="left over"):
                check(Family(left, {}, NONE), {}, {block: (kept,)})
