"""The assumptions of FedElasticNet's theorems about runs, on a problem of the user's."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.errors import MissingCapability
from fedtheory.participation.cohorts import Full, Sampling, Uniform
from fedtheory.problems.base import Problem
from fedtheory.theorems.fedelasticnet.notation import RATIO
from fedtheory.theory.judge.statement import Form

__all__ = ["assumption_failure"]


def assumption_failure(form: Form, problem: Problem, algorithm: Any, sampling: Sampling) -> str | None:
    """The first assumption of FedElasticNet's Theorem 3.1 that fails, with value and limit; None when all hold."""
    if not isinstance(algorithm, FedElasticNetDyn):
        return f"the statement is about FedElasticNet's Algorithm 3 (FedElasticNetDyn), not {type(algorithm).__name__}"
    if not algorithm.l1 > 0:
        return f"lambda_1 = {algorithm.l1:g} is not above 0, as Algorithm 3 asks (with 0 it is FedDyn): choose lambda_1 > 0"
    if algorithm.rule not in form.established:
        return f"not claimed for the {algorithm.rule} rule"
    if algorithm.epsilon != 0:
        return f"threshold epsilon = {algorithm.epsilon:g}; the theorem has none (0)"
    if algorithm.compressor is not None:
        return f"compressor {algorithm.compressor.name}; the theorem is about messages that are sent whole (none)"
    if not problem.convex:
        return "some client's loss is not convex"
    try:
        beta = float(problem.beta_k.max())
    except MissingCapability as error:
        return str(error)
    if not isinstance(sampling, Full | Uniform):
        return f"cohorts are drawn by {type(sampling).__name__}; the theorem needs P of m uniformly (Uniform or Full)"
    spread = float(np.abs(problem.weights * problem.num_clients - 1).max())
    if spread > 1e-12:
        return f"R must be the plain mean of the losses, but the weights differ from 1/m by up to {spread:.3g}/m"
    ratio = algorithm.l2 / beta if beta > 0 else float("inf")
    limit = form.limits.get(RATIO)
    if limit is not None and not ratio > limit:
        return f"{RATIO} = {ratio:.6g} is not above {limit:.6g}"
    return None
