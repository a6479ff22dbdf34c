"""Arrays that are handed out or taken in are read-only or copies, so that no verdict changes.

Everything is overwritten that can be, and then asked again. A new problem class of `tests/problem_makers.py` is taken by
itself. A new parameter of a public method fails here until `given` says what to call it with.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import pickle
from fractions import Fraction

import numpy as np
import pytest
import torch
from cases import each
from compressors_at_hand import COMPRESSORS
from problem_makers import NONSMOOTH, SMOOTH
from registered import methods_beyond

from fedtheory import algorithms, participation, problems, simulate, theorems
from fedtheory.arrays import OwnArrays, ReadOnlyDict
from fedtheory.central import Joint
from fedtheory.errors import FedTheoryError, MissingCapability
from fedtheory.local import GradientSteps
from fedtheory.optimum import Optimum
from fedtheory.participation import Bernoulli, Cohort, Full, Irregular, JointLaw, Uniform
from fedtheory.problems import Problem
from fedtheory.randomness import Stream

PROBLEMS = SMOOTH | NONSMOOTH | {"joint": lambda: Joint(SMOOTH["quadratic"]())}
# makes other problems, talks to cvxpy, or is a name of before
LEFT_OUT = {"cvxpy_objective", "cvxpy_split", "cvxpy_loss", "like", "subset", "select", "value", "for_epsilon"}


def arrays_in(value, seen=()):
    """NumPy arrays and tensors in what came back, however deep."""
    if isinstance(value, np.ndarray | torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from arrays_in(v, seen)
    elif isinstance(value, tuple | list):
        for v in value:
            yield from arrays_in(v, seen)
    elif hasattr(value, "__dict__") and not isinstance(value, type | Problem) and id(value) not in seen:
        yield from arrays_in(vars(value), (*seen, id(value)))


def overwrite(value):
    """Write into whatever arrays can be written to; how many."""
    written = 0
    for array in arrays_in(value):
        if isinstance(array, torch.Tensor):
            array.copy_(torch.full_like(array, 7) - array)
        elif array.flags.writeable and array.dtype.kind in "fiub":
            array[...] = ~array if array.dtype == bool else 7 - array
        else:
            continue
        written += 1
    return written


def plain(value):
    """The result as bytes, which later writing does not change."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes() if value.dtype != object else tuple(value.flat))
    if isinstance(value, torch.Tensor):
        return plain(value.detach().cpu().numpy())
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k != "conic_seconds"}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if dataclasses.is_dataclass(value) or type(value).__name__ == "Enclosure":
        return {k: plain(v) for k, v in vars(value).items()}
    return value if isinstance(value, int | float | str | None | Fraction) else type(value).__name__


def given(problem, as_tensor):
    """An argument for a parameter of that name."""
    g = np.random.default_rng(5)
    convert = torch.from_numpy if as_tensor else np.asarray
    y = convert(g.normal(size=(problem.num_clients, 2, problem.dim)))
    samples = np.zeros((problem.num_clients, 2, 1), dtype=np.int64)
    return {
        "x": convert(g.normal(size=problem.dim)), "y": y, "samples": convert(samples), "first": 0, "last": 1, "kind": "module",
        "radius": 1.5, "gap": 1e-6, "max_conic_entries": 0, "batch_size": 2, "known": 1, "z": convert(g.normal(size=(3, 1, 9))),
        "b": convert(np.ones((3, 1, 9))),
    }  # fmt: skip


def everything(problem, as_tensor=False):
    """Results of all public attributes and methods, by name; constants and optimum last."""
    found, known = {}, given(problem, as_tensor)
    kernels = problem.like(known["y"])
    names = {n for n in dir(type(problem)) if not n.startswith("_")} - LEFT_OUT
    for name in (*sorted(names - {"constants"}), "constants"):
        member = inspect.getattr_static(type(problem), name)
        if isinstance(member, classmethod | staticmethod) or not callable(member):
            if isinstance(member, property):
                with contextlib.suppress(MissingCapability):
                    found[name] = getattr(problem, name)
            continue
        asked = [p for p in inspect.signature(member).parameters if p != "self"]
        assert set(asked) <= set(known), f"{name} has a parameter that `given` does not know: add it there"
        arguments = copy.deepcopy({p: known[p] for p in asked})
        if name == "gradient_each":
            arguments["y"] = arguments["y"][:, 0, :]
        try:
            found[name] = getattr(kernels if name.startswith("client_") else problem, name)(**arguments)
        except (FedTheoryError, NotImplementedError):
            continue
        except TypeError:  # in_double of a problem whose points are NumPy's
            assert as_tensor, name
    found["attributes"] = {k: v for k, v in vars(problem).items() if not k.startswith("_")}
    return found


@pytest.mark.parametrize("as_tensor", [False, True], ids=["numpy", "torch"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_what_a_problem_hands_out_can_be_overwritten_and_changes_nothing(name, as_tensor):
    problem = PROBLEMS[name]()
    first = everything(problem, as_tensor)
    before = plain(first)
    assert overwrite(first), "nothing was writable: this test would not notice anything"
    part = problem.subset(np.arange(problem.num_clients))
    overwrite([vars(part), part.beta_k if "beta_k" in first else (), everything(part, as_tensor)])
    assert plain(everything(problem, as_tensor)) == before == plain(everything(PROBLEMS[name](), as_tensor))


def made_again(name, monkeypatch):
    """The class of a problem, and how its constructor was called: {parameter: value}, arrays of our own, weights among them."""
    calls = []
    cls = type(PROBLEMS[name]())
    init = cls.__init__

    def recorded(self, *args, **options):
        if type(self) is cls and not calls:
            calls.append(inspect.signature(init).bind(self, *args, **options).arguments)
        init(self, *args, **options)

    monkeypatch.setattr(cls, "__init__", recorded)
    problem = PROBLEMS[name]()
    monkeypatch.undo()
    arguments = {k: v for k, v in calls[0].items() if k != "self"}
    if "weights" in inspect.signature(cls).parameters:
        w = np.arange(1.0, problem.num_clients + 1)
        arguments["weights"] = w / w.sum()
    return cls, arguments


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_what_a_problem_was_made_from_can_be_overwritten_and_changes_nothing(name, library, monkeypatch):
    cls, arguments = made_again(name, monkeypatch)

    def fresh(value):
        if isinstance(value, np.ndarray):
            return np.array(value) if library == "numpy" else torch.from_numpy(np.array(value))
        return [fresh(v) for v in value] if isinstance(value, list | tuple) else value

    ours = {k: fresh(v) for k, v in arguments.items()}
    problem = cls(**ours)
    before = plain(everything(problem))
    assert all(a.flags.writeable for a in arrays_in(ours) if isinstance(a, np.ndarray)), "the caller's arrays stay the caller's"
    overwrite(ours)
    for key in ("_optimum", "_optimum_on_ball", "_beta_mu"):  # what is computed later sees the same numbers, too
        problem.__dict__.pop(key, None)
    assert plain(everything(problem)) == before


def test_every_public_problem_class_is_among_them():
    public = {c for n in problems.__all__ if inspect.isclass(c := getattr(problems, n)) and issubclass(c, Problem)}
    assert public - {Problem, problems.LinearModel} <= {type(make()) for make in PROBLEMS.values()}


class Own(Problem):
    """A class of a user's, who keeps the arrays that were handed in."""

    convex = True
    client_data = ("targets",)

    def __init__(self, targets, weights):
        self.targets, self.weights = targets, weights
        self.num_clients, self.dim = targets.shape
        self.sample_counts = np.ones(self.num_clients)

    def client_value(self, y):
        return ((y - self.targets[:, None, :]) ** 2).sum(axis=-1) / 2


def test_a_class_of_a_users_own_keeps_copies():
    targets, weights = np.ones((2, 3)), np.array([0.25, 0.75])
    problem = Own(targets, weights)
    before = problem.objective(np.zeros(3))
    targets += 1
    weights[:] = 0
    assert problem.objective(np.zeros(3)) == before == 1.5
    with pytest.raises(ValueError, match="read-only"):
        problem.targets += 1


@pytest.mark.parametrize("name", ["quadratic", "lad"])
@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_copy_of_a_problem_is_read_only_too(name, again):
    problem = PROBLEMS[name]()
    problem.optimum_on_ball(1.0) if name == "lad" else problem.optimum()
    other = again(problem)
    assert not any(a.flags.writeable for a in arrays_in(vars(other)) if isinstance(a, np.ndarray))


def test_other_weights_are_another_problem():
    problem = SMOOTH["quadratic"]()
    before = problem.optimum()
    problem.weights = np.array([0.5, 0.25, 0.25])
    assert problem.optimum().value == SMOOTH["quadratic"](weights=[0.5, 0.25, 0.25]).optimum().value != before.value


def test_no_verdict_changes_when_somebody_writes_into_the_optimum():
    """The review's case: the start of a run made from the optimum, by adding to it in place."""
    problem = problems.Quadratic(np.ones((3, 1, 1)), [[3.0], [5.0], [13.0]])
    x0 = problem.optimum().x
    with pytest.raises(ValueError, match="read-only"):
        x0 += 1
    with pytest.raises(TypeError, match="read-only"):
        problem.optimum().details["scale"] = 0.0
    with pytest.raises(TypeError, match="read-only"):
        problem.optimum().details["bounds"].clear()

    def verdicts(of):
        checks = theorems.get("fedelasticnet/theorem-3.1").verify(
            of, algorithms.FedElasticNetDyn(l1=0.1, l2=30.0), sampling=Uniform(1), x0=[7.0], rounds=4
        )
        return [(c.form, c.rule, c.verdict, c.tightness) for c in checks]

    before = verdicts(problem)
    overwrite([problem.optimum(), problem.constants(), problem.beta_k, problem.client_hessian(np.zeros((3, 1, 1)))])
    overwrite([problem.weights, problem.minimisers, problem.hessians])
    assert verdicts(problem) == before


# --- what else keeps arrays -----------------------------------------------------------------------
def _rows():
    return np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])


LAWS = {
    "bernoulli": (Bernoulli, (np.array([0.5, 0.25]),)),
    "bernoulli, a list": (Bernoulli, ([0.5, 0.25],)),
    "full": (Full, ()),
    "uniform": (Uniform, (1,)),
    "feddyn": (participation.FedDynBernoulli, (0.5,)),
    "irregular": (Irregular, (2, _rows())),
    "irregular, turns": (Irregular, (2, [_rows(), _rows()[::-1].copy()])),
    "irregular, windows": (Irregular, (2, _rows(), [[1, None], [2, None]])),
    "joint": (lambda steps, p: Irregular(2, JointLaw(steps, p)), (np.array([[0, 2], [1, 1]]), np.array([0.25, 0.75]))),
    "as irregular": (lambda p: participation.as_irregular(Bernoulli(p), 2, 2), (np.array([0.5, 0.25]),)),
    "incomplete": (participation.incomplete, (2, 2, _rows())),
    "inactive": (participation.inactive, (2, 2, np.array([0.5, 0.25]))),
    "varying": (lambda rows: participation.varying(Irregular(2, rows), {0: participation.Decay(0.5)}), (_rows(),)),
}  # fmt: skip


def of_law(law):
    found = {"sample": law.sample(Stream(1), 2, range(5), 2), "fields": vars(law)}
    for ask in (lambda: law.enumerate(2), lambda: law.law(2), lambda: law.round_law(2), lambda: law.enumerate_round(2, 2),
                lambda: law.present_in(2), lambda: law.active()):  # fmt: skip
        try:
            found[str(len(found))] = ask()
        except (FedTheoryError, AttributeError):
            continue
    cohort = found["sample"]
    found["cohort"] = [cohort.taking_part(), cohort.size(), cohort.divisor, cohort.dense(), cohort.partial_mask]
    return found


@pytest.mark.parametrize("name", LAWS)
def test_what_a_law_takes_in_and_hands_out_can_be_overwritten_and_changes_nothing(name):
    make, arguments = LAWS[name]
    ours = copy.deepcopy(arguments)
    law = make(*ours)
    before = plain(of_law(law))
    for mine in ours:
        if isinstance(mine, list):
            mine.clear() if not isinstance(mine[0], np.ndarray) else overwrite(mine)
    overwrite(ours)
    overwrite(of_law(law))
    assert plain(of_law(law)) == before == plain(of_law(make(*copy.deepcopy(arguments))))


def test_every_public_law_is_among_them():
    public = {c for n in participation.__all__ if inspect.isclass(c := getattr(participation, n))}
    laws = {c for c in public if issubclass(c, participation.Sampling)} - {participation.Sampling, participation.Participation}
    assert laws <= {type(make(*copy.deepcopy(arguments))) for make, arguments in LAWS.values()}


def test_a_cohort_keeps_copies():
    mask, probability = np.array([[True, False], [True, True]]), np.array([0.5, 0.5])
    cohort = Cohort(2, mask=mask, probability=probability)
    assert cohort.size().tolist() == [1, 2]
    mask[:], probability[:] = False, 0
    assert cohort.dense_mask.sum() == 3 and cohort.probability.sum() == 1


METHODS = [
    algorithms.FedAvg(), algorithms.FedProx(0.8), algorithms.Scaffold("gradient"), algorithms.FedDyn(4.0),
    algorithms.FedElasticNetProx(0.1, 0.8),
    algorithms.FedElasticNetScaffold(0.1, 0.8), algorithms.FedElasticNetDyn(0.1, 4.0), algorithms.EFL(0.3, "A"),
    algorithms.FedMLS(1.0, 1.0, 4, 2.0, 1.0), algorithms.Subgradient(0.1), algorithms.FedGATE(), algorithms.ElasticAggregation(),
]  # fmt: skip
METHODS += methods_beyond(METHODS).values()


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_runs_share_no_memory_with_what_goes_in_and_change_nothing_that_came_out(method):
    problem = problems.random_quadratic(3, 2, seed=1)
    problem.normalising = np.array([True, False])  # as FedBN asks
    x0 = np.array([1.0, -2.0])
    options = {"sampling": Uniform(2), "local_solver": GradientSteps(2, 0.01), "seed": 3}
    try:
        run = simulate(problem, method, 2, x0=x0, **options)
    except FedTheoryError as refused:
        pytest.skip(str(refused))
    before = plain([run.metrics, list(run.final)])
    assert x0.flags.writeable
    x0 += 1
    on = simulate(problem, method, 4, resume=run, **options)
    assert plain([run.metrics, list(run.final)]) == before
    overwrite([on.metrics, list(on.final)])
    assert plain([run.metrics, list(run.final)]) == before
    again = simulate(problem, method, 2, x0=x0 - 1, **options)
    assert plain([again.metrics, list(again.final)]) == before


@each("compressor", COMPRESSORS)
def test_messages_are_new_each_time(compressor):
    x = np.random.default_rng(2).normal(size=(1, 2, 8))
    u = np.random.default_rng(3).random((1, 2, 8)) if compressor.randomised else None

    def told():
        return compressor.sent(np.array(x), None if u is None else np.array(u))

    first = told()
    before = plain(first)
    overwrite(first)
    assert plain(told()) == before


def test_own_arrays_of_a_dataclass():
    @dataclasses.dataclass(frozen=True)
    class Kept(OwnArrays):
        a: np.ndarray
        parts: tuple
        told: dict

    mine, part = np.arange(3.0), np.ones(2)
    kept = Kept(mine, (part,), {"n": 1})
    mine += 1
    part += 1
    assert kept.a.tolist() == [0, 1, 2] and kept.parts[0].tolist() == [1, 1] and kept.told == {"n": 1}
    for other in (kept, copy.deepcopy(kept)):
        assert not other.a.flags.writeable and not other.parts[0].flags.writeable
    view = mine[:2]
    view.flags.writeable = False
    assert not np.shares_memory(Kept(view, (), {}).a, mine), "a read-only view of what may be written to is copied"


def test_a_read_only_dict_is_a_dict():
    d = ReadOnlyDict(a=1, b={"c": np.ones(2)})
    assert d == dict(d) and pickle.loads(pickle.dumps(ReadOnlyDict(a=1))) == {"a": 1} and type(d | {"z": 1}) is dict
    assert isinstance(copy.deepcopy(d)["b"], ReadOnlyDict) and not d["b"]["c"].flags.writeable
    for change in (lambda: d.update(a=2), lambda: d.pop("a"), lambda: d["b"].clear(), lambda: d.setdefault("e", 1)):
        with pytest.raises(TypeError, match="read-only"):
            change()
    found = Optimum(np.zeros(1), 0.0, 0.0, 0.0, 0.0, "", "", {"scale": 1.0})
    assert dataclasses.asdict(found)["details"] == {"scale": 1.0}


@pytest.mark.filterwarnings("error:The given NumPy array is not writable")
def test_a_network_keeps_copies_of_who_holds_what():
    """torch takes no array that is read-only without a warning, and a caller's may change."""
    neural = pytest.importorskip("fedtheory.neural")
    g = np.random.default_rng(1)
    x, y, mine = g.normal(size=(6, 2)), np.array([0, 1, 0, 1, 0, 1]), [np.array([0, 1, 2]), np.array([3, 4, 5])]
    of_arrays = neural.NeuralProblem(torch.nn.Linear(2, 2), x, y, mine, weights=(w := np.array([0.25, 0.75])))
    of_partition = neural.NeuralProblem(torch.nn.Linear(2, 2), x, y, problems.Partition(tuple(mine)))
    w[:], mine[0][:] = 0, 5
    point = of_arrays.initial()
    run = simulate(of_partition, algorithms.FedAvg(), 1, x0=point.numpy(), local_solver=GradientSteps(1, 0.1), like=point)
    assert [c.tolist() for c in of_arrays.client_samples] == [c.tolist() for c in of_partition.client_samples] == [[0, 1, 2], [3, 4, 5]]
    assert of_arrays.weights.tolist() == [0.25, 0.75] and np.isfinite(run.metrics["objective"]).all()


@pytest.mark.filterwarnings("error:The given NumPy array is not writable")
@pytest.mark.parametrize("of", [
    lambda p: p, lambda p: p.subset(np.array([1, 0])), lambda p: p.select([np.array([0, 1]), np.array([2])]), copy.deepcopy,
], ids=["made", "subset", "select", "deepcopy"])  # fmt: skip
def test_who_holds_what_and_where_a_network_starts_can_be_overwritten_and_changes_nothing(of):
    neural = pytest.importorskip("fedtheory.neural")
    g = np.random.default_rng(1)
    x, y, clients = g.normal(size=(6, 2)), np.array([0, 1, 0, 1, 0, 1]), [[0, 1, 2], [3, 4, 5]]
    test = {"test": (x, y), "test_clients": clients}
    problem = of(neural.NeuralProblem(torch.nn.Linear(2, 2), x, y, clients, **test))
    point = problem.initial()

    def told():
        y = point.expand(2, 1, -1).contiguous()
        measured = problem.evaluate_clients(point[None]), problem.objective(point), problem.client_output_gradient(y, 0, 2)
        return plain([problem.client_samples, problem.tested, problem.sample_counts, problem.client_gradient(y), *measured])

    before, point = told(), point.clone()
    overwrite([problem.client_samples, problem.tested, problem.sample_counts, problem.weights, problem.initial(), problem.like_array()])
    problem.client_samples.clear()
    assert told() == before


@pytest.mark.parametrize("kind", ["ImageData", "Corpus"])
def test_data_for_networks_keeps_copies_and_is_read_only(kind):
    data = pytest.importorskip("fedtheory.neural.data")
    shape, dtype = {"ImageData": ((3, 1, 2, 2), np.uint8), "Corpus": ((3, 2), np.uint8)}[kind]
    g = np.random.default_rng(1)
    ours = {"train_x": g.integers(9, size=shape).astype(dtype), "train_y": np.array([0, 1, 0]),
            "test_x": g.integers(9, size=shape).astype(dtype), "test_y": np.array([1, 1, 0]),
            "train_users": np.array([0, 1, 1], np.int32), "test_users": np.array([1, 0, 1], np.int32)}  # fmt: skip
    found = getattr(data, kind)("mine", num_classes=2, users=("a", "b"), **ours)

    def told():
        dealt = found.by_user().indices
        return plain([{k: getattr(found, k) for k in ours}, found.inputs(found.train_x), dealt])

    before = told()
    assert all(a.flags.writeable for a in ours.values()), "the caller's arrays stay the caller's"
    overwrite([list(ours.values()), vars(found), found.inputs(found.train_x), found.by_user().indices])
    again = pickle.loads(pickle.dumps(found))
    assert told() == before and not any(a.flags.writeable for a in arrays_in(vars(again)))
    assert dataclasses.replace(found).train_x is found.train_x, "nothing is copied that is read-only"


