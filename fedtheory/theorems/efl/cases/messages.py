"""EFL's compression on a user's messages, on a real run's, and the residuals of that run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.local import LocalSGD
from fedtheory.local.objective import LocalObjective, LocalResult, Rows
from fedtheory.messages.compressors import ST, Compressor
from fedtheory.participation.coefficients import coefficients
from fedtheory.participation.cohorts import Cohort
from fedtheory.problems.base import Problem
from fedtheory.rational import simplest, simplest_each, to_file
from fedtheory.simulation.kept import Observer
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems.efl.cases.given import Made, quadratics_of
from fedtheory.theorems.efl.cases.theorem_1 import law_of
from fedtheory.theorems.efl.notation import instance_of
from fedtheory.theorems.efl.statements.compression import CompressionView, compression_view
from fedtheory.theorems.efl.statements.error_feedback import (
    DENSE,
    LOOPS,
    PLAIN,
    SHORT,
    Costs,
    ServerRound,
)
from fedtheory.theory.judge.setting import Case, ClosedView
from fedtheory.theory.judge.statement import Form, Sides

__all__ = ["MessagesView", "ResidualsView", "compression", "feedback", "simulated"]

MESSAGES, NUMBERS = 64, 20_000  # of a run, and in all messages together
ROUNDS = 20


# --- messages -------------------------------------------------------------------------------------
@dataclass
class MessagesView(ClosedView):
    """Several messages and one compressor; a form is judged on each of them.

    Attributes
    ----------
    each : views of the messages; what holds of them, the compressor and n, is the same for all
    """

    each: list[CompressionView]

    def __post_init__(self) -> None:
        self.facts = self.each[0].facts

    def sides_of(self, sides: Callable[[Any], Sides]) -> Callable[[Any], Sides]:
        """The sides of all messages, one after the other."""

        def joined(_: Any) -> Sides:
            found = [sides(v) for v in self.each]
            lhs, rhs, scale = (np.stack([np.asarray(getattr(f, n)) for f in found]) for n in ("lhs", "rhs", "scale"))
            axes = ("message",) if lhs.ndim == 1 else ("message", "entry") if lhs.ndim == 2 else ()
            return Sides(lhs, rhs, scale, found[0].relation, axes=axes)

        return joined

    def printed_constants(self) -> dict[str, Any]:
        return {**self.each[0].printed_constants(), "messages": len(self.each)}


def _specification(compressor: Compressor) -> dict[str, Any]:
    """The name and the parameters, numbers as fractions."""
    if compressor.float_bits != 64:
        raise InvalidInput(
            f"{compressor}: it rounds what it sends to {compressor.float_bits} bits, and the "
            "factors are those of exact numbers; use float_bits=64"
        )
    given = {f.name: getattr(compressor, f.name) for f in fields(compressor) if f.name != "float_bits"}
    exact = {k: simplest(v) if isinstance(v, float) else v for k, v in given.items() if v is not None}
    return to_file({"name": compressor.name, **exact})


def compression(form: Form, case: Case) -> Any:
    """The data of kind 'compression': the algorithm's compressor, and the message that is given, in
    fractions.

    Of several messages, or of those that the clients of a real run compress (D^k = R^k + x^k, at
    most 64), each is judged. A number is read as the simplest fraction that rounds to it; nothing
    is rounded after that, so that the verdict is exact.

    Raises
    ------
    InvalidInput
        No compressor, one that rounds to 32 bits, or messages that are no rows of numbers or too
        many to be judged in fractions.
    """
    compressor = getattr(case.algorithm, "compressor", None)
    if compressor is None:
        raise InvalidInput(f"{case.algorithm.name} compresses nothing: give it a compressor, as in EFL(compressor=messages.ST(1/4))")
    spec = _specification(compressor)
    if "message" in case.given:
        x = simplest_each(case.given["message"])
        label = "a message"
    else:
        x, label = sent_in(case), f"the messages of {case.problem.name}"
    if x.ndim not in (1, 2) or 0 in x.shape:
        raise InvalidInput(f"message has the shape {x.shape}: give (n,) numbers, or (M, n) for M messages")
    if x.size > NUMBERS:
        raise InvalidInput(f"{x.size} numbers in all messages: at most {NUMBERS} are judged in fractions; give fewer messages")
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) == 1:
        return instance_of("compression", label, {"compressor": spec, "x": to_file(rows[0])})
    return Made(MessagesView([compression_view({"compressor": spec, "x": to_file(row)}) for row in rows]))


def sent_in(case: Case) -> np.ndarray:
    """Return the messages that clients of a real run compress, (M, n) in fractions, 64 at most.

    The message D^k is what was sent and what was left, R^k after the round, together. Under scheme A clients that are
    incomplete send nothing, so that they have no message.
    """
    algorithm = case.algorithm
    if not isinstance(algorithm, EFL) or not algorithm.client_feedback:
        raise InvalidInput(f"{algorithm.name} keeps no residuals, so that its messages are not seen: give a message")

    def look(new: Any, clients: Any) -> Any:
        sent = np.asarray(clients.sent[0][0])
        if algorithm.variant != "literal":  # there what arrives is D^k itself
            sent = np.asarray(new.residuals)[0] + sent
        return sent[np.asarray(clients.who_sent()[0])[0]]

    found = simulated(case, look)[2]
    if not found:
        raise InvalidInput("nobody sent anything in this run: take more rounds, or give a message")
    chosen = np.unique(np.linspace(0, len(found) - 1, MESSAGES).astype(int))
    most = max(1, NUMBERS // case.problem.dim)
    return simplest_each(np.stack([found[i] for i in chosen[:most]]))


@dataclass(frozen=True)
class _Recorded(LocalSGD):
    """Local SGD that keeps how far it got, (N, B, d) a round."""

    moves: list[np.ndarray] = field(default_factory=list, compare=False)

    def solve(self, problem: Problem, objective: LocalObjective, start: Any, rows: Rows) -> LocalResult:
        result = super().solve(problem, objective, start, rows)
        self.moves.append(np.asarray(result.y) - np.asarray(start))
        return result


def simulated(
    case: Case, look: Callable[[Any, Any], Iterable[Any]] = lambda new, clients: ()
) -> tuple[list[Any], _Recorded, list[Any]]:
    """One scenario of the user's method on all clients, those that do not take part masked; its
    states, its local work, and what ``look(new_state, clients)`` found in all rounds."""
    solver, law = case.local_solver, law_of(case)
    if solver is None:
        solver = LocalSGD(law.max_steps, 1 / (2 * float(case.problem.beta_k.max())))
    if not isinstance(solver, LocalSGD):
        raise InvalidInput(f"local work by {type(solver).__name__}: use LocalSGD, whose steps can be seen")
    recorded = _Recorded(**{f.name: getattr(solver, f.name) for f in fields(LocalSGD)})
    found: list[Any] = []

    def recall(noted: Mapping[str, Any]) -> None:
        found.extend(noted["found"])
        recorded.moves.extend(noted["moves"])

    def observe(t: int, old: Any, new: Any, clients: Any) -> None:
        found.extend(look(new, clients))

    observer = Observer(observe, lambda: {"found": found, "moves": recorded.moves}, recall)
    run = simulate(
        case.problem, case.algorithm, case.rounds or ROUNDS, case.x0, law, 1, case.seed, recorded,
        record=(), keep_states=True, dense=True, on_round=observer,
    )
    return list(run.states or ()), recorded, found


# --- residuals ------------------------------------------------------------------------------------
@dataclass
class ResidualsView(ClosedView):
    """A real run of EFL with compression: its models, its last residuals, and how far local work alone would have gone.

    Nothing is lost where w_T + R^G + sum_k p^k R^k = w_0 + sum_t sum_k p_t^k x_t^k: each compressor sends C(D) and keeps
    D - C(D), whatever C is, and local work is read off the solver, not off what was sent. On quadratics with E = 1, all
    active and full gradients the right side is w_0 - eta T grad F(mean of w_t), which bounds the gradient at the mean.

    Attributes
    ----------
    run : models (T + 1, d), R^G (d,), R^k (N, d), and w_0 + sum_t sum_k p_t^k x_t^k
    weights, x0, rounds, eta : (N,), (d,), T, and the constant step, or None
    problem : for its gradient and its optimum
    rounds_seen : the same run, round by round
    costs : of ST both ways; None for other compressors
    """

    run: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    weights: np.ndarray
    x0: np.ndarray
    rounds: int
    eta: Any
    problem: Problem
    rounds_seen: list[ServerRound]
    costs: Costs | None
    facts: frozenset[str]

    @cached_property
    def noise(self) -> float:  # what rounding leaves of sums over all rounds
        path, R_G, R, moved = self.run
        size = abs(path).max() + abs(R_G).max() + (self.weights[:, None] * abs(R)).sum(axis=0).max() + abs(moved).max()
        return 1e-15 * (self.rounds + 10) * float(size)

    @property
    def noise_of_slope(self) -> float:
        """The rounding of the gradients that are summed, of what they are made of, and of the sums over eta T."""
        at = np.stack([self.run[0].mean(axis=0), self.run[0][0], 0 * self.x0])
        made_of = float(abs(self.problem.gradient(at)).max()) + float(self.problem.beta_k.max()) * float(abs(self.run[0]).max())
        return 1e-13 * made_of + self.noise / (self.eta * self.rounds)

    @cached_property
    def star(self) -> np.ndarray:
        """The certified optimum."""
        return self.problem.optimum().x

    def slope(self, x: np.ndarray) -> np.ndarray:
        """grad F(x)."""
        return np.asarray(self.problem.full_gradient(x))

    def printed_constants(self) -> dict[str, Any]:
        return {"T": self.rounds, "|R^G|": float(np.linalg.norm(self.run[1]))}


def _fields_of(cohort: Cohort) -> tuple[Any, ...]:
    return tuple(getattr(cohort, f.name) for f in fields(cohort))


def feedback(form: Form, case: Case) -> Any:
    """A real run of the user's method, T = 20 rounds where nothing else is said, one scenario.

    Raises
    ------
    InvalidInput
        A method that is not EFL, a variant that compresses nothing or is none of the statement's,
        residuals that are not kept, the elastic term, clients that come or go; of forms about
        quadratics with E = 1 what they lack.
    """
    algorithm = case.algorithm
    if not isinstance(algorithm, EFL):
        raise InvalidInput(f"the statement is about EFL, not {type(algorithm).__name__}")
    if algorithm.variant not in LOOPS:
        known = ", ".join(v for v in LOOPS if v != "after")
        raise InvalidInput(f"variant = {algorithm.variant!r}: the statement is about {known}")
    if algorithm.lam:
        raise InvalidInput(f"lambda = {algorithm.lam:g}, the limit is 0: local work is then on another loss")
    if not (algorithm.client_feedback and algorithm.server_feedback):
        raise InvalidInput("residuals are not kept: use client_feedback=True and server_feedback=True")
    law, T = law_of(case), case.rounds or ROUNDS
    for t in range(1, T + 1):
        present = law.present_in(t)
        if present is not None and not present.all():
            raise InvalidInput(f"client {int(np.argmin(present))} is not there in round {t}: let it be inactive instead")
    states, recorded, found = simulated(case, lambda new, clients: [_fields_of(clients.cohort.dense())])
    cohorts: list[Any] = [Cohort(*values) for values in found]
    problem, weights = case.problem, case.problem.weights
    path = np.concatenate([case.x0[None], *(np.asarray(s.x)[:1] for s in states[-T:])])
    shares = []
    for cohort in cohorts:
        p = coefficients(algorithm.scheme, cohort.steps, cohort.max_steps, weights, cohort.active_probability, cohort.present)
        shares.append(np.where(cohort.steps[0] > 0, np.asarray(p, dtype=float)[0], 0))
    seen = _server_rounds(case, path, states[-T:], shares, recorded)
    moved = case.x0 + np.sum([(r.p[:, None] * r.x).sum(axis=0) for r in seen], axis=0)
    after = algorithm.variant == "consistent" and algorithm.scale == "after"
    facts = {LOOPS["after" if after else algorithm.variant]}
    plain = recorded.steps == 1 and all(c.mask.all() for c in cohorts)
    if plain and recorded.batch_size is None and not recorded.noise_std and not callable(recorded.lr) and problem.constant_hessian:
        facts.add(PLAIN)
        quadratics_of(problem)
    if not callable(recorded.lr) and recorded.lr * float(problem.beta_k.max()) <= 1:
        facts.add(SHORT)
    if algorithm.compressor is None and algorithm.down_compressor is None:
        facts.add(DENSE)
    costs = _costs(case, path, cohorts, np.stack(shares) > 0)
    facts |= costs.facts if costs else set()
    eta = None if callable(recorded.lr) else float(recorded.lr)
    run = (path, seen[-1].R_G_after, seen[-1].R_after, moved)
    return Made(ResidualsView(run, weights, case.x0, T, eta, problem, seen, costs, frozenset(facts)))


def _costs(case: Case, path: np.ndarray, cohorts: list[Any], sent: np.ndarray) -> Costs | None:
    """Return the costs of the run, and of the same run without compression.

    None where it is not ST both ways, or the optimum is unknown.

    sent : (T, N) who sends a message
    """
    algorithm, T, n = case.algorithm, len(path) - 1, case.problem.dim
    both = (algorithm.compressor, algorithm.down_compressor)
    if algorithm.variant != "consistent" or not all(isinstance(c, ST) and c.rule == "exact" for c in both):
        return None
    try:
        star = case.problem.optimum().x
    except NotCertified:
        return None
    plain = replace(algorithm, variant="none", scale=None, compressor=None, down_compressor=None)
    states = simulated(replace(case, algorithm=plain))[0]
    dense = np.concatenate([case.x0[None], *(np.asarray(s.x)[:1] for s in states[-T:])])
    steps = np.stack([c.steps[0] for c in cohorts])
    k = max(c.sizes(n)[0] for c in both)
    away, dense_away = (((p - star) ** 2).sum(axis=1) for p in (path, dense))
    return Costs(n, k, steps, away, dense_away, sent)


def _server_rounds(
    case: Case, path: np.ndarray, states: list[Any], shares: list[np.ndarray], recorded: _Recorded
) -> list[ServerRound]:
    """Every round of a real run; the gradient that no step takes is the full one at the client's last model."""
    problem, out = case.problem, []
    R, R_G = np.zeros((problem.num_clients, problem.dim)), np.zeros(problem.dim)
    for t, (state, p, moves) in enumerate(zip(states, shares, recorded.moves, strict=True)):
        x = np.where(p[:, None] > 0, moves[:, 0], 0)
        own = np.asarray(problem.gradient(path[t] + x))  # client k's gradient at client i's model: (i, k, d)
        step = recorded.lr(t + 1) if callable(recorded.lr) else recorded.lr
        last = np.where(p[:, None] > 0, step * own[range(len(p)), range(len(p))], 0)
        R_after = R if state.residuals is None else np.asarray(state.residuals)[0]
        R_G_after = R_G if state.server_residual is None else np.asarray(state.server_residual)[0]
        out.append(ServerRound(path[t], path[t + 1], R_G, R_G_after, R, R_after, problem.weights, p, x, last))
        R, R_G = R_after, R_G_after
    return out
