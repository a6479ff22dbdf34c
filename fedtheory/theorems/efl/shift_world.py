"""The world of EFL's Theorem 2: the optima before and after a client leaves or joins."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Sampling
from fedtheory.participation.irregular import complete, windows
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases import theorem_1 as cases
from fedtheory.theorems.efl.world import CONVEX, EFLWorld, constants_told
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
    word,
)  # fmt: skip
from fedtheory.theory.draws import curvatures, rows, signed, size

OPTIMA = LocalWork(
    (), "the statement is about two optima, not about a run; leave local_solver out"
)
DEPARTURE = Fact("a departure", lambda q: q.event == "departure")
ARRIVAL = Fact("an arrival", lambda q: q.event == "arrival")
FEW = Fact("n_a <= n", lambda q: q.n_a <= q.n)
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
    }, ("distance_sq", "D_new", "D_old"))  # fmt: skip

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
