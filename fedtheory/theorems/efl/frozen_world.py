"""The world of EFL's residuals while the model is held at w*.

A run can only end at w* if the moves that it makes with the model held at w* cancel: while the
steps fall slowly the residuals, divided by the step, follow the recursion of a constant step at w*.
`FrozenView` is that recursion, over one period.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput
from fedtheory.messages import compressors
from fedtheory.theorems.efl import world as efl
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.compressed_world import ASKS, THREE, WITH_ST
from fedtheory.theorems.efl.feedback_world import LOOPS
from fedtheory.theorems.efl.world import clients_that_end
from fedtheory.theory import Case, Fact, word
from fedtheory.theory.draws import rows

VARIANTS = ("consistent", "literal", "text")
LONGEST = 300  # rounds until a state comes back
CLEAR = Fact("no choice of ST is a tie over the period", lambda q: q.gap > 0)


def gap_of(message: np.ndarray, k: int) -> Any:
    """A message's (d,) k-th largest magnitude less the next, which is 0 where there is none."""
    found = sorted((abs(x) for x in message), reverse=True)
    return found[k - 1] - (found[k] if k < len(found) else 0)


@dataclass
class FrozenView(efl.EFLWorld):
    """The residuals while the model stays at w*: E = 1, step 1, all active, ST both ways.

    ST sends exactly k entries.

    Attributes
    ----------
    gap : the least difference, over the period, between a magnitude that is sent and the largest that is not
    """

    kind, about, asks = "frozen", "about convergence with compression", ASKS
    accepts, method, example = given.options("L", "mu"), efl.BOTH_WAYS, efl.ST_BOTH_WAYS
    count, share = 24, 0.1
    attained = (
        ("the formulas as printed, three clients", {
            **THREE, "variant": "literal", "c": [["-14", "-5"], ["-8", "-25"], ["22", "30"]],
        }),
        ("the text of 3.1, three clients", {
            **THREE, "variant": "text", "c": [["-3", "11"], ["8", "-9"], ["-5", "-2"]],
        }),
    )  # fmt: skip

    reads: ClassVar = {**WITH_ST, "variant": word(*VARIANTS)}

    variant: str  # 'consistent', 'literal' (the formulas as printed) or 'text' (section 3.1)
    gradients: np.ndarray  # (N, d) at w*, of mean 0
    moves: np.ndarray  # (P, d) of the server's model, over one period of the residuals
    gap: Any

    def __post_init__(self) -> None:
        self.facts = frozenset({LOOPS[self.variant]})

    @classmethod
    def made(cls, weights: Any, h: Any, c: Any, q: Any, variant: str) -> Self:
        """Take the residuals from 0 to the end of the first period."""
        st, star = compressors.ST(q), efl.centre(weights, h, c)
        k, g = st.sizes(h.shape[1])[0], h * (star - c)
        method: Any = EFL(compressor=st, down_compressor=st, variant=variant)  # type: ignore[arg-type]
        clients = (star - g)[None], weights, np.ones((1, len(h)), dtype=int), 1
        state = method.init(star[None], len(h))
        state = state._replace(server_residual=0 * state.x, residuals=0 * g[None])
        seen: dict[Any, int] = {}
        moves: list[np.ndarray] = []
        gaps: list[Any] = []
        while (held := (*state.residuals.ravel(), *state.server_residual[0])) not in seen:
            if len(moves) > LONGEST:
                raise InvalidInput(
                    f"the residuals do not come back within {LONGEST} rounds: take ST with one entry"
                )
            seen[held] = len(moves)
            new = method.round(state, clients_that_end(*clients))
            moves.append(new.x[0] - star)
            left = new.server_residual[0] if variant == "consistent" else 0  # else all is added
            messages = (*(state.residuals[0] - g), moves[-1] + left)
            gaps.append(min(gap_of(m, k) for m in messages))
            state = new._replace(x=state.x)
        first = seen[held]
        return cls(variant, g, np.stack(moves[first:]), min(gaps[first:]))

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a variant and clients of curvature 1."""
        variant, n, d = str(rng.choice(VARIANTS)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
        data = {
            "variant": variant, "weights": [Fraction(1, n)] * n, "h": [[Fraction(1)] * d] * n,
            "c": rows(rng, n, d, lambda g: Fraction(int(g.integers(-7, 8)))), "q": Fraction(1, d),
        }  # fmt: skip
        return f"{variant} N={n} d={d}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> Any:
        """Raise `InvalidInput`, always: it is not made of a problem of a user's."""
        raise InvalidInput(
            "the residuals' period at w* is looked at in fractions, on instances of its own: "
            "`fedtheory replay` shows one"
        )
