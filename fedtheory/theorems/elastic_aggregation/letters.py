"""Letters of Elastic Aggregation's formulas: a round of all clients as symbols."""

from typing import Any

from fedtheory.theory import Letters
from fedtheory.theory.judge.symbolic import symbol

_MODELS = {
    "theta": r"\theta", "next": r"\theta^+", "minus": r"\theta^+",
    "elastic": r"\theta^+_{\text{elastic}}", "naive": r"\theta^+_{\text{naive}}",
}


class _Round(Letters):
    """Models enter through V, F and the factor of the contraction only."""

    theta, fedavg = "theta", "fedavg"  # the model before the round, and FedAvg's fixed point

    def step(self, x: str, sign: int = 1) -> str:
        """The model after the round, with the sign that the condition says."""
        return "next" if sign == 1 else "minus"

    def naive(self, x: str) -> str:
        """The model after a round of naive aggregation."""
        return "naive"

    def zeta(self, x: str) -> str:
        """The factors, where they are taken for the contraction of the elastic server."""
        return "elastic"

    def V(self, x: str) -> Any:
        """V of a model."""
        return symbol("~V " + x, f"V({_MODELS[x]})")

    def value(self, x: str) -> Any:
        """F of a model, where the one after the round is the elastic one."""
        return symbol("~F " + x, f"F({_MODELS['elastic' if x == 'next' else x]})")

    def factor(self, zeta: Any) -> Any:
        """rho with the elastic factors, or with 1."""
        name = "elastic" if zeta == "elastic" else "naive"
        return symbol("~rho " + name, rf"\rho_{{\text{{{name}}}}}")

    def values(self, view: Any) -> dict[Any, Any]:
        """The letters on a view."""
        after = view.step(view.theta)
        return super().values(view) | {
            self.V("theta"): view.V(view.theta), self.V("next"): view.V(after),
            self.V("minus"): view.V(view.step(view.theta, -1)),
            self.value("next"): view.value(after),
            self.value("naive"): view.value(view.naive(view.theta)),
            self.factor("elastic"): view.factor(view.zeta(view.fedavg)),
            self.factor(1): view.factor(1),
        }


ROUND = _Round({"tau": r"\tau", "eta": r"\eta", "mu": r"\mu_M", "L": "L"})
