"""One round of every method from a state in general position, against plain loops over scenarios and clients.

Three clients of two, three and five samples, two of them in each cohort, two scenarios; no parameter and no entry of
the state is 0 or 1. The loops follow the papers' pseudocode one client at a time, and share nothing with the package but
the problem's data.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedtheory import algorithms, messages, problems
from fedtheory.clients.clients import Clients
from fedtheory.clients.sensitivity import client_sensitivity
from fedtheory.local import GradientSteps, LocalSGD, SubgradientSliding
from fedtheory.participation.cohorts import Cohort

RNG = np.random.default_rng(71)
COUNTS, N, D, S = (2, 3, 5), 3, 2, 2
A = [RNG.normal(size=(n, D)) for n in COUNTS]
B = [RNG.normal(size=n) for n in COUNTS]
RIDGE, LR, STEPS = 0.3, 0.15, 3
PROBLEM = problems.LeastSquares(A, B, ridge=RIDGE, weights="samples")
SHARE = np.array(COUNTS) / sum(COUNTS)
MEMBERS = [[0, 2], [1, 2]]
TOP = messages.TopK(k=1)


def grad(k, y):
    """grad of |A_k y - b_k|^2/(2 n_k) + ridge/2 |y|^2."""
    return A[k].T @ (A[k] @ y - B[k]) / COUNTS[k] + RIDGE * y


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t, 0)


def top(v):
    """The larger entry alone."""
    return np.where(np.abs(v) == np.abs(v).max(), v, 0.0)


def top_bits(v):
    """Two bits of the count, 64 of the entry, and its place: 0 in one bit, 1 in two; of nothing, the count alone."""
    return 2 if not v.any() else 66 + (1 if v[0] else 2)


def work(k, center, linear=0.0, curvature=0.0, l1=0.0, steps=STEPS):
    """Proximal gradient steps on f_k(y) - <linear, y> + curvature/2 |y - center|^2 + l1 |y - center|_1."""
    y = center
    for _ in range(steps):
        v = y - LR * (grad(k, y) - linear + curvature * (y - center))
        y = center + soft(v - center, LR * l1)
    return y


def in_general_position(algorithm):
    """A state of two scenarios whose entries are draws; alpha in (0, 1), debts below and above a dense model."""
    rng, start = np.random.default_rng(5), algorithm.init(np.zeros((S, D)), N)
    leaves = {}
    for name, leaf in start._asdict().items():
        if leaf is None:
            leaves[name] = None
        elif name == "missed_bits":
            leaves[name] = np.array([[31, 128, 90], [7, 40, 128]])
        elif name in ("alpha", "u"):
            leaves[name] = rng.uniform(0.2, 0.8, size=leaf.shape)
        else:
            leaves[name] = rng.normal(size=leaf.shape)
    return type(start)(**leaves)


def played(algorithm, cohort, solver=None, round_index=3, problem=PROBLEM, state=None):
    state = state or in_general_position(algorithm)
    clients = Clients(problem, cohort, solver or GradientSteps(STEPS, LR, l1="prox"), state.x, round_index=round_index)
    return state, algorithm.round(state, clients), clients


def agree(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


def compare(algorithm, reference, layout, sent=True, **how):
    """Every leaf of the new state, every message, and the bits of both ways, scenario by scenario.

    ``reference(state, members)`` takes one scenario's state and gives (fields that change, one list of messages a client, bits up,
    bits down); per-client fields that it gives are dictionaries of the rows that change.
    """
    cohort = Cohort(N, members=np.array(MEMBERS))
    state, new, clients = played(algorithm, cohort if layout == "gathered" else cohort.dense(), **how)
    assert type(new) is type(state)
    rows = []
    for s, members in enumerate(MEMBERS):
        old = {name: None if leaf is None else leaf[s] for name, leaf in state._asdict().items()}
        after, *messages_and_bits = reference(old, members)
        rows.append(messages_and_bits)
        for name, leaf in new._asdict().items():
            wanted = after.get(name, old[name])
            if isinstance(wanted, dict):
                wanted = np.array([wanted.get(k, row) for k, row in enumerate(old[name])])
            if leaf is None:
                assert wanted is None
            else:
                agree(leaf[s], wanted)
    got, lists = clients.sent_numpy(), [per_client for row in rows for per_client in row[0]]
    assert len(got) == len(lists[0])
    for i, message in enumerate(got):
        agree(message, [per_client[i] for per_client in lists])
    up, down = clients.client_bits()
    for s, members in enumerate(MEMBERS):
        np.testing.assert_array_equal(up[s, members], rows[s][1])
        np.testing.assert_array_equal(down[s, members], rows[s][2])
    return new


@pytest.fixture(params=["gathered", "dense"])
def layout(request):
    return request.param


# --- FedAvg, FedProx, Algorithm 1 ---------------------------------------------------------------------------------------
def averaged(aggregation, members, updates):
    w = SHARE[members] if aggregation != "cohort" else np.full(len(members), 1 / len(members))
    return (w / w.sum() if aggregation == "samples" else w) @ np.array(updates)


@pytest.mark.parametrize("aggregation", ["cohort", "samples", "printed"])
@pytest.mark.parametrize("send", ["model", "update"])
def test_fedavg_and_fedprox(layout, aggregation, send):
    for mu, make in ((0.0, algorithms.FedAvg), (0.7, lambda *a: algorithms.FedProx(0.7, *a))):

        def reference(old, members, mu=mu):
            ends = [work(k, old["x"], curvature=mu) for k in members]
            step = averaged(aggregation, members, [y - old["x"] for y in ends])
            sent = [[y if send == "model" else y - old["x"]] for y in ends]
            return {"x": old["x"] + step}, sent, [128, 128], [128, 128]

        compare(make(aggregation, send), reference, layout)


@pytest.mark.parametrize("up", [None, "update", "model"])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("feedback", [False, True])
def test_fedavg_with_compressors(layout, up, down, feedback):
    if (up is None and not down) or (up == "model" and feedback):
        return
    algorithm = algorithms.FedAvg(
        "samples", up or "update", TOP if up else None, TOP if down else None, client_feedback=feedback, server_feedback=feedback
    )

    def reference(old, members):
        x, sent, arrived, left = old["x"], [], [], {}
        for k in members:
            y = work(k, x)
            wanted = y if up == "model" else y - x
            if up and feedback:
                wanted = old["residuals"][k] + wanted
            message = top(wanted) if up else wanted
            left[k] = wanted - message
            sent.append([message])
            arrived.append(message - x if up == "model" else message)
        step = averaged("samples", members, arrived)
        price = [top_bits(m[0]) if up else 128 for m in sent]
        after = {"residuals": left if up and feedback else None, "server_residual": None, "missed_bits": None}
        if not down:
            return after | {"x": x + step}, sent, price, [128, 128]
        wanted = step + old["server_residual"] if feedback else step
        message = top(wanted)
        owed = np.minimum(np.where(np.isin(range(N), members), 0, old["missed_bits"]) + top_bits(message), 128)
        after |= {"x": x + message, "server_residual": wanted - message if feedback else None, "missed_bits": owed}
        return after, sent, price, old["missed_bits"][members]

    compare(algorithm, reference, layout)


@pytest.mark.parametrize("aggregation", ["printed", "cohort", "samples"])
@pytest.mark.parametrize("how", ["plain", "compressed", "lossy"])
def test_algorithm_1(layout, aggregation, how):
    l1, l2, epsilon = 0.3, 0.7, 0.06
    more = {} if how == "plain" else {"compressor": TOP, "client_feedback": how == "compressed"}

    def reference(old, members):
        sent, left = [], {}
        for k in members:
            delta = work(k, old["x"], curvature=l2, l1=l1) - old["x"]
            delta = np.where(np.abs(delta) <= epsilon, 0, delta)
            wanted = delta + old["residuals"][k] if how == "compressed" else delta
            sent.append([wanted if how == "plain" else top(wanted)])
            left[k] = wanted - sent[-1][0]
        after = {"x": old["x"] + averaged(aggregation, members, [m[0] for m in sent])}
        after |= {"residuals": left} if how == "compressed" else {}
        return after, sent, [128 if how == "plain" else top_bits(m[0]) for m in sent], [128, 128]

    compare(algorithms.FedElasticNetProx(l1, l2, aggregation, epsilon, **more), reference, layout)


# --- SCAFFOLD, Algorithm 2 ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("elastic", [False, True])
@pytest.mark.parametrize("option", ["difference", "gradient"])
@pytest.mark.parametrize("how", ["plain", "model", "first", "second", "both", "recovered", "lossy"])
def test_scaffold(layout, elastic, option, how):
    if (elastic and how == "model") or (option == "gradient" and how == "recovered"):
        return
    l1, l2, epsilon, eta = (0.3, 0.7, 0.06, 0.6) if elastic else (0.0, 0.0, 0.0, 0.6)
    first, second = how in ("first", "both", "recovered", "lossy"), how in ("second", "both")
    more = {"compressor": TOP if first else None, "control_compressor": TOP if second else None, "client_feedback": how != "lossy"}
    more |= {"control": "recovered"} if how == "recovered" else {}
    if elastic:
        algorithm = algorithms.FedElasticNetScaffold(l1, l2, option, eta, epsilon, **more)
    else:
        algorithm = algorithms.Scaffold(option, eta, "model" if how == "model" else "update", **more)

    def reference(old, members):
        x, c, sent, updates, changes, left, controls = old["x"], old["c"], [], [], [], {}, {}
        for k in members:
            c_k = old["c_k"][k]
            y = work(k, x, c_k - c, l2, l1)
            update = np.where(np.abs(y - x) <= epsilon, 0, y - x)
            wanted = update + old["residuals"][k] if first and how != "lossy" else update
            arrived = top(wanted) if first else wanted
            left[k] = wanted - arrived
            new = c_k - c + (x - y) / (STEPS * LR) if option == "difference" else grad(k, x)
            if how == "recovered":
                new = c_k - c - arrived / (STEPS * LR)
            change = top(new - c_k) if second else new - c_k
            controls[k] = c_k + change
            updates.append(arrived)
            changes.append(change)
            sent.append([y if how == "model" else arrived] + ([] if how == "recovered" else [change]))
        after = {"x": x + eta * sum(updates) / 2, "c": c + sum(changes) / N, "c_k": controls}
        after |= {"residuals": left if how != "lossy" else None} if first else {}
        bits = [(top_bits(m[0]) if first else 128) + (0 if len(m) == 1 else top_bits(m[1]) if second else 128) for m in sent]
        return after, sent, bits, [256, 256]

    compare(algorithm, reference, layout)


# --- FedDyn, Algorithm 3 ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["model", "update", "own", "received", "lossy"])
def test_feddyn(layout, how):
    alpha, compressed = 2.5, how not in ("model", "update")
    more = {"compressor": TOP, "stored": "received" if how == "received" else "own", "client_feedback": how != "lossy"}
    algorithm = algorithms.FedDyn(alpha, "model" if how == "model" else "update", **(more if compressed else {}))

    def reference(old, members):
        x, sent, arrived, left, stored = old["x"], [], [], {}, {}
        for k in members:
            update = work(k, x, old["gradients"][k], alpha) - x
            wanted = update + old["residuals"][k] if how in ("own", "received") else update
            message = top(wanted) if compressed else update
            left[k] = wanted - message
            stored[k] = old["gradients"][k] - alpha * (message if how == "received" else update)
            arrived.append(message)
            sent.append([x + update if how == "model" else message])
        h = old["h"] - alpha * sum(arrived) / N
        after = {"x": x + sum(arrived) / 2 - h / alpha, "h": h, "gradients": stored}
        after |= {"residuals": left if how != "lossy" else None} if compressed else {}
        return after, sent, [top_bits(m[0]) if compressed else 128 for m in sent], [128, 128]

    compare(algorithm, reference, layout)


@pytest.mark.parametrize("how", ["sign", "true-gradient", "own", "received", "lossy"])
def test_algorithm_3(layout, how):
    l1, l2, epsilon, compressed = 0.3, 2.5, 0.06, how in ("own", "received", "lossy")
    more = {"compressor": TOP, "stored": "received" if how == "received" else "own", "client_feedback": how != "lossy"}
    rule = "true-gradient" if how == "true-gradient" else "sign"
    algorithm = algorithms.FedElasticNetDyn(l1, l2, rule, epsilon, **(more if compressed else {}))

    def slope(delta):
        return l2 * delta + l1 * np.sign(delta)

    def reference(old, members):
        x, sent, arrived, left, stored, ends = old["x"], [], [], {}, {}, {}
        for k in members:
            delta = work(k, x, old["stored"][k], l2, l1) - x
            delta = np.where(np.abs(delta) <= epsilon, 0, delta)
            ends[k] = x + delta
            wanted = delta + old["residuals"][k] if how in ("own", "received") else delta
            message = top(wanted) if compressed else delta
            left[k] = wanted - message
            stored[k] = old["stored"][k] - slope(message if how == "received" else delta)
            if how == "true-gradient":
                stored[k] = grad(k, ends[k])
            arrived.append(message)
            sent.append([old["stored"][k] - stored[k], delta] if how == "true-gradient" else [message])
        if compressed:
            h = old["h"] - sum(slope(m) for m in arrived) / N
        else:
            h = old["h"] + sum(stored[k] - old["stored"][k] for k in members) / N
        after = {"x": x + sum(arrived) / 2 - h / l2, "h": h, "stored": stored, "local": ends}
        after |= {"residuals": left if how != "lossy" else None} if compressed else {}
        return after, sent, [top_bits(m[0]) if compressed else 128 * len(m) for m in sent], [128, 128]

    compare(algorithm, reference, layout)


# --- Mime, VRL-SGD, FedGATE, APFL, FedAMP -------------------------------------------------------------------------------
@pytest.mark.parametrize("beta", [0.0, 0.4])
@pytest.mark.parametrize("lite", [False, True])
def test_mime(layout, beta, lite):
    def reference(old, members):
        x, slopes = old["x"], [grad(k, old["x"]) for k in members]
        c, ends = sum(slopes) / 2, []
        for k, slope in zip(members, slopes):
            y = x
            for _ in range(STEPS):
                g = grad(k, y) if lite else grad(k, y) - slope + c
                y = y - LR * ((1 - beta) * g + beta * old["s"])
            ends.append(y)
        after = {"x": sum(ends) / 2, "s": (1 - beta) * c + beta * old["s"]}
        down = 128 * (1 + bool(beta) + (not lite))
        return after, [[g, y] for g, y in zip(slopes, ends)], [256, 256], [down, down]

    compare(algorithms.Mime(beta, lite), reference, layout)


def test_vrl_sgd(layout):
    def reference(old, members):
        ends = {k: work(k, old["x"], old["delta"][k]) for k in members}
        x = sum(ends.values()) / 2
        delta = {k: old["delta"][k] + (x - y) / (STEPS * LR) for k, y in ends.items()}
        return {"x": x, "delta": delta}, [[y] for y in ends.values()], [128, 128], [128, 128]

    compare(algorithms.VRLSGD(), reference, layout)


@pytest.mark.parametrize("compressor", [None, TOP])
def test_fedgate(layout, compressor):
    gamma = 0.6

    def reference(old, members):
        sent = {k: (old["x"] - work(k, old["x"], old["delta"][k])) / (STEPS * LR) for k in members}
        sent = sent if compressor is None else {k: top(m) for k, m in sent.items()}
        mean = sum(sent.values()) / 2
        after = {"x": old["x"] - gamma * STEPS * LR * mean, "delta": {k: old["delta"][k] + sent[k] - mean for k in members}}
        return after, [[m] for m in sent.values()], [top_bits(m) if compressor else 128 for m in sent.values()], [256, 256]

    compare(algorithms.FedGATE(gamma, compressor), reference, layout)


@pytest.mark.parametrize("adaptive", [False, True])
def test_apfl(layout, adaptive):
    def reference(old, members):
        own, shares, ends = {}, {}, []
        for k in members:
            w, v, alpha = old["x"], old["v"][k], old["alpha"][k]
            for _ in range(STEPS):
                g = grad(k, alpha * v + (1 - alpha) * w)
                move = (v - w) @ g if adaptive else 0.0
                w, v, alpha = w - LR * grad(k, w), v - LR * alpha * g, np.clip(alpha - LR * move, 0, 1)
            own[k], shares[k] = v, alpha
            ends.append(w)
        return {"x": sum(ends) / 2, "v": own, "alpha": shares}, [[w] for w in ends], [128, 128], [128, 128]

    new = compare(algorithms.APFL(0.4, adaptive), reference, layout)
    agree(new.personal[1, 0], new.alpha[1, 0] * new.v[1, 0] + (1 - new.alpha[1, 0]) * new.x[1])


def test_fedamp(layout):
    lam, alpha, sigma = 0.7, 0.9, 2.3

    def reference(old, members):
        ends = {}
        for k in members:
            w, u = old["w"][k], old["w"][k]
            for other in old["w"]:
                u = u + alpha * math.exp(-((w - other) @ (w - other)) / sigma) / sigma * (other - w)
            for _ in range(STEPS):
                w = w - LR * (grad(k, w) + lam / alpha * (w - u))
            ends[k] = w
        mean = sum(ends.get(k, old["w"][k]) for k in range(N)) / N
        return {"x": mean, "w": ends}, [[w] for w in ends.values()], [128, 128], [128, 128]

    new = compare(algorithms.FedAMP(lam, alpha, sigma), reference, layout)
    assert new.personal is new.w


# --- Elastic Aggregation, the subgradient method, FedMLS ----------------------------------------------------------------
@pytest.mark.parametrize("aggregation", ["samples", "cohort", "printed"])
@pytest.mark.parametrize(("sign", "ema"), [("repaired", "corrected"), ("printed", "printed")])
def test_elastic_aggregation(layout, aggregation, sign, ema):
    tau, mu, eta = 0.7, 0.6, 0.4

    def reference(old, members):
        x = old["x"]
        omega = client_sensitivity(PROBLEM, np.broadcast_to(x, (N, 1, D)), 2, mu, ema)[members, 0]
        updates = [work(k, x) - x for k in members]
        total = averaged(aggregation, members, omega)
        step = eta * (1 + tau - total / total.max()) * averaged(aggregation, members, updates)
        return {"x": x + step if sign == "repaired" else x - step}, list(zip(omega, updates)), [256, 256], [128, 128]

    compare(algorithms.ElasticAggregation(tau, mu, eta, sign, "one", ema, aggregation, 2), reference, layout)


@pytest.mark.parametrize("output", ["last", "average"])
def test_subgradient(layout, output):
    step, radius, t = 0.6, 0.5, 3

    def reference(old, members):
        h, p = step / math.sqrt(t), old["point"]
        slopes = [grad(k, p) for k in members]
        new = p - h * SHARE[members] @ np.array(slopes) / SHARE[members].sum()
        assert np.linalg.norm(new) > radius
        new = new * radius / np.linalg.norm(new)
        total = old["total"] + h
        average = old["x"] + h / total * (p - old["x"])
        return {"x": new if output == "last" else average, "point": new, "total": total}, [[g] for g in slopes], [128] * 2, [128] * 2

    algorithm = algorithms.Subgradient(step, "inverse-sqrt", output, radius)
    state = in_general_position(algorithm)
    compare(algorithm, reference, layout, state=state._replace(total=np.array([[1.3], [0.4]])))


@pytest.mark.parametrize("norm", ["mean", "product"])
@pytest.mark.parametrize("average", ["averaged", "printed"])
@pytest.mark.parametrize("projected", [True, False])
def test_fedmls(norm, average, projected):
    lam, big, K, R, G, sigma, k = 0.7, 0.9, 5, 0.8, 0.6, 0.5, 3
    rng = np.random.default_rng(8)
    centers = rng.normal(size=(N, D))
    problem = problems.L1Distance(centers)
    algorithm = algorithms.FedMLS(lam, big, K, R, G, sigma, average=average, server_projection=projected, norm=norm)
    T = math.ceil((4 * G**2 + sigma**2) * lam**2 * K * k**2 / (2 * big))
    assert T == 21 and algorithm.steps(k) == T
    old = in_general_position(algorithm)
    solver = SubgradientSliding(engine="numpy")
    _, new, clients = played(algorithm, Cohort(N, members=np.array([[0, 1, 2]] * S)), solver, k, problem, old)
    gamma, ball = 2 / (k + 1), lambda v: v * min(1.0, R / np.linalg.norm(v))
    lam = lam / N if norm == "product" else lam
    for s in range(S):
        y_local = (1 - gamma) * old.x_local[s] + gamma * old.z_local[s]
        y = (1 - gamma) * old.x[s] + gamma * old.z[s]
        z = old.z[s] - k / 4 * (y - y_local.mean(axis=0))
        assert np.linalg.norm(z) > R
        z = ball(z) if projected else z
        agree(new.z[s], z)
        agree(new.x[s], (1 - gamma) * old.x[s] + gamma * z)
        for i in range(N):
            u = mean = old.z_local[s, i]
            beta, g = 4 / (lam * k), (y_local[i] - y) / lam
            for t in range(1, T + 1):
                theta, size = 2 * (t + 1) / (t * (t + 3)), 1 / ((1 + t / 2) * beta)
                u = ball(u - size * (np.sign(u - centers[i]) + beta * (u - old.z_local[s, i]) + g))
                mean = (1 - theta) * mean + theta * u
            agree(new.z_local[s, i], u)
            agree(new.x_local[s, i], (1 - gamma) * old.x_local[s, i] + gamma * (u if average == "printed" else mean))
        agree(clients.sent[0][s], y_local)


# --- EFL ----------------------------------------------------------------------------------------------------------------
STEPS_DONE = np.array([[3, 0, 2], [0, 1, 3]])
ACTIVE = np.array([0.9, 0.5, 0.8])


def efl_scheme(scheme, share, done, here):
    """p_tau^k of one scenario, from section 3.2 of the EFL paper."""
    p, complete = share * here, [k for k in range(N) if done[k] == STEPS]
    if scheme == "A":
        return np.array([here.sum() * p[k] / len(complete) if k in complete else 0.0 for k in range(N)])
    if scheme == "B":
        return p
    counts = [STEPS * p[k] / done[k] if done[k] else 0.0 for k in range(N)]
    return np.array(counts) / (ACTIVE if scheme == "C-corrected" else 1)


EFL_CASES = [
    {},
    {"scheme": "A"},
    {"scheme": "B"},
    {"scheme": "C-corrected"},
    {"lam": 0.2},
    {"lam": 0.2, "scheme": "A", "fisher": "empirical"},
    {"lam": 0.2, "t": 1},
    {"lam": 0.2, "t": 2},
    {"lam": 0.2, "gone": 2},
    {"up": True, "gone": 2, "scheme": "A"},
    {"gone": 2, "share": (0.4, 0.6, 0.0)},
    {"lam": 0.2, "gone": 2, "departed": "stale"},
    {"up": True},
    {"up": True, "scheme": "A", "lam": 0.2},
    {"up": True, "scheme": "A", "scale": "after"},
    {"up": True, "client_feedback": False, "scale": "after"},
    {"down": True},
    {"down": True, "server_feedback": False},
    {"up": True, "down": True, "lam": 0.2},
    {"variant": "none"},
    *({"variant": v, "up": True, "down": True, "lam": 0.2} for v in ("literal", "text", "text-received")),
    {"variant": "literal", "up": True, "client_feedback": False},
    {"variant": "literal", "down": True},
    {"variant": "literal", "up": True, "scheme": "A"},
    {"variant": "text", "up": True, "scale": "before", "scheme": "B"},
]


@pytest.mark.parametrize("case", EFL_CASES, ids=str)
def test_efl(case):
    case = dict(case)
    up, down, gone, t = case.pop("up", False), case.pop("down", False), case.pop("gone", None), case.pop("t", 3)
    share = np.array(case.pop("share", SHARE))
    algorithm = algorithms.EFL(compressor=TOP if up else None, down_compressor=TOP if down else None, **case)
    here, done = np.ones(N, dtype=bool), STEPS_DONE.copy()
    if gone is not None:
        here[gone], done[:, gone] = False, 0
    cohort = Cohort(N, mask=done > 0, steps=done, max_steps=STEPS, active_probability=ACTIVE, present=here)
    problem = problems.LeastSquares(A, B, ridge=RIDGE, weights=share)
    state, new, clients = played(algorithm, cohort, LocalSGD(STEPS, LR), t, problem)
    variant, lam = algorithm.variant, algorithm.lam
    first = algorithm.scale == "before" or (algorithm.scale is None and variant in ("consistent", "none"))
    for s in range(S):
        old = {name: None if leaf is None else leaf[s] for name, leaf in state._asdict().items()}
        now = {name: None if leaf is None else leaf[s] for name, leaf in new._asdict().items()}
        assert [name for name in old if old[name] is None] == [name for name in now if now[name] is None]
        p = efl_scheme(algorithm.scheme, share, done[s], here)
        start = old["x"] if old["held"] is None else old["held"]
        keep = here | (algorithm.departed == "stale")
        U, V = (old["u"][keep].sum(axis=0), old["v"][keep].sum(axis=0)) if lam else (0.0, 0.0)
        total, expected_up = 0.0, np.zeros(N, dtype=int)
        for k in range(N):
            left = None if old["residuals"] is None else old["residuals"][k]
            pair = (old["u"][k] * keep[k], old["v"][k] * keep[k]) if lam else None
            if p[k] > 0 and done[s, k]:
                y = start
                for _ in range(done[s, k]):
                    y = y - LR * (grad(k, y) + lam * (U * y - V))
                wanted = (p[k] / share[k] if first else 1.0) * (y - start) + (0.0 if left is None else left)
                message = top(wanted) if up else wanted
                left = None if left is None else wanted - message
                used = wanted if variant == "literal" else message
                total = total + (share[k] if first else p[k]) * used
                expected_up[k] += top_bits(used) if up and variant != "literal" else 128
                if lam:
                    weight = (A[k] @ y - B[k]) ** 2 if algorithm.fisher == "empirical" else 1.0
                    u = (np.reshape(weight, (-1, 1)) * A[k] ** 2).sum(axis=0) / COUNTS[k]
                    pair = (u, u * y)
                    expected_up[k] += 256
            if left is not None:
                agree(now["residuals"][k], left)
            if lam:
                agree(now["u"][k], pair[0])
                agree(now["v"][k], pair[1])
        wanted = total if old["server_residual"] is None else total + old["server_residual"]
        message = top(wanted) if down else wanted
        agree(now["x"], old["x"] + (message if variant == "consistent" else wanted))
        if now["server_residual"] is not None:
            agree(now["server_residual"], wanted - message)
        if variant == "text-received":
            agree(now["held"], old["held"] + message)
        price = np.full(N, 128) if old["missed_bits"] is None else old["missed_bits"]
        price = price + (256 if lam and t > 1 else 0) + (64 if up and first and algorithm.scheme == "A" else 0)
        np.testing.assert_array_equal(clients.bits_down[s], np.where(done[s] > 0, price, 0))
        np.testing.assert_array_equal(clients.bits_up[s], expected_up)
        if old["missed_bits"] is not None:
            owed = np.minimum(np.where(done[s] > 0, 0, old["missed_bits"]) + top_bits(message), 128)
            np.testing.assert_array_equal(now["missed_bits"], owed)


@pytest.mark.parametrize("scheme", ["A", "B", "C"])
@pytest.mark.parametrize("compressor", [None, TOP])
def test_efl_where_participants_are_complete(layout, scheme, compressor):
    """Cohorts that know nothing of local steps: the coefficients are N p^k/2, p^k and p^k, and everybody sends."""

    def reference(old, members):
        sent, total, left = [], 0.0, {}
        for k in members:
            factor = N / 2 if scheme == "A" else 1.0
            wanted = factor * (work(k, old["x"]) - old["x"]) + (0.0 if compressor is None else old["residuals"][k])
            sent.append([wanted if compressor is None else top(wanted)])
            left[k] = wanted - sent[-1][0]
            total = total + SHARE[k] * sent[-1][0]
        after = {"x": old["x"] + total} | ({} if compressor is None else {"residuals": left})
        down = 128 + (64 if compressor is not None and scheme == "A" else 0)
        return after, sent, [128 if compressor is None else top_bits(m[0]) for m in sent], [down, down]

    compare(algorithms.EFL(scheme=scheme, compressor=compressor), reference, layout)


# --- before round 1 -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("algorithm", "as_x", "per_client_x"),
    [
        (algorithms.FedAvg(send="update", compressor=TOP, down_compressor=TOP), [], []),
        (algorithms.Scaffold(compressor=TOP), [], []),
        (algorithms.FedElasticNetProx(1, 1, compressor=TOP), [], []),
        (algorithms.FedElasticNetScaffold(1, 1, compressor=TOP), [], []),
        (algorithms.FedElasticNetDyn(1, 1, compressor=TOP), [], ["local"]),
        (algorithms.FedDyn(1, "update", TOP), [], []),
        (algorithms.EFL(0.2, variant="text-received", compressor=TOP, down_compressor=TOP), ["held"], []),
        (algorithms.Mime(0.5), [], []),
        (algorithms.VRLSGD(), [], []),
        (algorithms.FedGATE(), [], []),
        (algorithms.APFL(0.4), [], ["v"]),
        (algorithms.FedAMP(1, 1, 9), [], ["w"]),
        (algorithms.Subgradient(0.1), ["point"], []),
        (algorithms.FedMLS(2, 8, 3, 9.0, 1), ["z"], ["x_local", "z_local"]),
    ],
    ids=lambda a: getattr(a, "name", ""),
)
def test_the_state_before_round_one(algorithm, as_x, per_client_x):
    """Models are the start everywhere, what adds up is 0, debts are a dense model, and no memory is left out."""
    x = np.array([[0.4, -1.5], [2.5, 0.3]])
    state = algorithm.init(x, N)._asdict()
    for name, leaf in state.items():
        if name in ("x", *as_x):
            np.testing.assert_array_equal(leaf, x)
        elif name in per_client_x:
            np.testing.assert_array_equal(leaf, np.repeat(x[:, None, :], N, axis=1))
        elif name == "missed_bits":
            np.testing.assert_array_equal(leaf, np.full((S, N), 128))
        elif name == "alpha":
            np.testing.assert_array_equal(leaf, np.full((S, N, 1), 0.4))
        else:
            shape = {"total": (S, 1)}.get(name, (S, D) if name in ("c", "h", "s", "server_residual") else (S, N, D))
            np.testing.assert_array_equal(leaf, np.zeros(shape))
