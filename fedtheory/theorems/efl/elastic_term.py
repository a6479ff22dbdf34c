"""EFL's elastic term: its limit, its fixed point for a constant step, what a pair (u, v) that stays
behind does, whether it stabilises, and its hold on clients that drift."""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.rational import objects
from fedtheory.theorems.efl import elastic_world as on
from fedtheory.theorems.efl import stability_world as stable
from fedtheory.theorems.efl.notation import FLIPPED, NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, eq, form, le, repaired, wrong

ELASTIC = "docs/efl.md#the-elastic-term"
STABILISES = "docs/efl_claims.md#the-elastic-term-stabilises"


def _stays(v: on.ElasticView, eta: Any, at: np.ndarray) -> Sides:
    """One round from w, its V the one that goes with it, changes neither."""
    V = v.anchors_at(at, eta)
    w, V_next = v.round(at, V, eta)
    return eq(np.stack([w, V_next]), np.stack([at, V]), np.stack([v.size(at)] * 2), noise=v.noise_of_round)


def _distance(v: on.ElasticView) -> Sides:
    """|sum p H (w_eta - w*)| <= lambda eta |sum_k (u_k - p^k U) grad f_k(w_eta)|, an equality in each coordinate."""
    w = v.fixed(v.eta)
    p = v.weights[:, None]
    rest = ((v.u - p * v.U) * v.gradients(w)).sum(axis=0)
    return le(abs(v.times(p, w - v.star)), v.lam * v.eta * abs(rest), noise=v.noise)


def _when_unbiased(v: on.ElasticView) -> Sides:
    """Curvature times (w_eta - w*) = -lambda eta sum_k u_k grad f_k(w*), with the weights of the fixed point."""
    weights = v.weights[:, None] * (1 - v.lam * v.eta * v.U) + v.lam * v.eta * v.u
    pull = v.u * v.gradients(v.star)
    moved = v.times(weights, v.fixed(v.eta) - v.star)
    return eq(moved, -v.lam * v.eta * pull.sum(axis=0), v.lam * v.eta * abs(pull).sum(axis=0), noise=v.noise)


def _run(v: on.ElasticView, eta: Any) -> Sides:
    """The run with the constant step ends at the fixed point: the remaining distance is below 1e-6 of the first."""
    w = v.c[0]
    V = v.U * w
    first = v.away()[-1]
    for _ in range(v.rounds):
        w, V = v.round(w, V, v.eta)
    return le(abs(w - v.fixed(eta)), 1e-6 * first, noise=v.noise_of_run)


def _factor_5(v: on.ElasticView) -> Sides:
    """|w_T - w*| <= 5 (|w_0 - w*| + |w_eta - w*|)/(1 + T/10)."""
    first = abs(v.c[0] - v.star) + abs(v.fixed(v.eta) - v.star)
    return le(abs(v.decaying[-1] - v.star), 50 * first / (10 + v.rounds), noise=v.noise_of_run)


def _decayed(v: on.ElasticView, pull: Any = 1, goal: str = "star") -> Sides:
    """|w_T - w*| <= K eta_T, T = t_0 + 2, ..., rounds."""
    eta = np.array([v.step(t) for t in range(v.rounds + 1)])[:, None]
    path, t_0 = v.decaying, v.settled or 0
    scaled = abs(path - v.star) / eta
    forced = 11 * v.lam * abs((v.u * v.gradients(v.star)).sum(axis=0)) / (10 * v.drift(t_0))
    K = np.maximum(scaled[t_0 : t_0 + 2].max(axis=0), pull * forced)
    away = path - (v.star if goal == "star" else v.fixed(v.eta))
    return le(abs(away[t_0 + 2 :]), K * eta[t_0 + 2 :], noise=v.noise_of_run)


def _stale(v: on.ElasticView, removed: bool, share: Any = 0) -> Sides:
    """At the limit a round changes nothing, whatever eta, if all that stay are anchored at w."""
    w = v.stale_limit(removed)
    return eq(v.after_leaving(w, v.eta, removed) + share * v.eta, 0 * w, v.size(w, v.eta), noise=v.noise_of_stale(w))


@paper.statement(
    "elastic-fixed-point", over=on.ElasticView,
    title="what the elastic term does with a constant step",
    source="sections 2 and 3.1, (2) and (3)",
    assumptions=("all clients active, E = 1, fixed u^k, no compression, quadratics",),
)
def elastic_fixed_point(q):
    """The fixed point for a constant step, and how far it is from omega*."""
    yield form(
        "unbiased", lambda: eq(q.fixed(q.eta), q.star, abs(q.c).max(axis=0)),
        r"\omega_\eta=\text{argmin}\,\textstyle\sum_kp^kf_k", fails=True, wording="in words",
        note="EFL is called unbiased, and the term said to alleviate bias. With a constant step it "
        "adds one, where sum_k u^k grad f_k(omega^*) is not 0. Judged by the distance of the fixed "
        "point omega_eta (the form \"repaired\" shows that it is one) from the argmin",
    )
    yield repaired(
        lambda: _stays(q, q.eta, q.fixed(q.eta)),
        r"\textstyle\sum_k[p^k(1-\lambda\eta U)+\lambda\eta u^k]\odot\nabla "
        r"f_k(\omega_\eta)=0\Rightarrow\text{a round from }(\omega_\eta,V_\eta)\text{ changes "
        r"neither},\ E=1,\ V_\eta=U\omega_\eta+\tfrac1\lambda\sum_kp^k\nabla f_k(\omega_\eta)",
        wrong("nine tenths of eta", lambda: _stays(q, q.eta, q.fixed(9 * q.eta / 10))), holds=True,
        proof=ELASTIC,
        note="the client with the larger Fisher diagonal counts for more; lambda eta U < 1, u "
        "fixed",
    )
    yield form(
        "matched diagonals", lambda: _stays(q, q.eta, q.star),
        r"u^k/p^k\text{ the same for all }k\Rightarrow\text{a round from "
        r"}(\omega^*,V_{\omega^*})\text{ changes neither},\ "
        r"\omega^*=\text{argmin}\,\textstyle\sum_kp^kf_k",
        wrong("the fixed point of client 0", lambda: _stays(q, q.eta, q.c[0])), holds=True,
        needs=(on.MATCHED,),
        proof="[repaired], where the weights p^k (1 - lambda eta U) + lambda eta u^k are "
        "proportional to p^k",
    )
    yield form(
        "when unbiased", lambda: _when_unbiased(q),
        r"\textstyle\sum_k[p^k(1-\lambda\eta U)+\lambda\eta "
        r"u^k]h_k(\omega_\eta-\omega^*)=-\lambda\eta\sum_ku^k\nabla f_k(\omega^*)",
        NINE_TENTHS, holds=True,
        proof="[repaired] less the same sum at omega^*, where sum_k p^k grad f_k = 0",
        note="so that omega_eta = omega^* in a coordinate iff sum_k u^k grad f_k(omega^*) = 0 "
        "there: where u is proportional to p or all clients agree, but not only there",
    )
    yield form(
        "distance", lambda: _distance(q),
        r"\textstyle\sum_kp^kh_k|\omega_\eta-\omega^*|\le\lambda\eta|\sum_k(u^k-p^kU)\nabla "
        r"f_k(\omega_\eta)|", NINE_TENTHS, holds=True,
        proof="[repaired] is sum_k p^k grad f_k(omega_eta) = -lambda eta sum_k (u^k - p^k U) grad "
        "f_k(omega_eta)", note="quadratics: O(lambda eta) from the argmin, and an equality",
    )
    yield form(
        "run", lambda: _run(q, q.eta),
        r"|\omega_T-\omega_\eta|\le10^{-6}\,(|\omega_0-\omega_\eta|+\max_k|c_k-\omega_0|),\ "
        r"\omega_0=c_1",
        wrong("the argmin instead", lambda: le(_run(q, 0 * q.eta).lhs, _run(q, q.eta).rhs)),
        holds=True, needs=(on.STABLE, on.LONG_RUN), proof="note",
        note="that the run in floating point ends where M^T says: omega_T - omega_eta is the first "
        "part of M^T times (omega_0 - omega_eta, V_0 - V_eta)",
    )


@paper.statement(
    "elastic-limit", over=on.ElasticView, title="where the elastic term leads with decaying steps",
    source="sections 2 and 3.1, (1) and (3)",
    assumptions=("all clients active, E = 1, fixed u^k, no compression, quadratics",),
)
def elastic_limit(q):
    """The end of a run with decaying steps, and the rate at which it is reached."""
    yield repaired(
        partial(_decayed, q), r"|\omega_T-\omega^*|\le K\eta_T\ (T\ge t_0+2),\ "
        r"\omega^*=\text{argmin}\,\textstyle\sum_kp^kf_k,\ \eta_\tau=\tfrac\eta{1+\tau/10},\ "
        r"K=\max\{\tfrac{|\omega_{t_0}-\omega^*|}{\eta_{t_0}},\tfrac{|\omega_{t_0+1}-\omega^*|}{"
        r"\eta_{t_0+1}},\frac{\frac{11}{10}\lambda|\sum_ku^k\nabla "
        r"f_k(\omega^*)|}{a-\frac1{10\eta}-\frac{11}{10}\lambda\eta_{t_0}|b|}\},\ a=\sum_kp^kh_k,\ "
        r"b=\sum_k(u^k-p^kU)h_k,\ t_0=\min\{t:\eta_ta\le1,\ \tfrac{11}5\lambda\eta_t|b|\le "
        r"a-\tfrac1{10\eta}\text{ in every coordinate}\}", NINE_TENTHS,
        wrong("without the gradients at the argmin", pull=0),
        wrong("to the fixed point of the first step", goal="fixed"), holds=True, needs=(on.DECAYS,),
        proof=ELASTIC,
        note="coordinate by coordinate, from omega_0 = c_1. Not to the minimiser with frozen "
        "anchors: the anchors follow. The term's gradient in round tau is lambda eta_{tau-1} sum_k "
        "(u_k - p^k U) grad f_k(w_{tau-1}), so that it disturbs gradient descent by O(eta^2) a "
        "round. omega_T tends to the argmin for all steps with eta_tau -> 0 and sum eta_tau = "
        "infinity, and (omega_T - omega^*)/eta_T to -lambda sum_k u^k grad f_k(omega^*)/(a - 1/(10 "
        "eta)) for these, where eta a > 1/10. Proofs: docs/efl.md, the elastic term",
    )
    yield form(
        "factor 5", lambda: _factor_5(q),
        r"|\omega_T-\omega^*|\le\frac{5\,(|\omega_0-\omega^*|+|\omega_\eta-\omega^*|)}{1+T/10},\ "
        r"\eta_\tau=\tfrac\eta{1+\tau/10},\ \omega_0=c_1", fails=True, needs=(on.STABLE, on.RUN),
        note="our former repaired form, with a constant that no proof gave. As T grows the left "
        "side is up to (1 + lambda eta b/a) eta a/(eta a - 1/10) times (|omega_0 - omega^*| + "
        "|omega_eta - omega^*|)/(1 + T/10), which is up to 25/3 at eta a = 1/4, and infinite at "
        "eta a = 1/10",
    )


@paper.statement(
    "stale-anchor", over=on.ElasticView, title="the pair (u, v) of a client that has left",
    source="Algorithm 1 with section 4.3",
    assumptions=("those that stay are active in every round; quadratics",),
)
def stale_anchor(q):
    """The limit with the pair (u, v) of a client that has left, kept and removed."""
    yield form(
        "kept", lambda: eq(q.stale_limit(False), q.rest_star, abs(q.c).max(axis=0)),
        r"\omega_\infty=\text{argmin}\,\textstyle\sum_{k\ne a}\hat p^kf_k,\ \omega_\infty:\ "
        r"\sum_{k\ne a}\hat p^k\nabla f_k(\omega_\infty)+\lambda "
        r"u^a\odot(\omega_\infty-\omega^a)=0", fails=True, needs=(on.LEAVER,),
        note="the sum over all that ever reported keeps pulling towards the last model of one that "
        "is gone",
    )
    yield repaired(
        lambda: _stale(q, True),
        r"\eta\textstyle\sum_{k\ne a}\hat p^k\nabla f_k(\hat\omega)=0,\ "
        r"\hat\omega=\text{argmin}\,\sum_{k\ne a}\hat p^kf_k:\ \text{its pair removed, a round "
        r"from }\hat\omega\text{ changes nothing}",
        wrong("moved by 1/100", lambda: _stale(q, True, q.weights.sum() / 100)), holds=True,
        needs=(on.LEAVER,), proof="the definition of an argmin",
    )
    yield form(
        "limit with the pair kept", lambda: _stale(q, False),
        r"\textstyle\sum_{k\ne a}\hat p^k\nabla f_k(\omega_\infty)+\lambda "
        r"u^a\odot(\omega_\infty-\omega^a)=0",
        wrong("moved by 1/100", lambda: _stale(q, False, q.weights.sum() / 100)), holds=True,
        needs=(on.LEAVER,), proof=ELASTIC,
    )


_RUN = "all clients active, fixed u^k, no compression, quadratics whose coordinates do not mix, a constant step"
_TENTH = Fraction(1, 10)


def _yes(found: Any) -> np.ndarray:
    """1 where it is so, 0 where not, as fractions."""
    return objects([Fraction(bool(x)) for x in np.ravel(found)])


def _every_lambda(v: stable.StabilityView) -> Sides:
    found = v.margin(v.lam)
    return le(0 * found, found, noise=v.noise)


def _region(v: stable.StabilityView, a: Any = 1, b: Any = 1) -> Sides:
    """E = 1: T = 1 - eta a, D = eta^2 lambda b."""
    inside = v.criterion(1 - a * v.eta * v.a, b * v.eta**2 * v.lam * v.b) > 0
    return eq(_yes(inside), v.settles)


def _steps(v: stable.StabilityView, steps: int = 0) -> Sides:
    """Any E, by the closed form of the trace and the determinant."""
    other = v if not steps else stable.StabilityView(v.weights, v.h, v.c, v.u, v.lam, v.eta, v.E + steps, v.start, v.anchors)
    return eq(_yes(other.margin(v.lam) > 0), v.settles)


def _when_some(v: stable.StabilityView, least: int = 0, most: Any = 3) -> Sides:
    """One coordinate: some lambda settles the run iff b > 0 and eta a < 3."""
    return eq(_yes(v.best > 0), _yes(v.b[0] > least and v.eta * v.a[0] < most))


def _alike(v: stable.StabilityView, share: Any = 1) -> Sides:
    """Eigenvalues of one curvature: E = 1: 0, 1 - eta h; else 0, 1 - (1 - r^E) h/(h + lambda U)."""
    kept, _ = v.factors(v.lam)
    h = v.h[0]
    return eq(_yes(abs(1 - (1 - kept[0]) * share * h / (h + v.lam * v.U)) < 1), v.settles)


def _formula(v: stable.StabilityView, more: int = 0) -> Sides:
    """y_k - w = -q_k (grad f_k(w) + lambda (U w - V))."""
    stiff = v.h + v.lam * v.U
    q = (1 - (1 - v.eta * stiff) ** (v.E + more)) / stiff
    return eq(v.moves(v.lam), -q * (v.h * (v.start - v.c) + v.lam * (v.U * v.start - v.V)))


def _less(v: stable.StabilityView) -> Sides:
    return le(abs(v.moves(v.lam)), abs(v.moves(0)))


@paper.statement(
    "elastic-stability", over=stable.StabilityView, title="whether the elastic term stabilises",
    source="sections 2 and 5.3 (stabilizes the training; force divergent methods to converge)",
    assumptions=(_RUN,),
)
def elastic_stability(q):
    """Runs that settle with the elastic term against those that settle without it."""
    yield form(
        "every lambda", lambda: _every_lambda(q),
        r"\text{the run converges for }\lambda=0\Rightarrow\text{it does for every }\lambda>0",
        fails=True, needs=(stable.WITHOUT,), wording="in words",
        note="\"stabilizes the training\", read for every lambda: where b = sum_k (u^k - p^k U) "
        "h_k < 0 the region of stable steps shrinks. Judged by Jury's criterion, whose least "
        "margin is the right side",
    )
    yield form(
        "every lambda, b positive", lambda: _every_lambda(q),
        r"b>0:\ \text{the run converges for }\lambda=0\Rightarrow\text{it does for every "
        r"}\lambda>0", fails=True, needs=(stable.ONE_STEP, on.FRACTIONS, stable.WITHOUT, stable.FIRM),
        wording="in words",
        note="where the region of stable steps grows with a small lambda: any lambda above "
        "1/(eta^2 b) makes the run diverge",
    )
    yield form(
        "some lambda", lambda: le(0 * q.best, q.best),
        r"\text{the run diverges for }\lambda=0\Rightarrow\text{it converges for some }\lambda>0",
        fails=True, needs=(stable.ONE_STEP, stable.UNSTABLE), wording="in words",
        note="\"the appropriate lambda can force divergent methods to converge\", read for every "
        "divergent run: never where the clients have one curvature, nor from eta sum_k p^k h_k = 3 "
        "on. The right side is the largest margin over all lambda > 0",
    )
    yield repaired(
        partial(_region, q),
        r"E=1:\ \text{the run converges iff }-\eta a<\eta^2\lambda b<1\text{ and }\eta "
        r"a<2+\eta^2\lambda b,\ a=\textstyle\sum_kp^kh_k,\ b=\sum_k(u^k-p^kU)h_k",
        wrong("nine tenths of b", b=1 - _TENTH), wrong("nine tenths of a", a=1 - _TENTH),
        wrong("eleven tenths of b", b=1 + _TENTH), holds=True, needs=(stable.ONE_STEP, on.FRACTIONS),
        proof=STABILISES,
        note="in every coordinate. The characteristic polynomial is x^2 - (1 - eta a) x + eta^2 "
        "lambda b; against a certificate in fractions for the recursion of (w, V) as it is run",
    )
    yield form(
        "when some lambda does", partial(_when_some, q),
        r"d=1,\ E=1:\ \text{a divergent run converges for some }\lambda>0\text{ iff }b>0\text{ and "
        r"}\eta a<3", wrong("b at least 1", least=1),
        wrong("eta a below 14/5", most=Fraction(14, 5)), holds=True,
        needs=(stable.ONE_STEP, stable.UNSTABLE, stable.SINGLE), proof=STABILISES,
        note="lambda between (eta a - 2)/(eta^2 b) and 1/(eta^2 b), so that the longest stable "
        "step grows from 2/a to at most 3/a",
    )
    yield form(
        "any number of steps", partial(_steps, q),
        r"\text{the run converges iff }|T|<1+D<2,\ T=\textstyle\sum p^kr_k^E+\lambda\sum u^kq_k,\ "
        r"D=\lambda(\sum p^kr_k^E\sum u^kq_k-\sum p^kq_k\sum u^kr_k^E),\ r_k=1-\eta(h_k+\lambda "
        r"U),\ q_k=\frac{1-r_k^E}{h_k+\lambda U}", wrong("one step more", steps=1), holds=True,
        needs=(on.FRACTIONS,), proof=STABILISES,
    )
    yield form(
        "clients of one curvature", lambda: _alike(q),
        r"h_k=h:\ \text{the run converges iff }|1-(1-r^E)\tfrac h{h+\lambda U}|<1,\ "
        r"r=1-\eta(h+\lambda U)", wrong("nine tenths of it", lambda: _alike(q, 1 - _TENTH)), holds=True,
        needs=(stable.ALIKE, on.FRACTIONS), proof=STABILISES,
        note="for E = 1 it is eta h < 2, whatever lambda: the term does nothing to stability. It "
        "moves the fixed point, where sum_k u^k grad f_k(omega^*) is not 0",
    )
    yield form(
        "clients of one curvature, more steps",
        lambda: le(_yes(q.margin(q.lam) > 0), _yes(q.margin(0) > 0)),
        r"h_k=h,\ E>1:\ \text{the run converges for }\lambda>0\Rightarrow\text{it does for "
        r"}\lambda=0", FLIPPED, holds=True, needs=(stable.ALIKE, stable.MORE), proof=STABILISES,
        note="every lambda > 0 makes the range of stable steps smaller: for even E it is eta (h + "
        "lambda U) < 2",
    )


@paper.statement(
    "elastic-drift", over=stable.StabilityView,
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
        r"for }\lambda=0", NINE_TENTHS, holds=True, needs=(stable.AGREE, stable.SHORT, on.FRACTIONS),
        proof=STABILISES,
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
