"""FedElasticNet, Appendix B.3: the average of sign vectors, if they were independent and fair.

Probabilities are exact: every law has finitely many outcomes, which are added up in fractions. e^-x
is enclosed between fractions: a bound on record as holding is judged against the lower one, any
other against the upper one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import gcd, lcm
from typing import Any, ClassVar, Self

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.rational import fraction, simplest_each
from fedtheory.theorems.fedelasticnet.main_text import world
from fedtheory.theorems.fedelasticnet.main_text.enclosures import MOST, exp_minus
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.world import Data, signed
from fedtheory.theory import Fact, Sides, derived, eq, form, le, number, printed, whole, wrong
from fedtheory.theory.fields import Read
from fedtheory.theory.world import WorldInstance

MOST_SUMS = 40_000
FAIR = Fact(
    "every sign is 1 or -1 with probability 1/2 each",
    lambda q: q.mixed == {1: Fraction(1, 2), -1: Fraction(1, 2)},
)
SYMMETRIC = Fact(
    "every sign has a symmetric law",
    lambda q: all(law == {-v: p for v, p in law.items()} for law in q.signs),
)
ONE_LAW = Fact("the law of the signs does not depend on theta^{t-1}", lambda q: len(q.laws) == 1)
APART = Fact("independent clients", lambda q: q.copies == 1)
ALIKE = Fact("groups of clients whose signs are the same", lambda q: q.copies > 1)
EQUAL = Fact("equal weights", lambda q: len(set(q.weights)) == 1)
COUNTS = Fact("the mean has the weights n_k/n", lambda q: True)  # the instance's own

Outcomes = list[tuple[Fraction, Fraction]]  # a move in one coordinate, and its probability
COIN = [["1", [["1", "1/2"], ["-1", "1/2"]]]]


def _sign(x: Any) -> int:
    return (x > 0) - (x < 0)


def _laws(name: str, laws: Any, before: Any) -> list[tuple[Fraction, Outcomes]]:
    """Read a probability and the outcomes of each law."""
    found = []
    for weight, outcomes in laws:
        rows = [(fraction(move, "move"), fraction(p, "probability")) for move, p in outcomes]
        if sum(p for _, p in rows) != 1 or min(p for _, p in rows) < 0:
            raise InvalidInput(f"law {outcomes}: probabilities must be >= 0 and add up to 1")
        found.append((fraction(weight, "probability"), rows))
    if not found or sum(p for p, _ in found) != 1 or min(p for p, _ in found) < 0:
        raise InvalidInput("laws: their probabilities must be >= 0 and add up to 1")
    return found


@dataclass(kw_only=True)
class SignsView(world.MainTextWorld):
    """Signs of the moves of m clients in one coordinate, and in d independent ones like it.

    The server's model has one of several laws of the moves with a probability each; given the law,
    groups of clients move independently, and those of one group alike.

    Attributes
    ----------
    laws : [(probability, [(move, probability), ...]), ...]
    groups, copies : how many groups of identical clients there are, and how many clients are in each
    weights : of the groups, whole numbers; all 1 where the mean is a plain one
    delta, theta : the threshold, and theta^{t-1} in this coordinate
    d : coordinates
    """

    kind, size = "signs", 30
    about = "about the signs of the updates, if they were fair coins"
    asks = ("as many coins as the problem has clients and coordinates; n_k of its samples",)
    example = "--problem diabetes --clients 10 --given delta=1/2"
    accepts: ClassVar = {"delta": "the threshold of B.3, by default 1/10"}
    by_hand: ClassVar = {
        label: {"groups": groups, "delta": delta, "laws": COIN, **more}
        for label, groups, delta, more in (
            ("exponent", 2500, "9/50", {}),
            ("one client with nearly all samples", 3, "9/10", {"weights": ["100", "1", "1"]}),
            ("Bern(1/2)", 8, "1/4", {}),
            ("one side of the parenthesis", 1, "1/2", {"theta": "-2"}),
            ("many coordinates", 4, "9/10", {"d": 40}),
            ("unfair", 12, "1/4", {"laws": [["1", [["1", "7/8"], ["-1", "1/8"]]]]}),
            ("on either side of the optimum", 12, "1/2", {"laws": [
                ["1/2", [["1", p], ["-1", q]]] for p, q in (("9/10", "1/10"), ("1/10", "9/10"))
            ]}),
            ("identical clients", 1, "1/2", {"copies": 8}),
        )
    }  # fmt: skip

    shows: ClassVar = {"m": "m", "delta": "delta", "bound": "own_bound", "P": "above"}

    laws: list[tuple[Fraction, Outcomes]] = field(metadata={"read": Read(_laws)})
    groups: int = whole(1)
    delta: Fraction = number(above=0)
    copies: int = whole(1, default=1)
    weights: Any = number("groups", default=None)
    theta: Fraction = number(default=Fraction(0))
    d: int = whole(1, default=1)

    @classmethod
    def made(cls, laws: Any, groups: int, weights: Any, **more: Any) -> Self:
        """Check that all sums of signs can be gone through."""
        weights = [1] * groups if weights is None else weights
        if any(w.denominator != 1 or w < 1 for w in weights):
            raise InvalidInput("weights: one whole number >= 1 for each of the groups")
        outcomes = max(len([p for _, p in law if p]) for _, law in laws)
        if (outcomes > 2 or set(weights) != {1}) and groups * sum(weights) > MOST_SUMS:
            raise InvalidInput(
                f"{groups} groups with weights of sum {sum(weights)}: too many sums to add up; "
                "at most 200 by 200"
            )
        made = cls(laws=laws, groups=groups, weights=tuple(int(w) for w in weights), **more)
        if made.m * made.delta * made.delta * Fraction(11, 20) > MOST:
            raise InvalidInput(f"delta = {made.delta}: m delta^2 is at most {MOST}")
        return made

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw a law of the signs, of several groups, weights, sides or coordinates."""
        groups = int(rng.integers(1, 13))
        data: Data = {"groups": groups, "delta": Fraction(int(rng.integers(1, 20)), 20)}
        data["laws"] = [(Fraction(1), _law(rng, int(rng.integers(3))))]
        shape = int(rng.integers(7))
        if shape == 0:
            data["weights"] = [world.whole(rng, 1, 9) for _ in range(groups)]
        elif shape == 1:
            data["copies"] = int(rng.integers(2, 9))
        elif shape == 2:  # on either side of the optimum
            p, one = Fraction(int(rng.integers(0, 5)), 4), Fraction(1)
            data["laws"] = [(Fraction(1, 2), [(one, q), (-one, 1 - q)]) for q in (p, 1 - p)]
        elif shape == 3:
            data["theta"] = signed(rng, 8)
        elif shape == 4:
            data["d"] = int(rng.integers(2, 7))
        if shape in (0, 1, 3):
            data["laws"] = [(Fraction(1), _law(rng, 0))]
        return f"groups={groups}", data

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> WorldInstance:
        """Take fair coins for the problem's clients and coordinates, with n_k/n where it counts."""
        p = case.problem
        delta = simplest_each(case.given.get("delta", Fraction(1, 10)))
        if delta.shape:
            raise InvalidInput(f"delta = {case.given['delta']!r}: give one number")
        data = {"groups": p.num_clients, "d": p.dim, "delta": delta.item(), "laws": COIN}
        if COUNTS in case.form.needs:
            counts = [int(n) for n in p.sample_counts]
            weights = [n // reduce(gcd, counts) for n in counts]
            if len(set(weights)) > 1 and len(weights) * sum(weights) > MOST_SUMS:
                raise MissingCapability(
                    f"{len(weights)} clients with {sum(weights)} samples: m n is at most "
                    f"{MOST_SUMS} in fractions"
                )
            data["weights"] = [Fraction(w) for w in weights]
        return cls.instance(f"fair coins for {p.name}", data)

    @classmethod
    def apart(cls, form: Any) -> Any:
        """Forms about numbers of samples have other weights."""
        return COUNTS in form.needs

    signs = derived(
        lambda v: [v._law(outcomes, _sign) for _, outcomes in v.laws], "the laws of a sign"
    )

    @property
    def mixed(self) -> dict[int, Fraction]:
        """The law of a sign, whatever the server's model is."""
        found: dict[int, Fraction] = {}
        for (weight, _), law in zip(self.laws, self.signs, strict=True):
            for v, p in law.items():
                found[v] = found.get(v, Fraction(0)) + weight * p
        return found

    m = derived(lambda v: v.groups * v.copies)

    @staticmethod
    def _law(outcomes: Outcomes, of: Callable[[Fraction], int]) -> dict[int, Fraction]:
        """The law of a whole number that depends on the move; outcomes of probability 0 are left out."""
        found: dict[int, Fraction] = {}
        for move, p in outcomes:
            if p:
                found[of(move)] = found.get(of(move), Fraction(0)) + p
        return found

    def _sums(self, outcomes: Outcomes, of: Callable[[Fraction], int]) -> tuple[dict[int, int], int]:
        """The law of sum_k w_k X_k over the groups: how many cases give each value, and of how many."""
        law = self._law(outcomes, of)
        whole = lcm(*(p.denominator for p in law.values()))
        cases = {v: int(p * whole) for v, p in law.items()}
        n = self.groups
        if len(law) == 2 and set(self.weights) == {1}:
            (a, i), (b, j) = cases.items()
            sums, ways = {}, 1
            for k in range(n + 1):
                sums[a * k + b * (n - k)] = ways * i**k * j ** (n - k)
                ways = ways * (n - k) // (k + 1)
            return sums, whole**n
        sums = {0: 1}
        for w in self.weights:
            after: dict[int, int] = {}
            for s, count in sums.items():
                for v, more in cases.items():
                    after[s + w * v] = after.get(s + w * v, 0) + count * more
            sums = after
        return sums, whole**n

    def probability(self, event: Callable[[Fraction], bool], of: Callable[[Fraction], int] = _sign) -> Fraction:
        """P[event of the weighted mean of X_k], X_k a whole number that depends on the move."""
        total, found = sum(self.weights), Fraction(0)
        for weight, outcomes in self.laws:
            sums, whole = self._sums(outcomes, of)
            found += weight * Fraction(sum(count for s, count in sums.items() if event(Fraction(s, total))), whole)
        return found

    above = derived(
        lambda v: v.probability(lambda mean: mean > v.delta), "P[mean of the signs > delta]"
    )
    either_side = derived(
        lambda v: v.probability(lambda mean: abs(mean) > v.delta), "P[|mean of the signs| > delta]"
    )
    anywhere = derived(
        lambda v: 1 - (1 - v.either_side) ** v.d,
        "P[|mean| > delta in some of d independent coordinates]",
    )

    @property
    def as_printed(self) -> Fraction:
        """P[(1/m) sum_k sign(theta_tilde_k) - theta^{t-1} > delta], with the parenthesis where it is printed."""
        return self.probability(lambda mean: mean - self.theta > self.delta, lambda move: _sign(self.theta + move))

    of_zero_and_one = derived(
        lambda v: v.probability(lambda mean: mean > v.delta, lambda move: (1 + _sign(move)) // 2),
        "P[mean > delta] of the values 0 and 1, for the signs -1 and 1",
    )

    @property
    def about_the_mean(self) -> Fraction:
        """P[mean - its expectation > delta]."""
        (_, outcomes), *_ = self.laws
        expected = sum((v * p for v, p in self._law(outcomes, _sign).items()), start=Fraction(0))
        return self.probability(lambda mean: mean - expected > self.delta)

    effective = derived(
        lambda v: Fraction(sum(v.weights) ** 2, sum(w * w for w in v.weights)),
        "1/sum_k w_k^2 for the weights n_k/n: m where they are equal, less where they are not",
    )

    def bound(self, m: Any, upper: bool = False, half: Fraction = Fraction(1, 2)) -> Fraction:
        """A fraction just below e^(-m delta^2/2), or just above it; ``half`` stands for the 1/2."""
        return exp_minus(m * self.delta * self.delta * half)[upper]

    own_bound = derived(lambda v: v.bound(v.m))


def _law(rng: Any, how: int) -> Outcomes:
    one, half = Fraction(1), Fraction(1, 2)
    if how == 0:
        return [(one, half), (-one, half)]
    zero = Fraction(int(rng.integers(1, 4)), 4)
    up = (1 - zero) / 2 if how == 1 else (1 - zero) * Fraction(int(rng.integers(0, 5)), 4)
    return [(one, up), (-one, 1 - zero - up), (0 * one, zero)]


def _fails(v: SignsView, probability: Fraction) -> Sides:
    """Sides of probability <= e^(-m delta^2/2), against a fraction above the right side."""
    return le(probability, v.bound(v.m, upper=True))


def _bounded(name: str, sides: Callable[[Fraction], Sides], latex: str, **more: Any) -> Any:
    """Make a form that holds with 1/2 in the exponent, and not with 11/20."""
    larger = wrong("11/20 for 1/2 in the exponent", lambda: sides(Fraction(11, 20)))
    return form(name, lambda: sides(Fraction(1, 2)), latex, larger, holds=True, **more)


E, MEAN = r"e^{-m\delta^2/2}", r"\tfrac1m\sum_kX_k"
IID = (FAIR, ONE_LAW, APART, EQUAL)
SYMBOLS = {
    "X_k": "the sign of client k's move in one coordinate", "m": "SignsView.m", "delta": "SignsView.delta",
    "q": "SignsView.groups, of clients that move alike", "d": "SignsView.d", "w_k": "SignsView.weights over their sum",
}  # fmt: skip


def fair_signs(q):
    """Forms about signs that are fair, independent and of equal weights."""
    yield printed(
        lambda: _fails(q, q.as_printed),
        r"\mathbb P\Big[\tfrac1m\sum_k\mathrm{sign}(\tilde\theta_k^t)-\theta^{t-1}>\delta\Big]\le "
        + E, fails=True, needs=IID,
        note="the parenthesis closes too early: sign(theta_tilde) - theta for sign(theta_tilde - "
        "theta). With theta^{t-1} = -2 and moves of +-1 every sign is -1, and the left side is 1",
    )
    yield form(
        "printed, first equality", lambda: eq(q.as_printed, q.above),
        r"\mathbb P\Big[\tfrac1m\sum_k\mathrm{sign}(\tilde\theta_k^t)-\theta^{t-1}>\delta\Big]="
        r"\mathbb P\Big[" + MEAN + r">\delta\Big]", fails=True, needs=IID,
    )
    yield _bounded(
        "repaired", lambda half: le(q.above, q.bound(q.m, half=half)),
        r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le " + E
        + r",\quad X_k=\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})", needs=IID, proof="note",
        note="Hoeffding: E e^{s X} = cosh s <= e^{s^2/2} term by term, so P <= e^{m (s^2/2 - s "
        "delta)}, and s = delta. By the central limit theorem no number above 1/2 will do: 11/20 "
        "fails at m = 2500, delta = 9/50",
    )
    yield form(
        "Bern(1/2) with values 0 and 1", lambda: _fails(q, q.of_zero_and_one),
        r"\mathbb P\Big[\tfrac1m\sum_kB_k>\delta\Big]\le " + E
        + r",\quad B_k\sim\mathrm{Bern}(\tfrac12)", fails=True, needs=IID,
        note="section 3 speaks of Bern(1/2), whose values are 0 and 1: their mean goes to 1/2, "
        "not to 0",
    )
    yield form(
        "both sides", lambda: _fails(q, q.either_side),
        r"\mathbb P\Big[\Big|" + MEAN + r"\Big|>\delta\Big]\le " + E, fails=True, needs=IID,
        note="'a small value' is about the size; the printed bound is about one side",
    )
    yield _bounded(
        "both sides, twice", lambda half: le(q.either_side, 2 * q.bound(q.m, half=half)),
        r"\mathbb P\Big[\Big|" + MEAN + r"\Big|>\delta\Big]\le2" + E, needs=IID,
        proof="[repaired] on each side, as -X_k has the law of X_k",
    )
    yield form(
        "all coordinates", lambda: le(q.anywhere, 2 * q.bound(q.m, upper=True)),
        r"\mathbb P\Big[\max_{i\le d}\Big|\tfrac1m\sum_kX_{k,i}\Big|>\delta\Big]\le2" + E,
        fails=True, needs=IID,
        note="for one coordinate only; among d independent ones some mean is large",
    )
    yield _bounded(
        "all coordinates, d times", lambda half: le(q.anywhere, 2 * q.d * q.bound(q.m, half=half)),
        r"\mathbb P\Big[\max_{i\le d}\Big|\tfrac1m\sum_kX_{k,i}\Big|>\delta\Big]\le2d\," + E,
        needs=IID, proof="note",
        note="the sum over coordinates and sides, whatever the coordinates have to do with each "
        "other; judged where they are independent. On that event |<gamma - theta*, mean>| <= "
        "delta ||gamma - theta*||_1",
    )


@FILE.statement(
    "concentration", over=SignsView, source="Appendix B.3, and the end of section 3",
    assumptions=(
        "what each form says of the law of the signs: the paper assumes it, for a special case",
    ),
    symbols=SYMBOLS,
)
def concentration(q):
    """the average of fair signs is small with high probability"""
    yield from fair_signs(q)
    yield form(
        "identical clients", lambda: _fails(q, q.above),
        r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le " + E
        + r"\text{ for groups of clients that move alike}", fails=True,
        needs=(FAIR, ONE_LAW, ALIKE, EQUAL),
        note="clients with the same data move alike, and so do their signs: with one group the "
        "mean is 1 or -1",
    )
    yield _bounded(
        "groups", lambda half: le(q.above, q.bound(q.groups, half=half)),
        r"\mathbb P\Big[" + MEAN
        + r">\delta\Big]\le e^{-q\delta^2/2},\quad q\text{ independent groups of one size}",
        needs=(FAIR, ONE_LAW, EQUAL),
        proof="the mean is that of one sign a group: [repaired] with q for m",
    )
    yield _bounded(
        "with zeros", lambda half: le(q.above, q.bound(q.m, half=half)),
        r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le " + E
        + r",\quad X_k\in\{-1,0,1\}\text{ symmetric}",
        needs=(SYMMETRIC, ONE_LAW, APART, EQUAL), proof="note",
        note="the printed signs are +-1, but where the update is 0 so is its sign; 1 - z + z cosh "
        "s <= e^{s^2/2} too",
    )
    yield form(
        "unfair signs", lambda: _fails(q, q.above),
        r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le " + E + r"\text{ for any law of }X_k",
        fails=True, needs=(ONE_LAW, APART, EQUAL),
        note="clients that lie on one side of theirs pull the same way: the mean goes to E X, "
        "which is not 0",
    )
    yield _bounded(
        "about its mean", lambda half: le(q.about_the_mean, q.bound(q.m, half=half)),
        r"\mathbb P\Big[" + MEAN + r"-\mathbb EX_1>\delta\Big]\le " + E,
        needs=(ONE_LAW, APART, EQUAL), proof="note",
        note="Hoeffding's lemma: X_k lies in an interval of length 2",
    )
    yield form(
        "over the model", lambda: _fails(q, q.above),
        r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le " + E
        + r",\quad X_k\text{ fair, and IID given }\theta^{t-1}", fails=True,
        needs=(FAIR, APART, EQUAL),
        note="all clients start from the same theta^{t-1}: given it their signs may be IID, but "
        "not fair. With theta on either side of the optimum with probability 1/2, each sign is "
        "fair and all of them agree",
    )
    yield form(
        "weights", lambda: _fails(q, q.above),
        r"\mathbb P\Big[\sum_kw_kX_k>\delta\Big]\le " + E + r",\quad w_k=n_k/n", fails=True,
        needs=(FAIR, ONE_LAW, APART, COUNTS),
        note="one client with nearly all of the data decides alone",
    )
    yield _bounded(
        "weights, repaired", lambda half: le(q.above, q.bound(q.effective, half=half)),
        r"\mathbb P\Big[\sum_kw_kX_k>\delta\Big]\le e^{-\delta^2/(2\sum_kw_k^2)}",
        needs=(FAIR, ONE_LAW, APART, COUNTS),
        proof="as [repaired]: P <= e^{s^2 sum_k w_k^2/2 - s delta}, and s = delta/sum_k w_k^2",
    )
