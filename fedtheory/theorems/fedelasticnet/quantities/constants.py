"""The constants of Theorems 3.1 and B.1, and of their repairs."""

from dataclasses import dataclass
from typing import Any

from fedtheory.theory.fields import derived
from fedtheory.theory.judge.statement import Undefined

__all__ = ["ElasticConstants"]


@dataclass(frozen=True)
class ElasticConstants:
    """The constants of Theorems 3.1/B.1 and of their repairs; all numbers of one type.

    With c = 25, a = 10 (lambda2 + beta)/(lambda2 (lambda2^2 - 25 beta^2)) these are the paper's; Theorems A and B have their own.
    """

    m: Any
    P: Any
    beta: Any
    lambda1: Any
    lambda2: Any

    def family(self, lead: Any, c: Any) -> tuple[Any, Any, Any]:
        """(a, kappa, kappa_0) with a = kappa P/m = lead (l2 + b)/(l2 (l2^2 - c b^2)) and
        kappa_0 = (2/l2) (l2^2 - c b l2 - 2 c b^2)/(l2^2 - c b^2)."""
        b, l2 = self.beta, self.lambda2
        core = l2 * l2 - c * b * b
        if core == 0:
            raise Undefined(f"kappa and kappa_0 divide by lambda_2^2 - {c} beta^2, which is 0 here: take another lambda_2")
        a = lead * (l2 + b) / (l2 * core)
        return a, a * self.m / self.P, 2 * (core - c * b * l2 - c * b * b) / (l2 * core)

    printed = derived(lambda v: v.family(10, 25), "kappa P/m, kappa, kappa_0 of Theorem 3.1")
    theorem_a = derived(lambda v: v.family(3, 9), "of Theorem A (true-gradient rule)")

    def theorem_b(self, tau: Any = 2) -> tuple[Any, Any, Any]:
        """Of Theorem B (sign rule)."""
        return self.family(3, 9 + 6 * tau)

    @property
    def theorem_c(self) -> tuple[Any, Any, Any]:
        """Of strongly convex clients, in Theorem C."""
        b, l2 = self.beta, self.lambda2
        core = l2 * l2 - 21 * b * b
        a = 3 * (l2 + 2 * b) / (l2 * core)
        return a, a * self.m / self.P, 2 * (core - 21 * b * l2 - 42 * b * b) / (l2 * core)

    @property
    def theorem_e_small(self) -> tuple[Any, Any, Any]:
        """Of Theorem E up to lambda_2 = (2 + 2 sqrt 2) beta."""
        b, l2 = self.beta, self.lambda2
        a = (2 * b + 3 * l2) / (l2 * l2 * (2 * b + l2))
        return a, a * self.m / self.P, 4 * l2 / (2 * b + l2) ** 2

    @property
    def theorem_e_large(self) -> tuple[Any, Any, Any]:
        """Of Theorem E beyond."""
        if self.beta == 0:
            raise Undefined("kappa of Theorem E divides by beta, which is 0 here: the losses have no curvature")
        a = 1 / (2 * self.beta * self.lambda2)
        return a, a * self.m / self.P, 2 / self.lambda2

    @property
    def theorem_e(self) -> tuple[Any, Any, Any]:
        """Of Theorem E (true-gradient rule): the best of this potential for one participant."""
        near = self.lambda2 * self.lambda2 <= 4 * self.beta * (self.lambda2 + self.beta)
        return self.theorem_e_small if near else self.theorem_e_large
