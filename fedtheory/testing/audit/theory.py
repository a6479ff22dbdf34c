"""The checks of what theory says by itself, without the reference's runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.testing.audit.adapters import AdapterError
from fedtheory.testing.audit.battery import COME_AND_GO, clients_of, everybody, optimum, start_of
from fedtheory.testing.audit.clients import Task
from fedtheory.testing.audit.comparisons import against_reference, several_rounds
from fedtheory.testing.audit.finding import Check, Finding
from fedtheory.testing.audit.session import Session

__all__ = ["SAID"]


def _descent(session: Session, name: str) -> Finding:
    if session.exact or session.method.name not in (
        "fedavg", "fedprox", "scaffold", "fedelasticnet-prox", "fedelasticnet-scaffold",
    ):
        return Finding(name, "does not apply", hint="one local step with everybody is no gradient step in this method")
    if not session.can("local_steps") and session.settings()["local_steps"] != 1:
        return Finding(name, "does not apply", hint="the adapter takes no local_steps")
    clients, x = clients_of("squared", session.seed), start_of(session.seed)
    task = session.task(clients, everybody(), local_steps=1)
    got = session.compare(name, task)
    if got.got is None:
        return against_reference(session, name, [got], "")
    share = np.array([c.num_examples if task.settings["weighting"] != "uniform" else 1.0 for c in clients])
    gradient = sum(w * c.gradient(x) for w, c in zip(share / share.sum(), clients, strict=True))
    wanted = x - task.settings.get("server_lr", 1.0) * task.settings["learning_rate"] * gradient
    off = float(np.abs(got.got.models[1] - wanted).max())
    if off <= session.rtol * max(1.0, float(np.abs(wanted).max())):
        return Finding(name, "pass", "x - eta grad F(x)", f"off by {off:.1e}")
    return Finding(name, "fail", "x - eta grad F(x)", f"off by {off:.3g}", "the first round: "
                   "are the control variates 0 at the start, is the step's sign right, what does each client count for?")  # fmt: skip


def _penalty_slope(session: Session, name: str) -> Finding:
    """The penalty by differences: of one client's second local step, all but the loss's gradient is the penalty's."""
    mu = session.settings().get("mu", 0.0)
    if (
        session.exact or session.method.name not in ("fedprox", "fedelasticnet-prox")
        or not session.can("local_steps") or not mu
    ):
        return Finding(name, "does not apply", hint="the penalty cannot be seen by itself from outside in this method")
    clients, found = clients_of("squared", session.seed), []
    of_all = session.settings()["weighting"] == "all-examples"
    over: dict[str, Any] = {"l1": 0.0} if "l1" in session.method.settings and session.can("l1") else {}
    for k in (2, 0, 4):
        tasks = [session.task(clients, ((k,),), local_steps=n, **over) for n in (1, 2)]
        one, two = (session.compare(name, t, f" {k} {n}") for n, t in enumerate(tasks, start=1))
        if one.got is None or two.got is None:
            return against_reference(session, name, [one, two], "")
        start, rate = tasks[0].start, tasks[0].settings["learning_rate"]
        share = clients[k].num_examples / sum(c.num_examples for c in clients) if of_all else 1.0
        first, second = (start + (got.models[1] - start) / share for got in (one.got, two.got))
        slope = (first - second) / rate - clients[k].gradient(first)
        move = first - start
        if not move.any():
            return Finding(
                name, "fail", f"mu (y - x) with mu = {mu:g}", "no first step", "the model does not move at all"
            )
        l1 = tasks[0].settings.get("l1", 0.0)  # 0, but where the adapter has one built in
        found.append(
            (
                float((slope - l1 * np.sign(move)) @ move) / float(move @ move),
                float(np.linalg.norm(slope - mu * move - l1 * np.sign(move))),
                float(np.linalg.norm(move)),
            )
        )
    worst = max(found, key=lambda f: f[1])
    if worst[1] <= max(session.rtol / session.settings()["learning_rate"], 1e-8) * 10 * max(1.0, worst[2]):
        return Finding(name, "pass", f"mu (y - x) with mu = {mu:g}", f"{worst[0]:.6g} (y - x)")
    return Finding(
        name, "fail", f"mu (y - x) with mu = {mu:g}", f"along y - x: {worst[0]:.6g} (y - x)",
        "the penalty mu/2 ||y - x||^2",
    )


def _control_mean(session: Session, name: str) -> Finding:
    pairs = [(n, n + "_k") for n in ("c", "h") if n + "_k" in session.method.state]
    if not pairs or not session.adapter.open_states:
        return Finding(name, "does not apply", hint="the method keeps none, or the adapter does not show them")
    c = session.compare(name, session.task(clients_of("squared", session.seed), COME_AND_GO))
    if c.got is None:
        return against_reference(session, name, [c], "")
    for number, state in enumerate(c.got.states, start=1):
        for server, client in pairs:
            mean = state[client].mean(axis=0)
            off = float(np.abs(state[server] - mean).max())
            if off > session.rtol * max(1.0, float(np.abs(state[client]).max())):
                return Finding(name, "fail", f"{server} = mean of {client}", f"off by {off:.3g} after round {number}",
                               f"{server} must change by 1/N times the sum of what the cohort's {client} change by")  # fmt: skip
    return Finding(
        name, "pass", " and ".join(f"{s} = mean of {k}" for s, k in pairs), f"in all {len(c.got.states)} rounds"
    )


def _order(session: Session, name: str) -> Finding:
    clients = clients_of("squared", session.seed)
    task = session.task(clients, COME_AND_GO[:4])
    try:
        base = session.call(task)
        turned = session.call(Task(clients, task.start, tuple(c[::-1] for c in task.cohorts), task.settings))
        renamed = session.call(task.permuted((3, 0, 4, 2, 1)))
    except AdapterError as error:
        return Finding(name, "fail", "a run", f"{error.what}: {error}")
    for other, said, hint in (
        (
            turned, "the cohort in another order",
            "do clients share a model, or a control variate that changes meanwhile, or does the last one win?",
        ),
        (renamed, "clients numbered otherwise", "is a client's number used for its place in the cohort?"),
    ):
        for t, model in base.models.items():
            off = float(np.abs(model - other.models[t]).max())
            if off > max(session.rtol, 1e-9) * max(1.0, float(np.abs(model).max())):
                return Finding(name, "fail", f"{said}: the same model", f"off by {off:.3g} after round {t}", hint)
    return Finding(name, "pass", "the same models", "in another order, and with other numbers")


def _shared_optimum(session: Session, name: str) -> Finding:
    if session.settings().get("l1", 0.0) and not session.exact:
        return Finding(name, "does not apply", hint="steps along l1 sign(y - x) take rounding for a direction there")
    clients, x = clients_of("squared", session.seed, shared_optimum=True), start_of(session.seed)
    try:
        got = session.call(session.task(clients, COME_AND_GO[:3], start=x))
    except AdapterError as error:
        return Finding(name, "fail", "a run", f"{error.what}: {error}")
    off = max(float(np.abs(model - x).max()) for model in got.models.values())
    if off <= max(session.rtol, 1e-10) * max(1.0, float(np.abs(x).max())):
        return Finding(name, "pass", "a point that is every client's minimiser stays", f"moved by {off:.1e}")
    return Finding(name, "fail", "a point that is every client's minimiser stays",
                   f"moved by {off:.3g}",
                   "no gradient is left there: something else moves the model")


def _optimum_stays(session: Session, name: str) -> Finding:
    pairs = [(n, n + "_k") for n in ("c", "h") if n + "_k" in session.method.state]
    if session.method.aim != "optimum" or not session.adapter.open_states or not pairs:
        return Finding(name, "does not apply", hint="the method has no such state, or the adapter does not take one")
    clients = clients_of("squared", session.seed)
    x, error = optimum(clients, "uniform")
    rows = np.array([c.gradient(x) for c in clients])
    for cohort in (everybody()[0], (4, 1)):
        try:
            got = session.call(
                session.task(clients, (cohort,), start=x, state={pairs[0][0]: rows.mean(axis=0), pairs[0][1]: rows})
            )
        except AdapterError as failed:
            return Finding(name, "fail", "a run", f"{failed.what}: {failed}")
        off = float(np.abs(got.models[1] - x).max())
        if off > max(session.rtol, 100 * error) * max(1.0, float(np.abs(x).max())):
            return Finding(name, "fail",
                           f"the certified optimum stays, with {pairs[0][1]} the gradients there",
                           f"moved by {off:.3g}",
                           "at the optimum the correction must cancel each client's gradient")
    return Finding(
        name, "pass", f"the certified optimum stays, with {pairs[0][1]} the gradients there", f"moved by {off:.1e}"
    )


def _repeatable(session: Session, name: str) -> Finding:
    task = session.task(clients_of("squared", session.seed), COME_AND_GO[:3])
    extra: dict[str, Any] = {"seed": 5} if session.can("seed") else {}
    try:
        runs = [session.call(task.with_(**extra), seed) for seed in (1, 1, 2)]
    except AdapterError as error:
        return Finding(name, "fail", "a run", f"{error.what}: {error}")
    same = [all(np.array_equal(runs[0].models[t], r.models[t]) for t in runs[0].models) for r in runs[1:]]
    if not same[0]:
        return Finding(
            name, "fail", "the same run twice", "two different runs",
            "something is kept from one call to the next, or unseeded",
        )
    if not same[1]:
        return Finding(name, "fail", "no dependence on global generators", "another global seed, another run",
                       "it draws from random, numpy.random or torch's global generator; use a generator of its own")  # fmt: skip
    return Finding(name, "pass", "the same run twice, whatever the global seeds", "equal to the last bit")


def _unchanged(session: Session, name: str) -> Finding:
    several_rounds(session, "several rounds")
    if bad := sorted(session.changed - {"state"}):
        return Finding(
            name, "fail", "what is handed in stays as it is", f"{' and '.join(bad)} changed", "work on a copy"
        )
    if "state" in session.changed:
        return Finding(name, "note", "what is handed in stays as it is",
                       "the old state is written into",
                       "whoever keeps the states of earlier rounds loses them")
    return Finding(name, "pass", "what is handed in stays as it is", "unchanged")


SAID = (
    Check("gradient descent", "one local step with everybody is gradient descent", _descent),
    Check("penalty's slope", "what the penalty adds to a local step, by differences", _penalty_slope),
    Check(
        "mean of what is kept", "the server's c or h is the mean of the clients', after changing cohorts", _control_mean
    ),
    Check("order", "the order and the numbers of the clients do not matter", _order),
    Check("shared optimum", "where all clients are at their minimiser, nothing moves", _shared_optimum),
    Check("certified optimum", "the optimum is a fixed point, where the method has one", _optimum_stays),
    Check("repeatable", "equal calls give equal runs, and global generators do not matter", _repeatable),
    Check("inputs", "what is handed in is left as it is", _unchanged),
)
