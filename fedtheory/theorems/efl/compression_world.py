"""The world of EFL's compression: one message and one compressor.

It is a user's message, one of a real run's, or one that is drawn; expectations over the compressor's
randomness are exact, messages in fractions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.messages import compressors
from fedtheory.messages.compressors import Compressor
from fedtheory.rational import fraction, simplest, simplest_each, to_file
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import law_of
from fedtheory.theorems.efl.world import EFLWorld
from fedtheory.theory import Case, EachOf, Fact, Letters, anything, derived, number
from fedtheory.theory.draws import signed, size

MESSAGES, NUMBERS = 64, 20_000  # of a run, and in all messages together
ROUNDS = 20
EXACT, MOST = Fact("C is ST with exactly k entries"), Fact("2k > n")
PRINTED = Fact("C is ST by the printed rule, which keeps all ties")
TOP_K, RANDOM_K = Fact("C is top-k"), Fact("C is random-k")
SCALED, SIGN = Fact("C is random-k times n/k"), Fact("C is the sign with scale")
THRESHOLD = Fact("C drops entries below epsilon")
QSGD, NATURAL = Fact("C is QSGD with s levels"), Fact("C is natural rounding")
TO_MAX = Fact("C rounds to 0 and +-max_i |x_i|")
TO_GRID = Fact("C rounds to the grid of width Delta")
_NAMED = {
    "top-k": TOP_K, "scaled-sign": SIGN, "threshold": THRESHOLD, "qsgd": QSGD, "natural": NATURAL,
}  # fmt: skip
COMPRESSORS: tuple[Callable[[Any, int], dict[str, Any]], ...] = (
    lambda g, n: {"name": "st", "q": Fraction(int(g.integers(1, n + 1)), n), "rule": "exact"},
    lambda g, n: {"name": "st", "q": Fraction(int(g.integers(1, 2 * n + 1)), 2 * n), "rule": "printed"},
    lambda g, n: {"name": "top-k", "k": int(g.integers(1, n + 1))},
    lambda g, n: {"name": "random-k", "k": int(g.integers(1, n + 1))},
    lambda g, n: {"name": "random-k", "k": int(g.integers(1, n + 1)), "scaled": True},
    lambda g, n: {"name": "scaled-sign"},
    lambda g, n: {"name": "qsgd", "levels": int(g.integers(1, 9))},
    lambda g, n: {"name": "natural"},
    lambda g, n: {"name": "stochastic"},
    lambda g, n: {"name": "stochastic", "step": size(g, 1)},
    lambda g, n: {"name": "threshold", "epsilon": size(g, 1)},
)


def make_compressor(spec: dict[str, Any]) -> Compressor:
    """From {"name": ..., parameters}; numbers of a parameter may be fraction strings."""
    known = compressors.get(spec["name"])
    names = {f.name for f in fields(known)}
    unknown = sorted(set(spec) - names - {"name"})
    if unknown:
        raise InvalidInput(f"{spec['name']} has no parameter {unknown[0]!r}: use {', '.join(sorted(names))}")
    given: dict[str, Any]
    given = {k: fraction(v, k) if isinstance(v, str) and k in ("q", "epsilon", "step") else v for k, v in spec.items() if k != "name"}
    return known(**given)


def message_drawn(rng: Any, n: int, near: Fraction) -> list[Fraction]:
    """Draw entries, among random ones those that are extreme for some compressor: equal entries, one large one,
    ties, powers of two times 4/3."""
    shape = rng.integers(7)
    if shape == 0:
        return [near * int(rng.choice([-1, 1])) for _ in range(n)]
    if shape == 1:
        return [near * 64, *[near / int(rng.choice([1, 8, 64]))] * (n - 1)]
    if shape == 2:
        return [Fraction(int(v)) * near for v in rng.integers(-2, 3, n)]
    if shape == 3:
        return [Fraction(4, 3) * Fraction(2) ** int(v) for v in rng.integers(-3, 4, n)]
    if shape == 4:  # (1, b, ..., b) with b near 1/(1 + sqrt n)
        return [near, *[near * Fraction(round(64 / (1 + n**0.5)), 64)] * (n - 1)]
    return [signed(rng) * near / 3 for _ in range(n)]


@dataclass
class CompressionView(EFLWorld):
    """One message x (n,) and one compressor."""

    kind, about = "compression", "about one compressed message"
    asks = ("a compressor", "messages that are given, or those of a real run of EFL")
    accepts, method = given.options("message"), {"compressor": "st:q=0.25"}
    example, count = "--problem diabetes --compressor st:q=0.2", 330
    attained = (
        ("QSGD beyond sqrt(n)/2", {
            "compressor": {"name": "qsgd", "levels": 3}, "x": ["5", "-3", "1", "1"],
        }),
    )  # fmt: skip

    shows: ClassVar = {"compressor": "name", "n": "n"}
    letters = Letters({
        "n": "n", "k": "k", "compressor": Letters({"epsilon": r"\epsilon", "step": r"\Delta"}),
        "error": r"\mathbb E\|C(x)-x\|^2", "square": r"\|x\|^2",
    }, ("error", "square"))  # fmt: skip

    compressor: Compressor = anything("its name and parameters")
    x: np.ndarray = number("n", "the message")

    def __post_init__(self) -> None:
        c = self.compressor
        facts = {_NAMED[c.name]} if c.name in _NAMED else set()
        if isinstance(c, compressors.ST):
            facts = {EXACT if c.rule == "exact" else PRINTED}
        if isinstance(c, compressors.RandomK):
            facts = {SCALED if c.scaled else RANDOM_K}
        if isinstance(c, compressors.StochasticRounding):
            facts = {TO_GRID if c.step is not None else TO_MAX}
        if c.name == "st" and 2 * self.k > self.n:
            facts.add(MOST)
        self.facts = frozenset(facts)

    n = derived(lambda q: len(q.x))

    @cached_property
    def k(self) -> Any:
        """The number that mu is divided by (ST), or of the entries kept (top-k, random-k)."""
        c = self.compressor
        if isinstance(c, compressors.ST):
            return Fraction(c.sizes(self.n)[1])
        if isinstance(c, compressors.TopK | compressors.RandomK):
            return c.count(self.n)
        # what a view lacks, a formula leaves out
        raise AttributeError(f"{c.name} keeps no number of entries: k is of st, top-k and random-k")

    error = derived(lambda q: q.compressor.expected_error_sq(q.x), "E||C(x) - x||^2")
    square = derived(lambda q: (q.x * q.x).sum())

    @cached_property
    def ternary(self) -> Any:
        """||x||^2 - (S/k)^2 (2k - m) of what ST kept: S the kept magnitudes, m how many of them are not 0."""
        kept = self.compressor.compress(self.x) != 0
        total = abs(self.x[kept]).sum() if kept.any() else 0 * self.square
        return self.square - (total / self.k) ** 2 * (2 * self.k - int(kept.sum()))

    name = derived(lambda q: str(q.compressor))

    @classmethod
    def made(cls, compressor: Any, x: np.ndarray) -> Self:
        """Make the compressor, which must fit the message."""
        made = make_compressor(compressor)
        made.check(len(x))
        return cls(made, x)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a message and a compressor, which a campaign takes in turn."""
        n = int(rng.integers(1, 9))
        number = int(rng.integers(len(COMPRESSORS))) if number is None else number
        spec = to_file(COMPRESSORS[number % len(COMPRESSORS)](rng, n))
        near = Fraction(1)
        if "step" in spec or "epsilon" in spec:  # near the worst case, now and then
            near = Fraction(spec.get("step", spec.get("epsilon"))) / (2 if "step" in spec else 1)
        x = message_drawn(rng, n, near if rng.random() < 0.7 else size(rng))
        return f"{spec['name']} n={n}", {"compressor": spec, "x": x}

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> Any:
        """Find the algorithm's compressor, and the message that is given, in fractions.

        Of several messages, or of those that the clients of a real run compress (D^k = R^k + x^k,
        at most 64), each is judged. A number is read as the simplest fraction that rounds to it;
        nothing is rounded after that, so that the verdict is exact.
        """
        compressor = getattr(case.algorithm, "compressor", None)
        if compressor is None:
            raise InvalidInput(
                f"{case.algorithm.name} compresses nothing: give it a compressor, as in "
                "EFL(compressor=messages.ST(1/4))"
            )
        spec = specification(compressor)
        if "message" in case.given:
            x = simplest_each(case.given["message"])
            label = "a message"
        else:
            x, label = sent_in(case), f"the messages of {case.problem.name}"
        if x.ndim not in (1, 2) or 0 in x.shape:
            raise InvalidInput(f"message has the shape {x.shape}: give (n,) numbers, or (M, n) for M messages")
        if x.size > NUMBERS:
            raise InvalidInput(f"{x.size} numbers in all messages: at most {NUMBERS} are judged in fractions; give fewer messages")
        rows = x.reshape(-1, x.shape[-1])
        if len(rows) == 1:
            return cls.instance(label, {"compressor": spec, "x": rows[0]})
        each = [cls.from_data({"compressor": spec, "x": to_file(row)}) for row in rows]
        constants = {**each[0].printed_constants(), "messages": len(each)}
        return EachOf(each, "message", constants)


def specification(compressor: Compressor) -> dict[str, Any]:
    """The name and the parameters, numbers as fractions."""
    if compressor.float_bits != 64:
        raise InvalidInput(
            f"{compressor}: it rounds what it sends to {compressor.float_bits} bits, and the "
            "factors are those of exact numbers; use float_bits=64"
        )
    given = {f.name: getattr(compressor, f.name) for f in fields(compressor) if f.name != "float_bits"}
    exact = {k: simplest(v) if isinstance(v, float) else v for k, v in given.items() if v is not None}
    return to_file({"name": compressor.name, **exact})


def sent_in(case: Case) -> np.ndarray:
    """Return the messages that clients of a real run compress, (M, n) in fractions, 64 at most.

    The message D^k is what was sent and what was left, R^k after the round, together. Under scheme A clients that are
    incomplete send nothing, so that they have no message.
    """
    algorithm = case.algorithm
    if not isinstance(algorithm, EFL) or not algorithm.client_feedback:
        raise InvalidInput(f"{algorithm.name} keeps no residuals, so that its messages are not seen: give a message")

    def look(old: Any, new: Any, clients: Any) -> Any:
        sent = np.asarray(clients.sent[0][0])
        if algorithm.variant != "literal":  # there what arrives is D^k itself
            sent = np.asarray(new.residuals)[0] + sent
        return sent[np.asarray(clients.who_sent()[0])[0]]

    found = simulated(case, look)
    if not found:
        raise InvalidInput("nobody sent anything in this run: take more rounds, or give a message")
    chosen = np.unique(np.linspace(0, len(found) - 1, MESSAGES).astype(int))
    most = max(1, NUMBERS // case.problem.dim)
    return simplest_each(np.stack([found[i] for i in chosen[:most]]))


def local_sgd_of(case: Case) -> LocalSGD:
    """Give the local work of a case, with steps of 1/(2L) where nothing is said."""
    solver = case.local_solver
    if solver is None:
        return LocalSGD(law_of(case).max_steps, 1 / (2 * float(case.problem.beta_k.max())))
    if not isinstance(solver, LocalSGD):
        raise InvalidInput(
            f"local work by {type(solver).__name__}: use LocalSGD, whose steps can be seen"
        )
    return solver


def simulated(case: Case, look: Callable[[Any, Any, Any], Iterable[Any]]) -> list[Any]:
    """What ``look(old_state, new_state, clients)`` finds in all rounds of one scenario.

    It is the user's method on all clients; those that do not take part are masked.
    """
    found: list[Any] = []
    simulate(
        case.problem, case.algorithm, case.rounds or ROUNDS, case.x0, law_of(case), 1, case.seed,
        local_sgd_of(case), record=(), dense=True,
        on_round=lambda t, old, new, clients: found.extend(look(old, new, clients)),
    )  # fmt: skip
    return found
