"""Stability of EFL's elastic term, and its hold on clients that drift: exact on quadratics."""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.rational import objects
from fedtheory.theorems.efl import elastic_world as on
from fedtheory.theorems.efl.notation import FLIPPED, NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, eq, form, le, repaired, wrong

_RUN = "all clients active, fixed u^k, no compression, quadratics whose coordinates do not mix, a constant step"
_TENTH = Fraction(1, 10)


def _yes(found: Any) -> np.ndarray:
    """1 where it is so, 0 where not, as fractions."""
    return objects([Fraction(bool(x)) for x in np.ravel(found)])


def _every_lambda(v: on.StabilityView) -> Sides:
    found = v.margin(v.lam)
    return le(0 * found, found, noise=v.noise)


def _region(v: on.StabilityView, a: Any = 1, b: Any = 1) -> Sides:
    """E = 1: T = 1 - eta a, D = eta^2 lambda b."""
    inside = v.criterion(1 - a * v.eta * v.a, b * v.eta**2 * v.lam * v.b) > 0
    return eq(_yes(inside), v.settles)


def _steps(v: on.StabilityView, steps: int = 0) -> Sides:
    """Any E, by the closed form of the trace and the determinant."""
    other = v if not steps else on.StabilityView(v.weights, v.h, v.c, v.u, v.lam, v.eta, v.E + steps, v.start, v.anchors)
    return eq(_yes(other.margin(v.lam) > 0), v.settles)


def _when_some(v: on.StabilityView, least: int = 0, most: Any = 3) -> Sides:
    """One coordinate: some lambda settles the run iff b > 0 and eta a < 3."""
    return eq(_yes(v.best > 0), _yes(v.b[0] > least and v.eta * v.a[0] < most))


def _alike(v: on.StabilityView, share: Any = 1) -> Sides:
    """Eigenvalues of one curvature: E = 1: 0, 1 - eta h; else 0, 1 - (1 - r^E) h/(h + lambda U)."""
    kept, _ = v.factors(v.lam)
    h = v.h[0]
    return eq(_yes(abs(1 - (1 - kept[0]) * share * h / (h + v.lam * v.U)) < 1), v.settles)


def _formula(v: on.StabilityView, more: int = 0) -> Sides:
    """y_k - w = -q_k (grad f_k(w) + lambda (U w - V))."""
    stiff = v.h + v.lam * v.U
    q = (1 - (1 - v.eta * stiff) ** (v.E + more)) / stiff
    return eq(v.moves(v.lam), -q * (v.h * (v.start - v.c) + v.lam * (v.U * v.start - v.V)))


def _less(v: on.StabilityView) -> Sides:
    return le(abs(v.moves(v.lam)), abs(v.moves(0)))


@paper.statement(
    "elastic-stability", over=on.StabilityView, title="whether the elastic term stabilises",
    source="sections 2 and 5.3 (stabilizes the training; force divergent methods to converge)",
    assumptions=(_RUN,),
)
def elastic_stability(q):
    """Runs that settle with the elastic term against those that settle without it."""
    yield form(
        "every lambda", lambda: _every_lambda(q),
        r"\text{the run converges for }\lambda=0\Rightarrow\text{it does for every }\lambda>0",
        fails=True, needs=(on.WITHOUT,), wording="in words",
        note="\"stabilizes the training\", read for every lambda: where b = sum_k (u^k - p^k U) "
        "h_k < 0 the region of stable steps shrinks. Judged by Jury's criterion, whose least "
        "margin is the right side",
    )
    yield form(
        "every lambda, b positive", lambda: _every_lambda(q),
        r"b>0:\ \text{the run converges for }\lambda=0\Rightarrow\text{it does for every "
        r"}\lambda>0", fails=True, needs=(on.ONE_STEP, on.FRACTIONS, on.WITHOUT, on.FIRM),
        wording="in words",
        note="where the region of stable steps grows with a small lambda: any lambda above "
        "1/(eta^2 b) makes the run diverge",
    )
    yield form(
        "some lambda", lambda: le(0 * q.best, q.best),
        r"\text{the run diverges for }\lambda=0\Rightarrow\text{it converges for some }\lambda>0",
        fails=True, needs=(on.ONE_STEP, on.UNSTABLE), wording="in words",
        note="\"the appropriate lambda can force divergent methods to converge\", read for every "
        "divergent run: never where the clients have one curvature, nor from eta sum_k p^k h_k = 3 "
        "on. The right side is the largest margin over all lambda > 0",
    )
    yield repaired(
        partial(_region, q),
        r"E=1:\ \text{the run converges iff }-\eta a<\eta^2\lambda b<1\text{ and }\eta "
        r"a<2+\eta^2\lambda b,\ a=\textstyle\sum_kp^kh_k,\ b=\sum_k(u^k-p^kU)h_k",
        wrong("nine tenths of b", b=1 - _TENTH), wrong("nine tenths of a", a=1 - _TENTH),
        wrong("eleven tenths of b", b=1 + _TENTH), holds=True, needs=(on.ONE_STEP, on.FRACTIONS),
        proof="docs/efl_claims.md#the-elastic-term-stabilises",
        note="in every coordinate. The characteristic polynomial is x^2 - (1 - eta a) x + eta^2 "
        "lambda b; against a certificate in fractions for the recursion of (w, V) as it is run",
    )
    yield form(
        "when some lambda does", partial(_when_some, q),
        r"d=1,\ E=1:\ \text{a divergent run converges for some }\lambda>0\text{ iff }b>0\text{ and "
        r"}\eta a<3", wrong("b at least 1", least=1),
        wrong("eta a below 14/5", most=Fraction(14, 5)), holds=True,
        needs=(on.ONE_STEP, on.UNSTABLE, on.SINGLE),
        proof="docs/efl_claims.md#the-elastic-term-stabilises",
        note="lambda between (eta a - 2)/(eta^2 b) and 1/(eta^2 b), so that the longest stable "
        "step grows from 2/a to at most 3/a",
    )
    yield form(
        "any number of steps", partial(_steps, q),
        r"\text{the run converges iff }|T|<1+D<2,\ T=\textstyle\sum p^kr_k^E+\lambda\sum u^kq_k,\ "
        r"D=\lambda(\sum p^kr_k^E\sum u^kq_k-\sum p^kq_k\sum u^kr_k^E),\ r_k=1-\eta(h_k+\lambda "
        r"U),\ q_k=\frac{1-r_k^E}{h_k+\lambda U}", wrong("one step more", steps=1), holds=True,
        needs=(on.FRACTIONS,), proof="docs/efl_claims.md#the-elastic-term-stabilises",
    )
    yield form(
        "clients of one curvature", lambda: _alike(q),
        r"h_k=h:\ \text{the run converges iff }|1-(1-r^E)\tfrac h{h+\lambda U}|<1,\ "
        r"r=1-\eta(h+\lambda U)", wrong("nine tenths of it", lambda: _alike(q, 1 - _TENTH)), holds=True,
        needs=(on.ALIKE, on.FRACTIONS),
        proof="docs/efl_claims.md#the-elastic-term-stabilises",
        note="for E = 1 it is eta h < 2, whatever lambda: the term does nothing to stability. It "
        "moves the fixed point, where sum_k u^k grad f_k(omega^*) is not 0",
    )
    yield form(
        "clients of one curvature, more steps",
        lambda: le(_yes(q.margin(q.lam) > 0), _yes(q.margin(0) > 0)),
        r"h_k=h,\ E>1:\ \text{the run converges for }\lambda>0\Rightarrow\text{it does for "
        r"}\lambda=0", FLIPPED, holds=True, needs=(on.ALIKE, on.MORE),
        proof="docs/efl_claims.md#the-elastic-term-stabilises",
        note="every lambda > 0 makes the range of stable steps smaller: for even E it is eta (h + "
        "lambda U) < 2",
    )


@paper.statement(
    "elastic-drift", over=on.StabilityView,
    title="whether the elastic term keeps clients near the model",
    source="section 5.3 (limiting the most informative parameters' change; drifting too far away "
    "from the global model)",
    assumptions=("fixed u^k, no compression, quadratics; in every coordinate, from any model and "
    "any last models",),
)
def elastic_drift(q):
    """The local steps of a client with the elastic term and without it."""
    yield form(
        "every round", lambda: _less(q),
        r"|y_k-\omega|\text{ after }E\text{ steps is at most what it is for }\lambda=0", fails=True,
        wording="in words",
        note="the term pulls towards the clients' last models, not towards the model they start "
        "from: where these differ it moves a client that would not move at all",
    )
    yield repaired(
        lambda: _less(q),
        r"V=U\omega,\ \eta(h_k+\lambda U)\le1\Rightarrow|y_k-\omega|\text{ is at most what it is "
        r"for }\lambda=0", NINE_TENTHS, holds=True, needs=(on.AGREE, on.SHORT, on.FRACTIONS),
        proof="docs/efl_claims.md#the-elastic-term-stabilises",
        note="an equality for E = 1: then the term's gradient is 0 at the only point where one is "
        "taken",
    )
    yield form(
        "formula", partial(_formula, q),
        r"y_k-\omega=-q_k(\nabla f_k(\omega)+\lambda(U\omega-V)),\ q_k=\frac{1-(1-\eta(h_k+\lambda "
        r"U))^E}{h_k+\lambda U}", wrong("one step more", more=1), holds=True, needs=(on.FRACTIONS,),
        proof="a local step is y - w -> r_k (y - w) - eta (grad f_k(w) + lambda (U w - V)), and "
        "q_k = eta sum_{j<E} r_k^j",
    )
