"""FedElasticNet, Appendix B.3: the average of sign vectors, if they were independent and fair.

Probabilities are exact: every law has finitely many outcomes, which are added up in fractions. e^-x
is enclosed between fractions: a bound on record as holding is judged against the lower one, any
other against the upper one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, integer, vector
from fedtheory.theorems.fedelasticnet.main_text.enclosures import MOST, exp_minus
from fedtheory.theorems.fedelasticnet.main_text.notation import BUILDERS, COUNTS, statement
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = ["STATEMENTS", "SignsView", "signs_view"]

FAIR, SYMMETRIC = "every sign is 1 or -1 with probability 1/2 each", "every sign has a symmetric law"
ONE_LAW, APART = "the law of the signs does not depend on theta^{t-1}", "independent clients"
ALIKE = "groups of clients whose signs are the same"
EQUAL = "equal weights"

Outcomes = list[tuple[Fraction, Fraction]]  # a client's move in one coordinate, and its probability


def _sign(x: Any) -> int:
    return (x > 0) - (x < 0)


@dataclass
class SignsView(ClosedView):
    """Signs of the moves of m clients in one coordinate, and in d independent ones like it.

    The server's model has one of several laws of the moves with a probability each; given the law, groups of clients move
    independently, and those of one group alike.

    Attributes
    ----------
    laws : [(probability, [(move, probability), ...]), ...]
    groups, copies : how many groups of identical clients there are, and how many clients are in each
    weights : of the groups, whole numbers; all 1 where the mean is a plain one
    delta, theta : the threshold, and theta^{t-1} in this coordinate
    d : coordinates
    """

    laws: list[tuple[Fraction, Outcomes]]
    groups: int
    copies: int
    weights: tuple[int, ...]
    delta: Fraction
    theta: Fraction
    d: int

    @cached_property
    def facts(self) -> frozenset[str]:  # type: ignore[override]
        """The facts that hold of this instance."""
        signs = [self._law(outcomes, _sign) for _, outcomes in self.laws]
        mirrored = [{-v: p for v, p in law.items()} for law in signs]
        facts = {ONE_LAW} if len(self.laws) == 1 else set()
        facts |= {APART} if self.copies == 1 else {ALIKE}
        facts |= {EQUAL} if len(set(self.weights)) == 1 else set()
        facts |= {COUNTS}
        facts |= {SYMMETRIC} if signs == mirrored else set()
        mixed: dict[int, Fraction] = {}
        for (weight, _), law in zip(self.laws, signs, strict=True):
            for v, p in law.items():
                mixed[v] = mixed.get(v, Fraction(0)) + weight * p
        facts |= {FAIR} if mixed == {1: Fraction(1, 2), -1: Fraction(1, 2)} else set()
        return frozenset(facts)

    @property
    def m(self) -> int:
        return self.groups * self.copies

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

    @cached_property
    def above(self) -> Fraction:
        """P[mean of the signs > delta]."""
        return self.probability(lambda mean: mean > self.delta)

    @cached_property
    def apart(self) -> Fraction:
        """P[|mean of the signs| > delta]."""
        return self.probability(lambda mean: abs(mean) > self.delta)

    @property
    def anywhere(self) -> Fraction:
        """P[|mean| > delta in some of d independent coordinates]."""
        return 1 - (1 - self.apart) ** self.d

    @property
    def as_printed(self) -> Fraction:
        """P[(1/m) sum_k sign(theta_tilde_k) - theta^{t-1} > delta], with the parenthesis where it is printed."""
        return self.probability(lambda mean: mean - self.theta > self.delta, lambda move: _sign(self.theta + move))

    @property
    def of_zero_and_one(self) -> Fraction:
        """P[mean > delta] of the values 0 and 1, for the signs -1 and 1."""
        return self.probability(lambda mean: mean > self.delta, lambda move: (1 + _sign(move)) // 2)

    @property
    def about_the_mean(self) -> Fraction:
        """P[mean - its expectation > delta]."""
        (_, outcomes), *_ = self.laws
        expected = sum((v * p for v, p in self._law(outcomes, _sign).items()), start=Fraction(0))
        return self.probability(lambda mean: mean - expected > self.delta)

    @property
    def effective(self) -> Fraction:
        """1/sum_k w_k^2 for the weights n_k/n: m where they are equal, less where they are not."""
        return Fraction(sum(self.weights) ** 2, sum(w * w for w in self.weights))

    def bound(self, m: Any, upper: bool = False, half: Fraction = Fraction(1, 2)) -> Fraction:
        """A fraction just below e^(-m delta^2/2), or just above it; ``half`` stands for the 1/2."""
        return exp_minus(m * self.delta * self.delta * half)[upper]

    def printed_constants(self) -> dict[str, Any]:
        return {"m": self.m, "delta": float(self.delta), "bound": float(self.bound(self.m)), "P": float(self.above)}


@BUILDERS.add("signs")
def signs_view(data: dict[str, Any]) -> SignsView:
    """From laws, delta, groups, and where they are not 1, 1, 1 and 0: copies, weights, d, theta."""
    laws = []
    for weight, outcomes in data["laws"]:
        rows = [(fraction(move, "move"), fraction(p, "probability")) for move, p in outcomes]
        if sum(p for _, p in rows) != 1 or min(p for _, p in rows) < 0:
            raise InvalidInput(f"law {outcomes}: probabilities must be >= 0 and add up to 1")
        laws.append((fraction(weight, "probability"), rows))
    if not laws or sum(p for p, _ in laws) != 1 or min(p for p, _ in laws) < 0:
        raise InvalidInput("laws: their probabilities must be >= 0 and add up to 1")
    groups = integer(data["groups"], "groups", 1)
    copies, d = integer(data.get("copies", 1), "copies", 1), integer(data.get("d", 1), "d", 1)
    weights = vector(data["weights"], "weights") if "weights" in data else [Fraction(1)] * groups
    if len(weights) != groups or any(w.denominator != 1 or w < 1 for w in weights):
        raise InvalidInput(f"weights: one whole number >= 1 for each of {groups} groups")
    outcomes = max(len([p for _, p in law if p]) for _, law in laws)
    if (outcomes > 2 or set(weights) != {1}) and groups * sum(weights) > 40_000:
        raise InvalidInput(f"{groups} groups with weights of sum {sum(weights)}: too many sums to add up; at most 200 by 200")
    delta = fraction(data["delta"], "delta")
    if not delta > 0 or groups * copies * delta * delta * Fraction(11, 20) > MOST:
        raise InvalidInput(f"delta = {delta}: it must be > 0, and m delta^2 at most {MOST}")
    plain = tuple(int(w) for w in weights)
    return SignsView(laws, groups, copies, plain, delta, fraction(data.get("theta", 0), "theta"), d)


def _at_most(probability: Callable[[SignsView], Any], m: Callable[[SignsView], Any],
factor: Callable[[SignsView], Any]) -> Any:
    """(judge, mutant) of probability <= factor e^(-m delta^2/2), for a form that holds."""

    def sides(v: SignsView, half: Fraction = Fraction(1, 2)) -> Sides:
        return le(probability(v), factor(v) * v.bound(m(v), half=half))

    return sides, ("11/20 for 1/2 in the exponent", lambda v: sides(v, Fraction(11, 20)))


def _fails(probability: Callable[[SignsView], Any]) -> Callable[[SignsView], Sides]:
    """probability <= e^(-m delta^2/2), judged against a fraction above the right side."""
    return lambda v: le(probability(v), v.bound(v.m, upper=True))


def _one(v: SignsView) -> int:
    return 1


REPAIRED = _at_most(lambda v: v.above, lambda v: v.m, _one)
TWO_SIDED = _at_most(lambda v: v.apart, lambda v: v.m, lambda v: 2)
EVERYWHERE = _at_most(lambda v: v.anywhere, lambda v: v.m, lambda v: 2 * v.d)
GROUPED = _at_most(lambda v: v.above, lambda v: v.groups, _one)
ABOUT_ITS_MEAN = _at_most(lambda v: v.about_the_mean, lambda v: v.m, _one)
WEIGHTED = _at_most(lambda v: v.above, lambda v: v.effective, _one)
E, MEAN = r"e^{-m\delta^2/2}", r"\tfrac1m\sum_kX_k"
IID = (FAIR, ONE_LAW, APART, EQUAL)
SYMBOLS = {
    "X_k": "the sign of client k's move in one coordinate", "m": "SignsView.m", "delta": "SignsView.delta",
    "q": "SignsView.groups, of clients that move alike", "d": "SignsView.d", "w_k": "SignsView.weights over their sum",
}  # fmt: skip

STATEMENTS = (
    statement(
        "concentration", "the average of fair signs is small with high probability",
        "Appendix B.3, and the end of section 3", "signs",
        form(
            "printed", r"\mathbb P\Big[\tfrac1m\sum_k\mathrm{sign}(\tilde\theta_k^t)-\theta^{t-1}>\delta\Big]\le " + E,
            _fails(lambda v: v.as_printed), "violated", needs=IID,
            note="the parenthesis closes too early: sign(theta_tilde) - theta for sign(theta_tilde - theta). With "
            "theta^{t-1} = -2 and moves of +-1 every sign is -1, and the left side is 1",
        ),
        form(
            "printed, first equality",
            r"\mathbb P\Big[\tfrac1m\sum_k\mathrm{sign}(\tilde\theta_k^t)-\theta^{t-1}>\delta\Big]=\mathbb P\Big["
            + MEAN + r">\delta\Big]", lambda v: eq(v.as_printed, v.above), "violated", needs=IID,
        ),
        form(
            "repaired",
            r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le " + E + r",\quad X_k=\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})",
            REPAIRED[0], "holds", REPAIRED[1], needs=IID,
            note="Hoeffding: E e^{s X} = cosh s <= e^{s^2/2} term by term, so P <= e^{m (s^2/2 - s delta)}, and s = "
            "delta. By the central limit theorem no number above 1/2 will do: 11/20 fails at m = 2500, delta = 9/50",
            proof="note",
        ),
        form(
            "Bern(1/2) with values 0 and 1",
            r"\mathbb P\Big[\tfrac1m\sum_kB_k>\delta\Big]\le " + E + r",\quad B_k\sim\mathrm{Bern}(\tfrac12)",
            _fails(lambda v: v.of_zero_and_one), "violated", needs=IID,
            note="section 3 speaks of Bern(1/2), whose values are 0 and 1: their mean goes to 1/2, not to 0",
        ),
        form(
            "both sides", r"\mathbb P\Big[\Big|" + MEAN + r"\Big|>\delta\Big]\le " + E, _fails(lambda v: v.apart),
            "violated", needs=IID,
            note="'a small value' is about the size; the printed bound is about one side",
        ),
        form(
            "both sides, twice", r"\mathbb P\Big[\Big|" + MEAN + r"\Big|>\delta\Big]\le2" + E, TWO_SIDED[0], "holds",
            TWO_SIDED[1],
            needs=IID,
            proof="[repaired] on each side, as -X_k has the law of X_k",
        ),
        form(
            "all coordinates", r"\mathbb P\Big[\max_{i\le d}\Big|\tfrac1m\sum_kX_{k,i}\Big|>\delta\Big]\le2" + E,
            lambda v: le(v.anywhere, 2 * v.bound(v.m, upper=True)), "violated", needs=IID,
            note="for one coordinate only; among d independent ones some mean is large",
        ),
        form(
            "all coordinates, d times",
            r"\mathbb P\Big[\max_{i\le d}\Big|\tfrac1m\sum_kX_{k,i}\Big|>\delta\Big]\le2d\," + E,
            EVERYWHERE[0], "holds", EVERYWHERE[1], needs=IID,
            note="the sum over coordinates and sides, whatever the coordinates have to do with each other; judged "
            "where "
            "they are independent. On that event |<gamma - theta*, mean>| <= delta ||gamma - theta*||_1",
            proof="note",
        ),
        form(
            "identical clients",
            r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le " + E + r"\text{ for groups of clients that move alike}",
            _fails(lambda v: v.above), "violated", needs=(FAIR, ONE_LAW, ALIKE, EQUAL),
            note="clients with the same data move alike, and so do their signs: with one group the mean is 1 or -1",
        ),
        form(
            "groups",
            r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le e^{-q\delta^2/2},\quad q\text{ independent groups of one size}",
            GROUPED[0], "holds", GROUPED[1], needs=(FAIR, ONE_LAW, EQUAL),
            proof="the mean is that of one sign a group: [repaired] with q for m",
        ),
        form(
            "with zeros", r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le " + E + r",\quad X_k\in\{-1,0,1\}\text{ symmetric}",
            REPAIRED[0], "holds", REPAIRED[1], needs=(SYMMETRIC, ONE_LAW, APART, EQUAL),
            note="the printed signs are +-1, but where the update is 0 so is its sign; 1 - z + z cosh s <= "
            "e^{s^2/2} too",
            proof="note",
        ),
        form(
            "unfair signs", r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le " + E + r"\text{ for any law of }X_k",
            _fails(lambda v: v.above),
            "violated", needs=(ONE_LAW, APART, EQUAL),
            note="clients that lie on one side of theirs pull the same way: the mean goes to E X, which is not 0",
        ),
        form(
            "about its mean", r"\mathbb P\Big[" + MEAN + r"-\mathbb EX_1>\delta\Big]\le " + E, ABOUT_ITS_MEAN[0], "holds",
            ABOUT_ITS_MEAN[1], needs=(ONE_LAW, APART, EQUAL), note="Hoeffding's lemma: X_k lies in an interval of length 2",
            proof="note",
        ),
        form(
            "over the model",
            r"\mathbb P\Big[" + MEAN + r">\delta\Big]\le " + E + r",\quad X_k\text{ fair, and IID given }\theta^{t-1}",
            _fails(lambda v: v.above), "violated", needs=(FAIR, APART, EQUAL),
            note="all clients start from the same theta^{t-1}: given it their signs may be IID, but not fair. With "
            "theta "
            "on either side of the optimum with probability 1/2, each sign is fair and all of them agree",
        ),
        form(
            "weights", r"\mathbb P\Big[\sum_kw_kX_k>\delta\Big]\le " + E + r",\quad w_k=n_k/n", _fails(lambda v: v.above),
            "violated",
            needs=(FAIR, ONE_LAW, APART, COUNTS), note="one client with nearly all of the data decides alone",
        ),
        form(
            "weights, repaired", r"\mathbb P\Big[\sum_kw_kX_k>\delta\Big]\le e^{-\delta^2/(2\sum_kw_k^2)}", WEIGHTED[0],
            "holds",
            WEIGHTED[1], needs=(FAIR, ONE_LAW, APART, COUNTS),
            proof="as [repaired]: P <= e^{s^2 sum_k w_k^2/2 - s delta}, and s = delta/sum_k w_k^2",
        ),
        assumptions=("what each form says of the law of the signs: the paper assumes it, for a special case",),
        symbols=SYMBOLS,
    ),
)  # fmt: skip
