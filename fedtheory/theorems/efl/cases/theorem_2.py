"""Theorem 2 and sections 4.3 and 4.4 on a problem of a user's: a client leaves or joins, both optima certified."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Sampling
from fedtheory.problems.base import Problem
from fedtheory.theorems.efl.cases.given import distance_off
from fedtheory.theorems.efl.statements.theorem_2 import ARRIVAL, ShiftView
from fedtheory.theory.judge.statement import Form

__all__ = ["event_of", "shift_on", "who_moves"]


def event_of(form: Form) -> str:
    """'departure' or 'arrival', of what a form needs."""
    return "arrival" if ARRIVAL in form.needs else "departure"


def who_moves(sampling: Sampling | None, event: str, clients: int, given: Any = None) -> int:
    """The client that is named, else the one with a window that says so, else the last client.

    Raises
    ------
    InvalidInput
        Several clients that leave (or join): the theorem moves one.
    """
    if given is not None:
        return int(given)
    stay = getattr(sampling, "present", None)
    found = [k for k, window in enumerate(stay or ()) if window[0 if event == "arrival" else 1] is not None]
    if len(found) > 1:
        raise InvalidInput(f"clients {', '.join(map(str, found))} all have a round of {event}: Theorem 2 moves one, name one")
    return found[0] if found else clients - 1


def shift_on(problem: Problem, event: str, client: int) -> ShiftView:
    """The shift of the optimum when one client of a problem leaves it, or when it joins the others.

    Weights p^k stand for n_k/n; with p^k = n_k/n the samples themselves are shown.

    Raises
    ------
    InvalidInput
        Fewer than two clients, or no such client.
    NotCertified
        An optimum that cannot be certified.
    """
    N = problem.num_clients
    if N < 2:
        raise InvalidInput(f"N = {N} client: with nobody left there is no new optimum, use at least two clients")
    if not 0 <= client < N:
        raise InvalidInput(f"there is no client {client}: clients are numbered 0..{N - 1}")
    others = np.delete(np.arange(N), client)
    rest, alone = problem.subset(others), problem.subset(np.array([client]))
    joint, without, own = problem.optimum(), rest.optimum(), alone.optimum()
    old, new = (joint, without) if event == "departure" else (without, joint)
    gaps = [float(alone.objective(o.x)) - own.lower_bound for o in (new, old)]
    counts, weights = np.asarray(problem.sample_counts), problem.weights
    sizes = counts if np.allclose(weights * counts.sum(), counts, rtol=1e-12) else weights
    n_a, n_others = sizes[client].item(), sizes[others].sum().item()
    mu = float(problem.mu_k.min())
    away = distance_off(problem, joint) + distance_off(problem, without)
    distance = float(np.linalg.norm(old.x - new.x))
    return ShiftView(
        event, n_others + (n_a if event == "departure" else 0), n_a, float(problem.beta_k.max()),
        mu, distance**2, gaps[0], gaps[1], noise=2 * away * (distance + away),
    )
