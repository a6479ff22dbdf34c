"""Methods of anyone's: their classes on vectors, against runs of the same classes on three parabolas."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction as F
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from parabolas_at_hand import CLIENTS, CURVATURE, LOWEST, OfClients, OfTree, slope
from server_momentum import Heavy

from fedtheory.algorithms import Algorithm
from fedtheory.algorithms.base import per_client
from fedtheory.arrays import namespace
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD
from fedtheory.local.objective import LocalObjective
from fedtheory.messages import TopK
from fedtheory.problems import Quadratic
from fedtheory.worst_cases import bounds, worst_case, worst_function
from fedtheory.worst_cases.functions import WorstFunction
from fedtheory.worst_cases.runs import Run
from fedtheory.worst_cases.tree import Tree

START, ALL = F(5), range(CLIENTS)


class State(NamedTuple):
    x: Any
    m: Any = None
    c: Any = None
    n: int = 0


@dataclass(frozen=True)
class Mine(Algorithm):
    """A method that steps along the mean of ``update``."""

    name: ClassVar[str] = "mine"
    source: ClassVar[str] = "the tests"
    local_work: ClassVar[str] = "gradient"

    h: float = 0.25

    def init(self, x, num_clients):
        return State(x, namespace(x).zeros_like(x), per_client(x, num_clients))

    def round(self, state, clients):
        y = clients.broadcast(state.x)
        return state._replace(x=state.x - self.step(clients.gradient(y), y, state, clients))

    def step(self, g, y, state, clients):
        return self.h * clients.mean(g)


# --- methods that have a worst case ---------------------------------------------------------------
class Nesterov(Mine):
    """Gradients at an extrapolated point; no state but models."""

    def round(self, state, clients):
        ahead = state.x + (state.x - (state.x if state.n == 0 else state.m)) / 3
        x = ahead - self.h * clients.mean(clients.gradient(clients.broadcast(ahead)))
        return State(x, state.x, state.c, state.n + 1)


class InPlace(Mine):
    """Arrays are changed where they are, those of the state too."""

    def init(self, x, num_clients):
        return State(x, x, per_client(x, num_clients))

    def round(self, state, clients):
        y = clients.broadcast(state.x).copy()
        for _ in range(2):
            y -= self.h * clients.gradient(y)
        c = clients.take(state.c) * 1
        c += y
        c -= clients.broadcast(state.x)
        memory = clients.put(state.c, c)
        new = state.x.copy()
        new += clients.mean(c)
        new *= 0.5
        new += state.m / 2
        return State(new, state.m, memory)


class StateInPlace(Mine):
    """The round writes into the momentum that it was given."""

    def round(self, state, clients):
        state.m[...] += clients.mean(clients.gradient(clients.broadcast(state.x)))
        return state._replace(x=state.x - self.h * state.m)


class TwiceKept(Mine):
    """The clients' memory is read and written twice in a round."""

    def step(self, g, y, state, clients):
        once = clients.put(state.c, clients.take(state.c) + g)
        twice = clients.put(once, clients.take(once) / 2 - g)
        state.c[...] = twice
        return self.h * clients.mean(clients.take(twice) + 3 * g)


class TwiceSolved(Mine):
    """Two local problems in a round, and the gradient where the second ends."""

    local_work: ClassVar[str] = ""

    def step(self, g, y, state, clients):
        first = clients.minimise(LocalObjective(center=y, curvature=2.0), start=y).y
        second = clients.minimise(LocalObjective(center=first, linear=g / 3, curvature=1.5), start=y).y
        again = clients.minimise(LocalObjective(center=y, curvature=2.0), start=y).y
        return clients.mean(y - second) / 2 + clients.mean(clients.gradient(second) + again - first) / 8


class Rounds(Mine):
    """Steps by the number of the round, by a counter of its own, and by weights of the clients."""

    def round(self, state, clients):
        g = clients.gradient(clients.broadcast(state.x))
        share = clients.weights() * clients.num_clients / clients.size[:, :, None]
        step = self.h / math.sqrt(clients.round_index) + 0.01 * state.n + (clients.round_index == 2) / 16
        return state._replace(x=state.x - step * clients.sum(share * g), n=state.n + 1)


class ByHand(Mine):
    """Means that the round takes by itself."""

    def step(self, g, y, state, clients):
        share = np.full(g.shape[1], 1 / g.shape[1])
        first = g.sum(axis=1) / g.shape[1]
        return self.h * (first + g.mean(axis=1) + 2 * np.einsum("spd,p->sd", g, share)) / 4


class MeanOfMemory(Mine):
    """The mean of what all clients keep, of the cohort or not."""

    def step(self, g, y, state, clients):
        c = clients.put(state.c, g)
        state.c[...] = c
        return self.h * c.mean(axis=1) + self.h * clients.mean(g) / 2


class Twice(Mine):
    """The cohort is asked again where its first mean leads."""

    def step(self, g, y, state, clients):
        middle = state.x - self.h * clients.mean(g)
        there = clients.gradient(clients.broadcast(middle))
        return self.h * clients.mean(there + (g - clients.broadcast(clients.mean(g))) / 2)


class TwiceSolvedThere(Mine):
    """Local problems around a point that the cohort has chosen."""

    local_work: ClassVar[str] = ""

    def step(self, g, y, state, clients):
        middle = clients.broadcast(state.x - self.h * clients.mean(g))
        y = clients.minimise(LocalObjective(center=middle, linear=g, curvature=2.0), start=middle).y
        c = clients.put(state.c, y - middle)
        state.c[...] = c
        return self.h * clients.mean(clients.gradient(y)) + c.mean(axis=1) / 3


class Stacked(Mine):
    """Gradients at one point asked twice, and arrays put side by side."""

    def step(self, g, y, state, clients):
        again = clients.gradient(y)
        both = np.stack([g, again, y - y]).sum(axis=0)
        rows = np.concatenate([both, g], axis=0)
        kept = np.where(np.ones_like(g, dtype=bool), rows[: len(g)] - rows[len(g) :], 0 * g)
        return self.h * clients.mean(kept)


class Noted(Mine):
    """What is sent, with numbers of the clients that are the same for all."""

    def step(self, g, y, state, clients):
        steps = np.full((1, g.shape[1], 1), 3.0)
        g = clients.send(clients.moved(y, y - steps * g))[...]
        memory, change = clients.dual_step(state.c, clients.take(state.c), g, 0.5)
        state.c[...] = memory
        return self.h * (clients.mean(g) / clients.mean(steps) + change / clients.num_clients)


ACCEPTED = [
    Heavy, Nesterov, InPlace, StateInPlace, TwiceKept, TwiceSolved, Rounds, ByHand, MeanOfMemory, Twice,
    TwiceSolvedThere, Stacked, Noted,
]  # fmt: skip


def on_parabolas(q):
    """The last models of a run of the class on the three parabolas, for all ways to draw cohorts."""
    rows = [([[float(a)]], [float(b - START)]) for a, b in zip(CURVATURE, LOWEST)][:CLIENTS]
    found: Any = SimpleNamespace(question=q)
    made = WorstFunction(found, Quadratic(*zip(*rows)), np.array([-float(START)]), 0.0, {}, {})
    return sorted(made.models()[:, -1, 0] + float(START))


def on_vectors(q):
    """The same of the forms in vectors, in fractions."""
    page = q.subject.page(CLIENTS, q.participants)
    if q.participants < CLIENTS:
        tree = Tree(CLIENTS, q.participants)
        ends = tree.walk(page, q.rounds)[-1].values()
        found = OfTree(tree, {("x0", -1, ()): START} | {("g*", k, ()): slope(k, F(0)) for k in ALL})
        return sorted(float(found.of(x.rows[0])) for x in ends)
    run, state = Run(), None
    x = run.start
    for t in range(q.rounds):
        x, state = page(run, t, x, state)
    return [float(OfClients(list(run.points.values()), {"x0": (START,) * CLIENTS}).of(x)[0])]


@pytest.mark.parametrize(
    ("method", "participants"),
    [(m, p) for m in ACCEPTED for p in (3, 2, 1) if (m, p) != (ByHand, 1)],  # one row is no mean
)
def test_a_class_on_vectors_is_its_run(method, participants):
    """Three rounds on three parabolas, for all cohorts."""
    given = {"step": F(1, 4)} if method is Heavy else {}
    q = bounds.asked(method, given, 2 if method is Heavy else 1, 3, clients=3, participants=participants)
    assert on_vectors(q) == pytest.approx(on_parabolas(q), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("participants", [3, 2])
@pytest.mark.parametrize("method", ACCEPTED)
def test_a_run_on_the_worst_losses_of_a_class_ends_with_its_value(method, participants):
    rounds = 2 if participants == 3 else 1
    found = worst_case(method, rounds=rounds, clients=3, participants=participants)
    assert worst_function(found).measured() == pytest.approx(found.best, rel=1e-4)
    assert found.best * (1 - 1e-6) <= found.bound <= found.best * (1 + 2e-5)


# --- what is refused ------------------------------------------------------------------------------
def stepping(step, name="Refused", **more):
    """A method whose round steps along what ``step`` makes of the gradients."""
    return type(name, (Mine,), {"step": step, "__module__": __name__, **more})


KEPT: list[Any] = []


def catches(self, g, y, state, clients):
    try:
        return self.h * clients.mean(np.sign(g))
    except Exception:
        return self.h * clients.mean(g)


def keeps(self, g, y, state, clients):
    KEPT.append(clients.mean(g))
    return self.h * (KEPT[-1] + KEPT[0]) / 2


def draws(self, g, y, state, clients):
    return self.h * np.random.default_rng().uniform(0.5, 1) * clients.mean(g)


def into_floats(self, g, y, state, clients):
    out = np.zeros(g.shape)
    out[...] = g
    return self.h * clients.mean(out)


def first_half(self, g, y, state, clients):
    who = np.arange(g.shape[1]) < (g.shape[1] + 1) // 2
    return self.h * clients.sum(g, who[None, :, None].astype(float))


def one_of_memory(self, g, y, state, clients):
    state.c[:, 0] = g[:, 0]
    return self.h * clients.mean(clients.take(state.c))


REFUSED = {
    "sign": (lambda self, g, y, s, clients: clients.mean(np.sign(g)), "compares a vector, or takes its size, sign or power"),
    "clip": (lambda self, g, y, s, clients: clients.mean(np.clip(g, -1, 1)), "compares a vector|takes clip"),
    "norm": (lambda self, g, y, s, clients: clients.mean(g / np.linalg.norm(g)), "divides by|takes|NumPy cannot"),
    "size": (lambda self, g, y, s, clients: clients.mean(abs(g)), "compares a vector, or takes its size"),
    "root": (lambda self, g, y, s, clients: clients.mean(np.sqrt(g)), "NumPy cannot do this with vectors"),
    "exp": (lambda self, g, y, s, clients: clients.mean(np.exp(g)), "NumPy cannot do this with vectors"),
    "maximum": (lambda self, g, y, s, clients: clients.mean(np.maximum(g, 0)), "compares a vector"),
    "comparison": (lambda self, g, y, s, clients: clients.mean(np.where(g > 0, g, y)), "compares a vector"),
    "truth": (lambda self, g, y, s, clients: clients.mean(g if g.any() else y), "compares a vector"),
    "sort": (lambda self, g, y, s, clients: clients.mean(np.sort(g, axis=-1)), "compares a vector"),
    "square": (lambda self, g, y, s, clients: clients.mean(g * g), "number.* made of vectors|unlike|where a vector"),
    "power": (lambda self, g, y, s, clients: clients.mean(g**3), "compares a vector, or takes its size, sign or power"),
    "two vectors": (lambda self, g, y, s, clients: clients.mean(g * y * g), "multiplies"),
    "reciprocal": (lambda self, g, y, s, clients: clients.mean(1 / g), "divides by a vector"),
    "constant": (lambda self, g, y, s, clients: clients.mean(g + 0.5), "adds 0.5 to a vector"),
    "weight decay": (lambda self, g, y, s, clients: self.h * (clients.mean(g) + 0.1 * s.x), "where the origin is"),
    "sum of models": (lambda self, g, y, s, clients: -clients.sum(y) / 2, "where the origin is"),
    "first client": (lambda self, g, y, s, clients: self.h * g[:, 0], "unlike one another"),
    "others": (lambda self, g, y, s, clients: self.h * g[:, 1:].sum(axis=1), "mixes some clients|unlike"),
    "differences": (lambda self, g, y, s, clients: self.h * clients.mean(g - g[:, :1]), "unlike|mixes some"),
    "turned": (lambda self, g, y, s, clients: self.h * clients.mean(clients.take(clients.put(s.c, g[:, ::-1]))), "unlike one"),
    "half": (first_half, "unlike one another"),
    "numbered": (
        lambda self, g, y, s, clients: self.h * clients.sum(np.arange(g.shape[1])[None, :, None] * g), "unlike one another",
    ),
    "one row": (one_of_memory, "unlike one another"),
    "mean of coordinates": (lambda self, g, y, s, clients: self.h * clients.mean(g).mean(axis=-1), "adds different coord"),
    "one coordinate": (lambda self, g, y, s, clients: self.h * clients.mean(g[..., :1]), "gives an array of shape"),
    "coordinates turned": (lambda self, g, y, s, clients: self.h * clients.mean(g[..., ::-1]), "unlike one another"),
    "rolled": (lambda self, g, y, s, clients: self.h * clients.mean(np.roll(g, 2, axis=-1)), "unlike one another|differ betw"),
    "masked": (lambda self, g, y, s, clients: self.h * clients.mean(g * (np.arange(g.shape[-1]) < 1)), "unlike one"),
    "masked later": (lambda self, g, y, s, clients: self.h * clients.mean(g * (np.arange(g.shape[-1]) < 2.0)), "unlike|no finite"),
    "dimension": (lambda self, g, y, s, clients: self.h / g.shape[-1] * clients.mean(g), "differ between runs"),
    "entries": (lambda self, g, y, s, clients: self.h / g.size * clients.mean(g), "differ between runs"),
    "compressed": (lambda self, g, y, s, clients: self.h * clients.mean(clients.send(g, TopK(1))), "compresses messages by"),
    "Fisher": (lambda self, g, y, s, clients: clients.mean(clients.fisher(y, "gram")), "asks for Fisher information"),
    "problem": (lambda self, g, y, s, clients: g / clients.problem.smoothness().max(), "asks the problem for smoothness"),
    "its gradient": (lambda self, g, y, s, clients: clients.problem.client_gradient(y), "asks the problem for client_grad"),
    "stream": (lambda self, g, y, s, clients: clients.stream.generator("a") * g, "asks for clients.stream"),
    "members": (lambda self, g, y, s, clients: g * (clients.cohort.members + 1), "asks which clients take part|unsupported"),
    "some send": (
        lambda self, g, y, s, clients: clients.mean(clients.send(g, senders=np.arange(g.shape[1])[None] > 0)), "unlike one",
    ),
    "nothing is a number": (lambda self, g, y, s, clients: clients.mean(g * math.nan), "nan is no finite number"),
    "caught": (catches, "compares a vector"),
    "kept elsewhere": (keeps, "another run|differ between runs"),
    "random": (draws, "differ between runs"),
    "array of floats": (into_floats, "puts a vector into an array of numbers: zeros_like of a vector makes one"),
    "of each client": (lambda self, g, y, s, clients: self.h * g, "gives an array of shape"),
    "mean of the server's": (lambda self, g, y, s, clients: clients.mean(s.x), "gives an array of shape"),
    "Adam's step": (
        lambda self, g, y, s, clients: clients.mean(g) / (np.sqrt(clients.mean(g * g)) + 1e-8), "where a vector|takes sqrt|unlike",
    ),
    "no such thing": (lambda self, g, y, s, clients: clients.mean(g).nothing, "AttributeError: .* 'nothing'"),
}  # fmt: skip


@pytest.mark.parametrize("participants", [3, 2])
@pytest.mark.parametrize("what", REFUSED)
def test_a_round_that_is_not_linear_is_refused_with_its_line(what, participants):
    step, says = REFUSED[what]
    KEPT.clear()
    q = bounds.asked(stepping(step), {}, rounds=2, clients=3, participants=participants)
    with pytest.raises(MissingCapability, match=says) as told:
        bounds.family(q)
    if "differ between runs" not in str(told.value):
        assert re.match(r"mine: test_traced.py, line \d+, (what is given back by )?`.*`: ", str(told.value))


TYPED = """
class Typed(Mine):
    def step(self, g, y, state, clients):
        return self.h * clients.mean(g{0})
"""


def test_a_class_that_is_typed_at_a_prompt():
    space = {"Mine": Mine, "__name__": "typed"}
    exec(TYPED.format(""), space)
    found = worst_case(space["Typed"], h=F(1, 2))
    assert found.best == pytest.approx(1 / 4, rel=1e-6) and found.asked["source"] == "Typed, without a file"
    exec(TYPED.format(" + 1"), space)
    with pytest.raises(MissingCapability, match=r"mine: <string>, line 4, ``: adds 1 to a vector"):
        worst_case(space["Typed"])
    exec(TYPED.format(" * 0 + y"), space)
    with pytest.raises(MissingCapability, match=r"mine: .*where the origin is"):
        worst_case(space["Typed"])


# --- any number of clients ------------------------------------------------------------------------
OF_NUMBERS = {
    "by the number": (lambda self, g, y, s, clients: clients.sum(g) / (4 * clients.num_clients + 1), False),
    "by the rows": (lambda self, g, y, s, clients: self.h * clients.mean(g) * (1 + (g.shape[1] > 2)), False),
    "by many rows": (lambda self, g, y, s, clients: self.h * clients.mean(g) / (1 + (g.shape[1] > 50)), False),
    "by the size": (lambda self, g, y, s, clients: clients.sum(g) / (3 * clients.size + 2), False),
    "by weights": (lambda self, g, y, s, clients: self.h * clients.sum(clients.weights() ** 2 * g), False),
    "not for more than two": (lambda self, g, y, s, clients: self.h * (g[:, 0] + g[:, 1]) / 2, False),
    "a mean": (lambda self, g, y, s, clients: self.h * clients.mean(g), True),
    "a mean by hand": (lambda self, g, y, s, clients: self.h * g.sum(axis=1) / g.shape[1], True),
    "weights": (lambda self, g, y, s, clients: self.h * clients.sum(clients.weights() * g), True),
}


@pytest.mark.parametrize("criterion", ["gap", "distance", "gradient", "best-gap"])
@pytest.mark.parametrize("what", OF_NUMBERS)
def test_whether_a_value_is_that_of_any_number_of_clients(what, criterion):
    """Of a distance only the last model is asked, and of the best gap all but the last."""
    step, same = OF_NUMBERS[what]
    rounds = 2 if criterion == "best-gap" else 1
    found = worst_case(stepping(step), rounds=rounds, criterion=criterion)
    assert found.any_number is same
    if same:
        three = worst_case(stepping(step), rounds=rounds, criterion=criterion, clients=3)
        assert three.best == pytest.approx(found.best, rel=1e-6)


@pytest.mark.parametrize("what", [what for what in OF_NUMBERS if what != "not for more than two"])
def test_a_step_by_the_number_of_clients_is_the_run_s(what):
    """Three clients, not two: a value, and that of a run on its losses."""
    found = worst_case(stepping(OF_NUMBERS[what][0]), clients=3)
    assert worst_function(found).measured() == pytest.approx(found.best, rel=1e-5)


def test_a_client_that_is_a_cohort_by_itself():
    """Its row is the mean in the round in which it is drawn; kept as it is, it is that client's in the next one."""
    q = bounds.asked(ByHand, {}, clients=3, participants=1)
    assert on_vectors(q) == pytest.approx(on_parabolas(q), rel=1e-9)
    with pytest.raises(MissingCapability, match=r"means over clients are taken by clients\.mean"):
        bounds.family(bounds.asked(ByHand, {}, rounds=2, clients=3, participants=1))


def test_gradients_of_one_round_that_depend_on_the_cohort_are_asked_of_the_tree():
    """The distance after one round needs no tree elsewhere."""
    plain, twice = (bounds.asked(m, {}, clients=3, participants=2, criterion="distance") for m in (ByHand, Twice))
    assert not plain.tree and twice.tree
    found = bounds.answer(twice)
    assert worst_function(found).measured() == pytest.approx(found.best, rel=1e-5)


class NoDataclass(Algorithm):
    """No fields."""

    def __init__(self, h=0.25):
        self.h = h


def test_numbers_of_rounds_count_and_index():
    step = lambda self, g, y, s, clients: (0.1, 0.3)[clients.round_index - 1] * (1, 2)[clients.round_index % 2] * clients.mean(g)  # noqa: E731
    q = bounds.asked(stepping(step), {}, rounds=2, clients=3)
    assert on_vectors(q) == pytest.approx(on_parabolas(q), rel=1e-9)


def test_what_an_error_is_about_is_told():
    """Numbers are fractions, which NumPy's functions do not take."""
    for step, says in (
        (lambda self, g, y, s, clients: clients.mean(g) / np.sqrt(clients.round_index), "numbers are fractions here: take math.sqrt"),
        (lambda self, g, y, s, clients: np.exp(self.h) * clients.mean(g), "numbers are fractions here"),
        (lambda self, g, y, s, clients: clients.mean(g) / 0, "ZeroDivisionError"),
        (lambda self, g, y, s, clients: clients.mean(y - sgd(clients, y)), "asks for more of the losses than full gradients"),
    ):  # fmt: skip
        with pytest.raises(MissingCapability, match=says):
            bounds.family(bounds.asked(stepping(step), {}))
    with pytest.raises(InvalidInput, match="NoDataclass is no dataclass: put @dataclass"):
        worst_case(NoDataclass)


def sgd(clients, y):
    return clients.minimise(LocalObjective(center=y), start=y, solver=SGD(2, 0.1, epochs=1)).y
