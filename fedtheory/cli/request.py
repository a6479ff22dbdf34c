"""Requests: one statement or one run of the command line, as a paper's setting asks for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from typer.main import get_command

from fedtheory.cli.app import app
from fedtheory.cli.common import problem_of, sampling_of
from fedtheory.cli.options import flag, given_values, hyperparameters, make_algorithm, of_messages
from fedtheory.errors import InvalidInput
from fedtheory.theory.judge.request import COMPRESSORS, SENT_WHOLE, Prepared

__all__ = ["CommandRequest"]


@dataclass(frozen=True)
class CommandRequest:
    """See `fedtheory.theory.judge.request.Request`.

    Attributes
    ----------
    problem_name : a named problem, or None
    made : a problem that is there already
    """

    options: Mapping[str, Any]
    participants: int | None = None
    rounds: int | None = None
    mode: str = "auto"
    scenarios: int = 1000
    seed: int = 0
    problem_name: str | None = None
    made: Any = None

    @classmethod
    def about(
        cls, statement: Any, options: Mapping[str, Any], participants: int | None, problem_name: str | None, seed: int,
        how: Mapping[str, Any],
    ) -> CommandRequest:  # fmt: skip
        """A request to judge a statement: what is given to it is checked, and scenarios are its setting's where none are said.

        how : rounds, scenarios, mode
        """
        from fedtheory.theory.judge.registry import setting_of
        from fedtheory.theory.judge.verify import check_given

        for key, least, why in (("rounds", 1, ""), ("scenarios", 2, "; a mean needs at least two runs to have an error")):
            if how[key] is not None and how[key] < least:
                raise InvalidInput(f"--{key} {how[key]}: it must be an integer >= {least}{why}")
        options = {**options, "given": given_values(options.get("given"))}
        check_given(statement, options["given"] or {})
        how = {**how, "scenarios": setting_of(statement).scenarios if how["scenarios"] is None else how["scenarios"]}
        return cls(options, participants, seed=seed, problem_name=problem_name, **how)

    def how(self, prepared: Prepared) -> dict[str, Any]:
        """Keyword arguments of `Statement.verify`, for the case that was made of the request."""
        return {
            "x0": self.start(prepared.problem), "rounds": self.rounds, "mode": self.mode, "scenarios": self.scenarios,
            "seed": self.seed, "given": self.options["given"], **prepared.options,
        }  # fmt: skip

    def or_else(self, example: str) -> CommandRequest:
        """The same; where no problem is named, with what an example says and the user does not."""
        if self.made is not None or self.problem_name or self.options.get("data"):
            return self
        verify: Any = get_command(app).commands["verify"]  # type: ignore[attr-defined]
        said = verify.make_context("verify", shlex.split(example), resilient_parsing=True).params
        options = {n: said.get(n) if v is None else v for n, v in self.options.items()}
        chosen = self.participants or said["participants"]
        return replace(self, options=options, participants=chosen, problem_name=said["problem"])

    def problem(self, default: str) -> Any:
        """The user's problem, or the named one."""
        if self.made is not None:
            return self.made
        return problem_of(self.problem_name or (None if self.options.get("data") else default), self.options, self.seed)

    def start(self, problem: Any) -> np.ndarray:
        """x_0 of --start, (d,)."""
        from fedtheory.cli.ball import start_of

        return start_of(self.options.get("start"), problem.dim)

    def sampling(self, problem: Any) -> Any:
        """Cohorts of --participants drawn uniformly, or all clients."""
        return sampling_of(self.participants, problem)

    def participation(self, problem: Any, steps: int | None, rounds: int) -> Any:
        """The law of the local steps that clients complete; of E = 5 where neither the user nor the setting says."""
        from fedtheory.cli.participation import STEPS, participation_of

        return participation_of(problem, self.options, self.participants, STEPS if steps is None else steps, rounds)

    def participation_in_words(self, problem: Any) -> str:
        """Say for a headline who takes part."""
        from fedtheory.cli.participation import participation_in_words

        return participation_in_words(problem, self.options, self.participants)

    def algorithm(self, method: str, problem: Any, compressed: bool = False, **defaults: Any) -> Any:
        """The method with the hyperparameters given, else these, else its own; ``compressed``: its messages may be."""
        given = {k: v for k, v in self.options.items() if v is not None}
        if given.get("l2_over_beta") is not None:
            defaults.pop("l2", None)
        if given.get("l2") is not None:
            defaults.pop("l2_over_beta", None)
        takes = {**self.options, "allow_long": None, **{k: v for k, v in defaults.items() if k not in given}}
        if not compressed and of_messages(method, "compressor"):
            self.refuse(COMPRESSORS, SENT_WHOLE)
        return make_algorithm(method, problem, takes)

    def local_sgd(self, algorithm: Any, problem: Any, participation: Any, rounds: int) -> Any:
        """Local SGD as --lr-schedule, --local-lr, --batch-size and --noise say."""
        from fedtheory.cli.participation import local_sgd, step_size

        def default() -> float:
            return step_size(algorithm, problem, 0.0, participation, rounds)

        return local_sgd(problem, algorithm, self.options, participation, rounds, default)

    def refuse(self, names: str | Iterable[str], why: str) -> None:
        """Raise `InvalidInput` for the first of these options that was given: its name, its value, and why not."""
        plain = {"participants": self.participants, "rounds": self.rounds, "mode": None if self.mode == "auto" else self.mode}
        for name in [names] if isinstance(names, str) else names:
            value = plain[name] if name in plain else self.options.get(name)
            if value is not None:
                shown = f"{value:g}" if isinstance(value, float) else value
                joined = " " if why.startswith(("does not apply", "is for ")) else ": "
                raise InvalidInput(f"{flag(name)} {shown}{joined}{why}")

    def refuse_hyperparameters(self, why: str) -> None:
        """`refuse` every hyperparameter of every method."""
        self.refuse([*(n for n in hyperparameters() if n not in ("rounds", "allow_long")), "l2_over_beta"], why)
