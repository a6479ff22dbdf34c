"""A run of FedMLS as the proof of Theorem 1 looks at it: one round after the other, in floats or, in one dimension, in fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedmls.exact import _clip, _mean, _value, constants, minimum, numbers_of, train_exactly
from fedtheory.theorems.fedmls.on_a_problem import UsersRuns
from fedtheory.theorems.fedmls.quantities import MLSConstants, MLSView
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.proof import Course, Proof
from fedtheory.theory.judge.registry import get
from fedtheory.theory.judge.witness import Witness

__all__ = ["SlidingRound", "SlidingRun", "course", "replayed"]

MOST_STEPS = 3_000  # local steps in fractions, of clients that differ


@dataclass
class SlidingRun:
    """A whole run, in numbers of one type. Shapes: K rounds, N clients, d coordinates, S scenarios.

    Attributes
    ----------
    constants : `MLSConstants`
    x, z : (K + 1, d, S); x_client, z_client, z_average, gradient : (K + 1, N, d, S)
    values : callable, f_i at a point of its own for each client: (..., N, d, S) -> (..., N, S)
    star, least : (d,) x*, and F(x*)
    excess_last : (S,) F(x_K) - F*
    """

    constants: MLSConstants
    x: Any
    z: Any
    x_client: Any
    z_client: Any
    z_average: Any
    gradient: Any
    values: Callable[[Any], Any]
    star: Any
    least: Any
    excess_last: Any
    noise: Any = 0
    exact: bool = True
    facts: frozenset[str] = frozenset()
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def K(self) -> int:
        return self.constants.K

    @property
    def lam(self) -> Any:
        return self.constants.lam

    @property
    def rational(self) -> bool:
        """Whether the numbers are fractions."""
        return bool(self.x.dtype == object)

    @property
    def rule(self) -> str:
        return "deterministic" if self.exact else "stochastic"

    @property
    def last_excess(self) -> Any:
        """F(x_K) - F*: (1, S)."""
        return self.excess_last[None]

    def constant(self, value: Any) -> Any:
        """The same number for every scenario: (1, S)."""
        return self.excess_last[None] * 0 + value

    def steps(self, k: int) -> Any:
        """T_k, as a number of the run's type."""
        T = int(self.constants.steps[k - 1])
        return Fraction(T) if self.rational else float(T)

    def beta(self, k: int) -> Any:
        return 4 / (self.lam * k)

    def gamma(self, k: int) -> Any:
        return Fraction(2, k + 1) if self.rational else 2 / (k + 1)

    def c(self, k: int) -> Any:
        """c(T_k) = (T+1)(T+2)/(T(T+3))."""
        T = self.steps(k)
        return (T + 1) * (T + 2) / (T * (T + 3))

    def error(self, k: int) -> Any:
        """E_i of the inner loop: (N, 1)."""
        T = int(self.constants.steps[k - 1])
        one = Fraction(1) if self.rational else 1.0
        harmonic = [one * 0]
        for n in range(1, T + 3):
            harmonic.append(harmonic[-1] + one / n)
        first, second = T + harmonic[T], T + 3 * one / 2 - harmonic[T + 2]
        own = 8 * self.constants.G_i**2 * first + 4 * self.constants.sigma_i**2 * second
        return (own / (self.beta(k) * T * (T + 3)))[:, None]


@dataclass
class SlidingRound:
    """Round k of a run."""

    run: SlidingRun
    k: int

    @property
    def rule(self) -> str:
        return self.run.rule


def _course(name: str, run: SlidingRun) -> Course:
    def rounds() -> Iterator[Any]:
        for k in range(1, run.K + 1):
            yield SlidingRound(run, k), None

    return Course(name, run.rule, run.K, rounds(), lambda: run, run.exact)


def course(case: Case, proof: Proof) -> Course:
    """The run of a user's problem.

    Raises
    ------
    InvalidInput
        An assumption that fails, with value and limit.
    NotCertified
        No optimum on the ball that is certified.
    """
    statement = get(proof.theorem)
    view = UsersRuns(case).view(statement, statement.form(proof.form))
    if isinstance(view, str):
        raise InvalidInput(f"{proof.theorem} [{proof.form}] does not apply: {view}")
    run = _of_view(view)
    c = run.constants
    size = f"N = {c.N}, d = {run.x.shape[1]}, K = {c.K}, lambda = {c.lam:.4g}"
    name = f"{case.problem.name}: {size}, {int(c.total_steps):,} local steps a client"
    return _course(name + ("" if run.exact else f", {run.x.shape[-1]} scenarios"), run)


def _of_view(v: MLSView) -> SlidingRun:
    return SlidingRun(
        v.constants, v.x, v.z, v.x_client, v.z_client, v.z_average, v.gradient, v.values, v.points[0], float(v.Psi_targets[0].mean()),
        v.last_excess[0], v.noise, v.exact, v.facts, v.shown,
    )  # fmt: skip


# --- in fractions -----------------------------------------------------------------------------------------------------------
class _Exact(MLSConstants):
    """The constants as fractions."""

    @property
    def G_sq(self) -> Any:
        return (self.G_i**2).sum() / Fraction(len(self.G_i))

    @property
    def sigma_sq(self) -> Any:
        return Fraction(0)


def replayed(witness: Witness, proof: Proof) -> Course:
    """The run of a witness in fractions, in one dimension, with round K's training, too.

    Raises
    ------
    InvalidInput
        A witness of another reading than the proof's form, or with more local steps than fractions can carry.
    """
    lines, lam, d, radius, x0, K, variant, copies = numbers_of(witness)
    if variant not in ("repaired", "joint G"):
        raise InvalidInput(
            f"{witness.name} is the reading {variant!r}: a proof is walked for 'printed' and for 'repaired'"
        )
    counts = copies or [1] * len(lines)
    clients = [one for one, n in zip(lines, counts, strict=True) for _ in range(n)]
    reading = "joint G" if proof.form == "printed" else "repaired"
    g_sq = constants(clients, radius, reading)
    steps = [max(1, -(-4 * g_sq * lam * lam * K * k * k // (2 * d))) for k in range(1, K + 1)]
    if sum(steps) * len(lines) > MOST_STEPS:
        raise InvalidInput(
            f"{witness.name}: {sum(steps) * len(lines)} local steps in fractions, more than {MOST_STEPS}"
        )
    least, star = minimum(clients, radius)
    path = _train(lines, counts, lam, radius, x0, [int(t) for t in steps])
    G_i = np.array([_longest(one, radius) for one in clients], dtype=object)
    sigma_i = np.array([Fraction(0)] * len(clients), dtype=object)
    c = _Exact(K, lam, d, G_i, sigma_i, (x0 - star) ** 2, np.array(steps, dtype=object))
    arrays = {name: _array(values) for name, values in path.items()}
    last = np.array([_mean([_value(one, path["x"][-1]) for one in clients]) - least], dtype=object)

    def values(u: Any) -> Any:
        out = np.empty(u.shape[:-2] + u.shape[-1:], dtype=object)
        for index in np.ndindex(out.shape):
            out[index] = _value(clients[index[-2]], u[(*index[:-1], 0, index[-1])])
        return out

    run = SlidingRun(c, **arrays, values=values, star=np.array([star], dtype=object), least=least, excess_last=last)
    return _course(f"{len(clients)} client{'s' * (len(clients) > 1)}, d = 1, K = {K} (in fractions)", run)


def _longest(one: Any, radius: Any) -> Any:
    from fedtheory.theorems.fedmls.lines import steepest

    return steepest(one, radius)


def _array(rows: list[Any]) -> Any:
    """(K + 1, 1, 1) of numbers, (K + 1, N, 1, 1) of rows of them."""
    flat = np.array(rows, dtype=object)
    return flat[..., None, None]


def _train(
    lines: list[Any], counts: list[int], lam: Any, radius: Any, x0: Any, steps: list[int]
) -> dict[str, list[Any]]:
    """Algorithm 1 with everything that its proof speaks of, rounds 0..K; clients with one loss start alike and receive alike."""
    n = sum(counts)

    def everyone(values: list[Any]) -> list[Any]:
        return [v for v, count in zip(values, counts, strict=True) for _ in range(count)]

    x, z, own_x, own_z = x0, x0, [x0] * len(lines), [x0] * len(lines)
    out: dict[str, list[Any]] = {"x": [x0], "z": [x0], "x_client": [[x0] * n], "z_client": [[x0] * n]}
    out |= {"z_average": [[x0 * 0] * n], "gradient": [[x0 * 0] * n]}
    for k, T in enumerate(steps, 1):
        beta, gamma = 4 / (lam * k), Fraction(2, k + 1)
        own = [(1 - gamma) * a + gamma * b for a, b in zip(own_x, own_z, strict=True)]
        y = (1 - gamma) * x + gamma * z
        z = _clip(z - (y - _mean(own, counts)) * k / 4, radius)
        x = (1 - gamma) * x + gamma * z
        pull = [(v - y) / lam for v in own]
        trained = [train_exactly(one, u0, g, beta, T, radius) for one, u0, g in zip(lines, own_z, pull, strict=True)]
        own_x = [(1 - gamma) * a + gamma * t[1] for a, t in zip(own_x, trained, strict=True)]
        own_z = [t[0] for t in trained]
        rows = {"x_client": own_x, "z_client": own_z, "z_average": [t[1] for t in trained], "gradient": pull}
        out["x"].append(x)
        out["z"].append(z)
        for name, values in rows.items():
            out[name].append(everyone(values))
    return out
