"""A certificate of a worst case as a theorem of Coq, with its multipliers.

The theorem is about every inner-product space, all losses of the class, every L and R, and every number of clients where
the run is the same for each. It says what the method does by one equation for each point of the traced run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.worst_cases.bounds import BOUND, Question, alike, branches, walked
from fedtheory.worst_cases.certificates import Certificate, asked_question, in_words
from fedtheory.worst_cases.classes import Point
from fedtheory.worst_cases.coq.check import commands, definitions_lines
from fedtheory.worst_cases.coq.places import Place, places, rational, real
from fedtheory.worst_cases.gram import MEAN, Quadratic, Vector, own, square, value
from fedtheory.worst_cases.groups import Groups
from fedtheory.worst_cases.runs import OPTIMUM, Run

__all__ = ["Theorem", "text_of", "theorem"]

THERE_IS = "Coq's side has worst cases of smooth convex losses where everybody takes part"


@dataclass(frozen=True)
class Goal:
    """What a certificate bounds.

    Attributes
    ----------
    kind : 'gap', 'distance', 'gradient' or 'best-gap'
    at : the points that it is taken at
    unit : of it, in L and R
    """

    kind: str
    at: tuple[Point[Vector], ...]
    unit: Fraction


@dataclass(frozen=True)
class Theorem:
    """A certificate in the units of its theorem: R, L R and L R^2.

    Attributes
    ----------
    question, words : what was asked, and the same in a line
    goal, bound : what is bounded, and by what
    places : of the points, the optimum first
    pairs : (i, j) -> multiplier of the condition between these points
    start, heterogeneity, weights : the other multipliers
    any_number : True if the run is the same for every number of clients
    numbers : name of a point -> its number
    """

    question: Question
    words: str
    goal: Goal
    bound: Fraction
    places: Sequence[Place]
    pairs: Mapping[tuple[int, int], Fraction]
    start: Fraction
    heterogeneity: Fraction
    weights: Sequence[Fraction]
    any_number: bool
    numbers: Mapping[str, int]

    @property
    def name(self) -> str:
        """Of the theorem: the method's, with its numbers of local steps and rounds, and the criterion's."""
        of = self.question.subject
        return re.sub(r"\W+", "_", f"{of.name}_{of.local_steps or 1}_{self.question.rounds}_{self.goal.kind}", flags=re.ASCII)

    @property
    def in_words(self) -> str:
        """'gap <= 0.173168 L R^2'."""
        unit = {"distance": "R^2", "gradient": "L^2 R^2"}.get(self.goal.kind, "L R^2")
        return f"{self.goal.kind} <= {float(self.bound):.6g} {unit}"

    @property
    def proved(self) -> str:
        """What Coq's kernel accepts with it, and what a reader trusts."""
        L, mu = self.question.losses.largest_curvature, self.question.losses.strong_convexity
        who = "for every number of clients" if self.any_number else f"for {self.question.clients} clients"
        losses = f"all L-smooth{f', {mu / L} L-strongly' * (mu > 0)} convex losses"
        return (
            f"{who}, every inner-product space and {losses}, Coq's kernel accepts this bound; trusted are the kernel, the "
            f"{definitions_lines()} lines of definitions and the theorem's equations of the run; not trusted are Python, "
            "the solver and the certificate's author"
        )


def theorem(found: Certificate, method: Any = None, criterion: Any = None) -> Theorem:
    """The theorem that a certificate proves.

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
    if found.question.get("kind") != "worst-case":
        raise InvalidInput(f"it is a certificate of a {found.question.get('kind')}: {THERE_IS}")
    q = asked_question(found.question, method, criterion)
    _only_what_coq_has(q)
    run, form, extra = walked(q)
    _only_a_plain_run(q, run)
    L, R = q.losses.largest_curvature, q.distance
    goal = _goal(run, -form, extra, L, R)
    points = list(run.points.values())
    points += [p for p in goal.at if p.name not in run.points]  # a distance asks no loss
    numbers = {str(p.name): i for i, p in enumerate(points)}
    conditions = {f"{i.name}, {j.name}": (numbers[i.name], numbers[j.name]) for i in run.points.values() for j in run.points.values()}
    others = {BOUND, "start", "heterogeneity", *extra}
    if unknown := sorted(set(found.multipliers) - set(conditions) - others):
        raise InvalidInput(f"multipliers of {', '.join(unknown[:3])}: Coq's checker has no such condition")
    units = {"start": R**2, "heterogeneity": (L * R) ** 2}

    def multiplier(name: str) -> Fraction:
        return found.multipliers.get(name, Fraction(0)) * units.get(name, L * R**2) / goal.unit

    pairs = {conditions[name]: multiplier(name) for name in found.multipliers if name in conditions and found.multipliers[name]}
    return Theorem(
        q, in_words(found.question), goal, found.claim["bound"] / goal.unit, places(points, L), pairs,
        multiplier("start"), multiplier("heterogeneity"), [multiplier(name) for name in extra], alike(q), numbers,
    )  # fmt: skip


def _only_what_coq_has(q: Question) -> None:
    """Refuse a question that Coq has no side for."""
    q.check()
    refused = {
        f"participants = {q.participants} < clients = {q.clients}: cohorts": q.participants < q.clients,
        "groups of clients": isinstance(q.losses, Groups),
        "one client alone": q.clients == 1,
        "a method of one loss": q.subject.one_loss,
        "losses without a largest curvature": q.losses.smoothness is None,
        f"gradients of at most {q.losses.lipschitz}": q.losses.lipschitz is not None,
        "distance = 0, and theorems are in units of it": q.distance == 0,
        "no bound of the heterogeneity": q.heterogeneity is None,
    }
    for what, given in refused.items():
        if given:
            raise MissingCapability(f"no theorem of Coq is made of this certificate ({what}): {THERE_IS}")


def _only_a_plain_run(q: Question, run: Run) -> None:
    """Refuse what a run has besides points."""
    refused = {
        "the method flips coins": len(branches(q)[1]) > 1,
        "its messages are compressed": bool(run.messages),
        "of an l1 term not all is used": bool(run.relaxed),
        "the method has conditions besides those of the losses": bool(run.conditions),
    }
    for what, given in refused.items():
        if given:
            raise MissingCapability(f"no theorem of Coq is made of this certificate ({what}): {THERE_IS}")


def _goal(run: Run, form: Quadratic, extra: Mapping[str, Quadratic], L: Fraction, R: Fraction) -> Goal:
    """What a form is: a gap, a distance or a squared gradient at one point, or the best of several gaps.

    Raises
    ------
    MissingCapability
        Any other form.
    """
    if extra:
        asked = [_gap_at(run, value("weights") - term) for term in extra.values()]
        return Goal("best-gap", tuple(p for p in asked if p is not None), L * R**2)
    if (p := _gap_at(run, form)) is not None:
        return Goal("gap", (p,), L * R**2)
    for p in run.points.values():
        if form == square(p.gradient.average):
            return Goal("gradient", (p,), (L * R) ** 2)
    with_x0 = {(x, y): c for (block, x, y), c in form.gram.items() if block == MEAN and "x0" in (x, y)}
    halves = {x if y == "x0" else y: c / (1 if x == y else 2) for (x, y), c in with_x0.items()}
    at = Vector(halves)
    if halves.get("x0") == 1 and form == square(at):
        there = next((p for p in run.points.values() if p.at == at), Point("the model", at, own("the model")))
        return Goal("distance", (there,), R**2)
    raise MissingCapability(
        "no theorem of Coq is made of this criterion: there are the gap, the distance and the squared gradient at a "
        "combination of models, and the best gap"
    )


def _gap_at(run: Run, form: Quadratic) -> Point[Vector] | None:
    """The point at which a form is the gap; None where it is none."""
    at = [name for name, number in form.values.items() if name != OPTIMUM and number == 1]
    return run.points[at[0]] if len(at) == 1 and form == value(at[0]) - value(OPTIMUM) else None


# --- its text ---------------------------------------------------------------------------------------
CONCLUSIONS = {
    "gap": "objective N f {0} - objective N f xs <= {bound} * L * radius ^ 2",
    "distance": "||{0} - xs||^2 <= {bound} * radius ^ 2",
    "gradient": "||vmean N (fun k => g k {0})||^2 <= {bound} * L ^ 2 * radius ^ 2",
    "best-gap": "exists t, (t < {many})%nat /\\ objective N f ({best}) - objective N f xs <= {bound} * L * radius ^ 2",
}
TEXT = """(** {words}.

    Written by fedtheory. Where Coq 8.16 is installed, this checks it:
    {commands} *)
From Coq Require Import Reals QArith ZArith List Lia.
From Fedtheory Require Import bounds.
Import ListNotations.
Open Scope R_scope.

Definition {name} : Prop :=
  forall (E : space) (N : nat) (L radius : R) (f : nat -> E -> R) (g : nat -> E -> E) (xs x0 : E),
  {premises} ->
  {conclusion}.

(** The certificate, in units of radius and L * radius: where the losses are asked, and whole numbers of 1 / denominator as multipliers:
    in row j the one of f_i >= f_j + <<g_j, x_i - x_j>> + ... is number i. *)
Definition data : certificate := {{|
  curvature := {curvature};
  spread := {spread};
  bound := {in_fractions};
  places := [
    {places}];
  denominator := {denominator}%positive;
  near := {near};
  heterogeneity := {heterogeneity};
  norms := [];
  multipliers := [
    {multipliers}]%Z |}}.

Theorem proof : {name}.
Proof.
  intros E N L radius f g xs x0 HL S{introduced}.
  refine ({lemma} data N _ L radius _ f g xs x0
    (fun i k => match i with {points} end)%nat
    HL S _ _ _ _ {last}).
  - numbers.
  - numbers.
  - reflexivity.
  - places.
  - {at_last}.{more}
  - vm_cast_no_check (eq_refl true).
Qed.
Print Assumptions proof.
"""


def text_of(of: Theorem, file: str) -> str:
    """The text of a file that has the theorem, its certificate and its proof."""
    L, places = of.question.losses.largest_curvature, of.places
    curvature, spread = of.question.losses.strong_convexity / L, (of.question.heterogeneity or 0) / (L * of.question.distance)
    D = lcm(*(n.denominator for n in (*of.pairs.values(), of.start, of.heterogeneity, *of.weights)))
    rows = [[_whole(of.pairs.get((i, j), Fraction(0)) * D) for i in range(len(places))] for j in range(len(places))]
    new = [(i, p) for i, p in enumerate(places) if not p.known]
    of_clients, of_all = ([p.name for _, p in new if p.own is own] for own in (True, False))
    kinds = ((of_clients, "nat -> E"), (of_all, "E"))
    variables = " ".join(f"({' '.join(names)} : {kind})" for names, kind in kinds if names)
    premises = [f"0 < L -> setting N {_times(curvature, 'L')} L radius {_times(spread, 'L * radius')} f g xs x0"]
    premises += [] if of.any_number else [f"N = {of.question.clients}%nat"]
    premises += [f"forall {variables}, {new[0][1].equation}", *(p.equation for _, p in new[1:])] if new else []
    at = [of.numbers[str(p.name)] for p in of.goal.at]
    best = f"nth t [{'; '.join(places[i].name for i in at)}] x0"
    if of.goal.kind == "best-gap":
        models = "; ".join(f"({i}%nat, {_whole(w * D)}%Z)" for i, w in zip(at, of.weights, strict=True))
        last, more = f"[{models}] (fun t => {best}) _ _ _", "\n  - reflexivity."
        at_last = f"intros t k Ht Hk; do {len(at)} (destruct t as [|t]; [reflexivity|]); simpl in Ht; lia"
    else:
        last, at_last, more = f"{at[0]} {places[at[0]].name} _ _", "reflexivity", ""
    made: dict[str, Any] = {
        "words": _harmless(of.words), "name": of.name, "premises": " ->\n  ".join(premises),
        "conclusion": CONCLUSIONS[of.goal.kind].format(places[at[0]].name, bound=real(of.bound), many=len(at), best=best),
        "curvature": rational(curvature), "spread": rational(spread), "in_fractions": rational(of.bound),
        "places": ";\n    ".join(p.vec for p in places), "denominator": D, "near": _whole(of.start * D),
        "heterogeneity": _whole(of.heterogeneity * D), "multipliers": ";\n    ".join(f"[{'; '.join(row)}]" for row in rows),
        "introduced": "".join(f" {x}" for x in [*([] if of.any_number else ["HN"]), *of_clients, *of_all, *(f"H{i}" for i, _ in new)]),
        "points": " | ".join(f"{i if i < len(places) - 1 else '_'} => {p.here}" for i, p in enumerate(places)),
        "lemma": f"{of.goal.kind.replace('-', '_')}_bound", "last": last, "at_last": at_last, "more": more,
    }  # fmt: skip
    return TEXT.format(**made, commands=commands(file, TEXT))


def _whole(number: Fraction) -> str:
    """A whole number of Coq's Z."""
    return str(number) if number >= 0 else f"({number})"


def _times(number: Fraction, unit: str) -> str:
    """So many units, as a number of Coq's R."""
    return "0" if number == 0 else f"({real(number)} * {unit})"


def _harmless(text: str) -> str:
    """The text without what would end a comment of Coq, or open a string in it."""
    return re.sub(r"[^\w .,:;=/^|<>+-]", " ", text)
