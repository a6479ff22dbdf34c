"""The methods as plain NumPy loops, a client at a time, and the mistakes that are made in them.

A state is a dict of arrays: the server model ``x`` (d,), and what the method keeps, with one row a
client where clients keep it. A method takes a `Round` and gives the next state;
`fedtheory.testing.audit.mistakes` has its mistakes in words. Nothing here is shared with
`fedtheory.algorithms`, so that the two check each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from fedtheory.testing.audit.clients import Task, mistaken
from fedtheory.testing.audit.parts import Round, State

__all__ = ["REFERENCES", "init", "run", "states_of"]


def states_of(
    method: str, task: Task, wrong: frozenset[str] = frozenset()
) -> Iterator[State]:
    """The states of the reference one by one, the first one included."""
    state, clients = init(method, task), mistaken(task.clients, wrong)
    yield state
    for cohort in task.cohorts:
        asked = Round(dict(state), clients, cohort, task.settings, wrong.__contains__)
        with np.errstate(all="ignore"):  # a mistake may make a run diverge
            state = REFERENCES[method](asked)
        yield state


def run(method: str, task: Task, wrong: frozenset[str] = frozenset()) -> list[State]:
    """The states of the reference, the first one included."""
    return list(states_of(method, task, wrong))


def init(method: str, task: Task) -> State:
    """The first state: nothing is known but the start, unless the task says otherwise."""
    x, shape = task.start.astype(float), (len(task.clients), len(task.start))
    state: State = {"x": x.copy(), "y": np.tile(x, (len(task.clients), 1))}
    for name in KEPT.get(method, ()):
        state[name] = np.zeros(shape if name.endswith("_k") else len(x))
    if task.settings.get("option") == "v-from-tau":
        state["v"] = np.full(len(x), task.settings["tau"] ** 2)
    given = (task.state or {}).items()
    return state | {name: np.array(value, dtype=float) for name, value in given}


KEPT = {
    "scaffold": ("c", "c_k"), "feddyn": ("h", "h_k"), "fedelasticnet-scaffold": ("c", "c_k"),
    "fedelasticnet-dyn": ("h", "h_k"), "mime": ("s",), "fedgate": ("d_k",), "vrl-sgd": ("d_k",),
    "fedavgm": ("m",), "fedadagrad": ("m", "v"), "fedadam": ("m", "v"), "fedyogi": ("m", "v"),
}


def _fedavg(r: Round) -> State:
    """McMahan et al. 2017: x + eta_g sum_k (n_k/n) (y_k - x) over the cohort.

    With a penalty in the local work it is FedProx. Li et al.'s Algorithm 2 draws clients by their
    weights and takes a plain mean; FedElasticNet's Algorithm 1 sums n_k/n over the cohort, n that
    of all clients: ``weighting`` has both.
    """
    y = r.work()
    step = r.update(y - r.x, "examples")
    return {**r.state, "x": r.x + r.server_lr * step, "y": r.put("y", y)}


def _feddyn(r: Round) -> State:
    """Acar et al. 2021, Algorithm 1; with l1 FedElasticNet's Algorithm 3 under its sign rule.

    The printed bracket of h can be read as (sum of y) - x; here x is taken from each y, which alone
    keeps h the mean of the h_k.
    """
    wrong, alpha, l1 = r.wrong, r.settings["alpha"], r.settings.get("l1", 0.0)
    h, h_k, many = r.state["h"], r.own("h_k"), len(r.clients)
    linear = h_k if wrong("linear-sign") else -h_k
    linear = 0 * h_k if wrong("linear-none") or wrong("local-plain") else linear
    linear = linear / r.settings["learning_rate"] if wrong("linear-without-rate") else linear
    y = r.work(linear, mu=alpha)
    move = y - r.x
    slope = alpha * move + (0.0 if wrong("l1-not-stored") else l1) * np.sign(move)
    slope = move if wrong("alpha-not-stored") else slope
    kept = h_k + slope if wrong("h_k-sign") else h_k - slope
    kept = -slope if wrong("h_k-replaced") else kept
    by_examples = r.sizes()[list(r.cohort), None] * many / r.sizes().sum()
    share = by_examples if wrong("h-by-examples") else 1.0
    served = share * alpha * move + (0.0 if wrong("l1-not-in-h") else l1) * np.sign(move)
    many = len(r.cohort) if wrong("h-over-cohort") else 1 if wrong("h-not-divided") else many
    change = served.sum(axis=0) / many
    change = alpha / many * (y.sum(axis=0) - r.x) if wrong("h-of-models") else change
    change = change / alpha if wrong("h-without-alpha") else change
    new = h + change if wrong("h-sign") else h - change
    new = h if wrong("h-never-updated") else -change if wrong("h-replaced") else new
    used = h if wrong("h-late") else 0 * new if wrong("h-unused") else new
    used = kept.mean(axis=0) if wrong("h-of-cohort") else used
    used = used / (1.0 if wrong("h-not-over-alpha") else alpha)
    mean = r.x + r.mean(move)
    x = mean + used if wrong("h-added") else mean - used
    if wrong("h_k-at-new-x"):
        kept = h_k - alpha * (y - x) - l1 * np.sign(y - x)
    stored = r.state["h_k"] if wrong("h_k-never-updated") else r.put("h_k", kept)
    return {"x": x, "y": r.put("y", y), "h": new, "h_k": stored}


def _fedopt(r: Round) -> State:
    """Reddi et al. 2021, Algorithm 2, without the correction for the first rounds; FedAvgM of Hsu
    et al. 2019.

    Algorithm 2 prints a plain mean over the cohort, and any first v >= tau^2. Here the mean is that
    of ``weighting``, and v begins at 0, as code commonly has it, or with option 'v-from-tau' at
    tau^2. With option 'v-of-momentum' v is made of m^2.
    """
    wrong, settings, old, rate = r.wrong, r.settings, r.state, r.server_lr
    y = r.work()
    move = r.update(y - r.x, "examples")
    kind, beta1 = settings["server"], settings["beta1"]
    new: State = {**old, "y": r.put("y", y)}
    if kind == "fedavgm":
        m = beta1 * old["m"] + ((1 - beta1) * move if wrong("momentum-damped") else move)
        m = move if wrong("momentum-none") else m
        return {**new, "m": m, "x": r.x + rate * m}
    beta2, tau = settings.get("beta2", 0.0), settings["tau"]
    begins = not old.get("t", 0)
    m = beta1 * old["m"] + (1.0 if wrong("momentum-undamped") else 1 - beta1) * move
    m = move if wrong("momentum-none") or (wrong("momentum-first") and begins) else m
    of_momentum = wrong("square-of-momentum") or settings.get("option") == "v-of-momentum"
    square = move if wrong("square-missing") else m**2 if of_momentum else move**2
    v = old["v"] + tau**2 if wrong("v-from-tau") and begins and not old["v"].any() else old["v"]
    v = _second_moment(r, kind, v, square, beta2)
    root = v if wrong("root-missing") else np.sqrt(np.abs(v))
    along = move if wrong("move-for-momentum") else m
    under = np.sqrt(np.abs(v) + tau) if wrong("tau-inside") else root + tau
    t = old.get("t", np.zeros(())) + 1
    if wrong("bias-corrected"):
        along, under = along / (1 - beta1**t), np.sqrt(np.abs(v) / (1 - beta2**t)) + tau
    if wrong("bias-corrected-late"):
        along = along * np.sqrt(1 - beta2 ** (t + 1)) / (1 - beta1 ** (t + 1))
    return {**new, "x": r.x + rate * along / under, "m": m, "v": v, "t": t}


def _second_moment(
    r: Round, kind: str, old: np.ndarray, square: np.ndarray, beta2: float
) -> np.ndarray:
    if kind == "fedadagrad":
        return old + square
    if (kind == "fedyogi") != r.wrong("adam-for-yogi"):
        sign = np.sign(old - square)
        return old - (1 - beta2) * square * (-sign if r.wrong("yogi-sign") else sign)
    return beta2 * old + (1.0 if r.wrong("square-undamped") else 1 - beta2) * square


# --- SCAFFOLD -------------------------------------------------------------------------------------
# What line 12 is made with in place of c_k - c.
OLD: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "control-without-c": lambda c_k, c: c_k,
    "control-without-old": lambda c_k, c: 0 * c_k,
    "control-with-c": lambda c_k, c: 0 * c_k + c,
    "control-without-c_k": lambda c_k, c: 0 * c_k - c,
    "control-c-sign": lambda c_k, c: c_k + c,
    "control-c_k-sign": lambda c_k, c: -c_k - c,
    "control-both-signs": lambda c_k, c: c - c_k,
}


def _scaffold(r: Round) -> State:
    """Karimireddy et al. 2020, Algorithm 1; its lines are named in `mistakes`."""
    wrong = r.wrong
    if wrong("c-within-round") and len(r.cohort) > 1:
        return _one_after_another(r)
    c, c_k, early = r.state["c"], r.own("c_k"), wrong("controls-early")
    by_gradient = r.settings.get("option", "difference") == "gradient"
    by_gradient = early or by_gradient != wrong("other-option")
    new = np.array([r.clients[k].gradient(r.x) for k in r.cohort]) if by_gradient else c_k
    again = c_k.any(axis=1, keepdims=True) & wrong("control-in-place")
    used = c + _share(r, new - c_k) if early else c
    correction = _correction(r, used, new if early else c_k)
    if by_gradient:
        correction = np.where(again, new - c if wrong("correction-sign") else c - new, correction)
    y = r.work(correction)
    x = r.x + r.server_lr * r.update(y - r.x)
    if not by_gradient:
        new = _by_difference(r, x if wrong("control-at-new-x") else r.x, y, c, c_k)
    change = np.where(again, 0.0, new - c_k)
    after = c + _share(r, new if wrong("control-sent-whole") else change)
    after = new.mean(axis=0) if wrong("control-replaced") else after
    kept = r.state["c_k"] if wrong("c_k-never-updated") else r.put("c_k", new)
    return {
        "x": x, "y": r.put("y", y), "c": c if wrong("c-never-updated") else after,
        "c_k": np.tile(after, (len(kept), 1)) if wrong("c_k-set-to-c") else kept,
    }


def _one_after_another(r: Round) -> State:
    """A round in which c changes after every client of the cohort."""
    x, now, models = r.x, r.state, []
    for k in r.cohort:
        settings = {**r.settings, "taking": len(r.cohort)}
        now = _scaffold(replace(r, state={**now, "x": x}, cohort=[k], settings=settings))
        models.append(now["y"][k])
    return {**now, "x": x + r.settings.get("server_lr", 1.0) * r.mean(np.array(models) - x)}


def _correction(r: Round, c: np.ndarray, c_k: np.ndarray) -> np.ndarray:
    """Return what line 10 adds to each client's gradient (P, d)."""
    wrong = r.wrong
    if wrong("correction-none"):
        return 0 * c_k
    turned = wrong("correction-sign")
    of_server, of_client = np.broadcast_to(c, c_k.shape), -c_k
    of_server = -of_server if turned or wrong("correction-c-sign") else of_server
    of_server = 0 * c_k if wrong("correction-without-c") else of_server
    of_client = c_k if turned or wrong("correction-c_k-sign") else of_client
    of_client = 0 * c_k if wrong("correction-without-c_k") else of_client
    rate = r.settings["learning_rate"] if wrong("correction-without-rate") else 1.0
    return (of_server + of_client) / rate


def _by_difference(
    r: Round, x: np.ndarray, y: np.ndarray, c: np.ndarray, c_k: np.ndarray
) -> np.ndarray:
    """Line 12, option II, for the cohort (P, d)."""
    wrong = r.wrong
    if wrong("control-at-local-model"):
        return np.array([r.clients[k].gradient(at) for k, at in zip(r.cohort, y, strict=True)])
    over = np.array([[float(r.steps_of(k))] for k in r.cohort])
    over = over + wrong("control-over-one-more") - wrong("control-over-one-less")
    over = np.ones_like(over) if wrong("local-steps-not-divided") else over
    over = over * r.sizes()[list(r.cohort), None] if wrong("control-over-examples") else over
    over = over * r.settings.get("server_lr", 1.0) if wrong("control-over-server-lr") else over
    over = over if wrong("learning-rate-not-divided") else over * r.settings["learning_rate"]
    moved = (x - y) / over
    old = next((instead(c_k, c) for name, instead in OLD.items() if wrong(name)), c_k - c)
    return old + (-moved if wrong("control-update-sign") else moved)


def _share(r: Round, sent: np.ndarray) -> np.ndarray:
    """Return what lines 16 and 17 add to c for what the cohort sends (P, d)."""
    wrong, sizes = r.wrong, r.sizes()
    own = sizes[list(r.cohort), None]
    many, taking = float(len(r.clients)), float(r.settings.get("taking", len(r.cohort)))
    if wrong("c-by-examples"):
        sent, many, taking = own * sent, sizes.sum(), own.sum()
    if wrong("c-by-cohorts-examples"):
        sent = taking * own / own.sum() * sent
    many = many**2 / taking if wrong("c-share-twice") else many
    many = taking if wrong("control-over-cohort") else many
    many = 1.0 if wrong("control-not-divided") else many
    rate = r.settings.get("server_lr", 1.0) if wrong("c-with-server-lr") else 1.0
    return (-rate if wrong("c-sign") else rate) * sent.sum(axis=0) / many


# --- further methods ------------------------------------------------------------------------------
def _mime(r: Round) -> State:
    """Karimireddy et al. 2020 (Mime), Algorithm 1, with SGD with momentum as base method and full
    gradients."""
    wrong, s, beta = r.wrong, r.state["s"], r.settings["momentum"]
    gradients = np.array([r.clients[k].gradient(r.x) for k in r.cohort])
    c = gradients.mean(axis=0)
    correction = gradients - c if wrong("mime-correction-sign") else c - gradients
    correction = 0 * correction if wrong("mime-lite") else correction
    after = beta * s + (1.0 if wrong("s-undamped") else 1 - beta) * c
    after = s if wrong("s-never-updated") else after
    used = after if wrong("s-early") else 0 * s if wrong("s-unused") else s
    share = 1.0 if wrong("gradient-undamped") else 1 - beta
    y = r.work(share * correction + beta * used, of_gradient=share)
    return {"x": r.x + r.mean(y - r.x), "y": r.put("y", y), "s": after}


def _fedgate(r: Round) -> State:
    """Haddadpour et al. 2021, FedGATE; for server_lr = 1 Liang et al. 2019, VRL-SGD."""
    wrong, d_k = r.wrong, r.own("d_k")
    linear = d_k if wrong("tracker-sign") else 0 * d_k if wrong("tracker-unused") else -d_k
    y = r.work(linear)
    over = 1.0 if wrong("tracker-steps-not-divided") else float(r.steps_of(r.cohort[0]))
    over = over * (1.0 if wrong("tracker-rate-not-divided") else r.settings["learning_rate"])
    moved = (r.x - y) / over
    change = moved - moved.mean(axis=0)
    change = -change if wrong("tracker-update-sign") else change
    change = moved if wrong("tracker-without-mean") else change
    kept = r.state["d_k"] if wrong("tracker-never-updated") else r.put("d_k", d_k + change)
    return {"x": r.x + r.server_lr * r.update(y - r.x), "y": r.put("y", y), "d_k": kept}


def _elastic_aggregation(r: Round) -> State:
    """Chen et al. 2023, Algorithm 1, one batch of all samples, one layer, Delta = y - x added.

    The samples that sensitivities are taken on stay in the training data, from which the printed
    algorithm drops them. A client's sensitivity is |gradient of the mean of (a_j'x)^2|; where it is
    0 in every coordinate, zeta is 1.
    """
    wrong, tau = r.wrong, r.settings["tau"]
    y = r.work()
    step = r.update(y - r.x, "examples")
    at = y if wrong("sensitivity-at-local-model") else np.broadcast_to(r.x, y.shape)
    own = [(r.clients[k].features, p) for k, p in zip(r.cohort, at, strict=True)]
    omega = np.array([2 * a.T @ (a @ p) / len(a) for a, p in own])
    omega = r.mean(omega if wrong("sensitivity-signed") else np.abs(omega), "examples")
    most = np.abs(omega).sum() if wrong("sensitivity-over-sum") else omega.max()
    ratio = omega / most if most else 0 * omega
    zeta = 1 + tau - ratio if most else np.ones_like(r.x)
    zeta = tau + ratio if wrong("zeta-turned") else zeta
    zeta = 1 - ratio if wrong("tau-missing") else zeta
    zeta = np.ones_like(r.x) if wrong("zeta-unused") else zeta
    return {"x": r.x + r.server_lr * zeta * step, "y": r.put("y", y)}


REFERENCES: dict[str, Callable[[Round], State]] = {
    "fedavg": _fedavg, "fedprox": _fedavg, "scaffold": _scaffold, "feddyn": _feddyn,
    "fedelasticnet-prox": _fedavg, "fedelasticnet-scaffold": _scaffold,
    "fedelasticnet-dyn": _feddyn, "mime": _mime, "fedgate": _fedgate, "vrl-sgd": _fedgate,
    "elastic-aggregation": _elastic_aggregation, "fedavgm": _fedopt, "fedadagrad": _fedopt,
    "fedadam": _fedopt, "fedyogi": _fedopt,
}
