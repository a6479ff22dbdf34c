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


def against_reference(
    session: Session, name: str, made: list[Comparison], hint: str, of_model: bool = False
) -> Finding:
    """The finding of a check that compares runs; with ``of_model`` its hint is on local models."""
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
            if number == 1 and c.task.rounds > 1:
                already = "the first round differs already"
                hint = f"{already}; {hint}" if hint and name != "several rounds" else already
            looked = _of_model(session, c, number, hint) if of_model else hint
            place = _stretched(c, got, wanted, what) or _simpler(session, made) or looked
            return Finding(
                name, "fail", f"{at} = {_number(wanted[where])}", _number(got[where]),
                "; ".join(t for t in (_entries(c, number), place) if t),
            )
    rounds = sum(len(c.got.models) for c in made if c.got is not None)
    return Finding(name, "pass", "the reference's numbers", f"{rounds} of {rounds} models agree to {session.rtol:.0e}")


def _simpler(session: Session, made: list[Comparison]) -> str:
    """Name a simpler check that differs already: what comes after it is no place to look at."""
    for c in session.compared.values():
        if c in made:
            break
        if c.got is not None and not c.agrees:
            return f"the check '{c.check}' differs already, and is simpler: begin there"
    return ""


def _entries(c: Comparison, number: int) -> str:
    """Say which parts of the state are right after a round, and which change by a factor.

    '' where x alone is shown.
    """
    if c.got is None or not c.got.states or len(c.got.states[number - 1]) < 2:
        return ""
    wrong = _wrong(c, number)
    right = [n for n in c.expected[number] if n not in wrong and n in c.got.states[number - 1]]
    said = [f"{_listed(right)} {'is' if len(right) == 1 else 'are'} right"] if right else []
    plain = []
    for what, (got, wanted) in wrong.items():
        before = c.expected[number - 1][what]
        factor = _factor(got - before, wanted - before)
        if factor is None and (of_all := _factor(got, wanted)):
            letters = _known(of_all, c, number)
            said.append(f"{what} is {of_all:.6g} times what it should be{letters}")
        elif factor is None:
            plain.append(what)
        elif abs(factor) < 1e-9:
            said.append(f"{what} does not change")
        else:
            letters = _known(factor, c, number)
            said.append(f"{what} changes by {factor:.6g} times what it should{letters}")
    if plain:
        said.append(f"{_listed(plain)} {'differs' if len(plain) == 1 else 'differ'}")
    return ", ".join(said)


def _wrong(c: Comparison, number: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return what differs after a round: got and expected by its name."""
    found = c.differences(c.expected)
    return {what: (got, wanted) for at, what, got, wanted in found if at == number}


def _of_model(session: Session, c: Comparison, number: int, hint: str) -> str:
    """A hint about the local work, where neither x nor what clients keep speaks against it."""
    wrong = _wrong(c, number)
    if "x" not in wrong:
        return ""
    shown = session.method.state if c.got is not None and c.got.states else ()
    kept = [n for n in shown if n.endswith("_k")]
    if kept and kept[0] not in wrong and session.given.get("option") != "gradient":
        return f"{kept[0]} is made of the local models, so they are right: look at the server's step"
    return hint


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _factor(move: np.ndarray, right: np.ndarray) -> float | None:
    """Return how many times too far a move went, where that is all that is wrong, else None."""
    size = float((right * right).sum())
    if size == 0:
        return None
    factor = float((move * right).sum()) / size
    same = np.linalg.norm(move - factor * right) <= 1e-6 * np.linalg.norm(right)
    return factor if same and abs(factor - 1) > 1e-5 else None


def _known(factor: float, c: Comparison, number: int) -> str:
    """A factor in the letters of the round: K, N, |S|, eta, server_lr."""
    settings, clients = c.task.settings, len(c.task.clients)
    cohort = len(c.task.cohorts[number - 1])
    values = {
        "N/|S|": clients / cohort,
        "N": clients,
        "|S|": cohort,
        "eta": settings.get("learning_rate"),
        "K": settings.get("local_steps"),
        "server_lr": settings.get("server_lr"),
    }
    names = []
    for letters, value in values.items():
        if isinstance(value, int | float) and value not in (0, 1):
            turned = f"1/{letters}" if "/" not in letters else "|S|/N"
            both = ((letters, value), (turned, 1 / value))
            names += [n for n, v in both if abs(abs(factor) - v) <= 1e-6 * v]
    sign = "-" if factor < 0 else ""
    return f" (here {' or '.join(sign + n for n in names)})" if names else ""


def _stretched(c: Comparison, got: np.ndarray, wanted: np.ndarray, what: str) -> str:
    """Say how many times too far a model went, where its direction is right."""
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
        session, name, [c], "a single step of one client: look at the gradient, the learning rate, and the step's sign", of_model=True
    )


def _local_steps(session: Session, name: str) -> Finding:
    clients = clients_of("squared", session.seed)
    over: dict[str, Any] = {"local_steps": 4} if session.can("local_steps") else {}
    made = [session.compare(name, session.task(clients, ((k,),), **over), f" {k}") for k in (2, 0)]
    penalised = {"mu", "alpha"} & session.method.settings.keys()
    hint = "one client alone: look at what happens from its second local step on" + ", such as the penalty" * bool(penalised)
    return against_reference(session, name, made, hint, of_model=True)


def _one_client(session: Session, name: str) -> Finding:
    clients = clients_of("squared", session.seed)
    made = [session.compare(name, session.task(clients, ((k,),)), f" {k}") for k in (2, 0)]
    return against_reference(
        session, name, made, "one client alone: look at the local objective and how it is minimised", of_model=True
    )


def _mean(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("squared", session.seed, equal=True), everybody()))
    return against_reference(
        session, name, [c], "one client alone is right, all of them are not: look at how the server takes the mean",
        of_model=True,
    )


def _sizes(session: Session, name: str) -> Finding:
    c = session.compare(name, session.task(clients_of("squared", session.seed), everybody()))
    kind = "n_k, its number of examples" if session.settings()["weighting"] != "uniform" else "as much as any other"
    return against_reference(
        session, name, [c], f"clients of unequal sizes: here a client counts for {kind} (weighting=)", of_model=True
    )


def _part(session: Session, name: str) -> Finding:
    clients = clients_of("squared", session.seed)
    made = [session.compare(name, session.task(clients, (cohort,)), f" {cohort}") for cohort in ((3, 0), (1, 2, 4))]
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
        made.append(session.compare(name, session.task(clients, FOUR_OR_MORE), f", {len(clients)} clients"))
    return against_reference(
        session, name, made,
        "look at what is kept for a client that does not take part, and at what a change is "
        "divided by",
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
            session.compare(name, session.task(clients, (cohort,), start=g.normal(size=DIM), state=state), f" {i}")
        )
    return against_reference(session, name, made, "one round from a state with every part of it away from 0")


def _settings_matter(session: Session, name: str) -> Finding:
    clients, made, without = clients_of("squared", session.seed), [], []
    base = session.task(clients, COME_AND_GO[:4])
    names = [s for s in ("learning_rate", "local_steps", *session.method.settings) if session.can(s)]
    if session.exact:
        names = [s for s in names if s not in ("learning_rate", "local_steps")]
    if not names:
        return Finding(name, "note", "every setting is varied", "none is", _never_varied(session))
    first = session.compare(name, base, ": as before")
    for setting in names:
        value = base.settings[setting]
        other = (
            value + 2 if setting == "local_steps" else value * 0.8
            if setting.startswith(("beta", "momentum")) else value * 1.7
        )
        c = session.compare(name, base.with_(**{setting: other}), f": {setting}")
        made.append(c)
        if first.got and c.got and all(np.array_equal(first.got.models[t], c.got.models[t]) for t in first.got.models):
            without.append(setting)
    if without:
        return Finding(
            name, "fail", f"another {without[0]} gives other models", "the same models",
            f"{', '.join(without)} has no effect",
        )
    found = against_reference(session, name, made, "with other settings than before: look at where each of them enters")
    if found.verdict == "pass" and (still := _never_varied(session)):
        return Finding(name, "note", "every setting is varied, and as in the reference", found.got, still)
    return found


def _never_varied(session: Session) -> str:
    """The settings that the adapter has built in, and what they were taken for; '' without any."""
    names = [*(() if session.exact else ("learning_rate", "local_steps")), *session.method.settings]
    kept = [f"{n} ({session.settings()[n]:g})" for n in names if not session.can(n)]
    if not kept:
        return ""
    were = "was" if len(kept) == 1 else "were"
    return f"{_listed(kept)} {were} never varied: the adapter has no such parameter"


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
    Check("any state", "one round from random states", _random_state),
    Check("several rounds", "all clients, four rounds", several_rounds),
    Check("clients come and go", "changing cohorts, seven rounds", _come_and_go),
    Check("unequal local steps", "each client its own number of local steps, two rounds", _unequal_steps),
    Check("settings", "every setting matters, and as in the reference", _settings_matter),
    Check("no penalty", "without its penalty the method is the simpler one", _no_penalty),
    Check("logistic loss", "changing cohorts, four rounds on logistic losses", _logistic),
)
