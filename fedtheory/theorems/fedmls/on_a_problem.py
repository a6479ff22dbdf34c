"""A user's problem and FedMLS: the assumptions that fail, and the runs that forms are judged on."""

import math
from collections.abc import Iterator, Mapping
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
from fedtheory.theorems.fedmls.constants import k_min
from fedtheory.theorems.fedmls.notation import LINE_14, LINE_22, ROUNDS, SLACK, is_reading
from fedtheory.theorems.fedmls.paper import FEWEST, MOST
from fedtheory.theorems.fedmls.quantities import Bounds, MLSView, view_of_run
from fedtheory.theorems.fedmls.readings import Reading, reading_of
from fedtheory.theory import Case, Form, derived


def given_numbers(given: Mapping[str, Any], n: int) -> dict[str, np.ndarray]:
    """G_i and sigma_i of n clients, (n,) each, of those that are given.

    Raises
    ------
    InvalidInput
        No finite numbers >= 0, or not as many as clients; an optimum that is none.
    """
    optimum = given.get("optimum")
    if not (optimum is None or isinstance(optimum, Optimum)):
        raise InvalidInput(
            f"optimum = {optimum!r}: give an Optimum, such as problem.optimum_on_ball(radius) "
            "returns"
        )
    out = {}
    for name in ("G_i", "sigma_i"):
        if (value := given.get(name)) is None:
            continue
        found = real_array(name, value)
        fits = found.shape in ((), (1,), (n,))
        if not (fits and np.isfinite(found).all() and (found >= 0).all()):
            raise InvalidInput(
                f"{name} = {value!r}: give one finite number >= 0, or one for each of the {n} "
                "clients"
            )
        out[name] = np.broadcast_to(found, (n,)).astype(float)
    return out


class UsersRuns:
    """A user's problem: its constants, and its runs, each made once.

    Parameters
    ----------
    statement : the id of the statement; Theorem 2's readings have a plan of their own

    Raises
    ------
    InvalidInput
        Given constants that are no finite numbers >= 0, or not as many as clients.
    """

    def __init__(self, case: Case, statement: str = "") -> None:
        self.case, self.problem, self.algorithm = case, case.problem, case.algorithm
        self.x0 = np.asarray(case.x0, dtype=float)
        given, self.two = case.local_solver, statement.endswith("theorem-2")
        self.solver = given if isinstance(given, SubgradientSliding) else None
        self.given = given_numbers(case.given, self.problem.num_clients)
        self._views: dict[Any, MLSView] = {}

    # --- what is known ----------------------------------------------------------------------------
    case_rule = derived(
        lambda q: "stochastic" if q._noise_std or q._batch is not None else "deterministic",
        "'stochastic' where local training sees noise",
    )

    @property
    def _noise_std(self) -> float:
        own = float(getattr(self.algorithm, "noise_std", 0.0))
        return own or (0.0 if self.solver is None else float(self.solver.noise_std))

    _batch = derived(lambda q: None if q.solver is None else q.solver.batch_size)
    radius = derived(lambda q: float(q.algorithm.radius), "R")

    @cached_property
    def G_i(self) -> np.ndarray:
        """(N,) as given, or the problem's own; raises `MissingCapability` where there are none."""
        if "G_i" in self.given:
            return self.given["G_i"]
        return np.asarray(self.problem.lipschitz(self.radius), dtype=float)

    @cached_property
    def sigma_i(self) -> np.ndarray:
        """(N,) as given, or what is added to the subgradients."""
        if "sigma_i" in self.given:
            return self.given["sigma_i"]
        if self._batch is None:
            return np.full(self.problem.num_clients, self._noise_std)
        drawn_sq = np.asarray(self.problem.batch_noise_sq(self.radius, self._batch))
        return np.sqrt(self._noise_std**2 + drawn_sq)

    @cached_property
    def optimum(self) -> Optimum:
        """Over the ball: as given, or the problem's own, or its minimiser if that is inside."""
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
                    f"{self.problem.name}: its minimiser, ||x*|| = {size:.6g}, is outside the ball "
                    f"of radius {self.radius:.6g}, and no optimum on the ball can be certified: "
                    "enlarge the radius"
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
            needed = (self.problem.dim,)
            raise InvalidInput(f"optimum.x has the shape {x.shape}: {needed} is needed")
        size, at = float(np.linalg.norm(x)), float(self.problem.objective(x))
        if size > self.radius * (1 + 1e-9):
            raise InvalidInput(
                f"optimum: ||x*|| = {size:.6g} is outside the ball of radius {self.radius:.6g}"
            )
        off = 1e-9 * max(1.0, abs(at))
        if not given.lower_bound - off <= at <= given.value + off:
            raise InvalidInput(
                f"optimum: F(x*) = {at:.6g} is not between its lower bound "
                f"{given.lower_bound:.6g} and its value {given.value:.6g}"
            )
        return given

    G = derived(lambda q: math.sqrt(float(np.mean(q.G_i**2))), "Root mean square of the G_i")

    bounds = derived(lambda q: Bounds(q.optimum, q.G_i, q.sigma_i), "The problem on the ball")
    _shorter = derived(  # so is sigma, and ||x_0 - x*|| is longer
        lambda q: math.sqrt(q.problem.num_clients) if q.algorithm.norm == "product" else 1.0,
        "The factor by which G is shorter in the norm of the algorithm than in the mean's",
    )
    distance_sq = derived(
        lambda q: float(((q.x0 - q.optimum.x) ** 2).sum()), "||x_0 - x*||^2 in R^d"
    )

    # --- the run of a form ------------------------------------------------------------------------
    def for_form(self, form: Form) -> MLSView | str:
        """The run that a form is judged on, or the first assumption that fails.

        Raises
        ------
        InvalidInput
            A run that FedMLS refuses, as one that would take days.
        NotCertified
            No optimum on the ball can be certified.
        """
        try:
            reading = reading_of(form.name) if is_reading(form) else None
            if reason := next(self.objections(form, reading), None):
                return reason
            if reading is not None:
                return self._as_read(form, reading)
            view = self._run(replace(self.algorithm, skip_last=False), self.G_i)
        except MissingCapability as error:
            return str(error)
        known = frozenset(form.needs)  # as the run has no objection to the form
        if isinstance(view, str) or known <= view.facts:
            return view
        return replace(view, facts=view.facts | known)

    def _as_read(self, form: Form, reading: Reading) -> MLSView | str:
        G_i = reading.bounds(self.problem, self.radius, self.G_i, "G_i" in self.given)
        algorithm = reading.algorithm(self.algorithm, G_i)
        if self.two:
            epsilon = float(self.algorithm.lam) * self.G**2
            try:
                algorithm = reading.plan(self.algorithm, G_i, epsilon, self.distance_sq)
            except InvalidInput as error:
                return str(error)
        numbers = {"G": float(algorithm.lipschitz), "lambda": float(algorithm.lam)}
        shown, view = {**numbers, "K": int(algorithm.rounds)}, self._run(algorithm, G_i)
        return view if isinstance(view, str) else replace(view, shown=shown, reading=form.name)

    def objections(self, form: Form, reading: Reading | None = None) -> Iterator[str]:
        """Why the form is not about a run of the user's method, or a reading's, one by one."""
        yield from self.not_about(form)
        if reading is not None and reading.one_dimension:
            yield reading.one_dimension
        yield from self.outside(form, reading)

    def not_about(self, form: Form) -> Iterator[str]:
        """Why the form is not about such a method at all."""
        a, case, n = self.algorithm, self.case, self.problem.num_clients
        if not isinstance(a, FedMLS):
            yield f"the statement is about FedMLS, not {type(a).__name__}"
        if a.solved and form.kind == MLSView.kind:
            yield (
                "local_training = 'exact-prox': the local problems are solved, which "
                "fedmls/exact-prox is about"
            )
        if self.case_rule not in form.established:
            yield f"not claimed for {self.case_rule} subgradients"
        if case.mode == "exact" and self.case_rule == "stochastic":
            yield "mode = 'exact': what noise does is not enumerated, use mode='auto'"
        law = case.sampling
        if not (law is None or isinstance(law, Full) or getattr(law, "size", 0) == n):
            yield f"FedMLS needs every client in every round, not {law!r}: leave out the sampling"
        if case.rounds is not None and case.rounds != a.rounds:
            yield (
                f"rounds = {case.rounds}, but this FedMLS is made for K = {a.rounds}, on which T_k "
                "depends"
            )

    def outside(self, form: Form, reading: Reading | None = None) -> Iterator[str]:
        """The assumptions of the repaired theorems that fail; a reading makes runs of its own."""
        a = self.algorithm
        if reading is None:
            yield from self._other_lines(form)
        elif a.norm != "mean":
            yield (
                "norm = 'product': the readings are made from a method in the mean product; use "
                "norm='mean'"
            )
        try:
            noise = math.sqrt(float(np.mean(self.sigma_i**2)))
        except MissingCapability as error:
            yield f"{error}; or give sigma_i"
            return
        if noise / self._shorter > float(a.sigma) * (1 + 1e-12):
            yield (
                f"the noise {noise / self._shorter:.6g} is above the algorithm's sigma = "
                f"{float(a.sigma):.6g}"
            )
        if noise < self._noise_std * (1 - 1e-12):
            yield (
                f"sigma_i have root mean square {noise:.6g}, below the noise that is added, "
                f"{self._noise_std:.6g}"
            )
        yield from self._bad_bounds(reading)
        size = float(np.linalg.norm(self.x0))
        if size > self.radius * (1 + 1e-12):
            yield f"||x_0|| = {size:.6g} is outside the ball of radius {self.radius:.6g}"
        if reading is None:
            yield from self._not_theorem_2(form)

    def _other_lines(self, form: Form) -> Iterator[str]:
        a = self.algorithm
        if not a.solved and (LINE_14 in form.needs) != (a.average == "printed"):
            taken = "last" if a.average == "printed" else "averaged"
            yield f"line 14 takes the {taken} iterate; this form is about the other reading"
        if not a.server_projection:
            yield (
                "the server does not project: x_K may leave the ball on which the losses are "
                "Lipschitz"
            )
        if (LINE_22 in form.needs) != (a.norm == "product"):
            step, other = ("grad f_i/N", "mean") if a.norm == "product" else ("grad f_i", "product")
            yield (
                f"norm = {a.norm!r}: line 22 steps along {step}; this form is about the other "
                f"step, use norm={other!r}"
            )

    def _bad_bounds(self, reading: Reading | None) -> Iterator[str]:
        given = "G_i" in self.given
        try:
            known = np.asarray(self.problem.lipschitz(self.radius), dtype=float)
            if given:
                yield from self._too_short(known, self.problem.lipschitz_exact(self.radius))
        except MissingCapability as error:
            if not given:
                yield f"{error}; or give G_i"
                return
        taken, needed = float(self.algorithm.lipschitz), self.G / self._shorter
        if reading is None and taken < needed * (1 - 1e-12):
            share = "" if self._shorter == 1 else " over sqrt(N)"
            yield (
                f"G = {taken:.6g} is below the root mean square of the G_i on the closed "
                f"ball{share}, {needed:.6g}"
            )
        if not self.problem.convex:
            yield "some client's loss is not convex"

    def _too_short(self, longest: np.ndarray, attained: Any = True) -> Iterator[str]:
        """The clients whose G_i is below the length of a subgradient of their own."""
        for i in np.flatnonzero((self.G_i < longest * (1 - 1e-12)) & attained):
            yield (
                f"G_i = {self.G_i[i]:.6g} of client {i} is below a subgradient of its own on the "
                f"closed ball, {longest[i]:.6g}"
            )

    def _not_theorem_2(self, form: Form) -> Iterator[str]:
        """Why lambda, D~ and K are not Theorem 2's for any epsilon, of a form about them."""
        asked = next((name for name, words in ROUNDS.items() if words in form.needs), None)
        if asked is None:
            return
        lam, d, K = float(self.algorithm.lam), float(self.algorithm.D), self.algorithm.rounds
        g_sq, distance_sq = (self.G / self._shorter) ** 2, self.distance_sq * self._shorter**2
        epsilon = lam * g_sq
        product = g_sq * d / epsilon**2
        if asked in SLACK:
            need = k_min(Fraction(product * (1 - 1e-12)), SLACK[asked])
        else:
            need = math.ceil(6 * math.sqrt(2 * product) - 1e-9)
        if need > K:
            yield f"K = {K} is below Theorem 2's {need} for epsilon = lambda G^2 = {epsilon:.6g}"
        if d < distance_sq * (1 - 1e-9):
            yield f"D~ = {d:.6g} is below ||x_0 - x*||^2 = {distance_sq:.6g}"

    # --- runs -------------------------------------------------------------------------------------
    def _run(self, algorithm: FedMLS, G_i: np.ndarray) -> MLSView | str:
        """The view of a run, made once; or which of given G_i a subgradient on its way exceeds."""
        if algorithm not in self._views:
            case = self.case
            count = max(FEWEST, min(case.scenarios, MOST)) if self.case_rule == "stochastic" else 1
            bounds = Bounds(self.optimum, G_i, self.sigma_i)
            self._views[algorithm] = view_of_run(
                self.problem, algorithm, self.x0, count, case.seed, bounds=bounds,
                solver=self.solver,
            )  # fmt: skip
        view = self._views[algorithm]
        if "G_i" in self.given and algorithm.server_projection:
            if reason := next(self._too_short(self._met(view)), None):
                return reason
        same = view.constants.G_i is G_i
        return view if same else replace(view, constants=replace(view.constants, G_i=G_i))

    def _met(self, view: MLSView) -> np.ndarray:
        """(N,) the longest subgradient of every client at its own iterates."""
        points = np.stack([view.x_client, view.z_client])
        points = np.moveaxis(points, (-3, -2), (0, -1))  # (N, ..., S, d)
        n, d = self.problem.num_clients, self.problem.dim
        gradient = self.problem.client_gradient(np.ascontiguousarray(points).reshape(n, -1, d))
        return np.linalg.norm(np.asarray(gradient), axis=-1).max(axis=1)
