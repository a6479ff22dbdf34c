"""Schemes A, B, C and the corrected C: coefficients, theta and exact moments, by hand, by enumeration and by draws."""

from fractions import Fraction as F

import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtheory.errors import InvalidInput, MissingCapability, UnknownName
from fedtheory.participation.coefficients import SCHEMES, coefficients, theta, when_complete
from fedtheory.participation.cohorts import Bernoulli, Full, Uniform
from fedtheory.participation.irregular import Irregular, JointLaw, as_irregular, inactive, incomplete, windows
from fedtheory.participation.moments import moments, round_moments
from fedtheory.randomness import Stream

FIELDS = ("p", "ps", "p2s", "sum_p", "sum_ps", "overlap", "overlap_lower", "ratio", "theta")
# Two clients, E = 2: the first completes both steps or none, the second one or two.
TINY = [[F(1, 2), F(0), F(1, 2)], [F(0), F(1, 3), F(2, 3)]]
WEIGHTS = [F(1, 4), F(3, 4)]


def test_coefficients_by_hand():
    steps = np.array([[2, 1, 0], [2, 2, 1], [0, 0, 0]])
    w, active = [F(1, 2), F(1, 3), F(1, 6)], [F(1, 2), F(1), F(1, 4)]
    by_hand = {
        "A": [[F(3, 2), 0, 0], [F(3, 4), F(1, 2), 0], [0, 0, 0]],
        "B": [w, w, w],
        "C": [[F(1, 2), F(2, 3), 0], [F(1, 2), F(1, 3), F(1, 3)], [0, 0, 0]],
        "C-corrected": [[1, F(2, 3), 0], [1, F(1, 3), F(4, 3)], [0, 0, 0]],
    }
    for scheme, expected in by_hand.items():
        p = coefficients(scheme, steps, 2, w, active)
        assert p.tolist() == expected
        floating = coefficients(scheme, steps, 2, np.array(w, dtype=float), np.array(active, dtype=float))
        assert floating.dtype == float
        np.testing.assert_allclose(floating, np.array(expected, dtype=float), rtol=1e-15)


def test_absent_clients_get_nothing_and_do_not_count():
    steps, here = np.array([[2, 1, 0]]), [True, True, False]
    w = [F(1, 2), F(1, 2), F(0)]
    assert coefficients("A", steps, 2, w, present=here).tolist() == [[1, 0, 0]]  # N = 2
    assert coefficients("B", steps, 2, [F(1, 2), F(1, 3), F(1, 6)], present=here).tolist() == [[F(1, 2), F(1, 3), 0]]
    assert coefficients("C-corrected", steps, 2, w, [F(1), F(1, 2), F(0)], here).tolist() == [[F(1, 2), 2, 0]]
    assert theta("A", 3, 2, present=here) == 2
    assert theta("C-corrected", 3, 2, [1, F(1, 2), 0], here) == 4


@pytest.mark.parametrize("scheme", SCHEMES)
def test_assumption_5_holds_for_all_steps_and_is_attained(scheme):
    """p_tau^k <= theta p^k, with equality somewhere, over all (E + 1)^N outcomes."""
    steps = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    w, active = np.array([F(1, 2), F(1, 3), F(1, 6)]), np.array([F(1, 2), F(3, 4), F(2, 5)])
    ratio = coefficients(scheme, steps, 3, w, active) / w
    bound = theta(scheme, 3, 3, active)
    assert ratio.max() == bound == {"A": 3, "B": 1, "C": 3, "C-corrected": F(15, 2)}[scheme]


def test_moments_of_a_tiny_law_by_hand():
    """Four rounds can happen: (2, 2) 1/3, (2, 1) 1/6, (0, 2) 1/3, (0, 1) 1/6."""
    by_hand = {  # E p, E ps, E p^2 s, S, ratios
        "A": ([F(1, 6), F(3, 4)], [F(1, 3), F(3, 2)], [F(1, 8), F(15, 8)], F(11, 6), [F(4, 3), F(2)]),
        "B": ([F(1, 4), F(3, 4)], [F(1, 4), F(5, 4)], [F(1, 16), F(15, 16)], F(3, 2), [F(1), F(5, 3)]),
        "C": ([F(1, 8), F(1)], [F(1, 4), F(3, 2)], [F(1, 16), F(3, 2)], F(7, 4), [F(1), F(2)]),
        "C-corrected": ([F(1, 4), F(1)], [F(1, 2), F(3, 2)], [F(1, 4), F(3, 2)], F(2), [F(2), F(2)]),
    }
    for scheme, (p, ps, p2s, work, ratio) in by_hand.items():
        m = moments(scheme, TINY, 2, WEIGHTS, exact=True)
        assert (m.p.tolist(), m.ps.tolist(), m.p2s.tolist(), m.sum_ps, m.ratio.tolist()) == (p, ps, p2s, work, ratio)
        assert m.sum_p == sum(p) and m.overlap == 0 and m.overlap_exact
        assert m.ratio_equal == (scheme == "C-corrected")


def test_overlap_by_hand():
    """E[(sum p - 2)_+ sum p s] is the expectation of a product."""
    one = [[F(0), F(1, 2), F(0), F(0), F(1, 2)]]  # s = 1 or 4 of E = 4: sum p = 4 or 1, sum p s = 4
    assert moments("C", one, 4, [F(1)], exact=True).overlap == F(1, 2) * 2 * 4
    half = [[F(1, 2), F(0), F(1, 2)]] * 3  # A: only the heavy client alone gives sum p = 5/2 > 2
    heavy = [F(5, 6), F(1, 12), F(1, 12)]
    assert moments("A", half, 2, heavy, exact=True).overlap == F(1, 8) * F(1, 2) * 2 * F(5, 2)
    both = [
        [F(1, 2), F(1, 2)],
        [F(3, 4), F(1, 4)],
    ]  # corrected, E = 1: sum p = 1 + 2 = 3 when both come, and sum p s too
    m = moments("C-corrected", both, 1, [F(1, 2), F(1, 2)], exact=True)
    assert m.overlap == F(1, 8) * 1 * 3
    product_of_means = max(m.sum_p - 2, 0) * m.sum_ps
    assert product_of_means == 0  # what a careless reading would use


def _rows(draw, clients, steps):
    out = []
    for _ in range(clients):
        mass = draw(
            st.lists(st.integers(0, 4), min_size=steps + 1, max_size=steps + 1).filter(lambda v: sum(v[1:]) > 0)
        )
        out.append([F(v, sum(mass)) for v in mass])
    return out


@st.composite
def _laws(draw):
    clients = draw(st.integers(1, 6))
    steps = draw(st.integers(1, 5 if clients <= 3 else 2 if clients <= 5 else 1))
    counts = draw(st.lists(st.integers(1, 20), min_size=clients, max_size=clients))
    gone = draw(st.sets(st.integers(1, clients - 1), max_size=clients - 1)) if clients > 1 else set()
    law = windows(Irregular(steps, _rows(draw, clients, steps)), {k: (2, None) for k in gone})
    return law, [F(c, sum(counts)) for c in counts]


@settings(max_examples=60, deadline=None)
@given(_laws(), st.sampled_from(SCHEMES))
def test_convolution_and_enumeration_agree_exactly(case, scheme):
    law, w = case
    clients, floating = len(w), [float(v) for v in w]
    quick = round_moments(scheme, law, 1, w, exact=True)
    table = moments(scheme, law.enumerate_round(1, clients, exact=True), law.max_steps, w, exact=True)
    for name in FIELDS:
        assert np.all(getattr(quick, name) == getattr(table, name)), name
    assert quick.ratio_equal == table.ratio_equal == (len({v for v, h in zip(quick.ratio, _here(law)) if h}) == 1)
    for other in (
        round_moments(scheme, law, 1, floating),
        moments(scheme, law.enumerate_round(1, clients), law.max_steps, floating),
    ):
        for name in FIELDS:
            want = np.asarray(getattr(quick, name), dtype=float)
            if "overlap" in name and not other.overlap_exact:
                assert other.overlap_lower <= want * (1 + 1e-12) + 1e-14 and want <= other.overlap * (1 + 1e-12) + 1e-14
            else:
                np.testing.assert_allclose(
                    np.asarray(getattr(other, name), float), want, rtol=1e-11, atol=1e-14, err_msg=name
                )
        assert other.ratio_equal == quick.ratio_equal


def _here(law):
    present = law.present_in(1)
    return np.ones(len(law.law(1)), dtype=bool) if present is None else present


@pytest.mark.parametrize("scheme", SCHEMES)
def test_moments_and_draws_agree(scheme):
    rng = np.random.default_rng(4)
    law, w = Irregular(5, rng.dirichlet(np.full(6, 0.7), 5)), rng.dirichlet(np.full(5, 0.4))
    m = round_moments(scheme, law, 3, w)
    cohort = law.sample(Stream(1), 3, range(60_000), 5)
    p = coefficients(scheme, cohort.steps, 5, w, cohort.active_probability)
    s, total = cohort.steps, p.sum(axis=1)
    work = (p * s).sum(axis=1)
    assert (p <= m.theta * w * (1 + 1e-12)).all()
    for name, draws in {
        "p": p,
        "ps": p * s,
        "p2s": p**2 * s,
        "sum_p": total,
        "sum_ps": work,
        "overlap": np.maximum(total - 2, 0) * work,
    }.items():
        error = draws.std(axis=0) / np.sqrt(len(s))
        assert (np.abs(draws.mean(axis=0) - getattr(m, name)) <= 4.5 * error + 1e-12).all(), name
    if scheme != "B":
        assert m.overlap > 0


def test_hundred_clients():
    """Scheme A's factors against Gauss-Legendre: E[1/(1 + K')] is the integral of a polynomial of degree 99."""
    rng = np.random.default_rng(0)
    c = rng.uniform(0.05, 0.9, 100)
    rows = np.zeros((100, 4))
    rows[:, 3], rows[:, 1], rows[:, 0] = c, (1 - c) / 3, 1 - c - (1 - c) / 3
    w = rng.integers(10, 100, 100)
    w = w / w.sum()
    m = moments("A", rows, 3, w)
    t, weight = np.polynomial.legendre.leggauss(50)
    factors = 1 - c[:, None] + c[:, None] * (t + 1) / 2
    once = (factors.prod(axis=0) / factors * weight / 2).sum(axis=1)
    np.testing.assert_allclose(m.p, 100 * w * c * once, rtol=1e-12)
    equal = moments("A", rows, 3, np.full(100, 0.01))
    np.testing.assert_allclose(equal.sum_p, 1 - (1 - c).prod(), rtol=1e-13)  # equal weights: sum p = 1 unless K = 0
    assert equal.overlap == 0 and not equal.ratio_equal


@pytest.mark.parametrize(("scheme", "skewed"), [("C", False), ("C-corrected", False), ("C", True), ("A", True)])
def test_overlap_of_hundred_clients(scheme, skewed):
    """Exact where weights are equal; else a narrow bracket. Both against draws."""
    rng = np.random.default_rng(2)
    w = rng.dirichlet(np.full(100, 0.1)) if skewed else np.full(100, 0.01)
    law = incomplete(100, 6, [0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05])
    m = round_moments(scheme, law, 1, w)
    assert m.overlap_exact is not skewed
    assert m.overlap_lower > 0.99 * m.overlap > 0
    cohort = law.sample(Stream(3), 1, range(20_000), 100)
    p = coefficients(scheme, cohort.steps, 6, w, cohort.active_probability)
    draws = np.maximum(p.sum(axis=1) - 2, 0) * (p * cohort.steps).sum(axis=1)
    error = 4 * draws.std() / np.sqrt(len(draws))
    assert m.overlap_lower - error <= draws.mean() <= m.overlap + error


@pytest.mark.parametrize(("scheme", "clients"), [("A", 5), ("C", 4), ("C-corrected", 4)])
def test_certified_brackets_hold_the_enumerated_value(scheme, clients):
    rng = np.random.default_rng(7)
    for _ in range(15):
        law = Irregular(4, rng.dirichlet(np.full(5, 0.5), clients))
        w = rng.dirichlet(np.full(clients, 0.3))
        bracket = round_moments(scheme, law, 1, w)
        true = moments(scheme, law.enumerate_round(1, clients), 4, w).overlap
        assert bracket.overlap_lower <= true * (1 + 1e-12) and true <= bracket.overlap * (1 + 1e-12)
        assert bracket.overlap - bracket.overlap_lower <= 1e-3 * max(1, true)


def test_equal_ratios_are_decided_from_the_law():
    w = [F(1, 2), F(1, 3), F(1, 6)]
    same = [[F(1, 4), F(1, 2), F(1, 4)]] * 3
    assert all(moments(scheme, same, 2, w).ratio_equal for scheme in SCHEMES)
    mixed = [[F(1, 4), F(1, 2), F(1, 4)], [F(1, 3), F(1, 3), F(1, 3)], [F(1, 4), F(1, 2), F(1, 4)]]  # equal E[s] only
    equal = {scheme: moments(scheme, mixed, 2, w).ratio_equal for scheme in SCHEMES}
    assert equal == {"A": False, "B": True, "C": False, "C-corrected": True}
    done = [[F(0), F(1, 2), F(1, 2)], [F(1, 2), F(0), F(1, 2)], [F(1, 4), F(1, 4), F(1, 2)]]  # equally often complete
    equal = {scheme: moments(scheme, done, 2, w).ratio_equal for scheme in SCHEMES}
    assert equal == {"A": True, "B": False, "C": False, "C-corrected": True}
    there = [[F(1, 2), F(1, 2), F(0)], [F(1, 2), F(0), F(1, 2)], [F(1, 2), F(1, 4), F(1, 4)]]  # equally often active
    equal = {scheme: moments(scheme, there, 2, w).ratio_equal for scheme in SCHEMES}
    assert equal == {"A": False, "B": False, "C": True, "C-corrected": True}
    near = [[F(1, 2) - F(1, 10**15), F(1, 2) + F(1, 10**15)], [F(1, 2), F(1, 2)]]
    assert not moments("C", near, 1, [F(1, 2)] * 2).ratio_equal  # Fractions are meant exactly
    assert moments("C", [[0.9, 1 - 0.9], [1 - 0.1, 0.1]], 1, [0.5, 0.5]).ratio_equal  # floats up to rounding
    assert moments("B", [[1 / 3] * 3, [0.25, 0.5, 0.25]], 2, [0.5, 0.5]).ratio_equal
    assert not moments("C", [[0.5 - 1e-9, 0.5 + 1e-9], [0.5, 0.5]], 1, [0.5, 0.5]).ratio_equal
    gone = moments("C", [[F(1), F(0)], [F(1, 2), F(1, 2)]], 1, [F(1, 2)] * 2)
    assert not gone.ratio_equal  # kept in the objective: r = 1
    left = moments("C", [[F(1), F(0)], [F(1, 2), F(1, 2)]], 1, [F(1, 2)] * 2, present=[False, True])
    assert left.ratio_equal


def test_correlated_clients_have_other_moments_than_their_marginals():
    """Both come or none: K is 0 or 2."""
    table = JointLaw([[1, 1], [0, 0]], [F(1, 2), F(1, 2)])
    w = [F(1, 2), F(1, 2)]
    joint, single = (moments("A", law, 1, w, exact=True) for law in (table, table.marginals(1)))
    assert joint.p.tolist() == [F(1, 4)] * 2 and single.p.tolist() == [F(3, 8)] * 2
    law = Irregular(1, [table, table.marginals(1)])
    assert round_moments("A", law, 1, w, exact=True).sum_p == F(1, 2)
    assert round_moments("A", law, 2, w, exact=True).sum_p == F(3, 4)
    assert round_moments("C", law, 1, w).ratio_equal


@pytest.mark.parametrize(
    "base", [Uniform(5), Uniform(2), Bernoulli((0.5, 0.25, 0.5, 0.125, 0.25, 0.5, 0.125, 0.75, 0.5, 0.25, 0.5, 0.5))]
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_closed_forms_of_other_cohorts_are_the_enumerated_moments(base, scheme):
    clients = 12 if isinstance(base, Bernoulli) else 10
    counts = np.arange(1, clients + 1) ** 2
    w = [F(int(c), int(counts.sum())) for c in counts]
    law = as_irregular(base, 3, clients)
    quick = round_moments(scheme, law, 1, w, exact=isinstance(base, Uniform))
    table = moments(
        scheme, law.enumerate_round(1, clients, exact=isinstance(base, Uniform)), 3, w, exact=isinstance(base, Uniform)
    )
    for name in ("p", "ps", "p2s", "sum_p", "sum_ps", "ratio"):
        np.testing.assert_allclose(
            np.asarray(getattr(quick, name), float), np.asarray(getattr(table, name), float), rtol=1e-12, err_msg=name
        )
    assert float(quick.overlap_lower) <= float(table.overlap) * (1 + 1e-12)
    assert float(table.overlap) <= float(quick.overlap) * (1 + 1e-12)
    assert quick.ratio_equal == table.ratio_equal
    many = round_moments(scheme, as_irregular(Uniform(10), 3, 100), 1, np.full(100, 0.01))  # far beyond enumeration
    assert many.overlap == 0 and many.ratio_equal and many.overlap_exact


STEPS = np.array([[2, 1], [0, 2]])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: coefficients("C", [[3, 1]], 2, [0.5, 0.5]),
            r"s = 3 local steps at client 0, outside 0\.\.E with E = 2",
        ),
        (lambda: coefficients("C", [[-1, 1]], 2, [0.5, 0.5]), "s = -1"),
        (lambda: coefficients("C", [[1.0, 1.0]], 2, [0.5, 0.5]), "integers"),
        (lambda: coefficients("C", STEPS, 0, [0.5, 0.5]), "E is 0"),
        (lambda: coefficients("B", STEPS, 2, [0.5, 0.6]), r"sum to 1\.1"),
        (lambda: coefficients("B", STEPS, 2, [F(1, 2), F(1, 3)]), "sum to 5/6"),
        (lambda: coefficients("B", STEPS, 2, [1.0, 0.0]), r"client 1 has weight p\^k = 0\.0"),
        (lambda: coefficients("B", STEPS, 2, [0.5, 0.25, 0.25]), "for 3 weights"),
        (lambda: coefficients("C-corrected", STEPS, 2, [0.5, 0.5]), "give active_probability"),
        (
            lambda: coefficients("C-corrected", STEPS, 2, [0.5, 0.5], [0.5, 0.0]),
            "client 1 is never active .* objective .* undefined",
        ),
        (
            lambda: coefficients("C-corrected", STEPS, 2, [0.5, 0.5], [0.5, 1.5]),
            r"client 1 is active with probability 1\.5",
        ),
        (
            lambda: coefficients("C", STEPS, 2, [0.5, 0.5], present=[False, True]),
            "client 0 is not present and completes",
        ),
        (lambda: theta("C-corrected", 2, 3, [0.0, 0.5]), "client 0 is never active"),
        (lambda: moments("C-corrected", [[1, 0], [0.5, 0.5]], 1, [0.5, 0.5]), "client 0 is never active"),
        (lambda: moments("C", [[0.5, 0.5]] * 2, 1, [0.5, 0.3, 0.2]), "a law for 2 clients, weights of shape"),
        (lambda: moments("C", [[0.5, 0.5]] * 2, 2, [0.5, 0.5]), "E = 2"),
        (
            lambda: moments("C", [[F(1, 12)] * 12] * 60, 11, [F(2 * k + 1, 3600) for k in range(60)], exact=True),
            "use exact=False",
        ),
    ],
)
def test_bad_input_is_refused(make, said):
    with pytest.raises(InvalidInput, match=said):
        make()


def test_unknown_schemes_and_draws_without_probabilities():
    with pytest.raises(UnknownName, match="C-corrected"):
        coefficients("C-correct", STEPS, 2, [0.5, 0.5])
    with pytest.raises(MissingCapability, match="enumerate_round"):
        moments("C", inactive(2, 2, 0.5).sample(Stream(0), 1, range(3), 2), 2, [0.5, 0.5])


@each("scheme", SCHEMES)
@each("law", [Full(), Uniform(1), Uniform(3), Uniform(5)])
def test_coefficients_of_complete_clients_are_those_of_one_step(scheme, law):
    cohort, w = law.sample(Stream(2), 3, range(4), 5), np.array([0.1, 0.3, 0.2, 0.15, 0.25])
    every = coefficients(scheme, cohort.taking_part().astype(np.int64), 1, w, cohort.active_probability)
    p, base = when_complete(scheme, cohort, w)
    assert p.tobytes() == np.ascontiguousarray(cohort.of_slots(every)).tobytes()
    assert base.tobytes() == np.ascontiguousarray(cohort.of_slots(np.broadcast_to(w, (4, 5)))).tobytes()
    with pytest.raises(InvalidInput, match="client 1 has weight"):
        when_complete(scheme, cohort, np.array([0.5, 0, 0.2, 0.1, 0.2]))
