"""Runs of Algorithm 3 with everyone: in fractions from a file, or on a user's problem."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn, FedElasticNetDynState
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local.exact import Exact
from fedtheory.participation.cohorts import Full
from fedtheory.problems.base import Problem
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.quadratic import Quadratic
from fedtheory.rational import in_fractions, simplest, to_file
from fedtheory.simulation.simulate import check_start
from fedtheory.theorems.fedelasticnet.dynamics.losses import Everyone, Rows, in_file, rows_of
from fedtheory.theorems.fedelasticnet.dynamics.motion_view import MotionView
from fedtheory.theorems.fedelasticnet.dynamics.separable import pieces_of
from fedtheory.theorems.fedelasticnet.notation import EXACT, RULES, in_units_of
from fedtheory.theorems.fedelasticnet.quantities import inner, norm_sq
from fedtheory.theorems.fedelasticnet.world import Data, ElasticWorld, check_everybody, start_of
from fedtheory.theory import Prepared, Witness, number, whole, word
from fedtheory.theory.draws import part
from fedtheory.theory.fields import Read
from fedtheory.theory.rounds.losses import PieceTable, SeparableLosses
from fedtheory.theory.rounds.slopes import Piece, absolute, huber, quadratic, ramp
from fedtheory.theory.world_setting import OF_RUNS, OF_STEPS

__all__ = [
    "Everybody", "Motion", "data_of", "drift_of_one", "fields_of",
]  # fmt: skip

F = Fraction
MOST = 60_000  # numbers that a run in fractions may have: rounds x clients x coordinates
ROUNDING = 1e-12  # relative: below it two states in floats are one
ROUNDS = 50  # of a user's run, where none are asked for
MOST_EXACT = 3000  # rounds x clients x coordinates of a user's run that are followed in fractions

def fields_of(
    pieces: Rows, lambda1: Any, lambda2: Any, theta: Any, rounds: int, **more: Any
) -> Data:
    """The fields of a file: fractions as strings."""
    losses, start = [[in_file(p) for p in row] for row in pieces], [F(x) for x in theta]
    numbers = {"lambda1": F(lambda1), "lambda2": F(lambda2), "theta": start, **more}
    return {"losses": losses, "rounds": rounds, **to_file(numbers)}


def data_of(
    pieces: Rows, lambda1: Any, lambda2: Any, rule: str, theta: Any, rounds: int, stored: Any = None
) -> Data:
    """The fields of a file about a run of Algorithm 3."""
    own = {} if stored is None else {"stored": [[F(x) for x in row] for row in stored]}
    return fields_of(pieces, lambda1, lambda2, theta, rounds, rule=rule, **own)


# --- runs that attain a bound or break a claim ----------------------------------------------------
def drift_of_one(lambda2: Any = 28, rounds: int = 32) -> dict[str, Any]:
    """One client with the slope x between -1/2 and 3/2, clipped there, lambda_1 = 1, from 2. It stores 3/2, theta goes left until
    the slope is below 1/2, and there the client moves again and stores a slope below 1/2, for ever if lambda_2 >= 2."""
    return data_of([[ramp(F(-1, 2), F(3, 2), F(-1, 2), F(3, 2))]], 1, lambda2, "sign", [2], rounds)


def _cycle(lambda2: Fraction, g: Fraction, rounds: int) -> dict[str, Any]:
    """One client x^2/2 with lambda_1 = 1, from theta = g - g/lambda_2."""
    return data_of([[quadratic(1)]], 1, lambda2, "sign", [g - g / lambda2], rounds, [[g]])


def known() -> dict[str, dict[str, Any]]:
    """The runs by name."""
    one = [[quadratic(1)]]
    pair = [[quadratic(1, -3)], [quadratic(1, 3)]]
    flat = [[huber(-3, F(1, 2))], [huber(3, F(1, 2))]]
    kinks = [[absolute(-1)], [absolute(0)], [absolute(2)]]
    found = {
        "stall": data_of(one, 1, 28, "sign", [1], 3),
        "stall in the plane": data_of([[quadratic(2)] * 2] * 2, 1, 60, "sign", [F(1, 2), F(-1, 2)], 2),
        "below lambda_1": data_of(one, 1, 28, "sign", [F(19, 20)], 3),
        "above lambda_1": data_of(one, 1, 28, "sign", [F(21, 20)], 3),
        "slopes that cancel": data_of(pair, 2, 28, "sign", [0], 3),
        "h is not 0": data_of(one, 1, 28, "sign", [0], 3, [[F(1, 4)]]),
        "slow drift": drift_of_one(),
        "quick drift": drift_of_one(2, 8),
        "the quickest drift": data_of([[huber(0, F(1, 2))]], 1, 28, "sign", [-1], 3, [[F(1, 2)]]),
        "short cycle": _cycle(F(3, 4), F(2, 3), 4),
        "long cycle": _cycle(F(1679, 60), F(30, 59), 112),
    }
    for rule in ("sign", "true-gradient"):
        gamma = F(5, 9)  # lambda_1/(2 lambda_2 + beta)
        found |= {
            f"two-cycle, {rule}": data_of(one, 1, F(2, 5), rule, [gamma * (1 - F(5, 2))], 2, [[gamma]]),
            f"Huber from 9, {rule}": data_of([[huber(0, 1)]], 1, 1, rule, [9], 4),
            f"flat R, {rule}": data_of(flat, F(1, 4), 30, rule, [1], 12),
            f"kinks, {rule}": data_of(kinks, F(1, 2), 4, rule, [5], 12),
            f"at the optimum, {rule}": data_of(pair, 1, 28, rule, [0], 2, [[3], [-3]]),
        }
    true = "true-gradient"
    plane = [[quadratic(1), quadratic(F(1, 4))]]
    for name, losses, l2, theta in (
        ("swing", one, F(1, 2), [F(1, 100)]),
        ("repelled", one, F(2, 5), [F(1, 100)]),
        ("attracted", one, F(3, 5), [F(1, 100)]),
        ("two curvatures", plane, 1, [F(1, 10), F(1, 10)]),
    ):
        found[name] = data_of(losses, 1, l2, true, theta, 3, [[p.slopes(F(x))[0] for p, x in zip(losses[0], theta, strict=True)]])
    slope = [[huber(0, 100, F(1, 100))]]
    found["against a flat slope"] = data_of(slope, 1, 1, true, [1000], 3, [[3]])
    found["stretched"] = data_of(one * 2, F(1, 1000), 1, true, [0], 3, [[1], [-1]])
    return found


# --- random runs ----------------------------------------------------------------------------------
def _signed(rng: Any, most: int = 8) -> Fraction:
    return Fraction(int(rng.integers(-2 * most, 2 * most + 1)), 2)


def _piece(rng: Any) -> Piece:
    """A quadratic, a Huber loss, a clipped slope or an absolute value, one in ten with a jump or two of them added."""
    kind, centre = int(rng.integers(0, 10)), _signed(rng, 3)
    if kind < 4:
        return quadratic(part(rng, 4, 4), centre)
    if kind < 7:
        return huber(centre, part(rng, 4, 4), part(rng, 4, 4))
    if kind < 9:
        low = _signed(rng, 2)
        return ramp(low, low + part(rng, 4, 4), centre, centre + part(rng, 4, 4))
    return absolute(centre, part(rng, 4, 4)) + huber(_signed(rng, 3), part(rng, 4, 4))


def _losses(rng: Any, m: int, d: int) -> list[list[Piece]]:
    """m clients; each coordinate gets a wide Huber loss at one of them, where R's slope would not change sign."""
    rows = [[_piece(rng) for _ in range(d)] for _ in range(m)]
    for i in range(d):
        limits = [row[i].limits for row in rows]
        if all(None not in pair for pair in limits):
            low, high = (sum(pair[n] for pair in limits) for n in (0, 1))  # type: ignore[misc]
            if not low < 0 < high:
                rows[0][i] = rows[0][i] + ramp(-max(high, 0) - 1, max(-low, 0) + 1, -2, 2)
    return rows


def beta_of(problem: Any) -> float | None:
    """The largest curvature of a client; None where a slope jumps."""
    try:
        return float(problem.beta_k.max())
    except MissingCapability:
        return None


# --- worlds ---------------------------------------------------------------------------------------
class Everybody(ElasticWorld):
    """A world in which everyone takes part, and local problems are solved exactly."""

    stream, numbered, share, work = "", "{label} #{n}", 0.3, EXACT
    reads: ClassVar[dict[str, Any]] = {
        "losses": Read(rows_of, shape=("m", "d")), "lambda1": number(above=0),
        "lambda2": number(above=0), "theta": number("d"), "rounds": whole(1, 5000),
    }  # fmt: skip

    @classmethod
    def prepare(cls, statement: Any, request: Any) -> Prepared:
        """Refuse what means nothing here, and make a case as the world has it."""
        problem, id = request.problem("quadratic"), statement.id
        everyone = f"{id} is about rounds in which all m clients take part; leave it out"
        request.refuse("participants", everyone)
        ours = "does not apply to statements about FedElasticNet: leave it out"
        request.refuse((*OF_RUNS, *OF_STEPS), ours)
        nothing = f"{id} is judged without Monte Carlo, as nothing is random; leave it out"
        request.refuse("mode", nothing)
        request.start(problem)  # refused before an optimum is looked for
        return cls.prepared(statement, request, problem)

    @classmethod
    def prepared(cls, statement: Any, request: Any, problem: Any) -> Prepared:
        """Make a case of the method, with numbers of its own where none are given."""
        raise NotImplementedError

    @classmethod
    def lambdas(cls, request: Any, problem: Any, times: float) -> Data:
        """Take lambda_1 = 0.1 and lambda_2 = times beta, or times where a slope jumps."""
        given = request.options.get("l2") is not None
        name = "l2" if beta_of(problem) is None else "l2_over_beta"
        return {"l1": 0.1} if given else {"l1": 0.1, name: times}

    @classmethod
    def followed_for(
        cls, problem: Any, algorithm: Any, rounds: int, words: str
    ) -> Prepared:
        """Give the case of these rounds."""
        told = (
            f"m = {problem.num_clients}, all take part, d = {problem.dim}, lambda_1 = "
            f"{algorithm.l1:g}, lambda_2 = {algorithm.l2:.6g}{words}, {rounds} rounds"
        )
        details = {"rounds": rounds}
        return cls.case_of(problem, algorithm, told, details, rounds=rounds)

    @classmethod
    def summary(cls, witness: Witness) -> str:
        """Say its statement, form and size."""
        data = witness.data
        m, d = len(data["losses"]), len(data["losses"][0])
        own = ", from a state with stored gradients" if "stored" in data else ""
        what = f"{witness.statement} [{witness.form}, {witness.rule} rule]"
        return f"{what}: m = {m}, d = {d}, T = {data['rounds']}{own}"

    @classmethod
    def told(cls, witness: Witness, rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Give its losses, numbers and start."""
        data = witness.data
        each = ", a coordinate after the other" if len(data["theta"]) > 1 else ""
        rows = [("losses", "the slope L_k'" + each)]
        for k, row in enumerate(data["losses"]):
            rows.append((f"client {k}", "; ".join(_loss_in_words(p, "x") for p in row)))
        if "counts" in data:
            rows.append(("n_k", ", ".join(data["counts"])))
        rows.append(("lambda_1, lambda_2", f"{data['lambda1']}, {data['lambda2']}"))
        rows.append(("start theta", ", ".join(data["theta"])))
        if "stored" in data:
            rows.append(("start g_k", "; ".join(", ".join(row) for row in data["stored"])))
        return [*rows, ("rounds", data["rounds"])]


def _loss_in_words(p: dict[str, Any], name: str) -> str:
    """The slope of a loss, as the file gives it."""
    parts = [str(p["slope"])] if p.get("slope", "0") != "0" else []
    if p.get("curvature", "0") != "0":
        parts.append(f"{p['curvature']} ({name} - {p.get('centre', '0')})")
    for low, high, g in p.get("ramps", []):
        parts.append(f"a jump of {g} at {low}" if low == high else f"a rise of {g} from {low} to {high}")
    return " + ".join(parts) or "0"


class Motion(MotionView, Everybody):
    """A run of Algorithm 3."""

    kind, size, family = "motion", 60, "Algorithm 3, everyone takes part"
    about = "about a run of T rounds of Algorithm 3 in which everyone takes part"
    example, rules = "--problem diabetes", RULES
    examples: ClassVar = {
        **dict.fromkeys(("at-rest", "stalls", "returns"), "--problem quadratic --l1 100"),
        "descent": "--problem quadratic --l1 100 --rule true-gradient",
    }
    by_hand = known()
    reads: ClassVar = {
        **Everybody.reads, "rule": word(*RULES), "stored": number("m d", default=None),
    }

    @classmethod
    def from_data(cls, data: Data) -> Self:
        """Refuse fields of another name, beside what is malformed."""
        if unknown := sorted(set(data) - set(cls.reads)):
            raise InvalidInput(f"unknown fields {', '.join(unknown)}: use {', '.join(cls.reads)}")
        return super().from_data(data)

    @classmethod
    def made(
        cls, losses: Any, lambda1: Any, lambda2: Any, theta: Any, rounds: int, rule: Any,
        stored: Any,
    ) -> Self:  # fmt: skip
        """Follow the run, from the algorithm's own start where there are no stored gradients."""
        table, l1, l2 = PieceTable(losses), lambda1, lambda2
        m, d = table.shape
        stored = np.full((m, d), F(0), dtype=object) if stored is None else stored
        if rounds * m * d > MOST:
            raise InvalidInput(
                f"{rounds} rounds of {m} clients in {d} coordinates: at most {MOST} numbers are "
                "followed in fractions"
            )
        method: Any = FedElasticNetDyn(float(l1), float(l2), rule)
        method = in_fractions(method, {"l1": l1, "l2": l2})
        begun = theta[None], stored[None], stored.sum(axis=0)[None] / F(m), np.stack([theta] * m)[None]
        losses, states, ys = SeparableLosses(table, np.full(m, F(1, m))), [FedElasticNetDynState(*begun)], []
        star, constants = losses.minimiser(theta), losses.constants
        for _ in range(rounds):
            clients = Everyone(losses, states[-1].x)
            states.append(method.round(states[-1], clients))
            ys.append(clients.results[-1].y[0])
        v = cls._of_states(method, states, ys, star, lambda x: losses.excess(x, star))
        every = np.stack([v.theta] * m, axis=1)
        v.grad_y = table.nearest(v.y, v.stored[:-1] - l2 * (v.y - every[:-1]))
        v.grad, v.beta = table.nearest(every, v.stored), constants["beta"]
        v.mu, v.beta_joint = constants["mu_F"], constants["beta_F"]
        if not any(p.ramps for p in table.each.ravel()):
            at = [r.curvature for r in losses.joint].index(v.beta_joint)
            v.top = np.array([F(int(i == at)) for i in range(d)], dtype=object)
        last = v.theta[-1], v.h[-1], v.stored[-1]
        v.frozen = _frozen(table, *last, l1 if rule == "sign" else 0)
        return v

    @classmethod
    def _of_states(
        cls, method: Any, states: list[Any], ys: list[Any], star: Any, excess: Callable[[Any], Any]
    ) -> Self:
        """Take a run's states and local models; what is known of its gradients comes after."""
        theta, stored, h = (np.stack([s[i][0] for s in states]) for i in range(3))
        return cls(
            rule=method.rule, lambda1=method.l1, lambda2=method.l2, theta=theta, h=h,
            stored=stored, y=np.stack(ys), excess=excess(theta),
            excess_gamma=excess(theta + h / method.l2), theta_star=star,
        )  # fmt: skip

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw 1 to 3 clients in 1 or 2 coordinates, from the algorithm's start or any state."""
        m, d = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        losses, rule = _losses(rng, m, d), ("sign", "true-gradient")[int(rng.integers(0, 2))]
        theta = [_signed(rng, 4) for _ in range(d)]
        slopes = [[p.slopes(x) for p, x in zip(row, theta, strict=True)] for row in losses]
        steepest = max(max(abs(s) for s in pair) for row in slopes for pair in row)
        shape = int(rng.integers(0, 6))
        l1 = part(rng, 4, 4) / int(rng.choice([1, 4]))
        stored = None
        if shape == 0:  # nobody moves in round 1
            l1 = max(steepest, F(1, 4))
        elif shape == 1:  # any state
            stored = [[_signed(rng, 2) for _ in range(d)] for _ in range(m)]
        elif shape == 2:  # what is stored is true
            stored = [[pair[0] for pair in row] for row in slopes]
        l2 = (F(2), F(3), F(30), part(rng, 4, 4), part(rng, 32, 4))[int(rng.integers(0, 5))]
        rounds = int(rng.integers(2, 13))
        return f"m={m} d={d} {rule}", data_of(losses, l1, l2, rule, theta, rounds, stored)

    # --- a problem of the user's ------------------------------------------------------------------
    @classmethod
    def on_problem(cls, statement: str, case: Any) -> Data | Self:
        """Follow the user's run: in fractions where losses are separable and it is short enough."""
        if reason := _refusal(case):
            raise InvalidInput(reason)
        check_everybody(case)
        problem, algorithm, rounds = case.problem, case.algorithm, case.rounds or ROUNDS
        x0 = start_of(case)
        if _follows_in_floats(problem, rounds):
            return cls.followed(problem, algorithm, rounds, x0)
        l1, l2, start = simplest(algorithm.l1), simplest(algorithm.l2), [F(float(x)) for x in x0.ravel()]
        return data_of(pieces_of(problem) or [], l1, l2, algorithm.rule, start, rounds)

    @classmethod
    def followed(cls, problem: Problem, algorithm: FedElasticNetDyn, rounds: int, x0: Any) -> Self:
        """Follow a run in float64. Raises `NotCertified` where R's optimum cannot be certified."""
        losses, everyone = FederatedLosses(problem), Full().enumerate(problem.num_clients)
        states, ys = [algorithm.init(check_start(problem, x0, 1), problem.num_clients)], []
        for _ in range(rounds):
            clients = Clients(problem, everyone, Exact(), states[-1].x)
            states.append(algorithm.round(states[-1], clients))
            ys.append(clients.results[-1].y[0])
        v, constants = cls._of_states(algorithm, states, ys, losses.theta_star, losses.excess), problem.constants()
        v.grad_y, v.grad = problem.gradient_each(v.y), problem.gradient(v.theta)
        v.beta, v.mu = float(problem.beta_k.max()), constants.mu
        v.beta_joint, v.rounding = constants.beta_joint, ROUNDING
        if problem.constant_hessian:
            values, vectors = np.linalg.eigh(problem.full_hessian(losses.theta_star))
            v.top, v.beta_joint = vectors[:, -1], float(values[-1])
        points = np.concatenate([v.theta, v.theta + v.h / v.lambda2])
        v.noise = float(np.max(losses.noise(points)))
        held = bool(np.abs(v.stored[-1] - v.grad[-1]).max() <= v.lambda1)
        v.frozen = v.rule == "sign" and held and not v.h[-1].any()
        return v

    @classmethod
    def prepared(cls, statement: Any, request: Any, problem: Any) -> Prepared:
        """Take lambda_1 = 0.1 and lambda_2 = 30 beta unless others are given."""
        defaults, beta = cls.lambdas(request, problem, 30.0), beta_of(problem)
        of_sign = any("sign" in f.established for f in statement.forms)
        if request.options.get("rule") is None and not of_sign:
            defaults["rule"] = "true-gradient"
        algorithm = request.algorithm("fedelasticnet-dyn", problem, **defaults)
        rounds = request.rounds or ROUNDS
        if _follows_in_floats(problem, rounds):
            problem.optimum()  # what cannot be certified is told before any work
        ratio = "" if beta is None else in_units_of(algorithm.l2, beta)
        words = f"{ratio}, {algorithm.rule} rule"
        return cls.followed_for(problem, algorithm, rounds, words)


class FederatedLosses:
    """A problem with its certified optimum: R - R* at any points, and what is not known of it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.optimum = problem.optimum()
        self.theta_star = self.optimum.x
        self._gap = max(self.optimum.value - self.optimum.lower_bound, 0.0)
        self._quadratic = isinstance(problem, Quadratic | LeastSquares)
        if self._quadratic:
            self._hessian = problem.full_hessian(self.theta_star)
            self._gradient = problem.full_gradient(self.theta_star)

    def excess(self, x: np.ndarray) -> np.ndarray:
        if self._quadratic:  # no cancellation: Taylor's expansion at theta* is exact
            r = x - self.theta_star
            return inner(r @ self._hessian, r) / 2 + r @ self._gradient + self._gap
        return self.problem.objective(x) - self.optimum.lower_bound

    def noise(self, x: np.ndarray) -> np.ndarray:
        eps = np.finfo(float).eps
        if self._quadratic:
            return self._gap + 32 * eps * norm_sq(x - self.theta_star) * np.abs(self._hessian).max()
        return self._gap + 32 * eps * (np.abs(self.problem.objective(x)) + abs(self.optimum.value))


def _frozen(
    table: PieceTable, theta: np.ndarray, h: np.ndarray, stored: np.ndarray, l1: Any
) -> bool:
    """True if |g_k - L_k'| <= lambda_1 on the whole way of theta, to infinity where h is not 0.

    Slopes are nondecreasing, so the two ends of the way decide. Under the true-gradient rule a round without moves stores
    grad L_k(theta), so only a state with these gradients and h = 0 is frozen, and l1 is 0.
    """
    for (k, i), g in np.ndenumerate(stored):
        piece: Any = table.each[k, i]
        low, high = piece.slopes(theta[i])
        if not low - l1 <= g <= high + l1:
            return False
        if h[i] != 0:
            if not l1:
                return False
            end = piece.limits[0 if h[i] > 0 else 1]
            if end is None or not abs(g - end) <= l1:
                return False
    return True


def _refusal(case: Any) -> str | None:
    """Say why a case is not one of Algorithm 3 with everyone taking part, or give None."""
    problem, algorithm = case.problem, case.algorithm
    if not isinstance(algorithm, FedElasticNetDyn):
        return f"the statement is about FedElasticNet's Algorithm 3 (FedElasticNetDyn), not {type(algorithm).__name__}"
    if not algorithm.l1 > 0:
        return f"lambda_1 = {algorithm.l1:g} is not above 0, as Algorithm 3 asks (with 0 it is FedDyn): choose lambda_1 > 0"
    if algorithm.epsilon != 0:
        return f"threshold epsilon = {algorithm.epsilon:g}; the statement has none (0)"
    if not problem.convex:
        return "some client's loss is not convex"
    return None


def _follows_in_floats(problem: Any, rounds: int) -> bool:
    """True if a run is followed in float64: losses not separable, or too many numbers.

    Raises
    ------
    MissingCapability
        Of a nonsmooth problem, whose local problems are solved exactly in fractions only.
    """
    pieces, size = pieces_of(problem), rounds * problem.num_clients * problem.dim
    if pieces is not None and size <= MOST_EXACT:
        return False
    if beta_of(problem) is None:
        why = f"{size} numbers, at most {MOST_EXACT}" if pieces is not None else "its losses are not"
        raise MissingCapability(
            f"{problem.name}: a nonsmooth loss is followed in fractions only, where it is a sum over the coordinates ({why}): take "
            "--dimension 1, fewer rounds, or a smooth loss such as Huber"
        )
    return True
