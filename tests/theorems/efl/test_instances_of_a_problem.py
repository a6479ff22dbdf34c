"""The instance that a user's problem becomes, on numbers that are all different: Theorem 1's constants by the second writing.

Three clients of unequal weights whose curvatures and minimisers are simple fractions, given as floats: what is read off the
problem is these fractions again, and what is computed of them is compared with `validation/references/worked_efl.py`.
"""

from __future__ import annotations

from fractions import Fraction as Q

import numpy as np
import pytest
import worked_efl as worked
from efl_on_a_problem import BOTH_WAYS, MAKE, case_of, view_of

from fedtheory import messages, problems
from fedtheory.algorithms import EFL
from fedtheory.errors import FedTheoryError
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Uniform
from fedtheory.participation.irregular import Irregular, complete, inactive, windows
from fedtheory.rational import to_file
from fedtheory.theorems import all_statements, get
from fedtheory.theorems.efl.shift_world import shift_on, who_moves
from fedtheory.theorems.efl.stability_world import WITHOUT

P, H = [Q(1, 5), Q(3, 10), Q(1, 2)], [[Q(3, 7), Q(5, 3)], [Q(5, 2), Q(6, 5)], [Q(4, 3), Q(7, 4)]]
C, W0 = [[Q(3, 2), Q(-2, 3)], [Q(-5, 4), Q(7, 3)], [Q(2, 5), Q(-3)]], [Q(7, 3), Q(-5, 2)]
PROBLEM = problems.Quadratic([np.diag([float(v) for v in row]) for row in H], [[float(v) for v in row] for row in C], [0.2, 0.3, 0.5])
TURN = np.array([[0.6, -0.8], [0.8, 0.6]])
# the same, coordinates mixed
TURNED = problems.Quadratic([TURN @ M @ TURN.T for M in PROBLEM.hessians], PROBLEM.minimisers @ TURN.T, [0.2, 0.3, 0.5])
IDLE = [[Q(1, 7), 0, Q(6, 7)], [Q(2, 5), 0, Q(3, 5)], [Q(1, 4), 0, Q(3, 4)]]
PARTLY = [[0, Q(2, 7), Q(5, 7)], [0, 1, 0], [0, Q(1, 6), Q(5, 6)]]
U = [[Q(5, 4), Q(1, 2)], [Q(1, 3), Q(3, 2)], [Q(2, 3), Q(7, 5)]]


def law(rows):
    return Irregular(len(rows[0]) - 1, [[float(v) for v in row] for row in rows])


def made(kind, *, needs=(), algorithm=None, problem=PROBLEM, **how):
    forms = [f for s in all_statements("efl/") for f in s.forms if f.kind == kind and set(needs) <= set(f.needs)]
    case = case_of(problem, algorithm or EFL(), **{"x0": [float(v) for v in W0], **how})
    return MAKE[kind](forms[0], case).data


def close(data, **expected):
    for name, value in expected.items():
        found, value = (np.array([[Q(x) for x in row] if isinstance(row, list) else Q(row) for row in side], dtype=float) for side in (
            data[name] if isinstance(data[name], list) else [data[name]], value if isinstance(value, list) else [value]
        ))  # fmt: skip
        assert found == pytest.approx(value, rel=1e-9), name


def minimiser(weights):
    return [sum(p * h[i] * c[i] for p, h, c in zip(weights, H, C)) / sum(p * h[i] for p, h in zip(weights, H)) for i in range(2)]


def run_of(laws, scheme="C", T=4):
    """Theorem 1's run on these clients with one law, by the second writing."""
    rows = {"weights": P, "h": H, "c": C, "w0": W0, "noise": [[0] * 2] * 3}
    return worked.Run(scheme, {**to_file(rows), "laws": [to_file(laws)], "T": T})


def test_inactive_clients():
    run, data = run_of(IDLE), made("inactive", sampling=law(IDLE), rounds=4)
    C_T = run.gamma**2 * run.distance_sq[0] + (16 * run.E / run.mu) ** 2 * sum(run.B(t) / run.S[t] ** 2 for t in range(4))
    close(data, gamma=run.gamma, J=run.J(), C=C_T / 4, y=Q(2, 5), E=2, T=4, tau_0=0, idle=[[row[0] for row in IDLE]] * 4)
    named = made("inactive", sampling=law(IDLE), rounds=4, given={"client": 0, "tau_0": 3, "gamma": 100, "C": 7})
    close(named, gamma=100, J=run.J(), C=7, y=Q(1, 7), tau_0=3)


def test_incomplete_clients():
    run, data = run_of(PARTLY), made("incomplete", sampling=law(PARTLY), rounds=4)
    close(data, weights=P, law=PARTLY, L=run.L, mu=run.mu, G_sq=run.G_sq, D=run.D, sigma_sq=[0, 0, 0])
    noisy = made("incomplete", sampling=law(PARTLY), rounds=4, local_solver=LocalSGD(2, 1.0, noise_std=0.6))
    close(noisy, sigma_sq=[0.36] * 3, D=run.D)


def test_the_threshold_of_the_epochs():
    run = run_of([[0, 0, 1]] * 3, "B")
    data = made("epochs", sampling=complete(3, 2), rounds=4, local_solver=LocalSGD(2, 1.0, noise_std=0.6))
    noise = sum(p * p * Q(9, 25) for p in P) + 6 * run.L * sum(p * D for p, D in zip(P, run.D))
    close(data, noise=noise, kappa=run.L / run.mu, E=2, T=4)
    given = made("epochs", sampling=complete(3, 2), rounds=4, given={"G": 30, "noise": 5})
    close(given, noise=5, G_sq=900, kappa=run.L / run.mu)
    close(made("epochs", sampling=law(PARTLY), rounds=4), G_sq=run.G_sq)  # complete clients, whoever takes part


def test_one_client_that_is_kept_or_abandoned():
    only = [[0, 0, 1], [Q(2, 5), 0, Q(3, 5)], [0, 0, 1]]
    close(made("abandon", sampling=law(only)), weights=[P[0], P[2], P[1]], h=[H[0], H[2], H[1]], c=[C[0], C[2], C[1]], y=Q(2, 5))
    close(made("abandon", sampling=law(only), given={"y": Q(1, 9)}), y=Q(1, 9))


def test_the_numbers_of_table_1():
    run, some = run_of(IDLE, T=50), {"sampling": law(IDLE), "given": {"epsilon": 1 / 16}}
    mean = [sum(p * row[i] for p, row in zip(P, H)) for i in range(2)]
    delta = max(abs(row[i] - mean[i]) for row in H for i in range(2))
    for problem in (PROBLEM, TURNED):
        start = np.array([float(v) for v in W0]) if problem is PROBLEM else TURN @ [float(v) for v in W0]
        close(made("rates", problem=problem, x0=start, **some), G=float(run.G_sq) ** 0.5, L=run.L, mu=run.mu, root=Q(1, 4),
              S=sum(1 - row[0] for row in IDLE), delta=delta)  # fmt: skip
    close(made("rates", sampling=law(IDLE), given={"G": 90, "L": 5, "mu": 0.25, "S": 2, "delta": 3}), G=90, L=5, mu=Q(1, 4), S=2,
          delta=3, root=Q(1, 10))  # fmt: skip
    close(made("units", **some), sigma=1, clients=3, L=run.L, root=Q(1, 4))
    close(made("units", sampling=law(IDLE), given={"sigma_sq": [0.25, 2.25, 1]}), sigma=Q(3, 2))
    close(made("units", sampling=law(IDLE), local_solver=LocalSGD(2, 1.0, noise_std=0.5)), sigma=Q(1, 2))


def test_the_limit_of_a_scheme():
    for scheme in ("A", "B", "C", "C-corrected"):
        data, run = made("limit", sampling=law(IDLE), algorithm=EFL(scheme=scheme), rounds=7), run_of(IDLE, scheme)
        M = [sum(w * row[i] for w, row in zip(run.work(0), H)) for i in range(2)]
        close(data, weights=P, h=H, c=C, law=IDLE, eta=Q(1, 5), x0=W0, step=2 / min(M), offset=2 / min(M) * max(*M, run.L), rounds=7)
        assert data["scheme"] == scheme
    close(made("limit", sampling=law(PARTLY), local_solver=LocalSGD(2, 0.4)), eta=Q(2, 5), rounds=10)
    with pytest.raises(FedTheoryError, match=r"lr = 0.401: the limit is 1/L = 0.4"):
        made("limit", sampling=law(PARTLY), local_solver=LocalSGD(2, 0.401))


def test_the_elastic_term():
    algorithm, given = EFL(lam=0.75), {"u_0": [[float(v) for v in row] for row in U]}
    Us = [sum(row[i] for row in U) for i in range(2)]
    eta = min(Q(3, 4) / Q(5, 2), 1 / (2 * Q(3, 4) * max(Us)))
    close(made("elastic", algorithm=algorithm, given=given), weights=P, h=H, c=C, u=U, lam=Q(3, 4), eta=eta)
    close(made("elastic", algorithm=algorithm, given={**given, "client": 1}), leaver=1, anchor=minimiser(P))
    close(made("elastic", algorithm=algorithm, given={**given, "client": 1, "anchor": [2, -0.5]}), anchor=[2, Q(-1, 2)])
    close(made("elastic", algorithm=EFL(lam=0.05), given=given), eta=Q(3, 10))
    close(made("elastic", algorithm=EFL(lam=0.05), given=given, local_solver=LocalSGD(1, 0.125)), eta=Q(1, 8))
    data = made("stability", algorithm=algorithm, given=given, sampling=complete(3, 4))
    close(data, weights=P, h=H, c=C, u=U, lam=Q(3, 4), eta=Q(3, 10), E=4, start=W0, anchors=C)
    close(made("stability", algorithm=algorithm, given=given, local_solver=LocalSGD(3, 0.125)), eta=Q(1, 8), E=3)
    close(made("stability", algorithm=algorithm, given=given), E=1)


def test_what_counts_after_a_departure():
    """Client 1 is gone from round 4, tau = 3: rounds 0 to 2 are those in which it may work; it comes last."""
    run = run_of(IDLE)
    ratio = [w / p for w, p in zip(run.work(0), P)]
    rows = [[ratio[0], ratio[2], ratio[1]]] * 6
    gone = windows(law(IDLE), {1: (None, 4)})
    close(made("departed", sampling=gone, rounds=6), T=6, tau_0=2, mean_work=rows)
    close(made("departed", sampling=law(IDLE), rounds=6, given={"client": 1}), tau_0=3, mean_work=rows)
    close(made("departed", sampling=gone, rounds=6, given={"client": 1, "tau_0": 2}), tau_0=2)
    with pytest.raises(FedTheoryError, match="tau_0 = 3, but client 1 is gone from round 4, after tau = 2"):
        made("departed", sampling=gone, rounds=6, given={"tau_0": 3})


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("problem", [PROBLEM, TURNED], ids=["coordinates", "mixed"])
def test_the_step_after_a_shift(problem, arrives):
    """Along the eigenvectors of the new objective: its curvatures, and the old optimum seen from the new one."""
    everybody, rest = P, [Q(2, 7), 0, Q(5, 7)]
    old, new = (rest, everybody) if arrives else (everybody, rest)
    curvature = [sum(p * h[i] for p, h in zip(new, H)) for i in range(2)]
    points = [minimiser(old), minimiser(new)]
    away = [a - b for a, b in zip(*points)]
    order = sorted(range(2), key=lambda i: curvature[i])
    L, mu = Q(5, 2) if arrives else Q(7, 4), Q(3, 7)
    sampling = windows(complete(3, 1), {1: (8, None) if arrives else (None, 8)})
    data = made("after-shift", problem=problem, sampling=sampling, rounds=12, local_solver=LocalSGD(1, 1.0, noise_std=0.6))
    close(data, curvature=[curvature[i] for i in order], mu=mu, gamma=64 * L / mu, tau_0=10, rounds=12,
          sigma_sq=Q(9, 25) * sum(p * p for p in new) / 2)  # fmt: skip
    assert [abs(float(Q(v))) for v in data["start"]] == pytest.approx([abs(float(away[i])) for i in order])
    given = {"tau_0": 3, "gamma": 999, "sigma_sq": 2, "L": 4, "mu": 0.25}
    close(made("after-shift", problem=problem, sampling=sampling, given=given), mu=Q(1, 4), gamma=999, tau_0=3, sigma_sq=2, rounds=10)


def test_a_client_that_stops_early():
    for problem, start in ((PROBLEM, [float(v) for v in W0]), (TURNED, TURN @ [float(v) for v in W0])):
        data = made("coefficient", problem=problem, x0=start, sampling=complete(3, 4), given={"client": 1, "s": 3})
        close(data, h=[Q(6, 5), Q(5, 2)], E=4, s=3, factor=Q(4, 3), eta=Q(3, 10))
        assert [abs(float(Q(v))) for v in data["away"]] == pytest.approx([abs(float(C[1][i] - W0[i])) for i in (1, 0)])
    close(made("coefficient", local_solver=LocalSGD(4, 0.125)), h=[Q(3, 7), Q(5, 3)], E=4, s=1, factor=4, eta=Q(1, 8))
    with pytest.raises(FedTheoryError, match=r"the limit here is 0\.15"):
        made("coefficient", local_solver=LocalSGD(4, 0.1501))


def test_what_is_asked_of_the_laws():
    """Each at the limit: who is surely inactive, incomplete, or one of several, and probabilities of 0 and of 1."""
    for kind, rows, said in (
        ("inactive", [IDLE[0], PARTLY[0], IDLE[2]], "client 1 may be incomplete in round 1"),
        ("incomplete", [PARTLY[0], PARTLY[1], IDLE[2]], "client 2 is inactive with probability 0.25"),
        ("abandon", [[0, 0, 1], IDLE[1], IDLE[2]], "client 2 is not always complete"),
        ("abandon", [[0, 0, 1], [Q(1, 2), Q(1, 4), Q(1, 4)], [0, 0, 1]], "client 1 may be incomplete"),
        ("abandon", [[0, 0, 1]] * 3, r"y = 0: it must be > 0"), ("inactive", [[0, 0, 1]] * 3, r"y = 0: it must be > 0"),
    ):  # fmt: skip
        with pytest.raises(FedTheoryError, match=said):
            made(kind, sampling=law(rows))
    with pytest.raises(FedTheoryError, match="client 2 is surely inactive in round 2"):
        made("inactive", sampling=Irregular(2, [np.array(rows, dtype=float) for rows in (IDLE, [IDLE[0], IDLE[1], [1, 0, 0]])]))
    for kind in ("inactive", "abandon"):
        with pytest.raises(FedTheoryError, match="y = 1: a probability of being inactive below 1"):
            made(kind, sampling=law([[0, 0, 1], IDLE[1], [0, 0, 1]]), given={"y": 1})
    for kind in ("inactive", "incomplete", "epochs", "abandon"):
        with pytest.raises(FedTheoryError, match="scheme = B: the statement is about scheme C"):
            made(kind, sampling=law(IDLE), algorithm=EFL(scheme="B"))


def test_a_run_with_compression_takes_the_smaller_factor():
    """E = 2, L/mu = 35/6: gamma = 64 L/mu, or 4E/delta where that is larger; given L and mu count."""
    how = {"x0": [float(v) for v in W0], "rounds": 3, "local_solver": LocalSGD(2, 1.0)}
    view = view_of("compressed-convergence", "repaired", PROBLEM, BOTH_WAYS, **how)
    assert (view.E, view.T, view.delta, view.down) == (2, 3, 0.5, 0.5)
    assert view.gamma == pytest.approx(64 * 35 / 6)
    assert (view.L, view.mu) == pytest.approx((5 / 2, 3 / 7)) and view.D == pytest.approx([float(D) for D in run_of(IDLE).D])
    up = view_of("compressed-convergence", "repaired", PROBLEM, EFL(compressor=messages.ST(0.5)), **how)
    assert (up.delta, up.down) == (0.5, None)
    wider = view_of("compressed-convergence", "repaired", PROBLEM, BOTH_WAYS, **how, given={"L": 5, "mu": 0.25})
    assert wider.gamma == 64 * 20
    part = view_of("compressed-participation", "repaired", PROBLEM, EFL(down_compressor=messages.ST(0.5)), sampling=law(IDLE),
                   x0=how["x0"], rounds=2)  # fmt: skip
    assert (part.delta, part.down, part.T) == (None, 0.5, 2)
    S = sum(float(w) for w in run_of(IDLE).work(0))
    assert part.gamma == pytest.approx(max(8 * 2 / (0.6 * 0.5), 32 * 2 * 3 * 35 / 6 / S))
    assert part.pi == pytest.approx([6 / 7, 3 / 5, 3 / 4])
    assert not np.any(part.R) and np.any(part.R_G)


@pytest.mark.parametrize("client", [0, 2])
def test_the_shift_of_an_optimum(client):
    """Both optima in fractions; weights stand for n_k/n where the samples are not in proportion."""
    rest = [0 if k == client else p for k, p in enumerate(P)]
    at = [minimiser(P), minimiser(rest)]
    gap = [float(sum(h * (x - c) ** 2 for h, c, x in zip(H[client], C[client], x)) / 2) for x in at]
    apart = float(sum((a - b) ** 2 for a, b in zip(*at)))
    for statement, (old, new), n in (("theorem-2-departure", gap, 1), ("theorem-2-arrival", gap[::-1], 1 - float(P[client]))):
        view = view_of(statement, "printed", PROBLEM, EFL(), given={"client": client})
        assert (view.n, view.n_a) == pytest.approx((n, float(P[client]))) and view.distance_sq == pytest.approx(apart)
        assert (view.D_new, view.D_old) == pytest.approx((new, old)) and (view.L, view.mu) == pytest.approx((5 / 2, 3 / 7))


def test_who_moves():
    """The client that is named, else the one with a window for this event, else the last one, however often others are inactive."""
    rare, both = inactive(3, 1, [0.5, 0.0, 0.0]), {0: (None, 5), 1: (3, None)}
    for event, moves in (("departure", 0), ("arrival", 1)):
        for sampling, client in ((rare, 2), (windows(rare, both), moves), (None, 2)):
            view = view_of(f"theorem-2-{event}", "printed", PROBLEM, EFL(), sampling=sampling)
            assert view.n_a == float(P[client]), (event, client)
    bent = problems.Quadratic([[[1.0]], [[-1.0]]], [[0.0], [1.0]])
    with pytest.raises(FedTheoryError, match="some client's loss is not convex"):
        view_of("theorem-2-departure", "printed", bent, EFL(lam=0.5))


def test_inactive_everybody_with_one_law():
    assert made("inactive", sampling=inactive(3, 2, [0.125, 0.25, 0.5]), rounds=2)["y"] == "1/2"


# --- the same clients in other coordinates, and losses whose minima are not 0 ---------------------
def test_corollary_1_does_not_depend_on_the_coordinates():
    """Limits in mixed coordinates, certified in floats, give the losses and bounds of fractions."""
    how = {"sampling": law([[0, 0, 1], [Q(2, 5), 0, Q(3, 5)], [0, 0, 1]])}
    compared = 0
    for form in get("efl/corollary-1").forms:
        views = [view_of("corollary-1", form.name, problem, EFL(), **how) for problem in (PROBLEM, TURNED)]
        if all(view.applies(form) is None for view in views):
            sides, compared = [form.sides(view) for view in views], compared + 1
            for name in ("lhs", "rhs"):
                first, second = (np.array(getattr(side, name), dtype=float) for side in sides)
                assert first == pytest.approx(second, rel=1e-6), (form.name, name)
    assert compared >= 3 and views[1].noise > 0 and views[1].noise_sq > 0


ROWS = np.array([[[1.0, 2.0], [0.5, -1.0], [2.0, 0.25]], [[-1.0, 0.5], [1.5, 1.0], [0.75, -2.0]]])
TARGETS = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])


def test_gaps_are_counted_from_each_clients_own_minimum():
    weights = np.array([0.3, 0.7])
    problem = problems.LeastSquares(list(ROWS), list(TARGETS), 0.25, weights)
    H = np.einsum("nsi,nsj->nij", ROWS, ROWS) / 3 + 0.25 * np.eye(2)
    b = np.einsum("nsi,ns->ni", ROWS, TARGETS) / 3
    own, star = np.linalg.solve(H, b[..., None])[..., 0], np.linalg.solve(np.einsum("n,nij->ij", weights, H), weights @ b)
    gaps = np.array([(x := star - own[k]) @ H[k] @ x / 2 for k in range(2)])
    view = view_of("theorem-2-departure", "printed", problem, EFL(), given={"client": 1})
    away = own[0] - own[1]
    assert (view.D_old, view.D_new) == pytest.approx((gaps[1], away @ H[1] @ away / 2), abs=1e-8)
    plain = {"local_solver": LocalSGD(2, 1.0), "rounds": 2, "x0": [1.0, -1.0]}
    assert view_of("compressed-convergence", "repaired", problem, BOTH_WAYS, **plain).D == pytest.approx(gaps, abs=1e-8)
    part = view_of("compressed-participation", "repaired", problem, EFL(), sampling=law([[0, 1], [Q(1, 4), Q(3, 4)]]), x0=[1.0, -1.0])
    assert part.D == pytest.approx(gaps, abs=1e-8) and part.chance.sum() == pytest.approx(1) and 0 < part.noise < 1e-6
    S, L, mu = float(part.S), problem.beta_k.max(), problem.mu_k.min()
    assert part.gamma == pytest.approx(max(8 / 0.75, 32 * 2 * L / (mu * S))) and part.T == 10  # 2^10 paths
    assert part.rho_sq == 0 and not part.R.any() and not part.R_G.any()


def test_who_takes_part_and_who_moves():
    close(made("rates", sampling=Uniform(2), given={"G": 90}), S=2)
    assert who_moves(windows(complete(3, 1), {0: (2, None), 1: (None, 5)}), "arrival", 3) == 0
    assert who_moves(windows(complete(3, 1), {0: (2, None), 1: (None, 5)}), "departure", 3) == 1
    assert (who_moves(None, "departure", 3), who_moves(None, "arrival", 3, given=1)) == (2, 1)
    with pytest.raises(FedTheoryError, match="clients 0, 1 all have a round of departure"):
        who_moves(windows(complete(3, 1), {0: (None, 4), 1: (None, 5)}), "departure", 3)
    shift_on(PROBLEM, "departure", 0)
    for client in (-1, 3):
        with pytest.raises(FedTheoryError, match=f"there is no client {client}"):
            shift_on(PROBLEM, "departure", client)
    last = Irregular(2, lambda t: np.array([[0, 0, 1]] * 3 if t < 4 else [[0, 0, 1], [0, 1, 0], [0, 0, 1]], dtype=float))
    with pytest.raises(FedTheoryError, match="client 1 may be inactive or incomplete in round 4"):
        view_of("compressed-convergence", "repaired", PROBLEM, BOTH_WAYS, sampling=last, rounds=4)
    for given, said in (({"client": 3}, "client"), ({"s": 5}, "s = 5"), ({"s": 0}, "s")):
        with pytest.raises(FedTheoryError, match=said):
            made("coefficient", sampling=complete(3, 4), given=given)


@pytest.mark.parametrize("E", [1, 3])
def test_the_matrix_of_a_round_where_coordinates_mix(E):
    """(w, V) -> after a round, gone through step by step: 1 - its spectral radius is the margin; without the term V plays no part."""
    u, c = np.array([[1.25, 0.5], [0.25, 1.5], [0.75, 0.125]]), TURNED.minimisers
    how = {"given": {"u_0": u.tolist()}, "local_solver": LocalSGD(E, 0.125)}
    view = view_of("elastic-stability", "every lambda", TURNED, EFL(lam=0.75), **how)

    def after(w, V, lam):
        out = []
        for M, at, own in zip(TURNED.hessians, c, u):
            y = w
            for _ in range(E):
                y = y - 0.125 * (M @ (y - at) + lam * (u.sum(axis=0) * y - V))
            out.append((y, own * y))
        return np.array([0.2, 0.3, 0.5]) @ [y for y, _ in out], sum(v for _, v in out)

    for lam in (0.75, 0.0):
        size = 4 if lam else 2
        zero = np.concatenate(after(np.zeros(2), np.zeros(2), lam))
        columns = [np.concatenate(after(x[:2], x[2:], lam)) - zero for x in np.eye(4)]
        radius = abs(np.linalg.eigvals(np.array(columns).T[:size, :size])).max()
        assert view.margin(lam) == pytest.approx([1 - radius])
    w, V = np.array([0.5, -2.0]), np.array([1.5, 0.25])
    assert view.round(w, V, 0.125) == (pytest.approx(after(w, V, 0.75)[0]), pytest.approx(after(w, V, 0.75)[1]))
    assert pytest.approx((u * c).sum(axis=0)) == view.V
    unstable = view_of("elastic-stability", "every lambda", TURNED, EFL(lam=0.75), **{**how, "local_solver": LocalSGD(E, 1.4)})
    assert view.has(WITHOUT) and not unstable.has(WITHOUT) and unstable.margin(0) < 0


def test_a_schedule_must_be_the_theorems():
    run = run_of(IDLE, T=4)
    eta = [float(v) for v in run.eta]
    how = {"sampling": law(IDLE), "rounds": 4, "x0": [float(v) for v in W0]}
    for factor, taken in ((1 + 5e-10, True), (1 + 2e-9, False), (1 - 2e-9, False)):
        solver = LocalSGD(2, lambda t, factor=factor: eta[t - 1] * (factor if t == 4 else 1))
        if taken:
            view = view_of("theorem-1", "repaired", PROBLEM, EFL(), **how, local_solver=solver)
            assert view.constants.eta == pytest.approx(eta) and view.distance_sq == pytest.approx([float(v) for v in run.distance_sq])
        else:
            with pytest.raises(FedTheoryError, match="but Theorem 1 takes eta_3 = "):
                view_of("theorem-1", "repaired", PROBLEM, EFL(), **how, local_solver=solver)
