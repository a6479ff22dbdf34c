"""Potentials of one round, as they are printed and at their best: full gradients, server step 1.

    E V+ <= rho V - kappa_0 D + c noise

bounds a run of any number of rounds. `fedtheory verify one-round` proves every form for all losses of its class,
and says how large kappa_0, or how small c, may be. ``one-round::scaffold --given clients=10 --given participants=1``
is one of them with other numbers.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from fedtheory.algorithms import EFL, FedAvg, FedDyn, FedElasticNetDyn, FedProx, Scaffold
from fedtheory.theory import (
    GradientSteps,
    Paper,
    Smooth,
    SmoothConvex,
    StronglyConvex,
    Uniform,
    form,
    le,
    method,
    potential,
    printed,
)

PAPER = Paper(
    "one-round", title="Potentials of one round",
    source="Khaled et al. 2019, Karimireddy et al. 2020, Li et al. 2020, and docs/worst_cases.md",
)
SHORT: dict[str, Any] = {"about": FedAvg(), "local": GradientSteps(2, lr=lambda c: 1 / (16 * c.beta * c.E))}
PROX: dict[str, Any] = {"about": method(FedProx, mu=lambda c: 12 * c.beta)}
PROVED = "the certificate that `fedtheory verify one-round` writes"
HALF, TENTH = Fraction(1, 2), Fraction(1, 10)
EVERYBODY: dict[str, Any] = {"problems": SmoothConvex(clients=(1, 10), dimension=(1, 2))}
ONE_OF_TEN: dict[str, Any] = {"problems": SmoothConvex(clients=10, dimension=(1, 2)), "sampling": Uniform(1)}
TWO_OF_FOUR: dict[str, Any] = {"problems": StronglyConvex(clients=4, dimension=(1, 2), mu=TENTH), "sampling": Uniform(2)}


def over_clients(v: Any) -> Any:
    """The clients' mean of vectors."""
    return v.mean(axis=-2)


# --- FedDyn and FedElasticNet ---------------------------------------------------------------------
DYN: dict[str, Any] = {
    "about": method(FedDyn, alpha=lambda c: 2 * c.beta),
    "states": {"gradients": "N d", "h": lambda s: over_clients(s["gradients"])},
}
ELASTIC: dict[str, Any] = {
    "about": method(FedElasticNetDyn, l1=1, l2=lambda c: 2 * c.beta, rule="true-gradient"),
    "states": {"stored": "N d", "local": "N d", "h": lambda s: over_clients(s["stored"])},
}


def of_dyn(q: Any, stored: str, ratio: Any, times: Any, last: Any = None) -> Iterator[Any]:
    """V is the squared distance of gamma = x + h/lambda_2, the mean of the local models, and what the clients keep.

    times : N/P
    last : callable(gamma), a further term of D
    """

    def gamma(s: Any) -> Any:
        return s.x + s.h / (ratio * q.beta)

    def sides(kappa_0: Any, kappa: Any) -> Any:
        def V(s: Any) -> Any:
            kept = q.over_clients(q.sq(getattr(s, stored) - q.gradients(q.x_star)))
            return q.sq(gamma(s) - q.x_star) + times * kappa / q.beta**2 * kept

        def D(s: Any) -> Any:
            gap = kappa_0 / q.beta * q.gap_at(gamma(s))
            return gap if last is None else gap + last(gamma(s))

        return potential(q, V, D)

    near = 2 * ratio**2 <= (2 + ratio) ** 2  # up to 2 + 2 sqrt 2
    kappa_0 = 4 * ratio / (2 + ratio) ** 2 if near else 2 / ratio
    kappa = (2 + 3 * ratio) / (ratio**2 * (2 + ratio)) if near else 1 / (2 * ratio)
    where = "theorem-e-fedelasticnets-true-gradient-rule-from-15352-beta-on" if last else "feddyn-converges-for-every-lambda_2"
    yield form("for every N and P", sides(kappa_0, kappa), holds=True, proof=f"docs/worst_cases.md#{where}")
    some = q.constant("kappa_0", HALF), q.constant("kappa", HALF, free=True)
    yield form("best", sides(*some), holds=True, proof=PROVED)


def feddyn(q: Any, times: Any = 1) -> Iterator[Any]:
    """FedDyn with exact local solves lowers a potential for every alpha."""
    yield from of_dyn(q, "gradients", q.method.alpha / q.beta, times)


def fedelasticnet(q: Any, times: Any = 1) -> Iterator[Any]:
    """FedElasticNet under the true-gradient rule lowers a potential, up to its l1 term."""
    l2 = q.method.l2

    def last(gamma: Any) -> Any:
        y = q.local_models
        pull = q.state.stored - l2 * (y - q.x[..., None, :]) - q.gradients_each(y)
        return 2 / l2 * q.dot(gamma - q.x_star, over_clients(pull))

    yield from of_dyn(q, "stored", l2 / q.beta, times, last)


@PAPER.statement("feddyn-cohorts", **DYN, **ONE_OF_TEN)
def feddyn_cohorts(q: Any) -> Iterator[Any]:
    """FedDyn with cohorts lowers a potential for every alpha."""
    yield from feddyn(q, q.N / q.P)


@PAPER.statement("fedelasticnet-cohorts", **ELASTIC, **ONE_OF_TEN)
def fedelasticnet_cohorts(q: Any) -> Iterator[Any]:
    """FedElasticNet under the true-gradient rule with cohorts lowers a potential, up to its l1 term."""
    yield from fedelasticnet(q, q.N / q.P)


PAPER.statement("feddyn", **DYN, **EVERYBODY)(feddyn)
PAPER.statement("fedelasticnet", **ELASTIC, **EVERYBODY)(fedelasticnet)


# --- local gradient descent -----------------------------------------------------------------------
def local_steps(q: Any) -> list[Any]:
    """(local models, their gradients) of all clients before each local step of plain gradient descent."""
    found = [(q.x[..., None, :], q.client_gradients)]
    for _ in range(1, int(q.E)):
        y, gradient = found[-1]
        y = y - q.eta * gradient
        found.append((y, q.gradients_each(y)))
    return found


def distance(s: Any) -> Any:
    """V of most methods."""
    return s.distance_sq


@PAPER.statement("fedavg", about=FedAvg(), local=GradientSteps(2, lr=lambda c: 1 / (4 * c.beta * c.E)), **EVERYBODY)
def fedavg(q: Any) -> Iterator[Any]:
    """Local gradient descent of everybody, down to the heterogeneity at x*."""
    h, s = q.eta * q.E, q.eta**2 * q.beta**2 * q.E * (q.E - 1)

    def sides(kappa_0: Any, c: Any) -> Any:
        gaps = [q.gap_at(over_clients(y) if j else q.x) for j, (y, _) in enumerate(local_steps(q))]
        return potential(q, distance, lambda _: kappa_0 * h / q.E * sum(gaps[1:], gaps[0]), noise=c * h**3 * q.beta * q.heterogeneity)

    yield printed(
        sides(HALF, q.constant("c", 12)), holds=True, needs={"h <= 1/(4 L)": 4 * h * q.beta <= 1},
        proof="Khaled, Mishchenko, Richtarik 2019, Theorem 1",
    )
    ours = (q.E - 1) * (2 * q.E - 1) / (3 * q.E**2 * (2 - s))
    yield form(
        "for every K", sides(2, ours), holds=True, needs={"s < 2": s < 2, "eta <= 1/L": q.eta * q.beta <= 1},
        proof="docs/worst_cases.md#potentials-of-one-round",
    )


@PAPER.statement(
    "fedavg-cohorts", about=FedAvg(), local=GradientSteps(2, lr=lambda c: 1 / (4 * c.beta * c.E)),
    problems=SmoothConvex(clients=4, dimension=(1, 2)), sampling=Uniform(2),
)
def fedavg_cohorts(q: Any) -> Iterator[Any]:
    """Local gradient descent of a cohort, down to the heterogeneity at x*."""
    h = q.eta * q.E
    gaps = [q.gap_at(over_clients(y) if j else q.x) for j, (y, _) in enumerate(local_steps(q))]
    noise = q.constant("c", 1) * h**2 * q.heterogeneity
    yield form("best", potential(q, distance, lambda _: h / (2 * q.E) * sum(gaps[1:], gaps[0]), noise=noise), holds=True, proof=PROVED)


@PAPER.statement("gradient-descent", about=FedAvg(), local=GradientSteps(1, lr=lambda c: 1 / (4 * c.beta)), **EVERYBODY)
def gradient_descent(q: Any) -> Iterator[Any]:
    """One local step of everybody, which is gradient descent."""
    kappa_0 = q.constant("kappa_0", 2) * q.eta
    yield form("best", potential(q, distance, lambda s: kappa_0 * s.gap), holds=True, proof=PROVED)


def dissimilar(q: Any, away: Any = 0) -> Iterator[Any]:
    """Local gradient descent where the clients' gradients at x are as dissimilar as G and B say.

    away : 1 - P/N
    """
    h, B_sq, G_sq = q.eta * q.E, q.constant("B", 1) ** 2, q.beta**2  # of lengths the unit is G/L
    need = le(q.over_clients(q.sq(q.client_gradients)), G_sq, 2 * q.beta * B_sq * q.gap)

    def sides(c: Any) -> Any:
        return potential(q, distance, lambda s: h / 3 * s.gap, noise=c * h**2 * G_sq)

    dissimilar = {"mean ||grad f_k(x)||^2 <= G^2 + 2 L B^2 (F(x) - F*)": need}
    most = {"h <= 1/(8 (1 + B^2) L)": 8 * (1 + B_sq) * h * q.beta <= 1}
    yield printed(
        sides(4 * away + 18 * h * q.beta), holds=True, needs=most | dissimilar, proof="Karimireddy et al. 2020, Lemmas 7 and 8",
    )
    yield form("best", sides(q.constant("c", 1 + away)), holds=True, needs=dissimilar, proof=PROVED)


@PAPER.statement("fedavg-dissimilar-cohorts", **SHORT, **ONE_OF_TEN)
def fedavg_dissimilar_cohorts(q: Any) -> Iterator[Any]:
    """Local gradient descent of one client, whose gradients at x are as dissimilar as G and B say."""
    yield from dissimilar(q, 1 - q.P / q.N)


PAPER.statement("fedavg-dissimilar", **SHORT, **EVERYBODY)(dissimilar)


# --- SCAFFOLD -------------------------------------------------------------------------------------
@PAPER.statement(
    "scaffold", about=Scaffold(), states={"c_k": "N d", "c": lambda s: over_clients(s["c_k"])},
    local=GradientSteps(2, lr=lambda c: 1 / (81 * c.beta * c.E)), **TWO_OF_FOUR,
)
def scaffold(q: Any) -> Iterator[Any]:
    """SCAFFOLD lowers a potential."""
    h, times = q.eta * q.E, q.N / q.P
    spread = (q.N - q.P) / (q.P * (q.N - 1))

    def sides(kappa_0: Any, kappa: Any, rho: Any) -> Any:
        def V(s: Any) -> Any:
            return s.distance_sq + times * kappa * q.over_clients(q.sq(s.c_k - q.gradients(q.x_star)))

        return potential(q, V, lambda s: kappa_0 * h * s.gap, rho=rho)

    kappa_0, kappa = q.constant("kappa_0", 2), q.constant("kappa", Fraction(1, 1000), free=True) / q.beta**2
    yield form(
        "for every K, N and P", sides(2, 2 * spread * h**2 + 2 * q.beta * h**3 / 3, 1), holds=True,
        needs={"h <= 3/(5 (1 + 2 sigma) L)": 5 * (1 + 2 * spread) * h * q.beta <= 3},
        proof="docs/worst_cases.md#potentials-of-one-round",
    )
    yield form("best, rho = 1", sides(kappa_0, kappa, 1), holds=True, proof=PROVED)
    falls = 1 - q.mu * h / 2
    yield form("best", sides(kappa_0, kappa, falls), holds=True, proof=PROVED)
    limits = {"h <= 1/(81 L)": 81 * h * q.beta <= 1, "h <= P/(15 mu N)": 15 * q.mu * h * times <= 1}
    yield printed(sides(1, 9 * h**2, falls), holds=True, needs=limits, proof="Karimireddy et al. 2020, Lemma 13")


# --- FedProx --------------------------------------------------------------------------------------
def alike(q: Any, B: Any) -> dict[str, Any]:
    """What is needed of the clients' gradients at x."""
    bound = le(q.over_clients(q.sq(q.client_gradients)), B**2 * q.gradient_sq)
    return {"mean ||grad f_k(x)||^2 <= B^2 ||grad F(x)||^2": bound}


@PAPER.statement("fedprox", **PROX, problems=Smooth(clients=(1, 10), dimension=(1, 2)))
def fedprox(q: Any) -> Iterator[Any]:
    """FedProx with exact local solves lowers F, of losses that need not be convex."""
    kappa_0 = q.constant("kappa_0", Fraction(1, 20)) / q.beta
    sides = potential(q, lambda s: s.gap, lambda s: kappa_0 * s.gradient_sq)
    yield form("best", sides, holds=True, needs=alike(q, q.constant("B", 1)), proof=PROVED)


@PAPER.statement("fedprox-cohorts", **PROX, problems=Smooth(clients=10, dimension=(1, 2)), sampling=Uniform(8))
def fedprox_cohorts(q: Any) -> Iterator[Any]:
    """FedProx with cohorts lowers F. After the round E F is bounded by smoothness, from F at the mean of all local solutions."""
    L, mu, B, K, mean = q.beta, q.method.mu, q.constant("B", 1), q.P, over_clients(q.local_models)
    after, needs, near = q.value(mean) + L / 2 * q.sq(q.x_next - mean), alike(q, B), mu - L
    yield form(
        "best", le(after, q.F, -q.constant("kappa_0", Fraction(1, 20)) / L * q.gradient_sq), holds=True, needs=needs, proof=PROVED,
    )
    rho = 1 / mu - B * q.sqrt(2 / K) / near - L * B / (near * mu) - L * B**2 / (2 * near**2)
    rho = rho - L * B**2 / (near**2 * K) * (2 * q.sqrt(2 * K) + 2)
    yield printed(le(after, q.F, -rho * q.gradient_sq), holds=True, needs=needs, proof="Li et al. 2020, Theorem 4")


# --- EFL ------------------------------------------------------------------------------------------
@PAPER.statement(
    "efl", about=EFL(), local=GradientSteps(2, lr=lambda c: 1 / (4 * c.beta)),
    problems=StronglyConvex(clients=(1, 10), dimension=(1, 2), mu=TENTH),
)
def efl(q: Any) -> Iterator[Any]:
    """EFL's round where everybody completes its steps with full gradients, nothing is compressed and anchors are frozen."""
    E, L, mu, G_sq = q.E, q.beta, q.mu, q.beta**2  # of lengths the unit is G/L
    needs = {f"G bounds the gradients after {j} steps": le(q.over_clients(q.sq(g)), G_sq) for j, (_, g) in enumerate(local_steps(q))}
    apart = q.F_star - q.over_clients(q.client_minima)
    B = 6 * L * E * apart + ((2 + mu / (4 * L)) * E * (E - 1) * E + 2 * E**2) * G_sq
    limits = {"eta <= 1/(4 L)": 4 * q.eta * L <= 1, "eta mu E <= 4": q.eta * mu * E <= 4}
    yield form(
        "one round", potential(q, distance, rho=1 - q.eta * mu * E / 4, noise=q.constant("c", 1) * q.eta**2 * B), holds=True,
        needs=limits | needs, proof="docs/efl.md",
    )
