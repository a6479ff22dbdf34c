"""EFL's sentences on a user's case: what each is made of, on numbers that are all different, and limits of what is taken."""

from __future__ import annotations

from fractions import Fraction as Q

import numpy as np
import pytest
from efl_on_a_problem import LOGISTIC, MAKE, TWO, case_of

from fedtheory import problems
from fedtheory.algorithms import EFL, FedAvg
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD, TheoremStep
from fedtheory.participation.irregular import Irregular, complete
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems import get
from fedtheory.theorems.efl import feedback_world

H = np.array([[3 / 7, 5 / 3], [5 / 2, 6 / 5], [4 / 3, 7 / 4]])
C = np.array([[3 / 2, -2 / 3], [-5 / 4, 7 / 3], [2 / 5, -3.0]])
P, START = np.array([0.2, 0.3, 0.5]), np.array([7 / 3, -5 / 2])
TURN = np.array([[0.6, -0.8], [0.8, 0.6]])
TURNED = problems.Quadratic([TURN @ np.diag(row) @ TURN.T for row in H], C @ TURN.T, P)
L, MU = 5 / 2, 3 / 7
FLAT = problems.Quadratic([np.eye(2), np.diag([1.0, 0.0])], [[0.0, 0.0], [1.0, 1.0]])
FORM = get("efl/tolerance").forms[0]


def optimum(weights):
    w = np.asarray(weights)[:, None] * H
    return TURN @ ((w * C).sum(axis=0) / w.sum(axis=0))


def away(problem=TURNED, algorithm=None, **how):
    return MAKE["away"](FORM, case_of(problem, algorithm or EFL(), **{"x0": START, **how})).view()


# --- runs with a client away ----------------------------------------------------------------------
@pytest.mark.parametrize(("client", "order"), [(0, [1, 2, 0]), (1, [0, 2, 1]), (None, [0, 1, 2])])
def test_the_client_that_is_away_comes_last(client, order):
    view = away(given={} if client is None else {"client": client})
    assert view.clients.H == pytest.approx(TURNED.hessians[order]) and view.weights.tolist() == P[order].tolist()
    assert view.clients.b == pytest.approx(np.einsum("nij,nj->ni", TURNED.hessians, C @ TURN.T)[order])
    assert (view.mu, view.gamma, view.T) == (
        pytest.approx(MU),
        pytest.approx(64 * L / MU),
        10,
    ) and view.x0.tolist() == START.tolist()
    rest = [0.0 if k == order[-1] else p for k, p in enumerate(P)]
    reach = max(np.linalg.norm(x) for x in (START, optimum(P), optimum(rest)))
    assert reach > 1 and view.noise == pytest.approx(1e-12 * L**2 * reach**2, rel=1e-9, abs=0)


def test_the_rounding_of_flat_losses_near_zero():
    """L = 1/4, everything within 1/2 of 0: sizes below 1 count once, and L as 1."""
    flat = problems.Quadratic([np.eye(2) / 4, np.eye(2) / 8], [[0.5, 0.0], [0.0, 0.25]])
    assert away(flat, x0=[0.25, 0.25]).noise == pytest.approx(1e-12 * 0.5, rel=1e-9, abs=0)


def test_given_numbers_of_a_run_with_a_client_away():
    assert away(given={"L": 5.0}).gamma == pytest.approx(64 * 5 / MU) and away(given={"mu": 0.125}).mu == 0.125
    assert away(given={"mu": 0.125}).gamma == pytest.approx(64 * L / 0.125) and away(given={"gamma": 999}).gamma == 999
    for rounds, T in ((2, 2), (60, 60), (61, 60)):
        assert away(rounds=rounds).T == T
    with pytest.raises(InvalidInput, match="T = 1: two rounds are compared; ask for at least two"):
        away(rounds=1)
    plain = problems.Quadratic([np.eye(1), np.eye(1)], [[0.0], [1.0]])
    assert away(plain, x0=[0.0], given={"gamma": 15}).gamma == 15  # 16/(mu (1 + gamma)) = 1/L
    with pytest.raises(
        InvalidInput,
        match=r"gamma = 14\.99: the first step 16/\(mu \(1 \+ gamma\)\) must be at most 1/L, use at least 16",
    ):
        away(plain, x0=[0.0], given={"gamma": 14.99})
    for problem, algorithm, said in (
        (FLAT, EFL(), "client 1 has mu_k = 0, the limit is > 0: add a ridge"),
        (TURNED, EFL(lam=0.5), "lambda = 0.5: the statement is about lambda = 0"), (TURNED, FedAvg(), "about EFL, not FedAvg"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=said):
            away(problem, algorithm)
    with pytest.raises(InvalidInput, match="gamma = 0: it must be > 0"):
        away(given={"gamma": 0})
    with pytest.raises(MissingCapability, match="Logistic is no quadratic loss"):
        away(LOGISTIC, x0=[0.0, 0.0])


# --- a client that stops early --------------------------------------------------------------------
def coefficient(problem=TURNED, **how):
    return MAKE["coefficient"](
        FORM, case_of(problem, EFL(), **{"x0": TURN @ START, "sampling": complete(3, 4), **how})
    )


def test_one_client_along_its_own_axes():
    found = coefficient(given={"client": 1, "s": 3})
    assert (found.kind, found.label) == ("coefficient", "quadratic") and (
        found.data["E"],
        found.data["s"],
        found.data["factor"],
    ) == (4, 3, "4/3")
    h = np.array([float(Q(v)) for v in found.data["h"]])
    assert h == pytest.approx([6 / 5, 5 / 2]) and float(Q(found.data["eta"])) == pytest.approx(0.3)
    assert float(Q(found.data["eta"])) * max(h) <= 3 / 4 + 1e-15
    away = [abs(float(Q(v))) for v in found.data["away"]]
    assert away == pytest.approx([abs(C[1][1] - START[1]), abs(C[1][0] - START[0])])
    first = coefficient().data
    assert (first["E"], first["s"]) == (4, 1) and [float(Q(v)) for v in first["h"]] == pytest.approx([3 / 7, 5 / 3])


@pytest.mark.parametrize("lr", [0.25, lambda t: 0.25])
def test_a_step_that_is_a_number_is_used(lr):
    """E = 4, s = 1, h up to 1: at most 1/4; a schedule is no number."""
    data = coefficient(TWO, x0=[0.0], sampling=None, local_solver=LocalSGD(4, lr)).data
    assert (data["eta"], data["E"]) == ("1/4", 4)
    shorter = coefficient(
        TWO, x0=[0.0], sampling=None, local_solver=LocalSGD(4, 0.125 if lr == 0.25 else TheoremStep(1.0, 4, 9.0, 1.0))
    )
    assert shorter.data["eta"] == ("1/8" if lr == 0.25 else "1/4")


def test_the_longest_step_is_never_passed():
    """h = 2, E = 4, s = 1: a float that is 1/8 up to rounding is read as 1/8, and 0.3 is the limit where h = 5/2, s = 3."""
    steep = problems.Quadratic([[[2.0]]] * 2, [[0.0], [1.0]])
    above = LocalSGD(4, 0.125 * (1 + 4e-13))
    assert coefficient(steep, x0=[0.0], sampling=None, local_solver=above).data["eta"] == "1/8"
    with pytest.raises(InvalidInput, match=r"lr = 0\.301: E/s times the step must be at most 1/L, the limit here is 0\.3"):
        coefficient(sampling=None, given={"client": 1, "s": 3}, local_solver=LocalSGD(4, 0.301))


@pytest.mark.parametrize(
    ("problem", "how", "said"),
    [
        (TURNED, {"given": {"client": 3}}, "client = 3: it must be at most 2"),
        (TURNED, {"given": {"s": 5}}, "s = 5: it must be at most 4"),
        (TURNED, {"given": {"s": 0}}, "s"), (TURNED, {"given": {"client": -1}}, "client"),
        (FLAT, {"given": {"client": 1}, "sampling": complete(2, 4)}, "client 1 has the curvature 0, the limit is > 0: add a ridge"),
        (TWO, {"x0": [0.0], "sampling": None, "local_solver": LocalSGD(4, 0.2500001)},
         r"lr = 0\.25: E/s times the step must be at most 1/L, the limit here is 0\.25"),
    ],
)  # fmt: skip
def test_what_a_client_that_stops_early_needs(problem, how, said):
    with pytest.raises(InvalidInput, match=said):
        coefficient(problem, **how)
    assert coefficient(given={"client": 2, "s": 4}).data["s"] == 4


# --- fewer samples, or data more alike ------------------------------------------------------------
def test_half_of_the_samples():
    """Weights stand for samples where they are not in proportion to them; what rounding leaves goes with (L reach/mu)^2."""
    view = MAKE["samples"](FORM, case_of(TURNED, EFL(), given={"client": 1})).view()
    order = [0, 2, 1]
    assert view.samples.tolist() == P[order].tolist() and (view.fewer, view.closer) == (0.15, 0.5)
    assert (view.L, view.mu) == pytest.approx((L, MU)) and view.clients.H == pytest.approx(TURNED.hessians[order])
    reach = max(np.linalg.norm(optimum(w)) for w in (P, [0.2, 0.0, 0.5], [0.0, 1.0, 0.0]))
    assert view.noise == pytest.approx(8e-12 * (L * reach / MU) ** 2, rel=1e-9, abs=0)
    rng = np.random.default_rng(3)
    rows = [rng.normal(size=(n, 2)) for n in (4, 6, 10)]
    counted = problems.LeastSquares(rows, [a.sum(axis=1) for a in rows], 0.1, "samples")
    assert MAKE["samples"](FORM, case_of(counted, EFL())).view().samples.tolist() == [4, 6, 10]
    assert MAKE["samples"](FORM, case_of(counted, EFL(), given={"client": 0})).view().fewer == 2
    near = problems.LeastSquares(rows, [a.sum(axis=1) for a in rows], 0.1, [0.2 + 1e-8, 0.3, 0.5 - 1e-8])
    assert MAKE["samples"](FORM, case_of(near, EFL())).view().samples.tolist() == near.weights.tolist()
    for client in (0, 1):  # the others, or the client alone, may be furthest away
        pair = problems.Quadratic([np.eye(1), np.eye(1)], [[0.25], [4.0]], [0.9, 0.1])
        one = MAKE["samples"](FORM, case_of(pair, EFL(), given={"client": client})).view()
        assert one.noise == pytest.approx(8e-12 * 16, rel=1e-9, abs=0)
    with pytest.raises(InvalidInput, match="mu_k = 0, the limit is > 0"):
        MAKE["samples"](FORM, case_of(FLAT, EFL()))


# --- the elastic term of a real run ---------------------------------------------------------------
SOME = Irregular(1, np.eye(2)[[[1, 0, 1], [1, 1, 0], [0, 1, 1]]].tolist())
ELASTIC = EFL(lam=0.3)


def test_the_pairs_of_the_last_two_rounds():
    solver, how = LocalSGD(1, 0.2), {"sampling": SOME, "rounds": 3, "seed": 4}
    made = MAKE["term"](FORM, case_of(LOGISTIC, ELASTIC, x0=[0.5, -1.0], local_solver=solver, **how))
    states = simulate(
        LOGISTIC, ELASTIC, 3, np.array([0.5, -1.0]), SOME, 1, 4, solver, keep_states=True, dense=True
    ).states
    data = made.data

    def close(name, value):
        assert np.array([[float(Q(x)) for x in row] for row in data[name]]) == pytest.approx(np.asarray(value)), name

    (u, v), (next_u, next_v) = ((np.asarray(s.u)[0], np.asarray(s.v)[0]) for s in states[-2:])
    close("u", u), close("next_u", next_u)
    close("anchors", np.divide(v, u, out=np.zeros_like(u), where=u > 0))
    close("next_anchors", np.divide(next_v, next_u, out=np.zeros_like(u), where=next_u > 0))
    last = np.asarray(states[-1].x)[0]
    close("points", [[0.5, -1.0], last, (np.array([0.5, -1.0]) + last) / 2])
    assert data["lam"] == "3/10" and data["active"] == [0, 1] and (made.kind, made.label) == ("term", LOGISTIC.name)


def test_a_client_that_was_never_there_has_no_anchor():
    late = Irregular(1, np.eye(2)[[[1, 1, 0], [1, 1, 0], [0, 1, 1]]].tolist())
    data = MAKE["term"](FORM, case_of(LOGISTIC, ELASTIC, sampling=late, rounds=2)).data
    assert [Q(x) for name in ("u", "anchors") for x in data[name][2]] == [0] * 4 and data["active"] == [0, 1]


def test_what_the_elastic_term_needs(monkeypatch):
    for algorithm in (EFL(), FedAvg()):
        with pytest.raises(InvalidInput, match="lambda = 0, the limit is > 0: the statement is about the elastic term"):
            MAKE["term"](FORM, case_of(LOGISTIC, algorithm))
    with pytest.raises(InvalidInput, match="one round: the term is looked at after two of them; ask for more rounds"):
        MAKE["term"](FORM, case_of(LOGISTIC, ELASTIC, rounds=1))
    monkeypatch.setattr(feedback_world, "MOST_NUMBERS", 6)
    assert MAKE["term"](FORM, case_of(LOGISTIC, ELASTIC, rounds=2)).data["active"] == [0, 1, 2]
    monkeypatch.setattr(feedback_world, "MOST_NUMBERS", 5)
    with pytest.raises(InvalidInput, match="N d = 6: at most 5 are judged in fractions; take fewer clients"):
        MAKE["term"](FORM, case_of(LOGISTIC, ELASTIC, rounds=2))
