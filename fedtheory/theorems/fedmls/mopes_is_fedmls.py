"""FedMLS as MOPES on the consensus set, from the same data in one dimension."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.rational import objects
from fedtheory.theorems.fedmls import lines, of_files
from fedtheory.theorems.fedmls.paper import paper
from fedtheory.theory import derived, eq, form, wrong


@dataclass
class SameView(of_files.InFractions):
    """FedMLS and MOPES on the consensus set: x_0..x_K of each, in fractions.

    Attributes
    ----------
    run : FedMLS's, with the mean product's lambda, D-tilde and G^2
    """

    kind, family, scope = "same", "FedMLS and MOPES on the consensus set", "identity"
    about, count = "about two runs from the same data", 10
    reads: ClassVar = of_files.on_interval(30)

    run: lines.Run

    fedmls = derived(lambda q: objects(lines.history(q.run).x), "(K + 1,) the server's models")
    printed_line_14 = derived(
        lambda q: objects(lines.history(replace(q.run, last=True)).x),
        "(K + 1,) the same with the last iterate z' in line 14",
    )

    def mopes(self, scale: int = 1, share: int = 1) -> np.ndarray:
        """(K + 1, N) MOPES's x_k with (scale lambda, scale D, G^2/scale).

        The clients' subgradients are divided by ``share``.
        """
        numbers: Any = {"lam": scale * self.run.lam, "d": scale * self.run.d, "share": share}
        run = replace(self.run, **numbers, g_sq=self.run.g_sq / scale)
        return objects(lines.product_mopes(run))

    clients = derived(lambda q: len(q.run.clients), "N")

    # --- instances --------------------------------------------------------------------------------
    @classmethod
    def made(
        cls, slopes: Any, offsets: Any, lam: Any, D: Any, radius: Any, x0: Any, rounds: int
    ) -> Self:
        """Make FedMLS's run."""
        clients = of_files.clients_on_ball(slopes, offsets, radius, x0)
        g_sq = max(of_files.g_sq_of(clients, radius), Fraction(1, 64))
        return cls(lines.Run(clients, lam, D, -radius, radius, radius, x0, rounds, g_sq))

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, dict[str, Any]]:
        """Draw two to four losses on an interval, and few enough local steps."""
        n, rounds = int(rng.integers(2, 5)), int(rng.integers(2, 5))
        data = {**of_files.losses(rng, n), "lam": of_files.lam(rng), "radius": Fraction(2)}
        data["x0"] = of_files.quarter(rng)
        g_sq = max(abs(p) for row in data["slopes"] for p in row) ** 2
        d = max(Fraction(1, 4), g_sq * data["lam"] ** 2 * rounds**4 / 30)
        return f"N={n} K={rounds}", data | {"rounds": rounds, "D": d}


def same(path, other):
    """Sides of two paths, round by round the same in every coordinate."""
    return eq(path[:, None] + 0 * other, other, vector=True)


def longer(q):
    """The same runs with a lambda that is a tenth larger."""
    return SameView(replace(q.run, lam=Fraction(11, 10) * q.run.lam))


@paper.statement(
    "mopes-is-fedmls", over=SameView,
    source="poster, Selected Results: 'the FL version of MOPES, denoted ... FedMLS'",
    assumptions=(
        "every f_i is a maximum of affine functions on the line, the first of the largest giving "
        "the subgradient",
    ),
)
def mopes_is_fedmls(q):
    """FedMLS is MOPES on the consensus set"""
    yield form(
        "mean product", lambda: same(q.fedmls, q.mopes()),
        r"x_k^{\rm FedMLS}=x_{k,i}^{\rm MOPES}\ \forall i,\quad\langle "
        r"u,v\rangle=\tfrac1N\sum_i\langle u_i,v_i\rangle",
        wrong("lambda a tenth larger", lambda: same(q.fedmls, longer(q).mopes())), holds=True,
        wording="in words",
        note="x_k is compared in every coordinate and round; the server projects onto the ball, "
        "line 14 averages", proof="docs/fedmls.md#mopes-and-moles",
    )
    yield form(
        "plain product, rescaled", lambda: same(q.fedmls, q.mopes(q.clients, q.clients)),
        r"x_k^{\rm FedMLS}(\lambda,\tilde D,G^2)=x_{k,i}^{\rm MOPES}(N\lambda,N\tilde D,G^2/N),"
        r"\quad\langle u,v\rangle=\sum_i\langle u_i,v_i\rangle",
        wrong("lambda not rescaled", lambda: same(q.fedmls, q.mopes(1, q.clients))),
        holds=True, note="the gradient of (1/N) sum_i f_i(u_i) is N times shorter there",
        proof="docs/fedmls.md#line-22-along-the-gradient-of-f",
    )
    yield form(
        "plain product, the same parameters", lambda: same(q.fedmls, q.mopes(1, q.clients)),
        r"x_k^{\rm FedMLS}=x_{k,i}^{\rm MOPES},\quad\langle "
        r"u,v\rangle=\sum_i\langle u_i,v_i\rangle", fails=True,
        note="the same lambda, D-tilde and G^2 mean other methods in the two inner products",
    )
    yield form(
        "line 14 as printed", lambda: same(q.printed_line_14, q.mopes()),
        r"x_k^{\rm FedMLS}=x_{k,i}^{\rm MOPES},\quad z'\text{ for }\tilde z'\text{ in line 14}",
        fails=True,
        note="the poster's Methods average in MOPES's update, its Algorithm 1 does not: as printed "
        "the two are not one method",
    )
