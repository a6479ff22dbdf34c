"""The mistakes that the audit knows by name: in what methods, in what words, and at what line."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedtheory.testing.audit.methods import (
    ADAGRAD,
    ADAM,
    AVG,
    DYN,
    ELASTIC_AGGREGATION,
    EN_DYN,
    EN_PROX,
    EN_SCAFFOLD,
    GATE,
    METHODS,
    MIME,
    MOMENTUM,
    PROX,
    SCAFFOLD,
    VRL,
    YOGI,
)  # fmt: skip
from fedtheory.testing.audit.wrong_losses import LOSSES

__all__ = ["MISTAKES", "Mistake", "mistakes_of"]


@dataclass(frozen=True)
class Mistake:
    """One line written otherwise.

    Attributes
    ----------
    words : what the implementation does, as a sentence goes on: 'h is never updated'
    line : the line as it should be
    convention : what to ask the audit for instead, where the other way of writing it is a known one; '' for a mistake
    """

    name: str
    words: str
    line: str
    methods: tuple[str, ...]
    convention: str = ""


ALL = tuple(METHODS)
WITH_MU = (PROX, EN_PROX, EN_SCAFFOLD)  # in the penalty alone; alpha is in what FedDyn stores, too
PENALISED = (PROX, DYN, EN_PROX, EN_SCAFFOLD, EN_DYN)
ELASTIC = (EN_PROX, EN_SCAFFOLD, EN_DYN)
CONTROLLED = (SCAFFOLD, EN_SCAFFOLD)
DYNAMIC = (DYN, EN_DYN)
ADAPTIVE = (ADAGRAD, ADAM, YOGI)
TRACKED = (GATE, VRL)
RATED = (SCAFFOLD, EN_SCAFFOLD, GATE, ELASTIC_AGGREGATION, MOMENTUM, *ADAPTIVE)

IGNORED, WEIGHED = "client weights are ignored", "clients are weighted by their numbers of examples"
# Lines as they should be. Where a method has its own writing of one, `OWN_LINES` has it, with its
# number in the paper.
LOCAL = "y <- x, then K times y <- y - eta grad f_k(y)"
LOSS = "clients[k].gradient(y), of the mean over its examples of (a'y - b)^2/2, or log(1 + exp(-b a'y)), plus ridge/2 ||y||^2"
PENALTY = "the penalty mu/2 ||y - x||^2 has the gradient mu (y - x)"
L1 = "l1 ||y - x||_1"
MEAN = "x <- mean over the cohort of y"
SERVER_STEP = "x <- x + server_lr times the cohort's mean of (y - x)"
CONTROL = "line 12 (ii): c_k+ <- c_k - c + (x - y)/(K eta)"
BY_GRADIENT = "line 12 (i): c_k+ <- grad f_k(x)"
SERVER_CONTROL = "lines 16 and 17: c <- c + |S|/N times the mean over the cohort S of (c_k+ - c_k)"
CORRECTION = "line 10: y <- y - eta (grad f_k(y) - c_k + c)"
STORED_LINE = "h_k <- h_k - alpha (y - x)"
H_LINE = "h <- h - alpha/N sum over the cohort of (y - x)"
X_LINE = "x <- mean over the cohort of y, minus h/alpha"
MIME_LOCAL = "y <- y - eta ((1 - momentum) (grad f_k(y) - grad f_k(x) + c) + momentum s)"
MIME_S = "s <- (1 - momentum) c + momentum s, after the local steps"
TRACKING = "y <- y - eta (grad f_k(y) - d_k)"
TRACKER = "d_k <- d_k + (x - y)/(K eta) - the cohort's mean of that"
ZETA = "x <- x + server_lr (1 + tau - Omega/max Omega) * mean of (y - x)"
DYN_LOCAL = "y minimises f_k(y) - <h_k, y> + alpha/2 ||y - x||^2"

BY_EXAMPLES = "x <- mean over the cohort of y, each client weighing n_k"
UPDATE = "the update is the cohort's mean of (y - x), by n_k (Algorithm 2 prints a plain mean)"
ADAPTIVE_STEP = "x <- x + server_lr m/(sqrt(v) + tau)"
EN_STEP = "line 7: y <- y - eta (grad f_k(y) - c_k + c + mu (y - x) + l1 sign(y - x))"
EN_PROX_LOCAL = "line 4: y minimises f_k(y) + mu/2 ||y - x||^2 + l1 ||y - x||_1"
EN_DYN_LOCAL = "line 4: y minimises f_k(y) - <h_k, y> + alpha/2 ||y - x||^2 + l1 ||y - x||_1"
EN_PROX_MEAN = "line 7: x <- x + sum over the cohort of n_k/n (y - x), n the examples of all clients"
OWN_LINES = {
    AVG: {MEAN: BY_EXAMPLES, SERVER_STEP: BY_EXAMPLES},
    PROX: {
        LOCAL: "y <- x, then K times y <- y - eta (grad f_k(y) + mu (y - x))",
        MEAN: f"{BY_EXAMPLES} (Algorithm 2 prints a plain mean)",
        SERVER_STEP: f"{BY_EXAMPLES} (Algorithm 2 prints a plain mean)",
    },
    SCAFFOLD: {
        LOCAL: "lines 7 to 10: y <- x, then K times y <- y - eta (grad f_k(y) - c_k + c)",
        MEAN: "lines 16 and 17: x <- x + server_lr times the mean over the cohort of (y - x)",
        SERVER_STEP: "lines 16 and 17: x <- x + server_lr times the mean over the cohort of (y - x)",
    },
    DYN: {LOCAL: f"{DYN_LOCAL}, here by K steps from x", PENALTY: DYN_LOCAL, MEAN: X_LINE},
    EN_PROX: {
        LOCAL: f"{EN_PROX_LOCAL}, here by K steps from x", PENALTY: EN_PROX_LOCAL,
        L1: EN_PROX_LOCAL, MEAN: EN_PROX_MEAN, SERVER_STEP: EN_PROX_MEAN,
    },
    EN_SCAFFOLD: {
        LOCAL: EN_STEP.replace("line 7: ", "lines 4 to 7: y <- x, then B times "),
        PENALTY: EN_STEP, L1: EN_STEP, CORRECTION: EN_STEP,
        CONTROL: "line 9: c_k+ <- c_k - c + (x - y)/(B eta)",
        MEAN: "line 12: x <- x + server_lr times the mean over the cohort of (y - x)",
        SERVER_STEP: "line 12: x <- x + server_lr times the mean over the cohort of (y - x)",
        SERVER_CONTROL: "line 13: c <- c + 1/N sum over the cohort of (c_k+ - c_k)",
    },
    EN_DYN: {
        LOCAL: f"{EN_DYN_LOCAL}, here by K steps from x", PENALTY: EN_DYN_LOCAL,
        L1: EN_DYN_LOCAL, DYN_LOCAL: EN_DYN_LOCAL,
        STORED_LINE: "line 5: h_k <- h_k - alpha (y - x) - l1 sign(y - x)",
        H_LINE: "line 11: h <- h - 1/N sum over the cohort of (alpha (y - x) + l1 sign(y - x))",
        X_LINE: f"line 12: {X_LINE}", MEAN: f"line 12: {X_LINE}",
    },
    MIME: {LOCAL: f"y <- x, then K times {MIME_LOCAL}"},
    **{m: {LOCAL: f"y <- x, then K times {TRACKING}"} for m in TRACKED},
    ELASTIC_AGGREGATION: {MEAN: ZETA, SERVER_STEP: ZETA},
    MOMENTUM: {
        MEAN: BY_EXAMPLES, SERVER_STEP: "x <- x + server_lr m, m <- beta1 m + mean of (y - x)",
    },
    **{m: {MEAN: UPDATE, SERVER_STEP: ADAPTIVE_STEP} for m in ADAPTIVE},
}  # fmt: skip

MISTAKES = (
    # what a client does
    Mistake("steps-one-more", "one local step too many is taken", LOCAL, ALL),
    Mistake("steps-one-less", "one local step is missing", LOCAL, ALL),
    Mistake("steps-none", "no local step is taken: the local models stay the server's", LOCAL, ALL),
    Mistake("steps-one", "the number of local steps has no effect: one is taken", LOCAL, ALL),
    Mistake("gradient-stale", "all local steps use the gradient at the server's model", LOCAL, ALL),
    Mistake("start-stale", "clients go on from their own last model, not from the server's", LOCAL, ALL),
    Mistake(
        "model-shared",
        "the local model is no copy: local steps write into the server's own x, and y - x is 0",
        LOCAL,
        ALL,
    ),
    Mistake("clients-chained", "a client goes on where the one before it stopped: they share one model", LOCAL, ALL),
    Mistake("gradient-sign", "the local steps go up the gradient", LOCAL, ALL),
    Mistake("squared-without-half", "the squared error has no half: its gradient is twice what it should be", LOSS, ALL),
    Mistake("examples-summed", "the loss is summed over the client's examples, not averaged", LOSS, ALL),
    Mistake("ridge-none", "the ridge term of the loss is left out", LOSS, ALL),
    Mistake("squared-for-logistic", "the squared error is taken where clients[k].loss is 'logistic'", LOSS, ALL),
    Mistake("penalty-none", "the penalty has no gradient: it changes nothing", PENALTY, PENALISED),
    Mistake("penalty-half", "the penalty's gradient is half of what it should be", PENALTY, WITH_MU, "mu, as half of it"),
    Mistake("penalty-half", "half of alpha's penalty acts in the local steps", DYN_LOCAL, DYNAMIC),
    Mistake(
        "penalty-double",
        "the penalty's gradient is twice what it should be (mu ||y - x||^2 for mu/2 ||y - x||^2)",
        PENALTY,
        WITH_MU,
        "mu, as twice it",
    ),
    Mistake("penalty-double", "twice alpha's penalty acts in the local steps (alpha ||y - x||^2)", DYN_LOCAL, DYNAMIC),
    Mistake(
        "penalty-sign", "the penalty has the wrong sign: it pushes away from the server's model", PENALTY, PENALISED
    ),
    Mistake("penalty-norm", "the norm of the penalty is not squared", PENALTY, PENALISED),
    Mistake(
        "penalty-norm-by-array", "the norms of the penalty, one for each array of the model, are not squared", PENALTY, PENALISED
    ),
    Mistake(
        "penalty-of-model",
        "the penalty is on the model itself (mu/2 ||y||^2), not on its distance from the server's",
        PENALTY,
        PENALISED,
    ),
    Mistake(
        "penalty-own-center",
        "the penalty is centred at the client's own last model, not at the server's",
        PENALTY,
        PENALISED,
    ),
    Mistake("penalty-overwritten", "of the penalty only its linear part -mu <y, x> is left", PENALTY, PENALISED),
    Mistake("penalty-late", "the penalty's gradient is taken at the model of one step before", PENALTY, PENALISED),
    Mistake("penalty-without-rate", "the penalty's gradient is not multiplied by the step size", PENALTY, PENALISED),
    Mistake("penalty-last-only", "the penalty acts in the last local step only", PENALTY, PENALISED),
    Mistake("loss-lost", "the loss is overwritten by the penalty: its gradient is lost", LOCAL, PENALISED),
    Mistake("l1-none", "the l1 penalty has no gradient: it changes nothing", L1, ELASTIC),
    Mistake("l1-sign", "the l1 penalty has the wrong sign", L1, ELASTIC),
    Mistake(
        "l1-of-model",
        "the l1 penalty is on the model itself, not on its distance from the server's",
        L1,
        ELASTIC,
    ),
    # what the server makes of it
    Mistake(
        "other-weights",
        IGNORED,
        MEAN,
        (AVG, PROX, EN_PROX, ELASTIC_AGGREGATION, MOMENTUM, *ADAPTIVE),
        'weighting="uniform"',
    ),
    Mistake(
        "other-weights",
        WEIGHED,
        MEAN,
        (*CONTROLLED, *DYNAMIC, MIME, *TRACKED),
        'weighting="examples"',
    ),
    Mistake(
        "divide-by-all",
        "the sum over the cohort is divided by what all clients have, not by what the cohort has",
        MEAN,
        tuple(m for m in ALL if m != EN_PROX),
    ),
    Mistake(
        "divide-by-all",
        "the sum over the cohort is divided by what all clients have, which is line 7 as printed",
        MEAN,
        (EN_PROX,),
        'weighting="all-examples"',
    ),
    Mistake("sum-not-mean", "the cohort's updates are summed, not averaged", MEAN, ALL),
    Mistake("last-client", "the server takes the last client's model, not a mean", MEAN, ALL),
    Mistake("first-client", "the server takes the first client's model, not a mean", MEAN, ALL),
    Mistake(
        "model-added",
        "the mean of the clients' models is added to the server's model, not that of their updates",
        MEAN,
        (AVG, PROX, EN_PROX, *RATED),
    ),
    Mistake("server-lr-ignored", "server_lr has no effect", SERVER_STEP, RATED),
    Mistake("server-lr-squared", "server_lr is multiplied in twice", SERVER_STEP, RATED),
    Mistake("server-sign", "the server's step has the wrong sign", SERVER_STEP, (AVG, PROX, EN_PROX, *RATED)),
    # SCAFFOLD
    Mistake("correction-none", "the control variates are not used in the local steps", CORRECTION, CONTROLLED),
    Mistake("correction-sign", "the correction has the wrong sign: + c_k - c", CORRECTION, CONTROLLED),
    Mistake("correction-c-sign", "c has the wrong sign in the local steps: - c_k - c", CORRECTION, CONTROLLED),
    Mistake("correction-c_k-sign", "c_k has the wrong sign in the local steps: + c_k + c", CORRECTION, CONTROLLED),
    Mistake(
        "correction-without-rate",
        "the correction is not multiplied by the step size: y <- y - eta grad f_k(y) + c_k - c",
        CORRECTION,
        CONTROLLED,
    ),
    Mistake("correction-without-c", "the server's c is left out of the local steps", CORRECTION, CONTROLLED),
    Mistake("correction-without-c_k", "the client's own c_k is left out of the local steps", CORRECTION, CONTROLLED),
    Mistake(
        "local-steps-not-divided", "local steps are not divided out of the new control variate", CONTROL, CONTROLLED
    ),
    Mistake(
        "learning-rate-not-divided",
        "the learning rate is not divided out of the new control variate",
        CONTROL,
        CONTROLLED,
    ),
    Mistake(
        "control-over-examples",
        "the number of examples is divided out of the new control variate, not the number of steps alone",
        CONTROL,
        CONTROLLED,
    ),
    Mistake("control-with-c", "the new control variate has + c where c_k - c should be", CONTROL, CONTROLLED),
    Mistake("control-c-sign", "c has the wrong sign in the new control variate: c_k + c", CONTROL, CONTROLLED),
    Mistake("control-c_k-sign", "c_k has the wrong sign in the new control variate: - c_k - c", CONTROL, CONTROLLED),
    Mistake(
        "control-both-signs", "c_k and c have the wrong signs in the new control variate: - c_k + c", CONTROL, CONTROLLED
    ),
    Mistake("control-without-c_k", "the new control variate is made without c_k", CONTROL, CONTROLLED),
    Mistake("control-over-one-more", "K + 1 steps are divided out of the new control variate", CONTROL, CONTROLLED),
    Mistake("control-over-one-less", "K - 1 steps are divided out of the new control variate", CONTROL, CONTROLLED),
    Mistake(
        "control-over-server-lr", "server_lr, too, is divided out of the new control variate", CONTROL, CONTROLLED
    ),
    Mistake(
        "control-at-new-x",
        "the new control variate is made with the server's new x, not with the x that the "
        "client was sent",
        CONTROL,
        CONTROLLED,
    ),
    Mistake("control-update-sign", "the new control variate has y - x for x - y", CONTROL, CONTROLLED),
    Mistake("control-without-c", "the new control variate is made without - c", CONTROL, CONTROLLED),
    Mistake("control-without-old", "the new control variate is made without c_k - c", CONTROL, CONTROLLED),
    Mistake(
        "control-at-local-model",
        "the new control variate is the gradient at the client's own model y, not what the local steps followed on average",
        CONTROL,
        CONTROLLED,
    ),
    Mistake("other-option", "the new control variate is the one of the other option", CONTROL, CONTROLLED, 'option="gradient"'),
    Mistake(
        "control-in-place",
        "the new control variate is written into the old one's array: from a client's second round on its change is 0",
        CONTROL,
        CONTROLLED,
    ),
    Mistake("c_k-never-updated", "the clients' c_k are never updated", CONTROL, CONTROLLED),
    Mistake("c-never-updated", "the server's c is never updated", SERVER_CONTROL, CONTROLLED),
    Mistake("control-sent-whole", "the whole c_k+ is added to c, not its change", SERVER_CONTROL, CONTROLLED),
    Mistake(
        "control-over-cohort",
        "the control variates are not averaged over all clients: the sum is divided by the cohort's size",
        SERVER_CONTROL,
        CONTROLLED,
    ),
    Mistake(
        "control-not-divided",
        "the changes of the control variates are summed, not averaged",
        SERVER_CONTROL,
        CONTROLLED,
    ),
    Mistake("c-sign", "c is updated with the wrong sign: - for +", SERVER_CONTROL, CONTROLLED),
    Mistake("c-with-server-lr", "the change of c is multiplied by server_lr, too", SERVER_CONTROL, CONTROLLED),
    Mistake(
        "c-share-twice",
        "the cohort's share |S|/N is multiplied into the change of c twice",
        SERVER_CONTROL,
        CONTROLLED,
    ),
    Mistake(
        "c-by-examples",
        "the changes of the control variates are weighted by the clients' shares of all examples",
        SERVER_CONTROL,
        CONTROLLED,
    ),
    Mistake(
        "c-by-cohorts-examples",
        "the cohort's mean change of the control variates is weighted by examples",
        SERVER_CONTROL,
        CONTROLLED,
    ),
    Mistake(
        "c-within-round",
        "c is updated after each client, so that the cohort's next one works with another c",
        SERVER_CONTROL,
        CONTROLLED,
    ),
    Mistake(
        "controls-early",
        "the control variates are updated before the local steps, as gradients at x, and "
        "the steps use the new ones",
        CONTROL,
        CONTROLLED,
    ),
    Mistake("c_k-set-to-c", "every client's c_k is set to the new c", CONTROL, CONTROLLED),
    Mistake("control-replaced", "c is replaced by the cohort's mean control variate", SERVER_CONTROL, CONTROLLED),
    # FedDyn
    Mistake(
        "local-plain",
        "neither alpha's penalty nor h_k has a gradient: clients train on their loss alone",
        DYN_LOCAL,
        DYNAMIC,
    ),
    Mistake(
        "h-of-models",
        "the server's model is subtracted once from the sum of the clients' models, not from each of them",
        H_LINE,
        DYNAMIC,
    ),
    Mistake("linear-none", "the stored gradient h_k is not used in the local steps", DYN_LOCAL, DYNAMIC),
    Mistake(
        "linear-without-rate",
        "the stored gradient h_k is not multiplied by the step size in the local steps",
        DYN_LOCAL,
        DYNAMIC,
    ),
    Mistake("linear-sign", "the stored gradient h_k has the wrong sign in the local steps", DYN_LOCAL, DYNAMIC),
    Mistake("h_k-never-updated", "the stored gradient h_k is never updated", STORED_LINE, DYNAMIC),
    Mistake("h_k-sign", "the stored gradient h_k is updated with the wrong sign", STORED_LINE, DYNAMIC),
    Mistake("h_k-replaced", "the stored gradient h_k is replaced, not added to", STORED_LINE, DYNAMIC),
    Mistake(
        "h_k-at-new-x",
        "h_k is updated with the server's new x, not with the x that the client was sent",
        STORED_LINE,
        DYNAMIC,
    ),
    Mistake("alpha-not-stored", "alpha is left out where h_k is updated", STORED_LINE, DYNAMIC),
    Mistake(
        "l1-not-stored",
        "the sign term is left out where h_k is updated",
        STORED_LINE,
        (EN_DYN,),
    ),
    Mistake(
        "l1-not-in-h",
        "the sign term is left out of h",
        H_LINE,
        (EN_DYN,),
    ),
    Mistake("h-never-updated", "h is never updated", H_LINE, DYNAMIC),
    Mistake("h-sign", "h is updated with the wrong sign", H_LINE, DYNAMIC),
    Mistake("h-over-cohort", "h is divided by the cohort's size, not by the number of all clients", H_LINE, DYNAMIC),
    Mistake("h-not-divided", "h is not divided by the number of clients", H_LINE, DYNAMIC),
    Mistake("h-by-examples", "the clients' shares in h are weighted by their numbers of examples", H_LINE, DYNAMIC),
    Mistake("h-without-alpha", "alpha is left out of h", H_LINE, DYNAMIC),
    Mistake("h-replaced", "h is replaced, not added to", H_LINE, DYNAMIC),
    Mistake(
        "h-of-cohort",
        "the server's model is made with the mean of the cohort's h_k, not with h, the mean over all clients",
        X_LINE,
        DYNAMIC,
    ),
    Mistake("h-late", "the server's model is made with the h of the round before", X_LINE, DYNAMIC),
    Mistake("h-unused", "the server's model is made without h", X_LINE, DYNAMIC),
    Mistake("h-added", "h/alpha is added to the mean, not subtracted", X_LINE, DYNAMIC),
    Mistake("h-not-over-alpha", "h is subtracted without being divided by alpha", X_LINE, DYNAMIC),
    # Mime
    Mistake("mime-lite", "the local gradients are not corrected: this is MimeLite", MIME_LOCAL, (MIME,)),
    Mistake("mime-correction-sign", "the correction has the wrong sign: + grad f_k(x) - c", MIME_LOCAL, (MIME,)),
    Mistake("gradient-undamped", "the local gradient is not multiplied by 1 - momentum", MIME_LOCAL, (MIME,)),
    Mistake("s-unused", "the momentum s is not used in the local steps", MIME_LOCAL, (MIME,)),
    Mistake("s-early", "s is updated before the local steps, not after them", MIME_S, (MIME,)),
    Mistake("s-never-updated", "s is never updated", MIME_S, (MIME,)),
    Mistake("s-undamped", "c is not multiplied by 1 - momentum in s", MIME_S, (MIME,)),
    # gradient tracking
    Mistake("tracker-unused", "the corrections are not used in the local steps", TRACKING, TRACKED),
    Mistake("tracker-sign", "the correction has the wrong sign in the local steps", TRACKING, TRACKED),
    Mistake("tracker-never-updated", "the corrections are never updated", TRACKER, TRACKED),
    Mistake("tracker-update-sign", "the corrections are updated with the wrong sign", TRACKER, TRACKED),
    Mistake(
        "tracker-without-mean", "the cohort's mean is left out where the corrections are updated", TRACKER, TRACKED
    ),
    Mistake("tracker-steps-not-divided", "local steps are not divided out of the corrections", TRACKER, TRACKED),
    Mistake("tracker-rate-not-divided", "the learning rate is not divided out of the corrections", TRACKER, TRACKED),
    # Elastic Aggregation
    Mistake(
        "zeta-unused", "all coordinates get the same step: sensitivities have no effect", ZETA, (ELASTIC_AGGREGATION,)
    ),
    Mistake("zeta-turned", "the most sensitive coordinates get the largest steps", ZETA, (ELASTIC_AGGREGATION,)),
    Mistake("tau-missing", "tau has no effect", ZETA, (ELASTIC_AGGREGATION,)),
    Mistake(
        "sensitivity-over-sum",
        "sensitivities are divided by their sum, not by the largest",
        ZETA,
        (ELASTIC_AGGREGATION,),
    ),
    Mistake(
        "sensitivity-signed", "the absolute value of the output's gradient is missing", ZETA, (ELASTIC_AGGREGATION,)
    ),
    Mistake(
        "sensitivity-at-local-model",
        "sensitivities are taken at the clients' models",
        ZETA,
        (ELASTIC_AGGREGATION,),
    ),
    # optimisers on the server
    Mistake("momentum-none", "the momentum has no effect", "m <- beta1 m + (1 - beta1) move", (MOMENTUM, *ADAPTIVE)),
    Mistake(
        "momentum-first",
        "the momentum begins as the whole first update",
        "m <- beta1 m + (1 - beta1) move, from m = 0",
        ADAPTIVE,
    ),
    Mistake("momentum-damped", "the update is multiplied by 1 - beta1", "m <- beta1 m + move", (MOMENTUM,)),
    Mistake(
        "momentum-undamped", "the update is not multiplied by 1 - beta1", "m <- beta1 m + (1 - beta1) move", ADAPTIVE
    ),
    Mistake(
        "move-for-momentum",
        "the server's step is along the update, not along its momentum m",
        SERVER_STEP,
        ADAPTIVE,
    ),
    Mistake(
        "square-missing", "v is made of the update, not of its square", "v is made of the update's square", ADAPTIVE
    ),
    Mistake(
        "square-of-momentum",
        "v is made of the momentum's square, not of the update's",
        "v is made of the update's square",
        ADAPTIVE,
        'option="v-of-momentum"',
    ),
    Mistake("yogi-sign", "the sign of v - move^2 is turned", "v <- v - (1 - beta2) move^2 sign(v - move^2)", (YOGI,)),
    Mistake(
        "square-undamped", "the square is not multiplied by 1 - beta2", "v <- beta2 v + (1 - beta2) move^2", (ADAM,)
    ),
    Mistake("adam-for-yogi", "v is the one of FedAdam", "v <- v - (1 - beta2) move^2 sign(v - move^2)", (YOGI,)),
    Mistake("adam-for-yogi", "v is the one of FedYogi", "v <- beta2 v + (1 - beta2) move^2", (ADAM,)),
    Mistake(
        "v-from-tau",
        "v begins at tau^2, not at 0",
        "v = 0 before the first round; Reddi et al. have any v >= tau^2",
        ADAPTIVE,
        'option="v-from-tau"',
    ),
    Mistake("root-missing", "the root of v is missing", SERVER_STEP, ADAPTIVE),
    Mistake("tau-inside", "tau is added under the root", SERVER_STEP, ADAPTIVE),
    Mistake(
        "bias-corrected-late",
        "the moments are corrected for the first rounds, with the exponent of the round after",
        SERVER_STEP,
        (ADAM,),
    ),
    Mistake(
        "bias-corrected",
        "the moments are corrected for the first rounds, as Adam's are",
        SERVER_STEP,
        (ADAM,),
    ),
)


# These are about single local steps, or would leave a client without a minimiser.
STEPS_ONLY = frozenset(
    (
        "steps-one-more", "steps-one-less", "steps-none", "steps-one", "gradient-stale",
        "start-stale", "clients-chained", "penalty-sign", "penalty-norm", "penalty-without-rate",
        "linear-without-rate", "model-shared", "penalty-norm-by-array", "penalty-overwritten",
        "penalty-late", "penalty-last-only", "loss-lost", "l1-sign", *LOSSES,
    )
)


def mistakes_of(
    method: str, exact: bool = False, weighting: str = "", option: str = ""
) -> tuple[Mistake, ...]:
    """The mistakes that can be made in a method, each with the method's own line.

    Parameters
    ----------
    exact : those where clients minimise to the end
    weighting, option : the convention that was asked for, whose other one is what a mistake may be; default the method's
    """
    found = (m for m in MISTAKES if method in m.methods and not (exact and m.name in STEPS_ONLY))
    own = OWN_LINES.get(method, {})
    if option == "gradient":
        own = {CONTROL: BY_GRADIENT, **own}
    if weighting and weighting != METHODS[method].weighting:
        asked = f'{MEAN}, with weighting="{weighting}" as asked for'
        weighed = [k for k in (MEAN, SERVER_STEP) if k == MEAN or BY_EXAMPLES in own.get(k, "")]
        own = {**own, **dict.fromkeys(weighed, asked)}
    return tuple(_where_asked(replace(m, line=own.get(m.line, m.line)), weighting, option) for m in found)


def _where_asked(mistake: Mistake, weighting: str, option: str) -> Mistake:
    if mistake.name == "other-weights" and weighting:
        words, other = (WEIGHED, "examples") if weighting == "uniform" else (IGNORED, "uniform")
        return replace(mistake, words=words, convention=f'weighting="{other}"')
    if mistake.name == "other-option" and option == "gradient":
        return replace(mistake, convention='option="difference"')
    return mistake
