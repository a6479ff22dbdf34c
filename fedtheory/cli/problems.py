"""Problems by name, and problems from a data file, as the command line takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtheory.errors import InvalidInput, suggest
from fedtheory.problems.base import Problem

__all__ = ["PROBLEMS", "NamedProblem", "build"]

_SIZES = ("clients", "dimension")
_DEAL = ("clients", "partition", "alpha_dirichlet", "classes", "loss", "ridge", "tau")


@dataclass(frozen=True)
class NamedProblem:
    """A problem the command line knows.

    Attributes
    ----------
    build : callable(options, seed) -> Problem
    takes : the options that apply to it
    nonsmooth : solved on a ball
    """

    about: str
    build: Callable[[dict[str, Any], int], Problem]
    takes: tuple[str, ...]
    nonsmooth: bool = False


def _random(generator: str, clients: int = 5, dimension: int = 4, **fixed: Any) -> Callable[[dict[str, Any], int], Problem]:
    def make(o: dict[str, Any], seed: int) -> Problem:
        from fedtheory.problems import generators

        m, d = o.get("clients") or clients, o.get("dimension") or dimension
        more = {"ridge": o["ridge"]} if o.get("ridge") is not None else {}
        if d == 1:
            more["condition"] = 1.0
        return getattr(generators, generator)(m, d, seed=seed, **{**fixed, **more})

    return make


def _synthetic(generator: str, *spread: float, **fixed: Any) -> Callable[[dict[str, Any], int], Problem]:
    def make(o: dict[str, Any], seed: int) -> Problem:
        from fedtheory.problems import generators

        ridge = 1e-2 if o.get("ridge") is None else o["ridge"]
        return getattr(generators, generator)(*spread, ridge=ridge, num_clients=o.get("clients") or 30, seed=seed, **fixed)

    return make


def _bundled(name: str, ridge: float) -> Callable[[dict[str, Any], int], Problem]:
    def make(o: dict[str, Any], seed: int) -> Problem:
        from fedtheory.problems import datasets

        return _deal(getattr(datasets, name)(), {"ridge": ridge, **o, "given": set(o)}, seed)

    return make


def _axes(o: dict[str, Any], seed: int) -> Problem:
    """Make random least squares of one feature a sample, so that Hessians are diagonal."""
    import numpy as np

    from fedtheory.problems import LeastSquares

    sizes = {name: o[name] for name in _SIZES if name in o}
    of: Any = _random("random_least_squares")(sizes, seed)
    axis = np.arange(of.features.shape[1])[:, None] % of.dim == np.arange(of.dim)
    return LeastSquares(of.features * axis, of.targets, o.get("ridge", 0.0))


def _identical(o: dict[str, Any], seed: int) -> Problem:
    import numpy as np

    from fedtheory.problems import Quadratic

    m = o.get("clients") or 5
    one: Any = _random("random_quadratic", heterogeneity=0.0)({"clients": 1, "dimension": o.get("dimension")}, seed)
    return Quadratic(np.repeat(one.hessians, m, axis=0), np.repeat(one.minimisers, m, axis=0))


def _saddle(o: dict[str, Any], seed: int) -> Problem:
    from fedtheory.problems import Quadratic

    return Quadratic([[[1.0, 0.0], [0.0, -1.0]], [[1.0, 0.0], [0.0, 0.5]]], [[0.0, 0.0], [1.0, 0.0]])


def _separable(o: dict[str, Any], seed: int) -> Problem:
    from fedtheory.problems import Logistic

    return Logistic([[[1.0], [2.0]], [[-1.0], [-3.0]]], [[1.0, 1.0], [-1.0, -1.0]])


def _nonsmooth(generator: str, dimension: int = 3, unequal: bool = True) -> Callable[[dict[str, Any], int], Problem]:
    def make(o: dict[str, Any], seed: int) -> Problem:
        from fedtheory.problems import nonsmooth_generators

        more = {name: o[name] for name in ("ridge", "tau") if o.get(name) is not None}
        if unequal:
            more["unequal"] = 4.0
        sizes = {"num_clients": o.get("clients") or 5, "dim": o.get("dimension") or dimension}
        return getattr(nonsmooth_generators, generator)(**sizes, seed=seed, **more)

    return make


def _hard(name: str, epsilon: float) -> Callable[[dict[str, Any], int], Problem]:
    def make(o: dict[str, Any], seed: int) -> Problem:
        from fedtheory import problems

        cls = getattr(problems, name)
        clients = {"num_clients": o["clients"]} if "clients" in o else {}
        return getattr(cls, "for_epsilon", cls)(o.get("for_epsilon", epsilon), **clients)

    return make


PROBLEMS: dict[str, NamedProblem] = {
    "quadratic": NamedProblem("random quadratics, condition number 10", _random("random_quadratic"), _SIZES),
    "ill-conditioned": NamedProblem(
        "random quadratics, condition number 10,000", _random("random_quadratic", condition=1e4), _SIZES
    ),
    "identical": NamedProblem("one random quadratic at every client", _identical, _SIZES),
    "least-squares": NamedProblem("random least squares", _random("random_least_squares"), (*_SIZES, "ridge")),
    "axes": NamedProblem(
        "random least squares, one feature a sample: diagonal Hessians", _axes, (*_SIZES, "ridge")
    ),
    "logistic": NamedProblem("random logistic regression, ridge 0.1", _random("random_logistic"), (*_SIZES, "ridge")),
    "huber": NamedProblem("random Huber regression, ridge 0.05", _random("random_huber", ridge=0.05), (*_SIZES, "ridge")),
    "diabetes": NamedProblem("scikit-learn's diabetes (442 x 10), ridge 0.001", _bundled("diabetes", 1e-3), _DEAL),
    "breast-cancer": NamedProblem("scikit-learn's breast cancer (569 x 30), ridge 0.01", _bundled("breast_cancer", 1e-2), _DEAL),
    "digits": NamedProblem("scikit-learn's digits, even or odd (1,797 x 64), ridge 0.01", _bundled("digits_binary", 1e-2), _DEAL),
    "digits-10": NamedProblem("scikit-learn's digits, ten classes (d = 640), ridge 0.01", _bundled("digits", 1e-2), _DEAL),
    "synthetic": NamedProblem(
        "FedProx's synthetic(1, 1), softmax (d = 610), at most 500 samples a client, ridge 0.01",
        _synthetic("synthetic_softmax", 1.0, 1.0, max_samples=500),
        ("clients", "ridge"),
    ),
    "synthetic-iid": NamedProblem(
        "its iid variant", _synthetic("synthetic_softmax", 0.0, 0.0, iid=True, max_samples=500), ("clients", "ridge")
    ),
    "synthetic-least-squares": NamedProblem(
        "its least-squares twin (d = 61)", _synthetic("synthetic_least_squares", 1.0, 1.0, max_samples=500), ("clients", "ridge")
    ),
    "lad": NamedProblem(
        "random least absolute deviations, the steepest client 4 times the flattest", _nonsmooth("random_lad"), _SIZES, True
    ),
    "quantile": NamedProblem("random quantile regression", _nonsmooth("random_quantile"), (*_SIZES, "tau"), True),
    "hinge": NamedProblem("random support vector machines", _nonsmooth("random_hinge"), (*_SIZES, "ridge"), True),
    "max-affine": NamedProblem("random maxima of 7 affine functions", _nonsmooth("random_max_affine"), _SIZES, True),
    "l1-distance": NamedProblem("mean l1 distance to random centres", _nonsmooth("random_l1_distance", unequal=False), _SIZES, True),
    "euclidean-distance": NamedProblem(
        "mean Euclidean distance to random centres: the geometric median",
        _nonsmooth("random_euclidean_distance", unequal=False), _SIZES, True,
    ),
    "two-client-pull": NamedProblem(
        "two clients that pull apart, made for one epsilon: FedAvg and FedProx with constant or 1/sqrt(t) steps need 1/epsilon^2 "
        "rounds",
        _hard("TwoClientPull", 0.1), ("for_epsilon",), True,
    ),
    "nesterov-worst": NamedProblem(
        "Nesterov's worst function: methods with one subgradient a round need 1/epsilon^2 rounds",
        _hard("NesterovWorst", 0.1), ("clients", "for_epsilon"), True,
    ),
    "arjevani-shamir": NamedProblem(
        "Arjevani and Shamir's chain: every method needs 1/epsilon rounds",
        _hard("ArjevaniShamir", 0.05), ("clients", "for_epsilon"), True,
    ),
    "maximum-and-chain": NamedProblem(
        "a maximum split over clients beside that chain: 1/epsilon^2 rounds of one subgradient, 1/epsilon of any method",
        _hard("MaximumAndChain", 0.05), ("clients", "for_epsilon"), True,
    ),
    "saddle": NamedProblem("two quadratics, one of them not convex: what `solve` refuses", _saddle, ()),
    "separable": NamedProblem("logistic regression without a minimiser: what `solve` refuses", _separable, ()),
}  # fmt: skip


def build(name: str | None, options: dict[str, Any], seed: int) -> Problem:
    """The problem of that name, of a file NAME.json (`fedtheory.problems.read_problem`), or of ``options['data']``.
    """
    given = {k: v for k, v in options.items() if v is not None}
    share, limit = given.pop("held_out", None), given.pop("max_conic_entries", None)
    if limit is not None and limit < 0:
        raise InvalidInput(f"--max-conic-entries {limit}: it must be an integer >= 0")
    problem = _build(name, given, seed)
    if limit is not None:
        from fedtheory.optimum.on_ball import is_smooth

        if not is_smooth(problem):
            raise InvalidInput(f"--max-conic-entries does not apply to {problem.name}, which is solved on a ball: leave it out")
        problem.max_conic_entries = limit
    if share is None:
        return problem
    from fedtheory.problems import hold_out

    return hold_out(problem, share, seed)


def _build(name: str | None, given: dict[str, Any], seed: int) -> Problem:
    if (name is None) == ("data" not in given):
        raise InvalidInput("name one problem, or give a file with --data (see `fedtheory list problems`)")
    for key in ("clients", "dimension"):
        if key in given and given[key] < 1:
            raise InvalidInput(f"--{key} {given[key]}: it must be at least 1")
    if name is None:
        return _from_file(given, seed)
    if name.endswith(".json"):
        return _from_json(name, given)
    if name not in PROBLEMS and Path(name).exists():
        raise InvalidInput(f"{name}: a file or folder, no problem's name; a problem's file is called NAME.json, data go by --data")
    if name not in PROBLEMS:
        raise suggest(name, PROBLEMS, "problem")
    chosen = PROBLEMS[name]
    for key in given:
        if key not in chosen.takes:
            takes = ", ".join(f"--{t.replace('_', '-')}" for t in chosen.takes) or "no options"
            raise _foreign(key, f"does not apply to the problem {name!r}: it takes {takes}")
    problem = chosen.build(given, seed)
    problem.name = name
    return problem


def _foreign(key: str, why: str) -> InvalidInput:
    """The error for an option that a problem does not take; --tau may be meant for a method."""
    more = "; a method's tau is --server-tau" if key == "tau" else ""
    return InvalidInput(f"--{key.replace('_', '-')} {why}{more}")


def _from_json(name: str, given: dict[str, Any]) -> Problem:
    from fedtheory.problems import read_problem

    if given:
        raise _foreign(next(iter(given)), f"does not apply to {name}: the file says all of the problem")
    return read_problem(name)


def _from_file(o: dict[str, Any], seed: int) -> Problem:
    from fedtheory.problems import load_svmlight

    if "loss" not in o:
        raise InvalidInput("--data needs --loss: logistic, least-squares, huber, softmax, lad, quantile or hinge")
    labels = {"logistic": "binary", "hinge": "binary", "softmax": "classes"}.get(o["loss"], "keep")
    data = load_svmlight(o["data"], o.get("dimension"), labels=labels)
    data = data.standardised() if o.get("standardise") else data
    problem = _deal(data, {**o, "given": set(o)}, seed)
    problem.name = data.name
    return problem


def _deal(data: Any, o: dict[str, Any], seed: int) -> Problem:
    from fedtheory.problems import Huber, LeastSquares, Logistic, Softmax, partitions

    m, how = o.get("clients") or 5, o.get("partition") or "iid"
    for key, only in (("alpha_dirichlet", "dirichlet"), ("classes", "classes")):
        if key in o and how != only:
            raise _foreign(key, f"belongs to --partition {only}, not to {how}")
    if how != "iid" and data.task == "regression":
        raise InvalidInput(f"--partition {how} deals classes, but {data.name} has real targets: use --partition iid")
    if how == "iid":
        part = partitions.iid(data.num_samples, m, seed=seed)
    elif how == "dirichlet":
        part = partitions.dirichlet(data.targets, m, o.get("alpha_dirichlet", 0.3), seed=seed)
    else:
        part = partitions.classes_per_client(data.targets, m, o.get("classes", 2), seed=seed)
    if o.get("loss") in ("lad", "quantile", "hinge"):
        problem = _nonsmooth_data(data, part, o)
        problem.partition = {"name": part.name, "parameters": part.parameters, "sha256": part.sha256}
        return problem
    if "tau" in o:
        raise _foreign("tau", f"belongs to --loss quantile, not to {o.get('loss', 'the default loss')}")
    kinds = {"logistic": Logistic, "least-squares": LeastSquares, "huber": Huber, "softmax": Softmax}
    loss = kinds.get(o.get("loss", ""))
    if loss is Softmax and data.task == "regression":
        raise InvalidInput(f"--loss softmax needs classes, but {data.name} has real targets: use least-squares or huber")
    problem = partitions.federate(data, part, loss, ridge=o.get("ridge") or 0.0)
    problem.partition = {"name": part.name, "parameters": part.parameters, "sha256": part.sha256}
    return problem


def _nonsmooth_data(data: Any, part: Any, o: dict[str, Any]) -> Problem:
    from fedtheory.problems import LAD, Hinge, Quantile

    loss = o["loss"]
    for key, only in (("ridge", "hinge"), ("tau", "quantile")):
        if key in o["given"] and loss != only:
            raise _foreign(key, f"does not apply to --loss {loss}: it belongs to {only}")
    features, targets = ([values[p] for p in part.indices] for values in (data.features, data.targets))
    if loss == "hinge":
        if data.task != "binary":
            raise InvalidInput(f"--loss hinge needs two classes, but {data.name} is a {data.task} problem: use lad or quantile")
        return Hinge(features, targets, o["ridge"] if "ridge" in o["given"] else 0.0)
    return LAD(features, targets) if loss == "lad" else Quantile(features, targets, o.get("tau", 0.25))
