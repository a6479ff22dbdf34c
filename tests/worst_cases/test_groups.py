"""Groups of clients with losses of different classes, and weights: against one class, against PEPit
with a loss for every client, by hand, and against runs on quadratics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction as F
from typing import ClassVar

import numpy as np
import pytest
from certificates_at_hand import from_file
from pepit_at_hand import total

from fedtheory import simulate
from fedtheory.algorithms import Compressed, FedAvg, FedDyn, FedProx, Scaffold
from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability, NotCertified
from fedtheory.local import Exact, GradientSteps
from fedtheory.local.objective import LocalObjective
from fedtheory.problems import Quadratic
from fedtheory.worst_cases import (
    Contraction,
    Group,
    Losses,
    certificate,
    quadratic_potential,
    verify,
    worst_case,
    worst_function,
)
from fedtheory.worst_cases.below import below, check

SLOW, FAST, FLAT = Losses(1, F(1, 10)), Losses(4, 1), Losses(2)
TENTH = [Group("9/10", SLOW), Group("1/10", Losses(100, 1))]

ONE_CLASS = [
    ("fedavg", {"local_steps": 2, "rounds": 2, "step": F(1, 4)}),
    ("scaffold", {"local_steps": 2, "rounds": 2, "step": F(1, 4), "criterion": "gradient"}),
    ("fedprox", {"rounds": 2, "criterion": "distance"}), ("feddyn", {"rounds": 2}),
    ("scaffnew", {"rounds": 2, "step": F(1, 2)}), ("mime", {"rounds": 2, "local_steps": 2, "step": F(1, 4)}),
    ("fedavg", {"rounds": 2, "step": F(1, 4), "contraction": F(1, 2)}), ("efl", {"local_steps": 2, "step": F(1, 4)}),
    ("fedavg", {"rounds": 2, "step": F(1, 4), "criterion": "best-gap"}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "how"), ONE_CLASS)
def test_groups_of_one_class_have_its_value(method, how):
    one = worst_case(method, losses=SLOW, **how)
    two = worst_case(method, losses=[Group("1/3", SLOW), Group("2/3", SLOW)], **how)
    assert two.best == pytest.approx(one.best, rel=1e-6)
    assert one.best * (1 - 1e-6) <= two.bound <= one.best * (1 + 2e-5)
    assert two.any_number and two.question.clients == 6
    verify(certificate(two))


@pytest.mark.parametrize("method", ["fedmls", "subgradient", "fedelasticnet-dyn"])
def test_other_classes_of_losses(method):
    losses = Losses(1) if method == "fedelasticnet-dyn" else Losses(None, lipschitz=1)
    one = worst_case(method, rounds=2, losses=losses)
    two = worst_case(method, rounds=2, losses=[Group("1/4", losses), Group("3/4", losses)])
    assert two.best == pytest.approx(one.best, rel=1e-5)
    verify(certificate(two))


def test_weights_are_those_of_the_method():
    """FedAvg averages by weights, so that any shares have one value; SCAFFOLD's mean is the plain one."""
    how = {"local_steps": 2, "rounds": 2, "step": F(1, 4)}
    weighted = [Group("1/4", SLOW, 2), Group("3/4", SLOW, 2)]
    assert worst_case("fedavg", losses=weighted, **how).best == pytest.approx(worst_case("fedavg", losses=SLOW, **how).best, rel=1e-6)
    assert worst_case("scaffold", losses=weighted, **how).best > 1.2 * worst_case("scaffold", losses=SLOW, **how).best


# --- by hand --------------------------------------------------------------------------------------
def test_one_step_of_gradient_descent():
    """F is L-smooth and mu-strongly convex for the weighted means L and mu, and parabolas attain what that allows."""
    L, mu = F(9, 10) + 10, F(9, 100) + F(1, 10)
    for step in (F(1, 20), F(1, 6)):
        found = worst_case("fedavg", losses=TENTH, step=step, criterion="distance")
        assert found.best == pytest.approx(float(max(1 - step * mu, step * L - 1) ** 2), rel=1e-6)
    convex = [Group("1/2", Losses(1), 1), Group("1/3", Losses(3), 1), Group("1/6", Losses(9), 1)]
    L = F(1, 2) + 1 + F(9, 6)
    found = worst_case("fedavg", losses=convex, step=1 / L)
    assert found.best == pytest.approx(float(L / 6), rel=1e-6)  # L R^2/(4 h L + 2), as of one L-smooth loss


# --- PEPit ----------------------------------------------------------------------------------------
def mean(rows, weights):
    return total([float(c) * row for c, row in zip(weights, rows, strict=True)])


def by_pepit(method, groups, K, rounds, criterion, number):
    """PEPit's value, with a loss for every client, and the method written out."""
    from PEPit import PEP
    from PEPit.functions import SmoothStronglyConvexFunction
    from PEPit.primitive_steps import proximal_step

    pep, every = PEP(), [g for g in groups for _ in range(g.clients)]
    of = [(float(g.losses.strong_convexity), float(g.losses.smoothness)) for g in every]
    losses = [pep.declare_function(SmoothStronglyConvexFunction, mu=mu, L=L) for mu, L in of]
    weights, plain = [g.share / g.clients for g in every], [1 / len(every)] * len(every)
    whole = mean(losses, weights)
    star, x = whole.stationary_point(), pep.set_initial_point()
    pep.set_initial_condition((x - star) ** 2 <= 1)
    pep.add_constraint(mean([f.gradient(star) ** 2 for f in losses], weights) <= 1)
    kept, c = [0 * x] * len(losses), 0 * x
    for _ in range(rounds):
        ends = []
        for f, own in zip(losses, kept, strict=True):
            y = x
            if method in ("fedprox", "feddyn"):
                y = proximal_step(x + own / number, f, 1 / number)[0]
            else:
                for _ in range(K):
                    y = y - number * (f.gradient(y) - own + c)
            ends.append(y)
        if method == "scaffold":
            kept = [own - c + (x - y) / (K * number) for own, y in zip(kept, ends, strict=True)]
            c = mean(kept, plain)
        if method == "feddyn":
            kept = [own - number * (y - x) for own, y in zip(kept, ends, strict=True)]
            x = mean(ends, plain) - mean(kept, plain) / number
        else:
            x = mean(ends, weights if method == "fedavg" else plain)
    measured = {"gap": whole(x) - whole(star), "distance": (x - star) ** 2}
    pep.set_performance_metric(measured.get(criterion, whole.gradient(x) ** 2))
    return pep.solve(verbose=0, solver="CLARABEL")


def groups(*of):
    return [Group(share, losses, clients) for share, losses, clients in of]


TWO = groups(("1/3", SLOW, 1), ("2/3", FAST, 1))
EQUAL = groups(("1/2", SLOW, 1), ("1/2", FAST, 1))
FOUR = groups(("1/2", SLOW, 2), ("1/2", FAST, 2))
CASES = [  # method, groups, K, T, criterion, its number
    ("fedavg", TWO, 1, 2, "gap", F(1, 8)), ("fedavg", TWO, 2, 2, "distance", F(1, 8)), ("fedavg", FOUR, 2, 1, "gap", F(1, 8)),
    ("fedavg", groups(("1/4", SLOW, 2), ("3/4", FLAT, 2)), 2, 1, "gap", F(1, 8)),
    ("fedavg", groups(("1/2", SLOW, 1), ("1/3", FAST, 1), ("1/6", FLAT, 1)), 2, 1, "gradient", F(1, 8)),
    ("fedavg", groups(("1/4", SLOW, 1), ("3/4", FAST, 3)), 2, 1, "gap", F(1, 8)),
    ("scaffold", EQUAL, 2, 2, "gap", F(1, 8)), ("scaffold", TWO, 2, 2, "gap", F(1, 8)), ("scaffold", FOUR, 2, 1, "distance", F(1, 8)),
    ("fedprox", EQUAL, 1, 2, "gap", F(2)), ("fedprox", FOUR, 1, 1, "gradient", F(2)),
    ("feddyn", EQUAL, 1, 2, "gap", F(2)), ("feddyn", FOUR, 1, 2, "distance", F(2)),
    ("feddyn", groups(("2/5", SLOW, 1), ("3/5", FAST, 1)), 1, 2, "gap", F(2)),
]  # fmt: skip


@pytest.mark.parametrize(("method", "of", "K", "rounds", "criterion", "number"), CASES)
def test_pepit_has_the_value_of_groups(method, of, K, rounds, criterion, number):
    name = {"fedprox": "mu", "feddyn": "alpha"}.get(method, "step")
    found = worst_case(method, losses=of, local_steps=K, rounds=rounds, criterion=criterion, **{name: number})
    value = by_pepit(method, of, K, rounds, criterion, float(number))
    assert found.best == pytest.approx(value, rel=1e-5)
    assert value * (1 - 1e-5) <= found.bound <= value * (1 + 2e-5)
    verify(certificate(found))


def test_more_clients_in_a_group_are_no_worse_than_two():
    """One client has no deviation, and of two on all have the same value."""
    how = {"local_steps": 2, "rounds": 2, "step": F(1, 100)}
    one, two, five = (worst_case("scaffold", losses=TENTH, clients=n, **how) for n in (10, 20, 50))
    assert one.best < two.best * (1 + 1e-6)
    assert two.best == pytest.approx(five.best, rel=1e-6)
    assert (one.any_number, two.any_number, five.any_number) == (False, True, True)
    assert not worst_case("fedavg", losses=TWO, step=F(1, 8)).any_number  # two clients, and no others
    assert worst_case("fedavg", losses=TENTH, clients=10, step=F(1, 100)).any_number  # in the first group, beside one client
    for counts, weighted in (((2, 2), True), ((1, 3), True), ((1, 1), False)):
        of = groups(("1/4", SLOW, counts[0]), ("3/4", FAST, counts[1]))
        assert worst_case("fedavg", losses=of, step=F(1, 8)).any_number is weighted
    assert not worst_case("scaffold", losses=groups(("1/5", SLOW, 2), ("4/5", FAST, 2)), step=F(1, 8)).any_number
    assert "deviation 2" not in one.solution.factors and "deviation 2" in two.solution.factors


# --- methods and criteria of anyone's ------------------------------------------------------------
@dataclass(frozen=True)
class ByHand(FedAvg):
    """FedAvg, whose server adds up the rows itself."""

    def average(self, y, clients):
        return sum(w * y[:, k] for k, w in enumerate(clients.objective_weights))

    def round(self, state, clients):
        w = clients.broadcast(state.x)
        return state._replace(x=self.average(clients.minimise(LocalObjective(center=w), start=w).y, clients))


class ByHandWithSums(ByHand):
    def average(self, y, clients):
        return clients.sum(clients.weights() * y)


class OneClient(ByHand):
    def average(self, y, clients):
        return y[:, 1]


class OneForAnother(ByHand):
    def average(self, y, clients):
        return clients.mean(y[:, ::-1])


@pytest.mark.parametrize("method", [ByHand, ByHandWithSums])
@pytest.mark.parametrize("of", [TWO, groups(("1/4", SLOW, 1), ("3/4", FAST, 3))])
def test_a_method_of_anyone_s_has_the_clients_weights(method, of):
    how = {"local_steps": 2, "rounds": 2, "step": F(1, 8), "losses": of}
    assert worst_case(method, **how).bound == worst_case("fedavg", **how).bound


@pytest.mark.parametrize("method", [OneClient, OneForAnother])
def test_clients_that_are_treated_unlike_are_refused(method):
    with pytest.raises(MissingCapability, match="unlike one another"):
        worst_case(method, losses=FOUR, step=F(1, 8))


def test_a_criterion_of_anyone_s():
    """The last step after one from x_0 is h^2 ||grad F(x_0)||^2, of which F's smoothness is the worst."""
    found = worst_case("fedavg", losses=TWO, step=F(1, 8), criterion=lambda q: q.sq(q.x[-1] - q.x[-2]))
    assert found.best == pytest.approx((3 / 8) ** 2, rel=1e-6)  # L = 1/3 + 8/3


# --- runs -----------------------------------------------------------------------------------------
RUNS = [
    (FedAvg(), GradientSteps(2, 0.125), {"local_steps": 2, "step": F(1, 8)}),
    (Scaffold(), GradientSteps(2, 0.125), {"local_steps": 2, "step": F(1, 8)}),
    (FedProx(mu=2.0), Exact(), {}), (FedDyn(alpha=2.0), Exact(), {}),
]


def drawn(generator, of, d):
    """Quadratics of the classes with ||x_0 - x*|| = 1 and gradients at x* of mean square 1, and x*."""
    every = [g for g in of for _ in range(g.clients)]
    weights = np.array([float(g.share / g.clients) for g in every])
    H = []
    for g in every:
        turn = np.linalg.qr(generator.normal(size=(d, d)))[0]
        low, high = float(g.losses.strong_convexity), float(g.losses.smoothness)
        H.append(turn @ np.diag(generator.choice([low, high, generator.uniform(low, high)], d)) @ turn.T)
    own = generator.normal(size=(len(every), d))
    own -= weights @ own
    own /= np.sqrt(weights @ (own**2).sum(axis=1))
    star = generator.normal(size=d)
    star /= np.linalg.norm(star)
    centers = [star - np.linalg.solve(h, g) for h, g in zip(H, own, strict=True)]
    problem = Quadratic(np.array(H), np.array(centers), weights=weights)
    problem.sample_counts = weights * len(weights)  # by which FedAvg averages
    return problem, star


@pytest.mark.parametrize("of", [TWO, FOUR, groups(("1/4", SLOW, 2), ("3/4", FAST, 1))])
@pytest.mark.parametrize(("method", "solver", "how"), RUNS, ids=lambda v: getattr(v, "name", ""))
def test_no_quadratics_are_above_the_bound(method, solver, how, of):
    """None of 60 draws is, and the worst of them is not far below."""
    found = worst_case(method, losses=of, rounds=2, criterion="distance", **how)
    generator, most = np.random.default_rng(5), 0.0
    for _ in range(60):
        problem, star = drawn(generator, of, 2)
        assert np.abs(problem.full_gradient(star[None])).max() < 1e-12
        ends = []
        simulate(problem, method, rounds=2, local_solver=solver, on_round=lambda t, old, new, c: ends.append(np.array(new.x)))  # noqa: B023
        most = max(most, float(((ends[-1] - star) ** 2).sum()))
    assert found.bound / 4 < most <= found.bound


# --- worst functions ------------------------------------------------------------------------------
SHARP = [Group("1/3", Losses(None, lipschitz=1)), Group("2/3", Losses(None, lipschitz=2))]
WORST = [  # method, groups, how: weights, single clients, five of a group, kinks, the start or the gradients at the optimum
    ("fedavg", FOUR, {"local_steps": 2, "step": F(1, 8)}),
    ("fedavg", groups(("1/4", SLOW, 2), ("3/4", FLAT, 5)), {"local_steps": 2, "step": F(1, 8), "criterion": "gradient"}),
    ("scaffold", EQUAL, {"local_steps": 2, "step": F(1, 8), "criterion": "distance"}),
    ("scaffold", groups(("1/2", SLOW, 1), ("1/3", FAST, 1), ("1/6", FLAT, 3)), {"step": F(1, 8), "heterogeneity": 0}),
    ("scaffold", [Group("9/10", SLOW), Group("1/10", FAST)], {"local_steps": 2, "step": F(1, 8), "option": "gradient"}),
    ("feddyn", TWO, {"alpha": 2}), ("fedprox", FOUR, {"mu": 1, "criterion": "gradient"}), ("fedprox", TWO, {"mu": 1}),
    ("fedavg", FOUR, {"local_steps": 2, "step": F(1, 8), "criterion": "best-gap"}),
    ("fedavg", SHARP, {"local_steps": 2, "step": F(1, 4)}), ("fedmls", SHARP, {}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "of", "how"), WORST)
def test_a_run_on_the_worst_functions_ends_with_the_bound(method, of, how):
    """The losses of every client are of its group's class, the bound is reached by the class itself, and a bound a tenth
    smaller is refuted in fractions."""
    found = worst_case(method, losses=of, rounds=2, **how)
    made = worst_function(found)
    assert made.measured() == pytest.approx(found.best, rel=1e-4)
    of_each, problem, sized = found.question.losses.of_clients, made.problem, found.question.losses.groups
    weights = np.repeat([float(g.share / g.clients) for g in sized], [g.clients for g in sized])
    np.testing.assert_allclose(problem.weights, weights, rtol=1e-12)
    star = problem.gradient(made.optimum[None])[0]
    if of is not SHARP:
        assert np.abs(weights @ star).max() < 1e-6
        assert weights @ (star**2).sum(axis=1) <= float(found.question.heterogeneity) ** 2 + 1e-6
        for name, number in (("smoothness", problem.smoothness()), ("strong_convexity", problem.strong_convexity())):
            np.testing.assert_allclose(number, [float(getattr(kind, name)) for kind in of_each])
    assert np.linalg.norm(made.optimum) <= 1 + 1e-9
    least = below(made)
    assert F(9, 10) * found.bound < least.value <= found.bound
    check(found.asked | {"kind": "worst-case"}, least)
    with pytest.raises(NotCertified):
        check(found.asked | {"kind": "worst-case"}, replace(least, value=found.bound + F(1, 10**6)))


def test_gradients_of_each_class():
    """On the worst functions of two classes no two gradients of a client are further apart than its L allows."""
    made = worst_function(worst_case("fedavg", losses=FOUR, local_steps=2, step=F(1, 8)))
    x = np.random.default_rng(0).normal(size=(40, made.problem.dim))
    g, apart = made.problem.gradient(x), np.linalg.norm(x[:, None] - x[None], axis=-1)
    ratios = np.linalg.norm(g[:, None] - g[None], axis=-1)[~np.eye(40, dtype=bool)] / apart[~np.eye(40, dtype=bool)][:, None]
    largest = np.array([float(of.smoothness) for of in made.found.question.losses.of_clients])
    least = np.array([float(of.strong_convexity) for of in made.found.question.losses.of_clients])
    assert (ratios <= largest * (1 + 1e-9)).all() and (ratios >= least * (1 - 1e-9)).all()


# --- files ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def proof():
    return certificate(worst_case("scaffold", losses=TENTH, local_steps=2, step=F(1, 200)))


def with_group(proof, number, **changes):
    question = dict(proof.question)
    question["groups"] = {**question["groups"], number: {**question["groups"][number], **changes}}
    return replace(proof, question=question)


def test_a_file_is_written_read_and_checked(proof, tmp_path):
    read = from_file(proof, tmp_path)
    assert (read.claim, read.multipliers, read.factors) == (proof.claim, proof.multipliers, proof.factors)


FORGED = [
    {"1": {"share": "4/5"}, "2": {"share": "1/5"}}, {"2": {"smoothness": "101"}}, {"1": {"smoothness": "2"}},
    {"2": {"strong convexity": "1/2"}}, {"1": {"clients": 9}, "2": {"clients": 11}}, {"1": {"clients": 19}, "2": {"clients": 1}},
]  # fmt: skip


@pytest.mark.parametrize("changes", FORGED)
def test_a_forged_file_is_refused(proof, changes, tmp_path):
    for number, of in changes.items():
        proof = with_group(proof, number, **of)
    with pytest.raises(NotCertified):
        from_file(proof, tmp_path)


@pytest.mark.parametrize(
    ("number", "changes", "why"),
    [
        ("1", {"share": "4/5"}, "add up to 9/10"), ("1", {"share": "-9/10"}, "share"), ("2", {"clients": 3}, "leave it out"),
        ("2", {"clients": 0}, "clients"), ("2", {"smoothness": "1/2"}, "smoothness"), ("1", {"more": "1"}, "no part of it"),
    ],
)  # fmt: skip
def test_groups_of_a_file_that_are_none(proof, number, changes, why):
    with pytest.raises(FedTheoryError, match=why):
        verify(with_group(proof, number, **changes))


def test_a_question_has_one_class_or_groups(proof):
    with pytest.raises(InvalidInput, match="smoothness: no part of it"):
        verify(replace(proof, question={**proof.question, "smoothness": F(1)}))
    with pytest.raises(InvalidInput, match="table"):
        verify(replace(proof, question={**proof.question, "groups": ["1/2"]}))
    with pytest.raises(InvalidInput, match="table"):
        verify(replace(proof, question={**proof.question, "groups": {"1": "1/2"}}))


# --- what is asked --------------------------------------------------------------------------------
def test_one_group_is_one_class():
    found = worst_case("fedavg", losses=[Group(1, SLOW, 7)], step=F(1, 4))
    assert found.asked == {**worst_case("fedavg", losses=SLOW, step=F(1, 4)).asked, "clients": 7, "participants": 7}


WRONG = [
    ({"losses": [Group("1/2", SLOW)]}, "add up to 1/2"), ({"losses": []}, "Group"), ({"losses": [SLOW, FAST]}, "Group"),
    ({"losses": TENTH, "clients": 15}, "multiple of 10"), ({"losses": TWO, "clients": 3}, "the groups have 2"),
    ({"losses": [Group("1/2", SLOW, 1), Group("1/2", FAST)]}, "of all, or of none"),
    ({"losses": [Group(F(1, 20_001), SLOW), Group(F(20_000, 20_001), SLOW)]}, "at most 10,000"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "why"), WRONG)
def test_groups_that_are_none(how, why):
    with pytest.raises(InvalidInput, match=why):
        worst_case("fedavg", step=F(1, 4), **how)


@pytest.mark.parametrize("share", [0, "3/2", "x"])
def test_shares(share):
    with pytest.raises(InvalidInput, match="share"):
        Group(share, SLOW)


def test_groups_of_nothing():
    with pytest.raises(InvalidInput, match="Losses"):
        Group("1/2", 3)
    with pytest.raises(InvalidInput, match="clients"):
        Group("1/2", SLOW, 0)
    with pytest.raises(InvalidInput, match="Losses"):
        Group("1/2", worst_case("fedavg", losses=FOUR, step=F(1, 8)).question.losses)


def test_groups_that_are_made_already():
    made = worst_case("fedavg", losses=FOUR, step=F(1, 8))
    assert worst_case("fedavg", losses=made.question.losses, step=F(1, 8)).bound == made.bound
    pair = quadratic_potential("fedavg", losses=[Group("1/4", SLOW), Group("3/4", FAST)], step=F(1, 8))
    assert quadratic_potential("fedavg", losses=pair.question.losses, step=F(1, 8)).rho == pair.rho


def test_what_is_not_asked_of_groups():
    with pytest.raises(MissingCapability, match="no cohorts are drawn"):
        worst_case("fedavg", losses=FOUR, participants=2)
    with pytest.raises(InvalidInput, match="everybody takes part"):
        quadratic_potential("fedavg", losses=[Group("1/2", SLOW), Group("1/2", FAST)], participants=2)
    with pytest.raises(InvalidInput, match="strongly convex losses"):
        quadratic_potential("fedavg", losses=[Group("1/2", SLOW), Group("1/2", FLAT)])
    kinks = [Group("1/2", FLAT), Group("1/2", Losses(None, lipschitz=1))]
    with pytest.raises(MissingCapability, match="some groups are smooth and those of others need not be"):
        worst_function(worst_case("fedavg", losses=kinks, step=F(1, 8)))
    with pytest.raises(InvalidInput, match="clients = 4: the groups have 2 in all"):
        worst_function(worst_case("fedavg", losses=TWO, step=F(1, 8)), 4)
    sharp = Losses(None, lipschitz=1)
    with pytest.raises(InvalidInput, match="takes no weights"):
        worst_case("fedmls", losses=[Group("1/4", sharp, 1), Group("3/4", sharp, 1)])
    with pytest.raises(InvalidInput, match="one loss"):
        worst_case("mopes", losses=[Group("1/4", sharp), Group("3/4", sharp)])


class PlainMean(FedAvg):
    plain_mean: ClassVar[bool] = True


def test_a_method_of_ones_own_may_refuse_weights():
    """Also where its messages are compressed; groups of as many clients as their shares say are fine."""
    weighted = [Group("1/4", FAST, 1), Group("3/4", SLOW, 1)]
    for method in (PlainMean(), Compressed(PlainMean(), up=Contraction(F(1, 2)))):
        with pytest.raises(InvalidInput, match="takes no weights"):
            worst_case(method, losses=weighted, step=F(1, 8))
    assert worst_case(PlainMean(), losses=FOUR, step=F(1, 8)).best > 0
    assert worst_case(FedAvg(), losses=weighted, step=F(1, 8)).best > 0
