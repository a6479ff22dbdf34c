"""Potentials of FedAvg, SCAFFOLD, FedProx and EFL: PEPit with a function for every client, random rounds, and what is printed."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations

import numpy as np
import pytest

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.worst_cases import certificates as files
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import common, own, square, value
from fedtheory.worst_cases.literature import printed
from fedtheory.worst_cases.potentials import BISECTIONS, WeaklyConvex, one_round, question
from fedtheory.worst_cases.programme import check, optimum
from fedtheory.worst_cases.rounds import KAPPA_0, ROUNDS, Round
from fedtheory.worst_cases.runs import Run

ASKED = {
    "fedavg": dict(local_steps=3, step=F(1, 6)),
    "fedavg, a cohort": dict(local_steps=2, step=F(1, 6), clients=4, participants=2, kappa_0=F(1, 4)),
    "fedavg, c given": dict(local_steps=2, step=F(1, 4), c=F(1, 60)),
    "fedavg, bounded": dict(local_steps=2, step=F(1, 40), clients=4, participants=3, strong_convexity=F(1, 5), B=F(2)),
    "scaffold": dict(local_steps=2, step=F(1, 8), clients=4, participants=2),
    "scaffold, strongly": dict(local_steps=2, step=F(1, 8), clients=4, participants=1, strong_convexity=F(1, 5)),
    "fedprox": dict(mu=F(6), B=F(2), clients=4, participants=2),
    "fedprox, not convex": dict(mu=F(4), strong_convexity=F(-1, 2)),
    "efl": dict(local_steps=3, step=F(1, 10), strong_convexity=F(1, 5)),
}


@pytest.fixture(scope="module")
def found():
    return {name: one_round(name.split(",")[0], **asked) for name, asked in ASKED.items()}


@pytest.mark.parametrize("name", ASKED)
def test_they_are_proved(found, name):
    """The certificate is checked in fractions, and the claim lies a millionth from the solver's value."""
    proof = files.certificate(found[name])
    files.verify(proof)
    sought = found[name].c if found[name].question.goal == "minus c" else found[name].kappa_0
    assert float(sought) == pytest.approx(found[name].best, rel=2e-6)
    assert proof.claim == {n: getattr(found[name], n) for n in ("kappa_0", "kappa", "rho", "c")}


# --- closed forms ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("steps", "step"), [(2, F(1, 8)), (3, F(1, 3)), (5, F(1, 5))])
def test_every_number_of_local_steps(steps, step):
    """docs/worst_cases.md's multipliers at kappa_0 = 2 h: what they leave has L D L' with D >= 0, in fractions."""
    s = step**2 * steps * (steps - 1)
    c = step**3 * steps * (steps - 1) * (2 * steps - 1) / (3 * (2 - s))
    family = question("fedavg", local_steps=steps, step=step, kappa_0=2 * steps * step).family
    numbers = {f"*, y{j}": 2 * step for j in range(steps)} | {f"y{j}, mean {j}": 2 * step for j in range(1, steps)} | {"minus c": -c}
    check(family, numbers)
    with pytest.raises(NotCertified):
        check(family, numbers | {"minus c": -c * F(9, 10)} if steps == 2 else numbers | {"minus c": -c / 2})


@pytest.mark.parametrize(("clients", "participants"), [(2, 1), (10, 3), (4, 4)])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("at_x", [True, False])
def test_scaffold_for_every_number_of_local_steps(clients, participants, steps, at_x):
    """docs/worst_cases.md's multipliers at the longest step, in fractions, and not with less kappa.

    D is F(x) - F*, as in the literature, or the mean over the averages of the local models.
    """
    spread, share = F(clients - participants, participants * (clients - 1)), F(participants, clients)
    h = F(3, 5) / (1 + 2 * spread)
    gamma, numbers = h / steps, {}
    if at_x:
        asked = question("scaffold", clients=clients, participants=participants, local_steps=steps, step=gamma, rho=1)
        ours, family = printed(asked)[1], asked.family
        assert ours.outside is None and ours.numbers[KAPPA_0] == 2 * h
        kappa = ours.numbers["kappa"]
    else:
        family = of_the_averages(steps, gamma, spread, share)
        kappa = (2 * spread * h**2 + 2 * h**3 / 3) / share
    for j in range(steps):
        numbers[f"*, y{j}"] = 2 * gamma
        if j:
            numbers[f"y{j}, y0" if at_x else f"y{j}, mean {j}"] = 2 * gamma
    numbers |= {"kappa": kappa, KAPPA_0: 2 * h}
    check(family, numbers)
    if participants < clients:
        with pytest.raises(NotCertified):
            check(family, numbers | {"kappa": kappa / 10})
    assert optimum(family, KAPPA_0) == pytest.approx(float(2 * h), rel=1e-6)


def of_the_averages(steps, gamma, spread, share):
    """SCAFFOLD's round with D the mean of F - F* over the averages of all clients' local models."""
    run, x, kept = Run(), common("x"), own("c")
    y, seen, gain = x, 0 * x, -value("*")
    for j in range(steps):
        if j:
            run.gradient(f"mean {j}", y.average)
        gain = gain + F(1, steps) * value(f"mean {j}" if j else "y0")
        gradient = run.gradient(f"y{j}", y)
        y, seen = y - gamma * (gradient - kept + kept.average), seen + F(1, steps) * gradient
    now, new = (square(v - run.optimum) for v in (kept, seen))
    after = square(y.average) + spread * square(y.own_part)
    points = list(run.points.values())
    return Round(square(x), after, gain, points, (now, now + share * (new - now))).family(Losses())


def test_scaffold_asks_for_a_step_of_its_own():
    asked = dict(clients=10, participants=1, local_steps=2)
    assert printed(question("scaffold", step=F(1, 10), **asked))[1].outside is None
    assert "= 1/10" in printed(question("scaffold", step=F(101, 1000), **asked))[1].outside


def test_sums_of_the_first_few():
    """Sum over j < K of |x_0 + ... + x_{j-1}|^2 <= 5 K^2/12 sum |x_i|^2, with weights K^2 - i^2."""
    for K in range(1, 40):
        weights = [F(K * K - i * i) for i in range(K)]
        for i in range(K):
            counted = sum(sum(weights[:j]) for j in range(i + 1, K))
            rest = 2 * K**3 + 5 * K**2 - 2 * K + 6 * K**2 * i + i * i * (K * K - i * i + 1)
            assert F(5, 12) * K**2 * weights[i] - counted == F(rest, 12) and rest >= 0


def test_one_client_has_no_heterogeneity():
    """Nothing stands beside kappa_0, and it is that of K steps of gradient descent."""
    assert one_round("fedavg", clients=1, local_steps=3, step=F(1, 6)).best == pytest.approx(1, rel=1e-6)


def test_units():
    """With L instead of 1 and a step that is L times smaller kappa_0 is L, and c L^2 times smaller."""
    one, other = (one_round("fedavg", local_steps=2, step=F(1, 4 * L), smoothness=L) for L in (1, 3))
    assert float(one.kappa_0 / other.kappa_0) == pytest.approx(3) and one.best / other.best == pytest.approx(9, rel=1e-5)


@pytest.mark.parametrize("mu", [F(2), F(12)])
def test_fedprox_with_equal_gradients(mu):
    """(2 mu + L)/(2 (mu + L)^2), attained by equal quadratics: x+ = mu x/(mu + L)."""
    value = one_round("fedprox", mu=mu).best
    x, after = F(1), mu / (mu + 1)
    assert value == pytest.approx(float((x**2 - after**2) / 2 / x**2), rel=1e-6)


@pytest.mark.parametrize(("clients", "participants", "step"), [(10, 1, F(1, 5)), (10, 3, F(1, 2)), (4, 4, F(1))])
def test_scaffold_with_one_local_step(clients, participants, step):
    """kappa_0 = 2 h up to h = min(1/(4 spread), 1/(1 + 2 spread))."""
    assert one_round("scaffold", clients=clients, participants=participants, step=step).best == pytest.approx(float(2 * step), rel=1e-6)


def test_the_least_factor():
    """Everybody and one local step is gradient descent: (1 - mu h)^2, and nothing less."""
    told = []
    found = one_round("fedavg", strong_convexity=F(1, 5), step=F(1, 2), rho="least", advance=told.append)
    assert len(told) == BISECTIONS or len(told) == BISECTIONS - 1
    assert F(81, 100) <= found.rho <= F(81, 100) + F(2, 10**6) and found.best == pytest.approx(0.81, abs=2e-7)
    files.verify(files.certificate(found))
    asked = dict(strong_convexity=F(1, 5), step=F(1, 4), local_steps=2, clients=5, participants=2)
    two = one_round("scaffold", rho="least", **asked)
    with pytest.raises(NotCertified, match="Take a smaller step, or rho nearer to 1"):
        one_round("scaffold", rho=two.rho - F(1, 1000), **asked)


# --- what is printed ------------------------------------------------------------------------------------------------------
AT_THE_LIMIT = {
    "fedavg": dict(local_steps=3), "fedavg, bounded": dict(local_steps=2, clients=6, participants=1, B=F(2), step=F(1, 80)),
    "scaffold": dict(local_steps=2, clients=6, participants=2), "fedprox": dict(mu=F(12), clients=1000),
    "scaffold, strongly": dict(local_steps=2, clients=6, participants=2, strong_convexity=F(1, 2)),
    "efl": dict(local_steps=2, strong_convexity=F(1, 10)),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_THE_LIMIT)
def test_what_is_printed_is_true_and_not_best(name):
    """At the largest step that is claimed, with the printed kappa, too; a thousandth more is outside."""
    asked = question(name.split(",")[0], **AT_THE_LIMIT[name])
    row = printed(asked)[0]
    assert row.outside is None
    fixed = {"kappa": row.numbers["kappa"]} if "kappa" in row.numbers else {}
    goal = "minus c" if "c" in row.numbers else "kappa_0"
    if goal == "minus c":
        fixed["kappa_0"] = row.numbers["kappa_0"]
    value = optimum(ROUNDS[asked.method].round(asked.asked).family(asked.losses, row.numbers["rho"], fixed), goal)
    assert value >= (-float(row.numbers["c"]) if goal == "minus c" else float(row.numbers["kappa_0"]))
    if asked.method != "fedprox":
        more = {**AT_THE_LIMIT[name], "step": asked.options["step"] * F(1001, 1000)}
        assert printed(question(asked.method, **more))[0].outside


# --- PEPit ------------------------------------------------------------------------------------------------------------------
NOISE = 1e-2  # the worst case is approached far from x* and not attained: large noise is a hard programme for the solver


def pepit(method, clients, participants, K, numbers, strong=0.0, **options):
    """The largest E V+ - rho V + kappa_0 D where the noise is at most 1 (or V, where there is none)."""
    from PEPit import PEP
    from PEPit.functions import SmoothStronglyConvexFunction

    pep = PEP()
    losses = [pep.declare_function(SmoothStronglyConvexFunction, L=1, mu=strong) for _ in range(clients)]
    mean = sum(losses[1:], losses[0]) / clients
    star, x = mean.stationary_point(), pep.set_initial_point()
    own = [f.gradient(star) for f in losses]
    kept = [pep.set_initial_point() for _ in losses] if method == "scaffold" else [0 * x] * clients
    drift, ends, seen, models = sum(kept[1:], kept[0]) / clients, [], [], [x] * clients
    gap, averages = mean(x) - mean(star), []
    for f, c in zip(losses, kept, strict=True):
        y, total, path = x, 0 * x, []
        for _ in range(K):
            path.append(y)
            g = f.gradient(y)
            y, total = y - options["step"] * (g - c + drift), total + g / K
        ends.append(y), seen.append(total), averages.append(path)
    if method == "fedavg":
        models = [sum((path[j] for path in averages[1:]), averages[0][j]) / clients for j in range(K)]
        gap = sum((mean(m) - mean(star) for m in models[1:]), mean(models[0]) - mean(star)) / K
    cohorts = list(combinations(range(clients), participants))
    after = sum((sum((ends[k] for k in c[1:]), ends[c[0]]) / participants - star) ** 2 for c in cohorts) / len(cohorts)
    now = (x - star) ** 2
    if method == "scaffold":
        share = participants / clients
        before = [(c - g) ** 2 for c, g in zip(kept, own, strict=True)]
        now = now + numbers["kappa"] * sum(before) / clients
        then = [(1 - share) * b + share * (s - g) ** 2 for b, s, g in zip(before, seen, own, strict=True)]
        after = after + numbers["kappa"] * sum(then) / clients
    pep.add_constraint(now <= 1 if method == "scaffold" else sum(g**2 for g in own) / clients <= NOISE)
    pep.set_performance_metric(after - numbers["rho"] * now + numbers["kappa_0"] * gap)
    return pep.solve(verbose=0, solver="CLARABEL")


@pytest.mark.parametrize("name", ["fedavg", "fedavg, a cohort"])
def test_pepit_finds_the_same_c(found, name):
    p, asked = found[name], ASKED[name]
    clients, participants = min(asked.get("clients", 2), 4), asked.get("participants", 2)
    numbers = {"rho": 1.0, "kappa_0": float(p.kappa_0)}
    value = pepit("fedavg", clients, participants, asked["local_steps"], numbers, step=float(asked["step"]))
    assert value / NOISE == pytest.approx(p.best, rel=1e-4)


def test_pepit_finds_that_kappa_0_is_the_largest(found):
    """With the kappa that is proved: nothing above 0 at kappa_0, and something at a hundredth more."""
    p = one_round("scaffold", local_steps=2, step=F(1, 8), clients=2, participants=1, strong_convexity=F(1, 5))
    numbers = {"rho": float(p.rho), "kappa": float(p.kappa), "kappa_0": float(p.kappa_0)}
    assert abs(pepit("scaffold", 2, 1, 2, numbers, strong=0.2, step=1 / 8)) < 1e-6
    numbers["kappa_0"] *= 1.01
    assert pepit("scaffold", 2, 1, 2, numbers, strong=0.2, step=1 / 8) > 1e-4


# --- random rounds ----------------------------------------------------------------------------------------------------------
def quadratics(rng, strong, flat=1.0):
    """Four clients in two dimensions, with curvatures from ``strong`` to 1: values and gradients of all of them at points."""
    turned = np.linalg.qr(rng.normal(size=(4, 2, 2)))[0]
    curvatures = np.stack([np.ones(4), rng.uniform(strong, flat, size=4)], axis=1)
    A, b = np.einsum("kij,kj,klj->kil", turned, curvatures, turned), rng.normal(size=(4, 2))
    star = np.linalg.solve(A.mean(axis=0), b.mean(axis=0))
    return A, b, star


def gradients(A, b, y):
    return np.einsum("kij,kj->ki", A, y) - b


def values(A, b, y):
    return np.einsum("ki,kij,kj->k", y, A, y) / 2 - np.einsum("ki,ki->k", b, y)


def sides(p, A, b, star, x, kept):
    """Both sides of the inequality of one round from x, the expectation over all cohorts of two."""
    q, every = p.question, np.broadcast_to
    gap = lambda z: values(A, b, every(z, (4, 2))).mean() - values(A, b, every(star, (4, 2))).mean()  # noqa: E731
    own, K = gradients(A, b, every(star, (4, 2))), q.local_steps
    cohorts = list(combinations(range(4), q.participants)) if q.clients == 4 else [range(4)]
    if q.method == "fedprox":
        mu = float(q.options["mu"])
        y = np.linalg.solve(A + mu * np.eye(2), (b + mu * x)[..., None])[..., 0]
        slope = gradients(A, b, every(x, (4, 2)))
        if (slope**2).sum(axis=1).mean() > float(q.options["B"]) ** 2 * (slope.mean(axis=0) ** 2).sum():
            return None
        after = np.mean([gap(y[list(c)].mean(axis=0)) for c in cohorts])
        return after, gap(x) - float(p.kappa_0) * (slope.mean(axis=0) ** 2).sum()
    y, total, gaps, longest = np.repeat(x[None], 4, axis=0), np.zeros((4, 2)), [], 0.0
    for _ in range(K):
        g = gradients(A, b, y)
        gaps.append(gap(y.mean(axis=0)))
        longest = max(longest, (g**2).sum(axis=1).mean())
        y, total = y - float(q.options["step"]) * (g - kept + kept.mean(axis=0)), total + g / K
    after = np.mean([((y[list(c)].mean(axis=0) - star) ** 2).sum() for c in cohorts])
    now, gain, noise = ((x - star) ** 2).sum(), gaps[0], 0.0
    if q.method == "scaffold":
        before, then, share = ((kept - own) ** 2).sum(axis=1).mean(), ((total - own) ** 2).sum(axis=1).mean(), q.participants / 4
        now, after = now + float(p.kappa) * before, after + float(p.kappa) * ((1 - share) * before + share * then)
    elif q.method == "efl":
        best = np.linalg.solve(A, b[..., None])[..., 0]
        mu, D = float(q.strong_convexity), (values(A, b, every(star, (4, 2))) - values(A, b, best)).mean()
        noise = float(q.options["step"]) ** 2 * (6 * K * D + ((2 + mu / 4) * K * (K - 1) * K + 2 * K * K) * longest)
    elif "B" in q.options:
        noise = max((gradients(A, b, every(x, (4, 2))) ** 2).sum(axis=1).mean() - 2 * float(q.options["B"]) ** 2 * gain, 0)
    else:
        gain, noise = np.mean(gaps), (own**2).sum(axis=1).mean()
    return after, float(p.rho) * now - float(p.kappa_0) * gain + float(p.c) * noise


@pytest.mark.parametrize("name", [name for name in ASKED if "not convex" not in name])
def test_random_rounds_obey_it(found, name):
    p, rng, judged, tightest = found[name], np.random.default_rng(list(name.encode())), 0, -np.inf
    for _ in range(60):
        A, b, star = quadratics(rng, max(float(p.question.strong_convexity), 0.01))
        x = star + rng.normal(size=2) * 10.0 ** rng.integers(-1, 2)
        kept = rng.normal(size=(4, 2)) if p.question.method == "scaffold" else np.zeros((4, 2))
        got = sides(p, A, b, star, x, kept)
        if got is not None:
            judged += 1
            assert got[0] <= got[1] + 1e-9 * (abs(got[0]) + abs(got[1]))
            tightest = max(tightest, got[0] / got[1])
    assert judged >= 20 and tightest > 0.3


# --- refusals ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("method", "asked", "says"),
    [
        ("mime", {}, "potentials are of feddyn, fedelasticnet-dyn, fedavg"),
        ("scaffold", {"mu": 1}, "mu: no option of scaffold with a potential, which has step"),
        ("scaffold", {"step": 0}, "step = 0: it must be above 0"),
        ("scaffold", {"c": 1}, "has no c here"),
        ("scaffold", {"rho": 0}, "rho = 0"),
        ("scaffold", {"rho": "little"}, "rho = 'little': it must be a finite number"),
        ("scaffold", {"step": float("nan")}, "step = nan: it must be a finite number"),
        ("scaffold", {"smoothness": None}, "smoothness = None"),
        ("scaffold", {"participants": 11}, "at most all take part"),
        ("scaffold", {"local_steps": 100}, "take fewer local steps"),
        ("scaffold", {"step": F(3), "participants": 1}, "no potential of this kind exists"),
        ("feddyn", {}, "lambda_2/beta is needed"),
        ("fedavg", {"local_steps": 2, "rho": "least"}, "give rho as a number"),
        ("fedprox", {"strong_convexity": F(-2)}, "-L <= curvature < L"),
    ],
)
def test_what_is_refused(method, asked, says):
    with pytest.raises((InvalidInput, NotCertified), match=says):
        one_round(method, **asked)


def test_weakly_convex_losses():
    """x^2/2 and -x^2/4 are of the class, -x^2 is not."""
    x = common("x")
    condition = WeaklyConvex(F(1), F(-1, 2)).condition(Point("0", 0 * x, 0 * x), Point("x", x, 0 * x))
    assert condition.values == {"0": 1, "x": -1}
    for curvature, holds in ((F(1), True), (F(-1, 2), True), (F(0), True), (F(-2), False), (F(2), False)):
        at = WeaklyConvex(F(1), F(-1, 2)).condition(Point("0", 0 * x, 0 * x), Point("x", x, curvature * x))
        left = at.gram.get(("mean", "x", "x"), F(0)) - curvature / 2
        assert (left >= 0) == holds
