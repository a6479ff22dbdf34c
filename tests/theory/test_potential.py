"""Potentials in a statement's file: what is proved of them for every T, and what must not be."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction as F
from typing import NamedTuple

import numpy as np
import pytest

from fedtheory.algorithms import Algorithm, FedAvg, FedDyn, FedProx, Scaffold
from fedtheory.cli.common import not_as_recorded
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified, UnknownName
from fedtheory.local import GradientSteps as Steps
from fedtheory.local import LocalObjective
from fedtheory.problems import Quadratic
from fedtheory.testing import assert_statement
from fedtheory.theory import (
    GradientSteps,
    Paper,
    Quadratics,
    Smooth,
    SmoothConvex,
    StronglyConvex,
    Uniform,
    eq,
    form,
    le,
    method,
    potential,
    study,
)
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.problem_classes import StronglyConvexSum
from fedtheory.theory.rounds.vector_proofs import best_constant, best_constants, proved
from fedtheory.theory.studies import certificates

CONVEX = SmoothConvex((1, 5), (1, 2))
STRONG = StronglyConvex((1, 4), (1, 2), mu=F(1, 10))
STEP = GradientSteps(1, lr=lambda c: F(1, 2) / c.beta)
TWO = GradientSteps(2, lr=lambda c: F(1, 8) / c.beta)
OF_DYN = {"gradients": "N d", "h": lambda s: s["gradients"].mean(axis=-2)}
OF_SCAFFOLD = {"c_k": "N d", "c": lambda s: s["c_k"].mean(axis=-2)}


SUM = "V_0 + the expected sum of the noise"


def stated(made, about=None, problems=CONVEX, **how):
    """A statement whose forms are those of a function."""
    paper = Paper("mine")
    return paper.statement("one", about=about or FedAvg(), problems=problems, **how)(made)


def distance(s):
    return s.distance_sq


def falls(q, V=distance, D=None, **how):
    yield form("f", potential(q, V, D, **how))


# --- what is said of runs -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({}, "for every number of rounds T: E V_T is at most V_0"),
        ({"D": lambda s: 0 * s.gap}, "for every number of rounds T: E V_T is at most V_0"),
        ({"D": lambda s: F(1, 2) * s.gap}, "the sum of E D over T rounds is at most V_0"),
        ({"noise": F(1, 3)}, "E V_T is at most V_0 + T noise"),
        ({"rho": F(5, 4)}, "E V_T is at most rho^T V_0"),
        ({"rho": F(5, 4), "noise": F(1)}, "at most rho^T V_0 + noise (1 - rho^T)/(1 - rho)"),
        (
            {"rho": F(5, 4), "D": lambda s: s.gap},
            "E V_T + the sum over t < T of rho^(T-1-t) E D_t is at most rho^T V_0",
        ),
    ],
)
def test_what_follows(how, says):
    found = proved(stated(lambda q: falls(q, **how), local=STEP), "f")
    assert found.follows.endswith(says) and len(found.parts) == 2  # and that V >= 0


@pytest.mark.parametrize(
    ("noise", "says"),
    [
        (lambda q: q.heterogeneity / q.beta**2, "V_0 + T noise"),
        (lambda q: q.heterogeneity / q.beta**2 + q.distance_sq, SUM),
        (lambda q: q.heterogeneity / q.beta**2 + q.gap / q.beta, SUM),
        (lambda q: q.heterogeneity / q.beta**2 + q.sq(q.gradient), SUM),
    ],
)
def test_noise_of_a_state_is_that_of_its_round(noise, says):
    found = proved(stated(lambda q: falls(q, noise=noise(q)), local=TWO), "f")
    assert found.follows == f"for every number of rounds T: E V_T is at most {says}"


def test_a_negative_factor_says_nothing_of_runs():
    """||x+ - x*||^2 <= -||x - x*||^2 + 2 ||x - x*||^2."""
    found = proved(stated(lambda q: falls(q, rho=F(-1), noise=2 * q.distance_sq), local=STEP), "f")
    assert found.follows == "one round, and not every number of rounds: rho is negative"


def test_noise_of_a_state_and_a_factor():
    found = proved(
        stated(
            lambda q: falls(q, noise=q.heterogeneity / q.beta**2 + q.distance_sq, rho=F(1, 2)),
            local=TWO,
        ),
        "f",
    )
    assert found.follows.endswith(
        "is at most rho^T V_0 + the sum over t < T of rho^(T-1-t) E noise_t"
    )


def of_dyn(q, kappa, kappa_0=F(1, 2)):
    a = q.method.alpha
    yield form("f", potential(
        q, lambda s: q.sq(s.x + s.h / a - q.x_star) + kappa / q.beta**2 * q.over_clients(q.sq(s.gradients - q.gradients(q.x_star))),
        lambda s: kappa_0 / q.beta * q.gap_at(s.x + s.h / a),
    ))  # fmt: skip


DYN = method(FedDyn, alpha=lambda c: 2 * c.beta)


def dyn(kappa=F(1, 2), **states):
    return stated(lambda q: of_dyn(q, kappa), DYN, states=OF_DYN | states)


def test_a_state_that_is_said_whole():
    assert (
        proved(dyn(), "f").follows
        == "for every number of rounds T: the sum of E D over T rounds is at most V_0"
    )


def test_a_field_that_is_left_out_is_as_at_the_start():
    """With h = 0 and any gradients the inequality is another one, and no state after a round is such."""

    def noise(q):
        return (
            q.distance_sq + 100 * (q.over_clients(q.sq(q.state.c_k)) + q.heterogeneity) / q.beta**2
        )

    statement = stated(
        lambda q: falls(q, noise=noise(q)), Scaffold(), local=TWO, states={"c_k": "N d"}
    )
    found = proved(statement, "f")
    assert "c as at the start" in found.words and not found.whole
    assert (
        found.follows
        == "one round, and not every number of rounds: c before the round is as at the start"
    )


def test_a_rule_that_does_not_come_back():
    """h twice the mean of what is stored: true at the start, and after no round."""
    twice = {"gradients": "N d", "h": lambda s: 2 * s["gradients"].mean(axis=-2)}

    def free(q):
        kept = q.over_clients(q.sq(q.state.gradients)) + q.heterogeneity
        return 100 * (q.distance_sq + kept / q.beta**2)

    found = proved(stated(lambda q: falls(q, noise=free(q)), DYN, states=twice), "f")
    assert (
        found.follows
        == "one round, and not every number of rounds: h after a round is not what the statement says of it"
    )


def test_a_rule_that_does_not_begin():
    """c_k = x is no state at the start, where c_k = 0."""
    rule = {"c": "d", "c_k": lambda s: s["c"] + np.zeros((2, 1), dtype=int)}
    statement = stated(
        lambda q: falls(q, lambda s: 0 * s.distance_sq),
        Scaffold(),
        replace(CONVEX, clients=2),
        local=TWO,
        states=rule,
    )
    assert "not every number of rounds" in proved(statement, "f").follows


def test_states_of_short_runs_are_not_every_number_of_rounds():
    """Without states= what comes before is a run of up to two rounds."""
    statement = stated(lambda q: of_dyn(q, F(1, 2)), DYN, rounds=(0, 1))
    found = proved(statement, "f")
    assert "after at most 1 rounds" in found.words
    assert (
        found.follows
        == "one round, and not every number of rounds: the state before it is that of runs of up to 1 rounds"
    )


@pytest.mark.parametrize(
    ("constants", "says"),
    [
        ({"c": F(1, 2)}, "E V_T is at most V_0 + T noise"),
        ({"c": F(1, 2), "rho": F(5, 4)}, "at most rho^T V_0 + noise (1 - rho^T)/(1 - rho)"),
        ({"c": F(1, 2), "mixed": F(1, 2)}, "the state after it depends on the state before it, too"),
    ],
)
def test_what_follows_is_said_of_the_constants_of_the_proof(constants, says, tmp_path):
    """With those that are stated it would be that E V_T is at most V_0."""

    def made(q):
        c, rho, mixed = q.constant("c", 0), q.constant("rho", 1), q.constant("mixed", 0)
        noise = c * q.heterogeneity / q.beta**2
        yield from falls(q, lambda s: s.distance_sq + mixed * q.distance_sq, noise=noise, rho=rho)

    statement = stated(made, local=TWO)
    found = proved(statement, "f", constants)
    assert found.follows.endswith(says)
    file = certificates.write(tmp_path / "f.json", certificates.certificate(statement, found))
    words, follows = certificates.told_of(certificates.load(file), statement)
    assert words == found.told and follows == found.follows


def test_what_follows_is_said_of_a_constant_that_a_proof_chooses():
    noise = lambda q: q.constant("c", 0, free=True) * q.heterogeneity / q.beta**2  # noqa: E731
    found = proved(stated(lambda q: falls(q, noise=noise(q)), local=TWO), "f")
    assert found.chosen[0]["c"] > 0 and found.follows.endswith("E V_T is at most V_0 + T noise")


class LateStep(FedAvg):
    """The local step three rounds long, and ten times it from then on, which is too long."""

    def round(self, state, clients):
        moved = super().round(state, clients).x - state.x
        return state._replace(x=state.x + (1 if clients.round_index <= 3 else 10) * moved)


@pytest.mark.parametrize("rounds", [0, (0, 2)])
def test_rounds_of_a_method_that_asks_which_one_it_is_are_not_every_number(rounds):
    found = proved(stated(falls, LateStep(), local=STEP, rounds=rounds), "f")
    last = 0 if rounds == 0 else 2
    assert found.words.endswith(f"after at most {last} rounds")
    assert found.follows == (
        "one round, and not every number of rounds: the method asks which round it is, "
        f"and rounds after at most {last} others are looked at"
    )


def test_another_form_says_nothing_of_runs():
    found = proved(
        stated(lambda q: [form("f", le(q.distance_sq_next, q.distance_sq))], local=STEP), "f"
    )
    assert found.follows == "" and len(found.parts) == 1


@pytest.mark.parametrize(
    "more",
    [
        lambda q: q.distance_sq,
        lambda q: q.gap / q.beta,
        lambda q: q.over_clients(q.sq(q.local_models - q.x_star)),
        lambda q: q.sq(q.state.x - q.x_star),
        lambda q: q.distance_sq_next,
        lambda q: q.gap_at(2 * q.x - q.x_star) / q.beta,
    ],
)
def test_a_potential_of_two_states_is_none(more):
    """V+ + W <= V + W with W of the state before: nothing adds up."""
    found = proved(stated(lambda q: falls(q, lambda s: s.distance_sq + more(q)), local=STEP), "f")
    assert (
        found.follows
        == "one round, and not every number of rounds: V of the state after it depends on the state before it, too"
    )


@pytest.mark.parametrize(
    "V",
    [
        lambda q, s: s.distance_sq + q.heterogeneity / q.beta**2,
        lambda q, s: q.sq(s.x - q.x_star),
        lambda q, s: s.gap,
        lambda q, s: q.F_star - q.F_star + q.gap_at(s.x),
        lambda q, s: s.gradient_sq,
        lambda q, s: s.F - q.F_star,
        lambda q, s: q.sq(s.gradient),
        lambda q, s: (
            q.over_clients(q.sq(q.gradients(s.x) - q.gradients(q.x_star))) + 9 * s.distance_sq
        ),
    ],
)
def test_what_v_may_be_of(V):
    found = proved(
        stated(lambda q: falls(q, lambda s: V(q, s), noise=9 * q.heterogeneity), local=STEP), "f"
    )
    assert found.follows == "for every number of rounds T: E V_T is at most V_0 + T noise"


# --- what is not proved ---------------------------------------------------------------------------
@pytest.mark.parametrize("less", [lambda q: 1, lambda q: q.heterogeneity / q.beta**2])
def test_a_potential_that_is_not_at_least_0_is_not_proved(less):
    """||x - x*||^2 less what stays as it is falls as well, and nothing follows of the sum of D."""
    with pytest.raises(NotCertified):
        proved(stated(lambda q: falls(q, lambda s: s.distance_sq - 2 * less(q)), local=STEP), "f")
    fine = stated(
        lambda q: [form("f", le(q.distance_sq_next - 2 * less(q), q.distance_sq - 2 * less(q)))],
        local=STEP,
    )
    assert proved(fine, "f")
    with pytest.raises(NotCertified):
        proved(
            stated(lambda q: falls(q, lambda s: 0 * s.distance_sq - F(1, 10**9)), local=STEP), "f"
        )


def test_a_factor_that_is_too_small_is_not_proved():
    """(1 - mu/(2 beta))^2 = 361/400 with mu = beta/10."""
    for rho, fine in ((F(361, 400), True), (F(360, 400), False)):
        statement = stated(lambda q, rho=rho: falls(q, rho=rho), local=STEP, problems=STRONG)
        if fine:
            assert proved(statement, "f").whole
        else:
            with pytest.raises(NotCertified):
                proved(statement, "f")


@pytest.mark.parametrize("kappa_0", [F(962, 1000), F(2)])
def test_too_large_a_kappa_0_is_not_proved_with_any_kappa(kappa_0):
    def made(q):
        yield from of_dyn(q, q.constant("kappa", 1, free=True), kappa_0)

    with pytest.raises(NotCertified):
        proved(stated(made, DYN, states=OF_DYN), "f")


class Moves(NamedTuple):
    x: np.ndarray
    m: np.ndarray


@dataclass(frozen=True)
class KeepsMoves(Algorithm):
    """m+ = (m + mean of the moves)/2, x+ = x + m+: m is in the units of x, not of a gradient."""

    name = "keeps-moves"

    def init(self, x, num_clients):
        return Moves(x, 0 * x)

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        move = clients.mean(clients.minimise(LocalObjective(center=x), start=x).y - x)
        m = F(1, 2) * state.m + F(1, 2) * move
        return Moves(state.x + m, m)


@pytest.mark.parametrize("power", [0, 2, -2])
def test_a_state_of_moves_is_proved_for_every_beta_where_its_units_are_those_of_x(power):
    """With beta^2 ||m||^2 beside ||x - x*||^2 the form is another one for another beta."""

    def made(q):
        def V(s):
            return q.sq(s.x - q.x_star + s.m) + F(3, 2) * q.beta**power * q.sq(s.m)

        yield from falls(q, V, rho=F(99, 100))

    local = GradientSteps(1, lr=lambda c: F(1, 4) / c.beta)
    found = proved(stated(made, KeepsMoves(), STRONG, local=local, states={"m": "d"}), "f")
    assert found.whole == (power == 0) and ("beta = 1" in found.told) == (power != 0)


# --- constants that are free ----------------------------------------------------------------------
def free_dyn(q):
    yield from of_dyn(q, q.constant("kappa", F(1, 2), free=True), q.constant("kappa_0", F(1, 2)))


def test_a_free_constant_is_chosen_and_the_proof_is_with_its_value():
    statement = stated(free_dyn, DYN, states=OF_DYN)
    [best] = best_constants(statement, "f")
    assert best.constant == "kappa_0" and best.best == pytest.approx(0.961012293, rel=1e-8)
    kappa = best.proof.chosen[0]["kappa"]
    assert kappa > 0 and f"kappa_0 = {best.proved}, kappa = {kappa}" in best.proof.told
    again = proved(dyn(kappa), "f", {})  # with the number itself
    assert again.chosen == ({},)
    assert proved(statement, "f", {"kappa": F(1, 2)}).chosen == ({},)


def doubled(q, kappa=0):
    """Some number >= 0 will do: with 0 each moving model refutes it, and with 1 it is proved."""
    least = q.constant("kappa", kappa, free=True)
    yield form("f", le(q.distance_sq_next, least * q.distance_sq))
    yield form("other", le(q.distance_sq_next, q.distance_sq / 1000))


def test_what_refutes_a_form_with_a_free_constant_says_with_which_value():
    statement = stated(doubled, local=STEP)
    found = study(statement, budget=20, necessity=False)
    told = [words for label, words in found.findings() if label in ("free", "proved")]
    [refuted] = [words for words in told if words.startswith("f: f1")]
    [other] = [words for label, words in found.findings() if label == "refuted"]
    assert other.startswith("other: f1")
    assert ", with kappa = 0, where some number >= 0 may do: lhs" in refuted
    assert "kappa" not in other  # which has none
    assert found.studies[0].proofs["f"].chosen[0]["kappa"] >= F(1)
    assert any(words.startswith("f: for smooth convex") for words in told)
    assert statement.free_constants("f") == {"kappa": 0}
    [witness] = [w for w in found.witnesses if w.form == "f"]
    assert "with kappa = 0, where" in statement.paper.setting.summary(witness)
    failed = [c for c in found.studies[0].checks if c.verdict == "violated"]
    assert {c.form: c.refutes for c in failed} == {"f": False, "other": True}
    assert all(c.place.startswith("kappa = 0") is not c.refutes for c in failed)
    f, other = found.studies[0].rows
    assert (f.verdict, f.claim, f.known) == ("violated", "holds", "proved")
    assert (other.verdict, other.claim, other.known) == ("violated", "violated", "refuted")


@pytest.mark.parametrize("stands", [True, False])
def test_a_problem_of_ones_own_says_with_which_free_constant_it_was_judged(stands):
    """A violation with the number stated makes it not false, and contradicts no record."""
    statement = stated(lambda q: doubled(q, F(3, 2) * stands), local=STEP).statement
    checks = statement.verify(Quadratic(np.eye(2)[None], np.ones((1, 2))), x0=np.array([5.0, 0.0]))
    f, other = checks
    number = "3/2" if stands else "0"
    assert f.where["free"] == {"kappa": number} and f.place.startswith(f"kappa = {number}")
    assert "free" not in other.where
    assert (f.verdict, f.refutes) == ("holds" if stands else "violated", False)
    if not stands:
        said = checks.sentence
        assert "is violated here: at kappa = 0" in said and "some kappa >= 0" in said
        assert "is false here" not in said and not_as_recorded(statement, checks) == []


def test_a_run_of_ones_own_says_with_which_free_constant_it_was_judged():
    def of_a_run(q):
        least = q.constant("kappa", F(1, 10), free=True)
        yield form("f", le(q.distance_sq[-1], least * q.distance_sq[0]), holds=True)
        yield form("other", le(q.distance_sq[-1], q.distance_sq[0] / 10))

    statement = stated(of_a_run, local=STEP, over="run").statement
    problem = Quadratic(np.eye(2)[None], np.zeros((1, 2)))
    models = np.array([[4.0, 0.0], [3.0, 0.0]])
    work = Steps(1, lr=1 / 2)
    with pytest.raises(AssertionError) as failed:
        assert_statement(statement, models, problem, form="f", local_solver=work)
    assert "worst at kappa = 1/10, T = 1" in str(failed.value)
    assert "some number >= 0 will do as kappa" in str(failed.value)
    with pytest.raises(AssertionError) as failed:
        assert_statement(statement, models, problem, form="other", local_solver=work)
    assert "kappa" not in str(failed.value)
    found = assert_statement(statement, models / [[1], [3]], problem, local_solver=work)
    assert found[0].where["free"] == {"kappa": "1/10"}
    bound = statement.bound(problem, rounds=1, form="f", local_solver=work)
    assert bound.constants == {"kappa": "1/10"}


def test_a_form_that_says_nothing_on_the_probe_has_all_free_constants():
    def made(q):
        kappa = q.constant("kappa", 0, free=True)
        few = {"q.distance_sq < 0": bool((np.asarray(q.distance_sq) < 0).all())}
        yield form("f", le(q.distance_sq_next, kappa * q.distance_sq), needs=few)

    assert stated(made, local=STEP).free_constants("f") == {"kappa": 0}


def test_a_free_constant_that_would_be_negative():
    """V+ <= V - kappa: true with kappa = -1, and with no kappa >= 0 but 0; V <= -kappa with none."""

    def made(q):
        kappa = q.constant("kappa", 0, free=True)
        yield form("f", le(q.distance_sq_next, q.distance_sq, -kappa / q.beta**0 - F(1, 10)))

    with pytest.raises(NotCertified):
        proved(stated(made, local=STEP), "f")
    for value in (-1, F(-1, 10**9)):
        with pytest.raises(MissingCapability, match="any number >= 0"):
            proved(stated(made, local=STEP), "f", {"kappa": F(value)})
    with pytest.raises(MissingCapability, match="one that is free is any number >= 0"):
        best_constants(
            stated(lambda q: falls(q, noise=q.constant("c", -1, free=True)), local=STEP), "f"
        )


def test_a_product_of_constants_has_no_best_value():
    """kappa_0 kappa D: each by itself is linear, and both are not; what is proved is proved all the same."""

    def made(q):
        both = q.constant("kappa_0", 1) * q.constant("kappa", 1, free=True)
        yield form("f", potential(q, distance, lambda s: both / q.beta * s.gap))

    statement = stated(made, local=STEP)
    assert best_constant(statement, "f", "kappa_0") is None and proved(statement, "f")


def test_a_free_constant_in_a_square():
    def made(q):
        kappa = q.constant("kappa", 1, free=True)
        yield form("f", le(q.distance_sq_next, q.distance_sq, -(kappa**2) * q.gap / q.beta))

    with pytest.raises(MissingCapability, match="not linear in the constant kappa"):
        proved(stated(made, local=STEP), "f")


@pytest.mark.parametrize("kappa_0", [F(1), F(3)])
def test_a_form_that_is_violated_with_a_free_constant_as_stated_may_be_true_with_another(kappa_0):
    """Local steps need noise, and 0 is too little; kappa_0 is 2 at most, whatever the noise."""

    def made(q):
        noise = q.constant("c", 0, free=True) * q.eta**2 * q.heterogeneity
        yield from falls(q, D=lambda s: q.constant("k", kappa_0) * q.eta * q.E * s.gap, noise=noise)

    found = study(stated(made, local=TWO), 60, 0)
    [one], printed = found.studies, " ".join(str(found).split())
    assert [row.verdict for row in one.rows] == ["violated"] and "f" in one.counterexamples
    assert "with c = 0, where some number >= 0 may do" in printed
    assert list(one.proofs) == ["f"] * (kappa_0 < 2)
    assert ("f: not proved with other values: no multipliers found" in printed) == (kappa_0 > 2)
    if kappa_0 < 2:
        [chosen] = one.proofs["f"].chosen
        assert chosen["c"] > 0 and f"with c = {chosen['c']}. So for every number" in printed


def test_nothing_is_said_of_free_constants_where_there_are_none():
    assert "may do" not in str(study(stated(lambda q: falls(q, D=lambda s: 9 * s.gap), local=STEP), 60, 0))


# --- needs ----------------------------------------------------------------------------------------
def prox(q, need=True, kappa_0=None):
    bound = le(q.over_clients(q.sq(q.client_gradients)), 4 * q.gradient_sq)
    kappa_0 = q.constant("kappa_0", F(1, 50)) if kappa_0 is None else kappa_0
    sides = potential(q, lambda s: s.gap, lambda s: kappa_0 / q.beta * s.gradient_sq)
    yield form("f", sides, needs={"gradients are alike": bound} if need else {})


PROX = method(FedProx, mu=lambda c: 24 * c.beta)
OF_PROX = Smooth((1, 5), (1, 2))


def test_a_need_has_a_multiplier():
    found = proved(stated(prox, PROX, OF_PROX), "f")
    (_, solution), (of_V, _) = found.parts
    assert solution.numbers["gradients are alike"] > 0 and "gradients are alike" not in of_V.terms
    assert found.follows.endswith("V_0, where in every round gradients are alike")


def test_what_is_not_needed_is_not_used():
    """Clients that pull apart: F rises where its gradient is 0, of losses that need not be convex."""
    with pytest.raises(NotCertified):
        proved(stated(lambda q: prox(q, need=False), PROX, OF_PROX), "f")


def test_a_need_is_true_or_not_of_an_instance():
    statement = stated(prox, PROX, SmoothConvex((2, 3), 1))
    setting, rng, met = MethodSetting.of(statement), np.random.default_rng(3), set()
    for _ in range(40):
        view = setting.view(setting.random_instance(rng), exact=True)
        alike = bool(
            (view.over_clients(view.sq(view.client_gradients)) <= 4 * view.gradient_sq).all()
        )
        assert (statement.on(view).get("f") is not None) is alike
        met.add(alike)
    assert met == {True, False}


def test_a_study_of_a_form_with_a_need():
    """Its constant is moved where the need is met only; what is false is refuted there."""
    found = study(stated(prox, PROX, SmoothConvex((1, 3), 1)), 60, 0)
    [row] = found.rows
    assert row.verdict == "holds" and "proved" in row.modes
    assert any(label == "proved" and "in every round" in words for label, words in found.findings())
    false = study(stated(lambda q: prox(q, kappa_0=F(1, 10)), PROX, SmoothConvex((1, 3), 1)), 60, 0)
    [witness] = false.counterexamples
    assert false.rows[0].verdict == "violated" and witness.form == "f" and not false.certificates


def test_an_equality_is_no_need():
    with pytest.raises(InvalidInput, match="an inequality le"):
        stated(
            lambda q: [form("f", le(q.F, q.F), needs={"same": eq(q.F, q.F)})], local=STEP
        ).looked_over()


def test_a_need_of_every_client_is_said_of_the_mean():
    def made(q):
        yield form(
            "f", le(q.F_next, q.F), needs={"bounded": le(q.sq(q.client_gradients), q.beta**2)}
        )

    with pytest.raises(MissingCapability):
        proved(stated(made, local=STEP), "f")


# --- what a state has -----------------------------------------------------------------------------
def test_a_field_that_no_state_has():
    with pytest.raises((UnknownName, InvalidInput), match="'control' is none of them"):
        stated(lambda q: falls(q, lambda s: q.sq(s.control)), Scaffold(), local=TWO).looked_over()


def test_what_a_potential_reads():
    """Before the round and after it: x, F, gap, gradient, gradient_sq, distance_sq and the fields."""
    statement = stated(lambda q: falls(q, lambda s: s.F), Scaffold(), local=TWO)
    view = MethodSetting.of(statement).view(
        MethodSetting.of(statement).random_instance(np.random.default_rng(1)), exact=True
    )
    both = [
        view.x,
        view.F,
        view.gap,
        view.gradient,
        view.gradient_sq,
        view.distance_sq,
        view.state.c_k,
    ]
    after = [
        view.x_next, view.F_next, view.gap_next, view.gradient_next, view.gradient_next_sq, view.distance_sq_next, view.state_next.c_k,
    ]  # fmt: skip
    names = ("x", "F", "gap", "gradient", "gradient_sq", "distance_sq", "c_k")
    for name, own, next_ in zip(names, both, after, strict=True):
        seen = []

        def V(s, name=name, seen=seen):
            seen.append(getattr(s, name))
            return s.gap

        potential(view, V)
        for value, wanted in zip(seen, (own, next_), strict=True):
            assert (value == wanted).all()


def test_the_sides_are_those_of_an_inequality():
    statement = stated(
        lambda q: falls(q, D=lambda s: 3 * s.gap, rho=F(7, 8), noise=F(1, 5)), local=STEP
    )
    view = MethodSetting.of(statement).view(
        MethodSetting.of(statement).random_instance(np.random.default_rng(2)), exact=True
    )
    sides = statement.on(view)["f"].sides
    assert (sides.lhs == view.distance_sq_next).all()
    assert (sides.rhs == F(7, 8) * view.distance_sq - 3 * view.gap + F(1, 5)).all()


# --- the class ------------------------------------------------------------------------------------
def test_strong_convexity_of_a_class():
    rng = np.random.default_rng(5)
    for mu in (F(1, 100), F(1, 3)):
        class_ = StronglyConvex((1, 4), (1, 2), mu=mu)
        for _ in range(30):
            known = class_.draw(rng).exact_losses.constants
            assert known["mu"] >= mu * known["beta"]
        for _, problem in class_.problems(rng, 4):
            assert problem.mu_k.min() >= float(mu) * problem.beta_k.max() * (1 - 1e-12)
    assert StronglyConvex((1, 4), (1, 2)).mu is None
    drawn = [StronglyConvex(1, 1, mu=F(1, 2)).draw(rng) for _ in range(20)]
    steep = StronglyConvex(2, 1, mu=F(9, 10))
    flat = [
        d
        for d in (StronglyConvex(2, 1).draw(rng) for _ in range(40))
        if "mu/beta" in str(steep.why_not(d))
    ]
    assert drawn and flat
    for wrong in (0, 1, -1):
        with pytest.raises(InvalidInput, match="must lie in"):
            StronglyConvex(1, 1, mu=wrong)
    with pytest.raises(InvalidInput, match="leave it out"):
        StronglyConvexSum(1, 1, mu=F(1, 2))


@pytest.mark.parametrize(("mu", "rho"), [(F(1, 100), F(199, 200) ** 2), (F(1, 3), F(5, 6) ** 2)])
def test_a_rate_of_other_curvatures(mu, rho):
    """What is proved at mu holds of larger ones; where mu itself is read it is told."""
    statement = stated(lambda q: falls(q, rho=q.constant("rho", 1)), local=STEP).at(
        strong_convexity=mu
    )
    [best] = best_constants(statement, "f")
    assert best.best == pytest.approx(float(rho), rel=1e-6) and best.whole
    assert best.words.startswith(f"smooth, strongly convex losses of mu >= {mu} beta, ")
    reads = stated(lambda q: falls(q, rho=1 - q.mu / q.beta / 2), local=STEP).at(
        strong_convexity=mu
    )
    assert f"mu = {mu} beta" in proved(reads, "f").words


def test_other_numbers():
    statement = stated(free_dyn, method(FedDyn, alpha=lambda c: 2 * c.beta), states=OF_DYN)
    some = statement.at(clients=6, participants=2, alpha="1/2")
    assert (some.problems.clients, some.sampling, some.about.hyperparameters) == (
        (6, 6),
        Uniform(2),
        {"alpha": F(1, 2)},
    )
    assert (
        statement.at() is statement
        and statement.at(clients=4, participants=4).sampling == statement.sampling
    )
    steps = stated(lambda q: falls(q, noise=q.heterogeneity / q.beta**2), local=TWO).at(
        steps=3, lr=0.125
    )
    assert steps.local.steps == 3 and proved(steps, "f").whole  # of any beta
    for wrong, says in (
        ({"participants": 7}, "at most all take part"), ({"clients": F(1, 2)}, "whole number"), ({"alpha": "x"}, "finite number"),
        ({"strong_convexity": 2}, "must lie in"), ({"clients": 3, "participants": 4}, "at most all take part"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=says):
            statement.at(**wrong)
    for wrong in ({"lr": 1}, {"steps": 2}, {"beta": 1}):
        with pytest.raises(UnknownName):
            statement.at(**wrong)
    with pytest.raises(InvalidInput, match="leave it out"):
        stated(lambda q: falls(q), problems=Quadratics(2, 1)).at(strong_convexity=F(1, 2))


# --- least values of clients ----------------------------------------------------------------------
def test_least_values_of_clients():
    statement = stated(
        lambda q: falls(q, noise=q.F_star - q.over_clients(q.client_minima)),
        local=STEP,
        problems=STRONG,
    )
    setting, rng = MethodSetting.of(statement), np.random.default_rng(4)
    for _ in range(10):
        view = setting.view(setting.random_instance(rng), exact=True)
        assert (
            view.client_minima <= view.values(view.x)[0, 0]
        ).all() and view.client_minima.shape == (view.facts["N"],)
        for k in range(-80, 80):
            assert (view.client_minima <= view.values(np.array([F(k, 8)] * view.world.dim))).all()
    assert proved(statement, "f").follows.endswith("V_0 + T noise")
    with pytest.raises(MissingCapability, match="need not have a least value"):
        proved(stated(lambda q: falls(q, noise=q.client_minima.sum()), local=STEP), "f")


# --- certificates ---------------------------------------------------------------------------------
def test_a_certificate_has_the_numbers(tmp_path):
    statement = stated(free_dyn, DYN, states=OF_DYN)
    of = statement.at(clients=5, participants=2, alpha=1)
    proof = best_constant(of, "f", "kappa_0").proof
    path = certificates.write(tmp_path / "a.json", certificates.certificate(of, proof))
    found = certificates.load(path)
    certificates.verify(found, statement)
    words, follows = certificates.told_of(found, statement)
    given = "with clients = 5, participants = 2, alpha = 1, "
    assert words.replace(given, "with ") == proof.told != words and follows == proof.follows
    held = json.loads(path.read_text())
    wrongs = [
        ({"constants": {"kappa_0": "2"}}, "not the matrix|left over"), ({"constants": {"kappa_1": "1"}}, "the constants"),
        ({"free": [{"kappa": "-1"}]}, "any number >= 0|number >= 0"), ({"free": [{"kappa": "1"}]}, "not the matrix|left over"),
        ({"free": [{"kappa": "1"}, {}]}, "cases"), ({"free": [{"kappa_0": "1"}]}, "constants"),
        ({"given": {"clients": "6", "participants": "2", "alpha": "1"}}, "it can be for"),
        ({"given": {"clients": "5", "participants": "2", "alpha": "3"}}, "not the matrix|left over"),
        ({"given": {"clients": "x"}}, "clients"),
        ({"given": {"beta": "2"}}, "unknown number"),
    ]  # fmt: skip
    for change, says in wrongs:
        path.write_text(json.dumps({**held, "question": {**held["question"], **change}}))
        with pytest.raises(
            (NotCertified, InvalidInput, UnknownName, MissingCapability), match=says
        ):
            certificates.verify(certificates.load(path), statement)
    for change in ({"free": {"kappa": "1"}}, {"given": "x"}, {"more": {}}, {"free": ["x"]}):
        path.write_text(json.dumps({**held, "question": {**held["question"], **change}}))
        with pytest.raises(InvalidInput):
            certificates.verify(certificates.load(path), statement)


def test_v_is_part_of_the_certificate(tmp_path):
    statement = stated(lambda q: falls(q), local=STEP)
    found = certificates.certificate(statement, proved(statement, "f"))
    assert len(found.parts) == 2
    with pytest.raises(InvalidInput, match="1 parts"):
        certificates.verify(replace(found, parts=found.parts[:1]), statement)
