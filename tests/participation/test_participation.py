"""Laws of participation: drawn as stated and enumerated exactly, paired, independent of chunks; what is no law is refused."""

import pickle
from fractions import Fraction as F

import numpy as np
import pytest
from cases import each
from scipy import stats

from fedtheory import algorithms, problems, simulate
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Bernoulli, Full, Sampling, Uniform
from fedtheory.participation.irregular import Irregular, JointLaw, as_irregular, complete, inactive, incomplete, windows
from fedtheory.randomness import Stream

STREAM = Stream(11)
TINY = [[F(1, 4), F(1, 4), F(1, 2)], [F(1, 3), F(0), F(2, 3)], [F(0), F(1), F(0)]]  # E = 2, three clients


def test_enumeration_of_a_tiny_law_by_hand():
    law = Irregular(2, TINY)
    cohort = law.enumerate_round(1, 3, exact=True)
    by_hand = {
        (0, 0, 1): F(1, 12),
        (0, 2, 1): F(1, 6),
        (1, 0, 1): F(1, 12),
        (1, 2, 1): F(1, 6),
        (2, 0, 1): F(1, 6),
        (2, 2, 1): F(1, 3),
    }
    assert dict(zip(map(tuple, cohort.steps.tolist()), cohort.probability)) == by_hand
    assert list(cohort.active_probability) == [F(3, 4), F(2, 3), F(1)]
    assert law.count(3) == 6
    np.testing.assert_allclose(law.enumerate(3).probability, [float(p) for p in by_hand.values()], rtol=1e-15)


def test_draws_follow_the_law():
    rows = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.0, 0.5], [0.7, 0.0, 0.0, 0.3], [0.25, 0.25, 0.25, 0.25]])
    steps = incomplete(4, 3, rows).sample(STREAM, 5, range(40_000), 4).steps
    for k, row in enumerate(rows):
        seen = np.bincount(steps[:, k], minlength=4)
        assert (seen[row == 0] == 0).all()
        assert stats.chisquare(seen[row > 0], 40_000 * row[row > 0]).pvalue > 1e-4
    pairs = np.array(
        [[np.corrcoef(steps[:, i], steps[:, j])[0, 1] for j in range(i)] + [0] * (4 - i) for i in range(4)]
    )
    assert np.abs(pairs).max() < 5 / np.sqrt(40_000)  # independent clients


@pytest.mark.parametrize(
    "law", [incomplete(3, 2, [0.2, 0.3, 0.5]), Irregular(2, JointLaw([[2, 0, 1], [0, 2, 2]], [0.5, 0.5]))]
)
def test_scenarios_do_not_depend_on_the_chunks_and_rounds_differ(law):
    whole = law.sample(STREAM, 3, range(150), 3).steps
    parts = [law.sample(STREAM, 3, range(a, b), 3).steps for a, b in ((0, 70), (70, 149), (149, 150))]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert (law.sample(STREAM, 4, range(150), 3).steps != whole).any()


@pytest.mark.parametrize("scenarios", [range(1), range(60, 70), range(500)])
def test_uniform_cohorts_are_the_clients_of_the_smallest_numbers_whatever_rounds_are_asked_for(scenarios):
    """One round after the other, so that cohorts are made ahead, then backwards, and with gaps."""
    for t in (*range(1, 200), 7, 7, 6, 5, 1000, 1001, 1003):
        cohort = Uniform(3).sample(STREAM, t, scenarios, 9)
        drawn = STREAM.per_scenario(lambda g, count: g.random((count, 9)), "cohort", scenarios, t)
        assert np.array_equal(cohort.members, np.sort(np.argsort(drawn, axis=1)[:, :3], axis=1))
        assert not cohort.members.flags.writeable and np.array_equal(cohort.active_probability, np.full(9, 1 / 3))


def test_a_stream_of_ones_own_is_asked_for_every_cohort():
    class Ordered(Stream):
        def per_scenario(self, draw, purpose, scenarios, round_index=0, step=0):
            return np.roll(np.arange(5.0), round_index)[None]

    assert [Uniform(2).sample(Ordered(0), t, range(1), 5).members.tolist() for t in (1, 3)] == [[[1, 2]], [[3, 4]]]


def test_a_more_active_law_is_active_wherever_a_less_active_one_is():
    seldom, often = (inactive(5, 4, y).sample(STREAM, 2, range(300), 5) for y in (0.7, 0.3))
    np.testing.assert_array_equal(often.steps, 4 * often.mask)
    assert (often.mask | ~seldom.mask).all() and (often.mask != seldom.mask).any()
    p = (0.3, 0.9, 0.5, 0.2, 0.6)
    ours = inactive(5, 4, 1 - np.array(p)).sample(STREAM, 2, range(300), 5).mask
    theirs = Bernoulli(p).sample(STREAM, 2, range(300), 5).mask
    hit = ours.any(axis=1)  # Bernoulli draws again where nobody came
    assert 0 < hit.sum() < 300
    np.testing.assert_array_equal(ours[hit], theirs[hit])


def test_certain_and_impossible_steps_stay_so_whatever_rounding_does():
    rows = np.array([[0.0, 0.1, 0.2, 0.7 - 1e-10], [1 / 3, 1 / 3, 1 / 3, 0.0], [0.0, 0.0, 0.0, 1.0]])

    class Ones(Stream):  # uniforms at the very end of their range
        def per_scenario(self, draw, purpose, scenarios, round_index=0, step=0):
            return np.full((len(scenarios), 3), np.nextafter(1.0, 0.0))

    np.testing.assert_allclose(Irregular(3, rows).law(1).sum(axis=1), 1, rtol=1e-15)
    top = Irregular(3, rows).sample(Ones(0), 1, range(2), 3).steps
    np.testing.assert_array_equal(top, [[1, 0, 3]] * 2)


def test_nobody_may_come():
    cohort = inactive(2, 3, 0.9).sample(STREAM, 1, range(50), 2)
    assert (cohort.size() == 0).any() and cohort.max_steps == 3


def test_joint_law_keeps_clients_together():
    joint = JointLaw([[0, 0, 3], [3, 3, 0], [1, 2, 3]], [F(1, 2), F(1, 3), F(1, 6)])
    law = Irregular(3, joint)
    steps = law.sample(STREAM, 1, range(12_000), 3).steps
    cases, seen = np.unique(steps, axis=0, return_counts=True)
    np.testing.assert_array_equal(cases, [[0, 0, 3], [1, 2, 3], [3, 3, 0]])
    assert stats.chisquare(seen, 12_000 * np.array([1 / 2, 1 / 6, 1 / 3])).pvalue > 1e-4
    cohort = law.enumerate_round(1, 3, exact=True)
    assert list(cohort.probability) == [F(1, 2), F(1, 3), F(1, 6)]
    assert list(cohort.active_probability) == [F(1, 2), F(1, 2), F(2, 3)]
    assert law.law(1, exact=True)[0].tolist() == [F(1, 2), F(1, 6), 0, F(1, 3)]


def test_laws_by_round_repeat_and_callables_are_asked():
    often, seldom = [[F(1, 5), F(4, 5)]] * 2, [[F(4, 5), F(1, 5)]] * 2
    turns = Irregular(1, [often, seldom])
    assert [turns.law(t, exact=True)[0, 1] for t in (1, 2, 3, 8)] == [F(4, 5), F(1, 5), F(4, 5), F(1, 5)]
    same = inactive(2, 1, lambda t: F(1, 5) if t % 2 else F(4, 5))
    two = inactive(2, 1, [[F(1, 5)] * 2, [F(4, 5)] * 2])
    for t in (1, 2, 5):
        assert (same.law(t, exact=True) == turns.law(t, exact=True)).all()
        assert (two.law(t, exact=True) == turns.law(t, exact=True)).all()
    with pytest.raises(MissingCapability, match="enumerate_round"):
        turns.enumerate(2)


def test_windows():
    law = windows(Irregular(2, TINY), {0: (None, 5), 2: (3, 7)})
    present = np.array([law.present_in(t) for t in range(1, 9)])
    np.testing.assert_array_equal(present[:, 0], [True] * 4 + [False] * 4)
    np.testing.assert_array_equal(present[:, 1], [True] * 8)
    np.testing.assert_array_equal(present[:, 2], [False] * 2 + [True] * 4 + [False] * 2)
    for t in (2, 3, 5):
        cohort = law.sample(STREAM, t, range(40), 3)
        assert (cohort.steps[:, ~present[t - 1]] == 0).all() and (cohort.present == present[t - 1]).all()
        assert (cohort.active_probability[~present[t - 1]] == 0).all()
        free = Irregular(2, TINY).sample(STREAM, t, range(40), 3).steps
        np.testing.assert_array_equal(
            cohort.steps[:, present[t - 1]], free[:, present[t - 1]]
        )  # the others' draws stay
        every = law.enumerate_round(t, 3, exact=True)
        assert every.probability.sum() == 1 and (every.steps[:, ~present[t - 1]] == 0).all()
    joint = windows(Irregular(2, JointLaw([[2, 1], [0, 2]], [F(1, 2), F(1, 2)])), {1: (2, None)})
    assert joint.enumerate_round(1, 2, exact=True).steps.tolist() == [[2, 0], [0, 0]]


def test_full_participation_and_other_cohorts_as_laws_of_steps():
    everyone = complete(4, 3).enumerate(4)
    assert everyone.steps.tolist() == [[3] * 4] and (everyone.active_probability == 1).all()
    assert as_irregular(Full(), 3, 4).enumerate(4).steps.tolist() == [[3] * 4]
    for base in (Uniform(2), Bernoulli((0.5, 0.25, 1.0, 0.125)), Bernoulli((0.5, 0.25, 0.75, 0.125))):
        law = as_irregular(base, 3, 4)
        drawn = law.sample(STREAM, 7, range(100), 4)
        np.testing.assert_array_equal(drawn.steps, 3 * base.sample(STREAM, 7, range(100), 4).dense().mask)
        table = law.enumerate_round(1, 4, exact=True)
        assert table.probability.sum() == 1
        active = ((table.steps > 0) * table.probability[:, None]).sum(axis=0)
        assert active.tolist() == table.active_probability.tolist()
        np.testing.assert_allclose(drawn.active_probability, active.astype(float), rtol=1e-14)
        np.testing.assert_allclose(law.law(1)[:, [0, 3]].sum(axis=1), 1)
    kept = complete(4, 3)
    assert as_irregular(kept, 3, 4) is kept
    with pytest.raises(InvalidInput, match=r"P = 5"):
        as_irregular(Uniform(5), 3, 4)

    class Odd(Sampling):  # a law of which only the enumeration is known
        def enumerate(self, num_clients):
            return Uniform(3).enumerate(num_clients)

    np.testing.assert_allclose(as_irregular(Odd(), 2, 4).active(), 0.75)


def test_laws_can_be_sent_to_processes():
    law = pickle.loads(pickle.dumps(windows(Irregular(2, TINY), {0: (None, 5)})))
    np.testing.assert_array_equal(law.law(5), windows(Irregular(2, TINY), {0: (None, 5)}).law(5))


def _half(t):
    return 0.5 if t < 3 else 1.5


@each(
    ("make", "said"),
    [
        (lambda: complete(2, 0), "E is 0"),
        (lambda: complete(0, 2), "N is 0"),
        (lambda: incomplete(2, 2, [0.5, 0.4, 0.2]), r"client 0 .* sums to 1\.1"),
        (lambda: incomplete(2, 2, [F(1, 3), F(1, 3), F(1, 4)]), "sums to 11/12"),
        (lambda: incomplete(2, 2, [-0.5, 0.5, 1.0]), r"s = 0 the probability -0\.5"),
        (lambda: incomplete(2, 1, [np.nan, 1.0]), "NaN"),
        (lambda: incomplete(2, 2, [0.25] * 4), "s_k > E is impossible"),
        (lambda: incomplete(2, 2, [0.5, 0.5]), "fill up with zeros"),
        (lambda: incomplete(3, 1, [[0.5, 0.5]] * 2), "N = 3 clients"),
        (lambda: Irregular(2, [[1, 0], [0.5, 0.5, 0]]), "all rows of one length"),
        (lambda: Irregular(2, JointLaw([[0, 3]], [1])), "s = 3 at client 1, outside 0..E with E = 2"),
        (lambda: JointLaw([[0, 1], [1, 1]], [0.5, 0.4]), r"joint law sums to 0\.9"),
        (lambda: JointLaw([[0, 1], [1, 1]], [1.0]), "one a case"),
        (lambda: JointLaw([[0.5, 1]], [1.0]), "integers"),
        (lambda: Irregular(1, [[[0, 1]], [[0, 1], [0, 1]]]), "same N"),
        (lambda: inactive(2, 2, [0.2, 1]), "client 1 is never active"),
        (lambda: inactive(2, 2, [1.1, 0.2]), r"client 0 is inactive with probability 1\.1"),
        (lambda: inactive(3, 2, [0.1, 0.2]), "N = 3"),
        (lambda: windows(inactive(2, 1, [[0.5, 1], [0.5, 0.5]]), {1: (1, 2)}), "client 1 is never active"),
        (lambda: windows(complete(2, 1), {0: (5, 3)}), "departure must come after arrival"),
        (lambda: windows(complete(2, 1), {0: (3, 3)}), "departure must come after arrival"),
        (lambda: windows(complete(2, 1), {2: (1, 3)}), r"client 2: clients are numbered 0\.\.1"),
        (lambda: windows(3, {0: (1, 3)}), "law of the local steps, not with 3: give an Irregular"),
        (lambda: windows(complete(2, 1), [(1, 3)]), "give a mapping"),
        (lambda: windows(complete(2, 1), {0: 3}), "window 3 of client 0"),
        (lambda: Irregular(1, [[0.5, 0.5]], present=3), "present is 3: give a window"),
        (lambda: windows(complete(2, 1), {0: (0, 3)}), "counted from 1"),
        (lambda: windows(complete(2, 1), {0: (1.5, None)}), "rounds or None"),
        (lambda: windows(complete(2, 1), {0: (1, 4), 1: (6, None)}), "no client is there in round 4"),
        (lambda: windows(complete(2, 1), {0: (2, None), 1: (3, None)}), "no client is there in round 1"),
        (lambda: Irregular(1, [[0, 1]] * 3, [(None, None)] * 2), "2 windows"),
        (
            lambda: windows(complete(2, 1), {0: (1, 30)}).check_run(2, 20),
            "client 0 is gone from round 30 of a run of 20",
        ),
        (
            lambda: windows(complete(2, 1), {0: (30, None)}).check_run(2, 20),
            "client 0 arrives in round 30 of a run of 20",
        ),
        (lambda: windows(complete(2, 1), {0: (1, 9), 1: (1, 9)}).check_run(2, 20), "every client is gone in round 20"),
        (lambda: inactive(2, 1, _half).check_run(2, 5), r"inactive with probability 1\.5"),
        (lambda: complete(3, 1).check(4), "3 clients and a problem with N = 4"),
        (lambda: complete(3, 1).law(0), "round 0"),
        (lambda: incomplete(100, 2, [0.2, 0.3, 0.5]).enumerate(100), "use Monte Carlo"),
    ],
)
def test_what_is_no_law_is_refused(make, said):
    with pytest.raises(InvalidInput, match=said):
        make()


def test_a_run_refuses_windows_outside_it_before_it_starts():
    problem = problems.Quadratic(np.ones((2, 1, 1)), np.zeros((2, 1)))
    efl, solver = algorithms.EFL(), LocalSGD(steps=2, lr=0.1)
    seen = []
    with pytest.raises(InvalidInput, match="arrives in round 8 of a run of 6"):
        simulate(
            problem,
            efl,
            6,
            [1.0],
            windows(complete(2, 2), {1: (8, None)}),
            local_solver=solver,
            on_round=lambda *a: seen.append(a),
        )
    assert not seen
    run = simulate(problem, efl, 6, [1.0], windows(complete(2, 2), {1: (4, None)}), local_solver=solver)
    assert run.metrics["objective"].shape == (7, 1)


def test_drawing_takes_no_loop_over_scenarios_or_clients():
    """Ten times the scenarios and clients: the calls stay the same (BLOCK scenarios a generator aside)."""
    import cProfile

    def calls(scenarios, clients):
        profile = cProfile.Profile()
        law = incomplete(clients, 10, np.ones(11) / 11)
        law.check(clients)
        profile.runcall(law.sample, STREAM, 1, range(scenarios), clients)
        return sum(entry.callcount for entry in profile.getstats())

    calls(6, 10)  # from here on the round's key is at hand
    assert calls(64, 100) == calls(64, 10) == calls(6, 10)
