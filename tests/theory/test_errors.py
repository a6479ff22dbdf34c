"""Errors in a file say where they are, and what to do."""

import copy
import pickle
import re
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import each
from statements_at_hand import instance, sentence

from fedtheory import theory
from fedtheory.algorithms import Compressed, FedAvg, FedMLS, FedProx
from fedtheory.algorithms.base import Algorithm
from fedtheory.errors import DataFileError, FedTheoryError, InvalidInput, MissingCapability, UnknownName
from fedtheory.local import LocalObjective
from fedtheory.messages import TopK
from fedtheory.problems import random_quadratic
from fedtheory.rational import with_floats
from fedtheory.theory import (
    GradientSteps,
    Minimise,
    Paper,
    Quadratics,
    SmoothConvex,
    eq,
    form,
    le,
    load_file,
    method,
    printed,
    study,
    upto,
    verify,
)
from fedtheory.theory.judge import registry
from fedtheory.theory.judge.replay import builtin_witnesses
from fedtheory.theory.rounds.declare import Facts
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.rational_clients import NotInFractions

HERE = r"test_errors\.py, line \d+, test-sentence/it: "


@each(
    "body, kind, says",
    [
        (
            lambda q: [printed(le(q.gradient_square, q.F))],
            UnknownName,
            "unknown quantity 'gradient_square': did you mean 'gradient_sq'",
        ),
        (lambda q: [printed(le(q.F * np.ones((1, 3)), q.F * np.ones((1, 4))))], InvalidInput, "unequal shapes"),
        (lambda q: [], InvalidInput, "a statement without a form: yield printed"),
        (lambda q: None, InvalidInput, r"yield the forms, `yield printed\(le\(lhs, rhs\)\)`: the function returned None"),
        (lambda q: [le(q.F, q.F)], InvalidInput, "what le or eq gives, by itself is no form: yield printed"),
        (lambda q: [printed(q.F)], InvalidInput, r"has an array of shape \(1, 1\) for its two sides. Write le\(lhs, rhs\)"),
        (lambda q: [printed(q.F_next <= q.F)], InvalidInput, "has the outcome of <=, >= or == for its two sides. Write le"),
        (lambda q: q.F_next <= q.F, InvalidInput, "the function returned the outcome of <=, >= or =="),
        (lambda q: [printed(le(q.F, q.F), r"\frac{1}{2")], InvalidInput, r"'{' at character 9 of its formula is not closed"),
        (lambda q: [printed(le(q.F, q.F), r"\left( 1 )")], InvalidInput, r"'.left' at character 1 of its formula is not closed"),
        (lambda q: [printed(le(q.F, q.F), r"1 } 2")], InvalidInput, "'}' at character 3 of its formula closes no {"),
        (lambda q: [printed(le(q.F, q.F)), printed(le(q.F_next, q.F))], InvalidInput, "two forms are called 'printed'"),
        (lambda q: [printed(le(q.F, q.F), fails=True, holds=True)], InvalidInput, "cannot both hold and fail"),
        (lambda q: [printed(le(q.constant("c", 1) * q.F, q.constant("c", 2) * q.F))], InvalidInput, "declared twice"),
        (lambda q: [printed(le(q.G_sq, q.F))], MissingCapability, "G_sq does not exist here"),
        (lambda q: [printed(le(q.x + missing, q.x))], InvalidInput, "NameError"),  # noqa: F821
        (
            lambda q: [repaired(le(q.F, q.F))],  # noqa: F821
            InvalidInput,
            "'repaired' is not defined: write `from fedtheory.theory import repaired`",
        ),
        (
            lambda q: [form("own", le(q.gap[:, :, None] * np.ones((1, 5, 1)), q.F[..., None]))],
            InvalidInput,
            r"a side has shape .*and must be a number, or have the axes of q.F_next: starts by cohorts, here",
        ),
    ],
)
def test_the_place_is_named(body, kind, says):
    with pytest.raises(kind, match=HERE + ".*" + says):
        sentence(body).forms  # noqa: B018


def test_a_constant_declared_twice_stops_its_form_alone():
    def body(q):
        yield printed(le(q.F_next, q.F, -q.constant("c", 1) * q.gradient_sq / q.beta))
        yield form("repaired", le(q.F_next, q.F, -q.constant("c", 2) * q.gradient_sq / q.beta))
        yield form("weak", le(q.F_next, q.F))

    found = study(sentence(body), budget=30, necessity=False)
    assert {row.form: row.verdict for row in found.rows} == {"printed": "violated", "repaired": "not applicable", "weak": "holds"}
    told = HERE.replace(r"\d+", str(body.__code__.co_firstlineno + 2)) + "constant 'c' is declared twice, as 1 and 2: use another name"
    assert re.search(told, found.row("it", "repaired").note) and re.search(told, found.studies[0].unproved["repaired"])


def test_a_run_says_which_axis_is_which():
    with pytest.raises(InvalidInput, match=HERE + r".*a side has shape \(\d, 7\), and its last axis must be the one scenario"):
        sentence(lambda q: [printed(le(q.gap * np.ones((1, 7)), q.gap[0]))], over="run").forms  # noqa: B018


def test_floats_in_a_claim_are_refused_in_fractions_only():
    half = sentence(lambda q: [printed(le(0.5 * q.F_next, q.F))])
    setting = MethodSetting.of(half)
    with pytest.raises(NotInFractions, match=HERE + r".*write Fraction\(1, 2\) for 0\.5"):
        half.on(setting.view(instance([[1]], [[0]], [1])))
    found = study(half, budget=30, necessity=False)
    assert found.row("it", "printed").modes == ["exact"] and "write Fraction" in found.studies[0].in_floats_only


@dataclass(frozen=True)
class _Shrinking(Algorithm):
    """Goes exp(-b) of the way."""

    b: Any
    name = "shrinking"
    compresses = ("up",)

    def init(self, x, num_clients):
        return _Model(x)

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        return _Model(state.x + np.exp(-self.b) * clients.mean(clients.send(y - x)))


class _Model(NamedTuple):
    x: np.ndarray


def test_a_method_made_with_fractions_runs_in_floats_where_it_takes_an_exponential():
    """As one that was made with the same floats; whatever it wraps as well."""
    made = [sentence(lambda q: [printed(le(q.F_next, q.F))], about=a) for a in (_Shrinking(0.5), _Shrinking(Fraction(1, 2)))]
    by_float, by_fraction = (study(s, budget=30).row("it", "printed") for s in made)
    assert repr(by_fraction) == repr(by_float) and by_float.verdict == "holds" and by_float.modes == ["exact"]
    wrapped = with_floats(Compressed(_Shrinking(Fraction(1, 2)), up=TopK(k=1)))
    assert type(wrapped.method.b) is float and wrapped.method.b == 0.5


def test_numbers_that_a_method_computes_with_in_fractions_stay_so():
    exact = FedMLS(Fraction(1, 3), Fraction(2, 3), 3, 1.0, 1)
    kept = with_floats(exact)
    assert kept == exact and [type(v) for v in vars(kept).values()] == [type(v) for v in vars(exact).values()]
    assert type(kept.lam) is Fraction


def test_square_roots_stay_fractions_where_they_are():
    root = sentence(lambda q: [printed(le(q.sqrt(q.distance_sq), 10))])
    setting = MethodSetting.of(root)
    assert root.on(setting.view(instance([[1]], [[0]], ["3/2"])))["printed"].sides.lhs[0, 0] == Fraction(3, 2)
    with pytest.raises(NotInFractions, match=HERE + "the square root of 2 is no fraction"):
        root.on(setting.view(instance([[1, 1]], [[0, 0]], [1, 1])))


@pytest.mark.parametrize(
    "how, says",
    [
        ({"about": FedAvg}, r"give an instance, FedAvg\(\)"),
        ({"about": 3}, "give a method"),
        ({"local": 1}, "GradientSteps"),
        ({"sampling": 0.5}, "Uniform"),
        ({"problems": "quadratic"}, "class of problems"),
        ({"over": "epoch"}, "'epoch': use one of round, run, fixed-point"),
        ({"over": "run", "rounds": 0}, "least >= 1"),
        ({"rounds": (3, 1)}, "least, most"),
        ({"local": GradientSteps(upto(3), lr=1)}, "a number of steps is whole"),
    ],
)
def test_wrong_declarations_name_the_place(how, says):
    given = {"about": FedAvg(), "problems": Quadratics(), **how}
    with pytest.raises(InvalidInput, match=r"test_errors\.py, line \d+, p/it: .*" + says):
        Paper("p").statement("it", **given)(lambda q: [])


@pytest.mark.parametrize(
    "steps, lr, says",
    [(0, 1, "whole number >= 1"), (1, lambda c: -1, "> 0"), (1, lambda c: 1 / c.betta, "did you mean 'beta")],
)
def test_wrong_hyperparameters_name_the_place(steps, lr, says):
    wrong = sentence(lambda q: [printed(le(q.F, q.F))], local=GradientSteps(steps, lr))
    with pytest.raises((InvalidInput, UnknownName), match=HERE + ".*" + says):
        wrong.forms  # noqa: B018


def test_a_step_size_that_divides_by_0_is_refused_without_a_warning():
    """As of a problem whose losses are linear: its beta is a 0 of NumPy."""
    local = GradientSteps(1, lr=lambda c: 1 / c.beta)
    with warnings.catch_warnings(), pytest.raises(InvalidInput, match=r"lr = inf: .* finite number > 0"):
        warnings.simplefilter("error")
        local.resolve(Facts({"beta": np.float64(0)}), {}, exact=False)


def test_names_are_checked():
    with pytest.raises(InvalidInput, match="small letters"):
        Paper("My Paper")
    paper = Paper("p")
    paper.statement("it", about=FedAvg(), problems=Quadratics())(lambda q: [])
    with pytest.raises(InvalidInput, match="two statements are called 'it'"):
        paper.statement("it", about=FedAvg(), problems=Quadratics())(lambda q: [])
    with pytest.raises(UnknownName, match="did you mean 'it'"):
        paper["itt"]
    with pytest.raises(InvalidInput, match="give the class"):
        method(FedProx(1.0))


@pytest.mark.parametrize(
    "text, says",
    [
        ("x = (", "line 1: "),
        ("import fedtheory\nimport no_such_module", "line 2: it cannot be imported, ModuleNotFoundError"),
        ("x = 1", "no paper in it: write paper = Paper"),
        ("x = 1\nGradientSteps(1)", "line 2: .*write `from fedtheory.theory import GradientSteps`"),
        ("from fedtheory.theory import Paper\na, b = Paper('a'), Paper('b')", "2 papers: keep one"),
        ("from fedtheory.theory import Paper\na = Paper('a')", "has no statement: decorate"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, text, says):
    file = tmp_path / "paper.py"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=r"paper\.py.*" + says):
        load_file(file)


def test_the_example_of_a_state_is_one_wherever_it_stands():
    """Of a state with starts on its first axis the clients are on the last but one."""
    line = re.search(r'"c": (lambda s: s\["c_k"\][^}]*)\}', theory.__doc__)[1]
    assert line == 'lambda s: s["c_k"].mean(axis=-2)'
    assert eval(line)({"c_k": np.arange(12.0).reshape(2, 3, 2)}).shape == (2, 2)


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(DataFileError, match="no such file"):
        load_file(tmp_path / "none.py")


def test_a_bound_that_divides_by_0_is_not_judged_there():
    over_mu = sentence(
        lambda q: [printed(le(q.distance_sq, q.heterogeneity / q.mu**2 + q.distance_sq))], local=Minimise()
    )
    found = study(over_mu, budget=60, necessity=False)
    assert found.row("it", "printed").violations == 0


def test_eq_compares_vectors():
    same = sentence(lambda q: [printed(eq(q.x_next, q.x - q.eta * q.gradient, vector=True))])
    assert study(same, budget=40, necessity=False).row("it", "printed").verdict == "holds"


def written(tmp_path, body, decorated=""):
    """A file whose function has its body on lines 8 and on."""
    file = tmp_path / "claim.py"
    how = decorated or "problems=SmoothConvex(clients=(1, 3))"
    file.write_text(
        "from fedtheory.algorithms import FedAvg\nfrom fedtheory.theory import *\npaper = Paper('claim')\n"
        f"@paper.statement('it', about=FedAvg(), {how})\n"
        "def it(q):\n    \"\"\"A claim.\"\"\"\n    small = q.F\n" + "".join(f"    {line}\n" for line in body)
    )
    return file


@pytest.mark.parametrize("body, line, says", [
    (["yield printed(le(q.F_next, q.F))", "yield repaired(le(q.F_next * q.K, q.F))"], 9, "unknown quantity 'K'"),
    (["yield printed(le(q.F_next, q.F))", "yield repaired(le(q.F_next[0, 0], q.x[0, 0]))"], 9, "form 'repaired': a side has shape"),
    (["return printed(le(q.F_next, q.F))"], 8, "yield the forms, `yield printed(le(lhs, rhs))`: the function returned a form"),
    (["more = 2", "return [printed(le(q.F_next, q.F)), le(q.F, q.F)]"], 9, "what le or eq gives, by itself is no form"),
    (["yield printed(le(q.F_next, q.F), ltex='a')"], 8, "unknown keyword 'ltex': did you mean 'latex'"),
    (["yield printed(le(q.F_next, q.F, noize=1))"], 8, "unknown keyword 'noize': did you mean 'noise'"),
])  # fmt: skip
def test_the_line_is_that_of_the_fault_and_not_of_the_decorator(tmp_path, body, line, says):
    with pytest.raises(FedTheoryError) as error:
        load_file(written(tmp_path, body))["it"].forms  # noqa: B018
    assert f"claim.py, line {line}, claim/it: {says}" in str(error.value) and "array([" not in str(error.value)


@pytest.mark.parametrize("decorated, says", [
    ("problems=SmoothConvex(client=(1, 3))", "unknown keyword of SmoothConvex 'client': did you mean 'clients'"),
    ("problem=SmoothConvex()", "unknown keyword of paper.statement 'problem': did you mean 'problems'"),
    ("problems=SmoothConvex(), local=GradientSteps(step=1, lr=1)", "unknown keyword of GradientSteps 'step': did you mean 'steps'"),
])  # fmt: skip
def test_a_wrong_keyword_is_refused_with_the_nearest(tmp_path, decorated, says):
    with pytest.raises(InvalidInput) as error:
        load_file(written(tmp_path, ["yield printed(le(q.F_next, q.F))"], decorated))
    assert says in str(error.value)


@pytest.mark.parametrize("over, name, here", [
    ("round", "K", "the number of local steps is q.E"), ("round", "L", "the smoothness is q.beta"),
    ("run", "gamma", "the local step size is q.eta"), ("run", "R", "the number of rounds is q.T"),
    ("round", "n", "the number of clients is q.N"), ("round", "sigma", "no variance of noise"),
])  # fmt: skip
def test_a_name_of_the_field_is_told_ours(over, name, here):
    local = GradientSteps(2, lambda c: 1 / c.beta)
    with pytest.raises(UnknownName) as error:
        sentence(lambda q: [printed(le(q.F, q.F * getattr(q, name)))], over=over, local=local).forms  # noqa: B018
    assert here in str(error.value)


def test_a_constant_of_a_step_size_is_told_ours():
    with pytest.raises(UnknownName, match="unknown constant 'L': the smoothness is beta"):
        sentence(lambda q: [printed(le(q.F, q.F))], local=GradientSteps(1, lambda c: 1 / c.L)).forms  # noqa: B018


def test_classes_with_keywords_are_copied_and_pickled():
    for made in (SmoothConvex(clients=(1, 3), weights="any"), GradientSteps(2, lr=1)):
        assert copy.deepcopy(made) == made and pickle.loads(pickle.dumps(made)) == made


def test_a_misspelt_keyword_of_a_paper_is_told():
    with pytest.raises(UnknownName, match="keyword of Paper 'figure': did you mean 'figures'"):
        Paper("any", figure="somewhere")


def test_a_witness_that_a_form_names_must_be_there(tmp_path):
    text = (
        "from fedtheory.algorithms import FedAvg\n"
        "from fedtheory.theory import *\n"
        "paper = Paper('named')\n"
        "@paper.statement('it', about=FedAvg(), local=GradientSteps(1, lr=1), problems=Quadratics())\n"
        "def it(q):\n"
        "    yield printed(le(q.F, q.F), witness='first')\n"
    )
    (tmp_path / "mine.py").write_text(text)
    registry.load_file(tmp_path / "mine.py")
    with pytest.raises(InvalidInput, match=r"named/it \[printed\] names witness='first'.*none is there"):
        builtin_witnesses("named")
    (tmp_path / "witnesses").mkdir()
    (tmp_path / "witnesses" / "firs.json").write_text("{}")
    with pytest.raises(InvalidInput, match="did you mean 'firs'"):
        builtin_witnesses("named")
    (tmp_path / "witnesses" / "firs.json").rename(tmp_path / "witnesses" / "first.json")
    assert builtin_witnesses("named", "named/other") == []


class _InPlace(FedAvg):
    """FedAvg that writes into what it is given: into its state, or into the local models."""

    models = False

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        if self.models:
            y -= x
            return state._replace(x=state.x + clients.mean(y))
        state.x[...] += clients.mean(y - x)
        return state


class _InPlaceModels(_InPlace):
    models = True


@pytest.mark.parametrize("kind", [_InPlace, _InPlaceModels])
@pytest.mark.parametrize("over", ["round", "run"])
def test_a_method_that_writes_into_what_it_is_given_is_refused(kind, over):
    """Its states would be one array, of which every false claim about a move "holds"."""

    def claim(q):
        return [printed(le(q.moved_sq.sum(axis=0), 0) if over == "run" else le(q.F, q.F_next))]

    statement = sentence(claim, about=kind(), over=over, problems=SmoothConvex(clients=(1, 2), dimension=1))
    with pytest.raises(InvalidInput, match=r"writes into the state or the local models.*state.x \+ step"):
        study(statement, budget=20)
    plain = sentence(claim, about=FedAvg(), over=over, problems=SmoothConvex(clients=(1, 2), dimension=1))
    assert study(plain, budget=20, necessity=False).rows[0].verdict == "violated"
    with pytest.raises(InvalidInput, match="writes into"):
        verify(statement, random_quadratic(2, 3, 3, seed=0))
