"""FedMLS as a user asks for it in words, at the command line."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar

from fedtheory import algorithms
from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedmls.notation import PRINTED_COUNTS, ROUNDS
from fedtheory.theorems.fedmls.on_a_problem import UsersRuns, given_numbers
from fedtheory.theorems.fedmls.paper import ACCEPTS, FEWEST, MOST, SLIDING
from fedtheory.theorems.fedmls.parameters import make_fedmls
from fedtheory.theory import Prepared, Request, Statement, World

PARTICIPATION = (
    "inactive", "incomplete", "activity", "arrival", "departure", "lr_schedule", "lr_delay",
    "local_steps", "local_lr", "batch_size",
)
RENAMED = {"tau": "server_tau"}  # a problem has a tau, too


def refuse_others(request: Request, problem: Any, also: Sequence[str] = ()) -> None:
    """Raise `InvalidInput` for options, cohorts and modes that mean nothing to FedMLS."""
    request.refuse(also, "does not apply to statements about MOPES and MOLES: leave it out")
    mine = [f.name for f in fields(FedMLS)]
    known = (f.name for name in algorithms.names() for f in fields(algorithms.get(name)))
    every = [RENAMED.get(name, name) for name in known]
    for name in [*dict.fromkeys(every), "l2_over_beta"]:
        value = request.options.get(name)
        if value is not None and name not in (*mine, "epsilon", "noise"):
            takes = ", ".join((*mine, "epsilon", "noise"))
            raise InvalidInput(f"fedmls has no hyperparameter {name}={value!r}: it takes {takes}")
    refuse_cohorts(request, problem)
    request.refuse(PARTICIPATION, "does not apply to statements about FedMLS: leave it out")
    if request.mode != "auto":
        raise InvalidInput(
            f"mode = {request.mode!r}: a run of FedMLS is exact without noise, "
            "and Monte Carlo with it; leave it out"
        )


def refuse_cohorts(request: Request, problem: Any) -> None:
    """Raise `InvalidInput` for cohorts: FedMLS needs all clients."""
    if request.participants is not None and request.participants != problem.num_clients:
        n = problem.num_clients
        raise InvalidInput(
            f"participants = {request.participants}: FedMLS needs all N = {n} clients "
            "in every round; leave it out"
        )


class Asked(World):
    """A world whose cases are runs of FedMLS that a user asks for in words.

    Attributes
    ----------
    solved : True if the local problems are solved
    """

    example, problem, work = "--problem lad", "lad", SLIDING
    solved: ClassVar[bool] = False

    @classmethod
    def prepare(cls, statement: Statement, request: Request) -> Prepared:
        """Make a case of FedMLS with Theorem 2's parameters, as the options ask for it."""
        problem, given = request.problem("lad"), dict(request.options)
        if cls.solved:
            if given.get("local_training") == "sliding":
                raise InvalidInput(
                    "local_training = 'sliding': the statement is about 'exact-prox'; leave it out"
                )
            given["local_training"] = "exact-prox"
        if all(f.sides is None for f in statement.forms):
            head = ["an identity between symbols: no data enter"]
            return Prepared(problem, FedMLS(1.0, 1.0, 1, 1.0, 1.0), head=head)
        x0 = request.start(problem)
        refuse_others(request, problem)
        given_numbers(request.options.get("given") or {}, problem.num_clients)
        rounds: Any = request.rounds
        if rounds is None:  # Theorem 2 is about the printed K, which is at least K_min
            printed = {ROUNDS["printed"], PRINTED_COUNTS}
            rounds = "printed" if any(printed & set(f.needs) for f in statement.forms) else "fewest"
        made = make_fedmls(problem, given, x0, rounds)
        rule, n = "noisy" if made.algorithm.noise_std else "exact", problem.num_clients
        rows = made.rows(skip_last=False)
        return Prepared(
            problem, made.algorithm,
            head=[f"{problem.name}: N = {n}, d = {problem.dim}, {rule} subgradients"],
            details={"algorithm": made.to_json(skip_last=False)}, facts=lambda checks: rows,
        )


class OfUsers(Asked):
    """Runs of FedMLS on a user's problem."""

    accepts, scenarios = ACCEPTS, (FEWEST, MOST)

    @classmethod
    def check_given(cls, case: Any) -> None:
        """Raise `InvalidInput` for given numbers or a given optimum that can be none."""
        known = UsersRuns(case)
        if case.given.get("optimum") is not None and isinstance(case.algorithm, FedMLS):
            known.optimum  # noqa: B018 - checked when it is read
