"""What EFL's closed worlds have in common: their instances in a campaign, and a user's options."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.local.objective import LocalObjective, LocalResult
from fedtheory.participation.cohorts import Cohort
from fedtheory.randomness import Stream
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, STEPS
from fedtheory.theory import Draws, LocalWork, Prepared, Request, Statement, World, derived, number
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.rational_clients import SlotClients, SlotWork

LOCAL_SGD = LocalWork((LocalSGD,), "gradients must be unbiased given the past, use LocalSGD")
CONSTANTS = ("G", "L", "mu", "sigma_sq")
CONVEX = "strongly convex losses"
OF_THEOREM_1 = (
    "Theorem 1's constants: quadratic losses, or ridge-regularised logistic or Huber losses, or G "
    "given"
)
DIAGONAL = "quadratic losses whose coordinates do not mix"
PLAIN = "EFL without compression, lambda = 0"
ONE_LAW = "one law of s^k for all rounds"
BOTH_WAYS = {"compressor": "st:q=0.25", "down_compressor": "st:q=0.25"}
ST_BOTH_WAYS = "--problem diabetes --compressor st:q=0.2 --down-compressor st:q=0.2"
ALONE = "scheme C; one client that is inactive at times, all others complete"


class EFLWorld(World):
    """A closed world of EFL.

    Attributes
    ----------
    method, local_steps : hyperparameters of EFL and local steps where the command line is told none
    attained : (label, data) of instances on which a bound is nearly attained
    """

    method: ClassVar[dict[str, Any]] = {}
    local_steps: ClassVar[int] = STEPS
    count: ClassVar[int] = 40  # instances of a full campaign that are drawn
    attained: ClassVar[tuple[tuple[str, dict[str, Any]], ...]] = ()
    sampled: ClassVar[bool] = False  # whether a user's runs may be drawn, with Theorem 1's steps
    own_method, work = False, LOCAL_SGD

    def __init_subclass__(cls, **more: Any) -> None:
        """Name its family and its stream of randomness."""
        super().__init_subclass__(**more)
        if "kind" in vars(cls):
            cls.family = f"efl {cls.kind}"
            cls.draws = (Draws(f"efl battery {cls.kind}", cls.draw, 0),)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw the label and the data of an instance, of a campaign with its number."""
        raise NotImplementedError

    @classmethod
    def runs(cls, plan: Any) -> list[Any]:
        """Draw the instances of a campaign, and add those on which a bound is nearly attained."""
        rng = Stream(plan.seed).generator(f"efl battery {cls.kind}")
        count = max(cls.count // 3, round(cls.count * plan.scale))
        drawn = [cls.instance(*cls.draw(rng, i), plan.seed * 1000 + i) for i in range(count)]
        return [*drawn, *(cls.instance(f"{label}, nearly attained", d) for label, d in cls.attained)]

    @classmethod
    def told(cls, witness: Witness, rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Say what the losses are, too, where they are quadratics."""
        words = "f_k(x) = sum_i h_ki (x_i - c_ki)^2 / 2, clients separated by semicolons"
        losses = [("losses", words)] if {"h", "c"} <= witness.data.keys() else []
        return [*rows[:1], *losses, *rows[1:]]

    @classmethod
    def solver(cls, request: Request, algorithm: Any, problem: Any, law: Any, rounds: int) -> Any:
        """Make the local work that was asked for, else None: it is as the statement has it."""
        work = ("local_lr", "batch_size", "noise", "lr_schedule", "lr_delay")
        asked = any(request.options.get(name) is not None for name in work)
        return request.local_sgd(algorithm, problem, law, rounds) if asked else None

    @classmethod
    def work_told(cls, E: int, solver: Any, rounds: int) -> str:
        """Say what clients do, for the line above the table."""
        return f"E = {E}"

    @classmethod
    def prepare(cls, statement: Statement, request: Request) -> Prepared:
        """Make a case of the law of participation and the local work that were asked for."""
        if request.mode != "auto" and not cls.sampled:
            raise InvalidInput(
                f"--mode {request.mode}: {statement.id} is judged without Monte Carlo; leave it out"
            )
        problem, o, rounds = request.problem("quadratic"), request.options, request.rounds or ROUNDS
        algorithm = request.algorithm("efl", problem, **cls.method)
        E = cls.local_steps if o.get("local_steps") is None else o["local_steps"]
        sampling = request.participation(problem, E, rounds)
        solver = cls.solver(request, algorithm, problem, sampling, rounds)
        who, scheme = request.participation_in_words(problem), algorithm.scheme
        head = (
            f"{problem.name}: N = {problem.num_clients}, {who}, d = {problem.dim}, "
            f"scheme {scheme}, {cls.work_told(E, solver, rounds)}"
        )
        shown = rounds if cls.sampled else request.rounds
        options = {"sampling": sampling, "local_solver": solver, "rounds": shown}
        details = {
            "scheme": scheme, "sampling": repr(sampling), "local_solver": repr(solver),
            "rounds": shown,
        }  # fmt: skip
        made = Prepared(problem, algorithm, options, [head], details)
        return replace(made, facts=partial(constants_told, details)) if cls.sampled else made


def centre(weights: np.ndarray, h: np.ndarray, c: np.ndarray) -> np.ndarray:
    """argmin sum_ki weights_ki h_ki (x_i - c_ki)^2, weights (N,) or (N, d)."""
    w = (weights[:, None] if weights.ndim == 1 else weights) * h
    return (w * c).sum(axis=0) / w.sum(axis=0)


@dataclass
class Clients(EFLWorld):
    """Quadratic clients sum_i h_ki (x_i - c_ki)^2/2."""

    weights: np.ndarray = number("N", "p^k", above=0, total=1)
    h: np.ndarray = number("N d", "curvatures", above=0)
    c: np.ndarray = number("N d", "minimisers")

    def centre(self, weights: np.ndarray) -> np.ndarray:
        """argmin sum_k weights_k f_k, weights (N,), or (N, d) one a coordinate."""
        return centre(weights, self.h, self.c)

    star = derived(lambda q: q.centre(q.weights), "omega* = argmin sum_k p^k f_k")


# --- the constants that the checks carry ----------------------------------------------------------
NAMES = {
    "G_sq": "G^2", "sigma_sq": "sigma_k^2", "D": "D_k", "S_min": "min S_tau",
    "start_sq": "||w_0 - w*||^2", "B_max": "max E[B_t]", "eta_0": "eta_0", "C_T": "C_T",
    "H_T": "H_T", "r_mean": "mean r_tau", "D_new": "D_a, new optimum", "D_old": "D_a, old optimum",
}
OF_A_SHIFT = ("n", "n_a", "L", "mu", "D_new", "D_old")


def constants_told(details: dict[str, Any], checks: Sequence[Check]) -> list[tuple[str, Any]]:
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
    rows = [(NAMES.get(k, k), number_told(v)) for k, v in found.items() if k not in ("how", "N", "rounds") and v is not None]
    return rows + [(f"how: {k}", v) for k, v in how.items()]


def number_told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {number_told(v)}" for k, v in value.items())
    if isinstance(value, list):
        if len({*value}) == 1 and len(value) > 1:
            return f"{number_told(value[0])} (all clients)"
        return ", ".join(number_told(v) for v in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class _Ends(SlotWork):
    """Local work whose ends (S, N, d) are known."""

    ends: Any = None

    def run(self, pieces: Any, objective: LocalObjective, start: Any) -> LocalResult:
        """The ends, for the clients' own losses."""
        return LocalResult(self.ends)


def clients_that_end(
    ends: np.ndarray, weights: Any, steps: np.ndarray, most: int, active: Any = None
) -> SlotClients:
    """The clients of a round of EFL whose local work is known, for its class in fractions or floats.

    Parameters
    ----------
    ends : (S, N, d) where local work ends
    steps : (S, N) of ``most`` steps, 0 where a client is inactive
    active : (N,) the probability that a client is active, which scheme C-corrected asks for
    """
    cohort = Cohort(len(weights), mask=steps > 0, steps=steps, max_steps=most, active_probability=active)
    losses: Any = SimpleNamespace(weights=weights, pieces=None)
    return SlotClients(losses, cohort, _Ends(ends=ends), ends)
