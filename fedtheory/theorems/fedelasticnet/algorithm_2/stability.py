"""The parameters for which SCAFFOLD with everybody is stable on quadratics, whatever the clients.

Let the clients have Hessians H_k, S_k = sum_{j<B} (I - eta_l (H_k + lambda_2))^j, and (theta, c_1, ..., c_m) be the state
less its fixed point. A round moves client k by -eta_l S_k r_k with r_k = H_k theta - c_k + c. The new c is
(theta - theta^+)/(eta_g B eta_l), so that an eigenvalue 1 - z that is neither 0 nor one of 1 - S_k/B has
sum_k (P_k - z) (S_k/B - z)^(-1) theta = 0 with P_k = eta_g eta_l S_k H_k.
Where 0 <= eta_l (H_k + lambda_2) < 1 and eta_g < 2, S_k/B has eigenvalues in (0, 1] and P_k in [0, 2), to the same
eigenvectors. From a z with |z - 1| >= 1, z != 0, the segment [0, 2) is seen under less than a right angle: every summand
has a positive definite Hermitian part, and so has the sum, which is not singular. At z = 0 it is
eta_g eta_l B sum_k H_k, which is definite. So no eigenvalue has |1 - z| >= 1.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, table
from fedtheory.theorems.fedelasticnet.algorithm_2.rest import one_round, state_of
from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import BUILDERS, Method, numbers_of, sums, without_l1
from fedtheory.theory.judge.setting import ClosedView

__all__ = ["SERVER", "TWO_CLIENTS", "FloatStabilityView", "StabilityView", "contractions"]

MOST = 8  # numbers of a state
SERVER, TWO_CLIENTS = "eta_g < 2", "m = 2 and d = 1"  # what a form may need


class _Curved(NamedTuple):
    """x'Hx/2 of every client, as the clients in fractions ask for losses."""

    H: Any

    def take(self, index: Any) -> _Curved:
        """Clients by number."""
        return _Curved(self.H[index])

    def gradient(self, y: Any) -> Any:
        """(..., d) -> (..., d)."""
        return (self.H @ y[..., None])[..., 0]


def _determinant(M: Any) -> Any:
    return sum((-1) ** j * M[0][j] * _determinant(np.delete(M[1:], j, axis=1)) for j in range(len(M))) if len(M) else Fraction(1)


def _minors(M: Any, leading: bool) -> list[Any]:
    """All principal minors, or the leading ones: all >= 0 of a positive semidefinite matrix, all > 0 of a definite one."""
    n = len(M)
    rows = [list(range(k)) for k in range(1, n + 1)] if leading else [
        list(c) for k in range(1, n + 1) for c in itertools.combinations(range(n), k)
    ]
    return [_determinant(M[np.ix_(r, r)]) for r in rows]


def _characteristic(M: Any) -> list[Any]:
    """Coefficients of det(z - M), of z^0 first, by Faddeev and LeVerrier, in fractions."""
    eye = np.eye(len(M), dtype=int) + Fraction(0)
    out, N = [Fraction(1)], eye
    for k in range(1, len(M) + 1):
        product = M.dot(N)
        out.append(-np.trace(product) / k)
        N = product + out[-1] * eye
    return out[::-1]


def contractions(M: Any) -> list[Any]:
    """|a_0/a_n| of the characteristic polynomial and of those that Schur and Cohn reduce it to, up to the first that is >= 1.

    All eigenvalues of M lie inside the unit circle if and only if all these numbers are below 1.
    """
    p, out = _characteristic(M), []
    while len(p) > 1:
        out.append(abs(p[0] / p[-1]))
        if out[-1] >= 1:
            break
        p = [p[-1] * p[j] - p[0] * p[len(p) - 1 - j] for j in range(1, len(p))]
    return out


class StabilityView(ClosedView):
    """SCAFFOLD (Algorithm 2 with lambda_1 = 0) with everybody taking part, on quadratics with these Hessians (m, d, d)."""

    def __init__(self, H: Any, method: Method) -> None:
        self.H, self.method, (self.m, self.d) = H, without_l1(method), H.shape[:2]
        facts = {TWO_CLIENTS: (self.m, self.d) == (2, 1), SERVER: method.eta_g < 2}
        self.facts = frozenset(name for name, true in facts.items() if true)

    def matrix(self, eta_g: Any = 1) -> Any:
        """One round of the package's method on (theta, c_1, ..., c_m), with eta_g times a factor."""
        m, d, method = self.m, self.d, self.method._replace(eta_g=self.method.eta_g * eta_g)
        losses = SimpleNamespace(pieces=_Curved(self.H), weights=None)
        world, columns = SimpleNamespace(exact=True, num_clients=m, losses=losses), []
        for unit in np.eye(d * (m + 1), dtype=int) + Fraction(0):
            after = one_round(world, method, state_of(unit[:d], unit[d:].reshape(m, d)))
            columns.append(np.concatenate([after.x[0], after.c_k[0].ravel()]))
        return np.stack(columns, axis=1)

    def largest(self, eta_g: Any = 1) -> Any:
        """The largest of its `contractions`."""
        return max(contractions(self.matrix(eta_g)))

    def room(self, cross: Any = 1) -> Any:
        """Of two clients: 4 - (S_1 + S_2)/B less eta_g eta_l (S_1 a_1 + S_2 a_2 - S_1 S_2 (a_1 + a_2)/(2 B))."""
        (a, b), method = self.H[:, 0, 0], self.method
        S, R = sums(1 - method.eta * (self.H[:, 0, 0] + method.lambda2), method.B)
        rise = S * a + R * b - cross * S * R * (a + b) / (2 * method.B)
        return 4 - (S + R) / method.B - method.eta_g * method.eta * rise


class FloatStabilityView(StabilityView):
    """The same in floats, where `largest` is the spectral radius itself."""

    def matrix(self, eta_g: Any = 1) -> Any:
        """As `StabilityView.matrix`, from the formulas."""
        method, m, d = self.method, self.m, self.d
        eye, step = np.eye(d), method.eta_g * eta_g * method.eta
        Q, S = eye - method.eta * (self.H + method.lambda2 * eye), np.zeros_like(self.H)
        for _ in range(method.B):
            S = Q @ S + eye
        parts = np.eye(d * (m + 1)).reshape(m + 1, d, -1)  # theta, c_1, ..., c_m of the state
        c = parts[1:].mean(axis=0)
        moved = S @ (self.H @ parts[0] - parts[1:] + c)
        return np.concatenate([parts[0] - step * moved.mean(axis=0), *(parts[1:] - c + moved / method.B)])

    def largest(self, eta_g: Any = 1) -> Any:
        """The spectral radius."""
        return float(np.abs(np.linalg.eigvals(self.matrix(eta_g))).max())


@BUILDERS.add("scaffold stability")
def stability_view(data: dict[str, Any]) -> StabilityView:
    """From the Hessians H (m of them, d x d each), lambda2, eta, B and eta_g."""
    H = np.stack([table(rows, f"H[{k}]") for k, rows in enumerate(data["H"])])
    method, (m, d, width) = numbers_of({**data, "lambda1": fraction(data.get("lambda1", 0), "lambda1")}), H.shape
    if d != width or d * (m + 1) > MOST or (H != H.transpose(0, 2, 1)).any():
        raise InvalidInput(f"H {H.shape}: expected symmetric Hessians of equal size, with at most {MOST} numbers in theta and the c_k")
    eye = np.eye(d, dtype=int) + Fraction(0)
    for k, rows in enumerate(H):
        below = min(_minors(eye - method.eta * (rows + method.lambda2 * eye), leading=True)) > 0
        if not below or min(_minors(rows, leading=False)) < 0:
            raise InvalidInput(f"H[{k}]: 0 <= H and eta_l (H + lambda_2) < 1 must hold")
    if not min(_minors(H.sum(axis=0), leading=True)) > 0:
        raise InvalidInput("the mean of the Hessians must be positive definite: the optimum is not unique")
    return StabilityView(H, method)
