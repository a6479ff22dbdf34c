"""One round of every potential on three parabolas, in fractions: its parts, and their sum."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations

import pytest
from parabolas_at_hand import (
    CLIENTS,
    CURVATURE,
    LOWEST,
    OfClients,
    loss,
    mean,
    mean_loss,
    mean_slope,
    prox,
    slope,
)

from fedtheory.worst_cases.potentials import family_of, question
from fedtheory.worst_cases.rounds import ROUNDS
from fedtheory.worst_cases.runs import spread

X, ALL = F(5), range(CLIENTS)
KEPT = (F(2), F(-1), F(4))
OPTIMAL = tuple(slope(k, F(0)) for k in ALL)
L, MU = F(3), F(1, 4)


def squares(row):
    return mean(x * x for x in row)


def over_cohorts(participants, what):
    """The mean over all cohorts."""
    return mean(what(c) for c in combinations(ALL, participants))


def asked_of(method, **given):
    plain = {"clients": CLIENTS, "smoothness": L, "strong_convexity": MU}
    return question(method, **{**plain, **given})


def made(asked, more=()):
    """The round and its numbers."""
    round_ = ROUNDS[asked.method].round(asked.asked)
    return round_, OfClients(round_.points, dict(more) | {"x": (X,) * CLIENTS})


def local(step, K, variates=(F(0),) * CLIENTS):
    """Every client's K + 1 points and its gradients at the first K."""
    paths, seen = [], []
    for k in ALL:
        path, gradients = [X], []
        for _ in range(K):
            gradients.append(slope(k, path[-1]))
            path.append(path[-1] - step * (gradients[-1] - variates[k] + mean(variates)))
        paths.append(path), seen.append(gradients)
    return paths, seen


def after_of(paths, participants):
    return over_cohorts(participants, lambda c: mean(paths[k][-1] for k in c) ** 2)


@pytest.mark.parametrize("participants", [1, 2, 3])
@pytest.mark.parametrize("K", [1, 3])
def test_fedavg(K, participants):
    step = F(1, 10)
    mine = {"local_steps": K, "participants": participants, "step": step}
    alone = K == 1 and participants == CLIENTS
    asked = asked_of("fedavg", **mine, **({} if alone else {"kappa_0": F(1, 20)}))
    round_, found = made(asked)
    paths, _ = local(step, K)
    assert found.form(round_.now) == X * X
    assert found.form(round_.after) == after_of(paths, participants)
    averages = [mean(path[j] for path in paths) for j in range(K)]
    assert found.form(round_.gain) == mean(mean_loss(x) - mean_loss(F(0)) for x in averages)
    assert (round_.noise is None) is alone
    assert alone or found.form(round_.noise) == squares(OPTIMAL)
    assert not round_.more and round_.memory is None and found.form(round_.last) == 0
    assert [p.name for p in round_.points if p.name != "*"] == [
        name for j in range(K) for name in ([f"mean {j}", f"y{j}"] if j else ["y0"])
    ]


@pytest.mark.parametrize("participants", [1, 3])
@pytest.mark.parametrize("K", [1, 3])
def test_fedavg_where_gradients_differ_by_a_bounded_factor(K, participants):
    """Its noise is 1, and mean ||grad f_k(x)||^2 at most 1 + 2 L B^2 (F(x) - F*)."""
    step, B = F(1, 10), F(4, 3)
    mine = {"local_steps": K, "participants": participants, "step": step, "B": B}
    round_, found = made(asked_of("fedavg", **mine, kappa_0=F(1, 20)))
    paths, seen = local(step, K)
    gain = mean_loss(X) - mean_loss(F(0))
    assert found.form(round_.now) == X * X and found.form(round_.gain) == gain
    assert found.form(round_.after) == after_of(paths, participants)
    assert found.form(round_.noise) == 1 and set(round_.more) == {"dissimilarity"}
    at_x = squares(gradients[0] for gradients in seen)
    assert found.form(round_.more["dissimilarity"]) == at_x - 1 - 2 * L * B**2 * gain
    assert [p.name for p in round_.points if p.name != "*"] == [f"y{j}" for j in range(K)]


def test_what_fedavgs_inequality_is_said_to_be():
    plain, bounded = (ROUNDS["fedavg"].says(o) for o in ({"step": F(1)}, {"step": F(1), "B": F(2)}))
    assert plain[0] == "E V+ <= rho V - kappa_0 D + c zeta^2" and "zeta^2 = mean" in plain[1]
    assert bounded[0] == "E V+ <= rho V - kappa_0 D + c G^2" and "<= G^2 + 2 L B^2" in bounded[1]


@pytest.mark.parametrize("participants", [1, 2, 3])
@pytest.mark.parametrize("K", [1, 3])
def test_scaffold(K, participants):
    step = F(1, 10)
    round_, found = made(
        asked_of("scaffold", local_steps=K, participants=participants, step=step), {"c": KEPT}
    )
    paths, seen = local(step, K, KEPT)
    assert found.form(round_.now) == X * X and round_.noise is None and not round_.more
    assert found.form(round_.after) == after_of(paths, participants)
    assert found.form(round_.gain) == mean_loss(X) - mean_loss(F(0))

    def kept(cohort):
        return [mean(seen[k]) if k in cohort else KEPT[k] for k in ALL]

    before, then = (found.form(q) for q in round_.memory)
    assert before == squares(c - g for c, g in zip(KEPT, OPTIMAL, strict=True))
    assert then == over_cohorts(
        participants, lambda c: squares(x - g for x, g in zip(kept(c), OPTIMAL, strict=True))
    )


@pytest.mark.parametrize("K", [1, 3])
def test_efl(K):
    """G^2 = 1 bounds the clients' mean squared gradients at every local model."""
    step = F(1, 10)
    round_, found = made(
        asked_of("efl", local_steps=K, step=step), {"w_k*": tuple(LOWEST[:CLIENTS])}
    )
    paths, seen = local(step, K)
    assert found.form(round_.now) == X * X and found.form(round_.after) == after_of(paths, 3)
    assert found.form(round_.gain) == mean_loss(X) - mean_loss(F(0))
    mean_squares = {f"G {j}": squares(g[j] for g in seen) - 1 for j in range(K)}
    assert {name: found.form(q) for name, q in round_.more.items()} == mean_squares
    D = mean(loss(k, F(0)) for k in ALL)  # their own least values are 0
    of_g = (2 + MU / (4 * L)) * K * (K - 1) * K + 2 * K * K
    assert found.form(round_.noise) == step**2 * (6 * L * K * D + of_g)


@pytest.mark.parametrize("participants", [1, 2, 3])
def test_fedprox(participants):
    """E F after at most what L-smoothness says from the mean over all clients."""
    mu, B = F(7), F(4, 3)
    asked = asked_of("fedprox", participants=participants, mu=mu, B=B)
    round_ = ROUNDS["fedprox"].round(asked.asked)
    found = OfClients(round_.points, {"x": (X,) * CLIENTS})
    ends = [prox(k, X, F(0), mu) for k in ALL]
    middle = mean(ends)
    away = over_cohorts(participants, lambda c: (mean(ends[k] for k in c) - middle) ** 2)
    assert found.form(round_.now) == mean_loss(X)
    assert found.form(round_.after) == mean_loss(middle) + L / 2 * away
    assert found.form(round_.gain) == mean_slope(X) ** 2
    at_x = squares(slope(k, X) for k in ALL)
    assert {name: found.form(q) for name, q in round_.more.items()} == {
        "dissimilarity": at_x - B**2 * mean_slope(X) ** 2
    }


@pytest.mark.parametrize("participants", [1, 2, 3])
@pytest.mark.parametrize("method", ["feddyn", "fedelasticnet-dyn"])
def test_feddyn_less_the_tangents_at_the_optimum(method, participants):
    """f_k less its tangent is a_k x^2/2 + const. gamma = theta + mean g/lambda_2; g_k that at z.

    Local problems are argmin a_k y^2/2 - g_k y + lambda_2/2 (y - theta)^2 (+ p_k y).
    """
    ratio, gamma = F(3, 2), X
    z = (F(2), F(-1), F(4))
    stored = tuple(CURVATURE[k] * z[k] for k in ALL)
    pull = (F(1, 2), F(-1, 3), F(1, 5)) if method == "fedelasticnet-dyn" else (F(0),) * CLIENTS
    asked = question(method, clients=CLIENTS, participants=participants, ratio=ratio)
    round_ = ROUNDS[method].round(asked.asked)
    flat = lambda k, x: CURVATURE[k] * x  # noqa: E731
    found = OfClients(
        round_.points, {"gamma": (gamma,) * CLIENTS, "z": z, "g": stored, "s": pull},
        flat, lambda k, x: CURVATURE[k] * x * x / 2 + k + 7,
    )  # fmt: skip
    theta = gamma - mean(stored) / ratio
    ends = [(stored[k] + ratio * theta - pull[k]) / (CURVATURE[k] + ratio) for k in ALL]
    new = [flat(k, ends[k]) for k in ALL]
    assert found.form(round_.now) == gamma**2
    after = over_cohorts(participants, lambda c: mean(ends[k] for k in c) ** 2)
    assert found.form(round_.after) == after
    assert found.form(round_.gain) == mean(CURVATURE[k] * gamma**2 / 2 for k in ALL)
    before, then = (found.form(q) for q in round_.memory)
    assert before == squares(stored)
    assert then == over_cohorts(
        participants, lambda c: squares(new[k] if k in c else stored[k] for k in ALL)
    )
    if method == "feddyn":
        assert not round_.more and found.form(round_.last) == 0
    else:
        moved = mean(p * (y - theta) for p, y in zip(pull, ends, strict=True))
        assert {name: found.form(q) for name, q in round_.more.items()} == {"s": -moved}
        assert found.form(round_.last) == 2 / ratio * gamma * mean(pull)
    assert [p.name for p in round_.points] == ["*", "z", "local", "gamma"]


@pytest.mark.parametrize(
    ("method", "given", "signed"),
    [
        ("fedavg", {"kappa_0": F(1, 9)}, {"minus c"}), ("fedavg", {"c": F(1, 9)}, {"kappa_0"}),
        ("scaffold", {}, {"kappa_0"}), ("fedelasticnet-dyn", {}, {"kappa_0"}),
        ("fedprox", {}, {"kappa_0"}), ("efl", {"c": F(1, 7)}, {"kappa_0"}),
    ],
)  # fmt: skip
def test_the_identity_is_what_is_claimed(method, given, signed):
    """rho V - kappa_0 D + c noise - E V+ less multiples of what is at least 0, from its parts."""
    plain = {} if method == "fedelasticnet-dyn" else {"smoothness": L}
    rho = 1 if method == "fedprox" else F(7, 8)
    steps = {} if method in ("fedelasticnet-dyn", "fedprox") else {"local_steps": 2, "step": F(1, 10)}
    ratio = {"ratio": F(2)} if method == "fedelasticnet-dyn" else {}
    asked = question(method, clients=CLIENTS, rho=rho, **plain, **steps, **ratio, **given)
    round_, family = ROUNDS[method].round(asked.asked), asked.family
    losses = asked.losses.conditions(round_.points)
    numbers = {name: F(3 + i, 11) for i, name in enumerate(family.terms)}
    kappa_0, kappa, c = (
        given.get(name, numbers.get(name, F(0))) for name in ("kappa_0", "kappa", "c")
    )
    c = -numbers["minus c"] if "minus c" in numbers else c
    by_hand = rho * round_.now - round_.after - round_.last - kappa_0 * round_.gain
    if round_.memory is not None:
        by_hand = by_hand + kappa * (rho * round_.memory[0] - round_.memory[1])
    if round_.noise is not None:
        by_hand = by_hand + c * round_.noise
    for name, condition in losses.items():
        by_hand = by_hand - numbers[name] * condition
    for name, below in round_.more.items():
        by_hand = by_hand + numbers[name] * below
    assert family.at(numbers) == by_hand
    assert family.signed == signed


@pytest.mark.parametrize("method", ["feddyn", "fedelasticnet-dyn"])
def test_the_identity_that_is_proved_for_symbols_is_the_one_that_is_asked(method):
    asked = question(method, clients=5, participants=2, ratio=F(7, 4))
    l1 = method == "fedelasticnet-dyn"
    assert family_of(F(7, 4), spread(5, 2), F(2, 5), l1) == asked.family


@pytest.mark.parametrize("K", [1, 3])
def test_one_client_or_everybody_in_one_step_descends_on_F(K):
    """Nothing stands beside kappa_0 then; one client's vectors do not deviate from their mean."""
    asked = question("fedavg", clients=1, local_steps=K, step=F(1, 10))
    assert ROUNDS["fedavg"].round(asked.asked).noise is None and not asked.fixed
    forms = [asked.family.start, *asked.family.terms.values()]
    assert {key[0] for q in forms for key in q.gram} == {"mean"}
    many = question("fedavg", clients=2, local_steps=K, step=F(1, 10))
    assert (ROUNDS["fedavg"].round(many.asked).noise is None) is (K == 1)
    forms = [many.family.start, *many.family.terms.values()]
    assert {key[0] for q in forms for key in q.gram} == {"mean", "deviation"}
    bounded = question("fedavg", clients=1, local_steps=K, step=F(1, 10), B=F(2))
    assert ROUNDS["fedavg"].round(bounded.asked).noise is not None
