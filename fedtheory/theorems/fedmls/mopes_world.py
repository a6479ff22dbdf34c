"""Runs of MOPES and MOLES: of one loss on an interval in fractions, and of the library on sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory import central
from fedtheory.central.named_sets import named_set, shape_of
from fedtheory.central.plan import ACCURACY, Planned, plan
from fedtheory.errors import InvalidInput
from fedtheory.inputs import shown
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.theorems.fedmls import lines, of_files
from fedtheory.theorems.fedmls.of_files import entry, quarter
from fedtheory.theorems.fedmls.paper import FEWEST, MOST, SLIDING
from fedtheory.theorems.fedmls.requests import refuse_others
from fedtheory.theory import Fact, Prepared, anything, derived, number

STEPS = Fact("local training takes the T_k subgradient steps of line 4")
EXACT_PROX = Fact("every local problem is solved exactly")
FLAT = Fact("every local problem is solved exactly, its proximal term printed without the square")
LOCAL_FACT = {"sliding": STEPS, "exact": EXACT_PROX, "flat": FLAT}
PROJECTED = Fact("projections onto X are exact")
LINEAR = Fact("projections onto X are Frank-Wolfe's, to a Wolfe gap of C/(4K)")
NATURAL = Fact("C is the squared diameter of X")
INSIDE, OUTSIDE_BALL = Fact("x_0 lies in X"), Fact("x_0 lies outside X'")
OUTSIDE = Fact("x_0 lies in X' and not in X")
SET_ACCEPTS = {
    "X": "the convex set, of `fedtheory.central` (default: the ball of radius 1); --set and "
    "--set-size at the command line",
    "epsilon": f"the accuracy in units of G ||x_0 - x*|| (default {ACCURACY:g})",
    "noise": "noise added to every subgradient, in units of G (default 0)",
    "K": "rounds (default: what the bound asks for)",
    "lam": "lambda (default epsilon/G^2)",
    "D": "D-tilde (default ||x_0 - x*||^2)",
    "C": "moles' allowance for inexact projections (default the squared diameter)",
    "local_training": "'sliding' (default) or 'exact-prox'",
}
NOT_TAKEN = (
    "batch_size", "radius", "lipschitz", "sigma", "noise_std", "average", "server_projection",
    "norm", "skip_last",
)
KINK: dict[str, Any] = {
    "slopes": [["-1", "2"]], "offsets": [["0", "-3/2"]], "lam": "1/2", "D": "3", "low": "-1/2",
    "high": "1", "radius": "2", "rounds": 3,
}


@dataclass
class MopesView(of_files.InFractions, of_files.OfRounds):
    """A run of MOPES or MOLES.

    Attributes
    ----------
    lam, D, K, G_sq, distance_sq : lambda, D-tilde, K, G^2, ||x_0 - x*||^2
    excess : (1, S) F(x_K) - F*
    exact : True if the subgradients are
    noise : absolute uncertainty of F*
    C, diameter_sq : the allowance for inexact projections, and the squared diameter of X; None
        where projections are exact
    calls : (K, 1) linear minimisations of every round, or None
    """

    kind, family, scope = "mopes", "MOPES on an interval", "mopes"
    about = "about a run of MOPES or MOLES over a convex set"
    example, problem = "--problem lad --set simplex", "lad"
    accepts = SET_ACCEPTS
    scenarios, work, count = (FEWEST, MOST), SLIDING, 40
    reads: ClassVar = {
        **of_files.on_interval(lines.MOST_ROUNDS), "low": number(), "high": number(),
        "local": anything(default="sliding"),
    }  # fmt: skip
    fixed = (
        ("x_0 in X", {**KINK, "x0": "0", "local": "sliding"}),
        ("x_0 outside X", {**KINK, "x0": "3/2", "local": "sliding"}),
        ("solved", {**KINK, "x0": "0", "local": "exact"}),
    )

    lam: Any
    D: Any
    K: int
    G_sq: Any
    distance_sq: Any
    excess: np.ndarray
    facts: frozenset[str] = frozenset()
    exact: bool = True
    noise: Any = 0
    C: Any = None
    diameter_sq: Any = None
    calls: np.ndarray | None = None

    def bound(
        self, start: Any = 10, slack: Any = 8, allowance: Any = 0, penalty: Any = 1
    ) -> np.ndarray:
        """The bound on F(x_K) - F*, one for every scenario.

        It is (start ||x_0 - x*||^2 + slack D + allowance C)/(lambda K (K+1)) + penalty lambda
        G^2/2.
        """
        total = start * self.distance_sq + slack * self.D
        total += allowance * self.C if allowance else 0
        value = total / (self.lam * self.K * (self.K + 1)) + penalty * self.lam * self.G_sq / 2
        if self.excess.dtype == object:
            return entry(value)
        return np.full(self.excess.shape, float(value))

    def call_limit(self, factor: Any = 16) -> np.ndarray:
        """max(3, ceil(factor K diameter^2/C)), one for every round."""
        limit = -(-factor * self.K * Fraction(self.diameter_sq) // Fraction(self.C))
        return np.full((self.K, 1), float(max(3, limit)))

    # --- instances --------------------------------------------------------------------------------
    @classmethod
    def made(
        cls, slopes: Any, offsets: Any, lam: Any, D: Any, radius: Any, x0: Any, rounds: int,
        low: Any, high: Any, local: str,
    ) -> Self:
        """Make a run of one loss on X = [low, high] in X' = [-radius, radius]."""
        if not -radius <= low <= high <= radius:
            raise InvalidInput(
                f"low = {low}, high = {high}, radius = {radius}: X = [low, high] must lie in "
                "X' = [-radius, radius]"
            )
        clients = lines.read_losses(slopes, offsets)
        if local not in lines.LOCAL or len(clients) != 1:
            raise InvalidInput(
                f"local = {local!r}, {len(clients)} losses: one loss, and local is one of "
                f"{', '.join(lines.LOCAL)}"
            )
        g_sq = of_files.g_sq_of(clients, radius)
        if not g_sq:
            raise InvalidInput("the loss is constant on X': G must be > 0")
        run = lines.Run(clients, lam, D, low, high, radius, x0, rounds, g_sq, local)
        least, star = lines.least_on(clients, low, high, x0)
        excess = entry(lines.excess(clients, lines.history(run).x[-1], least))
        where = OUTSIDE_BALL if abs(x0) > radius else INSIDE if low <= x0 <= high else OUTSIDE
        facts = frozenset({PROJECTED, LOCAL_FACT[local], where})
        return cls(lam, D, rounds, g_sq, (x0 - star) ** 2, excess, facts)

    @classmethod
    def in_floats(cls, seed: int) -> Sequence[Any]:
        """Give runs of the library."""
        return mopes_battery(seed)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, dict[str, Any]]:
        """Draw a loss and an interval, and few enough local steps."""
        ends = sorted(quarter(rng) for _ in range(2))
        local = str(rng.choice(["sliding", "sliding", "sliding", "exact"]))
        rounds, share = int(rng.integers(1, 7)), Fraction(int(rng.integers(0, 9)), 8)
        x0 = ends[0] + share * (ends[1] - ends[0]) if rng.random() < 0.6 else quarter(rng)
        data = {
            **of_files.losses(rng, 1), "lam": of_files.lam(rng),
            "D": Fraction(int(rng.integers(1, 33)), 4),
            "low": ends[0], "high": ends[1], "radius": Fraction(2), "x0": x0, "rounds": rounds,
            "local": local,
        }
        if local == "sliding":  # few enough steps for fractions: a K^3/3 is about their number
            g_sq = max(abs(p) for p in data["slopes"][0]) ** 2
            data["D"] = max(data["D"], g_sq * data["lam"] ** 2 * rounds**4 / 60)
        return f"K={rounds} {local}", data

    # --- a problem of the user's ------------------------------------------------------------------
    @classmethod
    def prepare(cls, statement: Any, request: Any) -> Prepared:
        """Make a case of MOPES or MOLES as the options ask for it.

        There is no method in the case: the options are given to the statement.
        """
        problem, o = request.problem(cls.problem), request.options
        refuse_others(request, problem, NOT_TAKEN)
        x0, shape = request.start(problem), shape_of(o.get("set_shape"))
        size = 1.0 if o.get("set_size") is None else o["set_size"]
        given = dict(o.get("given") or {})
        given.setdefault(
            "X", named_set(o.get("set") or "ball", problem.dim, size, shape, problem.num_clients)
        )
        names = {name: name for name in ("epsilon", "noise", "lam", "D", "local_training")}
        for theirs, mine in {**names, "allowance": "C"}.items():
            if o.get(theirs) is not None:
                given.setdefault(mine, o[theirs])
        if request.rounds is not None:
            given.setdefault("K", request.rounds)
        made, name = planned_of(statement.id, problem, given, x0), method_of(statement.id)
        head = [f"{name} on {problem.name}: N = {problem.num_clients}, d = {problem.dim}"]
        options, rows = {"given": given, "rounds": None}, made.rows()
        return Prepared(
            problem, None, options, head, {"method": made.to_json()}, lambda checks: rows
        )

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> MopesView:
        """Run the statement's method on a user's problem.

        Raises
        ------
        InvalidInput
            A method of the user's, a loss that is not convex, noise in mode 'exact'.
        InvalidInput, MissingCapability, NotCertified
            As `fedtheory.central.plan` raises them.
        """
        if case.algorithm is not None:
            raise InvalidInput(
                f"the statement is about {method_of(statement).upper()} with parameters of its "
                "own: give None for the method"
            )
        if not case.problem.convex:
            raise InvalidInput("some client's loss is not convex")
        made = planned_of(statement, case.problem, case.given, case.x0)
        noisy = bool(made.method.noise_std)
        if case.mode == "exact" and noisy:
            raise InvalidInput("mode = 'exact': what noise does is not enumerated, use mode='auto'")
        least, most = cls.scenarios
        count = max(least, min(case.scenarios, most)) if noisy else 1
        optimum = made.optimum
        return view_of_central_run(
            made.method, made.problem, made.constraint, made.x0, optimum.x, optimum.lower_bound,
            noise=optimum.value - optimum.lower_bound, seeds=range(case.seed, case.seed + count),
            distance_sq=made.distance**2,
        )


def method_of(statement: str) -> str:
    """'moles' for its statements, else 'mopes'."""
    return "moles" if statement.rpartition("/")[2].startswith("moles") else "mopes"


def planned_of(statement: str, problem: Any, given: Mapping[str, Any], x0: np.ndarray) -> Planned:
    """Plan the run that is meant; from 0, or the set's point nearest to 0, where x_0 is 0."""
    constraint = given.get("X", central.Ball(problem.dim, 1.0))
    if not isinstance(constraint, central.ConstraintSet):
        raise InvalidInput(
            f"X is {shown(constraint)}: give a set of fedtheory.central, such as Box(dim, -1, 1)"
        )
    start = None if not x0.any() else np.tile(x0, constraint.dim // problem.dim)
    options = {k: given.get(k) for k in SET_ACCEPTS if k not in ("X", "K")}
    name = method_of(statement)
    return plan(problem, constraint, name, start, rounds=given.get("K"), **options)


# --- runs of the library --------------------------------------------------------------------------
SETS = ("ball", "box", "simplex", "l1", "nuclear", "largest entry", "segment")
POINT = np.array([1.0, -0.7, 0.4, 0.1, 2.0, -0.2])
WIDE = 12  # dimension of the largest entry on the simplex


def view_of_central_run(
    method: central.MOPES, problem: Problem, constraint: central.ConstraintSet, x0: np.ndarray,
    star: np.ndarray, least: float, *, seeds: range = range(1), noise: float = 0.0,
    distance_sq: float | None = None,
) -> MopesView:
    """Make one run, or one for every seed where the subgradients are noisy.

    Parameters
    ----------
    star, least : a minimiser of F over the set, and F* or a lower bound of it
    noise : absolute uncertainty of F*
    distance_sq : ||x_0 - x*||^2 where it is not that of the arrays, as on a product space
    """
    runs = [method.run(problem, constraint, x0, seed=s) for s in seeds]
    facts = {EXACT_PROX if method.solved else STEPS, INSIDE}
    more: dict[str, Any] = {}
    if isinstance(method, central.MOLES):
        C, diameter_sq = float(method.C), constraint.diameter**2  # type: ignore[arg-type]
        calls: Any = runs[0].lmo_calls
        more = {"C": C, "diameter_sq": diameter_sq, "calls": np.diff(calls)[:, None].astype(float)}
        natural = abs(C - diameter_sq) <= 1e-12 * diameter_sq
        facts |= {LINEAR, NATURAL} if natural else {LINEAR}
    else:
        facts.add(PROJECTED)
    excess = np.array([[run.values[-1] - least for run in runs]])
    size = 1e-12 * (1 + float(np.abs([run.values for run in runs]).max()))
    if distance_sq is None:
        distance_sq = float(((x0 - star) ** 2).sum())
    exact = not (method.noise_std or method.batch_size)
    return MopesView(
        float(method.lam), float(method.D), int(method.rounds), float(method.lipschitz) ** 2,
        distance_sq, excess, frozenset(facts), exact, noise + size, **more,
    )


@dataclass(frozen=True)
class MopesInstance(of_files.InFloats):
    """The distance to a point over a set that does not hold it, or the largest entry on a simplex.

    The minimiser of the first is the projection.

    Attributes
    ----------
    constraint : of `SETS`
    method : 'mopes' or 'moles'
    epsilon : accuracy for which lambda, D, K (and C = diameter^2) are chosen; G = 1. On the segment
        it is lambda, and K = 1: there x_1 = x_0, the whole segment away from the minimiser
    noise : noise_std; 0 is deterministic
    """

    constraint: str
    method: str
    epsilon: float
    noise: float = 0.0
    scenarios: int = 1
    seed: int = 0

    kind = "mopes"

    family = derived(lambda q: f"{q.method.upper()} on sets")

    @property
    def name(self) -> str:
        noise = f" noise={self.noise:g}" if self.noise else ""
        return f"{self.method} {self.constraint} eps={self.epsilon:g}{noise}"

    def set(self) -> central.ConstraintSet:
        """The set X."""
        return {
            "ball": central.Ball(6, 1.3), "box": central.Box(6, -0.5, 0.8),
            "simplex": central.Simplex(6), "l1": central.L1Ball(6, 1.3),
            "nuclear": central.NuclearBall(2, 3, 1.3),
            "largest entry": central.Simplex(WIDE), "segment": central.Box(1, -1.0, 1.0),
        }[self.constraint]

    def view(self) -> MopesView:
        """Run it from a vertex."""
        constraint = self.set()
        x0 = constraint.linear_minimiser(np.eye(constraint.dim)[0])
        if self.constraint == "largest entry":
            problem, star = _largest_entry(WIDE), np.full(WIDE, 1 / WIDE)
        else:
            point = np.full(1, 3.0) if self.constraint == "segment" else POINT
            problem, star = _distance(point), constraint.project(point)
        distance_sq = float(((x0 - star) ** 2).sum())
        noisy: dict[str, Any] = {"sigma": self.noise, "noise_std": self.noise}
        if self.constraint == "segment":
            size_sq = constraint.diameter**2
            more: dict[str, Any] = {} if self.method == "mopes" else {"C": size_sq}
            kind = central.MOLES if more else central.MOPES
            method = kind(self.epsilon, 1e-3, 1, 1.0, **more, **noisy)
        elif self.method == "mopes":
            method = central.MOPES.for_accuracy(self.epsilon, 1, distance_sq, **noisy)
        else:
            method = central.MOLES.for_accuracy(
                self.epsilon, 1, distance_sq, constraint.diameter, **noisy
            )
        least, seeds = float(problem.objective(star)), range(self.seed, self.seed + self.scenarios)
        return view_of_central_run(method, problem, constraint, x0, star, least, seeds=seeds)


def _distance(c: np.ndarray) -> central.Function:
    def subgradient(x: np.ndarray) -> np.ndarray:
        size = np.linalg.norm(x - c, axis=-1, keepdims=True)
        return (x - c) / np.where(size > 0, size, 1.0)

    def value(x: np.ndarray) -> np.ndarray:
        return np.linalg.norm(x - c, axis=-1)

    return central.Function(len(c), value, subgradient, lipschitz=1.0)


def _largest_entry(n: int) -> central.Function:
    return central.Function(
        n, lambda x: x.max(axis=-1), lambda x: np.eye(n)[np.argmax(x, axis=-1)], lipschitz=1.0
    )


def mopes_battery(seed: int = 0) -> list[MopesInstance]:
    """Give every set, with projections and with linear minimisations, and two noisy runs."""
    both = ("mopes", "moles")
    sets = [s for s in SETS if s != "segment"]
    out = [MopesInstance(s, m, 1.5 if m == "mopes" else 2.0) for s in sets for m in both]
    out += [MopesInstance("segment", m, value) for m in both for value in (1.0, 50.0)]
    first = int(Stream(seed).generator("fedmls noisy MOPES").integers(2**31))
    out.append(MopesInstance("simplex", "mopes", 2.0, 1.0, 12, first))
    return [*out, MopesInstance("segment", "mopes", 1.0, 1.0, 8, first)]
