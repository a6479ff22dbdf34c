"""What is proved of cohorts, cohort by cohort: bounds derived by hand, PEPit on the whole tree, and certificates."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction as F
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from statements_at_hand import sentence

from fedtheory.algorithms import FedAvg, FedProx, Scaffold
from fedtheory.errors import FedTheoryError, NotCertified
from fedtheory.theory import (
    GradientSteps,
    Lipschitz,
    Minimise,
    Smooth,
    SmoothConvex,
    StronglyConvex,
    Uniform,
    form,
    le,
    method,
    potential,
    printed,
)
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.vector_proofs import best_constants, proved
from fedtheory.theory.studies import certificates

FEW = SmoothConvex((2, 3), (1, 2))
QUARTER, WHOLE = (GradientSteps(1, lr=lambda c, by=by: F(1, by) / c.beta) for by in (4, 1))


def of_cohorts(right, left, **how):
    return sentence(
        lambda q: (yield printed(le(left(q), right(q)))),
        **{"sampling": Uniform(1), "problems": FEW, "local": QUARTER, **how},
    )


# --- by hand --------------------------------------------------------------------------------------
def descent(by):
    """One client's gradient step: E F(x+) <= F - ||grad F||^2/beta + E||g_k||^2/(2 beta), an equality on parabolas."""

    def after(q):
        noise = q.over_clients(q.sq(q.client_gradients)) / (2 * by * q.beta)
        return q.F - q.gradient_sq / q.beta + noise

    return after, lambda q: q.F_next, {"local": WHOLE}


def distances(by):
    """Strongly convex losses with one minimiser: every cohort of one contracts, and the square of (1 - mu/beta) is attained."""
    of = {"problems": StronglyConvex((2, 3), (1, 2)), "local": WHOLE, "over": "run", "rounds": 2}
    share = lambda q: (1 - q.mu / q.beta) ** 2 / by  # noqa: E731
    noise = lambda q: 10**3 * q.heterogeneity / q.beta**2  # noqa: E731
    return (
        lambda q: share(q) ** 2 * q.distance_sq[0] + noise(q),
        lambda q: q.distance_sq[-1] / 4,
        of,
    )


def subgradients(by):
    """Steps of 1 along subgradients: 2 sum E gap <= ||x_0 - x*||^2 + T G^2, which is attained."""
    of = {
        "problems": Lipschitz((2, 3), (1, 2)),
        "local": GradientSteps(1, lr=1),
        "over": "run",
        "rounds": 2,
    }
    return (
        lambda q: (q.distance_sq[0] + q.T * q.G_sq) / by,
        lambda q: 2 * q.gap[:-1].sum(axis=0),
        of,
    )


TIGHT = {
    "subgradients of one client": (subgradients, F(11, 10)),
    "the descent of one client": (descent, F(11, 10)),
    "two contractions, and noise": (distances, 4),
}


@pytest.mark.parametrize("name", TIGHT)
def test_a_bound_by_hand_is_proved_and_less_is_not(name):
    made, less = TIGHT[name]
    right, left, how = made(1)
    assert (
        proved(of_cohorts(right, left, **how), "printed").words.count("1 of 2, 1 of 3 clients") == 1
    )
    right, left, how = made(less)
    with pytest.raises(NotCertified):
        proved(of_cohorts(right, left, **how), "printed")


def test_the_textbook_s_stochastic_gradient_descent():
    """E||g_k||^2 <= 4 beta gap + 2 sigma^2, so that 2 eta (1 - 2 eta beta) sum E gap <= d^2 + 2 T eta^2 sigma^2, eta = 1/(4 beta)."""
    gaps = lambda q: q.gap[:-1].sum(axis=0)  # noqa: E731

    def made(share):
        right = lambda q: 4 * q.beta * q.distance_sq[0] + share * q.T * q.heterogeneity / q.beta  # noqa: E731
        return of_cohorts(right, gaps, over="run", rounds=(1, 9))

    words = "smooth convex losses, 1 of 2, 1 of 3 clients, every dimension, runs of up to 2 rounds"
    assert proved(made(F(1, 2)), "printed").words == words
    with pytest.raises(NotCertified):
        proved(made(0), "printed")


# --- PEPit ----------------------------------------------------------------------------------------
def by_pepit(about, clients, participants, K, rounds, step, criterion):
    """The largest criterion, in expectation over every cohort, where ||x_0 - x*||^2 + heterogeneity <= 1."""
    from PEPit import PEP
    from PEPit.functions import SmoothConvexFunction
    from PEPit.primitive_steps import proximal_step

    pep = PEP()
    losses = [pep.declare_function(SmoothConvexFunction, L=1) for _ in range(clients)]
    mean = sum(losses[1:], losses[0]) / clients
    star, x = mean.stationary_point(), pep.set_initial_point()
    apart = (
        sum((f.gradient(star) ** 2 for f in losses[1:]), losses[0].gradient(star) ** 2) / clients
    )
    pep.set_initial_condition((x - star) ** 2 + apart <= 1)
    level = [(x, [0 * x] * clients, 0 * x)]
    for _ in range(rounds):
        after = []
        for y, kept, c in level:
            for cohort in combinations(range(clients), participants):
                ends, new = [], list(kept)
                for k in cohort:
                    z = y
                    for _ in range(K):
                        z = (
                            proximal_step(z, losses[k], 1)[0]
                            if about == "fedprox"
                            else z - step * (losses[k].gradient(z) - kept[k] + c)
                        )
                    ends.append(z)
                    if about == "scaffold":
                        new[k] = kept[k] - c + (y - z) / (K * step)
                moved = [a - b for a, b in zip(new, kept, strict=True)]
                after.append(
                    (
                        sum(ends[1:], ends[0]) / participants,
                        new,
                        c + sum(moved[1:], moved[0]) / clients,
                    )
                )
        level = after
    of = {
        "gap": lambda at: mean(at) - mean(star),
        "gradient": lambda at: mean.gradient(at) ** 2,
        "distance": lambda at: (at - star) ** 2,
    }
    values = [of[criterion](at) for at, _, _ in level]
    pep.set_performance_metric(sum(values[1:], values[0]) / len(values))
    return pep.solve(verbose=0, solver="CLARABEL")


LAST = {
    "gap": lambda q: q.gap[-1], "gradient": lambda q: q.gradient_sq[-1] / q.beta, "distance": lambda q: q.beta * q.distance_sq[-1],
}  # fmt: skip
METHODS = {
    "fedavg": FedAvg(),
    "fedprox": method(FedProx, mu=lambda c: c.beta),
    "scaffold": Scaffold(),
}


@pytest.mark.parametrize(
    ("about", "clients", "participants", "K", "rounds", "criterion"),
    [
        ("fedavg", 2, 1, 1, 2, "gap"), ("fedavg", 3, 1, 1, 1, "gradient"),
        ("fedavg", 3, 2, 2, 1, "gap"), ("fedavg", 3, 2, 1, 2, "distance"),
        ("fedprox", 2, 1, 1, 2, "gap"), ("scaffold", 2, 1, 2, 2, "distance"),
        ("scaffold", 2, 1, 1, 2, "gradient"),
    ],
)  # fmt: skip
def test_pepit_has_the_best_constant(about, clients, participants, K, rounds, criterion):
    def claimed(q):
        yield printed(
            le(
                LAST[criterion](q),
                q.constant("c", 1) * (q.beta * q.distance_sq[0] + q.heterogeneity / q.beta),
            )
        )

    local = Minimise() if about == "fedprox" else GradientSteps(K, lr=lambda c: F(1, 4) / c.beta)
    of = {
        "about": METHODS[about],
        "local": local,
        "sampling": Uniform(participants),
        "problems": SmoothConvex(clients, (1, 2)),
    }
    [best] = best_constants(sentence(claimed, over="run", rounds=rounds, **of), "printed")
    value = by_pepit(about, clients, participants, K, rounds, 0.25, criterion)
    assert best.best == pytest.approx(value, rel=1e-6) and best.words.count(
        f"losses, {participants} of {clients} clients"
    )
    assert value * (1 - 1e-7) <= best.proved <= value + 2e-6


# --- certificates ---------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def made():
    def both(q):
        yield printed(le(q.gap[-1], q.beta * q.distance_sq[0] + q.heterogeneity / q.beta))
        yield form(
            "every cohort",
            le(q.distance_sq[1] / 2, q.distance_sq[0] + q.heterogeneity / q.beta**2 * q.N),
            pathwise=True,
        )

    return sentence(
        both,
        over="run",
        rounds=2,
        sampling=Uniform(1),
        problems=SmoothConvex(2, (1, 2)),
        local=QUARTER,
    )


@pytest.fixture(scope="module")
def written(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("proofs")
    return {
        name: certificates.write(folder / f"{name}.json", certificates.certificate(made, proved(made, name)))
        for name in ("printed", "every cohort")
    }  # fmt: skip


@pytest.mark.parametrize(("name", "parts"), [("printed", 1), ("every cohort", 4)])
def test_a_certificate_is_checked_and_every_number_of_it_matters(name, parts, made, written):
    found = certificates.load(written[name])
    certificates.verify(found, made)
    assert proved(made, name).whole  # it is about one of two clients, and two rounds
    assert len(found.parts) == parts and "1 of 2 clients" in found.question["for"]
    multipliers, factors = found.parts[-1]
    for condition, number in [*multipliers.items()][:: max(1, len(multipliers) // 3)]:
        changed = {**multipliers, condition: number + F(1, 10**9)}
        with pytest.raises(NotCertified):
            certificates.verify(replace(found, parts=(*found.parts[:-1], (changed, factors))), made)
    for words in ("1 of 2, 1 of 3 clients", "2 clients who all take part"):
        said = {**found.question, "for": found.question["for"].replace("1 of 2 clients", words)}
        with pytest.raises(NotCertified, match="it can be for"):
            certificates.verify(replace(found, question=said), made)
    with pytest.raises(FedTheoryError):
        certificates.verify(
            replace(
                found,
                question={
                    **found.question,
                    "form": {"printed": "every cohort"}.get(name, "printed"),
                },
            ),
            made,
        )


def test_a_file_is_read_as_it_was_written(made, written):
    held = json.loads(written["printed"].read_text())
    assert set(held["parts"][0]["factors"]) == {"mean"} and any(
        name.startswith("q1.0, ") for name in held["parts"][0]["multipliers"]
    )
    assert certificates.load(written["printed"]) == certificates.certificate(
        made, proved(made, "printed")
    )


def test_the_proof_is_a_script_that_checks_itself(made, written, tmp_path):
    found = certificates.load(written["every cohort"])
    files = certificates.write_proofs(tmp_path / "proof.py", found, made)
    for file in files:
        assert (
            "identity holds"
            in subprocess.run(
                [sys.executable, "-I", file], capture_output=True, text=True, check=True
            ).stdout
        )
    [wrong] = [
        file
        for file in files[:1]
        if file.write_text(file.read_text().replace("START = R(", "START = R(7, 5) * R(", 1))
    ]
    assert subprocess.run(
        [sys.executable, "-I", wrong], capture_output=True, check=False
    ).returncode
    [text, *_] = certificates.write_proofs(tmp_path / "proof.tex", found, made)
    assert r"\overline" not in text.read_text() and "the client's" in text.read_text()


# --- at random ------------------------------------------------------------------------------------
SIDES = {
    **LAST, "first gap": lambda q: q.gap[0], "start": lambda q: q.beta * q.distance_sq[0],
    "moved": lambda q: q.beta * q.moved_sq[-1], "drift": lambda q: q.beta * q.drift[0],
    "average": lambda q: q.average_gap[-1], "mean": lambda q: q.beta * q.sq(q.mean(q.x[-1:]) - q.x_star)[0],
}  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_what_is_proved_of_runs_at_random_holds_on_instances(seed):
    """The best constants of random bounds, in fractions on instances and all their cohorts."""
    rng, proofs, judged = np.random.default_rng(seed), 0, 0
    while not proofs:
        left, other = (SIDES[[*SIDES][int(i)]] for i in rng.integers(len(SIDES), size=2))
        share, start = F(int(rng.integers(-2, 3)), 4), [F(int(rng.integers(1, 9)))]
        pathwise = bool(rng.integers(2))

        def claimed(q, left=left, other=other, share=share, start=start, pathwise=pathwise):
            whole = q.beta * q.distance_sq[0] + q.N * q.heterogeneity / q.beta
            c = q.constant("c", start[0])
            yield printed(le(left(q), share * other(q) + c * whole), pathwise=pathwise)

        about, local = (
            [*METHODS.values()][seed % 3],
            GradientSteps(1, lr=lambda c: F(1, 2) / c.beta),
        )
        how = {
            "about": about,
            "local": Minimise() if seed % 3 == 1 else local,
            "sampling": Uniform(1),
        }
        how |= {"over": "run", "rounds": 2, "problems": SmoothConvex(2, (1, 2))}
        for start[0] in [
            best.proved for best in best_constants(sentence(claimed, **how), "printed")
        ]:
            made = sentence(claimed, **how)
            assert "1 of 2 clients" in proved(made, "printed").words
            proofs, setting = proofs + 1, MethodSetting.of(made)
            for _ in range(25):
                view = setting.view(setting.random_instance(rng))
                sides = made.on(view, mutants=False)["printed"].sides
                room = sides.rhs - sides.lhs
                assert (np.asarray(room if pathwise else view.expectation(room)) >= 0).all()
                judged += 1
    assert judged >= 25


# --- potentials, least values, and losses that are not convex -------------------------------------
def test_a_potential_that_reads_f_after_a_cohort_is_proved_of_every_round():
    def made(noise):
        def falls(q):
            V = lambda s: s.distance_sq + q.constant("c", F(1, 8)) * s.gap / q.beta  # noqa: E731
            yield form("f", potential(q, V, noise=noise * q.heterogeneity / q.beta**2))

        return sentence(falls, sampling=Uniform(1), problems=FEW, local=QUARTER)

    statement = made(3)
    found = proved(statement, "f")
    assert "1 of 2, 1 of 3 clients" in found.words
    assert found.follows == "for every number of rounds T: E V_T is at most V_0 + T noise"
    certificates.verify(certificates.certificate(statement, found), statement)
    with pytest.raises(NotCertified):
        proved(made(0), "f")


@pytest.mark.parametrize(("share", "holds"), [(F(1), True), (F(11, 10), False)])
def test_least_values_of_clients_are_below_what_they_have_after_a_cohort(share, holds):
    """f_k - min f_k >= ||grad f_k||^2/(2 beta), at x_next after every cohort."""

    def claimed(q):
        slopes = q.over_clients(q.sq(q.gradients(q.x_next))) / (2 * q.beta)
        lowest = q.over_clients(q.client_minima)
        yield printed(le(share * slopes, q.F_next - lowest), pathwise=True)

    of = {"problems": StronglyConvex((2, 3), (1, 2)), "local": QUARTER, "sampling": Uniform(1)}
    if holds:
        assert proved(sentence(claimed, **of), "printed").words.count("1 of 2, 1 of 3") == 1
    else:
        with pytest.raises(NotCertified):
            proved(sentence(claimed, **of), "printed")


def test_f_is_at_least_its_least_value_after_a_cohort_where_it_is_not_convex():
    of = {"problems": Smooth((2, 3), (1, 2)), "local": QUARTER, "sampling": Uniform(1)}
    least = sentence(lambda q: (yield printed(le(q.F_star, q.F_next), pathwise=True)), **of)
    assert "1 of 2, 1 of 3 clients" in proved(least, "printed").words

    def of_one(q):  # no client's loss is least at x*
        yield printed(le(q.values(q.x_star)[0], q.values(q.x_next)[..., 0]), pathwise=True)

    with pytest.raises(NotCertified):
        proved(sentence(of_one, **of), "printed")


# --- what a form needs ----------------------------------------------------------------------------
class Heavy(FedAvg):
    """FedAvg that keeps by how much the last round moved."""

    def init(self, x, num_clients):
        return HeavyState(x, 0 * x)

    def round(self, state, clients):
        x = super().round(state, clients).x
        return HeavyState(x, x - state.x)


class HeavyState(NamedTuple):
    x: np.ndarray
    moved: np.ndarray


def after_one(need, claim):
    """Of one client of two, after one round, from x_0 = x - moved; both sides are at most ||x_0 - x*||^2/1000."""

    def made(q):
        before = q.x - q.state.moved
        most = q.sq(before - q.x_star) / 1000
        every = q.gradients(before).sum(axis=-2) / 2
        of = {"own": q.sq(q.state.moved), "everybody": q.eta**2 * q.sq(every)}
        yield form("f", le(of[claim], most), needs={"few": le(of[need], most)})

    more = {"problems": SmoothConvex(2, (1, 2)), "sampling": Uniform(1), "rounds": 1}
    return sentence(made, about=Heavy(), local=QUARTER, **more)


def test_what_is_needed_after_one_cohort_says_nothing_of_another():
    """Both clients' gradients are short only where those of both are; f1 = 0, f2 = x^2/2 is an instance, with f1 drawn."""
    for same in ("own", "everybody"):
        assert proved(after_one(same, same), "f").words.endswith("after at most 1 rounds")
    with pytest.raises(NotCertified):
        proved(after_one("own", "everybody"), "f")


def test_a_need_of_every_cohort_is_one_of_each():
    """What each cohort has is claimed of each: 1 is the least constant, and not N, which the mean over cohorts gives."""

    def made(q):
        gap = q.gap / q.beta
        most = q.constant("c", 1) * gap
        yield form("f", le(q.moved_sq, most), pathwise=True, needs={"n": le(q.moved_sq, gap)})
        mean = {"n": le(q.mean(q.moved_sq), gap)}
        yield form("mean", le(q.moved_sq, most), pathwise=True, needs=mean)

    statement = sentence(made, local=WHOLE, problems=SmoothConvex(2, (1, 2)), sampling=Uniform(1))
    assert proved(statement, "f").whole
    [best] = best_constants(statement, "f")
    assert best.proved == 1 and best.exact
    with pytest.raises(NotCertified):
        proved(statement, "mean")
    [best] = best_constants(statement, "mean")
    assert best.proved == 2 and best.exact
