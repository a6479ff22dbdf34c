"""Views of a user's problem, law of participation and method, and what each kind needs of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput
from fedtheory.theorems.efl.cases import compressed, deadlines, limits, messages, rows, sentences, shifts, stability
from fedtheory.theorems.efl.cases.given import Made, client_of
from fedtheory.theorems.efl.cases.theorem_1 import assumption_failure, view_of
from fedtheory.theorems.efl.cases.theorem_2 import event_of, shift_on, who_moves
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.statement import Form

__all__ = ["CASES", "OfAProblem"]


@dataclass(frozen=True)
class OfAProblem:
    """One kind of view.

    Attributes
    ----------
    about : what a statement that is judged on it is about
    needs : what it asks of the problem, of who takes part and of the method, in words
    make : callable(form, case) -> instance
        Raises `InvalidInput` or `MissingCapability` with what is missing, `NotCertified` where an optimum cannot be had.
    given : what may be set of it (`fedtheory.theorems.efl.cases.given.ACCEPTS`)
    example : options of `fedtheory verify`
    method : hyperparameters of EFL where the command line is not told any
    E : local steps where nothing is said; None: 5
    """

    about: str
    needs: tuple[str, ...]
    make: Callable[[Form, Case], Any]
    example: str
    given: tuple[str, ...] = ()
    method: dict[str, Any] = field(default_factory=dict)
    E: int | None = None


def _run(form: Form, case: Case) -> Any:
    return Made(view_of(form.kind, case))


def _shift(form: Form, case: Case) -> Any:
    reason = assumption_failure(case.problem, EFL(), None)  # about optima: whatever the algorithm
    if reason is not None:
        raise InvalidInput(reason)
    event, given = event_of(form), client_of(case) if "client" in case.given else None
    return Made(shift_on(case.problem, event, who_moves(case.sampling, event, case.problem.num_clients, given)))


CONVEX = "strongly convex losses"
CONSTANTS = ("G", "L", "mu", "sigma_sq")
OF_THEOREM_1 = "Theorem 1's constants: quadratic losses, or ridge-regularised logistic or Huber losses, or G given"
DIAGONAL = "quadratic losses whose coordinates do not mix"
PLAIN = "EFL without compression, lambda = 0"
ONE_LAW = "one law of s^k for all rounds"
ALONE = "scheme C; one client that is inactive at times, all others complete"

CASES: dict[str, OfAProblem] = {
    "run": OfAProblem(
        "about a run of EFL without compression",
        (CONVEX, OF_THEOREM_1, "EFL without compression; lambda = 0, or anchors that never move", "LocalSGD with Theorem 1's steps"),
        _run, "--problem diabetes --inactive 0.3 --incomplete uniform", (*CONSTANTS, "u_0", "v_0"),
    ),
    "step": OfAProblem(
        "about one round of EFL from a given state",
        ("strongly convex quadratic losses", "few independent clients, rounds enumerated", PLAIN, "LocalSGD, no additive noise"),
        _run, "--problem diabetes --clients 3 --inactive 0.3 --local-steps 2",
    ),
    "shift": OfAProblem(
        "about the optima before and after one client leaves or joins", (CONVEX, "at least two clients"), _shift,
        "--problem breast-cancer --departure 2", ("client",),
    ),
    "departed": OfAProblem(
        "about rounds after a client has left", ("a law of s^k, and a client that leaves", "scheme A, B or C, " + PLAIN),
        shifts.departed, "--problem quadratic --inactive 0.3 --departure 2@20", ("client", "tau_0"),
    ),
    "after-shift": OfAProblem(
        "about the step size after the objective has moved",
        ("strongly convex quadratic losses", "at least two clients", PLAIN + ", E = 1, full gradients or additive noise"),
        shifts.after_shift, "--problem diabetes", ("client", "tau_0", "gamma", "sigma_sq", "L", "mu"), E=1,
    ),
    "inactive": OfAProblem(
        "about inactive clients",
        ("scheme C; clients that are inactive or complete", OF_THEOREM_1 + ", or gamma, J and C given"), deadlines.inactive,
        "--problem diabetes --inactive 0.3", (*CONSTANTS, "gamma", "J", "C", "y", "client", "tau_0"),
    ),
    "abandon": OfAProblem(
        "about keeping or abandoning an inactive client", (CONVEX, ALONE), deadlines.abandon,
        "--problem diabetes --clients 3 --inactive 0,0,0.5", ("y", "client"),
    ),
    "epochs": OfAProblem(
        "about keeping or abandoning an inactive client", (CONVEX, OF_THEOREM_1), deadlines.epochs, "--problem diabetes",
        (*CONSTANTS, "noise"),
    ),
    "keep": OfAProblem(
        "about keeping or abandoning an inactive client", ("strongly convex quadratic losses", ALONE), deadlines.keep,
        "--problem diabetes --clients 3 --inactive 0,0,0.5", ("y", "client"),
    ),
    "incomplete": OfAProblem(
        "about incomplete clients", (OF_THEOREM_1, "scheme C; clients that are never inactive, " + ONE_LAW), deadlines.incomplete,
        "--problem diabetes --clients 3 --incomplete uniform", CONSTANTS,
    ),
    "limit": OfAProblem(
        "about where runs end under each scheme",
        (f"{DIAGONAL}; any {CONVEX} for the forms about the limit alone", ONE_LAW, PLAIN, "full gradients"), limits.limit,
        "--problem diabetes --clients 3 --incomplete uniform --inactive 0.1,0.2,0.3",
    ),
    "elastic": OfAProblem(
        "about runs with the elastic term",
        (
            "quadratic losses, of the limit with decaying steps such whose coordinates do not mix",
            "Fisher diagonals that do not depend on the model, or u_0 given", "EFL with lambda > 0, no compression, E = 1",
        ),
        limits.elastic, "--problem diabetes --clients 3 --lam 0.1", ("u_0", "client", "anchor"), {"lam": 0.1}, 1,
    ),
    "stability": OfAProblem(
        "about whether runs with the elastic term settle",
        (
            "quadratic losses, of the exact criteria such whose coordinates do not mix",
            "Fisher diagonals that do not depend on the model, or u_0 given",
            "EFL with lambda > 0, no compression, all clients complete",
        ),
        stability.stability, "--problem quadratic --dimension 1 --lam 0.1", ("u_0",), {"lam": 0.1}, 1,
    ),
    "compression": OfAProblem(
        "about one compressed message", ("a compressor", "messages that are given, or those of a real run of EFL"),
        messages.compression, "--problem diabetes --compressor st:q=0.2", ("message",), {"compressor": "st:q=0.25"},
    ),
    "feedback": OfAProblem(
        "about runs with compression and residuals",
        (
            "EFL with residuals on both sides, variant consistent, literal or text, lambda = 0", "LocalSGD",
            "of the mean's bias: quadratic losses, E = 1, all active, full gradients",
        ),
        messages.feedback, "--problem diabetes --compressor st:q=0.2 --down-compressor st:q=0.2",
        method={"compressor": "st:q=0.25", "down_compressor": "st:q=0.25"}, E=1,
    ),
    "term": OfAProblem(
        "about the elastic term of a round", ("a Fisher diagonal of the losses", "EFL with lambda > 0"), sentences.term,
        "--problem breast-cancer --lam 0.1", method={"lam": 0.1}, E=1,
    ),
    "away": OfAProblem(
        "about runs in which one client is away",
        ("strongly convex quadratic losses", "at least two clients", PLAIN + "; E = 1 and who is away are the statement's own"),
        sentences.away, "--problem quadratic --rounds 12", ("client", "gamma", "L", "mu"), E=1,
    ),
    "coefficient": OfAProblem(
        "about one round of one client", ("a strongly convex quadratic loss", "E and s, the local steps of a client that is "
        "incomplete"),
        sentences.coefficient, "--problem diabetes --local-steps 4 --given s=2", ("client", "s"),
    ),
    "samples": OfAProblem(
        "about the bounds of Theorem 2", ("strongly convex quadratic losses", "at least two clients"), sentences.samples,
        "--problem diabetes", ("client",),
    ),
    "restart": OfAProblem(
        "about a run that a client leaves or joins",
        ("strongly convex quadratic losses", "at least two clients, independent of each other, one departure or arrival", PLAIN),
        shifts.restart, "--problem diabetes --departure 2@20 --inactive 0.3", ("client", "tau_0"),
    ),
    **{
        kind: OfAProblem(
            "about convergence with compression",
            (
                CONVEX, "EFL with residuals on both sides, variant consistent, lambda = 0",
                "ST by the exact rule, top-k or the scaled sign",
                "all clients complete, full gradients, LocalSGD with the theorem's steps",
            ),
            make, "--problem diabetes --compressor st:q=0.2 --down-compressor st:q=0.2", ("L", "mu"),
            method={"compressor": "st:q=0.25", "down_compressor": "st:q=0.25"},
        )
        for kind, make in (("frozen", compressed.frozen), ("compressed", compressed.compressed))
    },
    "compressed-partial": OfAProblem(
        "about convergence with compression and irregular clients",
        (
            CONVEX, "EFL with residuals on both sides, variant consistent, lambda = 0",
            "ST by the exact rule, top-k or the scaled sign",
            f"{ONE_LAW}, few independent clients: all that may happen is gone through",
            "full gradients, LocalSGD with the theorem's steps",
        ),
        compressed.partial, "--problem diabetes --clients 3 --inactive 0.3 --local-steps 2", ("L", "mu"),
        method={"compressor": "st:q=0.25", "down_compressor": "st:q=0.25"},
    ),
    "rates": OfAProblem(
        "about the orders of Table 1", (CONVEX, "G of Theorem 1's, or given", "Hessians that do not change, or delta given"),
        deadlines.rates, "--problem diabetes", (*CONSTANTS, "S", "epsilon", "delta"),
    ),
    "row": OfAProblem(
        "about EFL's row of Table 1",
        ("strongly convex quadratic losses, independent clients", PLAIN + ", LocalSGD with Theorem 1's steps"),
        rows.row, "--problem diabetes --rounds 400", (*CONSTANTS, "epsilon", "K"),
    ),
    "units": OfAProblem(
        "about the orders of Table 1", (CONVEX, "G of Theorem 1's, or given"), rows.units, "--problem diabetes",
        (*CONSTANTS, "S", "epsilon"),
    ),
}  # fmt: skip
