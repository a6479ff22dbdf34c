"""A round of every method on three parabolas, in fractions, and the conditions of every cohort."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from parabolas_at_hand import (
    CLIENTS,
    CURVATURE,
    LOWEST,
    OfClients,
    OfTree,
    loss,
    mean,
    mean_loss,
    mean_slope,
    prox,
    slope,
)

from fedtheory.errors import InvalidInput
from fedtheory.problems import Quadratic
from fedtheory.worst_cases.bounds import asked
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.functions import WorstFunction
from fedtheory.worst_cases.runs import Run
from fedtheory.worst_cases.tree import Tree

START, ALL = F(5), range(CLIENTS)
SHARP = Losses(None, lipschitz=F(2))


def page(method, options, K=1, rounds=1, clients=CLIENTS, participants=CLIENTS, losses=None):
    """The round of a method of the package on vectors."""
    made = asked(method, options, K, rounds, losses=losses, clients=clients, participants=participants)
    return made.subject.page(clients, participants)


def l1_solve(k, x, stored, l2, lam):
    """argmin of f_k - stored y + l2/2 (y - x)^2 + lam |y - x| and lam times the subgradient."""
    for p in (lam, -lam):
        y = prox(k, x, p - stored, l2)
        if (y - x) * p > 0:
            return y, p
    return x, stored - slope(k, x)


def fedavg(x, kept, cohort, o, K):
    ends = []
    for k in ALL:
        y = x
        for _ in range(K):
            y = y - o["step"] * slope(k, y)
        ends.append(y)
    return mean(ends[k] for k in cohort), kept, {}


def local_steps(k, x, factor, stored, step, K):
    y = x
    for _ in range(K):
        y = y - step * (slope(k, y) - stored + factor * (y - x))
    return y


def fedprox(x, kept, cohort, o, K):
    if "step" in o:
        ends = [local_steps(k, x, o["mu"], 0, o["step"], K) for k in ALL]
    else:
        ends = [prox(k, x, F(0), o["mu"]) for k in ALL]
    return mean(ends[k] for k in cohort), kept, {}


def feddyn(x, kept, cohort, o, K):
    alpha = o["alpha"]
    if "step" in o:
        ends = [local_steps(k, x, alpha, kept[k], o["step"], K) for k in ALL]
    else:
        ends = [prox(k, x, -kept[k], alpha) for k in ALL]
    kept = [kept[k] - alpha * (ends[k] - x) if k in cohort else kept[k] for k in ALL]
    return mean(ends[k] for k in cohort) - mean(kept) / alpha, kept, {}


def fedelasticnet_dyn(x, kept, cohort, o, K):
    both = [l1_solve(k, x, kept[k], o["l2"], F(3, 4)) for k in ALL]
    ends, pulls = [y for y, _ in both], [p for _, p in both]
    kept = [slope(k, ends[k]) if k in cohort else kept[k] for k in ALL]
    return mean(ends[k] for k in cohort) - mean(kept) / o["l2"], kept, {"p": pulls}


def scaffold(x, kept, cohort, o, K):
    drift, ends = mean(kept), []
    for k in ALL:
        y = x
        for _ in range(K):
            y = y - o["step"] * (slope(k, y) - kept[k] + drift)
        ends.append(y)
    turned = [kept[k] - drift + (x - ends[k]) / (K * o["step"]) for k in ALL]
    kept = [turned[k] if k in cohort else kept[k] for k in ALL]
    return mean(ends[k] for k in cohort), kept, {}


def subgradient(x, kept, cohort, o, K):
    return x - o["step"] * mean(slope(k, x) for k in cohort), kept, {}


def name_of(method):
    return method.__name__.replace("_", "-")


CASES = [
    (fedavg, {"step": F(1, 4)}, 3), (fedprox, {"mu": F(2)}, 1),
    (fedprox, {"mu": F(2), "step": F(1, 5)}, 3), (feddyn, {"alpha": F(3, 2)}, 1),
    (feddyn, {"alpha": F(3, 2), "step": F(1, 5)}, 2), (fedelasticnet_dyn, {"l2": F(3, 2)}, 1),
    (scaffold, {"step": F(1, 4)}, 3), (subgradient, {"step": F(1, 4)}, 1),
]  # fmt: skip


@pytest.mark.parametrize(("rounds", "participants"), [(2, 2), (2, 1), (3, 3)])
@pytest.mark.parametrize(("method", "options", "K"), CASES)
def test_every_history_of_cohorts(method, options, K, rounds, participants):
    """Every model, and the expected distance, gap and gradient, of all cohorts in all rounds."""
    tree = Tree(CLIENTS, participants)
    models = tree.walk(page(name_of(method), options, K, rounds, participants=participants), rounds)
    gap, gradient = tree.gap("end", models[-1]), tree.squared_gradient("turned", models[-1])
    numbers = {("x0", -1, ()): START} | {("g*", k, ()): slope(k, F(0)) + 2 for k in ALL}
    level = {(): (START, [F(0)] * CLIENTS)}
    ends = [{(): START}]
    for t in range(rounds):
        after = {}
        for history, (x, kept) in level.items():
            for cohort in combinations(ALL, participants):
                model, new, more = method(x, kept, cohort, options, K)
                after[*history, cohort] = (model, new)
                for name, row in more.items():
                    numbers |= {(f"{name}{t}", k, history): row[k] for k in ALL}
        level = after
        ends.append({history: x for history, (x, _) in level.items()})
    found = OfTree(tree, numbers)
    for made, by_hand in zip(models, ends, strict=True):
        assert {h: [found.of(row) for row in each.rows] for h, each in made.items()} == {
            h: [x] * CLIENTS for h, x in by_hand.items()
        }
    last = list(ends[-1].values())
    assert found.form(tree.square(models[-1])) == mean(x * x for x in last)
    assert found.form(gap) == mean(mean_loss(x) - mean_loss(F(0)) for x in last)
    assert found.form(gradient) == mean(mean_slope(x) ** 2 for x in last)
    assert found.form(tree.heterogeneity()) == mean(slope(k, F(0)) ** 2 for k in ALL)


def test_conditions_on_the_losses_one_of_each_orbit():
    """Client 0 of three is asked at *, first, and after 01, 02 and 12; that 1 and 2 change places
    leaves 6 of the 20 pairs as they are, and two make one of the other 14: 13, and 4 of one point.

    What is required after 12 is so of one within the cohort and of one outside.
    """
    tree = Tree(CLIENTS, 2)
    models = tree.walk(page("fedavg", {"step": F(1, 4)}, participants=2), 2)
    tree.require("move", tree.start, tree.vector("g1.0"))
    made = dict(tree.of_losses(Losses(F(1), F(0), F(4))))
    after = [" after 01", " after 12"]
    single = ["* of 0", "g0.0 of 0", *(f"g1.0 of 0{cohort}" for cohort in after)]
    assert {name for name in made if name[0] in "|<"} == {f"|{name}|" for name in single} | {
        f"<move of 0{cohort}>" for cohort in after
    }
    assert len(made) == 13 + 4 + 2
    found = OfTree(tree, {("x0", -1, ()): START} | {("g*", k, ()): slope(k, F(0)) for k in ALL})
    at = {"* of 0": F(0), "g0.0 of 0": START}
    for cohort in combinations(ALL, 2):
        name = f"g1.0 of 0 after {cohort[0]}{cohort[1]}"
        at[name] = fedavg(START, 0, cohort, {"step": F(1, 4)}, 1)[0]
    for name, condition in made.items():
        if name[0] == "|":
            expected = 16 - slope(0, at[name[1:-1]]) ** 2
        elif name[0] == "<":
            continue
        else:
            x, y = (at[of] for of in name.split(", "))
            g, h = slope(0, x), slope(0, y)
            expected = loss(0, x) - loss(0, y) - h * (x - y) - (g - h) ** 2 / 2
        assert found.form(condition) == expected
    assert found.form(made["<move of 0 after 12>"]) == START * slope(0, at["g1.0 of 0 after 12"])
    assert len(models[2]) == 9


@pytest.mark.parametrize(
    ("clients", "participants", "asked", "size"),
    [(3, 2, (2, 1, 0), 10), (3, 2, (2, 2, 1), 153), (4, 2, (3, 1, 0), 44 * 43 // 6),
     (2, 1, (3, 2, 1), 23 * 22), (3, 1, (1, 1, 1), 10)],
)  # fmt: skip
def test_how_many_conditions_there_are_at_least(clients, participants, asked, size):
    """Rounds, points a history, and at the end: 1 + asked (1 + C + ... ) + ends C^T points."""
    assert Tree(clients, participants).size(*asked) == size


def walked(method, run, rounds, options, losses=None):
    """The model after some rounds, and the method's state."""
    x, state = run.start, None
    turn = page(method, options, 1, rounds, losses=losses)
    for t in range(rounds):
        x, state = turn(run, t, x, state)
    return x, state


def test_what_is_known_of_the_subgradients_of_l1():
    """lambda_1 |m| = p m is at least q m for q = 0, all rounds' p, means, and minus these."""
    run, l2, x, kept = Run(), F(3, 2), START, [F(0)] * CLIENTS
    end, _ = walked("fedelasticnet-dyn", run, 3, {"l2": l2})
    pulls, moves = {}, {}
    for t in range(3):
        both = [l1_solve(k, x, kept[k], l2, F(3, 4)) for k in ALL]
        pulls[t], moves[t] = tuple(p for _, p in both), [y - x for y, _ in both]
        x, kept, _ = fedelasticnet_dyn(x, kept, ALL, {"l2": l2}, 1)
    assert any(abs(p) < F(3, 4) for t in pulls for p in pulls[t])
    more = {f"p{t}": pulls[t] for t in pulls} | {"x0": (START,) * CLIENTS}
    found = OfClients(list(run.points.values()), more)
    assert found.of(end) == (x,) * CLIENTS
    at_least = {f"p{t}, 0": mean(p * m for p, m in zip(pulls[t], moves[t])) for t in range(3)}
    for t, s in product(range(3), repeat=2):
        middle = (mean(pulls[s]),) * CLIENTS
        for sign, word in ((1, ""), (-1, "minus ")):
            for of, row in (("mean ", middle), ("", pulls[s])):
                if of or s != t:
                    parts = [(p - sign * q) * m for p, q, m in zip(pulls[t], row, moves[t])]
                    at_least[f"p{t}, {word}{of}p{s}"] = mean(parts)
    assert {name: found.form(q) for name, q in run.conditions.items()} == at_least
    assert min(at_least.values()) >= 0


def slide(k, z, linear, beta, T):
    """The local problem of FedMLS around z: solved, or T steps of 1/((1 + t/2) beta)."""
    if T is None:
        return (prox(k, z, linear, beta),) * 2
    u = average = z
    for t in range(1, T + 1):
        u = u - (slope(k, u) + beta * (u - z) + linear) * 2 / ((2 + t) * beta)
        average = average + F(2 * (t + 1), t * (t + 3)) * (u - average)
    return u, average


def sliding(start, rounds, lam, clients, steps, project=lambda z: z):
    """FedMLS, or MOPES for one client: the last model, and every z with its normal."""
    x = z = start
    own, path = [(start, start) for _ in clients], []
    for k in range(1, rounds + 1):
        gamma, beta = F(2, k + 1), 4 / (lam * k)
        y = x + gamma * (z - x)
        local = [a + gamma * (b - a) for a, b in own]
        turned = z + F(k, 4) * (mean(local) - y)
        z = project(turned)
        path.append((z, turned - z))
        x = x + gamma * (z - x)
        for i, c in enumerate(clients if k < rounds else ()):
            last, average = slide(c, own[i][1], (local[i] - y) / lam, beta, steps and steps[k - 1])
            own[i] = (own[i][0] + gamma * (average - own[i][0]), last)
    return x, path


@pytest.mark.parametrize("D", [None, F(16)])
def test_fedmls_on_three_parabolas(D):
    """T_k = ceil(4 G^2 lambda^2 K k^2/(2 D)) = ceil(k^2/2): G = 2, lambda = 1/2, K = 4, D = 16."""
    lam, options = F(1, 2), {} if D is None else {"D": D}
    run = Run()
    end, _ = walked("fedmls", run, 4, {"lam": lam, **options}, SHARP)
    found = OfClients(list(run.points.values()), {"x0": (START,) * CLIENTS})
    x, _ = sliding(START, 4, lam, ALL, D and (1, 2, 5))
    assert found.of(end) == (x,) * CLIENTS


def of_parabolas(question):
    """A worst function whose losses are the three parabolas, in coordinates from the start."""
    rows = [([[float(a)]], [float(b - START)]) for a, b in zip(CURVATURE, LOWEST)][:CLIENTS]
    problem, optimum = Quadratic(*zip(*rows)), np.array([-float(START)])
    found: Any = SimpleNamespace(question=question, asked=question.asked)
    return WorstFunction(found, problem, optimum, 0.0, {}, {})


def asked_of(method, options, K, rounds, participants, criterion="gap", losses=None, clients=CLIENTS):
    zeta = None if losses is SHARP else F(9)
    return asked(
        method, options, K, rounds, criterion, losses or Losses(), zeta, START, clients, participants
    )  # fmt: skip


@pytest.mark.parametrize("participants", [3, 2])
@pytest.mark.parametrize(("method", "options", "K"), [c for c in CASES if c[0] != fedelasticnet_dyn])
def test_runs_of_the_package_over_every_history(method, options, K, participants):
    """All models, and each criterion in the mean over nine histories, or of everybody's one."""
    level, ends = {(): (START, [F(0)] * CLIENTS)}, {(): [START]}
    for _ in range(2):
        after = {}
        for (history, (x, kept)), cohort in product(
            level.items(), combinations(ALL, participants)
        ):
            model, new, _ = method(x, kept, cohort, options, K)
            after[*history, cohort] = (model, new)
            ends[*history, cohort] = [*ends[history], model]
        level = after
    paths = [ends[history] for history in level]
    gaps = [mean(mean_loss(p[t]) - mean_loss(F(0)) for p in paths) for t in range(3)]
    by_hand = {
        "gap": gaps[2], "best-gap": min(gaps[:2]), "distance": mean(p[2] ** 2 for p in paths),
        "gradient": mean(mean_slope(p[2]) ** 2 for p in paths),
    }  # fmt: skip
    for criterion, number in by_hand.items():
        losses = SHARP if method is subgradient else None
        given = name_of(method), options, K, 2
        made = of_parabolas(asked_of(*given, participants, criterion, losses))
        assert made.measured() == pytest.approx(float(number), rel=1e-12)
        if participants == CLIENTS:  # everybody's worst case is that of two clients
            of_two = of_parabolas(asked_of(*given, 2, criterion, losses, clients=2))
            assert of_two.measured() == made.measured()
    models = made.models()[:, :, 0] + float(START)
    assert made.ways == len(paths) == len(models) and models.shape[1] == 3
    assert sorted(map(tuple, models.round(9))) == [
        pytest.approx(path, abs=1e-8) for path in sorted([float(x) for x in p] for p in paths)
    ]


def test_fedmls_of_the_package_on_three_parabolas():
    """With as many local steps as `test_fedmls_on_three_parabolas`."""
    lam = F(1, 2)
    question = asked_of("fedmls", {"lam": lam, "D": F(16)}, 1, 4, 3, "distance", SHARP)
    x, _ = sliding(START, 4, lam, ALL, (1, 2, 5))
    assert of_parabolas(question).measured() == pytest.approx(float(x * x), rel=1e-9)


def test_how_many_ways_to_draw_cohorts_are_run():
    """3 of 3 is one way in any number of rounds; 2 of 3 are 3^9 = 19,683 in nine, three times that
    in ten. Twenty thousand are run and no more.
    """
    step = {"step": F(1, 2)}
    assert of_parabolas(asked_of("fedavg", step, 1, 12, 3)).ways == 1
    assert of_parabolas(asked_of("fedavg", step, 1, 9, 2)).ways == 19_683
    with pytest.raises(InvalidInput, match="59,049 ways to draw the cohorts: at most 20,000 are"):
        of_parabolas(asked_of("fedavg", step, 1, 10, 2)).models()
    made = of_parabolas(asked_of("fedavg", step, 1, 1, 1, clients=20_000))
    assert made.models().shape == (20_000, 2, 1)
    made = of_parabolas(asked_of("fedavg", step, 1, 1, 1, clients=20_001))
    with pytest.raises(InvalidInput, match="20,001 ways"):
        made.models()


@pytest.mark.parametrize("D", [None, F(16)])
def test_mopes_on_a_half_line(D):
    """The loss falls towards -6, the set begins at its optimum 0, and the start is 1; T_k as above.

    What is required are normals of the set: <n, z' - z> <= 0 for z' of the set.
    """
    lam, options = F(1, 2), {} if D is None else {"D": D}
    run = Run(one_loss=True)
    end, _ = walked("mopes", run, 4, {"lam": lam, **options}, SHARP)
    x, path = sliding(F(1), 4, lam, [3], D and (1, 2, 5), lambda z: max(z, F(0)))
    assert [n < 0 for _, n in path] == [False, False, True, True]
    of_one = {"slope": lambda _, x: slope(3, x), "loss": lambda _, x: loss(3, x), "clients": 1}
    more = {f"n{k}": (n,) for k, (_, n) in enumerate(path, 1)} | {"x0": (F(1),)}
    found = OfClients(list(run.points.values()), more, **of_one)
    assert found.of(end) == (x,)
    inside = {f"z{k}": z for k, (z, _) in enumerate(path, 1)}
    normals = {f"z{k}": n for k, (_, n) in enumerate(path, 1)}
    required = {"*, x0": slope(3, F(0))}
    for name, z in inside.items():
        for other, where in (("x0", F(1)), ("*", F(0)), *inside.items()):
            if other != name:
                required[f"{name}, {other}"] = normals[name] * (z - where)
        required[f"*, {name}"] = -slope(3, F(0)) * (0 - z)
    assert {name: found.form(q) for name, q in run.conditions.items()} == required
    assert {key[0] for q in run.conditions.values() for key in q.gram} == {"mean"}


def test_a_method_whose_last_round_keeps_nothing_is_asked_less():
    """x_K of FedMLS does not depend on the last local training: K - 1 of them, and the optimum."""
    for rounds in (1, 2, 4):
        run = Run()
        walked("fedmls", run, rounds, {"lam": F(1)})
        assert len(run.points) == rounds


def test_a_tree_of_up_to_six_clients():
    assert len(Tree(6, 1).group) == 720
    with pytest.raises(InvalidInput, match="clients = 7: a tree of cohorts is computed for at mo"):
        Tree(7, 1)
