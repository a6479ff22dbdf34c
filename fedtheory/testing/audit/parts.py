"""The parts that plain references share: local work, the server's mean, and the clients' memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedtheory.testing.audit.clients import Client

__all__ = ["Faults", "State", "mean_of", "put", "steps_of", "work"]

State = dict[str, np.ndarray]
Faults = Callable[[str], bool]
NEWTON, PROXIMAL = 60, 3000  # steps at most of an exact local minimisation


def steps_of(settings: Mapping[str, Any], k: int) -> int:
    steps = settings["local_steps"]
    return int(steps) if np.ndim(steps) == 0 else int(steps[k])


def _penalty(y: np.ndarray, center: np.ndarray, settings: Mapping[str, Any], wrong: Faults) -> np.ndarray:
    """Gradient at y of mu/2 ||y - center||^2 + l1 ||y - center||_1, with 0 for the second one's where it may be anything."""
    mu, l1 = settings.get("mu", 0.0), settings.get("l1", 0.0)
    if not mu and not l1:
        return np.zeros_like(y)
    move = y - center
    slope = mu * move
    shared = wrong("model-shared")  # where y is x itself, y - x is 0
    if wrong("penalty-none") or wrong("local-plain") or shared:
        return np.zeros_like(y)
    if wrong("penalty-without-rate"):
        slope = slope / settings["learning_rate"]
    if wrong("penalty-half"):
        slope = slope / 2
    if wrong("penalty-double"):
        slope = slope * 2
    if wrong("penalty-sign"):
        slope = -slope
    if wrong("penalty-norm"):
        size = np.linalg.norm(move)
        slope = mu / 2 * move / size if size else 0 * move
    if wrong("penalty-norm-by-array"):
        halves = (move[: (len(move) + 1) // 2], move[(len(move) + 1) // 2 :])
        slope = np.concatenate([mu / 2 * h / (np.linalg.norm(h) or 1.0) for h in halves])
    if wrong("penalty-of-model"):
        slope = mu * y
    if wrong("penalty-overwritten"):
        slope = -mu * center
    if wrong("l1-none"):
        return slope
    sign = np.sign(y if wrong("l1-of-model") else move)
    return slope + (-l1 if wrong("l1-sign") else l1) * sign


def _local(client: Client, state: State, k: int, linear: np.ndarray, settings: Mapping[str, Any],
           wrong: Faults, chained: np.ndarray | None = None) -> np.ndarray:
    """The local model of client k for f_k(y) + <linear, y> + penalty, from the server's model."""
    x = state["x"]
    center = state["y"][k] if wrong("penalty-own-center") else x
    y = state["y"][k] if wrong("start-stale") else x
    if (wrong("clients-chained") or wrong("model-shared")) and chained is not None:
        y = chained
    if settings.get("local", "steps") == "exact":
        return _minimise(client, center, linear, settings, wrong)
    rate, steps = settings["learning_rate"], steps_of(settings, k)
    steps += wrong("steps-one-more") - wrong("steps-one-less")
    steps = 0 if wrong("steps-none") else steps
    steps = 1 if wrong("steps-one") else steps
    first = client.gradient(y)
    last = y
    for step in range(steps):
        slope = first if wrong("gradient-stale") else client.gradient(y)
        penalty = _penalty(last if wrong("penalty-late") else y, center, settings, wrong)
        if wrong("penalty-last-only"):
            penalty = penalty if step == steps - 1 else 0 * penalty
        if wrong("loss-lost"):
            slope = 0 * slope
        slope = slope * settings.get("of_gradient", 1.0)
        last = y
        y = y - rate * (slope + penalty + linear)
    return y


def _minimise(
    client: Client, center: np.ndarray, linear: np.ndarray, settings: Mapping[str, Any], wrong: Faults
) -> np.ndarray:
    """The minimiser of f_k(y) + <linear, y> + mu/2 ||y - center||^2 + l1 ||y - center||_1, from the centre."""
    plain = wrong("penalty-none") or wrong("local-plain")
    mu = 0.0 if plain else settings.get("mu", 0.0)
    mu *= 0.5 if wrong("penalty-half") else 2.0 if wrong("penalty-double") else 1.0
    l1 = 0.0 if plain or wrong("l1-none") else settings.get("l1", 0.0)
    y, anchor = center.copy(), np.zeros_like(center) if wrong("penalty-of-model") else center

    def slope(y: np.ndarray) -> np.ndarray:
        return client.gradient(y) + mu * (y - anchor) + linear

    if l1:
        return _proximal_steps(client, slope, y, l1, mu, 0 * center if wrong("l1-of-model") else center)
    for _ in range(NEWTON):
        step = np.linalg.lstsq(client.curvature(y) + mu * np.eye(len(y)), slope(y), rcond=None)[0]
        y = y - step
        if np.abs(step).max() <= 1e-14 * (1 + np.abs(y).max()):
            break
    return y


def _proximal_steps(client: Client, slope: Callable[[np.ndarray], np.ndarray], y: np.ndarray,
                    l1: float, mu: float, anchor: np.ndarray) -> np.ndarray:
    """Proximal gradient steps to the end; coordinates that stay at the anchor are exactly there."""
    smooth = np.linalg.eigvalsh(client.features.T @ client.features / client.num_examples)[-1] + client.ridge + mu
    for _ in range(PROXIMAL):
        moved = y - slope(y) / smooth - anchor
        new = anchor + np.sign(moved) * np.maximum(np.abs(moved) - l1 / smooth, 0)
        far = np.abs(new - y).max()
        y = new
        if far <= 1e-15 * (1 + np.abs(y).max()):
            break
    return y


def work(state: State, clients: Sequence[Client], cohort: Sequence[int], linear: np.ndarray,
         settings: Mapping[str, Any], wrong: Faults) -> np.ndarray:
    """The local models of the cohort (P, d); linear (P, d).

    Where clients work on the server's own model, it is put into ``state``.
    """
    models: list[np.ndarray] = []
    for slot, k in enumerate(cohort):
        models.append(_local(clients[k], state, k, linear[slot], settings, wrong, models[-1] if models else None))
    if wrong("model-shared"):
        state["x"] = models[-1]
        return np.array(models[-1:] * len(models))
    return np.array(models)


def mean_of(values: np.ndarray, clients: Sequence[Client], cohort: Sequence[int],
            settings: Mapping[str, Any], wrong: Faults, weighting: str = "uniform") -> np.ndarray:
    """Average the cohort's updates as the server does: (P, d) -> (d,). 'all-examples' is n_k/n with
    the n of all clients."""
    weighting = settings.get("weighting", weighting)
    if wrong("other-weights"):
        weighting = "examples" if weighting == "uniform" else "uniform"
    sizes = (
        np.array([clients[k].num_examples for k in cohort], dtype=float)
        if weighting != "uniform"
        else np.ones(len(cohort))
    )
    total = sizes.sum()
    if weighting == "all-examples" or wrong("divide-by-all"):
        total = len(clients) if weighting == "uniform" else sum(c.num_examples for c in clients)
    if wrong("sum-not-mean"):
        total, sizes = 1.0, np.ones(len(cohort))
    if wrong("last-client"):
        return values[-1]
    if wrong("first-client"):
        return values[0]
    return (sizes[:, None] * values).sum(axis=0) / total


def put(old: np.ndarray, cohort: Sequence[int], rows: np.ndarray) -> np.ndarray:
    new = old.copy()
    new[list(cohort)] = rows
    return new
