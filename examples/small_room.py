"""A paper in one file whose statements have a view of their own, judged in fractions: a small room.

N clients have f_k(x) = h_k (x - c_k)^2/2 on the line, and send models x_k. With equal weights
F = (1/N) sum_k f_k is least at x* = sum_k h_k c_k / sum_k h_k. The mean of the clients' minimisers
c_k is another point where curvatures differ, so a server that averages fully trained models need
not end at x*. F of the mean of any models is at most the mean of their F, as F is convex.
"""

from fractions import Fraction

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.verification import ClosedView, DataInstance, Paper, Setting, Statement, eq, form, le
from fedtheory.verification.rational import Builders, to_file, vector

BUILDERS = Builders()


class Averages(ClosedView):
    """What one instance makes measurable: numbers that the forms below are written with.

    h, c, x : curvatures, minimisers and models of the clients, (N,) fractions
    """

    def __init__(self, h, c, x):
        self.h, self.c, self.x = h, c, x
        self.x_star = (h * c).sum() / h.sum()
        self.mean_c, self.mean_x = c.sum() / len(c), x.sum() / len(x)

    def F(self, x):
        return (self.h * (x - self.c) ** 2).sum() / (2 * len(self.h))

    @property
    def mean_F(self):
        return sum(self.F(x) for x in self.x) / len(self.x)


@BUILDERS.add("clients")
def averages(data):
    """The view of the data of an instance, which are also those of a witness file."""
    h, c, x = (vector(data[name], name) for name in ("h", "c", "x"))
    if not len(h) == len(c) == len(x) or (h <= 0).any():
        raise InvalidInput(f"h = {data['h']}: give a curvature > 0 for each of the minimisers c and models x")
    return Averages(h, c, x)


class Judged(Setting):
    """How the statements are judged: on which instances, and where the search looks."""

    kinds, builders = ("clients",), BUILDERS

    def instances(self, plan):
        count = max(4, round(40 * plan.scale))
        return [self.random_instance("clients", np.random.default_rng([plan.seed, k]), k) for k in range(count)]

    def random_instance(self, kind, rng, seed=0):
        n = int(rng.integers(1, 5))
        quarters = {"h": rng.integers(1, 17, size=n)}
        quarters |= {name: rng.integers(-12, 13, size=n) for name in "cx"}
        data = {name: [Fraction(int(v), 4) for v in values] for name, values in quarters.items()}
        return DataInstance(BUILDERS, kind, f"{n} clients", to_file(data), seed)


MEAN = Statement(
    "small-room/mean-of-minimisers", "where averaging fully trained models ends",
    "An example of fedtheory", "one average",
    (
        form(
            "printed", r"\frac1N\sum_k c_k=x^*",
            lambda v: eq(v.mean_c, v.x_star), "violated", kind="clients",
        ),
        form(
            "repaired", r"F(x^*)\le F\Big(\frac1N\sum_k c_k\Big)",
            lambda v: le(v.F(v.x_star), v.F(v.mean_c)), "holds",
            ("half of it", lambda v: le(v.F(v.x_star), v.F(v.mean_c) / 2)), kind="clients",
        ),
    ),
    assumptions=("f_k(x) = h_k (x - c_k)^2/2 with h_k > 0", "equal weights"),
    symbols={"c_k": "Averages.c", "x^*": "Averages.x_star"},
)  # fmt: skip
JENSEN = Statement(
    "small-room/mean-of-models", "what averaging does to the loss", "Jensen's inequality", "one average",
    (
        form(
            "printed", r"F\Big(\frac1N\sum_k x_k\Big)\le\frac1N\sum_k F(x_k)",
            lambda v: le(v.F(v.mean_x), v.mean_F), "holds",
            ("without the mean", lambda v: le(v.F(v.mean_x), v.F(v.x[0]))), kind="clients",
        ),
    ),
    assumptions=("F is convex",),
)  # fmt: skip

PAPER = Paper("small-room", "A small room", "what averages on the line do", (MEAN, JENSEN), Judged())
