"""Data that Elastic Aggregation takes of a user's problem, to the last bit, and every limit.

Three clients with 3, 2 and 1 samples of two features; all numbers are fractions with a power of two
below, so that floats hold them exactly.
"""

from __future__ import annotations

from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest
import worked_elastic_aggregation as worked
from cases import each

from fedtheory import Bernoulli, Full, Uniform, problems
from fedtheory.algorithms import ElasticAggregation, FedAvg
from fedtheory.errors import FedTheoryError, NotCertified
from fedtheory.local import SGD, GradientSteps, LocalSGD
from fedtheory.problems import hold_out
from fedtheory.theorems import get
from fedtheory.theorems.elastic_aggregation import averages, cohorts
from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.judge.setting import Case

SETTING = setting_of("elastic-aggregation/sign")
A = [[[1, 2], [0.5, -1], [2, 0]], [[3, 0.25], [-1, 1]], [[0.5, 4]]]
B = [[1, -0.5, 3], [2, 5], [-1.5]]


def squares(ridge: float = 0.125):
    return problems.LeastSquares([np.array(a, dtype=float) for a in A], [np.array(b, dtype=float) for b in B], ridge=ridge)


SQUARES = squares()
START = [0.75, -1.25]


def gram(k: int, ridge: F = F(0)) -> list[list[F]]:
    """A'A/n, and the ridge."""
    rows = [[F(v) for v in row] for row in A[k]]
    return [[sum(r[i] * r[j] for r in rows) / len(rows) + (i == j) * ridge for j in range(2)] for i in range(2)]


def minimiser(k: int, ridge: F = F(1, 8)) -> list[F]:
    right = [sum(F(r[i]) * F(b) for r, b in zip(A[k], B[k], strict=True)) / len(B[k]) for i in range(2)]
    return worked.solve(gram(k, ridge), right)


def texts(values):
    return [texts(v) for v in values] if isinstance(values, list | tuple) else str(values)


GRAMS, HESSIANS = texts([gram(k) for k in range(3)]), texts([gram(k, F(1, 8)) for k in range(3)])
MINIMISERS = texts([minimiser(k) for k in range(3)])


def data_of(statement, algorithm=None, problem=SQUARES, x0=START, **how):
    s = get(f"elastic-aggregation/{statement}")
    x0 = np.resize(np.array(x0, dtype=float), problem.dim)
    return SETTING.instance(s, s.forms[0], Case(problem, algorithm or ElasticAggregation(tau=0.3), x0=x0, **how)).data


def test_one_round_of_all_clients():
    expected = {
        "counts": ["3", "2", "1"], "S": GRAMS, "theta": ["3/4", "-5/4"], "tau": "3/10", "H": HESSIANS, "c": MINIMISERS, "eta": "1/4",
    }  # fmt: skip
    algorithm = ElasticAggregation(tau=0.3, server_lr=0.25)
    for how in ({}, {"sampling": Full()}):
        found = data_of("stability", algorithm, local_solver=GradientSteps(3, 0.03125), **how)
        assert found == {**expected, "lr": "1/32", "E": 3}
    plain = data_of("stability", algorithm)
    assert plain["E"] == 2 and F(plain["lr"]) == F(f"{1 / (2 * float(SQUARES.beta_k.max())):.2g}")
    found = data_of("stability", algorithm, local_solver=LocalSGD(20, 0.03125))
    assert (found["E"], found["lr"]) == (20, "1/32")
    assert data_of("stability", ElasticAggregation(tau=0.3, aggregation="cohort"))["counts"] == ["1", "1", "1"]


def test_sensitivities_are_of_what_is_held_out():
    held = hold_out(problems.LeastSquares([np.array(A[0] * 2), np.array(A[1] * 2)], [np.array(B[0] * 2), np.array(B[1] * 2)]), 0.5)
    found, inside = data_of("stability", problem=held), held.held_out
    for k in range(2):
        n, rows = int(inside.sample_counts[k]), inside.features[k]
        S = [[sum(F(float(r[i])) * F(float(r[j])) for r in rows[:n]) / n for j in range(2)] for i in range(2)]
        assert found["S"][k] == texts(S)
    assert found["counts"] == [str(int(n)) for n in held.sample_counts]


def test_what_zeta_alone_decides_needs_no_losses():
    logistic = problems.Logistic([np.array(a, dtype=float) for a in A], [np.sign(b) for b in B], ridge=0.125)
    for statement in ("factors", "zero-sensitivity"):
        found = data_of(statement, problem=logistic)
        assert found["S"] == GRAMS and found["H"] == [["1", "1"]] * 3 and found["c"] == [["3/4", "-5/4"]] * 3
        assert (found["lr"], found["E"]) == ("1", 1)
        assert data_of(statement)["H"] == HESSIANS


def test_a_zero_of_the_mean_motion():
    """theta is one to 1e-8 of the user's problem, and exactly one where the last minimiser has moved by what rounding left."""
    solver = GradientSteps(3, 0.03125)
    for statement in ("sampled-bias", "sampled-attraction"):
        for start in ([0, 0], START):
            found = data_of(statement, x0=start, sampling=Uniform(2), local_solver=solver)
            assert (found["P"], found["c"], found["H"], found["S"]) == (2, MINIMISERS[:2], HESSIANS, GRAMS)
            clients = worked.Cohorts(found)
            assert clients.motion() == [0, 0]
            assert max(abs(a - F(b)) for a, b in zip(clients.c[-1], MINIMISERS[2], strict=True)) < F(1, 10**8)
    for how in ({}, {"sampling": Full()}):
        assert data_of("sampled-bias", x0=[0, 0], local_solver=solver, **how)["P"] == 3


def test_a_client_whose_hessian_is_singular_is_not_the_last():
    """The third client has one sample of two features, so that the second is put last."""
    found = data_of("sampled-bias", problem=squares(0.0), x0=[0, 0], sampling=Uniform(2), local_solver=GradientSteps(2, 0.03125))
    assert found["counts"] == ["3", "1", "2"] and found["S"] == [GRAMS[0], GRAMS[2], GRAMS[1]] == found["H"]
    assert found["c"][0] == texts(minimiser(0, F(0)))


def test_batches_of_the_moving_average():
    """Two samples a batch: of the first client one batch of two samples and one of one."""
    found = data_of("moving-average", ElasticAggregation(tau=0.3, mu=0.9, probe_batch=2))
    theta = [F(3, 4), F(-5, 4)]

    def batch(rows):
        out = [F(0), F(0)]
        for r in rows:
            output = sum(F(a) * t for a, t in zip(r, theta, strict=True))
            out = [o + 2 * output * F(a) / len(rows) for o, a in zip(out, r, strict=True)]
        return texts([abs(v) for v in out])

    assert found == {
        "weights": ["3", "2", "1"], "mu": "9/10", "tau": "3/10",
        "batches": [[batch(A[0][:2]), batch(A[0][2:])], [batch(A[1])], [batch(A[2])]],
    }  # fmt: skip
    whole = data_of("moving-average", ElasticAggregation(tau=0.3, mu=0.9, aggregation="cohort"))
    assert whole["batches"] == [[batch(a)] for a in A] and whole["weights"] == ["1", "1", "1"]


def test_samples_with_labels():
    algorithm, solver = ElasticAggregation(tau=0.3, server_lr=0.25), GradientSteps(3, 0.03125)
    found = data_of("unlabelled", algorithm, problem=squares(0.0), local_solver=solver)
    rows, labels = texts([[[F(v) for v in row] for row in a] for a in A]), texts([[F(v) for v in b] for b in B])
    assert found == {
        "held": rows, "held_labels": labels, "train": rows, "labels": labels, "others": texts([[-F(v) for v in b] for b in B]),
        "counts": ["3", "2", "1"], "theta": ["3/4", "-5/4"], "tau": "3/10", "eta": "1/4", "lr": "1/32", "E": 3,
    }  # fmt: skip


# --- what is refused, at the limit ----------------------------------------------------------------
def wide(d: int, clients: int = 2):
    """Two samples a client; the first client alone sees every feature."""
    some = np.eye(2, d)
    return problems.LeastSquares([some] * clients, [np.ones(2)] * clients, ridge=0.5)


TURNED = problems.LeastSquares([np.array(a, dtype=float) for a in A[::-1]], [np.array(b, dtype=float) for b in B[::-1]])
THIN = problems.LeastSquares([np.array([[1.0, 2.0]]), np.array([[2.0, -1.0]])], [np.ones(1), np.ones(1)])


class Drawn(Bernoulli):
    """A law with a size that is no uniform one."""

    size = 2

    def __init__(self):
        super().__init__(0.5)


TOO_LONG = 1.01 / float(SQUARES.beta_k.max())
REFUSED = [
    ("factors", {"algorithm": FedAvg()}, "about ElasticAggregation, not FedAvg"),
    ("factors", {"problem": problems.random_quadratic(3, 2, seed=0)}, "Quadratic is no linear model"),
    ("factors", {"problem": wide(13)}, "d = 13 parameters, at most 12"),
    ("factors", {"algorithm": ElasticAggregation(probe_batch=1)}, "probe_batch = 1: client 0 has 3 batches .* use probe_batch=None"),
    ("factors", {"algorithm": ElasticAggregation(probe_batch=2)}, "probe_batch = 2: client 0 has 2 batches"),
    ("factors", {"algorithm": ElasticAggregation(probe_batch=2), "problem": TURNED}, "probe_batch = 2: client 2 has 2 batches"),
    ("stability", {"problem": problems.Logistic([np.eye(2)], [np.array([1.0, -1.0])])}, "Logistic is no quadratic loss"),
    ("stability", {"local_solver": GradientSteps(2, 1.0)}, f"lr = 1: it must be at most 1/L = {1 / SQUARES.beta_k.max():.6g}$"),
    ("sampled-bias", {"problem": THIN, "sampling": Uniform(1)}, "every client has fewer independent samples than parameters"),
    ("sampled-bias", {"sampling": Drawn()}, "Drawn: the statement is about cohorts"),
    ("factors", {"algorithm": ElasticAggregation(zero="boost"), "x0": [0, 0]}, "zero = 'boost' at a start where all outputs are 0"),
    ("factors", {"sampling": Uniform(2)}, "Uniform: .* all clients take part"),
    ("unlabelled", {"sampling": Uniform(2)}, "Uniform: .* all clients take part"),
    ("unlabelled", {}, "least squares without a ridge"),
    ("stability", {"algorithm": ElasticAggregation(sign="printed")}, "sign = 'printed'.* use sign='repaired'"),
    ("stability", {"local_solver": GradientSteps(21, 0.03125)}, "E = 21 local steps, at most 20"),
    ("stability", {"local_solver": GradientSteps(2, TOO_LONG)}, "lr = .* it must be at most 1/L = "),
    ("stability", {"local_solver": GradientSteps(2, 0.03125, decay=0.5)}, "full gradient steps of one length"),
    ("stability", {"local_solver": LocalSGD(2, 0.03125, batch_size=1)}, "full gradient steps of one length"),
    ("stability", {"local_solver": LocalSGD(2, 0.03125, noise_std=0.5)}, "full gradient steps of one length"),
    ("stability", {"local_solver": LocalSGD(2, lambda t: 0.03125)}, "full gradient steps of one length"),
    ("stability", {"local_solver": SGD(2, 0.03125, 1)}, "full gradient steps of one length"),
    ("sampled-bias", {"sampling": Bernoulli(0.5)}, "Bernoulli: .* use Uniform"),
    ("sampled-bias", {"algorithm": ElasticAggregation(tau=0.0)}, "N = 3, tau = 0: "),
    ("sampled-bias", {"problem": wide(2, 1)}, "N = 1, tau = 0.3: "),
    ("sampled-bias", {"algorithm": ElasticAggregation(tau=0.3, aggregation="printed")}, "aggregation = 'printed'"),
    ("sampled-bias", {"problem": wide(2, 201), "sampling": Uniform(1)}, "201 cohorts of 1 clients, at most 200"),
    ("sampled-attraction", {"problem": wide(5)}, "d = 5 parameters, at most 4"),
    ("moving-average", {"algorithm": ElasticAggregation(mu=0.0)}, "mu = 0: it must lie strictly between 0 and 1"),
]


@each(("statement", "how", "words"), REFUSED)
def test_what_is_missing_is_said_with_its_limit(statement, how, words):
    with pytest.raises(FedTheoryError, match=words):
        data_of(statement, **how)


def test_what_is_just_within_the_limits_is_taken():
    assert len(data_of("factors", problem=wide(12))["theta"]) == 12
    assert data_of("factors", ElasticAggregation(zero="boost"))["tau"]
    assert data_of("factors", ElasticAggregation(zero="one"), x0=[0, 0])["theta"] == ["0", "0"]
    assert data_of("stability", local_solver=GradientSteps(2, 1 / float(SQUARES.beta_k.max())))["E"] == 2
    assert data_of("sign", ElasticAggregation(sign="printed"))["E"] == 2
    assert data_of("moving-average", ElasticAggregation(probe_batch=1))["batches"]


def test_many_numbers_are_too_many():
    """d = 1: a batch for every one of 20,000 samples, and one more."""

    def of(n: int):
        line = problems.LeastSquares([np.ones((n, 1)), np.ones((1, 1))], [np.ones(n), np.ones(1)])
        return data_of("moving-average", ElasticAggregation(probe_batch=1), line)["batches"]

    with pytest.raises(FedTheoryError, match="20001 batches of 1 numbers, at most 20000"):
        of(20_000)
    assert len(of(50)[0]) == 50


def test_batches_are_counted_with_their_parameters(monkeypatch):
    """Six batches of two numbers."""
    algorithm = ElasticAggregation(probe_batch=1)
    monkeypatch.setattr(averages, "MOST", 12)
    assert len(data_of("moving-average", algorithm)["batches"]) == 3
    monkeypatch.setattr(averages, "MOST", 11)
    with pytest.raises(FedTheoryError, match="6 batches of 2 numbers, at most 11"):
        data_of("moving-average", algorithm)


def test_cohorts_and_parameters_up_to_their_limits(monkeypatch):
    """Three cohorts of two of three clients; two parameters; two clients."""
    how = {"sampling": Uniform(2), "local_solver": GradientSteps(2, 0.03125), "x0": [0, 0]}
    monkeypatch.setattr(cohorts, "MOST_COHORTS", 3)
    monkeypatch.setattr(cohorts, "MOST_LINEARISED", 2)
    assert data_of("sampled-attraction", **how)["P"] == 2
    monkeypatch.setattr(cohorts, "MOST_COHORTS", 2)
    with pytest.raises(FedTheoryError, match="3 cohorts of 2 clients, at most 2"):
        data_of("sampled-attraction", **how)
    assert data_of("sampled-bias", problem=wide(2, 2), sampling=Uniform(1), x0=[0, 0])["P"] == 1


def test_the_zero_is_looked_for_from_x0_or_from_fedavgs_end(monkeypatch):
    """x0 = 0 is no start: there all outputs are 0."""
    found, starts = cohorts._zero, []
    monkeypatch.setattr(cohorts, "_zero", lambda data, P, start: starts.append(start) or found(data, P, start))
    for x0 in ([0, 0], START, [0, -1.25]):
        data_of("sampled-bias", sampling=Uniform(2), local_solver=GradientSteps(2, 0.03125), x0=x0)
    assert starts[0] is None and [list(x) for x in starts[1:]] == [START, [0, -1.25]]


def test_a_zero_that_is_none_is_not_taken(monkeypatch):
    """Refuse a zero far off, and one that would make the last client another one."""
    how = {"sampling": Uniform(2), "local_solver": GradientSteps(2, 0.03125), "x0": [0, 0]}
    found = cohorts._zero
    monkeypatch.setattr(cohorts, "_zero", lambda *data: found(*data) + 1e-3)
    with pytest.raises(NotCertified, match=r"last client's minimiser is .* away: known too coarsely"):
        data_of("sampled-bias", **how)
    monkeypatch.setattr(cohorts, "_zero", found)
    monkeypatch.setattr(cohorts.scipy.optimize, "root", lambda motion, theta, tol: SimpleNamespace(x=theta + 1))
    with pytest.raises(NotCertified, match=r"known to 0\.\d+ only; start elsewhere"):
        data_of("sampled-bias", **how)


def test_an_instance_has_its_kind_and_the_problems_name():
    s = get("elastic-aggregation/stability")
    made = SETTING.instance(s, s.forms[0], Case(SQUARES, ElasticAggregation(tau=0.3), x0=np.array(START)))
    assert (made.kind, made.label) == (s.forms[0].kind, SQUARES.name)
    assert made.view().tau == F(3, 10)
