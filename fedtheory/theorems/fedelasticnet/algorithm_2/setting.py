"""Judge the statements about Algorithm 2 and the threshold: in fractions, some on a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.algorithms.fedelasticnet_scaffold import FedElasticNetScaffold
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps
from fedtheory.messages import Threshold
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.algorithm_2 import instances, rest, wire  # noqa: F401 - their builders
from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import BUILDERS, Method, RoundsView, on_problem
from fedtheory.theorems.fedelasticnet.algorithm_2.stability import FloatStabilityView
from fedtheory.theorems.fedelasticnet.algorithm_2.wire import WireView
from fedtheory.theorems.fedelasticnet.notation import EXACT, in_units_of
from fedtheory.theory.judge.setting import Case, LocalWork, Plan, Prepared, Request, Setting
from fedtheory.theory.judge.statement import Form, Statement

__all__ = ["Algorithm2Setting"]

ROUNDS = 5  # of Algorithm 2 on a user's problem
WIRE_ROUNDS = 300
MOST_NUMBERS = 2000  # of a state whose matrix is diagonalised
ABOUT = {
    "algorithm-2": "about rounds of Algorithm 2",
    "algorithm-2 at rest": "about points of rest of Algorithm 2",
    "scaffold stability": "about one round's matrix of SCAFFOLD",
    "threshold at rest": "about states at which a threshold stops Algorithms 1, 2 and 3",
    "threshold on the wire": "about runs of Algorithm 3 whose messages are thresholded",
}
_NOT_OURS = ("inactive", "incomplete", "arrival", "departure", "lr_schedule", "lr_delay", "batch_size", "noise")


@dataclass(frozen=True)
class OnAProblem:
    """A user's problem as an instance: its view in floats."""

    made: Any

    def view(self) -> Any:
        return self.made


class Algorithm2Setting(Setting):
    """Separable quadratics in fractions; rounds of Algorithm 2 and thresholded runs of Algorithm 3 on any smooth problem in floats."""

    kinds = instances.KINDS
    builders = BUILDERS
    share = dict.fromkeys(instances.KINDS, 0.2)  # whole runs in fractions

    def instances(self, plan: Plan) -> Sequence[Any]:
        return instances.battery(plan.seed, plan.scale)

    def random_instance(self, kind: str, rng: Any) -> Any:
        return instances.random_instance(kind, rng)

    def scope_in_words(self, statement: Statement) -> str:
        return ABOUT[statement.scope]

    # --- a problem of the user's ----------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        if statement.scope in ("algorithm-2", "scaffold stability", "threshold on the wire"):
            return None
        return "it is about separable quadratics in fractions, whose points of rest are known exactly"

    def local_work(self, statement: Statement) -> LocalWork | None:
        """Local minimisers of Algorithm 3; line 7's steps of Algorithm 2 are looked at where its numbers are taken."""
        return EXACT if statement.scope == "threshold on the wire" else None

    def rule_of(self, case: Case) -> str:
        return "any"

    def example(self, statement: Statement) -> str | None:
        if self.refusal(statement):
            return None
        return {
            "algorithm-2": "--problem diabetes --l1 0.1 --l2 0 --local-steps 4 --participants 2",
            "scaffold stability": "--problem ill-conditioned --local-steps 20 --server-lr 1.5",
        }.get(statement.scope, "--problem quadratic --l1 0 --l2-over-beta 30 --epsilon 0.01")

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """Algorithm 2 with B gradient steps, or Algorithm 3 with a threshold on its messages."""
        reason = self.refusal(statement)
        if reason is not None:
            raise InvalidInput(f"{statement.id}: {reason}; leave the problem out")
        request.refuse(_NOT_OURS, f"{statement.id} is about full gradients and all clients or cohorts of P; leave it out")
        problem, o = request.problem("quadratic"), request.options
        start, sampling, beta = request.start(problem), request.sampling(problem), float(problem.beta_k.max())
        options: dict[str, Any] = {"x0": start, "sampling": sampling, "seed": request.seed, "rounds": request.rounds}
        if statement.scope != "threshold on the wire":
            stable = statement.scope == "scaffold stability"
            algorithm = request.algorithm("fedelasticnet-scaffold", problem, l1=0.0 if stable else 0.1, l2=0.0)
            steps = 4 if o.get("local_steps") is None else o["local_steps"]
            if o.get("local_lr") is None and beta + algorithm.l2 == 0:
                raise InvalidInput(f"the losses of {problem.name} have no curvature to take a step size from: give one with --local-lr")
            lr = 1 / (2 * (beta + algorithm.l2)) if o.get("local_lr") is None else o["local_lr"]
            options["local_solver"] = GradientSteps(steps, lr)
            what = f"Algorithm 2, B = {steps}, eta_l = {lr:.6g}"
        else:
            request.refuse(("local_steps", "local_lr"), f"{statement.id} is about exact local minimisers; leave it out")
            if request.participants is not None:
                raise InvalidInput(f"--participants {request.participants}: {statement.id} is about all clients; leave it out")
            defaults = {"l1": 0.1, "epsilon": 0.01} | ({"l2_over_beta": 30.0} if o.get("l2") is None else {})
            algorithm = request.algorithm("fedelasticnet-dyn", problem, **defaults)
            what = f"Algorithm 3 (sign rule), epsilon = {algorithm.epsilon:g} on the messages"
        head = (
            f"{problem.name}: m = {problem.num_clients}, P = {request.participants or problem.num_clients}, d = {problem.dim}, "
            f"lambda_1 = {algorithm.l1:g}, lambda_2 = {algorithm.l2:.6g}{in_units_of(algorithm.l2, beta)}, {what}"
        )
        details = {"algorithm": {"name": algorithm.name, **asdict(algorithm)}, "sampling": repr(sampling)}
        return Prepared(problem, algorithm, options, [head], details)

    def instance(self, statement: Statement, form: Form, case: Case) -> OnAProblem:
        """The rounds, or the run, of the user's case."""
        reason = self.refusal(statement)
        if reason is not None:
            raise InvalidInput(reason)
        if not isinstance(case.sampling or Full(), Full | Uniform):
            raise InvalidInput(f"cohorts are drawn by {type(case.sampling).__name__}: use Full() or Uniform(P)")
        return OnAProblem({"algorithm-2": _rounds, "scaffold stability": _matrix}.get(statement.scope, _wire)(case))


def _start(case: Case) -> np.ndarray:
    return np.zeros(case.problem.dim) + (0.0 if case.x0 is None else np.asarray(case.x0, dtype=float))


def _method(case: Case) -> Method:
    """The numbers of Algorithm 2 in a user's case."""
    algorithm, solver = case.algorithm, case.local_solver
    if not isinstance(algorithm, FedElasticNetScaffold):
        raise InvalidInput(f"the statement is about Algorithm 2 (FedElasticNetScaffold), not {type(algorithm).__name__}")
    plain = FedElasticNetScaffold(algorithm.l1, algorithm.l2, server_lr=algorithm.server_lr)
    if algorithm != plain:
        raise InvalidInput(f"{algorithm}: the statement is about Algorithm 2 as printed, without epsilon, compressors and option I")
    if not isinstance(solver, GradientSteps) or solver.decay != 1 or solver.l1 != "subgradient":
        raise InvalidInput(f"local solver {solver!r}: line 7 takes B steps of one size, use fedtheory.local.GradientSteps(B, eta_l)")
    return Method(algorithm.l1, algorithm.l2, float(solver.lr), int(solver.steps), algorithm.server_lr)


def _rounds(case: Case) -> RoundsView:
    m, T = case.problem.num_clients, case.rounds or ROUNDS
    law = case.sampling or Full()
    drawn = [law.sample(Stream(case.seed), t, range(1), m) for t in range(1, T + 1)]
    cohorts = [np.flatnonzero(c.taking_part()[0]).tolist() for c in drawn]
    return RoundsView(on_problem(case.problem), _method(case), _start(case), np.zeros((m, case.problem.dim)), cohorts)


def _matrix(case: Case) -> FloatStabilityView:
    problem, method = case.problem, _method(case)
    if method.lambda1 or not problem.constant_hessian:
        what = f"lambda_1 = {method.lambda1:g}" if method.lambda1 else f"{problem.name} is not quadratic"
        raise InvalidInput(f"{what}: the statement is about SCAFFOLD (l1 = 0) on quadratics")
    if isinstance(case.sampling, Uniform) and case.sampling.size < problem.num_clients:
        raise InvalidInput(f"{case.sampling}: the statement is about all clients")
    H = np.asarray(problem.client_hessian(np.zeros((problem.num_clients, 1, problem.dim))))[:, 0]
    steepest, numbers = float(np.linalg.eigvalsh(H).max()), problem.dim * (problem.num_clients + 1)
    if not method.eta * (steepest + method.lambda2) < 1 or not float(np.linalg.eigvalsh(H).min()) >= -1e-12 * steepest:
        size = method.eta * (steepest + method.lambda2)
        raise InvalidInput(f"eta_l (beta + lambda_2) = {size:.6g}: it must be below 1, and every L_k convex")
    if numbers > MOST_NUMBERS:
        raise InvalidInput(f"{numbers} numbers in theta and the c_k: more than {MOST_NUMBERS}, take fewer clients or dimensions")
    return FloatStabilityView(H, method)


def _wire(case: Case) -> WireView:
    algorithm = case.algorithm
    if not isinstance(algorithm, FedElasticNetDyn) or algorithm.rule != "sign":
        raise InvalidInput("the statement is about Algorithm 3 under the sign rule: use FedElasticNetDyn(l1, l2, 'sign', epsilon)")
    if isinstance(case.sampling, Uniform) and case.sampling.size < case.problem.num_clients:
        raise InvalidInput(f"{case.sampling}: the statement is about all clients")
    epsilon = algorithm.compressor.epsilon if isinstance(algorithm.compressor, Threshold) else algorithm.epsilon
    if not epsilon > 0 or algorithm.stored != "own":
        raise InvalidInput(f"epsilon = {epsilon}: give a threshold > 0, and clients that go by their own update (stored='own')")
    feedback = isinstance(algorithm.compressor, Threshold) and algorithm.client_feedback
    plain = float(np.abs(case.problem.weights * case.problem.num_clients - 1).max()) <= 1e-12  # what Algorithm 3 averages
    star = case.problem.optimum().x if plain else None
    T = case.rounds or WIRE_ROUNDS
    return WireView(on_problem(case.problem), _start(case), algorithm.l1, algorithm.l2, float(epsilon), T, feedback, star)
