"""The methods as plain NumPy loops, a client at a time, and the mistakes that are made in them.

Each method is a function ``round(state, clients, cohort, settings, wrong)``. A state is a dict of
arrays: the server model ``x`` (d,), and what the method keeps, with one row a client where clients
keep it. ``wrong(name)`` says whether the mistake of that name is to be made;
`fedtheory.testing.audit.mistakes` has them in words. Nothing here is shared with
`fedtheory.algorithms`, so that the two check each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedtheory.testing.audit.clients import Client, Task
from fedtheory.testing.audit.parts import Faults, State, mean_of, put, work
from fedtheory.testing.audit.reference_controls import scaffold
from fedtheory.testing.audit.reference_more import elastic_aggregation, fedgate, mime
from fedtheory.testing.audit.wrong_losses import mistaken

__all__ = ["init", "rounds_of", "run", "states_of"]


def states_of(method: str, task: Task, wrong: frozenset[str] = frozenset()) -> Iterator[State]:
    """The states of the reference one by one, the first one included."""
    state, clients, one_round = init(method, task), mistaken(task.clients, wrong), rounds_of(method)
    yield state
    for cohort in task.cohorts:
        with np.errstate(all="ignore"):  # a mistake may make a run diverge
            state = one_round(dict(state), clients, cohort, task.settings, wrong.__contains__)
        yield state


def run(method: str, task: Task, wrong: frozenset[str] = frozenset()) -> list[State]:
    """The states of the reference, the first one included."""
    return list(states_of(method, task, wrong))


def init(method: str, task: Task) -> State:
    """The first state: nothing is known but the start, unless the task says otherwise."""
    x, shape = task.start.astype(float), (len(task.clients), len(task.start))
    state: State = {"x": x.copy(), "y": np.tile(x, (len(task.clients), 1))}
    for name in KEPT[method]:
        state[name] = np.zeros(shape if name.endswith("_k") else len(x))
    if task.settings.get("option") == "v-from-tau":
        state["v"] = np.full(len(x), task.settings["tau"] ** 2)
    state.update({name: np.array(value, dtype=float) for name, value in (task.state or {}).items()})
    return state


def rounds_of(method: str) -> Callable[[State, Sequence[Client], Sequence[int], Mapping[str, Any], Faults], State]:
    """The round of a method by its name."""
    return {
        "fedavg": _fedavg, "fedprox": _fedprox, "scaffold": scaffold, "feddyn": _feddyn,
        "fedelasticnet-prox": _fedprox, "fedelasticnet-scaffold": scaffold,
        "fedelasticnet-dyn": _feddyn, "mime": mime, "fedgate": fedgate, "vrl-sgd": fedgate,
        "elastic-aggregation": elastic_aggregation, "fedavgm": _fedopt, "fedadagrad": _fedopt,
        "fedadam": _fedopt, "fedyogi": _fedopt,
    }[method]


KEPT = {
    "fedavg": (), "fedprox": (), "scaffold": ("c", "c_k"), "feddyn": ("h", "h_k"),
    "fedelasticnet-prox": (), "fedelasticnet-scaffold": ("c", "c_k"),
    "fedelasticnet-dyn": ("h", "h_k"), "mime": ("s",), "fedgate": ("d_k",), "vrl-sgd": ("d_k",),
    "elastic-aggregation": (), "fedavgm": ("m",), "fedadagrad": ("m", "v"), "fedadam": ("m", "v"),
    "fedyogi": ("m", "v"),
}


def _fedavg(
    state: State, clients: Sequence[Client], cohort: Sequence[int], settings: Mapping[str, Any], wrong: Faults
) -> State:
    """McMahan et al. 2017: x + eta_g sum_k (n_k/n) (y_k - x) over the cohort."""
    y = work(state, clients, cohort, np.zeros((len(cohort), len(state["x"]))), settings, wrong)
    step = mean_of(y - state["x"], clients, cohort, settings, wrong, "examples")
    step = step + state["x"] if wrong("model-added") else step
    rate = settings.get("server_lr", 1.0)
    return {
        **state,
        "x": state["x"] + (-rate if wrong("server-sign") else rate) * step,
        "y": put(state["y"], cohort, y),
    }


# The penalty is in the local work. Li et al.'s Algorithm 2 draws clients by their weights and takes
# a plain mean; FedElasticNet's Algorithm 1 sums n_k/n over the cohort, n that of all clients:
# `weighting` has both.
_fedprox = _fedavg


def _feddyn(
    state: State, clients: Sequence[Client], cohort: Sequence[int], settings: Mapping[str, Any], wrong: Faults
) -> State:
    """Acar et al. 2021, Algorithm 1; with l1 FedElasticNet's Algorithm 3 under its sign rule.

    The printed bracket of h can be read as (sum of y) - x; here x is taken from each y, which alone
    keeps h the mean of the h_k.
    """
    x, alpha, l1 = state["x"], settings["alpha"], settings.get("l1", 0.0)
    h_k = state["h_k"][list(cohort)]
    linear = h_k if wrong("linear-sign") else 0 * h_k if wrong("linear-none") or wrong("local-plain") else -h_k
    linear = linear / settings["learning_rate"] if wrong("linear-without-rate") else linear
    y = work(state, clients, cohort, linear, {**settings, "mu": alpha}, wrong)
    x = state["x"]  # which is another one where clients work on the server's own
    move = y - x
    slope = alpha * move + (0.0 if wrong("l1-not-stored") else l1) * np.sign(move)
    if wrong("alpha-not-stored"):
        slope = move
    kept = h_k + slope if wrong("h_k-sign") else h_k - slope
    if wrong("h_k-replaced"):
        kept = -slope
    sizes = np.array([c.num_examples for c in clients], dtype=float)
    by_examples = sizes[list(cohort), None] * len(clients) / sizes.sum()
    share = by_examples if wrong("h-by-examples") else 1.0
    served = share * alpha * move + (0.0 if wrong("l1-not-in-h") else l1) * np.sign(move)
    many = len(cohort) if wrong("h-over-cohort") else 1 if wrong("h-not-divided") else len(clients)
    change = served.sum(axis=0) / many
    if wrong("h-of-models"):
        change = alpha / many * (y.sum(axis=0) - x)
    if wrong("h-without-alpha"):
        change = change / alpha
    h = state["h"] + change if wrong("h-sign") else state["h"] - change
    h = state["h"] if wrong("h-never-updated") else -change if wrong("h-replaced") else h
    used = state["h"] if wrong("h-late") else 0 * h if wrong("h-unused") else h
    used = kept.mean(axis=0) if wrong("h-of-cohort") else used
    over = 1.0 if wrong("h-not-over-alpha") else alpha
    mean = x + mean_of(move, clients, cohort, settings, wrong)
    moved_to = mean + used / over if wrong("h-added") else mean - used / over
    if wrong("h_k-at-new-x"):
        kept = h_k - alpha * (y - moved_to) - l1 * np.sign(y - moved_to)
    return {
        "x": moved_to, "y": put(state["y"], cohort, y), "h": h,
        "h_k": state["h_k"] if wrong("h_k-never-updated") else put(state["h_k"], cohort, kept),
    }


def _fedopt(
    state: State, clients: Sequence[Client], cohort: Sequence[int], settings: Mapping[str, Any], wrong: Faults
) -> State:
    """Reddi et al. 2021, Algorithm 2, without the correction for the first rounds; FedAvgM of Hsu
    et al. 2019.

    Algorithm 2 prints a plain mean over the cohort, and any first v >= tau^2. Here the mean is that
    of ``weighting``, and v begins at 0, as code commonly has it, or with option 'v-from-tau' at
    tau^2. With option 'v-of-momentum' v is made of m^2.
    """
    y = work(state, clients, cohort, np.zeros((len(cohort), len(state["x"]))), settings, wrong)
    move = mean_of(y - state["x"], clients, cohort, settings, wrong, "examples")
    move = move + state["x"] if wrong("model-added") else move
    move = -move if wrong("server-sign") else move
    rate = 1.0 if wrong("server-lr-ignored") else settings.get("server_lr", 1.0)
    rate = rate**2 if wrong("server-lr-squared") else rate
    kind, beta1 = settings["server"], settings["beta1"]
    new: State = {**state, "y": put(state["y"], cohort, y)}
    if kind == "fedavgm":
        new["m"] = beta1 * state["m"] + (move if not wrong("momentum-damped") else (1 - beta1) * move)
        new["m"] = move if wrong("momentum-none") else new["m"]
        new["x"] = state["x"] + rate * new["m"]
        return new
    beta2, tau = settings.get("beta2", 0.0), settings["tau"]
    m = beta1 * state["m"] + (1.0 if wrong("momentum-undamped") else 1 - beta1) * move
    first = wrong("momentum-first") and not state.get("t", 0)
    m = move if wrong("momentum-none") or first else m
    of_momentum = wrong("square-of-momentum") or settings.get("option") == "v-of-momentum"
    square = move if wrong("square-missing") else m**2 if of_momentum else move**2
    old = state["v"]
    if wrong("v-from-tau") and not state.get("t", 0) and not old.any():
        old = old + tau**2
    v = _second_moment(kind, old, square, beta2, wrong)
    root = v if wrong("root-missing") else np.sqrt(np.abs(v))
    along = move if wrong("move-for-momentum") else m
    under = np.sqrt(np.abs(v) + tau) if wrong("tau-inside") else root + tau
    t = state.get("t", np.zeros(())) + 1
    if wrong("bias-corrected"):
        along, under = along / (1 - beta1**t), np.sqrt(np.abs(v) / (1 - beta2**t)) + tau
    if wrong("bias-corrected-late"):
        along = along * np.sqrt(1 - beta2 ** (t + 1)) / (1 - beta1 ** (t + 1))
    return {**new, "x": state["x"] + rate * along / under, "m": m, "v": v, "t": t}


def _second_moment(kind: str, old: np.ndarray, square: np.ndarray, beta2: float, wrong: Faults) -> np.ndarray:
    if kind == "fedadagrad":
        return old + square
    if (kind == "fedyogi") != wrong("adam-for-yogi"):
        sign = np.sign(old - square)
        return old - (1 - beta2) * square * (-sign if wrong("yogi-sign") else sign)
    return beta2 * old + (1.0 if wrong("square-undamped") else 1 - beta2) * square
