"""A certificate of a quadratic potential as a theorem of Coq: the rate that it proves, for every T.

FedDyn with exact local solves and SCAFFOLD have one; `potentials.v` proves their rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from math import lcm
from typing import Any

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.worst_cases.certificates import Certificate, in_words, quadratic_question
from fedtheory.worst_cases.coq.places import rational, real
from fedtheory.worst_cases.groups import Groups
from fedtheory.worst_cases.quadratic_potentials import S

__all__ = ["Rate", "rate"]

KEPT: dict[tuple[str, ...], str] = {
    ("feddyn", "alpha"): "gradients",
    ("scaffold", "step"): "c_k",
}  # what clients keep
STATEMENT = """(N : nat) (L r z : R) (f : nat -> E -> R) (g : nat -> E -> E) (xs x0 : E),
  0 < L -> setting N {mu} L r z f g xs x0 ->{run}
  forall T, ||{model} - xs||^2 <= ({rho}) ^ T *
    ({a} * ||x0 - xs||^2 + {d} / L ^ 2 * mean N (fun k => ||g k xs||^2))"""


@dataclass(frozen=True)
class Rate:
    """A potential in units of 1/L, of which V = a ||x - x*||^2 + ... is at least ||x - x*||^2.

    Attributes
    ----------
    name, words : of the theorem, and what was asked in a line
    statement, places, proof : of the theorem, its certificate and its proof
    curvature : mu/L
    rows, denominator : multipliers of the conditions
    introduced, count : names in the proof, and how many goals are about numbers
    defined : the name of the method's definition
    """

    name: str
    words: str
    statement: str
    places: str
    proof: str
    curvature: Fraction
    rows: list[list[int]]
    denominator: int
    introduced: str
    count: int
    defined: str


def rate(found: Certificate, method: Any = None) -> Rate:
    """The rate that a certificate of a quadratic potential proves.

    Raises
    ------
    InvalidInput
        A multiplier of no condition.
    MissingCapability
        A method, or a potential, that Coq has no side for.
    """
    q = quadratic_question(found.question, method)
    name, options, K = q.subject.name, q.subject.options, q.subject.local_steps or 1
    kept = KEPT.get((name, *sorted(options)))
    unlike = q.participants < q.clients or q.clients == 1 or isinstance(q.losses, Groups)
    if q.subject.source or kept is None or unlike:
        raise MissingCapability(
            "no theorem of Coq is made of this certificate: of potentials Coq's side has those of "
            "feddyn with exact local solves and of scaffold, where everybody takes part, without groups"
        )
    if found.claim.get("c") or found.question.get("values"):
        raise MissingCapability(
            "no theorem of Coq is made of this certificate: a potential without noise and values of "
            "F is needed"
        )
    L, mu, rho = q.losses.largest_curvature, q.losses.strong_convexity, found.claim["rho"]
    points = ["*", "g0"] if name == "feddyn" else ["*", *(f"g0.{j}" for j in range(K))]
    held = {n: x / found.multipliers[S] for n, x in found.multipliers.items() if n != S}

    def entry(block: str, *names: str) -> Fraction:
        both = {f"V {block} {', '.join(names)}", f"V {block} {', '.join(names[::-1])}"}
        return sum((held.pop(n, Fraction(0)) for n in both), Fraction(0))

    a, b, c = (
        entry("mean", "x", "x"),
        entry("mean", "x", kept) * L,
        entry("mean", kept, kept) * L**2,
    )
    d = entry("deviation", f"{kept}'", f"{kept}'") * L**2
    conditions = {
        f"{i}, {j}": (points.index(i), points.index(j)) for i, j in permutations(points, 2)
    }
    if unknown := sorted({*held} - {*conditions}):
        told = f"multipliers of {', '.join(unknown[:3])}"
        raise InvalidInput(f"{told}: Coq's potential has no such entry or condition")
    pairs = {conditions[n]: x * L for n, x in held.items()}
    both = (*pairs.values(), *(y for v in (a, b, c, d) for y in (v, rho * v)))
    D = lcm(*(x.denominator for x in both))
    count = range(len(points))
    rows = [[int(pairs.get((i, j), Fraction(0)) * D) for i in count] for j in count]
    numbers = " ".join(map(rational, (rho, a, b, c, d)))
    if name == "feddyn":
        alpha = options["alpha"] / L
        run = f"\n  forall (x : nat -> E) (y h : nat -> nat -> E), feddyn N solved ({real(alpha)} * L) g x0 x y h ->"
        model, place, more = "x T", f"feddyn_places_of_a_round {rational(1 / alpha)}", " x y h F"
        proof = (
            f"feddyn_certified_rate data {rational(1 / alpha)} {numbers} N _ L r z f g xs x0 "
            f"({real(alpha)} * L) x y h HL S _ _ _ F eq_refl eq_refl eq_refl _"
        )
    else:
        h = options["step"] * L
        run, more, place = "", "", f"scaffold_places_of_a_round {rational(h)} {K}"
        model = f"fst (scaffold N ({real(h)} / L) {K} g x0 T)"
        proof = (
            f"scaffold_certified_rate data {rational(h)} {K} {numbers} N _ L r z f g xs x0 "
            "HL S _ ltac:(lia) _ eq_refl eq_refl eq_refl _"
        )
    statement = STATEMENT.format(
        mu=f"({real(mu / L)} * L)", run=run, model=model, rho=real(rho), a=real(a), d=real(d)
    )
    return Rate(
        f"{name}_{K}_rate", in_words({"kind": found.question["kind"], **q.asked}), statement, place, proof, mu / L, rows, D,
        f"N L r z f g xs x0 HL S{more}", 3 if name == "feddyn" else 2, name,
    )  # fmt: skip
