"""A potential of one round that is proved, followed over every number of rounds, or the reason why not.

E V(s+) <= rho V(s) - D + noise is proved for every state s of a set, with the mean over the cohorts
that may be drawn after s. Where V is one function of the state, a round leads from the set into the
set whichever cohort is drawn, the run starts in it, and cohorts are drawn whatever the state is,
the inequality holds in every round given what came before, and expectations add up over any number
of rounds if rho >= 0. What is summed needs V >= 0, which is a part of the proof. D and the noise may
read the round and its cohort, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from fedtheory.algorithms.base import begun
from fedtheory.errors import MissingCapability
from fedtheory.theory.rounds.forms import OF_STATES, Potential
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import everyone
from fedtheory.theory.rounds.proof_scopes import MANY, Case, elsewhere, undeclared
from fedtheory.theory.rounds.vector_forms import only_vectors, quadratics, view_of
from fedtheory.theory.rounds.vector_worlds import OWN, OWN_X, CohortWorld
from fedtheory.worst_cases.entries import NotLinear
from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.runs import OPTIMUM, X_STAR

__all__ = ["followed"]

OF_LOSSES = frozenset({OPTIMUM, OWN, OWN_X, "g*", X_STAR})  # names of what no state has a part in
ANY = "any "  # vectors of a state that stands for all


def followed(
    statement: Any, form: str, cases: list[Case], constants: Sequence[Mapping[str, Fraction]]
) -> str:
    """What a potential that is proved says of runs, in words; '' of another form.

    constants : of each case those with other values
    """
    setting = MethodSetting.of(statement)
    many = [case._replace(rows=max(case.rows, MANY)) for case in cases]
    views = [view_of(setting, *case).other(dict(of)) for case, of in zip(many, constants, strict=True)]
    claimed = [statement.on(view, mutants=False, only=form)[form] for view in views]
    if not isinstance(claimed[0].sides, Potential):
        return ""
    last = max(case.rounds for case in cases)
    every = [(view, one.sides) for view, one in zip(views, claimed, strict=True)]
    whys = chain(
        (
            _not_again(setting, view, last) or _of_another(view, of) or _factor(of)
            for view, of in every
        ),
        (_not_elsewhere(setting, case, of, last) for case, of in zip(many, constants, strict=True)),
    )
    if why := next(filter(None, whys), ""):
        return f"one round, and not every number of rounds: {why}"
    told = dict.fromkeys(_of_runs(view, of) for view, of in every)
    needed = " and ".join(need.words for need in claimed[0].needed)
    whoever = any(np.size(need.rhs - need.lhs) > 1 for one in claimed for need in one.needed)
    where = f", where in every round{', whoever is drawn,' * whoever} {needed}" * bool(needed)
    return f"for every number of rounds T: {', or '.join(told)}{where}"


def _factor(of: Potential) -> str:
    """Why rho is no factor of every round, or ''."""
    rho = np.unique(np.asarray(of.rho))
    if len(rho) > 1:
        return "rho depends on who takes part"
    return "rho is negative" if rho[0] < 0 else ""


def _of_runs(view: Any, of: Potential) -> str:
    """What E V_T is at most where a potential is one of every round."""
    noise, gains = quadratics(of.added), any(q != Quadratic() for q in quadratics(of.gain))
    noisy = any(q.gram or q.values or q.constant for q in noise)
    still = _of_losses(_made_of(view, noise)) and all(q == noise[0] for q in noise)
    if np.all(np.asarray(of.rho) == 1):
        sum_ = "the sum of E D over T rounds is at most V_0" if gains else "E V_T is at most V_0"
        return sum_ + f" + {'T noise' if still else 'the expected sum of the noise'}" * noisy
    left = "E V_T + the sum over t < T of rho^(T-1-t) E D_t" if gains else "E V_T"
    more = " + noise (1 - rho^T)/(1 - rho)" if still else " + the sum over t < T of rho^(T-1-t) E noise_t"
    return f"{left} is at most rho^T V_0{more * noisy}"


def _made_of(view: Any, forms: Sequence[Quadratic]) -> set[str]:
    """The vectors that forms are made of, and those of the points at which they ask for losses."""
    points, found = view.world.run.points, set[str]()
    left = {n for q in forms for n in (*q.values, *(n for key in q.gram for n in key[1:]))}
    while left:
        found.add(name := left.pop())
        if name in points:
            left |= {*points[name].at.mean, *points[name].at.deviation} - found
    return {name for name in found if name not in points}


def _of_losses(names: set[str]) -> bool:
    """True if no state has a part in any; in names of one client a number follows."""
    return all(name in OF_LOSSES or name.rpartition(".")[0] in OF_LOSSES for name in names)


class _OneState:
    """A state by itself, as a potential reads it: its fields (1, 1, ...)."""

    def __init__(self, view: Any, fields: Mapping[str, Any]) -> None:
        own = fields.keys() - (OF_STATES.keys() - {"x"})  # as a potential reads them
        vars(self).update({name: fields[name] for name in own} | {"_view": view})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        view, x = self._view, self.x
        if name.startswith("gradient"):
            found = (view.world.weights[:, None] * view.world.gradients(x)).sum(axis=-2)
            return view.sq(found) if name == "gradient_sq" else found
        return {"F": view.value, "gap": view.gap_at, "distance_sq": lambda x: view.sq(x - view.x_star)}[name](x)


@contextmanager
def _without_means(world: Any) -> Iterator[None]:
    """Refuse expectations over the cohort, which a state by itself has none of."""
    def refuse(v: Any) -> Any:
        raise NotLinear("it has the mean over the cohorts in it")

    world.expected = refuse
    try:
        yield
    finally:
        del world.expected


def _of_another(view: Any, sides: Potential) -> str:
    """Why V is not one function of a state, or ''."""
    world, (before, after) = view.world, view.path.states[-2:]
    names = [name for name in before._fields if getattr(before, name) is not None]

    def of(fields: Mapping[str, Any]) -> list[Quadratic]:
        return quadratics(sides.V(_OneState(view, {name: v[:, None] for name, v in fields.items()})))

    def there(state: Any, i: int) -> list[Quadratic]:
        return of({name: getattr(state, name)[i : i + 1] for name in names})

    try:
        with only_vectors("V"), _without_means(world):
            anywhere = of({n: world.any_vector(ANY + n, np.ndim(getattr(before, n)) == 3) for n in names})
            now, then = there(before, 0), [there(after, i) for i in range(len(after.x))]
    except MissingCapability as error:
        return f"V of any state is no form of vectors ({error})"
    made = {name for name in _made_of(view, anywhere) if not name.startswith(ANY)}
    if not _of_losses(made):
        return "V of the state after it depends on the state before it, too"
    claimed = quadratics(sides.lhs)
    if len(anywhere) > 1 or now != quadratics(sides.before) or any(v != [claimed[i % len(claimed)]] for i, v in enumerate(then)):
        return "V of a state depends on more than the state: on who takes part, or on other states"
    return ""


def _not_elsewhere(
    setting: MethodSetting, case: Case, constants: Mapping[str, Fraction], last: int
) -> str:
    """Why the state after a round, or at the start, is none that the statement is about for another
    dimension or number of clients, or ''."""
    for other in elsewhere(setting, case) if setting._free else ():
        try:
            view = view_of(setting, **{**case._asdict(), **other}).other(dict(constants))
            with only_vectors("the start"):
                why = _not_again(setting, view, last)
        except MissingCapability as error:
            why = str(error)
        if why:
            return why
    return ""


def _not_again(setting: MethodSetting, view: Any, last: int) -> str:
    """Why the state after a round need not be one that the statement is about, or ''; and the one at the start."""
    if "t" in view.world.trace.read:
        return f"the method asks which round it is, and rounds after at most {last} others are looked at"
    if not setting._free:
        return f"the state before it is that of runs of up to {last} rounds" if undeclared(setting, view) else ""
    if left := undeclared(setting, view):
        return f"{left[0]} before the round is as at the start"
    world, (*_, before, after) = view.world, view.path.states
    N = world.num_clients
    first = begun(
        view.method, before.x, N, lambda: world.clients(everyone(N, 1), {}, before.x, None, 1)
    )

    def vectors(v: Any) -> list[Any]:
        v = np.asarray(v, dtype=object)
        each = isinstance(world, CohortWorld) and v.ndim == 2
        return [world.trace.vector(row[None]) for row in (v if each else v[None])]

    for name, rule in setting.of_statement.states.items():
        for state, when in ((first, "at the start"), (after, "after a round")):
            for i in range(len(state.x)) if callable(rule) else ():
                made = rule({n: getattr(state, n)[i] for n in setting._free})
                if vectors(made) != vectors(getattr(state, name)[i]):
                    return f"{name} {when} is not what the statement says of it"
    return ""
