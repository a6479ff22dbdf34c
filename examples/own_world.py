"""A paper in one file whose statements are about a world of its own, judged in fractions.

N clients have f_k(x) = h_k (x - c_k)^2/2 on the line, and send models x_k. With equal weights
F = (1/N) sum_k f_k is least at x* = sum_k h_k c_k / sum_k h_k. The mean of the clients' minimisers
c_k is another point where curvatures differ, so a server that averages fully trained models need
not end at x*. F of the mean of any models is at most the mean of their F, as F is convex.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from fedtheory.theory import Paper, World, derived, eq, le, number, printed, repaired, wrong

paper = Paper("own-world", title="Averages on the line", source="An example of fedtheory")


@dataclass
class Averages(World):
    """N clients, and models that they send."""

    kind, about = "clients", "about one average of models on the line"
    letters: ClassVar = {"F": "F({})"}  # with those below, what formulas are made of

    h: Any = number("N", "the curvatures", above=0)
    c: Any = number("N", "the minimisers")
    x: Any = number("N", "the models")

    x_star = derived(lambda q: (q.h * q.c).sum() / q.h.sum(), letter="x^*")
    mean_c = derived(lambda q: q.c.sum() / len(q.c), letter=r"\bar c")
    mean_x = derived(lambda q: q.x.sum() / len(q.x))

    @classmethod
    def draw(cls, rng):
        """A label, and data by the fields' names: fractions, and lists of them."""
        n = int(rng.integers(1, 5))
        quarters = {"h": rng.integers(1, 17, size=n), "c": rng.integers(-12, 13, size=n)}
        quarters["x"] = rng.integers(-12, 13, size=n)
        data = {name: [Fraction(int(v), 4) for v in values] for name, values in quarters.items()}
        return f"{n} clients", data

    def F(self, x):
        return (self.h * (x - self.c) ** 2).sum() / (2 * len(self.h))


@paper.statement(
    "mean-of-minimisers", over=Averages,
    assumptions=("f_k(x) = h_k (x - c_k)^2/2 with h_k > 0", "equal weights"),
)  # fmt: skip
def mean_of_minimisers(q):
    """The end of averaging fully trained models."""
    best, there = q.F(q.x_star), q.F(q.mean_c)
    yield printed(eq(q.mean_c, q.x_star), fails=True)
    yield repaired(le(best, there), wrong("half of it", le(best, there / 2)), holds=True)


@paper.statement(
    "mean-of-models", over=Averages, source="Jensen's inequality", assumptions=("F is convex",)
)
def mean_of_models(q):
    """The loss of an average."""
    mean_F = sum(q.F(x) for x in q.x) / len(q.x)
    yield printed(
        lambda: le(q.F(q.mean_x), mean_F), r"F\Big(\frac1N\sum_k x_k\Big)\le\frac1N\sum_k F(x_k)",
        wrong("without the mean", lambda: le(q.F(q.mean_x), q.F(q.x[0]))), holds=True,
    )  # fmt: skip
