"""A worst function of a class as a table in fractions: it refutes what drawn losses do not, and a
forged one is refused."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from statements_at_hand import sentence

from fedtheory.algorithms import VRLSGD, FedAvg, FedDyn, FedProx, Scaffold
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.local import GradientSteps as LocalSteps
from fedtheory.simulation import simulate
from fedtheory.theory import (
    GradientSteps,
    Lipschitz,
    Minimise,
    Paper,
    Quadratics,
    Smooth,
    SmoothConvex,
    StronglyConvex,
    Uniform,
    eq,
    le,
    method,
    printed,
    study,
)
from fedtheory.theory.judge.replay import load, replay, save
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.tables import Table
from fedtheory.theory.rounds.undefined import Undefined
from fedtheory.theory.rounds.vector_proofs import best_constant, best_constants, proved
from fedtheory.theory.studies.worst_tables import worst_table
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.interpolation import least_losses

CONVEX, TWO = SmoothConvex((1, 3), (1, 3)), SmoothConvex((2, 3), (1, 3))
STRONG, ANY = StronglyConvex((2, 2), (1, 3)), Smooth((1, 2), (1, 2))
BOUNDED = Lipschitz((1, 2), (1, 3))
HALF = GradientSteps(1, lr=lambda c: F(1, 2) / c.beta)
STEPS = GradientSteps(2, lr=lambda c: F(1, 2) / c.beta)
PROX, DYN = method(FedProx, mu=lambda c: c.beta), method(FedDyn, alpha=lambda c: c.beta)


def claim(sides, **how):
    """A statement of one form from a function of the quantities and of the constant c."""

    def function(q):
        """It."""
        yield printed(le(*sides(q, q.constant("c", how["c"]))))

    return sentence(function, **{k: v for k, v in how.items() if k != "c"})


def table(statement, **how):
    """The witness by a worst function, replayed from its file's text."""
    found = worst_table(MethodSetting.of(statement), "printed", **how)
    if found is not None:
        assert replay(found, statement).verdict == "violated"
    return found


# --- 1 % below the best value a table, 1 % above it a proof ---------------------------------------
GAP = {
    "over": "run", "rounds": (1, 1),
    "sides": lambda q, c: (q.gap[-1:], c * q.beta * q.distance_sq[:1] + q.heterogeneity / q.beta),
}  # fmt: skip
GAP_2 = {**GAP, "rounds": (2, 2)}
GAP_AND_SPREAD = {
    **GAP,
    "sides": lambda q, c: (
        q.gap[-1:],
        q.beta * q.distance_sq[:1] / 5 + c * q.heterogeneity / q.beta,
    ),
}  # fmt: skip
NEARER = {
    "sides": lambda q, c: (q.distance_sq_next, c * q.distance_sq + 2 * q.heterogeneity / q.beta**2)
}
DRIFT = {"sides": lambda q, c: (q.drift, c * (q.gap + q.heterogeneity / q.beta) / q.beta)}
DESCENT = {"sides": lambda q, c: (q.gradient_sq, c * q.beta * (q.F - q.F_next))}
FLATTER = {"sides": lambda q, c: (q.gradient_next_sq, c * q.gradient_sq)}
COHORT = {
    "sides": lambda q, c: (q.distance_sq_next, q.distance_sq + c * q.heterogeneity / q.beta**2),
    "rounds": (0, 0),
}
SPREAD = {
    "over": "run", "rounds": (1, 1),
    "sides": lambda q, c: (q.gap[-1:], c * (q.distance_sq[:1] + q.G_sq)),
}  # fmt: skip
SMALL = {
    "gap": {**GAP, "local": HALF, "problems": CONVEX},
    "gap after two rounds": {**GAP_2, "local": HALF, "problems": CONVEX},
    "gap, two local steps": {**GAP, "local": STEPS, "problems": TWO},
    "gap and heterogeneity": {**GAP_AND_SPREAD, "local": STEPS, "problems": TWO},
    "FedProx": {**GAP, "about": PROX, "local": Minimise(), "problems": TWO},
    "FedProx, two rounds": {**GAP_2, "about": PROX, "local": Minimise(), "problems": TWO},
    "FedDyn": {**GAP, "about": DYN, "local": Minimise(), "problems": TWO},
    "FedDyn, two rounds": {**GAP_2, "about": DYN, "local": Minimise(), "problems": CONVEX},
    "SCAFFOLD": {**GAP_2, "about": Scaffold(), "local": STEPS, "problems": TWO},
    "VRL-SGD": {**GAP_2, "about": VRLSGD(), "local": STEPS, "problems": TWO},
    "strongly convex, two local steps": {**NEARER, "local": STEPS, "problems": STRONG},
    "strongly convex gap": {**GAP_2, "local": STEPS, "problems": STRONG},
    "strongly convex FedProx": {**NEARER, "about": PROX, "local": Minimise(), "problems": STRONG},
    "drift": {**DRIFT, "local": STEPS, "problems": TWO},
    "drift of FedProx": {**DRIFT, "about": PROX, "local": Minimise(), "problems": TWO},
    "descent": {**DESCENT, "local": HALF, "problems": CONVEX},
    "descent, nonconvex": {**DESCENT, "local": HALF, "problems": ANY},
    "gradients": {**FLATTER, "local": HALF, "problems": CONVEX},
    "gradients, nonconvex": {**FLATTER, "local": HALF, "problems": ANY},
    "cohorts": {**COHORT, "sampling": Uniform(1), "local": STEPS, "problems": TWO},
    "cohorts of three": {
        **COHORT,
        "sampling": Uniform(2),
        "local": STEPS,
        "problems": SmoothConvex((3, 4), (1, 3)),
    },
    "a round after another": {
        "sides": lambda q, c: (q.gap_next, c * (q.gap + q.heterogeneity / q.beta)),
        "local": HALF,
        "problems": STRONG,
        "rounds": (1, 1),
    },
    "two subgradients at the minimiser": {
        "sides": lambda q, c: (q.distance_sq_next, c * (q.distance_sq + q.heterogeneity)),
        "about": method(FedProx, mu=2),
        "local": Minimise(),
        "problems": BOUNDED,
        "rounds": (0, 0),
    },
    "bounded subgradients": {**SPREAD, "local": GradientSteps(1, lr=F(1, 2)), "problems": BOUNDED},
}


@pytest.mark.parametrize("name", SMALL)
def test_below_the_best_value_a_table_violates_it_and_above_it_is_proved(name):
    statement = claim(c=1, **SMALL[name])
    best = F(best_constant(statement, "printed", "c").best).limit_denominator(10**6)
    assert best > 0
    found = table(statement, constants={"c": best * F(99, 100)})
    assert found is not None and found.constants == {"c": str(best * F(99, 100))}
    assert table(statement, constants={"c": best * F(101, 100)}) is None
    assert proved(claim(c=best * F(101, 100), **SMALL[name]), "printed").parts
    with pytest.raises(NotCertified):
        proved(claim(c=best * F(99, 100), **SMALL[name]), "printed")


# --- what drawn losses do not refute --------------------------------------------------------------
def last_gap(problems, c):
    """The gap after two steps of size 1/(2 beta): of quadratics it is below beta R^2/12, of Huber's
    functions up to beta R^2/6."""

    def gap(q):
        """The gap."""
        yield printed(le(q.gap[-1:], q.constant("c", c) * q.beta * q.distance_sq[:1]))

    made = Paper("test-worst-tables")
    statement = made.statement(
        "gap", about=FedAvg(), local=HALF, problems=problems, over="run", rounds=(2, 2)
    )
    statement(gap)
    return made


def refuted(paper):
    """The witness by a worst function of a paper's only statement."""
    [statement] = paper.authored.values()
    return worst_table(MethodSetting.of(statement), "printed")


def test_a_rate_that_quadratics_have_and_other_losses_have_not_is_refuted_by_a_table(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(SmoothConvex, "families", ("quadratic",))  # Huber's functions are not drawn
    monkeypatch.setattr(SmoothConvex, "kinds", ("quadratic", "least squares"))
    found = study(last_gap(SmoothConvex((1, 2), (1, 2)), F(1, 8)), budget=60)
    row, [witness] = found.row("gap", "printed"), found.counterexamples
    assert (row.verdict, row.violations) == ("violated", 1)
    assert "table" in witness.data and witness.found_by == {"search": "worst function"}
    told = "a worst function of the class: a table of 4 points of one loss in dimension 1"
    assert f"refuted  printed: {told}" in str(found)
    assert found.to_json()["unproved"] == found.to_json()["proved"] == {}
    assert not found.necessity and not found.mutants  # of a form that is refuted nothing is asked
    again = replay(
        load(save(witness, tmp_path / "it.json")), last_gap(SmoothConvex((1, 2), (1, 2)), F(1, 8))
    )
    assert (again.verdict, again.mode) == ("violated", "rational")
    assert (
        table(claim(c=F(1, 8), **{**GAP_2, "local": HALF, "problems": Quadratics((1, 2), (1, 2))}))
        is None
    )  # which says too little


def test_a_constant_is_violated_just_beyond_its_best_value_and_an_assumption_is_needed(monkeypatch):
    monkeypatch.setattr(SmoothConvex, "families", ("quadratic",))
    monkeypatch.setattr(SmoothConvex, "kinds", ("quadratic", "least squares"))
    monkeypatch.setattr(Smooth, "families", ("quadratic",))
    paper = last_gap(SmoothConvex((1, 2), (1, 2)), F(1, 5))
    found = study(paper, budget=120)
    [constant], [mutant] = [n for n in found.necessity if hasattr(n, "constant")], found.mutants
    assert (constant.violated_at, constant.holds_at) == (
        F(999, 6000),
        F(1, 6),
    )  # 1/12 of quadratics
    assert constant.example.constants == {"c": "333/2000"} and "table" in constant.example.data
    assert replay(constant.example, paper).verdict == "violated"
    assert not mutant.rejected  # 9/50 is above 1/6
    assert [m.rejected for m in study(last_gap(CONVEX, F(1, 6)), budget=120).mutants] == [True]
    [variant] = [
        v
        for words, v in MethodSetting.of(next(iter(paper.authored.values()))).variants()
        if words == "convex losses"
    ]
    without = worst_table(variant, "printed", without="convex losses")
    assert without.without == "convex losses" and without.data["table"]["constants"]["mu"] == "-1"
    assert replay(without, paper).verdict == "violated"


def test_proofs_know_that_x_star_is_the_minimiser_and_no_other_stationary_point():
    """From x0 = 1 with slope -1, which no loss has whose least value is at 0, 5/4 is reached."""

    def sides(q, c):
        turned = q.dot(q.gradient[-1:], q.x[-1:] - q.x_star)
        return turned, c * q.beta * q.distance_sq[:1]

    how = {**GAP, "sides": sides, "local": GradientSteps(1, lr=lambda c: F(3, 2) / c.beta)}
    alone = claim(c=1, **how, problems=Smooth(1, (1, 2)))
    [best] = best_constants(alone, "printed")
    assert 0 < best.proved < F(5, 4)
    found = table(alone, constants={"c": best.proved * F(99, 100)})
    assert not any(map(F, found.data["table"]["x_star"]))
    several = claim(c=best.proved, **how, problems=ANY)
    assert proved(several, "printed").parts and table(several) is None
    assert not best_constants(several, "printed")  # for which not all that follows is known


def test_the_rate_of_gradient_descent_on_losses_that_are_not_convex_is_proved():
    def sides(q, c):
        return q.gradient_sq[:-1].sum(axis=0, keepdims=True), c * q.beta * q.gap[:1]

    step = GradientSteps(1, lr=lambda c: 1 / c.beta)
    rate = {"over": "run", "rounds": (2, 2), "local": step, "sides": sides, "problems": ANY}
    assert "convex or not" in proved(claim(c=2, **rate), "printed").words
    found = table(claim(c=F(199, 100), **rate))
    assert found.data["table"]["constants"]["mu"] == "-1"


def test_what_is_true_of_the_class_has_no_table():
    assert refuted(last_gap(CONVEX, F(1, 6))) is None


def test_of_a_class_that_is_made_of_another_nothing_is_said():
    """It may be about fewer losses, as here, and a table does not say which it has."""

    class Fewer(Smooth):
        def why_not_losses(self, instance):
            curved = (abs(instance.h) > 1).any()
            return "too curved" if curved else super().why_not_losses(instance)

    rate = {**SMALL["descent, nonconvex"], "problems": Fewer((1, 2), (1, 2))}
    whole = table(claim(c=1, **SMALL["descent, nonconvex"]))
    assert table(claim(c=1, **rate)) is None and not best_constants(claim(c=1, **rate), "printed")
    with pytest.raises(InvalidInput, match="is not one of smooth losses"):
        replay(whole, claim(c=1, **rate))


def test_equal_weights_are_any_weights_and_one_loss_is_that_of_identical_clients():
    how = {**GAP_2, "local": HALF, "c": F(1, 8)}
    for more in (
        {"weights": "any"},
        {"identical": True},
        {"weights": "samples", "identical": True},
    ):
        found = table(claim(problems=SmoothConvex((2, 3), (1, 2), **more), **how))
        assert len(found.data["table"]["at"]) == 2 and found.data["weights"] == ["1/2", "1/2"]
    data = copy.deepcopy(found.data)
    data["table"]["values"][1] = [str(F(v) + 1) for v in data["table"]["values"][1]]
    same = claim(problems=SmoothConvex((2, 3), (1, 2), identical=True), **how)
    with pytest.raises(InvalidInput, match="not identical"):
        replay(replace(found, data=data), same)
    assert replay(replace(found, data=data), claim(problems=SmoothConvex((2, 3), (1, 2)), **how))


def test_a_form_that_fails_in_more_dimensions_than_the_statement_is_about_stands_and_that_is_told():
    def turned(q):
        """On a line, gradients keep their direction."""
        yield printed(le(q.sq(q.gradient[-1:]), q.dot(q.gradient[-1:], q.gradient[:1])))

    how = {"over": "run", "rounds": (2, 2), "local": GradientSteps(1, lr=lambda c: 1 / c.beta)}
    assert table(sentence(turned, problems=SmoothConvex(1, (1, 2)), **how)).data["start"][1] != "0"
    found = study(sentence(turned, problems=SmoothConvex(1, 1), **how), budget=60)
    assert found.row("it", "printed").verdict == "holds"
    told = "losses of the class that have 2 dimensions: the statement is about 1; there by a worst"
    assert told in " ".join(str(found).split())


def test_clients_that_differ_and_an_equation():
    statement = claim(c=F(1, 100), **SMALL["gap and heterogeneity"])
    at = np.array(table(statement).data["table"]["gradients"])
    assert len(at) == 2 and (at[0] != at[1]).any()
    odd = claim(
        c=F(1, 100), **{**SMALL["gap and heterogeneity"], "problems": SmoothConvex((5, 5), (1, 3))}
    )
    assert len(table(odd).data["table"]["at"]) == 5

    def half(q):
        """Wrong both ways."""
        yield printed(
            eq(q.dot(q.gradient_next, q.x - q.x_star), q.dot(q.gradient, q.x - q.x_star) / 2)
        )

    assert table(sentence(half, problems=CONVEX)).lhs != "0"


def as_functions(data, losses):
    """The table as losses of the package, and x* as seen from the start: 0."""
    at, gradients, values = (
        np.array(data["table"][k], dtype=object) for k in ("at", "gradients", "values")
    )
    last = [
        np.frompyfunc(lambda v: float(F(v)), 1, 1)(v).astype(float)[:, ::-1]
        for v in (at, gradients, values)
    ]
    start, star = (
        np.array([float(F(v)) for v in of]) for of in (data["start"], data["table"]["x_star"])
    )
    return least_losses(losses, last[0] - start, *last[1:]), star - start


@pytest.mark.parametrize(
    "name", ["gap after two rounds", "SCAFFOLD", "gap and heterogeneity", "strongly convex gap"]
)
def test_a_method_run_on_a_loss_that_has_the_table_ends_where_the_table_says(name):
    how = SMALL[name]
    best = F(best_constant(claim(c=1, **how), "printed", "c").best).limit_denominator(10**6)
    found = table(claim(c=1, **how), constants={"c": best * F(9, 10)})
    mu = F(found.data["table"]["constants"]["mu"])
    problem, star = as_functions(found.data, Losses(F(1), mu))
    steps, about = how["local"].steps, how.get("about", FedAvg())
    models = [np.zeros(problem.dim)]
    simulate(
        problem, about, rounds=found.data["rounds"], local_solver=LocalSteps(steps, lr=0.5),
        on_round=lambda t, old, new, clients: models.append(np.array(new.x)[0]),
    )  # fmt: skip
    gap = problem.objective(models[-1]) - problem.objective(star)
    assert gap == pytest.approx(float(F(found.lhs)), rel=1e-6)
    assert gap > float(F(found.rhs)) * (1 + 1e-3)


# --- tables ---------------------------------------------------------------------------------------
def of_losses(f, slope, beta=1, mu=0, points=(-2, F(-1, 2), 0, F(1, 3), 1, 3), **more):
    """The table of one loss of one variable."""
    return Table.from_data(
        {
            "constants": {"beta": str(beta), "mu": str(mu)},
            "at": [[[str(x)] for x in points]],
            "gradients": [[[str(slope(F(x)))] for x in points]],
            "values": [[str(f(F(x))) for x in points]],
            **more,
        }
    )


ONE = np.array([F(1)], dtype=object)


def test_a_table_of_a_loss_is_one_of_its_class_and_of_no_smaller_one():
    def parabola(h, **how):
        return of_losses(lambda x: h * x * x / 2, lambda x: h * x, **how).missed(ONE)

    assert parabola(F(1, 2)) is None
    assert parabola(F(1, 2), mu=F(1, 3)) is None
    assert parabola(F(-1, 2), mu=-1) is None
    assert "must be above 0" in parabola(F(-1, 100))
    assert "must be above 0" in parabola(F(1, 2), mu=F(51, 100))
    assert "must be above 0" in parabola(F(101, 100))
    assert "must be above 0" in parabola(F(-1, 2), mu=F(-49, 100))
    assert "curvature" in parabola(F(1, 2), mu=-2)
    assert "points 1 and 2 are one" in parabola(F(1, 2), points=(1, 1))


def _read(condition, **at):
    """The left side less the right one of a condition as it is written, of numbers."""
    for old, new in ((r"<(.*?), (.*?)>", r"((\1)*(\2))"), (r"\|\|(.*?)\|\|\^2", r"(\1)**2"), (r"(\w|\)) (?=[\w(])", r"\1*")):
        condition = re.sub(old, new, condition)
    left, right = condition.split(" > ")
    return eval(f"{left} - ({right})", {}, at)


@pytest.mark.parametrize("mu", [F(0), F(1, 3), F(-1, 2)])
def test_the_condition_that_is_told_is_the_one_that_is_checked(mu):
    """Of two points, with one value just where it is met and just where it is missed."""
    x, g, beta = (F(-2), F(1, 3)), (F(-1), F(1, 5)), F(2)
    for i, j in ((0, 1), (1, 0)):
        at = {"x_i": x[i], "x_j": x[j], "g_i": g[i], "g_j": g[j], "f_j": F(0), "beta": beta, "mu": mu}
        table = of_losses(lambda _: 0, lambda y: g[x.index(y)], beta=beta, mu=mu, points=x)
        assert table.facts[-1] == ("checked", f"{table.condition} for every two points of a client")
        needed = -_read(table.condition, f_i=F(0), **at)
        for more, fine in ((F(1, 10**6), True), (F(-1, 10**6), False)):
            values = {x[i]: needed + more, x[j]: F(0)}
            missed = of_losses(lambda y, v=values: v[y], lambda y: g[x.index(y)], beta=beta, mu=mu, points=x).missed(ONE)
            assert (missed is None) == fine, (mu, i, more, missed)


def test_of_losses_that_are_not_convex_a_stationary_point_is_no_minimiser_by_that():
    h, low = F(1, 2), {"mu": -1, "x_star": ["0"]}
    assert of_losses(lambda x: h * x * x / 2, lambda x: h * x, **low).missed(ONE) is None
    assert "no minimiser" in of_losses(lambda x: -h * x * x / 2, lambda x: -h * x, **low).missed(
        ONE
    )
    shifted = of_losses(lambda x: h * x * x / 2 + x, lambda x: h * x + 1, **low)
    assert "do not add up to 0" in shifted.missed(ONE)
    outside = of_losses(lambda x: h * x * x / 2, lambda x: h * x, mu=-1, x_star=["7"])
    assert "not in the table" in outside.missed(ONE)


def test_the_oracle_knows_the_table_and_nothing_else():
    made = of_losses(lambda x: x * x / 4, lambda x: x / 2)
    losses = Draw.from_data(
        {"table": made.to_data(), "weights": ["1"], "start": ["1"], "rounds": 0}
    ).exact_losses
    at = np.array([[F(1)], [F(3)]], dtype=object)
    assert losses.values(at).tolist() == [[F(1, 4)], [F(9, 4)]]
    assert losses.gradients(at).tolist() == [[[F(1, 2)]], [[F(3, 2)]]]
    with pytest.raises(Undefined, match=r"the point \(2\) is not in the table of client 1"):
        losses.gradients(np.array([F(2)], dtype=object))
    one = np.array([[[F(1)]]], dtype=object)
    solved = losses.pieces.take(np.array([[0]])).minimise(0 * one, F(1), F(3, 2) * one)
    assert solved.tolist() == [[[F(1)]]]  # 1/2 + (1 - 3/2) = 0
    for linear, curvature, l1, why in (
        (one, F(1), 0, "solution"),
        (one, F(0), 0, "no curvature"),
        (one, F(1), 1, "l1"),
    ):
        with pytest.raises(Undefined, match=why):
            losses.pieces.minimise(linear, curvature, one, l1, one)
    hollow = replace(made, constants={"beta": F(1), "mu": F(-1)})
    with pytest.raises(
        Undefined, match="no curvature"
    ):  # a stationary point of what may be concave
        Draw.from_data(
            {"table": hollow.to_data(), "weights": ["1"], "start": ["1"], "rounds": 0}
        ).exact_losses.pieces.minimise(0 * one, F(1), F(3, 2) * one)
    with pytest.raises(Undefined, match="where F is least"):
        losses.minimiser(None)
    with pytest.raises(MissingCapability, match="in fractions alone"):
        Draw.from_data(
            {"table": made.to_data(), "weights": ["1"], "start": ["1"], "rounds": 0}
        ).losses(False)


def _set(*path):
    def change(data, value):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


FORGED = {
    "a value": (_set("table", "values", 0, 1), "7", "must be above 0"),
    "a gradient": (_set("table", "gradients", 0, 1, 0), "1/1000", "must be above 0"),
    "a position": (_set("table", "at", 0, 1, 0), "1/1000", "must be above 0"),
    "the minimiser": (_set("table", "x_star", 0), "1/1000", "x_star is not in the table"),
    "the slope at the minimiser": (
        _set("table", "gradients", 0, -1, 0),
        "1/1000000",
        "do not add up to 0",
    ),
    "beta": (_set("table", "constants", "beta"), "1/2", "must be above 0"),
    "mu": (_set("table", "constants", "mu"), "-1", "is not one of smooth convex losses"),
    "G": (_set("table", "constants"), {"G": "9"}, "is not one of smooth convex losses"),
    "the start": (_set("start", 0), "1", "not in the table"),
    "the rounds": (_set("rounds"), 1, "declared for 2 to 2"),
    "a number left out": (_set("table", "at", 0, 1, 0), None, "missing"),
    "a float": (_set("table", "at", 0, 1, 0), 0.5, "write fractions as strings"),
    "a row": (_set("table", "at", 0, 1), [], "instance"),
    "another field": (_set("table", "more"), "1", "a table has"),
    "pieces beside it": (_set("h"), [["1"]], "unknown h"),
    "no table": (_set("table"), "1", "a table has"),
    "constants": (_set("table", "constants"), {"beta": "1"}, "beta and mu, or G"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_table_is_refused_with_the_reason(what):
    paper = last_gap(SmoothConvex((1, 2), (1, 2)), F(1, 8))
    found = refuted(paper)
    change, value, why = FORGED[what]
    data = copy.deepcopy(found.data)
    change(data, value)
    with pytest.raises(InvalidInput, match=why):
        replay(replace(found, data=data), paper)


def test_a_file_that_claims_more_than_its_table_shows_is_refused():
    paper = last_gap(SmoothConvex((1, 2), (1, 2)), F(1, 8))
    found = refuted(paper)
    with pytest.raises(InvalidInput, match="changed after it was found"):
        replay(replace(found, lhs="1"), paper)
    with pytest.raises(InvalidInput, match="not a witness"):
        replay(found, last_gap(SmoothConvex((1, 2), (1, 2)), F(1, 6)))


def test_a_table_is_told_point_by_point():
    paper = last_gap(SmoothConvex((1, 2), (1, 2)), F(1, 8))
    found = refuted(paper)
    told = dict(paper.setting.facts(found))
    assert told["beta"] == "1" and told["x*"] == "(0)"
    x, g, f = (
        found.data["table"]["at"][0][0][0],
        found.data["table"]["gradients"][0][0][0],
        found.data["table"]["values"][0][0],
    )
    assert told["client 1, point 1"] == f"x = ({x}), gradient ({g}), value {f}"
    assert "table" not in told
