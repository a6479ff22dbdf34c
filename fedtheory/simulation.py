"""The only round loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.arrays import Array, astype_like, namespace, to_numpy
from fedtheory.clients import Clients
from fedtheory.cohorts import Full, Sampling
from fedtheory.errors import Diverged, InvalidInput, suggest
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalSolver
from fedtheory.messages.measures import entropy_bits
from fedtheory.problems.base import Problem
from fedtheory.provenance import provenance
from fedtheory.randomness import Stream

__all__ = ["METRICS", "Trajectory", "check_start", "simulate"]

METRICS = {
    "objective": "F(x) of the server model",
    "suboptimality": "F(x) - F*, against the certified value",
    "gradient_norm": "||grad F(x)||",
    "distance": "||x - x*||",
    "nonzeros": "nonzero entries sent, mean over the participants",
    "entropy": "entropy in bits an entry of what was sent (bins of 0.01)",
}
_WIRE = ("nonzeros", "entropy")


@dataclass
class Trajectory:
    """What a run measured.

    Attributes
    ----------
    metrics : dict of (rounds + 1, S) arrays
        Entry 0 is the start; wire metrics are 0 there, and entropy is one number a round (all scenarios together).
    final : the algorithm's last state
    states : list of states (round 0 first), when asked for
    """

    problem: Problem
    algorithm: Algorithm
    rounds: int
    metrics: dict[str, np.ndarray]
    final: Any
    states: list[Any] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def x(self) -> np.ndarray:
        """Last server models (S, d)."""
        return to_numpy(self.final.x)

    def server_models(self) -> np.ndarray:
        """Server models of all rounds (rounds + 1, S, d); needs ``keep_states``."""
        if self.states is None:
            raise InvalidInput("the states were not kept: call simulate(..., keep_states=True)")
        return np.stack([to_numpy(s.x) for s in self.states])


def check_start(problem: Problem, x0: Any, scenarios: int, like: Array | None = None) -> Array:
    """x0 as (S, d): None -> 0, (d,) -> the same for every scenario, (S, d) as given."""
    x0 = np.zeros(problem.dim) if x0 is None else x0
    host = np.asarray(to_numpy(x0), dtype=float)
    if host.shape not in ((problem.dim,), (scenarios, problem.dim)):
        raise InvalidInput(f"x0 has shape {host.shape}: expected ({problem.dim},) or ({scenarios}, {problem.dim})")
    if not np.isfinite(host).all():
        raise InvalidInput("x0 holds NaN or infinite entries: start from a finite point")
    host = np.array(np.broadcast_to(host, (scenarios, problem.dim)))
    return host if like is None else astype_like(host, like)


def simulate(
    problem: Problem,
    algorithm: Algorithm,
    rounds: int,
    x0: Any = None,
    sampling: Sampling | None = None,
    scenarios: int = 1,
    seed: int = 0,
    local_solver: LocalSolver | None = None,
    record: Sequence[str] = ("objective",),
    keep_states: bool = False,
    dense: bool = False,
    like: Array | None = None,
    on_round: Callable[[int, Any, Any, Clients], None] | None = None,
    in_place: bool | None = None,
) -> Trajectory:
    """Run a federated method on a problem.

    Parameters
    ----------
    rounds : int >= 1
    x0 : (d,) or (S, d), default 0
    sampling : Sampling, default full participation
    scenarios : int >= 1
        Independent repetitions, run as one batch.
    local_solver : LocalSolver, default Exact()
    record : names from `METRICS`
    keep_states : bool
        Keep the state of every round.
    dense : bool
        Compute all clients and mask (default: gather the cohort where it has one size).
    like : array
        Run in this array's namespace, dtype and device (default NumPy float64).
    on_round : callable(round_index, old_state, new_state, clients)
        Called after each round; raise to stop.
    in_place : bool
        Let client memories be overwritten; default: yes unless states are kept or observed.

    Raises
    ------
    InvalidInput
        Before any work: P > m, rounds < 1, shapes that disagree, unknown metrics (`UnknownName`).
    Diverged
        At the first non-finite number, with round and client.
    """
    if not isinstance(rounds, int | np.integer) or rounds < 1:
        raise InvalidInput(f"rounds = {rounds!r}: it must be an integer >= 1")
    if not isinstance(scenarios, int | np.integer) or scenarios < 1:
        raise InvalidInput(f"scenarios = {scenarios!r}: it must be an integer >= 1")
    for name in record:
        if name not in METRICS:
            raise suggest(name, METRICS, "metric")
    sampling, solver, stream = sampling or Full(), local_solver or Exact(), Stream(seed)
    sampling.check(problem.num_clients)
    solver.check(problem)
    algorithm.check(solver)
    x = check_start(problem, x0, scenarios, like)
    state = algorithm.init(x, problem.num_clients)
    in_place = in_place if in_place is not None else not keep_states and on_round is None
    meters = {name: np.zeros((rounds + 1, scenarios)) for name in record}
    _measure(meters, problem, 0, state.x, None)
    states = [state] if keep_states else None
    for t in range(1, rounds + 1):
        cohort = sampling.sample(stream, t, range(scenarios), problem.num_clients)
        cohort = cohort.dense() if dense else cohort
        clients = Clients(problem, cohort, solver, x, stream, t, range(scenarios), in_place)
        with np.errstate(over="ignore", invalid="ignore"):  # divergence is reported as an error, not as a warning
            new = algorithm.round(state, clients)
            check_finite_state(new, clients, t)
            _measure(meters, problem, t, new.x, clients)
        if on_round is not None:
            on_round(t, state, new, clients)
        state = new
        if states is not None:
            states.append(state)
    device = str(getattr(x, "device", "cpu"))
    return Trajectory(problem, algorithm, rounds, meters, state, states, provenance(seed, device))


def check_finite_state(state: Any, clients: Clients, round_index: int) -> None:
    """Raise `Diverged` with round, client and scenario when the round left the finite numbers."""
    xp = namespace(state.x)
    if bool(xp.all(xp.isfinite(state.x))):
        return
    bad_x = np.argwhere(~np.isfinite(to_numpy(state.x)))[0]
    scenario, client = int(bad_x[0]), None
    for result in clients.results:
        bad = ~np.isfinite(to_numpy(result.y)).all(axis=-1)
        bad = np.argwhere(bad if clients.cohort.mask is None else bad & clients.cohort.mask)
        if len(bad):
            scenario, slot = (int(i) for i in bad[0])
            client = int(clients.cohort.members[scenario, slot]) if clients.cohort.members is not None else slot
            break
    at = "the server" if client is None else f"client {client}"
    raise Diverged(
        f"diverged in round {round_index} at {at} (scenario {scenario}): the model is not finite; "
        "lower the step size (below 2/beta for gradient steps) or raise lambda_2",
        round_index,
        client,
        scenario,
    )


def _measure(meters: dict[str, np.ndarray], problem: Problem, t: int, x: Array, clients: Clients | None) -> None:
    for name, out in meters.items():
        if name in _WIRE:
            if clients is not None and clients.sent:
                sent = clients.sent_numpy()
                if name == "nonzeros":
                    out[t] = sum(np.count_nonzero(m) / m.shape[0] for m in sent)
                else:
                    out[t] = entropy_bits(np.concatenate([m.ravel() for m in sent]))
        elif name == "gradient_norm":
            out[t] = np.linalg.norm(to_numpy(problem.full_gradient(x)), axis=-1)
        elif name == "distance":
            out[t] = np.linalg.norm(to_numpy(x) - problem.optimum().x, axis=-1)
        else:
            out[t] = to_numpy(problem.objective(x)) - (problem.optimum().value if name == "suboptimality" else 0.0)
