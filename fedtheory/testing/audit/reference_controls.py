"""SCAFFOLD as a plain NumPy loop, with the mistakes that are made in its control variates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedtheory.testing.audit.clients import Client
from fedtheory.testing.audit.parts import Faults, State, mean_of, put, steps_of, work

__all__ = ["scaffold"]


# What line 12 is made with in place of c_k - c.
OLD: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "control-without-c": lambda c_k, c: c_k,
    "control-without-old": lambda c_k, c: 0 * c_k,
    "control-with-c": lambda c_k, c: 0 * c_k + c,
    "control-without-c_k": lambda c_k, c: 0 * c_k - c,
    "control-c-sign": lambda c_k, c: c_k + c,
    "control-c_k-sign": lambda c_k, c: -c_k - c,
    "control-both-signs": lambda c_k, c: c - c_k,
}


def scaffold(
    state: State, clients: Sequence[Client], cohort: Sequence[int], settings: Mapping[str, Any],
    wrong: Faults,
) -> State:
    """Karimireddy et al. 2020, Algorithm 1; its lines are named in `mistakes`."""
    if wrong("c-within-round") and len(cohort) > 1:
        return _one_after_another(state, clients, cohort, settings, wrong)
    x, c, c_k = state["x"], state["c"], state["c_k"][list(cohort)]
    early, by_gradient = wrong("controls-early"), settings.get("option", "difference") == "gradient"
    by_gradient = early or by_gradient != wrong("other-option")
    new = np.array([clients[k].gradient(x) for k in cohort]) if by_gradient else c_k  # option I
    again = c_k.any(axis=1, keepdims=True) & wrong("control-in-place")
    used = c + _share(new - c_k, clients, cohort, settings, wrong) if early else c
    correction = _correction(used, new if early else c_k, settings, wrong)
    if by_gradient:
        correction = np.where(again, new - c if wrong("correction-sign") else c - new, correction)
    y = work(state, clients, cohort, correction, settings, wrong)
    x = state["x"]  # which is another one where clients work on the server's own
    step = mean_of(y - x, clients, cohort, settings, wrong)
    step = step + x if wrong("model-added") else step
    rate = 1.0 if wrong("server-lr-ignored") else settings.get("server_lr", 1.0)
    rate = rate**2 if wrong("server-lr-squared") else rate
    moved_to = x + (-rate if wrong("server-sign") else rate) * step
    if not by_gradient:
        new = _by_difference(
            moved_to if wrong("control-at-new-x") else x, y, c, c_k, clients, cohort, settings,
            wrong,
        )
    change = np.where(again, 0.0, new - c_k)
    after = c + _share(
        new if wrong("control-sent-whole") else change, clients, cohort, settings, wrong
    )
    if wrong("control-replaced"):
        after = new.mean(axis=0)
    kept = state["c_k"] if wrong("c_k-never-updated") else put(state["c_k"], cohort, new)
    return {
        "x": moved_to,
        "y": put(state["y"], cohort, y),
        "c": c if wrong("c-never-updated") else after,
        "c_k": np.tile(after, (len(kept), 1)) if wrong("c_k-set-to-c") else kept,
    }


def _one_after_another(
    state: State, clients: Sequence[Client], cohort: Sequence[int], settings: Mapping[str, Any],
    wrong: Faults,
) -> State:
    """A round in which c changes after every client of the cohort."""
    x, now, models = state["x"], state, []
    for k in cohort:
        now = scaffold({**now, "x": x}, clients, [k], {**settings, "taking": len(cohort)}, wrong)
        models.append(now["y"][k])
    step = mean_of(np.array(models) - x, clients, cohort, settings, wrong)
    return {**now, "x": x + settings.get("server_lr", 1.0) * step}


def _correction(
    c: np.ndarray, c_k: np.ndarray, settings: Mapping[str, Any], wrong: Faults
) -> np.ndarray:
    """Return what line 10 adds to each client's gradient (P, d)."""
    of_server, of_client = np.broadcast_to(c, c_k.shape), -c_k
    if wrong("correction-none"):
        return 0 * c_k
    if wrong("correction-sign") or wrong("correction-c-sign") or wrong("correction-without-c"):
        of_server = 0 * c_k if wrong("correction-without-c") else -of_server
    if wrong("correction-sign") or wrong("correction-c_k-sign") or wrong("correction-without-c_k"):
        of_client = 0 * c_k if wrong("correction-without-c_k") else c_k
    return (of_server + of_client) / (
        settings["learning_rate"] if wrong("correction-without-rate") else 1.0
    )


def _by_difference(
    x: np.ndarray, y: np.ndarray, c: np.ndarray, c_k: np.ndarray, clients: Sequence[Client],
    cohort: Sequence[int], settings: Mapping[str, Any], wrong: Faults,
) -> np.ndarray:
    """Line 12, option II, for the cohort (P, d)."""
    if wrong("control-at-local-model"):
        return np.array([clients[k].gradient(model) for k, model in zip(cohort, y, strict=True)])
    over = np.array([[float(steps_of(settings, k))] for k in cohort])
    over = over + wrong("control-over-one-more") - wrong("control-over-one-less")
    over = np.ones_like(over) if wrong("local-steps-not-divided") else over
    over = (
        over * np.array([[clients[k].num_examples] for k in cohort])
        if wrong("control-over-examples")
        else over
    )
    over = over * settings.get("server_lr", 1.0) if wrong("control-over-server-lr") else over
    over = over if wrong("learning-rate-not-divided") else over * settings["learning_rate"]
    moved = (x - y) / over
    old = next((instead(c_k, c) for name, instead in OLD.items() if wrong(name)), c_k - c)
    return old + (-moved if wrong("control-update-sign") else moved)


def _share(
    sent: np.ndarray, clients: Sequence[Client], cohort: Sequence[int], settings: Mapping[str, Any],
    wrong: Faults,
) -> np.ndarray:
    """Return what lines 16 and 17 add to c for what the cohort sends (P, d)."""
    sizes = np.array([c.num_examples for c in clients], dtype=float)
    many, taking = float(len(clients)), float(settings.get("taking", len(cohort)))
    if wrong("c-by-examples"):
        sent, many, taking = (
            sizes[list(cohort), None] * sent, sizes.sum(), sizes[list(cohort)].sum()
        )
    if wrong("c-by-cohorts-examples"):
        sent = taking * sizes[list(cohort), None] / sizes[list(cohort)].sum() * sent
    many = (
        taking if wrong("control-over-cohort") else many**2 / taking if wrong("c-share-twice")
        else many
    )
    many = 1.0 if wrong("control-not-divided") else many
    rate = settings.get("server_lr", 1.0) if wrong("c-with-server-lr") else 1.0
    return (-rate if wrong("c-sign") else rate) * sent.sum(axis=0) / many
