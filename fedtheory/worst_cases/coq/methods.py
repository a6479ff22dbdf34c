"""The methods that Coq knows by name, and the hyperparameters that a definition has.

`methods_defined.v` defines them, and `methods.v` proves that the places of each are its points. Any
other run is told by its equations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedtheory.errors import MissingCapability
from fedtheory.worst_cases.coq.export import Theorem
from fedtheory.worst_cases.coq.places import rational, real

__all__ = ["Words", "words"]


@dataclass(frozen=True)
class Words:
    """The words in which a theorem speaks of a run.

    Attributes
    ----------
    premises : what the run is
    introduced : their names in a proof, after those of what the premises bind
    places, points : those of Coq's checker, and the points
    slopes : the subgradients there, where losses are not smooth
    placed, subgradients : tactics that prove that places are points, and slopes subgradients
    models : the models that the criterion is taken at, and, of several, the one of number t
    defined : the name of the method's definition; '' where equations say what the run is
    more : definitions of the proof besides the certificate
    refined, proofs : the proof's term and tactics, where they are not those of the criterion
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
    more: str = ""
    refined: str = ""
    proofs: Sequence[str] = ()


def words(of: Theorem) -> Words:
    """A method by its name where Coq defines it with these hyperparameters, else its equations.

    Raises
    ------
    MissingCapability
        Another method with an l1 term.
    """
    name = of.question.subject.name, *sorted(of.options)
    make = None if of.question.subject.source else NAMED.get(name)
    fits = of.goal.kind != "cohort" and of.smooth == (make not in (subgradient, fedmls))
    named = make(of) if make and fits else None
    if named is None and of.pulls is not None:
        raise MissingCapability(
            "no theorem of Coq is made of this certificate (an l1 term): with one Coq's side has the "
            "gap of fedelasticnet-dyn with several clients alone"
        )
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
def _last(of: Theorem, count: int) -> str | None:
    """The number of the model of the goal, 't' of the best one; None if points or goal are others.

    count : of points, the last one being the last model
    """
    T, K, best = of.question.rounds, of.local_steps or 1, of.goal.kind == "best-gap"
    at = [1 + t * K for t in range(T)] if best else [count - 1]
    fits = of.of_models and of.at == at and len(of.points) == count - best
    return ("t" if best else str(T)) if fits else None


def fedavg(of: Theorem) -> Words | None:
    """K steps of every client, and the mean."""
    K, T, h = of.local_steps or 1, of.question.rounds, of.options["step"] * of.slope
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
    """Server step 1, option II or I."""
    K, T, h = of.local_steps or 1, of.question.rounds, of.options["step"] * of.slope
    first = of.options.get("option") == "gradient"
    if (t := _last(of, T * K + 2)) is None:
        return None
    name, option = "scaffold_I" if first else "scaffold", "true" if first else "false"
    return Words(
        [],
        [],
        f"scaffold_places {option} {rational(h)} {K} {T}",
        f"(scaffold_points N {K} {option} {rational(h)} L g xs x0)",
        "apply scaffold_placed; [lia | exact HL | numbers]",
        f"(fst ({name} N ({real(h)} / L) {K} g x0 {t}))",
        defined=name,
    )


def _exact(
    of: Theorem, method: str, number: str, variables: str, names: Sequence[str]
) -> Words | None:
    """A method of exact local solves, whose points are the clients' models."""
    T = of.question.rounds
    if of.local_steps or of.goal.kind == "best-gap" or _last(of, T + 2) is None:
        return None
    a = of.options[number] / of.slope
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
    """Exact local solves, or K gradient steps."""
    variables, names = "(x : nat -> E) (y h : nat -> nat -> E)", ("x", "y", "h")
    if (K := of.local_steps) is None:
        return _exact(of, "feddyn", "alpha", variables, names)
    T, h, a = of.question.rounds, of.options["step"] * of.slope, of.options["alpha"] / of.slope
    if (t := _last(of, T * K + 2)) is None:
        return None
    numbers = f"{rational(h)} {rational(a)}"
    run = f"feddyn N (walked {K} ({real(h)} / L)) ({real(a)} * L) g x0 x y h"
    return Words(
        [f"forall {variables}, {run}"],
        [*names, "F"],
        f"walk_places {numbers} {K} {T}",
        f"(walk_points {K} {numbers} L g xs x h)",
        f"apply (walk_placed N {K} {T} {numbers} L g xs x0 x y h); "
        "[lia | exact HL | numbers | exact F]",
        f"(x {t}%nat)",
        defined="feddyn",
    )


def fedprox(of: Theorem) -> Words | None:
    """Exact local solves."""
    return _exact(of, "fedprox", "mu", "(x : nat -> E) (y : nat -> nat -> E)", ("x", "y"))


def subgradient(of: Theorem) -> Words | None:
    """A subgradient of each client at the server's model."""
    T, h = of.question.rounds, of.options["step"] * of.slope
    if (t := _last(of, T + 2)) is None:
        return None
    return Words(
        [
            "forall (x : nat -> E) (s : nat -> nat -> E), "
            f"subgradient_method N ({real(h)} * radius / G) f x0 x s"
        ],
        ["x", "s", "F"],
        f"subgradient_places {rational(h)} {len(of.points) - 1}",
        "(subgradient_points xs x)",
        f"apply (subgradient_placed N {len(of.points) - 1} {rational(h)} G radius f xs x0 s0 x s); "
        "exact F",
        f"(x {t}%nat)",
        "(subgradient_slopes s0 s)",
        "intros i k Hi Hk. "
        f"apply (subgradient_slopes_are N {rational(h)} G radius f xs x0 s0 x s F); "
        "[apply (at_optimum S) | exact Hk]",
        "subgradient_method",
    )


def fedmls(of: Theorem) -> Words | None:
    """Exact local solves on all of space."""
    T = of.question.rounds
    if of.goal.kind == "best-gap" or _last(of, T + 1) is None:
        return None
    a = of.options["lam"] * of.slope
    given = f"N {T} {rational(a)} G radius f xs x0 s0 last x z xl zl s"
    variables = "(x z : nat -> E) (xl zl s : nat -> nat -> E) (last : nat -> E)"
    return Words(
        [
            f"forall {variables}, fedmls N ({real(a)} * radius / G) f x0 x z xl zl s",
            f"(forall k, (k < N)%nat -> subgradient (f k) (x {T}%nat) (last k))",
        ],
        ["x", "z", "xl", "zl", "s", "last", "F", "D"],
        f"fedmls_places {rational(a)} {T}",
        f"(mls_points {T} xs x zl)",
        f"apply (fedmls_placed {given}); [exact HG | exact HR | numbers | exact F]",
        f"(x {T}%nat)",
        f"(mls_slopes {T} s0 last s)",
        f"intros i k Hi Hk. apply (mls_slopes_are {given} F); "
        "[apply (at_optimum S) | exact D | simpl in Hi; lia | exact Hk]",
        "fedmls",
    )


def elastic_net(of: Theorem) -> Words | None:
    """Algorithm 3 with the true-gradient rule, for every l1."""
    T, N = of.question.rounds, f"N {of.question.rounds} (some_client S)"
    alone = of.question.clients == 1
    if of.goal.kind != "gap" or _last(of, T + 2) is None or alone or of.pulls is None:
        return None
    a = of.options["l2"] / of.slope
    q, l2 = rational(1 / a), f"({real(a)} * L)"
    variables = "(norm : E -> R) (l1 : R) (x : nat -> E) (y h p : nat -> nat -> E)"
    pulls = "; ".join(
        f"Pull {rational(p.multiplier)} {p.t} ({p.sign} # 1) {str(p.mean).lower()} {p.other}"
        for p in of.pulls
    )
    return Words(
        [f"forall {variables}, elastic_net N norm l1 {l2} g x0 x y h p"],
        ["norm", "l1", "x", "y", "h", "p", "F"],
        f"net_places {q} {T}",
        "",
        "",
        f"(x {T}%nat)",
        defined="elastic_net",
        more=f"Definition pulls : list pull := [{pulls}].\n",
        refined=f"""known_gap_bound data N _ L radius _ f g xs x0 (exact_points {T} xs x y)
    HL S _ _ (fun _ => eq_refl)
    (net_vectors {T} g xs x y p) (fun i k => old_vector {T} g xs x y p i k)
    (net_placed {N} {q} L l1 {l2} norm g xs x0 x y h p _ _ F) {T + 1}%nat _
    (map (pull_term {q} {T}) pulls) (fun k _ => exact_last {T} xs x y k)
    (pulls_positive {N} {q} L l1 {l2} norm g xs x0 x y h p HL _ F pulls eq_refl) _""",
        proofs=[*["numbers"] * 5, "vm_cast_no_check (eq_refl true)"],
    )


NAMED: Mapping[
    tuple[str, ...], Callable[[Theorem], Words | None]
] = {  # a name, and all options that differ from the class's defaults
    ("fedavg", "step"): fedavg,
    ("scaffold", "step"): scaffold,
    ("scaffold", "option", "step"): scaffold,
    ("feddyn", "alpha"): feddyn,
    ("feddyn", "alpha", "step"): feddyn,
    ("fedprox", "mu"): fedprox,
    ("fedelasticnet-dyn", "l1", "l2"): elastic_net,
    ("fedelasticnet-dyn", "l2"): elastic_net,
    ("subgradient", "step"): subgradient,
    ("fedmls", "lam", "lipschitz"): fedmls,
}
