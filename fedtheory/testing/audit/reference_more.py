"""Further methods as plain NumPy loops: Mime, FedGATE and VRL-SGD, Elastic Aggregation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtheory.testing.audit.clients import Client
from fedtheory.testing.audit.parts import Faults, State, mean_of, put, steps_of, work

__all__ = ["elastic_aggregation", "fedgate", "mime"]


def mime(
    state: State, clients: Sequence[Client], cohort: Sequence[int], settings: Mapping[str, Any], wrong: Faults
) -> State:
    """Karimireddy et al. 2020 (Mime), Algorithm 1, with SGD with momentum as base method and full gradients."""
    x, s, beta = state["x"], state["s"], settings["momentum"]
    gradients = np.array([clients[k].gradient(x) for k in cohort])
    c = gradients.mean(axis=0)
    correction = gradients - c if wrong("mime-correction-sign") else c - gradients
    if wrong("mime-lite"):
        correction = 0 * correction
    after = beta * s + (1.0 if wrong("s-undamped") else 1 - beta) * c
    if wrong("s-never-updated"):
        after = s
    used = after if wrong("s-early") else 0 * s if wrong("s-unused") else s
    share = 1.0 if wrong("gradient-undamped") else 1 - beta
    y = work(state, clients, cohort, share * correction + beta * used, {**settings, "of_gradient": share}, wrong)
    x = state["x"]
    step = mean_of(y - x, clients, cohort, settings, wrong)
    return {"x": x + step, "y": put(state["y"], cohort, y), "s": after}


def fedgate(
    state: State, clients: Sequence[Client], cohort: Sequence[int], settings: Mapping[str, Any], wrong: Faults
) -> State:
    """Haddadpour et al. 2021, FedGATE; for server_lr = 1 Liang et al. 2019, VRL-SGD."""
    x, d_k = state["x"], state["d_k"][list(cohort)]
    linear = d_k if wrong("tracker-sign") else 0 * d_k if wrong("tracker-unused") else -d_k
    y = work(state, clients, cohort, linear, settings, wrong)
    x = state["x"]
    over = 1 if wrong("tracker-steps-not-divided") else steps_of(settings, cohort[0])
    moved = (x - y) / (over * (1.0 if wrong("tracker-rate-not-divided") else settings["learning_rate"]))
    mean = moved.mean(axis=0)
    change = moved if wrong("tracker-without-mean") else mean - moved if wrong("tracker-update-sign") else moved - mean
    rate = 1.0 if wrong("server-lr-ignored") else settings.get("server_lr", 1.0)
    rate = rate**2 if wrong("server-lr-squared") else rate
    step = mean_of(y - x, clients, cohort, settings, wrong)
    step = step + x if wrong("model-added") else step
    return {
        "x": x + (-rate if wrong("server-sign") else rate) * step,
        "y": put(state["y"], cohort, y),
        "d_k": state["d_k"] if wrong("tracker-never-updated") else put(state["d_k"], cohort, d_k + change),
    }


def elastic_aggregation(
    state: State, clients: Sequence[Client], cohort: Sequence[int], settings: Mapping[str, Any], wrong: Faults
) -> State:
    """Chen et al. 2023, Algorithm 1, one batch of all samples, one layer, Delta = y - x added.

    The samples that sensitivities are taken on stay in the training data, from which the printed algorithm drops them.
    A client's sensitivity is |gradient of the mean of (a_j'x)^2|; where it is 0 in every coordinate, zeta is 1.
    """
    tau = settings["tau"]
    y = work(state, clients, cohort, np.zeros((len(cohort), len(state["x"]))), settings, wrong)
    x = state["x"]
    step = mean_of(y - x, clients, cohort, settings, wrong, "examples")
    step = step + x if wrong("model-added") else step
    at = y if wrong("sensitivity-at-local-model") else np.broadcast_to(x, y.shape)
    omega = np.array(
        [
            2 * clients[k].features.T @ (clients[k].features @ p) / clients[k].num_examples
            for k, p in zip(cohort, at, strict=True)
        ]
    )
    omega = mean_of(
        omega if wrong("sensitivity-signed") else np.abs(omega), clients, cohort, settings, wrong, "examples"
    )
    most = np.abs(omega).sum() if wrong("sensitivity-over-sum") else omega.max()
    ratio = omega / most if most else 0 * omega
    zeta = 1 + tau - ratio if most else np.ones_like(x)
    if wrong("zeta-turned"):
        zeta = tau + ratio
    if wrong("tau-missing"):
        zeta = 1 - ratio
    if wrong("zeta-unused"):
        zeta = np.ones_like(x)
    rate = 1.0 if wrong("server-lr-ignored") else settings.get("server_lr", 1.0)
    rate = rate**2 if wrong("server-lr-squared") else rate
    return {"x": x + (-rate if wrong("server-sign") else rate) * zeta * step, "y": put(state["y"], cohort, y)}
