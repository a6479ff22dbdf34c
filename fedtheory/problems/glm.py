"""Two more linear models: logistic and Huber regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.arrays import Array, namespace
from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_number
from fedtheory.optimum.loss_enclosures import HuberRows, LogisticRows
from fedtheory.optimum.lower_bounds import Structure
from fedtheory.problems.base import same_loss, same_smoothness
from fedtheory.problems.linear import LinearModel

__all__ = ["Huber", "Logistic"]


class Logistic(LinearModel):
    """f_k(x) = 1/n_k sum_j log(1 + exp(-b_kj a_kj'x)) + ridge/2 ||x||^2, labels b_kj = -1 or +1.

    Parameters
    ----------
    features : (N, n, d), or a list of per-client (n_k, d) arrays.
    targets : (N, n), or a list of (n_k,) arrays; every entry exactly -1 or +1.
    ridge : float from 0 to 1e100
    weights : 'uniform' (1/N), 'samples' (n_k/n), or N numbers that sum to 1.

    Raises
    ------
    InvalidInput
        A label other than -1 and +1; whatever `LinearModel` refuses.

    Notes
    -----
    beta_k = lambda_max(A_k'A_k/n_k)/4 + ridge is exact: phi'' <= 1/4, and every phi'' is 1/4 at x = 0. mu_k = ridge is
    exact too: along almost every ray all margins grow and every phi'' of a sample with features tends to 0.
    """

    name = "logistic"
    curvature_max = 0.25

    def __init__(self, features: Any, targets: Any, ridge: float = 0.0, weights: Any = "uniform") -> None:
        super().__init__(features, targets, ridge, weights)
        wrong = (np.abs(self.targets) != 1) & (self.sample_weights > 0)
        if wrong.any():
            k, j = (int(i) for i in np.argwhere(wrong)[0])
            raise InvalidInput(
                f"client {k}: label {j} is {float(self.targets[k, j])!r}: logistic labels must be "
                "exactly -1 or +1; map two classes to -1 and +1, or use Softmax for more"
            )

    def phi(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        margin = z * b
        size = xp.abs(margin)
        return (size - margin) / 2 + xp.log1p(xp.exp(-size))  # max(-margin, 0) + ...: never overflows

    def dphi(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        margin = z * b
        small = xp.exp(-xp.abs(margin))
        return -b * (xp.where(margin >= 0, small, xp.ones_like(small)) / (1.0 + small))

    def d2phi(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        small = xp.exp(-xp.abs(z))  # b**2 = 1; symmetric in the margin's sign
        return small / (1.0 + small) ** 2

    def smoothness_exact(self) -> np.ndarray:
        """Everywhere: at x = 0 every phi'' is 1/4, its supremum."""
        return np.full(self.num_clients, same_smoothness(self, Logistic))

    def structure(self) -> Structure:
        return LogisticRows(self, self.targets) if same_loss(self, Logistic) else super().structure()

    def cvxpy_loss(self, z: Any, b: np.ndarray) -> Any:
        import cvxpy as cp

        return cp.logistic(-cp.multiply(b, z))


class Huber(LinearModel):
    """f_k(x) = 1/n_k sum_j h(a_kj'x - b_kj) + ridge/2 ||x||^2; h(r) = r^2/2 or, where
    |r| > delta, delta (|r| - delta/2).

    Parameters
    ----------
    features, targets, ridge, weights : as for `LeastSquares`.
    delta : float > 0
        Half-width of the quadratic zone.

    Raises
    ------
    InvalidInput
        delta not positive and finite; whatever `LinearModel` refuses.

    Notes
    -----
    beta_k = lambda_max(A_k'A_k/n_k) + ridge always bounds the curvature. It is the exact constant where some point puts
    all residuals of the client inside the quadratic zone, which `smoothness_exact` decides; elsewhere it may be too
    large. mu_k = ridge is exact: far out along almost every ray all residuals leave the zone. The Hessian is a
    generalised one (h'' = 1 for |r| <= delta).
    """

    name = "huber"

    def __init__(
        self, features: Any, targets: Any, delta: float = 1.0, ridge: float = 0.0, weights: Any = "uniform"
    ) -> None:
        self.delta = real_number("delta", delta, above=0)
        super().__init__(features, targets, ridge, weights)

    def phi(self, z: Array, b: Array) -> Array:
        r = z - b
        inside = namespace(z).clip(r, -self.delta, self.delta)
        return inside * (r - inside / 2)

    def dphi(self, z: Array, b: Array) -> Array:
        return namespace(z).clip(z - b, -self.delta, self.delta)

    def d2phi(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        return xp.astype(xp.abs(z - b) <= self.delta, z.dtype)

    def smoothness_exact(self) -> np.ndarray:
        """Of the clients all whose residuals are inside the quadratic zone at some point."""
        if not same_smoothness(self, Huber):
            return super().smoothness_exact()
        from scipy.optimize import linprog

        exact = np.zeros(self.num_clients, dtype=bool)
        for k, n in enumerate(self.sample_counts):
            a, b = self.features[k, :n], self.targets[k, :n]
            # min t with |a_j'x - b_j| <= t: the Chebyshev fit
            cost = np.append(np.zeros(self.dim), 1.0)
            fit = linprog(
                cost, A_ub=np.block([[a, -np.ones((n, 1))], [-a, -np.ones((n, 1))]]),
                b_ub=np.concatenate([b, -b]), bounds=[(None, None)] * self.dim + [(0, None)],
            )
            # recomputed from x: the solver's own objective is not believed
            exact[k] = fit.x is not None and bool(np.abs(a @ fit.x[: self.dim] - b).max() < self.delta)
        return exact

    def structure(self) -> Structure:
        return HuberRows(self, self.targets, self.delta) if same_loss(self, Huber) else super().structure()

    def cvxpy_loss(self, z: Any, b: np.ndarray) -> Any:
        import cvxpy as cp

        return cp.huber(z - b, self.delta) / 2

    def cvxpy_split(self, variable: Any) -> Any:
        """`cvxpy_objective` as the least over u, v >= 0: h(r) is that of (r - u + v)^2/2 + delta
        (u + v), solved in half the time."""
        import cvxpy as cp

        if not same_loss(self, Huber) or type(self).cvxpy_loss is not Huber.cvxpy_loss:
            return self.cvxpy_objective(variable)
        features, targets, weights, _ = self._distinct
        up, down = cp.Variable(len(weights), nonneg=True), cp.Variable(len(weights), nonneg=True)
        loss = cp.square(features @ variable - targets[:, 0] - up + down) / 2 + self.delta * (up + down)
        return weights @ loss + self.ridge / 2 * cp.sum_squares(variable)
