"""Runs with irregular clients and noisy gradients on quadratics, in exact second moments.

A statement ``over=`` a subclass of `IrregularRun` is about runs of local SGD in which client k does
s_k of E steps, under a law of its own, and a gradient is pushed by noise. The subclass says the
method and the step sizes; what the server does with the local models is read off the method's own
round. The function of the statement is given E||x_t - x*||^2 of every round, the moments of the
coefficients, G^2, sigma_k^2 and D_k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms.compressed import Compressed
from fedtheory.errors import InvalidInput, MissingCapability, suggest
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Full
from fedtheory.participation.irregular import (
    Irregular,
    Participation,
    as_irregular,
    complete,
    joint_law,
)
from fedtheory.participation.moments import Moments
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.quadratic import Quadratic
from fedtheory.rational import integer, table, vector
from fedtheory.theory.judge.case import LocalWork
from fedtheory.theory.judge.view import Fact
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.second_moments import QuadraticOracles, oracles_of, second_moments
from fedtheory.theory.world import Draws, World

__all__ = [
    "COMMON", "IrregularRun", "RunConstants", "enumerable", "exact_oracles", "law_of", "laws_of",
    "laws_of_rounds", "local_sgd_of",
]  # fmt: skip

COMMON = Fact("common mini-batches: all clients have the same draw in a step")
HOW = {
    "L, mu": "extreme eigenvalues of the clients' Hessians",
    "G_sq": "largest E||g||^2 over rounds, clients and virtual steps, exact",
    "sigma_sq": "largest E||g - grad F_k||^2 over the same, exact",
    "D": "closed form",
    "moments": "exact, from the laws of s_k",
}


@dataclass
class RunConstants:
    """The constants of a run; numbers are floats, or all Fractions.

    Attributes
    ----------
    E : local steps a round
    L, mu : the largest and the least curvature of all clients
    theta : the least number with p_t^k <= theta w_k
    G_sq : the largest E||g||^2 over rounds, clients and all E steps that each would make
    sigma_sq, D, weights : (N,)
        E||g - grad f_k||^2, f_k(x*) - min f_k, w_k.
    rounds : list of T `Moments`, one a round (equal laws share one object)
    start_sq : E||x_0 - x*||^2
    how : dict constant -> how it is known
    """

    E: int
    L: Any
    mu: Any
    theta: Any
    G_sq: Any
    sigma_sq: np.ndarray
    D: np.ndarray
    weights: np.ndarray
    rounds: list[Moments]
    start_sq: Any
    how: dict[str, str] = field(default_factory=dict)

    @property
    def T(self) -> int:
        return len(self.rounds)

    @cached_property
    def _zero(self) -> Any:
        return self.start_sq * 0

    def each(self, compute: Callable[[Moments], Any]) -> np.ndarray:
        """(T,) of a function of one round's moments, evaluated once a law."""
        kept: dict[int, Any] = {}
        for m in self.rounds:
            if id(m) not in kept:
                kept[id(m)] = compute(m)
        exact = self.weights.dtype == object
        return np.array([kept[id(m)] for m in self.rounds], dtype=object if exact else float)

    @cached_property
    def S(self) -> np.ndarray:
        """E[sum_k p_t^k s_t^k] (T,)."""
        return self.each(lambda m: m.sum_ps)

    def before(self, terms: np.ndarray) -> np.ndarray:
        """Sums over the rounds before: (T,) -> (T + 1,), 0 first."""
        return np.concatenate([np.zeros(1, dtype=terms.dtype) + self._zero, np.cumsum(terms)])


@dataclass
class IrregularRun(World):
    """A run of T rounds, judged at some of its horizons.

    A subclass has a ``kind`` and says `method` and `steps`; where its forms need more than the
    constants that there are, it takes a subclass of `RunConstants` for ``known``.

    Attributes
    ----------
    constants : RunConstants
    distance_sq : (T + 1,) exact E||x_t - x*||^2, or (T + 1, S) one column a scenario
    rule : of the class's rules, the variants of the method
    horizons : (n,) the t looked at
    noise : error of a measured distance_sq, from x* being known approximately
    facts : `COMMON` where all clients draw the same mini-batch in a step
    second_moment : (d + 1, d + 1) of (x_T - x*, 1), where it is known
    """

    about = "about a run of local SGD with irregular clients"
    asks = ("quadratic losses", "independent clients", "LocalSGD")
    example = "--problem quadratic --inactive 0.3 --incomplete uniform"
    work = LocalWork((LocalSGD,), "gradients must be unbiased given the past, use LocalSGD")
    known: ClassVar[type[RunConstants]] = RunConstants
    horizon: ClassVar[str] = "T"

    constants: Any
    distance_sq: np.ndarray
    rule: str = field()  # no default, as a world has
    horizons: np.ndarray
    exact: bool = True
    noise: Any = 0
    facts: frozenset[str] = frozenset()
    second_moment: Any = None

    def __init_subclass__(cls, **more: Any) -> None:
        """Draw from a stream of its own."""
        super().__init_subclass__(**more)
        cls.draws = (Draws(f"world {cls.kind}", cls.draw, 40),)

    @classmethod
    def method(cls, rule: str) -> Any:
        """Give the method under a rule."""
        raise InvalidInput(f"{cls.__name__} is about no method: write its method(rule)")

    @classmethod
    def steps(cls, constants: Any) -> Any:
        """Give the step sizes of all rounds (T,); G_sq, sigma_sq and start_sq are not known yet."""
        raise InvalidInput(f"{cls.__name__} has no step sizes: write its steps(constants)")

    # --- what a statement reads -------------------------------------------------------------------
    def __getattr__(self, name: str) -> Any:
        """Give a constant by its name."""
        if name.startswith("__") or name == "constants":
            raise AttributeError(name)
        if not hasattr(self.constants, name):
            own = [n for n in (*dir(self), *dir(self.constants)) if n[0] != "_"]
            told = suggest(name, own, f"quantity of {type(self).__name__}")
            raise AttributeError(str(told))
        return getattr(self.constants, name)

    @property
    def lhs(self) -> np.ndarray:
        """E||x_t - x*||^2 at the horizons: (n,), or (n, S)."""
        return self.distance_sq[self.horizons]

    def column(self, values: np.ndarray) -> np.ndarray:
        """Values at the horizons (n,), such as ``a[q.horizons]`` of T + 1, in the shape of
        `lhs`."""
        return values if self.exact else np.broadcast_to(values[:, None], self.lhs.shape)

    @property
    def later(self) -> Self:
        """The same run without the horizon 0, where bounds that begin at the start say nothing."""
        return replace(self, horizons=self.horizons[self.horizons > 0])

    def part(self, hundredths: int) -> Any:
        """hundredths/100 in the arithmetic of the run."""
        return (self.constants.start_sq * 0 + hundredths) / 100

    # --- runs -------------------------------------------------------------------------------------
    @classmethod
    def along(
        cls, oracles: QuadraticOracles, laws: Sequence[RoundLaw], start: np.ndarray,
        horizons: np.ndarray | None = None, L: Any = None, mu: Any = None, moment: Any = None,
        **known: Any,
    ) -> Self:  # fmt: skip
        """Make a run of T = len(laws) rounds.

        Parameters
        ----------
        horizons : the t looked at; default all of 0..T
        L, mu : in place of the extreme curvatures of the clients, which they must bound
        moment : the second moment of (x_0 - x*, 1), in place of the start
        known : what follows from the constants otherwise, by name
        """
        L, mu = oracles.L if L is None else L, oracles.mu if mu is None else mu
        rounds, none = [law.moments for law in laws], np.zeros(0)
        constants = cls.known(
            laws[0].E, L, mu, max(m.theta for m in rounds), None, none, oracles.D, oracles.weights,
            rounds, None, dict(HOW),
        )  # fmt: skip
        vars(constants).update(known)
        try:
            steps = list(cls.steps(constants))
        except TypeError as error:
            raise InvalidInput(
                f"steps of {cls.__name__}: {error}; it gives the T step sizes of a run, such as "
                "[1 / constants.L] * constants.T, and G_sq, sigma_sq and start_sq are not known yet"
            ) from error
        path = second_moments(oracles, list(laws), steps, start, moment)
        G_sq, sigma_sq, start_sq = path.G_sq, path.sigma_sq, path.distance_sq[0]
        constants = replace(constants, G_sq=G_sq, sigma_sq=sigma_sq, start_sq=start_sq)
        vars(constants).update(known)
        horizons = np.arange(len(laws) + 1) if horizons is None else horizons
        facts = frozenset({COMMON} if oracles.common else ())
        same = [r for r in cls.rules if cls.method(r) == laws[0].method]
        scheme = getattr(laws[0].method, "scheme", "any")
        rule = same[0] if same else scheme if scheme in cls.rules else "any"
        more: Any = {"facts": facts, "second_moment": path.second_moment}
        return cls(constants, path.distance_sq, rule, horizons, **more)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make a run of h, c, weights, noise and common (`exact_oracles`), laws, every, w0 and T.

        It is judged at T - 1 and T. ``laws``: N rows of E + 1 probabilities, one law a round, the
        last for all that follow. ``every``: of two laws, the second one holds in each so many
        rounds, the first one in all others. ``scheme``: the rule, where there are several.
        """
        oracles, T = exact_oracles(data), integer(data["T"], "T", 1, 20_000)
        w0 = vector(data["w0"], "w0")
        if len(w0) != oracles.shape[2]:
            raise InvalidInput(f"w0 has {len(w0)} entries, expected {oracles.shape[2]}")
        laws, every = laws_of(data["laws"], oracles.shape[0]), None
        if "every" in data:
            every = integer(data["every"], "every", 2)
            if len(laws) != 2:
                raise InvalidInput(
                    f"every = {every} with {len(laws)} laws: give two, the second for each "
                    f"{every}th round"
                )
        rule = data.get("scheme", "any")
        if rule not in cls.rules:
            raise suggest(str(rule), cls.rules, f"scheme of {cls.__name__}")
        method = cls.method(rule)
        rounds = laws_of_rounds(method, laws, T, oracles.weights, every)
        return cls.along(oracles, rounds, w0, np.array([T - 1, T]))

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, dict[str, Any]]:
        """Draw few clients, a law of participation, and now and then noise."""
        n, d, E = (int(rng.choice(v)) for v in ((1, 2, 3), (1, 2), (1, 2, 3)))

        def numbers(low: int, high: int, *shape: int) -> Any:
            return np.vectorize(lambda v: Fraction(int(v), 4))(rng.integers(low, high, shape))

        def row(idle: bool) -> list[Fraction]:
            parts = [int(v) for v in rng.integers(0, 9, E + 1)]
            parts[0] = int(rng.choice([0, 1, 9, 300])) if idle else 0
            parts[-1] += int(rng.integers(1, 9))
            return [Fraction(v, sum(parts)) for v in parts]

        full, shape = [[Fraction(0)] * E + [Fraction(1)]] * n, int(rng.integers(4))
        laws = [full] if shape == 0 else [[row(shape < 3) for _ in range(n)]]
        laws = [[laws[0][0]] * n] if shape == 1 else laws
        weights = numbers(1, 9, n)
        data = {
            "weights": weights / weights.sum(), "h": numbers(1, 17, n, d), "laws": laws,
            "c": numbers(-8, 9, n, d), "w0": numbers(-8, 9, d), "T": int(rng.integers(1, 6)),
        }  # fmt: skip
        if rng.random() < 0.5:
            data["noise"] = numbers(-4, 5, n, d)
        rule = str(rng.choice(cls.rules))
        data |= {} if rule == "any" else {"scheme": rule}
        return f"N={n} d={d} E={E} T={data['T']}" + f" {rule}" * (rule != "any"), data

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> Self:
        """Make a run of a user's problem with quadratic losses, method and participation."""
        law, rounds = law_of(case), case.rounds or 50
        solver = local_sgd_of(case, law)
        law.check_run(case.problem.num_clients, rounds)
        solver.check(case.problem)
        if not enumerable(case.problem, law, solver, rounds):
            raise MissingCapability(
                "exact second moments need quadratic losses (mini-batches: of LeastSquares, with "
                "replacement) and independent clients"
            )
        oracles = oracles_of(case.problem, solver.batch_size, solver.noise_std)
        tables = [law.law(t) for t in range(1, rounds + 1)]
        laws = laws_of_rounds(case.algorithm, tables, rounds, oracles.weights)
        start = np.zeros(case.problem.dim) if case.x0 is None else case.x0
        return cls.along(oracles, laws, start)

    @classmethod
    def prepare(cls, statement: Any, request: Any) -> Any:
        """Make a case of the law of participation and the local work that were asked for."""
        from fedtheory.theory.judge.request import Prepared

        said = f"the steps of {statement.id} are its own; leave it out"
        request.refuse(("local_lr", "lr_schedule", "lr_delay"), said)
        problem, o = request.problem(cls.problem), request.options
        rounds, E = request.rounds or 50, o.get("local_steps") or 5
        method = cls.method(cls.rules[0])
        if type(method).__module__.startswith("fedtheory.") and not isinstance(method, Compressed):
            own = {f.name: getattr(method, f.name) for f in fields(method)}
            method = request.algorithm(method.name, problem, **own)
        else:
            request.refuse_hyperparameters(f"{statement.id} has a method of its file; leave it out")
        sampling = request.participation(problem, E, rounds)
        solver = LocalSGD(E, 1.0, o.get("batch_size"), noise_std=o.get("noise") or 0.0)
        who = request.participation_in_words(problem)
        head = f"{problem.name}: N = {problem.num_clients}, {who}, E = {E}, T = {rounds}"
        options = {"sampling": sampling, "local_solver": solver, "rounds": rounds}
        return Prepared(problem, method, options, [head])


def exact_oracles(data: dict[str, Any]) -> QuadraticOracles:
    """Make quadratics sum_i h_ki (x_i - c_ki)^2/2 in fractions, with gradients pushed by +-noise_k.

    ``h``, ``c`` : N rows of d; ``noise`` : N rows of d or absent, each sign with probability 1/2;
    ``weights`` : N fractions; ``common`` : true where all clients have the same sign in a step,
    absent where their signs are independent.
    """
    h, c = table(data["h"], "h"), table(data["c"], "c")
    weights = vector(data["weights"], "weights")
    if h.shape != c.shape or len(weights) != len(h):
        raise InvalidInput(
            f"h {h.shape}, c {c.shape}, weights {weights.shape}: expected (N, d), (N, d), (N,)"
        )
    if not (weights > 0).all() or weights.sum() != 1:
        raise InvalidInput(f"weights sum to {weights.sum()}: they must be > 0 and sum to 1")
    n, d = h.shape
    noise = table(data["noise"], "noise") if "noise" in data else None
    signs = [0] if noise is None else [1, -1]
    H = np.zeros((n, len(signs), d, d), dtype=object) + Fraction(0)
    H[..., range(d), range(d)] = h[:, None]
    b = np.stack([h * c + (0 if noise is None else sign * noise) for sign in signs], axis=1)
    q = np.zeros((n, len(signs)), dtype=object) + Fraction(1, len(signs))
    common = data.get("common", False)
    if not isinstance(common, bool):
        raise InvalidInput(f"common = {common!r}: write true, or leave it out")
    none = np.zeros(n, dtype=object) + Fraction(0)
    return QuadraticOracles(H, b, q, weights, none, common=common)


def laws_of(tables: list[Any], clients: int) -> list[np.ndarray]:
    """Read tables of fractions as laws (N, E + 1)."""
    laws = [table(law, "law") for law in tables]
    for law in laws:
        if law.shape[0] != clients or law.shape != laws[0].shape or law.shape[1] < 2:
            raise InvalidInput(f"a law of shape {law.shape}: expected ({clients}, E + 1)")
        if (law < 0).any() or (law.sum(axis=1) != 1).any():
            raise InvalidInput(
                "a law with a row that is no distribution of s = 0..E: entries >= 0 that sum to 1"
            )
    return laws


def laws_of_rounds(
    method: Any, tables: Sequence[np.ndarray], rounds: int, weights: np.ndarray,
    every: int | None = None,
) -> list[RoundLaw]:  # fmt: skip
    """Make one law a round, the last one for all rounds that follow; equal ones are one object.

    every : with two laws, the second one holds in rounds every - 1, 2 every - 1, ..., the first
        one in all others
    """
    kept: dict[Any, RoundLaw] = {}
    kinds = []
    for rows in tables:
        key = tuple(rows.ravel())
        kinds.append(kept.setdefault(key, RoundLaw(method, rows, weights)))
    if every is not None:
        return [kinds[(t + 1) % every == 0] for t in range(rounds)]
    return [kinds[min(t, len(kinds) - 1)] for t in range(rounds)]


def law_of(case: Any, steps: int = 5) -> Participation:
    """Give the law of s_k of a case, of as many steps as the sampling, the solver or neither says.

    Raises `InvalidInput`: a sampling and a solver with different numbers of local steps.
    """
    solver, clients = case.local_solver, case.problem.num_clients
    given = case.sampling.max_steps if isinstance(case.sampling, Participation) else None
    if given is not None and isinstance(solver, LocalSGD) and solver.steps != given:
        raise InvalidInput(
            f"the participation law has E = {given} local steps, but the local solver makes "
            f"steps = {solver.steps}: give both the same number"
        )
    E = given or (solver.steps if isinstance(solver, LocalSGD) else steps)
    full = case.sampling is None or isinstance(case.sampling, Full)
    return complete(clients, E) if full else as_irregular(case.sampling, E, clients)


def local_sgd_of(case: Any, law: Participation) -> LocalSGD:
    """Give the local work of a case; a step of 1 stands for the theorem's."""
    given = case.local_solver
    return given if isinstance(given, LocalSGD) else LocalSGD(law.max_steps, 1.0)


def enumerable(problem: Any, law: Participation, solver: LocalSGD, rounds: int) -> bool:
    """True if there are exact second moments: quadratic losses, independent clients."""
    if not isinstance(problem, Quadratic | LeastSquares) or not isinstance(law, Irregular):
        return False
    samples = solver.replacement and isinstance(problem, LeastSquares)
    if solver.batch_size is not None and not samples:
        return False
    return all(joint_law(law, t) is None for t in range(1, rounds + 1))
