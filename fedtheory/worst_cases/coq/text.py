"""The text of a theorem of Coq with its certificate and its proof."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from fedtheory.worst_cases.certificates import QUADRATIC, Certificate
from fedtheory.worst_cases.coq.check import commands, definitions_lines
from fedtheory.worst_cases.coq.export import OTHER_COHORTS, Theorem, theorem
from fedtheory.worst_cases.coq.methods import Words, words
from fedtheory.worst_cases.coq.places import rational, real
from fedtheory.worst_cases.coq.rates import Rate, rate
from fedtheory.worst_cases.groups import OTHERS

__all__ = ["Exported", "exported", "rate_of", "text_of"]

UNITS = {
    True: ("L * radius ^ 2", "L ^ 2 * radius ^ 2"),
    False: ("G * radius", "G ^ 2"),
}  # of a gap, and of a squared gradient
CONCLUSIONS = {
    "gap": "objective N f {model} - objective N f xs <= {bound} * {of_values}",
    "distance": "||{model} - xs||^2 <= {bound} * radius ^ 2",
    "cohort": "expected C (fun who => ||cohort_mean N P who {model} - xs||^2) <= "
    "{bound} * radius ^ 2",
    "gradient": "||vmean N (fun k => g k {model})||^2 <= {bound} * {of_squares}",
    "best-gap": "exists t, (t < {many})%nat /\\ "
    "objective N f {model} - objective N f xs <= {bound} * {of_values}",
}
SMOOTH = """(L radius : R) (f : nat -> E -> R) (g : nat -> E -> E) (xs x0 : E),
  0 < L -> setting N {mu} L radius {zeta} f g xs x0"""
BOUNDED = """(G radius : R) (f : nat -> E -> R) (s0 : nat -> E) (xs x0 : E),
  0 < G -> 0 < radius -> bounded_setting N G radius f s0 xs x0"""
STATED = """From Coq Require Import Reals List.
From Fedtheory Require Import {defined}.
Import ListNotations.
Open Scope R_scope.

Definition {name} : Prop :=
  forall (E : space) {statement}.

From Coq Require Import QArith ZArith Lra Lia.
From Fedtheory Require Import {library}.
Open Scope R_scope.

"""  # before all else of the library, so that nothing there gives its words another meaning
TEXT = """(** The certificate, in units of {units}: where the losses are asked, and
    multipliers as whole numbers of 1 / denominator. Number i of row j is that of
    f_i >= f_j + <<g_j, x_i - x_j>> + ... *)
Definition data : certificate := {{|
  curvature := {curvature};
  spread := {spread};
  bound := {in_fractions};
  places := {places};
  denominator := {denominator}%positive;
  near := {near};
  heterogeneity := {heterogeneity};
  norms := {norms};
  multipliers := [
    {multipliers}]%Z |}}.
{more}
Theorem proof : {name}.
Proof.
  intros E {introduced}.
  refine ({refined}).
{proofs}
Qed.
Print Assumptions proof.
"""


@dataclass(frozen=True)
class Exported:
    """A certificate as a file of Coq.

    Attributes
    ----------
    name : of the theorem
    text : of the file
    proved : what Coq's kernel accepts with it, and what a reader trusts
    """

    name: str
    text: str
    proved: str


def exported(found: Certificate, file: str, method: Any = None, criterion: Any = None) -> Exported:
    """The theorem that a certificate proves, in a file of that name.

    Parameters
    ----------
    method, criterion : the class and the function, where they are none of the package's

    Raises
    ------
    InvalidInput
        A certificate of another kind; a multiplier of no condition.
    MissingCapability
        What Coq has no side for, and what there is.
    """
    if found.question.get("kind") == QUADRATIC:
        of_rate = rate(found, method)
        losses = _of_class(of_rate.curvature)
        what = f"for every T and number of clients, {losses}"
        return Exported(
            of_rate.name, rate_of(of_rate, file), _proved(what, "methods_defined", "", "rate")
        )
    of = theorem(found, method, criterion)
    said, q = words(of), of.question
    who = "for every number of clients" if of.any_number else f"for {q.clients} clients"
    who = "for one client" if q.clients == 1 else who
    seen = ", ".join(map(str, sorted({q.clients, *(OTHERS if of.any_number else ())})))
    if of.goal.kind == "cohort":
        share = f"at most {of.spread} of the clients' spread is left in their mean"
        many = f"for every number of clients and of those that are drawn, where {share}"
        who = many if of.any_number else f"for {q.participants} of {q.clients} clients"
        other = OTHER_COHORTS if of.any_number else ()
        pairs = sorted({(q.clients, q.participants), *other})
        seen = ", ".join(f"{n} and P = {p}" for n, p in pairs)
    equations = f" and the theorem's equations, which were seen to be those of the run for N = {seen}"
    losses = (
        "every inner-product space and all convex losses with bounded subgradients, which have "
        "mean 0 at an optimum"
    )
    if of.smooth:
        losses = _of_class(q.losses.strong_convexity / of.slope)
    told = _proved(f"{who}, {losses}", _defined_in(of.goal.kind, said), equations * (not said.defined), "bound")
    return Exported(of.name, text_of(of, file), told)


def _of_class(curvature: Fraction) -> str:
    strongly = f", {curvature} L-strongly" if curvature else ""
    return (
        f"every inner-product space and all L-smooth{strongly} convex losses whose mean has a minimiser"
    )


def _proved(what: str, defined: str, equations: str, accepted: str) -> str:
    """Say in a sentence what Coq's kernel accepts, and what a reader trusts."""
    files = dict.fromkeys(("definitions", defined))
    lines = sum(definitions_lines(name) for name in files)
    return (
        f"{what}, Coq's kernel accepts this {accepted}; trusted are the kernel with the axioms of "
        f"its real numbers, the {lines} lines of {' and '.join(f'{name}.v' for name in files)}"
        f"{equations}; not trusted are Python, the solver and the certificate's author"
    )


def rate_of(of: Rate, file: str) -> str:
    """The text of a file that has the theorem of a rate."""
    told = f"{of.words}. The theorem is about every L, every T and every number N of clients"
    head = _stated(file, told, "methods_defined", of.name, of.statement, "potentials")
    tactics = [*["numbers"] * of.count, "vm_cast_no_check (eq_refl true)"]
    return head + _proof(
        of.rows,
        tactics,
        name=of.name,
        units="1 / L",
        curvature=rational(of.curvature),
        places=of.places,
        denominator=of.denominator,
        introduced=of.introduced,
        refined=of.proof,
    )


def _proof(rows: Sequence[Sequence[int]], tactics: Sequence[str], **made: Any) -> str:
    """The certificate of a theorem and its proof, from their parts; those that are left out are 0."""
    nothing = {"spread": "(0 # 1)", "in_fractions": "(0 # 1)", "near": 0, "heterogeneity": 0}
    return TEXT.format(
        multipliers=";\n    ".join(f"[{'; '.join(map(_whole, row))}]" for row in rows),
        proofs="\n".join(f"  - {tactic}." for tactic in tactics),
        **nothing | {"norms": "[]", "more": ""} | made,
    )


def text_of(of: Theorem, file: str) -> str:
    """The text of a file that has the theorem, its certificate and its proof."""
    q, said, best = of.question, words(of), of.goal.kind == "best-gap"
    curvature, spread = Fraction(0), Fraction(0)
    if of.smooth:
        curvature, spread = (
            q.losses.strong_convexity / q.losses.largest_curvature,
            (q.heterogeneity or 0) / q.units.gradient,
        )
    D = lcm(
        *(
            n.denominator
            for n in (
                *of.pairs.values(),
                of.start,
                of.heterogeneity,
                *of.norms,
                *of.weights,
                of.spread,  # which the checker multiplies by
            )
        )
    )
    count = range(len(of.points))
    rows = [[int(of.pairs.get((i, j), Fraction(0)) * D) for i in count] for j in count]
    setting = (
        SMOOTH.format(mu=_times(curvature, "L"), zeta=_times(spread, "L * radius"))
        if of.smooth
        else BOUNDED
    )
    drawn = of.goal.kind == "cohort"
    number = [] if of.any_number else [f"N = {q.clients}%nat"]
    number += [f"P = {q.participants}%nat"] if drawn and not of.any_number else []
    drawn_from = [f"(1 <= P)%nat -> sampling_spread N P <= {real(of.spread)}"] if drawn else []
    begin = ("(N P : nat) (C : cohorts N P) ", "N P C ") if drawn else ("(N : nat) ", "N ")
    names = [
        "L radius f g xs x0 HL S" if of.smooth else "G radius f s0 xs x0 HG HR S",
        *["HP Hs"] * drawn,
        *["HN", "HP'"][: len(number)],
        *said.introduced,
    ]
    conclusion = CONCLUSIONS[of.goal.kind].format(
        model=said.model,
        bound=real(of.bound),
        many=len(of.at),
        of_values=UNITS[of.smooth][0],
        of_squares=UNITS[of.smooth][1],
    )
    made = {
        "name": of.name,
        "units": "radius and L * radius" if of.smooth else "radius and G",
        "curvature": rational(curvature),
        "spread": rational(spread),
        "in_fractions": rational(of.bound),
        "places": said.places,
        "denominator": D,
        "near": _whole(of.start * D),
        "heterogeneity": _whole(of.heterogeneity * D),
        "norms": "[]" if of.smooth else f"[{'; '.join(_whole(n * D) for n in of.norms)}]%Z",
        "introduced": begin[1] + " ".join(names),
        "more": said.more,
        "refined": said.refined or _refined(of, said, D),
    }
    premises = [begin[0] + setting, *drawn_from, *number, *said.premises]
    statement = " ->\n  ".join([*premises, conclusion])
    library = "cohort_bounds" if drawn else "methods" if said.defined else "bounds"
    defined = _defined_in(of.goal.kind, said)
    who = ", and about all N and P that it names" if drawn else ", and every number N of clients"
    about = f"every {'L' if of.smooth else 'G'} and radius{who * of.any_number}"
    told = f"{of.words}. The theorem is about {about}"
    head = _stated(file, told, defined, of.name, statement, library)
    return head + _proof(rows, said.proofs or _proofs(of, said, best), **made)


def _defined_in(kind: str, said: Words) -> str:
    """The file of the library that defines all words of a statement, with `definitions.v`."""
    if kind == "cohort":
        return "cohorts_defined"
    return "definitions" if said.defined in ("", "fedavg") else "methods_defined"


def _stated(file: str, told: str, defined: str, name: str, statement: str, library: str) -> str:
    """The head of a file: its question, the way to check it, and the statement."""
    stated = STATED.format(defined=defined, name=name, statement=statement, library=library)
    return f"""(** Asked: {_harmless(told)}.

    Written by fedtheory. Where Coq 8.16 is installed, this checks it:
    {commands(file, stated)} *)
{stated}"""


def _refined(of: Theorem, said: Words, D: int) -> str:
    """The lemma of the criterion, with the points, hypotheses and models."""
    prefix, setting = (
        ("", "_ L radius _ f g xs x0") if of.smooth else ("bounded_", "G radius f s0 xs x0")
    )
    lemma = f"{prefix}{of.goal.kind.replace('-', '_')}_bound data N {setting}"
    points = f"{said.points}\n    {said.slopes}" if said.slopes else said.points
    given = "HL S _ _ _ _" if of.smooth else "HG HR S _ _ _" + " _" * (of.goal.kind != "distance")
    alone = of.question.clients == 1
    more = ("(or_intror (conj HN _))" if alone else "(or_introl _)") if of.smooth else "_ _"
    models = f"{of.at[0]}%nat {said.model} _ {more}"
    if of.goal.kind == "cohort":
        lemma = f"cohort_bound data N P C {setting}"
        models = f"{of.at[0]}%nat {said.model} {rational(of.spread)} HP _ Hs _"
    if of.goal.kind == "best-gap":
        weighed = zip(of.at, of.weights, strict=True)
        listed = "; ".join(f"({i}%nat, {_whole(w * D)}%Z)" for i, w in weighed)
        models = f"[{listed}] (fun t => {said.model}) _ _ {more}"
    return f"{lemma}\n    {points}\n    {given} {models}"


def _proofs(of: Theorem, said: Words, best: bool) -> list[str]:
    """The tactics that prove what a lemma asks."""
    begun = (
        ["numbers", "numbers", "reflexivity"]
        if of.smooth
        else ["reflexivity", "reflexivity", said.subgradients]
    )
    begun = (
        begun[1:] if not of.smooth and of.goal.kind == "distance" else begun
    )  # where the first point is no matter
    models = "models" if best else "reflexivity"
    more = ["reflexivity"] * (best + (not of.smooth))
    return [*begun, said.placed, models, *more, "vm_cast_no_check (eq_refl true)"]


def _whole(number: Fraction | int) -> str:
    """A whole number of Coq's Z."""
    return str(number) if number >= 0 else f"({number})"


def _times(number: Fraction, unit: str) -> str:
    """So many units, as a number of Coq's R."""
    return "0" if number == 0 else f"({real(number)} * {unit})"


def _harmless(text: str) -> str:
    """The text without what would end a comment of Coq, or open a string in it."""
    return re.sub(r"[^\w .,:;=/^|<>+-]", " ", text)
