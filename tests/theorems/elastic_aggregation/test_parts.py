"""Parts of Elastic Aggregation's views: fractions' linear algebra, contractions, slopes, files."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
import worked_elastic_aggregation as worked
from cases import each

from fedtheory import theorems
from fedtheory.errors import InvalidInput
from fedtheory.theorems.elastic_aggregation import cohorts, sampled_attraction
from fedtheory.theorems.elastic_aggregation.clients import diagonal
from fedtheory.theorems.elastic_aggregation.slopes import ratio_slopes
from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.rounds import linear_algebra

BUILDERS = setting_of("elastic-aggregation/sign").builders


def exact(rows: str) -> np.ndarray:
    """'1 2;0 1' as a matrix of fractions, '1 2' as a vector."""
    made = [[F(v) for v in row.split()] for row in rows.split(";")]
    return np.array(made if ";" in rows else made[0], dtype=object)


def trace(A):
    return sum((A[i][i] for i in range(len(A))), F(0))


def matmul(A, B):
    return [[sum(x * b[j] for x, b in zip(row, B, strict=True)) for j in range(len(B[0]))] for row in A]


def polynomial(A):
    """1, a_1, ..., a_n of det(x I - A) = x^n + a_1 x^(n-1) + ..., by Faddeev and LeVerrier."""
    n, power, found = len(A), [[F(i == j) for j in range(len(A))] for i in range(len(A))], [F(1)]
    for k in range(1, n + 1):
        moved = matmul(A, power)
        found.append(-trace(moved) / k)
        power = [[moved[i][j] + found[-1] * (i == j) for j in range(n)] for i in range(n)]
    return found


def inside(A):
    """Return whether all eigenvalues lie inside the unit circle, by Schur and Cohn's recursion.

    The recursion is on the characteristic polynomial.
    """
    p = polynomial(A)
    while len(p) > 1:
        if abs(p[-1]) >= abs(p[0]):
            return False
        p = [p[0] * a - p[-1] * b for a, b in zip(p[:-1], p[:0:-1], strict=True)]
    return True


def kronecker(A):
    d = range(len(A))
    return [[A[i][j] * A[k][m] for j in d for m in d] for i in d for k in d]


# --- linear algebra -----------------------------------------------------------------------------
def symmetric(d: int):
    """Small ones, of all signs and ranks."""
    at = [(i, j) for i in range(d) for j in range(i, d)]
    some = (F(0), F(2, 3), F(2), F(-1, 3))[: 4 if d < 3 else 3]
    for values in product(*(some if i == j else some[: 5 - d] for i, j in at)):
        yield [[values[at.index((min(i, j), max(i, j)))] for j in range(d)] for i in range(d)]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_semidefinite_is_no_negative_principal_minor(d):
    for A in symmetric(d):
        minors = [worked.det([[A[i][j] for j in of] for i in of]) for n in range(1, d + 1) for of in combinations(range(d), n)]
        assert linear_algebra.semidefinite(np.array(A, dtype=object)) == (min(minors) >= 0), A


SQUARE = ["0 2 -1/3;3/2 1/5 7;2/3 -1 5/4", "0 1;1 0", "1 2;2 4", "0 0;0 3", "5/2 7/3;0 -2/9", "0 3 1;0 0 2;5 1 1"]


@pytest.mark.parametrize("rows", SQUARE)
def test_determinants_and_solutions(rows):
    A, b = exact(rows), exact("7/2 -4/3 5")[: rows.count(";") + 1]
    expected = worked.det(A.tolist())
    assert linear_algebra.determinant(A) == expected
    if expected:
        assert linear_algebra.solve(A, b).tolist() == worked.solve(A.tolist(), b.tolist())
        assert linear_algebra.solve(A, b, one_of_many=True).tolist() == worked.solve(A.tolist(), b.tolist())
    else:
        with pytest.raises(InvalidInput, match="singular"):
            linear_algebra.solve(A, b)


def test_one_solution_of_many_has_zeros_where_it_is_free():
    A = exact("0 2 1;0 4 2;0 1 5")
    assert linear_algebra.solve(A, A @ exact("9 3/7 -2"), one_of_many=True).tolist() == [0, F(3, 7), -2]
    assert linear_algebra.solve(exact("1 2;2 4"), exact("3 6"), one_of_many=True).tolist() == [3, 0]
    with pytest.raises(InvalidInput, match="no solution"):
        linear_algebra.solve(exact("1 2;2 4"), exact("3 7"), one_of_many=True)


def test_diagonal_matrices_are_told_from_others():
    assert diagonal(np.stack([exact("1 0;0 2"), exact("0 0;0 0")]))
    for off in ("1 1/9;0 2", "1 0;1/9 2"):
        assert not diagonal(np.stack([exact("1 0;0 2"), exact(off)]))


# --- contractions --------------------------------------------------------------------------------
MAPS = [
    "1/2 1/3;-1/4 2/5", "9/10 5;0 9/10", "1 0;0 1/2", "-1 0;0 1/2", "0 -1;1 0", "101/100 0;0 1/2", "3/5 4/5;-4/5 3/5", "1/2 20;0 -1/2",
    "999999999/1000000000 0;0 0", "99999999999999/100000000000000 1;0 1/2", "0 2;1/3 0", "0 2;1/2 0", "0 2;51/100 0",
]  # fmt: skip


@pytest.mark.parametrize("rows", MAPS)
def test_a_map_contracts_where_its_spectral_radius_is_below_1(rows):
    A = exact(rows)
    assert linear_algebra.contracts([A]) == inside(A.tolist())


@pytest.mark.parametrize("guess", [True, False])
@pytest.mark.parametrize("pair", list(combinations(MAPS[:8], 2)))
def test_mean_squares_contract_where_their_spectral_radius_is_below_1(pair, guess, monkeypatch):
    """Also where floats give no matrix that could show it."""
    if not guess:
        monkeypatch.setattr(linear_algebra, "_from_floats", lambda maps: None)
    maps = [exact(rows) for rows in pair]
    squares = [kronecker(A.tolist()) for A in maps]
    mean = [[(squares[0][i][j] + squares[1][i][j]) / 2 for j in range(4)] for i in range(4)]
    assert linear_algebra.contracts(maps) == inside(mean)


@pytest.mark.parametrize("rows", ["1", "11/10", "-1", "9/8 0;0 1/2", "0 -1;1 0"])
def test_a_guess_that_shows_nothing_is_not_believed(rows, monkeypatch):
    """I - A' I A >= I/2 is false of each, none of which contracts."""
    A = np.atleast_2d(exact(rows))
    monkeypatch.setattr(linear_algebra, "_from_floats", lambda maps: np.array(np.eye(len(A), dtype=int), dtype=object) * F(1))
    assert not linear_algebra.contracts([A]) and not linear_algebra.contracts([A, A])


def test_what_is_not_against_counts_for_nothing():
    """A_i > share sum_j max(0, -q_ij): q_12 > 0 does not make up for A_1 = 0, and 3 > 2 * 3/2 is false."""
    q = exact("0 1/2;-3/2 0")
    for pull, share, holds in (("0 4", 2, False), ("1/9 4", 2, True), ("1/9 3", 2, False), ("1/9 3", F(19, 10), True)):
        assert cohorts.Linearised.dominated(SimpleNamespace(q=q, pull=exact(pull)), share) is holds


def test_the_step_at_which_a_form_is_judged():
    """Nine tenths of 1/tr, and eta (1 + tau) L = 19/10."""
    steps = []
    view = SimpleNamespace(longest=F(3, 7), tau=F(3, 5), L=F(5, 2), in_mean_square=lambda eta: bool(steps.append(eta)) or True)
    sampled_attraction.short_step(view, F(9, 10)), sampled_attraction.everyone(view, F(19, 10))
    assert steps == [F(27, 70), F(19, 40)]


def test_the_numbers_with_which_the_forms_ask():
    """Nine tenths of the longest step, and twice what stands against a pull."""
    sides = {f.name: f.sides for f in theorems.get("elastic-aggregation/sampled-attraction").forms}
    steps, shares = [], []
    view = SimpleNamespace(
        longest=F(3, 7), tau=F(3, 5), L=F(5, 2), X=None,
        in_mean_square=lambda eta: bool(steps.append(eta)) or True, dominated=lambda share: bool(shares.append(share)) or True,
    )  # fmt: skip
    sides["small steps"](view), sides["dominance"](view)
    assert steps == [F(27, 70)] and shares == [2]


def test_where_nothing_is_sensitive_zeta_is_1():
    view = BUILDERS["aggregation"]({**AGGREGATION, "theta": ["0", "0"]})
    assert view.zeta(view.theta).tolist() == [1, 1]
    small = exact("1/100 -1/50")
    omega = view.omega(small)
    assert omega.max() < 1 and view.zeta(small).tolist() == [1 + view.tau - x / max(omega) for x in omega]


def test_the_operator_is_inverted_on_symmetric_matrices():
    J = exact("-2 1/3;1/5 -3/7")
    X = linear_algebra.lyapunov(lambda X: -(J.T @ X + X @ J), 2)
    assert (J.T @ X + X @ J == -exact("1 0;0 1")).all() and (X == X.T).all()
    assert linear_algebra.lyapunov(lambda X: X - X.T, 2) is None


TWO = {
    "counts": ["2", "5", "3"], "H": [["5/2", "2"], ["4/3", "7/4"], ["6/5", "9/4"]], "S": [["2", "3/4"], ["2/5", "7/3"], ["3/5", "4/3"]],
    "c": [["3/2", "-7/3"], ["-5/4", "2"]], "theta": ["2/3", "-5/4"], "tau": "3/5", "eta": "4/7", "lr": "2/9", "E": 3, "P": 2,
}  # fmt: skip
FULL = {**TWO, "H": [[["5/2", "1/3"], ["1/3", "2"]], *TWO["H"][1:]], "S": [[["2", "1/5"], ["1/5", "3/4"]], *TWO["S"][1:]]}
REPELS = {**TWO, "c": [["-13/2", "9"], ["-19/4", "15"]], "P": 1}
AGAINST = {
    "counts": ["1", "2", "3"], "H": [["1", "2"], ["2", "1/2"], ["1/2", "1"]], "S": [["1", "2"], ["8", "1"], ["1/2", "1"]],
    "c": [["1", "2"], ["-1", "1/2"]], "theta": ["1", "-2"], "tau": "1/3", "lr": "1/2", "E": 2, "P": 2, "eta": "3/4",
}  # fmt: skip
NEAR = {"attracts": TWO, "not diagonal": FULL, "against": AGAINST, "repels": REPELS}
NEAR["one is never seen"] = {**TWO, "S": [["2", "0"], ["2/5", "0"], ["3/5", "0"]]}
STEPS = (F(1, 10), F(1), F(3), F(4), F(6), F(9))


@pytest.mark.parametrize("name", NEAR)
def test_what_a_round_does_near_a_zero(name):
    """Which steps attract: the derivatives of every cohort, and the longest small step, are frozen."""
    view = BUILDERS["linearised"](NEAR[name])
    assert (view.X is None) == (name == "repels") == (not trace(view.J) < 0 < worked.det(view.J.tolist()))
    one = np.array([[F(i == j) for j in range(2)] for i in range(2)])
    for eta in STEPS:
        squares = [kronecker((one + eta * J).tolist()) for J in view.cohort_J]
        mean = [[sum(A[i][j] for A in squares) / len(squares) for j in range(4)] for i in range(4)]
        assert (view.in_mean(eta), view.in_mean_square(eta)) == (inside((one + eta * view.J).tolist()), inside(mean))


def test_slopes_of_one_parameter():
    """Omega/Omega' is 1 wherever anything is seen; where nothing is, it is 0/0."""
    a, slope = ratio_slopes(np.array([[[F(1, 2)]]], dtype=object), exact("1"), exact("1"))  # Omega = 1
    assert (a, slope.tolist()) == (0, [[0]])
    assert ratio_slopes(np.array([[[F(0)]]], dtype=object), exact("1"), exact("1")) is None


@pytest.mark.parametrize("name", ["attracts", "against", "repels"])
def test_what_the_mean_motion_loses_with_zeta(name):
    view = BUILDERS["linearised"](NEAR[name])
    against = [sum(max(F(0), -view.q[i][j]) for j in range(2)) for i in range(2)]
    assert any(against) == (name != "attracts") and view.dominated(0)
    for limit in (view.pull[i] / a for i, a in enumerate(against) if a):  # in one coordinate only
        assert view.dominated(limit * F(99, 100)) and not view.dominated(limit)


# --- what files hold ------------------------------------------------------------------------------
AGGREGATION = {**{k: v for k, v in TWO.items() if k != "P"}, "c": [*TWO["c"], ["2/9", "7/2"]]}
AVERAGE = {"weights": ["2", "5"], "batches": [[["1", "3/2"]], [["2", "0"], ["5", "1/3"]]], "mu": "3/7", "tau": "3/5"}
LABELS = {
    "held": [[["1", "2"]], [["3", "-1"], ["1/2", "1"]]], "held_labels": [["1"], ["2", "3"]], "train": [[["2", "1"]], [["1/2", "1"]]],
    "labels": [["1"], ["2"]], "others": [["3"], ["-2"]], "counts": ["2", "5"], "theta": ["2/3", "-5/4"], "tau": "3/5", "eta": "4/7",
    "lr": "2/9", "E": 3,
}  # fmt: skip
GOOD = {"aggregation": AGGREGATION, "sampled": TWO, "linearised": TWO, "average": AVERAGE, "labels": LABELS}
FINE = [
    *(("aggregation", change) for change in ({"tau": "0"}, {"lr": "2/5"}, {"E": 20})), ("sampled", {"P": 1}), ("sampled", {"P": 3}),
    ("average", {"tau": "0"}), ("average", {"batches": [[["0", "0"]], [["0", "1"]]]}), ("labels", {"tau": "0"}), ("labels", {"E": 20}),
]  # fmt: skip
BAD = [
    ("aggregation", {"tau": "-1/9"}, "tau = -1/9: it must be >= 0"),
    ("aggregation", {"eta": "0"}, "eta = 0.* must be > 0"),
    ("aggregation", {"lr": "0"}, "lr = 0.* must be > 0"),
    ("aggregation", {"lr": "21/50"}, r"lr = 21/50: it must be no more than 1/L .* H\[0\] = "),
    ("aggregation", {"E": 21}, "E = 21"),
    ("aggregation", {"E": 0}, "E = 0"),
    ("aggregation", {"counts": ["2", "5"]}, r"H \(3, 2, 2\) does not fit"),
    ("aggregation", {"counts": ["2", "0", "3"]}, "counts = 0.* must be > 0"),
    ("aggregation", {"S": TWO["S"][:2]}, r"S \(2, 2, 2\) does not fit"),
    ("aggregation", {"c": [["1"], ["2"], ["3"]]}, r"c \(3, 1\) does not fit"),
    ("aggregation", {"c": TWO["c"]}, r"c \(2, 2\) does not fit"),
    ("aggregation", {"H": []}, r"H = \[\]: expected one matrix a client"),
    ("aggregation", {"H": [[], *TWO["H"][1:]]}, r"H\[0\] = \[\]"),
    ("aggregation", {"H": ["5", *TWO["H"][1:]]}, r"H\[0\] = '5'"),
    ("aggregation", {"H": "1"}, "H = '1': expected one matrix a client"),
    ("aggregation", {"H": [["1", "-1/9"], *TWO["H"][1:]]}, r"H\[0\]: expected .* numbers >= 0"),
    ("aggregation", {"H": [["1", "1", "1"], *TWO["H"][1:]]}, r"H\[0\]: expected a symmetric \(2, 2\)"),
    ("aggregation", {"S": [*TWO["S"][:2], [["1", "2"], ["1", "3"]]]}, r"S\[2\]: expected a symmetric"),
    ("aggregation", {"S": [*TWO["S"][:2], [["1", "2"], ["2", "3"]]]}, r"S\[2\] = .* not positive semidefinite"),
    ("aggregation", {"S": [*TWO["S"][:2], ["1", "x"]]}, r"S\[2\]\[1\] = 'x'"),
    ("aggregation", {"S": [*TWO["S"][:2], [["1", "0"], ["0", "x"]]]}, r"S\[2\]\[1\]\[1\] = 'x'"),
    ("sampled", {"P": 4}, "P clients of N >= 2"),
    ("sampled", {"P": 0}, "P = 0"),
    ("sampled", {"tau": "0"}, "tau > 0"),
    ("sampled", {"c": AGGREGATION["c"]}, "one row for every client but the last"),
    ("sampled", {"H": [*TWO["H"][:2], ["1", "0"]]}, r"H\[2\] = .* is singular"),
    ("average", {"mu": "0"}, "mu = 0.* must be > 0"),
    ("average", {"mu": "1"}, "mu = 1.* must be < 1"),
    ("average", {"tau": "-1/9"}, "tau = -1/9: it must be >= 0"),
    ("average", {"batches": [[["0", "0"]], [["0", "0"]]]}, "some batch not 0"),
    ("average", {"batches": [[["1", "3/2"]], [["2", "-1/9"]]]}, "numbers >= 0"),
    ("average", {"batches": [[["1", "3/2"]], [["2"]]]}, "all of one width"),
    ("average", {"batches": AVERAGE["batches"][:1]}, "one table a client"),
    ("average", {"weights": ["0", "5"]}, "weights = 0: it must be > 0"),
    ("labels", {"tau": "-1/9"}, "tau = -1/9: it must be >= 0"),
    ("labels", {"eta": "0"}, "eta = 0.* must be > 0"),
    ("labels", {"lr": "0"}, "lr = 0.* must be > 0"),
    ("labels", {"E": 21}, "E = 21"),
    ("labels", {"E": 0}, "E = 0"),
    ("labels", {"counts": ["0", "5"]}, "counts = 0.* must be > 0"),
    ("labels", {"others": [["3"]]}, "one entry a client"),
    ("labels", {"held": [[["1", "2"]]]}, "one entry a client"),
    ("labels", {"held_labels": [["1"], ["2"]]}, r"held_labels\[1\]: as many labels as held\[1\]"),
    ("labels", {"others": [["3"], ["-2", "1"]]}, r"others\[1\]: as many labels as train\[1\]"),
    ("labels", {"train": [[["2"]], [["1/2", "1"]]]}, r"train\[0\]: rows as long as theta"),
    ("labels", {"held": [[["1", "x"]], LABELS["held"][1]]}, r"held\[0\]\[0\]\[1\] = 'x'"),
    ("labels", {"labels": [["1"], ["x"]]}, r"labels\[1\]\[0\] = 'x'"),
]


@pytest.mark.parametrize(("kind", "change"), FINE)
def test_what_is_at_the_limit_is_an_instance(kind, change):
    assert BUILDERS[kind](GOOD[kind]) and BUILDERS[kind]({**GOOD[kind], **change})


@each(("kind", "change", "words"), BAD)
def test_what_is_no_instance_is_refused(kind, change, words):
    with pytest.raises(InvalidInput, match=words):
        BUILDERS[kind]({**GOOD[kind], **change})


@pytest.mark.parametrize("name", ["tau", "eta", "lr", "theta", "counts", "c"])
def test_a_number_that_is_none_is_named(name):
    kinds = [k for k in ("aggregation", "labels") if name in GOOD[k]]
    for kind in kinds:
        value = {"theta": ["x", "1"], "counts": ["x", "1", "2"], "c": [["x", "1"]]}.get(name, "x")
        with pytest.raises(InvalidInput, match=rf"^{name}.* = 'x'"):
            BUILDERS[kind]({**GOOD[kind], name: value})


def test_a_step_that_is_not_given_is_1():
    without = {k: v for k, v in AGGREGATION.items() if k != "eta"}
    assert BUILDERS["aggregation"](without).eta == 1


def test_cohorts_share_what_their_members_see():
    """Clients 1 and 3 of the counts 2, 5, 3: weights 2/5 and 3/5, Omega = (2/5 + 6/5, 8/5 + 3/5) = (8/5, 11/5)."""
    omegas = [["1", "4"], ["7", "1"], ["2", "1"]]  # |2 S theta| at theta = (1/2, 1/2)
    data = {"counts": ["2", "5", "3"], "H": [["1", "1"]] * 3, "S": omegas, "theta": ["1/2", "1/2"], "c": [["0", "0"]] * 2, "P": 2}
    found = BUILDERS["sampled"]({**data, "tau": "3/5", "lr": "1", "E": 1})
    assert found.weights.tolist() == [[F(2, 7), F(5, 7), 0], [F(2, 5), 0, F(3, 5)], [0, F(5, 8), F(3, 8)]]
    assert found.cohort_zeta[1].tolist() == [F(8, 5) - F(8, 11), F(3, 5)]
