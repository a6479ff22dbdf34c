"""The checks that hold runs beside the reference's."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.testing.audit.battery import COME_AND_GO, DIM, FOUR_OR_MORE, clients_of, everybody
from fedtheory.testing.audit.finding import Check, Finding
from fedtheory.testing.audit.session import Comparison, Session

__all__ = ["COMPARED", "against_reference", "several_rounds"]


def _number(value: float) -> str:
    return f"{value:.10g}"


def against_reference(session: Session, name: str, made: list[Comparison], hint: str) -> Finding:
    for c in made:
        if c.error is not None:
            return Finding(name, "fail", "a run", f"{c.error.what}: {c.error}")
        first = next(c.differences(c.expected), None)
        if first is not None:
            number, what, got, wanted = first
            where = np.unravel_index(int(np.argmax(np.abs(got - wanted))), got.shape)
            at = (
                f"{what}[{', '.join(str(int(i)) for i in where)}] after round {number}"
                if where
                else f"{what} after round {number}"
            )
            hint = _simpler(session, made) or (
                hint
                if number > 1 or c.task.rounds == 1
                else "the first round differs already: look at the checks before this one"
            )
            return Finding(
                name,
                "fail",
                f"{at} = {_number(wanted[where])}",
                _number(got[where]),
                _stretched(c, got, wanted, what) or hint,
            )
    rounds = sum(len(c.got.models) for c in made if c.got is not None)
    return Finding(name, "pass", "the reference's numbers", f"{rounds} of {rounds} models agree to {session.rtol:.0e}")


def _simpler(session: Session, made: list[Comparison]) -> str:
    """Where a single client is wrong already, or all of them with equal sizes, what comes after is no place to look at."""
    now = {c.label for c in made}
    for label, c in session.compared.items():
        if label in now:
            break
        if c.task.rounds == 1 and c.got is not None and not c.agrees:
            return f"the check '{label.rstrip(' 0123456789(),')}' differs already, and is simpler: begin there"
    return ""


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
    if abs(factor - 1) < 1e-5:
        return "no more than single precision leaves: if it works in float32, say rtol=3e-4"
    if abs(factor) < 1e-9:
        return "the model does not move at all"
    return (
        f"the model moves {factor:.6g} times as far as it should: a factor in the loss, the learning rate, or the mean"
    )


def _one_step(session: Session, name: str) -> Finding:
    if not session.can("local_steps") and session.settings()["local_steps"] != 1:
        return Finding(name, "does not apply", hint="the adapter takes no local_steps")
    c = session.compare(name, session.task(clients_of("squared", session.seed), ((2,),), local_steps=1))
    return against_reference(
        session, name, [c], "a single step of one client: look at the gradient, the learning rate, and the step's sign"
    )


def _local_steps(session: Session, name: str) -> Finding:
    clients = clients_of("squared", session.seed)
    over: dict[str, Any] = {"local_steps": 4} if session.can("local_steps") else {}
    made = [session.compare(f"{name} {k}", session.task(clients, ((k,),), **over)) for k in (2, 0)]
    return against_reference(
        session, name, made, "one client alone: look at what happens from its second local step on, such as the penalty"
    )


def _one_client(session: Session, name: str) -> Finding:
    clients = clients_of("squared", session.seed)
    made = [session.compare(f"{name} {k}", session.task(clients, ((k,),))) for k in (2, 0)]
    return against_reference(
        session, name, made, "one client alone: look at the local objective and how it is minimised"
    )


def _mean(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("squared", session.seed, equal=True), everybody()))
    return against_reference(
        session, name, [c], "one client alone is right, all of them are not: look at how the server takes the mean"
    )


def _sizes(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("squared", session.seed), everybody()))
    kind = "n_k, its number of examples" if session.settings()["weighting"] != "uniform" else "as much as any other"
    return against_reference(
        session, name, [c], f"clients of unequal sizes: here a client counts for {kind} (weighting=)"
    )


def _part(session: Session, name: str) -> Finding:
    clients = clients_of("squared", session.seed)
    made = [session.compare(f"{name} {cohort}", session.task(clients, (cohort,))) for cohort in ((3, 0), (1, 2, 4))]
    return against_reference(
        session, name, made, "some of the clients: look at what a sum over the cohort is divided by"
    )


def several_rounds(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("squared", session.seed), everybody(4)))
    return against_reference(session, name, [c], "the first round is right: look at what is kept between rounds")


def _come_and_go(session: Session, name: str) -> Finding:
    five = clients_of("squared", session.seed)
    made = [session.compare(name, session.task(five, COME_AND_GO))]
    for clients in (five[:4], (*five, *five[:4])):  # so that a number of clients that is written down shows
        made.append(session.compare(f"{name}, {len(clients)} clients", session.task(clients, FOUR_OR_MORE)))
    return against_reference(
        session,
        name,
        made,
        "look at what is kept for a client that does not take part, and at what a change is divided by",
    )


def _logistic(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("logistic", session.seed), COME_AND_GO[:4]))
    return against_reference(
        session, name, [c], "squared losses are right: look at gradients that are no linear functions of the model"
    )


def _unequal_steps(session: Session, name: str) -> Finding:
    if not session.can("local_steps"):
        return Finding(name, "does not apply", hint="the adapter takes no local_steps")
    if "d_k" in session.method.state:
        return Finding(name, "does not apply", hint="the method needs equal numbers of local steps")
    steps = [1, 4, 2, 3, 5]
    made = session.compare(name, session.task(clients_of("squared", session.seed), everybody(2), local_steps=steps))
    if made.error is not None and made.error.what == "raises":
        del session.compared[name]
        return Finding(name, "does not apply", hint=f"local_steps = {steps}, one a client, is not taken ({made.error})")
    return against_reference(session, name, [made], "each client takes its own number of local steps")


def _random_state(session: Session, name: str) -> Finding:
    if not session.adapter.open_states:
        return Finding(
            name, "does not apply", hint="only an adapter round(state, clients, cohort, ...) can be begun anywhere"
        )
    made, clients = [], clients_of("squared", session.seed)
    for i, cohort in enumerate(((0, 1, 2, 3, 4), (4, 1), (3,))):
        g = np.random.default_rng((session.seed, 30, i))
        state = {n: np.abs(g.normal(size=DIM)) if n == "v" else g.normal(size=(len(clients), DIM) if n.endswith("_k") else DIM)
                 for n in session.method.state if n != "x"}  # fmt: skip
        made.append(
            session.compare(f"{name} {i}", session.task(clients, (cohort,), start=g.normal(size=DIM), state=state))
        )
    return against_reference(session, name, made, "one round from a state with every part of it away from 0")


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
        other = (
            value + 2
            if setting == "local_steps"
            else value * 0.8
            if setting.startswith(("beta", "momentum"))
            else value * 1.7
        )
        c = session.compare(f"{name}: {setting}", base.with_(**{setting: other}))
        made.append(c)
        if first.got and c.got and all(np.array_equal(first.got.models[t], c.got.models[t]) for t in first.got.models):
            without.append(setting)
    if without:
        return Finding(
            name,
            "fail",
            f"another {without[0]} gives other models",
            "the same models",
            f"{', '.join(without)} has no effect",
        )
    return against_reference(session, name, made, "with other settings than before: look at where each of them enters")


def _no_penalty(session: Session, name: str) -> Finding:
    penalties = [s for s in ("mu", "l1") if s in session.method.settings]
    if not penalties or not all(session.can(s) for s in penalties):
        return Finding(
            name, "does not apply", hint="the method has no penalty to switch off, or the adapter does not take it"
        )
    if session.exact:
        return Finding(name, "does not apply", hint="without a penalty a client's minimiser need not be unique")
    off: dict[str, Any] = dict.fromkeys(penalties, 0.0)
    without = "SCAFFOLD" if "scaffold" in session.method.name else "FedAvg"
    c = session.compare(name, session.task(clients_of("squared", session.seed), COME_AND_GO[:4], **off))
    return against_reference(session, name, [c], f"with {' and '.join(penalties)} = 0 the method is {without}")


COMPARED = (
    Check("one local step", "one client, one local step, one round: the reference's model", _one_step),
    Check("local steps", "one client, four local steps, one round", _local_steps),
    Check("one client", "one client that minimises to the end, one round", _one_client),
    Check("mean", "all clients, of equal sizes, one round", _mean),
    Check("unequal sizes", "all clients, of unequal sizes, one round", _sizes),
    Check("part of the clients", "a cohort of some, one round", _part),
    Check("several rounds", "all clients, four rounds", several_rounds),
    Check("clients come and go", "changing cohorts, seven rounds", _come_and_go),
    Check("logistic loss", "changing cohorts, four rounds on logistic losses", _logistic),
    Check("unequal local steps", "each client its own number of local steps, two rounds", _unequal_steps),
    Check("any state", "one round from random states", _random_state),
    Check("settings", "every setting matters, and as in the reference", _settings_matter),
    Check("no penalty", "without its penalty the method is the simpler one", _no_penalty),
)
