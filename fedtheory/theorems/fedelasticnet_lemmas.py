"""FedElasticNet, (23)-(41): Lemmas B.3, B.4, B.5, Theorem B.6, and their repaired and sharpened forms."""

from __future__ import annotations

from typing import Any

from fedtheory.theorems.core import Form, Mutant, Sides, Statement, eq, le
from fedtheory.theorems.fedelasticnet import SYMBOLS
from fedtheory.theorems.fedelasticnet_properties import BOTH_FAIL, BOTH_HOLD
from fedtheory.theorems.symbolic import chain_after_41, constants_identities
from fedtheory.theorems.views import RoundView, inner, norm_sq, sgn

__all__ = ["STATEMENTS"]

PRINTED_THRESHOLD = 27.0  # Theorem B.1 asks lambda_2 > 27 beta
REPAIRED_THRESHOLD = (25 + 825**0.5) / 2  # kappa_0 > 0: 26.861...
THEOREM_A_THRESHOLD = (9 + 153**0.5) / 2  # 10.685...
THEOREM_B_THRESHOLD = (21 + 609**0.5) / 2  # 22.839... (tau = 2)
SAMPLED = ("every L_k is convex and beta-smooth", "P of the m clients are drawn uniformly each round")


# --- Lemma B.3 --------------------------------------------------------------------------------------------------------
def _b3(v: RoundView, subgradient: Any) -> Sides:
    grad, sub = v.mean_k(v.grad_tilde) / v.lambda2, v.mean_k(subgradient) / v.lambda2
    return eq(v.drift, -grad - sub, grad, sub, v.h / v.lambda2, vector=True, noise=v.position_noise)


def _eq23(v: RoundView, gradient: Any, subgradient: Any) -> Sides:
    change = v.E(v.cohort_mean(v.stored[:, None] - gradient - subgradient)) / v.lambda2
    parts = (change, v.h / v.lambda2, v.mean_k(v.stored) / v.lambda2)
    return eq(v.drift, change - v.h / v.lambda2, *parts, vector=True, noise=v.position_noise)


def _eq24(v: RoundView, anchor: Any) -> Sides:
    """Cohort means computed from theta_k^t of each cohort, and from theta_tilde."""
    here = v.losses.gradients_each(v.local_next) + v.lambda1 * sgn(v.local_next - anchor[:, None, None, :])
    there = v.grad_tilde + v.lambda1_sign
    left = v.E(v.cohort_mean(v.stored[:, None] - here)) / v.lambda2
    right = v.E(v.cohort_mean(v.stored - there)) / v.lambda2
    return eq(left, right, v.mean_k(v.stored) / v.lambda2, v.mean_k(v.grad_tilde) / v.lambda2, vector=True)


def _eq25(v: RoundView, divisor: Any) -> Sides:
    each = v.stored - v.grad_tilde - v.lambda1_sign
    left = v.E(v.cohort_mean(each)) * v.P / divisor
    return eq(left, v.mean_k(each), v.mean_k(v.stored), v.mean_k(v.grad_tilde), vector=True)


def _eq26(v: RoundView, h: Any) -> Sides:
    left = v.mean_k(v.stored - v.grad_tilde - v.lambda1_sign) - h
    right = -v.mean_k(v.grad_tilde) - v.mean_k(v.lambda1_sign)
    return eq(left, right, v.mean_k(v.stored), v.h, v.mean_k(v.grad_tilde), vector=True)


# --- (27)-(29) --------------------------------------------------------------------------------------------------------
def _eq28(v: RoundView, d_factor: int = 4) -> Sides:
    b, share = v.beta, v.P / v.m
    gap = d_factor * b * share
    return le(v.C_next, (1 - share) * v.C, 2 * b * b * share * v.epsilon, gap * v.D, noise=gap * v.noise_D)


def eq28_sign(v: RoundView, tau: Any = 2, with_floor: bool = True) -> tuple[Any, ...]:
    """Terms of (28) under the sign rule (Theorem B)."""
    b, share = v.beta, v.P / v.m
    floor = share * (1 + 1 / (v.P / v.P * tau)) * v.lambda1 * v.lambda1 * v.zeros
    return (
        (1 - share) * v.C,
        share * (1 + tau) * 2 * b * b * v.epsilon,
        share * (1 + tau) * 4 * b * v.D,
        floor if with_floor else 0 * floor,
    )


def _eq28_sign(v: RoundView, with_floor: bool = True) -> Sides:
    return le(v.C_next, *eq28_sign(v, 2, with_floor), noise=12 * v.beta * v.noise_D)


# --- Lemma B.4 --------------------------------------------------------------------------------------------------------
def _b4(v: RoundView, subgradient: Any, last: int = 1, quadratic: int = 1) -> Sides:
    l2 = v.lambda2
    return le(
        v.A_next,
        v.A,
        -2 * v.D / l2,
        quadratic * v.beta * v.epsilon / l2,
        v.move,
        last * v.last_term(subgradient),
        noise=2 * v.noise_D / l2 + v.noise_A,
    )


def _eq32_rhs(v: RoundView, subgradient: Any) -> list[Any]:
    away = v.gamma - v.losses.theta_star
    return [v.A, v.move, -2 * inner(away, v.mean_k(v.grad_tilde)) / v.lambda2, v.last_term(subgradient)]


def _eq32(v: RoundView, subgradient: Any) -> Sides:
    terms = _eq32_rhs(v, subgradient)
    return eq(v.A_next, terms[0] + terms[1] + terms[2] + terms[3], *terms, noise=v.noise_A)


def _eq33_rhs(v: RoundView, subgradient: Any, quadratic: int = 1) -> list[Any]:
    values = v.losses.values(v.losses.theta_star) - v.losses.values(v.gamma)
    bend = quadratic * v.beta * norm_sq(v.tilde - v.gamma[:, None, :]) / 2
    return [v.A, v.move, 2 * v.mean_k(values + bend) / v.lambda2, v.last_term(subgradient)]


def _eq33(v: RoundView, subgradient: Any, quadratic: int = 1) -> Sides:
    left = _eq32_rhs(v, subgradient)
    noise = (v.noise_D + 1e-13 * abs(v.losses.values(v.gamma)).sum(axis=-1)) / v.lambda2 if v.noise_D.dtype != object else 0
    return le(left[0] + left[1] + left[2] + left[3], *_eq33_rhs(v, subgradient, quadratic), noise=noise + v.noise_A)


def _eq34_rhs(v: RoundView, subgradient: Any, excess: int = 2) -> list[Any]:
    each = v.losses.theta_star - v.gamma  # <gamma - theta*, -s_k>, averaged after the inner product
    last = 2 * v.mean_k(inner(each[:, None, :], subgradient)) / v.lambda2
    return [v.A, v.move, -excess * v.D / v.lambda2, v.beta * v.epsilon / v.lambda2, last]


def _eq34(v: RoundView, subgradient: Any, excess: int = 2) -> Sides:
    left, right = _eq33_rhs(v, subgradient), _eq34_rhs(v, subgradient, excess)
    values = 0 if v.D.dtype == object else v.mean_k(abs(v.losses.values(v.gamma))) / v.lambda2 * 1e-4
    return eq(sum(left[1:], left[0]), sum(right[1:], right[0]), *left, *right, values, noise=v.noise_A)


def _eq35(v: RoundView, subgradient: Any, factor: int = 1) -> Sides:
    left = _eq34_rhs(v, subgradient)
    right = left[0] + left[1] + left[2] + left[3] + factor * v.last_term(subgradient)
    return eq(sum(left[1:], left[0]), right, *left, noise=v.noise_A)


# --- Lemma B.5 --------------------------------------------------------------------------------------------------------
def _b5(v: RoundView, c_factor: int = 10, floor: int = 5) -> Sides:
    b, l2 = v.beta, v.lambda2
    return le(
        (1 - 5 * b * b / (l2 * l2)) * v.epsilon,
        c_factor * v.C / (l2 * l2),
        10 * b * v.D / (l2 * l2),
        floor * v.lambda1 * v.lambda1 * v.d / (l2 * l2),
        noise=10 * b * v.noise_D / (l2 * l2),
    )


def _no_floor(v: RoundView, lead: int = 3) -> Sides:
    b, l2 = v.beta, v.lambda2
    return le(
        (1 - 3 * b * b / (l2 * l2)) * v.epsilon,
        lead * v.C / (l2 * l2),
        2 * lead * b * v.D / (l2 * l2),
        noise=6 * b * v.noise_D / (l2 * l2),
    )


def _diagonal(v: RoundView, factor: Any = 1) -> Sides:
    """mean ||D_k c_k - mean c||^2 <= mean ||c_k||^2 with the D_k the soft threshold gives: lambda_2 delta = D_k v_k."""
    c = v.stored - v.grad_star
    moved = v.stored - v.grad_tilde
    safe = moved + (1 - abs(sgn(moved)))  # 1 where v_k is 0
    d_k = v.lambda2 * v.delta / safe
    return le(v.mean_k(norm_sq(d_k * c - v.h[:, None, :])), factor * v.mean_k(norm_sq(c)))


def _sign_of_cohort(v: RoundView) -> Any:
    """lambda_1 sign(theta_k^t - theta^{t-1}) with theta_k^t of each cohort, as (36)-(38) print it: (S, C, m, d)."""
    return v.lambda1 * sgn(v.local_next - v.theta[:, None, None, :])


def _eq36_rhs(v: RoundView, subgradient: Any) -> Any:
    """(S,): subgradient (S, m, d) or, with a cohort axis, (S, C, m, d)."""
    base = v.stored - v.grad_tilde - v.h[:, None, :]
    if subgradient.ndim == v.tilde.ndim:
        return v.mean_k(norm_sq(base - subgradient)) / (v.lambda2 * v.lambda2)
    return v.E(norm_sq(base[:, None] - subgradient).sum(axis=2) / v.m) / (v.lambda2 * v.lambda2)


def _eq36(v: RoundView, subgradient: Any) -> Sides:
    size = (v.mean_k(norm_sq(v.stored)) + v.mean_k(norm_sq(v.grad_tilde))) / (v.lambda2 * v.lambda2)
    return eq(v.epsilon, _eq36_rhs(v, subgradient), size, noise=v.noise_sq)


def _mean_sq(v: RoundView, subgradient: Any) -> Any:
    if subgradient.ndim == v.tilde.ndim:
        return v.mean_k(norm_sq(subgradient))
    return v.E(norm_sq(subgradient).sum(axis=2) / v.m)


def _eq37_rhs(v: RoundView, subgradient: Any, factor: int = 5) -> list[Any]:
    f = factor / (v.lambda2 * v.lambda2)
    return [
        f * v.C,
        f * v.mean_k(norm_sq(v.grad_gamma - v.grad_star)),
        f * v.mean_k(norm_sq(v.grad_tilde - v.grad_gamma)),
        f * _mean_sq(v, subgradient),
        f * norm_sq(v.h),
    ]


def _eq38_rhs(v: RoundView, d: Any = None) -> list[Any]:
    f = 5 / (v.lambda2 * v.lambda2)
    d = v.d if d is None else d
    return [*_eq37_rhs(v, v.lambda1_s)[:3], f * v.lambda1 * v.lambda1 * d, f * v.C]


def _eq39_rhs(v: RoundView, gap: int = 2) -> list[Any]:
    f, b = 5 / (v.lambda2 * v.lambda2), v.beta
    return [f * v.C, f * gap * b * v.D, f * b * b * v.epsilon, f * v.lambda1 * v.lambda1 * v.d, f * v.C]


def _total(terms: list[Any]) -> Any:
    return sum(terms[1:], terms[0])


# --- Theorem B.6 ------------------------------------------------------------------------------------------------------
def _eq40(v: RoundView, subgradient: Any, sign_floor: bool = False, gap: int = 4) -> Sides:
    kappa, l2, b, share = v.constants.printed[1], v.lambda2, v.beta, v.P / v.m
    noise = (12 * b * kappa + 2 / l2) * v.noise_D + v.noise_A
    if sign_floor:
        recursion = [kappa * t for t in eq28_sign(v)]
    else:
        recursion = [kappa * (1 - share) * v.C, kappa * 2 * b * b * share * v.epsilon, kappa * gap * b * share * v.D]
    rest = [v.A, -2 * v.D / l2, b * v.epsilon / l2, v.move, v.last_term(subgradient)]
    return le(v.A_next + kappa * v.C_next, *recursion, *rest, noise=noise)


def _eq41(v: RoundView, factor: Any = 1) -> Sides:
    kappa, b, share = v.constants.printed[1], v.beta, v.P / v.m
    common = [kappa * 2 * b * b * share * v.epsilon, b * v.epsilon / v.lambda2]
    return le(common[0] + common[1] + v.move, *common, factor * v.epsilon, noise=v.noise_sq)


def potential_step(
    v: RoundView, family: tuple[Any, Any, Any], floor: Any, subgradient: Any, kappa_scale: Any = 1
) -> Sides:
    """kappa_0 D <= (A + kappa C)_{t-1} - E(A + kappa C)_t + floor + last term."""
    _, kappa, kappa_0 = family
    kappa = kappa * kappa_scale
    return le(
        kappa_0 * v.D,
        v.A,
        kappa * v.C,
        -v.A_next,
        -kappa * v.C_next,
        floor,
        v.last_term(subgradient),
        noise=kappa_0 * v.noise_D + v.noise_A,
    )


def _b6(v: RoundView, d: Any, subgradient: Any, kappa_scale: Any = 1) -> Sides:
    a = v.constants.printed[0]
    return potential_step(v, v.constants.printed, a / 2 * v.lambda1 * v.lambda1 * d + 0 * v.D, subgradient, kappa_scale)


def _b6_zeros(v: RoundView, kappa_scale: Any = 1) -> Sides:
    floor = 33 * v.constants.printed[0] / 80 * v.lambda1 * v.lambda1 * v.zeros  # 0.4125 = 0.3 (1 + 3/8)
    return potential_step(v, v.constants.printed, floor, v.lambda1_s, kappa_scale)


def _theorem_b_step(v: RoundView, tau: int = 2, with_floor: bool = True) -> Sides:
    family = v.constants.theorem_b(tau)
    floor = family[0] * (tau + 1) / tau * v.lambda1 * v.lambda1 * v.zeros
    return potential_step(v, family, floor if with_floor else 0 * floor, v.lambda1_s)


def _sag(v: RoundView, step: int = 1) -> Sides:
    """While no participant moves: theta^t = theta^{t-1} - h^t/lambda_2 with h^t SAG's average."""
    still = (abs(sgn(v.delta)).max(axis=-1)[:, None, :] * v.members.astype(int)[None]).max(axis=-1) == 0  # (S, C)
    here = v.losses.gradients(v.theta)
    h = v.h[:, None] + v.cohort_mean(here - v.stored) * v.P / v.m
    expected = v.theta[:, None] - step * h / v.lambda2
    keep = still.astype(int)[:, :, None]
    return eq(v.theta_next * keep, expected * keep, v.h[:, None] / v.lambda2 * keep, vector=True)


def _form(
    name: str, latex: str, sides: Any, established: dict[str, Any], *mutants: tuple[str, Any], **more: Any
) -> Form:
    return Form(name, latex, sides, established, mutants=tuple(Mutant(n, s) for n, s in mutants), **more)


def _statement(id: str, title: str, source: str, *forms: Form, kind: str = "statement") -> Statement:
    return Statement(f"fedelasticnet/{id}", title, source, "round", forms, SAMPLED, SYMBOLS, kind)


SIGN_NOTE = "sign(0) = 0 leaves out the subgradient at the zero coordinates"
LAST = r"-\tfrac{2\lambda_1}{\lambda_2}\langle\gamma^{t-1}-\theta_*,\tfrac1m\sum_k%s\rangle"
LAST_SIGN, LAST_S = LAST % r"\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})", LAST % "s_k^t"

STATEMENTS = (
    _statement(
        "lemma-b3",
        "expected move of gamma",
        "Lemma B.3",
        _form(
            "printed",
            r"\mathbb E[\gamma^t-\gamma^{t-1}]=-\frac1{\lambda_2m}\sum_k\nabla L_k(\tilde\theta_k^t)"
            r"-\frac{\lambda_1}{\lambda_2m}\sum_k\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})",
            lambda v: _b3(v, v.lambda1_sign),
            BOTH_FAIL,
            note=SIGN_NOTE,
        ),
        _form(
            "repaired",
            r"\mathbb E[\gamma^t-\gamma^{t-1}]=-\frac1{\lambda_2m}\sum_k(\nabla L_k(\tilde\theta_k^t)+\lambda_1s_k^t)",
            lambda v: _b3(v, v.lambda1_s),
            BOTH_HOLD,
            ("wrong sign of s", lambda v: _b3(v, -v.lambda1_s)),
            ("s dropped", lambda v: _b3(v, 0 * v.lambda1_s)),
        ),
    ),
    _statement(
        "eq-23",
        "first step of Lemma B.3, by (11)",
        "proof of Lemma B.3, (23)",
        _form(
            "printed",
            r"\mathbb E[\gamma^t-\gamma^{t-1}]=\mathbb E\Big[\frac1{\lambda_2P}\sum_{k\in\mathcal P_t}"
            r"(g_k-\nabla L_k(\theta_k^t)-\lambda_1\mathrm{sign}(\theta_k^t-\theta^{t-1}))-\frac1{\lambda_2}h^{t-1}\Big]",
            lambda v: _eq23(v, v.grad_tilde[:, None], v.lambda1_sign[:, None]),
            BOTH_FAIL,
            note=SIGN_NOTE,
        ),
        _form(
            "stored gradient",
            r"\text{the same with what line 5 stores for }\nabla L_k(\theta_k^t)",
            lambda v: _eq23(v, v.stored_next, v.lambda1_sign[:, None]),
            {"sign": "holds", "true-gradient": "violated"},
            ("wrong sign", lambda v: _eq23(v, v.stored_next, -v.lambda1_sign[:, None])),
            note="under the sign rule this is line 5 itself; but then (33) may not use (15)",
        ),
        _form(
            "repaired",
            r"\text{the same with }s_k^t\text{ for sign}",
            lambda v: _eq23(v, v.grad_tilde[:, None], v.lambda1_s[:, None]),
            BOTH_HOLD,
            ("s dropped", lambda v: _eq23(v, v.grad_tilde[:, None], 0 * v.lambda1_s[:, None])),
        ),
    ),
    _statement(
        "eq-24",
        "theta_k replaced by theta_tilde_k on the cohort",
        "proof of Lemma B.3, (24)",
        _form(
            "printed",
            r"\theta_k^t\to\tilde\theta_k^t\ (k\in\mathcal P_t)\text{ in (23)}",
            lambda v: _eq24(v, v.theta),
            BOTH_HOLD,
            ("sign taken from gamma", lambda v: _eq24(v, v.gamma)),
        ),
    ),
    _statement(
        "eq-25",
        "uniform cohorts: the cohort's mean is the clients' mean in expectation",
        "proof of Lemma B.3, (25)",
        _form(
            "printed",
            r"\mathbb E\frac1P\sum_{k\in\mathcal P_t}v_k=\frac1m\sum_{k\in[m]}v_k",
            lambda v: _eq25(v, v.P),
            BOTH_HOLD,
            ("divided by m, not by P", lambda v: _eq25(v, v.m)),
        ),
    ),
    _statement(
        "eq-26",
        "the stored gradients cancel against h (Lemma B.2)",
        "proof of Lemma B.3, (26)",
        _form(
            "printed",
            r"\frac1m\sum_k(g_k-\nabla L_k(\tilde\theta_k^t)-\lambda_1\mathrm{sign})-h^{t-1}"
            r"=-\frac1m\sum_k\nabla L_k(\tilde\theta_k^t)-\frac{\lambda_1}m\sum_k\mathrm{sign}",
            lambda v: _eq26(v, v.h),
            BOTH_HOLD,
            ("h dropped", lambda v: _eq26(v, 0 * v.h)),
        ),
    ),
    _statement(
        "eq-27",
        "h is bounded by C",
        "Appendix B.2, (27) (proof omitted there)",
        _form(
            "printed",
            r"\mathbb E\|h^t\|^2\le C_t",
            lambda v: le(v.E(norm_sq(v.h_next)), v.C_next),
            BOTH_HOLD,
            ("half of C", lambda v: le(v.E(norm_sq(v.h_next)), v.C_next / 2)),
        ),
    ),
    _statement(
        "eq-28",
        "recursion of C",
        "Appendix B.2, (28) (proof omitted there)",
        _form(
            "printed",
            r"C_t\le(1-\tfrac Pm)C_{t-1}+\tfrac{2\beta^2P}m\epsilon_t"
            r"+\tfrac{4\beta P}m\mathbb E[R(\gamma^{t-1})-R(\theta_*)]",
            _eq28,
            {"sign": "violated", "true-gradient": "holds"},
            ("factor 4 dropped", lambda v: _eq28(v, 0)),
            note="the l1 penalty does affect it under the sign rule: stored gradients are off by up to lambda_1 a coordinate",
        ),
        _form(
            "repaired",
            r"C_t\le(1-\tfrac Pm)C_{t-1}+\tfrac Pm\big[3(2\beta^2\epsilon_t+4\beta\,\mathbb E[R(\gamma^{t-1})-R_*])"
            r"+\tfrac32\lambda_1^2z_t\big]",
            _eq28_sign,
            BOTH_HOLD,
            ("floor dropped", lambda v: _eq28_sign(v, with_floor=False)),
            note="tau = 2; z_t is the mean number of zero coordinates of theta_tilde_k - theta",
        ),
    ),
    _statement(
        "eq-29",
        "gamma moves no further than the clients",
        "Appendix B.2, (29) (proof omitted there)",
        _form(
            "printed",
            r"\mathbb E\|\gamma^t-\gamma^{t-1}\|^2\le\frac1m\sum_k\mathbb E\|\tilde\theta_k^t-\gamma^{t-1}\|^2=\epsilon_t",
            lambda v: le(v.move, v.epsilon, noise=v.noise_sq),
            BOTH_HOLD,
            ("half of epsilon", lambda v: le(v.move, v.epsilon / 2, noise=v.noise_sq)),
        ),
    ),
    _statement(
        "lemma-b4",
        "one step of ||gamma - theta*||^2",
        "Lemma B.4, (30)-(31)",
        _form(
            "printed",
            r"\mathbb E\|\gamma^t-\theta_*\|^2\le\|\gamma^{t-1}-\theta_*\|^2-\tfrac2{\lambda_2}(R(\gamma^{t-1})-R_*)"
            r"+\tfrac\beta{\lambda_2}\epsilon_t+\mathbb E\|\gamma^t-\gamma^{t-1}\|^2" + LAST_SIGN,
            lambda v: _b4(v, v.lambda1_sign),
            BOTH_FAIL,
            note=SIGN_NOTE,
        ),
        _form(
            "repaired",
            r"\text{the same with }" + LAST_S,
            lambda v: _b4(v, v.lambda1_s),
            BOTH_HOLD,
            ("sign of the last term", lambda v: _b4(v, v.lambda1_s, last=-1)),
            ("epsilon term dropped", lambda v: _b4(v, v.lambda1_s, quadratic=0)),
        ),
    ),
    _statement(
        "eq-32",
        "the square expanded, Lemma B.3 put in",
        "proof of Lemma B.4, (32)",
        _form(
            "printed",
            r"\mathbb E\|\gamma^t-\theta_*\|^2=\|\gamma^{t-1}-\theta_*\|^2+\mathbb E\|\gamma^t-\gamma^{t-1}\|^2"
            r"+\tfrac2{\lambda_2m}\sum_k\langle\gamma^{t-1}-\theta_*,-\nabla L_k(\tilde\theta_k^t)-\lambda_1\mathrm{sign}\rangle",
            lambda v: _eq32(v, v.lambda1_sign),
            BOTH_FAIL,
            note=SIGN_NOTE,
        ),
        _form(
            "repaired",
            r"\text{the same with }s_k^t\text{ for sign}",
            lambda v: _eq32(v, v.lambda1_s),
            BOTH_HOLD,
            ("s dropped", lambda v: _eq32(v, 0 * v.lambda1_s)),
        ),
    ),
    _statement(
        "eq-33",
        "(15) applied to each client",
        "proof of Lemma B.4, (33)",
        _form(
            "printed",
            r"\text{(32)}\le\dots+\tfrac2{\lambda_2m}\sum_k\mathbb E[L_k(\theta_*)-L_k(\gamma^{t-1})"
            r"+\tfrac\beta2\|\tilde\theta_k^t-\gamma^{t-1}\|^2]+\dots",
            lambda v: _eq33(v, v.lambda1_sign),
            BOTH_HOLD,
            ("quadratic term dropped", lambda v: _eq33(v, v.lambda1_sign, quadratic=0)),
        ),
    ),
    _statement(
        "eq-34",
        "definitions of R and epsilon put in",
        "proof of Lemma B.4, (34)",
        _form(
            "printed",
            r"\text{(33)}=\dots-\tfrac2{\lambda_2}\mathbb E[R(\gamma^{t-1})-R(\theta_*)]+\tfrac\beta{\lambda_2}\epsilon_t+\dots",
            lambda v: _eq34(v, v.lambda1_sign),
            BOTH_HOLD,
            ("factor 1 for 2", lambda v: _eq34(v, v.lambda1_sign, excess=1)),
        ),
    ),
    _statement(
        "eq-35",
        "the mean taken inside the inner product",
        "proof of Lemma B.4, (35)",
        _form(
            "printed",
            r"\tfrac1m\sum_k\langle\gamma^{t-1}-\theta_*,\mathrm{sign}_k\rangle"
            r"=\langle\gamma^{t-1}-\theta_*,\tfrac1m\sum_k\mathrm{sign}_k\rangle",
            lambda v: _eq35(v, v.lambda1_sign),
            BOTH_HOLD,
            ("last term twice", lambda v: _eq35(v, v.lambda1_sign, factor=2)),
        ),
    ),
    _statement(
        "lemma-b5",
        "drift of the clients",
        "Lemma B.5",
        _form(
            "printed",
            r"(1-5\tfrac{\beta^2}{\lambda_2^2})\epsilon_t\le\tfrac{10}{\lambda_2^2}C_{t-1}"
            r"+\tfrac{10\beta}{\lambda_2^2}\mathbb E[R(\gamma^{t-1})-R_*]+\tfrac{5\lambda_1^2}{\lambda_2^2}d",
            _b5,
            BOTH_HOLD,
            ("C dropped", lambda v: _b5(v, c_factor=0)),
            note="true although (36) in its proof is not: |s| <= 1 is all that is used; and its last term is not needed "
            "(fedelasticnet/lemma-no-l1-floor)",
        ),
    ),
    _statement(
        "eq-36",
        "epsilon in terms of the gradients, by (11)",
        "proof of Lemma B.5, (36)",
        _form(
            "printed",
            r"\epsilon_t=\tfrac1{\lambda_2^2m}\sum_k\mathbb E\|g_k-\nabla L_k(\tilde\theta_k^t)"
            r"-\lambda_1\mathrm{sign}(\theta_k^t-\theta^{t-1})-h^{t-1}\|^2",
            lambda v: _eq36(v, _sign_of_cohort(v)),
            BOTH_FAIL,
            note="theta_k^t should be theta_tilde_k^t (a client that stays away keeps theta_k^{t-1}), and sign(0) = 0",
        ),
        _form(
            "theta_tilde only",
            r"\text{the same with }\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})",
            lambda v: _eq36(v, v.lambda1_sign),
            BOTH_FAIL,
            note="sign(0) = 0 alone already breaks it",
        ),
        _form(
            "repaired",
            r"\text{the same with }s_k^t",
            lambda v: _eq36(v, v.lambda1_s),
            BOTH_HOLD,
            ("s dropped", lambda v: _eq36(v, 0 * v.lambda1_s)),
        ),
    ),
    _statement(
        "eq-37",
        "split into five by (17)",
        "proof of Lemma B.5, (37)",
        _form(
            "printed",
            r"\text{(36)}\le\tfrac5{\lambda_2^2}[C_{t-1}+\tfrac1m\sum\|\nabla L_k(\gamma^{t-1})-\nabla L_k(\theta_*)\|^2"
            r"+\tfrac1m\sum\|\nabla L_k(\tilde\theta_k^t)-\nabla L_k(\gamma^{t-1})\|^2+\|\lambda_1\mathrm{sign}\|^2+\|h\|^2]",
            lambda v: le(_eq36_rhs(v, _sign_of_cohort(v)), *_eq37_rhs(v, _sign_of_cohort(v))),
            BOTH_HOLD,
            ("factor 1 for 5", lambda v: le(_eq36_rhs(v, _sign_of_cohort(v)), *_eq37_rhs(v, _sign_of_cohort(v), 1))),
            note="read with (1/m) sum over the sign term, whose index is free as printed, and gamma for gamma_k",
        ),
    ),
    _statement(
        "eq-38",
        "|sign| <= 1 and (27)",
        "proof of Lemma B.5, (38)",
        _form(
            "printed",
            r"\|\lambda_1\mathrm{sign}\|^2\le\lambda_1^2d,\quad\|h^{t-1}\|^2\le C_{t-1}",
            lambda v: le(_total(_eq37_rhs(v, _sign_of_cohort(v))), *_eq38_rhs(v)),
            BOTH_HOLD,
            ("d dropped", lambda v: le(_total(_eq37_rhs(v, v.lambda1_s)), *_eq38_rhs(v, d=0))),
        ),
    ),
    _statement(
        "eq-39",
        "C, smoothness and (16) put in",
        "proof of Lemma B.5, (39)",
        _form(
            "printed",
            r"\text{(38)}\le\tfrac5{\lambda_2^2}[2C_{t-1}+2\beta\mathbb E(R(\gamma^{t-1})-R_*)+\beta^2\epsilon_t+\lambda_1^2d]",
            lambda v: le(
                _total(_eq38_rhs(v)), *_eq39_rhs(v), noise=10 * v.beta * v.noise_D / (v.lambda2 * v.lambda2)
            ),
            BOTH_HOLD,
            ("gap dropped", lambda v: le(_total(_eq38_rhs(v)), *_eq39_rhs(v, gap=0))),
        ),
    ),
    _statement(
        "lemma-diagonal",
        "shrinking coordinates before averaging does not cost",
        "our repair: the lemma behind 'no l1 floor'",
        _form(
            "repaired",
            r"h=\tfrac1m\sum_kc_k,\ D_k=\mathrm{diag}\in[0,1]\ \Rightarrow\ "
            r"\tfrac1m\sum_k\|D_kc_k-h\|^2\le\tfrac1m\sum_k\|c_k\|^2",
            _diagonal,
            BOTH_HOLD,
            ("half of the right side", lambda v: _diagonal(v, 1 / (2 * v.P / v.P))),
        ),
        kind="sharpened",
    ),
    _statement(
        "lemma-no-l1-floor",
        "Lemma B.5 without its l1 floor",
        "our repair: sharpens Lemma B.5",
        _form(
            "repaired",
            r"(1-3\tfrac{\beta^2}{\lambda_2^2})\epsilon_t\le\tfrac3{\lambda_2^2}C_{t-1}"
            r"+\tfrac{6\beta}{\lambda_2^2}\mathbb E[R(\gamma^{t-1})-R_*]",
            _no_floor,
            BOTH_HOLD,
            ("ten times smaller", lambda v: le(*_shrunk(_no_floor(v), 10))),
        ),
        kind="sharpened",
    ),
    _statement(
        "eq-40",
        "Lemma B.4 plus kappa times (28)",
        "proof of Theorem B.6, (40)",
        _form(
            "printed",
            r"\mathbb E\|\gamma^t-\theta_*\|^2+\kappa C_t\le\dots" + LAST_SIGN,
            lambda v: _eq40(v, v.lambda1_sign),
            BOTH_FAIL,
            threshold=PRINTED_THRESHOLD,
            note=SIGN_NOTE,
        ),
        _form(
            "repaired",
            r"\text{exact }s_k^t\text{, and (28) as repaired}",
            lambda v: _eq40(v, v.lambda1_s, sign_floor=v.rule == "sign"),
            BOTH_HOLD,
            ("last term dropped", lambda v: _eq40(v, 0 * v.lambda1_s, sign_floor=v.rule == "sign")),
            threshold=REPAIRED_THRESHOLD,
        ),
    ),
    _statement(
        "eq-41",
        "(29) put in",
        "proof of Theorem B.6, (41)",
        _form(
            "printed",
            r"\kappa\tfrac{2\beta^2P}m\epsilon_t+\tfrac\beta{\lambda_2}\epsilon_t+\mathbb E\|\gamma^t-\gamma^{t-1}\|^2"
            r"\le(\kappa\tfrac{2\beta^2P}m+\tfrac\beta{\lambda_2}+1)\epsilon_t",
            _eq41,
            BOTH_HOLD,
            ("epsilon halved", lambda v: _eq41(v, 1 / (2 * v.P / v.P))),
            threshold=PRINTED_THRESHOLD,
        ),
    ),
    Statement(
        "fedelasticnet/eq-41-chain",
        "the chain of equalities after (41), and kappa_0",
        "proof of Theorem B.6, after (41)",
        "algebra",
        (
            Form(
                "printed",
                r"\kappa\tfrac{2\beta^2P}m+\tfrac\beta{\lambda_2}+1"
                r"=\tfrac{\lambda_2(\lambda_2+\beta)}{\lambda_2^2-25\beta^2}(1-5\tfrac{\beta^2}{\lambda_2^2})=\dots",
                None,
                {"any": "holds"},
                symbolic=chain_after_41,
            ),
        ),
        (),
        SYMBOLS,
    ),
    Statement(
        "fedelasticnet/constants",
        "kappa_0, its threshold, and the constants of Theorems A and B",
        "Theorem B.1 and our repairs",
        "algebra",
        (
            Form(
                "printed",
                r"\lambda_2>27\beta\Rightarrow\kappa_0>0\ \ (\text{exactly }\lambda_2>\tfrac{25+\sqrt{825}}2\beta)",
                None,
                {"any": "holds"},
                symbolic=constants_identities,
                note="the paper says kappa is positive; kappa_0 is meant",
            ),
        ),
        (),
        SYMBOLS,
    ),
    _statement(
        "theorem-b6",
        "one step of the potential",
        "Theorem B.6",
        _form(
            "printed",
            r"\kappa_0\mathbb E[R(\gamma^{t-1})-R_*]\le(\mathbb E\|\gamma^{t-1}-\theta_*\|^2+\kappa C_{t-1})"
            r"-(\mathbb E\|\gamma^t-\theta_*\|^2+\kappa C_t)+\kappa\tfrac P{2m}\lambda_1^2" + LAST_SIGN,
            lambda v: _b6(v, 1, v.lambda1_sign),
            BOTH_FAIL,
            threshold=PRINTED_THRESHOLD,
            note="sign(0) = 0, and the factor d is missing",
        ),
        _form(
            "repaired",
            r"\dots+\kappa\tfrac P{2m}\lambda_1^2d" + LAST_S,
            lambda v: _b6(v, v.d, v.lambda1_s),
            BOTH_HOLD,
            ("kappa a hundred times smaller", lambda v: _b6(v, v.d, v.lambda1_s, kappa_scale=1 / (100 * v.P / v.P))),
            ("last term dropped", lambda v: _b6(v, 0, 0 * v.lambda1_s)),
            threshold=REPAIRED_THRESHOLD,
            note="true for both rules, though the printed proof uses (28), which the sign rule breaks",
        ),
        _form(
            "d missing",
            r"\dots+\kappa\tfrac P{2m}\lambda_1^2" + LAST_S,
            lambda v: _b6(v, 1, v.lambda1_s),
            {"sign": "violated", "true-gradient": "holds"},
            ("kappa a hundred times smaller", lambda v: _b6(v, 1, v.lambda1_s, kappa_scale=1 / (100 * v.P / v.P))),
            threshold=PRINTED_THRESHOLD,
            note="exact s, but no factor d: the sign rule breaks it from about five coordinates on",
        ),
        _form(
            "no floor",
            r"\dots+0" + LAST_S,
            lambda v: _b6(v, 0, v.lambda1_s),
            {"sign": "violated", "true-gradient": "holds"},
            ("kappa a hundred times smaller", lambda v: _b6(v, 0, v.lambda1_s, kappa_scale=1 / (100 * v.P / v.P))),
            threshold=REPAIRED_THRESHOLD,
            note="the true-gradient rule needs no l1 floor, with the paper's own kappa; a stalled state shows the sign rule does",
        ),
        _form(
            "sharpened",
            r"\dots+0.4125\,a\lambda_1^2z_t" + LAST_S,
            lambda v: _b6_zeros(v),
            {"sign": "holds"},
            ("kappa a hundred times smaller", lambda v: _b6_zeros(v, 1 / (100 * v.P / v.P))),
            threshold=REPAIRED_THRESHOLD,
            note="the floor counts only the zero coordinates: there the stored gradient stays what it was",
        ),
    ),
    _statement(
        "theorem-a-step",
        "one step of Theorem A's potential",
        "our repair: Theorem A, one round",
        _form(
            "repaired",
            r"\kappa_0^AD\le(A+\kappa^AC)_{t-1}-\mathbb E(A+\kappa^AC)_t" + LAST_S,
            lambda v: potential_step(v, v.constants.theorem_a, 0 * v.D, v.lambda1_s),
            {"true-gradient": "holds"},
            (
                "kappa ten times smaller",
                lambda v: potential_step(v, v.constants.theorem_a, 0 * v.D, v.lambda1_s, 1 / (10 * v.P / v.P)),
            ),
            ("last term dropped", lambda v: potential_step(v, v.constants.theorem_a, 0 * v.D, 0 * v.lambda1_s)),
            threshold=THEOREM_A_THRESHOLD,
        ),
        kind="sharpened",
    ),
    _statement(
        "theorem-b-step",
        "one step of Theorem B's potential",
        "our repair: Theorem B, one round, tau = 2",
        _form(
            "repaired",
            r"\kappa_0^BD\le(A+\kappa^BC)_{t-1}-\mathbb E(A+\kappa^BC)_t+\tfrac32a^B\lambda_1^2z_t" + LAST_S,
            _theorem_b_step,
            {"sign": "holds"},
            ("floor dropped", lambda v: _theorem_b_step(v, with_floor=False)),
            threshold=THEOREM_B_THRESHOLD,
        ),
        kind="sharpened",
    ),
    _statement(
        "sag-identity",
        "while nobody moves, the true-gradient rule is SAG with step 1/lambda_2",
        "our reading: identity",
        _form(
            "repaired",
            r"\delta_k=0\ (k\in\mathcal P_t)\ \Rightarrow\ \theta^t=\theta^{t-1}-\tfrac1{\lambda_2}"
            r"\big(h^{t-1}+\tfrac1m\sum_{k\in\mathcal P_t}(\nabla L_k(\theta^{t-1})-g_k)\big)",
            _sag,
            {"true-gradient": "holds"},
            ("step doubled", lambda v: _sag(v, step=2)),
        ),
        kind="sharpened",
    ),
)


def _shrunk(sides: Sides, factor: int) -> tuple[Any, Any]:
    return sides.lhs, sides.rhs / factor
