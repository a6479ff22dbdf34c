"""Diagonals of Fisher information matrices of the clients' losses, the weights of EFL's elastic term.

The losses are negative log-likelihoods of one sample, averaged over a client's samples; the ridge is a prior, and no part of them.

* model Fisher: the label's expectation is taken under the model, E_{b ~ p(.|a, w)} (d loss/d w_i)^2, exactly;
* empirical Fisher: the label is the observed one, mean_j (d loss_j/d w_i)^2;
* Gram diagonal: the diagonal of A'A/n (least squares), or of the Hessian of a quadratic client.

For least squares with unit noise, b ~ N(a'w, 1), the model Fisher is the Gram diagonal; for logistic and softmax regression it is the
Hessian's diagonal without the ridge. The empirical Fisher is none of these, and vanishes where every sample is fitted.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedtheory.arrays import Array, namespace
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.problems.base import Problem
from fedtheory.problems.glm import Logistic
from fedtheory.problems.linear import LeastSquares, LinearModel
from fedtheory.problems.quadratic import Quadratic
from fedtheory.problems.softmax import Softmax

__all__ = ["FISHERS", "FisherKind", "check_fisher", "client_fisher", "fisher_bound"]

FisherKind = Literal["model", "empirical", "gram"]
FISHERS: tuple[str, ...] = ("model", "empirical", "gram")


def client_fisher(problem: Problem, y: Array, kind: FisherKind = "model") -> Array:
    """diag I_k(y_kb), entries >= 0: client-major (N, B, d) -> (N, B, d).

    Raises
    ------
    InvalidInput
        An unknown kind; a quadratic client with a negative Hessian entry on the diagonal.
    MissingCapability
        The problem's losses have no such Fisher information here.
    """
    if kind not in FISHERS:
        raise InvalidInput(f"fisher = {kind!r}: use one of {', '.join(FISHERS)}")
    if hasattr(problem, "fisher_diagonal"):  # networks bring their own
        return problem.fisher_diagonal(y, kind)
    if isinstance(problem, Softmax) and kind != "gram":
        return _softmax(problem, y, kind)
    if isinstance(problem, LeastSquares | Logistic) and not (kind == "gram" and isinstance(problem, Logistic)):
        return _linear(problem, y, kind)
    if isinstance(problem, LinearModel) and kind == "empirical":
        return _linear(problem, y, kind)
    if isinstance(problem, Quadratic) and kind == "gram":
        return _quadratic(problem, y)
    raise MissingCapability(
        f"{type(problem).__name__} has no {kind} Fisher diagonal: LeastSquares has model, empirical and gram, Logistic and Softmax "
        "model and empirical, Quadratic gram"
    )


def check_fisher(problem: Problem, kind: FisherKind) -> None:
    """Raise what `client_fisher` would, at the price of one point."""
    if hasattr(problem, "check_fisher"):
        return problem.check_fisher(kind)
    client_fisher(problem, np.zeros((problem.num_clients, 1, problem.dim)), kind)


def fisher_bound(problem: Problem, kind: FisherKind) -> np.ndarray:
    """The supremum of diag I_k(y) over all y, entry by entry, or a bound above it: (N, d).

    Model Fishers of classification are largest where p = 1/2 (l'' and p (1 - p) are at most 1/4), for two classes at y = 0. Slopes are
    below 1 in absolute value. What belongs to quadratic losses does not depend on y.

    Raises
    ------
    MissingCapability
        The empirical Fisher of losses whose slopes are not bounded (or not known to be).
    """
    at_zero = client_fisher(problem, np.zeros((problem.num_clients, 1, problem.dim)), kind)[:, 0]
    if isinstance(problem, Softmax):
        p = 1 / problem.num_classes
        half = client_fisher(problem, np.zeros((problem.num_clients, 1, problem.dim)), "model")[:, 0] / (p * (1 - p))
        return half / 4 if kind == "model" else half
    if kind == "gram" or (kind == "model" and isinstance(problem, LeastSquares | Logistic)):
        return at_zero
    if isinstance(problem, Logistic):
        return 4 * at_zero
    raise MissingCapability(f"the {kind} Fisher diagonal of {type(problem).__name__} has no bound that holds everywhere")


def _linear(problem: LinearModel, y: Array, kind: FisherKind) -> Array:
    """sum_j w_j h_j a_j^2 with h = E l'(z)^2 under the model (l'' for exponential families), l'(z)^2 as observed, or 1."""
    xp = namespace(y)
    z = problem._predict(y)
    if kind == "empirical":
        h = problem.dphi(z, problem.targets[:, None, :]) ** 2
    elif kind == "model":
        h = problem.d2phi(z, problem.targets[:, None, :])
    else:
        h = xp.ones_like(z)
    return xp.matmul(h * problem.sample_weights[:, None, :], problem.features**2)


def _softmax(problem: Softmax, y: Array, kind: FisherKind) -> Array:
    """sum_j w_j a_ji^2 h_jc at position i*C + c, with h = p_c (1 - p_c) or (p_c - 1{b = c})^2."""
    xp = namespace(y)
    clients, points, _ = y.shape
    p = problem._probabilities(y)  # (N, n, B, C)
    h = p * (1.0 - p) if kind == "model" else (p - problem.onehot[:, :, None, :]) ** 2
    h = xp.reshape(h * problem.sample_weights[:, :, None, None], (clients, -1, points * problem.num_classes))
    out = xp.matmul(xp.matrix_transpose(problem.features**2), h)  # (N, p, B*C)
    out = xp.reshape(out, (clients, problem.num_features, points, problem.num_classes))
    return xp.reshape(xp.permute_dims(out, (0, 2, 1, 3)), (clients, points, problem.dim))


def _quadratic(problem: Quadratic, y: Array) -> Array:
    xp = namespace(y)
    diagonal = xp.linalg.diagonal(problem.hessians)  # (N, d)
    if bool(xp.any(diagonal < 0)):
        raise InvalidInput("a quadratic client has a negative Hessian entry on its diagonal: the elastic term needs weights >= 0")
    return xp.broadcast_to(diagonal[:, None, :], y.shape)
