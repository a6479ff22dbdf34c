"""Hyperparameters at their limits: the last value that is taken, the first that is refused, and that the refusal says both.

And what is checked before a run: compressors against the dimension, local solvers against what a method divides by.
"""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import array_api_strict
import numpy as np
import pytest
from cases import each

from fedtheory import algorithms, errors, messages, problems
from fedtheory.algorithms.base import aggregate, per_client, threshold
from fedtheory.algorithms.subgradient import subgradient_bound, subgradient_parameters
from fedtheory.arrays import to_numpy
from fedtheory.local import Exact, GradientSteps, LocalSGD

TINY = 5e-324
TOP2, TOP3 = messages.TopK(k=2), messages.TopK(k=3)
NUMBERS = [  # method, its other hyperparameters, the number, values taken, values refused, words of the limit
    (algorithms.FedProx, {}, "mu", [0, TINY], [-TINY], ">= 0"),
    (algorithms.FedElasticNetProx, {"l2": 1}, "l1", [0, TINY], [-TINY], "lambda_1 .*>= 0"),
    (algorithms.FedElasticNetProx, {"l1": 1}, "l2", [0, TINY], [-TINY], "lambda_2 .*>= 0"),
    (algorithms.FedElasticNetProx, {"l1": 1, "l2": 1}, "epsilon", [0, TINY], [-TINY], "threshold .*>= 0"),
    (algorithms.FedElasticNetScaffold, {"l2": 1}, "l1", [0, TINY], [-TINY], "lambda_1 .*>= 0"),
    (algorithms.FedElasticNetScaffold, {"l1": 1}, "l2", [0, TINY], [-TINY], "lambda_2 .*>= 0"),
    (algorithms.FedElasticNetScaffold, {"l1": 1, "l2": 1}, "epsilon", [0, TINY], [-TINY], "threshold .*>= 0"),
    (algorithms.FedElasticNetScaffold, {"l1": 1, "l2": 1}, "server_lr", [TINY], [0], "eta_g .*> 0"),
    (algorithms.FedElasticNetDyn, {"l2": 1}, "l1", [0, TINY], [-TINY], "lambda_1 .*>= 0"),
    (algorithms.FedElasticNetDyn, {"l1": 1}, "l2", [TINY], [0], "lambda_2 .*> 0: the method divides by it"),
    (algorithms.FedElasticNetDyn, {"l1": 1, "l2": 1}, "epsilon", [0, TINY], [-TINY], "threshold .*>= 0"),
    (algorithms.FedDyn, {}, "alpha", [TINY], [0], "alpha .*> 0: the method divides by it"),
    (algorithms.Scaffold, {}, "server_lr", [TINY], [0], "eta_g .*> 0"),
    (algorithms.FedGATE, {}, "server_lr", [TINY], [0], "gamma .*> 0"),
    (algorithms.Mime, {}, "momentum", [0, 1 - 2**-53], [-TINY, 1.0], "beta must "),
    (algorithms.APFL, {}, "alpha", [0, 1], [-TINY, 1 + 2**-52], "alpha of a client's own model must "),
    (algorithms.FedAMP, {"alpha": 1, "sigma": 1}, "lam", [0, TINY], [-TINY], "lambda .*>= 0"),
    (algorithms.FedAMP, {"lam": 1, "sigma": 1}, "alpha", [TINY], [0], "alpha .*> 0: the method divides by it"),
    (algorithms.FedAMP, {"lam": 1, "alpha": 1}, "sigma", [TINY], [0], "sigma .*> 0: the method divides by it"),
    (algorithms.ElasticAggregation, {}, "tau", [0, TINY], [-TINY], "tau .*>= 0"),
    (algorithms.ElasticAggregation, {}, "mu", [0, 1 - 2**-53], [-TINY, 1.0], "mu must "),
    (algorithms.ElasticAggregation, {}, "server_lr", [TINY], [0], "eta .*> 0"),
    (algorithms.EFL, {}, "lam", [0, TINY], [-TINY], "lambda .*>= 0"),
]  # fmt: skip


@each(("method", "others", "name", "taken", "refused", "words"), NUMBERS)
def test_numbers_at_their_limits(method, others, name, taken, refused, words):
    for value in taken:
        kept = getattr(method(**others, **{name: value}), name)
        assert kept == value and type(kept) is float
    for value in (*refused, math.inf, math.nan, "1", True):
        with pytest.raises(errors.InvalidInput, match=rf"^{name} = {re.escape(repr(value))}: .*{words}"):
            method(**others, **{name: value})


WORDS = [  # method, its other hyperparameters, the word, the words that are taken
    (algorithms.FedAvg, {}, "aggregation", ("samples", "cohort", "printed")),
    (algorithms.FedAvg, {}, "send", ("model", "update")),
    (algorithms.FedProx, {"mu": 1}, "aggregation", ("cohort", "samples", "printed")),
    (algorithms.FedProx, {"mu": 1}, "send", ("model", "update")),
    (algorithms.FedElasticNetProx, {"l1": 1, "l2": 1}, "aggregation", ("printed", "cohort", "samples")),
    (algorithms.FedElasticNetScaffold, {"l1": 1, "l2": 1}, "option", ("difference", "gradient")),
    (algorithms.FedElasticNetScaffold, {"l1": 1, "l2": 1}, "control", ("sent", "recovered")),
    (algorithms.Scaffold, {}, "option", ("difference", "gradient")),
    (algorithms.Scaffold, {}, "send", ("update", "model")),
    (algorithms.Scaffold, {}, "control", ("sent", "recovered")),
    (algorithms.FedDyn, {"alpha": 1}, "send", ("model", "update")),
    (algorithms.FedDyn, {"alpha": 1}, "stored", ("own", "received")),
    (algorithms.FedElasticNetDyn, {"l1": 1, "l2": 1}, "rule", ("sign", "true-gradient")),
    (algorithms.FedElasticNetDyn, {"l1": 1, "l2": 1}, "stored", ("own", "received")),
    (algorithms.EFL, {}, "scheme", ("A", "B", "C", "C-corrected")),
    (algorithms.EFL, {}, "variant", ("consistent", "none", "literal", "text", "text-received")),
    (algorithms.EFL, {}, "departed", ("remove", "stale")),
    (algorithms.EFL, {}, "scale", ("before", "after")),
    (algorithms.EFL, {}, "fisher", ("model", "empirical", "gram")),
    (algorithms.ElasticAggregation, {}, "sign", ("repaired", "printed")),
    (algorithms.ElasticAggregation, {}, "zero", ("one", "boost", "error")),
    (algorithms.ElasticAggregation, {}, "ema", ("corrected", "printed")),
    (algorithms.ElasticAggregation, {}, "aggregation", ("samples", "cohort", "printed")),
    (algorithms.ElasticAggregation, {}, "layers", ("module", "tensor", "model")),
    (algorithms.Subgradient, {"step": 0.1}, "output", ("last", "average")),
    (algorithms.FedMLS, {"lam": 2, "D": 8, "rounds": 2, "radius": 2, "lipschitz": 1}, "average", ("averaged", "printed")),
    (algorithms.FedMLS, {"lam": 2, "D": 8, "rounds": 2, "radius": 2, "lipschitz": 1}, "norm", ("mean", "product")),
    (algorithms.FedMLS, {"lam": 2, "D": 8, "rounds": 2, "radius": 2, "lipschitz": 1}, "local_training", ("sliding", "exact-prox")),
]  # fmt: skip


@each(("method", "others", "name", "taken"), WORDS)
def test_words(method, others, name, taken):
    """Those that there are, and of any other word all that there are; the default is the first or None."""
    default = getattr(method(**others), name)
    assert default in (taken[0], None) or (method, name) == (algorithms.EFL, "scheme")
    for word in taken:
        assert getattr(method(**others, **{name: word}), name) == word
    with pytest.raises(errors.InvalidInput, match=rf"^{name} = 'Other': use ") as refused:
        method(**others, **{name: "Other"})
    assert all(word in str(refused.value) for word in taken)


COMPRESSED = [  # method and its other hyperparameters, where a compressor goes
    (algorithms.Compressed, {"method": algorithms.FedAvg()}, ("up", "down")),
    (algorithms.Compressed, {"method": algorithms.Scaffold()}, ("up", "down", "control")),
    (algorithms.Compressed, {"method": algorithms.FedDyn(1)}, ("up",)),
    (algorithms.EFL, {}, ("compressor", "down_compressor")),
]


@pytest.mark.parametrize(("method", "others", "places"), COMPRESSED, ids=lambda v: getattr(v, "name", None))
def test_compressors(method, others, places):
    """Three of two entries cannot be sent, whichever way; a name is no compressor."""
    problem = problems.Quadratic(np.stack([np.eye(2)] * 2), np.zeros((2, 2)))
    for place in places:
        method(**others, **{place: TOP2}).check_run(problem, 1)
        with pytest.raises(errors.InvalidInput, match=r"k = 3 .*dimension 2"):
            method(**others, **{place: TOP3}).check_run(problem, 1)
        with pytest.raises(errors.InvalidInput, match=rf"^{place} = 'top-k': give a compressor of fedtheory.messages"):
            method(**others, **{place: "top-k"})


def test_what_goes_with_a_compressor():
    """Compressed models without feedback, recovered controls with option II, the sign rule: what is refused has such a neighbour."""
    compressed, fedavg = algorithms.Compressed, algorithms.FedAvg()
    for feedback in (True, "up", None):
        with pytest.raises(errors.InvalidInput, match=r"^of = 'model': with feedback, use of='update', or feedback=False"):
            compressed(fedavg, TOP2, feedback=feedback, of="model")
    assert compressed(fedavg, TOP2, feedback=False, of="model").method == fedavg
    assert compressed(fedavg, TOP2, TOP2, feedback="down", of="model").method == fedavg
    assert compressed(fedavg, TOP2).method == algorithms.FedAvg(send="update")
    assert compressed(fedavg, down=TOP2).method == fedavg
    with pytest.raises(errors.InvalidInput, match=r"^send = 'model': with control='recovered', use send='update'"):
        algorithms.Scaffold(send="model", control="recovered")
    assert compressed(algorithms.Scaffold(send="model"), control=TOP2).method.send == "model"
    for make in (algorithms.Scaffold, lambda **k: algorithms.FedElasticNetScaffold(1, 1, **k)):
        with pytest.raises(errors.InvalidInput, match=r"^control = 'recovered': no second message is sent: leave its compressor out"):
            compressed(make(control="recovered"), control=TOP2)
        with pytest.raises(errors.InvalidInput, match=r"^control = 'recovered': .*use 'sent'"):
            make(control="recovered", option="gradient")
    with pytest.raises(errors.InvalidInput, match=r"^rule = 'true-gradient': what the true-gradient rule sends .*use rule='sign'"):
        compressed(algorithms.FedElasticNetDyn(1, 1, "true-gradient"), TOP2)


def test_local_solvers_that_take_no_gradient_steps():
    """Refused where the method divides by a step size, or moves along it; taken by its other options."""
    exact, steps = Exact(), GradientSteps(2, 0.1)
    for refused, taken in (
        (algorithms.Scaffold(), algorithms.Scaffold("gradient")),
        (algorithms.FedElasticNetScaffold(1, 1), algorithms.FedElasticNetScaffold(1, 1, "gradient")),
        (algorithms.Mime(0.5), algorithms.Mime()),
        (algorithms.VRLSGD(), None),
        (algorithms.FedGATE(), None),
        (algorithms.APFL(0.5), None),
    ):
        refused.check(steps)
        name = {"vrl-sgd": "corrections of VRL-SGD are", "fedgate": "corrections of FedGATE are"}.get(refused.name, "Exact")
        with pytest.raises(errors.MissingCapability, match=name):
            refused.check(exact)
        if taken is not None:
            taken.check(exact)


@pytest.mark.parametrize("method", [algorithms.VRLSGD(), algorithms.FedGATE()], ids=lambda a: a.name)
def test_steps_that_must_be_equal(method):
    """Equal up to rounding, over those that take part; 1 where nobody does; what is refused says from where to where they go."""
    from fedtheory.algorithms.vrl_sgd import common_step_sum

    def clients(mask):
        return SimpleNamespace(cohort=SimpleNamespace(mask=mask), solver=GradientSteps(2, 0.1))

    def steps(*values):
        return np.array(values)[None, :, None]

    everybody, two = clients(None), clients(np.array([[True, True, False]]))
    assert common_step_sum(everybody, 3, method.name) == 3.0
    assert common_step_sum(everybody, steps(0.2, 0.2 * (1 + 1e-13), 0.2), method.name) == 0.2
    assert common_step_sum(two, steps(0.2, 0.2, 0.7), method.name) == 0.2
    assert common_step_sum(clients(np.zeros((1, 3), dtype=bool)), steps(0.2, 0.3, 0.7), method.name) == 1.0
    with pytest.raises(errors.MissingCapability, match=rf"sum to 0.2 up to 0.7\), and the corrections of {method.name} .*steps=\.\.\."):
        common_step_sum(everybody, steps(0.2, 0.2, 0.7), method.name)
    with pytest.raises(errors.MissingCapability, match="unequal local steps"):
        common_step_sum(everybody, steps(0.001, 0.001 * (1 + 1e-10)), method.name)
    with pytest.raises(errors.MissingCapability, match=f"GradientSteps reports no step sizes, but {method.name} needs them"):
        common_step_sum(everybody, None, method.name)


def test_nobody_there_and_thresholds_of_any_size():
    """An empty cohort's mean is 0; entries up to the threshold go, also where it is 1; memories have the model's precision."""
    zeros = np.zeros((1, 3, 1))
    nobody = SimpleNamespace(xp=np, sample_shares=lambda: zeros, sum=lambda values, weights=1.0: (weights * values).sum(axis=1))
    assert aggregate(nobody, np.ones((1, 3, 2)), "samples").tolist() == [[0, 0]]
    for library in (np.asarray, array_api_strict.asarray):
        delta = library(np.array([0.5, -1.0, 1.5]))
        assert to_numpy(threshold(delta, 1.0)).tolist() == [0, 0, 1.5] and type(threshold(delta, 1.0)) is type(delta)
    memory = per_client(np.zeros((2, 4), dtype=np.float32), 3)
    assert (memory.dtype, memory.shape) == (np.float32, (2, 3, 4))


def test_the_subgradient_methods_parameters():
    """h = D/(G sqrt(K)) or D/(G sqrt(t)), G = sum_k w_k G_k on the ball: (1/4) 3 + (3/4) 5 where clients have slopes 3 and 5."""
    problem = SimpleNamespace(
        dim=1, objective=None, structure=None, weights=np.array([0.25, 0.75]),
        lipschitz=lambda radius: np.array([3.0, 5.0]) * radius / 2.5,
    )  # fmt: skip
    one = subgradient_parameters(problem, 9, 2.5, 0.7)
    assert one == algorithms.Subgradient(0.7 / 4.5 / 3, "constant", "average", 2.5)
    other = subgradient_parameters(problem, np.int64(9), 2.5, 0.7, "inverse-sqrt", "last")
    assert other == algorithms.Subgradient(0.7 / 4.5, "inverse-sqrt", "last", 2.5)
    assert subgradient_parameters(problem, 1, 2.5, 0.7).step == 0.7 / 4.5
    for name, value in (("rounds", 0), ("rounds", True), ("rounds", 2.0), ("distance", 0.0), ("distance", math.inf)):
        with pytest.raises(errors.InvalidInput, match=rf"^{name} = {value!r}: .* must be "):
            subgradient_parameters(problem, **{"rounds": 9, "radius": 2.5, "distance": 0.7} | {name: value})
    with pytest.raises(errors.InvalidInput, match=r"^schedule = 'hold-and-cut': use 'constant' or 'inverse-sqrt'"):
        subgradient_parameters(problem, 9, 2.5, 0.7, "hold-and-cut")


def test_the_subgradient_methods_bound():
    """Steps 1/2 and 1/4, ||x_0 - x*|| = 3/2 and G = 3: (9/4 + 9 * 5/16)/(3/2)."""
    assert subgradient_bound(iter([0.5, 0.25]), 1.5, 3.0) == 3.375


def test_fedamps_attention():
    """alpha (m - 1)/sigma may be 1, with three clients and alpha = sigma/2, and not a little more."""
    problem = problems.Quadratic(np.stack([np.eye(2)] * 3), np.zeros((3, 2)))
    algorithms.FedAMP(1, 0.7, 1.4).check_run(problem, 1)
    with pytest.raises(errors.InvalidInput, match=r"alpha = 0.71, sigma = 1.4 with m = 3 .* = 1.01429 must .*alpha <= 0.7 or"):
        algorithms.FedAMP(1, 0.71, 1.4).check_run(problem, 1)
    assert algorithms.FedAMP(0.6, 0.8, 3).local_curvature == 0.6 / 0.8
    w = array_api_strict.asarray([[[0.0], [1.0]]])
    cloud = algorithms.FedAMP(0.6, 0.8, 3).cloud(w, w)
    assert type(cloud) is type(w) and float(cloud[0, 0, 0]) == pytest.approx(0.8 * math.exp(-1 / 3) / 3, rel=1e-15)


def test_the_ball_of_the_subgradient_method():
    """A start on the rim up to rounding is inside."""
    method = algorithms.Subgradient(0.1, radius=2.0)
    method.init(np.array([[0.0, 2.0 * (1 + 1e-13)]]), 3)
    with pytest.raises(errors.InvalidInput, match=r"\|\|x_0\|\| = 2.1 is outside .* R = 2: enlarge"):
        method.init(np.array([[0.0, 1.0], [0.0, 2.1]]), 3)
    for radius in (0.0, -1.0, math.nan, True):
        with pytest.raises(errors.InvalidInput, match=f"^radius = {radius!r}: .*> 0"):
            algorithms.Subgradient(0.1, radius=radius)
    algorithms.Subgradient(0.1, radius=TINY)
    algorithms.Subgradient(0.1, radius=math.inf)


def test_layers_without_sensitivity():
    """Refused where somebody takes part, and where nobody does there is nothing to refuse."""
    method = algorithms.ElasticAggregation(zero="error")
    for size, refused in ((0, False), (1, True), (2, True)):
        clients = SimpleNamespace(cohort=SimpleNamespace(size=lambda size=size: np.array([3, size])), round_index=4)
        method._refuse(np.array([False, False]), clients, 1)
        if refused:
            with pytest.raises(errors.InvalidInput, match=r"^round 4: .* layer 1, .*zero='one' .*zero='boost'"):
                method._refuse(np.array([False, True]), clients, 1)
        else:
            method._refuse(np.array([False, True]), clients, 1)


@pytest.mark.parametrize(("zero", "dead"), [("one", 1.0), ("boost", 1.75), ("error", None)])
def test_layers_by_hand(zero, dead):
    """1 + 3/4 - Omega/Omega' within each of three layers, of which one is dead in scenario 1; the refusal names it."""
    layers = SimpleNamespace(layers=lambda kind: [slice(0, 2), slice(2, 3), slice(3, 5)] if kind == "tensor" else None)
    cohort = SimpleNamespace(size=lambda: np.array([3, 2]))
    clients = SimpleNamespace(xp=np, problem=layers, cohort=cohort, round_index=4)
    method = algorithms.ElasticAggregation(0.75, zero=zero, layers="tensor")
    omega = np.array([[2.0, 4.0, 5.0, 3.0, 12.0], [8.0, 2.0, 6.0, 0.0, 0.0]])
    if dead is None:
        with pytest.raises(errors.InvalidInput, match=r"^round 4: .* layer 2, "):
            method.zeta(omega, clients)
        omega[1, 3:] = 1.0
    wanted = [[1.25, 0.75, 0.75, 1.5, 0.75], [0.75, 1.5, 0.75, *[0.75 if dead is None else dead] * 2]]
    assert method.zeta(omega, clients).tolist() == wanted


def test_batches_of_the_sensitivity():
    for size in (0, -1, 2.0, True):
        with pytest.raises(errors.InvalidInput, match=f"^probe_batch = {size!r}: use an integer >= 1"):
            algorithms.ElasticAggregation(probe_batch=size)
    assert algorithms.ElasticAggregation(probe_batch=1).probe_batch == 1


def test_efls_choices():
    """The Fisher diagonal as given, else by the losses; the coefficient before the compressor, else where it is printed."""
    quadratic = SimpleNamespace(constant_hessian=True)
    assert algorithms.EFL(0.1).fisher_kind(quadratic) == "gram"
    assert algorithms.EFL(0.1).fisher_kind(SimpleNamespace(constant_hessian=False)) == "model"
    assert algorithms.EFL(0.1, fisher="empirical").fisher_kind(quadratic) == "empirical"
    for place in ("compressor", "down_compressor"):
        with pytest.raises(errors.InvalidInput, match=f"^{place} = TopK.*variant='none' compresses nothing: use 'consistent'"):
            algorithms.EFL(variant="none", **{place: TOP2})


def test_the_corrected_scheme_needs_everybody_some_time():
    """Client 1 is active in round 3 alone: three rounds are enough, two are not, and no other scheme asks."""

    def active_in(round_index):
        return SimpleNamespace(law=lambda t: np.array([[0.5, 0.5], [0.25, 0.75] if t == round_index else [1.0, 0.0]]))

    problem, sampling = SimpleNamespace(num_clients=2), active_in(3)
    corrected = algorithms.EFL(scheme="C-corrected")
    corrected.check_sampling(sampling, problem, 3)
    corrected.check_sampling(active_in(1), problem, 2)
    corrected.check_sampling(SimpleNamespace(), problem, 2)
    algorithms.EFL().check_sampling(sampling, problem, 2)
    with pytest.raises(errors.InvalidInput, match=r"^client 1 is never active.*give it P\(s > 0\) > 0"):
        corrected.check_sampling(sampling, problem, 2)


def test_mimes_local_solvers():
    """Noise is of no sample: only MimeLite without momentum, which takes gradients as they come, goes with it."""
    noisy = LocalSGD(2, 0.1, noise_std=0.1)
    algorithms.Mime(lite=True).check(noisy)
    for refused in (algorithms.Mime(), algorithms.Mime(0.5), algorithms.Mime(0.5, lite=True)):
        with pytest.raises(errors.MissingCapability, match=r"^noise_std = 0\.1 belongs to no sample, and Mime needs"):
            refused.check(noisy)
        refused.check(LocalSGD(2, 0.1))


@pytest.mark.parametrize(("method", "name"), [(algorithms.Mime, "lite"), (lambda **k: algorithms.APFL(0.5, **k), "adaptive")])
def test_what_is_true_or_false(method, name):
    for value in (1, None, "yes"):
        with pytest.raises(errors.InvalidInput, match=f"^{name} = {value!r}: use True "):
            method(**{name: value})
    assert [getattr(method(**{name: value}), name) for value in (True, False)] == [True, False]


def test_states_are_of_the_models_library():
    x = array_api_strict.asarray([[0.5, -1.0]])
    for method in (algorithms.Mime(), algorithms.APFL(0.5), algorithms.Subgradient(0.1), algorithms.FedMLS(2, 8, 2, 2, 1)):
        assert {type(leaf) for leaf in method.init(x, 3)} == {type(x)}


def test_apfls_local_solvers():
    for solver, says in ((LocalSGD(2, 0.1, noise_std=0.1), "belongs to no sample, and APFL needs"), (Exact(), "^Exact.*two models")):
        with pytest.raises(errors.MissingCapability, match=says):
            algorithms.APFL(0.5).check(solver)
    algorithms.APFL(0.5, adaptive=True).check(GradientSteps(2, 0.1))
    with pytest.raises(errors.MissingCapability, match=r"^clip = 0.7 .*adaptive=False or clip=None"):
        algorithms.APFL(0.5, adaptive=True).check(SimpleNamespace(clip=0.7, reports_steps=True))
    algorithms.APFL(0.5).check(SimpleNamespace(clip=0.7))
    algorithms.APFL(0.5).check(SimpleNamespace(radius=math.inf))
    with pytest.raises(errors.MissingCapability, match="two models at once"):
        algorithms.APFL(0.5).check(SimpleNamespace(radius=3.0))
