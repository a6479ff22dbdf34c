"""`fedtheory verify efl/...`: a statement of EFL on a problem of the user's."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from fedtheory.cli.options import flag, make_algorithm
from fedtheory.cli.participation import STEPS, local_sgd, participation_in_words, participation_of
from fedtheory.cli.parts import facts
from fedtheory.errors import InvalidInput

__all__ = ["checks_of", "refuse_without_problem", "runs_on_a_problem"]

ROUNDS = 50


def runs_on_a_problem(statement: Any) -> bool:
    """Whether some form can be judged on a problem of the user's."""
    return any(f.requires and f.requires[0] in ("run", "step", "shift") for f in statement.forms)


def refuse_without_problem(statement: Any, problem: Any) -> None:
    """Raise `InvalidInput` for a statement that no problem can be given to, and say what to do instead."""
    if runs_on_a_problem(statement):
        return
    from fedtheory.cli.explain import shipped_witnesses

    if statement.kind == "claim":
        raise InvalidInput(
            f"{statement.id} is a claim that cannot be proved or refuted here, so there is nothing to run: "
            f"`fedtheory explain {statement.id}` says what is missing"
        )
    found = [w.name for w in shipped_witnesses() if w.statement == statement.id]
    replay = f"; `fedtheory replay {found[0]}` reruns a counterexample" if found else ""
    raise InvalidInput(
        f"{statement.id} is about instances of its own kind ({statement.forms[0].requires[0]}), not about a problem's run: "
        f"`fedtheory verify` judges it on some of them with all other statements{replay}"
    )


def _moving(statement: Any, options: dict[str, Any], participants: int | None, problem: Any) -> Any:
    """The client that Theorem 2 moves, as a law with a window; --departure and --arrival may leave the round out."""
    from fedtheory.participation.irregular import complete, windows
    from fedtheory.theorems.efl.shift_on_a_problem import event_of

    event = event_of(statement.forms[0].requires)
    text = options.get(event)
    others = ("inactive", "incomplete", "arrival" if event == "departure" else "departure", "local_steps", "local_lr", "batch_size")
    for name in (*others, "noise", "lr_schedule", "lr_delay"):
        if options.get(name) is not None:
            raise InvalidInput(f"{flag(name)}: {statement.id} is about two optima, not about a run; leave it out")
    if participants is not None:
        raise InvalidInput(f"--participants {participants}: {statement.id} is about two optima, not about a run; leave it out")
    base, client = complete(problem.num_clients, 1), problem.num_clients - 1
    if text is not None:
        try:
            client = int(text.partition("@")[0])
        except ValueError:
            raise InvalidInput(f"--{event} {text}: give the client, as in --{event} 2") from None
    window = (2, None) if event == "arrival" else (None, 2)
    return windows(base, {client: window}), client, event


def checks_of(
    statement: Any, problem: Any, options: dict[str, Any], participants: int | None, x0: np.ndarray, how: dict[str, Any], seed: int
) -> tuple[Any, list[Any], dict[str, Any]]:
    """The checks, what to print above them, and what to write with them."""
    algorithm = make_algorithm("efl", problem, {**options, "fisher": options.get("fisher")})
    if all(f.requires[0] == "shift" for f in statement.forms):
        for h in fields(algorithm):
            if options.get(h.name) is not None:
                raise InvalidInput(f"{flag(h.name)}: {statement.id} is about two optima, whatever the algorithm; leave it out")
        if how["rounds"] is not None or how["mode"] != "auto":
            given = f"--mode {how['mode']}" if how["rounds"] is None else f"--rounds {how['rounds']}"
            raise InvalidInput(f"{given}: {statement.id} is about two optima, not about a run; leave it out")
        sampling, client, event = _moving(statement, options, participants, problem)
        checks = statement.verify(problem, algorithm, sampling=sampling, x0=x0, seed=seed)
        moves = "leaves" if event == "departure" else "joins the others"
        head: list[Any] = [f"{problem.name}: N = {problem.num_clients}, d = {problem.dim}, client {client} {moves}"]
        details: dict[str, Any] = {"event": event, "client": client}
    else:
        rounds = how["rounds"] or ROUNDS
        E = STEPS if options.get("local_steps") is None else options["local_steps"]
        sampling = participation_of(problem, options, participants, E, rounds)
        if options.get("lr_schedule") in (None, "theorem") and options.get("local_lr") is not None:
            raise InvalidInput(
                f"--local-lr {options['local_lr']:g}: Theorem 1 says what the step is; leave it out (with --lr-schedule constant the "
                "verdict is 'not applicable')"
            )
        solver = _solver(problem, algorithm, options, sampling, rounds)
        checks = statement.verify(
            problem, algorithm, sampling=sampling, local_solver=solver, x0=x0, seed=seed, **{**how, "rounds": rounds}
        )
        who = participation_in_words(problem, options, participants)
        work = ", ".join(
            [f"E = {E} local steps"]
            + [f"mini-batches of {solver.batch_size}"] * (solver.batch_size is not None)
            + [f"noise of norm {solver.noise_std:g}"] * (solver.noise_std > 0)
        )
        head = [f"{problem.name}: N = {problem.num_clients}, {who}, d = {problem.dim}, scheme {algorithm.scheme}, {work}, T = {rounds}"]
        details = {"scheme": algorithm.scheme, "sampling": repr(sampling), "local_solver": repr(solver), "rounds": rounds}
    found = _constants(checks)
    if found:
        head.append(facts(_rows(found)))
    return checks, head, {**details, "constants": found}


def _solver(problem: Any, algorithm: Any, options: dict[str, Any], sampling: Any, rounds: int) -> Any:
    """LocalSGD with Theorem 1's steps (a number stands for them), or with what --lr-schedule asks for."""
    from fedtheory.cli.participation import step_size
    from fedtheory.local import Constant, LocalSGD

    if options.get("lr_schedule") in (None, "theorem"):
        return LocalSGD(sampling.max_steps, 1.0, options.get("batch_size"), noise_std=options.get("noise") or 0.0)
    made = local_sgd(problem, algorithm, options, sampling, rounds, lambda: step_size(algorithm, problem, 0.0, sampling, rounds))
    if callable(made.lr):
        return made
    return LocalSGD(made.steps, Constant(made.lr), made.batch_size, noise_std=made.noise_std)


def _constants(checks: Any) -> dict[str, Any]:
    """The constants that the checks carry, taken out of them: they are the same for all forms."""
    found: dict[str, Any] = {}
    for check in checks:
        where = check.where
        if "constants" in where:
            found.update(where.pop("constants"))
            where.pop("horizons", None)
        for name in [k for k in where if k in ("n", "n_a", "L", "mu", "D_new", "D_old")]:
            found[name] = where.pop(name)
    return found


_NAMES = {
    "G_sq": "G^2", "sigma_sq": "sigma_k^2", "D": "D_k", "S_min": "min S_tau", "start_sq": "||w_0 - w*||^2", "B_max": "max E[B_t]",
    "eta_0": "eta_0", "C_T": "C_T", "H_T": "H_T", "r_mean": "mean r_tau", "D_new": "D_a, new optimum", "D_old": "D_a, old optimum",
}  # fmt: skip


def _number(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_number(v)}" for k, v in value.items())
    if isinstance(value, list):
        return f"{_number(value[0])} (all clients)" if len({*value}) == 1 and len(value) > 1 else ", ".join(_number(v) for v in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _rows(constants: dict[str, Any]) -> list[tuple[str, Any]]:
    how = constants.get("how", {})
    rows = [(_NAMES.get(k, k), _number(v)) for k, v in constants.items() if k not in ("how", "N", "rounds") and v is not None]
    return rows + [(f"how: {k}", v) for k, v in how.items()]
