r"""The proof of FedMLS's Theorem 1 as a chain of steps, printed and repaired.

Psi(x, x') = mean_i f_i(x'_i) + h(x, x') with the penalty h = mean_i ||x - x'_i||^2/(2 lambda), a quadratic. Round k moves p_{k-1} =
(x_{k-1}, x'_{k-1}) to p_k = (1 - gamma) p_{k-1} + gamma q_k with q_k = (z_k, u~_k), and linearises h at y_k = (1 - gamma) p_{k-1} +
gamma (z_{k-1}, z'_{k-1}). With every term written out,

    slack of the recursion = [losses are convex] + (1 - gamma) h(p_{k-1} - y_k) + gamma h(y_k)
                             + [gamma beta/2 ||s||^2 - gamma^2 h(s)] + gamma [inner loop] + gamma [server's projection]

with s = q_k - (z_{k-1}, z'_{k-1}), for h is a quadratic that vanishes at (x*, x*). Times Gamma_K/Gamma_k = k (k + 1)/(K (K + 1))
and summed, what is left are the distances at the end, which the proof drops, c(T_1) <= 3/2, the local steps of line 4, which are
enough for 8 D~, and the penalty gap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtheory.theorems.fedmls.courses import SlidingRound, SlidingRun, course, replayed
from fedtheory.theorems.fedmls.exact import make_witness
from fedtheory.theory.judge.proof import Ended, Proof, Step
from fedtheory.theory.judge.statement import Sides, le

__all__ = ["PROOFS"]


def _arrives(e: Ended) -> Any:
    """Gamma_K/Gamma_k of every round: (K,)."""
    run = e.run
    weights = [k * (k + 1) * (run.lam * 0 + 1) / (run.K * (run.K + 1)) for k in range(1, run.K + 1)]
    return np.array(weights, dtype=object if run.rational else float)


def _once(e: Ended) -> Any:
    return 1


# --- the penalty ------------------------------------------------------------------------------------------------------------
def _h(run: SlidingRun, x: Any, clients: Any) -> Any:
    """mean_i ||x - x'_i||^2/(2 lambda): (S,)."""
    return _mean_sq(run, x[None] - clients) / (2 * run.lam)


def _mean_sq(run: SlidingRun, values: Any) -> Any:
    """(1/N) sum_i ||u_i||^2: (N, d, S) -> (S,)."""
    return (values * values).sum(axis=(0, 1)) / len(values)


def _sq(values: Any) -> Any:
    return (values * values).sum(axis=0)


def _before(run: SlidingRun, k: int) -> tuple[Any, Any]:
    """y_k: (d, S) and (N, d, S)."""
    g = run.gamma(k)
    return (1 - g) * run.x[k - 1] + g * run.z[k - 1], (1 - g) * run.x_client[k - 1] + g * run.z_client[k - 1]


def _star(run: SlidingRun) -> Any:
    return run.star[:, None]


def _losses(round: SlidingRound) -> Sides:
    """f(x'_k) <= (1 - gamma) f(x'_{k-1}) + gamma f(u~_k)."""
    run, k = round.run, round.k
    g = run.gamma(k)
    after, before, new = (
        run.values(u).sum(axis=0) / len(u) for u in (run.x_client[k], run.x_client[k - 1], run.z_average[k])
    )
    return le(after, (1 - g) * before, g * new, noise=run.noise)


def _penalty(round: SlidingRound) -> Sides:
    """0 <= (1 - gamma) h(p_{k-1} - y_k) + gamma h(y_k)."""
    run, k = round.run, round.k
    g, (y, own) = run.gamma(k), _before(run, k)
    moved = (1 - g) * _h(run, run.x[k - 1] - y, run.x_client[k - 1] - own)
    return le(0 * moved, moved, g * _h(run, y, own))


def _length(round: SlidingRound) -> Sides:
    """gamma^2 h(q_k - (z, z')) <= gamma beta/2 ||q_k - (z, z')||^2."""
    run, k = round.run, round.k
    g, server, clients = run.gamma(k), run.z[k] - run.z[k - 1], run.z_average[k] - run.z_client[k - 1]
    half = g * run.beta(k) / 2
    return le(g * g * _h(run, server, clients), half * _sq(server), half * _mean_sq(run, clients))


def _inner(round: SlidingRound) -> Sides:
    """gamma times the inner loop's bound against x*, in the mean over the clients."""
    run, k = round.run, round.k
    start, last, average = run.z_client[k - 1], run.z_client[k], run.z_average[k]
    g, beta, T, star = run.gamma(k), run.beta(k), run.steps(k), np.broadcast_to(_star(run), run.z_client[k].shape)

    def penalised(u: Any) -> Any:
        own = run.values(u) + (run.gradient[k] * u).sum(axis=1) + beta / 2 * ((u - start) ** 2).sum(axis=1)
        return own.sum(axis=0) / len(own)

    left = g * (penalised(average) - penalised(star))
    error = run.error(k)
    return le(
        left,
        g * beta / (T * (T + 3)) * _mean_sq(run, star - start),
        -g * run.c(k) * beta / 2 * _mean_sq(run, star - last),
        g * error.sum(axis=0) / len(error) + 0 * left,
        noise=run.noise,
    )


def _server(round: SlidingRound) -> Sides:
    """gamma times the server's projected step: <v, z_k - x*> <= beta/2 [||x* - z_{k-1}||^2 - ||x* - z_k||^2 - ||z_k - z_{k-1}||^2]."""
    run, k = round.run, round.k
    g, beta, (y, own), star = run.gamma(k), run.beta(k), _before(run, k), _star(run)
    pull = (y - own.sum(axis=0) / len(own)) / run.lam
    half = g * beta / 2
    return le(
        g * (pull * (run.z[k] - star)).sum(axis=0),
        half * _sq(star - run.z[k - 1]),
        -half * _sq(star - run.z[k]),
        -half * _sq(run.z[k] - run.z[k - 1]),
    )


# --- the end ----------------------------------------------------------------------------------------------------------------
def _unit(run: SlidingRun) -> Any:
    """Gamma_K 2/lambda = 4/(lambda K (K + 1))."""
    return 4 / (run.lam * run.K * (run.K + 1))


def _distances(e: Ended) -> Sides:
    """0 <= ||x* - z_K||^2 + sum_k (c(T_k) - c(T_{k+1})) ||x* - z'_k||^2, with c(T_{K+1}) = 0."""
    run, star = e.run, _star(e.run)
    c = [run.c(k) for k in range(1, run.K + 1)] + [run.lam * 0]
    parts = [(c[k - 1] - c[k]) * _mean_sq(run, star[None] - run.z_client[k]) for k in range(1, run.K + 1)]
    left, clients = _sq(star - run.z[-1]), sum(parts[1:], parts[0])
    return le(0 * left, _unit(run) * left, _unit(run) * clients)


def _three_halves(e: Ended) -> Sides:
    """(4 + 4 c(T_1)) ||x_0 - x*||^2 <= 10 ||x_0 - x*||^2, over lambda K (K + 1)."""
    run = e.run
    unit = _unit(run) / 4 * run.constants.distance_sq + 0 * run.excess_last
    return le((4 + 4 * run.c(1)) * unit, 10 * unit)


def _local_steps(e: Ended) -> Sides:
    """Gamma_K sum_k k mean E_i <= 8 D~/(lambda K (K + 1))."""
    run = e.run
    errors = [k * run.error(k).sum(axis=0)[0] / run.constants.N for k in range(1, run.K + 1)]
    left = sum(errors[1:], errors[0]) * 2 / (run.lam * 0 + run.K * (run.K + 1))
    zero = 0 * run.excess_last
    return le(left + zero, _unit(run) * 2 * run.constants.D + zero)


def _gap(e: Ended) -> Sides:
    """F(x_K) - F* <= Psi_K - F* + lambda G^2/2."""
    run = e.run
    own = run.values(run.x_client[-1]).sum(axis=0) / run.constants.N
    above = own + _h(run, run.x[-1], run.x_client[-1]) - run.least
    return le(run.excess_last, above, run.lam * run.constants.G_sq / 2 + 0 * above, noise=run.noise)


def _joint(e: Ended) -> Sides:
    """lambda G^2/2, with the root mean square of the G_i, and with a bound of the joint gradient."""
    run = e.run
    zero = 0 * run.excess_last
    return le(run.lam * run.constants.G_sq / 2 + zero, run.lam * run.constants.joint_G_sq / 2 + zero)


def _step(label: str, words: str, statement: str, form: str, sides: Callable[[Any], Sides], formula: str = "", over: str = "round",
          where: str = "") -> Step:  # fmt: skip
    weight = _arrives if over == "round" else _once
    part = "the recursion" if over == "round" else ""
    return Step(
        label, words, f"fedmls/{statement}" if statement else "", form, weight, sides, over, formula, part, where=where
    )


_STEPS = (
    _step(
        "inner loop", "local training nearly solves every client's proximal problem", "inner-loop", "repaired", _inner
    ),
    _step(
        "server step",
        "the server's projected step, against x*",
        "",
        "",
        _server,
        r"\langle v_k,z_k-x^*\rangle\le\tfrac{\beta_k}2[\|x^*-z_{k-1}\|^2-\|x^*-z_k\|^2-\|z_k-z_{k-1}\|^2],"
        r"\ v_k=\tfrac1\lambda(y_k-\bar y'_k)",
    ),
    _step(
        "losses convex",
        "x'_k is a mean of x'_{k-1} and the new point",
        "",
        "",
        _losses,
        r"f(x'_k)\le(1-\gamma_k)f(x'_{k-1})+\gamma_kf(\tilde u_k)",
    ),
    _step(
        "penalty convex",
        "the penalty lies above its tangent at y_k, at the old point and at x*",
        "",
        "",
        _penalty,
        r"0\le(1-\gamma_k)h(p_{k-1}-y_k)+\gamma_kh(y_k)",
    ),
    _step(
        "penalty smooth",
        "beta_k is larger than the penalty's curvature asks for",
        "",
        "",
        _length,
        r"\gamma_k^2h(q_k-(z_{k-1},z'_{k-1}))\le\tfrac{\gamma_k\beta_k}2\|q_k-(z_{k-1},z'_{k-1})\|^2",
    ),
    Step(
        "one round",
        "the lines above, added up for one round",
        "fedmls/recursion",
        "repaired",
        None,
        lambda round: _recursion(round),
    ),
    _step(
        "last distances",
        "the distances after the last round are not negative, and are dropped",
        "telescoped",
        "repaired",
        _distances,
        r"0\le\|x^*-z_K\|^2+\sum_k(c(T_k)-c(T_{k+1}))\|x^*-z'_k\|^2",
        "end",
        "where the distances at the end are dropped",
    ),
    _step(
        "c(T_1) is 3/2",
        "c(T_1) is at most 3/2, which makes the 10",
        "",
        "",
        _three_halves,
        r"(4+4c(T_1))\|x_0-x^*\|^2\le10\|x_0-x^*\|^2",
        "end",
        "where c(T_1) is taken for 3/2",
    ),
    _step(
        "local steps",
        "line 4 makes T_k large enough for 8 D~",
        "",
        "",
        _local_steps,
        r"\tfrac2{K(K+1)}\sum_kk\bar E_k\le\tfrac{8\tilde D}{\lambda K(K+1)}",
        "end",
        "in the number of local steps (line 4)",
    ),
    _step(
        "penalty gap",
        "clients and server may disagree: from Psi to F",
        "penalty-gap",
        "repaired",
        _gap,
        "",
        "end",
        "in the penalty gap",
    ),
)
_JOINT = _step(
    "joint G",
    "G is read as a bound of the joint gradient on R^{Nd}: its square is N times smaller",
    "",
    "",
    _joint,
    r"\tfrac{\lambda}2\cdot\tfrac1N\sum_iG_i^2\le\tfrac\lambda2\cdot\tfrac1{N^2}\sum_iG_i^2",
    "end",
)


def _recursion(round: SlidingRound) -> Sides:
    """One round of the outer loop against x*: what the lines above add up to."""
    run, k = round.run, round.k
    g, beta, star = run.gamma(k), run.beta(k), _star(run)

    def psi(i: int) -> Any:
        return (
            run.values(run.x_client[i]).sum(axis=0) / run.constants.N + _h(run, run.x[i], run.x_client[i]) - run.least
        )

    server = _sq(star - run.z[k - 1]) - _sq(star - run.z[k])
    client = _mean_sq(run, star[None] - run.z_client[k - 1]) - _mean_sq(run, star[None] - run.z_client[k])
    error = run.error(k).sum(axis=0) / run.constants.N
    return le(
        psi(k),
        (1 - g) * psi(k - 1),
        g * beta / 2 * server,
        run.c(k) * g * beta / 2 * client,
        g * error + 0 * server,
        noise=run.noise,
    )


_WITNESS = "fedmls-theorem-1-joint-g"
_SMALL = make_witness(
    "repaired",
    [["1", "-1"], ["1/2", "-2"], ["-1", "3"]],
    [["0", "1/2"], ["0", "0"], ["0", "-1"]],
    {"lam": "1/2", "D": "1/4", "radius": "1", "x0": "1"},
    3,
    label="three losses on an interval",
)
PROOFS = (
    Proof(
        "fedmls/theorem-1",
        "printed",
        (*_STEPS, _JOINT),
        course,
        replayed,
        witness=_WITNESS,
        note="the repaired proof with the G of the poster, a bound of the joint gradient, in T_k and in the bound",
    ),
    Proof(
        "fedmls/theorem-1",
        "repaired",
        _STEPS,
        course,
        replayed,
        witness=_SMALL,
        note="a slack in round k arrives at the end times k (k + 1)/(K (K + 1))",
    ),
)
