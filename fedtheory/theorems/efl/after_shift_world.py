"""The worlds of EFL's sections 4.3 and 4.4 after a client has left or joined.

Rounds are looked at after a departure, the step sizes after a shift, and a run across it, which is
made exactly, on quadratics, with Theorem 1's steps before and after. After tau_0 rounds client a
leaves or joins, so that the optimum moves from omega* to hat omega*. The run goes on with a fresh
start of the steps, tau counted from 0 and gamma taken from the new federation, or with the steps as
they are, gamma the larger of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.coefficients import SCHEMES
from fedtheory.participation.irregular import Irregular, joint_law
from fedtheory.rational import simplest, simplest_each, to_file
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases import theorem_1 as cases
from fedtheory.theorems.efl.quantities import run as of_runs
from fedtheory.theorems.efl.quantities.exact_run import round_laws
from fedtheory.theorems.efl.shift_world import ShiftView, shift_on
from fedtheory.theorems.efl.world import PLAIN, EFLWorld
from fedtheory.theory import Case, Fact, derived, number, whole, word
from fedtheory.theory.draws import law, rows, shares, signed, size
from fedtheory.theory.rounds import second_moments as moments
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.irregular_run import exact_oracles, laws_of_rounds

MOST = 400  # rounds in fractions
NOISELESS = Fact("gradients without noise", lambda q: q.sigma_sq == 0)


@dataclass
class DepartedView(EFLWorld):
    """r_t of T rounds in which client a does nothing after round tau_0 (rounds from 0)."""

    kind, about = "departed", "about rounds after a client has left"
    asks = ("a law of s^k, and a client that leaves", "scheme A, B or C, " + PLAIN)
    accepts = given.options("client", "tau_0")
    example = "--problem quadratic --inactive 0.3 --departure 2@20"

    shows = ("T", "tau_0", "H_T")
    reads: ClassVar = {
        "T": whole(1), "tau_0": whole(what="the last round in which a may work"),
        "mean_work": number("T N", "E[p^k s^k]/p^k of the rounds before, a last", least=0),
    }  # fmt: skip

    ratios: np.ndarray  # (T, N) E[p_t^k s_t^k]/p^k, exact
    tau_0: int  # the last round in which a may work

    T = derived(lambda q: len(q.ratios))
    H_T = derived(lambda q: sum(q.r))
    r = derived(
        lambda q: [int(any(x != row[0] for x in row)) for row in q.ratios],
        "r_t = 1 where the ratio is not the same for all clients",
    )

    @classmethod
    def made(cls, T: int, tau_0: int, mean_work: np.ndarray) -> Self:
        """Let client a do nothing after round tau_0."""
        if tau_0 >= T or mean_work.shape[1] < 2 or mean_work[:, :-1].max(axis=1).min() <= 0:
            raise InvalidInput(
                f"tau_0 = {tau_0}, mean_work {mean_work.shape}: tau_0 must be below T, with at least "
                "two clients, of which one that stays works in every round"
            )
        ratios = mean_work.copy()
        ratios[tau_0 + 1 :, -1] = Fraction(0)
        return cls(ratios, tau_0)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw mean work, the same in all rounds and for all clients now and then."""
        rounds, n = int(rng.integers(1, 12)), int(rng.integers(2, 5))
        alike = rng.random() < 0.6
        work = [[Fraction(1)] * n] * rounds if alike else [[Fraction(int(v), 4) for v in rng.integers(1, 9, n)] for _ in range(rounds)]
        return f"T={rounds}", {"T": rounds, "tau_0": int(rng.integers(rounds)), "mean_work": work}

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> dict[str, Any]:
        """Find E[p s]/p^k of every round before the client leaves, in fractions.

        tau_0 is the last round, counted from 0, in which the client that leaves may work: given,
        else its window's, else half of them. What the others' ratios become afterwards does not
        matter: they are > 0 and its own is 0.
        """
        scheme, rounds, a = given.uncompressed(case.algorithm).scheme, case.rounds or cases.ROUNDS, given.client_of(case)
        if scheme == "C-corrected":
            raise InvalidInput("a client that has left for good has no corrected coefficient: use scheme A, B or C")
        law, weights = cases.law_of(case), given.weights_of(case.problem)
        gone = (getattr(law, "present", None) or [(None, None)] * case.problem.num_clients)[a][1]
        tau_0 = given.given_whole(case, "tau_0", rounds // 2 if gone is None else gone - 2, most=rounds - 1)
        if gone is not None and tau_0 != gone - 2:
            raise InvalidInput(f"tau_0 = {tau_0}, but client {a} is gone from round {gone}, after tau = {gone - 2}: give one of them")
        order, tables = [*(k for k in range(len(weights)) if k != a), a], []
        for t in range(1, rounds + 1):
            rows = law.law(t)
            if gone is not None and t >= gone:
                rows = law.law(gone - 1)  # its own ratio is set to 0 there
            exact = simplest_each(rows)
            tables.append(exact / exact.sum(axis=1)[:, None])
        laws = laws_of_rounds(EFL(scheme=scheme), tables, rounds, weights)
        work = [(law.drift / weights)[order] for law in laws]
        return {"T": rounds, "tau_0": tau_0, "mean_work": work}


@dataclass
class AfterShiftView(EFLWorld):
    """Second moments of w - hat omega* after a shift at tau_0: one quadratic objective, E = 1,
    noise of variance sigma^2 a step, and the step eta_tau = 16/(mu (tau + 1 + gamma))."""

    kind, about = "after-shift", "about the step size after the objective has moved"
    asks = (
        "strongly convex quadratic losses", "at least two clients",
        PLAIN + ", E = 1, full gradients or additive noise",
    )  # fmt: skip
    accepts = given.options("client", "tau_0", "gamma", "sigma_sq", "L", "mu")
    example, local_steps, shows = "--problem diabetes", 1, ("tau_0", "gamma", "mu", "sigma_sq")

    demands = (
        Fact("mu at most every curvature", lambda q: q.mu <= q.curvature.min()),
        Fact(
            "a first step 16/(mu (1 + gamma)) of at most 1/L",
            lambda q: 16 * q.curvature.max() <= q.mu * (1 + q.gamma),
        ),
    )

    curvature: np.ndarray = number("d", "of the new objective")
    start: np.ndarray = number("d", "omega* - hat omega*")
    mu: Any = number(above=0)
    gamma: Any = number()
    tau_0: int = whole(what="the shift")
    rounds: int = whole(1, MOST, "those after it")
    sigma_sq: Any = number(what="of a coordinate", least=0)

    def errors(self, age: int) -> np.ndarray:
        """E||w - hat omega*||^2 after 0..rounds more rounds, the first of which takes the step of round ``age``."""
        moment, out = self.start**2, []
        for t in range(self.rounds + 1):
            out.append(moment.sum())
            eta = 16 / (self.mu * (age + t + 1 + self.gamma))
            moment = (1 - eta * self.curvature) ** 2 * moment + eta**2 * self.sigma_sq
        return np.array(out, dtype=object)

    def pace(self, power: int = 32) -> np.ndarray:
        """((tau_0 + gamma)/(tau + gamma))^power ||omega* - hat omega*||^2."""
        ratio = [(self.tau_0 + self.gamma) / (self.tau_0 + t + self.gamma) for t in range(self.rounds + 1)]
        return np.array([r**power * (self.start**2).sum() for r in ratio], dtype=object)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw an objective and the shift, without noise in three of five."""
        d, mu = int(rng.integers(1, 3)), size(rng)
        h = [mu * int(v) for v in rng.integers(1, 5, d)]
        gamma = Fraction(16 * max(h) / mu) + int(rng.integers(0, 40))
        sigma_sq = Fraction(0) if rng.random() < 0.6 else size(rng) * mu**2
        data = {
            "curvature": h, "start": [signed(rng) for _ in h], "mu": mu, "gamma": gamma,
            "tau_0": int(rng.integers(0, 400)), "rounds": int(rng.integers(1, 16)),
            "sigma_sq": sigma_sq,
        }
        return f"d={d}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> dict[str, Any]:
        """Find the new objective's curvatures along its eigenvectors, and the old optimum there.

        One round with E = 1, all active, is a gradient step on the new objective; its second
        moments, noise alike in all directions, are those of the coordinates along the
        eigenvectors, one by one. gamma is Theorem 1's for E = theta = S = 1 unless given, and of
        additive noise of norm s at every client a coordinate keeps s^2 sum p_k^2/d.
        """
        given.uncompressed(case.algorithm)
        problem, solver = case.problem, case.local_solver
        if solver is not None and not isinstance(solver, LocalSGD):
            raise InvalidInput(f"local work by {type(solver).__name__}: the statement is about one local step; use LocalSGD(1, 1.0)")
        if isinstance(solver, LocalSGD) and (solver.steps != 1 or callable(solver.lr)):
            raise InvalidInput(f"E = {solver.steps}: the statement is about one local step with Theorem 1's size; use LocalSGD(1, 1.0)")
        if isinstance(solver, LocalSGD) and solver.batch_size is not None and "sigma_sq" not in case.given:
            raise MissingCapability("the noise of mini-batches depends on the model: give sigma_sq, the noise of a coordinate")
        arrive = [k for k, window in enumerate(getattr(case.sampling, "present", None) or ()) if window[0] is not None]
        a = arrive[0] if arrive else given.client_of(case)
        if problem.num_clients < 2:
            raise InvalidInput("N = 1 client: with nobody left there is no new objective, use at least two clients")
        given.check_all_active(case, a, arrives=bool(arrive))
        (H, b), others = given.quadratics_of(problem), np.delete(np.arange(problem.num_clients), a)
        everybody, rest = problem.weights, np.where(np.arange(problem.num_clients) == a, 0.0, problem.weights)
        old, new = (rest / rest.sum(), everybody) if arrive else (everybody, rest / rest.sum())
        given.curvatures(problem)
        L = float(problem.beta_k[others if not arrive else slice(None)].max())
        L, mu = of_runs.given_curvatures(case.given, L, float(problem.mu_k.min()))
        curvature, axes = np.linalg.eigh(np.einsum("n,nij->ij", new, H))
        points = [np.linalg.solve(np.einsum("n,nij->ij", w, H), w @ b) for w in (old, new)]
        h, start = simplest_each(curvature), simplest_each(axes.T @ (points[0] - points[1]))
        mu = min(simplest(float(mu)), h.min())
        gamma = given.given_number(case, "gamma", lambda: of_runs.gamma_of(1, 1, simplest(float(L)), mu, [Fraction(1)]), above=0)
        if 16 * h.max() > mu * (1 + gamma):
            raise InvalidInput(
                f"gamma = {float(gamma):.6g}: the first step 16/(mu (1 + gamma)) must be at most 1/L, use "
                "at least 16 L/mu"
            )
        noise_sq = solver.noise_std**2 * float((new**2).sum()) / problem.dim if isinstance(solver, LocalSGD) else 0.0
        return {
            "curvature": h, "start": start, "mu": mu, "gamma": gamma,
            "tau_0": given.given_whole(case, "tau_0", 10), "rounds": min(case.rounds or 10, MOST),
            "sigma_sq": given.given_number(case, "sigma_sq", noise_sq, least=0),
        }


# --- a run across the shift ----------------------------------------------------------------------
Side = tuple[moments.QuadraticOracles, list[RoundLaw]]


class Leg(of_runs.EFLRun):
    """The rounds before the shift, or those after it, with their optimum and their y."""

    def terms(self, start_sq: Any) -> tuple[np.ndarray, ...]:
        """y_0^2 start_sq/y^2, (16E/mu)^2 sum E[B_t]/S_t^2/y^2 and H J/y, (T + 1,): Theorem 1 from y_0 on, repaired."""
        c, y = self.constants, self.constants.y
        return y[0] ** 2 * start_sq / y**2, c.noise_sum(c.B()) / y**2, c.H() * c.J / y


@dataclass
class ShiftedRunView(EFLWorld):
    """Both ways to go on after a shift, and Theorem 2's bound of it.

    Attributes
    ----------
    before, before_kept : the rounds up to the shift, with the old federation's gamma and with the larger of both
    """

    kind, about = "restart", "about a run that a client leaves or joins"
    asks = (
        "strongly convex quadratic losses",
        "at least two clients, independent of each other, one departure or arrival", PLAIN,
    )  # fmt: skip
    accepts = given.options("client", "tau_0")
    example = "--problem diabetes --departure 2@20 --inactive 0.3"
    count, share = 18, 0.1
    attained = (
        ("a long way to go", {
            "event": "departure", "scheme": "B", "weights": ["99999/100000", "1/100000"],
            "h": [["1"], ["1000"]], "c": [["0"], ["101"]], "law": [["0", "1"]] * 2, "w0": ["101"],
            "tau_0": 1, "rounds": 1,
        }),
        ("only a is noisy", {
            "event": "arrival", "scheme": "B", "weights": ["1/2", "1/2"], "h": [["1"], ["1"]],
            "c": [["0"], ["0"]], "noise": [["0"], ["1"]], "law": [["0", "1"]] * 2, "w0": ["0"],
            "tau_0": 1, "rounds": 1,
        }),
    )  # fmt: skip

    shows: ClassVar = {
        "event": "event", "tau_0": "tau_0", "Theorem 1 at the shift": "at_the_shift",
        "Theorem 2": "theorem_2", "gamma, before and after": "gammas",
    }  # fmt: skip
    reads: ClassVar = {
        "event": word("departure", "arrival"), "scheme": word(*SCHEMES),
        "weights": number("N", "as samples", above=0, total=1), "h": number("N d", above=0),
        "c": number("N d"), "noise": number("N d", default=None),
        "law": number("N s", "a last", least=0, total=1), "w0": number("d"),
        "tau_0": whole(1, 200), "rounds": whole(1, 200, "those after the shift"),
    }  # fmt: skip

    before: Leg
    before_kept: Leg
    fresh: Leg  # fresh, kept: the rounds after it, with a fresh start of the steps and without one
    kept: Leg
    shift: ShiftView  # ||omega* - hat omega*||^2 and what Theorem 2 needs
    noise: Any = 0

    event = derived(lambda q: q.shift.event)
    at_the_shift = derived(lambda q: q.reached())
    theorem_2 = derived(lambda q: q.moved())
    gammas = derived(lambda q: [q.before.y[0], q.fresh.y[0]])
    tau_0 = derived(lambda q: len(q.before.y) - 1, "The round of the shift")

    def moved(self, factor: int = 2, printed: bool = False) -> Any:
        """Theorem 2's bound of ||omega* - hat omega*||^2: (10), (11) repaired, or as printed."""
        v = self.shift
        n = v.n + v.n_a if printed and v.event == "arrival" else v.n
        return factor * v.L * v.n_a**2 * v.D_new / (v.mu * n) ** 2

    def reached(self, kept: bool = False) -> Any:
        """Theorem 1's bound of E||w_{tau_0} - omega*||^2."""
        leg = self.before_kept if kept else self.before
        return sum(term[-1] for term in leg.terms(leg.constants.start_sq))

    @classmethod
    def made(cls, event: str, scheme: str, law: np.ndarray, tau_0: int, rounds: int, **clients: Any) -> Any:
        """Make the run; client a is the last one."""
        oracles, w0 = exact_oracles(to_file({k: v for k, v in clients.items() if v is not None})), clients["w0"]
        shift = ShiftView.made(event, *(clients[name] for name in ("weights", "h", "c")))
        rest = oracles.without(len(law) - 1)

        def side(all_there: bool, many: int) -> Any:
            who, laws = (oracles, law) if all_there else (rest, law[:-1])
            return who, round_laws(scheme, [laws], many, who.weights)

        leaves = event == "departure"
        return shifted_run(side(leaves, tau_0), side(not leaves, rounds), w0, shift)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a short run of few clients on the line."""
        n, d, most = int(rng.integers(2, 4)), 1, int(rng.choice([1, 1, 2]))
        event, scheme = str(rng.choice(["departure", "arrival"])), str(rng.choice(["B", "C"]))
        h = rows(rng, n, d, lambda g: Fraction(int(g.integers(1, 4))))
        centre = rows(rng, 1, d, signed)[0]
        data = {
            "event": event, "scheme": scheme, "weights": shares(rng, n), "h": h,
            "c": [centre] * n if rng.random() < 0.2 else rows(rng, n, d, signed),
            "law": [law(rng, most, True) for _ in range(n)],
            "w0": centre if rng.random() < 0.3 else [signed(rng) for _ in range(d)],
            "tau_0": int(rng.integers(1, 3)), "rounds": 1,
        }
        if rng.random() < 0.5:
            data["noise"] = rows(rng, n, d, lambda g: Fraction(int(g.integers(0, 3))))
        return f"{event} {scheme} N={n} E={most}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> ShiftedRunView:
        """Run strongly convex quadratic clients that one of them leaves or joins."""
        problem, algorithm = case.problem, given.uncompressed(case.algorithm)
        rounds, law = case.rounds or cases.ROUNDS, cases.law_of(case)
        if problem.num_clients < 2 or rounds < 2:
            raise InvalidInput(f"N = {problem.num_clients}, T = {rounds}: a shift needs two clients and a round before it and after it")
        law.check_run(problem.num_clients, rounds)
        if not isinstance(law, Irregular) or any(joint_law(law, t) is not None for t in range(1, rounds + 1)):
            raise MissingCapability("clients that depend on each other: exact second moments are for independent ones")
        event, a, tau_0 = move_of(case, rounds)
        solver = cases.local_sgd_of(case, law)
        oracles = moments.oracles_of(problem, solver.batch_size, solver.noise_std)
        rest, others = oracles.without(a), np.delete(np.arange(problem.num_clients), a)

        def side(there: bool, when: range) -> Any:
            who, keep = (oracles, np.arange(problem.num_clients)) if there else (rest, others)
            tables = [law.law(t)[keep] for t in when]
            return who, laws_of_rounds(algorithm, tables, len(tables), who.weights)

        old, new = side(event == "departure", range(1, tau_0 + 1)), side(event == "arrival", range(tau_0 + 1, rounds + 1))
        view = shifted_run(old, new, np.asarray(case.x0, dtype=float), shift_on(problem, event, a))
        view.noise = view.shift.noise + 1e-13 * float(view.before.distance_sq[0] + view.shift.distance_sq)
        return view


def move_of(case: Case, rounds: int) -> tuple[str, int, int]:
    """'departure' or 'arrival', the client, and the rounds before: as the windows say, else as
    given, else half of the rounds."""
    windows = getattr(case.sampling, "present", None) or ()
    come = [k for k, window in enumerate(windows) if window[0] not in (None, 1)]
    if len(come) + sum(gone is not None for _, gone in windows) > 1:
        raise InvalidInput("several clients come or go: the statement is about one departure or one arrival, keep one window")
    event, a = ("arrival", come[0]) if come else ("departure", given.client_of(case))
    when = windows[a][0 if come else 1] if windows else None
    tau_0 = given.given_whole(case, "tau_0", rounds // 2 if when is None else when - 1, least=1, most=rounds - 1)
    if when is not None and tau_0 != when - 1:
        raise InvalidInput(f"tau_0 = {tau_0}, but client {a}'s window leaves {when - 1} rounds before the {event}: give one of them")
    return event, a, tau_0


def _gamma(shift: ShiftView, laws: list[RoundLaw]) -> Any:
    rounds = [law.moments for law in laws]
    return of_runs.gamma_of(laws[0].E, max(m.theta for m in rounds), shift.L, shift.mu, [m.sum_ps for m in rounds])


def _about(moment: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The second moment of (w - new, 1) from that of (w - old, 1)."""
    d = len(old)
    move = np.zeros((d + 1, d + 1), dtype=moment.dtype) + 0 * moment[0, 0]
    move[range(d + 1), range(d + 1)] = moment[d, d]
    move[:d, d] = old - new
    return np.asarray(move @ moment @ move.T)


def shifted_run(old: Side, new: Side, w0: np.ndarray, shift: ShiftView) -> ShiftedRunView:
    """The run of the old federation from w0, and both ways in which the new one goes on; L and mu are those of all clients.

    Parameters
    ----------
    old, new : the clients and a law for each round, before the shift and after it, at least one round each
    """
    gammas, legs = [_gamma(shift, laws) for _, laws in (old, new)], []

    def leg(side: Side, y_0: Any, moment: Any = None) -> Leg:
        how: Any = {"L": shift.L, "mu": shift.mu, "moment": moment, "gamma": y_0}
        return Leg.along(*side, w0, **how)

    before = leg(old, gammas[0])
    for gamma, first in ((gammas[0], None), (max(gammas), len(old[1]))):
        if gamma != gammas[0]:
            before = leg(old, gamma)
        moment = _about(before.second_moment, old[0].star, new[0].star)
        y_0 = gammas[1] if first is None else first * new[1][0].E + gamma
        legs.append((before, leg(new, y_0, moment)))
    return ShiftedRunView(legs[0][0], legs[1][0], legs[0][1], legs[1][1], shift)
