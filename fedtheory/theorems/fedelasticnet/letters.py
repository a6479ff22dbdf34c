"""The letters of FedElasticNet's formulas: a round as symbols, from which the formula of a form is made by its own code."""

from contextlib import suppress
from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.notation import RULES
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants, RoundLetters
from fedtheory.theory import Letters, derived
from fedtheory.theory.judge.statement import Undefined
from fedtheory.theory.judge.symbolic import symbol, written

__all__ = ["BY_RULE", "ROUND", "definition"]

_CONSTANTS = {"m": "m", "P": "P", "beta": r"\beta", "lambda1": r"\lambda_1", "lambda2": r"\lambda_2"}
_SIGN = r"\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})"


class _Constants(ElasticConstants):
    """The constants as symbols: each theorem's kappa and kappa_0 stand for themselves."""

    @property
    def printed(self) -> tuple[Any, Any, Any]:
        kappa = symbol("kappa", r"\kappa")
        return kappa * self.P / self.m, kappa, symbol("kappa_0", r"\kappa_0")

    def _own(self, of: str) -> tuple[Any, Any, Any]:
        kappa = symbol("kappa^" + of, rf"\kappa^{of}")
        return kappa * self.P / self.m, kappa, symbol("kappa_0^" + of, rf"\kappa_0^{of}")

    theorem_a = derived(lambda v: v._own("A"))
    theorem_b = derived(lambda v: v._own("B"))
    theorem_e = derived(lambda v: v._own("E"))


def definition(of: str) -> str:
    """The formulas of kappa and kappa_0 of Theorem A, B or E, from the code that computes them."""
    constants = ElasticConstants(*(getattr(ROUND, name) for name in _CONSTANTS))
    if of == "E":
        return _definition_of_e(constants)
    _, kappa, kappa_0 = getattr(constants, f"theorem_{of.lower()}")
    return rf",\quad\kappa^{of}={written(kappa)},\ \kappa_0^{of}={written(kappa_0)}"


def _definition_of_e(constants: ElasticConstants) -> str:
    """Theorem E has one pair of constants up to lambda_2 = (2 + 2 sqrt 2) beta, and another beyond."""
    small, large = ([written(x) for x in pair[1:]] for pair in (constants.theorem_e_small, constants.theorem_e_large))
    cases = (
        rf"\begin{{cases}}{a}&\text{{for }}\lambda_2\le(2+2\sqrt2)\beta\\{b}&\text{{else}}\end{{cases}}"
        for a, b in zip(small, large, strict=True)
    )
    return "".join(rf",\quad{name}={of}" for name, of in zip((r"\kappa^E", r"\kappa_0^E"), cases, strict=True))


def _of_theorems(constants: Any, view_constants: Any) -> dict[Any, Any]:
    """The symbols of every theorem's kappa and kappa_0: symbol -> number, where it has one."""
    out: dict[Any, Any] = {}
    for of in ("printed", "theorem_a", "theorem_b", "theorem_e"):
        with suppress(Undefined):
            pairs = getattr(constants, of)[1:], getattr(view_constants, of)[1:]
            out |= dict(zip(*pairs, strict=True))
    return out


class _Round(Letters):
    """A round under one rule: the sum over the subgradients stands in the last term only."""

    def __init__(self, rule: str) -> None:
        super().__init__(_CONSTANTS | _OF_ROUND, _MEASURED)
        self.rule = rule

    constants = derived(
        lambda v: _Constants(*(getattr(v, name) for name in _CONSTANTS)),
        "the constants, with the printed kappa and kappa_0 as letters of their own",
    )
    lambda1_s = derived(
        lambda v: v.lambda1 * symbol("~s", "s_k^t"), "lambda_1 s_k, the exact subgradient"
    )
    lambda1_sign = derived(lambda v: v.lambda1 * symbol("~sign", _SIGN), "lambda_1 sign(delta_k)")

    def last_term(self, lambda1_s: Any) -> Any:
        """-(2/lambda_2) <gamma^{t-1} - theta*, (1/m) sum_k lambda_1 s_k>."""
        return -2 * self.lambda1 * self._inner(lambda1_s) / self.lambda2

    def _inner(self, lambda1_s: Any) -> Any:
        s = lambda1_s / self.lambda1
        return symbol("~inner " + s.name, rf"\langle\gamma^{{t-1}}-\theta_*,\tfrac1m\sum_k{s.latex}\rangle")

    def values(self, view: Any) -> dict[Any, Any]:
        """The letters on a round, with every theorem's constants and both inner products."""
        v = view.once(RoundLetters)
        out = super().values(v) | _of_theorems(self.constants, v.constants)
        for marker, actual in ((self.lambda1_s, v.lambda1_s), (self.lambda1_sign, v.lambda1_sign)):
            out[self._inner(marker)] = v.last_term(actual) / (-2 * v.lambda1) * v.lambda2
        return {letter: np.ravel(n) if np.ndim(n) else n for letter, n in out.items()}


_OF_ROUND = {
    "d": "d",
    "zeros": "z_t",
    "C": "C_{t-1}",
    "C_next": "C_t",
    "epsilon": r"\epsilon_t",
    "D": r"(R(\gamma^{t-1})-R(\theta_*))",
    "A": r"\|\gamma^{t-1}-\theta_*\|^2",
    "A_next": r"\mathbb E\|\gamma^t-\theta_*\|^2",
    "move": r"\mathbb E\|\gamma^t-\gamma^{t-1}\|^2",
    "h_next_sq": r"\mathbb E\|h^t\|^2",
}
_MEASURED = ("zeros", "C", "C_next", "epsilon", "D", "A", "A_next", "move", "h_next_sq")
BY_RULE = {f"{rule} rule": _Round(rule) for rule in RULES}
ROUND = BY_RULE["sign rule"]
