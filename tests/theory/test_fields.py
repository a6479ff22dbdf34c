"""Fields of a world: data that are read by what was declared of them, and what is refused of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory.errors import InvalidInput
from fedtheory.theory import Fact, Letters, World, anything, derived, eq, flag, le, number, whole, word, wrong
from fedtheory.theory.judge.symbolic import expressions, shown
from fedtheory.theory.rounds.forms import form
from fedtheory.theory.world import formula_over, letters_of


@dataclass
class Clients(World):
    """Weights, points, a run's work, and words."""

    kind, shows = "clients of a test", {"the mean": "mean", "T": "T"}
    demands = (Fact("T at most the number of clients", lambda q: len(q.weights) >= q.T),)
    letters = Letters({"c": "c", "T": "T"})

    weights: np.ndarray = number("N", "w_k", above=0, total=1)
    c: np.ndarray = number("N d", "minimisers", least=-2, below=3)
    T: int = whole(1, 3)
    work: np.ndarray = number("T N", most=5)
    scheme: str = word("A", "B")
    down: bool = flag("both ways")
    start: np.ndarray | None = number("d", default=None)
    more: object = anything(default=None)
    sense: str = word("up", "down", default="up")
    mean = derived(lambda q: q.weights @ q.c, "the mean of the minimisers (d,)")
    twice = derived(lambda q: 2 * q.c)

    def further(self, by=1):
        return self.c + by * self.T


DATA = {
    "weights": ["1/4", "3/4"], "c": [["1", "-2"], ["2", "5/2"]], "T": 2, "work": [["1", "2"], ["3", "5"]],
    "scheme": "B", "down": True,
}  # fmt: skip


def test_data_are_read_as_declared():
    q = Clients.from_data({**DATA, "start": ["7", "1/9"], "more": {"any": "thing"}})
    assert q.weights.tolist() == [F(1, 4), F(3, 4)] and q.c.tolist() == [[1, -2], [2, F(5, 2)]] and q.T == 2
    assert (q.scheme, q.down, q.start.tolist(), q.more) == ("B", True, [7, F(1, 9)], {"any": "thing"})
    assert q.mean.tolist() == [F(7, 4), F(11, 8)] and q.printed_constants() == {"the mean": [1.75, 1.375], "T": 2}
    plain = Clients.from_data(DATA)
    assert plain.start is None and plain.more is None and plain.sense == "up"
    assert Clients.from_data({**DATA, "sense": "down"}).sense == "down"
    row = Clients.from_data({**DATA, "work": ["4", "1/3"]})
    assert row.work.tolist() == [[4, F(1, 3)]] * 2


def test_long_runs_are_in_floats():
    q = Clients.from_data({**DATA, "arithmetic": "float"})
    assert q.weights.dtype == float and q.mean.tolist() == [1.75, 1.375]
    assert (q.T, q.scheme, q.down, q.start) == (2, "B", True, None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weights": ["0", "1"]}, r"weights = 0 \(w_k\): it must be > 0"),
        ({"weights": ["1/4", "1/4"]}, "weights: the numbers must sum to 1"),
        ({"weights": ["1/4", "1/4", "1/2"]}, r"c \(2, 2\) does not fit weights: it has the shape \(N, d\), with N = 3"),
        ({"c": [["1", "3"], ["1", "1"]]}, r"c = 3 \(minimisers\): it must be < 3"),
        ({"c": [["1", "-21/10"], ["1", "1"]]}, r"c = -21/10 \(minimisers\): it must be >= -2"),
        ({"sense": "left"}, "sense = 'left': use up, down"),
        ({"T": 0}, "T = 0: expected a whole number from 1 to 3"), ({"T": 4}, "T = 4"), ({"T": "2"}, "T = '2'"),
        ({"T": 1}, r"work \(2, 2\) does not fit weights, c, T: it has the shape \(T, N\), with T = 1"),
        ({"work": [["1", "6"]] * 2}, "work = 6: it must be <= 5"), ({"work": []}, "expected a list"),
        ({"T": 3, "work": ["1", "1"]}, "the data of 'clients of a test' must have T at most the number of clients"),
        ({"scheme": "C"}, "scheme = 'C': use A, B"), ({"down": 1}, "down = 1: write true or false"), ({"start": ["1"]}, "start"),
        ({"c": [["1.5e3", "1"]] * 2}, "is not a fraction"),
    ],
)  # fmt: skip
def test_data_are_refused_at_their_limits(change, said):
    with pytest.raises(InvalidInput, match=said):
        Clients.from_data({**DATA, **change})


def test_what_is_missing_is_named():
    with pytest.raises(InvalidInput, match=r"down \(both ways\) is missing: give weights, c, T, work, scheme, down"):
        Clients.from_data({k: v for k, v in DATA.items() if k != "down"})


def test_data_may_be_others_than_the_fields():
    class Halves(World):
        kind, reads = "halves of a test", {"x": number("n", above=0)}

        def __init__(self, half):
            self.half = half

        @classmethod
        def made(cls, x):
            return cls(x / 2)

    assert Halves.from_data({"x": ["3"]}).half.tolist() == [F(3, 2)]
    with pytest.raises(InvalidInput, match="x = 0: it must be > 0"):
        Halves.from_data({"x": ["0"]})


def test_formulas_run_a_worlds_own_methods_on_letters():
    sides = lambda q: le(q.twice, q.further(3))  # noqa: E731
    assert shown(sides, Clients.letters, "", "") == r"2 c\le 3 T + c"


@dataclass
class Steps(World):
    """A run, of which formulas are made: with letters, and of single numbers by their names."""

    kind, letters, S = "steps of a test", {"sq": r"\|{}\|^2"}, 1

    mu: object = number(above=0)
    tau_0: int = whole()
    noise: object = number(letter=r"\sigma^2")
    root: object = number(letter=lambda q: q.epsilon ** F(1, 2))
    h: np.ndarray = number("d")
    w: np.ndarray = number("d", letter=r"\omega_<t>")
    epsilon = derived(lambda q: q.root**2, letter=r"\epsilon")
    rate = derived(lambda q: 1 - q.mu * q.S)

    def sq(self, x):
        return x * x

    def both(self):
        return self.rate * self.root


STEPS = {"mu": "1/3", "tau_0": 2, "noise": "5", "root": "7", "h": ["1"] * 3, "w": ["2", "3", "11"]}


@pytest.mark.parametrize(
    ("sides", "shown"),
    [
        (lambda q: le(q.mu, q.tau_0), r"\mu\le \tau_0"),
        (lambda q: le(q.noise * q.mu, 2 * q.both()), r"\mu \sigma^2\le 2 \sqrt{\epsilon} \left(1 - \mu\right)"),
        (lambda q: le(q.sq(q.w[1:]), q.sq(q.w[:-1]), q.noise), r"\|\omega_t\|^2\le \|\omega_{t-1}\|^2+\sigma^2"),
        (lambda q: eq(q.w[0], 3 * q.mu), r"\omega_0=3 \mu"), (lambda q: le(q.h.sum(), q.mu), ""),
        (lambda q: le(1 if q.mu > q.noise else 2, q.mu), ""), (lambda q: le(q.other, q.mu), ""),
    ],
)  # fmt: skip
def test_a_worlds_formulas_are_made_of_its_fields_or_there_is_none(sides, shown):
    assert formula_over(Steps, sides, "", "") == shown


def test_code_that_branches_has_no_formula_although_it_runs_on_letters():
    @dataclass
    class Drawn(Steps):
        kind = "drawn steps of a test"

        @classmethod
        def draw(cls, rng):
            return "one", STEPS

    def branches(q):
        return le(q.mu if q.tau_0 == 2 else 3 * q.mu, q.noise)

    assert formula_over(Drawn, branches, "", "") == ""
    assert formula_over(Drawn, lambda q: le(3 * q.mu, q.noise), "", "") == r"3 \mu\le \sigma^2"
    assert formula_over(Drawn, lambda q: le(q.sq(q.w[1:]), q.rate, q.noise), "", "") == r"\|\omega_t\|^2\le 1 - \mu+\sigma^2"
    assert formula_over(Steps, branches, "", "") == r"3 \mu\le \sigma^2"  # of which no instance is drawn


def test_the_letters_of_a_world_have_its_numbers():
    """Of those states, and of what a method gives, that a formula asked for."""
    letters, view = Letters(letters_of(Steps)._latex, of=Steps), Steps.from_data(STEPS)
    expressions(lambda q: le(q.sq(q.w[1:] - 2 * q.w[0]), q.w[:-1]), letters)
    found = {s.latex: np.asarray(v).tolist() for s, v in letters.values(view).items()}
    assert found == {
        r"\mu": F(1, 3), r"\tau_0": 2, r"\sigma^2": 5, r"\epsilon": 49, r"\omega_t": [3, 11], r"\omega_{t-1}": [2, 3],
        r"\omega_0": 2, r"\|\omega_t - 2 \omega_0\|^2": [1, 49],
    }  # fmt: skip


def test_an_index_of_two_is_of_a_round_and_of_a_step_in_it():
    letters = Letters({"v": r"v_<i>(<t>)"})
    at = [letters.v[i].latex for i in (slice(None), np.s_[:-1, 1:], np.s_[1:, :-1], np.s_[0, 2])]
    assert at == ["v_i(t)", "v_{i+1}(t-1)", "v_i(t)", "v_2(0)"]


def test_letters_of_what_an_attribute_is():
    """A view's compressor has letters of its own; what a view lacks, or has as None, is left out."""
    inner = Letters({"step": r"\Delta", "levels": "s"})
    letters = Letters({"n": "n", "k": "k", "compressor": inner})
    assert shown(lambda q: le(q.n, q.compressor.step), letters, "", "") == r"n\le \Delta"
    view = SimpleNamespace(n=3, compressor=SimpleNamespace(step=F(1, 2), levels=None))
    assert letters.values(view) == {letters.n: 3, inner.step: F(1, 2)}


# --- wrong variants by what they change -----------------------------------------------------------
def test_a_wrong_variant_changes_what_the_sides_are_called_with():
    def sides(factor=2, plus=0):
        return le(factor * np.array([F(3)]) + plus, np.array([F(6)]))

    claimed = form("any", sides, "", wrong("three times", factor=3, plus=1))
    (mutant,) = claimed.mutants
    assert claimed.sides().lhs.tolist() == [6] and mutant.sides().lhs.tolist() == [10]


def test_a_change_needs_sides_that_are_a_function():
    made = eq(np.array([F(1)]), np.array([F(1)]))
    with pytest.raises(InvalidInput, match="a wrong variant changes rest: give the form sides that are a function of it"):
        form("any", made, "", wrong("without it", rest=0))
    with pytest.raises(InvalidInput, match="'both' has sides of its own and changes rest: give one of them"):
        wrong("both", made, rest=0)
