"""Runs of FedMLS in which every local problem is solved: in fractions, and in floats to gaps."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, fedmls_parameters
from fedtheory.errors import InvalidInput
from fedtheory.problems.base import Problem
from fedtheory.problems.nonsmooth import LAD, EuclideanDistance
from fedtheory.randomness import Stream
from fedtheory.theorems.fedmls import lines, of_files
from fedtheory.theorems.fedmls.of_files import InFractions, OfRounds, column, entry
from fedtheory.theorems.fedmls.on_a_problem import UsersRuns
from fedtheory.theorems.fedmls.paper import paper
from fedtheory.theorems.fedmls.quantities import Bounds, states_and, values_of
from fedtheory.theorems.fedmls.requests import OfUsers
from fedtheory.theory import Fact, derived

ENOUGH = Fact(
    "K(K+1) >= 16 ||x_0 - x*||^2 G^2/epsilon^2, epsilon = lambda G^2",
    lambda q: q.K * (q.K + 1) * q.lam * q.lam * q.G_sq >= 16 * q.distance_sq,
)
RADIUS = 2.0
FAMILIES = ("LAD", "Euclidean distance")
SLOPE = {"slopes": [["-1"]], "offsets": [["0"]], "lam": "1/30", "radius": "1"}
TWO_SLOPES = {"slopes": [["-1", "1"]], "offsets": [["0", "0"]], "lam": "2", "radius": "1"}


@dataclass
class ProxView(InFractions, OfRounds, OfUsers):
    """A run of FedMLS in which every local problem is solved: exactly, or to certified gaps.

    Attributes
    ----------
    lam, K, G_sq, distance_sq : lambda, K, G^2, ||x_0 - x*||^2
    excess : (1, 1) F(x_K) - F*
    psi : (K, 1) Psi(x_k, x'_k) - F*, k = 0..K-1 (x'_K is not needed)
    server_sq, client_sq : (K, 1) ||x* - z_k||^2 and mean_i ||x* - z'_k||^2
    gaps : (K - 1, 1) mean_i of the certified gaps of the local problems, 0 where solved exactly
    noise : absolute uncertainty of F*
    """

    kind, family = "prox", "FedMLS with the local problem solved exactly"
    scope = "exact-prox"
    about = "about a run of FedMLS in which the local problems are solved"
    solved = True
    reads: ClassVar = of_files.on_interval(lines.MOST_ROUNDS, D=False)
    fixed = (
        ("one slope", {**SLOPE, "x0": "0", "rounds": 20}),
        ("enough rounds", {**TWO_SLOPES, "x0": "1", "rounds": 4}),
    )

    lam: Any
    K: int
    G_sq: Any
    distance_sq: Any
    excess: np.ndarray
    psi: np.ndarray
    server_sq: np.ndarray
    client_sq: np.ndarray
    gaps: np.ndarray
    noise: Any = 0
    shown: dict[str, Any] = field(default_factory=dict)

    def printed_constants(self) -> dict[str, Any]:
        """The constants that a reader is shown."""
        return self.shown

    epsilon = derived(lambda q: q.lam * q.G_sq, "The accuracy that lambda = epsilon/G^2 stands for")

    @property
    def gap_total(self) -> Any:
        """2/(K(K+1)) sum_k k eta_k."""
        total = sum((k * g for k, g in enumerate(self.gaps[:, 0], start=1)), self.lam * 0)
        return 2 * total / (self.K * (self.K + 1))

    def bound(self, start: Any = 8, penalty: Any = 1) -> np.ndarray:
        """start ||x_0 - x*||^2/(lambda K (K+1)) + penalty lambda G^2/2, and the gaps' cost."""
        first = start * self.distance_sq / (self.lam * self.K * (self.K + 1))
        return entry(first + penalty * self.lam * self.G_sq / 2 + self.gap_total)

    # --- instances --------------------------------------------------------------------------------
    @classmethod
    def made(
        cls, slopes: Any, offsets: Any, lam: Any, radius: Fraction, x0: Fraction, rounds: int
    ) -> Self:
        """Make the run, and collect what its proof speaks of."""
        K, clients = rounds, of_files.clients_on_ball(slopes, offsets, radius, x0)
        g_sq, d, ends = of_files.g_sq_of(clients, radius), Fraction(1), (-radius, radius)
        path = lines.history(lines.Run(clients, lam, d, *ends, radius, x0, K, g_sq, "exact"))
        least, star = lines.least_on(clients, *ends, x0)

        def mean(values: Iterable[Fraction]) -> Fraction:
            return sum(values, Fraction(0)) / len(clients)

        def psi(x: Fraction, own: np.ndarray) -> Fraction:
            values = (lines.excess([c], v, least) for c, v in zip(clients, own, strict=True))
            return mean(values) + mean((x - v) ** 2 for v in own) / (2 * lam)

        return cls(
            lam, K, g_sq, (x0 - star) ** 2, entry(lines.excess(clients, path.x[-1], least)),
            column([psi(*at) for at in zip(path.x[:K], path.x_client, strict=True)]),
            column([(star - z) ** 2 for z in path.z[:K]]),
            column([mean((star - v) ** 2 for v in each) for each in path.z_client]),
            column([Fraction(0)] * max(1, K - 1)),
        )  # fmt: skip

    @classmethod
    def in_floats(cls, seed: int) -> list[Any]:
        """Give a run on each family."""
        return [ProxInstance(family, seed) for family in FAMILIES]

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, dict[str, Any]]:
        """Draw losses on an interval; three in ten are one slope, where the 8 is nearly met."""
        n, rounds = int(rng.integers(1, 5)), int(rng.integers(1, 11))
        data = {**of_files.losses(rng, n), "lam": of_files.lam(rng), "radius": Fraction(2)}
        data |= {"x0": of_files.quarter(rng), "rounds": rounds}
        if rng.random() < 0.3:
            rounds = int(rng.integers(8, 25))
            lam = Fraction(16, rounds * (rounds + 1) + int(rng.integers(0, 20)))
            data |= {"slopes": [[Fraction(-1)]], "offsets": [[Fraction(0)]], "lam": lam}
            data |= {"radius": Fraction(1), "x0": Fraction(0), "rounds": rounds}
        return f"N={len(data['slopes'])} K={rounds}", data

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> Any:
        """Make the run of a user's, where no assumption fails."""
        runs = UsersRuns(case)
        form = paper[statement].statement.forms[0]  # all are about the same runs
        for reason in runs.not_about(form):
            raise InvalidInput(reason)
        if not runs.algorithm.solved:
            raise InvalidInput(
                "local_training = 'sliding': the statement is about local problems that are "
                "solved; use 'exact-prox'"
            )
        for reason in runs.outside(form):
            raise InvalidInput(reason)
        return prox_view_of_run(runs.problem, runs.algorithm, runs.x0, runs.bounds)


# --- runs in floats -------------------------------------------------------------------------------
def prox_view_of_run(problem: Problem, algorithm: FedMLS, x0: Any, bounds: Bounds) -> ProxView:
    """Run FedMLS with ``local_training='exact-prox'``, and collect what its proof speaks of.

    Parameters
    ----------
    bounds : the optimum on the algorithm's ball, and the G_i
    """
    K, lam, optimum = int(algorithm.rounds), float(algorithm.lam), bounds.optimum
    states, residuals = states_and("residual", problem, algorithm, x0)
    gaps = [float(np.mean(residual)) for residual in residuals[: K - 1]]
    x = np.stack([s.x[0] for s in states])  # (K + 1, d)
    z, own, trained = (  # (K, d), and of every client (K, N, d)
        np.stack([getattr(s, name)[0] for s in states[:K]]) for name in ("z", "x_local", "z_local")
    )
    penalty = ((x[:K, None] - own) ** 2).sum(axis=-1).mean(axis=-1) / (2 * lam)
    psi = values_of(problem)(own[..., None]).mean(axis=-2)[:, 0] + penalty
    client_sq = ((optimum.x - trained) ** 2).sum(axis=-1).mean(axis=-1)
    server_sq = ((optimum.x - z) ** 2).sum(axis=-1)
    objective = problem.objective(x)
    size = float(np.abs(objective).max() + abs(optimum.value))
    return ProxView(
        lam, K, float(np.mean(bounds.G_i**2)), float(server_sq[0]),
        np.array([[objective[-1] - optimum.lower_bound]]), (psi - optimum.lower_bound)[:, None],
        server_sq[:, None], client_sq[:, None], np.array(gaps or [0.0])[:, None],
        bounds.noise(size), {"largest certified gap": max(gaps, default=0.0)},
    )


@dataclass(frozen=True)
class ProxInstance(of_files.InFloats):
    """A run in floats on random clients in the plane, to an accuracy of G ||x_0 - x*||/2.

    Attributes
    ----------
    family : of `FAMILIES`
    """

    family: str
    seed: int

    kind = "prox"

    name = derived(
        lambda q: f"{q.family}, local problems solved, seed={q.seed}", "Name of the instance"
    )

    def view(self) -> ProxView:
        """Run it. Raises `NotCertified` where the optimum on the ball cannot be certified."""
        rng = Stream(self.seed).generator(f"fedmls exact prox {self.family}")
        features, targets = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 4))
        lad = self.family == "LAD"
        problem = LAD(features, targets) if lad else EuclideanDistance(features[:, 0])
        optimum = problem.optimum_on_ball(RADIUS)
        bounds = Bounds(optimum, problem.lipschitz(RADIUS), np.zeros(3))
        x0, g = np.array([0.6, -0.8]), problem.lipschitz_rms(RADIUS)
        away = float(np.linalg.norm(x0 - optimum.x))
        method = fedmls_parameters(
            problem, g * away / 2, RADIUS, away, lipschitz=g, local_training="exact-prox"
        )
        return prox_view_of_run(problem, method, x0, bounds)
