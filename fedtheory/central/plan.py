"""MOPES and MOLES with the parameters that their bound asks for, for an accuracy relative to G ||x_0 - x*||."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.arrays import OwnArrays
from fedtheory.central.functions import Joint
from fedtheory.central.moles import MOLES
from fedtheory.central.mopes import MOPES, STILL_SHORT
from fedtheory.central.optimum import optimum_over
from fedtheory.central.sets import Consensus, ConstraintSet
from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_number, shown
from fedtheory.optimum.certify import Optimum
from fedtheory.problems.base import Problem

__all__ = ["ACCURACY", "METHODS", "Planned", "plan"]

ACCURACY = 0.2  # epsilon where none is given, in units of G ||x_0 - x*||
METHODS: dict[str, type[MOPES]] = {"mopes": MOPES, "moles": MOLES}


@dataclass(frozen=True)
class Planned(OwnArrays):
    """A run that is made ready.

    Attributes
    ----------
    method : with all its parameters
    problem : what it minimises: a federated problem as one, or as it is over `Consensus`
    optimum : over the set
    distance : ||x_0 - x*||, over `Consensus` that of one block
    relative, epsilon : the accuracy, in units of G ||x_0 - x*|| and as it is
    """

    name: str
    method: MOPES
    problem: Problem
    constraint: ConstraintSet
    x0: np.ndarray
    optimum: Optimum
    distance: float
    relative: float
    epsilon: float

    @property
    def bound(self) -> float:
        """The bound that F(x_K) - F* cannot exceed, in expectation."""
        return self.method.bound(self.distance**2)

    def rows(self) -> list[tuple[str, str]]:
        """List what to print, name and value."""
        m, K = self.method, int(self.method.rounds)
        steps = m.local_steps()[:-1] if m.skip_last else m.local_steps()
        if m.solved:
            work = "each inner problem is solved, to a certified gap"
        else:
            most = f": T_1 = {steps[0]:,}, ..., {steps[-1]:,}" if steps else ""
            work = f"{sum(steps):,}{most}"
        rows = [
            ("set X", f"{self.constraint!r}"),
            ("F*", f"{self.optimum.value:.10g} (relative gap {self.optimum.gap:.2g})"),
            ("G on X'", f"{float(m.lipschitz):.10g}"), ("||x_0 - x*||", f"{self.distance:.6g}"),
            ("epsilon", f"{self.epsilon:.6g} = {self.relative:g} G ||x_0 - x*||"),
            ("lambda", f"{float(m.lam):.6g}"), ("rounds K", f"{K:,}"), ("subgradients", work),
            ("bound of F(x_K) - F*", f"{self.bound:.6g}"),
        ]
        if isinstance(m, MOLES):
            limit = m.lmo_limit(self.constraint.diameter)
            gap = f"to a Wolfe gap of C/(4K), C = {float(m.C):.6g}"  # type: ignore[arg-type]
            rows.insert(-1, ("linear minimisations", f"at most {limit:,} a round, {gap}"))
        if m.noise_std:
            rows.append(("noise added", f"standard deviation {float(m.noise_std):.6g}"))
        return rows

    def to_json(self) -> dict[str, Any]:
        """All of it, as it is written beside the results."""
        return {
            "name": self.name, **{k: float(v) if isinstance(v, Fraction) else v for k, v in asdict(self.method).items()},
            "set": repr(self.constraint), "x0": self.x0, "distance": self.distance, "epsilon": self.epsilon,
            "epsilon_relative": self.relative, "bound": self.bound,
        }  # fmt: skip


def plan(problem: Problem, constraint: ConstraintSet, name: str = "mopes", x0: Any = None, **options: Any) -> Planned:
    """MOPES or MOLES on a federated problem over a convex set, with the parameters of its bound
    where none are given.

    Parameters
    ----------
    problem : Problem
        F is its mean: with all data in one place, or in the product space where the set is
        `Consensus`.
    name : 'mopes' or 'moles'
    x0 : a point of the set; default the projection of 0, or a vertex where there is no projection
    options :
        epsilon (in units of G ||x_0 - x*||, default `ACCURACY`), noise (in units of G), rounds (K),
        radius (of X'), C, and the other fields of `MOPES`; None counts as not given.

    Raises
    ------
    InvalidInput
        Values out of range; x_0 outside the set, or a minimiser over it; a run that would take
        hours.
    MissingCapability
        A problem without Lipschitz constants on a ball, or whose minimum over the set cannot be
        certified; a set without what the method asks of it.
    NotCertified
        The minimum over the set could not be certified.
    """
    if name not in METHODS:
        raise InvalidInput(f"method = {name!r}: use one of {', '.join(METHODS)}")

    if not (isinstance(problem, Problem) and isinstance(constraint, ConstraintSet)):
        raise InvalidInput(f"problem = {shown(problem)}, constraint = {shown(constraint)}: give a Problem and a ConstraintSet")

    def get(key: str, default: Any = None) -> Any:
        return default if options.get(key) is None else options[key]

    relative = real_number("epsilon", get("epsilon", ACCURACY), above=0)
    consensus = isinstance(constraint, Consensus)
    whole = problem if consensus else Joint(problem)
    radius = real_number("radius", get("radius", constraint.block_norm_bound), above=0)
    g = float(get("lipschitz", whole.lipschitz_rms(radius) if consensus else whole.lipschitz(radius)[0]))
    if g == 0:
        raise InvalidInput("G = 0: F is constant on the set, and every point is a minimiser: there is nothing to do")
    if name == "mopes" and options.get("C") is not None:
        raise InvalidInput(f"C = {options['C']:g}: it is moles' allowance for inexact projections; mopes projects, leave it out")
    probe = _method(name, constraint, get("lam", 1.0), get("D", 1.0), get("rounds", 1), g, options)  # refuses what is out of range
    start, _ = probe.ready(whole, constraint, x0)
    optimum = optimum_over(problem, constraint)
    blocks = constraint.blocks if isinstance(constraint, Consensus) else 1
    distance = float(np.linalg.norm(start - optimum.x)) / math.sqrt(blocks)
    if distance == 0:
        raise InvalidInput("x_0 is the minimiser: there is nothing to do from there; start elsewhere")
    epsilon = relative * g * distance
    made = _accurate(name, constraint, epsilon, g, distance**2, options)
    K = int(get("rounds", made.rounds))
    if K > STILL_SHORT and not get("allow_long"):
        raise InvalidInput(f"K = {K:,} rounds, more than {STILL_SHORT:,}: ask for a larger epsilon, or pass allow_long=True to go on")
    method = replace(made, rounds=K, **{k: options[k] for k in ("lam", "D") if options.get(k) is not None})
    if get("allow_long"):
        method = replace(method, max_steps=10**18)
    method.ready(whole, constraint, start)
    return Planned(name, method, whole, constraint, start, optimum, distance, relative, epsilon)


def _shared(g: float, options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that are as given."""
    noise, std = options.get("noise"), options.get("noise_std")
    if noise is not None and std is not None:
        raise InvalidInput(f"noise = {noise:g}, noise_std = {std:g}: give one of them (the first is in units of G)")
    out = {k: options[k] for k in ("sigma", "batch_size", "skip_last", "local_training", "radius") if options.get(k) is not None}
    added = std if noise is None else noise * g
    if added:
        out |= {"noise_std": added, "sigma": out.get("sigma", added)}
    return out


def _method(name: str, constraint: ConstraintSet, lam: Any, D: Any, rounds: int, g: float, options: Mapping[str, Any]) -> MOPES:
    more: dict[str, Any] = {"C": _allowance(constraint, options)} if name == "moles" else {}
    return METHODS[name](lam, D, rounds, g, **_shared(g, options), **more)


def _allowance(constraint: ConstraintSet, options: Mapping[str, Any]) -> float:
    return float(constraint.diameter**2 if options.get("C") is None else options["C"])


def _accurate(
    name: str, constraint: ConstraintSet, epsilon: float, g: float, distance_sq: float, options: Mapping[str, Any]
) -> MOPES:
    """Theory's parameters for the accuracy."""
    more = _shared(g, options)
    if name == "mopes":
        return MOPES.for_accuracy(epsilon, g, distance_sq, **more)
    made = MOLES.for_accuracy(epsilon, g, distance_sq, math.sqrt(_allowance(constraint, options)), **more)
    return replace(made, C=_allowance(constraint, options))
