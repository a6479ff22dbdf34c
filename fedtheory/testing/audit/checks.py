"""The checks of an audit, each a function of the session; the reference's runs beside it, and what theory says by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedtheory.testing.audit.adapters import AdapterError
from fedtheory.testing.audit.battery import COME_AND_GO, DIM, clients_of, everybody, optimum, start_of
from fedtheory.testing.audit.clients import Task
from fedtheory.testing.audit.session import Comparison, Session

__all__ = ["CHECKS", "Check", "Finding", "Verdict"]

Verdict = Literal["pass", "fail", "note", "does not apply", "not run"]


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes
    ----------
    expected, got : in words or numbers
    hint : where to look, or why the check does not apply
    """

    check: str
    verdict: Verdict
    expected: str = ""
    got: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Check:
    """A check by its name; ``what`` says in a line what passes."""

    name: str
    what: str
    look: Callable[[Session, str], Finding]


def _number(value: float) -> str:
    return f"{value:.10g}"


def _compared(session: Session, name: str, made: list[Comparison], hint: str) -> Finding:
    for c in made:
        if c.error is not None:
            return Finding(name, "fail", "a run", f"{c.error.what}: {c.error}", hint)
        first = next(c.differences(c.expected), None)
        if first is not None:
            number, what, got, wanted = first
            where = np.unravel_index(int(np.argmax(np.abs(got - wanted))), got.shape)
            at = f"{what}[{', '.join(str(int(i)) for i in where)}] after round {number}" if where else f"{what} after round {number}"
            hint = hint if number > 1 or c.task.rounds == 1 else "the first round differs already: look at the checks before this one"
            return Finding(name, "fail", f"{at} = {_number(wanted[where])}", _number(got[where]), _stretched(c, got, wanted, what) or hint)
    rounds = sum(len(c.got.models) for c in made if c.got is not None)
    return Finding(name, "pass", "the reference's numbers", f"{rounds} of {rounds} models agree to {session.rtol:.0e}")


def _stretched(c: Comparison, got: np.ndarray, wanted: np.ndarray, what: str) -> str:
    """Where a model went in the right direction, but so many times as far."""
    if what != "x" or c.task.rounds != 1:
        return ""
    move, right = got - c.task.start, wanted - c.task.start
    size = float(right @ right)
    if size == 0:
        return ""
    factor = float(move @ right) / size
    if np.linalg.norm(move - factor * right) > 1e-6 * np.linalg.norm(right):
        return ""
    if abs(factor) < 1e-9:
        return "the model does not move at all"
    return f"the model moves {factor:.6g} times as far as it should: a factor in the loss, the learning rate, or the mean"


def _one_step(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("squared", session.seed), ((2,),), local_steps=1))
    return _compared(session, name, [c], "a single step of one client: look at the gradient, the learning rate, and the step's sign")


def _local_steps(session: Session, name: str) -> Finding:
    clients = clients_of("squared", session.seed)
    made = [session.compare(f"{name} {k}", session.task(clients, ((k,),), local_steps=4)) for k in (2, 0)]
    return _compared(session, name, made, "one client alone: look at what happens from its second local step on, such as the penalty")


def _one_client(session: Session, name: str) -> Finding:
    clients = clients_of("squared", session.seed)
    made = [session.compare(f"{name} {k}", session.task(clients, ((k,),))) for k in (2, 0)]
    return _compared(session, name, made, "one client alone: look at the local objective and how it is minimised")


def _mean(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("squared", session.seed, equal=True), everybody()))
    return _compared(session, name, [c], "one client alone is right, all of them are not: look at how the server takes the mean")


def _sizes(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("squared", session.seed), everybody()))
    kind = "n_k, its number of examples" if session.settings()["weighting"] == "examples" else "as much as any other"
    return _compared(session, name, [c], f"clients of unequal sizes: here a client counts for {kind} (weighting=)")


def _part(session: Session, name: str) -> Finding:
    clients = clients_of("squared", session.seed)
    made = [session.compare(f"{name} {cohort}", session.task(clients, (cohort,))) for cohort in ((3, 0), (1, 2, 4))]
    return _compared(session, name, made, "some of the clients: look at what a sum over the cohort is divided by")


def _rounds(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("squared", session.seed), everybody(4)))
    return _compared(session, name, [c], "the first round is right: look at what is kept between rounds")


def _come_and_go(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("squared", session.seed), COME_AND_GO))
    return _compared(session, name, [c], "look at what is kept for a client that does not take part, and at what a change is divided by")


def _logistic(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("logistic", session.seed), COME_AND_GO[:4]))
    return _compared(session, name, [c], "squared losses are right: look at gradients that are no linear functions of the model")


def _unequal_steps(session: Session, name: str) -> Finding:
    if not session.can("local_steps"):
        return Finding(name, "does not apply", hint="the adapter takes no local_steps")
    steps = [1, 4, 2, 3, 5]
    made = session.compare(name, session.task(clients_of("squared", session.seed), everybody(2), local_steps=steps))
    if made.error is not None and made.error.what == "raises":
        del session.compared[name]
        return Finding(name, "does not apply", hint=f"local_steps = {steps}, one a client, is not taken ({made.error})")
    return _compared(session, name, [made], "each client takes its own number of local steps")


def _random_state(session: Session, name: str) -> Finding:
    if not session.adapter.open_states:
        return Finding(name, "does not apply", hint="only an adapter round(state, clients, cohort, ...) can be begun anywhere")
    made, clients = [], clients_of("squared", session.seed)
    for i, cohort in enumerate(((0, 1, 2, 3, 4), (4, 1), (3,))):
        g = np.random.default_rng((session.seed, 30, i))
        state = {n: np.abs(g.normal(size=DIM)) if n == "v" else g.normal(size=(len(clients), DIM) if n.endswith("_k") else DIM)
                 for n in session.method.state if n != "x"}  # fmt: skip
        made.append(session.compare(f"{name} {i}", session.task(clients, (cohort,), start=g.normal(size=DIM), state=state)))
    return _compared(session, name, made, "one round from a state with every part of it away from 0")


def _settings_matter(session: Session, name: str) -> Finding:
    clients, made, without = clients_of("squared", session.seed), [], []
    base = session.task(clients, COME_AND_GO[:4])
    names = [s for s in ("learning_rate", "local_steps", *session.method.settings) if session.can(s)]
    if session.exact:
        names = [s for s in names if s not in ("learning_rate", "local_steps")]
    if not names:
        return Finding(name, "does not apply", hint="the adapter takes no settings")
    first = session.compare(f"{name}: as before", base)
    for setting in names:
        value = base.settings[setting]
        other = value + 2 if setting == "local_steps" else value * 1.2 if setting.startswith("beta") else value * 1.7
        c = session.compare(f"{name}: {setting}", base.with_(**{setting: other}))
        made.append(c)
        if first.got and c.got and all(np.array_equal(first.got.models[t], c.got.models[t]) for t in first.got.models):
            without.append(setting)
    if without:
        return Finding(name, "fail", f"another {without[0]} gives other models", "the same models", f"{', '.join(without)} has no effect")
    return _compared(session, name, made, "with other settings than before: look at where each of them enters")


def _no_penalty(session: Session, name: str) -> Finding:
    penalties = [s for s in ("mu", "l1") if s in session.method.settings]
    if not penalties or not all(session.can(s) for s in penalties):
        return Finding(name, "does not apply", hint="the method has no penalty to switch off, or the adapter does not take it")
    if session.exact:
        return Finding(name, "does not apply", hint="without a penalty a client's minimiser need not be unique")
    without = "SCAFFOLD" if "scaffold" in session.method.name else "FedAvg"
    c = session.compare(name, session.task(clients_of("squared", session.seed), COME_AND_GO[:4], **dict.fromkeys(penalties, 0.0)))
    return _compared(session, name, [c], f"with {' and '.join(penalties)} = 0 the method is {without}")


def _descent(session: Session, name: str) -> Finding:
    if session.exact or session.method.name not in ("fedavg", "fedprox", "scaffold", "fedelasticnet-prox", "fedelasticnet-scaffold"):
        return Finding(name, "does not apply", hint="one local step with everybody is no gradient step in this method")
    clients, x = clients_of("squared", session.seed), start_of(session.seed)
    task = session.task(clients, everybody(), local_steps=1)
    got = session.compare(name, task)
    if got.got is None:
        return _compared(session, name, [got], "")
    share = np.array([c.num_examples if task.settings["weighting"] == "examples" else 1.0 for c in clients])
    gradient = sum(w * c.gradient(x) for w, c in zip(share / share.sum(), clients, strict=True))
    wanted = x - task.settings.get("server_lr", 1.0) * task.settings["learning_rate"] * gradient
    off = float(np.abs(got.got.models[1] - wanted).max())
    if off <= session.rtol * max(1.0, float(np.abs(wanted).max())):
        return Finding(name, "pass", "x - eta grad F(x)", f"off by {off:.1e}")
    return Finding(name, "fail", "x - eta grad F(x)", f"off by {off:.3g}", "the first round from the method's own first state: "
                   "are the control variates 0 at the start, is the step's sign right, and what does each client count for?")  # fmt: skip


def _penalty_slope(session: Session, name: str) -> Finding:
    """The penalty by differences: of one client's second local step, all but the loss's gradient is the penalty's."""
    mu = session.settings().get("mu", 0.0)
    if session.exact or session.method.name not in ("fedprox", "fedelasticnet-prox") or not session.can("local_steps") or not mu:
        return Finding(name, "does not apply", hint="the penalty cannot be seen by itself from outside in this method")
    clients, found = clients_of("squared", session.seed), []
    over = {"l1": 0.0} if "l1" in session.method.settings and session.can("l1") else {}
    for k in (2, 0, 4):
        tasks = [session.task(clients, ((k,),), local_steps=n, **over) for n in (1, 2)]
        one, two = (session.compare(f"{name} {k} {n}", t) for n, t in enumerate(tasks, start=1))
        if one.got is None or two.got is None:
            return _compared(session, name, [one, two], "")
        first, second, rate = one.got.models[1], two.got.models[1], tasks[0].settings["learning_rate"]
        slope = (first - second) / rate - clients[k].gradient(first)
        move = first - tasks[0].start
        found.append((float(slope @ move) / float(move @ move), float(np.linalg.norm(slope - mu * move)), float(np.linalg.norm(move))))
    worst = max(found, key=lambda f: f[1])
    if worst[1] <= max(session.rtol / session.settings()["learning_rate"], 1e-8) * 10 * max(1.0, worst[2]):
        return Finding(name, "pass", f"mu (y - x) with mu = {mu:g}", f"{worst[0]:.6g} (y - x)")
    return Finding(name, "fail", f"mu (y - x) with mu = {mu:g}", f"along y - x: {worst[0]:.6g} (y - x)", "the penalty mu/2 ||y - x||^2")


def _control_mean(session: Session, name: str) -> Finding:
    pairs = [(n, n + "_k") for n in ("c", "h") if n + "_k" in session.method.state]
    if not pairs or not session.adapter.open_states:
        return Finding(name, "does not apply", hint="the method keeps none, or the adapter does not show them")
    c = session.compare(name, session.task(clients_of("squared", session.seed), COME_AND_GO))
    if c.got is None:
        return _compared(session, name, [c], "")
    for number, state in enumerate(c.got.states, start=1):
        for server, client in pairs:
            mean = state[client].mean(axis=0)
            off = float(np.abs(state[server] - mean).max())
            if off > session.rtol * max(1.0, float(np.abs(state[client]).max())):
                return Finding(name, "fail", f"{server} = mean of {client}", f"off by {off:.3g} after round {number}",
                               f"{server} must change by 1/N times the sum of what the cohort's {client} change by")  # fmt: skip
    return Finding(name, "pass", " and ".join(f"{s} = mean of {k}" for s, k in pairs), f"in all {len(c.got.states)} rounds")


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
        (turned, "the cohort in another order", "do clients share a model, or does the last one win?"),
        (renamed, "clients numbered otherwise", "is a client's number used for its place in the cohort?"),
    ):
        for t, model in base.models.items():
            off = float(np.abs(model - other.models[t]).max())
            if off > max(session.rtol, 1e-9) * max(1.0, float(np.abs(model).max())):
                return Finding(name, "fail", f"{said}: the same model", f"off by {off:.3g} after round {t}", hint)
    return Finding(name, "pass", "the same models", "in another order, and with other numbers")


def _shared_optimum(session: Session, name: str) -> Finding:
    clients, x = clients_of("squared", session.seed, shared_optimum=True), start_of(session.seed)
    try:
        got = session.call(session.task(clients, COME_AND_GO[:3], start=x))
    except AdapterError as error:
        return Finding(name, "fail", "a run", f"{error.what}: {error}")
    off = max(float(np.abs(model - x).max()) for model in got.models.values())
    if off <= max(session.rtol, 1e-10) * max(1.0, float(np.abs(x).max())):
        return Finding(name, "pass", "a point that is every client's minimiser stays", f"moved by {off:.1e}")
    return Finding(name, "fail", "a point that is every client's minimiser stays", f"moved by {off:.3g}",
                   "no gradient is left there: something else moves the model")  # fmt: skip


def _optimum_stays(session: Session, name: str) -> Finding:
    pairs = [(n, n + "_k") for n in ("c", "h") if n + "_k" in session.method.state]
    if session.method.aim != "optimum" or not session.adapter.open_states or not pairs:
        return Finding(name, "does not apply", hint="the method has no such state, or the adapter does not take one")
    clients = clients_of("squared", session.seed)
    x, error = optimum(clients, "uniform")
    rows = np.array([c.gradient(x) for c in clients])
    for cohort in (everybody()[0], (4, 1)):
        try:
            got = session.call(session.task(clients, (cohort,), start=x, state={pairs[0][0]: rows.mean(axis=0), pairs[0][1]: rows}))
        except AdapterError as failed:
            return Finding(name, "fail", "a run", f"{failed.what}: {failed}")
        off = float(np.abs(got.models[1] - x).max())
        if off > max(session.rtol, 100 * error) * max(1.0, float(np.abs(x).max())):
            return Finding(name, "fail", f"the certified optimum stays, with {pairs[0][1]} the gradients there", f"moved by {off:.3g}",
                           "at the optimum the correction must cancel each client's gradient")  # fmt: skip
    return Finding(name, "pass", f"the certified optimum stays, with {pairs[0][1]} the gradients there", f"moved by {off:.1e}")


def _repeatable(session: Session, name: str) -> Finding:
    task = session.task(clients_of("squared", session.seed), COME_AND_GO[:3])
    extra: dict[str, Any] = {"seed": 5} if session.can("seed") else {}
    try:
        runs = [session.call(task.with_(**extra), seed) for seed in (1, 1, 2)]
    except AdapterError as error:
        return Finding(name, "fail", "a run", f"{error.what}: {error}")
    same = [all(np.array_equal(runs[0].models[t], r.models[t]) for t in runs[0].models) for r in runs[1:]]
    if not same[0]:
        return Finding(name, "fail", "the same run twice", "two different runs", "something is kept from one call to the next, or unseeded")
    if not same[1]:
        return Finding(name, "fail", "no dependence on global generators", "another global seed, another run",
                       "it draws from random, numpy.random or torch's global generator; use a generator of its own")  # fmt: skip
    return Finding(name, "pass", "the same run twice, whatever the global seeds", "equal to the last bit")


def _unchanged(session: Session, name: str) -> Finding:
    _rounds(session, "several rounds")
    if bad := sorted(session.changed - {"state"}):
        return Finding(name, "fail", "what is handed in stays as it is", f"{' and '.join(bad)} changed", "work on a copy")
    if "state" in session.changed:
        return Finding(name, "note", "what is handed in stays as it is", "the old state is written into",
                       "whoever keeps the states of earlier rounds loses them")  # fmt: skip
    return Finding(name, "pass", "what is handed in stays as it is", "unchanged")


CHECKS = (
    Check("one local step", "one client, one local step, one round: the reference's model", _one_step),
    Check("local steps", "one client, four local steps, one round", _local_steps),
    Check("one client", "one client that minimises to the end, one round", _one_client),
    Check("mean", "all clients, of equal sizes, one round", _mean),
    Check("unequal sizes", "all clients, of unequal sizes, one round", _sizes),
    Check("part of the clients", "a cohort of some, one round", _part),
    Check("several rounds", "all clients, four rounds", _rounds),
    Check("clients come and go", "changing cohorts, seven rounds", _come_and_go),
    Check("logistic loss", "changing cohorts, four rounds on logistic losses", _logistic),
    Check("unequal local steps", "each client its own number of local steps, two rounds", _unequal_steps),
    Check("any state", "one round from random states", _random_state),
    Check("settings", "every setting matters, and as in the reference", _settings_matter),
    Check("no penalty", "without its penalty the method is the simpler one", _no_penalty),
    Check("gradient descent", "one local step with everybody is gradient descent", _descent),
    Check("penalty's slope", "what the penalty adds to a local step, by differences", _penalty_slope),
    Check("mean of what is kept", "the server's c or h is the mean of the clients', after changing cohorts", _control_mean),
    Check("order", "the order and the numbers of the clients do not matter", _order),
    Check("shared optimum", "where all clients are at their minimiser, nothing moves", _shared_optimum),
    Check("certified optimum", "the optimum is a fixed point, where the method has one", _optimum_stays),
    Check("repeatable", "equal calls give equal runs, and global generators do not matter", _repeatable),
    Check("inputs", "what is handed in is left as it is", _unchanged),
)
