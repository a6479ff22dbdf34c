"""What a statement needs of a run of Algorithm 3, and why a run has it not."""

from typing import Any

from fedtheory.theorems.fedelasticnet.notation import STRONGLY_CONVEX
from fedtheory.theory import Fact

__all__ = [
    "CONVERGES", "FROZEN", "HALF", "OWN", "QUADRATIC", "RESTS", "RETURNS", "SILENT", "SMOOTH",
    "STILL", "STRONG", "TWO_ROUNDS", "TWO_STILL", "WIDE",
]  # fmt: skip


def _size(values: Any) -> str:
    """The largest size of an entry."""
    return f"{float(abs(values).max()):.3g}"


def _beta(q: Any) -> str:
    """Lambda_2 beside beta, where it is too small."""
    beta = "infinite" if q.beta is None else f"{float(q.beta):.6g}"
    return f"lambda_2 = {float(q.lambda2):.6g}, beta = {beta}: raise lambda_2"


def _ratio(q: Any) -> str:
    """Lambda_2 in units of R's largest curvature."""
    if not q.beta_joint:
        return "unknown" if q.beta_joint is None else "inf"
    return f"{float(q.lambda2 / q.beta_joint):.6g}"


RESTS = Fact(
    "a state that the last round leaves as it is", lambda q: q.same(len(q.y) - 1, len(q.y)),
    lambda q: f"round {len(q.y)} moves the model by {_size(q.theta[-1] - q.theta[-2])}: take more "
    "rounds, or start where every slope is at most lambda_1",
)  # fmt: skip
RETURNS = Fact(
    "a state that comes back", lambda q: q.period > 0,
    lambda q: f"none of the {len(q.y)} states before is the last one: take more rounds, or another "
    "start",
)  # fmt: skip
STILL = Fact(
    "a round in which no client moves", lambda q: q.still.any(),
    lambda q: f"some client moves in each of the {len(q.y)} rounds",
)  # fmt: skip
TWO_STILL = Fact(
    "two rounds in a row in which no client moves", lambda q: (q.still[1:] & q.still[:-1]).any(),
    lambda q: f"no two of the {len(q.y)} rounds in a row are without a move",
)  # fmt: skip
FROZEN = Fact(
    "a state from which no client ever moves again", lambda q: q.frozen,
    lambda q: f"a client moves by {_size(q.delta[-1])} in the last round, or will; or its "
    "slopes at infinity are not known",
)  # fmt: skip
OWN = Fact(
    "the algorithm's own start, g_k = 0", lambda q: not q.stored[0].any() and not q.h[0].any(),
    lambda q: f"the largest |g_k| is {_size(q.stored[0])}: leave the stored gradients out",
)  # fmt: skip
SMOOTH = Fact("smooth losses", lambda q: q.beta is not None, lambda q: "the slope of a loss jumps")
SILENT = Fact(
    "a silent start: g_k = 0, every slope at most lambda_1, and lambda_2 >= sqrt(d) beta",
    lambda q: q.has(SMOOTH)
    and q.has(OWN)
    and q.most <= q.lambda1
    and q.lambda2**2 >= q.d * q.beta**2,
    lambda q: "the largest slope of a client at the start is "
    f"{float(abs(q.grad[0]).max()):.6g} and lambda_1 is {float(q.lambda1):.6g}; lambda_2 = "
    f"{float(q.lambda2):.6g}: raise them, or start nearer to the optimum",
)
STRONG = Fact(
    STRONGLY_CONVEX, lambda q: q.mu > 0,
    lambda q: f"R's least curvature is {float(q.mu):.3g}: add a ridge",
)  # fmt: skip
QUADRATIC = Fact(
    "a quadratic R", lambda q: q.top is not None,
    lambda q: "R has no constant Hessian: take quadratics or least squares",
)  # fmt: skip
HALF = Fact(
    "lambda_2 at least half the largest curvature of R",
    lambda q: q.beta_joint is not None and 2 * q.lambda2 >= q.beta_joint,
    lambda q: f"lambda_2 is {_ratio(q)} of it: raise lambda_2",
)
WIDE = Fact("lambda_2 > 27 beta", lambda q: q.has(SMOOTH) and q.lambda2 > 27 * q.beta, _beta)
CONVERGES = Fact("lambda_2 > beta/2", lambda q: q.has(SMOOTH) and 2 * q.lambda2 > q.beta, _beta)
TWO_ROUNDS = Fact(
    "two rounds or more", lambda q: len(q.y) > 1,
    lambda q: "it compares each round with the next: take more rounds",
)  # fmt: skip
