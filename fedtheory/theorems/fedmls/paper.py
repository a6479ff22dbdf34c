"""FedMLS and MOPES: the paper, its letters, and what its worlds share."""

from fedtheory.local import Exact, ExactProx, SubgradientSliding
from fedtheory.theorems.fedmls.notation import PAPER_ID, SYMBOLS
from fedtheory.theory import LocalWork, Paper

FEWEST, MOST = 50, 200  # runs that a statement about expectations is judged on
SLIDING = LocalWork(
    (SubgradientSliding, ExactProx, Exact),
    "the method's local work is its own; leave local_solver out, or use SubgradientSliding()",
)
ACCEPTS = {
    "G_i": "bounds of the clients' subgradients on the closed ball, one number or one a client "
    "(default: the problem's own)",
    "sigma_i": "noise levels of the clients' subgradients, one number or one a client "
    "(default: what the method and its solver add)",
    "optimum": "a certified `Optimum` over the ball (default: the problem's own)",
}

paper = Paper(
    PAPER_ID, "FedMLS", symbols=SYMBOLS,
    about="the convergence theory of FedMLS (Theorems 1 and 2)",
    printed="with exact subgradients (deterministic)",
    rules="exact (deterministic) and noisy (stochastic) subgradients",
    figures="paper_figures.fedmls", witnesses="fedtheory.theorems.fedmls",
    rule_order=("any", "deterministic", "stochastic"),
    rule_words={"deterministic": "deterministic", "stochastic": "stochastic"},
    rule_short={"deterministic": "exact", "stochastic": "noisy"},
)
