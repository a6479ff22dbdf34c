"""EFL, sections 4.2 and 4.4: whether a coefficient acts as a learning rate, and what is concluded
from Theorem 2.

On quadratics s local steps of client k move the coordinate with curvature h from w towards its
minimiser c by phi_s(eta h)(c - w), phi_s(x) = 1 - (1 - x)^s. This phi_s is concave on [0, 1] with
phi_s(0) = 0, whence everything about coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, integer, table, text, vector
from fedtheory.theorems.efl.notation import BUILDERS, statement
from fedtheory.theorems.efl.statements.section_4_runs import QuadraticClients
from fedtheory.theorems.efl.statements.theorem_2 import shift_view
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le
from fedtheory.theory.judge.symbolic import Letters, closed

__all__ = ["STATEMENTS", "CoefficientView", "SamplesView"]

ONE_STEP, SEVERAL = "one local step", "more than one local step"
QUADRATIC, BENT = "quadratic losses", "an F_a of one coordinate with two curvatures"
OUTWARD = BENT + ", which does not fall away from a's minimiser"


# --- 4.2: coefficients and learning rates ---------------------------------------------------------
@dataclass
class CoefficientView(ClosedView):
    """One round of one client, in the coordinates of its Hessian.

    Attributes
    ----------
    h, away : (d,) curvatures, and c - w
    eta, E, s : the step, the most local steps, and those that are done
    factor : how many times p^k the coefficient is, or how many times eta the step is
    """

    h: np.ndarray
    away: np.ndarray
    eta: Any
    E: int
    s: int
    factor: Any
    noise: Any = 0

    def __post_init__(self) -> None:
        self.facts = frozenset({ONE_STEP} if self.s == 1 else {SEVERAL})

    @property
    def distance(self) -> np.ndarray:
        """|c - w|, (d,)."""
        return abs(self.away)

    def share(self, steps: int, times: Any = 1) -> np.ndarray:
        """Return the part >= 0 of c - w that so many steps of size ``times`` eta go, (d,)."""
        return 1 - (1 - times * self.eta * self.h) ** steps

    def moved(self, steps: int, times: Any = 1) -> np.ndarray:
        """Return how these steps move the model, (d,)."""
        return self.share(steps, times) * self.away

    def length(self, steps: int, times: Any = 1) -> np.ndarray:
        """Return how far they move it, (d,)."""
        return self.share(steps, times) * self.distance

    def square(self, share: Any) -> np.ndarray:
        """share (eta h)^2 |c - w|."""
        return share * (self.eta * self.h) ** 2 * self.distance

    def printed_constants(self) -> dict[str, Any]:
        return {"eta": text(self.eta), "E": self.E, "s": self.s, "factor": text(self.factor)}


@BUILDERS.add("coefficient")
def coefficient_view(data: dict[str, Any]) -> CoefficientView:
    """From h and away (d numbers each), eta, E, s and factor >= 1. Raises `InvalidInput` where factor eta h exceeds 1."""
    h, away, eta, factor = vector(data["h"], "h"), vector(data["away"], "away"), fraction(data["eta"], "eta"), fraction(data["factor"])
    most = integer(data["E"], "E", 1, 100)
    if h.shape != away.shape or h.min() <= 0 or eta <= 0 or factor < 1 or factor * eta * h.max() > 1:
        raise InvalidInput("h > 0 and away: one number a coordinate; eta > 0, factor >= 1, and factor eta h at most 1")
    return CoefficientView(h, away, eta, most, integer(data["s"], "s", 1, most), factor)


class _Coefficient(Letters):
    """A round of one client; how far it moves is the view's."""

    share, moved = CoefficientView.share, CoefficientView.moved
    length, square = CoefficientView.length, CoefficientView.square


ROUND = _Coefficient(
    {"h": "h", "away": r"(c_k-\omega_0)", "distance": r"|c_k-\omega_0|", "eta": r"\eta", "E": "E", "s": "s", "factor": "c"},
    ("away", "distance"), zero=("noise",),
)  # fmt: skip


def _equivalent(v: CoefficientView, tenths: int = 10) -> Sides:
    """factor times s steps of eta, against s steps of factor eta."""
    return eq(tenths * v.factor * v.moved(v.s) / 10, v.moved(v.s, v.factor), v.factor * abs(v.away))


def _further(v: CoefficientView) -> Sides:
    return le(v.length(v.s, v.factor), v.factor * v.length(v.s), noise=v.noise)


def _excess(v: CoefficientView, tenths: int = 10) -> Sides:
    """(factor phi_s(x) - phi_s(factor x))|c - w| <= s(s-1)/2 factor (factor - 1) x^2 |c - w|."""
    over = v.factor * v.length(v.s) - v.length(v.s, v.factor)
    room = v.square(tenths * v.s * (v.s - 1) * v.factor * (v.factor - 1) / 20)
    return le(over, room, noise=v.noise)


def _scaled(v: CoefficientView, moved: Any) -> np.ndarray:
    """E/s times what s steps do."""
    return v.E * moved / v.s


def _over(v: CoefficientView, tenths: int = 10) -> Sides:
    """(E/s phi_s(x) - phi_E(x))|c - w| <= E(E-s)/2 x^2 |c - w|."""
    room = v.square(tenths * v.E * (v.E - v.s) * v.factor / (20 * v.factor))
    return le(_scaled(v, v.length(v.s)) - v.length(v.E), room, noise=v.noise)


# --- after Theorem 2 ------------------------------------------------------------------------------
@dataclass
class SamplesView(ClosedView):
    """The bounds of Theorem 2 for quadratics, with all samples of client a, with fewer, and with data more alike.

    Attributes
    ----------
    clients : the losses, client a last
    samples : (N,) of every client
    fewer : samples of a, fewer than it has
    closer : the factor that draws all minimisers together
    L, mu : smoothness and strong convexity of all clients
    bent : of one coordinate, data of kind 'shift' with a bend in F_a; None for quadratics
    """

    clients: QuadraticClients
    samples: np.ndarray
    fewer: Any
    closer: Any
    L: Any
    mu: Any
    noise: Any = 0
    bent: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.facts = frozenset({QUADRATIC} if self.bent is None else {BENT, OUTWARD} if self._steepens else {BENT})

    @property
    def _steepens(self) -> bool:
        """True if F_a's curvature left of the bend is at least that at its minimiser."""
        bent = self.bent or {}
        return fraction(bent["below"], "below") >= fraction(bent["h"][-1][0], "h")

    def bent_bound(self, n_a: Any = None) -> Any:
        """(11) repaired where F_a has a bend."""
        samples = [str(v) for v in (*self.samples[:-1], self.samples[-1] if n_a is None else n_a)]
        v = shift_view({"event": "arrival", "samples": samples, **(self.bent or {})})
        return 2 * v.L * v.n_a**2 * v.D_new / (v.mu * v.n) ** 2

    def bound(self, event: str, n_a: Any = None, closer: Any = 1, repaired: bool = False) -> Any:
        """(10), or (11) as printed or as repaired."""
        samples = self.samples.copy()
        samples[-1] = self.samples[-1] if n_a is None else n_a
        weights = samples.copy()
        if event == "departure":
            weights[-1] = 0 * weights[-1]
        clients = QuadraticClients(self.clients.H, closer * self.clients.b)
        gap = clients.gap(len(samples) - 1, clients.argmin(weights / weights.sum()))
        below = samples[:-1].sum() if repaired else samples.sum()
        return (2 if repaired else 8) * self.L * samples[-1] ** 2 * gap / (self.mu * below) ** 2

    def printed_constants(self) -> dict[str, Any]:
        return {"n_a": text(self.samples[-1]), "fewer": text(self.fewer), "closer": text(self.closer)}


@BUILDERS.add("samples")
def samples_view(data: dict[str, Any]) -> SamplesView:
    """From samples, h, c (client a last), fewer (below its samples), closer (between 0 and 1),
    optional bend and below of F_a."""
    samples, h, c = vector(data["samples"], "samples"), table(data["h"], "h"), table(data["c"], "c")
    fewer, closer = fraction(data["fewer"], "fewer"), fraction(data["closer"], "closer")
    if h.shape != c.shape or len(h) != len(samples) or len(h) < 2 or samples.min() <= 0 or h.min() <= 0:
        raise InvalidInput("samples > 0, h > 0 and c: at least two clients, a row of d numbers each")
    if not 0 < fewer < samples[-1] or not 0 < closer < 1:
        raise InvalidInput("fewer must lie between 0 and client a's samples, closer between 0 and 1")
    bent = {name: data[name] for name in ("h", "c", "bend", "below")} if "bend" in data else None
    return SamplesView(QuadraticClients.diagonal(h, c), samples, fewer, closer, h.max(), h.min(), bent=bent)


def _fewer(v: SamplesView, event: str, repaired: bool = False, tenths: int = 10) -> Sides:
    return le(v.bound(event, v.fewer, 1, repaired), tenths * v.bound(event, None, 1, repaired) / 10, noise=v.noise)


def _bent(v: SamplesView, tenths: int = 10) -> Sides:
    """(11) repaired where F_a has a bend."""
    return le(v.bent_bound(v.fewer), tenths * v.bent_bound() / 10, noise=v.noise)


def _alike(v: SamplesView, power: int = 2) -> Sides:
    """Every bound with minimisers drawn together by a factor is its square times the bound."""
    cases = (("departure", False), ("arrival", False), ("arrival", True))
    closer = np.stack([v.bound(event, None, v.closer, repaired) for event, repaired in cases])
    return eq(closer, v.closer**power * np.stack([v.bound(event, None, 1, repaired) for event, repaired in cases]), noise=v.noise)


FEWER = r"n_a'<n_a\Rightarrow"
STEPS = r"\omega-\omega_0\text{ of }s\text{ steps }%s"
QUADRATICS = ("a quadratic client, full gradients, factor times eta at most 1/L", "factor >= 1")

STATEMENTS = (
    statement(
        "coefficient-as-step",
        "whether a larger coefficient acts as a larger learning rate, and makes up for missing steps",
        "section 4.2",
        closed(
            "equivalent", ROUND, _equivalent,
            "violated", kind="coefficient", needs=(SEVERAL,), wording="in words",
            note="from the second local step on the gradients are taken at other points",
        ),
        closed(
            "one local step", ROUND, _equivalent, "holds", ("nine tenths of it", lambda v: _equivalent(v, 9)), before=r"s=1:\ ",
            kind="coefficient", needs=(ONE_STEP,),
            proof="one step is linear in its size",
        ),
        closed(
            "further", ROUND, _further, "holds",
            ("the other way round", lambda v: le(v.factor * v.length(v.s), v.length(v.s, v.factor))),
            after=r",\ c\ge1,\ c\eta h\le1", kind="coefficient",
            note="on quadratics the larger coefficient moves the model at least as far as the larger step would. "
            "1 - (1 - x)^s is concave",
            proof="docs/efl_sentences.md#coefficients-as-learning-rates",
        ),
        closed(
            "by how much", ROUND, _excess, "holds",
            ("nine tenths of it", lambda v: _excess(v, 9)), kind="coefficient",
            note="an equality for s <= 2: equivalent to first order in eta",
            proof="docs/efl_sentences.md#coefficients-as-learning-rates",
        ),
        closed(
            "compensates", ROUND, lambda v: eq(_scaled(v, v.moved(v.s)), v.moved(v.E), _scaled(v, v.length(v.s))),
            "violated", kind="coefficient", note="scheme C's E/s, of a client that stops after s of E steps: it goes further than E "
            "steps",
        ),
        closed(
            "at least compensates", ROUND,
            lambda v: le(v.length(v.E), _scaled(v, v.length(v.s)), noise=v.noise), "holds",
            ("with s for E", lambda v: le(v.length(v.E), v.length(v.s))),
            ("nine tenths of it", lambda v: le(v.length(v.E), 9 * _scaled(v, v.length(v.s)) / 10)), kind="coefficient",
            proof="docs/efl_sentences.md#coefficients-as-learning-rates",
        ),
        closed(
            "at most", ROUND, _over, "holds",
            ("nine tenths of it", lambda v: _over(v, 9)), kind="coefficient", note="attained at s = 1, E = 2",
            proof="docs/efl_sentences.md#coefficients-as-learning-rates",
        ),
        assumptions=QUADRATICS,
    ),
    statement(
        "theorem-2-conclusion",
        "whether the bounds shrink with fewer samples and with data more alike",
        "section 4.4, after Theorem 2",
        form(
            "(11), fewer samples", FEWER + r"\tfrac{8Ln_a'^2\hat D_a'}{\mu^2(n+n_a')^2}\le\tfrac{8Ln_a^2\hat D_a}{\mu^2(n+n_a)^2}",
            lambda v: _fewer(v, "arrival"), "violated", kind="samples", needs=(QUADRATIC,), wording="in words",
            note="hat D_a falls while a has more to say: for equal curvatures the printed bound falls again from n_a = n on",
        ),
        form(
            "(11) repaired, fewer samples", FEWER + r"\tfrac{2Ln_a'^2\hat D_a'}{\mu^2n^2}\le\tfrac{2Ln_a^2\hat D_a}{\mu^2n^2}",
            lambda v: _fewer(v, "arrival", True), "holds",
            ("the other way round", lambda v: le(v.bound("arrival", None, 1, True), v.bound("arrival", v.fewer, 1, True))),
            ("nine tenths of it", lambda v: _fewer(v, "arrival", True, 9)), kind="samples", needs=(QUADRATIC,),
            note="quadratics: with g = grad F_a(hat omega*) and r = n_a/n the derivative of r^2 hat D_a is at least "
            "r (2 hat D_a - g' H_a^{-1} g) = 0",
            proof="docs/efl_sentences.md#fewer-samples-data-more-alike",
        ),
        form(
            "(11) repaired, fewer samples, any loss", FEWER + r"\tfrac{2Ln_a'^2\hat D_a'}{\mu^2n^2}\le\tfrac{2Ln_a^2\hat "
            r"D_a}{\mu^2n^2}",
            _bent, "violated", kind="samples", needs=(BENT,),
            note="where F_a is flat on the others' side and steep on its own, hat D_a falls faster than n_a^2 rises",
        ),
        form(
            "(11) repaired, fewer samples, steeper outwards", FEWER + r"\tfrac{2Ln_a'^2\hat D_a'}{\mu^2n^2}\le"
            r"\tfrac{2Ln_a^2\hat D_a}{\mu^2n^2}", lambda v: _bent(v), "holds",
            ("the other way round", lambda v: le(v.bent_bound(), v.bent_bound(v.fewer))),
            ("nine tenths of it", lambda v: _bent(v, 9)), kind="samples", needs=(OUTWARD,),
            note="the proof asks of F_a of one coordinate no more than that its second derivative does not fall on the way from a's "
            "minimiser to the others. However little it falls, there are others for whom the bound rises",
            proof="docs/efl_sentences.md#fewer-samples-data-more-alike",
        ),
        form(
            "(10), fewer samples", FEWER + r"\tfrac{8Ln_a'^2\hat D_a}{\mu^2(n-n_a+n_a')^2}\le\tfrac{8Ln_a^2\hat D_a}{\mu^2n^2}",
            lambda v: _fewer(v, "departure"), "holds",
            ("the other way round", lambda v: le(v.bound("departure"), v.bound("departure", v.fewer))),
            ("nine tenths of it", lambda v: _fewer(v, "departure", tenths=9)), kind="samples", needs=(QUADRATIC,),
            note="the new optimum does not depend on a; the others keep their n - n_a samples",
            proof=(
                "hat D_a does not depend on n_a, and n_a/n rises with n_a, as the others keep n - "
                "n_a"
            ),
        ),
        form(
            "more alike", r"c_k\to t\,c_k\text{ for all }k:\ \text{the bounds }(10),(11)\to t^2\text{ times "
            r"themselves}", _alike, "holds",
            ("t for t^2", lambda v: _alike(v, 1)), kind="samples", needs=(QUADRATIC,),
            note="quadratics; 'more IID' as minimisers drawn together, to which no bound is indifferent",
            proof="the optima are linear in the c_k, and the gaps quadratic",
        ),
        assumptions=("quadratics with minimisers c_k; L and mu of all clients do not change",),
    ),
)  # fmt: skip
