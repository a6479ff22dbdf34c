"""The methods that Coq knows by name, and the hyperparameters that a definition has.

`methods_defined.v` defines them, and `methods.v` proves that the places of each are its points. Any
other run is told by its equations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedtheory.worst_cases.coq.export import Theorem
from fedtheory.worst_cases.coq.places import rational, real

__all__ = ["Words", "words"]


@dataclass(frozen=True)
class Words:
    """How a theorem speaks of a run.

    Attributes
    ----------
    premises : what the run is
    introduced : their names in a proof, after those of what the premises bind
    places, points : those of Coq's checker, and the points
    slopes : the subgradients there, where losses are not smooth
    placed, subgradients : tactics that prove that places are points, and slopes subgradients
    models : the models that the criterion is taken at, and, of several, the one of number t
    defined : the name of the method's definition; '' where equations say what the run is
    """

    premises: Sequence[str]
    introduced: Sequence[str]
    places: str
    points: str
    placed: str
    model: str
    slopes: str = ""
    subgradients: str = ""
    defined: str = ""


def words(of: Theorem) -> Words:
    """A method by its name where Coq defines it with these hyperparameters, else its equations."""
    make = (
        NAMED.get((of.question.subject.name, *sorted(of.question.subject.options)))
        if not of.question.subject.source
        else None
    )
    named = None if make is None else make(of)
    return named or equations(of)


def equations(of: Theorem) -> Words:
    """One equation for each point of the run, and a subgradient there of losses not smooth."""
    new = [(i, p) for i, p in enumerate(of.places) if not p.known]
    of_clients, of_all = ([p.name for _, p in new if p.each is each] for each in (True, False))
    slopes = [] if of.smooth else [f"s{i}" for i in range(1, len(of.places))]
    kinds = (([*of_clients, *slopes], "nat -> E"), (of_all, "E"))
    variables = " ".join(f"({' '.join(names)} : {kind})" for names, kind in kinds if names)
    premises, introduced = [], [*of_clients, *slopes, *of_all]
    for i, p in enumerate(of.places[1:], 1):
        if not p.known:
            premises.append(p.equation)
            introduced.append(f"H{i}")
        if slopes:
            premises.append(f"(forall k, (k < N)%nat -> subgradient (f k) {p.inside} (s{i} k))")
            introduced.append(f"D{i}")
    premises = [f"forall {variables}, {premises[0]}", *premises[1:]] if variables else premises
    last = len(of.places) - 1

    def cases(each: Sequence[str]) -> str:
        ways = " | ".join(f"{i} => {x}" for i, x in enumerate(each[:-1]))
        return f"(fun i k => match i with {ways} | _ => {each[-1]} end)%nat"

    exact = "".join(f" destruct i as [|i]; [apply D{i}; assumption|]." for i in range(1, last + 1))
    listed = "; ".join(of.places[i].name for i in of.at)
    return Words(
        premises,
        introduced,
        "[\n    " + ";\n    ".join(p.vec for p in of.places) + "]",
        cases([p.here for p in of.places]),
        "places",
        of.places[of.at[0]].name if of.goal.kind != "best-gap" else f"(nth t [{listed}] x0)",
        cases(["s0 k", *(f"{s} k" for s in slopes)]) if slopes else "",
        "intros i k Hi Hk. destruct i as [|i]; [apply (at_optimum S); assumption|]."
        f"{exact} simpl in Hi; lia",
    )


# --- the table ------------------------------------------------------------------------------------
def _step(of: Theorem) -> Fraction:
    """The size of a step, in units of positions over gradients."""
    return (
        of.question.subject.options["step"]
        * of.question.units.gradient
        / of.question.units.position
    )


def _last(of: Theorem, count: int) -> str | None:
    """The number of the model of the goal, 't' of the best one; None if points or goal are others.

    count : of points, the last one being the last model
    """
    T, K, best = (
        of.question.rounds,
        of.question.subject.local_steps or 1,
        of.goal.kind == "best-gap",
    )
    at = [1 + t * K for t in range(T)] if best else [count - 1]
    return (
        ("t" if best else str(T))
        if of.of_models and of.at == at and len(of.places) == count - best
        else None
    )


def fedavg(of: Theorem) -> Words | None:
    """K steps of every client, and the mean."""
    K, T, h = of.question.subject.local_steps or 1, of.question.rounds, _step(of)
    if (t := _last(of, T * K + 2)) is None:
        return None
    return Words(
        [],
        [],
        f"fedavg_places {rational(h)} {K} {T}",
        f"(fedavg_points N {K} {rational(h)} L g xs x0)",
        "apply fedavg_placed; lia",
        f"(fedavg N ({real(h)} / L) {K} g x0 {t})",
        defined="fedavg",
    )


def scaffold(of: Theorem) -> Words | None:
    """Option II, server step 1."""
    K, T, h = of.question.subject.local_steps or 1, of.question.rounds, _step(of)
    if (t := _last(of, T * K + 2)) is None:
        return None
    return Words(
        [],
        [],
        f"scaffold_places false {rational(h)} {K} {T}",
        f"(scaffold_points N {K} false {rational(h)} L g xs x0)",
        "apply scaffold_placed; [lia | exact HL | numbers]",
        f"(fst (scaffold N ({real(h)} / L) {K} g x0 {t}))",
        defined="scaffold",
    )


def _exact(
    of: Theorem, method: str, number: str, variables: str, names: Sequence[str]
) -> Words | None:
    """A method of exact local solves, whose points are the clients' models."""
    T = of.question.rounds
    if (
        of.question.subject.local_steps is not None
        or of.goal.kind == "best-gap"
        or _last(of, T + 2) is None
    ):
        return None
    a = (
        of.question.subject.options[number]
        / of.question.units.gradient
        * of.question.units.position
    )
    work = "solved " * (method == "feddyn")
    run = f"forall {variables}, {method} N {work}({real(a)} * L) g x0 {' '.join(names)}"
    return Words(
        [run],
        [*names, "F"],
        f"{method}_places {rational(1 / a)} {T}",
        f"(exact_points {T} xs x y)",
        f"apply ({method}_placed N {T} {rational(1 / a)} L ({real(a)} * L) g xs x0 "
        f"{' '.join(names)}); "
        "[numbers | numbers | exact F]",
        f"(x {T}%nat)",
        defined=method,
    )


def feddyn(of: Theorem) -> Words | None:
    """Exact local solves."""
    return _exact(of, "feddyn", "alpha", "(x : nat -> E) (y h : nat -> nat -> E)", ("x", "y", "h"))


def fedprox(of: Theorem) -> Words | None:
    """Exact local solves."""
    return _exact(of, "fedprox", "mu", "(x : nat -> E) (y : nat -> nat -> E)", ("x", "y"))


def subgradient(of: Theorem) -> Words | None:
    """A subgradient of each client at the server's model."""
    T, h = of.question.rounds, _step(of)
    if (t := _last(of, T + 2)) is None:
        return None
    return Words(
        [
            "forall (x : nat -> E) (s : nat -> nat -> E), "
            f"subgradient_method N ({real(h)} * radius / G) f x0 x s"
        ],
        ["x", "s", "F"],
        f"subgradient_places {rational(h)} {len(of.places) - 1}",
        "(subgradient_points xs x)",
        f"apply (subgradient_placed N {len(of.places) - 1} {rational(h)} G radius f xs x0 s0 x s); "
        "exact F",
        f"(x {t}%nat)",
        "(subgradient_slopes s0 s)",
        "intros i k Hi Hk. "
        f"apply (subgradient_slopes_are N {rational(h)} G radius f xs x0 s0 x s F); "
        "[apply (at_optimum S) | exact Hk]",
        "subgradient_method",
    )


NAMED: Mapping[
    tuple[str, ...], Callable[[Theorem], Words | None]
] = {  # a name, and all options that differ from the class's defaults
    ("fedavg", "step"): fedavg,
    ("scaffold", "step"): scaffold,
    ("feddyn", "alpha"): feddyn,
    ("fedprox", "mu"): fedprox,
    ("subgradient", "step"): subgradient,
}
