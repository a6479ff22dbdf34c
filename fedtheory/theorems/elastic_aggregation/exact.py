"""Instances of the statements about Elastic Aggregation from files, in fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.elastic_aggregation.mean_motion import semidefinite, solve
from fedtheory.theorems.elastic_aggregation.notation import BUILDERS
from fedtheory.theorems.elastic_aggregation.quantities import (
    AggregationView,
    AverageView,
    ClientsView,
    SampledView,
    client_factors,
    cohort_factors,
)
from fedtheory.verification.rational import fraction, integer, table, to_file, vector

__all__ = ["aggregation_view", "average_view", "sampled_view", "sampled_view_of"]

V = TypeVar("V", bound=SampledView)


def _matrices(values: Any, d: int, name: str) -> np.ndarray:
    """Symmetric positive semidefinite matrices (N, d, d); a row of d numbers stands for a diagonal."""
    if not isinstance(values, list) or not values:
        raise InvalidInput(f"{name} = {values!r}: expected one matrix a client")
    out = []
    for k, rows in enumerate(values):
        flat = not isinstance(rows, list) or not rows or not isinstance(rows[0], list)
        m = np.diag(vector(rows, f"{name}[{k}]")) + Fraction(0) if flat else table(rows, f"{name}[{k}]")
        if m.shape != (d, d) or (m != m.T).any() or np.diagonal(m).min() < 0:
            raise InvalidInput(f"{name}[{k}]: expected a symmetric ({d}, {d}) matrix, or its diagonal of numbers >= 0")
        if not semidefinite(m):
            raise InvalidInput(
                f"{name}[{k}] = {to_file(m)} is not positive semidefinite, as Hessians of convex clients and Gram matrices are; of one "
                "sample a the Gram matrix has the entries a_i a_j"
            )
        out.append(m)
    return np.stack(out)


def _common(data: dict[str, Any]) -> dict[str, Any]:
    theta, counts = vector(data["theta"], "theta"), vector(data["counts"], "counts")
    d = len(theta)
    found: dict[str, Any] = {
        "counts": counts, "H": _matrices(data["H"], d, "H"), "S": _matrices(data["S"], d, "S"), "c": table(data["c"], "c"),
        "theta": theta, "tau": fraction(data["tau"], "tau"), "eta": fraction(data.get("eta", 1), "eta"),
        "lr": fraction(data["lr"], "lr"), "E": integer(data["E"], "E", 1, 20),
    }  # fmt: skip
    H, tau, eta, lr = (found[k] for k in ("H", "tau", "eta", "lr"))
    if not len(H) == len(found["S"]) == len(counts) or counts.min() <= 0 or found["c"].shape[1] != d:
        raise InvalidInput("counts > 0, H, S and c must name the same clients, in the dimension of theta")
    if tau < 0 or eta <= 0 or lr <= 0:
        raise InvalidInput(f"tau = {tau}, eta = {eta}, lr = {lr}: tau must be >= 0, eta and lr > 0")
    for k, h in enumerate(H):
        if not semidefinite(np.diag([1 / lr] * d) - h):
            raise InvalidInput(f"lr = {lr}: it must be no more than 1/L of every client, which it is not for H[{k}] = {to_file(h)}")
    return found


@BUILDERS.add("aggregation")
def aggregation_view(data: dict[str, Any]) -> AggregationView:
    """From counts, H, S, c, theta, tau, eta, lr, E."""
    found = _common(data)
    if len(found["c"]) != len(found["H"]):
        raise InvalidInput("c needs one row a client")
    return AggregationView(**found)


@BUILDERS.add("sampled")
def sampled_view(data: dict[str, Any]) -> SampledView:
    """As above, with P and the minimisers of all clients but the last, whose minimiser makes theta the fixed point."""
    return sampled_view_of(SampledView, data)


def sampled_view_of(kind: type[V], data: dict[str, Any]) -> V:
    """The same, of a view that is more than a `SampledView`."""
    found, P = _common(data), integer(data["P"], "P", 1)
    n = len(found["H"])
    if n < 2 or P > n or len(found["c"]) != n - 1 or found["tau"] <= 0:
        raise InvalidInput("P clients of N >= 2, tau > 0, and c with one row for every client but the last")
    last = found["c"]
    found["c"] = np.concatenate([last, found["theta"][None]])
    view = ClientsView(**found)
    v = client_factors(cohort_factors(view.counts, view.sensitivities(view.theta), P, view.tau))
    rest = (v * view.updates(view.theta)).sum(axis=0)  # of the others: the last one stands at theta
    try:
        found["c"][-1] = view.theta + solve(view.M[-1], -rest / v[-1])
    except InvalidInput as error:
        raise InvalidInput(
            f"H[{n - 1}] = {to_file(view.H[-1])} is singular, and no minimiser of the last client makes theta a zero "
            f"of the mean motion: "
            "put a client last whose Hessian is not singular"
        ) from error
    return kind(**found, P=P)


@BUILDERS.add("average")
def average_view(data: dict[str, Any]) -> AverageView:
    """From weights, batches (for every client rows of |g|), mu, tau."""
    w = vector(data["weights"], "weights")
    batches = [table(b, f"batches[{k}]") for k, b in enumerate(data["batches"])]
    mu, tau = fraction(data["mu"], "mu"), fraction(data["tau"], "tau")
    if len(w) != len(batches) or w.min() <= 0 or len({b.shape[1] for b in batches}) != 1 or min(b.min() for b in batches) < 0:
        raise InvalidInput("weights > 0 and batches of numbers >= 0, one table a client, all of one width")
    if not 0 < mu < 1 or tau < 0 or all((b == 0).all() for b in batches):
        raise InvalidInput("mu must lie strictly between 0 and 1, tau be >= 0, and some batch not 0")
    return AverageView(w / w.sum(), batches, mu, tau)
