"""Laws of cohorts worked a second time: every subset of clients in fractions, and draws."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations
from math import prod

import numpy as np
import pytest
from cases import each
from scipy import stats

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation import (
    Away,
    Bernoulli,
    Cohort,
    Cycle,
    Decay,
    Every,
    Fade,
    FedDynBernoulli,
    Full,
    Grow,
    Irregular,
    JointLaw,
    Only,
    Uniform,
    as_irregular,
    complete,
    inactive,
    joint_law,
    varying,
    windows,
)
from fedtheory.participation.coefficients import (
    SCHEMES,
    check_weights,
    coefficients,
    when_complete,
)
from fedtheory.participation.cohorts import Sampling
from fedtheory.participation.moments import moments, round_moments
from fedtheory.randomness import Stream

SIXTEENTH = F(1, 16)
CHANCES = (F(1, 2), F(1, 4), F(3, 8), SIXTEENTH)


def subsets(clients):
    return [c for size in range(clients + 1) for c in combinations(range(clients), size)]


def some(chances):
    """Each client by its own chance, given that somebody comes."""
    mass = {
        c: prod((p if k in c else 1 - p for k, p in enumerate(chances)), start=F(1))
        for c in subsets(len(chances))
        if c
    }
    total = sum(mass.values())
    return {c: m / total for c, m in mass.items() if m}


def fixed(clients, size):
    cohorts = list(combinations(range(clients), size))
    return {c: F(1, len(cohorts)) for c in cohorts}


LAWS = [
    (Bernoulli(tuple(map(float, CHANCES))), 4, some(CHANCES)),
    (Bernoulli(0.125), 3, some((F(1, 8),) * 3)),
    (Bernoulli((1.0, 0.25, 0.5)), 3, some((F(1), F(1, 4), F(1, 2)))),  # one is always there
    (Bernoulli(0.75), 1, some((F(3, 4),))),
    *((Uniform(size), clients, fixed(clients, size)) for size, clients in ((2, 5), (1, 3), (4, 4))),
    (Full(), 3, fixed(3, 3)),
]


def cohorts_of(cohort):
    return [tuple(map(int, np.flatnonzero(row))) for row in cohort.dense().mask]


@pytest.mark.parametrize(("law", "clients", "truth"), LAWS)
def test_every_cohort_has_its_chance(law, clients, truth):
    """And with it every marginal and every pair, in floats and in fractions."""
    listed = law.enumerate(clients)
    found = dict(zip(cohorts_of(listed), listed.probability, strict=True))
    assert set(found) == set(truth) and len(found) == listed.scenarios
    assert found == pytest.approx({c: float(m) for c, m in truth.items()}, rel=1e-14)
    alone = [sum((m for c, m in truth.items() if k in c), F(0)) for k in range(clients)]
    drawn = law.sample(Stream(3), 2, range(5), clients)
    for cohort in (listed, drawn):
        assert cohort.active_probability == pytest.approx([float(m) for m in alone], rel=1e-14)
    if not isinstance(law, Bernoulli):
        assert law.count(clients) == len(truth)
    steps = as_irregular(law, 3, clients)
    assert steps.active(exact=True).tolist() == alone
    assert steps.law(1, exact=True).tolist() == [[1 - m, 0, 0, m] for m in alone]
    exact = steps.enumerate_round(1, clients, exact=True)
    assert dict(zip(cohorts_of(exact), exact.probability, strict=True)) == truth
    assert (exact.steps == 3 * exact.mask).all() and exact.active_probability.tolist() == alone
    mask, mass = listed.dense().dense_mask.astype(float), listed.probability
    for j, k in combinations(range(clients), 2):
        both = sum((m for c, m in truth.items() if {j, k} <= set(c)), F(0))
        assert (mask[:, j] * mask[:, k]) @ mass == pytest.approx(float(both), rel=1e-14)


@pytest.mark.parametrize(("law", "clients", "truth"), LAWS)
def test_draws_have_the_chances_of_every_cohort(law, clients, truth):
    """4,000 cohorts of four rounds by the chi-square test at a level of one in 10,000."""
    seen: dict[tuple[int, ...], int] = dict.fromkeys(truth, 0)
    for t in range(1, 5):
        for cohort in cohorts_of(law.sample(Stream(7), t, range(1000), clients)):
            seen[cohort] += 1  # no other cohort is drawn
    if len(truth) > 1:
        chances = np.array([float(m) for m in truth.values()])
        assert stats.chisquare(list(seen.values()), 4000 * chances / chances.sum()).pvalue > 1e-4


def test_a_list_of_cohorts_is_counted_without_the_empty_one():
    assert [Bernoulli(0.5).count(n) for n in (1, 2, 5)] == [1, 3, 31] and [
        Uniform(2).count(n) for n in (2, 5)
    ] == [1, 10]
    assert Full().count(7) == 1


class Given(Stream):
    """The same uniform numbers whoever asks."""

    def per_scenario(self, draw, purpose, scenarios, round_index=0, step=0):
        return np.tile(NUMBERS, (len(scenarios), 1))


NUMBERS = np.array([0.25, 0.25, 0.0])


def test_who_draws_exactly_its_chance_stays_away():
    """P(u < p) = p of numbers in [0, 1); with a law of steps as with a law of cohorts."""
    chances = (0.25, 0.5, 0.5)
    steps = inactive(3, 2, 1 - np.array(chances))
    for law in (Bernoulli(chances), steps):
        assert (
            law.sample(Given(0), 1, range(2), 3).dense().mask.tolist() == [[False, True, True]] * 2
        )


def test_fed_dyns_code_takes_who_draws_exactly_the_chance():
    numbers = np.random.RandomState(3).uniform(size=5)
    law = FedDynBernoulli(float(numbers[2]), seed=3)
    taken = law.sample(Stream(0), 1, range(1), 5).dense().mask[0]
    assert taken.tolist() == [bool(n <= numbers[2]) for n in numbers] and taken[2]
    assert FedDynBernoulli(1.0, 2**31 - 1).sample(Stream(0), 1, range(1), 5).dense().mask.all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"members": [[0, 5]]}, "name client 5 of 3"), ({"members": [[-1, 5]]}, "client -1"),
        ({"members": [[0, 1, 2], [0, 2, 1]]}, "scenario 1 are .*increasing order"),
        ({"mask": [[True] * 3], "steps": [[1] * 3] * 2, "max_steps": 1}, "same shape"),
        ({"members": [[0]], "steps": [[1]], "max_steps": 1}, "same shape"),
        ({"mask": [[True] * 3], "steps": [[1] * 3]}, "E = None"),
        ({"mask": [[True] * 3], "steps": [[1, 3, 2]], "max_steps": 2}, "from 1 to 3 with E = 2"),
        ({"mask": [[True] * 3], "steps": [[1, -1, 2]], "max_steps": 2}, "from -1 to 2"),
        ({"mask": [[True] * 3], "steps": [[1, 0, 2]], "max_steps": 2}, "leave out clients"),
    ],
)  # fmt: skip
def test_more_cohorts_that_are_none(given, words):
    if "steps" in given:
        given = {**given, "steps": np.array(given["steps"])}
    with pytest.raises(InvalidInput, match=words):
        Cohort(3, **given)


def test_which_slots_count():
    some = Cohort(3, mask=[[True, False, True], [True, True, False]])
    assert some.partial_mask.tolist() == some.mask.tolist() and not some.everyone
    full = Cohort(3, mask=[[True] * 3] * 2)
    assert full.everyone and full.partial_mask is None and full.slots == 3
    few = some.gathered()
    assert few.members.tolist() == [[0, 2], [0, 1]] and few.partial_mask is None
    assert few.slots == 2 and not few.everyone
    assert few.divisor.tolist() == [2.0, 2.0]
    odd = Cohort(3, mask=[[True, False, True], [True, True, True]])
    with pytest.raises(MissingCapability, match="different sizes"):
        odd.gathered()
    nobody = Cohort(2, mask=[[False] * 2], steps=np.zeros((1, 2), int), max_steps=1)
    assert nobody.divisor.tolist() == [1.0]
    with pytest.raises(InvalidInput, match="2 probabilities for 3 clients"):
        Bernoulli((0.5, 0.5)).check(3)


# --- moments --------------------------------------------------------------------------------------
EIGHT = tuple(F(k, 16) for k in (1, 3, 4, 6, 8, 9, 13, 15))
# so many cohorts that closed forms are taken, in fractions
MORE = [(Bernoulli(tuple(map(float, EIGHT))), 8, some(EIGHT)), (Uniform(4), 10, fixed(10, 4))]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("law", "clients", "truth"), [LAWS[i] for i in (0, 1, 2, 4, 7)] + MORE)
def test_moments_of_cohorts_are_sums_over_every_cohort(scheme, law, clients, truth):
    """E = 3, weights 1 : 2 : 3 ...; the coefficients as EFL's section 3.2 has them."""
    E, total = 3, clients * (clients + 1) // 2
    w = [F(k + 1, total) for k in range(clients)]
    alone = [sum((m for c, m in truth.items() if k in c), F(0)) for k in range(clients)]

    def coefficient(k, cohort):
        if scheme == "B":
            return w[k]
        if k not in cohort:
            return F(0)
        of = {"A": clients * w[k] / len(cohort), "C": w[k], "C-corrected": w[k] / alone[k]}
        return of[scheme]

    rows = {c: [coefficient(k, c) for k in range(clients)] for c in truth}
    steps = {c: [E if k in c else 0 for k in range(clients)] for c in truth}
    mean = lambda what: sum((m * what(c) for c, m in truth.items()), F(0))  # noqa: E731
    ps = [mean(lambda c, k=k: rows[c][k] * steps[c][k]) for k in range(clients)]
    work = lambda c: sum(p * s for p, s in zip(rows[c], steps[c], strict=True))  # noqa: E731
    wanted = {
        "p": [mean(lambda c, k=k: rows[c][k]) for k in range(clients)],
        "ps": ps,
        "p2s": [mean(lambda c, k=k: rows[c][k] ** 2 * steps[c][k]) for k in range(clients)],
        "sum_p": mean(lambda c: sum(rows[c])),
        "sum_ps": sum(ps),
        "overlap": mean(lambda c: max(sum(rows[c]) - 2, F(0)) * work(c)),
        "ratio": [x / y for x, y in zip(ps, w, strict=True)],
        "theta": {"A": clients, "B": 1, "C": E, "C-corrected": E / min(alone)}[scheme],
        "ratio_equal": len({x / y for x, y in zip(ps, w, strict=True)}) == 1,
    }
    sampling = as_irregular(law, E, clients)
    for exact in (True, False):
        found = round_moments(scheme, sampling, 1, w, exact=exact)
        assert found.overlap_exact
        for name, value in wanted.items():
            have = getattr(found, name)
            if exact:
                assert np.all(np.asarray(have) == np.asarray(value)), name
            elif name.startswith("overlap"):
                assert found.overlap_lower <= float(value) * (1 + 1e-12) + 1e-15, name
                assert float(value) <= have * (1 + 1e-12) + 1e-15, name
            else:
                assert np.asarray(have, float) == pytest.approx(np.asarray(value, float), rel=1e-12)
    plain = round_moments(scheme, sampling, 1, [float(v) for v in w])
    assert plain.p.dtype == float and isinstance(float(plain.sum_ps), float)
    assert sampling.law(1).dtype == sampling.enumerate(clients).probability.dtype == float


@pytest.mark.parametrize("chance", [0.5, 1e-3])
def test_ratios_of_floats_are_equal_up_to_a_trillionth(chance):
    for apart, same in ((0.95e-12, True), (1.05e-12, False)):
        rows = [[1 - chance, chance], [1 - chance * (1 + apart), chance * (1 + apart)]]
        assert moments("C", rows, 1, [0.5, 0.5]).ratio_equal is same
    table = JointLaw([[1, 0], [1, 0], [0, 1], [0, 0]], [0.1, 0.2, 0.3, 0.4])  # 0.1 + 0.2 is not 0.3
    assert moments("C", table, 1, [0.5, 0.5], exact=True).ratio_equal
    given = JointLaw(table.steps, [F(p) for p in (0.1, 0.2, 0.3)] + [1 - F(0.1) - F(0.2) - F(0.3)])
    assert not moments("C", given, 1, [0.5, 0.5], exact=True).ratio_equal  # meant exactly


@pytest.mark.parametrize(("off", "fine"), [(0.95e-9, True), (1.05e-9, False)])
def test_floats_sum_to_one_up_to_a_billionth(off, fine):
    """Weights, laws of steps and tables of cases."""
    for sign in (1, -1):
        share = 0.5 * (1 + sign * off)
        calls = [
            lambda share=share: check_weights([share, share]),
            lambda share=share: check_weights([share, share, 0], present=[True, True, False]),
            lambda share=share: Irregular(1, [[share, share]] * 2),
            lambda share=share: JointLaw([[0, 1], [1, 0]], [share, share]),
        ]
        for call in calls:
            if fine:
                call()
            else:
                with pytest.raises(InvalidInput, match=r"sums? to"):
                    call()


@pytest.mark.parametrize(
    ("weights", "present", "fine"),
    [
        ([1.0, 0.0], None, False), ([1.0, 0.0], [True, True], False),
        ([1.0, 0.0], [True, False], True),
        ([0.5, 0.5], [True, False], True), ([1.5, -0.5], [True, False], False),
        ([0.5, 0.25], [True, False], False),
        ([F(1, 2), F(1, 2)], None, True), ([F(1, 2), F(1, 2) + F(1, 10**30)], None, False),
        ([], None, False), ([[1.0]], None, False), ([1.0], [True, True], False),
    ],
)  # fmt: skip
def test_which_weights_there_are(weights, present, fine):
    if fine:
        assert check_weights(weights, present).tolist() == list(weights)
    else:
        with pytest.raises(InvalidInput):
            check_weights(weights, present)


# --- laws that change ---------------------------------------------------------------------------
TINY = F(1, 10**30)


@each(
    ("make", "fine"),
    [
        (lambda: Decay(TINY), True), (lambda: Decay(1 - TINY), True), (lambda: Decay(0), False),
        (lambda: Decay(1), False), (lambda: Decay(F(1)), False), (lambda: Grow(F(0)), False),
        (lambda: Grow(1.0), False), (lambda: Decay(1 + TINY), False), (lambda: Fade(TINY), True),
        (lambda: Fade(0), False), (lambda: Fade(F(0)), False), (lambda: Cycle(3, 3), True),
        (lambda: Cycle(4, 3), False), (lambda: Cycle(0, 3), False), (lambda: Away(3, 3), True),
        (lambda: Away(3, 2), False), (lambda: Only(0, 2), False), (lambda: Every(1), True),
        (lambda: Every(0), False), (lambda: Every(2, 0), False),
        (lambda: varying(complete(2, 1), {1: Every(1)}), True),
        (lambda: varying(complete(2, 1), {2: Every(1)}), False),
        (lambda: varying(complete(2, 1), {-1: Every(1)}), False),
        (lambda: varying(complete(2, 1), {True: Every(1)}), False),
    ],
)  # fmt: skip
def test_which_shapes_there_are(make, fine):
    if fine:
        make()
    else:
        with pytest.raises(InvalidInput):
            make()


@pytest.mark.parametrize(
    ("factor", "fine"), [(0, True), (1, True), (1 + TINY, False), (-TINY, False), (F(1, 3), True)]
)
def test_which_factors_there_are(factor, fine):
    """Exact for fractions, and from the first round on, also of a law that has no other."""

    def first_rounds(t):
        if t > 2:
            raise AssertionError("asked for a round that is not needed")
        return [[F(1, 4), F(3, 4)]] * 2

    law = varying(Irregular(1, first_rounds), {1: lambda t: factor})
    if fine:
        of_the_second = [1 - F(3, 4) * factor, F(3, 4) * factor]
        assert law.law(1, exact=True).tolist() == [[F(1, 4), F(3, 4)], of_the_second]
    else:
        with pytest.raises(InvalidInput, match=r"must lie in \[0, 1\]"):
            law.law(1)


def test_a_law_of_a_list_is_named_by_its_round():
    with pytest.raises(InvalidInput, match="client 0 of round 2 sums to"):
        Irregular(1, [[[0.5, 0.5]], [[0.5, 0.6]]])


THIRDS = [[[1 - F(k, 9), F(k, 9)], [F(1, 2), F(1, 2)]] for k in (1, 2, 3)]


def test_laws_of_a_list_come_round_by_round_and_again():
    law = Irregular(1, THIRDS)
    assert [law.law(t, exact=True)[0, 1] for t in range(1, 8)] == [
        F(k, 9) for k in (1, 2, 3, 1, 2, 3, 1)
    ]
    sometimes = Irregular(1, [[[1, 0]], [[0.5, 0.5]], [[0, 1]]])
    assert sometimes.count(1) == 1 and [sometimes.count(1, t) for t in (1, 2, 3, 5)] == [1, 2, 1, 2]
    seldom = [[[1, 0], [0, 1]], [[0.5, 0.5], [0, 1]], [[1, 0], [0, 1]]]
    for stay, fine in (((2, 3), True), ((1, 3), True), ((1, 2), False), ((3, 5), False)):
        if fine:
            windows(Irregular(1, seldom), {0: stay})
        else:
            with pytest.raises(InvalidInput, match="client 0 is never active"):
                windows(Irregular(1, seldom), {0: stay})
    floats = Irregular(2, [[0.1, 0.2, 0.7]]).law(1, exact=True)
    assert floats.sum() == 1 and floats[0, 0] / floats[0, 1] == F(0.1) / F(0.2)
    with_floats = moments("C", THIRDS[0], 1, [0.1, 0.9], exact=True)
    assert all(isinstance(v, F) for v in with_floats.p) and with_floats.sum_p == sum(with_floats.p)
    table = Irregular(1, JointLaw([[1, 0], [0, 1], [1, 1]], [0.25, 0.75, 0])).enumerate_round(1, 2)
    assert table.steps.tolist() == [[1, 0], [0, 1]] and table.probability.tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("stay", "fine"), [((4, None), True), ((5, None), False), ((1, 5), True), ((1, 6), False)]
)
def test_windows_lie_within_a_run_of_four_rounds(stay, fine):
    law = windows(complete(2, 1), {0: stay})
    if fine:
        law.check_run(2, 4)
    else:
        with pytest.raises(InvalidInput, match="of a run of 4"):
            law.check_run(2, 4)


@pytest.mark.parametrize("bad", [1, 4, 5])
def test_every_law_of_a_run_of_four_rounds_is_looked_at(bad):
    law = Irregular(1, lambda t: [[0.5, 0.6 if t == bad else 0.5]] * 2)
    if bad == 5:
        law.check_run(2, 4)
    else:
        with pytest.raises(InvalidInput, match=f"of round {bad}"):
            law.check_run(2, 4)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", ["rows", "floats", "table"])
def test_absent_clients_have_no_part_whatever_their_law_says(scheme, kind):
    """As if there were only the two others, whose weights sum to 1."""
    rows = [[F(1, 4), F(1, 4), F(1, 2)], [F(1, 3), F(1, 3), F(1, 3)], [F(0), F(1, 3), F(2, 3)]]
    w, present = [F(1, 4), F(1, 2), F(3, 4)], [True, False, True]
    few, others = [rows[0], rows[2]], [w[0], w[2]]
    law = rows
    if kind == "table":
        cases = [c for c in np.ndindex(3, 3, 3) if all(r[s] for r, s in zip(rows, c, strict=True))]
        law = JointLaw(cases, [prod(r[s] for r, s in zip(rows, c, strict=True)) for c in cases])
    if kind == "floats":
        law, w = np.array(rows, dtype=float), np.array(w, dtype=float)
    found = moments(scheme, law, 2, w, present, exact=kind != "floats")
    wanted = moments(scheme, few, 2, others, exact=True)
    for name in ("p", "ps", "p2s", "ratio"):
        have = getattr(found, name)
        assert have[1] == 0
        two = np.array(getattr(wanted, name), float)
        assert np.array(have[[0, 2]], float) == pytest.approx(two)
    for name in ("sum_p", "sum_ps", "overlap", "theta", "ratio_equal"):
        assert float(getattr(found, name)) == pytest.approx(float(getattr(wanted, name))), name


def test_coefficients_at_their_edges():
    for off, fine in ((0.95e-9, True), (1.05e-9, False)):
        weights = [1 + off, 0.5]  # who is absent does not count
        if fine:
            check_weights(weights, [True, False])
        else:
            with pytest.raises(InvalidInput, match="sum to"):
                check_weights(weights, [True, False])
    with pytest.raises(InvalidInput, match="client 1 is not present"):
        coefficients("B", np.array([[1, 1]]), 2, [1.0, 0.5], present=[True, False])
    scalar = coefficients("C-corrected", np.array([[1, 2]]), 2, [0.5, 0.5], 0.5)
    assert scalar.tolist() == [[2.0, 1.0]]
    assert inactive(2, 1, 0.0).law(1).tolist() == [[0, 1]] * 2


class Listed(Sampling):
    """Any other law of cohorts, given by its list."""

    def __init__(self, clients, mass):
        self.clients, self.mass = clients, mass

    def check(self, num_clients):
        assert num_clients == self.clients

    def count(self, num_clients):
        return len(self.mass)

    def enumerate(self, num_clients):
        mask = [[k in c for k in range(num_clients)] for c in self.mass]
        return Cohort(num_clients, mask=mask, probability=np.array(list(self.mass.values())))


def test_any_other_law_of_cohorts_by_its_list():
    """Floats 0.1 + 0.2 + 0.3 + 0.4 that sum to 1 + 2^-52/2 in fractions; many cohorts too."""
    mass = {(0,): 0.1, (1,): 0.2, (0, 1): 0.3, (2,): 0.4}
    total = sum(map(F, mass.values()))
    assert total != 1
    law = as_irregular(Listed(3, mass), 2, 3)
    alone = [sum(F(m) for c, m in mass.items() if k in c) / total for k in range(3)]
    assert law.active(exact=True).tolist() == alone
    assert law.active().tolist() == pytest.approx([0.4, 0.5, 0.4], rel=1e-15)
    chances = [0.5 + 0.25 * (k == 0) for k in range(12)]
    base, weights = Bernoulli(tuple(chances)), np.arange(1, 13) / 78
    cohorts = {c: float(m) for c, m in some([F(p) for p in chances]).items()}
    assert len(cohorts) == 4095
    for scheme in ("A", "C", "C-corrected"):
        found = round_moments(scheme, as_irregular(Listed(12, cohorts), 2, 12), 1, weights)
        closed = round_moments(scheme, as_irregular(base, 2, 12), 1, weights)
        assert found.p2s == pytest.approx(closed.p2s, rel=1e-12)
        assert closed.overlap_lower <= found.overlap * (1 + 1e-12)
        assert found.overlap <= closed.overlap * (1 + 1e-12)


@pytest.mark.parametrize("law", [Full(), Uniform(2), Bernoulli(0.5)], ids=repr)
def test_numbers_are_floats_unless_fractions_are_asked_for(law):
    cohorts = as_irregular(law, 2, 3)
    rows = Irregular(2, [[F(1, 2), F(1, 4), F(1, 4)]] * 3)
    for made in (cohorts, rows, varying(rows, {0: Decay(F(1, 2))}), varying(rows, {1: Every(2)})):
        assert made.law(1).dtype == float
        assert made.enumerate_round(1, 3).probability.dtype == float
        assert all(isinstance(v, F | int) for v in made.law(1, exact=True).flat)
        assert all(isinstance(v, F) for v in made.enumerate_round(1, 3, exact=True).probability)
    plain, exact = cohorts.round_law(1), cohorts.round_law(1, exact=True)
    if not isinstance(law, Full):
        plain, exact = plain.probability, exact.probability
    assert plain.dtype == float and exact.dtype == object
    floats = Irregular(1, [[0.5, 0.5]] * 2)
    assert varying(floats, {0: Decay(0.5)}).law(2).dtype == float
    assert varying(floats, {0: Decay(0.5)}).round_law(2).dtype == float


def test_a_law_of_fractions_and_whole_numbers_is_one_of_fractions():
    row = [F(1, 3), F(1, 5), F(7, 15)]
    assert Irregular(2, [row, [0, 1, 0]]).law(1, exact=True)[0].tolist() == row
    with pytest.raises(InvalidInput, match=r"client 1 .*NaN"):
        Irregular(1, [[0.5, 0.5], [np.nan, 1.0]])
    for none in ([0.5, 0.5], np.zeros((0, 2))):
        with pytest.raises(InvalidInput):
            Irregular(1, none)
    for call in (lambda: Decay("0.5"), lambda: Fade(np.inf), lambda: Fade("2")):
        with pytest.raises(InvalidInput):
            call()


def test_moments_at_their_edges():
    """A client alone; floats whose sum is 1 in floats only; chances that round above 1."""
    assert moments("C", [[0.5, 0.5]], 1, [1.0]).ratio.tolist() == [0.5]
    given = [0.1, 0.2, 0.7]
    exact, total = moments("B", [given], 2, [1.0], exact=True), sum(map(F, given))
    assert sum(given) == 1 and total != 1
    assert exact.ps.tolist() == [(F(0.2) + 2 * F(0.7)) / total]
    table = moments("B", JointLaw([[0], [1], [2]], given), 2, [1.0], exact=True)
    assert table.ps.tolist() == exact.ps.tolist()
    even = [0] + [1 / 29] * 29
    for law in ([even], JointLaw([[s] for s in range(1, 30)], even[1:])):
        assert moments("C-corrected", law, 29, [1.0]).theta == 29


@pytest.mark.parametrize(
    ("rows", "equal"),
    [
        ([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]], {"A"}), ([[0.25, 0.5, 0.25], [0.5, 0.0, 0.5]], {"B"}),
        ([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], {"C"}), ([[0.5, 0.5, 0.0]] * 2, {"A", "B", "C"}),
    ],
)  # fmt: skip
def test_ratios_are_equal_by_the_criterion_of_their_scheme(rows, equal):
    """Equal P(s = E) for A, E[s] for B, P(s > 0) for C, and always for the corrected C."""
    for scheme in SCHEMES:
        for exact in (True, False):
            law = [[F(v) for v in row] for row in rows] if exact else rows
            found = moments(scheme, law, 2, [0.25, 0.75], exact=exact)
            assert found.ratio_equal is (scheme in equal | {"C-corrected"})
            same = abs(float(found.ratio[0] - found.ratio[1])) < 1e-12
            assert same or not found.ratio_equal


def test_weights_in_fractions_sum_to_one_over_all_or_over_those_present():
    """Floats do up to rounding only, and are divided by their sum; for who is absent too."""
    rows, some = [[F(1, 4), F(3, 4)]] * 3, [True, False, True]
    for given, present, over in (
        ([0.1, 0.2, 0.7], [True] * 3, (0, 1, 2)), ([0.1, 0.2, 0.7], some, (0, 1, 2)),
        ([0.3, 0.5, 0.7], some, (0, 2)),
    ):  # fmt: skip
        total = sum(F(given[k]) for k in over)
        found = moments("B", rows, 1, given, present, exact=True)
        wanted = [F(w) / total if here else 0 for w, here in zip(given, present, strict=True)]
        assert found.p.tolist() == wanted
    alone = moments("A", [[F(1, 4), F(3, 4)]], 1, [F(1)], exact=True)
    beside = moments("A", rows[:2], 1, [F(1), F(0)], [True, False], exact=True)
    assert beside.p.tolist() == [alone.p[0], 0] and alone.p[0] == F(3, 4)


@pytest.mark.parametrize("scheme", ["A", "C", "C-corrected"])
def test_a_heavy_client_of_a_uniform_cohort_by_every_cohort(scheme):
    """Ten clients of which four come, so many cohorts that closed forms are taken."""
    factor = {"A": F(10, 4), "C": F(1), "C-corrected": F(10, 4)}[scheme]
    w = [F(37, 40)] + [F(1, 120)] * 9
    wanted = F(0)
    for cohort, mass in fixed(10, 4).items():
        x = factor * sum(w[k] for k in cohort)
        wanted += mass * max(x - 2, F(0)) * 3 * x
    found = round_moments(scheme, as_irregular(Uniform(4), 3, 10), 1, w, exact=True)
    assert found.overlap == found.overlap_lower == wanted
    assert (wanted > 0) is (scheme != "C")


@pytest.mark.parametrize(
    ("steps", "says"),
    [([0, 3, 4], "s = 4 local steps at client 2"), ([0, 3, -1], "s = -1 local steps at client 2")],
)
def test_the_client_that_does_too_many_steps_or_too_few_is_named(steps, says):
    with pytest.raises(InvalidInput, match=says):
        coefficients("B", np.array([steps]), 3, [0.25, 0.25, 0.5])


def test_coefficients_are_fractions_where_the_weights_are():
    half, steps = [F(1, 4), F(3, 4)], np.array([[1, 2]])
    found = coefficients("C-corrected", steps, 2, half, [0.5, 0.25])
    assert found.tolist() == [[1, 3]] and all(isinstance(v, F) for v in found.flat)
    assert coefficients("C-corrected", steps, 2, [0.25, 0.75], [F(1, 2), F(1, 4)]).dtype == float




def test_a_table_of_floats_is_divided_by_its_sum_in_fractions():
    given = [0.1, 0.2, 0.7]
    law = Irregular(1, JointLaw([[1, 0], [0, 1], [1, 1]], given))
    total = sum(map(F, given))
    assert total != 1 == sum(given)
    exact = law.enumerate_round(1, 2, exact=True).probability
    assert exact.tolist() == [F(m) / total for m in given]


def test_what_is_no_number_of_steps_is_refused_and_a_table_is_found_again():
    for steps in ("3", 0, -1, 2.5, True):
        with pytest.raises(InvalidInput, match="E"):
            complete(2, steps)
    table = JointLaw([[1, 0], [0, 1]], [0.5, 0.5])
    assert joint_law(Irregular(1, table), 1).steps.tolist() == [[1, 0], [0, 1]]
    assert joint_law(complete(2, 1), 1) is joint_law(as_irregular(Uniform(1), 1, 2), 1) is None
    for wrong in ([[[0.5]]], [0.5]):
        with pytest.raises(InvalidInput):
            inactive(2, 1, wrong)


def test_so_many_cohorts_are_listed_and_no_more(monkeypatch):
    law = inactive(2, 1, 0.5)
    for most, fine in ((4, True), (3, False)):
        monkeypatch.setattr("fedtheory.participation.irregular.MAX_ENUMERATED", most)
        if fine:
            assert law.enumerate_round(1, 2).scenarios == 4
        else:
            with pytest.raises(InvalidInput, match="4 possible cohorts, more than 3"):
                law.enumerate_round(1, 2)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_coefficients_of_a_cohort_that_completes_its_step(scheme):
    """A: N p^k/K; B and C: p^k; the corrected C: p^k/P(active), here 3/4."""
    cohort = Uniform(3).enumerate(4)
    w = [0.1, 0.2, 0.3, 0.4]
    factor = {"A": 4 / 3, "B": 1, "C": 1, "C-corrected": 4 / 3}[scheme]
    p, weights = when_complete(scheme, cohort, w)
    for row, of_each, members in zip(p, weights, cohorts_of(cohort), strict=True):
        given = [w[k] for k in members]
        assert of_each.tolist() == given
        assert row.tolist() == pytest.approx([factor * v for v in given], rel=1e-14)
