"""Potentials of one round, with printed constants and at their best: full gradients, server step 1.

    E V+ <= rho V - kappa_0 D + c noise

bounds a run of any number of rounds. `fedtheory verify one-round` proves every form for all losses
of its class, and says how large kappa_0, or how small c, may be. `fedtheory verify
one-round::scaffold --given clients=10 --given participants=1` proves one with other numbers.

Only SCAFFOLD's Lemma 13 is printed in this shape. `PRINTED_CONSTANTS` are forms of one round with
the constants of a text that prints something else, such as a bound on a run.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from fedtheory.algorithms import EFL, FedAvg, FedDyn, FedElasticNetDyn, FedProx, Scaffold
from fedtheory.errors import NotCertified
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
)
from fedtheory.theory.rounds.vector_proofs import Proved, best_constant

__all__ = ["PAPER", "PRINTED_CONSTANTS", "best_kappas", "local_steps"]

PAPER = Paper(
    "one-round", title="Potentials of one round",
    source="Khaled et al. 2019, Karimireddy et al. 2020, Li et al. 2020, and docs/worst_cases.md",
)  # fmt: skip
PRINTED_CONSTANTS = "printed constants"
Declared = dict[str, Any]
HALF, TENTH = Fraction(1, 2), Fraction(1, 10)
EVERYBODY: Declared = {"problems": SmoothConvex((1, 10), (1, 2))}
ONE_OF_TEN: Declared = {"problems": SmoothConvex(10, (1, 2)), "sampling": Uniform(1)}
TWO_OF_FOUR: Declared = {"problems": SmoothConvex(4, (1, 2)), "sampling": Uniform(2)}
OURS = "docs/worst_cases.md#potentials-of-one-round"
DISTANCE, ZETA = r"V=\|x-x^*\|^2", r"\frac1N\sum_k\|\nabla f_k(x^*)\|^2"
KEPT = r"+\kappa\,\frac1N\sum_k\|{}_k-\nabla f_k(x^*)\|^2"


def holds(name: str, sides: Any, latex: str, proof: str = "", **how: Any) -> Any:
    """A form that is true; without another proof its certificate is one."""
    proof = proof or "the certificate that `fedtheory verify one-round` writes"
    return form(name, sides, rf"\mathbb{{E}}V^+\le {latex}", holds=True, proof=proof, **how)


def over_clients(v: Any) -> Any:
    """The clients' mean of vectors."""
    return v.mean(axis=-2)


# --- FedDyn and FedElasticNet ---------------------------------------------------------------------
DYN: Declared = {
    "about": method(FedDyn, alpha=lambda c: 2 * c.beta),
    "states": {"gradients": "N d", "h": lambda s: over_clients(s["gradients"])},
}
ELASTIC: Declared = {
    "about": method(FedElasticNetDyn, l1=1, l2=lambda c: 2 * c.beta, rule="true-gradient"),
    "states": {"stored": "N d", "local": "N d", "h": lambda s: over_clients(s["stored"])},
}


L1 = r"-\tfrac{2}{\lambda_2}\langle\gamma-x^*,\tfrac1N\sum_k\lambda_1s_k\rangle"


def of_dyn(
    q: Any, stored: str, ratio: Any, times: Any, last: Any = None, run_bounds: bool = False
) -> Iterator[Any]:
    """V is ||gamma - x*||^2, gamma = x + h/lambda_2 the mean of local models, and what is stored.

    times : N/P
    last : callable(gamma), a further term of D
    run_bounds : True for the constants of FedElasticNet's bounds on a run: lambda_2 is large
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
    dyn, elastic = "feddyn-converges-for-every-lambda_2", "theorem-e-fedelasticnets-true-gradient"
    where = f"{elastic}-rule-from-15352-beta-on" if last else dyn
    told = rf"V-\kappa_0(F(\gamma)-F^*){L1 if last else ''},\ V=\|\gamma-x^*\|^2{KEPT.format('g')}"
    yield holds("for every N and P", sides(kappa_0, kappa), told, f"docs/worst_cases.md#{where}")
    if run_bounds:
        for theorem, lead, c in (("Theorem 3.1", 10, 25), ("Theorem A", 3, 9)):
            core = ratio**2 - c
            kappa_0, kappa = 2 * (core - c * (ratio + 1)) / core, lead * (ratio + 1) / core
            made, name = sides(kappa_0 / ratio, kappa / ratio), f"constants of {theorem}"
            yield holds(name, made, told, "docs/fedelasticnet.md")
        return
    some = q.constant("kappa_0", HALF), q.constant("kappa", HALF, free=True)
    yield holds("best", sides(*some), told)


def feddyn(q: Any, times: Any = 1) -> Iterator[Any]:
    """FedDyn with exact local solves lowers a potential for every alpha."""
    yield from of_dyn(q, "gradients", q.method.alpha / q.beta, times)


def fedelasticnet(q: Any, times: Any = 1, run_bounds: bool = False) -> Iterator[Any]:
    """FedElasticNet under the true-gradient rule lowers a potential, up to its l1 term."""
    l2 = q.method.l2

    def last(gamma: Any) -> Any:
        y = q.local_models
        pull = q.state.stored - l2 * (y - q.x[..., None, :]) - q.gradients_each(y)
        return 2 / l2 * q.dot(gamma - q.x_star, over_clients(pull))

    yield from of_dyn(q, "stored", l2 / q.beta, times, last, run_bounds)


@PAPER.statement("feddyn-cohorts", **DYN, **ONE_OF_TEN)
def feddyn_cohorts(q: Any) -> Iterator[Any]:
    """FedDyn with cohorts lowers a potential for every alpha."""
    yield from feddyn(q, q.N / q.P)


@PAPER.statement("fedelasticnet-cohorts", **ELASTIC, **ONE_OF_TEN)
def fedelasticnet_cohorts(q: Any) -> Iterator[Any]:
    """FedElasticNet with cohorts, true-gradient rule, lowers a potential up to its l1 term."""
    yield from fedelasticnet(q, q.N / q.P)


@PAPER.statement(
    "fedelasticnet-run-bounds", **ONE_OF_TEN, states=ELASTIC["states"],
    about=ELASTIC["about"].changed({"l2": lambda c: 28 * c.beta}),
)  # fmt: skip
def fedelasticnet_run_bounds(q: Any) -> Iterator[Any]:
    """FedElasticNet with the constants of its bounds on a run, lambda_2 = 28 beta."""
    yield from fedelasticnet(q, q.N / q.P, run_bounds=True)


PAPER.statement("feddyn", **DYN, **EVERYBODY)(feddyn)
PAPER.statement("fedelasticnet", **ELASTIC, **EVERYBODY)(fedelasticnet)


def best_kappas(
    ratio: Any, clients: int, participants: int, l1: bool = False
) -> tuple[Fraction, Fraction, Proved]:
    """(kappa_0, kappa, their proof) of FedDyn's best potential, or FedElasticNet's, for beta = 1.

    Parameters
    ----------
    ratio : lambda_2/beta
    l1 : whether there is an l1 term

    Raises
    ------
    NotCertified
        No kappa_0 above 0 could be proved.
    """
    name, own = ("fedelasticnet", "l2") if l1 else ("feddyn", "alpha")
    numbers, some = {"clients": clients, own: ratio}, participants < clients
    statement = PAPER.authored[name + "-cohorts" * some]
    numbers |= {"participants": participants} if some else {}
    found = best_constant(statement.at(**numbers), "best", "kappa_0")
    if found is None or found.proof is None or found.proved <= 0:
        whom = f"{participants} of {clients} clients"
        told = f"{name}, lambda_2 = {ratio} beta, {whom}: no kappa_0 above 0 was proved"
        raise NotCertified(told)
    kappa = Fraction(clients, participants) * found.proof.chosen[0]["kappa"]
    return found.proved, kappa, found.proof


# --- local gradient descent -----------------------------------------------------------------------
FOUR: Declared = {
    "about": FedAvg(), "local": GradientSteps(2, lr=lambda c: 1 / (4 * c.beta * c.E)),
}  # fmt: skip
SHORT: Declared = {
    "about": FedAvg(), "local": GradientSteps(2, lr=lambda c: 1 / (16 * c.beta * c.E)),
}  # fmt: skip


def local_steps(q: Any) -> list[Any]:
    """(local models, their gradients) of all clients before each step of plain descent."""
    found = [(q.x[..., None, :], q.client_gradients)]
    for _ in range(1, int(q.E)):
        y, gradient = found[-1]
        y = y - q.eta * gradient
        found.append((y, q.gradients_each(y)))
    return found


def distance(s: Any) -> Any:
    """V of most methods."""
    return s.distance_sq


FEDAVG = rf"V-\kappa_0\,\tfrac hK\sum_j(F(\bar y_j)-F^*)+c\,{ZETA},\ {DISTANCE}"


def of_fedavg(q: Any, kappa_0: Any, noise: Any) -> Any:
    """D is the mean of F - F* over the averages of the local models, step by step, times h."""
    gaps = [q.gap_at(over_clients(y) if j else q.x) for j, (y, _) in enumerate(local_steps(q))]
    gain = kappa_0 * q.eta * sum(gaps[1:], gaps[0])
    return potential(q, distance, lambda _: gain, noise=noise * q.heterogeneity)


@PAPER.statement("fedavg", **FOUR, **EVERYBODY)
def fedavg(q: Any) -> Iterator[Any]:
    """Local gradient descent of everybody, down to the heterogeneity at x*."""
    h, L, s = q.eta * q.E, q.beta, q.eta**2 * q.beta**2 * q.E * (q.E - 1)
    khaled = "Khaled, Mishchenko, Richtarik 2019, Lemmas 1 and 2 added, as for Theorem 1"
    printed, short = of_fedavg(q, HALF, 12 * L * h**3), {"h <= 1/(4 L)": 4 * h * L <= 1}
    yield holds(PRINTED_CONSTANTS, printed, FEDAVG, khaled, needs=short)
    kappa_0, c = q.constant("kappa_0", HALF), q.constant("c", 12)
    yield holds("best", of_fedavg(q, kappa_0, c * L * h**3), FEDAVG)
    ours = q.eta**3 * L * q.E * (q.E - 1) * (2 * q.E - 1) / (3 * (2 - s))
    limits = {"s < 2": s < 2, "eta <= 1/L": q.eta * L <= 1}
    yield holds("for every K", of_fedavg(q, 2, ours), FEDAVG, OURS, needs=limits)


@PAPER.statement("fedavg-cohorts", **FOUR, **TWO_OF_FOUR)
def fedavg_cohorts(q: Any) -> Iterator[Any]:
    """Local gradient descent of a cohort, down to the heterogeneity at x*."""
    c = q.constant("c", 1) * (q.eta * q.E) ** 2
    yield holds("best", of_fedavg(q, q.constant("kappa_0", HALF), c), FEDAVG)


@PAPER.statement(
    "gradient-descent", about=FedAvg(), local=GradientSteps(1, lr=lambda c: 1 / (4 * c.beta)),
    **EVERYBODY,
)  # fmt: skip
def gradient_descent(q: Any) -> Iterator[Any]:
    """One local step of everybody, which is gradient descent."""
    kappa_0 = q.constant("kappa_0", 2) * q.eta
    told = rf"V-\kappa_0(F(x)-F^*),\ {DISTANCE}"
    yield holds("best", potential(q, distance, lambda s: kappa_0 * s.gap), told)


def dissimilar(q: Any, away: Any = 0) -> Iterator[Any]:
    """Local gradient descent where gradients at x are as dissimilar as G and B say.

    away : 1 - P/N
    """
    h, L, B = q.eta * q.E, q.beta, q.constant("B", 1)
    G_sq = L**2  # of lengths the unit is G/L

    def sides(c: Any) -> Any:
        return potential(q, distance, lambda s: h / 3 * s.gap, noise=c * h**2 * G_sq)

    bound = le(q.over_clients(q.sq(q.client_gradients)), G_sq, 2 * L * B**2 * q.gap)
    need = {"mean ||grad f_k(x)||^2 <= G^2 + 2 L B^2 (F(x) - F*)": bound}
    short = {"h <= 1/(8 (1 + B^2) L)": 8 * (1 + B**2) * h * L <= 1}
    told = rf"V-\tfrac h3(F(x)-F^*)+c\,G^2,\ {DISTANCE}"
    printed, where = sides(4 * away + 18 * h * L), "Karimireddy et al. 2020, Lemmas 7 and 8 added"
    yield holds(PRINTED_CONSTANTS, printed, told, where, needs=short | need)
    yield holds("best", sides(q.constant("c", 1 + away)), told, needs=need)


@PAPER.statement("fedavg-dissimilar-cohorts", **SHORT, **ONE_OF_TEN)
def fedavg_dissimilar_cohorts(q: Any) -> Iterator[Any]:
    """Local gradient descent of one client, of gradients at x as dissimilar as G and B say."""
    yield from dissimilar(q, 1 - q.P / q.N)


PAPER.statement("fedavg-dissimilar", **SHORT, **EVERYBODY)(dissimilar)


# --- SCAFFOLD -------------------------------------------------------------------------------------
@PAPER.statement(
    "scaffold", about=Scaffold(), states={"c_k": "N d", "c": lambda s: over_clients(s["c_k"])},
    local=GradientSteps(2, lr=lambda c: 1 / (81 * c.beta * c.E)),
    problems=StronglyConvex(4, (1, 2), mu=TENTH), sampling=Uniform(2),
)  # fmt: skip
def scaffold(q: Any) -> Iterator[Any]:
    """SCAFFOLD lowers a potential.

    Lemma 13 has E[c_k] in V. That expectation is read as one over the noise of gradients. Read as
    one over earlier cohorts, too, the lemma follows from ours for the first round alone.
    """
    h, L, times = q.eta * q.E, q.beta, q.N / q.P
    spread = (q.N - q.P) / (q.P * (q.N - 1))

    def sides(kappa_0: Any, kappa: Any, rho: Any) -> Any:
        def V(s: Any) -> Any:
            kept = q.over_clients(q.sq(s.c_k - q.gradients(q.x_star)))
            return s.distance_sq + times * kappa * kept

        return potential(q, V, lambda s: kappa_0 * h * s.gap, rho=rho)

    told = rf"\rho V-\kappa_0h(F(x)-F^*),\ {DISTANCE}{KEPT.format('c')}"
    ours = sides(2, 2 * spread * h**2 + 2 * L * h**3 / 3, 1)
    short = {"h <= 3/(5 (1 + 2 sigma) L)": 5 * (1 + 2 * spread) * h * L <= 3}
    yield holds("for every K, N and P", ours, told, OURS, needs=short)
    kappa_0, kappa = q.constant("kappa_0", 2), q.constant("kappa", Fraction(1, 1000), free=True)
    yield holds("best, rho = 1", sides(kappa_0, kappa / L**2, 1), told)
    falls = 1 - q.mu * h / 2  # where mu is 0 there is no such form
    yield holds("best", sides(kappa_0, kappa / L**2, falls), told)
    limits = {"h <= 1/(81 L)": 81 * h * L <= 1, "h <= P/(15 mu N)": 15 * q.mu * h * times <= 1}
    lemma = "Karimireddy et al. 2020, Lemma 13"
    yield holds("printed", sides(1, 9 * h**2, falls), told, lemma, needs=limits)


# --- FedProx --------------------------------------------------------------------------------------
def alike(q: Any, B: Any) -> dict[str, Any]:
    """What is needed of the clients' gradients at x."""
    bound = le(q.over_clients(q.sq(q.client_gradients)), B**2 * q.gradient_sq)
    return {"mean ||grad f_k(x)||^2 <= B^2 ||grad F(x)||^2": bound}


PROX = r"V-\kappa_0\|\nabla F(x)\|^2,\ V=F(x),\ V^+=F(\bar y)+\tfrac L2\|x^+-\bar y\|^2"


@PAPER.statement(
    "fedprox", about=method(FedProx, mu=lambda c: 12 * c.beta), problems=Smooth((1, 10), (1, 2))
)  # fmt: skip
def fedprox(q: Any) -> Iterator[Any]:
    """FedProx with exact local solves lowers F, of losses that need not be convex."""
    kappa_0 = q.constant("kappa_0", Fraction(1, 20)) / q.beta
    sides = potential(q, lambda s: s.gap, lambda s: kappa_0 * s.gradient_sq)
    told = r"V-\kappa_0\|\nabla F(x)\|^2,\ V=F(x)-F^*"
    yield holds("best", sides, told, needs=alike(q, q.constant("B", 1)))


@PAPER.statement(
    "fedprox-cohorts", about=method(FedProx, mu=lambda c: 48 * c.beta),
    problems=Smooth(10, (1, 2)), sampling=Uniform(8),
)  # fmt: skip
def fedprox_cohorts(q: Any) -> Iterator[Any]:
    """FedProx with cohorts lowers what smoothness says of E F from the mean of all solutions."""
    L, mu, K, B = q.beta, q.method.mu, q.P, q.constant("B", Fraction(3, 2))
    near, needs, mean = mu - L, alike(q, B), over_clients(q.local_models)
    after = q.value(mean) + L / 2 * q.sq(q.x_next - mean)  # at least F(x_next), in expectation
    kappa_0 = q.constant("kappa_0", Fraction(1, 100)) / L
    yield holds("best", le(after, q.F, -kappa_0 * q.gradient_sq), PROX, needs=needs)
    rho = 1 / mu - B * q.sqrt(2 / K) / near - L * B / (near * mu) - L * B**2 / (2 * near**2)
    rho = rho - L * B**2 / (near**2 * K) * (2 * q.sqrt(2 * K) + 2)
    printed = le(after, q.F, -rho * q.gradient_sq)
    about = "Li et al. 2020, Theorem 4, has these constants for E F(x+), which is at most E V+."
    yield holds(PRINTED_CONSTANTS, printed, PROX, needs=needs, note=about)


# --- EFL ------------------------------------------------------------------------------------------
@PAPER.statement(
    "efl", about=EFL(), local=GradientSteps(2, lr=lambda c: 1 / (4 * c.beta)),
    problems=StronglyConvex((1, 10), (1, 2), mu=TENTH),
)  # fmt: skip
def efl(q: Any) -> Iterator[Any]:
    """EFL's round of everybody: full gradients, no compression, frozen anchors."""
    E, L, mu, G_sq = q.E, q.beta, q.mu, q.beta**2  # of lengths the unit is G/L
    bounds = [le(q.over_clients(q.sq(gradient)), G_sq) for _, gradient in local_steps(q)]
    needs = {f"mean ||grad f_k(y_k)||^2 <= G^2 after {j} steps": of for j, of in enumerate(bounds)}
    needs |= {"eta <= 1/(4 L)": 4 * q.eta * L <= 1, "eta mu E <= 4": q.eta * mu * E <= 4}
    apart = q.F_star - q.over_clients(q.client_minima)
    B = 6 * L * E * apart + ((2 + mu / (4 * L)) * E * (E - 1) * E + 2 * E**2) * G_sq
    noise = q.constant("c", 1) * q.eta**2 * B
    sides = potential(q, distance, rho=1 - q.eta * mu * E / 4, noise=noise)
    told = rf"\rho V+c\,\eta^2B,\ {DISTANCE}"
    yield holds("one round", sides, told, "docs/efl.md", needs=needs)
