"""Problems on a ball ||x|| <= R, and FedMLS on them: what the command line chooses, and what it says about it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedtheory.errors import InvalidInput

if TYPE_CHECKING:
    from fedtheory.algorithms.fedmls import FedMLS
    from fedtheory.optimum.certify import Optimum
    from fedtheory.problems.base import Problem

__all__ = [
    "ACCURACY",
    "MadeFedMLS",
    "facts_on_ball",
    "make_fedmls",
    "start_of",
    "with_theory_step",
]

ACCURACY = 0.2  # default --epsilon, in units of G ||x_0 - x*||
SHORTEST_ROUND = 1e-4  # seconds, whatever the problem


def start_of(text: str | None, dim: int) -> np.ndarray:
    """x_0 from '1,0,-2' (or one number for all coordinates); 0 when not given.

    Raises
    ------
    InvalidInput
        Not numbers, not finite, or not as many as the dimension.
    """
    if text is None:
        return np.zeros(dim)
    try:
        point = np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise InvalidInput(f"--start {text}: write numbers with commas, as in --start=1,0,-2") from None
    if not np.isfinite(point).all() or len(point) not in (1, dim):
        raise InvalidInput(f"--start {text}: it must be one finite number, or d = {dim} of them")
    return np.full(dim, point[0]) if len(point) == 1 else point


@dataclass(frozen=True)
class MadeFedMLS:
    """FedMLS as the options ask for it, with what it was made from."""

    algorithm: FedMLS
    optimum: Optimum
    radius: float
    radius_from: str
    distance: float  # ||x_0 - x*||
    G_i: np.ndarray
    relative: float  # epsilon in units of G ||x_0 - x*||
    epsilon: float
    given: tuple[str, ...]

    def rows(self, skip_last: bool) -> list[tuple[str, str]]:
        """What to print, name and value; skip_last: round K's local work is not done."""
        a = self.algorithm
        K = int(a.rounds)
        last = f"T_K-1 = {a.steps(max(1, K - 1)):,}" if skip_last else f"T_K = {a.steps(K):,}"
        lam = "given" if "lam" in self.given else "epsilon/G^2" if a.norm == "mean" else "N epsilon/G^2"
        steps = f"{a.total_steps(skip_last=skip_last):,} a client: T_1 = {a.steps(1):,}, ..., {last}"
        spread = f"{self.G_i.min():.6g} to {self.G_i.max():.6g}"
        rows = [
            ("G", f"{self.g:.10g}, root mean square of G_i = {spread}"),
            ("radius", f"{self.radius:g} ({self.radius_from})"),
            ("||x_0 - x*||", f"{self.distance:.6g}"),
            ("epsilon", f"{self.epsilon:.6g} = {self.relative:g} G ||x_0 - x*||"),
            ("lambda", f"{float(a.lam):.6g} ({lam})"),
            ("rounds K", f"{K:,}"),
            ("local steps", steps),
        ]
        if a.noise_std:
            rows.append(("noise added", f"standard deviation {float(a.noise_std):.6g} = {float(a.noise_std) / self.g:.4g} G"))
        if a.sigma:
            rows.append(("sigma in T_k", f"{float(a.sigma):.6g}"))
        return rows

    @property
    def g(self) -> float:
        return math.sqrt(float((self.G_i**2).mean()))

    def to_json(self, skip_last: bool) -> dict[str, Any]:
        total = self.algorithm.total_steps(skip_last=skip_last)
        return {
            "name": self.algorithm.name, **asdict(self.algorithm), "radius_from": self.radius_from, "epsilon": self.epsilon,
            "epsilon_relative": self.relative, "distance": self.distance, "G_i": self.G_i, "local_steps": total,
        }  # fmt: skip


def make_fedmls(
    problem: Problem,
    options: dict[str, Any],
    x0: np.ndarray,
    rounds: Literal["fewest", "printed"] | int,
    batch_size: int | None = None,
) -> MadeFedMLS:
    """FedMLS with Theorem 2's parameters for --epsilon, and with what else is given in place of them.

    Raises
    ------
    InvalidInput
        Values out of range; a ball without x_0 or without a minimiser; a run that would take hours.
    MissingCapability
        A problem without a Lipschitz constant on a ball, or without a certified optimum there.
    """
    from fedtheory.algorithms.fedmls import fedmls_parameters
    from fedtheory.optimum.on_ball import choose_radius

    def get(name: str, default: Any = None) -> Any:
        return default if options.get(name) is None else options[name]

    relative, noise = get("epsilon", ACCURACY), get("noise", 0.0)
    if not (math.isfinite(relative) and relative > 0):
        raise InvalidInput(f"--epsilon {relative:g}: the accuracy, in units of G ||x_0 - x*||, must be a finite number > 0")
    if not (math.isfinite(noise) and noise >= 0):
        raise InvalidInput(f"--noise {noise:g}: the noise, in units of G, must be a finite number >= 0")
    if noise and get("noise_std") is not None:
        raise InvalidInput("--noise and --noise-std: give one of them (the first is in units of G)")
    radius, radius_from = choose_radius(problem, options.get("radius"), x0)
    G_i = np.asarray(problem.lipschitz(radius), dtype=float)
    g = float(problem.lipschitz_rms(radius))
    optimum = problem.optimum_on_ball(radius)
    distance = float(np.linalg.norm(x0 - optimum.x))
    if distance == 0:
        raise InvalidInput("x_0 is the minimiser: there is nothing to do from there; start elsewhere with --start")
    epsilon, noise_std = relative * g * distance, get("noise_std", noise * g)
    drawn_sq = 0.0 if batch_size is None else float(np.mean(problem.batch_noise_sq(radius, batch_size)))
    switches = ("average", "server_projection", "norm", "skip_last", "allow_long")
    settings = {k: options[k] for k in switches if options.get(k) is not None}
    sigma = get("sigma", math.sqrt(noise_std**2 + drawn_sq))
    algorithm = fedmls_parameters(
        problem, epsilon, radius, x0=x0, rounds=rounds, sigma=sigma, lipschitz=get("lipschitz", g), noise_std=noise_std, **settings
    )
    given = tuple(name for name in ("lam", "D") if options.get(name) is not None)
    algorithm = replace(algorithm, **{name: options[name] for name in given})
    if algorithm.norm == "product" and not given:  # the same run in the other norm
        n = problem.num_clients
        algorithm = replace(
            algorithm, lam=n * algorithm.lam, D=n * algorithm.D, lipschitz=algorithm.lipschitz / math.sqrt(n),
            sigma=algorithm.sigma / math.sqrt(n),
        )  # fmt: skip
    hours = int(algorithm.rounds) * SHORTEST_ROUND / 3600
    if hours > 1 and not algorithm.allow_long:  # before arrays of that length are made
        raise InvalidInput(
            f"K = {algorithm.rounds:,} rounds would take at least {hours:,.1f} hours: ask for a larger --epsilon or fewer --rounds, or "
            "pass --allow-long to go on"
        )
    return MadeFedMLS(algorithm, optimum, radius, radius_from, distance, G_i, relative, epsilon, given)


BY_THEORY = {"subgradient": {"--step": "by theory", "--output": "average", "--radius": "least power of 2"}}


def with_theory_step(problem: Problem, options: dict[str, Any], x0: np.ndarray, rounds: int) -> dict[str, Any]:
    """The options of the subgradient method with the step and the output that theory gives, where none are given."""
    from fedtheory.algorithms.subgradient import subgradient_parameters

    radius = options["radius"]
    distance = float(np.linalg.norm(x0 - problem.optimum_on_ball(radius).x))
    kinds = options.get("schedule") or "constant", options.get("output") or "average"
    made = subgradient_parameters(problem, rounds, radius, distance, *kinds)
    return {**options, "step": made.step, "output": made.output}


def facts_on_ball(problem: Problem, optimum: Optimum, radius: float, radius_from: str) -> list[tuple[str, str]]:
    """What `solve` prints of a problem on a ball, after the optimum itself."""
    G_i, exact = problem.lipschitz(radius), problem.lipschitz_exact(radius)
    words = {
        "inactive": "not active: F is nowhere lower outside (to the same gap)",
        "active": "active: F is lower outside, so a larger ball has another minimiser",
        "undecided": "neither active nor idle could be proven",
    }
    shown = ", ".join(f"{g:.6g}{'' if e else '*'}" for g, e in zip(G_i[:20], exact[:20], strict=True))
    more = f", ... ({len(G_i)} clients; all with --json)" if len(G_i) > 20 else ""
    note = "" if exact.all() else "; * an upper bound"
    return [
        ("radius", f"{radius:g} ({radius_from})"),
        ("||x*||", f"{float(np.linalg.norm(optimum.x)):.10g}"),
        ("||x|| <= R", words[optimum.details["constraint"]]),
        ("Lipschitz constants G_i", shown + more + note),
        ("G, their root mean square", f"{problem.lipschitz_rms(radius):.10g}"),
    ]
