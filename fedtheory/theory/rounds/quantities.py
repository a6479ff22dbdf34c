"""The named quantities, each a function of the view: `ROUND` of one round, `RUN` of a run. Their
docstrings are what users read.

They are computed when first asked for, in floats or in fractions with the same code. `SHAPES` has
the shape of each, `LATEX` its letters. Axes: of a round (S, C), start by cohort, then vectors' d; of a run (T + 1, S),
round by scenario, then d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import Diverged, MissingCapability
from fedtheory.participation.cohorts import Cohort
from fedtheory.randomness import Stream
from fedtheory.theory.judge.record import UNKNOWN
from fedtheory.theory.rounds.forms import Undefined
from fedtheory.theory.rounds.oracles import at_once, each, everyone

__all__ = [
    "CONSTANTS", "FUNCTIONS", "LATEX", "ROUND", "RUN", "SHAPES", "Fields", "clients_of",
    "of_the_other", "sq", "told_quantities",
]  # fmt: skip

LOOKS = 25
Named = dict[str, Callable[[Any], Any]]
ROUND: Named = {}
RUN: Named = {}
SHAPES: dict[str, dict[str, str]] = {"round": {}, "run": {}}
LATEX: dict[str, dict[str, str]] = {"round": {}, "run": {}}
CONSTANTS = {
    "beta": "max_k beta_k, beta_k the smoothness of f_k (for quadratics the largest absolute "
    "curvature)",
    "mu": "min_k mu_k, mu_k the strong convexity of f_k",
    "beta_F": "smoothness of F (an upper bound where it is not known exactly)",
    "mu_F": "strong convexity of F (a lower bound where it is not known exactly)",
    "G_sq": "max_k sup ||g_k||^2 over all subgradients of f_k, where they are bounded",
    "N": "number of clients",
    "P": "clients in a cohort (N where all take part)",
    "d": "dimension",
    "E": "local steps",
    "eta": "the local step size",
}
FUNCTIONS = {
    "constant(name, value)": "a constant of the bound, declared so that a study can ask how far it "
    "may be tightened",
    "mean(v)": "the expectation over the cohorts",
    "sq(v)": "||v||^2 along the last axis",
    "dot(v, w)": "<v, w> along the last axis",
    "sqrt(v)": "the square root (in fractions only where it is one)",
    "power(base, t)": "base ** t for whole t, entry by entry",
    "value(x)": "F at any points",
    "over_clients(v)": "the mean over the clients, along the last axis",
    "values(x)": "f_k of every client at any points",
    "gradients(x)": "grad f_k of every client at any points",
    "gradients_each(y)": "grad f_k(y_k) at a point for each client",
    "rounding(v)": "by how much floats may miss numbers of the size of v: for noise=... of a side",
    "gap_at(x)": "F - F* at any points",
    "method": "the method with its hyperparameters, q.method.alpha",
}


def _quantity(
    of_round: str = "", of_run: str = "", latex: str = ""
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Add a function of the view, whose name (without a last '_') and docstring are the quantity's.

    Parameters
    ----------
    of_round, of_run : its shape in a round and in a run; '' where it has none there
    latex : with <x> for the model, <before> for that of the round before, <t> for its number
    """

    def add(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        for over, table, shape in (("round", ROUND, of_round), ("run", RUN, of_run)):
            if shape:
                table[function.__name__.rstrip("_")] = function
                SHAPES[over][function.__name__.rstrip("_")] = shape
                LATEX[over][function.__name__.rstrip("_")] = latex
        return function

    return add


def of_the_other(name: str, over_run: bool) -> str:
    """Say what to take in place of a quantity that only rounds have, or only runs; '' for a name that neither has."""
    own, other = (RUN, ROUND) if over_run else (ROUND, RUN)
    if name in own or name not in other:
        return ""
    if not over_run:
        has = "'F' before the round and 'F_next' after it"
        return f"{name!r} is a quantity of a run; a round has {has}: declare over='run' for more rounds"
    before = name.removesuffix("_next").replace("_next_", "_")
    if before == name or before not in RUN:
        return f"{name!r} is a quantity of a round, and a run has none of it: declare over='round'"
    return (
        f"{name!r} is a quantity of a round; a run has q.{before}[t] for t = 0..T: the round after t goes from "
        f"q.{before}[t] to q.{before}[t + 1], and q.{before}[1:] is after each of its rounds"
    )


def sq(v: Any) -> Any:
    """||v||^2 along the last axis."""
    return (v * v).sum(axis=-1)


# --- of both --------------------------------------------------------------------------------------------------------------
@_quantity(of_round="(d,)", of_run="(d,)", latex="x^*")
def x_star(q: Any) -> Any:
    """x*, the minimiser of F; where there are several, the one nearest to the start. Of a nonconvex F
    it must be the only one."""
    if not q._best.unique:
        raise Undefined("F is not convex and has several minimisers: which of them x* is, is not said")
    return q._best.x


@_quantity(of_round="()", of_run="()", latex="F^*")
def F_star(q: Any) -> Any:
    """F* = F(x*)."""
    return q._least(q.F if q.corner[0] else None)


@_quantity(of_round="()", of_run="()", latex=r"\sum_k w_k\|\nabla f_k(x^*)\|^2")
def heterogeneity(q: Any) -> Any:
    """sum_k w_k ||grad f_k(x*)||^2."""
    return (q.world.weights * sq(q.world.gradients(q.x_star))).sum(axis=-1)


@_quantity(of_round="(S, 1)", of_run="(T + 1, S)", latex="F(<x>)")
def F(q: Any) -> Any:
    """F(x) before the round; of a run F(x_t) for t = 0..T."""
    return q.value(q.x)


@_quantity(of_round="(S, 1)", of_run="(T + 1, S)", latex="F(<x>)-F^*")
def gap(q: Any) -> Any:
    """F(x) - F*; of a run F(x_t) - F* for t = 0..T."""
    return q.F - q.F_star


@_quantity(of_round="(S, 1, d)", of_run="(T + 1, S, d)", latex=r"\nabla F(<x>)")
def gradient(q: Any) -> Any:
    """grad F(x)."""
    return (q.world.weights[:, None] * q.client_gradients).sum(axis=-2)


@_quantity(of_round="(S, 1)", of_run="(T + 1, S)", latex=r"\|\nabla F(<x>)\|^2")
def gradient_sq(q: Any) -> Any:
    """||grad F(x)||^2."""
    return sq(q.gradient)


@_quantity(of_round="(S, 1, N, d)", of_run="(T + 1, S, N, d)", latex=r"\nabla f_k(<x>)")
def client_gradients(q: Any) -> Any:
    """grad f_k(x), with the clients on the axis before the last."""
    return q.world.gradients(q.x)


@_quantity(
    of_round="(S, 1)", of_run="(T + 1, S)", latex=r"\sum_k w_k\|\nabla f_k(<x>)-\nabla F(<x>)\|^2"
)
def dissimilarity(q: Any) -> Any:
    """sum_k w_k ||grad f_k(x) - grad F(x)||^2."""
    return (q.world.weights * sq(q.client_gradients - q.gradient[..., None, :])).sum(axis=-1)


@_quantity(of_round="(S, 1)", of_run="(T + 1, S)", latex=r"\|<x>-x^*\|^2")
def distance_sq(q: Any) -> Any:
    """||x - x*||^2; of a run ||x_t - x*||^2 for t = 0..T."""
    return q._distance_sq(q.x)


@_quantity(of_round="(N,)", of_run="(N,)", latex="w_k")
def weights(q: Any) -> Any:
    """w_k of every client."""
    return q.world.weights


# --- of one round: (S, 1) before it, (S, C) after it ------------------------------------------------------------------------
@_quantity(of_round="(S, 1, d)", latex="<x>")
def x(q: Any) -> Any:
    """The server's model before the round."""
    return q._before.x[:, None, :]


@_quantity(of_round="(S, C, d)", latex="x^+")
def x_next(q: Any) -> Any:
    """The server's model after it, for every cohort."""
    return q._fold(q._after.x)


@_quantity(of_round="(S, C)", latex="F(x^+)")
def F_next(q: Any) -> Any:
    """F(x_next)."""
    return q.value(q.x_next)


@_quantity(of_round="(S, C)", latex="F(x^+)-F^*")
def gap_next(q: Any) -> Any:
    """F(x_next) - F*."""
    return q.F_next - q.F_star


@_quantity(of_round="(S, C, d)", latex=r"\nabla F(x^+)")
def gradient_next(q: Any) -> Any:
    """grad F(x_next)."""
    return (q.world.weights[:, None] * q.world.gradients(q.x_next)).sum(axis=-2)


@_quantity(of_round="(S, C)", latex=r"\|\nabla F(x^+)\|^2")
def gradient_next_sq(q: Any) -> Any:
    """||grad F(x_next)||^2."""
    return sq(q.gradient_next)


@_quantity(of_round="(S, C)", latex=r"\|x^+-x^*\|^2")
def distance_sq_next(q: Any) -> Any:
    """||x_next - x*||^2."""
    return q._distance_sq(q.x_next)


@_quantity(of_round="(S, C)", latex=r"\|x^+-x\|^2")
def moved_sq(q: Any) -> Any:
    """||x_next - x||^2."""
    return sq(q.x_next - q.x)


@_quantity(of_round="(S, C, P, d)", latex="y_k")
def client_models(q: Any) -> Any:
    """The clients' models after the last local minimisation of the round, for every cohort."""
    return q._fold(_models(q._clients, "client_models"))


def _models(clients: Any, name: str) -> Any:
    """The clients' models after the last local minimisation of a round, which a quantity needs."""
    if not clients.results:
        raise MissingCapability(f"{name}: this method asks its clients for no local minimisation")
    return clients.results[-1].y


@_quantity(of_round="(S, 1, N, d)", latex=r"\tilde y_k")
def local_models(q: Any) -> Any:
    """The local models of all clients from the state before the round, in the cohort
    or not."""
    return q.near(q.x[:, :, None], _local_moves(q, [q._before], [1])[0][:, None])


@_quantity(of_run="(T, S, P, d)", latex="y_k")
def client_models_(q: Any) -> Any:
    """The clients' models after the last local minimisation of rounds 1..T: of the cohort, over
    which a mean is that over all on average; of a run of anyone's those of all."""
    if not q.path.alike:
        return q.local_models
    moved = _by_rounds(q, "client_models", lambda c, s: c.results[-1].y - s.x[:, None])
    return q.x[:-1, :, None] + moved


@_quantity(of_run="(T, S, P, d)", latex=r"\nabla f_k(y_k)")
def client_slopes(q: Any) -> Any:
    """grad f_k at client_models."""
    if not q.path.alike:
        return q.gradients_each(q.client_models)
    return _by_rounds(q, "client_slopes", lambda c, s: c.gradient(c.results[-1].y))


@_quantity(of_run="(T, S, P, ...)")
def client_state(q: Any) -> Any:
    """What the method keeps of each client, before rounds 1..T, of the clients of client_models."""
    if not q.path.alike:
        return Fields(lambda name: getattr(q.state, name)[:-1])
    return Fields(lambda name: _by_rounds(q, name, lambda c, s: c.take(getattr(s, name))))


def _by_rounds(q: Any, name: str, of: Callable[[Any, Any], Any]) -> Any:
    """A function of each round's clients, and of the state before it: (T, S, ...); found once, also
    for a view that is moved a little."""
    if name not in q._solved:
        for clients in q.path.clients:
            _models(clients, name)
        rounds = zip(q.path.clients, q.path.states, q.path.alike[1:], strict=False)
        found = ((of(c, each(s, lambda v: v[::n])), n) for c, s, n in rounds)  # noqa: B023
        q._solved[name] = np.stack([np.repeat(v, n, axis=0) for v, n in found])
    return q._solved[name]


class Fields:
    """Arrays by name, each made when it is first asked for."""

    def __init__(self, of: Callable[[str], Any]) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, self._of(name))


@_quantity(of_run="(T, S, N, d)", latex=r"\tilde y_k")
def local_models_(q: Any) -> Any:
    """The local models of all clients from the states before rounds 1..T, in the cohort or not."""
    return q.x[:-1, :, None] + _local_moves(q, q.path.states[:-1], q.path.alike)


def _local_moves(q: Any, states: Sequence[Any], alike: Sequence[int]) -> Any:
    """By how much all clients, in the cohort or not, move from every state (t, S, N, d): found
    once, also for a view that is moved a little, where a model that rests goes on to rest."""
    if "moves" not in q._solved:
        found = at_once(lambda state: _of_everyone(q, state), states, alike)
        q._solved["moves"] = np.stack([state.x for state in found])
    return q._solved["moves"]


def clients_of(q: Any, x: Any, cohort: Cohort | None = None, t: int = 1) -> Any:
    """The clients of round t from models x (S, d), by default all of them."""
    work = {k: q.facts[k] for k in ("E", "eta") if k in q.facts}
    cohort = everyone(q.world.num_clients, len(x)) if cohort is None else cohort
    return q.world.clients(cohort, work, x, Stream(0), t)


def _of_everyone(q: Any, state: Any) -> Any:
    """A state whose x is by how much each client moves (S, N, d) where all take part."""
    clients = clients_of(q, state.x)
    try:
        q.method.round(state, clients)
    except Diverged as error:
        unknown = any(np.isnan(v).any() for v in state if v is not None)
        if unknown and np.isfinite(state.x).all():
            raise MissingCapability(f"local_models: {UNKNOWN}") from error
        raise
    moves = _models(clients, "local_models") - state.x[:, None]
    return each(state, lambda v: None)._replace(x=moves)


@_quantity(of_round="(S, C, N)")
def members(q: Any) -> Any:
    """1 where a client takes part, else 0."""
    return q._fold(q._clients.cohort.taking_part().astype(int))


@_quantity(of_round="(S, C)", latex=r"\frac1P\sum_k\|y_k-x\|^2")
def drift(q: Any) -> Any:
    """Mean over the cohort of ||y_k - x||^2, y_k the clients' models."""
    moved = sq(_models(q._clients, "drift") - q._before_each.x[:, None, :])
    return q._fold(q._clients.mean(moved[..., None])[..., 0])


@_quantity(of_round="(S, 1, ...)")
def state(q: Any) -> Any:
    """The method's whole state before the round: arrays by name."""
    return Fields(lambda name: getattr(q._before, name)[:, None])


@_quantity(of_round="(S, C, ...)")
def state_next(q: Any) -> Any:
    """The method's whole state after it: arrays by name."""
    return Fields(lambda name: q._fold(getattr(q._after, name)))


# --- of a run: (T + 1, S) ---------------------------------------------------------------------------------------------------
@_quantity(of_run="(T + 1, S, d)", latex="<x>")
def x_(q: Any) -> Any:
    """The server's models x_0..x_T."""
    return np.stack([s.x for s in q.path.states])


@_quantity(of_run="(T + 1, S, ...)")
def state_(q: Any) -> Any:
    """The method's whole states 0..T: arrays by name."""
    return Fields(lambda name: np.stack([getattr(s, name) for s in q.path.states]))


@_quantity(of_run="(T + 1, 1)", latex="<t>")
def t(q: Any) -> Any:
    """The number of rounds made, 0..T."""
    count = np.arange(len(q.path.states))
    exact = np.array([Fraction(int(v)) for v in count], dtype=object)
    return (exact if q.rational else count.astype(float))[:, None]


@_quantity(of_run="(K,)")
def horizons(q: Any) -> Any:
    """The rounds at which a bound for every horizon is looked at: 1..T, of draws about 25 of these."""
    last = len(q.path.states) - 1
    some = np.geomspace(1, last, min(LOOKS, last)) if q.sampled and q.path.alike else range(1, last + 1)
    return np.unique(np.round(some).astype(int))


@_quantity(of_run="(T + 1, S, d)", latex=r"\bar x_<t>")
def average_x(q: Any) -> Any:
    """The mean of x_1..x_t; x_0 for t = 0."""
    total = np.cumsum(q.x[1:], axis=0) / q.t[1:, :, None]
    return np.concatenate([q.x[:1], total])


@_quantity(of_run="(T + 1, S)", latex=r"F(\bar x_<t>)-F^*")
def average_gap(q: Any) -> Any:
    """F(average_x) - F*."""
    return q.gap_at(q.average_x)


@_quantity(of_run="(T + 1, S)", latex=r"\min_{s\le <t>}F(x_s)-F^*")
def best_gap(q: Any) -> Any:
    """The least of gap[0..t]."""
    return np.minimum.accumulate(q.gap, axis=0)


@_quantity(of_run="(T, S)", latex=r"\|<x>-<before>\|^2")
def moved_sq_(q: Any) -> Any:
    """||x_t - x_(t-1)||^2 for t = 1..T."""
    return sq(q.x[1:] - q.x[:-1])


@_quantity(of_run="(T, S)", latex=r"\frac1P\sum_k\|y_k-<before>\|^2")
def drift_(q: Any) -> Any:
    """Of rounds 1..T the mean over the cohort of ||y_k - x_(t-1)||^2."""
    def of(c: Any, s: Any) -> Any:
        return c.mean(sq(c.results[-1].y - s.x[:, None])[..., None])[..., 0]

    return _by_rounds(q, "drift", of)


def told_quantities(over: str) -> dict[str, str]:
    """Every quantity by name, in words; 'run' or another scope."""
    table = RUN if over == "run" else ROUND
    first = {name: " ".join((function.__doc__ or "").split()) for name, function in table.items()}
    return {
        **first,
        **CONSTANTS,
        **({"T": "rounds of the run"} if over == "run" else {}),
        **FUNCTIONS,
    }
