"""FedMLS in fractions: a run of Algorithm 1 and both sides of every form of its statements, written
from the poster's pseudocode and the forms' formulas with the standard library alone.
`worked_fedmls_instances` has the instances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction as Q
from math import ceil, sqrt

Vector = tuple[Q, ...]
Client = list[tuple[Vector, Q]]  # f(x) = max over (slope, offset) of <slope, x> + offset; at a tie the first
Noise = Callable[[int, int, int], Vector]  # (round k, step t, client i)


# --- vectors --------------------------------------------------------------------------------------
def add(*terms: tuple[Q | int, Vector]) -> Vector:
    """The linear combination of (coefficient, vector)."""
    return tuple(sum((Q(c) * v[j] for c, v in terms), Q(0)) for j in range(len(terms[0][1])))


def dot(u: Vector, v: Vector) -> Q:
    return sum((a * b for a, b in zip(u, v, strict=True)), Q(0))


def distance_sq(u: Vector, v: Vector) -> Q:
    return sum(((a - b) ** 2 for a, b in zip(u, v, strict=True)), Q(0))


def mean(values: list[Q]) -> Q:
    return sum(values, Q(0)) / len(values)


def mean_vector(vectors: list[Vector]) -> Vector:
    return add(*[(Q(1, len(vectors)), v) for v in vectors])


def value(client: Client, x: Vector) -> Q:
    return max(dot(a, x) + b for a, b in client)


def subgradient(client: Client, x: Vector) -> Vector:
    best = value(client, x)
    return next(a for a, b in client if dot(a, x) + b == best)


def into_ball(u: Vector, radius: Q) -> Vector:
    """u min(1, R/||u||): u itself inside; outside it is a fraction in one dimension only."""
    size_sq = dot(u, u)
    if size_sq <= radius**2:
        return u
    if len(u) > 1:
        raise ValueError(f"{u} is outside the ball of radius {radius}: its projection is no fraction")
    return (radius if u[0] > 0 else -radius,)


# --- Algorithm 1 ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Instance:
    """lam, D, K, R, x_0, the losses, x*, G_i^2, sigma_i^2, and the points u at which 'for every u'
    is looked at (x* first)."""

    clients: list[Client]
    x0: Vector
    star: Vector
    lam: Q
    D: Q
    K: int
    R: Q
    G_sq_i: list[Q]
    sigma_sq_i: list[Q]
    others: tuple[Vector, ...] = ()
    noise: Noise | None = None
    line_14: str = "averaged"
    server_projection: bool = True
    share: int = 1  # clients step with grad f_i/share
    flat_prox: bool = False  # argmin_u f_i(u) + (beta/2) |u - w| in place of local training

    @property
    def points(self) -> list[Vector]:
        return [self.star, *self.others]

    @property
    def G_sq(self) -> Q:
        return mean(self.G_sq_i)

    @property
    def sigma_sq(self) -> Q:
        return mean(self.sigma_sq_i)

    @property
    def T(self) -> list[int]:
        """T_k = ceil((4 G^2 + sigma^2) lambda^2 K k^2/(2 D)), k = 1..K."""
        return [ceil((4 * self.G_sq + self.sigma_sq) * self.lam**2 * self.K * k**2 / (2 * self.D)) for k in range(1, self.K + 1)]

    @property
    def start_sq(self) -> Q:
        return distance_sq(self.x0, self.star)

    def F(self, x: Vector) -> Q:
        return mean([value(c, x) for c in self.clients])


@dataclass
class Run:
    """Round 0 first: x_k, z_k of the server; x'_k, z'_k, u~_T and g of each client."""

    x: list[Vector]
    z: list[Vector]
    x_client: list[list[Vector]]
    z_client: list[list[Vector]]
    average: list[list[Vector]]
    g: list[list[Vector]]


def run(p: Instance, last_training: bool = True) -> Run:
    """The poster's pseudocode, with the server's projection, line by line; x_K needs no local
    training in round K."""
    n, zero = len(p.clients), add((0, p.x0))
    r = Run([p.x0], [p.x0], [[p.x0] * n], [[p.x0] * n], [[zero] * n], [[zero] * n])  # line 2
    for k in range(1, p.K + 1):
        beta, gamma = 4 / (p.lam * k), Q(2, k + 1)  # line 4
        y_i = [add((1 - gamma, a), (gamma, b)) for a, b in zip(r.x_client[-1], r.z_client[-1], strict=True)]  # line 5
        y = add((1 - gamma, r.x[-1]), (gamma, r.z[-1]))  # line 8
        z = add((1, r.z[-1]), (-Q(k, 4), y), (Q(k, 4), mean_vector(y_i)))  # line 9
        z = into_ball(z, p.R) if p.server_projection else z
        r.x.append(add((1 - gamma, r.x[-1]), (gamma, z)))  # line 10
        r.z.append(z)
        if k == p.K and not last_training:
            break
        r.g.append([add((1 / p.lam, v), (-1 / p.lam, y)) for v in y_i])
        trained = [_train(p, k, i, r.g[-1][i], r.z_client[-1][i], beta) for i in range(n)]  # line 13
        chosen = [last if p.line_14 == "printed" else average for last, average in trained]
        r.x_client.append([add((1 - gamma, a), (gamma, c)) for a, c in zip(r.x_client[-1], chosen, strict=True)])  # line 14
        r.z_client.append([last for last, _ in trained])
        r.average.append([average for _, average in trained])
    return r


def _train(p: Instance, k: int, i: int, g: Vector, u_0: Vector, beta: Q) -> tuple[Vector, Vector]:
    if p.flat_prox:
        return (_flat_prox(p, i, add((1, u_0), (-1 / beta, g)), beta),) * 2
    u = average = u_0  # line 19
    for t in range(1, p.T[k - 1] + 1):
        theta = Q(2 * (t + 1), t * (t + 3))  # line 21
        s = subgradient(p.clients[i], u)
        if p.noise is not None:
            s = add((1, s), (1, p.noise(k, t, i)))
        s = add((Q(1, p.share), s))
        step = 1 / ((1 + Q(t, 2)) * beta)
        u = into_ball(add((1, u), (-step, s), (-step * beta, u), (step * beta, u_0), (-step, g)), p.R)  # lines 22-23
        average = add((1 - theta, average), (theta, u))  # line 24
    return u, average


def kinks(client: Client) -> Iterator[Q]:
    """Yield where two pieces cross, in one dimension."""
    for j, ((a,), b) in enumerate(client):
        for (a_2,), b_2 in client[:j]:
            if a != a_2:
                yield (b_2 - b) / (a - a_2)


def _flat_prox(p: Instance, i: int, w: Vector, beta: Q) -> Vector:
    at = [p.R, -p.R, *kinks(p.clients[i]), w[0]]  # a piecewise affine function is least at an end or a kink
    worth = {u: value(p.clients[i], (u,)) + beta / 2 * abs(u - w[0]) for u in at if abs(u) <= p.R}
    best = [u for u, v in worth.items() if v == min(worth.values())]
    if len(best) > 1:
        raise ValueError(f"the local problem has several minimisers, {best}: the run is not determined")
    return (best[0],)


# --- the steps of the proof -----------------------------------------------------------------------
def c(T: int) -> Q:
    return Q((T + 1) * (T + 2), T * (T + 3))


def H(n: int) -> Q:
    return sum((Q(1, j) for j in range(1, n + 1)), Q(0))


def E(p: Instance, k: int, i: int, kind: str) -> Q:
    """[8 G_i^2 (T + H_T) + 4 sigma_i^2 (T + 3/2 - H_{T+2})]/(beta T (T + 3)), or Lan's 8 (4
    G_i^2 + sigma_i^2)/(beta (T + 3))."""
    T, beta, g_sq, s_sq = p.T[k - 1], 4 / (p.lam * k), p.G_sq_i[i], p.sigma_sq_i[i]
    if kind == "Lan":
        return 8 * (4 * g_sq + s_sq) / (beta * (T + 3))
    return (8 * g_sq * (T + H(T)) + 4 * s_sq * (T + Q(3, 2) - H(T + 2))) / (beta * T * (T + 3))


def inner_loop(p: Instance, r: Run, kind: str = "sharp") -> list[tuple[Q, Q]]:
    """Phi_i(u~_T) - Phi_i(u) <= beta/(T(T+3)) ||u - u_0||^2 - (T+1)(T+2)/(T(T+3)) beta/2
    ||u - u_T||^2 + E_i, for u, k and i."""
    rows = []
    for u in p.points:
        for k in range(1, p.K + 1):
            T, beta = p.T[k - 1], 4 / (p.lam * k)
            for i, client in enumerate(p.clients):
                u_0, u_T, g = r.z_client[k - 1][i], r.z_client[k][i], r.g[k][i]

                def Phi(v, client=client, u_0=u_0, g=g, beta=beta):
                    return value(client, v) + dot(g, v) + beta / 2 * distance_sq(v, u_0)

                near = beta / (T * (T + 3)) * distance_sq(u, u_0)
                far = Q((T + 1) * (T + 2), T * (T + 3)) * beta / 2 * distance_sq(u, u_T)
                rows.append((Phi(r.average[k][i]) - Phi(u), near - far + E(p, k, i, kind)))
    return rows


def Psi(p: Instance, x: Vector, clients: list[Vector]) -> Q:
    """F(x') + ||x - x'||^2/(2 lambda), in the norm of the mean product."""
    f = mean([value(client, v) for client, v in zip(p.clients, clients, strict=True)])
    return f + mean([distance_sq(x, v) for v in clients]) / (2 * p.lam)


def recursion(p: Instance, r: Run) -> list[tuple[Q, Q]]:
    """Psi_k - Psi(u) <= (1 - gamma_k)(Psi_{k-1} - Psi(u)) + gamma_k beta_k/2
    [||u - z_{k-1}||^2 - ||u - z_k||^2 + c(T_k)(||u - z'_{k-1}||^2 - ||u - z'_k||^2)] + gamma_k E,
    for u and k."""
    rows = []
    for u in p.points:
        for k in range(1, p.K + 1):
            beta, gamma = 4 / (p.lam * k), Q(2, k + 1)
            before, after = (Psi(p, r.x[j], r.x_client[j]) - p.F(u) for j in (k - 1, k))
            server = distance_sq(u, r.z[k - 1]) - distance_sq(u, r.z[k])
            client = mean([distance_sq(u, v) for v in r.z_client[k - 1]]) - mean([distance_sq(u, v) for v in r.z_client[k]])
            error = mean([E(p, k, i, "sharp") for i in range(len(p.clients))])
            rows.append((after, (1 - gamma) * before + gamma * beta / 2 * (server + c(p.T[k - 1]) * client) + gamma * error))
    return rows


def telescoped(p: Instance, r: Run) -> list[tuple[Q, Q]]:
    """Psi_K - F(u) <= 2/(K(K+1)) [2/lambda (1 + c(T_1)) ||u - x_0||^2 + sum_k k E_k], for u."""
    psi, n = Psi(p, r.x[-1], r.x_client[-1]), len(p.clients)
    errors = sum((k * mean([E(p, k, i, "sharp") for i in range(n)]) for k in range(1, p.K + 1)), Q(0))
    rows = [(u, 2 / p.lam * (1 + c(p.T[0])) * distance_sq(u, p.x0)) for u in p.points]
    return [(psi - p.F(u), Q(2, p.K * (p.K + 1)) * (first + errors)) for u, first in rows]


def penalty_gap(p: Instance, r: Run) -> list[tuple[Q, Q]]:
    """F(x_k) <= Psi(x_k, x'_k) + lambda G^2/2, for k = 0..K."""
    return [(p.F(x), Psi(p, x, v) + p.lam * p.G_sq / 2) for x, v in zip(r.x, r.x_client, strict=True)]


def over_rounds(rows: list[tuple[Q, Q]], count: int) -> list[tuple[Q, Q]]:
    """The mean of the first `count` rows: with noise, u = x*, averaged over the rounds (and the
    clients)."""
    return [(mean([a for a, _ in rows[:count]]), mean([b for _, b in rows[:count]]))]


# --- Theorem 1 ------------------------------------------------------------------------------------
def kappa(T: int) -> Q:
    return (T + H(T)) / (T + 3)


def kappa_noise(T: int) -> Q:
    return (T + Q(3, 2) - H(T + 2)) / (T + 3)


def kappa_last(T: int, noise: bool = False) -> Q:
    """(T/8)[S_0/W_1 + sum_{j<T} (j+1) S_j/(W_j W_{j+1})], W_j = sum_{t>=j} (t+1), S_j = sum_{t>j}
    4(1 + 1/t).

    noise: 4(t+1)/(t+2) for 4(1 + 1/t).
    """

    def S(j: int) -> Q:
        return sum((4 * Q(t + 1, t + 2) if noise else 4 * (1 + Q(1, t)) for t in range(j + 1, T + 1)), Q(0))

    def W(j: int) -> int:
        return sum(t + 1 for t in range(j, T + 1))

    return Q(T, 8) * (S(0) / W(1) + sum(((j + 1) * S(j) / (W(j) * W(j + 1)) for j in range(1, T)), Q(0)))


def theorem_1(p: Instance, start: Q | int = 10, slack: Q | int = 8, G_sq: Q | None = None) -> Q:
    """(start ||x_0 - x*||^2 + slack D)/(lambda K (K+1)) + G^2 lambda/2."""
    return (start * p.start_sq + slack * p.D) / (p.lam * p.K * (p.K + 1)) + (p.G_sq if G_sq is None else G_sq) * p.lam / 2


def _trained(p: Instance) -> Q:
    """4 lambda/(K(K+1)) sum_{k<K} k^2/T_k [G^2 kappa(T_k) + sigma^2/2 kappa'(T_k)]."""
    terms = [Q(k * k, T) * (p.G_sq * kappa(T) + p.sigma_sq / 2 * kappa_noise(T)) for k, T in enumerate(p.T[:-1], start=1)]
    return 4 * p.lam / (p.K * (p.K + 1)) * sum(terms, Q(0))


def a_posteriori(p: Instance) -> Q:
    return (4 + 4 * c(p.T[0])) * p.start_sq / (p.lam * p.K * (p.K + 1)) + _trained(p) + p.lam * p.G_sq / 2


def large_k_e(p: Instance, x0_norm: Q) -> Q:
    """e = (4 + 4 c(T_1))(R + ||x_0||)^2/(lambda K (K+1)) + 4 lambda/(K(K+1)) sum ..."""
    return (4 + 4 * c(p.T[0])) * (p.R + x0_norm) ** 2 / (p.lam * p.K * (p.K + 1)) + _trained(p)


def large_k(p: Instance, x0_norm: Q) -> float:
    """lambda G^2/4 + G sqrt(lambda e/2) + e."""
    e = large_k_e(p, x0_norm)
    return float(p.lam * p.G_sq / 4 + e) + sqrt(p.G_sq * p.lam * e / 2)


def step_total(p: Instance) -> tuple[int, Q, int]:
    """sum_k T_k, and (4 G^2 + sigma^2) lambda^2 K/(2 D) K(K+1)(2K+1)/6 and K, between which and
    whose sum it is."""
    a = (4 * p.G_sq + p.sigma_sq) * p.lam**2 * p.K / (2 * p.D)
    return sum(p.T), a * p.K * (p.K + 1) * (2 * p.K + 1) / 6, p.K
