"""Clients that do part of the work, and their local SGD: the options, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from fedtheory.cli.activity import HELP as _ACTIVITY
from fedtheory.cli.activity import activity_in_words, activity_of, check_ever_active
from fedtheory.cli.common import refuse_no_participants
from fedtheory.cli.options import flag, option
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.limits import must_fit
from fedtheory.untrusted import ratio, whole

__all__ = [
    "LOCAL_OPTIONS", "PARTICIPATION_OPTIONS", "STEPS", "given_participation", "local_sgd",
    "participation_in_words", "participation_of", "refuse_participation", "step_size", "windows_of",
]

STEPS = 5  # E where --local-steps does not say

_WHO, _WORK = "Who takes part, and does how much (local SGD)", "Local SGD"
_INACTIVE = "Probability of an inactive client: one number, or one a client with commas."
_INCOMPLETE = (
    "Local steps of an active client: uniform, or probabilities of 1, ..., E (or 0, ..., E)."
)
_ARRIVAL = "First round in which a client is there, as 2@10: clients count from 0, rounds from 1."
_DEPARTURE = (
    "First round in which a client is gone, as 2@10 (of EFL's Theorem 2: which client, by default "
    "the last)."
)
PARTICIPATION_OPTIONS = (
    option("inactive", str | None, None, _INACTIVE, _WHO, metavar="P,..."),
    option("incomplete", str | None, None, _INCOMPLETE, _WHO, metavar="LAW"),
    option("activity", str | None, None, _ACTIVITY, _WHO, metavar="SHAPES"),
    option("arrival", str | None, None, _ARRIVAL, _WHO, metavar="WHEN"),
    option("departure", str | None, None, _DEPARTURE, _WHO, metavar="WHEN"),
)
_SCHEDULES = Literal["constant", "inverse", "theorem"]
_SCHEDULE = "Step sizes: constant, inverse (lr/(1 + t/delay)), or theorem (EFL's Theorem 1)."
LOCAL_OPTIONS = (
    option("lr_schedule", _SCHEDULES | None, None, _SCHEDULE, _WORK),
    option("lr_delay", float | None, None, "Rounds after which an inverse step is halved (default 2/(lr mu E)).", _WORK),
    option("local_steps", int | None, None, f"E, local steps a round (default {STEPS}).", _WORK),
    option("local_lr", float | None, None, "The step size, instead of Theorem 1's.", _WORK),
    option("batch_size", int | None, None, "Samples of a fresh mini-batch a step (default: the full gradient).", _WORK),
)


def given_participation(options: Mapping[str, Any]) -> list[str]:
    """Names of the participation options that were given."""
    return [p.name for p in PARTICIPATION_OPTIONS if options.get(p.name) is not None]


def refuse_participation(options: dict[str, Any], whose: str, remedy: str, names: Iterable[str] = ()) -> None:
    """Raise `InvalidInput` when a participation option, or one of the others named, was given."""
    for name in [*given_participation(options), *(n for n in names if options.get(n) is not None)]:
        raise InvalidInput(f"{flag(name)} {options[name]} does not apply to {whose}: {remedy}")


def _probabilities(text: str, name: str) -> list[float]:
    try:
        found = [ratio(part) for part in text.split(",")]
    except (ValueError, ZeroDivisionError):
        raise InvalidInput(f"{name} {text}: write probabilities with commas, as in {name} 0.3,1/2") from None
    for value in found:
        if not 0 <= value <= 1:
            raise InvalidInput(f"{name} {text}: {float(value):g} is no probability, it must lie in [0, 1]")
    return [float(value) for value in found]


def _law(text: str | None, E: int) -> np.ndarray:
    """(E + 1,) probabilities of s = 0..E of an active client; without a text it completes E."""
    must_fit(f"{E:,} local steps", E, "take fewer local steps")
    row = np.zeros(E + 1)
    if text is None:
        row[E] = 1
        return row
    if text.strip().lower() == "uniform":
        row[1:] = 1 / E
        return row
    given = _probabilities(text, "--incomplete")
    if len(given) not in (E, E + 1):
        most = len(given) - 1
        what = f"s_k = {most} > E" if most > E else "some are missing"
        raise InvalidInput(
            f"--incomplete {text}: {len(given)} probabilities for E = {E} local steps ({what}): "
            f"give {E} of s = 1..{E}, or {E + 1} of s = 0..{E}, or change --local-steps"
        )
    if abs(sum(given) - 1) > 1e-9:
        raise InvalidInput(f"--incomplete {text}: the probabilities sum to {sum(given):.10g}, they must sum to 1 (1/3 may be written)")
    row[E + 1 - len(given) :] = given
    return row


def _rounds_by_client(text: str | None, name: str, clients: int) -> dict[int, int]:
    """{client: round} of 'client@round,...'."""
    out: dict[int, int] = {}
    for part in (text or "").split(",") if text else ():
        who, _, when = part.partition("@")
        try:
            client, round_index = whole(who), whole(when)
        except ValueError:
            raise InvalidInput(f"{name} {text}: {part!r} is not client@round, as in {name} 2@10,3@20") from None
        if not 0 <= client < clients:
            raise InvalidInput(f"{name} {text}: there is no client {client}, clients are numbered 0..{clients - 1}")
        if client in out:
            raise InvalidInput(f"{name} {text}: client {client} appears twice, one round each")
        out[client] = round_index
    return out


def windows_of(options: Mapping[str, Any], clients: int) -> dict[int, tuple[int | None, int | None]]:
    """{client: (first round there, first round gone)} of --arrival and --departure."""
    come = _rounds_by_client(options.get("arrival"), "--arrival", clients)
    go = _rounds_by_client(options.get("departure"), "--departure", clients)
    return {k: (come.get(k), go.get(k)) for k in sorted({*come, *go})}


def participation_of(problem: Any, options: Mapping[str, Any], participants: int | None, E: int, rounds: int) -> Any:
    """The law of cohorts with local steps that the options ask for; everybody complete without any.
    """
    from fedtheory.participation.cohorts import Uniform
    from fedtheory.participation.irregular import Irregular, as_irregular, windows

    if isinstance(E, int) and E < 1:
        raise InvalidInput(f"--local-steps {E}: it must be at least 1")
    given, N = given_participation(options), problem.num_clients
    if participants is not None:
        if given:
            raise InvalidInput(f"--participants {participants} and {flag(given[0])}: two laws of who takes part, give one of them")
        refuse_no_participants(participants, problem)
        cohorts = Uniform(participants)
        cohorts.check(N)
        return as_irregular(cohorts, E, N)
    idle = np.zeros(1) if options.get("inactive") is None else np.array(_probabilities(options["inactive"], "--inactive"))
    if len(idle) not in (1, N):
        raise InvalidInput(f"--inactive {options['inactive']}: {len(idle)} numbers for N = {N} clients: give one, or one a client")
    active = _law(options.get("incomplete"), E)
    idle = np.broadcast_to(idle, (N,))[:, None]
    rows = (1 - idle) * active + idle * np.eye(E + 1)[0]
    never = np.nonzero(rows[:, 0] == 1)[0]
    if len(never):
        raise InvalidInput(
            f"client {never[0]} is never active (P(s = 0) = 1): the objective is undefined, its loss would be in F and never be seen; "
            "give it a probability of being inactive below 1, or leave it out of the problem"
        )
    law = Irregular(E, rows)
    if options.get("activity") is not None:
        from fedtheory.participation.activity import varying

        law = varying(law, activity_of(options["activity"], N))
    stay = windows_of(options, N)
    if stay:
        law = windows(law, stay)
    law.check_run(N, rounds)
    if options.get("activity") is not None:
        check_ever_active(law, rounds)
    return law


def participation_in_words(problem: Any, options: Mapping[str, Any], participants: int | None) -> str:
    """Say for a headline who takes part."""
    if participants is not None or not given_participation(options):
        return f"P = {participants or problem.num_clients}"
    words = []
    if options.get("inactive") is not None:
        words.append(f"inactive with probability {options['inactive']}")
    if options.get("incomplete") is not None:
        words.append(f"local steps {options['incomplete']}")
    if options.get("activity") is not None:
        words += activity_in_words(options["activity"])
    for client, (first, gone) in windows_of(options, problem.num_clients).items():
        words += [f"client {client} there from round {first}"] * (first is not None)
        words += [f"client {client} gone from round {gone}"] * (gone is not None)
    return ", ".join(words)


# --- step sizes -----------------------------------------------------------------------------------
def step_size(algorithm: Any, problem: Any, penalty: float = 0.0, sampling: Any = None, rounds: int = 1) -> float:
    """1/(c (beta + penalty + lambda U)).

    U is the largest entry that sum_k diag I_k can have (an elastic term), c the largest p_tau^k/p^k
    that the law allows: under scheme C a client that stops after one of E steps counts E times."""
    has_elastic_term = hasattr(algorithm, "fisher_kind") and algorithm.lam
    elastic = float(algorithm.lam) * _largest_fisher(algorithm, problem) if has_elastic_term else 0.0
    scale = 1.0
    if hasattr(algorithm, "scheme") and sampling is not None:
        scale = max(1.0, max(_largest_factor(algorithm.scheme, sampling, t) for t in _different_rounds(sampling, rounds)))
    curvature = float(problem.beta_k.max()) + penalty + elastic
    if curvature == 0:
        raise InvalidInput(f"the losses of {problem.name} have no curvature to take a step size from: give one with --local-lr")
    return 1 / (scale * curvature)


def _largest_fisher(algorithm: Any, problem: Any) -> float:
    from fedtheory.clients.fisher import check_fisher, fisher_bound

    kind = algorithm.fisher_kind(problem)
    check_fisher(problem, kind)
    try:
        return float(fisher_bound(problem, kind).sum(axis=0).max())
    except MissingCapability as error:
        raise InvalidInput(f"{error}: give a step size with --local-lr, or another --fisher") from error


def _different_rounds(sampling: Any, rounds: int) -> list[int]:
    """One round of each law that a run meets."""
    if getattr(sampling, "stationary", False):
        return [1]
    return list({sampling.law(t).tobytes(): t for t in range(1, rounds + 1)}.values())


def _largest_factor(scheme: str, sampling: Any, round_index: int) -> float:
    """The largest p_tau^k/p^k of a round that can happen."""
    law, E = sampling.law(round_index), sampling.max_steps
    possible = law[:, 1:] > 0
    if scheme == "A":  # N/K complete clients, K as few as can be
        certain = int((law[:, E] == 1).sum())
        return float((law[:, 0] < 1).sum()) / max(1, certain)
    if scheme == "B":
        return 1.0
    factor = np.where(possible, E / np.arange(1, E + 1), 0).max(axis=1)
    if scheme == "C-corrected":
        factor = factor / np.maximum(1 - law[:, 0], 1e-300) * (law[:, 0] < 1)
    return float(factor.max())


def local_sgd(problem: Any, algorithm: Any, o: Mapping[str, Any], sampling: Any, rounds: int, lr: Any) -> Any:
    """`LocalSGD` as the options ask for it; `lr()` is the default step size."""
    from fedtheory.local import InverseTime, LocalSGD

    E, kind, value = sampling.max_steps, o.get("lr_schedule") or "constant", o.get("local_lr")
    if value is not None and not value > 0:
        raise InvalidInput(f"--local-lr {value:g}: the step size must be > 0")
    if o.get("lr_delay") is not None and kind != "inverse":
        raise InvalidInput(f"--lr-delay {o['lr_delay']:g} is for --lr-schedule inverse")
    if kind == "theorem":
        if value is not None:
            raise InvalidInput(f"--local-lr {value:g} with --lr-schedule theorem, which says what the step is: leave one of them out")
        schedule: Any = _theorem_step(problem, algorithm, sampling, rounds)
    else:
        schedule = lr() if value is None else value
        if kind == "inverse":
            delay = o.get("lr_delay")
            if delay is None:
                mu = float(problem.mu_k.min())
                if not mu > 0:
                    raise InvalidInput(f"--lr-schedule inverse: mu = {mu:g} gives no delay: give one with --lr-delay, or add --ridge")
                delay = 2 / (schedule * mu * E)
            schedule = InverseTime(schedule, delay)
    return LocalSGD(E, schedule, o.get("batch_size"), noise_std=o.get("noise") or 0.0)


def _theorem_step(problem: Any, algorithm: Any, sampling: Any, rounds: int) -> Any:
    """The steps that a theorem of the method's paper gives the run."""
    from fedtheory import algorithms
    from fedtheory.theory.judge.registry import paper

    def steps_of(method: Any) -> Any:
        source = getattr(method, "parameters_from", "")
        return paper(source).step_sizes if source else None

    given = steps_of(algorithm)
    if given is None:
        known = [name for name in algorithms.names() if steps_of(algorithms.get(name))]
        raise InvalidInput(f"--lr-schedule theorem: steps that a theorem says are for {', '.join(known)}, not for {algorithm.name}")
    return given(algorithm, problem, sampling, rounds)
