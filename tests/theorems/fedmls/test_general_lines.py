"""FedMLS in one dimension on numbers that are all different, against the second writing; and what its witnesses' data may be."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q

import pytest
import worked_fedmls as paper
import worked_mopes
from cases import each
from lines_of_fedmls import both_sides, in_one_dimension, witness_of

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedmls import lines
from fedtheory.theorems.fedmls.notation import ROUNDS
from fedtheory.theorems.fedmls.one_dimension import OneDimension
from fedtheory.theory.judge.replay import exact_check
from paper_figures.fedmls import theorem_1_local_work as local_work

CLIENTS = [
    [(Q(-1), Q(1, 3)), (Q(4), Q(-2))],
    [(Q(-5, 2), Q(1)), (Q(3, 2), Q(-1, 7)), (Q(0), Q(1, 5))],
    [(Q(2, 3), Q(1, 4)), (Q(-9, 5), Q(-1))],
]
LINES = paper.Instance(
    [[((p,), q) for p, q in client] for client in CLIENTS],
    (Q(-3, 5),), (Q(0),), Q(2, 7), Q(9, 2), 5, Q(7, 4), [Q(29, 3)] * 3, [Q(0)] * 3,
)  # fmt: skip
CHANGES = {
    "repaired": {}, "line 14 as printed": {"line_14": "printed"}, "no server projection": {"server_projection": False},
    "mixed norms": {"share": 3}, "prox without the square": {"flat_prox": True, "lam": Q(8, 7)},
}  # fmt: skip


@pytest.mark.parametrize("cut", [Q(1), Q(1, 3)], ids=["inside", "cut"])
@pytest.mark.parametrize("variant", CHANGES)
def test_every_variant_is_the_second_writing(variant, cut):
    p = replace(LINES, R=LINES.R * cut, **CHANGES[variant])
    run = replace(in_one_dimension(CLIENTS, p.lam, p.D, p.R, p.x0[0], p.K, variant).run, g_sq=p.G_sq)
    assert lines.history(run).x == [x for (x,) in paper.run(p, last_training=False).x]
    if variant != "prox without the square":
        assert run.steps == p.T and len({*run.steps}) == 5


def test_minimisers():
    flat = [[(Q(0), Q(0)), (Q(1), Q(-1)), (Q(-1), Q(-2))]]  # 0 on [-2, 1]
    for near, expected in ((Q(1, 2), Q(1, 2)), (Q(5, 2), 1), (Q(-5, 2), -2)):
        assert lines.least_on(flat, -Q(3), Q(3), near) == (0, expected)
    end = Q(3, 4)
    assert lines.least_on([[(Q(2), Q(1))]], -end, end, Q(0)) == (Q(-1, 2), -end)
    assert lines.least_on([[(Q(-2), Q(1))]], -end, end, Q(0))[1] == end


def test_the_prox_without_its_square_stays_where_slopes_are_short():
    """Slopes below beta/2 move nothing: the solution is w = u_0 - g/beta, or the end that is nearest to it."""
    flat, beta = [(Q(1, 2), Q(0)), (Q(-1, 3), Q(0))], Q(5, 2)
    for u0, radius, expected in ((Q(1, 5), Q(2), Q(1, 7)), (Q(1, 5), Q(1, 9), Q(1, 9)), (Q(-3), Q(2), Q(-2))):
        assert lines.prox(flat, u0 - Q(1, 7) / beta, beta, radius, power=1) == expected


def test_the_constants_of_the_readings():
    """F' is -4/3, then 7/6 and 11/6 with five copies of the first client: the last one is the longest."""
    clients = [[(Q(2), Q(0)), (Q(-1), Q(0))], [(Q(-3), Q(1)), (Q(1), Q(-2))]]
    for variant, g_sq in (("consensus G", Q(11, 6) ** 2), ("repaired", Q(5 * 4 + 9, 6)), ("joint G", Q(5 * 4 + 9, 36))):
        assert in_one_dimension(clients, Q(1), Q(1), Q(2), Q(0), 1, variant, [5, 1]).g_sq == g_sq


def test_theorem_2s_rounds_at_their_limits():
    def facts(lam, d, K, steep, far):
        """Two clients steep |u| from ``far``: 72 D/(lambda G)^2 = (12 far/(lambda steep))^2."""
        both = [[(steep, Q(0)), (-steep, Q(0))]]
        return in_one_dimension(both, lam, d, far, far, K, "Theorem 2, joint G", [2]).facts

    for lam, K in ((Q(1), 9), (Q(9, 10), 10), (Q(89, 100), 11), (Q(3), 3)):
        assert facts(lam, Q(9, 4), K, Q(2), Q(3, 2)) == {ROUNDS["printed"]}
        for other in (K - 1, K + 1):
            with pytest.raises(InvalidInput, match=f"K = {other} are not Theorem 2's: .* K = {K}"):
                facts(lam, Q(9, 4), other, Q(2), Q(3, 2))
    assert facts(Q(1), Q(151, 100) ** 2, 10, Q(2), Q(151, 100))  # 12 far/2 = 9.06, just above 9
    with pytest.raises(InvalidInput, match="it has D = 4 and"):
        facts(Q(1), Q(3), 12, Q(1), Q(2))


def test_one_slope_at_the_limits_of_its_closed_form():
    slope = [[(Q(-1), Q(0))]]

    def sides(clients, *numbers):
        return both_sides(clients, *(Q(v) for v in numbers[:-1]), numbers[-1], "9.9 for 10")

    lam = 1 / (Q(6, 20) + Q(8, 25))  # iterates may just reach the end
    d = 4 * lam**2
    lhs, rhs = sides(slope, lam, d, 1, 0, 2)
    assert (lhs, rhs) == (1 - lam * (Q(6, 40) + Q(5, 60)), (Q(99, 10) + 8 * d) / (6 * lam) + lam / 2)
    small, least = lam / 7, 2 * (lam / 7) ** 2 * 3 * 4
    assert sides(slope, small, least, 1, 0, 3)[1] == (Q(99, 10) + 8 * least) / (12 * small) + small / 2
    for numbers in ((lam, d, 1, 0, 1), (lam * Q(1001, 1000), 2 * d, 1, 0, 2), (lam, d * Q(999, 1000), 1, 0, 2),
                    (small, least * Q(999, 1000), 1, 0, 3)):  # fmt: skip
        with pytest.raises(InvalidInput, match="the closed form needs"):
            sides(slope, *numbers)
    for other in ((slope, lam, d, 2, 0, 2), (slope, lam, d, 1, Q(1, 2), 2), ([[(Q(-2), Q(0))]], lam, d, 1, 0, 2)):
        with pytest.raises(InvalidInput, match="one client f = -u"):
            sides(*other)


# --- the data of a witness ------------------------------------------------------------------------
NUMBERS = {"lam": "1/3", "D": "1/5", "radius": "1/2", "x0": "1/2"}
WITNESS = witness_of("joint G", [["1", "-2"], ["3"]], [["0", "1"], ["1/7"]], NUMBERS, 1, copies=[1, 2])


def test_the_least_data_are_taken():
    run = OneDimension.of(WITNESS.data)
    clients = ([(1, 0), (-2, 1)], [(3, Q(1, 7))])
    assert run == OneDimension("joint G", clients, (1, 2), Q(1, 3), Q(1, 5), Q(1, 2), Q(1, 2), 1)
    without = {k: v for k, v in WITNESS.data.items() if k != "copies"}
    for data in (without, {**WITNESS.data, "copies": []}, {**WITNESS.data, "x0": "-1/2"}, {**WITNESS.data, "rounds": 10**9}):
        assert OneDimension.of(data).clients == clients


@each(
    ("change", "said"),
    [
        ({"lam": "0"}, "must be > 0"), ({"D": "0"}, "must be > 0"), ({"radius": "0", "x0": "0"}, "must be > 0"),
        ({"D": "-1"}, "must be > 0"), ({"x0": "51/100"}, "outside the ball of radius 1/2"), ({"x0": "-51/100"}, "outside the ball"),
        ({"rounds": 0}, "rounds"), ({"rounds": 10**9 + 1}, "rounds"), ({"variant": ["joint G"]}, "use repaired, joint G"),
        ({"variant": "another G"}, "use repaired, joint G"), ({"variant": "mixed norms"}, "judged by its witness"),
        ({"variant": "Theorem 2, joint G"}, "are not Theorem 2's"), ({"lam": "x"}, "lam"), ({"D": "x"}, "D"),
        ({"copies": [1]}, "give 2 integers"), ({"copies": [0, 1]}, "give 2 integers"), ({"copies": [True, 1]}, "give 2 integers"),
        ({"copies": "12"}, "give 2 integers"), ({"slopes": []}, "one list of fractions"), ({"slopes": "1"}, "one list of fractions"),
        ({"offsets": "1"}, "one list of fractions"), ({"slopes": [["1", "2"], "3"]}, "one list of fractions"),
        ({"offsets": [["0", "1"]]}, "one list of fractions"), ({"offsets": [["0"], ["1/7"]]}, "one list of fractions"),
        ({"slopes": [["1", "-2"], []], "offsets": [["0", "1"], []]}, "one list of fractions"),
        ({"slopes": [], "offsets": []}, "one list of fractions"), ({"slopes": [["1", "-2"], ["x"]]}, r"slopes\[1\]"),
        ({"offsets": [["0", "x"], ["1"]]}, r"offsets\[0\]"), ({"more": 1}, "unknown: more"), ({"lam": None}, "missing: lam"),
        ({"lam": None, "D": None, "more": 1, "another": 2}, "missing: lam, D; unknown: another, more"),
    ],
)  # fmt: skip
def test_data_of_no_run_are_refused(change, said):
    data = {k: v for k, v in {**WITNESS.data, **change}.items() if v is not None}
    with pytest.raises(InvalidInput, match=said):
        exact_check(replace(WITNESS, data=data))


def test_long_runs_in_fractions_are_refused():
    slope = [[(Q(-1), Q(0))]]
    run = in_one_dimension(slope, Q(1, 10**9), Q(1), Q(1), Q(0), 500).run
    assert run.checked_steps(last=True) == [1] * 500
    with pytest.raises(InvalidInput, match="K = 501 exact rounds, more than 500"):
        lines.history(replace(run, rounds=501))
    with pytest.raises(InvalidInput, match="10008 exact local steps, more than 10000"):  # 4 G^2 lambda^2 K/(2 D) = 5004 a client
        lines.history(in_one_dimension(slope * 2, Q(1), Q(1, 1251), Q(1), Q(0), 2).run)


# --- the figure of local work ---------------------------------------------------------------------
def test_the_shares_of_the_bounds():
    """f = -u on [-1, 1] from 0: solved, by the second writing of the exact step; one step a round."""
    rounds = (2, 3, 5)
    data = local_work.compute(rounds)
    for i, K in enumerate(rounds):
        lam, one = Q(16, K * (K + 1) + 8), Q(20, K * (K + 1) + 7)
        rows = worked_mopes.exact_prox([[(Q(-1), Q(0))]], lam, Q(1), Q(0), K)
        ((excess, bound),) = rows["repaired"]
        assert data["solved"][i] == pytest.approx(float(excess / bound)) and bound == 8 / (lam * K * (K + 1)) + lam / 2
        D = 2 * one**2 * K * (K - 1) ** 2
        run = in_one_dimension([[(Q(-1), Q(0))]], one, D, Q(1), Q(0), K).run
        assert {*run.steps[:-1]} == {1}
        bound = (10 + 8 * D) / (one * K * (K + 1)) + one / 2
        assert data["one step"][i] == pytest.approx(float((1 - lines.history(run).x[-1]) / bound))
