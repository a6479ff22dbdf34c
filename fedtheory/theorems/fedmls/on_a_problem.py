"""A user's problem and a user's FedMLS: which assumptions fail, and the runs that the forms are judged on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.inputs import real_array
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.optimum.certify import Optimum
from fedtheory.participation.cohorts import Full
from fedtheory.theorems.fedmls.notation import LINE_14, LINE_22, ROUNDS, SLACK, is_reading
from fedtheory.theorems.fedmls.paper import FEWEST, MOST
from fedtheory.theorems.fedmls.quantities import Bounds, MLSView, k_min, view_of_run
from fedtheory.theorems.fedmls.readings import Reading, reading_of
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.statement import Form, Statement

__all__ = ["UsersRuns", "given_numbers"]


def given_numbers(given: Mapping[str, Any], n: int) -> dict[str, np.ndarray]:
    """G_i and sigma_i of n clients, (n,) each, of those that are given.

    Raises
    ------
    InvalidInput
        No finite numbers >= 0, or not as many as clients; an optimum that is none.
    """
    if (optimum := given.get("optimum")) is not None and not isinstance(optimum, Optimum):
        raise InvalidInput(f"optimum = {optimum!r}: give an Optimum, such as problem.optimum_on_ball(radius) returns")
    out = {}
    for name in ("G_i", "sigma_i"):
        if (value := given.get(name)) is None:
            continue
        found = real_array(name, value)
        if found.shape not in ((), (1,), (n,)) or not (np.isfinite(found).all() and (found >= 0).all()):
            raise InvalidInput(f"{name} = {value!r}: give one finite number >= 0, or one for each of the {n} clients")
        out[name] = np.broadcast_to(found, (n,)).astype(float)
    return out


class UsersRuns:
    """What is known of a user's problem, and its runs, each made once.

    Raises
    ------
    InvalidInput
        Given constants that are no finite numbers >= 0, or not as many as clients.
    """

    def __init__(self, case: Case) -> None:
        self.case, self.problem, self.algorithm, self.x0 = case, case.problem, case.algorithm, np.asarray(case.x0, dtype=float)
        self.solver = case.local_solver if isinstance(case.local_solver, SubgradientSliding) else None
        self.given = given_numbers(case.given, self.problem.num_clients)
        self._views: dict[Any, MLSView] = {}

    # --- what is known --------------------------------------------------------------------------------------------------
    @property
    def rule(self) -> str:
        """'stochastic' where local training sees noise."""
        return "stochastic" if self._noise_std or self._batch is not None else "deterministic"

    @property
    def _noise_std(self) -> float:
        own = float(getattr(self.algorithm, "noise_std", 0.0))
        return own or (0.0 if self.solver is None else float(self.solver.noise_std))

    @property
    def _batch(self) -> int | None:
        return None if self.solver is None else self.solver.batch_size

    @cached_property
    def radius(self) -> float:
        return float(self.algorithm.radius)

    @cached_property
    def G_i(self) -> np.ndarray:
        """(N,) as given, or the problem's own; the latter raises `MissingCapability` where there are none."""
        return self.given["G_i"] if "G_i" in self.given else np.asarray(self.problem.lipschitz(self.radius), dtype=float)

    @cached_property
    def sigma_i(self) -> np.ndarray:
        """(N,) as given, or what is added to the subgradients."""
        if "sigma_i" in self.given:
            return self.given["sigma_i"]
        if self._batch is None:
            return np.full(self.problem.num_clients, self._noise_std)
        return np.sqrt(self._noise_std**2 + np.asarray(self.problem.batch_noise_sq(self.radius, self._batch)))

    @cached_property
    def optimum(self) -> Optimum:
        """Over the ball: as given, or the problem's own, or its minimiser where that lies in the ball."""
        found = self.case.given.get("optimum")
        if found is not None:
            return self._checked(found)
        try:
            return self.problem.optimum_on_ball(self.radius)
        except MissingCapability:
            found = self.problem.optimum()
            size = float(np.linalg.norm(found.x))
            if size > self.radius:
                raise NotCertified(
                    f"{self.problem.name}: its minimiser, ||x*|| = {size:.6g}, is outside the ball of radius {self.radius:.6g}, and no "
                    "optimum on the ball can be certified: enlarge the radius"
                ) from None
            return found

    def _checked(self, given: Optimum) -> Optimum:
        """A given optimum whose point lies in the ball and has a value between its bounds.

        Raises
        ------
        InvalidInput
            Another one: nothing is then known of ||x_0 - x*|| or of F*.
        """
        x = real_array("optimum.x", given.x)
        if x.shape != (self.problem.dim,):
            raise InvalidInput(f"optimum.x has the shape {x.shape}: {(self.problem.dim,)} is needed")
        size, at = float(np.linalg.norm(x)), float(self.problem.objective(x))
        if size > self.radius * (1 + 1e-9):
            raise InvalidInput(f"optimum: ||x*|| = {size:.6g} is outside the ball of radius {self.radius:.6g}")
        off = 1e-9 * max(1.0, abs(at))
        if not given.lower_bound - off <= at <= given.value + off:
            raise InvalidInput(
                f"optimum: F(x*) = {at:.6g} is not between its lower bound {given.lower_bound:.6g} and its value {given.value:.6g}"
            )
        return given

    @property
    def G(self) -> float:
        """Root mean square of the G_i."""
        return math.sqrt(float(np.mean(self.G_i**2)))

    @property
    def _shorter(self) -> float:
        """How many times shorter G and sigma are, and longer ||x_0 - x*|| is, in the norm of the algorithm than in the mean's."""
        return math.sqrt(self.problem.num_clients) if self.algorithm.norm == "product" else 1.0

    @property
    def distance_sq(self) -> float:
        """||x_0 - x*||^2 in R^d."""
        return float(((self.x0 - self.optimum.x) ** 2).sum())

    # --- the run of a form ----------------------------------------------------------------------------------------------
    def view(self, statement: Statement, form: Form) -> MLSView | str:
        """The run that a form is judged on, or the first assumption that fails.

        Raises
        ------
        NotCertified
            No optimum on the ball can be certified.
        """
        reason = self.not_about(form)
        if reason is not None:
            return reason
        reading = reading_of(form.name) if is_reading(form) else None
        if isinstance(reading, str):
            return reading
        try:
            reason = self.assumption_failure(form, reading)
            if reason is not None:
                return reason
            if reading is None:
                return self._run(replace(self.algorithm, skip_last=False), self.G_i)
            return self._run_as_read(statement, reading)
        except MissingCapability as error:
            return str(error)

    def not_about(self, form: Form) -> str | None:
        """Why the form is not about such a method at all."""
        if not isinstance(self.algorithm, FedMLS):
            return f"the statement is about FedMLS, not {type(self.algorithm).__name__}"
        if self.algorithm.solved and form.kind == "run":
            return "local_training = 'exact-prox': the local problems are solved, which fedmls/exact-prox is about"
        if self.rule not in form.established:
            return f"not claimed for {self.rule} subgradients"
        if self.case.mode == "exact" and self.rule == "stochastic":
            return "mode = 'exact': what noise does is not enumerated, use mode='auto'"
        sampling = self.case.sampling
        if sampling is not None and not isinstance(sampling, Full) and getattr(sampling, "size", 0) != self.problem.num_clients:
            return f"FedMLS needs every client in every round, not {sampling!r}: leave out the sampling"
        if self.case.rounds is not None and self.case.rounds != self.algorithm.rounds:
            return f"rounds = {self.case.rounds}, but this FedMLS is made for K = {self.algorithm.rounds}, on which T_k depends"
        return None

    def assumption_failure(self, form: Form, reading: Reading | None = None) -> str | None:
        """The first assumption of the repaired theorems that the run fails, or None; a reading is about runs of its own."""
        a = self.algorithm
        if reading is None and not a.solved and (LINE_14 in form.needs) != (a.average == "printed"):
            taken = "last" if a.average == "printed" else "averaged"
            return f"line 14 takes the {taken} iterate; this form is about the other reading"
        if reading is None and not a.server_projection:
            return "the server does not project: x_K may leave the ball on which the losses are Lipschitz"
        if reading is not None and a.norm != "mean":
            return "norm = 'product': the readings are made from a method in the mean product; use norm='mean'"
        if reading is None and (LINE_22 in form.needs) != (a.norm == "product"):
            step, other = ("grad f_i/N", "mean") if a.norm == "product" else ("grad f_i", "product")
            return f"norm = {a.norm!r}: line 22 steps along {step}; this form is about the other step, use norm={other!r}"
        try:
            noise = math.sqrt(float(np.mean(self.sigma_i**2)))
        except MissingCapability as error:
            return f"{error}; or give sigma_i"
        if noise / self._shorter > float(a.sigma) * (1 + 1e-12):
            return f"the noise {noise / self._shorter:.6g} is above the algorithm's sigma = {float(a.sigma):.6g}"
        if noise < self._noise_std * (1 - 1e-12):
            return f"sigma_i have root mean square {noise:.6g}, below the noise that is added, {self._noise_std:.6g}"
        return self._bad_bounds(reading) or self._bad_start() or (None if reading else self._not_theorem_2(form))

    def _bad_bounds(self, reading: Reading | None) -> str | None:
        try:
            known = np.asarray(self.problem.lipschitz(self.radius), dtype=float)
        except MissingCapability as error:
            if "G_i" not in self.given:
                return f"{error}; or give G_i"
        else:
            reason = self._too_short(known, self.problem.lipschitz_exact(self.radius)) if "G_i" in self.given else None
            if reason is not None:
                return reason
        if reading is None and float(self.algorithm.lipschitz) < self.G / self._shorter * (1 - 1e-12):
            taken, share = float(self.algorithm.lipschitz), "" if self._shorter == 1 else " over sqrt(N)"
            return f"G = {taken:.6g} is below the root mean square of the G_i on the closed ball{share}, {self.G / self._shorter:.6g}"
        return None if self.problem.convex else "some client's loss is not convex"

    def _too_short(self, longest: np.ndarray, attained: Any = True) -> str | None:
        """Whether a client's G_i is below the length of a subgradient of its own."""
        short = np.flatnonzero((self.G_i < longest * (1 - 1e-12)) & attained)
        if not len(short):
            return None
        i = int(short[0])
        return f"G_i = {self.G_i[i]:.6g} of client {i} is below a subgradient of its own on the closed ball, {longest[i]:.6g}"

    def _bad_start(self) -> str | None:
        size = float(np.linalg.norm(self.x0))
        outside = size > self.radius * (1 + 1e-12)
        return f"||x_0|| = {size:.6g} is outside the ball of radius {self.radius:.6g}" if outside else None

    def _not_theorem_2(self, form: Form) -> str | None:
        """Whether lambda, D~ and K are Theorem 2's for some epsilon, where the form is about them."""
        asked = next((name for name, words in ROUNDS.items() if words in form.needs), None)
        if asked is None:
            return None
        lam, d = float(self.algorithm.lam), float(self.algorithm.D)
        g_sq, distance_sq = (self.G / self._shorter) ** 2, self.distance_sq * self._shorter**2
        epsilon = lam * g_sq
        product = g_sq * d / epsilon**2
        slack = SLACK.get(asked)
        if slack is None:
            need = math.ceil(6 * math.sqrt(2 * product) - 1e-9)
        else:
            need = k_min(Fraction(product * (1 - 1e-12)), slack)
        if self.algorithm.rounds < need:
            return f"K = {self.algorithm.rounds} is below Theorem 2's {need} for epsilon = lambda G^2 = {epsilon:.6g}"
        if d < distance_sq * (1 - 1e-9):
            return f"D~ = {d:.6g} is below ||x_0 - x*||^2 = {distance_sq:.6g}"
        return None

    # --- runs -----------------------------------------------------------------------------------------------------------
    def _run(self, algorithm: FedMLS, G_i: np.ndarray) -> MLSView | str:
        """The view of a run, made once; or why the given G_i are wrong, where a subgradient on its way is longer."""
        if algorithm not in self._views:
            case = self.case
            count = max(FEWEST, min(case.scenarios, MOST)) if self.rule == "stochastic" else 1
            bounds = Bounds(self.optimum, G_i, self.sigma_i)
            self._views[algorithm] = view_of_run(
                self.problem, algorithm, self.x0, count, case.seed, bounds=bounds, solver=self.solver
            )
        view = self._views[algorithm]
        reason = self._too_short(self._met(view)) if "G_i" in self.given and algorithm.server_projection else None
        same = view.constants.G_i is G_i
        return reason or (view if same else replace(view, constants=replace(view.constants, G_i=G_i)))

    def _met(self, view: MLSView) -> np.ndarray:
        """(N,) the longest subgradient of every client at its own iterates."""
        points = np.moveaxis(np.stack([view.x_client, view.z_client]), (-3, -2), (0, -1))  # (N, ..., S, d)
        rows = np.ascontiguousarray(points).reshape(self.problem.num_clients, -1, self.problem.dim)
        return np.linalg.norm(np.asarray(self.problem.client_gradient(rows)), axis=-1).max(axis=1)

    def _run_as_read(self, statement: Statement, reading: Reading) -> MLSView | str:
        G_i = reading.bounds(self.problem, self.radius, self.G_i, "G_i" in self.given)
        if statement.id.endswith("theorem-2"):
            try:
                algorithm = reading.plan(self.algorithm, G_i, float(self.algorithm.lam) * self.G**2, self.distance_sq)
            except InvalidInput as error:
                return str(error)
        else:
            algorithm = reading.algorithm(self.algorithm, G_i)
        view = self._run(algorithm, G_i)
        if isinstance(view, str):
            return view
        return replace(view, shown={"G": float(algorithm.lipschitz), "lambda": float(algorithm.lam), "K": int(algorithm.rounds)})
