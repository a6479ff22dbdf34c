"""The letters of FedMLS's formulas: a run as symbols, from which the formula of a form is made by its own code."""

from typing import Any

from fedtheory.theorems.fedmls.constants import MLSConstants
from fedtheory.theory import Letters

_CONSTANTS = {
    "K": "K", "lam": r"\lambda", "D": r"\tilde D", "N": "N", "G_sq": "G^2", "joint_G_sq": "G^2",
    "sigma_sq": r"\sigma^2", "line_4_G_sq": "G^2", "line_4_sigma_sq": r"\sigma^2",
    "distance_sq": r"\|x_0-x^*\|^2", "total_steps": r"\sum_kT_k",
}  # fmt: skip


class _Constants(Letters):
    """The constants of a run; their bounds are those of `MLSConstants`."""

    theorem_1 = MLSConstants.theorem_1


class _Run(Letters):
    """A run."""

    constants = _Constants(_CONSTANTS, ("D", "distance_sq"))

    def constant(self, value: Any) -> Any:
        """The number itself."""
        return value

    decimal = constant  # written with its digits

    def values(self, view: Any) -> dict[Any, Any]:
        """The letters on a view, with its constants."""
        return super().values(view) | self.constants.values(view.constants)


RUN = _Run(
    {"last_excess": r"\mathbb E F(x_K)-F(x^*)", "epsilon": r"\epsilon", "joint_epsilon": r"\epsilon", "lam": r"\lambda"},
    ("last_excess",), zero=("noise",),
)


class _Orders(Letters):
    """Rounds and local steps for one accuracy."""

    def entry(self, value: Any) -> Any:
        """The number itself."""
        return value


ORDERS = _Orders(
    {
        "K": "K", "total": r"\sum_{k\le K}T_k", "product": "P",
        "unit": r"\big(4+\tfrac{\sigma^2}{G^2}\big)P", "noise": r"\tfrac{\sigma^2}{G^2}",
    },
    ("product", "unit", "noise", "total"),
)
