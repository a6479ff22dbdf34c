"""A potential of one round that is proved, followed over every number of rounds, or the reason why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import MissingCapability
from fedtheory.theory.rounds.forms import Potential
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.proof_scopes import MANY, Case, undeclared
from fedtheory.theory.rounds.vector_forms import only_vectors, quadratics, view_of
from fedtheory.theory.rounds.vector_worlds import OWN, CohortWorld
from fedtheory.worst_cases.gram import Quadratic, common, own
from fedtheory.worst_cases.runs import OPTIMUM

__all__ = ["followed"]

OF_LOSSES = frozenset({OPTIMUM, OWN, "g*"})  # names of what no state has a part in


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
    if any(isinstance(view.world, CohortWorld) for view in views):
        return "one round, and not every number of rounds: cohort by cohort no state is followed"
    last = max(case.rounds for case in cases)
    whys = (_not_again(setting, view, last) or _of_another(view, one.sides.V) for view, one in zip(views, claimed, strict=True))
    if why := next(filter(None, whys), ""):
        return f"one round, and not every number of rounds: {why}"
    if any(np.any(np.asarray(one.sides.rho) < 0) for one in claimed):
        return "one round, and not every number of rounds: rho is negative"
    every = dict.fromkeys(_of_runs(one.sides) for one in claimed)
    needed = " and ".join(need.words for need in claimed[0].needed)
    return f"for every number of rounds T: {', or '.join(every)}" + f", where in every round {needed}" * bool(needed)


def _of_runs(of: Potential) -> str:
    """What E V_T is at most where a potential is one of every round."""
    noise, gains = quadratics(of.added), any(q != Quadratic() for q in quadratics(of.gain))
    noisy = any(q.gram or q.values or q.constant for q in noise)
    still = all({*q.values, *(n for key in q.gram for n in key[1:])} <= OF_LOSSES for q in noise)
    if np.all(np.asarray(of.rho) == 1):
        sum_ = "the sum of E D over T rounds is at most V_0" if gains else "E V_T is at most V_0"
        return sum_ + f" + {'T noise' if still else 'the sum of the noise'}" * noisy
    left = "E V_T + the sum over t < T of rho^(T-1-t) E D_t" if gains else "E V_T"
    more = " + noise (1 - rho^T)/(1 - rho)" if still else " + the sum over t < T of rho^(T-1-t) noise_t"
    return f"{left} is at most rho^T V_0{more * noisy}"


class _AnyState:
    """A state of vectors of its own, as a potential reads it."""

    def __init__(self, view: Any) -> None:
        self._view, trace = view, view.world.trace
        for name, now in zip(view.path.states[-2]._fields, view.path.states[-2], strict=True):
            if now is not None:
                made = trace.of_server(common(f"any {name}")) if np.ndim(now) == 2 else trace.of_clients(own(f"any {name}"))
                setattr(self, name, made[:, None])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        view, x = self._view, self.x
        if name.startswith("gradient"):
            found = (view.world.weights[:, None] * view.world.gradients(x)).sum(axis=-2)
            return view.sq(found) if name == "gradient_sq" else found
        return {"F": view.value, "gap": view.gap_at, "distance_sq": lambda x: view.sq(x - view.x_star)}[name](x)


def _of_another(view: Any, V: Any) -> str:
    """Why V of a state depends on another state, or ''."""
    known = {*view.world.run.points} - OF_LOSSES
    try:
        with only_vectors("V"):
            found = quadratics(V(_AnyState(view)))
    except MissingCapability as error:
        return f"V of any state is no form of vectors ({error})"
    names = {n for q in found for n in (*q.values, *(n for key in q.gram for n in key[1:]))}
    others = known | {n for n in names if n == "x0" or n.startswith("state ")}
    return "V of the state after it depends on the state before it, too" if names & others else ""


def _not_again(setting: MethodSetting, view: Any, last: int) -> str:
    """Why the state after a round need not be one that the statement is about, or ''; and the one at the start."""
    if "t" in view.world.trace.read:
        return f"the method asks which round it is, and rounds after at most {last} others are looked at"
    if not setting._free:
        return f"the state before it is that of runs of up to {last} rounds" if undeclared(setting, view) else ""
    if left := undeclared(setting, view):
        return f"{left[0]} before the round is as at the start"
    world, (*_, before, after) = view.world, view.path.states
    begun = view.method.init(before.x, world.num_clients)
    for name, rule in setting.of_statement.states.items():
        for state, when in ((begun, "at the start"), (after, "after a round")):
            if callable(rule):
                made = rule({n: getattr(state, n)[0] for n in setting._free})
                if world.trace.vector(np.asarray(made, dtype=object)[None]) != world.trace.vector(getattr(state, name)):
                    return f"{name} {when} is not what the statement says of it"
    return ""
