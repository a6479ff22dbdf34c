"""Rounds from states in general position against plain loops: Mime, VRL-SGD, FedGATE, APFL, FedAMP, Elastic Aggregation, FedMLS."""

from __future__ import annotations

import math

import numpy as np
import pytest
from general_round import (
    LR,
    PROBLEM,
    SHARE,
    STEPS,
    TOP,
    D,
    N,
    S,
    agree,
    averaged,
    compare,
    grad,
    in_general_position,
    played,
    top,
    top_bits,
    work,
)

from fedtheory import algorithms, problems
from fedtheory.clients.sensitivity import client_sensitivity
from fedtheory.local import SubgradientSliding
from fedtheory.participation.cohorts import Cohort


# --- Mime, VRL-SGD, FedGATE, APFL, FedAMP ---------------------------------------------------------
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
        after |= {} if compressor is None else dict.fromkeys(("residuals", "server_residual", "missed_bits"))
        return after, [[m] for m in sent.values()], [top_bits(m) if compressor else 128 for m in sent.values()], [256, 256]

    plain = algorithms.FedGATE(gamma)
    compare(plain if compressor is None else algorithms.Compressed(plain, compressor), reference, layout)


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


# --- Elastic Aggregation, the subgradient method, FedMLS ------------------------------------------
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
