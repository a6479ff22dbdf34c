"""The instances FedMLS's theorems are run on, and the runs themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, FedMLSState
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.optimum.certify import Optimum
from fedtheory.problems import nonsmooth, nonsmooth_instances
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.simulation.simulate import check_start, simulate
from fedtheory.theorems.fedmls.quantities import MLSConstants, MLSView
from fedtheory.theorems.fedmls.statements.theorem_1_proof import LINE_14, WITNESS, k_min
from fedtheory.verification import statement as core
from fedtheory.verification.statement import Check, Form, Statement, all_statements
from fedtheory.verification.verify import CONFIDENCE, judge_statistical

__all__ = ["ANALYTIC", "FAMILIES", "MLSInstance", "check_instance", "mls_battery", "verify", "view_of_run"]

ANALYTIC = ("two-client pull", "Nesterov's worst function", "Arjevani-Shamir chain")
FAMILIES = ("LAD", "quantile", "hinge", "hinge with ridge", "max of affine", "l1 distance", "Euclidean distance")
RADIUS = 3.0
SLACK = {"fewest": 8, "sharpened": 4}  # the factor of D-tilde in the Theorem 1 that K_min is taken from


@dataclass(frozen=True)
class MLSInstance:
    """One instance of FedMLS's theorems.

    Attributes
    ----------
    family : of `FAMILIES` or `ANALYTIC`
    clients, dim : N, d
    noise : noise_std in units of the root mean square Lipschitz constant; 0 is deterministic
    accuracy : epsilon in units of G ||x_0 - x*||, for lambda = epsilon/G^2
    rounds : of Theorem 2 'printed', 'fewest' (K_min) or 'sharpened' (K_min of the sharpened Theorem 1); or a number, as Theorem 1
        holds for any K
    lam_scale : multiplies lambda (1 for Theorem 2)
    scenarios : of stochastic runs
    """

    family: str
    clients: int
    dim: int
    noise: float
    accuracy: float
    rounds: str | int
    lam_scale: float
    scenarios: int
    seed: int
    average: str = "averaged"  # line 14: 'averaged' or 'printed'

    @property
    def name(self) -> str:
        kind = f"noise={self.noise:g}" if self.noise else "exact"
        where = f"{self.family} N={self.clients} d={self.dim} {kind}"
        return f"{where} eps={self.accuracy:g} K={self.rounds} lam*{self.lam_scale:g} seed={self.seed}" + (
            "" if self.average == "averaged" else ", line 14 as printed"
        )

    def problem(self) -> Problem:
        """The problem, seeded; the clients' Lipschitz constants differ by up to a factor of 30."""
        rng = Stream(self.seed).generator(f"fedmls {self.family}")
        n, d = self.clients, self.dim
        if self.family == "two-client pull":
            return nonsmooth_instances.TwoClientPull(0.1)
        if self.family == "Nesterov's worst function":
            return nonsmooth_instances.NesterovWorst(d, num_clients=n)
        if self.family == "Arjevani-Shamir chain":
            return nonsmooth_instances.ArjevaniShamir(d, num_clients=n)
        size = 10.0 ** rng.uniform(-1.0, 0.5, n)
        if self.family == "l1 distance" or self.family == "Euclidean distance":
            centers = rng.standard_normal((n, d)) / math.sqrt(d)
            return (nonsmooth.L1Distance if self.family == "l1 distance" else nonsmooth.EuclideanDistance)(centers)
        if self.family == "max of affine":
            pieces = 4
            return nonsmooth.MaxAffine(size[:, None, None] * rng.standard_normal((n, pieces, d)), rng.standard_normal((n, pieces)))
        counts = rng.integers(3, 9, n)
        features = [s * rng.standard_normal((c, d)) for s, c in zip(size, counts, strict=True)]
        if self.family.startswith("hinge"):
            labels = [np.where(rng.random(c) < 0.5, -1.0, 1.0) for c in counts]
            return nonsmooth.Hinge(features, labels, ridge=0.1 if "ridge" in self.family else 0.0)
        planted = rng.standard_normal((n, d)) / math.sqrt(d)
        targets = [a @ x + 0.3 * rng.standard_normal(len(a)) for a, x in zip(features, planted, strict=True)]
        if self.family == "quantile":
            return nonsmooth.Quantile(features, targets, tau=0.8)
        return nonsmooth.LAD(features, targets)

    def algorithm(self, problem: Problem) -> FedMLS:
        """FedMLS with the parameters of Theorem 2, or with lambda scaled and K given."""
        star = problem.optimum_on_ball(RADIUS).x
        g = problem.lipschitz_rms(RADIUS)
        distance_sq = max(float(((self.start(problem) - star) ** 2).sum()), 1e-4)
        epsilon = self.accuracy * g * math.sqrt(distance_sq)
        sigma = self.noise * g
        product = g * g * distance_sq / epsilon**2
        if self.rounds == "printed":
            rounds = math.ceil(6 * math.sqrt(2 * product))
        else:
            slack = SLACK.get(str(self.rounds))
            rounds = int(self.rounds) if slack is None else k_min(_fraction(product), slack)
        return FedMLS(
            self.lam_scale * epsilon / g**2, distance_sq, rounds, RADIUS, g,
            sigma=sigma, noise_std=sigma, average=self.average, skip_last=False,
        )  # fmt: skip

    def start(self, problem: Problem) -> np.ndarray:
        """A seeded point of the ball."""
        x = Stream(self.seed).generator("fedmls start").standard_normal(problem.dim)
        return x * min(1.0, 0.9 * RADIUS / float(np.linalg.norm(x)))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "name": self.name}


def _fraction(value: float) -> Any:
    from fractions import Fraction

    return Fraction(value)


def view_of_run(
    problem: Problem,
    algorithm: FedMLS,
    x0: np.ndarray,
    scenarios: int = 1,
    seed: int = 0,
    points: int = 4,
    radius: float = RADIUS,
    optimum: Optimum | None = None,
) -> MLSView:
    """Run FedMLS and collect what its proof speaks of; ``optimum`` where it is known already.

    Raises
    ------
    InvalidInput
        When the run skips round K's local training, whose iterates the proof steps need.
    NotCertified
        When the optimum on the ball cannot be certified.
    """
    if algorithm.skip_last:
        raise InvalidInput("skip_last = True leaves out round K's iterates: make FedMLS with skip_last=False")
    optimum = problem.optimum_on_ball(radius) if optimum is None else optimum
    averages: list[np.ndarray] = []

    def observe(t: int, old: FedMLSState, new: FedMLSState, clients: Clients) -> None:
        averages.append(clients.results[-1].average)

    run = simulate(
        problem, algorithm, algorithm.rounds, x0, scenarios=scenarios, seed=seed, record=(), keep_states=True, on_round=observe
    )
    states: Sequence[FedMLSState] = run.states  # type: ignore[assignment]
    x, z = (np.moveaxis(np.stack([getattr(s, f) for s in states]), 1, -1) for f in ("x", "z"))
    local_x, local_z = (np.moveaxis(np.stack([getattr(s, f) for s in states]), 1, -1) for f in ("x_local", "z_local"))
    average = np.moveaxis(np.stack([averages[0] * 0, *averages]), 1, -1)
    gradient = np.zeros_like(local_x)
    for k in range(1, algorithm.rounds + 1):
        gamma = 2 / (k + 1)
        y_local = (1 - gamma) * local_x[k - 1] + gamma * local_z[k - 1]
        y = (1 - gamma) * x[k - 1] + gamma * z[k - 1]
        gradient[k] = (y_local - y) / float(algorithm.lam)

    def values(u: np.ndarray) -> np.ndarray:
        """f_i at a point of its own for each client: (..., N, d, S) -> (..., N, S)."""
        moved = np.moveaxis(u, (-3, -2, -1), (0, -1, -2))  # (N, ..., S, d)
        out = problem.client_value(np.ascontiguousarray(moved).reshape(problem.num_clients, -1, problem.dim))
        return np.moveaxis(out.reshape(moved.shape[:-1]), 0, -2)

    rng = Stream(seed).generator("points of the ball")
    others = rng.standard_normal((points, problem.dim))
    others *= radius * rng.random((points, 1)) / np.linalg.norm(others, axis=1, keepdims=True)
    noise = np.full(problem.num_clients, float(algorithm.noise_std))
    steps = np.array([algorithm.steps(k) for k in range(1, algorithm.rounds + 1)])
    start = check_start(problem, x0, 1)[0]
    constants = MLSConstants(
        algorithm.rounds, float(algorithm.lam), float(algorithm.D), problem.lipschitz(radius), noise,
        float(((start - optimum.x) ** 2).sum()), steps, (radius + float(np.linalg.norm(start))) ** 2,
    )  # fmt: skip
    objective = problem.objective(np.moveaxis(x, -1, 1))
    size = float(np.abs(objective).max() + abs(optimum.value))
    return MLSView(
        constants, x, z, local_x, local_z, average, gradient, values,
        excess=objective - optimum.lower_bound,
        noise=optimum.value - optimum.lower_bound + 1e-12 * (1 + size),
        points=np.concatenate([optimum.x[None], others]),
        exact=not algorithm.noise_std and getattr(run, "batch_size", None) is None,
    )  # fmt: skip


def applies(form: Form, instance: MLSInstance) -> str | None:
    """Why a form does not apply to an instance, or None."""
    rule = "stochastic" if instance.noise else "deterministic"
    if rule not in form.established:
        return f"not claimed for {rule} subgradients"
    if WITNESS in form.requires:
        return "judged by its witness in exact arithmetic"
    if (LINE_14 in form.requires) != (instance.average == "printed"):
        return "line 14 is read the other way"
    for need in form.requires:
        if need in ("printed", *SLACK) and (instance.rounds != need or instance.lam_scale != 1):
            return f"K is not Theorem 2's ({need})"
    return None


def check_instance(
    instance: MLSInstance, statements: Sequence[Statement] | None = None, confidence: float = CONFIDENCE
) -> list[Check]:
    """All statements about FedMLS on one instance."""
    statements = [s for s in (all_statements("fedmls/") if statements is None else statements) if s.scope == "fedmls"]
    rule = "stochastic" if instance.noise else "deterministic"
    forms = [(s, f) for s in statements for f in s.forms if rule in f.established]
    problem = instance.problem()

    def fields(s: Statement, f: Form) -> dict[str, Any]:
        return {"statement": s.id, "form": f.name, "rule": rule, "instance": instance.name}

    try:
        view = view_of_run(
            problem, instance.algorithm(problem), instance.start(problem), instance.scenarios if instance.noise else 1, instance.seed
        )
    except NotCertified as error:
        return [Check(verdict="inconclusive", mode="exact", reason=str(error), **fields(s, f)) for s, f in forms]
    out = []
    for s, f in forms:
        reason = applies(f, instance)
        if reason is not None:
            out.append(Check(verdict="not applicable", mode="exact", reason=reason, **fields(s, f)))
            continue
        out.append(judge_mls(s, f, view, rule, instance.name, confidence))
    return out


def assumption_failure(problem: Problem, algorithm: Any, form: Form, x0: np.ndarray) -> str | None:
    """The first assumption of the repaired theorems that a user's run fails, or None."""
    if not isinstance(algorithm, FedMLS):
        return f"the statement is about FedMLS, not {type(algorithm).__name__}"
    rule = "stochastic" if algorithm.noise_std else "deterministic"
    if rule not in form.established:
        return f"not claimed for {rule} subgradients"
    if WITNESS in form.requires:
        return "judged on its witness only, in exact arithmetic"
    if (LINE_14 in form.requires) != (algorithm.average == "printed"):
        taken = "last" if algorithm.average == "printed" else "averaged"
        return f"line 14 takes the {taken} iterate; this form is about the other reading"
    if not algorithm.server_projection:
        return "the server does not project: x_K may leave the ball on which the losses are Lipschitz"
    if algorithm.norm != "mean":
        return "norm = 'product': the statements are written in the mean product; use norm='mean'"
    if algorithm.noise_std > algorithm.sigma * (1 + 1e-12):
        return f"the noise {float(algorithm.noise_std):.6g} is above the algorithm's sigma = {float(algorithm.sigma):.6g}"
    try:
        g = problem.lipschitz_rms(float(algorithm.radius))
    except MissingCapability as error:
        return str(error)
    if float(algorithm.lipschitz) < g * (1 - 1e-12):
        return f"G = {float(algorithm.lipschitz):.6g} is below the root mean square of the G_i on the closed ball, {g:.6g}"
    if not problem.convex:
        return "some client's loss is not convex"
    if float(np.linalg.norm(x0)) > float(algorithm.radius) * (1 + 1e-12):
        return f"||x_0|| = {float(np.linalg.norm(x0)):.6g} is outside the ball of radius {float(algorithm.radius):.6g}"
    if {"printed", *SLACK} & set(form.requires):
        return _not_theorem_2(form, problem, algorithm, x0)
    return None


def _not_theorem_2(form: Form, problem: Problem, algorithm: FedMLS, x0: np.ndarray) -> str | None:
    """Whether lambda, D~ and K are Theorem 2's for some epsilon."""
    g_sq, lam, d = problem.lipschitz_rms(float(algorithm.radius)) ** 2, float(algorithm.lam), float(algorithm.D)
    epsilon = lam * g_sq
    product = g_sq * d / epsilon**2
    slack = next((SLACK[name] for name in form.requires if name in SLACK), None)
    if slack is None:
        need = math.ceil(6 * math.sqrt(2 * product) - 1e-9)
    else:
        need = k_min(_fraction(product * (1 - 1e-12)), slack)
    if algorithm.rounds < need:
        return f"K = {algorithm.rounds} is below Theorem 2's {need} for epsilon = lambda G^2 = {epsilon:.6g}"
    star = problem.optimum_on_ball(float(algorithm.radius)).x
    distance_sq = float(((x0 - star) ** 2).sum())
    if d < distance_sq * (1 - 1e-9):
        return f"D~ = {d:.6g} is below ||x_0 - x*||^2 = {distance_sq:.6g}"
    return None


def verify(
    statement: Statement,
    problem: Problem,
    algorithm: Any,
    forms: Sequence[Form],
    x0: np.ndarray,
    scenarios: int = 64,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> list[Check]:
    """The forms of a FedMLS statement on a user's problem."""
    rule = "stochastic" if getattr(algorithm, "noise_std", 0) else "deterministic"
    out, view = [], None
    for form in forms:
        fields = {"statement": statement.id, "form": form.name, "rule": rule, "instance": problem.name}
        try:
            reason = assumption_failure(problem, algorithm, form, x0)
            if reason is not None:
                out.append(Check(verdict="not applicable", mode="exact", reason=reason, **fields))
                continue
            if view is None:
                whole = replace(algorithm, skip_last=False)
                count = scenarios if rule == "stochastic" else 1
                view = view_of_run(problem, whole, x0, count, seed, radius=float(algorithm.radius))
        except NotCertified as error:
            out.append(Check(verdict="inconclusive", mode="exact", reason=str(error), **fields))
            continue
        out.append(judge_mls(statement, form, view, rule, problem.name, confidence))
    return out


def judge_mls(
    statement: Statement, form: Form, view: MLSView, rule: str, instance: str = "", confidence: float = CONFIDENCE, sides: Any = None
) -> Check:
    """One form, or a mutant of it, on a view: exact for deterministic runs, statistical otherwise."""
    result = (sides or form.sides)(view)
    fields = {"statement": statement.id, "form": form.name, "rule": rule, "instance": instance}
    if view.exact:
        return core.judge(result, mode="exact", **fields)
    return judge_statistical(result, confidence, mode="statistical", **fields)


def mls_battery(seed: int = 0, scale: float = 1.0) -> list[MLSInstance]:
    """Every family, N from 1 to 20, exact and noisy subgradients, Theorem 2's parameters (printed K, K_min, also that of the sharpened
    Theorem 1) and free ones."""
    out = []
    for family in FAMILIES:
        rng = Stream(seed).generator(f"fedmls battery {family}")
        for n in range(max(7, round(9 * scale))):
            clients = (2, 1, 3, 20, 5, 10)[n % 6]
            noise = 0.0 if n % 6 else float(rng.choice([0.5, 2.0]))
            rounds: str | int = ("fewest", "printed", int(rng.integers(1, 12)))[(n + n // 6) % 3]
            lam = 1.0 if isinstance(rounds, str) else float(10 ** rng.uniform(-1, 1))
            accuracy = float(rng.choice([0.5, 0.8])) if noise == 0 else 1.0
            average = "printed" if n == 3 or (n == 6 and family in ("LAD", "l1 distance")) else "averaged"
            dim = int(rng.integers(1, 6))
            out.append(MLSInstance(family, clients, dim, noise, accuracy, rounds, lam, 100, seed * 1000 + n, average))
        for n, noise in enumerate((0.0, 0.5)):
            out.append(MLSInstance(family, 3, 2, noise, 1.0 if noise else 0.5, "sharpened", 1.0, 100, seed * 1000 + 500 + n))
    for family, clients, dim in zip(ANALYTIC, (2, 3, 4), (2, 8, 6), strict=True):
        for n, rounds in enumerate(("fewest", "printed", 7)):
            noise = 1.0 if rounds == 7 else 0.0
            out.append(MLSInstance(family, clients, dim, noise, 0.5, rounds, 1.0, 100, seed * 1000 + n))
    return out
