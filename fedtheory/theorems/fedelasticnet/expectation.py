"""Expectations over cohorts: exact, by enumerating one round or a whole tree of rounds, and by Monte Carlo.

All three run the algorithm's own ``round``; what differs is which cohorts it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn, FedElasticNetDynState
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.limits import must_fit
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalSolver
from fedtheory.participation.cohorts import MANY, Cohort, Full, Sampling, Uniform
from fedtheory.problems.base import Problem
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.quadratic import Quadratic
from fedtheory.simulation.kept import Observer
from fedtheory.simulation.simulate import check_start, simulate
from fedtheory.steps import Loop, whole
from fedtheory.theorems.fedelasticnet.accumulator import SPLIT, Accumulator
from fedtheory.theorems.fedelasticnet.pairs import with_pairs
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants, RoundView, RunView, inner, norm_sq
from fedtheory.theorems.fedelasticnet.states import State, uncompressed

__all__ = [
    "FederatedLosses", "constants_of", "full_round", "look_horizons", "monte_carlo", "own_anchor", "random_states",
    "round_view", "tree", "tree_depth",
]  # fmt: skip


class FederatedLosses:
    """A `Problem` with its certified optimum, as the views need it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.optimum = problem.optimum()
        self.theta_star = self.optimum.x
        self.grad_star = problem.gradient(self.theta_star)
        self._gap = max(self.optimum.value - self.optimum.lower_bound, 0.0)
        self._quadratic = isinstance(problem, Quadratic | LeastSquares)
        if self._quadratic:
            self._hessian = problem.full_hessian(self.theta_star)
            self._gradient = problem.full_gradient(self.theta_star)

    def values(self, x: np.ndarray) -> np.ndarray:
        return self.problem.client_losses(x)

    def gradients(self, x: np.ndarray) -> np.ndarray:
        return self.problem.gradient(x)

    def gradients_each(self, y: np.ndarray) -> np.ndarray:
        return self.problem.gradient_each(y)

    def excess(self, x: np.ndarray) -> np.ndarray:
        if self._quadratic:  # no cancellation: Taylor's expansion at theta* is exact
            r = x - self.theta_star
            return inner(r @ self._hessian, r) / 2 + r @ self._gradient + self._gap
        return self.problem.objective(x) - self.optimum.lower_bound

    def noise(self, x: np.ndarray) -> np.ndarray:
        eps = np.finfo(float).eps
        if self._quadratic:
            return self._gap + 32 * eps * norm_sq(x - self.theta_star) * np.abs(self._hessian).max()
        return self._gap + 32 * eps * (np.abs(self.problem.objective(x)) + abs(self.optimum.value))


def constants_of(problem: Problem, algorithm: FedElasticNetDyn, sampling: Sampling) -> ElasticConstants:
    size = sampling.size if isinstance(sampling, Uniform) else problem.num_clients
    return ElasticConstants(problem.num_clients, size, float(problem.beta_k.max()), algorithm.l1, algorithm.l2)


def _expand(state: State, count: int) -> FedElasticNetDynState:
    return FedElasticNetDynState(*(np.repeat(a, count, axis=0) for a in uncompressed(state)))


def _tile(cohort: Cohort, states: int) -> Cohort:
    """The C cohorts of a law for each of the states, states slowest."""
    if cohort.members is not None:
        return Cohort(cohort.num_clients, members=np.tile(cohort.members, (states, 1)))
    return Cohort(cohort.num_clients, mask=np.tile(cohort.taking_part(), (states, 1)))


def full_round(
    problem: Problem, algorithm: FedElasticNetDyn, solver: LocalSolver, state: State
) -> np.ndarray:
    """theta_tilde of (19) for all m clients, from the algorithm's own code: (S, m, d)."""
    everyone = Full().enumerate(problem.num_clients)
    clients = Clients(problem, _tile(everyone, state.x.shape[0]), solver, state.x)
    algorithm.round(state, clients)
    return clients.results[-1].y


def own_anchor(
    problem: Problem, algorithm: FedElasticNetDyn, solver: LocalSolver, state: State
) -> np.ndarray:
    """theta_tilde anchored at theta_k^{t-1}, as Theorem 3.1 prints it: (S, m, d)."""
    everyone = Full().enumerate(problem.num_clients)
    clients = Clients(problem, _tile(everyone, state.x.shape[0]), solver, state.x)
    objective = LocalObjective(center=state.local, linear=state.stored, curvature=algorithm.l2, l1=algorithm.l1)
    return clients.minimise(objective, start=state.local).y


def round_view(
    problem: Problem,
    algorithm: FedElasticNetDyn,
    sampling: Sampling,
    state: State,
    solver: LocalSolver | None = None,
    losses: FederatedLosses | None = None,
) -> RoundView:
    """One round from S given states, over all cohorts of the law.

    Parameters
    ----------
    state : FedElasticNetDynState with leading axis S
    """
    solver, losses = solver or Exact(), losses or FederatedLosses(problem)
    law = sampling.enumerate(problem.num_clients)
    states, cohorts = state.x.shape[0], law.scenarios
    clients = Clients(problem, _tile(law, states), solver, state.x)
    new = whole("round of all cohorts", lambda: tuple(uncompressed(algorithm.round(_expand(state, cohorts), clients))))
    after = [a.reshape(states, cohorts, *a.shape[1:]) for a in new]
    return RoundView(
        losses=losses,
        constants=constants_of(problem, algorithm, sampling),
        rule=algorithm.rule,
        theta=state.x,
        h=state.h,
        stored=state.stored,
        local=state.local,
        tilde=whole("full round", lambda: full_round(problem, algorithm, solver, state)),
        tilde_own=whole("own anchor", lambda: own_anchor(problem, algorithm, solver, state)),
        members=law.dense().mask,
        probability=law.probability,
        theta_next=after[0],
        h_next=after[2],
        stored_next=after[1],
        local_next=after[3],
    )


def random_states(
    problem: Problem, count: int, rng: np.random.Generator, lambda2: float, spread: float = 1.0
) -> FedElasticNetDynState:
    """States with arbitrary stored gradients (h their mean): the lemmas are claimed for all of them.

    Every fourth state has gamma next to the optimum, where only the memories are wrong and the bounds are closest.
    """
    m, d = problem.num_clients, problem.dim
    star, beta = problem.optimum().x, float(problem.beta_k.max())
    grad_star = problem.gradient(star)
    size = spread * 10.0 ** rng.uniform(-2, 1, (count, 1))
    offset = size * rng.standard_normal((count, d))
    local = star + offset[:, None, :] + size[:, None] * rng.standard_normal((count, m, d)) * rng.integers(0, 2, (count, 1, 1))
    kind = rng.integers(0, 3, (count, 1, 1))
    noise = beta * size[:, None] * rng.standard_normal((count, m, d))
    stored = np.where(kind == 0, grad_star + noise, np.where(kind == 1, problem.gradient_each(local), noise))
    h = stored.mean(axis=1)
    near = (np.arange(count) % 4 == 3)[:, None]
    theta = star + np.where(near, 1e-3 * beta / lambda2 * offset - h / lambda2, offset)
    return FedElasticNetDynState(theta, stored, h, local)


def tree_depth(count: int, max_leaves: int = 50_000, longest: int = 30) -> int:
    """Largest horizon T whose tree of cohorts has at most max_leaves nodes on its last level."""
    depth = 1
    while depth < longest and count**depth <= max_leaves:  # T rounds need the cohorts of T - 1 rounds
        depth += 1
    return depth


def _start_constants(losses: FederatedLosses, state: State, algorithm: FedElasticNetDyn) -> dict[str, Any]:
    """Means over the starts (all equally likely)."""
    gamma = state.x + state.h / algorithm.l2
    stored = norm_sq(state.stored - losses.grad_star)
    return {
        "start_sq": float(norm_sq(gamma - losses.theta_star).mean()),
        "C0": float(stored.mean()),
        "C0_printed": float(np.sqrt(stored).mean()),
        "C0_true": float(norm_sq(losses.gradients(state.x) - losses.grad_star).mean()),
    }


def tree(
    problem: Problem,
    algorithm: FedElasticNetDyn,
    sampling: Sampling,
    rounds: int,
    x0: Any = None,
    solver: LocalSolver | None = None,
    losses: FederatedLosses | None = None,
    max_leaves: int = 50_000,
) -> RunView:
    """A run of `rounds` rounds with every sequence of cohorts: exact expectations for every horizon 1..rounds.

    Parameters
    ----------
    x0 : (d,), or (n, d) for a start drawn from n equally likely points

    Raises
    ------
    InvalidInput
        When the last level would have more than max_leaves nodes; says how many rounds fit.
    """
    solver, losses = solver or Exact(), losses or FederatedLosses(problem)
    law = sampling.enumerate(problem.num_clients)
    count = law.scenarios
    paths = min(count ** min(rounds - 1, 1000), MANY)
    if paths > max_leaves:
        raise InvalidInput(
            f"{rounds} rounds of {count} cohorts make {paths if paths < 10**15 else f'{paths:.3g}'} paths, more than {max_leaves}: "
            f"at most {tree_depth(count, max_leaves)} rounds fit, or use Monte Carlo"
        )
    starts = 1 if x0 is None or np.ndim(x0) == 1 else len(x0)
    least = 2.0 * starts * paths * problem.num_clients * problem.dim
    must_fit(f"a tree of {paths:.3g} paths", least, "take fewer rounds, or Monte Carlo")
    state: State = algorithm.init(check_start(problem, x0, starts), problem.num_clients)
    start = _start_constants(losses, state, algorithm)
    sums = Accumulator(losses, algorithm.l1, state.x)
    rows: dict[str, list[float]] = {name: [] for name in sums.row(1)}
    noise: list[float] = []
    if law.probability is None or not np.allclose(law.probability, 1.0 / count, rtol=1e-12):
        raise InvalidInput("the tree weighs all cohorts equally: use uniform or full sampling")
    loop = Loop("rounds of all cohorts", (state, sums.noted(), noise, *rows.values()))
    state, noted, noise, *columns = loop.state
    rows = dict(zip(rows, columns, strict=True))
    sums.recall(noted)
    for t in loop.upto(rounds):
        y = whole("full round", lambda: full_round(problem, algorithm, solver, state))  # noqa: B023 - called here
        own = whole("own anchor", lambda: own_anchor(problem, algorithm, solver, state))  # noqa: B023
        gamma = state.x + state.h / algorithm.l2
        sums.add(gamma, state.x, state.stored, y, losses.gradients_each(y), own)
        noise.append(float(losses.noise(sums.gamma_sum / t).mean()))
        for name, value in sums.row(t).items():
            rows[name].append(float(value))
        if t < rounds:
            nodes = state.x.shape[0]
            clients = Clients(problem, _tile(law, nodes), solver, state.x)
            state = type(state)._make(whole("next level", lambda: tuple(algorithm.round(_expand(state, count), clients))))  # noqa: B023
            sums.repeat(count)
        loop.state = state, sums.noted(), noise, *rows.values()
    found: dict[str, Any] = {k: np.asarray(v)[:, None] for k, v in rows.items()}
    return RunView(
        losses=losses,
        constants=constants_of(problem, algorithm, sampling),
        rule=algorithm.rule,
        d=problem.dim,
        horizons=np.arange(1, rounds + 1),
        exact=True,
        noise=np.asarray(noise)[:, None],
        **found,
        **start,
    )


def look_horizons(rounds: int, looks: int = 25) -> np.ndarray:
    """The horizons a long run is judged at: about `looks` of them, geometric, 1 and `rounds` among them."""
    return np.unique(np.round(np.geomspace(1, rounds, min(looks, rounds))).astype(int))


def monte_carlo(
    problem: Problem,
    algorithm: FedElasticNetDyn,
    sampling: Sampling,
    rounds: int,
    x0: Any = None,
    scenarios: int = 1000,
    seed: int = 0,
    horizons: np.ndarray | None = None,
    losses: FederatedLosses | None = None,
    on_round: Callable[[int], None] | None = None,
    first_scenario: int = 0,
    paired: bool = False,
) -> RunView:
    """Scenario-wise sides of the theorem at the given horizons, of the scenarios from `first_scenario` on.

    paired : also give ``pairs``, the view of every two scenarios together. A product of two expectations
        is there the product of one scenario's factor with the other's, so that its mean is that product.
        It takes a second local solve a round, for the minimiser anchored at theta_k^{t-1}.

    The mean over all m virtual clients is replaced by the mean over the cohort: the cohort is drawn independently of the state,
    so its conditional expectation is the same, and nothing is solved for clients that stay away.
    """
    losses = losses or FederatedLosses(problem)
    horizons = look_horizons(rounds) if horizons is None else np.asarray(horizons)
    wanted = {int(t): i for i, t in enumerate(horizons)}
    start_state = algorithm.init(check_start(problem, x0, 1), problem.num_clients)
    begun = algorithm.init(check_start(problem, x0, scenarios), problem.num_clients)
    sums = Accumulator(losses, algorithm.l1, begun.x, paired=paired)
    names = ("exact", "sign", "own_sign") if paired else ("exact", "sign")
    out = {k: np.zeros((len(horizons), scenarios)) for k in ("excess", *names, "zeros")}
    products = {k: np.zeros((len(horizons), scenarios // 2)) for k in SPLIT}

    def observe(t: int, old: Any, new: Any, clients: Clients) -> None:
        y = clients.results[-1].y
        grad = clients.take(new.stored) if algorithm.rule == "true-gradient" else clients.gradient(y)
        stored, own = clients.take(old.stored), None
        if paired:  # line 5 with theta_k^{t-1} in the place of theta^{t-1}
            local = clients.take(old.local)
            objective = LocalObjective(center=local, linear=stored, curvature=algorithm.l2, l1=algorithm.l1)
            own = clients.minimise(objective, start=local).y
        sums.add(old.x + old.h / algorithm.l2, old.x, stored, y, grad, own)
        if t in wanted:
            i = wanted[t]
            out["excess"][i] = sums.excess(t)
            for name in names:
                out[name][i] = sums.sums[name]
            for name in sums.products:
                products[name][i] = sums.products[name]
            out["zeros"][i] = sums.sums["zeros"] / t
        if on_round is not None:
            on_round(t)

    def recall(noted: Mapping[str, Any]) -> None:
        sums.recall(noted["sums"])
        out.update(noted["out"]), products.update(noted["products"])

    def run() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        observer = Observer(observe, lambda: {"sums": sums.noted(), "out": out, "products": products}, recall)
        simulate(
            problem, algorithm, rounds, x0, sampling, scenarios, seed, record=(), on_round=observer, in_place=False,
            first_scenario=first_scenario,
        )  # fmt: skip
        return out, products

    name = f"{rounds} rounds of {scenarios} scenarios from {first_scenario} on" + ", paired" * paired
    out, products = whole(name, run, shared=True)
    view = RunView(
        losses=losses,
        constants=constants_of(problem, algorithm, sampling),
        rule=algorithm.rule,
        d=problem.dim,
        horizons=horizons,
        exact=False,
        excess=out["excess"],
        noise=losses._gap,
        inner_exact=out["exact"],
        inner_sign=out["sign"],
        inner_own_sign=out.get("own_sign"),
        zeros=out["zeros"],
        **_start_constants(losses, start_state, algorithm),
    )
    return with_pairs(view, {f"inner_{name}": values for name, values in products.items()}) if paired else view
