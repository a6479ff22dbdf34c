"""FedMLS with Theorem 2's parameters for an accuracy relative to G ||x_0 - x*||, and what else a
user sets in place of them."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, fedmls_parameters
from fedtheory.errors import InvalidInput
from fedtheory.optimum.certify import Optimum
from fedtheory.optimum.on_ball import choose_radius
from fedtheory.problems.base import Problem
from fedtheory.theory import derived

ACCURACY = 0.2  # epsilon where none is given, in units of G ||x_0 - x*||
SHORTEST_ROUND = 1e-4  # seconds, whatever the problem


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
        """List what to print, name and value; skip_last: round K's local work is not done."""
        a = self.algorithm
        K = int(a.rounds)
        last = f"T_K-1 = {a.steps(max(1, K - 1)):,}" if skip_last else f"T_K = {a.steps(K):,}"
        lam = "given" if "lam" in self.given else "epsilon/G^2" if a.norm == "mean" else "N epsilon/G^2"
        steps = f"{a.total_steps(skip_last=skip_last):,} a client: T_1 = {a.steps(1):,}, ..., {last}"
        work = ("local problems", f"{a.total_steps(skip_last=skip_last):,} a client, each solved to a certified gap")
        spread = f"{self.G_i.min():.6g} to {self.G_i.max():.6g}"
        rows = [
            ("G", f"{self.g:.10g}, root mean square of G_i = {spread}"),
            ("radius", f"{self.radius:g} ({self.radius_from})"),
            ("||x_0 - x*||", f"{self.distance:.6g}"),
            ("epsilon", f"{self.epsilon:.6g} = {self.relative:g} G ||x_0 - x*||"),
            ("lambda", f"{float(a.lam):.6g} ({lam})"),
            ("rounds K", f"{K:,}"),
            work if a.solved else ("local steps", steps),
        ]
        if a.noise_std:
            rows.append(("noise added", f"standard deviation {float(a.noise_std):.6g} = {float(a.noise_std) / self.g:.4g} G"))
        if a.sigma:
            rows.append(("sigma in T_k", f"{float(a.sigma):.6g}"))
        return rows

    g = derived(lambda q: math.sqrt(float((q.G_i**2).mean())), "G, the root mean square of the G_i")

    def to_json(self, skip_last: bool) -> dict[str, Any]:
        """All of it, as it is written beside the results."""
        total = self.algorithm.total_steps(skip_last=skip_last)
        return {
            "name": self.algorithm.name, **asdict(self.algorithm), "radius_from": self.radius_from,
            "epsilon": self.epsilon, "epsilon_relative": self.relative, "distance": self.distance,
            "G_i": self.G_i, "local_steps": total,
        }


def make_fedmls(
    problem: Problem, options: Mapping[str, Any], x0: np.ndarray,
    rounds: Literal["fewest", "printed"] | int, batch_size: int | None = None,
) -> MadeFedMLS:
    """FedMLS with Theorem 2's parameters for ``epsilon``, and what is given in their place.

    Parameters
    ----------
    options : name -> value or None
        epsilon (in units of G ||x_0 - x*||, default `ACCURACY`), noise (in units of G), radius, and the fields of `FedMLS`.
    batch_size : of local training by mini-batches, whose noise sigma then counts

    Raises
    ------
    InvalidInput
        Values out of range; a ball without x_0 or without a minimiser; a run that would take hours.
    MissingCapability
        A problem without a Lipschitz constant on a ball, or without a certified optimum there.
    """

    def get(name: str, default: Any = None) -> Any:
        return default if options.get(name) is None else options[name]

    relative, noise = get("epsilon", ACCURACY), get("noise", 0.0)
    if not (math.isfinite(relative) and relative > 0):
        raise InvalidInput(f"epsilon = {relative:g}: the accuracy, in units of G ||x_0 - x*||, must be a finite number > 0")
    if not (math.isfinite(noise) and noise >= 0):
        raise InvalidInput(f"noise = {noise:g}: the noise, in units of G, must be a finite number >= 0")
    if noise and get("noise_std") is not None:
        raise InvalidInput(f"noise = {noise:g}, noise_std = {get('noise_std'):g}: give one of them (the first is in units of G)")
    if batch_size is not None and options.get("local_training") == "exact-prox":
        raise InvalidInput(f"batch_size = {batch_size}: local_training = 'exact-prox' asks for no subgradients; leave it out")
    switches = ("average", "server_projection", "norm", "skip_last", "allow_long", "local_training")
    settings = {k: options[k] for k in switches if options.get(k) is not None}
    FedMLS(  # with 1 for what an optimum will say: what is wrong with the rest is told before one is looked for
        get("lam", 1.0), get("D", 1.0), 1 if isinstance(rounds, str) else rounds, 1.0, get("lipschitz", 1.0), get("sigma", 0.0),
        get("noise_std", noise), **settings
    )  # fmt: skip
    radius, radius_from = choose_radius(problem, options.get("radius"), x0)
    G_i = np.asarray(problem.lipschitz(radius), dtype=float)
    g = float(problem.lipschitz_rms(radius))
    if g == 0:
        raise InvalidInput("G = 0: all losses are constant on the ball, and every point is a minimiser: there is nothing to do")
    optimum = problem.optimum_on_ball(radius)
    distance = float(np.linalg.norm(x0 - optimum.x))
    if distance == 0:
        raise InvalidInput("x_0 is the minimiser: there is nothing to do from there; start elsewhere")
    epsilon, noise_std = relative * g * distance, get("noise_std", noise * g)
    drawn_sq = 0.0 if batch_size is None else float(np.mean(problem.batch_noise_sq(radius, batch_size)))
    sigma = get("sigma", math.sqrt(noise_std**2 + drawn_sq))
    algorithm = fedmls_parameters(
        problem, epsilon, radius, x0=x0, rounds=rounds, sigma=sigma, lipschitz=get("lipschitz", g), noise_std=noise_std, **settings
    )
    given = tuple(name for name in ("lam", "D") if options.get(name) is not None)
    algorithm = replace(algorithm, **{name: options[name] for name in given})
    if algorithm.norm == "product" and not given:  # the same run in the other norm
        n = problem.num_clients
        algorithm = replace(
            algorithm, lam=n * algorithm.lam, D=n * algorithm.D,
            lipschitz=algorithm.lipschitz / math.sqrt(n), sigma=algorithm.sigma / math.sqrt(n),
        )
    hours = int(algorithm.rounds) * SHORTEST_ROUND / 3600
    if hours > 1 and not algorithm.allow_long:  # before arrays of that length are made
        raise InvalidInput(
            f"K = {algorithm.rounds:,} rounds would take at least {hours:,.1f} hours: ask for a "
            "larger epsilon or fewer rounds, or pass allow_long=True to go on"
        )
    return MadeFedMLS(algorithm, optimum, radius, radius_from, distance, G_i, relative, epsilon, given)
