"""The worlds of EFL's elastic term: its limit, its fixed point, and whether a run settles.

Quadratic clients h_k (w - c_k)^2/2, coordinate by coordinate, all active, no compression, fixed
Fisher diagonals u_k. In a round client k makes E steps y <- y - eta (h_k (y - c_k) + lambda (U y -
V)) from the server's w, then w' = sum_k p^k y_k and V' = sum_k u_k y_k. The pair (w, V) follows an
affine recursion; whether it contracts does not depend on the minimisers c_k. A user's quadratics
whose coordinates mix are judged in floats.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.clients.fisher import client_fisher
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.rational import simplest, simplest_each
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.world import Clients
from fedtheory.theory import Case, Fact, derived, number, whole
from fedtheory.theory.draws import rows, shares, signed
from fedtheory.theory.rounds.linear_algebra import identity

LONG = 2000  # rounds of a run in floats, at least 1000
DIAGONALS = "Fisher diagonals that do not depend on the model, or u_0 given"
MATCHED = Fact(
    "u^k/p^k is the same for all clients, in every coordinate",
    lambda q: (q.u * q.weights[0] == q.u[0] * q.weights[:, None]).all(),
)
LEAVER = Fact("a client a has left", lambda q: q.leaver is not None)
STABLE = Fact(
    "the map (omega, V) -> (omega', V') of a round with the step eta has spectral radius < 1",
    lambda q: q.stable,
)
LONG_RUN = Fact(
    "T >= 1000 in floating point, and M^T, M the matrix of a round, leaves of the distance of "
    "(omega_0, V_0) from (omega_eta, V_eta) at most 10^-7 of the bracket",
    lambda q: q.stable and isinstance(q.eta, float) and q.rounds >= 1000 and q.contracts,
)
FRACTIONS = Fact("coordinates that do not mix", lambda q: q.H is None)
RUN = Fact(
    "a run of T >= 1 rounds, coordinate by coordinate", lambda q: q.H is None and q.rounds >= 1
)
DECAYS = Fact(
    "eta sum_k p^k h_k > 1/10 in every coordinate, and T >= t_0 + 2",
    lambda q: q.H is None and q.settled is not None,
)


def _times(H: np.ndarray, x: np.ndarray) -> np.ndarray:
    """H_k x_k (N, d), of diagonals (N, d) or of matrices (N, d, d)."""
    return H * x if H.ndim == 2 else (H * x[..., None, :]).sum(axis=-1)


@dataclass
class Elastic(Clients):
    """Quadratic clients with fixed Fisher diagonals and a constant step.

    Attributes
    ----------
    H : (N, d, d) where coordinates mix, and all is in floats; h is then their diagonal, which plays no part
    E : local steps of a round
    """

    method, local_steps = {"lam": 0.1}, 1
    E, H = 1, cast(Any, None)

    u: np.ndarray = number("N d", "Fisher diagonals", least=0)
    lam: Any = number(what="lambda", above=0)
    eta: Any = number(above=0)

    U = derived(lambda q: q.u.sum(axis=0))
    a = derived(lambda q: (q.weights[:, None] * q.h).sum(axis=0), "sum_k p^k h_k (d,)")
    b = derived(
        lambda q: ((q.u - q.weights[:, None] * q.U) * q.h).sum(axis=0),
        "sum_k (u_k - p^k U) h_k (d,)",
    )

    # --- the losses -------------------------------------------------------------------------------
    curvatures = derived(lambda q: q.h if q.H is None else q.H)

    def bent(self, x: np.ndarray) -> np.ndarray:
        """H_k x of one vector (d,), or H_k x_k of one a client (N, d): (N, d)."""
        return _times(self.curvatures, x)

    def gradients(self, w: np.ndarray) -> np.ndarray:
        """grad f_k at one point (d,), or at one a client (N, d): (N, d)."""
        return self.bent(w - self.c)

    def times(self, weights: np.ndarray, x: np.ndarray) -> np.ndarray:
        """sum_k weights_k * H_k x (d,), weights (N, 1) or (N, d)."""
        return (weights * self.bent(x)).sum(axis=0)

    def size(self, w: np.ndarray, factor: Any = 1) -> np.ndarray:
        """What the gradients at w are made of, times a factor (d,): rounding errors are proportional to it."""
        away = abs(w - self.c)
        if self.H is None:
            return factor * abs(self.h).sum(axis=0) * away.max(axis=0)
        return factor * _times(abs(self.H), away).sum(axis=0)

    def pulled(self, weights: np.ndarray, pull: Any, to: Any) -> np.ndarray:
        """Minimise sum_k weights_k f_k + sum_i pull_i (x_i - to_i)^2/2, weights (N, 1) or (N, d)."""
        known = (weights * self.bent(self.c)).sum(axis=0) + pull * to
        if self.H is None:
            return known / ((weights * self.h).sum(axis=0) + pull)
        try:
            return np.linalg.solve((weights[:, :, None] * self.H).sum(axis=0) + np.diag(pull), known)
        except np.linalg.LinAlgError as error:
            raise InvalidInput("the fixed point is not the only one: its linear system is singular; take a smaller step") from error

    star = derived(lambda q: q.pulled(q.weights[:, None], 0 * q.U, 0), "argmin sum_k p^k f_k")

    # --- rounds -----------------------------------------------------------------------------------
    def steps(self, w: np.ndarray, V: np.ndarray, eta: Any, lam: Any) -> np.ndarray:
        """The clients' models after E steps from w (N, d)."""
        y = w + 0 * self.c
        for _ in range(self.E):
            y = y - eta * (self.gradients(y) + lam * (self.U * y - V))
        return y

    def round(
        self, w: np.ndarray, V: np.ndarray, eta: Any, lam: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """One round: the server's model and V = sum_k u_k y_k."""
        y = self.steps(w, V, eta, self.lam if lam is None else lam)
        return self.weights @ y, (self.u * y).sum(axis=0)

    def recursion(self, lam: Any) -> np.ndarray:
        """The matrix (2d, 2d) by which a round takes (w, V) on around its fixed point."""
        linear, d = replace(self, c=0 * self.c), len(self.U)
        rounds = [linear.round(e[:d], e[d:], self.eta, lam) for e in identity(2 * d, self.U.dtype)]
        return np.stack([np.concatenate(both) for both in rounds], axis=1)

    def factors(self, lam: Any) -> tuple[np.ndarray, np.ndarray]:
        """r_k^E and q_k = (1 - r_k^E)/(h_k + lambda U) (N, d), r_k = 1 - eta (h_k + lambda U)."""
        stiff = self.h + lam * self.U
        kept = (1 - self.eta * stiff) ** self.E
        return kept, (1 - kept) / stiff

    def trace_and_determinant(self, lam: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of the recursion of (w, V), in closed form (d,)."""
        kept, q = self.factors(lam)
        p = self.weights[:, None]
        first, second = (p * kept).sum(axis=0), (self.u * q).sum(axis=0)
        return first + lam * second, lam * (first * second - (p * q).sum(axis=0) * (self.u * kept).sum(axis=0))

    def criterion(self, trace: Any, determinant: Any) -> np.ndarray:
        """Jury's: the least of 1 - D, 1 - T + D and 1 + T + D, which is > 0 iff both eigenvalues
        are inside the unit circle."""
        return np.minimum(np.minimum(1 - determinant, 1 - trace + determinant), 1 + trace + determinant)

    def margin(self, lam: Any) -> np.ndarray:
        """> 0 iff the recursion contracts: Jury's criterion of every coordinate (d,), or 1 - the
        spectral radius (1,); without lambda V plays no part."""
        if self.H is None:
            return self.criterion(*self.trace_and_determinant(lam))
        # so that w and V are of one size
        size = np.concatenate([0 * self.U + 1, np.where(self.U > 0, self.U, 1)])
        some = slice(len(self.U) if lam == 0 else None)
        scaled = self.recursion(lam) * size / size[:, None]
        return 1 - abs(np.linalg.eigvals(scaled[some, some])).max(keepdims=True)

    stable = derived(lambda q: bool((q.margin(q.lam) > 0).all()))


@dataclass
class ElasticView(Elastic):
    """The elastic term with E = 1, a run from c_1, and a client that has left, if anybody.

    With "arithmetic": "float" in its data it is in floats, for long runs.
    """

    kind, about = "elastic", "about runs with the elastic term"
    asks = (
        "quadratic losses, of the limit with decaying steps such whose coordinates do not mix",
        DIAGONALS, "EFL with lambda > 0, no compression, E = 1",
    )  # fmt: skip
    accepts = given.options("u_0", "client", "anchor")
    example = "--problem diabetes --clients 3 --lam 0.1"
    attained = (
        ("a decaying step a little above 1/(10 a)", {
            "weights": ["1/2", "1/2"], "h": [["1"], ["1"]], "c": [["0"], ["2"]],
            "u": [["1"], ["1"]], "lam": "1", "eta": "101/1000", "rounds": 12,
        }),
        ("informative clients that are the curved ones", {
            "weights": ["2/5", "2/5", "1/5"], "h": [["1/40"], ["1/40"], ["13/10"]],
            "c": [["0"], ["-26"], ["1"]], "u": [["0"], ["0"], ["1"]], "lam": "19/20", "eta": "1",
            "rounds": 250,
        }),
    )  # fmt: skip

    shows: ClassVar = {"lambda": "lam", "eta": "eta", "argmin": "star"}
    demands = (
        Fact(
            "lambda eta U < 1, or the fixed point need not be the only one",
            lambda q: (q.lam * q.eta * q.U).max() < 1,
        ),
        Fact(
            "another client that stays where one leaves, and the anchor of that one",
            lambda q: q.leaver is None or (1 <= len(q.h) - 1 >= q.leaver and q.anchor is not None),
        ),
    )
    rounds: int = whole(what="of the run")
    leaver: int | None = whole(default=None)
    anchor: np.ndarray | None = number("d", "the leaver's last model", default=None)
    H: Any = None

    noise_of_run = derived(
        lambda q: 1e-15 * q.rounds * abs(q.c).max() if isinstance(q.eta, float) else 0,
        "The rounding error of a run in floats",
    )

    def away(self) -> tuple[np.ndarray, ...]:
        """Return (c_1, U c_1) minus the fixed point, and |c_1 - w_eta| + max_k |c_k - c_1|."""
        w, start = self.fixed(self.eta), self.c[0]
        first = abs(start - w) + abs(self.c - start).max(axis=0)
        return start - w, self.U * start - self.anchors_at(w, self.eta), first

    @property
    def contracts(self) -> bool:
        """True if the power of the recursion, times that distance, is small enough for the run's rounds."""
        (*away, first), d = self.away(), len(self.U)
        power = np.linalg.matrix_power(self.recursion(self.lam), self.rounds)
        return bool((abs(power[:d]) @ abs(np.concatenate(away)) <= 1e-7 * first).all())

    def step(self, t: int) -> Any:
        """eta/(1 + t/10)."""
        return 10 * self.eta / (10 + t)

    def drift(self, t: int) -> np.ndarray:
        """a - 1/(10 eta) - (11/10) lambda eta_t |b|: an error's fall beyond a step's, per step."""
        return self.a - 1 / (10 * self.eta) - 11 * self.lam * self.step(t) * abs(self.b) / 10

    @cached_property
    def settled(self) -> int | None:
        """t_0, the first round with eta_t a <= 1 and at least half of the drift.

        None where the run ends before round t_0 + 2.
        """
        if (10 * self.eta * self.a <= 1).any():
            return None
        whole = self.a - 1 / (10 * self.eta)
        for t in range(self.rounds - 1):
            if (self.step(t) * self.a <= 1).all() and (2 * self.drift(t) >= whole).all():
                return t
        return None

    @cached_property
    def decaying(self) -> np.ndarray:
        """The run from c_1 with eta_tau = eta/(1 + tau/10): (T + 1, d)."""
        path, V = [self.c[0]], self.U * self.c[0]
        for t in range(self.rounds):
            w, V = self.round(path[-1], V, self.step(t))
            path.append(w)
        return np.stack(path)

    def fixed(self, eta: Any) -> np.ndarray:
        """sum_k [p^k (1 - lambda eta U) + lambda eta u_k] grad f_k = 0."""
        weights = self.weights[:, None] * (1 - self.lam * eta * self.U) + self.lam * eta * self.u
        return self.pulled(weights, 0 * self.U, 0)

    # --- what rounding leaves where coordinates mix, and gradients cancel -------------------------
    def _left(self, *points: np.ndarray) -> Any:
        if self.H is None:
            return 0
        return 1e-12 * sum(self.size(w) + _times(abs(self.H), abs(w)).sum(axis=0) for w in points)

    noise = derived(lambda q: q._left(q.fixed(q.eta), q.star), "of gradients that cancel")
    noise_of_round = derived(
        lambda q: 0 if q.H is None else np.stack([q.noise, q.noise / q.lam]),
        "of w and V at the fixed point, where V divides such a sum by lambda",
    )

    def noise_of_stale(self, w: np.ndarray) -> Any:
        """Of a round that changes nothing after a departure."""
        pull = 0 if self.leaver is None else self.lam * self.u[self.leaver] * (abs(w) + abs(np.asarray(self.anchor)))
        return 0 if self.H is None else self.eta * (self._left(w) + 1e-12 * pull)

    def anchors_at(self, w: np.ndarray, eta: Any) -> np.ndarray:
        """V at the fixed point w: there sum_k p^k grad f_k + lambda (U w - V) = 0."""
        return self.U * w + (self.weights[:, None] * self.gradients(w)).sum(axis=0) / self.lam

    # --- a client that has left -------------------------------------------------------------------
    @cached_property
    def rest(self) -> np.ndarray:
        """p^k of those that stay (N,), of sum 1."""
        w = self.weights.copy()
        w[self.leaver] = w[self.leaver] * 0
        return w / w.sum()

    rest_star = derived(
        lambda q: q.pulled(q.rest[:, None], 0 * q.U, 0),
        "argmin of the objective of those that stay",
    )

    def stale_limit(self, removed: bool) -> np.ndarray:
        """lim of the limits w_eta as eta -> 0 after the departure, its pair removed or kept: the
        others' anchors agree with w there, so that sum p^k grad f_k + lambda u_a (w - w_a) = 0."""
        if removed:
            return self.rest_star
        return self.pulled(self.rest[:, None], self.lam * self.u[self.leaver], self.anchor)

    def after_leaving(self, w: np.ndarray, eta: Any, removed: bool) -> np.ndarray:
        """w - w' of one round of those that stay, all their anchors at w (the limit with eta)."""
        pull = 0 if removed else self.lam * self.u[self.leaver] * (w - self.anchor)
        return eta * ((self.rest[:, None] * self.gradients(w)).sum(axis=0) + pull)

    @classmethod
    def draw(
        cls, rng: Any, number: int | None = None, long: bool = False
    ) -> tuple[str, dict[str, Any]]:
        """Draw clients and diagonals; every fifth of a campaign is a long run in floats."""
        n, d = int(rng.integers(1, 5)), int(rng.integers(1, 3))
        long = long if number is None else number % 5 == 4
        weights = shares(rng, n)
        h = rows(rng, n, d, lambda g: Fraction(int(g.integers(1, 17)), 8))
        kind = rng.random()
        if kind < 0.4:
            u = h  # the Gram diagonal of a quadratic
        elif kind < 0.6:
            u = [[w * Fraction(k + 1) for k in range(d)] for w in weights]
        else:
            u = rows(rng, n, d, lambda g: Fraction(int(g.integers(0, 17)), 8))
        most = max(max(sum(row[i] for row in u) for i in range(d)), Fraction(1, 8))
        eta = Fraction(int(rng.integers(2, 9)), int(rng.choice([4, 8])))
        lam = Fraction(int(rng.integers(1, 8)), 8) / (eta * most)
        data = {
            "weights": weights, "h": h, "c": rows(rng, n, d, signed), "u": u, "lam": lam, "eta": eta,
            "rounds": 2000 if long else 12,
        }  # fmt: skip
        if n > 1 and rng.random() < 0.5:
            data |= {"leaver": int(rng.integers(n)), "anchor": [signed(rng) for _ in range(d)]}
        if long:
            data["arithmetic"] = "float"
        return f"N={n} d={d}" + (" long run" if long else ""), data

    @classmethod
    def search_instance(cls, rng: Any) -> Any:
        """Draw one, a long run in floats now and then."""
        return cls.instance(*cls.draw(rng, long=rng.random() < 0.02))

    @classmethod
    def apart(cls, form: Any) -> bool:
        """True of a form that looks at a run, not at a round only."""
        return bool({RUN, LONG_RUN, DECAYS} & set(form.needs))

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> Any:
        """Find quadratics, lambda > 0, all active, E = 1; in floats where their coordinates mix.

        Where no step is given eta = min{3/(4L), 1/(2 lambda max U)}. A client that has left is the
        one that is named or has a window; its last model is given, else omega*, where decaying
        steps have taken everybody before it leaves.
        """
        algorithm, solver = given.uncompressed(case.algorithm, elastic=True), case.local_solver
        if isinstance(solver, LocalSGD) and solver.steps != 1:
            raise InvalidInput(f"E = {solver.steps}: the statement is about one local step a round, the limit is 1")
        windows = getattr(case.sampling, "present", None) or ()
        leaving = any(window[1] is not None for window in windows) or "client" in case.given
        leaver = given.client_of(case) if leaving else None
        given.check_all_active(case, leaver if LEAVER in case.form.needs else None)
        data = losses_of(case, algorithm)
        L = float(case.problem.beta_k.max()) if "H" in data else data["h"].max()
        lam, most = data["lam"], data["u"].sum(axis=0).max()
        eta = 3 / (4 * L) if most == 0 else min(3 / (4 * L), 1 / (2 * lam * most))
        eta = type(lam)(eta if solver is None else given.constant_step(case, eta))
        if lam * eta * most >= 1:
            raise InvalidInput(
                f"lambda eta max U = {float(lam * eta * most):.6g}, the limit is < 1: the fixed "
                "point need not be the only one"
            )
        long = cls.apart(case.form)
        data |= {"eta": eta, "rounds": max(case.rounds or LONG, 1000) if long else 0}
        if leaving:
            star = cls(**data).star
            anchor = simplest_each(case.given.get("anchor", star)).astype(star.dtype)
            if anchor.shape != star.shape:
                raise InvalidInput(f"anchor {anchor.shape}: it needs one number a coordinate, {star.shape}")
            data |= {"leaver": leaver, "anchor": star if "anchor" not in case.given else anchor}
        if "H" in data:
            return cls(**data)
        return data | ({"arithmetic": "float"} if long else {})


def diagonals_of(case: Case, algorithm: EFL) -> np.ndarray:
    """u_0 (N, d) as given, else the Fisher diagonals, which for these losses do not depend on the model."""
    problem, shape = case.problem, (case.problem.num_clients, case.problem.dim)
    if "u_0" in case.given:
        u = simplest_each(case.given["u_0"])
        if u.shape != shape:
            raise InvalidInput(f"u_0 {u.shape}: give a row of d numbers for every client, {shape}")
        if u.min() < 0:
            raise InvalidInput(f"u_0 goes down to {float(u.min()):.6g}: Fisher diagonals are >= 0")
        return u
    kind = algorithm.fisher_kind(problem)
    at = np.zeros((problem.num_clients, 1, problem.dim))
    u, elsewhere = (np.asarray(client_fisher(problem, y, kind))[:, 0] for y in (at, at + 1))
    if not np.array_equal(u, elsewhere):
        raise InvalidInput(f"the {kind} Fisher diagonals depend on the model: the statement is about fixed u^k; give u_0")
    return simplest_each(u)


def losses_of(case: Case, algorithm: EFL) -> dict[str, Any]:
    """Weights, h, c, u and lambda of quadratics, in fractions; in floats and with H where
    coordinates mix."""
    problem = case.problem
    H, b = given.quadratics_of(problem)
    given.curvatures(problem)
    u, lam = diagonals_of(case, algorithm), simplest(algorithm.lam)
    try:
        h, c = given.coordinates_of(problem)
        return {"weights": given.weights_of(problem), "h": h, "c": c, "u": u, "lam": lam}
    except MissingCapability:
        h, c = np.diagonal(H, axis1=1, axis2=2), np.linalg.solve(H, b[..., None])[..., 0]
        floats = {"weights": np.asarray(problem.weights), "h": h, "c": c, "u": u.astype(float)}
        return {**floats, "lam": float(lam), "H": H}
