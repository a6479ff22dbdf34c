"""States of Algorithm 3 before a round: of real runs, and those among them that float64 can judge."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import CompressedElasticDynState, FedElasticNetDyn, FedElasticNetDynState
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Sampling
from fedtheory.problems.base import Problem
from fedtheory.simulation.simulate import simulate

__all__ = ["State", "reachable_states", "resolved_states", "stack_states", "uncompressed"]

State = FedElasticNetDynState | CompressedElasticDynState


def uncompressed(state: State) -> FedElasticNetDynState:
    """The state, where messages are sent whole, as the theorem has it.

    Raises
    ------
    InvalidInput
        That of a method with a compressor.
    """
    if isinstance(state, CompressedElasticDynState):
        raise InvalidInput("a method with a compressor: the theorem is about messages that are sent whole; leave the compressor out")
    return state


def reachable_states(
    problem: Problem,
    algorithm: FedElasticNetDyn,
    sampling: Sampling,
    x0: Any = None,
    rounds: int = 8,
    scenarios: int = 2,
    seed: int = 0,
) -> FedElasticNetDynState:
    """States of a real run, all rounds and scenarios stacked: round 0 first."""
    run = simulate(problem, algorithm, rounds, x0, sampling, scenarios, seed, record=(), keep_states=True)
    return stack_states(*(uncompressed(state) for state in run.states or ()))


def resolved_states(
    problem: Problem, algorithm: FedElasticNetDyn, state: FedElasticNetDynState, resolution: float = 1e-6
) -> FedElasticNetDynState:
    """The states that float64 can judge: gamma and the stored gradients differ from theta* and grad L_k(theta*) by more than
    `resolution` relative to their own size. Closer ones compare rounding errors; an exact instance judges those."""
    star = problem.optimum().x
    grad_star = problem.gradient(star)
    gamma = state.x + state.h / algorithm.l2
    away = np.abs(gamma - star).max(axis=-1) > resolution * (np.abs(gamma).max(axis=-1) + np.abs(star).max())
    stored = np.abs(state.stored - grad_star).max(axis=(1, 2)) > resolution * (
        np.abs(state.stored).max(axis=(1, 2)) + np.abs(grad_star).max()
    )
    keep = away & stored
    return FedElasticNetDynState(*(a[keep] for a in state))


def stack_states(*parts: FedElasticNetDynState) -> FedElasticNetDynState:
    """Several batches of states as one."""
    return FedElasticNetDynState(*(np.concatenate(a) for a in zip(*parts, strict=True)))
