"""The worlds of EFL's sections 4.1 and 4.2: inactive and incomplete clients under scheme C."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.rational import simplest, simplest_each
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, constants_on, law_of
from fedtheory.theorems.efl.quantities.run import EFLConstants
from fedtheory.theorems.efl.world import CONSTANTS, OF_THEOREM_1, ONE_LAW, EFLWorld
from fedtheory.theory import Case, Fact, derived, number, whole
from fedtheory.theory.draws import law, shares, size
from fedtheory.theory.rounds.coefficients import RoundLaw

MAX_CASES = 20_000  # of (s_1..s_N) that are gone through one by one
LONG: dict[str, Any] = {
    "idle": ["0", "1/2"], "E": 1, "T": 400, "gamma": "4", "J": "1", "C": "1", "y": "1/2",
}  # fmt: skip
AT_ONCE = Fact("tau_0 = 0", lambda q: q.tau_0 == 0)
EARLY = Fact("T >= 2 tau_0", lambda q: 2 * q.tau_0 <= q.T)
LATE = Fact(
    "T(T+1)E^2 >= (gamma - E tau_0)^2",
    lambda q: q.T * (q.T + 1) * q.E**2 >= (q.gamma - q.E * q.tau_0) ** 2,
)
SOME = Fact("T >= 2", lambda q: q.T >= 2)
LARGE = Fact("gamma >= E^2", lambda q: q.gamma >= q.E**2)
IDLE = Fact(
    "some client inactive with positive probability in some round", lambda q: any(q.some_idle)
)
ABOVE = Fact("y above (C/J)/(TE)", lambda q: q.y > q.order())
RULE = Fact("y^a J > f_1(T), which is (8)", lambda q: q.y * q.J > q.f_1)


@dataclass
class InactiveView(EFLWorld):
    """Scheme C, clients inactive with probabilities y_t^k, otherwise complete; and the constants of
    the two bounds."""

    kind, about = "inactive", "about inactive clients"
    asks = (
        "scheme C; clients that are inactive or complete",
        OF_THEOREM_1 + ", or gamma, J and C given",
    )
    accepts = given.options(*CONSTANTS, "gamma", "J", "C", "y", "client", "tau_0")
    example, count = "--problem diabetes --inactive 0.3", 60
    shows = ("E", "T", "gamma", "J", "C", "y")
    attained = (
        ("abandoned at T/2", {**LONG, "tau_0": 200}),
        ("abandoned at once", {**LONG, "tau_0": 0}),
        ("one round of 200", {
            **LONG, "idle": [["0", "1/2"], *[["0", "0"]] * 199], "T": 200, "tau_0": 0,
        }),
        ("the threshold hardly falls", {
            **LONG, "E": 2, "T": 50, "gamma": "100", "tau_0": 0,
        }),
    )  # fmt: skip
    demands = (
        Fact("gamma >= 4E, as Theorem 1 has it (S <= theta E)", lambda q: q.gamma >= 4 * q.E),
        Fact("tau_0 < T", lambda q: q.tau_0 < q.T),
    )
    T: int = whole(1, 2000)
    E: int = whole(1)
    idle: np.ndarray = number("T N", "y_t^k: who is never active has no say", least=0, below=1)
    gamma: Any = number(what="of Theorem 1, as J and C")
    J: Any = number(above=0)
    C: Any = number(above=0)
    y: Any = number(
        what="the client's probability of being inactive", above=0, below=1, letter="y^k"
    )
    tau_0: int = whole(what="the round it would be abandoned in (Corollary 1)")

    r = derived(
        lambda q: [int(any(v != row[0] for v in row)) for row in q.idle],
        "r_t = 1 where E[p s]/p = E (1 - y^k) is not the same for all clients",
    )
    some_idle = derived(
        lambda q: [int(any(v > 0 for v in row)) for row in q.idle],
        "y_t: whether there are inactive clients in round t",
    )
    H = derived(lambda q: Fraction(sum(q.r)), letter="H_T")
    idle_rounds = derived(
        lambda q: Fraction(sum(q.some_idle)), letter=r"\textstyle\sum_{t<T}y_t"
    )

    def term(self, total: Any, rounds: int | None = None) -> Any:
        """total J/(tau E + gamma) at tau = T."""
        return total * self.J / ((self.T if rounds is None else rounds) * self.E + self.gamma)

    f_1 = derived(
        lambda q: q.T * q.C / (q.E * (q.T - q.tau_0) + q.gamma) ** 2,
        "T C/(E (T - tau_0) + gamma)^2",
    )
    threshold = derived(lambda q: q.f_1 / q.J, "f_1(T)/J: (8) says that y is above it")

    def order(self, power: int = 1) -> Any:
        """(C/J)/(TE^power); (9) has the power 1."""
        return self.C / (self.J * self.T * self.E**power)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw one law of being inactive for all rounds, or one for each."""
        n, rounds = int(rng.integers(1, 5)), int(rng.integers(1, 60))
        most = int(rng.integers(1, 12))

        def row() -> list[Fraction]:
            if rng.random() < 0.5:
                return [Fraction(int(rng.integers(0, 4)), 4)] * n
            return [Fraction(int(v), 4) for v in rng.integers(0, 4, n)]

        idle: Any = row() if rng.random() < 0.5 else [row() for _ in range(rounds)]
        data = {
            "idle": idle, "E": most, "T": rounds,
            "gamma": Fraction(4 * most) + (0 if rng.random() < 0.3 else size(rng)),
            "J": size(rng), "C": size(rng, 2.5), "y": Fraction(int(rng.integers(1, 20)), 20),
            "tau_0": int(rng.integers(rounds)) if rng.random() < 0.5 else 0,
        }  # fmt: skip
        return f"N={n} E={most} T={rounds}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> dict[str, Any]:
        """Give the law of being inactive, and gamma, J and C of Theorem 1 there, or as given.

        Corollary 1 assumes C_tau = tau C, so that C = C_T/T with Theorem 1's C_T as repaired. y is
        the probability of being inactive of the client that is named, else of the one that is
        inactive most often; tau_0 is 0 unless given.
        """
        check_scheme_c(case)
        idle, T, E = idle_of(case), case.rounds or ROUNDS, law_of(case).max_steps
        constant = given.constants_when_asked(case)
        y = given.given_number(case, "y", lambda: idle[:, given.client_of(case)].max(), above=0)
        check_below_1(y)

        def C(c: EFLConstants) -> Any:
            return (c.gamma**2 * c.start_sq + c.noise_sum(c.B())[-1]) / c.T

        return {
            "idle": idle, "E": E, "T": T, "y": y,
            "gamma": given.given_number(case, "gamma", lambda: constant(lambda c: c.gamma), above=0),
            "J": given.given_number(case, "J", lambda: constant(lambda c: c.J), above=0),
            "C": given.given_number(case, "C", lambda: constant(C), above=0),
            "tau_0": given.given_whole(case, "tau_0", 0, most=T - 1),
        }  # fmt: skip


@dataclass
class IncompleteView(EFLWorld):
    """Scheme C with clients that are never inactive, and the constants of Theorem 1."""

    kind, about = "incomplete", "about incomplete clients"
    asks = (OF_THEOREM_1, "scheme C; clients that are never inactive, " + ONE_LAW)
    accepts = given.options(*CONSTANTS)
    example = "--problem diabetes --clients 3 --incomplete uniform"
    shows: ClassVar = {"E": "E", "L": "L", "mu": "mu", "G_sq": "G_sq", "E[B]": "B"}
    demands = (
        Fact("mu <= L", lambda q: q.mu <= q.L),
        Fact("laws in which s = 0 is impossible", lambda q: not any(q.law[:, 0])),
    )

    weights: np.ndarray = number("N", "p^k", above=0, total=1)
    law: np.ndarray = number("N s", "P(s^k = s), s = 0..E", least=0, total=1)
    L: Any = number()
    mu: Any = number(above=0)
    G_sq: Any = number(least=0)
    sigma_sq: np.ndarray = number("N", least=0)
    D: np.ndarray = number("N", least=0)

    E = derived(lambda q: q.law.shape[1] - 1, "The most local steps")
    constants = derived(
        lambda q: EFLConstants(
            q.E, q.L, q.mu, q.E, q.G_sq, q.sigma_sq, q.D, q.weights,
            [RoundLaw(EFL(scheme="C"), q.law, q.weights).moments], 0 * q.L,
        ),
        "of Theorem 1, theta = E",
    )  # fmt: skip
    drift = derived(lambda q: q.constants.rounds[0].ps, "E[p s] (N,)")
    B = derived(lambda q: q.constants.B()[0], "E[B_t] of Theorem 1 as repaired")
    inverse = derived(lambda q: (q.law[:, 1:] / np.arange(1, q.E + 1)).sum(axis=1), "E[1/s^k] (N,)")

    def rate(self, power: int = 5) -> Any:
        """E^2 sum (p sigma)^2 E[1/s] + (6 L max D + 17/4 G^2) E^power sum p E[1/s]."""
        spread = (self.weights * self.inverse).sum()
        constant = 6 * self.L * self.D.max() + Fraction(17, 4) * self.G_sq
        return self.E**2 * (self.weights**2 * self.sigma_sq * self.inverse).sum() + constant * self.E**power * spread

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw laws of s_k > 0 and the constants."""
        n, most = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        mu, L = sorted([size(rng), size(rng)])
        data = {
            "weights": shares(rng, n), "law": [law(rng, most, False) for _ in range(n)], "L": L,
            "mu": mu, "G_sq": Fraction(0) if rng.random() < 0.3 else size(rng),
            "sigma_sq": [size(rng) for _ in range(n)], "D": [size(rng) for _ in range(n)],
        }  # fmt: skip
        return f"N={n} E={most}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> dict[str, Any]:
        """Give the law of s^k > 0, and Theorem 1's constants there."""
        check_scheme_c(case)
        law = given.law_in_fractions(case, "C")
        if any(law[:, 0]):
            k = int(np.flatnonzero(law[:, 0] != 0)[0])
            raise InvalidInput(
                f"client {k} is inactive with probability {float(law[k, 0]):.6g}, the limit is 0 "
                "(section 4.2)"
            )
        cases = float(np.prod([float((row != 0).sum()) for row in law]))
        if cases > MAX_CASES:
            raise MissingCapability(
                f"{cases:.3g} cases of (s_1..s_N), at most {MAX_CASES} are gone through: take "
                "fewer clients"
            )
        c = constants_on(case)
        return {
            "weights": given.weights_of(case.problem), "law": law, "L": simplest(float(c.L)),
            "mu": simplest(float(c.mu)), "G_sq": simplest(float(c.G_sq)),
            "sigma_sq": simplest_each(c.sigma_sq), "D": simplest_each(c.D),
        }  # fmt: skip


def check_scheme_c(case: Case) -> None:
    """Raise `InvalidInput` unless the method is EFL's scheme C without compression."""
    if (scheme := given.uncompressed(case.algorithm).scheme) != "C":
        raise InvalidInput(f"scheme = {scheme}: the statement is about scheme C")


def check_below_1(y: Fraction) -> None:
    """Raise `InvalidInput` for a client that is surely inactive."""
    if not y < 1:
        raise InvalidInput(
            f"y = {float(y):.6g}: a probability of being inactive below 1 is needed"
        )


def idle_of(case: Case) -> np.ndarray:
    """y_t^k (T, N) in fractions, of clients that are complete when they are active."""
    law, T = law_of(case), case.rounds or ROUNDS
    law.check_run(case.problem.num_clients, T)
    rows = np.stack([law.law(t) for t in range(1, T + 1)])
    if law.max_steps > 1 and rows[:, :, 1:-1].max() > 0:
        t, k = (int(v) for v in np.argwhere(rows[:, :, 1:-1].max(axis=2) > 0)[0])
        raise InvalidInput(f"client {k} may be incomplete in round {t + 1}: section 4.1 is about clients that do all or nothing")
    if rows[:, :, 0].max() >= 1:
        t, k = (int(v) for v in np.argwhere(rows[:, :, 0] >= 1)[0])
        raise InvalidInput(f"client {k} is surely inactive in round {t + 1}: a probability below 1 is needed, or it has no say")
    return simplest_each(rows[:, :, 0])
