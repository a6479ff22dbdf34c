r"""The proof of FedMLS's Theorem 1 as a chain of steps, printed and repaired.

Psi(x, x') = mean_i f_i(x'_i) + h(x, x') with the penalty h = mean_i ||x - x'_i||^2/(2 lambda), a
quadratic. Round k moves p_{k-1} = (x_{k-1}, x'_{k-1}) to p_k = (1 - gamma) p_{k-1} + gamma q_k with
q_k = (z_k, u~_k), and linearises h at y_k = (1 - gamma) p_{k-1} + gamma (z_{k-1}, z'_{k-1}). With
every term written out,

    slack of the recursion = [losses are convex] + (1 - gamma) h(p_{k-1} - y_k) + gamma h(y_k)
        + [gamma beta/2 ||s||^2 - gamma^2 h(s)] + gamma [inner loop] + gamma [server's projection]

with s = q_k - (z_{k-1}, z'_{k-1}), for h is a quadratic that vanishes at (x*, x*). Times
Gamma_K/Gamma_k = k (k + 1)/(K (K + 1)) and summed, what is left are the distances at the end, which
the proof drops, c(T_1) <= 3/2, the local steps of line 4, which are enough for 8 D~, and the
penalty gap.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtheory.theorems.fedmls.courses import course, replayed
from fedtheory.theorems.fedmls.quantities import MLSView
from fedtheory.theorems.fedmls.theorem_1_proof import inner_terms, points, recursion_terms, sq
from fedtheory.theory import Sides, Witness
from fedtheory.theory.judge.proof import Proof, Step
from fedtheory.theory.judge.statement import le


def _arrives(run: MLSView) -> Any:
    """Gamma_K/Gamma_k of every round: (K,)."""
    k = run.k[:, 0]
    return k * (k + 1) / (run.K * (run.K + 1))


def _once(run: MLSView) -> Any:
    return 1


# --- all rounds, the first axis -------------------------------------------------------------------
def _before(run: MLSView) -> tuple[Any, Any]:
    """y_k: (K, d, S) and (K, N, d, S)."""
    g = run.gamma[:, None]
    server = (1 - g) * run.x[:-1] + g * run.z[:-1]
    return server, (1 - g[:, None]) * run.x_client[:-1] + g[:, None] * run.z_client[:-1]


def _star(run: MLSView) -> Any:
    return run.points[0][:, None]


def _losses(run: MLSView) -> Sides:
    """f(x'_k) <= (1 - gamma) f(x'_{k-1}) + gamma f(u~_k)."""
    points = run.x_client[1:], run.x_client[:-1], run.z_average[1:]
    after, before, new = (run.values(u).mean(axis=1) for u in points)
    return le(after, (1 - run.gamma) * before, run.gamma * new, noise=run.noise)


def _penalty(run: MLSView) -> Sides:
    """0 <= (1 - gamma) h(p_{k-1} - y_k) + gamma h(y_k)."""
    y, own = _before(run)
    moved = (1 - run.gamma) * run.penalty(run.x[:-1] - y, run.x_client[:-1] - own)
    return le(0 * moved, moved, run.gamma * run.penalty(y, own))


def _length(run: MLSView) -> Sides:
    """gamma^2 h(q_k - (z, z')) <= gamma beta/2 ||q_k - (z, z')||^2."""
    server, clients = run.z[1:] - run.z[:-1], run.z_average[1:] - run.z_client[:-1]
    left, half = run.gamma**2 * run.penalty(server, clients), run.gamma * run.beta / 2
    return le(left, half * sq(server), half * run.mean_sq(clients))


def _inner(run: MLSView) -> Sides:
    """gamma times the inner loop's bound against x*, in the mean over the clients."""
    left, *right = (run.gamma * term[0].mean(axis=1) for term in inner_terms(run, points(run)[:1]))
    return le(left, *right, noise=run.noise)


def _server(run: MLSView) -> Sides:
    """gamma times the server's projected step.

    <v, z_k - x*> <= beta/2 [||x* - z_{k-1}||^2 - ||x* - z_k||^2 - ||z_k - z_{k-1}||^2].
    """
    (y, own), star, half = _before(run), _star(run), run.gamma * run.beta / 2
    pull, before, after = (y - own.mean(axis=1)) / run.lam, run.z[:-1], run.z[1:]
    left = run.gamma * (pull * (after - star)).sum(axis=-2)
    return le(left, half * sq(star - before), -half * sq(star - after), -half * sq(after - before))


def _recursion(run: MLSView) -> Sides:
    """One round of the outer loop against x*: the sum of the lines above."""
    return le(*(term[0] for term in recursion_terms(run, points(run)[:1])), noise=run.noise)


# --- the end --------------------------------------------------------------------------------------
def _unit(run: MLSView) -> Any:
    """Gamma_K 2/lambda = 4/(lambda K (K + 1))."""
    return 4 / (run.lam * run.K * (run.K + 1))


def _distances(run: MLSView) -> Sides:
    """0 <= ||x* - z_K||^2 + sum_k (c(T_k) - c(T_{k+1})) ||x* - z'_k||^2, with c(T_{K+1}) = 0."""
    star = _star(run)
    smaller = run.c - np.concatenate([run.c[1:], 0 * run.c[:1]])
    left = sq(star - run.z[-1])
    clients = (smaller * run.mean_sq(star - run.z_client[1:])).sum(axis=0)
    return le(0 * left, _unit(run) * left, _unit(run) * clients)


def _three_halves(run: MLSView) -> Sides:
    """(4 + 4 c(T_1)) ||x_0 - x*||^2 <= 10 ||x_0 - x*||^2, over lambda K (K + 1)."""
    unit = _unit(run) / 4 * run.constants.distance_sq
    return le((4 + 4 * run.c[0]) * unit, 10 * unit)


def _local_steps(run: MLSView) -> Sides:
    """Gamma_K sum_k k mean E_i <= 8 D~/(lambda K (K + 1))."""
    errors = (run.k * run.inner_errors.mean(axis=1)).sum(axis=0) * 2 / (run.K * (run.K + 1))
    return le(errors, _unit(run) * 2 * run.constants.D)


def _gap(run: MLSView) -> Sides:
    """F(x_K) - F* <= Psi_K - F* + lambda G^2/2."""
    above = run.Psi[-1] - run.Psi_targets[0]
    gap = run.lam * run.constants.G_sq / 2
    return le(run.last_excess[0], above, gap + 0 * above, noise=run.noise)


def _joint(run: MLSView) -> Sides:
    """lambda G^2/2, with the root mean square of the G_i, and a bound of the joint gradient."""
    half = run.lam / 2
    return le(half * run.constants.G_sq, half * run.constants.joint_G_sq)


def _step(
    label: str, words: str, sides: Callable[[Any], Sides], formula: str = "", statement: str = "",
    over: str = "rounds", where: str = "",
) -> Step:  # fmt: skip
    named = (f"fedmls/{statement}", "repaired") if statement else ("", "")
    weight, part = (_arrives, "the recursion") if over == "rounds" else (_once, "")
    return Step(label, words, *named, weight, sides, over, formula, part, where=where)


_STEPS = (
    _step(
        "inner loop", "local training nearly solves every client's proximal problem", _inner,
        statement="inner-loop",
    ),
    _step(
        "server step", "the server's projected step, against x*", _server,
        r"\langle v_k,z_k-x^*\rangle\le\tfrac{\beta_k}2[\|x^*-z_{k-1}\|^2-\|x^*-z_k\|^2"
        r"-\|z_k-z_{k-1}\|^2],\ v_k=\tfrac1\lambda(y_k-\bar y'_k)",
    ),
    _step(
        "losses convex", "x'_k is a mean of x'_{k-1} and the new point", _losses,
        r"f(x'_k)\le(1-\gamma_k)f(x'_{k-1})+\gamma_kf(\tilde u_k)",
    ),
    _step(
        "penalty convex", "the penalty lies above its tangent at y_k, at the old point and at x*",
        _penalty, r"0\le(1-\gamma_k)h(p_{k-1}-y_k)+\gamma_kh(y_k)",
    ),
    _step(
        "penalty smooth", "beta_k is larger than the penalty's curvature asks for", _length,
        r"\gamma_k^2h(q_k-(z_{k-1},z'_{k-1}))\le\tfrac{\gamma_k\beta_k}2"
        r"\|q_k-(z_{k-1},z'_{k-1})\|^2",
    ),
    Step(
        "one round", "the lines above, added up for one round", "fedmls/recursion", "repaired",
        None, _recursion, "rounds",
    ),
    _step(
        "last distances", "the distances after the last round are not negative, and are dropped",
        _distances, r"0\le\|x^*-z_K\|^2+\sum_k(c(T_k)-c(T_{k+1}))\|x^*-z'_k\|^2", "telescoped",
        "end", "where the distances at the end are dropped",
    ),
    _step(
        "c(T_1) is 3/2", "c(T_1) is at most 3/2, which makes the 10", _three_halves,
        r"(4+4c(T_1))\|x_0-x^*\|^2\le10\|x_0-x^*\|^2", "", "end", "where c(T_1) is taken for 3/2",
    ),
    _step(
        "local steps", "line 4 makes T_k large enough for 8 D~", _local_steps,
        r"\tfrac2{K(K+1)}\sum_kk\bar E_k\le\tfrac{8\tilde D}{\lambda K(K+1)}", "", "end",
        "in the number of local steps (line 4)",
    ),
    _step(
        "penalty gap", "clients and server may disagree: from Psi to F", _gap, "", "penalty-gap",
        "end", "in the penalty gap",
    ),
)  # fmt: skip
_JOINT = _step(
    "joint G",
    "G is read as a bound of the joint gradient on R^{Nd}: its square is N times smaller", _joint,
    r"\tfrac{\lambda}2\cdot\tfrac1N\sum_iG_i^2\le\tfrac\lambda2\cdot\tfrac1{N^2}\sum_iG_i^2",
    over="end",
)  # fmt: skip



_SMALL = Witness(
    "fedmls/theorem-1", "repaired", "deterministic", MLSView.kind,
    {
        "variant": "repaired", "slopes": [["1", "-1"], ["1/2", "-2"], ["-1", "3"]],
        "offsets": [["0", "1/2"], ["0", "0"], ["0", "-1"]], "lam": "1/2", "D": "1/4",
        "radius": "1", "x0": "1", "rounds": 3,
    },
    label="three losses on an interval",
)  # fmt: skip
PROOFS = (
    Proof(
        "fedmls/theorem-1", "printed", (*_STEPS, _JOINT), course, replayed,
        witness="fedmls-theorem-1-joint-g",
        note="the repaired proof with the G of the poster, a bound of the joint gradient, in T_k "
        "and in the bound",
    ),
    Proof(
        "fedmls/theorem-1", "repaired", _STEPS, course, replayed, witness=_SMALL,
        note="a slack in round k arrives at the end times k (k + 1)/(K (K + 1))",
    ),
)  # fmt: skip
