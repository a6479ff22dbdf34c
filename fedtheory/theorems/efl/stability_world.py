"""The world of whether EFL's elastic term settles a run, with any local steps."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Full
from fedtheory.rational import objects, simplest_each
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, law_of
from fedtheory.theorems.efl.elastic_world import DIAGONALS, FRACTIONS, Elastic, losses_of
from fedtheory.theory import Case, Fact, derived, number, whole
from fedtheory.theory.draws import few_shares, half, part, rows
from fedtheory.theory.rounds.linear_algebra import contracts

ROUNDING = 1e-9  # of a spectral radius, of a matrix whose entries are near 1
STEPS = [Fraction(v) for v in ("1/4", "1", "3/2", "19/10", "21/10", "5/2", "59/20", "31/10")]  # eta sum p h
PULLS = [Fraction(v) for v in ("1/8", "1/2", "39/40", "21/20", "3/2")]  # eta^2 lambda |b|
ONE_STEP, MORE = Fact("E = 1", lambda q: q.E == 1), Fact("E > 1", lambda q: q.E > 1)
WITHOUT = Fact("the run converges for lambda = 0", lambda q: (q.margin(0) > q.noise).all())
UNSTABLE = Fact("the run does not converge for lambda = 0", lambda q: not q.has(WITHOUT))
FIRM = Fact("b > 0 in every coordinate", lambda q: q.has(FRACTIONS) and q.b.min() > 0)
ALIKE = Fact(
    "h_k = h for all clients k, in every coordinate",
    lambda q: q.has(FRACTIONS) and (q.h == q.h[0]).all(),
)
SINGLE = Fact("d = 1", lambda q: q.has(FRACTIONS) and q.h.shape[1] == 1)
AGREE = Fact(
    "V = U omega: the last models agree with the model", lambda q: (q.V == q.U * q.start).all()
)
SHORT = Fact(
    "eta (h_k + lambda U) <= 1 for all k", lambda q: (q.eta * (q.h + q.lam * q.U)).max() <= 1
)


@dataclass
class StabilityView(Elastic):
    """The elastic term with E local steps and any lambda and eta.

    start and anchors, of the forms about one round, are the server's model and the clients' last
    ones.
    """

    kind, about = "stability", "about whether runs with the elastic term settle"
    asks = (
        "quadratic losses, of the exact criteria such whose coordinates do not mix", DIAGONALS,
        "EFL with lambda > 0, no compression, all clients complete",
    )  # fmt: skip
    accepts, share = given.options("u_0"), 0.3
    example = "--problem quadratic --dimension 1 --lam 0.1"
    attained = (
        ("the longest step that some lambda allows", {
            "weights": ["1/2", "1/2"], "h": [["1"], ["5"]], "c": [["0"], ["1"]],
            "u": [["1"], ["5"]], "lam": "141/1000", "eta": "59/60", "E": 1,
        }),
        ("one client, a step a little above 2/h", {
            "weights": ["1"], "h": [["1"]], "c": [["0"]], "u": [["1"]], "lam": "1",
            "eta": "21/10", "E": 1,
        }),
    )  # fmt: skip

    shows = derived(
        lambda q: {"lambda": "lam", "eta": "eta", "E": "E"} | (
            {"eta sum p h": "slope", "eta^2 lambda b": "pull"} if q.H is None
            else {"rho, lambda = 0": "rho_0", "rho": "rho"}
        )
    )  # fmt: skip
    noise = derived(lambda q: 0 if q.H is None else ROUNDING, "of margins")

    E: int = whole(1, 50)
    start: Any = number("d", default=None)
    anchors: Any = number("N d", default=None)
    H: Any = None

    def __post_init__(self) -> None:
        if self.start is None:
            self.start = 0 * self.c[0]
        if self.anchors is None:
            self.anchors = 0 * self.c

    V = derived(lambda q: (q.u * q.anchors).sum(axis=0))
    slope = derived(lambda q: q.eta * q.a)
    pull = derived(lambda q: q.eta**2 * q.lam * q.b)
    rho_0 = derived(lambda q: float(1 - q.margin(0)[0]), "the spectral radius without lambda")
    rho = derived(lambda q: float(1 - q.margin(q.lam)[0]))

    def moves(self, lam: Any) -> np.ndarray:
        """y_k - w of the clients after their E steps from the start, with this lambda (N, d)."""
        return self.steps(self.start, self.V, self.eta, lam) - self.start

    @cached_property
    def settles(self) -> np.ndarray:
        """1 where the recursion contracts, 0 elsewhere (d,), by a certificate in fractions."""
        M, d = self.recursion(self.lam), len(self.U)
        return objects([Fraction(contracts([M[np.ix_([i, d + i], [i, d + i])]])) for i in range(d)])

    @property
    def best(self) -> Any:
        """sup over lambda > 0 of the least margin, E = 1: margins are linear in lambda eta^2."""
        constant = np.concatenate([0 * self.a + 1, self.eta * self.a, 2 - self.eta * self.a])
        slope = np.concatenate([-self.b, self.b, self.b])
        at = [Fraction(0)]
        for (c1, s1), (c2, s2) in combinations(zip(constant, slope, strict=True), 2):
            if s1 != s2 and (c2 - c1) / (s1 - s2) > 0:
                at.append((c2 - c1) / (s1 - s2))
        return max((constant + x * slope).min() for x in at)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw clients, a step around the limits, and lambda."""
        n, d, E = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.choice([1, 1, 1, 2, 3]))
        p = few_shares(rng, n)
        h = [[part(rng) for _ in range(d)]] * n if rng.random() < 0.35 else rows(rng, n, d, part)
        u = h if rng.random() < 0.4 else rows(rng, n, d, lambda g: Fraction(int(g.integers(0, 17)), 8))
        if not any(row[0] for row in u):
            u = h
        U = sum(row[0] for row in u)
        a = sum(w * row[0] for w, row in zip(p, h, strict=True))
        b = sum((v[0] - w * U) * row[0] for w, v, row in zip(p, u, h, strict=True))
        eta = STEPS[int(rng.integers(len(STEPS)))] / a
        gentle = rng.random() < 0.3
        if gentle:  # eta (h + lambda U) at most 1
            eta = 1 / (2 * max(max(row) for row in h))
            lam = 1 / (2 * eta * max(sum(row[i] for row in u) for i in range(d)))
        elif b and E == 1:
            lam = PULLS[int(rng.integers(len(PULLS)))] / (eta**2 * abs(b))
        else:
            lam = part(rng, 12) / (eta * U)
        start = [half(rng) for _ in range(d)]
        anchors = [start] * n if gentle else rows(rng, n, d, half)
        data = {
            "weights": p, "h": h, "c": rows(rng, n, d, half), "u": u, "lam": lam, "eta": eta,
            "E": E, "start": start, "anchors": anchors,
        }
        return f"N={n} d={d} E={E}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> Any:
        """Find quadratics, lambda > 0, all active, a constant step; in floats where coordinates mix.

        Where no step is given eta = 3/(4 L). The forms about one round start at the user's x0, and
        the anchors are the clients' minimisers, to which they tend between rounds.
        """
        algorithm, law = given.uncompressed(case.algorithm, elastic=True), law_of(case)
        full = case.sampling is None or isinstance(case.sampling, Full)
        if not full and any((law.law(t)[:, -1] < 1).any() for t in range(1, (case.rounds or ROUNDS) + 1)):
            raise InvalidInput("a client is inactive or incomplete: the statement is about all clients complete; leave that out")
        E = 1 if full and not isinstance(case.local_solver, LocalSGD) else law.max_steps
        data = losses_of(case, algorithm)
        eta = given.constant_step(case, 0.75 / float(case.problem.beta_k.max()))
        data |= {"eta": eta, "E": E, "start": simplest_each(case.x0), "anchors": data["c"]}
        if "H" not in data:
            return data
        return cls(**{**data, "eta": float(eta), "start": np.asarray(case.x0)})
