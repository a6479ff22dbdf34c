"""The worlds of EFL's error feedback and of the elastic term that a round's pairs make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.messages import compressors
from fedtheory.messages.compressors import ST
from fedtheory.participation.coefficients import coefficients
from fedtheory.rational import integer, simplest, simplest_each
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import check_present, law_of
from fedtheory.theorems.efl.compression_world import ROUNDS, local_sgd_of, simulated
from fedtheory.theorems.efl.world import BOTH_WAYS, ST_BOTH_WAYS, Clients, EFLWorld, clients_that_end
from fedtheory.theory import Case, Fact, Letters, anything, derived, number, whole, word
from fedtheory.theory.draws import rows, signed, size
from fedtheory.theory.fields import reads_of

MOST_NUMBERS = 2000  # in fractions
CONSISTENT = Fact(
    "the consistent form: clients and server send ST of what they hold, p_tau^k/p^k is applied "
    "before it"
)
AFTER = Fact("the consistent form with p_tau^k/p^k applied after ST")
LITERAL = Fact("the formulas of Algorithm 1 as printed")
TEXT = Fact(
    "the text of section 3.1: clients send ST(Delta), the server adds its delta uncompressed"
)
LOOPS = {"consistent": CONSISTENT, "literal": LITERAL, "text": TEXT, "after": AFTER}
PLAIN, SHORT = Fact("E = 1 and all clients are active"), Fact("eta <= 1/L")
DENSE, COUNTED = Fact("ST leaves nothing out"), Fact("ST both ways")
REACHED = Fact(
    "the run without compression comes to 1/16 of the first ||omega - omega^*||^2 (take more "
    "rounds or a larger step)"
)
CHEAP = Fact("k (1 + ceil(log2 n)) <= 32 (n - 1)")
MISSING = Fact("some client does not take part", lambda q: not q.active.all())
FLOAT_BITS, ACCURACY = 32, 16  # ||w - w*||^2 is to become a sixteenth


@dataclass(frozen=True)
class Costs:
    """The costs of a run with ST both ways and of the same run without, until they are accurate.

    Attributes
    ----------
    distance_sq, dense_distance_sq : (T + 1,) ||w_t - w*||^2 with compression and without
        (0,) where rounds are not counted.
    sent : (T, N) who sends a message; under scheme A those do that are complete
    """

    n: int  # n, k: entries of a message, and those that ST keeps
    k: int
    steps: np.ndarray  # (T, N) local steps of every round
    distance_sq: np.ndarray
    dense_distance_sq: np.ndarray
    sent: np.ndarray

    @classmethod
    def of(cls, seen: list[ServerRound], dense: list[Any], star: np.ndarray, k: int) -> Costs:
        """Count them in rounds with compression, and at the models (T + 1) without."""
        path, counted = [dense[0], *(r.after for r in seen)], slice(None if seen else 0)
        away, dense_away = (((np.stack(p) - star) ** 2).sum(axis=1)[counted] for p in (path, dense))
        steps, sent = np.array([r.steps for r in seen]), np.array([r.p > 0 for r in seen])
        return cls(len(star), k, steps, away, dense_away, sent)

    dense = derived(lambda q: Fraction(FLOAT_BITS * q.n), "Bits of a dense message")
    message = derived(
        lambda q: Fraction(q.k * (1 + (q.n - 1).bit_length()) + FLOAT_BITS),
        "Bits of one of ST's: positions, signs, one magnitude",
    )

    def _until(self, distance_sq: np.ndarray, counts: np.ndarray) -> Fraction:
        """The sum of counts (T, N) until the accuracy is reached; where it is not, one more than in
        all T rounds, or more."""
        there = np.flatnonzero(ACCURACY * distance_sq <= distance_sq[0])
        return Fraction(int(counts[: there[0]].sum()) if len(there) else int(counts.sum()) + 1)

    @property
    def facts(self) -> set[str]:
        """The facts of the runs: the dense one reaches the accuracy, ST's messages are shorter."""
        there = len(self.dense_distance_sq) and (ACCURACY * self.dense_distance_sq <= self.dense_distance_sq[0]).any()
        return {COUNTED} | ({REACHED} if there else set()) | ({CHEAP} if self.message <= self.dense else set())

    def steps_to(self, distance_sq: np.ndarray) -> Fraction:
        """Local steps of all clients until then."""
        return self._until(distance_sq, self.steps)

    def messages_to(self, distance_sq: np.ndarray) -> Fraction:
        """Messages up and down in all rounds until then: every participant receives one, and those that send send one."""
        return self._until(distance_sq, self.steps > 0) + self._until(distance_sq, self.sent)


class ServerRound(NamedTuple):
    """The changes that one round of EFL with compression makes."""

    w: np.ndarray  # w, after: (d,) the server's model before and after
    after: np.ndarray
    R_G: np.ndarray  # R_G, R_G_after: (d,) its residual before and after
    R_G_after: np.ndarray
    R: np.ndarray  # R, R_after: (N, d) the clients'
    R_after: np.ndarray
    weights: np.ndarray  # weights, p: (N,) p^k and p_tau^k, 0 for clients that are inactive
    p: np.ndarray
    steps: np.ndarray  # (N,) of the clients
    x: np.ndarray  # (N, d) omega_s^k - omega_0^k, minus the steps of s gradients
    last: np.ndarray  # (N, d) eta times the gradient at omega_s^k, which no local step takes

    @classmethod
    def seen(
        cls, method: EFL, old: Any, new: Any, clients: Any, slopes: Callable[[np.ndarray], Any]
    ) -> ServerRound:
        """Read it off a round of the method, in fractions or in floats.

        slopes : callable(y) -> eta times the gradient of every client at its own model, (N, d)
        """
        cohort, weights = clients.cohort.dense(), clients.objective_weights
        steps, w, ends = cohort.steps[0], old.x[0], clients.results[-1].y[0]
        p = coefficients(
            method.scheme, cohort.steps, cohort.max_steps, weights, cohort.active_probability,
            cohort.present,
        )[0]  # fmt: skip
        p = np.where(steps > 0, p, 0 * p)
        x = np.where(p[:, None] > 0, ends - w, 0 * ends)
        last = np.where(p[:, None] > 0, slopes(w + x), 0 * x)

        def both(name: str, none: np.ndarray) -> Iterator[np.ndarray]:
            kept = (getattr(state, name) for state in (old, new))
            return (0 * none if r is None else r[0] for r in kept)

        (R_G, R_G_after), (R, R_after) = both("server_residual", w), both("residuals", x)
        return cls(w, new.x[0], R_G, R_G_after, R, R_after, weights, p, steps, x, last)


@dataclass
class FeedbackView(EFLWorld):
    """A run of EFL with residuals on both sides, round by round, and how far local work alone would have gone.

    On quadratics it is in fractions, ST with exactly k entries both ways; its variant is
    'consistent', 'literal' (the formulas as printed), 'text' (section 3.1) or 'after' (consistent,
    scaled after ST). Of a user's problem it is a run in floats.

    Nothing is lost where w_T + R^G + sum_k p^k R^k = w_0 + sum_t sum_k p_t^k x_t^k: each compressor sends C(D) and keeps
    D - C(D), whatever C is, and local work is read off the solver, not off what was sent. On quadratics with E = 1, all
    active and full gradients the right side is w_0 - eta T grad F(mean of w_t), which bounds the gradient at the mean.
    """

    kind, about = "feedback", "about runs with compression and residuals"
    asks = (
        "EFL with residuals on both sides, variant consistent, literal or text, lambda = 0",
        "LocalSGD",
        "of the mean's bias: quadratic losses, E = 1, all active, full gradients",
    )
    example, method = ST_BOTH_WAYS, BOTH_WAYS
    local_steps, count = 1, 80

    letters = Letters(
        {"costs": Letters({"message": "b_{ST}", "dense": "b"}, ("message", "dense"))}
    )
    reads: ClassVar = {
        **reads_of(Clients), "variant": word(*LOOPS), "q": number(what="of ST"), "eta": number(),
        "x0": number("d"), "E": whole(1, what="the most local steps"),
        "schedule": anything("(T, N) local steps s_t^k, repeated over the rounds"),
        "rounds": whole(1, 100_000),
    }  # fmt: skip

    play: Callable[[], list[ServerRound]]  # makes the run
    eta: Any  # the constant step, or None
    losses: Any  # for their gradient and their optimum: quadratic `Clients` in fractions, or a user's
    costs: Costs | None  # of ST both ways; None for other compressors
    facts: frozenset[str] = frozenset()

    rounds_seen = derived(lambda q: q.play(), "every round of the run")
    weights = derived(lambda q: q.rounds_seen[0].weights)
    x0 = derived(lambda q: q.rounds_seen[0].w)
    rounds = derived(lambda q: len(q.rounds_seen))
    own = derived(lambda q: isinstance(q.losses, Clients), "True in fractions")
    star = derived(lambda q: q.losses.star if q.own else q.losses.optimum().x, "w*, certified")

    def slope(self, x: np.ndarray) -> np.ndarray:
        """grad F(x)."""
        if not self.own:
            return np.asarray(self.losses.full_gradient(x))
        return (self.weights[:, None] * self.losses.h).sum(axis=0) * (x - self.star)

    @cached_property
    def run(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Models w_0..w_T, the last R^G and R^k, and w_0 + sum_t sum_k p_t^k x_t^k."""
        seen = self.rounds_seen
        moved = self.x0 + np.sum([(r.p[:, None] * r.x).sum(axis=0) for r in seen], axis=0)
        return np.stack([self.x0, *(r.after for r in seen)]), seen[-1].R_G_after, seen[-1].R_after, moved

    @cached_property
    def noise(self) -> float:
        """The rounding of sums over all rounds."""
        path, R_G, R, moved = self.run
        size = abs(path).max() + abs(R_G).max() + (self.weights[:, None] * abs(R)).sum(axis=0).max() + abs(moved).max()
        return 0 if self.own else 1e-15 * (self.rounds + 10) * float(size)

    @cached_property
    def noise_of_slope(self) -> float:
        """The rounding of the gradients that are summed, of what they are made of, and of the sums over eta T."""
        if self.own:
            return 0
        at = np.stack([self.run[0].mean(axis=0), self.run[0][0], 0 * self.x0])
        made_of = float(abs(self.losses.gradient(at)).max()) + float(self.losses.beta_k.max()) * float(abs(self.run[0]).max())
        return 1e-13 * made_of + self.noise / (self.eta * self.rounds)

    def printed_constants(self) -> dict[str, Any]:
        return {} if self.own else {"T": self.rounds, "|R^G|": float(np.linalg.norm(self.run[1]))}

    @classmethod
    def made(
        cls, weights: Any, h: Any, c: Any, variant: str, q: Any, eta: Any, x0: Any, E: int,
        schedule: Any, rounds: int,
    ) -> Self:  # fmt: skip
        """Make the run of quadratics; the schedule is a row of N whole numbers a round."""
        if not 0 < eta * h.max() <= 1:
            raise InvalidInput(f"the data of 'feedback' must have 0 < eta h <= 1: eta = {eta}")
        work = np.array([[integer(s, "schedule", 0, E) for s in row] for row in schedule])
        if work.shape[1:] != weights.shape:
            raise InvalidInput(f"schedule {work.shape}: give a number for every client in each row")
        losses, st, consistent = Clients(weights, h, c), compressors.ST(q), variant == "consistent"
        reading: Any = {"scale": variant} if variant == "after" else {"variant": variant}
        method = EFL(compressor=st, down_compressor=st, **reading)

        def moves(w: np.ndarray, steps: np.ndarray) -> np.ndarray:
            return ((1 - eta * h) ** steps[:, None] - 1) * (w - c)

        @cache
        def play() -> list[ServerRound]:
            nothing, seen = Fraction(0) * h, list[ServerRound]()  # whole zeros would divide to floats
            old: Any = method.init(x0[None], len(weights))
            old = old._replace(server_residual=0 * old.x, residuals=nothing[None])
            for t in range(rounds):
                steps = work[t % len(work)]
                ends = old.x[0] + moves(old.x[0], steps)
                clients = clients_that_end(ends[None], weights, steps[None], E)
                new: Any = method.round(old, clients)
                seen.append(
                    ServerRound.seen(method, old, new, clients, lambda y: eta * h * (y - c))
                )
                old = new
            return seen

        counted, dense = play() if consistent else [], [x0]  # the rounds of others are not
        for seen in counted:
            moved = (seen.p[:, None] * moves(dense[-1], seen.steps)).sum(axis=0)
            dense.append(dense[-1] + moved)
        costs = Costs.of(counted, dense, losses.star, st.sizes(len(x0))[0])
        facts = {LOOPS[variant], SHORT, *costs.facts}
        if E == 1 and (work == 1).all():
            facts.add(PLAIN)
        if len(x0) == 1:
            facts.add(DENSE)  # ST keeps one entry as it is
        return cls(play, eta, losses, costs, frozenset(facts))

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a variant, quadratics and a schedule, of one step and all clients in three of five."""
        variant = str(rng.choice(["consistent", "consistent", "literal", "literal", "text", "text", "after"]))
        n, d, most = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        plain = rng.random() < 0.6
        low, most = (1, 1) if plain else (0, most)
        parts = {1: ["1"], 2: ["1/2", "1/2"], 3: ["1/2", "1/4", "1/4"]}[n]
        data = {
            "variant": variant, "weights": parts,
            "h": rows(rng, n, d, lambda g: Fraction(int(g.integers(2, 9)), 8)),
            "c": rows(rng, n, d, signed), "q": Fraction(int(rng.integers(1, d + 1)), d),
            "eta": Fraction(1, 2 ** int(rng.integers(0, 4))), "x0": [signed(rng) for _ in range(d)],
            "E": most, "rounds": int(rng.integers(1, 25)),
            "schedule": [[int(s) for s in rng.integers(low, most + 1, n)] for _ in range(3)],
        }
        return f"{variant} N={n} d={d}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> FeedbackView:
        """Run the user's method, T = 20 rounds where nothing else is said, one scenario."""
        algorithm = case.algorithm
        if not isinstance(algorithm, EFL):
            raise InvalidInput(f"the statement is about EFL, not {type(algorithm).__name__}")
        if algorithm.variant not in LOOPS:
            known = ", ".join(v for v in LOOPS if v != "after")
            raise InvalidInput(f"variant = {algorithm.variant!r}: the statement is about {known}")
        if algorithm.lam:
            raise InvalidInput(f"lambda = {algorithm.lam:g}, the limit is 0: local work is then on another loss")
        if not (algorithm.client_feedback and algorithm.server_feedback):
            raise InvalidInput("residuals are not kept: use client_feedback=True and server_feedback=True")
        check_present(law_of(case), case.rounds or ROUNDS)
        problem, solver = case.problem, local_sgd_of(case)
        constant = None if callable(solver.lr) else float(solver.lr)

        def look(old: Any, new: Any, clients: Any) -> Iterator[tuple[Any, ...]]:
            eta = solver.step_size(clients.round_index)
            yield tuple(ServerRound.seen(
                algorithm, old, new, clients, lambda y: eta * np.asarray(problem.gradient_each(y))
            ))  # fmt: skip

        seen = [ServerRound(*values) for values in simulated(case, look)]
        read = (algorithm.variant, algorithm.scale)
        facts: set[str] = {LOOPS["after" if read == ("consistent", "after") else read[0]]}
        plain = solver.steps == 1 and all(r.steps.all() for r in seen)
        full = solver.batch_size is None and not solver.noise_std
        if plain and full and constant is not None and problem.constant_hessian:
            facts.add(PLAIN)
            given.quadratics_of(problem)
        if constant is not None and constant * float(problem.beta_k.max()) <= 1:
            facts.add(SHORT)
        if algorithm.compressor is None and algorithm.down_compressor is None:
            facts.add(DENSE)
        costs = costs_of(case, seen)
        facts |= costs.facts if costs else set()
        return cls(lambda: seen, constant, problem, costs, frozenset(facts))


def costs_of(case: Case, seen: list[ServerRound]) -> Costs | None:
    """Return the costs of the run, and of the same run without compression.

    None where it is not ST both ways, or the optimum is unknown.
    """
    algorithm = case.algorithm
    both = (algorithm.compressor, algorithm.down_compressor)
    exact = all(isinstance(c, ST) and c.rule == "exact" for c in both)
    if algorithm.variant != "consistent" or not exact:
        return None
    try:
        star = case.problem.optimum().x
    except NotCertified:
        return None
    plain = replace(algorithm, variant="none", scale=None, compressor=None, down_compressor=None)
    dense = simulated(replace(case, algorithm=plain), lambda old, new, clients: [new.x[0]])
    k = max(c.sizes(case.problem.dim)[0] for c in both)
    return Costs.of(seen, [case.x0, *dense], star, k)


@dataclass
class TermView(EFLWorld):
    """The elastic term of one round and of the next."""

    kind, about = "term", "about the elastic term of a round"
    asks = ("a Fisher diagonal of the losses", "EFL with lambda > 0")
    method, example = {"lam": 0.1}, "--problem breast-cancer --lam 0.1"
    local_steps, share = 1, 0.2

    shows: ClassVar = {"lambda": "lam", "Z": "Z"}
    demands = (Fact("two points or more", lambda q: len(q.points) > 1),)

    lam: Any = number(above=0)
    u: np.ndarray = number("N d", "diagonals of the Fisher matrices", least=0)
    anchors: np.ndarray = number("N d", "the models omega^i that these were taken at")
    next_u: np.ndarray = number("N d", "one round later", least=0)
    next_anchors: np.ndarray = number("N d")
    points: np.ndarray = number("M d", "where the term is looked at")
    active: np.ndarray = anything("the clients in the round that the pairs are from")

    def term(self, w: np.ndarray) -> np.ndarray:
        """(2) without f_k: lambda/2 sum_i (w - omega^i)' diag(I_i) (w - omega^i), of points."""
        return self.lam * (self.u * (w[..., None, :] - self.anchors) ** 2).sum(axis=(-2, -1)) / 2

    def expanded(self, w: np.ndarray, square: Any = 1, cross: Any = 1) -> np.ndarray:
        """(3) without f_k and Z: lambda/2 w' sum diag(I_i) w - lambda w' sum diag(I_i) omega^i."""
        U, V = self.u.sum(axis=0), (self.u * self.anchors).sum(axis=0)
        return square * self.lam * (U * w**2).sum(axis=-1) / 2 - cross * self.lam * (w * V).sum(axis=-1)

    Z = derived(
        lambda q: q.lam * (q.u * q.anchors**2).sum() / 2,
        "lambda/2 sum_i omega^i' diag(I_i) omega^i",
    )
    next_Z = derived(
        lambda q: q.lam * (q.next_u * q.next_anchors**2).sum() / 2, "The same one round later"
    )

    def slopes(self) -> np.ndarray:
        """The gradient of (2) at the points by central differences (M, d), which are exact for a square."""
        unit = np.eye(self.points.shape[1], dtype=int)
        at = self.points[:, None, :]
        return (self.term(at + unit) - self.term(at - unit)) / 2

    def elastic_gradient(self, who: np.ndarray | None = None, factor: Any = 1) -> np.ndarray:
        """lambda (U w - V) at the points, the sums over all clients or over some."""
        some = slice(None) if who is None else who
        U, V = self.u[some].sum(axis=0), (self.u * self.anchors)[some].sum(axis=0)
        return self.lam * (U * self.points - factor * V)

    @classmethod
    def made(cls, **values: Any) -> Self:
        """Make a mask of the numbers of the clients that took part."""
        n = len(values["u"])
        active = np.zeros(n, dtype=bool)
        active[[integer(k, "active", 0, n - 1) for k in values["active"]]] = True
        return cls(**{**values, "active": active})

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw diagonals and models of two rounds."""
        n, d = int(rng.integers(1, 5)), int(rng.integers(1, 4))

        def diagonals() -> list[list[Fraction]]:
            return rows(rng, n, d, lambda g: Fraction(int(g.integers(0, 9)), 4))

        data = {
            "lam": size(rng), "u": diagonals(), "anchors": rows(rng, n, d, signed),
            "next_u": diagonals(), "next_anchors": rows(rng, n, d, signed),
            "points": rows(rng, 3, d, signed), "active": [k for k in range(n) if rng.random() < 0.6],
        }
        return f"N={n} d={d}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> dict[str, Any]:
        """Find the pairs (u^i, v^i) and the models of a real run, after its last two rounds.

        Looked at are the start, the server's last model and the mean of both.
        """
        algorithm, problem = case.algorithm, case.problem
        if not isinstance(algorithm, EFL) or not algorithm.lam > 0:
            raise InvalidInput(
                f"lambda = {getattr(algorithm, 'lam', 0):g}, the limit is > 0: the statement is about "
                "the elastic term"
            )
        if problem.num_clients * problem.dim > MOST_NUMBERS:
            raise InvalidInput(
                f"N d = {problem.num_clients * problem.dim}: at most {MOST_NUMBERS} are judged in "
                "fractions; take fewer clients"
            )

        def look(old: Any, new: Any, clients: Any) -> Iterator[tuple[Any, ...]]:
            yield clients.cohort.dense().mask[0], new.u[0], new.v[0], new.x[0]

        rounds = simulated(case, look)
        if len(rounds) < 2:
            raise InvalidInput(
                "one round: the term is looked at after two of them; ask for more rounds"
            )
        pairs = [[simplest_each(side) for side in (u, v)] for _, u, v, _ in rounds[-2:]]
        anchors = [np.where(u > 0, v / np.where(u > 0, u, 1), 0) for u, v in pairs]
        first, last = simplest_each(case.x0), simplest_each(rounds[-1][-1])
        return {
            "lam": simplest(algorithm.lam), "u": pairs[0][0], "anchors": anchors[0],
            "next_u": pairs[1][0], "next_anchors": anchors[1],
            "points": [first, last, (first + last) / 2],
            "active": [int(k) for k in np.flatnonzero(rounds[-2][0])],
        }
