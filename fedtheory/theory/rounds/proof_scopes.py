"""Where a statement is proved: with how many clients, rounds and open numbers, and in words for what that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

from fedtheory.errors import FedTheoryError, MissingCapability, NotCertified
from fedtheory.limits import announce
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.theory.rounds.declare import Above, Among
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.probe import one_is_as_two
from fedtheory.theory.rounds.problem_classes import Lipschitz, StronglyConvex
from fedtheory.theory.rounds.vector_forms import MOST_OF_COHORTS, families, view_of
from fedtheory.theory.rounds.vector_worlds import CLIENTS, CONVEXITY, FEW
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.numbers import Units
from fedtheory.worst_cases.runs import STATE

__all__ = [
    "MANY", "Case", "announce_proofs", "cases_of", "elsewhere", "scope_of", "scopes", "undeclared",
]  # fmt: skip

MOST_CROWDS = 4  # numbers of clients at which a statement about cohorts of one size is proved
COHORTS = ((2, 1), (3, 1), (3, 2), (5, 2))  # N and P at which a statement about cohorts of any size is proved
BETAS = (Fraction(3 * 10**6), Fraction(1, 7 * 10**6))  # and with these, beside 1
OTHERS = 3  # coordinates, beside `SHOWN`
MANY = 101  # rows, beside `FEW`, so that what counts them is noticed
SEVERAL = 29  # coordinates, and clients, that are looked at before every number is claimed
EVERYBODY, EVERY_DIMENSION = "any number of clients", "every dimension"
MOST_ROUNDS = 3  # of a run that is proved
PROVED, BEST = 7e-3, 11e-3  # seconds for each condition: of a form, and of the best value of a constant (measured, one core)
ROUNDS_OF_COHORTS = 2  # that are proved, unless more are declared


class Case(NamedTuple):
    """Where a statement is proved: the numbers that it leaves open, the rounds, N and P, whether
    every client has vectors of its own, and else the most rows of the clients' arrays."""

    drawn: dict[str, Fraction]
    rounds: int
    crowd: tuple[int, int]
    apart: bool = False
    rows: int = FEW


def scopes(setting: MethodSetting) -> list[list[Case]]:
    """Where a statement is proved: the first of these at which it can be.

    Of one round of cohorts the expectations of squares are known for any number of clients. What
    depends on who takes part, and more rounds, are looked at with few clients, cohort by cohort.
    Of many clients arrays have few rows, but where a method or a side counts them.

    Raises
    ------
    MissingCapability
        Cohorts that are not uniform, or too many of them.
    """
    least, most = setting.usual_rounds
    fewest, largest = setting.problems.clients
    N = CLIENTS[0] if fewest <= CLIENTS[0] <= largest else fewest
    everybody, crowds = [(N, N)], list[tuple[int, int]]()
    if setting.sampling is Uniform:
        crowds = [c for c in COHORTS if fewest <= c[0] <= largest]
    elif isinstance(setting.sampling, Uniform):
        P = setting.sampling.size
        least_of = max(P, fewest)
        counts = range(least_of, min(largest, least_of + MOST_CROWDS - 1) + 1)
        everybody, crowds = [], [(n, P) for n in counts]
    elif not isinstance(setting.sampling, Full):
        raise MissingCapability(f"cohorts by {setting.sampling}: uniform ones are proved, and everybody")
    drawn, run = setting.choices(), setting.scope == "run"
    few = [0] if setting._free else list(range(least, max(least, min(most, MOST_ROUNDS)) + 1))
    if not run and not setting._free and all(_only_model(setting, numbers) for numbers in drawn):
        few = [0]  # any model is looked at, wherever it comes from

    def of(crowds: list[tuple[int, int]], apart: bool, lengths: list[int]) -> list[Case]:
        return [
            Case(numbers, rounds, crowd, apart)
            for numbers in drawn for rounds in lengths for crowd in crowds
        ]  # fmt: skip

    def alike(crowds: list[tuple[int, int]], lengths: list[int]) -> list[list[Case]]:
        found, most = of(crowds, False, lengths), max(n for n, _ in crowds)
        return [found, [case._replace(rows=most) for case in found]][: 1 + (most > FEW)]

    if all(n == p for n, p in crowds):
        return alike([*everybody, *crowds], few)
    shorter = [T for T in few if T <= max(least, ROUNDS_OF_COHORTS if run else ROUNDS_OF_COHORTS - 1)]
    sizes = {c: max(_conditions(setting, case) for case in of([c], True, shorter)) for c in crowds}
    small = [crowd for crowd, size in sizes.items() if size <= MOST_OF_COHORTS]
    found = [] if run else alike([*everybody, *crowds], few)
    if any(n > p for n, p in small):
        found.append(of([*everybody, *small], True, shorter))
    elif run and not everybody:
        least_of = min(size for (n, p), size in sizes.items() if n > p)
        raise MissingCapability(
            f"losses after every cohort of {shorter[-1]} rounds have about {least_of} conditions, and at "
            f"most {MOST_OF_COHORTS} are looked at in a study: declare fewer rounds, local steps or clients"
        )
    return [*found, *alike(everybody, few)] if run and everybody else found


def _conditions(setting: MethodSetting, case: Case) -> int:
    """How many conditions the losses of every client have about at the models of every history."""
    clients, participants = case.crowd
    steps = case.drawn.get("steps", getattr(setting.local, "steps", 1))
    ways, rounds = comb(clients, participants), case.rounds + (setting.scope == "round")
    before = sum(ways**t for t in range(rounds))
    points = 1 + (int(steps) if isinstance(steps, int | Fraction) else 1) * before + ways**rounds
    return 0 if clients == participants else clients * points * (points - 1)


def _only_model(setting: MethodSetting, drawn: dict[str, Fraction]) -> bool:
    """True if a method keeps nothing but the server's model, and does not ask which round it is."""
    view = view_of(setting, drawn, 0)
    kept = (value for state in view.path.states for value in state[1:])
    return all(value is None for value in kept) and "t" not in view.world.trace.read


def announce_proofs(statement: Any) -> None:
    """Announce the size of the proofs of all forms of a statement, and of the best values of their constants."""
    setting = MethodSetting.of(statement)
    with suppress(FedTheoryError):
        every = [[_size(setting, case) for case in cases] for cases in scopes(setting)]
        sizes = max(every, key=sum)
        told = f"{statement.id}: proofs with {sum(sizes):,} conditions on the losses in all, at most {max(sizes)} in one"
        announce(told, sum(sizes) * (PROVED * len(statement.forms) + BEST * len(statement.constants)))


def _size(setting: MethodSetting, case: Case) -> int:
    about = _conditions(setting, case) if case.apart else 0
    return about or view_of(setting, *case).world.size


def cases_of(
    statement: Any, form: str, words: str, constants: Mapping[str, Fraction] | None = None,
    chosen: Sequence[Mapping[str, Fraction]] = (),
) -> list[Case]:  # fmt: skip
    """Where a form is proved if it is proved for what is said in words.

    Raises
    ------
    NotCertified
        It cannot be proved for that.
    MissingCapability
        As `scope_of`.
    """
    told, failed = list[str](), None
    for cases in scopes(MethodSetting.of(statement)):
        if chosen and len(chosen) != len(cases):
            continue
        try:
            told.append(scope_of(statement, form, cases, constants, chosen)[0])
        except MissingCapability as error:
            failed = error
            continue
        if told[-1] == words:
            return cases
    if not told and failed is not None:
        raise failed
    raise NotCertified(f"it says that it is for {words}: it can be for {', or for '.join(told)}")


def scope_of(
    statement: Any, form: str, cases: list[Case], constants: Mapping[str, Fraction] | None = None,
    chosen: Sequence[Mapping[str, Fraction]] | None = None,
) -> tuple[str, bool]:  # fmt: skip
    """For which losses, clients and further numbers a form is proved, in words, and whether that is
    all that the statement is about.

    constants : other values of some
    chosen : of each case the values of those that are free; None before a proof was tried, when less
        is looked at

    Raises
    ------
    MissingCapability
        A side that is no form of vectors, or another one in another dimension.
    """
    setting = MethodSetting.of(statement)
    own = chosen or [{}] * len(cases)
    seen = [
        _changes(statement, setting, form, case, {**(constants or {}), **of}, chosen is not None)
        for case, of in zip(cases, own, strict=True)
    ]  # fmt: skip
    last = max(case.rounds for case in cases)
    fewest, largest = setting.problems.clients
    crowds = list(dict.fromkeys(case.crowd for case in cases))
    left: list[str] = []  # what more there is
    if all(n == p for n, p in crowds):
        counts = {counted for counted, *_ in seen}
        told = min(counts, key=[f"{fewest} client{'s' * (fewest > 1)}", "2 clients", "2, 3 or 5 clients", EVERYBODY].index)
        left += [told] * (fewest < largest and told != EVERYBODY)
        told = told if isinstance(setting.sampling, Full) else f"{told} who all take part"
        left += [told] * (not isinstance(setting.sampling, Full))
    else:
        told = ", ".join(f"{p} of {n}" for n, p in crowds) + " clients"
        left += [told] * (setting.sampling is Uniform or len(crowds) < largest - max(fewest, crowds[0][1]) + 1)
    more = []
    if not all(in_units for _, in_units, _ in seen):
        more.append("beta = 1" if setting.problems.__class__ is not Lipschitz else "G = 1")
    kind = setting.problems.words
    if type(setting.problems) is StronglyConvex:
        mu = setting.problems.mu
        if mu is None or any("mu" in read for *_, read in seen):
            more.append(f"mu = {mu or CONVEXITY} beta")
        else:
            kind += f" of mu >= {mu} beta"
    for name, family in setting.open_numbers().items():
        if isinstance(family, Above):
            more.append(f"{name} at {family.usual} above its limit")
        elif not isinstance(family, Among):
            more.append(f"{name} at its limit")
    if setting.scope == "run":
        more.append(f"runs of up to {last} rounds" if last > 1 else "runs of one round")
    elif not setting._free and not all(_only_model(setting, case.drawn) for case in cases):
        more.append(f"after at most {last} rounds")
    elif setting._free:
        more += [f"{name} as at the start" for name in undeclared(setting, view_of(setting, *cases[0]))]
    every_length = setting.scope == "run" and setting.of_statement.rounds[1] <= last
    words = ", ".join([kind, told, EVERY_DIMENSION, *more])
    return words, not left and len(more) == every_length  # of a run the rounds are told in any case


def _changes(
    statement: Any, setting: MethodSetting, form: str, case: Case,
    constants: Mapping[str, Fraction], last: bool,
) -> tuple[str, bool, set[str]]:  # fmt: skip
    """The numbers of clients for which a form's inequalities are the same, whether another beta only changes units, and
    what was read.

    last : one coordinate, and `SEVERAL` of them (fewer where clients are many) and clients, as well

    Raises
    ------
    MissingCapability
        They are others in another dimension.
    """
    crowd = case.crowd

    def made(**other: Any) -> tuple[list[Family], set[str]]:
        view = view_of(setting, **{**case._asdict(), **other})
        return families(statement, view.other(constants), form), view.world.trace.read

    here, read = made()
    fewest, largest = setting.problems.clients
    many = max(2 * OTHERS, SEVERAL // (1 + crowd[0] // 10))
    if any(made(dim=d)[0] != here for d in (OTHERS, *(1, many) * last)):
        raise MissingCapability(f"{statement.id} [{form}]: a side is another one in another dimension")
    if case.rows < crowd[0] and not case.apart and made(rows=MANY)[0] != here:
        raise MissingCapability(f"{statement.id} [{form}]: a side counts the rows of arrays")
    try:
        in_units = _in_units(here, {beta: made(beta=beta)[0] for beta in BETAS}, list(setting._free))
    except MissingCapability:  # a need that is met in these units only
        in_units = False
    if crowd[0] > crowd[1] or fewest == largest:
        return f"{fewest} client{'s' * (fewest > 1)}", in_units, read

    def alike(counts: Sequence[int]) -> bool:
        try:
            return all(made(crowd=(n, n), rows=n, dim=1)[0] == here for n in counts)
        except MissingCapability:  # a need that is met by few clients only
            return False

    if not alike(CLIENTS):
        return "2 clients", in_units, read
    every = "N" not in read and alike(_several(setting) if last else [])
    every = every and (fewest > 1 or one_is_as_two(statement, setting, form, constants))
    return EVERYBODY if every else "2, 3 or 5 clients", in_units, read


def _several(setting: MethodSetting) -> list[int]:
    """Larger numbers of clients that are looked at: one, and the most declared up to `MANY`."""
    most = min(setting.problems.clients[1], MANY)
    return [SEVERAL, *[most][: most > SEVERAL]]


def elsewhere(setting: MethodSetting, case: Case) -> list[dict[str, Any]]:
    """Other dimensions, and other numbers of clients, looked at where every one is claimed."""
    fewest, largest = setting.problems.clients
    N, P = case.crowd
    many = max(2 * OTHERS, SEVERAL // (1 + N // 10))
    found: list[dict[str, Any]] = [{"dim": d} for d in (1, OTHERS, many)]
    if P == N and fewest < largest:
        counts = [*range(fewest, 2), *CLIENTS, *_several(setting)]
        found += [{"crowd": (n, n), "rows": n, "dim": 1} for n in counts]
    return found


def _in_units(here: list[Family], there: Mapping[Fraction, list[Family]], fields: Sequence[str]) -> bool:
    """True if the sides and the conditions with another beta are those with beta = 1 in other units of the losses.

    fields : of the state before the round, that may be anything: gradients, or positions, for all beta alike
    """
    names = {name for family in here for of in family.names.values() for name in of}

    def alike(placed: frozenset[str]) -> bool:
        plain = [Units(Fraction(1), Fraction(1)).changed(a)[0] for a in here]
        return all([Units(Fraction(1), beta, placed).changed(b)[0] for b in of] == plain for beta, of in there.items())

    chosen = (some for n in range(len(fields) + 1) for some in combinations([STATE + f for f in fields], n))
    return any(
        alike(frozenset(name for name in names if name in some or name.rpartition(".")[0] in some)) for some in chosen
    )


def undeclared(setting: MethodSetting, view: Any) -> list[str]:
    """What a method keeps, and the statement does not say what it is before the round."""
    states = view.path.states[-2:]  # what is None before the round may be kept after it
    kept = [n for n in states[0]._fields if any(getattr(s, n) is not None for s in states)]
    return [n for n in kept if n != "x" and n not in setting.of_statement.states]
