"""From a violation found in float64 to a short exact witness: simpler numbers, one after the other, while the violation stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError
from fedtheory.rational import complexity, near, round_numbers
from fedtheory.theorems.fedelasticnet.exact import DiagonalLosses, exact_array
from fedtheory.theorems.fedelasticnet.exact_witness import DiagonalWitness, instance_of
from fedtheory.theory.judge.registry import get, setting_of

__all__ = ["claims", "margin", "shrink"]

WIDTHS = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 10), Fraction(1, 30), Fraction(1, 100), Fraction(1, 1000), Fraction(1, 10**5))
SPECIAL = (Fraction(0), Fraction(1), Fraction(-1))
Numbers = dict[str, Any]  # the fields of a witness as Fractions


def claims(witness: DiagonalWitness) -> tuple[Fraction, Fraction, Fraction]:
    """Give (lhs, rhs, scale) where rhs - lhs is least, of a run at its last horizon.

    Raises as `Setting.exact_check` does.
    """
    statement = get(witness.statement)
    _, lhs, rhs, scale = setting_of(statement).exact_check(statement, witness.witness())
    return lhs, rhs, scale


def margin(witness: DiagonalWitness) -> float:
    """(lhs - rhs)/scale in exact arithmetic; -1 where the instance is outside the assumptions."""
    try:
        lhs, rhs, scale = claims(witness)
    except FedTheoryError:
        return -1.0
    return float((lhs - rhs) / scale) if scale else 0.0


def _numbers(w: DiagonalWitness) -> Numbers:
    out: Numbers = {k: exact_array(getattr(w, k)) for k in ("h", "c", "x0")}
    out |= {k: exact_array([getattr(w, k)]) for k in ("lambda1", "lambda2")}
    if w.state is not None:
        out |= {f"state.{k}": exact_array(v) for k, v in w.state.items()}
    return out


def _texts(a: Any) -> Any:
    return [_texts(x) for x in a] if a.ndim > 1 else [str(x) for x in a]


def _with(w: DiagonalWitness, n: Numbers) -> DiagonalWitness:
    fields = {k: _texts(n[k]) for k in ("h", "c", "x0")} | {k: str(n[k][0]) for k in ("lambda1", "lambda2")}
    if w.state is not None:
        fields["state"] = {k: _texts(n[f"state.{k}"]) for k in w.state}
    return replace(w, **fields)


def _of_size_one(name: str) -> Callable[[Numbers], Numbers]:
    """Lengths in which the largest of these numbers is 1."""
    return lambda n: _scaled(n, 1 / (abs(n[name]).max() or Fraction(1)), Fraction(1))


def _scaled(n: Numbers, length: Fraction, loss: Fraction) -> Numbers:
    """x -> length * x and L -> loss * L; both leave the structure of the problem alone."""
    powers = {"h": (0, 1), "c": (1, 0), "x0": (1, 0), "lambda1": (1, 1), "lambda2": (0, 1)}
    powers |= {"state.theta": (1, 0), "state.local": (1, 0), "state.stored": (1, 1)}
    return {k: v * length ** powers[k][0] * loss ** powers[k][1] for k, v in n.items()}


def _moved(n: Numbers, shift: Any) -> Numbers:
    return {k: v - shift if k in ("c", "x0", "state.theta", "state.local") else v for k, v in n.items()}


def _opposite(n: Numbers) -> Numbers:
    """Two clients of equal curvature, as far left as right of a start at 0."""
    side = n["c"][0] - DiagonalLosses(n["h"], n["c"]).theta_star
    side = np.array([near(x, Fraction(1, 2)) if x else x for x in side], dtype=object)
    return {**n, "h": 0 * n["h"] + n["h"].max(), "c": np.stack([side, -side]), "x0": 0 * n["x0"]}


def _mirrored(n: Numbers) -> Numbers:
    """Two clients of equal curvature, as steep as lambda_1 > 0 at an optimum at 0; the start as many moves away."""
    top, l1 = near(n["h"].max(), Fraction(1, 4)), n["lambda1"][0]
    side = near(l1 / n["h"].max(), Fraction(1, 4))
    ends = np.array([side if x > 0 else -side for x in n["c"][0] - n["c"][1]], dtype=object)
    start = (n["x0"] - DiagonalLosses(n["h"], n["c"]).theta_star) * (top * side / l1)
    for index in np.ndindex(start.shape):
        start[index] = near(start[index], Fraction(1, 100)) if start[index] else start[index]
    l1 = np.array([top * side], dtype=object)
    return {**n, "h": 0 * n["h"] + top, "c": np.stack([ends, -ends]), "x0": start, "lambda1": l1}


def _joint_moves(n: Numbers) -> list[Callable[[Numbers], Numbers]]:
    """Simplifications that touch many numbers at once."""
    one = Fraction(1)
    moves: list[Callable[[Numbers], Numbers]] = [
        lambda n: {**n, "h": 0 * n["h"] + n["h"].max()},
        lambda n: {**n, "c": 0 * n["c"] + n["c"][0]},
        lambda n: _moved(n, DiagonalLosses(n["h"], n["c"]).theta_star),
        lambda n: _moved(n, n["c"][0]),
        lambda n: _moved(n, n["x0"] if n["x0"].ndim == 1 else n["x0"][0]),
        lambda n: _scaled(n, one, 1 / n["h"].max()),
    ]
    if len(n["c"]) == 2 and "state.theta" not in n:
        moves[:0] = [_opposite, _mirrored]
    for name in ("lambda1", "x0", "c"):
        moves.append(_of_size_one(name))
    for power in (-3, -2, -1, 1, 2, 3):
        moves.append(partial(_scaled, length=Fraction(10) ** power, loss=one))
        moves.append(partial(_scaled, length=one, loss=Fraction(10) ** power))
    return moves


def _total(n: Numbers) -> float:
    return sum(complexity(x) for a in n.values() for x in a.ravel())


def _simplify(w: DiagonalWitness, good: Callable[[DiagonalWitness], bool]) -> DiagonalWitness:
    """Greedy: joint moves, then every number in turn, until nothing gets simpler."""
    n = _numbers(w)
    for _ in range(4):
        before = _total(n)
        for move in _joint_moves(n):
            trial = move(n)
            if _total(trial) < _total(n) and good(_with(w, trial)):
                n = trial
        for name in n:
            tied = _copies(n) and name not in ("lambda1", "lambda2")  # identical coordinates stay identical
            for index in np.ndindex(n[name].shape[:-1] if tied else n[name].shape):
                old = n[name][(*index, 0)] if tied else n[name][index]
                nearby = [*(near(old, width) for width in WIDTHS), *round_numbers(old)] if old else []
                for new in sorted({*SPECIAL, *nearby}, key=lambda x: (complexity(x), abs(x - old))):
                    if complexity(new) >= complexity(old):
                        break
                    trial = {**n, name: n[name].copy()}
                    trial[name][index] = new
                    if good(_with(w, trial)):
                        n = trial
                        break
        if _total(n) >= before:
            break
    return _with(w, n)


def _copies(n: Numbers) -> bool:
    """Whether d > 1 and all coordinates are copies of the first."""
    arrays = [a for k, a in n.items() if k not in ("lambda1", "lambda2")]
    return arrays[0].shape[-1] > 1 and all((a == a[..., :1]).all() for a in arrays)


def shrink(start: DiagonalWitness, goal: float | None = None) -> DiagonalWitness | None:
    """The shortest witness this greedy search reaches, with its claimed sides filled in; None when the violation is not exact.

    Parameters
    ----------
    goal : margin (lhs - rhs)/scale to keep; default 1 %, or half of what the start has where that is less
    """
    have = margin(start)
    if not have > 0:
        return None
    goal = min(0.01, have / 2) if goal is None else goal

    def good(w: DiagonalWitness) -> bool:
        return margin(w) >= goal

    w = start
    if get(w.statement).scope == "run":
        w = _shorter_run(w, goal)
    elif w.cohorts:
        for keep in range(len(w.cohorts)):
            if good(shorter := replace(w, cohorts=w.cohorts[len(w.cohorts) - keep :])):
                w = shorter
                break
    w = _simplify(w, good)
    if w.T is not None:
        w = _shorter_run(w, goal)
    lhs, rhs, _ = claims(w)
    return replace(w, lhs=str(lhs), rhs=str(rhs))


def _shorter_run(w: DiagonalWitness, goal: float) -> DiagonalWitness:
    """The least horizon that keeps the margin."""
    statement = get(w.statement)
    horizon: Any = w.T  # a number: it is a run
    sides = statement.form(w.form).sides_on(instance_of(w).run_view(horizon))
    for rounds, (lhs, rhs, scale) in enumerate(zip(sides.lhs[:, 0], sides.rhs[:, 0], sides.scale[:, 0], strict=True), 1):
        if scale and (lhs - rhs) / scale >= goal:
            return replace(w, T=rounds)
    return w
