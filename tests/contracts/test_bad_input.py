"""Bad input is refused by name before any work, at every door of the library; and integers are as good as floats.

Each row: what is called, and what the error must say (a pattern). NumPy's own answers to these are an error of another kind, a warning,
or a number that is wrong without a word.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from registered import problems_beyond

from fedtheory import (
    algorithms,
    central,
    local,
    messages,
    optimum,
    problems,
    rates,
    simulate,
    testing,
    theorems,
    theory,
    worst_cases,
)
from fedtheory.arrays import astype_like, to_numpy
from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.inputs import LARGEST, data_array, points, real_array, real_number, whole_number
from fedtheory.participation.activity import Away, Cycle, Decay, Every, Fade, Grow, varying
from fedtheory.participation.cohorts import Bernoulli
from fedtheory.participation.irregular import Irregular, inactive
from fedtheory.problems import datasets, partitions
from fedtheory.theory import judge
from fedtheory.theory.judge import campaign, replay
from fedtheory.theory.rounds.losses import SeparableLosses

RNG = np.random.default_rng(0)
FEATURES, TARGETS = RNG.normal(size=(2, 4, 2)), RNG.normal(size=(2, 4))
LABELS = np.where(TARGETS > 0, 1.0, -1.0)
LS = problems.LeastSquares(FEATURES, TARGETS, 0.1)
LAD = problems.LAD(FEATURES, TARGETS)
CURVE = np.r_[5.0, 3 / np.arange(1, 200)]
MASKED = np.ma.masked_less(FEATURES, 0)
DATES = np.array([[["2020-01-01"]]], dtype="datetime64[D]")
THEOREM = theorems.get("fedelasticnet/theorem-3.1")
DYN = algorithms.FedElasticNetDyn(l1=0.05, l2=30.0)
FAR = 10**15
NAN = math.nan
METHODS = [algorithms.get(name) for name in algorithms.names()]
BALL = central.Ball(2, 1.0)
HUGE = problems.LeastSquares(FEATURES * 1e90, TARGETS)
RANDOMISED = messages.RandomK(k=1), messages.QSGD(4), messages.NaturalRounding(), messages.StochasticRounding(0.5)
COMPRESSORS = *RANDOMISED, messages.Identity(), messages.TopK(k=1), messages.ST(0.5), messages.Threshold(1.0), messages.ScaledSign()


def run(**options):
    return simulate(LS, algorithms.FedAvg(), **{"rounds": 1, **options})


def verify(**options):
    return THEOREM.verify(options.pop("problem", LS), DYN, **options)


def flags_of(kind):
    """The fields of a dataclass that are True or False."""
    return [f for f in dataclasses.fields(kind) if f.type in ("bool", bool)]


def made_of(kind, **given):
    """One of it, with 1/2, or 1 where a whole number is needed, for what has no default."""
    needed = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING and f.init]
    numbers = {"rounds": 1, "batch_size": 1, "steps": 1, "epochs": 1}
    if kind is messages.RandomK:
        given["k"] = 1
    return kind(**{name: numbers.get(name, 0.5) for name in needed} | given)


def svmlight(tmp_path, text, **options):
    path = tmp_path / "data.svmlight"
    path.write_text(text)
    return datasets.load_svmlight(path, **options)


DATA = [
    (lambda: problems.MaxAffine([[[1, 2], [3]]], [[0, 0]]), "slopes is ragged"),
    (lambda: problems.MaxAffine([[[1, 2], [3, 4]], [[1, 2]]], [[0, 0], [0]]), "slopes is ragged"),
    (lambda: problems.MaxAffine(FEATURES * 1j, TARGETS), "slopes holds complex"),
    (lambda: problems.MaxAffine(FEATURES.astype(str), TARGETS), "slopes holds text, as '0"),
    (lambda: problems.LeastSquares(FEATURES * 1e200, TARGETS), r"features of client 0\[.*at most 1e\+100.*rescale"),
    (lambda: problems.Logistic(FEATURES * 1e200, LABELS), "at most 1e[+]100"),
    (lambda: problems.Softmax(FEATURES * 1e200, LABELS > 0, 2), "at most 1e[+]100"),
    (lambda: problems.LeastSquares(FEATURES * 1e-200, TARGETS), "no entry above .* at least 1e-100"),
    (lambda: problems.LeastSquares(FEATURES, TARGETS * 1e200), "targets of client 0"),
    (lambda: problems.LAD(FEATURES * 1e200, TARGETS), "at most 1e[+]100"),
    (lambda: problems.Quadratic(np.eye(2)[None] * 1e200, np.ones((1, 2))), r"hessians\[0, 0, 0\] is 1e\+200"),
    (lambda: problems.L1Distance([[1.7e308, 0.0]]), r"centers\[0, 0\]"),
    (lambda: problems.EuclideanDistance([[1e200, 1.0]]), r"centers\[0, 0\]"),
    (lambda: problems.LeastSquares([sp.csr_matrix(a) for a in FEATURES], TARGETS), "features of client 0 is a sparse.*toarray"),
    (lambda: problems.Logistic([sp.csr_array(a) for a in FEATURES], LABELS), "sparse matrix of type csr_array"),
    (lambda: problems.LeastSquares(sp.csr_matrix(FEATURES[0]), TARGETS[0]), "single sparse matrix.*one a client"),
    (lambda: problems.Quadratic([sp.eye(2)] * 2, np.zeros((2, 2))), r"hessians\[0\] is a sparse"),
    (lambda: problems.L1Distance(sp.eye(2)), "centers is a sparse"),
    (lambda: problems.LeastSquares([[["1", "2"]]], [[1.0]]), "holds text, as '1'"),
    (lambda: problems.LeastSquares(FEATURES, TARGETS.astype(str)), "targets of client 0 holds text"),
    (lambda: problems.LeastSquares(FEATURES + 1j, TARGETS), "features of client 0 holds complex"),
    (lambda: problems.LeastSquares(FEATURES, TARGETS + 0j), "targets of client 0 holds complex"),
    (lambda: problems.LeastSquares(FEATURES, TARGETS, weights=[0.5 + 1j, 0.5]), "weights holds complex"),
    (lambda: problems.LeastSquares(FEATURES, TARGETS, weights=[[0.5], [0.5, 1]]), "weights is ragged"),
    (lambda: problems.LeastSquares(FEATURES, TARGETS, weights=["a", "b"]), "weights holds text"),
    (lambda: problems.LeastSquares(None, TARGETS), "features is None: give an array with the clients first"),
    (lambda: problems.LeastSquares((a for a in FEATURES), TARGETS), "features is <generator"),
    (lambda: problems.LeastSquares({0: FEATURES[0]}, TARGETS), "features is {0"),
    (lambda: problems.LeastSquares([[[None, 1.0]]], [[1.0]]), r"client 0\[0, 0\] is None of type NoneType"),
    (lambda: problems.LeastSquares(DATES, [[1.0]]), "entries of type datetime64"),
    (lambda: problems.LeastSquares(MASKED, TARGETS), "masked"),
    (lambda: problems.LeastSquares([1.0, 2.0], [1.0, 2.0]), r"client 0: features \(\).*expected \(n_k, d\)"),
    (lambda: problems.LeastSquares([[[10**400]]], [[1.0]]), "beyond the largest float64"),
    (lambda: problems.Quadratic(np.eye(2)[None] * 1j, [[0, 0]]), "hessians holds complex"),
    (lambda: problems.Quadratic([np.eye(2), np.eye(3)], [[0, 0], [0, 0, 0]]), "hessians is ragged"),
    (lambda: problems.Quadratic(np.zeros((0, 2, 2)), np.zeros((0, 2))), "none of them 0"),
    (lambda: problems.Quadratic(np.zeros((2, 0, 0)), np.zeros((2, 0))), "none of them 0"),
    (lambda: problems.Logistic(FEATURES, LABELS.astype(str)), "holds text"),
    (lambda: problems.Hinge(FEATURES, None), "labels is None"),
    (lambda: problems.Hinge(FEATURES, [["a"] * 4] * 2), "labels of client 0 holds text"),
    (lambda: problems.Hinge(FEATURES + 0j, LABELS), "holds complex"),
    (lambda: problems.L1Distance([[1, 2], [3]]), "centers is ragged"),
    (lambda: problems.L1Distance([[1j]]), "centers holds complex"),
    (lambda: datasets.Dataset("a", np.array([[1j]]), np.array([1.0]), "regression"), "features of a holds complex"),
    (lambda: datasets.Dataset("a", np.array([["a"]]), np.array([1.0]), "regression"), "features of a holds text"),
]

NUMBERS = [
    *((lambda b=bad: problems.LeastSquares(FEATURES, TARGETS, b), "ridge") for bad in ("0.1", True, None, 1j, [0.1, 0.2], math.nan)),
    *((lambda bad=bad: problems.Huber(FEATURES, TARGETS, bad), "delta") for bad in ("1", True, 0, math.inf)),
    *((lambda bad=bad: problems.Quantile(FEATURES, TARGETS, bad), "tau") for bad in ("0.5", True, math.nan, 1.0)),
    *((lambda bad=bad: problems.Softmax(FEATURES, LABELS > 0, bad), "num_classes") for bad in (2.0, True, 1, "2")),
    (lambda: problems.Softmax(FEATURES, LABELS > 0, 10**9), "num_classes = 1000000000 takes an array.*the limit is 16 GiB"),
    (lambda: problems.NesterovWorst(True), "n is True"),
    (lambda: problems.NesterovWorst(FAR), "n = 1000000000000000 takes"),
    (lambda: problems.NesterovWorst.for_epsilon(1e-300), "epsilon = 1e-300 takes an array of .* the limit is 16 GiB: raise epsilon"),
    (lambda: problems.ArjevaniShamir(FAR), "links = 1000000000000000"),
    (lambda: problems.MaximumAndChain(FAR, 2), "share = 1000000000000000"),
    (lambda: problems.TwoClientPull(1e300), "epsilon is 1e[+]300"),
    (lambda: problems.random_quadratic(True, 3), "num_clients is True"),
    (lambda: problems.random_quadratic(3, 10**7), "3 clients of dimension 10000000 takes"),
    (lambda: problems.random_quadratic(3, 2, "10"), "condition is '10'"),
    (lambda: problems.random_quadratic(3, 2, smoothness=[1.0, 2.0]), "smoothness has shape"),
    (lambda: problems.random_quadratic(3, 2, smoothness="a"), "smoothness holds text"),
    (lambda: problems.random_quadratic(3, 2, heterogeneity=1j), "heterogeneity"),
    (lambda: problems.random_quadratic(3, 2, seed=True), "seed is True"),
    (lambda: problems.random_least_squares(3, 2, samples="a"), "samples"),
    (lambda: problems.random_lad(True), "num_clients is True"),
    (lambda: problems.random_lad(unequal="2"), "unequal is '2'"),
    (lambda: problems.synthetic("a", 1), "alpha is 'a'"),
    (lambda: problems.hold_out(LS, "a"), "share is 'a'"),
    (lambda: LS.optimum("a"), "gap is 'a'"),
    (lambda: LAD.lipschitz(1j), "radius"),
    (lambda: LAD.batch_noise_sq(1.0, True), "batch_size is True"),
    (lambda: LS.subset(np.array([5])), "from 0 to 1"),
    (lambda: LS.subset(np.array([-1])), "from 0 to 1"),
    (lambda: LS.subset(np.array([], dtype=int)), "at least one client"),
    (lambda: LS.select([[9], [0]]), r"samples\[0\] is array\(\[9\]\).*from 0 to 3"),
    (lambda: LS.select([[0]]), "samples for 1 clients"),
    (lambda: Bernoulli(True), "participation probability is True"),
    (lambda: Bernoulli("0.5"), "participation probability is '0.5'"),
    (lambda: Decay(1.0), "the rate of a decay = 1.0: it must lie strictly between 0 and 1"),
    (lambda: Grow("fast"), "the rate of a growth is 'fast'"),
    (lambda: Fade(0), "the delay of a fading activity = 0: it must be > 0"),
    (lambda: Away(2.5, 3), "the first round"),
    (lambda: Away(5, 3), "rounds 5 to 3"),
    (lambda: Every(0), "the period"),
    (lambda: Cycle(4, 3), "4 of them active: there are at most 3"),
    (lambda: varying(Bernoulli(0.5), {}), "give an Irregular"),
    (lambda: varying(inactive(2, 1, 0.5), [Decay(0.5)]), "give a mapping"),
    (lambda: varying(inactive(2, 1, 0.5), {2: Decay(0.5)}), "a shape for client 2: clients are numbered 0..1"),
    (lambda: varying(inactive(2, 1, 0.5), {0: 0.5}), "client 0 has the activity 0.5"),
    (lambda: varying(inactive(2, 1, 0.5), {0: lambda t: 2}).law(3), "the factor 2 in round 3: it must lie in"),
    (lambda: Irregular(1, [[0.5j, 0.5]]), "holds complex"),
    (lambda: inactive(3, 2, "a"), "expected an array of numbers"),
    (lambda: messages.ST(True), "q is True"),
    (lambda: messages.ST("a"), "q is 'a'"),
    (lambda: messages.TopK(True), "k is True"),
    (lambda: messages.Threshold(1j), "epsilon is 1j"),
    (lambda: messages.StochasticRounding("a"), "step is 'a'"),
    (lambda: run(local_solver=local.LocalSGD(2, lambda t: "a")), r"lr\(1\) is 'a'"),
    (lambda: partitions.iid(10, True), "num_clients is True"),
    (lambda: partitions.iid("10", 2), "num_samples is '10'"),
    (lambda: partitions.dirichlet(np.arange(20) % 2, 4, "a"), "alpha is 'a'"),
    (lambda: partitions.lognormal_sizes(20, 4, "a"), "sigma is 'a'"),
    (lambda: partitions.federate(3, 4), "dataset is 3: give a Dataset"),
    (lambda: problems.random_lad(drift="a"), "apart is 'a'"),
    (lambda: problems.random_l1_distance(spread=math.nan), "apart is nan"),
    (lambda: problems.synthetic(1, 1, num_clients=10**9), "1000000000 clients of dimension 60 with 10 classes takes"),
    (lambda: partitions.iid(10**12, 2), "num_samples = 1000000000000 takes"),
    (lambda: partitions.Partition((np.array([0.5]),)), r"client 0 are array\(\[0.5\]\)"),
    (lambda: messages.entropy_bits(np.ones(2), 0.0), "bin_width is 0.0"),
    (lambda: messages.entropy_bits(np.array([math.nan])), "all of them finite"),
    (lambda: messages.nonzeros("a"), "message holds text"),
    (lambda: messages.TopK(1).compress([1.0, 2.0]), "not a number or a list"),
    (lambda: messages.get(3), "unknown compressor '3'"),
    *(
        (lambda bad=bad: messages.QSGD(4).compress(np.ones(2), np.array([0.5, bad])), r"uniforms in \[0, 1\)")
        for bad in (NAN, -0.1, 1.0)
    ),
    *((lambda c=c: c.compress(np.ones(2), np.array([0.5, -1.0])), r"uniforms in \[0, 1\)") for c in RANDOMISED),
    *((lambda c=c: c.sent(np.ones((1, 2)), np.array([[0.5, NAN]])), r"uniforms in \[0, 1\)") for c in RANDOMISED),
    (lambda: messages.QSGD(4).compress(np.ones(2), [0.5, 0.5]), "give uniforms"),
    (lambda: messages.TopK(k=1).bits(np.array([0.3, 0.4, 0.7])), "3 entries that are not 0 where top-k sends at most 1"),
    (lambda: messages.TopK(q=0.5).encode(np.ones(4)), "4 entries that are not 0 where top-k sends at most 2"),
    (lambda: messages.RandomK(k=1).bits(np.ones((2, 3))), "message 0 has 3 entries"),
    (lambda: messages.ST(0.25).bits(np.ones(4)), "4 entries that are not 0 where st sends at most 1"),
    (lambda: messages.Threshold(1.0).bits(np.array([0.0, 0.5])), "entry 1 of message 0 is 0.5, not above epsilon = 1"),
    (lambda: messages.TopK(k=1).decode(messages.TopK(k=3).encode(np.ones(4) * [1, 1, 1, 0]), 4), "3 entries that are not 0"),
    *((lambda c=c, bad=bad: c.bits(bad), "message") for c in COMPRESSORS for bad in (None, 3, "a", [[1.0], [1.0, 2.0]])),
    *((lambda c=c, bad=bad: c.encode(bad), "message") for c in COMPRESSORS for bad in (None, "a")),
    *((lambda c=c, bad=bad: c.decode(bad, 3), "encoded = ") for c in COMPRESSORS for bad in (None, b"ab")),
    *((lambda c=c, bad=bad: c.decode(c.encode(np.zeros(1)), bad), "dim") for c in (messages.TopK(1),) for bad in (None, 2.0, "3")),
    (lambda: central.Function(2, 3, 4), "value is 3: give a function"),
    (lambda: central.Joint(3), "problem is 3"),
    (lambda: central.MOPES(1.0, 1.0, 5, 1.0).run(3, central.Ball(2, 1.0)), "problem = 3"),
    (lambda: algorithms.fedmls_parameters(LAD, 0.1, 2.0, x0=np.array([1j, 0])), "x0 holds complex"),
    (lambda: replay.load(3), "path = 3"),
    (lambda: campaign.plan("a"), "seed is 'a'"),
    (lambda: algorithms.get(3), "unknown algorithm '3'"),
    (lambda: theorems.get(3), "unknown statement '3'"),
]

FLAGGED = [
    *(
        lambda kind=kind, f=f, bad=bad: made_of(kind, **{f.name: bad})
        for kind in (*METHODS, local.LocalSGD, central.MOPES, messages.RandomK) for f in flags_of(kind) for bad in ("no", 0)
    ),
    lambda: local.Momentum(1, 0.1, steps=1, nesterov="no"),
    *(lambda name=name: run(**{name: "no"}) for name in ("keep_states", "dense", "in_place", "progress", "client_bits")),
    lambda: central.MOPES(1.0, 1.0, 2, 1.0).run(central.Joint(LAD), BALL, keep="no"),
    lambda: problems.random_quadratic(3, 2, shared_hessian="no"),
    lambda: problems.synthetic(1, 1, iid="no"),
    lambda: problems.synthetic_softmax(1, 1, intercept="no"),
    lambda: problems.synthetic_least_squares(1, 1, intercept="no"),
    lambda: testing.assert_reaches([1.0, 0.1], 0.5, within=1, stay="no"),
    lambda: datasets.load_svmlight("nowhere", final_newline="no"),
    *(
        lambda name=name, bad=bad: theory.printed(theory.le(0, 1), **{name: bad})
        for name in ("fails", "holds", "pathwise") for bad in ("no", 0)
    ),
    lambda: theory.eq([1, 2], [1, 2], vector="no"),
    lambda: theory.study((), necessity="no"),
    lambda: theory.SmoothConvex(identical="no"),
    lambda: SeparableLosses.of([[1]], [[0]], [[0]], [[0]], [[None]], [1], exact="no"),
    *(lambda name=name: judge.Form("printed", "", None, {"any": "open"}, **{name: "no"}) for name in ("exact_only", "proves")),
]
NONE = [
    (lambda: optimum.certify(None), "problem = None: a problem is needed"),
    (lambda: optimum.certify(problems.LeastSquares), "a problem is needed"),
    (lambda: optimum.certify(LS, "a"), "gap is 'a'"),
    (lambda: optimum.assess(None, [0, 0]), "problem = None"),
    (lambda: optimum.certify(LS, max_conic_entries="a"), "max_conic_entries is 'a'"),
    (lambda: LS.optimum(max_conic_entries=2.5), "max_conic_entries is 2.5"),
    (lambda: testing.assert_statement(None, np.zeros((2, 2)), LS, DYN), "unknown statement 'None'"),
    (lambda: judge.verify(None, LS, DYN), "unknown statement 'None'"),
    (lambda: judge.bound(None, LS, DYN, 3), "unknown statement 'None'"),
    (lambda: problems.hold_out(None, 0.2), "problem = None"),
    (lambda: problems.read_problem(None), "path = None"),
    *((lambda bad=bad: LS.select(bad), "samples = .*an array of sample numbers") for bad in (None, 3, "ab", {0: [0]}, np.int64(1))),
    *((lambda bad=bad: simulate(bad, algorithms.FedAvg(), 1), "problem = .* problem is needed") for bad in (None, 3, problems.LAD)),
    *(
        (lambda f=f, bad=bad: f(bad), f"found = .*{needed}")
        for f, needed in (
            (worst_cases.certificate, "what worst_case"), (worst_cases.verify, "use a Certificate"),
            (lambda bad: worst_cases.write("nowhere/c.json", bad), "use a Certificate"),
            (worst_cases.worst_function, "the WorstCase that"),
        ) for bad in (None, "fedavg", {"kind": "potential"}, worst_cases.Certificate)
    ),
    (lambda: worst_cases.worst_function(worst_cases.Losses(1.0)), "the WorstCase that"),
    *((lambda bad=bad: judge.register(bad), r"paper = .*use fedtheory.theory.Paper\(id") for bad in (None, "efl", theorems)),
    (lambda: judge.judge_worst(None, None), "statement = None: use a Statement"),
    (lambda: judge.judge_worst("efl/eq-5", None), "statement = 'efl/eq-5'"),
    (lambda: judge.judge_worst(THEOREM, "printed"), "form = 'printed': use a Form"),
    *((lambda bad=bad: rates.how_it_ended(bad), "gaps") for bad in (None, "a", [[[1.0]]], 1.0, {}, [1j], [[1.0, 2.0], [3.0]])),
    (lambda: rates.how_it_ended([1.0, 2.0], None), "floor is None"),
    (lambda: worst_cases.load(None), "path = None"),
    (lambda: replay.load(None), "path = None"),
    (lambda: worst_cases.worst_case("fedavg", losses=3), "losses = 3"),
    (lambda: worst_cases.Losses(1, None), "strong_convexity is None"),
    (lambda: central.optimum_over(None, BALL), "problem = None"),
    (lambda: central.plan(LAD, None), "constraint = None"),
    (lambda: algorithms.fedmls_parameters(None, 0.1, 1.0), "problem = None"),
    (lambda: algorithms.subgradient_parameters(None, 3, 1.0, 1.0), "problem = None"),
    (lambda: messages.TopK(k=1, float_bits=[64]), "float_bits"),
    *(
        (lambda kind=kind, f=f: made_of(kind, **{f.name: np.ones(2)}), f.name)
        for kind in METHODS for f in dataclasses.fields(kind) if f.init
    ),
]

RUNS = [
    *((lambda bad=bad: run(x0=np.full(2, bad)), "at most 1e[+]100") for bad in (1e300, -1e101)),
    (lambda: simulate(HUGE, algorithms.FedAvg(), 1, x0=np.full(2, 1e90)), "round 0: objective at x0 is inf"),
    *((lambda t=t: run(like=np.zeros(1, t)), "float64 or float32") for t in (np.float16, np.longdouble)),
    *((lambda bad=bad: run(checkpoint=bad), "checkpoint = ") for bad in (3, "yes")),
    *((lambda bad=bad: run(rounds=bad), "rounds is") for bad in (True, "3", 2.0, 0)),
    *((lambda bad=bad: run(scenarios=bad), "scenarios is") for bad in (True, 0)),
    *((lambda n=name: run(**{n: True}), f"{name} is True") for name in ("chunk", "workers", "evaluate_every", "seed")),
    (lambda: run(x0=np.array([1j, 0])), "x0 holds complex"),
    (lambda: run(x0=["1", "0"]), "x0 holds text"),
    (lambda: run(x0=[[1], [0, 1]]), "x0 is ragged"),
    (lambda: run(x0=[math.nan, 0]), r"x0\[0\] is nan"),
    (lambda: run(record="objective"), "record = 'objective'"),
    (lambda: run(record=None), "record = None"),
    (lambda: run(record=[1]), "unknown metric '1'"),
    (lambda: run(like=[1.0]), "like = "),
    (lambda: run(like=np.zeros(1, dtype=int)), "like has dtype int64"),
    (lambda: run(like=np.zeros(1, dtype=complex)), "like has dtype complex128"),
    (lambda: run(rounds=2, resume=3), "resume is 3"),
    (lambda: simulate(None, algorithms.FedAvg(), 1), "problem = None"),
    (lambda: simulate(problems.LeastSquares, algorithms.FedAvg(), 1), "problem = the class LeastSquares"),
    *((lambda bad=bad: verify(confidence=bad), "confidence is") for bad in (2, 0, True, math.nan, "a")),
    *((lambda bad=bad: verify(rounds=bad), "rounds is") for bad in (True, 0, "a")),
    *((lambda bad=bad: verify(scenarios=bad), "scenarios is") for bad in (1, "a")),
    (lambda: verify(seed="a"), "seed is 'a'"),
    (lambda: verify(x0=np.array([1j, 0])), "x0 holds complex"),
    (lambda: verify(problem=None), "problem = None"),
    (lambda: optimum.assess(LS, "a"), "x holds text"),
    (lambda: rates.fit_slope(list("abcdefg"), [1] * 7, window=(1, 5)), "x holds text"),
    (lambda: rates.fit_slope(CURVE[1:] * 1j, CURVE[1:], window=(1, 5)), "x holds complex"),
    (lambda: rates.fit_rate(np.r_[CURVE, np.inf], window=(10, 199)), r"values\[200\] is inf: a run that diverged"),
    (lambda: rates.prefer(3, -1, -2), "slope = 3"),
    (lambda: rates.rounds_to_epsilon(CURVE, [1j]), "epsilons holds complex"),
    (lambda: rates.rounds_to_epsilon(np.r_[CURVE, -np.inf], [0.1]), r"gaps\[200, 0\] .* is -inf: the run diverged"),
    (lambda: rates.rounds_to_epsilon(CURVE, [0.1], floor_multiple=math.nan), "floor_multiple is nan"),
    (lambda: rates.crossover(1, 2), "give RoundsToEpsilon"),
    (lambda: rates.join([1]), "give RoundsToEpsilon"),
]

NOWHERE = np.array([math.nan, 0.0])
SETS = [
    (lambda: central.Box(1, 0), "lower is 0 and upper is not given"),
    (lambda: central.named_set("ball", 2, "1"), "set_size is '1'"),
    (lambda: central.named_set("ball", 2.5), "dim is 2.5"),
    (lambda: central.optimum_over(problems.L1Distance(np.ones((1, 2))), BALL, gap=1j), "gap is"),
    (lambda: central.plan(problems.L1Distance(np.ones((1, 2))), BALL, epsilon="small"), "epsilon is 'small'"),
    (lambda: central.plan(problems.L1Distance(np.ones((1, 2))), BALL, x0=NOWHERE), "x0"),
    (lambda: local.ExactProx(radius="1"), "radius is '1'"),
    (lambda: local.ExactProx(tolerance=0), "tolerance"),
    (lambda: central.Box(2, upper=0), "upper is 0 and lower is not given"),
    (lambda: central.Box(2, "a", "b"), "lower holds text"),
    (lambda: central.Box(2, 1j, 2), "lower holds complex"),
    (lambda: central.Box(2, [[1], [1, 2]], 2), "lower is ragged"),
    (lambda: central.Box(2).project(NOWHERE), r"x\[0\] is nan"),
    (lambda: central.Box(2).project(np.zeros(3)), r"x has shape \(3,\)"),
    (lambda: central.Ball(2, 1.0, "ab"), "center holds text"),
    (lambda: central.Ball(2, 1.0, 3.0), "center has shape"),
    (lambda: central.Ball(2, 1.0, (1j, 0)), "center holds complex"),
    (lambda: central.Ball(2, np.complex128(1)), "radius is"),
    (lambda: BALL.project(np.ones(5)), r"x has shape \(5,\): expected \(\.\.\., 2\)"),
    (lambda: BALL.project(3j * np.ones(2)), "x holds complex"),
    (lambda: BALL.linear_minimiser(NOWHERE), r"x\[0\] is nan"),
    (lambda: BALL.distance([1, 2, 3]), "x has shape"),
    (lambda: central.project_simplex([math.nan, 1]), r"x\[0\] is nan"),
    (lambda: central.project_simplex([math.inf, 1]), r"x\[0\] is inf"),
    (lambda: central.project_simplex([0.2, 1], -1), "total is -1"),
    (lambda: central.project_simplex([]), "d >= 1"),
    (lambda: central.Simplex(2).project(np.ones(3)), "x has shape"),
    (lambda: central.L1Ball(2).project(NOWHERE), r"x\[0\] is nan"),
    (lambda: central.NuclearBall(2, 2).project(np.full(4, math.nan)), r"x\[0\] is nan"),
    (lambda: central.NuclearBall(2, 2).project(np.ones(5)), "x has shape"),
    (lambda: central.NuclearBall(2, 2).linear_minimiser(np.full(4, math.nan)), r"x\[0\] is nan"),
    (lambda: central.Consensus(2, 2).project(np.ones(5)), "x has shape"),
    (lambda: central.frank_wolfe_projection(BALL, NOWHERE, np.zeros(2), 1e-3), r"target\[0\] is nan"),
]

POINTS = [
    (lambda: LS.objective(np.array([1j, 0])), "x holds complex"),
    (lambda: LS.objective(np.array(["1", "0"])), "x holds text"),
    (lambda: LS.objective([[1, 2], [3]]), "x is ragged"),
    (lambda: LS.objective(1.0), r"points of shape \(\)"),
    (lambda: LS.client_losses(np.zeros(3)), r"points of shape \(3,\)"),
    (lambda: LS.gradient(None), "x is None"),
    (lambda: LS.full_gradient(np.zeros(2, dtype=complex)), "x holds complex"),
    (lambda: problems.LinearModel(FEATURES, TARGETS).objective(np.zeros(2)), "LinearModel has no phi"),
    (lambda: LS.gradient_each([[0, 1]]), r"points of shape \(1, 2\)"),
    (lambda: LS.full_hessian(np.zeros(3)), "one point is needed"),
    (lambda: LS.full_hessian(np.zeros(2) + 1j), "x holds complex"),
]


def rows(table):
    """A table's rows, under what they must say."""
    return pytest.mark.parametrize(("call", "says"), table, ids=[f"{i}: {says}" for i, (_, says) in enumerate(table)])


@pytest.mark.filterwarnings("error")
@rows([*DATA, *NUMBERS, *RUNS, *SETS, *POINTS, *NONE])
def test_bad_input_is_named(call, says):
    with pytest.raises(FedTheoryError, match=says):
        call()


@each("call", FLAGGED)
def test_what_merely_counts_as_true_or_false_is_none(call):
    with pytest.raises(FedTheoryError, match=r"(is|=) ('no'|0): use True"):
        call()


def test_nor_is_a_flag_of_what_reads_data_for_networks():
    data = pytest.importorskip("fedtheory.neural.data")
    from fedtheory.neural.torch_datasets import samples_of

    seen = set()
    for reads in (samples_of, *(getattr(data, name) for name in data.__all__ if name.startswith("load_"))):
        flags = [n for n, p in inspect.signature(reads).parameters.items() if p.annotation in ("bool", bool)]
        for name in flags:
            with pytest.raises(InvalidInput, match=f"{name} is 'no': use True or False"):
                reads("nowhere", **{name: "no"})
        seen |= set(flags)
    assert {"verify", "progress", "first_ten"} <= seen


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("1 99999999999:1\n", {}, "line 1 has the index 99999999999: the largest that can be read is 2147483646"),
        ("1 1:1\n1 99999999999999999999999:1\n", {"dimension": 3}, "line 2 has the index"),
        ("1 1:1\n", {"dimension": True}, "dimension is True"),
        ("1 1:1\n", {"dimension": 10**12}, "dimension is 1000000000000"),
        ("1 1:1\n", {"max_gib": "a"}, "max_gib is 'a'"),
        ("1 100000000:1\n", {"max_gib": math.nan}, "max_gib is nan"),
    ],
)
def test_an_svmlight_file_that_cannot_be_read(tmp_path, text, options, says):
    with pytest.raises(FedTheoryError, match=says):
        svmlight(tmp_path, text, **options)


def test_a_long_number_in_a_comment_is_no_index(tmp_path):
    assert svmlight(tmp_path, "1 0000000000002:1 # 99999999999:1\n").features.tolist() == [[0.0, 1.0]]


def test_what_is_good_comes_through():
    """Fractions, integers of any size, bools as data, float32, 0-d arrays and lists; float64 without a copy."""
    assert real_array("a", [[Fraction(1, 2), 10**30]]).tolist() == [[0.5, 1e30]]
    assert real_array("a", [True, False]).tolist() == [1.0, 0.0]
    own = np.ones(3)
    assert real_array("a", own) is own and points("x", own) is own and points("x", np.float32([1])).dtype == np.float32
    assert data_array("a", [0.0, LARGEST, 1e-300]).tolist() == [0.0, LARGEST, 1e-300] and not data_array("a", [0.0]).any()
    assert real_number("a", Fraction(1, 4), above=0) == 0.25 and real_number("a", np.float32(0.5)) == 0.5
    assert (whole_number("a", np.int64(3)), type(whole_number("a", np.int64(3)))) == (3, int)
    with pytest.raises(InvalidInput, match=r"a is 7: it must lie in \(0, 1\]"):
        real_number("a", 7, above=0, most=1)


# --- integers -------------------------------------------------------------------------------------
PROBLEMS = {
    "least squares": LS,
    "few samples": problems.LeastSquares(RNG.normal(size=(2, 2, 7)), RNG.normal(size=(2, 2)), 0.1),
    "quadratic": problems.random_quadratic(3, 2),
    "logistic": problems.Logistic(FEATURES, LABELS, 0.1),
    "huber": problems.Huber(FEATURES, TARGETS, 0.5, 0.1),
    "softmax": problems.Softmax(FEATURES, LABELS > 0, 2, 0.1),
    "LAD": LAD,
    "quantile": problems.Quantile(FEATURES, TARGETS, 0.3),
    "hinge": problems.Hinge(FEATURES, LABELS, 0.1),
    "max affine": problems.random_max_affine(),
    "l1": problems.L1Distance([[0.5], [1.0]]),
    "euclidean": problems.random_euclidean_distance(),
    "nesterov": problems.NesterovWorst(4, num_clients=3),
    "pull": problems.TwoClientPull(0.1),
    "chain": problems.ArjevaniShamir(4),
    "maximum and chain": problems.MaximumAndChain(2, 2),
    "joint": central.Joint(problems.Huber(FEATURES, TARGETS, 0.5, 0.1)),
}
PROBLEMS |= problems_beyond(PROBLEMS.values())


def test_the_property_is_tested_on_every_problem():
    covered = {type(problem) for problem in PROBLEMS.values()}
    built_in = {value for value in map(problems.__dict__.get, problems.__all__) if isinstance(value, type)}
    assert {c for c in built_in if issubclass(c, problems.Problem)} - covered == {problems.Problem, problems.LinearModel}


@pytest.mark.parametrize("library", ["numpy", "list", "bool", "torch"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_integer_points_give_the_float_result(name, library):
    problem = PROBLEMS[name]
    rng = np.random.default_rng(3)
    most = 2 if library == "bool" else 4
    one, many = rng.integers(0, most, problem.dim), rng.integers(0, most, (5, problem.dim))
    each = rng.integers(0, most, (5, problem.num_clients, problem.dim))
    if library == "torch":
        torch = pytest.importorskip("torch")
        make, real = torch.as_tensor, lambda a: torch.as_tensor(a, dtype=torch.float64)
    else:
        make = {"numpy": np.asarray, "list": np.ndarray.tolist, "bool": lambda a: a.astype(bool)}[library]
        real = lambda a: a.astype(float)  # noqa: E731
    calls = [(problem.client_losses, one), (problem.objective, many), (problem.gradient, many), (problem.full_gradient, one)]
    calls += [(problem.client_losses, many), (problem.objective, one), (problem.gradient_each, each), (problem.in_double, many)]
    for call, at in calls:
        wanted = to_numpy(call(real(at)))
        got = to_numpy(call(make(at)))
        assert got.dtype == wanted.dtype == np.float64
        np.testing.assert_array_equal(got, wanted)
    if name in ("least squares", "few samples", "quadratic", "logistic", "huber", "softmax"):
        np.testing.assert_array_equal(problem.full_hessian(one), problem.full_hessian(one.astype(float)))


def test_weights_are_not_rounded_to_the_integers_of_a_point():
    assert problems.L1Distance([[0.5], [1.0]]).objective(np.array([[0]])).tolist() == [0.75]
    for like in (np.zeros(2, dtype=int), np.zeros(2, dtype=bool)):
        assert astype_like(np.array([0.5]), like).tolist() == [0.5]
        assert LS.like(like).features.dtype == np.float64
    assert astype_like(np.array([0.5]), np.zeros(1, dtype=np.float32)).dtype == np.float32
