"""Potentials that every round lowers: the best constants of a one-round bound, for a method with
random cohorts.

Of a method with model x and what its clients keep, V = ||x - x*||^2 + kappa times what is kept,
less what it is at the optimum. The question is how good the numbers of

    E V+ <= rho V - kappa_0 D + c noise

can be: `rounds` has the methods, and what D and the noise are for each. Of FedDyn, and of
FedElasticNet under the true-gradient rule, rho = 1 and there is no noise:

    E V+ <= V - kappa_0 (R(gamma) - R*)                                       (FedDyn)
    E V+ <= V - kappa_0 (R(gamma) - R*) - (2/lambda_2) <gamma - theta*, mean_k lambda_1 s_k>     (FedElasticNet)

with C the mean over the clients of ||g_k - grad f_k(theta*)||^2 in V, and s_k the subgradient of
the l1 norm at client k's move; the last term is the last one of the paper's Theorem B.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.inputs import whole_number
from fedtheory.worst_cases.classes import Losses, WeaklyConvex
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.numbers import exact
from fedtheory.worst_cases.programme import LARGEST, NoMultipliers, Solution, maximise, optimum
from fedtheory.worst_cases.rounds import KAPPA, KAPPA_0, MINUS_C, ROUNDS, Asked, C, chosen, feddyn_round
from fedtheory.worst_cases.runs import spread

__all__ = ["Potential", "RoundQuestion", "WeaklyConvex", "best_potential", "family_of", "feddyn_kappas", "one_round"]

LEAST_RHO_DIGITS = 7  # of a least rho
BISECTIONS = 24  # programmes until they are known
NOTHING = 1e-7  # what the solver cannot tell from 0


@dataclass(frozen=True)
class RoundQuestion:
    """A question about one round.

    Attributes
    ----------
    method, clients, participants, local_steps, options : the round; P of N clients
    smoothness, strong_convexity : L and mu of every loss
    rho : the factor of V
    fixed : dict of those of kappa_0 and c that are given; of the other one the best is sought, or of kappa_0
    """

    method: str
    clients: int
    participants: int
    local_steps: int
    options: Mapping[str, Fraction]
    smoothness: Fraction
    strong_convexity: Fraction
    rho: Fraction
    fixed: Mapping[str, Fraction]

    @property
    def losses(self) -> Losses:
        """The class."""
        made = WeaklyConvex if self.method == "fedprox" else Losses
        return made(self.smoothness, self.strong_convexity)

    @property
    def asked(self) -> Asked:
        """The numbers of the round."""
        N, P = self.clients, self.participants
        return Asked(self.local_steps, self.options, spread(N, P), Fraction(P, N), self.losses, N == 1)

    @property
    def family(self) -> Family:
        """The identity."""
        found = ROUNDS[self.method].round(self.asked).family(self.losses, self.rho, self.fixed)
        return found.of_one_client() if self.clients == 1 else found

    @property
    def written(self) -> dict[str, Any]:
        """As a certificate has it."""
        return {name.replace("_", " "): number for name, number in vars(self).items()}

    @property
    def goal(self) -> str:
        """The number that is sought."""
        return MINUS_C if KAPPA_0 in self.fixed else KAPPA_0

    def claim(self, numbers: Mapping[str, Fraction]) -> dict[str, Fraction]:
        """Return the numbers that multipliers prove: kappa_0, kappa, rho and c."""
        found = {KAPPA_0: numbers.get(KAPPA_0, Fraction(0)), KAPPA: numbers.get(KAPPA, Fraction(0)), "rho": self.rho}
        return found | {C: -numbers.get(MINUS_C, Fraction(0))} | dict(self.fixed)


@dataclass(frozen=True)
class Potential:
    """Constants of a potential, proved in fractions.

    Attributes
    ----------
    kappa_0, kappa, rho, c : the proved constants
    best : the solver's value of what was sought, in floats, which is better by what the rounding takes
    solution, family : multipliers with L D L', and the identity
    question : what was asked
    """

    kappa_0: Fraction
    kappa: Fraction
    rho: Fraction
    c: Fraction
    best: float
    solution: Solution
    family: Family
    question: RoundQuestion

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {float(number):.6g}" for name, number in (
            ("rho", self.rho), ("kappa_0", self.kappa_0), ("kappa", self.kappa), ("c", self.c)))
        return f"Potential({self.question.method}: {told}, proved)"


def question(
    method: str, *, clients: int = 10, participants: int | None = None, local_steps: int = 1,
    smoothness: Fraction | int = 1, strong_convexity: Fraction | int = 0,
    rho: Fraction | int | str | None = None, kappa_0: Fraction | int | None = None,
    c: Fraction | int | None = None, **options: Fraction | int,
) -> RoundQuestion:
    """Return the question that `one_round` is asked, with its defaults.

    Raises
    ------
    InvalidInput
        As `one_round`.
    """
    if method not in ROUNDS:
        raise InvalidInput(f"unknown method {method!r}: potentials are of {', '.join(ROUNDS)}")
    whole_number("clients", clients), whole_number("local_steps", local_steps)
    P = clients if participants is None else participants
    whole_number("participants", P)
    if P > clients:
        raise InvalidInput(f"participants = {P} > clients = {clients}: at most all take part")
    given = {name: exact(name, number) for name, number in options.items()}
    kind, L, mu = ROUNDS[method], exact("smoothness", smoothness), exact("strong_convexity", strong_convexity)
    plain = RoundQuestion(method, clients, P, local_steps, given, L, mu, Fraction(1), {})
    plain = replace(plain, options=chosen(method, given, plain.losses, local_steps, clients, P))
    fixed = {name: exact(name, x) for name, x in ((KAPPA_0, kappa_0), (C, c)) if x is not None} or dict(kind.fixed(plain.asked))
    return chosen_question(replace(plain, rho=kind.rho(plain.asked) if rho is None else exact("rho", rho), fixed=fixed))


def chosen_question(asked: RoundQuestion) -> RoundQuestion:
    """The question, where it is one.

    Raises
    ------
    InvalidInput
        What the method's inequality does not take.
    """
    method, K, fixed, has = asked.method, asked.local_steps, asked.fixed, ROUNDS[asked.method].options
    chosen(method, asked.options, asked.losses, K, asked.clients, asked.participants)
    if method == "efl" and asked.clients != asked.participants:
        raise InvalidInput(f"participants = {asked.participants} of clients = {asked.clients}: of efl everybody is active here")
    if not ROUNDS[method].local_steps and K != 1:
        raise InvalidInput(f"local_steps = {K}: {method} solves its local problems exactly; leave it out")
    conditions = 2 * K * (2 * K - 1)  # pairs of points: as many as FedAvg has, others have fewer
    if conditions > LARGEST:
        raise InvalidInput(
            f"local_steps = {K}: up to {conditions:,} conditions, at most {LARGEST:,}; take fewer local steps"
        )
    if "ratio" in has and asked.smoothness != 1:
        raise InvalidInput(f"smoothness = {asked.smoothness}: {method}'s constants are those of beta = 1; scale lambda_2 instead")
    if asked.rho <= 0:
        raise InvalidInput(f"rho = {asked.rho}: it must be above 0")
    if method == "fedprox" and asked.rho != 1:
        raise InvalidInput(f"rho = {asked.rho}: of fedprox F itself decreases, and rho is 1")
    if set(fixed) - {KAPPA_0, C} or len(fixed) == 2:
        raise InvalidInput(f"{' and '.join(fixed)}: one of kappa_0 and c is given, and the best of the other is sought")
    noisy = ROUNDS[method].round(asked.asked).noise is not None
    if fixed and not noisy:
        name, number = next(iter(fixed.items()))
        raise InvalidInput(f"{name} = {number}: the inequality of {method} has no c here; leave it out, the largest kappa_0 is sought")
    if noisy and not fixed:
        raise InvalidInput(f"{method}: give kappa_0 or c, and the best of the other is sought")
    return asked


def answer(asked: RoundQuestion) -> Potential:
    """The best constant.

    Raises
    ------
    NotCertified
        As `one_round`.
    """
    family, goal = asked.family, asked.goal
    scale = float(asked.options.get("step", 0) * asked.local_steps) ** 2  # of c, which may be 0
    try:
        solution = maximise(family, goal, scale if goal == MINUS_C else 0.0)
    except NoMultipliers as error:
        raise NoMultipliers(f"{_none(asked)}: {error}. {ROUNDS[asked.method].remedy}") from error
    except NotCertified as error:
        most = optimum(family, goal)
        if goal == KAPPA_0 and most < NOTHING:
            raise _no_potential(asked, most) from error
        raise NotCertified(f"{_none(asked)} could be proved: {error}. {ROUNDS[asked.method].remedy}") from error
    claim = asked.claim(solution.numbers)
    if goal == KAPPA_0 and claim[KAPPA_0] <= 0:
        raise _no_potential(asked, solution.best)
    best = -solution.best if goal == MINUS_C else solution.best
    return Potential(claim[KAPPA_0], claim[KAPPA], claim["rho"], claim[C], best, solution, family, asked)


def _none(asked: RoundQuestion) -> str:
    numbers = {"lambda_2/beta" if name == "ratio" else name: x for name, x in asked.options.items()}
    given = ", ".join(f"{name} = {x}" for name, x in {**numbers, "rho": asked.rho, **asked.fixed}.items())
    return f"{asked.method} with {given}: no {'c' if asked.goal == MINUS_C else 'kappa_0 above 0'}"


def _no_potential(asked: RoundQuestion, most: float) -> NoMultipliers:
    shown = 0.0 if abs(most) < NOTHING else most
    return NoMultipliers(
        f"{_none(asked)}: up to the solver's accuracy the largest is {shown:.6g}, so that no "
        f"potential of this kind exists. {ROUNDS[asked.method].remedy}"
    )


def one_round(
    method: str, *, rho: Fraction | int | str | None = None, advance: Callable[[int], Any] | None = None, **asked: Any
) -> Potential:
    """The best constants of one round of a method, over all losses of a class.

    Parameters
    ----------
    method : a name of `rounds.ROUNDS`
    rho : the factor of V (default 1, or the literature's), or 'least': the least with which a
        potential is found
    advance : called with 1 after each of the `BISECTIONS` programmes of the least rho
    clients, participants : N and P (default: everybody)
    local_steps : K
    smoothness, strong_convexity : L and mu of every loss
    kappa_0, c : one of them, where the inequality has both; of the other the best is sought
        (default: the literature's kappa_0)
    options : of the method, exact numbers: step, mu, B, ratio

    Raises
    ------
    InvalidInput
        What the method does not take.
    NotCertified
        No potential of this kind was found, or the solver's multipliers could not be rounded to
        ones that prove it.
    """
    if rho != "least":
        return answer(question(method, rho=rho, **asked))
    plain = question(method, rho=1, **asked)
    if plain.goal != KAPPA_0 or plain.fixed or method == "fedprox":
        raise InvalidInput(f"rho least: beside it {method}'s inequality has other numbers to be chosen; give rho as a number")
    low, high = 0, 10**LEAST_RHO_DIGITS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _lowers(_with_rho(plain, middle)) else (middle, high)
        if advance is not None:
            advance(1)
    for room in (0, 1, 3, 10, 30, 100, 300, 1000):
        with suppress(NotCertified):
            found = answer(_with_rho(plain, min(high + room, 10**LEAST_RHO_DIGITS)))
            return replace(found, best=high / 10**LEAST_RHO_DIGITS)
    return answer(plain)


def _with_rho(asked: RoundQuestion, digits: int) -> RoundQuestion:
    return replace(asked, rho=Fraction(digits, 10**LEAST_RHO_DIGITS))


def _lowers(asked: RoundQuestion) -> bool:
    """True if the solver says that there is a potential."""
    try:
        return optimum(asked.family, asked.goal) >= 0
    except NoMultipliers:
        return False


# --- FedDyn and FedElasticNet ---------------------------------------------------------------------
def family_of(ratio: Any, spread: Any, share: Any, l1: bool) -> Family:
    """The identity of FedDyn's potential, in the arithmetic of numbers, maybe symbols."""
    return feddyn_round(ratio, spread, share, l1).family(Losses())


def best_potential(ratio: Fraction | int, clients: int = 10, participants: int = 1, method: str = "feddyn") -> Potential:
    """The largest kappa_0 of FedDyn or FedElasticNet, up to a part in ten million.

    Parameters
    ----------
    ratio : lambda_2/beta (of FedDyn: alpha/L), an exact number above 0
    clients, participants : P of N clients are drawn
    method : 'feddyn', or 'fedelasticnet-dyn' under the true-gradient rule

    Raises
    ------
    InvalidInput
        A ratio that is not above 0, no client, more participants than clients, or another method.
    NotCertified
        No kappa_0 above 0 could be proved; the message says from which ratio on one is known.
    """
    if method not in ("feddyn", "fedelasticnet-dyn"):
        raise InvalidInput(f"method {method!r}: this potential is of feddyn and fedelasticnet-dyn; one_round has the others")
    return one_round(method, clients=clients, participants=participants, ratio=ratio)


def feddyn_kappas(ratio: float, clients: int, participants: int) -> float:
    """kappa_0 of FedDyn in closed form, for beta = 1 (proof in docs/worst_cases.md): for N >= 2 the largest of this kind.

    For one client it holds, too, and 2 (1 + 2 lambda)/(1 + lambda)^2, at most 2/lambda, is larger.
    With s = 1 - (N - P)/(P (N - 1)) it is the least of 2/lambda and
    4 (lambda + 2 s)/(2 + lambda)^2 where s (2 + 2 lambda + lambda^2) <= lambda (1 + lambda), and else
    (sqrt(s^2 lambda^4 + 8 lambda s (1 + lambda)^2) - s lambda^2)/(1 + lambda)^2.
    """
    N, P = clients, participants
    s = 1 - (N - P) / (P * (N - 1)) if N > 1 else 1.0
    one = (1 + ratio) ** 2
    if s * (1 + one) <= ratio * (1 + ratio):
        found = 4 * (ratio + 2 * s) / (2 + ratio) ** 2
    else:
        found = ((s * s * ratio**4 + 8 * ratio * s * one) ** 0.5 - s * ratio**2) / one
    return min(2 / ratio, found)
