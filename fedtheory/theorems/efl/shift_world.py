"""The worlds of EFL's Theorem 2 and sections 4.3 and 4.4: a client leaves or joins.

A run of EFL's local SGD that the objective moves in is made exactly, on quadratics, with Theorem
1's steps before and after. After tau_0 rounds client a leaves or joins, so that the optimum moves
from omega* to hat omega*. The run goes on with a fresh start of the steps, tau counted from 0 and
gamma taken from the new federation, or with the steps as they are, gamma the larger of both.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.coefficients import SCHEMES
from fedtheory.participation.cohorts import Sampling
from fedtheory.participation.irregular import Irregular, complete, joint_law, windows
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.rational import simplest, simplest_each, to_file
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases import theorem_1 as cases
from fedtheory.theorems.efl.quantities import run as of_runs
from fedtheory.theorems.efl.quantities.exact_run import round_laws
from fedtheory.theorems.efl.world import CONVEX, PLAIN, EFLWorld, constants_told
from fedtheory.theorems.efl.world import centre as efl_centre
from fedtheory.theory import (
    Case,
    Fact,
    Letters,
    LocalWork,
    Prepared,
    Request,
    Statement,
    derived,
    number,
    whole,
    word,
)  # fmt: skip
from fedtheory.theory.draws import curvatures, law, rows, shares, signed, size
from fedtheory.theory.rounds import second_moments as moments
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.irregular_run import exact_oracles

MOST = 400  # rounds in fractions
OPTIMA = LocalWork(
    (), "the statement is about two optima, not about a run; leave local_solver out"
)
DEPARTURE = Fact("a departure", lambda q: q.event == "departure")
ARRIVAL = Fact("an arrival", lambda q: q.event == "arrival")
FEW = Fact("n_a <= n", lambda q: q.n_a <= q.n)
NOISELESS = Fact("gradients without noise", lambda q: q.sigma_sq == 0)
APART = Fact(
    "optima that can be told apart, or are known exactly",
    lambda q: q.noise == 0 or q.distance_sq > q.noise,
)


def event_of(statement: str) -> str:
    """'departure' or 'arrival', of what a statement is about."""
    return "arrival" if statement.endswith("arrival") else "departure"


@dataclass
class ShiftView(EFLWorld):
    """One shift of the objective."""

    kind, about = "shift", "about the optima before and after one client leaves or joins"
    asks, accepts = (CONVEX, "at least two clients"), given.options("client")
    example, count, work = "--problem breast-cancer --departure 2", 60, OPTIMA
    shows = ("n", "n_a", "L", "mu", "D_new", "D_old")

    reads: ClassVar = {
        "event": word("departure", "arrival"), "samples": number("N", above=0),
        "h": number("N d", "curvatures, client a last", above=0), "c": number("N d", "minimisers"),
        "bend": number(default=None), "below": number(above=0, default=None),
    }  # fmt: skip
    letters = Letters({
        "n": "n", "n_a": "n_a", "L": "L", "mu": r"\mu", "distance_sq": r"\|\omega^*-\hat\omega^*\|^2",
        "D_new": r"\hat D_a", "D_old": "D_a",
    }, ("distance_sq", "D_new", "D_old"), zero=("noise",))  # fmt: skip

    event: str  # 'departure' or 'arrival'
    n: Any  # samples before the shift (of a departure they include those of the client that leaves)
    n_a: Any  # samples of client a
    L: Any  # L, mu: smoothness and strong convexity of all clients
    mu: Any
    distance_sq: Any  # ||omega* - hat omega*||^2, the optima before and after
    D_new: Any  # D_new, D_old: F_a - F_a* at the optimum after and before the shift
    D_old: Any
    noise: Any = 0  # uncertainty of what was computed numerically (0 for fractions)

    @classmethod
    def made(cls, event: str, samples: Any, h: Any, c: Any, bend: Any = None, below: Any = None) -> Self:
        """Make the shift; a bend and below, the curvature left of it, are those of client a (d = 1)."""
        if len(samples) < 2:
            raise InvalidInput("samples: give at least two clients")
        if bend is not None and (h.shape[1] != 1 or bend > c[-1, 0] or below is None):
            raise InvalidInput("a bend needs d = 1, below > 0, and to lie left of client a's minimiser")
        client, n_a, n_o = Client(h[-1], c[-1], bend, below), samples[-1], samples[:-1].sum()
        weights = samples[:-1] / n_o
        curvature, centre = (weights[:, None] * h[:-1]).sum(axis=0), efl_centre(weights, h[:-1], c[:-1])
        both = client.joint(n_a, curvature, centre, n_o)
        old, new = (both, centre) if event == "departure" else (centre, both)
        known = [*h.ravel(), *([] if below is None else [below])]
        return cls(
            event, n_o + (n_a if event == "departure" else 0), n_a, max(known), min(known),
            ((old - new) ** 2).sum(), client.excess(new), client.excess(old),
        )  # fmt: skip

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw clients, in one dimension those that the sharp bounds are attained on."""
        event, n = str(rng.choice(["departure", "arrival"])), int(rng.integers(2, 5))
        samples = [Fraction(int(v)) for v in rng.integers(1, 30, n)]
        shape = rng.integers(4)
        if shape == 0:  # client a large or small against all others
            samples[-1] *= int(rng.integers(5, 200))
        elif shape == 1:
            samples[-1] /= int(rng.integers(5, 200))
        elif shape == 2:  # as many as all others
            samples[-1] = sum(samples[:-1], Fraction(0))
        if rng.random() < 0.4:  # one dimension, the shape for which the sharp bounds are attained
            mu, L = sorted([size(rng), size(rng)])
            n_o, n_a, at = sum(samples[:-1]), samples[-1], abs(signed(rng)) + 1
            slope = (n_o / n_a) * mu * at  # of -F_a at the joint optimum
            data: dict[str, Any]
            data = {
                "event": event, "samples": samples, "h": [[mu]] * (n - 1) + [[L]],
                "c": [[Fraction(0)]] * (n - 1) + [[at + slope / L]],
            }  # fmt: skip
            if rng.random() < 0.7:
                data |= {"bend": at, "below": mu}
            return f"{event} 1-d", data
        d = int(rng.integers(1, 4))
        h, c = curvatures(rng, n, d), rows(rng, n, d, signed)
        return f"{event} d={d}", {"event": event, "samples": samples, "h": h, "c": c}

    @classmethod
    def runs(cls, plan: Any) -> list[Any]:
        """Shifts on data, too."""
        kinds = (("logistic", 4), ("least squares", 3), ("breast cancer", 5))
        return super().runs(plan) + [
            DataShift(family, event, clients, plan.seed * 10 + i)
            for family, clients in kinds
            for i in range(max(1, round(2 * plan.scale)))
            for event in ("departure", "arrival")
        ]

    @classmethod
    def example_of(cls, statement: str) -> str:
        """Name who leaves or who joins."""
        return cls.example.replace("departure", event_of(statement))

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> ShiftView:
        """Find both optima, whatever the algorithm."""
        if reason := cases.assumption_failure(case.problem, EFL(), None):
            raise InvalidInput(reason)
        event = event_of(statement)
        who = given.client_of(case) if "client" in case.given else None
        a = who_moves(case.sampling, event, case.problem.num_clients, who)
        return shift_on(case.problem, event, a)

    @classmethod
    def prepare(cls, statement: Statement, request: Request) -> Prepared:
        """Make a case of the client that moves, as a law with a window.

        --departure and --arrival may leave the round out.
        """
        problem = request.problem("quadratic")
        algorithm, event = request.algorithm("efl", problem), event_of(statement.id)
        no_run = f"{statement.id} is about two optima, %s; leave it out"
        request.refuse([f.name for f in fields(algorithm)], no_run % "whatever the algorithm")
        no_run = no_run % "not about a run"
        if request.rounds is not None or request.mode != "auto":
            asked = f"--rounds {request.rounds}" if request.rounds else f"--mode {request.mode}"
            raise InvalidInput(f"{asked}: {no_run}")
        other = "arrival" if event == "departure" else "departure"
        work = ("local_steps", "local_lr", "batch_size", "noise", "lr_schedule", "lr_delay")
        request.refuse(("inactive", "incomplete", "activity", other, *work), no_run)
        if request.participants is not None:
            raise InvalidInput(f"--participants {request.participants}: {no_run}")
        text, client = request.options.get(event), problem.num_clients - 1
        if text is not None:
            try:
                client = int(text.partition("@")[0])
            except ValueError:
                raise InvalidInput(f"--{event} {text}: give the client, as in --{event} 2") from None
        window = (2, None) if event == "arrival" else (None, 2)
        sampling = windows(complete(problem.num_clients, 1), {client: window})
        moves = "leaves" if event == "departure" else "joins the others"
        head = [f"{problem.name}: N = {problem.num_clients}, d = {problem.dim}, client {client} {moves}"]
        options = {"sampling": sampling}
        details = {"event": event, "client": client}
        return Prepared(problem, algorithm, options, head, details, partial(constants_told, details))


@dataclass
class Client:
    """sum_i h_i (x_i - c_i)^2/2; in one dimension the curvature may be ``below`` left of ``bend`` (a point left of c)."""

    h: np.ndarray
    c: np.ndarray
    bend: Any = None
    below: Any = None

    def excess(self, x: np.ndarray) -> Any:
        """F_a(x) - F_a*."""
        if self.bend is None or x[0] >= self.bend:
            return (self.h * (x - self.c) ** 2).sum() / 2
        h, c, b = self.h[0], self.c[0], self.bend
        return h * (b - c) ** 2 / 2 + h * (b - c) * (x[0] - b) + self.below * (x[0] - b) ** 2 / 2

    def joint(self, weight: Any, h: np.ndarray, c: np.ndarray, other: Any) -> np.ndarray:
        """argmin other * (sum h (x - c)^2/2) + weight * F_a."""
        x = (other * h * c + weight * self.h * self.c) / (other * h + weight * self.h)
        if self.bend is None or x[0] >= self.bend:
            return x
        slope = self.h[0] * (self.bend - self.c[0]) - self.below * self.bend  # F_a' = slope + below x, left of the bend
        return (other * h * c - weight * slope) / (other * h + weight * self.below)


@dataclass(frozen=True)
class DataShift:
    """A departure or arrival on data: l2-regularised logistic regression or least squares, with certified optima.
    """

    family: str  # 'logistic', 'least squares' or 'breast cancer'
    event: str  # 'departure' or 'arrival'
    clients: int  # N, the one that leaves or joins among them
    seed: int
    kind: str = "shift"

    name = derived(lambda q: f"shift: {q.family} {q.event} N={q.clients} seed={q.seed}")

    def problem(self) -> Any:
        """The problem with all clients, p^k = n_k/n."""
        from fedtheory import problems
        from fedtheory.problems import datasets, partitions

        if self.family == "breast cancer":
            data = datasets.breast_cancer()
            deal = partitions.dirichlet(data.targets, self.clients, 0.6, seed=self.seed)
            return partitions.federate(data, deal, ridge=1e-1, weights="samples")
        rng = Stream(self.seed).generator("efl shift")
        counts = rng.integers(4, 40, self.clients)
        features = [rng.standard_normal((n, 3)) + rng.standard_normal(3) for n in counts]
        if self.family == "logistic":
            labels = [np.where(rng.random(len(a)) < 0.5, -1.0, 1.0) for a in features]
            return problems.Logistic(features, labels, ridge=0.2, weights="samples")
        targets = [a @ rng.standard_normal(3) + rng.standard_normal(len(a)) for a in features]
        return problems.LeastSquares(features, targets, ridge=0.2, weights="samples")

    def view(self) -> ShiftView:
        """Certified optima with and without the last client. Raises `NotCertified` where one cannot be had."""
        return shift_on(self.problem(), self.event, self.clients - 1)

    def to_json(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("family", "event", "clients", "seed")}
        return told | {"name": self.name}


def who_moves(sampling: Sampling | None, event: str, clients: int, given: Any = None) -> int:
    """The client that is named, else the one with a window that says so, else the last client."""
    if given is not None:
        return int(given)
    stay = getattr(sampling, "present", None)
    found = [k for k, window in enumerate(stay or ()) if window[0 if event == "arrival" else 1] is not None]
    if len(found) > 1:
        raise InvalidInput(f"clients {', '.join(map(str, found))} all have a round of {event}: Theorem 2 moves one, name one")
    return found[0] if found else clients - 1


def shift_on(problem: Problem, event: str, client: int) -> ShiftView:
    """The shift of the optimum when one client of a problem leaves it, or when it joins the others.

    Weights p^k stand for n_k/n; with p^k = n_k/n the samples themselves are shown.
    """
    N = problem.num_clients
    if N < 2:
        raise InvalidInput(f"N = {N} client: with nobody left there is no new optimum, use at least two clients")
    if not 0 <= client < N:
        raise InvalidInput(f"there is no client {client}: clients are numbered 0..{N - 1}")
    others = np.delete(np.arange(N), client)
    rest, alone = problem.subset(others), problem.subset(np.array([client]))
    joint, without, own = problem.optimum(), rest.optimum(), alone.optimum()
    old, new = (joint, without) if event == "departure" else (without, joint)
    gaps = [float(alone.objective(o.x)) - own.lower_bound for o in (new, old)]
    counts, weights = np.asarray(problem.sample_counts), problem.weights
    sizes = counts if np.allclose(weights * counts.sum(), counts, rtol=1e-12) else weights
    n_a, n_others = sizes[client].item(), sizes[others].sum().item()
    mu = float(problem.mu_k.min())
    away = given.distance_off(problem, joint) + given.distance_off(problem, without)
    distance = float(np.linalg.norm(old.x - new.x))
    return ShiftView(
        event, n_others + (n_a if event == "departure" else 0), n_a, float(problem.beta_k.max()),
        mu, distance**2, gaps[0], gaps[1], noise=2 * away * (distance + away),
    )


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
        order, kept, work = [*(k for k in range(len(weights)) if k != a), a], {}, []
        for t in range(1, rounds + 1):
            rows = law.law(t)
            if gone is not None and t >= gone:
                rows = law.law(gone - 1)  # its own ratio is set to 0 there
            key = rows.tobytes()
            if key not in kept:
                exact = simplest_each(rows)
                exact = exact / exact.sum(axis=1)[:, None]
                first = RoundLaw(EFL(scheme=scheme), exact, weights).single[0]
                kept[key] = ((first * np.arange(exact.shape[1])).sum(axis=1) / weights)[order]
            work.append(kept[key])
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


@dataclass(frozen=True)
class Leg:
    """The rounds before the shift, or those after it."""

    constants: of_runs.EFLConstants  # Theorem 1's, of these rounds
    y: np.ndarray  # (T + 1,) tau E + gamma as the steps of these rounds have it
    distance_sq: np.ndarray  # (T + 1,) exact E||w - optimum||^2, the optimum of these rounds

    def terms(self, start_sq: Any) -> tuple[np.ndarray, ...]:
        """y_0^2 start_sq/y^2, (16E/mu)^2 sum E[B_t]/S_t^2/y^2 and H J/y, (T + 1,): Theorem 1 from y_0 on, repaired."""
        c = self.constants
        return self.y[0] ** 2 * start_sq / self.y**2, c.noise_sum(c.B()) / self.y**2, c.H() * c.J / self.y


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
            kept: dict[bytes, RoundLaw] = {}
            laws = []
            for t in when:
                rows = law.law(t)[keep]
                laws.append(kept.setdefault(rows.tobytes(), RoundLaw(algorithm, rows, who.weights)))
            return who, laws

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


def _leg(
    shift: ShiftView, side: Side, w0: np.ndarray, gamma: Any, moment: np.ndarray | None = None, first: int = 0
) -> tuple[Leg, moments.Path]:
    """Rounds with the steps 16E/(mu ((first + t + 1)E + gamma) S_t)."""
    oracles, laws = side
    E, rounds = laws[0].E, [law.moments for law in laws]
    y_0 = first * E + gamma
    path = moments.second_moments(oracles, laws, of_runs.step_sizes(E, shift.mu, y_0, [m.sum_ps for m in rounds]), w0, moment)
    constants = of_runs.EFLConstants(
        E, shift.L, shift.mu, max(m.theta for m in rounds), path.G_sq, path.sigma_sq, oracles.D,
        oracles.weights, rounds, path.distance_sq[0],
    )
    return Leg(constants, np.arange(len(laws) + 1) * E + y_0, path.distance_sq), path


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
    before, path = _leg(shift, old, w0, gammas[0])
    for gamma, first in ((gammas[0], None), (max(gammas), len(old[1]))):
        if gamma != gammas[0]:
            before, path = _leg(shift, old, w0, gamma)
        moment = _about(path.second_moment, old[0].star, new[0].star)
        after, _ = _leg(shift, new, w0, gammas[1] if first is None else gamma, moment, first or 0)
        legs.append((before, after))
    return ShiftedRunView(legs[0][0], legs[1][0], legs[0][1], legs[1][1], shift)
