"""A case of EFL's from what a user asked for in words: the problem, who takes part, the method, and
the line above the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.local import Constant, LocalSGD
from fedtheory.participation.irregular import complete, windows
from fedtheory.theorems.efl.cases.kinds import CASES
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, STEPS
from fedtheory.theorems.efl.cases.theorem_2 import event_of
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.request import Prepared, Request
from fedtheory.theory.judge.statement import Statement

__all__ = ["prepare"]


def prepare(statement: Statement, request: Request) -> Prepared:
    """The case that a user asked for.

    Raises
    ------
    InvalidInput
        An option that means nothing to the statement, or asks for what it is not about.
    """
    problem, kinds = request.problem("quadratic"), {f.kind for f in statement.forms}
    if kinds == {"shift"}:
        return _prepare_shift(statement, problem, request)
    if kinds <= {"run", "step"}:
        return _prepare_run(problem, request)
    return _prepare_other(statement, problem, request)


def _prepare_other(statement: Statement, problem: Any, request: Request) -> Prepared:
    """Everything but Theorem 1's runs: local work only where it was asked for, else what the statement takes."""
    kind, o = CASES[statement.forms[0].kind], request.options
    if request.mode != "auto":
        raise InvalidInput(f"--mode {request.mode}: {statement.id} is judged without Monte Carlo; leave it out")
    algorithm, rounds = request.algorithm("efl", problem, **kind.method), request.rounds or ROUNDS
    steps = o.get("local_steps")
    E = (kind.E or STEPS) if steps is None else steps
    sampling = request.participation(problem, E, rounds)
    work = ("local_lr", "batch_size", "noise", "lr_schedule", "lr_delay")
    asked = any(o.get(name) is not None for name in work)
    solver = request.local_sgd(algorithm, problem, sampling, rounds) if asked else None
    who = request.participation_in_words(problem)
    head = f"{problem.name}: N = {problem.num_clients}, {who}, d = {problem.dim}, scheme {algorithm.scheme}, E = {E}"
    options = {
        "sampling": sampling, "local_solver": solver, "x0": request.start(problem),
        "rounds": request.rounds, "seed": request.seed, "given": o.get("given") or {},
    }
    details = {"scheme": algorithm.scheme, "sampling": repr(sampling), "local_solver": repr(solver), "rounds": request.rounds}
    return Prepared(problem, algorithm, options, [head], details)


def _prepare_shift(statement: Statement, problem: Any, request: Request) -> Prepared:
    """The client that Theorem 2 moves, as a law with a window; --departure and --arrival may leave the round out."""
    algorithm, event = request.algorithm("efl", problem), event_of(statement.forms[0])
    request.refuse([f.name for f in fields(algorithm)], f"{statement.id} is about two optima, whatever the algorithm; leave it out")
    no_run = f"{statement.id} is about two optima, not about a run; leave it out"
    if request.rounds is not None or request.mode != "auto":
        given = f"--mode {request.mode}" if request.rounds is None else f"--rounds {request.rounds}"
        raise InvalidInput(f"{given}: {no_run}")
    other = "arrival" if event == "departure" else "departure"
    work = ("local_steps", "local_lr", "batch_size", "noise", "lr_schedule", "lr_delay")
    request.refuse(("inactive", "incomplete", "activity", other, *work), no_run)
    if request.participants is not None:
        raise InvalidInput(f"--participants {request.participants}: {no_run}")
    text, client = request.options.get(event), problem.num_clients - 1
    if text is not None:
        try:
            client = int(text.partition("@")[0])
        except ValueError:
            raise InvalidInput(f"--{event} {text}: give the client, as in --{event} 2") from None
    window = (2, None) if event == "arrival" else (None, 2)
    sampling = windows(complete(problem.num_clients, 1), {client: window})
    moves = "leaves" if event == "departure" else "joins the others"
    head = [f"{problem.name}: N = {problem.num_clients}, d = {problem.dim}, client {client} {moves}"]
    options = {"sampling": sampling, "x0": request.start(problem), "seed": request.seed}
    details = {"event": event, "client": client}
    return Prepared(problem, algorithm, options, head, details, partial(_facts, details))


def _prepare_run(problem: Any, request: Request) -> Prepared:
    algorithm, o = request.algorithm("efl", problem), request.options
    rounds = request.rounds or ROUNDS
    E = STEPS if o.get("local_steps") is None else o["local_steps"]
    sampling = request.participation(problem, E, rounds)
    plain = o.get("lr_schedule") in (None, "theorem")
    if plain and o.get("local_lr") is not None:
        raise InvalidInput(
            f"--local-lr {o['local_lr']:g}: Theorem 1 says what the step is; leave it out (with "
            "--lr-schedule constant the verdict is 'not applicable')"
        )
    if plain:  # a number stands for Theorem 1's steps
        solver = LocalSGD(sampling.max_steps, 1.0, o.get("batch_size"), noise_std=o.get("noise") or 0.0)
    else:
        solver = request.local_sgd(algorithm, problem, sampling, rounds)
        solver = solver if callable(solver.lr) else replace(solver, lr=Constant(solver.lr))
    work = ", ".join(
        [f"E = {E} local steps"]
        + [f"mini-batches of {solver.batch_size}"] * (solver.batch_size is not None)
        + [f"noise of norm {solver.noise_std:g}"] * (solver.noise_std > 0)
    )
    who = request.participation_in_words(problem)
    head = [f"{problem.name}: N = {problem.num_clients}, {who}, d = {problem.dim}, scheme {algorithm.scheme}, {work}, T = {rounds}"]
    details = {"scheme": algorithm.scheme, "sampling": repr(sampling), "local_solver": repr(solver), "rounds": rounds}
    options = {
        "sampling": sampling, "local_solver": solver, "x0": request.start(problem),
        "rounds": rounds, "mode": request.mode, "scenarios": request.scenarios,
        "seed": request.seed,
    }
    return Prepared(problem, algorithm, options, head, details, partial(_facts, details))


# --- the constants that the checks carry ----------------------------------------------------------
NAMES = {
    "G_sq": "G^2", "sigma_sq": "sigma_k^2", "D": "D_k", "S_min": "min S_tau",
    "start_sq": "||w_0 - w*||^2", "B_max": "max E[B_t]", "eta_0": "eta_0", "C_T": "C_T",
    "H_T": "H_T", "r_mean": "mean r_tau", "D_new": "D_a, new optimum", "D_old": "D_a, old optimum",
}
OF_A_SHIFT = ("n", "n_a", "L", "mu", "D_new", "D_old")


def _facts(details: dict[str, Any], checks: Sequence[Check]) -> list[tuple[str, Any]]:
    """The constants of the checks, taken out of them into what is written: they are the same for all forms."""
    found: dict[str, Any] = {}
    for check in checks:
        if "constants" in check.where:
            found.update(check.where.pop("constants"))
            check.where.pop("horizons", None)
        for name in [k for k in check.where if k in OF_A_SHIFT]:
            found[name] = check.where.pop(name)
    details["constants"] = found
    how = found.get("how", {})
    rows = [(NAMES.get(k, k), _number(v)) for k, v in found.items() if k not in ("how", "N", "rounds") and v is not None]
    return rows + [(f"how: {k}", v) for k, v in how.items()]


def _number(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_number(v)}" for k, v in value.items())
    if isinstance(value, list):
        return f"{_number(value[0])} (all clients)" if len({*value}) == 1 and len(value) > 1 else ", ".join(_number(v) for v in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
