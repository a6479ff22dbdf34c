"""Theorem 1 on real runs: EFL without compression on a problem with samples, its constants bounded
by proof, its error measured.

G is a supremum. With |phi'| <= c, a mini-batch gradient of a ridge-regularised linear model is
ridge w plus a vector of norm at most a, a = c times the largest (full gradients: mean) norm of a
client's samples. A local step with eta ridge <= 1 keeps ||w|| <= a/ridge; s steps move w by
(1 - rho^s)(v - w), rho = 1 - eta ridge, for some ||v|| <= a/ridge; so the server's model stays in
the ball too while P = sum_k p_k (1 - rho^{s_k}) <= 1, and the radius grows by the factor 2P - 1 at
most where P > 1. On that ball E||g||^2 <= (mean norm + ridge radius)^2 + variance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD, TheoremStep
from fedtheory.optimum.certify import Optimum
from fedtheory.optimum.client_minima import client_minima
from fedtheory.participation.irregular import Participation, joint_law
from fedtheory.participation.moments import Moments, round_moments
from fedtheory.problems.base import Problem
from fedtheory.problems.glm import Huber, Logistic
from fedtheory.simulation.simulate import check_start, simulate
from fedtheory.theorems.efl.quantities.run import (
    EFLConstants,
    EFLRun,
    gamma_of,
    given_bounds,
    given_curvatures,
    step_sizes,
)


@dataclass(frozen=True)
class GradientBounds:
    """Suprema along every possible run."""

    radius: float  # of the ball around 0 that no iterate leaves
    G_sq: float  # number; sigma_sq : (N,)
    sigma_sq: np.ndarray


def _slope(problem: Problem) -> float:
    if isinstance(problem, Logistic):
        return 1.0
    if isinstance(problem, Huber):
        return problem.delta
    why, remedy = "its gradients are not bounded", ""
    if problem.constant_hessian:
        why = (
            "these cohorts have clients that depend on each other, or the run is drawn, so that "
            "no expectation is exact"
        )
        remedy = ", or take independent clients (inactive ones)"
    raise MissingCapability(
        f"{type(problem).__name__}: G is not known: {why}, and without that it is proved for "
        f"ridge-regularised logistic and Huber losses: give G, as in --given G=3{remedy}"
    )


def _largest_pull(scheme: str, E: int, shrink: float, weights: np.ndarray, moments: Moments) -> float:
    """The largest sum_k p_k (1 - rho^{s_k}) that is possible; (1 - rho^s)/s falls with s."""
    whole = 1 - (1 - shrink) ** E
    if scheme == "A":
        return float(len(weights) * weights.max() * whole)
    if scheme == "B":
        return whole
    return float(moments.theta) * shrink  # theta is E, or E/min_k P(s_k > 0)


def gradient_bounds(
    problem: Any, scheme: str, E: int, etas: Sequence[float], rounds: Sequence[Moments], x0: np.ndarray, batch_size: int | None = None
) -> GradientBounds:
    """G^2 and sigma_k^2 as in the module's docstring."""
    c, ridge = _slope(problem), float(problem.ridge)
    norms = c * np.linalg.norm(problem.features, axis=-1)
    mean = (norms * problem.sample_weights).sum(axis=1)
    variance = np.zeros(problem.num_clients)
    if batch_size is not None:
        variance = (norms**2 * problem.sample_weights).sum(axis=1) / batch_size
    reach = float((mean if batch_size is None else norms).max())  # rows that fill up are 0
    shrink = ridge * max(etas)
    if shrink > 1:
        raise InvalidInput(f"eta * ridge = {shrink:.6g} > 1: steps of Theorem 1 are shorter")
    radius = max(reach / ridge, float(np.linalg.norm(x0, axis=-1).max()))
    for eta, m in zip(etas, rounds, strict=True):
        radius *= max(1.0, 2 * _largest_pull(scheme, E, ridge * eta, problem.weights, m) - 1)
    return GradientBounds(radius, float(((mean + ridge * radius) ** 2 + variance).max()), variance)


def check_present(sampling: Participation, rounds: int) -> None:
    """Raise `InvalidInput` for clients that come or go: the objective is fixed."""
    for t in range(1, rounds + 1):
        present = sampling.present_in(t)
        if present is not None and not present.all():
            k = int(np.argmin(present))
            raise InvalidInput(
                f"client {k} is not there in round {t}: the objective is fixed; let it be inactive "
                "instead"
            )


def moments_of_rounds(scheme: str, sampling: Participation, rounds: int, weights: np.ndarray) -> list[Moments]:
    """One `Moments` a round; equal laws share one."""
    check_present(sampling, rounds)
    kept: dict[bytes, Moments] = {}
    out = []
    for t in range(1, rounds + 1):
        key, joint = sampling.law(t).tobytes(), joint_law(sampling, t)
        if joint is not None:  # correlated clients: their single laws do not tell the round's
            key += joint.steps.tobytes() + joint.probability.astype(float).tobytes()
        if key not in kept:
            kept[key] = round_moments(scheme, sampling, t, weights)  # type: ignore[arg-type]
        out.append(kept[key])
    return out


def constants_of(
    problem: Problem, scheme: str, sampling: Participation, rounds: int, start: np.ndarray,
    batch_size: int | None = None, given: Mapping[str, Any] | None = None,
) -> tuple[EFLConstants, Optimum]:
    """Theorem 1's constants on a problem with samples, bounded by proof, and the certified optimum
    of F.

    Parameters
    ----------
    start : (1, d)
    given : dict
        'G', 'L', 'mu' and 'sigma_sq' in place of what would be bounded here: L may be larger, mu
        smaller than the problem's; G and sigma_sq are taken on trust, and needed where losses have
        no bounded slopes.
    """
    given, weights, E = given or {}, problem.weights, sampling.max_steps
    if not problem.mu_k.min() > 0:
        raise InvalidInput(f"mu = min_k mu_k = {float(problem.mu_k.min()):.3g}: Theorem 1 needs mu > 0 (Assumption 2); add a ridge")
    moments = moments_of_rounds(scheme, sampling, rounds, weights)
    L, mu = given_curvatures(given, float(problem.beta_k.max()), float(problem.mu_k.min()))
    theta, S = float(max(m.theta for m in moments)), [float(m.sum_ps) for m in moments]
    gamma = gamma_of(E, theta, L, mu, S)
    G, own_sigma_sq = given_bounds(given, problem.num_clients)
    if G is not None:
        if batch_size is not None and own_sigma_sq is None:
            raise InvalidInput(f"G = {given['G']} is given, but mini-batches of {batch_size} have noise: give sigma_sq too")
        G_sq, sigma_sq = float(G) ** 2, np.zeros(problem.num_clients) if own_sigma_sq is None else own_sigma_sq
        how = "given, taken on trust"
    else:
        bounds = gradient_bounds(problem, scheme, E, step_sizes(E, mu, gamma, S), moments, start, batch_size)
        G_sq, sigma_sq, how = bounds.G_sq, bounds.sigma_sq, f"suprema over a ball of radius {bounds.radius:.4g} that no iterate leaves"
    optimum = problem.optimum()
    D = problem.client_losses(optimum.x) - client_minima(problem)
    off = optimum.kkt_residual / float(problem.mu_k.min())  # ||x - w*|| of the certified point
    constants = EFLConstants(
        E, L, mu, theta, G_sq, sigma_sq, np.maximum(D, 0), weights, moments,
        float(((start - optimum.x) ** 2).sum()),
        {
            "L, mu": "given" if {"L", "mu"} & set(given) else "of the problem, exact",
            "G_sq, sigma_sq": how, "D": "from above, F_k^* bounded by a certificate",
            "moments": "exact, from the laws of s_k", "w*": f"certified to {off:.2g}",
        },
    )
    return constants, optimum


def measured_run(
    problem: Problem, scheme: str, sampling: Participation, rounds: int, x0: Any = None,
    scenarios: int = 200, seed: int = 0, batch_size: int | None = None, looks: int = 8,
    replacement: bool = True, given: Mapping[str, Any] | None = None,
) -> EFLRun:
    """A real run of `EFL` (variant 'none', lambda = 0) with `LocalSGD` and Theorem 1's steps, its
    ||w_tau - w*||^2 by scenario.

    given : as of `constants_of`; a G that the run shows to be none is refused
    """
    E, start = sampling.max_steps, check_start(problem, x0, 1)
    constants, optimum = constants_of(problem, scheme, sampling, rounds, start, batch_size, given)
    mu, S = constants.mu, tuple(float(v) for v in constants.S)
    solver = LocalSGD(E, TheoremStep(mu, E, float(constants.gamma), S), batch_size, replacement=replacement)
    trusted = given is not None and "G" in given
    run = simulate(
        problem, EFL(scheme=scheme, variant="none"), rounds, start[0], sampling, scenarios, seed, solver,  # type: ignore[arg-type]
        record=("distance",), on_round=_met(problem, constants.G_sq) if trusted else None,
    )  # fmt: skip
    distance = run.metrics["distance"]
    constants = replace(constants, start_sq=float(distance[0, 0] ** 2))
    off = optimum.kkt_residual / float(problem.mu_k.min())
    horizons = np.unique(np.linspace(0, rounds, looks).astype(int))
    return EFLRun(constants, distance**2, scheme, horizons, exact=False, noise=off * (2 * float(distance.max()) + off))


def _met(problem: Problem, G_sq: float) -> Callable[..., None]:
    """Raise `InvalidInput` where a run meets full gradients at the server's model whose mean square
    is above a given G^2.

    E||g||^2 >= E||grad F_k||^2 at the first virtual step of every client, so that such a G is none.
    A mean over scenarios counts where it is above by four standard errors.
    """

    def look(round_index: int, old: Any, new: Any, clients: Any) -> None:
        squares = (problem.gradient(np.asarray(old.x)) ** 2).sum(axis=-1)  # (S, N)
        mean, error = squares.mean(axis=0), squares.std(axis=0, ddof=1) / np.sqrt(len(squares)) if len(squares) > 1 else 0.0
        low = mean - 4 * error
        if (low > G_sq * (1 + 1e-9)).any():
            k = int(np.argmax(low))
            raise InvalidInput(
                f"G = {G_sq**0.5:.6g} is no bound (Assumption 4): client {k} has E||grad F_k||^2 = {float(mean[k]):.6g} at the model "
                f"of round {round_index}, the limit is G^2 = {G_sq:.6g}: give a larger G"
            )

    return look
