"""The mistakes that the audit knows by name: in what methods, in what words, and at what line."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedtheory.testing.audit.clients import LOSSES
from fedtheory.testing.audit.methods import METHODS

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


def _with(name: str) -> tuple[str, ...]:
    """The methods that have a setting, or keep an array, of that name."""
    return tuple(m.name for m in METHODS.values() if name in m.settings or name in m.state)


ALL = tuple(METHODS)
AVG, PROX, SCAFFOLD, DYN, EN_PROX, EN_SCAFFOLD, EN_DYN, MIME = ALL[:8]
ELASTIC_AGGREGATION, MOMENTUM, ADAM, YOGI = ALL[10], ALL[11], *ALL[13:]
WITH_MU = _with("mu")  # in the penalty alone; alpha is in what FedDyn stores, too
PENALISED = (*WITH_MU, *_with("alpha"))
ELASTIC, CONTROLLED, DYNAMIC, ADAPTIVE = _with("l1"), _with("c"), _with("h"), _with("v")
TRACKED, RATED = _with("d_k"), _with("server_lr")
ADDED = (AVG, PROX, EN_PROX, *RATED)  # the server adds a mean of updates
BY_N = tuple(m for m in ALL if METHODS[m].weighting == "examples")
ALIKE = tuple(m for m in ALL if METHODS[m].weighting == "uniform")

IGNORED, WEIGHED = "client weights are ignored", "clients are weighted by their numbers of examples"
# Lines as they should be. Where a method has its own writing of one, `OWN_LINES` has it, with its
# number in the paper.
LOCAL = "y <- x, then K times y <- y - eta grad f_k(y)"
LOSS = "clients[k].gradient(y), of the mean over its examples of (a'y - b)^2/2, or log(1 + exp(-b a'y)), plus ridge/2 ||y||^2"
PENALTY = "the penalty mu/2 ||y - x||^2 has the gradient mu (y - x)"
L1 = "l1 ||y - x||_1"
MEAN = "x <- mean over the cohort of y"
SERVER_STEP = "x <- x + server_lr times the cohort's mean of (y - x)"
SERVER_MEAN = "x <- x + server_lr times the mean over the cohort of (y - x)"
SERVERS = (MEAN, SERVER_STEP)
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
MOMENTUM_LINE = "m <- beta1 m + (1 - beta1) move"
SQUARE = "v is made of the update's square"
ADAM_LINE = "v <- beta2 v + (1 - beta2) move^2"
YOGI_LINE = "v <- v - (1 - beta2) move^2 sign(v - move^2)"

BY_EXAMPLES = "x <- mean over the cohort of y, each client weighing n_k"
UPDATE = "the update is the cohort's mean of (y - x), by n_k (Algorithm 2 prints a plain mean)"
ADAPTIVE_STEP = "x <- x + server_lr m/(sqrt(v) + tau)"
EN_STEP = "line 7: y <- y - eta (grad f_k(y) - c_k + c + mu (y - x) + l1 sign(y - x))"
EN_PROX_LOCAL = "line 4: y minimises f_k(y) + mu/2 ||y - x||^2 + l1 ||y - x||_1"
EN_DYN_LOCAL = "line 4: y minimises f_k(y) - <h_k, y> + alpha/2 ||y - x||^2 + l1 ||y - x||_1"
EN_PROX_MEAN = "line 7: x <- x + sum over the cohort of n_k/n (y - x), n the examples of all clients"
OWN_LINES = {
    AVG: dict.fromkeys(SERVERS, BY_EXAMPLES),
    PROX: {
        LOCAL: "y <- x, then K times y <- y - eta (grad f_k(y) + mu (y - x))",
        **dict.fromkeys(SERVERS, f"{BY_EXAMPLES} (Algorithm 2 prints a plain mean)"),
    },
    SCAFFOLD: {
        LOCAL: "lines 7 to 10: y <- x, then K times y <- y - eta (grad f_k(y) - c_k + c)",
        **dict.fromkeys(SERVERS, f"lines 16 and 17: {SERVER_MEAN}"),
    },
    DYN: {LOCAL: f"{DYN_LOCAL}, here by K steps from x", PENALTY: DYN_LOCAL, MEAN: X_LINE},
    EN_PROX: {
        LOCAL: f"{EN_PROX_LOCAL}, here by K steps from x", PENALTY: EN_PROX_LOCAL,
        L1: EN_PROX_LOCAL, **dict.fromkeys(SERVERS, EN_PROX_MEAN),
    },
    EN_SCAFFOLD: {
        LOCAL: EN_STEP.replace("line 7: ", "lines 4 to 7: y <- x, then B times "),
        PENALTY: EN_STEP, L1: EN_STEP, CORRECTION: EN_STEP,
        CONTROL: "line 9: c_k+ <- c_k - c + (x - y)/(B eta)",
        **dict.fromkeys(SERVERS, f"line 12: {SERVER_MEAN}"),
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
    ELASTIC_AGGREGATION: dict.fromkeys(SERVERS, ZETA),
    MOMENTUM: {
        MEAN: BY_EXAMPLES, SERVER_STEP: "x <- x + server_lr m, m <- beta1 m + mean of (y - x)",
    },
    **{m: {MEAN: UPDATE, SERVER_STEP: ADAPTIVE_STEP} for m in ADAPTIVE},
}  # fmt: skip

# Line, methods, name -> words, or words and the convention to ask for.
TABLE: tuple[tuple[str, tuple[str, ...], dict[str, str | tuple[str, str]]], ...] = (
    (LOCAL, ALL, {
        "steps-one-more": "one local step too many is taken",
        "steps-one-less": "one local step is missing",
        "steps-none": "no local step is taken: the local models stay the server's",
        "steps-one": "the number of local steps has no effect: one is taken",
        "gradient-stale": "all local steps use the gradient at the server's model",
        "start-stale": "clients go on from their own last model, not from the server's",
        "model-shared":
            "the local model is no copy: local steps write into the server's own x, and y - x is 0",
        "clients-chained": "a client goes on where the one before it stopped: they share one model",
        "gradient-sign": "the local steps go up the gradient",
    }),
    (LOSS, ALL, {
        "squared-without-half":
            "the squared error has no half: its gradient is twice what it should be",
        "examples-summed": "the loss is summed over the client's examples, not averaged",
        "ridge-none": "the ridge term of the loss is left out",
        "squared-for-logistic": "the squared error is taken where clients[k].loss is 'logistic'",
    }),
    (PENALTY, PENALISED, {
        "penalty-none": "the penalty has no gradient: it changes nothing",
        "penalty-sign": "the penalty has the wrong sign: it pushes away from the server's model",
        "penalty-norm": "the norm of the penalty is not squared",
        "penalty-norm-by-array":
            "the norms of the penalty, one for each array of the model, are not squared",
        "penalty-of-model": (
            "the penalty is on the model itself (mu/2 ||y||^2), not on its distance from the "
            "server's"
        ),
        "penalty-own-center":
            "the penalty is centred at the client's own last model, not at the server's",
        "penalty-overwritten": "of the penalty only its linear part -mu <y, x> is left",
        "penalty-late": "the penalty's gradient is taken at the model of one step before",
        "penalty-without-rate": "the penalty's gradient is not multiplied by the step size",
        "penalty-last-only": "the penalty acts in the last local step only",
    }),
    (PENALTY, WITH_MU, {
        "penalty-half": (
            "the penalty's gradient is half of what it should be", "mu, as half of it",
        ),
        "penalty-double": (
            "the penalty's gradient is twice what it should be (mu ||y - x||^2 for mu/2 "
            "||y - x||^2)",
            "mu, as twice it",
        ),
    }),
    (DYN_LOCAL, DYNAMIC, {
        "penalty-half": "half of alpha's penalty acts in the local steps",
        "penalty-double": "twice alpha's penalty acts in the local steps (alpha ||y - x||^2)",
        "local-plain":
            "neither alpha's penalty nor h_k has a gradient: clients train on their loss alone",
        "linear-none": "the stored gradient h_k is not used in the local steps",
        "linear-without-rate":
            "the stored gradient h_k is not multiplied by the step size in the local steps",
        "linear-sign": "the stored gradient h_k has the wrong sign in the local steps",
    }),
    (LOCAL, PENALISED, {
        "loss-lost": "the loss is overwritten by the penalty: its gradient is lost",
    }),
    (L1, ELASTIC, {
        "l1-none": "the l1 penalty has no gradient: it changes nothing",
        "l1-sign": "the l1 penalty has the wrong sign",
        "l1-of-model":
            "the l1 penalty is on the model itself, not on its distance from the server's",
    }),
    (MEAN, BY_N, {
        "other-weights": (IGNORED, 'weighting="uniform"'),
    }),
    (MEAN, ALIKE, {
        "other-weights": (WEIGHED, 'weighting="examples"'),
    }),
    (MEAN, tuple(m for m in ALL if m != EN_PROX), {
        "divide-by-all": (
            "the sum over the cohort is divided by what all clients have, not by what the cohort "
            "has"
        ),
    }),
    (MEAN, (EN_PROX,), {
        "divide-by-all": (
            "the sum over the cohort is divided by what all clients have, which is line 7 as "
            "printed",
            'weighting="all-examples"',
        ),
    }),
    (MEAN, ALL, {
        "sum-not-mean": "the cohort's updates are summed, not averaged",
        "last-client": "the server takes the last client's model, not a mean",
        "first-client": "the server takes the first client's model, not a mean",
    }),
    (MEAN, ADDED, {
        "model-added": (
            "the mean of the clients' models is added to the server's model, not that of their "
            "updates"
        ),
    }),
    (SERVER_STEP, RATED, {
        "server-lr-ignored": "server_lr has no effect",
        "server-lr-squared": "server_lr is multiplied in twice",
    }),
    (SERVER_STEP, ADDED, {"server-sign": "the server's step has the wrong sign"}),
    (CORRECTION, CONTROLLED, {
        "correction-none": "the control variates are not used in the local steps",
        "correction-sign": "the correction has the wrong sign: + c_k - c",
        "correction-c-sign": "c has the wrong sign in the local steps: - c_k - c",
        "correction-c_k-sign": "c_k has the wrong sign in the local steps: + c_k + c",
        "correction-without-rate":
            "the correction is not multiplied by the step size: y <- y - eta grad f_k(y) + c_k - c",
        "correction-without-c": "the server's c is left out of the local steps",
        "correction-without-c_k": "the client's own c_k is left out of the local steps",
    }),
    (CONTROL, CONTROLLED, {
        "local-steps-not-divided": "local steps are not divided out of the new control variate",
        "learning-rate-not-divided":
            "the learning rate is not divided out of the new control variate",
        "control-over-examples": (
            "the number of examples is divided out of the new control variate, not the number of "
            "steps alone"
        ),
        "control-with-c": "the new control variate has + c where c_k - c should be",
        "control-c-sign": "c has the wrong sign in the new control variate: c_k + c",
        "control-c_k-sign": "c_k has the wrong sign in the new control variate: - c_k - c",
        "control-both-signs":
            "c_k and c have the wrong signs in the new control variate: - c_k + c",
        "control-without-c_k": "the new control variate is made without c_k",
        "control-over-one-more": "K + 1 steps are divided out of the new control variate",
        "control-over-one-less": "K - 1 steps are divided out of the new control variate",
        "control-over-server-lr": "server_lr, too, is divided out of the new control variate",
        "control-at-new-x": (
            "the new control variate is made with the server's new x, not with the x that the "
            "client was sent"
        ),
        "control-update-sign": "the new control variate has y - x for x - y",
        "control-without-c": "the new control variate is made without - c",
        "control-without-old": "the new control variate is made without c_k - c",
        "control-at-local-model": (
            "the new control variate is the gradient at the client's own model y, not what the "
            "local steps followed on average"
        ),
        "other-option": (
            "the new control variate is the one of the other option", 'option="gradient"',
        ),
        "control-in-place": (
            "the new control variate is written into the old one's array: from a client's second "
            "round on its change is 0"
        ),
        "c_k-never-updated": "the clients' c_k are never updated",
        "controls-early": (
            "the control variates are updated before the local steps, as gradients at x, and the "
            "steps use the new ones"
        ),
        "c_k-set-to-c": "every client's c_k is set to the new c",
    }),
    (SERVER_CONTROL, CONTROLLED, {
        "c-never-updated": "the server's c is never updated",
        "control-sent-whole": "the whole c_k+ is added to c, not its change",
        "control-over-cohort": (
            "the control variates are not averaged over all clients: the sum is divided by the "
            "cohort's size"
        ),
        "control-not-divided": "the changes of the control variates are summed, not averaged",
        "c-sign": "c is updated with the wrong sign: - for +",
        "c-with-server-lr": "the change of c is multiplied by server_lr, too",
        "c-share-twice": "the cohort's share |S|/N is multiplied into the change of c twice",
        "c-by-examples": (
            "the changes of the control variates are weighted by the clients' shares of all "
            "examples"
        ),
        "c-by-cohorts-examples":
            "the cohort's mean change of the control variates is weighted by examples",
        "c-within-round":
            "c is updated after each client, so that the cohort's next one works with another c",
        "control-replaced": "c is replaced by the cohort's mean control variate",
    }),
    (H_LINE, DYNAMIC, {
        "h-of-models": (
            "the server's model is subtracted once from the sum of the clients' models, not from "
            "each of them"
        ),
        "h-never-updated": "h is never updated",
        "h-sign": "h is updated with the wrong sign",
        "h-over-cohort": "h is divided by the cohort's size, not by the number of all clients",
        "h-not-divided": "h is not divided by the number of clients",
        "h-by-examples": "the clients' shares in h are weighted by their numbers of examples",
        "h-without-alpha": "alpha is left out of h",
        "h-replaced": "h is replaced, not added to",
    }),
    (STORED_LINE, DYNAMIC, {
        "h_k-never-updated": "the stored gradient h_k is never updated",
        "h_k-sign": "the stored gradient h_k is updated with the wrong sign",
        "h_k-replaced": "the stored gradient h_k is replaced, not added to",
        "h_k-at-new-x":
            "h_k is updated with the server's new x, not with the x that the client was sent",
        "alpha-not-stored": "alpha is left out where h_k is updated",
    }),
    (STORED_LINE, (EN_DYN,), {"l1-not-stored": "the sign term is left out where h_k is updated"}),
    (H_LINE, (EN_DYN,), {"l1-not-in-h": "the sign term is left out of h"}),
    (X_LINE, DYNAMIC, {
        "h-of-cohort": (
            "the server's model is made with the mean of the cohort's h_k, not with h, the mean "
            "over all clients"
        ),
        "h-late": "the server's model is made with the h of the round before",
        "h-unused": "the server's model is made without h",
        "h-added": "h/alpha is added to the mean, not subtracted",
        "h-not-over-alpha": "h is subtracted without being divided by alpha",
    }),
    (MIME_LOCAL, (MIME,), {
        "mime-lite": "the local gradients are not corrected: this is MimeLite",
        "mime-correction-sign": "the correction has the wrong sign: + grad f_k(x) - c",
        "gradient-undamped": "the local gradient is not multiplied by 1 - momentum",
        "s-unused": "the momentum s is not used in the local steps",
    }),
    (MIME_S, (MIME,), {
        "s-early": "s is updated before the local steps, not after them",
        "s-never-updated": "s is never updated",
        "s-undamped": "c is not multiplied by 1 - momentum in s",
    }),
    (TRACKING, TRACKED, {
        "tracker-unused": "the corrections are not used in the local steps",
        "tracker-sign": "the correction has the wrong sign in the local steps",
    }),
    (TRACKER, TRACKED, {
        "tracker-never-updated": "the corrections are never updated",
        "tracker-update-sign": "the corrections are updated with the wrong sign",
        "tracker-without-mean": "the cohort's mean is left out where the corrections are updated",
        "tracker-steps-not-divided": "local steps are not divided out of the corrections",
        "tracker-rate-not-divided": "the learning rate is not divided out of the corrections",
    }),
    (ZETA, (ELASTIC_AGGREGATION,), {
        "zeta-unused": "all coordinates get the same step: sensitivities have no effect",
        "zeta-turned": "the most sensitive coordinates get the largest steps",
        "tau-missing": "tau has no effect",
        "sensitivity-over-sum": "sensitivities are divided by their sum, not by the largest",
        "sensitivity-signed": "the absolute value of the output's gradient is missing",
        "sensitivity-at-local-model": "sensitivities are taken at the clients' models",
    }),
    (MOMENTUM_LINE, (MOMENTUM, *ADAPTIVE), {"momentum-none": "the momentum has no effect"}),
    ("m <- beta1 m + (1 - beta1) move, from m = 0", ADAPTIVE, {
        "momentum-first": "the momentum begins as the whole first update",
    }),
    ("m <- beta1 m + move", (MOMENTUM,), {
        "momentum-damped": "the update is multiplied by 1 - beta1",
    }),
    (MOMENTUM_LINE, ADAPTIVE, {"momentum-undamped": "the update is not multiplied by 1 - beta1"}),
    (SERVER_STEP, ADAPTIVE, {
        "move-for-momentum": "the server's step is along the update, not along its momentum m",
        "root-missing": "the root of v is missing",
        "tau-inside": "tau is added under the root",
    }),
    (SQUARE, ADAPTIVE, {
        "square-missing": "v is made of the update, not of its square",
        "square-of-momentum": (
            "v is made of the momentum's square, not of the update's", 'option="v-of-momentum"',
        ),
    }),
    (YOGI_LINE, (YOGI,), {
        "yogi-sign": "the sign of v - move^2 is turned",
        "adam-for-yogi": "v is the one of FedAdam",
    }),
    (ADAM_LINE, (ADAM,), {
        "square-undamped": "the square is not multiplied by 1 - beta2",
        "adam-for-yogi": "v is the one of FedYogi",
    }),
    ("v = 0 before the first round; Reddi et al. have any v >= tau^2", ADAPTIVE, {
        "v-from-tau": ("v begins at tau^2, not at 0", 'option="v-from-tau"'),
    }),
    (SERVER_STEP, (ADAM,), {
        "bias-corrected-late":
            "the moments are corrected for the first rounds, with the exponent of the round after",
        "bias-corrected": "the moments are corrected for the first rounds, as Adam's are",
    }),
)  # fmt: skip
MISTAKES = tuple(
    Mistake(name, told, line, methods) if isinstance(told, str)
    else Mistake(name, told[0], line, methods, told[1])
    for line, methods, of in TABLE
    for name, told in of.items()
)  # fmt: skip


# These are about single local steps, or would leave a client without a minimiser.
STEPS_ONLY = frozenset((
    "steps-one-more", "steps-one-less", "steps-none", "steps-one", "gradient-stale", "start-stale",
    "clients-chained", "penalty-sign", "penalty-norm", "penalty-without-rate",
    "linear-without-rate", "model-shared", "penalty-norm-by-array", "penalty-overwritten",
    "penalty-late", "penalty-last-only", "loss-lost", "l1-sign", *LOSSES,
))  # fmt: skip


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
