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

from fractions import Fraction
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.algorithm_2 import rounds
from fedtheory.theorems.fedelasticnet.algorithm_2.rest import one_round, state_of
from fedtheory.theorems.fedelasticnet.main_text.quadratics import hessians
from fedtheory.theorems.fedelasticnet.world import Data, check_everybody, positive
from fedtheory.theory import Fact, number
from fedtheory.theory.fields import Read
from fedtheory.theory.rounds.linear_algebra import determinant, identity, semidefinite

__all__ = ["SERVER", "TWO_CLIENTS", "FloatStabilityView", "StabilityView", "contractions"]

MOST = 8  # numbers of a state
MOST_NUMBERS = 2000  # of a state whose matrix is diagonalised
# what a form may need
SERVER = Fact("eta_g < 2", lambda q: q.method.eta_g < 2)
TWO_CLIENTS = Fact("m = 2 and d = 1", lambda q: (q.m, q.d) == (2, 1))


class _Curved(NamedTuple):
    """x'Hx/2 of every client, as the clients in fractions ask for losses."""

    H: Any

    def take(self, index: Any) -> _Curved:
        """Clients by number."""
        return _Curved(self.H[index])

    def gradient(self, y: Any) -> Any:
        """(..., d) -> (..., d)."""
        return (self.H @ y[..., None])[..., 0]


def _definite(M: Any) -> bool:
    return semidefinite(M) and determinant(M) != 0


def _characteristic(M: Any) -> list[Any]:
    """Coefficients of det(z - M), of z^0 first, by Faddeev and LeVerrier, in fractions."""
    eye = identity(len(M))
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


def _drawn(rng: Any, d: int) -> list[list[Fraction]]:
    """A curvature, or a sum of two squares v v', which is singular where they are parallel."""
    if d == 1:
        return [[positive(rng)]]
    vectors = [[Fraction(int(rng.integers(-3, 4)), 2) for _ in range(d)] for _ in range(2)]
    return [[sum((v[i] * v[j] for v in vectors), Fraction(0)) for j in range(d)] for i in range(d)]


class StabilityView(rounds.OfAlgorithm2):
    """SCAFFOLD with everybody taking part, on quadratics with these Hessians (m, d, d).

    That is Algorithm 2 with lambda_1 = 0.
    """

    kind, size, l1 = "scaffold stability", 16, 0.0
    takes = ("local_steps", "local_lr", "participants")
    about = "about one round's matrix of SCAFFOLD"
    example = "--problem ill-conditioned --local-steps 20 --server-lr 1.5"
    by_hand: ClassVar = {
        label: {"H": H, "lambda2": "0", "eta": eta, "B": 3, "eta_g": eta_g}
        for label, H, eta, eta_g in (
            ("at eta_g near 2", [[["63"]]], "1/64", "31/16"),
            ("just inside", [[["1"]], [["3"]]], "1/4", "21/8"),
            ("just outside", [[["1"]], [["3"]]], "1/4", "43/16"),
        )
    }

    reads: ClassVar = {
        "H": Read(hessians, shape=("m", "d", "d")), **rounds.NUMBERS,
        "lambda1": number(least=0, default=Fraction(0)),
    }  # fmt: skip

    def __init__(self, H: Any, method: rounds.Method) -> None:
        self.H, self.method, (self.m, self.d) = H, rounds.without_l1(method), H.shape[:2]

    @classmethod
    def made(cls, H: Any, **numbers: Any) -> Self:
        """Take the Hessians of losses with one optimum, and short steps."""
        method, (m, d, _), eye = rounds.Method(**numbers), H.shape, identity(H.shape[1])
        if d * (m + 1) > MOST:
            raise InvalidInput(f"H {H.shape}: at most {MOST} numbers in theta and the c_k")
        for k, rows in enumerate(H):
            if not _definite(eye - method.eta * (rows + method.lambda2 * eye)):
                raise InvalidInput(f"H[{k}]: eta_l (H + lambda_2) < 1 must hold")
        if not _definite(H.sum(axis=0)):
            raise InvalidInput(
                "the mean of the Hessians must be positive definite: the optimum is not unique"
            )
        return cls(H, method)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw one to three clients in the line or the plane, some of their Hessians singular."""
        m, d = int(rng.choice([1, 2, 2, 3])), int(rng.choice([1, 1, 2]))
        H = [_drawn(rng, d) for _ in range(m)]
        ends = ((0, 0), (0, d - 1), (d - 1, d - 1))
        size = [sum(H[k][i][j] for k in range(m)) for i, j in ends]
        if d > 1 and size[0] * size[2] == size[1] ** 2:  # the mean is singular
            H[0] = [[H[0][i][j] + (i == j) for j in range(d)] for i in range(d)]
        top = max(sum((abs(v) for v in row), Fraction(0)) for h in H for row in h)
        data = {"H": H, **rounds.steps(rng, [[top]], Fraction(0))}
        data["eta_g"] = Fraction(int(rng.choice([2, 4, 6, 7, 9, 12, 16])), 4)
        return f"m={m} d={d}", data

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> FloatStabilityView:
        """Take the Hessians of a user's problem."""
        problem, method = case.problem, rounds.method_in(case)
        if method.lambda1 or not problem.constant_hessian:
            l1 = f"lambda_1 = {method.lambda1:g}"
            what = l1 if method.lambda1 else f"{problem.name} is not quadratic"
            raise InvalidInput(f"{what}: the statement is about SCAFFOLD (l1 = 0) on quadratics")
        check_everybody(case, plain=False)
        origin = np.zeros((problem.num_clients, 1, problem.dim))
        H = np.asarray(problem.client_hessian(origin))[:, 0]
        spectrum, numbers = np.linalg.eigvalsh(H), problem.dim * (problem.num_clients + 1)
        size = method.eta * (float(spectrum.max()) + method.lambda2)
        if not size < 1 or not float(spectrum.min()) >= -1e-12 * float(spectrum.max()):
            raise InvalidInput(
                f"eta_l (beta + lambda_2) = {size:.6g}: it must be below 1, and every L_k convex"
            )
        if numbers > MOST_NUMBERS:
            raise InvalidInput(
                f"{numbers} numbers in theta and the c_k: more than {MOST_NUMBERS}, take fewer "
                "clients or dimensions"
            )
        return FloatStabilityView(H, method)

    def matrix(self, eta_g: Any = 1) -> Any:
        """One round of the package's method on (theta, c_1, ..., c_m), with eta_g times a factor."""
        m, d, method = self.m, self.d, self.method._replace(eta_g=self.method.eta_g * eta_g)
        losses = SimpleNamespace(pieces=_Curved(self.H), weights=None)
        world, columns = SimpleNamespace(exact=True, num_clients=m, losses=losses), []
        for unit in identity(d * (m + 1)):
            after = one_round(world, method, state_of(unit[:d], unit[d:].reshape(m, d)))
            columns.append(np.concatenate([after.x[0], after.c_k[0].ravel()]))
        return np.stack(columns, axis=1)

    def largest(self, eta_g: Any = 1) -> Any:
        """The largest of its `contractions`."""
        return max(contractions(self.matrix(eta_g)))

    def room(self, cross: Any = 1) -> Any:
        """Of two clients: 4 - (S_1 + S_2)/B less eta_g eta_l (S_1 a_1 + S_2 a_2 - S_1 S_2 (a_1 + a_2)/(2 B))."""
        (a, b), method = self.H[:, 0, 0], self.method
        S, R = rounds.sums(1 - method.eta * (self.H[:, 0, 0] + method.lambda2), method.B)
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
