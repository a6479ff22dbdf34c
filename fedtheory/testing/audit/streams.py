"""The examples that a stochastic implementation draws, read off its models: seeds and streams."""

from __future__ import annotations

import itertools

import numpy as np

from fedtheory.testing.audit.adapters import AdapterError
from fedtheory.testing.audit.clients import Client
from fedtheory.testing.audit.finding import Check, Finding
from fedtheory.testing.audit.session import Session

__all__ = ["STREAMS"]

EXAMPLES, ROUNDS, RATE, APART = 16, 16, 0.5, 1000.0
LAGS = 4  # rounds by which streams are shifted against each other
READABLE = ("fedavg", "fedprox", "scaffold", "fedelasticnet-prox", "fedelasticnet-scaffold")


def _drawn(session: Session, seed: int) -> list[tuple[int, int]] | None:
    """For each round the number of the example that each of two clients drew, or None where the
    models do not tell.

    Client 0 has the losses (x - j)^2/2 and client 1 the losses (x - 1000 j)^2/2, j = 0, 1, ...: one
    local step on one example moves the mean model towards (j_0 + 1000 j_1)/2.
    """
    numbers = np.arange(EXAMPLES, dtype=float)
    clients = tuple(Client(np.ones((EXAMPLES, 1)), numbers * by) for by in (1.0, APART))
    task = session.task(
        clients, ((0, 1),) * ROUNDS, start=np.zeros(1), local_steps=1, learning_rate=RATE, batch_size=1, seed=seed
    )
    models = session.call(task).models
    if len(models) != ROUNDS:
        return None
    found, x, rate = [], 0.0, RATE * float(task.settings.get("server_lr", 1.0))
    for t in range(1, ROUNDS + 1):
        total = 2 * (float(models[t][0]) - (1 - rate) * x) / rate
        second = round(total / APART)
        first = round(total - APART * second)
        if abs(total - first - APART * second) > 1e-2 or not (0 <= first < EXAMPLES and 0 <= second < EXAMPLES):
            return None
        found.append((first, second))
        x = float(models[t][0])
    return found


def _shared(drawn: list[list[tuple[int, int]]]) -> str:
    """Find draws that a client repeats, its own or another's, and say so; '' for none. It repeats
    them in every round: those under another seed, or of some rounds before."""
    streams = {(seed, client): [pair[client] for pair in pairs] for seed, pairs in enumerate(drawn) for client in (0, 1)}
    for (seed, client), (other_seed, other) in itertools.permutations(streams, 2):
        for lag in range(LAGS):
            one, two = streams[seed, client], streams[other_seed, other]
            if one[: ROUNDS - lag] == two[lag:]:
                when = "in the same round" if lag == 0 else f"{lag} rounds later" if lag > 1 else "a round later"
                under = f"with seed {other_seed}" if other_seed != seed else "with the same seed"
                return f"what client {client} draws with seed {seed}, client {other} draws {under} {when}"
    return ""


def _in_order(drawn: list[tuple[int, int]]) -> bool:
    """True if each client takes one example after the other, which is no drawing at all."""
    return all((b - a) % EXAMPLES == 1 for one in zip(*drawn, strict=True) for a, b in itertools.pairwise(one))


def _streams(session: Session, name: str) -> Finding:
    needs = [s for s in ("seed", "batch_size", "local_steps", "learning_rate") if not session.can(s)]
    if needs or session.method.name not in READABLE or session.exact:
        why = (
            f"the adapter takes no {needs[0]}" if needs else "what this method draws cannot be read off from its models"
        )
        return Finding(name, "does not apply", hint=why)
    try:
        drawn = {seed: _drawn(session, seed) for seed in (0, 1, 2)}
    except AdapterError as error:
        return Finding(name, "fail", "a run on batches of one example", f"{error.what}: {error}")
    sequences = list(drawn.values())
    if any(s is None for s in sequences):
        return Finding(
            name, "does not apply", hint="with batch_size = 1 and local_steps = 1 its models do not tell what was drawn"
        )
    first, second, third = (s or [] for s in sequences)
    if first == second == third and _in_order(first):
        return Finding(name, "note", "another seed draws other examples",
                       "every client goes through its examples in order", "the seed has no effect")
    if first == second == third:
        return Finding(name, "fail", "another seed draws other examples", "the same examples", "the seed has no effect")
    if all(a == b for a, b in first + second):
        return Finding(
            name, "fail", "clients draw by themselves", "both draw the same numbers in every round",
            "each client's generator begins with the same seed; give it the client's number, too",
        )
    if len(set(first)) == 1:
        return Finding(
            name, "fail", "other examples in every round", "the same ones in every round",
            "the generator begins anew every round",
        )
    if said := _shared([first, second, third]):
        return Finding(
            name, "fail", "every seed, round and client has numbers of its own", said,
            "seed, round or client are added; use numpy.random.default_rng((seed, round, client))",
        )
    return Finding(name, "pass", "seeds, rounds and clients draw by themselves", f"{3 * ROUNDS} rounds read off")


STREAMS = Check("streams", "seeds, rounds and clients do not share random numbers", _streams)
