"""The letters of FedElasticNet's formulas: a round and a run as symbols, from which the formula of a form is made by its own code."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
from fedtheory.theory.judge.record import Missing
from fedtheory.theory.judge.statement import Undefined
from fedtheory.theory.judge.symbolic import Letters, symbol, written

__all__ = ["BY_RULE", "ROUND", "RUN", "RUN_BY_RULE", "definition"]

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

    @property
    def theorem_a(self) -> tuple[Any, Any, Any]:
        return self._own("A")

    @property
    def theorem_e(self) -> tuple[Any, Any, Any]:
        return self._own("E")

    def theorem_b(self, tau: Any = 2) -> tuple[Any, Any, Any]:
        return self._own("B")


class _ConstantsOfRun(_Constants):
    """The same with kappa' for kappa P/(2m), as Theorem 3.1 prints it."""

    @property
    def printed(self) -> tuple[Any, Any, Any]:
        return 2 * symbol("kappa'", r"\kappa'"), *super().printed[1:]


def definition(of: str) -> str:
    """The formulas of kappa and kappa_0 of Theorem A, B or E, from the code that computes them."""
    constants = ElasticConstants(*(getattr(ROUND, name) for name in _CONSTANTS))
    if of == "E":
        return _definition_of_e(constants)
    _, kappa, kappa_0 = {"A": constants.theorem_a, "B": constants.theorem_b()}[of]
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
    for of in (
        lambda c: c.printed, lambda c: c.theorem_a, lambda c: c.theorem_b(), lambda c: c.theorem_e,
    ):  # fmt: skip
        with suppress(Undefined):
            out |= dict(zip(of(constants)[1:], of(view_constants)[1:], strict=True))
    with suppress(Undefined):
        out[symbol("kappa'", r"\kappa'")] = view_constants.printed[0] / 2
    return out


class _Elastic(Letters):
    """Letters of one rule of Algorithm 3."""

    _constants: type[_Constants] = _Constants

    def __init__(self, rule: str, latex: dict[str, str], measured: tuple[str, ...], zero: tuple[str, ...]) -> None:
        super().__init__(_CONSTANTS | latex, measured, zero)
        self.rule = rule

    @property
    def constants(self) -> ElasticConstants:
        """The constants, with the printed kappa and kappa_0 as letters of their own."""
        return self._constants(*(getattr(self, name) for name in _CONSTANTS))


class _Round(_Elastic):
    """A round: the sum over the subgradients stands in the last term only."""

    @property
    def lambda1_s(self) -> Any:
        """lambda_1 s_k, the exact subgradient."""
        return self.lambda1 * symbol("~s", "s_k^t")

    @property
    def lambda1_sign(self) -> Any:
        """lambda_1 sign(delta_k)."""
        return self.lambda1 * symbol("~sign", _SIGN)

    def last_term(self, lambda1_s: Any) -> Any:
        """-(2/lambda_2) <gamma^{t-1} - theta*, (1/m) sum_k lambda_1 s_k>."""
        return -2 * self.lambda1 * self._inner(lambda1_s) / self.lambda2

    def _inner(self, lambda1_s: Any) -> Any:
        s = lambda1_s / self.lambda1
        return symbol("~inner " + s.name, rf"\langle\gamma^{{t-1}}-\theta_*,\tfrac1m\sum_k{s.latex}\rangle")

    def values(self, view: Any) -> dict[Any, Any]:
        """The letters on a view, with every theorem's constants and both inner products."""
        out = super().values(view) | _of_theorems(self.constants, view.constants)
        for marker, actual in ((self.lambda1_s, view.lambda1_s), (self.lambda1_sign, view.lambda1_sign)):
            out[self._inner(marker)] = view.last_term(actual) / (-2 * view.lambda1) * view.lambda2
        return out


class _Run(_Elastic):
    """A run of T rounds."""

    _constants = _ConstantsOfRun

    def values(self, view: Any) -> dict[Any, Any]:
        """The letters on a view, with every theorem's constants; the sums without their factor lambda_1."""
        sums = {n: getattr(view, n, None) for n in self._latex if n.startswith("inner_")}
        inner = {n: v for n, v in sums.items() if not isinstance(v, Missing) and v is not None}
        own = {n: getattr(view, n) for n in self._latex if n in ("d", "T") or (n in self._measured and n not in inner)}
        constants = {n: getattr(view.constants, n) for n in _CONSTANTS}
        out = {super(_Run, self).__getattr__(n): value for n, value in (own | constants).items() if not n.startswith("inner_")}
        out |= {super(_Run, self).__getattr__(n): value / view.constants.lambda1 for n, value in inner.items()}
        return out | _of_theorems(self.constants, view.constants)

    def __getattr__(self, name: str) -> Any:
        made = super().__getattr__(name)
        return self.lambda1 * made if name.startswith("inner_") else made


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
_INNER = r"\sum_{t=1}^T\mathbb E\langle\gamma^{t-1}-\theta_*,\tfrac1m\sum_k"
_SPLIT = r"\sum_{t=1}^T\langle\mathbb E[\gamma^{t-1}]-\theta_*,\tfrac1m\sum_k\mathbb E["
_OF_RUN = {
    "d": "d",
    "T": "T",
    "zeros": r"\bar z",
    "excess": r"\mathbb E[R(\tfrac1T\sum_{t<T}\gamma^t)-R(\theta_*)]",
    "start_sq": r"\mathbb E\|\gamma^0-\theta_*\|^2",
    "C0": "C_0",
    "C0_printed": "C_0",
    "C0_true": "C_0",
    "inner_exact": _INNER + r"s_k^t\rangle",
    "inner_sign": _INNER + _SIGN + r"\rangle",
    "inner_own_sign": _INNER + _SIGN + r"\rangle",
    "inner_split": _SPLIT + r"s_k^t]\rangle",
    "inner_split_sign": _SPLIT + _SIGN + r"]\rangle",
    "inner_split_own_sign": _SPLIT + _SIGN + r"]\rangle",
}
_MEASURED_RUN = tuple(name for name in _OF_RUN if name not in ("d", "T"))

RULES = ("sign", "true-gradient")
BY_RULE = {f"{rule} rule": _Round(rule, _OF_ROUND, _MEASURED, ("noise_D", "noise_A", "noise_sq")) for rule in RULES}
RUN_BY_RULE = {f"{rule} rule": _Run(rule, _OF_RUN, _MEASURED_RUN, ("noise",)) for rule in RULES}
ROUND, RUN = BY_RULE["sign rule"], RUN_BY_RULE["sign rule"]
