"""SCAFFOLD from control variates that are the clients' gradients at the start: closed forms, in every way in which a round is run."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory import neural, simulate
from fedtheory.algorithms import Compressed, FedElasticNetScaffold, Scaffold
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.integrations.flower.rules import check_method
from fedtheory.local import GradientSteps
from fedtheory.messages import TopK
from fedtheory.participation import Uniform
from fedtheory.problems import Quadratic
from fedtheory.rational import in_fractions
from fedtheory.theory.rounds.losses import SeparableLosses, fractions
from fedtheory.theory.rounds.oracles import SeparableWorld, everyone, run
from fedtheory.worst_cases import Losses
from fedtheory.worst_cases.runs import Run
from fedtheory.worst_cases.symbolic import SymbolicClients, symbols

GRADIENT, H = Scaffold(initial="gradient"), 0.2
BOTH = pytest.mark.parametrize("method", [GRADIENT, FedElasticNetScaffold(0.0, 0.0, initial="gradient")])


def losses(seed=0, clients=4, dim=3, alike=False):
    """Quadratics of curvatures between 0 and 1, in no common axes."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((clients, dim, dim)))[0]
    axes = np.repeat(axes[:1], clients, axis=0) if alike else axes
    sizes = np.tile(rng.uniform(0.1, 1, dim), (clients, 1)) if alike else rng.uniform(0.1, 1, (clients, dim))
    return Quadratic(np.einsum("kij,kj,klj->kil", axes, sizes, axes), rng.standard_normal((clients, dim)))


def descent(problem, x, steps, h=H):
    for _ in range(steps):
        x = x - h * problem.full_gradient(x)
    return x


def models(problem, method, K=2, rounds=1, **how):
    seen = [np.zeros((how.get("scenarios", 1), problem.dim))]
    simulate(problem, method, rounds, local_solver=GradientSteps(K, H), on_round=lambda t, old, new, _: seen.append(new.x), **how)
    return seen


@BOTH
def test_round_1_of_two_steps_is_two_steps_of_gradient_descent(method):
    """The first step of everybody is -h grad F(x_0). There the corrections have the mean 0, so that the mean of the next is
    -h grad F, too. From c_k = 0 it is FedAvg."""
    problem = losses()
    zero = np.zeros((1, problem.dim))
    np.testing.assert_allclose(models(problem, method)[-1], descent(problem, zero, 2), rtol=1e-13)
    away = models(problem, replace(method, initial="zero"))[-1] - descent(problem, zero, 2)
    assert np.abs(away).max() > 1e-3


@BOTH
def test_round_1_of_one_step_is_a_gradient_step_whatever_the_cohort(method):
    """Of a cohort the mean of grad f_k(x_0) - c_k + c is c; from c_k = 0 it is the cohort's mean gradient."""
    problem = losses()
    want = descent(problem, np.zeros((8, problem.dim)), 1)
    found = models(problem, method, 1, sampling=Uniform(2), scenarios=8)
    np.testing.assert_allclose(found[-1], want, rtol=1e-13)
    other = models(problem, replace(method, initial="zero"), 1, sampling=Uniform(2), scenarios=8)
    assert np.abs(other[-1] - want).max() > 1e-2


def test_one_step_of_everybody_is_gradient_descent_from_any_control_variates():
    """c is the mean of the c_k, so that they cancel in the mean."""
    problem, rng = losses(), np.random.default_rng(1)
    c_k = rng.standard_normal((1, 4, 3))
    begun = GRADIENT.init(np.zeros((1, 3)), 4)._replace(c_k=c_k, c=c_k.mean(axis=1))
    found = simulate(problem, GRADIENT, 3, local_solver=GradientSteps(1, H), resume=(0, begun))
    np.testing.assert_allclose(found.x, descent(problem, np.zeros((1, 3)), 3), rtol=1e-12)
    np.testing.assert_allclose(models(problem, GRADIENT, 1, 3)[-1], found.x, rtol=1e-12)


def test_on_losses_of_one_curvature_every_round_is_gradient_descent():
    """Corrected by gradients of one point, all clients' gradients are those of F, step by step."""
    problem = losses(alike=True)
    found = models(problem, GRADIENT, 3, 4)
    np.testing.assert_allclose(found[-1], descent(problem, np.zeros((1, 3)), 12), rtol=1e-11)


def test_clients_that_do_not_take_part_keep_their_gradients():
    problem, kept = losses(), {}
    simulate(
        problem, GRADIENT, 1, local_solver=GradientSteps(2, H), sampling=Uniform(1), scenarios=6,
        on_round=lambda t, old, new, clients: kept.update(c_k=new.c_k, who=clients.cohort.members),
    )  # fmt: skip
    at_start = problem.gradient(np.zeros((6, 3)))
    others = np.arange(4)[None] != kept["who"]
    np.testing.assert_allclose(kept["c_k"][others], at_start[others], rtol=1e-13)
    assert np.abs(kept["c_k"] - at_start)[~others].min() > 1e-6


def test_in_fractions():
    """Three Huber losses and parabolas: two steps of gradient descent exactly, and c_k+ is the mean of the gradients on the way."""
    h, c, m = fractions([["1", "1/2"], ["1/3", "1"], ["2/3", "0"]]), fractions([["1", "-2"], ["3", "1/2"], ["-1", "0"]]), F(1, 10)
    delta = [[F(1, 2), None], [F(1), F(1, 3)], [None, None]]
    weights = fractions(["1/3"] * 3)
    of = SeparableLosses.of(h, c, 0 * h + m, 0 * h, np.array(delta, dtype=object), weights)
    x, eta = fractions([["2", "1/7"]]), F(1, 4)
    path = run(SeparableWorld(of, x[0]), in_fractions(GRADIENT), {"E": 2, "eta": eta}, x, [everyone(3, 1)] * 2)
    begun, after, _ = path.states
    F_ = lambda y: of.gradients(y).mean(axis=-2)  # noqa: E731
    middle = x - eta * F_(x)
    assert (begun.c_k == of.gradients(x)).all() and (begun.c == F_(x)).all()
    assert (after.x == middle - eta * F_(middle)).all()
    assert (after.c_k == (of.gradients(x) + of.gradients(middle)) / 2).all()


def test_in_symbols():
    """Round 1 of two steps, with a step and a number of clients that are symbols."""
    (g, N), runs = symbols("gamma N"), Run()
    clients = SymbolicClients(runs, in_fractions(GradientSteps(2, 1.0), {"lr": g}), N)
    after = clients.after(GRADIENT, x=runs.start)
    first, second = (runs.points[name].gradient.average for name in ("g0.0", "g0.1"))
    assert after.x == runs.start - g * first - g * second
    assert runs.points["g0.1"].at == runs.start - g * first
    assert runs.of_losses(Losses())


def test_in_torch_and_in_pieces():
    torch = pytest.importorskip("torch")
    problem = losses(clients=5)
    plain = models(problem, GRADIENT, 3, 4, sampling=Uniform(2), scenarios=6)[-1]
    for how in ({"like": torch.zeros(1, dtype=torch.float64)}, {"chunk": 2}, {"in_place": True}, {"dense": True}):
        found = simulate(problem, GRADIENT, 4, local_solver=GradientSteps(3, H), sampling=Uniform(2), scenarios=6, **how)
        np.testing.assert_allclose(np.asarray(found.x), plain, rtol=1e-10)


def test_of_a_network():
    """The gradients are those of all samples: round 1 of two full steps is two of gradient descent."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    parts = [np.arange(10 * k, 10 * k + 10) for k in range(3)]
    problem = neural.NeuralProblem(torch.nn.Linear(3, 2), rng.normal(size=(30, 3)), rng.integers(2, size=30), parts, dtype="float64")
    found = simulate(problem, GRADIENT, 1, problem.initial(), local_solver=GradientSteps(2, H), like=problem.like_array())
    want = descent(problem, problem.initial()[None], 2)
    np.testing.assert_allclose(np.asarray(found.x), np.asarray(want), rtol=1e-12)


@pytest.mark.parametrize("up", [None, TopK(k=1)])
def test_the_first_message_is_counted(up):
    """Each client gets x_0 and sends c_k, whole: 2 d floats before round 1."""
    problem, how = losses(), {"local_solver": GradientSteps(2, H), "record": ("bits", "bits_up", "bits_down"), "client_bits": True}
    found, zero = (
        simulate(problem, of if up is None else Compressed(of, up=up), 2, **how) for of in (GRADIENT, Scaffold())
    )
    each = 64 * problem.dim
    assert [found.metrics[n][0, 0] for n in how["record"]] == [8 * each, 4 * each, 4 * each]
    assert [zero.metrics[n][0, 0] for n in how["record"]] == [0, 0, 0]
    if up is None:
        assert (found.metrics["bits"] - zero.metrics["bits"] == 8 * each).all()
        assert all((found.client_bits[way] - zero.client_bits[way] == each).all() for way in zero.client_bits)


def test_a_compressed_method_begins_as_it_does():
    problem = losses()
    begun = models(problem, Compressed(GRADIENT, up=TopK(k=3)), 2, 2)
    np.testing.assert_allclose(begun[-1], models(problem, GRADIENT, 2, 2)[-1], rtol=1e-12)


def test_it_can_be_gone_on_with():
    problem = losses()
    half = simulate(problem, GRADIENT, 2, local_solver=GradientSteps(2, H))
    whole = simulate(problem, GRADIENT, 4, local_solver=GradientSteps(2, H), resume=half)
    np.testing.assert_array_equal(whole.x, models(problem, GRADIENT, 2, 4)[-1])


@pytest.mark.parametrize("cls", [Scaffold, lambda **k: FedElasticNetScaffold(0.1, 0.1, **k)])
@pytest.mark.parametrize("wrong", ["gradients", -1, float("nan"), None, True])
def test_what_is_no_start(cls, wrong):
    with pytest.raises(InvalidInput, match="initial"):
        cls(initial=wrong)


def test_what_no_run_begins_with():
    with pytest.raises(MissingCapability, match=r"c_k, 0\.5: .* a worst case takes the worst"):
        simulate(losses(), Scaffold(initial=0.5), 1, local_solver=GradientSteps(2, H))
    with pytest.raises(InvalidInput, match="initial = 'gradient': control variates begin at 0 here"):
        check_method(GRADIENT, 3, None)


