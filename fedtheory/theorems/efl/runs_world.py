"""The worlds of EFL's Theorem 1 and of the steps of its proof: exact quadratics, and real runs."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.local import Constant, LocalSGD, TheoremStep
from fedtheory.participation.coefficients import SCHEMES
from fedtheory.participation.irregular import Participation
from fedtheory.theorems.efl import world as efl
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases import theorem_1 as cases
from fedtheory.theorems.efl.quantities.exact_run import run_of
from fedtheory.theorems.efl.quantities.measured_run import moments_of_rounds
from fedtheory.theorems.efl.quantities.run import EFLRun, gamma_of
from fedtheory.theorems.efl.quantities.step import steps_of
from fedtheory.theorems.efl.run_instances import QuadraticInstance, in_floats, random_instance
from fedtheory.theory import Case, Form, Request, Statement
from fedtheory.theory.judge.record import OwnRun, Record

THEOREM = "efl/theorem-1"
LEFT = "||w_tau - w*||^2, w_tau the server's model after tau rounds"


def battery(seed: int = 0, scale: float = 1.0) -> list[Any]:
    """Runs in floats, and those in fractions."""
    return [*in_floats(seed, scale), *_complete(seed), *_moving(seed)]


def _moving(seed: int) -> list[Any]:
    """Complete clients and anchors that move: one client, whose steps are short and pulled back,
    and two that are pulled together."""
    one: dict[str, Any] = {"weights": ["1"], "h": [["1"]], "c": [["0"]], "w0": ["1"], "T": 8, "lam": "511", "u": [["1"]]}
    two: dict[str, Any] = {"weights": ["1/2"] * 2, "h": [["1"], ["2"]], "c": [["1"], ["-1"]], "w0": ["1"], "T": 5, "lam": "1/2"}
    two |= {"u": [["3"], ["1"]], "laws": [[["0", "0", "1"]] * 2]}
    many = {scheme: [[["0"] * (64 if scheme in "AB" else 40) + ["1"]]] for scheme in SCHEMES}  # local steps
    return [
        Runs.instance(f"{label}, {scheme}", {**data, "scheme": scheme}, seed * 1000 + 970 + 4 * n + i)
        for i, scheme in enumerate(SCHEMES)
        for n, (label, data) in enumerate(
            (("one client whose anchor moves", {**one, "laws": many[scheme]}), ("two clients whose anchors move", two))
        )
    ]


def _complete(seed: int) -> list[Any]:
    """All clients complete, in fractions: one client, where the round of complete clients is
    attained, and two that pull apart."""
    one: dict[str, Any] = {"weights": ["1"], "h": [["1"]], "c": [["0"]], "w0": ["1"], "law": [["0", "0", "0", "1"]]}
    two: dict[str, Any] = {
        "weights": ["1/2"] * 2, "h": [["1"], ["1/2"]], "c": [["1"], ["-2"]], "w0": ["-7/100"],
        "law": [["0", "0", "1"]] * 2,
    }
    return [
        Steps.instance(f"{label}, {scheme}", {**data, "scheme": scheme, "tau": 0}, seed * 1000 + 990 + i)
        for label, data in (("one complete client", one), ("two complete clients that pull apart", two))
        for i, scheme in enumerate(SCHEMES)
    ]


class Runs(efl.EFLWorld):
    """Runs of EFL's local SGD, each an `EFLRun`."""

    kind, about = "run", "about a run of EFL without compression"
    asks = (
        efl.CONVEX, efl.OF_THEOREM_1, "EFL without compression; lambda = 0, or anchors that never move",
        "LocalSGD with Theorem 1's steps",
    )  # fmt: skip
    accepts = given.options(*efl.CONSTANTS, "u_0", "v_0")
    example = "--problem diabetes --inactive 0.3 --incomplete uniform"
    share, rules, usual_scenarios, sampled = 0.05, SCHEMES, 200, True

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Any:
        """Make the run of a witness."""
        return run_of(data)

    @classmethod
    def runs(cls, plan: Any) -> list[Any]:
        """Take the instances of this kind."""
        return [made for made in battery(plan.seed, plan.scale) if made.kind == cls.kind]

    @classmethod
    def search_instance(cls, rng: Any) -> QuadraticInstance:
        """Draw an exact instance of any shape."""
        return random_instance(cls.kind, rng)

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> Any:
        """Make the user's run, or its first rounds; Theorem 1 is judged from tau = 1 on."""
        view = cases.view_of(cls.kind, case)
        if statement == THEOREM:  # at tau = 0 both sides are ||w_0 - w*||^2
            return replace(view, horizons=view.horizons[view.horizons > 0])
        return view

    @classmethod
    def own_run(cls, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """Give the sides of Theorem 1 on a recorded run, from tau = 1 on.

        Its constants need the law of participation and no run, its left side the server's models.
        """
        if statement.id != THEOREM:
            made: OwnRun = super().own_run(statement, form, case, record)
            return made
        problem, law = case.problem, cases.law_of(case)
        if cases.anchors_of(case) is not None:
            raise InvalidInput("u_0, v_0: frozen anchors are judged on runs of this package only; leave them out")
        if reason := cases.assumption_failure(problem, case.algorithm, case.local_solver):
            raise InvalidInput(reason)
        if not isinstance(case.sampling, Participation) and case.local_solver is None:
            raise InvalidInput(
                "the local steps E of the run are not said: give sampling=participation.complete(N, E) "
                "or another law of s_k, or local_solver=LocalSGD(E, 1.0)"
            )
        solver = cases.local_sgd_of(case, law)
        cases.check_present(law, record.rounds)
        cases.check_step_sizes(problem, case.algorithm, law, record.rounds, solver, case.given)
        start = record.common_start(case.x0)
        constants = cases.constants_on(replace(case, x0=start, rounds=record.rounds), law)
        optimum = problem.optimum()
        if record.models is None:
            distance_sq = np.zeros((record.rounds + 1, 1))
        else:
            distance_sq = ((record.models - optimum.x) ** 2).sum(axis=-1)
        off = given.distance_off(problem, optimum)
        noise = off * (2 * float(np.sqrt(distance_sq.max())) + off)
        horizons, rule = np.arange(1, record.rounds + 1), case.algorithm.scheme
        view = EFLRun(constants, distance_sq, rule, horizons, exact=False, noise=noise)
        reason = view.applies(form)
        if reason is None and rule not in form.established:
            reason = f"not claimed for {rule}, only for {', '.join(form.established)}"
        if reason is not None:
            raise InvalidInput(reason)
        sure = nothing_random(law, solver, record.rounds)
        known = {**constants.summary(), "eta": np.asarray(constants.eta, dtype=float)}
        return OwnRun(form.sides(view), horizons, "tau", sure, LEFT, rule, known)  # type: ignore[misc]

    @classmethod
    def step_sizes(
        cls, algorithm: Any, problem: Any, participation: Any, rounds: int
    ) -> TheoremStep:
        """Give the steps of Theorem 1; `InvalidInput` for mu = 0, or an elastic term."""
        mu = float(problem.mu_k.min())
        if not mu > 0:
            raise InvalidInput(f"Theorem 1's steps: mu = {mu:g}, the limit is > 0 (Assumption 2): add a ridge")
        if algorithm.lam:
            raise InvalidInput(f"Theorem 1's steps: lambda = {algorithm.lam:g}, and it is about lambda = 0: use InverseTime")
        moments = moments_of_rounds(algorithm.scheme, participation, rounds, problem.weights)
        S = [float(m.sum_ps) for m in moments]
        theta = float(max(m.theta for m in moments))
        gamma = gamma_of(participation.max_steps, theta, float(problem.beta_k.max()), mu, S)
        return TheoremStep(mu, participation.max_steps, gamma, S[0] if len(set(S)) == 1 else tuple(S))

    @classmethod
    def solver(cls, request: Request, algorithm: Any, problem: Any, law: Any, rounds: int) -> Any:
        """Make the local work of the theorem, where a user does not say."""
        o = request.options
        if o.get("lr_schedule") not in (None, "theorem"):
            solver = request.local_sgd(algorithm, problem, law, rounds)
            return solver if callable(solver.lr) else replace(solver, lr=Constant(solver.lr))
        if o.get("local_lr") is not None:
            raise InvalidInput(
                f"--local-lr {o['local_lr']:g}: Theorem 1 says what the step is; leave it out (with "
                "--lr-schedule constant the verdict is 'not applicable')"
            )  # a number stands for Theorem 1's steps
        return LocalSGD(law.max_steps, 1.0, o.get("batch_size"), noise_std=o.get("noise") or 0.0)

    @classmethod
    def work_told(cls, E: int, solver: Any, rounds: int) -> str:
        """Say what clients do, and for how long."""
        batches = f", mini-batches of {solver.batch_size}" if solver.batch_size is not None else ""
        noise = f", noise of norm {solver.noise_std:g}" if solver.noise_std > 0 else ""
        return f"E = {E} local steps{batches}{noise}, T = {rounds}"


class Steps(Runs):
    """One round of EFL from given states, a `StepsView`."""

    kind, about = "step", "about one round of EFL from a given state"
    asks = (
        "strongly convex quadratic losses", "few independent clients, rounds enumerated", efl.PLAIN,
        "LocalSGD, no additive noise",
    )  # fmt: skip
    accepts = given.options()
    example, share = "--problem diabetes --clients 3 --inactive 0.3 --local-steps 2", 0.1

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Any:
        """Make the round of a witness."""
        return steps_of(data)

    @classmethod
    def example_of(cls, statement: str) -> str:
        """Take clients that are complete, where the statement is about them."""
        complete = statement == "efl/complete-round"
        return "--problem diabetes --clients 3 --local-steps 2" if complete else cls.example


def nothing_random(law: Participation, solver: LocalSGD, rounds: int) -> bool:
    """Return whether everybody completes every round with full gradients."""
    complete = all((law.law(t)[:, -1] == 1).all() for t in range(1, rounds + 1))
    return complete and solver.batch_size is None and not solver.noise_std
