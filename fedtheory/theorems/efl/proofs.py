r"""The proof of EFL's Theorem 1 as a chain of steps, printed and repaired.

With a_tau = E||w_tau - w*||^2 and U_tau the bound at tau, y = tau E + gamma and
rho_tau = 1 - 4E/(y + E), steps 1 to 6 add up to

    E a_{tau+1} <= rho_tau a_tau + b_tau/(y + E)^2 + r_tau J_tau/(y + E),

and U_tau - a_tau =: e_tau has e_0 = 0 and e_{tau+1} = rho_tau e_tau + (slack of steps 1 to 6, of
J_tau <= J, of the induction). So a slack in round tau arrives at the end with the weight
rho_{tau+1} ... rho_{T-1}, and the slack of the theorem is their exact sum. As G and sigma_k bound
expectations over the state, steps 1 and 6 are claimed in the mean over the states.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtheory.participation.coefficients import SCHEMES
from fedtheory.theorems.efl import theorem_1_proof as sides
from fedtheory.theorems.efl.courses import EFLRound, course, replayed
from fedtheory.theorems.efl.quantities.run import EFLConstants, EFLRun
from fedtheory.theorems.efl.quantities.step import StepState
from fedtheory.theorems.efl.theorem_1_proof import carried, total_drift
from fedtheory.theory import Sides
from fedtheory.theory.judge.proof import Proof, Step
from fedtheory.theory.judge.statement import le


def _arrives(run: EFLRun) -> np.ndarray:
    """rho_{tau+1} ... rho_{T-1} for every tau: (T,)."""
    c = run.constants
    rho = 1 - 4 * c.E / c.y[1:]
    out = [rho[0] * 0 + 1]
    for factor in rho[:0:-1]:
        out.append(out[-1] * factor)
    return np.array(out[::-1])


# --- each round: sums over the local steps, expectations given the state --------------------------
def _summed(
    compare: Callable[[StepState], Sides], scale: Callable[[StepState], Any] = lambda v: 1
) -> Callable[[EFLRound], Sides]:
    """A comparison (O, P, E) or (O, P) of every outcome, in expectation and summed over the local steps."""

    def of(round: EFLRound) -> Sides:
        found = [compare(v) for v in round.states]
        pairs = [
            [scale(v) * np.sum(v.over_all(x)) for x in (s.lhs, s.rhs, s.scale)]
            for v, s in zip(round.states, found, strict=True)
        ]
        return _made(round, pairs, found[0].relation)

    return of


def _made(round: EFLRound, rows: list[list[Any]], relation: Any = "<=") -> Sides:
    exact = round.states[0].w0.dtype == object
    lhs, rhs, scale = (np.array(column, dtype=object if exact else float) for column in zip(*rows, strict=True))
    return Sides(
        lhs, rhs, scale, relation, 0 if exact else np.array([v.rounding for v in round.states]), (), (lhs, rhs)
    )


def _by_state(of: Callable[[Any, int, StepState], tuple[Any, Any]]) -> Callable[[EFLRound], Sides]:
    """Both sides at each state, from the run's constants and the round."""

    def sides_of(round: EFLRound) -> Sides:
        pairs = [of(round.constants, round.tau, v) for v in round.states]
        return _made(round, [[left, right, abs(left) + abs(right)] for left, right in pairs])

    return sides_of


def _noise(c: EFLConstants, tau: int, v: StepState) -> tuple[Any, Any]:
    """Step 1 with the run's sigma_k."""
    after, before = ((x * v.mass[:, None]).sum() for x in sides.noise(v).terms[:2])
    return after, before + v.eta**2 * (v.law.moments.p2s * c.sigma_sq).sum()


def _drift(c: EFLConstants, tau: int, v: StepState) -> tuple[Any, Any]:
    """Step 6 with the run's G."""
    return total_drift(v).lhs[0], v.eta**2 * (c.B()[tau] - c.noise_term[tau] - c.gap_term[tau])


def _bias(c: EFLConstants, tau: int, v: StepState) -> tuple[Any, Any]:
    both = sides.bias_at_start(v)
    return both.lhs[0], both.rhs[0]


# --- all rounds: constants of the run -------------------------------------------------------------
def _largest_j(run: EFLRun) -> Sides:
    """r_tau J_tau/(y + E) <= r_tau J/(y + E)."""
    c = run.constants
    share = c.r / c.y[1:]
    return le(share * c.J_t, share * c.J)


def _induction(run: EFLRun) -> Sides:
    """The bound at tau, put through the recursion, is at most that at tau + 1."""
    return le(*carried(run.constants, np.arange(run.constants.T)))


# --- the end --------------------------------------------------------------------------------------
def _of(c: EFLConstants, reading: str) -> tuple[Any, Any]:
    """gamma^2 ||w_0 - w*||^2/y^2, and the noise with this reading of the bracket over y^2."""
    return c.gamma**2 * c.start_sq / c.y[-1] ** 2, c.noise_sum(c.B(reading))[-1] / c.y[-1] ** 2


def _step(number: int, label: str, words: str, form: str, compare: Any, **more: Any) -> Step:
    part = f"step {number}" if number in (2, 5) else ""
    name = f"step {number}, {label}" if label else f"step {number}"
    return Step(
        name, words, f"efl/theorem-1-step-{number}", form, _arrives, compare, part_of=part, **more
    )


def _end(label: str, words: str, of: Callable[[Any], tuple[Any, Any]], formula: str) -> Step:
    """A comparison of the run's constants, the same for every scenario."""
    return Step(
        label, words, weight=lambda run: 1, sides=lambda run: le(*of(run.constants)), over="end", formula=formula
    )  # fmt: skip


_STEPS = (
    _step(1, "noise", "one local step: the noise of the mini-batches is set apart", "repaired",
          _by_state(_noise), in_mean=True),
    _step(2, "Jensen", "the square of the clients' mean gradient, by Jensen's inequality with the "
          "weights p^k", "repaired", _summed(sides.gradient, lambda v: v.eta**2)),
    _step(2, "smooth", "a gradient's square is at most 2 L times the gap of a smooth loss",
          "smoothness",
          _summed(lambda v: sides.gradient(v, smooth=True), lambda v: v.eta**2 * v.theta)),
    _step(3, "", "the inner product with the gradient, by convexity of each client and by Young's "
          "inequality", "repaired", _summed(sides.inner)),
    _step(4, "", "the distance of the local models from the optimum, in terms of that of the "
          "round's start", "repaired", _summed(sides.contraction)),
    _step(5, "values", "the function values of all local steps, expanded at the round's start",
          "repaired", _summed(sides.from_start)),
    _step(5, "mean", "in expectation what is left at the start is the bias of who takes part",
          "expectation", _by_state(_bias)),
    _step(6, "", "how far the clients drift in a round, with G for the size of every gradient",
          "repaired", _by_state(_drift), in_mean=True),
    Step("largest J", "J is the largest of the rounds' own", weight=_arrives, sides=_largest_j,
         over="rounds", formula=r"\tfrac{r_\tau J_\tau}{(\tau+1)E+\gamma}\le\tfrac{r_\tau J}{(\tau+1)E+\gamma}"),
    _step(7, "induction", "the bound of one round is carried to the next", "induction", _induction,
          over="rounds", where="in the induction of step 7"),
)  # fmt: skip
_PARTS = (
    r"\gamma^2\|\omega_0-\omega^*\|^2",
    r"(\tfrac{16E}\mu)^2\sum_{t<T}\tfrac{\mathbb E[B_t]}{S_t^2}",
)
_ENDS = (
    _end("bracket of B", "(sum p - 2) is printed, where its positive part is needed",
         lambda c: (_of(c, "positive part")[1], _of(c, "added")[1]),
         r"\theta(\sum p_k-2)_+\sum p_ks^k\le\theta(\sum p_k-2)+\sum p_ks^k"),
    _end("max for the sum", "C is printed as the larger one of two parts, and the induction adds "
         "them up", lambda c: (sum(_of(c, "added")), max(_of(c, "added"))),
         "+".join(_PARTS) + r"\le\max\{" + ",".join(_PARTS) + r"\}"),
    _end("r_t as worded", "r_t is 1 where participation differs, and is printed the other way "
         "round", lambda c: tuple(c.H(flipped)[-1] * c.J / c.y[-1] for flipped in (False, True)),
         r"H_T=\#\{t:\text{the ratios differ}\}\le\#\{t:\text{the ratios are equal}\}"),
    _end("D_k in J", "D_k is printed in the denominator of J",
         lambda c: tuple(c.H(True)[-1] * J / c.y[-1] for J in (c.J, c.J_printed)),
         r"\tfrac{32E\sum_k\mathbb E[p_ks^k]D_k}{\mu S}"
         r"\le\sum_k\tfrac{32E\,\mathbb E[p_ks^k]}{(D_k/\mu)S}"),
)  # fmt: skip


_PROOFS = (
    (
        "printed", (*_STEPS, *_ENDS),
        "the steps of the repaired proof, and what the printed statement has in the place of "
        "its end",
    ),
    (
        "repaired", _STEPS,
        "a slack in round t arrives at the end times the factors 1 - 4E/(tE + gamma) of the "
        "rounds after it",
    ),
)  # fmt: skip
PROOFS = tuple(
    Proof(
        "efl/theorem-1", form, steps, course, replayed, (scheme,),
        f"efl-theorem-1-printed-{scheme.lower()}", note,
    )
    for form, steps, note in _PROOFS
    for scheme in SCHEMES
)
