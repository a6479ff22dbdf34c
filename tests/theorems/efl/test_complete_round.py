"""A round in which everybody does all E steps: attained, what it is about, and the programme beside it."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from efl_on_a_problem import BUILDERS

from fedtheory.algorithms import EFL, FedAvg
from fedtheory.errors import NotCertified
from fedtheory.participation.irregular import complete, incomplete
from fedtheory.problems import Quadratic
from fedtheory.theorems import get
from fedtheory.theorems.efl.local_steps import local_steps_are_proved
from fedtheory.theory import GradientSteps, Paper, SmoothConvex, StronglyConvex, form, potential
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.proof_scopes import scopes
from fedtheory.theory.rounds.vector_forms import families, view_of
from fedtheory.theory.rounds.vector_proofs import proved
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import optimum

NAME, FORM = "complete-round", "repaired"
STATEMENT = f"efl/{NAME}"
ONE = {"scheme": "B", "tau": 0, "h": [["1"]], "c": [["0"]], "weights": ["1"], "w0": ["1"], "law": [["0", "0", "0", "1"]]}
TWO = {
    "scheme": "B", "tau": 0, "h": [["1"], ["1/2"]], "c": [["1"], ["-2"]], "weights": ["1/2", "1/2"], "w0": ["-7/100"],
    "law": [["0", "0", "1"]] * 2,
}  # fmt: skip


def of_a_factor(E, eta, mu, rho, c=1):
    """E ||x+ - x*||^2 <= rho ||x - x*||^2 + c zeta^2 of local gradient descent with L = 1."""
    local = GradientSteps(E, lr=lambda c: eta / c.beta)
    problems = StronglyConvex((1, 5), 1, mu=mu) if mu else SmoothConvex((1, 5), 1)

    @Paper("one").statement("round", about=FedAvg(), local=local, problems=problems)
    def statement(q):
        noise = q.constant("c", c) * q.heterogeneity / q.beta**2
        yield form("round", potential(q, lambda s: s.distance_sq, rho=rho, noise=noise))

    return statement


def test_it_is_attained_by_one_client():
    sides = get(STATEMENT).form(FORM).sides(BUILDERS["step"](ONE))
    assert sides.lhs[0] == sides.rhs[0] == F(17596287801, 90458382169)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"law": [["0", "1/2", "1/2"], ["0", "0", "1"]]}, "fewer than E steps"),
        ({"noise": [["1"], ["0"]]}, "mini-batches"),
        ({"h": [["40"], ["1/2"]], "law": [[*["0"] * 9, "1"]] * 2}, "not below 4/3: take fewer local steps"),
    ],
)
def test_what_it_is_not_about(change, says):
    assert says in BUILDERS["step"]({**TWO, **change}).applies(get(STATEMENT).form(FORM))


def test_the_proof_and_its_number():
    assert local_steps_are_proved() and not local_steps_are_proved(7)


@pytest.mark.parametrize(("E", "mu", "eta"), [(2, F(1, 10), F(1, 32)), (3, F(1, 2), F(1, 8)), (4, F(0), F(1, 8))])
def test_the_best_constant_of_all_losses_is_below_it(E, mu, eta):
    """By the programme, at the same first factor; and near it for two short steps."""
    q = 1 - eta * mu
    t = eta * (1 - mu) * E / q**E
    c = eta**3 * (1 - mu) * q * E * (E - 1) * (2 * E - 1) / (12 - 9 * t)
    statement = of_a_factor(E, eta, mu, q ** (2 * E))
    setting = MethodSetting.of(statement)
    view = view_of(setting, *scopes(setting)[0][0])
    none, one = (families(statement, view.other({"c": F(c)}), "round")[0] for c in (0, 1))
    best = -optimum(Family(none.start, {**none.terms, "minus c": none.start - one.start}, frozenset({"minus c"})), "minus c")
    assert best <= c * F(1000001, 1000000) and best > (0.95 if E == 2 else 0.5) * float(c)


def test_no_smaller_first_factor():
    """A hundredth less, and no c is enough: clients that are all alike do not move on."""
    rho = F(19, 20) ** 4
    assert proved(of_a_factor(2, F(1, 4), F(1, 5), rho), "round")
    with pytest.raises(NotCertified):
        proved(of_a_factor(2, F(1, 4), F(1, 5), F(99, 100) * rho, 10**6), "round")


def test_the_printed_round_allows_far_more():
    """Step 7 of the proof of Theorem 1, of the same round: its G alone is a hundred times what is needed."""
    view = BUILDERS["step"](TWO)
    ours, theirs = (get(f"efl/{name}").form("repaired").sides(view) for name in ("complete-round", "theorem-1-step-7"))
    assert ours.lhs[0] == theirs.lhs[0] and theirs.rhs[0] > 100 * ours.rhs[0]


def test_a_problem_of_a_user():
    """Three clients' quadratics with Theorem 1's steps; with clients that are inactive it says that it is not about them."""
    statement, rng = get(STATEMENT), np.random.default_rng(3)
    H = np.stack([np.diag(rng.uniform(0.5, 1, 2)) for _ in range(3)])
    problem = Quadratic(H, rng.normal(size=(3, 2)))
    for law, verdict in ((complete(3, 2), "holds"), (incomplete(3, 2, [0, F(1, 2), F(1, 2)]), "not applicable")):
        found = statement.verify(problem, EFL(), sampling=law, rounds=4)
        assert next(check.verdict for check in found if check.form == "repaired") == verdict
