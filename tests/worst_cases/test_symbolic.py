"""Rounds and proofs in symbols: the same as in fractions, and every sign from both sides of its edge."""

from __future__ import annotations

import math
from fractions import Fraction as F

import numpy as np
import pytest
import sympy as sp
from cases import each

from fedtheory.algorithms import FedAvg, FedDyn, FedElasticNetDyn, FedMLS, FedProx, Scaffold
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import Exact, ExactProx, GradientSteps
from fedtheory.rational import in_fractions
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.entries import NotLinear, Trace
from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, Vector, common, own, square, value
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import optimum
from fedtheory.worst_cases.runs import Run, spread
from fedtheory.worst_cases.symbolic import Symbolic, SymbolicClients, Table, at_least_0, is_form, semidefinite, symbols
from fedtheory.worst_cases.traced import VectorClients

LAM, OTHER = symbols("lambda other")
ZERO, ONE, TWO = map(sp.Integer, range(3))
TINY = F(1, 10**20)

SIGNS = [
    # expressions, low, high, whether they are at least 0 there
    ([LAM - 1], ONE, TWO, True), ([LAM - 1], ONE - TINY, TWO, False), ([LAM - 1], ONE, None, True),
    ([LAM - 1], ONE - TINY, None, False), ([2 - LAM], ONE, TWO, True),
    ([2 - LAM], ONE, TWO + TINY, False), ([2 - LAM], ONE, None, False),
    ([(LAM - 1) ** 2], ZERO, TWO, True), ([(LAM - 1) ** 2 - TINY], ZERO, TWO, False),
    ([(LAM - 1) ** 2 - TINY], ZERO, None, False), ([(LAM - 1) * (LAM - 2)], TWO, None, True),
    ([(LAM - 1) * (LAM - 2)], ZERO, ONE, True), ([(LAM - 1) * (LAM - 2)], ZERO, TWO, False),
    ([(LAM - 1) * (LAM - 2) * (LAM - 9)], ONE, TWO, True),
    ([(LAM - 1) * (LAM - 2) * (LAM - 9)], ONE, None, False),
    ([(LAM - 2) * (9 - LAM)], TWO, None, False),
    ([1 / (LAM - 1)], ZERO, TWO, False), ([1 / (LAM - 1) ** 2], ZERO, TWO, True),
    ([1 / (2 - LAM)], ZERO, ONE, True), ([1 / (2 - LAM)], ZERO, None, False),
    ([LAM / (1 + LAM)], ZERO, None, True), ([-LAM / (1 + LAM)], ZERO, None, False),
    ([F(0), LAM], ZERO, ONE, True), ([ONE, -ONE], ZERO, ONE, False), ([], ZERO, ONE, True),
    ([-ONE, ONE], ZERO, None, False), ([LAM**2 - 2], sp.sqrt(2), None, True),
    ([LAM**2 - 2 - TINY], sp.sqrt(2), None, False), ([sp.Rational(-11, 10**31)], ZERO, ONE, False),
    ([LAM**2 - 6], sp.sqrt(2) * sp.sqrt(3), None, True),
]  # fmt: skip



# --- numbers --------------------------------------------------------------------------------------
def test_arithmetic_is_in_lowest_terms():
    """Two ways to write a number are equal and hash alike; what has no symbol left is a fraction."""
    assert (LAM**2 - 1) / (LAM - 1) == LAM + 1 and hash((LAM**2 - 1) / (LAM - 1)) == hash(1 + LAM)
    for gone, number in ((LAM - LAM, 0), (2 * LAM / LAM, 2), (F(1, 3) + LAM - LAM, F(1, 3)), (LAM / (3 * LAM), F(1, 3))):
        assert isinstance(gone, F) and gone == number
    assert 1 - LAM == -(LAM - 1) and 1 / (1 / LAM) == LAM and LAM**-1 == 1 / LAM and np.int64(2) * LAM == LAM + LAM
    assert LAM != 1 and LAM != OTHER and (LAM / (OTHER + 1)).at(**{"lambda": F(2, 3), "other": 3}) == F(1, 6)
    assert sp.sympify(LAM / 2) == sp.Symbol("lambda", positive=True) / 2 and repr(LAM + 1) == "lambda + 1"
    assert LAM.free_symbols == {sp.Symbol("lambda", positive=True)}
    with pytest.raises(TypeError):
        LAM + 0.5


def test_arrays_of_symbols():
    vector = np.array([F(1), LAM], dtype=object)
    for found in (LAM * vector, vector * LAM):
        assert found.dtype == object and list(found) == [LAM, LAM**2]
    assert list(vector / LAM) == [1 / LAM, 1] and list(LAM - vector) == [LAM - 1, 0] and list(vector - LAM) == [1 - LAM, 0]


def test_comparisons_that_hold_for_all_numbers_and_those_that_do_not():
    assert LAM > 0 and LAM >= 0 and LAM >= LAM and LAM <= LAM and not LAM > LAM and 0 < LAM and not LAM < 0
    assert LAM + 1 > 1 and LAM + 1 > 1e-9 and LAM + 1 > LAM and -LAM < 0 and abs(-LAM) == LAM and -LAM <= 0 and not -LAM >= 0
    assert Losses(LAM + OTHER, LAM).largest_curvature == LAM + OTHER
    refused = (
        lambda: Losses(LAM, OTHER), lambda: LAM > 1, lambda: LAM < OTHER, lambda: abs(LAM - 1),
        lambda: LAM - 1 >= 0, lambda: 1 / (LAM - 1) > 0,
    )  # fmt: skip
    for asks in refused:
        with pytest.raises(MissingCapability, match="depends on the numbers"):
            asks()


# --- a method's round -----------------------------------------------------------------------------
def _at(v, numbers):
    """A vector, or what clients keep of a cohort's round, with numbers for its symbols."""
    if not isinstance(v, Vector):
        return [_at(of, numbers) for of in (v.old, v.new)]
    number = lambda c: c.at(**numbers) if isinstance(c, Symbolic) else c  # noqa: E731
    return Vector(*({name: x for name, c in part.items() if (x := number(c))} for part in v.parts))


class ByHand(FedAvg):
    """One step along the cohort's mean, which is taken by hand."""

    def round(self, state, clients):
        slope = clients.sum(clients.gradient(clients.broadcast(state.x))) / clients.size
        return state._replace(x=state.x - slope)


STEP = GradientSteps(3, 1.0)
ROUNDS = {
    "FedDyn": (FedDyn(1.0), {"alpha": LAM}, Exact(), {"x": common("x"), "gradients": own("g"), "h": common("h")}),
    "FedDyn's updates": (FedDyn(1.0, "update"), {"alpha": LAM}, Exact(), {"x": common("x"), "gradients": own("g"), "h": common("h")}),
    "FedElasticNet": (
        FedElasticNetDyn(1.0, 1.0, "true-gradient"), {"l1": OTHER, "l2": LAM}, Exact(),
        {"x": common("x"), "stored": own("g"), "h": common("h"), "local": common("x") + own("z")},
    ),
    "SCAFFOLD": (Scaffold(), {"server_lr": OTHER}, STEP, {"x": common("x"), "c_k": own("c"), "c": common("h")}),
    "FedAvg's printed mean": (FedAvg(aggregation="printed"), {}, STEP, {"x": common("x")}),
    "a mean by hand": (ByHand(), {}, STEP, {"x": common("x")}),
    "FedAvg by samples": (FedAvg(aggregation="samples"), {}, STEP, {"x": common("x")}),
    "FedProx": (FedProx(1.0), {"mu": LAM}, Exact(), {"x": common("x")}),
}  # fmt: skip


@pytest.mark.parametrize("everybody", [False, True])
@pytest.mark.parametrize("name", ROUNDS)
def test_a_round_in_symbols_is_that_of_the_class_at_every_number(name, everybody):
    """Whatever N, P, step and curvature: state, points and conditions of the run with these numbers in fractions."""
    method, given, solver, state = ROUNDS[name]
    names = symbols("lambda other N P")
    lam, other, N, P = names
    turned = {n: lam if x is LAM else other for n, x in given.items()}
    run = Run(weights={"x": 1}) if everybody else Run(P / N, (N - P) / (P * (N - 1)), weights={"x": 1})
    solvers = (in_fractions(solver, {"lr": lam}), in_fractions(solver, {"lr": F(2, 7)}))
    found = SymbolicClients(run, solvers[0], N, *(() if everybody else (P,))).after(in_fractions(method, turned), **state)
    for n, p in ((5, 2), (4, 3), (2, 1)):
        p = n if everybody else p
        numbers = {"lambda": F(2, 7), "other": F(3, 2), "N": F(n), "P": F(p)}
        plain = Run(F(p, n), spread(n, p), weights={"x": 1})
        trace = Trace(plain, n, p)
        clients = VectorClients(trace, solvers[1], n, p, 1, {}, [])
        each_has = ("gradients", "stored", "local", "c_k")
        begun = {f: trace.of_clients(v) if f in each_has else trace.of_server(v) for f, v in state.items()}
        exactly = in_fractions(method, {f: x.at(**numbers) for f, x in turned.items()})
        after = exactly.round(exactly.init(trace.of_server(plain.start), n)._replace(**begun), clients)
        for f in state:
            assert _at(getattr(found, f), numbers) == _at(trace.vector(getattr(after, f)), {})
        assert run.points.keys() == plain.points.keys() and run.conditions.keys() == plain.conditions.keys()
        assert all(_at(p.at, numbers) == plain.points[name].at for name, p in run.points.items())


def test_a_round_whose_index_is_a_symbol():
    """FedMLS's round k, for k = 3 and k = 8."""
    k, N = symbols("k N")
    method = FedMLS(1.0, 1.0, 9, math.inf, 1.0, local_training="exact-prox")
    state = {"x": common("x"), "z": common("z"), "x_local": own("x'"), "z_local": own("z'")}

    def after(index, method, run):
        return SymbolicClients(run, ExactProx(), N, round_index=index).after(method, **state)

    def run():
        return Run(smooth=False, weights={"x": 1, "z": 1, "x'": 1, "z'": 1})

    found = after(k, in_fractions(method, {"rounds": k + 1}), run())
    for index in (3, 8):
        exact = after(F(index), in_fractions(method), run())
        assert all(_at(getattr(found, f), {"k": index, "N": 2}) == getattr(exact, f) for f in state)


def test_what_a_round_asks_of_a_symbol():
    """Which of two numbers is larger, a point that is no point, and a local problem without a curvature."""
    k, N = symbols("k N")
    with pytest.raises(MissingCapability, match="depends on the numbers"):
        SymbolicClients(Run(), ExactProx(), N, round_index=k).after(
            in_fractions(FedMLS(1.0, 1.0, 9, math.inf, 1.0, local_training="exact-prox")), x=common("x0")
        )
    with pytest.raises(MissingCapability, match="sign of k"):
        SymbolicClients(Run(), STEP, N).after(FedAvg(), x=k * common("x0"))
    with pytest.raises(NotLinear, match="where the origin is"):
        SymbolicClients(Run(weights={"x0": 1, "y": 1}), STEP, N).after(FedAvg(), x=common("x0") + common("y"))
    with pytest.raises(NotLinear, match="solves local problems exactly"):
        SymbolicClients(Run(), Exact(), N).after(FedAvg(), x=common("x0"))


def test_the_rows_of_an_array_are_not_counted():
    """A mean that is taken over the rows has their number, and is refused; so is a run with another share."""
    class OverRows(FedAvg):
        def round(self, state, clients):
            slope = clients.gradient(clients.broadcast(state.x))
            return state._replace(x=state.x - slope.sum(axis=1) / clients.num_clients)

    N, P = symbols("N P")
    for counts in ((N,), (N, P)):
        run = Run() if len(counts) == 1 else Run(P / N, (N - P) / (P * (N - 1)))
        with pytest.raises(NotLinear, match="counts the rows"):
            SymbolicClients(run, STEP, *counts).after(OverRows(), x=common("x0"))
    with pytest.raises(InvalidInput, match=r"share is 1, and P of N clients are P/N"):
        SymbolicClients(Run(), STEP, N, P)


def _two_local_steps(step, clients):
    """What FedAvg with K = 2, L = 1 and everybody takes from the squared distance, D, and the run."""
    run = Run()
    after = SymbolicClients(run, in_fractions(GradientSteps(2, 1.0), {"lr": step}), clients).after(FedAvg(), x=run.start)
    run.gradient("mean", run.points["g0.1"].at.average)
    return square(run.start) - square(after.x), F(1, 2) * (value("g0.0") + value("mean")) - value("*"), run


def two_local_steps_are_proved(two: int = 2, three: int = 3) -> bool:
    """c = g^3/(2 - g^2) at kappa_0 = 2 g up to g = 1.4, and 2 g^3/((3 + g)(1 - g)) at 4 g while
    g^3 - g^2 - 4 g + 3 >= 0 (g = 0.713): four multipliers each, and the pivots of what they leave are
    at least 0.

    ``two``, ``three``: the numbers of the denominators.
    """
    g, N = symbols("gamma N")
    lost, gap, run = _two_local_steps(g, N)
    conditions = run.of_losses(Losses())
    cases = (
        (2, g**3 / (two - g**2), {"*, g0.0": 2 * g, "*, g0.1": 2 * g, "g0.1, *": 2 * g, "g0.0, mean": g}, F(7, 5)),
        (4, 2 * g**3 / ((three + g) * (1 - g)),
         {"*, g0.0": 2 * g, "*, g0.1": 2 * g, "g0.1, g0.0": 2 * g, "g0.0, mean": 2 * g}, F(713, 1000)),
    )  # fmt: skip
    rows = {MEAN: ("mean", "g0.1", "g0.0", "x0"), DEVIATION: ("mean", "g0.1", "g0.0", "g*")}
    for times, c, numbers, most in cases:
        claim = lost - times * g * gap + c * run.heterogeneity()
        left = claim - Quadratic.total(number * conditions[name] for name, number in numbers.items())
        if not is_form(left) or not all(semidefinite(left, block, order, g, 0, most) for block, order in rows.items()):
            return False
    return True


def test_two_local_steps():
    assert two_local_steps_are_proved() and not two_local_steps_are_proved(3) and not two_local_steps_are_proved(2, 4)


@pytest.mark.parametrize("step", [F(1, 8), F(1, 2)])
def test_no_smaller_number_does_for_two_local_steps(step):
    """By the solver: the least c at kappa_0 = 2 gamma and 4 gamma."""
    lost, gap, run = _two_local_steps(step, F(2))
    conditions = {name: -q for name, q in run.of_losses(Losses()).items()}
    for times, c in ((2, step**3 / (2 - step**2)), (4, 2 * step**3 / ((3 + step) * (1 - step)))):
        family = Family(lost - times * step * gap, {"minus c": -run.heterogeneity(), **conditions}, frozenset({"minus c"}))
        assert -optimum(family, "minus c") == pytest.approx(float(c), rel=1e-6)


# --- what is left ---------------------------------------------------------------------------------
@each(("expressions", "low", "high", "fine"), SIGNS)
def test_signs_between_two_numbers(expressions, low, high, fine):
    assert at_least_0(expressions, LAM, low, high) is fine


def test_matrices_that_are_definite_on_a_range():
    """lambda x^2 + 2 x y + lambda y^2 from 1 on; a block that has another row is not looked at."""
    x, y = common("x"), common("y")
    form = LAM * square(x) + 2 * x.inner(y) + LAM * square(y) + -1 * square(own("z").own_part)
    for low, fine in ((ONE, True), (ONE - TINY, False)):
        for order in (("x", "y"), ("y", "x")):
            assert semidefinite(form, "mean", order, LAM, low, TWO) is fine
    apart = LAM * square(x) + LAM * square(y)
    assert semidefinite(apart, "mean", ("x", "y"), LAM, ZERO, TWO)
    assert not semidefinite(form, "mean", ("x",), LAM, ONE, TWO)
    assert not semidefinite(form, "deviation", ("x", "y"), LAM, ONE, TWO)
    assert not semidefinite(form, "deviation", ("z",), LAM, ONE, TWO)
    assert semidefinite(-1 * form, "deviation", ("z",), LAM, ONE, TWO)


def test_a_pivot_that_is_0_has_nothing_beside_it():
    x, y, z = map(common, "xyz")
    for order in (("x", "y", "z"), ("z", "y", "x"), ("y", "z", "x")):
        assert semidefinite(LAM * square(x + y), "mean", order, LAM, ZERO, None)
        assert not semidefinite(LAM * square(x + y) + x.inner(z), "mean", order, LAM, ZERO, None)
        assert not semidefinite(LAM * square(x + y) - TINY * square(z), "mean", order, LAM, ZERO, None)


def test_numbers_of_a_table_of_inner_products():
    """Both orders of the names of an entry are one; what is not written is 0."""
    table = Table({("mean", "y", "x"): LAM, ("mean", "x", "x"): F(2)}, {"p": F(1)})
    form = Quadratic(
        {("mean", "x", "y"): 1 / LAM, ("mean", "x", "x"): 3, ("mean", "a", "x"): 7},
        {"p": LAM, "q": 5}, 11,
    )  # fmt: skip
    assert table.of(form) == LAM + 18


def test_what_is_left_of_a_proof_is_a_form():
    """Values and numbers that cancel, and those that do not."""
    gone = (LAM**2 - 1) / (LAM - 1) - LAM - 1
    form = LAM * square(common("x")) + gone * value("p") + Quadratic(constant=gone)
    assert is_form(form) and is_form(Quadratic())
    for more in (F(1, 10**20) * value("p"), LAM * value("r"), Quadratic(constant=LAM)):
        assert not is_form(form + more) and not is_form(form - more)
