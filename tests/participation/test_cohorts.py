"""The cohorts of FedDyn's public code, against its rule written out, and against what the papers' table counts."""

from __future__ import annotations

import hashlib
import itertools
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from fedtheory import algorithms, problems, simulate
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.neural.benchmarks import printed_tables as papers
from fedtheory.participation import AsIrregular, Bernoulli, Cohort, FedDynBernoulli, Full, Uniform
from fedtheory.participation.cohorts import _least, _not_empty, somebody
from fedtheory.randomness import Stream

UPLOADS = {100: 1_019, 200: 2_053, 500: 5_070}


def drawn(sampling, rounds, clients, seed=0, scenarios=1):
    return np.array([sampling.sample(Stream(seed), t, range(scenarios), clients).mask for t in range(1, rounds + 1)])


def test_uploads_are_those_of_table_2():
    taken = drawn(FedDynBernoulli(0.1), 500, 100)
    assert {rounds: int(taken[:rounds].sum()) for rounds in UPLOADS} == UPLOADS
    other = drawn(FedDynBernoulli(0.1, seed=1), 500, 100)
    np.testing.assert_array_equal(other[:-1], taken[1:])  # the next seed is the next round's
    assert drawn(Bernoulli(0.1), 500, 100).sum() != UPLOADS[500]


def test_the_dense_counts_of_table_2_to_the_printed_digit():
    """Parameters of FedDyn's networks times uploads."""
    table = papers.table("fedelasticnet-table2")
    sizes = {"mnist": (784, 200, 200, 10), "emnist-l": (784, 100, 100, 10)}
    rounds = {"mnist": 100, "emnist-l": 200}
    for dataset, widths in sizes.items():
        parameters = sum((a + 1) * b for a, b in pairwise(widths))
        taken = drawn(FedDynBernoulli(0.1), rounds[dataset], 100).sum()
        printed = table.printed("dirichlet-0.3", dataset, "fedprox")
        assert f"{parameters * taken / 1e7:.2f}".rstrip("0").rstrip(".") == printed.rstrip("0").rstrip(".")
        assert f"{parameters * drawn(Bernoulli(0.1), rounds[dataset], 100).sum() / 1e7:.1f}" != printed


def test_the_rule_written_out_with_nobody_drawn_at_first():
    """The loop of utils_methods.py, on so few clients that rounds come out empty."""
    again = 0
    for i, taken in enumerate(drawn(FedDynBernoulli(0.1, seed=5), 40, 4)):
        inc_seed = 0
        while True:
            np.random.seed(i + 5 + inc_seed)  # noqa: NPY002
            selected = np.sort(np.where(np.random.uniform(size=4) <= 0.1)[0])  # noqa: NPY002
            inc_seed += 1
            if len(selected) != 0:
                break
            again += 1
        np.testing.assert_array_equal(np.nonzero(taken[0])[0], selected)
    assert again > 20


def test_the_runs_seed_and_scenarios_have_no_say():
    a, b = drawn(FedDynBernoulli(0.3), 5, 10, seed=1, scenarios=3), drawn(FedDynBernoulli(0.3), 5, 10, seed=2)
    np.testing.assert_array_equal(a, np.repeat(b, 3, axis=1))
    assert len({m.tobytes() for m in b}) == 4  # seed 0 draws nobody: the first round takes the second's
    with pytest.raises(MissingCapability, match="no law to enumerate"):
        FedDynBernoulli(0.3).enumerate(3)
    with pytest.raises(MissingCapability, match="no law to enumerate"):
        FedDynBernoulli(0.3).count(3)


def test_a_run_takes_them():
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.normal(size=(20, 3, 2)), rng.normal(size=(20, 3)))
    run = simulate(problem, algorithms.FedAvg(), 8, np.zeros(2), FedDynBernoulli(0.1), record=("participants",))
    np.testing.assert_array_equal(run.metrics["participants"][1:, 0], drawn(FedDynBernoulli(0.1), 8, 20).sum(axis=(1, 2)))


@pytest.mark.parametrize("wrong", [(0.0,), (1.1,), ((0.1, 0.2),), (0.1, -1), (0.1, 0.5), (0.1, 2**31)])
def test_bad_values_are_refused(wrong):
    with pytest.raises(InvalidInput):
        FedDynBernoulli(*wrong)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "2", None])
def test_uniform_is_refused_at_construction(size) -> None:
    with pytest.raises(InvalidInput, match=r"cohort size P is .* >= 1"):
        Uniform(size)


@pytest.mark.parametrize("probability", [0, -0.1, 2, float("nan"), (0.5, 0.0), (0.5, 1.1), (), ((0.5,),), "half", None])
def test_bernoulli_is_refused_at_construction(probability) -> None:
    with pytest.raises(InvalidInput, match=r"participation probability .*\(0, 1\]"):
        Bernoulli(probability)


def test_what_is_in_range_is_taken() -> None:
    assert Uniform(np.int64(3)).count(5) == 10
    assert drawn(Bernoulli((1.0, 0.5)), 3, 2)[..., 0].all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "either members .* or a mask"),
        ({"members": [[5]]}, r"name client 5 of 3: clients are numbered 0\.\.2"),
        ({"members": [[-1, 2]]}, "name client -1 of 3"),
        ({"members": [[0, 1], [1, 1]]}, r"scenario 1 are \[1, 1\]: each client once"),
        ({"members": [[2, 0]]}, "in increasing order"),
        ({"members": [0, 1]}, r"members are \[0, 1\]: give client numbers \(S, P\)"),
        ({"members": [[0.0, 1.0]]}, "give client numbers"),
        ({"members": np.zeros((2, 0), int)}, "P >= 1"),
        ({"mask": np.ones((2, 4), bool)}, r"shape \(2, 4\) .* here N = 3"),
        ({"mask": np.ones((2, 3))}, "dtype float64: give bools"),
        ({"mask": [[True, False, True], [False] * 3]}, "without any client"),
    ],
)
def test_cohorts_that_are_none_are_refused(given, words):
    with pytest.raises(InvalidInput, match=words):
        Cohort(3, **given)


def test_a_cohort_may_be_given_as_lists():
    both = Cohort(3, members=[[0, 2]]), Cohort(3, mask=[[True, False, True]])
    assert np.array_equal(both[0].dense().mask, both[1].mask) and np.array_equal(both[1].gathered().members, both[0].members)


def test_the_least_of_each_row_also_among_equal_numbers():
    rng = np.random.default_rng(3)
    for values in (rng.random((40, 9)), rng.integers(0, 3, (40, 9)) / 4.0):
        for count in (1, 4, 9):
            found = _least(values, count)
            assert found.shape == (40, count) and (np.diff(found, axis=1) > 0).all()
            np.testing.assert_array_equal(np.sort(np.take_along_axis(values, found, axis=1)), np.sort(values)[:, :count])


def test_what_is_known_of_all_clients_is_taken_slot_by_slot():
    values = np.arange(8.0).reshape(2, 4)
    some = Cohort(4, members=np.array([[0, 3], [1, 2]]))
    assert some.of_slots(values).tolist() == [[0.0, 3.0], [5.0, 6.0]]
    assert some.dense().of_slots(values) is values


def test_a_cohort_counts_once_and_its_count_is_not_written_to():
    for cohort in (Cohort(4, members=np.array([[0, 3], [1, 2]])), Cohort(4, mask=np.array([[True, False, True, False]] * 2))):
        assert cohort.size().tolist() == [2, 2] and cohort.size() is cohort.size() and cohort.dense() is cohort.dense()
        with pytest.raises(ValueError, match="read-only"):
            cohort.size()[0] = 9


# --- rare clients: cohorts that are nearly always empty -------------------------------------------
def test_the_first_client_and_those_after_it_are_the_law_given_that_somebody_takes_part():
    """In fractions, all cohorts of three clients: P(first = j) times the rest is P(cohort) / P(somebody)."""
    p = [Fraction(1, 2), Fraction(1, 5), Fraction(2, 7)]
    nobody = math.prod(1 - q for q in p)
    for cohort in itertools.product([0, 1], repeat=3):
        if not any(cohort):
            continue
        plain = math.prod(q if there else 1 - q for q, there in zip(p, cohort, strict=True)) / (1 - nobody)
        j = cohort.index(1)
        up_to = [(1 - math.prod(1 - q for q in p[:k])) / (1 - nobody) for k in (j, j + 1)]
        later = math.prod(q if there else 1 - q for q, there in zip(p[j + 1 :], cohort[j + 1 :], strict=True))
        assert (up_to[1] - up_to[0]) * later == plain


def test_cohorts_that_are_drawn_directly_have_that_law():
    """Ordinary probabilities, for which all cohorts are seen: each is as frequent as the enumeration says, to five standard errors."""
    p, n = np.array([0.5, 0.2, 0.05]), 200_000
    drawn = _not_empty(np.random.default_rng(4).random((n, 4)), p)
    law = Bernoulli(tuple(p)).enumerate(3)
    assert drawn.any(axis=1).all()
    for cohort, mass in zip(law.mask, law.probability, strict=True):
        seen = (drawn == cohort).all(axis=1).mean()
        assert abs(seen - mass) <= 5 * math.sqrt(mass * (1 - mass) / n), cohort


@pytest.mark.parametrize("p", [1e-5, 1e-12, 1e-300, (1e-6, 3e-6, 0.0001)])
def test_rare_clients_take_part_one_at_a_time_in_proportion(p):
    law = Bernoulli(p)
    cohort = law.sample(Stream(2), 3, range(4000), 3)
    shares = np.broadcast_to(p, 3) / np.sum(np.broadcast_to(p, 3))
    assert (cohort.size() == 1).mean() > 0.999
    assert np.all(abs(cohort.mask.mean(axis=0) - shares) <= 5 * np.sqrt(shares * (1 - shares) / 4000) + 1e-3)
    np.testing.assert_allclose(cohort.active_probability, shares, rtol=2e-4)
    np.testing.assert_allclose(AsIrregular(law, 2, 3).law(1)[:, 2], shares, rtol=2e-4)
    assert np.array_equal(law.sample(Stream(2), 3, range(70, 80), 3).mask, cohort.mask[70:80]), "a scenario has its own numbers"


def test_a_run_with_rare_clients_ends():
    problem = problems.random_quadratic(3, 2, seed=1)
    run = simulate(problem, algorithms.FedAvg(), 3, sampling=Bernoulli(1e-9), record=("participants",))
    assert (run.metrics["participants"][1:] == 1).all()


def test_somebody_takes_part_with_the_probability_in_fractions():
    for p in ((0.5, 0.25), (0.004, 0.003), (1e-12, 3e-12), (1.0, 0.1)):
        exact = 1 - math.prod(1 - Fraction(q) for q in p)
        assert somebody(np.array(p)) == pytest.approx(float(exact), rel=1e-13)


def test_ordinary_draws_are_as_they_were():
    """A digest of cohorts that were drawn before rare ones were drawn directly, up to P(nobody) = 0.988."""
    h = hashlib.sha256()
    for p, n in ((0.5, 4), (0.05, 10), (0.01, 3), (0.004, 3), ((0.1, 0.02, 1.0), 3), ((0.3, 0.001), 2)):
        for t in (1, 7):
            c = Bernoulli(p).sample(Stream(5), t, range(40), n)
            h.update(np.ascontiguousarray(c.mask).tobytes())
    assert h.hexdigest()[:16] == "ca331a8dce3571c6"


def test_feddyn_s_seeds_are_not_searched_for_ever():
    with pytest.raises(InvalidInput, match=r"1e-09 of 10 clients: FedDyn's code tries about 1e\+08 seeds.*the limit is 100,000"):
        FedDynBernoulli(1e-9).sample(Stream(0), 1, range(1), 10)
    problem = problems.random_quadratic(3, 2, seed=1)
    with pytest.raises(InvalidInput, match=r"the limit is 100,000: raise it, or take Bernoulli\(1e-300\)"):
        simulate(problem, algorithms.FedAvg(), 3, sampling=FedDynBernoulli(1e-300))
    with pytest.raises(InvalidInput, match="would take at least"):
        FedDynBernoulli(1e-5).check_run(10, 10**7)
    assert drawn(FedDynBernoulli(0.01), 2, 10).sum() >= 2


def test_a_drawn_cohort_is_one_that_was_looked_at():
    drawn = Uniform(3).sample(Stream(4), 2, range(5), 7)
    checked = Cohort(7, members=drawn.members, active_probability=drawn.active_probability)
    assert vars(drawn).keys() == vars(checked).keys()
    assert repr(drawn) == repr(checked) and not drawn.members.flags.writeable
    np.testing.assert_array_equal(drawn.dense().mask, checked.dense().mask)
    assert drawn.active_probability.tolist() == [3 / 7] * 7


def test_everybody_is_the_same_cohort_in_every_round():
    """Kept where it is small, and read-only."""
    first, later = (Full().sample(Stream(1), t, range(3 * t, 3 * t + 3), 5) for t in (1, 9))
    assert first is later and first.mask.all() and first.mask.shape == (3, 5) and not first.mask.flags.writeable
    assert first.active_probability.tolist() == [1.0] * 5
    large = [Full().sample(Stream(1), 1, range(2**9), 2**8) for _ in range(2)]
    assert large[0] is not large[1] and large[0].mask.shape == (2**9, 2**8)
