"""A round of each method in two halves, what a client does and what the server makes of it, in NumPy and without Flower.

A message is a dict of named vectors (d,). What a client keeps between rounds never leaves it but in what the method sends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.algorithms import (
    Compressed,
    FedAvg,
    FedDyn,
    FedElasticNetDyn,
    FedElasticNetProx,
    FedElasticNetScaffold,
    FedProx,
    Scaffold,
)
from fedtheory.algorithms.base import Algorithm, threshold
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import whole_number
from fedtheory.local.objective import LocalObjective, LocalSolver, Rows
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream

__all__ = ["CONTROLLED", "DYNAMIC", "METHODS", "LocalWork", "check_method", "client_round",
           "local_work", "sent_settings", "server_round"]

Vector = np.ndarray
AVERAGING, CONTROLLED, DYNAMIC = (
    (FedAvg, FedProx, FedElasticNetProx), (Scaffold, FedElasticNetScaffold),
    (FedDyn, FedElasticNetDyn),
)
METHODS = {m.name: m for m in (*AVERAGING, *CONTROLLED, *DYNAMIC)}


@dataclass(frozen=True)
class LocalWork:
    """One client's part of a round.

    Attributes
    ----------
    num_examples : n_k
    minimise : callable(objective, start, round) -> (y, step_sum)
        A local model (d,) for f_k(y) - <linear, y> + curvature/2 ||y - center||^2 + l1
        ||y - center||_1, and the sum of the step sizes that led there (None where there were no
        gradient steps). ``objective`` is a `LocalObjective` whose arrays are (d,).
    gradient : callable(y) -> (d,), the full gradient of f_k; needed by option='gradient' and
        rule='true-gradient' only
    """

    num_examples: int
    minimise: Callable[[LocalObjective, Vector, int], tuple[Vector, float | None]]
    gradient: Callable[[Vector], Vector] | None = None


def local_work(problem: Problem, client: int, solver: LocalSolver, seed: int = 0) -> LocalWork:
    """Make client number ``client``'s work of a local solver, as in `fedtheory.simulate`.

    Parameters
    ----------
    seed : int >= 0
        Of what the solver draws; the draws are those of ``simulate(..., seed=seed)``.

    Raises
    ------
    InvalidInput
        There is no such client.
    """
    if not isinstance(solver, LocalSolver):
        raise InvalidInput(f"solver = {solver!r}: use one of fedtheory.local, such as GradientSteps(5, 0.1)")
    mine = problem.subset(np.array([whole_number("client", client, least=0)]))
    stream = Stream(whole_number("seed", seed, least=0))

    def minimise(objective: LocalObjective, start: Vector, number: int) -> tuple[Vector, float | None]:
        rows = Rows(np.array([client]), np.zeros((1, 1), dtype=int), np.ones((1, 1), dtype=bool), stream, number)
        seen: dict[int, Vector] = {}  # the same array in two roles stays one array, as in a simulation

        def row(values: Any) -> Vector:
            return seen.setdefault(id(values), np.asarray(values, dtype=float)[None, None, :])

        found = solver.solve(mine, objective.map(row), row(start), rows)
        steps = found.step_sum
        return found.y[0, 0], None if steps is None else float(np.reshape(np.asarray(steps), -1)[0])

    def gradient(y: Vector) -> Vector:
        return mine.client_gradient(np.asarray(y, dtype=float)[None, None, :])[0, 0]

    return LocalWork(int(problem.sample_counts[client]), minimise, gradient)


def check_method(algorithm: Algorithm, num_clients: int | None, total_examples: int | None) -> None:
    """Raise `InvalidInput` for what is not made here."""
    if isinstance(algorithm, Compressed):
        raise InvalidInput(f"algorithm = {algorithm!r}: messages are sent whole here; compress them in fedtheory.simulate")
    if type(algorithm) not in METHODS.values():
        raise InvalidInput(
            f"algorithm = {algorithm!r}: strategies are made of {', '.join(METHODS)}; others run in fedtheory.simulate"
        )
    if getattr(algorithm, "control", "sent") != "sent":
        raise InvalidInput("control = 'recovered': the control variates' changes are sent here; use control='sent'")
    if (initial := getattr(algorithm, "initial", "zero")) != "zero":
        raise InvalidInput(f"initial = {initial!r}: control variates begin at 0 here; use initial='zero'")
    if isinstance(algorithm, (*CONTROLLED, *DYNAMIC)):
        if num_clients is None:
            raise InvalidInput(
                f"num_clients is missing: {algorithm.name} divides by the number of all clients; say how many there are"
            )
        whole_number("num_clients", num_clients, least=1)
    if getattr(algorithm, "aggregation", "") == "printed":
        if total_examples is None:
            raise InvalidInput(
                "total_examples is missing: aggregation='printed' divides by the examples of all clients, which a server that "
                "hears some of them cannot know; say how many there are, or use aggregation='samples'"
            )
        whole_number("total_examples", total_examples, least=1)


def sent_settings(algorithm: Algorithm) -> dict[str, Any]:
    """Return what clients are told of a method, as plain numbers and words."""
    told: dict[str, Any] = {"method": algorithm.name}
    for name in ("mu", "alpha", "l1", "l2", "epsilon", "option", "rule"):
        if hasattr(algorithm, name):
            told[name] = getattr(algorithm, name)
    return told


def _moved(
    objective: LocalObjective, work: LocalWork, number: int, epsilon: float
) -> tuple[Vector, Vector, float | None]:
    """The local model (d,), how far it is from the server's, and the sum of the step sizes."""
    y, steps = work.minimise(objective, objective.center, number)
    y = np.asarray(y, dtype=float)
    if y.shape != objective.center.shape:
        raise InvalidInput(
            f"the local model has shape {y.shape}: it must have the server model's, {objective.center.shape}"
        )
    delta = np.asarray(threshold(y - objective.center, epsilon))
    return (objective.center + delta if epsilon else y), delta, steps


def _full_gradient(work: LocalWork, y: Vector, what: str) -> Vector:
    if work.gradient is None:
        raise MissingCapability(f"{what} needs the client's full gradient: give LocalWork(..., gradient=...)")
    return np.asarray(work.gradient(y), dtype=float)


def client_round(told: Mapping[str, Any], x: Vector, control: Vector | None, kept: Vector | None,
                 work: LocalWork, number: int) -> tuple[dict[str, Vector], Vector | None]:
    """A client's half of a round.

    Parameters
    ----------
    told : as `sent_settings` gives it
    x, control : the server's model (d,), and its control variate c where there is one
    kept : what this client kept from its last round; None before its first

    Returns
    -------
    tuple
        What it sends, by name, and what it keeps.
    """
    method = str(told["method"])
    mu = float(told.get("mu", told.get("l2", told.get("alpha", 0.0))))
    l1, epsilon = float(told.get("l1", 0.0)), float(told.get("epsilon", 0.0))
    if method in [m.name for m in AVERAGING]:
        y, _, _ = _moved(LocalObjective(center=x, curvature=mu, l1=l1), work, number, epsilon)
        return {"model": y}, None
    kept = np.zeros_like(x) if kept is None else kept
    if method in [m.name for m in CONTROLLED]:
        if control is None:
            raise InvalidInput(
                f"{method} needs the server's control variate: was the message made by this package's strategy?"
            )
        objective = LocalObjective(center=x, linear=kept - control, curvature=mu, l1=l1)
        y, steps = work.minimise(objective, x, number)
        if told["option"] == "gradient":
            new = _full_gradient(work, x, "option='gradient'")
        elif steps is None:
            raise MissingCapability(
                f"{method} divides by the sum of the local step sizes: use a local solver that takes gradient steps"
            )
        else:
            new = kept - control + (x - y) / steps
        return {"update": np.asarray(threshold(y - x, epsilon)), "control": new - kept}, new
    if method not in [m.name for m in DYNAMIC]:
        raise InvalidInput(f"method = {method!r}: the client knows {', '.join(METHODS)}")
    y, delta, _ = _moved(LocalObjective(center=x, linear=kept, curvature=mu, l1=l1), work, number, epsilon)
    if told.get("rule", "sign") == "sign":
        return {"update": delta}, kept - mu * delta - l1 * np.sign(delta)
    new = _full_gradient(work, y, "rule='true-gradient'")
    return {"update": delta, "control": new - kept}, new


def server_round(algorithm: Algorithm, x: Vector, kept: Vector | None,
                 replies: Sequence[tuple[int, Mapping[str, Vector]]], num_clients: int | None,
                 total_examples: int | None) -> tuple[Vector, Vector | None]:
    """The server's half of a round.

    Parameters
    ----------
    kept : c or h (d,); None before the first round, or where there is none
    replies : (n_k, what it sent) of those that were heard

    Returns
    -------
    tuple
        The new model and the new c or h.
    """
    heard = len(replies)
    if isinstance(algorithm, CONTROLLED):
        c = np.zeros_like(x) if kept is None else kept
        assert num_clients is not None  # `check_method` has seen to it
        step = sum(sent["update"] for _, sent in replies) / heard
        return x + algorithm.server_lr * step, c + sum(sent["control"] for _, sent in replies) / num_clients
    if isinstance(algorithm, DYNAMIC):
        h = np.zeros_like(x) if kept is None else kept
        assert num_clients is not None  # `check_method` has seen to it
        over, l1 = (algorithm.alpha, 0.0) if isinstance(algorithm, FedDyn) else (algorithm.l2, algorithm.l1)
        slopes = (sent.get("control", -over * sent["update"] - l1 * np.sign(sent["update"])) for _, sent in replies)
        h = h + sum(slopes) / num_clients
        return x + sum(sent["update"] for _, sent in replies) / heard - h / over, h
    assert isinstance(algorithm, AVERAGING)
    counts = np.array([float(n) if algorithm.aggregation != "cohort" else 1.0 for n, _ in replies])
    total = float(total_examples) if algorithm.aggregation == "printed" and total_examples else counts.sum()
    if not total > 0:
        raise InvalidInput(f"the clients that were heard have {total:g} examples together: a mean over them needs some")
    return x + sum(n / total * (sent["model"] - x) for n, (_, sent) in zip(counts, replies, strict=True)), None
