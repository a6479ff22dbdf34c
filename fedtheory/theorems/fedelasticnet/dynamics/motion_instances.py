"""The runs that the statements on Algorithm 3's dynamics are judged on: those that attain a bound or break a claim, random
ones in fractions, and a user's problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.randomness import Stream
from fedtheory.rational import simplest
from fedtheory.theorems.fedelasticnet.dynamics.motions import BUILDERS, FollowedRun, data_of
from fedtheory.theorems.fedelasticnet.dynamics.separable import pieces_of
from fedtheory.theorems.fedelasticnet.exact_pieces import Piece, absolute, huber, quadratic, ramp
from fedtheory.theorems.fedelasticnet.notation import in_units_of
from fedtheory.theory.judge.setting import Case, DataInstance, Prepared, Request
from fedtheory.theory.judge.statement import Statement
from fedtheory.theory.judge.witness import Witness

__all__ = ["battery", "drift_of_one", "facts", "known", "on_a_problem", "prepared", "random_instance", "summary"]

F = Fraction
ABOUT = "about a run of T rounds of Algorithm 3 in which everyone takes part"
EXAMPLE = "--problem diabetes"
EXAMPLES = {  # where the plain one shows nothing
    "at-rest": "--problem quadratic --l1 100", "stalls": "--problem quadratic --l1 100",
    "returns": "--problem quadratic --l1 100", "descent": "--problem quadratic --l1 100 --rule true-gradient",
}  # fmt: skip
ROUNDS = 50  # of a user's run, where none are asked for
MOST_EXACT = 3000  # rounds x clients x coordinates of a user's run that are followed in fractions


# --- runs that attain a bound or break a claim ----------------------------------------------------------------------------------
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


class MotionInstance(DataInstance):
    """A run given by its data."""

    @property
    def family(self) -> str:
        return "Algorithm 3, everyone takes part"


# --- random runs ----------------------------------------------------------------------------------------------------------------
def _positive(rng: Any, most: int = 8) -> Fraction:
    return Fraction(int(rng.integers(1, 4 * most + 1)), 4)


def _signed(rng: Any, most: int = 8) -> Fraction:
    return Fraction(int(rng.integers(-2 * most, 2 * most + 1)), 2)


def _piece(rng: Any) -> Piece:
    """A quadratic, a Huber loss, a clipped slope or an absolute value, one in ten with a jump or two of them added."""
    kind, centre = int(rng.integers(0, 10)), _signed(rng, 3)
    if kind < 4:
        return quadratic(_positive(rng, 1), centre)
    if kind < 7:
        return huber(centre, _positive(rng, 1), _positive(rng, 1))
    if kind < 9:
        low = _signed(rng, 2)
        return ramp(low, low + _positive(rng, 1), centre, centre + _positive(rng, 1))
    return absolute(centre, _positive(rng, 1)) + huber(_signed(rng, 3), _positive(rng, 1))


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


def random_instance(kind: str, rng: Any) -> MotionInstance:
    """A run of 1 to 3 clients in 1 or 2 coordinates, from the algorithm's own start or from any state."""
    m, d = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    losses, rule = _losses(rng, m, d), ("sign", "true-gradient")[int(rng.integers(0, 2))]
    theta = [_signed(rng, 4) for _ in range(d)]
    slopes = [[p.slopes(x) for p, x in zip(row, theta, strict=True)] for row in losses]
    steepest = max(max(abs(s) for s in pair) for row in slopes for pair in row)
    shape = int(rng.integers(0, 6))
    l1 = _positive(rng, 1) / int(rng.choice([1, 4]))
    stored = None
    if shape == 0:  # nobody moves in round 1
        l1 = max(steepest, F(1, 4))
    elif shape == 1:  # any state
        stored = [[_signed(rng, 2) for _ in range(d)] for _ in range(m)]
    elif shape == 2:  # what is stored is true
        stored = [[pair[0] for pair in row] for row in slopes]
    l2 = (F(2), F(3), F(30), _positive(rng, 1), _positive(rng, 8))[int(rng.integers(0, 5))]
    data = data_of(losses, l1, l2, rule, theta, int(rng.integers(2, 13)), stored)
    return MotionInstance(BUILDERS, kind, f"m={m} d={d} {rule}", data)


def battery(seed: int = 0, scale: float = 1.0) -> list[MotionInstance]:
    """The known runs, and 60 random ones."""
    rng = Stream(seed).generator("motion")
    drawn = [random_instance("motion", rng) for _ in range(max(20, round(60 * scale)))]
    named = [MotionInstance(BUILDERS, "motion", name, data) for name, data in known().items()]
    return named + [replace(x, label=f"{x.label} #{n}", seed=seed) for n, x in enumerate(drawn)]


# --- a problem of the user's ----------------------------------------------------------------------------------------------------
def _refusal(case: Case) -> str | None:
    """Why a case is not one of Algorithm 3 with everyone taking part, or None."""
    problem, algorithm, sampling = case.problem, case.algorithm, case.sampling
    if not isinstance(algorithm, FedElasticNetDyn):
        return f"the statement is about FedElasticNet's Algorithm 3 (FedElasticNetDyn), not {type(algorithm).__name__}"
    if not algorithm.l1 > 0:
        return f"lambda_1 = {algorithm.l1:g} is not above 0, as Algorithm 3 asks (with 0 it is FedDyn): choose lambda_1 > 0"
    if algorithm.epsilon != 0:
        return f"threshold epsilon = {algorithm.epsilon:g}; the statement has none (0)"
    drawn = problem.num_clients if sampling is None or isinstance(sampling, Full) else getattr(sampling, "size", 0)
    if drawn != problem.num_clients or not isinstance(sampling, Full | Uniform | None):
        return f"{sampling!r}: the statement is about rounds in which everyone takes part (Full)"
    if not problem.convex:
        return "some client's loss is not convex"
    spread = float(np.abs(problem.weights * problem.num_clients - 1).max())
    if spread > 1e-12:
        return f"R must be the plain mean of the losses, but the weights differ from 1/m by up to {spread:.3g}/m"
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
    try:
        problem.beta_k  # noqa: B018
    except MissingCapability as error:
        why = f"{size} numbers, at most {MOST_EXACT}" if pieces is not None else "its losses are not"
        raise MissingCapability(
            f"{problem.name}: a nonsmooth loss is followed in fractions only, where it is a sum over the coordinates ({why}): take "
            "--dimension 1, fewer rounds, or a smooth loss such as Huber"
        ) from error
    return True


def on_a_problem(case: Case) -> DataInstance | FollowedRun:
    """The user's run: in fractions where the losses are separable and it is short enough, else in float64.

    Raises
    ------
    InvalidInput, MissingCapability
        What the statement is not about; a nonsmooth problem whose local problems are not solved exactly.
    """
    reason = _refusal(case)
    if reason is not None:
        raise InvalidInput(reason)
    problem, algorithm, rounds = case.problem, case.algorithm, case.rounds or ROUNDS
    x0 = np.zeros(problem.dim) if case.x0 is None else np.asarray(case.x0, dtype=float)
    if _follows_in_floats(problem, rounds):
        return FollowedRun(problem, algorithm, rounds, x0)
    numbers = (simplest(algorithm.l1), simplest(algorithm.l2), algorithm.rule, [F(float(x)) for x in x0.ravel()], rounds)
    return DataInstance(BUILDERS, "motion", problem.name, data_of(pieces_of(problem) or [], *numbers))


def prepared(statement: Statement, request: Request, problem: Any) -> Prepared:
    """Algorithm 3 with everyone taking part; lambda_1 = 0.1 and lambda_2 = 30 beta unless others are given."""
    defaults: dict[str, Any] = {"l1": 0.1}
    smooth = True
    try:
        beta = float(problem.beta_k.max())
    except MissingCapability:
        smooth, beta = False, 1.0
    if request.options.get("l2") is None:
        defaults |= {"l2_over_beta": 30.0} if smooth else {"l2": 30.0}
    if request.options.get("rule") is None and not any("sign" in f.established for f in statement.forms):
        defaults["rule"] = "true-gradient"
    algorithm = request.algorithm("fedelasticnet-dyn", problem, **defaults)
    rounds, start = request.rounds or ROUNDS, request.start(problem)
    if _follows_in_floats(problem, rounds):
        problem.optimum()  # what cannot be certified is told before any work
    ratio = in_units_of(algorithm.l2, beta) if smooth else ""
    head = (
        f"{problem.name}: m = {problem.num_clients}, all take part, d = {problem.dim}, lambda_1 = {algorithm.l1:g}, "
        f"lambda_2 = {algorithm.l2:.6g}{ratio}, {algorithm.rule} rule, {rounds} rounds"
    )
    details = {"algorithm": {"name": algorithm.name, **asdict(algorithm)}, "rounds": rounds}
    return Prepared(problem, algorithm, {"x0": start, "rounds": rounds}, [head], details)


# --- what a witness shows -------------------------------------------------------------------------------------------------------
def summary(witness: Witness) -> str:
    """One line on a run, or on a standstill of Algorithm 1: its statement, form and size."""
    data = witness.data
    m, d, own = len(data["losses"]), len(data["losses"][0]), "" if "stored" not in data else ", from a state with stored gradients"
    return f"{witness.statement} [{witness.form}, {witness.rule} rule]: m = {m}, d = {d}, T = {data['rounds']}{own}"


def _loss_in_words(p: dict[str, Any], name: str) -> str:
    """The slope of a loss, as the file gives it."""
    parts = [str(p["slope"])] if p.get("slope", "0") != "0" else []
    if p.get("curvature", "0") != "0":
        parts.append(f"{p['curvature']} ({name} - {p.get('centre', '0')})")
    for low, high, g in p.get("ramps", []):
        parts.append(f"a jump of {g} at {low}" if low == high else f"a rise of {g} from {low} to {high}")
    return " + ".join(parts) or "0"


def facts(witness: Witness) -> Sequence[tuple[str, Any]]:
    """The rows that are shown of a run when it is replayed."""
    data = witness.data
    rows: list[tuple[str, Any]] = [("losses", "the slope L_k'" + (", a coordinate after the other" if len(data["theta"]) > 1 else ""))]
    for k, row in enumerate(data["losses"]):
        rows.append((f"client {k}", "; ".join(_loss_in_words(p, "x") for p in row)))
    if "counts" in data:
        rows.append(("n_k", ", ".join(data["counts"])))
    rows += [("lambda_1, lambda_2", f"{data['lambda1']}, {data['lambda2']}"), ("start theta", ", ".join(data["theta"]))]
    if "stored" in data:
        rows.append(("start g_k", "; ".join(", ".join(row) for row in data["stored"])))
    return [*rows, ("rounds", data["rounds"])]
