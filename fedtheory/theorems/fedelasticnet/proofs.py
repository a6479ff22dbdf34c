r"""The proof of FedElasticNet's Theorem 3.1 as a chain of steps: printed, and repaired under each rule.

With D = R(gamma^{t-1}) - R*, F = kappa P lambda_2^2/(10 m) and V_t = ||gamma^t - theta*||^2 + kappa C_t, one round is

    [Lemma B.4] + kappa [(28)] + [(29)] + F [Lemma B.5]  =  [kappa_0 D <= V_{t-1} - E V_t + floor + last term],

because (1 + b) + 2 beta^2 kappa P/m = F (1 - 5 b^2) with b = beta/lambda_2, 10 F/lambda_2^2 = kappa P/m, and
2/lambda_2 - 5 beta kappa P/m = kappa_0. Summed over t, divided by kappa_0 T, what is left are V_T, which the proof drops, and what
Jensen's inequality gives away. So the slack of the theorem is exactly the sum of these, each with its weight.

Under the sign rule (28) is false, and the repaired proof takes its place from Theorem B: with tau = 8/3 and 0.3 of the old C_{t-1},

    E C_t <= C_{t-1} + (P/m) [1.1 (2 beta^2 epsilon + 4 beta D) - 0.3 C_{t-1} + 0.4125 lambda_1^2 z],

with Lemma B.5 without its floor: again (1 + b) + 2.2 beta^2 kappa P/m = F (1 - 3 b^2), and 3 F/lambda_2^2 = 0.3 kappa P/m.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.one_round import letters
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import RoundLetters
from fedtheory.theorems.fedelasticnet.statements.lemmas import bend_with, drift_lines
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import Letters
from fedtheory.theory import Sides
from fedtheory.theory.judge.proof import Proof, Step
from fedtheory.theory.judge.statement import le
from fedtheory.theory.proofs import course, replayed
from fedtheory.theory.rounds.forms import Claimed, reduced
from fedtheory.theory.rounds.judging import noisy
from fedtheory.theory.rounds.measured import RoundQuantities

__all__ = ["PROOFS"]


def _letters(q: Any) -> Any:
    return q.once(Letters)


def _at_end(q: Any, value: Any) -> Any:
    """A letter at the horizon: its expectation, or of scenarios that are drawn its numbers (S,)."""
    last = np.asarray(value)[-1]
    return last if q.sampled else q.expectation(last)


def _last_sum(q: Any, *last: Any) -> Any:
    return _at_end(q, _letters(q).last(*last))


# --- weights --------------------------------------------------------------------------------------
def _per_round(q: Any) -> Any:
    """1/(kappa_0 T): what the sum over the rounds is divided by."""
    return 1 / (_letters(q).constants.printed[2] * q.T)


def _kappa(q: Any) -> Any:
    return _letters(q).constants.printed[1] * _per_round(q)


def _drift(q: Any) -> Any:
    """F/(kappa_0 T), of Lemma B.5."""
    c = _letters(q).constants
    return c.printed[0] * c.lambda2 * c.lambda2 / 10 * _per_round(q)


def _whole(q: Any) -> Any:
    return 1


# --- what stands at the end -----------------------------------------------------------------------
_step = partial(Step, over="end", weight=_whole)


def _last_potential(q: Any) -> Sides:
    v = _letters(q)
    moved, stored = q.sq(v.gammas[-1] - q.x_star), q.over_clients(q.sq(q.state.stored[-1] - v.at_star))
    return le(0 * moved, moved, v.constants.printed[1] * stored)


def _jensen(q: Any) -> Sides:
    v = _letters(q)
    noise = q.rounding(np.max(abs(q.values(v.gamma))))
    return le(_at_end(q, v.excess), _at_end(q, v.mean_excess), noise=noise)


def _all_coordinates(q: Any) -> Sides:
    """0.4125 z is paid for, the theorem has d/2."""
    v, c = _letters(q), _letters(q).constants
    unit, zeros = c.printed[0] * c.lambda1 * c.lambda1 / c.printed[2], _at_end(q, v.zeros)
    return le(33 * unit * zeros / 80, unit * v.d / 2 + 0 * zeros)


def _undivided(q: Any) -> Sides:
    return le(_last_sum(q, "sign") / _letters(q).constants.printed[2], _last_sum(q, "sign"))


def _unsquared(q: Any) -> Sides:
    """kappa C_0/(kappa_0 T), with and without the square."""
    v, first = _letters(q), _kappa(q)
    return le(*(first * _at_end(q, C_0 + 0 * v.excess) for C_0 in (v.C_0, v.C_0_unsquared)))


# --- rounds ---------------------------------------------------------------------------------------
def _in_a_round(label: str, of: Callable[[RoundLetters], Sides]) -> Callable[[RoundQuantities], Sides]:
    """The sides of a step of its own, as those of a form are judged."""
    return lambda view: noisy(lambda v: reduced(v, Claimed(label, of(letters(v)))), view, label)


def _of_28(v: RoundLetters) -> Sides:
    """(28) under the sign rule, with tau = 8/3 and 0.3 of C_{t-1}."""
    share, b = v.P / v.m, v.beta
    floor = share * 33 * v.lambda1 * v.lambda1 * v.zeros / 80
    kept = v.C - 3 * share * v.C / 10
    return le(v.C_next, kept, share * 22 * b * b * v.epsilon / 10, share * 44 * b * v.D / 10, floor)


_OF_28 = (
    r"C_t\le(1-\tfrac{3P}{10m})C_{t-1}+\tfrac Pm\big[\tfrac{11}{10}(2\beta^2\epsilon_t+4\beta(R(\gamma^{t-1})-R(\theta_*)))"
    r"+\tfrac{33}{80}\lambda_1^2z_t\big]"
)
_LAST = r"-\tfrac{2\lambda_1}{\lambda_2T}\sum_t\langle\gamma^{t-1}-\theta_*,\cdot\rangle"


def _line(label: str, words: str, id: str, form: str, weight: Any, **more: Any) -> Step:
    return Step(label, words, f"fedelasticnet/{id}", form, weight, **more)


def _with_s(id: str) -> str:
    """The printed formula of a line, with the exact subgradient for the sign of theta_tilde, or of theta_k^t."""
    latex = FILE[id].statement.form("printed").latex
    for model in (r"\tilde\theta_k^t", r"\theta_k^t"):
        latex = latex.replace(rf"\mathrm{{sign}}({model}-\theta^{{t-1}})", "s_k^t")
    return latex


def _lines_of_b4(form: str, subgradient: str) -> tuple[Step, ...]:
    """Lemma B.3, (32) and (33), of which the last has a subgradient of one's own."""
    bent = _in_a_round("(33)", lambda v: bend_with(v, getattr(v, subgradient)))
    more: dict[str, Any] = {"part_of": "Lemma B.4"}
    return (
        _line("Lemma B.3", "what Algorithm 3 makes gamma do in expectation; (32) puts it in", "lemma-b3", form, None),
        _line(
            "(32)", "the square of gamma's distance from the optimum is expanded, and Lemma B.3 put in",
            "eq-32", form, _per_round, **more,
        ),
        _line(
            "(33)", "convexity and smoothness of each client, (15), turn the gradients into values of the losses",
            "eq-33", "printed", _per_round, sides=bent, **more,
            formula=_with_s("eq-33") if form == "repaired" else "",
        ),
    )  # fmt: skip


_WORDS_OF_B5 = {
    "eq-36": "the distance of the clients' models is written by the optimality condition (11)",
    "eq-37": "the square of a sum of five is at most five times the sum of the squares, (17)",
    "eq-38": "signs are at most 1 on every coordinate, and ||h||^2 at most C, (27)",
    "eq-39": "smoothness, and (16) for the gradients at gamma",
}


def _lines_of_b5(form: str) -> Iterator[Step]:
    """(36)-(39), repaired with the exact subgradient, or as printed."""
    for id, words in _WORDS_OF_B5.items():
        made = _line(f"({id[3:]})", words, id, form if id == "eq-36" else "printed", _drift, part_of="Lemma B.5")
        if form == "repaired" and id in ("eq-37", "eq-38"):
            own = _in_a_round(made.label, lambda v, id=id: drift_lines(v, v.lambda1_s)[id])  # type: ignore[misc]
            made = replace(made, sides=own, formula=_with_s(id))
        yield made


_28 = _line("(28)", "the error C of the stored gradients after a round, in terms of that before", "eq-28", "printed", _kappa)
_29 = _line(
    "(29)", "gamma moves no further than the clients' models are away from it, by Jensen's inequality", "eq-29",
    "printed", _per_round,
)  # fmt: skip
_B6 = _line(
    "Theorem B.6", "the lemmas added up: one round of the potential V = ||gamma - theta*||^2 + kappa C", "theorem-b6",
    "repaired", None,
)  # fmt: skip
_END = (
    _step(
        "last potential", "the potential after the last round is not negative, and is dropped",
        weight=_per_round, sides=_last_potential, formula=r"0\le\mathbb E\|\gamma^T-\theta_*\|^2+\kappa C_T",
        where="where the potential after the last round is dropped",
    ),
    _step(
        "Jensen", "the excess of the mean of the gammas is at most the mean of their excesses", sides=_jensen,
        formula=r"\mathbb E[R(\tfrac1T\sum_{t<T}\gamma^t)-R(\theta_*)]"
        r"\le\tfrac1T\sum_{t<T}\mathbb E[R(\gamma^t)-R(\theta_*)]",
        where="in Jensen's inequality",
    ),
)  # fmt: skip


# --- the proofs -----------------------------------------------------------------------------------
def _proof(
    theorem: str, form: str, rule: str, steps: tuple[Step, ...], note: str, witness: str = ""
) -> Proof:
    file = f"fedelasticnet-{theorem}-{witness or 'printed'}-{rule}"
    return Proof(f"fedelasticnet/{theorem}", form, steps, course, replayed, (rule,), file, note)


def _printed(theorem: str, form: str, *ends: Step) -> Iterator[Proof]:
    as_it_stands = "the lemmas added up; as it stands, d is missing, which the next line has again"
    steps = (
        *_lines_of_b4("printed", "lambda1_sign"), _28, _29, *_lines_of_b5("printed"),
        replace(_B6, words=as_it_stands, form="printed"), *_END, *ends,
    )  # fmt: skip
    note = "the printed proof, line by line, and what its last lines change without a reason"
    for rule in ("sign", "true-gradient"):
        yield _proof(theorem, form, rule, steps, note, form.replace(", ", "-").replace(" ", "-"))


def _swap(label: str, words: str, before: tuple[Any, ...], after: tuple[Any, ...]) -> Step:
    return _step(
        label, words, sides=lambda q: le(_last_sum(q, *before), _last_sum(q, *after)),
        formula=_LAST + r"\le" + _LAST + r"^{\prime}",
    )  # fmt: skip


_UNDIVIDED = _step(
    "division by κ₀T", "the last term is left undivided", sides=_undivided,
    formula=r"-\tfrac1{\kappa_0}\cdot" + _LAST[1:] + r"\le" + _LAST,
)  # fmt: skip
_SQUARE = _step(
    "C₀ not squared", "C_0 of (20) is a mean of squares, the theorem's is a mean of norms", sides=_unsquared,
    formula=r"\tfrac\kappa{\kappa_0T}\cdot\tfrac1m\sum_k\|g_k^0-\nabla L_k(\theta_*)\|^2\le"
    r"\tfrac\kappa{\kappa_0T}\cdot\tfrac1m\sum_k\|g_k^0-\nabla L_k(\theta_*)\|",
)  # fmt: skip
_ANCHOR = _swap(
    "anchor θₖ", "theta_tilde is anchored at theta_k^{t-1}, and not at theta^{t-1} as in (19)", ("sign",), ("own_sign",)
)
_SPLIT = partial(
    _swap, "E of the sign only", "the expectation is taken of the sign only, with gamma at its mean"
)

PROOFS = (
    *_printed(
        "theorem-3.1", "printed", _UNDIVIDED, _SQUARE, _ANCHOR, _SPLIT(("own_sign",), ("own_sign", True))
    ),
    *_printed("theorem-3.1", "printed, whole expectation", _UNDIVIDED, _SQUARE, _ANCHOR),
    _proof(
        "theorem-3.1", "repaired", "sign", (
            *_lines_of_b4("repaired", "lambda1_s"),
            _line(
                "(28), repaired",
                "the stored gradients are off by up to lambda_1 on coordinates that stay: the floor pays for these",
                "eq-28", "", _kappa, sides=_in_a_round("(28), repaired", _of_28), formula=_OF_28,
            ),
            _29,
            _line(
                "Lemma B.5, sharpened",
                "the clients' models are near gamma: no floor is needed here, and 3 stands for 5",
                "lemma-no-l1-floor", "repaired", _drift,
            ),
            _B6,
            _step(
                "floor for all d", "the floor counts all d coordinates, where only those that stay need one",
                sides=_all_coordinates,
                formula=r"\tfrac{33}{80}\kappa\tfrac Pm\tfrac{\lambda_1^2\bar z}{\kappa_0}"
                r"\le\tfrac12\kappa\tfrac Pm\tfrac{\lambda_1^2d}{\kappa_0}",
            ),
            *_END,
        ),
        "under the sign rule (28) is false: the proof is that of Theorem B, with tau = 8/3 and the paper's kappa",
    ),
    _proof(
        "theorem-3.1", "repaired", "true-gradient",
        (*_lines_of_b4("repaired", "lambda1_s"), _28, _29, *_lines_of_b5("repaired"), _B6, *_END),
        "the printed proof, with the exact subgradient s for the sign",
    ),
    *_printed("theorem-b1", "printed", _UNDIVIDED, _SQUARE, _SPLIT(("sign",), ("sign", True))),
)  # fmt: skip
