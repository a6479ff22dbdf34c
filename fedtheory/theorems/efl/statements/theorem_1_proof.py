"""The seven steps of the proof of EFL's Theorem 1, each for one round from given states, everything possible enumerated.

Fix a round, eta = eta_tau, w_0 its state, alpha_i^k = 1{i < s_k}, wbar_i = w_0 + sum_k p_k (w_{min(i, s_k)}^k - w_0): then
wbar_{i+1} = wbar_i - eta sum_k p_k alpha_i^k g_i^k, and wbar_E is the next state. Steps 2 to 4 hold for every outcome, step 1 given
(p, s), steps 5 to 7 in expectation. Only step 1, and what is sharpened in step 7, asks how the clients' mini-batches
are correlated.
"""

from __future__ import annotations

from typing import Any

from fedtheory.theorems.efl.notation import statement
from fedtheory.theorems.efl.quantities.run import UNCORRELATED
from fedtheory.theorems.efl.quantities.step import EQUAL
from fedtheory.theorems.efl.statements import theorem_1_proof_sides as sides
from fedtheory.theorems.efl.statements.theorem_1 import ASSUMPTIONS, HOLDS, VIOLATED
from fedtheory.theory.judge.statement import form

__all__ = ["STATEMENTS"]


def _at_states(compare: Any, **options: Any) -> Any:
    return lambda v: v.each(lambda state: compare(state, **options))


def _step(number: int, title: str, *forms: Any) -> Any:
    return statement(
        f"theorem-1-step-{number}", title, f"proof of Theorem 1, step {number}", *forms, assumptions=ASSUMPTIONS,
        kind="step",
        wbar_i="StepState.wbar", alpha_i="StepState.alpha",
    )  # fmt: skip


def _form(name: str, latex: str, compare: Any, *mutants: Any, kind: str = "step", **more: Any) -> Any:
    wrap = _at_states if kind == "step" else (lambda f, **o: lambda v: f(v, **o))
    options = more.pop("options", {})
    wrong = tuple((text, wrap(compare, **(options | changed))) for text, changed in mutants)
    return form(name, latex, wrap(compare, **options), more.pop("established", HOLDS), *wrong, kind=kind, **more)


STATEMENTS = (
    _step(
        1,
        "noise",
        _form(
            "repaired",
            r"\mathbb E\|\bar w_{i+1}-w^*\|^2\le\mathbb E\|\bar w_i-w^*-\eta\bar g_i\|^2+\eta^2\sum_kp_k^2\alpha_i^k\sigma_k^2",
            sides.noise,
            ("without the noise term", {"with_noise": 0}),
            ("nine tenths of the noise term", {"with_noise": 0.9}),
            needs=(UNCORRELATED,),
            note="mini-batches of different clients uncorrelated given the past of all of them",
            proof="docs/efl.md#the-proof",
        ),
        _form(
            "any correlation",
            r"\mathbb E\|\bar w_{i+1}-w^*\|^2\le\mathbb E\|\bar w_i-w^*-\eta\bar g_i\|^2"
            r"+\eta^2\sum_k\tfrac{p_k^2}{p^k}\alpha_i^k\sigma_k^2",
            sides.noise,
            ("without the noise term", {"with_noise": 0}),
            ("nine tenths of the noise term", {"with_noise": 0.9}),
            ("p_k^2 for p_k^2/p^k", {"correlated": False}),
            options={"correlated": True},
            note="Cauchy-Schwarz with the weights p^k; what stays needed is that the noise has mean zero given the "
            "past of all clients",
            proof="docs/efl.md#the-proof",
        ),
    ),
    _step(
        2,
        "the aggregated gradient",
        _form(
            "repaired",
            r"\|\bar g_i\|^2\le\theta\sum_kp_k\alpha_i^k\|\nabla F_k(w_i^k)\|^2",
            sides.gradient,
            ("theta = 1/2", {"theta": 0.5}),
            ("theta = 9/10", {"theta": 0.9}),
            note="Jensen with the weights p^k",
            proof="docs/efl.md#the-proof",
        ),
        _form(
            "smoothness",
            r"\sum_kp_k\alpha_i^k\|\nabla F_k(w_i^k)\|^2\le2L\sum_kp_k\alpha_i^k(F_k(w_i^k)-F_k^*)",
            sides.gradient,
            ("L for 2L", {"factor": 1}),
            ("nine tenths of 2L", {"factor": 1.8}),
            options={"smooth": True},
            proof="docs/efl.md#the-proof",
        ),
    ),
    _step(
        3,
        "the inner product",
        _form(
            "repaired",
            r"-2\eta\langle\bar w_i-w^*,\bar g_i\rangle\le\sum p\alpha\|\bar w_i-w_i^k\|^2+2L\eta^2\sum p\alpha(F_k(w_i^k)-F_k^*)"
            r"-2\eta\sum p\alpha(F_k(w_i^k)-F_k(w^*))-\eta\mu\sum p\alpha\|w_i^k-w^*\|^2",
            sides.inner,
            ("twice the strong convexity", {"convex": 2}),
            ("eleven tenths of the strong convexity", {"convex": 1.1}),
            ("nine tenths of the drift", {"drift": 0.9}),
            proof="docs/efl.md#the-proof",
        ),
    ),
    _step(
        4,
        "the contraction",
        _form(
            "repaired",
            r"-\eta\mu\sum p\alpha\|w_i^k-w^*\|^2\le-\tfrac14\eta\mu\sum p\alpha\|w_0-w^*\|^2+\tfrac12\eta\mu\sum p\alpha"
            r"\|\bar w_i-w_0\|^2+\eta\mu\sum p\alpha\|w_i^k-\bar w_i\|^2",
            sides.contraction,
            ("2 for 1/4", {"quarter": 2}),
            proof="docs/efl.md#the-proof",
        ),
    ),
    _step(
        5,
        "function values, expanded at w_0",
        _form(
            "repaired",
            r"\sum_{i,k}p\alpha[2L(1+\theta)\eta^2(F_k(w_i^k)-F_k^*)-2\eta(F_k(w_i^k)-F_k(w^*))]\le-\gamma'(1-\eta L)\sum_kp_ks_k"
            r"(F_k(w_0)-F_k(w^*))+2(2+\theta)L\eta^2\sum p_ks_kD_k+\sum_{i,k}p\alpha\|w_i^k-w_0\|^2",
            sides.from_start,
            ("without the drift", {"with_drift": 0}),
            note="eta <= 1/(2(1+theta)L) by the second entry of gamma",
            proof="docs/efl.md#the-proof",
        ),
        _form(
            "expectation",
            r"-\gamma'(1-\eta L)\sum_k\mathbb E[p_ks_k](F_k(w_0)-F_k(w^*))\le2\eta r\sum_k\mathbb E[p_ks_k]D_k",
            sides.bias_at_start,
            ("without J", {"with_gap": 0}),
            note="r = 0 where E[p s]/p^k is the same for all k: the sum is then c (F(w_0) - F(w*))",
            proof=(
                "0 <= gamma' (1 - eta L) <= 2 eta and F_k(w_0) - F_k(w*) >= -D_k; where E[p s] = c"
                " p^k the sum is c (F(w_0) - F(w*)) >= 0"
            ),
        ),
        _form(
            "sharpened",
            r"-\gamma'(1-\eta L)\sum_k\mathbb E[p_ks_k](F_k(w_0)-F_k(w^*))\le2\eta\sum_k(\mathbb E[p_ks_k]-cp^k)D_k,\ "
            r"c=\min_k\mathbb E[p_ks_k]/p^k",
            sides.bias_sharpened,
            ("without J", {"with_gap": 0}),
            proof="as in `expectation`, after c (F(w_0) - F(w*)) >= 0 is taken off the sum",
        ),
        _form(
            "expanded at wbar_i",
            r"\mathbb E\sum_{i,k}p_k\alpha_i^k(F_k(\bar w_i)-F_k(w^*))\ge0\text{ where }\mathbb E[p_ks_k]\propto p^k",
            sides.expanded_at_wbar,
            established=VIOLATED,
            needs=(EQUAL,),
            note="wbar_i is correlated with (p, s), so that the expectation does not factor; w_0 is not",
        ),
    ),
    _step(
        6,
        "the drift",
        _form(
            "repaired",
            r"(1+\eta\mu)\mathbb E\sum p\alpha\|\bar w_i-w_i^k\|^2+\mathbb E\sum p\alpha\|w_i^k-w_0\|^2+\tfrac12\eta\mu"
            r"\,\mathbb E\sum p\alpha\|\bar w_i-w_0\|^2\le\eta^2\{"
            r"(2+\tfrac\mu{2(1+\theta)L})E(E-1)G^2\,\mathbb E[\sum ps+\theta(\sum p-2)_+\sum ps]+2EG^2\sum"
            r"\tfrac{\mathbb E[p^2s]}{p^k}\}",
            sides.total_drift,
            ("without both terms", {"third": 0, "fourth": 0}),
            proof="docs/efl.md#the-proof",
        ),
        _form(
            "sharpened",
            r"(1+\eta\mu)\mathbb E\sum p\alpha\|\bar w_i-w_i^k\|^2+\mathbb E\sum p\alpha\|w_i^k-w_0\|^2+\tfrac12\eta\mu"
            r"\,\mathbb E\sum p\alpha\|\bar w_i-w_0\|^2\le\eta^2\{E(E-1)G^2((\tfrac12+\tfrac\mu{4(1+\theta)L})"
            r"\,\mathbb E[\sum ps+\theta(\sum p-2)_+\sum ps]+\tfrac13\mathbb E\sum ps)+(E-1)G^2\sum\tfrac{\mathbb E[p^2s]}{p^k}\}",
            sides.total_drift,
            ("without both terms", {"third": 0, "fourth": 0}),
            options={"sharp": True},
            proof="docs/efl.md#the-proof",
        ),
        _form(
            "one client",
            r"\mathbb E\|w_i^k-w_0\|^2\le\eta^2G^2i^2",
            sides.one_client_drift,
            ("i for i^2", {"factor": 0}),
            ("nine tenths of it", {"share": 0.9}),
            note="G counts all E virtual steps of all clients",
            proof=(
                "Cauchy-Schwarz: the square of a sum of i gradients is at most i times the sum of "
                "their squares, each at most G^2 in the mean"
            ),
        ),
        _form(
            "identity",
            r"\sum_kp_k\|\bar w-w_k\|^2=\sum_kp_k\|w_k-w_0\|^2+(\sum_kp_k-2)\|\bar w-w_0\|^2",
            sides.identity,
            ("1 for 2", {"shift": 1}),
            note="at the stopped points of all clients: where (sum p - 2)_+ comes from",
            proof="wbar - w_0 = sum p_k (w_k - w_0): expand both squares around w_0",
        ),
        _form(
            "Jensen",
            r"\|\bar w-w_0\|^2\le\sum_k\tfrac{p_k^2}{p^k}\|w_k-w_0\|^2\le\theta\sum_kp_k\|w_k-w_0\|^2",
            sides.jensen,
            ("theta = 1/2", {"theta": 0.5}),
            ("theta = 9/10", {"theta": 0.9}),
            proof=(
                "Jensen with the weights p^k, of sum 1, for the vectors (p_k/p^k)(w_k - w_0); then"
                " p_k <= theta p^k"
            ),
        ),
        _form(
            "sums",
            r"\sum_{i<E}\min(i,s)^2\le\tfrac{sE(E-1)}2,\quad\sum_{i<s}i^2\le\tfrac{sE(E-1)}3",
            sides.sums_of_squares,
            ("E(E-1) - 2 for E(E-1)", {"less": 2}),
            proof=(
                "min(i, s)^2 <= s i; and the squares below s sum to s (s - 1)(2s - 1)/6, at most s"
                " E (E - 1)/3"
            ),
        ),
    ),
    _step(
        7,
        "the recursion and the induction",
        _form(
            "repaired",
            r"\mathbb E[\|\omega_{\tau+1}-\omega^*\|^2\mid\omega_\tau]\le(1-\tfrac14\eta\mu S_\tau)\|\omega_\tau-\omega^*\|^2"
            r"+\eta^2\mathbb E[B_\tau]+2\eta r_\tau\sum_k\mathbb E[p^ks^k]D_k",
            sides.one_round,
            ("without B and J", {"rest": 0}),
            note="given the state, with G and sigma_k of the round",
            proof="docs/efl.md#the-proof",
        ),
        _form(
            "sharpened",
            r"\mathbb E[\|\omega_{\tau+1}-\omega^*\|^2\mid\omega_\tau]\le(1-\tfrac14\eta\mu S_\tau)\|\omega_\tau-\omega^*\|^2+"
            r"\eta^2\mathbb E[B^+_\tau]+\tfrac{J^+_\tau}{(\tau+1)E+\gamma}",
            sides.one_round,
            ("without B and J", {"rest": 0}),
            options={"sharp": "uncorrelated"},
            needs=(UNCORRELATED,),
            proof="docs/efl.md#the-proof",
        ),
        _form(
            "sharpened, any correlation",
            r"\mathbb E[\|\omega_{\tau+1}-\omega^*\|^2\mid\omega_\tau]\le(1-\tfrac14\eta\mu S_\tau)\|\omega_\tau-\omega^*\|^2+"
            r"\eta^2\mathbb E[B^+_\tau]+\tfrac{J^+_\tau}{(\tau+1)E+\gamma},\ \text{the first term of }B^+_\tau\text{ being }"
            r"\textstyle\sum_k\tfrac{p_k^2}{p^k}s^k\min\{\sigma_k^2,G^2\}",
            sides.one_round,
            ("without B and J", {"rest": 0}),
            ("nine tenths of B and J", {"rest": 0.9}),
            ("the noise term of uncorrelated mini-batches", {"sharp": "uncorrelated"}),
            options={"sharp": "any"},
            proof="docs/efl.md#the-proof",
        ),
        _form(
            "along a run",
            r"a_{\tau+1}\le(1-\tfrac{4E}{y+E})a_\tau+\tfrac{(16E/\mu)^2\mathbb E[B_\tau]/S_\tau^2}{(y+E)^2}+\tfrac{r_\tau J}{y+E},\ "
            r"y=\tau E+\gamma",
            sides.recursion,
            ("without B and J", {"rest": 0}),
            kind="run",
            proof="the expectation of `repaired`, with the step eta_tau put in",
        ),
        _form(
            "induction",
            r"(1-\tfrac{4E}{y+E})\Big(\tfrac{C_\tau}{y^2}+\tfrac{H_\tau J}y\Big)+\tfrac{b_\tau}{(y+E)^2}+\tfrac{r_\tau J}{y+E}\le"
            r"\tfrac{C_{\tau+1}}{(y+E)^2}+\tfrac{H_{\tau+1}J}{y+E},\ C_\tau=\gamma^2\|\omega_0-\omega^*\|^2+\sum_{t<\tau}b_t,\ "
            r"b_t=(\tfrac{16E}\mu)^2\tfrac{\mathbb E[B_t]}{S_t^2},\ y=\tau E+\gamma",
            sides.induction,
            ("without the J term", {"bias": 0}),
            ("nine tenths of the J term at tau + 1", {"bias": 0.9}),
            kind="run",
            note="(y-3E)(y+E) <= y^2 and y - 3E <= y, for the sum",
            proof="docs/efl.md#the-proof",
        ),
        _form(
            "induction with max",
            r"(1-\tfrac{4E}{y+E})\Big(\tfrac{C_\tau}{y^2}+\tfrac{H_\tau J}y\Big)+\tfrac{b_\tau}{(y+E)^2}+\tfrac{r_\tau J}{y+E}\le"
            r"\tfrac{C_{\tau+1}}{(y+E)^2}+\tfrac{H_{\tau+1}J}{y+E},\ C_\tau=\max\{\gamma^2\|\omega_0-\omega^*\|^2,\sum_{t<\tau}b_t\},\ "
            r"b_t=(\tfrac{16E}\mu)^2\tfrac{\mathbb E[B_t]}{S_t^2},\ y=\tau E+\gamma",
            sides.induction,
            kind="run",
            options={"total": "max"},
            established=VIOLATED,
            note="where one part of the maximum is the larger one, the other one's increase is lost",
        ),
    ),
)
