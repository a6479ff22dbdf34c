"""Symbols, assumptions, a form's needs of a run, and short constructors of FedMLS's statements."""

from typing import Any

from fedtheory.theory import Fact, Form

PAPER_ID = "fedmls"
SYMBOLS = {
    "N, d": "problem.num_clients, problem.dim",
    "lambda, D-tilde, K": "algorithm.lam, algorithm.D, algorithm.rounds",
    "G_i, G": "problem.lipschitz(radius), problem.lipschitz_rms(radius)",
    "x_k, z_k": "state.x, state.z",
    "x'_{i,k}, z'_{i,k}": "state.x_local[:, i], state.z_local[:, i]",
    "tilde z'_{i,k}": "LocalResult.average",
    "T_k": "algorithm.steps(k)",
    "Psi(x, x')": "MLSView.psi",
    "||.||": "norm of the mean product (1/N) sum_i <u_i, v_i>",
}
ASSUMPTIONS = (
    "every f_i is convex, and no subgradient that is returned on the closed ball of radius R, its boundary included, is longer than "
    "G_i; G^2 = (1/N) sum_i G_i^2",
    "x_0 and a minimiser x* over the ball lie in the ball; F* is its minimum over the same ball",
    "subgradients are exact, or unbiased with variance sigma_i^2",
    "the server projects z_k onto the ball (or G_i bounds every subgradient of f_i on all of R^d)",
    "line 14 takes the average z~' and line 22 steps along grad f_i, where a form does not say otherwise; T_k is line 4's, whose G and "
    "sigma are not below the root mean squares of the G_i and sigma_i",
)
PROVED = "docs/fedmls.md#the-proof"
# What a form may need of a run
PRINTED_COUNTS = Fact("K = ceil(6 G sqrt(2 D-tilde)/epsilon) >= 2", lambda q: q.rounds == "printed")
LINE_14 = Fact("line 14 takes the last iterate z' of local training")
LINE_22 = Fact(
    "line 22 steps along grad f_i/N, and G, sigma, D-tilde and ||x_0 - x*|| are those of R^{Nd}"
)
SLACK = {"fewest": 8, "sharpened": 4}  # the factor of D-tilde in the Theorem 1 that K_min is taken from
_PLAN = "lambda = epsilon/G^2, D-tilde >= ||x_0 - x*||^2, "
ROUNDS = {  # what K is, where it is one of Theorem 2's
    "printed": Fact(_PLAN + "K >= 6 G sqrt(2 D-tilde)/epsilon"),
    **{
        name: Fact(f"{_PLAN}K(K+1) >= {2 * (10 + slack)} G^2 D-tilde/epsilon^2")
        for name, slack in SLACK.items()
    },
}
BOTH_RULES, EXACT_RULES = ("deterministic", "stochastic"), ("deterministic",)


def applies(form: Form, run: Any) -> str | None:
    """Why a form does not apply to a run, or to an instance whose run is meant; None where it does.

    Parameters
    ----------
    run : with ``rule`` ('deterministic' or 'stochastic'), ``facts`` (of `LINE_14`, `LINE_22` and
        `ROUNDS`), and ``reading``
    """
    if run.rule not in form.established:
        return f"not claimed for {run.rule} subgradients"
    if is_reading(form):
        if form.name != run.reading:
            return "judged by its witness in exact arithmetic"
    elif run.reading:
        return f"the run is the one of [{run.reading}]"
    else:
        for line, name in ((LINE_14, "line 14"), (LINE_22, "line 22")):
            if (line in form.needs) != (line in run.facts):
                return f"{name} is read the other way"
    for need in form.needs:
        if need in ROUNDS.values() and need not in run.facts:
            return f"K is not Theorem 2's: {need}"
    return None


def is_reading(form: Form) -> bool:
    """True for a form that is a reading on record as violated.

    It is judged on its witness in a campaign, and on a user's problem on a run of its own (see
    `fedtheory.theorems.fedmls.readings`).
    """
    return set(form.established.values()) == {"violated"}
