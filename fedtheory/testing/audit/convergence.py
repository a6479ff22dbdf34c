"""Checks of a long run: it goes to the certified optimum, and at the rate of the round's map."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.testing.audit import reference
from fedtheory.testing.audit.adapters import AdapterError
from fedtheory.testing.audit.battery import clients_of, everybody, optimum
from fedtheory.testing.audit.finding import Check, Finding
from fedtheory.testing.audit.parts import Round
from fedtheory.testing.audit.session import Session

__all__ = ["CONVERGES", "contraction"]

ROUNDS = 40, 1400  # at least and at most
SHRINKS = 1e-9  # what a run of the method itself would make of the distance in the rounds that are run
SLOWEST = 0.99  # a round; what goes slower is not waited for
REACHES = 1e-6  # of the distance at the start
KEPT = 1e-7  # an eigenvalue this near 1 belongs to what no round changes


def contraction(method: str, task: reference.Task) -> float:
    """The factor by which the slowest part of the state shrinks a round, with everybody taking
    part: the largest eigenvalue but 1.

    With squared losses and full cohorts a round is an affine map of the state; its matrix is found
    column by column. Eigenvalue 1 is left out: it belongs to sums that no round changes and that a
    run from the method's first state has at 0.
    """
    first = reference.init(method, task)
    names = [n for n in first if n != "y"]
    ends = np.cumsum([first[n].size for n in names])

    def after(flat: np.ndarray) -> np.ndarray:
        parts = np.split(flat, ends[:-1])
        state = first | {n: v.reshape(first[n].shape) for n, v in zip(names, parts, strict=True)}
        right = frozenset[str]().__contains__
        asked = Round(state, task.clients, task.cohorts[0], task.settings, right)
        new = reference.REFERENCES[method](asked)
        return np.concatenate([new[n].ravel() for n in names])

    size = int(ends[-1])
    at_zero = after(np.zeros(size))
    matrix = np.array([after(e) - at_zero for e in np.eye(size)]).T
    values = np.linalg.eigvals(matrix)
    return float(np.abs(values[np.abs(values - 1) > KEPT]).max())


def _converges(session: Session, name: str) -> Finding:
    goes = session.method.aim == "optimum"
    if not goes and session.method.name not in ("fedavg", "fedavgm"):
        return Finding(name, "does not apply", hint="no theorem promises that this method reaches the optimum")
    if not goes and (session.exact or not session.can("local_steps")):
        return Finding(
            name, "does not apply",
            hint="with several local steps it ends elsewhere, and the adapter does not take "
            "local_steps = 1",
        )
    clients = clients_of("squared", session.seed)
    over: dict[str, Any] = {} if goes else {"local_steps": 1}
    one = session.task(clients, everybody(), **over)
    # what clients keep is at rest only where no client moves: at the minimiser of the plain mean,
    # whatever weighs their updates
    x, error = optimum(clients, "uniform" if goes else str(one.settings["weighting"]))
    factor = contraction(session.method.name, one)
    if factor > SLOWEST:
        return Finding(name, "does not apply", hint=f"with these settings the method itself shrinks by {factor:.4g} a round, or grows")
    number = int(np.clip(np.ceil(np.log(SHRINKS) / np.log(max(factor, SHRINKS))), *ROUNDS))
    task = session.task(clients, everybody(number), **over)
    try:
        got = session.call(task)
    except AdapterError as failed:
        what = "diverged" if failed.what == "not finite" else failed.what
        return Finding(name, "fail", f"the certified optimum, by a factor {factor:.4g} a round", f"{what}: {failed}")
    start = float(np.linalg.norm(task.start - x))
    away = {t: float(np.linalg.norm(model - x)) / start for t, model in got.models.items()}
    last = away[max(away)]
    allowed = max(REACHES, 10 * session.rtol, 10 * error / start, 100 * factor**number)
    if not last <= allowed:
        return Finding(name, "fail", f"at most {allowed:.1e} of the first distance to the certified optimum after {number} rounds",
                       f"{last:.3g}", "it settles elsewhere, or goes there too slowly")  # fmt: skip
    window = [(t, a) for t, a in away.items() if 20 * max(session.rtol, error / start, 1e-13) <= a <= 1e-1 and t > 3]
    if len(window) < 10:
        return Finding(name, "pass", f"the certified optimum after {number} rounds",
                       f"{last:.1e} of the first distance",
                       "how fast it went there cannot be seen from these models")
    times, values = np.array([t for t, _ in window]), np.log([a for _, a in window])
    measured = float(np.exp(np.polyfit(times, values, 1)[0]))
    said = f"{last:.1e} of the first distance, by {measured:.4g} a round"
    if measured <= factor + 0.1 * (1 - factor):
        return Finding(name, "pass", f"the certified optimum, by a factor {factor:.4g} a round", said)
    return Finding(
        name, "fail", f"the certified optimum, by a factor {factor:.4g} a round", said,
        "it goes there, but slower than it must",
    )


CONVERGES = Check("convergence", "the certified optimum is reached, at the rate of the method's own map", _converges)
