"""Options of a statement that a user sets, and what is read of a case beside them."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput
from fedtheory.inputs import whole_number
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Full
from fedtheory.participation.irregular import Participation, joint_law
from fedtheory.problems.base import Problem
from fedtheory.rational import simplest, simplest_each
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, check_present, constants_on, law_of
from fedtheory.theorems.efl.quantities.run import EFLConstants, given_curvatures
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.rounds.of_a_problem import (  # noqa: F401 - for the worlds
    coordinates_of,
    distance_off,
    quadratics_of,
    reweighted,
    weights_of,
)

ACCEPTS = {
    "G": "G of Assumption 4; exact where it can be, and refused where it is seen to be no bound",
    "L": "L of Assumption 1, at least the problem's",
    "mu": "mu of Assumption 2, at most the problem's",
    "sigma_sq": "sigma_k^2 of Assumption 3, one number or one a client; after a shift the noise of a coordinate",
    "u_0": "(N, d) Fisher diagonals of anchors that never move, or of the elastic term",
    "v_0": "(N, d) u_0 times the anchors",
    "message": "(n,) or (M, n): messages to compress",
    "client": "the client that is inactive, abandoned, or leaves; counted from 0",
    "anchor": "(d,) the last model of a client that has left",
    "tau_0": "the round, counted from 0, after which a client is gone or is abandoned, or of a shift",
    "s": "the local steps that an incomplete client makes",
    "y": "the probability of that client's being inactive",
    "gamma": "gamma of Theorem 1, after a shift or of Corollary 1's bounds",
    "J": "J of Theorem 1",
    "C": "C with C_tau = tau C, as Corollary 1 assumes",
    "noise": "sum p^2 sigma^2 + 6 L sum p D",
    "S": "clients that take part in a round, of Table 1",
    "epsilon": "the accuracy, of Table 1",
    "K": "the constant before EFL's row of Table 1",
    "delta": "the Hessian dissimilarity, of Table 1",
}


def options(*names: str) -> dict[str, str]:
    """What may be set of a statement, and what it means."""
    return {name: ACCEPTS[name] for name in names}


def given_number(
    case: Case, name: str, default: Callable[[], Any] | Any = None, *, above: Any = None, least: Any = None
) -> Fraction:
    """A number that the user set, else the default, as a fraction."""
    value = case.given[name] if name in case.given else default() if callable(default) else default
    if value is None:
        raise InvalidInput(f"{name} is not known here: give it ({ACCEPTS[name]})")
    found = simplest_each(value)
    if found.shape:
        raise InvalidInput(f"{name} = {value!r}: give one number")
    number = found.item()
    if (above is not None and not number > above) or (least is not None and not number >= least):
        raise InvalidInput(f"{name} = {float(number):.6g}: it must be {f'> {above}' if above is not None else f'>= {least}'}")
    return number


def constants_when_asked(case: Case, *more: Any) -> Callable[[Callable[[EFLConstants], Any]], Fraction]:
    """Give Theorem 1's constants on a case as fractions; they are found when one is asked for."""
    known = cache(lambda: constants_on(case, *more))
    return lambda of: simplest(float(of(known())))


def given_whole(case: Case, name: str, default: int, least: int = 0, most: int | None = None) -> int:
    """A whole number that the user set, else the default; `InvalidInput` outside its limits."""
    value = case.given.get(name, default)
    whole_number(name, value, least=least)
    if most is not None and value > most:
        raise InvalidInput(f"{name} = {value}: it must be at most {most}")
    return int(value)


def client_of(case: Case) -> int:
    """The client that was named, else the one that leaves, else the one that is inactive most often, else the last."""
    clients = case.problem.num_clients
    if clients < 2:
        raise InvalidInput(f"N = {clients} client: one that is inactive or leaves needs another that stays")
    if "client" in case.given:
        return given_whole(case, "client", 0, most=clients - 1)
    leave = [k for k, window in enumerate(getattr(case.sampling, "present", None) or ()) if window[1] is not None]
    if len(leave) > 1:
        raise InvalidInput(f"clients {', '.join(map(str, leave))} all leave: name one with client")
    if leave:
        return leave[0]
    idle = law_of(case).law(1)[:, 0]
    return int(np.argmax(idle)) if idle.max() > 0 else clients - 1


def uncompressed(algorithm: Any, elastic: bool = False) -> EFL:
    """The algorithm, if it is EFL without compression, and without the elastic term unless it is about that."""
    if not isinstance(algorithm, EFL):
        raise InvalidInput(f"the statement is about EFL, not {type(algorithm).__name__}")
    for name in ("compressor", "down_compressor"):
        if getattr(algorithm, name) is not None:
            raise InvalidInput(f"{name} = {getattr(algorithm, name).name}: the statement is about EFL without compression; use None")
    if elastic != (algorithm.lam > 0):
        raise InvalidInput(f"lambda = {algorithm.lam:g}: the statement is about {'lambda > 0' if elastic else 'lambda = 0'}")
    return algorithm


def constant_step(case: Case, default: Any) -> Fraction:
    """The constant local step that the user set, else the default."""
    solver = case.local_solver
    if solver is None:
        return simplest(float(default))
    if not isinstance(solver, LocalSGD) or solver.batch_size is not None or solver.noise_std:
        raise InvalidInput("the statement is about full gradients: use LocalSGD(E, lr) without mini-batches and noise")
    if callable(solver.lr):
        raise InvalidInput("the statement is about a constant step: give lr as a number")
    return simplest(solver.lr)


def check_all_active(case: Case, mover: int | None = None, arrives: bool = False) -> None:
    """Raise `InvalidInput` unless all clients make one local step in every round, but for one that moves for good."""
    if case.sampling is None or isinstance(case.sampling, Full):
        return
    law, clients, about = law_of(case), case.problem.num_clients, "the statement is about all clients active in every round"
    if law.max_steps != 1 and (isinstance(case.sampling, Participation) or case.local_solver is not None):
        raise InvalidInput(f"E = {law.max_steps}: the statement is about one local step a round, the limit is 1")
    law.check_run(clients, case.rounds or ROUNDS)
    moved = False
    for t in range(1, (case.rounds or ROUNDS) + 1):
        present, rows = law.present_in(t), law.law(t)
        for k in range(clients):
            there = present is None or bool(present[k])
            if k == mover:
                moved |= there == arrives
                if there != arrives and moved:
                    raise InvalidInput(f"client {k} {'leaves' if arrives else 'comes back'} in round {t}: {about}, but for one move")
            elif not there:
                raise InvalidInput(f"client {k} is not there in round {t}: {about}")
            if there and rows[k, -1] < 1:
                raise InvalidInput(
                    f"client {k} is inactive with probability {float(rows[k, 0]):.6g} in round "
                    f"{t}, the limit is 0: {about}; leave the participation out"
                )


def curvatures(problem: Problem, given: Mapping[str, Any] | None = None) -> tuple[float, float]:
    """L and mu of all clients, or as given. Raises `InvalidInput` where a client's mu_k is 0."""
    if not problem.mu_k.min() > 0:
        k = int(np.argmin(problem.mu_k))
        raise InvalidInput(f"client {k} has mu_k = {float(problem.mu_k[k]):.6g}, the limit is > 0: add a ridge")
    return given_curvatures(given or {}, float(problem.beta_k.max()), float(problem.mu_k.min()))


def law_in_fractions(case: Case, scheme: str) -> np.ndarray:
    """P(s^k = s) (N, E + 1) in fractions, the same in all rounds and independent between clients."""
    law, clients = law_of(case), case.problem.num_clients
    law.check_run(clients, case.rounds or ROUNDS)
    check_present(law, case.rounds or ROUNDS)
    rows = law.law(1)
    for t in range(1, (case.rounds or ROUNDS) + 1):
        if not np.array_equal(law.law(t), rows):
            raise InvalidInput(f"the law of s^k is another one in round {t} than in round 1: the statement is about one law")
        if scheme == "A" and joint_law(law, t) is not None:
            raise InvalidInput(f"clients that depend on each other in round {t}: under scheme A they are to be independent here")
    found = simplest_each(rows)
    return found / found.sum(axis=1)[:, None]
