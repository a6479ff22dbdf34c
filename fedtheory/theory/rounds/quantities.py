"""The named quantities of a view: `ROUND` of one round, `RUN` of a run.

They are computed when first asked for, in floats or in fractions with the same code. Axes: of a
round (S, C), start by cohort, then vectors' d; of a run (T + 1, S), round by scenario, then d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fedtheory.errors import Diverged, MissingCapability
from fedtheory.participation.cohorts import Cohort
from fedtheory.randomness import Stream
from fedtheory.theory.judge.record import UNKNOWN
from fedtheory.theory.rounds.forms import Undefined
from fedtheory.theory.rounds.oracles import at_once, each, everyone

__all__ = [
    "CONSTANTS", "FUNCTIONS", "ROUND", "RUN", "Fields", "Quantity", "clients_of", "of_the_other",
    "sq", "told_quantities",
]  # fmt: skip

LOOKS = 25


class Quantity(NamedTuple):
    """A named quantity.

    Attributes
    ----------
    words : what users read of it
    of : callable(view) -> its value
    shape : its axes
    latex : with <x> for the model, <before> for that of the round before, <t> for its number
    """

    words: str
    of: Callable[[Any], Any]
    shape: str
    latex: str = ""


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
    "constant(name, "
    "value, free=False)": "a constant of the bound, declared so that a study can ask how far it "
    "may be tightened; a free one stands for some number >= 0, which a proof chooses",
    "mean(v)": "the expectation over the cohorts", "sq(v)": "||v||^2 along the last axis",
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


def of_the_other(name: str, over_run: bool) -> str:
    """Say what to take in place of a quantity that only rounds have, or only runs; '' for a name
    that neither has."""
    own, other = (RUN, ROUND) if over_run else (ROUND, RUN)
    if name in own or name not in other:
        return ""
    if not over_run:
        has = "'F' before the round and 'F_next' after it"
        return (
            f"{name!r} is a quantity of a run; a round has {has}: declare "
            "over='run' for more rounds"
        )
    before = name.removesuffix("_next").replace("_next_", "_")
    if before == name or before not in RUN:
        return f"{name!r} is a quantity of a round, and a run has none of it: declare over='round'"
    return (
        f"{name!r} is a quantity of a round; a run has q.{before}[t] for t = 0..T: the round "
        f"after t goes from q.{before}[t] to q.{before}[t + 1], and q.{before}[1:] is after "
        "each of its rounds"
    )


def sq(v: Any) -> Any:
    """||v||^2 along the last axis."""
    return (v * v).sum(axis=-1)


# --- of both --------------------------------------------------------------------------------------
def _x_star(q: Any) -> Any:
    if not q._best.unique:
        raise Undefined(
            "F is not convex and has several minimisers: which of them x* is, is not said"
        )
    return q._best.x


def _dissimilarity(q: Any) -> Any:
    return (q.world.weights * sq(q.client_gradients - q.gradient[..., None, :])).sum(axis=-1)


def _mean_gradient(q: Any, gradients: Any) -> Any:
    return (q.world.weights[:, None] * gradients).sum(axis=-2)


_BOTH: dict[str, tuple[str, Callable[[Any], Any], str, str, str]] = {  # shapes in a round, in a run
    "x_star": (
        "x*, the minimiser of F; where there are several, the one nearest to the start. Of a "
        "nonconvex F it must be the only one.",
        _x_star, "(d,)", "(d,)", "x^*",
    ),
    "F_star": ("F* = F(x*).", lambda q: q._least(q.F if q.corner[0] else None), "()", "()", "F^*"),
    "heterogeneity": (
        "sum_k w_k ||grad f_k(x*)||^2.",
        lambda q: (q.world.weights * sq(q.world.gradients(q.x_star))).sum(axis=-1),
        "()", "()", r"\sum_k w_k\|\nabla f_k(x^*)\|^2",
    ),
    "client_minima": (
        "min f_k of every client.", lambda q: q.world.minima, "(N,)", "(N,)", r"\min f_k",
    ),
    "F": (
        "F(x) before the round; of a run F(x_t) for t = 0..T.", lambda q: q.value(q.x),
        "(S, 1)", "(T + 1, S)", "F(<x>)",
    ),
    "gap": (
        "F(x) - F*; of a run F(x_t) - F* for t = 0..T.", lambda q: q.F - q.F_star,
        "(S, 1)", "(T + 1, S)", "F(<x>)-F^*",
    ),
    "gradient": (
        "grad F(x).", lambda q: _mean_gradient(q, q.client_gradients),
        "(S, 1, d)", "(T + 1, S, d)", r"\nabla F(<x>)",
    ),
    "gradient_sq": (
        "||grad F(x)||^2.", lambda q: sq(q.gradient),
        "(S, 1)", "(T + 1, S)", r"\|\nabla F(<x>)\|^2",
    ),
    "client_gradients": (
        "grad f_k(x), with the clients on the axis before the last.",
        lambda q: q.world.gradients(q.x), "(S, 1, N, d)", "(T + 1, S, N, d)", r"\nabla f_k(<x>)",
    ),
    "dissimilarity": (
        "sum_k w_k ||grad f_k(x) - grad F(x)||^2.", _dissimilarity,
        "(S, 1)", "(T + 1, S)", r"\sum_k w_k\|\nabla f_k(<x>)-\nabla F(<x>)\|^2",
    ),
    "distance_sq": (
        "||x - x*||^2; of a run ||x_t - x*||^2 for t = 0..T.", lambda q: q._distance_sq(q.x),
        "(S, 1)", "(T + 1, S)", r"\|<x>-x^*\|^2",
    ),
    "weights": ("w_k of every client.", lambda q: q.world.weights, "(N,)", "(N,)", "w_k"),
}
ROUND = {
    name: Quantity(words, of, own, latex) for name, (words, of, own, _, latex) in _BOTH.items()
}
RUN = {name: Quantity(words, of, own, latex) for name, (words, of, _, own, latex) in _BOTH.items()}


# --- the clients ----------------------------------------------------------------------------------
def _models(clients: Any, name: str) -> Any:
    """The clients' models after the last local minimisation of a round, which a quantity needs."""
    if not clients.results:
        raise MissingCapability(f"{name}: this method asks its clients for no local minimisation")
    return clients.results[-1].y

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
    """Arrays by name, as attributes or in brackets, each made when it is first asked for."""

    def __init__(self, of: Callable[[str], Any]) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, self._of(name))

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def _local_moves(q: Any, states: Sequence[Any], alike: Sequence[int]) -> Any:
    """By how much all clients, in the cohort or not, move from every state (t, S, N, d): found
    once, also for a view that is moved a little, where a model that rests goes on to rest."""
    if "moves" not in q._solved:
        if q.vectors:  # one model at a time
            found = [_of_everyone(q, state) for state in states]
        else:
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


# --- of one round: (S, 1) before it, (S, C) after it ----------------------------------------------
def _drift(q: Any) -> Any:
    moved = sq(_models(q._clients, "drift") - q._before_each.x[:, None, :])
    return q._fold(q._clients.mean(moved[..., None])[..., 0])


ROUND |= {
    "x": Quantity(
        "The server's model before the round.", lambda q: q._before.x[:, None, :],
        "(S, 1, d)", "<x>",
    ),
    "x_next": Quantity(
        "The server's model after it, for every cohort.", lambda q: q._fold(q._after.x),
        "(S, C, d)", "x^+",
    ),
    "F_next": Quantity("F(x_next).", lambda q: q.value(q.x_next), "(S, C)", "F(x^+)"),
    "gap_next": Quantity("F(x_next) - F*.", lambda q: q.F_next - q.F_star, "(S, C)", "F(x^+)-F^*"),
    "gradient_next": Quantity(
        "grad F(x_next).", lambda q: _mean_gradient(q, q.world.gradients(q.x_next)),
        "(S, C, d)", r"\nabla F(x^+)",
    ),
    "gradient_next_sq": Quantity(
        "||grad F(x_next)||^2.", lambda q: sq(q.gradient_next), "(S, C)", r"\|\nabla F(x^+)\|^2"
    ),
    "distance_sq_next": Quantity(
        "||x_next - x*||^2.", lambda q: q._distance_sq(q.x_next), "(S, C)", r"\|x^+-x^*\|^2"
    ),
    "moved_sq": Quantity(
        "||x_next - x||^2.", lambda q: sq(q.x_next - q.x), "(S, C)", r"\|x^+-x\|^2"
    ),
    "client_models": Quantity(
        "The clients' models after the last local minimisation of the round, for every cohort.",
        lambda q: q._fold(_models(q._clients, "client_models")), "(S, C, P, d)", "y_k",
    ),
    "local_models": Quantity(
        "The local models of all clients from the state before the round, in the cohort or not.",
        lambda q: q.near(q.x[:, :, None], _local_moves(q, [q._before], [1])[0][:, None]),
        "(S, 1, N, d)", r"\tilde y_k",
    ),
    "members": Quantity(
        "1 where a client takes part, else 0.",
        lambda q: q._fold(q._clients.cohort.taking_part().astype(int)), "(S, C, N)",
    ),
    "drift": Quantity(
        "Mean over the cohort of ||y_k - x||^2, y_k the clients' models.", _drift,
        "(S, C)", r"\frac1P\sum_k\|y_k-x\|^2",
    ),
    "state": Quantity(
        "The method's whole state before the round: arrays by name.",
        lambda q: Fields(lambda name: getattr(q._before, name)[:, None]), "(S, 1, ...)",
    ),
    "state_next": Quantity(
        "The method's whole state after it: arrays by name.",
        lambda q: Fields(lambda name: q._fold(getattr(q._after, name))), "(S, C, ...)",
    ),
}  # fmt: skip


# --- of a run: (T + 1, S) -------------------------------------------------------------------------
def _client_models(q: Any) -> Any:
    if not q.path.alike:
        return q.local_models
    moved = _by_rounds(q, "client_models", lambda c, s: c.results[-1].y - s.x[:, None])
    return q.x[:-1, :, None] + moved


def _client_slopes(q: Any) -> Any:
    if not q.path.alike:
        return q.gradients_each(q.client_models)
    return _by_rounds(q, "client_slopes", lambda c, s: c.gradient(c.results[-1].y))


def _client_state(q: Any) -> Any:
    if not q.path.alike:
        return Fields(lambda name: getattr(q.state, name)[:-1])
    return Fields(lambda name: _by_rounds(q, name, lambda c, s: c.take(getattr(s, name))))


def _numbers(q: Any) -> Any:
    count = np.arange(len(q.path.states))
    exact = np.array([Fraction(int(v)) for v in count], dtype=object)
    return (exact if q.rational else count.astype(float))[:, None]


def _horizons(q: Any) -> Any:
    last = len(q.path.states) - 1
    drawn = q.sampled and q.path.alike
    some = np.geomspace(1, last, min(LOOKS, last)) if drawn else range(1, last + 1)
    return np.unique(np.round(some).astype(int))


def _drifts(q: Any) -> Any:
    def of(c: Any, s: Any) -> Any:
        return c.mean(sq(c.results[-1].y - s.x[:, None])[..., None])[..., 0]

    return _by_rounds(q, "drift", of)


def _average(q: Any) -> Any:
    return np.concatenate([q.x[:1], np.cumsum(q.x[1:], axis=0) / q.t[1:, :, None]])


RUN |= {
    "client_models": Quantity(
        "The clients' models after the last local minimisation of rounds 1..T: of the cohort, over "
        "which a mean is that over all on average; of a run of anyone's those of all.",
        _client_models, "(T, S, P, d)", "y_k",
    ),
    "client_slopes": Quantity(
        "grad f_k at client_models.", _client_slopes, "(T, S, P, d)", r"\nabla f_k(y_k)"
    ),
    "client_state": Quantity(
        "What the method keeps of each client, before rounds 1..T, of the clients "
        "of client_models.",
        _client_state, "(T, S, P, ...)",
    ),
    "local_models": Quantity(
        "The local models of all clients from the states before rounds 1..T, in the cohort or not.",
        lambda q: q.x[:-1, :, None] + _local_moves(q, q.path.states[:-1], q.path.alike),
        "(T, S, N, d)", r"\tilde y_k",
    ),
    "x": Quantity(
        "The server's models x_0..x_T.", lambda q: np.stack([s.x for s in q.path.states]),
        "(T + 1, S, d)", "<x>",
    ),
    "state": Quantity(
        "The method's whole states 0..T: arrays by name.",
        lambda q: Fields(lambda name: np.stack([getattr(s, name) for s in q.path.states])),
        "(T + 1, S, ...)",
    ),
    "t": Quantity("The number of rounds made, 0..T.", _numbers, "(T + 1, 1)", "<t>"),
    "horizons": Quantity(
        "The rounds at which a bound for every horizon is looked at: 1..T, of draws about 25 of "
        "these.",
        _horizons, "(K,)",
    ),
    "average_x": Quantity(
        "The mean of x_1..x_t; x_0 for t = 0.", _average, "(T + 1, S, d)", r"\bar x_<t>"
    ),
    "average_gap": Quantity(
        "F(average_x) - F*.", lambda q: q.gap_at(q.average_x),
        "(T + 1, S)", r"F(\bar x_<t>)-F^*",
    ),
    "best_gap": Quantity(
        "The least of gap[0..t].", lambda q: np.minimum.accumulate(q.gap, axis=0),
        "(T + 1, S)", r"\min_{s\le <t>}F(x_s)-F^*",
    ),
    "moved_sq": Quantity(
        "||x_t - x_(t-1)||^2 for t = 1..T.", lambda q: sq(q.x[1:] - q.x[:-1]),
        "(T, S)", r"\|<x>-<before>\|^2",
    ),
    "drift": Quantity(
        "Of rounds 1..T the mean over the cohort of ||y_k - x_(t-1)||^2.", _drifts,
        "(T, S)", r"\frac1P\sum_k\|y_k-<before>\|^2",
    ),
}  # fmt: skip


def told_quantities(over: str) -> dict[str, str]:
    """Every quantity by name, in words; 'run' or another scope."""
    own = {name: one.words for name, one in (RUN if over == "run" else ROUND).items()}
    more = {"T": "rounds of the run"} if over == "run" else {}
    return own | CONSTANTS | more | FUNCTIONS
