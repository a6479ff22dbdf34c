"""Moreau's envelope: what minimum and minimiser of Psi, the regularised problem, say of F."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import table, vector
from fedtheory.theorems.fedmls import of_files
from fedtheory.theorems.fedmls.lines import kinks, mean, value
from fedtheory.theorems.fedmls.of_files import InFractions, entry, quarter
from fedtheory.theorems.fedmls.paper import paper
from fedtheory.theory import anything, form, le, number, wrong

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
ASSUMPTIONS = (
    "every f_i is convex, and no subgradient on X' is longer than G_i; G^2 = (1/N) sum_i G_i^2",
    "X is closed, convex and in X'; Psi has a minimiser (x^, u^) over x in X, u_i in X'",
)
SYMBOLS = {
    "Psi(x, u)": "(1/N) sum_i [f_i(u_i) + ||x - u_i||^2/(2 lambda)]",
    "x^": "the x-part of a minimiser of Psi",
    "F*, F(x^)": "EnvelopeView.F_star, EnvelopeView.F_at",
    "Psi*": "EnvelopeView.psi_star",
}


class Loss(NamedTuple):
    """f(x) = max_j <slopes_j, x - u> - drops_j, with the prox u."""

    u: np.ndarray
    slopes: np.ndarray
    drops: np.ndarray

    def values(self, x: np.ndarray) -> np.ndarray:
        """The pieces at x."""
        return self.slopes @ (x - self.u) - self.drops


def mean_loss(losses: Sequence[Loss], x: np.ndarray) -> Fraction:
    """F(x)."""
    return mean([loss.values(x).max() for loss in losses])


def in_the_plane(b: Fraction, t: Fraction) -> dict[str, Any]:
    """Two clients in the plane where F at Psi's minimiser 0 is (b - 1/2)/2 above F*.

    They are max((1 + 2 u_1)/4, b (u_1 + 1/2) + t u_2) and its mirror image in u_1, with
    b^2 + t^2 = 1 = lambda. As b tends to 1 the difference tends to lambda G^2/4.
    """
    zero, one = Fraction(0), Fraction(1)
    return {
        "lam": one, "u": [[-HALF, zero], [HALF, zero]], "drops": [[zero] * 2] * 2,
        "slopes": [[[HALF, zero], [b, t]], [[-HALF, zero], [-b, t]]],
        "star": [zero, (QUARTER - b / 2) / t], "multipliers": [[one, zero]] * 2,
    }


@dataclass
class EnvelopeView(InFractions):
    """Minimisers of Psi and of F, in fractions.

    Its data are lam and of every client the prox u_i (a row of d), slopes and drops. The first
    slope is v_i = -u_i/lam with drop 0, and no drop is below 0. The losses are f_i(u) = max_j
    <slopes_ij, u - u_i> - drops_ij. As v_i is a subgradient at u_i, the x-part 0 and the u_i
    minimise Psi: over x in R^d where mean_i u_i = 0, and in one dimension else over the half-line X
    that begins at 0 and that the mean of the v_i points into. In more dimensions F* is certified by
    a minimiser "star" and multipliers of the pieces that are largest there.

    Attributes
    ----------
    lam, G_sq : lambda, and (1/N) sum_i G_i^2
    psi_star, F_star : min Psi over x in X and x' in R^{Nd}, min F over X
    F_at : F at the x-part of Psi's minimiser
    """

    lam: Fraction
    G_sq: Fraction
    psi_star: Fraction
    F_star: Fraction
    F_at: Fraction

    kind, family, scope = "envelope", "Moreau's envelope", "envelope"
    about, count = "about minimisers, whatever the method", 30
    reads: ClassVar = {
        "lam": number(above=0), "u": number("N d"), "slopes": anything(), "drops": anything(),
        "star": number("d", default=None), "multipliers": anything(default=()),
    }  # fmt: skip
    fixed = (("two clients in the plane", in_the_plane(Fraction(40, 41), Fraction(9, 41))),)

    @classmethod
    def made(
        cls, lam: Fraction, u: np.ndarray, slopes: Any, drops: Any, star: Any, multipliers: Any
    ) -> Self:
        """Make the losses, and find both minima."""
        drops = [vector(row, f"drops[{i}]") for i, row in enumerate(drops)]
        slopes = [table(rows, f"slopes[{i}]") for i, rows in enumerate(slopes)]
        alike = len(u) == len(slopes) == len(drops)
        if not alike or any(
            len(a) != len(s) or a.shape[1] != u.shape[1]
            for a, s in zip(slopes, drops, strict=True)
        ):
            raise InvalidInput(
                "u, slopes and drops must name the same clients, with as many drops as slopes, "
                "all of one dimension"
            )
        losses = [Loss(*each) for each in zip(u, slopes, drops, strict=True)]
        for i, loss in enumerate(losses):
            tangent = loss.drops[0] == 0 and (loss.slopes[0] * lam == -loss.u).all()
            if not tangent or min(loss.drops) < 0:
                raise InvalidInput(
                    f"client {i}: the first slope must be -u_i/lam with drop 0, "
                    "and no drop may be below 0"
                )
        lean = -u.sum(axis=0)  # N lam times the mean of the v_i
        if len(lean) > 1 and lean.any():
            raise InvalidInput(
                "the u_i must add up to 0 in more than one dimension, where X is all of R^d"
            )
        least = certified(losses, star, multipliers) if len(lean) > 1 else (
            least_in_line(losses, lean[0])
        )
        g_sq = mean([(a * a).sum(axis=1).max() for a in slopes])
        psi = (u * u).sum() / (2 * lam * len(u))
        return cls(lam, g_sq, psi, least, mean_loss(losses, 0 * lean))

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, dict[str, Any]]:
        """Draw clients on the line, X all of it or a half-line."""
        n, lam = int(rng.integers(1, 5)), of_files.lam(rng)
        u = [quarter(rng) for _ in range(n)]
        if n > 1 and rng.random() < 0.7:  # X is the whole line
            u[-1] = -sum(u[:-1], Fraction(0))
        slopes, drops = [], []
        for point in u:
            more = int(rng.integers(0, 3))
            slopes.append([[-point / lam], *([quarter(rng, 12)] for _ in range(more))])
            drops.append([Fraction(0), *(abs(quarter(rng, 6)) for _ in range(more))])
        steep = 1 + sum((abs(p[0]) for rows in slopes for p in rows), Fraction(0))
        slopes[0] += [[steep], [-steep]]  # far out, so that F has a minimum
        drops[0] += [Fraction(int(rng.integers(0, 200)))] * 2
        if rng.random() < 0.2:  # one loss, straight where it matters: X begins at 0, F rises there
            g = Fraction(int(rng.integers(1, 9)), 2)
            u, slopes, drops = [-g * lam], [[[g]]], [[Fraction(0)]]
        data = {"lam": lam, "u": [[v] for v in u], "slopes": slopes, "drops": drops}
        return f"N={len(u)}", data


def least_in_line(losses: Sequence[Loss], lean: Fraction) -> Fraction:
    """F* over R, or over the half-line from 0 that ``lean`` points into.

    There F has a slope that is not below 0 at its far end.
    """
    pieces = [
        [(p[0], -p[0] * f.u[0] - s) for p, s in zip(f.slopes, f.drops, strict=True)] for f in losses
    ]
    inner = [c for piece in pieces for c in kinks(piece) if not lean or c * lean > 0]
    return min(mean([value(piece, c) for piece in pieces]) for c in [Fraction(0), *inner])


def certified(losses: Sequence[Loss], star: Any, multipliers: Any) -> Fraction:
    """F(star), where the multipliers of the pieces that are largest there add up to 0."""
    if star is None:
        raise InvalidInput("in more than one dimension star and multipliers must be given")
    multipliers = [vector(row, f"multipliers[{i}]") for i, row in enumerate(multipliers)]
    total = star * 0
    for loss, m in zip(losses, multipliers, strict=True):
        values = loss.values(star)
        shares = len(m) == len(values) and min(m) >= 0 and sum(m) == 1
        if not shares or any(v < values.max() for v, w in zip(values, m, strict=True) if w):
            raise InvalidInput(
                "multipliers: of every client numbers >= 0 that add up to 1, on pieces that are "
                "largest at star"
            )
        total = total + m @ loss.slopes
    if total.any():
        raise InvalidInput(
            f"the multipliers' slopes add up to {list(map(str, total))}, not to 0: "
            "star is not shown to be a minimiser"
        )
    return mean_loss(losses, star)


def from_below(q, share=HALF):
    """Sides of F* <= Psi* + share lambda G^2."""
    return le(entry(q.F_star), entry(q.psi_star), entry(share * q.lam * q.G_sq))


def from_above(q, less=Fraction(0)):
    """Sides of Psi* <= F* - less lambda G^2."""
    return le(entry(q.psi_star), entry(q.F_star), entry(-less * q.lam * q.G_sq))


def at_minimiser(q, share=QUARTER):
    """Sides of F(x^) <= F* + share lambda G^2."""
    return le(entry(q.F_at), entry(q.F_star), entry(share * q.lam * q.G_sq))


@paper.statement(
    "moreau-envelope", over=EnvelopeView,
    source="poster, eq. (2): 'a regularized Equation (1)'; ours: what it says of eq. (1)",
    assumptions=ASSUMPTIONS, symbols=SYMBOLS,
)
def moreau_envelope(q):
    """the minimum of Psi against the minimum of F"""
    yield form(
        "the same minimiser", lambda: le(entry(q.F_at), entry(q.F_star)),
        r"(\hat x,\hat u)\in\arg\min\Psi\ \Rightarrow\ F(\hat x)=\min_XF", fails=True,
        note="the poster does not say so; it says why lambda must fall with epsilon: minimising "
        "Psi exactly does not minimise F",
    )
    yield form(
        "Psi from below", lambda: from_below(q), r"\min_XF\le\min\Psi+\tfrac{\lambda G^2}2",
        wrong("0.45 for 1/2", lambda: from_below(q, Fraction(9, 20))), holds=True, proof="note",
        note="f(u) >= f(x) - G ||x - u||, and -G r + r^2/(2 lambda) >= -lambda G^2/2; attained by "
        "f = G u on X = [0, 1]",
    )
    yield form(
        "Psi from above", lambda: from_above(q), r"\min\Psi\le\min_XF",
        wrong("a tenth of lambda G^2 less", lambda: from_above(q, Fraction(1, 10))), holds=True,
        proof="note", note="u_i = x; attained where all f_i have the minimiser in common",
    )
    yield form(
        "F at Psi's minimiser", lambda: at_minimiser(q),
        r"F(\hat x)-\min_XF\le\tfrac{\lambda G^2}4",
        wrong("0.225 for 1/4", lambda: at_minimiser(q, Fraction(9, 40))), holds=True, proof="note",
        note="with v_i = (x^ - u_i)/lambda a subgradient of f_i at u_i: F* >= F(u) + lambda mean "
        "||v||^2, and f_i(x^) <= f_i(u_i) + lambda G_i ||v_i||; G r - r^2 <= G^2/4. No smaller "
        "constant will do: two clients in the plane come as near as one likes",
    )
