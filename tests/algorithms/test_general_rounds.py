"""Rounds from states in general position against plain loops: FedAvg, FedProx, SCAFFOLD, FedDyn, FedElasticNet; and round 0 of all."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
from general_round import LR, STEPS, TOP, N, averaged, compare, grad, top, top_bits, work

from fedtheory import algorithms

OTHERS = {"server_residual": None, "missed_bits": None}  # of the state of a method that compresses on the way up alone


# --- FedAvg, FedProx, Algorithm 1 -----------------------------------------------------------------
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
@pytest.mark.parametrize("aggregation", ["samples", "cohort"])
def test_fedavg_with_compressors(layout, up, down, feedback, aggregation):
    if (up is None and not down) or (up == "model" and feedback):
        return
    algorithm = algorithms.Compressed(
        algorithms.FedAvg(aggregation, "update"), TOP if up else None, TOP if down else None, feedback=feedback, of=up or "update"
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
        step = averaged(aggregation, members, arrived)
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
    plain = algorithms.FedElasticNetProx(l1, l2, aggregation, epsilon)
    algorithm = plain if how == "plain" else algorithms.Compressed(plain, TOP, feedback=how == "compressed")

    def reference(old, members):
        sent, left = [], {}
        for k in members:
            delta = work(k, old["x"], curvature=l2, l1=l1) - old["x"]
            delta = np.where(np.abs(delta) <= epsilon, 0, delta)
            wanted = delta + old["residuals"][k] if how == "compressed" else delta
            sent.append([wanted if how == "plain" else top(wanted)])
            left[k] = wanted - sent[-1][0]
        after = {"x": old["x"] + averaged(aggregation, members, [m[0] for m in sent])}
        after |= {} if how == "plain" else OTHERS | {"residuals": left if how == "compressed" else None}
        return after, sent, [128 if how == "plain" else top_bits(m[0]) for m in sent], [128, 128]

    compare(algorithm, reference, layout)


# --- SCAFFOLD, Algorithm 2 ------------------------------------------------------------------------
@pytest.mark.parametrize("elastic", [False, True])
@pytest.mark.parametrize("option", ["difference", "gradient"])
@pytest.mark.parametrize("how", ["plain", "model", "first", "second", "both", "recovered", "lossy"])
def test_scaffold(layout, elastic, option, how):
    if (elastic and how == "model") or (option == "gradient" and how == "recovered"):
        return
    l1, l2, epsilon, eta = (0.3, 0.7, 0.06, 0.6) if elastic else (0.0, 0.0, 0.0, 0.6)
    first, second = how in ("first", "both", "recovered", "lossy"), how in ("second", "both")
    more = {"control": "recovered"} if how == "recovered" else {}
    if elastic:
        algorithm = algorithms.FedElasticNetScaffold(l1, l2, option, eta, epsilon, **more)
    else:
        algorithm = algorithms.Scaffold(option, eta, "model" if how == "model" else "update", **more)
    if first or second:
        up, control = TOP if first else None, TOP if second else None
        algorithm = algorithms.Compressed(algorithm, up, control=control, feedback=how != "lossy")

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
        after |= OTHERS | {"residuals": left if first and how != "lossy" else None} if first or second else {}
        bits = [(top_bits(m[0]) if first else 128) + (0 if len(m) == 1 else top_bits(m[1]) if second else 128) for m in sent]
        return after, sent, bits, [256, 256]

    compare(algorithm, reference, layout)


# --- FedDyn, Algorithm 3 --------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["model", "update", "own", "received", "lossy"])
def test_feddyn(layout, how):
    alpha, compressed = 2.5, how not in ("model", "update")
    kept = "received" if how == "received" else "own"
    algorithm = algorithms.FedDyn(alpha, "model" if how == "model" else "update", kept)
    algorithm = algorithms.Compressed(algorithm, TOP, feedback=how != "lossy") if compressed else algorithm

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
        after |= OTHERS | {"residuals": left if how != "lossy" else None} if compressed else {}
        return after, sent, [top_bits(m[0]) if compressed else 128 for m in sent], [128, 128]

    compare(algorithm, reference, layout)


@pytest.mark.parametrize("how", ["sign", "true-gradient", "own", "received", "lossy"])
def test_algorithm_3(layout, how):
    l1, l2, epsilon, compressed = 0.3, 2.5, 0.06, how in ("own", "received", "lossy")
    rule = "true-gradient" if how == "true-gradient" else "sign"
    kept = "received" if how == "received" else "own"
    algorithm = algorithms.FedElasticNetDyn(l1, l2, rule, epsilon, kept)
    algorithm = algorithms.Compressed(algorithm, TOP, feedback=how != "lossy") if compressed else algorithm

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
        after |= OTHERS | {"residuals": left if how != "lossy" else None} if compressed else {}
        return after, sent, [top_bits(m[0]) if compressed else 128 * len(m) for m in sent], [128, 128]

    compare(algorithm, reference, layout)


# --- before round 1 -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("algorithm", "as_x", "per_client_x"),
    [
        (algorithms.Compressed(algorithms.FedAvg(), TOP, TOP), [], []),
        (algorithms.Compressed(algorithms.Scaffold(), TOP), [], []),
        (algorithms.Compressed(algorithms.FedElasticNetProx(1, 1), TOP), [], []),
        (algorithms.Compressed(algorithms.FedElasticNetScaffold(1, 1), TOP), [], []),
        (algorithms.Compressed(algorithms.FedElasticNetDyn(1, 1), TOP), [], ["local"]),
        (algorithms.Compressed(algorithms.FedDyn(1), TOP), [], []),
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
    """Models are the start everywhere, what adds up is 0, debts are a dense model; all lie in the start's library."""
    x = np.array([[0.4, -1.5, 1.5, 2.0], [2.5, 0.3, -0.7, 0.2]])
    state = algorithm.init(x, N)._asdict()
    for name, leaf in algorithm.init(array_api_strict.asarray(x), N)._asdict().items():
        assert leaf is None or type(leaf) is type(array_api_strict.asarray(x)), name
    for name, leaf in state.items():
        if leaf is None:
            assert name in OTHERS and isinstance(algorithm, algorithms.Compressed)
        elif name in ("x", *as_x):
            np.testing.assert_array_equal(leaf, x)
        elif name in per_client_x:
            np.testing.assert_array_equal(leaf, np.repeat(x[:, None, :], N, axis=1))
        elif name == "missed_bits":
            np.testing.assert_array_equal(leaf, np.full((2, N), 256))
        elif name == "alpha":
            np.testing.assert_array_equal(leaf, np.full((2, N, 1), 0.4))
        else:
            shape = {"total": (2, 1)}.get(name, (2, 4) if name in ("c", "h", "s", "server_residual") else (2, N, 4))
            np.testing.assert_array_equal(leaf, np.zeros(shape))
