"""Zeros of Elastic Aggregation's mean motion under client sampling, in fractions.

Near a zero theta_infinity a round with cohort C takes e = theta - theta_infinity to
A_C e + eta zeta_C Delta_C, up to terms of second order. Here A_C = I + eta J_C, and J_C is the
derivative of zeta_C Delta_C at the zero. The mean of e is multiplied by A = E A_C. Its second
moments are taken by X -> E[A_C X A_C'], whose eigenvalues are those of E[A_C (x) A_C]. That all of
them lie inside the unit circle is decided without computing one: Lyapunov's equation, a linear
system, is solved, and its solution must be positive definite.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # its optimize is loaded when first used

from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.rational import to_file
from fedtheory.theorems.elastic_aggregation import clients, drawn, of_a_problem
from fedtheory.theorems.elastic_aggregation.slopes import ratio_slopes
from fedtheory.theory import Draws, Fact, derived, number, whole
from fedtheory.theory.rounds import linear_algebra

ALIVE = Fact("some sensitivity in every cohort", lambda q: not q.dead)
ALL = Fact("all clients in every round", lambda q: len(q.counts) == q.P)
EQUAL = Fact("as many samples at every client", lambda q: len(set(q.counts)) == 1)
PAIR = Fact("two clients, one a round", lambda q: q.pair)
FOLLOWS = Fact("sensitivity that follows curvature", lambda q: q.pair and q.follows)
BETWEEN = Fact("sensitivity against curvature, not beyond it", lambda q: q.pair and q.between)
LOCAL_STEPS = Fact("several local steps", lambda q: q.E > 1)
TWO = Fact("two parameters, each sensitive by itself", lambda q: len(q.theta) == 2 and q.plain)
SMOOTH = Fact(
    "a derivative of zeta: in every cohort some sensitivity, none that passes 0, and one "
    "coordinate with the largest", lambda q: q.slopes is not None,
)
ATTRACTS = Fact("small steps lead to it", lambda q: q.slopes is not None and q.X is not None)
PLAIN = Fact("diagonal Hessians and Gram matrices, and no theta_i = 0", lambda q: q.plain)
STABLE_STEP = Fact("eta (1 + tau) L < 2 in every cohort", lambda q: q.eta * (1 + q.tau) * q.L < 2)

MOST_COHORTS, MOST_LINEARISED = 200, 4
SETTLED = 1e-5  # of theta: by so little the mean motion moves it where Newton's steps begin
ONE_CLIENT = "least squares; where cohorts take part, one client at least that is strongly convex"


def mean(values: np.ndarray) -> Any:
    """The mean over the cohorts, which stand first."""
    return values.sum(axis=0) / Fraction(len(values))


@dataclass(kw_only=True)
class Cohorts(clients.QuadraticClients):
    """Rounds of P of the N clients, all such cohorts alike, from a zero of the mean motion.

    theta is where E[zeta * Delta] is 0.
    """

    kind, family = "sampled", "elastic aggregation, sampled"
    about = "about where its mean motion is 0 when some clients take part"
    asks: ClassVar[tuple[str, ...]] = (
        of_a_problem.MODEL, ONE_CLIENT, "cohorts of P clients drawn uniformly", "tau > 0",
    )
    example = "--problem axes --clients 2 --dimension 2 --participants 1"
    takes = (*clients.ElasticWorld.takes, "participants")

    c: np.ndarray = number("M d", "minimisers of all but the last, who makes theta the zero")
    P: int = whole(1)

    pair = derived(
        lambda q: q.has(EQUAL) and len(q.counts) == 2 and q.P == 1 and q.diagonal,
        "True of two clients with as many samples and diagonal Hessians, one a round",
    )

    @property
    def follows(self) -> bool:
        """True if no client of more curvature counts for more, of two in each coordinate."""
        h, v = np.diagonal(self.H, axis1=1, axis2=2), self.v
        return ((h[0] - h[1]) * (v[0] - v[1]) <= 0).all()

    @property
    def between(self) -> bool:
        """True if one of more curvature counts for more, by no more than m_k v_k against h_k."""
        h, m = (np.diagonal(A, axis1=1, axis2=2) for A in (self.H, self.M))
        v, mv, i = self.v, m * self.v, np.arange(len(self.theta))
        a = np.where(h[0] >= h[1], 0, 1)  # the client of more curvature in each coordinate
        b = 1 - a
        return ((v[b, i] <= v[a, i]) & (mv[a, i] * h[b, i] <= mv[b, i] * h[a, i])).all()

    plain = derived(
        lambda q: q.diagonal and clients.diagonal(q.S) and all(q.theta != 0),
        "True if all Hessians and Gram matrices are diagonal, and no theta_i is 0",
    )
    members = derived(
        lambda q: np.array(list(combinations(range(len(q.counts)), q.P))), "All cohorts (C, P)"
    )

    @cached_property
    def weights(self) -> np.ndarray:
        """w_k (C, N) of every cohort, over all clients."""
        inside = (self.members[:, :, None] == np.arange(len(self.counts))).any(axis=1)
        shares = self.counts * inside.astype(int)
        return shares / shares.sum(axis=1, keepdims=True)

    @property
    def dead(self) -> list[tuple[int, ...]]:
        """The cohorts that see no sensitivity at theta."""
        omega = self.sensitivities(self.theta)
        return [tuple(cohort) for cohort in self.members.tolist() if omega[cohort].max() == 0]

    drift = derived(
        lambda q: mean(q.after(q.theta, q.members) - q.theta) / q.eta,
        "E[zeta * Delta] (d,), the mean move of the method's round from theta, over eta",
    )

    def mean_update(self, x: np.ndarray) -> np.ndarray:
        """E Delta (d,)."""
        return self.u @ self.updates(x)

    cohort_zeta = derived(lambda q: q.zetas(q.theta, q.members), "zeta (C, d) of every cohort")
    cohort_updates = derived(
        lambda q: q.weights @ q.updates(q.theta), "Delta_C (C, d) of every cohort at theta"
    )
    mean_abs_update = derived(lambda q: mean(abs(q.cohort_updates)), "E |Delta| (d,)")

    @cached_property
    def slopes(self) -> list[tuple[int, np.ndarray]] | None:
        """`ratio_slopes` of every cohort, or None where one of them has none."""
        found = [ratio_slopes(self.S, self.theta, w) for w in self.weights]
        return None if any(f is None for f in found) else found  # type: ignore[return-value]

    cohort_M = derived(
        lambda q: np.tensordot(q.weights, q.M, 1), "M_C = sum_k w_k M_k (C, d, d) of every cohort"
    )

    @cached_property
    def cohort_J(self) -> np.ndarray:
        """J_C (C, d, d) of every cohort, the derivative of zeta_C Delta_C in theta."""
        slopes = np.stack([slope for _, slope in self.slopes or []])
        left = self.cohort_zeta[:, :, None] * self.cohort_M
        return -left - self.cohort_updates[:, :, None] * slopes

    J = derived(
        lambda q: mean(q.cohort_J), "The derivative (d, d) of the mean motion E[zeta * Delta]"
    )
    M_mean = derived(lambda q: np.tensordot(q.u, q.M, 1), "sum_k u_k M_k (d, d)")
    pull = derived(
        lambda q: (q.v * np.diagonal(q.M, axis1=1, axis2=2)).sum(axis=0),
        "A (d,): what the mean motion loses with theta_i while zeta stays, for diagonal H_k",
    )
    push = derived(  # what the mean motion loses with zeta, for diagonal S_k
        lambda q: q.q.sum(axis=1),
        "q (d,): E[Delta^i Omega^i/Omega'; i is not the most sensitive]/theta_i",
    )

    @property
    def q(self) -> np.ndarray:
        """q_ij (d, d): E[Delta^i Omega^i/Omega'; j is the most sensitive]/theta_i, 0 where j = i.

        For diagonal S_k where no theta_i is 0.
        """
        total = 0 * linear_algebra.identity(len(self.theta))
        parts = self.cohort_updates * (1 + self.tau - self.cohort_zeta) / self.theta
        for (a, _), part in zip(self.slopes or [], parts, strict=True):
            part[a] = Fraction(0)
            total[:, a] += part
        return total / Fraction(len(parts))

    mean_zeta = derived(lambda q: mean(q.cohort_zeta), "E zeta (d,)")
    u = derived(
        lambda q: mean(q.weights), "E w_k (N,): what a client counts for in naive aggregation"
    )
    v = derived(
        lambda q: mean(q.weights[:, :, None] * q.cohort_zeta[:, None, :]),
        "E[w_k zeta] (N, d): what a client counts for here",
    )
    fedavg = derived(lambda q: q.balance(q.M, q.u[:, None, None]), "The point where E Delta = 0")

    # --- instances --------------------------------------------------------------------------------
    @classmethod
    def made(cls, *args: Any, **values: Any) -> Self:
        """Make an instance in which the last client's minimiser makes theta the zero."""
        n, c, theta = len(values["H"]), values["c"], values["theta"]
        if n < 2 or values["P"] > n or len(c) != n - 1 or values["tau"] <= 0:
            raise InvalidInput(
                "P clients of N >= 2, tau > 0, and c with one row for every client but the last"
            )
        # with the last client's minimiser at theta, which M and v do not depend on
        found = super().made(**{**values, "c": np.concatenate([c, theta[None]])})
        rest = (found.v * found.updates(theta)).sum(axis=0)
        try:
            found.c[-1] = theta + linear_algebra.solve(found.M[-1], -rest / found.v[-1])
        except InvalidInput as error:
            raise InvalidInput(
                f"H[{n - 1}] = {to_file(found.H[-1])} is singular, and no minimiser of the last "
                "client makes theta a zero of the mean motion: "
                "put a client last whose Hessian is not singular"
            ) from error
        return found

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> dict[str, Any]:
        """Give the data of a zero of the mean motion E[zeta * Delta] over all cohorts of P clients.

        It is found in floats. The last client's minimiser is then moved by what rounding left. So
        theta is a zero to the last bit of a problem that is the user's up to that. A larger move is
        refused.
        """
        algorithm, N, sampling = case.algorithm, case.problem.num_clients, case.sampling
        if not isinstance(sampling, Full | Uniform | None):
            raise InvalidInput(
                f"{type(sampling).__name__}: the statement is about cohorts of P clients, "
                "all alike; use Uniform(P)"
            )
        P = sampling.size if isinstance(sampling, Uniform) else N
        many = comb(N, P)
        of_a_problem.check_size(many, MOST_COHORTS, f"{many} cohorts of {P} clients")
        if N < 2 or not algorithm.tau > 0:
            raise InvalidInput(
                f"N = {N}, tau = {algorithm.tau:g}: at least two clients and tau > 0 are needed"
            )
        if algorithm.aggregation == "printed":
            raise InvalidInput(
                "aggregation = 'printed': a cohort's weights do not sum to 1; "
                "use 'samples' or 'cohort'"
            )
        data = _singular_first(of_a_problem.sensitive(case) | of_a_problem.quadratics(case))
        theta = _zero(data, P, case.x0 if case.x0.any() else None)
        own = data["c"][-1]
        data |= {"theta": of_a_problem.exact(theta), "c": data["c"][:-1], "P": P}
        view = Cohorts.from_data(to_file(data))
        if view.dead and algorithm.zero != "one":
            raise InvalidInput(
                f"zero = {algorithm.zero!r}, and clients {view.dead[0]} see no sensitivity: "
                "the statements are about zeta = 1 there, so use zero='one'"
            )
        off = float(max(abs(view.c[-1] - own)))
        if not off <= 1e-8 * (1 + float(max(abs(own)))):
            raise NotCertified(
                f"the zero is one of a problem whose last client's minimiser is {off:.3g} away: "
                "known too coarsely"
            )
        return data


@dataclass(kw_only=True)
class Linearised(Cohorts):
    """A zero of the mean motion, with the linear part of a round of server's step eta near it."""

    kind, family = "linearised", "elastic aggregation, linearised"
    share = 0.5  # its instances take longer
    about = "about whether a zero of its mean motion attracts"
    asks = (*Cohorts.asks, "at most four parameters")

    L = derived(
        lambda q: abs(q.cohort_M).sum(axis=2).max(),
        "At least every M_C's largest eigenvalue (Gershgorin), and exactly that if diagonal",
    )
    one = derived(lambda q: linear_algebra.identity(len(q.theta)), "The identity (d, d)")

    def in_mean(self, eta: Any) -> bool:
        """True if the spectral radius of I + eta J is below 1."""
        return linear_algebra.contracts([self.one + eta * self.J])

    def in_mean_square(self, eta: Any) -> bool:
        """True if the spectral radius of E[A_C (x) A_C] is below 1."""
        return linear_algebra.contracts([self.one + eta * J for J in self.cohort_J])

    @cached_property
    def X(self) -> np.ndarray | None:
        """X > 0 (d, d) with J' X + X J = -I, or None.

        There is one exactly where all eigenvalues of J have negative real parts.
        """
        found = linear_algebra.lyapunov(lambda X: -(self.J.T @ X + X @ self.J), len(self.theta))
        return found if found is not None and linear_algebra.semidefinite(found) else None

    longest = derived(
        lambda q: Fraction(len(q.cohort_J)) / sum((J.T @ q.X @ J).trace() for J in q.cohort_J),
        "1/tr E[J_C' X J_C]",
    )

    def dominated(self, share: Any) -> bool:
        """True if A_i > share sum_j max(0, -q_ij) for all i."""
        return all(self.pull > share * np.maximum(0, -self.q).sum(axis=1))

    def second_moment(self, distance: Any) -> Any:
        """E (theta+ - theta_infinity)^2 of a round, for one parameter.

        It starts from theta_infinity - distance or + distance, with equal chances.
        """
        starts = self.theta - distance, self.theta + distance
        ends = np.concatenate([self.after(at, self.members) for at in starts])
        return ((ends - self.theta) ** 2).sum() / len(ends)

    m = derived(lambda q: q.cohort_M[:, 0, 0], "m_C of every cohort, for one parameter")
    mean_square_update = derived(
        lambda q: mean(q.cohort_updates[:, 0] ** 2), "E Delta_C^2 at the zero, for one parameter"
    )

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> dict[str, Any]:
        """Give the data of a zero for few parameters: d (d + 1)/2 equations are solved exactly."""
        if case.problem.dim > MOST_LINEARISED:
            raise MissingCapability(
                f"d = {case.problem.dim} parameters, at most {MOST_LINEARISED} are judged, "
                "as second moments in fractions take long: use fewer features"
            )
        return super().on_problem(statement, case)


# --- the zero of a user's problem -----------------------------------------------------------------
def _zero(data: dict[str, Any], P: int, start: np.ndarray | None) -> np.ndarray:
    """Find theta in floats with E[zeta * Delta] = 0 over all cohorts of P.

    It follows the mean motion from FedAvg's end or from x0, which must settle.
    """
    counts, H, S, c = (np.array(data[k], dtype=float) for k in ("counts", "H", "S", "c"))
    tau, lr, origin = float(data["tau"]), float(data["lr"]), np.zeros(c.shape[1])
    those = clients.QuadraticClients(
        counts=counts, H=H, S=S, c=c, theta=origin, tau=tau, eta=1.0, lr=lr, E=data["E"]
    )
    members = np.array(list(combinations(range(len(counts)), P)))

    of_cohorts = those.clients(members)

    def motion(theta: np.ndarray) -> np.ndarray:
        return (those.after(theta, members, clients=of_cohorts) - theta).mean(axis=0)

    w, theta = counts / counts.sum(), start
    mean = np.einsum("n,nij->ij", w, those.M)
    if theta is None:
        theta = np.linalg.solve(mean, np.einsum("n,nij,nj->i", w, those.M, c))
    longest = (1 + tau) * np.linalg.eigvalsh(mean).max()
    for _ in range(200):
        step = motion(theta) / longest
        theta = theta + step
        if np.abs(step).max() <= SETTLED * np.abs(theta).max():
            break
    found = scipy.optimize.root(motion, theta, tol=1e-14)
    residual = float(np.abs(motion(found.x)).max())
    if not residual <= 1e-10 * (1 + float(np.abs(c).max())):
        raise NotCertified(
            f"a zero of the mean motion is known to {residual:.3g} only; start elsewhere (x0)"
        )
    return found.x


def _singular_first(data: dict[str, Any]) -> dict[str, Any]:
    """Order the clients so that the last one's Hessian is not singular.

    They stay as they are where it is not. One that is not singular must be among them.
    """
    regular = [k for k, h in enumerate(data["H"]) if linear_algebra.determinant(h) != 0]
    if not regular:
        raise InvalidInput(
            "every client has fewer independent samples than parameters: "
            "add a ridge, or give one client more samples"
        )
    order = [k for k in range(len(data["H"])) if k != regular[-1]] + [regular[-1]]
    return data | {name: [data[name][k] for k in order] for name in ("H", "S", "c", "counts")}


# --- random instances -----------------------------------------------------------------------------
def _sampled(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    shape = rng.integers(6)
    if shape <= 1:
        n = 2
    data = drawn.clients(rng, n, d)
    if shape <= 1:  # two clients of diagonal curvature; one a round
        H = drawn.rows(rng, n, d, drawn.positive)
        S = H if shape == 0 else drawn.rows(rng, n, d, drawn.positive)
        data |= {"H": H, "counts": [Fraction(1)] * n, "S": S, "lr": drawn.step(rng, H)}
    elif shape == 2 and d > 1:  # each client sensitive in another coordinate
        data["S"] = [
            [drawn.positive(rng) if i % n == k else Fraction(0) for i in range(d)] for k in range(n)
        ]
    data["theta"] = [v or Fraction(1) for v in data["theta"]]
    P = 1 if shape <= 2 else int(rng.integers(1, n + 1))
    return f"N={n} P={P} d={d}", data | {"c": drawn.rows(rng, n - 1, d), "P": P}


def _sampled_gram(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    data = drawn.of_samples(rng, 2)
    n, d = len(data["H"]), len(data["theta"])
    data |= {"c": data["c"][:-1], "P": int(rng.integers(1, n + 1))}
    return f"samples N={n} P={data['P']} d={d}", data


def _mirrored(rng: np.random.Generator) -> dict[str, Any]:
    """Two clients, each the other's mirror image, one a round, near a limit of attraction.

    Client 1 is most sensitive in coordinate 1, and by r of that in coordinate 2. At theta = (1, 1)
    A = tau + (1 - r)/2 and q = x r/2, where x is coordinate 1's update by client 2. Client 1's
    update -x (1 + tau - r)/tau makes the zero. -J has the eigenvalues A and A + 2q.
    """
    tau, r = Fraction(int(rng.integers(1, 5)), 4), Fraction(int(rng.integers(1, 4)), 4)
    eta, A = Fraction(int(rng.integers(8, 16)), 8) / (1 + tau), tau + (1 - r) / 2
    if rng.random() < 0.4:  # A > 1.95 |q|: it repels; or 2.05 |q|: it attracts
        q = -20 * A / int(rng.choice([39, 41]))
    else:  # eta (A + 2q) on both sides of 2
        q = (Fraction(int(rng.choice([31, 33])), 16) / eta - A) / 2
    one, x = Fraction(1), 2 * q / r
    return {
        "counts": [one, one], "H": [[one, one]] * 2, "S": [[one, r], [r, one]],
        "c": [[one - x * (1 + tau - r) / tau, one + x]], "theta": [one, one], "tau": tau,
        "lr": one, "E": 1, "P": 1, "eta": eta,
    }


def _linearised(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    shape = rng.integers(8)
    if shape in (0, 5):
        label, data = "mirrored", _mirrored(rng)
    elif shape == 1:
        label, data = _sampled_gram(rng)
    elif shape in (2, 3):  # one parameter, often clients of one curvature
        n, alike = int(rng.integers(2, 4)), shape == 2
        H = [[drawn.positive(rng)]] * n if alike else drawn.rows(rng, n, 1, drawn.positive)
        data = drawn.clients(rng, n, 1) | {
            "H": H, "S": drawn.rows(rng, n, 1, drawn.positive),
            "theta": [drawn.signed(rng) or Fraction(1)], "lr": drawn.step(rng, H),
            "c": drawn.rows(rng, n - 1, 1), "P": int(rng.integers(1, n + 1)),
        }
        label = f"N={n} P={data['P']} d=1"
    elif shape == 4:  # all take part, the steepest parameter is not sensitive
        n = int(rng.integers(2, 4))
        label, data = f"all of {n}", drawn.clients(rng, n, 2) | {
            "H": [[Fraction(4), drawn.positive(rng, 1)]] * n,
            "S": [[Fraction(0), drawn.positive(rng)] for _ in range(n)],
            "lr": Fraction(1, 8), "theta": [Fraction(1), Fraction(2)],
            "c": [[drawn.signed(rng)] * 2 for _ in range(n - 1)], "P": n,
        }
    else:
        label, data = _sampled(rng)
    return label, {"eta": Fraction(int(rng.integers(1, 17)), 8), **data}


Cohorts.draws = (
    Draws("elastic aggregation battery sampled", _sampled, 160),
    Draws("elastic aggregation battery sampled, samples", _sampled_gram, 24),
)
Linearised.draws = (Draws("elastic aggregation battery linearised", _linearised, 60),)
